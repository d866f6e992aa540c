//! A chain as networks of this machine: a namespace for each host, an emulated link between
//! neighbours, and routes, so that the ends also reach each other by what the kernels forward.
//!
//! ```text
//!   a ══ link0 ══ b ══ link1 ══ c ══ … ══ link5 ══ g       ══ two TAP devices, sinew emulate between
//! ```

use crate::experiment::CellError;
use base::impair::Model;
use net::netns::{Namespace, SetupError};
use std::net::Ipv4Addr;
use tools::emulate::bridge::Bridge;
use tools::emulate::end::{self, End};
use tools::emulate::{Options, Place};

const MTU: usize = 1_500;

/// The running networks. They go when this is dropped.
pub(super) struct Site {
    _bridges: Vec<Bridge>,
    _ends: Vec<[End; 2]>,
    hosts: Vec<Namespace>,
}

impl Site {
    /// Makes the networks; each link is like its words, there and back.
    pub(super) fn new(links: &[&str], seed: u64) -> Result<Site, CellError> {
        net::netns::available().map_err(|why| {
            CellError(format!("the experiment needs namespaces of its own: {why}"))
        })?;
        let host = |_| -> Result<Namespace, SetupError> {
            let space = Namespace::new()?;
            space.sysctl("net/ipv4/ip_forward", "1")?;
            // What kernels keep of a path's past would let one run decide the next.
            space.sysctl("net/ipv4/tcp_no_metrics_save", "1")?;
            Ok(space)
        };
        let hosts: Result<Vec<_>, _> = (0..=links.len()).map(host).collect();
        let mut site = Site {
            _bridges: Vec::new(),
            _ends: Vec::new(),
            hosts: hosts.map_err(failed)?,
        };
        for (link, words) in links.iter().enumerate() {
            site.link(link, words, seed)?;
        }
        for from in 0..=links.len() {
            site.routes(from).map_err(failed)?;
        }
        Ok(site)
    }

    fn link(&mut self, link: usize, words: &str, seed: u64) -> Result<(), CellError> {
        let text = |error: &dyn std::fmt::Display| CellError(error.to_string());
        let model: Model = words.parse().expect("the words are this experiment's own");
        let file = |host: usize| Place::Namespace(self.hosts[host].path().display().to_string());
        let options = Options {
            between: [file(link), file(link + 1)],
            models: [model.clone(), model],
            interface: format!("link{link}"),
            addresses: [near(link), far(link)].map(|address| vec![format!("{address}/24")]),
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

    /// From a host to all links that are not its own.
    fn routes(&self, from: usize) -> Result<(), SetupError> {
        for link in 0..self.hosts.len() - 1 {
            let via = match link {
                _ if link > from => far(from),
                _ if link + 1 < from => near(from - 1),
                _ => continue,
            };
            let net = format!("10.95.{link}.0/24");
            self.hosts[from].ip(&["route", "add", &net, "via", &via.to_string()])?;
        }
        Ok(())
    }

    /// How many hosts there are, one more than links.
    pub(super) fn hosts(&self) -> usize {
        self.hosts.len()
    }

    /// What a host has received and sent over a link, in bytes of Ethernet frames.
    pub(super) fn counted(&self, host: usize, link: usize) -> Result<(u64, u64), CellError> {
        let read = || std::fs::read_to_string("/proc/thread-self/net/dev");
        let text = self.hosts[host].run(read).map_err(failed)?;
        let text = text.map_err(|error| CellError(error.to_string()))?;
        let name = format!("link{link}:");
        let line = text
            .lines()
            .find_map(|line| line.trim().strip_prefix(&name));
        let number = |at: usize| line?.split_whitespace().nth(at)?.parse().ok();
        // Received: eight numbers, bytes first; then as many of what was sent.
        let both = number(0).zip(number(8));
        both.ok_or_else(|| CellError(format!("the kernel counts nothing of {name}")))
    }

    /// The network of a host.
    pub(super) fn host(&self, host: usize) -> &Namespace {
        &self.hosts[host]
    }
}

/// The address of a host at the link towards the first; the first one's at its only link.
pub(super) fn address(host: usize) -> Ipv4Addr {
    match host {
        0 => near(0),
        _ => far(host - 1),
    }
}

/// The near and the far end of a link.
fn near(link: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 95, link as u8, 1)
}

fn far(link: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 95, link as u8, 2)
}

fn failed(error: SetupError) -> CellError {
    CellError(error.to_string())
}
