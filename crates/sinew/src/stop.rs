//! Handles Ctrl-C and SIGTERM while a command waits for something else.

use crate::failure::Failure;
use net::epoll::{Interest, Poller};
use net::signals::Termination;
use std::os::fd::{AsFd, BorrowedFd};

/// Watches Ctrl-C and SIGTERM besides other events.
pub struct Stop {
    poller: Poller,
    termination: Termination,
}

impl Stop {
    /// Takes over Ctrl-C and SIGTERM: from now on they end waits and not the process.
    pub fn new() -> Result<Stop, Failure> {
        let (poller, termination) = (
            Poller::new().map_err(Failure::failed)?,
            Termination::install().map_err(Failure::failed)?,
        );
        poller
            .add(&termination, 0, Interest::READ)
            .map_err(Failure::failed)?;
        Ok(Stop {
            poller,
            termination,
        })
    }

    /// Waits until `fd` is readable. Returns false if the process is asked to end.
    pub fn wait_for(&mut self, fd: impl AsFd) -> Result<bool, Failure> {
        let fd: BorrowedFd<'_> = fd.as_fd();
        self.poller
            .add(fd, 1, Interest::READ)
            .map_err(Failure::failed)?;
        let mut ready = Vec::new();
        let mut waited = Ok(());
        let mut going = true;
        while waited.is_ok() && going && !ready.iter().any(|r: &net::epoll::Ready| r.token == 1) {
            waited = self.poller.wait(None, &mut ready);
            going = self.termination.take() == 0;
        }
        self.poller.remove(fd).map_err(Failure::failed)?;
        waited.map_err(Failure::failed)?;
        Ok(going)
    }
}
