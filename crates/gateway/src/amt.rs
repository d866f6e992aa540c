//! A relay of AMT: receivers that have no node, and no multicast on their path, get groups of the overlay by UDP. [RFC
//! 7450]
//!
//! ```text
//!   laptop: AMT gateway ══ UDP 2268, any network ══▶ Relay ── client of a node ══ overlay ══ bridge ── source
//!             IGMP reports ──▶                          join, leave
//!             ◀── Data: whole packets of its groups
//! ```
//! [`relay::Relay`] makes the decisions, without sockets or clocks; this module contains the thread that carries them
//! out. The relay shares three things with the multicast bridge: the tables of IGMP, the messages to the node, and the
//! form in which packets cross. So it distributes what a bridge sends.

pub mod counters;
pub mod message;
pub mod relay;
mod tunnel;

pub use counters::{Counters, Refused};
pub use relay::{Relay, Settings};

use crate::alive::Over;
use crate::multicast::members::{Change, Members};
use crate::multicast::{Overlay, overlay::Link as _};
use base::{Duration, NodeAddr, Time};
use client::{Error, Told};
use net::Clock;
use net::epoll::{Interest, Poller, Waker};
use net::poll::{Polled, poll};
use socket2::SockRef;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;
use wire::ipc::ErrorCode;

/// The time between checks for due work: a leave takes effect later by at most this time.
const TICK: Duration = Duration::from_millis(100);
/// The time between attempts to reach the node again.
const NODE_EVERY: Duration = Duration::from_secs(1);
/// Maximum number of datagrams, and of messages of the node, per turn.
const PER_TURN: usize = 64;
/// The number of copies after which a turn takes no further message of the node: some 50 ms of sending, so that the
/// reports of receivers are read in time.
const COPIES_PER_TURN: u64 = 16_384;
/// How long one turn waits in all for the network to take more, before it drops copies. Choice: the kernel
/// reports room when half of [`SEND_BYTES`] are sent, which takes a network card of 100 Mbit/s half of this time.
const PATIENCE: core::time::Duration = core::time::Duration::from_millis(100);
/// The number of bytes that may wait in the socket, as the kernel counts them: some 900 packets of video. Choice: this
/// is less than the thousand packets that the queue of an interface takes by default, so that this queue never drops a
/// packet of the relay unseen.
const SEND_BYTES: usize = 1 << 20;
/// The maximum length of a datagram.
const DATAGRAM_BYTES: usize = 65_536;

const TOKEN_WAKE: u64 = 0;
const TOKEN_UDP: u64 = 1;
const TOKEN_NODE: u64 = 2;

/// The state of a relay.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Number of receivers.
    pub tunnels: usize,
    /// Number of groups of the overlay that the receivers want.
    pub groups: usize,
    /// Number of these groups that the node refuses.
    pub refused: usize,
    /// True if the node is connected.
    pub connected: bool,
    /// Counters of the relay's work.
    pub counters: Counters,
}

/// A running relay; it ends when this value is dropped.
#[derive(Debug)]
pub struct Service {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    over: Over,
}

#[derive(Debug)]
struct Shared {
    waker: Waker,
    stop: AtomicBool,
    report: Mutex<Report>,
}

impl Service {
    /// Starts a relay at a bound socket.
    ///
    /// # Errors
    /// The node cannot be reached, or the kernel refuses something.
    pub fn start<O: Overlay>(
        overlay: O,
        socket: UdpSocket,
        settings: Settings,
    ) -> Result<Service, Error> {
        let link = overlay.connect()?;
        socket.set_nonblocking(true)?;
        // A smaller buffer is no error: then the relay waits more often.
        net::udp::enlarge(&socket);
        let _ = SockRef::from(&socket).set_send_buffer_size(SEND_BYTES);
        let poller = Poller::new()?;
        let shared = Arc::new(Shared {
            waker: Waker::new()?,
            stop: AtomicBool::new(false),
            report: Mutex::default(),
        });
        poller.add(&shared.waker, TOKEN_WAKE, Interest::READ)?;
        poller.add(&socket, TOKEN_UDP, Interest::READ)?;
        poller.add(&link, TOKEN_NODE, Interest::READ)?;
        let clock = Clock::new();
        let now = clock.now();
        let data = Loop {
            shared: Arc::clone(&shared),
            overlay,
            link: Some(link),
            poller,
            clock,
            relay: Relay::new(settings, now),
            wishes: Wishes {
                socket,
                members: Members::new(now),
                patience: PATIENCE,
            },
            bytes: vec![0; DATAGRAM_BYTES],
            next_node: now,
        };
        let over = Over::new()?;
        let thread = over.spawn("amt", move || data.run())?;
        Ok(Service {
            shared,
            thread: Some(thread),
            over,
        })
    }

    /// Returns what is readable once the relay has ended.
    #[must_use]
    pub fn over(&self) -> &Over {
        &self.over
    }

    /// Returns the state of the relay within the last tenth of a second.
    #[must_use]
    pub fn report(&self) -> Report {
        let report = self.shared.report.lock();
        *report.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.waker.wake();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was already reported on standard error.
            let _ = thread.join();
        }
    }
}

struct Wishes {
    socket: UdpSocket,
    members: Members,
    /// How long this turn may still wait for the network.
    patience: core::time::Duration,
}

impl Wishes {
    /// Waits until the network takes more. Returns false if the turn has no time left.
    fn wait(&mut self) -> bool {
        let from = Instant::now();
        let mut socket = [Polled::new(self.socket.as_fd(), false, true)];
        let is_ready = !self.patience.is_zero() && poll(&mut socket, Some(self.patience)).is_ok();
        self.patience = self.patience.saturating_sub(from.elapsed());
        is_ready && socket[0].writable()
    }
}

impl relay::Outlet for Wishes {
    fn send(&mut self, to: SocketAddr, bytes: &[u8]) -> bool {
        loop {
            match self.socket.send_to(bytes, to) {
                Err(error) if error.kind() == ErrorKind::WouldBlock && self.wait() => {}
                result => return result.is_ok(),
            }
        }
    }

    fn member(&mut self, group: NodeAddr, is_wanted: bool) {
        self.members.want(group, is_wanted);
    }
}

struct Loop<O: Overlay> {
    shared: Arc<Shared>,
    overlay: O,
    link: Option<O::Link>,
    poller: Poller,
    clock: Clock,
    relay: Relay,
    wishes: Wishes,
    bytes: Vec<u8>,
    next_node: Time,
}

impl<O: Overlay> Loop<O> {
    fn run(mut self) {
        let mut ready = Vec::new();
        let mut next_tick = self.clock.now();
        while !self.shared.stop.load(Ordering::Acquire) {
            let timeout = next_tick.since(self.clock.now());
            if self.poller.wait(Some(timeout), &mut ready).is_err() {
                return;
            }
            let now = self.clock.now();
            self.wishes.patience = PATIENCE;
            self.receive(now);
            self.take(now);
            if now >= next_tick {
                next_tick = now + TICK;
                self.relay.on_timeout(now, &mut self.wishes);
                self.look_for_node(now);
                self.publish();
            }
            self.say(now);
        }
    }

    /// Takes datagrams from receivers.
    fn receive(&mut self, now: Time) {
        for _ in 0..PER_TURN {
            match self.wishes.socket.recv_from(&mut self.bytes) {
                Ok((len, from)) => {
                    let bytes = &self.bytes[..len];
                    self.relay.on_datagram(now, from, bytes, &mut self.wishes);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // Errors of a datagram socket concern single receivers.
                Err(_) => {}
            }
        }
    }

    /// Takes messages from the node.
    fn take(&mut self, now: Time) {
        let enough = self.relay.counters().sent + COPIES_PER_TURN;
        for _ in 0..PER_TURN {
            if self.relay.counters().sent >= enough {
                break;
            }
            let Some(link) = &mut self.link else {
                return;
            };
            match link.receive() {
                Ok(true) => {
                    for (by, packet) in link.received() {
                        self.relay.on_overlay(now, by, packet, &mut self.wishes);
                    }
                }
                Ok(false) => break,
                Err(Error::Refused { .. }) => {}
                Err(_) => {
                    self.link = None;
                    return;
                }
            }
        }
        while let Some(told) = self.link.as_mut().and_then(|link| link.take_told()) {
            match told {
                // A relay sends nothing to the overlay.
                Told::Reaches(_) | Told::NotSent { .. } => {}
                Told::HasPlaces => self.wishes.members.on_places(now),
                Told::NotJoined { group, code, .. } => {
                    let is_full = code == ErrorCode::TooManySockets;
                    self.wishes.members.on_refused(now, group, is_full);
                }
            }
        }
    }

    /// Tells the node which groups are wanted.
    fn say(&mut self, now: Time) {
        while let Some(link) = &self.link
            && let Some(change) = self.wishes.members.next(now)
        {
            let said = match change {
                Change::Join(group) => link.join(group),
                Change::Leave(group) => link.leave(group),
            };
            if let Err(error) = said {
                self.wishes.members.unsaid(change);
                if !matches!(error, Error::WouldBlock) {
                    self.link = None;
                }
                return;
            }
        }
    }

    fn look_for_node(&mut self, now: Time) {
        if self.link.is_some() || now < self.next_node {
            return;
        }
        self.next_node = now + NODE_EVERY;
        // Without a node there is nothing else to do, so this call may wait.
        if let Ok(link) = self.overlay.connect()
            && self.watch(&link).is_ok()
        {
            self.link = Some(link);
            self.wishes.members.on_node();
        }
    }

    fn watch(&self, link: &O::Link) -> io::Result<()> {
        self.poller.add(link, TOKEN_NODE, Interest::READ)
    }

    fn publish(&self) {
        let report = Report {
            tunnels: self.relay.tunnels(),
            groups: self.relay.groups(),
            refused: self.wishes.members.refused(),
            connected: self.link.is_some(),
            counters: *self.relay.counters(),
        };
        let last = self.shared.report.lock();
        *last.unwrap_or_else(PoisonError::into_inner) = report;
    }
}
