//! How many of a segment's connections are used, and what that tells of the segment. [Liu04 §III-C]
//!
//! ```text
//!   1 ──▶ 2 ──▶ 4 ──▶ … most      each level: a second to settle, then seconds that are judged. With several
//!                                  uplinks, the first level has a connection for each
//!   └──── back to the fewest that are as good, once it is shown that twice as many carry less than a fifth more,
//!         or the round trip has grown by more than 20 ms: what they carry is then what the segment has
//! ```
//! "Too many parallel connections can cause more congestion to those already congested links" [Liu04
//! §III-C]: so more are used only while they carry more. A connection whose own queue delays it has filled
//! the segment already, and is given no company.
//!
//! Where packets are lost, chance sets the rate, and a few seconds may not be enough to tell whether more connections
//! carry more. `rates` knows how far a measurement may be off. What is not shown is not said: on a path
//! with losses and without a queue, more connections are expected to help, so that more are tried until it is shown that
//! they do not. What was shown there is tried again after some seconds, and then ever later.
//!
//! What was seen at each level is kept apart: one connection alone, and those of a level together. Two that
//! carry what one did are the segment's capacity; a level is never said to have what another one would make it. Only
//! spans in which the network alone held the segment back count, not those in which it waited for data
//! or for the next node.

mod levels;
mod rates;

use levels::{Level, Levels};
use rates::{Gain, Judgement};

/// How often a segment is looked at. Choice: some round trips of most paths.
pub const LOOK_US: u64 = 500_000;
/// What is seen so soon after a change of the level does not count: new connections start slowly.
const SETTLE_LOOKS: u32 = 2;
/// So many looks make a judgement.
const JUDGE_LOOKS: u32 = 2;
/// Twice as many connections help if they carry so much more, in per cent.
const GAIN_PCT: u64 = 20;
/// So many judgements of a level are waited for, before more connections are tried though nothing is shown.
const PATIENCE: u32 = 3;
/// After so many in which nothing was shown, fewer are measured once more. Choice: as many as are kept.
const LONG: u32 = 12;
/// So many judgements have to find a queue. Choice: a second for a burst to go away.
const SURE: u32 = 2;
/// The same while something is lost: a window that outgrew the path by a burst shrinks only with losses. Choice: on a
/// segment of 20 Mbit/s and 40 ms that loses one packet in a thousand, that takes two to three seconds.
const SURE_LOSSY: u32 = 4;
/// More connections may not make the round trip so much longer.
pub const RTT_RISE_US: u32 = 20_000;
/// A round trip that is so much longer than the least, and by a quarter of it, is that of a queue which the
/// connection has filled. Choice: twice what the scavenger takes for noise.
const QUEUE_US: u32 = 10_000;
/// A span counts if the segment was idle for less than this share of 1000. Choice: one that idles more
/// has its windows from other times.
const IDLE_PERMILLE: u16 = 250;
/// After so many looks in which nothing grew, one level more is tried again: the path may have changed.
/// Choice: a minute, so that a path that does not change is bothered for a thirtieth of the time.
const RETRY_LOOKS: u32 = 120;
/// At first sooner: what was said may be wrong. Choice: eight seconds, two of which trying it takes.
const RETRY_LOOKS_LEAST: u32 = 16;
/// What a segment of TCP carries.
const SEGMENT_BYTES: f64 = 1_448.0;
/// What was measured may be off by this at least, in per cent.
const SPREAD_LEAST_PCT: u8 = 10;
/// And by no more than this.
const SPREAD_MAX_PCT: u8 = 100;

/// What was seen of the connections in use since the last look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// How long that was.
    pub span_us: u64,
    /// Bytes that the other end has acknowledged.
    pub bytes: u64,
    /// The share of the time, in 1000ths, in which it waited for data or for the other end.
    pub idle_permille: u16,
    /// The longest smoothed round trip.
    pub rtt_us: u32,
    /// The least round trip.
    pub min_rtt_us: u32,
    /// Segments of TCP that were sent again.
    pub resent: u32,
}

/// What a segment has carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// One connection alone.
    pub one_bps: Option<u64>,
    /// Those of the best level together.
    pub together_bps: Option<u64>,
    /// More would not carry more.
    pub is_full: bool,
    /// How far what was seen lies apart, in per cent of it.
    pub spread_pct: u8,
}

/// The connections of one segment.
#[derive(Clone, Debug)]
pub struct Striping {
    /// So many are there.
    most: u8,
    /// So many are used.
    active: u8,
    /// Never fewer: each uplink has one of these.
    least: u8,
    /// It is free to choose.
    is_free: bool,
    /// Looks at this level, those that settle included.
    looks: u32,
    /// Sums of the judgement under way.
    now: Sum,
    /// Something was lost since this level was taken up, while it settled too.
    has_lost: bool,
    /// What was seen at the levels that were tried.
    levels: Levels,
    /// Looks since something was tried.
    calm: u32,
    is_full: bool,
    /// Looks after which more are tried again.
    retry: u32,
    /// What is known is not only from another transfer.
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
    /// Up to `most` connections; all of them, and always, unless it is free to choose.
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

    /// So many of the first connections are never fewer, since it takes them all to use each uplink. What was seen with
    /// another number says nothing.
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

    /// Up to `most` connections of another transfer over the same segment, which begins where this one has ended.
    pub fn go_on(mut self, most: u8) -> Striping {
        self.most = most.max(1);
        self.has_judged = false;
        self.retry = RETRY_LOOKS_LEAST;
        self.levels.keep(self.most);
        self.set(self.active.min(self.most));
        self
    }

    /// It is free to choose how many are used.
    pub fn is_free(&self) -> bool {
        self.is_free
    }

    /// It has seen something itself, and not only the transfer before it.
    pub fn has_judged(&self) -> bool {
        self.has_judged
    }

    /// So many are to be used.
    pub fn active(&self) -> u8 {
        self.active
    }

    /// Takes in what was seen, and decides how many are used from here on.
    pub fn on_look(&mut self, look: Look) {
        self.looks = self.looks.saturating_add(1);
        self.calm = self.calm.saturating_add(1);
        self.has_lost |= look.resent > 0;
        if self.looks <= SETTLE_LOOKS || look.span_us < LOOK_US / 4 {
            return;
        }
        if look.idle_permille >= IDLE_PERMILLE {
            // What else it waits for says nothing of the segment.
            self.now = Sum::default();
            return;
        }
        let now = &mut self.now;
        now.looks += 1;
        // The time in which it idled was none in which it could have carried more.
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
            // In slow start, as far as is known.
            (false, true) => PATIENCE,
            (false, false) => SURE,
        };
        let has_filled = here.queued >= sure;
        if !self.is_free {
            self.is_full |= has_filled;
            return;
        }
        if !is_queueing && self.may_have_left_too_early() {
            // Before what is below is believed: it was seen even earlier.
            self.is_full = false;
            return self.climb();
        }
        let Some(fewer) = self.levels.below(self.active) else {
            // One connection: more are tried unless it queues already.
            // Once more were tried and gained nothing, that stays known.
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
            // New connections begin with a burst, and hosts stand still for a moment.
            return;
        }
        let is_patient = here.judged >= PATIENCE;
        let is_in_vain = match gain {
            Gain::Some => false,
            Gain::None => here.judged >= SURE,
            // Fewer may do as well: a longer queue or a path that loses nothing speaks for it. Where there are losses and
            // no queue, a second connection should have as much as the first.
            Gain::Unknown if is_queueing => here.rises_over(before, RTT_RISE_US / 2),
            Gain::Unknown => is_patient && !self.levels.is_lossy(),
        };
        if rises || is_in_vain {
            self.descend();
        } else if gain == Gain::Unknown && here.judged >= LONG {
            // What is not known well enough is what fewer have; nothing is shown of either.
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

    /// What was said of more connections is old, or was said for the first time.
    fn is_time_to_retry(&self) -> bool {
        let retry = if self.levels.is_lossy() {
            self.retry
        } else {
            RETRY_LOOKS
        };
        self.calm >= retry
    }

    /// By what this level has now, more connections have not carried more.
    fn is_shown_to_be_all(&self) -> bool {
        self.levels
            .above(self.active)
            .is_some_and(|more| self.levels.gain(self.active, more) == Some(Gain::None))
    }

    /// The next level was left because of what this one had by chance, and by what it has now, that one gains; or it was
    /// left to measure this one anew, and still nothing is shown.
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
            // What was seen there, and beyond, at another time is not held against it.
            self.levels.keep(self.active);
            if self.is_time_to_retry() {
                // The next time is later.
                self.retry = (self.retry * 2).min(RETRY_LOOKS);
            }
            self.set(next);
        }
    }

    /// Back to the fewest that carry as much.
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

    /// It has found what it wanted to know: more would not help, or there are no more. What was not compared with more
    /// has to be steady: one that fills a queue by itself may share it with others, and comes to its share only by and
    /// by; new ones on a path with losses begin with several times their share.
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
        // More judgements of the last level would not tell either: what is not known is how much fewer have.
        let is_open = self.active == self.most && here.judged >= 2 * PATIENCE;
        // What was steady before it was left for more was so by chance, perhaps.
        let is_steady = here.judged >= 2 && here.rates.is_steady();
        (self.is_full && has_tried_more && is_believed)
            || ((self.is_full || is_last) && is_steady)
            || is_open
    }

    /// Nothing more will be seen: what has been seen of a level that was never judged is judged.
    pub fn close(&mut self) {
        if self.now.looks > 0 && self.levels.of(self.active).is_none() {
            self.judge();
        }
    }

    /// There is no time for more. What was not shown to be in vain is kept, and not called full.
    pub fn hurry(&mut self) {
        self.close();
        let fewer = self.levels.below(self.active).filter(|_| self.is_free);
        if fewer.is_some_and(|fewer| self.levels.gain(fewer, self.active) == Some(Gain::None)) {
            self.descend();
        }
    }

    /// What it has carried; nothing of what was never seen.
    pub fn carried(&self) -> Carried {
        let rate_of = |level: &Level| level.rates.mean(0.0).rate_bps as u64;
        let one = self.levels.one();
        let best = self.levels.all().max_by_key(|level| rate_of(level));
        // What a few more connections had beyond those that are used was not worth having them.
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
