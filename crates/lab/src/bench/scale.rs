//! `sinew bench scale`: how a large network converges, and what that costs.
//!
//! ```text
//!   all start ─▶ whole ─▶ idle ─▶ a link fails ─▶ whole ─▶ a node restarts ─▶ whole ─▶ halves ─▶ whole
//! ```
//!
//! Production nodes run in the simulator, unsealed, on a Waxman network; each link loses nothing and has the delay of
//! its length. Times are those of the simulated network, so they do not depend on the machine. The network is whole if
//! all nodes have the same records and reach each other by every metric without a loop. Control bytes are those of
//! hellos, link state and its confirmations, with sealed lengths, both directions of a link together.

use super::usage::resident_bytes;
use super::{BenchError, go_on, heading};
use crate::members::Members;
use crate::whole::{self, address};
use base::impair::Model;
use base::{Duration, Pool, Rng};
use graph::generate::Network;
use graph::generate::waxman::Waxman;
use overlay::{Event, Neighbor, Node, Settings};
use serde::Serialize;
use sim::{HostId, World};
use std::fmt;
use tools::interrupt::Interrupt;
use tools::progress::Progress;
use tools::table::align;

/// Most nodes: as many as a database holds, minus a few spare ones.
const NODES_MAX: usize = 1_000;
/// How often the benchmark checks whether the network is whole.
const LOOK: Duration = Duration::from_millis(50);
/// The longest time until the network must be whole.
const PATIENCE: Duration = Duration::from_secs(60);
/// Length of the idle phase, which shows the cost without events.
const IDLE: Duration = Duration::from_secs(10);
/// Time until both ends notice a failed link: idle links are probed once per second.
const NOTICED: Duration = Duration::from_secs(5);
/// Small packet buffers per node, for the control datagrams of its links under way.
const SMALL_PER_NODE: usize = 1_024;

/// Options of the benchmark.
#[derive(Clone, Debug)]
pub struct Options {
    /// Nodes.
    pub nodes: usize,
    /// Number of links that each node adds.
    pub links_per_node: usize,
    /// The seed: each seed gives another network.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            nodes: 200,
            links_per_node: 4,
            seed: 1,
        }
    }
}

/// The results.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Nodes.
    pub nodes: usize,
    /// Links.
    pub links: usize,
    /// The phases in their order.
    pub phases: Vec<Phase>,
    /// Memory of the process per node, packet buffers and simulator included.
    pub memory_per_node_bytes: u64,
}

/// An event, and the time until the network was whole again.
#[derive(Clone, Debug, Serialize)]
pub struct Phase {
    /// The event.
    pub what: &'static str,
    /// Simulated time until the network was whole.
    pub whole_after_s: Option<f64>,
    /// Simulated time of the phase.
    pub simulated_s: f64,
    /// Control bytes of the phase per link.
    pub control_bytes_per_link: f64,
    /// How often nodes changed their routes, per node.
    pub route_changes_per_node: f64,
    /// Real time that the phase took.
    pub real_s: f64,
}

struct Scale {
    world: World<Node>,
    hosts: Vec<HostId>,
    network: Network,
    members: Members,
    control_bytes: u64,
    route_changes: u64,
    starts: u64,
}

/// Runs the measurement.
///
/// # Errors
/// [`BenchError`], if an option is invalid, or the network does not converge.
pub fn run(options: &Options, progress: Progress) -> Result<Report, BenchError> {
    let interrupt = Interrupt::install()?;
    measure(options, progress, &|| go_on(&interrupt))
}

/// Runs the measurement; `go_on` fails after a request to end.
fn measure(
    options: &Options,
    progress: Progress,
    go_on: &dyn Fn() -> Result<(), BenchError>,
) -> Result<Report, BenchError> {
    if !(2..=NODES_MAX).contains(&options.nodes) || options.links_per_node == 0 {
        return Err(BenchError::Option(format!(
            "{} nodes with {} links each: choose 2 to {NODES_MAX} nodes and at least one link",
            options.nodes, options.links_per_node
        )));
    }
    let before = resident_bytes(std::process::id())?;
    let mut scale = Scale::new(options)?;
    let mut phases = Vec::new();
    let mut phase = |what, scale: &mut Scale, happen: &mut dyn FnMut(&mut Scale), span| {
        progress.step(what);
        scale
            .phase(what, happen, span, go_on)
            .map(|phase| phases.push(phase))
    };
    phase("all nodes start", &mut scale, &mut |_| {}, None)?;
    let memory = resident_bytes(std::process::id())?.saturating_sub(before);
    phase("nothing happens", &mut scale, &mut |_| {}, Some(IDLE))?;
    let link = scale.a_link_to_spare();
    phase(
        "a link fails",
        &mut scale,
        &mut |s| s.set_outage(link, true),
        Some(NOTICED),
    )?;
    phase(
        "it works again",
        &mut scale,
        &mut |s| s.set_outage(link, false),
        Some(NOTICED),
    )?;
    phase("a node restarts", &mut scale, &mut Scale::restart_one, None)?;
    phase(
        "the network is cut in halves",
        &mut scale,
        &mut Scale::cut,
        Some(NOTICED),
    )?;
    phase(
        "the halves are joined",
        &mut scale,
        &mut |s| s.world.heal(),
        None,
    )?;
    Ok(Report {
        nodes: options.nodes,
        links: scale.network.links.len(),
        phases,
        memory_per_node_bytes: memory / options.nodes as u64,
    })
}

impl Scale {
    fn new(options: &Options) -> Result<Scale, BenchError> {
        let start = |error: &dyn fmt::Display| BenchError::Start(error.to_string());
        let waxman = Waxman {
            nodes: options.nodes,
            links_per_node: options.links_per_node.min(options.nodes - 1),
            ..Waxman::default()
        };
        let network = waxman
            .generate(&mut Rng::new(options.seed))
            .map_err(|error| start(&error))?;
        let pool = Pool::new(1_024, options.nodes * SMALL_PER_NODE);
        let world = World::with_pool(options.seed, pool);
        let mut rng = world.rng_of(&[1]);
        let mut members = Members::new(&mut rng, false);
        for i in 0..options.nodes {
            members.add(&mut rng, &format!("n{i}"), address(i));
        }
        let mut scale = Scale {
            world,
            hosts: Vec::new(),
            network,
            members,
            control_bytes: 0,
            route_changes: 0,
            starts: 0,
        };
        for i in 0..options.nodes {
            let node = scale.node(i);
            scale.hosts.push(scale.world.add_host(node));
        }
        for link in &scale.network.links {
            let delay = Duration::from_micros(u64::from(link.delay_us));
            let model = Model::default()
                .with_delay(delay)
                .map_err(|error| start(&error))?;
            let (a, b) = (scale.hosts[link.a], scale.hosts[link.b]);
            scale.world.link(a, b, &model);
        }
        Ok(scale)
    }

    fn node(&mut self, i: usize) -> Node {
        self.starts += 1;
        let links = self.network.links.iter();
        let links = links.filter(|link| link.a == i || link.b == i);
        let neighbors = links.map(|link| {
            let peer = if link.a == i { link.b } else { link.a };
            Neighbor {
                more: Vec::new(),
                capacity_kbps: 0,
                reliable: Default::default(),
                addr: address(peer),
                name: format!("n{peer}"),
                at: (link.a == i).then(|| sim::underlay(peer as u32)),
            }
        });
        let rng = self.world.rng_of(&[2, i as u64, self.starts]);
        let neighbors = neighbors.collect();
        Node::new(self.members.config(i, rng, neighbors, Settings::modern()))
    }

    /// Lets something happen, and time pass until the network is whole; or for a span if one is given.
    fn phase(
        &mut self,
        what: &'static str,
        happen: &mut dyn FnMut(&mut Scale),
        span: Option<Duration>,
        go_on: &dyn Fn() -> Result<(), BenchError>,
    ) -> Result<Phase, BenchError> {
        let clock = std::time::Instant::now();
        let start = self.world.now();
        (self.control_bytes, self.route_changes) = (0, 0);
        happen(self);
        let mut whole_after = None;
        loop {
            let passed = self.world.now().since(start);
            if span.is_none() && whole::complaint(&self.world, &self.hosts).is_none() {
                whole_after = Some(passed.as_secs_f64());
                break;
            }
            if span.is_some_and(|span| passed >= span) {
                break;
            }
            if passed >= PATIENCE {
                let complaint = whole::complaint(&self.world, &self.hosts).unwrap_or_default();
                return Err(BenchError::Start(format!(
                    "{what}: after {passed}, {complaint}"
                )));
            }
            go_on()?;
            self.world.run_for(LOOK);
            self.observe();
        }
        let links = self.network.links.len() as f64;
        Ok(Phase {
            what,
            whole_after_s: whole_after,
            simulated_s: self.world.now().since(start).as_secs_f64(),
            control_bytes_per_link: (self.control_bytes as f64 / links).round(),
            route_changes_per_node: self.route_changes as f64 / self.hosts.len() as f64,
            real_s: tools::quality::round(clock.elapsed().as_secs_f64(), 2),
        })
    }

    fn observe(&mut self) {
        for report in self.world.take_events() {
            match report.event {
                Event::Control { bytes, .. } => self.control_bytes += u64::from(bytes),
                Event::RoutesChanged { rerouted: true, .. } => self.route_changes += 1,
                _ => {}
            }
        }
    }

    /// Finds a link between two nodes that both have other links.
    fn a_link_to_spare(&self) -> usize {
        let mut degree = vec![0; self.hosts.len()];
        for link in &self.network.links {
            degree[link.a] += 1;
            degree[link.b] += 1;
        }
        let links = self.network.links.iter();
        let spare = links
            .map(|link| degree[link.a].min(degree[link.b]))
            .enumerate();
        spare
            .max_by_key(|(_, degree)| *degree)
            .map_or(0, |(at, _)| at)
    }

    fn set_outage(&mut self, link: usize, outage: bool) {
        let link = &self.network.links[link];
        let (a, b) = (self.hosts[link.a], self.hosts[link.b]);
        self.world.set_outage(a, b, outage);
    }

    fn restart_one(&mut self) {
        let i = self.hosts.len() / 2;
        let node = self.node(i);
        self.world.restart(self.hosts[i], node);
    }

    fn cut(&mut self) {
        let island = self.hosts[..self.hosts.len() / 2].to_vec();
        self.world.partition(&island);
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} nodes, {} links, simulated without sealing\n",
            self.nodes, self.links
        )?;
        let mut table = vec![heading([
            "",
            "whole after s",
            "of s",
            "control B/link",
            "routes changed/node",
            "real s",
        ])];
        for phase in &self.phases {
            let whole = phase.whole_after_s.map(|s| format!("{s:.2}"));
            table.push(vec![
                phase.what.to_owned(),
                whole.unwrap_or_else(|| "-".to_owned()),
                format!("{:.2}", phase.simulated_s),
                format!("{:.0}", phase.control_bytes_per_link),
                format!("{:.1}", phase.route_changes_per_node),
                format!("{:.1}", phase.real_s),
            ]);
        }
        f.write_str(&align(&table))?;
        let kib = self.memory_per_node_bytes as f64 / 1024.0;
        writeln!(
            f,
            "\nmemory per node: {kib:.0} KiB, simulator and packet buffers included"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_network_becomes_whole_after_each_trouble() {
        let options = Options {
            nodes: 12,
            links_per_node: 2,
            seed: 3,
        };
        let report = measure(&options, Progress::Silent, &|| Ok(())).unwrap();
        assert_eq!(report.phases.len(), 7);
        for phase in &report.phases {
            assert!(phase.control_bytes_per_link > 0.0, "{phase:?}");
            assert!(phase.whole_after_s.is_none_or(|s| s < 10.0), "{phase:?}");
        }
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["phases"][0]["what"], "all nodes start");
        assert!(report.to_string().contains("control B/link"));
        let none = Options {
            nodes: 1,
            ..options
        };
        assert!(matches!(
            measure(&none, Progress::Silent, &|| Ok(())),
            Err(BenchError::Option(_))
        ));
    }
}
