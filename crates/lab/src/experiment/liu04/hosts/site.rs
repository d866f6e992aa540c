//! Hosts as networks of this machine: a namespace for each, an emulated link between some, and routes, so that hosts
//! without a link of their own reach each other through the kernels' forwarding.
//!
//! ```text
//!   a ══ link0 ══ b ══ link1 ══ c ══ … ══ link5 ══ g       ══ two TAP devices, sinew emulate between
//! ```
//!
//! The hosts' kernels use one congestion control unless a socket requests another. A network namespace may use only the
//! controls that the machine allows to everybody: a missing one is added to that list for as long as the site exists.

use crate::experiment::CellError;
use base::impair::Model;
use net::netns::{Namespace, SetupError};
use std::collections::VecDeque;
use std::fs;
use std::net::Ipv4Addr;
use tools::emulate::bridge::Bridge;
use tools::emulate::end::{self, End};
use tools::emulate::{Options, Place};

const MTU: usize = 1_500;
/// The list of congestion controls that every process of the machine may use, in every network.
const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";

/// A link between two hosts.
#[derive(Clone, Debug)]
pub(in super::super) struct Link {
    /// The hosts: the near end, and the far end.
    pub(in super::super) ends: [usize; 2],
    /// Its model in both directions.
    pub(in super::super) words: String,
}

/// The running networks. Dropping this removes them.
pub(in super::super) struct Site {
    _bridges: Vec<Bridge>,
    _ends: Vec<[End; 2]>,
    links: Vec<Link>,
    hosts: Vec<Namespace>,
    _allowed: Option<Allowed>,
}

impl Site {
    /// Creates the networks. The hosts' kernels use `congestion`.
    pub(in super::super) fn new(
        links: Vec<Link>,
        congestion: &str,
        seed: u64,
    ) -> Result<Site, CellError> {
        net::netns::available().map_err(|why| {
            CellError(format!("the experiment needs namespaces of its own: {why}"))
        })?;
        let allowed = Allowed::new(congestion)?;
        let host = |_| -> Result<Namespace, SetupError> {
            let space = Namespace::new()?;
            space.sysctl("net/ipv4/ip_forward", "1")?;
            // Otherwise the kernels' records of a path's past would influence the next run.
            space.sysctl("net/ipv4/tcp_no_metrics_save", "1")?;
            space.sysctl("net/ipv4/tcp_congestion_control", congestion)?;
            Ok(space)
        };
        let last = links.iter().flat_map(|link| link.ends).max().unwrap_or(0);
        let hosts: Result<Vec<_>, _> = (0..=last).map(host).collect();
        let mut site = Site {
            _bridges: Vec::new(),
            _ends: Vec::new(),
            links,
            hosts: hosts.map_err(failed)?,
            _allowed: allowed,
        };
        for link in 0..site.links.len() {
            site.join(link, seed)?;
        }
        for from in 0..site.hosts.len() {
            site.routes(from).map_err(failed)?;
        }
        Ok(site)
    }

    /// Creates a chain of hosts; the words define the links.
    pub(in super::super) fn chain(
        links: &[&str],
        congestion: &str,
        seed: u64,
    ) -> Result<Site, CellError> {
        let link = |(at, words): (usize, &&str)| Link {
            ends: [at, at + 1],
            words: (*words).to_owned(),
        };
        Site::new(
            links.iter().enumerate().map(link).collect(),
            congestion,
            seed,
        )
    }

    fn join(&mut self, link: usize, seed: u64) -> Result<(), CellError> {
        let text = |error: &dyn std::fmt::Display| CellError(error.to_string());
        let Link { ends, words } = &self.links[link];
        let model: Model = words.parse().expect("the words are this experiment's own");
        let file = |host: usize| Place::Namespace(self.hosts[host].path().display().to_string());
        let options = Options {
            between: ends.map(file),
            models: [model.clone(), model],
            interface: format!("link{link}"),
            addresses: [0, 1].map(|end| vec![format!("{}/24", address(link, end))]),
            mtu: MTU,
            seed: seed ^ link as u64,
            seconds: None,
        };
        let ends = end::open(&options).map_err(|error| text(&error))?;
        let taps = ends.each_ref().map(End::tap);
        let bridge = Bridge::start(taps, &options.models, options.seed);
        self._bridges.push(bridge.map_err(|error| text(&error))?);
        self._ends.push(ends);
        Ok(())
    }

    /// Sets a host's routes to all links that are not its own, by the fewest links.
    fn routes(&self, from: usize) -> Result<(), SetupError> {
        let gateways = self.gateways(from);
        for (link, Link { ends, .. }) in self.links.iter().enumerate() {
            if ends.contains(&from) {
                continue;
            }
            let nearer = ends.iter().filter_map(|end| gateways[*end]);
            let Some((_, gateway)) = nearer.min_by_key(|(hops, _)| *hops) else {
                continue;
            };
            let net = format!("10.95.{link}.0/24");
            self.hosts[from].ip(&["route", "add", &net, "via", &gateway.to_string()])?;
        }
        Ok(())
    }

    /// Returns the number of links between a host and each other one, and the address of the first host on the path.
    fn gateways(&self, from: usize) -> Vec<Option<(usize, Ipv4Addr)>> {
        let mut gateways = vec![None; self.hosts.len()];
        let mut queue = VecDeque::from([(from, 0)]);
        while let Some((here, hops)) = queue.pop_front() {
            for (link, Link { ends, .. }) in self.links.iter().enumerate() {
                let Some(near) = ends.iter().position(|end| *end == here) else {
                    continue;
                };
                let next = ends[1 - near];
                if next == from || gateways[next].is_some() {
                    continue;
                }
                let first = gateways[here].map_or(address(link, 1 - near), |(_, first)| first);
                gateways[next] = Some((hops + 1, first));
                queue.push_back((next, hops + 1));
            }
        }
        gateways
    }

    /// Returns the number of hosts.
    pub(in super::super) fn hosts(&self) -> usize {
        self.hosts.len()
    }

    /// Returns the links, in their order.
    pub(in super::super) fn links(&self) -> &[Link] {
        &self.links
    }

    /// Returns the address of a host at its first link.
    pub(in super::super) fn address(&self, host: usize) -> Ipv4Addr {
        let mut ends = self.links.iter().enumerate().filter_map(|(link, one)| {
            let end = one.ends.iter().position(|end| *end == host)?;
            Some(address(link, end))
        });
        ends.next().unwrap_or(Ipv4Addr::LOCALHOST)
    }

    /// Returns whether two hosts have a link.
    pub(in super::super) fn are_neighbors(&self, a: usize, b: usize) -> bool {
        let is_between = |link: &Link| link.ends == [a, b] || link.ends == [b, a];
        self.links.iter().any(is_between)
    }

    /// Returns what a host has received and sent over a link, in bytes of Ethernet frames.
    pub(in super::super) fn counted(
        &self,
        host: usize,
        link: usize,
    ) -> Result<(u64, u64), CellError> {
        let read = || fs::read_to_string("/proc/thread-self/net/dev");
        let text = self.hosts[host].run(read).map_err(failed)?;
        let text = text.map_err(|error| CellError(error.to_string()))?;
        let name = format!("link{link}:");
        let line = text
            .lines()
            .find_map(|line| line.trim().strip_prefix(&name));
        let number = |at: usize| line?.split_whitespace().nth(at)?.parse().ok();
        // The kernel gives eight numbers for received data, bytes first; then as many for sent data.
        let both = number(0).zip(number(8));
        both.ok_or_else(|| CellError(format!("the kernel counts nothing of {name}")))
    }

    /// Returns what a host has received over all its links.
    pub(in super::super) fn received(&self, host: usize) -> Result<u64, CellError> {
        let own = self.links.iter().enumerate();
        let own = own.filter(|(_, link)| link.ends.contains(&host));
        own.map(|(link, _)| self.counted(host, link).map(|(received, _)| received))
            .sum()
    }

    /// Returns the network of a host.
    pub(in super::super) fn host(&self, host: usize) -> &Namespace {
        &self.hosts[host]
    }
}

/// Returns the address of a link's near end, 0, or its far one, 1.
pub(in super::super) fn address(link: usize, end: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 95, link as u8, 1 + end as u8)
}

/// A congestion control that the machine temporarily allows to everybody. Dropping this restores the list.
struct Allowed {
    before: String,
}

impl Allowed {
    /// Allows a control; returns `None` if it is already allowed.
    fn new(congestion: &str) -> Result<Option<Allowed>, CellError> {
        let failed = |error: std::io::Error| {
            CellError(format!(
                "hosts of the experiment may not use {congestion} ({error}): sysctl -w \
                 net.ipv4.tcp_allowed_congestion_control=… with it"
            ))
        };
        let before = fs::read_to_string(ALLOWED).map_err(failed)?;
        if before.split_whitespace().any(|name| name == congestion) {
            return Ok(None);
        }
        let with = format!("{} {congestion}", before.trim_end());
        fs::write(ALLOWED, with).map_err(failed)?;
        Ok(Some(Allowed { before }))
    }
}

impl Drop for Allowed {
    fn drop(&mut self) {
        // A process that could write the list before can write it again.
        let _ = fs::write(ALLOWED, &self.before);
    }
}

fn failed(error: SetupError) -> CellError {
    CellError(error.to_string())
}
