//! The node's end of a client's stream: a socket pair between the client and the engine.
//!
//! ```text
//!   client writes ──▶ kernel buffer ── read within the engine's credit ──▶ Write, Finish
//!   client reads ◀── kernel buffer ◀── sent at once, else kept ◀── Bytes, Finished
//!                                      (Consumed when it is in the kernel buffer)
//! ```
//! Therefore, no side buffers without bound: the engine's credit bounds what is read, and its receive window bounds
//! what is kept for a client that does not read. Both directions end independently. The client is gone when it has
//! closed its descriptor and all that it wrote has been read. This is a regular end only if the client has announced it
//! on its connection, because the kernel closes the descriptors of a killed process, too.

use base::{Burst, NodeAddr, Pool, VirtualPort};
use net::epoll::Interest;
use net::poll::{Polled, poll};
use net::unix::{ByteStream, Received, SeqStream, Taken, shutdown_write};
use overlay::request::Request;
use overlay::stream::{Framing, StreamRequest};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use wire::ipc;

/// Size of one buffer for data that a client has not taken yet.
const CHUNK_BYTES: usize = 65_536;

/// The node's end of one stream.
#[derive(Debug)]
pub(super) struct End {
    pair: Pair,
    /// Number of payload bytes that the engine still accepts.
    credit: u64,
    /// Number of bytes that the next read needs: one byte, or a whole message.
    need: u64,
    /// The client has written everything, and all of it has been read.
    input_ended: bool,
    output: Output,
    /// Data for which the client's buffer has had no room yet, and how much of the first chunk it did take.
    kept: VecDeque<Vec<u8>>,
    kept_from: usize,
    /// Number of bytes that the client has taken and the engine does not know about yet.
    pub(super) consumed: u32,
    /// The client has closed its end. Data that it wrote may still wait to be read.
    hung_up: bool,
    /// The engine knows that the client has closed its end.
    leave_told: bool,
    /// Nothing is read until there are buffers again.
    pub(super) held: bool,
    /// The events that the poller watches the descriptor for.
    pub(super) watched: Option<Interest>,
}

#[derive(Debug)]
enum Pair {
    Bytes(ByteStream),
    Messages(SeqStream),
}

/// State of the direction from the peer to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Output {
    /// More bytes may arrive.
    Open,
    /// The last bytes wait for the client.
    Ending,
    /// All bytes are in the client's buffer, and the client knows that they are complete.
    Ended,
}

/// The result of a read.
#[derive(Debug)]
pub(super) enum Read {
    /// A request for the engine.
    Ask(Request),
    /// Nothing to do until the descriptor or the engine reports something.
    Nothing,
    /// There is nothing to do here, but the client is gone: the engine has to end the stream.
    Left,
    /// There is no buffer.
    NoBuffer,
    /// The client is gone, and everything that it wrote has been read.
    Gone,
    /// Everything that the client has written has been read.
    Ended {
        /// The client has closed its end as well, or the kernel has done so because its process ended.
        closed: bool,
    },
}

/// The result of writing to a client's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrote {
    /// The buffer has taken the bytes, or they are kept for it.
    Fine,
    /// The last bytes are in the buffer: the caller informs the client, and then calls [`End::end_output`].
    All,
    /// The client no longer reads.
    Broken,
}

impl End {
    /// Creates a stream: the node's end and the client's end.
    pub(super) fn pair(framing: Framing) -> io::Result<(End, OwnedFd)> {
        let (pair, client): (Pair, OwnedFd) = match framing {
            Framing::Bytes => {
                let (ours, theirs) = ByteStream::pair()?;
                theirs.set_nonblocking(false)?;
                (Pair::Bytes(ours), theirs.into())
            }
            Framing::Messages => {
                let (ours, theirs) = SeqStream::pair()?;
                theirs.set_nonblocking(false)?;
                (Pair::Messages(ours), theirs.into())
            }
        };
        let end = End {
            pair,
            credit: 0,
            need: 1,
            input_ended: false,
            output: Output::Open,
            kept: VecDeque::new(),
            kept_from: 0,
            consumed: 0,
            hung_up: false,
            leave_told: false,
            held: false,
            watched: None,
        };
        Ok((end, client))
    }

    /// Returns the descriptor to be watched.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.pair {
            Pair::Bytes(stream) => stream.as_fd(),
            Pair::Messages(stream) => stream.as_fd(),
        }
    }

    /// Returns what the descriptor is to be watched for; `None` for nothing, because a hang-up that has been handled
    /// would wake the loop for ever.
    pub(super) fn interest(&self) -> Option<Interest> {
        (!self.hung_up).then(|| Interest {
            read: !self.input_ended && !self.held && self.may_read(),
            write: !self.kept.is_empty(),
        })
    }

    /// Notes that the client has closed its end.
    pub(super) fn hang_up(&mut self) {
        self.hung_up = true;
        self.kept.clear();
    }

    /// Returns true if the client has closed its end: then no event will wake the loop for the data that is left.
    pub(super) fn is_hung_up(&self) -> bool {
        self.hung_up
    }

    /// Returns true if both directions have ended in order.
    pub(super) fn is_done(&self) -> bool {
        self.input_ended && self.output == Output::Ended
    }

    /// Notes that the engine accepts this many more bytes.
    pub(super) fn add_credit(&mut self, bytes: u32) {
        self.credit += u64::from(bytes);
    }

    fn may_read(&self) -> bool {
        self.credit >= self.need
    }

    /// Reads what the client has written, as far as there is credit.
    pub(super) fn read(&mut self, pool: &Pool) -> Read {
        if self.input_ended {
            return if self.hung_up {
                Read::Gone
            } else {
                Read::Nothing
            };
        }
        if !self.may_read() {
            return self.without_credit();
        }
        let Some(mut burst) = pool.large() else {
            return Read::NoBuffer;
        };
        let most = usize::try_from(self.credit).unwrap_or(usize::MAX);
        let found = match &self.pair {
            Pair::Bytes(stream) => {
                let room = burst.spare_mut();
                let room = room.len().min(most);
                stream.recv_into(&mut burst.spare_mut()[..room])
            }
            Pair::Messages(stream) => {
                // The length of the next message matters only if the credit may be too small for it.
                if most < ipc::PAYLOAD_BYTES_MAX {
                    match stream.peek_len() {
                        Ok(Received::Truncated(len))
                            if len > most && len <= ipc::PAYLOAD_BYTES_MAX =>
                        {
                            self.need = len as u64;
                            return self.without_credit();
                        }
                        // A message that arrives now may be too long: its length is checked first.
                        Ok(Received::Empty) => return Read::Nothing,
                        _ => {}
                    }
                }
                stream
                    .recv_into(&mut burst.spare_mut()[..ipc::PAYLOAD_BYTES_MAX])
                    .map(|received| match received {
                        Received::Message(len) => Taken::Bytes(len),
                        // The message is longer than any message may be.
                        Received::Truncated(_) => Taken::Reset,
                        Received::Empty => Taken::Empty,
                        Received::Closed => Taken::End,
                    })
            }
        };
        match found {
            Ok(Taken::Bytes(len)) => {
                self.credit = self.credit.saturating_sub(len as u64);
                self.need = 1;
                burst.fill(len, len);
                Read::Ask(ask(StreamRequest::Write { payload: burst }))
            }
            Ok(Taken::Empty) => Read::Nothing,
            Ok(Taken::End) => {
                self.input_ended = true;
                Read::Ended {
                    closed: self.is_closed(),
                }
            }
            // The client has closed its end without having read everything, which a TCP socket shows in the same way.
            Ok(Taken::Reset) | Err(_) => {
                self.input_ended = true;
                self.hang_up();
                Read::Ask(ask(StreamRequest::Reset))
            }
        }
    }

    /// Returns true if the other end no longer exists, as far as the kernel knows. If the client has only shut down its
    /// writing direction, this returns false.
    fn is_closed(&self) -> bool {
        let mut one = [Polled::new(self.as_fd(), false, false)];
        // If the kernel has no memory, the poll fails. The state is unknown then, and must not pass for an orderly end.
        poll(&mut one, Some(std::time::Duration::ZERO)).is_err() || one[0].hung_up()
    }

    fn without_credit(&mut self) -> Read {
        let is_told = core::mem::replace(&mut self.leave_told, self.hung_up);
        match self.hung_up && !is_told {
            true => Read::Left,
            false => Read::Nothing,
        }
    }

    /// Writes the peer's data to the client.
    pub(super) fn write(&mut self, payload: &Burst) -> Wrote {
        if self.hung_up {
            return Wrote::Broken;
        }
        let bytes = payload.bytes();
        let mut sent = 0;
        if self.kept.is_empty() {
            match send(&self.pair, bytes) {
                Ok(len) => sent = len,
                Err(_) => return Wrote::Broken,
            }
            self.consumed = self.consumed.saturating_add(sent as u32);
        }
        if sent < bytes.len() {
            self.keep(&bytes[sent..]);
        }
        Wrote::Fine
    }

    /// Notes that no more data follows.
    pub(super) fn finish(&mut self) -> Wrote {
        self.output = Output::Ending;
        if self.kept.is_empty() {
            Wrote::All
        } else {
            Wrote::Fine
        }
    }

    /// Writes kept data, because the client's buffer may have room again.
    pub(super) fn flush(&mut self) -> Wrote {
        while let Some(first) = self.kept.front() {
            let bytes = &first[self.kept_from..];
            let sent = match send(&self.pair, bytes) {
                Ok(0) => return Wrote::Fine,
                Ok(sent) => sent,
                Err(_) => return Wrote::Broken,
            };
            self.consumed = self.consumed.saturating_add(sent as u32);
            self.kept_from += sent;
            if self.kept_from == first.len() {
                self.kept.pop_front();
                self.kept_from = 0;
            }
        }
        if self.output == Output::Ending {
            Wrote::All
        } else {
            Wrote::Fine
        }
    }

    /// Ends the data to the client. It can fail only if the client is gone.
    pub(super) fn end_output(&mut self) {
        self.output = Output::Ended;
        let _ = shutdown_write(self.as_fd());
    }

    /// Returns the number of bytes that wait for the client in the node.
    #[cfg(test)]
    pub(super) fn kept_bytes(&self) -> usize {
        self.kept.iter().map(Vec::len).sum::<usize>() - self.kept_from
    }

    fn keep(&mut self, bytes: &[u8]) {
        let joins = matches!(self.pair, Pair::Bytes(_));
        match self.kept.back_mut() {
            Some(last) if joins && last.len() + bytes.len() <= CHUNK_BYTES => {
                last.extend_from_slice(bytes);
            }
            _ => self.kept.push_back(bytes.to_vec()),
        }
    }
}

/// Returns how much the kernel takes: any part of bytes; a message completely or not at all.
fn send(pair: &Pair, bytes: &[u8]) -> io::Result<usize> {
    match pair {
        Pair::Bytes(stream) => stream.send(bytes),
        Pair::Messages(stream) => match stream.send_parts(&[IoSlice::new(bytes)]) {
            Ok(()) => Ok(bytes.len()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
            Err(error) => Err(error),
        },
    }
}

fn ask(request: StreamRequest) -> Request {
    Request::Stream(request)
}

/// The role of a client, or the one that it gets with the engine's next answer.
#[derive(Debug)]
pub(super) enum Role {
    /// It sends and receives datagrams, or accepts streams.
    Socket,
    /// It has requested a stream.
    Connecting(Framing),
    /// It stands for a stream that has arrived at a listener.
    Accepting(Box<Offer>),
    /// It has one end of a stream.
    Stream(Box<End>),
}

/// A stream that a listener is going to get.
#[derive(Debug)]
pub(super) struct Offer {
    /// The listener.
    pub(super) listener: base::ClientId,
    /// The node of the peer.
    pub(super) from: NodeAddr,
    /// The port of the peer.
    pub(super) port: VirtualPort,
    /// Whether the stream carries bytes or messages.
    pub(super) framing: Framing,
    /// The application's end of the connection that reports the stream's end.
    pub(super) notices: SeqStream,
}
