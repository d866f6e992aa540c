//! The sending half of a stream: what is written, what may leave now, and what is sent again.
//!
//! ```text
//!   write ─▶ ring ─▶ poll: probe? lost? new? ── within window, pace, edge ──▶ segments
//!            ▲                                                                   │
//!            '── credit ◀── on_ack: scoreboard, congestion control, timers ◀─────┘
//! ```
//!
//! Loss is found by the scoreboard; the window is one of the congestion family; what leaves is
//! paced. A tail that is not acknowledged is probed after two round trips [RFC 8985 §7], then the
//! retransmission timer starts over [RFC 6298]; after a change of the routes the probe goes at once,
//! so that a stream over a killed relay is silent no longer than the routing takes.

use super::ring::Ring;
use super::rtt::Rtt;
use super::sent::{Chunk, Patience, Scoreboard};
use super::{BUFFER_MAX, BUFFER_START, Budget, Framing};
use base::{Duration, Time, seq};
use congestion::{Acked, Congestion, Control, Family};
use wire::data::LinkProtocol;

/// A paced stream may be ahead of its pace by so much: what is sent at one moment is one burst.
const AHEAD: Duration = Duration::from_millis(1);
/// A path so short is not paced: it holds less than a burst.
const UNPACED: Duration = Duration::from_micros(200);
/// What a tail probe waits for beyond two round trips: an acknowledgement that is gathered with
/// others.
const PROBE_SLACK: Duration = Duration::from_millis(5);
/// How long the peer's closed window is left alone at first.
const PERSIST_START: Duration = Duration::from_millis(200);
/// And at most.
const PERSIST_MAX: Duration = Duration::from_secs(5);
/// Reliable links are given at least so long to repair what they have lost: two strikes on a
/// continental hop.
const REPAIR_LEAST: Duration = Duration::from_millis(100);
/// Reliable links have windows of their own, mark what waits long, and make the sender wait where
/// their queues are full. So the session's window only has to keep those queues short: it begins
/// with more than that of a path without, and is never cut so far that a hop which repairs a loss
/// stops a stream of a few hundred packets a second.
const RELIABLE_START: f64 = 32.0;
/// See [`RELIABLE_START`]: 20 kB, 1.6 Mbit/s over 100 ms.
const RELIABLE_LEAST: f64 = 16.0;
/// Bytes of credit that are worth a message to the host.
const CREDIT_STEP: u64 = 16 << 10;

/// What the acknowledgement was not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NeverSent;

/// What a segment says of the other direction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    /// Low bits of the place up to which all has come.
    pub(crate) acknowledged: u32,
    /// Bytes beyond that may be sent.
    pub(crate) window: u32,
    /// How long ago the segment left that it answers.
    pub(crate) rtt: Option<Duration>,
    /// Segments came with the mark of congestion.
    pub(crate) congested: bool,
}

/// The sending half.
#[derive(Debug)]
pub(crate) struct Sender {
    link: LinkProtocol,
    segment: u64,
    ring: Ring,
    board: Scoreboard,
    control: Box<dyn Control + Send>,
    rtt: Rtt,
    /// All before is acknowledged.
    una: u64,
    /// The next place that was never sent.
    next: u64,
    /// Behind what is written.
    end: u64,
    finished: bool,
    fin_sent: bool,
    /// The peer takes nothing beyond.
    edge: u64,
    /// Places up to which a window was cut already, by loss and by marks.
    recovering: Option<u64>,
    /// Places up to which all was sent again after a timeout: losses on the way there are no news.
    restarting: u64,
    marked: u64,
    /// Payload that the host may still write.
    credit: u64,
    limit: u64,
    charge: u64,
    /// The window, not the application, stopped the last poll.
    limited: bool,
    pace: Time,
    paced_at: Option<Time>,
    /// Segments that go whatever the window says.
    probes: u32,
    probed: bool,
    /// Reordering has been seen so often that more patience is due, in quarters of a round trip.
    patience: u64,
    backoff: u32,
    rto_at: Option<Time>,
    probe_at: Option<Time>,
    lost_at: Option<Time>,
    persist_at: Option<Time>,
    persist: Duration,
    last_sent: Time,
    progress: Time,
    /// Segments sent again.
    pub(crate) retransmissions: u64,
}

impl Sender {
    /// A sender of segments with so many bytes.
    pub(crate) fn new(now: Time, family: Family, link: LinkProtocol, segment: usize) -> Sender {
        let mut settings = congestion::Settings {
            max_window: (2 * BUFFER_MAX) as f64 / segment as f64,
            ..congestion::Settings::default()
        };
        if link == LinkProtocol::Reliable {
            settings.initial_window = RELIABLE_START;
            settings.minimum_window = RELIABLE_LEAST;
        }
        let segment = segment as u64;
        Sender {
            link,
            segment,
            ring: Ring::default(),
            // Choice: a packet costs at least a quarter of a segment, so that many small ones are
            // not a flood.
            board: Scoreboard::new(segment / 4),
            control: family.control(settings),
            rtt: Rtt::default(),
            una: 0,
            next: 0,
            end: 0,
            finished: false,
            fin_sent: false,
            edge: 0,
            recovering: None,
            restarting: 0,
            marked: 0,
            credit: 0,
            limit: BUFFER_START,
            charge: 0,
            limited: false,
            pace: now,
            paced_at: None,
            probes: 0,
            probed: false,
            patience: 0,
            backoff: 0,
            rto_at: None,
            probe_at: None,
            lost_at: None,
            persist_at: None,
            persist: PERSIST_START,
            last_sent: now,
            progress: now,
            retransmissions: 0,
        }
    }

    /// Takes what the application writes; false if it is more than the credit, or an empty message:
    /// those cost no credit, and a reader could not tell them from the end.
    pub(crate) fn write(&mut self, bytes: &[u8], framing: Framing) -> bool {
        let len = bytes.len() as u64;
        let is_empty_message = len == 0 && framing == Framing::Messages;
        if self.finished || len > self.credit || is_empty_message {
            return false;
        }
        self.credit -= len;
        if framing == Framing::Messages {
            self.append(&(bytes.len() as u32).to_be_bytes());
        }
        self.append(bytes);
        true
    }

    fn append(&mut self, bytes: &[u8]) {
        let held = self.base()..self.end;
        let end = self.end + bytes.len() as u64;
        self.ring.reserve(held, end);
        self.ring.write(self.end, bytes);
        self.end = end;
    }

    /// Nothing more will be written.
    pub(crate) fn finish(&mut self) {
        self.finished = true;
        self.credit = 0;
    }

    /// The application has said that it writes no more.
    pub(crate) fn is_finished(&self) -> bool {
        self.finished
    }

    /// Everything that was written has arrived, and the end.
    pub(crate) fn is_done(&self) -> bool {
        self.fin_sent && self.una > self.end
    }

    /// Everything that was written has arrived.
    pub(crate) fn is_delivered(&self) -> bool {
        self.una >= self.end
    }

    /// Bytes that are written and not acknowledged.
    pub(crate) fn buffered(&self) -> u64 {
        self.end - self.base()
    }

    fn base(&self) -> u64 {
        self.board.base().unwrap_or(self.next.min(self.end))
    }

    /// Bytes acknowledged.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.una.min(self.end)
    }

    /// When something was last acknowledged, or sent after everything was.
    pub(crate) fn progress(&self) -> Time {
        self.progress
    }

    /// What the buffer takes of the node's memory beyond its start.
    pub(crate) fn charge(&self) -> u64 {
        self.charge
    }

    /// The round trip's estimator.
    pub(crate) fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// The window in bytes.
    pub(crate) fn window(&self) -> u64 {
        (self.control.window() * self.segment as f64) as u64
    }

    /// Bytes in flight.
    pub(crate) fn in_flight(&self) -> u64 {
        self.board.in_flight()
    }

    /// The place where the next segment without bytes stands.
    pub(crate) fn end_place(&self) -> u64 {
        self.next
    }

    /// The peer's first window.
    pub(crate) fn open(&mut self, window: u32) {
        self.edge = self.edge.max(window.into());
    }

    /// Something is written, or is to be ended, that was never sent.
    pub(crate) fn has_unsent(&self) -> bool {
        self.next < self.end || self.fin_due() || self.board.has_lost()
    }

    /// Something was sent and is not acknowledged.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.board.is_empty()
    }

    /// How much more the host may write, when that is worth telling.
    pub(crate) fn grant(&mut self, budget: &mut Budget) -> Option<u32> {
        if self.finished {
            return None;
        }
        self.tune(budget);
        let used = self.buffered() + self.credit;
        let more = self.limit.saturating_sub(used);
        if more < CREDIT_STEP && (more == 0 || used > 0) {
            return None;
        }
        self.credit += more;
        Some(more as u32)
    }

    /// The buffer holds two windows, so that acknowledgements and the host's writes overlap.
    fn tune(&mut self, budget: &mut Budget) {
        let wanted = (2 * self.window()).clamp(BUFFER_START, BUFFER_MAX);
        if wanted > self.limit + self.limit / 4 {
            let more = (wanted - BUFFER_START).saturating_sub(self.charge);
            if budget.take(more) {
                self.charge += more;
                self.limit = wanted;
            }
        }
    }

    /// What leaves now, if something may: call again until nothing does. `most` bounds its bytes.
    pub(crate) fn poll(&mut self, now: Time) -> Option<Chunk> {
        let chunk = self.choose(now)?;
        self.last_sent = now;
        if self.rto_at.is_none() {
            self.rto_at = Some(now + self.rtt.rto(self.backoff));
        }
        self.probe_at = None;
        self.spend_pace(now, u64::from(chunk.len) + 80);
        Some(chunk)
    }

    /// More than one segment is waiting: worth a large buffer.
    pub(crate) fn has_many(&self) -> bool {
        self.end - self.next.min(self.end) > self.segment || self.board.has_lost()
    }

    fn choose(&mut self, now: Time) -> Option<Chunk> {
        if self.probes > 0 {
            self.probes -= 1;
            if let Some(chunk) = self.board.resend_lost(now) {
                self.retransmissions += 1;
                return Some(chunk);
            }
            if let Some(chunk) = self.board.resend_last(now) {
                self.retransmissions += 1;
                return Some(chunk);
            }
        }
        let something = self.board.has_lost() || self.next < self.end || self.fin_due();
        if !something {
            self.limited = false;
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
        if let Some(chunk) = self.board.resend_lost(now) {
            self.retransmissions += 1;
            return Some(chunk);
        }
        if self.board.is_full() {
            return None;
        }
        self.choose_new(now)
    }

    fn choose_new(&mut self, now: Time) -> Option<Chunk> {
        let waiting = self.end - self.next.min(self.end);
        let open = self.edge.saturating_sub(self.next);
        let len = waiting.min(self.segment).min(open);
        let fin = waiting == 0 && self.fin_due();
        if len == 0 && !fin {
            self.limited = false;
            if waiting > 0 && self.board.is_empty() && self.persist_at.is_none() {
                self.persist_at = Some(now + self.persist);
            }
            return None;
        }
        // A sliver of window is left until it has grown, as long as an answer is under way.
        if len < waiting.min(self.segment) && !self.board.is_empty() {
            self.limited = false;
            return None;
        }
        if self.board.is_empty() {
            self.progress = now;
            let idle = now.since(self.last_sent);
            let rto = self.rtt.rto(0);
            if idle > rto && self.next > 0 {
                self.control.on_idle(idle, rto);
            }
        }
        let chunk = Chunk {
            offset: self.next,
            len: len as u32,
            fin,
        };
        self.board.on_sent(now, chunk);
        self.next += len + u64::from(fin);
        self.fin_sent |= fin;
        self.persist_at = None;
        Some(chunk)
    }

    fn fin_due(&self) -> bool {
        self.finished && !self.fin_sent
    }

    /// Reads the bytes of a chunk.
    pub(crate) fn read(&self, chunk: Chunk, out: &mut [u8]) {
        self.ring.read(chunk.offset, out);
    }

    /// The pace allows a segment now; when not, it is known from when on.
    fn is_paced_in(&mut self, now: Time) -> bool {
        self.paced_at = None;
        if self.pace <= now + AHEAD {
            return true;
        }
        self.paced_at = Some(self.pace - AHEAD.div(2));
        false
    }

    fn spend_pace(&mut self, now: Time, bytes: u64) {
        let Some(srtt) = self.rtt.smoothed().filter(|srtt| *srtt >= UNPACED) else {
            return;
        };
        // As Linux paces: ahead of the window, so that it is the window that limits.
        let gain = if self.control.in_slow_start() {
            2.0
        } else {
            1.25
        };
        let rate = gain * self.control.window() * self.segment as f64 / srtt.as_secs_f64();
        let take = Duration::from_secs_f64(bytes as f64 / rate);
        self.pace = self.pace.max(now) + take;
    }

    /// Takes what a segment of the peer says of this direction.
    pub(crate) fn on_heard(
        &mut self,
        now: Time,
        heard: Heard,
        ranges: impl Iterator<Item = (u32, u32)>,
    ) -> Result<(), NeverSent> {
        let acknowledged = seq::widen(heard.acknowledged.into(), 32, self.una);
        if acknowledged > self.next {
            return Err(NeverSent);
        }
        if acknowledged < self.una {
            // From before: it came late.
            return Ok(());
        }
        let next = self.next;
        let widen = move |low: u32| seq::widen(low.into(), 32, acknowledged);
        let mut lies = false;
        let ranges = ranges.map(|(from, to)| (widen(from), widen(to)));
        let ranges = ranges.filter(|(from, to)| {
            let good = from < to && *to <= next;
            lies |= !good;
            good
        });
        let before = self.board.in_flight();
        let echo = heard.rtt.map(|rtt| now - rtt);
        let news = self.board.on_ack(acknowledged, ranges, echo);
        if lies {
            return Err(NeverSent);
        }
        let advanced = acknowledged > self.una;
        self.una = acknowledged;
        let edge = acknowledged + u64::from(heard.window);
        if edge > self.edge {
            self.edge = edge;
            self.persist_at = None;
            self.persist = PERSIST_START;
        }
        if advanced || news.bytes > 0 {
            self.on_news(now, heard, news.bytes, before);
            if news.spurious || news.reordered {
                self.patience = (self.patience + 1).min(4);
            }
        }
        self.find_lost(now);
        // A window that does not limit the sender has not filled the queue either.
        if heard.congested && self.limited && self.una >= self.marked {
            self.marked = self.next;
            let in_flight = before as f64 / self.segment as f64;
            self.control
                .on_congestion(now, in_flight, Congestion::Explicit);
        }
        if self.recovering.is_some_and(|until| self.una >= until) {
            self.recovering = None;
            self.control.on_recovered(now);
        }
        self.arm_timers(now);
        Ok(())
    }

    /// The round trip of the handshake.
    pub(crate) fn on_first_round_trip(&mut self, rtt: Duration) {
        self.rtt.sample(rtt);
    }

    fn on_news(&mut self, now: Time, heard: Heard, bytes: u64, in_flight: u64) {
        self.progress = now;
        self.backoff = 0;
        self.probed = false;
        self.rto_at = None;
        if let Some(rtt) = heard.rtt {
            self.rtt.sample(rtt);
        }
        if self.recovering.is_none() && bytes > 0 {
            self.control.on_ack(&Acked {
                now,
                segments: bytes as f64 / self.segment as f64,
                bytes,
                rtt: heard.rtt,
                in_flight: in_flight as f64 / self.segment as f64,
                limited: self.limited,
                receive_rate_bps: None,
                receive_jitter: None,
                srtt: self.rtt.cautious(),
            });
        }
    }

    fn find_lost(&mut self, now: Time) {
        let rtt = self.rtt.cautious();
        let quarter = rtt.div(4).max(Duration::from_millis(1));
        let patience = match self.link {
            LinkProtocol::BestEffort => Patience {
                by_count: self.patience == 0,
                time: rtt + quarter * self.patience.max(1),
            },
            // One strike on the hop takes a round trip of the hop, which is at most that of the path.
            LinkProtocol::RealTime => Patience {
                by_count: false,
                time: rtt * 2 + quarter * self.patience,
            },
            LinkProtocol::Reliable => Patience {
                by_count: false,
                time: rtt * 3 + REPAIR_LEAST,
            },
        };
        let (found, again) = self.board.find_lost(now, patience);
        self.lost_at = again;
        if found && self.recovering.is_none() && self.una >= self.restarting {
            self.recovering = Some(self.next);
            // Cut from the window and not from what is in flight: it has not grown while the
            // application limited it.
            self.control
                .on_congestion(now, self.control.window(), Congestion::Loss);
        }
    }

    fn arm_timers(&mut self, now: Time) {
        if self.board.is_empty() {
            self.rto_at = None;
            self.probe_at = None;
            self.lost_at = None;
            return;
        }
        let rto = now + self.rtt.rto(self.backoff);
        self.rto_at.get_or_insert(rto);
        self.arm_probe();
    }

    /// Two round trips after the last transmission the tail is probed, once.
    fn arm_probe(&mut self) {
        self.probe_at = None;
        if self.probed || self.board.is_empty() || self.lost_at.is_some() || self.backoff > 0 {
            return;
        }
        let Some(srtt) = self.rtt.smoothed() else {
            return;
        };
        let at = self.last_sent + srtt * 2 + PROBE_SLACK;
        self.probe_at = self.rto_at.is_none_or(|rto| at < rto).then_some(at);
    }

    /// Call when nothing more leaves in this batch.
    pub(crate) fn on_flushed(&mut self) {
        self.arm_probe();
    }

    /// When something is due of itself.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        let all = [
            self.rto_at,
            self.probe_at,
            self.lost_at,
            self.persist_at,
            self.paced_at,
        ];
        all.into_iter().flatten().min()
    }

    /// Does what is due; true if the peer is to be asked for its window.
    pub(crate) fn on_timeout(&mut self, now: Time) -> bool {
        let is_due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        if is_due(self.paced_at) {
            self.paced_at = None;
        }
        if is_due(self.lost_at) {
            self.find_lost(now);
        }
        if is_due(self.rto_at) {
            self.on_rto(now);
        } else if is_due(self.probe_at) {
            self.probe_at = None;
            self.probed = true;
            self.probes = 1;
        }
        if is_due(self.persist_at) {
            self.persist = (self.persist * 2).min(PERSIST_MAX);
            self.persist_at = Some(now + self.persist);
            return true;
        }
        false
    }

    fn on_rto(&mut self, now: Time) {
        if self.backoff == 0 {
            self.control.on_timeout(now, self.control.window());
        }
        self.board.lose_all();
        self.recovering = None;
        self.restarting = self.next;
        self.marked = self.next;
        self.backoff = (self.backoff + 1).min(16);
        self.rto_at = Some(now + self.rtt.rto(self.backoff));
        self.probe_at = None;
        self.lost_at = None;
        self.probes = 1;
        self.pace = now;
    }

    /// The routes have changed. What has waited longer than its answer takes may have been lost with
    /// the old path: it is asked for now, not when the timer, backed off, would.
    pub(crate) fn on_route_change(&mut self, now: Time) {
        if self.board.is_empty() {
            return;
        }
        self.backoff = 0;
        self.probed = false;
        self.rto_at = Some(now + self.rtt.rto(0));
        if now.since(self.progress) > self.rtt.cautious() {
            self.probes = 1;
        }
    }
}
