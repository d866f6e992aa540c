//! Silence, restarts and changes of path: probes and timeouts, and packets that are taken back.
//!
//! ```text
//!   silence ── 2 round trips ──▶ probe ── again ──▶ probe ── timeout ──▶ all is lost, backed off
//! ```

use super::super::own_queue::OwnQueue;
use super::super::queue::{Packet, Takes};
use super::super::{ACK_DELAY, Settings, WINDOW_MAX};
use super::way::{Open, WAYS_MAX, Way};
use super::{NEW_FIRST, Sender, State};
use base::{Duration, Time};
use wire::control::ReliableSkip;
use wire::data::LaneSeq;

/// The shortest retransmission timeout. Kernels use 200 ms.
const RTO_MIN: Duration = Duration::from_millis(200);
/// The longest retransmission timeout. Choice: longer waits would save nothing, compared with the hellos that are sent
/// several times a second.
const RTO_MAX: Duration = Duration::from_secs(1);
/// The timeout before the first sample [RFC 6298].
const RTO_FIRST: Duration = Duration::from_secs(1);
/// Probes per silence before the timeout.
const PROBES: u8 = 2;
/// A lane without packets for this long gives its memory back.
const IDLE: Duration = Duration::from_secs(5);

impl Sender {
    /// Returns when something is due next: a packet may leave, or a timer expires.
    pub fn next_timeout(&self) -> Option<Time> {
        let of_way = |way: &Way| [way.pace_at, way.reorder_at, way.timeout_at];
        let ways = self.ways.iter().flat_map(of_way);
        let all = ways.chain([self.queue.next_timeout(), self.again_at]);
        all.flatten().min()
    }

    /// Does what is due, if anything is.
    pub fn on_timeout(&mut self, now: Time) {
        self.queue.expire_holds(now);
        self.again_at = self.again_at.filter(|at| *at > now);
        for at in 0..self.ways.len() {
            if self.ways[at].reorder_at.is_some_and(|at| at <= now) {
                self.detect(now, at);
            }
            let way = &mut self.ways[at];
            if way.timeout_at.is_some_and(|at| at <= now) {
                way.timeout_at = None;
                self.skip_due = self.skip_to.is_some();
                if way.probes < PROBES && way.backoff == 0 && way.in_flight > 0 {
                    // A packet that is sent now shows what became of the packets before it [RFC 8985 §7].
                    way.probes += 1;
                    self.stats.probes += 1;
                    way.grant = true;
                } else {
                    self.expire(now, at);
                }
                self.arm(now, at);
            }
        }
        if now.since(self.last_used) > IDLE && self.entries.is_empty() && self.queue.is_empty() {
            self.queue.release();
        }
    }

    /// Takes everything in flight on a way for lost, at a timeout.
    fn expire(&mut self, now: Time, at: usize) {
        self.stats.timeouts += 1;
        let way = &mut self.ways[at];
        way.is_overdue = true;
        let aborts = way.in_flight > 0 && way.controls.aborts_timeout();
        way.backoff = (way.backoff + u32::from(!aborts)).min(8);
        // The second timeout of the same packets says nothing new about the path [RFC 5681 §3.1].
        if way.in_flight > 0 && way.expired.replace(self.base) != Some(self.base) {
            way.controls.on_timeout(now, way.next_order);
        }
        way.sampler.on_timeout();
        self.lose_way(at);
        let way = &mut self.ways[at];
        (way.has_timed_out, way.new_first) = (true, Some(NEW_FIRST));
        // If the receiver's window is closed, one packet asks whether it still is.
        way.grant = true;
    }

    fn lose_way(&mut self, at: usize) {
        self.ways[at].clear();
        for entry in &mut self.entries {
            let is_there = usize::from(entry.way) == at && entry.state == State::InFlight;
            if is_there && entry.packet.is_some() {
                entry.state = State::Expired;
            }
        }
        self.list_lost();
    }

    /// Lists all packets that are neither acknowledged nor in flight, in the order of numbers, to be sent again.
    fn list_lost(&mut self) {
        self.chosen = None;
        self.lost.clear();
        let entries = self.entries.iter().zip(self.base..);
        let lost = entries.filter(|(e, _)| e.packet.is_some() && e.state != State::InFlight);
        self.lost.extend(lost.map(|(_, seq)| seq));
    }

    fn lose_all(&mut self) {
        for at in 0..self.ways.len() {
            self.ways[at].sampler.on_timeout();
            self.lose_way(at);
        }
    }

    /// Takes back the last timeout of a way, which was wrong: the packets that it took for lost and that have not
    /// arrived are still in flight.
    pub(super) fn undo_timeout(&mut self, at: usize) {
        let way = &mut self.ways[at];
        way.controls.undo_timeout();
        (way.has_timed_out, way.new_first) = (false, None);
        for (entry, seq) in self.entries.iter_mut().zip(self.base..) {
            let is_there = usize::from(entry.way) == at && entry.state == State::Expired;
            if is_there && entry.packet.is_some() {
                entry.state = State::InFlight;
                way.in_flight += 1;
                way.sent.push_back((entry.order, seq));
            }
        }
        way.sent.make_contiguous().sort_unstable();
        self.list_lost();
    }

    /// Sets the timer of a way for the probe or the timeout. A timeout that is already set stays.
    pub(super) fn arm(&mut self, now: Time, at: usize) {
        // If no way has a packet in flight, the path in use asks.
        let is_idle = self.ways.iter().all(|way| way.in_flight == 0);
        let is_owed = !self.entries.is_empty() || self.queue.due() > 0 || self.skip_to.is_some();
        let waits = self.ways[at].in_flight > 0 || (at == self.used && is_idle && is_owed);
        let way = &mut self.ways[at];
        if !waits {
            way.timeout_at = None;
            return;
        }
        let probe = way.probes < PROBES && way.backoff == 0 && way.in_flight > 0;
        let after = match way.rtt.present().filter(|_| probe) {
            Some(rtt) => (way.probe_after(rtt) + ACK_DELAY + way.ack_wait).min(way.rto()),
            None => way.rto(),
        };
        // A probe waits for silence after the last transmission, the timeout for silence after the first. An
        // acknowledgement that waits for its timer may be late by the delay of the timer itself.
        match probe {
            true => way.timeout_at = Some(now + after),
            false => {
                way.timeout_at.get_or_insert(now + after);
            }
        }
    }

    /// Begins anew, because the neighbour has restarted and knows nothing of the lane: everything is sent again.
    pub fn restart(&mut self) {
        self.take_back();
        self.base = 0;
        self.limit = WINDOW_MAX as u64;
        self.told_end = 0;
        self.repeated = None;
        self.acks_wait = false;
        (self.skip_to, self.skip_due) = (None, false);
    }

    /// Takes in that the link is up again after an outage. The losses of the outage say nothing about what the path
    /// carries now, so the window begins anew, like that of a new connection.
    pub fn resume(&mut self, now: Time) {
        self.is_busy = false;
        self.lose_all();
        let flows = self.flows();
        for (at, way) in self.ways.iter_mut().enumerate() {
            match at == self.used {
                true => way.begin_anew(self.settings),
                false => way.renew(self.settings, flows),
            }
        }
        self.arm(now, self.used);
    }

    /// Sets the settings of the lane. If they differ from the present ones, its windows begin anew.
    pub fn configure(&mut self, settings: Settings) {
        if settings == self.settings {
            return;
        }
        self.settings = settings;
        for way in &mut self.ways {
            way.begin_controls(settings);
        }
    }

    /// Makes another path the one in use. If it was already open beside the old path, its window stays as it is.
    /// Otherwise its window begins anew, like that of a new connection [RFC 9000 §9.4]. Packets in flight on the old
    /// path still arrive, unless that path `is_gone`; then the window begins anew as well. Choice: that window was
    /// formed while the lane gave the path only a part of its load, and a window that is too small takes ten seconds to
    /// grow on a long path.
    pub(crate) fn on_new_path(&mut self, now: Time, to: Open, is_gone: bool) {
        let (before, flows) = (self.used, self.flows());
        self.used = self.place(to.way);
        let way = &mut self.ways[self.used];
        if !way.is_open {
            way.renew(self.settings, flows);
            way.seed_rtt(now, to.rtt);
        }
        way.packet_bytes = usize::MAX;
        if is_gone && before != self.used {
            self.ways[before].sampler.on_timeout();
            self.lose_way(before);
            self.ways[before].renew(self.settings, flows);
            self.ways[self.used].begin_anew(self.settings);
        }
        self.ways[before].is_open = false;
        if before != self.used {
            // Calls now take the new path.
            self.ways[before].own_queue = OwnQueue::default();
        }
        self.arm(now, self.used);
    }

    /// Returns the place of a way, and creates the way if there is none of this number.
    fn place(&mut self, way: u8) -> usize {
        let at = usize::from(way).min(WAYS_MAX - 1);
        while self.ways.len() <= at {
            self.ways.push(Way::new(self.settings));
        }
        at
    }

    /// Whether a timeout took everything in flight on a path for lost since the last call. The path may no longer carry
    /// packets as long as before.
    pub(crate) fn take_timeout(&mut self, way: u8) -> bool {
        let way = self.ways.get_mut(usize::from(way));
        way.is_some_and(|way| core::mem::take(&mut way.is_overdue))
    }

    /// Sets the spares that packets may take beside the path in use, or instead of it while it rests.
    pub(crate) fn open_ways(&mut self, now: Time, open: &[Open], used_rests: bool) {
        self.used_rests = used_rests;
        for at in 0..self.ways.len() {
            let stays = open.iter().any(|open| usize::from(open.way) == at);
            self.ways[at].is_open &= stays;
        }
        for open in open {
            let at = self.place(open.way);
            let flows = self.ways[self.used].controls.flows();
            let way = &mut self.ways[at];
            way.packet_bytes = open.packet_bytes;
            if !core::mem::replace(&mut way.is_open, true) {
                way.seed_rtt(now, open.rtt);
                way.controls.set_flows(flows, way.next_order);
            }
        }
    }

    /// Takes in that a path has fallen silent or no longer exists. The packets in flight on it are sent again at once,
    /// by other paths if there are any.
    pub(crate) fn lose_path(&mut self, now: Time, way: u8) {
        let at = usize::from(way);
        if self.ways.get(at).is_some_and(|way| way.in_flight > 0) {
            self.ways[at].sampler.on_timeout();
            self.lose_way(at);
            self.arm(now, self.used);
        }
    }

    /// Takes in that the path of this number no longer exists.
    pub(crate) fn end_path(&mut self, now: Time, way: u8) {
        self.lose_path(now, way);
        let (at, flows) = (usize::from(way), self.flows());
        if at != self.used
            && let Some(way) = self.ways.get_mut(at)
        {
            way.renew(self.settings, flows);
        }
    }

    /// Gives up everything, to be sent another way: first the packets that were sent and not acknowledged, then those
    /// that wait. [`Sender::poll_skip`] gives the message that tells the receiver.
    pub fn give_up(&mut self, mut take: impl FnMut(Packet)) {
        self.take_back();
        while let Some(packet) = self.queue.pop(Takes::ALL) {
            take(packet);
        }
        self.skip_to = (self.base > 0).then_some(self.base);
        self.skip_due = self.skip_to.is_some();
    }

    /// Takes back a packet that was given up.
    pub fn push_again(&mut self, packet: Packet) {
        self.queue.push_again(packet);
    }

    /// Returns the message that tells the receiver for which numbers it need not wait, if one is due.
    pub fn poll_skip(&mut self) -> Option<ReliableSkip> {
        let due = core::mem::take(&mut self.skip_due);
        let first = LaneSeq::of(self.skip_to.filter(|_| due)?);
        Some(ReliableSkip { first })
    }

    /// Puts everything that is not acknowledged back into the queue as new; the next number is `base`.
    fn take_back(&mut self) {
        self.base = self.next_seq();
        self.queue.let_all_go();
        for entry in core::mem::take(&mut self.entries) {
            if let Some(packet) = entry.packet {
                self.queue.push_again(packet);
            }
        }
        self.ways.iter_mut().for_each(Way::clear);
        self.lost.clear();
        self.told.clear();
        self.chosen = None;
    }
}

impl Way {
    pub(super) fn rto(&self) -> Duration {
        let patience = self.rtt.patience(RTO_FIRST) + self.ack_wait;
        let rto = patience.max(RTO_MIN);
        (rto * (1 << self.backoff)).min(RTO_MAX.max(rto))
    }

    /// Returns how long a probe waits. Choice: RFC 8985 §7.2 waits for two round trips. Two least round trips, which
    /// contain no queue, are enough if they are at least one round trip of usual length.
    fn probe_after(&self, rtt: Duration) -> Duration {
        let least = self.rtt.least().unwrap_or(rtt);
        let usual = rtt + self.rtt.deviation() * 4;
        (least * 2).max(usual).min(rtt * 2)
    }
}
