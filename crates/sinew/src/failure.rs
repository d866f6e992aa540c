//! Why a command did not do what it was asked, and the exit status that tells so.

use std::fmt::Display;
use std::io;
use std::process::ExitCode;

/// The outcome of a command that was not done.
#[derive(Debug)]
pub enum Failure {
    /// Something went wrong: exit status 1.
    Failed(String),
    /// The command line or a configuration asks for what cannot be: exit status 2.
    Misused(String),
    /// The network's directory has it, and the running node that was named has not: exit status 3.
    Undelivered(String),
    /// Whoever reads our output has gone: nothing to say, and nothing wrong.
    NobodyReads,
}

/// What commands return.
pub type Outcome = Result<(), Failure>;

impl Failure {
    /// Exit status 1.
    pub fn failed(what: impl Display) -> Failure {
        Failure::Failed(what.to_string())
    }

    /// Exit status 2.
    pub fn misused(what: impl Display) -> Failure {
        Failure::Misused(what.to_string())
    }

    /// What is to be said; nothing if nobody reads it.
    pub fn text(&self) -> &str {
        match self {
            Failure::Failed(text) | Failure::Misused(text) | Failure::Undelivered(text) => text,
            Failure::NobodyReads => "",
        }
    }

    /// The same, for what cannot be mended by trying again: exit status 2.
    pub fn for_good(self) -> Failure {
        match self {
            Failure::Failed(text) => Failure::Misused(text),
            other => other,
        }
    }

    /// The exit status that tells of it.
    pub fn status(&self) -> u8 {
        match self {
            Failure::Failed(_) => 1,
            Failure::Misused(_) => 2,
            Failure::Undelivered(_) => 3,
            Failure::NobodyReads => 0,
        }
    }

    /// Says what is to be said on standard error, and gives the exit status.
    pub fn report(&self) -> ExitCode {
        if !matches!(self, Failure::NobodyReads) {
            let line = format!("sinew: {}\n", self.text());
            // Nobody can be told that standard error is gone.
            let _ = io::Write::write_all(&mut io::stderr(), line.as_bytes());
        }
        ExitCode::from(self.status())
    }
}

impl From<crate::identity::FileError> for Failure {
    fn from(error: crate::identity::FileError) -> Failure {
        Failure::failed(error)
    }
}

impl From<client::Error> for Failure {
    fn from(error: client::Error) -> Failure {
        Failure::failed(error)
    }
}
