//! Streams in the simulator: exact bytes in their order over any class, whatever the paths do.
#![allow(clippy::unwrap_used)]

use crate::world::sessions::{LISTENER, Sessions};
use crate::world::{Nodes, chain};
use overlay::request::Options;
use overlay::stream::{DEFAULT_CLASS, Framing, ResetReason};
use wire::data::{Class, LinkProtocol};

fn class(link: LinkProtocol) -> Option<Options> {
    let class = Class {
        link,
        ..DEFAULT_CLASS
    };
    Some(Options {
        class,
        ..Options::default()
    })
}

/// Runs a stream from the first node of a chain to the last one, with `bytes` in this direction and a quarter of them
/// in the other one. Returns the rate in Mbit/s.
fn transfer(seed: u64, count: usize, path: &str, link: LinkProtocol, bytes: u64, ms: u64) -> f64 {
    let mut nodes = Nodes::new(seed, count, &chain(count), path);
    nodes.run_ms(3_000);
    let mut sessions = Sessions {
        answer_bytes: bytes / 4,
        ..Sessions::default()
    };
    sessions.listen(&mut nodes, count - 1, class(link));
    sessions.run_ms(&mut nodes, 5);
    let began = nodes.world.now();
    let caller = sessions.connect(&mut nodes, (0, count - 1), Framing::Bytes, class(link));
    let end = sessions.end(caller);
    (end.to_write, end.finishes) = (bytes, true);
    let done = sessions.run_until(&mut nodes, ms, |s| {
        s.ends.len() == 2 && s.ends.values().all(|end| end.finished.is_some())
    });
    assert!(
        done,
        "{:#?}\n{:#?}",
        sessions.ends,
        nodes.snapshot(0).streams
    );
    assert_eq!(sessions.called(0).read, bytes);
    assert_eq!(sessions.end(caller).read, bytes / 4);
    let took = sessions.called(0).finished.unwrap().since(began);
    // The last message may be lost and sent again.
    sessions.run_ms(&mut nodes, 12_000);
    for i in [0, count - 1] {
        let left = nodes.snapshot(i).streams;
        assert!(left.is_empty(), "node {i}: {left:#?}");
    }
    drop(nodes.world.take_replies());
    nodes.world.close().unwrap();
    bytes as f64 * 8.0 / took.as_secs_f64() / 1e6
}

#[test]
fn bytes_cross_a_clean_chain_both_ways() {
    let rate = transfer(
        1,
        3,
        "delay=5ms",
        LinkProtocol::BestEffort,
        20_000_000,
        20_000,
    );
    assert!(rate > 80.0, "{rate} Mbit/s");
}

#[test]
fn losses_duplicates_and_reordering_change_nothing() {
    for (seed, path) in [
        (1, "delay=5ms loss=3%"),
        (2, "delay=5ms jitter=4ms reorder loss=1% duplicate=2%"),
        (3, "delay=20ms loss=10%"),
        (4, "delay=1ms loss=5% burst=50%"),
    ] {
        for link in LinkProtocol::ALL {
            transfer(seed, 3, path, link, 400_000, 60_000);
        }
    }
}

#[test]
fn a_port_where_nobody_listens_refuses() {
    let mut nodes = Nodes::new(1, 2, &chain(2), "delay=5ms");
    nodes.run_ms(2_000);
    let mut sessions = Sessions::default();
    let caller = sessions.connect(&mut nodes, (0, 1), Framing::Bytes, None);
    sessions.run_ms(&mut nodes, 50);
    assert_eq!(sessions.end(caller).reset, Some(ResetReason::Refused));
    sessions.listen(&mut nodes, 1, None);
    let caller = sessions.connect(&mut nodes, (0, 1), Framing::Bytes, None);
    sessions.run_ms(&mut nodes, 50);
    assert!(sessions.end(caller).connected.is_some());
    assert_eq!(nodes.snapshot(1).streams.len(), 1);
    // The listener closes. Open streams stay open.
    nodes.request(1, LISTENER, overlay::Request::Close);
    let late = sessions.connect(&mut nodes, (0, 1), Framing::Bytes, None);
    sessions.run_ms(&mut nodes, 50);
    assert_eq!(sessions.end(late).reset, Some(ResetReason::Refused));
    assert_eq!(sessions.end(caller).reset, None);
}

#[test]
fn streams_within_one_node_work() {
    let mut nodes = Nodes::new(1, 2, &chain(2), "delay=5ms");
    nodes.run_ms(100);
    let mut sessions = Sessions {
        answer_bytes: 3_000_000,
        ..Sessions::default()
    };
    sessions.listen(&mut nodes, 0, None);
    sessions.run_ms(&mut nodes, 2);
    let caller = sessions.connect(&mut nodes, (0, 0), Framing::Bytes, None);
    let end = sessions.end(caller);
    (end.to_write, end.finishes) = (5_000_000, true);
    let done = sessions.run_until(&mut nodes, 2_000, |s| {
        s.ends.len() == 2 && s.ends.values().all(|end| end.finished.is_some())
    });
    assert!(done, "{:#?}", sessions.ends);
    assert_eq!(sessions.called(0).read, 5_000_000);
    assert_eq!(sessions.end(caller).read, 3_000_000);
    assert_eq!(nodes.snapshot(0).streams.len(), 0);
}
