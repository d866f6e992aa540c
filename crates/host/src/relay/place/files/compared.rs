//! A file that comes while another is under its path: what of that one is taken over.
//!
//! ```text
//!   keys of its pieces ─▶ source     same: read, for the digest, and written only where something has differed before
//!   all was the same: it stays       something differs: all that was the same is copied, and its digest compared
//! ```
//! Who wrote to it meanwhile is noticed by a digest, or by its size and time. That is noted in the journal, and the
//! next attempt does not compare this file.

use super::{Current, Files, check_free, finish};
use crate::relay::place::basis::Changed;
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use wire::relay::entry::EntryKind;

/// Keys that are told together: of 64 MiB, a tenth of a second of reading.
const TOLD_KEYS: u64 = 64;

impl Files {
    /// Pieces of what is there that a file of so many bytes may have too.
    pub(in crate::relay::place) fn pieces(&self, most: u64) -> u64 {
        self.basis.as_ref().map_or(0, |basis| basis.pieces(most))
    }

    /// The keys of the next of so many pieces of what is there; fewer where it cannot be read.
    pub(in crate::relay::place) fn keys(&self, from: u64, until: u64) -> Vec<u64> {
        let until = until.min(from + TOLD_KEYS);
        let basis = self.basis.as_ref();
        basis.map_or_else(Vec::new, |basis| basis.keys(&self.transfer, from..until))
    }

    /// So many bytes that come next are at the same place of what is there.
    pub(in crate::relay::place) fn same(
        &mut self,
        len: u64,
        give: &mut dyn FnMut(&[u8]),
    ) -> io::Result<()> {
        if self.drops {
            return Ok(());
        }
        let (Some(basis), Some(current)) = (&self.basis, &mut self.file) else {
            return Err(ErrorKind::InvalidData.into());
        };
        current.has_same = true;
        let read = basis.read((current.bytes, len), |bytes| {
            give(bytes);
            current.take(bytes)
        });
        self.noted(read)
    }

    /// What came has another digest than was sent, and some of it is what is there: that has changed.
    pub(in crate::relay::place) fn differs(&mut self) -> Option<io::Error> {
        let has_same = self.file.as_ref().is_some_and(|current| current.has_same);
        let changed = has_same.then(|| self.noted::<()>(Err(Changed.into())));
        changed.and_then(Result::err)
    }

    /// Something differs from here on: what is there of the file that comes is written to where that goes on.
    pub(super) fn write_out(&mut self) -> io::Result<()> {
        let Some(current) = &mut self.file else {
            return Ok(());
        };
        let Some(content) = current.is_there.take() else {
            return Ok(());
        };
        let missing = current.missing;
        check_free(self.seat(b"").0, missing)?;
        match (&self.basis, &self.file) {
            // Of none of it nothing is used, so it may change.
            (Some(basis), Some(current)) if current.bytes > 0 => {
                let copied = basis.copy(&current.file, current.bytes, content.finalize());
                self.noted(copied)
            }
            _ => Ok(()),
        }
    }

    /// What is there is all that has come.
    pub(super) fn is_all_there(&self) -> io::Result<bool> {
        match (&self.basis, &self.file) {
            (Some(basis), Some(current)) if current.is_there.is_some() => {
                Ok(basis.bytes() == current.bytes && basis.is_unchanged()?)
            }
            _ => Ok(false),
        }
    }

    /// What is there stays, as the file that has come.
    pub(super) fn stay(&mut self) -> io::Result<()> {
        let (Some(basis), Some(current)) = (self.basis.take(), self.file.take()) else {
            return Err(ErrorKind::InvalidData.into());
        };
        let file = basis.file();
        finish(file, current.mode, current.mtime)?;
        // Whoever wrote after the last look has changed the time that was set.
        if !basis.is_as_set(current.mtime)? {
            return self.noted(Err(Changed.into()));
        }
        if let Some(attributes) = &current.attributes {
            attributes.settle(file, EntryKind::File, current.mode)?;
        }
        self.is_kept = current.path.is_empty();
        self.forget(&current.path)
    }

    /// Notes that what is there has changed, if that is what went wrong.
    fn noted<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        if result.as_ref().is_err_and(Changed::is) {
            self.journal.on_changed()?;
        }
        result
    }
}

impl Current {
    /// Takes what is there of it: it is written unless all that came is.
    fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.bytes += bytes.len() as u64;
        match &mut self.is_there {
            Some(content) => {
                content.update(bytes);
                Ok(())
            }
            None => self.put(bytes),
        }
    }

    /// Writes what was read on this host. Zeros become a hole, whether they were one or not.
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        match bytes.iter().all(|byte| *byte == 0) {
            true => self.file.seek(SeekFrom::Start(self.bytes)).map(drop),
            false => self.file.write_all(bytes),
        }
    }
}
