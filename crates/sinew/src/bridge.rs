//! The multicast bridge in the node's own event loop, from `[multicast]` of its configuration.

use crate::config::Multicast;
use crate::failure::Failure;
use crate::gateway::multicast::{MulticastArgs, options, place_at, settings};
use base::{Burst, NodeAddr, VirtualPort};
use clap::{Args, FromArgMatches};
use gateway::multicast::report::Carried;
use gateway::multicast::{BRIDGE_PORT, Inside, Sink};
use host::log::Lines;
use host::resident::{Desk, Resident, Told};
use host::status::{BridgeGroup, BridgeStatus};
use std::os::fd::BorrowedFd;
use std::time::Duration;

const PORT: VirtualPort = VirtualPort(BRIDGE_PORT);

/// A bridge as a resident of the event loop.
#[derive(Debug)]
pub struct Bridge {
    inside: Inside,
    options: overlay::request::Options,
}

impl Bridge {
    /// Opens the interface that the configuration names.
    pub fn open(config: &Multicast, node: NodeAddr, lines: &Lines) -> Result<Bridge, Failure> {
        let command = MulticastArgs::augment_args(clap::Command::new("multicast"));
        let read = command.try_get_matches_from(config.words());
        let read = read.and_then(|matches| MulticastArgs::from_arg_matches(&matches));
        let args = read.map_err(|error| {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default().to_owned();
            Failure::misused(format_args!("[multicast]: {first}"))
        })?;
        let place = place_at(&args, node);
        let log = lines.clone();
        let tell = Box::new(move |event: gateway::multicast::Event| log.say(&event.to_string()));
        let inside = Inside::open(node, place, tell, |seed| settings(&args, node, seed));
        Ok(Bridge {
            inside: inside.map_err(Failure::failed)?,
            options: options(&args).to_wire(),
        })
    }
}

fn told(carried: &Carried) -> BridgeGroup {
    let drops = carried.tally.drops.iter().filter(|&(_, count)| count > 0);
    BridgeGroup {
        group: carried.by.to_string(),
        ip: carried.ip.to_string(),
        captured: carried.tally.captured,
        injected: carried.tally.injected,
        drops: drops
            .map(|(reason, count)| (reason.label(), count))
            .collect(),
    }
}

struct Wants<'a>(&'a mut Desk);

impl Sink for Wants<'_> {
    fn join(&mut self, group: NodeAddr) {
        self.0.join(group, PORT);
    }
    fn leave(&mut self, group: NodeAddr) {
        self.0.leave(group, PORT);
    }
    fn send(&mut self, group: NodeAddr, packet: &[u8]) {
        self.0.send(group, PORT, packet);
    }
}

impl Resident for Bridge {
    fn options(&self) -> overlay::request::Options {
        self.options
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.inside.fd()
    }

    fn turn(&mut self, is_ready: bool, came: &[(NodeAddr, Burst)], desk: &mut Desk) {
        desk.take_told().into_iter().for_each(|told| {
            self.inside.hear(match told {
                Told::Reaches(reaches) => client::Told::Reaches(reaches),
                Told::HasPlaces => client::Told::HasPlaces,
                Told::NotJoined { group, code, text } => {
                    client::Told::NotJoined { group, code, text }
                }
                Told::NotSent { group, text } => client::Told::NotSent { group, text },
            });
        });
        let came = came.iter().map(|(group, packet)| (*group, packet.bytes()));
        self.inside.turn(is_ready, came, &mut Wants(desk));
    }

    fn wait(&self) -> Duration {
        self.inside.wait()
    }

    fn gather(&self) -> Option<Duration> {
        self.inside.gather()
    }

    fn bridge(&self) -> Option<BridgeStatus> {
        let report = self.inside.report();
        let counters = report.counters;
        let drops = counters.drops.iter().filter(|&(_, count)| count > 0);
        Some(BridgeStatus {
            interface: report.interface,
            is_here: report.is_here,
            role: report.role.label(),
            is_querier: report.is_querier,
            is_cut_off: report.is_cut_off,
            groups: report.groups,
            joined: report.joined,
            refused: report.refused,
            refused_sends: report.refused_sends,
            groups_told: report.carried.iter().map(told).collect(),
            captured: counters.captured,
            captured_bytes: counters.captured_bytes,
            injected: counters.injected,
            injected_bytes: counters.injected_bytes,
            fragmented: counters.fragmented,
            igmp: counters.igmp,
            drops: drops
                .map(|(reason, count)| (reason.label(), count))
                .collect(),
        })
    }

    fn leave(&mut self) {
        self.inside.leave();
    }
}
