//! The node's end of a client's stream: a socket pair between the client and the engine.
//!
//! ```text
//!   client writes ──▶ kernel buffer ── read within the engine's credit ──▶ Write, Finish
//!   client reads ◀── kernel buffer ◀── sent at once, else kept ◀── Bytes, Finished
//!                                      (Consumed when it is in the kernel buffer)
//! ```
//! So neither side buffers without bound: the engine's credit bounds what is read, and its receive
//! window what is kept for a client that does not read. Both directions end on their own; the
//! client is gone when it has closed its descriptor and all that it wrote has been read. That is an
//! end only if the client has said so beside it: the kernel closes the descriptors of a process that
//! was killed, too.

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

/// Bytes of one buffer of what a client has not taken yet.
const CHUNK_BYTES: usize = 65_536;

/// The node's end of one stream.
#[derive(Debug)]
pub(super) struct End {
    pair: Pair,
    /// Payload bytes that may still be written to the engine.
    credit: u64,
    /// What the next read needs: a byte, or a whole message.
    need: u64,
    /// The client has written everything, and all of it has been read.
    input_ended: bool,
    output: Output,
    /// What the client's buffer did not take yet, and how much of the first chunk it did take.
    kept: VecDeque<Vec<u8>>,
    kept_from: usize,
    /// Bytes that the client has taken and the engine has not been told about.
    pub(super) consumed: u32,
    /// The client has closed its end; what it wrote may still be there to be read.
    hung_up: bool,
    /// The engine knows that.
    leave_told: bool,
    /// Nothing is read until there are buffers again.
    pub(super) held: bool,
    /// What the descriptor is watched for.
    pub(super) watched: Option<Interest>,
}

#[derive(Debug)]
enum Pair {
    Bytes(ByteStream),
    Messages(SeqStream),
}

/// How far the peer's bytes have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Output {
    /// More may come.
    Open,
    /// The last ones wait for the client.
    Ending,
    /// All are in the client's buffer, and it has been told that they are all.
    Ended,
}

/// What a read found.
#[derive(Debug)]
pub(super) enum Read {
    /// A request for the engine.
    Ask(Request),
    /// Nothing to do until the descriptor or the engine says so.
    Nothing,
    /// The same, and the client is gone: the engine is to see to it that this ends.
    Left,
    /// There is no buffer.
    NoBuffer,
    /// The client is gone, and everything that it wrote has been read.
    Gone,
    /// Everything that the client has written has been read. `closed`: it has closed its end as well,
    /// or somebody has for it.
    Ended {
        /// See there.
        closed: bool,
    },
}

/// What a client's buffer made of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrote {
    /// It has taken them, or they are kept for it.
    Fine,
    /// The last ones are in it: the client is to be told, and then [`End::end_output`].
    All,
    /// The client does not read any more.
    Broken,
}

impl End {
    /// Makes a stream: the node's end, and the client's.
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

    /// The descriptor to be watched.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.pair {
            Pair::Bytes(stream) => stream.as_fd(),
            Pair::Messages(stream) => stream.as_fd(),
        }
    }

    /// What it is to be watched for; `None` for nothing at all, since a hang-up that has been seen
    /// would wake the loop for ever.
    pub(super) fn interest(&self) -> Option<Interest> {
        (!self.hung_up).then(|| Interest {
            read: !self.input_ended && !self.held && self.may_read(),
            write: !self.kept.is_empty(),
        })
    }

    /// The client has closed its end.
    pub(super) fn hang_up(&mut self) {
        self.hung_up = true;
        self.kept.clear();
    }

    /// True if nobody will wake the loop for what is still to be read.
    pub(super) fn is_hung_up(&self) -> bool {
        self.hung_up
    }

    /// True when both directions have ended in order.
    pub(super) fn is_done(&self) -> bool {
        self.input_ended && self.output == Output::Ended
    }

    /// The engine takes so much more.
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
                // The length of the next message counts only when there may be too little credit.
                if most < ipc::PAYLOAD_BYTES_MAX {
                    match stream.peek_len() {
                        Ok(Received::Truncated(len))
                            if len > most && len <= ipc::PAYLOAD_BYTES_MAX =>
                        {
                            self.need = len as u64;
                            return self.without_credit();
                        }
                        // One that comes now is too long perhaps: its length is asked first.
                        Ok(Received::Empty) => return Read::Nothing,
                        _ => {}
                    }
                }
                stream
                    .recv_into(&mut burst.spare_mut()[..ipc::PAYLOAD_BYTES_MAX])
                    .map(|received| match received {
                        Received::Message(len) => Taken::Bytes(len),
                        // Longer than any message may be.
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
            // It has closed without having read everything, as a TCP socket that is closed so.
            Ok(Taken::Reset) | Err(_) => {
                self.input_ended = true;
                self.hang_up();
                Read::Ask(ask(StreamRequest::Reset))
            }
        }
    }

    /// The other end is there no more, as far as the kernel knows; shutting down what one writes does
    /// not look so.
    fn is_closed(&self) -> bool {
        let mut one = [Polled::new(self.as_fd(), false, false)];
        // Without memory in the kernel nothing is known, and nothing is an end.
        poll(&mut one, Some(std::time::Duration::ZERO)).is_err() || one[0].hung_up()
    }

    fn without_credit(&mut self) -> Read {
        let is_told = core::mem::replace(&mut self.leave_told, self.hung_up);
        match self.hung_up && !is_told {
            true => Read::Left,
            false => Read::Nothing,
        }
    }

    /// Hands the client what its peer has written.
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

    /// Nothing follows what has been written.
    pub(super) fn finish(&mut self) -> Wrote {
        self.output = Output::Ending;
        if self.kept.is_empty() {
            Wrote::All
        } else {
            Wrote::Fine
        }
    }

    /// The client's buffer may have room again.
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

    /// Ends what the client reads. It can fail only if the client is gone.
    pub(super) fn end_output(&mut self) {
        self.output = Output::Ended;
        let _ = shutdown_write(self.as_fd());
    }

    /// Bytes that wait for the client in the node.
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

/// How much the kernel takes: any part of bytes, all or nothing of a message.
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

/// What is to become of a client with the engine's next answer, or has become of it.
#[derive(Debug)]
pub(super) enum Role {
    /// It sends and receives datagrams, or takes streams.
    Socket,
    /// It has asked for a stream.
    Connecting(Framing),
    /// It stands for a stream that has come to a listener.
    Accepting(Box<Offer>),
    /// It is the end of a stream.
    Stream(Box<End>),
}

/// A stream that a listener is going to be given.
#[derive(Debug)]
pub(super) struct Offer {
    /// To whom.
    pub(super) listener: base::ClientId,
    /// The peer's node.
    pub(super) from: NodeAddr,
    /// Its port.
    pub(super) port: VirtualPort,
    /// What the stream carries.
    pub(super) framing: Framing,
    /// The application's end of the connection that tells of the stream's end.
    pub(super) notices: SeqStream,
}
