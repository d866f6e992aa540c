//! Why a command failed, and the exit status for it.

use std::fmt::Display;
use std::io;
use std::process::ExitCode;

/// The reason why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// Something went wrong: exit status 1.
    Failed(String),
    /// The command line or a configuration is invalid: exit status 2.
    Misused(String),
    /// The network's directory has the change, but the named running node does not: exit status 3.
    Undelivered(String),
    /// The user has stopped the command, which could continue: exit status 130, as shells report Ctrl-C.
    Interrupted(String),
    /// The reader of our output has gone. This is no error and needs no message.
    NobodyReads,
}

/// What commands return.
pub type Outcome = Result<(), Failure>;

impl Failure {
    /// Makes a failure with exit status 1.
    pub fn failed(what: impl Display) -> Failure {
        Failure::Failed(what.to_string())
    }

    /// Makes a failure with exit status 2.
    pub fn misused(what: impl Display) -> Failure {
        Failure::Misused(what.to_string())
    }

    /// Returns the message; empty if there is no reader.
    pub fn text(&self) -> &str {
        match self {
            Failure::Failed(text)
            | Failure::Misused(text)
            | Failure::Undelivered(text)
            | Failure::Interrupted(text) => text,
            Failure::NobodyReads => "",
        }
    }

    /// Converts a failure that does not go away by trying again: exit status 2.
    pub fn for_good(self) -> Failure {
        match self {
            Failure::Failed(text) => Failure::Misused(text),
            other => other,
        }
    }

    /// Returns the exit status.
    pub fn status(&self) -> u8 {
        match self {
            Failure::Failed(_) => 1,
            Failure::Misused(_) => 2,
            Failure::Undelivered(_) => 3,
            Failure::Interrupted(_) => 130,
            Failure::NobodyReads => 0,
        }
    }

    /// Writes the message to standard error, and returns the exit status.
    pub fn report(&self) -> ExitCode {
        if !matches!(self, Failure::NobodyReads) {
            let line = format!("sinew: {}\n", self.text());
            // If standard error is closed, there is no place for this error.
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
