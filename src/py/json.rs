//! Python values as the JSON text that LangChain would send (`json.dumps(…, ensure_ascii=False)`), for counting.

use super::text::with_text;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use std::fmt::Write as _;

const MAX_DEPTH: usize = 64;

/// Appends the JSON text of a value. What JSON cannot hold is written as a string.
pub fn write_json(value: &Bound<'_, PyAny>, out: &mut String, depth: usize) -> PyResult<()> {
    if value.is_none() || depth > MAX_DEPTH {
        out.push_str("null");
    } else if let Ok(text) = value.cast::<PyString>() {
        with_text(text, |text| write_string(text, out))?;
    } else if value.is_instance_of::<PyBool>() {
        out.push_str(if value.is_truthy()? { "true" } else { "false" });
    } else if value.is_instance_of::<PyInt>() || value.is_instance_of::<PyFloat>() {
        let _ = write!(out, "{}", value.repr()?.to_cow()?);
    } else if let Ok(dict) = value.cast::<PyDict>() {
        out.push('{');
        for (i, (key, item)) in dict.iter().enumerate() {
            if i > 0 {
                out.push_str(", ");
            }
            match key.cast::<PyString>() {
                Ok(key) => with_text(key, |key| write_string(key, out))?,
                Err(_) => with_text(&key.str()?, |key| write_string(key, out))?,
            }
            out.push_str(": ");
            write_json(&item, out, depth.saturating_add(1))?;
        }
        out.push('}');
    } else if let Ok(list) = value.cast::<PyList>() {
        write_items(list.iter(), out, depth)?;
    } else if let Ok(tuple) = value.cast::<PyTuple>() {
        write_items(tuple.iter(), out, depth)?;
    } else {
        with_text(&value.str()?, |text| write_string(text, out))?;
    }
    Ok(())
}

fn write_items<'py>(
    items: impl Iterator<Item = Bound<'py, PyAny>>,
    out: &mut String,
    depth: usize,
) -> PyResult<()> {
    out.push('[');
    for (i, item) in items.enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        write_json(&item, out, depth.saturating_add(1))?;
    }
    out.push(']');
    Ok(())
}

fn write_string(text: &str, out: &mut String) {
    match serde_json::to_string(text) {
        Ok(quoted) => out.push_str(&quoted),
        Err(_) => out.push_str("\"\""),
    }
}
