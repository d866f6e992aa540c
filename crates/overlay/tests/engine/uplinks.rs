//! Links with several paths: hosts with two uplinks, one of which dies, comes back, or loses packets.

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::world::neighbour::{Neighbour, control};
use crate::world::party::Ask;
use crate::world::sessions::Sessions;
use crate::world::streams::{Stream, Streams};
use crate::world::{Nodes, OPERATOR, Plan, addr, voice};
use base::{Duration, UnderlayAddr};
use overlay::event::PathWhy;
use overlay::request::Options;
use overlay::settings::Uplinks;
use overlay::snapshot::PathStatus;
use overlay::stream::{DEFAULT_CLASS, Framing};
use overlay::{Drop, Settings};
use wire::data::{Class, LinkProtocol};
use wire::link::Kind;

pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const LIMIT: Duration = Duration::from_millis(150);

pub(crate) fn settings(uplinks: Uplinks) -> Settings {
    Settings {
        uplinks,
        ..Settings::modern()
    }
}

/// Creates two nodes with two attachments each, and a path between each two attachments of the same number.
pub(crate) fn two_uplinks(seed: u64, uplinks: Uplinks, paths: [&str; 2]) -> Nodes {
    planned(seed, settings(uplinks), paths, |_| {})
}

pub(crate) fn planned(
    seed: u64,
    settings: Settings,
    paths: [&str; 2],
    change: impl Fn(&mut Plan),
) -> Nodes {
    let mut plan = Plan {
        edges: vec![(0, 1)],
        attachments: vec![(0, 2), (1, 2)],
        settings,
        ..Plan::of(2)
    };
    change(&mut plan);
    let mut nodes = Nodes::planned(seed, plan);
    nodes.link(0, 1, paths[0]);
    nodes.link_path((0, 1), (1, 1), paths[1]);
    nodes.run_ms(6_000);
    nodes
}

pub(crate) fn call(from: usize, to: usize, phase: Duration) -> Stream {
    Stream {
        from,
        to,
        interval: MS * 20,
        phase,
        options: Options {
            deadline: Some(LIMIT),
            ..voice()
        },
    }
}

/// Starts twenty calls in each direction.
pub(crate) fn calls(nodes: &mut Nodes) -> Streams {
    let calls = (0..20).flat_map(|n| [call(0, 1, MS * n), call(1, 0, MS * n)]);
    Streams::begin(nodes, calls.collect())
}

pub(crate) fn longest_gap(streams: &Streams) -> Duration {
    (0..40).map(|i| streams.longest_gap(i)).max().unwrap()
}

/// Returns the path that node `i` uses towards the other node.
pub(crate) fn used(nodes: &Nodes, i: usize) -> PathStatus {
    let mut paths = nodes.link_status(i, 1 - i).paths.into_iter();
    paths.find(|path| path.in_use).unwrap()
}

pub(crate) fn up(nodes: &Nodes, i: usize) -> usize {
    let paths = nodes.link_status(i, 1 - i).paths;
    paths.iter().filter(|path| path.state == "up").count()
}

#[test]
fn a_path_that_dies_silently_is_replaced_and_the_link_stays_up() {
    for (seed, paths) in [
        (1, ["delay=10ms", "delay=15ms"]),
        (2, ["delay=30ms", "delay=40ms"]),
    ] {
        let mut nodes = two_uplinks(seed, Uplinks::One, paths);
        assert_eq!((up(&nodes, 0), up(&nodes, 1)), (2, 2));
        let mut streams = calls(&mut nodes);
        streams.run(&mut nodes, MS * 3_000);
        let (downs, routes) = (nodes.count().downs.len(), nodes.totals.route_changes.len());
        nodes.set_path_outage((0, 0), (1, 0), true);
        streams.run(&mut nodes, MS * 3_000);
        streams.finish(&mut nodes);
        let gap = longest_gap(&streams);
        assert!(gap <= MS * 250, "{gap}");
        assert_eq!(
            nodes.totals.downs.len(),
            downs,
            "the link has not gone down"
        );
        assert_eq!(nodes.totals.route_changes.len(), routes);
        for i in [0, 1] {
            assert_eq!(used(&nodes, i).number, 1);
            assert_eq!(nodes.link_status(i, 1 - i).state, "up");
        }
        nodes.world.close().unwrap();
    }
}

#[test]
fn a_neighbour_is_dialled_at_all_its_places_a_short_step_apart() {
    let mut nodes = Nodes::planned(
        11,
        Plan {
            edges: vec![(0, 1)],
            attachments: vec![(0, 2), (1, 2)],
            settings: settings(Uplinks::One),
            ..Plan::of(2)
        },
    );
    // Only the last of the four pairs of addresses is connected.
    nodes.link_path((0, 1), (1, 1), "delay=10ms");
    nodes.run_ms(2_000);
    assert_eq!(nodes.link_status(0, 1).state, "up");
    assert_eq!(nodes.link_status(1, 0).state, "up");
    nodes.world.close().unwrap();
}

#[test]
fn with_copies_a_path_that_dies_costs_no_packet() {
    let mut lost = Vec::new();
    for uplinks in [Uplinks::One, Uplinks::Copies] {
        let mut nodes = two_uplinks(3, uplinks, ["delay=20ms", "delay=30ms"]);
        let mut streams = calls(&mut nodes);
        streams.run(&mut nodes, MS * 3_000);
        nodes.set_path_outage((0, 0), (1, 0), true);
        streams.run(&mut nodes, MS * 3_000);
        streams.finish(&mut nodes);
        assert_eq!(streams.duplicates, 0);
        lost.push(streams.missed(LIMIT));
        nodes.world.close().unwrap();
    }
    assert!(lost[0] > 0, "it could be otherwise");
    assert_eq!(lost[1], 0);
}

/// A path dies only in the direction from 0 to 1. The deaf end reports this, and each end changes to the other path by
/// itself.
#[test]
fn a_path_that_dies_in_one_direction_is_left_by_both() {
    let mut nodes = two_uplinks(4, Uplinks::One, ["delay=10ms", "delay=15ms"]);
    let mut streams = calls(&mut nodes);
    streams.run(&mut nodes, MS * 2_000);
    let called = nodes.called((1, 0), 0);
    nodes.world.set_outage_by(nodes.hosts[0], called, true);
    streams.run(&mut nodes, MS * 3_000);
    streams.finish(&mut nodes);
    let gap = longest_gap(&streams);
    assert!(gap <= MS * 250, "{gap}");
    assert_eq!((used(&nodes, 0).number, used(&nodes, 1).number), (1, 1));
    assert_eq!(nodes.totals.downs, []);
    nodes.world.close().unwrap();
}

#[test]
fn a_better_path_that_comes_back_is_taken_again_after_a_while_and_not_in_turns() {
    let mut nodes = two_uplinks(5, Uplinks::One, ["delay=10ms", "delay=40ms"]);
    let mut streams = calls(&mut nodes);
    streams.run(&mut nodes, MS * 2_000);
    // The uplink works for three seconds in six.
    for _ in 0..4 {
        nodes.set_path_outage((0, 0), (1, 0), true);
        streams.run(&mut nodes, MS * 3_000);
        nodes.set_path_outage((0, 0), (1, 0), false);
        streams.run(&mut nodes, MS * 3_000);
    }
    assert_eq!((used(&nodes, 0).number, used(&nodes, 1).number), (1, 1));
    assert_eq!(nodes.totals.path_changes.len(), 2, "once at each end");
    assert_eq!(up(&nodes, 0), 2);
    // Now the uplink stays up, and the price of its outages fades.
    let mut after = 0;
    while used(&nodes, 0).number != 0 && after < 600 {
        streams.run(&mut nodes, MS * 1_000);
        after += 1;
    }
    assert!((5..600).contains(&after), "{after} s");
    let (.., why) = nodes.totals.path_changes[2];
    assert!(matches!(why, PathWhy::Dearer { .. }), "{why}");
    streams.finish(&mut nodes);
    assert_eq!(nodes.totals.downs, []);
    nodes.world.close().unwrap();
}

#[test]
fn of_two_equal_paths_none_is_left_for_the_other() {
    let path = "delay=20ms jitter=3ms loss=0.5%";
    let mut nodes = two_uplinks(6, Uplinks::One, [path, path]);
    let mut streams = calls(&mut nodes);
    streams.run(&mut nodes, MS * 60_000);
    assert_eq!(nodes.count().path_changes, []);
    nodes.world.close().unwrap();
}

#[test]
fn a_path_that_loses_packets_is_left() {
    let mut nodes = two_uplinks(7, Uplinks::One, ["delay=20ms", "delay=25ms"]);
    let mut streams = calls(&mut nodes);
    streams.run(&mut nodes, MS * 3_000);
    nodes.link_path((0, 0), (1, 0), "delay=20ms loss=10%");
    streams.run(&mut nodes, MS * 15_000);
    assert_eq!((used(&nodes, 0).number, used(&nodes, 1).number), (1, 1));
    let missed = streams.missed(LIMIT);
    streams.run(&mut nodes, MS * 30_000);
    assert_eq!(streams.missed(LIMIT) - missed, 0, "nothing is lost there");
    assert_eq!(nodes.totals.path_changes.len(), 2);
    nodes.world.close().unwrap();
}

#[test]
fn one_end_with_two_uplinks_is_enough() {
    let one = |plan: &mut Plan| plan.attachments = vec![(0, 2)];
    let mut nodes = planned(8, settings(Uplinks::One), ["delay=10ms", "delay=10ms"], one);
    nodes.link_path((0, 1), (1, 0), "delay=15ms");
    nodes.run_ms(10_000);
    assert_eq!((up(&nodes, 0), up(&nodes, 1)), (2, 2));
    let mut streams = calls(&mut nodes);
    streams.run(&mut nodes, MS * 2_000);
    nodes.set_path_outage((0, 0), (1, 0), true);
    streams.run(&mut nodes, MS * 3_000);
    streams.finish(&mut nodes);
    let gap = longest_gap(&streams);
    assert!(gap <= MS * 250, "{gap}");
    assert_eq!(nodes.totals.downs, []);
    nodes.world.close().unwrap();
}

/// The uplinks of each end reach both uplinks of the other end. Of these four paths, one dying uplink at each end takes
/// three along.
#[test]
fn of_four_paths_the_one_that_has_no_end_in_common_takes_over() {
    let mut nodes = two_uplinks(18, Uplinks::One, ["delay=10ms", "delay=15ms"]);
    nodes.link_path((0, 0), (1, 1), "delay=10ms");
    nodes.link_path((0, 1), (1, 0), "delay=10ms");
    nodes.run_ms(40_000);
    assert_eq!((up(&nodes, 0), up(&nodes, 1)), (4, 4));
    let mut streams = calls(&mut nodes);
    streams.run(&mut nodes, MS * 2_000);
    // Packets that leave node 0 by its first socket are lost, and so are packets that arrive at the first address of
    // node 1.
    for (here, there) in [((0, 0), (1, 0)), ((0, 0), (1, 1)), ((0, 1), (1, 0))] {
        nodes.set_path_outage(here, there, true);
    }
    streams.run(&mut nodes, MS * 3_000);
    streams.finish(&mut nodes);
    let gap = longest_gap(&streams);
    assert!(gap <= MS * 250, "{gap}");
    assert_eq!(nodes.totals.path_changes.len(), 2);
    assert_eq!(nodes.totals.downs, []);
    assert_eq!((up(&nodes, 0), up(&nodes, 1)), (1, 1));
    nodes.world.close().unwrap();
}

/// A path from one uplink to the address of the other one leaves by one uplink, and its answers arrive by the other
/// one: hosts send by the uplink that leads to the address. If one uplink dies, both such paths lose one direction.
#[test]
fn a_path_across_two_uplinks_is_left_for_the_one_that_works_both_ways() {
    for (dead, whole) in [(0, 1), (1, 0)] {
        let plan = Plan {
            edges: vec![(0, 1)],
            attachments: vec![(0, 2), (1, 2)],
            settings: settings(Uplinks::One),
            ..Plan::of(2)
        };
        let mut nodes = Nodes::planned(19, plan);
        nodes.link_path((0, 0), (1, 1), "delay=10ms");
        nodes.run_ms(6_000);
        nodes.link(0, 1, "delay=10ms");
        nodes.link_path((0, 1), (1, 1), "delay=10ms");
        nodes.link_path((0, 1), (1, 0), "delay=10ms");
        nodes.run_ms(60_000);
        assert_eq!((up(&nodes, 0), up(&nodes, 1)), (4, 4));
        let across = nodes.called((1, 1), 0).to_string();
        assert_eq!(used(&nodes, 0).at, Some(across));
        let mut streams = calls(&mut nodes);
        streams.run(&mut nodes, MS * 2_000);
        for socket in [0, 1] {
            let (there, here) = (
                nodes.called((1, dead), socket),
                nodes.called((0, dead), socket),
            );
            nodes.world.set_outage_by(nodes.hosts[0], there, true);
            nodes.world.set_outage_by(nodes.hosts[1], here, true);
        }
        streams.run(&mut nodes, MS * 4_000);
        streams.finish(&mut nodes);
        let gap = longest_gap(&streams);
        assert!(gap <= MS * 600, "uplink {dead}: {gap}");
        for i in [0, 1] {
            let straight = nodes.called((1 - i, whole), whole).to_string();
            assert_eq!(
                used(&nodes, i).at,
                Some(straight),
                "uplink {dead}, node {i}"
            );
        }
        assert_eq!(nodes.totals.downs, []);
        nodes.world.close().unwrap();
    }
}

/// A node that does not know paths is never asked for one, so its link is the same as before.
#[test]
fn beside_a_node_that_knows_no_paths_there_is_one() {
    for old in [0, 1] {
        let own = |plan: &mut Plan| plan.own_settings = vec![(old, settings(Uplinks::Off))];
        let paths = ["delay=10ms", "delay=15ms"];
        let mut nodes = planned(9, settings(Uplinks::One), paths, own);
        let mut streams = calls(&mut nodes);
        streams.run(&mut nodes, MS * 20_000);
        streams.finish(&mut nodes);
        assert_eq!(streams.missed(LIMIT), 0);
        for i in [0, 1] {
            assert_eq!(nodes.link_status(i, 1 - i).paths.len(), 1);
        }
        let second = nodes.called((1, 1), 1);
        assert_eq!(nodes.world.counts_by(nodes.hosts[0], second).delivered, 0);
        nodes.world.close().unwrap();
    }
}

#[test]
fn both_paths_get_new_keys_and_lose_nothing_by_it() {
    for mutual in [false, true] {
        let both = |plan: &mut Plan| plan.mutual = mutual;
        let paths = ["delay=10ms", "delay=15ms"];
        let mut nodes = planned(10, settings(Uplinks::Copies), paths, both);
        let calls = vec![call(0, 1, Duration::ZERO), call(1, 0, MS * 7)];
        let mut streams = Streams::begin(&mut nodes, calls);
        streams.run(&mut nodes, MS * 590_000);
        assert!(nodes.totals.established.len() >= 4);
        let before = nodes.totals.established.len();
        streams.run(&mut nodes, MS * 1_300_000);
        streams.finish(&mut nodes);
        let made = nodes.totals.established.len() - before;
        // Two paths with two ends get new keys two or three times.
        assert!((8..=14).contains(&made), "{made}");
        assert_eq!(streams.missed(LIMIT), 0);
        assert_eq!((up(&nodes, 0), up(&nodes, 1)), (2, 2));
        assert_eq!(nodes.totals.path_changes, []);
        assert_eq!(nodes.totals.downs, []);
        nodes.world.close().unwrap();
    }
}

#[test]
fn after_a_restart_of_either_end_there_are_two_paths_again() {
    for (restarted, was_used) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
        let mut nodes = two_uplinks(11, Uplinks::One, ["delay=10ms", "delay=10ms"]);
        let mut streams = calls(&mut nodes);
        streams.run(&mut nodes, MS * 2_000);
        if was_used == 1 {
            nodes.set_path_outage((0, 0), (1, 0), true);
            streams.run(&mut nodes, MS * 2_000);
            nodes.set_path_outage((0, 0), (1, 0), false);
            streams.run(&mut nodes, MS * 2_000);
        }
        assert_eq!(used(&nodes, 1 - restarted).number, was_used);
        nodes.crash(restarted);
        streams.run(&mut nodes, MS * 1_000);
        nodes.restart(restarted);
        streams.reopen(&mut nodes, restarted);
        streams.run(&mut nodes, MS * 20_000);
        let end = nodes.world.now();
        for i in 0..40 {
            let lost = streams.lost_between(i, end - MS * 3_000, end - MS * 200);
            assert_eq!(lost, 0, "{restarted} {was_used}");
        }
        assert_eq!(
            (up(&nodes, 0), up(&nodes, 1)),
            (2, 2),
            "{restarted} {was_used}"
        );
        for i in [0, 1] {
            assert_eq!(nodes.link_status(i, 1 - i).paths.len(), 2);
        }
        nodes.world.close().unwrap();
    }
}

#[test]
fn a_neighbour_that_stops_takes_the_link_down_and_not_only_a_path() {
    let mut nodes = two_uplinks(12, Uplinks::One, ["delay=10ms", "delay=15ms"]);
    nodes.operate(1, overlay::request::Operation::Farewell);
    nodes.run_ms(100);
    assert_eq!(nodes.link_status(0, 1).state, "down");
    assert_eq!(nodes.link_status(0, 1).paths.len(), 1);
    nodes.world.close().unwrap();
}

/// Opens a stream from 0 to 1 that always has data to send.
pub(crate) fn busy(nodes: &mut Nodes, link: LinkProtocol) -> (Sessions, (usize, base::ClientId)) {
    let class = Class {
        link,
        ..DEFAULT_CLASS
    };
    let options = Some(Options {
        class,
        ..Options::default()
    });
    let mut sessions = Sessions::default();
    sessions.listen(nodes, 1, options);
    sessions.run_ms(nodes, 5);
    let caller = sessions.connect(nodes, (0, 1), Framing::Bytes, options);
    sessions.end(caller).to_write = u64::MAX >> 1;
    (sessions, caller)
}

/// A lane that waits for acknowledgements goes on over a path that is ten times as long, and back.
#[test]
fn a_reliable_lane_goes_on_over_a_path_of_another_round_trip() {
    for paths in [
        ["delay=5ms rate=20mbit", "delay=60ms rate=20mbit"],
        ["delay=60ms rate=20mbit", "delay=5ms rate=20mbit"],
    ] {
        let mut nodes = two_uplinks(13, Uplinks::One, paths);
        let (mut sessions, _) = busy(&mut nodes, LinkProtocol::Reliable);
        sessions.run_ms(&mut nodes, 4_000);
        let used_before = used(&nodes, 0).number;
        nodes.set_path_outage((0, used_before), (1, used_before), true);
        sessions.run_ms(&mut nodes, 3_000);
        assert_ne!(used(&nodes, 0).number, used_before);
        let before = sessions.called(0).read;
        sessions.run_ms(&mut nodes, 5_000);
        let rate = (sessions.called(0).read - before) as f64 * 8.0 / 5.0 / 20e6;
        assert!(rate > 0.8, "{paths:?}: {rate:.2} of the rate");
        drop(sessions);
        nodes.world.close().unwrap();
    }
}

/// Data that fills a path makes its delay longer. The other path would be as long if it were filled. The link learns
/// this.
#[test]
fn a_lane_that_fills_its_path_does_not_go_to_and_fro() {
    for (seed, link) in [(16, LinkProtocol::Reliable), (17, LinkProtocol::BestEffort)] {
        let path = "delay=10ms rate=20mbit";
        let mut nodes = two_uplinks(seed, Uplinks::One, [path, path]);
        let (mut sessions, _) = busy(&mut nodes, link);
        sessions.run_ms(&mut nodes, 60_000);
        let rate = sessions.called(0).read as f64 * 8.0 / 60.0 / 20e6;
        // The path changes after 3, 8, 18 and 38 s at either end, if nothing else speaks against it.
        let changes = nodes.count().path_changes.len();
        assert!(changes <= 2 * 4, "{link:?}: {changes}");
        assert!(rate > 0.85, "{rate:.2}");
        drop(sessions);
        nodes.world.close().unwrap();
    }
}

/// Creates a member with a certificate and five further addresses. Returns its host, and the six addresses of node 0
/// that it can dial.
pub(crate) fn member(nodes: &mut Nodes) -> (sim::HostId, Vec<UnderlayAddr>) {
    let network = nodes.authority.network();
    let rogue = Neighbour::new(nodes.identity(1).clone(), network, [9; 32]);
    let host = nodes.add_rogue(0, rogue, "delay=5ms");
    let (own, to) = (nodes.world.addr(host), nodes.at(0));
    let view = |socket: u8| UnderlayAddr { socket, ..to };
    for socket in 1..6 {
        let seen = UnderlayAddr {
            socket: 0,
            ..sim::attachment(own, socket)
        };
        let path = crate::world::model("delay=5ms");
        let ends = (nodes.hosts[0], host);
        nodes
            .world
            .link_by((host, ends.0), (view(socket), seen), path.clone());
        nodes
            .world
            .link_by((ends.0, host), (seen, view(socket)), path);
    }
    nodes.world.request(host, OPERATOR, Ask::Dial(view(0)));
    nodes.run_ms(1_000);
    (host, (0..6).map(view).collect())
}

#[test]
fn a_member_makes_four_paths_and_not_a_fifth() {
    let mut nodes = Nodes::planned(14, Plan::of(2));
    nodes.crash(1);
    let (host, to) = member(&mut nodes);
    for at in &to[1..] {
        let ask = Ask::DialFurther(*at, addr(0));
        nodes.world.request(host, OPERATOR, ask);
        nodes.run_ms(1_000);
    }
    let paths = nodes.link_status(0, 1).paths;
    assert_eq!(paths.len(), overlay::link::MAX_PATHS);
    assert!(paths.iter().all(|path| path.state == "up"), "{paths:?}");
    let why = secure::Refusal::TooManyPaths(addr(1));
    assert!(nodes.count().refusals(why) >= 2);
    nodes.world.close().unwrap();
}

/// Datagrams of a spare path that come from a third address do not redirect that path, nor anything else, as long as no
/// handshake came from that address.
#[test]
fn a_spare_is_not_turned_to_a_third_party() {
    let mut nodes = Nodes::planned(15, Plan::of(2));
    nodes.crash(1);
    let (host, to) = member(&mut nodes);
    let ask = Ask::DialFurther(to[1], addr(0));
    nodes.world.request(host, OPERATOR, ask);
    nodes.run_ms(1_000);
    assert_eq!(nodes.link_status(0, 1).paths.len(), 2);
    for _ in 0..50 {
        let hello = control(|b| b.hello(&wire::control::Hello::default()).unwrap());
        let stray = Ask::Stray(to[1], to[2], Kind::Control, hello);
        nodes.world.request(host, OPERATOR, stray);
        nodes.run_ms(20);
    }
    let third = UnderlayAddr {
        socket: 0,
        ..sim::attachment(nodes.world.addr(host), 2)
    };
    assert_eq!(nodes.world.counts_by(nodes.hosts[0], third).delivered, 0);
    assert_eq!(nodes.count().drops(Drop::BadTag), 0, "they were opened");
    nodes.world.close().unwrap();
}

/// Both uplinks are away for longer than a spare is kept. Then one of them comes back.
#[test]
fn after_a_long_outage_of_all_paths_the_link_comes_up_by_any() {
    for mutual in [false, true] {
        for back in [0, 1] {
            let both = |plan: &mut Plan| plan.mutual = mutual;
            let paths = ["delay=10ms", "delay=15ms"];
            let mut nodes = planned(19, settings(Uplinks::One), paths, both);
            for k in [0, 1] {
                nodes.set_path_outage((0, k), (1, k), true);
            }
            nodes.run_ms(90_000);
            nodes.set_path_outage((0, back), (1, back), false);
            nodes.run_ms(60_000);
            for i in [0, 1] {
                let state = nodes.link_status(i, 1 - i).state;
                assert_eq!(state, "up", "{mutual} {back}");
            }
            nodes.set_path_outage((0, 1 - back), (1, 1 - back), false);
            nodes.run_ms(600_000);
            assert_eq!((up(&nodes, 0), up(&nodes, 1)), (2, 2), "{mutual} {back}");
            nodes.world.close().unwrap();
        }
    }
}

#[test]
fn a_link_whose_first_uplink_is_dead_comes_up_by_the_second() {
    let plan = Plan {
        edges: vec![(0, 1)],
        attachments: vec![(0, 2), (1, 2)],
        settings: settings(Uplinks::One),
        ..Plan::of(2)
    };
    let mut nodes = Nodes::planned(20, plan);
    nodes.link(0, 1, "delay=10ms");
    nodes.link_path((0, 1), (1, 1), "delay=15ms");
    nodes.set_path_outage((0, 0), (1, 0), true);
    nodes.run_ms(60_000);
    for i in [0, 1] {
        assert_eq!(nodes.link_status(i, 1 - i).state, "up");
    }
    nodes.world.close().unwrap();
}

/// Each end uses another path, and one of the ends stops.
#[test]
fn a_good_bye_by_a_spare_takes_the_link_down() {
    for stops in [0, 1] {
        let mut nodes = two_uplinks(21, Uplinks::One, ["delay=20ms", "delay=25ms"]);
        let ends = (nodes.called((1, 0), 0), nodes.called((0, 0), 0));
        let hosts = (nodes.hosts[0], nodes.hosts[1]);
        let lossy = crate::world::model("delay=20ms loss=10%");
        nodes.world.link_by(hosts, ends, lossy);
        let mut streams = calls(&mut nodes);
        let differ = |nodes: &Nodes| (used(nodes, 0).number, used(nodes, 1).number) == (1, 0);
        for _ in 0..300 {
            if !differ(&nodes) {
                streams.run(&mut nodes, MS * 100);
            }
        }
        assert!(differ(&nodes));
        nodes.operate(stops, overlay::request::Operation::Farewell);
        nodes.run_ms(100);
        let link = nodes.link_status(1 - stops, stops);
        assert_eq!((link.state, link.paths.len()), ("down", 1), "{stops}");
        nodes.world.close().unwrap();
    }
}

/// Both paths to a neighbor die, and another path leads through a third node. No packet waits for a verdict on the idle
/// spare.
#[test]
fn where_all_paths_die_packets_go_around_at_once() {
    let plan = Plan {
        edges: vec![(0, 1), (0, 2), (1, 2)],
        attachments: vec![(0, 2), (1, 2)],
        settings: settings(Uplinks::One),
        ..Plan::of(3)
    };
    let mut nodes = Nodes::planned(22, plan);
    nodes.link(0, 1, "delay=10ms");
    nodes.link_path((0, 1), (1, 1), "delay=15ms");
    nodes.link(0, 2, "delay=10ms");
    nodes.link(1, 2, "delay=10ms");
    nodes.run_ms(8_000);
    assert_eq!((up(&nodes, 0), up(&nodes, 1)), (2, 2));
    let mut streams = calls(&mut nodes);
    streams.run(&mut nodes, MS * 3_000);
    for k in [0, 1] {
        nodes.set_path_outage((0, k), (1, k), true);
    }
    streams.run(&mut nodes, MS * 3_000);
    streams.finish(&mut nodes);
    let gap = longest_gap(&streams);
    assert!(gap <= MS * 250, "{gap}");
    nodes.world.close().unwrap();
}
