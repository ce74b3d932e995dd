//! Core errors as Python exceptions, and the guard that lets no panic reach the agent.

use crate::error::Error;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

pyo3::import_exception!(mt_context.exceptions, InternalError);
pyo3::import_exception!(mt_context.exceptions, IrreducibleContextError);
pyo3::import_exception!(mt_context.exceptions, SessionLockedError);
pyo3::import_exception!(mt_context.exceptions, StorageError);

impl From<Error> for PyErr {
    fn from(error: Error) -> Self {
        let message = error.to_string();
        match error {
            Error::InvalidArgument { .. } | Error::UnknownEncoding { .. } => {
                PyValueError::new_err(message)
            }
            Error::IrreducibleContext { .. } => IrreducibleContextError::new_err(message),
            Error::Storage { source, .. } => {
                StorageError::new_err((source.raw_os_error().unwrap_or(5), message))
            }
            Error::Poisoned { .. } => StorageError::new_err((5, message)),
            Error::SessionLocked { .. } | Error::Forked { .. } => {
                SessionLockedError::new_err(message)
            }
            Error::Internal(_) => InternalError::new_err(message),
        }
    }
}

/// Runs an entry point; a panic becomes an `InternalError`, which the agent's `except Exception` catches.
pub fn guard<R>(f: impl FnOnce() -> PyResult<R>) -> PyResult<R> {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|panic| {
        // A formatted payload may quote the text that was being worked on; only literals are safe to repeat.
        let what = panic
            .downcast_ref::<&'static str>()
            .copied()
            .unwrap_or("a panic in the core");
        Err(Error::Internal(what.to_owned()).into())
    })
}
