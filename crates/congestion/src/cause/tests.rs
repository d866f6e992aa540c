//! Simplified models of paths: cables that lose packets, policers, queues, and routes that change.

use super::*;
use crate::delivery::Sample;

/// A script of rounds of 20 acknowledgements each.
struct Script {
    causes: Causes,
    now: Time,
    total: f64,
}

impl Script {
    fn new() -> Script {
        Script {
            causes: Causes::default(),
            now: Time::ZERO,
            total: 0.0,
        }
    }

    /// Runs `count` rounds with this round trip, with this number of arrived and lost packets in each.
    fn rounds(&mut self, count: usize, rtt_ms: f64, arrived: f64, lost: f64) {
        let rtt = Duration::from_secs_f64(rtt_ms / 1e3);
        for _ in 0..count {
            let prior = self.total;
            for n in 0..20 {
                self.now += rtt.div(20);
                let lost = if n == 10 { lost } else { 0.0 };
                self.answer(rtt, arrived, lost, prior);
            }
        }
    }

    /// Sends one of the twenty acknowledgements of a round with this number of arrived packets.
    fn answer(&mut self, rtt: Duration, arrived: f64, lost: f64, prior: f64) {
        self.total += arrived / 20.0;
        self.causes.on_delivered(&Delivered {
            now: self.now,
            segments: arrived / 20.0,
            lost,
            total: self.total,
            rtt: Some(rtt),
            in_flight: arrived,
            limited: true,
            sample: Some(Sample {
                segments: arrived / 20.0,
                interval: rtt,
                prior,
                in_flight: arrived,
                of_application: false,
            }),
        });
    }

    /// Simulates one sender that keeps 0.7 of its window where it is told to, on a path that loses `share` by itself,
    /// carries `pipe` packets and queues `queue` more. Returns what arrives in a round and what share is lost.
    fn run(&mut self, rounds: usize, share: f64, pipe: f64, queue: f64, seed: u64) -> (f64, f64) {
        let mut rng = base::Rng::new(seed);
        let (mut window, mut arrived, mut lost) = (20.0_f64, 0.0, 0.0);
        for _ in 0..rounds {
            let over = (window - pipe - queue).max(0.0).floor();
            let own = (0..window as u32).filter(|_| rng.chance(share)).count() as f64;
            let gone = (over + own).min(window - 1.0);
            let queued = (window - pipe).clamp(0.0, queue);
            self.rounds(1, 20.0 * (1.0 + queued / pipe), window - gone, gone);
            (arrived, lost) = (arrived + window - gone, lost + gone);
            let kept = match gone > 0.0 {
                true => self.causes.kept(0.7),
                false => 1.0,
            };
            window = (window * kept + 0.5).max(2.0);
        }
        (arrived / rounds as f64, lost / (arrived + lost))
    }
}

#[test]
fn nothing_is_known_so_a_loss_is_congestion() {
    assert_eq!(Causes::default().kept(0.7), 0.7);
}

#[test]
fn a_loss_without_a_queue_is_the_paths_own_and_one_with_a_queue_is_not() {
    let mut script = Script::new();
    script.rounds(5, 20.0, 100.0, 1.0);
    assert_eq!(script.causes.kept(0.7), 1.0);
    script.rounds(3, 40.0, 100.0, 0.0);
    assert_eq!(script.causes.kept(0.3), 0.5, "the queue goes");
    assert_eq!(script.causes.kept(0.7), 0.7, "a long one is congestion");
    script.rounds(3, 21.0, 100.0, 0.0);
    assert_eq!(script.causes.kept(0.7), 1.0);
}

#[test]
fn round_trips_that_are_long_for_a_part_of_one_are_no_queue() {
    let mut script = Script::new();
    script.rounds(5, 20.0, 100.0, 0.0);
    script.rounds(1, 60.0, 100.0, 0.0);
    script.rounds(5, 20.0, 100.0, 0.0);
    // A host stood still for a moment: ten answers come late, in the round trip of a loss.
    for n in 0..20 {
        let rtt = Duration::from_millis(if n < 10 { 25 } else { 20 });
        script.now += Duration::from_millis(1);
        script.answer(rtt, 100.0, 0.05, script.total - 100.0);
        assert_eq!(script.causes.kept(0.7), 1.0, "{n}");
    }
    script.rounds(2, 25.0, 100.0, 1.0);
    assert!(script.causes.kept(0.7) < 1.0, "now it stands");
}

#[test]
fn what_narrower_windows_lose_as_well_is_the_paths_own() {
    let mut script = Script::new();
    script.rounds(3, 20.0, 100.0, 10.0);
    assert_eq!(script.causes.kept(0.7), 0.7, "the first are too many");
    script.rounds(1_000, 20.0, 50.0, 3.0);
    script.rounds(50, 20.0, 100.0, 6.0);
    assert_eq!(script.causes.kept(0.7), 1.0);
    script.rounds(50, 20.0, 100.0, 14.0);
    assert_eq!(script.causes.kept(0.7), 0.7, "wider ones lose more");
}

#[test]
fn trials_that_find_no_queue_become_rare_and_one_that_finds_it_ends_them() {
    let mut script = Script::new();
    // A policer loses everything beyond a limit, and nothing below it.
    let mut at_peace = Vec::new();
    for _ in 0..4 {
        script.rounds(5, 20.0, 50.0, 0.0);
        script.rounds(3, 20.0, 100.0, 10.0);
        let began = script.now;
        while script.causes.kept(0.7) < 1.0 {
            script.rounds(1, 20.0, 50.0, 0.0);
        }
        at_peace.push(script.now.since(began).as_secs_f64().round());
    }
    assert_eq!(at_peace, [10.0, 20.0, 40.0, 80.0]);
    script.rounds(3, 20.0, 100.0, 10.0);
    assert_eq!(script.causes.kept(0.7), 0.7);
    script.rounds(1, 30.0, 100.0, 0.0);
    script.rounds(1, 20.0, 100.0, 0.0);
    assert_eq!(script.causes.kept(0.7), 1.0, "a deep queue was seen");
    // Too many losses now cost one cut.
    script.rounds(3, 20.0, 100.0, 10.0);
    assert_eq!(script.causes.kept(0.7), 0.7);
    script.rounds(5, 20.0, 50.0, 0.0);
    assert_eq!(script.causes.kept(0.7), 1.0);
}

#[test]
fn a_bad_cable_is_filled_and_a_policer_is_not_flooded() {
    for (seed, share) in [(1, 0.002), (2, 0.01), (3, 0.02)] {
        let (arrived, lost) = Script::new().run(3_000, share, 100.0, 60.0, seed);
        assert!(arrived > 97.0, "{share}: {arrived} of 100");
        assert!(lost < share * 1.5 + 0.002, "{share}: {lost}");
    }
    for (seed, share, least, most) in [(4, 0.0, 75.0, 0.012), (5, 0.01, 12.0, 0.025)] {
        let (arrived, lost) = Script::new().run(9_000, share, 100.0, 1.0, seed);
        // This is as much as a sender gets alone that takes each loss for congestion.
        assert!(arrived > least, "{share}: {arrived} of 100");
        assert!(lost < most, "{share}: {lost}");
    }
}

#[test]
fn a_path_that_becomes_longer_and_loses_as_before_is_no_queue() {
    let mut script = Script::new();
    for round in 0..200 {
        script.rounds(1, 20.0, 100.0, f64::from(round % 2));
    }
    // Losses cost a part of the window now, and the round trip stays the same.
    let mut window = 100.0_f64;
    let mut costs = Vec::new();
    for round in 0..200 {
        let lost = f64::from(round % 10 / 9);
        script.rounds(1, 60.0, window, lost);
        if lost > 0.0 {
            window = (window * script.causes.kept(0.7)).max(10.0);
        }
        if script.causes.kept(0.7) < 1.0 {
            costs.push(round);
        }
    }
    // This takes three seconds plus four times the rise.
    assert!(costs.len() > 40 && costs.last() < Some(&65), "{costs:?}");
    assert_eq!(script.causes.kept(0.7), 1.0);
    // A round trip that falls with the window is a queue.
    let mut script = Script::new();
    for round in 0..200 {
        script.rounds(1, 20.0, 100.0, f64::from(round % 2));
    }
    for _ in 0..40 {
        for step in 0..10 {
            script.rounds(
                1,
                60.0 - 2.0 * f64::from(step),
                300.0 - 10.0 * f64::from(step),
                0.0,
            );
        }
    }
    assert_eq!(script.causes.kept(0.7), 0.7);
}

#[test]
fn a_queue_that_stands_for_a_minute_is_a_queue_and_a_longer_route_is_none_in_the_end() {
    let mut script = Script::new();
    script.rounds(5, 20.0, 100.0, 0.0);
    script.rounds(1_500, 40.0, 100.0, 0.0);
    assert_eq!(script.causes.kept(0.7), 0.7);
    script.rounds(6_000, 40.0, 100.0, 0.0);
    assert_eq!(script.causes.kept(0.7), 1.0);
}
