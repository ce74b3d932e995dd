//! The Python extension `mt_context._core`: converts, calls the core, converts back. No decisions here.

use pyo3::prelude::*;

/// `mt_context._core`
#[pymodule]
pub mod _core {}
