//! These tests show how the brake treats a lane that meets queues, losses and longer paths.

mod narrow;
mod outage;
mod trial;

use super::*;

const RTT: Duration = Duration::from_millis(40);
const QUEUED: Duration = Duration::from_millis(120);
const BYTES: usize = 200;

fn ms(n: u64) -> Time {
    Time::ZERO + Duration::from_millis(n)
}

impl Brake {
    /// Returns whether a packet with a distant deadline is sent.
    fn admits(&mut self, now: Time, bytes: usize, priority: u8, flow: u64) -> bool {
        let packet = Packet {
            bytes,
            priority,
            flow,
            is_elastic: false,
            slack: Duration::MAX,
        };
        self.admit(now, &packet) == Verdict::Sent
    }
}

/// Sends 50 packets/s for each of `priorities` over some round trips of 200 ms. Returns the admitted share of each.
fn drive(
    brake: &mut Brake,
    from_ms: u64,
    epochs: u64,
    priorities: &[u8],
    mut network: impl FnMut(&mut Brake, u64),
) -> Vec<f64> {
    let mut admitted = vec![0u64; priorities.len()];
    for epoch in 0..epochs {
        for tick in 0..10 {
            let now = ms(from_ms + epoch * 200 + tick * 20);
            for (i, &priority) in priorities.iter().enumerate() {
                admitted[i] += u64::from(brake.admits(now, BYTES, priority, i as u64));
            }
        }
        network(brake, from_ms + (epoch + 1) * 200);
    }
    let all = (epochs * 10) as f64;
    admitted.into_iter().map(|n| n as f64 / all).collect()
}

/// Reports that this many of the packets since the last judgement are lost, and that the others have arrived.
fn lose(brake: &mut Brake, lost: u64) {
    let sent = brake.epoch.sent;
    brake.on_told(sent.saturating_sub(lost), lost);
}

/// A queue in front of a link. The link carries a given number of packets between two judgements, and the queue holds
/// as many as wait 80 ms.
struct Neck {
    empty: Duration,
    carries: u64,
    waiting: u64,
}

impl Neck {
    fn new(carries: u64) -> Neck {
        Neck {
            empty: RTT,
            carries,
            waiting: 0,
        }
    }

    /// Takes what was sent since the last judgement, and reports which packets arrived.
    fn carry(&mut self, brake: &mut Brake, now: Time) {
        let room = self.carries * 2 / 5;
        let waiting = (self.waiting + brake.epoch.sent).saturating_sub(self.carries);
        self.waiting = waiting.min(room);
        lose(brake, waiting - self.waiting);
        let queue = (QUEUED - RTT) * self.waiting;
        brake.on_round_trip(now, self.empty + queue.div(room.max(1)));
    }
}

#[test]
fn random_losses_do_not_brake() {
    let mut brake = Brake::new(Settings::default());
    let shares = drive(&mut brake, 0, 100, &[4; 8], |brake, at| {
        lose(brake, 8);
        brake.on_round_trip(ms(at), RTT);
    });
    assert!(shares.iter().all(|&share| share == 1.0));
    assert!(brake.allows_redundancy() && brake.rate_bps().is_none());
}

#[test]
fn a_queue_without_losses_does_not_brake() {
    let mut brake = Brake::new(Settings::default());
    brake.on_round_trip(ms(0), RTT);
    drive(&mut brake, 0, 100, &[4], |brake, at| {
        brake.on_round_trip(ms(at), QUEUED);
    });
    assert!(brake.allows_redundancy());
}

#[test]
fn losses_behind_a_queue_are_those_of_lanes_that_wait_while_they_give_a_part() {
    let mut brake = Brake::new(Settings::default());
    brake.on_round_trip(ms(0), RTT);
    // The link carries 70 %. A stream beside the call catches up with what it has missed.
    let mut neck = Neck::new(14);
    let shares = drive(&mut brake, 0, 20, &[4; 2], |brake, at| {
        brake.on_beside(4_000);
        neck.carry(brake, ms(at));
    });
    assert_eq!(shares, [1.0; 2]);
    assert!(brake.rate_bps().is_none() && !brake.allows_redundancy());
    // The stream's rules have made it send less and less, and the calls alone are still too much.
    let mut rates = Vec::new();
    drive(&mut brake, 4_000, 20, &[4; 2], |brake, at| {
        brake.on_beside(400);
        neck.carry(brake, ms(at));
        rates.extend(brake.rate_bps());
    });
    assert!(!rates.is_empty());
}

#[test]
fn what_tells_of_a_queue_is_known_while_the_lane_carries() {
    let mut brake = Brake::new(Settings::default());
    assert_eq!(brake.queue_from(), None);
    let hear = |brake: &mut Brake, at| brake.on_round_trip(ms(at), RTT);
    drive(&mut brake, 0, 20, &[4], hear);
    let from = brake.queue_from().unwrap_or_default();
    assert!((RTT..QUEUED).contains(&from), "{from:?}");
    drive(&mut brake, 4_000, 2, &[], hear);
    assert_eq!(brake.queue_from(), None);
}

#[test]
fn losses_behind_a_queue_slow_down_to_the_fair_rate_and_no_further() {
    let mut brake = Brake::new(Settings::default());
    brake.on_round_trip(ms(0), RTT);
    let mut rates = Vec::new();
    // Two long round trips are not yet a standing queue.
    drive(&mut brake, 0, 2, &[4; 32], |brake, at| {
        brake.on_round_trip(ms(at), QUEUED);
        assert!(brake.allows_redundancy());
    });
    // The link carries 70 %.
    let mut neck = Neck::new(224);
    drive(&mut brake, 400, 20, &[4; 32], |brake, at| {
        neck.carry(brake, ms(at));
        rates.extend(brake.rate_bps());
    });
    // The lane sends less than is offered, which is too much, most of the time.
    let offered = 32.0 * 80e3;
    let below = rates.iter().filter(|rate| (**rate as f64) < 0.9 * offered);
    assert!(below.count() >= 10, "{rates:?}");
    // Other traffic fills the link now, and takes more and more of it.
    let mut carries = 180;
    drive(&mut brake, 4_400, 60, &[4; 32], |brake, at| {
        lose(brake, brake.epoch.sent.saturating_sub(carries));
        brake.on_round_trip(ms(at), QUEUED);
        carries = (carries * 9 / 10).max(8);
        rates.extend(brake.rate_bps());
    });
    // There are 32 flows by their hashes, with 1.22 / √p packets of 200 bytes per 120 ms each, for the maximum loss.
    let fair = 64.0 * 2f64.ln() * 1600.0 / 0.12 * 1.5f64.sqrt();
    assert!(
        rates.iter().all(|rate| *rate as f64 > 0.99 * fair),
        "{rates:?} {fair}"
    );
}

#[test]
fn losses_that_do_not_answer_are_the_paths() {
    // The path loses 15 per cent since it has become longer. A queue could have grown as fast, and lose that.
    let (brake, shares) = step(0, 48);
    assert!(brake.allows_redundancy() && brake.rate_bps().is_none());
    let braked = shares.iter().filter(|share| **share < 1.0).count();
    assert!((1..=6).contains(&braked), "{shares:?}");
    assert!(shares.iter().all(|share| *share > 0.75), "{shares:?}");
}

#[test]
fn a_lane_below_its_fair_rate_keeps_it_and_sends_nothing_twice() {
    let mut brake = Brake::new(Settings::default());
    brake.on_round_trip(ms(0), RTT);
    // The queue of other traffic falls by a third now and then.
    let shares = drive(&mut brake, 0, 60, &[4; 8], |brake, at| {
        lose(brake, 1);
        let fallen = if at / 1_000 % 2 == 0 { 0 } else { 30 };
        brake.on_round_trip(ms(at), QUEUED - Duration::from_millis(fallen));
        assert!(at <= 400 || !brake.allows_redundancy(), "{at}");
    });
    assert!(shares.iter().all(|&share| share == 1.0), "{shares:?}");
}

/// Sends one flow of 1600 packets/s for an epoch of 200 ms. Returns the admitted share.
fn stream(brake: &mut Brake, from_ms: u64, rtt: Duration, lost: u64) -> f64 {
    let share = offer(brake, from_ms);
    lose(brake, lost);
    brake.on_round_trip(ms(from_ms + 200), rtt);
    share
}

/// Offers the 320 packets of such an epoch.
fn offer(brake: &mut Brake, from_ms: u64) -> f64 {
    let at = |packet: u64| ms(from_ms + packet * 200 / 320);
    let admitted = (0..320).filter(|packet| brake.admits(at(*packet), BYTES, 4, 1));
    admitted.count() as f64 / 320.0
}

/// Sends the same through a narrow link.
fn carried(brake: &mut Brake, from_ms: u64, neck: &mut Neck) -> f64 {
    let share = offer(brake, from_ms);
    neck.carry(brake, ms(from_ms + 200));
    share
}

/// Simulates a step of the round trip after some seconds without one, with these losses in 320 packets before and after
/// it. Returns the admitted share of each of the 25 following epochs.
fn step(before: u64, after: u64) -> (Brake, Vec<f64>) {
    let mut brake = Brake::new(Settings::default());
    for epoch in 0..25 {
        stream(&mut brake, 200 * epoch, RTT, before);
    }
    let shares = (25..50).map(|epoch| stream(&mut brake, 200 * epoch, QUEUED, after));
    let shares = shares.collect();
    (brake, shares)
}

#[test]
fn a_longer_path_that_loses_as_ever_brakes_nothing() {
    let (mut brake, shares) = step(4, 4);
    assert!(shares.iter().all(|&share| share == 1.0), "{shares:?}");
    assert!(brake.allows_redundancy());
    // After some seconds the rise is attributed to the path, so a queue on it must be above it.
    assert!(!brake.baseline.is_above(QUEUED));
    for from in [10_000, 10_200, 10_400, 10_600] {
        stream(&mut brake, from, QUEUED + QUEUED, 100);
    }
    assert!(!brake.allows_redundancy());
}

#[test]
fn a_path_that_becomes_longer_at_once_is_not_braked_when_it_loses_more_than_before() {
    // A queue that grows as fast would lose a fifth.
    for lost in [6, 16, 28] {
        let (brake, shares) = step(0, lost);
        assert!(
            shares.iter().all(|&share| share == 1.0),
            "{lost}: {shares:?}"
        );
        assert!(brake.allows_redundancy(), "{lost}");
    }
}

#[test]
fn a_path_that_becomes_longer_while_nothing_is_sent_is_known_when_something_is() {
    let mut brake = Brake::new(Settings::default());
    for second in 0..10 {
        let rtt = if second < 5 { RTT } else { QUEUED };
        brake.on_round_trip(ms(1_000 * second), rtt);
    }
    for epoch in 0..20 {
        let share = stream(&mut brake, 10_000 + 200 * epoch, QUEUED, 6);
        assert!(share == 1.0 && brake.allows_redundancy(), "{epoch}");
    }
}

#[test]
fn a_path_that_becomes_longer_twice_is_braked_for_some_seconds() {
    let (mut brake, _) = step(0, 6);
    let longer = [QUEUED + RTT, QUEUED + QUEUED];
    let mut shares = (50..100).map(|epoch| {
        let rtt = longer[usize::from(epoch > 65)];
        stream(&mut brake, 200 * epoch, rtt, 6)
    });
    let braked = shares.by_ref().filter(|share| *share < 1.0).count();
    assert!(braked < 25, "{braked}");
    assert!(brake.allows_redundancy());
}

#[test]
fn a_queue_that_was_taken_for_a_longer_path_is_braked_when_it_loses() {
    let (mut brake, _) = step(0, 6);
    assert!(brake.allows_redundancy());
    let mut neck = Neck {
        empty: QUEUED,
        ..Neck::new(270)
    };
    let shares: Vec<f64> = (50..85)
        .map(|epoch| carried(&mut brake, 200 * epoch, &mut neck))
        .collect();
    assert!(!brake.allows_redundancy());
    assert!(shares[34] < 0.9, "{shares:?}");
}

#[test]
fn a_path_that_always_loses_much_may_become_longer() {
    // The path loses five and ten per cent, before and after.
    for lost in [16, 32] {
        let (mut brake, shares) = step(lost, lost);
        let later = (50..300).map(|epoch| stream(&mut brake, 200 * epoch, QUEUED, lost));
        let all: Vec<f64> = shares.into_iter().chain(later).collect();
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        assert!(mean > 0.98, "{lost}: {mean}");
    }
}

#[test]
fn random_losses_after_a_queue_do_not_keep_it_slow() {
    let mut brake = Brake::new(Settings::default());
    let mut neck = Neck::new(260);
    for epoch in 0..40 {
        match epoch < 20 {
            true => stream(&mut brake, 200 * epoch, RTT, 0),
            false => carried(&mut brake, 200 * epoch, &mut neck),
        };
    }
    assert!(!brake.allows_redundancy());
    let mut last = 0.0;
    for epoch in 40..240 {
        last = stream(&mut brake, 200 * epoch, RTT, 10);
    }
    assert!(brake.allows_redundancy() && last == 1.0, "{last}");
}

#[test]
fn a_full_queue_that_stays_level_is_none_the_less_braked_when_it_loses_much() {
    let mut brake = Brake::new(Settings::default());
    for epoch in 0..25 {
        stream(&mut brake, 200 * epoch, RTT, 0);
    }
    let mut neck = Neck::new(270);
    let shares: Vec<f64> = (25..60)
        .map(|epoch| carried(&mut brake, 200 * epoch, &mut neck))
        .collect();
    assert!(!brake.allows_redundancy());
    assert!(shares[34] < 0.9, "{shares:?}");
}

#[test]
fn the_lowest_priorities_go_first() {
    let mut brake = Brake::new(Settings::default());
    brake.on_round_trip(ms(0), RTT);
    brake.limit = Some(Limit::new(ms(0), 4.0 * 80e3, Duration::ZERO));
    let priorities = [0, 2, 4, 5, 7, 7];
    let shares = drive(&mut brake, 0, 20, &priorities, |_, _| {});
    assert!(shares[4] > 0.95 && shares[5] > 0.95, "{shares:?}");
    assert!(shares[0] < 0.5, "{shares:?}");
    let all: f64 = shares.iter().sum();
    assert!((3.5..=4.6).contains(&all), "{shares:?}");
}

#[test]
fn it_lets_go_when_the_queue_is_gone() {
    let mut brake = Brake::new(Settings::default());
    brake.on_round_trip(ms(0), RTT);
    drive(&mut brake, 0, 10, &[4; 4], |brake, at| {
        lose(brake, 4);
        brake.on_round_trip(ms(at), QUEUED);
    });
    let mut epochs = 0;
    drive(&mut brake, 2000, 100, &[4; 4], |brake, at| {
        epochs += u32::from(!brake.allows_redundancy());
        brake.on_round_trip(ms(at), RTT);
    });
    assert!(brake.allows_redundancy() && epochs < 50, "{epochs}");
}

#[test]
fn silence_and_a_new_path_let_go_at_once() {
    for silence in [true, false] {
        let mut brake = Brake::new(Settings::default());
        brake.on_round_trip(ms(0), RTT);
        let mut neck = Neck::new(30);
        drive(&mut brake, 0, 10, &[4; 4], |brake, at| {
            neck.carry(brake, ms(at));
        });
        assert!(!brake.allows_redundancy());
        match silence {
            true => brake.on_round_trip(ms(5000), QUEUED),
            false => brake.reset(ms(5000)),
        }
        assert!(brake.allows_redundancy());
    }
}

/// Offers five calls over a path of 40 ms whose queue grows at this slope for this time, and then stands.
fn grow(slope: f64, for_ms: u64) -> Brake {
    let mut brake = Brake::new(Settings::default());
    for tick in 1..=(1_000 + for_ms) / 20 {
        let now = ms(tick * 20);
        for flow in 0..5 {
            let packet = Packet {
                bytes: BYTES,
                priority: 0,
                flow,
                is_elastic: false,
                slack: Duration::from_millis(90),
            };
            brake.admit(now, &packet);
        }
        if tick % 2 == 0 {
            let queue_s = (tick * 20).saturating_sub(1_000) as f64 / 1e3 * slope;
            let rtt = RTT + Duration::from_secs_f64(queue_s);
            let lane_bytes = brake.lane_bytes();
            let modelled = brake.modelled(now);
            brake.on_echo(
                now + rtt,
                Echo {
                    sent: now,
                    rtt,
                    there: rtt,
                    link_bytes: lane_bytes,
                    lane_bytes,
                    modelled,
                },
            );
        }
    }
    brake
}

#[test]
fn a_queue_that_makes_nothing_late_yet_is_let_grow() {
    // This queue belongs to other traffic, which stops at 30 ms.
    assert!(grow(0.1, 300).limit.is_none());
    // The queue goes on growing: the lane slows down before packets are late.
    let slow = grow(0.1, 660);
    assert!(slow.limit.is_some());
    assert!(slow.growth.last().unwrap().rtt < RTT + Duration::from_millis(90));
    // This queue would be too long before it could react.
    assert!(grow(0.4, 160).limit.is_some());
}
