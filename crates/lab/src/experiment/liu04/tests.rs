//! Small versions of the experiments: seconds, not minutes.

use super::chain::{BUFFER_SEGMENTS, Chain};
use super::underlay::{LINKS, LOSS_MAX, NODES, OVERLAY_NODES, Underlay};
use super::{EXPERIMENTS, fig8, fig9, impact};
use crate::experiment::{Cell, Plan, Rows, Size, Stop, catalogue};
use graph::generate::Network;
use graph::width::model::Formula;
use std::collections::BTreeSet;

#[test]
fn a_clean_chain_is_filled_end_to_end_and_by_relays_alike() {
    for cuts in [vec![0, 3], vec![0, 1, 2, 3]] {
        let mut chain = Chain::new(&[0, 0, 0]);
        (chain.cuts, chain.seconds) = (cuts, 10);
        let outcome = chain.run(1);
        // The rate is 20 Mbit/s minus headers, probes and the dips of Reno.
        let kbps = outcome.transfers_kbps[0];
        assert!((17_000.0..19_231.0).contains(&kbps), "{kbps}");
        assert!(outcome.held_most <= 2.0 * 2.0 * f64::from(BUFFER_SEGMENTS));
        assert!(outcome.ordinary_kbps.concat().is_empty());
    }
}

#[test]
fn full_buffers_stop_the_sender_before_them() {
    let mut chain = Chain::new(&[0, 40]);
    (chain.cuts, chain.seconds) = (vec![0, 1, 2], 10);
    let outcome = chain.run(1);
    // The first link could carry 19 Mbit/s. The sender does not send what the relay does not accept: it is neither lost
    // nor retransmitted.
    let kbps = outcome.transfers_kbps[0];
    assert!(kbps < 4_000.0, "{kbps}");
    assert_eq!(outcome.losses[0], 0.0);
    assert!(
        outcome.held_most > f64::from(BUFFER_SEGMENTS),
        "the relay's buffers fill"
    );
    assert!(outcome.held_most <= 2.0 * f64::from(BUFFER_SEGMENTS));
}

#[test]
fn relays_beat_one_connection_over_congested_links() {
    let rows = [1, 2, 3].map(|connections| fig8::small(connections, 7));
    let kbps = rows.each_ref().map(|row| row.value("kbps"));
    assert!(kbps[2] > 1.5 * kbps[0], "{kbps:?}");
    assert!(rows[0].value("loss_1") > rows[0].value("loss_0"));
    let model = rows.each_ref().map(|row| row.value("model_kbps"));
    assert!(model[0] <= model[1] && model[1] <= model[2]);
    assert_eq!(rows[2], fig8::small(3, 7), "equal seeds, equal rows");
}

#[test]
fn the_underlay_has_the_papers_size_and_its_routes_are_the_simulators() {
    for seed in 0..20 {
        let underlay = Underlay::new(seed).unwrap();
        assert_eq!(underlay.size(), (NODES, LINKS), "seed {seed}");
        assert!(underlay.losses().1 <= LOSS_MAX);
        let distinct: BTreeSet<usize> = underlay.overlay.iter().copied().collect();
        assert_eq!(distinct.len(), OVERLAY_NODES);
        let graph = underlay.graph(Formula::SquareRoot);
        assert_eq!(graph.link_count(), OVERLAY_NODES * (OVERLAY_NODES - 1));
        for &(a, b) in &underlay.pairs {
            let route = underlay.route(a, b);
            assert_eq!((route[0], route[route.len() - 1]), (a, b));
            let [from, to] = [a, b].map(|node| graph.index(Network::addr(node)).unwrap());
            let known = graph.known(from, to);
            let [there, back] = [underlay.route_us(a, b), underlay.route_us(b, a)];
            let latency_us = graph.link(from, to).unwrap().link.latency_us;
            assert_eq!(
                u64::from(latency_us),
                (there + back) / 2,
                "half a round trip"
            );
            assert_eq!(known.physical_hops.map(usize::from), Some(route.len() - 1));
        }
    }
}

#[test]
fn a_transfer_gains_by_relays_what_the_model_says_if_not_as_much() {
    let underlay = Underlay::new(1).unwrap();
    let [direct, relayed] = [1.0, 8.0].map(|hops| {
        let cell = Cell::at(&[("hops", hops)]);
        let row = fig9::measured(&cell, &underlay, underlay.pairs[2], 20, 1).unwrap();
        let ratio = row.value("kbps") / row.value("model_kbps");
        assert!((0.4..1.1).contains(&ratio), "{ratio}");
        row
    });
    assert_eq!(
        (direct.value("taken_hops"), relayed.value("taken_hops")),
        (1.0, 3.0)
    );
    assert!(relayed.value("kbps") > 2.0 * direct.value("kbps"));
}

#[test]
fn shorter_paths_cost_width() {
    for experiment in EXPERIMENTS
        .iter()
        .filter(|e| ["liu04/fig10", "liu04/fig11"].contains(&e.id()))
    {
        let plan = Plan {
            size: Size::Quick,
            seed: 1,
            program: "sinew".into(),
            speech: None,
            overrides: Vec::new(),
            stop: Stop::default(),
        };
        let rows = experiment
            .cells(Size::Quick)
            .iter()
            .map(|cell| experiment.measure(&plan, cell, 0).unwrap())
            .collect();
        let findings = experiment.conclude(&plan, &Rows(rows));
        assert_eq!(
            findings.verdicts.len(),
            catalogue::claims(experiment.id()).count()
        );
        let hops = findings
            .verdicts
            .iter()
            .find(|v| v.claim.starts_with("hops"));
        assert_eq!(hops.and_then(|verdict| verdict.holds), Some(true));
    }
}

#[test]
fn local_recovery_spares_the_other_links() {
    let packets = [0.0, 1.0].map(|relayed| {
        let cell = Cell::at(&[("part", 1.0), ("size", 0.1), ("relayed", relayed)]);
        impact::measured(&cell, 20, 1).value("packets_per_segment")
    });
    // With 10 % errors on one of six links, there are 1.11 packets on each, or on that one alone.
    assert!(packets[1] < packets[0], "{packets:?}");
    assert!((1.0..1.06).contains(&packets[1]), "{packets:?}");
}

#[test]
fn a_transfer_is_not_held_back_by_how_empty_the_links_were_at_first() {
    // The expected rate is that of one of 120 flows: 20 Mbit/s minus headers, shared. If it began with the others, the
    // transfer of this seed would have 17 kbit/s.
    let seed = base::Rng::new(3 ^ (1 << 32)).next_u64();
    let seed = base::Rng::new(seed).next_u64();
    let mut chain = Chain::new(&[120]);
    chain.seconds = 60;
    let outcome = chain.run(seed);
    let kbps = outcome.transfers_kbps[0];
    assert!((100.0..230.0).contains(&kbps), "{kbps}");
}
