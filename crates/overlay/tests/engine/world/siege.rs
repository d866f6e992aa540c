//! A chain of three nodes with calls in both directions, and a host next to the middle one that attacks.
//!
//! ```text
//!   0 ==== 1 ==== 2      calls between 0 and 2
//!          |
//!      attacker
//! ```

use super::neighbour::Neighbour;
use super::party::{Ask, Party};
use super::script::neighbour;
use super::streams::{Stream, Streams};
use super::{Nodes, OPERATOR, Plan, chain, voice};
use base::{Duration, Rng, UnderlayAddr};
use overlay::Settings;
use overlay::settings::Sealing;
use sim::HostId;
use wire::link::Kind;

/// The node that is attacked.
pub const TARGET: usize = 1;
/// The number of the attacker's address when it is a member of the network.
pub const INTRUDER: usize = 7;
/// The time between two waves.
const WAVE: Duration = Duration::from_millis(10);

pub struct Siege {
    pub nodes: Nodes,
    pub calls: Streams,
    pub attacker: HostId,
    pub rng: Rng,
}

impl Siege {
    /// The attacker has nothing but the address of the target.
    pub fn from_outside(seed: u64) -> Siege {
        let mut stranger_nodes = Nodes::new(seed + 1_000, 0, &[], "clean");
        let stranger = neighbour(&mut stranger_nodes, INTRUDER);
        Siege::with(seed, |_| stranger)
    }

    /// The attacker is a member, with a session and a link to the target.
    pub fn from_inside(seed: u64) -> Siege {
        Siege::from_inside_of(seed, Settings::modern())
    }

    /// The same, with nodes that have these settings.
    pub fn from_inside_of(seed: u64, settings: Settings) -> Siege {
        let mut siege = Siege::planned(seed, settings, |nodes| neighbour(nodes, INTRUDER));
        siege.ask(Ask::Dial(siege.target()));
        siege.run(Duration::from_secs(1));
        assert!(siege.rogue().has_session(siege.target()));
        assert_eq!(siege.nodes.link_status(TARGET, INTRUDER).state, "up");
        siege
    }

    pub fn with(seed: u64, attacker: impl FnOnce(&mut Nodes) -> Neighbour) -> Siege {
        Siege::planned(seed, Settings::modern(), attacker)
    }

    pub fn planned(
        seed: u64,
        settings: Settings,
        attacker: impl FnOnce(&mut Nodes) -> Neighbour,
    ) -> Siege {
        let seals = settings.sealing != Sealing::Off;
        let plan = Plan {
            settings,
            edges: chain(3),
            tapped: Some(0),
            ..Plan::of(3)
        };
        let mut nodes = Nodes::planned(seed, plan);
        chain(3)
            .into_iter()
            .for_each(|(a, b)| nodes.link(a, b, "delay=10ms"));
        let mut attacker = attacker(&mut nodes);
        attacker.listens = false;
        let attacker = nodes.add_rogue(TARGET, attacker, "delay=1ms");
        nodes.run_ms(2_000);
        if seals {
            nodes.introduce(&[(0, 2)]);
        }
        let interval = Duration::from_millis(20);
        let call = |n: u64| Stream {
            from: [0, 2][(n % 2) as usize],
            to: [2, 0][(n % 2) as usize],
            interval,
            phase: (interval * n).div(6),
            options: voice(),
        };
        let calls = Streams::begin(&mut nodes, (0..6).map(call).collect());
        Siege {
            nodes,
            calls,
            attacker,
            rng: Rng::new(seed),
        }
    }

    pub fn target(&self) -> UnderlayAddr {
        self.nodes.at(TARGET)
    }

    pub fn rogue(&self) -> &Neighbour {
        let party = self
            .nodes
            .world
            .engine(self.attacker)
            .and_then(Party::as_rogue);
        party.unwrap()
    }

    pub fn ask(&mut self, ask: Ask) {
        self.nodes.world.request(self.attacker, OPERATOR, ask);
    }

    /// The attacker sends all this under its session.
    pub fn say(&mut self, kind: Kind, plaintexts: impl IntoIterator<Item = Vec<u8>>) {
        for plaintext in plaintexts {
            self.ask(Ask::Say(self.target(), kind, plaintext));
        }
    }

    pub fn run(&mut self, span: Duration) {
        self.calls.run(&mut self.nodes, span);
    }

    /// Sends this many waves of attack, 100 per second.
    pub fn waves(&mut self, count: usize, mut wave: impl FnMut(&mut Rng, usize) -> Vec<Ask>) {
        for n in 0..count {
            for ask in wave(&mut self.rng, n) {
                self.ask(ask);
            }
            self.run(WAVE);
        }
    }

    /// Checks that the calls have lost nothing and came in time, and that the attack has left nothing behind.
    pub fn end(mut self) -> Nodes {
        self.run(Duration::from_millis(500));
        self.calls.finish(&mut self.nodes);
        let missed = self.calls.missed(Duration::from_millis(20));
        assert_eq!(missed, 0, "of {} packets of calls", self.calls.sent());
        assert_eq!(self.calls.duplicates, 0);
        for i in 0..3 {
            let up = self.nodes.snapshot(i).links.into_iter();
            let up = up.filter(|link| ["n0", "n1", "n2"].contains(&link.name.as_str()));
            assert!(
                up.into_iter()
                    .all(|link| link.state == "up" && link.counts.downs == 0)
            );
            let kept = self.nodes.snapshot(i).links.len();
            assert!(kept <= 3, "node {i} has {kept} links");
        }
        // No packet is under way between hellos.
        self.nodes.crash_host(self.attacker);
        for _ in 0..2_000 {
            if self.nodes.world.pool().in_use() == (0, 0) {
                break;
            }
            self.nodes.world.run_for(Duration::from_micros(1_300));
        }
        assert_eq!(self.nodes.world.pool().in_use(), (0, 0), "buffers are kept");
        self.nodes
    }
}
