//! What makes a message list valid, where it may be cut, and how it is mended (plan M5, spec 5).
//!
//! - [`pairs`]: which result answers which call, and the atoms that no cut may enter;
//! - [`split`]: where a compaction cuts;
//! - [`validate`]: every violation of a provider's rules, by name;
//! - [`repair`]: the least change that makes a history valid.
//!
//! Refuses to look at texts: a boundary or a summary is known by [`Origin`](super::message::Origin) alone.

pub mod pairs;
pub mod repair;
pub mod split;
pub mod validate;

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
