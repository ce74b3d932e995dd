//! The Python extension `mt_context._core`: converts, calls the core, converts back. No decisions here.
//!
//! A list of messages crosses once per call; its facts are cached by the [`counter`](counter::PyTokenCounter) that reads it.

mod budget;
mod cache;
mod compaction;
mod counter;
mod errors;
mod facts;
mod invariants;
mod json;
mod microcompact;
mod session;
mod text;
mod tool_results;

use pyo3::prelude::*;

/// `mt_context._core`
#[pymodule]
pub mod _core {
    #[pymodule_export]
    use super::budget::{
        PyTokenBudget, auto_compact_threshold, calibrate, effective_context_limit,
        small_window_threshold,
    };
    #[pymodule_export]
    use super::compaction::plan_compaction;
    #[pymodule_export]
    use super::counter::{
        PyTokenCounter, context_window_for_model, encoding_for_model, encodings, limits, vocabulary,
    };
    #[pymodule_export]
    use super::invariants::{
        adjust_index_to_preserve_message_groups, adjust_index_to_preserve_tool_pairs,
        adjust_index_to_respect_boundary, find_compaction_working_start,
        find_last_compact_boundary, find_safe_split, legal_cuts, repair_messages,
        validate_messages,
    };
    #[pymodule_export]
    use super::microcompact::{
        find_last_assistant_timestamp_ms, microcompact_after_pause, microcompact_under_pressure,
    };
    #[pymodule_export]
    use super::session::{
        PyArtifactStore, PySessionWriter, check_artifact_path, resume_session, safe_name,
        scan_session, session_listing,
    };
    #[pymodule_export]
    use super::tool_results::{
        PyToolResultLimits, clean_text, cleared_text, compact_boundary_text, defuse,
        memory_summary_text, persisted_output_text, preview_text, summary_text,
    };
}
