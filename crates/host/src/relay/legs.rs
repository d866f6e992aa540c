//! Over which uplinks the connections to a node go.
//!
//! ```text
//!   stripe 0, 2, ..   the address of the path in use, from wherever the kernel sends
//!   stripe 1, 3, ..   10.2.0.1 ─────── 10.2.0.2, the address of the neighbour by another path of the link
//! ```
//! Which paths bulk data takes the link has chosen, for streams and for these alike. Each is up, so both ends have proved
//! that they are there. A neighbour that listens for bulk data at one of its addresses alone refuses the others, and all
//! connections go to that one.

use super::dial::PATIENCE;
use super::socket::Socket;
use net::dial::connect_from;
use overlay::link::MAX_PATHS;
use overlay::snapshot::{LinkStatus, PathStatus};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// So long another uplink may take to be connected: its path answers hellos, so what is silent here is a firewall. Choice:
/// a lost SYN is repeated after one second, and the other end waits for all connections together.
const OTHER_PATIENCE: Duration = Duration::from_secs(2);
const _: () = assert!(OTHER_PATIENCE.as_secs() * (MAX_PATHS as u64 - 1) < PATIENCE.as_secs());

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

    /// Those of a neighbour that is reached at `first`: beside it, the paths that bulk data takes and of which both ends'
    /// addresses are known.
    pub(super) fn of(link: &LinkStatus, first: SocketAddr) -> Legs {
        let leg = |path: &PathStatus| {
            let from: SocketAddr = path.from.as_ref()?.parse().ok()?;
            let at: SocketAddr = path.at.as_ref()?.parse().ok()?;
            // A socket for all addresses of a host does not tell by which one a path leaves.
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

    /// The one that a stripe takes; none for the first.
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
