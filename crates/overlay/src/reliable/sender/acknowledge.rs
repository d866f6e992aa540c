//! What acknowledgements tell: what has arrived, how long it took, and what has been overtaken.
//!
//! An acknowledgement names everything below a number and ranges above it; what the one before named
//! is not looked at again. The latest transmission that has arrived then tells which of those before
//! it are lost.

use super::{Entry, NEW_FIRST, Sender, State};
use base::{Duration, Time};
use congestion::Acked;
use wire::control::{ReliableAck, ReliableRate};
use wire::data::LaneSeq;

/// Later transmissions that have arrived make one lost [RFC 5681's three duplicates].
const LATER: u64 = 3;
/// The shortest time by which a transmission may be overtaken: bursts, timers, threads.
const REORDER_MIN: Duration = Duration::from_micros(500);
/// Quarters of the round trip by which packets may be overtaken, at most.
const REORDER_QUARTERS_MAX: u64 = 6;
/// After so many cuts that proved right there is a quarter less [RFC 8985 §6.2].
const CUTS_RIGHT: u32 = 16;

impl Sender {
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
        let is_late = self.was_late(head.newest);
        let rtt = self.sample(now, head.newest, hold);
        self.note_repeated(head.repeated);
        let in_flight = self.in_flight;
        let mut acked = (0, 0);
        for seq in self.base..next {
            self.acknowledge(now, seq, &mut acked);
        }
        if is_honest {
            self.acknowledge_ranges(now, ack, end, &mut acked);
        }
        if is_late {
            self.undo_timeout();
        }
        // The second answer after a timeout has told.
        self.new_first = self.new_first.filter(|left| *left == NEW_FIRST);
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
            receive_rate_bps: self.receive_rate_bps,
            // Packets of a lane have no stamps: the round trips have to tell.
            receive_jitter: None,
            srtt: self.rtt.smoothed().unwrap_or_default(),
        };
        let highest = self.highest.map(|(order, _)| order);
        let is_open = in_flight < self.window();
        let told = self.sampler.take(now, rtt, self.in_flight as f64, !is_open);
        self.controls.on_delivered(&told);
        let rate = told.sample.map(|sample| sample.rate());
        // What does not fill the window is no more than the sources give: a smaller window would only delay it.
        if let Some(rtt) = rtt
            && let Some(without) = self.own_queue.on_round_trip(now, rtt, in_flight, rate)
            && !is_open
        {
            self.controls.on_own_queue(now, without, self.next_order);
        }
        self.controls.on_ack(&acked, highest);
        self.timeout_at = None;
        self.arm(now);
    }

    /// Takes in at which rate data arrives at the receiver.
    pub fn on_rate(&mut self, rate: ReliableRate) {
        self.receive_rate_bps = Some(u64::from(rate.kbps) * 1_000);
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
        let (order, sent_at, stamp) = (entry.order, entry.sent_at, entry.stamp);
        let is_lost = entry.state == State::Lost;
        let (by_loss, repeated) = (entry.by_loss, entry.transmissions > 1);
        self.queue.on_arrived(&packet.bytes);
        self.queue.recycle(packet.bytes);
        let least = self.rtt.least().unwrap_or_default();
        let is_early = repeated && now.since(sent_at) < least.mul_f64(0.9);
        let stamp = (!is_early).then_some(&stamp);
        self.sampler.on_arrived(now, stamp, 1.0);
        if is_lost || is_early {
            // It is an earlier transmission that has come after all.
            if is_lost || by_loss {
                self.is_too_hasty();
            }
        } else if self.highest.is_none_or(|(highest, _)| order > highest) {
            self.highest = Some((order, sent_at));
        }
    }

    /// The receiver has had so many packets more than once.
    fn note_repeated(&mut self, repeated: u16) {
        let before = self.repeated.replace(repeated).unwrap_or(repeated);
        // Less than before is an acknowledgement that was overtaken.
        let more = repeated.wrapping_sub(before).cast_signed();
        if more <= 0 {
            self.repeated = Some(before);
            return;
        }
        self.stats.spurious += u64::from(more.unsigned_abs());
        self.is_too_hasty();
    }

    /// What was taken for lost was late.
    fn is_too_hasty(&mut self) {
        let quarters = self.reorder_quarters + 1;
        self.reorder_quarters = quarters.min(REORDER_QUARTERS_MAX);
        self.cuts_right = 0;
    }

    fn forget_acknowledged(&mut self) {
        while self.entries.front().is_some_and(|e| e.packet.is_none()) {
            self.entries.pop_front();
            self.base += 1;
        }
    }

    /// The packet that made the receiver tell was taken for lost at a timeout, was not sent again, and has come
    /// nevertheless. [RFC 5682 §2.1]
    fn was_late(&self, newest: LaneSeq) -> bool {
        let entry = self.entry(newest.widen(self.base));
        let is_expired = |entry: &Entry| entry.packet.is_some() && entry.state == State::Expired;
        self.has_timed_out && entry.is_some_and(is_expired)
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
        let usual = self.rtt.smoothed().unwrap_or_default();
        // Choice: RFC 8985 takes quarters of the least, which says little where delays vary by
        // many times of it.
        let more = usual.div(4) * self.reorder_quarters;
        (least.div(4) + more.min(usual.max(self.rtt.deviation() * 4))).max(REORDER_MIN)
    }

    /// Finds what is lost.
    pub(super) fn detect(&mut self, now: Time) {
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
        self.sampler.on_lost(1.0);
        let next = self.next_order;
        if self.controls.on_loss(now, order, next) {
            self.stats.cuts += 1;
            self.cuts_right += 1;
        }
        if self.cuts_right > CUTS_RIGHT {
            self.reorder_quarters = self.reorder_quarters.saturating_sub(1);
            self.cuts_right = 0;
        }
    }
}
