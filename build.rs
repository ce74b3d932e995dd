//! Writes the embedded vocabularies and the character classes of the pre-tokenisers to `OUT_DIR`.
//!
//! The vocabularies come out of the crates that ship them (`tiktoken-rs` for OpenAI's, `tiktoken` for the open models'),
//! by decoding every rank; the classes come out of `regex-syntax`, the tables the reference engine's regex uses. So no
//! table lies in git, and neither crate is linked into the library. A failure here is a failed build, hence the panics.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a build script's way to report is to fail the build"
)]

use regex_syntax::hir::{Class, HirKind};
use std::collections::HashMap;
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let out = std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    let out = Path::new(&out);
    write_vocabularies(out);
    write_classes(out);
}

/// Tokens by rank; `None` where a rank is a special token or unused.
type Tokens = Vec<Option<Vec<u8>>>;

fn write_vocabularies(out: &Path) {
    let openai = |bpe: tiktoken_rs::CoreBPE, size: usize| -> Tokens {
        let tokens: Tokens = (0..size as u32)
            .map(|rank| bpe.decode_bytes(&[rank]).ok())
            .collect();
        tokens
            .into_iter()
            .map(|t| t.filter(|t| !t.starts_with(b"<|endoftext|>")))
            .collect()
    };
    let open = |name: &str| -> Tokens {
        let bpe = tiktoken::get_encoding(name).expect("the feature is on");
        let mut missing = bpe.vocab_size();
        let mut tokens = Tokens::new();
        while missing > 0 {
            let token = bpe.decode(&[tokens.len() as u32]);
            missing -= usize::from(!token.is_empty());
            // DeepSeek's ranks begin with three special tokens, written with full-width bars.
            let special = token.is_empty() || token.starts_with("<｜".as_bytes());
            tokens.push((!special).then_some(token));
            assert!(tokens.len() < 1 << 20, "{name}: {missing} tokens not found");
        }
        tokens
    };
    let cl100k = openai(tiktoken_rs::cl100k_base().unwrap(), 100_256);
    let r50k = openai(tiktoken_rs::r50k_base().unwrap(), 50_256);
    let p50k = openai(tiktoken_rs::p50k_base().unwrap(), 50_281);
    let glm4 = open("glm4");
    let glm5 = open("glm5");
    let llama3 = open("llama3");
    write_vocabulary(
        out,
        "o200k_base",
        &openai(tiktoken_rs::o200k_base().unwrap(), 199_998),
        0,
    );
    write_vocabulary(out, "p50k_base_tail", &p50k, shared_prefix(&r50k, &p50k));
    write_vocabulary(out, "glm5_tail", &glm5, shared_prefix(&glm4, &glm5));
    write_vocabulary(out, "llama3_tail", &llama3, shared_prefix(&cl100k, &llama3));
    write_vocabulary(out, "cl100k_base", &cl100k, 0);
    write_vocabulary(out, "r50k_base", &r50k, 0);
    write_vocabulary(out, "glm4", &glm4, 0);
    for name in ["deepseek_v3", "qwen2", "kimi_k2", "minimax_m2"] {
        write_vocabulary(out, name, &open(name), 0);
    }
}

/// The length of `base`, once it is sure that `base` is how `derived` begins: then only the rest is stored.
fn shared_prefix(base: &Tokens, derived: &Tokens) -> usize {
    assert_eq!(
        base[..],
        derived[..base.len()],
        "the derived vocabulary does not begin with its base"
    );
    base.len()
}

/// One vocabulary from rank `from` on, sorted by bytes. In columns, which a wheel's deflate packs best: the number of tokens,
/// the first rank, whether merging reaches every token with a character of three bytes (u32 each); for each token how many bytes it shares with the one before, how many follow (u16), its
/// rank less the first (three planes of one byte); then the bytes that follow.
fn write_vocabulary(out: &Path, name: &str, tokens: &Tokens, from: usize) {
    let bytes = tokens.iter().flatten().filter(|t| t.len() == 1).count();
    assert_eq!(
        bytes, 256,
        "{name}: counting relies on every single byte being a token"
    );
    let mut sorted: Vec<(&[u8], u32)> = tokens[from..]
        .iter()
        .zip(0..)
        .filter_map(|(token, rank)| Some((token.as_deref()?, rank)))
        .collect();
    sorted.sort_unstable();
    let mut shared = Vec::new();
    let mut lengths = Vec::new();
    let mut planes = [Vec::new(), Vec::new(), Vec::new()];
    let mut rest = Vec::new();
    let mut before: &[u8] = &[];
    for (token, rank) in sorted {
        let common = token
            .iter()
            .zip(before)
            .take(255)
            .take_while(|(a, b)| a == b)
            .count();
        shared.push(common as u8);
        lengths.extend_from_slice(&u16::try_from(token.len() - common).unwrap().to_le_bytes());
        for (plane, byte) in planes.iter_mut().zip(rank.to_le_bytes()) {
            plane.push(byte);
        }
        assert!(rank < 1 << 24, "short merges and the planes rely on it");
        rest.extend_from_slice(&token[common..]);
        before = token;
    }
    let head = [
        shared.len() as u32,
        from as u32,
        u32::from(wide_tokens_are_reached(tokens)),
    ];
    let head: Vec<u8> = head.iter().flat_map(|n| n.to_le_bytes()).collect();
    let file = [head, shared, lengths, planes.concat(), rest].concat();
    std::fs::write(out.join(format!("{name}.vocab")), file).unwrap();
}

/// Whether merging the bytes of every token with a character of three bytes ends in that token. GLM has some where it does
/// not: a whole piece may be that token, but a part of a piece never becomes it.
fn wide_tokens_are_reached(tokens: &Tokens) -> bool {
    let ranks: HashMap<&[u8], usize> = tokens
        .iter()
        .enumerate()
        .filter_map(|(rank, token)| Some((token.as_deref()?, rank)))
        .collect();
    tokens
        .iter()
        .flatten()
        .filter(|t| t.iter().any(|b| b & 0xF0 == 0xE0))
        .all(|token| {
            let mut ends: Vec<usize> = (0..=token.len()).collect();
            let pair = |ends: &[usize]| {
                (0..ends.len() - 2)
                    .filter_map(|i| Some((*ranks.get(&token[ends[i]..ends[i + 2]])?, i)))
                    .min()
            };
            while let Some((_, i)) = (ends.len() > 2).then(|| pair(&ends)).flatten() {
                ends.remove(i + 1);
            }
            ends.len() == 2
        })
}

/// Class numbers: the same as in `src/tokens/classes.rs`.
const CLASSES: [(u8, &str); 8] = [
    (1, r"[\p{P}\p{S}]"),
    (2, r"[\s&&[^\r\n]]"),
    (3, r"[\r\n]"),
    (4, r"\p{N}"),
    (5, r"[\p{Lu}\p{Lt}]"),
    (6, r"\p{Ll}"),
    (7, r"[\p{Lm}\p{Lo}]"),
    (8, r"\p{M}"),
];

fn ranges(pattern: &str) -> Vec<(usize, usize)> {
    match regex_syntax::parse(pattern).unwrap().into_kind() {
        HirKind::Class(Class::Unicode(class)) => class
            .ranges()
            .iter()
            .map(|r| (r.start() as usize, r.end() as usize))
            .collect(),
        other => panic!("{pattern}: not a class but {other:?}"),
    }
}

/// A two-stage table: code point / 128 → block, block and code point % 128 → class.
fn write_classes(out: &Path) {
    let mut classes = vec![0_u8; 0x11_0000];
    for (class, pattern) in CLASSES {
        for (start, end) in ranges(pattern) {
            for slot in &mut classes[start..=end] {
                assert_eq!(*slot, 0, "the classes overlap");
                *slot = class;
            }
        }
    }
    for (start, end) in ranges(r"\p{Han}") {
        for slot in &mut classes[start..=end] {
            *slot = match *slot {
                7 => 9,
                4 => 10,
                1 => 11,
                8 => 12,
                other => panic!("a Han character of class {other}"),
            };
        }
    }
    let mut blocks: Vec<&[u8]> = Vec::new();
    let mut seen: HashMap<&[u8], usize> = HashMap::new();
    let mut index = Vec::new();
    for block in classes.chunks(128) {
        let number = *seen.entry(block).or_insert_with(|| {
            blocks.push(block);
            blocks.len() - 1
        });
        index.push(u16::try_from(number).unwrap());
    }
    // Powers of two, so that a mask keeps every index inside without a bounds check.
    index.resize(0x1F_FFFF / 128 + 1, index.last().copied().unwrap());
    let mut flat: Vec<u8> = blocks.concat();
    flat.resize(flat.len().next_power_of_two(), 0);
    let text = format!(
        "static BLOCK_OF: [u16; {}] = {index:?};\nstatic CLASS_OF: [u8; {}] = {flat:?};\n",
        index.len(),
        flat.len()
    );
    std::fs::write(out.join("classes.rs"), text).unwrap();
}
