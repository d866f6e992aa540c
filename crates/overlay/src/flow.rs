//! The flows that pass this node: duplicates, counters, and a place to remember the next hop.
//!
//! ```text
//!   (source node, port, destination node, port) ──▶ last flow? ──▶ map ──▶ Flow
//!                                                                   window of sequence numbers
//!                                                                   counters, cached next hop
//! ```
//!
//! A packet is identified by its source, its flow and its flow sequence number, so a copy that arrives by another path
//! is recognised. Packets of a burst mostly belong to one flow, so the last flow is tried first. The table is bounded:
//! idle flows leave it, and when it is full, the least recently used of a few flows leaves it.
//!
//! A restarted source begins its numbering again, behind the numbers seen. The flow is taken as restarted when a packet
//! arrives from behind
//! - after [`RESTART_SILENCE`] without a packet of the flow: no copy is under way for so long. Copies of stamped
//!   packets take several paths, and one of them may be slow: such a packet must also be behind all numbers that the
//!   window remembers, as a random first number is; or
//! - from further behind than the largest window, twice in a row, where the second number is a little above the first.
//!   The first of the two is dropped as stale. A packet less far behind has waited somewhere: in the socket of a host
//!   that did not run, while copies arrived by another path.

use crate::realtime::window::PacedWindow;
use base::seq::Seen;
use base::{Duration, Map, NodeAddr, Time, VirtualPort};
use wire::data::{Class, FlowSeq, Header, LinkProtocol, Routing};

/// Flows in the table: 1000 clients with four flows each. A flow at rest takes about 200 bytes.
pub const FLOW_LIMIT: usize = 4096;
/// Time without a packet after which a flow leaves the table.
pub const FLOW_IDLE: Duration = Duration::from_secs(60);
/// Silence of a flow after which a packet from behind is the first one of a restarted source.
pub const RESTART_SILENCE: Duration = Duration::from_secs(2);

/// Numbers that a flow's window covers at first: five seconds of voice, in 32 bytes.
const WINDOW_START: usize = 256;
/// The maximum: 8 KiB.
const WINDOW_LIMIT: usize = 64 << 10;
/// The window grows until half of it covers this time. Choice: copies that links repair arrive as late as deadlines
/// allow, and the deadline of a video group is half a second; a whole window covers two deadlines.
const WINDOW_COVER: Duration = Duration::from_millis(500);
/// The same for packets of reliable links, which arrive late after recoveries on several hops, including timeouts.
const RELIABLE_COVER: Duration = Duration::from_secs(2);
/// The maximum for reliable links: 2 s of 2 Gbit/s in packets of 1400 bytes are 357 000 numbers; in 64 KiB.
const RELIABLE_LIMIT: usize = 512 << 10;
/// How long a missing packet without a deadline may still be repaired: as long as half a window. Links repair and
/// reorder packets without a deadline by the same rules as others.
const REPAIR_WAIT: Duration = WINDOW_COVER;
/// The maximum step from the first to the second packet of a restarted source.
const RESTART_STEP: u64 = 64;
/// Number of flows of which the least recently used one makes room.
const EVICTION_SAMPLE: usize = 8;
/// Number of flows that one call of [`Flows::expire`] examines.
const EXPIRE_STEP: usize = 64;

/// The key of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKey {
    /// The source node.
    pub source: NodeAddr,
    /// The client's port at the source.
    pub source_port: VirtualPort,
    /// The destination node or group.
    pub destination: NodeAddr,
    /// The port at the destination.
    pub destination_port: VirtualPort,
}

impl FlowKey {
    /// Returns the flow of a packet.
    #[inline]
    pub fn of<B: AsRef<[u8]>>(header: &Header<B>) -> FlowKey {
        FlowKey {
            source: header.source(),
            source_port: header.source_port(),
            destination: header.destination(),
            destination_port: header.destination_port(),
        }
    }

    /// Returns a number that two flows hardly ever share.
    #[inline]
    pub fn hash(&self) -> u64 {
        let nodes = u64::from(self.source.0) << 32 | u64::from(self.destination.0);
        let ports = u64::from(self.source_port.0) << 16 | u64::from(self.destination_port.0);
        let mixed = u128::from(nodes ^ ports.rotate_left(13) ^ MIX) * u128::from(MIX ^ ports << 1);
        mixed as u64 ^ (mixed >> 64) as u64
    }
}

impl core::fmt::Display for FlowKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let FlowKey {
            source,
            source_port,
            destination,
            destination_port,
        } = self;
        write!(
            f,
            "{source}:{source_port} > {destination}:{destination_port}"
        )
    }
}

/// An odd number with well mixed bits: 2^64 by the golden ratio.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// The relation of a packet to its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The packet has arrived for the first time.
    New,
    /// The packet has arrived before.
    Duplicate,
    /// The packet is so far behind that nothing is known about it.
    Stale,
}

/// The origin of the numbers of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// The numbers come from passing packets, or from packets for this node alone.
    Passing,
    /// The numbers come from packets to a group that were delivered here without a seal, so that anybody can have
    /// written them.
    Believed,
    /// The numbers come from packets to a group that were opened.
    Opened,
}

/// How far apart the packets of a flow may arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The packets take one path.
    Table,
    /// The packets take several paths.
    Stamped,
    /// The packets take links that recover losses, however long that takes.
    Reliable,
}

/// A next hop, and its validity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cached {
    /// The generation of the routes from which it was taken.
    pub generation: u32,
    /// The routing for which it is valid: a socket may change its class.
    pub routing: Routing,
    /// The index of the link.
    pub link: u32,
}

/// The state of one flow.
#[derive(Clone, Debug)]
pub struct Flow {
    /// The key of the flow.
    pub key: FlowKey,
    /// The class of its last packet; the caller notes it.
    pub class: Class,
    /// Packets that arrived for the first time.
    pub packets: u64,
    /// Their bytes, as the caller counts them.
    pub bytes: u64,
    /// Packets that had arrived before, or were stale.
    pub duplicates: u64,
    /// Packets whose deadline had passed; the caller counts them.
    pub expired: u64,
    /// Packets that were lost on a hop and recovered there; the caller counts them.
    pub recovered: u64,
    /// When its first packet arrived.
    pub first_seen: Time,
    /// When its last packet arrived, duplicates included.
    pub last_seen: Time,
    /// The caller's next hop.
    pub cached: Option<Cached>,
    window: PacedWindow,
    /// The marks of passing packets that are sealed from end to end.
    marks: Marks,
    /// The lowest number since the numbering began.
    first: u64,
    /// Packets, and missing packets, from before the numbering began.
    before: (u64, u64),
    /// Which holes in the numbers are lost for good.
    settling: Settling,
    /// The origin of its numbers.
    known: Known,
    /// The last stale number, if only stale ones came after it.
    stale: Option<u64>,
}

/// Which holes in the numbers of a flow are lost for good, and which may still be filled by a repair.
///
/// ```text
///   ── lost for good ──▶ below ── under repair until `at` ──▶ next ── since then ──▶ the highest number
/// ```
/// At `at`, everything below `next` is lost for good. So a hole counts after one to two times the wait, and the flow
/// keeps two numbers instead of a list of holes.
#[derive(Clone, Copy, Debug, Default)]
struct Settling {
    below: u64,
    next: u64,
    at: Time,
    /// How long a packet may be late: the longest time that a packet had left on arrival.
    wait: Duration,
}

/// The table of flows.
#[derive(Debug)]
pub struct Flows {
    places: Map<FlowKey, u32>,
    /// Determines the place of a mark.
    salt: u64,
    flows: Vec<Flow>,
    last: usize,
    /// The position at which eviction and expiry continue.
    hand: usize,
    evicted: u64,
}

impl Flows {
    /// Returns an empty table. The salt is a secret of the node: anybody who knew it could choose marks with the same
    /// place.
    pub fn new(salt: u64) -> Flows {
        Flows {
            places: Map::default(),
            salt: salt | 1,
            flows: Vec::new(),
            last: 0,
            hand: 0,
            evicted: 0,
        }
    }

    /// Notes a packet of the flow `key` with its sequence number, and returns whether it is new, together with the flow
    /// for its cached next hop and its count of expired packets.
    #[inline]
    pub fn on_packet(
        &mut self,
        now: Time,
        key: FlowKey,
        seq: FlowSeq,
        bytes: usize,
    ) -> (Verdict, &mut Flow) {
        self.note(now, key, seq, bytes, Way::Table)
    }

    /// The same for a stamped packet, of which copies arrive by several paths.
    #[inline]
    pub fn on_stamped(
        &mut self,
        now: Time,
        key: FlowKey,
        seq: FlowSeq,
        bytes: usize,
    ) -> (Verdict, &mut Flow) {
        self.note(now, key, seq, bytes, Way::Stamped)
    }

    /// The same for a packet that arrived over a reliable link, which may be late by seconds.
    #[inline]
    pub fn on_reliable(
        &mut self,
        now: Time,
        key: FlowKey,
        seq: FlowSeq,
        bytes: usize,
    ) -> (Verdict, &mut Flow) {
        self.note(now, key, seq, bytes, Way::Reliable)
    }

    /// The same for a passing packet that was sealed from end to end. It is a duplicate if an earlier packet had its
    /// number and its mark. So packets that others write into the flow do not harm it.
    #[inline]
    pub fn on_marked(
        &mut self,
        now: Time,
        key: FlowKey,
        (seq, mark): (FlowSeq, Mark<impl Fn() -> u32>),
        bytes: usize,
    ) -> (Verdict, &mut Flow) {
        let salt = self.salt;
        let flow = self.flow(now, key);
        flow.known = Known::Passing;
        flow.note(now, seq, Way::Stamped);
        let verdict = match flow.marks.is_repeated(now, seq, mark, salt) {
            true => Verdict::Duplicate,
            false => Verdict::New,
        };
        flow.count(now, verdict, bytes);
        (verdict, flow)
    }

    /// Returns true if a packet that this node forwards and also receives has arrived before, by its mark. Its number
    /// counts once the packet is believed.
    #[inline]
    pub fn is_repeated(
        &mut self,
        now: Time,
        key: FlowKey,
        (seq, mark): (FlowSeq, Mark<impl Fn() -> u32>),
    ) -> bool {
        let salt = self.salt;
        let flow = self.flow(now, key);
        let is_repeated = flow.marks.is_repeated(now, seq, mark, salt);
        flow.duplicates += u64::from(is_repeated);
        is_repeated
    }

    /// Counts such a packet that has arrived too late.
    pub fn on_expired(&mut self, now: Time, key: FlowKey) {
        self.flow(now, key).expired += 1;
    }

    /// Notes a packet to a group that this node receives and believes: because it was opened, or because its source
    /// seals nothing. When the first opened packet arrives, the numbers that anybody can have written are forgotten, as
    /// are those that the node has noted as a relay: forged numbers far ahead silence nobody. From then on, only the
    /// numbers of opened packets count. Other packets that are still believed are recognized by their marks alone.
    #[inline]
    pub fn on_delivered(
        &mut self,
        now: Time,
        key: FlowKey,
        (seq, is_late, is_opened): (FlowSeq, bool, bool),
        bytes: usize,
    ) -> (Verdict, &mut Flow) {
        let flow = self.flow(now, key);
        if flow.known == Known::Opened && !is_opened {
            flow.count(now, Verdict::New, bytes);
            return (Verdict::New, flow);
        }
        let known = match is_opened {
            true => Known::Opened,
            false => Known::Believed,
        };
        let verdict = match (core::mem::replace(&mut flow.known, known), is_late) {
            (Known::Passing, _) => flow.restart(now, seq),
            (Known::Believed, _) if is_opened => flow.restart(now, seq),
            (_, true) => flow.note(now, seq, Way::Reliable),
            (_, false) => flow.note(now, seq, Way::Stamped),
        };
        flow.count(now, verdict, bytes);
        (verdict, flow)
    }

    /// Counts a duplicate of a flow, if the flow exists.
    pub fn on_duplicate(&mut self, key: FlowKey) {
        if let Some(at) = self.places.get(&key) {
            self.flows[*at as usize].duplicates += 1;
        }
    }

    #[inline]
    fn flow(&mut self, now: Time, key: FlowKey) -> &mut Flow {
        if self.flows.get(self.last).is_none_or(|f| f.key != key) {
            self.last = self.place(now, key);
        }
        &mut self.flows[self.last]
    }

    #[inline]
    fn note(
        &mut self,
        now: Time,
        key: FlowKey,
        seq: FlowSeq,
        bytes: usize,
        way: Way,
    ) -> (Verdict, &mut Flow) {
        let flow = self.flow(now, key);
        flow.known = Known::Passing;
        (flow.on_packet(now, seq, bytes, way), flow)
    }

    /// Returns the flow of a key.
    pub fn find(&self, key: &FlowKey) -> Option<&Flow> {
        self.flows.get(*self.places.get(key)? as usize)
    }

    /// Returns all flows, in no particular order but the same in every run.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Flow> {
        self.flows.iter()
    }

    /// Returns the number of flows.
    pub fn len(&self) -> usize {
        self.flows.len()
    }

    /// Returns true if there are no flows.
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// Returns the number of flows that had to make room for others.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Examines some flows and removes the idle ones. Call it regularly; once a second is enough to see the whole table
    /// once in [`FLOW_IDLE`] (64 × 64 flows).
    pub fn expire(&mut self, now: Time) {
        for _ in 0..EXPIRE_STEP.min(self.flows.len()) {
            if self.hand >= self.flows.len() {
                self.hand = 0;
            }
            if now.since(self.flows[self.hand].last_seen) >= FLOW_IDLE {
                self.remove(self.hand);
            } else {
                self.hand += 1;
            }
        }
        if self.flows.is_empty() && self.flows.capacity() > 0 {
            *self = Flows {
                evicted: self.evicted,
                ..Flows::new(self.salt)
            };
        }
    }

    /// Returns the place of the flow of `key`, and makes the flow if necessary.
    fn place(&mut self, now: Time, key: FlowKey) -> usize {
        if let Some(&at) = self.places.get(&key) {
            return at as usize;
        }
        let flow = Flow::new(now, key);
        let at = if self.flows.len() < FLOW_LIMIT {
            self.flows.push(flow);
            self.flows.len() - 1
        } else {
            let at = self.least_lately_used();
            let old = core::mem::replace(&mut self.flows[at], flow);
            self.places.remove(&old.key);
            self.evicted += 1;
            at
        };
        self.places.insert(key, at as u32);
        at
    }

    /// Returns the least recently used of the next few flows. Choice: a sample instead of an exact order, which would
    /// have a cost for every packet that changes the flow.
    fn least_lately_used(&mut self) -> usize {
        let start = self.hand;
        self.hand = (start + EVICTION_SAMPLE) % self.flows.len();
        (start..start + EVICTION_SAMPLE)
            .map(|at| at % self.flows.len())
            .min_by_key(|&at| self.flows[at].last_seen)
            .unwrap_or(0)
    }

    fn remove(&mut self, at: usize) {
        let gone = self.flows.swap_remove(at);
        self.places.remove(&gone.key);
        if let Some(moved) = self.flows.get(at) {
            self.places.insert(moved.key, at as u32);
        }
    }
}

/// The mark by which a passing packet is recognized: one that was sealed from end to end, or one to a group.
#[derive(Clone, Copy, Debug)]
pub struct Mark<W> {
    /// The packet's tag: it is at hand, but anybody who sees the packet can write it on another one.
    pub tag: u32,
    /// There is nothing else to recognize the packet by: it was not sealed, and `tag` is its number.
    pub is_final: bool,
    /// The mark of all parts of the packet that no hop changes, which nobody can write on another packet. Expensive.
    pub whole: W,
}

/// Numbers and marks of the last packets of a flow.
///
/// If two packets have the same place, the later one is remembered. So a ring need not know which packet is newest, and
/// packets that others write do not move it.
///
/// ```text
///   places by number   the last so many packets, if each number has one packet
///   places by mark     as many again: of one number, the packet and what somebody has made of it
/// ```
/// With places by number alone, a packet and its changed copy would replace each other at each meeting. In a group
/// whose graph has a cycle, both would circulate, twice as many each time, until their time to live ends.
///
/// Choice: computing the mark of the whole packet costs a tenth of what a relay does with the packet, and most flows
/// never have copies. So a flow uses tags until two are alike. The second of these two packets passes, whichever is
/// genuine, and from then on marks of whole packets are used, as long as copies arrive.
#[derive(Clone, Debug, Default)]
struct Marks {
    /// The places by number, followed by those by mark. Empty until the first packet.
    places: Vec<u32>,
    /// Until then, marks of whole packets are used.
    whole_until: Time,
    /// Packets since the places last became more.
    since: u32,
}

/// How long further copies are expected after one has arrived.
const COPIES_FOR: Duration = Duration::from_secs(10);
/// Packets that a flow's marks cover at first: a second of voice, in 512 bytes.
const MARKS_START: usize = 64;
/// The maximum: copies that arrive 10 ms apart at 100 000 packets per second, in 8 KiB.
const MARKS_LIMIT: usize = 1 << 10;

impl Marks {
    /// Notes a packet. Returns true if the same one has arrived recently.
    #[inline]
    fn is_repeated(
        &mut self,
        now: Time,
        seq: FlowSeq,
        mark: Mark<impl Fn() -> u32>,
        salt: u64,
    ) -> bool {
        let is_whole = !mark.is_final && now < self.whole_until;
        let known = match is_whole {
            true => (mark.whole)(),
            false => mark.tag,
        };
        if self.since as usize >= self.covered() * 16 && self.covered() < MARKS_LIMIT {
            self.grow();
        }
        self.since = self.since.saturating_add(1);
        let is_alike = self.replace((seq, salt), known, mark.is_final);
        if mark.is_final || !is_alike {
            return is_alike;
        }
        self.whole_until = now + COPIES_FOR;
        if !is_whole {
            // The next copy is one of this packet, and is recognized by the whole of it.
            self.replace((seq, salt), (mark.whole)(), false);
        }
        is_whole
    }

    /// Stores the mark in its places. Returns true if it was in one of them.
    #[inline]
    fn replace(&mut self, (seq, salt): (FlowSeq, u64), known: u32, is_final: bool) -> bool {
        let half = self.covered();
        let (by_number, by_mark) = self.places.split_at_mut(half);
        let last = half - 1;
        let number = &mut by_number[seq.0 as usize & last];
        let mut is_alike = core::mem::replace(number, known) == known;
        if !is_final {
            let mixed = (u64::from(known).wrapping_mul(salt) >> 32) as usize;
            is_alike |= core::mem::replace(&mut by_mark[mixed & last], known) == known;
        }
        is_alike
    }

    /// Returns the number of consecutive packets whose copies are recognized.
    fn covered(&self) -> usize {
        self.places.len() / 2
    }

    /// Enlarges the places and forgets their content: the exit drops a copy of a forgotten packet.
    #[cold]
    fn grow(&mut self) {
        let covered = (self.covered() * 4).max(MARKS_START);
        self.places.clear();
        self.places.resize(2 * covered, 0);
        self.since = 0;
    }
}

impl Flow {
    fn new(now: Time, key: FlowKey) -> Flow {
        Flow {
            key,
            class: Class::default(),
            packets: 0,
            bytes: 0,
            duplicates: 0,
            expired: 0,
            recovered: 0,
            first_seen: now,
            last_seen: now,
            cached: None,
            window: PacedWindow::new(WINDOW_START),
            marks: Marks::default(),
            first: 0,
            before: (0, 0),
            settling: Settling::default(),
            known: Known::Passing,
            stale: None,
        }
    }

    /// Returns the number of packets that are lost for good: a number that has not arrived counts once no repair is
    /// expected any more.
    pub fn missing(&self, now: Time) -> u64 {
        let Settling {
            below,
            next,
            at,
            wait,
        } = self.settling;
        let highest = self.window.next();
        let below = match now {
            _ if now >= self.last_seen + wait => highest,
            _ if now >= at => next,
            _ => below,
        };
        // What is behind the window is too old for any repair.
        let below = below.max(highest.saturating_sub(self.window.capacity()));
        let seen = self.window.count(below, highest).unwrap_or_default();
        let open = (highest - below).saturating_sub(seen);
        self.holes().saturating_sub(open)
    }

    /// A packet has arrived that may still wait for so long, `None` without a deadline: a packet of the same time that
    /// is missing may arrive as late.
    pub fn expect_repairs(&mut self, left: Option<Duration>) {
        let by_lane = match self.class.link {
            LinkProtocol::Reliable => RELIABLE_COVER,
            LinkProtocol::BestEffort | LinkProtocol::RealTime => REPAIR_WAIT,
        };
        let wait = left.unwrap_or(by_lane);
        self.settling.wait = self.settling.wait.max(wait);
    }

    /// Notes which holes are lost for good by now. `before` is the highest number plus one before this packet.
    #[inline]
    fn settle(&mut self, now: Time, before: u64) {
        let Settling { next, at, wait, .. } = self.settling;
        if now >= at {
            let was_silent = now >= self.last_seen + wait;
            self.settling = Settling {
                below: if was_silent { before } else { next },
                next: self.window.next(),
                at: now + wait,
                wait,
            };
        }
    }

    /// Returns the number of packets that have not arrived, up to the highest number that has.
    fn holes(&self) -> u64 {
        let (packets, missing) = self.before;
        let span = self.window.next().saturating_sub(self.first);
        missing + span.saturating_sub(self.packets - packets)
    }

    fn on_packet(&mut self, now: Time, seq: FlowSeq, bytes: usize, way: Way) -> Verdict {
        let verdict = self.note(now, seq, way);
        self.count(now, verdict, bytes);
        verdict
    }

    fn count(&mut self, now: Time, verdict: Verdict, bytes: usize) {
        self.last_seen = now;
        if verdict == Verdict::New {
            self.packets += 1;
            self.bytes += bytes as u64;
        } else {
            self.duplicates += 1;
        }
    }

    fn note(&mut self, now: Time, seq: FlowSeq, way: Way) -> Verdict {
        let next = self.window.next();
        if next == 0 {
            return self.restart(now, seq);
        }
        let wide = seq.widen(next);
        let is_spread = way != Way::Table;
        let remembered = is_spread && next.saturating_sub(wide) <= self.window.capacity();
        let silent = now.since(self.last_seen) >= RESTART_SILENCE;
        if wide < next && silent && !remembered {
            return self.restart(now, seq);
        }
        let (cover, limit) = match way {
            Way::Reliable => (RELIABLE_COVER, RELIABLE_LIMIT),
            Way::Table | Way::Stamped => (WINDOW_COVER, WINDOW_LIMIT),
        };
        let seen = self.window.insert(now, wide, cover, limit);
        let stale = self.stale.take();
        self.settle(now, next);
        match seen {
            Seen::Ahead => Verdict::New,
            Seen::Late => {
                if wide < self.first {
                    // Numbers between this one and the former first one may be on their way, too.
                    self.settling.below = wide;
                    self.first = wide;
                }
                Verdict::New
            }
            Seen::Duplicate => Verdict::Duplicate,
            Seen::TooOld => {
                let is_far = next - wide > limit as u64;
                let step = stale.and_then(|before| wide.checked_sub(before));
                if is_far && step.is_some_and(|step| (1..=RESTART_STEP).contains(&step)) {
                    return self.restart(now, seq);
                }
                self.stale = Some(wide);
                Verdict::Stale
            }
        }
    }

    /// Restarts the numbering at `seq`.
    fn restart(&mut self, now: Time, seq: FlowSeq) -> Verdict {
        self.before = (self.packets, self.holes());
        self.window = PacedWindow::new(WINDOW_START);
        self.stale = None;
        // The number is one span higher, so that there is room for numbers before the first one.
        let wide = (1 << 32) + u64::from(seq.0);
        self.window.insert(now, wide, WINDOW_COVER, WINDOW_LIMIT);
        self.first = wide;
        let wait = self.settling.wait.max(REPAIR_WAIT);
        self.settling = Settling {
            below: wide,
            next: wide + 1,
            at: now + wait,
            wait,
        };
        Verdict::New
    }
}

#[cfg(test)]
mod tests;
