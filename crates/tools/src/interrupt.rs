//! Detects Ctrl-C and the system's request to end, also while the process waits.

use base::Duration;
use net::epoll::{Interest, Poller};
use net::signals::Termination;
use std::cell::{Cell, RefCell};
use std::io;

/// Records whether the process was asked to end. While this value lives, SIGINT and SIGTERM do
/// nothing else.
pub struct Interrupt {
    poller: RefCell<Poller>,
    /// `None` if another part of this process watches the signals.
    termination: Option<Termination>,
    came: Cell<bool>,
}

impl Interrupt {
    /// Takes SIGINT and SIGTERM over.
    pub fn install() -> io::Result<Interrupt> {
        let (poller, termination) = (Poller::new()?, Termination::install()?);
        poller.add(&termination, 0, Interest::READ)?;
        Ok(Interrupt {
            poller: RefCell::new(poller),
            termination: Some(termination),
            came: Cell::new(false),
        })
    }

    /// An interrupt that never comes: another part of this process has the signals, and ends it.
    pub fn elsewhere() -> io::Result<Interrupt> {
        Ok(Interrupt {
            poller: RefCell::new(Poller::new()?),
            termination: None,
            came: Cell::new(false),
        })
    }

    /// Adds the signals to a poller that also waits for other things.
    pub fn watch(&self, poller: &Poller, token: u64) -> io::Result<()> {
        match &self.termination {
            Some(termination) => poller.add(termination, token, Interest::READ),
            None => Ok(()),
        }
    }

    /// Returns true once the process was asked to end.
    pub fn came(&self) -> bool {
        let termination = self.termination.as_ref();
        let comes = termination.is_some_and(|termination| termination.take() > 0);
        self.came.set(self.came.get() || comes);
        self.came.get()
    }

    /// Sleeps for `span`, or until the process is asked to end. Returns whether it was asked to
    /// end.
    pub fn wait(&self, span: Duration) -> io::Result<bool> {
        self.poller.borrow_mut().wait(Some(span), &mut Vec::new())?;
        Ok(self.came())
    }
}
