//! The files of a node's identity: keys, certificate, network, revocations.

use host::files::write_whole;
use secure::{Certificate, Identity, Keys, Network, Revocations};
use std::fmt::Display;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Why a file could not be read, parsed or written.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// Reading failed.
    #[error("cannot read {path}: {error}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the kernel.
        error: std::io::Error,
    },
    /// Writing failed.
    #[error("cannot write {path}: {error}")]
    Write {
        /// The file.
        path: PathBuf,
        /// The error of the kernel.
        error: std::io::Error,
    },
    /// The file holds a secret, and everybody on this machine can read or change it.
    #[error(
        "{path} holds a secret and is open to everybody on this machine (mode {mode:04o}): run \
         `chmod 600 {path}`; if others use this machine, make a new key"
    )]
    Open {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// The content is invalid.
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

/// Reads and parses a file with a secret. Fails if users other than its owner and group can open the file.
pub fn read_secret_as<T, E: Display>(
    path: &Path,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, FileError> {
    let fail = |error| FileError::Read {
        path: path.to_owned(),
        error,
    };
    let mode = fs::metadata(path).map_err(fail)?.permissions().mode() & 0o777;
    if mode & 0o007 != 0 {
        return Err(FileError::Open {
            path: path.to_owned(),
            mode,
        });
    }
    read_as(path, parse)
}

/// Writes a file that everybody may read, atomically.
pub fn write(path: &Path, text: &str) -> Result<(), FileError> {
    write_mode(path, text, 0o644)
}

/// Writes a file that only its owner may read, atomically.
pub fn write_secret(path: &Path, text: &str) -> Result<(), FileError> {
    write_mode(path, text, 0o600)
}

fn write_mode(path: &Path, text: &str, mode: u32) -> Result<(), FileError> {
    write_whole(path, text, mode).map_err(|error| FileError::Write {
        path: path.to_owned(),
        error,
    })
}

/// Reads the identity from a key file and a certificate file.
pub fn identity(key: &Path, certificate: &Path) -> Result<Identity, FileError> {
    let keys = read_secret_as(key, Keys::from_text)?;
    let certified = read_as(certificate, Certificate::from_text)?;
    Identity::new(keys, certified).map_err(|error| FileError::Content {
        path: certificate.to_owned(),
        what: error.to_string(),
    })
}

/// Reads the network, with the revocations of a file if there is one. If the node's own certificate proves a newer root
/// key than the file has, the network includes that key.
pub fn network(
    root: &Path,
    revocations: Option<&Path>,
    own: Option<&Certificate>,
) -> Result<Network, FileError> {
    let mut network = read_as(root, Network::from_text)?;
    if let Some(own) = own {
        network.learn(own);
    }
    if let Some(path) = revocations.filter(|path| path.exists()) {
        let list = read_as(path, Revocations::from_text)?;
        network.restore(&list).map_err(|error| FileError::Content {
            path: path.to_owned(),
            what: format!(
                "{error}, copy this file, too, or delete it: other nodes tell this one the list again"
            ),
        })?;
    }
    Ok(network)
}
