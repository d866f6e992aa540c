//! The properties of a world: drawn from its seed before anything happens.

use base::{Duration, Rng};
use graph::generate::transit_stub::TransitStub;
use graph::generate::waxman::{Growth, Waxman};
use graph::generate::{Network, regular};
use overlay::request::{Delivery, Options};
use overlay::stream::Framing;
use wire::data::{Class, LinkProtocol, Routing};
use wire::groups::TreeBuilder;
use wire::ipc::{RouteBy, Scheme};

/// Most nodes of a world.
pub const NODES_MAX: usize = 50;
/// The longest delay of a link; longer ones of generated networks are limited to it, so that no path takes longer than
/// hellos allow.
pub(super) const DELAY_MAX_US: u64 = 26_000;
/// The largest additional delay of a packet on a link.
pub(super) const JITTER_MAX_US: u64 = 3_000;
/// Hello stamps wrap after 4294.97 s; clocks that should be near this point begin this far ahead.
const STAMPS_WRAP: Duration = Duration::from_secs(4_294);

/// A world before its history.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// The generator of the links.
    pub(super) shape: &'static str,
    pub(super) nodes: usize,
    pub(super) links: Vec<Link>,
    /// Whether both neighbours dial each other.
    pub(super) mutual: bool,
    /// How far each node's clock is ahead, and how fast it is, in parts per million.
    pub(super) clocks: Vec<(Duration, i32)>,
    pub(super) streams: Vec<Stream>,
    pub(super) sessions: Vec<Session>,
    pub(super) groups: Vec<Group>,
    /// Whether an attacker replays and forges datagrams.
    pub(super) hostile: bool,
    /// Whether the same history is run again with each datagram as a separate input.
    pub(super) twice: bool,
    /// Loss of every link after all faults have ended, in percent.
    pub(super) loss_in_peace: u64,
    /// Time for nodes to settle before the faults.
    pub(super) settle: Duration,
}

/// The fixed properties of a link.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) a: usize,
    pub(super) b: usize,
    delay_us: u64,
    jitter_us: u64,
    reorders: bool,
    duplicates_pct: u64,
}

/// Packets from one node to another.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) interval: Duration,
    pub(super) phase: Duration,
    /// Packets at each moment.
    pub(super) burst: u64,
    pub(super) bytes: usize,
    pub(super) options: Options,
}

/// A reliable stream from one node to another.
#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) framing: Framing,
    pub(super) options: Options,
}

/// A group, its first members and its sources.
#[derive(Clone, Debug)]
pub(super) struct Group {
    /// The builder of its tree, in the end.
    pub(super) builder: TreeBuilder,
    /// Whether the operator changes the builder in between.
    pub(super) switches: bool,
    /// The node that sets how the group is carried.
    pub(super) operator: usize,
    /// The nodes that have a member at first.
    pub(super) members: Vec<usize>,
    /// The nodes that send; they need not be members.
    pub(super) sources: Vec<usize>,
    pub(super) interval: Duration,
    pub(super) options: Options,
}

impl Link {
    /// Returns the path with these losses, in the words of a scenario.
    pub(super) fn path(&self, loss_pct: u64, burst_pct: u64) -> String {
        let reorder = if self.reorders { "reorder" } else { "" };
        format!(
            "delay={}us jitter={}us {reorder} duplicate={}% loss={loss_pct}% burst={burst_pct}%",
            self.delay_us, self.jitter_us, self.duplicates_pct
        )
    }
}

impl Plan {
    pub(super) fn draw(rng: &mut Rng) -> Plan {
        let wanted = match rng.below(100) {
            0 => 30 + rng.below(NODES_MAX as u64 - 29),
            1..=6 => 10 + rng.below(20),
            7..=29 => 5 + rng.below(5),
            _ => 2 + rng.below(4),
        } as usize;
        let (shape, network) = network(rng, wanted);
        let nodes = network.nodes.len();
        let links = network.links.iter().map(|link| {
            let turned = rng.chance(0.5);
            Link {
                a: if turned { link.b } else { link.a },
                b: if turned { link.a } else { link.b },
                delay_us: u64::from(link.delay_us).clamp(300, DELAY_MAX_US),
                jitter_us: rng.below(JITTER_MAX_US),
                reorders: rng.chance(0.5),
                duplicates_pct: [0, 0, 2][rng.below(3) as usize],
            }
        });
        let links = links.collect();
        let clocks = (0..nodes).map(|_| clock(rng)).collect();
        let twice = rng.chance(0.15);
        let mut plan = Plan {
            shape,
            nodes,
            links,
            mutual: rng.chance(0.3),
            clocks,
            streams: (0..1 + rng.below(6)).map(|_| stream(rng, nodes)).collect(),
            // What an attacker sees first depends on how datagrams are handed over.
            hostile: !twice && rng.chance(0.5),
            twice,
            loss_in_peace: [0, 0, 2, 10][rng.below(4) as usize],
            settle: Duration::from_millis(rng.below(3_000)),
            sessions: Vec::new(),
            groups: Vec::new(),
        };
        // Acknowledgements are collected per batch, so a stream's packets depend on how datagrams are handed over.
        let sessions = if plan.twice { 0 } else { rng.below(4) };
        plan.sessions = (0..sessions).map(|_| session(rng, nodes)).collect();
        let groups = [0, 1, 1, 2][rng.below(4) as usize];
        plan.groups = (0..groups).map(|_| group(rng, &plan)).collect();
        plan
    }

    /// Makes the network suitable for flows that must lose nothing: no faults except those that the caller causes.
    pub(super) fn calm(&mut self) {
        for link in &mut self.links {
            (link.reorders, link.duplicates_pct) = (false, 0);
        }
        (self.hostile, self.twice, self.loss_in_peace) = (false, false, 0);
        self.clocks.fill((Duration::ZERO, 0));
        self.streams.clear();
        self.sessions.clear();
        self.groups.clear();
    }

    /// Returns the other ends of a node's links.
    pub(super) fn neighbors(&self, i: usize) -> impl Iterator<Item = usize> + '_ {
        let links = self.links.iter();
        links.filter_map(move |link| match (link.a == i, link.b == i) {
            (true, _) => Some(link.b),
            (_, true) => Some(link.a),
            _ => None,
        })
    }

    /// Returns whether Scribe builds trees, at least temporarily.
    pub(super) fn has_scribe(&self) -> bool {
        let scribes = |group: &Group| group.switches || group.builder == TreeBuilder::Scribe;
        self.groups.iter().any(scribes)
    }

    /// Returns the fewest hops between any two nodes.
    pub(super) fn hops(&self) -> Vec<Vec<usize>> {
        let n = self.nodes;
        let mut hops = vec![vec![n; n]; n];
        for link in &self.links {
            (hops[link.a][link.b], hops[link.b][link.a]) = (1, 1);
        }
        for k in 0..n {
            hops[k][k] = 0;
            for i in 0..n {
                for j in 0..n {
                    hops[i][j] = hops[i][j].min(hops[i][k] + hops[k][j]);
                }
            }
        }
        hops
    }
}

/// Draws a connected network of about `wanted` nodes.
fn network(rng: &mut Rng, wanted: usize) -> (&'static str, Network) {
    let delay_us = 300 + rng.below(DELAY_MAX_US - 300) as u32;
    let waxman = Waxman {
        nodes: wanted,
        links_per_node: (1 + rng.below(3) as usize).min(wanted - 1),
        growth: Growth::Incremental,
        ..Waxman::default()
    };
    let stubs = TransitStub {
        transit_nodes: 2 + rng.below(3) as usize,
        stubs_per_transit_node: 1 + rng.below(2) as usize,
        stub_nodes: 1 + wanted / 8,
        ..TransitStub::default()
    };
    let (shape, network) = match rng.below(8) {
        0 => ("chain", regular::chain(wanted, delay_us)),
        1 if wanted >= 3 => ("ring", regular::ring(wanted, delay_us)),
        2 if wanted >= 3 => ("diamond", regular::diamond(wanted, delay_us)),
        3 if wanted <= 12 => ("full mesh", regular::full_mesh(wanted, delay_us)),
        4 if wanted >= 8 => ("transit-stub", stubs.generate(rng)),
        _ => ("waxman", waxman.generate(rng)),
    };
    match network {
        Ok(network) if network.nodes.len() <= NODES_MAX && network.is_connected() => {
            (shape, network)
        }
        _ => {
            let chain = regular::chain(wanted, delay_us);
            ("chain", chain.expect("two to fifty nodes make a chain"))
        }
    }
}

fn clock(rng: &mut Rng) -> (Duration, i32) {
    let ahead = match rng.below(3) {
        0 => STAMPS_WRAP - Duration::from_millis(rng.below(10_000)),
        1 => Duration::from_millis(rng.below(100_000)),
        _ => Duration::ZERO,
    };
    let drift_ppm = match rng.below(3) {
        0 => rng.below(201) as i32 - 100,
        _ => 0,
    };
    (ahead, drift_ppm)
}

fn stream(rng: &mut Rng, nodes: usize) -> Stream {
    let class = Class {
        link: [LinkProtocol::RealTime, LinkProtocol::BestEffort][rng.below(2) as usize],
        routing: Routing::ALL[rng.below(4) as usize],
        priority: rng.below(8) as u8,
    };
    let scheme = rng
        .chance(0.3)
        .then(|| Scheme::ALL[rng.below(Scheme::ALL.len() as u64) as usize]);
    Stream {
        from: rng.below(nodes as u64) as usize,
        to: rng.below(nodes as u64) as usize,
        interval: Duration::from_millis(5 + rng.below(45)),
        // Phases are whole milliseconds, so that several streams send at one moment.
        phase: Duration::from_millis(rng.below(5)),
        burst: [1, 1, 1, 2, 5][rng.below(5) as usize],
        // A stamp takes its bytes from the payload's.
        bytes: [20, 160, 160, if scheme.is_some() { 160 } else { 1_200 }][rng.below(4) as usize],
        options: options(rng, class, scheme),
    }
}

fn session(rng: &mut Rng, nodes: usize) -> Session {
    let class = Class {
        link: LinkProtocol::ALL[rng.below(3) as usize],
        routing: Routing::ALL[rng.below(4) as usize],
        priority: rng.below(8) as u8,
    };
    let options = Options {
        class,
        ttl: 63,
        ..Options::default()
    };
    let scheme = rng
        .chance(0.2)
        .then(|| Scheme::ALL[rng.below(Scheme::ALL.len() as u64) as usize]);
    Session {
        from: rng.below(nodes as u64) as usize,
        to: rng.below(nodes as u64) as usize,
        framing: [Framing::Bytes, Framing::Messages][rng.below(2) as usize],
        options: match scheme {
            Some(scheme) => options.routed_by(RouteBy::Stamp(scheme)),
            None => options,
        },
    }
}

fn group(rng: &mut Rng, plan: &Plan) -> Group {
    let class = Class {
        link: [LinkProtocol::RealTime, LinkProtocol::BestEffort][rng.below(2) as usize],
        routing: Routing::ALL[rng.below(4) as usize],
        priority: rng.below(8) as u8,
    };
    let options = Options {
        ttl: 63,
        ..options(rng, class, None)
    };
    // Scribe's announcements are collected per batch, so the order of its requests depends on how datagrams are handed
    // over.
    let by_scribe = !plan.twice && rng.chance(0.6);
    let share = rng.unit();
    let nodes = plan.nodes as u64;
    Group {
        builder: match by_scribe {
            true => TreeBuilder::Scribe,
            false => TreeBuilder::LinkState,
        },
        switches: !plan.twice && rng.chance(0.2),
        operator: rng.below(nodes) as usize,
        members: (0..plan.nodes).filter(|_| rng.chance(share)).collect(),
        sources: (0..1 + rng.below(2))
            .map(|_| rng.below(nodes) as usize)
            .collect(),
        interval: Duration::from_millis(20 + rng.below(80)),
        options,
    }
}

fn options(rng: &mut Rng, class: Class, scheme: Option<Scheme>) -> Options {
    let options = Options {
        class,
        deadline: rng
            .chance(0.7)
            .then(|| Duration::from_millis(20 + rng.below(400))),
        delivery: [Delivery::AsItComes, Delivery::InOrder][rng.below(2) as usize],
        ttl: if rng.chance(0.2) {
            1 + rng.below(4) as u8
        } else {
            63
        },
        ..Options::default()
    };
    match scheme {
        Some(scheme) => options.routed_by(RouteBy::Stamp(scheme)),
        None => options,
    }
}
