//! The whole network learns what bulk transfers have carried over a link, and how many physical links this link
//! crosses.

use crate::uplinks::call;
use crate::world::streams::Streams;
use crate::world::{Nodes, addr, chain};
use base::Duration;
use overlay::Settings;
use overlay::request::Operation;
use overlay::snapshot::KnownLink;
use std::num::NonZeroU8;
use wire::link_state::{Bulk, Rates, Sending};

/// Returns what the last node of three knows of the first link.
fn known(nodes: &Nodes) -> KnownLink {
    let node = nodes.party(2).as_node().expect("it runs");
    let network = node.network_snapshot(nodes.world.now());
    let link = network
        .links
        .into_iter()
        .find(|link| link.from == addr(0).to_string() && link.to == addr(1).to_string());
    link.expect("the link is known")
}

#[test]
fn how_a_lossy_link_is_protected_is_told_and_by_the_papers_nodes_nothing() {
    for (settings, told) in [(Settings::modern(), true), (Settings::paper(), false)] {
        let path = "delay=60ms loss=5% burst=50%";
        let mut nodes = Nodes::with(1, 3, &[(0, 1), (1, 2)], path, settings);
        nodes.run_ms(5_000);
        let mut calls = Streams::begin(&mut nodes, vec![call(0, 1, Duration::ZERO)]);
        calls.run(&mut nodes, Duration::from_secs(60));
        calls.finish(&mut nodes);
        let known = known(&nodes);
        let run = known.run_256ths.map(|run| f64::from(run) / 256.0);
        assert_eq!(run.is_some(), told);
        // The measured length of a run of losses is two, or one step away from it.
        assert!(run.is_none_or(|run| run > 1.5 && run < 3.0), "{run:?}");
        assert_eq!(known.repair_16ths, if told { 16 } else { 0 });
        nodes.world.close().unwrap();
    }
}

#[test]
fn what_a_link_has_carried_is_told_and_small_changes_are_not() {
    let mut nodes = Nodes::new(1, 3, &chain(3), "delay=10ms");
    nodes.run_ms(10_000);
    assert_eq!(known(&nodes).measured_kbps, None);
    for (kbps, expected) in [(80_000, 80_000), (89_000, 80_000), (40_000, 40_000)] {
        let neighbor = addr(1);
        let rates = Rates {
            one_kbps: kbps,
            ..Rates::default()
        };
        nodes.operate(0, Operation::Carried { neighbor, rates });
        nodes.run_ms(2_000);
        assert_eq!(known(&nodes).measured_kbps, Some(expected), "{kbps}");
    }
}

#[test]
fn a_node_s_part_in_bulk_data_is_told_when_it_changes() {
    let mut nodes = Nodes::new(1, 3, &chain(3), "delay=10ms");
    nodes.run_ms(10_000);
    let told = |nodes: &Nodes| {
        let node = nodes.party(2).as_node().expect("it runs");
        let network = node.network_snapshot(nodes.world.now());
        let first = addr(0).to_string();
        let found = network.nodes.into_iter().find(|node| node.address == first);
        found.expect("it is known").bulk
    };
    assert_eq!(told(&nodes), None);
    for (load, is_shut) in [(3, false), (Bulk::LOAD_FULL, true), (0, false)] {
        let bulk = Bulk {
            is_closed: false,
            is_for_some: load == 3,
            relays_for: None,
            load,
            sending: Sending::ByRate,
        };
        nodes.operate(0, Operation::Bulk(bulk));
        nodes.run_ms(2_000);
        let known = told(&nodes).expect("it is told");
        assert_eq!(
            (known.load, known.is_shut(), known.by_rate, known.for_some),
            (load, is_shut, true, load == 3)
        );
    }
}

#[test]
fn physical_hops_are_told_until_they_are_unknown_again() {
    let mut nodes = Nodes::new(1, 3, &chain(3), "delay=10ms");
    nodes.run_ms(10_000);
    assert_eq!(known(&nodes).hops, None);
    let neighbor = addr(1);
    for hops in [NonZeroU8::new(12), NonZeroU8::MAX.into(), None] {
        nodes.operate(0, Operation::Hops { neighbor, hops });
        nodes.run_ms(2_000);
        assert_eq!(known(&nodes).hops, hops);
        let own = nodes.party(0).as_node().expect("it runs");
        assert_eq!(own.snapshot(nodes.world.now()).links[0].hops, hops);
    }
}

#[test]
fn a_number_that_is_the_same_moves_no_record_and_a_stranger_has_none() {
    let mut nodes = Nodes::new(1, 2, &chain(2), "delay=10ms");
    nodes.run_ms(10_000);
    let hops = NonZeroU8::new(3);
    let say = |nodes: &mut Nodes, neighbor| {
        nodes.operate(0, Operation::Hops { neighbor, hops });
        nodes.run_ms(2_000);
        let node = nodes.party(0).as_node().expect("it runs");
        let own = |key: &wire::record::Key| {
            key.kind == wire::record::RecordKind::LINK_STATE && key.origin == addr(0)
        };
        node.database()
            .keys()
            .find(own)
            .expect("its own record")
            .seq
    };
    let first = say(&mut nodes, addr(1));
    assert_eq!(say(&mut nodes, addr(1)), first);
    assert_eq!(say(&mut nodes, addr(9)), first);
}
