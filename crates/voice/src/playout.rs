//! Playout: which packets of a call were heard, and what the listener heard.
//!
//! The receiver has a fixed playout buffer: it plays the packet sent at time `t` at `t + deadline`, for every packet.
//! So the one-way delay of a packet alone decides its fate:
//!
//! ```text
//!   delay ≤ deadline          played
//!   delay > deadline          late      arrived, but the codec had to conceal it already
//!   never arrived             lost
//!   missed = late + lost      what the listener's codec goes without [Amir06 §V-B]
//! ```
//!
//! Without a deadline the receiver waits for all packets, as a recording would.
//!
//! Life cycle: [`Playout::new`] for a number of packets, [`Playout::arrive`] for each arrival in
//! any order, then [`Playout::fates`], [`Playout::totals`] and [`decode`].

use crate::frames::FRAME_SAMPLES;
use crate::g711::Law;
use crate::plc::{Concealer, DELAY, FRAME};

/// Position of a packet in its call, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameSeq(pub u32);

/// The result for one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fate {
    /// Arrived after its playout time; concealed.
    Late,
    /// Never arrived; concealed.
    Lost,
    /// Arrived in time and was played.
    Played,
}

impl Fate {
    /// Returns whether the codec had to do without the packet.
    #[must_use]
    pub fn is_missed(self) -> bool {
        self != Fate::Played
    }
}

/// Why an arrival changed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Ignored {
    /// A copy that was not earlier than the first arrival.
    #[error("packet {0:?} had arrived before: ignored")]
    Duplicate(FrameSeq),
    /// A sequence number that the call never sent.
    #[error("packet {0:?} is beyond the call's last packet: ignored")]
    Unknown(FrameSeq),
}

/// Counts over one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Packets sent.
    pub sent: u32,
    /// Packets played.
    pub played: u32,
    /// Packets that arrived after the deadline.
    pub late: u32,
    /// Packets that never arrived.
    pub lost: u32,
    /// Arrivals ignored as duplicates.
    pub duplicates: u32,
    /// Arrivals ignored because the call had no such packet.
    pub unknown: u32,
}

impl Totals {
    /// Returns the number of packets that the codec had to conceal: late and lost.
    #[must_use]
    pub fn missed(&self) -> u32 {
        self.late + self.lost
    }

    /// Returns the fraction of the sent packets that was missed.
    #[must_use]
    pub fn missed_fraction(&self) -> f64 {
        if self.sent == 0 {
            return 0.0;
        }
        f64::from(self.missed()) / f64::from(self.sent)
    }
}

/// The arrivals of one call.
#[derive(Debug, Clone)]
pub struct Playout {
    /// Earliest one-way delay of each packet.
    delays_us: Vec<Option<u64>>,
    deadline_us: Option<u64>,
    duplicates: u32,
    unknown: u32,
}

impl Playout {
    /// Creates a call of `frames` packets that are played `deadline_us` after they were sent.
    #[must_use]
    pub fn new(frames: u32, deadline_us: Option<u64>) -> Self {
        Self::from_delays(vec![None; frames as usize], deadline_us)
    }

    /// Creates a call with known arrivals: the one-way delay of each packet, `None` if it never arrived.
    #[must_use]
    pub fn from_delays(delays_us: Vec<Option<u64>>, deadline_us: Option<u64>) -> Self {
        Self {
            delays_us,
            deadline_us,
            duplicates: 0,
            unknown: 0,
        }
    }

    /// Notes a packet that arrived `delay_us` after it was sent. If there are several copies, the earliest counts.
    ///
    /// # Errors
    /// Fails if the arrival changed nothing; [`Totals`] counts it as well.
    pub fn arrive(&mut self, seq: FrameSeq, delay_us: u64) -> Result<Fate, Ignored> {
        let Some(slot) = self.delays_us.get_mut(seq.0 as usize) else {
            self.unknown = self.unknown.saturating_add(1);
            return Err(Ignored::Unknown(seq));
        };
        let earlier = *slot;
        if earlier.is_some() {
            self.duplicates = self.duplicates.saturating_add(1);
        }
        match earlier {
            Some(earlier) if earlier <= delay_us => Err(Ignored::Duplicate(seq)),
            _ => {
                *slot = Some(delay_us);
                Ok(self.fate(Some(delay_us)))
            }
        }
    }

    /// Returns how long after its sending a packet is played; `None` if the receiver waits for all packets.
    #[must_use]
    pub fn deadline_us(&self) -> Option<u64> {
        self.deadline_us
    }

    /// Returns the one-way delay of each packet, `None` if it never arrived.
    #[must_use]
    pub fn delays_us(&self) -> &[Option<u64>] {
        &self.delays_us
    }

    /// Returns the fate of each packet, in the order of sending.
    pub fn fates(&self) -> impl Iterator<Item = Fate> + '_ {
        self.delays_us.iter().map(|&delay| self.fate(delay))
    }

    /// Returns the counts over the call.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let mut totals = Totals {
            sent: self.delays_us.len() as u32,
            duplicates: self.duplicates,
            unknown: self.unknown,
            ..Totals::default()
        };
        for fate in self.fates() {
            *match fate {
                Fate::Late => &mut totals.late,
                Fate::Lost => &mut totals.lost,
                Fate::Played => &mut totals.played,
            } += 1;
        }
        totals
    }

    fn fate(&self, delay_us: Option<u64>) -> Fate {
        match (delay_us, self.deadline_us) {
            (None, _) => Fate::Lost,
            (Some(delay), Some(deadline)) if delay > deadline => Fate::Late,
            (Some(_), _) => Fate::Played,
        }
    }
}

/// Returns what the listener hears: the played packets decoded, the missed ones concealed.
///
/// The function removes the concealer's 30 samples of delay again, so sample `n` of the result is sample `n` of the
/// call, and a call without loss is exactly the codec's output. Packets without a fate count as lost.
#[must_use]
pub fn decode(
    law: Law,
    frames: &[[u8; FRAME_SAMPLES]],
    fates: impl IntoIterator<Item = Fate>,
) -> Vec<i16> {
    let mut concealer = Concealer::new();
    let mut pcm = Vec::with_capacity(frames.len() * FRAME_SAMPLES + DELAY);
    let mut fates = fates.into_iter();
    for frame in frames {
        let missed = fates.next().is_none_or(Fate::is_missed);
        // A packet is two frames of the concealer.
        for half in frame.as_chunks::<FRAME>().0 {
            pcm.extend(if missed {
                concealer.lost()
            } else {
                concealer.good(&half.map(|code| law.decode(code)))
            });
        }
    }
    pcm.extend(concealer.tail());
    pcm.drain(..DELAY);
    pcm
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames;
    use proptest::prelude::*;

    #[test]
    fn the_deadline_is_the_last_moment() {
        let mut playout = Playout::new(4, Some(100_000));
        assert_eq!(playout.arrive(FrameSeq(0), 100_000), Ok(Fate::Played));
        assert_eq!(playout.arrive(FrameSeq(1), 100_001), Ok(Fate::Late));
        assert_eq!(playout.arrive(FrameSeq(3), 0), Ok(Fate::Played));
        let fates: Vec<_> = playout.fates().collect();
        assert_eq!(fates, [Fate::Played, Fate::Late, Fate::Lost, Fate::Played]);
        let totals = playout.totals();
        assert_eq!((totals.played, totals.late, totals.lost), (2, 1, 1));
        assert_eq!(totals.missed_fraction(), 0.5);
    }

    #[test]
    fn of_several_copies_the_earliest_counts() {
        let mut playout = Playout::new(1, Some(100_000));
        assert_eq!(playout.arrive(FrameSeq(0), 150_000), Ok(Fate::Late));
        assert_eq!(playout.arrive(FrameSeq(0), 90_000), Ok(Fate::Played));
        let again = playout.arrive(FrameSeq(0), 95_000);
        assert_eq!(again, Err(Ignored::Duplicate(FrameSeq(0))));
        let beyond = playout.arrive(FrameSeq(1), 0);
        assert_eq!(beyond, Err(Ignored::Unknown(FrameSeq(1))));
        let totals = playout.totals();
        assert_eq!(
            (totals.played, totals.duplicates, totals.unknown),
            (1, 2, 1)
        );
    }

    #[test]
    fn without_a_deadline_nothing_is_late() {
        let playout = Playout::from_delays(vec![Some(u64::MAX), None], None);
        assert_eq!(
            playout.fates().collect::<Vec<_>>(),
            [Fate::Played, Fate::Lost]
        );
        assert_eq!(Playout::new(0, None).totals().missed_fraction(), 0.0);
    }

    #[test]
    fn a_call_without_loss_is_the_codec_and_nothing_else() {
        let pcm: Vec<i16> = (0..1600_i32)
            .map(|n| (n * 40_503 % 65_536 - 32_768) as i16)
            .collect();
        for law in [Law::Mu, Law::A] {
            let sent = frames::encode(law, &pcm);
            let heard = decode(law, &sent, sent.iter().map(|_| Fate::Played));
            assert_eq!(heard, law.decode_all(&law.encode_all(&pcm)));
        }
    }

    #[test]
    fn a_missed_packet_is_two_lost_frames() {
        let sent = frames::encode(Law::Mu, &[10_000; 1600]);
        // Constant sound repeats unchanged; only the gain of the second 10 ms shows.
        let heard = decode(
            Law::Mu,
            &sent,
            (0..10).map(|n| [Fate::Played, Fate::Late][usize::from(n == 5)]),
        );
        let level = Law::Mu.decode(sent[0][0]);
        assert!(heard[..880].iter().all(|&s| s == level));
        assert!(heard[881..960].is_sorted_by(|a, b| a > b));
        assert!(heard[1100..].iter().all(|&s| s == level));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Compares with a model that keeps every arrival and evaluates at the end.
        #[test]
        fn totals_agree_with_a_log(
            arrivals in prop::collection::vec((0_u32..12, 0_u64..300), 0..60),
            deadline in prop::option::of(0_u64..300),
        ) {
            let mut playout = Playout::new(10, deadline);
            for &(seq, delay) in &arrivals {
                let _ = playout.arrive(FrameSeq(seq), delay);
            }
            let totals = playout.totals();
            for (seq, fate) in (0..10).zip(playout.fates()) {
                let best = arrivals.iter().filter(|a| a.0 == seq).map(|a| a.1).min();
                prop_assert_eq!(fate == Fate::Lost, best.is_none());
                let late = best.zip(deadline).is_some_and(|(best, deadline)| best > deadline);
                prop_assert_eq!(fate == Fate::Late, late);
            }
            prop_assert_eq!(totals.played + totals.missed(), 10);
            let accounted = 10 - totals.lost + totals.duplicates + totals.unknown;
            prop_assert_eq!(accounted as usize, arrivals.len());
        }
    }
}
