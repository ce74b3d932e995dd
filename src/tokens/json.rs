//! Exact counting from a Hugging Face `tokenizer.json` (cargo feature `tokenizer-json`), by the crate `tokenizers`.
//!
//! It takes bytes, not a path: only `session/disk.rs` touches the disk. It refuses files the crate cannot read.

use crate::error::{Error, Result};

/// A loaded `tokenizer.json`.
#[derive(Debug)]
pub struct Tokenizer {
    #[cfg(feature = "tokenizer-json")]
    inner: tokenizers::Tokenizer,
}

fn invalid(problem: String, way_out: &str) -> Error {
    Error::InvalidArgument {
        what: "tokenizer.json",
        problem,
        way_out: way_out.into(),
    }
}

#[cfg(feature = "tokenizer-json")]
impl Tokenizer {
    /// Loads the bytes of a `tokenizer.json`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the crate `tokenizers` cannot read them.
    pub fn parse(json: &[u8]) -> Result<Self> {
        // The parser is foreign code on foreign data: a panic must not reach Python.
        let parsed = std::panic::catch_unwind(|| tokenizers::Tokenizer::from_bytes(json));
        let way_out = "Pass the file that lies beside the model's weights";
        match parsed {
            Ok(Ok(mut inner)) => {
                // Counts are of a bare text: no truncation or padding that the file may ask for.
                let _ = inner.with_truncation(None);
                inner.with_padding(None);
                Ok(Self { inner })
            }
            Ok(Err(error)) => Err(invalid(
                error.to_string().chars().take(200).collect(),
                way_out,
            )),
            Err(_) => Err(invalid("the parser panicked on it".into(), way_out)),
        }
    }

    /// The tokens of `text`. Added tokens in it count as one, as the file says.
    ///
    /// # Errors
    /// [`Error::Internal`] if the crate fails on it.
    pub fn count(&self, text: &str) -> Result<u64> {
        let encode = || {
            self.inner
                .encode_fast(text, false)
                .map(|encoding| encoding.len() as u64)
        };
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(encode)) {
            Ok(Ok(tokens)) => Ok(tokens),
            Ok(Err(_)) | Err(_) => Err(Error::Internal(
                "the tokenizer.json engine failed on this text".into(),
            )),
        }
    }
}

#[cfg(not(feature = "tokenizer-json"))]
impl Tokenizer {
    /// Refuses: this build lacks the feature.
    ///
    /// # Errors
    /// Always [`Error::InvalidArgument`].
    pub fn parse(_json: &[u8]) -> Result<Self> {
        Err(invalid(
            "this build cannot read it".into(),
            "Build with the cargo feature `tokenizer-json`",
        ))
    }

    /// Never called: without the feature there is no tokenizer.
    ///
    /// # Errors
    /// Always.
    pub fn count(&self, _text: &str) -> Result<u64> {
        Err(Error::Internal(
            "no tokenizer.json engine in this build".into(),
        ))
    }
}
