//! Token counting: exact by vocabulary, and a fitted estimate for models without one (spec 1).
//!
//! | module | what it is |
//! |---|---|
//! | [`counter`] | the face: [`TokenCounter`] |
//! | [`models`] | a model's encoding and window by its name |
//! | [`encoding`] | the exact engine: eleven encodings, piece cache |
//! | [`split`], [`classes`] | cutting a text into pieces |
//! | [`vocab`], [`merge`] | the tables, and merging inside a piece |
//! | [`estimate`] | the piece table |
//! | [`parallel`] | several threads, same counts |
//! | [`json`], [`reference`](mod@reference) | foreign engines behind cargo features |
//!
//! Decided by measuring (figures: `benches/TOKENS.md`): our own engine for all encodings, with the vocabularies taken out
//! of tiktoken-rs and the crate `tiktoken` when the package is built. It is the fastest on new text, linear on every input,
//! and adds only the tables. tiktoken-rs would add 3.9 MB to the wheel and panics on long runs of spaces: it is the oracle
//! of the tests and the feature `reference`. The crate `tokenizers` would add 1.2 MB and half a minute of building: feature
//! `tokenizer-json`.

pub mod classes;
pub mod counter;
pub mod encoding;
pub mod estimate;
mod estimate_table;
pub mod json;
pub mod merge;
pub mod models;
pub mod parallel;
pub mod reference;
pub mod split;
pub mod vocab;

pub use counter::TokenCounter;
pub use encoding::Encoding;
pub use models::{context_window_for_model, encoding_for_model};

/// The names of all encodings, as [`TokenCounter::for_encoding`] takes them.
pub fn encoding_names() -> Vec<&'static str> {
    Encoding::ALL.map(Encoding::name).to_vec()
}
