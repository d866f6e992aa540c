//! Residents live in the node's loop beside the engine. A resident is a client of the node without a socket in between.
//!
//! ```text
//!   its descriptor is ready ──▶ Resident::turn ── joins, packets to groups ──▶ engine ──▶ sent at once
//!   engine: packets of its groups ──▶ Desk ──▶ Resident::turn
//!   Resident::gather: what comes is let gather ──▶ its descriptor has its turn when that time is over
//! ```
//! If a bridge is a process of its own, each packet costs two more wake-ups, one where it enters and one where it
//! leaves; four nodes in a row cost four. Therefore, a bridge may live here. The price is that it works on the engine's
//! thread: its work in a turn has to be bounded, and must not wait.

use crate::status::BridgeStatus;
use base::{Burst, ClientId, NodeAddr, VirtualPort};
use overlay::request::{Options, RequestError};
use std::os::fd::BorrowedFd;
use std::time::Duration;
use wire::ipc::ErrorCode;

/// The largest number of residents of one node.
pub const RESIDENTS_MAX: usize = 8;
/// The largest number of packets that wait for a resident. A turn of the loop brings at most 2048.
const WAITING_MAX: usize = 4_096;

/// A program part that lives in the loop.
pub trait Resident: std::fmt::Debug {
    /// Returns how its packets are carried, and how it receives.
    fn options(&self) -> Options;
    /// Returns the descriptor that is ready when the resident has something to do.
    fn fd(&self) -> BorrowedFd<'_>;
    /// Does its work, and takes what has arrived, as groups and packets, without waiting. `is_ready` says whether it is
    /// to read its descriptor: something is there, or has had the time to gather.
    fn turn(&mut self, is_ready: bool, came: &[(NodeAddr, Burst)], desk: &mut Desk);
    /// Returns how long it can wait.
    fn wait(&self) -> Duration;
    /// Returns the interval at which its descriptor is read, so that what arrives there gathers in between. A wake-up
    /// for each packet costs this node and all nodes behind it more than carrying the packet does.
    fn gather(&self) -> Option<Duration> {
        None
    }
    /// Returns what it does and has counted, if it is a bridge.
    fn bridge(&self) -> Option<BridgeStatus> {
        None
    }
    /// The node stops: the resident leaves.
    fn leave(&mut self);
}

/// A request of a resident to the node.
#[derive(Debug)]
pub enum Wish {
    /// Join: receive what is sent to a group and port.
    Join(NodeAddr, VirtualPort),
    /// Leave: receive it no longer.
    Leave(NodeAddr, VirtualPort),
}

/// The node's reports to a resident.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// Whether the node reaches other nodes.
    Reaches(bool),
    /// The node has room for groups again, after a join was refused for lack of room.
    HasPlaces,
    /// The node refused a join.
    NotJoined {
        /// The group.
        group: NodeAddr,
        /// The reason as a code, for programs.
        code: ErrorCode,
        /// The reason as text, for people.
        text: String,
    },
    /// The node refuses what the resident sends to a group. It repeats this report from time to time.
    NotSent {
        /// The group.
        group: NodeAddr,
        /// The reason as text, for people.
        text: String,
    },
}

/// The interface between a resident and its node.
#[derive(Debug, Default)]
pub struct Desk {
    came: Vec<(NodeAddr, Burst)>,
    told: Vec<Told>,
    /// Whether the node reaches other nodes, as last reported.
    reaches: Option<bool>,
    wishes: Wishes,
}

/// All requests of one turn.
#[derive(Debug, Default)]
pub(crate) struct Wishes {
    pub(crate) members: Vec<Wish>,
    /// Packets to send: the destination of each, and where it ends in `bytes`.
    pub(crate) packets: Vec<(NodeAddr, VirtualPort, usize)>,
    pub(crate) bytes: Vec<u8>,
}

impl Desk {
    /// Sends a packet to a group and port.
    pub fn send(&mut self, group: NodeAddr, port: VirtualPort, packet: &[u8]) {
        let wishes = &mut self.wishes;
        wishes.bytes.extend_from_slice(packet);
        wishes.packets.push((group, port, wishes.bytes.len()));
    }

    /// Requests what is sent to a group and port.
    pub fn join(&mut self, group: NodeAddr, port: VirtualPort) {
        self.wishes.members.push(Wish::Join(group, port));
    }

    /// Requests it no longer.
    pub fn leave(&mut self, group: NodeAddr, port: VirtualPort) {
        self.wishes.members.push(Wish::Leave(group, port));
    }

    /// Takes what the node has reported since the last call.
    pub fn take_told(&mut self) -> Vec<Told> {
        core::mem::take(&mut self.told)
    }

    /// Returns true if something waits for the resident.
    pub(crate) fn has_received(&self) -> bool {
        !(self.came.is_empty() && self.told.is_empty())
    }

    /// Reports the state of the node, if it has changed.
    pub(crate) fn tell(&mut self, reaches: bool, has_places: bool) {
        if self.reaches.replace(reaches) != Some(reaches) {
            self.told.push(Told::Reaches(reaches));
        }
        if has_places {
            self.told.push(Told::HasPlaces);
        }
    }

    /// Reports that a join was refused. There are no more reports than the resident has asked for in its turn.
    pub(crate) fn refuse(&mut self, group: NodeAddr, why: RequestError) {
        self.told.push(Told::NotJoined {
            group,
            code: crate::clients::error_code(&why),
            text: why.to_string(),
        });
    }

    /// Reports that sending to a group is refused. The node does so about once a second.
    pub(crate) fn refuse_sending(&mut self, group: NodeAddr, why: &RequestError) {
        let text = why.to_string();
        self.told.push(Told::NotSent { group, text });
    }

    /// Queues a packet for the resident. Returns false if too many wait.
    pub(crate) fn put(&mut self, group: NodeAddr, packet: Burst) -> bool {
        let has_room = self.came.len() < WAITING_MAX;
        if has_room {
            self.came.push((group, packet));
        }
        has_room
    }

    pub(crate) fn take_wishes(&mut self) -> Wishes {
        core::mem::take(&mut self.wishes)
    }

    /// Returns the emptied wishes, to reuse their memory.
    pub(crate) fn give_back_wishes(&mut self, done: Wishes) {
        self.wishes = done;
    }

    /// Takes the packets that have arrived since the last turn.
    pub(crate) fn take(&mut self) -> Vec<(NodeAddr, Burst)> {
        core::mem::take(&mut self.came)
    }

    /// Returns the list that was taken, to reuse its memory, unless more packets have arrived meanwhile.
    pub(crate) fn give_back(&mut self, mut list: Vec<(NodeAddr, Burst)>) {
        list.clear();
        if self.came.is_empty() {
            self.came = list;
        }
    }
}

/// Returns the client id that stands for the i-th resident. Clients of the socket are counted from 1.
pub(crate) const fn client(i: usize) -> ClientId {
    ClientId(u32::MAX - 1 - i as u32)
}

/// Returns which resident a client id stands for.
pub(crate) fn place(client: ClientId) -> Option<usize> {
    let i = (u32::MAX - 1).checked_sub(client.0)? as usize;
    (i < RESIDENTS_MAX).then_some(i)
}
