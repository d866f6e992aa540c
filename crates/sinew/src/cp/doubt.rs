//! Compares the rate of a copy with the prediction. If another path would be faster, the attempt stops, and the copy
//! continues over that path.

use super::route::{Planned, Prediction};
use base::NodeAddr;
use host::relay::origin::Segment;
use overlay::snapshot::NetworkSnapshot;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Seconds over which a segment is measured. Choice: nodes announce the rates of segments at this interval.
const SECONDS: u32 = 10;
/// The first seconds do not count: connections start slowly, and their number is still being determined.
const WARM_SECONDS: u32 = 10;
/// How much more another path must promise, in per cent of the present rate: the data in flight must be sent again.
const GAIN_PCT: u64 = 130;
/// A segment that is idle for a larger share of the time, in 1000ths, waits for another segment.
const IDLE_PERMILLE: u32 = 250;

/// The first and the last node of a segment.
type Ends = (NodeAddr, NodeAddr);

/// The rates of segments that differ from their prediction, in bits per second. The nodes announce such rates only once
/// they are sure, but the copy knows them now.
#[derive(Clone, Debug, Default)]
pub(super) struct Achieved(BTreeMap<Ends, u64>);

impl Achieved {
    fn note(&mut self, ends: Ends, bps: u64) {
        self.0.insert(ends, bps);
    }

    /// Replaces the known rates of these segments in the snapshot, as the whole capacity of their links.
    pub(super) fn put_into(&self, network: &mut NetworkSnapshot) {
        for link in &mut network.links {
            let ends = link.from.parse().ok().zip(link.to.parse().ok());
            if let Some(bps) = ends.and_then(|ends| self.0.get(&ends)) {
                let kbps = u32::try_from(bps / 1_000).unwrap_or(u32::MAX).max(1);
                link.measured_kbps = Some(link.measured_kbps.map_or(kbps, |one| one.min(kbps)));
                (link.together_kbps, link.together_is_all) = (Some(kbps), true);
            }
        }
    }
}

/// The rates of a copy's segments.
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
    /// Adds a second of a segment. Once there are enough seconds, the function returns the segment for which the others
    /// wait, and its rate.
    fn on_segment(&mut self, ends: Ends, told: &Segment) -> Option<(Ends, u64)> {
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
        let slowest = segments
            .iter()
            .min_by_key(|(_, sum)| sum.idle / sum.seconds)?;
        let (ends, slowest) = slowest;
        let is_held_up = slowest.idle / slowest.seconds < IDLE_PERMILLE;
        is_held_up.then(|| (*ends, slowest.rate_bps / u64::from(slowest.seconds)))
    }
}

/// Makes a plan with the present snapshot of the network and the achieved rates.
pub(super) type Again<'a> = &'a (dyn Fn(&Achieved) -> Option<Planned> + Sync);

/// Watches the rates of one attempt.
pub(super) struct Doubt<'a> {
    predicted: Option<Prediction>,
    /// The route of the attempt, as it was requested.
    route: Vec<u8>,
    again: Again<'a>,
    seen: Mutex<Seen>,
    /// Rates of this attempt and of earlier ones.
    achieved: &'a Mutex<Achieved>,
    stop: Arc<AtomicBool>,
}

impl<'a> Doubt<'a> {
    /// Watches an attempt that follows this plan. `stop` ends the attempt.
    pub(super) fn of(
        planned: &Planned,
        again: Again<'a>,
        achieved: &'a Mutex<Achieved>,
        stop: &Arc<AtomicBool>,
    ) -> Doubt<'a> {
        Doubt {
            predicted: planned.predicted,
            route: planned.bytes.clone(),
            again,
            seen: Mutex::default(),
            achieved,
            stop: Arc::clone(stop),
        }
    }

    pub(super) fn on_segment(&self, ends: Ends, told: &Segment) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let carried = seen.on_segment(ends, told);
        let foretold = self.predicted.filter(|p| p.is_known).map(|p| p.low_bps);
        let slow = carried.filter(|(_, bps)| foretold.is_none_or(|low| *bps < low));
        let Some((slowest, bps)) = slow else {
            return;
        };
        let achieved = &mut *self.achieved.lock().unwrap_or_else(PoisonError::into_inner);
        achieved.note(slowest, bps);
        if (self.again)(achieved).is_some_and(|plan| is_better(&plan, &self.route, bps)) {
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}

/// Returns true if another path is so much faster than the achieved rate that the copy should change to it.
fn is_better(plan: &Planned, route: &[u8], achieved_bps: u64) -> bool {
    let least = plan.predicted.filter(|p| p.is_known).map(|p| p.low_bps);
    let wanted = achieved_bps.saturating_mul(GAIN_PCT) / 100;
    plan.bytes != route && least.is_some_and(|least| least > wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use overlay::snapshot::KnownLink;
    use tools::explain::{self, PlanAsked};

    fn told(rate_bps: u64, waited: u16) -> Segment {
        Segment {
            rate_bps,
            waited,
            ..Segment::default()
        }
    }

    fn planned(nodes: &[u32], low_bps: u64, is_known: bool) -> Planned {
        Planned {
            bytes: nodes.iter().flat_map(|n| n.to_be_bytes()).collect(),
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
            [((b, c), 5_000); 2],
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
            let again = |_: &Achieved| other.lock().unwrap().take();
            let (stop, achieved) = (Arc::default(), Mutex::default());
            let doubt = Doubt::of(foretold, &again, &achieved, &stop);
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

    #[test]
    fn a_copy_leaves_the_short_link_that_loses_a_fifth() {
        // The prediction was 127.8 Mbit/s (44 to 141), and the copy achieved 6.6. The other path carries 95.
        let link = |from: u32, to: u32, kbps| KnownLink {
            from: NodeAddr(from).to_string(),
            to: NodeAddr(to).to_string(),
            latency_us: 100,
            loss: 0,
            price_us: 0,
            strikes: 0,
            run_256ths: None,
            repair_16ths: 0,
            capacity_kbps: None,
            measured_kbps: Some(kbps),
            together_kbps: Some(kbps),
            together_is_all: false,
            spread_pct: 10,
            hops: None,
            over_tcp: false,
        };
        let mut network: NetworkSnapshot = serde_json::from_value(serde_json::json!({
            "teller": null, "profile": "", "detect_us": 0, "late_us": 0, "nodes": [],
            "links": [], "holds": [], "rule": {
                "spacing_s": 0.0, "worse_s": 0.0, "worse_unclear_s": 0.0, "better_s": 0.0,
                "better_unclear_s": 0.0, "better_max_s": 0.0,
            },
        }))
        .unwrap();
        network.links = vec![link(1, 2, 120_000), link(1, 3, 95_000), link(3, 2, 95_000)];
        let again = |achieved: &Achieved| {
            let mut network = network.clone();
            achieved.put_into(&mut network);
            let view = explain::View::new(network).unwrap();
            let ends = [1, 2].map(|n| NodeAddr(n).to_string());
            let plan = explain::plan(&view, &ends[0], &ends[1], &PlanAsked::default()).unwrap();
            let best = plan.best();
            Some(Planned {
                bytes: best.addresses.join(" ").into_bytes(),
                predicted: Some(Prediction {
                    rate_bps: best.rate_bps,
                    low_bps: best.low_bps,
                    high_bps: best.high_bps,
                    confidence: best.confidence,
                    is_known: best.known,
                }),
                is_around: false,
            })
        };
        let by = |nodes: &[u32]| {
            let nodes = nodes.iter().map(|n| NodeAddr(*n).to_string());
            nodes.collect::<Vec<_>>().join(" ").into_bytes()
        };
        let before = again(&Achieved::default()).unwrap();
        assert_eq!(before.bytes, by(&[1, 2]), "so it was foretold");
        let (stop, achieved) = (Arc::default(), Mutex::default());
        let doubt = Doubt::of(&before, &again, &achieved, &stop);
        let ended = (1..60).find(|_| {
            doubt.on_segment((NodeAddr(1), NodeAddr(2)), &told(6_600_000, 0));
            stop.load(Ordering::Relaxed)
        });
        assert_eq!(ended, Some(20), "seconds");
        let after = again(&achieved.lock().unwrap()).unwrap();
        assert_eq!(after.bytes, by(&[1, 3, 2]), "the next attempt");
    }
}
