//! One way of a stream of UDP: a socket for a group or a host.

use core::fmt;
use core::str::FromStr;
use net::{interface, udp};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

/// Routers that a multicast packet may pass, unless they are told otherwise. Choice: 16, a site.
const MULTICAST_TTL: u32 = 16;

/// Where one way of a stream comes from or goes to: `239.1.1.1:5004@eth1`, `239.1.1.1:5004@10.1.0.5`,
/// `10.1.0.9:5004`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leg {
    /// The group or host. Where a stream comes from, a host is an own address.
    pub address: SocketAddr,
    /// The interface, by name or address; none for what the system chooses.
    pub interface: Option<Interface>,
}

/// An interface of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Interface {
    /// By one of its addresses.
    Address(Ipv4Addr),
    /// By its name.
    Name(String),
}

impl FromStr for Leg {
    type Err = String;
    fn from_str(text: &str) -> Result<Leg, String> {
        let bad = || {
            format!("`{text}`: write a group or host, like 239.1.1.1:5004@eth1 or 10.1.0.9:5004")
        };
        let (address, interface) = match text.split_once('@') {
            Some((address, interface)) => (address, Some(interface)),
            None => (text, None),
        };
        let address: SocketAddr = address.parse().map_err(|_| bad())?;
        let is_v6_group = address.is_ipv6() && address.ip().is_multicast();
        if address.port() == 0 || is_v6_group || interface == Some("") {
            return Err(bad());
        }
        let interface = interface.map(|word| match word.parse() {
            Ok(address) => Interface::Address(address),
            Err(_) => Interface::Name(word.to_owned()),
        });
        Ok(Leg { address, interface })
    }
}

impl fmt::Display for Leg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.address)?;
        match &self.interface {
            None => Ok(()),
            Some(Interface::Address(address)) => write!(f, "@{address}"),
            Some(Interface::Name(name)) => write!(f, "@{name}"),
        }
    }
}

impl Leg {
    /// A socket that receives it.
    pub(super) fn receiver(&self) -> io::Result<UdpSocket> {
        let socket = self.socket()?;
        // Others of this host may want the group too.
        socket.set_reuse_address(self.address.ip().is_multicast())?;
        socket.bind(&SockAddr::from(self.address))?;
        if let IpAddr::V4(group) = self.address.ip()
            && group.is_multicast()
        {
            socket.join_multicast_v4(&group, &self.interface()?)?;
            // Only what was asked for, not what other programs have joined.
            socket.set_multicast_all_v4(false)?;
        }
        self.finish(socket)
    }

    /// A socket that sends it.
    pub(super) fn sender(&self) -> io::Result<UdpSocket> {
        let socket = self.socket()?;
        if self.address.ip().is_multicast() {
            socket.set_multicast_if_v4(&self.interface()?)?;
            socket.set_multicast_ttl_v4(MULTICAST_TTL)?;
        } else if self.address.is_ipv4() {
            let from = SocketAddr::from((self.interface()?, 0));
            socket.bind(&SockAddr::from(from))?;
        }
        self.finish(socket)
    }

    fn socket(&self) -> io::Result<Socket> {
        let domain = Domain::for_address(self.address);
        Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))
    }

    fn finish(&self, socket: Socket) -> io::Result<UdpSocket> {
        socket.set_nonblocking(true)?;
        let socket = UdpSocket::from(socket);
        udp::enlarge(&socket);
        Ok(socket)
    }

    /// The address of the interface; that of none for the system's choice.
    fn interface(&self) -> io::Result<Ipv4Addr> {
        match &self.interface {
            None => Ok(Ipv4Addr::UNSPECIFIED),
            Some(Interface::Address(address)) => Ok(*address),
            Some(Interface::Name(name)) => {
                let found = interface::find(name)?.and_then(|found| found.address);
                let (address, _) = found.ok_or_else(|| {
                    io::Error::other(format!(
                        "the interface {name} is not there, or has no IPv4 address"
                    ))
                })?;
                Ok(address)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legs_are_read_and_written_or_refused_with_the_word() {
        for text in [
            "239.1.1.1:5004@eth1",
            "239.1.1.1:5004@10.1.0.5",
            "10.1.0.9:5004",
            "[::1]:5004",
        ] {
            assert_eq!(text.parse::<Leg>().unwrap().to_string(), text);
        }
        for text in [
            "239.1.1.1",
            "239.1.1.1:0",
            "x:5",
            "239.1.1.1:5@",
            "[ff02::1]:5",
        ] {
            assert!(text.parse::<Leg>().is_err_and(|said| said.contains(text)));
        }
    }
}
