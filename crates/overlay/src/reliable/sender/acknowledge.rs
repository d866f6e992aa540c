//! Processing of acknowledgements: they show which packets have arrived, how long that took, and which were overtaken.
//!
//! An acknowledgement names everything below a number, and ranges above it. What the acknowledgement before already
//! named is skipped. The latest transmission that has arrived then shows which of the earlier ones are lost.

use super::{Entry, NEW_FIRST, Sender, State, WAYS_MAX};
use base::{Duration, Time};
use congestion::Acked;
use wire::control::{ReliableAck, ReliableRate};
use wire::data::LaneSeq;

/// A transmission is lost when this many later ones have arrived [RFC 5681's three duplicates].
const LATER: u64 = 3;
/// After more than this many cuts that proved right, packets may be overtaken by a quarter less [RFC 8985 §6.2].
const CUTS_RIGHT: u32 = 16;

/// What an acknowledgement newly acknowledges of each way: packets, and their bytes.
type Heard = [(u64, u64); WAYS_MAX];

impl Sender {
    /// Takes in an acknowledgement of the receiver that has `waited` in this host's socket.
    pub fn on_ack(&mut self, now: Time, waited: Duration, ack: &ReliableAck<'_>) {
        let head = ack.head;
        let next = head.next.widen(self.base);
        let told_end = head.end.widen(next);
        if next > self.next_seq() || told_end < next {
            self.stats.bogus += 1;
            return;
        }
        // A neighbour that has restarted may have received packets of the previous lane. What it reports above the
        // first gap is about those packets. Below the gap, it has received packets of this lane.
        let is_honest = told_end <= self.next_seq();
        self.stats.bogus += u64::from(!is_honest);
        let end = if is_honest { told_end } else { next };
        if end >= self.told_end {
            self.told_end = end;
            self.limit = end + u64::from(head.window);
        }
        let hold = Duration::from_micros(head.hold_us.into());
        let newest = self.entry(head.newest.widen(self.base));
        let newest_way = newest.map_or(self.used, |entry| entry.way.into());
        let is_late = self.was_late(head.newest);
        // A host that was not scheduled says nothing about the path.
        let rtt = self.sample(now - waited, head.newest, hold);
        self.note_repeated(head.repeated, newest_way);
        let mut before = [0; WAYS_MAX];
        for (before, way) in before.iter_mut().zip(&self.ways) {
            *before = way.in_flight;
        }
        let mut acked = Heard::default();
        for seq in self.base..next {
            self.acknowledge(now, seq, &mut acked);
        }
        if is_honest {
            self.acknowledge_ranges(now, ack, end, &mut acked);
        }
        if is_late {
            self.undo_timeout(newest_way);
        }
        self.forget_acknowledged();
        if self.skip_to.is_some_and(|skip| next >= skip) {
            (self.skip_to, self.skip_due) = (None, false);
        }
        for at in 0..self.ways.len() {
            let way = &mut self.ways[at];
            // The second answer after a timeout has shown whether the timeout was right.
            way.new_first = way.new_first.filter(|left| *left == NEW_FIRST);
            self.detect(now, at);
            if acked[at].0 > 0 {
                let rtt = rtt.filter(|_| at == newest_way);
                self.on_arrived(now, at, acked[at], before[at], rtt);
            }
        }
        if acked.iter().all(|(packets, _)| *packets == 0) {
            return;
        }
        self.progress = now;
        for (at, (packets, _)) in acked.into_iter().enumerate().take(self.ways.len()) {
            // The probe of a way waits for silence on that way.
            if packets > 0 {
                self.ways[at].timeout_at = None;
            }
            if self.ways[at].timeout_at.is_none() {
                self.arm(now, at);
            }
        }
    }

    /// Takes in that packets of a way have arrived. `in_flight` packets were in flight on it before.
    fn on_arrived(
        &mut self,
        now: Time,
        at: usize,
        (packets, bytes): (u64, u64),
        in_flight: usize,
        rtt: Option<Duration>,
    ) {
        let way = &mut self.ways[at];
        way.probes = 0;
        way.backoff = 0;
        let window = way.window(self.packet_bytes);
        // A window of which half is used counts as used [RFC 7661 §4.2]. If the window were just what the sources need, a
        // short outage would fill it with lost packets, and nothing would leave until a timeout.
        let is_used = in_flight * 2 >= window;
        let acked = Acked {
            now,
            segments: packets as f64,
            bytes,
            rtt,
            in_flight: in_flight as f64,
            limited: way.is_limited || is_used,
            receive_rate_bps: self.receive_rate_bps,
            // Packets of a lane have no stamps, so only the round trips show jitter.
            receive_jitter: None,
            srtt: way.rtt.smoothed().unwrap_or_default(),
        };
        let highest = way.highest.map(|(order, _)| order);
        let is_open = in_flight < window;
        let told = way.sampler.take(now, rtt, way.in_flight as f64, !is_open);
        way.controls.on_delivered(&told);
        let rate = told.sample.map(|sample| sample.rate());
        // If the packets do not fill the window, the sources send no more than that, and a smaller window would only
        // delay them.
        if let Some(rtt) = rtt
            && let Some(without) = way.own_queue.on_round_trip(now, rtt, in_flight, rate)
            && !is_open
        {
            way.controls.on_own_queue(now, without, way.next_order);
        }
        way.controls.on_ack(&acked, highest);
    }

    /// Takes in the rate at which data arrives at the receiver.
    pub fn on_rate(&mut self, rate: ReliableRate) {
        self.receive_rate_bps = Some(u64::from(rate.kbps) * 1_000);
    }

    /// Processes the ranges of an acknowledgement, without what the last one already acknowledged.
    fn acknowledge_ranges(
        &mut self,
        now: Time,
        ack: &ReliableAck<'_>,
        end: u64,
        acked: &mut Heard,
    ) {
        let before = core::mem::take(&mut self.told);
        let mut ranges = core::mem::take(&mut self.told_before);
        ranges.clear();
        let mut told = 0;
        for (first, count) in ack.received() {
            let from = first.widen(end);
            let to = from + u64::from(count);
            let mut seq = to;
            // The ranges of the last acknowledgement are also sorted from the highest down.
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

    /// Takes in that one number has arrived.
    fn acknowledge(&mut self, now: Time, seq: u64, acked: &mut Heard) {
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
        let (at, order, sent_at) = (usize::from(entry.way), entry.order, entry.sent_at);
        let (is_lost, stamp) = (entry.state == State::Lost, entry.stamp);
        let (by_loss, repeated) = (entry.by_loss, entry.transmissions > 1);
        let way = &mut self.ways[at];
        acked[at].0 += 1;
        acked[at].1 += packet.bytes.len() as u64;
        way.in_flight -= usize::from(entry.state == State::InFlight);
        self.queue.on_arrived(&packet.bytes);
        self.queue.recycle(packet.bytes);
        let least = way.rtt.least().unwrap_or_default();
        let is_early = repeated && now.since(sent_at) < least.mul_f64(0.9);
        let stamp = (!is_early).then_some(&stamp);
        way.sampler.on_arrived(now, stamp, 1.0);
        if is_lost || is_early {
            // An earlier transmission has arrived after all.
            if is_lost || by_loss {
                way.is_too_hasty();
            }
        } else if way.highest.is_none_or(|(highest, _)| order > highest) {
            way.highest = Some((order, sent_at));
        }
    }

    /// Takes in how many packets the receiver got more than once; `at` is the way of the packet that arrived last.
    fn note_repeated(&mut self, repeated: u16, at: usize) {
        let before = self.repeated.replace(repeated).unwrap_or(repeated);
        // A smaller number than before means that the acknowledgement was overtaken.
        let more = repeated.wrapping_sub(before).cast_signed();
        if more <= 0 {
            self.repeated = Some(before);
            return;
        }
        self.stats.spurious += u64::from(more.unsigned_abs());
        self.ways[at].is_too_hasty();
    }

    fn forget_acknowledged(&mut self) {
        while self.entries.front().is_some_and(|e| e.packet.is_none()) {
            self.entries.pop_front();
            self.base += 1;
        }
    }

    /// Whether the packet that caused this acknowledgement was taken for lost at a timeout, was not sent again, and has
    /// arrived nevertheless. [RFC 5682 §2.1]
    fn was_late(&self, newest: LaneSeq) -> bool {
        let entry = self.entry(newest.widen(self.base));
        let is_expired = |entry: &Entry| {
            let is_open = entry.packet.is_some() && entry.state == State::Expired;
            is_open && self.ways[usize::from(entry.way)].has_timed_out
        };
        entry.is_some_and(is_expired)
    }

    /// Measures the round trip of a packet that was sent once.
    fn sample(&mut self, now: Time, newest: LaneSeq, hold: Duration) -> Option<Duration> {
        let entry = self.entry(newest.widen(self.base))?;
        let (elapsed, at) = (now.since(entry.sent_at), usize::from(entry.way));
        let is_measure = entry.packet.is_some() && entry.transmissions == 1 && hold < elapsed;
        let rtt = elapsed.saturating_sub(hold);
        is_measure.then(|| self.ways[at].rtt.on_sample(now, rtt));
        is_measure.then_some(rtt)
    }

    /// Takes a first estimate of the round trip of the path in use, measured elsewhere.
    pub fn seed_rtt(&mut self, now: Time, rtt: Duration) {
        self.ways[self.used].seed_rtt(now, rtt);
    }

    /// Finds the lost transmissions of a way.
    pub(super) fn detect(&mut self, now: Time, at: usize) {
        self.ways[at].reorder_at = None;
        let Some((highest, highest_at)) = self.ways[at].highest else {
            return;
        };
        let reorder = self.ways[at].reorder();
        let rtt = &self.ways[at].rtt;
        let rtt = rtt.latest().max(rtt.least().unwrap_or_default());
        while let Some(&(order, seq)) = self.ways[at].sent.front() {
            if order >= highest {
                return;
            }
            let is_last = |e: &&Entry| (usize::from(e.way), e.order) == (at, order);
            let entry = self.entry(seq).filter(is_last);
            let entry = entry.filter(|e| e.packet.is_some() && e.state == State::InFlight);
            let Some(sent_at) = entry.map(|entry| entry.sent_at) else {
                self.ways[at].sent.pop_front();
                continue;
            };
            let by_place = self.ways[at].overtaken == Duration::ZERO && order + LATER <= highest;
            let by_time = sent_at + reorder <= highest_at;
            let due = sent_at + rtt + reorder;
            if !by_place && !by_time && now < due {
                self.ways[at].reorder_at = Some(due);
                return;
            }
            self.ways[at].sent.pop_front();
            self.lose(now, seq, (at, order));
        }
    }

    fn lose(&mut self, now: Time, seq: u64, (at, order): (usize, u64)) {
        self.entries[(seq - self.base) as usize].state = State::Lost;
        self.lost.push_back(seq);
        let way = &mut self.ways[at];
        way.in_flight -= 1;
        way.sampler.on_lost(1.0);
        if way.controls.on_loss(now, order, way.next_order) {
            self.stats.cuts += 1;
            way.cuts_right += 1;
        }
        if way.cuts_right > CUTS_RIGHT {
            way.is_too_patient();
        }
    }
}
