//! Finding nodes and SIP proxies by a domain name: DNS SRV.
//!
//! ```text
//!   nodes("example.org")     configuration ─▶ _sinew._udp.example.org SRV ─▶ example.org A, AAAA, port 7443
//!   sip("example.org")       configuration ─▶ _sip._udp, _sip._tcp   SRV ─▶ example.org A, AAAA, port 5060
//!   sip("example.org:5070")                              a port was said: example.org A, AAAA
//!   sip("192.0.2.1")                                     an address: itself
//! ```
//!
//! What answers ends the search. [RFC 3263 §4] Servers stand in the order in which they are to be
//! tried ([`order()`], RFC 2782); a target of `.` says that there is no such service, and then nothing
//! else is tried. Answers, also that there is none, are kept as long as they say, an hour at most
//! ([`Cache`]).
//!
//! Questions are answered by one thread with a small runtime of its own, which begins with the
//! first [`Discover`] and ends with its last copy. So the calls here can be made from programs with
//! threads and, by their `_async` forms, from any runtime.
//!
//! The DNS says where, and nothing more: what lets a client in, and by which key a node proves that it
//! is one, stay in configuration ([`Keyring`](crate::remote::Keyring)). [Amir06 §VI]

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

/// How long an answer is waited for, whatever it takes: half of what SIP waits before it sends an
/// INVITE for the fourth time.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// Questions at the same time. A gateway that sets up 50 calls in a second, each to a domain of its
/// own, and waits for all of them as long as it may, has 250.
pub const QUESTIONS_MAX: usize = 256;

/// What is asked, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name server; none takes those of this host (`/etc/resolv.conf`).
    pub server: Option<SocketAddr>,
    /// What is known without asking.
    pub statics: Vec<Static>,
    /// How long an answer is waited for.
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

/// Finds services of domains. Copies are one.
#[derive(Clone, Debug)]
pub struct Discover {
    questions: queue::UnboundedSender<Asked>,
    waiting: Arc<AtomicUsize>,
    patience: Duration,
}

/// What a search has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The servers, in the order in which they are to be tried. Each has an address.
    pub endpoints: Vec<Endpoint>,
    /// For how long this counts from now on.
    pub ttl: Duration,
}

/// A server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// What it serves.
    pub service: Service,
    /// Its host.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The addresses of the host.
    pub addresses: Vec<IpAddr>,
    /// The lower, the earlier.
    pub priority: u16,
    /// Its share among those of the same priority.
    pub weight: u16,
    /// Who has told.
    pub origin: Origin,
}

/// Who has told of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Whoever asked has named it: an address, or a host with a port.
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
    /// What was asked for is no name.
    #[error("`{0}` is not a domain: write it like example.org")]
    Name(String),
    /// A static list is wrong.
    #[error("`{0}` is not DOMAIN=HOST:PORT,HOST:PORT with up to {STATIC_HOSTS_MAX} hosts")]
    Static(String),
    /// The domain says that it does not have this.
    #[error("{0} says by its SRV record that it has no such service")]
    NoService(String),
    /// There is neither a record of the service nor an address.
    #[error(
        "nothing is known of {0}: check the spelling, and that the DNS has an SRV record or an \
         address of it"
    )]
    NotFound(String),
    /// Nobody could say.
    #[error("the DNS does not answer for {domain}: {why}; try again, or name another server")]
    NoAnswer {
        /// What was asked for.
        domain: String,
        /// What went wrong.
        why: String,
    },
    /// It is not known whom to ask.
    #[error("no name server: {0}; see /etc/resolv.conf, or name one")]
    NoNameServer(String),
    /// Too many questions wait.
    #[error("{QUESTIONS_MAX} questions wait for name servers: try again later")]
    Busy,
    /// The thread cannot be started, or has died.
    #[error("discovery does not run: {0}")]
    Thread(String),
}

/// What a search is about.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    Nodes(String),
    Sip(String, Option<Transport>),
}

/// A question and where its answer goes.
struct Asked {
    wanted: Wanted,
    answer: Box<dyn FnOnce(Result<Found, Error>) + Send>,
    _waiting: Waiting,
}

/// One of the questions that wait, until it is dropped.
struct Waiting(Arc<AtomicUsize>);

impl Discover {
    /// Starts the thread. Nobody is asked yet.
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

    /// The gates of the nodes of `domain`, for clients on other hosts.
    pub fn nodes(&self, domain: &str) -> Result<Found, Error> {
        self.wait_for(Wanted::Nodes(domain.to_owned()))
    }

    /// The SIP proxies of `domain`, which may be a host with a port or an address as well. Without a
    /// transport UDP's come before TCP's.
    pub fn sip(&self, domain: &str, transport: Option<Transport>) -> Result<Found, Error> {
        self.wait_for(Wanted::Sip(domain.to_owned(), transport))
    }

    /// As [`Discover::nodes`], for programs with a runtime, whichever.
    pub fn nodes_async(
        &self,
        domain: &str,
    ) -> impl Future<Output = Result<Found, Error>> + Send + use<> {
        self.answer_of(Wanted::Nodes(domain.to_owned()))
    }

    /// As [`Discover::sip`], for programs with a runtime, whichever.
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
        // The thread keeps to its patience; one that does not is in trouble.
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
    /// Where they are, in the order in which they are to be tried.
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
        // Who is one too many leaves again as `waiting` is dropped.
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

/// Answers questions until nobody can ask any more.
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
