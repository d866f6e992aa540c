//! What each number of connections was seen to carry, and how the levels compare.
//!
//! ```text
//!   1: rates, round trip, queue ─┐
//!   2: rates, round trip, queue ─┼─ gain(2, 4): some, none, or nobody can tell yet
//!   4: rates, round trip, queue ─┘
//! ```
//! What was lost at any level counts for all of them: the losses are those of the path.

use super::rates::{Gain, Judgement, Mean, Rates};
use super::{PATIENCE, SEGMENT_BYTES};

/// A path is lossy that loses such a share of the segments.
const LOSSY: f64 = 0.000_2;

/// What a level carries.
#[derive(Clone, Debug, Default)]
pub(super) struct Level {
    /// What was measured of it lately.
    pub(super) rates: Rates,
    pub(super) rtt_us: u32,
    /// So many judgements in a row, up to the last one, have found a queue.
    pub(super) queued: u32,
    /// Judgements since it was taken up.
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

    /// Forgets those of more connections.
    pub(super) fn keep(&mut self, most: u8) {
        self.0.retain(|(count, _)| *count <= most);
    }

    /// The level above, if it was tried.
    pub(super) fn above(&self, count: u8) -> Option<u8> {
        self.0.iter().map(|(n, _)| *n).filter(|n| *n > count).min()
    }

    /// The level below, if there is one.
    pub(super) fn below(&self, count: u8) -> Option<u8> {
        self.0.iter().map(|(n, _)| *n).filter(|n| *n < count).max()
    }

    /// Another level is taken up: what is judged from now on is counted from the beginning.
    pub(super) fn begin(&mut self) {
        for (_, level) in &mut self.0 {
            (level.judged, level.queued) = (0, 0);
        }
    }

    /// A judgement of a level.
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
            // It has been measured anew: what was before may have been on another path.
            level.rates.keep(PATIENCE as usize);
        }
        // Choice: half of the last judgement, so that a path which changes is followed in some seconds.
        level.rtt_us = level.rtt_us / 2 + rtt_us / 2;
        level.queued = if is_queueing { level.queued + 1 } else { 0 };
    }

    /// Whether more connections carry more.
    pub(super) fn gain(&self, fewer: u8, more: u8) -> Option<Gain> {
        let (fewer, more) = (self.sober(fewer)?, self.mean(more)?);
        Some(more.over(fewer))
    }

    /// What one connection carries, by all levels that carry so many times as much. On a lossy path the rate of each
    /// connection is chance, so each connection of such a level is another sample of the same. Where the next levels
    /// agree on more or less than the first one, that was the burst that it began with.
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
            // From here on they share what there is.
            if !one.agrees_with(*more) {
                break;
            }
            one = one.pooled_with(*more);
        }
        Some(one)
    }

    /// Losses are the path's own: what sets the pace there is chance.
    pub(super) fn is_lossy(&self) -> bool {
        self.loss() * SEGMENT_BYTES > LOSSY
    }

    fn mean(&self, count: u8) -> Option<Mean> {
        Some(self.of(count)?.rates.mean(self.loss()))
    }

    /// Segments sent again for each byte that arrived.
    fn loss(&self) -> f64 {
        let all = self.all().map(|level| level.rates.sums());
        let (bytes, resent) = all.fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
        resent as f64 / (bytes as f64).max(1.0)
    }

    /// A level, as more connections are compared with it: no connection carries more because there are others
    /// beside it, so what is more than its share of a lower level is the burst that a new one begins with.
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
    /// Its round trip is longer by more than this.
    pub(super) fn rises_over(&self, fewer: &Level, by_us: u32) -> bool {
        self.rtt_us > fewer.rtt_us.saturating_add(by_us)
    }
}
