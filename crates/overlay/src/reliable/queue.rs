//! Packets that wait for the window: a queue per flow, served in turn by bytes, so that flows are
//! fair to each other whatever the length of their packets (deficit round robin, Shreedhar and Varghese 1995).
//!
//! ```text
//!   push ──▶ flow a  [ ][ ][ ]  ┐
//!            flow b  [ ]        ├─ round robin, 1500 bytes each turn ──▶ pop
//!            flow c  [ ][ ]     ┘
//! ```
//!
//! A full queue takes a packet of a flow that has less than its share in the place of the last one
//! of the longest flow. The buffers of packets are reused, so that nothing is allocated after
//! warm-up.

use super::{QUEUE_BYTES, QUEUE_PACKETS};
use crate::flow::FlowKey;
use base::{Map, Time};
use std::collections::VecDeque;
use wire::data::{Header, Remaining};

/// What a flow may send per turn: at least one packet of any length.
const QUANTUM: usize = 1_500;
/// Room that each buffer has from the start, so that it fits any packet of an Ethernet.
const BUFFER_BYTES: usize = 1_504;
/// Buffers that are kept for later: 1.5 MB, or 9.4 MB of the largest.
const SPARE_MAX: usize = 1_024;
/// A buffer that is kept has at most so many bytes: what fits a jumbo frame.
const SPARE_BYTES_MAX: usize = 9_216;

/// There is no room for another packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// A packet of the lane: its plaintext, and what it was when it came.
#[derive(Debug)]
pub struct Packet {
    /// Overlay header and payload.
    pub bytes: Vec<u8>,
    /// When it came to this lane.
    pub entered: Time,
    /// What was left of its deadline then.
    pub remaining: Remaining,
    /// The index of the link that it came by; none for this node's own.
    pub came: Option<u16>,
}

#[derive(Debug, Default)]
struct Flow {
    key: FlowKey,
    packets: VecDeque<Packet>,
    deficit: usize,
}

/// The packets that wait on one lane.
#[derive(Debug, Default)]
pub(super) struct Queue {
    flows: Vec<Flow>,
    /// Places of `flows` without packets.
    free: Vec<u32>,
    places: Map<FlowKey, u32>,
    /// Places of the flows that have packets, in the order of their turns.
    turns: VecDeque<u32>,
    packets: usize,
    bytes: usize,
    /// Packets by the link that they came by.
    came: Vec<u32>,
    spare: Vec<Vec<u8>>,
}

/// The flow of an opened packet.
fn key(packet: &[u8]) -> FlowKey {
    let header = Header::trusted(packet);
    FlowKey {
        source: header.source(),
        source_port: header.source_port(),
        destination: header.destination(),
        destination_port: header.destination_port(),
    }
}

impl Queue {
    /// Packets that wait.
    pub(super) fn len(&self) -> usize {
        self.packets
    }

    /// Their bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.packets == 0
    }

    /// A packet that came by a link waits.
    pub(super) fn holds_of(&self, came: u16) -> bool {
        self.came.get(usize::from(came)).is_some_and(|&n| n > 0)
    }

    /// Links by which packets came that wait.
    pub(super) fn sources(&self) -> usize {
        self.came.iter().filter(|&&n| n > 0).count()
    }

    /// Flows that wait.
    pub(super) fn flows(&self) -> usize {
        self.turns.len()
    }

    /// Takes a copy of a packet. The packet that had to make room for it comes back, if one had to.
    pub(super) fn push(
        &mut self,
        now: Time,
        bytes: &[u8],
        came: Option<u16>,
    ) -> Result<Option<Packet>, Full> {
        let place = self.place(key(bytes));
        let mut out = None;
        if self.packets >= QUEUE_PACKETS || self.bytes + bytes.len() > QUEUE_BYTES {
            let bytes_over = (self.bytes + bytes.len()).saturating_sub(QUEUE_BYTES);
            out = Some(self.make_room(place, bytes_over).ok_or(Full)?);
        }
        let mut buffer = self.buffer(bytes.len());
        buffer.extend_from_slice(bytes);
        self.put(
            place,
            Packet {
                remaining: Header::trusted(bytes).remaining(),
                bytes: buffer,
                entered: now,
                came,
            },
        );
        Ok(out)
    }

    /// Puts a packet back that has waited before, whatever the limits.
    pub(super) fn push_again(&mut self, packet: Packet) {
        let place = self.place(key(&packet.bytes));
        self.put(place, packet);
    }

    /// The packet whose turn it is.
    pub(super) fn pop(&mut self) -> Option<Packet> {
        loop {
            let &place = self.turns.front()?;
            let flow = &mut self.flows[place as usize];
            let need = flow.packets.front().map_or(0, |packet| packet.bytes.len());
            if flow.deficit < need {
                flow.deficit += QUANTUM;
                self.turns.rotate_left(1);
                continue;
            }
            flow.deficit -= need;
            let packet = flow.packets.pop_front()?;
            if flow.packets.is_empty() {
                self.turns.pop_front();
                self.retire(place);
            }
            self.count_out(&packet);
            return Some(packet);
        }
    }

    /// Takes a buffer back that is not needed any more.
    pub(super) fn recycle(&mut self, mut bytes: Vec<u8>) {
        if self.spare.len() < SPARE_MAX && bytes.capacity() <= SPARE_BYTES_MAX {
            bytes.clear();
            self.spare.push(bytes);
        }
    }

    /// Gives the memory of an idle lane back.
    pub(super) fn release(&mut self) {
        self.spare = Vec::new();
        if self.is_empty() {
            self.flows = Vec::new();
            self.free = Vec::new();
            self.places = Map::default();
            self.turns = VecDeque::new();
        }
    }

    fn buffer(&mut self, bytes: usize) -> Vec<u8> {
        let spare = self.spare.pop();
        spare.unwrap_or_else(|| Vec::with_capacity(bytes.max(BUFFER_BYTES)))
    }

    fn put(&mut self, place: u32, packet: Packet) {
        self.packets += 1;
        self.bytes += packet.bytes.len();
        if let Some(came) = packet.came.map(usize::from) {
            if self.came.len() <= came {
                self.came.resize(came + 1, 0);
            }
            self.came[came] += 1;
        }
        let flow = &mut self.flows[place as usize];
        if flow.packets.is_empty() {
            self.turns.push_back(place);
        }
        flow.packets.push_back(packet);
    }

    /// The place of a flow, a free one if it has none.
    fn place(&mut self, key: FlowKey) -> u32 {
        if let Some(&place) = self.places.get(&key) {
            return place;
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.flows.push(Flow::default());
            (self.flows.len() - 1) as u32
        });
        let flow = &mut self.flows[place as usize];
        flow.key = key;
        // A flow that comes new has its turn like one that waits.
        flow.deficit = QUANTUM;
        self.places.insert(key, place);
        place
    }

    fn retire(&mut self, place: u32) {
        self.places.remove(&self.flows[place as usize].key);
        self.free.push(place);
    }

    /// The last packet of the longest flow, unless it is the one at `place` or no longer than that.
    /// It must have so many bytes: short packets make no room for long ones.
    fn make_room(&mut self, place: u32, least: usize) -> Option<Packet> {
        let bytes = |flow: &Flow| -> usize { flow.packets.iter().map(|p| p.bytes.len()).sum() };
        let own = bytes(&self.flows[place as usize]);
        let longest = self.turns.iter().copied();
        let longest = longest.max_by_key(|&place| self.flows[place as usize].packets.len());
        let last = |flow: &Flow| flow.packets.back().map_or(0, |packet| packet.bytes.len());
        let longest = longest
            .filter(|&other| other != place && bytes(&self.flows[other as usize]) > own + QUANTUM)
            .filter(|&other| last(&self.flows[other as usize]) >= least);
        let Some(longest) = longest else {
            if self.flows[place as usize].packets.is_empty() {
                self.retire(place);
            }
            return None;
        };
        let flow = &mut self.flows[longest as usize];
        let packet = flow.packets.pop_back()?;
        if flow.packets.is_empty() {
            self.turns.retain(|&turn| turn != longest);
            self.retire(longest);
        }
        self.count_out(&packet);
        Some(packet)
    }

    fn count_out(&mut self, packet: &Packet) {
        self.packets -= 1;
        self.bytes -= packet.bytes.len();
        if let Some(came) = packet.came {
            self.came[usize::from(came)] -= 1;
        }
    }
}
