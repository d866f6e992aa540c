//! The target of a copy: data is stored beside it until all is complete and verified, and then moved into place.
//!
//! ```text
//!   .NAME.sinew-part     what has come: a file, or a new directory with all in it
//!   .NAME.sinew-journal  the file that is being written; locked
//!   NAME                 by renaming, once the stream has ended and its digests are right
//! ```
//! Whatever ends the process, a file or a new directory is either the old one or the complete new one. An existing
//! directory is updated in place, and each file in it is replaced as a whole or not at all. A new attempt checks what
//! already exists, and reports it. Files that only another sink of the copy lacks are left unchanged. Two transfers to
//! one target would damage each other's parts, so the journal is locked, and the second transfer fails.

mod basis;
mod files;
mod gone;
mod journal;
pub mod orphans;
mod partial;
#[cfg(test)]
mod tests;
mod there;

use super::failure::{Failure, FailureKind};
use super::pump::Outcome;
use super::tree::Head;
use base::NodeAddr;
use basis::Changed;
use files::Files;
use gone::Gone;
use net::beneath::Directory;
use relay::Event;
use relay::resume::{KEYS_MAX, PIECE_BYTES};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
pub(super) use there::There;
use wire::relay::entry::{EntryKind, NAME_BYTES_MAX};
use wire::relay::{Open, TRANSFER_BYTES};

const PART: &str = ".sinew-part";
const JOURNAL: &str = ".sinew-journal";

/// Number of bytes that are read at once to hash a file.
const READ_BYTES: usize = 256 * 1024;

/// How far beyond the received bytes the sink reports what it already has. This is as far as the source may send ahead,
/// and as much again, so that the source need not wait if everything differs.
const AHEAD_BYTES: u64 = 2 * relay::WINDOW_BYTES;

/// How a copy is stored.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Manner {
    /// The transfer's name.
    pub(super) transfer: [u8; TRANSFER_BYTES],
    /// Existing files are ignored.
    pub(super) fresh: bool,
    /// Entries of a directory that the source's directory does not have are removed.
    pub(super) delete: bool,
    /// Nothing is written.
    pub(super) dry: bool,
    /// Owners and extended attributes are copied.
    pub(super) attributes: bool,
    /// Existing files are identified by their content.
    pub(super) checksum: bool,
}

impl Manner {
    /// Returns what `open` requests.
    pub(super) fn of(open: &Open<'_>) -> Manner {
        Manner {
            transfer: open.transfer,
            fresh: open.fresh,
            delete: open.delete,
            dry: open.dry,
            attributes: open.attributes,
            checksum: open.checksum,
        }
    }
}

/// The target of a copy.
pub enum Place {
    /// A name in a directory.
    Named(Named),
    /// A stream of bytes to somewhere else: a file's content, as it arrives.
    Stream(Box<dyn Write + Send>),
    /// Nothing: the data is only checked.
    Discard,
}

/// A name in a directory.
#[derive(Debug)]
pub struct Named {
    parent: Directory,
    name: OsString,
    /// The requester must not learn the content of existing files.
    is_hidden: bool,
}

impl Named {
    /// Opens `path` below `directory`; if that is a directory, then the name `hint` in it.
    pub fn below(directory: &Directory, path: &Path, hint: Option<&OsStr>) -> io::Result<Named> {
        let is_directory = |path: &Path| match directory.look(path) {
            Ok(found) => Ok(found.is_dir()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            // A link that leads outside is replaced, not followed. If a directory on the way leads outside, opening the
            // parent below fails.
            Err(error) if error.kind() == ErrorKind::CrossesDevices => Ok(false),
            Err(error) => Err(error),
        };
        let (parent, name) = match (is_directory(path)?, hint, path.file_name()) {
            (true, Some(hint), _) => (path, hint),
            (false, _, Some(name)) => (path.parent().unwrap_or(Path::new("")), name),
            (true, None, Some(name)) => (path.parent().unwrap_or(Path::new("")), name),
            (_, _, None) => return Err(ErrorKind::InvalidInput.into()),
        };
        let name = name.to_owned();
        let parent = directory.below(parent)?;
        Ok(Named {
            parent,
            name,
            is_hidden: false,
        })
    }

    /// Does the same for a path of this host. A path that ends in a slash means a directory, and fails if there is
    /// none.
    pub fn at(path: &Path, hint: Option<&OsStr>) -> io::Result<Named> {
        if is_meant_as_directory(path) && !path.is_dir() {
            return Err(ErrorKind::NotADirectory.into());
        }
        let (parent, path) = match (path.is_dir(), hint) {
            (true, Some(hint)) => (path.to_owned(), PathBuf::from(hint)),
            _ => {
                // `.` and `..` stand for directories with other names.
                let path = match path.file_name() {
                    Some(_) => path.to_owned(),
                    None => path.canonicalize()?,
                };
                let parent = path.parent().unwrap_or(Path::new(""));
                let name = path.file_name().ok_or(ErrorKind::InvalidInput)?;
                (parent.to_owned(), PathBuf::from(name))
            }
        };
        let parent = match parent.as_os_str().is_empty() {
            true => Path::new(".").to_owned(),
            false => parent,
        };
        Named::below(&Directory::open(&parent)?, &path, None)
    }

    /// Hides the content of existing files from the requester.
    pub(super) fn hidden(self, is_hidden: bool) -> Named {
        Named { is_hidden, ..self }
    }

    /// Returns true if a directory has the name.
    fn is_directory(&self) -> bool {
        let found = self.parent.look_at(&self.name);
        found.is_ok_and(|found| found.is_dir())
    }

    /// Returns true if something has the name.
    pub fn is_there(&self) -> bool {
        self.parent.look_at(&self.name).is_ok()
    }

    /// Returns the failure for a target that exists and stays.
    pub(super) fn kept(&self, here: NodeAddr) -> Failure {
        let name = shown(&self.name);
        let text =
            format!("`{name}` is there, and stays as it is: that is what --no-clobber asks for");
        Failure::new(here, FailureKind::Exists, text)
    }

    /// Returns the name of a file beside the target, for use during the copy.
    fn with(&self, suffix: &str) -> OsString {
        beside(&self.name, suffix)
    }
}

/// Returns the name of a file beside another one. If it would be too long, the digest of the name is used, so that
/// every attempt finds what another one has left.
fn beside(name: &OsStr, suffix: &str) -> OsString {
    let mut other = OsString::from(".");
    match 1 + name.len() + suffix.len() > NAME_BYTES_MAX {
        true => other.push(blake3::hash(name.as_bytes()).to_hex().as_str()),
        false => other.push(name),
    }
    other.push(suffix);
    other
}

/// Hashes at most this many bytes of a file from its present position. Returns how many it was.
pub(super) fn hash(mut file: &File, most: u64, hasher: &mut blake3::Hasher) -> io::Result<u64> {
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

/// Returns the digest of the file with this head; none if the file has changed.
pub(super) fn digest_of(file: &File, head: &Head) -> io::Result<Option<blake3::Hash>> {
    let mut content = blake3::Hasher::new();
    let read = hash(file, head.size.saturating_add(1), &mut content)?;
    let is_whole = read == head.size && head.is_of(&file.metadata()?);
    Ok(is_whole.then(|| content.finalize()))
}

/// Returns true if the path ends in a slash. `Path` ignores the slash, so the text is checked.
pub(super) fn is_meant_as_directory(path: &Path) -> bool {
    path.as_os_str().as_bytes().ends_with(b"/")
}

/// A copy that is being written.
pub(super) struct Writing {
    here: NodeAddr,
    to: To,
    asked: Option<Asked>,
    /// The entries that would be removed, if nothing is written.
    gone: Option<Gone>,
}

/// The state while a source waits for the keys of the existing file.
struct Asked {
    /// Number of pieces reported so far.
    told: u64,
    /// The first piece that is needed. Earlier ones are not read.
    first: u64,
    end: u64,
}

/// The part that already exists of the file whose content arrives.
pub(super) enum Kept {
    /// The part before the content.
    Beginning(Box<blake3::Hasher>),
    /// All of it: the content is for another sink.
    Whole,
}

enum To {
    Files(Box<Files>),
    Stream(Box<dyn Write + Send>),
    Discard,
}

impl Writing {
    /// Prepares a target, and returns what it already has.
    pub(super) fn begin(
        here: NodeAddr,
        place: Place,
        manner: &Manner,
    ) -> Result<(Writing, There), Failure> {
        let mut gone = None;
        let (to, there) = match place {
            Place::Named(place) if manner.dry => {
                let there = there::look(&place, manner);
                let there = there.map_err(|error| {
                    let name = shown(&place.name);
                    Failure::file(here, format_args!("`{name}`"), &error)
                })?;
                gone = manner.delete.then(|| Gone::of(place)).flatten();
                (To::Discard, there)
            }
            Place::Named(place) => {
                let name = shown(&place.name);
                let begun = Files::begin(place, manner);
                let (files, there) = begun.map_err(|error| match error.kind() {
                    ErrorKind::WouldBlock => {
                        let text = format!(
                            "another transfer writes `{name}`: wait until it is over, or choose \
                             another name"
                        );
                        Failure::new(here, FailureKind::InUse, text)
                    }
                    _ => Failure::file(here, format_args!("`{name}`"), &error),
                })?;
                (To::Files(Box::new(files)), there)
            }
            Place::Stream(stream) => (To::Stream(stream), There::default()),
            Place::Discard => (To::Discard, There::default()),
        };
        let writing = Writing {
            here,
            to,
            asked: None,
            gone,
        };
        Ok((writing, there))
    }

    /// Returns, for the decoder, what is here of the last file, whose content begins at this byte.
    pub(super) fn content(&mut self, from: u64) -> Result<Kept, Failure> {
        let here = self.here;
        let kept = match &mut self.to {
            To::Files(files) => files
                .content(from)
                .map_err(|error| Failure::file(here, "what is there of a file", &error))?,
            To::Stream(_) | To::Discard if from > 0 => None,
            To::Stream(_) | To::Discard => Some(Kept::Beginning(Box::default())),
        };
        kept.ok_or_else(|| not_kept(here))
    }

    /// Notes that the source waits for the keys of the existing file under the path of the last entry. The new file
    /// will have `size` bytes, and its content begins at `from`.
    pub(super) fn compare(&mut self, (from, size): (u64, u64)) {
        let end = match &self.to {
            To::Files(files) => files.pieces(size),
            To::Stream(_) | To::Discard => 0,
        };
        // All keys can be reported at once, however slowly the source reads them.
        let end = end.min(KEYS_MAX as u64);
        let first = from.div_ceil(PIECE_BYTES).min(end);
        self.asked = Some(Asked {
            told: 0,
            first,
            end,
        });
    }

    /// Returns true if the source waits for keys, and has come so near to the reported ones that it might have to wait.
    pub(super) fn is_awaited(&self, at: u64) -> bool {
        let is_near = |asked: &Asked| asked.told * PIECE_BYTES < at.saturating_add(AHEAD_BYTES);
        self.asked.as_ref().is_some_and(is_near)
    }

    /// Returns true if the source waits for keys.
    pub(super) fn is_asked(&self) -> bool {
        self.asked.is_some()
    }

    /// Returns the keys of the next pieces. An empty list means that all were reported; then the source no longer
    /// waits.
    pub(super) fn keys(&mut self) -> Vec<u64> {
        let Some(asked) = &mut self.asked else {
            return Vec::new();
        };
        let keys = match &self.to {
            To::Files(_) if asked.told < asked.first => {
                let more = asked.first - asked.told;
                vec![0; more.min(wire::relay::KEYS_MAX as u64) as usize]
            }
            To::Files(files) => files.keys(asked.told, asked.end),
            To::Stream(_) | To::Discard => Vec::new(),
        };
        asked.told += keys.len() as u64;
        if keys.is_empty() {
            self.asked = None;
        }
        keys
    }

    /// Ends the answer with the file. Returns true if the source waited for more keys and has to be informed.
    pub(super) fn end_answer(&mut self) -> bool {
        self.asked.take().is_some()
    }

    /// Returns the failure if the content has another digest than was sent because the existing file has changed
    /// meanwhile.
    pub(super) fn differs(&mut self) -> Option<Failure> {
        let here = self.here;
        match &mut self.to {
            To::Files(files) => {
                let error = files.differs()?;
                Some(failed(here, files.what(&Event::Begin), &error))
            }
            To::Stream(_) | To::Discard => None,
        }
    }

    /// Takes the next `len` bytes from the existing file, and gives them to the decoder.
    pub(super) fn same(&mut self, len: u64, give: &mut dyn FnMut(&[u8])) -> Outcome {
        let here = self.here;
        match &mut self.to {
            To::Files(files) => {
                let done = files.same(len, give);
                done.map_err(|error| failed(here, files.what(&Event::Same(len)), &error))
            }
            To::Stream(_) | To::Discard => Err(not_kept(here)),
        }
    }

    /// Takes the paths that would be removed, as far as the stream has come, since the last call.
    pub(super) fn gone(&mut self) -> Vec<Vec<u8>> {
        self.gone.as_mut().map_or_else(Vec::new, Gone::take)
    }

    /// Carries out an event of the stream.
    pub(super) fn on_event(&mut self, event: &Event<'_>) -> Result<(), Failure> {
        let here = self.here;
        if let Some(gone) = &mut self.gone {
            let looked = gone.on_event(event);
            looked.map_err(|error| Failure::file(here, "what is there", &error))?;
        }
        match &mut self.to {
            To::Files(files) => {
                let done = files.on_event(event);
                done.map_err(|error| failed(here, files.what(event), &error))
            }
            To::Discard => Ok(()),
            To::Stream(stream) => match event {
                Event::Content(bytes) => stream
                    .write_all(bytes)
                    .map_err(|error| Failure::file(here, "writing", &error)),
                Event::End(_) => stream
                    .flush()
                    .map_err(|error| Failure::file(here, "writing", &error)),
                Event::Hole(len) => io::copy(&mut io::repeat(0).take(*len), stream)
                    .map(drop)
                    .map_err(|error| Failure::file(here, "writing", &error)),
                Event::Entry(entry, _) if entry.kind != EntryKind::File => {
                    let text = "it is a directory: copy it to a path, not to a stream";
                    Err(Failure::new(here, FailureKind::Unusable, text))
                }
                _ => Ok(()),
            },
        }
    }
}

/// Creates the failure of a file operation. If the file was written to during the comparison, it is in use: another
/// attempt will get it whole.
fn failed(here: NodeAddr, what: String, error: &io::Error) -> Failure {
    match Changed::is(error) {
        true => Failure::new(here, FailureKind::InUse, format_args!("{what}: {error}")),
        false => Failure::file(here, what, error),
    }
}

fn not_kept(here: NodeAddr) -> Failure {
    let text = "the source goes on behind what is not here: run one version on all nodes";
    Failure::new(here, FailureKind::Corrupt, text)
}

fn shown(name: &OsStr) -> String {
    name.to_string_lossy().into_owned()
}
