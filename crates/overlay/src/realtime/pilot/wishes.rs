//! The requirements of a lane's flows for its repair: the strictest target, and how much repair all of them may cause.
//!
//! ```text
//!   20 calls, nothing said                target 0.05 %            at most +50 %
//!   19 of them, one wants 0.001 %, +100 %        0.001 % of it     at most +52.5 %
//!   1 call, content with 2 %                     2 %               at most +100 %
//!   1 call, no repair                            it counts for nothing, and is not covered
//! ```
//! A repair packet covers the packets of all flows. So a strict target of one flow makes the repair of all of them more
//! expensive, up to the limit for all of them together. Each flow adds its part to this limit, and no more than the
//! node allows a single flow.

use super::{Aims, TOLERANCE};
use crate::flow::FlowKey;
use wire::Aim;

/// A flow, and the aim of its sender.
pub(crate) type Wish = (FlowKey, Aim);

/// The requirements of the packets that passed in a second and had time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wishes {
    /// The strictest target that a flow has, and the flow: among the flows that are to be repaired, and among those
    /// that are content with what the lane loses.
    strictest: Option<(f64, FlowKey)>,
    content: Option<(f64, FlowKey)>,
    /// Number of packets that are to be repaired, number of those whose sender limits the repair, and sum of these
    /// limits.
    packets: u32,
    capped: u32,
    caps: f64,
    /// True if a flow that is to be repaired has no target of its own.
    is_plain: bool,
}

impl Wishes {
    /// Returns true if packets of such a flow are to be repaired on a lane that loses this share. As long as no loss is
    /// known, a flow with a laxer target than the node's is content.
    #[inline]
    pub(super) fn wants(aims: &Aims, wish: Option<Wish>, lost: f64) -> bool {
        wish.is_none_or(|(_, aim)| {
            let is_content = |target| target > aims.target && lost <= target * TOLERANCE;
            aim.most() != Some(0.0) && !aim.target().is_some_and(is_content)
        })
    }

    /// Notes a packet of a flow.
    #[inline]
    pub(super) fn note(&mut self, aims: &Aims, wish: Option<Wish>, wants: bool) {
        let (target, most) = wish.map_or((None, None), |(_, aim)| (aim.target(), aim.most()));
        let strictest = match wants {
            true => &mut self.strictest,
            false => &mut self.content,
        };
        if let Some(((flow, _), target)) = wish.zip(target)
            && strictest.is_none_or(|(least, _)| target < least)
        {
            *strictest = Some((target, flow));
        }
        if !wants {
            return;
        }
        self.packets += 1;
        self.is_plain |= target.is_none();
        if let Some(most) = most {
            self.capped += 1;
            self.caps += most.min(aims.most_allowed());
        }
    }

    /// Returns the target of the lane, and the flow that it comes from if it is not the node's own.
    pub(super) fn target(&self, aims: &Aims) -> (f64, Option<FlowKey>) {
        let strictest = match self.packets {
            0 => self.content,
            _ => self.strictest,
        };
        match strictest {
            Some((target, flow)) if !self.is_plain || target < aims.target => (target, Some(flow)),
            _ => (aims.target, None),
        }
    }

    /// Returns the maximum number of repair packets per packet for all flows together. `is_single`: there is one flow.
    pub(super) fn most(&self, aims: &Aims, is_single: bool) -> f64 {
        let own = match is_single {
            true => aims.most_single,
            false => aims.most,
        };
        if self.packets == 0 {
            return own;
        }
        let silent = f64::from(self.packets - self.capped);
        (self.caps + own * silent) / f64::from(self.packets)
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

    /// Notes a packet on a lane that loses 5 %. True if it is to be repaired.
    fn note(wishes: &mut Wishes, wish: Option<Wish>) -> bool {
        let wants = Wishes::wants(&Aims::default(), wish, 0.05);
        wishes.note(&Aims::default(), wish, wants);
        wants
    }

    #[test]
    fn the_strictest_target_holds_and_a_laxer_one_only_where_all_are_content() {
        let aims = Aims::default();
        let mut wishes = Wishes::default();
        assert!(note(&mut wishes, said(1, Some(0.02), None)));
        assert_eq!(wishes.target(&aims), (0.02, Some(flow(1))));
        note(&mut wishes, None);
        assert_eq!(wishes.target(&aims), (aims.target, None));
        note(&mut wishes, said(2, Some(0.000_01), None));
        note(&mut wishes, said(3, Some(0.000_1), None));
        assert_eq!(wishes.target(&aims), (0.000_01, Some(flow(2))));
    }

    #[test]
    fn who_is_content_with_what_is_lost_is_not_repaired() {
        let aims = Aims::default();
        let mut wishes = Wishes::default();
        assert!(!note(&mut wishes, said(1, Some(0.03), None)));
        assert_eq!(wishes.target(&aims), (0.03, Some(flow(1))));
        assert!(!note(&mut wishes, said(2, Some(0.000_1), Some(0.0))));
        // A flow that wants no repair does not make repair more expensive for others.
        note(&mut wishes, None);
        assert_eq!(wishes.target(&aims), (0.0005, None));
        assert_eq!(wishes.most(&aims, false), 0.5);
    }

    #[test]
    fn a_flow_may_spend_its_part_and_no_more_than_the_node_allows() {
        let aims = Aims::default();
        let mut wishes = Wishes::default();
        note(&mut wishes, said(1, Some(0.000_01), Some(1.0)));
        for _ in 1..20 {
            note(&mut wishes, None);
        }
        assert!((wishes.most(&aims, false) - 0.525).abs() < 1e-9);
        let mut dear = Wishes::default();
        note(&mut dear, said(1, None, Some(2.0)));
        assert_eq!(dear.most(&aims, true), aims.most_single);
        let mut modest = Wishes::default();
        note(&mut modest, said(1, None, Some(0.3)));
        assert_eq!(modest.most(&aims, true), 0.3);
    }
}
