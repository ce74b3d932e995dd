//! Pre-tokenisers: cutting text into the pieces inside which tokens are merged, without a regex engine.
//!
//! Each [`Split`] is one published regex, read by hand; `\s+(?!\S)` and the backtracking of o200k's two letter
//! alternatives are spelled out. They refuse nothing: any bytes end in pieces of at least one byte.
//!
//! I1: the pieces of a text, in order, are the text (no gap, no overlap); `next` is always beyond `at`.
//! I2: the pieces equal those of the reference engine's regex (tests: `tokens_oracle.rs`).
//! I3: linear: a character is looked at a bounded number of times, whatever the text.

use super::classes::{
    self, CJK, END, HAN_LETTER, HAN_MARK, HAN_NUMBER, HAN_PUNCT, LETTER, LOWER, MARK, NEWLINE,
    NUMBER, OTHER, PUNCT, SPACE, Set, UPPER, set, within,
};

/// A way to cut text into pieces.
pub trait Split {
    /// The end of the piece that begins at `at`, which lies inside the text.
    fn next(text: &[u8], at: usize) -> usize;
}

const NUMBERS: Set = set(&[NUMBER, HAN_NUMBER]);
const SPACES: Set = set(&[SPACE, NEWLINE]);
const LETTERS: Set = set(&[UPPER, LOWER, LETTER, HAN_LETTER]);
/// `[^\s\p{L}\p{N}]`
const SYMBOLS: Set = set(&[OTHER, PUNCT, MARK, HAN_PUNCT, HAN_MARK]);
/// `[^\r\n\p{L}\p{N}]`
const PREFIXES: Set = SYMBOLS | set(&[SPACE]);

/// The end of the run of `members` from `at`.
#[inline(always)]
fn run(text: &[u8], mut at: usize, members: Set) -> usize {
    loop {
        let (class, len) = classes::at(text, at);
        if !within(class, members) {
            return at;
        }
        at += len;
    }
}

/// The end of at most `most` numbers from `at`.
#[inline(always)]
fn numbers(text: &[u8], mut at: usize, most: usize) -> usize {
    for _ in 0..most {
        let (class, len) = classes::at(text, at);
        if !within(class, NUMBERS) {
            break;
        }
        at += len;
    }
    at
}

/// `(?i:'s|'t|'re|'ve|'m|'ll|'d)` at `at`, or `at`. `(?i)` makes U+017F an `s` too.
#[inline(always)]
fn contraction(text: &[u8], at: usize) -> usize {
    if text.get(at) == Some(&b'\'') {
        contraction_tail(text, at)
    } else {
        at
    }
}

fn contraction_tail(text: &[u8], at: usize) -> usize {
    let byte = |i: usize| text.get(at + i).copied().unwrap_or(0);
    match (byte(1) | 0x20, byte(2) | 0x20) {
        (b's' | b't' | b'm' | b'd', _) => at + 2,
        (b'r', b'e') | (b'v', b'e') | (b'l', b'l') => at + 3,
        _ if byte(1) == 0xC5 && byte(2) == 0xBF => at + 3,
        _ => at,
    }
}

/// ` ?` + a run of `symbols` + a run of bytes that `tail` accepts; `None` if there is no symbol.
#[inline(always)]
fn symbols(text: &[u8], at: usize, symbols: Set, tail: impl Fn(u8) -> bool) -> Option<usize> {
    let start = at + usize::from(text.get(at) == Some(&b' '));
    let mut end = run(text, start, symbols);
    if end == start {
        return None;
    }
    while text.get(end).copied().is_some_and(&tail) {
        end += 1;
    }
    Some(end)
}

/// `\s*[\r\n]+|\s+(?!\S)|\s+` from `at`, where a space is; a [`CJK`] class acts as the end of the text.
/// `whole_at_end` is `\s++$` before all others (cl100k), `newlines` the first alternative.
#[inline(always)]
fn spaces(
    at: usize,
    whole_at_end: bool,
    newlines: bool,
    class_at: impl Fn(usize) -> (u8, usize),
) -> usize {
    let (mut end, mut last, mut after_newline) = (at, at, 0);
    let stop = loop {
        let (class, len) = class_at(end);
        if !within(class, SPACES) {
            break class;
        }
        last = end;
        end += len;
        if class == NEWLINE {
            after_newline = end;
        }
    };
    if whole_at_end && stop == END {
        end
    } else if newlines && after_newline > 0 {
        after_newline
    } else if stop == END || stop == CJK || last == at {
        end
    } else {
        last
    }
}

/// The words of o200k from `start`: `[XU]*[XL]+` + contraction, else `[XU]+` + contraction, where U is upper case, L lower
/// case and X (`both`) the letters without case and the marks. `None` if there is neither.
#[inline(always)]
fn word(text: &[u8], start: usize, both: Set) -> Option<usize> {
    let upper = both | set(&[UPPER]);
    let lower = both | set(&[LOWER]);
    let mut at = start;
    let mut after_both = None;
    loop {
        let (class, len) = classes::at(text, at);
        if within(class, upper) {
            at += len;
            if class != UPPER {
                after_both = Some(at);
            }
        } else if class == LOWER {
            return Some(contraction(text, run(text, at + len, lower)));
        } else {
            break;
        }
    }
    // No lower case follows: the regex gives characters back until one without case can be its `[XL]+`.
    match after_both {
        Some(end) => Some(contraction(text, end)),
        None if at > start => Some(contraction(text, at)),
        None => None,
    }
}

/// The rest of o200k's family at `at`: numbers, symbols, spaces.
#[inline(always)]
fn o200k_rest(text: &[u8], at: usize, class: u8, slash: bool) -> usize {
    if within(class, NUMBERS) {
        return numbers(text, at, 3);
    }
    match symbols(text, at, SYMBOLS, |b| {
        matches!(b, b'\r' | b'\n') || slash && b == b'/'
    }) {
        Some(end) => end,
        None => spaces(at, false, true, |i| classes::at(text, i)),
    }
}

/// o200k_base, o200k_harmony and MiniMax.
pub struct O200k;

impl Split for O200k {
    #[inline(always)]
    fn next(text: &[u8], at: usize) -> usize {
        const BOTH: Set = set(&[LETTER, MARK, HAN_LETTER, HAN_MARK]);
        let (class, len) = classes::at(text, at);
        let found = if within(class, LETTERS) {
            word(text, at, BOTH)
        } else if within(class, PREFIXES) {
            // A mark may be the prefix of a word or a word of its own. The order of the alternatives is: with prefix
            // and lower case, without prefix, with prefix and upper case only. The middle one always holds for a mark.
            match class {
                MARK | HAN_MARK => mark_word(text, at, at + len, BOTH),
                _ => word(text, at + len, BOTH),
            }
        } else {
            None
        };
        found.unwrap_or_else(|| o200k_rest(text, at, class, true))
    }
}

/// A word that begins with a mark: as prefix if the rest has a character that can end it, else the marks alone.
fn mark_word(text: &[u8], at: usize, after: usize, both: Set) -> Option<usize> {
    let end = run(text, after, both | set(&[UPPER]));
    let (class, _) = classes::at(text, end);
    if class == LOWER
        || (after..end)
            .rev()
            .any(|i| starts_char(text, i) && within(classes::at(text, i).0, both))
    {
        word(text, after, both)
    } else {
        word(text, at, both)
    }
}

fn starts_char(text: &[u8], at: usize) -> bool {
    text.get(at).is_some_and(|&b| b & 0xC0 != 0x80)
}

/// Kimi K2: Han runs first, and no Han in words.
pub struct Kimi;

impl Split for Kimi {
    #[inline(always)]
    fn next(text: &[u8], at: usize) -> usize {
        const BOTH: Set = set(&[LETTER, MARK]);
        const HAN: Set = set(&[HAN_LETTER, HAN_NUMBER, HAN_PUNCT, HAN_MARK]);
        let (class, len) = classes::at(text, at);
        if within(class, HAN) {
            return run(text, at + len, HAN);
        }
        let found = if within(class, LETTERS) {
            word(text, at, BOTH)
        } else if class == MARK {
            mark_word(text, at, at + len, BOTH)
        } else if within(class, PREFIXES) {
            word(text, at + len, BOTH)
        } else {
            None
        };
        found.unwrap_or_else(|| o200k_rest(text, at, class, false))
    }
}

/// cl100k_base and its relatives: `DIGITS` numbers in a piece; `\s++$` first or not.
pub struct Cl100k<const DIGITS: usize, const WHOLE_AT_END: bool>;

impl<const DIGITS: usize, const WHOLE_AT_END: bool> Split for Cl100k<DIGITS, WHOLE_AT_END> {
    #[inline(always)]
    fn next(text: &[u8], at: usize) -> usize {
        let (class, len) = classes::at(text, at);
        if within(class, LETTERS) {
            return run(text, at + len, LETTERS);
        }
        if within(class, NUMBERS) {
            return numbers(text, at, DIGITS);
        }
        let end = contraction(text, at);
        if end > at {
            return end;
        }
        if within(class, PREFIXES) {
            let end = run(text, at + len, LETTERS);
            if end > at + len {
                return end;
            }
        }
        match symbols(text, at, SYMBOLS, |b| matches!(b, b'\r' | b'\n')) {
            Some(end) => end,
            None => spaces(at, WHOLE_AT_END, true, |i| classes::at(text, i)),
        }
    }
}

/// p50k_base and r50k_base (GPT-2).
pub struct Gpt2;

impl Split for Gpt2 {
    #[inline(always)]
    fn next(text: &[u8], at: usize) -> usize {
        if text.get(at) == Some(&b'\'') {
            let byte = |i: usize| text.get(at + i).copied().unwrap_or(0);
            match (byte(1), byte(2)) {
                (b's' | b't' | b'm' | b'd', _) => return at + 2,
                (b'r', b'e') | (b'v', b'e') | (b'l', b'l') => return at + 3,
                _ => {}
            }
        }
        let start = at + usize::from(text.get(at) == Some(&b' '));
        for members in [LETTERS, NUMBERS, SYMBOLS] {
            let end = run(text, start, members);
            if end > start {
                return end;
            }
        }
        spaces(at, true, false, |i| classes::at(text, i))
    }
}

/// DeepSeek V3 and later. Upstream cuts in three steps (numbers, Chinese and Japanese, the rest); here in one, where a
/// number or a [`CJK`] character ends the text for the third step.
pub struct DeepSeek;

impl DeepSeek {
    #[inline(always)]
    fn class_at(text: &[u8], at: usize) -> (u8, usize) {
        match text.get(at) {
            Some(&byte) if byte >= 0xE3 => {
                let (code, len) = classes::decode(text, at);
                match code {
                    0x3040..=0x30FF | 0x4E00..=0x9FA5 => (CJK, len),
                    _ => (classes::of_code_point(code), len),
                }
            }
            _ => classes::at(text, at),
        }
    }

    #[inline(always)]
    fn run(text: &[u8], mut at: usize, members: Set) -> usize {
        loop {
            let (class, len) = Self::class_at(text, at);
            if !within(class, members) {
                return at;
            }
            at += len;
        }
    }

    /// The third step inside a run of [`CJK`], which ends the text for it: words, punctuation, and what is left over.
    #[inline(always)]
    fn cjk(text: &[u8], at: usize, len: usize) -> usize {
        const WORD: Set = LETTERS | set(&[MARK, HAN_MARK]);
        const PUNCTS: Set = set(&[PUNCT, HAN_PUNCT]);
        let run = |mut at: usize, members: Set| {
            while let (CJK, len) = Self::class_at(text, at)
                && within(classes::at(text, at).0, members)
            {
                at += len;
            }
            at
        };
        match classes::at(text, at).0 {
            class if within(class, PUNCTS) => run(at + len, PUNCTS),
            class if within(class, WORD) => run(at + len, WORD),
            // The characters of the range without a meaning yet: alone, or before a word.
            _ => match run(at + len, set(&[OTHER])) {
                end if run(end, WORD) == end => end,
                end if end == at + len => run(end, WORD),
                end => end - 3,
            },
        }
    }

    /// The end of the piece of the third step at `at`; `None` where its regex does not match.
    #[inline(always)]
    fn third(text: &[u8], at: usize) -> Option<usize> {
        const WORD: Set = LETTERS | set(&[MARK, HAN_MARK]);
        const PUNCTS: Set = set(&[PUNCT, HAN_PUNCT]);
        let (class, len) = Self::class_at(text, at);
        if text.get(at).is_some_and(u8::is_ascii_punctuation) {
            let end = text
                .iter()
                .skip(at + 1)
                .take_while(|b| b.is_ascii_alphabetic())
                .count()
                + at
                + 1;
            if end > at + 1 {
                return Some(end);
            }
        }
        // `[^\r\n\p{L}\p{P}\p{S}]?`: a space, a control or a mark (a number was cut off before).
        if within(class, set(&[SPACE, OTHER, MARK, HAN_MARK])) {
            let end = Self::run(text, at + len, WORD);
            if end > at + len {
                return Some(end);
            }
        }
        let end = Self::run(text, at, WORD);
        if end > at {
            return Some(end);
        }
        let start = at + usize::from(text.get(at) == Some(&b' '));
        let mut end = Self::run(text, start, PUNCTS);
        if end > start {
            while matches!(text.get(end), Some(b'\r' | b'\n')) {
                end += 1;
            }
            return Some(end);
        }
        within(class, SPACES).then(|| {
            spaces(at, false, true, |i| match Self::class_at(text, i) {
                (NUMBER | HAN_NUMBER, len) => (CJK, len),
                other => other,
            })
        })
    }
}

impl Split for DeepSeek {
    #[inline(always)]
    fn next(text: &[u8], at: usize) -> usize {
        let (class, len) = Self::class_at(text, at);
        if within(class, NUMBERS) {
            return numbers(text, at, 3);
        }
        if class == CJK {
            return Self::cjk(text, at, len);
        }
        if let Some(end) = Self::third(text, at) {
            return end;
        }
        // What the regex leaves over is one piece up to its next match.
        let mut end = at + len;
        while Self::class_at(text, end).0 == OTHER && Self::third(text, end).is_none() {
            end += Self::class_at(text, end).1;
        }
        end
    }
}
