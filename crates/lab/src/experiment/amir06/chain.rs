//! Voice over a chain of production nodes in the simulator: the common part of figures 4 to 10.
//!
//! ```text
//!   A ──10 ms── B            10 streams, a packet of 160 bytes every 20 ms each, their phases
//!   A ── B ── C              spread: one packet every 2 ms
//!   A ── B ── C ══ D ── E ── F      ══ loses, in both directions
//! ```
//!
//! Each run is a scenario, written as text, so that it can also be run alone.

use crate::experiment::CellError;
use crate::scenario::{Call, Report, Scenario, Simulation};
use base::Duration;
use std::fmt::Write as _;
use voice::call::Altered;
use voice::frames::FRAME_SAMPLES;

/// The speech in a packet.
pub(super) type Frame = [u8; FRAME_SAMPLES];

/// Delay of every link. [Amir06 §IV-A]
pub(super) const LINK_MS: u32 = 10;
/// Streams in parallel. [Amir06 §IV-A]
pub(super) const STREAMS: u32 = 10;
/// Time between two packets of a stream.
pub(super) const INTERVAL_MS: u32 = 20;
/// Bytes of a packet: 20 ms of G.711. [Amir06 §IV-A]
pub(super) const PACKET_BYTES: u32 = 160;
/// Burstiness in percent: the probability that the packet after a lost one is lost. [Amir06 §II-C]
pub(super) const BURSTS: [f64; 4] = [0.0, 25.0, 50.0, 75.0];

/// The loss of a path, in both directions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Loss {
    pub(super) percent: f64,
    pub(super) burst_percent: f64,
}

/// Voice over a chain.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    /// `paper` or `modern`.
    pub(super) profile: &'static str,
    /// Its links; for each, whether it loses packets.
    pub(super) lossy: Vec<bool>,
    pub(super) loss: Loss,
    pub(super) streams: u32,
    /// Number of packets of each stream.
    pub(super) packets: u32,
    /// The time after which a packet is late.
    pub(super) deadline_ms: u32,
}

/// The result of one run.
pub(super) struct Outcome {
    pub(super) report: Report,
    /// The streams' packets.
    pub(super) calls: Vec<Call>,
    /// For each stream, the payloads that arrived altered, if it carried speech.
    pub(super) altered: Vec<Altered>,
}

impl Loss {
    /// Returns the loss in the words of a link.
    pub(super) fn words(self) -> String {
        match self {
            Loss { percent: 0.0, .. } => String::new(),
            Loss {
                percent,
                burst_percent: 0.0,
            } => format!(" loss={percent}%"),
            Loss {
                percent,
                burst_percent,
            } => format!(" loss={percent}% burst={burst_percent}%"),
        }
    }
}

impl Chain {
    /// Simulates the chain.
    pub(super) fn run(&self, seed: u64) -> Result<Outcome, CellError> {
        simulate("chain", &self.scenario(), seed)
    }

    /// Simulates the chain with streams that carry speech.
    pub(super) fn talk(&self, seed: u64, speech: &[Frame]) -> Result<Outcome, CellError> {
        simulate_talk("chain", &self.scenario(), seed, speech)
    }

    fn scenario(&self) -> String {
        let mut text = head("chain", self.profile, self.packets * INTERVAL_MS);
        for n in 0..=self.lossy.len() {
            let _ = write!(text, "[[node]]\nname = \"n{n}\"\n");
        }
        for (n, lossy) in self.lossy.iter().enumerate() {
            let link = format!(
                "a = \"n{n}\"\nb = \"n{}\"\npath = \"delay={LINK_MS}ms",
                n + 1
            );
            let _ = write!(text, "[[link]]\n{link}\"\n");
            if *lossy {
                // Links come up without losses: a call begins on an established network.
                let _ = write!(
                    text,
                    "[[fault]]\nat = \"0s\"\nkind = \"link-set\"\n{link}{}\"\n",
                    self.loss.words()
                );
            }
        }
        let _ = write!(
            text,
            "[[flow]]\nfrom = \"n0\"\nto = \"n{}\"\ncount = {}\npacket = {PACKET_BYTES}\n\
             deadline = \"{}ms\"\n",
            self.lossy.len(),
            self.streams,
            self.deadline_ms
        );
        text
    }
}

/// Returns the head of a scenario of this length. Sealing has no effect on these measurements.
pub(super) fn head(name: &str, profile: &str, duration_ms: u32) -> String {
    format!(
        "[scenario]\nname = \"{name}\"\nprofile = \"{profile}\"\nduration = \"{duration_ms}ms\"\n\
         sealing = false\n"
    )
}

/// Simulates the text of a scenario with one flow.
pub(super) fn simulate(name: &str, text: &str, seed: u64) -> Result<Outcome, CellError> {
    simulate_talk(name, text, seed, &[])
}

/// Simulates it with packets that carry speech.
pub(super) fn simulate_talk(
    name: &str,
    text: &str,
    seed: u64,
    speech: &[Frame],
) -> Result<Outcome, CellError> {
    let failed = |error: &dyn std::fmt::Display| CellError(error.to_string());
    let scenario = Scenario::parse(name, text).map_err(|error| failed(&error))?;
    let mut simulation = Simulation::new(&scenario, seed);
    simulation.say(speech);
    while simulation.run_for(Duration::from_secs(3_600)) {}
    let altered = simulation.altered();
    let (report, mut calls) = simulation.finish_with_calls();
    Ok(Outcome {
        report,
        altered,
        calls: calls.drain(..).flatten().collect(),
    })
}

impl Outcome {
    /// Returns the number of packets sent.
    pub(super) fn sent(&self) -> f64 {
        self.calls.iter().map(Vec::len).sum::<usize>() as f64
    }

    /// Returns the number of packets that never arrived.
    pub(super) fn lost(&self) -> f64 {
        let packets = self.calls.iter().flatten();
        packets.filter(|delay| delay.is_none()).count() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(links: usize, percent: f64) -> Chain {
        Chain {
            profile: "paper",
            lossy: vec![true; links],
            loss: Loss {
                percent,
                burst_percent: 25.0,
            },
            streams: STREAMS,
            packets: 300,
            deadline_ms: 1_000,
        }
    }

    #[test]
    fn without_loss_all_arrive_and_nothing_is_asked_for() {
        let outcome = chain(2, 0.0).run(1).unwrap();
        assert_eq!((outcome.sent(), outcome.lost()), (3_000.0, 0.0));
        assert_eq!(outcome.report.overlay.requested, 0);
        let delays = outcome.calls.iter().flatten();
        assert!(delays.flatten().all(|us| *us == 20_000));
    }

    #[test]
    fn what_is_lost_comes_a_round_trip_later_or_not_at_all() {
        let outcome = chain(1, 10.0).run(1).unwrap();
        let overlay = &outcome.report.overlay;
        assert!(outcome.lost() > 0.0 && overlay.recovered > 100);
        assert!(overlay.recovered <= overlay.retransmitted);
        assert!(overlay.retransmitted <= overlay.requested);
        let late = outcome
            .calls
            .iter()
            .flatten()
            .flatten()
            .filter(|us| **us > 10_000);
        let late: Vec<u32> = late.copied().collect();
        assert_eq!(late.len() as u64, overlay.recovered);
        // The delay is three times the link's, and one packet interval or more.
        assert!(late.iter().all(|us| *us >= 32_000));
        assert_eq!(outcome.calls, chain(1, 10.0).run(1).unwrap().calls);
        assert_ne!(outcome.calls, chain(1, 10.0).run(2).unwrap().calls);
    }

    #[test]
    fn what_is_said_over_a_lossy_chain_is_heard_as_it_was_said() {
        let speech: Vec<Frame> = (0..7_u8).map(|n| [0x11 * (n + 1); FRAME_SAMPLES]).collect();
        let chain = chain(1, 10.0);
        let said = chain.talk(1, &speech).unwrap();
        assert_eq!(said.altered.len(), STREAMS as usize);
        assert!(said.altered.iter().all(Altered::is_empty));
        assert!(said.report.overlay.recovered > 100);
        // The payloads do not change the arrival times.
        assert_eq!(said.calls, chain.run(1).unwrap().calls);
    }

    #[test]
    fn what_comes_otherwise_than_it_is_said_is_kept() {
        let scenario = Scenario::parse("chain", &chain(2, 0.0).scenario()).unwrap();
        let mut simulation = Simulation::new(&scenario, 1);
        let mut kept = Vec::new();
        // The text changes every second: packets under way then still carry the previous text.
        for text in 1.. {
            simulation.say(&[[text; FRAME_SAMPLES]]);
            let goes_on = simulation.run_for(Duration::from_secs(1));
            let altered = simulation.altered().into_iter().flatten();
            kept.extend(altered.map(|(place, frame)| (place, text, frame)));
            if !goes_on {
                break;
            }
        }
        assert!(kept.len() >= STREAMS as usize, "{}", kept.len());
        for (place, text, frame) in kept {
            assert_eq!((frame[0], frame[FRAME_SAMPLES - 1]), (text, text - 1));
            assert!(place < 300);
        }
    }
}
