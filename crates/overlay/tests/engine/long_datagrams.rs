//! Datagrams that are longer than a packet, in the simulator.
#![allow(clippy::unwrap_used)]

use crate::world::{Nodes, PORT, SENDER, addr, chain, voice};
use base::Duration;
use overlay::event::Drop;
use overlay::request::{Delivery, Options};
use overlay::{Reply, Request, RequestError};
use wire::ipc::{RouteBy, Scheme};

const LONGEST: usize = 65_507;

#[test]
fn datagrams_of_any_length_arrive_whole() {
    let mut nodes = Nodes::new(1, 4, &chain(4), "delay=5ms");
    nodes.run_ms(2_000);
    nodes.bind(3, voice());
    nodes.bind(0, voice());
    nodes.set_sender(0, SENDER, voice());
    let lengths = [1_392, 1_393, 2_000, 2_764, 2_765, 30_000, LONGEST];
    for (n, bytes) in lengths.into_iter().enumerate() {
        for to in [3, 0] {
            let at = nodes.world.now();
            nodes.send_to(at, 0, SENDER, (to, PORT), n as u64, bytes);
        }
        nodes.run_ms(50);
    }
    let mut lengths_read: Vec<usize> = Vec::new();
    for answer in nodes.world.take_replies() {
        if let Reply::Datagram { payload, from, .. } = answer.reply {
            assert_eq!(from, addr(0));
            crate::world::read(payload.bytes());
            lengths_read.push(payload.len());
        }
    }
    let mut twice: Vec<usize> = lengths.into_iter().chain(lengths).collect();
    twice.sort_unstable();
    lengths_read.sort_unstable();
    assert_eq!(lengths_read, twice);
    nodes.world.close().unwrap();
}

#[test]
fn too_long_is_refused() {
    let mut nodes = Nodes::new(1, 2, &chain(2), "delay=5ms");
    nodes.run_ms(1_000);
    // No buffer is as long as this, so the length is given as that of several segments.
    let mut payload = nodes.world.pool().large().unwrap();
    payload.fill(LONGEST + 1, LONGEST + 1);
    let port = PORT;
    let to = addr(1);
    nodes.request(0, SENDER, Request::Send { to, port, payload });
    nodes.run_ms(1);
    let told = nodes.world.take_replies();
    let refused = RequestError::TooLong { max: LONGEST };
    assert!(
        told.iter()
            .any(|a| matches!(a.reply, Reply::Refused(why) if why == refused))
    );
}

#[test]
fn stamped_long_datagrams_over_two_paths_arrive_once() {
    let edges = [(0, 1), (1, 3), (0, 2), (2, 3)];
    let mut nodes = Nodes::new(1, 4, &edges, "delay=5ms loss=2%");
    nodes.run_ms(3_000);
    let options = voice().routed_by(RouteBy::Stamp(Scheme::Disjoint));
    nodes.bind(3, options);
    nodes.set_sender(0, SENDER, options);
    let start = nodes.world.now();
    for n in 0..100 {
        let at = start + Duration::from_millis(10) * n;
        nodes.send_to(at, 0, SENDER, (3, PORT), n, 10_000);
    }
    nodes.run_ms(3_000);
    let mut numbers: Vec<u64> = nodes.arrivals().iter().map(|(n, _)| *n).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..100).collect::<Vec<_>>());
    nodes.world.close().unwrap();
}

#[test]
fn order_is_kept_and_what_is_lost_is_given_up_and_counted() {
    let mut nodes = Nodes::new(7, 3, &chain(3), "delay=5ms jitter=3ms reorder loss=2%");
    nodes.run_ms(3_000);
    let best_effort = wire::data::Class {
        link: wire::data::LinkProtocol::BestEffort,
        ..voice().class
    };
    let options = Options {
        class: best_effort,
        delivery: Delivery::InOrder,
        ..voice()
    };
    nodes.bind(2, options);
    nodes.set_sender(0, SENDER, options);
    let start = nodes.world.now();
    for n in 0..400 {
        let at = start + Duration::from_millis(4) * n;
        let bytes = if n % 3 == 0 { 6_000 } else { 160 };
        nodes.send_to(at, 0, SENDER, (2, PORT), n, bytes);
    }
    nodes.run_ms(4_000);
    let arrivals = nodes.arrivals();
    let numbers: Vec<u64> = arrivals.iter().map(|(n, _)| *n).collect();
    assert!(numbers.is_sorted(), "{numbers:?}");
    assert!(numbers.len() > 330, "{}", numbers.len());
    // Links subtract the time that they usually need from the remaining time, but some packets need more.
    let slowest = arrivals.iter().map(|(_, delay)| *delay).max().unwrap();
    assert!(slowest <= Duration::from_millis(107), "{slowest}");
    let late = nodes.count().drops(Drop::FragmentLate);
    assert!((5..80).contains(&late), "{late}");
    nodes.world.close().unwrap();
}
