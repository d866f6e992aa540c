//! One end of what is compared: of a stream of a link, of messages that expire, or of a connection of the kernel's.

use client::{MessageStream, Stream};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};

/// What is written and read at once: little, so that the end is soon seen.
const BLOCK_BYTES: usize = 16 << 10;
/// A message, which is a datagram of the link.
const MESSAGE_BYTES: usize = 1_000;

/// An end.
pub(super) enum End {
    Bytes(Stream),
    Messages(MessageStream),
    Tcp(TcpStream),
}

impl End {
    /// Writes until `stop`, or until it cannot.
    pub(super) fn write(&self, stop: impl Fn() -> bool) {
        let block = [0x5a; BLOCK_BYTES];
        let write = || match self {
            End::Bytes(to) => (&mut &*to).write_all(&block),
            End::Messages(to) => to.send(&block[..MESSAGE_BYTES]),
            End::Tcp(to) => (&mut &*to).write_all(&block),
        };
        while !stop() && write().is_ok() {}
    }

    /// Reads until `stop`, or the end, and tells how many bytes came each time.
    pub(super) fn read(&self, stop: impl Fn() -> bool, came: impl Fn(u64)) {
        let mut block = vec![0; BLOCK_BYTES];
        while !stop() {
            let read = match self {
                End::Bytes(from) => (&mut &*from).read(&mut block),
                End::Messages(from) => from.recv(&mut block),
                End::Tcp(from) => (&mut &*from).read(&mut block),
            };
            match read {
                Ok(0) => return,
                Ok(len) => came(len as u64),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return,
            }
        }
    }

    /// Ends it at once: who waits at it goes on.
    pub(super) fn end(&self) {
        match self {
            End::Bytes(stream) => stream.reset(),
            End::Messages(stream) => stream.reset(),
            End::Tcp(connection) => drop(connection.shutdown(Shutdown::Both)),
        }
    }

    /// Messages of the peer that have not come and will not.
    pub(super) fn missed(&self) -> io::Result<u64> {
        match self {
            End::Messages(stream) => Ok(stream.expired()?.missed),
            End::Bytes(_) | End::Tcp(_) => Ok(0),
        }
    }
}
