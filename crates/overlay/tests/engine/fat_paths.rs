//! Streams over long fat paths: the windows grow to the capacity of the path.
#![allow(clippy::unwrap_used)]
#![allow(
    clippy::disallowed_macros,
    clippy::print_stdout,
    reason = "what a path carried is worth a line"
)]

use crate::world::sessions::Sessions;
use crate::world::{Nodes, chain};
use overlay::Settings;
use overlay::reliable::Family;
use overlay::request::Options;
use overlay::stream::{DEFAULT_CLASS, Framing};
use wire::data::LinkProtocol;

/// Maximum number of packets that the buffer of a path may hold.
const QUEUE_MOST: u64 = 65_535;

/// Returns the share of the link that a stream carried in `measured_ms` after `warm_ms`. Headers are not counted.
fn share(control: Family, mbit: u64, rtt_ms: u64, warm_ms: u64, measured_ms: u64) -> f64 {
    // The buffer holds as much as the path itself, up to the maximum for a buffer.
    let queue = (mbit * rtt_ms * 1_000 / 8 / 1_372).min(QUEUE_MOST);
    let path = format!("delay={}ms rate={mbit}mbit queue={queue}", rtt_ms / 2);
    let mut settings = Settings::modern();
    settings.streams.congestion = control;
    let spans = (warm_ms, measured_ms);
    let carried = carried_mbit(settings, LinkProtocol::BestEffort, &path, None, spans, 1);
    let share = carried / mbit as f64;
    println!("{control} over {mbit} Mbit/s and {rtt_ms} ms: {share:.3} of the link");
    share
}

/// Returns the rate that a stream with this link protocol carried over one link in `measured_ms`, after `warm_ms`, in
/// Mbit/s. If `then` has another path, the link changes to it and gets the same warm-up time again.
fn carried_mbit(
    settings: Settings,
    link: LinkProtocol,
    path: &str,
    then: Option<&str>,
    (warm_ms, measured_ms): (u64, u64),
    seed: u64,
) -> f64 {
    let mut nodes = Nodes::with(seed, 2, &chain(2), path, settings);
    nodes.run_ms(3_000);
    let mut sessions = Sessions::default();
    sessions.listen(&mut nodes, 1, None);
    sessions.run_ms(&mut nodes, 5);
    let mut options = Options {
        class: DEFAULT_CLASS,
        ..Options::default()
    };
    options.class.link = link;
    let near = sessions.connect(&mut nodes, (0, 1), Framing::Bytes, Some(options));
    assert!(sessions.run_until(&mut nodes, 2_000, |s| !s.accepted.is_empty()));
    sessions.called(0).finishes = false;
    sessions.end(near).to_write = u64::MAX / 4;
    sessions.run_ms(&mut nodes, warm_ms);
    if let Some(path) = then {
        nodes.link(0, 1, path);
        sessions.run_ms(&mut nodes, warm_ms);
    }
    let before = sessions.called(0).read;
    sessions.run_ms(&mut nodes, measured_ms);
    let bits = (sessions.called(0).read - before) as f64 * 8.0;
    bits / measured_ms as f64 / 1e3
}

#[test]
fn losses_where_delays_vary_are_not_taken_for_congestion() {
    for jitter in ["jitter=5ms", "jitter=10ms", "jitter=10ms reorder"] {
        let path = format!("delay=20ms rate=20mbit queue=90 loss=1% {jitter}");
        let settings = Settings::modern();
        let carried = carried_mbit(
            settings,
            LinkProtocol::Reliable,
            &path,
            None,
            (5_000, 10_000),
            1,
        );
        // A TCP reaches about 4 Mbit/s on this path.
        assert!(carried > 15.0, "{jitter}: {carried}");
    }
}

#[test]
fn a_path_that_becomes_longer_slows_a_stream_for_seconds_only() {
    let path = |delay| format!("delay={delay} rate=20mbit queue=150 loss=1%");
    let (near, far) = (path("20ms"), path("60ms"));
    let class = LinkProtocol::Reliable;
    let spans = (8_000, 10_000);
    let carried = |seed| carried_mbit(Settings::modern(), class, &near, Some(&far), spans, seed);
    let carried = (1..=3).map(carried).sum::<f64>() / 3.0;
    // A TCP reaches about 1 Mbit/s on this path.
    assert!(carried > 12.0, "{carried}");
}

#[test]
fn a_gigabit_over_a_tenth_of_a_second_is_filled() {
    assert!(share(Family::Bbr, 1_000, 100, 3_000, 1_000) >= 0.8);
}

#[test]
#[ignore = "takes a minute or more: a million packets for each second"]
fn ten_gigabits_over_a_tenth_of_a_second_are_filled() {
    assert!(share(Family::Bbr, 10_000, 100, 5_500, 300) >= 0.8);
}
