//! Nodes that are killed and started again.

use crate::world::{Nodes, SENDER, chain};
use base::{Duration, Time};
use overlay::request::Options;
use overlay::sockets::default_options;

fn voice() -> Options {
    Options {
        deadline: Some(Duration::from_millis(100)),
        ..default_options()
    }
}

/// Kills node 1 of a chain of three and starts it again after `gap_ms`; the stream of 50 packets
/// per second from 0 to 2 must flow again within 2 s.
fn restart_after(gap_ms: u64) {
    let mut nodes = Nodes::new(gap_ms, 3, &chain(3), "delay=10ms");
    nodes.run_ms(2_000);
    nodes.bind(2, voice());
    nodes.set_sender(0, SENDER, voice());
    let start = nodes.world.now();
    for n in 0..500 {
        nodes.send(start + Duration::from_millis(20) * n, 0, SENDER, 2, n);
    }
    nodes.run_ms(3_000);
    nodes.crash(1);
    nodes.run_ms(gap_ms);
    nodes.restart(1);
    let restarted = nodes.world.now();
    nodes.run_ms(7_500 - gap_ms);
    let flows_again = (restarted + Duration::from_secs(2))
        .since(start)
        .as_millis()
        / 20
        + 1;
    let numbers: Vec<u64> = nodes.arrivals().into_iter().map(|(n, _)| n).collect();
    let missing: Vec<u64> = (flows_again..500)
        .filter(|n| !numbers.contains(n))
        .collect();
    assert!(missing.is_empty(), "lost after the restart: {missing:?}");
    assert!(numbers.iter().filter(|n| **n < 149).count() >= 149);
    assert!(nodes.world.now() > Time::ZERO);
}

#[test]
fn voice_flows_again_within_two_seconds_of_a_restart() {
    for gap_ms in [1, 100, 300, 1_000, 3_000] {
        restart_after(gap_ms);
    }
}
