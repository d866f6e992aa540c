//! The chain of three nodes as processes, and clients of the outer two.

use super::relay::NONE;
use super::trial::{Drain, Plan, Source, Trial, run};
use super::{Arena, MIDDLE};
use crate::bench::BenchError;
use crate::bench::credentials::address;
use crate::bench::fleet::{Beside, Fleet, Spec, free};
use crate::control;
use client::{DatagramSocket, Node, Options, Target};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

const NODES: usize = 3;
const LAST: usize = NODES - 1;
/// Where the receiving client is bound.
const PORT: u16 = 5_000;
/// Voice is of use for so long [Amir06 §V-B].
const DEADLINE: Duration = Duration::from_millis(100);

/// The running chain and its clients.
pub(super) struct Chain {
    // The first to be dropped: clients leave before their nodes end.
    sources: Vec<Sender>,
    end: DatagramSocket,
    fleet: Fleet,
}

/// A client that sends to the end.
struct Sender(DatagramSocket);

impl Chain {
    /// Starts nodes and clients, and waits until packets can go.
    pub(super) fn start(arena: &Arena<'_>, streams: u32) -> Result<Chain, BenchError> {
        let row = &arena.row;
        let mut fleet = Fleet::new(arena.options.program.as_deref())?;
        let mut listen: Vec<SocketAddr> = Vec::new();
        for host in 0..NODES {
            listen.push(row.within(host, || free(row.any()))??);
        }
        for host in 0..NODES {
            let neighbors = [host.checked_sub(1), Some(host + 1).filter(|&next| next < NODES)];
            let beside = |index: usize| Beside {
                index,
                // The outer ones dial the middle one.
                dial: (index == MIDDLE)
                    .then(|| (row.ip(index, host), listen[index].port()).into()),
                impair: None,
            };
            let spec = Spec {
                listen: listen[host],
                neighbors: neighbors.into_iter().flatten().map(beside).collect(),
                cpu: arena.cpu(host + 1),
                inside: row.space(host),
                realtime: true,
            };
            fleet.start(host, &spec)?;
        }
        let neighbors_of = |host: usize| if host == MIDDLE { 2 } else { 1 };
        fleet.wait(&arena.interrupt, |host, status| {
            let other = address(LAST - host).to_string();
            control::links_up(status, neighbors_of(host))
                && (host == MIDDLE || control::has_route(status, &other))
        })?;
        let options = Options::voice(DEADLINE);
        let bind = |host: usize, port: u16| {
            let bound = Node::at(fleet.node(host).client_socket()).bind(port, options);
            bound.map_err(|error| fleet.node(host).error(&error.to_string()))
        };
        let end = bind(LAST, PORT)?;
        end.set_nonblocking(true).map_err(io::Error::other)?;
        let sources: Result<Vec<_>, _> = (0..streams).map(|_| bind(0, 0).map(Sender)).collect();
        Ok(Chain {
            sources: sources?,
            end,
            fleet,
        })
    }

    /// A trial from the first node's clients to the last one's.
    pub(super) fn trial(&mut self, plan: &Plan) -> Result<Trial, BenchError> {
        let before = self.fleet.node(MIDDLE).usage()?;
        let ran = run(plan, &self.sources, &self.end, NONE);
        // A node that has ended says why; its clients only know that it is gone.
        self.fleet.check()?;
        let (mut trial, _) = ran?;
        let used = self.fleet.node(MIDDLE).usage()?.since(before);
        trial.wakeups = Some(used.wakeups);
        trial.cpu_ns = Some(used.cpu_ns);
        Ok(trial)
    }

    /// The scheduling that the middle node has got.
    pub(super) fn scheduling(&self) -> Result<String, BenchError> {
        let status = self.fleet.node(MIDDLE).snapshot()?;
        Ok(status["host"]["scheduling"].as_str().unwrap_or("unknown").to_owned())
    }
}

impl Source for Sender {
    fn send(&self, packet: &[u8]) -> io::Result<()> {
        let to = Target::new(address(LAST), PORT);
        self.0.send_to(packet, to).map_err(io::Error::other)
    }
}

impl Drain for DatagramSocket {
    fn fd(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }

    fn receive(&self, packet: &mut [u8]) -> io::Result<Option<usize>> {
        match self.recv_from(packet) {
            Ok((len, ..)) => Ok(Some(len)),
            Err(client::Error::WouldBlock) => Ok(None),
            Err(error) => Err(io::Error::other(error)),
        }
    }
}
