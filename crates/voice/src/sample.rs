//! The speech sample that is part of the product, so that every command works without a recording.
//!
//! 36 s, 8 kHz, mono, 16 bits: three segments of 12 s, in each of which two synthetic voices speak
//! in turn over a noise floor. `assets/make-speech.sh` makes it; `assets/README.md` has its licence.

/// The sample as a WAV file.
pub const SPEECH_WAV: &[u8] = include_bytes!("../../../assets/speech.wav");

/// Returns the sample as PCM: 8 kHz, mono, three segments of 12 s.
#[must_use]
pub fn speech() -> Vec<i16> {
    // The shipped file has a plain header of 44 bytes; a test checks this.
    let data = SPEECH_WAV.get(44..).unwrap_or_default();
    let samples = data.as_chunks::<2>().0;
    samples
        .iter()
        .map(|bytes| i16::from_le_bytes(*bytes))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::g711::Law;
    use crate::score::{Reference, SEGMENT_SAMPLES};
    use crate::wav;

    #[test]
    fn the_file_is_plain_and_as_loud_as_it_should_be() {
        let read = wav::read_speech(SPEECH_WAV).unwrap();
        assert_eq!((read.source_rate_hz, read.source_channels), (8000, 1));
        assert_eq!(read.pcm.len(), 3 * SEGMENT_SAMPLES);
        // The file already has the level to which reading would scale it.
        assert_eq!(read.pcm, speech());
        assert_eq!(wav::write(&speech()), SPEECH_WAV);
    }

    #[test]
    fn pauses_hold_noise_and_every_segment_holds_speech() {
        let level_dbov = |samples: &[i16]| {
            let energy: f64 = samples.iter().map(|&s| f64::from(s).powi(2)).sum();
            10.0 * (energy / samples.len() as f64).log10() - 20.0 * 32_768_f64.log10()
        };
        let pcm = speech();
        for segment in pcm.chunks(SEGMENT_SAMPLES) {
            let pause = level_dbov(&segment[..2400]);
            assert!((-61.0..-58.0).contains(&pause), "{pause}");
            assert!(level_dbov(segment) > -26.0);
        }
    }

    #[test]
    fn the_codec_alone_scores_at_least_4_2() {
        let pcm = speech();
        let heard = Law::Mu.decode_all(&Law::Mu.encode_all(&pcm));
        let scores = Reference::new(&pcm).unwrap().score(&heard);
        assert_eq!(scores.0.len(), 3);
        assert!(scores.raw_mean().unwrap().0 >= 4.2, "{scores:?}");
        assert!(scores.raw_p5().unwrap().0 >= 4.2, "{scores:?}");
    }
}
