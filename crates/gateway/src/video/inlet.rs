//! A stream out of the overlay. If the node refuses a join, the join is repeated, as in a bridge.

use super::NODE_AGAIN;
use crate::multicast::members::{Change, Members};
use base::{Duration, NodeAddr, Time};
use client::{Batch, Error, Node, Options, RangeSocket, Told};
use core::fmt;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use wire::ipc::ErrorCode;

/// The place from which a stream is received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A multicast group, and a port there.
    Group(NodeAddr, u16),
    /// A port of this node, to which other nodes send.
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

/// A received packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// The payload.
    pub payload: &'a [u8],
    /// Whether the packet was lost on some hop of its path and recovered there.
    pub recovered: bool,
    /// How much longer the packet took than the fastest packets of the last seconds.
    pub behind: Duration,
}

/// Receives a stream from the overlay. If the node is lost, this tries to reconnect until it is back.
pub struct Inlet {
    node: Node,
    place: Place,
    options: Options,
    socket: Option<RangeSocket>,
    batch: Batch,
    next_try: Time,
    /// The group, if there is one, and whether the node was told to join it.
    members: Members,
    /// The node's last refusal of a join since packets were received.
    refused: Option<String>,
    fastest: Fastest,
}

impl Inlet {
    /// Requests a stream from the node.
    pub fn open(node: Node, place: Place, options: Options) -> Result<Inlet, Error> {
        let socket = Inlet::connect(&node, place, options)?;
        let mut members = Members::new(Time::ZERO);
        if let Place::Group(group, _) = place {
            members.want(group, true);
        }
        let mut inlet = Inlet {
            node,
            place,
            options,
            socket: Some(socket),
            batch: Batch::new(),
            next_try: Time::ZERO,
            members,
            refused: None,
            fastest: Fastest::default(),
        };
        inlet.say(Time::ZERO)?;
        Ok(inlet)
    }

    fn connect(node: &Node, place: Place, options: Options) -> Result<RangeSocket, Error> {
        let socket = match place {
            Place::Group(..) => node.bind_range(0..=0, options)?,
            Place::Port(port) => node.bind_range(port..=port, options)?,
        };
        socket.watch()?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    }

    /// Sends the joins that are due to the node.
    fn say(&mut self, now: Time) -> Result<(), Error> {
        let (Some(socket), Place::Group(_, port)) = (&self.socket, self.place) else {
            return Ok(());
        };
        while let Some(change) = self.members.next(now) {
            let said = match change {
                Change::Join(group) => socket.join(group, port),
                Change::Leave(group) => socket.leave(group, port),
            };
            if let Err(error) = said {
                self.members.unsaid(change);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Handles the reports of the node. Returns an error for a new refusal.
    fn hear(&mut self, now: Time) -> Result<(), Error> {
        while let Some(told) = self.socket.as_ref().and_then(RangeSocket::take_told) {
            match told {
                Told::Reaches(_) | Told::NotSent { .. } => {}
                Told::HasPlaces => self.members.on_places(now),
                Told::NotJoined { group, code, text } => {
                    let is_full = code == ErrorCode::TooManySockets;
                    self.members.on_refused(now, group, is_full);
                    if self.refused.as_ref() != Some(&text) {
                        self.refused = Some(text.clone());
                        return Err(Error::Refused { code, text });
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the place of the stream.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Returns a descriptor that is ready when packets are waiting; `None` while the node is unreachable.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(AsFd::as_fd)
    }

    /// Returns whether [`Inlet::look`] will have work after a while even if nothing arrives.
    pub fn has_to_look(&self) -> bool {
        self.socket.is_none() || self.members.refused() > 0
    }

    /// Repeats joins that the node has refused, and tries to reconnect to a lost node, each when it is due. Returns
    /// true when the node is back.
    pub fn look(&mut self, now: Time) -> bool {
        let is_back = self.socket.is_none() && now >= self.next_try;
        if is_back {
            self.next_try = now + NODE_AGAIN;
            self.socket = Inlet::connect(&self.node, self.place, self.options).ok();
            self.members.on_node();
        }
        // A lost node is noticed at the next receive.
        let _ = self.say(now);
        is_back && self.socket.is_some()
    }

    /// Passes the packets that arrived together to `each`. Returns false if there are none. After an error other than a
    /// refusal the node is unreachable.
    pub fn receive(&mut self, now: Time, mut each: impl FnMut(Packet<'_>)) -> Result<bool, Error> {
        let Some(socket) = &self.socket else {
            return Ok(false);
        };
        match socket.recv_batch(&mut self.batch) {
            Ok(()) => self.refused = None,
            Err(Error::WouldBlock) => return self.hear(now).map(|()| false),
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

/// The remaining deadline of a packet without delays, according to the last seconds: a quarter of all packets had this
/// much left, or more. The maximum would not do. The remaining time is calculated with half a round trip for each link.
/// While the round trip of a link is estimated too short, for example after a change, all packets seem early.
#[derive(Debug, Default)]
struct Fastest {
    /// Numbers of packets by their remaining milliseconds, in the previous window and in the current one.
    counts: [BTreeMap<u64, u64>; 2],
    ends: Time,
    usual: Duration,
    next: Time,
}

impl Fastest {
    /// Choice: long enough to contain packets without delays, and short enough to follow a new path.
    const WINDOW: Duration = Duration::from_secs(10);
    /// One of this number of packets is at least as fast as the reference packet.
    const ONE_OF: u64 = 4;
    /// The time between calculations of the reference.
    const EVERY: Duration = Duration::from_millis(100);

    /// Returns how much less is left than for a packet without delays.
    fn note(&mut self, now: Time, left: Duration) -> Duration {
        if now >= self.ends {
            let is_recent = now.since(self.ends) < Fastest::WINDOW;
            let [_, last] = core::mem::take(&mut self.counts);
            self.counts[0] = if is_recent { last } else { BTreeMap::new() };
            (self.ends, self.next) = (now + Fastest::WINDOW, now);
        }
        *self.counts[1].entry(left.as_millis()).or_default() += 1;
        if now >= self.next {
            self.next = now + Fastest::EVERY;
            self.usual = Duration::from_millis(self.of_a_quarter());
        }
        self.usual.saturating_sub(left)
    }

    /// Returns the remaining time, in milliseconds, that a quarter of the packets reached or exceeded.
    fn of_a_quarter(&self) -> u64 {
        let all = self.counts.iter().flat_map(BTreeMap::values).sum::<u64>();
        let quarter = all.div_ceil(Fastest::ONE_OF);
        let [before, now] = &self.counts;
        let mut left: Vec<_> = before.iter().chain(now).collect();
        left.sort_unstable_by_key(|(ms, _)| core::cmp::Reverse(**ms));
        let mut seen = 0;
        let found = left.into_iter().find(|(_, count)| {
            seen += **count;
            seen >= quarter
        });
        found.map_or(0, |(ms, _)| *ms)
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
        // The fastest packet of the previous window still counts, but none from earlier windows.
        assert_eq!(fastest.note(at(12), ms(330)), ms(70));
        assert_eq!(fastest.note(at(23), ms(330)), ms(0));
        // Packets that seem too early for a while do not set the reference.
        let mut fastest = Fastest::default();
        let early = (0..400u64).map(|n| (Duration::from_millis(2 * n), ms(440)));
        let usual =
            (400..5_000u64).map(|n| (Duration::from_millis(2 * n), ms(400 - n % 4 / 3 * 60)));
        for (after, left) in early.chain(usual) {
            let behind = fastest.note(at(100) + after, left);
            // This is so once the early packets are less than a quarter; a quarter of the usual packets is repaired.
            if after >= ms(4_000) {
                assert_eq!(behind, ms(400).saturating_sub(left), "{after}");
            }
        }
        // After a silence, the counts begin again.
        assert_eq!(fastest.note(at(200), ms(300)), ms(0));
    }
}
