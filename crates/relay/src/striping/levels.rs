//! The measured rate of each number of connections, and how the levels compare.
//!
//! ```text
//!   1: rates, round trip, queue ─┐
//!   2: rates, round trip, queue ─┼─ gain(2, 4): some, none, or nobody can tell yet
//!   4: rates, round trip, queue ─┘
//! ```
//! Losses at any level count for all levels, because they are the losses of the path.

use super::rates::{Gain, Judgement, Mean, Rates};
use super::{PATIENCE, SEGMENT_BYTES};

/// A path is lossy if it loses more than this share of the segments.
const LOSSY: f64 = 0.000_2;

/// The measurements at a level.
#[derive(Clone, Debug, Default)]
pub(super) struct Level {
    /// The latest judgements.
    pub(super) rates: Rates,
    pub(super) rtt_us: u32,
    /// Number of judgements in a row, up to the last one, that have found a queue.
    pub(super) queued: u32,
    /// Number of judgements since the level began.
    pub(super) judged: u32,
}

/// The levels that were tried, by connections.
#[derive(Clone, Debug, Default)]
pub(super) struct Levels(Vec<(u8, Level)>);

impl Levels {
    pub(super) fn of(&self, count: u8) -> Option<&Level> {
        let found = self.0.iter().find(|(n, _)| *n == count);
        found.map(|(_, level)| level)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Level> {
        self.0.iter().map(|(_, level)| level)
    }

    /// Forgets the levels of more connections.
    pub(super) fn keep(&mut self, most: u8) {
        self.0.retain(|(count, _)| *count <= most);
    }

    /// Returns the next higher level, if it was tried.
    pub(super) fn above(&self, count: u8) -> Option<u8> {
        self.0.iter().map(|(n, _)| *n).filter(|n| *n > count).min()
    }

    /// Returns the next lower level, if there is one.
    pub(super) fn below(&self, count: u8) -> Option<u8> {
        self.0.iter().map(|(n, _)| *n).filter(|n| *n < count).max()
    }

    /// Begins a level: judgements are counted from zero again.
    pub(super) fn begin(&mut self) {
        for (_, level) in &mut self.0 {
            (level.judged, level.queued) = (0, 0);
        }
    }

    /// Adds a judgement of a level.
    pub(super) fn note(&mut self, count: u8, judgement: Judgement, rtt_us: u32, is_queueing: bool) {
        let found = self.0.iter().position(|(n, _)| *n == count);
        let at = found.unwrap_or_else(|| {
            let level = Level {
                rtt_us,
                ..Level::default()
            };
            self.0.push((count, level));
            self.0.len() - 1
        });
        let (_, level) = &mut self.0[at];
        level.judged += 1;
        level.rates.add(judgement);
        if level.judged == PATIENCE {
            // The level has been measured again. Older judgements may be of another path.
            level.rates.keep(PATIENCE as usize);
        }
        // Choice: half of the last judgement, so that the value follows a path that changes in some seconds.
        level.rtt_us = level.rtt_us / 2 + rtt_us / 2;
        level.queued = if is_queueing { level.queued + 1 } else { 0 };
    }

    /// Returns whether more connections carry more.
    pub(super) fn gain(&self, fewer: u8, more: u8) -> Option<Gain> {
        let (fewer, more) = (self.sober(fewer)?, self.mean(more)?);
        Some(more.over(fewer))
    }

    /// Returns what one connection carries, derived from all levels whose rate is proportional to their number of
    /// connections. On a lossy path the rate of each connection is chance, so each connection of such a level is
    /// another sample of the same distribution. If the next levels agree on a rate that differs from the first one, the
    /// first one contained the burst at its beginning.
    pub(super) fn one(&self) -> Option<Mean> {
        let first = self.mean(1)?;
        if !self.is_lossy() {
            return Some(first);
        }
        let mut tried: Vec<u8> = self.0.iter().map(|(count, _)| *count).collect();
        tried.sort_unstable();
        let share = |count: u8| Some(self.mean(count)?.times(1.0 / f64::from(count)));
        let each: Vec<Mean> = tried.into_iter().filter_map(share).collect();
        let agree = |pair: &[Mean]| pair[0].agrees_with(pair[1]);
        let Some(from) = each.windows(2).position(agree) else {
            return Some(first);
        };
        let mut one = each[from];
        for more in &each[from + 1..] {
            // From here on the connections compete for the capacity.
            if !one.agrees_with(*more) {
                break;
            }
            one = one.pooled_with(*more);
        }
        Some(one)
    }

    /// Returns true if the losses are the path's own: then the rate depends on chance.
    pub(super) fn is_lossy(&self) -> bool {
        self.loss() * SEGMENT_BYTES > LOSSY
    }

    fn mean(&self, count: u8) -> Option<Mean> {
        Some(self.of(count)?.rates.mean(self.loss()))
    }

    /// Returns the number of retransmitted segments per byte that arrived.
    fn loss(&self) -> f64 {
        let all = self.all().map(|level| level.rates.sums());
        let (bytes, resent) = all.fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
        resent as f64 / (bytes as f64).max(1.0)
    }

    /// Returns the mean of a level for the comparison with more connections. No connection carries more because there
    /// are others beside it. Therefore, the rate that exceeds the share of a lower level is the burst that a new
    /// connection begins with, and is cut off.
    fn sober(&self, count: u8) -> Option<Mean> {
        let mut mean = self.mean(count)?;
        for (fewer, below) in self.0.iter().filter(|(fewer, _)| *fewer < count) {
            let share = f64::from(count) / f64::from(*fewer);
            let most = below.rates.mean(self.loss()).times(share);
            if most.rate_bps < mean.rate_bps {
                mean = most;
            }
        }
        Some(mean)
    }
}

impl Level {
    /// Returns true if the round trip of this level is longer than that of `fewer` by more than this.
    pub(super) fn rises_over(&self, fewer: &Level, by_us: u32) -> bool {
        self.rtt_us > fewer.rtt_us.saturating_add(by_us)
    }
}
