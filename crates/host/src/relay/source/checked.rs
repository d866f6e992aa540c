//! What the sinks have of an entry: by its head, or, with `--checksum`, by what is in it.

use super::Source;
use crate::relay::place::digest_of;
use crate::relay::tree::{Content, Head, Walker};
use relay::resume;
use std::collections::HashSet;
use wire::relay::entry::EntryKind;

/// Files with several names that were sent. Their other names are sent, too: at a sink they may still lead to the file
/// that was there before. Memory: as much as the walk takes for the same names.
pub(super) type Sent = HashSet<Vec<u8>>;

impl Source<'_> {
    /// All sinks have the entry as it is.
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

    /// All sinks have a file with this content under its path. One that cannot be read is asked for again by who sends it,
    /// and that fails in its own way.
    fn has_content(&self, walker: &mut Walker<'_>, shared: &resume::Shared, head: &Head) -> bool {
        // Where nothing is there nothing is read twice.
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
