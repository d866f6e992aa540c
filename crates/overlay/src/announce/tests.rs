use super::*;
use crate::estimate::Loss;
use base::Rng;

const SECOND: Duration = Duration::from_secs(1);

fn cost(latency_us: u32, loss: f64) -> LinkCost {
    LinkCost::new(latency_us, loss)
}

/// A link with data at `pps` whose loss follows `loss_at`, for `span`; returns the announcements after the first.
fn drive(
    settings: Settings,
    pps: u64,
    span: Duration,
    seed: u64,
    loss_at: impl Fn(Time) -> f64,
) -> Vec<(Time, LinkCost)> {
    let (mut loss, mut announce) = (Loss::default(), Announce::new(settings));
    let mut rng = Rng::new(seed);
    let mut announced = Vec::new();
    let mut now = Time::ZERO;
    for seq in 0..span.as_millis() * pps / 1_000 {
        now = Time::ZERO + SECOND.div(pps) * seq;
        if !rng.chance(loss_at(now)) {
            loss.on_packet(seq);
        }
        let measured = LinkCost::of_share(20_000, loss.share().0);
        if announce.announced().is_none() {
            announce.on_link_up(now, measured);
        } else if seq % pps == 0 || announce.next_timeout().is_some_and(|at| at <= now) {
            announced.extend(announce.on_measure(now, measured).map(|cost| (now, cost)));
        }
    }
    assert!(now > Time::ZERO);
    announced
}

#[test]
fn a_link_that_swings_every_ten_seconds_changes_routes_six_times_an_hour_at_most() {
    let swing = |now: Time| {
        let bad = (now.as_secs_f64() / 10.0) as u64 % 2 == 1;
        if bad { 0.08 } else { 0.01 }
    };
    for pps in [50, 500] {
        for seed in 0..6 {
            let announced = drive(Settings::modern(), pps, SECOND * 3_600, seed, swing);
            assert!(
                (1..=6).contains(&announced.len()),
                "{pps} pps: {announced:?}"
            );
        }
    }
}

#[test]
fn slower_swings_are_followed_ever_more_reluctantly() {
    let swing = |now: Time| {
        let bad = (now.as_secs_f64() / 60.0) as u64 % 2 == 1;
        if bad { 0.08 } else { 0.0 }
    };
    let announced = drive(Settings::modern(), 500, SECOND * 3_600, 1, swing);
    assert!(announced.len() <= 20, "60 swings: {announced:?}");
    let late = announced
        .iter()
        .filter(|(at, _)| *at > Time::ZERO + SECOND * 1_800);
    assert!(late.count() <= 4, "{announced:?}");
}

#[test]
fn steady_links_are_not_announced_again_and_again() {
    for loss in [0.0, 0.002, 0.02, 0.1] {
        let announced = drive(Settings::modern(), 200, SECOND * 3_600, 5, |_| loss);
        assert!(announced.len() <= 6, "{loss}: {announced:?}");
    }
}

#[test]
fn a_lasting_worsening_is_announced_within_seconds_and_an_improvement_when_it_lasts() {
    let start = Time::ZERO + SECOND * 60;
    let end = Time::ZERO + SECOND * 120;
    let bad = |now| if now >= start && now < end { 0.08 } else { 0.0 };
    let announced = drive(Settings::modern(), 500, SECOND * 300, 1, bad);
    let (first, told) = announced[0];
    assert!(
        first > start && first.since(start) < SECOND * 4,
        "{announced:?}"
    );
    assert!(told.loss_share() > 0.005);
    let settled = announced
        .iter()
        .find(|(_, cost)| cost.loss_share() > 0.05)
        .unwrap()
        .0;
    assert!(settled.since(start) < SECOND * 8, "{announced:?}");
    let better = announced.iter().find(|(at, _)| *at > end).unwrap();
    assert!(better.0.since(end) < SECOND * 30, "{announced:?}");
    assert!(
        announced.last().unwrap().1.loss_share() < 0.01,
        "{announced:?}"
    );
}

#[test]
fn latency_counts_from_a_share_and_a_floor() {
    let at = |s| Time::ZERO + SECOND * s;
    let mut announce = Announce::new(Settings::modern());
    assert_eq!(announce.on_measure(at(0), cost(5, 0.0)), None, "it is down");
    announce.on_link_up(at(0), cost(1_000, 0.0));
    for s in 1..100 {
        assert_eq!(
            announce.on_measure(at(s), cost(1_900, 0.0)),
            None,
            "below the floor"
        );
    }
    announce.on_link_up(at(100), cost(40_000, 0.0));
    for s in 101..200 {
        assert_eq!(
            announce.on_measure(at(s), cost(45_000, 0.0)),
            None,
            "below the share"
        );
    }
    assert_eq!(
        announce.on_measure(at(200), cost(90_000, 0.0)),
        None,
        "not confirmed"
    );
    assert_eq!(announce.next_timeout(), Some(at(201)));
    assert_eq!(
        announce.on_measure(at(201), cost(90_000, 0.0)),
        Some(cost(90_000, 0.0))
    );
    assert_eq!(announce.announced(), Some(cost(90_000, 0.0)));
    announce.on_link_down();
    assert_eq!(
        (announce.announced(), announce.next_timeout()),
        (None, None)
    );
}

#[test]
fn a_short_peak_is_not_announced_and_an_improvement_is_told_at_its_worst() {
    let at = |s| Time::ZERO + SECOND * s;
    let mut announce = Announce::new(Settings::modern());
    announce.on_link_up(at(0), cost(10_000, 0.10));
    let half = at(5) + SECOND.div(2);
    assert_eq!(announce.on_measure(at(5), cost(10_000, 0.5)), None);
    assert_eq!(announce.on_measure(half, cost(10_000, 0.1)), None);
    assert_eq!(announce.on_measure(at(7), cost(10_000, 0.1)), None);
    let mut told = None;
    for s in 10..40 {
        let loss = if s == 12 { 0.03 } else { 0.01 };
        told = told.or(announce
            .on_measure(at(s), cost(10_000, loss))
            .map(|c| (s, c)));
    }
    assert_eq!(told, Some((30, cost(10_000, 0.03))));
}

#[test]
fn the_paper_lets_30_s_pass_whatever_happens() {
    let announced = drive(Settings::paper(), 200, SECOND * 600, 1, |now| {
        if (now.as_secs_f64() / 7.0) as u64 % 2 == 1 {
            0.1
        } else {
            0.0
        }
    });
    assert!(announced.len() >= 10, "{announced:?}");
    let apart = announced.windows(2).map(|w| w[1].0.since(w[0].0));
    assert!(apart.min().unwrap() >= SECOND * 30);
}
