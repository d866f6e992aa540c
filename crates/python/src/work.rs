//! Long work beside Python: on a thread of its own, watched by the one that called.
//!
//! ```text
//!   Python ──▶ supervise ──spawn──▶ work(&Reins)        computes, asks the reins whether to go on
//!                 │  every 50 ms, GIL released between
//!                 ├─ signals: Ctrl-C becomes KeyboardInterrupt
//!                 └─ progress(share): a callback that raises ends the work
//! ```
//! Whatever ends it, the work has stopped when the call returns: nothing is left running.

use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// From one look at signals to the next: a person does not notice it.
const LOOK: Duration = Duration::from_millis(50);

/// What the watching thread and the working one share.
#[derive(Default)]
pub(crate) struct Reins {
    stop: AtomicBool,
    /// The bits of a share from 0 to 1.
    share: AtomicU64,
    over: Mutex<bool>,
    ended: Condvar,
}

impl Reins {
    /// Tells how far the work has come; false if it is to end now.
    pub(crate) fn go_on(&self, share: f64) -> bool {
        self.share.store(share.to_bits(), Ordering::Relaxed);
        !self.stop.load(Ordering::Relaxed)
    }

    fn share(&self) -> f64 {
        f64::from_bits(self.share.load(Ordering::Relaxed))
    }

    fn over(&self) -> MutexGuard<'_, bool> {
        self.over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the end of the work, but not for long; whether it has come.
    fn wait(&self) -> bool {
        let over = self.over();
        let waited = self.ended.wait_timeout_while(over, LOOK, |over| !*over);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Says that the work is over, also when it panics.
struct End<'r>(&'r Reins);

impl Drop for End<'_> {
    fn drop(&mut self) {
        *self.0.over() = true;
        self.0.ended.notify_all();
    }
}

/// Does `work` and gives its result, or the exception that ended it; `interrupt` is called once when it is to end.
pub(crate) fn supervise<T: Send>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    interrupt: impl Fn(Python<'_>),
    work: impl FnOnce(&Reins) -> T + Send,
) -> PyResult<T> {
    let reins = Reins::default();
    let shared = &reins;
    let mut ended_by = None;
    let done = thread::scope(|scope| {
        let worker = scope.spawn(move || {
            let _end = End(shared);
            work(shared)
        });
        while !py.detach(|| shared.wait()) {
            if ended_by.is_some() {
                continue;
            }
            let told = py.check_signals().and_then(|()| match progress {
                Some(progress) => progress.call1((shared.share(),)).map(drop),
                None => Ok(()),
            });
            if let Err(error) = told {
                shared.stop.store(true, Ordering::Relaxed);
                interrupt(py);
                ended_by = Some(error);
            }
        }
        worker.join()
    });
    match (ended_by, done) {
        (Some(error), _) => Err(error),
        (None, Ok(done)) => {
            if let Some(progress) = progress {
                progress.call1((1.0,))?;
            }
            Ok(done)
        }
        (None, Err(panic)) => std::panic::resume_unwind(panic),
    }
}
