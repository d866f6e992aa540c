//! For which sink the others wait.
//!
//! ```text
//!   acknowledged   a ███████████████████████
//!                  b ███████████▌· · · · · ·    lags by more than acknowledgements of equals lie apart, and stands
//!   sent             ███████████████████████▌   and there is no room for the next frame
//! ```
//! Sinks that have the same may stand at different offsets, since they acknowledge in steps. And what stands is no reason to
//! wait while the source itself has nothing to send: it reads, or all is sent. Its time begins when the first sink has come to
//! where it stands now: a pause of all is nobody's. A relay before all of them that stops while it holds what only one of them
//! lacks cannot be told from that one: both look like this from here.

use super::sink::ACK_BYTES;
use base::NodeAddr;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How far the sinks of a transfer are, and since when.
#[derive(Debug, Default)]
pub(super) struct Awaited {
    ends: BTreeMap<NodeAddr, End>,
    /// What the first of them has, and since when.
    first: Option<(u64, Instant)>,
    /// Since when the source has a frame for which there is no room.
    held: Option<Instant>,
}

#[derive(Debug, Default)]
struct End {
    acked: u64,
    /// Since when it lags behind another one and stands.
    behind: Option<Instant>,
    is_done: bool,
}

impl Awaited {
    /// There is this sink.
    pub(super) fn add(&mut self, node: NodeAddr) {
        self.ends.entry(node).or_default();
    }

    /// A sink has written all before `offset`.
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

    /// A sink has all.
    pub(super) fn on_done(&mut self, node: NodeAddr) {
        if let Some(end) = self.ends.get_mut(&node) {
            end.is_done = true;
        }
    }

    /// The source has a frame, and waits until there is room for it.
    pub(super) fn hold(&mut self, now: Instant) {
        self.held.get_or_insert(now);
    }

    /// The frame is sent.
    pub(super) fn let_go(&mut self) {
        self.held = None;
    }

    /// The sink for which the source waits, and for how long the others have waited for it.
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
        // It goes on.
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

    /// They have the same, and acknowledge in steps.
    #[test]
    fn sinks_that_stand_with_the_source_are_not_awaited() {
        let begun = Instant::now();
        let mut awaited = two();
        awaited.on_ack(begun, A, 9 * MIB);
        awaited.on_ack(begun, B, 9 * MIB - ACK_BYTES + 1);
        // Both store what they have got.
        awaited.hold(begun);
        assert_eq!(awaited.get(begun + SECOND * 60), None);
        // One is further behind, and the source reads.
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
