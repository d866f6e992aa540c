//! The end of a process: data that was written to sockets is carried before it ends.

use core::time::Duration;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

/// The number of running pumps, and the condition for waiting until they end.
static RUNNING: Mutex<usize> = Mutex::new(0);
static ENDED: Condvar = Condvar::new();
/// Both ends of a connection that is shut down when the process is about to end.
static SIGNAL: OnceLock<Option<(UnixStream, UnixStream)>> = OnceLock::new();

/// Waits until everything that was written to sockets of nodes on other hosts is on its way, up to `timeout`. The
/// sockets cannot be used afterwards. It is for the end of a process: threads carry what is written, and a process does
/// not wait for threads.
pub fn settle(timeout: Duration) {
    let end = Instant::now() + timeout;
    let mut running = running();
    if *running == 0 {
        return;
    }
    if let Some(Some((ours, _))) = SIGNAL.get() {
        let _ = ours.shutdown(std::net::Shutdown::Both);
    }
    while *running > 0 {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        let waited = ENDED.wait_timeout(running, left);
        running = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// Counts as one running pump, until it is dropped.
#[derive(Debug)]
pub(super) struct Running(());

impl Running {
    pub(super) fn enter() -> Running {
        *running() += 1;
        Running(())
    }

    /// Returns a descriptor that becomes readable, and hung up, when the process is about to end.
    pub(super) fn signal(&self) -> Option<BorrowedFd<'static>> {
        let pair = SIGNAL.get_or_init(|| UnixStream::pair().ok());
        pair.as_ref().map(|(_, theirs)| theirs.as_fd())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        *running() -= 1;
        ENDED.notify_all();
    }
}

fn running() -> MutexGuard<'static, usize> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}
