//! Lines of a transcript, forward and backward, and what is in them.
//!
//! - S1 lines end at byte `\n` and nowhere else;
//! - S2 a damaged line costs itself alone, is counted and told with its place, and is never fatal;
//! - S3 memory is bounded by the longest line that is read, at most [`MAX_LINE`]; longer ones are skipped and counted;
//! - S4 reading backward costs what is read, not what the file has.

use super::disk::{File, read_full};
use serde_json::{Map, Value};
use std::io;

/// Longest line that is read, in bytes.
pub const MAX_LINE: usize = 16 * 1024 * 1024;
const BLOCK: usize = 256 * 1024;

/// One damaged line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Where the line begins, in bytes.
    pub offset: u64,
    /// What is wrong with it; never its content.
    pub reason: &'static str,
}

/// A record: one JSON object.
pub type Record = Map<String, Value>;

/// What one line holds.
#[derive(Debug, Default, PartialEq)]
pub struct Line {
    /// Its records; several if lines were glued together.
    pub records: Vec<Record>,
    /// What is wrong with it.
    pub damage: Option<&'static str>,
}

/// Reads one line, without its newline.
pub fn parse_line(bytes: &[u8]) -> Line {
    let mut line = Line::default();
    let mut bytes = bytes.trim_ascii();
    if bytes.is_empty() {
        return line;
    }
    if bytes.contains(&0) {
        // What a file system leaves of a block that was never written. What stands behind it may be whole.
        line.damage = Some("NUL bytes");
        let start = bytes
            .iter()
            .rposition(|b| *b == 0)
            .map_or(0, |i| i.saturating_add(1));
        bytes = bytes.get(start..).unwrap_or_default();
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => std::borrow::Cow::Borrowed(text),
        Err(_) => {
            line.damage = Some("not UTF-8");
            String::from_utf8_lossy(bytes)
        }
    };
    let text = without_lone_surrogates(&text);
    let mut stream = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
    loop {
        match stream.next() {
            None => break,
            Some(Ok(Value::Object(record))) => line.records.push(record),
            Some(Ok(_)) => line.damage = Some("not a JSON object"),
            Some(Err(error)) => {
                line.damage = Some(if error.to_string().contains("recursion") {
                    "nested too deeply"
                } else {
                    "not valid JSON"
                });
                break;
            }
        }
    }
    if line.records.len() > 1 && line.damage.is_none() {
        line.damage = Some("several records on one line");
    }
    line
}

/// `\ud800`-style escapes that stand alone as `\ufffd`: serde_json refuses them, and other writers made them.
fn without_lone_surrogates(text: &str) -> std::borrow::Cow<'_, str> {
    let finder = memchr::memmem::Finder::new(b"\\ud");
    let upper = memchr::memmem::Finder::new(b"\\uD");
    let bytes = text.as_bytes();
    if finder.find(bytes).is_none() && upper.find(bytes).is_none() {
        return std::borrow::Cow::Borrowed(text);
    }
    let mut out = bytes.to_vec();
    let mut i = 0;
    while let Some(b) = out.get(i) {
        if *b != b'\\' {
            i += 1;
            continue;
        }
        match surrogate_at(&out, i) {
            Some(true) if surrogate_at(&out, i.saturating_add(6)) == Some(false) => i += 12,
            Some(_) => {
                if let Some(escape) = out.get_mut(i..i.saturating_add(6)) {
                    escape.copy_from_slice(b"\\ufffd");
                }
                i += 6;
            }
            // An escaped backslash is two bytes.
            None => i += 2,
        }
    }
    String::from_utf8(out).map_or_else(
        |_| std::borrow::Cow::Borrowed(text),
        std::borrow::Cow::Owned,
    )
}

/// Whether a high (true) or low (false) surrogate escape stands here.
fn surrogate_at(bytes: &[u8], at: usize) -> Option<bool> {
    match bytes.get(at..at.saturating_add(6))? {
        [b'\\', b'u', b'd' | b'D', x, y, z] if y.is_ascii_hexdigit() && z.is_ascii_hexdigit() => {
            match x {
                b'8' | b'9' | b'a' | b'b' | b'A' | b'B' => Some(true),
                b'c'..=b'f' | b'C'..=b'F' => Some(false),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Calls `visit` with the offset and content of every line, from a place on; `None` for a line that is too long. The last line need not end.
/// `visit` returns whether to go on. Returns where reading stopped.
pub fn forward(
    file: &dyn File,
    from: u64,
    mut visit: impl FnMut(u64, Option<&[u8]>) -> bool,
) -> io::Result<u64> {
    let mut buffer: Vec<u8> = Vec::new();
    let mut block = vec![0; BLOCK];
    // Where the buffered part of the current line begins, and whether the line was given up.
    let (mut at, mut line_start, mut too_long) = (from, from, false);
    loop {
        let n = read_full(file, &mut block, at)?;
        let mut part = block.get(..n).unwrap_or_default();
        while let Some(end) = memchr::memchr(b'\n', part) {
            let (line, rest) = part.split_at_checked(end).unwrap_or((part, &[]));
            at = at.saturating_add(end as u64).saturating_add(1);
            let go_on = if too_long || buffer.len().saturating_add(line.len()) > MAX_LINE {
                visit(line_start, None)
            } else if buffer.is_empty() {
                visit(line_start, Some(line))
            } else {
                buffer.extend_from_slice(line);
                visit(line_start, Some(&buffer))
            };
            if !go_on {
                return Ok(at);
            }
            buffer.clear();
            too_long = false;
            line_start = at;
            part = rest.get(1..).unwrap_or_default();
        }
        at = at.saturating_add(part.len() as u64);
        too_long = too_long || buffer.len().saturating_add(part.len()) > MAX_LINE;
        if too_long {
            buffer.clear();
        } else {
            buffer.extend_from_slice(part);
        }
        if n < BLOCK {
            break;
        }
    }
    if too_long {
        visit(line_start, None);
    } else if !buffer.is_empty() {
        visit(line_start, Some(&buffer));
    }
    Ok(at)
}

/// Calls `visit` with the offset and content of every line, last first; `None` for a line that is too long. `visit` returns whether to go on.
/// Returns how many bytes were read.
pub fn backward(
    file: &dyn File,
    end: u64,
    mut visit: impl FnMut(u64, Option<&[u8]>) -> bool,
) -> io::Result<u64> {
    // The bytes of [start, …) that belong to lines whose beginning has not been seen.
    let mut pending: Vec<u8> = Vec::new();
    let (mut start, mut too_long, mut read) = (end, false, 0u64);
    let mut block = vec![0; BLOCK];
    // A newline at the very end ends the last line and begins none.
    let mut first = true;
    while start > 0 {
        let from = start.saturating_sub(BLOCK as u64);
        let want = usize::try_from(start - from).unwrap_or(BLOCK);
        let n = read_full(file, block.get_mut(..want).unwrap_or_default(), from)?;
        read = read.saturating_add(n as u64);
        let mut part = block.get(..n).unwrap_or_default();
        if first {
            part = part.strip_suffix(b"\n").unwrap_or(part);
            first = false;
        }
        while let Some(newline) = memchr::memrchr(b'\n', part) {
            let line = part.get(newline.saturating_add(1)..).unwrap_or_default();
            let offset = from.saturating_add(newline as u64).saturating_add(1);
            if !emit(offset, line, &mut pending, &mut too_long, &mut visit) {
                return Ok(read);
            }
            part = part.get(..newline).unwrap_or_default();
        }
        too_long = too_long || pending.len().saturating_add(part.len()) > MAX_LINE;
        if too_long {
            pending.clear();
        } else {
            let mut joined = part.to_vec();
            joined.extend_from_slice(&pending);
            pending = joined;
        }
        start = from;
    }
    if end > 0 {
        emit(0, &[], &mut pending, &mut too_long, &mut visit);
    }
    Ok(read)
}

fn emit(
    offset: u64,
    line: &[u8],
    pending: &mut Vec<u8>,
    too_long: &mut bool,
    visit: &mut impl FnMut(u64, Option<&[u8]>) -> bool,
) -> bool {
    let go_on = if *too_long || line.len().saturating_add(pending.len()) > MAX_LINE {
        visit(offset, None)
    } else if pending.is_empty() {
        visit(offset, Some(line))
    } else {
        let mut whole = line.to_vec();
        whole.extend_from_slice(pending);
        visit(offset, Some(&whole))
    };
    pending.clear();
    *too_long = false;
    go_on
}
