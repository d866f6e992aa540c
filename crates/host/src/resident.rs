//! What lives in the node's loop beside the engine: a client of the node without a socket between.
//!
//! ```text
//!   its descriptor is ready ──▶ Resident::turn ── joins, packets to groups ──▶ engine ──▶ sent at once
//!   engine: packets of its groups ──▶ Desk ──▶ Resident::turn
//!   Resident::gather: what comes is let gather ──▶ its descriptor has its turn when that time is over
//! ```
//! A bridge that is a process of its own costs each packet two more wake-ups, one where it enters and
//! one where it leaves; four nodes in a row cost four. So a bridge may live here. The price is that
//! it works on the engine's thread: what it does in a turn has to be bounded, and must not wait.

use crate::status::BridgeStatus;
use base::{Burst, ClientId, NodeAddr, VirtualPort};
use overlay::request::{Options, RequestError};
use std::os::fd::BorrowedFd;
use std::time::Duration;
use wire::ipc::ErrorCode;

/// Residents of one node.
pub const RESIDENTS_MAX: usize = 8;
/// Packets that wait for a resident; a turn of the loop brings at most 2048.
const WAITING_MAX: usize = 4_096;

/// One that lives in the loop.
pub trait Resident: std::fmt::Debug {
    /// How its packets are carried, and how it receives.
    fn options(&self) -> Options;
    /// Ready when it has something to do.
    fn fd(&self) -> BorrowedFd<'_>;
    /// Does what there is to do, and takes what came, groups and packets, without waiting. `is_ready`
    /// tells whether it is to look at its descriptor: there is something, or has had the time to gather.
    fn turn(&mut self, is_ready: bool, came: &[(NodeAddr, Burst)], desk: &mut Desk);
    /// How long it can wait.
    fn wait(&self) -> Duration;
    /// How long its descriptor is not looked at, from one look to the next, so that what comes there
    /// gathers: to be woken for each packet costs this node and all behind it more than to carry it.
    fn gather(&self) -> Option<Duration> {
        None
    }
    /// What it does and has counted, if it is a bridge.
    fn bridge(&self) -> Option<BridgeStatus> {
        None
    }
    /// The node stops.
    fn leave(&mut self);
}

/// What it wants of the node.
#[derive(Debug)]
pub enum Wish {
    /// What is sent to a group and port.
    Join(NodeAddr, VirtualPort),
    /// No more.
    Leave(NodeAddr, VirtualPort),
}

/// What its node tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// The node reaches other nodes, or does not any more.
    Reaches(bool),
    /// It has places for groups again, after a join was refused for want of one.
    HasPlaces,
    /// It refused a join.
    NotJoined {
        /// The group.
        group: NodeAddr,
        /// Why, for programs.
        code: ErrorCode,
        /// Why, for people.
        text: String,
    },
    /// It takes nothing that is sent to a group, and says so again from time to time.
    NotSent {
        /// The group.
        group: NodeAddr,
        /// Why, for people.
        text: String,
    },
}

/// Between a resident and its node.
#[derive(Debug, Default)]
pub struct Desk {
    came: Vec<(NodeAddr, Burst)>,
    told: Vec<Told>,
    /// Whether the node reaches others, as it was told.
    reaches: Option<bool>,
    wishes: Wishes,
}

/// All that it wants of one turn.
#[derive(Debug, Default)]
pub(crate) struct Wishes {
    pub(crate) members: Vec<Wish>,
    /// Packets that leave: where each goes, and where it ends in `bytes`.
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

    /// Wants what is sent to a group and port.
    pub fn join(&mut self, group: NodeAddr, port: VirtualPort) {
        self.wishes.members.push(Wish::Join(group, port));
    }

    /// Wants it no more.
    pub fn leave(&mut self, group: NodeAddr, port: VirtualPort) {
        self.wishes.members.push(Wish::Leave(group, port));
    }

    /// What the node has told since it was asked last.
    pub fn take_told(&mut self) -> Vec<Told> {
        core::mem::take(&mut self.told)
    }

    /// Something waits to be taken.
    pub(crate) fn has_received(&self) -> bool {
        !(self.came.is_empty() && self.told.is_empty())
    }

    /// How the node stands, if that is new.
    pub(crate) fn tell(&mut self, reaches: bool, has_places: bool) {
        if self.reaches.replace(reaches) != Some(reaches) {
            self.told.push(Told::Reaches(reaches));
        }
        if has_places {
            self.told.push(Told::HasPlaces);
        }
    }

    /// A join was refused. There are no more than the resident has asked for in its turn.
    pub(crate) fn refuse(&mut self, group: NodeAddr, why: RequestError) {
        self.told.push(Told::NotJoined {
            group,
            code: crate::clients::error_code(&why),
            text: why.to_string(),
        });
    }

    /// What is sent to a group is refused. The node says so about once a second.
    pub(crate) fn refuse_sending(&mut self, group: NodeAddr, why: &RequestError) {
        let text = why.to_string();
        self.told.push(Told::NotSent { group, text });
    }

    /// A packet came; false when too many wait.
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

    /// What was taken and done, for its memory.
    pub(crate) fn give_back_wishes(&mut self, done: Wishes) {
        self.wishes = done;
    }

    /// What came since the last turn.
    pub(crate) fn take(&mut self) -> Vec<(NodeAddr, Burst)> {
        core::mem::take(&mut self.came)
    }

    /// The list that was taken, for its memory, unless more has come meanwhile.
    pub(crate) fn give_back(&mut self, mut list: Vec<(NodeAddr, Burst)>) {
        list.clear();
        if self.came.is_empty() {
            self.came = list;
        }
    }
}

/// The client that stands for the i-th resident. Clients of the socket are counted from 1.
pub(crate) const fn client(i: usize) -> ClientId {
    ClientId(u32::MAX - 1 - i as u32)
}

/// Which resident a client stands for.
pub(crate) fn place(client: ClientId) -> Option<usize> {
    let i = (u32::MAX - 1).checked_sub(client.0)? as usize;
    (i < RESIDENTS_MAX).then_some(i)
}
