//! Where a message comes from or goes to, and what this gateway calls itself there.
//!
//! The gateway has two faces. At the access face, UDP and TCP, are the phones, PBXs and proxies of
//! its site. At the overlay face are the gateways of other sites; SIP crosses in datagrams to
//! virtual port [`OVERLAY_PORT`], which look like UDP to the transactions. In messages an overlay
//! address is written as a name, `10.7.0.1.sinew`, since as an address it would be the Internet's.

use crate::special::{self, Kind};
use base::NodeAddr;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use rsipstack::sip::{Host, HostWithPort, Transport, Uri};
use rsipstack::transport::SipConnection;

/// The virtual port of SIP: that of SIP itself.
pub const OVERLAY_PORT: u16 = 5060;
/// What an overlay address ends in where it is written as a name.
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

/// A neighbour in signalling.
#[derive(Clone, Debug)]
pub(crate) struct Hop {
    pub(crate) face: Face,
    /// At the overlay face: the node's overlay address, and the virtual port.
    pub(crate) at: SocketAddr,
    pub(crate) transport: Transport,
    /// The connection that it opened, for a stream.
    pub(crate) stream: Option<SipConnection>,
    /// At the access face, but of another site: it is asked whether it is aware of the overlay.
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

    /// The node, at the overlay face.
    pub(crate) fn node(&self) -> Option<NodeAddr> {
        match (self.face, self.at.ip()) {
            (Face::Overlay, IpAddr::V4(ip)) => Some(NodeAddr(ip.to_bits())),
            _ => None,
        }
    }

    /// Whether both are the same host at the same face.
    pub(crate) fn is_host_of(&self, other: &Hop) -> bool {
        self.face == other.face && self.at.ip() == other.at.ip()
    }
}

/// The node that a name in the form `10.7.0.1.sinew` means.
pub(crate) fn overlay_node(host: &Host) -> Option<NodeAddr> {
    let Host::Domain(name) = host else {
        return None;
    };
    let name = name.0.strip_suffix(SUFFIX)?;
    let ip: Ipv4Addr = name.parse().ok()?;
    let node = NodeAddr(ip.to_bits());
    node.is_node().then_some(node)
}

/// What the gateway calls itself, and what it answers to.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    pub(crate) node: NodeAddr,
    /// The port of the access face.
    pub(crate) port: u16,
    /// The address it listens at; unspecified for all.
    pub(crate) bound: IpAddr,
    /// The address that others reach it by, behind a translator.
    pub(crate) public: Option<IpAddr>,
}

impl Names {
    /// The address by which `peer` reaches the access face.
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

    /// Host and port to say to a neighbour.
    pub(crate) fn toward(&self, hop: &Hop) -> HostWithPort {
        match hop.face {
            Face::Overlay => overlay_host(self.node),
            Face::Access => SocketAddr::new(self.own_ip(hop.at.ip()), self.port).into(),
        }
    }

    /// Whether the URI is this gateway.
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
        // An address of this host is the one that packets to it leave from.
        self.bound.is_unspecified() && special::source_toward(ip).is_ok_and(|own| own == ip)
    }
}

/// `10.7.0.1.sinew`, without a port: SIP's own.
pub(crate) fn overlay_host(node: NodeAddr) -> HostWithPort {
    HostWithPort {
        host: Host::Domain(format!("{}{SUFFIX}", Ipv4Addr::from_bits(node.0)).into()),
        port: None,
    }
}

/// Addresses of this host, its link and its site, for sure: others may share an access network.
pub(crate) fn is_of_site(ip: IpAddr) -> bool {
    let kind = special::range(ip).map(|range| range.kind);
    matches!(kind, Some(Kind::Loopback | Kind::LinkLocal | Kind::Private))
}

/// Addresses that mean something only here.
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
