//! Why the demonstration failed.

use std::io;
use std::path::PathBuf;

/// Why the demonstration failed. What it had started has ended by then.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// An option that cannot be; the command was misused.
    #[error("{0}")]
    Option(String),
    /// The speech cannot be read or used.
    #[error("{path}: {why}", path = path.display())]
    Speech {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what to do.
        why: String,
    },
    /// A result cannot be written.
    #[error("cannot write {path}: {error}; choose another folder with --out DIR", path = path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// What the kernel said.
        error: io::Error,
    },
    /// The nodes could not be set up.
    #[error("cannot start the nodes: {0}")]
    Start(String),
    /// A node ended, or never came up.
    #[error("{what}{log}")]
    Node {
        /// What happened.
        what: String,
        /// The end of its log, on lines of its own.
        log: String,
    },
    /// A client of a node failed.
    #[error("the overlay's client failed: {0}")]
    Client(#[from] client::Error),
    /// The kernel refused something.
    #[error("the demo failed: {0}")]
    Io(#[from] io::Error),
    /// Ctrl-C, or the system asked to end.
    #[error("interrupted: everything that was started has ended")]
    Interrupted,
}
