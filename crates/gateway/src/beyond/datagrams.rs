//! Datagrams of gateways, to and from targets beyond the overlay.
//!
//! ```text
//!   gateway's socket ══ overlay ══▶ one thread ──▶ Session ── its UDP socket ──▶ targets
//!                    ◀═══════════════════════════ a thread of the session ◀────
//! ```
//! A session belongs to one overlay socket and has a UDP port of its own, so targets tell sessions
//! apart. It takes datagrams only from whom it has sent to, and ends when it is silent.

use super::Shared;
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
use wire::exit::{ADDRESS_BYTES_MAX, Address, DATAGRAM_PORT};

/// Sessions at the same time: two threads and a descriptor each.
const MAX_SESSIONS: usize = 256;
/// Targets of one session.
const MAX_TARGETS: usize = 64;
/// Datagrams that wait for a session to resolve a name.
const MAX_QUEUED: usize = 64;
/// After so much silence a session ends: as RFC 4787 has it for address translators.
const IDLE: Duration = Duration::from_secs(120);
/// How often silence is looked for.
const LOOK: Duration = Duration::from_secs(5);
const STACK_BYTES: usize = 128 * 1024;
const DATAGRAM_BYTES_MAX: usize = 65_535;

/// The exit's socket for datagrams.
pub(super) struct Datagrams {
    socket: Arc<DatagramSocket>,
    shared: Arc<Shared>,
}

/// One overlay socket's datagrams.
struct Session {
    udp: UdpSocket,
    /// When something was last sent or received, in milliseconds since `start`.
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

    /// Serves until the node goes.
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
                    // Lost, as in a full socket buffer.
                    Ok(()) | Err(TrySendError::Full(_)) => continue,
                    Err(TrySendError::Disconnected(back)) => bytes = back,
                }
                sessions.remove(&from);
            }
            if sessions.len() >= MAX_SESSIONS {
                // Ended ones make room; a session notices its end by an empty message.
                sessions.retain(|_, session| {
                    !matches!(
                        session.try_send(Vec::new()),
                        Err(TrySendError::Disconnected(_))
                    )
                });
            }
            if sessions.len() < MAX_SESSIONS
                && let Ok(session) = self.open(from)
            {
                // The channel is new and has room.
                let _ = session.try_send(bytes);
                sessions.insert(from, session);
            }
        }
    }

    fn open(&self, from: Target) -> io::Result<SyncSender<Vec<u8>>> {
        let session = Arc::new(Session::open()?);
        let (sender, receiver) = sync_channel(MAX_QUEUED);
        let (shared, outward) = (Arc::clone(&self.shared), Arc::clone(&session));
        let thread = || thread::Builder::new().stack_size(STACK_BYTES);
        thread().spawn(move || outward.send_all(&shared, &receiver))?;
        let socket = Arc::clone(&self.socket);
        thread().spawn(move || session.receive_all(&socket, from))?;
        Ok(sender)
    }
}

impl Session {
    fn open() -> io::Result<Session> {
        // One socket for both families, where the host has both.
        let udp = UdpSocket::bind("[::]:0").or_else(|_| UdpSocket::bind("0.0.0.0:0"))?;
        udp.set_read_timeout(Some(LOOK))?;
        Ok(Session {
            udp,
            last_ms: AtomicU64::new(0),
            start: Instant::now(),
            targets: Mutex::default(),
        })
    }

    fn send_all(&self, shared: &Shared, queue: &Receiver<Vec<u8>>) {
        let mut resolved: BTreeMap<String, SocketAddr> = BTreeMap::new();
        while !self.is_over() {
            let bytes = match queue.recv_timeout(LOOK) {
                Ok(bytes) => bytes,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let mut r = Reader::new(&bytes);
            let Ok(to) = Address::read(&mut r) else {
                continue;
            };
            let text = to.to_string();
            let addr = match resolved.get(&text) {
                Some(addr) => *addr,
                None => {
                    let found = shared.resolve(&to);
                    let Some(addr) = found.ok().and_then(|found| found.first().copied()) else {
                        // Who is not listed gets no answer, as behind any filter.
                        continue;
                    };
                    if resolved.len() >= MAX_TARGETS {
                        continue;
                    }
                    resolved.insert(text, addr);
                    self.targets().insert(canonical(addr));
                    addr
                }
            };
            self.touch();
            let _ = self.udp.send_to(r.rest(), self.of_family(addr));
        }
    }

    fn receive_all(&self, socket: &DatagramSocket, to: Target) {
        let mut buffer = vec![0; ADDRESS_BYTES_MAX + DATAGRAM_BYTES_MAX];
        while !self.is_over() {
            let (len, from) = match self.udp.recv_from(&mut buffer[ADDRESS_BYTES_MAX..]) {
                Ok(received) => received,
                // Also what the network says about earlier datagrams.
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
            // Else lost, as datagrams may be.
            if let Err(Error::Closed) = socket.send_to(datagram, to) {
                return;
            }
        }
    }

    /// An address as the session's socket takes it.
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
