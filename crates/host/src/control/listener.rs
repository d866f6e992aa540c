//! The listening side of the operator's socket. It also handles the file that a killed node leaves.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Why the operator's socket could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Another program answers at that path.
    #[error(
        "{0}: another node is running and answers there; stop it first, or choose another `control_socket`"
    )]
    InUse(PathBuf),
    /// The file at that path is not a socket.
    #[error("{0}: exists and is not a socket; remove it, or choose another `control_socket`")]
    NotASocket(PathBuf),
    /// The system call failed.
    #[error("{path}: {error}; choose another `control_socket`, at most 100 bytes long")]
    Io {
        /// The socket's path.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
}

/// A non-blocking listener. Dropping it removes its file.
#[derive(Debug)]
pub(crate) struct Listener {
    inner: UnixListener,
    path: PathBuf,
    /// Device and inode of our file: if another file has replaced it, it must not be removed.
    file: (u64, u64),
}

impl Listener {
    /// Listens at `path`, a file of mode 0600.
    ///
    /// The socket is created in a directory that no other user can enter. When it has its permissions, it is moved into
    /// place, in one step that also replaces a stale file.
    pub(crate) fn bind(path: &Path) -> Result<Listener, ControlError> {
        refuse_occupied(path)?;
        let io = |error| ControlError::Io {
            path: path.to_owned(),
            error,
        };
        let directory = private_directory(path).map_err(io)?;
        let made = directory.join("c");
        let bound = bind_private(&made).and_then(|(inner, file)| {
            fs::rename(&made, path)?;
            Ok((inner, file))
        });
        let _ = fs::remove_file(&made);
        let _ = fs::remove_dir(&directory);
        let (inner, file) = bound.map_err(io)?;
        Ok(Listener {
            inner,
            path: path.to_owned(),
            file,
        })
    }

    /// Accepts the next waiting connection, if there is one.
    pub(crate) fn accept(&self) -> io::Result<Option<UnixStream>> {
        match self.inner.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(true)?;
                Ok(Some(stream))
            }
            Err(error) if super::would_block(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if inode(&self.path).is_ok_and(|file| file == self.file) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn bind_private(path: &Path) -> io::Result<(UnixListener, (u64, u64))> {
    let listener = UnixListener::bind(path)?;
    listener.set_nonblocking(true)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok((listener, inode(path)?))
}

/// Creates a directory beside `path` that only this user can enter. Its name is short, because the whole path of a
/// socket has at most 107 bytes.
fn private_directory(path: &Path) -> io::Result<PathBuf> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let directory = parent.join(format!(".{:x}", std::process::id()));
    // An earlier process with the same process id may have left one.
    let _ = fs::remove_file(directory.join("c"));
    let _ = fs::remove_dir(&directory);
    DirBuilder::new().mode(0o700).create(&directory)?;
    Ok(directory)
}

/// Fails if a program answers at `path`, or if the file is not a socket.
fn refuse_occupied(path: &Path) -> Result<(), ControlError> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => {
            return Err(ControlError::Io {
                path: path.to_owned(),
                error,
            });
        }
        Ok(file) if !file.file_type().is_socket() => {
            return Err(ControlError::NotASocket(path.to_owned()));
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(ControlError::Io {
            path: path.to_owned(),
            error,
        }),
        _ => Err(ControlError::InUse(path.to_owned())),
    }
}

fn inode(path: &Path) -> io::Result<(u64, u64)> {
    let file = fs::symlink_metadata(path)?;
    Ok((file.dev(), file.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::test_directory;

    #[test]
    fn the_file_is_private_replaces_a_stale_one_and_goes() {
        let dir = test_directory("control-file");
        let path = dir.join("ams.ctl");
        // A killed node leaves a file at which nobody listens.
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let listener = Listener::bind(&path).unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        let entries: Vec<_> = fs::read_dir(&dir)
            .unwrap()
            .map(|e| e.unwrap().path())
            .collect();
        assert!(entries == [&*path], "nothing else is left: {entries:?}");

        UnixStream::connect(&path).unwrap();
        assert!(listener.accept().unwrap().is_some() && listener.accept().unwrap().is_none());
        assert!(matches!(Listener::bind(&path), Err(ControlError::InUse(_))));
        drop(listener);
        assert!(!path.exists());

        fs::write(&path, "precious").unwrap();
        assert!(matches!(
            Listener::bind(&path),
            Err(ControlError::NotASocket(_))
        ));
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_file_that_replaced_ours_stays() {
        let dir = test_directory("control-replaced");
        let path = dir.join("ams.ctl");
        let old = Listener::bind(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let new = Listener::bind(&path).unwrap();
        drop(old);
        assert!(path.exists());
        drop(new);
        assert!(!path.exists());
        let nowhere = dir.join("missing").join("x.ctl");
        assert!(matches!(
            Listener::bind(&nowhere),
            Err(ControlError::Io { .. })
        ));
        fs::remove_dir_all(dir).unwrap();
    }
}
