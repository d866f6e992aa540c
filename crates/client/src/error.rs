//! Why a call failed.

use core::time::Duration;
use std::io;
use std::path::PathBuf;
use wire::ipc::{ErrorCode, ResetReason};

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No node answers at the socket file.
    #[error("no node at {path}: {error}; start one with `sinew node --config FILE`")]
    NoNode {
        /// The socket file.
        path: PathBuf,
        /// The error that the kernel returned.
        error: io::Error,
    },
    /// No node is named, and none or several were found.
    #[error("{0}")]
    NotFound(String),
    /// The node is on another host, and its gate cannot be reached, or refuses the client.
    #[error("the node's gate at {endpoint}: {error}")]
    Gate {
        /// The endpoint of the gate.
        endpoint: String,
        /// The reason.
        error: crate::remote::ChannelError,
    },
    /// The node has to be found by a domain, and was not found.
    #[error(transparent)]
    Discover(crate::discover::Error),
    /// The node refused a request.
    #[error("the node refused: {text}")]
    Refused {
        /// The reason as a code, for programs.
        code: ErrorCode,
        /// The reason as text, for people.
        text: String,
    },
    /// The node exists but does not answer, or accepts nothing more.
    #[error(
        "the node at {path} has not answered for {} s: it hangs, or is overloaded; see its log",
        after.as_secs_f64()
    )]
    Timeout {
        /// The socket file.
        path: PathBuf,
        /// How long the call waited.
        after: Duration,
    },
    /// The node has gone away.
    #[error("the node has closed the connection: it was stopped, or restarted")]
    Closed,
    /// The stream has ended prematurely, or was never opened.
    #[error("{0}")]
    Reset(ResetReason),
    /// The node sent something that this library does not understand.
    #[error("the node does not speak this library's protocol ({0}): use matching versions")]
    Protocol(&'static str),
    /// The datagram is too long for the network.
    #[error("the datagram has {len} bytes and the network carries {max}: send less at once")]
    TooLong {
        /// Its length.
        len: usize,
        /// The longest permitted length.
        max: usize,
    },
    /// An incoming stream was lost because there was no descriptor for it. Its peer sees a reset.
    #[error("a stream was lost: this process has too many open files (`ulimit -n`)")]
    Descriptors,
    /// The socket is non-blocking, and nothing can be done now.
    #[error("nothing to do now: wait until the descriptor is ready")]
    WouldBlock,
    /// The system call failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Error {
    /// Converts an error of the node's socket.
    pub(crate) fn of(error: io::Error) -> Error {
        match error.kind() {
            io::ErrorKind::WouldBlock => Error::WouldBlock,
            io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::NotConnected => Error::Closed,
            _ => Error::Io(error),
        }
    }
}
