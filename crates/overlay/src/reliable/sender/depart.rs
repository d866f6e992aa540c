//! Into the lane and out to the neighbour: what waits, how much more may come, and what leaves next.
//!
//! ```text
//!   push ─▶ queue ─▶ peek: grant? window? pace? ─▶ choose: lost, new, as a probe the last ─▶ take
//!     └─ room, pressure: how much more is wanted, of this node's own and of the neighbours
//! ```

use super::super::queue::Packet;
use super::super::{Full, MARK_PACKETS, MARK_SOJOURN, SPAN};
use super::{Entry, Outgoing, Sender, State};
use base::{Duration, Time};
use wire::data::{Header, LaneSeq};

/// Flows are counted over one to two of these.
const FLOWS_HALF: Duration = Duration::from_millis(500);
/// Packets that wait for so long make their senders wait. Long beside the marks of congestion, which
/// make the sources slower: this is for what does not listen to them.
const PRESS_SOJOURN: Duration = Duration::from_millis(100);
/// A lane that took nothing for so long.
const STALLED: Duration = Duration::from_secs(1);
/// The wait for a buffer.
const TRY_AGAIN: Duration = Duration::from_millis(1);
/// The room that this node's own flows find at least, in packets: some bursts.
const ROOM_MIN: usize = 64;

impl Sender {
    /// Takes a packet to be sent. One of another flow may have had to make room; it comes back.
    pub fn push(
        &mut self,
        now: Time,
        bytes: &[u8],
        came: Option<u16>,
    ) -> Result<Option<Packet>, Full> {
        self.last_used = now;
        match self.queue.is_empty() {
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
        self.leaving_in(MARK_SOJOURN)
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
        self.leaving_in(PRESS_SOJOURN)
    }

    /// Packets that leave within `time`, some bursts at least: by the pace, or what the receiver's
    /// window and repetitions leave of it.
    fn leaving_in(&self, time: Duration) -> usize {
        let rate = self.pacer.rate();
        let rate = self.drain.rate().map_or(rate, |drain| drain.min(rate));
        ((rate * time.as_secs_f64()) as usize).clamp(ROOM_MIN, MARK_PACKETS)
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
            && next - self.base < SPAN
            && let Some(mut packet) = self.queue.pop()
        {
            self.drain.on_left(now);
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
        // Who is told cuts its window by up to a half, and what waits has to last until it has grown
        // again: else the lane, which has a window of its own, does not use it.
        let patience = MARK_SOJOURN.max(self.rtt.smoothed().unwrap_or_default().div(2));
        let waited = now.since(packet.entered) > patience;
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
        let bytes = self.held(seq)?.len() as f64;
        self.packet_bytes += (bytes - self.packet_bytes) / 8.0;
        let (window, slow) = (self.wide_window(), self.controls.in_slow_start());
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
}
