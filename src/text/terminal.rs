//! What a terminal would show in the end: escape sequences gone, redrawn lines in their last frame.
//!
//! - I1 the result holds no control characters but newline and tab; what is not drawn by a terminal is shown as `\x07`;
//! - I2 real lines keep their order and are all there;
//! - I3 text without anything to clean is not copied.

use std::borrow::Cow;

/// Lines that a program may go back to with "cursor up" (nested progress bars); older ones are final.
const SCREEN_LINES: usize = 64;
/// A line longer than this is not redrawn character by character; no terminal is that wide.
const MAX_REDRAWN: usize = 1 << 20;

/// Cleans terminal output. Borrowed if there is nothing to clean.
pub fn clean(text: &str) -> Cow<'_, str> {
    if !needs_cleaning(text) {
        return Cow::Borrowed(text);
    }
    let mut screen = Screen::default();
    let mut rest = text;
    while !rest.is_empty() {
        rest = screen.feed(rest);
    }
    Cow::Owned(screen.finish())
}

/// Whether a text holds anything that [`clean`] changes.
pub fn needs_cleaning(text: &str) -> bool {
    // In blocks without an early exit, which the compiler turns into vector instructions.
    let controls = text.as_bytes().chunks(4_096).any(|block| {
        let bits = block.iter().fold(0u8, |bits, &b| {
            bits | u8::from(b < 0x20) & u8::from(b != b'\n') & u8::from(b != b'\t')
                | u8::from(b == 0x7f)
        });
        bits != 0
    });
    controls || (!text.is_ascii() && text.chars().any(is_hidden))
}

/// C1 controls, bidi overrides and zero-width characters; the joiners stay, since scripts and emoji need them.
fn is_hidden(c: char) -> bool {
    matches!(c, '\u{80}'..='\u{9f}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[derive(Default)]
struct Screen {
    /// Final lines.
    done: String,
    /// Lines that may still be redrawn; the cursor is in one of them.
    lines: Vec<Vec<char>>,
    row: usize,
    col: usize,
}

impl Screen {
    /// Takes the next character or sequence; returns the rest.
    fn feed<'a>(&mut self, text: &'a str) -> &'a str {
        // Plain stretches are most of any output.
        let plain = text
            .bytes()
            .position(|b| b < 0x20 || b == 0x7f || b >= 0xc2)
            .unwrap_or(text.len());
        if plain > 0 {
            let (stretch, rest) = text.split_at_checked(plain).unwrap_or((text, ""));
            stretch.chars().for_each(|c| self.draw(c));
            return rest;
        }
        let mut chars = text.chars();
        match chars.next() {
            None => "",
            Some('\u{1b}') => self.escape(chars.as_str()),
            Some('\u{9b}') => self.control_sequence(chars.as_str()),
            Some('\n') => {
                self.line_end();
                chars.as_str()
            }
            Some('\r') => {
                // Any number of returns before a newline is a line end.
                let after = chars.as_str().trim_start_matches('\r');
                if !after.starts_with('\n') {
                    self.col = 0;
                }
                after
            }
            Some('\u{8}') => {
                self.col = self.col.saturating_sub(1);
                chars.as_str()
            }
            Some('\t') => {
                self.draw('\t');
                chars.as_str()
            }
            Some(c) if c.is_control() => {
                format!("\\x{:02x}", u32::from(c))
                    .chars()
                    .for_each(|c| self.draw(c));
                chars.as_str()
            }
            Some(c) if is_hidden(c) => {
                format!("\\u{:04x}", u32::from(c))
                    .chars()
                    .for_each(|c| self.draw(c));
                chars.as_str()
            }
            Some(c) => {
                self.draw(c);
                chars.as_str()
            }
        }
    }

    /// The cursor's line, made if the cursor is below the last one.
    fn with_line(&mut self, edit: impl FnOnce(&mut Vec<char>, usize)) {
        if self.lines.len() <= self.row {
            self.lines.resize_with(self.row.saturating_add(1), Vec::new);
        }
        if let Some(line) = self.lines.get_mut(self.row) {
            edit(line, self.col);
        }
    }

    fn draw(&mut self, c: char) {
        self.with_line(|line, col| match line.get_mut(col) {
            Some(slot) => *slot = c,
            None => {
                if col > line.len() && col < MAX_REDRAWN {
                    line.resize(col, ' ');
                }
                line.push(c);
            }
        });
        self.col = self.col.saturating_add(1);
    }

    fn line_end(&mut self) {
        self.with_line(|_, _| ());
        self.row = self.row.saturating_add(1);
        self.col = 0;
        if self.row >= SCREEN_LINES {
            let final_lines = self.lines.drain(..1);
            for line in final_lines {
                push_line(&mut self.done, &line);
                self.done.push('\n');
            }
            self.row = self.row.saturating_sub(1);
        }
    }

    /// `text` is what follows the escape character.
    fn escape<'a>(&mut self, text: &'a str) -> &'a str {
        let mut chars = text.chars();
        match chars.next() {
            Some('[') => self.control_sequence(chars.as_str()),
            // OSC, DCS, SOS, PM, APC: up to BEL or ST.
            Some(']' | 'P' | 'X' | '^' | '_') => string_end(chars.as_str()),
            // Two-character designations such as `ESC ( B`.
            Some('(' | ')' | '*' | '+' | '#' | '%' | ' ') => {
                chars.next();
                chars.as_str()
            }
            Some(c) if ('0'..='~').contains(&c) => chars.as_str(),
            _ => text,
        }
    }

    /// `text` is what follows the introducer: parameters, intermediates, a final character.
    fn control_sequence<'a>(&mut self, text: &'a str) -> &'a str {
        let parameters = text
            .bytes()
            .take_while(|b| (0x20..0x40).contains(b))
            .count();
        let (parameters, rest) = text.split_at_checked(parameters).unwrap_or(("", text));
        let mut chars = rest.chars();
        let Some(last) = chars.next().filter(|c| ('@'..='~').contains(c)) else {
            return rest;
        };
        let number = |default: usize| {
            parameters
                .split(';')
                .next()
                .and_then(|p| p.parse().ok())
                .unwrap_or(default)
        };
        match last {
            'K' => self.erase(number(0)),
            'G' => self.col = number(1).saturating_sub(1).min(MAX_REDRAWN),
            'C' => self.col = self.col.saturating_add(number(1)).min(MAX_REDRAWN),
            'D' => self.col = self.col.saturating_sub(number(1)),
            'A' => self.row = self.row.saturating_sub(number(1)),
            'F' => {
                self.row = self.row.saturating_sub(number(1));
                self.col = 0;
            }
            'B' | 'E' => {
                self.row = self
                    .row
                    .saturating_add(number(1))
                    .min(self.lines.len().saturating_sub(1).max(self.row));
                if last == 'E' {
                    self.col = 0;
                }
            }
            // Colours, modes, window titles: nothing to see. "Erase screen" erases nothing: what was shown was said.
            _ => {}
        }
        chars.as_str()
    }

    fn erase(&mut self, mode: usize) {
        self.with_line(|line, col| match mode {
            0 => line.truncate(col),
            1 => line
                .iter_mut()
                .take(col.saturating_add(1))
                .for_each(|c| *c = ' '),
            2 => line.clear(),
            _ => {}
        });
    }

    fn finish(mut self) -> String {
        let lines = std::mem::take(&mut self.lines);
        let count = lines.len();
        for (i, line) in lines.iter().enumerate() {
            push_line(&mut self.done, line);
            // The last line has no line end unless one was seen: then the row lies behind it.
            if i.saturating_add(1) < count || self.row >= count {
                self.done.push('\n');
            }
        }
        self.done
    }
}

fn push_line(out: &mut String, line: &[char]) {
    let end = line
        .iter()
        .rposition(|c| *c != ' ')
        .map_or(0, |i| i.saturating_add(1));
    out.extend(line.iter().take(end));
}

/// Behind a string terminator: BEL or `ESC \`. An unterminated string ends with its line.
fn string_end(text: &str) -> &str {
    let end = text
        .char_indices()
        .find(|(_, c)| matches!(c, '\u{7}' | '\u{1b}' | '\u{9c}' | '\n'));
    let Some((at, c)) = end else { return "" };
    let rest = text.get(at..).unwrap_or_default();
    match c {
        '\n' => rest,
        '\u{1b}' => rest.strip_prefix("\u{1b}\\").unwrap_or(rest),
        _ => rest.get(c.len_utf8()..).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_last_frame_of_a_redrawn_line_stays() {
        for (raw, shown) in [
            ("a\r\nb\r\n", "a\nb\n"),
            ("10%\r50%\r100%\ndone", "100%\ndone"),
            ("long line\rshort\n", "shortline\n"),
            ("long line\r\u{1b}[Kshort\n", "short\n"),
            ("abc\u{1b}[2K\u{1b}[1Gx", "x"),
            ("abc\u{8}\u{8}X", "aXc"),
            ("\u{1b}[31merror\u{1b}[0m: no", "error: no"),
            (
                "\u{1b}]8;;http://x\u{7}link\u{1b}]8;;\u{1b}\\ end",
                "link end",
            ),
            ("\u{1b}]0;title\nnext", "\nnext"),
            ("one\ntwo\n\u{1b}[2A\u{1b}[2KONE\n\n", "ONE\ntwo\n"),
            ("bell\u{7} nul\0 del\u{7f}", "bell\\x07 nul\\x00 del\\x7f"),
            ("\u{202e}evil\u{200b}", "\\u202eevil\\u200b"),
            ("👩\u{200d}👧", "👩\u{200d}👧"),
            ("a\r\r\nb", "a\nb"),
        ] {
            assert_eq!(clean(raw), shown, "{raw:?}");
        }
    }

    #[test]
    fn clean_text_is_not_copied() {
        assert!(matches!(clean("plain\ttext\n矩阵\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_far_column_does_not_take_memory() {
        assert!(clean("\u{1b}[999999999Gx\u{1b}[999999999Cy").len() < 3 << 20);
    }

    proptest! {
        #[test]
        fn nothing_but_newline_and_tab_is_left_of_the_controls(text in "[a-z\\x00-\\x1f\\x1b\\[\\]0-9;mKGA\\r\\n\u{80}-\u{a0}\u{200b}]{0,200}") {
            let cleaned = clean(&text).into_owned();
            prop_assert!(cleaned.chars().all(|c| c == '\n' || c == '\t' || !(c.is_control() || is_hidden(c))), "{cleaned:?}");
            let again = clean(&cleaned).into_owned();
            prop_assert_eq!(again, cleaned);
        }

        #[test]
        fn lines_without_controls_are_all_kept(lines in prop::collection::vec("[a-zé矩 ]{0,20}", 0..200)) {
            let text = lines.join("\r\n") + "\u{1b}[0m";
            let kept: Vec<String> = clean(&text).split('\n').map(str::to_owned).collect();
            let expected: Vec<&str> = lines.iter().map(|l| l.trim_end_matches(' ')).collect();
            prop_assert_eq!(kept.join("\n"), expected.join("\n"));
        }
    }
}
