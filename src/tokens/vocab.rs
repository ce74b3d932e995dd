//! A vocabulary: from the bytes of a token to its rank, in packed hash tables.
//!
//! Two bytes index a table directly; up to eight lie in the slot as one word, up to sixteen as two; longer ones are found
//! by a hash and compared with the embedded bytes. Built once per process and vocabulary, from what `build.rs` embedded.
//! It refuses damaged embedded data with [`Error::Internal`]; it never panics.
#![expect(
    clippy::indexing_slicing,
    reason = "hot: every index is masked with the table's length, a power of two"
)]

use crate::error::{Error, Result};

/// No such token.
pub const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Default)]
struct Short {
    key: u64,
    rank: u32,
    len: u32,
}

#[derive(Clone, Copy, Default)]
struct Middle {
    low: u64,
    high: u64,
    rank: u32,
    len: u32,
}

#[derive(Clone, Copy, Default)]
struct Long {
    hash: u64,
    /// Where the token's bytes begin in the arena.
    start: u32,
    /// Its length; 0 is an empty slot.
    len: u32,
    rank: u32,
}

/// One loaded vocabulary.
pub struct Vocab {
    pairs: Box<[u32]>,
    short: Box<[Short]>,
    middle: Box<[Middle]>,
    long: Box<[Long]>,
    /// The bytes of the long tokens.
    arena: Vec<u8>,
    longest: usize,
    /// A set of the hashes of the tokens of 3 to 16 bytes: most pairs that a merge asks for are no token, and this answers
    /// from a core's own cache.
    filter: Box<[u64]>,
    wide: Wide,
    /// Whether merging reaches every token with a character of three bytes, so that a part of a piece which is such a
    /// token has one token.
    pub wide_tokens_are_reached: bool,
}

/// What tokens may span a boundary between two characters of three bytes (Chinese, Japanese, Korean, Indic, …). Where none
/// does, a piece can be cut without changing its number of tokens.
struct Wide {
    /// A set of hashes of two neighbouring characters that lie inside some token.
    neighbours: Box<[u64]>,
    /// A set of (last byte of the left, first of the right character) inside tokens that hold only a part of one of them.
    partial: Box<[u64]>,
}

/// Bits in [`Vocab::filter`]: about one in six is set.
const FILTER_BITS: u32 = 20;
/// Bits in [`Wide::neighbours`]; few enough to stay in a core's cache, enough that most bits are zero.
const NEIGHBOUR_BITS: u32 = 19;

const K: u64 = 0x9E37_79B9_7F4A_7C15;

#[inline(always)]
fn mix(key: u64, len: usize) -> u64 {
    let h = (key ^ (len as u64) << 56).wrapping_mul(K);
    h ^ h >> 32
}

#[inline(always)]
fn mix2(low: u64, high: u64, len: usize) -> u64 {
    mix(
        low.wrapping_mul(0xD6E8_FEB8_6659_FD93) ^ high ^ high >> 29,
        len,
    )
}

fn hash(bytes: &[u8]) -> u64 {
    let mut h = bytes.len() as u64;
    for chunk in bytes.chunks(8) {
        h = mix(h.rotate_left(23) ^ word(chunk, 0), chunk.len());
    }
    h
}

/// Eight bytes at `at`, little-endian; zeros past the end.
#[inline(always)]
pub fn word(bytes: &[u8], at: usize) -> u64 {
    match bytes
        .get(at..at + 8)
        .and_then(|s| <[u8; 8]>::try_from(s).ok())
    {
        Some(eight) => u64::from_le_bytes(eight),
        None => word_at_end(bytes, at),
    }
}

#[cold]
fn word_at_end(bytes: &[u8], at: usize) -> u64 {
    bytes
        .iter()
        .skip(at)
        .take(8)
        .rev()
        .fold(0, |word, &b| word << 8 | u64::from(b))
}

/// The low `len` bytes of a word, `1 <= len <= 8`.
#[inline(always)]
fn low_bytes(word: u64, len: usize) -> u64 {
    word & (u64::MAX >> ((64 - 8 * len) & 63))
}

/// The tokens and ranks of embedded parts.
///
/// # Errors
/// [`Error::Internal`] if a part is damaged.
pub fn tokens(parts: &[&'static [u8]]) -> Result<Vec<(Vec<u8>, u32)>> {
    let mut all = Vec::new();
    for part in parts {
        Part::parse(part)
            .and_then(|part| part.each(|token, rank| all.push((token.to_vec(), rank))))
            .ok_or_else(|| Error::Internal("an embedded vocabulary is damaged".into()))?;
    }
    Ok(all)
}

impl Vocab {
    /// Loads the parts that `build.rs` wrote, one after the other: a base and what continues its ranks.
    ///
    /// # Errors
    /// [`Error::Internal`] if a part is damaged.
    pub fn load(parts: &[&'static [u8]]) -> Result<Self> {
        let damaged = || Error::Internal("an embedded vocabulary is damaged".into());
        let parts = parts
            .iter()
            .map(|part| Part::parse(part))
            .collect::<Option<Vec<_>>>()
            .ok_or_else(damaged)?;
        let mut counts = [0; 3];
        let mut longest = 0;
        for part in &parts {
            part.each(|token, _| {
                longest = longest.max(token.len());
                counts[usize::from(token.len() > 8) + usize::from(token.len() > 16)] += 1;
            })
            .ok_or_else(damaged)?;
        }
        let slots = |n: usize| (n * 2).next_power_of_two();
        let mut vocab = Self {
            pairs: vec![NONE; 1 << 16].into_boxed_slice(),
            short: vec![Short::default(); slots(counts[0])].into_boxed_slice(),
            middle: vec![Middle::default(); slots(counts[1])].into_boxed_slice(),
            long: vec![Long::default(); slots(counts[2])].into_boxed_slice(),
            arena: Vec::new(),
            longest,
            filter: vec![0; 1 << (FILTER_BITS - 6)].into_boxed_slice(),
            wide_tokens_are_reached: parts.iter().all(|part| part.wide_tokens_are_reached),
            wide: Wide {
                neighbours: vec![0; 1 << (NEIGHBOUR_BITS - 6)].into_boxed_slice(),
                partial: vec![0; 1 << 10].into_boxed_slice(),
            },
        };
        for part in &parts {
            part.each(|token, rank| {
                vocab.insert(token, rank);
                vocab.wide.insert(token);
            })
            .ok_or_else(damaged)?;
        }
        Ok(vocab)
    }

    fn insert(&mut self, token: &[u8], rank: u32) {
        let len = token.len();
        match len {
            0 | 1 => {}
            2 => self.pairs[usize::from(token[0]) << 8 | usize::from(token[1])] = rank,
            3..=8 => {
                let key = word(token, 0);
                let mask = self.short.len() - 1;
                let hash = mix(key, len);
                self.filter[(hash >> (70 - FILTER_BITS)) as usize] |=
                    1 << (hash >> (64 - FILTER_BITS) & 63);
                let mut at = hash as usize & mask;
                while self.short[at].len != 0 {
                    at = (at + 1) & mask;
                }
                self.short[at] = Short {
                    key,
                    rank,
                    len: len as u32,
                };
            }
            9..=16 => {
                let (low, high) = (word(token, 0), word(token, 8));
                let mask = self.middle.len() - 1;
                let hash = mix2(low, high, len);
                self.filter[(hash >> (70 - FILTER_BITS)) as usize] |=
                    1 << (hash >> (64 - FILTER_BITS) & 63);
                let mut at = hash as usize & mask;
                while self.middle[at].len != 0 {
                    at = (at + 1) & mask;
                }
                self.middle[at] = Middle {
                    low,
                    high,
                    rank,
                    len: len as u32,
                };
            }
            _ => {
                let hash = hash(token);
                let mask = self.long.len() - 1;
                let mut at = hash as usize & mask;
                while self.long[at].len != 0 {
                    at = (at + 1) & mask;
                }
                self.long[at] = Long {
                    hash,
                    start: self.arena.len() as u32,
                    len: len as u32,
                    rank,
                };
                self.arena.extend_from_slice(token);
            }
        }
    }

    /// Whether a token may span the boundary at `at` between two characters of three bytes each.
    #[inline(always)]
    pub fn spans(&self, text: &[u8], at: usize) -> bool {
        let bit = Wide::neighbours(text, at);
        let pair = usize::from(text[at - 1]) << 8 | usize::from(text[at]);
        (self.wide.neighbours[bit >> 6] >> (bit & 63) | self.wide.partial[pair >> 6] >> (pair & 63))
            & 1
            == 1
    }

    /// The rank of the two bytes at `at`.
    #[inline(always)]
    pub fn pair(&self, buffer: &[u8], at: usize) -> u32 {
        self.pairs[(usize::from(buffer[at]) << 8 | usize::from(buffer[at + 1])) & 0xFFFF]
    }

    /// Whether no token of 3 to 16 bytes has this hash.
    #[inline(always)]
    fn filtered(&self, hash: u64) -> bool {
        self.filter[(hash >> (70 - FILTER_BITS)) as usize & ((1 << (FILTER_BITS - 6)) - 1)]
            >> (hash >> (64 - FILTER_BITS) & 63)
            & 1
            == 0
    }

    /// Reads the slot where [`Self::rank`] of these bytes begins to look.
    #[inline(always)]
    pub fn peek(&self, low: u64, high: u64, len: usize) -> u64 {
        match len {
            0..=2 => 0,
            3..=8 => self.short[mix(low, len) as usize & (self.short.len() - 1)].key,
            _ => self.middle[mix2(low, high, len) as usize & (self.middle.len() - 1)].low,
        }
    }

    /// The rank of `buffer[start..end]`, at least two bytes; fastest if sixteen more bytes follow.
    #[inline(always)]
    pub fn rank(&self, buffer: &[u8], start: usize, end: usize) -> u32 {
        let len = end - start;
        match len {
            0..=2 => self.pair(buffer, start),
            3..=8 => {
                let key = low_bytes(word(buffer, start), len);
                let mask = self.short.len() - 1;
                let hash = mix(key, len);
                if self.filtered(hash) {
                    return NONE;
                }
                let mut at = hash as usize & mask;
                loop {
                    let slot = &self.short[at];
                    if slot.key == key && slot.len == len as u32 {
                        return slot.rank;
                    }
                    if slot.len == 0 {
                        return NONE;
                    }
                    at = (at + 1) & mask;
                }
            }
            9..=16 => {
                let (low, high) = (
                    word(buffer, start),
                    low_bytes(word(buffer, start + 8), len - 8),
                );
                let mask = self.middle.len() - 1;
                let hash = mix2(low, high, len);
                if self.filtered(hash) {
                    return NONE;
                }
                let mut at = hash as usize & mask;
                loop {
                    let slot = &self.middle[at];
                    if slot.low == low && slot.high == high && slot.len == len as u32 {
                        return slot.rank;
                    }
                    if slot.len == 0 {
                        return NONE;
                    }
                    at = (at + 1) & mask;
                }
            }
            _ => self.long_rank(&buffer[start..end]),
        }
    }

    fn long_rank(&self, token: &[u8]) -> u32 {
        if token.len() > self.longest {
            return NONE;
        }
        let hash = hash(token);
        let mask = self.long.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let slot = &self.long[at];
            if slot.hash == hash
                && slot.len as usize == token.len()
                && self.arena[slot.start as usize..].starts_with(token)
            {
                return slot.rank;
            }
            if slot.len == 0 {
                return NONE;
            }
            at = (at + 1) & mask;
        }
    }
}

impl Wide {
    #[inline(always)]
    fn neighbours(text: &[u8], at: usize) -> usize {
        let key = word(text, at - 3) & 0xFFFF_FFFF_FFFF;
        (key.wrapping_mul(K) >> (64 - NEIGHBOUR_BITS)) as usize
    }

    fn insert(&mut self, token: &[u8]) {
        let continues = |i: usize| token[i] & 0xC0 == 0x80;
        for at in (1..token.len()).filter(|&i| (0xE0..0xF0).contains(&token[i])) {
            let left = (0..at)
                .rev()
                .take(4)
                .find(|&i| !continues(i))
                .map(|i| (at - i, token[i]));
            match left {
                Some((3, 0xE0..0xF0)) if at + 3 <= token.len() => {
                    let bit = Self::neighbours(token, at);
                    self.neighbours[bit >> 6] |= 1 << (bit & 63);
                }
                Some((3, 0xE0..0xF0)) | None => {
                    let pair = usize::from(token[at - 1]) << 8 | usize::from(token[at]);
                    self.partial[pair >> 6] |= 1 << (pair & 63);
                }
                // A whole character of one, two or four bytes: no boundary we ask about.
                Some(_) => {}
            }
        }
    }
}

/// One embedded part, as `build.rs` describes it.
struct Part {
    first_rank: u32,
    wide_tokens_are_reached: bool,
    shared: &'static [u8],
    lengths: &'static [u8],
    planes: [&'static [u8]; 3],
    rest: &'static [u8],
}

impl Part {
    fn parse(part: &'static [u8]) -> Option<Self> {
        let (count, part) = part.split_first_chunk::<4>()?;
        let (first_rank, part) = part.split_first_chunk::<4>()?;
        let (reached, part) = part.split_first_chunk::<4>()?;
        let count = u32::from_le_bytes(*count) as usize;
        let (shared, part) = part.split_at_checked(count)?;
        let (lengths, part) = part.split_at_checked(2 * count)?;
        let (low, part) = part.split_at_checked(count)?;
        let (middle, part) = part.split_at_checked(count)?;
        let (high, rest) = part.split_at_checked(count)?;
        Some(Self {
            first_rank: u32::from_le_bytes(*first_rank),
            wide_tokens_are_reached: u32::from_le_bytes(*reached) == 1,
            shared,
            lengths,
            planes: [low, middle, high],
            rest,
        })
    }

    /// Calls `take` with every token and its rank; `None` if the lengths don't fit the bytes.
    fn each(&self, mut take: impl FnMut(&[u8], u32)) -> Option<()> {
        let [low, middle, high] = self.planes;
        let ranks = low
            .iter()
            .zip(middle)
            .zip(high)
            .map(|((&a, &b), &c)| u32::from_le_bytes([a, b, c, 0]));
        let mut rest = self.rest;
        let mut token = Vec::with_capacity(256);
        for ((&shared, length), rank) in self
            .shared
            .iter()
            .zip(self.lengths.as_chunks::<2>().0)
            .zip(ranks)
        {
            let (bytes, after) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
            token.truncate(usize::from(shared));
            token.extend_from_slice(bytes);
            take(&token, self.first_rank + rank);
            rest = after;
        }
        rest.is_empty().then_some(())
    }
}
