//! The round trip of a link: an average for announcements, a recent minimum for the deadlines of packets, and a present
//! value for waiting for an answer.
//!
//! ```text
//!   samples   40  41  40  1900  2100  2300  41  40  40  40  40  40  ...
//!                         '-- overload ---'
//!   smoothed  40  40  40   270   500   725  640 565 500 440 390 350      metric: slow on purpose
//!   least     40  40  40    40    40    40   40  40  40  40  40  40      deadlines
//!   usual     40  40  40    42    45    47   45  42  40  40  40  40      what routes cost
//!   present   40  40  40   270   500   725  640 565  40  40  40  40      requests, answers
//! ```
//!
//! Hellos that waited in full queues measure the queues. While the queues are full, the packets behind them are lost
//! anyway. When the queues are empty again, the average stays long for tens of samples. If it were subtracted from the
//! deadline of every packet, a healthy link would drop all packets.

use base::{Duration, Time};
use core::cmp::Ordering;

/// Round-trip time: smoothed with its mean deviation, the recent minimum, and the present value.
///
/// The weights are those of RFC 6298 (1/8 and 1/4). [Amir06 §III-A] asks for an exponentially
/// weighted average and gives no weight.
#[derive(Clone, Debug, Default)]
pub struct Rtt {
    smoothed_ns: u64,
    deviation_ns: u64,
    /// The smallest sample of the present half of the window and of the half before.
    least: [Option<Duration>; 2],
    half_since: Time,
    recent: [Duration; PRESENT_SAMPLES],
    /// The present half of a second, and the one before.
    of_late: [OfLate; 2],
    late_since: Time,
    usual_ns: u64,
    samples: u64,
}

/// The samples of half a second.
#[derive(Clone, Copy, Debug, Default)]
struct OfLate {
    least: Duration,
    most: Duration,
    samples: u32,
}

/// Longer "round trips" come from clocks that jumped or peers that report wrong values, not from links: two hops to a
/// geostationary satellite and back, with queues, stay below.
const LONGEST_RTT: Duration = Duration::from_secs(10);
/// Half of the window of [`Rtt::least`]. Choice: with both halves, the minimum is at most between 4 and 8 s old, four
/// hellos of an idle link, so a path that has become longer is accepted soon.
const LEAST_HALF: Duration = Duration::from_secs(4);
/// Samples that must agree that the round trip is short again. Choice: 0.3 s of hellos on a link that carries data; of
/// three in a row under mere jitter, one is mostly above the average.
const PRESENT_SAMPLES: usize = 3;
/// If all round trips of this time and of the period before are longer, the path is longer. Choice: five hellos of a
/// link that carries data. A stalled host sends late answers too, but all at once, after a time without any.
const LATE_HALF: Duration = Duration::from_millis(500);
/// Minimum number of samples in the period before.
const LATE_SAMPLES: u32 = 3;
/// The amount by which all round trips must be longer. Choice: the brake's limit for a queue (`brake_queue_floor`).
const LONGER: Duration = Duration::from_millis(10);
/// A step of [`Rtt::usually_longer`] is this part of the mean deviation, but at most that part of the minimum, because
/// a stalled host makes some answers in a row late by seconds. Choice: the median of jitter is found within twenty
/// samples, two seconds of a link in use, and varies by a tenth of it.
const USUAL_STEP: u64 = 8;
const USUAL_STEP_OF_LEAST: u64 = 16;

impl Rtt {
    /// Takes in one measurement; absurd ones are ignored.
    pub fn on_sample(&mut self, now: Time, rtt: Duration) {
        if rtt > LONGEST_RTT {
            return;
        }
        let ns = rtt.as_nanos();
        if self.samples == 0 {
            self.smoothed_ns = ns;
            self.deviation_ns = ns / 2;
            self.recent = [rtt; PRESENT_SAMPLES];
            self.half_since = now;
            self.usual_ns = ns;
        } else {
            let error = ns.abs_diff(self.smoothed_ns);
            self.deviation_ns = (3 * self.deviation_ns + error) / 4;
            self.smoothed_ns = (7 * self.smoothed_ns + ns) / 8;
        }
        self.recent.rotate_right(1);
        self.recent[0] = rtt;
        self.enter_late(now, rtt);
        self.enter_least(now, rtt);
        self.enter_usual(ns);
        self.samples = self.samples.saturating_add(1);
    }

    /// Returns the average; `None` before the first sample.
    pub fn smoothed(&self) -> Option<Duration> {
        (self.samples > 0).then_some(Duration::from_nanos(self.smoothed_ns))
    }

    /// Returns the mean deviation from the average; zero before the first sample.
    pub fn deviation(&self) -> Duration {
        Duration::from_nanos(self.deviation_ns)
    }

    /// Returns the shortest round trip of the last 4 to 8 seconds, or of the last samples if they are fewer.
    pub fn least(&self) -> Option<Duration> {
        self.least.iter().flatten().min().copied()
    }

    /// Returns the amount by which half of the round trips, or all recent ones, exceed the minimum; zero before the
    /// first sample. A few long round trips in a row hardly change it.
    pub fn usually_longer(&self) -> Duration {
        let least = self.least().unwrap_or_default();
        let usual = Duration::from_nanos(self.usual_ns);
        usual.max(self.least_of_late().unwrap_or_default()) - least
    }

    /// Returns true if the path has recently become longer, or has a queue: even the shortest round trips exceed the
    /// median by more than half of the amount by which the median exceeds the minimum.
    pub fn is_longer(&self) -> bool {
        let usual = Duration::from_nanos(self.usual_ns);
        let most = usual + (usual - self.least().unwrap_or_default()).div(2) + LONGER;
        self.least_of_late().is_some_and(|late| late > most)
    }

    /// Returns the amount by which the shortest recent round trip exceeds the minimum, if the path has become longer
    /// and not only fuller; otherwise zero. Choice: another route adds the same to each round trip; a growing queue or
    /// jitter does not. So the recent round trips may differ by a quarter of that amount.
    pub fn longer_by(&self) -> Duration {
        let (Some(late), Some(least)) = (self.least_of_late(), self.least()) else {
            return Duration::ZERO;
        };
        let longer = late.saturating_sub(least);
        let spread = self.of_late.map(|late| late.most).into_iter().max();
        let spread = spread.unwrap_or_default().saturating_sub(late);
        match self.is_longer() && spread * 4 <= longer {
            true => longer,
            false => Duration::ZERO,
        }
    }

    /// Returns the shortest round trip of the last half to whole second, if there are enough samples to show the path's
    /// present length.
    fn least_of_late(&self) -> Option<Duration> {
        let [present, before] = self.of_late;
        (before.samples >= LATE_SAMPLES).then(|| present.least.min(before.least))
    }

    /// Returns the time that an answer takes at present: the average, but no longer than any of the last few samples.
    pub fn present(&self) -> Option<Duration> {
        let longest = self.recent.iter().max().copied()?;
        Some(self.smoothed()?.min(longest))
    }

    /// Returns when an answer is overdue: the average and two deviations, but no more than the longest recent sample.
    /// Half of the answers exceed [`Rtt::present`] if round trips vary.
    pub fn usual_most(&self) -> Option<Duration> {
        let longest = self.recent.iter().max().copied()?;
        let usual = self.smoothed()? + self.deviation() * 2;
        Some(usual.min(longest).max(self.present()?))
    }

    /// Returns the last measurement; zero before the first sample.
    pub fn latest(&self) -> Duration {
        self.recent[0]
    }

    /// Returns the number of measurements.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Returns how long to wait for an answer before it counts as lost (RFC 6298: average plus four deviations),
    /// `initial` before the first sample.
    pub fn patience(&self, initial: Duration) -> Duration {
        self.smoothed()
            .map_or(initial, |rtt| rtt + self.deviation() * 4)
    }

    /// Tracks the median by a step towards each sample.
    fn enter_usual(&mut self, ns: u64) {
        let least = self.least().unwrap_or_default().as_nanos();
        let most = (least / USUAL_STEP_OF_LEAST).max(1);
        let step = (self.deviation_ns / USUAL_STEP).clamp(1, most);
        self.usual_ns = match ns.cmp(&self.usual_ns) {
            Ordering::Greater => (self.usual_ns + step).min(ns),
            Ordering::Less => self.usual_ns.saturating_sub(step).max(ns),
            Ordering::Equal => ns,
        };
    }

    fn enter_late(&mut self, now: Time, rtt: Duration) {
        let age = now.since(self.late_since);
        if age >= LATE_HALF {
            let adjoins = age < LATE_HALF * 2;
            let before = if adjoins {
                self.of_late[0]
            } else {
                OfLate::default()
            };
            self.of_late = [OfLate::default(), before];
            self.late_since = now;
        }
        let late = &mut self.of_late[0];
        late.samples += 1;
        (late.least, late.most) = match late.samples {
            1 => (rtt, rtt),
            _ => (late.least.min(rtt), late.most.max(rtt)),
        };
    }

    fn enter_least(&mut self, now: Time, rtt: Duration) {
        let age = now.since(self.half_since);
        if age >= LEAST_HALF {
            let before = if age < LEAST_HALF * 2 {
                self.least[0]
            } else {
                None
            };
            self.least = [None, before];
            self.half_since = now;
        }
        self.least[0] = Some(self.least[0].map_or(rtt, |least| least.min(rtt)));
    }
}
