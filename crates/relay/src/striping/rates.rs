//! The measured rate of a level, how far the measurement may be off, and whether another level carries more.
//!
//! Chance sets the rate of a lossy path: a second of one connection has a few losses, and its rate is off by a quarter
//! or more. Therefore, two levels are distinguished by the standard errors of their means, or not at all. An error is
//! estimated from the scatter of a level's judgements and from the number of losses. Both are needed: a few judgements
//! may agree by chance, and the same loss affects several of them.

use super::{GAIN_PCT, SEGMENT_BYTES};
use std::collections::VecDeque;

/// Number of judgements that are kept.
const KEPT: usize = 12;
/// A level is steady if two consecutive judgements differ by no more than this share. Choice: a connection that reaches
/// its share within ten seconds changes by a tenth or more in each.
const STEADY: f64 = 0.12;
/// The expected error of a judgement if nothing is lost. Choice: the differences between the kernel's numbers.
const CALM: f64 = 0.05;
/// The weight of the expected error, in judgements. Choice: the number of judgements after which a level is known.
const PRIOR: f64 = 3.0;
/// The share by which a rate is off after one loss; after more, this is divided by the square root of their number.
/// Choice: between losses, windows differ by about as much as they shrink with one.
const PER_LOSS: f64 = 0.8;
/// The factor by which this share grows with the share of lost packets. Choice: with many losses, timeouts follow each
/// other, and each takes twice as long as the one before.
const PER_SHARE: f64 = 5.0;
/// Number of standard errors that must lie between the measured gain and the gain that counts, before there is said to
/// be none. Choice: any one of several judgements of each of three levels may be the wrong one.
const SURE_NONE: f64 = 2.5;

/// The result of several measurements.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Judgement {
    pub(super) rate_bps: u64,
    pub(super) bytes: u64,
    /// Number of retransmitted segments.
    pub(super) resent: u64,
}

/// The latest judgements of a level.
#[derive(Clone, Debug, Default)]
pub(super) struct Rates(VecDeque<Judgement>);

/// A mean, and its standard error.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mean {
    pub(super) rate_bps: f64,
    error_bps: f64,
}

/// Whether more connections carry so much more that they are worth having.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gain {
    /// They seem to carry enough more.
    Some,
    /// They do not, and the measurements are good enough to know it.
    None,
    /// The measurements do not show it yet.
    Unknown,
}

impl Rates {
    pub(super) fn add(&mut self, judgement: Judgement) {
        self.keep(KEPT - 1);
        self.0.push_back(judgement);
    }

    /// Keeps only the last `count` judgements.
    pub(super) fn keep(&mut self, count: usize) {
        while self.0.len() > count {
            self.0.pop_front();
        }
    }

    /// Returns the sums of the bytes and of the retransmitted segments.
    pub(super) fn sums(&self) -> (u64, u64) {
        let each = self.0.iter();
        each.fold((0, 0), |sum, of| (sum.0 + of.bytes, sum.1 + of.resent))
    }

    /// Returns true if one of the last two judgements had losses.
    pub(super) fn has_lost_lately(&self) -> bool {
        self.0.iter().rev().take(2).any(|of| of.resent > 0)
    }

    /// Returns the mean and its error, for a path with this many losses per byte.
    pub(super) fn mean(&self, loss: f64) -> Mean {
        let count = (self.0.len() as f64).max(1.0);
        let rates = || self.0.iter().map(|of| of.rate_bps as f64);
        let rate_bps = rates().sum::<f64>() / count;
        let losses = self.sums().0 as f64 * loss;
        // The error that the number of losses alone suggests. It holds before there are enough judgements.
        let by_losses = match losses > 0.0 {
            true => PER_LOSS * (1.0 + PER_SHARE * loss * SEGMENT_BYTES) / losses.max(0.5).sqrt(),
            false => 0.0,
        };
        let expected = rate_bps * (by_losses * count.sqrt()).max(CALM);
        let squares: f64 = rates().map(|rate| (rate - rate_bps).powi(2)).sum();
        let variance = (squares + PRIOR * expected.powi(2)) / (count - 1.0 + PRIOR);
        let error_bps = (variance / count).sqrt().max(rate_bps * by_losses);
        Mean {
            rate_bps,
            error_bps,
        }
    }

    /// Returns true if the last two judgements are close.
    pub(super) fn is_steady(&self) -> bool {
        let mut last = self.0.iter().rev().map(|of| of.rate_bps as f64);
        let both = last.next().zip(last.next());
        both.is_some_and(|(now, before)| (now - before).abs() <= before * STEADY)
    }

    /// Returns half of the difference between the least and the largest rate, in per cent of the mean.
    pub(super) fn spread_pct(&self) -> u8 {
        let rates = || self.0.iter().map(|of| of.rate_bps);
        let off = rates().max().unwrap_or(0) - rates().min().unwrap_or(0);
        let pct = off as f64 * 50.0 / self.mean(0.0).rate_bps.max(1.0);
        pct as u8
    }
}

impl Mean {
    pub(super) fn times(self, factor: f64) -> Mean {
        Mean {
            rate_bps: self.rate_bps * factor,
            error_bps: self.error_bps * factor,
        }
    }

    /// Returns true if the means lie no further apart than chance explains.
    pub(super) fn agrees_with(self, other: Mean) -> bool {
        let error = self.error_bps.hypot(other.error_bps);
        (self.rate_bps - other.rate_bps).abs() <= error
    }

    /// Returns one mean of both. The mean with the smaller error counts more.
    pub(super) fn pooled_with(self, other: Mean) -> Mean {
        let weight = |mean: Mean| mean.error_bps.max(1.0).powi(-2);
        let (ours, theirs) = (weight(self), weight(other));
        let all = ours + theirs;
        Mean {
            rate_bps: (self.rate_bps * ours + other.rate_bps * theirs) / all,
            error_bps: all.sqrt().recip(),
        }
    }

    /// Compares this mean with that of fewer connections.
    pub(super) fn over(self, fewer: Mean) -> Gain {
        let worth = fewer.times((100 + GAIN_PCT) as f64 / 100.0);
        let gain = self.rate_bps - worth.rate_bps;
        let error = self.error_bps.hypot(worth.error_bps);
        if gain >= 0.0 {
            Gain::Some
        } else if gain < -SURE_NONE * error {
            Gain::None
        } else {
            Gain::Unknown
        }
    }
}
