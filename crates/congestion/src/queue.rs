//! The length of the queues on the path, measured by the delay. It shows whether a queue caused a loss, and whether
//! there is room for more. [Papadimitriou06 §6]
//!
//! ```text
//!   delay of each packet ──▶ base (the least of the last minutes), queue = delay - base
//!   loss while the queue is long, and grows or is near its longest     congestion
//!   loss otherwise                                                     random
//! ```
//!
//! This module is for senders with a window that cannot wait for it, packet by packet; [`crate::brake`] does the same
//! for a lane's rate, round trip by round trip. It uses only delays, one-way or round trip. It needs no synchronised
//! clocks, since only differences count.
//!
//! State: the least delay of this span and of the one before; a fast and a slow average; the longest recent queue.

use base::{Duration, Time};

/// The parameters of a watch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// A queue up to this length has harmless causes: schedulers, and links that divide their time into slots.
    pub short: Duration,
    /// A queue from this length on is too long for the traffic: the rate does not grow, whatever is lost.
    pub long: Duration,
    /// The least delay is forgotten after one to two of these: routes change.
    pub memory: Duration,
}

impl Default for Settings {
    /// Choice: 20 ms is one packet of voice, and above the variation of hosts and links without a queue. 100 ms in
    /// addition to the 30 to 50 ms of a path keep a conversation within 150 ms. Calls last minutes: with a shorter
    /// memory, a queue that the call's own traffic keeps standing would be taken for the path.
    fn default() -> Settings {
        Settings {
            short: Duration::from_millis(20),
            long: Duration::from_millis(100),
            memory: Duration::from_secs(120),
        }
    }
}

/// Why a packet was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A queue overflowed: send less.
    Congestion,
    /// The medium erred: sending less does not help.
    Random,
}

/// The weight of a new delay in the fast average and in the slow one.
const FAST: f64 = 0.25;
const SLOW: f64 = 1.0 / 32.0;
/// Choice: from this share of its longest length on, a queue is near the length at which drop-tail overflows.
const NEAR: f64 = 0.75;
/// Choice: the longest queue is reduced by this share per delay, by half in some 700 packets.
const FORGET: f64 = 1e-3;

/// The observer of one path.
#[derive(Clone, Debug)]
pub struct Watch {
    settings: Settings,
    least: [Duration; 2],
    span_ends: Time,
    fast_ns: f64,
    slow_ns: f64,
    longest_ns: f64,
}

impl Watch {
    /// Creates a watch without measurements: it treats losses as random until delays show otherwise.
    pub fn new(settings: Settings) -> Watch {
        Watch {
            settings,
            least: [Duration::MAX; 2],
            span_ends: Time::ZERO,
            fast_ns: 0.0,
            slow_ns: 0.0,
            longest_ns: 0.0,
        }
    }

    /// Records that a packet took `delay`.
    pub fn on_delay(&mut self, now: Time, delay: Duration) {
        if now >= self.span_ends {
            self.least = [Duration::MAX, self.least[0]];
            self.span_ends = now + self.settings.memory;
        }
        let is_first = self.base() == Duration::MAX;
        self.least[0] = self.least[0].min(delay);
        let queue_ns = delay.saturating_sub(self.base()).as_nanos() as f64;
        if is_first {
            (self.fast_ns, self.slow_ns) = (queue_ns, queue_ns);
        }
        self.fast_ns += FAST * (queue_ns - self.fast_ns);
        self.slow_ns += SLOW * (queue_ns - self.slow_ns);
        self.longest_ns = (self.longest_ns * (1.0 - FORGET)).max(self.fast_ns);
    }

    /// Returns why packets are missing. Called once for each run of losses that is detected together.
    pub fn cause_of_loss(&self) -> Cause {
        let short_ns = self.settings.short.as_nanos() as f64;
        let is_long = self.fast_ns > short_ns;
        let grows = self.fast_ns > self.slow_ns + short_ns;
        let is_near = self.fast_ns >= NEAR * self.longest_ns;
        if is_long && (grows || is_near) {
            Cause::Congestion
        } else {
            Cause::Random
        }
    }

    /// Returns how long the queues on the path are, by the last few packets.
    pub fn length(&self) -> Duration {
        Duration::from_nanos(self.fast_ns as u64)
    }

    /// Returns whether a rate may grow: the queue is not too long for the traffic.
    pub fn may_grow(&self) -> bool {
        self.length() < self.settings.long
    }

    fn base(&self) -> Duration {
        self.least[0].min(self.least[1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, prop_assert, proptest};

    /// Records packets every 20 ms with these delays in milliseconds.
    fn hears(watch: &mut Watch, from: u64, delays_ms: impl IntoIterator<Item = u64>) -> u64 {
        let mut n = from;
        for delay in delays_ms {
            let now = Time::ZERO + Duration::from_millis(20 * n);
            watch.on_delay(now, Duration::from_millis(delay));
            n += 1;
        }
        n
    }

    #[test]
    fn a_loss_on_a_steady_path_is_random_and_one_of_a_growing_queue_is_not() {
        let mut watch = Watch::new(Settings::default());
        assert_eq!(watch.cause_of_loss(), Cause::Random, "nothing is known");
        let n = hears(&mut watch, 0, [30; 100]);
        assert_eq!(watch.cause_of_loss(), Cause::Random);
        assert!(watch.may_grow());
        let n = hears(&mut watch, n, (0..40).map(|step| 30 + 4 * step));
        assert_eq!(watch.cause_of_loss(), Cause::Congestion);
        assert!(!watch.may_grow(), "{}", watch.length());
        // The queue is gone, and with it the suspicion.
        hears(&mut watch, n, [30; 200]);
        assert_eq!(watch.cause_of_loss(), Cause::Random);
    }

    #[test]
    fn in_the_valley_of_somebody_elses_sawtooth_a_loss_is_random() {
        let mut watch = Watch::new(Settings::default());
        let tooth = |height: u64| (0..50).map(move |step| 40 + height * step / 50);
        let n = hears(&mut watch, 0, tooth(200).chain(tooth(200)));
        assert_eq!(watch.cause_of_loss(), Cause::Congestion, "at the top");
        hears(&mut watch, n, [120; 12]);
        assert_eq!(watch.cause_of_loss(), Cause::Random, "after the fall");
    }

    #[test]
    fn a_longer_route_is_no_queue_for_ever() {
        let memory = Duration::from_secs(15);
        let mut watch = Watch::new(Settings {
            memory,
            ..Settings::default()
        });
        let n = hears(&mut watch, 0, [30; 50]);
        let n = hears(&mut watch, n, [180; 10]);
        assert!(!watch.may_grow());
        // This takes twice 15 s at 50 packets/s.
        hears(&mut watch, n, [180; 1_600]);
        assert!(watch.may_grow());
        assert_eq!(watch.cause_of_loss(), Cause::Random);
    }

    proptest! {
        #[test]
        fn whatever_comes_no_queue_is_longer_than_the_longest_delay(steps in proptest::collection::vec(any::<(bool, u32)>(), 1..200)) {
            let mut watch = Watch::new(Settings::default());
            let mut now = Time::ZERO;
            for (lost, delay_us) in steps {
                now += Duration::from_millis(20);
                if lost {
                    let _ = watch.cause_of_loss();
                } else {
                    watch.on_delay(now, Duration::from_micros(u64::from(delay_us)));
                }
                prop_assert!(watch.length() <= Duration::from_micros(u64::from(u32::MAX)));
            }
        }
    }
}
