//! `TokenCounter`: counts texts and message lists, and keeps the facts of the lists it has seen.

use super::cache::FactsCache;
use super::errors::guard;
use super::facts::{Counting, count_json};
use super::text::with_text;
use crate::context::budget::{Source, Usage, anchored_total};
use crate::context::message::{Message, Origin, Role};
use crate::tokens::{self, TokenCounter};
use crate::{error::Error, limits as numbers};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use std::sync::Mutex;

/// Texts above this many characters are counted without the GIL.
const DETACH_CHARS: usize = 16_384;

/// See `_core.pyi`.
#[pyclass(name = "TokenCounter", module = "mt_context", frozen)]
pub struct PyTokenCounter {
    counter: TokenCounter,
    include_reasoning: bool,
    cache: Mutex<FactsCache>,
}

impl PyTokenCounter {
    fn counting(&self) -> Counting<'_> {
        Counting {
            counter: &self.counter,
            include_reasoning: self.include_reasoning,
        }
    }

    /// Calls `f` with the facts of a message list.
    pub fn with_facts<R>(
        &self,
        messages: &Bound<'_, PyAny>,
        f: impl FnOnce(&[Message]) -> PyResult<R>,
    ) -> PyResult<R> {
        let messages = list_of(messages)?;
        match self.cache.try_lock() {
            Ok(mut cache) => f(cache.facts(&messages, &self.counting())?),
            // Busy (another thread, a finaliser) or poisoned: the same facts, without the cache.
            Err(_) => f(FactsCache::default().facts(&messages, &self.counting())?),
        }
    }
}

fn list_of<'py>(messages: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    if messages.is_instance_of::<PyString>()
        || messages.is_instance_of::<PyDict>()
        || messages.is_instance_of::<PyBytes>()
    {
        return Err(Error::InvalidArgument {
            what: "messages",
            problem: format!(
                "expected a list of messages, got {}",
                messages.get_type().name()?
            ),
            way_out: "Pass a list, also for one message".to_owned(),
        }
        .into());
    }
    messages.try_iter()?.collect()
}

#[pymethods]
impl PyTokenCounter {
    #[new]
    #[pyo3(signature = (model = None, *, encoding = None, tokenizer_json = None, include_reasoning = true))]
    fn new(
        model: Option<&str>,
        encoding: Option<&str>,
        tokenizer_json: Option<&Bound<'_, PyBytes>>,
        include_reasoning: bool,
    ) -> PyResult<Self> {
        guard(|| {
            let counter = match (tokenizer_json, encoding, model) {
                (Some(json), _, _) => TokenCounter::from_tokenizer_json(json.as_bytes())?,
                (None, Some(encoding), _) => TokenCounter::for_encoding(encoding)?,
                (None, None, Some(model)) => TokenCounter::for_model(model),
                (None, None, None) => TokenCounter::estimator(),
            };
            Ok(Self {
                counter,
                include_reasoning,
                cache: Mutex::default(),
            })
        })
    }

    #[getter]
    fn name(&self) -> String {
        self.counter.name().to_owned()
    }

    #[getter]
    fn is_exact(&self) -> bool {
        self.counter.is_exact()
    }

    #[getter]
    fn include_reasoning(&self) -> bool {
        self.include_reasoning
    }

    fn count(&self, py: Python<'_>, text: &Bound<'_, PyAny>) -> PyResult<u64> {
        guard(|| {
            if text.is_none() {
                return Ok(0);
            }
            if let Ok(bytes) = text.cast::<PyBytes>() {
                return Ok(self.counter.count_bytes_lossy(bytes.as_bytes()));
            }
            let owned;
            let text = match text.cast::<PyString>() {
                Ok(text) => text,
                Err(_) => {
                    owned = text.str()?;
                    &owned
                }
            };
            if text.len()? < DETACH_CHARS {
                with_text(text, |text| self.counter.count(text))
            } else {
                with_text(text, |text| py.detach(|| self.counter.count(text)))
            }
        })
    }

    #[pyo3(signature = (messages, *, system = None, tools = None))]
    fn count_messages(
        &self,
        py: Python<'_>,
        messages: &Bound<'_, PyAny>,
        system: Option<&Bound<'_, PyAny>>,
        tools: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        let overhead = self.count_overhead(py, system, tools)?;
        guard(|| {
            self.with_facts(messages, |facts| {
                Ok(facts
                    .iter()
                    .fold(overhead, |sum, m| sum.saturating_add(m.tokens)))
            })
        })
    }

    fn count_each(&self, messages: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
        guard(|| {
            self.with_facts(messages, |facts| {
                Ok(facts.iter().map(|m| m.tokens).collect())
            })
        })
    }

    #[pyo3(signature = (system = None, tools = None))]
    fn count_overhead(
        &self,
        py: Python<'_>,
        system: Option<&Bound<'_, PyAny>>,
        tools: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        let system_tokens = match system.filter(|s| !s.is_none()) {
            Some(system) => self
                .count(py, system)?
                .saturating_add(numbers::MESSAGE_OVERHEAD_TOKENS),
            None => 0,
        };
        guard(|| match tools.filter(|t| !t.is_none()) {
            Some(tools) => Ok(system_tokens.saturating_add(count_json(tools, &self.counter)?)),
            None => Ok(system_tokens),
        })
    }

    #[pyo3(signature = (messages, *, token_limit, overhead = 0))]
    fn anchored_total<'py>(
        &self,
        py: Python<'py>,
        messages: &Bound<'py, PyAny>,
        token_limit: u64,
        overhead: u64,
    ) -> PyResult<(u64, &'static str, Option<f64>)> {
        guard(|| {
            let list = list_of(messages)?;
            let anchor = find_usage(py, &list)?;
            self.with_facts(messages, |facts| {
                let counts: Vec<u64> = facts.iter().map(|m| m.tokens).collect();
                let total = match anchor {
                    // A figure from before the last compaction is of another list.
                    Some((index, _)) if is_stale(py, &list, facts, index)? => {
                        anchored_total(&counts, overhead, None, 0, token_limit)
                    }
                    anchor => {
                        let removed = match anchor {
                            Some((index, _)) => removed_since(py, &list, facts, index)?,
                            None => 0,
                        };
                        anchored_total(&counts, overhead, anchor, removed, token_limit)
                    }
                };
                let source = match total.source {
                    Source::Reported => "reported",
                    Source::Counted => "counted",
                };
                Ok((total.tokens, source, total.ratio))
            })
        })
    }

    fn __repr__(&self) -> String {
        format!(
            "TokenCounter({:?}, exact={})",
            self.counter.name(),
            if self.counter.is_exact() {
                "True"
            } else {
                "False"
            }
        )
    }
}

/// The last message that carries the usage of its own request, and that usage.
fn find_usage(py: Python<'_>, messages: &[Bound<'_, PyAny>]) -> PyResult<Option<(usize, Usage)>> {
    for (i, message) in messages.iter().enumerate().rev() {
        let dict = super::facts::fields(message)?.dict;
        let direct = [intern!(py, "usage_metadata"), intern!(py, "usage")];
        let mut found = None;
        for key in direct {
            if let Some(usage) = dict
                .get_item(key)?
                .and_then(|u| u.cast_into::<PyDict>().ok())
            {
                found = read_usage(&usage)?;
            }
        }
        // As MT-Agent and langchain-openai store it.
        if let Some(metadata) = dict
            .get_item(intern!(py, "response_metadata"))?
            .and_then(|m| m.cast_into::<PyDict>().ok())
        {
            for key in [intern!(py, "usage"), intern!(py, "token_usage")] {
                if found.is_none()
                    && let Some(usage) = metadata
                        .get_item(key)?
                        .and_then(|u| u.cast_into::<PyDict>().ok())
                {
                    found = read_usage(&usage)?;
                }
            }
        }
        if let Some(usage) = found {
            return Ok(Some((i, usage)));
        }
    }
    Ok(None)
}

fn read_usage(usage: &Bound<'_, PyDict>) -> PyResult<Option<Usage>> {
    let number = |names: [&str; 2]| -> PyResult<Option<u64>> {
        for name in names {
            if let Some(value) = usage.get_item(name)? {
                return Ok(value.extract::<u64>().ok());
            }
        }
        Ok(None)
    };
    let input = number(["input_tokens", "prompt_tokens"])?;
    let output = number(["output_tokens", "completion_tokens"])?;
    Ok(input.filter(|i| *i > 0).map(|input| Usage {
        input,
        output: output.unwrap_or(0),
    }))
}

fn our_metadata<'py>(
    py: Python<'py>,
    message: &Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, PyDict>>> {
    let dict = super::facts::fields(message)?.dict;
    let key = intern!(py, "mt_context");
    if let Some(extra) = dict
        .get_item(intern!(py, "additional_kwargs"))?
        .and_then(|e| e.cast_into::<PyDict>().ok())
        && let Some(ours) = extra
            .get_item(key)?
            .and_then(|o| o.cast_into::<PyDict>().ok())
    {
        return Ok(Some(ours));
    }
    Ok(dict
        .get_item(key)?
        .and_then(|o| o.cast_into::<PyDict>().ok()))
}

/// True if the usage at `index` was reported before the last compaction, whose boundary names the last message it kept.
fn is_stale(
    py: Python<'_>,
    messages: &[Bound<'_, PyAny>],
    facts: &[Message],
    index: usize,
) -> PyResult<bool> {
    let Some(boundary) = facts.iter().rposition(|m| m.origin == Origin::Boundary) else {
        return Ok(false);
    };
    if index < boundary {
        return Ok(true);
    }
    let Some(ours) = messages
        .get(boundary)
        .map(|m| our_metadata(py, m))
        .transpose()?
        .flatten()
    else {
        return Ok(false);
    };
    let Some(last_kept) = ours.get_item(intern!(py, "last_kept_id"))? else {
        return Ok(false);
    };
    let last_kept: Option<String> = last_kept.extract().ok();
    let kept_at = facts
        .iter()
        .rposition(|m| m.id.as_deref() == last_kept.as_deref() && m.id.is_some());
    Ok(kept_at.is_some_and(|kept| index <= kept))
}

/// Tokens cleared from the prefix after the usage at `index` was reported: each cleared result names the answer before which it was whole.
fn removed_since(
    py: Python<'_>,
    messages: &[Bound<'_, PyAny>],
    facts: &[Message],
    index: usize,
) -> PyResult<u64> {
    let anchor = facts.get(index).and_then(|m| m.id.as_deref());
    let mut removed = 0u64;
    for (message, m) in messages.iter().zip(facts).take(index) {
        if m.role == Role::Tool
            && m.origin == Origin::Cleared
            && let Some(ours) = our_metadata(py, message)?
            && let Some(after) = ours.get_item(intern!(py, "cleared_after_id"))?
            && anchor.is_some()
            && after.extract::<String>().ok().as_deref() == anchor
            && let Some(saved) = ours.get_item(intern!(py, "saved_tokens"))?
        {
            removed = removed.saturating_add(saved.extract::<u64>().unwrap_or(0));
        }
    }
    Ok(removed)
}

/// The vocabulary of a model, or `None` where none is published.
#[pyfunction]
pub fn encoding_for_model(model: &str) -> Option<String> {
    tokens::encoding_for_model(model).map(|e| e.name().to_owned())
}

/// The window of a model in tokens, or `None` for a model we don't know.
#[pyfunction]
pub fn context_window_for_model(model: &str) -> Option<u64> {
    tokens::context_window_for_model(model)
}

/// Names of all vocabularies in this build.
#[pyfunction]
pub fn encodings() -> Vec<String> {
    tokens::encoding_names()
        .into_iter()
        .map(str::to_owned)
        .collect()
}

/// The numbers of the plan, by name.
#[pyfunction]
pub fn limits(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    for (name, value) in numbers::integers() {
        dict.set_item(name, value)?;
    }
    for (name, value) in numbers::fractions() {
        dict.set_item(name, value)?;
    }
    Ok(dict)
}

/// The tokens of a vocabulary and their ranks, for other engines to count with.
#[pyfunction]
pub fn vocabulary<'py>(py: Python<'py>, encoding: &str) -> PyResult<Bound<'py, PyDict>> {
    guard(|| {
        let dict = PyDict::new(py);
        for (token, rank) in tokens::Encoding::by_name(encoding)?.tokens()? {
            dict.set_item(PyBytes::new(py, &token), rank)?;
        }
        Ok(dict)
    })
}
