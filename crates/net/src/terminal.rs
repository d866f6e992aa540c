//! Terminals: their size, and single keys.
//!
//! A program that draws a whole screen reads the [`size`] each time it draws, so that it needs no signal when the
//! window changes. It holds [`Keys`] while it waits: a key is then available at once, without a line break and without
//! an echo, and the terminal is restored when they are dropped.

use crate::sys;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// Number of keys that are read at once: nobody types more in the time of one drawing.
const KEYS_MAX: usize = 64;

/// Returns columns and rows of the terminal at `fd`; none if it is no terminal, or does not know.
pub fn size(fd: impl AsFd) -> Option<(usize, usize)> {
    // SAFETY: all zero is a valid `winsize`.
    let mut size: libc::winsize = unsafe { mem::zeroed() };
    let fd = fd.as_fd().as_raw_fd();
    // SAFETY: "TIOCGWINSZ: get window size, argument: struct winsize *" [ioctl_tty(2)]; `size` is one
    // and outlives the call.
    sys::check(unsafe { libc::ioctl(fd, libc::TIOCGWINSZ, &raw mut size) }).ok()?;
    let known = size.ws_col > 0 && size.ws_row > 0;
    known.then_some((size.ws_col.into(), size.ws_row.into()))
}

/// Standard input, key by key. Dropping it restores the terminal.
pub struct Keys {
    before: libc::termios,
}

impl Keys {
    /// Takes over standard input. Fails if it is no terminal.
    pub fn begin() -> io::Result<Keys> {
        let fd = libc::STDIN_FILENO;
        // SAFETY: all zero is a valid `termios`.
        let mut now: libc::termios = unsafe { mem::zeroed() };
        // SAFETY: "tcgetattr() gets the parameters associated with the object referred by fd and
        // stores them in the termios structure" [termios(3)]; `now` is one.
        sys::check(unsafe { libc::tcgetattr(fd, &raw mut now) })?;
        let before = now;
        now.c_lflag &= !(libc::ICANON | libc::ECHO);
        // "MIN == 0, TIME == 0 (polling read)": a read returns at once [termios(3)].
        now.c_cc[libc::VMIN] = 0;
        now.c_cc[libc::VTIME] = 0;
        // Ctrl-Z would leave a stopped program's screen behind. Ctrl-C is still a signal.
        now.c_cc[libc::VSUSP] = libc::_POSIX_VDISABLE;
        set(&now)?;
        Ok(Keys { before })
    }

    /// Returns the bytes of the keys pressed since the last call.
    pub fn take(&self) -> Vec<u8> {
        let mut keys = vec![0; KEYS_MAX];
        // SAFETY: `keys` has room for that many bytes, and outlives the call.
        let count = unsafe { libc::read(libc::STDIN_FILENO, keys.as_mut_ptr().cast(), KEYS_MAX) };
        keys.truncate(usize::try_from(count).unwrap_or(0));
        keys
    }
}

impl AsFd for Keys {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: standard input stays open for the life of the process: nothing here closes it.
        unsafe { BorrowedFd::borrow_raw(libc::STDIN_FILENO) }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        // If the terminal has gone, nothing needs to be restored.
        let _ = set(&self.before);
    }
}

fn set(to: &libc::termios) -> io::Result<()> {
    // SAFETY: "tcsetattr() sets the parameters associated with the terminal ... from the termios
    // structure referred to by termios_p" [termios(3)]; `to` is one.
    sys::check(unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSADRAIN, to) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_terminal_has_no_size() {
        let (reader, _writer) = io::pipe().unwrap();
        assert_eq!(size(&reader), None);
    }

    #[test]
    fn a_terminal_has_the_size_it_was_given() {
        let (mut main, mut other) = (-1, -1);
        let wanted = libc::winsize {
            ws_row: 24,
            ws_col: 80,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        // SAFETY: "openpty() finds an available pseudoterminal and returns file descriptors ... if
        // name/termp is not NULL"; both pointers are to integers, the size is one [openpty(3)].
        let made = unsafe {
            libc::openpty(
                &raw mut main,
                &raw mut other,
                std::ptr::null_mut(),
                std::ptr::null(),
                &raw const wanted,
            )
        };
        sys::check(made).unwrap();
        let (_main, other) = (sys::own(main).unwrap(), sys::own(other).unwrap());
        assert_eq!(size(&other), Some((80, 24)));
    }
}
