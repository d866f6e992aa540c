//! Video to groups at broadcast rates: what an outage and losses on the path cost in-order delivery, and what they cost
//! a bystander. Nodes have the packet buffers of a real node. `--nocapture` shows what was measured.
#![allow(
    clippy::disallowed_macros,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test that shows what it measured"
)]

use crate::world::video::{Flow, run};
use crate::world::{Nodes, PORT, SENDER, chain};
use base::{Duration, Pool};
use overlay::Drop;
use overlay::request::Options;
use overlay::sockets::default_options;

/// The leaf, which has the receivers.
const LEAF: usize = 3;
/// The source of the bystander, behind the leaf. Its packets do not cross the chain.
const BESIDE: usize = 4;
/// Creates nodes with buffers of their own: a chain to the leaf, and one node beside it.
fn chain_and_one_beside(seed: u64, path: &str) -> Nodes {
    let edges = [(0, 1), (1, 2), (2, LEAF), (LEAF, BESIDE)];
    let mut nodes = Nodes::new(seed, 5, &edges, path);
    nodes.link(LEAF, BESIDE, "delay=5ms");
    for i in 0..5 {
        nodes.world.set_pool(nodes.hosts[i], Pool::of_node());
    }
    nodes.run_ms(5_000);
    nodes
}

#[test]
fn an_outage_costs_its_own_packets_and_nobody_elses() {
    for pps in [1_800, 4_700, 10_000] {
        let mut nodes = chain_and_one_beside(1, "delay=10ms");
        let deadline = Duration::from_millis(500);
        let mut flows = [
            Flow::new(&mut nodes, 1, (0, LEAF), pps, deadline),
            Flow::new(&mut nodes, 2, (BESIDE, LEAF), 400, deadline),
        ];
        run(&mut nodes, &mut flows, 1_500, true);
        let (a, b) = (nodes.hosts[1], nodes.hosts[2]);
        nodes.world.set_outage(a, b, true);
        run(&mut nodes, &mut flows, 250, true);
        nodes.world.set_outage(a, b, false);
        run(&mut nodes, &mut flows, 2_500, true);
        run(&mut nodes, &mut flows, 1_500, false);
        let no_slot = nodes.world.counters().no_slot;
        let count = nodes.count();
        let drops: Vec<(Drop, u64)> = Drop::ALL.map(|why| (why, count.drops(why))).into();
        let drops: Vec<_> = drops.into_iter().filter(|(_, n)| *n > 0).collect();
        let lost = flows[0].lost();
        println!(
            "{pps}/s: lost {lost} of {} ({:.1} %), beside {} of {}, no slot {no_slot}, {drops:?}, latest {}",
            flows[0].sent,
            100.0 * lost as f64 / flows[0].sent as f64,
            flows[1].lost(),
            flows[1].sent,
            flows[0].latest,
        );
        assert!(flows[0].came.is_sorted() && flows[1].came.is_sorted());
        assert_eq!((no_slot, flows[1].lost()), (0, 0));
        assert!(lost <= pps / 4, "more than the outage's own");
        nodes.world.close().unwrap();
    }
}

/// Returns the lost and the sent packets of a flow over three links that lose packets in both directions, and those of
/// a bystander.
fn lost_over(seed: u64, hop: &str, deadline_ms: u64, pps: u64, ms: u64) -> [(u64, u64); 2] {
    let mut nodes = chain_and_one_beside(seed, hop);
    let deadline = Duration::from_millis(deadline_ms);
    let mut flows = [
        Flow::new(&mut nodes, 1, (0, LEAF), pps, deadline),
        Flow::new(&mut nodes, 2, (BESIDE, LEAF), 100, deadline),
    ];
    run(&mut nodes, &mut flows, ms, true);
    run(&mut nodes, &mut flows, 2_000, false);
    let no_slot = nodes.world.counters().no_slot;
    let count = nodes.count();
    let drops: Vec<(Drop, u64)> = Drop::ALL.map(|why| (why, count.drops(why))).into();
    let drops: Vec<_> = drops.into_iter().filter(|(_, n)| *n > 0).collect();
    println!(
        "{hop}, {deadline_ms} ms, {pps}/s: lost {} of {}, beside {}, no slot {no_slot}, latest {}, {drops:?}",
        flows[0].lost(),
        flows[0].sent,
        flows[1].lost(),
        flows[0].latest,
    );
    for (from, to) in [(0, 1), (1, 2), (2, 3)] {
        let lane = nodes.link_status(to, from).realtime;
        let sender = nodes.link_status(from, to).realtime;
        println!(
            "  {from} > {to}: missing {}, recovered {}, given up {}, requests {}, again {}, ahead {}, too late {}, throttled {}",
            lane.missing,
            lane.recovered,
            lane.given_up,
            lane.requests,
            sender.retransmissions,
            sender.ahead,
            sender.too_late,
            sender.throttled
        );
    }
    assert!(flows.iter().all(|flow| flow.came.is_sorted()));
    assert_eq!(no_slot, 0);
    nodes.world.close().unwrap();
    [0, 1].map(|n| (flows[n].lost(), flows[n].sent))
}

/// Returns the links of a path with this round trip, and its deadline: 2.5 round trips and 100 ms.
fn three_hops(rtt_ms: u64, loss: &str) -> (String, u64) {
    let hop = format!("delay={}us {loss}", rtt_ms * 1_000 / 6);
    (hop, rtt_ms * 5 / 2 + 100)
}

const LOSSES: [&str; 2] = ["loss=2%", "loss=2% burst=50%"];

#[test]
fn losses_on_long_hops_are_repaired_as_long_as_the_deadline_lets() {
    for rtt_ms in [20, 100, 200] {
        for loss in LOSSES {
            let (hop, deadline_ms) = three_hops(rtt_ms, loss);
            let [(lost, sent), (beside, _)] = lost_over(3, &hop, deadline_ms, 1_000, 8_000);
            // Without repair, three links that lose 2 % each would lose 6 of 100 packets. With repair, 1 of 2000 may be lost.
            assert!(lost <= sent / 2_000, "{hop}: {lost}");
            assert_eq!(beside, 0);
        }
    }
    // The round trips of these hops are longer than half the slack. The first hop that loses a packet has time to
    // request it once. The hops behind it have no time left, and send three copies of the packet at once.
    for rtt_ms in [160, 200] {
        for loss in LOSSES {
            let hop = format!("delay={}ms {loss}", rtt_ms / 2);
            let deadline_ms = rtt_ms * 5 / 2 + 100;
            let [(lost, sent), _] = lost_over(4, &hop, deadline_ms, 1_000, 8_000);
            assert!(lost <= sent / 2_000, "{hop}: {lost}");
        }
    }
}

/// The same if each hop, not the path, has the round trip from which the deadline is computed.
#[test]
#[ignore = "takes minutes"]
fn the_grid_of_hops_that_leave_time_for_one_repair() {
    for pps in [1_000, 3_600, 10_000] {
        for rtt_ms in [100, 160, 200] {
            for loss in LOSSES {
                let hop = format!("delay={}ms {loss}", rtt_ms / 2);
                let deadline_ms = rtt_ms * 5 / 2 + 100;
                let [(lost, sent), (beside, _)] = lost_over(6, &hop, deadline_ms, pps, 30_000);
                let most = if loss.contains("burst") { 1e-4 } else { 1e-5 };
                assert!(lost as f64 <= most * sent as f64, "{hop}: {lost} of {sent}");
                assert_eq!(beside, 0);
            }
        }
    }
}

/// The whole grid: `cargo test -p overlay --test engine video -- --ignored --nocapture`.
#[test]
#[ignore = "takes minutes"]
fn the_grid_of_round_trips_and_rates() {
    for pps in [1_000, 3_600, 10_000] {
        for rtt_ms in [20, 100, 200] {
            for loss in LOSSES {
                let (hop, deadline_ms) = three_hops(rtt_ms, loss);
                let [(lost, sent), (beside, _)] = lost_over(5, &hop, deadline_ms, pps, 20_000);
                let most = if loss.contains("burst") { 1e-4 } else { 1e-5 };
                assert!(lost as f64 <= most * sent as f64, "{hop}: {lost} of {sent}");
                assert_eq!(beside, 0);
            }
        }
    }
}

/// 210 Mbit/s with a deadline of one second are more than a history holds. The node reports this, and forgets it when
/// it is over.
#[test]
fn a_history_that_is_too_short_for_its_deadlines_is_told() {
    let mut nodes = Nodes::new(5, 2, &chain(2), "delay=10ms");
    nodes.run_ms(2_000);
    let options = Options {
        deadline: Some(Duration::from_secs(1)),
        ..default_options()
    };
    nodes.bind(1, options);
    nodes.set_sender(0, SENDER, options);
    let overrun = |nodes: &Nodes| {
        let lane = nodes.link_status(0, 1).realtime;
        (lane.overrun, lane.overrun_lately)
    };
    let mut number = 0;
    let mut send_for = |nodes: &mut Nodes, pps: u64| {
        for _ in 0..1_000 {
            let start = nodes.world.now();
            for n in 0..pps / 1_000 {
                let at = start + Duration::from_micros(1_000_000 / pps) * n;
                nodes.send_to(at, 0, SENDER, (1, PORT), number, 1_300);
                number += 1;
            }
            nodes.run_ms(1);
            nodes.world.take_replies();
        }
    };
    send_for(&mut nodes, 10_000);
    assert_eq!(overrun(&nodes), (0, 0), "105 Mbit/s");
    send_for(&mut nodes, 20_000);
    let (all, lately) = overrun(&nodes);
    assert!(all > 1_000 && lately == all, "{all} {lately}");
    nodes.run_ms(130_000);
    assert_eq!(overrun(&nodes), (all, 0));
}
