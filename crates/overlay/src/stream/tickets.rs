//! Tickets: they allow a node to send bytes with the opening of a stream. This module keeps the tickets that this node
//! has given, and those that it holds.
//!
//! ```text
//!   initiator ── S, asks ─────────────▶ acceptor      the first time: a ticket comes with the answer
//!             ◀── S A, T(secret, 0) ───
//!             ── S, T(secret, 1), bytes ▶             from then on: bytes go with the opening, and may
//!             ◀── S A E ───────────────               be read before the answer is back
//! ```
//!
//! Bytes that are sent with an opening are delivered at most once. An opening may arrive twice, because the initiator
//! repeats it and the overlay may deliver copies. So each opening under a ticket has a number, and the giver keeps a
//! window of the numbers that it has seen. No clock is involved, and an opening that was taken is never taken again. A
//! giver that restarts has forgotten its tickets, so it takes no bytes that were sent before its restart: it opens the
//! stream in the ordinary way and gives a new ticket. An initiator that restarts has forgotten its tickets too, and
//! asks for a new one, whose numbers begin anew. A ticket also proves that its holder can be reached at its address.

use base::seq::{Seen, Window};
use base::{Map, NodeAddr};
use std::collections::VecDeque;
use wire::transport::Ticket;

/// The most nodes whose tickets are kept, in either direction; the oldest entry is dropped for a new one. A given
/// ticket takes some 600 bytes, so all together take 0.6 MB.
const PEERS_MAX: usize = 1024;
/// The length of the window of numbers. At 1000 openings per second, an opening that is repeated after 0.5, 1 and 2
/// seconds is still in it.
const NUMBERS: usize = 4096;
/// The most bytes that go with an opening: ten segments, which an unknown path can carry at first [RFC 6928 §2]. The
/// acceptor keeps them until a client accepts, in the window that each stream has anyway.
pub(crate) const EARLY_BYTES: u32 = 10 * 1_200;

/// How to treat an opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Its bytes are taken.
    Early,
    /// It is an ordinary opening: the peer has no ticket that this node has given since it started.
    Plain,
    /// It was taken before.
    Seen,
}

#[derive(Debug)]
struct Given {
    secret: u64,
    seen: Window,
}

/// All tickets of a node.
#[derive(Debug, Default)]
pub(crate) struct Tickets {
    given: Kept<Given>,
    held: Kept<Ticket>,
}

impl Tickets {
    /// Judges an opening of `peer`.
    pub(crate) fn admit(&mut self, peer: NodeAddr, ticket: Option<Ticket>) -> Admission {
        let Some((ticket, given)) = ticket.zip(self.given.get(peer)) else {
            return Admission::Plain;
        };
        if ticket.secret != given.secret || ticket.number == 0 {
            return Admission::Plain;
        }
        match given.seen.insert(ticket.number.into()) {
            Seen::Ahead | Seen::Late => Admission::Early,
            Seen::Duplicate | Seen::TooOld => Admission::Seen,
        }
    }

    /// Gives `peer` a ticket. The previous one becomes invalid, unless it was not used yet: then `peer` gets that one
    /// again.
    pub(crate) fn give(&mut self, peer: NodeAddr, secret: u64) -> Ticket {
        let unused = self.given.get(peer).filter(|given| given.seen.next() == 0);
        let secret = unused.map_or(secret, |given| given.secret);
        let seen = Window::new(NUMBERS);
        self.given.insert(peer, Given { secret, seen });
        Ticket { secret, number: 0 }
    }

    /// Takes a ticket that `peer` has given. If it is already known, it was repeated, and its numbers continue.
    pub(crate) fn hold(&mut self, peer: NodeAddr, ticket: Ticket) {
        let known = self.held.get(peer).map(|held| held.secret);
        if known != Some(ticket.secret) {
            self.held.insert(peer, ticket);
        }
    }

    /// Returns the ticket for the next opening to `peer`, if there is one.
    pub(crate) fn next(&mut self, peer: NodeAddr) -> Option<Ticket> {
        let held = self.held.get(peer)?;
        held.number = held.number.checked_add(1)?;
        Some(*held)
    }

    /// Stops using the ticket of `peer`, which did not work, until `peer` gives another one.
    pub(crate) fn forget(&mut self, peer: NodeAddr) {
        if let Some(held) = self.held.get(peer) {
            held.number = u32::MAX;
        }
    }
}

/// One value for each of at most [`PEERS_MAX`] nodes.
#[derive(Debug)]
struct Kept<T> {
    all: Map<NodeAddr, T>,
    order: VecDeque<NodeAddr>,
}

impl<T> Default for Kept<T> {
    fn default() -> Kept<T> {
        Kept {
            all: Map::default(),
            order: VecDeque::new(),
        }
    }
}

impl<T> Kept<T> {
    fn get(&mut self, peer: NodeAddr) -> Option<&mut T> {
        self.all.get_mut(&peer)
    }

    fn insert(&mut self, peer: NodeAddr, value: T) {
        if self.all.insert(peer, value).is_some() {
            return;
        }
        self.order.push_back(peer);
        if self.order.len() > PEERS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.all.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: NodeAddr = NodeAddr(0x0a07_0001);

    #[test]
    fn a_number_is_taken_once_and_a_ticket_of_another_life_never() {
        let (mut giver, mut holder) = (Tickets::default(), Tickets::default());
        assert_eq!(holder.next(PEER), None);
        holder.hold(PEER, giver.give(PEER, 77));
        let first = holder.next(PEER);
        let second = holder.next(PEER);
        assert_eq!(first.map(|ticket| ticket.number), Some(1));
        assert_eq!(giver.admit(PEER, None), Admission::Plain);
        for ticket in [second, first] {
            assert_eq!(giver.admit(PEER, ticket), Admission::Early);
            assert_eq!(giver.admit(PEER, ticket), Admission::Seen);
        }
        let elsewhere = NodeAddr(0x0a07_0009);
        assert_eq!(giver.admit(elsewhere, holder.next(PEER)), Admission::Plain);
        // The giver has restarted.
        let mut giver = Tickets::default();
        assert_eq!(giver.admit(PEER, holder.next(PEER)), Admission::Plain);
        // A number far behind counts as seen.
        holder.hold(PEER, giver.give(PEER, 78));
        let old = holder.next(PEER);
        let far = Ticket {
            secret: 78,
            number: 10_000,
        };
        assert_eq!(giver.admit(PEER, Some(far)), Admission::Early);
        assert_eq!(giver.admit(PEER, old), Admission::Seen);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut giver = Tickets::default();
        for i in 0..2 * PEERS_MAX as u32 {
            giver.give(NodeAddr(i), u64::from(i));
        }
        assert_eq!(giver.given.all.len(), PEERS_MAX);
        assert_eq!(giver.given.order.len(), PEERS_MAX);
    }

    #[test]
    fn a_ticket_that_is_repeated_does_not_begin_anew() {
        let (mut giver, mut holder) = (Tickets::default(), Tickets::default());
        let ticket = giver.give(PEER, 5);
        assert_eq!(giver.give(PEER, 6), ticket, "it was not used");
        let mut number = |held: bool| {
            if held {
                holder.hold(PEER, ticket);
            } else {
                holder.forget(PEER);
            }
            holder.next(PEER).map(|ticket| ticket.number)
        };
        assert_eq!((number(true), number(true)), (Some(1), Some(2)));
        assert_eq!((number(false), number(true)), (None, None));
        assert_eq!(
            giver.admit(
                PEER,
                Some(Ticket {
                    number: 1,
                    ..ticket
                })
            ),
            Admission::Early
        );
        assert_eq!(giver.give(PEER, 6).secret, 6);
    }
}
