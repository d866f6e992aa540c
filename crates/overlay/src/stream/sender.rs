//! The sending half of a stream: it takes what is written, decides what may leave now, and sends lost bytes again.
//!
//! ```text
//!   write ─▶ ring ─▶ poll: probe? lost? new? ── within window, pace, edge ──▶ segments
//!            ▲                                                                   │
//!            '── credit ◀── on_ack: scoreboard, congestion control, timers ◀─────┘
//! ```
//!
//! The scoreboard finds losses. The window comes from the congestion family, and what leaves is paced. If the last
//! segments are not acknowledged, the sender probes after two round trips [RFC 8985 §7]; then the retransmission timer
//! starts over [RFC 6298]. After a change of the routes the probe is sent at once, so that a stream over a failed relay
//! is silent no longer than the routing takes.

mod acknowledge;
mod depart;
mod messages;
mod timers;

use super::ring::Ring;
use super::rtt::Rtt;
use super::sent::{Chunk, Scoreboard};
use super::{BUFFER_MAX, BUFFER_START, Budget, Content};
use base::{Duration, Time};
use congestion::{Control, Family};
use messages::Messages;
use wire::data::LinkProtocol;

/// How long the sender waits at first before it asks about the peer's closed window.
const PERSIST_START: Duration = Duration::from_millis(200);
/// The first window over reliable links, in segments. Reliable links have windows of their own, mark packets that wait
/// long, and make the sender wait if their queues are full. So the session's window only has to keep those queues
/// short, and it begins larger than on other paths. It has no floor of its own: many streams to a slow branch must come
/// down to what the branch carries, and a hop that repairs a loss does not mark packets for that.
const RELIABLE_START: f64 = 32.0;
/// A ring larger than this gives its memory back when it is empty.
const RING_KEPT: usize = 1 << 20;
/// The least credit, in bytes, that is worth a message to the host.
const CREDIT_STEP: u64 = 16 << 10;

/// The acknowledgement names bytes that were never sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NeverSent;

/// What a segment says about the other direction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    /// The low bits of the place up to which all has come.
    pub(crate) acknowledged: u32,
    /// The number of bytes beyond that place that may be sent.
    pub(crate) window: u32,
    /// When the segment came to this host; it may have waited there.
    pub(crate) came: Time,
    /// How long before that the segment left that this one answers.
    pub(crate) rtt: Option<Duration>,
    /// Segments came with the mark of congestion.
    pub(crate) congested: bool,
}

/// The sending half.
#[derive(Debug)]
pub(crate) struct Sender {
    link: LinkProtocol,
    segment: u64,
    /// The bytes that fit a packet on the present path, at most a segment.
    fit: u64,
    /// The rest of a segment that is longer than fits, and of which a part has just been sent.
    rest: Option<Chunk>,
    ring: Ring,
    content: Content,
    /// The messages, if they expire.
    messages: Option<Box<Messages>>,
    board: Scoreboard,
    control: Box<dyn Control + Send>,
    /// The family and the settings from which the control is made.
    family: Family,
    settings: congestion::Settings,
    rtt: Rtt,
    /// All bytes before this place are acknowledged.
    una: u64,
    /// The next place that was never sent.
    next: u64,
    /// The place behind the last byte that is written.
    end: u64,
    finished: bool,
    fin_sent: bool,
    /// The peer takes nothing beyond this place.
    edge: u64,
    /// The place up to which the window was already cut for losses.
    recovering: Option<u64>,
    /// The place up to which all was sent again after a timeout: losses before it do not cut the window again.
    restarting: u64,
    /// The place up to which bytes went with the call, over best-effort links.
    early: u64,
    /// The place up to which the window was already cut for marks.
    marked: u64,
    /// The payload bytes that the host may still write.
    credit: u64,
    limit: u64,
    charge: u64,
    /// The window, not the application, stopped the last poll.
    limited: bool,
    pace: Time,
    paced_at: Option<Time>,
    /// The number of segments that leave regardless of the window.
    probes: u32,
    probed: bool,
    /// By how many quarters of a round trip the sender waits longer before it takes a segment for lost, because it has
    /// seen reordering.
    patience: u64,
    backoff: u32,
    /// The place up to which all was acknowledged at the last timeout.
    expired: Option<u64>,
    rto_at: Option<Time>,
    probe_at: Option<Time>,
    lost_at: Option<Time>,
    persist_at: Option<Time>,
    persist: Duration,
    last_sent: Time,
    /// When new bytes left last, and how long after the new bytes before.
    last_new: Option<Time>,
    gap: Duration,
    /// Bytes of the peer have come since then.
    was_told: bool,
    /// The acknowledgement of the segment that left last may wait.
    lets_wait: bool,
    /// The last segment whose acknowledgement may wait: its places, and when it left.
    asked: (u64, u64),
    asked_at: Time,
    /// Such a segment was acknowledged at once although it was alone, so the peer does not let acknowledgements wait.
    answers_at_once: bool,
    progress: Time,
    /// The number of retransmissions.
    pub(crate) retransmissions: u64,
}

impl Sender {
    /// Creates a sender of segments with so many bytes. Messages that expire are given up after `lifetime`.
    pub(crate) fn new(
        now: Time,
        family: Family,
        link: LinkProtocol,
        segment: usize,
        (content, lifetime): (Content, Option<Duration>),
    ) -> Sender {
        let mut settings = congestion::Settings {
            max_window: (2 * BUFFER_MAX) as f64 / segment as f64,
            ..congestion::Settings::default()
        };
        if link == LinkProtocol::Reliable {
            settings.initial_window = RELIABLE_START;
        }
        let segment = segment as u64;
        Sender {
            link,
            segment,
            fit: segment,
            rest: None,
            ring: Ring::default(),
            content,
            messages: (content == Content::Expiring).then(|| Box::new(Messages::new(lifetime))),
            board: Scoreboard::new(segment),
            control: family.control(settings),
            family,
            settings,
            rtt: Rtt::default(),
            una: 0,
            next: 0,
            end: 0,
            finished: false,
            fin_sent: false,
            edge: 0,
            recovering: None,
            restarting: 0,
            early: 0,
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
            expired: None,
            rto_at: None,
            probe_at: None,
            lost_at: None,
            persist_at: None,
            persist: PERSIST_START,
            last_sent: now,
            last_new: None,
            gap: Duration::MAX,
            was_told: false,
            lets_wait: false,
            asked: (0, 0),
            asked_at: now,
            answers_at_once: false,
            progress: now,
            retransmissions: 0,
        }
    }

    /// Takes what the application writes. Returns false if it is more than the credit, or an empty message: empty
    /// messages cost no credit, and a reader could not distinguish them from the end.
    pub(crate) fn write(&mut self, now: Time, bytes: &[u8]) -> bool {
        let len = bytes.len() as u64;
        let is_empty_message = len == 0 && self.content != Content::Bytes;
        if self.finished || len > self.credit || is_empty_message {
            return false;
        }
        self.credit -= len;
        match &mut self.messages {
            Some(messages) => messages.write(now, bytes),
            None => {
                if self.content == Content::Messages {
                    self.append(&(bytes.len() as u32).to_be_bytes());
                }
                self.append(bytes);
            }
        }
        true
    }

    fn append(&mut self, bytes: &[u8]) {
        let held = self.base()..self.end;
        let end = self.end + bytes.len() as u64;
        self.ring.reserve(held, end);
        self.ring.write(self.end, bytes);
        self.end = end;
    }

    /// Takes in that nothing more will be written.
    pub(crate) fn finish(&mut self) {
        self.finished = true;
        self.credit = 0;
    }

    /// Whether the application has said that it writes no more.
    pub(crate) fn is_finished(&self) -> bool {
        self.finished
    }

    /// Whether everything that was written has arrived, and the end.
    pub(crate) fn is_done(&self) -> bool {
        self.fin_sent && self.una > self.end
    }

    /// Whether everything that was written has arrived.
    pub(crate) fn is_delivered(&self) -> bool {
        self.una >= self.end && self.waiting() == 0
    }

    /// Gives back the memory of a large buffer that is empty.
    fn release(&mut self) {
        if self.buffered() == 0 && self.ring.capacity() > RING_KEPT {
            self.ring.clear();
        }
    }

    /// Returns the number of bytes that are written and not acknowledged.
    pub(crate) fn buffered(&self) -> u64 {
        self.end - self.base() + self.waiting()
    }

    fn base(&self) -> u64 {
        self.board.base().unwrap_or(self.next.min(self.end))
    }

    /// Returns the number of bytes acknowledged.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.una.min(self.end)
    }

    /// Returns when something was last acknowledged, or was sent after everything had been acknowledged.
    pub(crate) fn progress(&self) -> Time {
        self.progress
    }

    /// Returns the memory that the buffer takes beyond its first size.
    pub(crate) fn charge(&self) -> u64 {
        self.charge
    }

    /// Returns the estimator of the round trip.
    pub(crate) fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// Returns the window in bytes.
    pub(crate) fn window(&self) -> u64 {
        (self.control.window() * self.segment as f64) as u64
    }

    /// Returns the bytes in flight.
    pub(crate) fn in_flight(&self) -> u64 {
        self.board.in_flight()
    }

    /// Sets how many bytes fit a packet from now on. New segments are no longer than that, and longer ones that are
    /// sent again leave in parts.
    pub(crate) fn set_fit(&mut self, bytes: usize) {
        self.fit = self.segment.min(bytes as u64).max(1);
    }

    /// Returns the place of the next segment without bytes.
    pub(crate) fn end_place(&self) -> u64 {
        self.next
    }

    /// Takes the peer's first window.
    pub(crate) fn open(&mut self, window: u32) {
        self.edge = self.edge.max(window.into());
    }

    /// Whether bytes or the end have yet to be sent, for the first time or again.
    pub(crate) fn has_unsent(&self) -> bool {
        self.has_new() || self.board.has_lost() || self.rest.is_some()
    }

    /// Whether there are bytes, or the end, that were never sent.
    fn has_new(&self) -> bool {
        self.next < self.end || self.waiting() > 0 || self.fin_due()
    }

    /// Whether something was sent and is not acknowledged.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.board.is_empty()
    }

    /// Returns how much more the host may write, if that is worth a message.
    pub(crate) fn grant(&mut self, budget: &mut Budget) -> Option<u32> {
        if self.finished {
            return None;
        }
        self.tune(budget);
        let cost = self.messages.as_ref().map_or(0, |m| m.cost());
        let used = self.buffered() + cost + self.credit;
        let more = self.limit.saturating_sub(used);
        if more < CREDIT_STEP && (more == 0 || used > 0) {
            return None;
        }
        self.credit += more;
        Some(more as u32)
    }

    /// Adapts the buffer to two windows, so that acknowledgements and the host's writes overlap.
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
}
