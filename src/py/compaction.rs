//! The plan of a compaction for Python, as a dict of indexes.

use super::budget::PyTokenBudget;
use super::counter::PyTokenCounter;
use super::errors::guard;
use crate::context::compaction::{self, CompactionSizes, Part};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// See `_core.pyi`.
#[pyfunction]
#[pyo3(signature = (counter, messages, *, budget, overhead = 0, target = None, summary_tokens = None, cut = None))]
#[expect(
    clippy::too_many_arguments,
    reason = "keyword arguments of a Python function"
)]
pub fn plan_compaction<'py>(
    py: Python<'py>,
    counter: &PyTokenCounter,
    messages: &Bound<'py, PyAny>,
    budget: &PyTokenBudget,
    overhead: u64,
    target: Option<u64>,
    summary_tokens: Option<u64>,
    cut: Option<usize>,
) -> PyResult<Bound<'py, PyDict>> {
    guard(|| {
        counter.with_facts(messages, |facts| {
            let mut sizes = CompactionSizes::of(&budget.0, overhead);
            sizes.target = target.unwrap_or(sizes.target);
            sizes.summary = summary_tokens.unwrap_or(sizes.summary);
            let plan = compaction::plan_compaction(facts, &sizes, cut)?;
            let dict = PyDict::new(py);
            dict.set_item("summarise", plan.summarise)?;
            dict.set_item("system", plan.system)?;
            dict.set_item("pinned", plan.pinned)?;
            dict.set_item("tail", plan.tail)?;
            let reductions: Vec<(usize, &str, u64)> = plan
                .reductions
                .iter()
                .map(|r| {
                    (
                        r.index,
                        if r.part == Part::Content {
                            "content"
                        } else {
                            "arguments"
                        },
                        r.max_tokens,
                    )
                })
                .collect();
            dict.set_item("reductions", reductions)?;
            dict.set_item("planned_tokens", plan.planned_tokens)?;
            Ok(dict)
        })
    })
}
