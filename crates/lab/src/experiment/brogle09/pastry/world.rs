//! Production nodes, and their messages under way.

use super::underlay::{Underlay, place};
use base::{Duration, NodeAddr, Rng, Time};
use graph::generate::Network;
use scribe::{Config, Event, Id, Outlet, Scribe, Settings};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// An event at a moment.
enum Coming {
    Message(NodeAddr, Vec<u8>),
    Timeout,
    /// The overlay has lost its path to a node.
    Gone(NodeAddr),
}

pub(super) struct World {
    pub(super) underlay: Underlay,
    pub(super) rng: Rng,
    now: Time,
    /// The nodes by number; `None` for those that have not entered yet, or have failed.
    nodes: Vec<Option<Scribe>>,
    /// When each node wakes next.
    woken: Vec<Time>,
    moments: BinaryHeap<Reverse<(Time, u64, NodeAddr)>>,
    coming: BTreeMap<u64, Coming>,
    numbered: u64,
}

pub(super) struct Effects<'a> {
    own: NodeAddr,
    underlay: &'a Underlay,
    sent: Vec<(NodeAddr, Vec<u8>)>,
}

impl Outlet for Effects<'_> {
    fn send(&mut self, to: NodeAddr, bytes: &[u8]) {
        self.sent.push((to, bytes.to_vec()));
    }
    fn branches(&mut self, _: NodeAddr, _: Option<NodeAddr>, _: &[NodeAddr], _: bool) {}
    fn root(&mut self, _: NodeAddr, _: NodeAddr) {}
    fn proximity_us(&self, to: NodeAddr) -> Option<u32> {
        Some(self.underlay.delay_us(self.own, to))
    }
    fn report(&mut self, _: Event) {}
}

/// Number of candidates among which a newcomer asks the nearest: Pastry expects a nearby contact.
const CONTACTS: usize = 32;

impl World {
    /// Creates a world of `hosts` nodes that have entered one after the other, each through a nearby one.
    pub(super) fn grown(underlay: Underlay, hosts: usize, rng: &mut Rng) -> World {
        let mut world = World {
            underlay,
            rng: rng.fork(),
            now: Time::ZERO,
            nodes: (0..hosts).map(|_| None).collect(),
            woken: vec![Time::FAR; hosts],
            moments: BinaryHeap::new(),
            coming: BTreeMap::new(),
            numbered: 0,
        };
        for n in 0..hosts {
            let own = Network::addr(n);
            world.nodes[n] = Some(Scribe::new(Config {
                own,
                seed: world.rng.next_u64(),
                settings: Settings::default(),
            }));
            if n > 0 {
                let via = world.near(own, n);
                world.act(own, |node, now, out| node.enter(now, via, out));
            }
            // At most about half of the existing nodes enter at the same time.
            let pause_us = (600_000 / (n as u64 + 1)).max(1_000);
            world.run(Duration::from_micros(pause_us));
        }
        world.run(Duration::from_secs(8));
        world
    }

    fn near(&mut self, own: NodeAddr, among: usize) -> NodeAddr {
        let candidates: Vec<NodeAddr> = (0..CONTACTS)
            .map(|_| Network::addr(self.rng.below(among as u64) as usize))
            .collect();
        let nearest = candidates
            .into_iter()
            .min_by_key(|addr| self.underlay.delay_us(own, *addr));
        nearest.expect("there are candidates")
    }

    pub(super) fn act<T>(
        &mut self,
        who: NodeAddr,
        call: impl FnOnce(&mut Scribe, Time, &mut Effects<'_>) -> T,
    ) -> Option<T> {
        let node = self.nodes[place(who)].as_mut()?;
        let mut out = Effects {
            own: who,
            underlay: &self.underlay,
            sent: Vec::new(),
        };
        let result = call(node, self.now, &mut out);
        let due = node.next_timeout().map(|(at, _)| at.max(self.now));
        for (to, bytes) in out.sent {
            let delay = Duration::from_micros(self.underlay.delay_us(who, to).into());
            self.at(self.now + delay, to, Coming::Message(who, bytes));
        }
        if let Some(due) = due
            && due < self.woken[place(who)]
        {
            self.woken[place(who)] = due;
            self.at(due, who, Coming::Timeout);
        }
        Some(result)
    }

    fn at(&mut self, at: Time, who: NodeAddr, coming: Coming) {
        self.numbered += 1;
        self.coming.insert(self.numbered, coming);
        self.moments.push(Reverse((at, self.numbered, who)));
    }

    pub(super) fn run(&mut self, span: Duration) {
        let end = self.now + span;
        while let Some(&Reverse((at, number, who))) = self.moments.peek()
            && at <= end
        {
            self.moments.pop();
            self.now = at;
            match self.coming.remove(&number) {
                Some(Coming::Message(from, bytes)) => {
                    self.act(who, |node, now, out| {
                        node.on_message(now, from, &bytes, out)
                    });
                }
                Some(Coming::Gone(peer)) => {
                    self.act(who, |node, now, out| node.on_peer_gone(now, peer, out));
                }
                Some(Coming::Timeout) => {
                    if self.woken[place(who)] == at {
                        self.woken[place(who)] = Time::FAR;
                    }
                    // A node that wakes at a time that was postponed since does nothing.
                    self.act(who, |node, now, out| node.on_timeout(now, out));
                }
                None => {}
            }
        }
        self.now = end;
    }

    /// Lets a node fail. If the overlay notices, each other node learns it within `notice`.
    pub(super) fn kill(&mut self, who: NodeAddr, notice: Option<Duration>) {
        self.nodes[place(who)] = None;
        let Some(notice) = notice else {
            return;
        };
        let others: Vec<NodeAddr> = self.live().map(Scribe::own).collect();
        for other in others {
            let after = Duration::from_nanos(self.rng.below(notice.as_nanos()));
            self.at(self.now + after, other, Coming::Gone(who));
        }
    }

    pub(super) fn node(&self, addr: NodeAddr) -> Option<&Scribe> {
        self.nodes.get(place(addr))?.as_ref()
    }

    pub(super) fn live(&self) -> impl Iterator<Item = &Scribe> {
        self.nodes.iter().flatten()
    }

    /// Returns a random live node.
    pub(super) fn any(&mut self) -> NodeAddr {
        loop {
            let n = self.rng.below(self.nodes.len() as u64) as usize;
            if self.nodes[n].is_some() {
                return Network::addr(n);
            }
        }
    }

    /// Returns the live node closest to an id.
    pub(super) fn closest(&self, key: Id) -> NodeAddr {
        let live = self.live().map(|node| (node.id(), node.own()));
        let closest = live.min_by(|a, b| key.closer(a.0, b.0));
        closest.expect("somebody lives").1
    }
}
