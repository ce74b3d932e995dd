//! One writer of one session: lock, transcript, sequence numbers, fork guard (reliability 2.2).
//!
//! - W1 one writer a session; a second one is refused at once, and a dead one leaves nothing stale;
//! - W2 calls of several threads are linear: sequence numbers without gaps, in the order of the file;
//! - W3 a forked child cannot write, and its end does not unlock its parent's session.

use super::disk::{Dir, Open, read_full};
use super::scan;
use super::transcript::{Opened, Sync, Transcript};
use crate::error::{Error, Result};
use serde_json::Value;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A session that is being written.
pub struct Recorder {
    inner: Mutex<Inner>,
    path: String,
    pid: u32,
    opened: Opened,
    // Held, not used: the lock ends with it.
    _lock: Box<dyn Send + std::marker::Sync>,
}

struct Inner {
    transcript: Transcript,
    next_seq: u64,
}

impl Recorder {
    /// Opens a session for writing; `name` is the transcript's file name in `dir`.
    ///
    /// # Errors
    /// [`Error::SessionLocked`] if another writer has it; [`Error::Storage`] if the disk refuses.
    pub fn open(dir: Arc<dyn Dir>, name: &str, sync: Sync) -> Result<Self> {
        let path = dir.path().join(name).display().to_string();
        let pid = std::process::id();
        let lock_name = format!("{name}.lock");
        let lock = dir
            .lock(&lock_name, &pid.to_string())
            .map_err(|error| match error.kind() {
                io::ErrorKind::WouldBlock => Error::SessionLocked {
                    path: path.clone(),
                    pid: holder(&*dir, &lock_name),
                },
                _ => Error::storage("lock", path.clone(), error),
            })?;
        let (transcript, opened) = Transcript::open(dir, name, sync)?;
        let next_seq = last_seq(&transcript)
            .map_err(|e| Error::storage("read", path.clone(), e))?
            .map_or(1, |seq| seq.saturating_add(1));
        Ok(Self {
            inner: Mutex::new(Inner {
                transcript,
                next_seq,
            }),
            path,
            pid,
            opened,
            _lock: lock,
        })
    }

    /// Appends a record, the JSON text of an object; its `seq`, which is added to it, is returned.
    ///
    /// # Errors
    /// [`Error::Storage`]: nothing was recorded, go on when there is room. [`Error::Poisoned`], [`Error::Forked`].
    pub fn record(&self, record: &str) -> Result<u64> {
        let mut inner = self.locked()?;
        let seq = inner.next_seq;
        inner.transcript.append(&with_seq(record, seq)?)?;
        inner.next_seq = seq.saturating_add(1);
        Ok(seq)
    }

    /// Makes everything durable.
    ///
    /// # Errors
    /// As [`Transcript::flush`].
    pub fn flush(&self) -> Result<()> {
        self.locked()?.transcript.flush()
    }

    /// Opens the transcript again after a failed sync.
    ///
    /// # Errors
    /// As [`Transcript::reopen`].
    pub fn reopen(&self) -> Result<()> {
        self.locked()?.transcript.reopen()
    }

    /// Size of the transcript in bytes.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn len(&self) -> Result<u64> {
        Ok(self.locked()?.transcript.len())
    }

    /// True if nothing was recorded yet.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// What opening found.
    pub fn opened(&self) -> &Opened {
        &self.opened
    }

    /// Where the transcript is.
    pub fn path(&self) -> &str {
        &self.path
    }

    fn locked(&self) -> Result<MutexGuard<'_, Inner>> {
        let here = std::process::id();
        if here != self.pid {
            return Err(Error::Forked {
                pid: self.pid,
                here,
            });
        }
        // A panic inside leaves the transcript consistent: `good` moves only after a whole batch.
        Ok(self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn holder(dir: &dyn Dir, lock_name: &str) -> u32 {
    let mut buffer = [0; 16];
    let n = dir
        .open(lock_name, Open::Read)
        .and_then(|f| read_full(&*f, &mut buffer, 0))
        .unwrap_or(0);
    buffer
        .get(..n)
        .and_then(|b| std::str::from_utf8(b).ok())
        .and_then(|t| t.trim().parse().ok())
        .unwrap_or(0)
}

/// The last record's number, from the durable tail; `None` if no record has one.
fn last_seq(transcript: &Transcript) -> io::Result<Option<u64>> {
    let mut found = None;
    let mut looked_at = 0;
    scan::backward(transcript.file(), transcript.len(), |_, line| {
        looked_at += 1;
        found = line.and_then(|l| scan::parse_line(l).records.last()?.get("seq")?.as_u64());
        // A file of another writer has none: a few lines tell.
        found.is_none() && looked_at < 200
    })?;
    Ok(found)
}

/// One line: the record with its number first, and with the characters that other readers take for line ends escaped.
fn with_seq(record: &str, seq: u64) -> Result<String> {
    let body = record.trim();
    let inside = body
        .strip_prefix('{')
        .filter(|_| body.ends_with('}'))
        .ok_or_else(|| Error::InvalidArgument {
            what: "record",
            problem: "not the JSON text of an object".to_owned(),
            way_out: "Pass one JSON object per record".to_owned(),
        })?;
    let comma = if inside.trim() == "}" { "" } else { "," };
    let line = format!("{{\"seq\":{seq}{comma}{inside}");
    if line.contains(['\n', '\r']) {
        // Pretty-printed text: the same value on one line.
        let value: Value = serde_json::from_str(&line).map_err(|_| Error::InvalidArgument {
            what: "record",
            problem: "not valid JSON".to_owned(),
            way_out: "Pass one JSON object per record".to_owned(),
        })?;
        return Ok(escape_line_ends(&value.to_string()));
    }
    Ok(escape_line_ends(&line))
}

fn escape_line_ends(line: &str) -> String {
    if line.is_ascii() || !line.contains(['\u{2028}', '\u{2029}', '\u{85}']) {
        return line.to_owned();
    }
    line.replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
        .replace('\u{85}', "\\u0085")
}

#[cfg(test)]
#[path = "recorder_tests.rs"]
mod tests;
