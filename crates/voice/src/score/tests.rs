use super::*;
use crate::g711::Law;
use crate::sample;

fn scores(values: &[f32]) -> Scores {
    Scores(values.iter().map(|&v| RawPesq(v)).collect())
}

#[test]
fn the_two_scales_map_as_p862_1_says() {
    // The values are y = 0.999 + 4/(1 + exp(−1.4945·x + 4.6607)), worked out by hand.
    for (raw, lqo) in [
        (4.5, 4.549),
        (4.0, 4.154),
        (3.0, 2.822),
        (1.0, 1.160),
        (-0.5, 1.017),
    ] {
        assert!(
            (RawPesq(raw).mos_lqo().0 - lqo).abs() < 0.002,
            "{raw}: {}",
            RawPesq(raw).mos_lqo()
        );
    }
    assert_eq!(RawPesq(4.0).to_string(), "4.00 (raw P.862)");
    assert_eq!(
        RawPesq(4.0).mos_lqo().to_string(),
        "4.15 (MOS-LQO, P.862.1)"
    );
}

#[test]
fn identical_speech_scores_the_top_of_the_scale() {
    let speech = sample::speech();
    let reference = Reference::new(&speech[..SEGMENT_SAMPLES]).unwrap();
    assert_eq!(reference.score(&speech[..SEGMENT_SAMPLES]), scores(&[4.5]));
}

#[test]
fn a_whole_number_of_segments_and_a_long_rest_are_scored() {
    let cut = |samples| cut(samples).collect::<Vec<_>>();
    assert_eq!(cut(2000), [(0, 2000)]);
    assert_eq!(cut(96_000), [(0, 96_000)]);
    assert_eq!(cut(96_000 + 47_999), [(0, 96_000)]);
    assert_eq!(cut(96_000 + 48_000), [(0, 96_000), (96_000, 144_000)]);
    assert_eq!(cut(288_000).len(), 3);
}

#[test]
fn silent_segments_are_left_out_and_silence_alone_is_an_error() {
    let mut speech = sample::speech()[..SEGMENT_SAMPLES].to_vec();
    speech.splice(0..0, [0; SEGMENT_SAMPLES]);
    let reference = Reference::new(&speech).unwrap();
    let range = reference.segments().next();
    assert_eq!(
        (reference.segments().len(), range),
        (1, Some(96_000..192_000))
    );
    assert_eq!(
        Reference::new(&[0; 5000]).unwrap_err(),
        ScoreError::NoSpeech
    );
    let short = ScoreError::TooShort { samples: 1999 };
    assert_eq!(Reference::new(&[1000; 1999]).unwrap_err(), short);
}

#[test]
fn what_was_heard_may_be_anything() {
    let speech = &sample::speech()[..SEGMENT_SAMPLES];
    let reference = Reference::new(speech).unwrap();
    let score = |heard: &[i16]| reference.score(heard).0;
    assert_eq!(score(&speech[..1000]), []);
    for level in [0, 1, i16::MAX, i16::MIN] {
        let [raw] = score(&[level; SEGMENT_SAMPLES])[..] else {
            panic!("one segment, one score");
        };
        assert!((-0.5..2.0).contains(&raw.0), "{level}: {raw}");
    }
}

#[test]
fn a_longer_outage_never_scores_better() {
    let speech = &sample::speech()[..SEGMENT_SAMPLES];
    let reference = Reference::new(speech).unwrap();
    let scores = [0, 1, 2, 4, 6, 8, 10, 11, 12].map(|seconds| {
        let mut heard = speech.to_vec();
        heard[..seconds * 8000].fill(0);
        reference.score(&heard).0[0].0
    });
    assert!(scores.is_sorted_by(|a, b| a >= b), "{scores:?}");
    // P.862 gives 3.04 to the 30 packets from the 70th on: a twentieth of the speech.
    let mut heard = vec![0; SEGMENT_SAMPLES];
    let packets = 70 * 160..100 * 160;
    heard[packets.clone()].copy_from_slice(&speech[packets]);
    assert_eq!(reference.score(&heard).0, [RawPesq(-0.5)]);
}

#[test]
fn mean_and_percentile() {
    assert_eq!(Scores::default().raw_mean(), None);
    assert_eq!(Scores::default().raw_p5(), None);
    let three = scores(&[4.0, 3.0, 2.0]);
    assert_eq!(three.raw_mean(), Some(RawPesq(3.0)));
    assert_eq!(three.raw_p5(), Some(RawPesq(2.0)));
    let sixty: Vec<f32> = (0..60).map(|n| n as f32 / 15.0).collect();
    assert_eq!(scores(&sixty).raw_p5(), Some(RawPesq(2.0 / 15.0)));
    let lqo = three.0.iter().map(|s| s.mos_lqo().0).sum::<f32>() / 3.0;
    assert!((three.lqo_mean().unwrap().0 - lqo).abs() < 1e-6);
    assert_eq!(three.lqo_p5(), Some(RawPesq(2.0).mos_lqo()));
}

#[test]
fn noise_is_worse_than_the_codec() {
    let speech = &sample::speech()[..SEGMENT_SAMPLES];
    let reference = Reference::new(speech).unwrap();
    let coded = Law::A.decode_all(&Law::A.encode_all(speech));
    let noisy: Vec<i16> = coded
        .iter()
        .zip(0_i64..)
        .map(|(&s, n)| s.saturating_add(((n * n * 7919 + n * 31) % 1001 - 500) as i16))
        .collect();
    let (coded, noisy) = (reference.score(&coded).0[0], reference.score(&noisy).0[0]);
    assert!(coded.0 > 4.2 && noisy.0 < coded.0 - 0.5, "{coded}, {noisy}");
}
