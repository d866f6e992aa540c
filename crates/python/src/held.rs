//! Open objects that only the process may use that has opened them.
//!
//! A fork copies descriptors, but not the threads that serve them. If the child dropped a stream, the peer would get
//! the end in the name of the parent, and a lock that another thread of the parent held stays locked forever. So the
//! child uses nothing, and drops nothing.

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// An open object, until it is closed.
pub(crate) struct Held<T> {
    process: u32,
    open: Mutex<Option<T>>,
}

impl<T> Held<T> {
    pub(crate) fn new(open: T) -> Held<T> {
        Held {
            process: std::process::id(),
            open: Mutex::new(Some(open)),
        }
    }

    /// Calls `work` with the object, or returns why it cannot be used.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&T) -> PyResult<R>) -> PyResult<R> {
        if !self.is_ours() {
            return Err(PyRuntimeError::new_err(
                "it was opened before a fork, and belongs to the parent: open one in the child",
            ));
        }
        let open = locked(&self.open);
        work(
            open.as_ref()
                .ok_or_else(|| PyValueError::new_err("the socket is closed: open another one"))?,
        )
    }

    /// Closes the object. In the child of a fork it stays open, for the parent.
    pub(crate) fn close(&self) {
        if self.is_ours() {
            locked(&self.open).take();
        }
    }

    fn is_ours(&self) -> bool {
        std::process::id() == self.process
    }
}

impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        if !self.is_ours() {
            let open = self.open.get_mut().unwrap_or_else(PoisonError::into_inner);
            std::mem::forget(open.take());
        }
    }
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
