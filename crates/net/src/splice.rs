//! Moving bytes from one socket to another within the kernel, by splice(2) through a pipe.
//!
//! ```text
//!   socket ──splice──▶ pipe ──splice──▶ socket        nothing is copied through this process
//! ```

use crate::sys;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// What a pipe is asked to hold: four of the default, the most that an ordinary user may ask for.
const PIPE_BYTES: libc::c_int = 1 << 20;

/// A pipe, and what it holds.
#[derive(Debug)]
pub struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
    capacity: usize,
    held: usize,
}

impl Pipe {
    /// A pipe, as large as is permitted.
    pub fn new() -> io::Result<Pipe> {
        let mut fds = [-1; 2];
        // SAFETY: "The array pipefd is used to return two file descriptors": it has room for two.
        sys::check(unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) })?;
        // SAFETY: both are new and nobody else's.
        let [read, write] = fds.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
        // SAFETY: no pointers are involved. A refusal leaves the pipe as it was.
        let capacity = unsafe { libc::fcntl(write.as_raw_fd(), libc::F_SETPIPE_SZ, PIPE_BYTES) };
        Ok(Pipe {
            read,
            write,
            capacity: usize::try_from(capacity).unwrap_or(1 << 16),
            held: 0,
        })
    }

    /// Moves what is there into the pipe, at most `limit` bytes, waiting as `from` waits; 0 at the
    /// end.
    pub fn fill(&mut self, from: impl AsFd, limit: usize) -> io::Result<usize> {
        let len = limit.min(self.capacity - self.held.min(self.capacity));
        let moved = splice(from, &self.write, len)?;
        self.held += moved;
        Ok(moved)
    }

    /// Moves all that the pipe holds on.
    pub fn drain(&mut self, to: impl AsFd) -> io::Result<()> {
        while self.held > 0 {
            match splice(&self.read, &to, self.held)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                moved => self.held -= moved.min(self.held),
            }
        }
        Ok(())
    }
}

fn splice(from: impl AsFd, to: impl AsFd, len: usize) -> io::Result<usize> {
    loop {
        // SAFETY: the offsets are null, as they "must be NULL" for a pipe and may be for a socket.
        let moved = unsafe {
            libc::splice(
                from.as_fd().as_raw_fd(),
                std::ptr::null_mut(),
                to.as_fd().as_raw_fd(),
                std::ptr::null_mut(),
                len,
                libc::SPLICE_F_MOVE,
            )
        };
        match sys::check_len(moved) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Moves all that comes until the end, and tells `each` how much at a time.
pub fn copy(from: impl AsFd, to: impl AsFd, mut each: impl FnMut(usize)) -> io::Result<u64> {
    let mut pipe = Pipe::new()?;
    let mut total = 0;
    loop {
        let moved = pipe.fill(&from, usize::MAX)?;
        if moved == 0 {
            return Ok(total);
        }
        pipe.drain(&to)?;
        total += moved as u64;
        each(moved);
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
            let total = copy(&from, &out, |moved| told += moved as u64).unwrap();
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
        let error = copy(&from, &out, drop).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
