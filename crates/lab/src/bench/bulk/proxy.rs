//! Bare proxies, as lean as possible: one between a writer and a reader of its own, and one in front of a node's port,
//! for a copy.

use net::raw_key::{self, KEY_BYTES, Verifier};
use net::sched;
use net::splice::Pipe;
use rustls::pki_types::ServerName;
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::{
    ClientConfig, ClientConnection, Error, ServerConfig, ServerConnection, StreamOwned, version,
};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// Block size of reads and writes.
const BLOCK_BYTES: usize = 256 * 1024;

/// A writer, a proxy and a reader. They end when this is dropped.
pub(super) struct Proxy {
    arrived: Arc<AtomicU64>,
    cpu_ns: Arc<AtomicU64>,
    sockets: Vec<TcpStream>,
    threads: Vec<JoinHandle<()>>,
}

impl Proxy {
    pub(super) fn start(sealed: bool) -> io::Result<Proxy> {
        let (writer, from) = pair()?;
        let (to, reader) = pair()?;
        let sockets = [&writer, &from, &to, &reader].map(TcpStream::try_clone);
        let mut proxy = Proxy {
            arrived: Arc::default(),
            cpu_ns: Arc::default(),
            sockets: sockets.into_iter().collect::<io::Result<_>>()?,
            threads: Vec::new(),
        };
        let (arrived, cpu) = (Arc::clone(&proxy.arrived), Arc::clone(&proxy.cpu_ns));
        let spent = move || cpu.store(sched::thread_cpu().as_nanos(), Ordering::Relaxed);
        if sealed {
            let (client, server) = configurations().map_err(io::Error::other)?;
            let name = || ServerName::try_from("proxy").expect("it is a name");
            let dial = |socket| -> io::Result<_> {
                let tls = ClientConnection::new(Arc::clone(&client), name());
                Ok(StreamOwned::new(tls.map_err(io::Error::other)?, socket))
            };
            let accept = |socket| -> io::Result<_> {
                let tls = ServerConnection::new(Arc::clone(&server));
                Ok(StreamOwned::new(tls.map_err(io::Error::other)?, socket))
            };
            let (writer, from) = (dial(writer)?, accept(from)?);
            let (to, reader) = (dial(to)?, accept(reader)?);
            proxy.spawn(move || write(writer));
            proxy.spawn(move || pass(from, to, spent));
            proxy.spawn(move || read(reader, &arrived));
        } else {
            proxy.spawn(move || write(writer));
            proxy.spawn(move || {
                // The thread ends when a socket is shut down.
                let _ = splice(&from, &to, spent);
            });
            proxy.spawn(move || read(reader, &arrived));
        }
        Ok(proxy)
    }

    /// Returns the bytes that have arrived.
    pub(super) fn arrived(&self) -> u64 {
        self.arrived.load(Ordering::Relaxed)
    }

    /// Returns the processor time of the proxy.
    pub(super) fn cpu_ns(&self) -> u64 {
        self.cpu_ns.load(Ordering::Relaxed)
    }

    fn spawn(&mut self, work: impl FnOnce() + Send + 'static) {
        self.threads.push(thread::spawn(work));
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        for socket in &self.sockets {
            // The socket may already be closed.
            let _ = socket.shutdown(Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Splices every incoming connection to a port. It ends when this is dropped.
pub(super) struct Front {
    at: SocketAddr,
    cpu_ns: Arc<AtomicU64>,
    open: Arc<Open>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Open {
    ended: AtomicBool,
    sockets: Mutex<Vec<TcpStream>>,
}

impl Open {
    fn keep(&self, socket: &TcpStream) -> io::Result<()> {
        let mut sockets = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        if self.ended.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        sockets.push(socket.try_clone()?);
        Ok(())
    }
}

impl Front {
    pub(super) fn start(to: SocketAddr) -> io::Result<Front> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let at = listener.local_addr()?;
        let (cpu_ns, open) = (Arc::default(), Arc::default());
        let (cpu, kept) = (Arc::clone(&cpu_ns), Arc::clone(&open));
        let accepting = thread::spawn(move || accept(&listener, to, &cpu, &kept));
        Ok(Front {
            at,
            cpu_ns,
            open,
            accepting: Some(accepting),
        })
    }

    /// Returns the address of the proxy.
    pub(super) fn at(&self) -> SocketAddr {
        self.at
    }

    /// Returns the processor time so far.
    pub(super) fn cpu_ns(&self) -> u64 {
        self.cpu_ns.load(Ordering::Relaxed)
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.open.ended.store(true, Ordering::Relaxed);
        let sockets = self.open.sockets.lock();
        for socket in sockets.unwrap_or_else(PoisonError::into_inner).iter() {
            // The socket may already be closed.
            let _ = socket.shutdown(Shutdown::Both);
        }
        // The accepting thread waits for one more connection.
        if TcpStream::connect(self.at).is_ok()
            && let Some(accepting) = self.accepting.take()
        {
            let _ = accepting.join();
        }
    }
}

/// Handles both directions of each connection in a thread of its own.
fn accept(listener: &TcpListener, to: SocketAddr, cpu: &AtomicU64, open: &Open) {
    thread::scope(|scope| {
        while let Ok((near, _)) = listener.accept() {
            if open.ended.load(Ordering::Relaxed) {
                break;
            }
            let far = TcpStream::connect(to).and_then(|far| {
                far.set_nodelay(true)?;
                near.set_nodelay(true)?;
                open.keep(&near)?;
                open.keep(&far)?;
                Ok((near.try_clone()?, far.try_clone()?, far))
            });
            let Ok((back, from_far, far)) = far else {
                continue;
            };
            for (from, to) in [(near, far), (from_far, back)] {
                scope.spawn(move || {
                    let mut spent = 0;
                    let spend = || {
                        let now = sched::thread_cpu().as_nanos();
                        cpu.fetch_add(now - std::mem::replace(&mut spent, now), Ordering::Relaxed);
                    };
                    // The thread ends at the end of its input, or when the proxy ends.
                    let _ = splice(&from, &to, spend);
                    let _ = to.shutdown(Shutdown::Write);
                });
            }
        }
    });
}

fn pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    let (far, _) = listener.accept()?;
    near.set_nodelay(true)?;
    Ok((near, far))
}

fn write(mut to: impl Write) {
    let block = vec![0; BLOCK_BYTES];
    while to.write_all(&block).is_ok() {}
}

fn splice(from: &TcpStream, to: &TcpStream, mut spent: impl FnMut()) -> io::Result<()> {
    let mut pipe = Pipe::new()?;
    while pipe.fill(from)? > 0 {
        pipe.drain(to)?;
        spent();
    }
    Ok(())
}

fn pass(mut from: impl Read, mut to: impl Write, spent: impl Fn()) {
    let mut block = vec![0; BLOCK_BYTES];
    while let Ok(bytes @ 1..) = from.read(&mut block) {
        if to.write_all(&block[..bytes]).is_err() {
            return;
        }
        spent();
    }
}

fn read(mut from: impl Read, arrived: &AtomicU64) {
    let mut block = vec![0; BLOCK_BYTES];
    while let Ok(bytes @ 1..) = from.read(&mut block) {
        arrived.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// Returns TLS 1.3 configurations with a fresh key. The key is checked, but not its owner: both ends are in this
/// process.
fn configurations() -> Result<(Arc<ClientConfig>, Arc<ServerConfig>), Error> {
    let provider = raw_key::provider();
    let mut secret = [0; KEY_BYTES];
    let filled = provider.secure_random.fill(&mut secret);
    filled.map_err(|_| Error::FailedToGetRandomBytes)?;
    let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Verifier::any())
        .with_no_client_auth();
    let bare = raw_key::certified(&secret)?;
    let server = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&version::TLS13])?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(bare)));
    Ok((Arc::new(client), Arc::new(server)))
}
