//! Going on after something broke: what is worth another attempt, when, and which way it takes then.
//!
//! ```text
//!   attempt ──▶ broke: a segment or a relay is avoided for a while ──▶ another way? at once
//!      ▲                                                             └▶ none: wait, 0.25 s … 2 s
//!      └──────────────── until so long nothing has moved (`--give-up`) ────────────┘
//! ```
//! What arrived stays where it is, so each attempt begins with what the sink has.

use base::NodeAddr;
use host::relay::failure::{Failure, FailureKind};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// How long nothing may move before a copy that has begun is given up, unless said otherwise.
pub(super) const GIVE_UP: Duration = Duration::from_secs(3_600);
/// From one attempt to the next, and at most. Choice: an attempt that meets a host which is away asks
/// for it at 0, 1, 3 and 7 s, so what comes back is found within five seconds.
const PAUSE: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// So long a way that broke is not taken where there is another. Choice: what is down for good is in
/// the overlay's routes by then.
const AVOID: Duration = Duration::from_secs(60);

/// What is not taken where there is another way.
#[derive(Clone, Debug, Default)]
pub(super) struct Avoided {
    nodes: BTreeMap<NodeAddr, Instant>,
    /// The lower address first.
    segments: BTreeMap<(NodeAddr, NodeAddr), Instant>,
    /// Nodes whose operators have ended it there: they are not taken at all.
    pub(super) cancelled: BTreeSet<NodeAddr>,
}

impl Avoided {
    /// Nothing is.
    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty() && self.segments.is_empty() && self.cancelled.is_empty()
    }

    /// Whether a segment is, because of itself or of a node at its end.
    pub(super) fn has(&self, from: NodeAddr, to: NodeAddr) -> bool {
        let node = |node| self.nodes.contains_key(&node) || self.cancelled.contains(&node);
        node(from) || node(to) || self.segments.contains_key(&pair(from, to))
    }

    fn forget(&mut self, now: Instant) {
        self.nodes.retain(|_, until| *until > now);
        self.segments.retain(|_, until| *until > now);
    }

    /// Takes a failure in: whether it tells of something that was not avoided before. `ends` cannot be
    /// avoided.
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
            // One of its own uplinks broke, and it has others: the same way may be taken again.
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

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Another way, if there is one; and if there is none and this is false, nothing.
    Around(bool),
    /// The same again, after so long.
    Wait(Duration),
    /// Nothing: it has failed.
    GiveUp,
}

/// How long somebody goes on.
#[derive(Clone, Debug)]
pub(super) struct Patience {
    /// As asked for.
    asked: Option<Duration>,
    pause: Duration,
    pub(super) avoided: Avoided,
}

impl Patience {
    /// That of `--give-up`, if it was given, of somebody who knows where it was cancelled.
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

    /// When it ends, if nothing moves.
    pub(super) fn give_up(&self) -> Duration {
        self.asked.unwrap_or(GIVE_UP)
    }

    /// An attempt moved something.
    pub(super) fn on_moved(&mut self) {
        self.pause = PAUSE;
    }

    /// An attempt ended so, when nothing had moved for `idle`; without a failure of a node it was this
    /// host's own node that did not answer. `begun`: some attempt had reached its end.
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
        // Choice: what never began, and says that nothing is there, is more often a mistake than an
        // outage, so it is waited for only by who asks for that. A node that is busy says that it will
        // not be for ever.
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
        // An end cannot be gone around.
        assert!(matches!(
            next(&failure(4, FailureKind::Busy, None), 2),
            Next::Wait(_)
        ));
        assert_eq!(next(&failure(4, FailureKind::File, None), 2), Next::GiveUp);
        // What is changed on the way is worth another way, if there is one, and only once.
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
