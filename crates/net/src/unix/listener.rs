//! The listening side. It also handles the file that a killed node leaves.

use super::stream::{SeqStream, unix_name};
use crate::sys;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Number of connections that may wait to be accepted. A thousand clients that reconnect at once, after the node was
/// restarted, fit; the kernel caps it at net.core.somaxconn.
const BACKLOG: libc::c_int = 1024;
/// How often locking the directory is tried, 10 ms apart: two seconds, because a node holds the lock only for a few
/// system calls.
const LOCK_TRIES: usize = 200;

/// Why a listener could not be bound.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// Another program answers at that path.
    #[error(
        "{0}: another node is running and answers there; stop it first, or choose another path"
    )]
    InUse(PathBuf),
    /// The file at that path is not a socket.
    #[error("{0}: exists and is not a socket; remove it, or choose another path")]
    NotASocket(PathBuf),
    /// The path does not fit into a socket address.
    #[error("{0}: too long for a socket, at most 107 bytes; choose a shorter path")]
    TooLong(PathBuf),
    /// Another process holds the lock of the directory.
    #[error("{0}: the directory stays locked by another process; see `lslocks`")]
    Locked(PathBuf),
    /// The system call failed.
    #[error("{path}: {error}")]
    Io {
        /// The socket's path.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
}

/// A non-blocking listener. Dropping it removes its file.
#[derive(Debug)]
pub struct SeqListener {
    fd: OwnedFd,
    path: PathBuf,
    /// Device and inode of our file: if another file has replaced it, it must not be removed.
    file: (u64, u64),
    /// A spare descriptor. If the process is out of descriptors, it is released for a moment, so that a client can be
    /// refused instead of staying in the backlog and waking the loop for ever.
    reserve: Option<OwnedFd>,
}

impl SeqListener {
    /// Listens at `path`, a file with the permissions `mode` (such as `0o660`): connecting needs the right to write.
    ///
    /// A socket file at which nobody answers is replaced, because a killed node leaves one. A running node is never
    /// disturbed, even if two start at the same moment.
    pub fn bind(path: &Path, mode: u32) -> Result<SeqListener, BindError> {
        SeqListener::bind_within(path, mode, LOCK_TRIES)
    }

    /// Does the same, with this many tries to lock the directory.
    pub(super) fn bind_within(
        path: &Path,
        mode: u32,
        tries: usize,
    ) -> Result<SeqListener, BindError> {
        let io = |error| BindError::Io {
            path: path.to_owned(),
            error,
        };
        if unix_name(path).is_none() {
            return Err(BindError::TooLong(path.to_owned()));
        }
        // The lock is held until the socket listens; a file that is found stale stays so until it is replaced.
        let _lock = lock_directory(path, tries)?;
        let fd = match bind(path, mode) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                remove_stale(path)?;
                bind(path, mode)
            }
            other => other,
        }
        .map_err(io)?;
        // SAFETY: no pointers are involved.
        sys::check(unsafe { libc::listen(fd.as_raw_fd(), BACKLOG) }).map_err(io)?;
        // The umask may have removed bits at bind. Nobody could connect before.
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(io)?;
        let file = inode(path).map_err(io)?;
        Ok(SeqListener {
            fd,
            path: path.to_owned(),
            file,
            reserve: reserve(),
        })
    }

    /// Accepts the next waiting connection, if there is one. If the process is out of descriptors, the client is
    /// refused and the error returned.
    pub fn accept(&mut self) -> io::Result<Option<SeqStream>> {
        // Another process may have taken the last one when this one was refused.
        if self.reserve.is_none() {
            self.reserve = reserve();
        }
        loop {
            match self.accept_fd() {
                Ok(fd) => return Ok(Some(SeqStream::from_fd(fd))),
                Err(error) => match sys::errno(&error) {
                    libc::EAGAIN => return Ok(None),
                    libc::EINTR | libc::ECONNABORTED => {}
                    libc::EMFILE | libc::ENFILE if self.reserve.is_some() => {
                        self.reserve = None;
                        drop(self.accept_fd());
                        self.reserve = reserve();
                        return Err(error);
                    }
                    _ => return Err(error),
                },
            }
        }
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn accept_fd(&self) -> io::Result<OwnedFd> {
        let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        let none = std::ptr::null_mut();
        // SAFETY: "when addr is NULL, nothing is filled in; in this case, addrlen is not used".
        sys::own(unsafe { libc::accept4(self.fd.as_raw_fd(), none, std::ptr::null_mut(), flags) })
    }
}

impl AsFd for SeqListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for SeqListener {
    fn drop(&mut self) {
        if inode(&self.path).is_ok_and(|file| file == self.file) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Creates a bound socket that does not listen yet. Its file never has wider permissions than `mode`.
fn bind(path: &Path, mode: u32) -> io::Result<OwnedFd> {
    let fd = sys::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET)?;
    // Linux gives the file the mode of the socket, less the umask. Because it is set before, the file never has wider
    // permissions.
    // SAFETY: no pointers are involved.
    sys::check(unsafe { libc::fchmod(fd.as_raw_fd(), mode as libc::mode_t) })?;
    let (name, len) = unix_name(path).ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: `name` is an address of `len` bytes.
    sys::check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const name).cast(), len) })?;
    Ok(fd)
}

/// Removes the socket file if nobody answers there.
fn remove_stale(path: &Path) -> Result<(), BindError> {
    let io = |error| BindError::Io {
        path: path.to_owned(),
        error,
    };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io(error)),
        Ok(file) if !file.file_type().is_socket() => {
            return Err(BindError::NotASocket(path.to_owned()));
        }
        Ok(_) => {}
    }
    match SeqStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(io(error)),
        // A program answers, its backlog is full (EAGAIN), or the socket is of another type (EPROTOTYPE).
        _ => return Err(BindError::InUse(path.to_owned())),
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io(error)),
        _ => Ok(()),
    }
}

/// Locks the directory of `path` against other processes that bind in it. The kernel releases the lock when this
/// process ends, however it ends, and there is no lock file that could be left behind.
fn lock_directory(path: &Path, tries: usize) -> Result<OwnedFd, BindError> {
    let io = |error| BindError::Io {
        path: path.to_owned(),
        error,
    };
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let name = CString::new(directory.as_os_str().as_bytes())
        .map_err(|_| io(io::ErrorKind::InvalidInput.into()))?;
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    // SAFETY: `name` is a string that ends with zero.
    let fd = sys::own(unsafe { libc::open(name.as_ptr(), flags) }).map_err(io)?;
    for _ in 0..tries {
        // SAFETY: no pointers are involved.
        match sys::check(unsafe { libc::flock(fd.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) }) {
            Ok(_) => return Ok(fd),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(error) => return Err(io(error)),
        }
    }
    Err(BindError::Locked(directory.to_owned()))
}

fn inode(path: &Path) -> io::Result<(u64, u64)> {
    let file = fs::symlink_metadata(path)?;
    Ok((file.dev(), file.ino()))
}

fn reserve() -> Option<OwnedFd> {
    fs::File::open("/dev/null").ok().map(OwnedFd::from)
}
