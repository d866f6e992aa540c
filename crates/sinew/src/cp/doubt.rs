//! Whether a copy goes as it was foretold, and whether another way would be faster: then it is broken off
//! and goes on by that way.

use super::route::{Planned, Prediction};
use base::NodeAddr;
use host::relay::origin::Segment;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A segment is judged by so many seconds. Choice: so often nodes tell the network what segments carry.
const SECONDS: u32 = 10;
/// The first ones do not count: connections start slowly, and their number is found out.
const WARM_SECONDS: u32 = 10;
/// Another way must promise so much more, in per cent of what is achieved: what is on its way is sent again.
const GAIN_PCT: u64 = 130;
/// A segment that idles more than so many 1000ths of the time waits for another.
const IDLE_PERMILLE: u32 = 250;

/// From and to.
type Ends = (NodeAddr, NodeAddr);

/// What the segments of a copy carry.
#[derive(Debug, Default)]
struct Seen {
    warm: u32,
    segments: BTreeMap<Ends, Sum>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    seconds: u32,
    rate_bps: u64,
    idle: u32,
}

impl Seen {
    /// A second of a segment. Once there are enough: what the one carries for which the others wait.
    fn on_segment(&mut self, ends: Ends, told: &Segment) -> Option<u64> {
        let sum = self.segments.entry(ends).or_default();
        sum.seconds += 1;
        sum.rate_bps += told.rate_bps;
        sum.idle += u32::from(told.waited) + u32::from(told.starved);
        if sum.seconds < SECONDS {
            return None;
        }
        let segments = std::mem::take(&mut self.segments);
        if self.warm < WARM_SECONDS {
            self.warm += SECONDS;
            return None;
        }
        let slowest = segments.values().min_by_key(|sum| sum.idle / sum.seconds)?;
        let is_held_up = slowest.idle / slowest.seconds < IDLE_PERMILLE;
        is_held_up.then(|| slowest.rate_bps / u64::from(slowest.seconds))
    }
}

/// Watches one attempt.
pub(super) struct Doubt<'a> {
    predicted: Option<Prediction>,
    nodes: Vec<NodeAddr>,
    /// The plan as the network is now.
    again: &'a (dyn Fn() -> Option<Planned> + Sync),
    seen: Mutex<Seen>,
    stop: Arc<AtomicBool>,
}

impl<'a> Doubt<'a> {
    /// Of an attempt that goes as planned, which `stop` ends.
    pub(super) fn of(
        planned: &Planned,
        again: &'a (dyn Fn() -> Option<Planned> + Sync),
        stop: &Arc<AtomicBool>,
    ) -> Doubt<'a> {
        Doubt {
            predicted: planned.predicted,
            nodes: planned.nodes.clone(),
            again,
            seen: Mutex::default(),
            stop: Arc::clone(stop),
        }
    }

    pub(super) fn on_segment(&self, ends: Ends, told: &Segment) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let achieved = seen.on_segment(ends, told);
        let foretold = self.predicted.filter(|p| p.is_known).map(|p| p.low_bps);
        let slow = achieved.filter(|bps| foretold.is_none_or(|low| *bps < low));
        let Some(achieved) = slow else {
            return;
        };
        if (self.again)().is_some_and(|plan| is_better(&plan, &self.nodes, achieved)) {
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}

/// Another way is so much faster than what is achieved that it is worth going on by it.
fn is_better(plan: &Planned, nodes: &[NodeAddr], achieved_bps: u64) -> bool {
    let least = plan.predicted.filter(|p| p.is_known).map(|p| p.low_bps);
    let wanted = achieved_bps.saturating_mul(GAIN_PCT) / 100;
    plan.nodes != nodes && least.is_some_and(|least| least > wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(rate_bps: u64, waited: u16) -> Segment {
        Segment {
            rate_bps,
            waited,
            ..Segment::default()
        }
    }

    fn planned(nodes: &[u32], low_bps: u64, is_known: bool) -> Planned {
        Planned {
            bytes: Vec::new(),
            nodes: nodes.iter().map(|n| NodeAddr(*n)).collect(),
            predicted: Some(Prediction {
                rate_bps: 2 * low_bps,
                low_bps,
                high_bps: None,
                confidence: "model",
                is_known,
            }),
            is_around: false,
        }
    }

    #[test]
    fn the_segment_that_is_never_idle_is_judged_once_it_is_warm() {
        let [a, b, c] = [1, 2, 3].map(NodeAddr);
        let mut seen = Seen::default();
        let mut judged = Vec::new();
        for _ in 0..30 {
            judged.extend(seen.on_segment((a, b), &told(9_000, 900)));
            judged.extend(seen.on_segment((b, c), &told(5_000, 0)));
        }
        assert_eq!(
            judged,
            [5_000, 5_000],
            "each ten seconds after the first ten"
        );
        let mut idle = Seen::default();
        let never = (0..50).find_map(|_| idle.on_segment((a, b), &told(5_000, 400)));
        assert_eq!(never, None, "somebody else is slow");
    }

    #[test]
    fn a_faster_way_ends_what_is_slower_than_foretold() {
        let run = |foretold: &Planned, other: Planned| {
            let other = Mutex::new(Some(other));
            let again = || other.lock().unwrap().take();
            let stop = Arc::default();
            let doubt = Doubt::of(foretold, &again, &stop);
            for _ in 0..20 {
                doubt.on_segment((NodeAddr(1), NodeAddr(2)), &told(5_000, 0));
            }
            stop.load(Ordering::Relaxed)
        };
        let slow = planned(&[1, 2], 8_000, true);
        assert!(run(&slow, planned(&[1, 3, 2], 7_000, true)));
        assert!(
            !run(&slow, planned(&[1, 3, 2], 6_000, true)),
            "hardly faster"
        );
        assert!(
            !run(&slow, planned(&[1, 3, 2], 90_000, false)),
            "nobody knows"
        );
        assert!(!run(&slow, planned(&[1, 2], 90_000, true)), "the same way");
        let as_foretold = planned(&[1, 2], 4_000, true);
        assert!(!run(&as_foretold, planned(&[1, 3, 2], 7_000, true)));
    }
}
