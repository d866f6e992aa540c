//! What is under the path of a file that comes, while the two are compared.
//!
//! ```text
//!   tell   keys of its pieces ─▶ source            the source: what is the same, the bytes of the rest
//!   read   what is the same ─▶ decoder, and the file beside its name
//!   copy   all was the same so far, and now something differs
//!   stays  all was the same to the end: nothing is written but its time and permissions
//! ```
//! Choice: what is the same is read twice, for its keys and for the digest of the whole content. Nothing of the first
//! reading is trusted then.

use crate::relay::pump::Outcome;
use net::beneath::{Directory, data_from};
use nix::unistd::Uid;
use relay::resume::{self, PIECE_BYTES};
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt};
use wire::relay::TRANSFER_BYTES;

/// Keys that are told together: of 64 MiB, a tenth of a second of reading.
const TOLD_KEYS: usize = 64;
/// What is read at once. A hole of so many bytes stays one where it is written again.
const BLOCK_BYTES: usize = 64 * 1024;

/// A file that is there.
pub(super) struct Basis {
    file: File,
    found: Metadata,
}

impl Basis {
    /// What has this name; none if that is no file, or cannot be read.
    pub(super) fn open(directory: &Directory, name: &OsStr) -> Option<Basis> {
        let (file, found) = directory.read_at(name).ok()?;
        Some(Basis { file, found })
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// How long it is.
    pub(super) fn bytes(&self) -> u64 {
        self.found.len()
    }

    /// It can be the copy itself: it has no other name, and is of this process's user or gets its owner from the
    /// source.
    pub(super) fn may_stay(&self, gets_owner: bool) -> bool {
        let is_own = self.found.uid() == Uid::effective().as_raw();
        self.found.nlink() == 1 && (is_own || gets_owner)
    }

    /// Nobody has written to it since it was opened.
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

    /// Tells the keys of its pieces, of at most so many bytes. Where it cannot be read, they end.
    pub(super) fn tell(
        &self,
        transfer: &[u8; TRANSFER_BYTES],
        most: u64,
        tell: &mut dyn FnMut(&[u64]) -> Outcome,
    ) -> Outcome {
        let until = most.min(self.bytes());
        let mut keys = Vec::with_capacity(TOLD_KEYS);
        let mut buffer = vec![0; PIECE_BYTES as usize];
        let mut at = 0;
        while at < until {
            let len = PIECE_BYTES.min(until - at);
            let piece = &mut buffer[..len as usize];
            if self.file.read_exact_at(piece, at).is_err() {
                break;
            }
            keys.push(resume::piece_key(transfer, piece));
            if keys.len() == TOLD_KEYS {
                tell(&keys)?;
                keys.clear();
            }
            at += len;
        }
        match keys.is_empty() {
            true => Ok(()),
            false => tell(&keys),
        }
    }

    /// Gives so many bytes from some place on to `act`, which are there if the source is right.
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
            self.file.read_exact_at(block, at)?;
            act(block)?;
            at += len;
        }
        Ok(())
    }

    /// Copies its first bytes to the beginning of an empty file, without what are holes; an error if somebody
    /// has changed it since it was opened, because what was checked of it may be gone.
    pub(super) fn copy(&self, mut to: &File, bytes: u64) -> io::Result<()> {
        let mut from = &self.file;
        let mut at = 0;
        while at < bytes
            && let Some((begin, end)) = data_from(&self.file, at)?
        {
            let (begin, end) = (begin.min(bytes), end.min(bytes));
            from.seek(SeekFrom::Start(begin))?;
            to.seek(SeekFrom::Start(begin))?;
            // The kernel copies it, or has both share it.
            let copied = io::copy(&mut from.take(end - begin), &mut to)?;
            if copied != end - begin {
                break;
            }
            at = end;
        }
        match self.is_unchanged()? {
            true => Ok(()),
            false => {
                let text = "it has changed while it was compared: run the same command again";
                Err(io::Error::new(ErrorKind::ResourceBusy, text))
            }
        }
    }
}
