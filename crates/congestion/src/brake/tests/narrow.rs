//! Tests with a call over a link that becomes too narrow for it, and wide again.

use super::*;
use std::collections::{BTreeMap, VecDeque};

/// Runs a call of 92 kbit/s over a link with a rate for each millisecond. Returns the share of its packets that the
/// brake admits in each second.
fn call(kbps: impl Fn(u64) -> f64, seconds: u64) -> Vec<f64> {
    let mut brake = Brake::new(Settings::default());
    let (mut waiting_bits, mut told) = (0.0, 0);
    let mut shares = Vec::new();
    for second in 0..seconds {
        let mut sent = 0;
        for now_ms in second * 1_000..(second + 1) * 1_000 {
            waiting_bits = f64::max(waiting_bits - kbps(now_ms), 0.0);
            if now_ms % 20 == 0 {
                let packet = Packet {
                    bytes: 230,
                    priority: 4,
                    flow: 0,
                    is_elastic: false,
                    slack: Duration::from_millis(110),
                };
                if brake.admit(ms(now_ms), &packet) == Verdict::Sent {
                    waiting_bits += 230.0 * 8.0;
                    sent += 1;
                }
            }
            if now_ms % 60 == 0 {
                let queue = Duration::from_secs_f64(waiting_bits / kbps(now_ms) / 1e3);
                let (rtt, lane_bytes) = (RTT + queue, brake.lane_bytes());
                let modelled = brake.modelled(ms(now_ms));
                brake.on_told(sent - told, 0);
                told = sent;
                let echo = Echo {
                    sent: ms(now_ms),
                    rtt,
                    there: rtt,
                    link_bytes: lane_bytes,
                    lane_bytes,
                    modelled,
                };
                brake.on_echo(ms(now_ms) + rtt, echo);
            }
        }
        told = 0;
        shares.push(sent as f64 / 50.0);
    }
    shares
}

#[test]
fn a_link_that_is_wide_again_is_found_within_two_seconds() {
    // The link has 32 kbit/s from the third second to the tenth.
    let shares = call(
        |now_ms| match now_ms {
            3_000..10_000 => 32.0,
            _ => 10_000.0,
        },
        20,
    );
    assert!(shares[4..10].iter().all(|share| *share < 0.6), "{shares:?}");
    assert!(shares[12..].iter().all(|share| *share == 1.0), "{shares:?}");
}

/// A link with a queue of fifty datagrams, as in the simulator, that carries a call of 92 kbit/s and the hellos of its
/// sender; the delay of both directions varies by jitter.
struct Link {
    rng: base::Rng,
    one_way_us: u64,
    jitter_us: u64,
    loss: f64,
    /// When each waiting datagram will have left.
    leave: VecDeque<u64>,
    /// The result of each hello, and when it comes.
    answers: BTreeMap<u64, (Echo, u64, u64)>,
    arrived: u64,
    lost: u64,
    /// The values of both that were reported last.
    told: (u64, u64),
    link_bytes: u64,
}

impl Link {
    /// Sends a datagram. Returns when it arrives, if it does.
    fn send(&mut self, now_us: u64, bytes: u64, kbps: f64) -> Option<u64> {
        self.link_bytes += bytes;
        while self.leave.front().is_some_and(|at| *at <= now_us) {
            self.leave.pop_front();
        }
        if self.leave.len() >= 50 || self.rng.chance(self.loss) {
            self.lost += 1;
            return None;
        }
        let from = self.leave.back().copied().unwrap_or(now_us).max(now_us);
        let left = from + (bytes as f64 * 8e3 / kbps) as u64;
        self.leave.push_back(left);
        self.arrived += 1;
        Some(left + self.one_way_us + self.rng.below(self.jitter_us + 1))
    }
}

/// Returns the share of a call's packets that arrive within 150 ms, for each second. The link carries `kbps` from the
/// fifth second to the thirtieth, and everything before and after.
fn in_time(seed: u64, [one_way_ms, jitter_ms]: [u64; 2], loss: f64, kbps: f64) -> Vec<f64> {
    let kbps = |now_ms: u64| match now_ms {
        5_000..30_000 => kbps,
        _ => 100_000.0,
    };
    calls_in_time(seed, [one_way_ms, jitter_ms, 0], loss, 1, kbps)
}

/// Returns the same for several calls, over a link with a rate for each millisecond. From the thirtieth second on, each
/// direction is longer by the last value of the three.
fn calls_in_time(
    seed: u64,
    [one_way_ms, jitter_ms, longer_ms]: [u64; 3],
    loss: f64,
    calls: u64,
    kbps: impl Fn(u64) -> f64,
) -> Vec<f64> {
    let seconds = 40;
    let mut brake = Brake::new(Settings::default());
    let mut link = Link {
        rng: base::Rng::new(seed),
        one_way_us: one_way_ms * 1_000,
        jitter_us: jitter_ms * 1_000,
        loss,
        leave: VecDeque::new(),
        answers: BTreeMap::new(),
        arrived: 0,
        lost: 0,
        told: (0, 0),
        link_bytes: 0,
    };
    let us = |n: u64| Time::ZERO + Duration::from_micros(n);
    let (mut next_hello, mut watched) = (0, Time::ZERO);
    let mut shares = vec![0.0; seconds as usize];
    for now_ms in 0..seconds * 1_000 {
        let now_us = now_ms * 1_000;
        if now_ms == 30_000 {
            link.one_way_us += longer_ms * 1_000;
        }
        while let Some((&at, &(echo, arrived, lost))) =
            link.answers.iter().next().filter(|(at, _)| **at <= now_us)
        {
            link.answers.remove(&at);
            let (a, l) = link.told;
            brake.on_told(arrived.saturating_sub(a), lost.saturating_sub(l));
            link.told = (arrived.max(a), lost.max(l));
            brake.on_echo(us(at), echo);
            if let Some(until) = brake.watches(us(now_us)) {
                watched = watched.max(until);
            }
        }
        if now_ms >= next_hello {
            next_hello = now_ms + if us(now_us) < watched { 60 } else { 100 };
            let lane_bytes = brake.lane_bytes();
            let modelled = brake.modelled(us(now_us));
            let link_bytes = link.link_bytes;
            if let Some(came) = link.send(now_us, 90, kbps(now_ms)) {
                let back = link.one_way_us + link.rng.below(link.jitter_us + 1);
                let rtt = Duration::from_micros(came + back - now_us);
                let extra = Duration::from_micros(back - link.one_way_us);
                let echo = Echo {
                    sent: us(now_us),
                    rtt,
                    there: rtt - extra,
                    link_bytes,
                    lane_bytes,
                    modelled,
                };
                link.answers
                    .insert(came + back, (echo, link.arrived, link.lost));
            }
        }
        for flow in (0..calls).filter(|flow| now_ms % 20 == (7 + 3 * flow) % 20) {
            let packet = Packet {
                bytes: 230,
                priority: 4,
                flow,
                is_elastic: false,
                slack: Duration::from_millis(150 - one_way_ms),
            };
            if brake.admit(us(now_us), &packet) == Verdict::Sent
                && link
                    .send(now_us, 230, kbps(now_ms))
                    .is_some_and(|came| came <= now_us + 150_000)
            {
                shares[(now_ms / 1_000) as usize] += 0.02 / calls as f64;
            }
        }
    }
    shares
}

/// Packets that take 40 to 60 ms to leave, hellos that come more often while a queue stands, and single losses must not
/// be taken for a queue of other traffic, or for a longer path. Otherwise everything behind a queue that never empties
/// would be late.
#[test]
fn a_link_that_is_far_too_narrow_brings_its_share_in_time() {
    let links = [
        ([3, 4], 0.0, 33.0, 0.16),
        ([5, 0], 0.004, 32.0, 0.16),
        ([21, 3], 0.052, 32.0, 0.12),
        ([2, 2], 0.0, 36.0, 0.2),
        ([3, 0], 0.0, 46.0, 0.3),
    ];
    for (ways, loss, kbps, least) in links {
        for seed in 0..8 {
            let shares = in_time(seed, ways, loss, kbps);
            let brought = shares[12..30].iter().sum::<f64>() / 18.0;
            // A single second may lose its few packets by chance.
            let is_silent = shares[12..30].windows(2).any(|two| two == [0.0, 0.0]);
            assert!(brought > least && !is_silent, "{seed} {kbps}: {shares:?}");
            let after = shares[34..].iter().all(|share| *share > 0.8);
            assert!(after, "{seed} {kbps}: {shares:?}");
        }
    }
}

/// Where hellos alone fill the link, nothing is left for the lane; but the lane finds the link again.
#[test]
fn a_link_that_had_room_for_nothing_is_found_again() {
    for seed in 0..8 {
        for kbps in [10.0, 14.0, 18.0, 22.0, 26.0] {
            let shares = in_time(seed, [65, 5], 0.007, kbps);
            let after = shares[38..].iter().all(|share| *share > 0.8);
            assert!(after, "{seed} {kbps}: {shares:?}");
        }
    }
}

/// Calls that were refused come back within a second and a half after there is room for them, even if the link has been
/// too narrow for long.
#[test]
fn a_link_that_carries_all_calls_again_is_found_soon() {
    let links = [
        ([44, 0], 0.0, 3, 103.0, 0.3),
        ([5, 17], 0.0, 3, 101.0, 0.25),
        ([25, 1], 0.04, 3, 74.0, 0.18),
        ([66, 3], 0.006, 1, 37.0, 0.0),
        ([3, 16], 0.0, 1, 34.0, 0.12),
        ([2, 0], 0.0, 6, 400.0, 0.6),
    ];
    for (ways, loss, calls, kbps, least) in links {
        for seed in 0..8 {
            let kbps = |now_ms: u64| match now_ms {
                5_000..30_000 => kbps,
                _ => 10_000.0,
            };
            let [one_way_ms, jitter_ms] = ways;
            let shares = calls_in_time(seed, [one_way_ms, jitter_ms, 0], loss, calls, kbps);
            let lost_s: f64 = shares[30..].iter().map(|share| 1.0 - loss - share).sum();
            let brought = shares[10..30].iter().sum::<f64>() / 20.0;
            assert!(
                lost_s < 1.6 && brought > least,
                "{seed} {ways:?}: {lost_s:.2} {shares:?}"
            );
        }
    }
}

/// A packet takes 40 to 60 ms to leave a narrow link. If the path then has room again but is longer by that much, the
/// rise is not that packet: questions that follow no packet take as long. The brake ends within seven seconds.
#[test]
fn a_link_that_is_wide_again_and_longer_is_found_within_some_seconds() {
    for (ways, loss, kbps) in [
        ([19, 1, 63], 0.008, 30.0),
        ([1, 17, 30], 0.023, 35.0),
        ([20, 0, 20], 0.0, 40.0),
    ] {
        for seed in 0..8 {
            let kbps = |now_ms: u64| match now_ms {
                5_000..30_000 => kbps,
                _ => 10_000.0,
            };
            let shares = calls_in_time(seed, ways, loss, 1, kbps);
            let after = shares[37..].iter().all(|share| *share > 0.8);
            assert!(after, "{seed} {ways:?}: {shares:?}");
        }
    }
}
