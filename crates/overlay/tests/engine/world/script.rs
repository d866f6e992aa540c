//! One node between two neighbours that are driven by hand, 10 ms away each.
//!
//! ```text
//!   west (1) ---- node (0) ---- east (2)
//! ```
//! Both have reported that they have a link to the node and no other, so it routes to both.

use super::neighbour::{self, Neighbour};
use super::party::Ask;
use super::{Nodes, OPERATOR, Plan, VALID, addr, identity};
use base::{Duration, NodeAddr, Rng, UnderlayAddr, VirtualPort};
use overlay::event::Drop;
use sim::HostId;
use wire::data::{Class, FlowSeq, LaneSeq, LinkProtocol, Remaining, Repr, Routing};
use wire::link::Kind;

pub const WEST: usize = 1;
pub const EAST: usize = 2;
/// The one-way delay to a neighbour.
pub const WAY: Duration = Duration::from_millis(10);

pub struct Script {
    pub nodes: Nodes,
    rogues: [HostId; 2],
}

impl Script {
    pub fn new() -> Script {
        Script::with(Plan::of(1))
    }

    pub fn with(plan: Plan) -> Script {
        let mut nodes = Nodes::planned(1, plan);
        let rogues = [WEST, EAST].map(|i| {
            let neighbour = neighbour(&mut nodes, i);
            nodes.add_rogue(0, neighbour, "delay=10ms")
        });
        let mut script = Script { nodes, rogues };
        let node = script.node();
        for who in [WEST, EAST] {
            script.ask(who, Ask::Dial(node));
        }
        script.run_ms(1_000);
        for who in [WEST, EAST] {
            let record = script.rogue(who).record(1, &[(addr(0), 10_000)]);
            script.say_control(who, &record);
        }
        script.run_ms(1_000);
        assert!(script.nodes.all_links_up());
        assert_eq!(script.nodes.snapshot(0).routes.len(), 8);
        script.nodes.count().dropped.clear();
        script
    }

    /// Returns the address at which the node is reached.
    pub fn node(&self) -> UnderlayAddr {
        self.nodes.at(0)
    }

    pub fn rogue(&self, who: usize) -> &Neighbour {
        let party = self.nodes.world.engine(self.rogues[who - 1]);
        party.unwrap().as_rogue().unwrap()
    }

    pub fn ask(&mut self, who: usize, ask: Ask) {
        self.nodes
            .world
            .request(self.rogues[who - 1], OPERATOR, ask);
    }

    pub fn run_ms(&mut self, ms: u64) {
        self.nodes.run_ms(ms);
    }

    /// `who` sends a packet to the node.
    pub fn say(&mut self, who: usize, header: &Repr, payload: &[u8]) {
        self.say_data(who, &neighbour::packet(header, payload));
    }

    pub fn say_data(&mut self, who: usize, plaintext: &[u8]) {
        let node = self.node();
        self.ask(who, Ask::Say(node, Kind::Data, plaintext.to_vec()));
    }

    pub fn say_control(&mut self, who: usize, plaintext: &[u8]) {
        let node = self.node();
        self.ask(who, Ask::Say(node, Kind::Control, plaintext.to_vec()));
    }

    /// Returns the packets that `who` has received from the node.
    pub fn packets(&self, who: usize) -> Vec<(Repr, Vec<u8>)> {
        self.rogue(who).packets()
    }

    /// Returns the number of drops for this reason so far.
    pub fn drops(&mut self, reason: Drop) -> u64 {
        self.nodes.count().drops(reason)
    }

    /// Returns the number of drops for any reason so far.
    pub fn all_drops(&mut self) -> u64 {
        self.nodes.count().dropped.values().sum()
    }
}

/// Returns a neighbour with the address of node `i`, certified by the network's authority.
pub fn neighbour(nodes: &mut Nodes, i: usize) -> Neighbour {
    let mut rng = Rng::new(900 + i as u64);
    let identity = identity(&mut nodes.authority, &mut rng, i, VALID);
    let mut seed = [0; 32];
    rng.fill(&mut seed);
    Neighbour::new(identity, nodes.authority.network(), seed)
}

/// Returns the header of a real-time packet without a deadline.
pub fn header(from: NodeAddr, to: NodeAddr, seq: u32) -> Repr {
    Repr {
        class: Class {
            link: LinkProtocol::RealTime,
            routing: Routing::ExpectedLatency,
            priority: 4,
        },
        ttl: 32,
        has_extension: false,
        congested: false,
        recovered: false,
        has_transport: false,
        remaining: Remaining::NONE,
        source: from,
        destination: to,
        source_port: VirtualPort(700),
        destination_port: VirtualPort(5_000),
        flow_seq: FlowSeq(seq),
        lane_seq: LaneSeq::new(seq),
    }
}
