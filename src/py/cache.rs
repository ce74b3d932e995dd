//! The facts of a message list, kept from call to call: an unchanged history costs a walk over pointers.
//!
//! Two levels:
//! - *position*: the last lists seen, message by message, recognised by the identity of the message's values and of everything in its
//!   content, calls and extra fields (strong references are held, so an address cannot come back as something else);
//! - *content*: facts by a hash of those values, for messages that a checkpoint has loaded anew. Bounded.
//!
//! - I1 the facts never depend on whether the cache was warm;
//! - I2 a message that was changed in place is noticed, nested lists and dicts included;
//! - I3 no call waits for another: if the cache is busy (a finaliser, another thread), facts are read without it.

use super::facts::{Counting, Fields, fields, instance_dict, read_message};
use crate::context::message::Message;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use std::collections::HashMap;

/// Lists that are remembered by position: the history and its view.
const LISTS: usize = 2;
/// Messages in one generation of the content cache; two generations are kept.
const GENERATION: usize = 32_768;
const MAX_DEPTH: usize = 16;
/// A message with more values than this is recognised by content only.
const MAX_VALUES: usize = 4_096;

/// Facts of message lists. See the module's text.
#[derive(Default)]
pub struct FactsCache {
    lists: [Positions; LISTS],
    last_used: usize,
    young: HashMap<(u64, u64), Message>,
    old: HashMap<(u64, u64), Message>,
}

#[derive(Default)]
struct Positions {
    facts: Vec<Message>,
    seen: Vec<Seen>,
}

/// What a message looked like: its values in order of the walk. Held, so that their addresses stay theirs.
#[derive(Default)]
struct Seen {
    values: Vec<Py<PyAny>>,
    lengths: Vec<usize>,
}

impl FactsCache {
    /// The facts of a list, from the cache where nothing changed.
    pub fn facts(
        &mut self,
        messages: &[Bound<'_, PyAny>],
        counting: &Counting<'_>,
    ) -> PyResult<&[Message]> {
        let (list, matched) = self.best_list(messages);
        self.last_used = list;
        let mut positions = std::mem::take(self.lists.get_mut(list).ok_or_else(lost)?);
        let result = self.extend(&mut positions, matched, messages, counting);
        let slot = self.lists.get_mut(list).ok_or_else(lost)?;
        *slot = positions;
        result.map(|()| slot.facts.as_slice())
    }

    /// The remembered list with the longest common beginning; one that shares little is replaced only if it was not used last.
    fn best_list(&self, messages: &[Bound<'_, PyAny>]) -> (usize, usize) {
        let mut best = (0, 0);
        for i in (0..LISTS).map(|i| self.last_used.wrapping_add(i) % LISTS) {
            let matched = self.lists.get(i).map_or(0, |l| l.matching(messages));
            if i == self.last_used && matched.saturating_mul(2) >= messages.len() {
                return (i, matched);
            }
            if matched >= best.1 {
                best = (i, matched);
            }
        }
        best
    }

    fn extend(
        &mut self,
        positions: &mut Positions,
        matched: usize,
        messages: &[Bound<'_, PyAny>],
        counting: &Counting<'_>,
    ) -> PyResult<()> {
        positions.facts.truncate(matched);
        positions.seen.truncate(matched);
        for message in messages.iter().skip(matched) {
            let fields = fields(message)?;
            let facts = self.read(&fields, counting)?;
            positions.facts.push(facts);
            positions.seen.push(remember(&fields));
        }
        Ok(())
    }

    fn read(&mut self, fields: &Fields<'_>, counting: &Counting<'_>) -> PyResult<Message> {
        let Some(key) = content_key(&fields.dict) else {
            return read_message(fields, counting);
        };
        if let Some(facts) = self.young.get(&key) {
            return Ok(facts.clone());
        }
        let facts = match self.old.remove(&key) {
            Some(facts) => facts,
            None => read_message(fields, counting)?,
        };
        if self.young.len() >= GENERATION {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, facts.clone());
        Ok(facts)
    }
}

fn lost() -> PyErr {
    crate::error::Error::Internal("a cache slot is missing".to_owned()).into()
}

impl Positions {
    /// How many messages at the beginning are the same as at the last call.
    fn matching(&self, messages: &[Bound<'_, PyAny>]) -> usize {
        self.seen
            .iter()
            .zip(messages)
            .take_while(|(seen, message)| seen.is(message))
            .count()
    }
}

impl Seen {
    fn is(&self, message: &Bound<'_, PyAny>) -> bool {
        if self.values.is_empty() {
            return false;
        }
        let dict = match message.cast::<PyDict>() {
            Ok(dict) => dict.clone(),
            Err(_) => match instance_dict(message) {
                Some(dict) => dict,
                None => return false,
            },
        };
        let (mut value, mut length) = (0, 0);
        let same = walk_message(&dict, &mut |step| match step {
            Step::Value(v) => {
                let known = self.values.get(value).is_some_and(|k| k.as_ptr() == v);
                value += 1;
                known
            }
            Step::Length(l) => {
                let known = self.lengths.get(length) == Some(&l);
                length += 1;
                known
            }
        });
        same && value == self.values.len() && length == self.lengths.len()
    }
}

/// What is held of a message; nothing if it cannot be recognised again.
fn remember(fields: &Fields<'_>) -> Seen {
    let py = fields.dict.py();
    let mut seen = Seen::default();
    let whole = fields.stable
        && walk_message(&fields.dict, &mut |step| {
            match step {
                Step::Value(v) => seen.values.push(raw::hold(py, v)),
                Step::Length(l) => seen.lengths.push(l),
            }
            seen.values.len() <= MAX_VALUES
        });
    if whole { seen } else { Seen::default() }
}

enum Step {
    Value(*mut pyo3::ffi::PyObject),
    Length(usize),
}

/// Visits all values of a message, and the insides of those that facts are read from. False if `visit` said stop.
///
/// Works on borrowed pointers: taking a reference would write to every value, and a history's values don't fit a processor's caches.
fn walk_message(dict: &Bound<'_, PyDict>, visit: &mut impl FnMut(Step) -> bool) -> bool {
    let py = dict.py();
    let deep = [
        intern!(py, "content").as_ptr(),
        intern!(py, "tool_calls").as_ptr(),
        intern!(py, "additional_kwargs").as_ptr(),
        intern!(py, "invalid_tool_calls").as_ptr(),
        intern!(py, "mt_context").as_ptr(),
        intern!(py, "data").as_ptr(),
    ];
    visit(Step::Length(dict.len()))
        && raw::each_item(dict, |key, value| {
            if !visit(Step::Value(value)) {
                return false;
            }
            // Keys of instances and of literals are interned; those of parsed JSON are compared by text, for containers only.
            let is_deep =
                deep.contains(&key) || raw::is_container(value) && raw::is_one_of(py, key, &DEEP);
            !is_deep || raw::walk(value, 0, visit)
        })
}

/// Fields whose insides are facts.
const DEEP: [&str; 6] = [
    "content",
    "tool_calls",
    "additional_kwargs",
    "invalid_tool_calls",
    "mt_context",
    "data",
];

/// Reading containers through borrowed pointers.
mod raw {
    #![expect(
        unsafe_code,
        reason = "measured: counted references cost three times as much for a history of 10 000 messages"
    )]
    // SAFETY, for all of it: the GIL is held (a `Python` or `Bound` is at hand), nothing here runs Python code or releases the GIL, so no
    // container changes and no borrowed pointer dies while it is looked at. All calls are in the stable ABI.

    use super::{MAX_DEPTH, Step};
    use pyo3::ffi;
    use pyo3::prelude::*;
    use pyo3::types::{PyDict, PyString};

    type Ptr = *mut ffi::PyObject;

    /// A counted reference.
    pub fn hold(py: Python<'_>, value: Ptr) -> Py<PyAny> {
        unsafe { Bound::from_borrowed_ptr(py, value) }.unbind()
    }

    /// Visits keys and values; false if `visit` said stop.
    pub fn each_item(dict: &Bound<'_, PyDict>, visit: impl FnMut(Ptr, Ptr) -> bool) -> bool {
        each_item_of(dict.as_ptr(), visit)
    }

    fn each_item_of(dict: Ptr, mut visit: impl FnMut(Ptr, Ptr) -> bool) -> bool {
        let (mut position, mut key, mut value) = (0, std::ptr::null_mut(), std::ptr::null_mut());
        while unsafe { ffi::PyDict_Next(dict, &raw mut position, &raw mut key, &raw mut value) }
            != 0
        {
            if !visit(key, value) {
                return false;
            }
        }
        true
    }

    fn is_type(value: Ptr, which: *mut ffi::PyTypeObject) -> bool {
        unsafe { ffi::Py_TYPE(value) == which }
    }

    pub fn is_container(value: Ptr) -> bool {
        is_type(value, &raw mut ffi::PyDict_Type)
            || is_type(value, &raw mut ffi::PyList_Type)
            || is_type(value, &raw mut ffi::PyTuple_Type)
    }

    pub fn is_one_of(py: Python<'_>, key: Ptr, names: &[&str]) -> bool {
        let key = unsafe { Bound::from_borrowed_ptr(py, key) };
        key.cast::<PyString>()
            .is_ok_and(|k| k.to_str().is_ok_and(|k| names.contains(&k)))
    }

    /// Visits the insides of a container; the container itself has been visited.
    pub fn walk(value: Ptr, depth: usize, visit: &mut impl FnMut(Step) -> bool) -> bool {
        if depth > MAX_DEPTH {
            return false;
        }
        let below = depth.saturating_add(1);
        if is_type(value, &raw mut ffi::PyDict_Type) {
            let length = unsafe { ffi::PyDict_Size(value) };
            visit(Step::Length(length.unsigned_abs()))
                && each_item_of(value, |key, item| {
                    visit(Step::Value(key)) && visit(Step::Value(item)) && walk(item, below, visit)
                })
        } else if is_type(value, &raw mut ffi::PyList_Type) {
            let length = unsafe { ffi::PyList_Size(value) };
            visit(Step::Length(length.unsigned_abs()))
                && (0..length).all(|i| {
                    let item = unsafe { ffi::PyList_GetItem(value, i) };
                    !item.is_null() && visit(Step::Value(item)) && walk(item, below, visit)
                })
        } else if is_type(value, &raw mut ffi::PyTuple_Type) {
            let length = unsafe { ffi::PyTuple_Size(value) };
            (0..length).all(|i| {
                let item = unsafe { ffi::PyTuple_GetItem(value, i) };
                !item.is_null() && visit(Step::Value(item)) && walk(item, below, visit)
            })
        } else {
            true
        }
    }
}

/// A hash of everything facts are read from; `None` if a value's content cannot be hashed.
fn content_key(dict: &Bound<'_, PyDict>) -> Option<(u64, u64)> {
    let py = dict.py();
    let mut hash = Hash128::default();
    let names = [
        intern!(py, "type"),
        intern!(py, "role"),
        intern!(py, "content"),
        intern!(py, "id"),
        intern!(py, "name"),
        intern!(py, "tool_calls"),
        intern!(py, "invalid_tool_calls"),
        intern!(py, "tool_call_id"),
        intern!(py, "status"),
        intern!(py, "additional_kwargs"),
        intern!(py, "reasoning_content"),
        intern!(py, "mt_context"),
        intern!(py, "data"),
        intern!(py, "timestamp_ms"),
        intern!(py, "timestamp"),
    ];
    for (i, name) in names.into_iter().enumerate() {
        if let Some(value) = dict.get_item(name).ok()? {
            hash.mix(i as u64);
            hash_value(&value, 0, &mut hash)?;
        }
    }
    // Of the response metadata only the time is a fact; the rest is whatever a provider sends.
    if let Some(metadata) = dict.get_item(intern!(py, "response_metadata")).ok()?
        && let Ok(metadata) = metadata.cast::<PyDict>()
        && let Some(time) = metadata.get_item(intern!(py, "timestamp_ms")).ok()?
    {
        hash_value(&time, 0, &mut hash)?;
    }
    Some(hash.finish())
}

fn hash_value(value: &Bound<'_, PyAny>, depth: usize, hash: &mut Hash128) -> Option<()> {
    if depth > MAX_DEPTH {
        return None;
    }
    let below = depth.saturating_add(1);
    if value.is_none() {
        hash.mix(1);
    } else if let Ok(text) = value.cast_exact::<PyString>() {
        hash.mix(2);
        hash.mix(text.hash().ok()?.cast_unsigned() as u64);
        hash.mix(text.len().ok()? as u64);
    } else if value.is_exact_instance_of::<PyBool>() {
        hash.mix(if value.is_truthy().ok()? { 3 } else { 4 });
    } else if value.is_exact_instance_of::<PyInt>() || value.is_exact_instance_of::<PyFloat>() {
        hash.mix(if value.is_exact_instance_of::<PyInt>() {
            5
        } else {
            6
        });
        // Python gives -1 and -2 the same hash: the value itself where it fits.
        hash.mix(match value.extract::<i64>() {
            Ok(number) => number.cast_unsigned(),
            Err(_) => value.extract::<f64>().ok()?.to_bits(),
        });
    } else if value.is_exact_instance_of::<PyBytes>() {
        hash.mix(7);
        hash.mix(value.hash().ok()?.cast_unsigned() as u64);
    } else if let Ok(list) = value.cast_exact::<PyList>() {
        hash.mix(8);
        hash.mix(list.len() as u64);
        list.iter().try_for_each(|v| hash_value(&v, below, hash))?;
    } else if let Ok(dict) = value.cast_exact::<PyDict>() {
        hash.mix(9);
        hash.mix(dict.len() as u64);
        dict.iter().try_for_each(|(k, v)| {
            hash_value(&k, below, hash)?;
            hash_value(&v, below, hash)
        })?;
    } else if let Ok(tuple) = value.cast_exact::<PyTuple>() {
        hash.mix(10);
        hash.mix(tuple.len() as u64);
        tuple.iter().try_for_each(|v| hash_value(&v, below, hash))?;
    } else {
        return None;
    }
    Some(())
}

/// Two independent 64-bit mixes over hashes that Python has already made (SipHash of the strings, keyed per process).
struct Hash128(u64, u64);

impl Default for Hash128 {
    fn default() -> Self {
        Self(0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f)
    }
}

impl Hash128 {
    fn mix(&mut self, value: u64) {
        self.0 = (self.0 ^ value)
            .wrapping_mul(0xff51_afd7_ed55_8ccd)
            .rotate_left(31);
        self.1 = (self.1.rotate_left(27) ^ value.wrapping_mul(0x9fb2_1c65_1e98_df25))
            .wrapping_add(0x1656_67b1_9e37_79f9);
    }

    fn finish(&self) -> (u64, u64) {
        (self.0 ^ (self.0 >> 33), self.1 ^ (self.1 >> 29))
    }
}
