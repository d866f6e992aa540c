//! Traffic: when an application sends, as deterministic generators.
//!
//! ```text
//!   Cbr       | | | | | | | | | | | | | | | | |      every interval
//!   OnOff     | | | | |           | | |       |      every interval during spurts, silent between
//!              '- on -'   off    '-on-'  off
//! ```
//!
//! A [`Source`] yields the moments of its packets after its start. It uses no clock and no socket: [`crate::UdpHost`]
//! or the code that acts as a client of an engine asks it.

mod span;

use base::{Duration, Rng};

/// Time between two packets of 20 ms voice.
pub const VOICE_INTERVAL: Duration = Duration::from_millis(20);
/// Bytes of 20 ms of G.711.
pub const VOICE_BYTES: usize = 160;
/// Shortest interval: 64 bytes take about this long at 1 Tbit/s. With shorter intervals time would hardly pass.
pub const INTERVAL_MIN: Duration = Duration::from_nanos(1);

/// When packets are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pattern {
    /// At a constant rate.
    Cbr {
        /// Time between two packets.
        interval: Duration,
    },
    /// At a constant rate during spurts, not at all between them.
    OnOff {
        /// Time between two packets of a spurt.
        interval: Duration,
        /// Mean length of a spurt.
        on: Duration,
        /// Mean length of the silence between spurts.
        off: Duration,
        /// How the lengths of both are distributed.
        spread: Spread,
    },
}

/// How spans of time are distributed around their mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spread {
    /// An exponential distribution, which is memoryless.
    Exponential,
    /// A heavy-tailed distribution: the probability to exceed x falls as x^-shape. Below a shape of 2 the variance is
    /// infinite, and the sum of many such sources is self-similar. The shape must be above 1, or there is no mean.
    Pareto {
        /// The exponent of the tail.
        shape: f64,
    },
}

impl Pattern {
    /// Returns a constant rate in packets of `bytes`.
    pub fn cbr(rate_bps: u64, bytes: usize) -> Pattern {
        Pattern::Cbr {
            interval: interval(rate_bps, bytes),
        }
    }

    /// Returns the pattern of a call whose speaker never pauses: a packet every 20 ms.
    pub fn voice() -> Pattern {
        Pattern::Cbr {
            interval: VOICE_INTERVAL,
        }
    }

    /// Returns the pattern of a call with silence suppression. Choice: the temporal parameters of ITU-T P.59 (Table 1),
    /// with mean talkspurts of 1.004 s and mean pauses of 1.587 s, both exponential.
    pub fn talkspurts() -> Pattern {
        Pattern::OnOff {
            interval: VOICE_INTERVAL,
            on: Duration::from_millis(1_004),
            off: Duration::from_millis(1_587),
            spread: Spread::Exponential,
        }
    }

    /// [Papadimitriou06 §4.2] Returns a Pareto on/off pattern with shape 1.5 and means of 1.0 s on and 1.35 s off. As
    /// in ns-2's generator, the rate is that during spurts (in the paper 64 kbit/s in packets of 160 bytes).
    pub fn pareto(rate_bps: u64, bytes: usize) -> Pattern {
        Pattern::OnOff {
            interval: interval(rate_bps, bytes),
            on: Duration::from_millis(1_000),
            off: Duration::from_millis(1_350),
            spread: Spread::Pareto { shape: 1.5 },
        }
    }

    /// Returns the mean number of packets per second. A spurt has at least one packet.
    pub fn packets_per_s(&self) -> f64 {
        match self {
            Pattern::Cbr { interval } => 1.0 / (*interval).max(INTERVAL_MIN).as_secs_f64(),
            Pattern::OnOff {
                interval, on, off, ..
            } => {
                let interval = (*interval).max(INTERVAL_MIN);
                let per_spurt = on.as_secs_f64() / interval.as_secs_f64();
                per_spurt.max(1.0) / (*on + *off).max(interval).as_secs_f64()
            }
        }
    }
}

/// Returns the time between two packets of `bytes` at a rate, rounded to a nanosecond.
fn interval(rate_bps: u64, bytes: usize) -> Duration {
    let ns = (bytes as u128) * 8 * 1_000_000_000 / u128::from(rate_bps.max(1));
    Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX)).max(INTERVAL_MIN)
}

/// The packets of one application: when each is sent, after the application's start.
#[derive(Clone, Debug)]
pub struct Source {
    pattern: Pattern,
    rng: Rng,
    next: Duration,
    /// When the present spurt ends.
    spurt_end: Duration,
}

impl Source {
    /// Creates a source with this pattern. Equal seeds give equal packets.
    ///
    /// Choice: a source with pauses begins in a spurt with a probability that equals the share of time that it spends
    /// in spurts, so that many sources do not begin in step.
    pub fn new(pattern: Pattern, mut rng: Rng) -> Source {
        let (mut next, mut spurt_end) = (Duration::ZERO, Duration::MAX);
        if let Pattern::OnOff {
            on, off, spread, ..
        } = pattern
        {
            let speaks = on.as_nanos().max(1);
            if rng.below(speaks.saturating_add(off.as_nanos())) >= speaks {
                next = span::draw(&mut rng, off, spread);
            }
            spurt_end = next + span::draw(&mut rng, on, spread);
        }
        Source {
            pattern,
            rng,
            next,
            spurt_end,
        }
    }

    /// Returns when the next packet is sent.
    pub fn peek(&self) -> Duration {
        self.next
    }
}

impl Iterator for Source {
    type Item = Duration;

    /// Returns the moment of the next packet. The iterator never ends.
    fn next(&mut self) -> Option<Duration> {
        let now = self.next;
        match self.pattern {
            Pattern::Cbr { interval } => self.next = now + interval.max(INTERVAL_MIN),
            Pattern::OnOff {
                interval,
                on,
                off,
                spread,
            } => {
                self.next = now + interval.max(INTERVAL_MIN);
                if self.next >= self.spurt_end {
                    let silence = span::draw(&mut self.rng, off, spread);
                    // Every spurt has a packet, so time passes even where all spans are short.
                    self.next = self.next.max(self.spurt_end + silence);
                    self.spurt_end = self.next + span::draw(&mut self.rng, on, spread);
                }
            }
        }
        Some(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(pattern: Pattern, seed: u64) -> Source {
        Source::new(pattern, Rng::new(seed))
    }

    /// Counts the packets in the first `seconds`.
    fn count(pattern: Pattern, seed: u64, seconds: u64) -> usize {
        let end = Duration::from_secs(seconds);
        source(pattern, seed).take_while(|at| *at < end).count()
    }

    #[test]
    fn a_constant_rate_is_kept() {
        let times: Vec<u64> = source(Pattern::cbr(1_000_000, 125), 1)
            .take(3)
            .map(Duration::as_micros)
            .collect();
        assert_eq!(times, [0, 1_000, 2_000]);
        assert_eq!(count(Pattern::voice(), 1, 60), 3_000);
        assert_eq!(Pattern::cbr(64_000, VOICE_BYTES), Pattern::voice());
        assert!(Pattern::cbr(0, usize::MAX >> 8).packets_per_s() > 0.0);
    }

    #[test]
    fn spurts_and_silence_have_the_means_that_were_asked_for() {
        for (pattern, tolerance) in [
            (Pattern::talkspurts(), 0.03),
            // The variance is infinite: the mean converges slowly.
            (Pattern::pareto(64_000, VOICE_BYTES), 0.12),
            // Spurts shorter than the interval have one packet each.
            (
                Pattern::OnOff {
                    interval: VOICE_INTERVAL,
                    on: Duration::from_micros(1),
                    off: Duration::from_millis(500),
                    spread: Spread::Exponential,
                },
                0.05,
            ),
        ] {
            let seconds = 50_000;
            let rate = count(pattern, 7, seconds) as f64 / seconds as f64;
            let expected = pattern.packets_per_s();
            assert!(
                (rate / expected - 1.0).abs() < tolerance,
                "{pattern:?}: {rate} {expected}"
            );
        }
    }

    #[test]
    fn packets_keep_their_distance_within_a_spurt_and_never_go_back() {
        for pattern in [
            Pattern::talkspurts(),
            Pattern::pareto(1_000_000, 1_000),
            Pattern::OnOff {
                interval: Duration::ZERO,
                on: Duration::ZERO,
                off: Duration::ZERO,
                spread: Spread::Exponential,
            },
        ] {
            let times: Vec<Duration> = source(pattern, 3).take(5_000).collect();
            let Pattern::OnOff { interval, .. } = pattern else {
                panic!("it has pauses")
            };
            let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
            assert!(gaps.clone().all(|gap| gap >= interval.max(INTERVAL_MIN)));
        }
    }

    #[test]
    fn equal_seeds_send_equally_and_others_do_not() {
        let first = |seed| -> Vec<Duration> {
            let pattern = Pattern::pareto(64_000, VOICE_BYTES);
            source(pattern, seed).take(500).collect()
        };
        assert_eq!(first(1), first(1));
        assert_ne!(first(1), first(2));
        let begin_silent = (0..1_000)
            .filter(|seed| source(Pattern::talkspurts(), *seed).peek() > Duration::ZERO)
            .count();
        // 1.587 of 2.591 s are silence: 612 of 1000, with a standard deviation of 15.
        assert!((560..665).contains(&begin_silent), "{begin_silent}");
    }
}
