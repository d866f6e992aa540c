//! Tests with bad networks of all kinds: everything arrives, once, and the lane becomes idle in the end.

use super::world::{Path, World, ms};
use crate::reliable::Settings;
use base::{Duration, Rng};
use congestion::Family;

fn run(seed: u64, settings: Settings, path: Path, count: u32) -> World {
    let mut rng = Rng::new(seed ^ 0x5eed);
    let mut world = World::new(seed, settings, path);
    let mut pushed = 0;
    while pushed < count {
        for _ in 0..rng.below(4) {
            if pushed < count && world.from.sender.queued() < 1_000 {
                world.push((pushed % 3) as u16, pushed);
                pushed += 1;
            }
        }
        world.step();
    }
    world.finish(600_000);
    let mut numbers: Vec<u32> = world.arrived.iter().map(|(number, _)| *number).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..count).collect::<Vec<_>>(), "each once");
    assert_eq!(world.from.sender.in_flight(), 0);
    world
}

#[test]
fn everything_arrives_once_whatever_the_network_does() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let path = Path {
            loss: rng.unit() * 0.4,
            twice: rng.unit() * 0.2,
            delay: ms(rng.below(40)),
            jitter: ms(rng.below(20)),
        };
        let settings = Settings {
            family: Family::ALL[rng.below(Family::ALL.len() as u64) as usize],
            flows_max: 1 + rng.below(3) as usize,
            ..Settings::default()
        };
        run(seed, settings, path, 400);
    }
}

#[test]
fn a_clean_path_needs_no_repetition() {
    let path = Path {
        loss: 0.0,
        twice: 0.0,
        delay: ms(10),
        jitter: Duration::ZERO,
    };
    let world = run(1, Settings::default(), path, 3_000);
    let stats = world.from.sender.stats();
    assert_eq!((stats.sent, stats.retransmissions), (3_000, 0));
    assert_eq!((stats.timeouts, stats.cuts, stats.bogus), (0, 0, 0));
}

#[test]
fn losses_cost_little_more_than_they_are() {
    let path = Path {
        loss: 0.02,
        twice: 0.0,
        delay: ms(10),
        jitter: Duration::ZERO,
    };
    let world = run(2, Settings::default(), path, 10_000);
    let stats = world.from.sender.stats();
    // These are 2 % of the packets, 2 % of their retransmissions, and some probes.
    assert!((150..320).contains(&stats.retransmissions), "{stats:?}");
    assert!(stats.spurious <= 10, "{stats:?}");
    assert!(stats.timeouts <= 2, "{stats:?}");
}

#[test]
fn reordering_is_learnt_and_then_costs_nothing() {
    let path = Path {
        loss: 0.0,
        twice: 0.0,
        delay: ms(20),
        jitter: ms(15),
    };
    let world = run(3, Settings::default(), path, 10_000);
    let stats = world.from.sender.stats();
    assert!(stats.retransmissions < 200, "{stats:?}");
    assert_eq!(stats.timeouts, 0, "{stats:?}");
}

/// Sends packets of speech, one in so many milliseconds. Returns the 99th percentile of their delays.
fn speech(path: Path, interval_ms: u64) -> (World, Duration) {
    let mut world = World::new(4, Settings::default(), path);
    let mut pushed = Vec::new();
    for number in 0..3_000 {
        pushed.push(world.now);
        world.push(0, number);
        for _ in 0..interval_ms {
            world.step();
        }
    }
    world.finish(60_000);
    let took = |&(number, at): &(u32, base::Time)| at.since(pushed[number as usize]);
    let mut took: Vec<_> = world.arrived.iter().map(took).collect();
    took.sort_unstable();
    let slow = took[took.len() * 99 / 100];
    (world, slow)
}

#[test]
fn jitter_of_many_times_the_delay_is_no_loss() {
    let path = Path {
        loss: 0.017,
        twice: 0.0,
        delay: ms(3),
        jitter: ms(28),
    };
    let (world, slow) = speech(path, 7);
    let stats = world.from.sender.stats();
    // 51 packets are lost, and some retransmissions.
    assert!(stats.retransmissions < 150, "{stats:?}");
    assert!(slow < ms(150), "{slow}, {stats:?}");
}

#[test]
fn speech_has_its_rate_where_a_bulk_stream_has_little() {
    // A window of 5 packets in 150 ms is enough for 400 kbit/s in large packets, but only for 36 small packets a
    // second.
    let path = Path {
        loss: 0.05,
        twice: 0.0,
        delay: ms(75),
        jitter: ms(1),
    };
    let (world, slow) = speech(path, 20);
    assert!(slow < ms(1_000), "{slow}, {:?}", world.from.sender.stats());
}

/// Returns the longest delay of speech when the path fails for 380 ms. Before, round trips varied by many times the
/// delay and packets were lost; then the path became longer.
fn delay_after_failure(settings: Settings) -> Duration {
    let short = Path {
        loss: 0.02,
        twice: 0.0,
        delay: ms(3),
        jitter: ms(17),
    };
    let long = Path {
        loss: 0.0,
        delay: ms(220),
        jitter: ms(0),
        ..short
    };
    let mut world = World::new(5, settings, short);
    let mut pushed = Vec::new();
    for number in 0..2_000 {
        world.path = match number {
            ..500 => short,
            1_500..1_519 => Path { loss: 1.0, ..long },
            _ => long,
        };
        pushed.push(world.now);
        world.push(0, number);
        for _ in 0..20 {
            world.step();
        }
    }
    world.finish(60_000);
    let late = world.arrived.iter().filter(|(number, _)| *number >= 1_400);
    let took = late.map(|(number, at)| at.since(pushed[*number as usize]));
    took.max().unwrap()
}

#[test]
fn a_path_that_has_become_long_and_fails_for_a_moment_delays_speech_by_one_round_trip_more() {
    // The first acknowledgement after the failure shows what was lost.
    let most = delay_after_failure(Settings::default());
    assert!(most < ms(1_150), "{most}");
}

/// Returns the window after losses, and the one after thirty round trips in each of which a burst of packets leaves. Ten
/// packets of a round trip of 100 ms may always be in flight.
fn windows_of_bursts(packets: u32) -> (f64, f64) {
    let path = Path {
        loss: 0.05,
        twice: 0.0,
        delay: ms(50),
        jitter: ms(0),
    };
    let settings = Settings {
        family: Family::NewReno,
        spares_random_losses: false,
        ..Settings::default()
    };
    let mut world = run(6, settings, path, 400);
    world.path.loss = 0.0;
    let before = world.from.sender.congestion_window();
    for round in 0..30 {
        for n in 0..packets {
            world.push(0, 400 + round * 100 + n);
        }
        for _ in 0..120 {
            world.step();
        }
    }
    (before, world.from.sender.congestion_window())
}

#[test]
fn a_window_of_which_half_is_used_grows() {
    let (before, after) = windows_of_bursts(8);
    assert!(
        before < 8.0 && (12.0..=17.0).contains(&after),
        "{before} {after}"
    );
    let (before, after) = windows_of_bursts(4);
    assert!(after == before, "{before} {after}");
}

#[test]
fn the_receivers_rate_tells_real_that_random_losses_are_no_congestion() {
    let path = Path {
        loss: 0.01,
        twice: 0.0,
        delay: ms(25),
        jitter: Duration::ZERO,
    };
    let took = |family| {
        let settings = Settings {
            family,
            spares_random_losses: false,
            ..Settings::default()
        };
        let world = run(7, settings, path, 6_000);
        world.now.since(base::Time::ZERO)
    };
    let (newreno, real) = (took(Family::NewReno), took(Family::Real));
    assert!(real.mul_f64(1.3) <= newreno, "{real} {newreno}");
}
