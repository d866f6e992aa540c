//! The gate of a node: clients on other hosts of the LAN, over TCP with TLS and a token.
//!
//! ```text
//!   client ═══ TLS: wire::remote ═══ Gate: a thread each ─── Unix socket ─── node
//! ```
//!
//! To the node each of them is an ordinary client. Whoever has no token gets no further than the
//! handshake: so many at a time and of one address, for so long ([`net::places`]), and an address
//! that fails too often is not listened to for a while. The gate itself waits for nobody, so that
//! strangers cannot keep others from being greeted. A stream that comes in waits
//! in `Waiting` until the client that it was offered to fetches it over a
//! connection of its own. Datagrams go beside the connections, over UDP (`Ways`), where that works.
//! [Amir06 §III-A]

mod failures;
mod waiting;
mod ways;

pub use ways::{WayClient, WayCounters, WayDrop};

use crate::accept;
use crate::slots::Slots;
pub use client::remote::GREETING_TIMEOUT;
use client::remote::way::Keys;
use client::remote::{Beside, Channel, ChannelError, Ground, KEY_BYTES, Pump, TOKEN_BYTES, tls};
use core::time::Duration;
use failures::Failures;
use net::places::{Origin, Places};
use net::poll::{Polled, poll};
use net::unix::SeqStream;
use rustls::{ServerConfig, ServerConnection};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;
use subtle::ConstantTimeEq;
use waiting::Waiting;
use ways::Ways;
use wire::ipc::Framing;
use wire::remote::{Frame, Purpose, Ticket, VERSION};

/// Connections at the same time: a thousand clients, and as many streams. Each costs a thread of
/// little stack, some 200 KiB of buffers, and three descriptors.
pub const MAX_CONNECTIONS: usize = 2_048;
/// Of these, so many that have not shown their token yet: the shares of four addresses. Who comes
/// then takes the place of the one that has been silent for longest.
pub const MAX_GREETING: usize = 4 * GREETING_SHARE;
/// And of these from one address. Choice: a program opens some sockets at once, and several programs
/// of a host seldom begin within the same round trip.
pub const GREETING_SHARE: usize = 16;
/// Accepted in a turn, before those are looked at whose time is over.
const TURN: usize = 64;
/// A connection's thread has its buffers on the heap.
const STACK_BYTES: usize = 256 << 10;
/// How often streams that nobody fetches are looked for.
const SWEEP: Duration = Duration::from_secs(2);
/// The real-time priority of what takes datagrams: that of the node's loop.
const PRIORITY: u8 = 10;
/// From one attempt to reach the node to the next, while many others connect to it.
const AGAIN: Duration = Duration::from_millis(5);

/// What a gate needs.
#[derive(Clone)]
pub struct Settings {
    /// Where it listens.
    pub listen: SocketAddr,
    /// What lets clients in.
    pub token: [u8; TOKEN_BYTES],
    /// The node's secret signing key, which shows clients that this is the node: they have pinned its
    /// public half.
    pub secret: [u8; KEY_BYTES],
    /// The node's own socket.
    pub node: PathBuf,
    /// How long one who comes may take to show the token: [`GREETING_TIMEOUT`].
    pub patience: Duration,
    /// The UDP port for datagrams: that of `listen` unless another one is named; 0 for none, with all
    /// inside TLS.
    pub udp_port: Option<u16>,
    /// The thread that takes datagrams asks for real-time priority, as the node's loop does.
    pub realtime: bool,
}

/// How connections ended that never began, and how many did.
#[derive(Debug, Default)]
pub struct Counters {
    /// Let in.
    pub welcomed: AtomicU64,
    /// With a token that is wrong.
    pub wrong_token: AtomicU64,
    /// Without TLS, or with frames that are not understood.
    pub nonsense: AtomicU64,
    /// That had not shown a token in time.
    pub late: AtomicU64,
    /// Closed at once: their address has failed too often or its share of places, or as many are there
    /// as are served.
    pub turned_away: AtomicU64,
    /// That gave their place to one who came later.
    pub displaced: AtomicU64,
}

/// A gate.
pub struct Gate {
    listener: TcpListener,
    shared: Arc<Shared>,
}

struct Shared {
    tls: Arc<ServerConfig>,
    token: [u8; TOKEN_BYTES],
    node: PathBuf,
    patience: Duration,
    waiting: Waiting,
    failures: Mutex<Failures>,
    open: Slots,
    greeting: Places<Comer>,
    counters: Counters,
    ways: Result<Arc<Ways>, Option<io::Error>>,
    realtime: bool,
}

/// One who has not shown a token yet: what ends the connection, which its thread then notices.
struct Comer {
    tcp: TcpStream,
    from: IpAddr,
}

/// Why a gate cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// Its address cannot be listened at.
    #[error("cannot listen for clients at {listen}: {error}")]
    Listen {
        /// The address.
        listen: SocketAddr,
        /// What the kernel said.
        error: io::Error,
    },
    /// The node's keys are not what TLS takes.
    #[error("the node's key: {0}")]
    Key(#[from] rustls::Error),
}

impl Gate {
    /// Listens.
    pub fn bind(settings: &Settings) -> Result<Gate, GateError> {
        let listen = settings.listen;
        let listening = |error| GateError::Listen { listen, error };
        let listener = TcpListener::bind(listen).map_err(listening)?;
        listener.set_nonblocking(true).map_err(listening)?;
        let at = listener.local_addr().map_err(listening)?;
        let port = settings.udp_port.unwrap_or(at.port());
        let ways = match port {
            0 => Err(None),
            port => Ways::bind(SocketAddr::new(at.ip(), port)).map_err(Some),
        };
        let tls = tls::server(&settings.secret, ways.is_ok())?;
        Ok(Gate {
            listener,
            shared: Arc::new(Shared {
                ways: ways.map(Arc::new),
                realtime: settings.realtime,
                tls,
                token: settings.token,
                node: settings.node.clone(),
                patience: settings.patience,
                waiting: Waiting::default(),
                failures: Mutex::default(),
                open: Slots::new(MAX_CONNECTIONS),
                greeting: Places::new(MAX_GREETING, GREETING_SHARE),
                counters: Counters::default(),
            }),
        })
    }

    /// Where it listens.
    pub fn local(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// How connections have fared.
    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// How the datagrams of ways have fared; none where all datagrams are inside TLS.
    pub fn ways(&self) -> Option<&WayCounters> {
        self.shared.ways.as_ref().ok().map(|ways| ways.counters())
    }

    /// The clients that have a way, `most` of them, and how many there are.
    pub fn clients_with_ways(&self, most: usize) -> (Vec<WayClient>, usize) {
        let ways = self.shared.ways.as_ref();
        ways.map_or_else(|_| (Vec::new(), 0), |ways| ways.clients(most))
    }

    /// The UDP port for datagrams; none where all are inside TLS.
    pub fn udp_port(&self) -> Option<u16> {
        self.shared.ways.as_ref().ok().map(|ways| ways.port())
    }

    /// Why there is no UDP socket, though one was wanted.
    pub fn without_udp(&self) -> Option<&io::Error> {
        self.shared.ways.as_ref().err().and_then(Option::as_ref)
    }

    /// How many connections there are.
    pub fn open(&self) -> usize {
        self.shared.open.taken()
    }

    /// Serves until the socket fails.
    pub fn serve(&self) -> io::Error {
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            if let Ok(ways) = &self.shared.ways {
                let thread = thread::Builder::new().name("gate-udp".into());
                // Without it probes have no answer, and all goes by TLS.
                let _ = thread.spawn_scoped(scope, || self.shared.serve_ways(ways, &over));
            }
            loop {
                if let Err(error) = self.serve_for(SWEEP) {
                    over.store(true, Ordering::Relaxed);
                    return error;
                }
            }
        })
    }

    /// Serves who comes within `span`.
    fn serve_for(&self, span: Duration) -> io::Result<()> {
        let shared = &self.shared;
        let until = shared.greeting.next_until();
        let wait = until.map(|until| until.saturating_duration_since(Instant::now()));
        poll(
            &mut [Polled::new(self.listener.as_fd(), true, false)],
            Some(wait.map_or(span, |wait| wait.min(span))),
        )?;
        let now = Instant::now();
        shared.waiting.sweep(now);
        for (comer, _) in shared.greeting.overdue(now) {
            count(&shared.counters.late);
            shared.failures().note(comer.from, now);
            comer.send_away();
        }
        for _ in 0..TURN {
            match self.listener.accept() {
                Ok((tcp, from)) => shared.admit(tcp, from.ip()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if accept::outlives(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Comer {
    fn send_away(&self) {
        // Its thread reads the end, if it has not gone by itself.
        let _ = self.tcp.shutdown(Shutdown::Both);
    }
}

impl Shared {
    fn serve_ways(&self, ways: &Ways, over: &AtomicBool) {
        if self.realtime {
            // The node has said already whether it may be had.
            let _ = net::sched::real_time(PRIORITY);
        }
        while !over.load(Ordering::Relaxed) && ways.serve_for(SWEEP).is_ok() {}
    }

    /// Gives one who comes a place and a thread, if it may come and there is room.
    fn admit(self: &Arc<Shared>, tcp: TcpStream, from: IpAddr) {
        let now = Instant::now();
        if self.failures().is_blocked(from, now) {
            return count(&self.counters.turned_away);
        }
        let (Some(open), Ok(handle)) = (self.open.take(), tcp.try_clone()) else {
            return count(&self.counters.turned_away);
        };
        let comer = Comer { tcp: handle, from };
        let let_in = match self.greeting.take(Origin::of(from), comer, now) {
            Ok(let_in) => let_in,
            Err(_) => {
                count(&self.counters.turned_away);
                return;
            }
        };
        if let Some(displaced) = let_in.displaced {
            count(&self.counters.displaced);
            displaced.send_away();
        }
        let (shared, place) = (Arc::clone(self), let_in.place);
        let thread = thread::Builder::new().name("sinew-gate".into());
        let started = thread.stack_size(STACK_BYTES).spawn(move || {
            let _open = open;
            shared.serve(tcp, from, place);
        });
        if started.is_err() {
            self.greeting.leave(place);
            count(&self.counters.turned_away);
        }
    }

    fn serve(self: &Arc<Shared>, tcp: TcpStream, from: IpAddr, place: u64) {
        let greeted = self.greet(tcp, place);
        let was_there = self.greeting.leave(place);
        match greeted {
            Ok(pump) => {
                count(&self.counters.welcomed);
                // How it ends is the client's business.
                let _ = pump.run();
            }
            // Who was sent away is counted already.
            Err(_) if !was_there => {}
            Err(error) => {
                match error {
                    ChannelError::Late => count(&self.counters.late),
                    ChannelError::Refused(_) => count(&self.counters.wrong_token),
                    ChannelError::Tls(_) | ChannelError::Frame(_) => {
                        count(&self.counters.nonsense);
                    }
                    // It has gone.
                    _ => return,
                }
                self.failures().note(from, Instant::now());
            }
        }
    }

    /// Hears what a client wants, and with whom it is to be connected.
    fn greet(self: &Arc<Shared>, tcp: TcpStream, place: u64) -> Result<Pump, ChannelError> {
        let until = Instant::now() + self.patience;
        let mut spoken = [Polled::new(tcp.as_fd(), true, false)];
        if poll(&mut spoken, Some(self.patience))? == 0 {
            return Err(ChannelError::Late);
        }
        self.greeting.spoke(place, Instant::now());
        let tls = ServerConnection::new(Arc::clone(&self.tls))?;
        let mut channel = Channel::new(tcp, tls)?;
        let purpose = channel.next(until, |frame| match frame {
            Frame::Hello { version, .. } if version != VERSION => {
                Ok(Err("this node speaks version 1: use matching versions"))
            }
            Frame::Hello { purpose, token, .. } => Ok(match bool::from(token.ct_eq(&self.token)) {
                true => Ok(purpose),
                false => Err("the token is wrong"),
            }),
            _ => Err(ChannelError::Frame(wire::Malformed::Kind)),
        })??;
        let ends = match purpose {
            Err(why) => {
                let refused = ChannelError::Refused(why.to_owned());
                return Err(self.refuse(channel, why, until).err().unwrap_or(refused));
            }
            Ok(Purpose::Socket) => self.dial(until).map(|control| (control, None)),
            Ok(Purpose::Stream(ticket)) => {
                self.waiting.take(&ticket).ok_or(ErrorKind::NotFound.into())
            }
        };
        let (control, data): (SeqStream, Option<(Framing, OwnedFd)>) = match ends {
            Ok(ends) => ends,
            Err(error) => {
                let why = match error.kind() {
                    ErrorKind::NotFound => "no such stream waits: it was not fetched in time",
                    _ => "the node does not answer at its gate",
                };
                self.refuse(channel, why, until)?;
                return Err(ChannelError::Io(error));
            }
        };
        channel.say(&Frame::Welcome)?;
        channel.flush()?;
        let ground = Arc::clone(self);
        Ok(Pump::of_gate(channel, control, data, ground))
    }

    fn refuse(&self, mut channel: Channel, why: &str, until: Instant) -> Result<(), ChannelError> {
        channel.say(&Frame::Refused(why))?;
        channel.finish(until)?;
        channel.close();
        Ok(())
    }

    /// A connection to the node.
    fn dial(&self, until: Instant) -> io::Result<SeqStream> {
        loop {
            match SeqStream::connect(&self.node) {
                // That many wait already that there is no place to wait.
                Err(error) if error.kind() == ErrorKind::WouldBlock && Instant::now() < until => {
                    thread::sleep(AGAIN);
                }
                // Not to be taken for a ticket.
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    return Err(ErrorKind::ConnectionRefused.into());
                }
                other => return other,
            }
        }
    }

    fn failures(&self) -> std::sync::MutexGuard<'_, Failures> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ground for Shared {
    fn put(&self, framing: Framing, data: OwnedFd, notices: OwnedFd) -> Option<Ticket> {
        self.waiting.put(framing, data, notices)
    }

    fn open(&self, keys: Keys, control: &Arc<SeqStream>) -> Option<Box<dyn Beside>> {
        self.ways.as_ref().ok()?.open(keys, control)
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gate")
            .field("listener", &self.listener)
            .field("counters", &self.shared.counters)
            .finish_non_exhaustive()
    }
}
