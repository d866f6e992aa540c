//! One end of a chain inside the benchmark's own process: a real engine behind a real socket. The loop of the
//! measurement drives it, so that nothing waits for a wake-up.
//!
//! ```text
//!   seal ──> packets, sealed and packed as GSO will take them ──> fire (volley.rs)
//!   step:  socket ──> engine ──> counted        timers, hellos, requests, answers as in any node
//! ```
//!
//! The sending end seals ahead of time, since sealing costs as much as forwarding does. In the meantime it must not
//! send anything else: a hello would have a later counter than the waiting packets.

use super::BenchError;
use super::credentials::{Issuer, address, name};
use super::losing::Losing;
use super::volley::{Sink, cut};
use base::pool::LARGE_BYTES;
use base::{Burst, ClientId, Engine, Input, Outbox, Pool, Time, UnderlayAddr, VirtualPort};
use net::Clock;
use net::udp::{Options, SendQueue, Socket};
use overlay::request::Operation;
use overlay::settings::Sealing;
use overlay::{Config, Event, Neighbor, Node, Reply, Request, Settings};
use std::collections::VecDeque;
use std::net::SocketAddr;
use wire::HEADROOM;
use wire::ipc;

/// Memory for packets that are sealed and wait.
pub(crate) const SEALED_BYTES: usize = 128 << 20;
/// Number of large buffers: for the waiting packets, and for those that the socket and an emulated link hold.
const LARGE_SLOTS: usize = SEALED_BYTES / LARGE_BYTES + 1_024;
/// Number of small buffers: for single packets on an emulated link at 200 000 packets/s for 20 ms, and more.
const SMALL_SLOTS: usize = 16_384;
/// Messages per step; few, so that a sender in the same loop is not late.
const MESSAGES: usize = 4;

/// An engine, its socket, and the count of what arrived.
pub(crate) struct Endpoint {
    node: Node,
    desk: Desk,
    socket: Socket,
    clock: Clock,
    received: Vec<(UnderlayAddr, Burst)>,
    losing: Option<Losing>,
    seals_ends: bool,
}

struct Desk {
    pool: Pool,
    queue: SendQueue,
    /// If set, sealed packets are packed here instead of being sent.
    packing: Option<Packing>,
    delivered: u64,
}

/// Packets of equal size, cut into bursts.
struct Packing {
    per_burst: usize,
    open: Option<Burst>,
    done: VecDeque<Burst>,
}

/// The configuration of an endpoint.
pub(crate) struct Setup {
    pub(crate) index: usize,
    pub(crate) socket: Socket,
    pub(crate) neighbor: usize,
    pub(crate) dial: Option<UnderlayAddr>,
    /// If set, the endpoint loses one packet of this many, and requests none of them.
    pub(crate) loses_one_of: Option<u64>,
    /// Whether packets are sealed from end to end.
    pub(crate) seals_ends: bool,
}

impl Endpoint {
    pub(crate) fn new(issuer: &mut Issuer, setup: Setup) -> Result<Endpoint, BenchError> {
        let clock = Clock::new();
        // The benchmark reaches and exceeds limits on purpose, so no brake must slow it down.
        let mut settings = Settings {
            brake: None,
            ..Settings::modern()
        };
        if setup.loses_one_of.is_some() {
            settings.realtime.strikes = 0;
        }
        if !setup.seals_ends {
            settings.sealing = Sealing::Off;
        }
        let node = Node::new(Config {
            identity: issuer.identity(setup.index)?,
            network: issuer.network(),
            neighbors: vec![Neighbor {
                more: Vec::new(),
                capacity_kbps: 0,
                reliable: Default::default(),
                addr: address(setup.neighbor),
                name: name(setup.neighbor),
                at: setup.dial,
            }],
            accept: None,
            settings,
            lab: true,
            seed: net::sched::entropy()?,
            unix_start_s: clock.unix_s(),
        });
        let desk = Desk {
            pool: Pool::new(LARGE_SLOTS, SMALL_SLOTS),
            queue: SendQueue::new(),
            packing: None,
            delivered: 0,
        };
        Ok(Endpoint {
            node,
            desk,
            socket: setup.socket,
            clock,
            received: Vec::new(),
            losing: setup.loses_one_of.map(Losing::one_of),
            seals_ends: setup.seals_ends,
        })
    }

    /// Handles received messages and timers. Returns the number of messages.
    pub(crate) fn step(&mut self) -> usize {
        // Errors of a datagram socket concern single packets.
        let _ = self
            .socket
            .recv_batch(&self.desk.pool, &mut self.received, MESSAGES);
        let count = self.received.len();
        let now = self.clock.now();
        for (from, burst) in self.received.drain(..) {
            let left = match &mut self.losing {
                Some(losing) => losing.pass(burst),
                None => Some(burst),
            };
            let Some(burst) = left else { continue };
            self.node
                .handle(now, Input::Datagrams { from, burst }, &mut self.desk);
        }
        if self.node.next_timeout().is_some_and(|(at, _)| at <= now) {
            self.node.handle(now, Input::Timeout, &mut self.desk);
        }
        self.node.flush(now, &mut self.desk);
        self.send();
        count
    }

    /// Runs for a while, with pauses when there is nothing to do.
    pub(crate) fn run(ends: &mut [&mut Endpoint], span: base::Duration) {
        let clock = Clock::new();
        let until = clock.now() + span;
        while clock.now() < until {
            if ends.iter_mut().map(|end| end.step()).sum::<usize>() == 0 {
                std::thread::sleep(std::time::Duration::from_micros(200));
            }
        }
    }

    /// Binds a client's socket.
    pub(crate) fn bind(&mut self, client: ClientId, port: VirtualPort, options: ipc::Options) {
        self.request(client, Request::Bind { port });
        self.request(client, Request::Options(options));
    }

    /// Changes the model of the path to the neighbour.
    pub(crate) fn impair(&mut self, neighbor: usize, model: base::impair::Model) {
        let operation = Operation::Impair {
            neighbor: address(neighbor),
            model: Some(model),
        };
        self.request(ClientId(0), Request::Operate(operation));
    }

    /// Makes packets of `payload` bytes from `flows` clients in turn, seals them for the neighbour and cuts them into
    /// bursts. They must be sent before the engine sends anything else.
    pub(crate) fn seal(
        &mut self,
        packets: usize,
        per_burst: usize,
        payload: &[u8],
        flows: u32,
        to: (usize, VirtualPort),
    ) -> Result<VecDeque<Burst>, BenchError> {
        self.desk.packing = Some(Packing {
            per_burst,
            open: None,
            done: VecDeque::new(),
        });
        for i in 0..packets {
            let Some(payload) = self.desk.pool.copy_of(HEADROOM, payload) else {
                break;
            };
            let request = Request::Send {
                to: address(to.0),
                port: to.1,
                payload,
            };
            self.request(ClientId(1 + i as u32 % flows), request);
        }
        let sealed = self
            .desk
            .packing
            .take()
            .map(Packing::finish)
            .unwrap_or_default();
        let made: usize = sealed.iter().map(Burst::segments).sum();
        if made == packets {
            Ok(sealed)
        } else {
            let what = format!("{made} of {packets} packets could be sealed: no link or no route");
            Err(BenchError::Start(what))
        }
    }

    /// Sends one burst now.
    pub(crate) fn fire(&mut self, to: UnderlayAddr, burst: Burst) {
        self.desk.queue.push(to, burst);
        self.send();
    }

    /// Returns whether packets to node `index` are sent at once: there is a path by the metric of voice, and an
    /// end-to-end session, if packets are sealed from end to end.
    pub(crate) fn has_route(&self, index: usize) -> bool {
        let to = address(index).to_string();
        let snapshot = self.node.snapshot(self.clock.now());
        let mut routes = snapshot.routes.iter();
        let mut ends = snapshot.ends.iter();
        routes.any(|route| route.to == to && route.metric == "expected-latency")
            && (!self.seals_ends || ends.any(|end| end.node == to && end.session_age_s.is_some()))
    }

    fn request(&mut self, client: ClientId, request: Request) {
        let now: Time = self.clock.now();
        self.node
            .handle(now, Input::Request { client, request }, &mut self.desk);
    }

    fn send(&mut self) {
        if !self.desk.queue.is_empty() {
            self.socket.send_batch(&mut self.desk.queue);
        }
    }
}

/// Counts packets that reach a client here as arrivals.
impl Sink for Endpoint {
    fn step(&mut self) -> usize {
        Endpoint::step(self)
    }

    fn arrived(&self) -> u64 {
        self.desk.delivered
    }
}

impl Outbox<Node> for Desk {
    fn send(&mut self, to: UnderlayAddr, burst: Burst) {
        match &mut self.packing {
            Some(packing) => packing.push(&self.pool, &burst),
            // A packet that does not fit is lost, as in a node.
            None => drop(self.queue.push(to, burst)),
        }
    }

    fn deliver(&mut self, _: ClientId, reply: Reply) {
        self.delivered += u64::from(matches!(reply, Reply::Datagram { .. }));
    }

    fn report(&mut self, _: Event) {}

    fn pool(&self) -> &Pool {
        &self.pool
    }
}

impl Packing {
    fn push(&mut self, pool: &Pool, packet: &Burst) {
        // Only whole bursts fit, so that all have the same size.
        let fit = LARGE_BYTES / packet.len() / self.per_burst * self.per_burst;
        let room = |open: &mut Burst| open.segments() < fit && open.append(packet.bytes());
        if self.open.as_mut().is_some_and(room) {
            return;
        }
        self.close();
        self.open = pool.large().map(|mut fresh| {
            fresh.append(packet.bytes());
            fresh
        });
    }

    /// Cuts the filled buffer into bursts.
    fn close(&mut self) {
        cut(self.open.take(), self.per_burst, &mut self.done);
    }

    fn finish(mut self) -> VecDeque<Burst> {
        self.close();
        self.done
    }
}

/// Opens a UDP socket for bursts at `at`.
pub(crate) fn socket(at: SocketAddr) -> Result<Socket, BenchError> {
    Ok(Socket::bind(at, Options::default())?)
}
