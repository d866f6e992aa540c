//! Determines the sink for which the others wait.
//!
//! ```text
//!   acknowledged   a ███████████████████████
//!                  b ███████████▌· · · · · ·    lags by more than acknowledgements of equals lie apart, and stands
//!   sent             ███████████████████████▌   and there is no room for the next frame
//! ```
//! Sinks with the same data may be at different offsets, because they acknowledge in steps. A sink that stands still is
//! no reason to wait while the source itself has nothing to send, because it reads or has sent everything. The waiting
//! time begins when the first sink has reached its present position: a pause of all sinks is nobody's fault. If a relay
//! in front of all sinks stops while it holds bytes that only one of them lacks, this looks the same as a sink that
//! stands still.

use super::sink::ACK_BYTES;
use base::NodeAddr;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How far the sinks of a transfer are, and since when.
#[derive(Debug, Default)]
pub(super) struct Awaited {
    ends: BTreeMap<NodeAddr, End>,
    /// The position of the first sink, and since when it has had that position.
    first: Option<(u64, Instant)>,
    /// Since when the source has had a frame for which there is no room.
    held: Option<Instant>,
}

#[derive(Debug, Default)]
struct End {
    acked: u64,
    /// Since when it has lagged behind another sink without progress.
    behind: Option<Instant>,
    is_done: bool,
}

impl Awaited {
    /// Adds a sink.
    pub(super) fn add(&mut self, node: NodeAddr) {
        self.ends.entry(node).or_default();
    }

    /// Notes that a sink has written all bytes before `offset`.
    pub(super) fn on_ack(&mut self, now: Instant, node: NodeAddr, offset: u64) {
        let end = self.ends.get_mut(&node);
        let Some(end) = end.filter(|end| offset > end.acked) else {
            return;
        };
        (end.acked, end.behind) = (offset, None);
        let first = self.first.filter(|(first, _)| *first >= offset);
        let (first, _) = *self.first.insert(first.unwrap_or((offset, now)));
        for end in self.ends.values_mut() {
            let lags = first - end.acked >= ACK_BYTES;
            end.behind = lags.then(|| end.behind.unwrap_or(now));
        }
    }

    /// Notes that a sink has everything.
    pub(super) fn on_done(&mut self, node: NodeAddr) {
        if let Some(end) = self.ends.get_mut(&node) {
            end.is_done = true;
        }
    }

    /// Notes that the source has a frame and waits until there is room for it.
    pub(super) fn hold(&mut self, now: Instant) {
        self.held.get_or_insert(now);
    }

    /// Notes that the frame was sent.
    pub(super) fn let_go(&mut self) {
        self.held = None;
    }

    /// Returns the sink for which the source waits, and for how long the others have waited for it.
    pub(super) fn get(&self, now: Instant) -> Option<(NodeAddr, Duration)> {
        let open = self.ends.iter().filter(|(_, end)| !end.is_done);
        let (node, last) = open.min_by_key(|(_, end)| end.acked)?;
        let (_, at) = self.first?;
        let since = last.behind?.max(self.held?).max(at);
        Some((*node, now.duration_since(since)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: NodeAddr = NodeAddr(1);
    const B: NodeAddr = NodeAddr(2);
    const SECOND: Duration = Duration::from_secs(1);
    const MIB: u64 = 1 << 20;

    fn two() -> Awaited {
        let mut awaited = Awaited::default();
        awaited.add(A);
        awaited.add(B);
        awaited
    }

    #[test]
    fn a_sink_that_stands_while_there_is_no_room_is_awaited() {
        let begun = Instant::now();
        let mut awaited = two();
        awaited.on_ack(begun, B, 5 * MIB);
        awaited.on_ack(begun, A, 9 * MIB);
        assert_eq!(awaited.get(begun + SECOND * 60), None, "there is room");
        awaited.hold(begun + SECOND);
        awaited.hold(begun + SECOND * 2);
        let node = |seconds: u32| awaited.get(begun + SECOND * seconds);
        assert_eq!(node(31), Some((B, SECOND * 30)));
        // The sink continues.
        awaited.on_ack(begun + SECOND * 31, B, 6 * MIB);
        assert_eq!(
            awaited.get(begun + SECOND * 40),
            Some((B, SECOND * 9)),
            "and is behind still"
        );
        awaited.let_go();
        assert_eq!(awaited.get(begun + SECOND * 90), None);
        awaited.hold(begun);
        awaited.on_done(B);
        assert_eq!(awaited.get(begun + SECOND * 90), None, "it has all");
    }

    /// The sinks have the same data, and acknowledge in steps.
    #[test]
    fn sinks_that_stand_with_the_source_are_not_awaited() {
        let begun = Instant::now();
        let mut awaited = two();
        awaited.on_ack(begun, A, 9 * MIB);
        awaited.on_ack(begun, B, 9 * MIB - ACK_BYTES + 1);
        // Both sinks store what they have received.
        awaited.hold(begun);
        assert_eq!(awaited.get(begun + SECOND * 60), None);
        // One sink is further behind, but the source reads.
        let mut awaited = two();
        awaited.on_ack(begun, A, 9 * MIB);
        assert_eq!(awaited.get(begun + SECOND * 60), None);
    }

    #[test]
    fn the_first_one_that_goes_on_after_a_pause_does_not_condemn_the_other() {
        let begun = Instant::now();
        let mut awaited = two();
        awaited.on_ack(begun, A, 9 * MIB);
        awaited.on_ack(begun, B, 9 * MIB);
        awaited.hold(begun);
        let later = begun + SECOND * 60;
        assert_eq!(awaited.get(later), None, "both stand");
        awaited.on_ack(later, A, 30 * MIB);
        assert_eq!(awaited.get(later), Some((B, Duration::ZERO)));
        awaited.on_ack(later + SECOND, B, 30 * MIB);
        assert_eq!(awaited.get(later + SECOND * 60), None);
    }
}
