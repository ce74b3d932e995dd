//! Full tool results on disk (plan M1, spec 2).
//!
//! - A1 written once: a name that exists is never overwritten, a repetition gets `.2`, `.3`, …;
//! - A2 atomic and durable: a reader sees all of it or nothing, and a record that names it is written after it;
//! - A3 private, and never outside of the session's directory;
//! - A4 at most 64 MiB, cut between characters for text.

use super::disk::{Dir, Entry, File, Open, write_all};
use super::names::{Relative, SESSION_MEMORY, SUMMARY, TOOL_RESULTS, parse_relative, safe_name};
use crate::error::{Error, Result};
use crate::limits::MAX_ARTIFACT_BYTES;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Repetitions of one id that get a name.
const MAX_REPETITIONS: u32 = 100_000;

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// `tool-results/<name>.txt`
    pub relative_path: String,
    /// Bytes in the file.
    pub size_bytes: u64,
    /// Whether the result was larger than the file may be.
    pub truncated: bool,
}

/// The artifacts of one session.
pub struct ArtifactStore {
    session: Arc<dyn Dir>,
}

impl ArtifactStore {
    /// The store in a session's directory.
    pub fn new(session: Arc<dyn Dir>) -> Self {
        Self { session }
    }

    /// Keeps a result under its call's id. `is_text` cuts between characters.
    ///
    /// # Errors
    /// [`Error::Storage`]; nothing is left behind then.
    pub fn write(&self, id: &[u8], content: &[u8], is_text: bool, suffix: &str) -> Result<Written> {
        let limit = usize::try_from(MAX_ARTIFACT_BYTES).unwrap_or(usize::MAX);
        let kept = if content.len() <= limit {
            content
        } else {
            cut(content, limit, is_text)
        };
        let stem = safe_name(id);
        let dir = self
            .session
            .subdir(TOOL_RESULTS)
            .map_err(|e| self.storage("open the directory of", &stem, e))?;
        let name =
            write_new(&*dir, &stem, suffix, kept).map_err(|e| self.storage("write", &stem, e))?;
        Ok(Written {
            relative_path: format!("{TOOL_RESULTS}/{name}"),
            size_bytes: kept.len() as u64,
            truncated: kept.len() < content.len(),
        })
    }

    /// Replaces the session memory's summary, atomically.
    ///
    /// # Errors
    /// [`Error::Storage`]; the former summary is then still there.
    pub fn replace_summary(&self, content: &[u8]) -> Result<Written> {
        let storage = |e| self.storage("write", SUMMARY, e);
        let dir = self.session.subdir(SESSION_MEMORY).map_err(storage)?;
        let temporary = temporary_name();
        let result = write_temporary(&*dir, &temporary, content)
            .and_then(|()| dir.rename(&temporary, SUMMARY))
            .and_then(|()| dir.sync());
        if let Err(error) = result {
            let _ = dir.remove(&temporary);
            return Err(storage(error));
        }
        Ok(Written {
            relative_path: format!("{SESSION_MEMORY}/{SUMMARY}"),
            size_bytes: content.len() as u64,
            truncated: false,
        })
    }

    /// Opens an artifact for reading.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a path that is not an artifact's; [`Error::Storage`] if it cannot be read.
    pub fn open(&self, relative: &str) -> Result<Box<dyn File>> {
        let Relative { folder, name } = parse_relative(relative)?;
        let open = || self.session.subdir(folder)?.open(&name, Open::Read);
        open().map_err(|e| self.storage("read", &name, e))
    }

    /// All artifacts, oldest first, unfinished ones left out.
    ///
    /// # Errors
    /// [`Error::Storage`].
    pub fn list(&self) -> Result<Vec<(String, Entry)>> {
        let mut found = Vec::new();
        for folder in [TOOL_RESULTS, SESSION_MEMORY] {
            let entries = self
                .session
                .subdir(folder)
                .and_then(|d| d.list())
                .map_err(|e| self.storage("list", folder, e))?;
            for entry in entries {
                let relative = format!("{folder}/{}", entry.name);
                if entry.is_file && parse_relative(&relative).is_ok() {
                    found.push((relative, entry));
                }
            }
        }
        found.sort_by(|a, b| (a.1.modified_ms, &a.0).cmp(&(b.1.modified_ms, &b.0)));
        Ok(found)
    }

    fn storage(&self, op: &'static str, name: &str, error: io::Error) -> Error {
        Error::storage(
            op,
            self.session.path().join(name).display().to_string(),
            error,
        )
    }
}

/// At most `limit` bytes that end between two characters, if it is text.
fn cut(content: &[u8], limit: usize, is_text: bool) -> &[u8] {
    let mut end = limit;
    while is_text
        && end > limit.saturating_sub(4)
        && content.get(end).is_some_and(|b| b & 0xc0 == 0x80)
    {
        end = end.saturating_sub(1);
    }
    content.get(..end).unwrap_or(content)
}

fn temporary_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!(
        ".tmp-{}-{}",
        std::process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    )
}

fn write_temporary(dir: &dyn Dir, name: &str, content: &[u8]) -> io::Result<()> {
    let mut file = dir.open(name, Open::CreateNew)?;
    write_all(&mut *file, content)?;
    file.sync()
}

/// Writes under the first free name: everything is durable under a temporary one before it gets its own.
fn write_new(dir: &dyn Dir, stem: &str, suffix: &str, content: &[u8]) -> io::Result<String> {
    let temporary = temporary_name();
    let result = write_temporary(dir, &temporary, content).and_then(|()| {
        for n in 1..=MAX_REPETITIONS {
            let name = if n == 1 {
                format!("{stem}{suffix}")
            } else {
                format!("{stem}.{n}{suffix}")
            };
            match dir.link(&temporary, &name) {
                Ok(()) => return Ok(name),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::from(io::ErrorKind::AlreadyExists))
    });
    let _ = dir.remove(&temporary);
    let name = result?;
    dir.sync()?;
    Ok(name)
}

#[cfg(test)]
#[path = "artifacts_tests.rs"]
mod tests;
