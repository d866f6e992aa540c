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

/// Where one component's media of an end should come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Expected {
    /// What the description says. An unspecified address or port 0 is hold: nothing is sent.
    pub signalled: SocketAddr,
    /// The address that the end's signalling came from. Behind a translator it is the only true
    /// one.
    pub via: Option<IpAddr>,
    /// Any address of the same LAN will do: [`Remote::or_from_lan`](super::Remote::or_from_lan).
    pub lan: bool,
}

impl Expected {
    /// Whether an end that described itself so may send from there: from the signalled address or
    /// that of its signalling, with any port, since a translator gives its own. `from` is IPv4 where
    /// it can be written so.
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

/// IPv4 /24 or IPv6 /64.
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

/// What was learned before the last description.
#[derive(Debug, Clone, Copy)]
struct Old {
    learned: SocketAddr,
    until: Time,
    /// The description said the same again: a refresh, not a move.
    same: bool,
}

/// What becomes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    Known,
    Learned,
    Refused,
}

impl Latch {
    /// As a description says, after another one or as the first.
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
            // It moved: what is still under way from the old place must not take the lock, unless
            // the old place is the new one.
            Some(old) if !old.same && from != self.expected.signalled => Admission::Known,
            // A refresh: the end goes on from where it was, however far that is.
            Some(_) => self.learn(from),
            None if self.expected.admits(from) => self.learn(from),
            None => Admission::Refused,
        }
    }

    /// Where to send: what was learned; after a refresh, what had been; else what is signalled.
    pub(super) fn destination(&self) -> Option<SocketAddr> {
        let signalled = self.expected.signalled;
        // Hold is a description's word, and silences a learned address too.
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
