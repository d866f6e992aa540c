//! Port mapping: a node behind a home router asks it to lead a port outside to the node, on a thread beside the loop.
//!
//! ```text
//!   default route, own addresses ── every 30 s ──▶ place ──▶ Mapper ──▶ UDP to the router's port 5351 (PCP, NAT-PMP)
//!   loop ◀── Operation::Mapped ─── state ◀────────────────────┘ ◀────── answers; restarts, announced at port 5350
//! ```
//! What is mapped becomes one of the endpoints that the node announces, so others can dial it through any NAT of their
//! own. The mapping is given back when the thread ends. A router that answers nothing is asked again rarely.

mod judge;
mod mapper;
mod place;

use crate::command::Commander;
use crate::log::Lines;
use crate::status::MappingStatus;
use base::{Duration, Time};
use mapper::{Mapper, Place, Protocol, State};
use net::clock::Clock;
use net::epoll::{Interest, Poller, Ready, Waker};
use overlay::request::Operation;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use wire::Endpoint;
use wire::mapping::{ANNOUNCEMENT_PORT, MESSAGE_MAX, PORT};

/// How often routes and addresses are looked at. Choice: a laptop that has moved finds its new router within it, and reading
/// them costs less than a hello.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// How soon a loop that was too busy to answer is told again.
const BUSY: Duration = Duration::from_secs(5);
/// Datagrams that are read in one turn.
const BATCH: usize = 16;

const TOKEN_WAKER: u64 = 0;
const TOKEN_ASKS: u64 = 1;
const TOKEN_HEARS: u64 = 2;

/// Whether a port is to be mapped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wish {
    /// If the host has no public address, and others may make links to the node.
    #[default]
    Auto,
    /// Never.
    No,
    /// Wherever there is a router.
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

/// The running thread. Dropping it gives the mapping back and ends it.
#[derive(Debug)]
pub struct Mapping {
    shared: Arc<Shared>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

/// What others tell the thread, and it them.
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
    /// Maps a port for a node that listens on `listen`. Others make links to it if `makes_links`.
    ///
    /// # Errors
    /// What the system says when there can be no thread.
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
            status: Mutex::default(),
        });
        commander.tell_of_mapping(&shared);
        let mut asker = Asker {
            clock: Clock::new(),
            mapper: Mapper::default(),
            listen,
            makes_links,
            line: None,
            off: "",
            said: State::Off,
            told: None,
            tell_again: None,
            commander,
            lines,
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

    /// By which others say what is wanted.
    pub fn wishes(&self) -> Wishes {
        Wishes {
            shared: Arc::clone(&self.shared),
            waker: self.waker.clone(),
        }
    }
}

/// Says what is wanted, while the thread runs.
#[derive(Clone, Debug)]
pub struct Wishes {
    shared: Arc<Shared>,
    waker: Waker,
}

impl Wishes {
    /// What is wanted from now on.
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
            // A panic over there was reported there.
            let _ = thread.join();
        }
    }
}

/// The sockets by which a router is asked.
#[derive(Debug)]
struct Line {
    place: Place,
    asks: UdpSocket,
    /// Where announcements come; none while another program has the port.
    hears: Option<UdpSocket>,
}

impl Line {
    fn open(place: Place, poller: &Poller) -> io::Result<Line> {
        let asks = UdpSocket::bind((*place.own.ip(), 0))?;
        asks.set_nonblocking(true)?;
        // The kernel tells then when nobody listens there.
        asks.connect((place.gateway, PORT))?;
        poller.add(&asks, TOKEN_ASKS, Interest::READ)?;
        // All hosts are in the group to which they are sent, 224.0.0.1.
        let hears = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, ANNOUNCEMENT_PORT)).ok();
        if let Some(hears) = &hears {
            hears.set_nonblocking(true)?;
            poller.add(hears, TOKEN_HEARS, Interest::READ)?;
        }
        Ok(Line { place, asks, hears })
    }
}

struct Asker {
    clock: Clock,
    mapper: Mapper,
    listen: Vec<SocketAddr>,
    makes_links: bool,
    line: Option<Line>,
    /// Why nothing is asked for.
    off: &'static str,
    /// What the log says.
    said: State,
    /// What the loop knows.
    told: Option<SocketAddrV4>,
    /// It could not be told the rest.
    tell_again: Option<Time>,
    commander: Commander,
    lines: Lines,
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
            self.tell(now);
            let next = [look_at, self.mapper.deadline(), self.tell_again];
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
        self.mapper.release();
        self.send(self.clock.now());
    }

    /// Looks where the node is; true if that may change.
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
                self.mapper.release();
                self.send(now);
                self.line = None;
            }
            Ok(place) if self.line.as_ref().is_none_or(|line| line.place != place) => {
                self.line = None;
                self.line = Line::open(place, poller).ok();
                self.off = "the router's network cannot be used now";
                let place = self.line.as_ref().map(|line| line.place);
                let nonce = nonce();
                let place = place.filter(|_| nonce.is_some());
                self.mapper.set_place(now, place, nonce.unwrap_or_default());
            }
            Ok(_) => {}
        }
        never.is_none()
    }

    fn send(&mut self, now: Time) {
        while let Some(datagram) = self.mapper.next_datagram() {
            let sent = self.line.as_ref().map(|line| line.asks.send(&datagram));
            // Other errors are losses.
            if let Some(Err(error)) = sent
                && error.kind() == io::ErrorKind::ConnectionRefused
            {
                self.mapper.on_nobody(now);
            }
        }
    }

    fn receive(&mut self) {
        let Some(line) = &self.line else {
            return;
        };
        let now = self.clock.now();
        // One byte more shows what is too long.
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
    }

    /// Tells the log, the status and the loop what has changed.
    fn tell(&mut self, now: Time) {
        let state = self.mapper.state();
        if state != self.said {
            self.say(state);
            self.said = state;
        }
        *lock(&self.shared.status) = self.status(now);
        let mapped = match state {
            State::Mapped { at, .. } => Some(at),
            _ => None,
        };
        let is_due = self.tell_again.is_none_or(|at| at <= now);
        if mapped == self.told || !is_due {
            return;
        }
        let endpoint = mapped.map(|at| Endpoint {
            ip: at.ip().to_ipv6_mapped().octets(),
            port: at.port(),
        });
        let done = self.commander.operate(Operation::Mapped(endpoint));
        self.tell_again = done.is_err().then(|| now + BUSY);
        if done.is_ok() {
            self.told = mapped;
        }
    }

    fn say(&self, state: State) {
        let router = self
            .line
            .as_ref()
            .map(|line| line.place.gateway.to_string());
        let router = router.unwrap_or_else(|| "the router".to_owned());
        let lines = &self.lines;
        match (state, self.said) {
            (State::Mapped { at, by }, _) => lines.say(&format!(
                "port mapping: the router {router} leads {at} to this node, by {}",
                by.label()
            )),
            (State::Lost, _) => lines.warn(&format!(
                "port mapping: the router {router} does not answer any more, and the mapping has ended"
            )),
            (State::Refused { why }, _) => lines.warn(&format!(
                "port mapping: the router {router} refuses: {why}"
            )),
            (State::DoubleNat { outside }, _) => lines.warn(&format!(
                "port mapping: of no use, and not announced: the router {router} has the address {outside} outside, \
                 which is not public, so there is a second NAT behind it"
            )),
            (State::Silent, _) => lines.say(&format!(
                "port mapping: the router {router} answers neither PCP nor NAT-PMP"
            )),
            (State::Off, State::Mapped { .. }) => {
                lines.say(&format!("port mapping: given back: {}", self.off));
            }
            (State::Asking, State::Mapped { .. }) => lines.say(
                "port mapping: the router or this host's address is another one: asking anew",
            ),
            (State::Off | State::Asking, _) => {}
        }
    }

    fn status(&self, now: Time) -> MappingStatus {
        let (mut at, mut by, mut why) = (None, None, None);
        let state = match self.mapper.state() {
            State::Off => {
                why = Some(self.off.to_owned());
                "off"
            }
            State::Asking => "asking",
            State::Mapped {
                at: outside,
                by: protocol,
            } => {
                (at, by) = (Some(outside.to_string()), Some(Protocol::label(protocol)));
                "mapped"
            }
            State::Lost => "lost",
            State::Refused { why: said } => {
                why = Some(said.to_owned());
                "refused"
            }
            State::DoubleNat { outside } => {
                why = Some(format!("the router's address outside is {outside}"));
                "double-nat"
            }
            State::Silent => "silent",
        };
        let left_s = |until: Time| until.since(now).as_millis() / 1_000;
        let until_s = self
            .mapper
            .until()
            .map(|until| self.clock.unix_s() + left_s(until));
        let place = self.line.as_ref().map(|line| line.place);
        MappingStatus {
            wanted: lock(&self.shared.wish).label(),
            state,
            why,
            gateway: place.map(|place| place.gateway.to_string()),
            own: place.map(|place| place.own.to_string()),
            at,
            by,
            until_s,
            ignored: self.mapper.ignored().clone(),
        }
    }
}

/// Who does not know it cannot change the mapping.
fn nonce() -> Option<[u8; wire::mapping::pcp::NONCE_BYTES]> {
    net::sched::entropy().ok()?.first_chunk().copied()
}
