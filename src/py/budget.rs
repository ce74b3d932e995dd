//! `TokenBudget` and the functions of the plan's budget module.

use crate::context::budget::{self, TokenBudget};
use pyo3::prelude::*;

/// See `_core.pyi`.
#[pyfunction]
#[pyo3(signature = (token_limit, reserved_summary_tokens = None))]
pub fn effective_context_limit(token_limit: u64, reserved_summary_tokens: Option<u64>) -> u64 {
    budget::effective_context_limit(
        token_limit,
        reserved_summary_tokens.unwrap_or(crate::limits::SUMMARY_RESERVED_TOKENS),
    )
}

/// See `_core.pyi`.
#[pyfunction]
#[pyo3(signature = (token_limit, reserved_summary_tokens = None, buffer_tokens = None))]
pub fn auto_compact_threshold(
    token_limit: u64,
    reserved_summary_tokens: Option<u64>,
    buffer_tokens: Option<u64>,
) -> u64 {
    budget::auto_compact_threshold(token_limit, reserved_summary_tokens, buffer_tokens)
}

/// See `_core.pyi`.
#[pyfunction]
pub fn small_window_threshold(token_limit: u64) -> u64 {
    budget::small_window_threshold(token_limit)
}

/// See `_core.pyi`.
#[pyfunction]
pub fn calibrate(factor: f64, ratio: f64) -> f64 {
    budget::calibrate(factor, ratio)
}

/// See `_core.pyi`.
#[pyclass(name = "TokenBudget", module = "mt_context", frozen, eq)]
#[derive(PartialEq)]
pub struct PyTokenBudget(pub TokenBudget);

#[pymethods]
impl PyTokenBudget {
    #[new]
    #[pyo3(signature = (token_limit, *, reserved_summary_tokens = None, buffer_tokens = None))]
    fn new(
        token_limit: u64,
        reserved_summary_tokens: Option<u64>,
        buffer_tokens: Option<u64>,
    ) -> Self {
        Self(TokenBudget::new(
            token_limit,
            reserved_summary_tokens,
            buffer_tokens,
        ))
    }

    fn level(&self, tokens: u64) -> &'static str {
        self.0.level(tokens).name()
    }

    fn adapted_to(&self, fixed: u64) -> Self {
        Self(self.0.adapted_to(fixed))
    }

    #[getter]
    fn ceiling(&self) -> u64 {
        self.0.ceiling()
    }
    #[getter]
    fn token_limit(&self) -> u64 {
        self.0.token_limit
    }
    #[getter]
    fn effective_context_limit(&self) -> u64 {
        self.0.effective_context_limit
    }
    #[getter]
    fn warn(&self) -> u64 {
        self.0.warn
    }
    #[getter]
    fn auto(&self) -> u64 {
        self.0.auto
    }
    #[getter]
    fn hard(&self) -> u64 {
        self.0.hard
    }
    #[getter]
    fn target(&self) -> u64 {
        self.0.target
    }
    #[getter]
    fn keep_min(&self) -> u64 {
        self.0.keep_min
    }
    #[getter]
    fn keep_max(&self) -> u64 {
        self.0.keep_max
    }
    #[getter]
    fn read_max(&self) -> u64 {
        self.0.read_max
    }
    #[getter]
    fn aggregate_max(&self) -> u64 {
        self.0.aggregate_max
    }
    #[getter]
    fn memory_max(&self) -> u64 {
        self.0.memory_max
    }
    #[getter]
    fn user_messages_max(&self) -> u64 {
        self.0.user_messages_max
    }
    #[getter]
    fn summary_max(&self) -> u64 {
        self.0.summary_max
    }
    #[getter]
    fn raised(&self) -> bool {
        self.0.raised
    }

    fn __repr__(&self) -> String {
        let b = &self.0;
        format!(
            "TokenBudget(token_limit={}, warn={}, auto={}, hard={})",
            b.token_limit, b.warn, b.auto, b.hard
        )
    }
}
