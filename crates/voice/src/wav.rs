//! WAV files, as bytes: converts any common recording to telephone speech, and writes speech as WAV.
//!
//! [`read_speech`] turns a recording into telephone speech: one channel, 8 kHz, 16 bits, its loudest sample at −3 dBFS.
//!
//! ```text
//!  bytes ─> chunks ─> format + data ─> mean of the channels ─> resample to 8 kHz ─> peak −3 dBFS
//! ```
//!
//! The file comes from a user, so the code trusts nothing in it: every length is checked against the bytes that are
//! present. These bytes and [`MAX_SECONDS`] limit the memory.

use rubato::audioadapter_buffers::direct::SequentialSliceOfVecs;
use rubato::{Async, FixedAsync, Resampler, SincInterpolationParameters};

use crate::SAMPLE_RATE_HZ;
use crate::g711::Law;

/// Lowest sample rate that is accepted: below it there is no telephone band to score.
pub const MIN_RATE_HZ: u32 = 8000;
/// Highest sample rate that is accepted.
pub const MAX_RATE_HZ: u32 = 96_000;
/// Most channels that are accepted (7.1 sound); they are averaged.
pub const MAX_CHANNELS: u16 = 8;
/// Longest recording that is accepted: twice the five minutes of [Amir06 §II-C]. At 96 kHz that is 600 · 96 000 · 4
/// bytes = 230 MB of work space.
pub const MAX_SECONDS: u32 = 600;
/// Loudest sample of the result: −3 dBFS, 32 768 · 10^(−3/20). Peaks of −1 to −6 dB score best
/// through G.711, which clips at full scale and is coarse near silence.
pub const PEAK: f32 = 23_198.0;

/// Speech read from a WAV file.
#[derive(Debug, Clone, PartialEq)]
pub struct Speech {
    /// 8 kHz, mono, 16 bits.
    pub pcm: Vec<i16>,
    /// Sample rate of the file.
    pub source_rate_hz: u32,
    /// Channels of the file.
    pub source_channels: u16,
}

/// Why a WAV file was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WavError {
    /// The file has no RIFF/WAVE header.
    #[error("not a WAV file: it does not begin with RIFF….WAVE; convert it (sox IN OUT.wav)")]
    NotWav,
    /// The file ends early.
    #[error("the WAV file is cut short: {part} needs {needed} bytes, {present} are there")]
    Truncated {
        /// The part that was being read.
        part: &'static str,
        /// Number of bytes that the file announced.
        needed: usize,
        /// Number of bytes that are present.
        present: usize,
    },
    /// The file has no format, or no data after it.
    #[error("the WAV file has no {0} chunk: it is damaged, convert it again")]
    Missing(&'static str),
    /// The encoding is compressed or unknown.
    #[error(
        "WAV encoding {tag:#06x} with {bits} bits is not supported: use PCM of 8, 16, 24 or 32 bits, \
         float, A-law or µ-law"
    )]
    Encoding {
        /// The format tag (RFC 2361).
        tag: u16,
        /// Bits per sample.
        bits: u16,
    },
    /// The number of channels is zero or too large.
    #[error("the WAV file has {0} channels: use 1 to {MAX_CHANNELS}")]
    Channels(u16),
    /// The sample rate is out of range.
    #[error("the WAV file has {0} samples per second: use {MIN_RATE_HZ} to {MAX_RATE_HZ}")]
    Rate(u32),
    /// The header contradicts itself.
    #[error("the WAV file's header says {stated} bytes per frame, its format needs {expected}")]
    BlockSize {
        /// Bytes per frame in the header.
        stated: u16,
        /// Bytes per frame for the channels and bits.
        expected: u16,
    },
    /// The recording is too long.
    #[error("the recording is {seconds} s long: use at most {MAX_SECONDS} s")]
    TooLong {
        /// Its duration.
        seconds: u32,
    },
    /// A float is not a finite number.
    #[error("sample {0} of the WAV file is not a finite number: convert it again")]
    NotFinite(usize),
    /// The recording is empty or silent.
    #[error("the recording is empty or silent: use one of talking people")]
    Silent,
}

/// Reads a recording as telephone speech.
///
/// # Errors
/// [`WavError`], whose text says what to do.
pub fn read_speech(bytes: &[u8]) -> Result<Speech, WavError> {
    let (format, data) = find_chunks(bytes)?;
    let mut mono = format.mix(data)?;
    // Floats may have any scale; the resampler is most precise at 1.
    scale_to(&mut mono, 1.0)?;
    let mut mono = resample(mono, format.rate_hz);
    scale_to(&mut mono, PEAK)?;
    Ok(Speech {
        pcm: mono.iter().map(|sample| sample.round() as i16).collect(),
        source_rate_hz: format.rate_hz,
        source_channels: format.channels,
    })
}

/// Writes 8 kHz mono PCM as a WAV file.
#[must_use]
pub fn write(pcm: &[i16]) -> Vec<u8> {
    // A file cannot hold more than its 32-bit lengths allow: 37 hours.
    let pcm = &pcm[..pcm.len().min((u32::MAX as usize - 36) / 2)];
    let data_bytes = 2 * pcm.len() as u32;
    let mut out = Vec::with_capacity(44 + 2 * pcm.len());
    out.extend(b"RIFF");
    out.extend((36 + data_bytes).to_le_bytes());
    out.extend(b"WAVEfmt ");
    out.extend(16_u32.to_le_bytes());
    out.extend(TAG_PCM.to_le_bytes());
    out.extend(1_u16.to_le_bytes());
    out.extend(SAMPLE_RATE_HZ.to_le_bytes());
    out.extend((2 * SAMPLE_RATE_HZ).to_le_bytes());
    out.extend(2_u16.to_le_bytes());
    out.extend(16_u16.to_le_bytes());
    out.extend(b"data");
    out.extend(data_bytes.to_le_bytes());
    out.extend(pcm.iter().flat_map(|sample| sample.to_le_bytes()));
    out
}

const TAG_PCM: u16 = 1;
const TAG_FLOAT: u16 = 3;
const TAG_A_LAW: u16 = 6;
const TAG_MU_LAW: u16 = 7;
const TAG_EXTENSIBLE: u16 = 0xfffe;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Encoding {
    Float32,
    Float64,
    G711(Law),
    /// Little-endian two's complement of this many bytes; one byte means offset binary.
    Int(u16),
}

impl Encoding {
    fn bytes(self) -> u16 {
        match self {
            Encoding::Float32 => 4,
            Encoding::Float64 => 8,
            Encoding::G711(_) => 1,
            Encoding::Int(bytes) => bytes,
        }
    }

    /// Decodes one sample; `bytes` has the encoding's length. Full scale is 1.
    fn decode(self, bytes: &[u8]) -> f32 {
        match (self, bytes) {
            (Encoding::Float32, &[a, b, c, d]) => f32::from_le_bytes([a, b, c, d]),
            (Encoding::Float64, &[a, b, c, d, e, f, g, h]) => {
                f64::from_le_bytes([a, b, c, d, e, f, g, h]) as f32
            }
            (Encoding::G711(law), &[a]) => f32::from(law.decode(a)) / 32_768.0,
            (Encoding::Int(_), &[a]) => (f32::from(a) - 128.0) / 128.0,
            (Encoding::Int(_), &[a, b]) => f32::from(i16::from_le_bytes([a, b])) / 32_768.0,
            (Encoding::Int(_), &[a, b, c]) => {
                i32::from_le_bytes([0, a, b, c]) as f32 / 2_147_483_648.0
            }
            (Encoding::Int(_), &[a, b, c, d]) => {
                i32::from_le_bytes([a, b, c, d]) as f32 / 2_147_483_648.0
            }
            _ => 0.0,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Format {
    encoding: Encoding,
    channels: u16,
    rate_hz: u32,
}

/// Walks the chunks: the format first, then the data; it skips everything else.
///
/// ```text
///  "RIFF" length "WAVE"  { id[4] length[4, little-endian] body[length] pad to even }*
/// ```
fn find_chunks(bytes: &[u8]) -> Result<(Format, &[u8]), WavError> {
    let Some((head, mut rest)) = bytes.split_first_chunk::<12>() else {
        return Err(WavError::NotWav);
    };
    if &head[..4] != b"RIFF" || &head[8..] != b"WAVE" {
        return Err(WavError::NotWav);
    }
    let mut format = None;
    loop {
        let Some((&[a, b, c, d, l0, l1, l2, l3], body)) = rest.split_first_chunk::<8>() else {
            let missing = if format.is_none() { "format" } else { "data" };
            return Err(WavError::Missing(missing));
        };
        let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        let part = match &[a, b, c, d] {
            b"fmt " => "the format",
            b"data" => "the sound",
            _ => "a chunk",
        };
        let Some(chunk) = body.get(..length) else {
            return Err(WavError::Truncated {
                part,
                needed: length,
                present: body.len(),
            });
        };
        match &[a, b, c, d] {
            b"fmt " => format = Some(Format::parse(chunk)?),
            b"data" => return Ok((format.ok_or(WavError::Missing("format"))?, chunk)),
            _ => {}
        }
        // An odd chunk is followed by a byte of padding, which the last one may lack.
        rest = body.get(length + length % 2..).unwrap_or_default();
    }
}

impl Format {
    fn parse(chunk: &[u8]) -> Result<Self, WavError> {
        let u16_at = |at: usize| match chunk.get(at..at + 2) {
            Some(&[a, b]) => Ok(u16::from_le_bytes([a, b])),
            _ => Err(WavError::Truncated {
                part: "the format",
                needed: at + 2,
                present: chunk.len(),
            }),
        };
        let mut tag = u16_at(0)?;
        let channels = u16_at(2)?;
        let rate_hz = u32::from(u16_at(4)?) | u32::from(u16_at(6)?) << 16;
        let block = u16_at(12)?;
        let bits = u16_at(14)?;
        if tag == TAG_EXTENSIBLE {
            // The sub-format's identifier begins with the true tag.
            tag = u16_at(24)?;
        }
        let encoding = match (tag, bits) {
            (TAG_PCM, 8 | 16 | 24 | 32) => Encoding::Int(bits / 8),
            (TAG_FLOAT, 32) => Encoding::Float32,
            (TAG_FLOAT, 64) => Encoding::Float64,
            (TAG_A_LAW, 8) => Encoding::G711(Law::A),
            (TAG_MU_LAW, 8) => Encoding::G711(Law::Mu),
            _ => return Err(WavError::Encoding { tag, bits }),
        };
        if channels == 0 || channels > MAX_CHANNELS {
            return Err(WavError::Channels(channels));
        }
        if !(MIN_RATE_HZ..=MAX_RATE_HZ).contains(&rate_hz) {
            return Err(WavError::Rate(rate_hz));
        }
        let expected = channels * encoding.bytes();
        if block != expected {
            return Err(WavError::BlockSize {
                stated: block,
                expected,
            });
        }
        Ok(Self {
            encoding,
            channels,
            rate_hz,
        })
    }

    /// Returns the mean of the channels. A last incomplete frame is dropped.
    fn mix(self, data: &[u8]) -> Result<Vec<f32>, WavError> {
        let bytes = usize::from(self.encoding.bytes());
        let frame_bytes = bytes * usize::from(self.channels);
        let frames = data.len() / frame_bytes;
        let seconds = frames.div_ceil(self.rate_hz as usize);
        if seconds > MAX_SECONDS as usize {
            return Err(WavError::TooLong {
                seconds: seconds as u32,
            });
        }
        let mut mono = Vec::with_capacity(frames);
        for (n, frame) in data.chunks_exact(frame_bytes).enumerate() {
            let samples = frame
                .chunks_exact(bytes)
                .map(|sample| self.encoding.decode(sample));
            let mean = samples.sum::<f32>() / f32::from(self.channels);
            if !mean.is_finite() {
                return Err(WavError::NotFinite(n));
            }
            mono.push(mean);
        }
        Ok(mono)
    }
}

fn scale_to(samples: &mut [f32], peak: f32) -> Result<(), WavError> {
    let loudest = samples
        .iter()
        .fold(0.0_f32, |loudest, s| loudest.max(s.abs()));
    if loudest < f32::MIN_POSITIVE {
        return Err(WavError::Silent);
    }
    for sample in samples {
        *sample = *sample / loudest * peak;
    }
    Ok(())
}

/// Resamples to 8 kHz, with everything above 4 kHz filtered out.
fn resample(mono: Vec<f32>, rate_hz: u32) -> Vec<f32> {
    if rate_hz == SAMPLE_RATE_HZ {
        return mono;
    }
    /// Frames per step of the resampler. The result does not depend on it.
    const CHUNK: usize = 4_096;
    let frames = mono.len();
    let ratio = f64::from(SAMPLE_RATE_HZ) / f64::from(rate_hz);
    // Choice: `rubato` also resamples by FFT, which is faster. But its FFT is generic, and to compile that would take
    // longer than everything else in this crate.
    let filter = SincInterpolationParameters::default();
    let mut resampler = Async::<f32>::new_sinc(ratio, 1.0, &filter, CHUNK, 1, FixedAsync::Input)
        .expect("the ratio is positive and there is a channel");
    let channels = [mono];
    let input =
        SequentialSliceOfVecs::new(&channels, 1, frames).expect("one channel of just this length");
    resampler
        .process_all(&input, frames, None)
        .expect("the buffers have the lengths that the resampler asked for")
        .take_data()
}

#[cfg(test)]
mod tests;
