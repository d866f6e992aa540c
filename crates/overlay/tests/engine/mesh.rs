//! Sessions from end to end between all pairs of nodes. The tests check their cost, and that nodes that come and go end
//! no session of other nodes.
#![allow(
    clippy::disallowed_macros,
    clippy::print_stdout,
    reason = "a test that shows what it measured"
)]

use crate::world::{Nodes, SENDER, number, voice};
use base::{Duration, Map};
use overlay::Settings;
use overlay::request::Options;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Links of each node to those after it in a ring: the next one, and some that are further away.
const STEPS: [usize; 3] = [1, 7, 31];
/// Number of rounds after which all nodes have sessions with each other. In a round, each node sends one packet to each
/// other node.
const FIRST: u64 = 3;

/// A network in which every node sends to every other one.
struct Mesh {
    nodes: Nodes,
    count: usize,
    sent: u64,
    arrived: u64,
}

impl Mesh {
    /// Creates `count` nodes with links and routes, but without sessions between ends.
    fn new(seed: u64, count: usize) -> Mesh {
        let settings = Settings {
            prepared_ends: 0,
            ..Settings::modern()
        };
        let steps = STEPS.iter().filter(|step| **step < count / 2);
        let edges: Vec<(usize, usize)> = steps
            .flat_map(|step| (0..count).map(move |i| (i, (i + step) % count)))
            .collect();
        let mut nodes = Nodes::with(seed, count, &edges, "delay=5ms", settings);
        nodes.run_ms(20_000);
        let mut mesh = Mesh {
            nodes,
            count,
            sent: 0,
            arrived: 0,
        };
        (0..count).for_each(|i| mesh.attach(i));
        mesh
    }

    /// Attaches the clients of node `i`.
    fn attach(&mut self, i: usize) {
        let patient = Options {
            deadline: None,
            ..voice()
        };
        self.nodes.bind(i, patient);
        self.nodes.set_sender(i, SENDER, patient);
    }

    /// Sends a packet from each of `among` to each other of them, within a second.
    fn round(&mut self, among: &[usize]) {
        let start = self.nodes.world.now();
        let gap = Duration::from_nanos(1_000_000_000 / among.len() as u64);
        for (place, &from) in among.iter().enumerate() {
            for n in 1..among.len() {
                let to = among[(place + n) % among.len()];
                let at = start + gap * n as u64;
                self.nodes.send(at, from, SENDER, to, self.sent);
                self.sent += 1;
            }
        }
        self.nodes.run_ms(1_500);
        self.arrived += self.nodes.arrivals().len() as u64;
        self.nodes.events();
    }

    /// Returns the age of the sessions between the nodes of `among`, by pair.
    fn ages(&self, among: &[usize]) -> Map<(usize, usize), f64> {
        let mut ages = Map::default();
        for &here in among {
            for end in self.nodes.snapshot(here).ends {
                let there = number(&end.node);
                if let (true, Some(age_s)) = (among.contains(&there), end.session_age_s) {
                    ages.insert((here, there), age_s);
                }
            }
        }
        ages
    }

    /// Restarts every `stride`-th node `times` times, while the other nodes go on sending to each other. No session
    /// between those other nodes may end or be replaced.
    fn others_keep_their_sessions(&mut self, stride: usize, times: u64) {
        let (leaving, staying): (Vec<usize>, Vec<usize>) =
            (0..self.count).partition(|i| i % stride == 0);
        let before = self.ages(&staying);
        assert_eq!(before.len(), staying.len() * (staying.len() - 1));
        let start = self.nodes.world.now();
        for time in 0..times {
            // The nodes restart in turns, so that the network stays connected.
            for &i in leaving.iter().skip(time as usize % 2).step_by(2) {
                self.nodes.restart(i);
            }
            // Packets on their way through the restarted nodes are lost.
            self.round(&staying);
            self.nodes.run_ms(8_500);
        }
        (self.sent, self.arrived) = (0, 0);
        self.round(&staying);
        assert_eq!(self.arrived, self.sent);
        let passed_s = self.nodes.world.now().since(start).as_nanos() as f64 / 1e9;
        for (pair, age_s) in self.ages(&staying) {
            assert!(age_s > before[&pair] + passed_s - 0.1, "{pair:?}: {age_s}");
        }
    }
}

/// Counts the bytes that the process has allocated.
struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is passed on to the system's allocator; the counter needs no allocation.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the rules of `alloc`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: `at` came from `alloc` above, with this layout.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn nodes_that_come_and_go_take_no_session_from_others() {
    let mut mesh = Mesh::new(1, 16);
    let all: Vec<usize> = (0..16).collect();
    (0..FIRST).for_each(|_| mesh.round(&all));
    assert_eq!(mesh.arrived, mesh.sent);
    mesh.others_keep_their_sessions(4, 2);
}

/// The goal: 200 nodes, all with sessions with all others, which cost each node at most 20 MB.
#[test]
#[ignore = "measures memory: alone, in a release build"]
fn two_hundred_nodes_in_a_full_mesh_of_sessions() {
    let mut mesh = Mesh::new(1, 200);
    let all: Vec<usize> = (0..mesh.count).collect();
    let before = IN_USE.load(Ordering::Relaxed);
    (0..FIRST).for_each(|_| mesh.round(&all));
    assert_eq!(mesh.ages(&all).len(), 200 * 199);
    assert_eq!(mesh.arrived, mesh.sent);
    let grown = IN_USE.load(Ordering::Relaxed).saturating_sub(before);
    let per_node = grown / mesh.count;
    println!("{per_node} bytes per node for 199 sessions each");
    assert!(per_node < 20 << 20, "{per_node}");
    mesh.others_keep_their_sessions(10, 6);
}
