//! The choice of what leaves next: probes, lost bytes, then new bytes, as far as pace, window and the peer's edge
//! allow.

use super::super::rtt::ACK_WAIT;
use super::super::sent::Chunk;
use super::Sender;
use base::{Duration, Time};

/// How far a paced stream may be ahead of its pace: what is sent at one moment is one burst.
const AHEAD: Duration = Duration::from_millis(1);
/// A path with a shorter round trip is not paced: it holds less than a burst.
const UNPACED: Duration = Duration::from_micros(200);

/// A shorter gap between new segments does not show that more follows: both were part of the same write.
const GAP_LEAST: Duration = Duration::from_millis(5);
/// With a smaller window, in segments, the sender waits for each acknowledgement.
const ROOM_LEAST: u64 = 4;

impl Sender {
    /// Returns what leaves now, if something may. Call again until it returns nothing.
    pub(crate) fn poll(&mut self, now: Time) -> Option<Chunk> {
        let did_wait = core::mem::take(&mut self.lets_wait);
        let rest = self.rest.take().filter(|rest| rest.end() > self.una);
        let Some(chunk) = rest.or_else(|| self.choose(now)) else {
            self.lets_wait = did_wait;
            return None;
        };
        let chunk = self.cut(chunk);
        self.last_sent = now;
        if self.rto_at.is_none() {
            self.rto_at = Some(now + self.rtt.rto(self.backoff, self.ack_wait()));
        }
        self.probe_at = None;
        self.spend_pace(now, u64::from(chunk.len) + 80);
        Some(chunk)
    }

    /// Returns the part of a chunk that fits. The rest follows regardless of the window, because the window has allowed
    /// the whole chunk. The scoreboard treats the chunk as one: it has arrived when all its parts have.
    fn cut(&mut self, chunk: Chunk) -> Chunk {
        let fit = self.fit as u32;
        if chunk.len <= fit {
            return chunk;
        }
        self.rest = Some(Chunk {
            offset: chunk.offset + u64::from(fit),
            len: chunk.len - fit,
            ..chunk
        });
        Chunk {
            len: fit,
            fin: false,
            ..chunk
        }
    }

    /// Whether more than one segment is waiting, which is worth a large buffer.
    pub(crate) fn has_many(&self) -> bool {
        let waiting = self.end - self.next.min(self.end) + self.waiting();
        waiting > self.fit || self.board.has_lost() || self.rest.is_some()
    }

    fn choose(&mut self, now: Time) -> Option<Chunk> {
        if self.probes > 0 {
            self.probes -= 1;
            if let Some(chunk) = self.resend_lost(now) {
                return Some(chunk);
            }
            if let Some(chunk) = self.board.resend_last(now) {
                self.retransmissions += 1;
                if let Some(chunk) = self.alive(now, chunk) {
                    return Some(chunk);
                }
            }
        }
        if !self.board.has_lost() && !self.has_new() {
            self.limited = false;
            self.board.on_nothing_to_send();
            return None;
        }
        if !self.is_paced_in(now) {
            return None;
        }
        let in_flight = self.board.in_flight();
        if in_flight > 0 && in_flight + self.segment > self.window() {
            self.limited = true;
            return None;
        }
        if let Some(chunk) = self.resend_lost(now) {
            return Some(chunk);
        }
        if self.board.is_full() {
            return None;
        }
        self.choose_new(now)
    }

    /// Returns a lost chunk that is still of use, to be sent again. Instead of the others, the peer gets a message that
    /// they have expired. The scoreboard treats that message as their retransmission, so it is repeated if it is lost
    /// as well.
    fn resend_lost(&mut self, now: Time) -> Option<Chunk> {
        while let Some(chunk) = self.board.resend_lost(now) {
            self.retransmissions += 1;
            if let Some(chunk) = self.alive(now, chunk) {
                return Some(chunk);
            }
        }
        None
    }

    fn choose_new(&mut self, now: Time) -> Option<Chunk> {
        self.place_messages(now);
        let placed = self.end - self.next.min(self.end);
        let waiting = placed + self.waiting();
        let open = self.edge.saturating_sub(self.next);
        let len = placed.min(self.fit).min(open);
        let fin = waiting == 0 && self.fin_due();
        if len == 0 && !fin {
            self.limited = false;
            self.board.on_nothing_to_send();
            if waiting > 0 && self.board.is_empty() && self.persist_at.is_none() {
                self.persist_at = Some(now + self.persist);
            }
            return None;
        }
        // A small rest of the peer's window stays unused until it has grown, as long as an answer is on its way.
        if len < placed.min(self.fit) && !self.board.is_empty() {
            self.limited = false;
            self.board.on_nothing_to_send();
            return None;
        }
        if self.board.is_empty() {
            self.progress = now;
            let idle = now.since(self.last_sent);
            let rto = self.rtt.rto(0, Duration::ZERO);
            if idle > rto && self.next > 0 {
                self.control.on_idle(idle, rto);
            }
        }
        let chunk = Chunk {
            offset: self.next,
            len: len as u32,
            fin,
            expired: false,
        };
        self.board.on_sent(now, chunk);
        self.next += len + u64::from(fin);
        self.fin_sent |= fin;
        self.persist_at = None;
        self.judge_wait(now, chunk);
        Some(chunk)
    }

    /// Decides whether the acknowledgement of a new segment may wait. Segments that answer bytes of the peer, or that
    /// the peer answers with bytes, do not come at a rate of their own: the gaps between them are round trips, and do
    /// not show that a next segment follows.
    // Choice: so neither end of a conversation in both directions on one stream lets acknowledgements wait. Such a
    // conversation cannot be distinguished from a dialogue, and a loss in a dialogue matters more.
    fn judge_wait(&mut self, now: Time, chunk: Chunk) {
        if self.last_new != Some(now) {
            let before = self.last_new.replace(now);
            self.gap = before.map_or(Duration::MAX, |at| now.since(at));
        }
        let is_dialogue = core::mem::take(&mut self.was_told);
        let is_thin = !is_dialogue && (GAP_LEAST..=ACK_WAIT).contains(&self.gap);
        let room = self.window().min(self.edge.saturating_sub(self.una));
        self.lets_wait = (self.has_new() || is_thin) && room >= ROOM_LEAST * self.segment;
        if self.lets_wait {
            (self.asked, self.asked_at) = ((chunk.offset, chunk.end()), now);
        }
    }

    /// Takes in that bytes of the peer have come.
    pub(crate) fn on_told(&mut self) {
        self.was_told = true;
    }

    /// Learns from a new acknowledgement whether the peer lets acknowledgements wait. It shows this if it acknowledges
    /// a single segment whose acknowledgement might have waited. A peer of an older version does not let it wait.
    pub(super) fn learn_wait(&mut self, now: Time, acknowledged: u64, rtt: Option<Duration>) {
        if let Some(rtt) = rtt
            && self.asked == (self.una, acknowledged)
        {
            self.answers_at_once = now.since(self.asked_at) < rtt + GAP_LEAST;
        }
    }

    /// Returns by how much the acknowledgement of the bytes in flight may be late.
    pub(super) fn ack_wait(&self) -> Duration {
        match self.una < self.asked.1 && !self.answers_at_once {
            true => ACK_WAIT,
            false => Duration::ZERO,
        }
    }

    /// Whether the acknowledgement of the segment that left last may wait for the next segment. It may if, as far as is
    /// known, more follows soon and does not wait for it. A segment that stands alone, that is sent again, or that is
    /// part of a dialogue is acknowledged at once.
    pub(crate) fn lets_wait(&self) -> bool {
        self.lets_wait
    }

    pub(super) fn fin_due(&self) -> bool {
        self.finished && !self.fin_sent
    }

    /// Reads the bytes of a chunk.
    pub(crate) fn read(&self, chunk: Chunk, out: &mut [u8]) {
        self.ring.read(chunk.offset, out);
    }

    /// Whether the pace allows a segment now. If not, notes when it will.
    fn is_paced_in(&mut self, now: Time) -> bool {
        self.paced_at = None;
        if self.pace <= now + AHEAD {
            return true;
        }
        self.paced_at = Some(self.pace - AHEAD.div(2));
        false
    }

    fn spend_pace(&mut self, now: Time, bytes: u64) {
        let Some(rtt) = self.rtt.present().filter(|rtt| *rtt >= UNPACED) else {
            return;
        };
        // The pace is faster than the window, as in Linux, so that the window is the limit.
        let gain = if self.control.in_slow_start() {
            2.0
        } else {
            1.25
        };
        let ahead = gain * self.control.window() / rtt.as_secs_f64();
        let rate = self.control.pace().unwrap_or(ahead) * self.segment as f64;
        let take = Duration::from_secs_f64(bytes as f64 / rate);
        self.pace = self.pace.max(now) + take;
    }
}
