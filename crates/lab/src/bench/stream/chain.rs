//! The chain of three nodes as processes, and a stream between clients of the outer two.

use super::transfer::transfer;
use super::{Arena, BenchError, Trial};
use crate::bench::credentials::address;
use crate::bench::fleet::{Beside, Fleet, Spec};
use crate::control;
use crate::ports;
use client::{Listener, Node, Options, Target};
use serde_json::Value;
use std::net::{Shutdown, SocketAddr};

const NODES: usize = 3;
const LAST: usize = NODES - 1;
const MIDDLE: usize = 1;
/// The port at which the receiving client listens.
const PORT: u16 = 5_000;

/// The running chain, and the listener at the end of the stream.
pub(super) struct Chain {
    listener: Listener,
    fleet: Fleet,
}

impl Chain {
    /// Starts the nodes, and waits until packets can be sent. `seals_ends`: payloads are also sealed from end to end.
    pub(super) fn start(arena: &Arena<'_>, seals_ends: bool) -> Result<Chain, BenchError> {
        let row = &arena.row;
        let hops_alone = [("seal_ends".to_owned(), "off".to_owned())];
        let settings: &[(String, String)] = if seals_ends { &[] } else { &hops_alone };
        let mut fleet = Fleet::new(arena.options.program.as_deref())?;
        let mut listen: Vec<SocketAddr> = Vec::new();
        for host in 0..NODES {
            listen.push(row.within(host, || ports::free(row.any().ip()))??);
        }
        for host in 0..NODES {
            let neighbors = [
                host.checked_sub(1),
                Some(host + 1).filter(|&next| next < NODES),
            ];
            let beside = |index: usize| Beside {
                index,
                dial: (index == MIDDLE).then(|| (row.ip(index, host), listen[index].port()).into()),
                impair: None,
            };
            let spec = Spec {
                listen: listen[host],
                neighbors: neighbors.into_iter().flatten().map(beside).collect(),
                cpu: None,
                inside: row.space(host),
                realtime: false,
                paper: false,
                settings,
                reliable: crate::scenario::ReliableLinks::default(),
                bridge: None,
                transfers: None,
            };
            fleet.start(host, &spec)?;
        }
        let neighbors_of = |host: usize| if host == MIDDLE { 2 } else { 1 };
        fleet.wait(&arena.interrupt, |host, status| {
            let other = address(LAST - host).to_string();
            control::links_up(status, neighbors_of(host))
                && (host == MIDDLE || control::has_route(status, &other))
        })?;
        let last = fleet.node(LAST);
        let listener = Node::at(last.client_socket())
            .listen(PORT, Options::stream())
            .map_err(|error| last.error(&error.to_string()))?;
        Ok(Chain { listener, fleet })
    }

    /// Sends one stream from the first node's client to the last one's.
    pub(super) fn trial(&mut self, arena: &Arena<'_>) -> Result<Trial, BenchError> {
        let before = self.cpu_ns()?;
        let first = self.fleet.node(0);
        let to = Node::at(first.client_socket())
            .connect(Target::new(address(LAST), PORT), Options::stream())
            .map_err(|error| first.error(&error.to_string()))?;
        let from = self
            .listener
            .accept_bytes()
            .map_err(|error| self.fleet.node(LAST).error(&error.to_string()))?;
        let ran = transfer(
            &to,
            || to.shutdown(Shutdown::Write),
            &from,
            arena.options.span(),
        );
        // A node that has ended reports why; its clients only know that it is gone.
        self.fleet.check()?;
        let cpu_ns = self.cpu_ns()?.saturating_sub(before);
        Ok(Trial { cpu_ns, ..ran? })
    }

    /// Returns the mean size of the datagrams that the first node has sent.
    pub(super) fn datagram_bytes(&self) -> Result<f64, BenchError> {
        let status = self.fleet.node(0).snapshot()?;
        let of = |key: &str| {
            let udp: &Value = &status["host"]["udp"];
            udp[key].as_u64().unwrap_or(0) as f64
        };
        Ok(of("sent_bytes") / of("sent").max(1.0))
    }

    /// Returns the processor time of all nodes.
    fn cpu_ns(&self) -> Result<u64, BenchError> {
        let mut sum = 0;
        for node in self.fleet.nodes() {
            sum += node.usage()?.cpu_ns;
        }
        Ok(sum)
    }
}
