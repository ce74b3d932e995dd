//! Transcript, artifacts and resume for Python. Work on the disk is done without the GIL.

use super::errors::guard;
use crate::error::{Error, Result};
use crate::session::artifacts::{ArtifactStore, Written};
use crate::session::disk::{self, File, RealDir};
use crate::session::read_range::{From, Range, read_range};
use crate::session::recorder::Recorder;
use crate::session::transcript::Sync;
use crate::session::{names, resume, scan, search};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

fn open_dir(path: &Path) -> Result<RealDir> {
    RealDir::open(path).map_err(|e| Error::storage("open", path.display().to_string(), e))
}

fn open_file(path: &Path) -> Result<Box<dyn File>> {
    disk::open_for_reading(path).map_err(|e| Error::storage("read", path.display().to_string(), e))
}

/// See `_core.pyi`.
#[pyclass(name = "SessionWriter", module = "mt_context", frozen)]
pub struct PySessionWriter {
    // `None` once it is closed: the lock is then free.
    recorder: Mutex<Option<Arc<Recorder>>>,
}

impl PySessionWriter {
    fn open_recorder(&self) -> Result<Arc<Recorder>> {
        let recorder = self.recorder.lock().unwrap_or_else(PoisonError::into_inner);
        recorder.clone().ok_or_else(|| Error::InvalidArgument {
            what: "session",
            problem: "it is closed".to_owned(),
            way_out: "Open it again to record more".to_owned(),
        })
    }
}

#[pymethods]
impl PySessionWriter {
    #[new]
    #[pyo3(signature = (directory, name, *, sync = "always"))]
    fn new(py: Python<'_>, directory: PathBuf, name: &str, sync: &str) -> PyResult<Self> {
        guard(|| {
            let sync = match sync {
                "always" => Sync::Always,
                "turn" => Sync::Turn,
                other => {
                    return Err(Error::InvalidArgument {
                        what: "sync",
                        problem: format!("{other:?} is not a mode"),
                        way_out: "Modes: \"always\" (the default) and \"turn\"".to_owned(),
                    }
                    .into());
                }
            };
            let recorder =
                py.detach(|| Recorder::open(Arc::new(open_dir(&directory)?), name, sync))?;
            Ok(Self {
                recorder: Mutex::new(Some(Arc::new(recorder))),
            })
        })
    }

    fn record(&self, py: Python<'_>, record: &str) -> PyResult<u64> {
        guard(|| {
            let recorder = self.open_recorder()?;
            Ok(py.detach(|| recorder.record(record))?)
        })
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        guard(|| {
            let recorder = self.open_recorder()?;
            Ok(py.detach(|| recorder.flush())?)
        })
    }

    fn reopen(&self, py: Python<'_>) -> PyResult<()> {
        guard(|| {
            let recorder = self.open_recorder()?;
            Ok(py.detach(|| recorder.reopen())?)
        })
    }

    fn close(&self) {
        drop(
            self.recorder
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
    }

    #[getter]
    fn path(&self) -> PyResult<String> {
        Ok(self.open_recorder()?.path().to_owned())
    }

    #[getter]
    fn size(&self) -> PyResult<u64> {
        Ok(self.open_recorder()?.len()?)
    }

    #[getter]
    fn torn_tail(&self) -> PyResult<Option<(String, u64)>> {
        Ok(self.open_recorder()?.opened().torn.clone())
    }
}

/// See `_core.pyi`.
#[pyclass(name = "ArtifactStore", module = "mt_context", frozen)]
pub struct PyArtifactStore {
    directory: PathBuf,
}

impl PyArtifactStore {
    /// Opened for each use: the directory may be made late, and may be gone in between.
    fn store(&self) -> Result<ArtifactStore> {
        Ok(ArtifactStore::new(Arc::new(open_dir(&self.directory)?)))
    }

    fn reading(&self) -> Result<ArtifactStore> {
        let dir = RealDir::open_existing(&self.directory)
            .map_err(|e| Error::storage("open", self.directory.display().to_string(), e))?;
        Ok(ArtifactStore::new(Arc::new(dir)))
    }
}

#[pymethods]
impl PyArtifactStore {
    #[new]
    fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    #[pyo3(signature = (tool_call_id, content, *, suffix = None))]
    fn write<'py>(
        &self,
        py: Python<'py>,
        tool_call_id: &Bound<'py, PyString>,
        content: &Bound<'py, PyAny>,
        suffix: Option<&str>,
    ) -> PyResult<Bound<'py, PyDict>> {
        guard(|| {
            let id = utf8_or_wtf8(tool_call_id)?;
            let (bytes, is_text, lossy) = content_bytes(content)?;
            let suffix = suffix.unwrap_or(if is_text { ".txt" } else { ".bin" });
            let (id, raw) = (id.as_bytes(), bytes.as_bytes());
            let written = py.detach(|| self.store()?.write(id, raw, is_text, suffix))?;
            let dict = written_dict(py, &written)?;
            dict.set_item("kind", if is_text { "text" } else { "binary" })?;
            dict.set_item("lossy", lossy)?;
            Ok(dict)
        })
    }

    fn replace_summary<'py>(
        &self,
        py: Python<'py>,
        content: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyDict>> {
        guard(|| {
            let (bytes, _, _) = content_bytes(content)?;
            let raw = bytes.as_bytes();
            let written = py.detach(|| self.store()?.replace_summary(raw))?;
            written_dict(py, &written)
        })
    }

    fn read<'py>(&self, py: Python<'py>, relative_path: &str) -> PyResult<Bound<'py, PyBytes>> {
        guard(|| {
            let bytes = py.detach(|| -> Result<Vec<u8>> {
                let file = self.reading()?.open(relative_path)?;
                let storage = |e| Error::storage("read", relative_path, e);
                let size = usize::try_from(file.len().map_err(storage)?).unwrap_or(0);
                let mut bytes = vec![0; size];
                let n = disk::read_full(&*file, &mut bytes, 0).map_err(storage)?;
                bytes.truncate(n);
                Ok(bytes)
            })?;
            Ok(PyBytes::new(py, &bytes))
        })
    }

    #[pyo3(signature = (relative_path, *, line = None, byte = None, max_lines = 2000, max_chars = 50_000))]
    fn read_range<'py>(
        &self,
        py: Python<'py>,
        relative_path: &str,
        line: Option<u64>,
        byte: Option<u64>,
        max_lines: u64,
        max_chars: usize,
    ) -> PyResult<Bound<'py, PyDict>> {
        guard(|| {
            let from = byte.map_or_else(|| From::Line(line.unwrap_or(1)), From::Byte);
            let range = py.detach(|| {
                let file = self.reading()?.open(relative_path)?;
                read_range(&*file, from, max_lines, max_chars)
                    .map_err(|e| Error::storage("read", relative_path, e))
            })?;
            range_dict(py, &range)
        })
    }

    #[pyo3(signature = (relative_path, pattern, *, regex = true, ignore_case = false, max_hits = 50, max_line_chars = 300))]
    #[expect(
        clippy::too_many_arguments,
        reason = "keyword arguments of a Python function"
    )]
    fn search<'py>(
        &self,
        py: Python<'py>,
        relative_path: &str,
        pattern: &str,
        regex: bool,
        ignore_case: bool,
        max_hits: usize,
        max_line_chars: usize,
    ) -> PyResult<Bound<'py, PyDict>> {
        guard(|| {
            let found = py.detach(|| {
                let file = self.reading()?.open(relative_path)?;
                search::search(
                    &*file,
                    pattern,
                    regex,
                    ignore_case,
                    max_hits,
                    max_line_chars,
                )
            })?;
            let dict = PyDict::new(py);
            let hits: Vec<(u64, u64, &str)> = found
                .hits
                .iter()
                .map(|h| (h.line, h.offset, h.text.as_str()))
                .collect();
            dict.set_item("hits", hits)?;
            dict.set_item("total", found.total)?;
            dict.set_item("more", found.more)?;
            Ok(dict)
        })
    }

    fn list(&self, py: Python<'_>) -> PyResult<Vec<(String, u64, i64)>> {
        guard(|| {
            if !self.directory.is_dir() {
                return Ok(Vec::new());
            }
            let listed = py.detach(|| self.reading()?.list())?;
            Ok(listed
                .into_iter()
                .map(|(path, entry)| (path, entry.len, entry.modified_ms))
                .collect())
        })
    }
}

fn written_dict<'py>(py: Python<'py>, written: &Written) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("path", &written.relative_path)?;
    dict.set_item("size_bytes", written.size_bytes)?;
    dict.set_item("truncated", written.truncated)?;
    Ok(dict)
}

fn range_dict<'py>(py: Python<'py>, range: &Range) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("text", String::from_utf8_lossy(&range.bytes))?;
    dict.set_item("start_line", range.start_line)?;
    dict.set_item("num_lines", range.num_lines)?;
    dict.set_item("start_byte", range.start_byte)?;
    dict.set_item("next_byte", range.next_byte)?;
    dict.set_item("next_line", range.next_line)?;
    dict.set_item("total_lines", range.total_lines)?;
    dict.set_item("size", range.size)?;
    Ok(dict)
}

/// An id as bytes: lone surrogates as they are, so that different ids stay different.
fn utf8_or_wtf8<'py>(text: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyBytes>> {
    match text.encode_utf8() {
        Ok(bytes) => Ok(bytes),
        Err(_) => Ok(text
            .call_method1("encode", ("utf-8", "surrogatepass"))?
            .cast_into::<PyBytes>()?),
    }
}

/// What is kept of a result: bytes as they are; of a text, bytes that Python could not decode go back to what they were, and other lone
/// surrogates become U+FFFD. Returns whether it is text, and whether anything was replaced.
fn content_bytes<'py>(content: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyBytes>, bool, bool)> {
    let py = content.py();
    if let Ok(bytes) = content.cast::<PyBytes>() {
        return Ok((bytes.clone(), false, false));
    }
    let text = match content.cast::<PyString>() {
        Ok(text) => text.clone(),
        Err(_) => content.str()?,
    };
    if let Ok(bytes) = text.encode_utf8() {
        return Ok((bytes, true, false));
    }
    if let Ok(bytes) = text.call_method1("encode", ("utf-8", "surrogateescape")) {
        return Ok((bytes.cast_into::<PyBytes>()?, true, false));
    }
    let wtf8 = text
        .call_method1("encode", ("utf-8", "surrogatepass"))?
        .cast_into::<PyBytes>()?;
    let (bytes, lossy) = without_surrogates(wtf8.as_bytes());
    Ok((PyBytes::new(py, &bytes), true, lossy))
}

fn without_surrogates(wtf8: &[u8]) -> (Vec<u8>, bool) {
    let mut out = Vec::with_capacity(wtf8.len());
    let (mut rest, mut lossy) = (wtf8, false);
    while let Some((first, after)) = rest.split_first() {
        match (first, after) {
            // U+DC80 to U+DCFF: a byte that was no UTF-8.
            (0xED, [0xB2, low, ..]) => out.push(*low),
            (0xED, [0xB3, low, ..]) => out.push(low | 0x40),
            (0xED, [0xA0..=0xBF, _, ..]) => {
                lossy = true;
                out.extend_from_slice("\u{fffd}".as_bytes());
            }
            _ => {
                out.push(*first);
                rest = after;
                continue;
            }
        }
        rest = rest.get(3..).unwrap_or_default();
    }
    (out, lossy)
}

/// See `_core.pyi`.
#[pyfunction]
pub fn safe_name(id: &Bound<'_, PyString>) -> PyResult<String> {
    guard(|| Ok(names::safe_name(utf8_or_wtf8(id)?.as_bytes())))
}

/// See `_core.pyi`.
#[pyfunction]
pub fn check_artifact_path(path: &str) -> PyResult<()> {
    guard(|| Ok(names::parse_relative(path).map(drop)?))
}

fn to_python<'py, T: serde::Serialize>(py: Python<'py>, value: &T) -> PyResult<Bound<'py, PyAny>> {
    pythonize::pythonize(py, value)
        .map_err(|_| Error::Internal("a record cannot be shown to Python".to_owned()).into())
}

fn damage_list<'py>(py: Python<'py>, damaged: &[scan::Damage]) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, damaged.iter().map(|d| (d.offset, d.reason)))
}

/// See `_core.pyi`.
#[pyfunction]
#[pyo3(signature = (path, *, accept_memory = false))]
pub fn resume_session(
    py: Python<'_>,
    path: PathBuf,
    accept_memory: bool,
) -> PyResult<Bound<'_, PyDict>> {
    guard(|| {
        let found = py.detach(|| -> Result<resume::Resume> {
            resume::resume(&*open_file(&path)?, accept_memory)
                .map_err(|e| Error::storage("read", path.display().to_string(), e))
        })?;
        let dict = PyDict::new(py);
        let boundary = match &found.boundary {
            Some(boundary) => {
                let b = PyDict::new(py);
                b.set_item("record", to_python(py, &boundary.record)?)?;
                b.set_item("summary", &boundary.summary)?;
                b.set_item("pinned", to_python(py, &boundary.pinned)?)?;
                Some(b)
            }
            None => None,
        };
        dict.set_item("boundary", boundary)?;
        dict.set_item("messages", to_python(py, &found.messages)?)?;
        dict.set_item("others", to_python(py, &found.others)?)?;
        dict.set_item("damaged", damage_list(py, &found.damaged)?)?;
        dict.set_item("bytes_read", found.bytes_read)?;
        Ok(dict)
    })
}

/// See `_core.pyi`.
#[pyfunction]
pub fn session_listing(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyDict>> {
    guard(|| {
        let found = py.detach(|| -> Result<resume::Listing> {
            resume::listing(&*open_file(&path)?)
                .map_err(|e| Error::storage("read", path.display().to_string(), e))
        })?;
        let dict = PyDict::new(py);
        dict.set_item("start", to_python(py, &found.start)?)?;
        dict.set_item("end", to_python(py, &found.end)?)?;
        dict.set_item("first_user_message", &found.first_user_message)?;
        dict.set_item("message_count", found.message_count)?;
        dict.set_item("estimated", found.estimated)?;
        dict.set_item("size", found.len)?;
        Ok(dict)
    })
}

/// See `_core.pyi`.
#[pyfunction]
#[pyo3(signature = (path, visit, *, from_byte = 0))]
pub fn scan_session<'py>(
    py: Python<'py>,
    path: PathBuf,
    visit: &Bound<'py, PyAny>,
    from_byte: u64,
) -> PyResult<Bound<'py, PyList>> {
    guard(|| {
        let file = open_file(&path)?;
        let mut damaged = Vec::new();
        let mut failed = None;
        let scanned = scan::forward(&*file, from_byte, |offset, line| {
            let Some(line) = line else {
                damaged.push(scan::Damage {
                    offset,
                    reason: "longer than 16 MiB",
                });
                return true;
            };
            let parsed = scan::parse_line(line);
            damaged.extend(parsed.damage.map(|reason| scan::Damage { offset, reason }));
            for record in parsed.records {
                let shown = to_python(py, &record).and_then(|r| visit.call1((offset, r)));
                if let Err(error) = shown.and_then(|_| py.check_signals()) {
                    failed = Some(error);
                    return false;
                }
            }
            true
        });
        if let Some(error) = failed {
            return Err(error);
        }
        scanned.map_err(|e| Error::storage("read", path.display().to_string(), e))?;
        damage_list(py, &damaged)
    })
}
