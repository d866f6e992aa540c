use super::*;

fn call(delay_ms: u64, missed: f64, burst_ratio: f64) -> Rating {
    Parameters::for_call(delay_ms * 1000, missed, burst_ratio, Concealment::AppendixI).rate()
}

#[test]
fn all_defaults_give_the_value_of_the_recommendation() {
    let rating = Parameters::default().rate();
    assert!((rating.r - 93.2).abs() < 0.05, "{rating:?}");
    assert!((rating.signal_to_noise - 94.77).abs() < 0.01, "{rating:?}");
    assert!((rating.simultaneous - 1.41).abs() < 0.01, "{rating:?}");
    assert!((rating.mos() - 4.41).abs() < 0.005, "{}", rating.mos());
}

#[test]
fn mos_follows_annex_b() {
    for (r, expected) in [
        (90.0, 4.34),
        (80.0, 4.03),
        (70.0, 3.60),
        (60.0, 3.10),
        (50.0, 2.58),
    ] {
        assert!((mos(r) - expected).abs() < 0.01, "{r}: {}", mos(r));
    }
    assert_eq!(mos(-20.0), 1.0);
    assert_eq!(mos(3.0), 1.0);
    assert_eq!(mos(100.0), 4.5);
    assert_eq!(mos(250.0), 4.5);
}

#[test]
fn delay_impairment_vanishes_below_100_ms_and_matches_the_formula_at_powers_of_two() {
    assert_eq!(call(100, 0.0, 1.0).absolute_delay, 0.0);
    // x = 1 at 200 ms: 25·(2^⅙ − 3·(1 + 3⁻⁶)^⅙ + 2).
    let expected = 25.0 * (2_f64.powf(1.0 / 6.0) - 3.0 * (730_f64 / 729.0).powf(1.0 / 6.0) + 2.0);
    assert!((call(200, 0.0, 1.0).absolute_delay - expected).abs() < 1e-9);
    // x = 2 at 400 ms: 25·(65^⅙ − 3·(793/729)^⅙ + 2).
    let expected = 25.0 * (65_f64.powf(1.0 / 6.0) - 3.0 * (793_f64 / 729.0).powf(1.0 / 6.0) + 2.0);
    assert!((call(400, 0.0, 1.0).absolute_delay - expected).abs() < 1e-9);
}

#[test]
fn talker_echo_grows_with_delay_and_with_less_echo_loss() {
    let echo = |delay_ms: f64, loss_db: f64| {
        let parameters = Parameters {
            echo_delay_ms: delay_ms,
            talker_echo_db: loss_db,
            ..Parameters::default()
        };
        parameters.rate().talker_echo
    };
    assert_eq!(echo(0.5, 65.0), 0.0);
    // By hand at T = 150 ms, TELR = 65 dB: TERV = 65 − 40·lg(16/2) = 28.876,
    // Re = 80 + 2.5·14.876 = 117.191, Roe = −1.5·(−61.179 − 2) = 94.769;
    // (Roe − Re)/2 = −11.211, −11.211 + √(125.69 + 100) − 1 = 2.812.
    assert!(
        (echo(150.0, 65.0) - 2.812).abs() < 0.005,
        "{}",
        echo(150.0, 65.0)
    );
    assert!(echo(150.0, 45.0) > 20.0);
    assert!(echo(300.0, 65.0) > echo(150.0, 65.0));
}

#[test]
fn sidetone_changes_the_echo_terms_at_its_extremes() {
    let with = |sidetone_db| {
        let parameters = Parameters {
            sidetone_db,
            echo_delay_ms: 100.0,
            ..Parameters::default()
        };
        parameters.rate()
    };
    assert!(with(8.0).talker_echo < with(10.0).talker_echo);
    assert!(with(25.0).talker_echo > with(15.0).talker_echo);
}

#[test]
fn loss_impairs_as_g113_says() {
    // Ppl = Bpl halves the scale: 95/2.
    assert!((call(0, 0.251, 1.0).equipment - 47.5).abs() < 1e-9);
    let bare = Parameters::for_call(0, 0.043, 1.0, Concealment::None).rate();
    assert!((bare.equipment - 47.5).abs() < 1e-9);
    // 1 % of random loss with concealment costs 95/26.1.
    assert!((call(0, 0.01, 1.0).equipment - 95.0 / 26.1).abs() < 1e-9);
    assert!(call(0, 0.05, 2.0).equipment > call(0, 0.05, 1.0).equipment);
    assert_eq!(call(0, 0.05, 0.2).equipment, call(0, 0.05, 1.0).equipment);
}

#[test]
fn r_never_rises_with_delay_or_loss_and_stays_finite() {
    for loss in 0..=100 {
        let mut before = f64::INFINITY;
        for delay_ms in (0..2000).step_by(20) {
            let r = call(delay_ms, f64::from(loss) / 100.0, 1.0).r;
            assert!(
                r.is_finite() && r <= before + 1e-9,
                "{delay_ms} ms, {loss} %"
            );
            before = r;
        }
    }
    for delay_ms in [0, 100, 400] {
        let ratings = (0..=100).map(|loss| call(delay_ms, f64::from(loss) / 100.0, 1.0).r);
        assert!(ratings.is_sorted_by(|a, b| a > b));
    }
    assert!(call(u64::MAX / 1000, 1.0, f64::INFINITY).r.is_finite());
}

#[test]
fn burst_ratio_of_known_sequences() {
    let ratio = |s: &str| burst_ratio(s.bytes().map(|b| b == b'x'));
    assert_eq!(ratio(""), 1.0);
    assert_eq!(ratio("........"), 1.0);
    assert_eq!(ratio("xxxx"), 1.0);
    // p = 1/4: random losses would form runs of 4/3.
    assert_eq!(ratio("x...x...x..."), 0.75);
    assert_eq!(ratio("xxx........."), 2.25);
    assert_eq!(ratio(".xx...x..."), 1.5 * 0.7);
}

#[test]
fn classes_are_those_of_the_tables() {
    assert_eq!(satisfaction(93.2), "very satisfied");
    assert_eq!(satisfaction(79.9), "some users satisfied");
    assert_eq!(satisfaction(-3.0), "not recommended");
    assert_eq!(delay_class(149_999), "not noticeable");
    assert_eq!(
        delay_class(250_000),
        "acceptable, slight speech impairments"
    );
    assert_eq!(
        delay_class(250_001),
        "unacceptable, conversation is inefficient"
    );
    assert_eq!(jitter_class(39_999), "not noticeable");
    assert_eq!(jitter_class(75_000), "acceptable, minor impairments");
    assert_eq!(jitter_class(75_001), "unacceptable, too much jitter");
}

#[test]
fn codecs_impair_as_g113_says() {
    let rate = |codec, missed| {
        Parameters::for_codec(codec, 0, missed, 1.0)
            .rate()
            .equipment
    };
    // With no loss the result is Ie. With Ppl = Bpl it is halfway from Ie to 95.
    for (codec, ie, bpl) in [
        (Codec::Pcmu, 0.0, 25.1),
        (Codec::G729, 11.0, 19.0),
        (Codec::G723, 15.0, 16.1),
    ] {
        assert!((rate(codec, 0.0) - ie).abs() < 1e-9);
        assert!((rate(codec, bpl / 100.0) - (ie + 95.0) / 2.0).abs() < 1e-9);
    }
    assert_eq!(Codec::from_name("pcma"), Some(Codec::Pcma));
    assert_eq!(Codec::from_name("L16"), None);
}

#[test]
fn runs_can_be_counted_as_packets_come() {
    let mut runs = Runs::default();
    for missed in [false, true, true, false] {
        runs.push(missed);
    }
    runs.push_missed(3);
    runs.push_missed(0);
    runs.end_run();
    runs.push(true);
    assert_eq!((runs.total, runs.missed, runs.runs), (8, 6, 3));
    assert_eq!(runs.burst_ratio(), 2.0 * 0.25);
}
