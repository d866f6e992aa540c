//! Files that make a node: keys, certificate, network, revocations.

use host::files::write_whole;
use secure::{Certificate, Identity, Keys, Network, Revocations};
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

/// Why a file could not be read, understood or written.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// Reading failed.
    #[error("cannot read {path}: {error}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        error: std::io::Error,
    },
    /// Writing failed.
    #[error("cannot write {path}: {error}")]
    Write {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        error: std::io::Error,
    },
    /// It is not what it should be.
    #[error("{path}: {what}")]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what to do.
        what: String,
    },
}

/// Reads a file of text.
pub fn read(path: &Path) -> Result<String, FileError> {
    fs::read_to_string(path).map_err(|error| FileError::Read {
        path: path.to_owned(),
        error,
    })
}

/// Reads and parses a file.
pub fn read_as<T, E: Display>(
    path: &Path,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, FileError> {
    parse(&read(path)?).map_err(|error| FileError::Content {
        path: path.to_owned(),
        what: error.to_string(),
    })
}

/// Writes a file for everybody to read, whole or not at all.
pub fn write(path: &Path, text: &str) -> Result<(), FileError> {
    write_mode(path, text, 0o644)
}

/// Writes a file for its owner alone, whole or not at all.
pub fn write_secret(path: &Path, text: &str) -> Result<(), FileError> {
    write_mode(path, text, 0o600)
}

fn write_mode(path: &Path, text: &str, mode: u32) -> Result<(), FileError> {
    write_whole(path, text, mode).map_err(|error| FileError::Write {
        path: path.to_owned(),
        error,
    })
}

/// The identity out of a key file and a certificate file.
pub fn identity(key: &Path, certificate: &Path) -> Result<Identity, FileError> {
    let keys = read_as(key, Keys::from_text)?;
    let certified = read_as(certificate, Certificate::from_text)?;
    Identity::new(keys, certified).map_err(|error| FileError::Content {
        path: certificate.to_owned(),
        what: error.to_string(),
    })
}

/// The network, with the revocations of a file if there is one.
pub fn network(root: &Path, revocations: Option<&Path>) -> Result<Network, FileError> {
    let mut network = read_as(root, Network::from_text)?;
    if let Some(path) = revocations.filter(|path| path.exists()) {
        let list = read_as(path, Revocations::from_text)?;
        network.apply(&list).map_err(|error| FileError::Content {
            path: path.to_owned(),
            what: error.to_string(),
        })?;
    }
    Ok(network)
}
