//! The wait of a gateway's process, while threads do its work.

use crate::failure::{Failure, Outcome};
use net::epoll::{Interest, Poller};
use net::signals::Termination;
use std::os::fd::AsFd;

const TOKEN_STOP: u64 = 0;
const TOKEN_OVER: u64 = 1;

/// Waits for Ctrl-C, and calls `status` at the requested interval.
pub(super) struct Wait {
    poller: Poller,
    termination: Termination,
}

impl Wait {
    /// Takes over Ctrl-C and SIGTERM: from now on they do not end the process.
    pub(super) fn new() -> Result<Wait, Failure> {
        let poller = Poller::new().map_err(Failure::failed)?;
        let termination = Termination::install().map_err(Failure::failed)?;
        poller
            .add(&termination, TOKEN_STOP, Interest::READ)
            .map_err(Failure::failed)?;
        Ok(Wait {
            poller,
            termination,
        })
    }

    /// Waits for Ctrl-C. It is a failure if the gateway ends before, which makes `over` readable: a supervisor restarts
    /// a process that has ended, but not one that does nothing.
    pub(super) fn run(
        mut self,
        every: Option<base::Duration>,
        over: impl AsFd,
        status: impl FnMut() -> Outcome,
    ) -> Outcome {
        let is_asked = || self.termination.take() > 0;
        wait(&mut self.poller, is_asked, every, over, status)
    }
}

fn wait(
    poller: &mut Poller,
    is_asked: impl Fn() -> bool,
    every: Option<base::Duration>,
    over: impl AsFd,
    mut status: impl FnMut() -> Outcome,
) -> Outcome {
    poller
        .add(over, TOKEN_OVER, Interest::READ)
        .map_err(Failure::failed)?;
    let mut ready = Vec::new();
    loop {
        poller.wait(every, &mut ready).map_err(Failure::failed)?;
        if is_asked() {
            return Ok(());
        }
        if ready.iter().any(|ready| ready.token == TOKEN_OVER) {
            return Err(stopped());
        }
        if every.is_some() && ready.is_empty() {
            status()?;
        }
    }
}

/// Returns the failure of a process whose gateway has ended without being asked to.
pub(super) fn stopped() -> Failure {
    Failure::failed("the gateway has stopped by itself; a line above says why: start it again")
}

#[cfg(test)]
mod tests {
    use super::*;
    use net::epoll::Waker;

    #[test]
    fn a_gateway_that_ends_is_a_failure_of_its_process() {
        let (mut poller, over) = (Poller::new().unwrap(), Waker::new().unwrap());
        let every = Some(base::Duration::from_millis(1));
        let mut asked = 0;
        let ended = wait(
            &mut poller,
            || false,
            every,
            &over,
            || {
                asked += 1;
                over.wake();
                Ok(())
            },
        );
        assert!(matches!(ended, Err(Failure::Failed(_))), "{ended:?}");
        assert_eq!(asked, 1);
    }
}
