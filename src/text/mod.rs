//! Counting and cutting text, cleaning terminal output, decoding bytes of unknown encoding.
//!
//! - I1 a cut never falls inside a character, and not inside what a reader sees as one (an emoji sequence, a letter with marks) unless that
//!   alone is longer than the limit;
//! - I2 limits are in characters (`char`s), as Python's `len` counts them;
//! - I3 everything is one pass; memory beyond the input is bounded by what is returned.

pub mod decode;
pub mod terminal;

use unicode_segmentation::GraphemeCursor;

/// Characters of a text.
pub fn count_chars(text: &str) -> usize {
    if text.is_ascii() {
        text.len()
    } else {
        text.chars().count()
    }
}

/// Lines of a text; a last line without a line end counts.
pub fn count_lines(text: &str) -> usize {
    let ends = memchr::memchr_iter(b'\n', text.as_bytes()).count();
    ends + usize::from(!text.is_empty() && !text.ends_with('\n'))
}

/// The longest beginning of at most `max_chars` characters that ends between two graphemes.
pub fn head(text: &str, max_chars: usize) -> &str {
    let at = match text.char_indices().nth(max_chars) {
        None => return text,
        Some((at, _)) => at,
    };
    let safe = if is_grapheme_boundary(text, at) {
        Some(at)
    } else {
        previous_boundary(text, at)
    };
    text.get(..safe.filter(|s| *s > 0).unwrap_or(at))
        .unwrap_or_default()
}

/// The longest end of at most `max_chars` characters that begins between two graphemes.
pub fn tail(text: &str, max_chars: usize) -> &str {
    if max_chars == 0 {
        return "";
    }
    let at = match text.char_indices().rev().nth(max_chars.saturating_sub(1)) {
        None => return text,
        Some((at, _)) => at,
    };
    let safe = if is_grapheme_boundary(text, at) {
        Some(at)
    } else {
        next_boundary(text, at)
    };
    text.get(safe.filter(|s| *s < text.len()).unwrap_or(at)..)
        .unwrap_or_default()
}

fn is_grapheme_boundary(text: &str, at: usize) -> bool {
    // Most text needs no table: between two ASCII characters a boundary is only missing in CRLF.
    let bytes = text.as_bytes();
    if let (Some(before), Some(after)) =
        (at.checked_sub(1).and_then(|i| bytes.get(i)), bytes.get(at))
        && before.is_ascii()
        && after.is_ascii()
    {
        return !(*before == b'\r' && *after == b'\n');
    }
    GraphemeCursor::new(at, text.len(), true)
        .is_boundary(text, 0)
        .unwrap_or(true)
}

fn previous_boundary(text: &str, at: usize) -> Option<usize> {
    GraphemeCursor::new(at, text.len(), true)
        .prev_boundary(text, 0)
        .ok()
        .flatten()
}

fn next_boundary(text: &str, at: usize) -> Option<usize> {
    GraphemeCursor::new(at, text.len(), true)
        .next_boundary(text, 0)
        .ok()
        .flatten()
}

/// A line of at most `max_chars` characters: its head and tail, and how much is missing between them.
pub fn shorten_line(line: &str, max_chars: usize) -> String {
    let chars = count_chars(line);
    if chars <= max_chars {
        return line.to_owned();
    }
    let note = format!(" […{} characters…] ", group(chars));
    let room = max_chars.saturating_sub(count_chars(&note));
    if room < 16 {
        return head(line, max_chars).to_owned();
    }
    let first = head(line, room - room / 3);
    let last = tail(line, room / 3);
    let missing = chars
        .saturating_sub(count_chars(first))
        .saturating_sub(count_chars(last));
    format!("{first} […{} characters…] {last}", group(missing))
}

/// A number with commas between groups of three digits.
pub fn group(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FAMILY: &str = "👩\u{200d}👩\u{200d}👧\u{200d}👦";

    #[test]
    fn a_cut_keeps_emoji_sequences_flags_and_marks_whole() {
        let text = format!("ab{FAMILY}🇨🇳e\u{301}z");
        assert_eq!(head(&text, 4), "ab");
        assert_eq!(head(&text, 9), format!("ab{FAMILY}"));
        assert_eq!(head(&text, 10), format!("ab{FAMILY}"));
        assert_eq!(tail(&text, 2), "z");
        assert_eq!(tail(&text, 3), "e\u{301}z");
        assert_eq!(
            head(FAMILY, 3),
            "👩\u{200d}👩",
            "one grapheme longer than the limit is cut between characters"
        );
    }

    #[test]
    fn lines_and_groups_are_counted_as_people_do() {
        assert_eq!(
            [
                count_lines(""),
                count_lines("a"),
                count_lines("a\n"),
                count_lines("a\nb"),
                count_lines("\n\n")
            ],
            [0, 1, 1, 2, 2]
        );
        assert_eq!(
            [group(0), group(999), group(1_000), group(1_234_567)],
            ["0", "999", "1,000", "1,234,567"]
        );
    }

    #[test]
    fn a_shortened_line_tells_how_much_is_missing() {
        let line = "x".repeat(600_000);
        let short = shorten_line(&line, 200);
        assert!(
            short.chars().count() <= 200 && short.contains("characters…]"),
            "{short}"
        );
    }

    proptest! {
        #[test]
        fn cuts_keep_their_limit_and_are_ends_of_the_text(text in any::<String>(), limit in 0usize..60) {
            let (h, t) = (head(&text, limit), tail(&text, limit));
            prop_assert!(text.starts_with(h) && text.ends_with(t));
            prop_assert!(h.chars().count() <= limit && t.chars().count() <= limit);
            prop_assert!(shorten_line(&text, limit).chars().count() <= limit);
        }
    }
}
