//! Splits a round trip into the delays of its two directions, though no clock is right.
//!
//! ```text
//!                      both ways 20 ms       the way here 200 ms longer
//!   round trip               40                       240
//!   difference of clocks   1020                      1220        own clock less the stamp, at best
//!   less half              1000  ◀── the clocks      1100        not the clocks: it was longer
//!   the way here             20                       220        difference less the clocks
//! ```
//! The difference of the clocks is known to within half of a round trip, so the shortest round trip of a long time
//! gives the best estimate, as in NTP's clock filter (RFC 5905 §10). From the link alone, a path that is longer in one
//! direction from the beginning looks like one with equal directions; the error is never more than half of the shortest
//! round trip. If other paths lead around the link, the network's clock decides instead (`node::clock`).
//!
//! Clocks drift. The rate of the drift is the median of how much the differences have moved from one window to the
//! next: a path that changes moves one of them, drift moves all.

use base::{Duration, Time};

/// The length of a window, of which the shortest values are taken. Choice: fifty hellos of a link in use, and 5 ms for
/// clocks that drift by 1000 ppm.
const WINDOW: Duration = Duration::from_secs(5);
/// Number of movements of which the median is taken, and the minimum number.
const MOVES: usize = 9;
const MOVES_LEAST: usize = 3;
/// A round trip counts as longer by this much for each window of its age: drift is known to about 200 ppm.
const AGES_US: i64 = 2_000;
/// A difference that moves by this much more than the round trip comes from a clock that was set or stood still.
const JUMP_US: i64 = 10_000;
/// If a direction differs from half of the round trip by less than this, plus this share of the round trip, plus the
/// variation of round trips, the difference is chance.
const CHANCE: Duration = Duration::from_millis(5);
const CHANCE_SHARE: u64 = 16;

/// The directions of one link.
#[derive(Clone, Copy, Debug, Default)]
pub struct Split {
    /// Differences are counted from the first one.
    first_us: Option<u32>,
    since: Time,
    /// The present window, and the one before.
    window: Window,
    before: Option<Window>,
    moves_us: [i64; MOVES],
    moved: usize,
    clocks: Option<Clocks>,
}

/// The shortest values of a window, in microseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    difference: Option<i64>,
    round_trip: Option<i64>,
}

/// The difference of the clocks, and the length of the round trip from which it was taken.
#[derive(Clone, Copy, Debug)]
struct Clocks {
    us: i64,
    round_trip_us: i64,
    /// Windows that have passed since then.
    age: i64,
}

impl Split {
    /// A hello with a stamp of its sender's clock has arrived, and may have brought a round trip.
    pub fn on_hello(&mut self, now: Time, stamp_us: u32, round_trip: Option<Duration>) {
        // Differences are 32-bit numbers that wrap, and so are differences of differences.
        let raw_us = (now.as_micros() as u32).wrapping_sub(stamp_us);
        let first_us = *self.first_us.get_or_insert(raw_us);
        let difference = i64::from(raw_us.wrapping_sub(first_us).cast_signed());
        if now.since(self.since) >= WINDOW {
            self.close(now.since(self.since) < WINDOW * 2);
            self.since = now;
        }
        let least = |least: Option<i64>, us: i64| Some(least.map_or(us, |least| least.min(us)));
        self.window.difference = least(self.window.difference, difference);
        if let Some(round_trip) = round_trip {
            let us = i64::try_from(round_trip.as_micros()).unwrap_or(i64::MAX);
            self.window.round_trip = least(self.window.round_trip, us);
        }
    }

    /// Returns how much the own clock is ahead of the neighbour's; it wraps as stamps do.
    pub fn clocks_us(&self) -> Option<u32> {
        let ahead_us = self.clocks_of_link_us()?;
        Some(self.first_us?.wrapping_add(ahead_us as u32))
    }

    /// Returns the delay to here and the delay to the neighbour, if round trips vary by `varies`. If hellos have
    /// brought no round trip, `least` is split. `clocks_us` is how much the own clock is ahead of the neighbour's, if
    /// more than this link shows it.
    pub fn ways(
        &self,
        least: Duration,
        varies: Duration,
        clocks_us: Option<u32>,
    ) -> (Duration, Duration) {
        let windows = [Some(self.window), self.before];
        // The round trip must be from the same time as the differences. A younger one would attribute an increase of
        // the delay to here to the delay to the neighbour.
        let round_trip = windows.iter().flatten().filter_map(|w| w.round_trip).min();
        let round_trip = round_trip.map_or(least, |us| Duration::from_micros(us.unsigned_abs()));
        let here = self.way_here(round_trip, varies, clocks_us);
        (here, round_trip - here)
    }

    fn way_here(&self, round_trip: Duration, varies: Duration, clocks_us: Option<u32>) -> Duration {
        let half = round_trip.div(2);
        let windows = [Some(self.window), self.before];
        let differences = windows.iter().flatten().filter_map(|w| w.difference);
        let of_network_us = clocks_us
            .zip(self.first_us)
            .map(|(clocks_us, first_us)| i64::from(clocks_us.wrapping_sub(first_us).cast_signed()));
        let ahead_us = of_network_us.or_else(|| self.clocks_of_link_us());
        let Some((difference, ahead_us)) = differences.min().zip(ahead_us) else {
            return half;
        };
        let us = difference - ahead_us;
        let here = Duration::from_micros(us.max(0).unsigned_abs()).min(round_trip);
        let apart = here.max(half) - here.min(half);
        match apart > CHANCE + round_trip.div(CHANCE_SHARE) + varies {
            true => here,
            false => half,
        }
    }

    /// The same from the shortest round trip of a long time, counted from the first difference.
    fn clocks_of_link_us(&self) -> Option<i64> {
        let clocks = self.clocks?;
        Some(clocks.us + self.drift_us() * clocks.age)
    }

    /// Closes a window; `adjoins` if the next one begins at once.
    fn close(&mut self, adjoins: bool) {
        let window = core::mem::take(&mut self.window);
        let Some(present_us) = window.clocks_us() else {
            self.before = None;
            return;
        };
        if let Some(clocks) = &mut self.clocks {
            clocks.age += 1;
            clocks.round_trip_us += AGES_US;
        }
        if let Some(before) = self.before.filter(|_| adjoins) {
            if window.has_jumped(&before, self.drift_us()) {
                self.clocks = None;
            } else if let Some(before_us) = before.clocks_us() {
                self.moves_us[self.moved % MOVES] = present_us - before_us;
                self.moved += 1;
            }
        }
        let round_trip_us = window.round_trip.unwrap_or(i64::MAX);
        if self
            .clocks
            .is_none_or(|clocks| round_trip_us <= clocks.round_trip_us)
        {
            self.clocks = Some(Clocks {
                us: present_us,
                round_trip_us,
                age: 0,
            });
        }
        self.before = Some(window);
    }

    /// Returns the drift of the clocks within a window.
    fn drift_us(&self) -> i64 {
        let count = self.moved.min(MOVES);
        if count < MOVES_LEAST {
            return 0;
        }
        let mut sorted = self.moves_us;
        let sorted = &mut sorted[..count];
        sorted.sort_unstable();
        sorted[count / 2]
    }
}

impl Window {
    /// Returns the difference of the clocks, assuming equal delays in both directions.
    fn clocks_us(&self) -> Option<i64> {
        self.difference
            .zip(self.round_trip)
            .map(|(difference, round_trip)| difference - round_trip / 2)
    }

    /// Returns true if the difference has moved by an amount that no change of the path explains.
    fn has_jumped(&self, before: &Window, drift_us: i64) -> bool {
        let moved = |of: fn(&Window) -> Option<i64>| Some(of(self)? - of(before)?);
        let round_trip = moved(|window| window.round_trip).unwrap_or(0);
        let difference = moved(|window| window.difference).unwrap_or(0) - drift_us;
        difference < round_trip.min(0) - JUMP_US || difference > round_trip.max(0) + JUMP_US
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rng;

    /// Hears ten hellos a second, between these seconds, over directions of these delays in milliseconds that vary by
    /// `jitter_ms`; the neighbour's clock is fast by `ppm` and ahead. Returns the delay to here, in milliseconds.
    fn hear(
        split: &mut Split,
        seconds: core::ops::Range<u64>,
        (there_ms, here_ms): (u64, u64),
        jitter_ms: u64,
        (ahead_us, ppm): (u32, i64),
    ) -> u64 {
        let mut rng = Rng::new(seconds.start);
        for i in seconds.start * 10..seconds.end * 10 {
            let mut vary = || rng.below(jitter_ms * 1_000 + 1);
            let (there_us, here_us) = (there_ms * 1_000 + vary(), here_ms * 1_000 + vary());
            let sent_us = i * 100_000;
            let drift_us = sent_us as i64 * ppm / 1_000_000;
            let stamp_us = (sent_us as u32)
                .wrapping_add(ahead_us)
                .wrapping_add(drift_us as u32);
            let now = Time::ZERO + Duration::from_micros(sent_us + here_us);
            split.on_hello(
                now,
                stamp_us,
                Some(Duration::from_micros(there_us + here_us)),
            );
        }
        let least = Duration::from_millis(there_ms + here_ms);
        let (here, _) = split.ways(least, Duration::from_millis(jitter_ms / 4), None);
        here.as_millis()
    }

    #[test]
    fn a_way_that_becomes_longer_is_known_by_its_direction_whatever_the_clocks_say() {
        for ahead_us in [0, 1 << 31, u32::MAX - 50_000] {
            for ppm in [0, 50, -500, 1_000] {
                for jitter_ms in [0, 20] {
                    let clock = (ahead_us, ppm);
                    let mut split = Split::default();
                    // The shortest of a hundred varying values is not quite the shortest possible one.
                    let equal = 20..=20 + jitter_ms / 8;
                    let here = hear(&mut split, 0..30, (20, 20), jitter_ms, clock);
                    assert!(equal.contains(&here), "{ppm}: {here}");
                    let here = hear(&mut split, 30..70, (20, 220), jitter_ms, clock);
                    // Half of the round trip is 120.
                    assert!((190..=250).contains(&here), "{clock:?} {jitter_ms}: {here}");
                    // If one direction becomes shorter by as much as the other becomes longer, a clock was set.
                    hear(&mut split, 70..90, (20, 20), jitter_ms, clock);
                    let here = hear(&mut split, 90..110, (220, 20), jitter_ms, clock);
                    assert!(here <= 50, "{clock:?} {jitter_ms}: {here}");
                    let here = hear(&mut split, 110..150, (20, 20), jitter_ms, clock);
                    assert!(equal.contains(&here), "{clock:?} {jitter_ms}: {here}");
                }
            }
        }
    }

    #[test]
    fn what_one_way_becomes_longer_by_is_never_given_to_the_other() {
        let mut split = Split::default();
        hear(&mut split, 0..30, (20, 20), 0, (0, 0));
        for second in 30..50 {
            hear(&mut split, second..second + 1, (20, 220), 0, (0, 0));
            // The recent minimum, which is known elsewhere, is forgotten at another time.
            let least = [40, 240][usize::from(second >= 34)];
            let (_, there) = split.ways(Duration::from_millis(least), Duration::ZERO, None);
            assert_eq!(there.as_millis(), 20, "{second}");
        }
    }

    #[test]
    fn a_clock_that_jumps_is_no_longer_way() {
        for jump_us in [200_000, 200_000u32.wrapping_neg(), 3_000_000_000] {
            let mut split = Split::default();
            hear(&mut split, 0..30, (20, 20), 5, (0, 0));
            let here = hear(&mut split, 30..60, (20, 20), 5, (jump_us, 0));
            assert!((20..=21).contains(&here), "{jump_us}: {here}");
        }
    }
}
