//! A SOCKS 5 server, through which unmodified programs use the overlay. [RFC 1928]
//!
//! ```text
//!   curl ──SOCKS──▶ Socks ── web.sinew:80 ───▶ stream to port 80 of the node web
//!                         ── example.org:80 ─▶ stream to the exit, which connects (wire::exit)
//! ```
//!
//! A name that ends in `.sinew`, the name of a node, and an address of a node mean that node, and the port is a virtual
//! port there. All other traffic leaves the overlay at the exit, if one is given; otherwise it is refused. Datagrams
//! follow the same rules. Each connection has a thread. A client that sends nothing, or nonsense, is closed and
//! counted, and does not hinder others: hosts share the places, and a connection without a request has to go when a
//! place is wanted.

pub mod message;
mod session;
mod udp;

use crate::accept;
use crate::forward::{Event, Report};
use crate::slots::Slots;
use base::NodeAddr;
use client::{Node, Options};
use core::time::Duration;
use message::Nonsense;
use net::places::Origin;
use session::Session;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use wire::exit::{Code, Host};

/// Maximum number of connections at the same time: two threads and four descriptors each. One host may have half of
/// them. A browser has some dozens.
pub const MAX_CONNECTIONS: usize = 512;
/// The total time within which a client must send its request. A client that needs its place for this time may lose it
/// to another connection.
pub const NEGOTIATION_TIMEOUT: Duration = Duration::from_secs(10);
/// The time within which an exit must answer: as long as two addresses of the target may take, and a little more.
const EXIT_TIMEOUT: Duration = Duration::from_secs(25);
const STACK_BYTES: usize = 128 * 1024;
/// The optional suffix of names of nodes.
pub const SUFFIX: &str = ".sinew";

/// Finds the nodes of the overlay.
pub trait Nodes: Send + Sync {
    /// Returns the node that a host means; `None` if the host is not a node.
    fn node(&self, host: &Host<'_>) -> Option<NodeAddr>;
}

/// The settings of a server.
pub struct Settings {
    /// The address at which the server listens.
    pub listen: SocketAddr,
    /// The node of which the server is a client.
    pub node: Node,
    /// Finds the other nodes.
    pub nodes: Arc<dyn Nodes>,
    /// The exit at which traffic leaves the overlay; `None` if there is none.
    pub exit: Option<NodeAddr>,
    /// User and password that clients must give, if any.
    pub user: Option<(String, String)>,
    /// The options for streams.
    pub streams: Options,
    /// The options for datagrams.
    pub datagrams: Options,
    /// How long a client may take to send its request: [`NEGOTIATION_TIMEOUT`].
    pub patience: Duration,
}

/// Numbers of clients by outcome.
#[derive(Debug, Default)]
pub struct Counters {
    /// Connections that were carried.
    pub streams: AtomicU64,
    /// Associations for datagrams.
    pub associations: AtomicU64,
    /// Requests that were refused, or whose target could not be reached.
    pub refused: AtomicU64,
    /// Clients that did not speak SOCKS 5.
    pub nonsense: AtomicU64,
    /// Clients that gave no correct user and password, or offered no method for it.
    pub unknown_users: AtomicU64,
    /// Clients that were too slow, or left before they had sent their request.
    pub late: AtomicU64,
    /// Clients that were turned away because there are too many.
    pub turned_away: AtomicU64,
    /// Datagrams that were not carried: fragments, nonsense, or without a path.
    pub datagrams_dropped: AtomicU64,
}

/// A SOCKS server.
pub struct Socks {
    listener: TcpListener,
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    settings: Settings,
    counters: Counters,
    slots: Slots<Origin>,
    report: Report,
}

/// The reason why a client's connection was not carried.
#[derive(Debug, thiserror::Error)]
enum Turned {
    /// The client does not speak SOCKS 5.
    #[error("not SOCKS 5: {0}")]
    Nonsense(#[from] Nonsense),
    /// The client is not permitted.
    #[error("user or password is wrong, or was not given")]
    User,
    /// The client sent no request in time, or left.
    #[error("it has not said what it wants")]
    Late,
    /// The request cannot be fulfilled.
    #[error("{0}")]
    Refused(Refusal),
}

/// The reason why a target cannot be reached.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    /// The exit, or this server, gave this code.
    #[error("{0}")]
    Code(Code),
    /// The target is outside the overlay, and no exit is given.
    #[error("it is no node of the overlay, and no exit is named: see --exit")]
    NoExit,
    /// The name has the form of a node's name, but no node has it.
    #[error("no node of this name is known")]
    NoNode,
    /// The overlay does not reach the target.
    #[error("{0}")]
    Overlay(#[from] client::Error),
    /// The node is not an exit, or the connection to it was lost.
    #[error("the exit: {0}")]
    Exit(io::Error),
}

impl Socks {
    /// Binds the server; `report` receives the events.
    pub fn bind(settings: Settings, report: Report) -> io::Result<Socks> {
        Ok(Socks {
            listener: TcpListener::bind(settings.listen)?,
            shared: Arc::new(Shared {
                settings,
                counters: Counters::default(),
                slots: Slots::new(MAX_CONNECTIONS),
                report,
            }),
        })
    }

    /// Returns the address at which the server listens.
    pub fn local(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Returns the counters of clients.
    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// Waits for the next connection, accepts it, and serves it on threads of its own.
    pub fn serve_next(&self) -> io::Result<()> {
        match self.listener.accept() {
            Ok((tcp, from)) => {
                self.shared.start(tcp, from);
                Ok(())
            }
            Err(error) if accept::outlives(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl Shared {
    fn start(self: &Arc<Shared>, tcp: TcpStream, from: SocketAddr) {
        let Some(slot) = self.slots.take_for(Origin::of(from.ip())) else {
            count(&self.counters.turned_away);
            return;
        };
        // Without a descriptor, the place stays with this connection.
        if let Ok(tcp) = tcp.try_clone() {
            slot.may_end(move || drop(tcp.shutdown(Shutdown::Both)));
            slot.is_spare();
        }
        let shared = Arc::clone(self);
        let thread = thread::Builder::new().stack_size(STACK_BYTES);
        let started = thread.spawn(move || {
            let mut session = Session::new(&shared, tcp, from);
            if let Err(why) = session.run(&slot) {
                shared.turn_away(from, session.asked(), &why);
            }
        });
        if started.is_err() {
            count(&self.counters.turned_away);
        }
    }

    fn turn_away(&self, from: SocketAddr, asked: String, why: &Turned) {
        count(match why {
            Turned::Nonsense(_) => &self.counters.nonsense,
            Turned::User => &self.counters.unknown_users,
            Turned::Late => &self.counters.late,
            Turned::Refused(_) => &self.counters.refused,
        });
        (self.report)(&Event::Failed {
            from: from.to_string(),
            to: asked,
            why: why.to_string(),
        });
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Refusal {
    /// Returns the code that the client gets.
    fn code(&self) -> Code {
        use client::{Error, ErrorCode, ResetReason};
        match self {
            Refusal::Code(code) => *code,
            Refusal::NoExit => Code::NotAllowed,
            Refusal::NoNode => Code::HostUnreachable,
            Refusal::Exit(_) => Code::Failed,
            Refusal::Overlay(Error::Reset(why)) => match why {
                ResetReason::Refused => Code::Refused,
                ResetReason::Timeout => Code::TimedOut,
                ResetReason::NoRoute => Code::HostUnreachable,
                _ => Code::Failed,
            },
            Refusal::Overlay(Error::Refused {
                code: ErrorCode::Forbidden,
                ..
            }) => Code::NotAllowed,
            Refusal::Overlay(_) => Code::Failed,
        }
    }
}

impl core::fmt::Debug for Socks {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Socks")
            .field("listener", &self.listener)
            .field("counters", &self.shared.counters)
            .finish_non_exhaustive()
    }
}

impl AsFd for Socks {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}
