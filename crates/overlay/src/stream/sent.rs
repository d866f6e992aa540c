//! The scoreboard of a stream's sender: the segments that were sent, and their state.
//!
//! ```text
//!   places:          una .. [ acked ][ in flight ][ lost ][ in flight ] .. next
//!   transmissions:   1, 2, 3 (lost), 4, ... 9 = 3 again, ...            each has a number of its own
//! ```
//!
//! The order of *transmissions* decides whether a segment counts as lost [RFC 8985]: something that was sent later has
//! arrived, and the time by which the path may reorder has passed. So a lost retransmission is found like any other
//! loss. Links of the overlay repair losses themselves and forward out of order meanwhile [Amir03 §IV]; the caller
//! decides how long a segment over such links may stay behind ([`Patience`]).

use super::ranges::Ranges;
use super::receiver::RANGES_KEPT;
use base::{Duration, Time};
use congestion::delivery::{Delivered, Sampler, Stamp};
use std::collections::VecDeque;

/// The most segments that are outstanding: 256 MiB in full segments are 208 000, of some 110 bytes each here. Beyond
/// that, small writes of an application wait and are combined.
pub(super) const OUTSTANDING_MAX: usize = 262_144;
/// The number of later transmissions that must have arrived if the path is not known to reorder [RFC 5681].
const LATER: u64 = 3;

/// A part of the stream that is sent as one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// Its first place.
    pub(crate) offset: u64,
    /// Its bytes.
    pub(crate) len: u32,
    /// The end of the stream follows it.
    pub(crate) fin: bool,
    /// It has only places: its bytes expired before they left.
    pub(crate) expired: bool,
}

impl Chunk {
    /// Returns the place behind its last one.
    pub(super) fn end(self) -> u64 {
        self.offset + u64::from(self.len) + u64::from(self.fin)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    InFlight,
    Lost,
    Acked,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    chunk: Chunk,
    state: State,
    /// It was sent more than once.
    again: bool,
    /// The number and the moment of its latest transmission.
    transmission: u64,
    at: Time,
    stamp: Stamp,
}

/// When a segment that stays behind later ones counts as lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// The path is not known to reorder: [`LATER`] later transmissions are enough.
    pub(super) by_count: bool,
    /// Otherwise: how long after its transmission the segment counts as lost.
    pub(super) time: Duration,
}

/// What is new in an acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct News {
    /// Places newly acknowledged, cumulatively or selectively.
    pub(super) bytes: u64,
    /// A segment was acknowledged after one that was sent later.
    pub(super) reordered: bool,
    /// A retransmission was not needed.
    pub(super) spurious: bool,
}

/// The segments that were sent and are not acknowledged cumulatively.
#[derive(Debug, Default)]
pub(super) struct Scoreboard {
    /// The segments, in the order of their places and without gaps.
    sent: VecDeque<Sent>,
    /// The number of the first of `sent`.
    first: u64,
    /// Transmissions in their order: number, and segment. Entries that are not a segment's latest transmission, or
    /// whose segment is not in flight, are skipped.
    order: VecDeque<(u64, u64)>,
    /// Segments taken for lost, the lowest first. Entries that no longer count as lost are skipped.
    lost: VecDeque<u64>,
    lost_count: usize,
    sacked: Ranges,
    parts: Vec<(u64, u64)>,
    transmissions: u64,
    /// The latest transmission that has arrived.
    newest: Option<(u64, Time)>,
    /// The part of the window that the segments in flight use, in bytes.
    in_flight: u64,
    /// The least part of the window that a segment uses.
    least_cost: u64,
    /// The bytes of a full segment, the unit in which rates are measured.
    segment: u64,
    sampler: Sampler,
}

impl Scoreboard {
    /// Creates an empty scoreboard, for segments of so many bytes.
    pub(super) fn new(segment: u64) -> Scoreboard {
        Scoreboard {
            // Choice: a packet costs at least a quarter of a segment, so that many small ones are
            // not a flood.
            least_cost: segment / 4,
            segment: segment.max(1),
            ..Scoreboard::default()
        }
    }

    /// Returns the part of the window in use, in bytes.
    pub(super) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Whether no segment waits for its acknowledgement.
    pub(super) fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// Whether there is no room for another segment.
    pub(super) fn is_full(&self) -> bool {
        self.sent.len() >= OUTSTANDING_MAX
    }

    /// Whether a segment is taken for lost and was not sent again.
    pub(super) fn has_lost(&self) -> bool {
        self.lost_count > 0
    }

    /// Returns the first place whose bytes are still needed.
    pub(super) fn base(&self) -> Option<u64> {
        self.sent.front().map(|sent| sent.chunk.offset)
    }

    /// Notes a chunk that is sent for the first time, right behind the one before.
    pub(super) fn on_sent(&mut self, now: Time, chunk: Chunk) {
        self.transmissions += 1;
        let stamp = self.stamp(now, chunk);
        let segment = self.first + self.sent.len() as u64;
        self.sent.push_back(Sent {
            chunk,
            state: State::InFlight,
            again: false,
            transmission: self.transmissions,
            at: now,
            stamp,
        });
        self.order.push_back((self.transmissions, segment));
        self.in_flight += self.cost(chunk);
    }

    /// Returns the next chunk that was taken for lost. It is sent again now.
    pub(super) fn resend_lost(&mut self, now: Time) -> Option<Chunk> {
        while let Some(segment) = self.lost.pop_front() {
            if self
                .segment(segment)
                .is_some_and(|s| s.state == State::Lost)
            {
                return self.resend(now, segment);
            }
        }
        None
    }

    /// Returns the last chunk that has not been acknowledged. It is sent again now as a probe.
    pub(super) fn resend_last(&mut self, now: Time) -> Option<Chunk> {
        let open = self.sent.iter().rposition(|s| s.state != State::Acked)?;
        self.resend(now, self.first + open as u64)
    }

    fn resend(&mut self, now: Time, segment: u64) -> Option<Chunk> {
        let transmission = self.transmissions + 1;
        let stamp = self.stamp(now, self.segment(segment)?.chunk);
        let sent = self.segment_mut(segment)?;
        sent.stamp = stamp;
        let was = sent.state;
        sent.state = State::InFlight;
        sent.again = true;
        sent.transmission = transmission;
        sent.at = now;
        let chunk = sent.chunk;
        match was {
            State::Lost => {
                self.lost_count -= 1;
                self.in_flight += self.cost(chunk);
            }
            State::InFlight | State::Acked => {}
        }
        self.transmissions = transmission;
        self.order.push_back((transmission, segment));
        // The earlier transmissions of probes stay in the list: they must not pile up.
        if self.order.len() > 2 * OUTSTANDING_MAX {
            self.forget_stale();
        }
        Some(chunk)
    }

    /// Takes in an acknowledgement up to `acknowledged` and of `ranges` beyond; all of it lies within what was sent.
    /// `echo` is when the segment that it answers was sent, if that is known.
    pub(super) fn on_ack(
        &mut self,
        now: Time,
        acknowledged: u64,
        ranges: impl Iterator<Item = (u64, u64)>,
        echo: Option<Time>,
    ) -> News {
        let mut news = News::default();
        while let Some(front) = self.sent.front()
            && front.chunk.end() <= acknowledged
        {
            self.acknowledge(now, self.first, echo, &mut news);
            self.sent.pop_front();
            self.first += 1;
        }
        self.sacked.trim_below(acknowledged);
        for (from, to) in ranges {
            self.on_range(now, (from.max(acknowledged), to), echo, &mut news);
        }
        news
    }

    fn on_range(&mut self, now: Time, (from, to): (u64, u64), echo: Option<Time>, news: &mut News) {
        // A peer keeps no more ranges itself.
        let is_full = self.sacked.len() >= RANGES_KEPT && !self.sacked.adjoins(from, to);
        if from >= to || is_full {
            return;
        }
        let mut parts = core::mem::take(&mut self.parts);
        let (low, high) = self.sacked.insert(from, to, |a, b| parts.push((a, b)));
        for (a, b) in parts.drain(..) {
            let mut at = self.sent.partition_point(|sent| sent.chunk.end() <= a);
            while let Some(sent) = self.sent.get(at)
                && sent.chunk.offset < b
            {
                // A segment that the peer has only in part does not count as arrived.
                if sent.chunk.offset >= low && sent.chunk.end() <= high {
                    self.acknowledge(now, self.first + at as u64, echo, news);
                }
                at += 1;
            }
        }
        self.parts = parts;
    }

    fn acknowledge(&mut self, now: Time, segment: u64, echo: Option<Time>, news: &mut News) {
        let newest = self.newest;
        let Some(sent) = self.segment_mut(segment) else {
            return;
        };
        let was = core::mem::replace(&mut sent.state, State::Acked);
        if was == State::Acked {
            return;
        }
        let Sent {
            chunk,
            again,
            transmission,
            at,
            stamp,
            ..
        } = *sent;
        // An answer to an earlier transmission of a segment says nothing about the latest one.
        let earlier = again && echo.is_some_and(|echo| echo < at);
        news.spurious |= earlier;
        news.reordered |= !again && newest.is_some_and(|(n, _)| n > transmission);
        if !earlier && newest.is_none_or(|(n, _)| n < transmission) {
            self.newest = Some((transmission, at));
        }
        news.bytes += if chunk.expired {
            0
        } else {
            u64::from(chunk.len)
        };
        let arrived = self.segments(self.cost(chunk));
        self.sampler
            .on_arrived(now, (!earlier).then_some(&stamp), arrived);
        match was {
            State::InFlight => self.in_flight -= self.cost(chunk),
            State::Lost => self.lost_count -= 1,
            State::Acked => {}
        }
    }

    /// Finds the segments that are lost by now. Returns true if there are new ones, and when to look again.
    pub(super) fn find_lost(&mut self, now: Time, patience: Patience) -> (bool, Option<Time>) {
        let Some((newest, _)) = self.newest else {
            return (false, None);
        };
        let mut found = false;
        while let Some(&(transmission, segment)) = self.order.front() {
            let live = self
                .segment(segment)
                .filter(|sent| sent.transmission == transmission && sent.state == State::InFlight);
            let Some(sent) = live else {
                self.order.pop_front();
                continue;
            };
            if transmission >= newest {
                return (found, None);
            }
            let due = sent.at + patience.time;
            let overtaken = patience.by_count && newest - transmission >= LATER;
            if !overtaken && now < due {
                return (found, Some(due));
            }
            self.order.pop_front();
            self.lose(segment);
            found = true;
        }
        (found, None)
    }

    /// Takes all segments that are not acknowledged for lost.
    pub(super) fn lose_all(&mut self) {
        self.sampler.on_timeout();
        self.order.clear();
        self.lost.clear();
        self.lost_count = 0;
        self.in_flight = 0;
        for (i, sent) in self.sent.iter_mut().enumerate() {
            if sent.state != State::Acked {
                sent.state = State::Lost;
                self.lost.push_back(self.first + i as u64);
                self.lost_count += 1;
            }
        }
    }

    fn lose(&mut self, segment: u64) {
        let Some(sent) = self.segment_mut(segment) else {
            return;
        };
        sent.state = State::Lost;
        let chunk = sent.chunk;
        self.in_flight -= self.cost(chunk);
        self.sampler.on_lost(self.segments(self.cost(chunk)));
        self.lost_count += 1;
        // The lowest segment goes first, because the receiver needs it most. Mostly that is the order in which losses
        // are found.
        match self.lost.back() {
            Some(last) if *last > segment => {
                let at = self.lost.partition_point(|known| *known < segment);
                self.lost.insert(at, segment);
            }
            _ => self.lost.push_back(segment),
        }
    }

    fn forget_stale(&mut self) {
        let (sent, first) = (&self.sent, self.first);
        self.order.retain(|(transmission, segment)| {
            let at = segment.checked_sub(first).map(|at| at as usize);
            at.and_then(|at| sent.get(at))
                .is_some_and(|s| s.transmission == *transmission && s.state == State::InFlight)
        });
    }

    /// Takes in that there is nothing to send, although the window would allow it.
    pub(super) fn on_nothing_to_send(&mut self) {
        let in_flight = self.segments(self.in_flight);
        self.sampler.on_nothing_to_send(in_flight);
    }

    /// Returns what the last acknowledgement says about the path.
    pub(super) fn delivered(
        &mut self,
        now: Time,
        rtt: Option<Duration>,
        limited: bool,
    ) -> Delivered {
        let in_flight = self.segments(self.in_flight);
        self.sampler.take(now, rtt, in_flight, limited)
    }

    fn stamp(&mut self, now: Time, chunk: Chunk) -> Stamp {
        let (in_flight, more) = (
            self.segments(self.in_flight),
            self.segments(self.cost(chunk)),
        );
        self.sampler.on_sent(now, in_flight, more)
    }

    fn segments(&self, bytes: u64) -> f64 {
        bytes as f64 / self.segment as f64
    }

    fn cost(&self, chunk: Chunk) -> u64 {
        match chunk.expired {
            true => self.least_cost,
            false => u64::from(chunk.len).max(self.least_cost),
        }
    }

    fn segment(&self, segment: u64) -> Option<&Sent> {
        self.sent.get(segment.checked_sub(self.first)? as usize)
    }

    fn segment_mut(&mut self, segment: u64) -> Option<&mut Sent> {
        self.sent.get_mut(segment.checked_sub(self.first)? as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNT: Patience = Patience {
        by_count: true,
        time: Duration::from_millis(25),
    };
    const TIME: Patience = Patience {
        by_count: false,
        time: Duration::from_millis(200),
    };

    fn ms(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    /// Segments of 100 bytes, one each millisecond.
    fn sent(count: u64) -> Scoreboard {
        let mut board = Scoreboard::new(40);
        for i in 0..count {
            let chunk = Chunk {
                offset: i * 100,
                len: 100,
                fin: false,
                expired: false,
            };
            board.on_sent(ms(i), chunk);
        }
        board
    }

    #[test]
    fn a_peer_that_reports_every_other_byte_fills_no_memory() {
        let mut board = sent(1_000);
        let every_other = (0..40_000).map(|n| (2 * n + 1, 2 * n + 2));
        board.on_ack(ms(1_001), 0, every_other, None);
        assert_eq!(board.sacked.len(), RANGES_KEPT);
        // What closes a gap still counts.
        let news = board.on_ack(ms(1_002), 0, [(100, 300)].into_iter(), None);
        assert!(news.bytes >= 200, "{news:?}");
    }

    #[test]
    fn a_segment_that_three_later_ones_overtake_is_lost_and_again_when_it_is_lost_again() {
        let mut board = sent(10);
        let ack =
            |board: &mut Scoreboard, range| board.on_ack(ms(100), 0, [range].into_iter(), None);
        ack(&mut board, (100, 300));
        assert_eq!(board.find_lost(ms(10), COUNT), (false, Some(ms(25))));
        ack(&mut board, (100, 400));
        assert_eq!(board.find_lost(ms(11), COUNT), (true, None));
        assert_eq!(board.in_flight(), 600);
        let again = board.resend_lost(ms(12)).unwrap();
        assert_eq!((again.offset, again.len), (0, 100));
        assert!(!board.has_lost() && board.resend_lost(ms(12)).is_none());
        // Segments sent before the retransmission say nothing about it.
        ack(&mut board, (100, 1_000));
        assert_eq!(board.find_lost(ms(30), COUNT), (false, None));
        for i in 10..13 {
            board.on_sent(
                ms(20 + i),
                Chunk {
                    offset: i * 100,
                    len: 100,
                    fin: i == 12,
                    expired: false,
                },
            );
        }
        ack(&mut board, (100, 1_301));
        assert_eq!(board.find_lost(ms(36), COUNT), (true, None));
        assert!(board.resend_lost(ms(36)).is_some());
        assert_eq!(
            board.on_ack(ms(100), 1_301, [].into_iter(), None).bytes,
            100
        );
        assert!(board.is_empty() && board.in_flight() == 0);
    }

    #[test]
    fn links_that_repair_get_their_time() {
        let mut board = sent(10);
        board.on_ack(ms(100), 0, [(100, 1_000)].into_iter(), None);
        assert_eq!(board.find_lost(ms(150), TIME), (false, Some(ms(200))));
        let news = board.on_ack(ms(100), 1_000, [].into_iter(), None);
        assert!(news.reordered && news.bytes == 100);
        assert_eq!(board.find_lost(ms(500), TIME), (false, None));
    }

    #[test]
    fn an_answer_to_the_first_transmission_shows_that_the_second_was_not_needed() {
        let mut board = sent(5);
        board.on_ack(ms(100), 0, [(100, 500)].into_iter(), None);
        assert!(board.find_lost(ms(10), COUNT).0);
        board.resend_lost(ms(10));
        let news = board.on_ack(ms(100), 500, [].into_iter(), Some(ms(0)));
        assert!(news.spurious);
    }

    #[test]
    fn a_part_of_a_segment_is_not_the_segment() {
        let mut board = sent(3);
        assert_eq!(
            board
                .on_ack(ms(100), 0, [(100, 150)].into_iter(), None)
                .bytes,
            0
        );
        assert_eq!(
            board
                .on_ack(ms(100), 50, [(120, 200)].into_iter(), None)
                .bytes,
            100
        );
        assert_eq!(board.base(), Some(0));
        assert_eq!(board.on_ack(ms(100), 300, [].into_iter(), None).bytes, 200);
        assert_eq!((board.in_flight(), board.base()), (0, None));
    }

    #[test]
    fn after_a_timeout_all_is_sent_again_but_what_has_come() {
        let mut board = sent(5);
        board.on_ack(ms(100), 100, [(200, 300)].into_iter(), None);
        board.lose_all();
        let again: Vec<u64> = core::iter::from_fn(|| board.resend_lost(ms(9)))
            .map(|chunk| chunk.offset)
            .collect();
        assert_eq!(again, [100, 300, 400]);
        assert_eq!(board.in_flight(), 300);
        assert_eq!(board.resend_last(ms(10)).unwrap().offset, 400);
        assert_eq!(board.in_flight(), 300);
    }
}
