//! Where a copy goes: beside its target until all of it is there and verified, then in its place.
//!
//! ```text
//!   .NAME.sinew-part     what has come: a file, or a directory with all in it
//!   .NAME.sinew-journal  which entries are complete, each with the digest of its content; locked
//!   NAME                 by renaming, once the stream has ended and its digests are right
//! ```
//! Whatever ends the process, the target is the old one or the new one, whole. A new attempt reads
//! what is there and checks it by the digests, removes what the journal does not know, and says how
//! far it is ([`Have`]). Two transfers to one target would spoil each other's part, so the journal
//! is locked, and the second is told.

mod files;
mod journal;
#[cfg(test)]
mod tests;

use super::failure::{Failure, FailureKind};
use base::NodeAddr;
use files::Files;
pub(super) use journal::hash;
use net::beneath::Directory;
use relay::{Event, Walk};
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use wire::relay::Have;
use wire::relay::entry::{EntryKind, NAME_BYTES_MAX};

const PART: &str = ".sinew-part";
const JOURNAL: &str = ".sinew-journal";

/// What a copy becomes.
pub enum Place {
    /// A name in a directory.
    Named(Named),
    /// Bytes on their way to somewhere else: a file's content, as it comes.
    Stream(Box<dyn Write + Send>),
    /// Nothing, after it was checked.
    Discard,
}

/// A name in a directory.
#[derive(Debug)]
pub struct Named {
    parent: Directory,
    name: OsString,
}

impl Named {
    /// What is at `path` below `directory`; if that is a directory, then what is called `hint` in it.
    pub fn below(directory: &Directory, path: &Path, hint: Option<&OsStr>) -> io::Result<Named> {
        let is_directory = |path: &Path| match directory.look(path) {
            Ok(found) => Ok(found.is_dir()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            // A link that leads out is replaced and not followed. If it is a directory on the way
            // that leads out, the parent below is refused.
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
        Ok(Named { parent, name })
    }

    /// The same for a path of this host. One that ends in a slash means a directory, and fails where
    /// there is none.
    pub fn at(path: &Path, hint: Option<&OsStr>) -> io::Result<Named> {
        if is_meant_as_directory(path) && !path.is_dir() {
            return Err(ErrorKind::NotADirectory.into());
        }
        let (parent, path) = match (path.is_dir(), hint) {
            (true, Some(hint)) => (path.to_owned(), PathBuf::from(hint)),
            _ => {
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

    /// Something has the name.
    pub fn is_there(&self) -> bool {
        self.parent.look_at(&self.name).is_ok()
    }

    /// What is said of one that is there and stays.
    pub(super) fn kept(&self, here: NodeAddr) -> Failure {
        let name = shown(&self.name);
        let text =
            format!("`{name}` is there, and stays as it is: that is what --no-clobber asks for");
        Failure::new(here, FailureKind::Exists, text)
    }

    /// A name for what lies beside it while it is copied. A name that is too long for that gives way to
    /// its digest, so that every attempt finds what another has left.
    fn with(&self, suffix: &str) -> OsString {
        let mut name = OsString::from(".");
        match 1 + self.name.len() + suffix.len() > NAME_BYTES_MAX {
            true => name.push(blake3::hash(self.name.as_bytes()).to_hex().as_str()),
            false => name.push(&self.name),
        }
        name.push(suffix);
        name
    }
}

/// The path ends in a slash. `Path` forgets it, so the text is looked at.
pub(super) fn is_meant_as_directory(path: &Path) -> bool {
    path.as_os_str().as_bytes().ends_with(b"/")
}

/// A copy on its way into its place.
pub(super) struct Writing {
    here: NodeAddr,
    to: To,
}

enum To {
    Files(Box<Files>),
    Stream(Box<dyn Write + Send>),
    Discard,
}

impl Writing {
    /// Prepares a place, and says what it has already.
    pub(super) fn begin(
        here: NodeAddr,
        place: Place,
        fresh: bool,
    ) -> Result<(Writing, Have), Failure> {
        let (to, have) = match place {
            Place::Named(place) => {
                let name = shown(&place.name);
                let begun = Files::begin(place, fresh);
                let (files, have) = begun.map_err(|error| match error.kind() {
                    ErrorKind::WouldBlock => {
                        let text = format!(
                            "another transfer writes `{name}`: wait until it is over, or choose \
                             another name"
                        );
                        Failure::new(here, FailureKind::InUse, text)
                    }
                    _ => Failure::file(here, format_args!("`{name}`"), &error),
                })?;
                (To::Files(Box::new(files)), have)
            }
            Place::Stream(stream) => (To::Stream(stream), Have::default()),
            Place::Discard => (To::Discard, Have::default()),
        };
        Ok((Writing { here, to }, have))
    }

    /// The stream begins behind so many entries and bytes; what was kept of them, for the decoder.
    pub(super) fn on_begin(
        &mut self,
        skip: u64,
        partial: u64,
    ) -> Result<(Walk, blake3::Hasher), Failure> {
        let here = self.here;
        match &mut self.to {
            To::Files(files) => {
                let resumed = files.resume(skip, partial);
                resumed.map_err(|error| Failure::file(here, "what was kept", &error))
            }
            _ if (skip, partial) == (0, 0) => Ok((Walk::default(), blake3::Hasher::new())),
            _ => Err(not_kept(here)),
        }
    }

    /// Does what the stream says.
    pub(super) fn on_event(&mut self, event: &Event<'_>) -> Result<(), Failure> {
        let here = self.here;
        match &mut self.to {
            To::Files(files) => {
                let done = files.on_event(event);
                done.map_err(|error| Failure::file(here, files.what(event), &error))
            }
            To::Discard => Ok(()),
            To::Stream(stream) => match event {
                Event::Content(bytes) => stream
                    .write_all(bytes)
                    .map_err(|error| Failure::file(here, "writing", &error)),
                Event::End(_) => stream
                    .flush()
                    .map_err(|error| Failure::file(here, "writing", &error)),
                Event::Entry(entry) if entry.kind != EntryKind::File => {
                    let text = "it is a directory: copy it to a path, not to a stream";
                    Err(Failure::new(here, FailureKind::Unusable, text))
                }
                _ => Ok(()),
            },
        }
    }
}

fn not_kept(here: NodeAddr) -> Failure {
    let text = "the source goes on behind what is not here: run one version on all nodes";
    Failure::new(here, FailureKind::Corrupt, text)
}

fn shown(name: &OsStr) -> String {
    name.to_string_lossy().into_owned()
}
