//! The one error type of the crate. A variant says what the caller can do about it; a message says what went wrong,
//! on which thing, and the way out. No message ever contains content of the session.

/// What can go wrong in the core.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An argument is outside of what the function accepts. Python sees a `ValueError`.
    #[error("{what}: {problem}. {way_out}")]
    InvalidArgument {
        /// The argument's name.
        what: &'static str,
        /// What is wrong with it, without its content.
        problem: String,
        /// What to pass instead.
        way_out: String,
    },
    /// A tokenizer or encoding name that nobody knows. Python sees a `ValueError`.
    #[error("unknown encoding {name:?}. Known encodings: {known}")]
    UnknownEncoding {
        /// The name that was asked for.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// What must stay does not fit the window. Python sees an `IrreducibleContextError`.
    #[error(
        "the context cannot be made to fit: {needed} tokens must stay but only {limit} are allowed. Largest parts: {parts}. \
         Use a model with a larger window, or shorten the system prompt, the tool schemas or the request"
    )]
    IrreducibleContext {
        /// Tokens that must stay.
        needed: u64,
        /// Tokens that are allowed.
        limit: u64,
        /// The largest parts and their sizes, without content.
        parts: String,
    },
    /// The disk refused. Python sees a `StorageError`, an `OSError` with its errno.
    #[error("cannot {op} {path}: {source}. {way_out}")]
    Storage {
        /// What was tried.
        op: &'static str,
        /// On which file.
        path: String,
        /// What the system said.
        source: std::io::Error,
        /// What to do.
        way_out: &'static str,
    },
    /// Another process, or this one, writes this session. Python sees a `SessionLockedError`.
    #[error(
        "session {path} is being written by process {pid}. Close it there first, or start a new session; reading it needs no lock"
    )]
    SessionLocked {
        /// The transcript.
        path: String,
        /// The holder, 0 if it could not be read.
        pid: u32,
    },
    /// The handle must not be used any more. Python sees a `StorageError`.
    #[error(
        "the transcript {path} was closed after a failed {op}. Everything acknowledged before is safe; open the session again to go on"
    )]
    Poisoned {
        /// The transcript.
        path: String,
        /// What failed.
        op: &'static str,
    },
    /// A forked child used its parent's recorder. Python sees a `SessionLockedError`.
    #[error(
        "this recorder belongs to process {pid}, and process {here} is a fork of it. Open a session of its own in the child"
    )]
    Forked {
        /// The owner.
        pid: u32,
        /// The caller.
        here: u32,
    },
    /// A bug in mt_context. Python sees an `InternalError`; the agent goes on.
    #[error(
        "internal error in mt_context: {0}. Please report it; the session on disk is not affected"
    )]
    Internal(String),
}

impl Error {
    /// A storage error with the usual way out.
    pub fn storage(op: &'static str, path: impl Into<String>, source: std::io::Error) -> Self {
        let way_out = match source.raw_os_error() {
            Some(28 | 122) => "Free some space and go on; nothing that was acknowledged is lost",
            Some(13 | 1 | 30) => {
                "Check the permissions of the directory, or choose another global_dir"
            }
            _ => "Check the disk and the directory; nothing that was acknowledged is lost",
        };
        Self::Storage {
            op,
            path: path.into(),
            source,
            way_out,
        }
    }
}

/// The crate's result type.
pub type Result<T> = std::result::Result<T, Error>;
