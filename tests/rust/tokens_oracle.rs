//! Exact counts equal those of the reference engines: tiktoken-rs for OpenAI's encodings, the crate `tiktoken` for the
//! open models'. On random Unicode, on pathological inputs, and on every text of the shared data.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    missing_docs,
    reason = "a test may fail by panicking, and prints what it found"
)]

use mt_context::tokens::encoding::Encoding;
use mt_context::tokens::split::{DeepSeek, Split};
use proptest::prelude::*;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// tiktoken-rs by encoding.
fn reference(encoding: Encoding) -> Option<&'static tiktoken_rs::CoreBPE> {
    match encoding {
        Encoding::O200kBase => Some(tiktoken_rs::o200k_base_singleton()),
        Encoding::Cl100kBase => Some(tiktoken_rs::cl100k_base_singleton()),
        Encoding::P50kBase => Some(tiktoken_rs::p50k_base_singleton()),
        Encoding::R50kBase => Some(tiktoken_rs::r50k_base_singleton()),
        _ => None,
    }
}

const OPENAI: [Encoding; 4] = [
    Encoding::O200kBase,
    Encoding::Cl100kBase,
    Encoding::P50kBase,
    Encoding::R50kBase,
];
const OPEN: [Encoding; 7] = [
    Encoding::DeepSeekV3,
    Encoding::Qwen2,
    Encoding::Glm4,
    Encoding::Glm5,
    Encoding::KimiK2,
    Encoding::MiniMaxM2,
    Encoding::Llama3,
];

/// DeepSeek's three steps of cutting as its `tokenizer.json` states them. The crate `tiktoken` folds them into one regex,
/// which differs where Chinese follows a letter, so that it is no oracle for every string.
fn deepseek_pieces(text: &str) -> Vec<&str> {
    static STEPS: LazyLock<[fancy_regex::Regex; 3]> = LazyLock::new(|| {
        [
            r"\p{N}{1,3}",
            r"[一-龥\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+",
            r"[!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ]
        .map(|step| fancy_regex::Regex::new(step).unwrap())
    });
    let mut parts = vec![text];
    for step in STEPS.iter() {
        let mut cut = Vec::new();
        for part in parts {
            let mut at = 0;
            for found in step.find_iter(part).map(Result::unwrap) {
                cut.extend([&part[at..found.start()], found.as_str()]);
                at = found.end();
            }
            cut.push(&part[at..]);
        }
        parts = cut.into_iter().filter(|p| !p.is_empty()).collect();
    }
    parts
}

static LEFT_OVER: LazyLock<fancy_regex::Regex> =
    LazyLock::new(|| fancy_regex::Regex::new(r"^[^\p{L}\p{M}\p{N}\p{P}\p{S}\s]{2,}$").unwrap());

fn pieces<S: Split>(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let end = S::next(text.as_bytes(), at);
        found.push(&text[at..end]);
        at = end;
    }
    found
}

#[track_caller]
fn same(encodings: &[Encoding], text: &str) {
    for &encoding in encodings {
        let ours = encoding.count(text).unwrap();
        if encoding == Encoding::DeepSeekV3 && deepseek_pieces(text) != pieces::<DeepSeek>(text) {
            assert_eq!(pieces::<DeepSeek>(text), deepseek_pieces(text));
        }
        let theirs = match reference(encoding) {
            Some(bpe) => bpe.count_ordinary(text),
            None => {
                let engine = tiktoken::get_encoding(encoding.name()).unwrap();
                match encoding {
                    // Text that the last step leaves over is one piece; the crate cuts it again, so there only our own
                    // merging (tested by itself) can count.
                    Encoding::DeepSeekV3 => deepseek_pieces(text)
                        .into_iter()
                        .map(|p| match LEFT_OVER.is_match(p).unwrap() {
                            true => encoding.count(p).unwrap() as usize,
                            false => engine.count(p),
                        })
                        .sum(),
                    _ => engine.count(text),
                }
            }
        };
        let shown: String = text.chars().take(200).collect();
        assert_eq!(
            ours,
            theirs as u64,
            "{encoding:?} on {} bytes: {shown:?}",
            text.len()
        );
    }
}

/// Text as tools and models write it: scripts, marks, spaces, cases, digits, contractions and line ends, mixed.
fn mixed_text() -> impl Strategy<Value = String> {
    let pieces = [
        "a",
        "B",
        "ab",
        "AB",
        "Ab",
        "aB",
        "the",
        " the",
        "The",
        "HTTP",
        "é",
        "É",
        "ß",
        "ſ",
        "K",
        "ǅ",
        "ʰ",
        "ª",
        "中",
        "文",
        "中文",
        "的",
        "々",
        "〇",
        "⺀",
        "㐀",
        "龥",
        "龦",
        "𠀀",
        "あ",
        "ア",
        "ー",
        "・",
        "゠",
        "한국",
        "ก",
        "ำ",
        "हि",
        "न्दी",
        "א",
        "ع",
        "ً",
        "\u{301}",
        "\u{308}",
        "\u{20dd}",
        "\u{16ff0}",
        "\u{302a}",
        "1",
        "12",
        "123",
        "1234",
        "٣",
        "Ⅷ",
        "½",
        "²",
        " ",
        "  ",
        "   ",
        "\t",
        "\n",
        "\r",
        "\r\n",
        "\n\n",
        "\u{b}",
        "\u{c}",
        "\u{85}",
        "\u{a0}",
        "\u{1680}",
        "\u{2003}",
        "\u{2028}",
        "\u{202f}",
        "\u{3000}",
        "\u{200b}",
        "\u{200d}",
        "\u{feff}",
        "\0",
        "\u{1}",
        "\u{7f}",
        "\u{e000}",
        "\u{fffd}",
        "\u{10ffff}",
        "'s",
        "'S",
        "'ſ",
        "'t",
        "'re",
        "'RE",
        "'rE",
        "'ve",
        "'ll",
        "'lL",
        "'d",
        "'m",
        "'",
        "''",
        "/",
        "//",
        "/\n",
        ".",
        "...",
        "!",
        "-",
        "_",
        "(",
        "{}",
        "=>",
        "\"",
        "@",
        "$",
        "€",
        "，",
        "。",
        "「",
        "😀",
        "👍🏽",
        "👨‍👩‍👧",
        "<|endoftext|>",
    ];
    let piece = prop_oneof![
        8 => prop::sample::select(pieces.to_vec()).prop_map(str::to_owned),
        2 => any::<char>().prop_map(String::from),
        1 => "[a-z]{1,20}",
        1 => "[A-Za-z0-9+/]{1,40}",
        1 => "[!-/:-@]{1,30}",
        1 => "[\u{4e00}-\u{9fff}]{1,30}",
        1 => " {1,40}",
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

fn cases(default: u32) -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(default);
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases(3_000))]

    #[test]
    fn counts_of_mixed_unicode_equal_tiktoken_rs(text in mixed_text()) {
        same(&OPENAI, &text);
    }

    #[test]
    fn counts_of_mixed_unicode_equal_the_open_vocabularies(text in mixed_text()) {
        same(&OPEN, &text);
    }

    #[test]
    fn counts_of_any_string_equal_tiktoken_rs(text in any::<String>()) {
        same(&OPENAI, &text);
    }
}

#[test]
fn counts_of_repeated_and_random_megabytes_equal_the_reference() {
    let n = 200_000;
    let mut seed = 7_u32;
    let mut random = move |below: u32| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) % below
    };
    let base64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let punct = b"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
    let texts = [
        "a".repeat(n),
        "A".repeat(n),
        "ab".repeat(n / 2),
        " ".repeat(n),
        "\n".repeat(n),
        "\r\n".repeat(n / 2),
        "\t".repeat(n),
        "0".repeat(n),
        "中".repeat(n / 3),
        "😀".repeat(n / 4),
        "e\u{301}".repeat(n / 3),
        "\u{301}".repeat(n / 2),
        "=".repeat(n),
        "'s".repeat(n / 2),
        (0..n)
            .map(|_| char::from(base64[random(64) as usize]))
            .collect(),
        (0..n)
            .map(|_| char::from(punct[random(32) as usize]))
            .collect(),
        (0..n)
            .map(|_| char::from(b'a' + random(26) as u8))
            .collect(),
        (0..n / 3)
            .map(|_| char::from_u32(0x4E00 + random(20_000)).unwrap())
            .collect(),
        (0..n / 3)
            .map(|_| char::from_u32(random(0xD800)).unwrap())
            .collect(),
        format!("function(a,b){{return a.{}}}", "x(b)||".repeat(n / 6)),
    ];
    for text in &texts {
        same(&OPENAI, text);
    }
}

#[test]
fn a_million_spaces_count_as_many_tokens_as_the_vocabulary_allows() {
    // tiktoken-rs panics here, so the second engine is the oracle, and a smaller size of the first.
    for c in [" ", "\n", "a", "."] {
        let text = c.repeat(1_000_000);
        let spaces = Encoding::MiniMaxM2.count(&text).unwrap();
        assert_eq!(
            spaces,
            tiktoken::get_encoding("minimax_m2").unwrap().count(&text) as u64,
            "{c:?}"
        );
    }
    // A run of spaces is one piece, of tokens of 128 spaces (o200k) at most.
    let count = |n: usize| Encoding::O200kBase.count(&" ".repeat(n)).unwrap();
    assert_eq!(
        count(1_000_000) - count(500_032),
        (1_000_000 - 500_032) / 128
    );
    same(&[Encoding::O200kBase], &" ".repeat(500_032));
}

fn shared_data() -> Option<PathBuf> {
    let root = match std::env::var_os("MT_CONTEXT_SHARED") {
        Some(path) => PathBuf::from(path),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared"),
    };
    // A worktree lies one folder deeper than the project.
    let found = [
        root.join("data"),
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data"),
    ];
    let found = found.into_iter().find(|p| p.is_dir());
    if found.is_none() {
        println!("skipped: no shared data beside the project");
    }
    found
}

fn files(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, into)
        } else {
            into.push(path)
        }
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "reads test data")]
fn counts_of_every_shared_text_equal_the_references() {
    let Some(data) = shared_data() else { return };
    let mut paths = Vec::new();
    files(&data, &mut paths);
    assert!(paths.len() > 100, "{} files", paths.len());
    for path in paths {
        let mut bytes = std::fs::read(&path).unwrap();
        if path.extension().is_some_and(|e| e == "gz") {
            let mut unpacked = Vec::new();
            flate2::read::MultiGzDecoder::new(&bytes[..])
                .read_to_end(&mut unpacked)
                .unwrap();
            bytes = unpacked;
        }
        let text = String::from_utf8_lossy(&bytes);
        let mut cut = text.len().min(3_000_000);
        while !text.is_char_boundary(cut) {
            cut -= 1;
        }
        same(&[Encoding::O200kBase, Encoding::Cl100kBase], &text[..cut]);
        let mut cut = cut.min(300_000);
        while !text.is_char_boundary(cut) {
            cut -= 1;
        }
        same(&OPEN, &text[..cut]);
    }
}
