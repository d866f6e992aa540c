//! Decides whether a port is to be mapped, for which of the node's sockets, and at which router.

use super::Wish;
use super::judge::is_public;
use super::mapper::Place;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use wire::mapping::PORT;

/// The place to request a mapping at, or the reason not to request one.
pub(super) type Found = Result<Place, &'static str>;

const NO_ROUTER: &str = "this host has no default route of IPv4 over a router";

/// Returns why there can never be a mapping, if no change on the host can lead to one.
pub(super) fn never(wish: Wish, listen: &[SocketAddr], makes_links: bool) -> Option<&'static str> {
    let of_ipv4 = || listen.iter().filter(|at| at.is_ipv4());
    match wish {
        Wish::No => Some("`map_port = false`"),
        _ if of_ipv4().next().is_none() => Some("the node has no socket of IPv4"),
        _ if of_ipv4().all(|at| at.ip().is_loopback()) => {
            Some("the node listens on loopback alone")
        }
        Wish::Auto if !makes_links => {
            Some("nobody would use it: neither `direct_links` nor `find_links` is set")
        }
        Wish::Auto | Wish::Yes => None,
    }
}

/// Decides from the present state of the host.
pub(super) fn look(wish: Wish, listen: &[SocketAddr]) -> Found {
    let unknown = |_| NO_ROUTER;
    let gateway = net::interface::default_gateway().map_err(unknown)?;
    let gateway = gateway.ok_or(NO_ROUTER)?;
    let towards = own_address(gateway).map_err(unknown)?;
    let host = net::interface::addresses_v4().map_err(unknown)?;
    judge(wish, listen, (gateway, towards), &host)
}

/// Returns the IPv4 address from which this host sends to the Internet, if it does so through a router.
pub(crate) fn towards_router() -> Option<Ipv4Addr> {
    let gateway = net::interface::default_gateway().ok()??;
    own_address(gateway).ok()
}

/// Returns the address from which this host sends to the router.
fn own_address(gateway: Ipv4Addr) -> io::Result<Ipv4Addr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect((gateway, PORT))?;
    match socket.local_addr()?.ip() {
        IpAddr::V4(ip) => Ok(ip),
        IpAddr::V6(_) => Err(io::ErrorKind::AddrNotAvailable.into()),
    }
}

/// Decides for a host with the addresses `host` and the masks of their networks, which reaches the router from the
/// address `towards`.
///
/// Choice: a public IPv6 address does not make a host a server, because hosts in a home have one.
fn judge(
    wish: Wish,
    listen: &[SocketAddr],
    (gateway, towards): (Ipv4Addr, Ipv4Addr),
    host: &[(Ipv4Addr, Ipv4Addr)],
) -> Found {
    if wish == Wish::Auto && host.iter().any(|(ip, _)| is_public(*ip)) {
        return Err("this host has a public address");
    }
    let own = |at: &SocketAddr| match at {
        SocketAddr::V4(at) if at.ip().is_unspecified() => {
            Some(SocketAddrV4::new(towards, at.port()))
        }
        SocketAddr::V4(at) if !at.ip().is_loopback() => Some(*at),
        SocketAddr::V4(_) | SocketAddr::V6(_) => None,
    };
    let all: Vec<SocketAddrV4> = listen.iter().filter_map(own).collect();
    let at_route = all.iter().find(|at| *at.ip() == towards);
    let mask = host.iter().find(|(ip, _)| *ip == towards);
    let mask = mask.map_or(Ipv4Addr::BROADCAST, |(_, mask)| *mask);
    // Take another address of the same network. The router does not know addresses of other networks.
    let is_beside = |at: &&SocketAddrV4| *at.ip() & mask == towards & mask;
    let own = at_route.or_else(|| all.iter().find(is_beside));
    let own = *own.ok_or("no socket of the node is on the router's network")?;
    Ok(Place { gateway, own })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTER: Ipv4Addr = Ipv4Addr::new(192, 168, 1, 1);
    const OWN: Ipv4Addr = Ipv4Addr::new(192, 168, 1, 2);
    const PUBLIC: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);

    fn judged(wish: Wish, listen: &[&str], host: &[Ipv4Addr]) -> Result<String, &'static str> {
        let listen: Vec<SocketAddr> = listen.iter().map(|at| at.parse().unwrap()).collect();
        let host = host.iter().map(|ip| (*ip, Ipv4Addr::new(255, 255, 255, 0)));
        let host: Vec<_> = host.collect();
        let place = judge(wish, &listen, (ROUTER, OWN), &host)?;
        assert_eq!(place.gateway, ROUTER);
        Ok(place.own.to_string())
    }

    #[test]
    fn the_socket_towards_the_router_is_mapped() {
        let ok = |at: &str| Ok(at.to_owned());
        let own = ok("192.168.1.2:7700");
        assert_eq!(judged(Wish::Auto, &["0.0.0.0:7700"], &[OWN]), own);
        assert_eq!(judged(Wish::Auto, &["192.168.1.2:7700"], &[OWN]), own);
        let several = [
            "[::]:7700",
            "127.0.0.1:7700",
            "10.0.0.2:7700",
            "0.0.0.0:7701",
        ];
        assert_eq!(judged(Wish::Auto, &several, &[OWN]), ok("192.168.1.2:7701"));
        let beside = ["10.0.0.2:7700", "192.168.1.3:7700"];
        assert_eq!(judged(Wish::Auto, &beside, &[OWN]), ok("192.168.1.3:7700"));
        assert!(
            judged(Wish::Yes, &several[..3], &[OWN]).is_err(),
            "10.0.0.2 is on another network"
        );
        assert!(judged(Wish::Yes, &several[..2], &[OWN]).is_err());
    }

    #[test]
    fn a_host_with_a_public_address_maps_only_when_it_is_told_to() {
        for listen in ["0.0.0.0:7700", "192.168.1.2:7700", "198.51.100.7:7700"] {
            let refused = judged(Wish::Auto, &[listen], &[OWN, PUBLIC]);
            assert_eq!(refused, Err("this host has a public address"), "{listen}");
        }
        let asked = judged(Wish::Yes, &["0.0.0.0:7700"], &[OWN, PUBLIC]);
        assert_eq!(asked, Ok("192.168.1.2:7700".to_owned()));
    }

    #[test]
    fn what_can_never_be_is_not_looked_for() {
        let listen = |text: &str| vec![text.parse::<SocketAddr>().unwrap()];
        let open = listen("0.0.0.0:7700");
        assert_eq!(never(Wish::Auto, &open, true), None);
        assert_eq!(never(Wish::Yes, &open, false), None);
        assert!(never(Wish::Auto, &open, false).is_some());
        assert!(never(Wish::No, &open, true).is_some());
        assert!(never(Wish::Yes, &listen("[::]:7700"), true).is_some());
        assert!(never(Wish::Yes, &listen("127.0.0.1:7700"), true).is_some());
    }
}
