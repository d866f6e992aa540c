//! One end of a transfer that is compared: a stream of a link, messages that expire, or a connection of the kernel.

use client::{MessageStream, Stream};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};

/// Block size of reads and writes: small, so that the end is noticed soon.
const BLOCK_BYTES: usize = 16 << 10;
/// Bytes of a message, which is one datagram of the link.
const MESSAGE_BYTES: usize = 1_000;

/// One end of a transfer.
pub(super) enum End {
    Bytes(Stream),
    Messages(MessageStream),
    Tcp(TcpStream),
}

impl End {
    /// Writes until `stop`, or until a write fails.
    pub(super) fn write(&self, stop: impl Fn() -> bool) {
        let block = [0x5a; BLOCK_BYTES];
        let write = || match self {
            End::Bytes(to) => (&mut &*to).write_all(&block),
            End::Messages(to) => to.send(&block[..MESSAGE_BYTES]),
            End::Tcp(to) => (&mut &*to).write_all(&block),
        };
        while !stop() && write().is_ok() {}
    }

    /// Reads until `stop`, or the end, and reports how many bytes arrived each time.
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

    /// Ends the transfer at once: threads that wait for it continue.
    pub(super) fn end(&self) {
        match self {
            End::Bytes(stream) => stream.reset(),
            End::Messages(stream) => stream.reset(),
            End::Tcp(connection) => drop(connection.shutdown(Shutdown::Both)),
        }
    }

    /// Returns the number of messages of the peer that have not arrived and will not.
    pub(super) fn missed(&self) -> io::Result<u64> {
        match self {
            End::Messages(stream) => Ok(stream.expired()?.missed),
            End::Bytes(_) | End::Tcp(_) => Ok(0),
        }
    }
}
