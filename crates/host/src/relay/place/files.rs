//! Files and directories that are being copied into place.
//!
//! ```text
//!   begin ── locked; what is there: keys ──▶ on_event … ──▶ End: times, sync, rename, journal away
//!
//!   a new directory, or a file     in .NAME.sinew-part, which gets the name in the end
//!   a directory that is there      in place, file by file; each beside its name until it is whole
//! ```
//! A complete file gets its time first, and then its name. Therefore, a file with the name, size and time of an entry
//! of the source is complete, and a later attempt need not read it.

mod checked;
mod compared;
mod reserve;

use super::basis::{Basis, Changed};
use super::journal::{Journal, Past};
use super::partial::Partial;
use super::there::{There, found, partial};
use super::{JOURNAL, Kept, Manner, Named, PART, beside, shown};
use crate::relay::attributes::{Attributes, Gathered};
use crate::relay::tree::taken;
use net::beneath::{Directory, try_lock};
use nix::unistd::Uid;
use relay::{Event, resume};
use reserve::Reserve;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::{File, FileTimes, Permissions};
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use wire::relay::entry::{Entry, EntryKind, NO_TIME, SPARSE};
use wire::relay::{Have, TRANSFER_BYTES};

/// How long to wait for a target that another transfer writes: a transfer that was just interrupted may not have
/// noticed it yet.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);
/// The pause between attempts to lock.
const LOCK_PACE: Duration = Duration::from_millis(50);
/// Only their owner can access files and directories until they are complete.
const PART_MODE: u32 = 0o600;
const PART_DIRECTORY_MODE: u32 = 0o700;
/// Largest depth of directories: the same as at a source.
const DEPTH_MAX: usize = 256;
/// From this size on, the beginning of a file is worth keeping: 8 ms at 1 Gbit/s.
const LARGE_BYTES: u64 = 1 << 20;
/// How often the received data is synced to disk, so that a host that is switched off loses no more than that.
const STORE_EVERY: Duration = Duration::from_secs(60);

/// A copy and its target.
pub(super) struct Files {
    place: Named,
    part: OsString,
    journal: Journal,
    /// The target is an existing directory.
    in_place: bool,
    /// Entries of a directory that the source's directory does not have are removed.
    prunes: bool,
    /// Owners and extended attributes are copied.
    takes_attributes: bool,
    /// Existing files were reported by their content.
    is_checked: bool,
    /// The attributes of the next entry.
    gathered: Gathered,
    transfer: [u8; TRANSFER_BYTES],
    /// The keys that were reported to the source, sorted.
    told: Arc<Vec<u64>>,
    /// Disk space of everything that arrives, if the source has reported it, and of what exists of it or is replaced.
    room: u64,
    there: u64,
    /// The beginning of a file that an earlier attempt has left.
    partial: Option<Partial>,
    /// The next entry is compared with the existing file.
    compares: bool,
    /// The existing file, while the content arrives.
    basis: Option<Basis>,
    /// Directories that are not complete, each in the one before.
    open: Vec<Level>,
    file: Option<Current>,
    /// The content that arrives is of a file that exists here: another sink lacks it.
    drops: bool,
    synced: bool,
    /// The target itself is already what the source has.
    is_kept: bool,
    stored: Instant,
}

struct Level {
    path: Vec<u8>,
    directory: Directory,
    mode: u32,
    mtime: Option<SystemTime>,
    attributes: Option<Attributes>,
    /// The names that the source has in it.
    names: HashSet<Vec<u8>>,
}

struct Current {
    file: File,
    /// The hasher of the received bytes, as long as all of them equal the existing file and nothing is written.
    is_there: Option<Box<blake3::Hasher>>,
    /// Some of the received bytes equal the existing file.
    has_same: bool,
    /// Disk space that it needs if it is written.
    missing: u64,
    /// Bytes written so far, including holes.
    bytes: u64,
    reserve: Reserve,
    path: Vec<u8>,
    mode: u32,
    mtime: Option<SystemTime>,
    attributes: Option<Attributes>,
}

impl Files {
    /// Locks the target, and checks what exists.
    pub(super) fn begin(place: Named, manner: &Manner) -> io::Result<(Files, There)> {
        let (part, journal_name) = (place.with(PART), place.with(JOURNAL));
        let file = lock(&place.parent, &journal_name)?;
        let (mut journal, mut past) = Journal::open(file)?;
        let in_place = place.is_directory();
        if manner.fresh {
            past = Past::default();
            discard(&place.parent, &part)?;
            // Later attempts trust only what this attempt and they have written.
            journal.begin_anew()?;
        }
        let looked = found(&place, &part, in_place, &past, manner)?;
        let root = if in_place { &place.name } else { &part };
        let (partial, have) = match past.current.as_deref() {
            Some(head) => partial(&place.parent, root, head, manner).unwrap_or_default(),
            None => Default::default(),
        };
        let there = There {
            have: Have {
                kept: looked.entries,
                ..have
            },
            keys: Arc::new(looked.keys),
        };
        if partial.is_none() {
            journal.on_stored(SystemTime::now())?;
        }
        let files = Files {
            prunes: manner.delete || !in_place,
            takes_attributes: manner.attributes,
            is_checked: manner.checksum,
            gathered: Gathered::default(),
            place,
            part,
            journal,
            in_place,
            transfer: manner.transfer,
            told: Arc::clone(&there.keys),
            room: 0,
            there: looked.room,
            partial,
            compares: false,
            basis: None,
            open: Vec::new(),
            file: None,
            drops: false,
            synced: false,
            is_kept: false,
            stored: Instant::now(),
        };
        Ok((files, there))
    }

    /// Returns what is here of the last file, whose content begins at this byte; none if there is less.
    pub(super) fn content(&mut self, from: u64) -> io::Result<Option<Kept>> {
        let Some(current) = self.file.as_mut().filter(|_| !self.drops) else {
            return Ok(Some(Kept::Whole));
        };
        if from == 0 {
            return Ok(Some(Kept::Beginning(Box::default())));
        }
        let partial = self.partial.take_if(|partial| partial.path == current.path);
        match partial {
            Some(partial) => {
                let content = partial.until(&current.file, from)?;
                Ok(content.map(|content| Kept::Beginning(Box::new(content))))
            }
            None => Ok(None),
        }
    }

    /// Carries out an event of the stream.
    pub(super) fn on_event(&mut self, event: &Event<'_>) -> io::Result<()> {
        match event {
            Event::Begin | Event::Speaks(_) => Ok(()),
            Event::Total(total) => {
                self.room = total.room;
                Ok(())
            }
            Event::Kept(entry) => {
                self.leave(entry.path)?;
                self.is_kept = self.open.is_empty();
                self.touch_kept(entry)?;
                self.settle_kept(entry)
            }
            Event::Owner(_) | Event::Attribute(..) if !self.takes_attributes => {
                Err(io::Error::new(
                    ErrorKind::InvalidData,
                    "attributes came that were not asked for: run one version on all nodes",
                ))
            }
            Event::Owner(owner) => {
                self.gathered.on_owner(owner);
                Ok(())
            }
            Event::Attribute(name, value, goes_on) => {
                self.gathered.on_attribute(name, value, *goes_on);
                Ok(())
            }
            Event::Spared(path, _) => self.leave(path),
            Event::Compare => {
                self.compares = true;
                Ok(())
            }
            // [`Files::same`] handles it.
            Event::Same(_) => Ok(()),
            Event::Entry(entry, from) => self.on_entry(entry, *from),
            Event::Content(_) | Event::Hole(_) if self.drops => Ok(()),
            Event::Content(bytes) => {
                self.write_out()?;
                let current = self.current()?;
                let len = bytes.len() as u64;
                current.reserve.before(&current.file, current.bytes, len);
                current.bytes += len;
                current.file.write_all(bytes)
            }
            Event::Hole(len) => {
                self.write_out()?;
                let current = self.current()?;
                current.reserve.give_back(&current.file, current.bytes)?;
                current.bytes += len;
                current.file.seek(SeekFrom::Start(current.bytes)).map(drop)
            }
            Event::GivenUp | Event::FileEnd(_) if self.drops => {
                self.drops = false;
                Ok(())
            }
            Event::GivenUp => match self.file.take() {
                Some(current) => self.forget(&current.path),
                None => Ok(()),
            },
            Event::FileEnd(_) => self.on_file_end(),
            Event::End(_) => self.on_end(),
        }
    }

    fn current(&mut self) -> io::Result<&mut Current> {
        self.file
            .as_mut()
            .ok_or_else(|| ErrorKind::InvalidData.into())
    }

    /// Opens the existing file under the path of a file that arrives.
    fn basis(&self, entry: &Entry<'_>) -> Option<Basis> {
        match self.open.is_empty() {
            true => Basis::open(&self.place.parent, &self.place.name),
            false => {
                let (directory, name, _) = self.seat(entry.path);
                Basis::open(directory, &name)
            }
        }
    }

    /// Returns the directory of an entry, its name there, and the name of its part beside it.
    fn seat<'a>(&'a self, path: &'a [u8]) -> (&'a Directory, OsString, OsString) {
        match self.open.last() {
            None if self.in_place => (
                &self.place.parent,
                self.place.name.clone(),
                self.part.clone(),
            ),
            None => (&self.place.parent, self.part.clone(), self.part.clone()),
            Some(level) => {
                let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
                let name = OsStr::from_bytes(name);
                (&level.directory, name.to_owned(), beside(name, PART))
            }
        }
    }

    /// Sets the attributes of an existing entry.
    fn settle_kept(&mut self, entry: &Entry<'_>) -> io::Result<()> {
        let Some(attributes) = self.gathered.take() else {
            return Ok(());
        };
        if matches!(entry.kind, EntryKind::Directory | EntryKind::HardLink) {
            return Ok(());
        }
        let thing = match (self.open.is_empty(), self.seat(entry.path)) {
            (true, _) => self.place.parent.thing_at(&self.place.name)?,
            (false, (directory, name, _)) => directory.thing_at(&name)?,
        };
        attributes.settle(&thing, entry.kind, entry.mode)
    }

    /// Returns true if the entry exists here completely, as was reported to the source.
    fn has(&self, entry: &Entry<'_>) -> bool {
        let key = || resume::key(&self.transfer, entry);
        !self.told.is_empty() && self.told.binary_search(&key()).is_ok()
    }

    /// Returns true if it was reported to the source that the existing file can be compared.
    fn has_offered(&self, entry: &Entry<'_>) -> bool {
        let key = resume::path_key(&self.transfer, entry.path);
        self.told.binary_search(&key).is_ok()
    }

    fn on_entry(&mut self, entry: &Entry<'_>, from: u64) -> io::Result<()> {
        self.leave(entry.path)?;
        let compares = std::mem::take(&mut self.compares);
        // A source may also ask without an offer.
        self.basis = match compares && self.has_offered(entry) {
            true => self.basis(entry),
            false => None,
        };
        if entry.kind == EntryKind::File && self.has(entry) {
            self.drops = true;
            self.is_kept = self.open.is_empty();
            return self.settle_kept(entry);
        }
        let attributes = self.gathered.take();
        if self.open.is_empty() {
            self.check_target(entry.kind)?;
            if entry.kind == EntryKind::Directory {
                self.check_room()?;
            }
        }
        let (directory, name, part) = self.seat(entry.path);
        match entry.kind {
            EntryKind::Directory => {
                if self.open.len() >= DEPTH_MAX {
                    return Err(ErrorKind::InvalidFilename.into());
                }
                if directory.look_at(&name).is_ok_and(|found| !found.is_dir()) {
                    directory.remove(&name)?;
                }
                let made = directory.enter_or_make(&name, PART_DIRECTORY_MODE)?;
                let file = made.as_file()?;
                let mode = file.metadata()?.mode() | PART_DIRECTORY_MODE;
                file.set_permissions(Permissions::from_mode(mode & 0o7777))?;
                self.open.push(Level {
                    path: entry.path.to_vec(),
                    directory: made,
                    mode: entry.mode,
                    mtime: time(entry),
                    attributes,
                    names: HashSet::new(),
                });
            }
            EntryKind::Link => {
                make_room(directory, &name, self.prunes)?;
                directory.link(OsStr::from_bytes(entry.target), &name)?;
                if let Some(attributes) = attributes {
                    attributes.settle(&directory.thing_at(&name)?, entry.kind, entry.mode)?;
                }
            }
            EntryKind::HardLink => {
                let target = Path::new(OsStr::from_bytes(entry.target));
                let (Some(root), Some(old)) = (self.open.first(), target.file_name()) else {
                    return Err(ErrorKind::InvalidData.into());
                };
                let parent = target.parent().unwrap_or(Path::new(""));
                let parent = root.directory.below(parent)?;
                make_room(directory, &name, self.prunes)?;
                directory.hard_link(&parent, old, &name)?;
            }
            EntryKind::File => {
                let missing = match entry.mode & SPARSE {
                    0 => entry.size.saturating_sub(from),
                    // In a directory, it is already part of the sum.
                    _ if !self.open.is_empty() => 0,
                    _ => {
                        let part = directory.look_at(&part);
                        self.room
                            .saturating_sub(part.map_or(0, |part| taken(&part)))
                    }
                };
                let stays = from == 0 && self.basis.as_ref().is_some_and(Basis::may_stay);
                let is_there = stays.then(Box::default);
                if is_there.is_none() {
                    check_free(directory, missing)?;
                }
                let mut file = match from {
                    0 => {
                        make_room(directory, &part, true)?;
                        directory.create_new(&part, PART_MODE)?
                    }
                    _ => directory.create(&part, PART_MODE)?,
                };
                if attributes.is_some() && from > 0 {
                    check_own(&file)?;
                }
                file.set_len(from)?;
                file.seek(SeekFrom::Start(from))?;
                // A file of unknown length may be long.
                if entry.size == 0 || entry.size >= LARGE_BYTES {
                    self.journal.begin(entry)?;
                }
                self.file = Some(Current {
                    file,
                    is_there,
                    has_same: false,
                    missing,
                    bytes: from,
                    reserve: match entry.mode & SPARSE == 0 && self.basis.is_none() {
                        true => Reserve::of(entry.size),
                        false => Reserve::none(),
                    },
                    path: entry.path.to_vec(),
                    mode: entry.mode,
                    mtime: time(entry),
                    attributes,
                });
            }
        }
        Ok(())
    }

    /// Completes the directories that do not contain the entry at `path`, and notes that the source has it.
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
        if let Some(level) = self.open.last_mut().filter(|_| self.prunes) {
            let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
            level.names.insert(name.to_vec());
        }
        Ok(())
    }

    fn complete_directory(&mut self) -> io::Result<()> {
        let Some(level) = self.open.pop() else {
            return Ok(());
        };
        if self.prunes {
            for found in level.directory.list()? {
                let found = found?;
                let name = found.file_name();
                if !level.names.contains(name.as_bytes()) {
                    match found.file_type()?.is_dir() {
                        true => level.directory.remove_all(&name)?,
                        false => level.directory.remove(&name)?,
                    }
                }
            }
        }
        let directory = level.directory.as_file()?;
        finish(&directory, level.mode, level.mtime)?;
        match &level.attributes {
            Some(told) => told.settle(&directory, EntryKind::Directory, level.mode),
            None => Ok(()),
        }
    }

    fn on_file_end(&mut self) -> io::Result<()> {
        if self.is_all_there()? {
            return self.stay();
        }
        self.write_out()?;
        self.basis = None;
        let current = self.file.take().ok_or(ErrorKind::InvalidData)?;
        // Nothing was written behind the last hole.
        current.file.set_len(current.bytes)?;
        finish(&current.file, current.mode, current.mtime)?;
        if let Some(attributes) = &current.attributes {
            attributes.settle(&current.file, EntryKind::File, current.mode)?;
        }
        if current.path.is_empty() {
            // It gets its name once the whole stream is verified.
            self.synced = true;
            return current.file.sync_all();
        }
        let (directory, name, part) = self.seat(&current.path);
        make_room(directory, &name, self.prunes)?;
        directory.rename(&part, &name)?;
        self.journal.end()?;
        if self.stored.elapsed() >= STORE_EVERY {
            let now = SystemTime::now();
            self.place.parent.sync_file_system()?;
            self.journal.on_stored(now)?;
            self.stored = Instant::now();
        }
        Ok(())
    }

    /// Removes the part of a file.
    fn forget(&mut self, path: &[u8]) -> io::Result<()> {
        let (directory, _, part) = self.seat(path);
        directory.remove(&part)?;
        self.journal.end()
    }

    fn on_end(&mut self) -> io::Result<()> {
        let was_directory = !self.open.is_empty();
        while !self.open.is_empty() {
            self.complete_directory()?;
        }
        if let Some(partial) = self.partial.take().filter(|_| self.in_place) {
            // The part is of a file that the source no longer has.
            let path = Path::new(OsStr::from_bytes(&partial.path));
            let root = self.place.parent.enter(&self.place.name)?;
            if let (Some(name), Ok(parent)) = (
                path.file_name(),
                root.below(path.parent().unwrap_or(Path::new(""))),
            ) {
                parent.remove(&beside(name, PART))?;
            }
        }
        if !self.synced {
            self.place.parent.sync_file_system()?;
        }
        let parent = &self.place.parent;
        let is_new = was_directory || !self.is_kept;
        if is_new && !self.in_place {
            parent.rename(&self.part, &self.place.name)?;
            parent.as_file()?.sync_all()?;
        }
        discard(parent, &self.part)?;
        parent.remove(&self.place.with(JOURNAL))
    }

    /// Checks, before anything is copied, that a file does not replace a directory, or a directory a file.
    fn check_target(&self, kind: EntryKind) -> io::Result<()> {
        let is_directory = kind == EntryKind::Directory;
        let text = match self.place.parent.look_at(&self.place.name) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
            Ok(found) if found.is_dir() && !is_directory => {
                "it is a directory, and no file takes its place: choose another name"
            }
            Ok(found) if !found.is_dir() && is_directory => {
                "it is a file, and no directory takes its place: remove it, or choose another name"
            }
            Ok(_) => return Ok(()),
        };
        Err(io::Error::new(ErrorKind::AlreadyExists, text))
    }

    /// Checks that there is room for everything, before anything is written.
    fn check_room(&self) -> io::Result<()> {
        let missing = self.room.saturating_sub(self.there);
        match self.in_place {
            true => check_free(&self.place.parent.enter(&self.place.name)?, missing),
            false => check_free(&self.place.parent, missing),
        }
    }

    /// Returns what an event is about, for an error.
    pub(super) fn what(&self, event: &Event<'_>) -> String {
        let name = shown(&self.place.name);
        let inside = match event {
            Event::Entry(entry, _) | Event::Kept(entry) => entry.path,
            _ => self.file.as_ref().map_or(&[][..], |current| &current.path),
        };
        match inside.is_empty() {
            true => format!("`{name}`"),
            false => format!("`{name}/{}`", String::from_utf8_lossy(inside)),
        }
    }
}

impl Drop for Files {
    /// Removes the journal if nothing was received, unless the copy has begun anew: the requester may already have been
    /// told so.
    fn drop(&mut self) {
        let parent = &self.place.parent;
        let has_part = parent.look_at(&self.part).is_ok();
        if !has_part && self.journal.is_empty() {
            // The journal is still locked, so it belongs to this attempt.
            let _ = parent.remove(&self.place.with(JOURNAL));
        }
    }
}

/// Removes what has a name, to make room for something else; a directory only if `prunes` is set.
fn make_room(directory: &Directory, name: &OsStr, prunes: bool) -> io::Result<()> {
    match directory.look_at(name) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(found) if !found.is_dir() => directory.remove(name),
        Ok(_) if prunes => directory.remove_all(name),
        Ok(_) => Err(io::Error::new(
            ErrorKind::AlreadyExists,
            "a directory is in its place: remove it, or say --delete",
        )),
    }
}

fn check_free(directory: &Directory, missing: u64) -> io::Result<()> {
    let free = directory.free()?;
    if missing <= free {
        return Ok(());
    }
    let mb = |bytes: u64| bytes as f64 / 1e6;
    let text = format!(
        "{:.1} MB are to come and {:.1} MB are free",
        mb(missing),
        mb(free)
    );
    Err(io::Error::new(ErrorKind::StorageFull, text))
}

/// Checks that a part that is continued belongs to this process alone, because it will get an owner and rights: another
/// user who can write to it could have own content run with those rights.
fn check_own(part: &File) -> io::Result<()> {
    let found = part.metadata()?;
    match found.uid() == Uid::effective().as_raw() && found.nlink() == 1 {
        true => Ok(()),
        false => {
            let text =
                "its part is of another user or has two names: remove it, or copy with --fresh";
            Err(io::Error::new(ErrorKind::PermissionDenied, text))
        }
    }
}

/// Sets permissions and time of something that is complete.
fn finish(file: &File, mode: u32, mtime: Option<SystemTime>) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(mode & resume::MODE_MASK))?;
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

/// Removes a part of any kind.
fn discard(parent: &Directory, part: &OsStr) -> io::Result<()> {
    make_room(parent, part, true)
}

/// Opens the journal and locks it. The last holder may have removed it meanwhile.
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
