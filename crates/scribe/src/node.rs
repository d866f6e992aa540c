//! One node: its calls, its messages, and its timers.
//!
//! ```text
//!   public call ──▶ handler (entering, beats, membership, keeping, locating, failing)
//!                      │ sets parents, children ──▶ queue of Joins and Leaves, set of changed groups
//!                      ▼
//!                   settle: one message per neighbour with all groups, one `branches` per group
//! ```

mod beats;
mod entering;
mod failing;
mod keeping;
mod locating;
mod membership;
mod refusing;

use crate::config::{Config, GATHER, PAGES_MAX, PEERS_MAX, Settings};
use crate::event::{Dropped, Event, Failure, JoinError, Stats};
use crate::id::Id;
use crate::outlet::Outlet;
use crate::peer::Peer;
use crate::ring::Ring;
use crate::timers::{Timer, Timers};
use crate::tree::Tree;
use base::{Duration, NodeAddr, Rng, Time};
use entering::Entering;
use locating::Wanted;
use refusing::Refused;
use std::collections::{BTreeMap, BTreeSet};
use wire::scribe::{ADDRESSES_MAX, Addresses, MESSAGE_BYTES_MAX, Message, Refusal};

/// The memory of a group in the map: nodes of 11 places with 28 bytes each, of which at least 6 are full (320 / 6 =
/// 53), and inner nodes of 416 bytes, one for 7 others. `tests/memory.rs` measures it.
const ENTRY_BYTES: usize = 56;

/// Pastry and Scribe of one node.
#[derive(Clone, Debug)]
pub struct Scribe {
    ring: Ring,
    settings: Settings,
    rng: Rng,
    timers: Timers,
    stats: Stats,
    /// The node is not in the ring yet.
    entering: Option<Entering>,
    /// The nonce of the current question for the path to this node's id, which the answers carry.
    nonce: u32,
    upkeep_pause: Duration,
    /// Groups that this node is in: as a member, or for its children.
    trees: BTreeMap<NodeAddr, Tree>,
    /// The leaves, parents and children.
    peers: BTreeMap<NodeAddr, Peer>,
    /// The parents that have not accepted this node yet, with the group.
    pending: BTreeSet<(NodeAddr, NodeAddr)>,
    /// Groups in which this node was refused and has no parent that accepts it.
    refused: BTreeMap<NodeAddr, Refused>,
    /// For each neighbor and group: true to join, false to leave.
    queue: BTreeMap<NodeAddr, BTreeMap<NodeAddr, bool>>,
    /// Groups whose changed branches have not been reported to the overlay yet.
    changed: BTreeSet<NodeAddr>,
    /// Groups whose root the overlay wants to know.
    wanted: BTreeMap<NodeAddr, Wanted>,
}

/// Messages that contain only groups.
#[derive(Clone, Copy, Debug)]
enum Listing {
    Accept,
    Join,
    Leave,
    Root,
}

impl Scribe {
    /// Creates a node that is alone in its ring, the first one. Other nodes then [`Scribe::enter`].
    pub fn new(config: Config) -> Scribe {
        Scribe {
            ring: Ring::new(config.own),
            settings: config.settings,
            rng: Rng::new(config.seed),
            timers: Timers::default(),
            stats: Stats::default(),
            entering: None,
            nonce: 0,
            upkeep_pause: config.settings.upkeep,
            trees: BTreeMap::new(),
            peers: BTreeMap::new(),
            pending: BTreeSet::new(),
            refused: BTreeMap::new(),
            queue: BTreeMap::new(),
            changed: BTreeSet::new(),
            wanted: BTreeMap::new(),
        }
    }

    /// Enters the ring through a node that is in it; a nearer node is better. The attempt is repeated until it
    /// succeeds. Another call replaces `via`.
    pub fn enter(&mut self, now: Time, via: NodeAddr, out: &mut impl Outlet) {
        if self.ring.is_other(via) {
            self.begin_entering(now, via, out);
        }
        self.settle(now, out);
    }

    /// Makes the local node a member of the group.
    ///
    /// # Errors
    /// [`JoinError`]: the address is not a group, or there is one group too many.
    pub fn join(
        &mut self,
        now: Time,
        group: NodeAddr,
        out: &mut impl Outlet,
    ) -> Result<(), JoinError> {
        let joined = self.become_member(now, group);
        self.settle(now, out);
        joined
    }

    /// Ends the membership of the local node in the group.
    pub fn leave(&mut self, now: Time, group: NodeAddr, out: &mut impl Outlet) {
        self.end_membership(now, group);
        self.settle(now, out);
    }

    /// Requests the group's root for a sender. [`Outlet::root`] reports it, now or later, and again when the root
    /// moves, for [30 s](crate) after the last call.
    ///
    /// # Errors
    /// [`JoinError`]: the address is not a group, or there is one group too many.
    pub fn locate(
        &mut self,
        now: Time,
        group: NodeAddr,
        out: &mut impl Outlet,
    ) -> Result<(), JoinError> {
        let wanted = self.want_root(now, group, out);
        self.settle(now, out);
        wanted
    }

    /// Handles a message of another node.
    pub fn on_message(&mut self, now: Time, from: NodeAddr, bytes: &[u8], out: &mut impl Outlet) {
        self.stats.received += 1;
        if let Err(reason) = self.dispatch(now, from, bytes, out) {
            self.stats.count(reason);
            out.report(Event::Dropped { from, reason });
        }
        self.settle(now, out);
    }

    /// Handles the report of the overlay that it has no path to a node: the node counts as failed at once.
    pub fn on_peer_gone(&mut self, now: Time, peer: NodeAddr, out: &mut impl Outlet) {
        if self.ring.is_other(peer) && !self.ring.is_gone(peer) {
            self.fail(now, peer, Failure::Unreachable, out);
        }
        self.settle(now, out);
    }

    /// Handles the report of the overlay that it has a path to a node, for the first time or again. A node that is
    /// alone enters through it. Rings that were separated, or that began separately, find each other: each node that
    /// belongs into the leaf set is asked directly, and again if it does not answer.
    pub fn on_peer_seen(&mut self, now: Time, peer: NodeAddr, out: &mut impl Outlet) {
        if self.ring.is_other(peer) {
            let was_gone = self.ring.is_gone(peer);
            self.ring.is_back(peer);
            if self.entering.is_some() {
                self.meet_while_entering(peer);
            } else if self.ring.leaves.is_empty() {
                self.begin_entering(now, peer, out);
            } else {
                self.meet(now, &[peer], out);
                if was_gone {
                    self.ask_way(peer, false, out);
                }
            }
        }
        self.settle(now, out);
    }

    /// Does the work of the timers that are due.
    pub fn on_timeout(&mut self, now: Time, out: &mut impl Outlet) {
        while let Some(timer) = self.timers.take_due(now) {
            match timer {
                Timer::Beat => self.beat(now, out),
                Timer::Enter => self.enter_again(now, out),
                // Settling flushes the queue.
                Timer::Flush => {}
                Timer::Locate => self.locate_again(now, out),
                Timer::Probe => self.probe_again(now, out),
                Timer::Retry => self.join_again(now, out),
                Timer::Upkeep => self.upkeep(now, out),
            }
        }
        self.settle(now, out);
    }

    /// Returns when the next timeout is due, and the name of its timer.
    pub fn next_timeout(&self) -> Option<(Time, &'static str)> {
        self.timers.next()
    }

    fn dispatch(
        &mut self,
        now: Time,
        from: NodeAddr,
        bytes: &[u8],
        out: &mut impl Outlet,
    ) -> Result<(), Dropped> {
        if !self.ring.is_other(from) {
            return Err(Dropped::Sender);
        }
        let message = Message::parse(bytes).map_err(Dropped::Malformed)?;
        if let Some(peer) = self.peers.get_mut(&from) {
            peer.heard = now;
        }
        match message {
            Message::Enter(enter) => self.on_enter(from, enter, out),
            Message::State { nonce, last, nodes } => {
                self.on_state(now, from, nonce, last, nodes, out)
            }
            Message::Beat { flags, nodes } => self.on_beat(now, from, flags, nodes, out),
            Message::AskRow { row } => self.on_ask_row(from, row, out),
            // A node that is not in the ring knows no parents and no roots.
            _ if self.entering.is_some() => Err(Dropped::Outside),
            Message::Join(groups) => self.on_join(now, from, groups, out),
            Message::Accept(groups) => self.on_accept(from, groups),
            Message::Refuse {
                reason,
                instead,
                groups,
            } => self.on_refuse(now, from, reason, instead, groups, out),
            Message::Leave(groups) => self.on_leave(now, from, groups),
            Message::Keep(digest) => self.on_keep(now, from, digest, out),
            Message::Kept(digest) => self.on_kept(from, digest),
            Message::Differs { first, last } => self.on_differs(from, first, last, out),
            Message::Groups {
                first,
                last,
                groups,
            } => self.on_groups(now, from, first, last, groups, out),
            Message::Locate {
                asker,
                hops,
                groups,
            } => self.on_locate(now, asker, hops, groups, out),
            Message::Root(groups) => self.on_root(now, from, groups, out),
        }
    }

    /// Sends the queued messages, reports changes to the overlay, and starts the beat.
    fn settle(&mut self, now: Time, out: &mut impl Outlet) {
        self.flush(now, out);
        while let Some(group) = self.changed.pop_first() {
            match self.trees.get(&group) {
                Some(tree) => {
                    out.branches(group, tree.parent(), tree.children(), tree.is_member);
                }
                None => out.branches(group, None, &[], false),
            }
        }
        if !self.peers.is_empty() && !self.beating() {
            let beat = self.jittered(self.settings.beat);
            self.timers.at_most(Timer::Beat, now + beat);
        }
    }

    fn flush(&mut self, now: Time, out: &mut impl Outlet) {
        let waiting: Vec<NodeAddr> = self.queue.keys().copied().collect();
        for to in waiting {
            let Some(peer) = self.peers.get_mut(&to) else {
                self.queue.remove(&to);
                continue;
            };
            let due = peer.flushed.map_or(now, |flushed| flushed + GATHER);
            if now < due {
                self.timers.at_most(Timer::Flush, due);
                continue;
            }
            peer.flushed = Some(now);
            let Some(mut entries) = self.queue.remove(&to) else {
                continue;
            };
            if let Some((&rest, _)) = entries.iter().nth(PAGES_MAX * ADDRESSES_MAX) {
                self.queue.insert(to, entries.split_off(&rest));
                self.timers.at_most(Timer::Flush, now + GATHER);
            }
            let (mut joins, mut leaves) = (Vec::new(), Vec::new());
            for (group, joins_it) in entries {
                if joins_it { &mut joins } else { &mut leaves }.push(group);
            }
            self.say_groups(to, &joins, Listing::Join, out);
            self.say_groups(to, &leaves, Listing::Leave, out);
        }
    }

    /// Sends messages with all of these groups.
    fn say_groups(
        &mut self,
        to: NodeAddr,
        groups: &[NodeAddr],
        listing: Listing,
        out: &mut impl Outlet,
    ) {
        for page in groups.chunks(ADDRESSES_MAX) {
            let groups = Addresses::new(page);
            let message = match listing {
                Listing::Accept => Message::Accept(groups),
                Listing::Join => Message::Join(groups),
                Listing::Leave => Message::Leave(groups),
                Listing::Root => Message::Root(groups),
            };
            self.say(to, &message, out);
        }
    }

    fn say(&mut self, to: NodeAddr, message: &Message<'_>, out: &mut impl Outlet) {
        let mut buffer = [0; MESSAGE_BYTES_MAX];
        let len = message.emit(&mut buffer);
        let len = len.expect("pages have at most ADDRESSES_MAX entries");
        self.stats.sent += 1;
        out.send(to, &buffer[..len]);
    }

    /// Returns the state of a neighbor, which is created if there is room. Parents and leaves always find room, because
    /// the tables that they come from are bounded.
    fn child_peer(&mut self, now: Time, addr: NodeAddr) -> Result<&mut Peer, Dropped> {
        if !self.peers.contains_key(&addr) && self.peers.len() >= PEERS_MAX {
            return Err(Dropped::Flood);
        }
        Ok(self.peer(now, addr))
    }

    fn peer(&mut self, now: Time, addr: NodeAddr) -> &mut Peer {
        self.peers.entry(addr).or_insert_with(|| Peer::new(now))
    }

    fn beating(&self) -> bool {
        self.timers.is_set(Timer::Beat)
    }

    /// Returns the span, varied between nine and eleven tenths, so that nodes that started together do not stay in
    /// step.
    fn jittered(&mut self, span: Duration) -> Duration {
        span.mul_f64(0.9 + 0.2 * self.rng.unit())
    }
}

/// The observable state.
impl Scribe {
    /// Returns this node's address.
    pub fn own(&self) -> NodeAddr {
        self.ring.own
    }
    /// Returns this node's id.
    pub fn id(&self) -> Id {
        self.ring.id
    }
    /// Returns true if the node is in the ring, even if it is alone.
    pub fn is_in_ring(&self) -> bool {
        self.entering.is_none()
    }
    /// Returns the nodes of the leaf set.
    pub fn leaves(&self) -> impl Iterator<Item = NodeAddr> + '_ {
        self.ring.leaves.iter()
    }
    /// Returns the routing table.
    pub fn table(&self) -> &crate::table::RoutingTable {
        &self.ring.table
    }
    /// Returns the nodes of the neighborhood set.
    pub fn neighbourhood(&self) -> impl Iterator<Item = NodeAddr> + '_ {
        self.ring.neighbourhood.iter()
    }
    /// Returns Pastry's next hop towards an id; `None` if this node is the closest that it knows.
    pub fn next_hop(&self, key: Id) -> Option<NodeAddr> {
        self.ring.next_hop(key, None)
    }
    /// Returns the number of groups that this node is in.
    pub fn group_count(&self) -> usize {
        self.trees.len()
    }
    /// Returns the groups that this node is in.
    pub fn groups(&self) -> impl Iterator<Item = NodeAddr> + '_ {
        self.trees.keys().copied()
    }
    /// Returns true if the node is in the group's tree.
    pub fn is_in_tree(&self, group: NodeAddr) -> bool {
        self.trees.contains_key(&group)
    }
    /// Returns true if the local node itself is a member of the group.
    pub fn is_member(&self, group: NodeAddr) -> bool {
        self.trees.get(&group).is_some_and(|tree| tree.is_member)
    }
    /// Returns the parent in a group's tree; `None` for the root, and outside the tree.
    pub fn parent(&self, group: NodeAddr) -> Option<NodeAddr> {
        self.trees.get(&group)?.parent()
    }
    /// Returns the children in a group's tree.
    pub fn children(&self, group: NodeAddr) -> &[NodeAddr] {
        self.trees.get(&group).map_or(&[], Tree::children)
    }
    /// Returns the node that last refused this node in a group, and the reason, as long as no node accepts it.
    pub fn refusal(&self, group: NodeAddr) -> Option<(NodeAddr, Refusal)> {
        self.refused.get(&group).map(|refused| refused.last)
    }
    /// Returns the root of a group for which it was requested, as far as it is known.
    pub fn root(&self, group: NodeAddr) -> Option<NodeAddr> {
        self.wanted.get(&group)?.root
    }
    /// Returns the number of Joins that no parent has answered yet.
    pub fn pending_count(&self) -> usize {
        self.pending.len()
    }
    /// Returns the number of neighbors for which state is kept.
    pub fn peer_count(&self) -> usize {
        self.peers.len()
    }
    /// Returns the maximum number of heap bytes that groups take: entries, and 4 for each child.
    pub fn state_bytes(&self) -> usize {
        let children: usize = self.trees.values().map(|tree| tree.children().len()).sum();
        self.trees.len() * ENTRY_BYTES + children * size_of::<NodeAddr>()
    }
    /// Returns the counters since the start.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }
}
