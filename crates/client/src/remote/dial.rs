//! Connects to a gate.

use super::channel::{Channel, ChannelError};
use super::keyring::Keyring;
use super::place::Place;
use super::pump::Pump;
use super::report::ClientWays;
use super::{GREETING_TIMEOUT, tls};
use net::unix::{ByteStream, SeqStream};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;
use wire::ipc::{Framing, Reply};
use wire::remote::{Frame, Purpose, Ticket, VERSION};

/// Stack size of a thread that carries data: its buffers are on the heap.
const STACK_BYTES: usize = 256 << 10;

/// Largest number of streams that are fetched at the same time. Beyond that the listener waits, and the gate waits with
/// it.
const FETCHES_MAX: usize = 32;

/// A gate to connect to.
#[derive(Debug)]
pub struct Remote {
    endpoint: String,
    /// The addresses of the endpoint, if they are already known.
    addresses: Option<Vec<SocketAddr>>,
    keyring: Keyring,
    tls: Arc<ClientConfig>,
    fetching: Mutex<usize>,
    fetched: Condvar,
    ways: ClientWays,
}

impl Remote {
    /// Creates the gate at `place`.
    pub fn new(place: Place) -> Result<Remote, rustls::Error> {
        let keyring = Keyring::from(&place);
        let tls = tls::client(keyring.keys())?;
        Ok(Remote {
            addresses: None,
            ..Remote::at(place.endpoint, Vec::new(), keyring, tls)
        })
    }

    /// Creates the gate at `addresses`, called `endpoint`, of a node in `keyring`.
    pub(super) fn at(
        endpoint: String,
        addresses: Vec<SocketAddr>,
        keyring: Keyring,
        tls: Arc<ClientConfig>,
    ) -> Remote {
        Remote {
            endpoint,
            addresses: Some(addresses),
            keyring,
            tls,
            fetching: Mutex::new(0),
            fetched: Condvar::new(),
            ways: ClientWays::default(),
        }
    }

    /// Returns its endpoint.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Returns the reports of how the datagrams of its sockets travel.
    pub fn ways(&self) -> &ClientWays {
        &self.ways
    }

    /// Connects, and returns the equivalent of a connection to the node's own socket.
    pub fn open(self: &Arc<Remote>, until: Instant) -> Result<SeqStream, ChannelError> {
        let channel = self.greet(Purpose::Socket, until)?;
        let (ours, theirs) = SeqStream::pair()?;
        let pump = Pump::of_client(channel, theirs, None, Arc::clone(self));
        start(move || pump.run())?;
        Ok(ours)
    }

    /// Connects to the operator's socket of the node, and returns the equivalent of a connection to it.
    pub fn operate(self: &Arc<Remote>, until: Instant) -> Result<UnixStream, ChannelError> {
        let channel = self.greet(Purpose::Operator, until)?;
        let (ours, theirs) = pair(Framing::Bytes)?;
        let pump = Pump::of_operator(channel, theirs, Arc::clone(self));
        start(move || pump.run())?;
        Ok(UnixStream::from(ours))
    }

    /// Fetches a stream that `message` has offered, and passes it to the listener. Waits while the largest number is
    /// being fetched.
    pub(super) fn fetch(
        self: &Arc<Remote>,
        ticket: Ticket,
        message: Vec<u8>,
        listener: Arc<SeqStream>,
    ) {
        let fetching = Fetching::enter(Arc::clone(self));
        // The gate notices a failure here, and informs the stream's peer: there is no thread, no connection to the
        // gate, or no listener any longer.
        let _ = start(move || {
            let remote = Arc::clone(&fetching.0);
            let until = Instant::now() + GREETING_TIMEOUT;
            let channel = remote.greet(Purpose::Stream(ticket), until)?;
            let Ok(Reply::Incoming { framing, .. }) = Reply::parse(&message) else {
                return Err(ChannelError::Frame(wire::Malformed::Kind));
            };
            let (data, ours) = pair(framing)?;
            let (notices, theirs) = SeqStream::pair()?;
            listener.send_with_fds(
                &[io::IoSlice::new(&message)],
                &[data.as_fd(), notices.as_fd()],
            )?;
            drop((data, notices, listener, fetching));
            Pump::of_client(channel, theirs, Some((framing, ours)), remote).run()
        });
    }

    /// Makes a connection and completes the greeting.
    fn greet(&self, purpose: Purpose, until: Instant) -> Result<Channel, ChannelError> {
        let name = ServerName::try_from(tls::NAME).map_err(io::Error::other)?;
        let tls = ClientConnection::new(Arc::clone(&self.tls), name)?;
        let mut channel = Channel::new(self.connect(until)?, tls)?;
        let key = channel.shaken(until)?;
        // The handshake has checked that it is one of the keys.
        let token = key.and_then(|key| self.keyring.token(&key));
        let token = *token.ok_or_else(|| io::Error::other("the node has shown no key"))?;
        channel.say(&Frame::Hello {
            version: VERSION,
            purpose,
            token: &token,
        })?;
        channel.flush()?;
        let refused = channel.next(until, |frame| match frame {
            Frame::Welcome => None,
            Frame::Refused(text) => Some(ChannelError::Refused(text.to_owned())),
            _ => Some(ChannelError::Frame(wire::Malformed::Kind)),
        })?;
        refused.map_or(Ok(channel), Err)
    }

    fn connect(&self, until: Instant) -> Result<TcpStream, ChannelError> {
        let mut last = io::Error::other("the name stands for no address");
        let found: Vec<SocketAddr>;
        let addresses = match &self.addresses {
            Some(addresses) => addresses,
            None => {
                found = self.endpoint.to_socket_addrs()?.collect();
                &found
            }
        };
        for (addr, others) in addresses.iter().zip((1..=addresses.len() as u32).rev()) {
            // A silent address leaves time for the other ones.
            let left = until.saturating_duration_since(Instant::now()) / others;
            if left.is_zero() {
                return Err(ChannelError::Late);
            }
            match TcpStream::connect_timeout(addr, left) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last.into())
    }
}

/// Counts as one of the streams that are being fetched, until it is dropped.
struct Fetching(Arc<Remote>);

impl Fetching {
    fn enter(remote: Arc<Remote>) -> Fetching {
        let count = remote.fetching.lock();
        let count = count.unwrap_or_else(PoisonError::into_inner);
        let count = remote
            .fetched
            .wait_while(count, |count| *count >= FETCHES_MAX);
        let mut count = count.unwrap_or_else(PoisonError::into_inner);
        *count += 1;
        drop(count);
        Fetching(remote)
    }
}

impl Drop for Fetching {
    fn drop(&mut self) {
        let count = self.0.fetching.lock();
        *count.unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.fetched.notify_one();
    }
}

/// Creates both ends of what carries a stream: the program's, which blocks unless set otherwise, and ours.
pub(super) fn pair(framing: Framing) -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(match framing {
        Framing::Bytes => {
            let (theirs, ours) = ByteStream::pair()?;
            theirs.set_nonblocking(false)?;
            (theirs.into(), ours.into())
        }
        Framing::Messages => {
            let (theirs, ours) = SeqStream::pair()?;
            theirs.set_nonblocking(false)?;
            (theirs.into(), ours.into())
        }
    })
}

fn start(run: impl FnOnce() -> Result<(), ChannelError> + Send + 'static) -> io::Result<()> {
    let thread = std::thread::Builder::new().name("sinew-remote".into());
    let thread = thread.stack_size(STACK_BYTES);
    // Nobody needs the reason for its end: the program sees the end of its socket.
    thread.spawn(move || run().ok()).map(drop)
}
