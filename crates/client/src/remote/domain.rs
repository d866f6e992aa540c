//! A node that is found by a domain: whichever of the domain's nodes answers.
//!
//! ```text
//!   open ─▶ the gate that was last good ─ fails ─▶ discover::nodes(domain) ─▶ gates in their order
//!                       ▲                                                         │ the first that answers
//!                       └─────────────────────────────────────────────────────────┘
//! ```
//!
//! All sockets of a program use the same node as long as it answers, because ports and addresses belong to a node.

use super::keyring::{BadKeyring, Keyring};
use super::{ChannelError, GREETING_TIMEOUT, Remote, WayReport, tls};
use crate::discover::{Discover, Found, Settings, Static};
use crate::{Error, Node};
use core::time::Duration;
use net::unix::SeqStream;
use rustls::ClientConfig;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// The prefix of a domain, where a node may be named in several ways.
const SCHEME: &str = "dns:";
/// How long one gate is tried as long as there are others. Choice: a round trip to the other side of the world and
/// three lost packets of TCP's beginning take less.
const ATTEMPT: Duration = Duration::from_secs(3);
/// Number of domains that are remembered for the life of the process. A program has one, or a few.
const SHARED_MAX: usize = 64;

/// The nodes of a domain, of which one is used.
#[derive(Debug)]
pub struct Domain {
    name: String,
    discover: Discover,
    keyring: Keyring,
    tls: Arc<ClientConfig>,
    /// The gate that last answered.
    chosen: Mutex<Option<Arc<Remote>>>,
}

/// A text of the form `dns:DOMAIN?keys=FILE&server=ADDRESS:PORT&static=HOST:PORT,HOST:PORT`. Everything behind the
/// domain is optional.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named<'a> {
    domain: &'a str,
    keys: Option<&'a Path>,
    server: Option<SocketAddr>,
    known: Option<Static>,
}

impl Domain {
    pub(crate) fn new(name: &str, discover: &Discover, keyring: Keyring) -> Result<Domain, Error> {
        let tls = tls::client(keyring.keys()).map_err(|error| Error::Gate {
            endpoint: name.to_owned(),
            error: error.into(),
        })?;
        Ok(Domain {
            name: name.to_owned(),
            discover: discover.clone(),
            keyring,
            tls,
            chosen: Mutex::default(),
        })
    }

    /// Connects to a node of the domain.
    pub(crate) fn open(&self, until: Instant) -> Result<SeqStream, Error> {
        // If another thread is choosing a gate, this one waits for its choice.
        let mut chosen = self.chosen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(remote) = chosen.clone() {
            // Release the lock, so that other threads can use the gate that has answered so far while this one
            // connects.
            drop(chosen);
            if let Ok(stream) = remote.open(until.min(Instant::now() + ATTEMPT)) {
                return Ok(stream);
            }
            chosen = self.chosen.lock().unwrap_or_else(PoisonError::into_inner);
            if chosen.as_ref().is_some_and(|now| Arc::ptr_eq(now, &remote)) {
                *chosen = None;
            }
        }
        if let Some(remote) = &*chosen {
            return remote
                .open(until)
                .map_err(|error| self.failed(remote, error));
        }
        let Found { endpoints, .. } = self.discover.nodes(&self.name).map_err(Error::Discover)?;
        let mut last = Error::Discover(crate::discover::Error::NotFound(self.name.clone()));
        let count = endpoints.len();
        for (i, endpoint) in endpoints.into_iter().enumerate() {
            let (host, port) = (endpoint.host, endpoint.port);
            let at = endpoint.addresses.into_iter();
            let remote = Arc::new(Remote::at(
                format!("{host}:{port}"),
                at.map(|ip| SocketAddr::new(ip, port)).collect(),
                self.keyring.clone(),
                Arc::clone(&self.tls),
            ));
            let now = Instant::now();
            let attempt = match i + 1 == count {
                true => GREETING_TIMEOUT,
                false => ATTEMPT,
            };
            match remote.open(until.min(now + attempt)) {
                Ok(stream) => {
                    *chosen = Some(remote);
                    return Ok(stream);
                }
                Err(error) => last = self.failed(&remote, error),
            }
            if now >= until {
                break;
            }
        }
        Err(last)
    }

    /// Returns the reports of how the datagrams of sockets at the gate in use travel.
    pub(crate) fn ways(&self) -> Vec<WayReport> {
        let chosen = self.chosen.lock().unwrap_or_else(PoisonError::into_inner);
        let remote = chosen.as_ref();
        remote.map_or_else(Vec::new, |remote| remote.ways().reports())
    }

    fn failed(&self, remote: &Remote, error: ChannelError) -> Error {
        Error::Gate {
            endpoint: format!("{} (found by {SCHEME}{})", remote.endpoint(), self.name),
            error,
        }
    }
}

impl<'a> Named<'a> {
    /// Parses `text`, if it has this form.
    pub(crate) fn parse(text: &'a str) -> Option<Result<Named<'a>, Error>> {
        let rest = text.strip_prefix(SCHEME)?;
        let (domain, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut named = Named {
            domain,
            keys: None,
            server: None,
            known: None,
        };
        for part in query.split('&').filter(|part| !part.is_empty()) {
            let good = match part.split_once('=') {
                Some(("keys", path)) => {
                    named.keys = Some(Path::new(path));
                    true
                }
                Some(("server", at)) => {
                    named.server = at.parse().ok();
                    named.server.is_some()
                }
                Some(("static", hosts)) => {
                    named.known = format!("{domain}={hosts}").parse().ok();
                    named.known.is_some()
                }
                _ => false,
            };
            if !good {
                return Some(Err(Error::NotFound(format!(
                    "`{part}` is not understood: write {SCHEME}DOMAIN, with ?keys=FILE, \
                     &server=ADDRESS:PORT, &static=HOST:PORT behind it where needed"
                ))));
            }
        }
        Some(Ok(named))
    }

    fn node(&self) -> Result<Node, Error> {
        let keyring = match self.keys {
            Some(path) => Keyring::load(path),
            None => Keyring::of_user(),
        };
        let keyring = keyring.map_err(|error: BadKeyring| Error::NotFound(error.to_string()))?;
        let settings = Settings {
            server: self.server,
            statics: self.known.iter().cloned().collect(),
            ..Settings::default()
        };
        let discover = Discover::new(settings).map_err(Error::Discover)?;
        Node::discover_with(&discover, self.domain, keyring)
    }
}

/// Returns the node that `text` names, the same one for the whole process. The first caller waits only for reading the
/// keyring's file.
pub(crate) fn shared(text: &str, named: &Named<'_>) -> Result<Node, Error> {
    /// The process id is part of the key, because a child of fork has none of its parent's threads.
    static SHARED: Mutex<BTreeMap<(u32, String), Node>> = Mutex::new(BTreeMap::new());
    let key = (std::process::id(), text.to_owned());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(node) = shared.get(&key) {
        return Ok(node.clone());
    }
    let node = named.node()?;
    if shared.len() >= SHARED_MAX {
        shared.clear();
    }
    shared.insert(key, node.clone());
    Ok(node)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_are_named_with_what_belongs_to_them() {
        let text = "dns:example.org?keys=/k&server=127.0.0.1:53&static=a.example.net:1,b";
        let named = Named::parse(text).unwrap().unwrap();
        assert_eq!(named.domain, "example.org");
        assert_eq!(named.keys, Some(Path::new("/k")));
        assert_eq!(named.server, Some("127.0.0.1:53".parse().unwrap()));
        assert!(named.known.is_some());
        assert!(Named::parse("net/ams").is_none());
        assert_eq!(Named::parse("dns:a").unwrap().unwrap().domain, "a");
        for bad in ["dns:a?x", "dns:a?x=1", "dns:a?server=b", "dns:a?static=,"] {
            let error = Named::parse(bad).unwrap().unwrap_err().to_string();
            assert!(error.contains("dns:DOMAIN"), "{error}");
        }
        let missing = Named::parse("dns:a?keys=/nonexistent/keys")
            .unwrap()
            .unwrap();
        let error = shared("x", &missing).unwrap_err().to_string();
        assert!(error.contains("/nonexistent/keys"), "{error}");
    }
}
