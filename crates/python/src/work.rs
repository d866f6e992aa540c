//! Long work on a thread of its own, which the calling thread watches.
//!
//! ```text
//!   Python ──▶ supervise ──spawn──▶ work(&Reins)        computes, asks the reins whether to go on
//!                 │  every 50 ms, GIL released between
//!                 ├─ signals: Ctrl-C becomes KeyboardInterrupt
//!                 └─ progress(share): a callback that raises ends the work
//! ```
//! Whatever ends the work, it has stopped when the call returns: nothing keeps running.

use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// The time between two checks of signals. A user does not notice it.
const LOOK: Duration = Duration::from_millis(50);

/// The state that the watching thread and the working one share.
#[derive(Default)]
pub(crate) struct Reins {
    stop: AtomicBool,
    /// The bits of a share from 0 to 1.
    share: AtomicU64,
    over: Mutex<bool>,
    ended: Condvar,
}

impl Reins {
    /// Reports the progress of the work. Returns false if the work must end now.
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

    /// Waits a short time for the end of the work. Returns whether it has ended.
    fn wait(&self) -> bool {
        let over = self.over();
        let waited = self.ended.wait_timeout_while(over, LOOK, |over| !*over);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Marks the work as ended when it is dropped, also after a panic.
struct End<'r>(&'r Reins);

impl Drop for End<'_> {
    fn drop(&mut self) {
        *self.0.over() = true;
        self.0.ended.notify_all();
    }
}

/// Runs `work` and returns its result, or the exception that ended it. `interrupt` is called once when the work must
/// end.
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
