use super::*;
use crate::estimate::Loss;
use base::Rng;
use proptest::prelude::{ProptestConfig, prop_assert, proptest};

const HOUR_S: f64 = 3_600.0;

fn at(s: f64) -> Time {
    Time::ZERO + Duration::from_secs_f64(s)
}

/// A direction of a link with data at a steady pace: its losses as its receiver sees them, and the alarm.
struct Wire {
    pps: u64,
    rng: Rng,
    seq: u64,
    /// Whether the packet before was lost.
    was_lost: bool,
    loss: Loss,
    alarm: Alarm,
    seen: u64,
    looked_s: f64,
    /// When alarms were raised and ended, in seconds.
    on: Vec<f64>,
    off: Vec<f64>,
}

impl Wire {
    fn new(pps: u64, seed: u64) -> Wire {
        Wire {
            pps,
            rng: Rng::new(seed),
            seq: 0,
            was_lost: false,
            loss: Loss::default(),
            alarm: Alarm::default(),
            seen: 0,
            looked_s: 0.0,
            on: Vec::new(),
            off: Vec::new(),
        }
    }

    /// Loses this share of the packets for this time; `burst` is the share of packets that are lost after a lost one.
    fn run(&mut self, seconds: f64, share: f64, burst: f64) {
        // With this rate the share is as stated, because a run has 1 / (1 - burst) packets.
        let begins = share * (1.0 - burst) / (1.0 - share);
        for _ in 0..(seconds * self.pps as f64) as u64 {
            self.was_lost = self.rng.chance(if self.was_lost { burst } else { begins });
            let lost = self.was_lost;
            self.packet(lost);
        }
    }

    fn packet(&mut self, lost: bool) {
        self.seq += 1;
        if !lost {
            self.arrive(self.seq - 1);
        }
    }

    fn arrive(&mut self, number: u64) {
        let now_s = number as f64 / self.pps as f64;
        let was_on = self.alarm.is_on();
        self.loss.on_packet(number);
        let begun = self.loss.begun();
        for _ in begun..self.seen {
            self.alarm.on_taken_back();
        }
        for place in self.loss.last_begun(begun.saturating_sub(self.seen)) {
            self.alarm.on_run(at(now_s), place, self.loss.run());
        }
        self.seen = begun;
        if now_s >= self.looked_s + 1.0 {
            self.looked_s = now_s;
            self.alarm.look(at(now_s), self.loss.position());
        }
        match (was_on, self.alarm.is_on()) {
            (false, true) => self.on.push(now_s),
            (true, false) => self.off.push(now_s),
            _ => {}
        }
    }
}

/// Checks what the threshold is derived from, whatever the background and the pace.
#[test]
fn false_alarms_are_no_more_than_one_an_hour() {
    for (share, burst) in [
        (1e-4, 0.0),
        (1e-3, 0.0),
        (3e-3, 0.3),
        (0.01, 0.0),
        (0.01, 0.5),
    ] {
        let (mut alarms, mut hours) = (0, 0);
        for (pps, seeds) in [(10, 10), (50, 10), (200, 4)] {
            for seed in 0..seeds {
                let mut wire = Wire::new(pps, seed);
                // Runs for as long as it takes to know the background.
                wire.run(1_000.0, share, burst);
                wire.on.clear();
                wire.run(HOUR_S, share, burst);
                alarms += wire.on.len();
                hours += 1;
            }
        }
        assert!(alarms <= hours, "{share} {burst}: {alarms} in {hours} h");
    }
}

#[test]
fn trouble_is_seen_within_some_packets_and_its_end_within_seconds() {
    // Loss, packets per second, loss before, and the packets that detection may take on average: three or four runs,
    // and a few more for 5 %.
    let cases = [
        (0.4, 50, 0.0, 0.35),
        (0.4, 50, 1e-3, 0.45),
        (0.2, 50, 0.0, 0.6),
        (0.2, 200, 0.0, 0.2),
        (0.2, 200, 1e-3, 0.25),
        (0.1, 200, 0.0, 0.4),
        (0.05, 200, 0.0, 1.0),
    ];
    for (share, pps, before, within_s) in cases {
        let (mut sum, mut last) = (0.0, 0.0f64);
        for seed in 0..50 {
            let mut wire = Wire::new(pps, seed);
            wire.run(60.0, before, 0.0);
            wire.on.clear();
            wire.run(60.0, share, 0.5);
            assert!(wire.alarm.is_on(), "{share} {pps} {seed}: it goes on");
            sum += wire.on[0] - 60.0;
            wire.off.clear();
            wire.run(30.0, before, 0.0);
            assert!(!wire.alarm.is_on(), "{share} {pps} {seed}: it ends");
            last = last.max(wire.off[0] - 120.0);
        }
        assert!(
            sum / 50.0 <= within_s,
            "{share} {pps} {before}: {}",
            sum / 50.0
        );
        let lasts = LASTS.as_secs_f64() + 1.0;
        assert!(before > 0.0 || last <= lasts, "{share} {pps}: {last}");
    }
}

/// A smaller loss is no trouble. The same link judged by its averages would be in trouble.
#[test]
fn a_link_that_has_always_lost_much_is_in_trouble_and_one_that_has_always_lost_little_is_not() {
    let share_of_time_on = |share: f64| {
        let mut wire = Wire::new(50, 1);
        wire.run(1_000.0, share, 0.0);
        let mut on = 0;
        for _ in 0..1_000 {
            wire.run(1.0, share, 0.0);
            on += usize::from(wire.alarm.is_on());
        }
        on
    };
    let (much, little) = (share_of_time_on(0.04), share_of_time_on(0.01));
    assert!(much >= 900 && little <= 20, "{much} {little}");
}

#[test]
fn a_link_that_carries_next_to_nothing_says_nothing() {
    let mut wire = Wire::new(1, 1);
    wire.run(600.0, 0.0, 0.0);
    (0..3).for_each(|_| wire.packet(true));
    wire.run(10.0, 0.0, 0.0);
    assert!(wire.on.is_empty(), "three in a row are one run");
    wire.packet(true);
    wire.run(12.0, 0.0, 0.0);
    assert!(!wire.alarm.is_on(), "and soon forgotten");
}

#[test]
fn an_outage_is_no_trouble_of_this_kind() {
    let mut wire = Wire::new(50, 1);
    wire.run(60.0, 0.0, 0.0);
    wire.run(2.0, 0.3, 0.5);
    assert!(wire.alarm.is_on());
    wire.alarm.on_outage(wire.loss.position());
    assert!(!wire.alarm.is_on());
    for _ in 0..3 {
        (0..50).for_each(|_| wire.packet(true));
        wire.run(5.0, 0.0, 0.0);
    }
    assert_eq!(wire.on.len(), 1, "three runs in fifteen seconds");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn packets_that_are_late_and_not_lost_give_no_lasting_alarm(
        seed: u64,
        late_by in 1usize..60,
        share in 0.001f64..0.3,
    ) {
        let mut wire = Wire::new(100, seed);
        wire.run(20.0, 0.0, 0.0);
        // Packets that wait, with the times when they arrive.
        let mut waiting: Vec<(u64, u64)> = Vec::new();
        for n in 0..6_000u64 {
            let number = wire.seq + n;
            match wire.rng.chance(share) {
                true => waiting.push((n + 1 + wire.rng.below(late_by as u64), number)),
                false => wire.arrive(number),
            }
            waiting.sort_unstable();
            while waiting.first().is_some_and(|(at, _)| *at <= n) {
                let (_, number) = waiting.remove(0);
                wire.arrive(number);
            }
        }
        prop_assert!(!wire.alarm.is_on());
        // The first packets that are late may look like lost ones.
        prop_assert!(wire.on.len() <= 2, "{:?}", wire.on);
    }
}

#[test]
fn runs_of_any_length_are_borne() {
    for run in [0.0, 1.0, 99.0, 126.0, 10_000.0] {
        let mut alarm = Alarm::default();
        let mut now_s = 0.0;
        for n in 1..=200_u64 {
            now_s += 0.1;
            alarm.on_run(at(now_s), n * 3, run);
            if n % 10 == 0 {
                alarm.look(at(now_s), n * 3 + 1);
            }
        }
        assert!(alarm.is_on(), "a run in every three packets, {run} long");
        alarm.look(at(now_s + 11.0), 602);
        assert!(!alarm.is_on(), "{run}");
    }
}
