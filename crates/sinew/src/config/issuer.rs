//! The settings of an issuer, and of a node's renewal: `[issuer]` and `[renewal]`.

use super::parse::{key, one_or_more};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// A node that certifies others.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Issuer {
    /// The file of the delegation, which says what the node may certify.
    pub delegation: PathBuf,
    /// The directory of its invitations and members.
    pub books: PathBuf,
    /// The TCP addresses at which invited hosts reach the node.
    #[serde(deserialize_with = "one_or_more")]
    pub endpoints: Vec<String>,
    /// The files of the delegations by which the node renews members of other issuers.
    #[serde(default)]
    pub renews: Vec<PathBuf>,
    /// Other issuers that may renew the node's members. The node reports them to its members.
    #[serde(default)]
    pub renewed_by: Vec<OtherIssuer>,
}

impl Issuer {
    /// Returns the directory for members renewed by one of these files. Each delegation has its own, because the
    /// serials of two delegations must not be mixed.
    pub fn books_of(&self, renews: &Path) -> PathBuf {
        self.books.join(renews.file_stem().unwrap_or_default())
    }

    /// Returns the first file whose name occurs twice: two files with the same name would share a directory.
    pub(super) fn doubled(&self) -> Option<&Path> {
        let mut stems = self.renews.iter().enumerate();
        let is_before = |at: usize, file: &PathBuf| {
            let mut before = self.renews[..at].iter();
            before.any(|other| other.file_stem() == file.file_stem())
        };
        let doubled = stems.find(|(at, file)| is_before(*at, file));
        doubled.map(|(_, file)| file.as_path())
    }

    pub(super) fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let one = [&mut self.delegation, &mut self.books];
        one.into_iter().chain(&mut self.renews)
    }
}

/// The issuers from which the node gets its next certificate.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Renewal {
    /// The issuer's endpoints.
    #[serde(deserialize_with = "one_or_more")]
    pub from: Vec<String>,
    /// The issuer's public key.
    #[serde(deserialize_with = "key")]
    pub key: [u8; wire::certificate::KEY_BYTES],
    /// Issuers that may renew the certificate if that one cannot be reached, in order.
    #[serde(default)]
    pub others: Vec<OtherIssuer>,
}

/// Another issuer that may renew the certificate.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OtherIssuer {
    /// The issuer's endpoints.
    #[serde(deserialize_with = "one_or_more")]
    pub from: Vec<String>,
    /// The issuer's public key.
    #[serde(deserialize_with = "key")]
    pub key: [u8; wire::certificate::KEY_BYTES],
}
