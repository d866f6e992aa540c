//! A network of two nodes as their clients see it, without the nodes: a packet that a client sends to the other node
//! arrives there, unless the test drops it.

#![allow(
    clippy::unwrap_used,
    dead_code,
    unreachable_pub,
    reason = "shared by tests, of which each uses a part; one that cannot go on says where"
)]

use base::{Duration, NodeAddr, VirtualPort};
use client::{Node, Options};
use core::ops::RangeInclusive;
use gateway::media::{Event, Plane, Settings};
use net::epoll::{Interest, Poller, Ready, Waker};
use net::unix::{Received, SeqListener, SeqStream};
use std::io::IoSlice;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use wire::data::Remaining;
use wire::ipc::{Datagram, Destination, Reply, Request, Room, kind};

pub const NODES: [NodeAddr; 2] = [NodeAddr(0x0a07_0001), NodeAddr(0x0a07_0002)];
/// Virtual ports of every plane.
pub const VIRTUAL: RangeInclusive<u16> = 20_000..=29_999;
pub const DEADLINE: core::time::Duration = core::time::Duration::from_millis(100);
/// The remaining time that every packet reports: 15 ms were used.
const LEFT: Duration = Duration::from_millis(85);

/// The fate of a packet on its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Passes,
    Lost,
    Recovered,
    /// There is no room for the packet's flow, and the sender is informed.
    Refused,
}

/// Chooses the fate by the payload.
pub type Fates = fn(&[u8]) -> Fate;

/// Two nodes on a thread.
pub struct Network {
    paths: [PathBuf; 2],
    stop: Arc<AtomicBool>,
    hang_up: Arc<AtomicBool>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

struct Serving {
    listeners: [SeqListener; 2],
    clients: Vec<Client>,
    fates: Fates,
}

struct Client {
    /// The node of which it is a client.
    node: usize,
    stream: SeqStream,
    /// The virtual ports of the client: one, or a range for a plane.
    ports: RangeInclusive<u16>,
}

impl Network {
    pub fn start(test: &str, fates: Fates) -> Network {
        let name = |node: usize| format!("sinew-media-{}-{test}-{node}.sock", std::process::id());
        let paths = [0, 1].map(|node| std::env::temp_dir().join(name(node)));
        let listeners = paths
            .each_ref()
            .map(|path| SeqListener::bind(path, 0o600).unwrap());
        let (stop, hang_up) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let waker = Waker::new().unwrap();
        let told = (stop.clone(), hang_up.clone(), waker.clone());
        let thread = std::thread::spawn(move || {
            let serving = Serving {
                listeners,
                clients: Vec::new(),
                fates,
            };
            serving.run(&told.0, &told.1, &told.2);
        });
        Network {
            paths,
            stop,
            hang_up,
            waker,
            thread: Some(thread),
        }
    }

    pub fn node(&self, index: usize) -> Node {
        Node::at(&self.paths[index])
    }

    /// Closes all connections, as a restart of the nodes does.
    pub fn hang_up(&self) {
        self.hang_up.store(true, Ordering::Release);
        self.waker.wake();
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.waker.wake();
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || ended.is_some_and(|ended| ended.is_ok()));
        for path in &self.paths {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Serving {
    fn run(mut self, stop: &AtomicBool, hang_up: &AtomicBool, waker: &Waker) {
        const WAKER: u64 = 2;
        const CLIENTS: u64 = 10;
        let mut poller = Poller::new().unwrap();
        for (token, listener) in self.listeners.iter().enumerate() {
            poller.add(listener, token as u64, Interest::READ).unwrap();
        }
        poller.add(waker, WAKER, Interest::READ).unwrap();
        let mut ready: Vec<Ready> = Vec::new();
        while !stop.load(Ordering::Acquire) {
            poller.wait(None, &mut ready).unwrap();
            for event in &ready {
                match event.token {
                    node @ 0..=1 => {
                        let node = node as usize;
                        while let Some(stream) = self.listeners[node].accept().unwrap() {
                            let token = CLIENTS + self.clients.len() as u64;
                            poller.add(&stream, token, Interest::READ).unwrap();
                            let ports = 0..=0;
                            self.clients.push(Client {
                                node,
                                stream,
                                ports,
                            });
                        }
                    }
                    WAKER => drop(waker.drain()),
                    token => self.hear((token - CLIENTS) as usize, &poller),
                }
            }
            if hang_up.swap(false, Ordering::AcqRel) {
                self.clients.clear();
            }
        }
    }

    fn hear(&mut self, client: usize, poller: &Poller) {
        let mut bytes = vec![0; 70_000];
        // Closed clients are still reported once.
        let Some(Client { node, stream, .. }) = self.clients.get(client) else {
            return;
        };
        let node = *node;
        match stream.recv_into(&mut bytes).unwrap() {
            Received::Message(len) => bytes.truncate(len),
            Received::Empty => return,
            _ => return poller.remove(stream).unwrap(),
        }
        let mut answer = Vec::new();
        let mut refused = Vec::new();
        match Request::parse(&bytes).unwrap() {
            Request::Hello { .. } => answer.push(Reply::welcome(NODES[node], 65_507)),
            Request::Options(_) => answer.push(Reply::Done {
                request: kind::OPTIONS,
            }),
            Request::BindRange { first, last } => {
                self.clients[client].ports = first.0..=last.0;
                answer.push(Reply::Bound { port: first });
            }
            Request::Bind { port } => {
                self.clients[client].ports = port.0..=port.0;
                answer.push(Reply::Bound { port });
            }
            Request::SendTo(to, payload) => {
                let from = VirtualPort(*self.clients[client].ports.start());
                self.pass(node, from, to, payload);
            }
            Request::SendFrom(batch) => {
                for (ports, payload) in batch.iter() {
                    if (self.fates)(payload) == Fate::Refused {
                        refused.push((ports.from, ports.to));
                    }
                    self.pass(node, ports.from, ports.to, payload);
                }
            }
            other => panic!("{other:?}"),
        }
        for (from, to) in refused {
            answer.push(Reply::Room(Room {
                is_there: false,
                from,
                to,
            }));
        }
        for reply in answer {
            let mut bytes = [0; 64];
            let len = reply.emit(&mut bytes).unwrap();
            let stream = &self.clients[client].stream;
            // A client that has gone needs no answer.
            let _ = stream.send_parts(&[IoSlice::new(&bytes[..len])]);
        }
    }
}

impl Serving {
    fn pass(&self, node: usize, from: VirtualPort, to: Destination, payload: &[u8]) {
        let fate = (self.fates)(payload);
        let header = Datagram {
            source: NODES[node],
            source_port: from,
            recovered: fate == Fate::Recovered,
            remaining: Remaining::from_duration(LEFT),
            group: None,
        };
        let node = NODES.iter().position(|addr| *addr == to.node);
        let has = |client: &&Client| Some(client.node) == node && client.ports.contains(&to.port.0);
        // The search takes the latest client, because closed ones are still in the list.
        let Some(client) = self.clients.iter().rev().find(has) else {
            return;
        };
        if fate == Fate::Lost || fate == Fate::Refused {
            return;
        }
        // A full buffer loses the packet, as in a node.
        let _ = match client.ports.len() {
            1 => client
                .stream
                .send_parts(&[&header.to_bytes()[..], payload].map(IoSlice::new)),
            _ => {
                let head = header.header_for(to.port, payload.len());
                let parts = [&[kind::DATAGRAMS, 0][..], &head, payload];
                client.stream.send_parts(&parts.map(IoSlice::new))
            }
        };
    }
}

/// A plane and its events.
pub struct Gateway {
    pub plane: Plane,
    pub events: Mutex<Receiver<Event>>,
}

impl Gateway {
    /// Starts a gateway at a node of the network, with this number of UDP ports.
    pub fn start(network: &Network, node: usize, ports: u16) -> Gateway {
        Gateway::with(network, node, ports, |_| {})
    }

    pub fn with(
        network: &Network,
        node: usize,
        ports: u16,
        change: impl FnOnce(&mut Settings),
    ) -> Gateway {
        let (told, events) = channel();
        let told = Mutex::new(told);
        let mut settings = Settings {
            udp: free_ports(ports),
            ..Settings::new(
                network.node(node),
                Box::new(move |event| drop(told.lock().unwrap().send(event))),
            )
        };
        settings.bind = vec![Ipv4Addr::LOCALHOST.into()];
        settings.realtime = false;
        settings.overlay = VIRTUAL;
        settings.options = Options::voice(DEADLINE);
        change(&mut settings);
        Gateway {
            plane: Plane::start(settings).unwrap(),
            events: Mutex::new(events),
        }
    }

    /// Returns the next event; a test calls this for an event that must come.
    pub fn event(&self) -> Event {
        let patience = core::time::Duration::from_secs(20);
        self.events.lock().unwrap().recv_timeout(patience).unwrap()
    }

    /// Waits until `done` returns a value.
    pub fn until<T>(&self, done: impl Fn(&Plane) -> Option<T>) -> T {
        let start = std::time::Instant::now();
        loop {
            if let Some(found) = done(&self.plane) {
                return found;
            }
            assert!(start.elapsed().as_secs() < 20, "it never came");
            std::thread::yield_now();
        }
    }
}

/// Returns a range of UDP ports that are free now. They are below the range from which the system assigns ports, so
/// that they stay free.
pub fn free_ports(count: u16) -> RangeInclusive<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = 10_000 + (std::process::id() % 1_000) as u16 * 16;
    loop {
        let first = start + NEXT.fetch_add(count, Ordering::AcqRel);
        let range = first..=first + count - 1;
        assert!(first < 32_000, "no range is free");
        if range.clone().all(|port| UdpSocket::bind(at(port)).is_ok()) {
            return range;
        }
    }
}

/// Opens a socket of a phone, or of any other host.
pub fn phone() -> UdpSocket {
    let phone = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let patience = core::time::Duration::from_secs(20);
    phone.set_read_timeout(Some(patience)).unwrap();
    phone
}

/// Returns the address of a gateway's port.
pub fn at(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}
