//! Which entries of a part are complete.
//!
//! ```text
//!   head of a directory or link | head of a file, then 5 and the digest of its content | ...
//! ```
//! Heads are those of the stream. A file's head without a digest is of the one that was being
//! written; a torn end is no entry. Writing to the kernel is put off while files are small: what the
//! journal does not know is copied again.

use net::beneath::Directory;
use relay::Walk;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use wire::relay::entry::{Entry, EntryKind, HEAD_BYTES_MAX, Item};
use wire::relay::{DIGEST_BYTES, Have};

/// Stands before a digest; heads begin with less.
const DIGEST_MARK: u8 = 5;
/// What is put off.
const BUFFER_BYTES: usize = 64 * 1024;
/// A file of so many bytes is worth telling of at once: 8 ms at 1 Gbit/s.
const LARGE_BYTES: u64 = 1 << 20;
/// A longer journal is begun anew: some five million entries, read at once.
const JOURNAL_BYTES_MAX: u64 = 1 << 30;
/// What is read at once to check content.
const READ_BYTES: usize = 256 * 1024;

/// The journal of one part.
#[derive(Debug)]
pub(super) struct Journal {
    file: File,
    buffer: Vec<u8>,
    /// The file that was begun last is a large one.
    large: bool,
}

/// How far earlier attempts have come, as checked.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// The complete entries.
    pub(super) walk: Walk,
    /// Bytes of the file behind them.
    pub(super) partial: u64,
    /// The same, hashed.
    pub(super) content: blake3::Hasher,
    /// The head of that file.
    partial_head: Vec<u8>,
    /// The directories that the next entry may be in: heads and paths.
    pub(super) directories: Vec<(Vec<u8>, Vec<u8>)>,
    /// All paths.
    paths: HashSet<Vec<u8>>,
    /// Where the journal ends that tells of all this.
    end: u64,
}

impl Kept {
    pub(super) fn is_empty(&self) -> bool {
        (self.walk.entries(), self.partial) == (0, 0)
    }

    pub(super) fn is_at(&self, entries: u64, partial: u64) -> bool {
        (self.walk.entries(), self.partial) == (entries, partial)
    }

    pub(super) fn reaches(&self, entries: u64, partial: u64) -> bool {
        (entries, partial) <= (self.walk.entries(), self.partial)
    }

    pub(super) fn have(&self) -> Have {
        let mut heads = self.walk.clone();
        if self.partial > 0 {
            let entered = entry(&self.partial_head).map(|entry| heads.enter(&entry));
            debug_assert!(matches!(entered, Ok(Ok(()))), "it was entered before");
        }
        Have {
            entries: self.walk.entries(),
            partial: self.partial,
            entries_digest: heads.heads_digest(),
            partial_digest: *self.content.finalize().as_bytes(),
        }
    }
}

/// A record of the journal.
struct Record<'a> {
    head: &'a [u8],
    entry: Entry<'a>,
    digest: Option<[u8; DIGEST_BYTES]>,
    /// Without the digest.
    head_bytes: usize,
    bytes: usize,
}

/// The entry whose head these bytes are.
pub(super) fn entry(head: &[u8]) -> io::Result<Entry<'_>> {
    match Item::read(head) {
        Ok((Item::Entry(entry), _)) => Ok(entry),
        _ => Err(ErrorKind::InvalidData.into()),
    }
}

fn record(bytes: &[u8]) -> Option<Record<'_>> {
    let Ok((Item::Entry(entry), used)) = Item::read(bytes) else {
        return None;
    };
    let (head, rest) = bytes.split_at(used);
    let digest = match rest.split_first() {
        Some((&DIGEST_MARK, rest)) if entry.kind == EntryKind::File => {
            rest.first_chunk::<DIGEST_BYTES>().copied()
        }
        _ => None,
    };
    Some(Record {
        head,
        entry,
        head_bytes: used,
        bytes: used + digest.map_or(0, |_| 1 + DIGEST_BYTES),
        digest,
    })
}

impl Journal {
    pub(super) fn open(file: File) -> io::Result<Journal> {
        Ok(Journal {
            file,
            buffer: Vec::new(),
            large: false,
        })
    }

    /// It tells of nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.buffer.is_empty() && self.file.metadata().is_ok_and(|file| file.len() == 0)
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        self.truncate(0)
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.buffer.clear();
        self.file.set_len(len)?;
        self.file.seek(SeekFrom::Start(len)).map(drop)
    }

    /// An entry begins, and is complete at once unless it is a file.
    pub(super) fn begin(&mut self, entry: &Entry<'_>) -> io::Result<()> {
        let mut head = [0; HEAD_BYTES_MAX];
        let len = Item::Entry(*entry).emit(&mut head);
        let len = len.map_err(|_| io::Error::from(ErrorKind::InvalidData))?;
        self.buffer.extend_from_slice(&head[..len]);
        // What is not known to be long may be.
        let is_file = entry.kind == EntryKind::File;
        self.large = is_file && (entry.size == 0 || entry.size >= LARGE_BYTES);
        self.flush(self.large && entry.size > 0 || entry.path.is_empty())
    }

    /// The content of the file that was begun last is complete.
    pub(super) fn complete(&mut self, digest: &[u8; DIGEST_BYTES]) -> io::Result<()> {
        self.buffer.push(DIGEST_MARK);
        self.buffer.extend_from_slice(digest);
        self.flush(self.large)
    }

    fn flush(&mut self, at_once: bool) -> io::Result<()> {
        if at_once || self.buffer.len() >= BUFFER_BYTES {
            self.file.write_all(&self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }

    /// Reads it, and checks the part by it.
    pub(super) fn check(&mut self, parent: &Directory, part: &OsStr) -> io::Result<Kept> {
        self.check_up_to(parent, part, None)
    }

    /// The same up to some entry, and so many bytes of the next one.
    fn check_up_to(
        &mut self,
        parent: &Directory,
        part: &OsStr,
        limit: Option<(u64, u64)>,
    ) -> io::Result<Kept> {
        let mut bytes = Vec::new();
        if self.file.metadata()?.len() <= JOURNAL_BYTES_MAX {
            self.file.seek(SeekFrom::Start(0))?;
            self.file.read_to_end(&mut bytes)?;
        }
        let mut kept = Kept::default();
        let mut rest = &bytes[..];
        while let Some(record) = record(rest) {
            let mut walk = kept.walk.clone();
            if walk.enter(&record.entry).is_err() {
                break;
            }
            let at_limit = limit.is_some_and(|(entries, _)| entries == kept.walk.entries());
            let path = below(part, record.entry.path);
            let state = match at_limit {
                true => State::Partial,
                false => state(parent, &path, &record)?,
            };
            match state {
                State::Complete => {
                    rest = &rest[record.bytes..];
                    kept.end += record.bytes as u64;
                    kept.walk = walk;
                    kept.enter(&record);
                }
                State::Partial => {
                    let most = limit.filter(|_| at_limit).map(|(_, partial)| partial);
                    kept.take_partial(parent, &path, &record, most)?;
                    break;
                }
                State::Different => break,
            }
        }
        self.truncate(kept.end)?;
        Ok(kept)
    }

    /// Goes back to some entry, and so many bytes of the next one.
    pub(super) fn cut(
        &mut self,
        parent: &Directory,
        part: &OsStr,
        entries: u64,
        partial: u64,
    ) -> io::Result<Kept> {
        let kept = self.check_up_to(parent, part, Some((entries, partial)))?;
        if !kept.is_at(entries, partial) {
            return Err(ErrorKind::InvalidData.into());
        }
        self.prune(parent, part, &kept)?;
        Ok(kept)
    }

    /// Removes what the journal does not know, as what was begun and not told of.
    pub(super) fn prune(
        &mut self,
        parent: &Directory,
        part: &OsStr,
        kept: &Kept,
    ) -> io::Result<()> {
        match parent.enter(part) {
            Ok(directory) => prune(&directory, &[], kept),
            // A single file.
            Err(error) if error.kind() == ErrorKind::NotADirectory => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl Kept {
    fn enter(&mut self, record: &Record<'_>) {
        let path = record.entry.path;
        while self.directories.last().is_some_and(|(_, open)| {
            let inside = path.strip_prefix(&open[..]);
            !open.is_empty() && inside.is_none_or(|rest| rest.first() != Some(&b'/'))
        }) {
            self.directories.pop();
        }
        if record.entry.kind == EntryKind::Directory {
            self.directories.push((record.head.to_vec(), path.to_vec()));
        }
        self.paths.insert(path.to_vec());
    }

    fn take_partial(
        &mut self,
        parent: &Directory,
        path: &Path,
        record: &Record<'_>,
        most: Option<u64>,
    ) -> io::Result<()> {
        let Ok(file) = parent.read(path) else {
            return Ok(());
        };
        let mut content = blake3::Hasher::new();
        let len = hash(&file, most.unwrap_or(u64::MAX), &mut content)?;
        if len > 0 {
            self.partial = len;
            self.content = content;
            self.partial_head = record.head.to_vec();
            self.paths.insert(record.entry.path.to_vec());
            self.end += record.head_bytes as u64;
        }
        Ok(())
    }
}

enum State {
    Complete,
    Partial,
    Different,
}

/// How an entry of the journal is found in the part.
fn state(parent: &Directory, path: &Path, record: &Record<'_>) -> io::Result<State> {
    let entry = &record.entry;
    let is_complete = match entry.kind {
        EntryKind::Directory => parent.below(path).is_ok(),
        EntryKind::Link => {
            let target = std::fs::read_link(parent.path().join(path));
            target.is_ok_and(|target| target.into_os_string().into_vec() == entry.target)
        }
        EntryKind::File => match (parent.read(path), record.digest) {
            (Ok(_), None) => return Ok(State::Partial),
            (Ok(file), Some(digest)) => {
                let mut content = blake3::Hasher::new();
                hash(&file, u64::MAX, &mut content)?;
                content.finalize() == digest
            }
            (Err(_), _) => false,
        },
    };
    Ok(match is_complete {
        true => State::Complete,
        false => State::Different,
    })
}

/// Hashes a file from its beginning, at most so many bytes; how many it was.
pub(in crate::relay) fn hash(
    mut file: &File,
    most: u64,
    hasher: &mut blake3::Hasher,
) -> io::Result<u64> {
    let mut buffer = vec![0; READ_BYTES];
    let mut left = most;
    while left > 0 {
        let wanted = usize::try_from(left).map_or(READ_BYTES, |left| left.min(READ_BYTES));
        match file.read(&mut buffer[..wanted]) {
            Ok(0) => break,
            Ok(len) => {
                hasher.update(&buffer[..len]);
                left -= len as u64;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(most - left)
}

/// A path within the part, seen from the directory that the part is in.
fn below(part: &OsStr, path: &[u8]) -> PathBuf {
    let mut whole = PathBuf::from(part);
    if !path.is_empty() {
        whole.push(OsStr::from_bytes(path));
    }
    whole
}

fn prune(directory: &Directory, prefix: &[u8], kept: &Kept) -> io::Result<()> {
    for found in directory.list()? {
        let found = found?;
        let name = found.file_name();
        let mut path = prefix.to_vec();
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name.as_bytes());
        let is_directory = found.file_type()?.is_dir();
        match (kept.paths.contains(&path), is_directory) {
            (true, true) => prune(&directory.enter(&name)?, &path, kept)?,
            (true, false) => {}
            (false, true) => directory.remove_all(&name)?,
            (false, false) => directory.remove(&name)?,
        }
    }
    Ok(())
}
