//! Chooses the uplinks of the connections to a node.
//!
//! ```text
//!   stripe 0, 2, ..   the address of the path in use, from wherever the kernel sends
//!   stripe 1, 3, ..   10.2.0.1 ─────── 10.2.0.2, the address of the neighbour by another path of the link
//! ```
//! The link has chosen which paths bulk data takes, for streams and for these connections alike. Each such path is up,
//! so both ends have proved to be there. If a neighbour listens for bulk data at only one of its addresses, it refuses
//! the others, and all connections use that one.

use super::dial::PATIENCE;
use super::socket::Socket;
use net::dial::connect_from;
use overlay::link::MAX_PATHS;
use overlay::snapshot::{LinkStatus, PathStatus};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long the connection by another uplink may take. Its path answers hellos, so if there is no answer here, a
/// firewall is the reason. Choice: a lost SYN is repeated after one second, and the other end waits for all connections
/// together.
const OTHER_PATIENCE: Duration = Duration::from_secs(2);
const _: () = assert!(OTHER_PATIENCE.as_secs() * (MAX_PATHS as u64 - 1) < PATIENCE.as_secs());

/// The addresses of a node for TCP, beginning with the path in use.
#[derive(Debug)]
pub(super) struct Legs {
    first: SocketAddr,
    others: Vec<Leg>,
}

#[derive(Debug)]
struct Leg {
    from: IpAddr,
    at: SocketAddr,
    /// A connection by it has failed.
    is_closed: AtomicBool,
}

impl Legs {
    /// Creates a single leg to this address.
    pub(super) fn one(at: SocketAddr) -> Legs {
        Legs {
            first: at,
            others: Vec::new(),
        }
    }

    /// Creates the legs to a neighbour that is reached at `first`. The others are the paths that bulk data takes and
    /// whose addresses at both ends are known.
    pub(super) fn of(link: &LinkStatus, first: SocketAddr) -> Legs {
        let leg = |path: &PathStatus| {
            let from: SocketAddr = path.from.as_ref()?.parse().ok()?;
            let at: SocketAddr = path.at.as_ref()?.parse().ok()?;
            // A socket for all addresses of a host does not show from which of them a path leaves.
            let is_fit = !from.ip().is_unspecified() && from.is_ipv4() == at.is_ipv4();
            is_fit.then_some(Leg {
                from: from.ip(),
                at,
                is_closed: AtomicBool::new(false),
            })
        };
        let shares = link.paths.iter().filter(|path| path.shares);
        Legs {
            first,
            others: shares.filter_map(leg).collect(),
        }
    }

    /// Returns true if the first leg leads to this address.
    pub(super) fn leads_to(&self, at: SocketAddr) -> bool {
        self.first == at
    }

    /// Returns the number of legs.
    pub(super) fn count(&self) -> usize {
        1 + self.others.len()
    }

    /// Connects by the first leg.
    pub(super) fn connect(&self) -> io::Result<Socket> {
        TcpStream::connect_timeout(&self.first, PATIENCE).map(Socket::Tcp)
    }

    /// Connects for a stripe. If its leg cannot be connected, the first one is used.
    pub(super) fn connect_stripe(&self, stripe: u8) -> io::Result<Socket> {
        let Some(leg) = self.leg_of(stripe) else {
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

    /// Returns the leg of a stripe; none for the first.
    fn leg_of(&self, stripe: u8) -> Option<&Leg> {
        let place = usize::from(stripe) % self.count();
        let leg = self.others.get(place.checked_sub(1)?)?;
        (!leg.is_closed.load(Ordering::Relaxed)).then_some(leg)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leg(from: &str, at: &str) -> Leg {
        Leg {
            from: from.parse().unwrap(),
            at: at.parse().unwrap(),
            is_closed: AtomicBool::new(false),
        }
    }

    #[test]
    fn stripes_take_the_uplinks_in_turn_and_the_first_for_one_that_is_closed() {
        let legs = Legs {
            first: "10.1.0.2:7700".parse().unwrap(),
            others: vec![
                leg("10.2.0.1", "10.2.0.2:7700"),
                leg("10.3.0.1", "10.3.0.2:7700"),
            ],
        };
        let taken = || {
            let at = |stripe| legs.leg_of(stripe).map_or(legs.first, |leg| leg.at);
            [0, 1, 2, 3, 4].map(|stripe| at(stripe).ip().to_string())
        };
        let [one, two, three] = ["10.1.0.2", "10.2.0.2", "10.3.0.2"];
        assert_eq!(taken(), [one, two, three, one, two]);
        legs.others[0].is_closed.store(true, Ordering::Relaxed);
        assert_eq!(taken(), [one, one, three, one, one]);
        assert_eq!(Legs::one(legs.first).count(), 1);
    }
}
