use super::*;
use crate::metric::{Cost, Metric, cost};

const CALLS: Parameters = Parameters {
    detect_us: 20_000,
    late_us: 150_000,
    loss_us: 1_000_000,
};

/// Returns a link of `latency_ms` that loses `percent` in both directions, and that is protected as a lane with these
/// numbers.
fn link(latency_ms: u32, percent: f64, run_256ths: u16, repair_16ths: u8, strikes: u8) -> LinkCost {
    let link = LinkCost::new(latency_ms * 1_000, percent / 100.0);
    let lane = Lane {
        run_256ths,
        repair_16ths,
    };
    let repair = Repair::new(strikes, link.loss, link.loss).with_lane(Some(lane));
    LinkCost {
        repair: Some(repair),
        ..link
    }
}

fn percent(link: LinkCost, slack_ms: u64) -> f64 {
    left(link, slack_ms * 1_000, &CALLS).share() * 100.0
}

/// 60 ms are two packets that follow. A lost packet stays lost if its repair packet is lost, and if of each of the next
/// two packets with their repair packets one is lost: about 4·p⁴.
#[test]
fn a_long_link_is_left_what_repair_leaves() {
    for latency in [50, 80, 150] {
        let protected = percent(link(latency, 5.0, 256, 16, 5), 60);
        let formula = 100.0 * 4.0 * 0.05f64.powi(4);
        let ratio = protected / formula;
        assert!((0.5..=2.0).contains(&ratio), "{protected} for {formula}");
        let asks = percent(link(latency, 5.0, 256, 0, 5), 60);
        assert!((4.99..5.01).contains(&asks), "{asks}");
        // Longer runs leave more losses, and so does a lower cap.
        let bursts = percent(link(latency, 5.0, 1_024, 16, 5), 60);
        let little = percent(link(latency, 5.0, 256, 4, 5), 60);
        assert!(protected < bursts && bursts < asks, "{bursts}");
        assert!(protected < little && little < asks, "{little}");
    }
    // If there is no time, there is no protection.
    assert!(percent(link(50, 5.0, 256, 32, 5), 3) > 4.99);
    assert!(percent(link(10, 5.0, 256, 0, 0), 140) > 4.99, "nobody asks");
    assert!(percent(link(10, 5.0, 256, 0, 5), 140) < 0.05, "requests do");
}

#[test]
fn more_time_and_more_repair_leave_no_more_and_more_loss_no_less() {
    for latency in [5, 20, 45, 80, 140] {
        for run in [0, 256, 300, 512, 900, 1_536, u16::MAX] {
            for cap in [0, 3, 4, 8, 16, 32, 255] {
                for slack in [0, 10, 25, 45, 60, 99, 140, 400] {
                    let mut least = 0;
                    for loss in (0..=u16::MAX).step_by(61) {
                        let whole = link(latency, 0.0, run, cap, 5);
                        // The loss of its requests is unchanged.
                        let link = LinkCost { loss, ..whole };
                        let now = left(link, slack * 1_000, &CALLS);
                        let most = u64::from(loss) << 16;
                        assert!(now.all <= now.requests && now.requests <= most);
                        let place = format!("{latency} {run} {cap} {slack} {loss}");
                        assert!(now.compared() >= least, "{place}");
                        assert!(now.compared() <= now.requests, "{place}");
                        least = now.compared();
                    }
                }
            }
        }
    }
    let shares = [0, 4, 8, 16, 32].map(|cap| percent(link(80, 8.0, 512, cap, 5), 65));
    assert!(shares.is_sorted_by(|a, b| a >= b), "{shares:?}");
    let shares = [5, 25, 45, 65, 85, 105, 145].map(|ms| percent(link(80, 8.0, 512, 16, 5), ms));
    assert!(shares.is_sorted_by(|a, b| a >= b), "{shares:?}");
}

/// A node that lies about its protection cannot make its link look better than a link that loses nothing.
#[test]
fn no_protection_makes_a_link_cheaper_than_one_that_loses_nothing() {
    let bytes: [u8; 5] = [0, 1, 4, 16, 255];
    for latency in [0, 1, 10, 60, 149, 150, 400] {
        for metric in Metric::ALL {
            let honest = cost(metric, LinkCost::new(latency * 1_000, 0.0), &CALLS);
            for loss in [0.0, 0.1, 1.0, 20.0, 60.0, 100.0] {
                for (run, cap) in bytes
                    .iter()
                    .flat_map(|run| bytes.map(|cap| (u16::from(*run) * 257, cap)))
                {
                    for strikes in [0, 1, 255] {
                        let lie = link(latency, loss, run, cap, strikes);
                        assert!(cost(metric, lie, &CALLS) >= honest, "{lie:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_long_link_that_is_repaired_is_better_than_a_detour_and_one_that_is_not_is_worse() {
    let of = |link: LinkCost| cost(Metric::ExpectedLatency, link, &CALLS);
    // The choice is between 60 ms that lose 5 %, and twice 60 ms that lose nothing.
    let detour = of(link(60, 0.0, 256, 16, 5)) + of(link(60, 0.0, 256, 16, 5));
    assert!(of(link(60, 5.0, 341, 16, 5)) < detour);
    assert!(of(link(60, 5.0, 341, 0, 5)) > detour);
    // A packet that repair saves arrives some packets later.
    assert!(of(link(60, 5.0, 341, 16, 5)) > Cost(61_000_000));
}

#[test]
fn what_nobody_tells_of_is_left_what_requests_leave() {
    let told = link(10, 5.0, 256, 16, 5);
    let old = LinkCost {
        repair: told.repair.map(|repair| repair.with_lane(None)),
        ..told
    };
    // 140 ms: an answer after 40 ms, and one every 10 ms after that. q = 1 - 0.95^2.
    let q: f64 = 1.0 - 0.95 * 0.95;
    assert!((percent(old, 65) - 5.0 * q.powi(3)).abs() < 1e-3);
    let paper = LinkCost {
        repair: None,
        ..told
    };
    let p = 0.05;
    let formula = 100.0 * (2.0 * p * p - 3.0 * p * p * p);
    assert!(
        (percent(paper, 1) - formula).abs() < 1e-3,
        "whatever the time"
    );
}
