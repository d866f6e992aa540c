//! Files that stay because they have the same content get the source's time and permissions.

use super::{Changed, Files, finish, time};
use std::io;
use wire::relay::entry::{Entry, EntryKind};

impl Files {
    /// Sets the source's time and permissions on a file that was kept because of its content.
    pub(super) fn touch_kept(&mut self, entry: &Entry<'_>) -> io::Result<()> {
        if !self.is_checked || entry.kind != EntryKind::File {
            return Ok(());
        }
        // The file existed when it was reported.
        let basis = self.basis(entry).ok_or(Changed)?;
        let mtime = time(entry);
        if basis.is_like(entry.mode, mtime) {
            return Ok(());
        }
        match basis.may_stay() {
            true => finish(basis.file(), entry.mode, mtime),
            // The file has got another name or owner since.
            false => Err(Changed.into()),
        }
    }
}
