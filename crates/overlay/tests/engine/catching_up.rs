//! What a stalled host and the streams beside a call catch up with comes at once. It stands in front of the next narrow
//! place, and what a call says meanwhile waits behind it.

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::world::streams::{Stream, Streams};
use crate::world::{Nodes, chain, voice};
use base::Duration;
use overlay::Settings;
use overlay::request::Options;

const MS: Duration = Duration::from_millis(1);
const LIMIT: Duration = Duration::from_millis(150);

fn call() -> Stream {
    Stream {
        from: 0,
        to: 1,
        interval: MS * 20,
        phase: Duration::ZERO,
        options: Options {
            deadline: Some(LIMIT),
            ..voice()
        },
    }
}

#[test]
fn what_a_stalled_host_sends_late_is_not_sent_with_repair() {
    for path in [
        "delay=56ms jitter=8ms reorder loss=8% burst=50% rate=285kbit",
        "delay=56ms loss=8% burst=50% rate=285kbit",
    ] {
        for seed in 1..=3 {
            let mut nodes = Nodes::with(seed, 2, &chain(2), path, Settings::modern());
            nodes.run_ms(3_000);
            let mut streams = Streams::begin(&mut nodes, vec![call()]);
            streams.run(&mut nodes, Duration::from_secs(20));
            let back = nodes.world.now() + MS * 750;
            let host = nodes.hosts[0];
            nodes.world.stall(host, back, 512);
            streams.run(&mut nodes, Duration::from_secs(5));
            streams.finish(&mut nodes);
            let missed = streams
                .fates_of(0)
                .filter(|(at, _)| (back..back + MS * 2_000).contains(at))
                .filter(|(_, delay)| delay.is_none_or(|delay| delay > LIMIT))
                .count();
            assert!(missed <= 30, "{path}, {seed}: {missed}");
        }
    }
}
