//! The calls themselves: the first node sends and the last one receives, on every path.
//!
//! ```text
//!   speaker thread:   at each packet's moment  ─┬─ UDP to the emulator
//!                                               └─ each overlay's socket of the call
//!   listener thread:  epoll over the overlays' sockets and one UDP socket ─> arrival times
//! ```
//!
//! Path 0 is plain UDP; path 1 is the first chain.
//!
//! Both threads belong to one process, so one clock times both ends. A phone whose node is killed goes on sending, and
//! reconnects when the node is back.

use super::DemoError;
use super::chain::Chain;
use base::{Duration, NodeAddr, Time, VirtualPort};
use client::{DatagramSocket, Node, Options, Target};
use net::Clock;
use net::epoll::{Interest, Poller, Ready};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tools::pace::{self, Moments, Schedule};
use voice::call::Altered;
use voice::frames::FRAME_SAMPLES;
use voice::rtp::place::{self, PACKET_BYTES, Place};

/// Virtual port of the first call, at both ends; the ports of the other calls follow.
const FIRST_PORT: u16 = 5000;
/// Number of packets taken from one socket before the other sockets are read.
const READS_PER_TURN: usize = 32;
/// How often the listener checks whether to stop, and whether nodes are back.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How often a phone tries to reach its node again.
const RETRY_EVERY: Duration = Duration::from_millis(100);

/// Counters for the thread that waits for the calls.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) sent: AtomicU64,
    /// Packets that arrived, path by path.
    pub(crate) arrived: Vec<AtomicU64>,
    /// Requests that both threads stop.
    pub(crate) stop: AtomicBool,
}

impl Live {
    pub(crate) fn new(ways: usize) -> Live {
        Live {
            sent: AtomicU64::new(0),
            arrived: (0..ways).map(|_| AtomicU64::new(0)).collect(),
            stop: AtomicBool::new(false),
        }
    }

    fn count(&self, way: usize) {
        if let Some(arrived) = self.arrived.get(way) {
            arrived.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
}

/// The times at which packets were sent, or arrived.
#[derive(Debug)]
pub(crate) struct Times {
    /// The times, path by path.
    pub(crate) ways: Vec<Moments>,
    /// How much later than due packets were sent, in microseconds; empty for arrivals.
    pub(crate) behind_us: Vec<u64>,
    /// For arrivals, path by path and call by call: payloads that arrived altered.
    pub(crate) altered: Vec<Vec<Altered>>,
}

impl Times {
    fn new(schedule: &Schedule, ways: usize) -> Times {
        Times {
            ways: vec![Moments::new(schedule.calls, schedule.packets); ways],
            behind_us: Vec::new(),
            altered: vec![vec![Altered::new(); schedule.calls as usize]; ways],
        }
    }

    /// Notes a packet that arrived by a path. Returns false if it had already arrived, or there is no such packet. The
    /// arrived payload is what the listener hears.
    fn hear(
        &mut self,
        way: usize,
        heard: Heard<'_>,
        at: Time,
        sent: &[[u8; FRAME_SAMPLES]],
    ) -> bool {
        let Place { source, index } = heard.place;
        let is_first = self.ways[way].note(source, index, at);
        if is_first
            && sent.get(index as usize) != Some(heard.speech)
            && let Some(altered) = self.altered[way].get_mut(source as usize)
        {
            altered.insert(index, *heard.speech);
        }
        is_first
    }
}

/// A packet that arrived.
#[derive(Clone, Copy)]
struct Heard<'p> {
    place: Place,
    speech: &'p [u8; FRAME_SAMPLES],
}

impl<'p> Heard<'p> {
    fn parse(packet: &'p [u8]) -> Option<Heard<'p>> {
        let (place, speech) = place::parse(packet)?;
        Some(Heard { place, speech })
    }
}

/// One end of a call at its node. If the node disappears, the phone tries to reach it again.
#[derive(Debug)]
struct Phone {
    node: Node,
    deadline: Duration,
    port: u16,
    socket: Option<DatagramSocket>,
    retry_at: Time,
}

impl Phone {
    fn connect(node: &Node, call: u32, deadline: Duration) -> Result<Phone, client::Error> {
        let mut phone = Phone {
            node: node.clone(),
            deadline,
            port: FIRST_PORT + call as u16,
            socket: None,
            retry_at: Time::ZERO,
        };
        phone.socket = Some(phone.bind()?);
        Ok(phone)
    }

    fn bind(&self) -> Result<DatagramSocket, client::Error> {
        let deadline = std::time::Duration::from_nanos(self.deadline.as_nanos());
        let socket = self.node.bind(self.port, Options::voice(deadline))?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    }

    fn lose(&mut self) {
        self.socket = None;
    }

    /// Tries to reach the node again if it is time. Returns true if it was found.
    fn retry(&mut self, now: Time) -> bool {
        if self.socket.is_some() || now < self.retry_at {
            return false;
        }
        self.retry_at = now + RETRY_EVERY;
        self.socket = self.bind().ok();
        self.socket.is_some()
    }

    fn send(&mut self, packet: &[u8], to: Target) {
        let Some(socket) = &self.socket else { return };
        match socket.send_to(packet, to) {
            // A node that does not accept the packet now loses it, as a full socket buffer does.
            Ok(()) | Err(client::Error::WouldBlock) => {}
            Err(_) => self.lose(),
        }
    }
}

/// The phones of all calls at one node of an overlay.
#[derive(Debug)]
struct Exchange {
    phones: Vec<Phone>,
    /// The node at the other end.
    peer: NodeAddr,
}

impl Exchange {
    fn open(node: &Node, peer: NodeAddr, ask: &Ask) -> Result<Exchange, DemoError> {
        let phones: Result<Vec<Phone>, client::Error> = (0..ask.calls)
            .map(|call| Phone::connect(node, call, ask.deadline))
            .collect();
        Ok(Exchange {
            phones: phones?,
            peer,
        })
    }

    fn speak(&mut self, call: u32, packet: &[u8]) {
        let Some(phone) = self.phones.get_mut(call as usize) else {
            return;
        };
        let to = Target {
            node: self.peer,
            port: VirtualPort(phone.port),
        };
        phone.send(packet, to);
    }
}

/// The number of calls, and the deadline of their packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) calls: u32,
    pub(crate) deadline: Duration,
}

/// Opens the sending ends of the calls at the first nodes.
pub(crate) fn speaker(
    chains: &[Chain],
    ask: &Ask,
    emulator: SocketAddr,
) -> Result<Speaker, DemoError> {
    let direct = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    direct.set_nonblocking(true)?;
    direct.connect(emulator)?;
    let open = |chain: &Chain| {
        let node = Node::at(chain.first_socket());
        Exchange::open(&node, chain.last_address(), ask)
    };
    Ok(Speaker {
        direct,
        overlays: chains.iter().map(open).collect::<Result<_, _>>()?,
    })
}

/// Opens the receiving ends of the calls at the last nodes.
pub(crate) fn listener(chains: &[Chain], ask: &Ask) -> Result<Listener, DemoError> {
    let direct = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    direct.set_nonblocking(true)?;
    let open = |chain: &Chain| {
        let node = Node::at(chain.last_socket());
        Exchange::open(&node, chain.first_address(), ask)
    };
    Ok(Listener {
        direct,
        overlays: chains.iter().map(open).collect::<Result<_, _>>()?,
    })
}

/// The sending end.
#[derive(Debug)]
pub(crate) struct Speaker {
    direct: UdpSocket,
    overlays: Vec<Exchange>,
}

impl Speaker {
    /// Sends every packet at its time on all paths, as soon after each other as system calls allow; the order of the
    /// paths changes with every packet.
    pub(crate) fn run(
        mut self,
        clock: Clock,
        schedule: Schedule,
        speech: &[[u8; FRAME_SAMPLES]],
        live: &Live,
    ) -> Times {
        pace::prepare_thread();
        let ways = 1 + self.overlays.len();
        let mut times = Times::new(&schedule, ways);
        for n in 0..schedule.total() {
            let (call, index) = schedule.place(n);
            if live.stopping() {
                break;
            }
            let Some(frame) = speech.get(index as usize) else {
                break;
            };
            let packet = place::emit(
                Place {
                    source: call,
                    index,
                },
                frame,
            );
            let behind = pace::sleep_until(clock, schedule.due(call, index));
            times.behind_us.push(behind.as_micros());
            for turn in 0..ways {
                let way = (call as usize + index as usize + turn) % ways;
                times.ways[way].note(call, index, clock.now());
                self.speak(way, call, &packet);
            }
            live.sent.fetch_add(1, Ordering::Relaxed);
            for overlay in &mut self.overlays {
                if let Some(phone) = overlay.phones.get_mut(call as usize) {
                    phone.retry(clock.now());
                }
            }
        }
        times
    }

    fn speak(&mut self, way: usize, call: u32, packet: &[u8]) {
        match way.checked_sub(1) {
            None => {
                // A packet that the kernel refuses is lost.
                let _ = self.direct.send(packet);
            }
            Some(overlay) => self.overlays[overlay].speak(call, packet),
        }
    }
}

/// The receiving end.
#[derive(Debug)]
pub(crate) struct Listener {
    direct: UdpSocket,
    overlays: Vec<Exchange>,
}

impl Listener {
    /// Returns the address at which the direct path ends.
    pub(crate) fn direct_address(&self) -> io::Result<SocketAddr> {
        self.direct.local_addr()
    }

    /// Notes the arrival times of packets, and the payloads that arrived altered, until it must stop.
    pub(crate) fn run(
        mut self,
        clock: Clock,
        schedule: Schedule,
        speech: &[[u8; FRAME_SAMPLES]],
        live: &Live,
    ) -> io::Result<Times> {
        pace::prepare_thread();
        let mut poller = Poller::new()?;
        poller.add(&self.direct, token(0, 0), Interest::READ)?;
        for (overlay, exchange) in self.overlays.iter().enumerate() {
            for (call, phone) in exchange.phones.iter().enumerate() {
                watch(&poller, phone, token(1 + overlay, call))?;
            }
        }
        let mut times = Times::new(&schedule, 1 + self.overlays.len());
        let mut ready: Vec<Ready> = Vec::new();
        while !live.stopping() {
            poller.wait(Some(LOOK_EVERY), &mut ready)?;
            for event in &ready {
                match way_and_call(event.token) {
                    (0, _) => self.hear_direct(clock, &mut times, speech, live)?,
                    (way, call) => self.hear_overlay((way, call), clock, &mut times, speech, live),
                }
            }
            self.look_for_nodes(&poller, clock.now())?;
        }
        Ok(times)
    }

    /// Listens again at nodes that are back.
    fn look_for_nodes(&mut self, poller: &Poller, now: Time) -> io::Result<()> {
        for (overlay, exchange) in self.overlays.iter_mut().enumerate() {
            for (call, phone) in exchange.phones.iter_mut().enumerate() {
                if phone.socket.is_none() && phone.retry(now) {
                    watch(poller, phone, token(1 + overlay, call))?;
                }
            }
        }
        Ok(())
    }

    fn hear_direct(
        &mut self,
        clock: Clock,
        times: &mut Times,
        speech: &[[u8; FRAME_SAMPLES]],
        live: &Live,
    ) -> io::Result<()> {
        let mut buffer = [0; 2 * PACKET_BYTES];
        for _ in 0..READS_PER_TURN {
            match self.direct.recv(&mut buffer) {
                Ok(len) => {
                    let now = clock.now();
                    let heard = Heard::parse(&buffer[..len]);
                    if heard.is_some_and(|heard| times.hear(0, heard, now, speech)) {
                        live.count(0);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn hear_overlay(
        &mut self,
        (way, call): (usize, u32),
        clock: Clock,
        times: &mut Times,
        speech: &[[u8; FRAME_SAMPLES]],
        live: &Live,
    ) {
        let mut buffer = [0; 2 * PACKET_BYTES];
        let exchange = self.overlays.get_mut(way - 1);
        let Some(phone) = exchange.and_then(|e| e.phones.get_mut(call as usize)) else {
            return;
        };
        for _ in 0..READS_PER_TURN {
            let Some(socket) = &phone.socket else { return };
            match socket.recv_from(&mut buffer) {
                Ok((len, ..)) => {
                    let now = clock.now();
                    // A call accepts only its own packets.
                    let heard = Heard::parse(&buffer[..len]);
                    let heard = heard.filter(|heard| heard.place.source == call);
                    if heard.is_some_and(|heard| times.hear(way, heard, now, speech)) {
                        live.count(way);
                    }
                }
                Err(client::Error::WouldBlock) => return,
                Err(client::Error::Refused { .. }) => {}
                // Closing the descriptor removes it from the poller.
                Err(_) => phone.lose(),
            }
        }
    }
}

/// Returns the poller's token for a call's socket on a path.
fn token(way: usize, call: usize) -> u64 {
    (way as u64) << 32 | call as u64
}

fn way_and_call(token: u64) -> (usize, u32) {
    ((token >> 32) as usize, token as u32)
}

fn watch(poller: &Poller, phone: &Phone, token: u64) -> io::Result<()> {
    match &phone.socket {
        Some(socket) => poller.add(socket, token, Interest::READ),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
