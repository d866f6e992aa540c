//! Hosts in a row: all on loopback, or each in a network namespace of its own with veth between neighbours. The hosts
//! also forward packets for each other.
//!
//! ```text
//!   host 0 ─ 10.91.0.1 ══ 10.91.0.2 ─ host 1 ─ 10.91.1.1 ══ 10.91.1.2 ─ host 2
//! ```

use super::BenchError;
use net::netns::Namespace;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Hosts in a row.
pub(crate) struct Row {
    /// The namespaces; empty on loopback.
    spaces: Vec<Namespace>,
}

impl Row {
    /// Creates `count` hosts, in namespaces if `netns`.
    pub(crate) fn new(count: usize, netns: bool) -> Result<Row, BenchError> {
        if !netns {
            return Ok(Row { spaces: Vec::new() });
        }
        net::netns::available().map_err(|why| BenchError::Start(why.to_string()))?;
        let start = |error: &dyn std::fmt::Display| BenchError::Start(error.to_string());
        let spaces: Result<Vec<_>, _> = (0..count).map(|_| Namespace::new()).collect();
        let spaces = spaces.map_err(|error| start(&error))?;
        let row = Row { spaces };
        for i in 0..count.saturating_sub(1) {
            row.connect(i).map_err(|error| start(&error))?;
        }
        for i in 0..count {
            row.route(i, count).map_err(|error| start(&error))?;
        }
        Ok(row)
    }

    /// Returns the medium between the hosts.
    pub(crate) fn medium(&self) -> &'static str {
        if self.spaces.is_empty() {
            "loopback"
        } else {
            "veth between network namespaces"
        }
    }

    /// Returns the network of host `i`, if it has one of its own.
    pub(crate) fn space(&self, i: usize) -> Option<&Namespace> {
        self.spaces.get(i)
    }

    /// Returns the address of host `i` on its link to its neighbour `other`.
    pub(crate) fn ip(&self, i: usize, other: usize) -> IpAddr {
        if self.spaces.is_empty() {
            Ipv4Addr::LOCALHOST.into()
        } else {
            ip(i, other).into()
        }
    }

    /// Returns a wildcard address with any port for host `i`.
    pub(crate) fn any(&self) -> SocketAddr {
        let ip = if self.spaces.is_empty() {
            Ipv4Addr::LOCALHOST
        } else {
            Ipv4Addr::UNSPECIFIED
        };
        (ip, 0).into()
    }

    /// Does something in the network of host `i`, such as opening a socket. The calling thread stays in that network;
    /// every thread here enters the network that it needs.
    pub(crate) fn within<T>(&self, i: usize, work: impl FnOnce() -> T) -> Result<T, BenchError> {
        if let Some(space) = self.spaces.get(i) {
            space.enter()?;
        }
        Ok(work())
    }

    /// Puts a cable between host `i` and the next one.
    fn connect(&self, i: usize) -> Result<(), net::netns::SetupError> {
        let (this, next) = (&self.spaces[i], &self.spaces[i + 1]);
        let (right, left) = (format!("right{i}"), format!("left{}", i + 1));
        this.veth(&right, next, &left)?;
        this.ip(&[
            "addr",
            "add",
            &format!("{}/24", ip(i, i + 1)),
            "dev",
            &right,
        ])?;
        next.ip(&["addr", "add", &format!("{}/24", ip(i + 1, i)), "dev", &left])
    }

    /// Lets host `i` forward, and sets its routes to the others.
    fn route(&self, i: usize, count: usize) -> Result<(), net::netns::SetupError> {
        let space = &self.spaces[i];
        space.sysctl("net/ipv4/ip_forward", "1")?;
        for link in 0..count - 1 {
            let via = match link {
                _ if link + 1 < i => ip(i - 1, i),
                _ if link > i => ip(i + 1, i),
                _ => continue,
            };
            space.ip(&[
                "route",
                "add",
                &format!("10.91.{link}.0/24"),
                "via",
                &via.to_string(),
            ])?;
        }
        Ok(())
    }
}

fn ip(i: usize, other: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 91, i.min(other) as u8, if i < other { 1 } else { 2 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_a_cable_are_in_one_network() {
        assert_eq!(ip(0, 1), Ipv4Addr::new(10, 91, 0, 1));
        assert_eq!(ip(1, 0), Ipv4Addr::new(10, 91, 0, 2));
        assert_eq!(ip(2, 1), Ipv4Addr::new(10, 91, 1, 2));
        let row = Row::new(3, false).unwrap();
        assert_eq!(
            (row.ip(0, 1), row.medium()),
            (Ipv4Addr::LOCALHOST.into(), "loopback")
        );
        assert_eq!(row.within(1, || 5).unwrap(), 5);
    }
}
