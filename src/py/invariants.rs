//! Splits, validation and repair for Python. A repair comes back as data; `mt_context.context.message_invariants` builds the messages.

use super::counter::PyTokenCounter;
use super::errors::guard;
use crate::context::message_invariants::repair::{self, Change, Slot};
use crate::context::message_invariants::validate::{self, Provider};
use crate::context::message_invariants::{pairs, split};
use crate::error::Error;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// Index, pinned messages, tokens kept, tokens above the maximum.
type SplitTuple = (usize, Vec<usize>, u64, u64);

/// See `_core.pyi`.
#[pyfunction]
pub fn find_safe_split(
    counter: &PyTokenCounter,
    messages: &Bound<'_, PyAny>,
    min_keep_tokens: u64,
    max_keep_tokens: u64,
) -> PyResult<Option<SplitTuple>> {
    guard(|| {
        counter.with_facts(messages, |facts| {
            let split = split::find_safe_split(facts, min_keep_tokens, max_keep_tokens);
            Ok(split.map(|s| (s.index, s.pinned, s.kept_tokens, s.over)))
        })
    })
}

/// See `_core.pyi`.
#[pyfunction]
pub fn legal_cuts(counter: &PyTokenCounter, messages: &Bound<'_, PyAny>) -> PyResult<Vec<bool>> {
    guard(|| {
        counter.with_facts(messages, |facts| {
            Ok(pairs::legal_cuts(facts, &pairs::pair(facts)))
        })
    })
}

/// See `_core.pyi`.
#[pyfunction]
pub fn adjust_index_to_preserve_tool_pairs(
    counter: &PyTokenCounter,
    messages: &Bound<'_, PyAny>,
    index: usize,
) -> PyResult<usize> {
    guard(|| {
        counter.with_facts(messages, |facts| {
            Ok(split::adjust_index_to_preserve_tool_pairs(facts, index))
        })
    })
}

/// See `_core.pyi`.
#[pyfunction]
pub fn adjust_index_to_preserve_message_groups(
    counter: &PyTokenCounter,
    messages: &Bound<'_, PyAny>,
    index: usize,
) -> PyResult<usize> {
    guard(|| {
        counter.with_facts(messages, |facts| {
            Ok(split::adjust_index_to_preserve_message_groups(facts, index))
        })
    })
}

/// See `_core.pyi`.
#[pyfunction]
pub fn adjust_index_to_respect_boundary(
    counter: &PyTokenCounter,
    messages: &Bound<'_, PyAny>,
    index: usize,
) -> PyResult<usize> {
    guard(|| {
        counter.with_facts(messages, |facts| {
            Ok(split::adjust_index_to_respect_boundary(facts, index))
        })
    })
}

/// See `_core.pyi`.
#[pyfunction]
pub fn find_last_compact_boundary(
    counter: &PyTokenCounter,
    messages: &Bound<'_, PyAny>,
) -> PyResult<Option<usize>> {
    guard(|| {
        counter.with_facts(messages, |facts| {
            Ok(pairs::find_last_compact_boundary(facts))
        })
    })
}

/// See `_core.pyi`.
#[pyfunction]
pub fn find_compaction_working_start(
    counter: &PyTokenCounter,
    messages: &Bound<'_, PyAny>,
) -> PyResult<usize> {
    guard(|| {
        counter.with_facts(messages, |facts| {
            Ok(pairs::find_compaction_working_start(facts))
        })
    })
}

fn provider(name: &str) -> PyResult<Provider> {
    Provider::by_name(name).ok_or_else(|| {
        Error::InvalidArgument {
            what: "provider",
            problem: format!("{name:?} is not a known profile"),
            way_out: "Known profiles: openai, anthropic, deepseek, gemini".to_owned(),
        }
        .into()
    })
}

/// See `_core.pyi`.
#[pyfunction]
pub fn validate_messages(
    counter: &PyTokenCounter,
    messages: &Bound<'_, PyAny>,
    provider_name: &str,
) -> PyResult<Vec<(usize, &'static str, &'static str)>> {
    guard(|| {
        let provider = provider(provider_name)?;
        counter.with_facts(messages, |facts| {
            let found = validate::validate_messages(facts, provider);
            Ok(found
                .into_iter()
                .map(|v| (v.index, v.rule.name(), v.rule.describe()))
                .collect())
        })
    })
}

/// See `_core.pyi`.
#[pyfunction]
pub fn repair_messages<'py>(
    py: Python<'py>,
    counter: &PyTokenCounter,
    messages: &Bound<'py, PyAny>,
    provider_name: &str,
) -> PyResult<Option<(Bound<'py, PyList>, Vec<usize>)>> {
    guard(|| {
        let provider = provider(provider_name)?;
        counter.with_facts(messages, |facts| {
            let repair = repair::repair_messages(facts, provider);
            if repair.is_noop() {
                return Ok(None);
            }
            let slots = PyList::empty(py);
            for slot in &repair.slots {
                slots.append(slot_dict(py, slot)?)?;
            }
            Ok(Some((slots, repair.dropped)))
        })
    })
}

fn slot_dict<'py>(py: Python<'py>, slot: &Slot) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    match slot {
        Slot::Keep { index, changes } => {
            dict.set_item("keep", index)?;
            if !changes.is_empty() {
                let list = PyList::empty(py);
                for change in changes {
                    list.append(change_dict(py, change)?)?;
                }
                dict.set_item("changes", list)?;
            }
        }
        Slot::MissingResult { id, name, text, .. } => {
            dict.set_item("result_for", &**id)?;
            dict.set_item("name", &**name)?;
            dict.set_item("text", text)?;
        }
        Slot::UserFiller => dict.set_item("user", repair::CONTINUE_FILLER)?,
    }
    Ok(dict)
}

fn change_dict<'py>(py: Python<'py>, change: &Change) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let what = match change {
        Change::CallId { call, id } => {
            dict.set_item("call", call)?;
            dict.set_item("id", &**id)?;
            "call_id"
        }
        Change::CallName { call, name } => {
            dict.set_item("call", call)?;
            dict.set_item("name", &**name)?;
            "call_name"
        }
        Change::ResultId(id) => {
            dict.set_item("id", &**id)?;
            "result_id"
        }
        Change::Text(text) => {
            dict.set_item("text", text)?;
            "text"
        }
        Change::DropThinking => "drop_thinking",
        Change::DropBlankBlocks => "drop_blank_blocks",
        Change::AddReasoning => "add_reasoning",
        Change::AddThoughtSignature => "add_thought_signature",
        Change::AsUser => "as_user",
    };
    dict.set_item("change", what)?;
    Ok(dict)
}
