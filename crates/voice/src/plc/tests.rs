use super::*;
use proptest::prelude::*;

fn sine(period: f64, amplitude: f64, samples: usize) -> Vec<i16> {
    (0..samples)
        .map(|n| (amplitude * (2.0 * std::f64::consts::PI * n as f64 / period).sin()) as i16)
        .collect()
}

/// Plays `signal` without the frames of `lost`; the output is not shifted back.
fn play(signal: &[i16], lost: impl Fn(usize) -> bool) -> Vec<i16> {
    let mut concealer = Concealer::new();
    let mut out = Vec::new();
    for (n, frame) in signal.as_chunks::<FRAME>().0.iter().enumerate() {
        out.extend(if lost(n) {
            concealer.lost()
        } else {
            concealer.good(frame)
        });
    }
    out.extend(concealer.tail());
    out
}

fn rms(samples: &[i16]) -> f64 {
    let energy: f64 = samples.iter().map(|&s| f64::from(s).powi(2)).sum();
    (energy / samples.len() as f64).sqrt()
}

#[test]
fn without_loss_the_output_is_the_input_30_samples_later() {
    let signal: Vec<i16> = (0..800_i32)
        .map(|n| (n * 7919 % 65_536 - 32_768) as i16)
        .collect();
    let out = play(&signal, |_| false);
    assert_eq!(DELAY, 30);
    assert_eq!(out[..DELAY], [0; DELAY]);
    assert_eq!(out[DELAY..], signal);
}

#[test]
fn a_sine_keeps_its_phase_through_a_loss() {
    for period in [40.0, 50.0, 64.0, 80.0, 100.0, 120.0] {
        let signal = sine(period, 10_000.0, 20 * FRAME);
        let out = play(&signal, |n| n == 10);
        for (n, (&played, &original)) in out[DELAY..].iter().zip(&signal).enumerate() {
            let error = (i32::from(played) - i32::from(original)).abs();
            assert!(
                error < 60,
                "period {period}, sample {n}: {played} for {original}"
            );
        }
    }
}

#[test]
fn a_pitch_between_samples_is_found_to_the_nearest_sample() {
    // Above 60 samples two periods are out of range, so there is only one answer.
    for (period, expected) in [(61.3, 61), (90.6, 91), (118.2, 118)] {
        let mut history = [0.0; HISTORY];
        for (to, from) in history.iter_mut().zip(sine(period, 8000.0, HISTORY)) {
            *to = f32::from(from);
        }
        assert_eq!(find_pitch(&history), expected);
    }
}

#[test]
fn the_gain_falls_by_a_fifth_per_frame_after_the_first_and_ends_in_silence() {
    // With a period of 40 samples, every frame holds two whole periods, so the rms shows the gain.
    let signal = sine(40.0, 10_000.0, 30 * FRAME);
    let out = play(&signal, |n| n >= 10);
    let full = rms(&signal[..FRAME]);
    let frame = |n: usize| &out[DELAY + (10 + n) * FRAME..][..FRAME];
    assert!((rms(frame(0)) / full - 1.0).abs() < 0.01);
    for n in 1..6 {
        // The rms of a ramp from g to g − 0.2 is nearly that of its middle.
        let middle = 1.0 - 0.2 * (n as f64 - 1.0) - 0.1;
        let gain = rms(frame(n)) / full;
        assert!(
            (gain - middle).abs() < 0.02,
            "frame {n}: {gain} for {middle}"
        );
    }
    for n in 6..15 {
        assert_eq!(frame(n), [0; FRAME], "frame {n}");
    }
}

#[test]
fn two_and_three_periods_are_repeated_in_the_second_and_third_frame() {
    // Three periods of 120 samples with one distinct sample each.
    let mut history = [0.0_f32; HISTORY];
    for (n, sample) in history.iter_mut().enumerate() {
        *sample = (1000.0 * (2.0 * std::f32::consts::PI * n as f32 / 120.0).sin()).round();
    }
    let (mut erasure, _) = Erasure::begin(&mut history);
    assert_eq!((erasure.pitch, erasure.periods), (120, 1));
    erasure.next_frame();
    assert_eq!(erasure.periods, 2);
    erasure.next_frame();
    assert_eq!(erasure.periods, 3);
    erasure.next_frame();
    assert_eq!(erasure.periods, 3);
}

#[test]
fn the_seam_before_a_loss_is_a_quarter_period_and_no_longer() {
    // Noise has no period, so the seam shows as a difference from the original.
    let signal: Vec<i16> = (0..20 * FRAME as i64)
        .map(|n| ((n * n * 7919 + n * 104_729) % 20_001 - 10_000) as i16)
        .collect();
    let mut history = [0.0; HISTORY];
    for (to, &from) in history
        .iter_mut()
        .zip(&signal[10 * FRAME - HISTORY..10 * FRAME])
    {
        *to = f32::from(from);
    }
    let quarter = find_pitch(&history) / 4;
    let out = play(&signal, |n| n == 10);
    let seam = 10 * FRAME - quarter;
    assert_eq!(out[DELAY..DELAY + seam], signal[..seam]);
    assert_ne!(out[DELAY + seam], signal[seam]);
}

#[test]
fn the_overlap_at_the_end_grows_by_4_ms_per_frame_up_to_10_ms() {
    // Silence arrives after a sine: the remaining sound is the fading repetition.
    let mut signal = sine(40.0, 10_000.0, 10 * FRAME);
    signal.resize(40 * FRAME, 0);
    for (lost, overlap) in [(1, 10), (2, 10 + 32), (3, 10 + 64), (4, 80), (5, 80)] {
        let out = play(&signal, |n| (10..10 + lost).contains(&n));
        let good = &out[DELAY + (10 + lost) * FRAME..];
        let sounding = good.iter().rposition(|&s| s != 0).map_or(0, |n| n + 1);
        // The last sample of the overlap is all new, and the sine may cross zero before it.
        assert!(
            (overlap - 2..overlap).contains(&sounding),
            "{lost} lost: {sounding}"
        );
    }
    let out = play(&signal, |n| (10..16).contains(&n));
    assert!(
        out[DELAY + 16 * FRAME..].iter().all(|&s| s == 0),
        "60 ms leave nothing to fade"
    );
}

#[test]
fn silence_stays_silent_and_a_call_may_begin_with_a_loss() {
    assert!(
        play(&[0; 10 * FRAME], |n| n % 3 == 0)
            .iter()
            .all(|&s| s == 0)
    );
    let signal = sine(80.0, 10_000.0, 10 * FRAME);
    let out = play(&signal, |n| n < 3);
    assert_eq!(out[DELAY + 4 * FRAME..], signal[4 * FRAME..]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is lost: the output has as many samples as the input, it is never louder than the loudest sound before,
    /// and it is exact again one frame after a loss.
    #[test]
    fn any_loss_pattern(
        samples in prop::collection::vec(any::<i16>(), 30 * FRAME),
        lost in prop::collection::vec(any::<bool>(), 30),
    ) {
        let out = play(&samples, |n| lost[n]);
        prop_assert_eq!(out.len(), samples.len() + DELAY);
        let played = &out[DELAY..];
        for n in 2..29 {
            // The seam of the next loss may reach back into the frame.
            if !lost[n] && !lost[n - 1] && !lost[n + 1] {
                let range = n * FRAME..(n + 1) * FRAME;
                prop_assert_eq!(&played[range.clone()], &samples[range]);
            }
        }
        let loudest = samples.iter().map(|s| s.unsigned_abs()).max().unwrap_or(0);
        prop_assert!(played.iter().all(|s| s.unsigned_abs() <= loudest));
    }
}
