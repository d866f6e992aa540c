//! Errors of accepting TCP connections, and which of them a listener outlives.
//!
//! ```text
//!   the connection has gone meanwhile         the next one, please
//!   no descriptor, no memory for it           it waits in the kernel: a moment later
//!   anything else                             the listener is of no use
//! ```

use core::time::Duration;
use std::io::{self, ErrorKind};
use std::thread;

/// From one attempt to the next while there is no descriptor: the connection that waits keeps the
/// listener readable.
const AGAIN: Duration = Duration::from_millis(5);

/// True when the listener goes on after this error. Where descriptors are wanting it returns a
/// moment later: connections that end give theirs back.
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
