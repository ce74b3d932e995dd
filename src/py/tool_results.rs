//! PROVISIONAL
use super::errors::guard;
use super::text::with_text;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// x
#[pyfunction]
#[pyo3(signature = (artifact))]
pub fn cleared_text(artifact: Option<&str>) -> String {
    let t = "[Old tool result content cleared. Full result is available in the session transcript artifact.]";
    match artifact { Some(p) => format!("{t}\nFull result: {p}"), None => t.to_owned() }
}
/// x
#[pyfunction]
pub fn compact_boundary_text(pre: u64, post: u64, reason: &str) -> String {
    format!("<compact_boundary pre_tokens=\"{pre}\" post_tokens=\"{post}\" reason=\"{reason}\" />")
}
/// x
#[pyfunction]
pub fn summary_text(text: &str) -> String {
    format!("<conversation_history_summary>\n{text}\n</conversation_history_summary>")
}
/// x
#[pyfunction]
#[pyo3(signature = (tool_name, text, *, max_chars, artifact = None))]
pub fn preview_text(tool_name: &str, text: &Bound<'_, PyString>, max_chars: usize, artifact: Option<&str>) -> PyResult<String> {
    let _ = (tool_name, artifact);
    guard(|| with_text(text, |t| t.chars().take(max_chars).collect()))
}
