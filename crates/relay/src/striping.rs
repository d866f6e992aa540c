//! Decides how many of a segment's connections are used, and derives what the segment carries. [Liu04 §III-C]
//!
//! ```text
//!   1 ──▶ 2 ──▶ 4 ──▶ … most      each level: a second to settle, then seconds that are judged. With several
//!                                  uplinks, the first level has a connection for each
//!   └──── back to the fewest that are as good, once it is shown that twice as many carry less than a fifth more,
//!         or the round trip has grown by more than 20 ms: what they carry is then what the segment has
//! ```
//! "Too many parallel connections can cause more congestion to those already congested links" [Liu04 §III-C].
//! Therefore, more connections are used only while they carry more. A connection that is delayed by its own queue has
//! already filled the segment, and no connection is added to it.
//!
//! Where packets are lost, chance sets the rate, and a few seconds may not be enough to find out whether more
//! connections carry more. The module `rates` estimates how far a measurement may be off. Nothing is claimed that the
//! measurements do not show. On a path with losses and without a queue, more connections are expected to help, so more
//! are tried until the measurements show that they do not help. There, this result is checked again after some seconds,
//! and then at longer and longer intervals.
//!
//! The measurements of each level are kept separately: one connection alone, and all connections of a level together.
//! If two connections carry what one did, this is the segment's capacity. The rate of a level is never extrapolated
//! from another level. Only time spans count in which the network alone limited the segment, not those in which the
//! segment waited for data or for the next node.

mod levels;
mod rates;

use levels::{Level, Levels};
use rates::{Gain, Judgement};

/// How often the node measures a segment. Choice: some round trips of most paths.
pub const LOOK_US: u64 = 500_000;
/// Number of measurements after a change of the level that do not count: new connections start slowly.
const SETTLE_LOOKS: u32 = 2;
/// Number of measurements that make one judgement.
const JUDGE_LOOKS: u32 = 2;
/// The growth of the rate, in per cent, that is required if the number of connections is doubled; otherwise the new
/// ones do not help.
const GAIN_PCT: u64 = 20;
/// Number of judgements of a level after which more connections are tried although nothing is shown yet.
const PATIENCE: u32 = 3;
/// Number of judgements without a clear result after which fewer connections are measured once more. Choice: as many as
/// are kept.
const LONG: u32 = 12;
/// Number of judgements in a row that have to find a queue. Choice: this gives a burst a second to drain.
const SURE: u32 = 2;
/// The same number while packets are lost. A burst can make the window outgrow the path, and then only losses shrink
/// it. Choice: on a segment of 20 Mbit/s and 40 ms that loses one packet in a thousand, that takes two to three
/// seconds.
const SURE_LOSSY: u32 = 4;
/// The largest increase of the round trip that more connections may cause.
pub const RTT_RISE_US: u32 = 20_000;
/// If the round trip exceeds the least one by more than this, and by more than a quarter of the least one, the
/// connection has filled a queue. Choice: twice the delay that the scavenger treats as noise.
const QUEUE_US: u32 = 10_000;
/// A span counts if the segment was idle for less than this share, in 1000ths. Choice: if a segment idles longer, the
/// windows of its connections do not reflect the present.
const IDLE_PERMILLE: u16 = 250;
/// Number of measurements without a change after which one more level is tried again: the path may have changed.
/// Choice: a minute, so that tries take only a thirtieth of the time on a path that does not change.
const RETRY_LOOKS: u32 = 120;
/// The first such interval, which is shorter, because the first result may be wrong. Choice: eight seconds, two of
/// which the try takes.
const RETRY_LOOKS_LEAST: u32 = 16;
/// Payload of a TCP segment.
const SEGMENT_BYTES: f64 = 1_448.0;
/// The least uncertainty that a measurement is given, in per cent.
const SPREAD_LEAST_PCT: u8 = 10;
/// The largest uncertainty that a measurement is given, in per cent.
const SPREAD_MAX_PCT: u8 = 100;

/// A measurement of the connections in use: what happened since the last one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Length of the span.
    pub span_us: u64,
    /// Bytes that the other end has acknowledged.
    pub bytes: u64,
    /// The share of the time, in 1000ths, in which the segment waited for data or for the other end.
    pub idle_permille: u16,
    /// The longest smoothed round trip of the connections.
    pub rtt_us: u32,
    /// The least round trip of the connections.
    pub min_rtt_us: u32,
    /// Number of retransmitted TCP segments.
    pub resent: u32,
}

/// The measured rates of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Rate of one connection alone.
    pub one_bps: Option<u64>,
    /// Rate of all connections of the best level together.
    pub together_bps: Option<u64>,
    /// True if more connections would not carry more.
    pub is_full: bool,
    /// How far the measurements lie apart, in per cent of their mean.
    pub spread_pct: u8,
}

/// The connections of one segment.
#[derive(Clone, Debug)]
pub struct Striping {
    /// Number of connections that exist.
    most: u8,
    /// Number of connections in use.
    active: u8,
    /// Least number of connections in use, so that each uplink has one.
    least: u8,
    /// True if the number of connections in use may change.
    is_free: bool,
    /// Measurements at this level, including those during which new connections settle.
    looks: u32,
    /// Sums for the current judgement.
    now: Sum,
    /// True if a packet was lost since this level began, also while it settled.
    has_lost: bool,
    /// Measurements of the levels that were tried.
    levels: Levels,
    /// Measurements since the last change.
    calm: u32,
    is_full: bool,
    /// Number of measurements after which more connections are tried again.
    retry: u32,
    /// True if this transfer itself has judged, so that the knowledge is not only from an earlier transfer.
    has_judged: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    looks: u32,
    span_us: u64,
    bytes: u64,
    rtt_us: u64,
    min_rtt_us: u32,
    resent: u64,
}

impl Striping {
    /// Uses up to `most` connections. Unless it is free to choose, it always uses all of them.
    pub fn new(most: u8, is_free: bool) -> Striping {
        let most = most.max(1);
        Striping {
            most,
            active: if is_free { 1 } else { most },
            least: 1,
            is_free,
            looks: 0,
            now: Sum::default(),
            has_lost: false,
            levels: Levels::default(),
            calm: 0,
            is_full: false,
            retry: RETRY_LOOKS_LEAST,
            has_judged: false,
        }
    }

    /// Sets the least number of connections in use: this many of the first connections are needed to use each uplink.
    /// If the number changes, earlier measurements are discarded, because they do not apply.
    pub fn over(self, least: u8) -> Striping {
        let least = least.clamp(1, self.most);
        if least == self.least {
            return self;
        }
        let mut fresh = Striping::new(self.most, self.is_free);
        fresh.least = least;
        fresh.active = fresh.active.max(least);
        fresh
    }

    /// Continues with up to `most` connections for another transfer over the same segment, from the state that this one
    /// ended in.
    pub fn go_on(mut self, most: u8) -> Striping {
        self.most = most.max(1);
        self.has_judged = false;
        self.retry = RETRY_LOOKS_LEAST;
        self.levels.keep(self.most);
        self.set(self.active.min(self.most));
        self
    }

    /// Returns true if it is free to choose how many connections are used.
    pub fn is_free(&self) -> bool {
        self.is_free
    }

    /// Returns true if it has judged this transfer itself, and does not rely only on an earlier transfer.
    pub fn has_judged(&self) -> bool {
        self.has_judged
    }

    /// Returns how many connections are to be used.
    pub fn active(&self) -> u8 {
        self.active
    }

    /// Takes in a measurement, and decides how many connections are used from here on.
    pub fn on_look(&mut self, look: Look) {
        self.looks = self.looks.saturating_add(1);
        self.calm = self.calm.saturating_add(1);
        self.has_lost |= look.resent > 0;
        if self.looks <= SETTLE_LOOKS || look.span_us < LOOK_US / 4 {
            return;
        }
        if look.idle_permille >= IDLE_PERMILLE {
            // If the segment waits for other things, the measurement shows nothing about the segment.
            self.now = Sum::default();
            return;
        }
        let now = &mut self.now;
        now.looks += 1;
        // While the segment idled, it could not have carried more.
        now.span_us += look.span_us * u64::from(1_000 - look.idle_permille) / 1_000;
        now.bytes += look.bytes;
        now.resent += u64::from(look.resent);
        now.rtt_us += u64::from(look.rtt_us);
        now.min_rtt_us = match now.min_rtt_us {
            0 => look.min_rtt_us,
            least => least.min(look.min_rtt_us),
        };
        if now.looks >= JUDGE_LOOKS {
            self.judge();
        }
    }

    fn judge(&mut self) {
        self.has_judged = true;
        let sum = std::mem::take(&mut self.now);
        let rate_bps = sum.bytes.saturating_mul(8_000_000) / sum.span_us.max(1);
        let rtt_us = (sum.rtt_us / u64::from(sum.looks.max(1))) as u32;
        let queue_us = rtt_us.saturating_sub(sum.min_rtt_us);
        let is_queueing = queue_us > QUEUE_US.max(sum.min_rtt_us / 4);
        self.levels.note(
            self.active,
            Judgement {
                rate_bps,
                bytes: sum.bytes,
                resent: sum.resent,
            },
            rtt_us,
            is_queueing,
        );
        if !self.is_full && self.is_shown_to_be_all() {
            (self.is_full, self.calm) = (true, 0);
        }
        let Some(here) = self.levels.of(self.active) else {
            return;
        };
        let sure = match (here.rates.has_lost_lately(), self.has_lost) {
            (true, _) => SURE_LOSSY,
            // The connections are in slow start, as far as can be known.
            (false, true) => PATIENCE,
            (false, false) => SURE,
        };
        let has_filled = here.queued >= sure;
        if !self.is_free {
            self.is_full |= has_filled;
            return;
        }
        if !is_queueing && self.may_have_left_too_early() {
            // This comes before the measurements of lower levels are used, because those are even older.
            self.is_full = false;
            return self.climb();
        }
        let Some(fewer) = self.levels.below(self.active) else {
            // One connection is in use: more are tried unless it already fills a queue. If more were tried and gained
            // nothing, that result is kept.
            let has_tried_more = self.levels.above(self.active).is_some();
            self.is_full = has_filled || (self.is_full && has_tried_more);
            let is_untried = !has_tried_more || self.is_time_to_retry();
            if !is_queueing && is_untried {
                self.climb();
            }
            return;
        };
        let Some((before, gain)) = self
            .levels
            .of(fewer)
            .zip(self.levels.gain(fewer, self.active))
        else {
            return;
        };
        let rises = here.rises_over(before, RTT_RISE_US);
        if (rises && here.judged < SURE) || (is_queueing && !has_filled) {
            // New connections begin with a burst, and hosts can pause for a moment.
            return;
        }
        let is_patient = here.judged >= PATIENCE;
        let is_in_vain = match gain {
            Gain::Some => false,
            Gain::None => here.judged >= SURE,
            // Fewer connections may do as well: a longer queue, or a path that loses nothing, suggests it. Where there
            // are losses and no queue, a second connection should carry as much as the first.
            Gain::Unknown if is_queueing => here.rises_over(before, RTT_RISE_US / 2),
            Gain::Unknown => is_patient && !self.levels.is_lossy(),
        };
        if rises || is_in_vain {
            self.descend();
        } else if gain == Gain::Unknown && here.judged >= LONG {
            // Nothing is shown for either level. The rate of fewer connections is not known well enough.
            self.is_full = false;
            self.set(fewer);
        } else if is_queueing {
            self.is_full = true;
        } else if (gain == Gain::Some || (gain == Gain::Unknown && is_patient))
            && (self.levels.above(self.active).is_none() || self.is_time_to_retry())
        {
            self.is_full = false;
            self.climb();
        }
    }

    /// Returns true if it is time to try more connections again: the last result is old, or was the first one.
    fn is_time_to_retry(&self) -> bool {
        let retry = if self.levels.is_lossy() {
            self.retry
        } else {
            RETRY_LOOKS
        };
        self.calm >= retry
    }

    /// Returns true if, compared with the present measurements of this level, more connections have not carried more.
    fn is_shown_to_be_all(&self) -> bool {
        self.levels
            .above(self.active)
            .is_some_and(|more| self.levels.gain(self.active, more) == Some(Gain::None))
    }

    /// Returns true if the next level may have been left too early. Either it was left because this level had a high
    /// rate by chance, and compared with the present rate of this level it does gain; or it was left to measure this
    /// level again, and still nothing is shown.
    fn may_have_left_too_early(&self) -> bool {
        let Some(more) = self.levels.above(self.active) else {
            return false;
        };
        let (Some(next), Some(here)) = (self.levels.of(more), self.levels.of(self.active)) else {
            return false;
        };
        let is_open = match self.levels.gain(self.active, more) {
            Some(Gain::Some) => true,
            Some(Gain::Unknown) => !self.is_full,
            Some(Gain::None) | None => false,
        };
        here.judged >= PATIENCE && is_open && !next.rises_over(here, RTT_RISE_US)
    }

    fn climb(&mut self) {
        let next = self.active.saturating_mul(2).min(self.most);
        if next > self.active {
            // Earlier measurements of the next level and those beyond are discarded, so that they do not count against
            // it.
            self.levels.keep(self.active);
            if self.is_time_to_retry() {
                // The next try comes later.
                self.retry = (self.retry * 2).min(RETRY_LOOKS);
            }
            self.set(next);
        }
    }

    /// Goes back to the fewest connections that carry as much.
    fn descend(&mut self) {
        let mut count = self.active;
        while let Some(fewer) = self.levels.below(count) {
            if count != self.active && self.levels.gain(fewer, count) != Some(Gain::None) {
                break;
            }
            count = fewer;
        }
        self.is_full = true;
        self.set(count);
    }

    fn set(&mut self, count: u8) {
        (self.active, self.looks, self.calm) = (count, 0, 0);
        self.levels.begin();
        (self.now, self.has_lost) = (Sum::default(), false);
    }

    /// Returns true if the probe has its result: more connections would not help, or there are no more. A level that
    /// was not compared with a higher one has to be steady. For a connection that fills a queue by itself may share the
    /// queue with others, and then reaches its share only slowly. New connections on a path with losses begin with
    /// several times their share.
    pub fn is_settled(&self) -> bool {
        let Some(here) = self.levels.of(self.active) else {
            return false;
        };
        let has_tried_more = self.levels.above(self.active).is_some();
        let is_believed = !self.levels.is_lossy() || here.judged >= PATIENCE;
        let gain = self
            .levels
            .below(self.active)
            .map(|fewer| self.levels.gain(fewer, self.active));
        let is_last = self.active == self.most && gain.is_none_or(|gain| gain == Some(Gain::Some));
        // More judgements of the last level would not help: what is not known is the rate of fewer connections.
        let is_open = self.active == self.most && here.judged >= 2 * PATIENCE;
        // If the rate was steady before the level was left for a higher one, that was by chance, perhaps.
        let is_steady = here.judged >= 2 && here.rates.is_steady();
        (self.is_full && has_tried_more && is_believed)
            || ((self.is_full || is_last) && is_steady)
            || is_open
    }

    /// Ends the measurements. If the present level was never judged, it is judged by what was measured so far.
    pub fn close(&mut self) {
        if self.now.looks > 0 && self.levels.of(self.active).is_none() {
            self.judge();
        }
    }

    /// Ends the choice, because there is no time for more. A level that was not shown to be in vain is kept, and not
    /// called full.
    pub fn hurry(&mut self) {
        self.close();
        let fewer = self.levels.below(self.active).filter(|_| self.is_free);
        if fewer.is_some_and(|fewer| self.levels.gain(fewer, self.active) == Some(Gain::None)) {
            self.descend();
        }
    }

    /// Returns what the segment has carried. Levels that were never measured are empty.
    pub fn carried(&self) -> Carried {
        let rate_of = |level: &Level| level.rates.mean(0.0).rate_bps as u64;
        let one = self.levels.one();
        let best = self.levels.all().max_by_key(|level| rate_of(level));
        // If more connections carried a little more than those in use, the difference was too small to be worth them.
        let best = self
            .levels
            .of(self.active)
            .filter(|_| self.is_full)
            .or(best);
        let used = self.levels.of(self.active).or(best);
        let spread = used.map_or(0, |level| level.rates.spread_pct());
        Carried {
            one_bps: one.map(|mean| mean.rate_bps as u64),
            together_bps: best.map(rate_of),
            is_full: self.is_full && best.is_some(),
            spread_pct: spread.clamp(SPREAD_LEAST_PCT, SPREAD_MAX_PCT),
        }
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
