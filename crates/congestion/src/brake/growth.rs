//! A growing queue, and its drain rate.
//!
//! ```text
//!   round trip          ·
//!      |             ·     slope = what is given / what leaves - 1
//!      |          ·        so what leaves = what is given / (1 + slope)
//!      |_·__·__·___________________▶ time of sending
//! ```
//! A growing queue is detected before it loses anything: round trips become longer evenly. A path that becomes longer
//! does so in one step, and jitter has no direction; a straight line fits neither.

use base::{Duration, Time};
use std::collections::VecDeque;

/// Number of round trips that are kept.
const KEPT: usize = 32;
/// How long round trips are kept.
const KEPT_FOR: Duration = Duration::from_millis(1_500);
/// The minimum number of round trips that make a line; the time that they must span is below.
const FEWEST: usize = 4;
/// The same minimum if delays vary by more than the limit below.
const FEWEST_ROUGH: usize = 8;
const ROUGH: Duration = Duration::from_millis(10);
const SPAN_LEAST: Duration = Duration::from_millis(100);
/// A rise of less than this may have any cause.
const RISE_LEAST_S: f64 = 0.012;
/// The rise of a line must be at least this many times the mean distance of the points from it. Choice: for a step the
/// ratio is 8 at most, with any round trips in between.
const STRAIGHT: f64 = 10.0;

/// Answers are missing if the longest gap exceeds the mean of the other gaps by this factor. Choice: two answers in a
/// row that are lost by chance do not break a line.
const GAP: u64 = 3;

/// A measured round trip, from a question to its answer, and what had been sent before the question.
#[derive(Clone, Copy, Debug)]
pub struct Echo {
    /// When the question was sent.
    pub sent: Time,
    /// The time until the answer arrived.
    pub rtt: Duration,
    /// The same without the time by which the backward direction took longer than usual.
    pub there: Duration,
    /// The bytes that the link had sent by then, of all kinds.
    pub link_bytes: u64,
    /// The part of them that the lane had sent for the first time.
    pub lane_bytes: u64,
    /// The value of [`Brake::modelled`](super::Brake::modelled) at that time.
    pub modelled: Duration,
}

/// A straight line through round trips.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    /// The growth of the queue, in seconds per second.
    pub(super) slope: f64,
    /// The rate that was sent on the link.
    pub(super) given_bps: f64,
    /// The part of that rate that was not the lane's.
    pub(super) other_bps: f64,
    /// The time from the first question to the last.
    pub(super) span: Duration,
}

/// The last round trips.
#[derive(Clone, Debug)]
pub(super) struct Growth {
    echoes: VecDeque<Echo>,
}

impl Default for Growth {
    fn default() -> Growth {
        Growth {
            // All memory is allocated here, before packets flow.
            echoes: VecDeque::with_capacity(KEPT + 1),
        }
    }
}

impl Growth {
    pub(super) fn on_echo(&mut self, echo: Echo) {
        if self
            .echoes
            .back()
            .is_some_and(|last| last.sent >= echo.sent)
        {
            return;
        }
        self.echoes.push_back(echo);
        while self.echoes.len() > KEPT || echo.sent.since(self.echoes[0].sent) > KEPT_FOR {
            self.echoes.pop_front();
        }
    }

    /// Returns the last round trip.
    pub(super) fn last(&self) -> Option<&Echo> {
        self.echoes.back()
    }

    /// Returns the line through the last round trips, sent after `since`, if it rises by more than `jitter`. It uses
    /// the fewest round trips that show the rise.
    pub(super) fn rising(&self, since: Time, jitter: Duration) -> Option<Line> {
        let fewest = if jitter > ROUGH { FEWEST_ROUGH } else { FEWEST };
        (fewest..=self.after(since)).find_map(|count| {
            let (line, rise_s, off_s) = self.line(count)?;
            let is_rise = rise_s > RISE_LEAST_S + jitter.as_secs_f64();
            let is_straight = rise_s > STRAIGHT * off_s && !self.is_broken(count, line.span);
            (is_rise && is_straight).then_some(line)
        })
    }

    /// Returns the line through all round trips that were sent after `since`, whatever its slope.
    pub(super) fn since(&self, since: Time) -> Option<Line> {
        let count = self.after(since);
        (count >= FEWEST)
            .then(|| self.line(count))?
            .map(|(line, ..)| line)
    }

    fn after(&self, since: Time) -> usize {
        self.echoes_after(since).count()
    }

    /// Returns the round trips whose questions were sent after `since`, the last one first.
    pub(super) fn echoes_after(&self, since: Time) -> impl Iterator<Item = &Echo> {
        let after = self.echoes.iter().rev();
        after.take_while(move |echo| echo.sent > since)
    }

    /// Returns true if answers are missing in the middle of the last `count`. Any two groups of points lie on a line,
    /// so an outage would look like growth if the path is longer after it.
    fn is_broken(&self, count: usize, span: Duration) -> bool {
        let echoes = self.echoes.range(self.echoes.len() - count..);
        let gaps = echoes.clone().zip(echoes.skip(1));
        let longest = gaps.map(|(a, b)| b.sent.since(a.sent)).max();
        let others = (count as u64 - 2).max(1);
        longest.is_some_and(|longest| longest * others > (span - longest) * GAP)
    }

    /// Returns the line through the last `count` round trips, its rise, and the mean distance of the points from it.
    fn line(&self, count: usize) -> Option<(Line, f64, f64)> {
        let echoes = self.echoes.range(self.echoes.len() - count..);
        let (first, last) = (self.echoes[self.echoes.len() - count], *self.echoes.back()?);
        let span = last.sent.since(first.sent);
        if span < SPAN_LEAST {
            return None;
        }
        let n = count as f64;
        let points = echoes.map(|echo| {
            let at = echo.sent.since(first.sent).as_secs_f64();
            (at, echo.there.as_secs_f64())
        });
        let sum = points
            .clone()
            .fold((0.0, 0.0), |(x, y), p| (x + p.0, y + p.1));
        let mean = (sum.0 / n, sum.1 / n);
        let (mut squares, mut products) = (0.0, 0.0);
        for (x, y) in points.clone() {
            squares += (x - mean.0) * (x - mean.0);
            products += (x - mean.0) * (y - mean.1);
        }
        let slope = products / squares;
        let off = |(x, y): (f64, f64)| (y - mean.1 - slope * (x - mean.0)).powi(2);
        let off_s = (points.map(off).sum::<f64>() / n).sqrt();
        let per_s = 8.0 / span.as_secs_f64();
        let given_bps = (last.link_bytes - first.link_bytes) as f64 * per_s;
        let lane_bps = (last.lane_bytes - first.lane_bytes) as f64 * per_s;
        let line = Line {
            slope,
            given_bps,
            other_bps: (given_bps - lane_bps).max(0.0),
            span,
        };
        Some((line, slope * span.as_secs_f64(), off_s))
    }
}

impl Line {
    /// Returns the drain rate of the queue.
    pub(super) fn served_bps(&self) -> f64 {
        self.given_bps / (1.0 + self.slope)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rng;

    /// Adds round trips, one each 40 ms, while 240 kbit/s are sent, 200 of them by the lane.
    fn hear(growth: &mut Growth, rtts_ms: impl IntoIterator<Item = f64>) {
        for (i, rtt_ms) in rtts_ms.into_iter().enumerate() {
            let i = i as u64 + 1;
            growth.on_echo(Echo {
                sent: Time::ZERO + Duration::from_millis(40 * i),
                rtt: Duration::from_secs_f64(rtt_ms / 1e3),
                there: Duration::from_secs_f64(rtt_ms / 1e3),
                link_bytes: 1_200 * i,
                lane_bytes: 1_000 * i,
                modelled: Duration::ZERO,
            });
        }
    }

    #[test]
    fn what_leaves_a_growing_queue_is_known() {
        let mut growth = Growth::default();
        // The link gets twice its drain rate, with packets of 10 ms in between.
        hear(
            &mut growth,
            (0..8).map(|i| 40.0 + f64::from(i) * 20.0 + f64::from(i % 2)),
        );
        let line = growth.rising(Time::ZERO, Duration::ZERO).unwrap();
        assert!((line.slope - 0.5).abs() < 0.05, "{line:?}");
        assert!((line.given_bps - 240e3).abs() < 1.0 && (line.other_bps - 40e3).abs() < 1.0);
        assert!((line.served_bps() - 160e3).abs() < 6e3, "{line:?}");
        let later = Time::ZERO + Duration::from_millis(200);
        assert!(growth.rising(later, Duration::ZERO).is_none(), "too few");
    }

    /// Answers are missing while the path was down, and the path is longer afterwards.
    #[test]
    fn a_step_behind_a_gap_does_not_grow() {
        for gap_ms in [150, 300, 500, 900] {
            for before in 1..12 {
                for rtt_ms in [55.0, 80.0, 170.0] {
                    let mut growth = Growth::default();
                    for i in 0..before + 12 {
                        let is_before = i < before;
                        let at = i * 60 + if is_before { 0 } else { gap_ms };
                        let rtt =
                            Duration::from_secs_f64(if is_before { 0.04 } else { rtt_ms / 1e3 });
                        growth.on_echo(Echo {
                            sent: Time::ZERO + Duration::from_millis(1 + at),
                            rtt,
                            there: rtt,
                            link_bytes: 1_200 * i,
                            lane_bytes: 1_000 * i,
                            modelled: Duration::ZERO,
                        });
                        let line = growth.rising(Time::ZERO, Duration::ZERO);
                        assert!(line.is_none(), "{gap_ms} {before} {i} {rtt_ms}: {line:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn steps_levels_and_jitter_do_not_grow() {
        for between in [0.0, 0.5, 1.0] {
            for before in 1..8 {
                let mut growth = Growth::default();
                let step = |i: i32| match i - before {
                    ..0 => 0.0,
                    0 => between,
                    _ => 1.0,
                };
                for count in 1..=12 {
                    growth.echoes.clear();
                    hear(&mut growth, (0..count).map(|i| 40.0 + 80.0 * step(i)));
                    let line = growth.rising(Time::ZERO, Duration::ZERO);
                    assert!(line.is_none(), "{between} {before} {count}: {line:?}");
                }
            }
        }
        let mut rng = Rng::new(2);
        let mut found = 0;
        for _ in 0..2_000 {
            let mut growth = Growth::default();
            let mut jitter = || rng.below(20_000) as f64 / 1e3;
            hear(&mut growth, (0..12).map(|_| 40.0 + jitter() + jitter()));
            found += u32::from(
                growth
                    .rising(Time::ZERO, Duration::from_millis(25))
                    .is_some(),
            );
        }
        assert!(found <= 5, "{found} of 2000");
    }
}
