//! The issuer's books: a directory with a file for each invitation, and one with the members.

use crate::files::write_whole;
use base::NodeAddr;
use secure::Certificate;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use wire::certificate::{GroupRange, KEY_BYTES};
use wire::relay::join::SECRET_BYTES;

/// The directory of the invitations, beside the file of the members.
const INVITATIONS: &str = "invitations";
const MEMBERS: &str = "members.json";
/// Number of invitations that a directory may hold. Choice: more than anybody has open at a time.
const INVITATIONS_MAX: usize = 1_024;
/// Size limit of an invitation's file, which has some hundred bytes.
const INVITATION_BYTES_MAX: u64 = 16 << 10;
/// An expired member keeps its address for this time, because it may come back with a new token.
const KEPT_AFTER_S: u64 = 30 * 86_400;

/// An invitation as it is stored: without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Invitation {
    /// How many hosts may join by it.
    pub uses: u32,
    /// The last second in which hosts may join by it.
    pub expires_s: u64,
    /// The name that the host gets; if there is none, the host chooses one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The domains that it may serve.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub domains: Vec<String>,
    /// The groups that it may set.
    #[serde(default, with = "as_texts", skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupRange>,
    /// The words by which rules name it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

/// A node that was admitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its overlay address.
    #[serde(with = "as_text")]
    pub address: NodeAddr,
    /// Its signing key.
    #[serde(with = "as_hex")]
    pub key: [u8; KEY_BYTES],
    /// Its key for handshakes.
    #[serde(with = "as_hex")]
    pub static_key: [u8; KEY_BYTES],
    /// The domains that it may serve.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub domains: Vec<String>,
    /// The groups that it may set. A member from before there were such rights could set all groups, and keeps that
    /// right.
    #[serde(default = "all_groups", with = "as_texts")]
    pub groups: Vec<GroupRange>,
    /// The words by which rules name it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Its endpoints for other nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub endpoints: Vec<String>,
    /// The hash of the invitation by which it joined; empty if another issuer has admitted it.
    pub invitation: String,
    /// The serial of its present certificate.
    pub serial: u32,
    /// The last second of that certificate.
    pub not_after_s: u64,
    /// The certificate itself.
    pub certificate: String,
    /// Its earlier certificates, and those by other issuers, that have not expired. They are valid unless they are
    /// revoked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<String>,
}

impl Member {
    /// Returns all of its valid certificates, the present one first.
    pub fn certificates(&self) -> Vec<String> {
        let present = std::iter::once(&self.certificate).filter(|text| !text.is_empty());
        present.chain(&self.earlier).cloned().collect()
    }

    /// Returns the last second of the certificate that expires last.
    pub(super) fn ends_s(&self) -> u64 {
        let earlier = self.earlier.iter().filter_map(|text| ends_s(text));
        earlier.fold(self.not_after_s, u64::max)
    }

    /// Forgets earlier certificates that have expired, because they need not be revoked.
    pub(super) fn forget_ended(&mut self, now_s: u64) {
        self.earlier
            .retain(|text| ends_s(text).is_some_and(|ends_s| ends_s >= now_s));
    }

    /// Returns the first second of its present certificate.
    pub(super) fn not_before_s(&self) -> u64 {
        let certificate = Certificate::from_text(&self.certificate);
        certificate.map_or(0, |certificate| certificate.fields().not_before_s)
    }
}

/// Returns the last second of a certificate.
fn ends_s(text: &str) -> Option<u64> {
    let certificate = Certificate::from_text(text).ok()?;
    Some(certificate.fields().not_after_s)
}

/// Why the books cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {error}")]
pub struct BooksError {
    /// The file.
    pub path: PathBuf,
    /// The error.
    pub error: io::Error,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Members {
    next_serial: u32,
    members: Vec<Member>,
    /// How many hosts have joined by each invitation, by its hash. The count stays when members leave.
    #[serde(default)]
    uses: BTreeMap<String, u32>,
}

/// The books of one issuer.
#[derive(Debug)]
pub struct Books {
    dir: PathBuf,
    members: Members,
}

impl Books {
    /// Opens the books in a directory, or creates them: the first certificate gets `first_serial`.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or is damaged.
    pub fn open(dir: &Path, first_serial: u32) -> Result<Books, BooksError> {
        let path = dir.join(MEMBERS);
        let mut members = match fs::read_to_string(&path) {
            Ok(text) => parse::<Members>(&path, &text)?,
            Err(error) if error.kind() == ErrorKind::NotFound => Members {
                next_serial: first_serial,
                members: Vec::new(),
                uses: BTreeMap::new(),
            },
            Err(error) => return Err(BooksError { path, error }),
        };
        if let Some(bad) = members
            .members
            .iter()
            .find(|member| Certificate::from_text(&member.certificate).is_err())
        {
            let error = io::Error::other(format!("the certificate of {} is damaged", bad.name));
            return Err(BooksError { path, error });
        }
        // The serials of a new delegation begin behind those of the old one.
        members.next_serial = members.next_serial.max(first_serial);
        Ok(Books {
            dir: dir.to_owned(),
            members,
        })
    }

    /// Returns the admitted nodes, in the order of admission.
    pub fn members(&self) -> &[Member] {
        &self.members.members
    }

    /// Returns the serial of the next certificate.
    pub fn next_serial(&self) -> u32 {
        self.members.next_serial
    }

    /// Returns how many hosts have joined by an invitation.
    pub fn uses(&self, invitation: &str) -> u32 {
        self.members.uses.get(invitation).copied().unwrap_or(0)
    }

    /// Returns an invitation, given its hash.
    pub fn invitation(&self, hash: &str) -> Result<Option<Invitation>, BooksError> {
        read_invitation(&invitation_path(&self.dir, hash))
    }

    /// Enters a member, or its new certificate. The file is written first.
    pub fn enter(&mut self, member: Member) -> Result<(), BooksError> {
        let mut members = self.members.members.clone();
        let mut uses = self.members.uses.clone();
        let known = members
            .iter_mut()
            .find(|known| known.address == member.address);
        let is_renewed = known
            .as_ref()
            .is_some_and(|known| known.invitation == member.invitation);
        if !is_renewed {
            *uses.entry(member.invitation.clone()).or_default() += 1;
        }
        match known {
            Some(known) => *known = member.clone(),
            None => members.push(member.clone()),
        }
        // If an invitation no longer exists, its count is no longer needed.
        uses.retain(|hash, _| invitation_path(&self.dir, hash).exists());
        let fresh = Members {
            next_serial: member.serial.saturating_add(1),
            members,
            uses,
        };
        self.write(fresh)
    }

    /// Replaces the entry of a member. The file is written first. This issues no certificate.
    pub fn correct(&mut self, member: Member) -> Result<(), BooksError> {
        let mut members = self.members.members.clone();
        let known = members.iter_mut().find(|it| it.address == member.address);
        if let Some(known) = known {
            *known = member;
        }
        self.write(Members {
            next_serial: self.members.next_serial,
            members,
            uses: self.members.uses.clone(),
        })
    }

    fn write(&mut self, fresh: Members) -> Result<(), BooksError> {
        let path = self.dir.join(MEMBERS);
        let text = serde_json::to_string_pretty(&fresh).expect("it has text and numbers only");
        make_dir(&self.dir)?;
        write_whole(&path, &text, 0o600).map_err(|error| BooksError { path, error })?;
        self.members = fresh;
        Ok(())
    }

    /// Forgets members whose certificates expired long ago.
    pub fn forget_expired(&mut self, now_s: u64) {
        self.members
            .members
            .retain(|member| member.ends_s().saturating_add(KEPT_AFTER_S) >= now_s);
    }

    /// Writes an invitation into a directory, and removes expired ones.
    ///
    /// # Errors
    /// Returns an error if a file cannot be written, or if there are too many invitations.
    pub fn invite(
        dir: &Path,
        secret: &[u8; SECRET_BYTES],
        invitation: &Invitation,
        now_s: u64,
    ) -> Result<(), BooksError> {
        let all = dir.join(INVITATIONS);
        make_dir(&all)?;
        for made in [dir, &all] {
            // The superuser may invite on behalf of another user, who must not redirect the files by a link.
            if !fs::symlink_metadata(made).is_ok_and(|found| found.is_dir()) {
                let error = io::Error::other("it is a link, not a directory");
                return Err(BooksError {
                    path: made.to_owned(),
                    error,
                });
            }
        }
        let mut open = 0;
        for (path, other) in Books::invitations(dir)? {
            match other.expires_s < now_s {
                // Another command may have removed it already.
                true => drop(fs::remove_file(path)),
                false => open += 1,
            }
        }
        if open >= INVITATIONS_MAX {
            return Err(BooksError {
                path: all,
                error: io::Error::other("too many invitations are open: withdraw some"),
            });
        }
        let path = invitation_path(dir, &hash_of(secret));
        let text = serde_json::to_string_pretty(invitation).expect("it has text and numbers only");
        let written = write_whole(&path, &text, 0o600);
        // The superuser invites for a node that runs as another user.
        let owned = written.and_then(|()| {
            let node = dir.parent().unwrap_or(dir);
            [dir, &all, &path]
                .iter()
                .try_for_each(|made| give_to_owner_of(node, made))
        });
        owned.map_err(|error| BooksError { path, error })
    }

    /// Returns all invitations of a directory, with their files.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or is damaged.
    pub fn invitations(dir: &Path) -> Result<Vec<(PathBuf, Invitation)>, BooksError> {
        let all = dir.join(INVITATIONS);
        let entries = match fs::read_dir(&all) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|error| BooksError { path: all, error })?,
        };
        let mut found = Vec::new();
        for entry in entries.flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|end| end == "json")
                && let Some(invitation) = read_invitation(&path)?
            {
                found.push((path, invitation));
            }
        }
        Ok(found)
    }
}

/// Returns the name of an invitation's file. The secret cannot be derived from it.
pub fn hash_of(secret: &[u8; SECRET_BYTES]) -> String {
    blake3::derive_key("sinew invitation 1", secret)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn invitation_path(dir: &Path, hash: &str) -> PathBuf {
    dir.join(INVITATIONS).join(hash).with_extension("json")
}

fn read_invitation(path: &Path) -> Result<Option<Invitation>, BooksError> {
    let fail = |error| BooksError {
        path: path.to_owned(),
        error,
    };
    match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Ok(found) if found.len() > INVITATION_BYTES_MAX => {
            return Err(fail(io::Error::other("not an invitation")));
        }
        Err(error) => return Err(fail(error)),
        Ok(_) => {}
    }
    let text = fs::read_to_string(path).map_err(fail)?;
    parse(path, &text).map(Some)
}

fn parse<T: for<'de> Deserialize<'de>>(path: &Path, text: &str) -> Result<T, BooksError> {
    serde_json::from_str(text).map_err(|error| BooksError {
        path: path.to_owned(),
        error: io::Error::new(ErrorKind::InvalidData, error),
    })
}

fn make_dir(dir: &Path) -> Result<(), BooksError> {
    let made = fs::DirBuilder::new()
        .mode(0o700)
        .recursive(true)
        .create(dir);
    made.map_err(|error| BooksError {
        path: dir.to_owned(),
        error,
    })
}

fn give_to_owner_of(model: &Path, made: &Path) -> io::Result<()> {
    let (model, own) = (fs::metadata(model)?, fs::symlink_metadata(made)?);
    match (model.uid(), model.gid()) == (own.uid(), own.gid()) {
        true => Ok(()),
        false => std::os::unix::fs::lchown(made, Some(model.uid()), Some(model.gid())),
    }
}

mod as_text {
    use base::NodeAddr;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(value: &NodeAddr, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(value)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<NodeAddr, D::Error> {
        let text = String::deserialize(d)?;
        text.parse()
            .map_err(|error| D::Error::custom(format!("`{text}`: {error}")))
    }
}

pub(crate) mod as_hex {
    use super::KEY_BYTES;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(crate) fn serialize<S: Serializer>(
        value: &[u8; KEY_BYTES],
        s: S,
    ) -> Result<S::Ok, S::Error> {
        let hex: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
        s.serialize_str(&hex)
    }

    pub(crate) fn deserialize<'de, D>(d: D) -> Result<[u8; KEY_BYTES], D::Error>
    where
        D: Deserializer<'de>,
    {
        let text = String::deserialize(d)?;
        let wrong = || D::Error::custom(format!("`{text}`: not a key of 64 hexadecimal digits"));
        if text.len() != 2 * KEY_BYTES || !text.is_ascii() {
            return Err(wrong());
        }
        let mut key = [0; KEY_BYTES];
        for (at, byte) in key.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).map_err(|_| wrong())?;
        }
        Ok(key)
    }
}

fn all_groups() -> Vec<GroupRange> {
    vec![GroupRange::ALL]
}

/// Serializes ranges of groups in their text form.
mod as_texts {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use wire::certificate::GroupRange;

    pub(super) fn serialize<S: Serializer>(all: &[GroupRange], s: S) -> Result<S::Ok, S::Error> {
        s.collect_seq(all.iter().map(ToString::to_string))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        d: D,
    ) -> Result<Vec<GroupRange>, D::Error> {
        let texts = Vec::<String>::deserialize(d)?;
        let ranges = texts.iter().map(|text| text.parse());
        ranges.collect::<Result<_, _>>().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_from_before_there_were_rights_keeps_all_groups_and_one_without_rights_stays_so() {
        let before = format!(
            r#"{{"name":"home","address":"10.7.0.128","key":"{0}","static_key":"{0}","invitation":"a",
            "serial":5,"not_after_s":9,"certificate":""}}"#,
            "07".repeat(32)
        );
        let mut member: Member = serde_json::from_str(&before).unwrap();
        assert_eq!(member.groups, [GroupRange::ALL]);
        member.groups = Vec::new();
        let written = serde_json::to_string(&member).unwrap();
        assert_eq!(serde_json::from_str::<Member>(&written).unwrap(), member);
    }
}
