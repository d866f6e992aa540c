//! `graph::protection` assumes what the pilot of a lane predicts: it cannot ask the pilot, which is in a crate above
//! it.

use base::{Duration, Time};
use graph::metric::Repair;
use graph::protection::{Lane, left, table};
use graph::{LinkCost, Parameters};
use overlay::realtime::{Aims, LaneLink, Losses, Pilot, Protect, RoundTrip, Share, predict_repair};

/// The share of packets that may stay lost.
const TARGET: f64 = 0.0005;
/// The maximum number of packets by which a copy comes later.
const LAG_MOST: u32 = 8;

/// Returns what a share leaves of a packet's loss, for the losses of a link.
fn repaired(losses: Losses, (repairs, packets): (u16, u16), reach: u32) -> f64 {
    let combined = Share {
        repairs: repairs.into(),
        packets: packets.into(),
        lag: 0,
        width: reach + 1,
    };
    let most = if repairs == packets {
        reach.min(LAG_MOST)
    } else {
        0
    };
    let copies = (1..=most).map(|lag| Share {
        lag,
        width: 1,
        ..combined
    });
    let leaves = |share| predict_repair(losses, share, reach);
    copies.map(leaves).fold(leaves(combined), f64::min)
}

#[test]
fn the_table_is_what_is_predicted() {
    let mut rows = String::new();
    let mut is_same = true;
    for (share, of_share) in table::SHARES.iter().zip(&table::SAVED) {
        rows += "    [\n";
        for (reach, of_reach) in table::REACHES.iter().zip(of_share) {
            let of_run = table::RUNS.map(|run| {
                table::LOSSES.map(|loss| {
                    let of_all = f64::from(loss) / 65_536.0;
                    let losses = Losses::of(of_all, f64::from(run) / 256.0);
                    let leaves = repaired(losses, *share, *reach as u32);
                    let halvings = (losses.share / leaves).log2();
                    (halvings * 8.0).round().clamp(0.0, 255.0) as u8
                })
            });
            is_same &= of_run == *of_reach;
            rows += "        [\n";
            for pair in of_run.chunks(3) {
                let pair: Vec<String> = pair.iter().map(|of| format!("{of:?}")).collect();
                rows += &format!("            {},\n", pair.join(", "));
            }
            rows += "        ],\n";
        }
        rows += "    ],\n";
    }
    assert!(is_same, "the table is to be\n{rows}");
}

/// Returns what the pilot of a lane predicts for one call.
fn piloted(protect: Protect, loss: f64, run: f64, latency: Duration, slack: Duration) -> f64 {
    const INTERVAL: Duration = Duration::from_millis(20);
    let aims = Aims {
        protect,
        ..Aims::default()
    };
    let mut pilot = Pilot::new(aims);
    pilot.on_report(0, 0, run);
    let begin = Time::ZERO + Duration::from_secs(1);
    for packet in 0..50 {
        pilot.on_sent(begin + INTERVAL * packet, 220, Some(slack), 0, None);
    }
    let link = LaneLink {
        share: loss,
        rtt: RoundTrip::from(latency * 2),
        is_random: true,
        takes_repair: true,
        strikes: 5,
        longer: Duration::ZERO,
        span: 64,
    };
    pilot.look(begin + INTERVAL * 50, &link);
    pilot.plan().predicted
}

#[test]
fn what_is_left_is_what_the_pilot_predicts() {
    let parameters = Parameters {
        detect_us: 20_000,
        late_us: 150_000,
        loss_us: 1_000_000,
    };
    let (mut cells, mut steps, mut off) = (0, 0, Vec::new());
    for latency_ms in [5, 10, 15, 20, 30, 40, 50, 60, 80, 100, 120, 150] {
        for loss in [
            0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.08, 0.1, 0.15, 0.2,
        ] {
            for run_256ths in [256, 300, 341, 384, 427, 512, 640, 717, 768, 896, 1_024] {
                for slack_ms in [30, 45, 60, 70, 90, 100, 130, 145] {
                    let run = f64::from(run_256ths) / 256.0;
                    let [latency, slack] = [latency_ms, slack_ms].map(Duration::from_millis);
                    let link = LinkCost::new(latency.as_micros() as u32, loss);
                    let lane = Lane {
                        run_256ths,
                        repair_16ths: 16,
                    };
                    let repair = Repair::new(5, link.loss, link.loss);
                    let link = LinkCost {
                        repair: Some(repair.with_lane(Some(lane))),
                        ..link
                    };
                    let left = left(link, slack.as_micros(), &parameters);
                    let piloted = piloted(Protect::Auto, link.loss_share(), run, latency, slack);
                    let differ = |least: f64| {
                        let [mine, theirs] = [left.share(), piloted].map(|it| it.max(least));
                        mine > 2.0 * theirs || theirs > 2.0 * mine
                    };
                    cells += 1;
                    // If a share leaves about the target, the pilot takes that share or the next, which leaves less by
                    // half or two thirds.
                    steps += usize::from(differ(TARGET / 100.0));
                    if differ(TARGET) {
                        let (mine, theirs) = (left.share(), piloted);
                        off.push(format!(
                            "T {latency_ms} ms, loss {loss}, run {run:.2}, slack {slack_ms} ms: {mine:.6} for {theirs:.6}"
                        ));
                    }
                }
            }
        }
    }
    assert!(steps * 30 < cells, "{steps} of {cells}");
    assert!(
        off.is_empty(),
        "{} of {cells}\n{}",
        off.len(),
        off.join("\n")
    );
}
