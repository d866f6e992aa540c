//! One connection of an operator: it reads lines and sends answers, both within bounds.

use super::rights::Rights;
use super::{error_line, would_block};
use net::epoll::Interest;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

/// The longest request. A certificate or a list of revocations has at most 1100 bytes, 1500 as text, and twice that as
/// JSON with every line break escaped. A network file with 16 successions has 3009 bytes, 4100 as text.
pub const MAX_LINE_BYTES: usize = 8_192;

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    stream: UnixStream,
    input: Vec<u8>,
    /// The present answer, and how many of its bytes the kernel has taken.
    output: Vec<u8>,
    sent: usize,
    last_active: Instant,
    rights: Rights,
    /// Nothing more is read. The connection ends after the last answer.
    ending: bool,
}

/// The operator has closed the connection, or it was closed for violating a limit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Over;

impl Connection {
    /// Wraps a non-blocking stream that has just been accepted.
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

    /// Sends a refusal to an operator for whom there is no room.
    pub(super) fn refuse(mut stream: &UnixStream, text: &str) {
        // If this fails, the operator still sees the end of the connection.
        let _ = stream.write_all((error_line(text) + "\n").as_bytes());
    }

    /// Returns when the operator last sent or read something.
    pub(super) fn last_active(&self) -> Instant {
        self.last_active
    }

    /// Does all work that is possible without waiting. Returns what to wait for then.
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
                // An empty line is ignored, so that a line may end twice.
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

    /// Reads what is there. Returns false if nothing is.
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

    /// Sends the rest of the answer. Returns false if the kernel takes no more now.
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

/// Returns whether to try again at once. If the call would block, the answer is false.
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
