//! Moves bytes from one socket to another within the kernel, by splice(2) through pipes.
//!
//! ```text
//!   socket ──splice──▶ pipe ──splice──▶ socket        nothing is copied through this process
//!
//!   from ──▶ ▓▓▓▓ ▓▓▓▓ ▓░░░ ░░░░ ──▶ to               copy: several pipes, one filled after the other
//! ```
//! Bytes that wait in pipes let a connection continue while the other one recovers from a loss.

use crate::poll::{Polled, poll};
use crate::sys;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The size that is requested for a pipe: the most that an ordinary user may have. It is a power of two, as the kernel
/// requires.
const PIPE_BYTES: usize = 1 << 20;
/// The thread never blocks on a pipe that it fills and empties itself.
const AT_ONCE: libc::c_uint = libc::SPLICE_F_MOVE | libc::SPLICE_F_NONBLOCK;
/// If pipes are small, more than this many are not worth their descriptors.
const PIPES_MAX: usize = 16;

/// A pipe, and how much it holds.
#[derive(Debug)]
pub struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
    capacity: usize,
    held: usize,
}

impl Pipe {
    /// Creates a pipe that is as large as is permitted.
    pub fn new() -> io::Result<Pipe> {
        Pipe::of(PIPE_BYTES)
    }

    /// Creates a pipe of this many bytes, as far as is permitted.
    fn of(bytes: usize) -> io::Result<Pipe> {
        let mut fds = [-1; 2];
        // SAFETY: "The array pipefd is used to return two file descriptors": it has room for two.
        sys::check(unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) })?;
        // SAFETY: both are new and nobody else's.
        let [read, write] = fds.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
        let asked = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
        // SAFETY: no pointers are involved. A refusal leaves the pipe as it was.
        let capacity = unsafe { libc::fcntl(write.as_raw_fd(), libc::F_SETPIPE_SZ, asked) };
        Ok(Pipe {
            read,
            write,
            capacity: usize::try_from(capacity).unwrap_or(1 << 16),
            held: 0,
        })
    }

    /// Moves available bytes into the pipe, which is empty. It blocks as `from` does. Returns 0 at the end.
    pub fn fill(&mut self, from: impl AsFd) -> io::Result<usize> {
        self.take(from, libc::SPLICE_F_MOVE)
    }

    /// Moves everything in the pipe to `to`. It blocks as `to` does.
    pub fn drain(&mut self, to: impl AsFd) -> io::Result<()> {
        while self.held > 0 {
            self.give(&to, libc::SPLICE_F_MOVE)?;
        }
        Ok(())
    }

    fn take(&mut self, from: impl AsFd, flags: libc::c_uint) -> io::Result<usize> {
        let room = self.capacity.saturating_sub(self.held);
        let moved = splice(from, &self.write, room, flags)?;
        self.held += moved;
        Ok(moved)
    }

    fn give(&mut self, to: impl AsFd, flags: libc::c_uint) -> io::Result<usize> {
        match splice(&self.read, &to, self.held, flags)? {
            0 => Err(io::ErrorKind::WriteZero.into()),
            moved => {
                self.held -= moved.min(self.held);
                Ok(moved)
            }
        }
    }
}

fn splice(from: impl AsFd, to: impl AsFd, len: usize, flags: libc::c_uint) -> io::Result<usize> {
    loop {
        // SAFETY: the offsets are null, as they "must be NULL" for a pipe and may be for a socket.
        let moved = unsafe {
            libc::splice(
                from.as_fd().as_raw_fd(),
                std::ptr::null_mut(),
                to.as_fd().as_raw_fd(),
                std::ptr::null_mut(),
                len,
                flags,
            )
        };
        match sys::check_len(moved) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Moves everything until the end, and passes to `each` how many bytes were moved at a time. Neither socket may block.
/// At most `hold` bytes wait in between, if the kernel provides such pipes.
pub fn copy(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    hold: usize,
    mut each: impl FnMut(usize),
) -> io::Result<u64> {
    let mut pipes = Pipes::new(hold)?;
    let mut total = 0;
    loop {
        let moved = pipes.fill(from)?;
        let given = pipes.drain(to)?;
        if given > 0 {
            total += given as u64;
            each(given);
        } else if pipes.has_ended && pipes.is_empty() {
            return Ok(total);
        } else if moved == 0 {
            pipes.wait(from, to)?;
        }
    }
}

/// Pipes that are filled one after the other, and emptied in that order.
struct Pipes {
    /// Pipes that hold something, the one that was filled first at the front.
    filled: VecDeque<Pipe>,
    empty: Vec<Pipe>,
    /// The last filled pipe accepts no more before it has been emptied.
    is_full: bool,
    has_ended: bool,
}

impl Pipes {
    fn new(hold: usize) -> io::Result<Pipes> {
        let share = hold.clamp(1, PIPE_BYTES);
        let share = 1 << share.ilog2();
        let first = Pipe::of(share)?;
        let count = (hold / first.capacity).clamp(1, PIPES_MAX);
        let mut empty = vec![first];
        // If there are no more descriptors, fewer pipes suffice.
        empty.extend((1..count).map_while(|_| Pipe::of(share).ok()));
        Ok(Pipes {
            filled: VecDeque::new(),
            empty,
            is_full: true,
            has_ended: false,
        })
    }

    fn is_empty(&self) -> bool {
        self.filled.is_empty()
    }

    fn has_room(&self) -> bool {
        !self.has_ended && (!self.is_full || !self.empty.is_empty())
    }

    /// Takes in available bytes. Returns 0 if there are none, or no room.
    fn fill(&mut self, from: BorrowedFd<'_>) -> io::Result<usize> {
        while self.has_room() {
            if self.is_full {
                // An empty pipe accepts anything, so a refusal shows that there is nothing.
                let Some(pipe) = self.empty.last_mut() else {
                    break;
                };
                let taken = would_block(pipe.take(from, AT_ONCE))?;
                let Some(taken) = taken else { return Ok(0) };
                self.has_ended = taken == 0;
                if taken > 0 {
                    self.filled.extend(self.empty.pop());
                    self.is_full = false;
                }
                return Ok(taken);
            }
            let Some(pipe) = self.filled.back_mut() else {
                self.is_full = true;
                continue;
            };
            let taken = match pipe.held < pipe.capacity {
                true => would_block(pipe.take(from, AT_ONCE))?,
                false => None,
            };
            match taken {
                Some(taken) => {
                    self.has_ended = taken == 0;
                    return Ok(taken);
                }
                // The pipe is full, or nothing is there.
                None if is_readable(from)? => self.is_full = true,
                None => return Ok(0),
            }
        }
        Ok(0)
    }

    /// Passes to `to` what it accepts from the first pipe.
    fn drain(&mut self, to: BorrowedFd<'_>) -> io::Result<usize> {
        let Some(pipe) = self.filled.front_mut() else {
            return Ok(0);
        };
        let given = would_block(pipe.give(to, AT_ONCE))?.unwrap_or(0);
        if pipe.held == 0 {
            self.empty.extend(self.filled.pop_front());
        } else if given > 0 && self.filled.len() == 1 {
            // There is room in it again.
            self.is_full = false;
        }
        Ok(given)
    }

    /// Waits until there is something to take, or `to` accepts something.
    fn wait(&self, from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> io::Result<()> {
        let give = Polled::new(to, false, true);
        let take = Polled::new(from, true, false);
        match (self.has_room(), self.is_empty()) {
            (true, true) => poll(&mut [take], None),
            (true, false) => poll(&mut [take, give], None),
            (false, _) => poll(&mut [give], None),
        }
        .map(drop)
    }
}

/// Returns true if something can be read, or the end.
fn is_readable(from: BorrowedFd<'_>) -> io::Result<bool> {
    let mut polled = [Polled::new(from, true, false)];
    poll(&mut polled, Some(std::time::Duration::ZERO))?;
    Ok(polled[0].readable())
}

/// Returns none if the call would block.
fn would_block<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;
    use std::thread;

    #[test]
    fn all_that_is_written_comes_out_at_the_other_end() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let out = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        let (mut near, from) = UnixStream::pair().unwrap();
        let sent: Vec<u8> = (0..3_000_000u32).map(|i| (i / 7) as u8).collect();
        let expected = sent.clone();
        let writing = thread::spawn(move || near.write_all(&sent).unwrap());
        let moving = thread::spawn(move || {
            let mut told = 0;
            from.set_nonblocking(true).unwrap();
            out.set_nonblocking(true).unwrap();
            let (from, out) = (from.as_fd(), out.as_fd());
            let total = copy(from, out, 1 << 20, |moved| told += moved as u64).unwrap();
            assert_eq!(total, told);
            total
        });
        let mut got = Vec::new();
        far.read_to_end(&mut got).unwrap();
        writing.join().unwrap();
        assert_eq!(moving.join().unwrap(), expected.len() as u64);
        assert_eq!(got, expected);
    }

    #[test]
    fn nobody_to_take_it_is_an_error() {
        let (mut near, from) = UnixStream::pair().unwrap();
        let (out, gone) = UnixStream::pair().unwrap();
        drop(gone);
        near.write_all(b"x").unwrap();
        from.set_nonblocking(true).unwrap();
        out.set_nonblocking(true).unwrap();
        let error = copy(from.as_fd(), out.as_fd(), 1 << 20, drop).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn what_nobody_takes_waits_up_to_the_bound_and_comes_in_order() {
        let (mut near, from) = UnixStream::pair().unwrap();
        let (out, mut far) = UnixStream::pair().unwrap();
        for socket in [&near, &from, &out] {
            socket.set_nonblocking(true).unwrap();
        }
        let mut pipes = Pipes::new(3 << 20).unwrap();
        // Repeat until neither the pipes nor the sockets accept more.
        let mut sent = Vec::new();
        loop {
            let block: Vec<u8> = (0..10_007u32).map(|i| (i / 3 % 251) as u8).collect();
            let written = would_block(near.write(&block)).unwrap();
            let mut moved = 0;
            // Empty everything each time: what comes next goes into the same pipe.
            loop {
                let more = pipes.fill(from.as_fd()).unwrap() + pipes.drain(out.as_fd()).unwrap();
                moved += more;
                if more == 0 {
                    break;
                }
            }
            match written {
                Some(len) => sent.extend_from_slice(&block[..len]),
                None if moved == 0 => break,
                None => {}
            }
        }
        assert!(!pipes.has_room() && pipes.empty.is_empty());
        let held: usize = pipes.filled.iter().map(|pipe| pipe.held).sum();
        assert!(held > 500_000, "{held} wait");
        assert!(pipes.filled.iter().all(|pipe| pipe.held <= pipe.capacity));
        drop(near);
        let reading = thread::spawn(move || {
            let mut got = Vec::new();
            far.read_to_end(&mut got).unwrap();
            got
        });
        while !(pipes.has_ended && pipes.is_empty()) {
            if pipes.fill(from.as_fd()).unwrap() + pipes.drain(out.as_fd()).unwrap() == 0 {
                pipes.wait(from.as_fd(), out.as_fd()).unwrap();
            }
        }
        drop((out, pipes));
        assert!(reading.join().unwrap() == sent);
    }
}
