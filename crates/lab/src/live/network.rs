//! The nodes of a scenario as processes, and the present state of their links.

use super::LiveError;
use crate::bench::fleet::{Beside, Fleet, Member, Process, Spec};
use crate::control;
use crate::ports;
use crate::scenario::meter::rounded;
use crate::scenario::{BothWays, Carrier, OverlayReport, Profile, Scenario};
use base::Time;
use base::impair::Model;
use overlay::Drop as Dropped;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use tools::interrupt::Interrupt;
use wire::{HEADROOM, TAG_BYTES};

/// The running nodes.
pub(super) struct Network<'s> {
    scenario: &'s Scenario,
    fleet: Fleet,
    listen: Vec<SocketAddr>,
    links: Vec<LinkState>,
    /// For each node, whether it should run.
    is_up: Vec<bool>,
    /// For each node, until when it is stalled.
    stalled: Vec<Option<Time>>,
    /// Links whose new state a stalled node has not been informed of.
    untold: Vec<usize>,
}

/// The present state of a link.
struct LinkState {
    path: BothWays,
    down: bool,
    cut: bool,
}

impl LinkState {
    /// Returns the models of both directions.
    fn models(&self) -> [Model; 2] {
        let out = self.down || self.cut;
        [&self.path.there, &self.path.back].map(|model| {
            let out = out || model.outage();
            model.clone().with_outage(out)
        })
    }
}

impl<'s> Network<'s> {
    /// Starts all nodes.
    pub(super) fn start(
        scenario: &'s Scenario,
        program: &Path,
        folder: &Path,
    ) -> Result<Network<'s>, LiveError> {
        let members = scenario.nodes.iter().enumerate();
        let members = members.map(|(i, node)| Member::new(i, &node.name, node.address));
        let fleet = Fleet::of(program.to_owned(), members.collect(), Some(folder))?;
        let links = scenario.links.iter().map(|link| LinkState {
            path: link.path.clone(),
            down: false,
            cut: false,
        });
        let own = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let listen: io::Result<_> = scenario.nodes.iter().map(|_| ports::free(own)).collect();
        let mut network = Network {
            scenario,
            fleet,
            listen: listen?,
            links: links.collect(),
            is_up: vec![true; scenario.nodes.len()],
            stalled: vec![None; scenario.nodes.len()],
            untold: Vec::new(),
        };
        for node in 0..scenario.nodes.len() {
            let spec = network.spec(node);
            network.fleet.start(node, &spec)?;
        }
        Ok(network)
    }

    /// Waits until all links are up that can be up, and nodes have routes for the flows.
    pub(super) fn wait(&mut self, interrupt: &Interrupt) -> Result<(), LiveError> {
        let scenario = self.scenario;
        let open = |models: [Model; 2]| models.iter().all(|model| !model.outage());
        let open: Vec<bool> = self.links.iter().map(|link| open(link.models())).collect();
        let all_open = open.iter().all(|open| *open);
        let ready = |node: usize, status: &Value| {
            let ends = scenario.links.iter().zip(&open);
            let mine = ends.filter(|(link, open)| **open && (link.a == node || link.b == node));
            let up = control::links_up_count(status) >= mine.count();
            let overlay = scenario
                .flows
                .iter()
                .filter(|flow| flow.from == node && matches!(flow.carrier, Carrier::Overlay(_)));
            let routes = overlay.map(|flow| scenario.nodes[flow.to].address.to_string());
            // Nodes behind a link that is down from the beginning may be unreachable.
            up && (!all_open || routes.into_iter().all(|to| control::has_route(status, &to)))
        };
        Ok(self.fleet.wait(interrupt, ready)?)
    }

    /// Fails if a node has ended that was not killed.
    pub(super) fn check(&mut self) -> Result<(), LiveError> {
        Ok(self.fleet.check()?)
    }

    /// Returns the clients' socket of a node.
    pub(super) fn client_socket(&self, node: usize) -> PathBuf {
        self.fleet.node(node).client_socket()
    }

    pub(super) fn nodes(&self) -> &[Process] {
        self.fleet.nodes()
    }

    /// Leaves the nodes running.
    pub(super) fn leave(self) {
        self.fleet.leave();
    }

    pub(super) fn set_outage(&mut self, link: usize, down: bool) {
        self.links[link].down = down;
        self.tell(link);
    }

    pub(super) fn set_path(&mut self, link: usize, path: &BothWays) {
        self.links[link].path = path.clone();
        // As in the simulator, setting a path brings it up unless its model is an outage.
        self.links[link].down = false;
        self.tell(link);
    }

    pub(super) fn partition(&mut self, groups: &[Vec<usize>]) {
        let group = |node: usize| groups.iter().position(|group| group.contains(&node));
        for link in 0..self.links.len() {
            let ends = &self.scenario.links[link];
            if group(ends.a) != group(ends.b) && !self.links[link].cut {
                self.links[link].cut = true;
                self.tell(link);
            }
        }
    }

    pub(super) fn heal(&mut self) {
        for link in 0..self.links.len() {
            if core::mem::take(&mut self.links[link].cut) {
                self.tell(link);
            }
        }
    }

    /// Stalls a node's process until then, or longer if it is already stalled.
    pub(super) fn stall(&mut self, node: usize, until: Time) -> Result<(), LiveError> {
        if self.is_up[node] {
            self.stalled[node] = self.stalled[node].max(Some(until));
            self.fleet.stop(node)?;
        }
        Ok(())
    }

    /// Returns when the next stall ends.
    pub(super) fn next_resume(&self) -> Option<Time> {
        self.stalled.iter().flatten().min().copied()
    }

    /// Resumes all nodes whose stalls are over by then.
    pub(super) fn resume(&mut self, now: Time) -> Result<(), LiveError> {
        for node in 0..self.stalled.len() {
            if self.stalled[node].is_some_and(|until| until <= now) {
                self.stalled[node] = None;
                self.fleet.resume(node)?;
            }
        }
        if self.next_resume().is_none() {
            for link in core::mem::take(&mut self.untold) {
                self.tell(link);
            }
        }
        Ok(())
    }

    pub(super) fn crash(&mut self, node: usize) -> Result<(), LiveError> {
        self.stalled[node] = None;
        self.is_up[node] = false;
        Ok(self.fleet.kill(node)?)
    }

    pub(super) fn restart(&mut self, node: usize) -> Result<(), LiveError> {
        self.stalled[node] = None;
        self.is_up[node] = true;
        let spec = self.spec(node);
        Ok(self.fleet.restart(node, &spec)?)
    }

    /// Returns what all nodes together have carried since each was started.
    pub(super) fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for process in self.fleet.nodes() {
            // The counters of a killed node are lost.
            if let Ok(status) = process.snapshot() {
                totals.add(&status);
            }
        }
        totals
    }

    /// Informs both ends of a link of its state. A node that is down, or still starting, reads it from its
    /// configuration; a stalled node is informed afterwards.
    fn tell(&mut self, link: usize) {
        let ends = &self.scenario.links[link];
        let [there, back] = self.links[link].models();
        for (node, neighbor, model) in [(ends.a, ends.b, there), (ends.b, ends.a, back)] {
            if !self.is_up[node] {
                continue;
            }
            if self.stalled[node].is_some() {
                self.untold.push(link);
                continue;
            }
            let order = json!({
                "cmd": "link_set",
                "neighbor": self.scenario.nodes[neighbor].name,
                "model": model.to_string(),
            });
            let socket = self.fleet.node(node).control_socket();
            // A node that has just been started does not answer yet, so the request is repeated.
            for _ in 0..TELL_ATTEMPTS {
                if control::ask(&socket, &order).is_ok() {
                    break;
                }
                std::thread::sleep(TELL_EVERY);
            }
        }
    }

    fn spec(&self, node: usize) -> Spec<'s> {
        let links = self.scenario.links.iter().zip(&self.links);
        let beside = links.filter_map(|(link, state)| {
            let [there, back] = state.models();
            let dials = link.a == node;
            let (index, model) = match (dials, link.b == node) {
                (true, _) => (link.b, there),
                (false, true) => (link.a, back),
                (false, false) => return None,
            };
            Some(Beside {
                index,
                dial: dials.then(|| self.listen[link.b]),
                impair: Some(model),
            })
        });
        Spec {
            listen: self.listen[node],
            neighbors: beside.collect(),
            cpu: None,
            inside: None,
            realtime: true,
            paper: self.scenario.profile == Profile::Paper,
            settings: &self.scenario.settings,
            reliable: self.scenario.reliable,
            bridge: None,
            transfers: None,
        }
    }
}

/// How often, and at what interval, a node is asked to change a link.
const TELL_ATTEMPTS: u32 = 20;
const TELL_EVERY: std::time::Duration = std::time::Duration::from_millis(50);

/// Sums over nodes, by the names of their counters.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals {
    wire_bytes: u64,
    counters: BTreeMap<String, u64>,
    drops: BTreeMap<&'static str, u64>,
}

impl Totals {
    fn add(&mut self, status: &Value) {
        self.wire_bytes += control::bytes_out(status);
        let counters = status["counters"].as_object().into_iter().flatten();
        for (name, value) in counters {
            if let Some(value) = value.as_u64() {
                *self.counters.entry(name.clone()).or_default() += value;
            }
        }
        for reason in Dropped::ALL {
            let count = &status["counters"]["drops"][reason.label()];
            if let Some(count) = count.as_u64().filter(|count| *count > 0) {
                *self.drops.entry(reason.label()).or_default() += count;
            }
        }
    }

    /// Returns what was carried between two moments. Nodes that were restarted in between count from their start.
    pub(super) fn since(&self, before: &Totals) -> OverlayReport {
        let of = |totals: &Totals, name: &str| totals.counters.get(name).copied().unwrap_or(0);
        let more = |name: &str| of(self, name).saturating_sub(of(before, name));
        let wire_bytes = self.wire_bytes.saturating_sub(before.wire_bytes);
        let packets = more("forwarded_packets") + more("originated_packets");
        let bytes = more("forwarded_bytes") + more("originated_bytes");
        let payload_bytes = bytes.saturating_sub(packets * (HEADROOM + TAG_BYTES) as u64);
        let ratio = wire_bytes as f64 / payload_bytes as f64;
        let drops = self.drops.iter().map(|(reason, count)| {
            let before = before.drops.get(reason).copied().unwrap_or(0);
            (*reason, count.saturating_sub(before))
        });
        OverlayReport {
            wire_bytes,
            payload_bytes,
            wire_bytes_per_payload_byte: (payload_bytes > 0).then(|| rounded(ratio, 4)),
            retransmitted_bytes: more("retransmitted_bytes"),
            repair_bytes: more("repair_bytes"),
            repair: more("repair_packets"),
            control_bytes: more("control_bytes"),
            retransmitted: more("retransmitted_packets"),
            recovered: more("recovered_packets"),
            unstamped: more("unstamped_packets"),
            requested: more("requested_packets"),
            links_up: more("links_up"),
            links_down: more("links_down"),
            route_changes: more("route_computations"),
            dropped: drops.filter(|(_, count)| *count > 0).collect(),
        }
    }
}
