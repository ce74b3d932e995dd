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
    /// A bug in mt_context. Python sees an `InternalError`; the agent goes on.
    #[error(
        "internal error in mt_context: {0}. Please report it; the session on disk is not affected"
    )]
    Internal(String),
}

/// The crate's result type.
pub type Result<T> = std::result::Result<T, Error>;
