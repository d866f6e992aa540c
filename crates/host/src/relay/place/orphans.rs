//! What copies have left that nobody goes on with: parts and journals below a directory.
//!
//! ```text
//!   .NAME.sinew-journal   locked: a copy writes NAME, and everything below is left alone
//!   .NAME.sinew-part      older than that, with all in it: goes
//! ```
//! Links are not followed.

use super::{JOURNAL, PART};
use net::beneath::{Directory, try_lock};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Directories in each other: as many as a copy goes into.
const DEPTH_MAX: usize = 256;

/// Removes what nobody has changed for `older` before `now_s` (seconds since 1970), or, if `dry`, only finds it;
/// its paths. What cannot be read is left out.
pub fn clean(root: &Path, older: Duration, now_s: u64, dry: bool) -> io::Result<Vec<PathBuf>> {
    let search = Search {
        until_s: now_s.saturating_sub(older.as_secs()).cast_signed(),
        dry,
    };
    let mut found = Vec::new();
    search.below(&Directory::open(root)?, root, &mut found, 0)?;
    Ok(found)
}

struct Search {
    until_s: i64,
    dry: bool,
}

impl Search {
    fn below(
        &self,
        directory: &Directory,
        path: &Path,
        found: &mut Vec<PathBuf>,
        depth: usize,
    ) -> io::Result<()> {
        let mut entries: Vec<_> = directory.list()?.flatten().collect();
        entries.sort_by_key(std::fs::DirEntry::file_name);
        // Held until all beside them is done, so that no copy begins meanwhile.
        let (mut held, mut in_use) = (Vec::new(), Vec::new());
        for name in entries.iter().map(std::fs::DirEntry::file_name) {
            let Some(target) = of(&name, JOURNAL) else {
                continue;
            };
            match lock(directory, &name) {
                Some(file) => held.push(file),
                None => in_use.push(target.to_vec()),
            }
        }
        for entry in entries {
            let name = entry.file_name();
            let target = of(&name, PART).or_else(|| of(&name, JOURNAL));
            let is_used = |target: &[u8]| in_use.iter().any(|used| used == target);
            match target {
                Some(target) if !is_used(target) && self.is_old(directory, &name, depth) => {
                    if !self.dry {
                        match entry.file_type()?.is_dir() {
                            true => directory.remove_all(&name)?,
                            false => directory.remove(&name)?,
                        }
                    }
                    found.push(path.join(&name));
                }
                Some(_) => {}
                // A directory that is being updated.
                None if is_used(name.as_bytes()) => {}
                None if depth < DEPTH_MAX && entry.file_type()?.is_dir() => {
                    if let Ok(inner) = directory.enter(&name) {
                        self.below(&inner, &path.join(&name), found, depth + 1)?;
                    }
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Nothing of it was changed of late.
    fn is_old(&self, directory: &Directory, name: &OsStr, depth: usize) -> bool {
        let Ok(metadata) = directory.look_at(name) else {
            return false;
        };
        // The time of its content is set by who copies, and that of a change is not.
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
            let is_old = |entry: &std::fs::DirEntry| {
                depth < DEPTH_MAX && self.is_old(&inner, &entry.file_name(), depth + 1)
            };
            entries.iter().all(is_old)
        })
    }
}

/// A journal, unless a copy has it. What cannot be looked at is left alone, too.
fn lock(directory: &Directory, name: &OsStr) -> Option<File> {
    let (file, _) = directory.read_at(name).ok()?;
    try_lock(&file).is_ok_and(|locked| locked).then_some(file)
}

/// The name beside which something with this suffix lies.
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
        let clean_at =
            |days: u64, dry| clean(&dir, week, now.as_secs() + days * 86_400, dry).unwrap();
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
}
