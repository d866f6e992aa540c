//! The clock that all nodes of a network share, so that each node knows which direction of a link is the longer one.
//!
//! ```text
//!   reference (lowest address) ── "my stamps + 0" ──▶ b ── "my stamps + 4711" ──▶ c
//!            ╰──────────────── a link that is no part of the tree ────────────────╯
//!                    c's clock less the reference's = its delay, that direction's own
//! ```
//! A node takes the clock from the neighbour that is nearest to the reference, by the smallest round trip of their link
//! ([`Split`](crate::estimate::Split)), and reports it to its own neighbours once a second. Links of that tree are
//! assumed to be equally long in both directions, which may be wrong. Then the clocks of the nodes behind are wrong by
//! as much, and the delays of two paths between the same nodes are wrong by the same amount: the decision which path is
//! shorter is right whatever the clocks are.
//!
//! A neighbour that reports a wrong offset moves delay from one direction of its own links to the other. It cannot make
//! a round trip shorter, because this node measures round trips itself.

use super::Node;
use super::router::Router;
use crate::link::Links;
use base::{Outbox, Time};
use graph::reference::{Reference, reference};
use wire::control::{Builder, ClockOffset, MESSAGE_HEADER_BYTES};

/// The source of this node's clock.
#[derive(Debug, Default)]
pub(super) struct Clock {
    from: Option<Reference>,
    /// The generation of the topology by which it was chosen.
    generation: Option<u64>,
}

impl Clock {
    /// Once a second: sets the clock by which each link's delays are split, and reports the clock to neighbours.
    pub(super) fn tend(
        &mut self,
        now: Time,
        router: &Router,
        links: &mut Links,
        out: &mut impl Outbox<Node>,
    ) {
        let own = self.offset(now, router, links);
        for index in links.indices() {
            let link = links.at_mut(index);
            link.split_by(now, own);
            let Some(own) = own.filter(|_| link.is_up()) else {
                continue;
            };
            let mut bytes = [0; MESSAGE_HEADER_BYTES + ClockOffset::BYTES];
            let mut builder = Builder::new(&mut bytes);
            builder.clock_offset(own).expect("it is made to fit");
            link.send_control(now, &bytes, out);
        }
    }

    /// Returns the offset that converts the own clock to the network's; `None` while the neighbour that is nearer to
    /// the reference does not report.
    fn offset(&mut self, now: Time, router: &Router, links: &Links) -> Option<ClockOffset> {
        let (generation, topology) = router.known();
        if self.generation != Some(generation) {
            self.generation = Some(generation);
            self.from = Some(reference(topology, router.own()));
        }
        let from = self.from?;
        let Some(by) = from.by else {
            return Some(ClockOffset {
                reference: router.own(),
                offset_us: 0,
            });
        };
        let link = links.at(links.by_peer(by)?);
        let told = link.clock_told(now, from.node)?;
        Some(ClockOffset {
            reference: from.node,
            offset_us: told.offset_us.wrapping_sub(link.path.split.clocks_us()?),
        })
    }
}
