//! A node with all engines that run in it: the overlay's engine, and Scribe if groups need it. It is one engine for its
//! driver; the laboratory drives the same one.
//!
//! ```text
//!   input ──▶ Node ── errand: join, leave, locate ──▶ Scribe ── edges, roots ──▶ Node
//!              ▲ │                                      │ ▲
//!              │ └── datagram to virtual port 6 ────────│─┘
//!              └──── message to another node ◀──────────┘
//! ```
//!
//! Scribe starts when the first setting of the network says that Scribe builds a group's tree, and ends with the last
//! such setting: a network without such groups has no ring and no ring traffic. Scribe's messages are datagrams of the
//! real-time class, so links repair them.

use crate::status::{GroupsStatus, ScribeStatus};
use base::{
    Burst, ClientId, Duration, Engine, Input, NodeAddr, Outbox, Pool, Time, UnderlayAddr,
    VirtualPort,
};
use overlay::event::Event;
use overlay::groups::Errand;
use overlay::request::{Operation, Options, Reply};
use overlay::snapshot::GroupStatus;
use overlay::sockets::default_options;
use overlay::{Node, Request};
use scribe::{Outlet, Scribe};
use std::collections::{BTreeSet, VecDeque};
use wire::SEALED_HEADROOM;

/// The virtual port of Scribe. It is one of those reserved for the node.
pub const SCRIBE_PORT: VirtualPort = VirtualPort(6);
/// The client id that stands for Scribe at its node.
pub const SCRIBE: ClientId = ClientId(u32::MAX);
/// The client id that stands for the operator.
pub const OPERATOR: ClientId = ClientId(0);
/// Deadline of a message. If it cannot be repaired in this time, Scribe itself asks for it again.
const MESSAGE_DEADLINE: Duration = Duration::from_millis(1_000);

/// A node and the engines that run in it.
#[derive(Debug)]
pub struct Station {
    node: Node,
    scribe: Option<Scribe>,
    seed: u64,
    /// The nodes that Scribe knows to be reachable.
    seen: BTreeSet<NodeAddr>,
    /// Routes have changed since Scribe last got the reachable nodes.
    routes_changed: bool,
    /// Messages for Scribe that have arrived in this call.
    came: VecDeque<(NodeAddr, Burst)>,
}

impl Station {
    /// Creates a station whose node has not sent anything yet. `seed` is for Scribe's own random choices.
    pub fn new(node: Node, seed: u64) -> Station {
        Station {
            node,
            scribe: None,
            seed,
            seen: BTreeSet::new(),
            routes_changed: true,
            came: VecDeque::new(),
        }
    }

    /// Returns the overlay's engine.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Returns true once if there is room for groups again after a client's join was refused for lack of room.
    pub fn take_has_places(&mut self) -> bool {
        self.node.take_has_places()
    }

    /// Returns the groups that the node knows, as [`Node::group_statuses`] does, with what Scribe knows about them.
    pub fn group_statuses(&self, now: Time, only: Option<NodeAddr>) -> Vec<GroupStatus> {
        let mut groups = self.node.group_statuses(now, only);
        for status in &mut groups {
            let group = status.group.parse().ok();
            let refusal = self.scribe.as_ref().zip(group);
            let refusal = refusal.and_then(|(scribe, group)| scribe.refusal(group));
            status.refused = refusal.map(|(by, why)| {
                format!(
                    "{} does not take this node into the tree: {why}",
                    self.node.name_of(by)
                )
            });
        }
        groups
    }

    /// Returns the totals of groups at this node.
    pub fn group_totals(&self, now: Time) -> GroupsStatus {
        let scribe = self.scribe.as_ref().map(|scribe| ScribeStatus {
            in_ring: scribe.is_in_ring(),
            leaves: scribe.leaves().count(),
            peers: scribe.peer_count(),
            trees: scribe.group_count(),
            pending: scribe.pending_count(),
            received: scribe.stats().received,
            sent: scribe.stats().sent,
            refused: scribe.stats().refused,
            repaired: scribe.stats().repaired,
            drops: scribe.stats().drops().collect(),
        });
        GroupsStatus {
            totals: self.node.group_totals(now),
            scribe,
        }
    }

    /// Returns Scribe, while it runs.
    pub fn scribe(&self) -> Option<&Scribe> {
        self.scribe.as_ref()
    }

    /// Exchanges messages and requests between node and Scribe. The work is bounded: each message that has arrived is
    /// taken once, and Scribe's answers are sent.
    fn settle(&mut self, now: Time, out: &mut impl Outbox<Station>) {
        let is_wanted = self.node.wants_scribe();
        if is_wanted != self.scribe.is_some() {
            self.turn_scribe(now, is_wanted, out);
        }
        while let Some(errand) = self.node.next_errand() {
            self.ask(
                now,
                |scribe, desk| match errand {
                    // If there are too many groups, Scribe counts this one, and it has no tree.
                    Errand::Join(group) => drop(scribe.join(now, group, desk)),
                    Errand::Leave(group) => scribe.leave(now, group, desk),
                    Errand::Locate(group) => drop(scribe.locate(now, group, desk)),
                },
                out,
            );
        }
        while let Some((from, message)) = self.came.pop_front() {
            self.ask(
                now,
                |scribe, desk| {
                    scribe.on_message(now, from, message.bytes(), desk);
                },
                out,
            );
        }
    }

    fn turn_scribe(&mut self, now: Time, on: bool, out: &mut impl Outbox<Station>) {
        self.seen.clear();
        self.routes_changed = true;
        self.scribe = on.then(|| {
            Scribe::new(scribe::Config {
                own: self.node.address(),
                seed: self.seed,
                settings: scribe::Settings::default(),
            })
        });
        if on {
            let options = Options {
                deadline: Some(MESSAGE_DEADLINE),
                ..default_options()
            };
            self.node.open_service(SCRIBE, SCRIBE_PORT, options);
            self.tell_reach(now, out);
        } else {
            self.operate(now, Operation::NoScribe, out);
            self.request(now, SCRIBE, Request::Close, out);
        }
    }

    /// Informs Scribe which nodes have become reachable, and which no longer are.
    fn tell_reach(&mut self, now: Time, out: &mut impl Outbox<Station>) {
        if self.scribe.is_none() || !core::mem::take(&mut self.routes_changed) {
            return;
        }
        let own = self.node.address();
        let reach: BTreeSet<NodeAddr> = self.node.reachable().filter(|n| *n != own).collect();
        let before = core::mem::replace(&mut self.seen, reach.clone());
        for gone in before.difference(&reach) {
            self.ask(
                now,
                |scribe, desk| scribe.on_peer_gone(now, *gone, desk),
                out,
            );
        }
        for new in reach.difference(&before) {
            self.ask(
                now,
                |scribe, desk| scribe.on_peer_seen(now, *new, desk),
                out,
            );
        }
    }

    /// Lets Scribe act, and carries out its requests.
    fn ask(
        &mut self,
        now: Time,
        act: impl FnOnce(&mut Scribe, &mut Desk<'_>),
        out: &mut impl Outbox<Station>,
    ) {
        let Some(scribe) = &mut self.scribe else {
            return;
        };
        let mut desk = Desk {
            node: &self.node,
            wishes: Vec::new(),
            granted: Vec::new(),
        };
        act(scribe, &mut desk);
        for wish in desk.wishes {
            match wish {
                Wish::Send(to, bytes) => {
                    // A node without buffers loses the message, as a network does.
                    if let Some(payload) = out.pool().copy_of(SEALED_HEADROOM, &bytes) {
                        let port = SCRIBE_PORT;
                        let request = Request::Send { to, port, payload };
                        self.request(now, SCRIBE, request, out);
                    }
                }
                Wish::Operate(operation) => self.operate(now, operation, out),
            }
        }
    }

    fn operate(&mut self, now: Time, operation: Operation, out: &mut impl Outbox<Station>) {
        self.request(now, SCRIBE, Request::Operate(operation), out);
    }

    fn request(
        &mut self,
        now: Time,
        client: ClientId,
        request: Request,
        out: &mut impl Outbox<Station>,
    ) {
        let input = Input::Request { client, request };
        let mut between = Between {
            out,
            came: &mut self.came,
            routes_changed: &mut self.routes_changed,
        };
        self.node.handle(now, input, &mut between);
    }
}

impl Engine for Station {
    type Request = Request;
    type Reply = Reply;
    type Event = Event;

    fn handle(&mut self, now: Time, input: Input<Request>, out: &mut impl Outbox<Station>) {
        if matches!(input, Input::Timeout)
            && self
                .scribe
                .as_ref()
                .and_then(Scribe::next_timeout)
                .is_some_and(|(at, _)| at <= now)
        {
            self.ask(now, |scribe, desk| scribe.on_timeout(now, desk), out);
        }
        let is_operated = matches!(&input, Input::Request { client, .. } if *client == OPERATOR);
        let mut between = Between {
            out,
            came: &mut self.came,
            routes_changed: &mut self.routes_changed,
        };
        self.node.handle(now, input, &mut between);
        if is_operated || !self.came.is_empty() {
            self.settle(now, out);
        }
    }

    fn flush(&mut self, now: Time, out: &mut impl Outbox<Station>) {
        let mut between = Between {
            out,
            came: &mut self.came,
            routes_changed: &mut self.routes_changed,
        };
        self.node.flush(now, &mut between);
        self.tell_reach(now, out);
        self.settle(now, out);
        if self.scribe.is_some() {
            // The messages that Scribe has sent meanwhile leave in this batch.
            let mut between = Between {
                out,
                came: &mut self.came,
                routes_changed: &mut self.routes_changed,
            };
            self.node.flush(now, &mut between);
        }
    }

    fn next_timeout(&self) -> Option<(Time, &'static str)> {
        let scribe = self.scribe.as_ref().and_then(Scribe::next_timeout);
        [self.node.next_timeout(), scribe]
            .into_iter()
            .flatten()
            .min()
    }
}

/// The node's outbox. It keeps what is for Scribe.
struct Between<'a, O> {
    out: &'a mut O,
    came: &'a mut VecDeque<(NodeAddr, Burst)>,
    routes_changed: &'a mut bool,
}

impl<O: Outbox<Station>> Outbox<Node> for Between<'_, O> {
    fn send(&mut self, to: UnderlayAddr, burst: Burst) {
        self.out.send(to, burst);
    }

    fn deliver(&mut self, client: ClientId, reply: Reply) {
        match reply {
            Reply::Datagram { from, payload, .. } if client == SCRIBE => {
                self.came.push_back((from, payload));
            }
            // Scribe repeats a request that was refused.
            _ if client == SCRIBE => {}
            reply => self.out.deliver(client, reply),
        }
    }

    fn report(&mut self, event: Event) {
        *self.routes_changed |= matches!(event, Event::RoutesChanged { .. });
        self.out.report(event);
    }

    fn pool(&self) -> &Pool {
        self.out.pool()
    }
}

/// A request of Scribe.
enum Wish {
    Send(NodeAddr, Vec<u8>),
    Operate(Operation),
}

/// The outlet that collects Scribe's requests.
struct Desk<'a> {
    node: &'a Node,
    wishes: Vec<Wish>,
    /// Children, by group, that were admitted in this call. The node does not know them yet.
    granted: Vec<(NodeAddr, NodeAddr)>,
}

impl Outlet for Desk<'_> {
    fn send(&mut self, to: NodeAddr, bytes: &[u8]) {
        self.wishes.push(Wish::Send(to, bytes.to_vec()));
    }

    fn branches(
        &mut self,
        group: NodeAddr,
        parent: Option<NodeAddr>,
        children: &[NodeAddr],
        is_member: bool,
    ) {
        let ends: Vec<NodeAddr> = parent.into_iter().chain(children.iter().copied()).collect();
        let is_in_tree = is_member || !ends.is_empty();
        self.wishes.push(Wish::Operate(Operation::Edges {
            group,
            ends,
            has_parent: parent.is_some(),
            is_in_tree,
        }));
    }

    fn root(&mut self, group: NodeAddr, root: NodeAddr) {
        let at = root;
        self.wishes
            .push(Wish::Operate(Operation::Root { group, at }));
    }

    fn proximity_us(&self, to: NodeAddr) -> Option<u32> {
        let latency = self.node.latency(to)?;
        Some(u32::try_from(latency.as_micros()).unwrap_or(u32::MAX))
    }

    fn admits(&mut self, group: NodeAddr, child: NodeAddr) -> bool {
        let admits = self.node.lacks_for(group, child, &self.granted).is_none();
        if admits {
            self.granted.push((group, child));
        }
        admits
    }

    fn report(&mut self, _event: scribe::Event) {
        // Scribe's counters are read instead; see `Station::scribe`.
    }
}
