//! UPnP IGD, the Internet Gateway Device of UPnP: the requests of a node to a router that supports neither PCP nor
//! NAT-PMP.
//!
//! ```text
//!   node ── M-SEARCH for a gateway ──▶ 239.255.255.250:1900, UDP      [`ssdp`]
//!   node ◀── LOCATION: where its description is ── router
//!   node ── GET ──▶ router, TCP                                       [`http`]
//!   node ◀── XML: its services, and where each is controlled ──       [`description`]
//!   node ── POST: address outside? map this port. give it back ──▶    [`soap`]
//! ```
//! [UPnP Device Architecture 1.1 §1.3, §2.3, §3.2; WANIPConnection:1 §2.4] Routers differ in line ends, name spaces,
//! nested devices, and the bases of relative addresses. This module reads only what they have in common. It is the only
//! part of the crate in which reading allocates: no packet of the overlay passes here.

pub mod description;
pub mod http;
pub mod soap;
pub mod ssdp;

use crate::Malformed;
use core::fmt;
use core::net::{Ipv4Addr, SocketAddrV4};
use roxmltree::{Document, Node, ParsingOptions};
use std::borrow::Cow;

/// The maximum length of an address. Choice: three times the longest address that routers are known to use.
pub const PATH_MAX: usize = 512;
/// The maximum number of nodes of a document. Choice: the descriptions of routers have some hundred.
const NODES_MAX: u32 = 8_192;

/// An HTTP location at an IPv4 address. Names are not looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// The host and its port.
    pub at: SocketAddrV4,
    /// The path of the request. It begins with a slash, and contains nothing that ends a line of HTTP.
    pub path: String,
}

impl Url {
    /// Reads an absolute location.
    pub fn parse(text: &str) -> Result<Url, Malformed> {
        const SCHEME: &str = "http://";
        let text = text.trim();
        let scheme = text.get(..SCHEME.len()).ok_or(Malformed::Short)?;
        if !scheme.eq_ignore_ascii_case(SCHEME) {
            return Err(Malformed::Kind);
        }
        let rest = &text[SCHEME.len()..];
        let host_ends = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (host, path) = rest.split_at(host_ends);
        let (ip, port) = match host.split_once(':') {
            Some((ip, port)) => (ip, port.parse().map_err(|_| Malformed::Value)?),
            None => (host, 80),
        };
        let ip: Ipv4Addr = ip.parse().map_err(|_| Malformed::Value)?;
        if port == 0 {
            return Err(Malformed::Value);
        }
        Url::new(SocketAddrV4::new(ip, port), path)
    }

    /// Reads a location that may be relative to this one. [RFC 3986 §5.2, without the removal of dots]
    pub fn join(&self, text: &str) -> Result<Url, Malformed> {
        let text = text.trim();
        let first = text.split(['/', '?', '#']).next().unwrap_or_default();
        if first.ends_with(':') {
            return Url::parse(text);
        }
        if text.starts_with("//") {
            return Err(Malformed::Kind);
        }
        if text.starts_with('/') {
            return Url::new(self.at, text);
        }
        let path = self.path.split('?').next().unwrap_or_default();
        let folder = path.rfind('/').map_or("", |at| &path[..at]);
        Url::new(self.at, &format!("{folder}/{text}"))
    }

    fn new(at: SocketAddrV4, path: &str) -> Result<Url, Malformed> {
        let path = path.split('#').next().unwrap_or_default();
        let slash = if path.starts_with('/') { "" } else { "/" };
        let path = format!("{slash}{path}");
        if path.len() > PATH_MAX {
            return Err(Malformed::Length);
        }
        match path.bytes().all(|it| it.is_ascii_graphic()) {
            true => Ok(Url { at, path }),
            false => Err(Malformed::Value),
        }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.at, self.path)
    }
}

/// Reads XML, and passes the document to `read`. A document type is refused, so entities cannot expand.
fn xml<T>(
    bytes: &[u8],
    read: impl FnOnce(&Document<'_>) -> Result<T, Malformed>,
) -> Result<T, Malformed> {
    // Some routers end the document with a zero, or write the name of their manufacturer in Latin-1; neither matters
    // here.
    let text: Cow<'_, str> = String::from_utf8_lossy(bytes);
    let text = text.trim_matches(|it: char| it.is_whitespace() || it == '\0' || it == '\u{feff}');
    let options = ParsingOptions {
        nodes_limit: NODES_MAX,
        ..ParsingOptions::default()
    };
    let document = Document::parse_with_options(text, options).map_err(|_| Malformed::Text)?;
    read(&document)
}

/// Returns the text of the first child with this name, whatever its name space.
fn child_text<'a>(of: Node<'a, '_>, name: &str) -> Option<&'a str> {
    let mut children = of.children();
    let child = children.find(|it| it.tag_name().name() == name)?;
    Some(child.text().unwrap_or_default().trim())
}

#[cfg(test)]
mod tests;
