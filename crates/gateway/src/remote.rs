//! The gate of a node. It serves clients on other hosts of the LAN, over TCP with TLS and a token.
//!
//! ```text
//!   client ═══ TLS: wire::remote ═══ Gate: a thread each ─── Unix socket ─── node
//! ```
//!
//! To the node, each of them is an ordinary client. A connection without a token gets no further than the handshake.
//! The number of such connections is limited, in total, per address and in time ([`net::places`]), and the gate ignores
//! an address that fails too often for a while. The gate itself waits for no connection, so that strangers cannot keep
//! clients from being greeted. An incoming stream waits in `Waiting` until the client to which it was offered fetches
//! it over a connection of its own. The lines of an operator go to the operator's socket (`operators`). Datagrams use
//! UDP (`WaySocket`) beside the connections, where UDP works. [Amir06 §III-A]

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

/// Maximum number of connections at the same time: a thousand clients, and as many streams. Each connection costs a
/// thread with a small stack, some 200 KiB of buffers, and three descriptors.
pub const MAX_CONNECTIONS: usize = 2_048;
/// Maximum number of these that have not shown their token yet: the shares of four addresses. A further connection
/// replaces the one that has been silent for longest.
pub const MAX_GREETING: usize = 4 * GREETING_SHARE;
/// Maximum number of these from one address. Choice: a program opens some sockets at once, and several programs of a
/// host seldom begin within the same round trip.
pub const GREETING_SHARE: usize = 16;
/// Maximum number of connections that a turn accepts before the overdue ones are checked.
const TURN: usize = 64;
/// The time between searches for streams that no client fetches.
const SWEEP: Duration = Duration::from_secs(2);
/// The real-time priority of the thread for datagrams. It is below that of the node's loop, so that strangers who send
/// to this port cannot take the processor from the loop.
const PRIORITY: u8 = 9;

/// The settings of a gate.
#[derive(Clone)]
pub struct Settings {
    /// The address at which the gate listens.
    pub listen: SocketAddr,
    /// The token of clients.
    pub token: [u8; TOKEN_BYTES],
    /// The operators' access; none by default.
    pub operators: Operators,
    /// The node's secret signing key. It proves to clients that this is the node, because they have pinned its public
    /// half.
    pub secret: [u8; KEY_BYTES],
    /// The socket of the node.
    pub node: PathBuf,
    /// How long a new connection may take to show the token: [`GREETING_TIMEOUT`].
    pub patience: Duration,
    /// The UDP port for datagrams: the port of `listen` unless another one is given; 0 for none, so that all datagrams
    /// go inside TLS.
    pub udp_port: Option<u16>,
    /// Whether the thread for datagrams requests real-time priority, as the node's loop does.
    pub realtime: bool,
}

/// Numbers of connections by how their greeting ended.
#[derive(Debug, Default)]
pub struct Counters {
    /// Connections that were let in.
    pub welcomed: AtomicU64,
    /// Connections with a wrong token.
    pub wrong_token: AtomicU64,
    /// Connections without TLS, or with malformed frames.
    pub nonsense: AtomicU64,
    /// Connections that showed no token in time.
    pub late: AtomicU64,
    /// Connections that were closed at once: their address has failed too often or has used its share of places, or all
    /// places are taken.
    pub turned_away: AtomicU64,
    /// Connections that lost their place to a later one.
    pub displaced: AtomicU64,
}

/// The gate of a node.
pub struct Gate {
    listener: TcpListener,
    shared: Arc<Shared>,
}

struct Shared {
    tls: Arc<ServerConfig>,
    token: [u8; TOKEN_BYTES],
    operators: Operators,
    /// The places for operators, and for observers.
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

/// A connection that has not shown a token yet. The handle can end the connection, and its thread then notices the end.
struct Comer {
    tcp: TcpStream,
    from: IpAddr,
}

/// The reason why a gate cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// The gate cannot listen at its address.
    #[error("cannot listen for clients at {listen}: {error}")]
    Listen {
        /// The address.
        listen: SocketAddr,
        /// The error of the kernel.
        error: io::Error,
    },
    /// TLS does not accept the node's keys.
    #[error("the node's key: {0}")]
    Key(#[from] rustls::Error),
}

impl Gate {
    /// Binds the sockets of the gate.
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

    /// Returns the address at which the gate listens.
    pub fn local(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Returns the counters of connections.
    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// Returns the counters of datagrams on ways; `None` if all datagrams are inside TLS.
    pub fn ways(&self) -> Option<&WayCounters> {
        self.shared.ways.as_ref().ok().map(|ways| ways.counters())
    }

    /// Returns at most `most` clients that have a way, and the number of all such clients.
    pub fn clients_with_ways(&self, most: usize) -> (Vec<WayClient>, usize) {
        let ways = self.shared.ways.as_ref();
        ways.map_or_else(|_| (Vec::new(), 0), |ways| ways.clients(most))
    }

    /// Returns the UDP port for datagrams; `None` if all datagrams are inside TLS.
    pub fn udp_port(&self) -> Option<u16> {
        self.shared.ways.as_ref().ok().map(|ways| ways.port())
    }

    /// Returns the reason why a requested UDP socket could not be opened.
    pub fn without_udp(&self) -> Option<&io::Error> {
        self.shared.ways.as_ref().err().and_then(Option::as_ref)
    }

    /// Returns the number of connections.
    pub fn open(&self) -> usize {
        self.shared.open.taken()
    }

    /// Serves until the socket fails.
    pub fn serve(&self) -> io::Error {
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            if let Ok(ways) = &self.shared.ways {
                let thread = thread::Builder::new().name("gate-udp".into());
                // Without this thread, probes get no answer, and all datagrams go by TLS.
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

    /// Serves new connections for at most `span`.
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
