use super::*;
use crate::estimate::Loss;
use base::Rng;
use proptest::prelude::{ProptestConfig, prop_assert, proptest};

const HOUR_S: u64 = 3_600;

fn at(s: f64) -> Time {
    Time::ZERO + Duration::from_secs_f64(s)
}

/// A direction of a link with data at a steady pace: its losses as its receiver sees them, and the alarm.
struct Wire {
    pps: u64,
    rng: Rng,
    seq: u64,
    /// Of the packet before.
    was_lost: bool,
    loss: Loss,
    alarm: Alarm,
    seen: u64,
    /// Alarms that have gone on and off, by the second.
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
            on: Vec::new(),
            off: Vec::new(),
        }
    }

    fn now_s(&self) -> f64 {
        self.seq as f64 / self.pps as f64
    }

    /// Loses this share of the packets for so long, `burst` of the packets behind a lost one.
    fn run(&mut self, seconds: f64, share: f64, burst: f64) {
        // So that the share is as stated: a run has 1 / (1 - burst) packets.
        let begins = share * (1.0 - burst) / (1.0 - share);
        for _ in 0..(seconds * self.pps as f64) as u64 {
            self.was_lost = self.rng.chance(if self.was_lost { burst } else { begins });
            let lost = self.was_lost;
            self.packet(lost);
        }
    }

    fn packet(&mut self, lost: bool) {
        let now_s = self.now_s();
        self.seq += 1;
        let was_on = self.alarm.is_on();
        if !lost {
            self.loss.on_packet(self.seq);
        }
        let begun = self.loss.begun();
        for _ in begun..self.seen {
            self.alarm.on_taken_back();
        }
        let news = begun.saturating_sub(self.seen) as usize;
        let places: Vec<u64> = self.loss.last_begun().take(news).collect();
        for place in places.into_iter().rev() {
            self.alarm.on_run(at(now_s), place, self.loss.run());
        }
        self.seen = begun;
        if self.seq % self.pps == 0 {
            self.alarm.look(at(now_s), self.loss.position());
        }
        match (was_on, self.alarm.is_on()) {
            (false, true) => self.on.push(now_s),
            (true, false) => self.off.push(now_s),
            _ => {}
        }
    }
}

/// What the threshold is derived from: one false alarm per hour at most, whatever the background and the pace are.
#[test]
fn false_alarms_are_no_more_than_one_an_hour() {
    // Ten hours of each, twice as long as a link takes to know its background.
    for (share, burst) in [
        (0.0001, 0.0),
        (0.001, 0.0),
        (0.003, 0.3),
        (0.01, 0.0),
        (0.01, 0.5),
    ] {
        for pps in [10, 50, 200] {
            let mut alarms = 0;
            for seed in 0..4 {
                let mut wire = Wire::new(pps, seed);
                wire.run(1_000.0, share, burst);
                wire.on.clear();
                wire.run(3.0 * HOUR_S as f64, share, burst);
                alarms += wire.on.len();
            }
            println!("{share} {burst} {pps}: {alarms} in 12 hours");
        }
    }
}

#[test]
fn trouble_is_seen() {
    for (share, burst) in [(0.05, 0.5), (0.1, 0.5), (0.2, 0.5), (0.4, 0.5), (0.03, 0.0), (0.02,0.5)] {
        for pps in [50, 200] {
            for before in [0.0,0.001] {
            let mut after = Vec::new();
            let mut off = Vec::new();
            for seed in 0..200 {
                let mut wire = Wire::new(pps, seed);
                wire.run(60.0, before, 0.0);
                wire.on.clear();
                wire.run(60.0, share, burst);
                after.push(wire.on.first().map_or(60.0, |s| s - 60.0));
                let ons=wire.on.len();
                wire.off.clear();
                wire.run(60.0, before, 0.0);
                off.push((wire.off.first().map_or(60.0, |s| s - 120.0),ons));
            }
            after.sort_by(f64::total_cmp);
            off.sort_by(|a,b| a.0.total_cmp(&b.0));
            println!("{share} {burst} {pps} {before}: mean {:.2} median {:.2} 90% {:.2} off {:?} {:?}", after.iter().sum::<f64>()/200.0, after[100], after[180], off[100], off[180]);
        }}
    }
}
