//! The peer: networkx computes the same distances over the same graph.

use super::BenchError;
use super::report::Spread;
use graph::{Metric, Topology};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Number of runs, of milliseconds each.
const ROUNDS: usize = 25;

/// Reads `from to cost` lines, computes from node 0, and prints nanoseconds.
const PROGRAM: &str = "
import sys, time, networkx
graph = networkx.DiGraph()
for line in sys.stdin:
    a, b, cost = map(int, line.split())
    graph.add_edge(a, b, weight=cost)
for _ in range(int(sys.argv[1])):
    start = time.perf_counter_ns()
    networkx.single_source_dijkstra_path_length(graph, 0)
    print(time.perf_counter_ns() - start)
";

/// Measures `single_source_dijkstra_path_length` by latency.
pub(super) fn measure(python: &Path, topology: &Topology) -> Result<Spread, BenchError> {
    let fail = |why: &dyn std::fmt::Display| {
        BenchError::Start(format!(
            "{} with networkx: {why} (`pip install networkx` in a virtual environment, then name its python)",
            python.display()
        ))
    };
    let mut child = Command::new(python)
        .args(["-c", PROGRAM, &ROUNDS.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| fail(&error))?;
    let mut text = String::new();
    for node in topology.nodes() {
        for edge in topology.links_from(node) {
            let (from, to) = (node.place(), edge.peer.place());
            text += &format!("{from} {to} {}\n", edge.cost(Metric::Latency).0);
        }
    }
    // A program that ends early reads no more input: its output shows why.
    let written = child
        .stdin
        .take()
        .map(|mut pipe| pipe.write_all(text.as_bytes()));
    let output = child.wait_with_output().map_err(|error| fail(&error))?;
    let lines = String::from_utf8_lossy(&output.stdout);
    let times: Vec<u64> = lines.lines().filter_map(|line| line.parse().ok()).collect();
    if times.len() < ROUNDS || !matches!(written, Some(Ok(()))) {
        return Err(fail(&"it did not compute"));
    }
    Ok(Spread::of(times))
}
