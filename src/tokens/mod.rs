//! Token counting: exact by vocabulary, and a fitted estimate for models without one (spec 1).
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
