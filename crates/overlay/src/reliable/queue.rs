//! Packets that wait for the window. There is a queue per flow. Queues are served by priority, and in turns by bytes
//! within one priority; flows that send little go ahead of flows that send much (deficit round robin with new flows
//! first, RFC 8290 §4).
//!
//! ```text
//!   push ──▶ priority 7   new   a            1500 bytes ahead of the others for who comes to wait
//!                         old   b ─ c ─ d    1500 bytes each turn                     ──▶ pop
//!            priority 2   new, old ...       when nothing waits above, and each 16th packet
//! ```
//!
//! A flow without packets keeps the rest of its 1500 bytes until its turn among the old flows has passed. Within that
//! rest its next packets go ahead of the old flows, but not more than that in one round. So a key stroke does not wait
//! for bulk data, and bulk data cannot pass as key strokes.
//!
//! Each flow may also put only its share into the queue ([`Queue::room`]). A source that waits for room waits for its
//! own packets to leave, and not for those of other flows.
//!
//! If the queue is full and a packet comes of a flow that has less than its share, the packet replaces the last packet
//! of the longest flow. The packets of one neighbour cannot fill the queue. The buffers of packets are reused, so that
//! nothing is allocated after warm-up.

mod held;
mod limits;
mod room;
mod turns;

pub use held::Toward;
pub(super) use turns::Takes;

use crate::flow::FlowKey;
use base::{Map, Time};
use std::collections::VecDeque;
use wire::data::{Class, Header, Remaining};

/// Bytes that a flow may send per turn. At least one packet of any length may leave.
const QUANTUM: usize = 1_500;
/// The number of priorities. Each has turns of its own.
const BANDS: usize = Class::PRIORITY_MAX as usize + 1;
/// One packet out of this many is of a lower priority, if one waits. Choice: a stream that may send nothing at all
/// would end, and priorities decide which packet leaves first, not which packet leaves at all.
const BELOW_EVERY: usize = 16;
/// The capacity of a new buffer: any packet of an Ethernet fits.
const BUFFER_BYTES: usize = 1_504;
/// The most buffers that are kept for reuse: 1.5 MB, or 9.4 MB of the largest.
const SPARE_MAX: usize = 1_024;
/// The largest capacity of a buffer that is kept for reuse: a jumbo frame fits.
const SPARE_BYTES_MAX: usize = 9_216;

/// There is no room for another packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// A packet of the lane: its plaintext, and its state when it came.
#[derive(Debug)]
pub struct Packet {
    /// Overlay header and payload.
    pub bytes: Vec<u8>,
    /// When it came to this lane.
    pub entered: Time,
    /// The time that was left to its deadline when it came.
    pub remaining: Remaining,
    /// The index of the link on which it came; none for a packet of this node.
    pub came: Option<u16>,
}

#[derive(Debug, Default)]
struct Flow {
    key: FlowKey,
    packets: VecDeque<Packet>,
    bytes: usize,
    deficit: i64,
    band: u8,
    /// Whether the flow stands in the lists of its band.
    is_new: bool,
    is_old: bool,
    /// The flow stands aside, because its destination is held.
    is_aside: bool,
    /// The link on which its last packet came.
    came: Option<u16>,
    /// The clients that wait until no more than `wake_at` packets are left.
    waiters: Vec<u32>,
    wake_at: usize,
}

/// The turns of one priority.
#[derive(Debug, Default)]
struct Band {
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    packets: usize,
}

/// The packets that wait on one lane.
#[derive(Debug, Default)]
pub(super) struct Queue {
    flows: Vec<Flow>,
    /// The free places in `flows`.
    free: Vec<u32>,
    places: Map<FlowKey, u32>,
    bands: [Band; BANDS],
    /// The number of packets since one of a lower priority left, and the lower priority whose turn is next.
    above: usize,
    below: usize,
    /// The number of flows that have packets and do not stand aside, and the number of packets of flows that stand
    /// aside.
    busy: usize,
    aside: usize,
    held: Map<Toward, held::Held>,
    /// The clients that wait until the whole queue is shorter.
    crowd: Vec<u32>,
    /// The clients that waited and now have room.
    ready: Vec<u32>,
    packets: usize,
    bytes: usize,
    /// The number of packets by the link on which they came.
    came: Vec<u32>,
    spare: Vec<Vec<u8>>,
}

impl Queue {
    /// Returns the number of packets that wait.
    pub(super) fn len(&self) -> usize {
        self.packets
    }

    /// Returns the bytes of the packets that wait.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.packets == 0
    }

    /// Returns the number of packets that wait only for their turn.
    pub(super) fn due(&self) -> usize {
        self.packets - self.aside
    }

    /// Whether a packet that came on this link waits.
    pub(super) fn holds_of(&self, came: u16) -> bool {
        self.came.get(usize::from(came)).is_some_and(|&n| n > 0)
    }

    /// Returns the number of flows that wait only for their turn.
    pub(super) fn flows(&self) -> usize {
        self.busy
    }

    /// Takes a copy of a packet. If another packet had to make room for it, returns that one.
    pub(super) fn push(
        &mut self,
        now: Time,
        bytes: &[u8],
        came: Option<u16>,
    ) -> Result<Option<Packet>, Full> {
        let place = self.place(bytes);
        let out = self.admit(place, bytes.len(), came)?;
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

    /// Puts back a packet that has waited before, regardless of the limits.
    pub(super) fn push_again(&mut self, packet: Packet) {
        let place = self.place(&packet.bytes);
        self.put(place, packet);
    }

    /// Empties all lists, because no packet waits for its turn any more.
    fn rest(&mut self) {
        for at in 0..BANDS {
            while let Some(place) = self.bands[at].new.pop_front() {
                let flow = &mut self.flows[place as usize];
                flow.is_new = false;
                if !flow.is_old {
                    self.retire(place);
                }
            }
            while let Some(place) = self.bands[at].old.pop_front() {
                let flow = &mut self.flows[place as usize];
                flow.is_old = false;
                if !flow.is_aside {
                    self.retire(place);
                }
            }
        }
    }

    /// Takes back a buffer that is not needed any more.
    pub(super) fn recycle(&mut self, mut bytes: Vec<u8>) {
        if self.spare.len() < SPARE_MAX && bytes.capacity() <= SPARE_BYTES_MAX {
            bytes.clear();
            self.spare.push(bytes);
        }
    }

    /// Gives the memory of an idle lane back.
    pub(super) fn release(&mut self) {
        self.spare = Vec::new();
        if self.is_empty() && self.held.is_empty() {
            self.flows = Vec::new();
            self.free = Vec::new();
            self.places = Map::default();
            self.bands = Default::default();
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
        let band = &mut self.bands[usize::from(flow.band)];
        flow.bytes += packet.bytes.len();
        flow.came = packet.came;
        if flow.is_aside {
            self.aside += 1;
            return flow.packets.push_back(packet);
        }
        band.packets += 1;
        if flow.packets.is_empty() {
            self.busy += 1;
            // The flow may still use the rest of its turn, ahead of the old flows. [RFC 8290 §4.1]
            if flow.deficit > 0 && !flow.is_new {
                flow.is_new = true;
                band.new.push_back(place);
            }
        }
        flow.packets.push_back(packet);
    }

    /// Returns the place of a packet's flow. A flow without a place gets a free one.
    fn place(&mut self, bytes: &[u8]) -> u32 {
        let header = Header::trusted(bytes);
        let key = FlowKey::of(&header);
        if let Some(&place) = self.places.get(&key) {
            return place;
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.flows.push(Flow::default());
            (self.flows.len() - 1) as u32
        });
        let flow = &mut self.flows[place as usize];
        flow.key = key;
        flow.deficit = QUANTUM as i64;
        flow.band = header.class().priority.min(Class::PRIORITY_MAX);
        self.places.insert(key, place);
        place
    }

    /// Forgets a flow that has no packets and stands in no list.
    fn retire(&mut self, place: u32) {
        let flow = &mut self.flows[place as usize];
        self.ready.append(&mut flow.waiters);
        self.places.remove(&flow.key);
        self.free.push(place);
    }

    /// Updates the counts after a packet has left its flow.
    fn count_out(&mut self, place: u32, packet: &Packet) {
        self.packets -= 1;
        self.bytes -= packet.bytes.len();
        if let Some(came) = packet.came {
            self.came[usize::from(came)] -= 1;
        }
        let flow = &mut self.flows[place as usize];
        flow.bytes -= packet.bytes.len();
        if flow.is_aside {
            self.aside -= 1;
        } else {
            self.bands[usize::from(flow.band)].packets -= 1;
            self.busy -= usize::from(flow.packets.is_empty());
        }
        self.wake(place);
    }
}
