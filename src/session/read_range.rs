//! A range of lines of a file of any size, without reading the rest (spec 2, plan M3).
//!
//! - G1 successive reads that follow the continuation give the whole file, byte for byte;
//! - G2 limited in characters as well as in lines, so that a line of 100 MB is read in parts;
//! - G3 no part begins or ends inside a UTF-8 character;
//! - G4 where lines begin is remembered for the files read last (sparse, bounded, dropped when the file changes).

use super::disk::{File, read_full};
use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, PoisonError};

/// Where to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// At a line's beginning; lines count from 1.
    Line(u64),
    /// At a byte: where an earlier part of a long line ended.
    Byte(u64),
}

/// A part of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Range {
    /// The bytes, line ends included.
    pub bytes: Vec<u8>,
    /// The first line's number; 0 if the read began at a byte.
    pub start_line: u64,
    /// Lines begun or continued.
    pub num_lines: u64,
    /// Where it begins, in bytes.
    pub start_byte: u64,
    /// Where to go on, in bytes; the file's size at its end.
    pub next_byte: u64,
    /// The line to go on with, if the part ends at a line's end and the read began at a line.
    pub next_line: Option<u64>,
    /// All lines of the file, if the end was seen.
    pub total_lines: Option<u64>,
    /// Size of the file in bytes.
    pub size: u64,
}

const BLOCK: usize = 256 * 1024;
/// A line's place is remembered every so many lines.
const STRIDE: u64 = 4_096;
/// Files whose line places are remembered.
const FILES: usize = 16;

struct Index {
    identity: [u64; 4],
    /// Where line `1 + i * STRIDE` begins.
    places: Vec<u64>,
}

static INDEXES: Mutex<VecDeque<Index>> = Mutex::new(VecDeque::new());

/// Reads at most `max_lines` lines and `max_chars` characters.
///
/// # Errors
/// What the disk says.
pub fn read_range(
    file: &dyn File,
    from: From,
    max_lines: u64,
    max_chars: usize,
) -> io::Result<Range> {
    let size = file.len()?;
    let mut range = Range {
        size,
        ..Range::default()
    };
    let start = match from {
        From::Byte(at) => at.min(size),
        From::Line(line) => {
            range.start_line = line.max(1);
            match find_line(file, line.max(1), size)? {
                Found::At(at) => at,
                Found::PastEnd(total) => {
                    range.total_lines = Some(total);
                    range.start_byte = size;
                    range.next_byte = size;
                    return Ok(range);
                }
            }
        }
    };
    range.start_byte = start;
    let mut at = start;
    let (mut lines_ended, mut chars) = (0u64, 0usize);
    let mut block = vec![0; BLOCK];
    'reading: while at < size && lines_ended < max_lines.max(1) {
        let n = read_full(file, &mut block, at)?;
        if n == 0 {
            break;
        }
        for b in block.get(..n).unwrap_or_default() {
            // A new character begins here; only then may the part end.
            if b & 0xc0 != 0x80 {
                if chars >= max_chars.max(1) || lines_ended >= max_lines.max(1) {
                    break 'reading;
                }
                chars = chars.saturating_add(1);
            } else if range.bytes.len() > max_chars.max(1).saturating_mul(4) {
                // No text at all: continuation bytes without end.
                break 'reading;
            }
            range.bytes.push(*b);
            at = at.saturating_add(1);
            lines_ended = lines_ended.saturating_add(u64::from(*b == b'\n'));
        }
    }
    range.next_byte = at;
    let ends_line = range.bytes.last() == Some(&b'\n');
    range.num_lines = lines_ended.saturating_add(u64::from(!range.bytes.is_empty() && !ends_line));
    if range.start_line > 0 {
        if ends_line && at < size {
            range.next_line = Some(range.start_line.saturating_add(lines_ended));
        }
        if at >= size {
            range.total_lines = Some(
                range
                    .start_line
                    .saturating_add(range.num_lines)
                    .saturating_sub(1),
            );
        }
    }
    Ok(range)
}

enum Found {
    At(u64),
    PastEnd(u64),
}

/// Where a line begins, from the nearest place that is known.
fn find_line(file: &dyn File, line: u64, size: u64) -> io::Result<Found> {
    let identity = file.identity()?;
    let mut places = take_index(identity);
    let slot = usize::try_from((line - 1) / STRIDE)
        .unwrap_or(usize::MAX)
        .min(places.len().saturating_sub(1));
    let mut at = places.get(slot).copied().unwrap_or(0);
    let mut number = (slot as u64).saturating_mul(STRIDE).saturating_add(1);
    let mut block = vec![0; BLOCK];
    let mut result = None;
    while number < line && at < size {
        let n = read_full(file, &mut block, at)?;
        if n == 0 {
            break;
        }
        for end in memchr::memchr_iter(b'\n', block.get(..n).unwrap_or_default()) {
            number = number.saturating_add(1);
            let begins = at.saturating_add(end as u64).saturating_add(1);
            if (number - 1).is_multiple_of(STRIDE) && (number - 1) / STRIDE == places.len() as u64 {
                places.push(begins);
            }
            if number == line {
                result = Some(begins);
                break;
            }
        }
        if result.is_some() {
            break;
        }
        at = at.saturating_add(n as u64);
    }
    let found = match result {
        Some(begins) => Some(begins),
        None if number == line && at < size => Some(at),
        None => None,
    };
    put_index(Index { identity, places });
    match found {
        Some(begins) if begins < size || line == 1 => Ok(Found::At(begins)),
        _ => Ok(Found::PastEnd(if size == 0 {
            0
        } else {
            total_lines(file, number, size)?
        })),
    }
}

/// The number of lines, when the walk has come to `number` at the end.
fn total_lines(file: &dyn File, number: u64, size: u64) -> io::Result<u64> {
    let mut last = [0; 1];
    read_full(file, &mut last, size.saturating_sub(1))?;
    Ok(if last == [b'\n'] {
        number.saturating_sub(1)
    } else {
        number
    })
}

fn take_index(identity: [u64; 4]) -> Vec<u64> {
    let mut indexes = INDEXES.lock().unwrap_or_else(PoisonError::into_inner);
    let known = indexes
        .iter()
        .position(|i| i.identity == identity)
        .and_then(|at| indexes.remove(at));
    known.map_or_else(|| vec![0], |index| index.places)
}

fn put_index(index: Index) {
    let mut indexes = INDEXES.lock().unwrap_or_else(PoisonError::into_inner);
    indexes.retain(|i| i.identity != index.identity);
    indexes.push_front(index);
    indexes.truncate(FILES);
}
