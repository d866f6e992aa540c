//! Packet-loss concealment of ITU-T G.711 Appendix I.
//!
//! Speech is nearly periodic over a few tens of milliseconds. When a 10 ms frame is missing, the concealer finds the
//! pitch period of the most recent sound and repeats it:
//!
//! ```text
//!                      history (48.75 ms)                 | lost 1 | lost 2 | lost 3 | …
//!   ..........................[--------- one period ------]>>>>>>>>|        |        |
//!   .............[------------------ two periods ---------]........>>>>>>>>>|        |
//!   [------------------------------- three periods -------].................>>>>>>>>>>>
//!                                              [¼]  overlap-add at every seam
//!   gain                                                   1        1 → 0.8  0.8→0.6 … 0 at 60 ms
//! ```
//!
//! Repeating only one period would sound like a beep, hence two and three periods in the second and third frame.
//! Overlap-adding a quarter of a period with triangular windows smooths the seams. The seam at the start of a loss lies
//! in sound that would already have been played, so the output is always [`DELAY`] samples (3.75 ms) behind the input.
//!
//! Life cycle: [`Concealer::good`] or [`Concealer::lost`] for each 10 ms, in order; at the end [`Concealer::tail`]
//! returns the last samples of the delay line.

/// Samples of one 10 ms frame at 8 kHz: the unit of concealment.
pub const FRAME: usize = 80;
/// Shortest pitch period in the search: 5 ms, 200 Hz.
pub const PITCH_MIN: usize = 40;
/// Longest pitch period in the search: 15 ms, 66⅔ Hz.
pub const PITCH_MAX: usize = 120;
/// How far the output is behind the input: a quarter of the longest period, 3.75 ms.
pub const DELAY: usize = PITCH_MAX / 4;
/// Three of the longest periods and the quarter before them: 390 samples, 48.75 ms.
const HISTORY: usize = 3 * PITCH_MAX + DELAY;
/// Length of the sound at the end that is compared with earlier sound: 20 ms.
const CORRELATION: usize = 160;
/// The first search uses every second lag and every second sample.
const DECIMATION: usize = 2;
/// Energy floor of the normalisation, so that faint noise does not win by a division by nearly zero. Choice: about 2
/// units rms over the 80 decimated samples; real speech is far above.
const MIN_ENERGY: f32 = 250.0;
/// Largest number of pitch periods that are repeated.
const MAX_PERIODS: usize = 3;
/// Loss of gain per 10 ms after the first frame.
const ATTENUATION: f32 = 0.2;
/// The gain reaches zero after 1 + 1/0.2 frames: 60 ms.
const AUDIBLE_FRAMES: u32 = 6;
/// At the end of a loss the overlap grows by 4 ms for each lost frame after the first.
const OVERLAP_STEP: usize = 32;

/// The state of one call's concealment.
#[derive(Debug, Clone)]
pub struct Concealer {
    /// The samples that were decoded or made up, the newest at the end; the last [`DELAY`] are not played yet.
    history: [f32; HISTORY],
    erasure: Option<Erasure>,
}

impl Default for Concealer {
    fn default() -> Self {
        Self::new()
    }
}

impl Concealer {
    /// Creates a concealer that has heard only silence.
    #[must_use]
    pub fn new() -> Self {
        Self {
            history: [0.0; HISTORY],
            erasure: None,
        }
    }

    /// Takes a frame that arrived; returns the 10 ms to play, [`DELAY`] samples behind.
    pub fn good(&mut self, frame: &[i16; FRAME]) -> [i16; FRAME] {
        let mut samples = frame.map(f32::from);
        if let Some(mut erasure) = self.erasure.take() {
            erasure.blend_into(&mut samples);
        }
        self.push(&samples)
    }

    /// Makes up a frame that did not arrive; returns the 10 ms to play, [`DELAY`] samples behind.
    pub fn lost(&mut self) -> [i16; FRAME] {
        let samples = match &mut self.erasure {
            Some(erasure) => erasure.next_frame(),
            empty => {
                let (erasure, samples) = Erasure::begin(&mut self.history);
                *empty = Some(erasure);
                samples
            }
        };
        self.push(&samples)
    }

    /// Returns the samples still in the delay line: the end of the call.
    #[must_use]
    pub fn tail(&self) -> [i16; DELAY] {
        let mut out = [0; DELAY];
        round_into(&self.history[HISTORY - DELAY..], &mut out);
        out
    }

    fn push(&mut self, samples: &[f32; FRAME]) -> [i16; FRAME] {
        self.history.copy_within(FRAME.., 0);
        self.history[HISTORY - FRAME..].copy_from_slice(samples);
        let mut out = [0; FRAME];
        round_into(
            &self.history[HISTORY - FRAME - DELAY..HISTORY - DELAY],
            &mut out,
        );
        out
    }
}

/// One run of lost frames.
#[derive(Debug, Clone)]
struct Erasure {
    /// The history at the moment of the loss; a seam into the first of the repeated periods replaces its last quarter
    /// period.
    buffer: [f32; HISTORY],
    /// That last quarter period as it was before the seam.
    quarter: [f32; DELAY],
    pitch: usize,
    periods: usize,
    /// Position of the next sample, from the start of the repeated periods.
    phase: usize,
    lost_frames: u32,
}

impl Erasure {
    /// Starts a run: finds the pitch, rewrites the unplayed end of `history` so that it leads into
    /// the repetition, and makes the first frame, which is not attenuated.
    fn begin(history: &mut [f32; HISTORY]) -> (Self, [f32; FRAME]) {
        let pitch = find_pitch(history);
        let overlap = pitch / 4;
        let mut quarter = [0.0; DELAY];
        quarter[..overlap].copy_from_slice(&history[HISTORY - overlap..]);
        let mut erasure = Self {
            buffer: *history,
            quarter,
            pitch,
            periods: 1,
            phase: 0,
            lost_frames: 1,
        };
        erasure.mend_seam();
        history[HISTORY - overlap..].copy_from_slice(&erasure.buffer[HISTORY - overlap..]);
        let mut samples = [0.0; FRAME];
        erasure.repeat(&mut samples);
        (erasure, samples)
    }

    /// Makes the second and later frames.
    fn next_frame(&mut self) -> [f32; FRAME] {
        self.lost_frames = self.lost_frames.saturating_add(1);
        let mut samples = [0.0; FRAME];
        if self.lost_frames > AUDIBLE_FRAMES {
            return samples;
        }
        if self.periods < MAX_PERIODS {
            self.widen(&mut samples);
        } else {
            self.repeat(&mut samples);
        }
        // The ramp starts where the previous frame ended: at 1 in the second frame.
        let start = 1.0 - ATTENUATION * (self.lost_frames - 2) as f32;
        for (i, sample) in samples.iter_mut().enumerate() {
            *sample *= start - ATTENUATION * i as f32 / FRAME as f32;
        }
        samples
    }

    /// Adds one more period to the repetition, in phase, with a quarter period of overlap.
    fn widen(&mut self, samples: &mut [f32; FRAME]) {
        let overlap = self.pitch / 4;
        let phase = self.phase;
        let mut old = [0.0; DELAY];
        self.repeat(&mut old[..overlap]);
        // Continue at the same position in the oldest of the new periods.
        self.phase = phase % self.pitch;
        self.periods += 1;
        self.mend_seam();
        self.repeat(samples);
        overlap_add(&old[..overlap], &mut samples[..overlap]);
    }

    /// Fades the frame that ends the run in over the repetition: over a quarter period, and 4 ms for each lost frame
    /// after the first, at most the whole 10 ms.
    fn blend_into(&mut self, samples: &mut [f32; FRAME]) {
        let after_first = self.lost_frames as usize - 1;
        let overlap = (self.pitch / 4)
            .saturating_add(OVERLAP_STEP.saturating_mul(after_first))
            .min(FRAME);
        let gain = (1.0 - ATTENUATION * after_first as f32).max(0.0);
        let mut old = [0.0; FRAME];
        self.repeat(&mut old[..overlap]);
        for sample in &mut old[..overlap] {
            *sample *= gain;
        }
        overlap_add(&old[..overlap], &mut samples[..overlap]);
    }

    /// Makes the end of the buffer lead into the start of the repeated periods: the most recent quarter period fades
    /// into the quarter period before that start.
    fn mend_seam(&mut self) {
        let overlap = self.pitch / 4;
        let start = HISTORY - self.periods * self.pitch;
        let (before, end) = self.buffer.split_at_mut(HISTORY - overlap);
        end.copy_from_slice(&before[start - overlap..start]);
        overlap_add(&self.quarter[..overlap], end);
    }

    /// Continues the output through the repeated periods.
    fn repeat(&mut self, out: &mut [f32]) {
        let length = self.periods * self.pitch;
        let periods = &self.buffer[HISTORY - length..];
        for sample in out {
            *sample = periods[self.phase];
            self.phase = (self.phase + 1) % length;
        }
    }
}

/// Returns the lag with the highest normalised cross-correlation of the last 20 ms with the sound 5 to 15 ms earlier.
/// It searches first at half resolution, then at full resolution next to the best lag.
fn find_pitch(history: &[f32; HISTORY]) -> usize {
    let coarse = best_lag(history, PITCH_MIN..=PITCH_MAX, DECIMATION);
    let from = (coarse - (DECIMATION - 1)).max(PITCH_MIN);
    let to = (coarse + (DECIMATION - 1)).min(PITCH_MAX);
    best_lag(history, from..=to, 1)
}

/// Returns the best of the lags, every `step`-th of them, over every `step`-th sample. Among equal lags it takes the
/// shortest: a multiple of a period is a period too.
fn best_lag(
    history: &[f32; HISTORY],
    lags: core::ops::RangeInclusive<usize>,
    step: usize,
) -> usize {
    let recent = &history[HISTORY - CORRELATION..];
    let mut best = (*lags.start(), f32::NEG_INFINITY);
    for lag in lags.step_by(step) {
        let earlier = &history[HISTORY - CORRELATION - lag..HISTORY - lag];
        let (mut product, mut energy) = (0.0, 0.0);
        for (a, b) in recent.iter().zip(earlier).step_by(step) {
            product += a * b;
            energy += b * b;
        }
        let correlation = product / f32::max(energy, MIN_ENERGY).sqrt();
        if correlation > best.1 {
            best = (lag, correlation);
        }
    }
    best.0
}

/// Fades `old` out and `new` in, with triangular windows.
fn overlap_add(old: &[f32], new: &mut [f32]) {
    let step = 1.0 / new.len() as f32;
    for (i, (old, new)) in old.iter().zip(new).enumerate() {
        let rise = (i + 1) as f32 * step;
        *new = (1.0 - rise) * old + rise * *new;
    }
}

fn round_into(samples: &[f32], out: &mut [i16]) {
    for (sample, out) in samples.iter().zip(out) {
        // `as` saturates, and no window or gain exceeds one.
        *out = sample.round() as i16;
    }
}

#[cfg(test)]
mod tests;
