//! Nodes whose keys come from ML-KEM too, beside nodes that have none, and beside somebody who wants them to have none.

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::world::streams::Streams;
use crate::world::{Nodes, PORT, Plan, SENDER, chain, voice};
use base::Duration;
use overlay::event::Drop;
use overlay::request::Options;
use overlay::snapshot::EndStatus;
use secure::{PostQuantum, Refusal};

const WISHES: [PostQuantum; 3] = [PostQuantum::Off, PostQuantum::Prefer, PostQuantum::Require];

/// A chain of nodes with these wishes.
fn of(wishes: &[PostQuantum]) -> Nodes {
    let plan = Plan {
        edges: chain(wishes.len()),
        post_quantum: wishes.iter().copied().enumerate().collect(),
        ..Plan::of(wishes.len())
    };
    let mut nodes = Nodes::planned(1, plan);
    for (a, b) in chain(wishes.len()) {
        nodes.link(a, b, "delay=10ms");
    }
    nodes
}

fn end(nodes: &Nodes, at: usize, with: usize) -> EndStatus {
    let name = crate::world::addr(with).to_string();
    let ends = nodes.snapshot(at).ends.into_iter();
    ends.into_iter().find(|end| end.node == name).unwrap()
}

#[test]
fn neighbours_and_ends_have_hybrid_sessions_where_both_want_them() {
    for a in WISHES {
        for b in WISHES {
            let mut nodes = of(&[a, b]);
            nodes.run_ms(4_000);
            let is_off = [a, b].contains(&PostQuantum::Off);
            let is_refused = is_off && [a, b].contains(&PostQuantum::Require);
            for (at, with) in [(0, 1), (1, 0)] {
                let link = &nodes.snapshot(at).links[0];
                assert_eq!(link.state == "up", !is_refused, "{a:?} {b:?}");
                assert_eq!(link.post_quantum, !is_off, "{a:?} {b:?}");
                if !is_refused {
                    let end = end(&nodes, at, with);
                    assert!(end.session_age_s.is_some());
                    assert_eq!(end.post_quantum, !is_off);
                }
            }
        }
    }
}

#[test]
fn who_requires_it_has_no_link_to_who_has_it_not_and_says_why() {
    // Whoever dials: the first node does.
    for (wishes, who) in [
        ([PostQuantum::Require, PostQuantum::Off], 0),
        ([PostQuantum::Off, PostQuantum::Require], 1),
    ] {
        let mut nodes = of(&wishes);
        nodes.run_ms(10_000);
        let link = nodes.snapshot(who).links.into_iter().next();
        if who == 0 {
            let reason = link.unwrap().reason.unwrap();
            assert!(reason.contains("post_quantum"), "{reason}");
            assert!(reason.contains("10.7.0.2"), "{reason}");
        }
        let other = 1 - who;
        let refused = Refusal::NotHybrid(crate::world::addr(other));
        assert!(nodes.count().refusals(refused) > 0);
        assert_ne!(nodes.snapshot(other).links[0].state, "up");
    }
}

/// ```text
///   requires (0) ---- prefers (1) ---- off (2)
/// ```
#[test]
fn nothing_is_sent_to_an_end_that_has_it_not_and_the_others_are_reached() {
    let mut nodes = of(&[PostQuantum::Require, PostQuantum::Prefer, PostQuantum::Off]);
    nodes.run_ms(4_000);
    assert!(nodes.snapshot(0).links[0].post_quantum);
    assert!(!nodes.snapshot(2).links[0].post_quantum);
    for to in [1, 2] {
        nodes.bind(to, voice());
    }
    nodes.set_sender(0, SENDER, voice());
    nodes.run_ms(1);
    nodes.world.take_replies();
    nodes.count();
    for n in 0..100 {
        let at = nodes.world.now() + Duration::from_millis(10) * n;
        nodes.send_to(at, 0, SENDER, (1, PORT), n, 160);
        nodes.send_to(at, 0, SENDER, (2, PORT), 100 + n, 160);
    }
    nodes.run_ms(3_000);
    let mut came: Vec<u64> = nodes.arrivals().into_iter().map(|(n, _)| n).collect();
    came.sort_unstable();
    assert_eq!(came, (0..100).collect::<Vec<_>>());
    assert_eq!(nodes.count().drops(Drop::EndClassic), 100);
    let refused = end(&nodes, 0, 2);
    assert_eq!((refused.sealed, refused.session_age_s), (0, None));
    assert!(refused.reason.unwrap().contains("10.7.0.3"));
    assert!(end(&nodes, 0, 1).reason.is_none());
    let node = nodes.party(0).as_node().unwrap();
    let network = node.network_snapshot(nodes.world.now());
    let why_not = network.nodes.into_iter().filter_map(|node| node.refused);
    assert_eq!(why_not.count(), 1, "`sinew why` says so");
    // The one between them speaks with both.
    assert!(end(&nodes, 1, 0).post_quantum && !end(&nodes, 1, 2).post_quantum);
}

/// Handshakes with such an end are not begun anew for each packet.
#[test]
fn an_end_that_has_it_not_is_asked_seldom() {
    let mut nodes = of(&[PostQuantum::Require, PostQuantum::Prefer, PostQuantum::Off]);
    nodes.run_ms(4_000);
    nodes.set_sender(0, SENDER, voice());
    nodes.count();
    for n in 0..2_000 {
        let at = nodes.world.now() + Duration::from_millis(10) * n;
        nodes.send_to(at, 0, SENDER, (2, PORT), n, 160);
    }
    nodes.run_ms(20_000);
    let totals = nodes.count();
    assert_eq!(totals.drops(Drop::EndClassic), 2_000);
    assert!(totals.drops(Drop::EndHandshake) <= 2, "one in 30 s");
}

/// Links and ends have changed their keys twice by the end, and no packet was lost by that.
#[test]
fn calls_run_through_changes_of_keys() {
    let mut nodes = of(&[PostQuantum::Require; 3]);
    nodes.run_ms(2_000);
    nodes.introduce(&[(0, 2)]);
    let options = Options {
        deadline: None,
        ..voice()
    };
    let mut calls = Streams::calls(&mut nodes, 1, 0, 2, options);
    calls.run(&mut nodes, Duration::from_secs(1_300));
    calls.finish(&mut nodes);
    assert_eq!(calls.missed(Duration::MAX), 0, "of {}", calls.sent());
    for (at, with) in [(0, 2), (2, 0)] {
        let end = end(&nodes, at, with);
        assert!(end.post_quantum && end.session_age_s.unwrap() < 200.0);
        let link = &nodes.snapshot(at).links[0];
        assert!(link.post_quantum && link.state == "up");
    }
    let totals = nodes.count();
    for reason in [Drop::EndForged, Drop::EndNoSession, Drop::UnknownSession] {
        assert_eq!(totals.drops(reason), 0, "{reason:?}");
    }
}
