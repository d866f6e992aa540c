//! Ctrl-C and the system's request to end, noticed while waiting.

use base::Duration;
use net::epoll::{Interest, Poller};
use net::signals::Termination;
use std::cell::{Cell, RefCell};
use std::io;

/// Whether it was asked to end. While it lives, SIGINT and SIGTERM do nothing else.
pub(crate) struct Interrupt {
    poller: RefCell<Poller>,
    termination: Termination,
    came: Cell<bool>,
}

impl Interrupt {
    pub(crate) fn install() -> io::Result<Interrupt> {
        let (poller, termination) = (Poller::new()?, Termination::install()?);
        poller.add(&termination, 0, Interest::READ)?;
        Ok(Interrupt {
            poller: RefCell::new(poller),
            termination,
            came: Cell::new(false),
        })
    }

    /// For a poller that also waits for other things.
    pub(crate) fn watch(&self, poller: &Poller, token: u64) -> io::Result<()> {
        poller.add(&self.termination, token, Interest::READ)
    }

    /// True once it was asked to end.
    pub(crate) fn came(&self) -> bool {
        self.came
            .set(self.came.get() || self.termination.take() > 0);
        self.came.get()
    }

    /// Sleeps, but not when it was asked to end; whether it was.
    pub(crate) fn wait(&self, span: Duration) -> io::Result<bool> {
        self.poller.borrow_mut().wait(Some(span), &mut Vec::new())?;
        Ok(self.came())
    }
}
