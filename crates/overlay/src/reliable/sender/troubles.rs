//! Silence, restarts and other ways: probes and timeouts, and packets that are taken back.
//!
//! ```text
//!   silence ── 2 round trips ──▶ probe ── again ──▶ probe ── timeout ──▶ all is lost, backed off
//! ```

use super::super::controls::Controls;
use super::super::queue::Packet;
use super::super::{ACK_DELAY, Settings, WINDOW_MAX};
use super::{NEW_FIRST, OwnQueue, Sender, State};
use crate::estimate::Rtt;
use base::{Duration, Time};
use wire::control::ReliableSkip;
use wire::data::LaneSeq;

/// The limits of the retransmission timeout. Kernels take 200 ms for the least.
const RTO_MIN: Duration = Duration::from_millis(200);
/// Choice: longer waits spare nobody anything, beside the hellos that come several times a second.
const RTO_MAX: Duration = Duration::from_secs(1);
/// Before the first sample [RFC 6298].
const RTO_FIRST: Duration = Duration::from_secs(1);
/// Probes per silence before the timeout.
const PROBES: u8 = 2;
/// A lane without packets for so long gives its memory back.
const IDLE: Duration = Duration::from_secs(5);

impl Sender {
    /// When something is to be done next: a packet may leave, or a time runs out.
    pub fn next_timeout(&self) -> Option<Time> {
        let held = self.queue.next_timeout();
        let at = [self.pace_at, self.reorder_at, self.timeout_at, held];
        at.into_iter().flatten().min()
    }

    /// Does what is due, if anything is.
    pub fn on_timeout(&mut self, now: Time) {
        self.queue.expire_holds(now);
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
        let aborts = self.in_flight > 0 && self.controls.aborts_timeout();
        self.backoff = (self.backoff + u32::from(!aborts)).min(8);
        // The second timeout of the same packets says nothing new of the path [RFC 5681 §3.1].
        if self.in_flight > 0 && self.expired.replace(self.base) != Some(self.base) {
            self.controls.on_timeout(now, self.next_order);
        }
        self.lose_all();
        (self.has_timed_out, self.new_first) = (true, Some(NEW_FIRST));
        // Should the receiver's window be closed, one packet asks whether it still is.
        self.grant = true;
    }

    fn lose_all(&mut self) {
        self.sampler.on_timeout();
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

    /// The last timeout was none: what has not come of what it took for lost is on its way.
    pub(super) fn undo_timeout(&mut self) {
        self.controls.undo_timeout();
        (self.has_timed_out, self.new_first) = (false, None);
        self.lost.clear();
        for (at, entry) in self.entries.iter_mut().enumerate() {
            let seq = self.base + at as u64;
            match entry.state {
                _ if entry.packet.is_none() => {}
                State::Expired => {
                    entry.state = State::InFlight;
                    self.in_flight += 1;
                    self.sent.push_back((entry.order, seq));
                }
                State::Lost | State::Waiting => self.lost.push_back(seq),
                State::InFlight => {}
            }
        }
        self.chosen = None;
        self.sent.make_contiguous().sort_unstable();
    }

    pub(super) fn rto(&self) -> Duration {
        let patience = self.rtt.patience(RTO_FIRST) + ACK_DELAY;
        let rto = patience.max(RTO_MIN);
        (rto * (1 << self.backoff)).min(RTO_MAX.max(rto))
    }

    /// Choice: RFC 8985 §7.2 waits for two round trips. Two without a queue are enough beside one,
    /// if that one is as long as usual.
    fn probe_after(&self, rtt: Duration) -> Duration {
        let least = self.rtt.least().unwrap_or(rtt);
        let usual = rtt + self.rtt.deviation() * 4;
        (least * 2).max(usual).min(rtt * 2)
    }

    /// Sets the timer for probe or timeout, if it is not set.
    pub(super) fn arm(&mut self, now: Time) {
        let waits = !self.entries.is_empty() || self.queue.due() > 0 || self.skip_to.is_some();
        if !waits {
            self.timeout_at = None;
            return;
        }
        let probe = self.probes < PROBES && self.backoff == 0 && self.in_flight > 0;
        let after = match self.rtt.present().filter(|_| probe) {
            Some(rtt) => (self.probe_after(rtt) + ACK_DELAY * 2).min(self.rto()),
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

    /// The neighbour has restarted and knows nothing of the lane: everything is sent anew.
    pub fn restart(&mut self) {
        self.take_back();
        self.base = 0;
        self.limit = WINDOW_MAX as u64;
        self.told_end = 0;
        self.repeated = None;
        (self.skip_to, self.skip_due) = (None, false);
    }

    /// The link is up again after an outage. Losses of the outage say nothing of what the path carries now: the
    /// window begins anew, as that of a new connection.
    pub fn resume(&mut self, now: Time) {
        let flows = self.controls.flows();
        self.controls = Controls::new(self.settings);
        self.controls.set_flows(flows, self.next_order);
        self.backoff = 0;
        self.probes = 0;
        self.lose_all();
        (self.has_timed_out, self.new_first) = (false, None);
        self.timeout_at = None;
        self.arm(now);
    }

    /// The lane behaves so from now on. Its window begins anew if that is news.
    pub fn configure(&mut self, settings: Settings) {
        if settings == self.settings {
            return;
        }
        self.settings = settings;
        let flows = self.controls.flows();
        self.controls = Controls::new(settings);
        self.controls.set_flows(flows, self.next_order);
    }

    /// What leaves from now on takes a path of another round trip and another room: both are measured anew, as of a new
    /// connection [RFC 9000 §9.4]. What is in flight on the path before arrives still, unless that `is_gone`.
    pub fn on_new_path(&mut self, now: Time, rtt: Duration, is_gone: bool) {
        let before = self.rtt.smoothed().unwrap_or_default();
        (self.rtt, self.own_queue) = (Rtt::default(), OwnQueue::default());
        // An answer by the longer of the two is late by nothing that is lost.
        self.seed_rtt(now, if is_gone { rtt } else { rtt.max(before) });
        if is_gone {
            return self.resume(now);
        }
        let flows = self.controls.flows();
        self.controls = Controls::new(self.settings);
        self.controls.set_flows(flows, self.next_order);
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

    /// What to tell the receiver that it need not wait for.
    pub fn poll_skip(&mut self) -> Option<ReliableSkip> {
        let due = core::mem::take(&mut self.skip_due);
        let first = LaneSeq::of(self.skip_to.filter(|_| due)?);
        Some(ReliableSkip { first })
    }

    /// Everything that is not acknowledged becomes new; the next number is `base`.
    fn take_back(&mut self) {
        self.base = self.next_seq();
        self.queue.let_all_go();
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
        (self.has_timed_out, self.new_first) = (false, None);
        self.grant = false;
    }
}
