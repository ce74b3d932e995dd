//! Python strings as UTF-8, without keeping a second copy alive and without failing on lone surrogates.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

/// Calls `f` with the text as UTF-8. Lone surrogates become U+FFFD, one each.
///
/// `to_str` would be shorter, but makes CPython keep a UTF-8 copy of every non-ASCII string for its whole life: a Chinese history would
/// take twice its memory.
pub fn with_text<R>(text: &Bound<'_, PyString>, f: impl FnOnce(&str) -> R) -> PyResult<R> {
    if text
        .call_method0(intern!(text.py(), "isascii"))?
        .is_truthy()?
    {
        return text.to_str().map(f);
    }
    match text.encode_utf8() {
        Ok(bytes) => Ok(f(&String::from_utf8_lossy(bytes.as_bytes()))),
        Err(_) => {
            let bytes = text.call_method1(
                intern!(text.py(), "encode"),
                (
                    intern!(text.py(), "utf-8"),
                    intern!(text.py(), "surrogatepass"),
                ),
            )?;
            Ok(f(&without_surrogates(bytes.cast::<PyBytes>()?.as_bytes())))
        }
    }
}

/// UTF-8 with encoded surrogates (`ED A0..BF xx`) as text, each surrogate replaced by U+FFFD.
pub fn without_surrogates(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    let mut rest = bytes;
    loop {
        match std::str::from_utf8(rest) {
            Ok(valid) => {
                out.push_str(valid);
                return out;
            }
            Err(error) => {
                let (valid, after) = rest.split_at(error.valid_up_to());
                out.push_str(std::str::from_utf8(valid).unwrap_or_default());
                out.push('\u{FFFD}');
                let surrogate = matches!(after, [0xED, 0xA0..=0xBF, ..]);
                let skip = if surrogate {
                    3
                } else {
                    error.error_len().unwrap_or(after.len())
                };
                rest = after.get(skip..).unwrap_or_default();
            }
        }
    }
}

/// An owned copy of a Python string.
pub fn to_string(text: &Bound<'_, PyString>) -> PyResult<String> {
    with_text(text, str::to_owned)
}
