//! The threads of a gateway, and the news that one of them has ended, for a process that has nothing else to do.
//!
//! ```text
//!   thread of the gateway ── ends, also by a panic ──▶ Alive is dropped ──▶ Over is readable
//! ```

use net::epoll::Waker;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::thread::{Builder, JoinHandle};

/// Readable once a thread of the gateway has ended.
#[derive(Clone, Debug)]
pub struct Over(Waker);

/// Held by a thread while it runs.
struct Alive(Waker);

impl Over {
    pub(crate) fn new() -> io::Result<Over> {
        Waker::new().map(Over)
    }

    /// Starts a thread of the gateway.
    pub(crate) fn spawn(
        &self,
        name: &str,
        run: impl FnOnce() + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        let alive = Alive(self.0.clone());
        Builder::new().name(name.to_owned()).spawn(move || {
            let _alive = alive;
            run();
        })
    }
}

impl AsFd for Over {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.wake();
    }
}
