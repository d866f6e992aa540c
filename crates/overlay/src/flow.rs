//! The flows that pass this node: duplicates, counters, and a place to remember the next hop.
//!
//! ```text
//!   (source node, port, destination node, port) ──▶ last flow? ──▶ map ──▶ Flow
//!                                                                   window of sequence numbers
//!                                                                   counters, cached next hop
//! ```
//!
//! A packet is known by its source, its flow and its flow sequence number, so a copy that comes by
//! another path is recognised. Packets of a burst mostly belong to one flow, so the last one is
//! tried first. The table is bounded: idle flows leave it, and when it is full the one that was
//! used least lately among a few leaves it.
//!
//! A source that starts again numbers its packets anew, behind what was seen. It is taken for
//! restarted when a packet comes from behind
//! - after [`RESTART_SILENCE`] without a packet of the flow: no copy is under way for so long.
//!   Copies of stamped packets take several paths, and one of them may be slow: such a packet must
//!   also be from behind all that the window remembers, which a random first number is; or
//! - from further behind than the largest window, twice in a row, the second one shortly after the
//!   first in number. The first of the two is dropped as stale. What is less far behind waited
//!   somewhere: in the socket of a host that did not run, while copies came by another path.

use crate::realtime::window::PacedWindow;
use base::seq::Seen;
use base::{Duration, Map, NodeAddr, Time, VirtualPort};
use wire::data::{Class, FlowSeq, Header, Routing};

/// Flows in the table: 1000 clients with four flows each. A flow at rest takes about 200 bytes.
pub const FLOW_LIMIT: usize = 4096;
/// A flow without a packet for so long leaves the table.
pub const FLOW_IDLE: Duration = Duration::from_secs(60);
/// A packet from behind after so long without any is the first of a restarted source.
pub const RESTART_SILENCE: Duration = Duration::from_secs(2);

/// Numbers that a flow's window covers at first: five seconds of voice, in 32 bytes.
const WINDOW_START: usize = 256;
/// And at most: 8 KiB.
const WINDOW_LIMIT: usize = 64 << 10;
/// Half a window is made to last so long. Choice: copies that links repair come as late as deadlines let
/// them, and a video group's is half a second; a whole window lasts for two.
const WINDOW_COVER: Duration = Duration::from_millis(500);
/// Packets of reliable links come late by recoveries on several hops, timeouts among them.
const RELIABLE_COVER: Duration = Duration::from_secs(2);
/// 2 s of 2 Gbit/s in packets of 1400 bytes are 357 000 numbers; in 64 KiB.
const RELIABLE_LIMIT: usize = 512 << 10;
/// The second packet of a restarted source comes at most so many numbers after the first.
const RESTART_STEP: u64 = 64;
/// Flows of which the least lately used one makes room.
const EVICTION_SAMPLE: usize = 8;
/// Flows that one call of [`Flows::expire`] looks at.
const EXPIRE_STEP: usize = 64;

/// What a flow is known by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKey {
    /// The node where it begins.
    pub source: NodeAddr,
    /// The client's port there.
    pub source_port: VirtualPort,
    /// The node or group where it goes.
    pub destination: NodeAddr,
    /// The port there.
    pub destination_port: VirtualPort,
}

impl FlowKey {
    /// The flow of a packet.
    #[inline]
    pub fn of<B: AsRef<[u8]>>(header: &Header<B>) -> FlowKey {
        FlowKey {
            source: header.source(),
            source_port: header.source_port(),
            destination: header.destination(),
            destination_port: header.destination_port(),
        }
    }

    /// A number that two flows hardly share.
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

/// What a packet is to its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is here for the first time.
    New,
    /// It has been here before.
    Duplicate,
    /// It is from so far behind that nothing is known of it.
    Stale,
}

/// Where the numbers of a flow have come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// From packets that pass, or from packets for this node alone.
    Passing,
    /// From packets to a group that were delivered here, and that anybody can have written.
    Believed,
    /// From such packets that were opened.
    Opened,
}

/// How far apart the packets of a flow may be on their way here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// By one path.
    Table,
    /// By several.
    Stamped,
    /// By links that recover what they lose, however long it takes.
    Reliable,
}

/// A next hop, and when it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cached {
    /// The generation of the routes that it was taken from.
    pub generation: u32,
    /// Which of the routes: a socket may change its class.
    pub routing: Routing,
    /// The index of the link.
    pub link: u32,
}

/// One flow.
#[derive(Clone, Debug)]
pub struct Flow {
    /// What it is known by.
    pub key: FlowKey,
    /// The class of its last packet; the caller notes it.
    pub class: Class,
    /// Packets that were here for the first time.
    pub packets: u64,
    /// Their bytes, as the caller counts.
    pub bytes: u64,
    /// Packets that were here before, or were stale.
    pub duplicates: u64,
    /// Packets whose deadline had passed; the caller counts them.
    pub expired: u64,
    /// Packets that were lost on a hop and recovered there; the caller counts them.
    pub recovered: u64,
    /// When its first packet was here.
    pub first_seen: Time,
    /// When its last packet was here, duplicates included.
    pub last_seen: Time,
    /// The caller's next hop.
    pub cached: Option<Cached>,
    window: PacedWindow,
    /// Of packets that are sealed from end to end and pass here.
    marks: Marks,
    /// The lowest number since the numbering began.
    first: u64,
    /// Packets, and packets missing, before it began.
    before: (u64, u64),
    /// Whose word its numbers are.
    known: Known,
    /// The last stale number, if nothing but stale ones came after it.
    stale: Option<u64>,
}

/// The table of flows.
#[derive(Debug)]
pub struct Flows {
    places: Map<FlowKey, u32>,
    /// Where a mark has its place.
    salt: u64,
    flows: Vec<Flow>,
    last: usize,
    /// Where eviction and expiry go on looking.
    hand: usize,
    evicted: u64,
}

impl Flows {
    /// An empty table. The salt is a secret of the node: who knew it could choose marks that have the same place.
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

    /// Notes a packet of the flow `key` with its sequence number, and tells whether it is new.
    /// The flow is returned for its cached next hop and its count of expired packets.
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

    /// The same for a packet that was stamped, of which copies come by several paths.
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

    /// The same for a packet that came over a reliable link, which may be late by seconds.
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

    /// The same for a packet that passes and was sealed from end to end. It is a duplicate if it has the number
    /// and the mark of one that was here: what others write into the flow costs it nothing.
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

    /// A packet that this node passes on and also receives was here before, by its mark. Its number counts once the
    /// packet is believed.
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

    /// Counts such a packet that has come too late.
    pub fn on_expired(&mut self, now: Time, key: FlowKey) {
        self.flow(now, key).expired += 1;
    }

    /// Notes a packet to a group that this node receives, and that it believes: because it was opened, or
    /// because its source seals nothing. What anybody can have written is forgotten when the first opened packet comes, as
    /// is what the node has noted as a relay: numbers far ahead silence nobody. From then on the numbers of opened
    /// packets alone count; others that are still believed have none but their marks to be known again by.
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

    /// Counts a duplicate of a flow, if there is such a flow.
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

    /// The flow of a key.
    pub fn find(&self, key: &FlowKey) -> Option<&Flow> {
        self.flows.get(*self.places.get(key)? as usize)
    }

    /// All flows, in no particular order but the same in every run.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Flow> {
        self.flows.iter()
    }

    /// How many flows there are.
    pub fn len(&self) -> usize {
        self.flows.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// Flows that had to make room for others.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Looks at some flows and removes the idle ones. Call it now and then; a second apart is
    /// enough for the whole table to be seen once in [`FLOW_IDLE`] (64 × 64 flows).
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

    /// Where the flow of `key` is, after making it if need be.
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

    /// The least lately used of the next few flows. Choice: a sample instead of an exact order,
    /// which would cost every packet that changes the flow.
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

/// What a packet is known again by that passes: one that was sealed from end to end, or one to a group.
#[derive(Clone, Copy, Debug)]
pub struct Mark<W> {
    /// Its tag: at hand, and anybody who sees the packet can write it on another one.
    pub tag: u32,
    /// There is no more to know it by: it was not sealed, and this is its number.
    pub is_final: bool,
    /// All of it that no hop changes, in a way that nobody can write on another one. Dear.
    pub whole: W,
}

/// Numbers and marks of the packets of a flow that were here last.
///
/// Of two packets with the same place the later one is remembered, so a ring need not know what is
/// newest, and nothing that others write moves it on.
///
/// ```text
///   places by number   the last so many packets, if each number has one packet
///   places by mark     as many again: of one number, the packet and what somebody has made of it
/// ```
/// By number alone, a packet and its changed copy made each other be forgotten at each meeting. Where the graph of a
/// group has a cycle, both went round in it, twice as many each time, until their time to live ended.
///
/// Choice: marks of the whole packet cost a tenth of what a relay does with it, and most flows never have copies. So a flow
/// goes by tags until two are alike. The second one of these passes, whichever is genuine, and from then on
/// whole packets count, as long as copies come.
#[derive(Clone, Debug, Default)]
struct Marks {
    /// The places by number, and behind them those by mark. Empty until the first packet.
    places: Vec<u32>,
    /// Until then whole packets count.
    whole_until: Time,
    /// Packets since they have become more.
    since: u32,
}

/// Where a copy has come, others may for so long.
const COPIES_FOR: Duration = Duration::from_secs(10);
/// Packets that a flow's marks cover at first: a second of voice, in 512 bytes.
const MARKS_START: usize = 64;
/// And at most: copies that come 10 ms apart at 100 000 packets per second, in 8 KiB.
const MARKS_LIMIT: usize = 1 << 10;

impl Marks {
    /// Notes a packet; true if the same one was here lately.
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
            // The next copy is one of this packet, and is told by the whole of it.
            self.replace((seq, salt), (mark.whole)(), false);
        }
        is_whole
    }

    /// Remembers it in its places; true if it was in one of them.
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

    /// Packets in a row, copies of which are known.
    fn covered(&self) -> usize {
        self.places.len() / 2
    }

    /// What was remembered is forgotten: a copy of it that comes now is one for the exit to drop.
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
            known: Known::Passing,
            stale: None,
        }
    }

    /// Packets that have not come, up to the highest number that has.
    pub fn missing(&self) -> u64 {
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
        match seen {
            Seen::Ahead => Verdict::New,
            Seen::Late => {
                self.first = self.first.min(wide);
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

    /// Begins the numbering at `seq`.
    fn restart(&mut self, now: Time, seq: FlowSeq) -> Verdict {
        self.before = (self.packets, self.missing());
        self.window = PacedWindow::new(WINDOW_START);
        self.stale = None;
        // One span up, so that there is room for numbers from before the first one.
        let wide = (1 << 32) + u64::from(seq.0);
        self.window.insert(now, wide, WINDOW_COVER, WINDOW_LIMIT);
        self.first = wide;
        Verdict::New
    }
}

#[cfg(test)]
mod tests;
