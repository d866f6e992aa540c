//! Files below a directory, and never outside of it, regardless of the path and of links on its way, by openat2(2) with
//! `RESOLVE_BENEATH`.
//!
//! ```text
//!   Directory::open("/srv/data") ── below("a/b") ──▶ Directory ── create("x"), rename, link ...
//! ```
//! An open directory stays the same one, so nobody can replace it by a link between two calls. Names that a directory
//! gets are single components: a name with a slash in it is refused.

use crate::sys;
use std::ffi::{CString, OsStr};
use std::fs::{File, Metadata, Permissions, ReadDir};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// An open directory.
#[derive(Debug)]
pub struct Directory {
    fd: OwnedFd,
}

impl Directory {
    /// Opens a directory by its path, following links, because the caller is trusted.
    pub fn open(path: &Path) -> io::Result<Directory> {
        let file = File::open(path)?;
        if !file.metadata()?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Directory { fd: file.into() })
    }

    /// Opens a directory below this one; the empty path is this one again. Links that stay below are followed.
    pub fn below(&self, path: &Path) -> io::Result<Directory> {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY;
        let fd = self.open_beneath(path, flags, 0, 0)?;
        Ok(Directory { fd })
    }

    /// Returns the metadata of whatever is at a path below. Links that stay below are followed. Nothing is read.
    pub fn look(&self, path: &Path) -> io::Result<Metadata> {
        File::from(self.open_beneath(path, libc::O_PATH, 0, 0)?).metadata()
    }

    /// Returns the metadata of a name in this directory. A link is not followed.
    pub fn look_at(&self, name: &OsStr) -> io::Result<Metadata> {
        self.thing_at(name)?.metadata()
    }

    /// Opens a name in this directory; a link is not followed. The result cannot be read, but gives access to its other
    /// properties ([`give`], [`permit`], [`path_of`]).
    pub fn thing_at(&self, name: &OsStr) -> io::Result<File> {
        single(name)?;
        let flags = libc::O_PATH | libc::O_NOFOLLOW;
        Ok(File::from(self.open_beneath(
            Path::new(name),
            flags,
            0,
            0,
        )?))
    }

    /// Opens a file below for reading; links that stay below are followed. Anything but a file is refused, without
    /// waiting for it.
    pub fn read(&self, path: &Path) -> io::Result<File> {
        let flags = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOCTTY;
        let file = File::from(self.open_beneath(path, flags, 0, 0)?);
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// Opens a file of this directory for reading, and returns its metadata. A link is refused, and so is anything but
    /// a file.
    pub fn read_at(&self, name: &OsStr) -> io::Result<(File, Metadata)> {
        single(name)?;
        let flags = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_NOFOLLOW;
        let file = File::from(self.open_beneath(Path::new(name), flags, 0, 0)?);
        let metadata = file.metadata()?;
        match metadata.is_file() {
            true => Ok((file, metadata)),
            false => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// Opens a file of this directory for reading and writing, and creates it if it does not exist. A link is refused.
    pub fn create(&self, name: &OsStr, mode: u32) -> io::Result<File> {
        self.create_with(name, mode, 0)
    }

    /// Does the same for a file that must not exist.
    pub fn create_new(&self, name: &OsStr, mode: u32) -> io::Result<File> {
        self.create_with(name, mode, libc::O_EXCL)
    }

    fn create_with(&self, name: &OsStr, mode: u32, more: i32) -> io::Result<File> {
        single(name)?;
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_NOFOLLOW | libc::O_NONBLOCK | more;
        let no_links = libc::RESOLVE_NO_SYMLINKS;
        let fd = self.open_beneath(Path::new(name), flags, mode, no_links)?;
        let file = File::from(fd);
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// Opens a directory of this one, and creates it if it does not exist. A link is refused.
    pub fn enter_or_make(&self, name: &OsStr, mode: u32) -> io::Result<Directory> {
        let made = c_name(name)?;
        // SAFETY: a path that ends in a zero byte and outlives the call.
        let result = unsafe { libc::mkdirat(self.fd.as_raw_fd(), made.as_ptr(), mode) };
        match sys::check(result) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => self.enter(name),
        }
    }

    /// Opens a directory of this one. A link is refused.
    pub fn enter(&self, name: &OsStr) -> io::Result<Directory> {
        single(name)?;
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
        let no_links = libc::RESOLVE_NO_SYMLINKS;
        let fd = self.open_beneath(Path::new(name), flags, 0, no_links)?;
        Ok(Directory { fd })
    }

    /// Creates a link with the text `target`.
    pub fn link(&self, target: &OsStr, name: &OsStr) -> io::Result<()> {
        let (target, name) = (c_text(target)?, c_name(name)?);
        // SAFETY: both end in a zero byte and outlive the call.
        let made = unsafe { libc::symlinkat(target.as_ptr(), self.fd.as_raw_fd(), name.as_ptr()) };
        sys::check(made).map(drop)
    }

    /// Creates one more name in this directory for a file of another one.
    pub fn hard_link(&self, from: &Directory, old: &OsStr, new: &OsStr) -> io::Result<()> {
        let (old, new) = (c_name(old)?, c_name(new)?);
        let (from, to) = (from.fd.as_raw_fd(), self.fd.as_raw_fd());
        // SAFETY: both end in a zero byte and outlive the call.
        let made = unsafe { libc::linkat(from, old.as_ptr(), to, new.as_ptr(), 0) };
        sys::check(made).map(drop)
    }

    /// Returns how many bytes the caller may still write to its file system.
    pub fn free(&self) -> io::Result<u64> {
        // SAFETY: all zero is a valid `statvfs`, which the call fills.
        let mut told: libc::statvfs = unsafe { std::mem::zeroed() };
        // SAFETY: a structure of the right size.
        sys::check(unsafe { libc::fstatvfs(self.fd.as_raw_fd(), &raw mut told) })?;
        Ok(told.f_bavail.saturating_mul(told.f_frsize))
    }

    /// Renames `from` to `to`, and replaces what had that name.
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        let (from, to) = (c_name(from)?, c_name(to)?);
        let fd = self.fd.as_raw_fd();
        // SAFETY: both end in a zero byte and outlive the call.
        sys::check(unsafe { libc::renameat(fd, from.as_ptr(), fd, to.as_ptr()) }).map(drop)
    }

    /// Removes a file or link. It is no error if there is none.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        absent_is_fine(self.unlink(name, 0))
    }

    /// Removes a directory with its content. It is no error if there is none.
    pub fn remove_all(&self, name: &OsStr) -> io::Result<()> {
        single(name)?;
        absent_is_fine(std::fs::remove_dir_all(self.path().join(name)))
    }

    fn unlink(&self, name: &OsStr, flags: i32) -> io::Result<()> {
        let name = c_name(name)?;
        // SAFETY: it ends in a zero byte and outlives the call.
        sys::check(unsafe { libc::unlinkat(self.fd.as_raw_fd(), name.as_ptr(), flags) }).map(drop)
    }

    /// Lists its content. Only the names are reliably of this directory; what they stand for may change.
    pub fn list(&self) -> io::Result<ReadDir> {
        std::fs::read_dir(self.path())
    }

    /// Returns a path by which only this process reaches it.
    pub fn path(&self) -> PathBuf {
        path_of(self)
    }

    /// Returns the directory as a file, for its permissions and times.
    pub fn as_file(&self) -> io::Result<File> {
        Ok(File::from(self.fd.try_clone()?))
    }

    /// Syncs its whole file system to disk.
    pub fn sync_file_system(&self) -> io::Result<()> {
        // SAFETY: no pointers are involved.
        sys::check(unsafe { libc::syncfs(self.fd.as_raw_fd()) }).map(drop)
    }

    fn open_beneath(&self, path: &Path, flags: i32, mode: u32, more: u64) -> io::Result<OwnedFd> {
        let path = match path.as_os_str().is_empty() {
            true => Path::new("."),
            false => path,
        };
        let path = c_text(path.as_os_str())?;
        // SAFETY: all zero is a valid `open_how`.
        let mut how: libc::open_how = unsafe { std::mem::zeroed() };
        how.flags = u64::from((flags | libc::O_CLOEXEC).cast_unsigned());
        how.mode = u64::from(mode);
        how.resolve = libc::RESOLVE_BENEATH | libc::RESOLVE_NO_MAGICLINKS | more;
        // SAFETY: a path that ends in a zero byte, and a structure with its size.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_openat2,
                self.fd.as_raw_fd(),
                path.as_ptr(),
                &raw const how,
                size_of::<libc::open_how>(),
            )
        };
        sys::own(fd as libc::c_int)
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Returns a path by which only this process reaches an open file. It is a link of the kernel: following it leads to
/// the file itself, even if that is a link.
pub fn path_of(thing: &impl AsFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", thing.as_fd().as_raw_fd()))
}

/// Changes owner and group of an open file. A link is changed itself, not its target.
pub fn give(thing: &impl AsFd, uid: u32, gid: u32) -> io::Result<()> {
    let fd = thing.as_fd().as_raw_fd();
    // SAFETY: an empty text that ends in a zero byte.
    let given = unsafe { libc::fchownat(fd, c"".as_ptr(), uid, gid, libc::AT_EMPTY_PATH) };
    sys::check(given).map(drop)
}

/// Changes the permissions of an open file. A link has none of its own, so it is refused.
pub fn permit(thing: &impl AsFd, mode: u32) -> io::Result<()> {
    std::fs::set_permissions(path_of(thing), Permissions::from_mode(mode))
}

/// Locks an open file or directory against all others that lock it; returns false if it is already locked. The lock
/// lasts until the descriptor is closed, however the process ends.
pub fn try_lock(file: impl AsFd) -> io::Result<bool> {
    // SAFETY: no pointers are involved.
    let locked = unsafe { libc::flock(file.as_fd().as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) };
    match sys::check(locked) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns the next range of a file from an offset on that has data; none if only a hole is left.
pub fn data_from(file: impl AsFd, offset: u64) -> io::Result<Option<(u64, u64)>> {
    let seek = |offset: i64, whence| -> io::Result<i64> {
        // SAFETY: no pointers are involved.
        match unsafe { libc::lseek(file.as_fd().as_raw_fd(), offset, whence) } {
            -1 => Err(io::Error::last_os_error()),
            at => Ok(at),
        }
    };
    let offset = i64::try_from(offset).map_err(io::Error::other)?;
    let begin = match seek(offset, libc::SEEK_DATA) {
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => return Ok(None),
        begin => begin?,
    };
    let end = seek(begin, libc::SEEK_HOLE)?;
    Ok(Some((begin.cast_unsigned(), end.cast_unsigned())))
}

fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Checks that a name is a single component that does not lead elsewhere.
fn single(name: &OsStr) -> io::Result<()> {
    let bytes = name.as_bytes();
    match bytes.is_empty() || bytes.contains(&b'/') || bytes == b"." || bytes == b".." {
        true => Err(io::ErrorKind::InvalidInput.into()),
        false => Ok(()),
    }
}

fn c_name(name: &OsStr) -> io::Result<CString> {
    single(name)?;
    c_text(name)
}

fn c_text(text: &OsStr) -> io::Result<CString> {
    CString::new(text.as_bytes()).map_err(|_| io::ErrorKind::InvalidInput.into())
}

#[cfg(test)]
mod tests;
