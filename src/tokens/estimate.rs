//! The estimator for models without a published vocabulary: a text is cut as o200k_base cuts it, and each piece adds the
//! tokens that a piece of its class and length has on average (`performance.md` 2.1, table B).
//!
//! The averages are `estimate_table.rs`, written by `scripts/fit_estimator.py`; its header states the error. Integers
//! only, so the same text has the same estimate everywhere. Pieces are estimated one by one, so an estimate of two texts
//! together is the sum of both, but for the pieces at the seam.

use super::classes::{self, LETTER, LOWER, MARK, NEWLINE, NUMBER, SPACE, Set, UPPER, set, within};
use super::estimate_table::{SLOPES, TOKENS};
use super::split::{O200k, Split};

/// Classes of pieces.
pub const CLASSES: usize = 55;
/// Buckets of lengths: 1 to 16 bytes each their own, then up to 20, 24, 32, 48, 64.
pub const BUCKETS: usize = 21;
/// Pieces longer than this many bytes cost a class's slope for each byte more.
pub const LONGEST_BUCKET: usize = 64;

/// The bucket of a length in bytes.
#[inline]
pub const fn bucket(len: usize) -> usize {
    match len {
        0 => 0,
        1..=16 => len - 1,
        17..=20 => 16,
        21..=24 => 17,
        25..=32 => 18,
        33..=48 => 19,
        _ => 20,
    }
}

/// What a piece has before it, as far as it says something about it: names and encoded data are words without spaces.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Other,
    Word,
    Number,
    /// A terminal's colour code up to its letter, which runs into the word behind it.
    Escape,
}

const WORDS: Set = set(&[
    UPPER,
    LOWER,
    LETTER,
    MARK,
    classes::HAN_LETTER,
    classes::HAN_MARK,
]);
const NUMBERS: Set = set(&[NUMBER, classes::HAN_NUMBER]);
const SPACES: Set = set(&[SPACE, NEWLINE]);

/// Calls `take` with the class and length of every piece, and where it lies.
pub fn each_piece(text: &str, mut take: impl FnMut(usize, usize, usize)) {
    let bytes = text.as_bytes();
    let mut before = Before::Other;
    let mut at = 0;
    while at < bytes.len() {
        let end = O200k::next(bytes, at).clamp(at + 1, bytes.len());
        let class = class(bytes, at, end, &mut before);
        take(class, at, end);
        at = end;
    }
}

/// The class of the piece `text[at..end]`; leaves in `before` what the next one needs.
fn class(text: &[u8], at: usize, end: usize, before: &mut Before) -> usize {
    let (first, len) = classes::at(text, at);
    let (second, _) = if at + len < end {
        classes::at(text, at + len)
    } else {
        (first, 0)
    };
    let was = std::mem::replace(before, Before::Other);
    let piece = text.get(at..end).unwrap_or_default();
    if within(first, SPACES) && within(second, SPACES) {
        return match piece {
            _ if piece.contains(&b'\n') || piece.contains(&b'\r') => 1,
            _ if piece.iter().all(|&b| b == b' ') => 0,
            _ => 2,
        };
    }
    if within(first, NUMBERS) {
        *before = if was == Before::Escape {
            was
        } else {
            Before::Number
        };
        return if first < 0x80 && piece.is_ascii() {
            3
        } else {
            4
        };
    }
    let prefix = !within(first, WORDS);
    if prefix && !within(second, WORDS) {
        if piece.ends_with(b"\x1b[") || was == Before::Escape && piece == b";" {
            *before = Before::Escape;
        }
        return symbols(piece);
    }
    *before = Before::Word;
    let body = piece
        .get(if prefix { len } else { 0 }..)
        .unwrap_or_default();
    let spaced = piece.first() == Some(&b' ');
    match script(body) {
        Some(HAN) => 12 + usize::from(prefix),
        Some(KANA) => 14,
        Some(HANGUL) => 15,
        Some(OTHER_THREE) => 16,
        Some(TWO) => 10 + usize::from(spaced),
        Some(_) => 17,
        None => {
            let context = match (prefix, was) {
                (true, _) if spaced => 0,
                (true, _) => 1,
                (false, Before::Other) => 2,
                (false, Before::Word) => 3,
                (false, Before::Number) => 4,
                (false, Before::Escape) => 5,
            };
            18 + context * 6 + ascii_word(body)
        }
    }
}

const TWO: u8 = 1;
const OTHER_THREE: u8 = 2;
const KANA: u8 = 4;
const HAN: u8 = 8;
const HANGUL: u8 = 16;
const FOUR: u8 = 32;

/// The script of a word by its first bytes, roughly; several bits if it mixes scripts that no language mixes.
fn script(body: &[u8]) -> Option<u8> {
    let found = body.iter().fold(0, |found, b| {
        found
            | match b {
                0xC2..=0xDF => TWO,
                0xE0..=0xE2 => OTHER_THREE,
                0xE3 => KANA,
                0xE4..=0xE9 => HAN,
                0xEA..=0xEF => HANGUL,
                0xF0.. => FOUR,
                _ => 0,
            }
    });
    match found {
        0 => None,
        // Japanese mixes these two.
        _ if found == KANA | HAN => Some(KANA),
        _ => Some(found),
    }
}

/// Lower case, one capital first, or more capitals; and whether it looks like a word of a language.
fn ascii_word(body: &[u8]) -> usize {
    let capitals = body.iter().filter(|b| b.is_ascii_uppercase()).count();
    let case = match capitals {
        0 => 0,
        1 if body.first().is_some_and(u8::is_ascii_uppercase) => 1,
        _ => 2,
    };
    let (mut vowels, mut run, mut longest) = (0, 0, 0);
    for b in body {
        if matches!(b | 0x20, b'a' | b'e' | b'i' | b'o' | b'u' | b'y') {
            vowels += 1;
            run = 0;
        } else {
            run += 1;
            longest = longest.max(run);
        }
    }
    case * 2 + usize::from(longest > 4 || vowels == 0 && body.len() > 2)
}

fn symbols(piece: &[u8]) -> usize {
    let spaced = usize::from(piece.first() == Some(&b' '));
    let body = piece.get(spaced..).unwrap_or_default();
    match body.first() {
        Some(first) if body.len() > 3 && body.iter().all(|b| b == first) => 5,
        // Rulers of two signs: at least half of it repeats.
        Some(_) if body.len() > 3 && repeats(body) * 2 >= body.len() - 1 => 54,
        _ if body.iter().any(|&b| b >= 0xF0) => 8,
        _ if !body.is_ascii() => 9,
        _ if body.ends_with(b"\n") => 6,
        _ => 7,
    }
}

/// How many bytes are the same as the one before.
fn repeats(body: &[u8]) -> usize {
    body.iter()
        .zip(body.iter().skip(1))
        .filter(|(a, b)| a == b)
        .count()
}

/// Thousandths of a token that `text` has, to be added up and given to [`tokens`].
pub fn milli_tokens(text: &str) -> u64 {
    let (mut milli, mut micro) = (0, 0);
    each_piece(text, |class, at, end| {
        let len = end - at;
        let row = TOKENS.get(class).and_then(|row| row.get(bucket(len)));
        milli += u64::from(row.copied().unwrap_or(1_000));
        if len > LONGEST_BUCKET {
            micro += (len - LONGEST_BUCKET) as u64
                * u64::from(SLOPES.get(class).copied().unwrap_or(250_000));
        }
    });
    milli + micro / 1_000
}

/// Thousandths rounded to tokens.
pub const fn tokens(milli: u64) -> u64 {
    (milli + 500) / 1_000
}

#[cfg(test)]
#[path = "estimate_tests.rs"]
mod tests;
