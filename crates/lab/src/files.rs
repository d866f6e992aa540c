//! Folders that are removed automatically, and files that are written completely or not at all.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Longest path of the base folder. A socket's path has at most 107 bytes; this leaves 40 for the folder's name and the
/// file's.
const BASE_BYTES_MAX: usize = 67;

/// Writes a secret. Only its owner may read it; a node accepts no other key file.
pub(crate) fn write_secret(path: &Path, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path)?.write_all(text.as_bytes())
}

/// A private folder, accessible to its owner only. Dropping it removes it with everything in it.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    pub(crate) fn new(name: &str) -> io::Result<Scratch> {
        let mut base = std::env::temp_dir();
        if base.as_os_str().len() > BASE_BYTES_MAX {
            base = PathBuf::from("/tmp");
        }
        let process = std::process::id();
        let mut attempt = 0;
        loop {
            let path = base.join(format!("sinew-{name}-{process}-{attempt}"));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Scratch { path }),
                // The folder was left by an earlier process of the same number, or belongs to another part of this
                // process.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < 1000 => {
                    attempt += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps the folder where it is.
    pub(crate) fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // If this fails, the folder is left to the system's own cleaning.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Writes a file so that it has either the old or the new content; a full disk leaves the old one.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(".new");
    let fresh = PathBuf::from(fresh);
    let written = fs::write(&fresh, bytes).and_then(|()| fs::rename(&fresh, path));
    if written.is_err() {
        let _ = fs::remove_file(&fresh);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn scratch_is_private_and_disappears_with_its_content() {
        let (one, two) = (
            Scratch::new("files").unwrap(),
            Scratch::new("files").unwrap(),
        );
        assert_ne!(one.path(), two.path());
        let mode = fs::metadata(one.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        write(&one.path().join("file"), b"content").unwrap();
        let path = one.path().to_owned();
        drop(one);
        assert!(!path.exists());
        assert!(two.path().exists());
    }

    #[test]
    fn a_file_is_replaced_whole_or_left_alone() {
        let dir = Scratch::new("write").unwrap();
        let file = dir.path().join("file");
        for text in [&b"one"[..], b"two"] {
            write(&file, text).unwrap();
            assert_eq!(fs::read(&file).unwrap(), text);
        }
        assert!(write(&dir.path().join("missing/file"), b"x").is_err());
        // A folder has the file's name: nothing is left beside it.
        fs::create_dir(dir.path().join("folder")).unwrap();
        assert!(write(&dir.path().join("folder"), b"x").is_err());
        assert!(!dir.path().join("folder.new").exists());
    }
}
