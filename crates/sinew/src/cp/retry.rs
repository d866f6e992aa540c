//! How a copy continues after a failure: which failures are worth another attempt, when, and over which path.
//!
//! ```text
//!   attempt ──▶ broke: a segment or a relay is avoided for a while ──▶ another way? at once
//!      ▲                                                             └▶ none: wait, 0.25 s … 2 s
//!      └──────────────── until so long nothing has moved (`--give-up`) ────────────┘
//! ```
//! Received data stays at the sink, so each attempt begins with it.

use base::NodeAddr;
use host::relay::failure::{Failure, FailureKind};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// How long nothing may move before a copy that has begun is given up, by default.
pub(super) const GIVE_UP: Duration = Duration::from_secs(3_600);
/// The first pause between two attempts, and the longest one. Choice: an attempt that finds a host unreachable tries it
/// at 0, 1, 3 and 7 s, so the copy continues within five seconds after the host is back.
const PAUSE: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// How long a failed path is avoided if there is another one. Choice: a permanent failure is in the overlay's routes by
/// then.
const AVOID: Duration = Duration::from_secs(60);

/// What a copy avoids if there is another path.
#[derive(Clone, Debug, Default)]
pub(super) struct Avoided {
    nodes: BTreeMap<NodeAddr, Instant>,
    /// Segments, with the lower address first.
    segments: BTreeMap<(NodeAddr, NodeAddr), Instant>,
    /// Nodes whose operators have cancelled the copy there: these are never used.
    pub(super) cancelled: BTreeSet<NodeAddr>,
}

impl Avoided {
    /// Returns true if nothing is avoided.
    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty() && self.segments.is_empty() && self.cancelled.is_empty()
    }

    /// Returns true if a segment is avoided, because of itself or of a node at its end.
    pub(super) fn has(&self, from: NodeAddr, to: NodeAddr) -> bool {
        let node = |node| self.nodes.contains_key(&node) || self.cancelled.contains(&node);
        node(from) || node(to) || self.segments.contains_key(&pair(from, to))
    }

    fn forget(&mut self, now: Instant) {
        self.nodes.retain(|_, until| *until > now);
        self.segments.retain(|_, until| *until > now);
    }

    /// Learns from a failure. Returns whether the failure adds something to avoid. `ends` cannot be avoided.
    fn learn(&mut self, failure: &Failure, ends: &BTreeSet<NodeAddr>, now: Instant) -> bool {
        let until = now + AVOID;
        match (failure.kind, failure.about) {
            (FailureKind::Cancelled, _) => {
                self.cancelled.insert(failure.node) && !ends.contains(&failure.node)
            }
            // A node that has just started does not know its neighbours yet.
            (FailureKind::Broken | FailureKind::NotFound | FailureKind::Corrupt, Some(about))
                if about != failure.node =>
            {
                let segment = pair(failure.node, about);
                self.segments.insert(segment, until).is_none()
            }
            // One of the node's own uplinks failed, and it has others: the same path may be used again.
            (FailureKind::Broken, Some(about)) if about == failure.node => false,
            (FailureKind::Broken | FailureKind::Busy | FailureKind::Forbidden, _)
                if !ends.contains(&failure.node) =>
            {
                self.nodes.insert(failure.node, until).is_none()
            }
            _ => false,
        }
    }
}

fn pair(a: NodeAddr, b: NodeAddr) -> (NodeAddr, NodeAddr) {
    (a.min(b), a.max(b))
}

/// The next step after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Use another path, if there is one. If there is none, repeat if the value is true, and give up otherwise.
    Around(bool),
    /// Repeat the same after this time.
    Wait(Duration),
    /// Stop: the copy has failed.
    GiveUp,
}

/// How long a copy continues after failures.
#[derive(Clone, Debug)]
pub(super) struct Patience {
    /// The value of `--give-up`.
    asked: Option<Duration>,
    pause: Duration,
    pub(super) avoided: Avoided,
}

impl Patience {
    /// Makes the patience from `--give-up`, if it was given, and the nodes where the copy was cancelled.
    pub(super) fn new(asked: Option<Duration>, cancelled: BTreeSet<NodeAddr>) -> Patience {
        Patience {
            asked,
            pause: PAUSE,
            avoided: Avoided {
                cancelled,
                ..Avoided::default()
            },
        }
    }

    /// Returns how long nothing may move before the copy ends.
    pub(super) fn give_up(&self) -> Duration {
        self.asked.unwrap_or(GIVE_UP)
    }

    /// Notes that an attempt moved something.
    pub(super) fn on_moved(&mut self) {
        self.pause = PAUSE;
    }

    /// Decides after an attempt failed and nothing had moved for `idle`. Without `failure`, this host's own node did
    /// not answer. `begun`: some attempt had reached the other ends.
    pub(super) fn next(
        &mut self,
        failure: Option<&Failure>,
        ends: &BTreeSet<NodeAddr>,
        (begun, idle): (bool, Duration),
        now: Instant,
    ) -> Next {
        self.avoided.forget(now);
        if self.give_up() <= idle {
            return Next::GiveUp;
        }
        // Choice: if a copy never began and the failure says that nothing is there, this is more often a mistake than an
        // outage. So the copy waits only if the user asked for it. A busy node will become free at some time.
        let is_meant = begun || self.asked.is_some();
        let is_worth = match failure.map(|failure| (failure.kind, failure.about)) {
            None | Some((FailureKind::Broken | FailureKind::InUse, _)) => is_meant,
            Some((FailureKind::NotFound, Some(_))) => is_meant,
            Some((FailureKind::Busy, _)) => true,
            Some(_) => false,
        };
        if let Some(failure) = failure
            && self.avoided.learn(failure, ends, now)
        {
            return Next::Around(is_worth);
        }
        if !is_worth {
            return Next::GiveUp;
        }
        let pause = self.pause;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        Next::Wait(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(n: u32) -> NodeAddr {
        NodeAddr(0x0a07_0000 + n)
    }

    fn failure(at: u32, kind: FailureKind, about: Option<u32>) -> Failure {
        Failure {
            node: node(at),
            kind,
            about: about.map(node),
            text: String::new(),
        }
    }

    #[test]
    fn another_way_comes_first_then_pauses_that_grow_then_the_end() {
        let ends = BTreeSet::from([node(1), node(4)]);
        let mut patience = Patience::new(None, BTreeSet::new());
        let begun = Instant::now();
        let lost = failure(2, FailureKind::Broken, Some(3));
        let mut next = |failure: &Failure, idle: u64| {
            let now = begun + Duration::from_secs(idle);
            patience.next(Some(failure), &ends, (true, Duration::from_secs(idle)), now)
        };
        assert_eq!(next(&lost, 0), Next::Around(true));
        assert_eq!(next(&lost, 0), Next::Wait(PAUSE));
        assert_eq!(next(&lost, 1), Next::Wait(PAUSE * 2));
        let busy = failure(2, FailureKind::Busy, None);
        assert_eq!(next(&busy, 1), Next::Around(true));
        // No path can avoid an end.
        assert!(matches!(
            next(&failure(4, FailureKind::Busy, None), 2),
            Next::Wait(_)
        ));
        assert_eq!(next(&failure(4, FailureKind::File, None), 2), Next::GiveUp);
        // If data is changed on the path, the copy tries another path if there is one, and only once.
        let changed = failure(4, FailureKind::Corrupt, Some(3));
        assert_eq!(next(&changed, 2), Next::Around(false));
        assert_eq!(next(&changed, 2), Next::GiveUp);
        assert_eq!(next(&lost, 100), Next::Around(true), "avoided no longer");
        assert_eq!(next(&lost, 3_599), Next::Around(true));
        assert_eq!(next(&lost, 3_600), Next::GiveUp);
    }

    #[test]
    fn a_node_that_has_lost_an_uplink_is_asked_again() {
        let ends = BTreeSet::from([node(1), node(4)]);
        let mut patience = Patience::new(None, BTreeSet::new());
        for relay in [2, 1] {
            let silent = failure(relay, FailureKind::Broken, Some(relay));
            let idle = (true, Duration::ZERO);
            let next = patience.next(Some(&silent), &ends, idle, Instant::now());
            assert!(matches!(next, Next::Wait(_)), "{next:?}");
        }
        assert!(patience.avoided.is_empty());
    }

    #[test]
    fn what_never_began_is_waited_for_only_by_who_asks() {
        let ends = BTreeSet::from([node(1), node(2)]);
        let now = Instant::now();
        let lost = failure(1, FailureKind::Broken, Some(2));
        for (asked, expected) in [
            (None, Next::GiveUp),
            (Some(Duration::from_secs(9)), Next::Wait(PAUSE)),
            (Some(Duration::ZERO), Next::GiveUp),
        ] {
            let mut patience = Patience::new(asked, BTreeSet::new());
            let never = (false, Duration::ZERO);
            if asked != Some(Duration::ZERO) {
                let around = Next::Around(asked.is_some());
                assert_eq!(patience.next(Some(&lost), &ends, never, now), around);
            }
            assert_eq!(patience.next(Some(&lost), &ends, never, now), expected);
        }
    }

    #[test]
    fn what_is_avoided_is_so_in_both_directions() {
        let mut avoided = Avoided::default();
        assert!(avoided.is_empty());
        let ends = BTreeSet::from([node(1)]);
        let now = Instant::now();
        assert!(avoided.learn(&failure(3, FailureKind::Broken, Some(2)), &ends, now));
        assert!(avoided.learn(&failure(5, FailureKind::Busy, None), &ends, now));
        assert!(avoided.has(node(2), node(3)) && avoided.has(node(3), node(2)));
        assert!(avoided.has(node(1), node(5)) && !avoided.has(node(1), node(2)));
        avoided.forget(now + AVOID);
        assert!(avoided.is_empty());
    }

    #[test]
    fn a_node_at_which_it_was_cancelled_is_never_taken_again() {
        let ends = BTreeSet::from([node(1), node(4)]);
        let begun = Instant::now();
        let mut patience = Patience::new(None, BTreeSet::new());
        let mut next = |at: u32, idle: u64| {
            let cancelled = failure(at, FailureKind::Cancelled, None);
            let (now, idle) = (begun + 2 * AVOID, Duration::from_secs(idle));
            patience.next(Some(&cancelled), &ends, (true, idle), now)
        };
        assert_eq!(next(2, 0), Next::Around(false));
        assert_eq!(next(2, 0), Next::GiveUp, "there was no other way");
        assert_eq!(next(4, 0), Next::GiveUp, "an end");
        patience.avoided.forget(begun + 9 * AVOID);
        assert!(patience.avoided.has(node(2), node(3)) && patience.avoided.has(node(4), node(3)));
    }
}
