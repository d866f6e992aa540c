//! What the flows of a lane want of its repair: the strictest target, and what all of them may spend together.
//!
//! ```text
//!   20 calls, nothing said                target 0.05 %            at most +50 %
//!   19 of them, one wants 0.001 %, +100 %        0.001 % of it     at most +52.5 %: it brings what it may spend itself
//!   1 call, content with 2 %                     2 %               at most +100 %
//!   1 call, no repair                            it counts for nothing, and is not covered
//! ```
//! One flow so makes a lane dearer by no more than its own share, however strict it is, and no flow may spend more than the
//! node allows a single one.

use super::{Aims, TOLERANCE};
use crate::flow::FlowKey;
use wire::Aim;

/// Of the packets that passed in a second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wishes {
    /// The strictest target that a flow has, and which one.
    strictest: Option<(f64, FlowKey)>,
    /// Packets that may be repaired, those of them that say how dearly, and the sum of what these say.
    packets: u32,
    capped: u32,
    caps: f64,
    /// Some flow says nothing of a target.
    is_plain: bool,
}

impl Wishes {
    /// Notes a packet of a flow; `requests` is what requests alone leave. True if it is to be repaired.
    #[inline]
    pub(super) fn note(
        &mut self,
        aims: &Aims,
        wish: Option<(FlowKey, Aim)>,
        requests: f64,
    ) -> bool {
        let Some((flow, aim)) = wish else {
            self.packets += 1;
            self.is_plain = true;
            return true;
        };
        let most = aim.most();
        if most == Some(0.0) {
            return false;
        }
        self.packets += 1;
        if let Some(most) = most {
            self.capped += 1;
            self.caps += most.min(aims.most_allowed());
        }
        let Some(target) = aim.target() else {
            self.is_plain = true;
            return true;
        };
        if self.strictest.is_none_or(|(least, _)| target < least) {
            self.strictest = Some((target, flow));
        }
        requests > target * TOLERANCE
    }

    /// The target of the lane, and whose it is if not the node's own.
    pub(super) fn target(&self, aims: &Aims) -> (f64, Option<FlowKey>) {
        match self.strictest {
            Some((target, flow)) if !self.is_plain || target < aims.target => (target, Some(flow)),
            _ => (aims.target, None),
        }
    }

    /// Repair packets per packet that all of them may have, beside each other or alone.
    pub(super) fn most(&self, aims: &Aims, is_single: bool) -> f64 {
        let own = match is_single {
            true => aims.most_single,
            false => aims.most,
        };
        let silent = f64::from(self.packets - self.capped);
        (self.caps + own * silent) / f64::from(self.packets.max(1))
    }

    /// No packet is to be repaired.
    pub(super) fn is_empty(&self) -> bool {
        self.packets == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{NodeAddr, VirtualPort};

    fn flow(n: u32) -> FlowKey {
        FlowKey {
            source: NodeAddr(n),
            source_port: VirtualPort(1),
            destination: NodeAddr(7),
            destination_port: VirtualPort(2),
        }
    }

    fn said(n: u32, target: Option<f64>, most: Option<f64>) -> Option<(FlowKey, Aim)> {
        Some((flow(n), Aim::new(target, most).unwrap()))
    }

    #[test]
    fn the_strictest_target_holds_and_a_laxer_one_only_where_all_are_content() {
        let aims = Aims::default();
        let mut wishes = Wishes::default();
        assert!(wishes.note(&aims, said(1, Some(0.02), None), 0.05));
        assert_eq!(wishes.target(&aims), (0.02, Some(flow(1))));
        wishes.note(&aims, None, 0.05);
        assert_eq!(wishes.target(&aims), (aims.target, None));
        wishes.note(&aims, said(2, Some(0.000_01), None), 0.05);
        wishes.note(&aims, said(3, Some(0.000_1), None), 0.05);
        assert_eq!(wishes.target(&aims), (0.000_01, Some(flow(2))));
    }

    #[test]
    fn who_is_content_with_requests_is_not_repaired() {
        let aims = Aims::default();
        let mut wishes = Wishes::default();
        assert!(!wishes.note(&aims, said(1, Some(0.03), None), 0.05));
        assert!(!wishes.note(&aims, said(2, Some(0.000_1), Some(0.0)), 0.05));
        // Who wants no repair makes it no dearer for others.
        wishes.note(&aims, None, 0.05);
        assert_eq!(wishes.target(&aims), (0.0005, None));
        assert_eq!(wishes.most(&aims, false), 0.5);
    }

    #[test]
    fn a_flow_brings_what_it_may_spend_and_no_more_than_the_node_allows() {
        let aims = Aims::default();
        let mut wishes = Wishes::default();
        wishes.note(&aims, said(1, Some(0.000_01), Some(1.0)), 0.05);
        (1..20).for_each(|_| drop(wishes.note(&aims, None, 0.05)));
        assert!((wishes.most(&aims, false) - 0.525).abs() < 1e-9);
        let mut dear = Wishes::default();
        dear.note(&aims, said(1, None, Some(2.0)), 0.05);
        assert_eq!(dear.most(&aims, true), aims.most_single);
        let mut modest = Wishes::default();
        modest.note(&aims, said(1, None, Some(0.3)), 0.05);
        assert_eq!(modest.most(&aims, true), 0.3);
    }
}
