//! Encodes entries and their content as one stream of bytes, and decodes it. See [`wire::relay::entry`] for the format.
//!
//! [`Walk`] is the state that both ends keep of the entries so far: it checks that they are in order and each in a
//! directory that came before, and has the digest of their heads. [`Encoder`] writes at the source. [`Decoder`] reads
//! at a sink, and verifies contents and heads by their digests.

mod decoder;
#[cfg(test)]
mod tests;

pub use decoder::{
    ATTRIBUTE_COST_BYTES, ATTRIBUTES_BYTES_MAX, Decoder, Event, HOLE_BYTES_MAX, SAME_BYTES_MAX,
};

use wire::Malformed;
use wire::handshake::VersionRange;
use wire::relay::DIGEST_BYTES;
use wire::relay::entry::{
    Entry, EntryKind, GIVEN_UP, HEAD_BYTES_MAX, HOLE, Item, Owner, REASON_BYTES_MAX, SAME, Total,
    VALUE_BYTES_MAX, is_after, is_path,
};

/// Why a sink rejects a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// Bytes that are no entry.
    #[error("the stream is not understood ({0}): run one version on all nodes")]
    Malformed(#[from] Malformed),
    /// An entry comes twice, or before one that it must follow.
    #[error("the entries are out of order: run one version on all nodes")]
    Order,
    /// An entry is in no directory that came before.
    #[error("an entry is in no directory that was named before")]
    Orphan,
    /// The content that arrived differs from the content that was sent.
    #[error("what came differs from what was sent: it was corrupted on the way; run it again")]
    Content,
    /// The entries that arrived are not those that were sent.
    #[error("the entries that came are not those that were sent; run it again")]
    Entries,
    /// Something follows the end.
    #[error("the stream goes on behind its end: run one version on all nodes")]
    Excess,
}

/// The entries of a walk so far.
#[derive(Clone, Debug, Default)]
pub struct Walk {
    entries: u64,
    heads: blake3::Hasher,
    last: Vec<u8>,
    /// The directories that may contain the next entry, each in the one before.
    directories: Vec<Vec<u8>>,
}

impl Walk {
    /// Takes the next entry.
    pub fn enter(&mut self, entry: &Entry<'_>) -> Result<(), StreamError> {
        if self.entries == 0 {
            if !entry.path.is_empty() {
                return Err(StreamError::Orphan);
            }
        } else {
            if !is_after(&self.last, entry.path) {
                return Err(StreamError::Order);
            }
            let slash = entry.path.iter().rposition(|b| *b == b'/');
            let parent = &entry.path[..slash.unwrap_or(0)];
            while self.directories.last().is_some_and(|open| open != parent) {
                self.directories.pop();
            }
            if self.directories.is_empty() {
                return Err(StreamError::Orphan);
            }
        }
        if entry.kind == EntryKind::Directory {
            self.directories.push(entry.path.to_vec());
        }
        self.last.clear();
        self.last.extend_from_slice(entry.path);
        self.entries += 1;
        self.hash(&Item::Entry(*entry));
        Ok(())
    }

    /// Takes an item that precedes an entry: about all entries, or about the attributes of the next one.
    pub fn attribute(&mut self, item: &Item<'_>) {
        self.hash(item);
    }

    fn hash(&mut self, item: &Item<'_>) {
        let mut head = [0; HEAD_BYTES_MAX];
        let len = item.emit(&mut head);
        let len = len.expect("an item that was read or made within the limits has room");
        self.heads.update(&head[..len]);
    }

    /// Notes that the content of the last entry is complete.
    pub fn complete(&mut self, digest: &[u8; DIGEST_BYTES]) {
        self.heads.update(digest);
    }

    /// Returns how many entries have been taken.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Returns the digest of the heads and of the completed contents.
    pub fn digest(&self) -> [u8; DIGEST_BYTES] {
        *self.heads.finalize().as_bytes()
    }
}

/// Writes a stream.
#[derive(Debug, Default)]
pub struct Encoder {
    walk: Walk,
    content: blake3::Hasher,
}

impl Encoder {
    /// Begins a stream.
    pub fn begin(out: &mut Vec<u8>) -> Encoder {
        put(&Item::Begin, out);
        Encoder::default()
    }

    /// Writes the totals of all entries, before the first of them.
    pub fn total(&mut self, total: Total, out: &mut Vec<u8>) {
        let item = Item::Total(total);
        self.walk.attribute(&item);
        put(&item, out);
    }

    /// Writes which versions the source speaks of this stream and of the sinks' reports about it. This comes before the
    /// first entry.
    pub fn speaks(&mut self, versions: VersionRange, out: &mut Vec<u8>) {
        put(&Item::Speaks(versions), out);
    }

    /// Writes the next entry, which all sinks have.
    pub fn kept(&mut self, entry: &Entry<'_>, out: &mut Vec<u8>) -> Result<(), StreamError> {
        self.walk.enter(entry)?;
        put(&Item::Kept, out);
        put(&Item::Entry(*entry), out);
        Ok(())
    }

    /// Writes that the next entry's content begins behind this many bytes, which `content` has taken.
    pub fn from(&mut self, offset: u64, content: blake3::Hasher, out: &mut Vec<u8>) {
        put(&Item::From(offset), out);
        self.content = content;
    }

    /// Writes that all sinks have another file under the next entry's path, and will report what is in it.
    pub fn compare(&mut self, out: &mut Vec<u8>) {
        put(&Item::Compare, out);
    }

    /// Writes the owner of the next entry.
    pub fn owner(&mut self, owner: Owner<'_>, out: &mut Vec<u8>) {
        let item = Item::Owner(owner);
        self.walk.attribute(&item);
        put(&item, out);
    }

    /// Writes an extended attribute of the next entry.
    pub fn attribute(&mut self, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        let (mut value, mut goes_on) = (value, true);
        while goes_on {
            let (piece, rest) = value.split_at(value.len().min(VALUE_BYTES_MAX));
            (value, goes_on) = (rest, !rest.is_empty());
            let item = Item::Attribute {
                name,
                goes_on,
                value: piece,
            };
            self.walk.attribute(&item);
            put(&item, out);
        }
    }

    /// Writes that something is not sent, and why. Paths that no item can have are left out.
    pub fn spared(&mut self, path: &[u8], why: &str, out: &mut Vec<u8>) {
        let mut end = why.len().min(REASON_BYTES_MAX);
        while !why.is_char_boundary(end) {
            end -= 1;
        }
        if is_path(path) {
            let why = &why[..end];
            put(&Item::Spared { path, why }, out);
        }
    }

    /// Writes the next entry. If it is a file, pieces of its content follow, and [`Encoder::file_end`].
    pub fn entry(&mut self, entry: &Entry<'_>, out: &mut Vec<u8>) -> Result<(), StreamError> {
        self.walk.enter(entry)?;
        put(&Item::Entry(*entry), out);
        Ok(())
    }

    /// Takes content that is sent behind a [`piece_head`].
    pub fn content(&mut self, bytes: &[u8]) {
        self.content.update(bytes);
    }

    /// Ends the content of a file, and returns its digest.
    pub fn file_end(&mut self, out: &mut Vec<u8>) -> [u8; DIGEST_BYTES] {
        let digest = *self.content.finalize().as_bytes();
        self.content.reset();
        self.walk.complete(&digest);
        out.extend_from_slice(&piece_head(0));
        out.extend_from_slice(&digest);
        digest
    }

    /// Writes that this many zeros follow, which need not be sent.
    pub fn hole(&mut self, len: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&piece_head(HOLE));
        out.extend_from_slice(&len.to_be_bytes());
        self.zeros(len);
    }

    /// Writes that this many bytes, which [`Encoder::content`] has taken, are not sent: the sinks have them.
    pub fn same(&mut self, len: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&piece_head(SAME));
        out.extend_from_slice(&len.to_be_bytes());
    }

    /// Takes this many zeros that are part of the bytes that the sinks have.
    pub fn zeros(&mut self, len: u64) {
        zeros(&mut self.content, len);
    }

    /// Writes that the source cannot read the content any further: the sinks drop this file.
    pub fn give_up(&mut self, out: &mut Vec<u8>) {
        self.content.reset();
        out.extend_from_slice(&piece_head(GIVEN_UP));
    }

    /// Ends the stream, and returns the digest of heads and contents.
    pub fn end(self, out: &mut Vec<u8>) -> [u8; DIGEST_BYTES] {
        let digest = self.walk.digest();
        let entries = self.walk.entries();
        put(&Item::End { entries, digest }, out);
        digest
    }

    /// Returns the entries so far.
    pub fn walk(&self) -> &Walk {
        &self.walk
    }
}

/// Adds this many zeros to the digest.
fn zeros(content: &mut blake3::Hasher, mut len: u64) {
    const ZEROS: &[u8] = &[0; 64 * 1024];
    while len > 0 {
        let some = usize::try_from(len).map_or(ZEROS.len(), |len| len.min(ZEROS.len()));
        content.update(&ZEROS[..some]);
        len -= some as u64;
    }
}

/// Returns the head of a piece of content of this many bytes.
pub fn piece_head(bytes: u32) -> [u8; 4] {
    bytes.to_be_bytes()
}

fn put(item: &Item<'_>, out: &mut Vec<u8>) {
    let mut head = [0; HEAD_BYTES_MAX];
    let len = item
        .emit(&mut head)
        .expect("an item within the limits has room");
    out.extend_from_slice(&head[..len]);
}
