//! The engines on hosts of a world: a node whose output is watched, or a rogue that only looks like a node.

use super::neighbour::Neighbour;
use base::{
    Burst, ClientId, Duration, Engine, Input, NodeAddr, Outbox, Pool, Rng, Time, UnderlayAddr,
};
use overlay::{Event, Node, Reply, Request};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use wire::Loss;
use wire::link::Kind;

/// The bytes that UDP over IPv4 adds to each datagram.
pub const UDP_BYTES: u64 = 28;

/// Datagrams of one kind to one address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    pub datagrams: u64,
    /// Bytes without UDP and IP headers.
    pub bytes: u64,
}

impl Traffic {
    /// Returns the bytes with UDP and IP headers.
    pub fn wire_bytes(self) -> u64 {
        self.bytes + UDP_BYTES * self.datagrams
    }
}

/// Copies of the datagrams that a party has sent, with their destinations.
pub type Tap = Rc<RefCell<Vec<(UnderlayAddr, Vec<u8>)>>>;

/// The role of a host's engine.
pub enum Role {
    Node(Box<Node>),
    Rogue(Box<Neighbour>),
}

/// A host's engine, with a count of what it has sent.
pub struct Party {
    pub role: Role,
    pub sent: BTreeMap<(UnderlayAddr, u8), Traffic>,
    /// Copies of all datagrams sent, if the test needs them.
    pub tap: Option<Tap>,
    /// A network that delivers some datagrams twice, and their share.
    pub twice: Option<(Rng, f64)>,
}

/// A request to a party.
pub enum Ask {
    /// To a node.
    Client(Request),
    /// To any party: datagrams to send as they are, without any cause.
    Throw(UnderlayAddr, Vec<Vec<u8>>),
    /// To a rogue: a message to be sealed and sent to the neighbour.
    Say(UnderlayAddr, Kind, Vec<u8>),
    /// The same, sealed for the first address and sent to the second.
    Stray(UnderlayAddr, UnderlayAddr, Kind, Vec<u8>),
    /// To a rogue: begin a handshake.
    Dial(UnderlayAddr),
    /// The same for a further path.
    DialFurther(UnderlayAddr, NodeAddr),
    /// To a rogue: its hellos measure this much more than the round trip, as if they had waited in queues.
    Queue(Duration),
    /// To a rogue: its hellos report that it accepts repair packets and has lost this many packets.
    Claim(Loss),
}

impl From<Request> for Ask {
    fn from(request: Request) -> Ask {
        Ask::Client(request)
    }
}

impl Party {
    pub fn node(node: Node) -> Party {
        Party::of(Role::Node(Box::new(node)))
    }

    pub fn rogue(neighbour: Neighbour) -> Party {
        Party::of(Role::Rogue(Box::new(neighbour)))
    }

    fn of(role: Role) -> Party {
        Party {
            role,
            sent: BTreeMap::new(),
            tap: None,
            twice: None,
        }
    }

    /// Returns the traffic to `to` in datagrams of this kind.
    pub fn sent(&self, to: UnderlayAddr, kind: Kind) -> Traffic {
        let key = (to, kind.byte());
        self.sent.get(&key).copied().unwrap_or_default()
    }

    pub fn as_node(&self) -> Option<&Node> {
        match &self.role {
            Role::Node(node) => Some(node),
            Role::Rogue(_) => None,
        }
    }

    pub fn as_rogue(&self) -> Option<&Neighbour> {
        match &self.role {
            Role::Node(_) => None,
            Role::Rogue(neighbour) => Some(neighbour),
        }
    }
}

/// The outbox of a party: counts, copies, and forwards.
struct Desk<'a, O> {
    out: &'a mut O,
    sent: &'a mut BTreeMap<(UnderlayAddr, u8), Traffic>,
    tap: &'a mut Option<Tap>,
    twice: &'a mut Option<(Rng, f64)>,
}

impl<O: Outbox<Party>> Outbox<Node> for Desk<'_, O> {
    fn send(&mut self, to: UnderlayAddr, burst: Burst) {
        for i in 0..burst.segments() {
            let datagram = burst.segment(i);
            let first = datagram.first().copied().unwrap_or_default();
            let traffic = self.sent.entry((to, first)).or_default();
            traffic.datagrams += 1;
            traffic.bytes += datagram.len() as u64;
            if let Some(tap) = self.tap {
                tap.borrow_mut().push((to, datagram.to_vec()));
            }
        }
        let mut copies = Vec::new();
        if let Some((rng, share)) = self.twice {
            let mut copy = |i| rng.chance(*share).then(|| burst.segment(i).to_vec());
            copies = (0..burst.segments()).filter_map(&mut copy).collect();
        }
        self.out.send(to, burst);
        for copy in copies {
            let copy = self.out.pool().copy_of(0, &copy);
            self.out
                .send(to, copy.expect("the world has buffers enough"));
        }
    }

    fn deliver(&mut self, client: ClientId, reply: Reply) {
        self.out.deliver(client, reply);
    }

    fn report(&mut self, event: Event) {
        self.out.report(event);
    }

    fn pool(&self) -> &Pool {
        self.out.pool()
    }
}

impl Engine for Party {
    type Request = Ask;
    type Reply = Reply;
    type Event = Event;

    fn handle(&mut self, now: Time, input: Input<Ask>, out: &mut impl Outbox<Party>) {
        let mut desk = Desk {
            out,
            sent: &mut self.sent,
            tap: &mut self.tap,
            twice: &mut self.twice,
        };
        let input = match input {
            Input::Request {
                request: Ask::Throw(to, datagrams),
                ..
            } => return throw(&mut desk, to, &datagrams),
            other => other,
        };
        match &mut self.role {
            Role::Node(node) => {
                let input = match input {
                    Input::Datagrams { from, burst } => Input::Datagrams { from, burst },
                    Input::TooLong { to, bytes } => Input::TooLong { to, bytes },
                    Input::Timeout => Input::Timeout,
                    Input::Request {
                        client,
                        request: Ask::Client(request),
                    } => Input::Request { client, request },
                    Input::Request { .. } => panic!("a node is asked by its clients only"),
                };
                node.handle(now, input, &mut desk);
            }
            Role::Rogue(rogue) => match input {
                Input::Datagrams { from, burst } => {
                    for i in 0..burst.segments() {
                        let answers = rogue.on_datagram(now, from, burst.segment(i));
                        throw(&mut desk, from, &answers);
                    }
                }
                Input::TooLong { .. } => {}
                Input::Timeout => {
                    for (to, datagram) in rogue.on_timeout(now) {
                        throw(&mut desk, to, &[datagram]);
                    }
                }
                Input::Request { request, .. } => match request {
                    Ask::Say(to, kind, plaintext) => {
                        let said = rogue.seal(to, kind, &plaintext);
                        throw(&mut desk, to, &said);
                    }
                    Ask::Dial(to) => {
                        let init = rogue.dial(now, to);
                        throw(&mut desk, to, &[init]);
                    }
                    Ask::Stray(of, to, kind, plaintext) => {
                        let said = rogue.seal(of, kind, &plaintext);
                        throw(&mut desk, to, &said);
                    }
                    Ask::DialFurther(to, peer) => {
                        let init = rogue.dial_further(now, to, peer);
                        throw(&mut desk, to, &[init]);
                    }
                    Ask::Queue(queued) => rogue.queued = queued,
                    Ask::Claim(loss) => rogue.claims = Some(loss),
                    Ask::Client(_) => panic!("a rogue has no clients"),
                    Ask::Throw(..) => unreachable!("taken above"),
                },
            },
        }
    }

    fn flush(&mut self, now: Time, out: &mut impl Outbox<Party>) {
        if let Role::Node(node) = &mut self.role {
            let mut desk = Desk {
                out,
                sent: &mut self.sent,
                tap: &mut self.tap,
                twice: &mut self.twice,
            };
            node.flush(now, &mut desk);
        }
    }

    fn next_timeout(&self) -> Option<(Time, &'static str)> {
        match &self.role {
            Role::Node(node) => node.next_timeout(),
            Role::Rogue(rogue) => Some((rogue.next_timeout(), "rogue")),
        }
    }
}

fn throw(out: &mut impl Outbox<Node>, to: UnderlayAddr, datagrams: &[Vec<u8>]) {
    for datagram in datagrams {
        let burst = out.pool().copy_of(0, datagram);
        out.send(to, burst.expect("the world has buffers enough"));
    }
}
