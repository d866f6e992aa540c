//! Residual loss over a 10 ms link that loses independently or in bursts, both ways.

use super::super::Settings;
use super::ms;
use super::world::{ONE_WAY, Outcome, Plan, SPACING, run};
use base::Duration;
use wire::data::Remaining;

/// No packet is too late.
const EVER: Duration = Duration::MAX;

fn one_strike(loss: f64, burstiness: f64, packets: u64) -> Outcome {
    run(&Plan {
        settings: Settings::paper(),
        loss,
        burstiness,
        packets,
        remaining: Remaining::NONE,
        rest_of_path: Duration::ZERO,
        spurts: None,
        seed: 42,
    })
}

/// The first of five 10 ms links under a 100 ms deadline: 50 ms of slack.
fn five_links(loss: f64, burstiness: f64, packets: u64) -> Outcome {
    run(&Plan {
        settings: Settings::modern(),
        loss,
        burstiness,
        packets,
        remaining: Remaining::from_duration(ms(100)),
        rest_of_path: ms(40),
        spurts: None,
        seed: 43,
    })
}

/// [Amir06 §IV-A]: p²−p³ for lost requests and p²−2p³+p⁴ for lost answers, that is, a packet and
/// then its request or its answer: p(1−(1−p)²).
fn check_one_strike(loss: f64, burstiness: f64, packets: u64) {
    let out = one_strike(loss, burstiness, packets);
    let expected = loss * (1.0 - (1.0 - loss).powi(2));
    let (measured, error) = (out.residual(EVER), out.standard_error(EVER));
    let all = format!("p {loss} b {burstiness}: {measured:.6} ± {error:.6}, {expected:.6}");
    assert!((measured - expected).abs() < 3.0 * error, "{all}");
    assert!(measured < 2.4 * loss * loss, "{all}");
    assert_eq!(out.sender.throttled + out.receiver.throttled, 0, "{all}");
    // There is one request per packet, answered at most once. [Amir06 §IV-A]
    assert!(out.receiver.requests <= out.receiver.missing);
    assert!(out.sender.retransmissions <= out.receiver.requests);
}

#[test]
fn one_strike_at_two_percent() {
    // Bursts scatter more: the bound is then four standard errors away.
    check_one_strike(0.02, 0.0, 400_000);
    check_one_strike(0.02, 0.5, 2_000_000);
}

#[test]
fn one_strike_at_five_percent() {
    check_one_strike(0.05, 0.0, 200_000);
    check_one_strike(0.05, 0.5, 200_000);
}

#[test]
fn one_strike_at_ten_percent() {
    check_one_strike(0.10, 0.0, 200_000);
    check_one_strike(0.10, 0.5, 200_000);
}

/// A second copy directly behind the first would be lost together with it: 0.29 % would remain.
#[test]
fn a_burst_of_losses_seldom_takes_both_copies() {
    let out = five_links(0.10, 0.5, 400_000);
    let left = out.residual(ms(60));
    assert!(left < 0.002_55, "{left}");
}

#[test]
fn recovered_packets_arrive_after_three_delays_and_the_detection() {
    let out = one_strike(0.05, 0.0, 50_000);
    let floor = ONE_WAY * 3 + SPACING;
    assert!(out.recovered.len() > 2_000);
    // Δ is the time until a next packet arrives: 2 ms, or more if that one is lost as well.
    let detection: Vec<u64> = out
        .recovered
        .iter()
        .map(|d| d.saturating_sub(ONE_WAY * 3).as_millis())
        .collect();
    assert_eq!(out.recovered.iter().min(), Some(&floor));
    assert!(detection.iter().all(|d| d.is_multiple_of(2)));
    let mean = detection.iter().sum::<u64>() as f64 / detection.len() as f64;
    assert!(
        (mean - 2.0 / 0.95).abs() < 0.05,
        "Δ is {mean} ms on average"
    );
}

#[test]
fn fifty_milliseconds_of_slack_at_five_percent() {
    let out = five_links(0.05, 0.0, 200_000);
    let residual = out.residual(ms(60));
    assert!(residual <= 0.0007, "{residual}");
    assert!(out.overhead() < 0.15, "{}", out.overhead());
    assert!(five_links(0.05, 0.5, 200_000).residual(ms(60)) <= 0.001);
}

#[test]
fn fifty_milliseconds_of_slack_at_ten_percent() {
    let out = five_links(0.10, 0.0, 200_000);
    let residual = out.residual(ms(60));
    assert!(residual <= 0.0045, "{residual}");
    assert!(out.overhead() < 0.25, "{}", out.overhead());
    assert_eq!(out.sender.throttled + out.receiver.throttled, 0);
}

#[test]
fn nothing_is_asked_for_that_could_not_be_in_time() {
    // 20 ms of slack, while an answer takes 22.
    let out = run(&Plan {
        remaining: Remaining::from_duration(ms(70)),
        ..Plan {
            settings: Settings::modern(),
            loss: 0.05,
            burstiness: 0.0,
            packets: 20_000,
            remaining: Remaining::NONE,
            rest_of_path: ms(40),
            spurts: None,
            seed: 44,
        }
    });
    assert!(out.receiver.missing > 500);
    assert_eq!((out.receiver.requests, out.sender.retransmissions), (0, 0));
}

#[test]
fn the_end_of_a_spurt_is_recovered_too() {
    let spurt = 50;
    let out = run(&Plan {
        settings: Settings::modern(),
        loss: 0.10,
        burstiness: 0.0,
        packets: 100_000,
        remaining: Remaining::from_duration(ms(100)),
        rest_of_path: ms(40),
        spurts: Some((spurt, ms(300))),
        seed: 45,
    });
    let lasts: Vec<_> = out.delays.iter().skip(49).step_by(50).copied().collect();
    let late = lasts
        .iter()
        .filter(|d| d.is_none_or(|d| d > ms(60)))
        .count() as f64
        / lasts.len() as f64;
    // Both probes are lost, or the packets after them: far from the 10 % that were lost at first.
    assert!(late < 0.02, "{late}");
}
