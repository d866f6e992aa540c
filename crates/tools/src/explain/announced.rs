//! What the ends of a link announce of its protection, which is a part of its cost: how often a lost packet is
//! requested, and how much repair the sender allows.
//!
//! ```text
//!   link of the snapshot ─────────────────────┐
//!   new link: as the other links, with the    ├─▶ Announced ─ with(protect) ─▶ the cost of the edited or new link
//!   settings of the node that was asked ──────┘
//! ```
//!
//! So an edited link and a new one cost what they would cost in a network that has them. In a network whose nodes
//! announce nothing of this, costs do not depend on the protection, and no edit changes them.

use super::View;
use super::view::link;
use base::NodeAddr;
use graph::Topology;
use graph::explain::edit;
use graph::metric::Repair;
use graph::protection::{Lane, RUN_USUAL_256THS};
use overlay::realtime::{MAX_STRIKES, Protect};

/// What the two ends of a link announce of its protection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Announced {
    /// How often the end where the link leads requests a lost packet.
    strikes: u8,
    /// The lane of the end where the link begins, if the nodes of the network announce lanes.
    lane: Option<Lane>,
}

impl Announced {
    /// Returns what a link of the snapshot announces, or what it would announce if it existed. `None` if nodes announce
    /// nothing.
    pub(super) fn of(view: &View, (from, to): (NodeAddr, NodeAddr)) -> Option<Announced> {
        match link(view.topology(), from, to) {
            Some(link) => link
                .repair
                .map(|Repair { strikes, lane, .. }| Announced { strikes, lane }),
            None => Announced::of_new(view),
        }
    }

    /// Returns what a new link would announce: as many requests as other links have, and the repair that the node that
    /// gave the snapshot allows. The lengths of its runs of losses are not known. `None` if nodes announce nothing.
    pub(super) fn of_new(view: &View) -> Option<Announced> {
        let topology = view.topology();
        let links = topology.nodes().flat_map(|node| topology.links_from(node));
        let repairs: Vec<Repair> = links.filter_map(|edge| edge.link.repair).collect();
        let strikes = repairs.iter().map(|repair| repair.strikes).max()?;
        let has_lanes = repairs.iter().any(|repair| repair.lane.is_some());
        let lane = has_lanes.then(|| Lane {
            run_256ths: RUN_USUAL_256THS,
            repair_16ths: view.protections().announced_16ths(None),
        });
        Some(Announced { strikes, lane })
    }

    /// Returns what the link announces with another protection at both ends. If it has no requests or no repair now, it
    /// gets those of a new link.
    pub(super) fn with(self, view: &View, protect: Protect) -> Announced {
        let strikes = match (protect, self.strikes) {
            (Protect::Off, _) => 0,
            (_, 0) => match Announced::of_new(view).map_or(0, |new| new.strikes) {
                // In a network that is `off`, nobody requests anything. Then the default of the nodes counts.
                0 if view.protections().is_off() => MAX_STRIKES,
                usual => usual,
            },
            (_, own) => own,
        };
        let repair_16ths = |lane: Lane| match (protect.repairs(), lane.repair_16ths) {
            (false, _) => 0,
            (true, 0) => view.protections().announced_16ths(Some(protect)),
            (true, own) => own,
        };
        let lane = self.lane.map(|lane| Lane {
            repair_16ths: repair_16ths(lane),
            ..lane
        });
        Announced { strikes, lane }
    }

    /// Lets a link have this protection, if the link exists.
    pub(super) fn set(self, topology: &mut Topology, ends: (NodeAddr, NodeAddr)) {
        edit::protect(topology, ends, self.strikes, self.lane);
    }
}
