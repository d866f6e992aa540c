//! The beginning of a file that an earlier attempt has left, and its digest at any byte of it.
//!
//! ```text
//!   0 ──── mark ──── mark ── from ── mark ── end      from: read from the mark before it
//! ```
//! Other sinks of the copy may have less of the file, and the stream begins where the shortest beginning ends. That is
//! usually near the end, so the last marks are kept.

use super::hash;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};

/// Distance between marks: a tenth of a second of hashing.
const MARK_BYTES: u64 = 64 << 20;
/// Number of marks that are kept: the last 64 GiB, in 2 MB of memory.
const MARKS_MAX: usize = 1_024;

/// The beginning of a file.
pub(super) struct Partial {
    /// The path of the file within the copy.
    pub(super) path: Vec<u8>,
    /// The state of the hash at some bytes of it; the last mark is its end.
    marks: VecDeque<(u64, blake3::Hasher)>,
}

impl Partial {
    /// Reads all of `file`.
    pub(super) fn read(path: &[u8], file: &File) -> io::Result<Partial> {
        Partial::read_in_steps(path, file, MARK_BYTES)
    }

    fn read_in_steps(path: &[u8], file: &File, step: u64) -> io::Result<Partial> {
        let (mut bytes, mut content) = (0, blake3::Hasher::new());
        let mut marks = VecDeque::new();
        loop {
            let more = hash(file, step, &mut content)?;
            bytes += more;
            if marks.len() == MARKS_MAX {
                marks.pop_front();
            }
            marks.push_back((bytes, content.clone()));
            if more < step {
                return Ok(Partial {
                    path: path.to_vec(),
                    marks,
                });
            }
        }
    }

    /// Returns its length.
    pub(super) fn bytes(&self) -> u64 {
        self.marks.back().map_or(0, |(bytes, _)| *bytes)
    }

    /// Returns the digest of all of it.
    pub(super) fn digest(&self) -> blake3::Hash {
        let end = self.marks.back();
        end.map_or_else(|| blake3::hash(b""), |(_, content)| content.finalize())
    }

    /// Returns the hasher after the first `from` bytes of `file`; none if it is shorter.
    pub(super) fn until(&self, mut file: &File, from: u64) -> io::Result<Option<blake3::Hasher>> {
        if from > self.bytes() {
            return Ok(None);
        }
        let before = self.marks.iter().rev().find(|(bytes, _)| *bytes <= from);
        let (at, mut content) = before.cloned().unwrap_or_default();
        file.seek(SeekFrom::Start(at))?;
        let read = hash(file, from - at, &mut content)?;
        Ok((at + read == from).then_some(content))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::test_directory;
    use std::fs;

    #[test]
    fn a_beginning_has_its_digest_at_any_byte() {
        let dir = test_directory("place-partial");
        let content: Vec<u8> = (0..3_000).map(|i| (i / 7) as u8).collect();
        fs::write(dir.join("part"), &content).unwrap();
        let file = File::open(dir.join("part")).unwrap();
        for step in [1, 700, 1_000, 5_000] {
            (&file).seek(SeekFrom::Start(0)).unwrap();
            let partial = Partial::read_in_steps(b"x", &file, step).unwrap();
            assert_eq!(partial.bytes(), 3_000);
            assert_eq!(partial.digest(), blake3::hash(&content));
            for from in [0, 1, 699, 700, 1_999, 2_000, 3_000] {
                let taken = partial.until(&file, from).unwrap().unwrap();
                let expected = blake3::hash(&content[..from as usize]);
                assert_eq!(taken.finalize(), expected, "{step} {from}");
            }
            assert!(partial.until(&file, 3_001).unwrap().is_none());
        }
        fs::remove_dir_all(dir).unwrap();
    }
}
