//! Groups over two ways: the cost of outages, losses and a node that dies if the packets of a group take two trees,
//! compared with one tree. Nodes have the packet buffers of a real node. `--nocapture` shows what was measured.
#![allow(
    clippy::disallowed_macros,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test that shows what it measured"
)]

use crate::world::groups::{Cast, GROUP};
use crate::world::video::{Flow, run, set_group};
use crate::world::{Nodes, addr};
use base::{Duration, NodeAddr, Pool, Rng};
use overlay::request::Options;
use overlay::request::RequestError;
use overlay::sockets::default_options;
use overlay::{Drop, Reply};
use std::collections::BTreeSet;
use wire::data::LinkProtocol;
use wire::groups::{Setting, TreeBuilder, Ways};
use wire::ipc::Scheme;

/// The member, three hops from the source on either of two ways.
const LEAF: usize = 3;
/// The source of the bystander, behind the leaf.
const BESIDE: usize = 6;
const EDGES: [(usize, usize); 7] = [
    (0, 1),
    (1, 2),
    (2, LEAF),
    (0, 4),
    (4, 5),
    (5, LEAF),
    (LEAF, BESIDE),
];

fn setting(group: NodeAddr, two_ways: bool) -> Setting {
    Setting {
        class: default_options().class,
        ways: if two_ways { Ways::Two } else { Ways::One },
        ..Setting::of(group)
    }
}

/// Creates two chains to the leaf. The source's packets take both of them, or only one.
fn two_chains(
    seed: u64,
    hop: &str,
    two_ways: bool,
    deadline: Duration,
    pps: u64,
) -> (Nodes, [Flow; 2]) {
    let mut nodes = Nodes::new(seed, 7, &EDGES, hop);
    nodes.link(LEAF, BESIDE, "delay=5ms");
    for i in 0..7 {
        nodes.world.set_pool(nodes.hosts[i], Pool::of_node());
    }
    nodes.run_ms(5_000);
    let flow = Flow::new(&mut nodes, 1, (0, LEAF), pps, deadline);
    let beside = Flow::new(&mut nodes, 2, (BESIDE, LEAF), 400, deadline);
    set_group(&mut nodes, 0, setting(flow.group, two_ways));
    nodes.run_ms(300);
    (nodes, [flow, beside])
}

fn told(what: &str, nodes: &mut Nodes, flows: &[Flow; 2]) {
    let no_slot = nodes.world.counters().no_slot;
    let count = nodes.count();
    let drops: Vec<_> = Drop::ALL
        .into_iter()
        .map(|why| (why, count.drops(why)))
        .collect();
    let drops: Vec<_> = drops.into_iter().filter(|(_, n)| *n > 0).collect();
    println!(
        "{what}: lost {} of {}, beside {}, no slot {no_slot}, latest {}, longest gap {} ms, {drops:?}",
        flows[0].lost(),
        flows[0].sent,
        flows[1].lost(),
        flows[0].latest,
        longest_gap_ms(&flows[0]),
    );
    assert!(flows.iter().all(|flow| flow.came.is_sorted()));
    assert_eq!((no_slot, flows[1].lost()), (0, 0));
}

fn longest_gap_ms(flow: &Flow) -> u64 {
    let gaps = flow.at.windows(2).map(|pair| pair[1].0.since(pair[0].0));
    gaps.max().map_or(0, |gap| gap.as_micros() / 1_000)
}

/// A link in the middle of a way has an outage, or a node there dies for good. Returns the number of lost packets.
fn lost_by(two_ways: bool, pps: u64, dies: bool) -> u64 {
    // The deadline is shorter than the outage and than the time to find another way.
    let deadline = Duration::from_millis(150);
    let (mut nodes, mut flows) = two_chains(1, "delay=10ms loss=1%", two_ways, deadline, pps);
    nodes.link(4, 5, "delay=12ms loss=1%");
    run(&mut nodes, &mut flows, 1_500, true);
    if dies {
        nodes.crash(2);
        run(&mut nodes, &mut flows, 1_000, true);
    } else {
        nodes.set_outage(1, 2, true);
        run(&mut nodes, &mut flows, 250, true);
        nodes.set_outage(1, 2, false);
    }
    run(&mut nodes, &mut flows, 1_500, true);
    run(&mut nodes, &mut flows, 1_500, false);
    let what = if dies { "node dies" } else { "outage" };
    told(
        &format!("{what}, {pps}/s, two ways {two_ways}"),
        &mut nodes,
        &flows,
    );
    if dies {
        assert!(longest_gap_ms(&flows[0]) <= 500);
    }
    let lost = flows[0].lost();
    nodes.world.close().unwrap();
    lost
}

#[test]
fn two_ways_lose_nothing_by_an_outage_or_a_node_that_dies() {
    assert_eq!(lost_by(true, 1_000, false), 0);
    assert_eq!(lost_by(true, 5_000, true), 0);
    // The same with one way, to show that the test can fail.
    let lost = lost_by(false, 1_000, false);
    assert!((1..=250).contains(&lost), "{lost}");
    assert!(lost_by(false, 5_000, true) > 0);
}

/// Creates a ring with chords: any two nodes have two ways, whichever single node is gone.
pub(crate) fn ring(rng: &mut Rng, n: usize) -> Vec<(usize, usize)> {
    let mut edges: BTreeSet<(usize, usize)> = (1..n).map(|i| (i - 1, i)).collect();
    edges.insert((0, n - 1));
    for _ in 0..n / 2 {
        let (a, b) = (rng.below(n as u64) as usize, rng.below(n as u64) as usize);
        if a != b {
            edges.insert((a.min(b), a.max(b)));
        }
    }
    edges.into_iter().collect()
}

/// Whichever node except the source dies, every other member gets every packet once, also while the trees move. Then a
/// member joins and the node comes back.
#[test]
fn every_member_survives_any_one_node() {
    for seed in 0..10 {
        let mut rng = Rng::new(seed);
        let n = 5 + rng.below(8) as usize;
        let edges = ring(&mut rng, n);
        let mut nodes = Nodes::new(seed, n, &edges, "delay=5ms");
        nodes.run_ms(3_000);
        let members: BTreeSet<usize> = (0..3)
            .map(|_| 1 + rng.below(n as u64 - 1) as usize)
            .collect();
        for member in &members {
            nodes.join(*member, GROUP);
        }
        let options = Options {
            deadline: Some(Duration::from_millis(300)),
            ..default_options()
        };
        let mut cast = Cast::new(0, 5, options.routed_by(Scheme::Disjoint));
        nodes.run_ms(300);
        cast.run_ms(&mut nodes, 500);
        let victim = 1 + rng.below(n as u64 - 1) as usize;
        nodes.crash(victim);
        cast.run_ms(&mut nodes, 6_000);
        nodes.restart(victim);
        cast.run_ms(&mut nodes, 3_000);
        cast.finish(&mut nodes);
        for member in members.iter().filter(|member| **member != victim) {
            let (got, sent) = cast.got(*member, cast.sent[0], base::Time::FAR);
            assert_eq!(
                got, sent,
                "seed {seed}, member {member} of {n}, {victim} died"
            );
        }
        assert_eq!(cast.doubles(), 0, "seed {seed}");
        let count = nodes.count();
        for never in [
            Drop::TtlExceeded,
            Drop::Loop,
            Drop::Unsupported,
            Drop::StampMalformed,
        ] {
            assert_eq!(count.drops(never), 0, "{seed} {never:?}");
        }
    }
}

#[test]
fn what_two_ways_share_is_shown_and_what_cannot_be_is_refused() {
    // The leaf is behind one link: there are two ways to its neighbor, and one way beyond that neighbor.
    let mut nodes = Nodes::new(7, 5, &[(0, 1), (0, 2), (1, 3), (2, 3), (3, 4)], "delay=5ms");
    nodes.run_ms(3_000);
    nodes.join(4, GROUP);
    nodes.join(3, GROUP);
    set_group(&mut nodes, 0, setting(GROUP, true));
    let mut cast = Cast::new(0, 10, default_options());
    nodes.run_ms(300);
    cast.run_ms(&mut nodes, 5_000);
    let node = nodes.party(0).as_node().unwrap();
    let shown = node
        .group_statuses(nodes.world.now(), Some(GROUP))
        .remove(0);
    assert_eq!(shown.setting.unwrap().ways, 2);
    let admission = shown.admission.unwrap();
    assert!(
        admission.notes[0].starts_with("the two ways to 1 of 2 members share"),
        "{admission:?}"
    );
    let source = &shown.sources[0];
    assert_eq!((source.metric.as_str(), source.receivers), ("two-ways", 2));
    assert_eq!((source.branches.len(), source.links.len()), (2, 5));
    let by = |i: usize| addr(i).to_string();
    let near = source
        .ways
        .iter()
        .find(|ways| ways.member == by(3))
        .unwrap();
    assert_eq!(
        near.ways,
        [vec![by(0), by(1), by(3)], vec![by(0), by(2), by(3)]]
    );
    assert_eq!((near.common_nodes.len(), near.common_links.len()), (0, 0));
    let far = source
        .ways
        .iter()
        .find(|ways| ways.member == by(4))
        .unwrap();
    assert_eq!(far.common_nodes, [by(3)]);
    assert_eq!(far.common_links, [(by(3), by(4))]);
    cast.finish(&mut nodes);
    assert_eq!(cast.doubles(), 0);
    // There is only one tree with Scribe, so it cannot give two ways. Reliable packets would wait for the slower way.
    let scribe = Setting {
        tree: TreeBuilder::Scribe,
        ..setting(GROUP, false)
    };
    set_group(&mut nodes, 0, scribe);
    nodes.run_ms(300);
    let disjoint = default_options().routed_by(Scheme::Disjoint);
    let mut reliable = disjoint;
    reliable.class.link = LinkProtocol::Reliable;
    let other = NodeAddr(GROUP.0 + 9);
    let flooding = default_options().routed_by(Scheme::Flooding);
    for (group, options) in [(GROUP, disjoint), (other, reliable), (other, flooding)] {
        nodes.set_sender(0, crate::world::SENDER, options);
        let now = nodes.world.now();
        nodes.send_to_addr(
            now,
            0,
            crate::world::SENDER,
            (group, crate::world::PORT),
            1,
            100,
        );
        nodes.run_ms(50);
        let refused = nodes.world.take_replies().into_iter();
        let refused = refused.filter_map(|answer| match answer.reply {
            Reply::Refused(why) => Some(why),
            _ => None,
        });
        assert_eq!(refused.collect::<Vec<_>>(), [RequestError::Unsupported]);
    }
}

/// `cargo test -p overlay --test engine two_ways -- --ignored --nocapture`: paths with round trips of 20, 100, 200 ms,
/// 2 % loss, and an outage of 250 ms every 20 s.
#[test]
#[ignore = "takes minutes"]
fn the_grid_with_outages() {
    for two_ways in [false, true] {
        for pps in [1_000, 3_600, 10_000] {
            for rtt_ms in [20, 100, 200] {
                for loss in ["loss=2%", "loss=2% burst=50%"] {
                    let hop = format!("delay={}us {loss}", rtt_ms * 1_000 / 6);
                    let deadline = Duration::from_millis(rtt_ms * 5 / 2 + 100);
                    let (mut nodes, mut flows) = two_chains(5, &hop, two_ways, deadline, pps);
                    for _ in 0..2 {
                        run(&mut nodes, &mut flows, 9_750, true);
                        nodes.set_outage(1, 2, true);
                        nodes.set_outage(4, 5, !two_ways);
                        run(&mut nodes, &mut flows, 250, true);
                        nodes.set_outage(1, 2, false);
                        nodes.set_outage(4, 5, false);
                        run(&mut nodes, &mut flows, 10_000, true);
                    }
                    run(&mut nodes, &mut flows, 2_000, false);
                    let what = format!("{hop}, {pps}/s, two ways {two_ways}");
                    told(&what, &mut nodes, &flows);
                    let most = if two_ways { 0 } else { 2 * pps / 4 };
                    assert!(flows[0].lost() <= most, "{what}: {}", flows[0].lost());
                    nodes.world.close().unwrap();
                }
            }
        }
    }
}
