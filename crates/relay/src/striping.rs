//! How many of a segment's connections are used, and what that tells of the segment. [Liu04 §III-C]
//!
//! ```text
//!   1 ──▶ 2 ──▶ 4 ──▶ … most      each level: a second to settle, then a second that is judged. With several
//!                                  uplinks, the first level has a connection for each
//!   └──── back to the last level that helped, once twice as many carry less than a fifth more in three
//!         judgements, or the round trip has grown by more than 20 ms: what they carry is then what the
//!         segment has
//! ```
//! "Too many parallel connections can cause more congestion to those already congested links" [Liu04
//! §III-C]: so more are used only while they carry more. A connection whose own queue delays it has filled
//! the segment already, and is given no company.
//!
//! What was seen at each level is kept apart: one connection alone, and those of a level together. Two that
//! carry what one did are the segment's capacity; nothing is ever divided or multiplied here. Only
//! spans in which the network alone held the segment back count, not those in which it waited for data
//! or for the next node.

/// How often a segment is looked at. Choice: some round trips of most paths.
pub const LOOK_US: u64 = 500_000;
/// What is seen so soon after a change of the level does not count: new connections start slowly.
const SETTLE_LOOKS: u32 = 2;
/// So many looks make a judgement. Choice: with losses of half a per cent a second of 20 Mbit/s has eight
/// of them, and its rate is off by a tenth.
const JUDGE_LOOKS: u32 = 2;
/// Twice as many connections help if they carry so much more, in per cent.
const GAIN_PCT: u64 = 20;
/// So many judgements of more connections that gain nothing are made before they go. Choice: where losses
/// set the pace, a second of one connection is off by a quarter; one judgement of each in fifteen would be wrong.
const PATIENCE: u32 = 3;
/// So many judgements have to find a queue. Choice: a second for a burst to go away.
const SURE: u32 = 2;
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
/// A level is steady once two judgements one after the other are so close, in per cent. Choice: a connection that comes
/// to its share within ten seconds changes by a tenth or more in each.
const STEADY_PCT: u64 = 12;
/// What was measured may be off by this at least, in per cent.
const SPREAD_LEAST_PCT: u8 = 10;
/// Judged seconds whose extremes are kept, for the spread.
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
    /// The last judgement of each level that was tried, by connections.
    levels: Vec<(u8, Level)>,
    /// Looks since something was tried.
    calm: u32,
    is_full: bool,
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
}

/// What a level carries.
#[derive(Clone, Copy, Debug)]
struct Level {
    /// Smoothed over the judgements.
    rate_bps: u64,
    /// The last judgement.
    last_bps: u64,
    /// It is close to the one before.
    is_steady: bool,
    /// The least and the most of them.
    range: (u64, u64),
    rtt_us: u32,
    /// So many judgements in a row, up to the last one, have found a queue.
    queued: u32,
    /// Judgements since it was taken up.
    judged: u32,
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
            levels: Vec::new(),
            calm: 0,
            is_full: false,
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
        self.levels.retain(|(count, _)| *count <= self.most);
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
        let here = self.note(rate_bps, rtt_us, is_queueing);
        let has_filled = here.queued >= SURE;
        if !self.is_free {
            self.is_full |= has_filled;
            return;
        }
        if self.was_misjudged() && !is_queueing {
            // Before what is below is believed: it was seen even earlier.
            return self.climb();
        }
        let Some(fewer) = self.below(self.active) else {
            // One connection: more are tried unless it queues already.
            // Once more were tried and gained nothing, that stays known.
            let has_tried_more = self.levels.len() >= 2;
            self.is_full = has_filled || (self.is_full && has_tried_more);
            let is_untried = !has_tried_more || self.calm >= RETRY_LOOKS;
            if !is_queueing && is_untried {
                self.climb();
            }
            return;
        };
        let Some(before) = self.sober(fewer) else {
            return;
        };
        let (gains, rises) = (here.gains_over(&before), here.rises_over(&before));
        if (rises && here.judged < SURE) || (is_queueing && !has_filled) {
            // New connections begin with a burst, and hosts stand still for a moment.
            return;
        }
        if rises || (!gains && here.judged >= PATIENCE) {
            self.is_full = true;
            self.set(fewer);
        } else if is_queueing {
            self.is_full = true;
        } else if gains
            && (self.levels.iter().all(|(count, _)| *count <= self.active)
                || self.calm >= RETRY_LOOKS)
        {
            self.is_full = false;
            self.climb();
        }
    }

    fn note(&mut self, rate_bps: u64, rtt_us: u32, is_queueing: bool) -> Level {
        let fresh = Level {
            rate_bps,
            last_bps: rate_bps,
            is_steady: false,
            range: (rate_bps, rate_bps),
            rtt_us,
            queued: u32::from(is_queueing),
            judged: 1,
        };
        let found = self
            .levels
            .iter_mut()
            .find(|(count, _)| *count == self.active);
        let Some((_, level)) = found else {
            self.levels.push((self.active, fresh));
            return fresh;
        };
        // Choice: half of the last judgement, so that a path which changes is followed in some seconds.
        level.rate_bps = level.rate_bps / 2 + rate_bps / 2;
        let before_bps = std::mem::replace(&mut level.last_bps, rate_bps);
        level.is_steady = rate_bps.abs_diff(before_bps) * 100 <= before_bps * STEADY_PCT;
        level.rtt_us = level.rtt_us / 2 + rtt_us / 2;
        level.range = (level.range.0.min(rate_bps), level.range.1.max(rate_bps));
        level.queued = if is_queueing { level.queued + 1 } else { 0 };
        level.judged += 1;
        *level
    }

    /// The next level was left because of what this one had by chance: by what it has now, it gains.
    fn was_misjudged(&self) -> bool {
        let above = self.levels.iter().filter(|(count, _)| *count > self.active);
        let next = above.min_by_key(|(count, _)| *count);
        let (Some((_, next)), Some(here)) = (next, self.sober(self.active)) else {
            return false;
        };
        here.judged >= PATIENCE && next.gains_over(&here) && !next.rises_over(&here)
    }

    fn level(&self, count: u8) -> Option<Level> {
        let found = self.levels.iter().find(|(n, _)| *n == count);
        found.map(|(_, level)| *level)
    }

    /// A level, as more connections are compared with it: no connection carries more because there are others
    /// beside it, so what is more than its share of a lower level is the burst that a new one begins with.
    fn sober(&self, count: u8) -> Option<Level> {
        let mut level = self.level(count)?;
        for (fewer, below) in self.levels.iter().filter(|(fewer, _)| *fewer < count) {
            let most_bps = below.rate_bps.saturating_mul(count.into()) / u64::from(*fewer);
            level.rate_bps = level.rate_bps.min(most_bps);
        }
        Some(level)
    }

    /// The level below, if there is one.
    fn below(&self, count: u8) -> Option<u8> {
        let tried = self.levels.iter().map(|(n, _)| *n);
        tried.filter(|n| *n < count).max()
    }

    fn climb(&mut self) {
        let next = self.active.saturating_mul(2).min(self.most);
        if next > self.active {
            // What was seen there at another time is not held against it.
            self.levels.retain(|(count, _)| *count != next);
            self.set(next);
        }
    }

    fn set(&mut self, count: u8) {
        (self.active, self.looks, self.calm) = (count, 0, 0);
        for (_, level) in &mut self.levels {
            (level.judged, level.queued) = (0, 0);
        }
        self.now = Sum::default();
    }

    /// It has found what it wanted to know: more would not help, or there are no more. What was not compared with more
    /// has to be steady: one that fills a queue by itself may share it with others, and comes to its share only by and
    /// by; new ones on a path with losses begin with several times their share.
    pub fn is_settled(&self) -> bool {
        let has_tried_more = self.levels.iter().any(|(count, _)| *count > self.active);
        let is_steady = self.level(self.active).is_some_and(|here| here.is_steady);
        let is_last = self.active == self.most && !self.is_in_vain();
        (self.is_full && has_tried_more) || ((self.is_full || is_last) && is_steady)
    }

    /// Nothing more will be seen: what has been seen of a level that was never judged is judged.
    pub fn close(&mut self) {
        if self.now.looks > 0 && self.level(self.active).is_none() {
            self.judge();
        }
    }

    /// There is no time for more: a level that has gained nothing so far is not waited for.
    pub fn hurry(&mut self) {
        self.close();
        if let (true, Some(fewer)) = (self.is_free && self.is_in_vain(), self.below(self.active)) {
            self.is_full = true;
            self.set(fewer);
        }
    }

    /// The level in use carries no more than the one below, as far as it was judged.
    fn is_in_vain(&self) -> bool {
        let fewer = self.below(self.active).and_then(|fewer| self.sober(fewer));
        let here = self.level(self.active);
        here.zip(fewer)
            .is_some_and(|(here, fewer)| !here.gains_over(&fewer))
    }

    /// What it has carried; nothing of what was never seen.
    pub fn carried(&self) -> Carried {
        let one = self.level(1);
        let best = self.levels.iter().max_by_key(|(_, level)| level.rate_bps);
        // What a few more connections had beyond those that are used was not worth having them.
        let kept = self.levels.iter().find(|(count, _)| *count == self.active);
        let best = kept.filter(|_| self.is_full).or(best);
        let used = self.level(self.active).or(best.map(|(_, level)| *level));
        let spread = used.map_or(0, |level| {
            let off = level.range.1.saturating_sub(level.range.0) / 2;
            off.saturating_mul(100) / level.rate_bps.max(1)
        });
        let spread = u8::try_from(spread).unwrap_or(SPREAD_MAX_PCT);
        Carried {
            one_bps: one.map(|level| level.rate_bps),
            together_bps: best.map(|(_, level)| level.rate_bps),
            is_full: self.is_full && best.is_some(),
            spread_pct: spread.clamp(SPREAD_LEAST_PCT, SPREAD_MAX_PCT),
        }
    }
}

impl Level {
    fn gains_over(&self, fewer: &Level) -> bool {
        self.rate_bps.saturating_mul(100) >= fewer.rate_bps.saturating_mul(100 + GAIN_PCT)
    }

    fn rises_over(&self, fewer: &Level) -> bool {
        self.rtt_us > fewer.rtt_us.saturating_add(RTT_RISE_US)
    }
}

#[cfg(test)]
mod tests;
