//! Ctrl-C in a command that works in threads of its own: one line says what was reached, and the process ends.

use crate::failure::Failure;
use net::poll::{Polled, poll};
use net::signals::Termination;
use std::os::fd::AsFd;
use std::thread;

/// From now on, SIGINT and SIGTERM end the process with the exit status and the message of what `why` returns.
///
/// The thread that waits for the signal ends with the process. What the command has written by then stays, as if the
/// signal itself had ended the process.
pub fn on_interrupt(why: impl Fn() -> Failure + Send + 'static) -> Result<(), Failure> {
    let signals = Termination::install().map_err(Failure::failed)?;
    thread::spawn(move || {
        while signals.take() == 0 {
            let mut polled = [Polled::new(signals.as_fd(), true, false)];
            // Without the kernel's help, the process has to end by the signals themselves.
            if poll(&mut polled, None).is_err() {
                return;
            }
        }
        let failure = why();
        let _ = failure.report();
        std::process::exit(failure.status().into());
    });
    Ok(())
}
