//! What a session goes on with: the last complete compaction, its kept tail, everything later (spec 4, policies 5.10).
//!
//! - U1 read backward: the cost follows the tail, not the file;
//! - U2 a boundary counts only if its summary is there; else the one before it does;
//! - U3 a record that is present twice counts once, its newest form at its first place;
//! - U4 a boundary is a record's type, never a text.
//!
//! Boundaries are read in three forms: ours (one record with summary and first kept id), MT-Agent's (boundary, then a `compact_summary`
//! message), and its first one (`compression`).

use super::disk::File;
use super::scan::{self, Damage, Record};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::io;

/// A compaction as it is resumed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Boundary {
    /// The record of the boundary.
    pub record: Record,
    /// The summary's text.
    pub summary: String,
    /// User messages that the compaction kept verbatim from before the tail.
    pub pinned: Vec<Record>,
}

/// What to go on with.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Resume {
    /// The last complete compaction.
    pub boundary: Option<Boundary>,
    /// Messages of the kept tail and everything later, in order.
    pub messages: Vec<Record>,
    /// Other records after the boundary, in order: what was cleared, session memory, ends and starts.
    pub others: Vec<Record>,
    /// Damaged lines that were met.
    pub damaged: Vec<Damage>,
    /// Bytes that were read.
    pub bytes_read: u64,
}

fn text<'a>(record: &'a Record, key: &str) -> &'a str {
    record.get(key).and_then(Value::as_str).unwrap_or("")
}

fn is_message(record: &Record) -> bool {
    text(record, "type") == "transcript_message"
}

/// MT-Agent's summary after its boundary.
fn is_summary_message(record: &Record) -> bool {
    is_message(record)
        && text(record, "role") == "system"
        && text(record, "name") == "compact_summary"
}

/// Reads what a session goes on with. `accept_memory` says that a boundary of MT-Agent's session memory counts: its summary is a
/// file, which the caller has.
///
/// # Errors
/// What the disk says.
pub fn resume(file: &dyn File, accept_memory: bool) -> io::Result<Resume> {
    let len = file.len()?;
    let mut state = Backward {
        accept_memory,
        ..Backward::default()
    };
    let bytes_read = scan::backward(file, len, |offset, line| state.line(offset, line))?;
    Ok(state.finish(bytes_read))
}

/// The state of the walk from the end to the beginning.
#[derive(Default)]
struct Backward {
    accept_memory: bool,
    /// Messages so far, newest first.
    messages: Vec<Record>,
    others: Vec<Record>,
    damaged: Vec<Damage>,
    boundary: Option<Boundary>,
    /// The id at which the kept tail of the boundary begins, while it is looked for.
    looking_for: Option<String>,
    /// A summary message that has been passed and whose boundary must come next.
    summary_after: Option<(usize, String)>,
    done: bool,
}

impl Backward {
    fn line(&mut self, offset: u64, line: Option<&[u8]>) -> bool {
        let Some(line) = line else {
            self.damaged.push(Damage {
                offset,
                reason: "longer than 16 MiB",
            });
            return !self.done;
        };
        let parsed = scan::parse_line(line);
        if let Some(reason) = parsed.damage {
            self.damaged.push(Damage { offset, reason });
        }
        for record in parsed.records.into_iter().rev() {
            self.record(record);
            if self.done {
                return false;
            }
        }
        true
    }

    fn record(&mut self, record: Record) {
        if self.boundary.is_some() {
            self.tail_record(record);
            return;
        }
        match text(&record, "type") {
            "compact_boundary" => self.boundary_record(record),
            "compression" if !text(&record, "summary").trim().is_empty() => {
                let summary = text(&record, "summary").to_owned();
                self.boundary = Some(Boundary {
                    record,
                    summary,
                    pinned: Vec::new(),
                });
                self.done = true;
            }
            "transcript_message" => {
                if is_summary_message(&record) {
                    self.summary_after =
                        Some((self.messages.len(), text(&record, "content").to_owned()));
                }
                self.messages.push(record);
            }
            _ => self.others.push(record),
        }
    }

    fn boundary_record(&mut self, record: Record) {
        let own = text(&record, "summary").trim();
        let following = self
            .summary_after
            .take()
            .filter(|(at, _)| *at == self.messages.len().saturating_sub(1));
        let summary = if own.is_empty() {
            following.as_ref().map_or("", |(_, s)| s.as_str()).trim()
        } else {
            own
        };
        let has_memory = self.accept_memory && text(&record, "reason") == "session_memory";
        if summary.is_empty() && !has_memory {
            // Its summary was never written: as if it had not happened.
            self.others.push(record);
            return;
        }
        let summary = summary.to_owned();
        if own.is_empty() && following.is_some() {
            // MT-Agent's summary message is the summary now, not a message.
            self.messages.pop();
        }
        let pinned = record
            .get("pinned")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        let pinned = pinned
            .into_iter()
            .filter_map(|v| {
                if let Value::Object(m) = v {
                    Some(m)
                } else {
                    None
                }
            })
            .collect();
        let kept_from = text(&record, "kept_from_id").to_owned();
        self.boundary = Some(Boundary {
            record,
            summary,
            pinned,
        });
        self.done = kept_from.is_empty();
        self.looking_for = Some(kept_from).filter(|id| !id.is_empty());
    }

    /// A record before the boundary: part of the kept tail until its first message is reached.
    fn tail_record(&mut self, record: Record) {
        if is_message(&record) && !is_summary_message(&record) {
            let first = self.looking_for.as_deref() == Some(text(&record, "id"));
            self.messages.push(record);
            self.done = first;
        } else if text(&record, "type") == "microcompact" {
            self.others.push(record);
        }
    }

    fn finish(mut self, bytes_read: u64) -> Resume {
        self.messages.reverse();
        self.others.reverse();
        self.damaged.reverse();
        // A pinned message that the tail holds anyway is not said twice.
        if let Some(boundary) = &mut self.boundary {
            let ids: HashSet<&str> = self.messages.iter().map(|m| text(m, "id")).collect();
            boundary
                .pinned
                .retain(|m| !ids.contains(text(m, "id")) || text(m, "id").is_empty());
        }
        Resume {
            boundary: self.boundary,
            messages: once(self.messages),
            others: self.others,
            damaged: self.damaged,
            bytes_read,
        }
    }
}

/// Records with the same id once: the newest form at the first place.
fn once(messages: Vec<Record>) -> Vec<Record> {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut out: Vec<Record> = Vec::with_capacity(messages.len());
    for message in messages {
        let id = text(&message, "id").to_owned();
        match places
            .get(&id)
            .filter(|_| !id.is_empty())
            .and_then(|at| out.get_mut(*at))
        {
            Some(slot) => *slot = message,
            None => {
                if !id.is_empty() {
                    places.insert(id, out.len());
                }
                out.push(message);
            }
        }
    }
    out
}

/// What a listing shows of a session: read from the head and the tail of its file only.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Listing {
    /// The `session_start` record, if the head has it.
    pub start: Option<Record>,
    /// The `session_end` record, if the tail has it.
    pub end: Option<Record>,
    /// The first user message in the head.
    pub first_user_message: Option<String>,
    /// User and assistant messages; exact for files that head and tail cover, else by size.
    pub message_count: u64,
    /// Whether `message_count` is an estimate.
    pub estimated: bool,
    /// File size in bytes.
    pub len: u64,
}

/// Bytes that are read from each end.
const END_BYTES: u64 = 128 * 1024;

/// Reads head and tail of a session file.
///
/// # Errors
/// What the disk says.
pub fn listing(file: &dyn File) -> io::Result<Listing> {
    let len = file.len()?;
    let mut found = Listing {
        len,
        ..Listing::default()
    };
    let whole = len <= END_BYTES.saturating_mul(2);
    let (mut messages, mut covered) = (0u64, 0u64);
    scan::forward(file, 0, |offset, line| {
        let Some(line) = line else {
            return offset < END_BYTES;
        };
        for record in scan::parse_line(line).records {
            let role = text(&record, "role").to_owned();
            match text(&record, "type") {
                "session_start" if found.start.is_none() => found.start = Some(record),
                "session_end" => found.end = Some(record),
                // The first writer of MT-Agent had a type per role.
                "transcript_message" | "user" | "assistant" => {
                    let kind = if role.is_empty() {
                        text(&record, "type").to_owned()
                    } else {
                        role
                    };
                    messages += u64::from(kind == "user" || kind == "assistant");
                    if kind == "user" && found.first_user_message.is_none() {
                        found.first_user_message = Some(content_text(&record));
                    }
                }
                _ => {}
            }
        }
        covered = offset.saturating_add(line.len() as u64).saturating_add(1);
        whole
            || covered < END_BYTES
            || (found.first_user_message.is_none() && covered < END_BYTES.saturating_mul(32))
    })?;
    if !whole && covered < len {
        let mut left = 8;
        scan::backward(file, len, |_, line| {
            left -= 1;
            for record in line.map(scan::parse_line).unwrap_or_default().records {
                if text(&record, "type") == "session_end" {
                    found.end = Some(record);
                }
            }
            found.end.is_none() && left > 0
        })?;
        messages = messages.saturating_mul(len) / covered.max(1);
        found.estimated = true;
    }
    found.message_count = messages;
    Ok(found)
}

fn content_text(record: &Record) -> String {
    match record.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(blocks)) => blocks
            .iter()
            .filter_map(|b| b.get("text").and_then(Value::as_str))
            .collect::<Vec<_>>()
            .join(" "),
        _ => String::new(),
    }
}

#[cfg(test)]
#[path = "resume_tests.rs"]
mod tests;
