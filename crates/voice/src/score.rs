//! PESQ (ITU-T P.862): how much worse the received speech is than the original.
//!
//! [Amir06 §II-C] cuts the received speech "into 12 second intervals corresponding to normal
//! conversation sentences" and compares each with the original; a call's result is the mean and the
//! 5th percentile over its intervals.
//!
//! There are two scales, which must not be mixed, so each has a type: [`RawPesq`], −0.5 to 4.5, which the papers plot
//! ("4.0 is the desired PSTN quality"), and [`MosLqo`] of P.862.1, 1.0 to 4.55, which most tools print.
//!
//! Original and received segments are cut at the same sample offsets. [`playout::decode`](crate::playout::decode) has
//! removed the concealer's 30 samples of delay, so PESQ's own time alignment finds nothing to correct and no sound
//! crosses a segment's border.
//!
//! P.862 was made for telephone connections that work. In a segment that is nearly all missing, it aligns the little
//! sound that is there, at whatever level it has, and may call it good (3.0 for half a second out of twelve; the ITU's
//! own program has the same result). Such segments score the floor here.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pesq::PesqContext;

/// Length of a scored interval: 12 s at 8 kHz. [Amir06 §II-C]
pub const SEGMENT_SAMPLES: usize = 12 * crate::SAMPLE_RATE_HZ as usize;
/// Least length of a scored remainder after the last whole segment: half a segment. Choice: P.862 was validated for 8
/// to 12 s; shorter remainders make noisy scores.
const MIN_TAIL_SAMPLES: usize = SEGMENT_SAMPLES / 2;
/// The two ends of the raw scale.
const RAW_FLOOR: f32 = -0.5;
const RAW_TOP: f32 = 4.5;
/// Length of the stretches that are searched for speech: 20 ms.
const STRETCH: usize = crate::frames::FRAME_SAMPLES;
/// A stretch is speech if it is at most 35 dB below the loudest one of the original, in energy.
const ACTIVE: f64 = 3.2e-4;
/// A segment of the original counts if at least a twelfth of it is speech: 1 s of 12.
const MIN_SPOKEN: usize = 12;
/// Speech counts as heard if a hundredth of its energy (−20 dB) arrived.
const AUDIBLE: f64 = 0.01;
/// Choice: a segment of which less than a quarter was heard scores the floor. Above this, P.862 falls with the missing
/// amount; below, measured scores vary from −0.5 to 3.0 for equal amounts.
const MIN_HEARD: usize = 4;

/// A raw P.862 score: −0.5 (worst) to 4.5 (identical). The scale of the papers' figures.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct RawPesq(pub f32);

impl RawPesq {
    /// Returns the same score on the P.862.1 scale.
    #[must_use]
    pub fn mos_lqo(self) -> MosLqo {
        MosLqo(pesq::score::mos_lqo(f64::from(self.0)))
    }
}

impl fmt::Display for RawPesq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} (raw P.862)", self.0)
    }
}

/// A P.862.1 listening quality score: 1.0 (worst) to 4.55 (identical).
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct MosLqo(pub f32);

impl fmt::Display for MosLqo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} (MOS-LQO, P.862.1)", self.0)
    }
}

/// Why speech cannot be the reference of a score.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ScoreError {
    /// No segment holds anything that PESQ considers speech.
    #[error("the original holds no speech that PESQ can score: use a recording of talking people")]
    NoSpeech,
    /// The original is shorter than PESQ's minimum.
    #[error("the original is too short for PESQ: {samples} samples, use at least {MIN_SAMPLES}")]
    TooShort {
        /// Length of the original.
        samples: usize,
    },
}

/// Least number of samples: PESQ needs a quarter of a second.
pub const MIN_SAMPLES: usize = 2000;

/// Original speech, cut into segments and prepared once for any number of comparisons.
pub struct Reference {
    segments: Vec<Segment>,
}

struct Segment {
    start: usize,
    end: usize,
    /// The energy of each stretch that contains speech, by the stretch's position in the segment.
    speech: Vec<(usize, f64)>,
    context: PesqContext,
}

impl fmt::Debug for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranges = self.segments.iter().map(|s| s.start..s.end);
        f.debug_list().entries(ranges).finish()
    }
}

impl Reference {
    /// Prepares 8 kHz speech. Segments without speech are left out.
    ///
    /// # Errors
    /// [`ScoreError`] if no segment remains that PESQ can score.
    pub fn new(original: &[i16]) -> Result<Self, ScoreError> {
        let samples = original.len();
        if samples < MIN_SAMPLES {
            return Err(ScoreError::TooShort { samples });
        }
        let loudest = stretches(original).fold(0.0, f64::max);
        if loudest == 0.0 {
            return Err(ScoreError::NoSpeech);
        }
        let segments: Vec<_> = cut(samples)
            .filter_map(|(start, end)| Segment::new(start, &original[start..end], ACTIVE * loudest))
            .collect();
        if segments.is_empty() {
            return Err(ScoreError::NoSpeech);
        }
        Ok(Self { segments })
    }

    /// Returns the sample ranges of the scored segments.
    pub fn segments(&self) -> impl ExactSizeIterator<Item = core::ops::Range<usize>> + '_ {
        self.segments.iter().map(|s| s.start..s.end)
    }

    /// Scores segment `index` of the received speech.
    ///
    /// Returns `None` if there is no such segment or `received` ends before it.
    #[must_use]
    pub fn score_segment(&self, index: usize, received: &[i16]) -> Option<RawPesq> {
        let segment = self.segments.get(index)?;
        let heard = received.get(segment.start..segment.end)?;
        Some(segment.score(heard))
    }

    /// Scores every segment of the received speech.
    #[must_use]
    pub fn score(&self, received: &[i16]) -> Scores {
        Scores(
            (0..self.segments.len())
                .filter_map(|n| self.score_segment(n, received))
                .collect(),
        )
    }
}

impl Segment {
    /// Returns `None` if the segment contains no speech.
    fn new(start: usize, original: &[i16], active: f64) -> Option<Self> {
        let speech: Vec<_> = stretches(original)
            .enumerate()
            .filter(|&(_, energy)| energy >= active)
            .collect();
        if speech.len() * MIN_SPOKEN * STRETCH < original.len() {
            return None;
        }
        let context = PesqContext::new_8k(original).ok()?;
        // PESQ may find no utterance in loud sound that is not speech.
        run_pesq(&context, original)?;
        Some(Self {
            start,
            end: start + original.len(),
            speech,
            context,
        })
    }

    fn score(&self, received: &[i16]) -> RawPesq {
        let energies: Vec<f64> = stretches(received).collect();
        let audible = |&&(at, energy): &&(usize, f64)| energies[at] >= AUDIBLE * energy;
        let heard = self.speech.iter().filter(audible).count();
        if heard * MIN_HEARD < self.speech.len() {
            return RawPesq(RAW_FLOOR);
        }
        // If segments that PESQ cannot align were left out, the worst paths would look better.
        let raw = run_pesq(&self.context, received).unwrap_or(RAW_FLOOR);
        RawPesq(raw.clamp(RAW_FLOOR, RAW_TOP))
    }
}

fn stretches(samples: &[i16]) -> impl Iterator<Item = f64> + '_ {
    samples
        .chunks_exact(STRETCH)
        .map(|stretch| stretch.iter().map(|&s| f64::from(s).powi(2)).sum())
}

/// Runs PESQ. Returns `None` if PESQ gives no score.
///
/// The library's index arithmetic overflows on some signals that are mostly silence, so a panic in it counts as no
/// score. Its context is only read and stays valid.
fn run_pesq(context: &PesqContext, received: &[i16]) -> Option<f32> {
    let score = || context.score(received);
    match catch_unwind(AssertUnwindSafe(score)) {
        Ok(Ok(raw)) if raw.is_finite() => Some(raw),
        _ => None,
    }
}

/// Returns the whole segments, and the remainder if it is long enough or there is nothing else.
fn cut(samples: usize) -> impl Iterator<Item = (usize, usize)> {
    let starts = (0..samples).step_by(SEGMENT_SAMPLES);
    starts.filter_map(move |start| {
        let end = (start + SEGMENT_SAMPLES).min(samples);
        (start == 0 || end - start >= MIN_TAIL_SAMPLES).then_some((start, end))
    })
}

/// Raw scores by segment, of one call or of many calls together.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scores(pub Vec<RawPesq>);

impl Scores {
    /// Returns the mean of the raw scores.
    #[must_use]
    pub fn raw_mean(&self) -> Option<RawPesq> {
        mean(self.0.iter().map(|s| s.0)).map(RawPesq)
    }

    /// Returns the 5th percentile of the raw scores: the most affected twentieth. [Amir06 Fig. 2]
    #[must_use]
    pub fn raw_p5(&self) -> Option<RawPesq> {
        percentile_5(self.0.iter().map(|s| s.0)).map(RawPesq)
    }

    /// Returns the mean of the MOS-LQO of the segments (not the MOS-LQO of the mean).
    #[must_use]
    pub fn lqo_mean(&self) -> Option<MosLqo> {
        mean(self.0.iter().map(|s| s.mos_lqo().0)).map(MosLqo)
    }

    /// Returns the 5th percentile of the MOS-LQO of the segments.
    #[must_use]
    pub fn lqo_p5(&self) -> Option<MosLqo> {
        percentile_5(self.0.iter().map(|s| s.mos_lqo().0)).map(MosLqo)
    }
}

impl Extend<RawPesq> for Scores {
    fn extend<T: IntoIterator<Item = RawPesq>>(&mut self, scores: T) {
        self.0.extend(scores);
    }
}

fn mean(values: impl ExactSizeIterator<Item = f32>) -> Option<f32> {
    let count = values.len();
    (count > 0).then(|| (values.map(f64::from).sum::<f64>() / count as f64) as f32)
}

/// Returns the 5th percentile by nearest rank: the smallest value that at least 5 % of all values do not exceed.
fn percentile_5(values: impl Iterator<Item = f32>) -> Option<f32> {
    let mut values: Vec<f32> = values.collect();
    values.sort_by(f32::total_cmp);
    let rank = values.len().div_ceil(20);
    values.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests;
