//! Finds the next hop of a request.
//!
//! ```text
//!   Route, or Request-URI
//!     a domain of this site (--local)        ──> its proxy or phone
//!     a domain that nodes' certificates name ──> their gateways, the nearest first   ┐ tried in
//!     a domain beyond (--direct, DNS SRV)    ──> its proxy, by the Internet          ┘ this order
//!     10.7.0.2.sinew                         ──> that node's gateway
//!     an address                             ──> it
//! ```
//! From the overlay only this site is reached: a gateway is not a relay to the sites of others. Within a call, requests
//! from the overlay reach only what the call's end at this site has named, or the operator has named: a member of the
//! network is not a host of this site. Only the operator can permit destinations on this host, on its link or with
//! another special address.

use super::hop::{Face, Hop, Names, overlay_node};
use super::message;
use crate::allow::Allowed;
use crate::domains::Domains;
use crate::special::{self, Kind};
use core::future::Future;
use core::net::{IpAddr, SocketAddr};
use core::pin::Pin;
use rsipstack::sip::{Host, Transport, Uri};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Finds a domain's SIP servers by DNS, in the order in which they are tried.
pub type Lookup = Arc<
    dyn Fn(String, Option<u16>, Transport) -> Pin<Box<dyn Future<Output = Vec<SocketAddr>> + Send>>
        + Send
        + Sync,
>;

/// A domain and its server: `example.org=10.1.0.5:5060`, with `;transport=tcp` for TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// The domain, in lower case.
    pub domain: String,
    host: String,
    port: Option<u16>,
    transport: Transport,
}

/// The text is not a [`Server`].
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not DOMAIN=HOST[:PORT][;transport=tcp], like example.org=10.1.0.5:5060")]
pub struct BadServer(String);

impl core::str::FromStr for Server {
    type Err = BadServer;

    fn from_str(text: &str) -> Result<Server, BadServer> {
        let bad = || BadServer(text.to_owned());
        let (domain, server) = text.split_once('=').ok_or_else(bad)?;
        let uri = Uri::try_from(format!("sip:{server}").as_str()).map_err(|_| bad())?;
        if domain.is_empty() || server.is_empty() || uri.auth.is_some() {
            return Err(bad());
        }
        Ok(Server {
            domain: domain.trim_end_matches('.').to_ascii_lowercase(),
            host: uri.host().to_string(),
            port: uri.host_with_port.port.map(u16::from),
            transport: message::transport_of(&uri),
        })
    }
}

impl Server {
    /// Returns its address, if it is not written as a name.
    fn ip(&self) -> Option<IpAddr> {
        self.host.trim_matches(['[', ']']).parse().ok()
    }
}

/// The reason why a request has no next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Nowhere {
    #[error("no proxy is known for this domain: name one by --local or --direct, or in DNS")]
    Unknown,
    #[error("this gateway does not serve the domain")]
    NotServed,
    #[error("it would come back to this gateway")]
    Loop,
    #[error("this host, its link or no host at all: name it by --reach if it is meant")]
    Special,
}

impl Nowhere {
    pub(crate) fn status(self) -> u16 {
        match self {
            Nowhere::Unknown => 404,
            Nowhere::NotServed | Nowhere::Special => 403,
            Nowhere::Loop => 482,
        }
    }
}

/// The data from which next hops are found.
pub(crate) struct Routes {
    pub(crate) names: Names,
    pub(crate) local: Vec<Server>,
    pub(crate) direct: Vec<Server>,
    /// Destinations that are permitted although their address is special. Within a call, requests from the overlay may
    /// lead to them as well.
    pub(crate) reach: Allowed,
    pub(crate) domains: Arc<dyn Domains>,
    pub(crate) lookup: Lookup,
    /// The addresses of the servers that are written as names, by the last answers.
    pub(crate) found: Mutex<BTreeMap<String, Vec<IpAddr>>>,
}

impl Routes {
    /// Returns the next hops for a request outside a dialog, in the order in which they are tried.
    pub(crate) async fn initial(&self, from: Face, uri: &Uri) -> Result<Vec<Hop>, Nowhere> {
        let host = uri.host();
        let hops = match (host, overlay_node(host)) {
            (_, Some(node)) if from == Face::Access => vec![Hop::overlay(node)],
            (_, Some(_)) => return Err(Nowhere::NotServed),
            (Host::Domain(domain), _) => self.domain(from, &domain.0, uri).await?,
            (Host::IpAddr(_), _) if from == Face::Access => self.address(uri)?,
            (Host::IpAddr(_), _) => return Err(Nowhere::NotServed),
        };
        let count = hops.len();
        let others = hops.into_iter().filter(|hop| !self.is_own(hop));
        match others.collect::<Vec<_>>() {
            hops if !hops.is_empty() => Ok(hops),
            _ if count > 0 => Err(Nowhere::Loop),
            _ => Err(Nowhere::Unknown),
        }
    }

    /// Returns the next hop for a request within a dialog: the host of its topmost Route, or its target.
    pub(crate) async fn within(&self, uri: &Uri) -> Result<Hop, Nowhere> {
        let host = uri.host();
        let hops = match (host, overlay_node(host)) {
            (_, Some(node)) => vec![Hop::overlay(node)],
            (Host::IpAddr(_), _) => self.address(uri)?,
            (Host::Domain(domain), _) => match Self::of(&self.local, &domain.0) {
                Some(server) => self.server(server).await,
                None => self.resolve(&domain.0, uri).await?,
            },
        };
        let hop = hops.into_iter().next().ok_or(Nowhere::Unknown)?;
        match self.is_own(&hop) {
            true => Err(Nowhere::Loop),
            false => Ok(hop),
        }
    }

    /// Returns whether the operator has named the host of a URI as one of this site.
    pub(crate) fn is_of_site(&self, uri: &Uri) -> bool {
        match uri.host() {
            Host::Domain(domain) => Self::of(&self.local, &domain.0).is_some(),
            Host::IpAddr(ip) => {
                let at = at(*ip, uri);
                let is_it = |server: &Server| {
                    server.ip() == Some(at.ip()) && port(server.port, server.transport) == at.port()
                };
                self.local.iter().any(is_it) || self.reach.admits(at.ip(), at.port())
            }
        }
    }

    /// Returns whether the URI is this gateway under a name of the Internet.
    pub(crate) async fn is_own_name(&self, uri: &Uri) -> bool {
        let Host::Domain(name) = uri.host() else {
            return false;
        };
        if overlay_node(uri.host()).is_some() {
            return false;
        }
        let hops = self.look_up(&name.0, uri).await;
        hops.iter().any(|hop| self.is_own(hop))
    }

    async fn domain(&self, from: Face, domain: &str, uri: &Uri) -> Result<Vec<Hop>, Nowhere> {
        if let Some(server) = Self::of(&self.local, domain) {
            return Ok(self.server(server).await);
        }
        let serving = self.domains.serving(domain);
        let is_ours = serving
            .iter()
            .any(|serving| serving.node == self.names.node);
        if is_ours || from == Face::Overlay {
            return match is_ours {
                true => self.resolve(domain, uri).await,
                false => Err(Nowhere::NotServed),
            };
        }
        let mut hops: Vec<Hop> = serving
            .into_iter()
            .map(|serving| Hop::overlay(serving.node))
            .collect();
        let direct = match Self::of(&self.direct, domain) {
            Some(server) => self.server(server).await,
            // Choice: names are resolved only if no node serves the domain, so that a slow name server does not delay a
            // call.
            None if hops.is_empty() => self.resolve(domain, uri).await?,
            None => Vec::new(),
        };
        hops.extend(direct.into_iter().map(|hop| Hop {
            is_abroad: true,
            ..hop
        }));
        Ok(hops)
    }

    /// Returns the entry with the longest domain that equals `domain` or contains it.
    fn of<'s>(servers: &'s [Server], domain: &str) -> Option<&'s Server> {
        let domain = domain.trim_end_matches('.').to_ascii_lowercase();
        let is_in = |server: &&Server| {
            let rest = domain.strip_suffix(server.domain.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        let fitting = servers.iter().filter(is_in);
        fitting.max_by_key(|server| server.domain.len())
    }

    /// Returns whether an address is that of a server that the operator has named.
    pub(crate) fn is_server(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let mut servers = self.local.iter().chain(&self.direct);
        servers.any(|server| match server.ip() {
            Some(at) => at.to_canonical() == ip,
            None => found.get(&server.host).is_some_and(|at| at.contains(&ip)),
        })
    }

    /// Looks up the servers that have names, so that [`Routes::is_server`] knows them.
    pub(crate) async fn find_servers(&self) {
        let servers = self.local.iter().chain(&self.direct);
        for server in servers.filter(|server| server.ip().is_none()) {
            self.server(server).await;
        }
    }

    async fn server(&self, server: &Server) -> Vec<Hop> {
        let transport = server.transport;
        let at = match server.ip() {
            Some(ip) => vec![SocketAddr::new(ip, port(server.port, transport))],
            None => {
                let at = (self.lookup)(server.host.clone(), server.port, transport).await;
                // If the name server fails for a moment, the previous addresses stay.
                if !at.is_empty() {
                    let ips = at.iter().map(|at| at.ip().to_canonical()).collect();
                    let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
                    found.insert(server.host.clone(), ips);
                }
                at
            }
        };
        at.into_iter()
            .map(|at| Hop::access(at, transport))
            .collect()
    }

    /// Resolves a name for which the operator has not given a server.
    async fn resolve(&self, domain: &str, uri: &Uri) -> Result<Vec<Hop>, Nowhere> {
        let found = self.look_up(domain, uri).await;
        let was_found = !found.is_empty();
        let may = found.into_iter().filter(|hop| self.may_reach(hop.at));
        match may.collect::<Vec<_>>() {
            hops if hops.is_empty() && was_found => Err(Nowhere::Special),
            hops => Ok(hops),
        }
    }

    async fn look_up(&self, domain: &str, uri: &Uri) -> Vec<Hop> {
        let transport = message::transport_of(uri);
        let port = uri.host_with_port.port.map(u16::from);
        let at = (self.lookup)(domain.to_owned(), port, transport).await;
        at.into_iter()
            .map(|at| Hop::access(at, transport))
            .collect()
    }

    fn address(&self, uri: &Uri) -> Result<Vec<Hop>, Nowhere> {
        let Host::IpAddr(ip) = uri.host() else {
            return Ok(Vec::new());
        };
        let at = at(*ip, uri);
        match self.may_reach(at) {
            true => Ok(vec![Hop::access(at, message::transport_of(uri))]),
            false => Err(Nowhere::Special),
        }
    }

    /// Returns whether requests may go to a host that somebody other than the operator has named.
    fn may_reach(&self, at: SocketAddr) -> bool {
        let Some(range) = special::range(at.ip()) else {
            return true;
        };
        match range.kind {
            // Phones have such addresses.
            Kind::Private | Kind::Shared => true,
            // A gateway on loopback serves only programs of its own host, which reach these addresses anyway.
            Kind::Loopback if self.names.bound.is_loopback() => true,
            _ => self.reach.admits(at.ip(), at.port()),
        }
    }

    fn is_own(&self, hop: &Hop) -> bool {
        match hop.node() {
            Some(node) => node == self.names.node,
            None => {
                let host: rsipstack::sip::HostWithPort = hop.at.into();
                self.names.is_own(&host.into())
            }
        }
    }
}

/// Returns the address in a URI.
pub(crate) fn at(ip: IpAddr, uri: &Uri) -> SocketAddr {
    let given = uri.host_with_port.port.map(u16::from);
    SocketAddr::new(ip, port(given, message::transport_of(uri)))
}

fn port(given: Option<u16>, transport: Transport) -> u16 {
    given.unwrap_or_else(|| transport.default_port().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domains::Table;
    use base::NodeAddr;

    fn routes(bound: &str, reach: &[&str]) -> Routes {
        Routes {
            names: Names {
                node: NodeAddr(0x0a07_0001),
                port: 5060,
                bound: bound.parse().unwrap(),
                public: None,
            },
            local: vec!["example.org=10.1.0.5:5070".parse().unwrap()],
            direct: Vec::new(),
            reach: Allowed::new(reach.iter().map(|rule| rule.parse().unwrap()).collect()),
            domains: Arc::new(Table::new([])),
            lookup: Arc::new(|_, _, _| Box::pin(async { Vec::new() })),
            found: Mutex::default(),
        }
    }

    #[tokio::test]
    async fn servers_are_known_by_their_addresses_and_by_what_their_names_say() {
        let mut routes = routes("192.0.2.1", &[]);
        routes.direct = vec!["example.net=pbx.example.net".parse().unwrap()];
        let at = SocketAddr::from(([10, 1, 0, 6], 5060));
        routes.lookup = Arc::new(move |name, _, _| {
            let found = (name == "pbx.example.net").then_some(at);
            Box::pin(async move { found.into_iter().collect() })
        });
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        assert!(routes.is_server(ip("10.1.0.5")) && routes.is_server(ip("::ffff:10.1.0.5")));
        assert!(!routes.is_server(at.ip()), "nobody has asked yet");
        routes.find_servers().await;
        assert!(routes.is_server(at.ip()) && !routes.is_server(ip("10.1.0.7")));
    }

    #[test]
    fn nobody_leads_to_this_host_or_its_link_but_the_operator() {
        let (open, listed) = (
            routes("192.0.2.1", &[]),
            routes("192.0.2.1", &["169.254.7.0/24:*"]),
        );
        let inside = routes("127.0.0.1", &[]);
        for (uri, [of_open, of_listed, of_inside]) in [
            ("sip:a@10.1.0.9", [true; 3]),
            ("sip:a@198.51.100.9", [true; 3]),
            ("sip:a@127.0.0.1:22;transport=tcp", [false, false, true]),
            ("sip:a@0.0.0.0:22;transport=tcp", [false; 3]),
            ("sip:a@169.254.169.254:80;transport=tcp", [false; 3]),
            ("sip:a@169.254.7.9", [false, true, false]),
            ("sip:a@[::1]:22", [false, false, true]),
            ("sip:a@[::ffff:127.0.0.1]:22", [false, false, true]),
            ("sip:a@[fe80::1]", [false; 3]),
        ] {
            let uri: Uri = uri.try_into().unwrap();
            for (routes, may) in [(&open, of_open), (&listed, of_listed), (&inside, of_inside)] {
                let found = routes.address(&uri);
                assert_eq!(found.is_ok(), may, "{uri} at {}", routes.names.bound);
            }
        }
    }

    #[test]
    fn the_operator_names_hosts_of_the_site() {
        let routes = routes("192.0.2.1", &["10.2.0.0/16:5080"]);
        for (uri, is_of_site) in [
            ("sip:a@phones.example.org", true),
            ("sip:a@10.1.0.5:5070", true),
            ("sip:a@10.1.0.5:22", false),
            ("sip:a@10.2.0.1:5080", true),
            ("sip:a@10.2.0.1:22", false),
            ("sip:a@elsewhere.example", false),
        ] {
            assert_eq!(
                routes.is_of_site(&uri.try_into().unwrap()),
                is_of_site,
                "{uri}"
            );
        }
    }

    #[test]
    fn servers_are_written_so() {
        let server: Server = "Example.org=10.1.0.5:5070;transport=tcp".parse().unwrap();
        assert_eq!(server.domain, "example.org");
        assert_eq!(
            (server.port, server.transport),
            (Some(5070), Transport::Tcp)
        );
        for bad in ["", "=", "example.org", "example.org=", "=10.1.0.5"] {
            assert!(bad.parse::<Server>().is_err(), "{bad}");
        }
        let servers =
            ["example.org=10.0.0.1", "sip.example.org=10.0.0.2"].map(|s| s.parse().unwrap());
        let of = |domain| Routes::of(&servers, domain).map(|server: &Server| server.host.as_str());
        assert_eq!(of("EXAMPLE.org."), Some("10.0.0.1"));
        assert_eq!(of("a.sip.example.org"), Some("10.0.0.2"));
        assert_eq!(of("badexample.org"), None);
    }
}
