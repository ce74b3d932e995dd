//! Text primitives (being written).
