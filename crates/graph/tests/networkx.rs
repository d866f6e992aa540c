//! These tests compare the algorithms with networkx, on 10 000 random graphs: shortest distances and the parents that
//! ties leave, widest paths, hop-limited, shortest-widest and width-constrained ones, disjoint paths and the shortest
//! simple paths.
//!
//! ```text
//!   networkx/corpus.py make ──▶ graphs.txt    some graphs, their links and results in full
//!                          └──▶ digests.txt   a digest of the results of each of the 10 000
//!   networkx/corpus.py live ──▶ fresh ones: lab's test of this name, where networkx is installed
//! ```
//!
//! The step from seed to graph is implemented twice, here and there, and so are costs and widths. Any difference shows
//! in the comparison.

#[path = "networkx/compare.rs"]
mod compare;

use compare::{Case, GRAPHS, check, digest, generate, parse, results, topology};

#[test]
fn graphs_kept_in_full_have_networkxs_results() {
    let cases = parse(include_str!("networkx/graphs.txt"));
    assert_eq!(cases.len(), 150);
    cases.iter().for_each(check);
    // The cases are of the intended kinds: with ties, without a path, with several paths.
    let count = |wanted: fn(&str) -> bool| {
        let has = |case: &&Case<'_>| case.results.iter().any(|line| wanted(line));
        cases.iter().filter(has).count()
    };
    assert!(count(|line| line == "disjoint-1 0 -") > 5);
    assert!(count(|line| line.starts_with("disjoint-3 3 ")) > 5);
    assert!(count(|line| line.starts_with("paths ") && line.split(' ').count() == 5) > 20);
}

#[test]
fn ten_thousand_graphs_have_networkxs_digests() {
    let digests: Vec<&str> = include_str!("networkx/digests.txt")
        .split_whitespace()
        .collect();
    assert_eq!(digests.len() as u64, GRAPHS);
    for (seed, theirs) in (0..GRAPHS).zip(&digests) {
        let (nodes, links) = generate(seed);
        let ours = digest(&results(nodes, &topology(nodes, &links)));
        assert_eq!(
            &ours, theirs,
            "seed {seed}: see it by `networkx/corpus.py live {seed} 1`"
        );
    }
}

/// The comparison detects differences: another cost gives another digest.
#[test]
fn a_difference_shows() {
    let (nodes, mut links) = generate(7);
    let before = digest(&results(nodes, &topology(nodes, &links)));
    for (_, _, link) in &mut links {
        link.latency_us += 1;
    }
    assert_ne!(before, digest(&results(nodes, &topology(nodes, &links))));
}
