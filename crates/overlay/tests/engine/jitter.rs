//! The result of a call over a link that loses packets and whose delay varies: the packets that do not arrive within
//! 150 ms, and how the nodes judge the link meanwhile.

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::world::streams::{Stream, Streams};
use crate::world::{Nodes, chain, voice};
use base::Duration;
use overlay::request::Options;
use overlay::snapshot::LinkStatus;
use overlay::{Drop, Settings};

const LIMIT: Duration = Duration::from_millis(150);
const SECONDS: u64 = 100;
const SEEDS: u64 = 5;

/// The result of a call over `path`: the share of missed packets, and the last state of the link as its sender saw it.
struct Fared {
    missed: f64,
    braked: u64,
    link: LinkStatus,
    back: LinkStatus,
}

fn call(seed: u64, path: &str, interval: Duration, seconds: u64) -> Fared {
    let mut nodes = Nodes::with(seed, 2, &chain(2), path, Settings::modern());
    nodes.run_ms(5_000);
    let stream = Stream {
        from: 0,
        to: 1,
        interval,
        phase: Duration::ZERO,
        options: Options {
            deadline: Some(LIMIT),
            ..voice()
        },
    };
    let mut streams = Streams::begin(&mut nodes, vec![stream]);
    streams.run(&mut nodes, Duration::from_secs(seconds));
    let (link, back) = (nodes.link_status(0, 1), nodes.link_status(1, 0));
    streams.finish(&mut nodes);
    let fared = Fared {
        missed: streams.missed(LIMIT) as f64 / streams.sent() as f64,
        braked: {
            let count = nodes.count();
            count.drops(Drop::Braked) + count.drops(Drop::NoRoom)
        },
        link,
        back,
    };
    nodes.world.close().unwrap();
    fared
}

/// Returns the share of missed packets over all seeds.
fn voice_over(path: &str) -> f64 {
    let fared: Vec<Fared> = (1..=SEEDS)
        .map(|seed| call(seed, path, Duration::from_millis(20), SECONDS))
        .collect();
    for fared in &fared {
        // Sometimes three round trips in a row are long by chance. This costs at most one second of the call.
        assert!(fared.braked <= 50, "{path}: {} braked", fared.braked);
        assert_eq!(fared.link.trouble, Some("loss"), "{path}");
        let read = fared.back.loss_in_pct;
        assert!((1.0..4.0).contains(&read), "{path}: {read} % lost");
    }
    fared.iter().map(|f| f.missed).sum::<f64>() / SEEDS as f64
}

#[test]
fn jitter_of_20_ms_costs_recovery_nothing() {
    for path in [
        "delay=20ms jitter=20ms loss=2%",
        "delay=20ms jitter=20ms reorder loss=2%",
        "delay=5ms jitter=20ms loss=2%",
        "delay=5ms jitter=20ms reorder loss=2%",
    ] {
        let missed = voice_over(path);
        assert!(missed <= 0.001, "{path}: {:.3} %", missed * 100.0);
    }
}

#[test]
fn jitter_of_60_ms_leaves_a_quarter_of_the_loss() {
    for path in [
        "delay=20ms jitter=60ms loss=2%",
        "delay=20ms jitter=60ms reorder loss=2%",
        "delay=5ms jitter=60ms loss=2%",
        "delay=5ms jitter=60ms reorder loss=2%",
    ] {
        let missed = voice_over(path);
        assert!(missed <= 0.005, "{path}: {:.3} %", missed * 100.0);
    }
}

#[test]
fn reordering_is_not_read_as_loss_at_a_high_rate() {
    for (path, expected) in [
        ("delay=20ms jitter=60ms reorder", 0.0),
        ("delay=20ms jitter=60ms reorder loss=1%", 1.0),
    ] {
        let fared = call(7, path, Duration::from_millis(1), 10);
        let read = fared.back.loss_in_pct;
        assert!(
            (expected / 2.0..=expected * 2.0 + 0.05).contains(&read),
            "{path}: {read} % lost"
        );
        assert_eq!(fared.braked, 0, "{path}");
    }
}
