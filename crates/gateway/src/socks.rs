//! A SOCKS 5 server: unmodified programs use the overlay. [RFC 1928]
//!
//! ```text
//!   curl ──SOCKS──▶ Socks ── web.sinew:80 ───▶ stream to port 80 of the node web
//!                         ── example.org:80 ─▶ stream to the exit, which connects (wire::exit)
//! ```
//!
//! A name that ends in `.sinew`, the name of a node, and an address of a node mean that node, and
//! the port is a virtual one there. Everything else leaves the overlay at the exit, if one is named;
//! without, it is refused. Datagrams go the same ways. Each connection has a thread; one that says
//! nothing, or nonsense, ends, is counted and hinders nobody.

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
use session::Session;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use wire::exit::{Code, Host};

/// Connections at the same time: two threads and four descriptors each. A browser has some dozens.
pub const MAX_CONNECTIONS: usize = 512;
/// How long a client may take to say what it wants, in all.
pub const NEGOTIATION_TIMEOUT: Duration = Duration::from_secs(20);
/// How long an exit may take to answer: as long as two addresses of the target may, and a little.
const EXIT_TIMEOUT: Duration = Duration::from_secs(25);
const STACK_BYTES: usize = 128 * 1024;
/// What names of nodes may end in.
pub const SUFFIX: &str = ".sinew";

/// Who knows the nodes of the overlay.
pub trait Nodes: Send + Sync {
    /// The node that a host means; `None` if it means none.
    fn node(&self, host: &Host<'_>) -> Option<NodeAddr>;
}

/// What a server needs.
pub struct Settings {
    /// Where it listens.
    pub listen: SocketAddr,
    /// The node that it is a client of.
    pub node: Node,
    /// Who knows the other ones.
    pub nodes: Arc<dyn Nodes>,
    /// Where the overlay is left; `None` if it is not.
    pub exit: Option<NodeAddr>,
    /// User and password that are asked for, if any.
    pub user: Option<(String, String)>,
    /// How streams are carried.
    pub streams: Options,
    /// How datagrams are carried.
    pub datagrams: Options,
    /// How long a client may take to say what it wants: [`NEGOTIATION_TIMEOUT`].
    pub patience: Duration,
}

/// How clients have fared.
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
    /// Clients without the right user and password, or a way to say them.
    pub unknown_users: AtomicU64,
    /// Clients that were too slow, or left before they had said what they want.
    pub late: AtomicU64,
    /// Clients turned away because there are too many.
    pub turned_away: AtomicU64,
    /// Datagrams that were not carried: fragments, nonsense, without a way.
    pub datagrams_dropped: AtomicU64,
}

/// A server.
pub struct Socks {
    listener: TcpListener,
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    settings: Settings,
    counters: Counters,
    slots: Slots,
    report: Report,
}

/// Why a client's connection was not carried.
#[derive(Debug, thiserror::Error)]
enum Turned {
    /// It does not speak SOCKS 5.
    #[error("not SOCKS 5: {0}")]
    Nonsense(#[from] Nonsense),
    /// It is not let in.
    #[error("user or password is wrong, or was not given")]
    User,
    /// It said nothing in time, or went.
    #[error("it has not said what it wants")]
    Late,
    /// What it asked for cannot be had.
    #[error("{0}")]
    Refused(Refusal),
}

/// Why a target cannot be had.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    /// The exit, or this server, says so.
    #[error("{0}")]
    Code(Code),
    /// It lies beyond, and no exit is named.
    #[error("it is no node of the overlay, and no exit is named: see --exit")]
    NoExit,
    /// The name ends like a node's and is none's.
    #[error("no node of this name is known")]
    NoNode,
    /// The overlay does not reach it.
    #[error("{0}")]
    Overlay(#[from] client::Error),
    /// The exit is no exit, or has gone.
    #[error("the exit: {0}")]
    Exit(io::Error),
}

impl Socks {
    /// Listens; `report` is told what happens.
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

    /// Where it listens.
    pub fn local(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// How clients have fared.
    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// Accepts the next connection, waiting for it, and serves it on threads of its own.
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
        let Some(slot) = self.slots.take() else {
            count(&self.counters.turned_away);
            return;
        };
        let shared = Arc::clone(self);
        let thread = thread::Builder::new().stack_size(STACK_BYTES);
        let started = thread.spawn(move || {
            let _slot = slot;
            let mut session = Session::new(&shared, tcp, from);
            if let Err(why) = session.run() {
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
    /// How a client is told.
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
