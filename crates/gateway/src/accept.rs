//! Errors of accepting TCP connections, and which of them a listener survives.
//!
//! ```text
//!   the connection has gone meanwhile         the next one, please
//!   no descriptor, no memory for it           it waits in the kernel: a moment later
//!   anything else                             the listener is of no use
//! ```

use core::time::Duration;
use std::io::{self, ErrorKind};
use std::thread;

/// The time between attempts while there is no descriptor: the connection that waits keeps the listener readable.
const AGAIN: Duration = Duration::from_millis(5);

/// Returns true if the listener can go on after this error. If descriptors are missing, it returns a moment later,
/// because connections that end release theirs.
pub(crate) fn outlives(error: &io::Error) -> bool {
    if net::tcp::has_run_out(error) {
        thread::sleep(AGAIN);
        return true;
    }
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::Interrupted
    )
}
