//! A search in one file: regular expression or plain text, bounded, streaming (spec 2, 10 `recall`).

use super::disk::File;
use super::scan;
use crate::error::{Error, Result};
use regex::bytes::RegexBuilder;

/// One line that matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// Its number, from 1.
    pub line: u64,
    /// Where it begins, in bytes.
    pub offset: u64,
    /// Its text around the first match, at most as long as asked for.
    pub text: String,
}

/// What a search found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hits {
    /// The first lines that match.
    pub hits: Vec<Hit>,
    /// Lines that match in all; if `more`, in what was searched.
    pub total: u64,
    /// Whether there are more than are shown.
    pub more: bool,
}

/// Searches line by line. Lines above 16 MiB are passed over.
///
/// # Errors
/// [`Error::InvalidArgument`] for a pattern that cannot be read; [`Error::Storage`] if the file cannot.
pub fn search(
    file: &dyn File,
    pattern: &str,
    is_regex: bool,
    ignore_case: bool,
    max_hits: usize,
    max_line_chars: usize,
) -> Result<Hits> {
    let source = if is_regex {
        pattern.to_owned()
    } else {
        regex::escape(pattern)
    };
    let regex = RegexBuilder::new(&source)
        .case_insensitive(ignore_case)
        .size_limit(4 << 20)
        .build()
        .map_err(|error| Error::InvalidArgument {
            what: "pattern",
            problem: error
                .to_string()
                .lines()
                .last()
                .unwrap_or("not a regular expression")
                .trim()
                .to_owned(),
            way_out: "Correct it, or search for it as plain text".to_owned(),
        })?;
    let mut found = Hits::default();
    let mut number = 0u64;
    scan::forward(file, 0, |offset, line| {
        number = number.saturating_add(1);
        let Some(line) = line else { return true };
        let Some(hit) = regex.find(line) else {
            return true;
        };
        found.total = found.total.saturating_add(1);
        if found.hits.len() < max_hits {
            found.hits.push(Hit {
                line: number,
                offset,
                text: around(line, hit.start(), max_line_chars),
            });
        } else {
            found.more = true;
        }
        true
    })
    .map_err(|e| Error::storage("read", "the artifact", e))?;
    Ok(found)
}

/// The part of a line around a match.
fn around(line: &[u8], at: usize, max_chars: usize) -> String {
    let start = if line.len() <= max_chars {
        0
    } else {
        at.saturating_sub(max_chars / 3)
    };
    let window = line.get(start..).unwrap_or_default();
    let window = window.get(..max_chars.saturating_mul(4)).unwrap_or(window);
    let text = String::from_utf8_lossy(window);
    let text = text
        .trim_start_matches('\u{fffd}')
        .trim_end_matches(['\r', '\n']);
    let shown = crate::text::head(text, max_chars);
    crate::text::terminal::clean(shown).into_owned()
}
