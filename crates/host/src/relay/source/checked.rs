//! Decides whether the sinks have an entry: by its head, or, with `--checksum`, by its content.

use super::Source;
use crate::relay::place::digest_of;
use crate::relay::tree::{Content, Head, Walker};
use relay::resume;
use std::collections::HashSet;
use wire::relay::entry::EntryKind;

/// Files with several names that were sent. Their other names are sent, too, because at a sink they may still lead to
/// the old file. This takes as much memory as the walk takes for the same names.
pub(super) type Sent = HashSet<Vec<u8>>;

impl Source<'_> {
    /// Returns true if all sinks have the entry as it is.
    pub(super) fn is_there(
        &self,
        walker: &mut Walker<'_>,
        (shared, sent): (&resume::Shared, &Sent),
        head: &Head,
    ) -> bool {
        let transfer = &self.manner.transfer;
        match head.kind {
            EntryKind::Directory => false,
            EntryKind::HardLink if sent.contains(head.target()) => false,
            EntryKind::File if self.manner.checksum => self.has_content(walker, shared, head),
            _ => shared.keys.contains(&resume::key(transfer, &head.entry())),
        }
    }

    /// Returns true if all sinks have a file with this content under its path. If the file cannot be read, the sending
    /// code opens it again, and reports the error.
    fn has_content(&self, walker: &mut Walker<'_>, shared: &resume::Shared, head: &Head) -> bool {
        // If the sinks have nothing, nothing is read twice.
        if shared.keys.is_empty() {
            return false;
        }
        let Some(Content::File(file)) = walker.look().ok().flatten() else {
            return false;
        };
        let Ok(Some(digest)) = digest_of(&file, head) else {
            return false;
        };
        let key = |is_exact| {
            let entry = head.entry();
            resume::content_key(&self.manner.transfer, &entry, &digest, is_exact)
        };
        [false, true]
            .iter()
            .any(|is_exact| shared.keys.contains(&key(*is_exact)))
    }
}
