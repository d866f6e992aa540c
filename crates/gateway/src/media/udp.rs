//! The UDP sockets of leased ports: one for each port and family, bound while the port is leased.

use net::udp;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};

/// Expedited forwarding (RFC 3246): the class that routers with service classes use for voice.
const DSCP_VOICE: u8 = 46;

/// The local addresses for media: at most one of each family.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Addresses {
    v4: Option<IpAddr>,
    v6: Option<IpAddr>,
}

/// The sockets of one port, at the available addresses.
#[derive(Debug)]
pub(super) struct Sockets {
    v4: Option<UdpSocket>,
    v6: Option<UdpSocket>,
}

impl Addresses {
    /// Returns the addresses; `None` if there is none, or two of one family.
    pub(super) fn new(addresses: &[IpAddr]) -> Option<Addresses> {
        let mut found = Addresses::default();
        for &address in addresses {
            let place = match address {
                IpAddr::V4(_) => &mut found.v4,
                IpAddr::V6(_) => &mut found.v6,
            };
            if place.replace(address).is_some() {
                return None;
            }
        }
        (!addresses.is_empty()).then_some(found)
    }

    pub(super) fn bind(&self, port: u16) -> io::Result<Sockets> {
        let bind = |ip: Option<IpAddr>| {
            ip.map(|ip| udp::single(SocketAddr::new(ip, port), DSCP_VOICE))
                .transpose()
        };
        Ok(Sockets {
            v4: bind(self.v4)?,
            v6: bind(self.v6)?,
        })
    }
}

impl Sockets {
    /// Returns the sockets, IPv4 first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (bool, &UdpSocket)> {
        let v4 = self.v4.as_ref().map(|socket| (false, socket));
        v4.into_iter()
            .chain(self.v6.as_ref().map(|socket| (true, socket)))
    }

    /// Returns the socket of one family.
    pub(super) fn of(&self, is_v6: bool) -> Option<&UdpSocket> {
        match is_v6 {
            false => self.v4.as_ref(),
            true => self.v6.as_ref(),
        }
    }

    /// Sends a datagram with the socket of its destination's family.
    pub(super) fn send(&self, datagram: &[u8], to: SocketAddr) -> io::Result<()> {
        let socket = self.of(to.is_ipv6());
        let socket = socket.ok_or(io::ErrorKind::AddrNotAvailable)?;
        socket.send_to(datagram, to).map(drop)
    }
}
