//! Whether the node is away, as seen by several sockets to the same node.
//!
//! ```text
//!   the first socket that loses the node ──▶ node_away      the last one that has it again ──▶ node_back
//! ```

use std::collections::BTreeSet;

/// The sockets that have lost the node, by number.
#[derive(Debug, Default)]
pub(super) struct Ends {
    away: BTreeSet<usize>,
}

impl Ends {
    /// Records that a socket has lost the node. Returns true if it is the first one.
    pub(super) fn on_away(&mut self, end: usize) -> bool {
        let is_first = self.away.is_empty();
        self.away.insert(end) && is_first
    }

    /// Records that a socket has the node again. Returns true if it is the last one.
    pub(super) fn on_back(&mut self, end: usize) -> bool {
        self.away.remove(&end) && self.away.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loss_of_the_node_is_one_event_and_its_return_another() {
        let mut ends = Ends::default();
        for _ in 0..2 {
            assert_eq!([0, 1, 2].map(|end| ends.on_away(end)), [true, false, false]);
            assert_eq!([1, 0, 2].map(|end| ends.on_back(end)), [false, false, true]);
        }
        // A socket that has not lost the node changes nothing.
        assert!(!ends.on_back(1));
        assert!(ends.on_away(1) && ends.on_back(1));
    }
}
