//! The local end of a stream.

use net::unix::{ByteStream, Received, SeqStream, Taken};
use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use wire::ipc::Framing;

/// The local end of a stream.
pub(super) struct Data {
    end: End,
    /// Everything has been read from it.
    pub(super) read: bool,
    /// Everything has been written to it.
    pub(super) written: bool,
}

enum End {
    Bytes(ByteStream),
    Messages(SeqStream),
}

impl Data {
    pub(super) fn new(framing: Framing, fd: OwnedFd) -> Data {
        let end = match framing {
            Framing::Bytes => End::Bytes(ByteStream::from(fd)),
            Framing::Messages => End::Messages(SeqStream::from(fd)),
        };
        let nonblocking = match &end {
            End::Bytes(stream) => stream.set_nonblocking(true),
            End::Messages(stream) => stream.set_nonblocking(true),
        };
        // A blocking descriptor would only delay its own connection.
        let _ = nonblocking;
        Data {
            end,
            read: false,
            written: false,
        }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        match &self.end {
            End::Bytes(stream) => stream.as_fd(),
            End::Messages(stream) => stream.as_fd(),
        }
    }

    pub(super) fn take(&self, buffer: &mut [u8]) -> Taken {
        match &self.end {
            End::Bytes(stream) => stream.recv_into(buffer).unwrap_or(Taken::Reset),
            End::Messages(stream) => match stream.recv_into(buffer) {
                Ok(Received::Message(len)) => Taken::Bytes(len),
                Ok(Received::Empty) => Taken::Empty,
                Ok(Received::Closed) => Taken::End,
                Ok(Received::Truncated(_)) | Err(_) => Taken::Reset,
            },
        }
    }

    /// Writes bytes. Returns how much was accepted: a message completely or not at all.
    pub(super) fn give(&self, bytes: &[u8]) -> io::Result<usize> {
        match &self.end {
            End::Bytes(stream) => stream.send(bytes),
            End::Messages(stream) => match stream.send_parts(&[IoSlice::new(bytes)]) {
                Ok(()) => Ok(bytes.len()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
                Err(error) => Err(error),
            },
        }
    }
}
