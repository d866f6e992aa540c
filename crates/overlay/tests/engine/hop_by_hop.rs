//! Recovery on each hop compared with recovery from end to end, with streams of messages. [Amir03 §V]
#![allow(clippy::unwrap_used)]

use crate::world::sessions::Sessions;
use crate::world::{Nodes, chain, model};
use base::{Duration, Time};
use overlay::request::Options;
use overlay::stream::{DEFAULT_CLASS, Framing};
use wire::data::{Class, LinkProtocol};

/// Bytes of a message.
const MESSAGE: usize = 1_000;

/// Returns the delays of messages from writing to delivery in order. The messages cross five hops of 10 ms, of which
/// the middle one loses packets.
fn delays(seed: u64, kbit: u64, loss_pct: u64, link: LinkProtocol, count: u64) -> Vec<Duration> {
    let mut nodes = Nodes::new(seed, 6, &chain(6), "delay=10ms");
    let lossy = model(&format!("delay=10ms loss={loss_pct}%"));
    nodes.world.link(nodes.hosts[2], nodes.hosts[3], &lossy);
    nodes.run_ms(3_000);
    let class = Class {
        link,
        ..DEFAULT_CLASS
    };
    let options = Some(Options {
        class,
        ..Options::default()
    });
    let mut sessions = Sessions::default();
    sessions.listen(&mut nodes, 5, options);
    sessions.run_ms(&mut nodes, 5);
    let caller = sessions.connect(&mut nodes, (0, 5), Framing::Messages, options);
    sessions.run_ms(&mut nodes, 500);
    let interval_ms = MESSAGE as u64 * 8 / kbit;
    for n in 0..count {
        let mut message = vec![n as u8; MESSAGE];
        message[..8].copy_from_slice(&nodes.world.now().as_nanos().to_be_bytes());
        sessions.end(caller).messages.push_back(message);
        sessions.run_ms(&mut nodes, interval_ms);
    }
    sessions.run_ms(&mut nodes, 3_000);
    let called = sessions.called(0);
    assert_eq!(called.received.len() as u64, count);
    let mut delays = Vec::new();
    for (n, (at, message)) in called.received.iter().enumerate() {
        assert_eq!(message.len(), MESSAGE);
        assert!(message[8..].iter().all(|b| *b == n as u8), "message {n}");
        let sent = u64::from_be_bytes(message[..8].try_into().unwrap());
        delays.push(at.since(Time::from_nanos(sent)));
    }
    delays
}

fn percent_over(delays: &[Duration], ms: u64) -> f64 {
    let over = delays.iter().filter(|d| **d > Duration::from_millis(ms));
    over.count() as f64 * 100.0 / delays.len() as f64
}

#[test]
fn hop_by_hop_keeps_messages_on_time() {
    let hops = delays(1, 500, 1, LinkProtocol::Reliable, 6_000);
    let ends = delays(1, 500, 1, LinkProtocol::BestEffort, 6_000);
    let [hop_60, hop_100] = [60, 100].map(|ms| percent_over(&hops, ms));
    let [end_60, end_100] = [60, 100].map(|ms| percent_over(&ends, ms));
    assert!(hop_60 <= 3.0 && hop_100 <= 1.0, "{hop_60} {hop_100}");
    assert!(
        end_60 > 2.0 * hop_60 && end_100 > 2.0 * hop_100,
        "{end_60} {end_100}"
    );
}

#[test]
fn a_megabit_at_two_percent_does_not_collapse() {
    let delays = delays(2, 1_000, 2, LinkProtocol::Reliable, 6_000);
    let sum: f64 = delays.iter().map(|d| d.as_secs_f64()).sum();
    let mean_ms = sum * 1e3 / delays.len() as f64;
    let most = delays.iter().max().unwrap();
    assert!(
        mean_ms < 65.0 && *most <= Duration::from_millis(500),
        "{mean_ms} {most}"
    );
}
