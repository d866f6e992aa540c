//! A network of two nodes as their clients see it, without the nodes: what a client sends to the
//! other one comes out there, unless the test loses it.

#![allow(
    clippy::unwrap_used,
    dead_code,
    unreachable_pub,
    reason = "shared by tests, of which each uses a part; one that cannot go on says where"
)]

use base::{Duration, NodeAddr};
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
use wire::ipc::{Datagram, Reply, Request, kind};

pub const NODES: [NodeAddr; 2] = [NodeAddr(0x0a07_0001), NodeAddr(0x0a07_0002)];
/// Virtual ports of every plane.
pub const VIRTUAL: RangeInclusive<u16> = 20_000..=29_999;
pub const DEADLINE: core::time::Duration = core::time::Duration::from_millis(100);
/// What every packet is told to have left of it: 15 ms were used.
const LEFT: Duration = Duration::from_millis(85);

/// What becomes of a packet on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Passes,
    Lost,
    Recovered,
}

/// By the payload.
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
    /// With the node that each is a client of.
    clients: Vec<(usize, SeqStream)>,
    fates: Fates,
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

    /// Closes all connections, as nodes do that are restarted.
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
                            self.clients.push((node, stream));
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
        // Those that were hung up on are still reported once.
        let Some((node, stream)) = self.clients.get(client) else {
            return;
        };
        let node = *node;
        match stream.recv_into(&mut bytes).unwrap() {
            Received::Message(len) => bytes.truncate(len),
            Received::Empty => return,
            _ => return poller.remove(stream).unwrap(),
        }
        let mut answer = Vec::new();
        match Request::parse(&bytes).unwrap() {
            Request::Hello { .. } => answer.push(Reply::welcome(NODES[node], 65_507)),
            Request::Options(_) => answer.push(Reply::Done {
                request: kind::OPTIONS,
            }),
            Request::BindRange { first, .. } => answer.push(Reply::Bound { port: first }),
            Request::SendFrom(batch) => {
                for (ports, payload) in batch.iter() {
                    let fate = (self.fates)(payload);
                    let header = Datagram {
                        source: NODES[node],
                        source_port: ports.from,
                        recovered: fate == Fate::Recovered,
                        remaining: Remaining::from_duration(LEFT),
                    };
                    let to = NODES.iter().position(|addr| *addr == ports.to.node);
                    let other = self.clients.iter().rev().find(|(at, _)| Some(*at) == to);
                    if let (Some((_, other)), true) = (other, fate != Fate::Lost) {
                        let head = header.header_for(ports.to.port, payload.len());
                        let parts = [&[kind::DATAGRAMS, 0][..], &head, payload];
                        // A full buffer loses it, as nodes do.
                        let _ = other.send_parts(&parts.map(IoSlice::new));
                    }
                }
            }
            other => panic!("{other:?}"),
        }
        for reply in answer {
            let mut bytes = [0; 64];
            let len = reply.emit(&mut bytes).unwrap();
            let stream = &self.clients[client].1;
            stream.send_parts(&[IoSlice::new(&bytes[..len])]).unwrap();
        }
    }
}

/// A plane, and what it tells.
pub struct Gateway {
    pub plane: Plane,
    pub events: Mutex<Receiver<Event>>,
}

impl Gateway {
    /// One at a node of the network, with so many UDP ports.
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

    /// The next event; a test waits for one that must come.
    pub fn event(&self) -> Event {
        let patience = core::time::Duration::from_secs(20);
        self.events.lock().unwrap().recv_timeout(patience).unwrap()
    }

    /// Waits until `done` gives something.
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

/// A range of UDP ports that are free now, below those that the system gives to who asks for any, so
/// that it stays free.
fn free_ports(count: u16) -> RangeInclusive<u16> {
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

/// A phone's socket, or anybody's.
pub fn phone() -> UdpSocket {
    let phone = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let patience = core::time::Duration::from_secs(20);
    phone.set_read_timeout(Some(patience)).unwrap();
    phone
}

/// A gateway's port.
pub fn at(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}
