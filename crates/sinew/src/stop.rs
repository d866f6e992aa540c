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

/// What a wait for two descriptors has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The first one is readable.
    First = 1,
    /// The second one is readable.
    Second = 2,
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
        let asked = || self.termination.take() > 0;
        let fds = [(fd.as_fd(), Which::First)];
        Ok(wait(&mut self.poller, asked, &fds)?.is_some())
    }

    /// Waits until one of the two is readable; the second counts if both are. Returns `None` if the process is asked to
    /// end.
    pub fn wait_for_either(
        &mut self,
        first: impl AsFd,
        second: impl AsFd,
    ) -> Result<Option<Which>, Failure> {
        let asked = || self.termination.take() > 0;
        let fds = [
            (first.as_fd(), Which::First),
            (second.as_fd(), Which::Second),
        ];
        wait(&mut self.poller, asked, &fds)
    }
}

fn wait(
    poller: &mut Poller,
    is_asked: impl Fn() -> bool,
    fds: &[(BorrowedFd<'_>, Which)],
) -> Result<Option<Which>, Failure> {
    for (fd, which) in fds {
        let added = poller.add(fd, *which as u64, Interest::READ);
        added.map_err(Failure::failed)?;
    }
    let mut ready = Vec::new();
    let woken = loop {
        if let Err(error) = poller.wait(None, &mut ready) {
            break Err(Failure::failed(error));
        }
        if is_asked() {
            break Ok(None);
        }
        let is_ready = |which: &Which| ready.iter().any(|ready| ready.token == *which as u64);
        if let Some(which) = fds.iter().map(|(_, which)| *which).rev().find(is_ready) {
            break Ok(Some(which));
        }
    };
    for (fd, _) in fds {
        poller.remove(fd).map_err(Failure::failed)?;
    }
    woken
}

#[cfg(test)]
mod tests {
    use super::*;
    use net::epoll::Waker;

    #[test]
    fn the_second_descriptor_counts_first() {
        let mut poller = Poller::new().unwrap();
        let [work, over] = [(), ()].map(|()| Waker::new().unwrap());
        let fds = [(work.as_fd(), Which::First), (over.as_fd(), Which::Second)];
        let mut woken = |asked: bool| wait(&mut poller, || asked, &fds).unwrap();
        work.wake();
        assert_eq!(woken(false), Some(Which::First));
        over.wake();
        assert_eq!(woken(false), Some(Which::Second));
        assert_eq!(woken(true), None);
    }
}
