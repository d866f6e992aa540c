//! The attributes of an entry besides content, permissions and time: owner and extended attributes, including ACLs. All
//! are read and set through descriptors, so that no link and no rename redirects them to another file.
//!
//! ```text
//!   source: tell ─▶ Owner, Attribute …          in front of each entry, those that are kept included
//!   sink:   Gathered ─▶ Attributes ─▶ settle                once the entry is there: what differs is changed
//! ```
//! Users and groups are sent by name. If a host does not know the name, the number is used, as in tar and rsync. ACLs
//! name users only by number, so they are copied by number.

use net::beneath::{self, Directory};
use nix::unistd::{Gid, Group, Uid, User};
use relay::Encoder;
use relay::stream::{ATTRIBUTE_COST_BYTES, ATTRIBUTES_BYTES_MAX};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use wire::relay::entry::{EntryKind, OWNER_BYTES_MAX, Owner, VALUE_BYTES_MAX};

/// Number of names that are remembered, in each direction. Choice: more owners than one tree has.
const NAMES_MAX: usize = 4_096;
/// Prefixes of the extended attributes that are copied. Choice: those that programs set, and ACLs. The rest belongs to
/// the system.
const COPIED: [&[u8]; 2] = [b"user.", b"system.posix_acl_"];
/// This attribute gives a program more rights, as set-user-id does.
const CAPABILITY: &[u8] = b"security.capability";

/// Users and groups of this host that were looked up.
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

    /// Returns the number that a name has here, or else the number that it has at the other end.
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
    /// Returns the owner of a file, for the other end.
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

    /// Returns the numbers of user and group at this host.
    fn numbers(&mut self, owner: &Owner<'_>) -> (u32, u32) {
        let user = || Some(User::from_name(owner.user).ok()??.uid.as_raw());
        let group = || Some(Group::from_name(owner.group).ok()??.gid.as_raw());
        (
            self.users.number(owner.user, owner.uid, user),
            self.groups.number(owner.group, owner.gid, group),
        )
    }
}

/// The attributes of one entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Attributes {
    uid: u32,
    gid: u32,
    /// Names and values, sorted by name.
    extended: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Sends the attributes of the file with this name.
pub(super) fn tell(
    (directory, name): (&Directory, &OsStr),
    names: &mut Names,
    encoder: &mut Encoder,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    let thing = directory.thing_at(name)?;
    let extended = read_extended(&thing)?;
    encoder.owner(names.owner(&thing.metadata()?), out);
    for (name, value) in &extended {
        encoder.attribute(name, value, out);
    }
    Ok(())
}

/// Reads the extended attributes in the order of their names.
fn read_extended(thing: &File) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let at = beneath::path_of(thing);
    let list = match xattr::list_deref(&at) {
        // The file system does not support them.
        Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(Vec::new()),
        list => list?,
    };
    let (mut all, mut bytes) = (Vec::new(), 0);
    for name in list.filter(|name| is_copied(name.as_bytes())) {
        // The attribute may have been removed in between.
        let Some(value) = xattr::get_deref(&at, &name)? else {
            continue;
        };
        // The cost as the other end counts it: each piece of a value, with its name.
        let pieces = value.len() / VALUE_BYTES_MAX + 1;
        bytes += pieces * (name.len() + ATTRIBUTE_COST_BYTES) + value.len();
        if bytes > ATTRIBUTES_BYTES_MAX {
            let text = "it has too many extended attributes: copy it without --attributes";
            return Err(io::Error::new(ErrorKind::InvalidData, text));
        }
        all.push((name.into_encoded_bytes(), value));
    }
    all.sort_unstable();
    Ok(all)
}

fn is_copied(name: &[u8]) -> bool {
    name == CAPABILITY || COPIED.iter().any(|begin| name.starts_with(begin))
}

/// The attributes received so far for the next entry.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    names: Names,
    next: Option<Attributes>,
    /// More of the last value follows.
    goes_on: bool,
}

impl Gathered {
    /// Takes the owner of the next entry.
    pub(super) fn on_owner(&mut self, owner: &Owner<'_>) {
        let (uid, gid) = self.names.numbers(owner);
        self.goes_on = false;
        self.next = Some(Attributes {
            uid,
            gid,
            extended: Vec::new(),
        });
    }

    /// Takes a piece of an extended attribute.
    pub(super) fn on_attribute(&mut self, name: &[u8], value: &[u8], goes_on: bool) {
        let Some(next) = &mut self.next else { return };
        match next.extended.last_mut().filter(|_| self.goes_on) {
            Some((_, begun)) => begun.extend_from_slice(value),
            None => next.extended.push((name.to_vec(), value.to_vec())),
        }
        self.goes_on = goes_on;
    }

    /// Returns the attributes, because their entry has arrived.
    pub(super) fn take(&mut self) -> Option<Attributes> {
        self.next.take()
    }
}

impl Attributes {
    /// Sets these attributes and the permissions of an open file. Links have no permissions. Values that are already
    /// right are not touched. A file of another kind is refused.
    pub(super) fn settle(&self, thing: &File, kind: EntryKind, mode: u32) -> io::Result<()> {
        let found = thing.metadata()?;
        let is_told = match kind {
            EntryKind::File | EntryKind::HardLink => found.is_file(),
            EntryKind::Directory => found.is_dir(),
            EntryKind::Link => found.is_symlink(),
        };
        if !is_told {
            let text = "something else is there than the source told";
            return Err(io::Error::new(ErrorKind::InvalidData, text));
        }
        if (found.uid(), found.gid()) != (self.uid, self.gid) {
            let changed = beneath::give(thing, self.uid, self.gid);
            changed.map_err(|error| self.not_owner(error))?;
        }
        // A change of the owner or of the content clears rights, so these are set last.
        self.settle_extended(thing)?;
        let mode = mode & 0o7777;
        match kind == EntryKind::Link || thing.metadata()?.mode() & 0o7777 == mode {
            true => Ok(()),
            false => beneath::permit(thing, mode),
        }
    }

    /// Sets the extended attributes. Attributes that must go are removed first, because there may be no room for both.
    fn settle_extended(&self, thing: &File) -> io::Result<()> {
        let there = read_extended(thing)?;
        if there == self.extended {
            return Ok(());
        }
        let at = beneath::path_of(thing);
        let is_told = |name: &Vec<u8>| self.extended.iter().any(|(told, _)| told == name);
        for (name, _) in there.iter().filter(|(name, _)| !is_told(name)) {
            match xattr::remove_deref(&at, OsStr::from_bytes(name)) {
                Err(error) if error.raw_os_error() != Some(nix::libc::ENODATA) => {
                    return Err(error);
                }
                _ => {}
            }
        }
        for (name, value) in &self.extended {
            // The other end must not send other kinds.
            if is_copied(name) && !there.iter().any(|(n, v)| n == name && v == value) {
                xattr::set_deref(&at, OsStr::from_bytes(name), value)?;
            }
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
