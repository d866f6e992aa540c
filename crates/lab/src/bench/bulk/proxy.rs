//! Bare proxies, as lean as can be: one between a writer and a reader of its own, and one in front of a
//! node's port, for a copy.

use net::sched;
use net::splice::Pipe;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{
    CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::sign::CertifiedKey;
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, ServerConfig, ServerConnection,
    SignatureScheme, StreamOwned, version,
};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// What is written and read at once.
const BLOCK_BYTES: usize = 256 * 1024;

/// Writer, proxy and reader. They end when this is dropped.
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
                // It ends when a socket is shut down.
                let _ = splice(&from, &to, spent);
            });
            proxy.spawn(move || read(reader, &arrived));
        }
        Ok(proxy)
    }

    /// Bytes that have arrived.
    pub(super) fn arrived(&self) -> u64 {
        self.arrived.load(Ordering::Relaxed)
    }

    /// Processor time of the proxy.
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
            // One that is closed already is no matter.
            let _ = socket.shutdown(Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Splices whatever connects on to a port. It ends when this is dropped.
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

    /// Where it is reached.
    pub(super) fn at(&self) -> SocketAddr {
        self.at
    }

    /// Processor time so far.
    pub(super) fn cpu_ns(&self) -> u64 {
        self.cpu_ns.load(Ordering::Relaxed)
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.open.ended.store(true, Ordering::Relaxed);
        let sockets = self.open.sockets.lock();
        for socket in sockets.unwrap_or_else(PoisonError::into_inner).iter() {
            // One that is closed already is no matter.
            let _ = socket.shutdown(Shutdown::Both);
        }
        // It waits for one more.
        if TcpStream::connect(self.at).is_ok()
            && let Some(accepting) = self.accepting.take()
        {
            let _ = accepting.join();
        }
    }
}

/// Both directions of each connection in a thread of its own.
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
                    // It ends with either connection.
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

/// PKCS #8 of an Ed25519 key, before the key. [RFC 8410 §7]
const SECRET_PREFIX: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

/// TLS 1.3 with a key of its own, which is checked, but not whose it is: both ends are here.
fn configurations() -> Result<(Arc<ClientConfig>, Arc<ServerConfig>), Error> {
    let provider = Arc::new(ring::default_provider());
    let mut seed = [0; 32];
    let filled = provider.secure_random.fill(&mut seed);
    filled.map_err(|_| Error::FailedToGetRandomBytes)?;
    let secret = PrivatePkcs8KeyDer::from([&SECRET_PREFIX[..], &seed].concat());
    let signing = ring::sign::any_eddsa_type(&secret)?;
    let public = signing.public_key();
    let public = public.ok_or_else(|| Error::General("a key without its public half".into()))?;
    let bare = CertificateDer::from(public.as_ref().to_vec());
    let bare = Arc::new(CertifiedKey::new(vec![bare], signing));
    let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody(Arc::clone(&provider))))
        .with_no_client_auth();
    let server = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&version::TLS13])?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(bare)));
    Ok((Arc::new(client), Arc::new(server)))
}

#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2 is not spoken here".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(shown.as_ref());
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature_with_raw_key(message, &key, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.0.signature_verification_algorithms;
        algorithms.supported_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
