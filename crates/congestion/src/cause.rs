//! Decides which losses are congestion, for a control that would otherwise take each loss for congestion.
//!
//! ```text
//!   a loss while a queue stands, of a path whose      congestion: what the queue holds is given up
//!     queue is deep
//!   more than windows no wider have lost and 2 %,     congestion: of a queue too short to be seen,
//!     beyond what chance makes of that                  of a policer
//!   any loss for a while after that, where no deep    congestion: others may share what cannot be seen
//!     queue was seen
//!   any other                                         the path's own: it is sent again, no more
//! ```
//!
//! Next to TCP, a bottleneck loses packets when its queue is full. A control that asks here cuts when TCP cuts, and
//! keeps its fair share. Losses of a radio or a bad cable cost it only the repetition. While a short queue stands, they
//! cost no more of the window than this queue ([`Causes::kept`]).
//!
//! A policer and a queue of a few packets lose packets without a delay. In front of these, TCP gets only what other
//! traffic leaves, and its own bursts lose as well, so a few losses do not prove that the others have enough. Two
//! things distinguish such a path from a bad cable: a wider window loses more, and in front of a cable a queue appears
//! before it overflows. So growing in spite of losses is a trial. It ends with a deep queue or with too many losses.
//!
//! ```text
//!   trial: all are spared ──more than windows no wider lost──▶ peace: as TCP, 10 s, 20 s ... 320 s ──▶ trial
//!     │                                                          │
//!     └──────── a deep queue is seen ──▶ known, for two minutes ◀┘   too many then cost one cut
//! ```
//!
//! Two things look like a queue. Jitter delays some packets, and unevenly ([`Roughness`]); a queue delays all packets
//! for a round trip. A path that has become longer stays level ([`rise`]).
//!
//! State: the least round trip of the last minutes, the last round trips, the losses of windows of each width, and
//! whether the path is on trial, at peace or known.

mod rise;
#[cfg(test)]
mod tests;

use rise::Rise;

use crate::delivery::Delivered;
use crate::roughness::Roughness;
use base::{Duration, Time};

/// The least round trip is forgotten after one to two of these: routes change. Choice: long compared with the times for
/// which several flows keep a queue from ever being empty. If the least round trip were forgotten sooner, that queue
/// would be taken for the path, and its losses for the path's own.
const MEMORY: Duration = Duration::from_secs(120);
/// A queue stands when the shortest of the last round trips exceeds the least by this share, and by [`QUEUE`].
const QUEUE_SHARE: f64 = 1.0 / 8.0;
const QUEUE: Duration = Duration::from_millis(1);
/// A queue that grows to this multiple is deep. Choice: losses without a queue on such a path were not caused by its
/// queue. Bursts of TCP, which overflow a shorter queue before it is seen, fit into twice the length that is not seen.
const DEEP: f64 = 3.0;
/// A queue stands if the shortest of this number of round trips is long, and also the shortest of each of these parts
/// of the last one. Choice: a whole round trip, because a busy host or a radio delays some of its packets and not all.
const RECENT: usize = 8;
const PARTS: usize = 4;
/// Losses beyond the path's own by this share are congestion (draft-ietf-ccwg-bbr: BBR.LossThresh).
const BEYOND: f64 = 0.02;
/// Choice: the share that a path may lose by itself, as in [`crate::bbr`]. Paths that lose more are congested by
/// somebody, or of no use.
const OWN_MAX: f64 = 0.1;
/// Number of packets over which a judgement is made; beyond it, half of them are forgotten. Choice: with 750 of them, 2
/// % plus what chance adds are 4 %.
const JUDGED: f64 = 1_000.0;
/// The number of losses that may occur together by chance. Choice: a judgement is made with each acknowledgement, and
/// three deviations of few losses are a loss or two.
const CHANCE: f64 = 3.0;
/// The maximum number of packets of one width that are remembered, and the number from which they are meaningful: at 5
/// %, ten losses.
const KNOWN_MAX: f64 = 1_000.0;
const KNOWN: f64 = 200.0;
/// Number of window widths, two per octave: the last is of 46 341 packets and more.
const WIDTHS: usize = 32;
/// Number of narrower widths that show what the path loses by itself: down to a quarter of the window.
const NARROWER: usize = 4;
/// How long each loss counts as congestion, at first and at most. The time doubles after each trial that finds no
/// queue. Choice: a trial takes a few seconds, in which other traffic gets little.
const PEACE: Duration = Duration::from_secs(10);
const PEACE_MAX: Duration = Duration::from_secs(320);
/// A path that loses less than this share is considered free of own losses.
const LOSES: f64 = 0.001;

/// A count of packets that were answered or lost.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    lost: f64,
    all: f64,
}

impl Share {
    fn add(&mut self, other: Share, most: f64) {
        self.lost += other.lost;
        self.all += other.all;
        if self.all > most {
            self.lost /= 2.0;
            self.all /= 2.0;
        }
    }

    fn value(self) -> f64 {
        self.lost / self.all.max(1.0)
    }

    /// Returns true if more is lost than this share and chance explain.
    fn exceeds(self, share: f64) -> bool {
        let expected = self.all * share;
        self.lost > CHANCE + expected + 3.0 * expected.sqrt()
    }
}

/// The observer of the losses of one sender.
#[derive(Clone, Debug)]
pub struct Causes {
    least: [Option<Duration>; 2],
    span_ends: Time,
    recent: [Duration; RECENT],
    count: usize,
    /// The shortest round trip of each part of the last round trip, the newest first, and when the newest part began.
    parts: [Duration; PARTS + 1],
    part_since: Time,
    /// The variation of the round trips by jitter.
    roughness: Roughness,
    /// A rise that looks like a queue at present.
    rise: Option<Rise>,
    /// The number of arrived packets at the start of the round. The round ends when a packet that was sent after that
    /// is answered.
    round_ends: f64,
    round: Share,
    /// The maximum in flight in this round and in the one before.
    flights: [f64; 2],
    /// The losses by windows of each width.
    widths: [Share; WIDTHS],
    judged: Share,
    /// When a deep queue was seen last.
    deep_at: Option<Time>,
    now: Time,
    /// Until this time, each loss is congestion.
    peace_ends: Time,
    /// The length of the next peace.
    peace: Duration,
}

impl Default for Causes {
    fn default() -> Causes {
        Causes {
            least: [None; 2],
            span_ends: Time::ZERO,
            recent: [Duration::MAX; RECENT],
            count: 0,
            parts: [Duration::MAX; PARTS + 1],
            part_since: Time::ZERO,
            roughness: Roughness::default(),
            rise: None,
            round_ends: 0.0,
            round: Share::default(),
            flights: [0.0; 2],
            widths: [Share::default(); WIDTHS],
            judged: Share::default(),
            deep_at: None,
            now: Time::ZERO,
            peace_ends: Time::ZERO,
            peace: PEACE,
        }
    }
}

impl Causes {
    /// Handles an acknowledgement of something new.
    pub fn on_delivered(&mut self, told: &Delivered) {
        self.now = told.now;
        if let Some(rtt) = told.rtt {
            self.on_rtt(rtt);
        }
        // A deep queue is seen in the round trip in which it grows.
        if self.is_longer(self.recent.iter(), DEEP) {
            (self.deep_at, self.peace_ends, self.peace) = (Some(self.now), self.now, PEACE);
        }
        self.flights[0] = self.flights[0].max(told.in_flight + told.segments + told.lost);
        self.look_for_longer_path(told);
        self.judge(Share {
            lost: told.lost,
            all: told.segments + told.lost,
        });
        if told
            .sample
            .is_some_and(|sample| sample.prior >= self.round_ends)
        {
            self.round_ends = told.total;
            let round = core::mem::take(&mut self.round);
            self.widths[width(self.flights[1])].add(round, KNOWN_MAX);
            self.flights = [0.0, self.flights[0]];
        }
    }

    /// Checks whether what looks like a queue is a path that has become longer.
    fn look_for_longer_path(&mut self, told: &Delivered) {
        let known = self.least().zip(self.shortest());
        let Some((least, shortest)) = known.filter(|_| self.is_queued()) else {
            self.rise = None;
            return;
        };
        let flight = self.flights[0].max(self.flights[1]);
        let jitter = self.roughness.spread().div(2);
        let rise = self
            .rise
            .get_or_insert(Rise::new(self.now, shortest, flight));
        rise.on_delivered(told, shortest, flight, (least, jitter));
        let rise = *rise;
        if rise.is_level_for_long(self.now, least) && self.is_usual(rise.share) {
            self.least = [Some(rise.low), None];
            self.span_ends = self.now + MEMORY;
            (self.rise, self.deep_at) = (None, None);
        }
    }

    /// Returns true if no more is lost than without a queue.
    fn is_usual(&self, share: Share) -> bool {
        let usual = least_lost(&self.widths).filter(|usual| *usual >= LOSES);
        share.lost == 0.0 || usual.is_some_and(|usual| !share.exceeds(usual))
    }

    fn on_rtt(&mut self, rtt: Duration) {
        if self.now >= self.span_ends {
            self.least = [None, self.least[0]];
            self.span_ends = self.now + MEMORY;
        }
        self.least[0] = Some(self.least[0].map_or(rtt, |known| known.min(rtt)));
        self.recent[self.count % RECENT] = rtt;
        self.count += 1;
        if self.now.since(self.part_since) * PARTS as u64 >= rtt {
            self.parts.rotate_right(1);
            self.parts[0] = rtt;
            self.part_since = self.now;
            self.roughness.on_sample(self.now - rtt, rtt);
        }
        self.parts[0] = self.parts[0].min(rtt);
    }

    fn judge(&mut self, fresh: Share) {
        let is_queued = self.is_queued();
        if !is_queued {
            self.round.add(fresh, f64::MAX);
        }
        // A deep queue announces its losses. A path whose queue is not known to be deep is on trial with all its
        // losses.
        if self.now < self.peace_ends || is_queued && self.is_deep() {
            self.judged = Share::default();
            return;
        }
        self.judged.add(fresh, JUDGED);
        if !self.judged.exceeds(self.own() + BEYOND) {
            return;
        }
        self.judged = Share::default();
        if self.is_deep() {
            self.peace_ends = self.now + self.shortest().unwrap_or_default();
        } else {
            self.peace_ends = self.now + self.peace;
            self.peace = (self.peace * 2).min(PEACE_MAX);
        }
    }

    /// Returns what the path loses by itself: the least share that windows of this width and narrower ones have lost.
    fn own(&self) -> f64 {
        let at = width(self.flights[1].max(self.flights[0]));
        let no_wider = &self.widths[at.saturating_sub(NARROWER)..=at];
        least_lost(no_wider).unwrap_or_default().min(OWN_MAX)
    }

    fn is_deep(&self) -> bool {
        self.deep_at.is_some_and(|at| self.now < at + MEMORY)
    }

    /// Returns the share of the window that may be kept at most after a loss, for a control that keeps `kept` after
    /// congestion. It is the whole window if the loss is not congestion, or if a trial is going on. If a queue stands
    /// that is shorter than what the control would give up, it is the part of the window that is on the path beside the
    /// queue.
    pub fn kept(&self, kept: f64) -> f64 {
        match (self.least(), self.shortest()) {
            _ if self.now < self.peace_ends => kept,
            (Some(_), Some(_)) if !self.is_queued() || !self.is_deep() => 1.0,
            (Some(least), Some(shortest)) => {
                let on_path = least.as_secs_f64() / shortest.as_secs_f64().max(1e-9);
                on_path.clamp(kept, 1.0)
            }
            _ => kept,
        }
    }

    fn shortest(&self) -> Option<Duration> {
        shortest(self.recent.iter().chain(&self.parts))
    }

    fn least(&self) -> Option<Duration> {
        let known = self.least.into_iter().flatten();
        known.min()
    }

    fn is_queued(&self) -> bool {
        self.is_longer(self.recent.iter().chain(&self.parts), 1.0)
    }

    fn is_longer<'a>(&self, rtts: impl Iterator<Item = &'a Duration>, times: f64) -> bool {
        match (self.least(), shortest(rtts)) {
            (Some(least), Some(shortest)) => {
                // The shortest of many round trips exceeds the least by at most half of what jitter adds to a single
                // one.
                let jitter = self.roughness.spread().div(2);
                let queue = least.mul_f64(QUEUE_SHARE).max(QUEUE).mul_f64(times);
                shortest > least + queue + jitter
            }
            _ => false,
        }
    }
}

/// Returns the least share that windows of these widths have lost, of the widths that are known.
fn least_lost(widths: &[Share]) -> Option<f64> {
    let known = widths.iter().filter(|share| share.all >= KNOWN);
    known.map(|share| share.value()).reduce(f64::min)
}

/// Returns the shortest of the known round trips.
fn shortest<'a>(rtts: impl Iterator<Item = &'a Duration>) -> Option<Duration> {
    rtts.min().copied().filter(|rtt| *rtt != Duration::MAX)
}

fn width(window: f64) -> usize {
    ((2.0 * window.max(1.0).log2()) as usize).min(WIDTHS - 1)
}
