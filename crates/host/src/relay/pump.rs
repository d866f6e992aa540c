//! Threads that move a transfer's bytes through a node. [Liu04 §III]
//!
//! ```text
//!   as many connections in as out:   in k ══ splice ══▶ out k        from `cp`: out k is lent to it
//!   otherwise:                       in k ─ gather ─▶ Fan ─ scatter ─▶ whichever stripe is free, of
//!                                                                     each branch
//! ```
//! A pair of connections needs no frames, so its bytes stay in the kernel. If stripes are redistributed, or the route
//! branches, frames pass through memory once. They are encrypted and decrypted only at the ends.
//!
//! In each case [`relay::QUEUE_BYTES`] may wait in between, far more than the kernel holds for a short slow connection.
//! Therefore, one connection continues while the other recovers from a loss, and together they are as fast as the
//! slower one on average, not as the slower one at each moment.

use super::failure::Failure;
use super::monitor::Used;
use super::socket::Data;
use super::transfer::{LOOK, Over, Shared, Spare, Transfer};
use base::NodeAddr;
use relay::Fan;
use relay::stage::Next;
use secure::ends::StreamKey;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::sync::Arc;
use wire::relay::{FRAME_BYTES_MAX, FRAME_HEAD_BYTES, Frame, FrameKind};

/// A frame with its head, shared by the branches to which it is sent.
pub(super) type Packed = Arc<Vec<u8>>;
/// The frames that wait at a node.
pub(super) type Frames = Shared<Fan<Packed>>;

/// The result of a thread.
pub(in crate::relay) type Outcome = Result<(), Failure>;

/// The nodes at the two ends of a thread's work, for failures.
#[derive(Clone, Copy)]
pub(super) struct Ends {
    pub(super) here: NodeAddr,
    pub(super) peer: NodeAddr,
}

/// Moves the bytes of one connection to another one within the kernel, until the end; `hold` bytes may wait in between.
pub(super) fn splice(
    from: &Data,
    mut to: Data,
    hold: usize,
    at: Ends,
    next: NodeAddr,
    transfer: &Transfer,
) -> Outcome {
    let broken = |error: io::Error| {
        // The kernel does not say which of the two is broken.
        Failure::either_broken(at.here, (at.peer, next), &error)
    };
    if let Some(before) = from.taken().map_err(broken)? {
        transfer.traffic().on_lent(&to.socket, before);
        while !transfer.wait(LOOK) {}
        // The process that has the connection may keep it open.
        to.socket.shutdown(Shutdown::Both);
        return Ok(());
    }
    let ready = from.socket.set_nonblocking(true);
    ready
        .and_then(|()| to.socket.set_nonblocking(true))
        .and_then(|()| {
            let (from, to) = (from.socket.as_fd(), to.socket.as_fd());
            net::splice::copy(from, to, hold, |len| transfer.traffic().on_went(len))
        })
        .map_err(broken)?;
    to.end().map_err(broken)
}

/// Returns the buffer of a frame, after the last branch has sent it.
fn reuse(packed: Packed, transfer: &Transfer) {
    if let Some(buffer) = Arc::into_inner(packed) {
        transfer.spare.put(buffer);
    }
}

/// Reads a frame of a connection: its head, and its bytes behind `room`. At the end of the stream, returns the stream's
/// length.
pub(super) fn read_frame(
    from: &mut Data,
    room: usize,
    spare: &Spare,
) -> io::Result<Result<(Frame, Vec<u8>), u64>> {
    let mut head = [0; FRAME_HEAD_BYTES];
    from.read_exact(&mut head)?;
    let frame =
        Frame::parse(&head).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
    match frame.kind {
        FrameKind::End => Ok(Err(frame.offset)),
        FrameKind::Data => {
            let len = room + frame.len as usize;
            // Waiting frames are counted by their length, so a short frame gets a short buffer.
            let mut bytes = match len > FRAME_BYTES_MAX / 2 {
                true => spare.take(len),
                false => vec![0; len],
            };
            from.read_exact(&mut bytes[room..])?;
            Ok(Ok((frame, bytes)))
        }
    }
}

/// Receives the frames of one connection, while there is room.
pub(super) fn gather(mut from: Data, at: Ends, frames: &Frames, transfer: &Transfer) -> Outcome {
    loop {
        let read = read_frame(&mut from, FRAME_HEAD_BYTES, &transfer.spare);
        match read.map_err(|error| Failure::broken(at.here, at.peer, &error))? {
            Err(end) => {
                return frames
                    .with(|fan| fan.on_end(end))
                    .map_err(|why| corrupt(at, why));
            }
            Ok((frame, mut bytes)) => {
                bytes[..FRAME_HEAD_BYTES].copy_from_slice(&frame.to_bytes());
                let (len, packed) = (frame.len as usize, Arc::new(bytes));
                let put = frames.wait(transfer, |fan| {
                    fan.has_room(len).then(|| fan.push(len, &packed))
                });
                if let Err(Over) = put {
                    return Ok(());
                }
            }
        }
    }
}

/// One of the connections of a branch.
pub(super) struct Lane<'a> {
    pub(super) branch: usize,
    pub(super) stripe: usize,
    pub(super) used: Used,
    /// At the beginning of the stream: the key that encrypts its frames.
    pub(super) key: Option<&'a StreamKey>,
    /// The node behind the own one, if the own node may lend its connection to that.
    pub(super) beyond: Option<NodeAddr>,
}

impl Lane<'_> {
    /// Returns what it has to send, once there is something. While it is not used, this is only the end.
    fn next(&self, frames: &Frames, transfer: &Transfer) -> Result<Next<Packed>, Over> {
        frames.wait(transfer, |fan| {
            let next = match self.used.has(self.stripe) {
                true => fan.next(self.branch),
                false => fan.end(self.branch).map_or(Next::Nothing, Next::End),
            };
            Some(next).filter(|next| !matches!(next, Next::Nothing))
        })
    }
}

/// Sends the frames of a branch over one of its connections, as fast as the connection takes them.
pub(super) fn scatter(
    mut to: Data,
    mut at: Ends,
    lane: &Lane<'_>,
    frames: &Frames,
    transfer: &Transfer,
) -> Outcome {
    let mut beyond = lane.beyond;
    while let Ok(next) = lane.next(frames, transfer) {
        // A node lends its connection before it sends what lets the first frame begin.
        if let Some(peer) = beyond.take()
            && let Ok(Some(lent)) = to.lent()
        {
            transfer.add_data(std::slice::from_ref(&lent));
            (to, at.peer) = (lent, peer);
        }
        let broken = |error: io::Error| Failure::broken(at.here, at.peer, &error);
        match next {
            Next::Frame(mut bytes) => {
                if let Some(key) = lane.key {
                    seal(key, &mut bytes);
                }
                to.write_all(&bytes).map_err(broken)?;
                transfer.traffic().on_went(bytes.len());
                reuse(bytes, transfer);
            }
            Next::End(offset) => {
                let end = Frame {
                    kind: FrameKind::End,
                    len: 0,
                    offset,
                };
                to.write_all(&end.to_bytes()).map_err(broken)?;
                return to.end().map_err(broken);
            }
            Next::Nothing => {}
        }
    }
    Ok(())
}

/// Encrypts a frame at the beginning of its way, where nobody else has it yet.
fn seal(key: &StreamKey, packed: &mut Packed) {
    let bytes = Arc::make_mut(packed);
    if let Some((head, body)) = bytes.split_first_chunk_mut()
        && let Ok(frame) = Frame::parse(head)
    {
        key.seal(frame.offset, body);
    }
}

pub(super) fn corrupt(at: Ends, why: impl std::fmt::Display) -> Failure {
    Failure::new(at.here, super::failure::FailureKind::Corrupt, why).about(at.peer)
}
