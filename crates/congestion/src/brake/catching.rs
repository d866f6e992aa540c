//! The backlog of a stalled host, which is sent at once when the host continues.
//!
//! ```text
//!   packets   | | | | |               |||||||||| | | | | | |
//!                      '── a pause ──'└ ahead ──── paid back ┘ nothing is added until here
//! ```
//! A backlog stands in front of the next narrow place, and what follows waits behind it. The queue is known only when
//! answers have come back through it, and by then everything that was added to the backlog stands there, too. So
//! nothing is added to packets that come after a pause and faster than their flows send, nor to the same number of
//! packets that follow: a path that has carried these packets with the usual additions has enough room to empty the
//! queue meanwhile. A flow that begins has no backlog. A flow that always pauses this long has none either, for example
//! a video with five frames per second.

use base::{Duration, Time};

/// A lane that has sent nothing for this time has paused. Choice: such a gap is also ignored as a distance of packets
/// when repair is planned.
const PAUSE: Duration = Duration::from_millis(150);
/// Packets that come early by this much are a backlog, if there are at least the given number of them. Choice: timers
/// produce fewer.
const AHEAD: Duration = Duration::from_millis(60);
const AHEAD_PACKETS: f64 = 3.0;
/// A pause is usual if an earlier pause of at least half its length ended no more than this many times its length ago.
const USUAL_WITHIN: u64 = 4;
/// The longest backlog that is paid back. Choice: the queues in front of narrow links are seldom longer.
const AHEAD_MOST: Duration = Duration::from_secs(1);

/// How far a lane is ahead of the usual rate of its flows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Catching {
    last: Time,
    /// The time of the last packet before the last pause, and the length of the pause.
    paused: Time,
    pause: Duration,
    /// Bytes per second of the flows before the pause, or 0 if they often pause this long.
    usual: f64,
    ahead_bytes: f64,
    /// The lane was ahead before the packets of this moment.
    was_ahead: bool,
    /// The minimum size of a backlog, and the maximum that counts.
    least_bytes: f64,
    most_bytes: f64,
    /// After this time, a flow that still sends more is not catching up: its backlog would be longer than the pause.
    until: Time,
}

impl Catching {
    /// Updates the state before a packet is sent. `usual_bps` returns the rate that the established flows have sent
    /// until a given moment.
    #[inline]
    pub(super) fn on_time(&mut self, now: Time, usual_bps: impl Fn(Time) -> f64) {
        if now == self.last {
            return;
        }
        self.was_ahead = self.is_ahead(now);
        let last = core::mem::replace(&mut self.last, now);
        let gap = now.since(last);
        if gap >= PAUSE {
            let between = last.since(self.paused + self.pause);
            let is_usual = self.pause * 2 >= gap && between < gap * USUAL_WITHIN;
            let usual = if is_usual { 0.0 } else { usual_bps(last) / 8.0 };
            let span = gap.min(AHEAD_MOST);
            *self = Catching {
                last: now,
                paused: last,
                pause: gap,
                usual,
                ahead_bytes: 0.0,
                was_ahead: false,
                least_bytes: usual * AHEAD.as_secs_f64(),
                most_bytes: usual * span.as_secs_f64(),
                until: now + span,
            };
        } else if now < self.until {
            self.ahead_bytes = self.left_after(gap);
        }
    }

    /// Returns when the last packet before the last pause came, as long as what follows may be a backlog.
    #[inline]
    pub(super) fn pays_back(&self, now: Time) -> Option<Time> {
        (now < self.until).then_some(self.paused)
    }

    /// Counts a packet of this moment, of a flow that existed before the pause.
    pub(super) fn on_packet(&mut self, bytes: usize) {
        let sum = self.ahead_bytes + bytes as f64;
        self.ahead_bytes = sum.min(self.most_bytes);
        self.least_bytes = self.least_bytes.max(AHEAD_PACKETS * bytes as f64);
    }

    /// Returns true if more has been sent at once than the flows usually send, and this is not paid back yet. Packets
    /// of this moment do not count yet: they may come one by one or in a burst.
    pub(super) fn is_ahead(&self, now: Time) -> bool {
        if now == self.last {
            return self.was_ahead;
        }
        now < self.until && self.left_after(now.since(self.last)) > self.least_bytes
    }

    /// Returns the same, including the packets of this moment that have left.
    pub(super) fn is_ahead_here(&self) -> bool {
        self.ahead_bytes > self.least_bytes
    }

    /// Returns what remains of the backlog after a gap: the flows go on at their usual rate, and as much again is paid
    /// back.
    fn left_after(&self, gap: Duration) -> f64 {
        (self.ahead_bytes - 2.0 * self.usual * gap.as_secs_f64()).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends a packet. Returns whether it is ahead.
    fn left(catching: &mut Catching, now: Time) -> bool {
        catching.pays_back(now).is_some_and(|_| {
            catching.on_packet(160);
            catching.is_ahead_here()
        })
    }

    /// Sends packets of a call of 64 kbit/s at these times in ms. Returns how many were ahead.
    fn ahead(sent_ms: impl IntoIterator<Item = u64>) -> usize {
        let mut catching = Catching::default();
        let mut rate_bps = 0.0;
        let all = sent_ms.into_iter().map(|ms| {
            let now = Time::ZERO + Duration::from_millis(ms);
            catching.on_time(now, |_| rate_bps);
            let ahead = left(&mut catching, now);
            rate_bps = 64e3;
            ahead
        });
        all.filter(|ahead| *ahead).count()
    }

    #[test]
    fn a_backlog_is_paid_back_in_as_long_as_it_took() {
        // The host catches up with half a second, and half a second is paid back, except for the packets that do not
        // count as a backlog yet.
        let backlog = (0..25).map(|_| 1_500);
        let after = (76..200).map(|n| n * 20);
        let ahead = ahead((0..50).map(|n| n * 20).chain(backlog).chain(after));
        assert!((38..=48).contains(&ahead), "{ahead}");
    }

    #[test]
    fn packets_of_one_moment_count_the_same_one_by_one_and_in_a_burst() {
        let at = |us: u64| Time::ZERO + Duration::from_micros(us);
        let mut catching = Catching::default();
        catching.on_time(at(1), |_| 0.0);
        for _ in 0..50 {
            catching.on_time(at(500_000), |_| 64e3);
            assert!(!catching.is_ahead(at(500_000)));
            left(&mut catching, at(500_000));
        }
        assert!(catching.is_ahead(at(500_001)));
    }

    #[test]
    fn a_pause_in_speech_is_no_backlog_and_nor_is_a_burst_without_one() {
        let speech = |from: u64| (0..50).map(move |n| from + n * 20);
        assert_eq!(
            ahead(speech(0).chain(speech(1_500)).chain(speech(9_000))),
            0
        );
        let frames = (0..300).map(|n| n / 10 * 33);
        assert_eq!(ahead(frames), 0);
    }

    #[test]
    fn pictures_that_come_five_times_a_second_are_a_backlog_once_at_most() {
        let pictures = |count: u64| (0..count * 10).map(|n| n / 10 * 200);
        let once = ahead(pictures(2));
        assert!((1..10).contains(&once), "{once}");
        assert_eq!(ahead(pictures(50)), once);
        // A stall is longer than usual pauses, or happens seldom.
        let stalls = |every: u64| {
            let speech = (0..1_000u64).map(|n| n * 20);
            speech.map(move |ms| match ms % every {
                of if of < 500 => ms - of + 500,
                _ => ms,
            })
        };
        assert!(ahead(stalls(5_000)) > 3 * ahead(stalls(20_000)));
    }

    #[test]
    fn what_begins_and_what_sends_seldom_catches_up_with_nothing() {
        let mut catching = Catching::default();
        let mut ahead = |ms: u64, usual_bps: f64| {
            let now = Time::ZERO + Duration::from_millis(ms);
            catching.on_time(now, |_| usual_bps);
            left(&mut catching, now)
        };
        assert!((0..50).all(|n| !ahead(5_000 + n * 20, 0.0)));
        assert!((0..50).all(|n| !ahead(10_000 + n * 200, 6_400.0)));
        // A flow that sends more than before is ahead for no longer than it paused.
        let more = (0..500).filter(|n| ahead(30_000 + n * 20, 10_000.0));
        assert!(more.count() <= 50);
    }

    #[test]
    fn no_more_is_paid_back_than_a_second() {
        let backlog = (0..500).map(|_| 11_000);
        let after = (551..800).map(|n| n * 20);
        let ahead = ahead((0..50).map(|n| n * 20).chain(backlog).chain(after));
        assert!((500..=550).contains(&ahead), "{ahead}");
    }
}
