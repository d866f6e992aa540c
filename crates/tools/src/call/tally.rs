//! The quality of calls of any length. Packets are counted as they are evaluated, so memory does
//! not grow.

use super::clocks::Sample;
use super::codec::Codec;
use crate::quality::{DelayMs, round};
use base::Duration;
use base::histogram::Histogram;
use serde::Serialize;
use voice::emodel::{Parameters, Rating, Runs};
use voice::frames::FRAME_US;

/// How the packets of some calls came through in one direction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Direction {
    /// Packets sent.
    pub sent: u64,
    /// Percent of the sent packets that were lost on some hop, even if they were recovered there.
    pub lost_before_recovery_pct: f64,
    /// Percent of the sent packets that never arrived.
    pub lost_pct: f64,
    /// Percent of the sent packets that arrived after their playout time.
    pub late_pct: f64,
    /// One-way delay of the packets that arrived.
    pub delay_ms: DelayMs,
    /// Interarrival jitter (RFC 3550), mean over the calls; `None` if nothing arrived.
    pub jitter_ms: Option<f64>,
    /// How much longer the runs of missed packets are than they would be if packets were missed
    /// independently of each other, mean over the calls.
    pub burst_ratio: f64,
    /// The E-model's rating, mean over the calls; `None` if nothing arrived, because it rates what
    /// is heard.
    pub r_factor: Option<f64>,
    /// The E-model's mean opinion score, mean over the calls; `None` if nothing arrived.
    pub mos: Option<f64>,
}

/// One direction of one path, call by call.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    codec: Codec,
    /// How long after its sending a packet is played.
    deadline: Duration,
    calls: Vec<Call>,
    delays_us: Histogram,
}

#[derive(Clone, Debug, Default)]
struct Call {
    runs: Runs,
    lost: u64,
    recovered: u64,
    jitter: Jitter,
}

/// Interarrival jitter as `voice::call::jitter_us` counts it: the mean of J after each arrival.
#[derive(Clone, Debug, Default)]
struct Jitter {
    last_delay_us: Option<u64>,
    now_us: f64,
    sum_us: f64,
    arrivals: u64,
}

impl Tally {
    pub(crate) fn new(calls: u32, codec: Codec, deadline: Duration) -> Tally {
        Tally {
            codec,
            deadline,
            calls: vec![Call::default(); calls as usize],
            delays_us: Histogram::new(),
        }
    }

    /// Counts the next packets of a call, in the order of sending.
    pub(crate) fn push(&mut self, call: usize, samples: &[Sample]) {
        let deadline_us = self.deadline.as_micros();
        let Some(call) = self.calls.get_mut(call) else {
            return;
        };
        for sample in samples {
            let in_time = sample.delay_us.is_some_and(|us| us <= deadline_us);
            call.runs.push(!in_time);
            call.lost += u64::from(sample.delay_us.is_none());
            call.recovered += u64::from(sample.recovered);
        }
        let mut arrived: Vec<(u64, u64)> = samples
            .iter()
            .filter_map(|sample| Some((sample.sent_us + sample.delay_us?, sample.delay_us?)))
            .collect();
        arrived.sort_unstable();
        for (_, delay_us) in arrived {
            self.delays_us.record(delay_us);
            call.jitter.push(delay_us);
        }
    }

    /// Resets all counts. Later packets continue no run and no jitter from before.
    pub(crate) fn clear(&mut self) {
        *self = Tally::new(self.calls.len() as u32, self.codec, self.deadline);
    }

    pub(crate) fn direction(&self) -> Direction {
        let sum = |of: fn(&Call) -> u64| self.calls.iter().map(of).sum::<u64>();
        let (sent, lost) = (sum(|c| c.runs.total), sum(|c| c.lost));
        let missed = sum(|c| c.runs.missed);
        let of_sent = |count: u64| round(100.0 * count as f64 / (sent as f64).max(1.0), 3);
        // Calls without packets do not count.
        let begun: Vec<&Call> = self.calls.iter().filter(|c| c.runs.total > 0).collect();
        let mean = |of: &dyn Fn(&Call) -> f64| {
            // An empty sum of floats is minus zero.
            let sum = begun.iter().map(|call| of(call)).fold(0.0, |a, b| a + b);
            sum / (begun.len() as f64).max(1.0)
        };
        let is_heard = sent > lost;
        let rated = |of: &dyn Fn(&Call) -> f64, digits| is_heard.then(|| round(mean(of), digits));
        let quantile_ms = |q: f64| self.delays_us.quantile(q).map(|us| us as f64 / 1e3);
        Direction {
            sent,
            lost_before_recovery_pct: of_sent(lost + sum(|c| c.recovered)),
            lost_pct: of_sent(lost),
            late_pct: of_sent(missed - lost),
            delay_ms: DelayMs {
                mean: self.delays_us.mean().map(|us| round(us / 1e3, 3)),
                p50: quantile_ms(0.5),
                p95: quantile_ms(0.95),
                p99: quantile_ms(0.99),
            },
            jitter_ms: rated(&|call| call.jitter.mean_us() / 1e3, 3),
            burst_ratio: round(mean(&|call| call.runs.burst_ratio()), 3),
            r_factor: rated(&|call| self.rate(call).r, 2),
            mos: rated(&|call| self.rate(call).mos(), 3),
        }
    }

    fn rate(&self, call: &Call) -> Rating {
        let codec = self.codec.rated_as();
        // [Papadimitriou06 §4.1.1] adds the delays of packet, codec, network and playout buffer.
        let mouth_to_ear_us = FRAME_US + codec.lookahead_us() + self.deadline.as_micros();
        let missed = call.runs.missed as f64 / (call.runs.total as f64).max(1.0);
        Parameters::for_codec(codec, mouth_to_ear_us, missed, call.runs.burst_ratio()).rate()
    }
}

impl Jitter {
    fn push(&mut self, delay_us: u64) {
        if let Some(last) = self.last_delay_us.replace(delay_us) {
            self.now_us += (delay_us.abs_diff(last) as f64 - self.now_us) / 16.0;
            self.sum_us += self.now_us;
            self.arrivals += 1;
        }
    }

    fn mean_us(&self) -> f64 {
        self.sum_us / (self.arrivals as f64).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::DEADLINE;
    use crate::quality::Quality;
    use proptest::prelude::*;

    fn samples(delays: &[Option<u64>]) -> Vec<Sample> {
        let numbered = (0_u64..).zip(delays);
        numbered
            .map(|(i, delay)| Sample {
                sent_us: i * FRAME_US,
                delay_us: *delay,
                recovered: false,
            })
            .collect()
    }

    #[test]
    fn recovered_packets_were_lost_before() {
        let mut tally = Tally::new(2, Codec::Pcmu, DEADLINE);
        let mut call = samples(&[Some(40_000), Some(70_000), None, Some(120_000)]);
        call[1].recovered = true;
        tally.push(0, &call);
        tally.push(7, &call);
        let direction = tally.direction();
        assert_eq!(direction.sent, 4);
        assert_eq!(direction.lost_before_recovery_pct, 50.0);
        assert_eq!((direction.lost_pct, direction.late_pct), (25.0, 25.0));
        let mut patient = Tally::new(1, Codec::Pcmu, Duration::from_millis(120));
        patient.push(0, &call);
        let patient = patient.direction();
        assert_eq!((patient.lost_pct, patient.late_pct), (25.0, 0.0));
        tally.clear();
        assert_eq!(tally.direction().sent, 0);
        assert_eq!(tally.direction().delay_ms, DelayMs::default());
    }

    #[test]
    fn nobody_who_heard_nothing_gives_a_score() {
        let mut tally = Tally::new(1, Codec::Pcmu, DEADLINE);
        for missed in [0, 10] {
            tally.push(0, &samples(&vec![None; missed]));
            let direction = tally.direction();
            let scores = (direction.r_factor, direction.mos, direction.jitter_ms);
            assert_eq!(scores, (None, None, None));
            assert!(direction.burst_ratio.is_sign_positive());
        }
        assert_eq!(tally.direction().lost_pct, 100.0);
    }

    #[test]
    fn opus_is_rated_by_its_own_delay() {
        let rated = |codec| {
            let mut tally = Tally::new(1, codec, DEADLINE);
            tally.push(0, &samples(&[Some(40_000); 100]));
            tally.direction().r_factor.unwrap()
        };
        assert_eq!(rated(Codec::Pcmu), rated(Codec::Pcma));
        let difference = rated(Codec::Pcmu) - rated(Codec::Opus);
        assert!(
            (0.0..0.5).contains(&difference),
            "2.75 ms more: {difference}"
        );
    }

    proptest! {
        /// Counted piece by piece, a call has the same numbers as when counted as a whole.
        #[test]
        fn pieces_make_the_whole(
            calls in prop::collection::vec(
                prop::collection::vec(prop::option::weighted(0.9, 20_000u64..140_000), 1..200), 1..4),
            piece in 1usize..60,
        ) {
            // Packets that overtake each other across the border of two pieces would make a
            // difference.
            let slow = |delay: &Option<u64>| delay.map(|us| us / 10 + 95_000);
            let calls: Vec<Vec<Option<u64>>> =
                calls.iter().map(|call| call.iter().map(slow).collect()).collect();
            let mut tally = Tally::new(calls.len() as u32, Codec::Pcmu, DEADLINE);
            for (i, call) in calls.iter().enumerate() {
                for piece in samples(call).chunks(piece) {
                    tally.push(i, piece);
                }
            }
            let (got, expected) = (tally.direction(), Quality::of(&calls, DEADLINE));
            prop_assert_eq!(got.sent, expected.sent);
            prop_assert_eq!(got.lost_pct, expected.lost_pct);
            prop_assert_eq!(got.lost_before_recovery_pct, expected.lost_pct);
            prop_assert_eq!(got.late_pct, expected.late_pct);
            if expected.sent > 0 && expected.lost_pct < 100.0 {
                let (r_factor, mos) = (got.r_factor.unwrap(), got.mos.unwrap());
                prop_assert!((r_factor - expected.r_factor).abs() < 0.011);
                prop_assert!((mos - expected.mos).abs() < 0.0011);
                // The expected value is rounded to microseconds.
                prop_assert!((got.jitter_ms.unwrap() - expected.jitter_ms).abs() <= 0.0011);
            }
            for (got, expected) in [
                (got.delay_ms.mean, expected.delay_ms.mean),
                (got.delay_ms.p50, expected.delay_ms.p50),
                (got.delay_ms.p99, expected.delay_ms.p99),
            ] {
                match (got, expected) {
                    (Some(got), Some(expected)) => prop_assert!((got - expected).abs() <= expected / 60.0),
                    (got, expected) => prop_assert_eq!(got, expected),
                }
            }
        }
    }
}
