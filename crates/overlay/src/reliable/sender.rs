//! The sender's side of a reliable lane: numbers, copies, what is lost, and when to send.
//!
//! ```text
//!   entries   base                                        next
//!             | sent | acked | lost | sent | sent | sent |
//!   sent      5  6  9  10  11 ...     transmissions in the order in which they left
//!   lost      to be sent again, in the order in which they were found
//! ```
//!
//! A transmission is lost when one that left later has arrived and it is three places or a
//! quarter of a round trip behind [RFC 8985]. Since retransmissions take a new place in the order,
//! their losses are found by the same rule. Once reordering has been seen places count no more, and
//! the time that is allowed grows.

use super::controls::Controls;
use super::pacer::Pacer;
use super::queue::{Packet, Queue};
use super::{ACK_DELAY, Full, MARK_PACKETS, MARK_SOJOURN, Settings, WINDOW_MAX};
use crate::estimate::Rtt;
use base::{Duration, Time};
use congestion::Acked;
use std::collections::VecDeque;
use wire::control::{ReliableAck, ReliableSkip};
use wire::data::{Header, LaneSeq};

/// Later transmissions that have arrived make one lost [RFC 5681's three duplicates].
const LATER: u64 = 3;
/// The shortest time by which a transmission may be overtaken: bursts, timers, threads.
const REORDER_MIN: Duration = Duration::from_micros(500);
/// Quarters of the least round trip by which packets may be overtaken, at most.
const REORDER_QUARTERS_MAX: u64 = 6;
/// The limits of the retransmission timeout. Kernels take 200 ms for the least.
const RTO_MIN: Duration = Duration::from_millis(200);
const RTO_MAX: Duration = Duration::from_secs(3);
/// Before the first sample [RFC 6298].
const RTO_FIRST: Duration = Duration::from_secs(1);
/// Probes per silence before the timeout.
const PROBES: u8 = 2;
/// Flows are counted over one to two of these.
const FLOWS_HALF: Duration = Duration::from_millis(500);
/// A lane without packets for so long gives its memory back.
const IDLE: Duration = Duration::from_secs(5);
/// Packets that wait for so long make their senders wait. Long beside the marks of congestion, which
/// make the sources slower: this is for what does not listen to them.
const PRESS_SOJOURN: Duration = Duration::from_millis(100);
/// A lane that took nothing for so long.
const STALLED: Duration = Duration::from_secs(1);
/// The wait for a buffer.
const TRY_AGAIN: Duration = Duration::from_millis(1);
/// The room that this node's own flows find at least, in packets: some bursts.
const ROOM_MIN: usize = 64;

/// Counters of a [`Sender`], since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderStats {
    /// Packets sent for the first time.
    pub sent: u64,
    /// Packets sent again.
    pub retransmissions: u64,
    /// Of those, the ones that proved unnecessary.
    pub spurious: u64,
    /// Probes for the end of the lane.
    pub probes: u64,
    /// Timeouts.
    pub timeouts: u64,
    /// Times that a window was cut for a loss.
    pub cuts: u64,
    /// Packets marked as having met congestion.
    pub marked: u64,
    /// Acknowledgements of what was never sent.
    pub bogus: u64,
    /// Packets for which there was no room.
    pub overflows: u64,
}

#[derive(Debug)]
struct Entry {
    /// The copy, until it is acknowledged.
    packet: Option<Packet>,
    order: u64,
    sent_at: Time,
    transmissions: u8,
    state: State,
    /// It was sent again because its loss was found by what arrived.
    by_loss: bool,
}

/// Where the last transmission of a packet is believed to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// There was none yet.
    Waiting,
    InFlight,
    /// Others have overtaken it.
    Lost,
    /// Nothing at all has been heard.
    Expired,
}

/// A packet that leaves now.
#[derive(Debug)]
pub struct Outgoing<'a> {
    /// Overlay header, as it goes on the wire, and payload.
    pub bytes: &'a [u8],
    /// It has been sent before.
    pub is_again: bool,
    /// It is one of this node's own.
    pub is_own: bool,
}

/// The packets on their way to one neighbour.
#[derive(Debug)]
pub struct Sender {
    controls: Controls,
    pacer: Pacer,
    rtt: Rtt,
    queue: Queue,
    base: u64,
    entries: VecDeque<Entry>,
    /// (order, number) of transmissions that may still be outstanding.
    sent: VecDeque<(u64, u64)>,
    lost: VecDeque<u64>,
    /// What leaves next, once it was looked at.
    chosen: Option<u64>,
    in_flight: usize,
    next_order: u64,
    /// The latest transmission that has arrived, and when it was sent.
    highest: Option<(u64, Time)>,
    /// The receiver takes numbers below this.
    limit: u64,
    /// What the last acknowledgement told above its `next`, from the highest down.
    told: Vec<(u64, u64)>,
    /// Kept for its memory.
    told_before: Vec<(u64, u64)>,
    told_end: u64,
    /// When the next transmission is lost if nothing comes, and when the timeout is.
    reorder_at: Option<Time>,
    timeout_at: Option<Time>,
    probes: u8,
    backoff: u32,
    /// One packet may be sent whatever the window.
    grant: bool,
    /// The window kept packets back lately.
    is_limited: bool,
    reorder_quarters: u64,
    /// The most flows at once in this half second, and in the one before.
    flows: [usize; 2],
    flows_since: Time,
    last_sent: Time,
    last_used: Time,
    /// There was no room; who waits for some is to be told.
    was_full: bool,
    /// So much waits that neighbours are told to send less.
    presses: bool,
    /// When something was acknowledged, or came to an empty queue.
    progress: Time,
    /// The pace lets the next packet leave then.
    pace_at: Option<Time>,
    /// The receiver must not wait for numbers below this, and is to be told so.
    skip_to: Option<u64>,
    skip_due: bool,
    settings: Settings,
    stats: SenderStats,
}

impl Sender {
    /// An empty lane.
    pub fn new(settings: Settings) -> Sender {
        Sender {
            controls: Controls::new(settings),
            pacer: Pacer::default(),
            rtt: Rtt::default(),
            queue: Queue::default(),
            base: 0,
            entries: VecDeque::new(),
            sent: VecDeque::new(),
            lost: VecDeque::new(),
            chosen: None,
            in_flight: 0,
            next_order: 0,
            highest: None,
            limit: WINDOW_MAX as u64,
            told: Vec::new(),
            told_before: Vec::new(),
            told_end: 0,
            reorder_at: None,
            timeout_at: None,
            probes: 0,
            backoff: 0,
            grant: false,
            is_limited: false,
            reorder_quarters: 0,
            flows: [0; 2],
            flows_since: Time::ZERO,
            last_sent: Time::ZERO,
            last_used: Time::ZERO,
            was_full: false,
            presses: false,
            progress: Time::ZERO,
            pace_at: None,
            skip_to: None,
            skip_due: false,
            settings,
            stats: SenderStats::default(),
        }
    }

    /// Takes a packet to be sent. One of another flow may have had to make room; it comes back.
    pub fn push(
        &mut self,
        now: Time,
        bytes: &[u8],
        came: Option<u16>,
    ) -> Result<Option<Packet>, Full> {
        self.last_used = now;
        if self.queue.is_empty() {
            self.progress = now;
        }
        let pushed = self.queue.push(now, bytes, came);
        if !matches!(pushed, Ok(None)) {
            self.stats.overflows += 1;
        }
        self.was_full |= self.room() == 0;
        self.presses |= self.queue.len() > self.press_at();
        if self.settings.flows_max > 1 {
            let flows = self.count_flows(now);
            self.controls.set_flows(flows, self.next_order);
        }
        pushed
    }

    /// The most flows that waited at one moment of late: one that has sent all it had a moment ago
    /// is still one.
    fn count_flows(&mut self, now: Time) -> usize {
        let age = now.since(self.flows_since);
        if age >= FLOWS_HALF {
            let before = if age < FLOWS_HALF * 2 {
                self.flows[0]
            } else {
                0
            };
            (self.flows, self.flows_since) = ([0, before], now);
        }
        self.flows[0] = self.flows[0].max(self.queue.flows());
        self.flows[0].max(self.flows[1])
    }

    /// Gives back the buffer of a packet that made room.
    pub fn recycle(&mut self, packet: Packet) {
        self.queue.recycle(packet.bytes);
    }

    /// Packets of this node's own that may be handed in now: what leaves within the time after
    /// which packets are marked.
    pub fn room(&self) -> usize {
        self.room_max().saturating_sub(self.queue.len())
    }

    /// The same for one who waits if there is none.
    pub fn ask_room(&mut self) -> usize {
        let room = self.room();
        self.was_full |= room == 0;
        room
    }

    fn room_max(&self) -> usize {
        let leaving = self.pacer.rate() * MARK_SOJOURN.as_secs_f64();
        (leaving as usize).clamp(ROOM_MIN, MARK_PACKETS)
    }

    /// There was no room, and there is again.
    pub fn has_room_again(&mut self) -> bool {
        let again = self.was_full && self.queue.len() <= self.room_max() / 2;
        self.was_full &= !again;
        again
    }

    /// Packets that wait when the neighbours from which they came are told to send less: what leaves
    /// in [`PRESS_SOJOURN`].
    fn press_at(&self) -> usize {
        let leaving = self.pacer.rate() * PRESS_SOJOURN.as_secs_f64();
        (leaving as usize).clamp(ROOM_MIN, MARK_PACKETS)
    }

    /// How many more packets this lane wants from the link `came`, if it has enough. [Amir03 §IV]
    /// speaks of buffers that fill; what fills them is told to stop, hop by hop. A lane that takes
    /// nothing for a second holds nobody up: what comes for it is dropped.
    pub fn pressure(&self, now: Time, came: u16) -> Option<u16> {
        let (waiting, press_at) = (self.queue.len(), self.press_at());
        let is_stalled = now.since(self.progress) >= STALLED;
        if waiting <= press_at || is_stalled || !self.queue.holds_of(came) {
            return None;
        }
        let room = (2 * press_at).saturating_sub(waiting) / self.queue.sources().max(1);
        Some(room as u16)
    }

    /// The neighbours were told to send less, and need not any more.
    pub fn has_relaxed(&mut self) -> bool {
        let relaxed = self.presses && self.queue.len() <= self.press_at() / 2;
        self.presses &= !relaxed;
        relaxed
    }

    /// The length of the next packet, if one may leave now.
    pub fn peek(&mut self, now: Time) -> Option<usize> {
        self.pace_at = None;
        if self.queue.is_empty() && self.lost.is_empty() && self.chosen.is_none() {
            // Nothing waits for the window.
            self.is_limited &= self.in_flight >= self.window();
            if !self.grant {
                return None;
            }
        }
        if !self.grant {
            if self.in_flight >= self.window() {
                self.is_limited = true;
                return None;
            }
            if !self.pacer.allows(now) {
                self.pace_at = Some(self.pacer.next(now));
                return None;
            }
        }
        if self.chosen.and_then(|seq| self.held(seq)).is_none() {
            self.chosen = self.choose(now);
        }
        let length = self.chosen.and_then(|seq| self.held(seq)).map(Vec::len);
        if length.is_none() {
            self.grant = false;
            self.is_limited = false;
            // The receiver's window is closed: it is asked now and then. Nothing has left, so a
            // probe that is due already is not put off: packets may come to the queue for ever.
            if self.timeout_at.is_none() {
                self.arm(now);
            }
        }
        length
    }

    /// The packet of which [`Sender::peek`] has told the length. It leaves now.
    pub fn take(&mut self, now: Time) -> Option<Outgoing<'_>> {
        let seq = self.chosen.take()?;
        self.grant = false;
        self.transmit(now, seq)
    }

    /// There was no buffer to send from: once more, soon.
    pub fn try_again(&mut self, now: Time) {
        self.pace_at = Some(now + TRY_AGAIN);
    }

    /// What to send: what is lost, then what is new, and as a probe the last one again.
    fn choose(&mut self, now: Time) -> Option<u64> {
        while let Some(seq) = self.lost.pop_front() {
            let entry = self.entry(seq);
            if entry.is_some_and(|e| e.state != State::InFlight && e.packet.is_some()) {
                return Some(seq);
            }
        }
        let next = self.next_seq();
        let is_allowed = next < self.limit || (self.grant && self.entries.is_empty());
        if is_allowed
            && next - self.base < super::SPAN
            && let Some(mut packet) = self.queue.pop()
        {
            self.mark(now, &mut packet);
            self.entries.push_back(Entry {
                packet: Some(packet),
                order: 0,
                sent_at: now,
                transmissions: 0,
                state: State::Waiting,
                by_loss: false,
            });
            return Some(next);
        }
        if !self.grant {
            return None;
        }
        let held = |entry: &Entry| entry.packet.is_some();
        let last = self.entries.iter().rposition(held);
        last.map(|at| self.base + at as u64)
    }

    /// Marks a packet that had to wait for long.
    fn mark(&mut self, now: Time, packet: &mut Packet) {
        let waited = now.since(packet.entered) > MARK_SOJOURN;
        if waited || self.queue.len() > MARK_PACKETS {
            Header::trusted(&mut packet.bytes[..]).set_congested();
            self.stats.marked += 1;
        }
    }

    fn transmit(&mut self, now: Time, seq: u64) -> Option<Outgoing<'_>> {
        self.held(seq)?;
        if self.in_flight == 0 && self.next_order > 0 {
            let idle = now.since(self.last_sent);
            let rto = self.rto();
            self.controls.on_idle(idle, rto);
        }
        let (window, slow) = (self.controls.window(), self.controls.in_slow_start());
        let rtt = self.rtt.smoothed().unwrap_or_default();
        self.pacer.set(window, rtt, slow);
        self.pacer.on_sent(now);
        let order = self.next_order;
        self.next_order += 1;
        self.sent.push_back((order, seq));
        self.last_sent = now;
        self.last_used = now;
        let at = (seq - self.base) as usize;
        let entry = &mut self.entries[at];
        self.in_flight += usize::from(entry.state != State::InFlight);
        entry.order = order;
        entry.sent_at = now;
        entry.by_loss = entry.state == State::Lost;
        entry.state = State::InFlight;
        entry.transmissions = entry.transmissions.saturating_add(1);
        let is_again = entry.transmissions > 1;
        match is_again {
            true => self.stats.retransmissions += 1,
            false => self.stats.sent += 1,
        }
        self.arm(now);
        let packet = self.entries[at].packet.as_mut()?;
        let mut header = Header::trusted(&mut packet.bytes[..]);
        header.set_lane_seq(LaneSeq::of(seq));
        header.set_remaining(packet.remaining.minus(now.since(packet.entered)));
        Some(Outgoing {
            is_again,
            is_own: packet.came.is_none(),
            bytes: &packet.bytes,
        })
    }

    /// Takes in what the receiver tells.
    pub fn on_ack(&mut self, now: Time, ack: &ReliableAck<'_>) {
        let head = ack.head;
        let next = head.next.widen(self.base);
        let told_end = head.end.widen(next);
        if next > self.next_seq() || told_end < next {
            self.stats.bogus += 1;
            return;
        }
        // A neighbour that has restarted may have had packets of the lane before. What it says
        // above the first gap is about those; below, it has had what was sent.
        let is_honest = told_end <= self.next_seq();
        self.stats.bogus += u64::from(!is_honest);
        let end = if is_honest { told_end } else { next };
        if end >= self.told_end {
            self.told_end = end;
            self.limit = end + u64::from(head.window);
        }
        let hold = Duration::from_micros(head.hold_us.into());
        let rtt = self.sample(now, head.newest, hold);
        let in_flight = self.in_flight;
        let mut acked = (0, 0);
        for seq in self.base..next {
            self.acknowledge(now, seq, &mut acked);
        }
        if is_honest {
            self.acknowledge_ranges(now, ack, end, &mut acked);
        }
        self.forget_acknowledged();
        if self.skip_to.is_some_and(|skip| next >= skip) {
            (self.skip_to, self.skip_due) = (None, false);
        }
        self.detect(now);
        let (packets, bytes) = acked;
        if packets == 0 {
            return;
        }
        self.progress = now;
        self.probes = 0;
        self.backoff = 0;
        let slow_start_used = self.controls.in_slow_start() && in_flight * 2 >= self.window();
        let acked = Acked {
            now,
            segments: packets as f64,
            bytes,
            rtt,
            in_flight: in_flight as f64,
            limited: self.is_limited || slow_start_used,
            receive_rate_bps: None,
            receive_jitter: None,
            srtt: self.rtt.smoothed().unwrap_or_default(),
        };
        let highest = self.highest.map(|(order, _)| order);
        self.controls.on_ack(&acked, highest);
        self.timeout_at = None;
        self.arm(now);
    }

    /// The ranges of an acknowledgement, without what the last one told already.
    fn acknowledge_ranges(
        &mut self,
        now: Time,
        ack: &ReliableAck<'_>,
        end: u64,
        acked: &mut (u64, u64),
    ) {
        let before = core::mem::take(&mut self.told);
        let mut ranges = core::mem::take(&mut self.told_before);
        ranges.clear();
        let mut told = 0;
        for (first, count) in ack.received() {
            let from = first.widen(end);
            let to = from + u64::from(count);
            let mut seq = to;
            // What was told lies in ranges that fall like these.
            while seq > from.max(self.base) {
                while before.get(told).is_some_and(|&(known, _)| known >= seq) {
                    told += 1;
                }
                if let Some(&(known, known_to)) = before.get(told)
                    && known_to >= seq
                {
                    seq = known;
                    continue;
                }
                seq -= 1;
                self.acknowledge(now, seq, acked);
            }
            ranges.push((from, to));
        }
        (self.told, self.told_before) = (ranges, before);
    }

    /// One number has arrived.
    fn acknowledge(&mut self, now: Time, seq: u64, (packets, bytes): &mut (u64, u64)) {
        let Some(at) = seq.checked_sub(self.base) else {
            return;
        };
        let Some(entry) = self.entries.get_mut(at as usize) else {
            return;
        };
        if entry.transmissions == 0 {
            self.stats.bogus += 1;
            return;
        }
        let Some(packet) = entry.packet.take() else {
            return;
        };
        *packets += 1;
        *bytes += packet.bytes.len() as u64;
        self.in_flight -= usize::from(entry.state == State::InFlight);
        let (order, sent_at) = (entry.order, entry.sent_at);
        let is_lost = entry.state == State::Lost;
        let (by_loss, repeated) = (entry.by_loss, entry.transmissions > 1);
        self.queue.recycle(packet.bytes);
        let least = self.rtt.least().unwrap_or_default();
        let is_early = repeated && now.since(sent_at) < least.mul_f64(0.9);
        if is_lost || is_early {
            // It is an earlier transmission that has come after all.
            self.stats.spurious += u64::from(is_early);
            if is_lost || by_loss {
                let quarters = self.reorder_quarters + 1;
                self.reorder_quarters = quarters.min(REORDER_QUARTERS_MAX);
            }
        } else if self.highest.is_none_or(|(highest, _)| order > highest) {
            self.highest = Some((order, sent_at));
        }
    }

    fn forget_acknowledged(&mut self) {
        while self.entries.front().is_some_and(|e| e.packet.is_none()) {
            self.entries.pop_front();
            self.base += 1;
        }
    }

    /// Measures the round trip of a packet that was sent once.
    fn sample(&mut self, now: Time, newest: LaneSeq, hold: Duration) -> Option<Duration> {
        let entry = self.entry(newest.widen(self.base))?;
        let elapsed = now.since(entry.sent_at);
        let is_measure = entry.packet.is_some() && entry.transmissions == 1 && hold < elapsed;
        let rtt = elapsed.saturating_sub(hold);
        is_measure.then(|| self.rtt.on_sample(now, rtt));
        is_measure.then_some(rtt)
    }

    /// A first guess of the round trip, of who has measured it otherwise.
    pub fn seed_rtt(&mut self, now: Time, rtt: Duration) {
        if self.rtt.samples() == 0 && rtt > Duration::ZERO {
            self.rtt.on_sample(now, rtt);
        }
    }

    /// How much later a transmission may arrive than one that left after it.
    fn reorder(&self) -> Duration {
        let least = self.rtt.least().unwrap_or_default();
        (least.div(4) * (1 + self.reorder_quarters)).max(REORDER_MIN)
    }

    /// Finds what is lost.
    fn detect(&mut self, now: Time) {
        self.reorder_at = None;
        let Some((highest, highest_at)) = self.highest else {
            return;
        };
        let reorder = self.reorder();
        let rtt = self.rtt.latest().max(self.rtt.least().unwrap_or_default());
        while let Some(&(order, seq)) = self.sent.front() {
            if order >= highest {
                return;
            }
            let entry = self.entry(seq);
            let entry = entry
                .filter(|e| e.order == order && e.packet.is_some() && e.state == State::InFlight);
            let Some(sent_at) = entry.map(|entry| entry.sent_at) else {
                self.sent.pop_front();
                continue;
            };
            let by_place = self.reorder_quarters == 0 && order + LATER <= highest;
            let by_time = sent_at + reorder <= highest_at;
            let due = sent_at + rtt + reorder;
            if !by_place && !by_time && now < due {
                self.reorder_at = Some(due);
                return;
            }
            self.sent.pop_front();
            self.lose(now, seq, order);
        }
    }

    fn lose(&mut self, now: Time, seq: u64, order: u64) {
        let at = (seq - self.base) as usize;
        self.entries[at].state = State::Lost;
        self.in_flight -= 1;
        self.lost.push_back(seq);
        let next = self.next_order;
        self.stats.cuts += u64::from(self.controls.on_loss(now, order, next));
    }

    /// Does what is due, if anything is.
    pub fn on_timeout(&mut self, now: Time) {
        if self.reorder_at.is_some_and(|at| at <= now) {
            self.detect(now);
        }
        if self.timeout_at.is_some_and(|at| at <= now) {
            self.timeout_at = None;
            self.skip_due = self.skip_to.is_some();
            if self.probes < PROBES && self.backoff == 0 && self.in_flight > 0 {
                // A packet that is sent now shows what became of those before it [RFC 8985 §7].
                self.probes += 1;
                self.stats.probes += 1;
                self.grant = true;
            } else {
                self.expire(now);
            }
            self.arm(now);
        }
        if now.since(self.last_used) > IDLE && self.entries.is_empty() && self.queue.is_empty() {
            self.queue.release();
        }
    }

    /// Everything in flight is taken for lost.
    fn expire(&mut self, now: Time) {
        self.stats.timeouts += 1;
        self.backoff = (self.backoff + 1).min(8);
        if self.in_flight > 0 {
            self.controls.on_timeout(now, self.next_order);
        }
        self.lose_all();
        // Should the receiver's window be closed, one packet asks whether it still is.
        self.grant = true;
    }

    fn lose_all(&mut self) {
        self.sent.clear();
        self.lost.clear();
        self.chosen = None;
        self.reorder_at = None;
        self.in_flight = 0;
        for (at, entry) in self.entries.iter_mut().enumerate() {
            if entry.packet.is_some() {
                if entry.state != State::Waiting {
                    entry.state = State::Expired;
                }
                self.lost.push_back(self.base + at as u64);
            }
        }
    }

    fn rto(&self) -> Duration {
        let patience = self.rtt.patience(RTO_FIRST) + ACK_DELAY;
        let rto = patience.max(RTO_MIN) * (1 << self.backoff);
        rto.min(RTO_MAX)
    }

    /// Sets the timer for probe or timeout, if it is not set.
    fn arm(&mut self, now: Time) {
        let waits = !self.entries.is_empty() || !self.queue.is_empty() || self.skip_to.is_some();
        if !waits {
            self.timeout_at = None;
            return;
        }
        let probe = self.probes < PROBES && self.backoff == 0 && self.in_flight > 0;
        let after = match self.rtt.smoothed().filter(|_| probe) {
            Some(rtt) => (rtt * 2 + ACK_DELAY * 2).min(self.rto()),
            None => self.rto(),
        };
        // A probe waits for silence after the last transmission, the timeout for the first. An
        // acknowledgement that waits for its timer is late by the timer's own delay.
        match probe {
            true => self.timeout_at = Some(now + after),
            false => {
                self.timeout_at.get_or_insert(now + after);
            }
        }
    }

    /// When something is to be done next: a packet may leave, or a time runs out.
    pub fn next_timeout(&self) -> Option<Time> {
        let at = [self.pace_at, self.reorder_at, self.timeout_at];
        at.into_iter().flatten().min()
    }

    /// The neighbour has restarted and knows nothing of the lane: everything is sent anew.
    pub fn restart(&mut self) {
        self.take_back();
        self.base = 0;
        self.limit = WINDOW_MAX as u64;
        self.told_end = 0;
        (self.skip_to, self.skip_due) = (None, false);
    }

    /// The link is up again after an outage.
    pub fn resume(&mut self, now: Time) {
        self.controls.on_idle(now.since(self.last_sent), self.rto());
        self.backoff = 0;
        self.probes = 0;
        self.lose_all();
        self.timeout_at = None;
        self.arm(now);
    }

    /// Gives up everything, to be sent another way: first what was sent and not acknowledged, then
    /// what waits. The receiver is told by [`Sender::poll_skip`].
    pub fn give_up(&mut self, mut take: impl FnMut(Packet)) {
        self.take_back();
        while let Some(packet) = self.queue.pop() {
            take(packet);
        }
        self.skip_to = (self.base > 0).then_some(self.base);
        self.skip_due = self.skip_to.is_some();
    }

    /// Takes a packet that was given up back.
    pub fn push_again(&mut self, packet: Packet) {
        self.queue.push_again(packet);
    }

    /// Everything that is not acknowledged becomes new; the next number is `base`.
    fn take_back(&mut self) {
        self.base = self.next_seq();
        for entry in core::mem::take(&mut self.entries) {
            if let Some(packet) = entry.packet {
                self.queue.push_again(packet);
            }
        }
        self.sent.clear();
        self.lost.clear();
        self.told.clear();
        self.chosen = None;
        self.in_flight = 0;
        self.reorder_at = None;
        self.timeout_at = None;
        self.grant = false;
    }

    /// What to tell the receiver that it need not wait for.
    pub fn poll_skip(&mut self) -> Option<ReliableSkip> {
        let due = core::mem::take(&mut self.skip_due);
        let first = LaneSeq::of(self.skip_to.filter(|_| due)?);
        Some(ReliableSkip { first })
    }

    fn window(&self) -> usize {
        (self.controls.window() as usize).clamp(1, WINDOW_MAX)
    }

    fn next_seq(&self) -> u64 {
        self.base + self.entries.len() as u64
    }

    fn entry(&self, seq: u64) -> Option<&Entry> {
        self.entries.get(seq.checked_sub(self.base)? as usize)
    }

    /// The bytes of a packet that is not acknowledged.
    fn held(&self, seq: u64) -> Option<&Vec<u8>> {
        self.entry(seq)?.packet.as_ref().map(|packet| &packet.bytes)
    }

    /// Packets that wait for the window.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Their bytes.
    pub fn queued_bytes(&self) -> usize {
        self.queue.bytes()
    }

    /// Packets sent and not heard of.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Nothing waits and nothing is on its way.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.entries.is_empty()
    }

    /// Packets that may be in flight.
    pub fn congestion_window(&self) -> f64 {
        self.controls.window()
    }

    /// The rule for the window.
    pub fn family(&self) -> congestion::Family {
        self.settings.family
    }

    /// Flows that the window stands for.
    pub fn flows(&self) -> usize {
        self.controls.flows()
    }

    /// The round trip, with what the network's queues add.
    pub fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// The counters.
    pub fn stats(&self) -> SenderStats {
        self.stats
    }
}
