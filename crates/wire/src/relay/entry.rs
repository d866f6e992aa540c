//! The stream of a transfer: what is copied, entry by entry, in the order of their paths.
//!
//! ```text
//!   Begin  Total(files, bytes, room), if that is known
//!          (attributes, head, content | attributes, Kept, head | attributes, From(offset), Compare, head, content
//!          | Spared(path, why))*  End(entries, digest)          From and Compare only where they are needed
//!   attributes  nothing, or Owner, then each extended attribute in pieces
//!   head     kind 8, mode 32, mtime 64 s + 32 ns, size 64, path (length 16), target (length 16)
//!   content  of a file: pieces (length 32, bytes) and holes (a length with only the highest bit, then
//!            64 bits of how long), ranges that are the same (a length with only the second highest bit, then
//!            64 bits of how long), a length of 0, BLAKE3 of the whole content; or given up (all bits)
//! ```
//! Attributes stand before what is kept, too: a sink compares them with what it has. Kept stands before what
//! every sink has already, and From before a file of which all have that beginning or more. Spared names what is
//! at the source and is not sent, so that no sink takes it for gone. Compare stands before a file of which all
//! sinks have said that they have another under its path: they tell the digests of its pieces, and ranges that
//! are the same come from there. Nothing of this is sent to a sink that has not said so.
//!
//! The digest of End is BLAKE3 of all attributes and heads in their order, each as it stands in the stream,
//! and after the head of a file of the digest of its content, if that came whole. Kept, From, Compare and Spared are not in
//! it, and Total is its beginning. Total was counted before the copy began: what is copied may have changed since.
//!
//! An item of a kind from 64 to 127 is optional: a length of 16 bits, at most [`PATH_BYTES_MAX`], and so many bytes.
//! Who does not know it skips it. It stands where the head of an entry can, or what is said of one, and is not in the
//! digest. Kind 96 stands once, in front of the first entry, and names the versions that the source speaks as an end: the
//! lowest and the highest, 8 bits each.
//!
//! Paths are relative, a parent stands before what is in it, and each is greater than the one
//! before ([`is_after`]): there are no duplicates, and none leads out. The first entry has an empty
//! path and is what was named.

use super::ends::{SPEAKS, read_versions};
use super::{DIGEST_BYTES, is_optional, read_long, read_text, write_long, write_text};
use crate::bytes::{Reader, Writer};
use crate::handshake::VersionRange;
use crate::{Full, Malformed};
use core::cmp::Ordering;

/// The longest path or target of a link: the kernel's own limit.
pub const PATH_BYTES_MAX: usize = 4_095;
/// The longest name of a file: the kernel's own limit.
pub const NAME_BYTES_MAX: usize = 255;
/// The longest head.
pub const HEAD_BYTES_MAX: usize = 1 + 4 + 12 + 8 + 2 * (2 + PATH_BYTES_MAX);
/// The longest piece of content.
pub const PIECE_BYTES_MAX: u32 = 1 << 20;
/// A bit of the mode of a file: it has holes, so it may take less room than it is long.
pub const SPARSE: u32 = 0o10000;
/// In place of the length of a piece: a hole, whose length follows in 64 bits.
pub const HOLE: u32 = 1 << 31;
/// In place of the length of a piece: a range that the sinks have at the same place of the file that they have
/// compared. Its length follows in 64 bits.
pub const SAME: u32 = 1 << 30;
/// In place of the length of a piece: the source could not read on, and there is no such file.
pub const GIVEN_UP: u32 = u32::MAX;
/// The longest reason why something is spared.
pub const REASON_BYTES_MAX: usize = 255;
/// The longest name of a user, a group or an extended attribute.
pub const OWNER_BYTES_MAX: usize = 255;
/// The longest piece of the value of an extended attribute.
pub const VALUE_BYTES_MAX: usize = PATH_BYTES_MAX;
/// In place of the nanoseconds of a time: it is not known.
pub const NO_TIME: u32 = u32::MAX;

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntryKind {
    /// A directory.
    Directory,
    /// A file; its content follows.
    File,
    /// A symbolic link.
    Link,
    /// One more name of a file that came before: the target is its path.
    HardLink,
}

/// The head of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// What it is.
    pub kind: EntryKind,
    /// Its permissions.
    pub mode: u32,
    /// When its content was changed last: seconds since 1970.
    pub mtime_s: i64,
    /// And nanoseconds, or [`NO_TIME`].
    pub mtime_ns: u32,
    /// How long it was when the copy began; 0 if that is not known, and for what is no file.
    pub size: u64,
    /// Where it is, seen from what was named.
    pub path: &'a [u8],
    /// What a link says, or which file a hard link is of.
    pub target: &'a [u8],
}

/// Who owns an entry. Hosts number their users differently, so names count where both know them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner<'a> {
    /// The user's number at the source.
    pub uid: u32,
    /// The group's.
    pub gid: u32,
    /// The user's name there; empty if it has none.
    pub user: &'a str,
    /// The group's.
    pub group: &'a str,
}

/// What all entries are together, those that are kept included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// Files. Another name of one is none.
    pub files: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// What these take at the source, which is less where there are holes.
    pub room: u64,
}

/// A piece of the stream that is not content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// The stream begins.
    Begin,
    /// An entry.
    Entry(Entry<'a>),
    /// All sinks have the next entry: no content follows it.
    Kept,
    /// What all entries will be.
    Total(Total),
    /// All sinks have so many bytes of the next entry: its content goes on behind them.
    From(u64),
    /// All sinks have another file under the path of the next entry: they tell the digests of its pieces.
    Compare,
    /// Who owns the next entry.
    Owner(Owner<'a>),
    /// An extended attribute of the next entry, or a piece of it.
    Attribute {
        /// Its name.
        name: &'a [u8],
        /// Another piece of the value follows.
        goes_on: bool,
        /// The value, or a piece of it.
        value: &'a [u8],
    },
    /// Something is at the source that is not sent.
    Spared {
        /// Where.
        path: &'a [u8],
        /// What is wrong with it; empty if it was not asked for.
        why: &'a str,
    },
    /// Which versions the source speaks with its sinks.
    Speaks(VersionRange),
    /// Of a kind that this code does not know and may do without.
    Unknown {
        /// Its kind: one of those that [`super::OPTIONAL`] marks.
        kind: u8,
        /// What it says.
        value: &'a [u8],
    },
    /// All has been said.
    End {
        /// Entries, those that were kept included.
        entries: u64,
        /// BLAKE3 of the heads of all of them, and of the digests of the contents that were sent.
        digest: [u8; DIGEST_BYTES],
    },
}

/// True for a path that stays below where it begins; the empty one is the beginning itself.
pub fn is_path(path: &[u8]) -> bool {
    let is_name = |name: &[u8]| {
        !name.is_empty()
            && name.len() <= NAME_BYTES_MAX
            && name != b"."
            && name != b".."
            && !name.contains(&0)
    };
    path.len() <= PATH_BYTES_MAX && (path.is_empty() || path.split(|b| *b == b'/').all(is_name))
}

/// True if `later` comes behind `before` in a walk that takes names in order of their bytes and
/// goes into a directory at once.
pub fn is_after(before: &[u8], later: &[u8]) -> bool {
    if before.is_empty() {
        return !later.is_empty();
    }
    let names = |path: &[u8]| -> Ordering {
        let mut ours = before.split(|b| *b == b'/');
        let mut theirs = path.split(|b| *b == b'/');
        loop {
            match (ours.next(), theirs.next()) {
                (None, None) => return Ordering::Equal,
                (None, Some(_)) => return Ordering::Less,
                (Some(_), None) => return Ordering::Greater,
                (Some(a), Some(b)) if a != b => return a.cmp(b),
                _ => {}
            }
        }
    };
    names(later) == Ordering::Less
}

impl<'a> Item<'a> {
    /// Reads one item, and says how many bytes it has. [`Malformed::Short`] when more are needed.
    pub fn read(bytes: &'a [u8]) -> Result<(Item<'a>, usize), Malformed> {
        let mut r = Reader::new(bytes);
        let item = match r.u8()? {
            0 => Item::Begin,
            5 => Item::Kept,
            6 => Item::From(r.u64()?),
            7 => {
                let path = bounded(&mut r)?;
                let why = read_text(&mut r)?;
                if !is_path(path) {
                    return Err(Malformed::Value);
                }
                Item::Spared { path, why }
            }
            12 => Item::Compare,
            kind @ (1..=3 | 8) => Item::Entry(Entry::read(kind, &mut r)?),
            9 => {
                let (uid, gid) = (r.u32()?, r.u32()?);
                // To the kernel this is nobody: "leave it as it is".
                if uid == u32::MAX || gid == u32::MAX {
                    return Err(Malformed::Value);
                }
                Item::Owner(Owner {
                    uid,
                    gid,
                    user: read_text(&mut r)?,
                    group: read_text(&mut r)?,
                })
            }
            10 => {
                let goes_on = match r.u8()? {
                    0 => false,
                    1 => true,
                    _ => return Err(Malformed::Value),
                };
                let name = bounded(&mut r)?;
                let value = bounded(&mut r)?;
                if name.is_empty() || name.len() > OWNER_BYTES_MAX || name.contains(&0) {
                    return Err(Malformed::Value);
                }
                Item::Attribute {
                    name,
                    goes_on,
                    value,
                }
            }
            11 => Item::Total(Total {
                files: r.u64()?,
                bytes: r.u64()?,
                room: r.u64()?,
            }),
            4 => Item::End {
                entries: r.u64()?,
                digest: r.array()?,
            },
            SPEAKS => Item::Speaks(read_versions(&mut Reader::new(bounded(&mut r)?))?),
            kind if is_optional(kind) => Item::Unknown {
                kind,
                value: bounded(&mut r)?,
            },
            _ => return Err(Malformed::Kind),
        };
        Ok((item, bytes.len() - r.rest().len()))
    }

    /// Writes it, and says how many bytes it has.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, Full> {
        let mut w = Writer::new(buffer);
        match self {
            Item::Begin => w.u8(0)?,
            Item::Kept => w.u8(5)?,
            Item::Compare => w.u8(12)?,
            Item::From(offset) => {
                w.u8(6)?;
                w.u64(*offset)?;
            }
            Item::Total(total) => {
                w.u8(11)?;
                w.u64(total.files)?;
                w.u64(total.bytes)?;
                w.u64(total.room)?;
            }
            Item::Spared { path, why } => {
                w.u8(7)?;
                write_long(&mut w, path)?;
                write_text(&mut w, why)?;
            }
            Item::Owner(owner) => {
                w.u8(9)?;
                w.u32(owner.uid)?;
                w.u32(owner.gid)?;
                write_text(&mut w, owner.user)?;
                write_text(&mut w, owner.group)?;
            }
            Item::Attribute {
                name,
                goes_on,
                value,
            } => {
                w.u8(10)?;
                w.u8((*goes_on).into())?;
                write_long(&mut w, name)?;
                write_long(&mut w, value)?;
            }
            Item::Entry(entry) => entry.write(&mut w)?,
            Item::Speaks(versions) => {
                w.u8(SPEAKS)?;
                write_long(&mut w, &[versions.min, versions.max])?;
            }
            Item::Unknown { kind, value } => {
                w.u8(*kind)?;
                write_long(&mut w, value)?;
            }
            Item::End { entries, digest } => {
                w.u8(4)?;
                w.u64(*entries)?;
                w.put(digest)?;
            }
        }
        Ok(w.len())
    }
}

impl<'a> Entry<'a> {
    fn read(kind: u8, r: &mut Reader<'a>) -> Result<Entry<'a>, Malformed> {
        let kind = match kind {
            1 => EntryKind::Directory,
            2 => EntryKind::File,
            3 => EntryKind::Link,
            _ => EntryKind::HardLink,
        };
        let (mode, seconds, mtime_ns, size) = (r.u32()?, r.u64()?, r.u32()?, r.u64()?);
        let path = bounded(r)?;
        let target = bounded(r)?;
        let is_link = matches!(kind, EntryKind::Link | EntryKind::HardLink);
        if mode & !SPARSE > 0o7777
            || (mode & SPARSE != 0 && kind != EntryKind::File)
            || (mtime_ns >= 1_000_000_000 && mtime_ns != NO_TIME)
            || (kind != EntryKind::File && size != 0)
            || is_link == target.is_empty()
            || target.contains(&0)
            || !is_path(path)
            || (kind == EntryKind::HardLink && !(is_path(target) && is_after(target, path)))
        {
            return Err(Malformed::Value);
        }
        Ok(Entry {
            kind,
            mode,
            mtime_s: seconds.cast_signed(),
            mtime_ns,
            size,
            path,
            target,
        })
    }

    fn write(&self, w: &mut Writer<'_>) -> Result<(), Full> {
        w.u8(match self.kind {
            EntryKind::Directory => 1,
            EntryKind::File => 2,
            EntryKind::Link => 3,
            EntryKind::HardLink => 8,
        })?;
        w.u32(self.mode)?;
        w.u64(self.mtime_s.cast_unsigned())?;
        w.u32(self.mtime_ns)?;
        w.u64(self.size)?;
        write_long(w, self.path)?;
        write_long(w, self.target)
    }
}

/// A length that is too long is wrong at once, and not waited for.
fn bounded<'a>(r: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
    let len = r.clone().u16()?;
    if usize::from(len) > PATH_BYTES_MAX {
        return Err(Malformed::Length);
    }
    read_long(r)
}
