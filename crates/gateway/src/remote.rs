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
//! connection of its own. An operator's lines go to the operator's socket (`operators`). Datagrams go
//! beside the connections, over UDP (`WaySocket`), where that works.
//! [Amir06 §III-A]

mod counters;
mod failures;
mod greet;
mod operators;
mod waiting;
mod ways;

pub use counters::{WayCounters, WayDrop};
pub use operators::Operators;
pub use ways::WayClient;

use crate::accept;
use crate::slots::Slots;
pub use client::remote::GREETING_TIMEOUT;
use client::remote::{KEY_BYTES, TOKEN_BYTES, tls};
use core::time::Duration;
use failures::Failures;
use net::places::Places;
use net::poll::{Polled, poll};
use operators::OPERATORS_MAX;
use rustls::ServerConfig;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;
use waiting::Waiting;
use ways::WaySocket;

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
/// How often streams that nobody fetches are looked for.
const SWEEP: Duration = Duration::from_secs(2);
/// The real-time priority of what takes datagrams: below that of the node's loop, so that no stranger who
/// sends to this port takes the processor from it.
const PRIORITY: u8 = 9;

/// What a gate needs.
#[derive(Clone)]
pub struct Settings {
    /// Where it listens.
    pub listen: SocketAddr,
    /// What lets clients in.
    pub token: [u8; TOKEN_BYTES],
    /// What lets operators in; none unless wanted.
    pub operators: Operators,
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
    operators: Operators,
    /// Operators at once, and observers.
    operating: Slots,
    observing: Slots,
    node: PathBuf,
    patience: Duration,
    waiting: Waiting,
    failures: Mutex<Failures>,
    open: Slots,
    greeting: Places<Comer>,
    counters: Counters,
    ways: Result<Arc<WaySocket>, Option<io::Error>>,
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
            port => WaySocket::bind(SocketAddr::new(at.ip(), port)).map_err(Some),
        };
        let tls = tls::server(&settings.secret, ways.is_ok())?;
        Ok(Gate {
            listener,
            shared: Arc::new(Shared {
                ways: ways.map(Arc::new),
                realtime: settings.realtime,
                tls,
                token: settings.token,
                operators: settings.operators.clone(),
                operating: Slots::new(OPERATORS_MAX),
                observing: Slots::new(OPERATORS_MAX),
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
