//! One call, judged: what arrived when, what was heard, and how good it was.
//!
//! ```text
//!   Original (speech, law)     prepared once: packets, PESQ references, scores without loss
//!      │  evaluate_heard(delays, what came altered, deadline)
//!      v
//!   Evaluation                 loss and delay, E-model, PESQ, the PCM that was heard
//! ```
//!
//! The same original serves any number of calls. A segment that a call delivered whole has the
//! loss-free score, which is computed once: PESQ is run only where something was missed.
//!
//! Two judgements stand side by side. PESQ hears what was lost but not how long it took; the
//! E-model counts both, from numbers alone. Their scales differ and are named.

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
    /// The arrivals are not those of this speech.
    #[error("the call has {expected} packets but {given} arrivals were given: give one per packet")]
    Arrivals {
        /// Packets of the original.
        expected: usize,
        /// Entries given.
        given: usize,
    },
    /// The speech cannot be scored.
    #[error(transparent)]
    Score(#[from] ScoreError),
}

/// The payloads of one call that did not arrive as they were sent, by their packets. Almost none do, so the others
/// are not kept.
pub type Altered = BTreeMap<u32, [u8; FRAME_SAMPLES]>;

/// Speech prepared for calls that carry it.
pub struct Original {
    law: Law,
    packets: Vec<[u8; FRAME_SAMPLES]>,
    /// What a call without loss plays.
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
    /// When the speech is too short or silent, so that PESQ has nothing to compare.
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

    /// The companding law of the calls.
    #[must_use]
    pub fn law(&self) -> Law {
        self.law
    }

    /// The payloads to send, one every 20 ms.
    #[must_use]
    pub fn packets(&self) -> &[[u8; FRAME_SAMPLES]] {
        &self.packets
    }

    /// The scores of a call without loss: no call over this codec can be better.
    #[must_use]
    pub fn ceiling(&self) -> Scores {
        Scores(
            (0..self.ceiling.len())
                .filter_map(|n| self.lossless_score(n))
                .collect(),
        )
    }

    /// Judges a call whose packets arrived as they were sent, or never: see [`Original::evaluate_heard`].
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

    /// Judges a call from the one-way delay of each packet, `None` for what never arrived, and from the payloads
    /// that are not those that were sent: what is heard, and scored, is what arrived.
    ///
    /// With a deadline the receiver plays every packet `deadline_us` after it was sent and conceals
    /// what is not there by then; without one it waits for everything.
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

    /// What is played where all of it arrives.
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

    /// Judges a call from the playout buffer that received it, packets as they were sent.
    ///
    /// # Errors
    /// [`CallError::Arrivals`] unless the buffer is of this call's length.
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

    /// PESQ by segment, taking over the loss-free score where nothing differs from it.
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

/// The judgement of one call.
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
    /// Delay from mouth to ear, as the E-model counts it.
    pub mouth_to_ear_us: u64,
    /// The E-model's rating and its terms.
    pub rating: Rating,
    /// PESQ by segment.
    pub scores: Scores,
    /// What the listener heard: 8 kHz mono, sample by sample in step with the original.
    pub received: Vec<i16>,
}

impl Evaluation {
    /// Packets that never arrived.
    #[must_use]
    pub fn lost(&self) -> u32 {
        self.totals.lost
    }

    /// Packets that arrived after the deadline.
    #[must_use]
    pub fn late(&self) -> u32 {
        self.totals.late
    }

    /// The E-model's R, 0 to 100.
    #[must_use]
    pub fn r_factor(&self) -> f64 {
        self.rating.r
    }

    /// The E-model's MOS, 1 to 4.5: a conversation's quality, delay included.
    #[must_use]
    pub fn mos(&self) -> f64 {
        self.rating.mos()
    }

    /// Raw P.862 score, mean over the segments.
    #[must_use]
    pub fn pesq_raw_mean(&self) -> Option<RawPesq> {
        self.scores.raw_mean()
    }

    /// Raw P.862 score, 5th percentile over the segments.
    #[must_use]
    pub fn pesq_raw_p5(&self) -> Option<RawPesq> {
        self.scores.raw_p5()
    }

    /// P.862.1 score, mean over the segments.
    #[must_use]
    pub fn mos_lqo_mean(&self) -> Option<MosLqo> {
        self.scores.lqo_mean()
    }

    /// P.862.1 score, 5th percentile over the segments.
    #[must_use]
    pub fn mos_lqo_p5(&self) -> Option<MosLqo> {
        self.scores.lqo_p5()
    }

    /// Words for the delay from mouth to ear. [Papadimitriou06 Table II]
    #[must_use]
    pub fn delay_class(&self) -> &'static str {
        emodel::delay_class(self.mouth_to_ear_us)
    }

    /// Words for the jitter. [Papadimitriou06 Table III]
    #[must_use]
    pub fn jitter_class(&self) -> &'static str {
        emodel::jitter_class(self.jitter_us)
    }

    /// Words for R. [Papadimitriou06 Table IV]
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
    /// `None` when nothing arrived. Percentiles by nearest rank.
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

/// The interarrival jitter of RFC 3550 §6.4.1, in the order of arrival.
///
/// `D` is the difference of two successive arrivals' one-way delays and `J += (|D| − J)/16`.
/// Choice: the mean of J after each arrival, which is what receiver reports show over a call; its
/// last value alone remembers only the last dozen packets.
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

/// `D = D_enc + D_pack + network + D_play` [Papadimitriou06 §4.1.1, eq. 4].
///
/// Filling a packet takes 20 ms and concealment 3.75 ms. With a fixed playout buffer the network
/// and the buffer together take the deadline, whatever the network's share.
/// Choice: without a deadline the buffer is taken to cover 99 % of the packets.
fn mouth_to_ear_us(deadline_us: Option<u64>, delay: Option<Delay>) -> u64 {
    let network_and_buffer = deadline_us.or(delay.map(|d| d.p99_us)).unwrap_or(0);
    (FRAME_US + CONCEALMENT_US).saturating_add(network_and_buffer)
}

#[cfg(test)]
mod tests;
