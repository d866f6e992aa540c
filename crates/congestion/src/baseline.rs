//! The round trip of a path without a queue, and how to distinguish a path that has become longer from a queue.
//!
//! ```text
//!   round trip
//!      |            queue: it grows, falls,               longer path: one step, then level
//!      |             /\/\/    swings                       ┌───────────────
//!      |        ____/     \___                        _____│
//!      '──────────────────────────▶ time
//!            least of the last 30 to 60 s             least, until the step has proved itself
//! ```
//! The minimum over a window follows every fall at once, and a rise only when the window has passed, as in LEDBAT (RFC
//! 6817 §3.4.2). A minute is long if losses count as congestion meanwhile. So a rise is observed, and
//! [`Baseline::steady`] reports how long it has been level. The code that observes losses decides whether the rise
//! becomes the path's: it calls [`Baseline::follow`], and [`Baseline::go_back`] if that was wrong.
//!
//! The observed value is the minimum over half a second, because a busy host makes single round trips longer, and a
//! queue that somebody keeps full is never empty in between. Jitter is not a queue either: it makes consecutive round
//! trips differ, but does not change the shortest of them. So the variation of the round trips, apart from steady
//! growth or fall, is part of what a rise must exceed, and a queue stands only if several round trips in a row exceed
//! it.

use crate::roughness::Roughness;
use base::{Duration, Time};

/// Half of the window of the least round trip. Choice: both halves together are 30 to 60 s, so that TCPs that keep a
/// queue standing show a dip of it within the window.
const LEAST_HALF: Duration = Duration::from_secs(30);
/// The time over which the least round trip is taken to observe a rise. Choice: five hellos of a link in use.
const SPELL: Duration = Duration::from_millis(500);
/// The time that a step may take to arrive completely: its two directions, and a round trip that saw only one of them.
const ONSET: Duration = Duration::from_millis(1_500);
/// Spells that differ by no more than this are level, unless round trips have always differed by more.
const LEVEL: Duration = Duration::from_millis(2);
/// The same limit as a share of the rise above the baseline. Such a share suffices: a queue that is sent an eighth less
/// than its drain rate falls by as much within the time of its own length.
const LEVEL_SHARE: u64 = 8;

/// A queue stands when this number of round trips in a row are longer. Choice: 0.3 s of hellos on a link in use. A
/// packet or two that waited in a busy host are not a queue.
const STANDING: usize = 3;

/// The margin by which a round trip counts as longer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Margin {
    /// The margin as a time,
    pub(crate) floor: Duration,
    /// and as a share of the least round trip.
    pub(crate) share: f64,
}

/// The least round trip, and a rise above it.
#[derive(Clone, Debug)]
pub(crate) struct Baseline {
    margin: Margin,
    least: [Option<Duration>; 2],
    half_since: Time,
    rise: Option<Rise>,
    /// When the last question was sent whose round trip was not above the baseline.
    below: Option<Time>,
    /// The least round trip before a rise was followed.
    before: Option<Duration>,
    /// The last round trip without a queue, and how much consecutive ones differ.
    last: Option<Duration>,
    differ: Duration,
    roughness: Roughness,
    /// The last round trips, the newest first.
    recent: [Duration; STANDING],
}

#[derive(Clone, Copy, Debug)]
struct Rise {
    began: Time,
    spell_since: Time,
    spell_least: Duration,
    /// Since when spells are level, and between which values.
    since: Time,
    low: Duration,
    high: Duration,
    /// The rise has not stayed at its first level.
    has_moved: bool,
}

/// A rise that has been level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Steady {
    /// Since when the rise has been level.
    pub(crate) since: Time,
    /// The level above the baseline.
    pub(crate) above: Duration,
    /// The rise was at another level before, like a queue, or like a path that has become longer twice.
    pub(crate) has_moved: bool,
    /// How fast it rose at least, in seconds per second: as fast as a queue grows that is sent this share more than its
    /// drain rate. Zero if that is not known.
    pub(crate) slope: f64,
}

impl Baseline {
    pub(crate) fn new(now: Time, margin: Margin) -> Baseline {
        Baseline {
            margin,
            least: [None; 2],
            half_since: now,
            rise: None,
            below: None,
            before: None,
            last: None,
            differ: Duration::ZERO,
            roughness: Roughness::default(),
            recent: [Duration::ZERO; STANDING],
        }
    }

    /// Takes in a round trip.
    pub(crate) fn on_round_trip(&mut self, now: Time, rtt: Duration) {
        self.on_echo(now, now - rtt, rtt);
    }

    /// Takes in a round trip with the time at which its question was sent; the answer may have been held back.
    pub(crate) fn on_echo(&mut self, now: Time, sent: Time, rtt: Duration) {
        let age = now.since(self.half_since);
        if age >= LEAST_HALF {
            let before = (age < LEAST_HALF * 2).then_some(self.least[0]).flatten();
            self.least = [None, before];
            self.half_since = now;
        }
        self.least[0] = Some(self.least[0].map_or(rtt, |least| least.min(rtt)));
        self.roughness.on_sample(sent, rtt);
        self.recent.rotate_right(1);
        self.recent[0] = rtt;
        if !self.is_above(rtt) {
            let last = self.last.replace(rtt).unwrap_or(rtt);
            let differ = rtt.max(last) - rtt.min(last);
            self.differ = (self.differ * 7 + differ).div(8);
            self.rise = None;
            self.below = Some(sent);
            return;
        }
        let level = self.level(rtt);
        match &mut self.rise {
            Some(rise) => rise.on_round_trip(now, rtt, level),
            None => self.rise = Some(Rise::new(now, rtt)),
        }
    }

    /// Returns true if a round trip may indicate a queue, a longer path, or jitter.
    pub(crate) fn is_above(&self, rtt: Duration) -> bool {
        let least = self.least();
        least.is_some_and(|least| rtt - least > self.margin_of(least))
    }

    /// Returns true if a queue stands on the path, or if the path has become longer, but not because of jitter.
    pub(crate) fn is_queued(&self) -> bool {
        self.recent.iter().all(|rtt| self.is_long(*rtt))
    }

    /// Returns true if a round trip is longer than jitter explains.
    pub(crate) fn is_long(&self, rtt: Duration) -> bool {
        self.usual_most().is_some_and(|most| rtt > most)
    }

    /// Returns the longest round trip that jitter explains.
    pub(crate) fn usual_most(&self) -> Option<Duration> {
        let least = self.least()?;
        Some(least + self.margin_of(least) + self.roughness.spread())
    }

    /// Returns the last round trip.
    pub(crate) fn latest(&self) -> Duration {
        self.recent[0]
    }

    /// Returns by how much a round trip exceeds the least one.
    pub(crate) fn above(&self, rtt: Duration) -> Duration {
        rtt - self.least().unwrap_or(rtt)
    }

    /// Returns by how much round trips differ by chance.
    pub(crate) fn jitter(&self) -> Duration {
        self.roughness.spread()
    }

    /// Returns the margin by which a round trip must exceed the least one.
    pub(crate) fn margin(&self) -> Duration {
        self.margin_of(self.least().unwrap_or_default())
    }

    fn margin_of(&self, least: Duration) -> Duration {
        self.margin.floor + least.mul_f64(self.margin.share)
    }

    /// Returns the rise, if there is one: a longer path, or a queue that nothing has changed so far.
    pub(crate) fn steady(&self) -> Option<Steady> {
        let rise = self.rise?;
        let above = rise.low - self.least()?;
        let slope = self.below.map_or(0.0, |below| {
            let rose = above.saturating_sub(self.margin());
            rose.as_secs_f64() / rise.since.since(below).as_secs_f64().max(1e-3)
        });
        Some(Steady {
            since: rise.since,
            above,
            has_moved: rise.has_moved,
            slope,
        })
    }

    /// Attributes the rise to the path.
    pub(crate) fn follow(&mut self, now: Time) {
        if let Some(rise) = self.rise.take() {
            self.before = self.before.or(self.least());
            self.least = [Some(rise.low), None];
            self.half_since = now;
            self.last = None;
        }
    }

    /// Undoes [`Baseline::follow`]: the rise was a queue after all.
    pub(crate) fn go_back(&mut self, now: Time, rtt: Duration) {
        let Some(before) = self.before.take() else {
            return;
        };
        self.least = [self.least().map(|least| least.min(before)), None];
        self.half_since = now;
        self.rise = Some(Rise {
            has_moved: true,
            ..Rise::new(now, rtt)
        });
    }

    fn least(&self) -> Option<Duration> {
        self.least.iter().flatten().min().copied()
    }

    fn level(&self, rtt: Duration) -> Duration {
        let above = rtt - self.least().unwrap_or(rtt);
        let jitter = self.roughness.spread().div(2);
        LEVEL
            .max(above.div(LEVEL_SHARE))
            .max(self.differ * 2)
            .max(jitter)
    }
}

impl Rise {
    fn new(now: Time, rtt: Duration) -> Rise {
        Rise {
            began: now,
            spell_since: now,
            spell_least: Duration::MAX,
            since: now,
            low: rtt,
            high: rtt,
            has_moved: false,
        }
    }

    fn on_round_trip(&mut self, now: Time, rtt: Duration, level: Duration) {
        self.spell_least = self.spell_least.min(rtt);
        if now.since(self.spell_since) < SPELL {
            return;
        }
        let least = self.spell_least;
        let (low, high) = (self.low.min(least), self.high.max(least));
        if high - low <= level {
            (self.low, self.high) = (low, high);
        } else {
            self.has_moved |= now.since(self.began) > ONSET;
            (self.low, self.high) = (least, least);
            self.since = self.spell_since;
        }
        (self.spell_since, self.spell_least) = (now, Duration::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn baseline() -> Baseline {
        let margin = Margin {
            floor: ms(10),
            share: 0.25,
        };
        Baseline::new(Time::ZERO, margin)
    }

    /// Adds round trips in microseconds, one each 100 ms from `from` on.
    fn hear(baseline: &mut Baseline, from: u64, rtts_us: impl Iterator<Item = u64>) -> Time {
        let mut now = Time::ZERO + ms(from);
        for rtt_us in rtts_us {
            baseline.on_round_trip(now, Duration::from_micros(rtt_us));
            now += ms(100);
        }
        now
    }

    #[test]
    fn a_step_is_steady_from_where_it_is_level() {
        let mut all = baseline();
        hear(&mut all, 0, (0..50).map(|i| 20_000 + i % 3 * 300));
        assert_eq!(all.steady(), None);
        // One direction becomes longer first, then the other.
        hear(&mut all, 5_000, [50_000, 50_200, 80_000].into_iter());
        hear(&mut all, 5_300, (0..20).map(|i| 80_000 + i % 4 * 300));
        let steady = all.steady().unwrap();
        assert!(!steady.has_moved && steady.since <= Time::ZERO + ms(5_500));
        assert_eq!(steady.above, ms(60));
        // It rose by 45 ms above the margin, in at most 0.62 s.
        assert!((0.07..1.0).contains(&steady.slope), "{steady:?}");
        all.follow(Time::ZERO + ms(7_300));
        assert!(!all.is_above(ms(85)) && all.is_above(ms(120)));
        assert_eq!(all.steady(), None);
        // The baseline follows a fall at once, and keeps it for the length of the window.
        hear(&mut all, 7_400, [20_000].into_iter());
        assert!(all.is_above(ms(80)));
        hear(&mut all, 7_500, (0..620).map(|_| 80_000));
        assert!(!all.is_above(ms(80)));
    }

    #[test]
    fn an_idle_link_has_a_round_trip_a_second() {
        let mut all = baseline();
        for (second, rtt) in [1, 1, 1, 12, 21, 22, 21].into_iter().enumerate() {
            all.on_round_trip(Time::ZERO + ms(1_000 * second as u64), ms(rtt));
        }
        let steady = all.steady().unwrap();
        assert!(!steady.has_moved);
        assert_eq!(
            (steady.since, steady.above),
            (Time::ZERO + ms(3_000), ms(20))
        );
    }

    #[test]
    fn what_was_followed_can_be_left_again() {
        let mut all = baseline();
        hear(&mut all, 0, (0..20).map(|_| 20_000));
        let now = hear(&mut all, 2_000, (0..20).map(|_| 80_000));
        all.follow(now);
        assert!(!all.is_above(ms(80)));
        all.go_back(now, ms(80));
        assert!(all.is_above(ms(80)));
        assert!(all.steady().unwrap().has_moved);
    }

    #[test]
    fn round_trips_that_are_late_now_and_then_do_not_hide_a_step() {
        let mut all = baseline();
        hear(&mut all, 0, (0..50).map(|_| 1_000));
        // A busy host adds 5 to 40 ms to every eighth round trip.
        let late = |i: u64| {
            21_000
                + if i % 8 == 5 {
                    5_000 * (1 + i % 7)
                } else {
                    i % 3 * 300
                }
        };
        hear(&mut all, 5_000, (0..40).map(late));
        let steady = all.steady().unwrap();
        assert!(
            !steady.has_moved && steady.since <= Time::ZERO + ms(5_600),
            "{steady:?}"
        );
        assert!(steady.above >= ms(20) && steady.above < ms(21));
    }

    #[test]
    fn what_grows_falls_or_swings_is_not_steady() {
        let growing = |i: u64| 20_000 + 3_000 * i;
        let swinging = |i: u64| 60_000 + 20_000 * (i / 8 % 2);
        let falling = |i: u64| 100_000 - 1_500 * i.min(40);
        for shape in [growing, swinging, falling] {
            let mut all = baseline();
            hear(&mut all, 0, (0..20).map(|_| 20_000));
            hear(&mut all, 2_000, (0..30).map(shape));
            assert!(all.steady().unwrap().has_moved);
        }
    }

    #[test]
    fn jitter_is_no_queue_and_a_queue_on_a_path_with_jitter_is_one() {
        let mut rng = base::Rng::new(5);
        let mut all = baseline();
        let mut queued = [0; 2];
        for i in 0..1_200 {
            let waits = if i < 600 { 0 } else { 250_000 };
            let jitter = rng.below(60_000) + rng.below(60_000);
            hear(&mut all, i * 100, [40_000 + waits + jitter].into_iter());
            // The first two seconds show how much the round trips differ.
            let is_known = i >= 20;
            queued[usize::from(i >= 600)] += u32::from(is_known && all.is_queued());
        }
        assert!(queued[0] == 0 && queued[1] > 250, "{queued:?}");
    }

    #[test]
    fn a_path_that_has_always_differed_may_differ_after_a_step() {
        let mut all = baseline();
        hear(&mut all, 0, (0..50).map(|i| 20_000 + i % 2 * 5_000));
        hear(&mut all, 5_000, (0..30).map(|i| 60_000 + i % 2 * 5_000));
        let steady = all.steady().unwrap();
        assert!(!steady.has_moved);
        assert_eq!(steady.since, Time::ZERO + ms(5_000));
    }
}
