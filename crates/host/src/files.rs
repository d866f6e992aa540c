//! Writes files that a node keeps: completely or not at all, and never with wider permissions than intended.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Writes a file with the permissions `mode`, so that a reader sees the old content or the new.
pub fn write_whole(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let fresh = beside(path);
    // A file left behind by an interrupted run may have other permissions.
    match fs::remove_file(&fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&fresh)?;
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.sync_all());
    let done = written.and_then(|()| fs::rename(&fresh, path));
    if done.is_err() {
        // A full disk must not leave half a file behind.
        let _ = fs::remove_file(&fresh);
    }
    done
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    PathBuf::from(name)
}

/// Creates an empty directory for one test.
#[cfg(test)]
pub(crate) fn test_directory(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("sinew-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_new_content_replaces_the_old_and_the_mode_is_as_asked() {
        let dir = test_directory("files");
        let path = dir.join("secret");
        fs::write(beside(&path), "left over").unwrap();
        for text in ["one", "two"] {
            write_whole(&path, text, 0o600).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert!(!beside(&path).exists());
        let nowhere = dir.join("missing").join("file");
        assert_eq!(
            write_whole(&nowhere, "x", 0o600).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
        fs::remove_dir_all(dir).unwrap();
    }
}
