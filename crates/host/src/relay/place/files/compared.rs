//! A file that arrives while another one exists under its path: decides what is taken from the existing one.
//!
//! ```text
//!   keys of its pieces ─▶ source     same: read, for the digest, and written only where something has differed before
//!   all was the same: it stays       something differs: all that was the same is copied, and its digest compared
//! ```
//! If somebody writes to it meanwhile, a digest, or its size and time, shows this. The journal records it, and the next
//! attempt does not compare this file.

use super::{Current, Files, check_free, finish};
use crate::relay::place::basis::Changed;
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use wire::relay::entry::EntryKind;

/// Number of keys that are reported together: of 64 MiB, a tenth of a second of reading.
const TOLD_KEYS: u64 = 64;

impl Files {
    /// Returns how many pieces of the existing file a file of this many bytes may have, too.
    pub(in crate::relay::place) fn pieces(&self, most: u64) -> u64 {
        self.basis.as_ref().map_or(0, |basis| basis.pieces(most))
    }

    /// Returns the keys of the next pieces of the existing file, fewer if it cannot be read.
    pub(in crate::relay::place) fn keys(&self, from: u64, until: u64) -> Vec<u64> {
        let until = until.min(from + TOLD_KEYS);
        let basis = self.basis.as_ref();
        basis.map_or_else(Vec::new, |basis| basis.keys(&self.transfer, from..until))
    }

    /// Takes this many bytes from the same place of the existing file.
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

    /// Returns the error if the content has another digest than was sent, and some of it came from the existing file:
    /// then that file has changed.
    pub(in crate::relay::place) fn differs(&mut self) -> Option<io::Error> {
        let has_same = self.file.as_ref().is_some_and(|current| current.has_same);
        let changed = has_same.then(|| self.noted::<()>(Err(Changed.into())));
        changed.and_then(Result::err)
    }

    /// Begins to write, because something differs from here on: the equal bytes so far are copied from the existing
    /// file.
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
            // If none of its bytes were used, the existing file may have changed.
            (Some(basis), Some(current)) if current.bytes > 0 => {
                let copied = basis.copy(&current.file, current.bytes, content.finalize());
                self.noted(copied)
            }
            _ => Ok(()),
        }
    }

    /// Returns true if the existing file equals all that has arrived.
    pub(super) fn is_all_there(&self) -> io::Result<bool> {
        match (&self.basis, &self.file) {
            (Some(basis), Some(current)) if current.is_there.is_some() => {
                Ok(basis.bytes() == current.bytes && basis.is_unchanged()?)
            }
            _ => Ok(false),
        }
    }

    /// Keeps the existing file as the copy.
    pub(super) fn stay(&mut self) -> io::Result<()> {
        let (Some(basis), Some(current)) = (self.basis.take(), self.file.take()) else {
            return Err(ErrorKind::InvalidData.into());
        };
        let file = basis.file();
        finish(file, current.mode, current.mtime)?;
        // A write after the last check has changed the time that was set.
        if !basis.is_as_set(current.mtime)? {
            return self.noted(Err(Changed.into()));
        }
        if let Some(attributes) = &current.attributes {
            attributes.settle(file, EntryKind::File, current.mode)?;
        }
        self.is_kept = current.path.is_empty();
        self.forget(&current.path)
    }

    /// Records in the journal that the existing file has changed, if that is the error.
    fn noted<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        if result.as_ref().is_err_and(Changed::is) {
            self.journal.on_changed()?;
        }
        result
    }
}

impl Current {
    /// Takes bytes of the existing file. They are written unless all bytes so far equal it.
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

    /// Writes bytes that were read on this host. Zeros become a hole, whether they were one or not.
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        match bytes.iter().all(|byte| *byte == 0) {
            true => self.file.seek(SeekFrom::Start(self.bytes)).map(drop),
            false => self.file.write_all(bytes),
        }
    }
}
