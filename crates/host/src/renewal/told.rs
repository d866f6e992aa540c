//! Other issuers that a node was told about. Its own issuer names them with each certificate. The node keeps them in a
//! file beside the certificate, to ask them when its own issuer is unreachable.
//!
//! The node only asks them. It checks the certificates that they give like every other certificate.

use crate::admission::is_endpoint;
use crate::files::write_whole;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use wire::certificate::KEY_BYTES;
use wire::relay::join::{ISSUERS_MAX, OtherIssuer};

/// Eight issuers with eight endpoints of 255 bytes each take less.
const BYTES_MAX: u64 = 32 << 10;

/// An issuer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// Its TCP endpoints.
    #[serde(rename = "from")]
    pub endpoints: Vec<String>,
    /// Its signing key.
    #[serde(with = "crate::admission::as_hex")]
    pub key: [u8; KEY_BYTES],
}

impl Place {
    /// Takes an issuer from a message. Strings that are no endpoints are left out.
    pub(crate) fn of(told: OtherIssuer<'_>) -> Place {
        let endpoints = told.endpoints.iter().filter(|text| is_endpoint(text));
        Place {
            endpoints: endpoints.map(str::to_owned).collect(),
            key: told.key,
        }
    }
}

/// Returns the path of the file beside a certificate's file.
fn beside(certificate: &Path) -> PathBuf {
    certificate.with_file_name("issuers.json")
}

/// Stores the issuers that came with a certificate. An empty list changes nothing.
///
/// # Errors
/// Returns an error if the file cannot be written.
pub fn write(certificate: &Path, told: &[Place]) -> io::Result<()> {
    if told.is_empty() || read(certificate) == told {
        return Ok(());
    }
    let text = serde_json::to_string_pretty(told).expect("it has text only");
    write_whole(&beside(certificate), &text, 0o644)
}

/// Removes the issuers that came with earlier certificates, because the node has another issuer from now on.
///
/// # Errors
/// Returns an error if the file cannot be removed.
pub fn forget(certificate: &Path) -> io::Result<()> {
    match std::fs::remove_file(beside(certificate)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Reads the stored issuers. A damaged file counts as empty, because the next certificate rewrites it.
pub fn read(certificate: &Path) -> Vec<Place> {
    let path = beside(certificate);
    if std::fs::metadata(&path).is_ok_and(|found| found.len() > BYTES_MAX) {
        return Vec::new();
    }
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let mut told: Vec<Place> = serde_json::from_str(&text).unwrap_or_default();
    told.truncate(ISSUERS_MAX);
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::test_directory;

    fn place(n: u8) -> Place {
        Place {
            endpoints: vec![format!("issuer-{n}:7700")],
            key: [n; KEY_BYTES],
        }
    }

    #[test]
    fn what_was_told_is_kept_until_something_else_is_told() {
        let dir = test_directory("renewal-told");
        let certificate = dir.join("node.cert");
        assert!(read(&certificate).is_empty());
        let told = [place(1), place(2)];
        write(&certificate, &told).unwrap();
        assert_eq!(read(&certificate), told);
        write(&certificate, &[]).unwrap();
        assert_eq!(read(&certificate), told);
        write(&certificate, &[place(3)]).unwrap();
        assert_eq!(read(&certificate), [place(3)]);
        forget(&certificate).unwrap();
        forget(&certificate).unwrap();
        assert!(read(&certificate).is_empty());
        write(&certificate, &[place(3)]).unwrap();
        let good = std::fs::read_to_string(dir.join("issuers.json")).unwrap();
        let long = " ".repeat(BYTES_MAX as usize) + &good;
        for bad in ["", "{}", "[{}]", &long] {
            std::fs::write(dir.join("issuers.json"), bad).unwrap();
            assert!(read(&certificate).is_empty());
        }
        std::fs::remove_dir_all(dir).unwrap();
    }
}
