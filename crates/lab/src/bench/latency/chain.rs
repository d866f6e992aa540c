//! The chain of three nodes as processes, and clients of the outer two.

use super::{Arena, MIDDLE};
use crate::bench::BenchError;
use crate::bench::credentials::address;
use crate::bench::fleet::{Beside, Fleet, Spec};
use crate::bench::phone::{Sender, receiver, sender};
use crate::bench::trial::{Plan, Trial, run};
use crate::bench::usage::Usage;
use crate::control;
use crate::ports;
use client::{DatagramSocket, Target};
use std::net::SocketAddr;

const NODES: usize = 3;
const LAST: usize = NODES - 1;
/// The port at which the receiving client is bound.
const PORT: u16 = 5_000;

/// The running chain and its clients.
pub(super) struct Chain {
    // This field is dropped first: clients leave before their nodes end.
    sources: Vec<Sender>,
    end: DatagramSocket,
    fleet: Fleet,
}

impl Chain {
    /// Starts nodes and clients, and waits until packets can be sent.
    pub(super) fn start(arena: &Arena<'_>, streams: u32) -> Result<Chain, BenchError> {
        let row = &arena.row;
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
                // The outer nodes dial the middle one.
                dial: (index == MIDDLE).then(|| (row.ip(index, host), listen[index].port()).into()),
                impair: None,
            };
            let spec = Spec {
                listen: listen[host],
                neighbors: neighbors.into_iter().flatten().map(beside).collect(),
                cpu: arena.cpu(host + 1),
                inside: row.space(host),
                realtime: arena.realtime,
                paper: false,
                settings: &[],
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
        let end = receiver(fleet.node(LAST), PORT)?;
        let source = |_| sender(fleet.node(0), Target::new(address(LAST), PORT));
        let sources: Result<Vec<_>, _> = (0..streams).map(source).collect();
        Ok(Chain {
            sources: sources?,
            end,
            fleet,
        })
    }

    /// Runs a trial from the first node's clients to the last one's.
    pub(super) fn trial(&mut self, plan: &Plan) -> Result<Trial, BenchError> {
        let before = self.fleet.node(MIDDLE).usage()?;
        let ran = run(plan, &self.sources, &self.end);
        // A node that has ended reports why; its clients only know that it is gone.
        self.fleet.check()?;
        let mut trial = ran?;
        let used = self.fleet.node(MIDDLE).usage()?.since(before);
        trial.wakeups = Some(used.wakeups);
        trial.cpu_ns = Some(used.cpu_ns);
        Ok(trial)
    }

    /// Returns what a node has used since its start.
    pub(super) fn usage(&self, host: usize) -> Result<Usage, BenchError> {
        Ok(self.fleet.node(host).usage()?)
    }

    /// Returns the scheduling of the middle node.
    pub(super) fn scheduling(&self) -> Result<String, BenchError> {
        let status = self.fleet.node(MIDDLE).snapshot()?;
        Ok(status["host"]["scheduling"]
            .as_str()
            .unwrap_or("unknown")
            .to_owned())
    }
}
