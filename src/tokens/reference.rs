//! tiktoken-rs as a selectable engine (cargo feature `reference`): slower, for comparison only.
//!
//! It panics on a long run of spaces (`performance.md` 1.3); here that is an [`Error::Internal`]. Why it is not in the
//! default build: see [`crate::tokens`].

use super::encoding::Encoding;
use crate::error::{Error, Result};

/// tiktoken-rs with one encoding.
#[derive(Clone, Copy, Debug)]
pub struct Engine(
    #[cfg_attr(not(feature = "reference"), expect(dead_code, reason = "never made"))] Encoding,
);

impl Engine {
    /// The engine for an encoding's name.
    ///
    /// # Errors
    /// [`Error::UnknownEncoding`] for other names than OpenAI's, [`Error::InvalidArgument`] without the feature.
    pub fn by_name(name: &str) -> Result<Self> {
        let encoding = Encoding::by_name(name)?;
        if !cfg!(feature = "reference") {
            return Err(Error::InvalidArgument {
                what: "encoding",
                problem: "this build has no reference engine".into(),
                way_out: "Build with the cargo feature `reference`, or take the encoding itself: the counts are equal".into(),
            });
        }
        match encoding {
            Encoding::O200kBase | Encoding::Cl100kBase | Encoding::P50kBase | Encoding::R50kBase => Ok(Self(encoding)),
            other => Err(Error::UnknownEncoding {
                name: format!("reference:{}", other.name()),
                known: "reference:o200k_base, reference:cl100k_base, reference:p50k_base, reference:r50k_base".into(),
            }),
        }
    }

    /// The tokens of `text`.
    ///
    /// # Errors
    /// [`Error::Internal`] where tiktoken-rs panics.
    #[cfg(feature = "reference")]
    pub fn count(self, text: &str) -> Result<u64> {
        let bpe = match self.0 {
            Encoding::O200kBase => tiktoken_rs::o200k_base_singleton(),
            Encoding::P50kBase => tiktoken_rs::p50k_base_singleton(),
            Encoding::R50kBase => tiktoken_rs::r50k_base_singleton(),
            _ => tiktoken_rs::cl100k_base_singleton(),
        };
        // The engine is never changed by counting, so a panic leaves nothing half done.
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            bpe.count_ordinary(text) as u64
        }))
        .map_err(|_| Error::Internal("tiktoken-rs panicked on this text".into()))
    }

    /// Never called: without the feature there is no engine.
    ///
    /// # Errors
    /// Always.
    #[cfg(not(feature = "reference"))]
    pub fn count(self, _text: &str) -> Result<u64> {
        Err(Error::Internal("no reference engine in this build".into()))
    }
}
