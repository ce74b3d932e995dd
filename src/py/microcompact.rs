//! Microcompact decisions for Python: indexes of the results to clear.

use super::budget::PyTokenBudget;
use super::counter::PyTokenCounter;
use super::errors::guard;
use crate::context::microcompact;
use pyo3::prelude::*;
use std::collections::HashSet;

/// See `_core.pyi`.
#[pyfunction]
pub fn find_last_assistant_timestamp_ms(
    counter: &PyTokenCounter,
    messages: &Bound<'_, PyAny>,
) -> PyResult<Option<i64>> {
    guard(|| {
        counter.with_facts(messages, |facts| {
            Ok(microcompact::find_last_assistant_timestamp_ms(facts))
        })
    })
}

/// See `_core.pyi`.
#[pyfunction]
#[pyo3(signature = (counter, messages, *, now_ms, last_assistant_ms, gap_minutes, keep_recent, tools))]
pub fn microcompact_after_pause(
    counter: &PyTokenCounter,
    messages: &Bound<'_, PyAny>,
    now_ms: i64,
    last_assistant_ms: Option<i64>,
    gap_minutes: u64,
    keep_recent: usize,
    tools: HashSet<String>,
) -> PyResult<Vec<usize>> {
    guard(|| {
        if last_assistant_ms.is_some()
            && !microcompact::gap_reached(now_ms, last_assistant_ms, gap_minutes)
        {
            return Ok(Vec::new());
        }
        counter.with_facts(messages, |facts| {
            let last =
                last_assistant_ms.or_else(|| microcompact::find_last_assistant_timestamp_ms(facts));
            if !microcompact::gap_reached(now_ms, last, gap_minutes) {
                return Ok(Vec::new());
            }
            Ok(microcompact::time_based(
                facts,
                |name| tools.contains(name),
                keep_recent,
            ))
        })
    })
}

/// See `_core.pyi`.
#[pyfunction]
#[pyo3(signature = (counter, messages, *, total, budget, tools))]
pub fn microcompact_under_pressure(
    counter: &PyTokenCounter,
    messages: &Bound<'_, PyAny>,
    total: u64,
    budget: &PyTokenBudget,
    tools: HashSet<String>,
) -> PyResult<(Vec<usize>, u64, bool)> {
    guard(|| {
        counter.with_facts(messages, |facts| {
            let plan =
                microcompact::under_pressure(facts, total, &budget.0, |name| tools.contains(name));
            Ok((plan.clear, plan.gain, plan.reaches_target))
        })
    })
}
