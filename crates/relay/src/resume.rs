//! Finds out which data the sinks already have, so that the source does not send it again.
//!
//! ```text
//!   sink:    each entry that is there: its key ─▶ Kept … ─▶ Have(how many, the beginning of one file)
//!   source:  the same key? Kept stands before the entry, and no content behind it
//! ```
//! The key of an entry identifies its present state: path, size, time and permissions of a file, path and target of a
//! link. Complete content was verified when it arrived, and the file got its time then; a later write changes that
//! time. If a sink has the beginning of a file, the digests of the beginning are compared: so a file that changed in
//! between is never continued with the end of another version.
//!
//! ```text
//!   sink:    a file of 4 MiB or more: the key of its path, too ([`path_key`])
//!   source:  no key of the entry, but that of its path: Compare stands before the entry
//!   sink:    Kept … (keys of its pieces of 1 MiB), Kept(none) ─▶ source: which pieces are the same
//! ```
//! Therefore, a file that was only touched costs only reading at both ends, and a file that changed in part costs only
//! the changed pieces. Neither end reads a file before its turn. The keys only find what is the same: the digest of the
//! whole content decides, as with every file.
//!
//! With `--checksum`, a sink reads all files that it has, and identifies them by their content ([`content_key`])
//! instead of their time. The source reads its own files to compare, and sends Kept for those with the same content:
//! the sink sets their time and permissions. If a file at the sink has other names or another owner, its key includes
//! its time and permissions, because setting those would change the other names, or fail. Such a file stays only if
//! nothing of it has to change.
//!
//! If a transfer to several sinks breaks off, the sinks rarely stop at the same byte. All of them get the stream from
//! the end of the shortest beginning: a sink that has more of a file goes back to there, and a sink that has all of it
//! leaves the file unchanged. The source has the whole file, so the digest of a longer beginning also proves the
//! shorter one.

mod pieces;

pub use pieces::Pieces;

use std::collections::{BTreeMap, BTreeSet};
use wire::relay::entry::{Entry, EntryKind, HEAD_BYTES_MAX, Item};
use wire::relay::{Have, TRANSFER_BYTES};

/// The permission bits that a sink takes over. It does not take over that a program runs as another user, because it
/// does not take over the owner either.
pub const MODE_MASK: u32 = 0o1777;
/// How many keys a sink reports at most: 4 million entries take 32 MiB of traffic, and some 70 MB of memory at the
/// source. The source sends everything beyond again.
pub const KEYS_MAX: usize = 4 << 20;

/// Computes the key that identifies the state of an entry within one transfer. The key depends on the transfer's name,
/// so that nobody who chooses file names can make two files collide.
pub fn key(transfer: &[u8; TRANSFER_BYTES], entry: &Entry<'_>) -> u64 {
    let mut told = *entry;
    match entry.kind {
        EntryKind::File => told.mode &= MODE_MASK,
        // Times and permissions of links are not copied.
        _ => (told.mode, told.mtime_s, told.mtime_ns) = (0, 0, 0),
    }
    let mut head = [0; HEAD_BYTES_MAX];
    let len = Item::Entry(told).emit(&mut head);
    let len = len.expect("an entry that was read or made within the limits has room");
    let mut hasher = blake3::Hasher::new();
    hasher.update(transfer);
    hasher.update(&head[..len]);
    short(&hasher.finalize())
}

/// Size from which a file is compared, if the sink has another one under its path. Choice: the answer takes a round
/// trip of the whole path, in which nothing is sent, and 4 MiB take a third of a second at 100 Mbit/s.
pub const COMPARED_BYTES_MIN: u64 = 4 << 20;
/// The unit in which files are compared, and sent if they differ. Choice: four frames, so that a change of one byte
/// costs some milliseconds; the key is a 131072th of the piece.
pub const PIECE_BYTES: u64 = 1 << 20;

/// Computes the key by which a sink reports that it has a file under this path that can be compared.
pub fn path_key(transfer: &[u8; TRANSFER_BYTES], path: &[u8]) -> u64 {
    let mut hasher = pieces(transfer);
    hasher.update(path);
    short(&hasher.finalize())
}

/// Computes the key that identifies a piece of a file.
pub fn piece_key(transfer: &[u8; TRANSFER_BYTES], piece: &[u8]) -> u64 {
    short(&pieces(transfer).update(piece).finalize())
}

/// Computes the key that identifies a file by the digest of its content, its size and its path. With `is_exact`, its
/// time and permissions count, too.
pub fn content_key(
    transfer: &[u8; TRANSFER_BYTES],
    entry: &Entry<'_>,
    digest: &blake3::Hash,
    is_exact: bool,
) -> u64 {
    let mut told = *entry;
    match is_exact {
        true => told.mode &= MODE_MASK,
        false => (told.mode, told.mtime_s, told.mtime_ns) = (0, 0, 0),
    }
    let mut head = [0; HEAD_BYTES_MAX];
    let len = Item::Entry(told).emit(&mut head);
    let len = len.expect("an entry that was read or made within the limits has room");
    let mut hasher = blake3::Hasher::new_keyed(pieces(transfer).finalize().as_bytes());
    hasher.update(&[u8::from(is_exact)]);
    hasher.update(digest.as_bytes());
    hasher.update(&head[..len]);
    short(&hasher.finalize())
}

/// Returns a hasher that is keyed by the transfer's name, so that its keys differ from those of entries.
fn pieces(transfer: &[u8; TRANSFER_BYTES]) -> blake3::Hasher {
    blake3::Hasher::new_keyed(blake3::hash(transfer).as_bytes())
}

fn short(digest: &blake3::Hash) -> u64 {
    let first = digest.as_bytes().first_chunk().expect("it has 32 bytes");
    u64::from_be_bytes(*first)
}

/// A sink reports more than it may, or something else than it announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a sink tells more of what it has than may be: run one version on all nodes")]
pub struct TooMuch;

/// The data that each sink of a transfer has.
#[derive(Debug)]
pub struct There<N: Ord> {
    sinks: usize,
    keys: BTreeMap<N, BTreeSet<u64>>,
    haves: BTreeMap<N, Have>,
}

/// The data that all sinks have.
#[derive(Clone, Debug, Default)]
pub struct Shared {
    /// Keys of the entries.
    pub keys: BTreeSet<u64>,
    begun: BTreeMap<u64, Vec<Have>>,
}

impl Shared {
    /// Returns, for the key of a file, the beginnings that the sinks have, the shortest first. The list is empty if a
    /// sink lacks the beginning. A sink that has the whole file is not in the list.
    pub fn begun(&self, key: u64) -> &[Have] {
        self.begun.get(&key).map_or(&[], Vec::as_slice)
    }
}

impl<N: Ord + Copy> There<N> {
    /// Expects reports of this many sinks.
    pub fn new(sinks: usize) -> There<N> {
        There {
            sinks,
            keys: BTreeMap::new(),
            haves: BTreeMap::new(),
        }
    }

    /// Takes keys that a sink reports.
    pub fn on_keys(&mut self, from: N, keys: impl Iterator<Item = u64>) -> Result<(), TooMuch> {
        let is_new = !self.keys.contains_key(&from);
        if (is_new && self.keys.len() == self.sinks) || self.haves.contains_key(&from) {
            return Err(TooMuch);
        }
        let known = self.keys.entry(from).or_default();
        known.extend(keys);
        match known.len() > KEYS_MAX {
            true => Err(TooMuch),
            false => Ok(()),
        }
    }

    /// Notes that a sink has reported everything.
    pub fn on_have(&mut self, from: N, have: Have) {
        if self.haves.len() < self.sinks {
            self.haves.entry(from).or_insert(have);
        }
    }

    /// Returns true if this sink, one of those that count, has reported everything.
    pub fn has_told(&self, who: N) -> bool {
        self.haves.contains_key(&who)
    }

    /// Returns what all sinks have, once all have reported.
    pub fn take(&mut self) -> Option<Shared> {
        if self.haves.len() < self.sinks {
            return None;
        }
        let mut all = std::mem::take(&mut self.keys);
        let mut begun = BTreeMap::new();
        for have in self.haves.values().filter(|have| have.partial > 0) {
            let key = have.partial_key;
            let beginnings = self.beginnings(&all, key);
            if let Some(beginnings) = beginnings.filter(|_| !begun.contains_key(&key)) {
                begun.insert(key, beginnings);
            }
        }
        let first = self.haves.keys().next();
        let mut keys = first.and_then(|sink| all.remove(sink)).unwrap_or_default();
        for other in self.haves.keys().skip(1) {
            let theirs = all.remove(other).unwrap_or_default();
            keys.retain(|key| theirs.contains(key));
        }
        Some(Shared { keys, begun })
    }

    /// Returns the beginnings that the sinks have of a file that is not complete everywhere, the shortest first; none
    /// if a sink has nothing of it.
    fn beginnings(&self, keys: &BTreeMap<N, BTreeSet<u64>>, key: u64) -> Option<Vec<Have>> {
        let is_whole = |sink: &N| keys.get(sink).is_some_and(|keys| keys.contains(&key));
        let parts = self.haves.iter().filter(|(sink, _)| !is_whole(sink));
        let mut parts: Vec<Have> = parts.map(|(_, have)| *have).collect();
        parts.sort_unstable_by_key(|have| have.partial);
        let has = |have: &Have| have.partial > 0 && have.partial_key == key;
        parts.iter().all(has).then_some(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str) -> Entry<'_> {
        Entry {
            kind: EntryKind::File,
            mode: 0o644,
            mtime_s: 1,
            mtime_ns: 2,
            size: 3,
            path: path.as_bytes(),
            target: b"",
        }
    }

    #[test]
    fn a_key_is_of_what_may_change() {
        let name = [7; TRANSFER_BYTES];
        let own = key(&name, &file("a"));
        assert_eq!(own, key(&name, &file("a")));
        let setuid = Entry {
            mode: 0o4644,
            ..file("a")
        };
        assert_eq!(own, key(&name, &setuid), "it is not taken over");
        for other in [
            file("b"),
            Entry {
                mode: 0o600,
                ..file("a")
            },
            Entry {
                mtime_ns: 3,
                ..file("a")
            },
            Entry {
                size: 4,
                ..file("a")
            },
        ] {
            assert_ne!(own, key(&name, &other), "{other:?}");
        }
        assert_ne!(own, key(&[8; TRANSFER_BYTES], &file("a")));
        let link = |mtime_s, target| Entry {
            kind: EntryKind::Link,
            mtime_s,
            size: 0,
            target,
            ..file("a")
        };
        assert_eq!(key(&name, &link(1, b"x")), key(&name, &link(9, b"x")));
        assert_ne!(key(&name, &link(1, b"x")), key(&name, &link(1, b"y")));
    }

    #[test]
    fn keys_of_other_entries_paths_and_pieces_differ() {
        // The keys of a path and of a piece with the same bytes are equal. They cannot be confused: a sink sends the
        // one before Have, and the other after it.
        let name = [7; TRANSFER_BYTES];
        let keys = [
            key(&name, &file("a")),
            path_key(&name, b"a"),
            path_key(&name, b"b"),
            path_key(&[8; TRANSFER_BYTES], b"a"),
            content_key(&name, &file("a"), &blake3::hash(b"a"), true),
            content_key(&name, &file("a"), &blake3::hash(b"a"), false),
            content_key(&name, &file("a"), &blake3::hash(b"b"), false),
            content_key(&name, &file("b"), &blake3::hash(b"a"), false),
            piece_key(&name, &[0; 9]),
            piece_key(&name, &[0; 10]),
        ];
        assert_eq!(BTreeSet::from(keys).len(), keys.len());
    }

    #[test]
    fn a_file_is_told_by_its_content_whatever_its_time_unless_that_counts() {
        let (name, digest) = ([7; TRANSFER_BYTES], blake3::hash(b"x"));
        let touched = Entry {
            mtime_s: 9,
            mode: 0o600,
            ..file("a")
        };
        let longer = Entry {
            size: 4,
            ..file("a")
        };
        let key = |entry: &Entry<'_>, is_exact| content_key(&name, entry, &digest, is_exact);
        assert_eq!(key(&file("a"), false), key(&touched, false));
        assert_ne!(key(&file("a"), true), key(&touched, true));
        assert_ne!(key(&file("a"), false), key(&longer, false));
    }

    #[test]
    fn what_all_sinks_have_is_not_sent_again() {
        let have = |partial| Have {
            partial,
            ..Have::default()
        };
        let mut there = There::new(2);
        there.on_keys('a', [1, 2].into_iter()).unwrap();
        there.on_keys('b', [2, 3].into_iter()).unwrap();
        assert_eq!(there.on_keys('c', [1].into_iter()), Err(TooMuch));
        there.on_have('a', have(5));
        assert!(there.take().is_none());
        there.on_have('b', have(6));
        let shared = there.take().unwrap();
        assert_eq!(shared.keys, BTreeSet::from([2]));
        assert_eq!(shared.begun(0), [have(5), have(6)]);
        assert!(shared.begun(1).is_empty());
        let mut one = There::new(1);
        one.on_have('a', have(5));
        assert_eq!(one.on_keys('a', [1].into_iter()), Err(TooMuch), "too late");
        let shared = one.take().unwrap();
        assert_eq!((shared.keys.len(), shared.begun(0)), (0, &[have(5)][..]));
    }

    #[test]
    fn a_file_goes_on_where_each_sink_has_some_of_it_or_all() {
        let have = |partial_key, partial| Have {
            partial_key,
            partial,
            ..Have::default()
        };
        // One sink is a file ahead of another.
        let mut there = There::new(3);
        for sink in ['a', 'b'] {
            there.on_keys(sink, [7].into_iter()).unwrap();
        }
        there.on_have('a', have(8, 4));
        there.on_have('b', have(8, 2));
        there.on_have('c', have(7, 9));
        let shared = there.take().unwrap();
        assert!(shared.keys.is_empty());
        assert_eq!(shared.begun(7), [have(7, 9)], "the others have all of it");
        assert!(shared.begun(8).is_empty(), "c has nothing of it");
    }
}
