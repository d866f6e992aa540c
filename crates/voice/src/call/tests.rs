use super::*;
use crate::sample;

/// Draws losses with the given mean rate and conditional probability, from a fixed seed: both as [Amir06 §II-C] defines
/// them.
fn losses(packets: usize, rate: f64, burst: f64, seed: u64) -> Vec<Option<u64>> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut uniform = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    let first = rate * (1.0 - burst) / (1.0 - rate);
    let mut lost = false;
    (0..packets)
        .map(|_| {
            lost = uniform() < if lost { burst } else { first };
            (!lost).then_some(50_000)
        })
        .collect()
}

/// Returns an original that is prepared once for all tests, as a host would do for all calls.
fn original() -> &'static Original {
    static ORIGINAL: OnceLock<Original> = OnceLock::new();
    ORIGINAL.get_or_init(|| Original::new(&sample::speech(), Law::Mu).unwrap())
}

#[test]
fn a_call_without_loss_scores_the_ceiling() {
    let original = original();
    let call = original
        .evaluate(&vec![Some(50_000); 1800], Some(150_000))
        .unwrap();
    assert_eq!(call.scores, original.ceiling());
    // The shortcut and the full computation give the same scores.
    assert_eq!(original.reference.score(&call.received), call.scores);
    assert_eq!((call.lost(), call.late(), call.totals.played), (0, 0, 1800));
    assert_eq!(call.burst_ratio, 1.0);
    assert_eq!(call.jitter_us, 0);
    assert_eq!(call.mouth_to_ear_us, 173_750);
    assert_eq!(call.delay.unwrap().p99_us, 50_000);
    assert_eq!(call.satisfaction(), "satisfied");
    assert_eq!(call.received.len(), sample::speech().len());
}

#[test]
fn scores_fall_with_loss() {
    let original = original();
    let mean = |rate| {
        let calls = (1..=4).map(|seed| {
            let delays = losses(1800, rate, 0.25, 77 * seed);
            original.evaluate(&delays, Some(150_000)).unwrap()
        });
        let mut all = Scores::default();
        calls.for_each(|call| all.extend(call.scores.0));
        all.raw_mean().unwrap().0
    };
    let by_loss = [mean(0.0), mean(0.01), mean(0.05), mean(0.2)];
    assert!(by_loss.is_sorted_by(|a, b| a - 0.1 > *b), "{by_loss:?}");
    // "on average, the G.711 codec can handle up to 1% loss rate, while keeping a PESQ score
    // higher than 4.0" [Amir06 §II-C]. Four calls are few, hence the margin.
    assert!(by_loss[1] > 3.95, "{by_loss:?}");
    assert!((3.0..3.6).contains(&by_loss[2]), "{by_loss:?}");
}

#[test]
fn late_packets_sound_as_lost_ones() {
    let original = original();
    let lost = losses(1800, 0.02, 0.0, 7);
    let late: Vec<_> = lost.iter().map(|delay| delay.or(Some(150_001))).collect();
    let lost = original.evaluate(&lost, Some(150_000)).unwrap();
    let waiting = original.evaluate(&late, None).unwrap();
    let late = original.evaluate(&late, Some(150_000)).unwrap();
    assert_eq!(lost.received, late.received);
    assert_eq!(lost.scores, late.scores);
    assert_eq!(lost.lost(), late.late());
    assert_eq!(lost.rating, late.rating);
    assert_eq!(waiting.scores, original.ceiling());
    assert_eq!(waiting.mouth_to_ear_us, 173_751);
}

#[test]
fn a_call_that_never_arrives_is_the_worst_and_nothing_breaks() {
    let original = original();
    let call = original.evaluate(&vec![None; 1800], Some(150_000)).unwrap();
    assert_eq!((call.lost(), call.delay, call.jitter_us), (1800, None, 0));
    assert!(call.received.iter().all(|&s| s == 0));
    assert_eq!(call.scores.0.len(), 3);
    assert!(call.pesq_raw_mean().unwrap().0 < 1.5, "{:?}", call.scores);
    assert_eq!(call.satisfaction(), "not recommended");
    assert!(call.mos() < 1.5);
}

/// A host may score calls on all its cores.
#[test]
fn an_original_can_be_shared_between_threads() {
    fn shared<T: Send + Sync>(_: &T) {}
    shared(original());
}

#[test]
fn arrivals_must_match_the_packets() {
    let error = original().evaluate(&[Some(1)], None).unwrap_err();
    let expected = CallError::Arrivals {
        expected: 1800,
        given: 1,
    };
    assert_eq!(error, expected);
    let silent = Original::new(&[0; 96_000], Law::A).unwrap_err();
    assert_eq!(silent, CallError::Score(ScoreError::NoSpeech));
}

#[test]
fn delay_percentiles_are_nearest_rank() {
    let delays: Vec<_> = (1..=200)
        .rev()
        .map(|n| Some(n * 1000))
        .chain([None])
        .collect();
    let expected = Delay {
        mean_us: 100_500,
        p50_us: 100_000,
        p95_us: 190_000,
        p99_us: 198_000,
    };
    assert_eq!(Delay::of(&delays), Some(expected));
    assert_eq!(Delay::of(&[None, Some(7)]).unwrap().p99_us, 7);
    assert_eq!(Delay::of(&[None]), None);
    assert_eq!(Delay::of(&[Some(u64::MAX); 3]).unwrap().mean_us, u64::MAX);
}

#[test]
fn jitter_follows_rfc_3550() {
    // One step of 16 ms: J becomes 1 ms and then decays by 15/16.
    let delays = [Some(50_000), Some(66_000), Some(66_000)];
    assert_eq!(jitter_us(&delays), 969); // the mean of 1000 and 937.5
    // Alternating by 16 ms for ever approaches 16 ms.
    let delays: Vec<_> = (0..5000).map(|n| Some(50_000 + n % 2 * 16_000)).collect();
    assert!((15_900..=16_000).contains(&jitter_us(&delays)));
    assert_eq!(jitter_us(&[None, Some(5), None]), 0);
    assert_eq!(jitter_us(&[]), 0);
    // Lost packets leave a gap in sending, which is not jitter.
    assert_eq!(jitter_us(&[Some(9), None, None, Some(9)]), 0);
}

#[test]
fn what_came_altered_is_heard_and_scored() {
    let original = original();
    let on_time = vec![Some(50_000); 1800];
    let judged = |altered: &Altered| {
        let judged = original.evaluate_heard(&on_time, altered, Some(150_000));
        judged.unwrap()
    };
    let whole = judged(&Altered::new());
    assert_eq!(whole.scores, original.ceiling());
    // Every twentieth packet has other bytes: no packet is missed, and all are heard.
    let altered: Altered = original
        .packets()
        .iter()
        .zip(0..)
        .filter(|(_, index)| index % 20 == 0)
        .map(|(frame, index)| (index, frame.map(|code| code ^ 0x55)))
        .collect();
    let altered = judged(&altered);
    assert_eq!(altered.totals, whole.totals);
    let (good, bad) = (
        whole.pesq_raw_mean().unwrap(),
        altered.pesq_raw_mean().unwrap(),
    );
    assert!(bad.0 < good.0 - 0.5, "{bad:?} {good:?}");
    assert_ne!(altered.received, whole.received);
    // A payload that arrives as it was sent is as good as one that is not listed.
    let same = Altered::from([(3, original.packets()[3]), (9_999, [0; FRAME_SAMPLES])]);
    assert_eq!(judged(&same), whole);
}
