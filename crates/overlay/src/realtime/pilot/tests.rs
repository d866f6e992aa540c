//! Predictions against a lane in a simulated world of losses, and the behaviour of the pilot.

use super::super::{Decoder, History, Settings};
use super::steady::tests::Path;
use super::*;
use crate::realtime::Share;
use base::Rng;
use base::impair::{Line, LossModel, Model};
use wire::control::Repair;
use wire::data::{Header, Remaining};

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Returns the default aims, except for `protect`.
fn auto() -> Aims {
    Aims {
        protect: Protect::Auto,
        ..Aims::default()
    }
}

fn at(us: u64) -> Time {
    Time::ZERO + Duration::from_micros(us)
}

/// Sends packets with this share of repair packets over a link with these losses, and decodes them. Returns the share
/// of packets that stay lost.
fn simulated(losses: Losses, share: Share, reach: u32, packets: u64) -> f64 {
    let loss = match losses.burst <= losses.share {
        true => LossModel::Bernoulli { p: losses.share },
        false => LossModel::Conditional {
            p: losses.share,
            burstiness: losses.burst,
        },
    };
    let model = Model::default().with_loss(loss).unwrap();
    let mut line = Line::new(model, Rng::new(5));
    let mut history = History::new(Settings::modern());
    history.set_share(Some(share));
    let mut decoder = Decoder::default();
    let mut arrived = vec![false; packets as usize];
    for seq in 0..packets {
        let now = at(1_000 * (seq + 1));
        let mut packet = super::super::tests_packet(seq, Remaining::NONE);
        history.record(now, &mut packet);
        history.cover();
        line.push(now, 100, packet);
        if line.pop_due(now).is_some_and(|packet| {
            assert!(Header::parse(&packet).is_ok());
            decoder.on_original(now, seq, &packet);
            true
        }) {
            arrived[seq as usize] = true;
        }
        let mut body = [0; 300];
        while let Some(len) = history.poll_repair(now, &mut body) {
            line.push(now, 100, body[..len].to_vec());
            if let Some(body) = line.pop_due(now) {
                let repair = Repair::parse(&body).unwrap();
                decoder.on_repair(now, repair.newest.widen(seq), &repair);
            }
        }
        while let Some((found, _)) = decoder.poll() {
            arrived[found as usize] |= seq - found <= u64::from(reach);
        }
    }
    let lost = arrived[..arrived.len() - 100].iter().filter(|came| !**came);
    lost.count() as f64 / (arrived.len() - 100) as f64
}

#[test]
fn predictions_are_within_a_factor_of_two_of_what_a_lane_does() {
    let losses = [
        (0.05, 0.0),
        (0.05, 0.5),
        (0.05, 0.75),
        (0.01, 0.5),
        (0.15, 0.2),
    ];
    let plans = [
        (1, 1, 2),
        (1, 1, 5),
        (1, 2, 20),
        (1, 4, 40),
        (3, 10, 40),
        (1, 5, 58),
    ];
    let (mut good, mut all) = (0, 0);
    for (share, burst) in losses {
        let losses = Losses {
            share,
            burst: f64::max(burst, share),
        };
        for (repairs, packets, reach) in plans {
            let share = Share {
                repairs,
                packets,
                lag: 0,
                width: reach + 1,
            };
            let predicted = repair(losses, share, reach);
            let measured = simulated(losses, share, reach, 40_000);
            // Fewer than thirty losses are not enough to check a factor.
            if measured < 0.001 {
                assert!(
                    predicted < 0.002,
                    "{losses:?} {share:?}: {predicted} {measured}"
                );
                continue;
            }
            all += 1;
            let factor = predicted / measured;
            good += u32::from((0.5..=2.0).contains(&factor));
            assert!(
                (0.3..3.0).contains(&factor),
                "{losses:?} {share:?}: {predicted} {measured}"
            );
        }
    }
    assert!(good * 10 >= all * 9, "{good} of {all}");
}

#[test]
fn copies_that_come_later_are_predicted_too() {
    let losses = Losses {
        share: 0.05,
        burst: 0.5,
    };
    for lag in 1..4 {
        let share = Share {
            repairs: 1,
            packets: 1,
            lag,
            width: 1,
        };
        let (predicted, measured) = (
            repair(losses, share, 5),
            simulated(losses, share, 5, 100_000),
        );
        assert!(
            (0.7..1.4).contains(&(predicted / measured)),
            "{lag}: {predicted} {measured}"
        );
    }
}

/// A lane on which `flows` calls pass. The pilot checks the plan ten times a second.
struct Lane {
    pilot: Pilot,
    link: Link,
    now: u64,
    slack: Duration,
    flows: u64,
    /// True if all flows send at the same moment.
    together: bool,
    /// The aim of another flow, which sends many long packets with little time.
    beside: Option<Aim>,
}

impl Lane {
    fn new(aims: Aims, rtt: Duration, slack: Duration, flows: u64) -> Lane {
        let link = Link {
            share: 0.0,
            rtt: rtt.into(),
            is_random: true,
            takes_repair: true,
            strikes: 5,
            longer: Duration::ZERO,
            span: 64,
        };
        Lane {
            pilot: Pilot::new(aims),
            link,
            now: 0,
            slack,
            flows,
            together: false,
            beside: None,
        }
    }

    /// Lets this many seconds pass. Returns how often the plan has changed.
    fn run(&mut self, seconds: u64) -> u64 {
        let before = self.pilot.changes();
        for _ in 0..seconds * 10 {
            self.tenth();
        }
        self.pilot.changes() - before
    }

    /// Lets a tenth of a second pass.
    fn tenth(&mut self) {
        for _ in 0..5 {
            for flow in 0..self.flows {
                let apart = if self.together {
                    0
                } else {
                    20_000 / self.flows
                };
                let now = at(self.now + flow * apart);
                self.pilot.on_sent(now, 183, Some(self.slack), flow, None);
            }
            for n in 1..6 {
                let (now, slack) = (at(self.now + 3_000 * n), Some(ms(30)));
                let wish = self.beside.map(|aim| (FlowKey::default(), aim));
                if wish.is_some() {
                    self.pilot.on_sent(now, 1_200, slack, 7, wish);
                }
            }
            self.now += 20_000;
        }
        self.pilot.look(at(self.now), &self.link);
    }

    fn ratio(&self) -> f64 {
        self.pilot.plan().share.map_or(0.0, |share| share.ratio())
    }
}

#[test]
fn requests_do_on_a_short_link_and_repair_comes_and_goes_on_a_long_one() {
    let mut short = Lane::new(auto(), ms(20), ms(90), 1);
    short.link.share = 0.05;
    short.run(5);
    assert_eq!(
        (short.ratio(), short.pilot.plan().reason),
        (0.0, Reason::RequestsDo)
    );
    let mut long = Lane::new(auto(), ms(100), ms(60), 20);
    long.run(5);
    assert_eq!(
        (long.ratio(), long.pilot.plan().reason),
        (0.0, Reason::Clean)
    );
    long.link.share = 0.05;
    assert_eq!(long.run(2), 1, "in force after two seconds");
    let plan = long.pilot.plan();
    assert!(
        (0.15..0.35).contains(&long.ratio()) && plan.predicted <= 0.0005,
        "{plan:?}"
    );
    assert!(plan.requests > 0.04, "nothing is saved by requests");
    // Estimates that vary by a quarter hardly change the plan in an hour.
    let changes: u64 = (0..3_600u64)
        .map(|n| {
            long.link.share = 0.05 * (1.0 + 0.25 * ((n * n % 17) as f64 / 8.0 - 1.0));
            long.run(1)
        })
        .sum();
    assert!(changes <= 6, "{changes}");
    long.link.share = 0.0;
    long.run(12);
    assert_eq!(long.ratio(), 0.0);
}

/// If twenty calls send together, no packet reveals the loss of the last packet for 20 ms. A request then comes too
/// late. If the calls send one after the other, requests save all packets.
#[test]
fn requests_are_not_relied_on_for_packets_whose_loss_is_seen_late() {
    let planned = |together| {
        let mut lane = Lane::new(auto(), ms(88), ms(106), 20);
        (lane.together, lane.link.share, lane.pilot.run) = (together, 0.05, 4.0 / 3.0);
        lane.run(3);
        lane.pilot.plan()
    };
    let even = planned(false);
    assert_eq!((even.share, even.reason), (None, Reason::RequestsDo));
    let together = planned(true);
    // One packet in twenty is the last one. The losses of a run that ends with it are seen late, too.
    assert!((0.002..0.005).contains(&together.requests), "{together:?}");
    let share = together.share.map_or(0.0, |share| share.ratio());
    assert!((0.05..0.3).contains(&share), "{together:?}");
    assert!(together.predicted <= 0.0005, "{together:?}");
}

/// Reports a second in which a share of a lane's packets was lost.
fn tell(lane: &mut Lane, share: f64) {
    let packets = 50 * lane.flows;
    let lost = (packets as f64 * share) as u64;
    lane.pilot.on_told(packets - lost, lost);
}

#[test]
fn losses_that_end_end_repair_at_once_and_those_that_vary_do_not() {
    let mut lane = Lane::new(auto(), ms(100), ms(60), 20);
    lane.link.share = 0.05;
    for _ in 0..5 {
        tell(&mut lane, 0.05);
        lane.run(1);
    }
    assert!(lane.ratio() > 0.0);
    // The estimate falls slowly.
    for _ in 0..2 {
        lane.link.share *= 0.9;
        tell(&mut lane, 0.0);
        lane.run(1);
    }
    assert_eq!(
        (lane.ratio(), lane.pilot.plan().reason),
        (0.0, Reason::Clean)
    );
    for _ in 0..2 {
        tell(&mut lane, 0.05);
        lane.run(1);
    }
    assert!(lane.ratio() > 0.0, "they are back");
}

/// Estimates over fifty losses are wrong by a quarter, and a trunk has a new one each second.
#[test]
fn the_plan_of_a_trunk_is_for_what_it_loses_and_not_for_the_highest_estimate() {
    let losses = Losses {
        share: 0.05,
        burst: 0.5,
    };
    let (mut ratio, mut leaves, mut looks) = (0.0, 0.0, 0.0);
    for seed in 1..=3 {
        let mut lane = Lane::new(auto(), ms(100), ms(60), 20);
        let (mut path, mut told) = (Path::new(seed), (0, 0));
        let mut predicted = (None, losses.share);
        for tenth in 0..3_000 {
            let repairs = (100.0 * lane.ratio()) as u64;
            path.pass(100 + repairs, losses);
            let (arrived, lost) = path.loss.told();
            lane.pilot.on_told(arrived - told.0, lost - told.1);
            told = (arrived, lost);
            (lane.link.share, lane.pilot.run) = (path.loss.rate(), path.loss.run());
            lane.tenth();
            if tenth >= 100 {
                let plan = lane.pilot.plan().share;
                if plan != predicted.0 {
                    let left = |share| repair(losses, share, 48);
                    predicted = (plan, plan.map_or(losses.share, left));
                }
                ratio += lane.ratio();
                leaves += predicted.1;
                looks += 1.0;
            }
        }
    }
    let (ratio, leaves) = (ratio / looks, leaves / looks);
    assert!((0.25..0.37).contains(&ratio), "{ratio}");
    assert!(leaves < auto().target, "{leaves}");
}

#[test]
fn the_plan_of_one_call_stays_while_estimates_wander() {
    for run in [1.0, 2.0] {
        let mut rng = Rng::new(9);
        let mut call = Lane::new(auto(), ms(100), ms(60), 1);
        (call.link.share, call.pilot.run) = (0.05, run);
        call.run(2);
        let mut changes = 0;
        for _ in 0..180 {
            call.link.share = 0.05 * (0.6 + 0.8 * rng.unit());
            call.pilot.run = 1.0 + (run - 1.0) * (0.6 + 0.8 * rng.unit());
            changes += call.run(20);
        }
        assert!(changes <= 6, "{changes} with runs of {run}");
    }
}

/// A flow that is not repaired has less time, shorter distances, and longer packets. It does not change the plan of the
/// call.
#[test]
fn who_wants_no_repair_does_not_change_the_plan_of_a_call() {
    let plan_of = |beside| {
        let mut call = Lane::new(auto(), ms(100), ms(60), 1);
        (call.link.share, call.beside) = (0.05, beside);
        call.run(20);
        call.pilot.plan()
    };
    let alone = plan_of(None);
    assert!(alone.share.is_some(), "{alone:?}");
    for aim in [Aim::new(None, Some(0.0)), Aim::new(Some(0.06), None)] {
        let beside = plan_of(Some(aim.unwrap()));
        let of = |plan: Plan| (plan.share, plan.most, plan.target);
        assert_eq!(of(beside), of(alone), "{aim:?}");
    }
}

/// Now and then the ends of a call agree on keys, in longer packets.
#[test]
fn one_long_packet_does_not_change_the_plan_of_a_call_and_many_do() {
    let mut call = Lane::new(auto(), ms(100), ms(60), 1);
    (call.link.share, call.pilot.run) = (0.05, 2.0);
    call.run(3);
    assert_eq!(call.ratio(), 1.0);
    let long = |call: &mut Lane| {
        let (now, slack) = (at(call.now), Some(call.slack));
        call.pilot.on_sent(now, 1_200, slack, 0, None);
        call.run(1)
    };
    for _ in 0..10 {
        assert_eq!(long(&mut call), 0);
        assert_eq!(call.run(10), 0);
    }
    for _ in 0..5 {
        long(&mut call);
    }
    assert!(call.ratio() < 0.5, "{:?}", call.pilot.plan());
}

#[test]
fn a_way_that_has_become_longer_leaves_less_time() {
    let mut lane = Lane::new(auto(), ms(40), ms(120), 20);
    lane.link.share = 0.05;
    lane.run(3);
    assert_eq!(
        (lane.ratio(), lane.pilot.plan().reason),
        (0.0, Reason::RequestsDo)
    );
    (lane.link.rtt, lane.link.longer) = (ms(160).into(), ms(60));
    lane.run(1);
    assert!(lane.ratio() > 0.0, "{:?}", lane.pilot.plan());
}

/// The pilot does not panic if a link loses everything, whatever length of runs the neighbour reports.
#[test]
fn of_a_link_that_loses_nearly_everything_nothing_is_hoped() {
    for protect in [Protect::Auto, Protect::Hop] {
        let aims = Aims { protect, ..auto() };
        let mut lane = Lane::new(aims, ms(100), ms(60), 1);
        for (share, run) in [(0.985, 1.0), (1.0, 1.0), (1.0, 1e9)] {
            (lane.link.share, lane.pilot.run) = (share, run);
            lane.run(3);
            let plan = lane.pilot.plan();
            assert_eq!((plan.share, plan.reason), (None, Reason::Hopeless));
            assert!(plan.predicted > 0.97, "{plan:?}");
        }
    }
}

#[test]
fn a_queue_ends_repair_at_once_and_for_longer_each_time() {
    let mut lane = Lane::new(auto(), ms(100), ms(60), 20);
    lane.link.share = 0.05;
    lane.run(2);
    assert!(lane.ratio() > 0.0);
    for rest in [10, 20, 40] {
        lane.link.is_random = false;
        lane.pilot.look(at(lane.now), &lane.link);
        assert_eq!(
            (lane.ratio(), lane.pilot.plan().reason),
            (0.0, Reason::Queue)
        );
        lane.link.is_random = true;
        lane.run(rest - 1);
        assert_eq!(lane.ratio(), 0.0);
        lane.run(3);
        assert!(lane.ratio() > 0.0, "after {rest} s");
    }
}

#[test]
fn losses_of_a_queue_are_not_averaged_with_those_after_it() {
    let told = |lane: &mut Lane, percent: u32, seconds: u64| {
        lane.link.share = f64::from(percent) / 100.0;
        for _ in 0..seconds * 10 {
            lane.pilot.on_told(u64::from(100 - percent), percent.into());
            lane.tenth();
        }
    };
    let mut calm = Lane::new(auto(), ms(100), ms(60), 20);
    told(&mut calm, 4, 30);
    assert!(calm.ratio() > 0.0);
    let mut lane = Lane::new(auto(), ms(100), ms(60), 20);
    told(&mut lane, 4, 30);
    lane.link.is_random = false;
    told(&mut lane, 9, 1);
    lane.link.is_random = true;
    // The estimate falls while repair rests.
    for percent in [9, 8, 7, 6] {
        told(&mut lane, percent, 2);
        assert_eq!(lane.ratio(), 0.0);
    }
    told(&mut lane, 4, 4);
    assert_eq!(lane.ratio(), calm.ratio());
}

#[test]
fn the_caps_hold_and_what_is_not_reached_is_said() {
    let mut lane = Lane::new(auto(), ms(100), ms(60), 20);
    (lane.link.share, lane.pilot.run) = (0.05, 8.0);
    lane.run(3);
    assert_eq!((lane.ratio(), lane.pilot.plan().reason), (0.5, Reason::Cap));
    let mut call = Lane::new(auto(), ms(100), ms(60), 1);
    (call.link.share, call.pilot.run) = (0.05, 2.0);
    call.run(3);
    assert_eq!((call.ratio(), call.pilot.plan().reason), (1.0, Reason::Cap));
    let mut late = Lane::new(auto(), ms(100), ms(1), 1);
    late.link.share = 0.05;
    late.run(3);
    assert_eq!(
        (late.ratio(), late.pilot.plan().reason),
        (0.0, Reason::NoTime)
    );
    let mut old = Lane::new(auto(), ms(100), ms(60), 1);
    (old.link.share, old.link.takes_repair) = (0.05, false);
    old.run(3);
    assert_eq!(
        (old.ratio(), old.pilot.plan().reason),
        (0.0, Reason::Neighbour)
    );
}

#[test]
fn what_the_operator_says_counts() {
    for (protect, repairs) in [
        (Protect::Off, false),
        (Protect::Requests, false),
        (Protect::Auto, false),
        (Protect::Hop, true),
    ] {
        assert_eq!(Protect::of_label(protect.label()), Some(protect));
        let aims = Aims { protect, ..auto() };
        // Nothing is lost.
        let mut lane = Lane::new(aims, ms(100), ms(60), 20);
        lane.run(3);
        assert_eq!(lane.ratio() > 0.0, repairs, "{protect:?}");
    }
}

#[test]
fn what_is_measured_is_of_the_plan_in_force() {
    let mut lane = Lane::new(auto(), ms(100), ms(60), 20);
    assert_eq!(lane.pilot.measured(), None);
    lane.pilot.on_report(u32::MAX - 499, 7, 1.0);
    // Totals wrap. The count of losses falls if a lost packet has arrived since.
    lane.pilot.on_report(500, 12, 1.0);
    lane.pilot.on_report(1_501, 11, 1.0);
    assert_eq!(lane.pilot.measured(), Some((4.0 / 2_005.0, 2_005)));
    lane.link.share = 0.05;
    lane.run(2);
    assert!(lane.ratio() > 0.0);
    assert_eq!(lane.pilot.measured(), None, "another plan");
    for n in 2..=3 {
        lane.pilot.on_report(1_000 * n, 50 * n, 1.0);
        assert_eq!(lane.pilot.measured(), None, "sent before it");
    }
    lane.pilot.on_report(4_000, 151, 1.0);
    assert_eq!(lane.pilot.measured(), Some((1.0 / 1_001.0, 1_001)));
    // Older packets count half.
    for n in 5..60 {
        lane.pilot.on_report(1_000 * n, 151, 1.0);
    }
    let (share, packets) = lane.pilot.measured().unwrap();
    assert!(
        packets < 22_000 && share < 1.0 / 20_000.0,
        "{share} {packets}"
    );
}
