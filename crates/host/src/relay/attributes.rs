//! What an entry has besides content, permissions and time: owner and extended attributes, ACLs among them.
//!
//! ```text
//!   source: Attributes::read ─▶ Owner, Attribute …          in front of each entry, those that are kept included
//!   sink:   Gathered ─▶ Attributes ─▶ settle                once the entry is there: what differs is changed
//! ```
//! Users and groups go by their names where both hosts know them, and by their numbers elsewhere, as with tar
//! and rsync. ACLs name users by number alone, so they go by number.

use net::beneath::Directory;
use nix::unistd::{Gid, Group, Uid, User};
use relay::Encoder;
use relay::stream::ATTRIBUTES_BYTES_MAX;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{Metadata, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown};
use std::path::{Path, PathBuf};
use wire::relay::entry::{OWNER_BYTES_MAX, Owner};

/// Names that are remembered, in each direction. Choice: more owners than one tree has.
const NAMES_MAX: usize = 4_096;
/// Extended attributes that are copied begin so. Choice: what programs set, ACLs, and what lets programs do
/// more; the rest is the system's own business.
const COPIED: [&[u8]; 3] = [b"user.", b"system.posix_acl_", b"security.capability"];

/// Users and groups of this host that have been looked up.
#[derive(Debug, Default)]
pub(super) struct Names {
    users: Known,
    groups: Known,
}

#[derive(Debug, Default)]
struct Known {
    names: HashMap<u32, String>,
    numbers: HashMap<String, Option<u32>>,
}

impl Known {
    fn name(&mut self, number: u32, look: impl FnOnce() -> Option<String>) -> &str {
        if self.names.len() >= NAMES_MAX {
            self.names.clear();
        }
        let fits = |name: &String| name.len() <= OWNER_BYTES_MAX;
        self.names
            .entry(number)
            .or_insert_with(|| look().filter(fits).unwrap_or_default())
    }

    /// The number that a name has here, else the one that it has there.
    fn number(&mut self, name: &str, there: u32, look: impl FnOnce() -> Option<u32>) -> u32 {
        if name.is_empty() {
            return there;
        }
        if self.numbers.len() >= NAMES_MAX {
            self.numbers.clear();
        }
        let known = self.numbers.entry(name.to_owned()).or_insert_with(look);
        known.unwrap_or(there)
    }
}

impl Names {
    /// Who owns something, for the other end.
    fn owner(&mut self, metadata: &Metadata) -> Owner<'_> {
        let (uid, gid) = (metadata.uid(), metadata.gid());
        let user = || Some(User::from_uid(Uid::from_raw(uid)).ok()??.name);
        let group = || Some(Group::from_gid(Gid::from_raw(gid)).ok()??.name);
        Owner {
            uid,
            gid,
            user: self.users.name(uid, user),
            group: self.groups.name(gid, group),
        }
    }

    /// User and group here.
    fn numbers(&mut self, owner: &Owner<'_>) -> (u32, u32) {
        let user = || Some(User::from_name(owner.user).ok()??.uid.as_raw());
        let group = || Some(Group::from_name(owner.group).ok()??.gid.as_raw());
        (
            self.users.number(owner.user, owner.uid, user),
            self.groups.number(owner.group, owner.gid, group),
        )
    }
}

/// What one entry has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Attributes {
    uid: u32,
    gid: u32,
    /// By name.
    extended: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Where something is, by a path that nobody can lead astray.
pub(super) fn seat(directory: &Directory, name: &OsStr) -> PathBuf {
    directory.path().join(name)
}

/// Tells what the thing with this name has.
pub(super) fn tell(
    (directory, name): (&Directory, &OsStr),
    names: &mut Names,
    encoder: &mut Encoder,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    let extended = read_extended(&seat(directory, name))?;
    let metadata = directory.look_at(name)?;
    encoder.owner(names.owner(&metadata), out);
    for (name, value) in &extended {
        encoder.attribute(name, value, out);
    }
    Ok(())
}

/// In the order of their names.
fn read_extended(at: &Path) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let list = match xattr::list(at) {
        // The file system has none.
        Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(Vec::new()),
        list => list?,
    };
    let (mut all, mut bytes) = (Vec::new(), 0);
    for name in list.filter(|name| is_copied(name.as_bytes())) {
        // It may have gone in between.
        let Some(value) = xattr::get(at, &name)? else {
            continue;
        };
        bytes += name.len() + value.len();
        if bytes > ATTRIBUTES_BYTES_MAX / 2 {
            let text =
                "its extended attributes are longer than 128 KiB: copy it without --attributes";
            return Err(io::Error::new(ErrorKind::InvalidData, text));
        }
        all.push((name.into_encoded_bytes(), value));
    }
    all.sort_unstable();
    Ok(all)
}

fn is_copied(name: &[u8]) -> bool {
    COPIED.iter().any(|begin| name.starts_with(begin))
}

/// What was said of the next entry so far.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    names: Names,
    next: Option<Attributes>,
    /// A value of which more follows.
    goes_on: bool,
}

impl Gathered {
    /// Who owns it.
    pub(super) fn on_owner(&mut self, owner: &Owner<'_>) {
        let (uid, gid) = self.names.numbers(owner);
        self.goes_on = false;
        self.next = Some(Attributes {
            uid,
            gid,
            extended: Vec::new(),
        });
    }

    /// A piece of an extended attribute.
    pub(super) fn on_attribute(&mut self, name: &[u8], value: &[u8], goes_on: bool) {
        let Some(next) = &mut self.next else { return };
        match next.extended.last_mut().filter(|_| self.goes_on) {
            Some((_, begun)) => begun.extend_from_slice(value),
            None => next.extended.push((name.to_vec(), value.to_vec())),
        }
        self.goes_on = goes_on;
    }

    /// It comes.
    pub(super) fn take(&mut self) -> Option<Attributes> {
        self.next.take()
    }
}

impl Attributes {
    /// Gives what is at `at` these, and permissions, if it has any of its own. What is right is not
    /// touched.
    pub(super) fn settle(&self, at: &Path, mode: Option<u32>) -> io::Result<()> {
        let found = at.symlink_metadata()?;
        if (found.uid(), found.gid()) != (self.uid, self.gid) {
            let changed = lchown(at, Some(self.uid), Some(self.gid));
            changed.map_err(|error| self.not_owner(error))?;
        }
        // Whom a file belongs to, and what is written to it, takes rights away, so these come last.
        self.settle_extended(at)?;
        let Some(mode) = mode else { return Ok(()) };
        match at.symlink_metadata()?.mode() & 0o7777 == mode {
            true => Ok(()),
            false => std::fs::set_permissions(at, Permissions::from_mode(mode)),
        }
    }

    fn settle_extended(&self, at: &Path) -> io::Result<()> {
        let there = read_extended(at)?;
        if there == self.extended {
            return Ok(());
        }
        for (name, value) in &self.extended {
            // Of another kind the other end has no business to tell.
            if is_copied(name) && !there.iter().any(|(n, v)| n == name && v == value) {
                xattr::set(at, OsStr::from_bytes(name), value)?;
            }
        }
        let is_told = |name: &Vec<u8>| self.extended.iter().any(|(told, _)| told == name);
        for (name, _) in there.iter().filter(|(name, _)| !is_told(name)) {
            xattr::remove(at, OsString::from(OsStr::from_bytes(name)))?;
        }
        Ok(())
    }

    fn not_owner(&self, error: io::Error) -> io::Error {
        if error.kind() != ErrorKind::PermissionDenied {
            return error;
        }
        let text = format!(
            "it may not be given to user {} and group {}: run the other end as root or with CAP_CHOWN, \
             or leave out --attributes",
            self.uid, self.gid
        );
        io::Error::new(ErrorKind::PermissionDenied, text)
    }
}
