//! The missing packets of a receiver: which packets, until when they are useful, and the next step for each.
//!
//! ```text
//!   missing ──▶ strike ── rtt + margin ──▶ strike … ──▶ last strike ─ 2 ms ─▶ its repeats ─▶ given up
//!      └───────────┴───────────── the packet arrives ─────────┴───────────────────┘
//! ```
//!
//! The table is in the order of numbers, because gaps are found in that order and arrivals are looked up by number. The
//! agenda is in the order of time, so that only packets that are due are touched.

use super::{LastRound, MAX_STRIKES, REPEAT_AFTER, Settings};
use base::{Duration, Time};
use core::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Maximum number of losses remembered at a time. 10 % of 600 000 packets/s for the 60 ms that two strikes on a 20 ms
/// link take are 3600. Each is requested at most once per half a round trip, the last time as [`LastRound`] says,
/// which also limits the requests after an outage.
pub(super) const MISSING_LIMIT: usize = 4096;

/// Two strikes are at least half a round trip apart, or this: in 4 ms ten calls send two packets, and the third in a
/// row is lost hardly more often than any other.
const STRIKES_APART: Duration = Duration::from_millis(4);

/// The time until the answer to a request arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundTrip {
    /// The minimum, which decides whether an answer can still be in time.
    pub least: Duration,
    /// The usual maximum, which decides when to request again. If round trips vary, the two are far apart.
    pub usual: Duration,
}

impl From<Duration> for RoundTrip {
    /// Returns a round trip that does not vary.
    fn from(rtt: Duration) -> RoundTrip {
        RoundTrip {
            least: rtt,
            usual: rtt,
        }
    }
}

/// An answer is overdue after the round trip plus an eighth of it, and at least plus this.
const MARGIN_MIN: Duration = Duration::from_millis(1);

/// The number of a request for a packet. On the wire: the number, and bit 7 for the last request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Strike(u8);

const LAST: u8 = 0x80;

impl Strike {
    /// Returns request number `number`, from 1; `last` if no other can follow in time, and the answer should come
    /// several times.
    pub const fn new(number: u8, last: bool) -> Strike {
        Strike((number & !LAST) | if last { LAST } else { 0 })
    }
    /// Returns the strike of a byte on the wire.
    pub const fn from_wire(byte: u8) -> Strike {
        Strike(byte)
    }
    /// Returns the byte for the wire.
    pub const fn wire(self) -> u8 {
        self.0
    }
    /// Returns the number of the request, from 1.
    pub const fn number(self) -> u8 {
        self.0 & !LAST
    }
    /// Returns true for the first request for a packet.
    pub const fn is_first(self) -> bool {
        self.number() == 1
    }
    /// Returns true if the answer should come several times.
    pub const fn is_last(self) -> bool {
        self.0 & LAST != 0
    }
}

/// One missing packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Missing {
    pub(super) seq: u64,
    /// When the gap was seen.
    pub(super) detected: Time,
    /// An answer after this moment is useless.
    pub(super) useful_until: Time,
    /// Requests so far; repetitions are counted once.
    pub(super) strikes: u8,
    /// When it was last requested.
    asked: Time,
    state: State,
}

/// The answers to packets that were requested together: after the last one that has arrived, the next may still be on
/// its way. After an outage, the answers take the time that the link needs to carry them all, and a receiver that
/// requested each again and again would create the queue in which they wait.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Answers {
    /// When the packet of the last answer was requested, its number, and when it arrived.
    last: Option<(Time, u64, Time)>,
    /// The time from the answer before to the last one.
    spacing: Duration,
}

/// The minimum time to wait for the next answer. Choice: a packet of a call takes 4 ms at 500 kbit/s.
const ANSWERS_APART: Duration = Duration::from_millis(8);

impl Answers {
    /// A requested packet has arrived.
    pub(super) fn on_answer(&mut self, now: Time, packet: &Missing) {
        let before = self.last.filter(|(asked, ..)| *asked == packet.asked);
        self.spacing = before.map_or(Duration::ZERO, |(_, _, came)| now.since(came));
        // If answers overtake each other, the newest one counts.
        let seq = before.map_or(packet.seq, |(_, seq, _)| seq.max(packet.seq));
        self.last = Some((packet.asked, seq, now));
    }

    /// Returns until when the answer for this packet may still be on its way behind those that arrive: until the next
    /// one should have arrived, or until it would be too late to request again. `None` if a later one has arrived, or
    /// none recently.
    pub(super) fn awaits(
        &self,
        now: Time,
        packet: &Missing,
        (usual, last): (Duration, LastRound),
    ) -> Option<Time> {
        let is_behind = |(asked, seq, _): &(Time, u64, Time)| {
            packet.strikes > 0 && *asked == packet.asked && *seq < packet.seq
        };
        let (.., came) = self.last.filter(is_behind)?;
        // Choice: one of several evenly spaced answers may be lost. Not twice the spacing, which would be exactly when
        // the next one is due.
        let overdue = usual + usual.div(8);
        let patience = (self.spacing.div(4) * 9).min(overdue).max(ANSWERS_APART);
        let until = (came + patience).min(packet.latest(usual, last));
        (packet.state == State::Strike && now < until).then_some(until)
    }
}

/// The next step for a missing packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A strike.
    Strike,
    /// The last strike again, this many times.
    Repeat(u8),
    /// The entry only waits for the answer.
    Wait,
    /// The packet arrived or was given up; the entry leaves the table later.
    Done,
}

/// The action for a missing packet that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Request the packet, and look again at this moment.
    Ask(Strike, Time),
    /// Its time or its strikes are used up.
    GiveUp,
}

impl Missing {
    pub(super) fn new(seq: u64, detected: Time, useful_until: Time) -> Missing {
        Missing {
            seq,
            detected,
            useful_until,
            strikes: 0,
            asked: Time::ZERO,
            state: State::Strike,
        }
    }

    /// Returns the latest moment for a request whose answer is in time.
    fn latest(&self, rtt: Duration, last: LastRound) -> Time {
        // Choice: a sixteenth of the round trip to spare. On long hops the errors of the delays add up.
        let more = last.requests(false) - LastRound::LEAST.requests(false);
        let spare = REPEAT_AFTER * u64::from(1 + more) + MARGIN_MIN;
        let spare = spare.max(rtt.div(16));
        self.useful_until - rtt - spare
    }

    /// Decides what to do at `now`, and notes that it is done.
    pub(super) fn step(
        &mut self,
        now: Time,
        rtt: RoundTrip,
        (settings, last): (&Settings, LastRound),
    ) -> Step {
        let strikes = settings.strikes.min(MAX_STRIKES);
        let answer_at = now + rtt.least;
        let overdue_at = now + rtt.usual + rtt.usual.div(8).max(MARGIN_MIN);
        match self.state {
            State::Strike => {
                // The packet is requested only if it can be in time. [Amir06 §I] Choice: the shortest round trip
                // decides. If round trips vary, the usual one would give up packets that half of the requests still
                // save.
                if self.strikes >= strikes || answer_at > self.useful_until {
                    return Step::GiveUp;
                }
                self.strikes += 1;
                self.asked = now;
                if self.strikes < strikes
                    && let Some(next_at) = self.next_strike(now, (rtt.usual, overdue_at), last)
                {
                    return Step::Ask(Strike::new(self.strikes, false), next_at);
                }
                if settings.redundant_last {
                    let times = self.times(now, rtt.usual, last);
                    return self.repeat(times - 1, now, rtt.usual);
                }
                self.state = State::Wait;
                Step::Ask(Strike::new(self.strikes, false), overdue_at)
            }
            State::Repeat(0) => {
                self.state = State::Wait;
                Step::Ask(Strike::new(self.strikes, true), overdue_at)
            }
            State::Repeat(left) => self.repeat(left, now, rtt.usual),
            State::Wait | State::Done => Step::GiveUp,
        }
    }

    /// Returns how often to send the last request: the least copies in any case, the others if there is time between
    /// them.
    fn times(&self, now: Time, rtt: Duration, last: LastRound) -> u8 {
        let is_only = self.strikes == 1;
        let spare = self.useful_until.since(now).saturating_sub(rtt);
        let fit = 1 + spare.as_nanos() / REPEAT_AFTER.as_nanos();
        let times = u64::from(last.requests(is_only)).min(fit) as u8;
        times.max(LastRound::LEAST.requests(is_only))
    }

    /// Sends the last request, and again `left` times.
    fn repeat(&mut self, left: u8, now: Time, rtt: Duration) -> Step {
        self.state = State::Repeat(left - 1);
        let latest = (self.useful_until - rtt).max(now);
        let again_at = latest.min(now + REPEAT_AFTER);
        Step::Ask(Strike::new(self.strikes, true), again_at)
    }

    /// Returns when to request again after a request at `now`, if that can still be useful.
    ///
    /// Choice: rather too early than not at all. If the receiver waited until the answer is overdue, the next one might
    /// be late by the small delays that hosts on the path add. Two requests some milliseconds apart are seldom both
    /// lost in one burst; two that are sent together often are. There is time left for the copies of the answer.
    /// So the usual round trip is used here.
    fn next_strike(
        &self,
        now: Time,
        (rtt, overdue_at): (Duration, Time),
        last: LastRound,
    ) -> Option<Time> {
        let next_at = overdue_at.min(self.latest(rtt, last));
        (next_at >= now + rtt.div(2).min(STRIKES_APART)).then_some(next_at)
    }
}

/// The missing packets.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// The missing packets, in order of their numbers.
    entries: VecDeque<Missing>,
    done: usize,
    /// When to look at which packet; newer packets first, as they are more likely to be in time. It may contain packets
    /// that are no longer missing.
    agenda: BinaryHeap<(Reverse<Time>, u64)>,
}

impl Table {
    /// Adds a packet with a number above all others, due at once. The oldest is removed when the table is full. Returns
    /// whether a packet was forgotten.
    pub(super) fn push(&mut self, missing: Missing) -> bool {
        if self.entries.len() >= MISSING_LIMIT && self.done >= MISSING_LIMIT / 2 {
            self.entries.retain(|m| m.state != State::Done);
            self.done = 0;
        }
        let mut forgotten = false;
        if self.entries.len() >= MISSING_LIMIT
            && let Some(oldest) = self.entries.pop_front()
        {
            forgotten = oldest.state != State::Done;
            self.done -= usize::from(!forgotten);
        }
        self.schedule(missing.seq, missing.detected);
        self.entries.push_back(missing);
        forgotten
    }

    /// Removes a packet from the list and returns it, if it is on the list.
    pub(super) fn take(&mut self, seq: u64) -> Option<Missing> {
        let entry = self.find(seq)?;
        let found = *entry;
        entry.state = State::Done;
        self.done += 1;
        while let Some(front) = self.entries.front()
            && front.state == State::Done
        {
            self.entries.pop_front();
            self.done -= 1;
        }
        Some(found)
    }

    /// Returns the next packet that is due, and removes it from the agenda.
    pub(super) fn pop_due(&mut self, now: Time) -> Option<&mut Missing> {
        loop {
            let &(Reverse(due), seq) = self.agenda.peek()?;
            if due > now {
                return None;
            }
            self.agenda.pop();
            if let Some(at) = self.position(seq) {
                return self.entries.get_mut(at);
            }
        }
    }

    /// Puts a packet on the agenda.
    pub(super) fn schedule(&mut self, seq: u64, due: Time) {
        // Packets that arrived long before they were due leave their places behind.
        if self.agenda.len() >= 4 * MISSING_LIMIT {
            let mut agenda = core::mem::take(&mut self.agenda);
            agenda.retain(|&(_, seq)| self.position(seq).is_some());
            self.agenda = agenda;
        }
        self.agenda.push((Reverse(due), seq));
    }

    /// Returns when something is due.
    pub(super) fn next_due(&self) -> Option<Time> {
        if self.len() == 0 {
            return None;
        }
        self.agenda.peek().map(|&(Reverse(due), _)| due)
    }

    /// Returns how many packets are missing.
    pub(super) fn len(&self) -> usize {
        self.entries.len() - self.done
    }

    /// Forgets all packets, and releases the memory.
    pub(super) fn clear(&mut self) {
        *self = Table::default();
    }

    fn find(&mut self, seq: u64) -> Option<&mut Missing> {
        let at = self.position(seq)?;
        self.entries.get_mut(at)
    }

    fn position(&self, seq: u64) -> Option<usize> {
        let at = self.entries.binary_search_by_key(&seq, |m| m.seq).ok()?;
        (self.entries[at].state != State::Done).then_some(at)
    }
}
