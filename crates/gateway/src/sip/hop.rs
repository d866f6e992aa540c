//! The source or destination of a message, and the name that this gateway uses toward it.
//!
//! The gateway has two faces. At the access face, UDP and TCP, are the phones, PBXs and proxies of its site. At the
//! overlay face are the gateways of other sites. SIP crosses in datagrams to virtual port [`OVERLAY_PORT`], which look
//! like UDP to the transactions. Messages contain an overlay address as a name, `10.7.0.1.sinew`, because a plain
//! address would belong to the Internet.

use crate::special::{self, Kind};
use base::NodeAddr;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use rsipstack::sip::{Host, HostWithPort, Transport, Uri};
use rsipstack::transport::SipConnection;

/// The virtual port of SIP: the same as SIP's own port.
pub const OVERLAY_PORT: u16 = 5060;
/// The suffix of an overlay address that is written as a name.
pub(crate) const SUFFIX: &str = crate::socks::SUFFIX;
/// SIP's own port (RFC 3261 §19.1.2).
pub(crate) const SIP_PORT: u16 = 5060;

/// A side of the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Face {
    /// Phones and proxies of the site.
    Access,
    /// Gateways of other sites.
    Overlay,
}

/// A neighbor in signalling.
#[derive(Clone, Debug)]
pub(crate) struct Hop {
    pub(crate) face: Face,
    /// At the overlay face: the node's overlay address, and the virtual port.
    pub(crate) at: SocketAddr,
    pub(crate) transport: Transport,
    /// The connection that the neighbor opened, if the transport is a stream.
    pub(crate) stream: Option<SipConnection>,
    /// Whether the neighbor is at the access face, but of another site. It is then queried whether it is aware of the
    /// overlay.
    pub(crate) is_abroad: bool,
}

impl Hop {
    pub(crate) fn overlay(node: NodeAddr) -> Hop {
        let ip = IpAddr::V4(Ipv4Addr::from_bits(node.0));
        Hop {
            face: Face::Overlay,
            at: SocketAddr::new(ip, OVERLAY_PORT),
            transport: Transport::Udp,
            stream: None,
            is_abroad: false,
        }
    }

    pub(crate) fn access(at: SocketAddr, transport: Transport) -> Hop {
        Hop {
            face: Face::Access,
            at,
            transport,
            stream: None,
            is_abroad: false,
        }
    }

    /// Returns the node, if the hop is at the overlay face.
    pub(crate) fn node(&self) -> Option<NodeAddr> {
        match (self.face, self.at.ip()) {
            (Face::Overlay, IpAddr::V4(ip)) => Some(NodeAddr(ip.to_bits())),
            _ => None,
        }
    }

    /// Returns whether both hops are the same host at the same face.
    pub(crate) fn is_host_of(&self, other: &Hop) -> bool {
        self.face == other.face && self.at.ip() == other.at.ip()
    }
}

/// Returns the node of a name in the form `10.7.0.1.sinew`.
pub(crate) fn overlay_node(host: &Host) -> Option<NodeAddr> {
    let Host::Domain(name) = host else {
        return None;
    };
    let name = name.0.strip_suffix(SUFFIX)?;
    let ip: Ipv4Addr = name.parse().ok()?;
    let node = NodeAddr(ip.to_bits());
    node.is_node().then_some(node)
}

/// The names and addresses of this gateway.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    pub(crate) node: NodeAddr,
    /// The port of the access face.
    pub(crate) port: u16,
    /// The address at which the gateway listens; unspecified for all addresses.
    pub(crate) bound: IpAddr,
    /// The address at which other hosts reach the gateway, behind an address translator.
    pub(crate) public: Option<IpAddr>,
}

impl Names {
    /// Returns the address at which `peer` reaches the access face.
    pub(crate) fn own_ip(&self, peer: IpAddr) -> IpAddr {
        if let Some(public) = self.public
            && public.is_ipv4() == peer.is_ipv4()
            && !is_private(peer)
        {
            return public;
        }
        if !self.bound.is_unspecified() {
            return self.bound;
        }
        special::source_toward(peer).unwrap_or(peer)
    }

    /// Returns the host and port of this gateway toward a neighbor.
    pub(crate) fn toward(&self, hop: &Hop) -> HostWithPort {
        match hop.face {
            Face::Overlay => overlay_host(self.node),
            Face::Access => SocketAddr::new(self.own_ip(hop.at.ip()), self.port).into(),
        }
    }

    /// Returns whether the URI is this gateway.
    pub(crate) fn is_own(&self, uri: &Uri) -> bool {
        if let Some(node) = overlay_node(uri.host()) {
            return node == self.node;
        }
        let Host::IpAddr(ip) = uri.host() else {
            return false;
        };
        let port = uri.host_with_port.port.map_or(SIP_PORT, u16::from);
        port == self.port && self.is_own_ip(*ip)
    }

    fn is_own_ip(&self, ip: IpAddr) -> bool {
        if self.public == Some(ip) || self.bound == ip {
            return true;
        }
        // If an address belongs to this host, packets to it leave from this address.
        self.bound.is_unspecified() && special::source_toward(ip).is_ok_and(|own| own == ip)
    }
}

/// Returns a name such as `10.7.0.1.sinew`, without a port, which means SIP's own port.
pub(crate) fn overlay_host(node: NodeAddr) -> HostWithPort {
    HostWithPort {
        host: Host::Domain(format!("{}{SUFFIX}", Ipv4Addr::from_bits(node.0)).into()),
        port: None,
    }
}

/// Returns whether an address is certainly of this host, its link or its site. Shared addresses do not count, because
/// other customers may use an access network, too.
pub(crate) fn is_of_site(ip: IpAddr) -> bool {
    let kind = special::range(ip).map(|range| range.kind);
    matches!(kind, Some(Kind::Loopback | Kind::LinkLocal | Kind::Private))
}

/// Returns whether an address has a meaning only locally.
pub(crate) fn is_private(ip: IpAddr) -> bool {
    let kind = special::range(ip).map(|range| range.kind);
    matches!(
        kind,
        Some(Kind::Loopback | Kind::LinkLocal | Kind::Private | Kind::Shared)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(bound: &str) -> Names {
        Names {
            node: NodeAddr(0x0a07_0001),
            port: 5060,
            bound: bound.parse().unwrap(),
            public: Some("192.0.2.1".parse().unwrap()),
        }
    }

    #[test]
    fn own_uris_are_known_and_others_are_not() {
        let names = names("127.0.0.1");
        for (uri, own) in [
            ("sip:127.0.0.1:5060;lr", true),
            ("sip:127.0.0.1;lr;call=7", true),
            ("sip:192.0.2.1", true),
            ("sip:10.7.0.1.sinew;lr", true),
            ("sip:10.7.0.2.sinew;lr", false),
            ("sip:127.0.0.1:5070", false),
            ("sip:192.0.2.2", false),
            ("sip:example.org", false),
        ] {
            assert_eq!(names.is_own(&uri.try_into().unwrap()), own, "{uri}");
        }
    }

    #[test]
    fn who_shares_the_provider_is_no_host_of_the_site() {
        for (ip, [is_of_site, is_private]) in [
            ("10.1.0.9", [true, true]),
            ("127.0.0.1", [true, true]),
            ("100.64.0.9", [false, true]),
            ("198.51.100.9", [false, false]),
        ] {
            let ip = ip.parse().unwrap();
            let known = [super::is_of_site(ip), super::is_private(ip)];
            assert_eq!(known, [is_of_site, is_private], "{ip}");
        }
    }

    #[test]
    fn the_public_address_is_for_the_public() {
        let names = names("0.0.0.0");
        let own = |peer: &str| names.own_ip(peer.parse().unwrap()).to_string();
        assert_eq!(own("198.51.100.7"), "192.0.2.1");
        assert_eq!(own("127.0.0.1"), "127.0.0.1");
        let hop = Hop::overlay(NodeAddr(0x0a07_0002));
        assert_eq!(names.toward(&hop).to_string(), "10.7.0.1.sinew");
        assert_eq!(hop.node(), Some(NodeAddr(0x0a07_0002)));
    }
}
