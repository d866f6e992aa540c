//! Removes what abandoned copies have left: parts and journals below a directory.
//!
//! ```text
//!   .NAME.sinew-journal   young: someone may go on with it; locked: a copy writes NAME
//!                         .NAME.sinew-part, and NAME with all below, are left alone
//!                         old: held only until these two are done, so that no copy begins meanwhile
//!   .NAME.sinew-part      old, with all in it: goes, and then the journal
//! ```
//! The same holds for the journals of the directory itself and of those that contain it, because a copy may update them
//! in place. Links are not followed.

use super::{JOURNAL, PART, beside};
use net::beneath::{Directory, try_lock};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{DirEntry, File};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Largest depth of directories: the same as in a copy.
const DEPTH_MAX: usize = 256;

/// The result.
#[derive(Debug, Default)]
pub struct Cleaned {
    /// The paths that were removed, or would be removed.
    pub removed: Vec<PathBuf>,
    /// The paths that could not be read or removed. All others were checked.
    pub failed: Vec<(PathBuf, io::Error)>,
}

/// Removes what nobody has changed for `older` before `now_s` (seconds since 1970). If `dry`, it only finds it.
#[must_use]
pub fn clean(root: &Path, older: Duration, now_s: u64, dry: bool) -> Cleaned {
    let mut search = Search {
        until_s: now_s.saturating_sub(older.as_secs()).cast_signed(),
        dry,
        found: Cleaned::default(),
    };
    let begun = Directory::open(root).and_then(|directory| Ok((directory, root.canonicalize()?)));
    match begun {
        Err(error) => search.found.failed.push((root.to_owned(), error)),
        Ok((directory, whole)) => {
            if let Some(_held) = search.take_above(&whole) {
                search.below(&directory, root, 0);
            }
        }
    }
    search.found.removed.sort();
    search.found
}

struct Search {
    until_s: i64,
    dry: bool,
    found: Cleaned,
}

/// The files that exist for one name.
#[derive(Default)]
struct Target {
    part: Option<DirEntry>,
    has_journal: bool,
    directory: Option<OsString>,
}

impl Search {
    fn below(&mut self, directory: &Directory, path: &Path, depth: usize) {
        for (journal, target) in self.targets(directory, path, depth) {
            let held = match target.has_journal {
                true => match self.take(directory, &journal) {
                    Some(held) => Some(held),
                    None => continue,
                },
                false => None,
            };
            if let Some(name) = target.directory {
                let path = path.join(&name);
                match directory.enter(&name) {
                    Ok(inner) => self.below(&inner, &path, depth + 1),
                    Err(error) => self.fail(path, error),
                }
            }
            let is_gone = match target.part {
                Some(part) => self.remove_old(directory, &part, path, depth),
                None => true,
            };
            // A young part is continued according to its journal.
            if held.is_some() && is_gone {
                self.note(path.join(&journal), || directory.remove(&journal));
            }
        }
    }

    /// Returns what is in a directory and may be of copies, by the names of their journals.
    fn targets(
        &mut self,
        directory: &Directory,
        path: &Path,
        depth: usize,
    ) -> BTreeMap<OsString, Target> {
        let mut targets: BTreeMap<OsString, Target> = BTreeMap::new();
        let entries = match directory.list() {
            Ok(entries) => entries,
            Err(error) => {
                self.fail(path.to_owned(), error);
                return targets;
            }
        };
        for entry in entries {
            let is_directory = |entry: &DirEntry| entry.file_type().map(|kind| kind.is_dir());
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    self.fail(path.to_owned(), error);
                    continue;
                }
            };
            let name = entry.file_name();
            if of(&name, JOURNAL).is_some() {
                targets.entry(name).or_default().has_journal = true;
            } else if let Some(target) = of(&name, PART) {
                let journal = OsString::from_vec([b".", target, JOURNAL.as_bytes()].concat());
                targets.entry(journal).or_default().part = Some(entry);
            } else if depth < DEPTH_MAX {
                match is_directory(&entry) {
                    Ok(true) => {
                        let target = targets.entry(beside(&name, JOURNAL)).or_default();
                        target.directory = Some(name);
                    }
                    Ok(false) => {}
                    Err(error) => self.fail(path.join(name), error),
                }
            }
        }
        targets
    }

    /// Removes a part if it is old. Returns false if it stays.
    fn remove_old(
        &mut self,
        directory: &Directory,
        part: &DirEntry,
        path: &Path,
        depth: usize,
    ) -> bool {
        let name = part.file_name();
        let is_old = self.is_old(directory, &name, depth);
        is_old
            && self.note(path.join(&name), || match part.file_type()?.is_dir() {
                true => directory.remove_all(&name),
                false => directory.remove(&name),
            })
    }

    /// Removes something, unless this is a dry run. Returns true if it is, or would be, gone.
    fn note(&mut self, path: PathBuf, remove: impl FnOnce() -> io::Result<()>) -> bool {
        let removed = if self.dry { Ok(()) } else { remove() };
        match removed {
            Ok(()) => {
                self.found.removed.push(path);
                true
            }
            Err(error) => {
                self.fail(path, error);
                false
            }
        }
    }

    fn fail(&mut self, path: PathBuf, error: io::Error) {
        // It is no failure if something has disappeared meanwhile.
        if error.kind() != ErrorKind::NotFound {
            self.found.failed.push((path, error));
        }
    }

    /// Takes the lock of an abandoned journal. A journal that cannot be read is left alone, too.
    fn take(&self, directory: &Directory, name: &OsStr) -> Option<File> {
        let found = directory.look_at(name).ok()?;
        if found.ctime() > self.until_s {
            return None;
        }
        let (file, _) = directory.read_at(name).ok()?;
        try_lock(&file).is_ok_and(|locked| locked).then_some(file)
    }

    /// Takes the journals of a directory and of those that contain it; none if a copy may continue with one of them.
    fn take_above(&self, whole: &Path) -> Option<Vec<File>> {
        let mut held = Vec::new();
        for path in whole.ancestors() {
            let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
                continue;
            };
            let journal = beside(name, JOURNAL);
            // Choice: a directory that may be passed but not read counts as having no journal. Copies of its owner are
            // not ours.
            let Ok(parent) = Directory::open(parent) else {
                continue;
            };
            match parent.look_at(&journal) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                _ => held.push(self.take(&parent, &journal)?),
            }
        }
        Some(held)
    }

    /// Returns true if nothing of it was changed recently.
    fn is_old(&self, directory: &Directory, name: &OsStr, depth: usize) -> bool {
        let Ok(metadata) = directory.look_at(name) else {
            return false;
        };
        // A copy sets the time of the content, but not the time of the last change.
        if metadata.ctime() > self.until_s {
            return false;
        }
        if !metadata.is_dir() {
            return true;
        }
        let inner = directory.enter(name).and_then(|inner| {
            let entries = inner.list()?.collect::<io::Result<Vec<_>>>()?;
            Ok((inner, entries))
        });
        inner.is_ok_and(|(inner, entries)| {
            let is_old = |entry: &DirEntry| {
                depth < DEPTH_MAX && self.is_old(&inner, &entry.file_name(), depth + 1)
            };
            entries.iter().all(is_old)
        })
    }
}

/// Returns the name beside which a file with this suffix lies.
fn of<'a>(name: &'a OsStr, suffix: &str) -> Option<&'a [u8]> {
    let name = name.as_bytes().strip_prefix(b".")?;
    name.strip_suffix(suffix.as_bytes())
        .filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::test_directory;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::time::{SystemTime, UNIX_EPOCH};

    #[test]
    fn what_nobody_goes_on_with_goes_and_what_is_in_use_or_new_stays() {
        let dir = test_directory("place-orphans");
        let part = dir.join("sub/.tree.sinew-part");
        fs::create_dir_all(part.join("a")).unwrap();
        fs::write(part.join("a/x"), "x").unwrap();
        fs::write(dir.join("sub/.tree.sinew-journal"), "").unwrap();
        fs::create_dir(dir.join("updated")).unwrap();
        fs::write(dir.join("updated/.f.sinew-part"), "x").unwrap();
        for kept in ["sinew-part", ".sinew-part", "own"] {
            fs::write(dir.join(kept), "x").unwrap();
        }
        std::os::unix::fs::symlink(dir.join("sub"), dir.join("link")).unwrap();
        let journal = File::create(dir.join(".updated.sinew-journal")).unwrap();
        assert!(try_lock(&journal).unwrap());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let week = Duration::from_secs(7 * 86_400);
        let clean_at = |days: u64, dry| {
            let cleaned = clean(&dir, week, now.as_secs() + days * 86_400, dry);
            assert!(cleaned.failed.is_empty(), "{:?}", cleaned.failed);
            cleaned.removed
        };
        assert!(clean_at(6, false).is_empty(), "it is too new");
        let tree = [dir.join("sub/.tree.sinew-journal"), part.clone()];
        assert_eq!(clean_at(8, true), tree);
        assert!(part.exists());
        assert_eq!(clean_at(8, false), tree);
        assert!(!part.exists() && dir.join("updated/.f.sinew-part").exists());
        drop(journal);
        let updated = [".updated.sinew-journal", "updated/.f.sinew-part"];
        assert_eq!(clean_at(8, false), updated.map(|name| dir.join(name)));
        let mut left: Vec<_> = fs::read_dir(&dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        left.sort();
        assert_eq!(
            left,
            [".sinew-part", "link", "own", "sinew-part", "sub", "updated"]
        );
        fs::remove_dir_all(dir).unwrap();
    }

    /// Returns the time in seconds since 1970, this many days from now.
    fn in_days(days: u64) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        now.as_secs() + days * 86_400
    }

    const WEEK: Duration = Duration::from_secs(7 * 86_400);

    #[test]
    fn a_young_journal_is_not_locked_and_what_it_is_of_stays() {
        let dir = test_directory("place-orphans-young");
        fs::create_dir(dir.join("old")).unwrap();
        let [journal, part] = ["journal", "part"].map(|what| format!(".tree.sinew-{what}"));
        for name in [&journal, &part] {
            fs::write(dir.join(name), "x").unwrap();
        }
        let directory = Directory::open(&dir).unwrap();
        let at = |days| Search {
            until_s: (in_days(days) - WEEK.as_secs()).cast_signed(),
            dry: false,
            found: Cleaned::default(),
        };
        assert!(at(6).take(&directory, OsStr::new(&journal)).is_none());
        let held = at(8).take(&directory, OsStr::new(&journal)).unwrap();
        // Another process holds it.
        assert!(at(8).take(&directory, OsStr::new(&journal)).is_none());
        drop(held);
        // An old part exists beside a young journal.
        let mut search = at(8);
        search.until_s = fs::metadata(dir.join(&part)).unwrap().ctime();
        let until = || fs::metadata(dir.join(&journal)).unwrap().ctime() <= search.until_s;
        while until() {
            fs::write(dir.join(&journal), "y").unwrap();
        }
        search.below(&directory, &dir, 0);
        assert!(search.found.removed.is_empty(), "{:?}", search.found);
        let all = [&journal, &part].map(|name| dir.join(name));
        assert_eq!(clean(&dir, WEEK, in_days(8), false).removed, all);
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_copy_into_the_directory_itself_or_around_it_keeps_all_in_it() {
        let dir = test_directory("place-orphans-above");
        let inner = dir.join("top/inner");
        fs::create_dir_all(&inner).unwrap();
        let part = inner.join(".f.sinew-part");
        fs::write(&part, "x").unwrap();
        for journal in [".top.sinew-journal", "top/.inner.sinew-journal"] {
            let held = File::create(dir.join(journal)).unwrap();
            assert!(try_lock(&held).unwrap());
            let cleaned = clean(&inner, WEEK, in_days(8), false);
            assert!(cleaned.removed.is_empty() && part.exists(), "{journal}");
            drop(held);
            // Nobody continues it.
            let cleaned = clean(&inner, WEEK, in_days(8), true);
            assert_eq!(cleaned.removed, [&*part], "{journal}");
            // Somebody may continue it.
            let cleaned = clean(&inner, WEEK, in_days(6), true);
            assert!(cleaned.removed.is_empty(), "{journal}");
        }
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn what_cannot_be_removed_is_told_and_does_not_end_the_rest() {
        use nix::unistd::{Uid, setfsuid};
        let dir = test_directory("place-orphans-failing");
        let parts = ["a/.x.sinew-part", "b/.x.sinew-part", "c/.x.sinew-part"];
        let parts = parts.map(|part| dir.join(part));
        let permit = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        for part in &parts {
            let parent = part.parent().unwrap();
            fs::create_dir(parent).unwrap();
            fs::write(part, "x").unwrap();
            permit(parent, 0o777);
        }
        permit(&dir, 0o755);
        permit(&dir.join("a"), 0o555);
        permit(&dir.join("b"), 0);
        let root = dir.clone();
        // Permissions do not restrict root, so a thread runs as another user.
        let look = move || {
            if Uid::effective().is_root() {
                setfsuid(Uid::from_raw(65_534));
            }
            clean(&root, WEEK, in_days(8), false)
        };
        let cleaned = std::thread::spawn(look).join().unwrap();
        let failed: Vec<_> = cleaned.failed.iter().map(|(path, _)| path).collect();
        assert_eq!(failed, [&parts[0], &dir.join("b")], "{cleaned:?}");
        assert_eq!(cleaned.removed, [&*parts[2]]);
        let nowhere = clean(&dir.join("nowhere"), WEEK, in_days(8), false);
        assert_eq!(nowhere.failed.len(), 1);
        for name in ["a", "b"] {
            permit(&dir.join(name), 0o755);
        }
        fs::remove_dir_all(dir).unwrap();
    }
}
