//! Over which uplinks the connections to a node go.
//!
//! ```text
//!   stripe 0, 2, ..   the address of the path in use, from wherever the kernel sends
//!   stripe 1, 3, ..   10.2.0.1 ─────── 10.2.0.2, the address of the neighbour by another path of the link
//! ```
//! What pairs of addresses there are the link knows: each is a path of it that is up, so both ends have proved that they are
//! there. A neighbour that listens for bulk data at one of its addresses alone refuses the others, and all connections
//! go to that one.

use super::dial::PATIENCE;
use super::socket::Socket;
use net::dial::connect_from;
use overlay::snapshot::LinkStatus;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// So long another uplink may take to be connected: its path answers hellos, so what is silent here is a firewall. Choice:
/// a lost SYN is repeated after one second.
const OTHER_PATIENCE: Duration = Duration::from_secs(3);

/// The ways to a node by TCP, the path in use first.
#[derive(Debug)]
pub(super) struct Legs {
    first: SocketAddr,
    others: Vec<Leg>,
}

#[derive(Debug)]
struct Leg {
    from: IpAddr,
    at: SocketAddr,
    /// It could not be connected once.
    is_closed: AtomicBool,
}

impl Legs {
    /// The one that leads there.
    pub(super) fn one(at: SocketAddr) -> Legs {
        Legs {
            first: at,
            others: Vec::new(),
        }
    }

    /// Those of a neighbour that is reached at `first`: each further one has another own address and another one there
    /// than those before it, or if there is no such path, one of the two.
    pub(super) fn of(link: &LinkStatus, first: SocketAddr) -> Legs {
        let ends = |path: &overlay::snapshot::PathStatus| {
            let from: SocketAddr = path.from.as_ref()?.parse().ok()?;
            let at: SocketAddr = path.at.as_ref()?.parse().ok()?;
            let is_fit = !from.ip().is_unspecified() && from.is_ipv4() == at.is_ipv4();
            is_fit.then_some((from.ip(), at))
        };
        let is_open = |path: &&overlay::snapshot::PathStatus| path.state == "up";
        let used = link.paths.iter().find(|path| path.in_use).and_then(ends);
        let Some(used) = used.filter(|(_, at)| *at == first && link.over != "tcp") else {
            return Legs::one(first);
        };
        let spares = link.paths.iter().filter(|path| !path.in_use);
        let spares: Vec<_> = spares.filter(is_open).filter_map(ends).collect();
        let common = |a: &(IpAddr, SocketAddr), b: &(IpAddr, SocketAddr)| {
            usize::from(a.0 == b.0) + usize::from(a.1 == b.1)
        };
        let least = spares.iter().map(|spare| common(&used, spare)).min();
        let mut chosen = vec![used];
        for spare in spares {
            let is_apart = |other| Some(common(other, &spare)) <= least;
            if chosen.iter().all(is_apart) && !chosen.contains(&spare) {
                chosen.push(spare);
            }
        }
        let leg = |(from, at)| Leg {
            from,
            at,
            is_closed: AtomicBool::new(false),
        };
        Legs {
            first,
            others: chosen.into_iter().skip(1).map(leg).collect(),
        }
    }

    /// The first one leads there.
    pub(super) fn leads_to(&self, at: SocketAddr) -> bool {
        self.first == at
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        1 + self.others.len()
    }

    /// Connects by the first one.
    pub(super) fn connect(&self) -> io::Result<Socket> {
        TcpStream::connect_timeout(&self.first, PATIENCE).map(Socket::Tcp)
    }

    /// Connects for a stripe; by the first one where another cannot be connected.
    pub(super) fn connect_stripe(&self, stripe: u8) -> io::Result<Socket> {
        let place = usize::from(stripe) % self.count();
        let leg = place
            .checked_sub(1)
            .and_then(|place| self.others.get(place));
        let Some(leg) = leg.filter(|leg| !leg.is_closed.load(Ordering::Relaxed)) else {
            return self.connect();
        };
        match connect_from(leg.from, leg.at, OTHER_PATIENCE) {
            Ok(tcp) => Ok(Socket::Tcp(tcp)),
            Err(_) => {
                leg.is_closed.store(true, Ordering::Relaxed);
                self.connect()
            }
        }
    }
}
