//! Hosts in a row, each a network namespace, with an emulated link between neighbours. They forward packets for each
//! other.
//!
//! ```text
//!   host 0 ─ 10.92.0.1 ══ emulator ══ 10.92.0.2 ─ host 1 ─ 10.92.1.1 ══ emulator ══ 10.92.1.2 ─ host 2
//! ```

use crate::bench::BenchError;
use base::impair::Model;
use net::netns::{Namespace, SetupError};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use tools::emulate::bridge::Bridge;
use tools::emulate::end::{self, End};
use tools::emulate::{Options, Place};

/// The row.
pub(super) struct Hosts {
    links: Vec<Link>,
    // This field is dropped last: the interfaces are in the namespaces.
    spaces: Vec<Namespace>,
}

struct Link {
    bridge: Bridge,
    _ends: [End; 2],
}

impl Hosts {
    /// Creates `count` hosts; the links between them do not impair packets yet.
    pub(super) fn new(count: usize, seed: u64) -> Result<Hosts, BenchError> {
        let start = |error: &dyn std::fmt::Display| BenchError::Start(error.to_string());
        net::netns::available().map_err(|why| start(&why))?;
        let spaces: Result<Vec<_>, _> = (0..count).map(|_| Namespace::new()).collect();
        let spaces = spaces.map_err(|error| start(&error))?;
        let mut links = Vec::new();
        for index in 0..count - 1 {
            links.push(Link::new(index, &spaces, seed)?);
        }
        let hosts = Hosts { links, spaces };
        for host in 0..count {
            hosts.route(host).map_err(|error| start(&error))?;
        }
        Ok(hosts)
    }

    /// Sets the model of one link in both directions.
    pub(super) fn set(&self, link: usize, words: &str) {
        for way in 0..2 {
            let model = words.parse().expect("the words are this benchmark's own");
            self.links[link].bridge.set_model(way, model);
        }
    }

    /// Returns the network of a host.
    pub(super) fn space(&self, host: usize) -> &Namespace {
        &self.spaces[host]
    }

    /// Returns the address of a host on its link to its neighbour `other`.
    pub(super) fn ip(&self, host: usize, other: usize) -> Ipv4Addr {
        ip(host, other)
    }

    /// Opens a connection of the kernel from the first host to the last, with this congestion control; returns `None`
    /// if the kernel does not have it.
    pub(super) fn tcp(&self, control: &str) -> Result<Option<(TcpStream, TcpStream)>, BenchError> {
        let last = self.spaces.len() - 1;
        let listener = self.within(last, || TcpListener::bind((ip(last, last - 1), 0)))?;
        let at = listener.local_addr()?;
        let to = self.within(0, || TcpStream::connect(at))?;
        let (from, _) = listener.accept()?;
        // A message leaves as soon as it is written.
        to.set_nodelay(true)?;
        let chosen = net::tcp::set_congestion_control(&to, control);
        Ok(chosen.is_ok().then_some((to, from)))
    }

    fn within<T: Send>(
        &self,
        host: usize,
        work: impl FnOnce() -> std::io::Result<T> + Send,
    ) -> Result<T, BenchError> {
        let done = self.spaces[host].run(work);
        let done = done.map_err(|error| BenchError::Start(error.to_string()))?;
        Ok(done?)
    }

    /// Lets a host forward, and sets its routes to the others.
    fn route(&self, host: usize) -> Result<(), SetupError> {
        let space = &self.spaces[host];
        space.sysctl("net/ipv4/ip_forward", "1")?;
        // Otherwise one connection would reuse what an earlier one learned about the path.
        space.sysctl("net/ipv4/tcp_no_metrics_save", "1")?;
        for link in 0..self.links.len() {
            let via = match link {
                _ if link + 1 < host => ip(host - 1, host),
                _ if link > host => ip(host + 1, host),
                _ => continue,
            };
            let to = format!("10.92.{link}.0/24");
            space.ip(&["route", "add", &to, "via", &via.to_string()])?;
        }
        Ok(())
    }
}

impl Link {
    fn new(index: usize, spaces: &[Namespace], seed: u64) -> Result<Link, BenchError> {
        let start = |error: &dyn std::fmt::Display| BenchError::Start(error.to_string());
        let file = |host: usize| Place::Namespace(spaces[host].path().display().to_string());
        let address = |host: usize, other: usize| vec![format!("{}/24", ip(host, other))];
        let options = Options {
            between: [file(index), file(index + 1)],
            models: [Model::default(), Model::default()],
            interface: format!("hop{index}"),
            addresses: [address(index, index + 1), address(index + 1, index)],
            mtu: 1_500,
            seed: seed.wrapping_add(index as u64),
            seconds: None,
        };
        let ends = end::open(&options).map_err(|error| start(&error))?;
        let taps = ends.each_ref().map(End::tap);
        Ok(Link {
            bridge: Bridge::start(taps, &options.models, options.seed)?,
            _ends: ends,
        })
    }
}

fn ip(host: usize, other: usize) -> Ipv4Addr {
    Ipv4Addr::new(
        10,
        92,
        host.min(other) as u8,
        if host < other { 1 } else { 2 },
    )
}
