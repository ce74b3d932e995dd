//! Token counting (being written).
