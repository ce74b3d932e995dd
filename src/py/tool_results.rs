//! Tool-result decisions, previews and our tags for Python.

use super::budget::PyTokenBudget;
use super::errors::guard;
use super::text::with_text;
use crate::context::markers;
use crate::context::preview::{Source, preview};
use crate::context::tool_results::{Candidate, ToolResultPolicy, plan_aggregate as plan};
use crate::text::decode::{Decoded, decode, strings};
use crate::text::terminal::clean;
use crate::text::{count_chars, group};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use std::collections::BTreeMap;

/// See `_core.pyi`.
#[pyclass(name = "ToolResultLimits", module = "mt_context", frozen, eq)]
#[derive(PartialEq)]
pub struct PyToolResultLimits(ToolResultPolicy);

#[pymethods]
impl PyToolResultLimits {
    #[new]
    #[pyo3(signature = (*, budget = None, by_tool = None, default_chars = None, aggregate_chars = None, preview_chars = None, preview_lines = None))]
    fn new(
        budget: Option<&PyTokenBudget>,
        by_tool: Option<BTreeMap<String, Option<u64>>>,
        default_chars: Option<u64>,
        aggregate_chars: Option<u64>,
        preview_chars: Option<usize>,
        preview_lines: Option<usize>,
    ) -> Self {
        let mut policy = budget.map_or_else(ToolResultPolicy::default, |b| {
            ToolResultPolicy::for_budget(&b.0)
        });
        policy.by_tool.extend(by_tool.unwrap_or_default());
        policy.default_chars = default_chars.unwrap_or(policy.default_chars);
        policy.aggregate_chars = aggregate_chars.unwrap_or(policy.aggregate_chars);
        policy.preview_chars = preview_chars.unwrap_or(policy.preview_chars);
        policy.preview_lines = preview_lines.unwrap_or(policy.preview_lines);
        Self(policy)
    }

    fn limit(&self, tool_name: &str) -> Option<u64> {
        self.0.limit(tool_name)
    }

    fn exceeds(&self, tool_name: &str, chars: u64) -> bool {
        self.0.exceeds(tool_name, chars)
    }

    fn plan_aggregate(&self, batch: Vec<(String, u64, bool)>) -> Vec<usize> {
        let candidates: Vec<Candidate<'_>> = batch
            .iter()
            .map(|(tool, chars, settled)| Candidate {
                tool,
                chars: *chars,
                settled: *settled,
            })
            .collect();
        plan(&self.0, &candidates)
    }

    #[getter]
    fn default_chars(&self) -> u64 {
        self.0.default_chars
    }
    #[getter]
    fn aggregate_chars(&self) -> u64 {
        self.0.aggregate_chars
    }
    #[getter]
    fn preview_chars(&self) -> usize {
        self.0.preview_chars
    }
    #[getter]
    fn preview_lines(&self) -> usize {
        self.0.preview_lines
    }

    fn __repr__(&self) -> String {
        format!(
            "ToolResultLimits(default_chars={}, aggregate_chars={}, preview_chars={}, preview_lines={})",
            self.0.default_chars,
            self.0.aggregate_chars,
            self.0.preview_chars,
            self.0.preview_lines
        )
    }
}

/// See `_core.pyi`.
#[pyfunction]
#[pyo3(signature = (tool_name, content, *, max_chars = 4000, max_lines = 80, artifact = None, exit_code = None, note = None))]
#[expect(
    clippy::too_many_arguments,
    reason = "keyword arguments of a Python function"
)]
pub fn preview_text(
    py: Python<'_>,
    tool_name: &str,
    content: &Bound<'_, PyAny>,
    max_chars: usize,
    max_lines: usize,
    artifact: Option<&str>,
    exit_code: Option<i64>,
    note: Option<&str>,
) -> PyResult<String> {
    guard(|| {
        let render = |text: &str, original_chars: usize, note: Option<&str>| {
            let source = Source {
                tool: tool_name,
                text,
                original_chars,
                artifact,
                exit_code,
                note,
                max_chars,
                max_lines,
            };
            preview(&source)
        };
        if let Ok(bytes) = content.cast::<PyBytes>() {
            let bytes = bytes.as_bytes();
            return Ok(py.detach(|| match decode(bytes) {
                Decoded::Text(text, encoding) => {
                    let decoded = encoding.map(|name| {
                        format!("Decoded from {name}; the artifact has the original bytes.")
                    });
                    let notes: Vec<&str> = note.into_iter().chain(decoded.as_deref()).collect();
                    let notes = notes.join("\n");
                    render(
                        &clean(&text),
                        count_chars(&text),
                        (!notes.is_empty()).then_some(notes.as_str()),
                    )
                }
                Decoded::Binary(what) => {
                    let listing = strings(bytes, 40).join("\n");
                    let about = format!(
                        "Not text but {what}, {} bytes. Readable strings in it:",
                        group(bytes.len())
                    );
                    render(&listing, count_chars(&listing), Some(&about))
                }
            }));
        }
        let owned;
        let text = match content.cast::<PyString>() {
            Ok(text) => text,
            Err(_) => {
                owned = content.str()?;
                &owned
            }
        };
        with_text(text, |text| {
            py.detach(|| render(&clean(text), count_chars(text), note))
        })
    })
}

/// See `_core.pyi`.
#[pyfunction]
pub fn clean_text(py: Python<'_>, text: &Bound<'_, PyString>) -> PyResult<String> {
    guard(|| with_text(text, |text| py.detach(|| clean(text).into_owned())))
}

/// See `_core.pyi`.
#[pyfunction]
#[pyo3(signature = (artifact = None))]
pub fn cleared_text(artifact: Option<&str>) -> String {
    markers::cleared_text(artifact)
}

/// See `_core.pyi`.
#[pyfunction]
#[pyo3(signature = (tool_name, preview, *, path, original_chars, truncated = false))]
pub fn persisted_output_text(
    tool_name: &Bound<'_, PyString>,
    preview: &Bound<'_, PyString>,
    path: Option<&str>,
    original_chars: u64,
    truncated: bool,
) -> PyResult<String> {
    guard(|| {
        with_text(tool_name, |tool| {
            with_text(preview, |preview| {
                markers::persisted_output(tool, path, original_chars, truncated, preview)
            })
        })?
    })
}

/// See `_core.pyi`.
#[pyfunction]
pub fn compact_boundary_text(pre_tokens: u64, post_tokens: u64, reason: &str) -> String {
    markers::compact_boundary(pre_tokens, post_tokens, reason)
}

/// See `_core.pyi`.
#[pyfunction]
pub fn summary_text(text: &Bound<'_, PyString>) -> PyResult<String> {
    guard(|| with_text(text, markers::conversation_summary))
}

/// See `_core.pyi`.
#[pyfunction]
pub fn memory_summary_text(text: &Bound<'_, PyString>, path: &str) -> PyResult<String> {
    guard(|| with_text(text, |text| markers::memory_summary(text, path)))
}

/// See `_core.pyi`.
#[pyfunction]
pub fn defuse(text: &Bound<'_, PyString>) -> PyResult<String> {
    guard(|| with_text(text, |text| markers::defuse(text).into_owned()))
}
