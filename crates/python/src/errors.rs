//! Converts errors of the crates to Python's exceptions, with the same text.
//!
//! An invalid request is a `ValueError`, also if the command line would exit with 2. An error of a node's socket is the
//! same as for a socket of the system: `ConnectionError`, `TimeoutError`, `BlockingIOError`. Everything else is
//! `sinew.Error`.

use cli::failure::Failure;
use pyo3::exceptions::{
    PyBlockingIOError, PyConnectionAbortedError, PyConnectionRefusedError, PyConnectionResetError,
    PyException, PyTimeoutError, PyValueError,
};
use pyo3::{PyErr, create_exception};
use tools::explain::ExplainError;

create_exception!(
    sinew,
    Error,
    PyException,
    "Something that was asked for could not be done; the text says what to do."
);

/// Makes the exception for an invalid request.
pub(crate) fn misused(what: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(what.to_string())
}

/// Makes the exception for a failure.
pub(crate) fn failed(what: impl std::fmt::Display) -> PyErr {
    Error::new_err(what.to_string())
}

/// Converts the error of a question about paths.
pub(crate) fn explain(error: ExplainError) -> PyErr {
    match error {
        ExplainError::Misused(_) => misused(error),
        ExplainError::NoPath(_) | ExplainError::Snapshot(_) => failed(error),
    }
}

/// Converts the failure of a question to a node.
pub(crate) fn control(failure: Failure) -> PyErr {
    match failure {
        Failure::Misused(text) => misused(text),
        Failure::Failed(text) if text.starts_with("no ") => PyConnectionRefusedError::new_err(text),
        // No question to a node takes over Ctrl-C.
        Failure::Failed(text) | Failure::Undelivered(text) | Failure::Interrupted(text) => {
            failed(text)
        }
        Failure::NobodyReads => failed("nobody reads"),
    }
}

/// Converts the error of a socket.
pub(crate) fn socket(error: client::Error) -> PyErr {
    let text = error.to_string();
    match error {
        client::Error::NoNode { .. } | client::Error::NotFound(_) => {
            PyConnectionRefusedError::new_err(text)
        }
        client::Error::Closed => PyConnectionAbortedError::new_err(text),
        client::Error::Reset(_) => PyConnectionResetError::new_err(text),
        client::Error::Timeout { .. } => PyTimeoutError::new_err(text),
        client::Error::WouldBlock => PyBlockingIOError::new_err(text),
        client::Error::TooLong { .. } => PyValueError::new_err(text),
        client::Error::Io(error) => PyErr::from(error),
        client::Error::Gate { .. } | client::Error::Discover(_) => {
            PyConnectionRefusedError::new_err(text)
        }
        client::Error::Refused { .. } | client::Error::Protocol(_) | client::Error::Descriptors => {
            failed(text)
        }
    }
}
