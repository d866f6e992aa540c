//! The existing file under the path of a file that arrives, while the two are compared.
//!
//! ```text
//!   tell   keys of its pieces ─▶ source            the source: what is the same, the bytes of the rest
//!   read   what is the same ─▶ decoder, and the file beside its name
//!   copy   all was the same so far, and now something differs
//!   stays  all was the same to the end: nothing is written but its time and permissions
//! ```
//! Choice: equal bytes are read for their keys, for the digest of the whole content, and, if something differs, to be
//! written. No reading relies on an earlier one: the digest of the content shows whether the second reading got the
//! same bytes as the first, and the digest of the copy shows it for the third.

use net::beneath::{Directory, data_from};
use nix::unistd::Uid;
use relay::resume::{self, PIECE_BYTES};
use std::ffi::OsStr;
use std::fmt;
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::{Duration, SystemTime};
use wire::relay::TRANSFER_BYTES;

/// The coarsest resolution in which a file system stores times.
const TIME_GRAIN: Duration = Duration::from_secs(2);
/// Number of bytes that are read at once. A hole of this size stays a hole when it is written again.
const BLOCK_BYTES: usize = 64 * 1024;

/// An existing file.
pub(super) struct Basis {
    file: File,
    found: Metadata,
}

impl Basis {
    /// Opens the file with this name; none if it is not a file or cannot be read.
    pub(super) fn open(directory: &Directory, name: &OsStr) -> Option<Basis> {
        let (file, found) = directory.read_at(name).ok()?;
        Some(Basis { file, found })
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Returns its length.
    pub(super) fn bytes(&self) -> u64 {
        self.found.len()
    }

    /// Returns true if it can become the copy itself: it has no other name, and belongs to this process's user.
    /// Otherwise another user may have it open, and could still write to it after it got its owner from the source.
    pub(super) fn may_stay(&self) -> bool {
        may_be_set(&self.found)
    }

    /// Returns true if it has this time, as far as the file system stores it, and these permissions.
    pub(super) fn is_like(&self, mode: u32, mtime: Option<SystemTime>) -> bool {
        let has_time = mtime.is_none_or(|mtime| self.found.modified().is_ok_and(|is| is == mtime));
        has_time && (self.found.mode() ^ mode) & resume::MODE_MASK == 0
    }

    /// Returns true if nobody has written to it since it was opened.
    pub(super) fn is_unchanged(&self) -> io::Result<bool> {
        let of = |found: &Metadata| {
            (
                found.len(),
                (found.mtime(), found.mtime_nsec()),
                (found.ctime(), found.ctime_nsec()),
            )
        };
        Ok(of(&self.found) == of(&self.file.metadata()?))
    }

    /// Returns true if it still has its size, and the time that it was given or had.
    pub(super) fn is_as_set(&self, mtime: Option<SystemTime>) -> io::Result<bool> {
        let now = self.file.metadata()?;
        let set = match mtime {
            Some(mtime) => mtime,
            None => self.found.modified()?,
        };
        let is_set = set
            .duration_since(now.modified()?)
            .is_ok_and(|lost| lost < TIME_GRAIN);
        Ok(now.len() == self.found.len() && is_set)
    }

    /// Returns how many of its pieces a file of this many bytes may have, too. If the other file is shorter, its
    /// shorter last piece does not count: with pieces of arbitrary length, the key would reveal the bytes.
    pub(super) fn pieces(&self, most: u64) -> u64 {
        match most >= self.bytes() {
            true => self.bytes().div_ceil(PIECE_BYTES),
            false => most / PIECE_BYTES,
        }
    }

    /// Returns the keys of some of its pieces. The list ends where the file cannot be read.
    pub(super) fn keys(&self, transfer: &[u8; TRANSFER_BYTES], pieces: Range<u64>) -> Vec<u64> {
        let mut buffer = vec![0; PIECE_BYTES as usize];
        let mut key = |piece: u64| {
            let at = piece * PIECE_BYTES;
            let len = PIECE_BYTES.min(self.bytes().saturating_sub(at));
            let piece = &mut buffer[..len as usize];
            self.file.read_exact_at(piece, at).ok()?;
            Some(resume::piece_key(transfer, piece))
        };
        pieces.map_while(&mut key).collect()
    }

    /// Passes this many bytes from a position to `act`. They exist if the source is right.
    pub(super) fn read(
        &self,
        (mut at, len): (u64, u64),
        mut act: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let end = at.checked_add(len).filter(|end| *end <= self.bytes());
        let end = end.ok_or(ErrorKind::InvalidData)?;
        let mut buffer = vec![0; BLOCK_BYTES];
        while at < end {
            let len = (end - at).min(BLOCK_BYTES as u64);
            let block = &mut buffer[..len as usize];
            match self.file.read_exact_at(block, at) {
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    return Err(Changed.into());
                }
                read => read?,
            }
            act(block)?;
            at += len;
        }
        Ok(())
    }

    /// Copies its first bytes, which have this digest, to the beginning of an empty file. Holes are skipped. The file's
    /// position is behind the bytes afterwards.
    pub(super) fn copy(&self, mut to: &File, bytes: u64, digest: blake3::Hash) -> io::Result<()> {
        let mut from = &self.file;
        let mut at = 0;
        while at < bytes
            && let Some((begin, end)) = data_from(&self.file, at)?
        {
            let (begin, end) = (begin.min(bytes), end.min(bytes));
            from.seek(SeekFrom::Start(begin))?;
            to.seek(SeekFrom::Start(begin))?;
            // The kernel copies it, or lets both files share it.
            let copied = io::copy(&mut from.take(end - begin), &mut to)?;
            if copied != end - begin {
                return Err(Changed.into());
            }
            at = end;
        }
        // There is a hole behind the last data.
        to.set_len(bytes)?;
        to.seek(SeekFrom::Start(0))?;
        let mut content = blake3::Hasher::new();
        let read = super::hash(to, bytes, &mut content)?;
        match read == bytes && content.finalize() == digest {
            true => Ok(()),
            false => Err(Changed.into()),
        }
    }
}

/// Returns true if time and permissions of this file may be set: it has no other name, and belongs to this process's
/// user.
pub(super) fn may_be_set(found: &Metadata) -> bool {
    let is_own = found.uid() == Uid::effective().as_raw();
    found.nlink() == 1 && is_own
}

/// The existing file was written to while it was compared.
#[derive(Debug)]
pub(super) struct Changed;

impl Changed {
    /// Returns true if this is the reason for an error.
    pub(super) fn is(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|inner| inner.is::<Changed>())
    }
}

impl fmt::Display for Changed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "what was there has changed while it was compared: the next attempt gets the whole file; run the same \
             command again",
        )
    }
}

impl std::error::Error for Changed {}

impl From<Changed> for io::Error {
    fn from(changed: Changed) -> io::Error {
        io::Error::other(changed)
    }
}
