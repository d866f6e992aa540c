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

/// What accept(2) says where descriptors or memory are wanting, of the process or of the system.
const ENOMEM: i32 = 12;
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;
const ENOBUFS: i32 = 105;
/// From one attempt to the next while there is no descriptor: the connection that waits keeps the
/// listener readable.
const AGAIN: Duration = Duration::from_millis(5);

/// True when the listener goes on after this error. Where descriptors are wanting it returns a
/// moment later: connections that end give theirs back.
pub(crate) fn outlives(error: &io::Error) -> bool {
    if let Some(ENOMEM | ENFILE | EMFILE | ENOBUFS) = error.raw_os_error() {
        thread::sleep(AGAIN);
        return true;
    }
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::Interrupted
    )
}
