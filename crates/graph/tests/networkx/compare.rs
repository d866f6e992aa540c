//! This module makes graphs from seeds, formats the crate's results in the form of corpus.py, and compares them with
//! the results of networkx.

#![allow(dead_code, reason = "each test program uses a part of it")]

use base::{NodeAddr, Rng};
use graph::spf::Tree;
use graph::width::model::Formula;
use graph::width::{Width, Widths, shortest_of_width, shortest_widest, widest_within};
use graph::{LinkCost, Metric, NodeIndex, Parameters, Topology, disjoint, paths};
use std::fmt::{Display, Write as _};

/// Number of graphs with a stored digest: the graphs of all seeds below it.
pub(crate) const GRAPHS: u64 = 10_000;

/// A graph from a file: its links, and the results of networkx.
pub(crate) struct Case<'a> {
    pub(crate) seed: u64,
    nodes: u32,
    links: Vec<(u32, u32, LinkCost)>,
    pub(crate) results: Vec<&'a str>,
    digest: &'a str,
}

/// Returns the graph of a seed, as corpus.py makes it.
pub(crate) fn generate(seed: u64) -> (u32, Vec<(u32, u32, LinkCost)>) {
    let mut rng = Rng::new(seed);
    let mut below = |bound: u64| rng.below(bound) as u32;
    let mut nodes = 2 + below(15);
    if below(20) == 0 {
        nodes = 20 + below(41);
    }
    let count = nodes + below(3 * u64::from(nodes));
    let few_values = below(2) == 0;
    let both_ways = below(2) == 0;
    let mut links = Vec::new();
    for _ in 0..count {
        let (a, b) = (below(nodes.into()), below(nodes.into()));
        let (latency_us, loss) = if few_values {
            (1_000 * (1 + below(4)), 2_000 * below(3))
        } else {
            let latency_us = 1 + below(100_000);
            let loss = if below(2) == 0 { 0 } else { below(6_554) };
            (latency_us, loss)
        };
        if a != b {
            let link = LinkCost::of_share(latency_us, loss as u16);
            links.push((a, b, link));
            if both_ways {
                links.push((b, a, link));
            }
        }
    }
    (nodes, links)
}

fn addr(node: u32) -> NodeAddr {
    NodeAddr(node + 1)
}

pub(crate) fn topology(nodes: u32, links: &[(u32, u32, LinkCost)]) -> Topology {
    let links = links.iter().map(|&(a, b, link)| (addr(a), addr(b), link));
    let mut topology = Topology::from_links(Parameters::default(), links);
    // corpus.py computes widths by the paper's formula.
    topology.predict_by(Formula::SquareRoot);
    for node in 0..nodes {
        topology.add_node(addr(node));
    }
    topology
}

/// Formats a line: a name, and values or `-`.
fn line<T: Display>(name: &str, values: impl IntoIterator<Item = Option<T>>) -> String {
    let mut line = name.to_owned();
    for value in values {
        match value {
            Some(value) => write!(line, " {value}").expect("to a string"),
            None => line.push_str(" -"),
        }
    }
    line
}

/// Returns the crate's results in the form of corpus.py.
pub(crate) fn results(nodes: u32, topology: &Topology) -> Vec<String> {
    let index = |node| topology.index(addr(node)).expect("every node is there");
    let name = |node: NodeIndex| topology.addr(node).0 - 1;
    let (root, last) = (index(0), addr(nodes - 1));
    let mut lines = Vec::new();
    for metric in Metric::ALL {
        let tree = Tree::new(topology, root, metric);
        let distances = (0..nodes).map(|node| tree.distance(index(node)).map(|cost| cost.0));
        lines.push(line(metric.as_str(), distances));
        let parents = (0..nodes).map(|node| tree.parent(index(node)).map(name));
        lines.push(line(&format!("{metric}-parents"), parents));
    }
    let known = |width: Width| (width > Width::NONE && width < Width::UNLIMITED).then_some(width.0);
    let widths = Widths::new(topology, root);
    lines.push(line(
        "width",
        (0..nodes).map(|node| known(widths.width(index(node)))),
    ));
    for hops in 1..=3 {
        let limited = widest_within(topology, root, hops);
        let widths = (0..nodes).map(|node| {
            let width = limited.width(index(node));
            if let Some(path) = limited.path(topology, index(node), Metric::Hops) {
                assert!(path.hops.len() <= hops && path.width() == width, "{path:?}");
            }
            known(width)
        });
        lines.push(line(&format!("width-{hops}"), widths));
    }
    let total = |path: Option<paths::Path>| [path.map(|path| path.total.0)];
    let (src, by) = (addr(0), Metric::Latency);
    let widest = shortest_widest(topology, src, last, by).ok();
    lines.push(line("shortest-widest", total(widest)));
    let half = Width(widths.width(topology.index(last).expect("it is there")).0 / 2);
    let enough = (half > Width::NONE).then(|| shortest_of_width(topology, src, last, by, half));
    lines.push(line("shortest-half", total(enough.and_then(Result::ok))));
    for k in 1..=3 {
        let found = disjoint::disjoint(topology, src, last, by, k).unwrap_or_default();
        let cost = (!found.is_empty()).then(|| disjoint::total(&found).0);
        lines.push(line(&format!("disjoint-{k} {}", found.len()), [cost]));
    }
    let shortest = paths::shortest(topology, src, last, by, 4).unwrap_or_default();
    lines.push(line(
        "paths",
        shortest.iter().map(|path| Some(path.total.0)),
    ));
    lines
}

pub(crate) fn digest<S: AsRef<str>>(lines: &[S]) -> String {
    let mut value: u64 = 0xcbf2_9ce4_8422_2325;
    let mut byte = |byte: u8| value = (value ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    for line in lines {
        line.as_ref().bytes().chain([b'\n']).for_each(&mut byte);
    }
    format!("{:08x}", (value >> 32) ^ (value & 0xffff_ffff))
}

pub(crate) fn parse(text: &str) -> Vec<Case<'_>> {
    let mut cases: Vec<Case<'_>> = Vec::new();
    for line in text.lines() {
        let mut words = line.split(' ');
        let kind = words.next().unwrap_or_default();
        let mut number = || {
            words
                .next()
                .and_then(|word| word.parse().ok())
                .expect("a number")
        };
        if kind == "graph" {
            let (seed, nodes) = (number(), number());
            cases.push(Case {
                seed: u64::from(seed),
                nodes,
                links: Vec::new(),
                results: Vec::new(),
                digest: "",
            });
            continue;
        }
        let case = cases.last_mut().expect("`graph` comes first");
        match kind {
            "link" => {
                let (a, b, latency_us, loss) = (number(), number(), number(), number() as u16);
                case.links
                    .push((a, b, LinkCost::of_share(latency_us, loss)));
            }
            "end" => case.digest = line.trim_start_matches("end "),
            _ => case.results.push(line),
        }
    }
    cases
}

pub(crate) fn check(case: &Case<'_>) {
    let ours = results(case.nodes, &topology(case.nodes, &case.links));
    for (ours, theirs) in ours.iter().zip(&case.results) {
        assert_eq!(ours, theirs, "graph {}: ours and networkx's", case.seed);
    }
    assert_eq!(ours.len(), case.results.len(), "graph {}", case.seed);
    assert_eq!(case.digest, digest(&ours), "graph {}", case.seed);
    // The generator here must equal the one in corpus.py.
    let (nodes, links) = generate(case.seed);
    let generated = results(nodes, &topology(nodes, &links));
    assert_eq!(
        digest(&generated),
        case.digest,
        "graph {}: the generators differ",
        case.seed
    );
}
