use super::*;

const PAPER: Parameters = Parameters {
    detect_us: 2_000,
    late_us: 100_000,
    loss_us: 0,
};

fn expected(latency_us: u32, loss: f64) -> u64 {
    cost(
        Metric::ExpectedLatency,
        LinkCost::new(latency_us, loss),
        &PAPER,
    )
    .0
}

#[test]
fn expected_latency_is_the_papers_formula() {
    for latency_us in [1, 700, 10_000, 33_000, 80_000, 400_000] {
        for loss in (0..=29_127u16).step_by(61) {
            let (t, p) = (f64::from(latency_us) / 1e3, f64::from(loss) / 65_536.0);
            let formula = (1.0 - p) * t
                + (p - 2.0 * p * p + 3.0 * p * p * p) * (3.0 * t + 2.0)
                + (2.0 * p * p - 3.0 * p * p * p) * 100.0;
            let got = cost(
                Metric::ExpectedLatency,
                LinkCost::of_share(latency_us, loss),
                &PAPER,
            );
            assert!(
                (got.0 as f64 / 1e6 - formula).abs() < 2e-6,
                "{latency_us} {loss}"
            );
        }
    }
}

#[test]
fn known_values() {
    // T = 10 ms: 0.95 · 10 + (0.05 − 0.005 + 0.000375) · 32 + (0.005 − 0.000375) · 100 ms.
    assert!(expected(10_000, 0.05).abs_diff(11_414_500) < 1_000);
    assert_eq!(expected(10_000, 0.0), 10_000_000);
    assert!(
        expected(10_000, 1.0).abs_diff(100_000_000) < 10_000,
        "a dead link costs Tmax"
    );
    let of = |metric, latency_us, loss| cost(metric, LinkCost::new(latency_us, loss), &PAPER).0;
    assert_eq!(of(Metric::Hops, 9, 0.5), 1);
    assert_eq!(of(Metric::Latency, 9, 0.5), 9_000);
    assert_eq!(of(Metric::Loss, 9, 0.5), 693_147_181 + 1);
    assert_eq!(of(Metric::Loss, 9, 0.0), 1);
    assert_eq!(of(Metric::Latency, 0, 0.0), 1);
    assert_eq!(of(Metric::ExpectedLatency, 0, 0.0), 1);
}

#[test]
fn loss_is_the_logarithm_for_every_share() {
    for loss in 0..=u16::MAX {
        let p = f64::from(loss) / 65_536.0;
        let got = minus_log_of_delivery(loss) as f64 - 1.0;
        assert!((got - -(-p).ln_1p() * 1e9).abs() <= 3.0, "{loss}: {got}");
    }
}

#[test]
fn a_worse_link_never_costs_less() {
    let parameters = [(2_000, 100_000), (0, 0), (50_000, 10_000), (1, u32::MAX)];
    for (detect_us, late_us) in parameters {
        let loss_us = 1_000_000;
        let parameters = Parameters {
            detect_us,
            late_us,
            loss_us,
        };
        for latency_us in [0, 1, 5_000, 40_000, 500_000, u32::MAX] {
            for metric in [Metric::Loss, Metric::ExpectedLatency] {
                let mut last = Cost(1);
                for loss in (0..=u16::MAX).step_by(17) {
                    let now = cost(metric, LinkCost::of_share(latency_us, loss), &parameters);
                    assert!(now >= last, "{metric} {latency_us} {loss}");
                    last = now;
                }
            }
        }
    }
}

#[test]
fn what_the_protection_leaves_is_what_counts() {
    let ms = |link: LinkCost| cost(Metric::ExpectedLatency, link, &PAPER).0 as f64 / 1e6;
    let protected = |latency_us, loss, back, strikes| {
        let link = LinkCost::new(latency_us, loss);
        let back = LinkCost::new(0, back).loss;
        let repair = Some(Repair::new(strikes, link.loss, back));
        LinkCost { repair, ..link }
    };
    // T = 10 ms, Δ = 2 ms, Tmax = 100 ms: the first answer after 32 ms, six more 10 ms apart.
    let one = protected(10_000, 0.05, 0.05, 1);
    let left = 0.05 * (1.0 - 0.95 * 0.95);
    let expected = 10.0 + (0.05 - left) * 22.0 + left * 90.0;
    assert!((ms(one) - expected).abs() < 1e-3, "{} {expected}", ms(one));
    let many = protected(10_000, 0.05, 0.05, 5);
    assert!(
        (ms(many) - (10.0 + 0.05 * 22.0)).abs() < 1e-3,
        "{}",
        ms(many)
    );
    // Requests that are lost also count.
    assert!(ms(protected(10_000, 0.05, 0.4, 1)) > ms(one));
    // A link that is too long for any answer keeps all its losses.
    let long = protected(33_000, 0.05, 0.0, 5);
    assert!(
        (ms(long) - (33.0 + 0.05 * 68.0)).abs() < 1e-2,
        "{}",
        ms(long)
    );
    let other = many.with_loss(protected(10_000, 0.2, 0.0, 5).loss);
    let (got, expected) = (other.repair, protected(10_000, 0.2, 0.05, 5).repair);
    let fails = |repair: Option<Repair>| repair.expect("it is known").fails;
    assert!(fails(got).abs_diff(fails(expected)) <= 2, "rounding");
}

#[test]
fn losses_burden_a_link_and_one_that_is_always_late_is_as_bad_as_outages() {
    let parameters = Parameters {
        detect_us: 20_000,
        late_us: 150_000,
        loss_us: 1_000_000,
    };
    let ms = |latency_ms: u32, p: f64| {
        let link = LinkCost::new(latency_ms * 1_000, p);
        let repair = Some(Repair::new(3, link.loss, link.loss));
        let link = LinkCost { repair, ..link };
        cost(Metric::ExpectedLatency, link, &parameters).0 as f64 / 1e6
    };
    // The link takes 46 ms and loses 7.7 % in the forward direction; the other path has a price of 64 ms.
    let lossy = ms(10, 0.0) + ms(64, 0.077);
    assert!(lossy > ms(46, 0.002) + 64.0, "{lossy}");
    let burden = ms(30, 0.05) - 30.0;
    assert!((50.0..60.0).contains(&burden), "{burden}");
    // A path of 279 ms is no better than a path of 20 ms that has just failed.
    assert!(ms(224, 0.001) + ms(55, 0.002) > ms(20, 0.0) + 256.0);
    assert!(ms(149, 0.0) < 150.0);
}

#[test]
fn outages_have_a_price_and_silence_is_dearer_than_any_path() {
    let with = |price_us| LinkCost {
        price_us,
        ..LinkCost::new(20_000, 0.0)
    };
    let of = |metric, price_us| cost(metric, with(price_us), &PAPER);
    assert_eq!(of(Metric::ExpectedLatency, 64_000).0, 84_000_000);
    assert_eq!(of(Metric::Latency, 64_000).0, 84_000_000);
    assert_eq!(of(Metric::Hops, 64_000), Cost(4));
    let loss = Metric::Loss.in_natural_unit(of(Metric::Loss, 75_000));
    assert!((loss - 0.05).abs() < 1e-3, "{loss}");
    for metric in Metric::ALL {
        let mut path = Cost::default();
        for _ in 0..1_000 {
            let worst = LinkCost {
                price_us: SILENT - 1,
                ..LinkCost::of_share(u32::MAX, u16::MAX)
            };
            path = path + cost(metric, worst, &PAPER);
        }
        assert!(!path.is_silent(), "{metric}");
        assert!(of(metric, SILENT).is_silent() && of(metric, SILENT) > path);
        let two = of(metric, SILENT) + of(metric, SILENT);
        assert!(two > of(metric, SILENT), "fewer silent links are better");
    }
}

#[test]
fn a_link_that_is_in_time_now_and_then_is_better_than_one_that_is_always_late() {
    let parameters = Parameters {
        detect_us: 20_000,
        late_us: 150_000,
        loss_us: 1_000_000,
    };
    let ms = |latency_ms: u32, price_ms: u32, loss: f64| {
        let link = LinkCost {
            price_us: price_ms * 1_000,
            repair: Some(Repair {
                strikes: 2,
                fails: 6_554,
                lane: None,
            }),
            ..LinkCost::new(latency_ms * 1_000, loss)
        };
        cost(Metric::ExpectedLatency, link, &parameters).0 as f64 / 1e6
    };
    assert!(
        ms(26, 256, 0.3) < ms(70, 0, 0.0) + ms(80, 0, 0.0),
        "a detour that is late"
    );
    assert!(
        ms(26, 256, 0.0) > ms(40, 0, 0.0) + ms(75, 0, 0.0),
        "one in time"
    );
    assert!(ms(160, 64, 0.0) > ms(160, 0, 0.0) + ms(60, 0, 0.0));
    // Up to half of the room, a price costs its full amount. Beyond that, the order of links stays, and so does the
    // latency.
    assert_eq!(ms(50, 50, 0.0), 100.0);
    let prices = [0, 16, 64, 256, 1_024, 4_000_000];
    let mut before = 0.0;
    for price in prices {
        for latency in [0, 50, 100, 149] {
            assert!(ms(latency, price, 0.0) >= f64::from(latency));
            assert!(ms(latency, price, 0.0) <= 150.0);
        }
        assert!(ms(50, price, 0.0) > before, "{price}");
        before = ms(50, price, 0.0);
    }
    assert!(ms(20, 0, 0.3) < ms(20, 0, 0.4));
}

#[test]
fn costs_read_in_natural_units() {
    let link = LinkCost::new(10_000, 0.25);
    let natural = |m: Metric| m.in_natural_unit(cost(m, link, &PAPER));
    assert_eq!(natural(Metric::Latency), 10.0);
    assert!((natural(Metric::Loss) - 0.25).abs() < 1e-6);
    for metric in Metric::ALL {
        assert_eq!(metric.to_string().parse(), Ok(metric));
        assert_eq!(Metric::ALL[metric.index()], metric);
    }
    assert_eq!("fast".parse::<Metric>(), Err(UnknownMetric));
}
