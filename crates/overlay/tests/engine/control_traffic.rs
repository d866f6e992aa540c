//! The cost of links that carry nothing, and the additional cost of those that carry data: everything except data and
//! its repair, handshakes included, with 28 bytes of UDP and IPv4 per datagram. `--nocapture` shows it.
#![allow(
    clippy::disallowed_macros,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test that shows what it measured"
)]

use crate::world::party::UDP_BYTES;
use crate::world::streams::Streams;
use crate::world::{Nodes, addr, chain, voice};
use base::Duration;
use std::collections::BTreeMap;
use wire::link::Kind;

/// The session is replaced once in that time, and records are renewed twice.
const SPAN: Duration = Duration::from_secs(700);
const IDLE_KBIT_S: f64 = 1.5;
const ACTIVE_KBIT_S: f64 = 12.0;

/// Returns the control traffic of every direction of every link, in kbit/s, over [`SPAN`]. The data are `calls` streams
/// from end to end; `loss` is on every link.
fn measure(count: usize, calls: u64, loss: u32) -> Vec<f64> {
    let path = format!("delay=10ms loss={loss}%");
    let mut nodes = Nodes::new(5, count, &chain(count), &path);
    nodes.run_ms(10_000);
    let mut streams = Streams::calls(&mut nodes, calls, 0, count - 1, voice());
    streams.run(&mut nodes, Duration::from_secs(5));
    let before = sent(&mut nodes, count);
    streams.run(&mut nodes, SPAN);
    let after = sent(&mut nodes, count);
    let bits = |n: u64| n as f64 * 8.0 / SPAN.as_secs_f64() / 1e3;
    let rates: Vec<f64> = after.iter().map(|(k, n)| bits(n - before[k])).collect();
    assert_eq!(rates.len(), 2 * (count - 1));
    println!(
        "{count} nodes, {calls:2} calls, loss {loss} %: control {:.2} to {:.2} kbit/s per direction",
        rates.iter().copied().fold(f64::MAX, f64::min),
        rates.iter().copied().fold(0.0, f64::max),
    );
    assert_eq!(nodes.totals.downs.len(), 0);
    streams.finish(&mut nodes);
    let missed = streams.missed(Duration::from_millis(10 * count as u64));
    assert!(loss > 0 || missed == 0, "new keys cost {missed} packets");
    nodes.world.close().unwrap();
    rates
}

/// Returns the bytes that are neither data nor its repair, by direction.
fn sent(nodes: &mut Nodes, count: usize) -> BTreeMap<(usize, usize), u64> {
    let mut all = BTreeMap::new();
    let repair = nodes.count().repair_of.clone();
    for (a, b) in chain(count) {
        for (from, to) in [(a, b), (b, a)] {
            let to_addr = nodes.at(to);
            let kinds = Kind::ALL.iter().filter(|kind| **kind != Kind::Data);
            let bytes = |kind: &Kind| nodes.party(from).sent(to_addr, *kind).wire_bytes();
            let repair_of = repair.get(&(nodes.hosts[from], addr(to)));
            let (packets, repair) = repair_of.copied().unwrap_or_default();
            let sum: u64 = kinds.map(bytes).sum();
            all.insert((from, to), sum - repair - packets * UDP_BYTES);
        }
    }
    all
}

#[test]
fn idle_links_are_cheap() {
    for (count, loss) in [(2, 0), (6, 0), (2, 5), (6, 5)] {
        let rates = measure(count, 0, loss);
        assert!(rates.iter().all(|rate| *rate <= IDLE_KBIT_S), "{rates:?}");
    }
}

#[test]
fn active_links_pay_for_being_watched() {
    for (count, calls, loss) in [(2, 1, 0), (6, 1, 0), (2, 1, 5), (6, 1, 1)] {
        let rates = measure(count, calls, loss);
        assert!(rates.iter().all(|rate| *rate <= ACTIVE_KBIT_S), "{rates:?}");
    }
}

#[test]
#[ignore = "ten calls for twelve minutes"]
fn requests_of_many_calls_are_a_small_share_of_them_full() {
    for (loss, share) in [(0, 0.05), (1, 0.05), (5, 0.1)] {
        let rates = measure(2, 10, loss);
        // Ten calls of 160 + 47 + 28 bytes, 50 times per second.
        let calls = 10.0 * 235.0 * 8.0 * 50.0 / 1e3;
        assert!(rates.iter().all(|rate| *rate <= calls * share), "{rates:?}");
    }
}
