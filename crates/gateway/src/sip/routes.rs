//! Where a request goes next.
//!
//! ```text
//!   Route, or Request-URI
//!     a domain of this site (--local)        ──> its proxy or phone
//!     a domain that nodes' certificates name ──> their gateways, the nearest first   ┐ tried in
//!     a domain beyond (--direct, DNS SRV)    ──> its proxy, by the Internet          ┘ this order
//!     10.7.0.2.sinew                         ──> that node's gateway
//!     an address                             ──> it
//! ```
//! From the overlay only this site is reached: a gateway is no relay for others' sites.

use super::hop::{Face, Hop, Names, overlay_node};
use super::message;
use crate::domains::Domains;
use core::future::Future;
use core::net::SocketAddr;
use core::pin::Pin;
use rsipstack::sip::{Host, Transport, Uri};
use std::sync::Arc;

/// A domain's SIP servers by DNS, in the order to try them.
pub type Lookup = Arc<
    dyn Fn(String, Option<u16>, Transport) -> Pin<Box<dyn Future<Output = Vec<SocketAddr>> + Send>>
        + Send
        + Sync,
>;

/// A domain and the server for it: `example.org=10.1.0.5:5060`, with `;transport=tcp` for TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// The domain, in lower case.
    pub domain: String,
    host: String,
    port: Option<u16>,
    transport: Transport,
}

/// Why text is no [`Server`].
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

/// Why a request goes nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Nowhere {
    #[error("no proxy is known for this domain: name one by --local or --direct, or in DNS")]
    Unknown,
    #[error("this gateway does not serve the domain")]
    NotServed,
    #[error("it would come back to this gateway")]
    Loop,
}

impl Nowhere {
    pub(crate) fn status(self) -> u16 {
        match self {
            Nowhere::Unknown => 404,
            Nowhere::NotServed => 403,
            Nowhere::Loop => 482,
        }
    }
}

/// What is known of places.
pub(crate) struct Routes {
    pub(crate) names: Names,
    pub(crate) local: Vec<Server>,
    pub(crate) direct: Vec<Server>,
    pub(crate) domains: Arc<dyn Domains>,
    pub(crate) lookup: Lookup,
}

impl Routes {
    /// Where a request outside of a dialog goes, in the order to try.
    pub(crate) async fn initial(&self, from: Face, uri: &Uri) -> Result<Vec<Hop>, Nowhere> {
        let host = uri.host();
        let hops = match (host, overlay_node(host)) {
            (_, Some(node)) if from == Face::Access => vec![Hop::overlay(node)],
            (_, Some(_)) => return Err(Nowhere::NotServed),
            (Host::Domain(domain), _) => self.domain(from, &domain.0, uri).await?,
            (Host::IpAddr(_), _) if from == Face::Access => self.address(uri),
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

    /// Where a request within a dialog goes: to the host of its topmost Route, or its target.
    pub(crate) async fn within(&self, uri: &Uri) -> Result<Hop, Nowhere> {
        let host = uri.host();
        let hops = match (host, overlay_node(host)) {
            (_, Some(node)) => vec![Hop::overlay(node)],
            (Host::IpAddr(_), _) => self.address(uri),
            (Host::Domain(domain), _) => match Self::of(&self.local, &domain.0) {
                Some(server) => self.server(server).await,
                None => self.resolve(&domain.0, uri).await,
            },
        };
        let hop = hops.into_iter().next().ok_or(Nowhere::Unknown)?;
        match self.is_own(&hop) {
            true => Err(Nowhere::Loop),
            false => Ok(hop),
        }
    }

    /// Whether the URI is this gateway by a name of the Internet's.
    pub(crate) async fn is_own_name(&self, uri: &Uri) -> bool {
        let Host::Domain(name) = uri.host() else {
            return false;
        };
        if overlay_node(uri.host()).is_some() {
            return false;
        }
        let hops = self.resolve(&name.0, uri).await;
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
                true => Ok(self.resolve(domain, uri).await),
                false => Err(Nowhere::NotServed),
            };
        }
        let mut hops: Vec<Hop> = serving
            .into_iter()
            .map(|serving| Hop::overlay(serving.node))
            .collect();
        let direct = match Self::of(&self.direct, domain) {
            Some(server) => self.server(server).await,
            // Choice: names are asked for only when no node serves the domain, so that a slow
            // server of names does not delay a call.
            None if hops.is_empty() => self.resolve(domain, uri).await,
            None => Vec::new(),
        };
        hops.extend(direct.into_iter().map(|hop| Hop {
            is_abroad: true,
            ..hop
        }));
        Ok(hops)
    }

    /// The entry with the longest domain that `domain` is, or is below.
    fn of<'s>(servers: &'s [Server], domain: &str) -> Option<&'s Server> {
        let domain = domain.trim_end_matches('.').to_ascii_lowercase();
        let is_in = |server: &&Server| {
            let rest = domain.strip_suffix(server.domain.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        let fitting = servers.iter().filter(is_in);
        fitting.max_by_key(|server| server.domain.len())
    }

    async fn server(&self, server: &Server) -> Vec<Hop> {
        let transport = server.transport;
        let at = match server.host.trim_matches(['[', ']']).parse() {
            Ok(ip) => vec![SocketAddr::new(ip, port(server.port, transport))],
            Err(_) => (self.lookup)(server.host.clone(), server.port, transport).await,
        };
        at.into_iter()
            .map(|at| Hop::access(at, transport))
            .collect()
    }

    async fn resolve(&self, domain: &str, uri: &Uri) -> Vec<Hop> {
        let transport = message::transport_of(uri);
        let port = uri.host_with_port.port.map(u16::from);
        let at = (self.lookup)(domain.to_owned(), port, transport).await;
        at.into_iter()
            .map(|at| Hop::access(at, transport))
            .collect()
    }

    fn address(&self, uri: &Uri) -> Vec<Hop> {
        let Host::IpAddr(ip) = uri.host() else {
            return Vec::new();
        };
        let transport = message::transport_of(uri);
        let port = port(uri.host_with_port.port.map(u16::from), transport);
        vec![Hop::access(SocketAddr::new(*ip, port), transport)]
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

fn port(given: Option<u16>, transport: Transport) -> u16 {
    given.unwrap_or_else(|| transport.default_port().into())
}

#[cfg(test)]
mod tests {
    use super::*;

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
