//! Port mapping: a node behind a home router asks the router to lead an external port to the node. This runs on a
//! thread beside the loop.
//!
//! ```text
//!   default route, own addresses ── every 30 s ──▶ place ──▶ Mapper ──▶ UDP to the router's port 5351 (PCP, NAT-PMP)
//!   loop ◀── Operation::Mapped ─── state ◀────────────────────┘ ◀────── answers; restarts, announced at port 5350
//!                                                               ──────▶ UDP to 239.255.255.250:1900, TCP to the router (UPnP)
//! ```
//! The mapped address becomes one of the endpoints that the node announces, so other nodes can dial it through any NAT
//! of their own. The mapping is released when the thread ends. A router that does not answer is asked again rarely.

mod exchange;
mod judge;
mod mapper;
mod place;
mod voice;

pub(crate) use place::towards_router;

use crate::command::Commander;
use crate::log::Lines;
use crate::status::MappingStatus;
use base::{Duration, Time};
use exchange::{Exchange, last_word};
use mapper::{Mapper, Place};
use net::clock::Clock;
use net::epoll::{Interest, Poller, Ready, Waker};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use voice::Voice;
use wire::mapping::upnp::ssdp;
use wire::mapping::{ANNOUNCEMENT_PORT, MESSAGE_MAX, PORT};

/// How often routes and addresses are read. Choice: a laptop that has moved finds its new router within this time, and
/// reading costs less than a hello.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// Number of datagrams that are read in one turn.
const BATCH: usize = 16;

/// The reason for which nothing is requested at the start.
const NOT_YET: &str = "no router was looked for yet";

const TOKEN_WAKER: u64 = 0;
const TOKEN_ASKS: u64 = 1;
const TOKEN_HEARS: u64 = 2;
const TOKEN_SEARCHES: u64 = 3;
const TOKEN_EXCHANGE: u64 = 4;

/// Whether a port is to be mapped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wish {
    /// A port is mapped if the host has no public address, and other nodes may make links to the node.
    #[default]
    Auto,
    /// No port is mapped.
    No,
    /// A port is mapped wherever there is a router.
    Yes,
}

impl Wish {
    fn label(self) -> &'static str {
        match self {
            Wish::Auto => "auto",
            Wish::No => "false",
            Wish::Yes => "true",
        }
    }
}

/// The running thread. Dropping this value releases the mapping and ends the thread.
#[derive(Debug)]
pub struct Mapping {
    shared: Arc<Shared>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

/// The state that the thread shares with others.
#[derive(Debug)]
pub(crate) struct Shared {
    wish: Mutex<Wish>,
    stopping: AtomicBool,
    status: Mutex<MappingStatus>,
}

impl Shared {
    pub(crate) fn status(&self) -> MappingStatus {
        lock(&self.status).clone()
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Mapping {
    /// Maps a port for a node that listens on `listen`. `makes_links` says whether other nodes make links to it.
    ///
    /// # Errors
    /// Returns the system's error if it cannot start a thread.
    pub fn start(
        wish: Wish,
        listen: Vec<SocketAddr>,
        makes_links: bool,
        commander: Commander,
        lines: Lines,
    ) -> io::Result<Mapping> {
        let (poller, waker) = (Poller::new()?, Waker::new()?);
        poller.add(&waker, TOKEN_WAKER, Interest::READ)?;
        let shared = Arc::new(Shared {
            wish: Mutex::new(wish),
            stopping: AtomicBool::new(false),
            status: Mutex::new(MappingStatus {
                wanted: wish.label(),
                state: "off",
                why: Some(NOT_YET.to_owned()),
                ..MappingStatus::default()
            }),
        });
        commander.tell_of_mapping(&shared);
        let mut asker = Asker {
            clock: Clock::new(),
            mapper: Mapper::default(),
            listen,
            makes_links,
            line: None,
            exchange: None,
            off: NOT_YET,
            voice: Voice::new(commander, lines, Arc::clone(&shared)),
            shared: Arc::clone(&shared),
            waker: waker.clone(),
        };
        let thread = std::thread::Builder::new().name("mapping".into());
        Ok(Mapping {
            shared,
            waker,
            thread: Some(thread.spawn(move || asker.run(poller))?),
        })
    }

    /// Returns a handle by which others set the wish.
    pub fn wishes(&self) -> Wishes {
        Wishes {
            shared: Arc::clone(&self.shared),
            waker: self.waker.clone(),
        }
    }
}

/// A handle to set the wish, while the thread runs.
#[derive(Clone, Debug)]
pub struct Wishes {
    shared: Arc<Shared>,
    waker: Waker,
}

impl Wishes {
    /// Sets the wish from now on.
    pub fn set(&self, wish: Wish) {
        *lock(&self.shared.wish) = wish;
        self.waker.wake();
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Release);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // A panic of that thread was already reported there.
            let _ = thread.join();
        }
    }
}

/// The sockets to a router.
#[derive(Debug)]
struct Line {
    place: Place,
    asks: UdpSocket,
    /// The socket that sends UPnP searches, and receives the answers.
    searches: UdpSocket,
    /// The socket for announcements; none while another program uses the port exclusively.
    hears: Option<UdpSocket>,
}

impl Line {
    fn open(place: Place, poller: &Poller) -> io::Result<Line> {
        let asks = UdpSocket::bind((*place.own.ip(), 0))?;
        asks.set_nonblocking(true)?;
        // On a connected socket, the kernel reports if nobody listens there.
        asks.connect((place.gateway, PORT))?;
        poller.add(&asks, TOKEN_ASKS, Interest::READ)?;
        // If a socket is bound to an address, what it sends to a group leaves by the network of that address.
        let searches = UdpSocket::bind((*place.own.ip(), 0))?;
        searches.set_nonblocking(true)?;
        poller.add(&searches, TOKEN_SEARCHES, Interest::READ)?;
        let mut line = Line {
            place,
            asks,
            searches,
            hears: None,
        };
        line.hear(poller);
        Ok(line)
    }

    /// Listens for announcements, if it does not yet and can. They are sent to the group 224.0.0.1, in which all hosts
    /// are.
    fn hear(&mut self, poller: &Poller) {
        if self.hears.is_none() {
            let at = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, ANNOUNCEMENT_PORT);
            let hears = net::udp::shared(at).ok();
            self.hears = hears.filter(|it| poller.add(it, TOKEN_HEARS, Interest::READ).is_ok());
        }
    }
}

struct Asker {
    clock: Clock,
    mapper: Mapper,
    listen: Vec<SocketAddr>,
    makes_links: bool,
    line: Option<Line>,
    /// The present exchange. There is one at a time.
    exchange: Option<Exchange>,
    /// The reason for which nothing is requested.
    off: &'static str,
    voice: Voice,
    shared: Arc<Shared>,
    waker: Waker,
}

impl Asker {
    fn run(&mut self, mut poller: Poller) {
        let mut ready: Vec<Ready> = Vec::new();
        let mut look_at = Some(self.clock.now());
        while !self.shared.stopping.load(Ordering::Acquire) {
            let now = self.clock.now();
            if look_at.is_some_and(|at| at <= now) {
                look_at = self.look(now, &poller).then(|| now + LOOK_EVERY);
            }
            self.mapper.on_timeout(now);
            self.send(now);
            self.converse(now, &poller);
            let place = self.line.as_ref().map(|line| line.place);
            self.voice.tell(&self.clock, &self.mapper, place, self.off);
            let exchange = self.exchange.as_ref().map(|exchange| exchange.until);
            let next = [
                look_at,
                exchange,
                self.mapper.deadline(),
                self.voice.deadline(),
            ];
            let wait = next.into_iter().flatten().min();
            let wait = wait.map(|at| at.since(self.clock.now()));
            if poller.wait(wait, &mut ready).is_err() {
                break;
            }
            if ready.iter().any(|it| it.token == TOKEN_WAKER) {
                self.waker.drain();
                look_at = Some(self.clock.now());
            }
            self.receive();
        }
        self.leave(self.clock.now());
    }

    /// Finds the router and the node's address. Returns true if these may change later.
    fn look(&mut self, now: Time, poller: &Poller) -> bool {
        let wish = *lock(&self.shared.wish);
        let never = place::never(wish, &self.listen, self.makes_links);
        let found = match never {
            Some(why) => Err(why),
            None => place::look(wish, &self.listen),
        };
        match found {
            Err(why) => {
                self.off = why;
                self.leave(now);
            }
            Ok(place) => match &mut self.line {
                Some(line) if line.place == place => line.hear(poller),
                _ => {
                    self.leave(now);
                    self.off = "the router's network cannot be used now";
                    // Without a line, the next look tries again.
                    if let Some(nonce) = nonce()
                        && let Ok(line) = Line::open(place, poller)
                    {
                        self.line = Some(line);
                        self.mapper.set_place(now, Some(place), nonce);
                    }
                }
            },
        }
        never.is_none()
    }

    /// Releases the mapping as far as possible, and stops requesting.
    fn leave(&mut self, now: Time) {
        self.mapper.release();
        self.send(now);
        self.exchange = None;
        while let Some(request) = self.mapper.next_request() {
            if let Some(line) = &self.line {
                last_word(&self.clock, *line.place.own.ip(), &request);
            }
        }
        self.line = None;
    }

    fn send(&mut self, now: Time) {
        while let Some(datagram) = self.mapper.next_datagram() {
            let sent = self.line.as_ref().map(|line| line.asks.send(&datagram));
            // Other errors count as losses.
            if let Some(Err(error)) = sent
                && error.kind() == io::ErrorKind::ConnectionRefused
            {
                self.mapper.on_nobody(now);
            }
        }
        while let Some(search) = self.mapper.next_search() {
            let sent = self.line.as_ref().map(|line| &line.searches);
            // The search is repeated anyway.
            let _ = sent.map(|socket| socket.send_to(&search, ssdp::GROUP));
        }
    }

    /// Makes the wanted exchanges one after the other, until the thread has to wait for one.
    fn converse(&mut self, now: Time, poller: &Poller) {
        loop {
            if let Some(exchange) = &mut self.exchange {
                if !exchange.read() && now < exchange.until {
                    return;
                }
                self.mapper.on_exchange(now, exchange.id, exchange.answer());
                self.exchange = None;
            }
            let (Some(line), Some(request)) = (&self.line, self.mapper.next_request()) else {
                return;
            };
            let begun = Exchange::begin(*line.place.own.ip(), &request, self.clock.now());
            let added = begun.and_then(|exchange| {
                poller.add(&exchange.stream, TOKEN_EXCHANGE, Interest::READ)?;
                Ok(exchange)
            });
            match added {
                Ok(exchange) => self.exchange = Some(exchange),
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    self.mapper.on_exchange(now, request.id, Err("timeout"));
                }
                Err(_) => self.mapper.on_exchange(now, request.id, Err("closed")),
            }
        }
    }

    fn receive(&mut self) {
        let Some(line) = &self.line else {
            return;
        };
        let now = self.clock.now();
        // One more byte shows that a datagram is too long.
        let mut buffer = [0; MESSAGE_MAX + 1];
        for socket in [Some(&line.asks), line.hears.as_ref()]
            .into_iter()
            .flatten()
        {
            for _ in 0..BATCH {
                match socket.recv_from(&mut buffer) {
                    Ok((len, from)) => self.mapper.on_datagram(now, from, &buffer[..len]),
                    Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                        self.mapper.on_nobody(now);
                    }
                    Err(_) => break,
                }
            }
        }
        let mut buffer = [0; ssdp::ANSWER_MAX + 1];
        for _ in 0..BATCH {
            match line.searches.recv_from(&mut buffer) {
                Ok((len, from)) => self.mapper.on_search_answer(now, from, &buffer[..len]),
                Err(_) => break,
            }
        }
    }
}

/// Creates a random number. A program that does not know it cannot change the mapping.
fn nonce() -> Option<[u8; wire::mapping::pcp::NONCE_BYTES]> {
    net::sched::entropy().ok()?.first_chunk().copied()
}
