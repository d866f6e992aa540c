//! Finds nodes and SIP proxies by a domain name: DNS SRV.
//!
//! ```text
//!   nodes("example.org")     configuration ─▶ _sinew._udp.example.org SRV ─▶ example.org A, AAAA, port 7443
//!   sip("example.org")       configuration ─▶ _sip._udp, _sip._tcp   SRV ─▶ example.org A, AAAA, port 5060
//!   sip("example.org:5070")                              a port was said: example.org A, AAAA
//!   sip("192.0.2.1")                                     an address: itself
//! ```
//!
//! The first source with an answer ends the search. [RFC 3263 §4] Servers are listed in the order in which they are to
//! be tried ([`order()`], RFC 2782). A target of `.` means that there is no such service, and then nothing else is
//! tried. Answers, including negative ones, are kept as long as their TTL says, at most an hour ([`Cache`]).
//!
//! One thread with a small runtime of its own answers questions. It begins with the first [`Discover`] and ends with
//! its last copy. Therefore, the calls here work in programs with threads and, by their `_async` forms, in any runtime.
//!
//! The DNS only says where the servers are. The credentials that let a client in, and the keys by which nodes prove
//! their identity, are configured ([`Keyring`](crate::remote::Keyring)). [Amir06 §VI]

mod answers;
mod cache;
mod name;
mod order;
mod resolver;
mod search;

pub use answers::{ADDRESSES_MAX, RECORDS_MAX};
pub use cache::{Cache, TTL_MAX, TTL_MIN};
pub use name::{STATIC_HOSTS_MAX, Service, Static, Transport};
pub use order::{Srv, order};

use core::future::Future;
use search::Search;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tokio::sync::{mpsc as queue, oneshot};

/// How long to wait for an answer in total: half of the time after which SIP sends an INVITE for the fourth time.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// Largest number of questions at the same time. A gateway that sets up 50 calls per second, each to a domain of its
/// own, and waits for all of them as long as possible, has 250.
pub const QUESTIONS_MAX: usize = 256;

/// The parameters of searches.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name server; if none is given, those of this host are used (`/etc/resolv.conf`).
    pub server: Option<SocketAddr>,
    /// Configured servers, for which the DNS is not asked.
    pub statics: Vec<Static>,
    /// How long to wait for an answer.
    pub patience: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            server: None,
            statics: Vec::new(),
            patience: PATIENCE,
        }
    }
}

/// Finds services of domains. Copies share one thread.
#[derive(Clone, Debug)]
pub struct Discover {
    questions: queue::UnboundedSender<Asked>,
    waiting: Arc<AtomicUsize>,
    patience: Duration,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The servers, in the order in which they are to be tried. Each has an address.
    pub endpoints: Vec<Endpoint>,
    /// For how long the result is valid from now on.
    pub ttl: Duration,
}

/// A server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The service that it offers.
    pub service: Service,
    /// Its host.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The addresses of the host.
    pub addresses: Vec<IpAddr>,
    /// Its priority: servers with lower numbers come first.
    pub priority: u16,
    /// Its share among the servers of the same priority.
    pub weight: u16,
    /// The source of the information.
    pub origin: Origin,
}

/// The source of the information about a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The caller has named it: an address, or a host with a port.
    Asked,
    /// The configuration.
    Static,
    /// An SRV record.
    Srv,
    /// The domain itself is a host, and has no SRV record.
    Address,
}

/// Why nothing was found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The requested name is no domain.
    #[error("`{0}` is not a domain: write it like example.org")]
    Name(String),
    /// A static list is wrong.
    #[error("`{0}` is not DOMAIN=HOST:PORT,HOST:PORT with up to {STATIC_HOSTS_MAX} hosts")]
    Static(String),
    /// The domain declares that it does not have this service.
    #[error("{0} says by its SRV record that it has no such service")]
    NoService(String),
    /// There is neither an SRV record of the service nor an address.
    #[error(
        "nothing is known of {0}: check the spelling, and that the DNS has an SRV record or an \
         address of it"
    )]
    NotFound(String),
    /// No name server could answer.
    #[error("the DNS does not answer for {domain}: {why}; try again, or name another server")]
    NoAnswer {
        /// The requested domain.
        domain: String,
        /// The reason.
        why: String,
    },
    /// No name server is known.
    #[error("no name server: {0}; see /etc/resolv.conf, or name one")]
    NoNameServer(String),
    /// Too many questions wait.
    #[error("{QUESTIONS_MAX} questions wait for name servers: try again later")]
    Busy,
    /// The thread cannot be started, or has ended with a panic.
    #[error("discovery does not run: {0}")]
    Thread(String),
}

/// The subject of a search.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    Nodes(String),
    Sip(String, Option<Transport>),
}

/// A question, and the function that gets its answer.
struct Asked {
    wanted: Wanted,
    answer: Box<dyn FnOnce(Result<Found, Error>) + Send>,
    _waiting: Waiting,
}

/// Counts as one of the questions that wait, until it is dropped.
struct Waiting(Arc<AtomicUsize>);

impl Discover {
    /// Starts the thread. It does not ask anything yet.
    pub fn new(settings: Settings) -> Result<Discover, Error> {
        let (questions, asked) = queue::unbounded_channel();
        let patience = settings.patience;
        let failed = |error: std::io::Error| Error::Thread(error.to_string());
        let seed = net::sched::entropy().map_err(failed)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(failed)?;
        let search = Arc::new(Search::new(settings, seed));
        let run = move || runtime.block_on(serve(search, asked));
        let thread = std::thread::Builder::new().name("sinew-dns".into());
        thread.spawn(run).map_err(failed)?;
        Ok(Discover {
            questions,
            waiting: Arc::default(),
            patience,
        })
    }

    /// Finds the gates of the nodes of `domain`, for clients on other hosts.
    pub fn nodes(&self, domain: &str) -> Result<Found, Error> {
        self.wait_for(Wanted::Nodes(domain.to_owned()))
    }

    /// Finds the SIP proxies of `domain`, which may also be a host with a port or an address. Without a transport,
    /// those for UDP come before those for TCP.
    pub fn sip(&self, domain: &str, transport: Option<Transport>) -> Result<Found, Error> {
        self.wait_for(Wanted::Sip(domain.to_owned(), transport))
    }

    /// Does the same as [`Discover::nodes`], for programs with any runtime.
    pub fn nodes_async(
        &self,
        domain: &str,
    ) -> impl Future<Output = Result<Found, Error>> + Send + use<> {
        self.answer_of(Wanted::Nodes(domain.to_owned()))
    }

    /// Does the same as [`Discover::sip`], for programs with any runtime.
    pub fn sip_async(
        &self,
        domain: &str,
        transport: Option<Transport>,
    ) -> impl Future<Output = Result<Found, Error>> + Send + use<> {
        self.answer_of(Wanted::Sip(domain.to_owned(), transport))
    }

    fn wait_for(&self, wanted: Wanted) -> Result<Found, Error> {
        let (told, answer) = mpsc::sync_channel(1);
        let domain = wanted.domain().to_owned();
        self.ask(wanted, move |found| {
            let _ = told.send(found);
        })?;
        // The thread keeps its own time limit. If it does not, it has a problem.
        match answer.recv_timeout(2 * self.patience) {
            Ok(found) => found,
            Err(_) => Err(silent(domain)),
        }
    }

    fn answer_of(
        &self,
        wanted: Wanted,
    ) -> impl Future<Output = Result<Found, Error>> + Send + use<> {
        let (told, answer) = oneshot::channel();
        let domain = wanted.domain().to_owned();
        let asked = self.ask(wanted, move |found| {
            let _ = told.send(found);
        });
        async move {
            asked?;
            answer.await.unwrap_or_else(|_| Err(silent(domain)))
        }
    }

    fn ask(
        &self,
        wanted: Wanted,
        answer: impl FnOnce(Result<Found, Error>) + Send + 'static,
    ) -> Result<(), Error> {
        let waiting = Waiting::enter(&self.waiting).ok_or(Error::Busy)?;
        let asked = Asked {
            wanted,
            answer: Box::new(answer),
            _waiting: waiting,
        };
        let sent = self.questions.send(asked);
        sent.map_err(|_| Error::Thread("its thread has ended".into()))
    }
}

impl Found {
    /// Returns the addresses, in the order in which they are to be tried.
    pub fn addresses(&self) -> impl Iterator<Item = (Service, SocketAddr)> + '_ {
        self.endpoints.iter().flat_map(|endpoint| {
            let at = endpoint.addresses.iter();
            at.map(|ip| (endpoint.service, SocketAddr::new(*ip, endpoint.port)))
        })
    }
}

impl Wanted {
    fn domain(&self) -> &str {
        match self {
            Wanted::Nodes(domain) | Wanted::Sip(domain, _) => domain,
        }
    }
}

impl Waiting {
    fn enter(count: &Arc<AtomicUsize>) -> Option<Waiting> {
        let waiting = Waiting(Arc::clone(count));
        // If there are too many, this one is removed again when `waiting` is dropped.
        (count.fetch_add(1, Ordering::Relaxed) < QUESTIONS_MAX).then_some(waiting)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn silent(domain: String) -> Error {
    Error::NoAnswer {
        domain,
        why: "no answer in time".into(),
    }
}

/// Answers questions until nobody can ask any longer.
async fn serve(search: Arc<Search>, mut asked: queue::UnboundedReceiver<Asked>) {
    while let Some(asked) = asked.recv().await {
        let search = Arc::clone(&search);
        tokio::spawn(async move {
            let domain = asked.wanted.domain().to_owned();
            let found = tokio::time::timeout(search.patience(), search.run(&asked.wanted));
            (asked.answer)(found.await.unwrap_or_else(|_| Err(silent(domain))));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_bounded_and_answered_ones_make_room() {
        let count = Arc::default();
        let mut waiting: Vec<Waiting> = Vec::new();
        for _ in 0..QUESTIONS_MAX {
            waiting.extend(Waiting::enter(&count));
        }
        assert_eq!(waiting.len(), QUESTIONS_MAX);
        assert!(Waiting::enter(&count).is_none());
        waiting.pop();
        assert!(Waiting::enter(&count).is_some());
    }
}
