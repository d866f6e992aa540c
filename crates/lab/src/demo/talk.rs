//! The calls themselves: who speaks at node A and who listens at node F, on both paths.
//!
//! ```text
//!   speaker thread:   at each packet's moment  ─┬─ overlay socket of the call, at A
//!                                               └─ UDP to the emulator
//!   listener thread:  epoll over the overlay sockets at F and one UDP socket ─> arrival times
//! ```
//!
//! Both threads are of one process, so one clock times both ends. A phone whose node is killed
//! goes on speaking, and comes back when the node does.

use super::DemoError;
use super::chain::{Chain, NAMES, address};
use base::{Duration, Time, VirtualPort};
use client::{DatagramSocket, Node, Options, Target};
use net::Clock;
use net::epoll::{Interest, Poller, Ready};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tools::pace::{self, DEADLINE, Moments, Schedule};
use tools::rtp::{self, Place};
use voice::frames::FRAME_SAMPLES;

/// Virtual port of the first call, at both ends; the others follow it.
const FIRST_PORT: u16 = 5000;
/// Packets taken from one socket before the others get their turn.
const READS_PER_TURN: usize = 32;
/// How often the listener looks whether it is over, and for nodes that have come back.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How often a phone tries to reach its node again.
const RETRY_EVERY: Duration = Duration::from_millis(100);

const TOKEN_DIRECT: u64 = 1 << 32;

/// What is counted while the calls run, for whoever waits for them.
#[derive(Debug, Default)]
pub(crate) struct Live {
    pub(crate) sent: AtomicU64,
    pub(crate) direct: AtomicU64,
    pub(crate) overlay: AtomicU64,
    /// Asks both threads to end.
    pub(crate) stop: AtomicBool,
}

impl Live {
    pub(crate) fn stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
}

/// When the packets were sent, or arrived, on both paths.
#[derive(Debug)]
pub(crate) struct Times {
    pub(crate) direct: Moments,
    pub(crate) overlay: Moments,
    /// How late packets were sent, after their moment, in microseconds; empty for arrivals.
    pub(crate) behind_us: Vec<u64>,
}

impl Times {
    fn new(schedule: &Schedule) -> Times {
        let moments = Moments::new(schedule.calls, schedule.packets);
        Times {
            direct: moments.clone(),
            overlay: moments,
            behind_us: Vec::new(),
        }
    }
}

/// One end of a call at its node. When the node goes away, it looks for it again.
#[derive(Debug)]
struct Phone {
    node: Node,
    port: u16,
    socket: Option<DatagramSocket>,
    retry_at: Time,
}

impl Phone {
    fn connect(node: &Node, call: u32) -> Result<Phone, client::Error> {
        let mut phone = Phone {
            node: node.clone(),
            port: FIRST_PORT + call as u16,
            socket: None,
            retry_at: Time::ZERO,
        };
        phone.socket = Some(phone.bind()?);
        Ok(phone)
    }

    fn bind(&self) -> Result<DatagramSocket, client::Error> {
        let deadline = std::time::Duration::from_nanos(DEADLINE.as_nanos());
        let socket = self.node.bind(self.port, Options::voice(deadline))?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    }

    fn lose(&mut self) {
        self.socket = None;
    }

    /// Looks for the node again if it is time to; true when it was found.
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
            // A node that takes no more now loses the packet, as a full socket buffer does.
            Ok(()) | Err(client::Error::WouldBlock) => {}
            Err(_) => self.lose(),
        }
    }
}

/// Opens the calls' ends at the first node.
pub(crate) fn speaker(
    chain: &Chain,
    calls: u32,
    emulator: SocketAddr,
) -> Result<Speaker, DemoError> {
    let direct = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    direct.set_nonblocking(true)?;
    direct.connect(emulator)?;
    Ok(Speaker {
        phones: phones(&Node::at(chain.first_socket()), calls)?,
        direct,
    })
}

/// Opens the calls' ends at the last node.
pub(crate) fn listener(chain: &Chain, calls: u32) -> Result<Listener, DemoError> {
    let direct = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    direct.set_nonblocking(true)?;
    Ok(Listener {
        phones: phones(&Node::at(chain.last_socket()), calls)?,
        direct,
    })
}

fn phones(node: &Node, calls: u32) -> Result<Vec<Phone>, DemoError> {
    let phones: Result<Vec<Phone>, client::Error> =
        (0..calls).map(|call| Phone::connect(node, call)).collect();
    Ok(phones?)
}

/// The end that speaks.
#[derive(Debug)]
pub(crate) struct Speaker {
    phones: Vec<Phone>,
    direct: UdpSocket,
}

impl Speaker {
    /// Sends every packet at its moment on both paths, as soon after each other as two system
    /// calls can be; which path is first changes with every packet.
    pub(crate) fn run(
        mut self,
        clock: Clock,
        schedule: Schedule,
        speech: &[[u8; FRAME_SAMPLES]],
        live: &Live,
    ) -> Times {
        pace::prepare_thread();
        let mut times = Times::new(&schedule);
        for n in 0..schedule.total() {
            let (call, index) = schedule.place(n);
            if live.stopping() {
                break;
            }
            let Some(frame) = speech.get(index as usize) else {
                break;
            };
            let packet = rtp::emit(
                Place {
                    source: call,
                    index,
                },
                frame,
            );
            let behind = pace::sleep_until(clock, schedule.due(call, index));
            times.behind_us.push(behind.as_micros());
            for turn in [0, 1] {
                let now = clock.now();
                if (call + index) % 2 == turn {
                    times.overlay.note(call, index, now);
                    self.speak(call, &packet);
                } else {
                    times.direct.note(call, index, now);
                    // What the kernel refuses is lost.
                    let _ = self.direct.send(&packet);
                }
            }
            live.sent.fetch_add(1, Ordering::Relaxed);
            if let Some(phone) = self.phones.get_mut(call as usize) {
                phone.retry(clock.now());
            }
        }
        times
    }

    fn speak(&mut self, call: u32, packet: &[u8]) {
        let Some(phone) = self.phones.get_mut(call as usize) else {
            return;
        };
        let to = Target {
            node: address(NAMES.len() - 1),
            port: VirtualPort(phone.port),
        };
        phone.send(packet, to);
    }
}

/// The end that listens.
#[derive(Debug)]
pub(crate) struct Listener {
    phones: Vec<Phone>,
    direct: UdpSocket,
}

impl Listener {
    /// Where the direct path ends.
    pub(crate) fn direct_address(&self) -> io::Result<SocketAddr> {
        self.direct.local_addr()
    }

    /// Notes when packets arrive until it is asked to stop.
    pub(crate) fn run(
        mut self,
        clock: Clock,
        schedule: Schedule,
        live: &Live,
    ) -> io::Result<Times> {
        pace::prepare_thread();
        let mut poller = Poller::new()?;
        poller.add(&self.direct, TOKEN_DIRECT, Interest::READ)?;
        for (call, phone) in self.phones.iter().enumerate() {
            watch(&poller, phone, call as u64)?;
        }
        let mut times = Times::new(&schedule);
        let mut ready: Vec<Ready> = Vec::new();
        while !live.stopping() {
            poller.wait(Some(LOOK_EVERY), &mut ready)?;
            for event in &ready {
                match event.token {
                    TOKEN_DIRECT => self.hear_direct(clock, &mut times.direct, live)?,
                    call => self.hear_overlay(call as u32, clock, &mut times.overlay, live),
                }
            }
            for (call, phone) in self.phones.iter_mut().enumerate() {
                if phone.socket.is_none() && phone.retry(clock.now()) {
                    watch(&poller, phone, call as u64)?;
                }
            }
        }
        Ok(times)
    }

    fn hear_direct(&mut self, clock: Clock, times: &mut Moments, live: &Live) -> io::Result<()> {
        let mut buffer = [0; 2 * rtp::PACKET_BYTES];
        for _ in 0..READS_PER_TURN {
            match self.direct.recv(&mut buffer) {
                Ok(len) => {
                    let now = clock.now();
                    let place = rtp::parse(&buffer[..len]);
                    if place.is_some_and(|place| times.note(place.source, place.index, now)) {
                        live.direct.fetch_add(1, Ordering::Relaxed);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn hear_overlay(&mut self, call: u32, clock: Clock, times: &mut Moments, live: &Live) {
        let mut buffer = [0; 2 * rtp::PACKET_BYTES];
        let Some(phone) = self.phones.get_mut(call as usize) else {
            return;
        };
        for _ in 0..READS_PER_TURN {
            let Some(socket) = &phone.socket else { return };
            match socket.recv_from(&mut buffer) {
                Ok((len, ..)) => {
                    let now = clock.now();
                    // A call hears only itself.
                    let place = rtp::parse(&buffer[..len]).filter(|place| place.source == call);
                    if place.is_some_and(|place| times.note(call, place.index, now)) {
                        live.overlay.fetch_add(1, Ordering::Relaxed);
                    }
                }
                Err(client::Error::WouldBlock) => return,
                Err(client::Error::Refused { .. }) => {}
                // Closing the descriptor takes it out of the poller.
                Err(_) => phone.lose(),
            }
        }
    }
}

fn watch(poller: &Poller, phone: &Phone, token: u64) -> io::Result<()> {
    match &phone.socket {
        Some(socket) => poller.add(socket, token, Interest::READ),
        None => Ok(()),
    }
}
