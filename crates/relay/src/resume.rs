//! Going on where an earlier attempt has ended.
//!
//! ```text
//!   sink:    what it kept is read and checked again ─▶ Have(entries, partial, digests)
//!   source:  its own first entries, its own first bytes of the next one: the same digests?
//!            yes: go on behind them    no: begin anew    several sinks: behind what all have
//! ```
//! The heads of entries (path, size, mode, time) say whether entries that are complete are still the
//! source's; their content was verified when it came, and again by the sink just before. The content
//! of the entry in the middle is compared by its digest. Whatever differs begins anew: a file that
//! changed in between is never continued with another one's end.

use crate::stream::Walk;
use wire::relay::Have;

/// Whether what a sink has is what the source has, seen at the source after as many entries:
/// `with_next` is `walk` with the head of the next entry, where the sink has a part of that.
pub fn entries_match(have: &Have, walk: &Walk, with_next: Option<&Walk>) -> bool {
    let seen = if have.partial > 0 {
        with_next
    } else {
        Some(walk)
    };
    walk.entries() == have.entries
        && seen.is_some_and(|seen| seen.heads_digest() == have.entries_digest)
}

/// Where a stream to all of these sinks begins: entries to skip, and bytes of the next one. Each
/// is what the source has found to be so.
pub fn begin(positions: impl IntoIterator<Item = (u64, u64)>) -> (u64, u64) {
    positions.into_iter().min().unwrap_or((0, 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::relay::entry::{Entry, EntryKind};

    fn walk(names: &[&str]) -> Walk {
        let mut walk = Walk::default();
        for name in names {
            let entry = Entry {
                kind: match name.is_empty() {
                    true => EntryKind::Directory,
                    false => EntryKind::File,
                },
                mode: 0o644,
                mtime_s: 0,
                mtime_ns: 0,
                size: 0,
                path: name.as_bytes(),
                target: b"",
            };
            walk.enter(&entry).unwrap();
        }
        walk
    }

    #[test]
    fn entries_match_by_number_and_heads() {
        let (two, three) = (walk(&["", "a"]), walk(&["", "a", "b"]));
        let other = walk(&["", "c"]);
        let mut have = Have {
            entries: 2,
            entries_digest: two.heads_digest(),
            ..Have::default()
        };
        assert!(entries_match(&have, &two, None));
        assert!(!entries_match(&have, &other, None));
        assert!(!entries_match(&have, &three, None));
        have.partial = 5;
        assert!(!entries_match(&have, &two, None));
        assert!(!entries_match(&have, &two, Some(&three)));
        have.entries_digest = three.heads_digest();
        assert!(entries_match(&have, &two, Some(&three)));
    }

    #[test]
    fn the_stream_begins_behind_what_all_sinks_have() {
        assert_eq!(begin([(3, 0), (2, 900), (2, 5)]), (2, 5));
        assert_eq!(begin([]), (0, 0));
    }
}
