//! Finds the addresses of this host's own interfaces at which the node listens. A thread of its own does this, and
//! passes them to the node.
//!
//! ```text
//!   interfaces ── every 30 s ──▶ addresses ── without loopback, containers, tunnels ──▶ Operation::Hosts ──▶ loop
//! ```
//! Nodes behind the same router reach the node at these addresses. Other nodes use them if they are of an address
//! family in which no neighbour sees the node.

use crate::command::Commander;
use net::interface::Address;
use overlay::request::Operation;
use std::cmp::Reverse;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;
use wire::Endpoint;

/// How often the interfaces are read. Choice: as often as the node looks for the router.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// Number of addresses of each family that the node gets. It tells other nodes fewer.
const MOST: usize = 4;
/// Name prefixes of interfaces that lead to containers and virtual machines of this host, or into this network itself.
const INSIDE: [&str; 12] = [
    "cali", "cni", "docker", "flannel", "kube", "lxcbr", "lxdbr", "podman", "sinew", "veth",
    "virbr", "vnet",
];

/// The running thread. Dropping this value ends it.
#[derive(Debug)]
pub struct Looker {
    _alive: SyncSender<()>,
}

impl Looker {
    /// Looks for addresses of a node that listens on `listen`.
    ///
    /// # Errors
    /// Returns the system's error if it cannot start a thread.
    pub fn start(listen: Vec<SocketAddr>, commander: Commander) -> io::Result<Looker> {
        let (alive, ended) = sync_channel(0);
        let mut told = Vec::new();
        let work = move || {
            let mut wait = Duration::ZERO;
            while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                wait = LOOK_EVERY;
                // The next look may succeed.
                let Ok(found) = net::interface::addresses() else {
                    continue;
                };
                let hosts = choose(&listen, &found, crate::mapping::towards_router());
                let is_told = || commander.operate(Operation::Hosts(hosts.clone())).is_ok();
                if hosts != told && is_told() {
                    told = hosts;
                }
            }
        };
        let thread = std::thread::Builder::new().name("addresses".into());
        thread.spawn(work)?;
        Ok(Looker { _alive: alive })
    }
}

/// Returns true for a socket bound to `::` that also accepts IPv4, which is so if no IPv4 socket has the same port.
pub fn is_of_both(at: SocketAddr, listen: &[SocketAddr]) -> bool {
    let has_ipv4 = |other: &SocketAddr| other.is_ipv4() && other.port() == at.port();
    at.is_ipv6() && at.ip().is_unspecified() && !listen.iter().any(has_ipv4)
}

/// Returns the sockets that this host can have: without those at `::` if it has no IPv6 at all, unless none would be
/// left.
pub fn possible(listen: &[SocketAddr], has_ipv6: bool) -> Vec<SocketAddr> {
    let is_any_v6 = |at: &SocketAddr| at.is_ipv6() && at.ip().is_unspecified();
    let is_possible = |at: &&SocketAddr| has_ipv6 || !is_any_v6(at);
    let possible: Vec<SocketAddr> = listen.iter().filter(is_possible).copied().collect();
    match possible.is_empty() {
        true => listen.to_vec(),
        false => possible,
    }
}

/// Returns the addresses at which nodes of the same local network, or of another address family, may reach a node that
/// listens on `listen`, the best first: the address towards the router, a public IPv6 address, and the rest in turn.
fn choose(
    listen: &[SocketAddr],
    found: &[Address],
    towards_router: Option<Ipv4Addr>,
) -> Vec<Endpoint> {
    let outside: Vec<IpAddr> = found
        .iter()
        .filter(|it| !is_inside(&it.interface))
        .map(|it| it.ip)
        .collect();
    let of = |ipv4: bool| {
        let mut all: Vec<SocketAddr> = Vec::new();
        for at in listen {
            let ips: &[IpAddr] = match at.ip() {
                ip if ip.is_unspecified() => &outside,
                ip => &[ip],
            };
            let is_of_both = is_of_both(*at, listen);
            let fits = |ip: &&IpAddr| ip.is_ipv4() == at.is_ipv4() || ip.is_ipv4() && is_of_both;
            let ips = ips.iter().filter(|ip| ip.is_ipv4() == ipv4).filter(fits);
            all.extend(ips.map(|ip| SocketAddr::new(*ip, at.port())));
        }
        let mut all: Vec<(IpAddr, Endpoint)> = all
            .iter()
            .map(|at| (at.ip(), endpoint(*at)))
            .filter(|(_, at)| at.is_dialable() && !at.is_link_local())
            .collect();
        all.sort_by_key(|(ip, at)| match ip {
            IpAddr::V4(ip) => Reverse(Some(*ip) == towards_router),
            IpAddr::V6(_) => Reverse(at.is_public()),
        });
        let mut all: Vec<Endpoint> = all.into_iter().map(|(_, at)| at).collect();
        all.truncate(MOST);
        all.into_iter()
    };
    let (mut of_ipv4, mut of_ipv6) = (of(true), of(false));
    let mut hosts = Vec::new();
    for _ in 0..MOST {
        hosts.extend(of_ipv4.next());
        hosts.extend(of_ipv6.next());
    }
    hosts
}

/// Returns true if the interface leads to containers, virtual machines or this network. The name of a Docker bridge
/// ends in 12 hexadecimal digits; other bridges, such as `br-lan`, may be the local network.
fn is_inside(interface: &str) -> bool {
    let id = interface.strip_prefix("br-").unwrap_or_default();
    let is_docker = id.len() == 12 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_docker || INSIDE.iter().any(|name| interface.starts_with(name))
}

fn endpoint(at: SocketAddr) -> Endpoint {
    let ip = match at.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    Endpoint {
        ip: ip.octets(),
        port: at.port(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(listen: &[&str]) -> Vec<String> {
        let listen: Vec<SocketAddr> = listen.iter().map(|at| at.parse().unwrap()).collect();
        let found = [
            ("docker0", "172.17.0.1"),
            ("br-0123456789ab", "172.18.0.1"),
            ("br-lan", "192.168.2.7"),
            ("wlan0", "fe80::7"),
            ("wlan0", "fd00::7"),
            ("eth0", "192.168.1.7"),
            ("eth0", "2001:db8::7"),
            ("eth1", "169.254.1.7"),
        ];
        let found = found.map(|(interface, ip)| Address {
            interface: interface.to_owned(),
            ip: ip.parse().unwrap(),
        });
        let hosts = choose(&listen, &found, Some(Ipv4Addr::new(192, 168, 1, 7)));
        let shown = |at: Endpoint| SocketAddr::new(at.ip.into(), at.port);
        let shown = hosts
            .into_iter()
            .map(|at| shown(at).to_string().replace("::ffff:", ""));
        shown.collect()
    }

    #[test]
    fn a_socket_serves_both_families_unless_another_one_serves_ipv4() {
        let both: Vec<SocketAddr> = ["0.0.0.0:7700", "[::]:7700", "[::]:7701", "[::1]:7701"]
            .map(|at| at.parse().unwrap())
            .to_vec();
        let serves = both.iter().map(|at| is_of_both(*at, &both));
        assert_eq!(serves.collect::<Vec<_>>(), [false, false, true, false]);
        assert_eq!(possible(&both, true), both);
        assert_eq!(possible(&both, false), [both[0], both[3]]);
        assert_eq!(possible(&both[1..3], false), both[1..3]);
    }

    #[test]
    fn a_node_listens_at_the_addresses_of_its_host_that_others_can_have() {
        let both = [
            "[192.168.1.7]:7700",
            "[2001:db8::7]:7700",
            "[192.168.2.7]:7700",
            "[fd00::7]:7700",
        ];
        assert_eq!(chosen(&["0.0.0.0:7700", "[::]:7700"]), both);
        assert_eq!(chosen(&["0.0.0.0:7700"]), [both[0], both[2]]);
        // One socket serves both families.
        assert_eq!(chosen(&["[::]:7700"]), both);
        // Only the configured address is used.
        assert_eq!(chosen(&["172.17.0.1:1"]), ["[172.17.0.1]:1"]);
        let none: [&str; 0] = [];
        assert_eq!(chosen(&["127.0.0.1:7700"]), none);
        assert_eq!(chosen(&["[::1]:7700"]), none);
    }
}
