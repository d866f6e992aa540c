//! Files that stay because they have the same content: they get the time and the permissions that the source has.

use super::{Changed, Files, finish, time};
use std::io;
use wire::relay::entry::{Entry, EntryKind};

impl Files {
    /// What is kept is told by its content: its time and permissions become the source's.
    pub(super) fn touch_kept(&mut self, entry: &Entry<'_>) -> io::Result<()> {
        if !self.is_checked || entry.kind != EntryKind::File {
            return Ok(());
        }
        // It was there when it was told.
        let basis = self.basis(entry).ok_or(Changed)?;
        let mtime = time(entry);
        if basis.is_like(entry.mode, mtime) {
            return Ok(());
        }
        match basis.may_stay() {
            true => finish(basis.file(), entry.mode, mtime),
            // It has got another name or owner since.
            false => Err(Changed.into()),
        }
    }
}
