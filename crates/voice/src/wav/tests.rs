use super::*;
use proptest::prelude::*;
use std::io::Cursor;

/// Returns a file with a plain 16-byte format chunk.
fn file(tag: u16, channels: u16, rate_hz: u32, bits: u16, data: &[u8]) -> Vec<u8> {
    let block = channels.wrapping_mul(bits / 8);
    let mut out = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0".to_vec();
    out.extend(tag.to_le_bytes());
    out.extend(channels.to_le_bytes());
    out.extend(rate_hz.to_le_bytes());
    out.extend(rate_hz.wrapping_mul(u32::from(block)).to_le_bytes());
    out.extend(block.to_le_bytes());
    out.extend(bits.to_le_bytes());
    out.extend(b"data");
    out.extend((data.len() as u32).to_le_bytes());
    out.extend(data);
    out
}

/// Returns a tone written by hound, the reference for formats.
fn tone(spec: hound::WavSpec, hz: f64, seconds: f64) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    let mut writer = hound::WavWriter::new(&mut bytes, spec).unwrap();
    let full = 2_f64.powi(i32::from(spec.bits_per_sample) - 1) - 1.0;
    for n in 0..(seconds * f64::from(spec.sample_rate)) as u32 {
        let phase = 2.0 * std::f64::consts::PI * hz * f64::from(n) / f64::from(spec.sample_rate);
        for _ in 0..spec.channels {
            match spec.sample_format {
                hound::SampleFormat::Float => {
                    writer.write_sample((0.1 * phase.sin()) as f32).unwrap()
                }
                hound::SampleFormat::Int => {
                    writer
                        .write_sample((0.5 * full * phase.sin()).round() as i32)
                        .unwrap();
                }
            }
        }
    }
    writer.finalize().unwrap();
    bytes.into_inner()
}

fn rms(samples: &[i16]) -> f64 {
    let energy: f64 = samples.iter().map(|&s| f64::from(s).powi(2)).sum();
    (energy / samples.len() as f64).sqrt()
}

#[test]
fn every_common_format_becomes_the_same_telephone_speech() {
    use hound::SampleFormat::{Float, Int};
    let expected = f64::from(PEAK) / 2_f64.sqrt();
    for rate in [8000, 11_025, 16_000, 22_050, 32_000, 44_100, 48_000, 96_000] {
        for (bits, format) in [(8, Int), (16, Int), (24, Int), (32, Int), (32, Float)] {
            for channels in [1, 2] {
                let spec = hound::WavSpec {
                    channels,
                    sample_rate: rate,
                    bits_per_sample: bits,
                    sample_format: format,
                };
                let speech = read_speech(&tone(spec, 440.0, 0.5)).unwrap();
                assert_eq!(speech.source_rate_hz, rate);
                assert_eq!(speech.source_channels, channels);
                assert_eq!(speech.pcm.len(), 4000, "{spec:?}");
                let peak = speech.pcm.iter().map(|s| s.unsigned_abs()).max().unwrap();
                assert_eq!(f32::from(peak), PEAK, "{spec:?}");
                // The test examines the sound away from the ends, where the filter rings: a sine's rms, and 440 Hz in
                // phase.
                let middle = &speech.pcm[1000..3000];
                assert!(
                    (rms(middle) / expected - 1.0).abs() < 0.1,
                    "{spec:?}: {}",
                    rms(middle)
                );
                let rises = middle.windows(2).filter(|w| w[0] < 0 && w[1] >= 0).count();
                assert!((109..=111).contains(&rises), "{spec:?}: {rises}");
            }
        }
    }
}

#[test]
fn what_a_telephone_cannot_carry_is_filtered_out() {
    // 1 kHz stays; 6 kHz would fold back to 2 kHz.
    let spec = hound::WavSpec {
        channels: 1,
        sample_rate: 48_000,
        bits_per_sample: 16,
        sample_format: hound::SampleFormat::Int,
    };
    let bytes = |hz| tone(spec, hz, 0.5)[44..].to_vec();
    let sum: Vec<u8> = bytes(1000.0)
        .as_chunks::<2>()
        .0
        .iter()
        .zip(bytes(6000.0).as_chunks::<2>().0)
        .flat_map(|(a, b)| (i16::from_le_bytes(*a) + i16::from_le_bytes(*b)).to_le_bytes())
        .collect();
    let both = read_speech(&file(1, 1, 48_000, 16, &sum)).unwrap();
    let low = read_speech(&tone(spec, 1000.0, 0.5)).unwrap();
    let (both, low) = (&both.pcm[1000..3000], &low.pcm[1000..3000]);
    let gain = rms(both) / rms(low);
    let rest: Vec<i16> = both
        .iter()
        .zip(low)
        .map(|(&a, &b)| (f64::from(a) - gain * f64::from(b)) as i16)
        .collect();
    assert!(
        rms(&rest) < rms(both) / 300.0,
        "{} of {}",
        rms(&rest),
        rms(both)
    );
}

#[test]
fn companded_files_are_read_too() {
    let codes: Vec<u8> = (0..=255).collect();
    for (tag, law) in [(6, Law::A), (7, Law::Mu)] {
        let speech = read_speech(&file(tag, 1, 8000, 8, &codes)).unwrap();
        let decoded = law.decode_all(&codes);
        let scale = f64::from(PEAK) / f64::from(decoded.iter().copied().max().unwrap());
        for (&got, &value) in speech.pcm.iter().zip(&decoded) {
            assert!((f64::from(got) - scale * f64::from(value)).abs() <= 1.0);
        }
    }
}

#[test]
fn what_is_written_is_read_back_and_hound_agrees() {
    let pcm: Vec<i16> = (-5000..5000)
        .map(|n| n * 4)
        .chain([PEAK as i16, -20_000])
        .collect();
    let bytes = write(&pcm);
    assert_eq!(read_speech(&bytes).unwrap().pcm, pcm);
    let mut reader = hound::WavReader::new(Cursor::new(&bytes)).unwrap();
    let read: Vec<i16> = reader.samples().map(Result::unwrap).collect();
    assert_eq!(read, pcm);
    assert_eq!(reader.spec().sample_rate, 8000);
    assert_eq!(write(&[])[40..], [0; 4]);
}

#[test]
fn unknown_chunks_are_passed_over_with_their_padding() {
    let plain = file(1, 1, 8000, 16, &[1, 0, 255, 255]);
    let mut extra = plain[..12].to_vec();
    extra.extend(b"LIST\x03\0\0\0abc\0");
    extra.extend(&plain[12..]);
    extra.extend(b"id3 \x05\0\0\0x");
    assert_eq!(read_speech(&extra), read_speech(&plain));
    assert_eq!(read_speech(&plain).unwrap().pcm, [23_198, -23_198]);
}

#[test]
fn absurd_headers_are_refused_with_their_reason() {
    let data = [1, 0, 2, 0];
    let read = |tag, channels, rate, bits| read_speech(&file(tag, channels, rate, bits, &data));
    assert_eq!(read(1, 0, 8000, 16), Err(WavError::Channels(0)));
    assert_eq!(read(1, 9, 8000, 16), Err(WavError::Channels(9)));
    assert_eq!(read(1, 65_535, 8000, 16), Err(WavError::Channels(65_535)));
    assert_eq!(read(1, 1, 0, 16), Err(WavError::Rate(0)));
    assert_eq!(
        read(1, 1, 2_000_000_000, 16),
        Err(WavError::Rate(2_000_000_000))
    );
    assert_eq!(read(1, 1, 7999, 16), Err(WavError::Rate(7999)));
    for (tag, bits) in [
        (1, 0),
        (1, 12),
        (1, 64),
        (2, 4),
        (3, 16),
        (0x55, 0),
        (0xffff, 16),
    ] {
        assert_eq!(
            read(tag, 1, 8000, bits),
            Err(WavError::Encoding { tag, bits })
        );
    }
    let mut wrong_block = file(1, 2, 8000, 16, &data);
    wrong_block[32] = 0;
    let error = WavError::BlockSize {
        stated: 0,
        expected: 4,
    };
    assert_eq!(read_speech(&wrong_block), Err(error));
    assert_eq!(read_speech(b""), Err(WavError::NotWav));
    assert_eq!(
        read_speech(b"ID3\x04 this is an MP3 file"),
        Err(WavError::NotWav)
    );
    assert_eq!(
        read_speech(&file(1, 1, 8000, 16, &[])),
        Err(WavError::Silent)
    );
    assert_eq!(
        read_speech(&file(1, 1, 8000, 16, &[0; 64])),
        Err(WavError::Silent)
    );
    let long = vec![128; 8000 * 600 + 1];
    let error = WavError::TooLong { seconds: 601 };
    assert_eq!(read_speech(&file(1, 1, 8000, 8, &long)), Err(error));
}

#[test]
fn lengths_beyond_the_file_are_refused_before_anything_is_allocated() {
    let mut bytes = file(1, 1, 8000, 16, &[1, 0, 2, 0]);
    bytes[40..44].copy_from_slice(&[255; 4]);
    let error = WavError::Truncated {
        part: "the sound",
        needed: u32::MAX as usize,
        present: 4,
    };
    assert_eq!(read_speech(&bytes), Err(error));
    bytes[16..20].copy_from_slice(&[255; 4]);
    assert!(matches!(
        read_speech(&bytes),
        Err(WavError::Truncated {
            part: "the format",
            ..
        })
    ));
}

#[test]
fn floats_of_any_size_are_scaled_and_non_numbers_refused() {
    let floats = |values: &[f32]| {
        let data: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        read_speech(&file(3, 1, 8000, 32, &data))
    };
    assert_eq!(floats(&[3e38, -1.5e38]).unwrap().pcm, [23_198, -11_599]);
    assert_eq!(floats(&[2e-30, -1e-30]).unwrap().pcm, [23_198, -11_599]);
    assert_eq!(floats(&[1.0, f32::NAN]), Err(WavError::NotFinite(1)));
    assert_eq!(floats(&[f32::INFINITY]), Err(WavError::NotFinite(0)));
    let doubles: Vec<u8> = [1.0_f64, -0.5]
        .iter()
        .flat_map(|v| v.to_le_bytes())
        .collect();
    assert_eq!(
        read_speech(&file(3, 1, 8000, 64, &doubles)).unwrap().pcm,
        [23_198, -11_599]
    );
}

#[test]
fn a_file_cut_short_anywhere_is_an_error() {
    let spec = hound::WavSpec {
        channels: 2,
        sample_rate: 16_000,
        bits_per_sample: 24,
        sample_format: hound::SampleFormat::Int,
    };
    let whole = tone(spec, 440.0, 0.01);
    assert!(read_speech(&whole).is_ok());
    for length in 0..whole.len() {
        assert!(read_speech(&whole[..length]).is_err(), "{length}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// The bytes are those of a good file changed at random, or random bytes.
    #[test]
    fn no_bytes_panic(
        changes in prop::collection::vec((0_usize..120, any::<u8>()), 0..12),
        noise in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut bytes = file(1, 2, 11_025, 16, &[7; 200]);
        for (at, value) in changes {
            bytes[at] = value;
        }
        for bytes in [bytes, noise] {
            if let Ok(speech) = read_speech(&bytes) {
                prop_assert!(!speech.pcm.is_empty());
            }
        }
    }
}
