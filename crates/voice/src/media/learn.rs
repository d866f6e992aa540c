//! Symmetric RTP: the address from which an end really sends.
//!
//! ```text
//!            signalled                     first packet of it
//!   nothing ───────────> open, sends to it ────────────────────> locked, sends to the learned one
//!                          ^                                        │ signalled again
//!                          └────────────────────────────────────────┘ the old one still passes,
//!                                                                      for a while
//! ```

use core::net::{IpAddr, SocketAddr};

use base::Time;

use super::MOVE_GRACE;

/// The addresses from which one component's media of an end may arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Expected {
    /// The address in the description. An unspecified address or port 0 is hold: nothing is sent.
    pub signalled: SocketAddr,
    /// The source address of the end's signalling. Behind a NAT it is the only true address.
    pub via: Option<IpAddr>,
    /// Whether any address of the same LAN is accepted: [`Remote::or_from_lan`](super::Remote::or_from_lan).
    pub lan: bool,
}

impl Expected {
    /// Returns whether an end with this description may send from `from`: the address must be the signalled one or that
    /// of its signalling, with any port, since a NAT assigns its own. `from` is IPv4 if it can be written as IPv4.
    #[must_use]
    pub fn admits(&self, from: SocketAddr) -> bool {
        let known = [Some(self.signalled.ip()), self.via];
        let from = from.ip();
        let is_it = |ip: IpAddr| ip == from || (self.lan && is_same_network(ip, from));
        known
            .into_iter()
            .flatten()
            .any(|ip| !ip.is_unspecified() && is_it(ip.to_canonical()))
    }
}

/// Returns whether both addresses are in the same IPv4 /24 or IPv6 /64.
fn is_same_network(one: IpAddr, other: IpAddr) -> bool {
    match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => one.octets()[..3] == other.octets()[..3],
        (IpAddr::V6(one), IpAddr::V6(other)) => one.octets()[..8] == other.octets()[..8],
        _ => false,
    }
}

/// The address of one component of one end.
#[derive(Debug)]
pub(super) struct Latch {
    expected: Expected,
    learned: Option<SocketAddr>,
    old: Option<Old>,
}

/// The address that was learned before the last description.
#[derive(Debug, Clone, Copy)]
struct Old {
    learned: SocketAddr,
    until: Time,
    /// Whether the description repeated the same address: a refresh, not a move.
    same: bool,
}

/// The result for a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    Known,
    Learned,
    Refused,
}

impl Latch {
    /// Returns the state after a description, the first or a later one.
    pub(super) fn signalled(now: Time, expected: Expected, before: Option<&Latch>) -> Self {
        let old = before.and_then(|before| {
            let same = before.expected.signalled == expected.signalled;
            match (before.learned, before.old) {
                (Some(learned), _) => Some(Old {
                    learned,
                    until: now + MOVE_GRACE,
                    same,
                }),
                (None, Some(old)) => Some(Old {
                    same: old.same && same,
                    ..old
                }),
                (None, None) => None,
            }
        });
        Self {
            expected,
            learned: None,
            old,
        }
    }

    pub(super) fn learned(&self) -> Option<SocketAddr> {
        self.learned
    }

    pub(super) fn admit(&mut self, now: Time, from: SocketAddr) -> Admission {
        if let Some(learned) = self.learned {
            let may_pass = from == learned || self.old_passes(now, from).is_some();
            return if may_pass {
                Admission::Known
            } else {
                Admission::Refused
            };
        }
        match self.old_passes(now, from) {
            // The end moved: packets that are still under way from the old address must not take the lock, unless the
            // old address is the new one.
            Some(old) if !old.same && from != self.expected.signalled => Admission::Known,
            // This is a refresh: the end continues from its present address, however different that is.
            Some(_) => self.learn(from),
            None if self.expected.admits(from) => self.learn(from),
            None => Admission::Refused,
        }
    }

    /// Returns the address to send to: the learned one; after a refresh, the one learned before; else the signalled
    /// one.
    pub(super) fn destination(&self) -> Option<SocketAddr> {
        let signalled = self.expected.signalled;
        // A description sets hold, and hold also stops sending to a learned address.
        if signalled.ip().is_unspecified() || signalled.port() == 0 {
            return None;
        }
        let before = self.old.filter(|old| old.same).map(|old| old.learned);
        Some(self.learned.or(before).unwrap_or(signalled))
    }

    fn learn(&mut self, from: SocketAddr) -> Admission {
        self.learned = Some(from);
        Admission::Learned
    }

    fn old_passes(&self, now: Time, from: SocketAddr) -> Option<Old> {
        self.old
            .filter(|old| old.learned == from && now < old.until)
    }
}
