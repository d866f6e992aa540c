//! What an entry has besides content, permissions and time: owner and extended attributes, ACLs among them.
//! Everything is read from and given to descriptors, so that no link and no rename leads to another file.
//!
//! ```text
//!   source: tell ─▶ Owner, Attribute …          in front of each entry, those that are kept included
//!   sink:   Gathered ─▶ Attributes ─▶ settle                once the entry is there: what differs is changed
//! ```
//! Users and groups go by their names where both hosts know them, and by their numbers elsewhere, as with tar
//! and rsync. ACLs name users by number alone, so they go by number.

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

/// Names that are remembered, in each direction. Choice: more owners than one tree has.
const NAMES_MAX: usize = 4_096;
/// Extended attributes that are copied begin so. Choice: what programs set, and ACLs; the rest is the
/// system's own business.
const COPIED: [&[u8]; 2] = [b"user.", b"system.posix_acl_"];
/// This one lets a program do more, as set-user-id does.
const CAPABILITY: &[u8] = b"security.capability";

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

/// Tells what the thing with this name has.
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

/// In the order of their names.
fn read_extended(thing: &File) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let at = beneath::path_of(thing);
    let list = match xattr::list_deref(&at) {
        // The file system has none.
        Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(Vec::new()),
        list => list?,
    };
    let (mut all, mut bytes) = (Vec::new(), 0);
    for name in list.filter(|name| is_copied(name.as_bytes())) {
        // It may have gone in between.
        let Some(value) = xattr::get_deref(&at, &name)? else {
            continue;
        };
        // As the other end counts them: each piece of a value, with its name.
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
    /// Gives what is open these, and permissions, but to links, which have none. What is right is not
    /// touched; what is not of this kind is refused.
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
        // Whom a file belongs to, and what is written to it, takes rights away, so these come last.
        self.settle_extended(thing)?;
        let mode = mode & 0o7777;
        match kind == EntryKind::Link || thing.metadata()?.mode() & 0o7777 == mode {
            true => Ok(()),
            false => beneath::permit(thing, mode),
        }
    }

    /// First what goes: there may be no room for both.
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
            // Of another kind the other end has no business to tell.
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
