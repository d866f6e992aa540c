//! The relay service of a node: who may come in, and how many transfers it has a part in.
//!
//! ```text
//!   TCP ──▶ 0x16: TLS ─┬─▶ preamble: control ─▶ Open ─▶ a transfer, on this thread
//!       └─▶ 'S': plain ┴─▶ preamble: data ─────▶ to the transfer that waits for it
//!   Unix (mode 0600) ──▶ the same, without TLS: the operator
//! ```
//! Who is no node of this network costs a thread for the handshake, of which there are so many at a
//! time; nothing is kept of it.

use super::dial::{PATIENCE, prepare, watch};
use super::duplex::{Duplex, Peer, Received};
use super::failure::{Failure, FailureKind};
use super::place::Place;
use super::roots::Roots;
use super::socket::{Data, Socket};
use super::stage::{self, End};
use super::tls::{Trust, random};
use crate::command::Commander;
use crate::control::{ControlError, Listener};
use crate::log::Lines;
use base::NodeAddr;
use net::epoll::Waker;
use net::poll::{Polled, poll};
use secure::{Identity, Network};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;
use wire::relay::{
    CONTROL_PREAMBLE_BYTES, DATA_PREAMBLE_BYTES, Message, Open, Preamble, STRIPES_MAX,
    TICKET_BYTES, TRANSFER_BYTES,
};

/// Connections that have not said yet what they want. Choice: the stripes of two transfers that
/// begin at the same moment; more wait in the kernel.
const GREETING_MAX: usize = 2 * STRIPES_MAX as usize;
/// A thread has its buffers on the heap.
const STACK_BYTES: usize = 512 << 10;
/// The first byte of TLS: a record of a handshake.
const TLS_FIRST: u8 = 0x16;

/// What a service needs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// TCP addresses.
    pub listen: Vec<SocketAddr>,
    /// The operator's socket file.
    pub socket: Option<PathBuf>,
    /// How many transfers it has a part in at the same time.
    pub transfers: usize,
    /// The directories that are served.
    pub roots: Vec<PathBuf>,
    /// Where a renewed certificate is.
    pub certificate: Option<PathBuf>,
}

/// Why a service cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// An address cannot be listened at.
    #[error(
        "cannot listen for bulk data at TCP {listen}: {error}; choose another `[relay] listen`"
    )]
    Listen {
        /// The address.
        listen: SocketAddr,
        /// What the kernel said.
        error: io::Error,
    },
    /// The operator's socket cannot be opened.
    #[error(transparent)]
    Socket(#[from] ControlError),
    /// The node's keys are not what TLS takes.
    #[error("the node's key: {0}")]
    Key(#[from] rustls::Error),
    /// The system refused something else.
    #[error("the relay service: {0}")]
    Io(#[from] io::Error),
}

/// A running service. Dropping it takes no new transfers; those under way end with the process.
#[derive(Debug)]
pub struct Service {
    threads: Vec<JoinHandle<()>>,
    stopping: Arc<AtomicBool>,
    wakers: Vec<Waker>,
}

impl Service {
    /// Listens, and serves on threads of its own.
    pub fn start(
        settings: &Settings,
        identity: Identity,
        network: Network,
        commander: Commander,
        lines: Lines,
    ) -> Result<Service, ServeError> {
        let roots = Roots::new(identity.address(), settings.roots.clone());
        let certificate = settings.certificate.clone();
        let trust = Trust::new(identity, certificate, network, commander)?;
        let node = Arc::new(Node {
            trust,
            roots,
            transfers: settings.transfers,
            active: AtomicUsize::new(0),
            greeting: AtomicUsize::new(0),
            waiting: Mutex::default(),
            lines,
        });
        let stopping = Arc::new(AtomicBool::new(false));
        let mut service = Service {
            threads: Vec::new(),
            stopping: Arc::clone(&stopping),
            wakers: Vec::new(),
        };
        let mut doors = Vec::new();
        for &listen in &settings.listen {
            let bound = TcpListener::bind(listen).and_then(|listener| {
                listener.set_nonblocking(true)?;
                Ok(listener)
            });
            let listener = bound.map_err(|error| ServeError::Listen { listen, error })?;
            doors.push(Door::Tcp(listener));
        }
        if let Some(path) = &settings.socket {
            doors.push(Door::Unix(Listener::bind(path)?));
        }
        for door in doors {
            let (node, stopping) = (Arc::clone(&node), Arc::clone(&stopping));
            let waker = Waker::new()?;
            service.wakers.push(waker.clone());
            let thread = thread::Builder::new().name("relay".into());
            let thread = thread.spawn(move || node.listen(&door, &waker, &stopping))?;
            service.threads.push(thread);
        }
        Ok(service)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        self.wakers.iter().for_each(Waker::wake);
        for thread in self.threads.drain(..) {
            // A panic over there was reported there.
            let _ = thread.join();
        }
    }
}

enum Door {
    Tcp(TcpListener),
    Unix(Listener),
}

struct Node {
    trust: Trust,
    roots: Roots,
    transfers: usize,
    active: AtomicUsize,
    greeting: AtomicUsize,
    /// Transfers whose stripes are on their way.
    waiting: Mutex<BTreeMap<[u8; TRANSFER_BYTES], Waiting>>,
    lines: Lines,
}

/// A transfer that waits for its stripes.
struct Waiting {
    ticket: [u8; TICKET_BYTES],
    /// Who may bring sealed ones; the operator's are plain.
    key: Option<[u8; 32]>,
    plain: bool,
    /// Each may come once.
    wanted: Vec<bool>,
    stripes: SyncSender<(usize, Data)>,
}

/// One of so many, until it is dropped.
struct Slot<'a>(&'a AtomicUsize);

impl<'a> Slot<'a> {
    fn take(count: &'a AtomicUsize, most: usize) -> Option<Slot<'a>> {
        let taken = count.fetch_update(Ordering::AcqRel, Ordering::Acquire, |taken| {
            (taken < most).then_some(taken + 1)
        });
        taken.ok().map(|_| Slot(count))
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Node {
    fn listen(self: &Arc<Node>, door: &Door, waker: &Waker, stopping: &AtomicBool) {
        while !stopping.load(Ordering::Acquire) {
            let listener = match door {
                Door::Tcp(listener) => listener.as_fd(),
                Door::Unix(listener) => listener.as_fd(),
            };
            let mut polled = [
                Polled::new(listener, true, false),
                Polled::new(waker.as_fd(), true, false),
            ];
            if poll(&mut polled, None).is_err() {
                return;
            }
            if !polled[0].readable() {
                continue;
            }
            let accepted = match door {
                Door::Tcp(listener) => listener.accept().map(|(tcp, _)| Some(Socket::Tcp(tcp))),
                Door::Unix(listener) => listener.accept().map(|unix| unix.map(Socket::Unix)),
            };
            match accepted {
                Ok(Some(socket)) => self.admit(socket),
                Ok(None) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // A connection that was gone at once, or no descriptors: others may come.
                Err(_) => thread::sleep(std::time::Duration::from_millis(20)),
            }
        }
    }

    /// Gives one who comes a thread.
    fn admit(self: &Arc<Node>, socket: Socket) {
        while self.greeting.load(Ordering::Acquire) >= GREETING_MAX {
            thread::sleep(std::time::Duration::from_millis(5));
        }
        let node = Arc::clone(self);
        let thread = thread::Builder::new().name("relay-greet".into());
        let started = thread.stack_size(STACK_BYTES).spawn(move || {
            // What has come to nothing before it asked for anything is nobody's business.
            let _ = node.greet(socket);
        });
        if started.is_err() {
            self.lines
                .say("a bulk transfer was turned away: no thread could be started");
        }
    }

    fn greet(&self, socket: Socket) -> io::Result<()> {
        let greeting = Slot::take(&self.greeting, usize::MAX);
        socket.set_nonblocking(false)?;
        socket.set_patience(Some(PATIENCE))?;
        let is_local = socket.tcp().is_none();
        let mut data = match &socket {
            Socket::Tcp(tcp) => {
                tcp.set_nodelay(true)?;
                match first_byte(tcp)? {
                    TLS_FIRST => {
                        let tls = self.trust.acceptor().map_err(io::Error::other)?;
                        let mut data = Data::sealed(socket, tls);
                        data.shake_hands()?;
                        data
                    }
                    _ => Data::plain(socket),
                }
            }
            Socket::Unix(_) => Data::plain(socket),
        };
        match read_preamble(&mut data)? {
            Preamble::Control if data.is_plain() && !is_local => Ok(()),
            Preamble::Control => {
                if let Some(tcp) = data.socket.tcp() {
                    watch(tcp)?;
                }
                let key = data.peer_key();
                let control = Arc::new(Duplex::new(data)?);
                let asked = control.receive(Some(Instant::now() + PATIENCE))?;
                let Some(asked) = asked else { return Ok(()) };
                drop(greeting);
                self.converse(&control, key, is_local, &asked);
                Ok(())
            }
            Preamble::Data {
                transfer,
                stripe,
                proof,
            } => {
                self.attach(data, is_local, &transfer, stripe.into(), &proof);
                Ok(())
            }
        }
    }

    /// A stripe goes to the transfer that waits for it, if it is one of its own.
    fn attach(
        &self,
        data: Data,
        is_local: bool,
        transfer: &[u8; TRANSFER_BYTES],
        stripe: usize,
        proof: &[u8; TICKET_BYTES],
    ) {
        let mut all = self.waiting();
        let Some(waiting) = all.get_mut(transfer) else {
            return;
        };
        let expected = relay::proof(&waiting.ticket, transfer, stripe as u8);
        let sealed_right = match (is_local, waiting.key) {
            (true, None) => true,
            (false, Some(key)) => match data.peer_key() {
                Some(shown) => shown == key && !waiting.plain,
                None => waiting.plain,
            },
            _ => false,
        };
        // Digests are compared as such, in constant time.
        let proven = blake3::Hash::from_bytes(expected) == *proof;
        let wanted = waiting.wanted.get_mut(stripe).is_some_and(std::mem::take);
        if proven && sealed_right && wanted && data.socket.set_patience(None).is_ok() {
            // There is room for all that are wanted.
            let _ = waiting.stripes.try_send((stripe, data));
        }
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<[u8; TRANSFER_BYTES], Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves a transfer, or says why not.
    fn converse(
        &self,
        control: &Arc<Duplex>,
        key: Option<[u8; 32]>,
        is_local: bool,
        asked: &Received,
    ) {
        let here = self.trust.own();
        let Ok(Message::Open(open)) = asked.message() else {
            let text = "this is not understood: run one version on all nodes";
            control.fail(&Failure::new(here, FailureKind::Unusable, text));
            return control.close();
        };
        let who = match is_local {
            true => Ok(here),
            false => self.judge(&open, key),
        };
        let served = who.and_then(|node| {
            let control = Arc::clone(control);
            let peer = Peer { node, control };
            self.serve(&open, &peer, key)
        });
        if let Err(failure) = served {
            control.fail(&failure);
            self.lines
                .say(&format!("a bulk transfer has failed: {failure}"));
        }
        control.close();
    }

    fn judge(&self, open: &Open<'_>, key: Option<[u8; 32]>) -> Result<NodeAddr, Failure> {
        let here = self.trust.own();
        let forbidden = |why: &dyn std::fmt::Display| {
            let text = format!("the node that asks is not believed: {why}");
            Failure::new(here, FailureKind::Forbidden, text)
        };
        let key = key.ok_or_else(|| forbidden(&"it shows no key"))?;
        let judged = self.trust.judge(open.certificate, &key);
        judged.map_err(|why| forbidden(&why))
    }

    fn serve(&self, open: &Open<'_>, peer: &Peer, key: Option<[u8; 32]>) -> Result<(), Failure> {
        let here = self.trust.own();
        if open.route.node != here {
            let text = format!("this is {here}, and {} is asked for", open.route.node);
            return Err(Failure::new(here, FailureKind::Unusable, text));
        }
        let Some(_slot) = Slot::take(&self.active, self.transfers) else {
            let text = format!(
                "it has a part in {} transfers already, as many as `[relay] transfers` permits: try \
                 again later",
                self.transfers
            );
            return Err(Failure::new(here, FailureKind::Busy, text));
        };
        let end = match (open.route.path, open.pull) {
            (None, _) => End::Nothing,
            (Some(_), false) if open.route.discard => End::Sink(Place::Discard),
            (Some(path), false) => End::Sink(self.roots.place(path)?),
            (Some(path), true) => End::Source(Box::new(self.roots.tree(path)?)),
        };
        let stripes = self.stripes(open, peer, key)?;
        stage::run(&self.trust, open, peer, stripes, end)
    }

    /// Lets the stripes of a transfer come, in their order.
    fn stripes(
        &self,
        open: &Open<'_>,
        peer: &Peer,
        key: Option<[u8; 32]>,
    ) -> Result<Vec<Data>, Failure> {
        let here = self.trust.own();
        let broken = |error: io::Error| Failure::broken(here, peer.node, &error);
        let count = usize::from(open.route.stripes);
        let (stripes, coming) = sync_channel(count);
        let ticket = random().map_err(broken)?;
        let waiting = Waiting {
            ticket,
            key,
            plain: open.plain,
            wanted: vec![true; count],
            stripes,
        };
        if self.waiting().insert(open.transfer, waiting).is_some() {
            let text = "a transfer of this name is on its way: a route goes through a node once";
            return Err(Failure::new(here, FailureKind::Unusable, text));
        }
        let certificate = match key {
            Some(_) => self.trust.certificate(),
            None => Vec::new(),
        };
        let attach = Message::Attach {
            ticket,
            certificate: &certificate,
        };
        let said = peer.control.send(&attach).map_err(broken);
        let come = said.and_then(|()| collect(&coming, count).map_err(broken));
        self.waiting().remove(&open.transfer);
        let come = come?;
        for data in come.iter().filter(|_| open.pull) {
            prepare(data, open.congestion)
                .map_err(|text| Failure::new(here, FailureKind::Unusable, text))?;
        }
        Ok(come)
    }
}

fn collect(coming: &Receiver<(usize, Data)>, count: usize) -> io::Result<Vec<Data>> {
    let until = Instant::now() + PATIENCE;
    let mut come = BTreeMap::new();
    while come.len() < count {
        let left = until.saturating_duration_since(Instant::now());
        let (stripe, data) = coming
            .recv_timeout(left)
            .map_err(|_| io::Error::from(ErrorKind::TimedOut))?;
        come.insert(stripe, data);
    }
    Ok(come.into_values().collect())
}

/// What a connection begins with, left where it is.
fn first_byte(tcp: &TcpStream) -> io::Result<u8> {
    let mut first = [0];
    match tcp.peek(&mut first)? {
        0 => Err(ErrorKind::UnexpectedEof.into()),
        _ => Ok(first[0]),
    }
}

fn read_preamble(data: &mut Data) -> io::Result<Preamble> {
    let malformed = |error| io::Error::new(ErrorKind::InvalidData, error);
    let mut bytes = [0; DATA_PREAMBLE_BYTES];
    let (first, rest) = bytes.split_at_mut(CONTROL_PREAMBLE_BYTES);
    data.read_exact(first)?;
    let first: &[u8; CONTROL_PREAMBLE_BYTES] = (&*first).try_into().expect("it was split so");
    let len = Preamble::bytes(first).map_err(malformed)?;
    data.read_exact(&mut rest[..len - CONTROL_PREAMBLE_BYTES])?;
    Preamble::parse(&bytes[..len]).map_err(malformed)
}
