//! Bulk data over the paths of a link: each path carries what it can, and calls stay on their own path.

#![allow(clippy::unwrap_used, reason = "a test")]

use super::uplinks::{MS, busy, call, planned, settings, two_uplinks, up};
use crate::world::Nodes;
use crate::world::Plan;
use crate::world::streams::Streams;
use base::Duration;
use overlay::Settings;
use overlay::settings::Uplinks;
use overlay::snapshot::PathStatus;
use wire::data::LinkProtocol;

/// Returns the bytes that node `i` has sent on each of its paths to the other node, by the number of the path.
fn sent_by(nodes: &Nodes, i: usize) -> [u64; 2] {
    let paths = nodes.link_status(i, 1 - i).paths;
    [0, 1].map(|number| {
        let of = |path: &&PathStatus| path.number == number;
        paths.iter().find(of).unwrap().out_bytes
    })
}

/// Returns what a stream from 0 to 1 gets of two paths, as a share of both rates, and the shares of each path.
fn spread(seed: u64, settings: Settings, paths: [&str; 2], mbps: [f64; 2]) -> (f64, [f64; 2]) {
    let mut nodes = planned(seed, settings, paths, |_| {});
    let (mut sessions, _) = busy(&mut nodes, LinkProtocol::Reliable);
    sessions.run_ms(&mut nodes, 5_000);
    let (read, sent) = (sessions.called(0).read, sent_by(&nodes, 0));
    sessions.run_ms(&mut nodes, 10_000);
    let share = |bytes: u64, mbps: f64| bytes as f64 * 8.0 / 10.0 / (mbps * 1e6);
    let goodput = share(sessions.called(0).read - read, mbps[0] + mbps[1]);
    let after = sent_by(&nodes, 0);
    let of_path = [0, 1].map(|i| share(after[i] - sent[i], mbps[i]));
    drop(sessions);
    nodes.world.close().unwrap();
    (goodput, of_path)
}

#[test]
fn bulk_takes_two_paths_of_unequal_rate_and_delay_in_proportion() {
    let paths = ["delay=10ms rate=20mbit", "delay=40ms rate=10mbit"];
    let lossy = "delay=10ms rate=20mbit loss=0.5%";
    for (seed, paths, mbps) in [
        (21, paths, [20.0, 10.0]),
        (22, [paths[1], paths[0]], [10.0, 20.0]),
        (23, [paths[0], paths[0]], [20.0, 20.0]),
        (24, [lossy, paths[1]], [20.0, 10.0]),
    ] {
        let (goodput, of_path) = spread(seed, settings(Uplinks::One), paths, mbps);
        assert!(goodput >= 0.85, "{paths:?}: {goodput:.3}");
        assert!(of_path.iter().all(|share| *share >= 0.85), "{of_path:.3?}");
    }
}

#[test]
fn who_pays_for_an_uplink_by_the_byte_keeps_bulk_from_it() {
    let paths = ["delay=10ms rate=20mbit", "delay=40ms rate=10mbit"];
    let one = Settings {
        spread_bulk: false,
        ..settings(Uplinks::One)
    };
    let (goodput, [first, second]) = spread(21, one, paths, [20.0, 10.0]);
    assert!(goodput < 0.67 && first > 0.85, "{goodput:.3}");
    assert!(second < 0.05, "hellos, and acknowledgements: {second:.3}");
}

/// One of two paths of a stream dies silently. The data that was on its way there takes the other path.
#[test]
fn a_stream_over_two_paths_goes_on_when_either_dies() {
    for (seed, dies) in [(25, 0), (26, 1)] {
        let paths = ["delay=10ms rate=20mbit", "delay=40ms rate=10mbit"];
        let mut nodes = two_uplinks(seed, Uplinks::One, paths);
        let (mut sessions, caller) = busy(&mut nodes, LinkProtocol::Reliable);
        sessions.run_ms(&mut nodes, 5_000);
        nodes.set_path_outage((0, dies), (1, dies), true);
        let mut silent = Duration::ZERO;
        let mut longest = Duration::ZERO;
        let mut before = sessions.called(0).read;
        for _ in 0..300 {
            sessions.run_ms(&mut nodes, 10);
            silent += MS * 10;
            if core::mem::replace(&mut before, sessions.called(0).read) != before {
                silent = Duration::ZERO;
            }
            longest = longest.max(silent);
        }
        // The doubt arises after 150 ms. Then the lost data crosses the other path.
        assert!(longest <= MS * 600, "{longest}");
        let read = sessions.called(0).read;
        sessions.run_ms(&mut nodes, 5_000);
        let left = [10.0, 20.0][usize::from(dies)];
        let rate = (sessions.called(0).read - read) as f64 * 8.0 / 5.0 / (left * 1e6);
        assert!(rate >= 0.8, "{rate:.2} of the path that is left");
        // Both paths work again, and nothing was lost or delivered twice: the far end checks each byte that arrives.
        nodes.set_path_outage((0, dies), (1, dies), false);
        sessions.run_ms(&mut nodes, 15_000);
        let (read, sent) = (sessions.called(0).read, sent_by(&nodes, 0));
        sessions.run_ms(&mut nodes, 5_000);
        let rate = (sessions.called(0).read - read) as f64 * 8.0 / 5.0 / 30e6;
        let after = sent_by(&nodes, 0);
        assert!(rate >= 0.8, "{rate:.2} of both after path {dies} is back");
        assert!(after.iter().zip(sent).all(|(after, sent)| *after > sent));
        assert_eq!(sessions.end(caller).reset, None);
        drop(sessions);
        nodes.world.close().unwrap();
    }
}

/// Runs calls beside bulk data for ten seconds. Returns the bytes that took the second path without those of the shared
/// load, the bytes of the shared load, and the bytes of the calls.
fn calls_beside_bulk(seed: u64, uplinks: Uplinks, paths: [&str; 2]) -> [u64; 3] {
    let mut nodes = two_uplinks(seed, uplinks, paths);
    let (mut sessions, _) = busy(&mut nodes, LinkProtocol::Reliable);
    sessions.run_ms(&mut nodes, 2_000);
    let calls = (0..4).map(|n| call(0, 1, MS * n));
    let mut streams = Streams::begin(&mut nodes, calls.collect());
    let sums = |nodes: &Nodes| {
        let counts = nodes.link_status(0, 1).counts;
        let shared = counts.spread_out_bytes;
        [
            sent_by(nodes, 0)[1] - shared,
            shared,
            counts.realtime_out_bytes,
        ]
    };
    let before = sums(&nodes);
    for _ in 0..1_000 {
        let until = nodes.world.now() + MS * 10;
        streams.schedule(&mut nodes, until);
        sessions.run_ms(&mut nodes, 10);
    }
    let after = sums(&nodes);
    drop(sessions);
    nodes.world.close().unwrap();
    [0, 1, 2].map(|i| after[i] - before[i])
}

/// Calls take the path in use, whatever else fills both paths.
#[test]
fn calls_keep_to_the_best_path_beside_bulk() {
    let paths = ["delay=10ms rate=20mbit", "delay=60ms rate=20mbit"];
    let [other, shared, of_calls] = calls_beside_bulk(27, Uplinks::One, paths);
    assert!(shared > 10_000_000, "bulk takes both: {shared}");
    assert!(other < of_calls / 10, "{other} of {of_calls}");
}

/// If calls always take two paths, bulk data makes no queue on the second one.
#[test]
fn bulk_keeps_off_the_path_that_copies_of_calls_take() {
    let paths = ["delay=20ms rate=20mbit", "delay=30ms rate=20mbit"];
    let [other, shared, of_calls] = calls_beside_bulk(28, Uplinks::Copies, paths);
    assert_eq!(shared, 0);
    assert!(other >= of_calls, "{other} of {of_calls}");
}

/// Returns the numbers of the spare paths of node 0 that share the load.
fn shares(nodes: &Nodes) -> Vec<u8> {
    let paths = nodes.link_status(0, 1).paths;
    let shares = paths.iter().filter(|path| path.shares);
    shares.map(|path| path.number).collect()
}

/// Each of three uplinks has its share. A path that leaves by one uplink and arrives by another one shares nothing.
#[test]
fn three_uplinks_share_the_load_and_no_two_paths_an_end() {
    let both = |plan: &mut Plan| plan.attachments = vec![(0, 3), (1, 3)];
    let path = "delay=10ms rate=20mbit";
    let mut nodes = planned(29, settings(Uplinks::One), [path, path], both);
    nodes.link_path((0, 2), (1, 2), path);
    nodes.link_path((0, 0), (1, 1), path);
    nodes.run_ms(60_000);
    assert_eq!(up(&nodes, 0), 4);
    let chosen = shares(&nodes);
    assert_eq!(chosen.len(), 2, "{chosen:?}");
    let paths = nodes.link_status(0, 1).paths;
    let takes = paths.iter().filter(|path| path.in_use || path.shares);
    let ends: Vec<_> = takes.map(|path| (&path.from, &path.at)).collect();
    for (i, (from, at)) in ends.iter().enumerate() {
        let apart = |other: &(&Option<String>, &Option<String>)| other.0 != *from && other.1 != *at;
        assert!(ends[i + 1..].iter().all(apart), "{ends:?}");
    }
    nodes.world.close().unwrap();
}

/// If every path has an end in common with the path in use, only one uplink of the other end can be added.
#[test]
fn one_uplink_at_the_other_end_shares_too_and_not_where_it_is_much_longer() {
    for (delay, expected) in [("delay=30ms", 1), ("delay=150ms", 0)] {
        let one = |plan: &mut Plan| plan.attachments = vec![(0, 2)];
        let mut nodes = planned(
            30,
            settings(Uplinks::One),
            ["delay=10ms", "delay=10ms"],
            one,
        );
        nodes.link_path((0, 1), (1, 0), delay);
        nodes.run_ms(10_000);
        assert_eq!(up(&nodes, 0), 2);
        assert_eq!(shares(&nodes).len(), expected, "{delay}");
        nodes.world.close().unwrap();
    }
}
