//! Who certifies others, and where a node gets its own next certificate.

use super::parse::{key, one_or_more};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// A node that certifies others.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Issuer {
    /// The file of what it may certify.
    pub delegation: PathBuf,
    /// The directory of its invitations and members.
    pub books: PathBuf,
    /// Where hosts that were invited reach it, by TCP.
    #[serde(deserialize_with = "one_or_more")]
    pub endpoints: Vec<String>,
    /// The files of the delegations by which it renews members of other issuers.
    #[serde(default)]
    pub renews: Vec<PathBuf>,
    /// Other issuers that may renew its members, of which it tells them.
    #[serde(default)]
    pub renewed_by: Vec<OtherIssuer>,
}

impl Issuer {
    /// The directory of those whom it has renewed by one of these files: serials of two delegations are not in one book.
    pub fn books_of(&self, renews: &Path) -> PathBuf {
        self.books.join(renews.file_stem().unwrap_or_default())
    }

    /// Two files of one name would share their books.
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

/// Where the next certificate is to be had.
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
    /// Its endpoints.
    #[serde(deserialize_with = "one_or_more")]
    pub from: Vec<String>,
    /// Its public key.
    #[serde(deserialize_with = "key")]
    pub key: [u8; wire::certificate::KEY_BYTES],
}
