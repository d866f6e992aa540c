//! Datagrams of gateways to and from targets beyond the overlay.
//!
//! ```text
//!   gateway's socket ══ overlay ══▶ one thread ──▶ Session ── its UDP socket ──▶ targets
//!                    ◀═══════════════════════════ a thread of the session ◀────
//! ```
//! A session belongs to one overlay socket and has its own UDP port, so targets can distinguish sessions. It accepts
//! datagrams only from addresses to which it has sent, and ends when it is silent.

use super::{Shared, Undone};
use client::{DatagramSocket, Error, Node, Options, Target};
use core::net::SocketAddr;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;
use wire::bytes::{Reader, Writer};
use wire::exit::{ADDRESS_BYTES_MAX, Address, Code, DATAGRAM_PORT};

/// The maximum number of simultaneous sessions: two threads and a descriptor each. Nodes share them.
pub(super) const MAX_SESSIONS: usize = 256;
/// The maximum number of targets of one session.
const MAX_TARGETS: usize = 64;
/// The maximum number of datagrams that wait while a session resolves a name.
const MAX_QUEUED: usize = 64;
/// The time of silence after which a session ends, as in RFC 4787 for address translators.
const IDLE: Duration = Duration::from_secs(120);
/// How often sessions check for silence.
const LOOK: Duration = Duration::from_secs(5);
const STACK_BYTES: usize = 128 * 1024;
const DATAGRAM_BYTES_MAX: usize = 65_535;

/// The exit's socket for datagrams.
pub(super) struct Datagrams {
    socket: Arc<DatagramSocket>,
    shared: Arc<Shared>,
}

/// The datagrams of one overlay socket.
struct Session {
    udp: UdpSocket,
    /// The overlay socket.
    of: Target,
    /// Number of datagrams that were not carried: malformed, not listed, or to one target too many.
    dropped: AtomicU64,
    /// When a datagram was last sent or received, in milliseconds since `start`.
    last_ms: AtomicU64,
    start: Instant,
    targets: Mutex<BTreeSet<SocketAddr>>,
}

impl Datagrams {
    pub(super) fn bind(node: &Node, shared: Arc<Shared>) -> Result<Datagrams, Error> {
        let socket = node.bind(DATAGRAM_PORT, Options::best_effort())?;
        Ok(Datagrams {
            socket: Arc::new(socket),
            shared,
        })
    }

    /// Serves until the node is gone.
    pub(super) fn serve(self) {
        let mut sessions: BTreeMap<Target, SyncSender<Vec<u8>>> = BTreeMap::new();
        let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
        loop {
            let (len, from) = match self.socket.recv_from(&mut buffer) {
                Ok((len, from, _)) => (len, from),
                Err(Error::Refused { .. }) => continue,
                Err(_) => return,
            };
            let mut bytes = buffer[..len].to_vec();
            if let Some(session) = sessions.get(&from) {
                match session.try_send(bytes) {
                    // The datagram is lost, as in a full socket buffer, because the session is resolving a name.
                    Ok(()) | Err(TrySendError::Full(_)) => continue,
                    Err(TrySendError::Disconnected(back)) => bytes = back,
                }
                sessions.remove(&from);
            }
            if sessions.len() >= MAX_SESSIONS {
                // Ended sessions are removed; an empty message detects them.
                sessions.retain(|_, session| {
                    !matches!(
                        session.try_send(Vec::new()),
                        Err(TrySendError::Disconnected(_))
                    )
                });
            }
            match self.open(from) {
                Ok(session) => {
                    // The channel is new and has room.
                    let _ = session.try_send(bytes);
                    sessions.insert(from, session);
                }
                Err(why) => {
                    let to = "datagrams".to_owned();
                    self.shared.failed(from.to_string(), to, why.to_string());
                }
            }
        }
    }

    fn open(&self, from: Target) -> io::Result<SyncSender<Vec<u8>>> {
        let place = self.shared.sessions.take_for(from.node);
        let place = place.ok_or_else(|| {
            io::Error::other(format!(
                "this node has its share of the {MAX_SESSIONS} associations for datagrams"
            ))
        })?;
        let session = Arc::new(Session::open(from)?);
        let (sender, receiver) = sync_channel(MAX_QUEUED);
        let (shared, outward) = (Arc::clone(&self.shared), Arc::clone(&session));
        let thread = || thread::Builder::new().stack_size(STACK_BYTES);
        thread().spawn(move || {
            let _place = place;
            outward.send_all(&shared, &receiver);
            outward.tell(&shared);
        })?;
        let socket = Arc::clone(&self.socket);
        thread().spawn(move || session.receive_all(&socket))?;
        Ok(sender)
    }
}

impl Session {
    fn open(of: Target) -> io::Result<Session> {
        // One socket serves both families, if the host has both.
        let udp = UdpSocket::bind("[::]:0").or_else(|_| UdpSocket::bind("0.0.0.0:0"))?;
        udp.set_read_timeout(Some(LOOK))?;
        Ok(Session {
            udp,
            of,
            dropped: AtomicU64::new(0),
            last_ms: AtomicU64::new(0),
            start: Instant::now(),
            targets: Mutex::default(),
        })
    }

    fn send_all(&self, shared: &Shared, queue: &Receiver<Vec<u8>>) {
        let mut known = BTreeMap::new();
        while !self.is_over() {
            let bytes = match queue.recv_timeout(LOOK) {
                Ok(bytes) => bytes,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            // An empty message only checks whether the session still exists.
            if !bytes.is_empty() && self.send(shared, &mut known, &bytes).is_none() {
                self.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Sends one datagram to the target at its beginning. `known` contains the targets so far, with their addresses if
    /// they are listed.
    fn send(
        &self,
        shared: &Shared,
        known: &mut BTreeMap<String, Option<SocketAddr>>,
        bytes: &[u8],
    ) -> Option<()> {
        let mut r = Reader::new(bytes);
        let to = Address::read(&mut r).ok()?;
        let text = to.to_string();
        let addr = match known.get(&text) {
            // A target that is not listed gets no answer, as behind any filter.
            Some(addr) => (*addr)?,
            None if known.len() >= MAX_TARGETS => return None,
            None => match shared.resolve(&to) {
                Ok(found) => {
                    let addr = *found.first()?;
                    self.targets().insert(canonical(addr));
                    known.insert(text, Some(addr));
                    addr
                }
                Err(Undone {
                    code: Code::NotAllowed,
                    why,
                }) => {
                    shared.failed(self.of.to_string(), text.clone(), why);
                    known.insert(text, None);
                    return None;
                }
                // A name that cannot be resolved now may be resolved soon.
                Err(_) => return None,
            },
        };
        self.touch();
        let sent = self.udp.send_to(r.rest(), self.of_family(addr));
        sent.ok().map(drop)
    }

    /// Reports at the end how many datagrams were not carried.
    fn tell(&self, shared: &Shared) {
        let dropped = self.dropped.load(Ordering::Relaxed);
        if dropped > 0 {
            let why = format!("{dropped} datagrams were dropped");
            shared.failed(self.of.to_string(), "datagrams".to_owned(), why);
        }
    }

    fn receive_all(&self, socket: &DatagramSocket) {
        let mut buffer = vec![0; ADDRESS_BYTES_MAX + DATAGRAM_BYTES_MAX];
        while !self.is_over() {
            let (len, from) = match self.udp.recv_from(&mut buffer[ADDRESS_BYTES_MAX..]) {
                Ok(received) => received,
                // This includes errors that the network reports about earlier datagrams.
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::WouldBlock
                            | ErrorKind::TimedOut
                            | ErrorKind::Interrupted
                            | ErrorKind::ConnectionRefused
                    ) =>
                {
                    continue;
                }
                Err(_) => return,
            };
            if !self.targets().contains(&canonical(from)) {
                continue;
            }
            self.touch();
            let mut header = [0; ADDRESS_BYTES_MAX];
            let mut w = Writer::new(&mut header);
            if Address::from(from).write(&mut w).is_err() {
                continue;
            }
            let header = w.written();
            let start = ADDRESS_BYTES_MAX - header.len();
            buffer[start..ADDRESS_BYTES_MAX].copy_from_slice(header);
            let datagram = &buffer[start..ADDRESS_BYTES_MAX + len];
            // Otherwise the datagram is lost, as datagrams may be.
            if let Err(Error::Closed) = socket.send_to(datagram, self.of) {
                return;
            }
        }
    }

    /// Converts an address to the family of the session's socket.
    fn of_family(&self, addr: SocketAddr) -> SocketAddr {
        let six = self.udp.local_addr().is_ok_and(|own| own.is_ipv6());
        match addr {
            SocketAddr::V4(v4) if six => {
                SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port())
            }
            addr => addr,
        }
    }

    fn touch(&self) {
        let ms = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_ms.store(ms, Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        let last = Duration::from_millis(self.last_ms.load(Ordering::Relaxed));
        self.start.elapsed().saturating_sub(last) >= IDLE
    }

    fn targets(&self) -> std::sync::MutexGuard<'_, BTreeSet<SocketAddr>> {
        self.targets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn canonical(addr: SocketAddr) -> SocketAddr {
    SocketAddr::new(addr.ip().to_canonical(), addr.port())
}
