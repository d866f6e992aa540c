//! The part of a copy: files and directories beside the target, and the journal that knows which of
//! them are complete.
//!
//! ```text
//!   begin ── locked, what is kept ──▶ resume ──▶ on_event … ──▶ End: times, sync, rename, journal away
//! ```

use super::journal::{self, Journal, Kept};
use super::{JOURNAL, Named, PART, shown};
use net::beneath::{Directory, try_lock};
use relay::{Event, Walk};
use std::ffi::{OsStr, OsString};
use std::fs::{File, FileTimes, Permissions};
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::{Duration, Instant, SystemTime};
use wire::relay::Have;
use wire::relay::entry::{Entry, EntryKind, NO_TIME};

/// How long a target that another transfer writes is waited for: one that was interrupted a moment
/// ago is still being noticed.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);
/// From one attempt to the next.
const LOCK_PACE: Duration = Duration::from_millis(50);
/// Files and directories are their owner's alone until they are complete.
const PART_MODE: u32 = 0o600;
const PART_DIRECTORY_MODE: u32 = 0o700;
/// Of the permissions, what is taken over: not that a program runs as another user, because the
/// owner is not taken over either.
const MODE_MASK: u32 = 0o1777;
/// Directories in each other: as many as a source goes into.
const DEPTH_MAX: usize = 256;

/// A part, its journal, and the place that it is for.
pub(super) struct Files {
    place: Named,
    part: OsString,
    journal: Journal,
    /// How far earlier attempts have come.
    kept: Kept,
    /// Directories that are not complete, each in the one before.
    open: Vec<Level>,
    file: Option<Current>,
    synced: bool,
}

struct Level {
    path: Vec<u8>,
    directory: Directory,
    mode: u32,
    mtime: Option<SystemTime>,
}

struct Current {
    file: File,
    path: Vec<u8>,
    mode: u32,
    mtime: Option<SystemTime>,
}

impl Files {
    /// Locks the place, and looks what an earlier attempt has left.
    pub(super) fn begin(place: Named, fresh: bool) -> io::Result<(Files, Have)> {
        let (part, journal_name) = (place.with(PART), place.with(JOURNAL));
        let file = lock(&place.parent, &journal_name)?;
        let mut journal = Journal::open(file)?;
        if fresh {
            journal.clear()?;
        }
        let kept = journal.check(&place.parent, &part)?;
        if kept.is_empty() {
            journal.clear()?;
            discard(&place.parent, &part)?;
        } else {
            journal.prune(&place.parent, &part, &kept)?;
        }
        let have = kept.have();
        let files = Files {
            place,
            part,
            journal,
            kept,
            open: Vec::new(),
            file: None,
            synced: false,
        };
        Ok((files, have))
    }

    /// Goes on behind so many entries and bytes; what was kept of them, for the decoder.
    pub(super) fn resume(&mut self, skip: u64, partial: u64) -> io::Result<(Walk, blake3::Hasher)> {
        let parent = &self.place.parent;
        if (skip, partial) == (0, 0) {
            if !self.kept.is_empty() {
                self.journal.clear()?;
                discard(parent, &self.part)?;
            }
            self.kept = Kept::default();
            return Ok((Walk::default(), blake3::Hasher::new()));
        }
        if !self.kept.reaches(skip, partial) {
            return Err(ErrorKind::InvalidData.into());
        }
        if !self.kept.is_at(skip, partial) {
            // Another sink has less: this one goes back to there.
            self.kept = self.journal.cut(parent, &self.part, skip, partial)?;
        }
        let open = std::mem::take(&mut self.kept.directories);
        for (head, path) in open {
            let directory = self.directory(&path)?;
            let entry = journal::entry(&head)?;
            self.open.push(Level {
                path,
                directory,
                mode: entry.mode,
                mtime: time(&entry),
            });
        }
        Ok((self.kept.walk.clone(), self.kept.content.clone()))
    }

    /// A directory of the part, by its path within it.
    fn directory(&self, path: &[u8]) -> io::Result<Directory> {
        let mut directory = self.place.parent.enter(&self.part)?;
        for name in path.split(|b| *b == b'/').filter(|name| !name.is_empty()) {
            directory = directory.enter(OsStr::from_bytes(name))?;
        }
        Ok(directory)
    }

    /// Does what the stream says.
    pub(super) fn on_event(&mut self, event: &Event<'_>) -> io::Result<()> {
        match event {
            Event::Begin { .. } => Ok(()),
            Event::Entry(entry) => self.on_entry(entry),
            Event::Content(bytes) => match &mut self.file {
                Some(current) => current.file.write_all(bytes),
                None => Err(ErrorKind::InvalidData.into()),
            },
            Event::FileEnd(digest) => {
                let current = self.file.take().ok_or(ErrorKind::InvalidData)?;
                finish(&current.file, current.mode, current.mtime)?;
                if current.path.is_empty() {
                    current.file.sync_all()?;
                    self.synced = true;
                }
                self.journal.complete(digest)
            }
            Event::End(_) => self.on_end(),
        }
    }

    fn on_entry(&mut self, entry: &Entry<'_>) -> io::Result<()> {
        self.leave(entry.path)?;
        let part = self.part.clone();
        let (directory, name) = match self.open.last() {
            None => {
                self.check_target(entry.kind)?;
                (&self.place.parent, part.as_os_str())
            }
            Some(level) => {
                let start = match level.path.len() {
                    0 => 0,
                    len => len + 1,
                };
                (&level.directory, OsStr::from_bytes(&entry.path[start..]))
            }
        };
        match entry.kind {
            EntryKind::Directory => {
                if self.open.len() >= DEPTH_MAX {
                    return Err(ErrorKind::InvalidFilename.into());
                }
                let made = directory.enter_or_make(name, PART_DIRECTORY_MODE)?;
                self.open.push(Level {
                    path: entry.path.to_vec(),
                    directory: made,
                    mode: entry.mode,
                    mtime: time(entry),
                });
                self.journal.begin(entry)
            }
            EntryKind::Link => {
                directory.link(OsStr::from_bytes(entry.target), name)?;
                self.journal.begin(entry)
            }
            EntryKind::File => {
                let partial = std::mem::take(&mut self.kept.partial);
                let mut file = match partial {
                    0 => directory.create_new(name, PART_MODE)?,
                    _ => directory.create(name, PART_MODE)?,
                };
                if partial == 0 {
                    self.journal.begin(entry)?;
                } else {
                    file.set_len(partial)?;
                    file.seek(SeekFrom::Start(partial))?;
                }
                self.file = Some(Current {
                    file,
                    path: entry.path.to_vec(),
                    mode: entry.mode,
                    mtime: time(entry),
                });
                Ok(())
            }
        }
    }

    /// Completes the directories that an entry at `path` is not in.
    fn leave(&mut self, path: &[u8]) -> io::Result<()> {
        let is_in = |level: &Level| {
            level.path.is_empty()
                || path
                    .strip_prefix(&level.path[..])
                    .is_some_and(|rest| rest.first() == Some(&b'/'))
        };
        while self.open.last().is_some_and(|level| !is_in(level)) {
            self.complete_directory()?;
        }
        Ok(())
    }

    fn complete_directory(&mut self) -> io::Result<()> {
        if let Some(level) = self.open.pop() {
            finish(&level.directory.as_file()?, level.mode, level.mtime)?;
        }
        Ok(())
    }

    fn on_end(&mut self) -> io::Result<()> {
        while !self.open.is_empty() {
            self.complete_directory()?;
        }
        if !self.synced {
            self.place.parent.sync_file_system()?;
        }
        let parent = &self.place.parent;
        parent.rename(&self.part, &self.place.name)?;
        parent.as_file()?.sync_all()?;
        parent.remove(&self.place.with(JOURNAL))
    }

    /// A directory takes nobody's place, and a file none of a directory: before it is copied.
    fn check_target(&self, kind: EntryKind) -> io::Result<()> {
        let text = match self.place.parent.look_at(&self.place.name) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
            Ok(_) if kind == EntryKind::Directory => {
                "it exists, and a directory is not copied over another: remove it, or choose \
                 another name"
            }
            Ok(found) if found.is_dir() => {
                "it is a directory, and no file takes its place: choose another name"
            }
            Ok(_) => return Ok(()),
        };
        Err(io::Error::new(ErrorKind::AlreadyExists, text))
    }

    /// What an event is about, for an error.
    pub(super) fn what(&self, event: &Event<'_>) -> String {
        let name = shown(&self.place.name);
        let inside = match event {
            Event::Entry(entry) => entry.path,
            _ => self.file.as_ref().map_or(&[][..], |current| &current.path),
        };
        match inside.is_empty() {
            true => format!("`{name}`"),
            false => format!("`{name}/{}`", String::from_utf8_lossy(inside)),
        }
    }
}

impl Drop for Files {
    /// An attempt of which nothing came leaves nothing.
    fn drop(&mut self) {
        let parent = &self.place.parent;
        let has_part = parent.look_at(&self.part).is_ok();
        if !has_part && self.journal.is_empty() {
            // It is locked still, so it is this one's.
            let _ = parent.remove(&self.place.with(JOURNAL));
        }
    }
}

/// Permissions and time of something that is complete.
fn finish(file: &File, mode: u32, mtime: Option<SystemTime>) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(mode & MODE_MASK))?;
    match mtime {
        Some(mtime) => file.set_times(FileTimes::new().set_modified(mtime)),
        None => Ok(()),
    }
}

fn time(entry: &Entry<'_>) -> Option<SystemTime> {
    if entry.mtime_ns == NO_TIME {
        return None;
    }
    let whole = Duration::from_secs(entry.mtime_s.unsigned_abs());
    let second = match entry.mtime_s < 0 {
        true => SystemTime::UNIX_EPOCH.checked_sub(whole)?,
        false => SystemTime::UNIX_EPOCH.checked_add(whole)?,
    };
    second.checked_add(Duration::from_nanos(entry.mtime_ns.into()))
}

/// Removes a part, whatever it is.
fn discard(parent: &Directory, part: &OsStr) -> io::Result<()> {
    match parent.look_at(part) {
        Ok(found) if found.is_dir() => parent.remove_all(part),
        Ok(_) => parent.remove(part),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Opens the journal and locks it. Who had it before may have removed it meanwhile.
fn lock(parent: &Directory, name: &OsStr) -> io::Result<File> {
    let until = Instant::now() + LOCK_PATIENCE;
    loop {
        let file = parent.create(name, PART_MODE)?;
        if try_lock(&file)? {
            let (ours, there) = (file.metadata()?, parent.look_at(name));
            if there.is_ok_and(|there| there.ino() == ours.ino()) {
                return Ok(file);
            }
        } else if Instant::now() >= until {
            return Err(ErrorKind::WouldBlock.into());
        } else {
            std::thread::sleep(LOCK_PACE);
        }
    }
}
