//! Tests with outages and losses behind a path that has become longer.

use super::*;

#[test]
fn an_outage_behind_a_longer_path_is_no_queue() {
    let mut brake = Brake::new(Settings::default());
    let all = |admitted: Vec<f64>| admitted.iter().all(|share| *share == 1.0);
    let calm = |rtt: Duration| {
        move |brake: &mut Brake, now_ms: u64| {
            lose(brake, 0);
            brake.on_round_trip(ms(now_ms), rtt);
        }
    };
    assert!(all(drive(&mut brake, 0, 50, &[4], calm(RTT))));
    // The path becomes longer permanently, and later it is down for half a second several times.
    assert!(all(drive(&mut brake, 10_000, 60, &[4], calm(QUEUED))));
    for outage in 0..3 {
        let from_ms = 22_000 + outage * 2_000;
        let lost = |brake: &mut Brake, now_ms: u64| {
            brake.on_told(1, 25);
            brake.on_round_trip(ms(now_ms), QUEUED);
        };
        assert!(all(drive(&mut brake, from_ms, 1, &[4], lost)), "{outage}");
        let admitted = drive(&mut brake, from_ms + 200, 9, &[4], calm(QUEUED));
        assert!(all(admitted), "{outage}");
    }
}

#[test]
fn a_longer_path_that_has_proved_itself_is_none_of_what_is_lost_later() {
    let mut brake = Brake::new(Settings::default());
    let network = |lost: u64| {
        move |brake: &mut Brake, now_ms: u64| {
            lose(brake, lost);
            brake.on_round_trip(ms(now_ms), QUEUED);
        }
    };
    let short = |brake: &mut Brake, now_ms: u64| {
        lose(brake, 0);
        brake.on_round_trip(ms(now_ms), RTT);
    };
    drive(&mut brake, 0, 50, &[4], short);
    drive(&mut brake, 10_000, 90, &[4], network(0));
    // A tenth is lost from now on.
    let admitted = drive(&mut brake, 28_000, 100, &[4], network(1));
    assert_eq!(admitted, [1.0]);
}

#[test]
fn a_path_that_becomes_longer_and_is_down_for_a_moment_is_no_queue() {
    // The path may become longer in two steps.
    for (lost_at, between) in (0..10).flat_map(|at| [(at, QUEUED), (at, RTT * 2)]) {
        let mut brake = Brake::new(Settings::default());
        let short = |brake: &mut Brake, now_ms: u64| {
            lose(brake, 0);
            brake.on_round_trip(ms(now_ms), RTT);
        };
        drive(&mut brake, 0, 50, &[4], short);
        // Three packets of an outage count, in two reports.
        let longer = |brake: &mut Brake, now_ms: u64| {
            let lost = match now_ms {
                now if now == 12_200 + 200 * lost_at => 1,
                now if now == 12_400 + 200 * lost_at => 2,
                _ => 0,
            };
            lose(brake, lost);
            let rtt = if now_ms < 12_000 { between } else { QUEUED };
            brake.on_round_trip(ms(now_ms), rtt);
        };
        let admitted = drive(&mut brake, 10_000, 50, &[4], longer);
        assert_eq!(admitted, [1.0], "{lost_at} {between:?}");
    }
}
