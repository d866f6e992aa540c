//! Ctrl-C in a command that works in threads of its own: one line says what was reached, and the process ends.

use crate::failure::Failure;
use net::poll::{Polled, poll};
use net::signals::Termination;
use std::os::fd::AsFd;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// How long the message may take. Choice: it needs a millisecond, unless a thread of the command waits for a reader of
/// its output while it holds what the message needs.
const PATIENCE: Duration = Duration::from_secs(1);

/// From now on, SIGINT and SIGTERM end the process with the exit status of [`Failure::Interrupted`], after the message
/// of what `why` returns.
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
        let (told, done) = channel();
        thread::spawn(move || {
            let _ = why().report();
            // Nobody waits any more if this took too long.
            let _ = told.send(());
        });
        let _ = done.recv_timeout(PATIENCE);
        std::process::exit(Failure::Interrupted(String::new()).status().into());
    });
    Ok(())
}
