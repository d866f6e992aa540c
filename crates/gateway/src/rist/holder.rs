//! Decides which encoder has the stream, if several send to one gateway.
//!
//! ```text
//!   no holder ──a packet of flow 1──▶ flow 1 holds ──silent for SILENCE, or its connection is lost──▶ no holder
//!                                       └── packets of other flows are dropped; each flow is reported once
//! ```
//! Without this rule, the packets of two encoders would alternate in one stream, and no player could use it.

use base::{Duration, Time};

/// How long the holder may be silent until another encoder gets the stream; SRT takes as long to notice that an encoder has vanished.
pub(super) const SILENCE: Duration = Duration::from_secs(5);
/// Number of other flows that are remembered; further ones are dropped without a report until one was silent for
/// [`SILENCE`].
const OTHERS_MAX: usize = 16;

/// What happens to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It belongs to the stream.
    Passes,
    /// It is dropped, because another encoder has the stream.
    Drops {
        /// Whether this is the first packet of its flow that is dropped.
        is_first: bool,
    },
}

/// The encoder that has the stream, and others that also send.
#[derive(Debug, Default)]
pub(super) struct Holder {
    /// The flow of the holder and the time of its last packet.
    holds: Option<(u32, Time)>,
    others: Vec<(u32, Time)>,
}

impl Holder {
    /// Decides on a packet of a flow.
    pub(super) fn on_packet(&mut self, now: Time, flow: u32) -> Verdict {
        let is_there = |last: Time| now.since(last) < SILENCE;
        match &mut self.holds {
            Some((holder, last)) if *holder == flow => {
                *last = now;
                return Verdict::Passes;
            }
            Some((_, last)) if is_there(*last) => {}
            _ => {
                self.holds = Some((flow, now));
                self.others.retain(|(other, _)| *other != flow);
                return Verdict::Passes;
            }
        }
        if let Some((_, last)) = self.others.iter_mut().find(|(other, _)| *other == flow) {
            *last = now;
            return Verdict::Drops { is_first: false };
        }
        self.others.retain(|(_, last)| is_there(*last));
        let is_first = self.others.len() < OTHERS_MAX;
        if is_first {
            self.others.push((flow, now));
        }
        Verdict::Drops { is_first }
    }

    /// Takes the stream from its holder, whose connection was lost.
    pub(super) fn release(&mut self) {
        self.holds = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Verdict::{Drops, Passes};

    const REPORTED: Verdict = Drops { is_first: true };
    const SILENT: Verdict = Drops { is_first: false };

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn two_encoders_do_not_mix_and_the_second_is_reported_once() {
        let mut holder = Holder::default();
        for n in 0..600 {
            assert_eq!(holder.on_packet(at(n * 10), 7), Passes, "{n}");
            let expected = if n == 0 { REPORTED } else { SILENT };
            assert_eq!(holder.on_packet(at(n * 10 + 5), 8), expected, "{n}");
        }
    }

    #[test]
    fn the_stream_is_free_after_a_silence_or_a_lost_connection() {
        let mut holder = Holder::default();
        assert_eq!(holder.on_packet(at(0), 7), Passes);
        assert_eq!(holder.on_packet(at(4_999), 8), REPORTED);
        assert_eq!(holder.on_packet(at(5_000), 8), Passes);
        // The first encoder, when it is back, is the second one now.
        assert_eq!(holder.on_packet(at(5_001), 7), REPORTED);
        holder.release();
        assert_eq!(holder.on_packet(at(5_002), 7), Passes);
        assert_eq!(holder.on_packet(at(5_003), 8), REPORTED);
    }

    #[test]
    fn a_flood_of_flows_is_not_remembered_without_limit() {
        let mut holder = Holder::default();
        assert_eq!(holder.on_packet(at(0), 0), Passes);
        let verdicts = (1..1_000).map(|flow| holder.on_packet(at(1), flow));
        let reported = verdicts.filter(|verdict| *verdict == REPORTED).count();
        assert_eq!(reported, OTHERS_MAX);
        assert_eq!(holder.on_packet(at(4_000), 0), Passes);
        // The places of flows that have ended are free again.
        assert_eq!(holder.on_packet(at(5_001), 1_000), REPORTED);
    }
}
