//! One connection of an operator: lines in, answers out, neither without bounds.

use super::rights::Rights;
use super::{error_line, would_block};
use net::epoll::Interest;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

/// The longest request. A certificate or a list of revocations has at most 1100 bytes, 1500 as
/// text, and twice that as JSON with every line break escaped; a network file with 16 successions 3009, 4100 as text.
pub const MAX_LINE_BYTES: usize = 8_192;

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    stream: UnixStream,
    input: Vec<u8>,
    /// The answer that is under way, and how much of it the kernel has taken.
    output: Vec<u8>,
    sent: usize,
    last_active: Instant,
    rights: Rights,
    /// Nothing more is read; it is over when the last answer has gone.
    ending: bool,
}

/// The operator has gone, or was sent away.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Over;

impl Connection {
    /// A non-blocking stream that has just been accepted.
    pub(super) fn new(stream: UnixStream) -> Connection {
        Connection {
            stream,
            input: Vec::new(),
            output: Vec::new(),
            sent: 0,
            last_active: Instant::now(),
            rights: Rights::Operate,
            ending: false,
        }
    }

    /// Tells one for whom there is no room.
    pub(super) fn refuse(mut stream: &UnixStream, text: &str) {
        // He sees the end of the connection anyway.
        let _ = stream.write_all((error_line(text) + "\n").as_bytes());
    }

    /// When something was last asked or taken.
    pub(super) fn last_active(&self) -> Instant {
        self.last_active
    }

    /// Goes on as far as it goes without waiting; what to wait for then.
    pub(super) fn advance(
        &mut self,
        mut answer: impl FnMut(&str, &mut Rights) -> String,
    ) -> Result<Interest, Over> {
        loop {
            if !self.write()? {
                return Ok(Interest {
                    read: false,
                    write: true,
                });
            }
            if self.ending {
                return Err(Over);
            }
            if let Some(line) = self.take_line() {
                let text = String::from_utf8_lossy(&line);
                // An empty line is a way to end a line twice.
                if !text.trim().is_empty() {
                    let line = answer(text.trim(), &mut self.rights);
                    self.put(line);
                }
            } else if self.input.len() > MAX_LINE_BYTES {
                self.ending = true;
                let text = format!("a request has at most {MAX_LINE_BYTES} bytes on one line");
                self.put(error_line(&text));
            } else if !self.read()? {
                return Ok(Interest::READ);
            }
        }
    }

    fn put(&mut self, line: String) {
        self.output = line.into_bytes();
        self.output.push(b'\n');
        self.sent = 0;
    }

    fn take_line(&mut self) -> Option<Vec<u8>> {
        let end = self.input.iter().position(|byte| *byte == b'\n')?;
        let rest = self.input.split_off(end + 1);
        Some(core::mem::replace(&mut self.input, rest))
    }

    /// Reads what is there; false when nothing is.
    fn read(&mut self) -> Result<bool, Over> {
        let mut bytes = [0; 4_096];
        match self.stream.read(&mut bytes) {
            Ok(0) => Err(Over),
            Ok(len) => {
                self.input.extend_from_slice(&bytes[..len]);
                self.last_active = Instant::now();
                Ok(true)
            }
            Err(error) => retry(&error),
        }
    }

    /// Sends what is left of the answer; false when the kernel takes no more now.
    fn write(&mut self) -> Result<bool, Over> {
        while self.sent < self.output.len() {
            match self.stream.write(&self.output[self.sent..]) {
                Ok(0) => return Err(Over),
                Ok(len) => {
                    self.sent += len;
                    self.last_active = Instant::now();
                }
                Err(error) => {
                    if !retry(&error)? {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }
}

/// Whether to try again at once; not now, if it would block.
fn retry(error: &io::Error) -> Result<bool, Over> {
    match error.kind() {
        io::ErrorKind::Interrupted => Ok(true),
        _ if would_block(error) => Ok(false),
        _ => Err(Over),
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
