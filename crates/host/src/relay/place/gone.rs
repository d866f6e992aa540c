//! Determines what a copy with `--delete` would remove, if nothing is written.
//!
//! The stream names what the source has, directory by directory. When a directory ends, it is compared with the
//! existing one, as [`super::files`] does before it removes what was not named.

use super::Named;
use net::beneath::Directory;
use relay::Event;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use wire::relay::entry::{Entry, EntryKind};

/// The comparison of an existing directory with the source.
pub(super) struct Gone {
    place: Named,
    /// Directories of the source that have not ended, each in the one before.
    open: Vec<Level>,
    found: Vec<Vec<u8>>,
}

struct Level {
    path: Vec<u8>,
    /// The same directory here, if it exists.
    directory: Option<Directory>,
    names: HashSet<Vec<u8>>,
}

impl Gone {
    /// Creates it for a target; none if nothing is removed there, or if the requester must not learn what is in it.
    pub(super) fn of(place: Named) -> Option<Gone> {
        let is_listed = place.is_directory() && !place.is_hidden;
        is_listed.then_some(Gone {
            place,
            open: Vec::new(),
            found: Vec::new(),
        })
    }

    /// Takes what was found since the last call.
    pub(super) fn take(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.found)
    }

    /// Takes an event of the stream.
    pub(super) fn on_event(&mut self, event: &Event<'_>) -> io::Result<()> {
        match event {
            Event::Kept(entry) => {
                self.leave(entry.path)?;
                self.on_other_than_directory(entry);
                Ok(())
            }
            Event::Entry(entry, _) => {
                self.leave(entry.path)?;
                match entry.kind {
                    EntryKind::Directory => self.enter(entry.path),
                    _ => self.on_other_than_directory(entry),
                }
                Ok(())
            }
            Event::Spared(path, _) => self.leave(path),
            Event::End(_) => {
                while !self.open.is_empty() {
                    self.complete()?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn enter(&mut self, path: &[u8]) {
        let entered = match self.open.last() {
            None => self.place.parent.enter(&self.place.name).ok(),
            Some(level) => {
                let directory = level.directory.as_ref();
                directory.and_then(|directory| directory.enter(name_of(path)).ok())
            }
        };
        self.open.push(Level {
            path: path.to_vec(),
            directory: entered,
            names: HashSet::new(),
        });
    }

    /// Notes a directory that the entry replaces, if there is one.
    fn on_other_than_directory(&mut self, entry: &Entry<'_>) {
        let directory = self.open.last().and_then(|level| level.directory.as_ref());
        let found = directory.and_then(|directory| directory.look_at(name_of(entry.path)).ok());
        if found.is_some_and(|found| found.is_dir()) {
            self.found.push(entry.path.to_vec());
        }
    }

    /// Completes the directories that do not contain the entry at `path`, and notes that the source has it.
    fn leave(&mut self, path: &[u8]) -> io::Result<()> {
        let is_in = |level: &Level| {
            let rest = path.strip_prefix(&level.path[..]);
            level.path.is_empty() || rest.is_some_and(|rest| rest.first() == Some(&b'/'))
        };
        while self.open.last().is_some_and(|level| !is_in(level)) {
            self.complete()?;
        }
        if let Some(level) = self.open.last_mut() {
            level.names.insert(name_of(path).as_bytes().to_vec());
        }
        Ok(())
    }

    fn complete(&mut self) -> io::Result<()> {
        let Some(level) = self.open.pop() else {
            return Ok(());
        };
        let Some(directory) = level.directory else {
            return Ok(());
        };
        let list = match directory.list() {
            // The copy itself would report this.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return Ok(()),
            other => other?,
        };
        let first = self.found.len();
        for found in list {
            let name = found?.file_name();
            if !level.names.contains(name.as_bytes()) {
                let parent = &level.path[..];
                self.found.push(match parent.is_empty() {
                    true => name.as_bytes().to_vec(),
                    false => [parent, b"/", name.as_bytes()].concat(),
                });
            }
        }
        self.found[first..].sort_unstable();
        Ok(())
    }
}

fn name_of(path: &[u8]) -> &OsStr {
    OsStr::from_bytes(path.rsplit(|byte| *byte == b'/').next().unwrap_or(path))
}
