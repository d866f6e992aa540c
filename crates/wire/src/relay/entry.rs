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
//! Attributes come before kept entries, too: a sink compares them with its own. Kept comes before an entry that every
//! sink already has, and From before a file of which all sinks have that beginning or more. Spared names what exists at
//! the source and is not sent, so that no sink believes that it is gone. Compare comes before a file of which all sinks
//! have another one under its path: they send the digests of its pieces, and equal ranges are taken from there. None of
//! these items is sent to a sink that has not reported such a state.
//!
//! The digest of End is BLAKE3 of all attributes and heads in their order, each in its stream format, and after the
//! head of a file, of the digest of its content if the content arrived completely. Kept, From, Compare and Spared are
//! not included, and Total is the beginning. Total was counted before the copy began; the files may have changed since
//! then.
//!
//! An item of a kind from 64 to 127 is optional: a length of 16 bits, at most [`PATH_BYTES_MAX`], and that many bytes.
//! A node that does not know it skips it. It may appear where the head of an entry can, or the attributes of one, and
//! is not in the digest. Kind 96 appears once, before the first entry, and announces the versions that the source
//! supports as an end: the lowest and the highest, 8 bits each.
//!
//! Paths are relative, a parent comes before its content, and each path is greater than the one before ([`is_after`]).
//! So there are no duplicates, and no path leads out of the copied tree. The first entry has an empty path and is the
//! item that the user named.

use super::ends::{SPEAKS, read_versions};
use super::{DIGEST_BYTES, is_optional, read_long, read_text, write_long, write_text};
use crate::bytes::{Reader, Writer};
use crate::handshake::VersionRange;
use crate::{Full, Malformed};
use core::cmp::Ordering;

/// The maximum length of a path or of the target of a link: the kernel's own limit.
pub const PATH_BYTES_MAX: usize = 4_095;
/// The maximum length of a file name: the kernel's own limit.
pub const NAME_BYTES_MAX: usize = 255;
/// The maximum length of a head.
pub const HEAD_BYTES_MAX: usize = 1 + 4 + 12 + 8 + 2 * (2 + PATH_BYTES_MAX);
/// The maximum length of a piece of content.
pub const PIECE_BYTES_MAX: u32 = 1 << 20;
/// A bit of the mode of a file: it has holes, so it may need less room than its length.
pub const SPARSE: u32 = 0o10000;
/// A value in place of the length of a piece: a hole, whose length follows in 64 bits.
pub const HOLE: u32 = 1 << 31;
/// A value in place of the length of a piece: a range that the sinks have at the same position of the file that they
/// have compared. Its length follows in 64 bits.
pub const SAME: u32 = 1 << 30;
/// A value in place of the length of a piece: the source could not read on, and the file is dropped.
pub const GIVEN_UP: u32 = u32::MAX;
/// The maximum length of the reason why an entry is spared.
pub const REASON_BYTES_MAX: usize = 255;
/// The maximum length of the name of a user, a group or an extended attribute.
pub const OWNER_BYTES_MAX: usize = 255;
/// The maximum length of a piece of the value of an extended attribute.
pub const VALUE_BYTES_MAX: usize = PATH_BYTES_MAX;
/// A value in place of the nanoseconds of a time: the time is not known.
pub const NO_TIME: u32 = u32::MAX;

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntryKind {
    /// A directory.
    Directory,
    /// A file; its content follows.
    File,
    /// A symbolic link.
    Link,
    /// Another name of an earlier file: the target is that file's path.
    HardLink,
}

/// The head of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The kind.
    pub kind: EntryKind,
    /// The permissions.
    pub mode: u32,
    /// When the content was last changed: seconds since 1970.
    pub mtime_s: i64,
    /// The nanoseconds of that time, or [`NO_TIME`].
    pub mtime_ns: u32,
    /// The length when the copy began; 0 if it is not known, and for entries that are not files.
    pub size: u64,
    /// The path, relative to the item that the user named.
    pub path: &'a [u8],
    /// The target of a symbolic link, or the path of the file of a hard link.
    pub target: &'a [u8],
}

/// The owner of an entry. Hosts number their users differently, so names take precedence if both hosts know them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner<'a> {
    /// The user's number at the source.
    pub uid: u32,
    /// The group's number at the source.
    pub gid: u32,
    /// The user's name at the source; empty if it has none.
    pub user: &'a str,
    /// The group's name at the source; empty if it has none.
    pub group: &'a str,
}

/// The totals of all entries, including kept ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// Number of files. Further names of a file do not count.
    pub files: u64,
    /// Number of bytes in the files.
    pub bytes: u64,
    /// The disk space that the files use at the source, which is less if there are holes.
    pub room: u64,
}

/// A piece of the stream that is not content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// The beginning of the stream.
    Begin,
    /// An entry.
    Entry(Entry<'a>),
    /// All sinks have the next entry, so no content follows it.
    Kept,
    /// The totals of all entries.
    Total(Total),
    /// All sinks have this number of bytes of the next entry; its content continues after them.
    From(u64),
    /// All sinks have another file under the path of the next entry, and send the digests of its pieces.
    Compare,
    /// The owner of the next entry.
    Owner(Owner<'a>),
    /// An extended attribute of the next entry, or a piece of it.
    Attribute {
        /// Its name.
        name: &'a [u8],
        /// True if another piece of the value follows.
        goes_on: bool,
        /// The value, or a piece of it.
        value: &'a [u8],
    },
    /// An entry that exists at the source and is not sent.
    Spared {
        /// The path of the entry.
        path: &'a [u8],
        /// The reason; empty if the user excluded the entry.
        why: &'a str,
    },
    /// The versions that the source supports with its sinks.
    Speaks(VersionRange),
    /// An item of an unknown, optional kind.
    Unknown {
        /// The kind: one of those that [`super::OPTIONAL`] marks.
        kind: u8,
        /// The content.
        value: &'a [u8],
    },
    /// The end of the stream.
    End {
        /// Number of entries, including kept ones.
        entries: u64,
        /// BLAKE3 of the heads of all entries, and of the digests of the contents that were sent.
        digest: [u8; DIGEST_BYTES],
    },
}

/// Returns true for a path that stays below its beginning; the empty path is the beginning itself.
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

/// Returns true if `later` comes after `before` in a walk that takes names in the order of their bytes and enters a
/// directory at once.
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
    /// Reads one item. Returns the item and its length, or [`Malformed::Short`] if more bytes are needed.
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
                // To the kernel, this number means "leave it as it is".
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

    /// Writes the item. Returns its length.
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

/// Reads bytes with their length. A length that is too long is an error at once, even if the bytes have not arrived.
fn bounded<'a>(r: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
    let len = r.clone().u16()?;
    if usize::from(len) > PATH_BYTES_MAX {
        return Err(Malformed::Length);
    }
    read_long(r)
}
