//! One message of any form as the neutral [`Message`]: LangChain objects, OpenAI-style dicts, our records, duck types.
//!
//! Reads dicts by interned keys, never through a full dump. What counts (spec 1): text content and text blocks, names and ids, tool-call
//! names with their JSON arguments, reasoning when it will be sent, a fixed figure per media block, an overhead per message.

use super::json::write_json;
use super::text::with_text;
use crate::context::message::{Block, Content, Message, Origin, Role, ToolCall};
use crate::limits;
use crate::tokens::TokenCounter;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyList, PyString, PyTuple};

/// What the counting of a message depends on besides the message.
pub struct Counting<'a> {
    /// Counts text.
    pub counter: &'a TokenCounter,
    /// Whether `reasoning_content` is sent back to the provider.
    pub include_reasoning: bool,
}

/// The fields of one message as a dict, and the role or type word if it stands elsewhere.
pub struct Fields<'py> {
    /// The fields.
    pub dict: Bound<'py, PyDict>,
    /// False if the dict was made for this call (a duck type): nothing to recognise it by.
    pub stable: bool,
}

/// Finds the fields of a message.
pub fn fields<'py>(message: &Bound<'py, PyAny>) -> PyResult<Fields<'py>> {
    let py = message.py();
    if let Ok(dict) = message.cast::<PyDict>() {
        return Ok(Fields {
            dict: dict.clone(),
            stable: true,
        });
    }
    if let Some(dict) = instance_dict(message)
        && dict.contains(intern!(py, "content"))?
    {
        return Ok(Fields { dict, stable: true });
    }
    // A duck type (SimpleNamespace has a dict; a MagicMock answers by attribute).
    let dict = PyDict::new(py);
    for name in FIELD_NAMES {
        if let Ok(value) = message.getattr(name) {
            dict.set_item(name, value)?;
        }
    }
    Ok(Fields {
        dict,
        stable: false,
    })
}

const FIELD_NAMES: [&str; 12] = [
    "type",
    "role",
    "content",
    "id",
    "name",
    "tool_calls",
    "invalid_tool_calls",
    "tool_call_id",
    "status",
    "additional_kwargs",
    "response_metadata",
    "usage_metadata",
];

/// The instance dict of an object that has one.
#[expect(
    unsafe_code,
    reason = "two times as fast as getattr(\"__dict__\"), and this runs for every message of every turn"
)]
pub fn instance_dict<'py>(object: &Bound<'py, PyAny>) -> Option<Bound<'py, PyDict>> {
    // SAFETY: the object is alive and the GIL is held; the call returns a new reference or null with an exception set.
    let found = unsafe {
        Bound::from_owned_ptr_or_err(
            object.py(),
            pyo3::ffi::PyObject_GenericGetDict(object.as_ptr(), std::ptr::null_mut()),
        )
    };
    found.ok()?.cast_into::<PyDict>().ok()
}

/// The facts of a message, counted.
pub fn read_message(fields: &Fields<'_>, counting: &Counting<'_>) -> PyResult<Message> {
    let py = fields.dict.py();
    let mut dict = fields.dict.clone();
    let mut kind = text_item(&dict, intern!(py, "type"))?;
    // LangChain's messages_to_dict.
    if let Some(data) = dict_item(&dict, intern!(py, "data"))?
        && kind.is_some()
        && !dict.contains(intern!(py, "content"))?
    {
        dict = data;
    }
    let role_word = text_item(&dict, intern!(py, "role"))?;
    let record_kind = kind.take();
    let word = role_word
        .as_deref()
        .or(record_kind.as_deref())
        .unwrap_or("");
    let mut m = Message::new(role_of(word));
    let mut tally = Tally {
        counting,
        tokens: limits::MESSAGE_OVERHEAD_TOKENS,
        chars: 0,
    };
    let extra = dict_item(&dict, intern!(py, "additional_kwargs"))?;

    m.id = text_item(&dict, intern!(py, "id"))?.map(Into::into);
    m.name = text_item(&dict, intern!(py, "name"))?
        .filter(|n| !n.is_empty())
        .map(Into::into);
    if let Some(name) = &m.name {
        tally.tokens = tally.tokens.saturating_add(counting.counter.count(name));
    }
    if m.role == Role::Tool {
        m.tool_call_id = text_item(&dict, intern!(py, "tool_call_id"))?.map(Into::into);
        if let Some(id) = &m.tool_call_id {
            tally.tokens = tally.tokens.saturating_add(counting.counter.count(id));
        }
        m.is_error = text_item(&dict, intern!(py, "status"))?.as_deref() == Some("error");
    }
    let mut native_calls = Vec::new();
    let content = dict.get_item(intern!(py, "content"))?;
    m.content = read_content(content.as_ref(), &mut tally, &mut native_calls)?;
    m.chars = tally.chars;
    if m.role == Role::Assistant {
        read_calls(&dict, &mut m, &mut tally, native_calls)?;
        read_reasoning(&dict, extra.as_ref(), &mut m, &mut tally)?;
    }
    m.origin = origin(
        &dict,
        extra.as_ref(),
        record_kind.as_deref(),
        role_word.as_deref(),
        &m,
    )?;
    if matches!(
        m.origin,
        Origin::Boundary | Origin::Summary | Origin::MemorySummary
    ) && m.role == Role::Other
    {
        m.role = Role::User;
    }
    m.timestamp_ms = timestamp(&dict)?;
    m.tokens = tally.tokens;
    Ok(m)
}

fn role_of(word: &str) -> Role {
    match word {
        "user" | "human" | "HumanMessageChunk" => Role::User,
        "assistant" | "ai" | "AIMessageChunk" | "model" => Role::Assistant,
        "tool" | "ToolMessageChunk" | "function" | "FunctionMessageChunk" => Role::Tool,
        "system" | "developer" | "SystemMessageChunk" => Role::System,
        _ => Role::Other,
    }
}

struct Tally<'a> {
    counting: &'a Counting<'a>,
    tokens: u64,
    chars: u64,
}

impl Tally<'_> {
    /// Counts a text; returns whether it is blank.
    fn text(&mut self, text: &Bound<'_, PyString>) -> PyResult<bool> {
        self.chars = self.chars.saturating_add(text.len().unwrap_or(0) as u64);
        let (tokens, blank) = with_text(text, |text| (self.count(text), text.trim().is_empty()))?;
        self.tokens = self.tokens.saturating_add(tokens);
        Ok(blank)
    }

    fn count(&self, text: &str) -> u64 {
        self.counting.counter.count(text)
    }

    fn add(&mut self, tokens: u64) {
        self.tokens = self.tokens.saturating_add(tokens);
    }
}

fn read_content(
    content: Option<&Bound<'_, PyAny>>,
    tally: &mut Tally<'_>,
    calls: &mut Vec<(ToolCall, u64)>,
) -> PyResult<Content> {
    let Some(content) = content.filter(|c| !c.is_none()) else {
        return Ok(Content::Missing);
    };
    if let Ok(text) = content.cast::<PyString>() {
        return Ok(Content::Text {
            blank: tally.text(text)?,
        });
    }
    let blocks: Vec<Bound<'_, PyAny>> = match (content.cast::<PyList>(), content.cast::<PyTuple>())
    {
        (Ok(list), _) => list.iter().collect(),
        (_, Ok(tuple)) => tuple.iter().collect(),
        _ => {
            // Nothing a provider accepts; counted as the text it would be printed as.
            tally.text(&content.str()?)?;
            return Ok(Content::Invalid);
        }
    };
    blocks
        .iter()
        .map(|b| read_block(b, tally, calls))
        .collect::<PyResult<_>>()
        .map(Content::Blocks)
}

fn read_block(
    block: &Bound<'_, PyAny>,
    tally: &mut Tally<'_>,
    calls: &mut Vec<(ToolCall, u64)>,
) -> PyResult<Block> {
    let py = block.py();
    if let Ok(text) = block.cast::<PyString>() {
        return Ok(Block::Text {
            blank: tally.text(text)?,
        });
    }
    let Ok(dict) = block.cast::<PyDict>() else {
        tally.text(&block.str()?)?;
        return Ok(Block::Other);
    };
    let kind = text_item(dict, intern!(py, "type"))?.unwrap_or_default();
    let has = |key: &Bound<'_, PyString>| {
        dict.get_item(key)
            .map(|v| v.is_some_and(|v| v.is_truthy().unwrap_or(false)))
    };
    Ok(match kind.as_str() {
        "text" | "input_text" | "output_text" => match string_item(dict, intern!(py, "text"))? {
            Some(text) => Block::Text {
                blank: tally.text(&text)?,
            },
            None => Block::Text { blank: true },
        },
        "thinking" | "reasoning" => {
            for key in [
                intern!(py, "thinking"),
                intern!(py, "reasoning"),
                intern!(py, "text"),
            ] {
                if let Some(text) =
                    string_item(dict, key)?.filter(|_| tally.counting.include_reasoning)
                {
                    tally.text(&text)?;
                }
            }
            // OpenAI's reasoning items are not Anthropic's thinking blocks: nothing to sign.
            if kind == "reasoning" {
                Block::Other
            } else {
                Block::Thinking {
                    signed: has(intern!(py, "signature"))?,
                }
            }
        }
        "redacted_thinking" => {
            let length =
                string_item(dict, intern!(py, "data"))?.map_or(0, |d| d.len().unwrap_or(0) as u64);
            tally.add(
                length
                    .saturating_mul(3)
                    .saturating_div(4)
                    .saturating_sub(650)
                    .saturating_div(4),
            );
            Block::Thinking { signed: true }
        }
        "tool_use" | "tool_call" | "function_call" => {
            let call = read_call(block, tally, false)?;
            let id = call.0.id.clone();
            calls.push(call);
            Block::ToolUse(id)
        }
        "image" | "image_url" | "input_image" | "audio" | "input_audio" | "video" | "media" => {
            tally.add(limits::IMAGE_TOKENS);
            Block::Media
        }
        "document" | "file" | "input_file" | "pdf" => {
            tally.add(limits::DOCUMENT_TOKENS);
            Block::Media
        }
        "tool_result" => {
            let mut nested = Vec::new();
            read_content(
                dict.get_item(intern!(py, "content"))?.as_ref(),
                tally,
                &mut nested,
            )?;
            Block::Other
        }
        other => {
            let mut json = String::new();
            write_json(block, &mut json, 0)?;
            tally.add(tally.count(&json));
            if other.starts_with("server_tool") || other.ends_with("_tool_result") {
                Block::Server
            } else {
                Block::Other
            }
        }
    })
}

/// The calls: `tool_calls` and `invalid_tool_calls`, or the native blocks where an adapter filled neither.
fn read_calls(
    dict: &Bound<'_, PyDict>,
    m: &mut Message,
    tally: &mut Tally<'_>,
    native: Vec<(ToolCall, u64)>,
) -> PyResult<()> {
    let py = dict.py();
    let mut calls = Vec::new();
    for (key, invalid) in [
        (intern!(py, "tool_calls"), false),
        (intern!(py, "invalid_tool_calls"), true),
    ] {
        if let Some(list) = dict
            .get_item(key)?
            .and_then(|v| v.cast_into::<PyList>().ok())
        {
            for call in list.iter() {
                calls.push(read_call(&call, tally, invalid)?);
            }
        }
    }
    if calls.is_empty() {
        calls = native;
    }
    for (call, tokens) in calls {
        m.call_tokens = m.call_tokens.saturating_add(tokens);
        m.tool_calls.push(call);
    }
    tally.add(m.call_tokens);
    Ok(())
}

/// One call and its tokens: LangChain's `{name, args, id}`, OpenAI's `{id, function: {name, arguments}}`, Anthropic's `{id, name, input}`.
fn read_call(
    call: &Bound<'_, PyAny>,
    tally: &Tally<'_>,
    invalid: bool,
) -> PyResult<(ToolCall, u64)> {
    let py = call.py();
    let Ok(dict) = call.cast::<PyDict>() else {
        let nameless = ToolCall {
            id: "".into(),
            name: "".into(),
            arguments_valid: false,
        };
        return Ok((nameless, limits::TOOL_CALL_OVERHEAD_TOKENS));
    };
    let function = dict_item(dict, intern!(py, "function"))?;
    let source = function.as_ref().unwrap_or(dict);
    let id = match text_item(dict, intern!(py, "id"))? {
        Some(id) => id,
        None => text_item(dict, intern!(py, "call_id"))?.unwrap_or_default(),
    };
    let name = text_item(source, intern!(py, "name"))?.unwrap_or_default();
    let mut arguments = None;
    for key in [
        intern!(py, "args"),
        intern!(py, "arguments"),
        intern!(py, "input"),
    ] {
        if let Some(value) = source.get_item(key)? {
            arguments = Some(value);
            break;
        }
    }
    let (argument_tokens, object) = match arguments {
        None => (0, true),
        Some(value) => match value.cast::<PyString>() {
            Ok(text) => with_text(text, |text| (tally.count(text), is_json_object(text)))?,
            Err(_) => {
                let mut json = String::new();
                write_json(&value, &mut json, 0)?;
                (tally.count(&json), value.cast::<PyDict>().is_ok())
            }
        },
    };
    let tokens = limits::TOOL_CALL_OVERHEAD_TOKENS
        .saturating_add(tally.count(&id))
        .saturating_add(tally.count(&name))
        .saturating_add(argument_tokens);
    Ok((
        ToolCall {
            id: id.into(),
            name: name.into(),
            arguments_valid: object && !invalid,
        },
        tokens,
    ))
}

fn is_json_object(text: &str) -> bool {
    let text = text.trim_start();
    // Some servers send an empty string for "no arguments".
    text.is_empty()
        || (text.starts_with('{') && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok())
}

fn read_reasoning(
    dict: &Bound<'_, PyDict>,
    extra: Option<&Bound<'_, PyDict>>,
    m: &mut Message,
    tally: &mut Tally<'_>,
) -> PyResult<()> {
    let py = dict.py();
    let key = intern!(py, "reasoning_content");
    for source in [Some(dict), extra].into_iter().flatten() {
        if let Some(text) = string_item(source, key)? {
            m.has_reasoning = true;
            if tally.counting.include_reasoning {
                let chars = tally.chars;
                tally.text(&text)?;
                tally.chars = chars;
            }
            break;
        }
    }
    if let Some(extra) = extra {
        let signatures =
            extra.get_item(intern!(py, "__gemini_function_call_thought_signatures__"))?;
        m.has_thought_signature = signatures.is_some_and(|s| s.is_truthy().unwrap_or(false));
    }
    Ok(())
}

/// What the message is to us: from `mt_context` metadata, or from the record's type. Never from its text.
fn origin(
    dict: &Bound<'_, PyDict>,
    extra: Option<&Bound<'_, PyDict>>,
    record_kind: Option<&str>,
    role_word: Option<&str>,
    m: &Message,
) -> PyResult<Origin> {
    let py = dict.py();
    for source in [extra, Some(dict)].into_iter().flatten() {
        if let Some(ours) = dict_item(source, intern!(py, "mt_context"))? {
            let kind = text_item(&ours, intern!(py, "kind"))?;
            return Ok(kind.as_deref().and_then(origin_by_name).unwrap_or_default());
        }
    }
    Ok(match (record_kind, role_word, m.name.as_deref()) {
        (Some("compact_boundary"), _, _) => Origin::Boundary,
        (Some("transcript_message"), Some("system"), Some("compact_summary")) => Origin::Summary,
        _ => Origin::Plain,
    })
}

/// The origin of this name, as it stands in the metadata.
pub fn origin_by_name(name: &str) -> Option<Origin> {
    Some(match name {
        "boundary" => Origin::Boundary,
        "summary" => Origin::Summary,
        "memory_summary" => Origin::MemorySummary,
        "cleared" => Origin::Cleared,
        "persisted" => Origin::Persisted,
        "synthetic" => Origin::Synthetic,
        "meta" | "host" => Origin::Host,
        _ => return None,
    })
}

fn timestamp(dict: &Bound<'_, PyDict>) -> PyResult<Option<i64>> {
    let py = dict.py();
    let own = intern!(py, "timestamp_ms");
    if let Some(metadata) = dict_item(dict, intern!(py, "response_metadata"))?
        && let Some(ms) = number_item(&metadata, own)?
    {
        return Ok(Some(ms));
    }
    match number_item(dict, own)? {
        Some(ms) => Ok(Some(ms)),
        None => number_item(dict, intern!(py, "timestamp")),
    }
}

fn number_item(dict: &Bound<'_, PyDict>, key: &Bound<'_, PyString>) -> PyResult<Option<i64>> {
    let Some(value) = dict.get_item(key)? else {
        return Ok(None);
    };
    if value.is_instance_of::<PyInt>() && !value.is_instance_of::<pyo3::types::PyBool>() {
        return Ok(value.extract::<i64>().ok());
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a float timestamp saturates"
    )]
    Ok(value
        .extract::<f64>()
        .ok()
        .filter(|ms| ms.is_finite())
        .map(|ms| ms as i64))
}

fn string_item<'py>(
    dict: &Bound<'py, PyDict>,
    key: &Bound<'py, PyString>,
) -> PyResult<Option<Bound<'py, PyString>>> {
    Ok(dict
        .get_item(key)?
        .and_then(|v| v.cast_into::<PyString>().ok()))
}

fn text_item(dict: &Bound<'_, PyDict>, key: &Bound<'_, PyString>) -> PyResult<Option<String>> {
    match dict
        .get_item(key)?
        .and_then(|v| v.cast_into::<PyString>().ok())
    {
        Some(text) => super::text::to_string(&text).map(Some),
        None => Ok(None),
    }
}

fn dict_item<'py>(
    dict: &Bound<'py, PyDict>,
    key: &Bound<'py, PyString>,
) -> PyResult<Option<Bound<'py, PyDict>>> {
    Ok(dict
        .get_item(key)?
        .and_then(|v| v.cast_into::<PyDict>().ok()))
}

/// Unused by messages, but by the tools of a request: the tokens of a JSON value.
pub fn count_json(value: &Bound<'_, PyAny>, counter: &TokenCounter) -> PyResult<u64> {
    let mut json = String::new();
    write_json(value, &mut json, 0)?;
    Ok(counter.count(&json))
}
