//! The party on a host of a world: an honest node, or one that has everything a node has, and lies.

use super::hostile::{Member, Treason};
use crate::whole::Noded;
use base::{Burst, ClientId, Engine, Input, Outbox, Pool, Time, UnderlayAddr};
use host::station::Station;
use overlay::{Event, Node, Reply, Request};
use secure::{Identity, Network};

/// The engine that runs on a host.
pub(super) enum Party {
    /// The production engine.
    Honest(Box<Station>),
    /// The production engine with an adversary between it and its links.
    Hostile(Box<Member>),
}

impl Party {
    /// Creates a member that turns hostile: its engine, its own address and identity, and its neighbours'.
    pub(super) fn hostile(
        treason: Treason,
        station: Station,
        own: (UnderlayAddr, Identity),
        network: Network,
        peers: Vec<(UnderlayAddr, Identity)>,
    ) -> Party {
        Party::Hostile(Box::new(Member::new(treason, station, own, network, peers)))
    }

    /// Returns the engine.
    pub(super) fn station(&self) -> &Station {
        match self {
            Party::Honest(station) => station,
            Party::Hostile(member) => member.station(),
        }
    }

    /// Returns the hostile member, if this is one.
    pub(super) fn member(&self) -> Option<&Member> {
        match self {
            Party::Honest(_) => None,
            Party::Hostile(member) => Some(member),
        }
    }
}

impl Noded for Party {
    fn node(&self) -> &Node {
        self.station().node()
    }
}

impl Engine for Party {
    type Request = Request;
    type Reply = Reply;
    type Event = Event;

    fn handle(&mut self, now: Time, input: Input<Request>, out: &mut impl Outbox<Party>) {
        match self {
            Party::Honest(station) => station.handle(now, input, &mut Straight(out)),
            Party::Hostile(member) => member.handle(now, input, out),
        }
    }

    fn flush(&mut self, now: Time, out: &mut impl Outbox<Party>) {
        match self {
            Party::Honest(station) => station.flush(now, &mut Straight(out)),
            Party::Hostile(member) => member.flush(now, out),
        }
    }

    fn next_timeout(&self) -> Option<(Time, &'static str)> {
        match self {
            Party::Honest(station) => station.next_timeout(),
            Party::Hostile(member) => member.next_timeout(),
        }
    }
}

/// The outbox of a host as its station sees it.
struct Straight<'a, O>(&'a mut O);

impl<O: Outbox<Party>> Outbox<Station> for Straight<'_, O> {
    fn send(&mut self, to: UnderlayAddr, burst: Burst) {
        self.0.send(to, burst);
    }
    fn deliver(&mut self, client: ClientId, reply: Reply) {
        self.0.deliver(client, reply);
    }
    fn report(&mut self, event: Event) {
        self.0.report(event);
    }
    fn pool(&self) -> &Pool {
        self.0.pool()
    }
}
