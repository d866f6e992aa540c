//! The evaluation of one call: when packets arrived, what the listener heard, and how good it was.
//!
//! ```text
//!   Original (speech, law)     prepared once: packets, PESQ references, scores without loss
//!      │  evaluate_heard(delays, what came altered, deadline)
//!      v
//!   Evaluation                 loss and delay, E-model, PESQ, the PCM that was heard
//! ```
//!
//! One original serves any number of calls. If a call delivers a segment completely, the segment has the loss-free
//! score, which is computed once: PESQ runs only on segments with missed packets.
//!
//! The evaluation has two measures. PESQ takes account of the lost sound but not of its delay; the E-model counts both,
//! from numbers alone. Their scales differ, and each has its name.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

use crate::emodel::{self, Concealment, Parameters, Rating};
use crate::frames::{self, FRAME_SAMPLES, FRAME_US};
use crate::g711::Law;
use crate::playout::{self, Fate, Playout, Totals};
use crate::plc;
use crate::score::{MosLqo, RawPesq, Reference, ScoreError, Scores};

/// Delay of the concealer: 30 samples, 3.75 ms.
pub const CONCEALMENT_US: u64 = plc::DELAY as u64 * 1_000_000 / crate::SAMPLE_RATE_HZ as u64;

/// Why a call cannot be evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The arrivals do not belong to this speech.
    #[error("the call has {expected} packets but {given} arrivals were given: give one per packet")]
    Arrivals {
        /// Number of packets of the original.
        expected: usize,
        /// Number of entries given.
        given: usize,
    },
    /// The speech is not suitable for a score.
    #[error(transparent)]
    Score(#[from] ScoreError),
}

/// The payloads of one call that arrived altered, by packet number. Almost none do, so the map does not keep the
/// unaltered ones.
pub type Altered = BTreeMap<u32, [u8; FRAME_SAMPLES]>;

/// Speech prepared for calls that carry it.
pub struct Original {
    law: Law,
    packets: Vec<[u8; FRAME_SAMPLES]>,
    /// The samples that a call without loss plays.
    lossless: Vec<i16>,
    reference: Reference,
    ceiling: Vec<OnceLock<RawPesq>>,
}

impl fmt::Debug for Original {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Minutes of samples would fill the screen.
        f.debug_struct("Original")
            .field("law", &self.law)
            .field("packets", &self.packets.len())
            .field("segments", &self.reference)
            .finish_non_exhaustive()
    }
}

impl Original {
    /// Prepares 8 kHz mono speech.
    ///
    /// # Errors
    /// Fails if the speech is too short or silent, so that PESQ has nothing to compare.
    pub fn new(pcm: &[i16], law: Law) -> Result<Self, CallError> {
        let reference = Reference::new(pcm)?;
        let packets = frames::encode(law, pcm);
        let ceiling = reference.segments().map(|_| OnceLock::new()).collect();
        Ok(Self {
            law,
            lossless: law.decode_all(packets.as_flattened()),
            packets,
            reference,
            ceiling,
        })
    }

    /// Returns the companding law of the calls.
    #[must_use]
    pub fn law(&self) -> Law {
        self.law
    }

    /// Returns the payloads to send, one every 20 ms.
    #[must_use]
    pub fn packets(&self) -> &[[u8; FRAME_SAMPLES]] {
        &self.packets
    }

    /// Returns the scores of a call without loss: no call with this codec can be better.
    #[must_use]
    pub fn ceiling(&self) -> Scores {
        Scores(
            (0..self.ceiling.len())
                .filter_map(|n| self.lossless_score(n))
                .collect(),
        )
    }

    /// Evaluates a call whose packets arrived unaltered or not at all: see [`Original::evaluate_heard`].
    ///
    /// # Errors
    /// [`CallError::Arrivals`] unless there is one entry per packet.
    pub fn evaluate(
        &self,
        delays_us: &[Option<u64>],
        deadline_us: Option<u64>,
    ) -> Result<Evaluation, CallError> {
        self.evaluate_heard(delays_us, &Altered::new(), deadline_us)
    }

    /// Evaluates a call from the one-way delay of each packet, `None` if it never arrived, and from the payloads that
    /// arrived altered: the sound and the score are those of the payloads that arrived.
    ///
    /// With a deadline, the receiver plays every packet `deadline_us` after it was sent and conceals packets that have
    /// not arrived by then; without one it waits for all packets.
    ///
    /// # Errors
    /// [`CallError::Arrivals`] unless there is one entry per packet.
    pub fn evaluate_heard(
        &self,
        delays_us: &[Option<u64>],
        altered: &Altered,
        deadline_us: Option<u64>,
    ) -> Result<Evaluation, CallError> {
        let playout = Playout::from_delays(delays_us.to_vec(), deadline_us);
        self.evaluate_frames(&playout, &self.heard(altered))
    }

    /// Returns the payloads that are played if all of them arrive.
    fn heard(&self, altered: &Altered) -> Cow<'_, [[u8; FRAME_SAMPLES]]> {
        if altered.is_empty() {
            return Cow::Borrowed(&self.packets);
        }
        let mut frames = self.packets.clone();
        for (index, payload) in altered {
            if let Some(frame) = frames.get_mut(*index as usize) {
                *frame = *payload;
            }
        }
        Cow::Owned(frames)
    }

    /// Evaluates a call from the playout buffer that received it, with unaltered packets.
    ///
    /// # Errors
    /// [`CallError::Arrivals`] unless the buffer has the length of this call.
    pub fn evaluate_playout(&self, playout: &Playout) -> Result<Evaluation, CallError> {
        self.evaluate_frames(playout, &self.packets)
    }

    fn evaluate_frames(
        &self,
        playout: &Playout,
        frames: &[[u8; FRAME_SAMPLES]],
    ) -> Result<Evaluation, CallError> {
        let delays_us = playout.delays_us();
        if delays_us.len() != self.packets.len() {
            return Err(CallError::Arrivals {
                expected: self.packets.len(),
                given: delays_us.len(),
            });
        }
        let totals = playout.totals();
        let delay = Delay::of(delays_us);
        let burst_ratio = emodel::burst_ratio(playout.fates().map(Fate::is_missed));
        let mouth_to_ear_us = mouth_to_ear_us(playout.deadline_us(), delay);
        let rating = Parameters::for_call(
            mouth_to_ear_us,
            totals.missed_fraction(),
            burst_ratio,
            Concealment::AppendixI,
        )
        .rate();
        let received = playout::decode(self.law, frames, playout.fates());
        let scores = self.score(&received);
        Ok(Evaluation {
            totals,
            delay,
            jitter_us: jitter_us(delays_us),
            burst_ratio,
            mouth_to_ear_us,
            rating,
            scores,
            received,
        })
    }

    /// Returns PESQ by segment. Segments without a difference get the loss-free score.
    fn score(&self, received: &[i16]) -> Scores {
        let score_segment = |(index, range): (usize, core::ops::Range<usize>)| {
            if received.get(range.clone()) == self.lossless.get(range) {
                self.lossless_score(index)
            } else {
                self.reference.score_segment(index, received)
            }
        };
        Scores(
            self.reference
                .segments()
                .enumerate()
                .filter_map(score_segment)
                .collect(),
        )
    }

    fn lossless_score(&self, index: usize) -> Option<RawPesq> {
        let cell = self.ceiling.get(index)?;
        if let Some(&score) = cell.get() {
            return Some(score);
        }
        let score = self.reference.score_segment(index, &self.lossless)?;
        Some(*cell.get_or_init(|| score))
    }
}

/// The evaluation of one call.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// Packets sent, played, late and lost.
    pub totals: Totals,
    /// One-way network delay of the packets that arrived, late ones included; `None` if none did.
    pub delay: Option<Delay>,
    /// Interarrival jitter of RFC 3550, averaged over the call.
    pub jitter_us: u64,
    /// Burst ratio of the missed packets; 1 is random.
    pub burst_ratio: f64,
    /// Delay from mouth to ear, by the definition of the E-model.
    pub mouth_to_ear_us: u64,
    /// The E-model's rating and its terms.
    pub rating: Rating,
    /// PESQ by segment.
    pub scores: Scores,
    /// The sound that the listener heard: 8 kHz mono, sample by sample in step with the original.
    pub received: Vec<i16>,
}

impl Evaluation {
    /// Returns the number of packets that never arrived.
    #[must_use]
    pub fn lost(&self) -> u32 {
        self.totals.lost
    }

    /// Returns the number of packets that arrived after the deadline.
    #[must_use]
    pub fn late(&self) -> u32 {
        self.totals.late
    }

    /// Returns the E-model's R, 0 to 100.
    #[must_use]
    pub fn r_factor(&self) -> f64 {
        self.rating.r
    }

    /// Returns the E-model's MOS, 1 to 4.5: a conversation's quality, including delay.
    #[must_use]
    pub fn mos(&self) -> f64 {
        self.rating.mos()
    }

    /// Returns the raw P.862 score, mean over the segments.
    #[must_use]
    pub fn pesq_raw_mean(&self) -> Option<RawPesq> {
        self.scores.raw_mean()
    }

    /// Returns the raw P.862 score, 5th percentile over the segments.
    #[must_use]
    pub fn pesq_raw_p5(&self) -> Option<RawPesq> {
        self.scores.raw_p5()
    }

    /// Returns the P.862.1 score, mean over the segments.
    #[must_use]
    pub fn mos_lqo_mean(&self) -> Option<MosLqo> {
        self.scores.lqo_mean()
    }

    /// Returns the P.862.1 score, 5th percentile over the segments.
    #[must_use]
    pub fn mos_lqo_p5(&self) -> Option<MosLqo> {
        self.scores.lqo_p5()
    }

    /// Describes the delay from mouth to ear. [Papadimitriou06 Table II]
    #[must_use]
    pub fn delay_class(&self) -> &'static str {
        emodel::delay_class(self.mouth_to_ear_us)
    }

    /// Describes the jitter. [Papadimitriou06 Table III]
    #[must_use]
    pub fn jitter_class(&self) -> &'static str {
        emodel::jitter_class(self.jitter_us)
    }

    /// Describes R. [Papadimitriou06 Table IV]
    #[must_use]
    pub fn satisfaction(&self) -> &'static str {
        emodel::satisfaction(self.rating.r)
    }
}

/// One-way network delay over the packets that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delay {
    /// Arithmetic mean.
    pub mean_us: u64,
    /// Median.
    pub p50_us: u64,
    /// 95th percentile.
    pub p95_us: u64,
    /// 99th percentile.
    pub p99_us: u64,
}

impl Delay {
    /// Computes the delays, percentiles by nearest rank. Returns `None` if nothing arrived.
    #[must_use]
    pub fn of(delays_us: &[Option<u64>]) -> Option<Self> {
        let mut sorted: Vec<u64> = delays_us.iter().copied().flatten().collect();
        sorted.sort_unstable();
        let sum: u128 = sorted.iter().map(|&delay| u128::from(delay)).sum();
        let mean_us = sum.checked_div(sorted.len() as u128)? as u64;
        let percentile = |p: usize| sorted[(sorted.len() * p).div_ceil(100) - 1];
        Some(Self {
            mean_us,
            p50_us: percentile(50),
            p95_us: percentile(95),
            p99_us: percentile(99),
        })
    }
}

/// Returns the interarrival jitter of RFC 3550 §6.4.1, in the order of arrival.
///
/// `D` is the difference of two successive arrivals' one-way delays and `J += (|D| − J)/16`. Choice: the result is the
/// mean of J after each arrival, which is what receiver reports show over a call; the last value of J depends only on
/// the last dozen packets.
#[must_use]
pub fn jitter_us(delays_us: &[Option<u64>]) -> u64 {
    let sent_us = (0..).step_by(FRAME_US as usize);
    let mut arrivals: Vec<(u64, u64)> = delays_us
        .iter()
        .zip(sent_us)
        .filter_map(|(&delay, sent): (_, u64)| {
            delay.map(|delay| (sent.saturating_add(delay), delay))
        })
        .collect();
    arrivals.sort_by_key(|&(arrived, _)| arrived);
    let (mut jitter, mut sum) = (0.0, 0.0);
    for pair in arrivals.windows(2) {
        jitter += (pair[1].1.abs_diff(pair[0].1) as f64 - jitter) / 16.0;
        sum += jitter;
    }
    match arrivals.len() {
        0 | 1 => 0,
        count => (sum / (count - 1) as f64).round() as u64,
    }
}

/// Returns `D = D_enc + D_pack + network + D_play` [Papadimitriou06 §4.1.1, eq. 4].
///
/// Filling a packet takes 20 ms and concealment 3.75 ms. With a fixed playout buffer, network and buffer together take
/// the whole deadline, whatever the network's share. Choice: without a deadline, the buffer is assumed to cover 99 % of
/// the packets.
fn mouth_to_ear_us(deadline_us: Option<u64>, delay: Option<Delay>) -> u64 {
    let network_and_buffer = deadline_us.or(delay.map(|d| d.p99_us)).unwrap_or(0);
    (FRAME_US + CONCEALMENT_US).saturating_add(network_and_buffer)
}

#[cfg(test)]
mod tests;
