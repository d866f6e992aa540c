//! These tests check what holds for every member of the family, whatever happens to it.

use super::*;
use crate::delivery::Sample;
use proptest::prelude::*;

/// Returns an ordinary acknowledgement of `segments` by a sender that its window limits.
pub(crate) fn ack(segments: f64) -> Acked {
    let rtt = Duration::from_millis(100);
    Acked {
        now: Time::ZERO + rtt,
        segments,
        bytes: (segments * 1000.0) as u64,
        rtt: Some(rtt),
        in_flight: segments,
        limited: true,
        receive_rate_bps: None,
        receive_jitter: None,
        srtt: rtt,
    }
}

#[derive(Clone, Debug)]
enum Happens {
    Ack {
        segments: u8,
        limited: bool,
        rtt_ms: u16,
        rate_kbps: u32,
    },
    Delivered {
        segments: u8,
        lost: u8,
        rtt_ms: u16,
        interval_ms: u16,
        in_flight: u16,
        limited: bool,
    },
    Loss,
    Mark,
    Recovered,
    Partial,
    Timeout,
    Idle {
        ms: u32,
    },
}

fn anything() -> impl Strategy<Value = Vec<(u16, Happens)>> {
    let happens = prop_oneof![
        8 => (1..20_u8, any::<bool>(), 1..2000_u16, any::<u32>()).prop_map(
            |(segments, limited, rtt_ms, rate_kbps)| Happens::Ack { segments, limited, rtt_ms, rate_kbps }),
        8 => (1..20_u8, 0..20_u8, 1..2000_u16, any::<u16>(), any::<u16>(), any::<bool>()).prop_map(
            |(segments, lost, rtt_ms, interval_ms, in_flight, limited)| Happens::Delivered {
                segments, lost, rtt_ms, interval_ms, in_flight, limited,
            }),
        1 => Just(Happens::Loss),
        1 => Just(Happens::Mark),
        1 => Just(Happens::Recovered),
        1 => Just(Happens::Partial),
        1 => Just(Happens::Timeout),
        1 => any::<u32>().prop_map(|ms| Happens::Idle { ms }),
    ];
    prop::collection::vec((any::<u16>(), happens), 1..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_member_leaves_its_bounds_or_grows_by_bad_news(
        course in anything(),
        max in 1.0..200.0_f64,
        initial in 1.0..20.0_f64,
    ) {
        let settings = Settings {
            max_window: max,
            initial_window: initial,
            minimum_window: 1.0,
            ..Settings::default()
        };
        for family in Family::ALL {
            let mut control = family.control(settings);
            let (mut now, mut total) = (Time::ZERO, 0.0);
            for (wait_ms, happens) in &course {
                now += Duration::from_millis(u64::from(*wait_ms));
                total += 7.0;
                let (before, aborts) = (control.window(), control.aborts_timeout());
                apply(control.as_mut(), now, total, happens);
                let after = control.window();
                prop_assert!((1.0..=max.max(1.0)).contains(&after), "{family}: {after} after {happens:?}");
                prop_assert!(control.threshold() >= 1.0, "{family}: {}", control.threshold());
                match happens {
                    Happens::Ack { segments, limited, .. } => {
                        prop_assert!(after <= before + f64::from(*segments), "{family}: {before} to {after}");
                        prop_assert!(*limited || after <= before, "{family} grew unused");
                    }
                    // Only BBR uses this. It returns to its model's window or to the window before it emptied the path.
                    Happens::Delivered { .. } => {
                        prop_assert!(after == before || family == Family::Bbr, "{family}");
                        prop_assert!(control.pace().is_none_or(|pace| pace.is_finite() && pace > 0.0));
                    }
                    // Vegas restarts from two segments, as in its authors' code and in ns-2.
                    Happens::Timeout if aborts => {
                        prop_assert!(after == before && family == Family::Real, "{family}");
                        prop_assert!(!control.aborts_timeout(), "{family} aborts twice");
                    }
                    Happens::Timeout => prop_assert!(
                        after == 1.0 || (family == Family::Vegas && after <= 2.0),
                        "{}: {}", family, after
                    ),
                    // Vegas cuts to two segments at least.
                    _ => prop_assert!(
                        after <= before || (family == Family::Vegas && after <= 2.0),
                        "{family}: {before} to {after} after {happens:?}"
                    ),
                }
            }
        }
    }

    #[test]
    fn the_same_course_gives_the_same_windows(course in anything()) {
        for family in Family::ALL {
            let run = || {
                let mut control = family.control(Settings::default());
                let (mut now, mut total) = (Time::ZERO, 0.0);
                for (wait_ms, happens) in &course {
                    now += Duration::from_millis(u64::from(*wait_ms));
                    total += 7.0;
                    apply(control.as_mut(), now, total, happens);
                }
                control.window().to_bits()
            };
            prop_assert_eq!(run(), run());
        }
    }
}

/// After a partial acknowledgement, CUBIC's window must not jump back to Reno's estimate with the next segment.
#[test]
fn a_deflated_window_does_not_jump() {
    let mut control = Family::Cubic.control(Settings::default());
    let ack = |segments| Happens::Ack {
        segments,
        limited: true,
        rtt_ms: 6,
        rate_kbps: 1_000,
    };
    let ms = |n| Time::ZERO + Duration::from_millis(n);
    let course = [Happens::Timeout, Happens::Loss, ack(5), Happens::Partial];
    for (n, happens) in course.iter().enumerate() {
        apply(control.as_mut(), ms(n as u64), 0.0, happens);
    }
    let before = control.window();
    apply(control.as_mut(), ms(100), 0.0, &ack(2));
    let after = control.window();
    assert!(
        after > before && after <= before + 2.0,
        "{before} to {after}"
    );
}

fn apply(control: &mut dyn Control, now: Time, total: f64, happens: &Happens) {
    let in_flight = control.window();
    match happens {
        Happens::Ack {
            segments,
            limited,
            rtt_ms,
            rate_kbps,
        } => {
            let rtt = Duration::from_millis(u64::from(*rtt_ms));
            control.on_ack(&Acked {
                now,
                limited: *limited,
                rtt: Some(rtt),
                in_flight,
                receive_rate_bps: Some(u64::from(*rate_kbps) * 1000),
                receive_jitter: Some(rtt.div(10)),
                ..ack(f64::from(*segments))
            });
        }
        Happens::Delivered {
            segments,
            lost,
            rtt_ms,
            interval_ms,
            in_flight,
            limited,
        } => control.on_delivered(&Delivered {
            now,
            segments: f64::from(*segments),
            lost: f64::from(*lost),
            total,
            rtt: Some(Duration::from_millis(u64::from(*rtt_ms))),
            in_flight: f64::from(*in_flight),
            limited: *limited,
            sample: Some(Sample {
                segments: f64::from(*segments),
                interval: Duration::from_millis(u64::from(*interval_ms)),
                prior: total - 50.0,
                in_flight: f64::from(*in_flight),
                of_application: !limited,
            }),
        }),
        Happens::Loss => control.on_congestion(now, in_flight, Congestion::Loss),
        Happens::Mark => control.on_congestion(now, in_flight, Congestion::Explicit),
        Happens::Recovered => control.on_recovered(now),
        Happens::Partial => control.on_partial(2.0),
        Happens::Timeout => control.on_timeout(now, in_flight),
        Happens::Idle { ms } => control.on_idle(
            Duration::from_millis(u64::from(*ms)),
            Duration::from_millis(200),
        ),
    }
}
