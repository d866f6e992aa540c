//! One leg of a stream over UDP: a socket for a group or a host.

use core::fmt;
use core::str::FromStr;
use net::{interface, udp};
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

/// The default TTL of multicast packets. Choice: 16, which is enough for a site.
const MULTICAST_TTL: u32 = 16;

/// The source or destination of one leg of a stream: `239.1.1.1:5004@eth1`, `239.1.1.1:5004@10.1.0.5`, `10.1.0.9:5004`,
/// or with the only wanted source, `10.0.0.5@232.1.1.1:5004@eth1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leg {
    /// The only host whose packets to the group are wanted. Packets of other hosts are not delivered, and routers do
    /// not forward them.
    pub source: Option<Ipv4Addr>,
    /// The group or host. For an incoming stream, a host is an address of this host.
    pub address: SocketAddr,
    /// The interface, by name or address; if none, the system chooses.
    pub interface: Option<Interface>,
}

/// An interface of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Interface {
    /// An interface with one of its addresses.
    Address(Ipv4Addr),
    /// An interface with its name.
    Name(String),
}

impl FromStr for Leg {
    type Err = String;
    fn from_str(text: &str) -> Result<Leg, String> {
        let bad = || {
            format!(
                "`{text}`: write a group or host, like 239.1.1.1:5004@eth1 or 10.1.0.9:5004, \
                 or with its source, like 10.0.0.5@232.1.1.1:5004@eth1"
            )
        };
        // The part before the address has no port.
        let (source, rest) = match text.split_once('@') {
            Some((first, rest)) if first.parse::<Ipv4Addr>().is_ok() => (Some(first), rest),
            _ => (None, text),
        };
        let source = source.map(str::parse).transpose().map_err(|_| bad())?;
        let (address, interface) = match rest.split_once('@') {
            Some((address, interface)) => (address, Some(interface)),
            None => (rest, None),
        };
        let address: SocketAddr = address.parse().map_err(|_| bad())?;
        let is_group = address.ip().is_multicast();
        let is_v6_group = address.is_ipv6() && is_group;
        let has_no_group = source.is_some() && !is_group;
        if address.port() == 0 || is_v6_group || has_no_group || interface == Some("") {
            return Err(bad());
        }
        let interface = interface.map(|word| match word.parse() {
            Ok(address) => Interface::Address(address),
            Err(_) => Interface::Name(word.to_owned()),
        });
        Ok(Leg {
            source,
            address,
            interface,
        })
    }
}

impl fmt::Display for Leg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(source) = self.source {
            write!(f, "{source}@")?;
        }
        write!(f, "{}", self.address)?;
        match &self.interface {
            None => Ok(()),
            Some(Interface::Address(address)) => write!(f, "@{address}"),
            Some(Interface::Name(name)) => write!(f, "@{name}"),
        }
    }
}

impl Leg {
    /// Opens a socket that receives the leg.
    pub(super) fn receiver(&self) -> io::Result<UdpSocket> {
        let socket = self.socket()?;
        // Other programs of this host may want the group too.
        socket.set_reuse_address(self.address.ip().is_multicast())?;
        if self.group().is_some() {
            // The socket receives only the group that it joined, and not those that other programs have joined.
            socket.set_multicast_all_v4(false)?;
        }
        socket.bind(&SockAddr::from(self.address))?;
        self.join(&SockRef::from(&socket))?;
        self.finish(socket)
    }

    /// Opens another socket if this one has lost its group. When an interface disappears, the kernel forgets its joins,
    /// and the next interface of this name is a new one.
    pub(super) fn rejoined(&self, socket: &UdpSocket) -> io::Result<Option<UdpSocket>> {
        // A socket has few places for joins, and lost joins keep their places.
        match self.join(&SockRef::from(socket))? {
            true => self.receiver().map(Some),
            false => Ok(None),
        }
    }

    fn group(&self) -> Option<Ipv4Addr> {
        match self.address.ip() {
            IpAddr::V4(group) if group.is_multicast() => Some(group),
            _ => None,
        }
    }

    /// Joins the group, if there is one. Returns false if the socket has already joined it.
    fn join(&self, socket: &Socket) -> io::Result<bool> {
        let Some(group) = self.group() else {
            return Ok(false);
        };
        let interface = self.interface()?;
        let joined = match &self.source {
            None => socket.join_multicast_v4(&group, &interface),
            Some(source) => socket.join_ssm_v4(source, &group, &interface),
        };
        match joined {
            Ok(()) => Ok(true),
            // The errors of the kernel for a group that is already joined, and for a source.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::AddrInUse | ErrorKind::AddrNotAvailable
                ) =>
            {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Opens a socket that sends the leg.
    pub(super) fn sender(&self) -> io::Result<UdpSocket> {
        if self.source.is_some() {
            return Err(io::Error::new(
                ErrorKind::InvalidInput,
                "a way out has no source but this host",
            ));
        }
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

    /// Returns the address of the interface; 0.0.0.0 if the system chooses.
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
    use core::time::Duration;
    use net::netns::{Namespace, available};

    #[test]
    fn legs_are_read_and_written_or_refused_with_the_word() {
        for text in [
            "239.1.1.1:5004@eth1",
            "239.1.1.1:5004@10.1.0.5",
            "10.1.0.9:5004",
            "[::1]:5004",
            "10.0.0.5@232.1.1.1:5004",
            "10.0.0.5@239.1.1.1:5004@eth1",
            "10.0.0.5@239.1.1.1:5004@10.1.0.5",
        ] {
            assert_eq!(text.parse::<Leg>().unwrap().to_string(), text);
        }
        for text in [
            "239.1.1.1",
            "239.1.1.1:0",
            "x:5",
            "239.1.1.1:5@",
            "[ff02::1]:5",
            "10.0.0.5@10.1.0.9:5004",
            "x@239.1.1.1:5004@eth1",
            "10.0.0.5@239.1.1.1",
            "10.0.0.5@239.1.1.1:5@",
            "10.0.0.5@",
        ] {
            assert!(text.parse::<Leg>().is_err_and(|said| said.contains(text)));
        }
    }

    const SOURCE: Ipv4Addr = Ipv4Addr::new(10, 3, 0, 1);
    const STRANGER: Ipv4Addr = Ipv4Addr::new(10, 3, 0, 9);

    /// Creates the interface "out" with the addresses of the source and of a stranger, and "in" of the receiver.
    fn wire(site: &Namespace, receiver: &Namespace) {
        site.veth("out", receiver, "in").unwrap();
        for address in [SOURCE, STRANGER] {
            let address = format!("{address}/24");
            site.ip(&["addr", "add", &address, "dev", "out"]).unwrap();
        }
        receiver
            .ip(&["addr", "add", "10.3.0.2/24", "dev", "in"])
            .unwrap();
    }

    fn send(site: &Namespace, from: Ipv4Addr, to: SocketAddr) {
        let sent = site.run(|| {
            let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP)).unwrap();
            let from = SocketAddr::from((from, 0));
            socket.bind(&SockAddr::from(from)).unwrap();
            socket.set_multicast_if_v4(&SOURCE).unwrap();
            socket.send_to(b"x", &SockAddr::from(to)).unwrap();
        });
        sent.unwrap();
    }

    /// Sends from both hosts until a packet arrives, always from the source last. Returns the sender of the first
    /// packet to arrive.
    fn first(site: &Namespace, socket: &UdpSocket, to: SocketAddr) -> IpAddr {
        socket.set_nonblocking(false).unwrap();
        let moment = Duration::from_millis(200);
        socket.set_read_timeout(Some(moment)).unwrap();
        for _ in 0..50 {
            send(site, STRANGER, to);
            send(site, SOURCE, to);
            if let Ok((_, from)) = socket.recv_from(&mut [0; 8]) {
                return from.ip();
            }
        }
        panic!("nothing comes");
    }

    #[test]
    fn a_group_comes_from_the_source_that_was_named_and_again_when_its_interface_is_back() {
        if let Err(why) = available() {
            eprintln!("SKIPPED: a_group_comes_from_the_source_that_was_named: {why}");
            return;
        }
        let [site, receiver] = [(); 2].map(|()| Namespace::new().unwrap());
        wire(&site, &receiver);
        for (text, expected) in [
            ("10.3.0.1@232.1.1.1:5004@in", SOURCE),
            ("10.3.0.1@239.1.1.1:5004@10.3.0.2", SOURCE),
            ("239.1.1.2:5004@in", STRANGER),
        ] {
            let leg: Leg = text.parse().unwrap();
            let mut socket = receiver.run(|| leg.receiver()).unwrap().unwrap();
            assert_eq!(first(&site, &socket, leg.address), expected, "{text}");
            for _ in 0..3 {
                let again = receiver.run(|| leg.rejoined(&socket)).unwrap();
                assert!(again.unwrap().is_none(), "{text}: it has what it wants");
                receiver.ip(&["link", "del", "in"]).unwrap();
                let lost = receiver.run(|| leg.rejoined(&socket)).unwrap();
                assert!(lost.is_err(), "{text}: there is no interface");
                wire(&site, &receiver);
                let again = receiver.run(|| leg.rejoined(&socket)).unwrap();
                socket = again.unwrap().expect("another interface");
                assert_eq!(first(&site, &socket, leg.address), expected, "{text}");
            }
        }
    }
}
