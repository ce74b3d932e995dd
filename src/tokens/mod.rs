//! Token counting: exact by vocabulary, and a fitted estimate for models without one (spec 1).
pub mod classes;
pub mod encoding;
pub mod merge;
pub mod split;
pub mod vocab;
