//! A network is upgraded node by node, and back, while calls, streams and copies run: nodes of this program run
//! together with nodes of an earlier one. `cargo xtask upgrade` builds the earlier program and runs this test.
//! `SINEW_OLD` names its path.
//!
//! ```text
//!       a ───── b
//!      ╱ ╲     ╱ ╲          b-d, d-e and e-a lose packets, so that nodes that know how lanes are protected
//!     e ──╲───╱── c         reckon otherwise than nodes that do not
//!      ╲   ╲ ╱   ╱          20 calls: one from each node to each other one
//!       ╲── d ──╱
//! ```
//! The calls between two other nodes may be interrupted for as long as it takes to reroute around a node that has gone.
//! A call of the node itself may be interrupted until the node is back, and its neighbours have heard it.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_macros,
    reason = "a test that shows what it measured, and says where it cannot go on"
)]

mod world;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use world::World;
use world::streams::{INTERVAL, Stream};

const NODES: [&str; 5] = ["a", "b", "c", "d", "e"];
/// The nodes that each node dials.
const LINKS: [(&str, &str); 5] = [
    ("a", "none"),
    ("b", "a"),
    ("c", "b"),
    ("d", "a,b,c"),
    ("e", "a,d"),
];
/// Packets per second of a call.
const RATE: u64 = 50;
/// Packets in flight, which are left out of counts: 200 ms of deadline.
const TAIL: u64 = 10;
const PORT: u16 = 5000;
/// The longest interruption of a call around the node: the same as for a killed relay.
const AROUND: Duration = Duration::from_millis(500);
/// The longest interruption of a call of the node itself, from its last packet before it is stopped.
const BACK: Duration = Duration::from_secs(2);
/// One of this many packets may be sent back to where it came from. Choice: while links go down and up, nodes learn
/// about it one after the other, whatever their version.
const LOOPS_PER: u64 = 1000;
/// A call is alive if it has lost no more than this of the last second.
const ALIVE: u64 = RATE / 5;

/// The damage of the restart of one node.
#[derive(Debug, Default)]
struct Cost {
    /// The longest gap of a call between other nodes; below it, the packets that these calls lost.
    others: Duration,
    lost: u64,
    /// The longest gap of a call of the node itself.
    own: Duration,
}

struct Network {
    world: World,
    calls: Vec<(usize, usize, Stream)>,
    /// Drops that a restarted node had counted before its end, by reason.
    drops: BTreeMap<String, u64>,
}

impl Network {
    fn new(program: &Path) -> Network {
        let mut world = World::new("upgrade");
        for (i, (name, dials)) in LINKS.into_iter().enumerate() {
            world.add(name, i as u16 + 1, &format!("--lab --link {dials}"));
        }
        for (i, (name, dials)) in LINKS.into_iter().enumerate() {
            for other in dials.split(',').filter(|other| *other != "none") {
                // There are no delays: a delayed packet does not leave a node that stops, and its good-bye would be
                // lost.
                let model = match (name, other) {
                    ("d", "b") | ("e", "d") => "loss=3% burst=50%",
                    ("e", "a") => "loss=1%",
                    _ => continue,
                };
                world.impair(name, other, model);
            }
            let root = world.dir.join(format!("{name}-data"));
            fs::create_dir_all(&root).unwrap();
            let path = world.node(NODES[i]).join("node.toml");
            let text = fs::read_to_string(&path).unwrap();
            fs::write(&path, format!("{text}\n[relay]\nroots = [{root:?}]\n")).unwrap();
        }
        for name in NODES {
            world.launch_as(name, program);
        }
        let mut network = Network {
            world,
            calls: Vec::new(),
            drops: BTreeMap::new(),
        };
        for i in 0..NODES.len() {
            network.wait_until_whole(i);
        }
        let pairs = (0..NODES.len()).flat_map(|from| (0..NODES.len()).map(move |to| (from, to)));
        for (from, to) in pairs.filter(|(from, to)| from != to) {
            let name = format!("{}-{}", NODES[from], NODES[to]);
            let port = PORT + network.calls.len() as u16;
            let socket = |i: usize| network.world.socket(NODES[i]);
            let call = Stream::begin(&name, socket(from), socket(to), port);
            network.calls.push((from, to, call));
        }
        network.calls[0].2.run(3 * RATE);
        network
    }

    /// Waits until a node answers, has its links, and has a path to all others.
    fn wait_until_whole(&self, i: usize) {
        let name = NODES[i];
        let control = self.world.control(name);
        self.world.wait(&format!("{name} answers"), || {
            std::os::unix::net::UnixStream::connect(&control).is_ok()
        });
        for (at, dials) in LINKS {
            for other in dials.split(',').filter(|other| *other != "none") {
                if at == name || other == name {
                    self.world.wait_for_link(at, other);
                }
            }
        }
        for (other, to) in NODES.iter().enumerate().filter(|(other, _)| *other != i) {
            let address = format!("10.7.0.{}", other + 1);
            self.world.wait(&format!("{name} has a way to {to}"), || {
                self.world.has_route(name, &address)
            });
        }
    }

    /// Stops a node as an operator would, and starts it again with another program.
    fn replace(&mut self, i: usize, program: &Path) -> Cost {
        let name = NODES[i];
        let begun: Vec<u64> = self.calls.iter().map(|(.., call)| call.due()).collect();
        self.note_drops(name);
        self.world.stop(name);
        self.world.launch_as(name, program);
        self.wait_until_whole(i);
        self.calls[0].2.run(2 * RATE);
        let mut cost = Cost::default();
        for ((from, to, call), begun) in self.calls.iter().zip(begun) {
            let end = call.due() - TAIL;
            // The gap counts packets in a row, and not time: a busy machine delays packets that are not lost.
            let gap = INTERVAL * u32::try_from(call.gap(begun - TAIL, end)).unwrap();
            if *from == i || *to == i {
                cost.own = cost.own.max(gap);
            } else {
                cost.others = cost.others.max(gap);
                cost.lost += call.lost(begun - TAIL, end);
            }
            let late = call.lost(end - RATE, end);
            assert!(
                late <= ALIVE,
                "{name}: {} lost {late} packets of the last second",
                call.name
            );
        }
        cost
    }

    /// Runs streams and copies between the replaced node and the next one, which still has the other program. The next
    /// of the last node is the first one, so both have the same program then. Each step sends new data, so that the
    /// remains of an earlier step cannot pass as a copy.
    fn mixed(&self, (step, i): (u32, usize), copies: bool) {
        let (here, there) = (NODES[i], NODES[(i + 1) % NODES.len()]);
        for (way, (from, to)) in [(here, there), (there, here)].into_iter().enumerate() {
            let salt = 2 * step + way as u32;
            let content: Vec<u8> = (0..300_000u32)
                .map(|at| (at.wrapping_mul(2 * salt + 7) >> 3) as u8)
                .collect();
            fs::write(self.world.dir.join("sent"), &content).unwrap();
            let listen = self
                .world
                .begin(&format!("listen 4000 --out got --node net/{to}"));
            let taken = client::Node::at(self.world.socket(to));
            self.world.wait("somebody listens", || {
                taken.bind(4000, client::Options::stream()).is_err()
            });
            self.world
                .sinew(&format!("send {to}:4000 sent --node net/{from}"));
            assert!(listen.wait_with_output().unwrap().status.success());
            assert!(fs::read(self.world.dir.join("got")).unwrap() == content);
            if copies {
                self.world
                    .sinew(&format!("cp sent {to}:copy --node net/{from}"));
                let copy = self.world.dir.join(format!("{to}-data/copy"));
                assert!(fs::read(copy).unwrap() == content, "{from} to {to}");
            }
        }
        if copies {
            // The copy passes a node with the other program, except at the last node.
            let end = NODES[(i + 2) % NODES.len()];
            let words = format!("cp sent {end}:relayed --via {there} --node net/{here}");
            self.world.sinew(&words);
            let relayed = self.world.dir.join(format!("{end}-data/relayed"));
            let sent = self.world.dir.join("sent");
            assert!(fs::read(relayed).unwrap() == fs::read(sent).unwrap());
        }
    }

    fn note_drops(&mut self, name: &str) {
        let status = self.world.status(name);
        for (reason, count) in status["counters"]["drops"].as_object().unwrap() {
            let sum = self.drops.entry(reason.clone()).or_default();
            *sum += count.as_u64().unwrap();
        }
    }
}

fn old() -> Option<PathBuf> {
    let old = std::env::var_os("SINEW_OLD").map(PathBuf::from);
    if old.is_none() {
        eprintln!("SKIPPED: no earlier program is named by SINEW_OLD; `cargo xtask upgrade` does");
    }
    old
}

#[test]
#[ignore = "needs the program of an earlier version: `cargo xtask upgrade`"]
fn five_nodes_are_upgraded_and_back_during_twenty_calls() {
    let Some(old) = old() else {
        return;
    };
    // Programs before version 6 of bulk data can copy only among themselves.
    let copies = std::env::var_os("SINEW_OLD_COPIES").is_none_or(|says| says != "no");
    let new = PathBuf::from(env!("CARGO_BIN_EXE_sinew"));
    let mut network = Network::new(&old);
    let mut step = 0;
    for (program, word) in [(&new, "upgraded"), (&old, "downgraded")] {
        for (i, name) in NODES.iter().enumerate() {
            let cost = network.replace(i, program);
            println!(
                "{name} {word}: gaps of {} ms at most in 12 calls of others, which lost {} packets; its own calls have gaps \
                 of {} ms at most",
                cost.others.as_millis(),
                cost.lost,
                cost.own.as_millis()
            );
            assert!(cost.others <= AROUND, "{name}: {cost:?}");
            assert!(cost.own <= BACK, "{name}: {cost:?}");
            network.mixed((step, i), copies);
            step += 1;
        }
    }
    for name in NODES {
        network.note_drops(name);
    }
    let drops = |reason: &str| network.drops.get(reason).copied().unwrap_or_default();
    let sent: u64 = network.calls.iter().map(|(.., call)| call.due()).sum();
    println!(
        "of {sent} packets of calls {} met their own way, {} lived too long, {} had no route",
        drops("loop"),
        drops("ttl_exceeded"),
        drops("no_route")
    );
    assert_eq!(drops("ttl_exceeded"), 0, "packets went in circles");
    assert!(
        drops("loop") * LOOPS_PER <= sent,
        "routes of two versions lead back"
    );
    for (.., call) in &mut network.calls {
        call.end();
    }
}

/// The wish of a call for repair spreads from node to node. If a node in between does not know it, the nodes before it
/// know the wish and the nodes behind it do not, and nothing else changes.
#[test]
#[ignore = "needs the program of an earlier version: `cargo xtask upgrade`"]
fn an_earlier_node_skips_what_senders_want_of_repair() {
    let Some(old) = old() else {
        return;
    };
    let new = PathBuf::from(env!("CARGO_BIN_EXE_sinew"));
    // A later program accepts the option, and passes the wish on.
    let help = Command::new(&old).args(["test-call", "--help"]).output();
    let passes_on = String::from_utf8_lossy(&help.unwrap().stdout).contains("--target");
    for (middle, told) in [(&new, Some(0.01)), (&old, passes_on.then_some(0.01))] {
        let mut world = World::new("upgrade-targets");
        for (i, (name, dials)) in [("a", "none"), ("b", "a"), ("c", "b")]
            .into_iter()
            .enumerate()
        {
            world.add(name, i as u16 + 1, &format!("--lab --link {dials}"));
        }
        for (name, program) in [("a", &new), ("b", middle), ("c", &new)] {
            world.launch_as(name, program);
        }
        world.wait("a has a way to c", || world.has_route("a", "10.7.0.3"));
        let mut answerer = world.begin("test-call --answer --node net/c");
        world.wait("c answers", || {
            let call = world.try_sinew("test-call c --seconds 1 --node net/a");
            call.status.success()
        });
        let call = world.begin("test-call c --seconds 5 --target 0.01% --json --node net/a");
        world.wait("a aims at it", || {
            let links = world.status("a")["snapshot"]["links"].clone();
            links[0]["realtime"]["protection"]["target_pct"] == 0.01
        });
        let call = call.wait_with_output().unwrap();
        let call: serde_json::Value = serde_json::from_slice(&call.stdout).unwrap();
        let there = &call["overlay"]["there"];
        assert!(there["lost_pct"].as_f64().unwrap() < 10.0, "{call}");
        let flows = world.json("flows --node net/c");
        let flows = flows.as_array().unwrap();
        let targets = flows.iter().filter(|flow| flow["role"] == "delivers");
        let targets: Vec<_> = targets
            .filter_map(|flow| flow["target_pct"].as_f64())
            .collect();
        assert_eq!(targets.first().copied(), told, "{flows:?}");
        for name in ["a", "b", "c"] {
            let drops = world.status(name)["counters"]["drops"].clone();
            assert!(
                drops["malformed"].as_u64().unwrap_or(0) == 0,
                "{name}: {drops}"
            );
        }
        answerer.kill().unwrap();
        answerer.wait().unwrap();
    }
}
