//! What a level was measured to carry, how far that may be off, and whether another one carries more.
//!
//! What sets the rate of a lossy path is chance: a second of one connection has a few losses, and its rate is off by a
//! quarter or more. So two levels are told apart by the standard errors of their means, or not at all. An error is estimated
//! from how far the judgements of a level lie apart, and from the number of losses: a few judgements may agree by chance,
//! and the same loss is felt in several of them.

use super::{GAIN_PCT, SEGMENT_BYTES};
use std::collections::VecDeque;

/// Judgements that are kept.
const KEPT: usize = 12;
/// A level is steady once two judgements one after the other are so close. Choice: a connection that comes to its share
/// within ten seconds changes by a tenth or more in each.
const STEADY: f64 = 0.12;
/// The error that is expected of a judgement where nothing is lost. Choice: what the kernel's numbers differ by.
const CALM: f64 = 0.05;
/// The weight of the expected error, in judgements. Choice: as many as make a level known.
const PRIOR: f64 = 3.0;
/// The share by which a rate is off after one loss; after more, this is divided by the square root of their number. Choice: between losses windows go by about as
/// much as they shrink with one.
const PER_LOSS: f64 = 0.8;
/// That grows by the share of packets that is lost, times this. Choice: with many losses, timeouts follow each other, and
/// each takes twice as long as the one before.
const PER_SHARE: f64 = 5.0;
/// So many standard errors lie between what was seen and the gain that counts, if there is none. Choice: each of some
/// judgements of each of three levels may be the one that errs.
const SURE_NONE: f64 = 2.5;

/// What was seen in some looks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Judgement {
    pub(super) rate_bps: u64,
    pub(super) bytes: u64,
    /// Segments that were sent again.
    pub(super) resent: u64,
}

/// The last ones of a level.
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
    /// They seem to.
    Some,
    /// They do not: the measurements are good enough to tell.
    None,
    /// Nobody can tell yet.
    Unknown,
}

impl Rates {
    pub(super) fn add(&mut self, judgement: Judgement) {
        self.keep(KEPT - 1);
        self.0.push_back(judgement);
    }

    /// Only the last ones.
    pub(super) fn keep(&mut self, count: usize) {
        while self.0.len() > count {
            self.0.pop_front();
        }
    }

    /// Bytes and segments sent again.
    pub(super) fn sums(&self) -> (u64, u64) {
        let each = self.0.iter();
        each.fold((0, 0), |sum, of| (sum.0 + of.bytes, sum.1 + of.resent))
    }

    /// In the last two.
    pub(super) fn has_lost_lately(&self) -> bool {
        self.0.iter().rev().take(2).any(|of| of.resent > 0)
    }

    /// With so many losses for each byte.
    pub(super) fn mean(&self, loss: f64) -> Mean {
        let count = (self.0.len() as f64).max(1.0);
        let rates = || self.0.iter().map(|of| of.rate_bps as f64);
        let rate_bps = rates().sum::<f64>() / count;
        let losses = self.sums().0 as f64 * loss;
        // Off by so much for what is known of the losses, which holds before there are enough judgements.
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

    /// The last two are close.
    pub(super) fn is_steady(&self) -> bool {
        let mut last = self.0.iter().rev().map(|of| of.rate_bps as f64);
        let both = last.next().zip(last.next());
        both.is_some_and(|(now, before)| (now - before).abs() <= before * STEADY)
    }

    /// Half of what lies between the least and the most, in per cent of the mean.
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

    /// They lie no further apart than chance may bring them.
    pub(super) fn agrees_with(self, other: Mean) -> bool {
        let error = self.error_bps.hypot(other.error_bps);
        (self.rate_bps - other.rate_bps).abs() <= error
    }

    /// One mean of both, in which the surer one counts more.
    pub(super) fn pooled_with(self, other: Mean) -> Mean {
        let weight = |mean: Mean| mean.error_bps.max(1.0).powi(-2);
        let (ours, theirs) = (weight(self), weight(other));
        let all = ours + theirs;
        Mean {
            rate_bps: (self.rate_bps * ours + other.rate_bps * theirs) / all,
            error_bps: all.sqrt().recip(),
        }
    }

    /// Compared with fewer connections.
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
