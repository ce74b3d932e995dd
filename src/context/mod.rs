//! Policies over the neutral message model. Pure: no I/O, no clock, no Python; time, ids and sizes come in, a decision
//! comes out as data.
//!
//! Direction of imports: `message ← budget, markers ← the siblings ← window`; siblings don't import each other.

pub mod budget;
pub mod compaction;
pub mod markers;
pub mod message;
pub mod message_invariants;
pub mod microcompact;
pub mod preview;
mod preview_facts;
pub mod tool_results;
