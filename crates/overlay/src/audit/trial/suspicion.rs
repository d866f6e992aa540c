//! Suspicions: which relay or link is to blame for a bad path, and for how long.
//!
//! A suspect is a relay, or a link in one direction. A bad way has it, and no good way has it. Often several relays or
//! links fit, and all of them are suspect until more is known. Each time a suspect fails again, it is avoided for twice
//! as long.

use super::way::Way;
use base::{Duration, NodeAddr, Time};
use core::fmt;

/// A suspect is tried again after [`RETRY_FIRST`], and after twice as long each time it fails, up to [`RETRY_MOST`].
pub(super) const RETRY_FIRST: Duration = Duration::from_secs(60);
pub(super) const RETRY_MOST: Duration = Duration::from_secs(3600);

/// A relay or a link that may be to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Suspect {
    /// A relay.
    Node(NodeAddr),
    /// A link, in this direction.
    Link(NodeAddr, NodeAddr),
}

/// A suspect, for the paths to one destination.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Suspicion {
    pub(crate) suspect: Suspect,
    pub(crate) since: Time,
    /// When the suspect is tried again.
    pub(crate) until: Time,
    pub(crate) strikes: u32,
    /// The share that was lost on the path with the suspect.
    pub(crate) loss: f64,
    /// Number of suspects that were found together: one of them is to blame.
    pub(crate) among: usize,
    /// Whether the suspect is still suspected: it has not been cleared.
    pub(super) is_active: bool,
}

impl Suspicion {
    pub(super) fn strike(&mut self, now: Time, loss: f64) {
        self.until = now + backoff(self.strikes);
        self.strikes += 1;
        self.loss = loss;
    }
}

impl Suspect {
    /// Returns whether a path over these nodes has the suspect.
    pub(super) fn is_on(self, nodes: &[NodeAddr]) -> bool {
        match self {
            Suspect::Node(node) => nodes[..nodes.len().saturating_sub(1)].contains(&node),
            Suspect::Link(from, to) => nodes.windows(2).any(|hop| hop == [from, to]),
        }
    }
}

impl fmt::Display for Suspect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Suspect::Node(node) => write!(f, "{node}"),
            Suspect::Link(from, to) => write!(f, "link {from} to {to}"),
        }
    }
}

/// Returns the relays that a bad way has and no good way has, or such links if there is no such relay.
pub(super) fn blamed(bad: &Way, good: &[&Way]) -> Vec<Suspect> {
    let relays = bad.relays().iter();
    let relays = relays.filter(|node| good.iter().all(|way| !way.nodes.contains(node)));
    let relays: Vec<Suspect> = relays.map(|node| Suspect::Node(*node)).collect();
    if !relays.is_empty() {
        return relays;
    }
    let links = bad.nodes.windows(2).map(|hop| (hop[0], hop[1]));
    let links = links.filter(|(from, to)| !good.iter().any(|way| way.has_link(*from, *to)));
    links.map(|(from, to)| Suspect::Link(from, to)).collect()
}

/// Returns whether `way` has a relay or link that [`blamed`] would return for `bad` and `good`. It does not allocate,
/// because it runs for packets.
pub(super) fn would_blame(bad: &[NodeAddr], good: &[NodeAddr], way: &[NodeAddr]) -> bool {
    fn relays(nodes: &[NodeAddr]) -> &[NodeAddr] {
        let last = nodes.len().saturating_sub(1);
        nodes.get(1..last).unwrap_or_default()
    }
    let is_only_bad = |node: &&NodeAddr| !good.contains(node);
    let mut only_bad = relays(bad).iter().filter(is_only_bad).peekable();
    if only_bad.peek().is_some() {
        return only_bad.any(|node| relays(way).contains(node));
    }
    let has_link = |nodes: &[NodeAddr], link: &[NodeAddr]| nodes.windows(2).any(|hop| hop == link);
    let mut only_bad = bad.windows(2).filter(|hop| !has_link(good, hop));
    only_bad.any(|hop| has_link(way, hop))
}

/// Returns the time until the next retry: 1, 2, 4 ... 60 minutes.
pub(super) fn backoff(strikes: u32) -> Duration {
    (RETRY_FIRST * (1 << strikes.min(6))).min(RETRY_MOST)
}
