//! Tests with limits that were given up because the path seemed to be longer.

use super::*;

/// Returns a lane whose limit was given up a moment ago, because the path seems to be longer, and the next epoch.
fn given_up() -> (Brake, u64) {
    let mut brake = Brake::new(Settings::default());
    for epoch in 0..25 {
        stream(&mut brake, 200 * epoch, RTT, 0);
    }
    let mut was_held = false;
    for epoch in 25..50 {
        // A queue that grows as fast may lose as much, but it would lose less when the lane sends less.
        stream(&mut brake, 200 * epoch, QUEUED, 45);
        let is_held = brake.rate_bps().is_some();
        if was_held && !is_held {
            return (brake, epoch + 1);
        }
        was_held |= is_held;
    }
    panic!("it is still held back");
}

#[test]
fn losses_that_begin_with_the_end_of_a_limit_limit_the_lane_again() {
    // Half is lost, and no queue can be seen: round trips are as short as ever.
    let (mut brake, mut epoch) = given_up();
    let mut lose_much = |brake: &mut Brake, epochs: u64| {
        for _ in 0..epochs {
            stream(brake, 200 * epoch, RTT, 160);
            assert!(!brake.allows_redundancy(), "{epoch}");
            epoch += 1;
        }
    };
    lose_much(&mut brake, 6);
    let first = brake.rate_bps().expect("the losses are its own");
    assert!(first < 1_600 * BYTES as u64 * 8, "{first}");
    assert_eq!(brake.mistaken, 1);
    // It tries more only after twice the usual time.
    lose_much(&mut brake, 8);
    assert!(brake.rate_bps().is_some_and(|rate| rate <= first));
}

#[test]
fn losses_before_an_outage_do_not_limit_the_lane_after_it() {
    let (mut brake, first) = given_up();
    // The link fails for a moment again and again, and then for longer.
    for epoch in first..first + 4 {
        stream(&mut brake, 200 * epoch, RTT, 250);
    }
    brake.on_outage(ms(200 * (first + 4)));
    for epoch in first + 20..first + 60 {
        stream(&mut brake, 200 * epoch, RTT, 6);
        assert!(brake.rate_bps().is_none(), "{epoch}");
    }
}

#[test]
fn a_path_that_is_longer_gets_repair_when_it_has_lost_little_for_two_seconds() {
    let (mut brake, epoch) = given_up();
    let late: Vec<bool> = (epoch..epoch + 40)
        .map(|epoch| {
            stream(&mut brake, 200 * epoch, QUEUED, 6);
            brake.allows_redundancy()
        })
        .collect();
    assert!(
        !late[0] && late[11..].iter().all(|allowed| *allowed),
        "{late:?}"
    );
    assert!(brake.rate_bps().is_none() && brake.mistaken == 0);
}

#[test]
fn while_the_queue_of_others_stands_nothing_is_added() {
    let mut brake = grow(0.4, 160);
    assert!(brake.limit.is_some());
    // The lane sends nothing, and the queue goes on growing.
    let (lane_bytes, mut is_free) = (brake.lane_bytes(), false);
    for n in 0..40 {
        let sent = ms(1_300 + 20 * n);
        let rtt = QUEUED + Duration::from_millis(2 * n);
        let echo = Echo {
            sent,
            rtt,
            there: rtt,
            link_bytes: lane_bytes,
            lane_bytes,
            modelled: Duration::ZERO,
        };
        brake.on_echo(sent + rtt, echo);
        is_free |= brake.limit.is_none();
        assert!(!brake.allows_redundancy(), "{n}");
        brake.epoch.offered_bytes += BYTES as u64;
    }
    assert!(is_free, "it is not this lane's queue");
}

#[test]
fn a_longer_path_that_has_proved_itself_stays_longer_when_a_later_limit_ends_too_early() {
    let (mut brake, first) = given_up();
    for epoch in first..first + 40 {
        stream(&mut brake, 200 * epoch, QUEUED, 6);
    }
    assert!(brake.probation.is_none() && !brake.baseline.is_above(QUEUED));
    let now = ms(200 * (first + 40));
    brake.limit = Some(Limit::new(now, 1e6, Duration::ZERO));
    brake.try_wide(now);
    brake.release(now);
    for epoch in first + 40..first + 46 {
        stream(&mut brake, 200 * epoch, QUEUED, 100);
    }
    assert!(brake.rate_bps().is_some_and(|rate| rate <= 1_000_000));
    assert!(!brake.baseline.is_above(QUEUED));
}
