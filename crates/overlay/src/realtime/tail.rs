//! Detects that a lane has fallen silent after data.
//!
//! ```text
//!   data   | | | | |                        |
//!                  └─ quiet ─▶ probe ▶ probe    (then nothing until there is data again)
//! ```
//!
//! Silence is measured relative to the lane's own rhythm: an envelope of the gaps between packets that follows a larger
//! gap at once and shrinks with a time constant of 134 ms. A pattern that repeats within 20 ms keeps the envelope above
//! 1 − 20/134 = 0.85 of its largest gap, and keeps the threshold, 1.25 of the envelope, above that gap. So a steady
//! voice stream, or any number of them in any phase, never counts as silent between packets.

use base::{Duration, Time};

/// The shortest silence that is detected, so that a busy lane does not probe at every short stall of its host.
const QUIET_MIN: Duration = Duration::from_millis(4);
/// The initial envelope: one voice stream.
const GAP_INITIAL: Duration = Duration::from_millis(20);
/// The envelope's time constant is 2^27 ns = 134 ms.
const ENVELOPE_SHIFT: u32 = 27;
/// The time between probes of one silence. A burst of losses is mostly over by then, and two probes still fit into the
/// 50 ms of slack on a link of 20 ms round trip.
const PROBE_SPACING: Duration = Duration::from_millis(5);

/// The silence detector.
#[derive(Clone, Debug)]
pub(super) struct Tail {
    limit: u8,
    /// Gaps longer than this are pauses, after which probes are useless: the history is empty.
    pause: Duration,
    envelope: Duration,
    last_data: Time,
    last_probe: Time,
    /// Probes in this silence; equal to the limit before there was data.
    sent: u8,
}

impl Tail {
    pub(super) fn new(limit: u8, pause: Duration) -> Tail {
        Tail {
            limit,
            pause,
            envelope: GAP_INITIAL,
            last_data: Time::ZERO,
            last_probe: Time::ZERO,
            sent: limit,
        }
    }

    #[inline]
    pub(super) fn on_data(&mut self, now: Time) {
        let gap = now.since(self.last_data);
        if gap < self.pause {
            let product = u128::from(self.envelope.as_nanos()) * u128::from(gap.as_nanos());
            let shrink = Duration::from_nanos((product >> ENVELOPE_SHIFT) as u64);
            self.envelope = self.envelope.saturating_sub(shrink).max(gap);
        }
        self.last_data = now;
        self.sent = 0;
    }

    /// Returns when the next probe is due.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        if self.sent >= self.limit {
            return None;
        }
        let quiet = (self.envelope + self.envelope.div(4)).max(QUIET_MIN);
        match self.sent {
            0 => (quiet < self.pause).then(|| self.last_data + quiet),
            _ => Some(self.last_probe + PROBE_SPACING),
        }
    }

    /// Returns which probe of this silence to send, from 0, if one is due.
    pub(super) fn on_timeout(&mut self, now: Time) -> Option<u8> {
        let due = self.next_timeout()?;
        if due > now {
            return None;
        }
        self.sent += 1;
        self.last_probe = now;
        Some(self.sent - 1)
    }

    /// Returns the largest recent gap between packets.
    pub(super) fn envelope(&self) -> Duration {
        self.envelope
    }

    /// Returns when the last data was sent.
    pub(super) fn last_data(&self) -> Time {
        self.last_data
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_millis(150);

    fn at(us: u64) -> Time {
        Time::ZERO + Duration::from_micros(us)
    }

    /// Feeds packets at these moments (in µs) and returns when probes came.
    fn probes(moments: impl IntoIterator<Item = u64>, until_us: u64) -> Vec<u64> {
        let mut tail = Tail::new(2, PAUSE);
        let mut out = Vec::new();
        let mut run_to = |tail: &mut Tail, now: Time| {
            while let Some(due) = tail.next_timeout().filter(|&due| due < now) {
                assert!(tail.on_timeout(due).is_some());
                out.push(due.as_micros());
            }
        };
        for us in moments {
            run_to(&mut tail, at(us));
            tail.on_data(at(us));
        }
        run_to(&mut tail, at(until_us));
        out
    }

    #[test]
    fn voice_is_not_silent_between_its_packets() {
        assert_eq!(
            probes((0..500).map(|i| 1_000 + i * 20_000), 9_981_000),
            [0u64; 0]
        );
        // Three streams, with phases as uneven as possible.
        let phased = (0..500).flat_map(|i| [0, 100, 900].map(|p| 1_000 + i * 20_000 + p));
        assert_eq!(probes(phased, 9_981_900), [0u64; 0]);
    }

    #[test]
    fn a_busy_lane_is_silent_after_four_milliseconds() {
        let last = 1_000 + 999 * 2_000;
        let out = probes((0..1000).map(|i| 1_000 + i * 2_000), last + 1_000_000);
        assert_eq!(out, [last + 4_000, last + 9_000]);
    }

    #[test]
    fn one_stream_is_silent_after_a_frame_and_a_quarter() {
        let last = 1_000 + 99 * 20_000;
        let out = probes((0..100).map(|i| 1_000 + i * 20_000), last + 1_000_000);
        assert_eq!(out, [last + 25_000, last + 30_000]);
    }

    #[test]
    fn nothing_sent_nothing_probed() {
        assert_eq!(Tail::new(2, PAUSE).next_timeout(), None);
        let mut none = Tail::new(0, PAUSE);
        none.on_data(at(5));
        assert_eq!(
            (none.next_timeout(), none.on_timeout(Time::FAR)),
            (None, None)
        );
    }

    #[test]
    fn each_silence_has_its_own_probes() {
        // Spurts of 100 packets every 2 ms, a second apart: pauses do not count as gaps.
        let spurts = (0..3).flat_map(|s| (0..100).map(move |i| 1_000 + s * 1_200_000 + i * 2_000));
        assert_eq!(probes(spurts, 10_000_000).len(), 6);
    }
}
