//! How long the best route takes at 100 nodes and 200 links, and how good the other ways of routing
//! are beside it: `cargo run --release -p lab --example best_route [TOPOLOGIES]`.
#![allow(clippy::print_stdout)]

use base::Rng;
use graph::Parameters;
use graph::best::study::Routing;
use graph::best::{Effort, Question, ROUNDING, best_route};
use graph::delivery::Recovery;
use graph::generate::Network;
use graph::generate::waxman::Waxman;
use std::time::Instant;

/// A family of networks.
struct Family {
    nodes: usize,
    links_per_node: usize,
    side_km: u32,
    lossy_share: f64,
    most_loss: f64,
}

fn main() {
    let topologies = std::env::args()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .unwrap_or(100);
    println!("{topologies} Waxman networks each, from end to end of the diameter within 100 ms");
    let family = |nodes, links_per_node, side_km, lossy_share, most_loss| Family {
        nodes,
        links_per_node,
        side_km,
        lossy_share,
        most_loss,
    };
    // The sizes of [Amir06 Fig. 12, 13].
    for nodes in [15, 100] {
        for side_km in [2_000, 5_000, 8_000, 10_000, 12_000, 15_000] {
            measure(&family(nodes, 2, side_km, 0.5, 0.05), topologies);
        }
    }
    // Harder: everything is lossy; and ten times as large.
    for side_km in [1_000, 5_000, 9_000] {
        measure(&family(100, 2, side_km, 1.0, 0.15), topologies);
        measure(&family(1_000, 4, side_km, 0.5, 0.05), topologies / 10 + 1);
    }
}

fn tries_all_paths(family: &Family) -> bool {
    family.nodes <= 15
}

fn measure(family: &Family, topologies: u64) {
    let mut times: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
    let (mut widest_gap, mut most_work, mut diameter) = ([0.0f64; 2], [0, 0], 0.0);
    let mut differing = 0;
    let mut delivered = [0.0; Routing::COMPARED.len()];
    for seed in 0..topologies {
        let mut rng = Rng::new(seed);
        let shape = Waxman {
            nodes: family.nodes,
            links_per_node: family.links_per_node,
            side_km: family.side_km,
            ..Waxman::default()
        };
        let network = shape.generate(&mut rng).expect("a shape within its ranges");
        let losses = network.random_losses(family.lossy_share, family.most_loss, &mut rng);
        let topology = network.topology(Parameters::default(), &losses);
        let (a, b, far_us) = network.diameter().expect("more than one node");
        diameter += far_us as f64 / 1e3 / topologies as f64;
        let question = Question {
            src: Network::addr(a),
            dst: Network::addr(b),
            deadline_us: 100_000,
            recovery: Recovery::Paper,
        };
        for (i, effort) in [Effort::ROUTING, Effort::EXACT].iter().enumerate() {
            let start = Instant::now();
            let route = best_route(&topology, &question, effort).expect("a connected network");
            times[i].push(start.elapsed().as_secs_f64() * 1e3);
            widest_gap[i] = widest_gap[i].max(route.gap());
            most_work[i] = most_work[i].max(route.work);
        }
        if tries_all_paths(family) {
            let best = Routing::Best(Effort::EXACT).route(&topology, &question);
            let all = Routing::Exhaustive.route(&topology, &question);
            let [best, all] = [best, all].map(|route| route.expect("a connected network").delivery);
            differing += u32::from((best - all).abs() > 2.0 * ROUNDING);
        }
        for (sum, routing) in delivered.iter_mut().zip(Routing::COMPARED) {
            let route = routing
                .route(&topology, &question)
                .expect("a connected network");
            *sum += route.delivery / topologies as f64;
        }
    }
    println!(
        "{} nodes, {} links, plane {} km, 0-{:.0} % loss on {:.0} % of them; diameter {diameter:.1} ms",
        family.nodes,
        family.nodes * family.links_per_node,
        family.side_km,
        family.most_loss * 100.0,
        family.lossy_share * 100.0,
    );
    if tries_all_paths(family) {
        println!("  differs from the best of all paths in {differing} of {topologies}");
    }
    for (i, effort) in ["routing", "exact"].iter().enumerate() {
        times[i].sort_by(f64::total_cmp);
        println!(
            "  {effort:8} p50 {:7.2} ms  max {:7.2} ms  widest gap {:.6}  most work {}",
            times[i][times[i].len() / 2],
            times[i][times[i].len() - 1],
            widest_gap[i],
            most_work[i],
        );
    }
    let ratios = Routing::COMPARED.iter().zip(delivered);
    let ratios: Vec<String> = ratios
        .map(|(r, d)| format!("{} {:.4}", r.as_str(), d))
        .collect();
    println!("  {}", ratios.join("  "));
}
