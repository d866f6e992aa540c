//! BBR as a TCP host: it fills paths with random losses and keeps queues short. The tests also measure its share beside
//! CUBIC and Reno.
//!
//! `cargo test -p sim --test bbr -- --ignored --nocapture` prints the whole grid.
#![allow(clippy::unwrap_used)]
#![allow(
    clippy::disallowed_macros,
    clippy::print_stdout,
    reason = "the grid prints what it measures"
)]

use base::impair::Model;
use base::{Duration, Time};
use congestion::Family;
use sim::tcp::{Flow, Network, Settings, Traffic};

const WIRE_BYTES: u64 = 1_500;
/// Size of the probes. A hundred per second are half a per cent of the slowest path.
const PROBE_BYTES: u64 = 64;

fn model(text: &str) -> Model {
    text.parse().unwrap()
}

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

/// The result of one flow.
#[derive(Debug)]
struct Came {
    /// Its share of the link, including headers.
    share: f64,
    /// The average queue that small datagrams on the same link found, in round trips of an empty path.
    queue: f64,
}

/// Runs one flow on a path with a buffer of one bandwidth-delay product.
fn alone(mbit: u64, rtt_ms: u64, loss_pct: u64) -> Came {
    let queue = (mbit * rtt_ms * 1_000 / 8 / WIRE_BYTES).max(10);
    let half = rtt_ms as f64 / 2.0;
    let lossy = format!("rate={mbit}mbit delay={half}ms queue={queue} loss={loss_pct}%");
    let mut network = Network::default();
    let (a, b) = (network.host(), network.host());
    network.link_one_way(a, b, model(&lossy));
    network.link_one_way(b, a, model(&format!("delay={half}ms")));
    let flow = network.connect(a, b, Settings::linux(Family::Bbr), Traffic::unlimited());
    let probe = network.datagrams(
        a,
        b,
        Traffic::cbr(PROBE_BYTES * 8 * 100, PROBE_BYTES as usize),
    );
    let mut world = network.build(1);
    let (warm, end) = (at(4_000), at(14_000));
    world.run_until(end);
    let late = |flow: &Flow| -> Vec<f64> {
        let all = flow
            .deliveries(&world)
            .iter()
            .filter(|d| d.delivered > warm);
        all.map(|d| d.delay().as_secs_f64() * 1e3).collect()
    };
    let bits = (late(&flow).len() as u64 * WIRE_BYTES * 8) as f64;
    let delays = late(&probe);
    let delay = delays.iter().sum::<f64>() / delays.len() as f64;
    Came {
        share: bits / end.since(warm).as_secs_f64() / 1e6 / mbit as f64,
        queue: (delay - half) / rtt_ms as f64,
    }
}

fn cell(mbit: u64, rtt_ms: u64, loss_pct: u64) -> bool {
    let came = alone(mbit, rtt_ms, loss_pct);
    let kept = 1.0 - loss_pct as f64 / 100.0;
    let good = came.share >= 0.9 * kept && came.queue < 1.0;
    println!(
        "bbr {mbit} Mbit/s {rtt_ms} ms loss {loss_pct} %: {:.3} of the link, {:.3} of what it keeps, queue {:.2} round trips {}",
        came.share,
        came.share / kept,
        came.queue,
        if good { "" } else { "FAILS" },
    );
    good
}

#[test]
fn it_fills_a_path_that_loses_and_leaves_its_queue_short() {
    for (mbit, rtt_ms, loss_pct) in [(10, 10, 2), (10, 100, 5), (50, 50, 1), (50, 10, 0)] {
        assert!(cell(mbit, rtt_ms, loss_pct), "{mbit} {rtt_ms} {loss_pct}");
    }
}

#[test]
#[ignore = "the whole grid takes a minute"]
fn the_grid_of_paths() {
    let mut failed = Vec::new();
    for mbit in [10, 50, 100] {
        for rtt_ms in [10, 20, 50, 100] {
            for loss_pct in [0, 1, 2, 5] {
                if !cell(mbit, rtt_ms, loss_pct) {
                    failed.push((mbit, rtt_ms, loss_pct));
                }
            }
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}

/// Returns the share of the bottleneck that `each` flows of family `ours` take beside as many flows of `theirs`.
fn beside(ours: Family, theirs: Family, each: usize, buffer: f64) -> f64 {
    let (mbit, rtt_ms) = (20, 40);
    let queue = (mbit as f64 * rtt_ms as f64 * 1e3 / 8.0 / WIRE_BYTES as f64 * buffer) as u64;
    let mut network = Network::default();
    let (left, right) = (network.host(), network.host());
    let path = format!("rate={mbit}mbit delay={}ms queue={queue}", rtt_ms / 2 - 1);
    network.link(left, right, &model(&path));
    let mut flows = [Vec::new(), Vec::new()];
    for n in 0..2 * each {
        let (a, b) = (network.host(), network.host());
        network.link(a, left, &model("rate=1000mbit delay=0.5ms"));
        network.link(right, b, &model("rate=1000mbit delay=0.5ms"));
        let family = if n % 2 == 0 { ours } else { theirs };
        let begin = Duration::from_millis(100 * n as u64);
        let traffic = Traffic::unlimited().between(begin, Duration::from_secs(60));
        let settings = Settings::linux(family);
        flows[n % 2].push(network.connect(a, b, settings, traffic));
    }
    let mut world = network.build(3);
    world.run_until(at(60_000));
    let got = flows.map(|flows| -> usize {
        let late = |flow: &Flow| {
            let all = flow.deliveries(&world).iter();
            all.filter(|d| d.delivered > at(15_000)).count()
        };
        flows.iter().map(late).sum()
    });
    got[0] as f64 / (got[0] + got[1]) as f64
}

#[test]
fn two_of_a_kind_share() {
    for family in [Family::Bbr, Family::Cubic, Family::NewReno] {
        let share = beside(family, family, 2, 1.0);
        assert!((0.35..=0.65).contains(&share), "{family} {share}");
    }
}

#[test]
fn beside_cubic_and_reno_it_leaves_room_and_is_not_pushed_out() {
    for theirs in [Family::Cubic, Family::NewReno] {
        for buffer in [0.5, 1.0, 2.0] {
            let share = beside(Family::Bbr, theirs, 1, buffer);
            println!("bbr beside {theirs}, buffer {buffer}: {share:.2}");
            assert!((0.1..=0.9).contains(&share), "{theirs} {buffer}: {share}");
        }
    }
}
