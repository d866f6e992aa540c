//! Why the demonstration failed.

use std::io;
use std::path::PathBuf;

/// Why the demonstration failed. By then, everything that it had started has ended.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// An option is invalid; the command was misused.
    #[error("{0}")]
    Option(String),
    /// The speech cannot be read or used.
    #[error("{path}: {why}", path = path.display())]
    Speech {
        /// The file.
        path: PathBuf,
        /// The problem, and what to do.
        why: String,
    },
    /// A result cannot be written.
    #[error("cannot write {path}: {error}; choose another folder with --out DIR", path = path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// The kernel's error.
        error: io::Error,
    },
    /// The nodes could not be set up.
    #[error("cannot start the nodes: {0}")]
    Start(String),
    /// A node ended, or never came up.
    #[error("{what}{log}")]
    Node {
        /// The event.
        what: String,
        /// The end of its log, on separate lines.
        log: String,
    },
    /// A client of a node failed.
    #[error("the overlay's client failed: {0}")]
    Client(#[from] client::Error),
    /// An operation failed in the kernel.
    #[error("the demo failed: {0}")]
    Io(#[from] io::Error),
    /// Ctrl-C, or the system requested the end.
    #[error("interrupted: everything that was started has ended")]
    Interrupted,
}
