//! Groups with targeted second ways: one tree in calm, and a second way to those members that the tree reaches through
//! trouble.
//!
//! ```text
//!        .─ 1 ─.    .─ 4 ─.─ 7
//!     0 ─┼─ 2 ─┼╳╳╳─┼─ 5 ─┼         edge links 5 ms, of 4 to 6 to both members; each of 1, 2, 3 to each of 4, 5, 6 25 ms
//!        '─ 3 ─'    '─ 6 ─'─ 8
//! ```

use crate::two_ways::ring;
use crate::world::groups::{Cast, GROUP};
use crate::world::video::set_group;
use crate::world::{Nodes, Plan, addr, voice};
use base::{Duration, Rng, Time};
use overlay::Settings;
use overlay::event::Drop;
use overlay::realtime::Protect;
use overlay::request::{Operation, Options};
use overlay::snapshot::GroupSource;
use std::collections::BTreeSet;
use wire::data::{Class, Routing};
use wire::groups::{Setting, Ways};

const FAR: [usize; 3] = [4, 5, 6];
const MEMBERS: [usize; 2] = [7, 8];

fn settings() -> Settings {
    let mut settings = Settings::modern();
    // Hellos that are lost in a row are an outage, and its price would count for a minute.
    settings.hello.price.first = Duration::ZERO;
    settings.hello.price.most = Duration::ZERO;
    // The questions of audits would be counted as copies.
    settings.audit = false;
    settings
}

fn world(seed: u64, settings: Settings) -> Nodes {
    let mut edges = vec![(0, 1), (0, 2), (0, 3)];
    for far in FAR {
        edges.extend((1..=3).map(|near| (near, far)));
        edges.extend(MEMBERS.map(|member| (far, member)));
    }
    let mut nodes = Nodes::with(seed, 9, &edges, "delay=25ms", settings);
    lose(&mut nodes, &[0, 7, 8], "");
    nodes.run_ms(5_000);
    nodes
}

/// Sets the behavior of the edge links of some nodes.
fn lose(nodes: &mut Nodes, of: &[usize], words: &str) {
    for node in of {
        let peers = if *node == 0 { [1, 2, 3] } else { FAR };
        for peer in peers {
            nodes.link(*node, peer, &format!("delay=5ms {words}"));
        }
    }
}

fn ask(nodes: &mut Nodes, ways: Ways) {
    ask_by(nodes, ways, voice().class.routing);
}

fn ask_by(nodes: &mut Nodes, ways: Ways, routing: Routing) {
    let setting = Setting {
        class: Class {
            routing,
            ..voice().class
        },
        deadline_ms: 100,
        ways,
        ..Setting::of(GROUP)
    };
    set_group(nodes, 0, setting);
    nodes.run_ms(300);
}

fn cast(nodes: &mut Nodes, members: &[usize]) -> Cast {
    for member in members {
        nodes.join(*member, GROUP);
    }
    nodes.run_ms(300);
    Cast::new(0, 10, voice())
}

/// Sends for `seconds`. Returns the packets that each member missed, and the copies that were sent per packet.
fn talk(nodes: &mut Nodes, cast: &mut Cast, seconds: u64, members: &[usize]) -> (Vec<usize>, f64) {
    let carried = |nodes: &mut Nodes| nodes.count().forwarded + nodes.count().originated;
    let (before, from) = (carried(nodes), nodes.world.now());
    cast.run_ms(nodes, 1_000 * seconds);
    let until = nodes.world.now();
    nodes.run_ms(300);
    cast.take(nodes);
    let copies = (carried(nodes) - before) as f64 / (100 * seconds) as f64;
    let missed = members.iter().map(|member| {
        let (got, sent) = cast.got(*member, from, until);
        sent - got
    });
    (missed.collect(), copies)
}

/// Returns what a node reports about the source's packets to the group.
fn source(nodes: &Nodes, at: usize) -> GroupSource {
    let node = nodes.running(at).expect("it runs");
    let status = node
        .group_statuses(nodes.world.now(), Some(GROUP))
        .remove(0);
    let of = addr(0).to_string();
    let mut sources = status.sources.into_iter();
    sources
        .find(|source| source.source == of)
        .expect("packets have passed it")
}

fn trouble(nodes: &Nodes, at: usize) -> Vec<(String, Vec<String>)> {
    let second = source(nodes, at).second.unwrap_or_default();
    let trouble = second.trouble.into_iter();
    trouble.map(|one| (one.member, one.places)).collect()
}

fn never(nodes: &mut Nodes, cast: &Cast) {
    let count = nodes.count();
    for why in [Drop::TtlExceeded, Drop::Unsupported] {
        assert_eq!(count.drops(why), 0, "{why:?}");
    }
    assert_eq!(cast.doubles(), 0);
}

#[test]
fn calm_costs_nothing_and_trouble_of_a_member_costs_its_own_ways_alone() {
    let plain = {
        let mut nodes = world(1, settings());
        ask(&mut nodes, Ways::One);
        let mut cast = cast(&mut nodes, &MEMBERS);
        talk(&mut nodes, &mut cast, 5, &MEMBERS);
        let calm = talk(&mut nodes, &mut cast, 10, &MEMBERS);
        lose(&mut nodes, &[7], "loss=30% burst=60%");
        talk(&mut nodes, &mut cast, 5, &MEMBERS);
        let (missed, _) = talk(&mut nodes, &mut cast, 20, &MEMBERS);
        assert!(missed[0] >= 20, "it is trouble: {missed:?}");
        assert_eq!(source(&nodes, 0).second, None);
        calm
    };
    for ways in [Ways::Auto, Ways::Targeted] {
        let mut nodes = world(1, settings());
        ask(&mut nodes, ways);
        let mut cast = cast(&mut nodes, &MEMBERS);
        talk(&mut nodes, &mut cast, 5, &MEMBERS);
        let calm = talk(&mut nodes, &mut cast, 10, &MEMBERS);
        assert_eq!(calm, plain, "{ways:?}");
        lose(&mut nodes, &[7], "loss=30% burst=60%");
        talk(&mut nodes, &mut cast, 5, &MEMBERS);
        let before = FAR.map(|far| source(&nodes, far).packets);
        let (missed, copies) = talk(&mut nodes, &mut cast, 20, &MEMBERS);
        assert!(missed[0] <= 4 && missed[1] == 0, "{ways:?} {missed:?}");
        // One more link of the source, one link to a far node, and one or two links to the member.
        assert!(
            (calm.1 + 1.0..=calm.1 + 5.0).contains(&copies),
            "{ways:?} {calm:?} {copies}"
        );
        let of_member = (addr(7).to_string(), vec!["destination".to_owned()]);
        assert_eq!(trouble(&nodes, 0), [of_member]);
        // Two far nodes forward packets to the member, and only one far node forwards them to the other member.
        let carry = FAR
            .map(|far| source(&nodes, far).packets)
            .into_iter()
            .zip(before);
        assert!(carry.filter(|(now, before)| now > before).count() >= 2);
        let to_other = FAR.into_iter().filter(|far| {
            let at = source(&nodes, *far);
            let second = at.second.unwrap_or_default();
            let all = at.branches.iter().chain(&second.branches);
            all.clone().any(|peer| *peer == addr(8).to_string())
        });
        assert_eq!(to_other.count(), 1);
        lose(&mut nodes, &[7], "");
        // First the alarm ends, and then the holds of all nodes.
        talk(&mut nodes, &mut cast, 45, &MEMBERS);
        let (missed, copies) = talk(&mut nodes, &mut cast, 5, &MEMBERS);
        let second = source(&nodes, 0).second.unwrap_or_default();
        assert!(
            second.branches.is_empty() && second.trouble.is_empty(),
            "{second:?}"
        );
        assert_eq!(trouble(&nodes, 0), []);
        // A link of the member that carried nothing meanwhile seems to lose packets for minutes, so the tree may be
        // longer by one link.
        assert!(
            missed == [0, 0] && copies <= calm.1 + 1.0,
            "{ways:?} {missed:?} {copies}"
        );
        never(&mut nodes, &cast);
    }
}

#[test]
fn trouble_of_the_source_gets_every_member_a_second_way_and_one_that_joins_at_once() {
    for seed in 0..2 {
        let mut nodes = world(seed, settings());
        ask(&mut nodes, Ways::Targeted);
        let mut cast = cast(&mut nodes, &[7]);
        talk(&mut nodes, &mut cast, 10, &[7]);
        lose(&mut nodes, &[0], "loss=20% burst=50%");
        talk(&mut nodes, &mut cast, 5, &[7]);
        nodes.join(8, GROUP);
        nodes.run_ms(300);
        let (missed, copies) = talk(&mut nodes, &mut cast, 20, &MEMBERS);
        assert!(missed.iter().all(|missed| *missed <= 6), "{missed:?}");
        assert!(copies >= 6.0, "{copies}");
        let places = trouble(&nodes, 0);
        assert_eq!(places.len(), 2, "{places:?}");
        assert!(
            places
                .iter()
                .all(|(_, places)| places.contains(&"source".to_owned()))
        );
        never(&mut nodes, &cast);
    }
}

/// During the trouble, the relays die one after the other, until one row is left.
#[test]
fn nodes_that_die_in_trouble_cost_no_more_than_it_takes_to_notice() {
    for seed in 0..2 {
        let mut nodes = world(seed, settings());
        ask(&mut nodes, Ways::Targeted);
        let mut cast = cast(&mut nodes, &MEMBERS);
        talk(&mut nodes, &mut cast, 5, &MEMBERS);
        lose(&mut nodes, &[7], "loss=20% burst=50%");
        talk(&mut nodes, &mut cast, 5, &MEMBERS);
        for dies in [1, 4, 2, 5] {
            nodes.crash(dies);
            let (missed, _) = talk(&mut nodes, &mut cast, 5, &MEMBERS);
            assert!(missed[1] <= 60, "{seed}, {dies}: {missed:?}");
        }
        lose(&mut nodes, &[7], "");
        talk(&mut nodes, &mut cast, 45, &MEMBERS);
        let (missed, _) = talk(&mut nodes, &mut cast, 5, &MEMBERS);
        assert_eq!(missed, [0, 0]);
        never(&mut nodes, &cast);
    }
}

/// Losses in a full queue are left to the brake. No second way makes the queue longer.
#[test]
fn a_full_queue_gets_no_more_than_by_one_way() {
    let run = |ways: Ways| {
        let mut nodes = world(1, settings());
        ask(&mut nodes, ways);
        let mut cast = cast(&mut nodes, &MEMBERS);
        talk(&mut nodes, &mut cast, 10, &MEMBERS);
        lose(&mut nodes, &[7], "rate=150kbit queue=50");
        talk(&mut nodes, &mut cast, 60, &MEMBERS)
    };
    let [(one_missed, one), (missed, copies)] = [Ways::One, Ways::Targeted].map(run);
    assert!(one_missed[0] >= 300, "it is too narrow: {one_missed:?}");
    assert!(
        copies <= one && missed[0] <= one_missed[0],
        "{copies} {one} {missed:?}"
    );
}

/// If packets have no deadline, or if the node protects by requests only, the nodes add no copies unless somebody asks
/// for them.
#[test]
fn by_themselves_nodes_protect_what_has_a_deadline() {
    let requests = || {
        let mut settings = settings();
        settings.realtime.aims.protect = Protect::Requests;
        settings
    };
    let no_deadline = || Options {
        deadline: None,
        ..voice()
    };
    for (settings, options, has_second) in [
        (settings(), voice(), true),
        (settings(), no_deadline(), false),
        (requests(), voice(), false),
    ] {
        let mut nodes = world(1, settings);
        let mut cast = cast(&mut nodes, &[7]);
        cast.options = options;
        talk(&mut nodes, &mut cast, 2, &[7]);
        assert_eq!(source(&nodes, 0).second.is_some(), has_second);
    }
}

/// Losses come and go around random nodes. Whatever a tree alone delivers, a tree with second ways delivers too, even
/// if some nodes do not know second ways. The losses are short outages here, which hit all packets of that time. The
/// tree counts hops, so that it is the same in both runs.
#[test]
fn never_less_than_the_plain_tree() {
    let mut won = 0;
    for seed in 0..12 {
        let run = |ways: Ways, mixed: bool| {
            let mut rng = Rng::new(seed);
            let n = 5 + rng.below(7) as usize;
            let edges = ring(&mut rng, n);
            let mut plan = Plan {
                edges: edges.clone(),
                settings: settings(),
                ..Plan::of(n)
            };
            let ignorant: BTreeSet<usize> = (0..n).filter(|_| rng.chance(0.4)).collect();
            if mixed {
                let mut off = settings();
                off.realtime.aims.protect = Protect::Requests;
                plan.own_settings = ignorant.iter().map(|node| (*node, off.clone())).collect();
            }
            let mut nodes = Nodes::planned(seed, plan);
            for (a, b) in &edges {
                nodes.link(*a, *b, &format!("delay={}ms", 4 + rng.below(8)));
            }
            nodes.run_ms(3_000);
            let members: BTreeSet<usize> = (0..3)
                .map(|_| 1 + rng.below(n as u64 - 1) as usize)
                .collect();
            let members: Vec<usize> = members.into_iter().collect();
            ask_by(&mut nodes, ways, Routing::Hops);
            let mut cast = cast(&mut nodes, &members);
            cast.run_ms(&mut nodes, 1_000);
            for _ in 0..6 {
                let around = rng.below(n as u64) as usize;
                let bad = edges.iter().filter(|(a, b)| [*a, *b].contains(&around));
                let bad: Vec<(usize, usize)> = bad.copied().collect();
                for _ in 0..6 {
                    for (a, b) in bad.iter().filter(|_| rng.chance(0.5)) {
                        nodes.set_outage(*a, *b, true);
                    }
                    cast.run_ms(&mut nodes, 20 + rng.below(80));
                    for (a, b) in &bad {
                        nodes.set_outage(*a, *b, false);
                    }
                    cast.run_ms(&mut nodes, 300 + rng.below(1_000));
                }
            }
            cast.finish(&mut nodes);
            assert_eq!(cast.doubles(), 0, "{seed} {ways:?}");
            let got = members
                .iter()
                .map(|member| cast.got(*member, Time::ZERO, Time::FAR).0);
            got.collect::<Vec<_>>()
        };
        for (ways, mixed) in [(Ways::Targeted, false), (Ways::Auto, true)] {
            let plain = run(Ways::One, mixed);
            let got = run(ways, mixed);
            assert!(
                got.iter().zip(&plain).all(|(got, plain)| got >= plain),
                "{seed} {ways:?} {mixed}: {got:?} {plain:?}"
            );
            won += got.iter().sum::<usize>() - plain.iter().sum::<usize>();
        }
    }
    assert!(won > 0, "second ways were of use");
}

/// The setting is removed, and another one takes its place. The nodes follow.
#[test]
fn nodes_follow_the_setting() {
    let mut nodes = world(1, settings());
    ask(&mut nodes, Ways::One);
    let mut cast = cast(&mut nodes, &MEMBERS);
    for ways in [
        Ways::One,
        Ways::Targeted,
        Ways::One,
        Ways::Auto,
        Ways::Two,
        Ways::Targeted,
    ] {
        ask(&mut nodes, ways);
        assert_eq!(
            talk(&mut nodes, &mut cast, 2, &MEMBERS).0,
            [0, 0],
            "{ways:?}"
        );
        let has_second = matches!(ways, Ways::Targeted | Ways::Auto);
        if ways != Ways::Two {
            assert_eq!(source(&nodes, 0).second.is_some(), has_second, "{ways:?}");
        }
    }
    let (group, prefix) = (GROUP, 32);
    let setting = None;
    nodes.operate(
        0,
        Operation::SetGroup {
            group,
            setting,
            prefix,
        },
    );
    nodes.run_ms(300);
    assert_eq!(talk(&mut nodes, &mut cast, 2, &MEMBERS).0, [0, 0]);
    never(&mut nodes, &cast);
}

/// The node of the only second way is killed. Its link is silent, and packets without another path still try it, but a
/// copy on it would protect nobody.
#[test]
fn no_second_copies_go_to_a_neighbour_that_is_dead() {
    let edges = [(0, 1), (0, 2), (2, 1)];
    let mut nodes = Nodes::with(1, 3, &edges, "delay=5ms", settings());
    nodes.run_ms(5_000);
    // By hops, the tree stays on the link with losses.
    ask_by(&mut nodes, Ways::Targeted, Routing::Hops);
    let mut cast = cast(&mut nodes, &[1]);
    nodes.link(0, 1, "delay=5ms loss=20% burst=50%");
    talk(&mut nodes, &mut cast, 10, &[1]);
    let by_2 = [addr(2).to_string()];
    let second = source(&nodes, 0).second.unwrap_or_default();
    assert_eq!(second.branches, by_2, "the second way before");
    nodes.crash(2);
    talk(&mut nodes, &mut cast, 20, &[1]);
    let before = source(&nodes, 0).second.unwrap_or_default();
    assert!(!before.trouble.is_empty(), "the trouble goes on");
    talk(&mut nodes, &mut cast, 20, &[1]);
    let after = source(&nodes, 0).second.unwrap_or_default();
    assert_eq!(after.packets, before.packets, "copies on a dead link");
    assert!(after.branches.is_empty(), "{after:?}");
}

/// Nobody has joined. No copy can have taken another way, because the packets begin here.
#[test]
fn packets_to_a_group_without_members_have_no_member() {
    let mut nodes = world(1, settings());
    for ways in [Ways::Targeted, Ways::Auto, Ways::Two] {
        ask(&mut nodes, ways);
        let before = nodes.count().drops(Drop::NoMember);
        let mut cast = Cast::new(0, 10, voice());
        cast.run_ms(&mut nodes, 1_000);
        nodes.run_ms(300);
        let dropped = nodes.count().drops(Drop::NoMember) - before;
        assert_eq!(dropped, 100, "{ways:?}");
        assert_eq!(nodes.count().drops(Drop::DeadEnd), 0, "{ways:?}");
    }
}
