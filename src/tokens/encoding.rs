//! The exact engine: which encodings there are, and how many tokens a text has in one.
//!
//! Special tokens are ordinary text, as a tool's output has them. It refuses unknown names with
//! [`Error::UnknownEncoding`].
//!
//! I1: a count never depends on what was counted before (the piece cache compares whole keys).
//! I2: counts equal those of tiktoken-rs and of the crate `tiktoken` (tests: `tokens_oracle.rs`).

#![expect(
    clippy::indexing_slicing,
    reason = "hot: indexes are masked with the length of their array, a power of two"
)]

use super::merge::{self, PADDING, SHORT, Scratch};
use super::split::{Cl100k, DeepSeek, Gpt2, Kimi, O200k, Split};
use super::vocab::{NONE, Vocab, word};
use crate::error::{Error, Result};
use std::cell::RefCell;
use std::sync::OnceLock;

/// A vocabulary with its way of cutting text (spec 1). The names are those of tiktoken and of the model families.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Encoding {
    /// GPT-4o, GPT-4.1, GPT-5, o1 to o4; as `o200k_harmony` gpt-oss.
    O200kBase,
    /// GPT-4, GPT-3.5.
    Cl100kBase,
    /// text-davinci-003 and its edit models.
    P50kBase,
    /// GPT-2, GPT-3.
    R50kBase,
    /// DeepSeek V3, R1, V4.
    DeepSeekV3,
    /// Qwen 2, 2.5, 3.
    Qwen2,
    /// GLM 4, 4.5, 4.6, 4.7.
    Glm4,
    /// GLM 5.
    Glm5,
    /// Kimi K2, K3.
    KimiK2,
    /// MiniMax M2.
    MiniMaxM2,
    /// Llama 3.
    Llama3,
}

macro_rules! embedded {
    ($($name:literal),+) => {
        &[$(include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".vocab"))),+]
    };
}

impl Encoding {
    /// Every encoding.
    pub const ALL: [Self; 11] = [
        Self::O200kBase,
        Self::Cl100kBase,
        Self::P50kBase,
        Self::R50kBase,
        Self::DeepSeekV3,
        Self::Qwen2,
        Self::Glm4,
        Self::Glm5,
        Self::KimiK2,
        Self::MiniMaxM2,
        Self::Llama3,
    ];

    /// The canonical name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::O200kBase => "o200k_base",
            Self::Cl100kBase => "cl100k_base",
            Self::P50kBase => "p50k_base",
            Self::R50kBase => "r50k_base",
            Self::DeepSeekV3 => "deepseek_v3",
            Self::Qwen2 => "qwen2",
            Self::Glm4 => "glm4",
            Self::Glm5 => "glm5",
            Self::KimiK2 => "kimi_k2",
            Self::MiniMaxM2 => "minimax_m2",
            Self::Llama3 => "llama3",
        }
    }

    /// The encoding of that name, also under the names that differ only in special tokens.
    ///
    /// # Errors
    /// [`Error::UnknownEncoding`], which lists the names.
    pub fn by_name(name: &str) -> Result<Self> {
        let lower = name.to_ascii_lowercase();
        let canonical = match lower.as_str() {
            "o200k_harmony" | "o200k" => "o200k_base",
            "cl100k" => "cl100k_base",
            "p50k_edit" | "p50k" => "p50k_base",
            "gpt2" | "r50k" => "r50k_base",
            "deepseek" | "deepseek_v4" => "deepseek_v3",
            "qwen" | "qwen3" => "qwen2",
            "kimi" | "kimi_k3" => "kimi_k2",
            "minimax" => "minimax_m2",
            "glm" => "glm5",
            other => other,
        };
        Self::ALL
            .into_iter()
            .find(|e| e.name() == canonical)
            .ok_or_else(|| Error::UnknownEncoding {
                name: name.chars().take(80).collect(),
                known: Self::ALL.map(Self::name).join(", "),
            })
    }

    const fn parts(self) -> &'static [&'static [u8]] {
        match self {
            Self::O200kBase => embedded!("o200k_base"),
            Self::Cl100kBase => embedded!("cl100k_base"),
            Self::P50kBase => embedded!("r50k_base", "p50k_base_tail"),
            Self::R50kBase => embedded!("r50k_base"),
            Self::DeepSeekV3 => embedded!("deepseek_v3"),
            Self::Qwen2 => embedded!("qwen2"),
            Self::Glm4 => embedded!("glm4"),
            Self::Glm5 => embedded!("glm4", "glm5_tail"),
            Self::KimiK2 => embedded!("kimi_k2"),
            Self::MiniMaxM2 => embedded!("minimax_m2"),
            Self::Llama3 => embedded!("cl100k_base", "llama3_tail"),
        }
    }

    /// The vocabulary, loaded at the first use.
    ///
    /// # Errors
    /// [`Error::Internal`] if the embedded bytes are damaged.
    pub fn vocab(self) -> Result<&'static Vocab> {
        static LOADED: [OnceLock<Option<Vocab>>; 11] = [const { OnceLock::new() }; 11];
        LOADED
            .get(self as usize)
            .and_then(|slot| slot.get_or_init(|| Vocab::load(self.parts()).ok()).as_ref())
            .ok_or_else(|| {
                Error::Internal(format!(
                    "the embedded vocabulary {} is damaged",
                    self.name()
                ))
            })
    }

    /// All tokens with their ranks, for other engines to count with the same vocabulary.
    ///
    /// # Errors
    /// [`Error::Internal`] if the embedded bytes are damaged.
    pub fn tokens(self) -> Result<Vec<(Vec<u8>, u32)>> {
        super::vocab::tokens(self.parts())
    }

    /// The number of tokens of `text`, on this thread.
    ///
    /// # Errors
    /// [`Error::Internal`] if the embedded bytes are damaged.
    pub fn count(self, text: &str) -> Result<u64> {
        let vocab = self.vocab()?;
        let text = text.as_bytes();
        Ok(STATE.with_borrow_mut(|state| match self {
            Self::O200kBase | Self::MiniMaxM2 => count::<O200k>(self, vocab, text, state),
            Self::Cl100kBase => count::<Cl100k<3, true>>(self, vocab, text, state),
            Self::Glm4 | Self::Glm5 | Self::Llama3 => {
                count::<Cl100k<3, false>>(self, vocab, text, state)
            }
            Self::Qwen2 => count::<Cl100k<1, false>>(self, vocab, text, state),
            Self::P50kBase | Self::R50kBase => count::<Gpt2>(self, vocab, text, state),
            Self::DeepSeekV3 => count::<DeepSeek>(self, vocab, text, state),
            Self::KimiK2 => count::<Kimi>(self, vocab, text, state),
        }))
    }
}

/// What one thread keeps: the piece cache of all encodings together, and the buffers of the long merge.
struct State {
    /// A slot is a piece of at most [`CACHED`] bytes, its encoding and length, and its number of tokens; 0 is empty.
    cache: Box<[u128]>,
    scratch: Scratch,
}

/// Slots of the cache: 256 KiB a thread, which a core's second-level cache holds.
const SLOTS: usize = 1 << 14;
/// Longest piece in the cache, in bytes. Byte 14 of a slot is encoding and length, byte 15 the count.
const CACHED: usize = 14;

thread_local! {
    static STATE: RefCell<State> =
        RefCell::new(State { cache: vec![0; SLOTS].into_boxed_slice(), scratch: Scratch::default() });
}

/// Pieces looked up together. A lookup in a table that no cache holds takes a hundred times longer than cutting a piece off,
/// and the processor waits for many at once if none depends on another.
const BATCH: usize = 64;

/// Pieces whose lookup is under way: key without count, and where the piece lies.
struct Batch {
    key: [u128; BATCH],
    place: [(usize, usize); BATCH],
    filled: usize,
}

#[inline(always)]
const fn slot_of(key: u128) -> usize {
    (((key as u64) ^ (key >> 64) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 50) as usize
}

fn count<S: Split>(encoding: Encoding, vocab: &Vocab, text: &[u8], state: &mut State) -> u64 {
    let tag = (encoding as u128) << 116;
    let mut batch = Batch {
        key: [0; BATCH],
        place: [(0, 0); BATCH],
        filled: 0,
    };
    let mut total = 0;
    let mut at = 0;
    while at < text.len() {
        let end = S::next(text, at).max(at + 1).min(text.len());
        let len = end - at;
        if len == 1 {
            total += 1;
        } else if len <= CACHED {
            let bytes = match text
                .get(at..at + 16)
                .and_then(|s| <[u8; 16]>::try_from(s).ok())
            {
                Some(sixteen) => u128::from_le_bytes(sixteen),
                None => u128::from(word(text, at)) | u128::from(word(text, at + 8)) << 64,
            };
            let key = bytes & (u128::MAX >> (128 - 8 * len)) | tag | (len as u128) << 112;
            batch.key[batch.filled & (BATCH - 1)] = key;
            batch.place[batch.filled & (BATCH - 1)] = (at, end);
            batch.filled += 1;
            if batch.filled == BATCH {
                total += batch.count(vocab, text, state);
            }
        } else {
            total += u64::from(piece(vocab, text, at, end, &mut state.scratch));
        }
        at = end;
    }
    total + batch.count(vocab, text, state)
}

impl Batch {
    /// The tokens of all pieces of the batch, which is empty afterwards.
    fn count(&mut self, vocab: &Vocab, text: &[u8], state: &mut State) -> u64 {
        let mut total = 0;
        let mut missed = [0_u8; BATCH];
        let mut misses = 0;
        for (i, key) in self.key.iter().enumerate().take(self.filled) {
            let slot = state.cache[slot_of(*key) & (SLOTS - 1)];
            let hit = slot << 8 == key << 8;
            total += if hit { (slot >> 120) as u64 } else { 0 };
            missed[misses & (BATCH - 1)] = i as u8;
            misses += usize::from(!hit);
        }
        // Only to have the slots of the vocabulary in the cache when the next loop asks for them one by one.
        let mut seen = 0;
        for &i in &missed[..misses.min(BATCH)] {
            let key = self.key[i as usize & (BATCH - 1)];
            let len = (key >> 112) as usize & 15;
            let bytes = key & (u128::MAX >> (128 - 8 * len));
            seen ^= vocab.peek(bytes as u64, (bytes >> 64) as u64, len);
        }
        std::hint::black_box(seen);
        for &i in &missed[..misses.min(BATCH)] {
            let i = i as usize & (BATCH - 1);
            let (at, end) = self.place[i];
            let tokens = piece(vocab, text, at, end, &mut state.scratch);
            state.cache[slot_of(self.key[i]) & (SLOTS - 1)] =
                self.key[i] | u128::from(tokens) << 120;
            total += u64::from(tokens);
        }
        self.filled = 0;
        total
    }
}

/// The tokens of `text[at..end]`, at least two bytes.
#[inline(never)]
fn piece(vocab: &Vocab, text: &[u8], at: usize, end: usize, scratch: &mut Scratch) -> u32 {
    if vocab.rank(text, at, end) != NONE {
        return 1;
    }
    if end - at > 6 && text.get(at + 1).is_some_and(|&b| b >= 0x80) {
        return wide_piece(vocab, text, at, end, scratch);
    }
    merged(vocab, text, at, end, scratch)
}

/// As [`piece`], cut between characters of three bytes wherever no token spans: Chinese has long pieces of short words.
#[inline(never)]
fn wide_piece(vocab: &Vocab, text: &[u8], at: usize, end: usize, scratch: &mut Scratch) -> u32 {
    let wide = |i: usize| text.get(i).is_some_and(|&b| b & 0xF0 == 0xE0);
    let mut total = 0;
    let mut start = at;
    let mut i = at;
    while i < end {
        if !wide(i) {
            i += 1;
            continue;
        }
        i += 3;
        if i >= end || wide(i) && !vocab.spans(text, i) {
            let i = i.min(end);
            let whole = vocab.wide_tokens_are_reached && vocab.rank(text, start, i) != NONE;
            total += if whole {
                1
            } else {
                merged(vocab, text, start, i, scratch)
            };
            start = i;
        }
    }
    if start < end {
        total += if end - start == 1 {
            1
        } else {
            merged(vocab, text, start, end, scratch)
        };
    }
    total
}

/// The tokens of `text[at..end]`, at least two bytes, by merging.
fn merged(vocab: &Vocab, text: &[u8], at: usize, end: usize, scratch: &mut Scratch) -> u32 {
    let len = end - at;
    let piece = text.get(at..end).unwrap_or_default();
    if len > SHORT {
        return merge::long(vocab, piece, scratch);
    }
    let mut buffer = [0; SHORT + PADDING];
    if let Some(part) = buffer.get_mut(..len) {
        part.copy_from_slice(piece);
    }
    merge::short(vocab, &buffer, len)
}
