//! The only file-system user: a few primitive operations on names inside a directory that is held open.
//!
//! - I1 files are 0600 and directories 0700 at creation, whatever the umask; looser ones of ours are tightened when opened;
//! - I2 no name leads out of the directory: names are single components, links are not followed;
//! - I3 nothing here retries, buffers or hides: one call, one system call. What is durable when is decided by the callers, so that a simulated
//!   disk can hold back exactly what a real one may lose (reliability R6).

#![expect(
    clippy::disallowed_methods,
    reason = "this is the one file that touches the disk"
)]

use rustix::fs::{self, AtFlags, Mode, OFlags};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// For appending and reading; created if missing.
    Append,
    /// For writing; must not exist.
    CreateNew,
    /// For reading; must exist.
    Read,
}

/// What a directory holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name.
    pub name: String,
    /// Size in bytes.
    pub len: u64,
    /// Last change, ms since the epoch.
    pub modified_ms: i64,
    /// False for directories and everything else.
    pub is_file: bool,
}

/// An open file.
pub trait File: Send + std::marker::Sync {
    /// One write at the end (append) or at the cursor (create); may be short.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;
    /// Makes what was written durable.
    fn sync(&self) -> io::Result<()>;
    /// Cuts the file.
    fn truncate(&mut self, len: u64) -> io::Result<()>;
    /// Size in bytes.
    fn len(&self) -> io::Result<u64>;
    /// True if there is nothing in it.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Reads from a place; may be short, 0 at the end.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// What tells this file's content from another's: device, inode, size, change time.
    fn identity(&self) -> io::Result<[u64; 4]>;
}

/// A directory that is held open.
pub trait Dir: Send + std::marker::Sync {
    /// Opens a file in it.
    fn open(&self, name: &str, how: Open) -> io::Result<Box<dyn File>>;
    /// Gives a file a second name, which must not exist.
    fn link(&self, from: &str, to: &str) -> io::Result<()>;
    /// Renames a file over another.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a name.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes names durable.
    fn sync(&self) -> io::Result<()>;
    /// What is in it.
    fn list(&self) -> io::Result<Vec<Entry>>;
    /// A directory in it, made if missing.
    fn subdir(&self, name: &str) -> io::Result<Arc<dyn Dir>>;
    /// Takes the lock file's lock and writes `holder` into it; `Err` of kind `WouldBlock` if another has it.
    fn lock(&self, name: &str, holder: &str) -> io::Result<Box<dyn Send + std::marker::Sync>>;
    /// Where it is, for messages.
    fn path(&self) -> PathBuf;
}

const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
const DIR_MODE: Mode = Mode::RWXU;

/// A real directory.
pub struct RealDir {
    fd: OwnedFd,
    path: PathBuf,
}

impl RealDir {
    /// Opens a directory by path, making it and its parents (0700) if missing.
    pub fn open(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt;
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)?;
        Self::open_existing(path)
    }

    /// Opens a directory by path.
    pub fn open_existing(path: &Path) -> io::Result<Self> {
        let fd = fs::open(
            path,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        Ok(Self {
            fd,
            path: path.to_owned(),
        })
    }
}

/// A name that stays in its directory.
fn component(name: &str) -> io::Result<&str> {
    let bad = name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']);
    if bad {
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a file name",
        ))
    } else {
        Ok(name)
    }
}

impl Dir for RealDir {
    fn open(&self, name: &str, how: Open) -> io::Result<Box<dyn File>> {
        let flags = match how {
            Open::Append => OFlags::RDWR | OFlags::APPEND | OFlags::CREATE,
            Open::CreateNew => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
            Open::Read => OFlags::RDONLY,
        };
        let fd = fs::openat(
            &self.fd,
            component(name)?,
            flags | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            FILE_MODE,
        )?;
        let stat = fs::fstat(&fd)?;
        if !fs::FileType::from_raw_mode(stat.st_mode).is_file() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not a regular file",
            ));
        }
        // Exact whatever the umask was, and tightened if an older version left it open.
        if how != Open::Read && Mode::from_raw_mode(stat.st_mode) != FILE_MODE {
            fs::fchmod(&fd, FILE_MODE)?;
        }
        Ok(Box::new(RealFile { fd }))
    }

    fn link(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(fs::linkat(
            &self.fd,
            component(from)?,
            &self.fd,
            component(to)?,
            AtFlags::empty(),
        )?)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(fs::renameat(
            &self.fd,
            component(from)?,
            &self.fd,
            component(to)?,
        )?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        Ok(fs::unlinkat(&self.fd, component(name)?, AtFlags::empty())?)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(fs::fsync(&self.fd)?)
    }

    fn list(&self) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for entry in fs::Dir::read_from(&self.fd)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else {
                continue;
            };
            if name == "." || name == ".." {
                continue;
            }
            // Gone since it was read is not there.
            let Ok(stat) = fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            entries.push(Entry {
                name: name.to_owned(),
                len: u64::try_from(stat.st_size).unwrap_or(0),
                modified_ms: stat
                    .st_mtime
                    .saturating_mul(1_000)
                    .saturating_add(i64::try_from(stat.st_mtime_nsec / 1_000_000).unwrap_or(0)),
                is_file: fs::FileType::from_raw_mode(stat.st_mode).is_file(),
            });
        }
        Ok(entries)
    }

    fn subdir(&self, name: &str) -> io::Result<Arc<dyn Dir>> {
        let name = component(name)?;
        match fs::mkdirat(&self.fd, name, DIR_MODE) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = fs::openat(&self.fd, name, flags, Mode::empty())?;
        if Mode::from_raw_mode(fs::fstat(&fd)?.st_mode) != DIR_MODE {
            fs::fchmod(&fd, DIR_MODE)?;
        }
        Ok(Arc::new(Self {
            fd,
            path: self.path.join(name),
        }))
    }

    fn lock(&self, name: &str, holder: &str) -> io::Result<Box<dyn Send + std::marker::Sync>> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = fs::openat(&self.fd, component(name)?, flags, FILE_MODE)?;
        // The kernel frees it when the last descriptor closes, so a dead holder leaves nothing stale; the file itself stays for ever.
        fs::flock(&fd, fs::FlockOperation::NonBlockingLockExclusive)?;
        fs::ftruncate(&fd, 0)?;
        rustix::io::pwrite(&fd, holder.as_bytes(), 0)?;
        Ok(Box::new(fd))
    }

    fn path(&self) -> PathBuf {
        self.path.clone()
    }
}

struct RealFile {
    fd: OwnedFd,
}

impl File for RealFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(&self.fd, bytes)?)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(fs::fdatasync(&self.fd)?)
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        Ok(fs::ftruncate(&self.fd, len)?)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(u64::try_from(fs::fstat(&self.fd)?.st_size).unwrap_or(0))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(rustix::io::pread(&self.fd, buffer, offset)?)
    }

    fn identity(&self) -> io::Result<[u64; 4]> {
        let stat = fs::fstat(&self.fd)?;
        let changed = stat
            .st_mtime
            .cast_unsigned()
            .wrapping_mul(1_000_000_000)
            .wrapping_add(stat.st_mtime_nsec);
        Ok([
            stat.st_dev,
            stat.st_ino,
            stat.st_size.cast_unsigned(),
            changed,
        ])
    }
}

/// Opens a file anywhere for reading: a transcript named by the user.
pub fn open_for_reading(path: &Path) -> io::Result<Box<dyn File>> {
    let fd = fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    if fs::FileType::from_raw_mode(fs::fstat(&fd)?.st_mode).is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    Ok(Box::new(RealFile { fd }))
}

/// Writes all bytes, as many calls as it takes. The caller undoes a part that was written.
pub fn write_all(file: &mut dyn File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero)),
            Ok(n) => bytes = bytes.get(n..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Fills a buffer from a place, as far as the file goes; how much that was.
pub fn read_full(file: &dyn File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0usize;
    while let Some(rest) = buffer.get_mut(done..).filter(|r| !r.is_empty()) {
        match file.read_at(rest, offset.saturating_add(done as u64)) {
            Ok(0) => break,
            Ok(n) => done = done.saturating_add(n),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}
