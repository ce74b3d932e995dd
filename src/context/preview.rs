//! What the model sees of a persisted result: the part that a developer would want (plan M2, spec 3, policies 5.2).
//!
//! - a *search* shows how many matches in how many files there are, the first of them, and how many each file has;
//! - a *command* shows 20 % head and 80 % tail, the exit code, and error and warning lines of the middle with their line numbers;
//! - anything else shows head and tail.
//!
//! Invariants: I1 never more characters or lines than asked for, whatever the input; I2 no cut inside a character; I3 what is left out is told,
//! and how to read it; I4 one pass over the text, memory bounded by the preview.

use super::preview_facts::{self, Important, Matches};
use crate::limits;
use crate::text::{count_chars, count_lines, group, head, shorten_line};

/// What to preview.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// The tool's name: it decides what matters.
    pub tool: &'a str,
    /// The result, cleaned of escape sequences.
    pub text: &'a str,
    /// Characters of the result as the tool gave it.
    pub original_chars: usize,
    /// The artifact's path, if one was written.
    pub artifact: Option<&'a str>,
    /// The exit code, if the caller knows it.
    pub exit_code: Option<i64>,
    /// A remark that comes first (an encoding, a truncation).
    pub note: Option<&'a str>,
    /// The preview's size in characters.
    pub max_chars: usize,
    /// The preview's length in lines.
    pub max_lines: usize,
}

/// What kind of output a tool gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Matches or names.
    Search,
    /// Output of a program.
    Command,
    /// Anything else.
    Other,
}

impl Kind {
    /// The kind of a tool, by the words in its name.
    pub fn of(tool: &str) -> Self {
        const SEARCH: [&str; 8] = ["grep", "rg", "glob", "ls", "find", "search", "tree", "list"];
        const COMMAND: [&str; 16] = [
            "shell",
            "bash",
            "powershell",
            "sh",
            "exec",
            "execute",
            "command",
            "terminal",
            "run",
            "compile",
            "build",
            "make",
            "test",
            "benchmark",
            "bench",
            "cmd",
        ];
        let lower = tool.to_ascii_lowercase();
        let mut words = lower.split(|c: char| !c.is_ascii_alphanumeric());
        if words.clone().any(|w| SEARCH.contains(&w)) {
            Self::Search
        } else if words.any(|w| COMMAND.contains(&w)) {
            Self::Command
        } else {
            Self::Other
        }
    }
}

/// Below this size there is no room for facts: the preview is the text's beginning.
const SMALLEST: usize = 240;

/// Renders the preview.
pub fn preview(source: &Source<'_>) -> String {
    let max_lines = source.max_lines.max(1);
    if source.max_chars < SMALLEST || max_lines < 8 {
        return limit_lines(head(source.text, source.max_chars), max_lines).to_owned();
    }
    let kind = Kind::of(source.tool);
    let found = if kind == Kind::Search {
        preview_facts::matches_per_file(source.text)
    } else {
        Matches::default()
    };
    let facts = header(source, kind, &found);
    let footer_room = count_chars(&footer(source, usize::MAX, usize::MAX));
    let body_chars = source
        .max_chars
        .saturating_sub(facts_size(&facts))
        .saturating_sub(footer_room)
        .saturating_sub(2);
    let body_lines = max_lines.saturating_sub(facts.len()).saturating_sub(2);
    let body = match kind {
        _ if fits(source.text, body_chars, body_lines) => Body::whole(source.text),
        Kind::Search => search_body(source.text, &found, body_chars, body_lines),
        Kind::Command => split_body(
            source.text,
            body_chars,
            body_lines,
            limits::PREVIEW_HEAD_FRACTION,
            true,
        ),
        Kind::Other => split_body(source.text, body_chars, body_lines, 0.5, false),
    };
    let mut out = facts;
    out.push(body.text.trim_end_matches('\n').to_owned());
    if body.first_missing > 0 {
        out.push(footer(source, body.first_missing, body.missing_lines));
    }
    let out = out.join("\n");
    // The parts were sized to fit; a last look, so that the limit holds for any input.
    limit_lines(head(&out, source.max_chars), max_lines).to_owned()
}

fn fits(text: &str, max_chars: usize, max_lines: usize) -> bool {
    text.len() <= max_chars.saturating_mul(4)
        && count_chars(text) <= max_chars
        && count_lines(text) <= max_lines
        && text
            .lines()
            .all(|l| l.len() <= limits::PREVIEW_MAX_LINE_CHARS)
}

fn limit_lines(text: &str, max_lines: usize) -> &str {
    let end = memchr::memchr_iter(b'\n', text.as_bytes()).nth(max_lines.saturating_sub(1));
    end.and_then(|end| text.get(..end)).unwrap_or(text)
}

fn facts_size(facts: &[String]) -> usize {
    facts.iter().map(|f| count_chars(f).saturating_add(1)).sum()
}

/// The first lines: what this is and how large.
fn header(source: &Source<'_>, kind: Kind, found: &Matches) -> Vec<String> {
    let mut facts: Vec<String> = source.note.map(str::to_owned).into_iter().collect();
    let lines = count_lines(source.text);
    let size = format!(
        "{} line{}, {} characters",
        group(lines),
        if lines == 1 { "" } else { "s" },
        group(source.original_chars)
    );
    match kind {
        Kind::Search => {
            facts.push(match (found.total, found.files) {
                (0, _) => size,
                (total, files) => format!(
                    "Found {} matches in {} file{} ({size}).",
                    group(total),
                    group(files),
                    if files == 1 { "" } else { "s" }
                ),
            });
        }
        Kind::Command => {
            let code = source
                .exit_code
                .or_else(|| preview_facts::exit_code(source.text));
            facts.push(match code {
                Some(code) => format!("Exit code {code}. Output: {size}."),
                None => format!("Output: {size}."),
            });
        }
        Kind::Other => facts.push(format!("{size}.")),
    }
    facts
}

/// How to read what is missing.
fn footer(source: &Source<'_>, first_missing: usize, missing_lines: usize) -> String {
    match source.artifact {
        Some(path) => {
            let limit = missing_lines.min(500);
            let offset = if first_missing == usize::MAX {
                999_999_999
            } else {
                first_missing
            };
            format!(
                "Read on with read_file(\"{path}\", offset={offset}, limit={limit}), or grep in \"{path}\"."
            )
        }
        None => "The rest was not kept.".to_owned(),
    }
}

/// The part of a preview that shows the text.
struct Body {
    text: String,
    /// Line number (from 1) of the first line that is not shown; 0 if all are.
    first_missing: usize,
    missing_lines: usize,
}

impl Body {
    fn whole(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            first_missing: 0,
            missing_lines: 0,
        }
    }
}

/// First matches, then how many each file has.
fn search_body(text: &str, found: &Matches, max_chars: usize, max_lines: usize) -> Body {
    let table = if found.files > 1 {
        file_table(found, max_chars / 4, (max_lines / 4).max(3))
    } else {
        String::new()
    };
    let table_lines = count_lines(&table);
    let shown_chars = max_chars
        .saturating_sub(count_chars(&table))
        .saturating_sub(80);
    let (first, shown) = take_lines(
        text,
        shown_chars,
        max_lines.saturating_sub(table_lines).saturating_sub(1),
        true,
    );
    let lines = count_lines(text);
    let shown_text_chars = count_chars(&first);
    let mut out = first;
    let missing = lines.saturating_sub(shown);
    if missing > 0 {
        let left = count_chars(text).saturating_sub(shown_text_chars);
        let plural = if missing == 1 { "" } else { "s" };
        out.push_str(&format!(
            "… {} more line{plural} left out ({} characters) …\n",
            group(missing),
            group(left)
        ));
    }
    out.push_str(&table);
    Body {
        text: out,
        first_missing: shown.saturating_add(1),
        missing_lines: missing.max(1),
    }
}

fn file_table(found: &Matches, max_chars: usize, max_lines: usize) -> String {
    let mut out = String::from("Matches per file:\n");
    let mut used = count_chars(&out).saturating_add(30);
    let mut shown = 0usize;
    for (file, count) in found.largest.iter().take(max_lines.saturating_sub(2)) {
        let line = format!("{:>6}  {}\n", group(*count), shorten_line(file, 160));
        used = used.saturating_add(count_chars(&line));
        if used > max_chars {
            break;
        }
        out.push_str(&line);
        shown = shown.saturating_add(1);
    }
    if shown == 0 {
        return String::new();
    }
    let rest = found.files.saturating_sub(shown);
    if rest > 0 {
        out.push_str(&format!("        and {} more files\n", group(rest)));
    }
    out
}

/// Head and tail, with what is between them told; of a command's middle, the lines that matter.
fn split_body(
    text: &str,
    max_chars: usize,
    max_lines: usize,
    head_share: f64,
    wants_errors: bool,
) -> Body {
    let lines = count_lines(text);
    if lines <= 1 {
        return one_line_body(text, max_chars);
    }
    let share = |n: usize, part: f64| -> usize {
        usize::try_from(super::budget::share(n as u64, part)).unwrap_or(n)
    };
    let errors_chars = if wants_errors { max_chars / 4 } else { 0 };
    let text_chars = max_chars.saturating_sub(errors_chars).saturating_sub(90);
    let errors_lines = if wants_errors {
        limits::PREVIEW_ERROR_LINES.min(max_lines / 3)
    } else {
        0
    };
    let text_lines = max_lines.saturating_sub(errors_lines).saturating_sub(1);
    let (first, head_lines) = take_lines(
        text,
        share(text_chars, head_share),
        share(text_lines, head_share).max(1),
        true,
    );
    let left = text_chars.saturating_sub(count_chars(&first));
    let (last, tail_lines) = take_lines(text, left, text_lines.saturating_sub(head_lines), false);
    let tail_lines = tail_lines.min(lines.saturating_sub(head_lines));
    let middle = middle_of(text, head_lines, tail_lines);
    let missing = lines.saturating_sub(head_lines).saturating_sub(tail_lines);
    let mut out = first;
    if missing > 0 {
        let (from, to) = (
            head_lines.saturating_add(1),
            lines.saturating_sub(tail_lines),
        );
        let span = if from == to {
            format!("line {}", group(from))
        } else {
            format!("lines {} to {}", group(from), group(to))
        };
        out.push_str(&format!(
            "… {span} left out ({} characters)",
            group(count_chars(middle))
        ));
        let important = if wants_errors {
            preview_facts::important_lines(middle, head_lines)
        } else {
            Vec::new()
        };
        out.push_str(&error_section(&important, errors_chars, errors_lines));
    }
    out.push_str(&last);
    Body {
        text: out,
        first_missing: if missing > 0 {
            head_lines.saturating_add(1)
        } else {
            0
        },
        missing_lines: missing,
    }
}

fn one_line_body(text: &str, max_chars: usize) -> Body {
    let line = text.trim_end_matches('\n');
    Body {
        text: shorten_line(line, max_chars.saturating_sub(4)),
        first_missing: 1,
        missing_lines: 1,
    }
}

fn error_section(important: &[Important<'_>], max_chars: usize, max_lines: usize) -> String {
    if important.is_empty() {
        return " …\n".to_owned();
    }
    let mut out = String::from("; errors and warnings among them:\n");
    let mut used = count_chars(&out);
    for (shown, line) in important.iter().enumerate() {
        let text = format!(
            "  {}: {}\n",
            line.number,
            shorten_line(line.text.trim(), 160)
        );
        used = used.saturating_add(count_chars(&text));
        if used > max_chars || shown.saturating_add(1) >= max_lines {
            break;
        }
        out.push_str(&text);
    }
    out.push_str("…\n");
    out
}

/// Whole lines from one end, each shortened if it is too long, as far as they fit; and how many. At least one line is begun.
fn take_lines(text: &str, max_chars: usize, max_lines: usize, from_start: bool) -> (String, usize) {
    let longest = limits::PREVIEW_MAX_LINE_CHARS.min((max_chars / 2).max(40));
    let text = text.strip_suffix('\n').unwrap_or(text);
    let mut taken: Vec<String> = Vec::new();
    let mut used = 0usize;
    let mut take = |line: &str| {
        let line = shorten_line(line.strip_suffix('\r').unwrap_or(line), longest);
        used = used.saturating_add(count_chars(&line)).saturating_add(1);
        let ok = used <= max_chars && taken.len() < max_lines;
        if ok {
            taken.push(line);
        }
        ok
    };
    if from_start {
        let _ = text.split('\n').all(&mut take);
    } else {
        let _ = text.rsplit('\n').all(take);
        taken.reverse();
    }
    let count = taken.len();
    let mut out = taken.join("\n");
    if count > 0 {
        out.push('\n');
    }
    (out, count)
}

fn middle_of(text: &str, head_lines: usize, tail_lines: usize) -> &str {
    let bytes = text.as_bytes();
    let start = match head_lines.checked_sub(1) {
        None => 0,
        Some(n) => memchr::memchr_iter(b'\n', bytes)
            .nth(n)
            .map_or(text.len(), |i| i.saturating_add(1)),
    };
    // The text's own last line end is not between two lines.
    let body = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let end = match tail_lines.checked_sub(1) {
        None => text.len(),
        Some(n) => memchr::memrchr_iter(b'\n', body)
            .nth(n)
            .map_or(0, |i| i.saturating_add(1)),
    };
    text.get(start..end.max(start)).unwrap_or_default()
}

#[cfg(test)]
#[path = "preview_tests.rs"]
mod tests;
