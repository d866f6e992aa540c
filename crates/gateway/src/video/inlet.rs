//! A stream that comes out of the overlay.

use super::NODE_AGAIN;
use base::{Duration, NodeAddr, Time};
use client::{Batch, Error, Node, Options, RangeSocket};
use core::fmt;
use std::os::fd::{AsFd, BorrowedFd};

/// Where a stream is to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A multicast group, and a port there.
    Group(NodeAddr, u16),
    /// A port of the own node, to which others send.
    Port(u16),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Group(group, port) => write!(f, "{group}:{port}"),
            Place::Port(port) => write!(f, ":{port}"),
        }
    }
}

/// A packet that has come.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// What was sent.
    pub payload: &'a [u8],
    /// It was lost on some hop of its way and recovered there.
    pub recovered: bool,
    /// How much longer it was under way than the fastest of the last seconds.
    pub behind: Duration,
}

/// Takes a stream out of the overlay. A node that goes is looked for until it is back.
pub struct Inlet {
    node: Node,
    place: Place,
    options: Options,
    socket: Option<RangeSocket>,
    batch: Batch,
    next_try: Time,
    fastest: Fastest,
}

impl Inlet {
    /// Asks the node for a stream.
    pub fn open(node: Node, place: Place, options: Options) -> Result<Inlet, Error> {
        let socket = Inlet::connect(&node, place, options)?;
        Ok(Inlet {
            node,
            place,
            options,
            socket: Some(socket),
            batch: Batch::new(),
            next_try: Time::ZERO,
            fastest: Fastest::default(),
        })
    }

    fn connect(node: &Node, place: Place, options: Options) -> Result<RangeSocket, Error> {
        let socket = match place {
            Place::Group(group, port) => {
                let socket = node.bind_range(0..=0, options)?;
                socket.join(group, port)?;
                socket
            }
            Place::Port(port) => node.bind_range(port..=port, options)?,
        };
        socket.set_nonblocking(true)?;
        Ok(socket)
    }

    /// Where the stream is.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Ready when packets wait; `None` while the node is away.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(AsFd::as_fd)
    }

    /// Looks for a node that is away, if it is time; true when it is back.
    pub fn look(&mut self, now: Time) -> bool {
        if self.socket.is_some() || now < self.next_try {
            return false;
        }
        self.next_try = now + NODE_AGAIN;
        self.socket = Inlet::connect(&self.node, self.place, self.options).ok();
        self.socket.is_some()
    }

    /// Gives the packets that came together to `each`; false when there are none. After an error that is not a
    /// refusal the node is away.
    pub fn receive(&mut self, now: Time, mut each: impl FnMut(Packet<'_>)) -> Result<bool, Error> {
        let Some(socket) = &self.socket else {
            return Ok(false);
        };
        match socket.recv_batch(&mut self.batch) {
            Ok(()) => {}
            Err(Error::WouldBlock) => return Ok(false),
            Err(error @ Error::Refused { .. }) => return Err(error),
            Err(error) => {
                self.socket = None;
                self.next_try = now + NODE_AGAIN;
                return Err(error);
            }
        }
        for (_, _, info, payload) in self.batch.iter() {
            let left = info.remaining.map(|left| {
                Duration::from_nanos(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX))
            });
            each(Packet {
                payload,
                recovered: info.recovered,
                behind: left.map_or(Duration::ZERO, |left| self.fastest.note(now, left)),
            });
        }
        Ok(true)
    }
}

/// The most that was left of the deadline, within a window that begins anew every few seconds.
#[derive(Debug, Default)]
struct Fastest {
    /// Of the window before, and of this one.
    most: [Duration; 2],
    ends: Time,
}

impl Fastest {
    /// Choice: long enough to hold packets that nothing delayed, and short enough to follow a new path.
    const WINDOW: Duration = Duration::from_secs(10);

    /// How much less is left than of the fastest packet.
    fn note(&mut self, now: Time, left: Duration) -> Duration {
        if now >= self.ends {
            let is_recent = now.since(self.ends) < Fastest::WINDOW;
            let before = if is_recent {
                self.most[1]
            } else {
                Duration::ZERO
            };
            self.most = [before, Duration::ZERO];
            self.ends = now + Fastest::WINDOW;
        }
        self.most[1] = self.most[1].max(left);
        self.most[0].max(self.most[1]).saturating_sub(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_as_far_behind_as_less_is_left() {
        let ms = Duration::from_millis;
        let at = |s| Time::ZERO + Duration::from_secs(s);
        let mut fastest = Fastest::default();
        assert_eq!(fastest.note(at(1), ms(400)), ms(0));
        assert_eq!(fastest.note(at(2), ms(330)), ms(70));
        // The fastest of the window before still counts, and that before it no more.
        assert_eq!(fastest.note(at(12), ms(330)), ms(70));
        assert_eq!(fastest.note(at(23), ms(330)), ms(0));
        // After silence all is new.
        assert_eq!(fastest.note(at(100), ms(300)), ms(0));
    }
}
