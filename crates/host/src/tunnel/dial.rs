//! Dials neighbours by TCP if the engine has no answer by UDP.
//!
//! ```text
//!   wanted ──▶ a target? not dialled already? rested? ──▶ a thread: each endpoint in turn, until one is the node
//!                                                          that was meant ──▶ Offer ──▶ Carrier, to its end
//!   failed, or ended soon: rest 1 s, then twice as long each time, at most 30 s
//! ```

use super::{Carrier, Counts, Offer, read_hello, write_hello};
use crate::command::{Command, Commander};
use crate::log::Lines;
use crate::relay::socket::{Data, Socket};
use crate::relay::tls::{Distrust, Trust};
use base::{NodeAddr, UnderlayAddr};
use net::addr::underlay;
use net::unix::SeqStream;
use secure::{Identity, Network};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use wire::relay::{CONTROL_PREAMBLE_BYTES, Preamble};

/// How long the node waits for a connection, and for each answer. Choice: a lost SYN is repeated after 1 s.
const PATIENCE: Duration = Duration::from_secs(3);
/// The pause after a failure: the first and the longest one.
const REST: Duration = Duration::from_secs(1);
const REST_MAX: Duration = Duration::from_secs(30);
/// A tunnel that has lasted this long does not count as a failure.
const LASTED: Duration = Duration::from_secs(30);
/// Number of remembered nodes: four times the number of a node's direct links, in addition to the configured ones.
const DIALLED_MAX: usize = 32 + overlay::link::MAX_LINKS;
/// The stack may be small, because buffers are on the heap.
const STACK_BYTES: usize = 512 << 10;

/// The endpoints of neighbours: host names or addresses, each with its TCP port.
pub type Targets = BTreeMap<NodeAddr, Vec<String>>;

/// A node for which a tunnel would be useful, and its UDP address.
pub type Wanted = (NodeAddr, SocketAddr);

/// Dials until the loop ends.
#[derive(Debug)]
pub struct Dialler {
    targets: Arc<Mutex<Targets>>,
}

/// The result of dialling a neighbour.
#[derive(Debug, Default)]
struct Dialled {
    is_busy: bool,
    /// The endpoints that were dialled. The result does not apply to other endpoints.
    endpoints: Vec<String>,
    rest: Option<(Instant, Duration)>,
    /// The last problem that was reported.
    told: Option<String>,
}

impl Dialled {
    /// Returns true if it is time to dial these endpoints.
    fn begins(&mut self, now: Instant, endpoints: &[String]) -> bool {
        if self.is_busy {
            return false;
        }
        if self.endpoints != endpoints {
            self.endpoints = endpoints.to_vec();
            self.rest = None;
        }
        self.is_busy = self.rest.is_none_or(|(until, _)| now >= until);
        self.is_busy
    }

    /// Notes that the tunnel has ended, or could not be set up.
    fn on_end(&mut self, now: Instant, has_lasted: bool) {
        self.is_busy = false;
        let rest = match self.rest {
            Some((_, rest)) if !has_lasted => (rest * 2).min(REST_MAX),
            _ => REST,
        };
        self.rest = Some((now + rest, rest));
    }

    /// Returns true if a problem has to be reported, because it differs from the last one. The problems of a direct
    /// link are reported only once: its traffic has another path, and its endpoint changes.
    fn tells(&mut self, failed: &str, is_configured: bool) -> bool {
        let is_known = match is_configured {
            true => self.told.as_deref() == Some(failed),
            false => self.told.is_some(),
        };
        if !is_known {
            self.told = Some(failed.to_owned());
        }
        !is_known
    }

    fn is_remembered(&self) -> bool {
        let rests = |(until, _): (Instant, Duration)| Instant::now() < until + REST_MAX;
        self.is_busy || self.rest.is_some_and(rests)
    }
}

struct Shared {
    trust: Trust,
    targets: Arc<Mutex<Targets>>,
    dialled: Mutex<BTreeMap<NodeAddr, Dialled>>,
    lines: Lines,
}

/// Why a neighbour cannot be reached by TCP.
#[derive(Debug, thiserror::Error)]
enum DialFailed {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Tls(#[from] rustls::Error),
    #[error("{0}")]
    Distrust(#[from] Distrust),
    #[error("it shows no key")]
    NoKey,
}

impl Dialler {
    /// Dials the neighbours that arrive through `wanted` at the endpoints in `targets`. A neighbour without a target is
    /// the far end of a direct link, which is not configured: it is dialled at its UDP port. The node shows the
    /// certificate of `identity`; a renewed one is in the file `certificate`.
    ///
    /// # Errors
    /// Returns an error if no thread can be started, or if TLS does not accept the node's key.
    pub fn start(
        wanted: Receiver<Wanted>,
        targets: Targets,
        (identity, certificate): (Identity, Option<PathBuf>),
        network: Network,
        commander: Commander,
        lines: Lines,
    ) -> io::Result<Dialler> {
        let targets = Arc::new(Mutex::new(targets));
        let trust = Trust::new(identity, certificate, network, commander);
        let shared = Arc::new(Shared {
            trust: trust.map_err(io::Error::other)?,
            targets: Arc::clone(&targets),
            dialled: Mutex::default(),
            lines,
        });
        let work = move || {
            for wanted in wanted {
                shared.consider(wanted);
            }
        };
        let thread = thread::Builder::new().name("tunnels".into());
        thread.spawn(work)?;
        Ok(Dialler { targets })
    }

    /// Sets where neighbours are dialled from now on.
    pub fn set(&self, targets: Targets) {
        *lock(&self.targets) = targets;
    }
}

impl Shared {
    fn consider(self: &Arc<Shared>, (neighbor, at): Wanted) {
        let configured = lock(&self.targets).get(&neighbor).cloned();
        let is_configured = configured.is_some();
        let endpoints = configured.unwrap_or_else(|| vec![at.to_string()]);
        {
            let mut dialled = lock(&self.dialled);
            if !is_configured && dialled.len() >= DIALLED_MAX {
                dialled.retain(|_, dialled| dialled.is_remembered());
                if dialled.len() >= DIALLED_MAX {
                    return;
                }
            }
            let dialled = dialled.entry(neighbor).or_default();
            if !dialled.begins(Instant::now(), &endpoints) {
                return;
            }
        }
        let shared = Arc::clone(self);
        let thread = thread::Builder::new().name("tunnel".into());
        let work = move || {
            let began = Instant::now();
            let failed = shared.dial(neighbor, &endpoints);
            let has_lasted = began.elapsed() >= LASTED;
            shared.rest((neighbor, is_configured), has_lasted, failed);
        };
        if let Err(error) = thread.stack_size(STACK_BYTES).spawn(work) {
            self.rest((neighbor, is_configured), false, Some(error.to_string()));
        }
    }

    /// Dials one endpoint after the other, and carries the tunnel to its end. Returns the problem if there was none.
    fn dial(&self, neighbor: NodeAddr, endpoints: &[String]) -> Option<String> {
        let mut problems = Vec::new();
        for endpoint in endpoints {
            match self.connect(neighbor, endpoint) {
                Ok((data, at)) => {
                    lock(&self.dialled).entry(neighbor).or_default().told = None;
                    // The engine notices the end of the tunnel by its address.
                    let _ = carry(self.trust.commander(), data, (neighbor, at), true);
                    return None;
                }
                Err(why) => problems.push(format!("{endpoint}: {why}")),
            }
        }
        Some(problems.join("; "))
    }

    fn connect(
        &self,
        neighbor: NodeAddr,
        endpoint: &str,
    ) -> Result<(Data, SocketAddr), DialFailed> {
        let mut last = io::Error::from(ErrorKind::AddrNotAvailable);
        for at in endpoint.to_socket_addrs()? {
            match TcpStream::connect_timeout(&at, PATIENCE) {
                Ok(tcp) => return self.greet(neighbor, tcp).map(|data| (data, at)),
                Err(error) => last = error,
            }
        }
        Err(last.into())
    }

    /// Shows this node's certificate, and checks that of the other side.
    fn greet(&self, neighbor: NodeAddr, tcp: TcpStream) -> Result<Data, DialFailed> {
        tcp.set_nodelay(true)?;
        let socket = Socket::Tcp(tcp);
        socket.set_patience(Some(PATIENCE))?;
        let mut data = Data::sealed(socket, self.trust.dialler()?);
        data.shake_hands()?;
        let key = data.peer_key().ok_or(DialFailed::NoKey)?;
        let mut preamble = [0; CONTROL_PREAMBLE_BYTES];
        let written = Preamble::Link.emit(data.version()?, &mut preamble);
        written.map_err(io::Error::other)?;
        data.write_all(&preamble)?;
        write_hello(&mut data, &self.trust.certificate())?;
        let shown = read_hello(&mut data)?;
        match self.trust.judge(&shown, &key)? {
            node if node == neighbor => Ok(data),
            other => Err(Distrust::OtherNode(other).into()),
        }
    }

    /// Notes that the tunnel has ended, or could not be set up.
    fn rest(
        &self,
        (neighbor, is_configured): (NodeAddr, bool),
        has_lasted: bool,
        failed: Option<String>,
    ) {
        let mut all = lock(&self.dialled);
        let dialled = all.entry(neighbor).or_default();
        dialled.on_end(Instant::now(), has_lasted);
        if let Some(failed) = failed
            && dialled.tells(&failed, is_configured)
        {
            let text = format!("{neighbor} has no answer by UDP, and none by TCP: {failed}");
            self.lines.say(&text);
        }
    }
}

/// Offers a connection to the loop, and carries it until it ends.
pub(crate) fn carry(
    commander: &Commander,
    data: Data,
    (peer, at): (NodeAddr, SocketAddr),
    is_dialled: bool,
) -> io::Result<()> {
    let (socket, local) = SeqStream::pair()?;
    let counts = Arc::new(Counts::default());
    let carrier = Carrier::new(data, Arc::clone(&counts))?;
    let offer = Offer {
        peer,
        at: UnderlayAddr {
            local: 0,
            ..underlay(at, UnderlayAddr::STREAM)
        },
        is_dialled,
        socket,
        counts,
    };
    // An overloaded loop does not take it. Then the thread sees that its end of the socket is closed.
    let sent = commander.send(Command::Tunnel(Box::new(offer)));
    sent.map_err(io::Error::other)?;
    carrier.run(&local)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_that_was_not_dialled_yet_has_no_rest() {
        let [first, second] = ["192.0.2.1:7700", "192.0.2.2:7700"].map(|at| [at.to_owned()]);
        let (mut dialled, now) = (Dialled::default(), Instant::now());
        assert!(dialled.begins(now, &first));
        assert!(!dialled.begins(now, &second), "one at a time");
        dialled.on_end(now, false);
        assert!(!dialled.begins(now, &first), "it rests");
        assert!(dialled.begins(now, &second));
        dialled.on_end(now, false);
        assert!(!dialled.begins(now + REST / 2, &second));
        assert!(dialled.begins(now + REST, &second));
        dialled.on_end(now + REST, false);
        assert!(!dialled.begins(now + REST * 2, &second), "twice as long");
        assert!(dialled.begins(now + REST * 3, &second));
    }

    #[test]
    fn a_problem_is_told_once() {
        let mut dialled = Dialled::default();
        let told = ["a", "a", "b"].map(|failed| dialled.tells(failed, true));
        assert_eq!(told, [true, false, true]);
        let mut direct = Dialled::default();
        let told = ["a", "a", "b"].map(|failed| direct.tells(failed, false));
        assert_eq!(told, [true, false, false]);
    }
}
