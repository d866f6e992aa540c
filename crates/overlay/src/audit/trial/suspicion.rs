//! Suspicions: which relay or link is to blame for a bad path, and for how long.
//!
//! A suspect is a relay, or a link in one direction. A bad way has it, and no good way has it. Often several relays or
//! links fit, and all of them are suspect until more is known. Each time a suspect fails again, it is avoided for twice
//! as long.

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

/// Returns the relays of a bad path that no good path has, or such links if there is no such relay. Allocates nothing,
/// because it also runs for packets.
pub(super) fn blamed<'a>(
    bad: &'a [NodeAddr],
    good: impl Iterator<Item = &'a [NodeAddr]> + Clone + 'a,
) -> impl Iterator<Item = Suspect> + 'a {
    let is_only_bad = move |suspect: &Suspect| !good.clone().any(|nodes| suspect.is_on(nodes));
    let relays = bad.get(1..bad.len().saturating_sub(1)).unwrap_or_default();
    let relays = relays.iter().map(|node| Suspect::Node(*node));
    let relays = relays.filter(is_only_bad.clone());
    let links = bad.windows(2).map(|hop| Suspect::Link(hop[0], hop[1]));
    let has_relay = relays.clone().next().is_some();
    relays.chain(links.filter(move |link| !has_relay && is_only_bad(link)))
}

/// Returns the time until the next retry: 1, 2, 4 ... 60 minutes.
pub(super) fn backoff(strikes: u32) -> Duration {
    (RETRY_FIRST * (1 << strikes.min(6))).min(RETRY_MOST)
}
