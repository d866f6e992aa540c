//! The path of a packet into the lane and out to the neighbour: what waits, how much more may come, and what leaves
//! next.
//!
//! ```text
//!   push ─▶ queue ─▶ peek by a way: grant? window? pace? ─▶ choose: lost, new, as a probe the last ─▶ take
//!             └─ in time? else given up, before it has a number
//!     └─ room, pressure: how much more is wanted, of this node's own and of the neighbours
//! ```

use super::super::queue::{Packet, Takes, Toward};
use super::super::{ACK_DELAY, ACK_WAIT, Full, MARK_LEAST, MARK_PACKETS, MARK_SOJOURN, SPAN};
use super::{Entry, Outgoing, RestOfPath, Sender, State};
use crate::flow::FlowKey;
use base::{Duration, Time};
use congestion::delivery::Stamp;
use wire::control::Hold;
use wire::data::{Header, LaneSeq};

/// Flows are counted over one to two of these periods.
const FLOWS_HALF: Duration = Duration::from_millis(500);
/// If more packets wait than leave in this time, the neighbours that send them have to wait. The time is long compared
/// with that of the marks of congestion, which slow the sources down: it is meant for sources that ignore the marks.
const PRESS_SOJOURN: Duration = Duration::from_millis(100);
/// A lane is stalled if it took nothing for this long.
const STALLED: Duration = Duration::from_secs(1);
/// The wait before the next attempt to get a buffer.
const TRY_AGAIN: Duration = Duration::from_millis(1);
/// The least room for this node's own flows, in packets: some bursts.
const ROOM_MIN: usize = 64;
/// The number of packets of neighbours that may wait in any case.
const PRESS_MIN: usize = 16;
/// A packet that has waited for less than this has met no queue here.
const WAITED: Duration = Duration::from_millis(1);
/// If a queue was not empty for this long, it is not a burst: more packets come than leave.
const OVERLOADED: Duration = Duration::from_millis(500);
/// The number of packets that each flow may have in a queue in any case: one that leaves, and one that follows it.
const FLOW_LEAST: usize = 2;

impl Sender {
    /// Takes a packet to be sent. If a packet of another flow had to make room for it, returns that one.
    pub fn push(
        &mut self,
        now: Time,
        bytes: &[u8],
        came: Option<u16>,
    ) -> Result<Option<Packet>, Full> {
        self.last_used = now;
        match self.queue.due() == 0 {
            true => {
                self.progress = now;
                self.drain.restart(now);
            }
            false => self.drain.look(now),
        }
        let pushed = self.queue.push(now, bytes, came);
        if !matches!(pushed, Ok(None)) {
            self.stats.overflows += 1;
        }
        if self.settings.flows_max > 1 {
            let flows = self.count_flows(now);
            for way in &mut self.ways {
                way.controls.set_flows(flows, way.next_order);
            }
        }
        pushed
    }

    /// Returns the most flows that waited at one moment recently. So a flow that has just sent all its packets still
    /// counts.
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

    /// Takes back the buffer of a packet that made room.
    pub fn recycle(&mut self, packet: Packet) {
        self.queue.recycle(packet.bytes);
    }

    /// Returns how many packets of one of this node's own flows may be handed in now: its share of what leaves within
    /// the time after which packets are marked.
    pub fn room(&self, flow: &FlowKey) -> usize {
        self.queue.room(flow, self.room_max(), FLOW_LEAST)
    }

    /// Returns the same as [`Sender::room`]. If there is no room, `who` waits for it, and [`Sender::pop_ready`] returns
    /// it later.
    pub fn ask_room(&mut self, flow: &FlowKey, who: u32) -> usize {
        let all = self.room_max();
        self.queue.ask_room(flow, all, FLOW_LEAST, who)
    }

    fn room_max(&self) -> usize {
        self.leaving_in(MARK_SOJOURN, ROOM_MIN)
    }

    /// Returns one of those that waited for room and now have some.
    pub fn pop_ready(&mut self) -> Option<u32> {
        self.queue.pop_ready()
    }

    /// Returns the number of packets that leave within `time`, at least `least`. It follows from the pace, or from the
    /// measured drain if the receiver's window and retransmissions let fewer leave.
    fn leaving_in(&self, time: Duration, least: usize) -> usize {
        let ways = self.ways.iter().enumerate();
        let leaves = ways.filter(|(at, way)| *at == self.used || way.is_open);
        let rate: f64 = leaves.map(|(_, way)| way.pacer.rate()).sum();
        let rate = self.drain.rate().map_or(rate, |drain| drain.min(rate));
        ((rate * time.as_secs_f64()) as usize).clamp(least, MARK_PACKETS)
    }

    /// Collects the holds for the link `came`: the destinations of which enough packets wait here. [Amir03 §IV]
    /// describes buffers that fill; the nodes that fill them are told to stop, hop by hop. Enough is a destination's
    /// share, by its flows, of what leaves in a tenth of a second. For a destination that is held itself, it is as much
    /// as may be on its way. A lane that takes nothing for a second holds no neighbour back: packets that come for it
    /// are dropped.
    pub fn holds_for(&self, now: Time, came: u16, holds: &mut Vec<Hold>) {
        let (press_at, flows) = (
            self.leaving_in(PRESS_SOJOURN, PRESS_MIN),
            self.queue.flows(),
        );
        let presses = self.queue.due() > press_at || self.queue.has_holds();
        if !presses || self.is_stalled(now) || !self.queue.holds_of(came) {
            return;
        }
        for backlog in self.queue.backlogs(came) {
            let enough = match backlog.held {
                Some(room) => room.max(PRESS_MIN),
                None if self.queue.due() <= press_at => continue,
                None => (press_at * backlog.flows / flows.max(1)).max(FLOW_LEAST),
            };
            if backlog.packets <= enough {
                continue;
            }
            let hold = Hold {
                destination: backlog.toward.destination,
                routing: backlog.toward.routing,
                room: (2 * enough).saturating_sub(backlog.packets) as u16,
            };
            // The packets of a group wait on several lanes: the slowest lane counts.
            let is_same = |known: &&mut Hold| Toward::from(**known) == backlog.toward;
            match holds.iter_mut().find(is_same) {
                Some(known) => known.room = known.room.min(hold.room),
                None => holds.push(hold),
            }
        }
    }

    /// Whether the lane has taken nothing for a long time.
    pub fn is_stalled(&self, now: Time) -> bool {
        now.since(self.progress) >= STALLED
    }

    /// Takes in how many packets to a destination the receiver takes, or that it takes any number again.
    pub fn on_hold(&mut self, now: Time, hold: Hold) {
        let toward = Toward::from(hold);
        if hold.room == Hold::NONE {
            return self.queue.let_go(toward);
        }
        let sent = self
            .entries
            .iter()
            .filter_map(|entry| entry.packet.as_ref());
        let in_flight = || {
            sent.filter(|sent| Toward::of(&sent.bytes) == toward)
                .count()
        };
        self.queue.hold(now, toward, hold.room.into(), in_flight);
    }

    /// Returns the length of the next packet, if one may leave by this way now. `rest` gives the delay from the
    /// neighbour to a packet's destination, if known.
    pub fn peek(&mut self, now: Time, by: u8, rest: RestOfPath<'_>) -> Option<usize> {
        let at = usize::from(by);
        let is_busy = self.queue.due() > 0;
        if is_busy && !self.is_busy {
            self.busy_since = now;
        }
        self.is_busy = is_busy;
        let yields = self.yields && at == self.used;
        let way = self.ways.get_mut(at)?;
        way.pace_at = None;
        let whole = way.window(self.packet_bytes);
        let window = match self.yielded.filter(|_| at == self.used) {
            _ if yields => whole.min(way.yielding_window(0)),
            // The window grows step by step, so that a queue is noticed before it is long.
            Some(since) => whole.min(way.yielding_window(way.steps(now, since))),
            None => whole,
        };
        if self.queue.due() == 0 && self.lost.is_empty() && self.chosen.is_none() {
            // No packet waits for the window.
            way.is_limited &= way.in_flight >= whole;
            if way.in_flight < whole {
                way.sampler.on_nothing_to_send(way.in_flight as f64);
            }
            if !way.grant {
                return None;
            }
        }
        if !way.grant {
            let is_shut = if at == self.used {
                self.used_rests
            } else {
                !way.is_open
            };
            if is_shut {
                return None;
            }
            if way.in_flight >= window {
                way.is_limited = way.in_flight >= whole;
                if !way.is_limited {
                    // While the lane yields, its rate says nothing about what the path could carry.
                    way.sampler.on_nothing_to_send(way.in_flight as f64);
                }
                return None;
            }
            if !way.pacer.allows(now) {
                way.pace_at = Some(way.pacer.next(now));
                return None;
            }
        }
        if self.chosen.and_then(|seq| self.held(seq)).is_none() {
            self.chosen = self.choose(now, at, rest);
        }
        // A packet that was chosen for another way, and has not left, stays with that way.
        let is_of_other = |entry: &Entry| entry.transmissions == 0 && usize::from(entry.way) != at;
        if self
            .chosen
            .and_then(|seq| self.entry(seq))
            .is_some_and(is_of_other)
        {
            return None;
        }
        let length = self.chosen.and_then(|seq| self.held(seq)).map(Vec::len);
        if length.is_some_and(|length| length > self.ways[at].packet_bytes) {
            return None;
        }
        if length.is_none() {
            let way = &mut self.ways[at];
            way.grant = false;
            way.is_limited = false;
            way.sampler.on_nothing_to_send(way.in_flight as f64);
            // The receiver's window is closed, and the sender asks from time to time. Nothing has left, so a probe
            // whose time is already set must not be postponed: otherwise packets that keep coming to the queue would
            // postpone it for ever.
            if way.timeout_at.is_none() {
                self.arm(now, at);
            }
        }
        length
    }

    /// Returns the packet whose length [`Sender::peek`] has returned. It leaves now, by the same way.
    pub fn take(&mut self, now: Time, by: u8) -> Option<Outgoing<'_>> {
        let seq = self.chosen.take()?;
        self.ways[usize::from(by)].grant = false;
        self.transmit(now, seq, by)
    }

    /// Schedules another attempt soon, because there was no buffer to send from.
    pub fn try_again(&mut self, now: Time) {
        self.again_at = Some(now + TRY_AGAIN);
    }

    /// Chooses what to send: lost packets first, then new ones, and as a probe the last one again.
    fn choose(&mut self, now: Time, at: usize, rest: RestOfPath<'_>) -> Option<u64> {
        let is_granted = self.ways[at].grant;
        if !is_granted
            && let Some(left @ 1..) = self.ways[at].new_first
            && let Some(seq) = self.choose_new(now, at, rest)
        {
            self.ways[at].new_first = Some(left - 1);
            return Some(seq);
        }
        while let Some(&seq) = self.lost.front() {
            let entry = self.entry(seq);
            let entry = entry.filter(|e| e.state != State::InFlight);
            let length = entry
                .and_then(|e| e.packet.as_ref())
                .map(|packet| packet.bytes.len());
            if length.is_some_and(|length| length > self.ways[at].packet_bytes) {
                break;
            }
            self.lost.pop_front();
            if length.is_some() {
                return Some(seq);
            }
        }
        let new = self.choose_new(now, at, rest);
        if new.is_some() || !is_granted {
            return new;
        }
        // A spare probes with its own last packet: that of another way would say nothing about this one.
        let is_only = self.ways.len() == 1;
        let held = |entry: &Entry| {
            let is_own = is_only || usize::from(entry.way) == at || at == self.used;
            entry.packet.is_some() && is_own
        };
        let last = self.entries.iter().rposition(held);
        last.map(|at| self.base + at as u64)
    }

    fn choose_new(&mut self, now: Time, at: usize, rest: RestOfPath<'_>) -> Option<u64> {
        let next = self.next_seq();
        let is_allowed = next < self.limit || (self.ways[at].grant && self.entries.is_empty());
        if !is_allowed || next - self.base >= SPAN {
            return None;
        }
        let mut packet = self.pop_in_time(now, at, rest)?;
        self.drain.on_left(now);
        self.mark(now, &mut packet, at);
        self.entries.push_back(Entry {
            packet: Some(packet),
            way: at as u8,
            order: 0,
            sent_at: now,
            stamp: Stamp::default(),
            transmissions: 0,
            state: State::Waiting,
            by_loss: false,
        });
        Some(next)
    }

    /// Returns the next packet that can arrive in time by this way. The best way gives up packets that cannot, before
    /// they have a number, so the receiver does not wait for them: otherwise an overloaded lane would carry only
    /// packets that the next hop drops. Other ways leave such packets in the queue.
    fn pop_in_time(&mut self, now: Time, at: usize, rest: RestOfPath<'_>) -> Option<Packet> {
        let judge = Judge {
            now,
            rest,
            there: self.way_there(at),
            queue: self.queue_there(at),
            is_overloaded: now.since(self.busy_since) >= OVERLOADED,
        };
        let in_time = |packet: &Packet| judge.is_in_time(packet);
        let is_best = at == self.best_way();
        let takes = Takes {
            bytes_most: self.ways[at].packet_bytes,
            behind: usize::from(at != self.used && !self.used_rests),
            in_time: (!is_best).then_some(&in_time),
        };
        loop {
            let packet = self.queue.pop(takes)?;
            if !is_best || in_time(&packet) {
                return Some(packet);
            }
            self.overdue += 1;
            self.queue.on_arrived(&packet.bytes);
            self.queue.recycle(packet.bytes);
        }
    }

    /// Returns the path in use, or while it rests, the shortest of the other open ones.
    fn best_way(&self) -> usize {
        let spares = || (0..self.ways.len()).filter(|at| self.ways[*at].is_open);
        let shortest = || spares().min_by_key(|at| self.way_there(*at));
        match self.used_rests {
            true => shortest().unwrap_or(self.used),
            false => self.used,
        }
    }

    /// Returns the one-way delay to the neighbour by a way, without a queue.
    fn way_there(&self, at: usize) -> Duration {
        let least = |at: usize| self.ways[at].rtt.least().unwrap_or_default();
        let half = least(at).div(2);
        // Acknowledgements come back by the path in use, so the rest of a spare's round trip is the delay of the spare.
        match at == self.used {
            true => half,
            false => half.max(least(at).saturating_sub(least(self.used).div(2))),
        }
    }

    /// Returns by how much the last round trips of a way exceeded the least one. If nothing is in flight, the lane has
    /// made no queue.
    fn queue_there(&self, at: usize) -> Duration {
        let way = &self.ways[at];
        let least = way.rtt.least().unwrap_or_default();
        match way.in_flight > 0 {
            true => way.rtt.present().unwrap_or(least).saturating_sub(least),
            false => Duration::ZERO,
        }
    }

    /// Returns how many packets were given up since the last call because they could not arrive in time.
    pub fn take_overdue(&mut self) -> u32 {
        core::mem::take(&mut self.overdue)
    }

    /// Marks a packet of a neighbour that had to wait long among some others. Packets of this node's own sources are
    /// not marked: these sources wait for room, and put in no more than their share.
    fn mark(&mut self, now: Time, packet: &mut Packet, at: usize) {
        // A source that gets the mark cuts its window by up to a half. The packets that wait have to last until that
        // window has grown again: otherwise the lane, which has a window of its own, would be idle.
        let way = &self.ways[at];
        let patience = MARK_SOJOURN.max(way.rtt.smoothed().unwrap_or_default().div(2));
        // A lane that has never met its limit doubles its window each round trip, so it will soon carry what waits.
        let has_limit = self.stats.cuts + self.stats.timeouts > 0 || way.probes > 0;
        let waited = now.since(packet.entered) > patience && self.queue.len() >= MARK_LEAST;
        let is_full = self.queue.len() > MARK_PACKETS;
        if packet.came.is_some() && ((waited && has_limit) || is_full) {
            Header::trusted(&mut packet.bytes[..]).set_congested();
            self.stats.marked += 1;
        }
    }

    fn transmit(&mut self, now: Time, seq: u64, by: u8) -> Option<Outgoing<'_>> {
        let bytes = self.held(seq)?.len() as f64;
        let before = self
            .entry(seq)
            .map(|entry| (usize::from(entry.way), entry.state));
        if let Some((before, State::InFlight)) = before {
            // This is a probe. The sender does not wait for its earlier transmission any more.
            self.ways[before].in_flight -= 1;
        }
        let at = usize::from(by);
        let rto = self.ways[at].rto();
        let way = &mut self.ways[at];
        if way.in_flight == 0 && way.next_order > 0 {
            let idle = now.since(way.last_sent);
            way.controls.on_idle(idle, rto);
        }
        self.packet_bytes += (bytes - self.packet_bytes) / 8.0;
        let (window, slow) = (
            way.wide_window(self.packet_bytes),
            way.controls.in_slow_start(),
        );
        // After an outage the average round trip stays long for tens of samples, and a pace from it would be too slow.
        let rtt = way.rtt.present().unwrap_or_default();
        match way.controls.pace() {
            Some(pace) => way.pacer.set_rate(pace * window / way.controls.window()),
            None => way.pacer.set(window, rtt, slow),
        }
        way.pacer.on_sent(now);
        let order = way.next_order;
        way.next_order += 1;
        way.sent.push_back((order, seq));
        way.last_sent = now;
        let gap = now.since(core::mem::replace(&mut self.last_left, now));
        // The receiver uses the gap that it sees, which the path may have made longer.
        way.ack_wait = match self.acks_wait && gap <= ACK_WAIT * 2 {
            true => (gap * 2).clamp(ACK_DELAY, ACK_WAIT),
            false => ACK_DELAY,
        };
        self.last_used = now;
        let stamp = way.sampler.on_sent(now, way.in_flight as f64, 1.0);
        way.in_flight += 1;
        let place = (seq - self.base) as usize;
        let entry = &mut self.entries[place];
        entry.stamp = stamp;
        (entry.way, entry.order) = (by, order);
        entry.sent_at = now;
        entry.by_loss = entry.state == State::Lost;
        entry.state = State::InFlight;
        entry.transmissions = entry.transmissions.saturating_add(1);
        let is_again = entry.transmissions > 1;
        match is_again {
            true => self.stats.retransmissions += 1,
            false => self.stats.sent += 1,
        }
        self.arm(now, at);
        let packet = self.entries[place].packet.as_mut()?;
        let mut header = Header::trusted(&mut packet.bytes[..]);
        header.set_lane_seq(LaneSeq::of(seq));
        header.set_remaining(packet.remaining.minus(now.since(packet.entered)));
        Some(Outgoing {
            is_again,
            is_own: packet.came.is_none(),
            bytes: &packet.bytes,
        })
    }
}

/// Decides whether packets arrive in time by a way.
struct Judge<'a> {
    now: Time,
    rest: RestOfPath<'a>,
    there: Duration,
    queue: Duration,
    is_overloaded: bool,
}

impl Judge<'_> {
    fn is_in_time(&self, packet: &Packet) -> bool {
        if packet.remaining.is_none() {
            return true;
        }
        let waited = self.now.since(packet.entered);
        let left = packet.remaining.minus(waited);
        let to = Header::trusted(&packet.bytes[..]).destination();
        // For a group the delay is not known: the nearest member may be the neighbour.
        let rest = (self.rest)(to).unwrap_or_default();
        // If more packets come than leave, some are dropped in any case. Choice: the lane allows that a packet waits on
        // later lanes for as long as it has waited here; otherwise no time would be left for those. Behind the last
        // link there is no further lane.
        let margin = match self.is_overloaded && rest > Duration::ZERO {
            true => waited,
            false => Duration::ZERO,
        };
        let queue = match waited >= WAITED {
            true => self.queue,
            false => Duration::ZERO,
        };
        !left.is_expired() && left.allows(self.there + queue + rest + margin)
    }
}
