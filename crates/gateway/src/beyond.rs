//! The exit: it carries what gateways request to targets beyond the overlay, if these are listed.
//!
//! ```text
//!   gateway ══ stream to port 1080, wire::exit ══▶ Beyond ── allowed? ──▶ TCP to the target
//!           ══ datagrams to port 1081 ═══════════▶ datagrams ──────────▶ UDP to the target
//! ```
//!
//! The exit is an ordinary client of its node. Targets that are not listed are refused: the gateway gets the reason,
//! and the exit counts it. The exit resolves names itself, because they may have another meaning elsewhere.

mod datagrams;

use crate::allow::Allowed;
use crate::forward::{Event, Report};
use crate::pump::{Carried, carry};
use crate::slots::{Slot, Slots};
use base::NodeAddr;
use client::{Accepted, Error, Listener, Node, Options, Stream};
use core::net::SocketAddr;
use core::time::Duration;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;
use wire::Malformed;
use wire::exit::{ASK_BYTES_MAX, Address, Code, Host, STREAM_PORT, emit_answer};

/// The maximum number of simultaneous connections: two threads and four descriptors each. Nodes share them.
pub const MAX_CONNECTIONS: usize = 512;
/// How long a gateway may take to send its request.
const ASK_TIMEOUT: Duration = Duration::from_secs(10);
/// How long one address of a target may take to answer.
const DIAL_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum number of addresses of a name that are tried: a gateway waits as long as two of them take.
const MAX_TRIED: usize = 2;
const STACK_BYTES: usize = 128 * 1024;

/// An exit.
pub struct Beyond {
    listener: Listener,
    datagrams: datagrams::Datagrams,
    shared: Arc<Shared>,
}

/// A handle that changes the allowed targets of a running exit. Existing connections continue.
#[derive(Clone)]
pub struct BeyondHandle(Arc<Shared>);

impl BeyondHandle {
    /// Replaces the allowed targets.
    pub fn allow(&self, allowed: Allowed) {
        *self
            .0
            .allowed
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Arc::new(allowed);
    }
}

struct Shared {
    allowed: Mutex<Arc<Allowed>>,
    report: Report,
    slots: Slots<NodeAddr>,
    sessions: Slots<NodeAddr>,
}

impl Beyond {
    /// Accepts streams and datagrams at the ports of exits at `node`.
    pub fn bind(node: &Node, allowed: Allowed, report: Report) -> Result<Beyond, Error> {
        let shared = Arc::new(Shared {
            allowed: Mutex::new(Arc::new(allowed)),
            report,
            slots: Slots::new(MAX_CONNECTIONS),
            sessions: Slots::new(datagrams::MAX_SESSIONS),
        });
        Ok(Beyond {
            listener: node.listen(STREAM_PORT, Options::stream())?,
            datagrams: datagrams::Datagrams::bind(node, Arc::clone(&shared))?,
            shared,
        })
    }

    /// Returns a handle to change the exit while it serves.
    pub fn handle(&self) -> BeyondHandle {
        BeyondHandle(Arc::clone(&self.shared))
    }

    /// Serves until the node is gone.
    pub fn serve(self) -> Error {
        let Beyond {
            listener,
            datagrams,
            shared,
        } = self;
        let receiving = thread::Builder::new().name("exit datagrams".into());
        if let Err(error) = receiving.spawn(move || datagrams.serve()) {
            return Error::Io(error);
        }
        loop {
            match listener.accept() {
                Ok(Accepted::Bytes(stream)) => shared.start(stream),
                // TCP has no messages.
                Ok(Accepted::Messages(stream)) => stream.reset(),
                Err(error @ Error::Descriptors) => {
                    shared.failed("?".to_owned(), "?".to_owned(), error.to_string());
                }
                Err(error) => return error,
            }
        }
    }
}

impl Shared {
    fn allowed(&self) -> Arc<Allowed> {
        let allowed = self.allowed.lock();
        Arc::clone(&allowed.unwrap_or_else(PoisonError::into_inner))
    }

    fn start(self: &Arc<Shared>, stream: Stream) {
        let from = stream.peer().to_string();
        let Some(slot) = self.slots.take_for(stream.peer().node) else {
            stream.reset();
            let why = format!(
                "this node has its share of the {MAX_CONNECTIONS} connections, {} of which are open",
                self.slots.taken()
            );
            return self.failed(from, "?".to_owned(), why);
        };
        // This allows the connection to be ended while it has not sent its request.
        if let Ok(handle) = stream.as_fd().try_clone_to_owned() {
            slot.may_end(move || drop(UnixStream::from(handle).shutdown(Shutdown::Both)));
        }
        let shared = Arc::clone(self);
        let thread = thread::Builder::new().stack_size(STACK_BYTES);
        let started = thread.spawn(move || shared.serve(stream, &slot));
        if let Err(error) = started {
            self.failed(from, "?".to_owned(), format!("no thread for it: {error}"));
        }
    }

    fn serve(&self, stream: Stream, slot: &Slot<NodeAddr>) {
        let from = stream.peer().to_string();
        let mut bytes = [0; ASK_BYTES_MAX];
        let heard = hear(&stream, &mut bytes).and_then(|len| {
            let asked = Address::parse_ask(&bytes[..len]);
            let (asked, used) = asked.map_err(|why| io::Error::new(ErrorKind::InvalidData, why))?;
            Ok((asked, &bytes[used..len]))
        });
        let (asked, rest) = match heard {
            Ok(heard) => heard,
            Err(error) => {
                stream.reset();
                return self.failed(from, "?".to_owned(), error.to_string());
            }
        };
        if !slot.stays() {
            // The slot, and its stream, had to make room for another connection.
            return;
        }
        let to = asked.to_string();
        let tcp = match self.dial(&asked) {
            Ok(tcp) => tcp,
            Err(Undone { code, why }) => {
                let told = (&stream).write_all(&emit_answer(code));
                let _ = told.and_then(|()| stream.shutdown(Shutdown::Write));
                return self.failed(from, to, why);
            }
        };
        let granted = (&stream).write_all(&emit_answer(Code::Granted));
        let (carried, ended) = match granted.and_then(|()| (&tcp).write_all(rest)) {
            Ok(()) => {
                (self.report)(&Event::Opened {
                    from: from.clone(),
                    to: to.clone(),
                });
                carry(tcp, stream)
            }
            Err(error) => {
                stream.reset();
                (Carried::default(), Err(error))
            }
        };
        match ended {
            Ok(()) => (self.report)(&Event::Closed { from, to, carried }),
            Err(error) => self.failed(from, to, error.to_string()),
        }
    }

    fn failed(&self, from: String, to: String, why: String) {
        (self.report)(&Event::Failed { from, to, why });
    }

    fn dial(&self, to: &Address<'_>) -> Result<TcpStream, Undone> {
        let mut last = Undone::of(Code::HostUnreachable);
        for addr in self.resolve(to)?.into_iter().take(MAX_TRIED) {
            match TcpStream::connect_timeout(&addr, DIAL_TIMEOUT) {
                Ok(tcp) => return Ok(tcp),
                Err(error) => last = Undone::of(code(&error)),
            }
        }
        Err(last)
    }

    /// Returns the allowed addresses of a target. The connection then uses exactly these: a name that is resolved twice
    /// may have two meanings.
    fn resolve(&self, to: &Address<'_>) -> Result<Vec<SocketAddr>, Undone> {
        // A node that is allowed nothing must not learn anything about names either.
        let allowed = self.allowed();
        if to.port == 0 || !allowed.may_permit(&to.host, to.port) {
            return Err(Undone::of(Code::NotAllowed));
        }
        let found = match to.host {
            Host::Ip(ip) => vec![SocketAddr::new(ip, to.port)],
            Host::Name(name) => {
                let found = (name, to.port).to_socket_addrs();
                found
                    .map_err(|_| Undone::of(Code::HostUnreachable))?
                    .collect()
            }
        };
        let mut why = Undone::of(Code::HostUnreachable);
        let mut permitted = Vec::new();
        for addr in found {
            match allowed.permit(&to.host, addr.ip(), to.port) {
                Ok(()) => permitted.push(addr),
                Err(refusal) => {
                    why = Undone {
                        code: Code::NotAllowed,
                        why: refusal.to_string(),
                    };
                }
            }
        }
        match permitted.is_empty() {
            true => Err(why),
            false => Ok(permitted),
        }
    }
}

/// Why a request fails: the code for the gateway, and the text for the operator of the exit.
struct Undone {
    code: Code,
    why: String,
}

impl Undone {
    fn of(code: Code) -> Undone {
        let why = code.to_string();
        Undone { code, why }
    }
}

/// Waits until a gateway has sent its request. Returns how many bytes have arrived by then.
fn hear(stream: &Stream, bytes: &mut [u8; ASK_BYTES_MAX]) -> io::Result<usize> {
    let until = Instant::now() + ASK_TIMEOUT;
    let mut len = 0;
    while let Err(why) = Address::parse_ask(&bytes[..len]) {
        if why != Malformed::Short || len == bytes.len() {
            return Err(io::Error::new(ErrorKind::InvalidData, why));
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match Read::read(&mut &*stream, &mut bytes[len..]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(more) => len += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    stream.set_read_timeout(None)?;
    Ok(len)
}

/// Returns the code of a failure to connect.
pub(crate) fn code(error: &io::Error) -> Code {
    match error.kind() {
        ErrorKind::ConnectionRefused => Code::Refused,
        ErrorKind::TimedOut | ErrorKind::WouldBlock => Code::TimedOut,
        ErrorKind::NetworkUnreachable => Code::NetworkUnreachable,
        ErrorKind::HostUnreachable => Code::HostUnreachable,
        _ => Code::Failed,
    }
}

impl core::fmt::Debug for Beyond {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Beyond")
            .field("allowed", &self.shared.allowed())
            .finish_non_exhaustive()
    }
}
