//! The append-only JSONL log of one session (reliability 2.1).
//!
//! - T1 a record is one line and one write, its newline last; a short or failed write is undone before the error is returned, and the log stays usable;
//! - T2 when a log is opened, bytes behind the last newline are saved beside it and cut off, durably, before anything is appended; but if they are
//!   a whole record (another writer's, without its newline: no beginning of a JSON object is one) they get their newline;
//! - T3 after a failed sync the handle is closed for good: nobody knows what the disk has. Opening again copies what was acknowledged into
//!   a new file;
//! - T4 nothing already acknowledged is ever rewritten.

use super::disk::{Dir, File, Open, read_full, write_all};
use crate::error::{Error, Result};
use std::io;
use std::sync::Arc;

/// When an append is durable against power loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sync {
    /// Before its call returns.
    #[default]
    Always,
    /// At the next flush: at a boundary, at the end of a turn. Against a kill it is always durable.
    Turn,
}

/// What opening a log found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Opened {
    /// Where a torn tail was saved, and its size in bytes.
    pub torn: Option<(String, u64)>,
    /// Size of the log, in bytes.
    pub len: u64,
}

/// An open log.
pub struct Transcript {
    dir: Arc<dyn Dir>,
    name: String,
    file: Box<dyn File>,
    /// Everything up to here has been acknowledged.
    good: u64,
    sync: Sync,
    dirty: bool,
    failed: Option<&'static str>,
}

const BLOCK: usize = 64 * 1024;

impl Transcript {
    /// Opens or creates the log, and repairs its tail.
    ///
    /// # Errors
    /// [`Error::Storage`] if the disk refuses; the log is then as it was.
    pub fn open(dir: Arc<dyn Dir>, name: &str, sync: Sync) -> Result<(Self, Opened)> {
        let path = dir.path().join(name).display().to_string();
        let storage = |op: &'static str, path: &str| {
            let path = path.to_owned();
            move |e: io::Error| Error::storage(op, path, e)
        };
        let mut file = dir
            .open(name, Open::Append)
            .map_err(storage("open", &path))?;
        // The name must survive a power loss as well as what is written under it.
        dir.sync()
            .map_err(storage("sync the directory of", &path))?;
        let len = file.len().map_err(storage("read", &path))?;
        let good = end_of_last_line(&*file, len).map_err(storage("read", &path))?;
        let mut opened = Opened {
            torn: None,
            len: good,
        };
        let mut good = good;
        if good < len && is_whole_record(&*file, good, len).map_err(storage("read", &path))? {
            write_all(&mut *file, b"\n").map_err(storage("write to", &path))?;
            file.sync().map_err(storage("sync", &path))?;
            good = len.saturating_add(1);
            opened.len = good;
        } else if good < len {
            let saved = save_tail(&*dir, name, &*file, good, len)
                .map_err(storage("save the torn tail of", &path))?;
            opened.torn = Some((saved, len - good));
            file.truncate(good)
                .map_err(storage("cut the torn tail of", &path))?;
            file.sync().map_err(storage("sync", &path))?;
        }
        Ok((
            Self {
                dir,
                name: name.to_owned(),
                file,
                good,
                sync,
                dirty: false,
                failed: None,
            },
            opened,
        ))
    }

    /// Appends one line: all of it or nothing.
    ///
    /// # Errors
    /// [`Error::Storage`]: nothing of the line is in the log, and the log can be used. [`Error::Poisoned`]: it cannot.
    pub fn append(&mut self, line: &str) -> Result<()> {
        self.check()?;
        let mut batch = Vec::with_capacity(line.len().saturating_add(1));
        batch.extend_from_slice(line.as_bytes());
        batch.push(b'\n');
        if let Err(error) = write_all(&mut *self.file, &batch) {
            if self.file.truncate(self.good).is_err() {
                // A part of the batch may be in the file; the next opening will cut it off.
                self.failed = Some("write");
            }
            return Err(Error::storage("write to", self.path(), error));
        }
        if self.sync == Sync::Always {
            self.sync_now()?;
        } else {
            self.dirty = true;
        }
        self.good = self.good.saturating_add(batch.len() as u64);
        Ok(())
    }

    /// Makes everything durable.
    ///
    /// # Errors
    /// [`Error::Storage`]; the log is closed then.
    pub fn flush(&mut self) -> Result<()> {
        self.check()?;
        if self.dirty {
            self.sync_now()?;
            self.dirty = false;
        }
        Ok(())
    }

    /// Opens the log again after a failure: a new file with what was acknowledged takes the old one's place.
    ///
    /// # Errors
    /// [`Error::Storage`]; the old file is then still in place.
    pub fn reopen(&mut self) -> Result<()> {
        let storage = |e: io::Error| Error::storage("copy", self.path(), e);
        let copy = format!("{}.new", self.name);
        let _ = self.dir.remove(&copy);
        let mut new = self.dir.open(&copy, Open::CreateNew).map_err(storage)?;
        copy_range(&*self.file, &mut *new, 0, self.good).map_err(storage)?;
        new.sync().map_err(storage)?;
        self.dir.rename(&copy, &self.name).map_err(storage)?;
        self.dir.sync().map_err(storage)?;
        self.file = self.dir.open(&self.name, Open::Append).map_err(storage)?;
        self.failed = None;
        self.dirty = false;
        Ok(())
    }

    /// Size of what was acknowledged, in bytes.
    pub fn len(&self) -> u64 {
        self.good
    }

    /// True if nothing was ever acknowledged.
    pub fn is_empty(&self) -> bool {
        self.good == 0
    }

    /// The open file, for reading.
    pub fn file(&self) -> &dyn File {
        &*self.file
    }

    fn sync_now(&mut self) -> Result<()> {
        self.file.sync().map_err(|error| {
            self.failed = Some("sync");
            Error::storage("sync", self.path(), error)
        })
    }

    fn check(&self) -> Result<()> {
        match self.failed {
            Some(op) => Err(Error::Poisoned {
                path: self.path(),
                op,
            }),
            None => Ok(()),
        }
    }

    fn path(&self) -> String {
        self.dir.path().join(&self.name).display().to_string()
    }
}

/// Where the last complete line ends.
fn end_of_last_line(file: &dyn File, len: u64) -> io::Result<u64> {
    let mut end = len;
    let mut block = vec![0; BLOCK];
    while end > 0 {
        let start = end.saturating_sub(BLOCK as u64);
        let want = usize::try_from(end - start).unwrap_or(BLOCK);
        let part = block.get_mut(..want).unwrap_or_default();
        let n = read_full(file, part, start)?;
        if let Some(at) = memchr::memrchr(b'\n', part.get(..n).unwrap_or_default()) {
            return Ok(start.saturating_add(at as u64).saturating_add(1));
        }
        end = start;
    }
    Ok(0)
}

/// Whether the bytes behind the last line are one whole record.
fn is_whole_record(file: &dyn File, from: u64, to: u64) -> io::Result<bool> {
    let size = usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX);
    if size > super::scan::MAX_LINE {
        return Ok(false);
    }
    let mut bytes = vec![0; size];
    let n = read_full(file, &mut bytes, from)?;
    let line = super::scan::parse_line(bytes.get(..n).unwrap_or_default());
    Ok(line.damage.is_none() && line.records.len() == 1)
}

/// Copies the bytes behind the last line to `<name>.torn-N`, durably.
fn save_tail(dir: &dyn Dir, name: &str, file: &dyn File, from: u64, to: u64) -> io::Result<String> {
    for n in 1..10_000u32 {
        let saved = format!("{name}.torn-{n}");
        match dir.open(&saved, Open::CreateNew) {
            Ok(mut copy) => {
                copy_range(file, &mut *copy, from, to)?;
                copy.sync()?;
                dir.sync()?;
                return Ok(saved);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::from(io::ErrorKind::AlreadyExists))
}

/// Copies a range of one file to the end of another.
pub fn copy_range(from: &dyn File, to: &mut dyn File, start: u64, end: u64) -> io::Result<()> {
    let mut at = start;
    let mut block = vec![0; BLOCK];
    while at < end {
        let want = usize::try_from((end - at).min(BLOCK as u64)).unwrap_or(BLOCK);
        let part = block.get_mut(..want).unwrap_or_default();
        let n = read_full(from, part, at)?;
        if n == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        write_all(to, part.get(..n).unwrap_or_default())?;
        at = at.saturating_add(n as u64);
    }
    Ok(())
}
