//! Whether sealed packets arrive: relays that drop packets, ends that are not asked, and the cost of audits.

#![allow(
    clippy::disallowed_macros,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test that shows what it measured"
)]

use crate::ends::{Tapped, as_it_is, end, sealed};
use crate::world::{Nodes, PORT, Plan, SENDER, addr, chain, voice};
use base::{Duration, Rng};
use overlay::Settings;
use overlay::event::Drop;
use overlay::realtime::Protect;
use overlay::request::Options;
use wire::Aim;
use wire::data::LinkProtocol;

/// A relay that is driven by hand, and a longer link in parallel to it.
fn tapped() -> Tapped {
    let plan = Plan {
        edges: vec![(0, 1)],
        ..sealed(2)
    };
    Tapped::beside(plan, &[(0, 1, "delay=20ms")])
}

/// Sends a packet every 10 ms to node `to` for this time.
fn talk(nodes: &mut Nodes, to: usize, seconds: u64) -> usize {
    nodes.bind(to, voice());
    nodes.set_sender(0, SENDER, voice());
    for number in 0..seconds * 100 {
        let at = nodes.world.now();
        nodes.send(at, 0, SENDER, to, number);
        nodes.run_ms(10);
    }
    nodes.run_ms(500);
    nodes.arrivals().len()
}

#[test]
fn a_relay_that_swallows_is_gone_around_and_named() {
    // The share that the relay drops, and the number of packets, at 100 per second, within which it must be out of use:
    // 2, 10 and 120 s.
    for (share, bar, count) in [
        (1.0, 200, 1_200),
        (0.5, 1_000, 1_600),
        (0.05, 12_000, 6_000),
    ] {
        let mut tapped = tapped();
        let mut rng = Rng::new(7);
        let mut seen = 0;
        let mut swallows = |packet: &[u8]| {
            seen += 1;
            match seen > 100 && rng.chance(share) {
                true => Vec::new(),
                false => as_it_is(packet),
            }
        };
        let came = tapped.talk(count, &mut swallows);
        assert!(seen > 100, "packets take the relay");
        let last = (0..count).rev().find(|number| !came.contains(number));
        assert!(last.unwrap() < 100 + bar, "{share}: {last:?}");
        assert!(last.unwrap() < count - 400, "{share}: {last:?}");
        let suspects = tapped.nodes.snapshot(0).suspects;
        let named: Vec<_> = suspects
            .iter()
            .map(|s| (&*s.suspect.node, &*s.path_to))
            .collect();
        let (relay, exit) = (addr(2).to_string(), addr(1).to_string());
        assert_eq!(named, [(&*relay, &*exit)], "{share}");
        // The explanation of paths reports the detour of the packets.
        let now = tapped.nodes.world.now();
        let network = tapped.nodes.running(0).unwrap().network_snapshot(now);
        let [diversion] = &network.diverted[..] else {
            panic!("{share}: {:?}", network.diverted)
        };
        assert_eq!(
            diversion.way,
            [addr(0), addr(1)].map(|node| node.to_string())
        );
        assert_eq!(diversion.to, exit);
        let avoided: Vec<_> = diversion.suspects.iter().map(|s| &*s.node).collect();
        assert_eq!(avoided, [&*relay]);
    }
}

#[test]
fn a_relay_that_swallows_little_is_found_though_the_ends_repair_it() {
    let mut plan = Plan {
        edges: vec![(0, 1)],
        ..sealed(2)
    };
    plan.settings.realtime.aims.protect = Protect::EndToEnd;
    let mut tapped = Tapped::beside(plan, &[(0, 1, "delay=20ms")]);
    let mut rng = Rng::new(7);
    let mut swallows = |packet: &[u8]| match rng.chance(0.05) {
        true => Vec::new(),
        false => as_it_is(packet),
    };
    let came = tapped.talk(6_000, &mut swallows);
    let restored = end(&tapped.nodes, 1, 0).restored;
    println!("{} came, {restored} restored", came.len());
    assert!(restored > 20, "the ends repair: {restored}");
    let suspects = tapped.nodes.snapshot(0).suspects;
    let named: Vec<_> = suspects.iter().map(|s| &*s.suspect.node).collect();
    assert_eq!(named, [&*addr(2).to_string()]);
}

/// Datagrams of the length of one full packet, while a relay drops everything and these links are in parallel to it.
fn full_datagrams_beside(links: &[(usize, usize, &str)], short: (usize, usize)) {
    let plan = Plan {
        edges: links.iter().map(|(a, b, _)| (*a, *b)).collect(),
        ..sealed(3)
    };
    let mut tapped = Tapped::beside(plan, links);
    // Until the short link is known.
    tapped.talk(600, &mut as_it_is);
    let usable = tapped.nodes.link_status(short.0, short.1).mtu_bytes;
    assert!(usable <= 1_300, "{usable}");
    let mut seen = 0;
    let mut swallows = |_: &[u8]| {
        seen += 1;
        Vec::new()
    };
    let full = overlay::node::MAX_PAYLOAD - wire::link::SEAL_BYTES;
    let came = tapped.talk_at_length(1_200, full, &mut swallows);
    assert!(seen > 0, "packets take the relay");
    let last = (0..1_200).rev().find(|number| !came.contains(number));
    assert!(last.unwrap() < 300, "{last:?}");
    assert_eq!(tapped.nodes.snapshot(0).suspects.len(), 1);
}

#[test]
fn a_short_link_elsewhere_keeps_no_full_datagram_on_a_bad_path() {
    let links = [(0, 1, "delay=20ms"), (1, 2, "delay=5ms mtu=1300")];
    full_datagrams_beside(&links, (1, 2));
}

#[test]
fn full_datagrams_are_cut_to_the_way_around_a_bad_path() {
    let links = [(0, 1, "delay=20ms mtu=1300"), (1, 2, "delay=5ms")];
    full_datagrams_beside(&links, (0, 1));
}

#[test]
fn a_relay_that_changes_packets_is_gone_around_too() {
    let mut tapped = tapped();
    let mut seen = 0;
    let mut changes = |packet: &[u8]| {
        seen += 1;
        let mut packet = packet.to_vec();
        if seen > 100 {
            *packet.last_mut().unwrap() ^= 1;
        }
        vec![packet]
    };
    let came = tapped.talk(1_000, &mut changes);
    let last = (0..1_000).rev().find(|number| !came.contains(number));
    assert!(last.unwrap() < 300, "{last:?}");
    assert!(tapped.drops(Drop::EndForged) > 50);
}

/// Two nodes, and a relay between them.
fn chained() -> Nodes {
    let plan = Plan {
        edges: chain(3),
        ..sealed(3)
    };
    let mut nodes = Nodes::planned(3, plan);
    nodes.link(0, 1, "delay=5ms");
    nodes.link(1, 2, "delay=5ms");
    nodes
}

#[test]
fn an_end_that_does_not_answer_is_not_asked() {
    let mut nodes = chained();
    nodes.set_settings(Settings {
        audit: false,
        ..Settings::modern()
    });
    nodes.restart(2);
    nodes.run_ms(5_000);
    let before = end(&nodes, 0, 2).sealed;
    assert_eq!(talk(&mut nodes, 2, 5), 500);
    assert_eq!(end(&nodes, 0, 2).sealed - before, 500);
    assert_eq!(nodes.count().drops(Drop::Unsupported), 0);
}

#[test]
fn questions_and_answers_are_four_packets_a_second() {
    let mut nodes = chained();
    nodes.run_ms(3_000);
    let (asked, told) = (end(&nodes, 0, 2).sealed, end(&nodes, 2, 0).sealed);
    assert_eq!(talk(&mut nodes, 2, 20), 2_000);
    let asked = end(&nodes, 0, 2).sealed - asked - 2_000;
    let told = end(&nodes, 2, 0).sealed - told;
    assert!((30..=44).contains(&asked), "{asked}");
    // One answer may belong to an earlier question.
    assert!(told.abs_diff(asked) <= 1, "{asked} {told}");
    // Nobody asks about questions.
    let quiet = end(&nodes, 0, 2).sealed;
    nodes.run_ms(20_000);
    assert_eq!(end(&nodes, 0, 2).sealed, quiet);
}

#[test]
fn a_path_without_a_relay_is_not_asked_about() {
    let mut nodes = chained();
    nodes.run_ms(3_000);
    let before = end(&nodes, 0, 1).sealed;
    assert_eq!(talk(&mut nodes, 1, 5), 500);
    assert_eq!(end(&nodes, 0, 1).sealed - before, 500);
}

#[test]
fn links_that_lose_what_they_say_are_no_reproach() {
    let plan = Plan {
        edges: vec![(0, 1), (1, 2), (0, 2)],
        ..sealed(3)
    };
    let mut nodes = Nodes::planned(5, plan);
    nodes.link(0, 1, "delay=5ms loss=2%");
    nodes.link(1, 2, "delay=5ms loss=2%");
    nodes.link(0, 2, "delay=40ms loss=5%");
    nodes.run_ms(20_000);
    talk(&mut nodes, 2, 120);
    let snapshot = nodes.snapshot(0);
    assert_eq!((snapshot.paths_bad, snapshot.suspects.len()), (0, 0));
}

/// The first link carries too little for the deadline, so this node gives up some of its own packets. They have waited
/// by then, and other packets were sealed meanwhile.
#[test]
fn what_an_overloaded_lane_gives_up_is_no_loss_of_a_relay() {
    let plan = Plan {
        edges: vec![(0, 1), (1, 2), (0, 2)],
        ..sealed(3)
    };
    let mut nodes = Nodes::planned(5, plan);
    nodes.link(0, 1, "delay=10ms rate=4mbit queue=20");
    nodes.link(1, 2, "delay=10ms");
    nodes.link(0, 2, "delay=110ms");
    nodes.run_ms(5_000);
    let mut options = Options {
        deadline: Some(Duration::from_millis(150)),
        ..voice()
    };
    options.class.link = LinkProtocol::Reliable;
    nodes.bind(2, options);
    nodes.set_sender(0, SENDER, options);
    // 1.5 times what the link carries, for 20 s.
    let start = nodes.world.now();
    for number in 0..13_600 {
        let at = start + Duration::from_micros(1_467) * number;
        nodes.send_to(at, 0, SENDER, (2, PORT), number, 1_000);
        if number % 100 == 99 {
            nodes.world.run_until(at);
        }
    }
    nodes.run_ms(10_000);
    let by_relay = nodes.link_status(0, 1).counts.data_out;
    assert!(by_relay > 6_000, "{by_relay} by the relay");
    let expired = nodes.count().drops(Drop::Expired);
    assert!(expired > 1_000, "{expired}");
    let snapshot = nodes.snapshot(0);
    assert_eq!((snapshot.paths_bad, snapshot.suspects.len()), (0, 0));
}

/// The links of the path repair losses, and announce that to all; for this flow they are to repair nothing.
#[test]
fn who_wants_no_repair_reproaches_nobody_with_what_is_lost() {
    let plan = Plan {
        edges: chain(3),
        ..sealed(3)
    };
    let mut nodes = Nodes::planned(5, plan);
    nodes.link(0, 1, "delay=50ms loss=5%");
    nodes.link(1, 2, "delay=50ms loss=5%");
    nodes.run_ms(20_000);
    let options = |aim| Options {
        deadline: Some(Duration::from_millis(190)),
        aim,
        ..voice()
    };
    nodes.bind(2, voice());
    let count = |nodes: &mut Nodes, aim| {
        nodes.set_sender(0, SENDER, options(aim));
        for number in 0..12_000 {
            let at = nodes.world.now();
            nodes.send(at, 0, SENDER, 2, number);
            nodes.run_ms(10);
        }
        nodes.run_ms(500);
        nodes.arrivals().len()
    };
    let repaired = count(&mut nodes, Aim::NONE);
    assert!(repaired > 11_900, "{repaired}");
    for aim in [Aim::new(None, Some(0.0)), Aim::new(Some(0.06), None)] {
        let came = count(&mut nodes, aim.unwrap());
        assert!(came < 11_500, "{came}");
        let snapshot = nodes.snapshot(0);
        assert_eq!((snapshot.paths_bad, snapshot.suspects.len()), (0, 0));
    }
}

#[test]
fn an_outage_leads_to_no_suspect() {
    let plan = Plan {
        edges: vec![(0, 1), (1, 2), (0, 2)],
        ..sealed(3)
    };
    let mut nodes = Nodes::planned(5, plan);
    nodes.link(0, 1, "delay=5ms");
    nodes.link(1, 2, "delay=5ms");
    nodes.link(0, 2, "delay=40ms");
    nodes.run_ms(3_000);
    for seconds in [1, 5] {
        talk(&mut nodes, 2, 3);
        nodes.set_outage(1, 2, true);
        talk(&mut nodes, 2, seconds);
        nodes.set_outage(1, 2, false);
        talk(&mut nodes, 2, 20);
        assert_eq!(nodes.snapshot(0).suspects.len(), 0, "{seconds}");
    }
}
