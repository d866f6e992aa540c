//! Who may send bytes with the opening of a stream: tickets that this node has given, and those that it
//! holds.
//!
//! ```text
//!   initiator ── S, asks ─────────────▶ acceptor      the first time: a ticket comes with the answer
//!             ◀── S A, T(secret, 0) ───
//!             ── S, T(secret, 1), bytes ▶             from then on: bytes go with the opening, and may
//!             ◀── S A E ───────────────               be read before the answer is back
//! ```
//!
//! What is sent with an opening is delivered at most once. An opening may come twice: it is repeated, and
//! the overlay may deliver copies. So each opening under a ticket has a number, and the giver keeps a window
//! of the numbers that it has seen: no clock decides, and nothing that was taken is ever taken again. A giver
//! that restarts has forgotten its tickets, so it takes nothing that was meant for its life before:
//! it opens the stream in the ordinary way and gives a new ticket. An initiator that restarts has forgotten them
//! too and asks for a new one, whose numbers begin anew. A ticket is also a proof that its holder can be
//! reached at its address.

use base::seq::{Seen, Window};
use base::{Map, NodeAddr};
use std::collections::VecDeque;
use wire::transport::Ticket;

/// Nodes of which tickets are kept, in either direction; of the oldest is let go. A given one takes some 600
/// bytes, so all come to 0.6 MB.
const PEERS_MAX: usize = 1024;
/// Numbers of openings that are told apart: at 1000 openings in a second an opening that is repeated after
/// half a second, one and two is still known.
const NUMBERS: usize = 4096;
/// Bytes that go with an opening at most: ten segments, what a path of which nothing is known bears at
/// first [RFC 6928 §2]. The acceptor keeps them until somebody accepts, in the window that each stream has anyway.
pub(crate) const EARLY_BYTES: u32 = 10 * 1_200;

/// What is to become of an opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Its bytes are taken.
    Early,
    /// It is an ordinary one: the peer has no ticket of this life of the node.
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

    /// Gives `peer` a ticket: the one before counts no more, unless it was not used yet.
    pub(crate) fn give(&mut self, peer: NodeAddr, secret: u64) -> Ticket {
        let unused = self.given.get(peer).filter(|given| given.seen.next() == 0);
        let secret = unused.map_or(secret, |given| given.secret);
        let seen = Window::new(NUMBERS);
        self.given.insert(peer, Given { secret, seen });
        Ticket { secret, number: 0 }
    }

    /// `peer` has given a ticket. One that is known was repeated: its numbers go on.
    pub(crate) fn hold(&mut self, peer: NodeAddr, ticket: Ticket) {
        let known = self.held.get(peer).map(|held| held.secret);
        if known != Some(ticket.secret) {
            self.held.insert(peer, ticket);
        }
    }

    /// The ticket for the next opening to `peer`, if there is one.
    pub(crate) fn next(&mut self, peer: NodeAddr) -> Option<Ticket> {
        let held = self.held.get(peer)?;
        held.number = held.number.checked_add(1)?;
        Some(*held)
    }

    /// The ticket of `peer` has done nothing good: another one is waited for.
    pub(crate) fn forget(&mut self, peer: NodeAddr) {
        if let Some(held) = self.held.get(peer) {
            held.number = u32::MAX;
        }
    }
}

/// Something of each of so many nodes.
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
        // Far behind is as good as seen.
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
