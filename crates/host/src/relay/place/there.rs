//! The part of a copy that a target already has, as it is reported to the source: keys, and the beginning of one file.

use super::basis::may_be_set;
use super::journal::{self, Past};
use super::partial::Partial;
use super::{Manner, Named, PART, beside, digest_of};
use crate::relay::tree::{Content, Found, Head, Tree, Walker};
use net::beneath::Directory;
use relay::resume::{self, COMPARED_BYTES_MIN};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use wire::relay::Have;
use wire::relay::entry::EntryKind;

/// The existing part.
#[derive(Default)]
pub(in crate::relay) struct There {
    pub(in crate::relay) keys: Arc<Vec<u64>>,
    pub(in crate::relay) have: Have,
}

/// Finds what exists, if nothing is to be written.
pub(super) fn look(place: &Named, manner: &Manner) -> io::Result<There> {
    let (part, past) = (place.with(PART), Past::default());
    let looked = found(place, &part, place.is_directory(), &past, manner)?;
    let have = Have {
        kept: looked.entries,
        ..Have::default()
    };
    Ok(There {
        keys: Arc::new(looked.keys),
        have,
    })
}

/// The result of searching the target.
#[derive(Default)]
pub(super) struct Looked {
    /// The keys of what exists and is trusted, and of the paths of what can be compared, sorted.
    pub(super) keys: Vec<u64>,
    /// Number of keys that are of entries.
    pub(super) entries: u64,
    /// Disk space of all files there. In a directory that is updated, some of them may stay in addition to what
    /// arrives: then the sum is too optimistic, and each file is checked again.
    pub(super) room: u64,
}

/// Finds what exists. Choice: if there are more keys than may be reported, those of entries come first, because they
/// save a whole file.
pub(super) fn found(
    place: &Named,
    part: &OsStr,
    in_place: bool,
    past: &Past,
    manner: &Manner,
) -> io::Result<Looked> {
    let is_directory = |name: &OsStr| place.parent.look_at(name).is_ok_and(|found| found.is_dir());
    // A part that is a file is not the target yet, so its name means nothing.
    let (name, believed_ns, anew_ns) = match in_place || !is_directory(part) {
        true => (&*place.name, None, past.anew_ns),
        false => (part, past.believed_ns, None),
    };
    let (mut keys, mut paths, mut room) = (Vec::new(), Vec::new(), 0u64);
    let Ok(tree) = Tree::named(place.parent.below(Path::new(""))?, name) else {
        return Ok(Looked::default());
    };
    let mut tree = tree.sparing(true);
    let mut walker = tree.walk();
    while let Ok(Some(found)) = walker.next() {
        let Found::Entry(head) = found else { continue };
        room = room.saturating_add(head.room);
        let is_believed = !manner.fresh
            && believed_ns.is_none_or(|until| head.changed_ns <= until)
            && anew_ns.is_none_or(|since| head.made_ns > since);
        if head.kind != EntryKind::Directory && is_believed && keys.len() < resume::KEYS_MAX {
            let is_looked_into = manner.checksum && head.kind == EntryKind::File;
            match is_looked_into {
                // The requester must not learn what is in them.
                true if place.is_hidden => {}
                true => keys.extend(content_key(&mut walker, &head, manner)),
                false => keys.push(resume::key(&manner.transfer, &head.entry())),
            }
        }
        let is_compared = !place.is_hidden
            && !manner.fresh
            && head.kind == EntryKind::File
            && head.size >= COMPARED_BYTES_MIN
            && past.compares(&head.path)
            && anew_ns.is_none_or(|since| head.made_ns > since);
        if is_compared && paths.len() < resume::KEYS_MAX {
            paths.push(resume::path_key(&manner.transfer, &head.path));
        }
    }
    let entries = keys.len();
    paths.truncate(resume::KEYS_MAX - entries);
    keys.append(&mut paths);
    keys.sort_unstable();
    Ok(Looked {
        keys,
        entries: entries as u64,
        room,
    })
}

/// Returns the key of a file by its content; none if it cannot be read, or changes meanwhile.
fn content_key(walker: &mut Walker<'_>, head: &Head, manner: &Manner) -> Option<u64> {
    let Content::File(file) = walker.content().ok()?? else {
        return None;
    };
    let digest = digest_of(&file, head).ok()??;
    let is_exact = !may_be_set(&file.metadata().ok()?);
    let entry = head.entry();
    Some(resume::content_key(
        &manner.transfer,
        &entry,
        &digest,
        is_exact,
    ))
}

/// Returns what exists of the file with this head.
pub(super) fn partial(
    parent: &Directory,
    root: &OsStr,
    head: &[u8],
    manner: &Manner,
) -> io::Result<(Option<Partial>, Have)> {
    let entry = journal::entry(head)?;
    let path = Path::new(OsStr::from_bytes(entry.path));
    let file = match path.file_name() {
        None => parent.read(Path::new(root))?,
        Some(name) => {
            let root = parent.enter(root)?;
            let directory = root.below(path.parent().unwrap_or(Path::new("")))?;
            directory.read(Path::new(&beside(name, PART)))?
        }
    };
    let partial = Partial::read(entry.path, &file)?;
    if partial.bytes() == 0 {
        return Ok(Default::default());
    }
    let have = Have {
        kept: 0,
        partial_key: resume::key(&manner.transfer, &entry),
        partial: partial.bytes(),
        partial_digest: *partial.digest().as_bytes(),
    };
    Ok((Some(partial), have))
}
