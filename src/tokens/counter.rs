//! [`TokenCounter`]: one face for the three ways of counting (spec 1): exact by an embedded vocabulary, exact from a
//! `tokenizer.json`, estimated.
//!
//! Counts are of text alone; what a message costs beyond it is `context/budget.rs`. No text makes it fail: bytes that
//! are no UTF-8 count as U+FFFD. It refuses unknown encodings, and tokenizer files it cannot read.

use super::encoding::Encoding;
use super::models::{self, Counting};
use super::{estimate, json, parallel, reference};
use crate::error::Result;
use std::borrow::Cow;
use std::sync::Arc;

/// Counts the tokens of texts. Cheap to clone, usable from any thread.
#[derive(Clone, Debug)]
pub struct TokenCounter {
    kind: Kind,
    name: Cow<'static, str>,
}

#[derive(Clone, Debug)]
enum Kind {
    Exact(Encoding),
    /// o200k_base times so many thousandths.
    Scaled(u32),
    Estimate,
    Json(Arc<json::Tokenizer>),
    Reference(reference::Engine),
}

impl TokenCounter {
    /// The best counter for a model's name: exact where its vocabulary is embedded, o200k_base times a measured factor
    /// for Claude and Gemini, else the estimator.
    pub fn for_model(model: &str) -> Self {
        match models::counting_for_model(model) {
            Counting::Exact(encoding) => Self::exact(encoding),
            Counting::ScaledO200k(thousandths) => Self {
                kind: Kind::Scaled(thousandths),
                name: format!(
                    "o200k_base*{}.{:02}",
                    thousandths / 1_000,
                    thousandths % 1_000 / 10
                )
                .into(),
            },
            Counting::Unknown => Self::estimator(),
        }
    }

    /// The exact counter of an encoding's name, or `estimate`. `reference:o200k_base` selects tiktoken-rs itself (cargo
    /// feature `reference`).
    ///
    /// # Errors
    /// [`Error::UnknownEncoding`](crate::error::Error::UnknownEncoding) for a name nobody knows.
    pub fn for_encoding(name: &str) -> Result<Self> {
        if name.eq_ignore_ascii_case("estimate") {
            return Ok(Self::estimator());
        }
        if let Some(name) = name.strip_prefix("reference:") {
            let engine = reference::Engine::by_name(name)?;
            return Ok(Self {
                kind: Kind::Reference(engine),
                name: format!("reference:{name}").into(),
            });
        }
        Encoding::by_name(name).map(Self::exact)
    }

    /// The exact counter of an encoding.
    pub const fn exact(encoding: Encoding) -> Self {
        Self {
            kind: Kind::Exact(encoding),
            name: Cow::Borrowed(encoding.name()),
        }
    }

    /// The estimator, fitted to o200k_base.
    pub const fn estimator() -> Self {
        Self {
            kind: Kind::Estimate,
            name: Cow::Borrowed("estimate"),
        }
    }

    /// The exact counter of a Hugging Face `tokenizer.json`, given as its bytes.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::error::Error::InvalidArgument) if it cannot be read, or if this build lacks the
    /// cargo feature `tokenizer-json`.
    pub fn from_tokenizer_json(json: &[u8]) -> Result<Self> {
        let tokenizer = json::Tokenizer::parse(json)?;
        Ok(Self {
            kind: Kind::Json(Arc::new(tokenizer)),
            name: Cow::Borrowed("tokenizer.json"),
        })
    }

    /// What counts: an encoding's name, `o200k_base*1.21`, `estimate`, `tokenizer.json` or `reference:…`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the counts are the model's own, not an estimate.
    pub const fn is_exact(&self) -> bool {
        matches!(
            self.kind,
            Kind::Exact(_) | Kind::Json(_) | Kind::Reference(_)
        )
    }

    /// The tokens of a text; special tokens in it are ordinary text. Long texts are counted on several threads.
    pub fn count(&self, text: &str) -> u64 {
        match self.kind {
            // These two don't cut at line feeds, so neither may we.
            Kind::Json(_) | Kind::Reference(_) => self.count_here(text),
            _ => self.scaled(parallel::count(text, |part| self.unscaled(part))),
        }
    }

    /// The tokens of a text, on the calling thread.
    pub fn count_here(&self, text: &str) -> u64 {
        self.scaled(self.unscaled(text))
    }

    /// The tokens of each text, in order; on several threads if they are long together.
    pub fn count_many(&self, texts: &[&str]) -> Vec<u64> {
        match self.kind {
            Kind::Json(_) | Kind::Reference(_) => {
                texts.iter().map(|text| self.count_here(text)).collect()
            }
            _ => {
                let counts = parallel::count_many(texts, |part| self.unscaled(part));
                counts
                    .into_iter()
                    .map(|tokens| self.scaled(tokens))
                    .collect()
            }
        }
    }

    /// The tokens of bytes that should be UTF-8: see [`decode_lossy`].
    pub fn count_bytes_lossy(&self, bytes: &[u8]) -> u64 {
        self.count(&decode_lossy(bytes))
    }

    /// A part of a text; the factor is applied to the sum.
    fn unscaled(&self, text: &str) -> u64 {
        let counted = match &self.kind {
            Kind::Exact(encoding) => encoding.count(text),
            Kind::Scaled(_) => Encoding::O200kBase.count(text),
            Kind::Estimate => Ok(estimate::milli_tokens(text)),
            Kind::Json(tokenizer) => tokenizer.count(text),
            Kind::Reference(engine) => engine.count(text),
        };
        // Only damaged embedded data or a failing foreign engine gets here: an estimate is better than no count.
        counted.unwrap_or_else(|_| estimate::tokens(estimate::milli_tokens(text)))
    }

    fn scaled(&self, tokens: u64) -> u64 {
        match self.kind {
            Kind::Scaled(thousandths) => (tokens * u64::from(thousandths)).div_ceil(1_000),
            Kind::Estimate => estimate::tokens(tokens),
            _ => tokens,
        }
    }
}

/// Bytes as text, every invalid sequence as U+FFFD. A surrogate that was encoded alone (WTF-8, `surrogatepass`) is one
/// U+FFFD, and two that belong together are the character they mean: so tiktoken does it, and so JSON sends it.
pub fn decode_lossy(bytes: &[u8]) -> Cow<'_, str> {
    let mut rest = bytes;
    let mut text = String::new();
    loop {
        match std::str::from_utf8(rest) {
            Ok(valid) if text.is_empty() && rest.len() == bytes.len() => {
                return Cow::Borrowed(valid);
            }
            Ok(valid) => {
                text.push_str(valid);
                return Cow::Owned(text);
            }
            Err(error) => {
                let (valid, after) = rest
                    .split_at_checked(error.valid_up_to())
                    .unwrap_or((rest, &[]));
                text.push_str(std::str::from_utf8(valid).unwrap_or_default());
                let bad = match (surrogate(after), after.get(3..).and_then(surrogate)) {
                    (Some(high @ 0xD800..0xDC00), Some(low @ 0xDC00..0xE000)) => {
                        let code = 0x1_0000 + ((high - 0xD800) << 10) + (low - 0xDC00);
                        text.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                        6
                    }
                    (Some(_), _) => {
                        text.push(char::REPLACEMENT_CHARACTER);
                        3
                    }
                    (None, _) => {
                        text.push(char::REPLACEMENT_CHARACTER);
                        error.error_len().unwrap_or(after.len())
                    }
                };
                rest = after.get(bad..).unwrap_or_default();
            }
        }
    }
}

/// The surrogate that the bytes begin with.
fn surrogate(bytes: &[u8]) -> Option<u32> {
    match bytes {
        [0xED, second @ 0xA0..=0xBF, third @ 0x80..=0xBF, ..] => {
            Some(0xD000 | u32::from(second & 0x3F) << 6 | u32::from(third & 0x3F))
        }
        _ => None,
    }
}

#[cfg(test)]
#[path = "counter_tests.rs"]
mod tests;
