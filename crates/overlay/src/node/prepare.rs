//! Sessions from end to end that are made before anybody needs them.
//!
//! ```text
//!   a record tells of a node that seals, or of a new start of one
//!        ──▶ LOOK_AFTER ──▶ the lower address of the two dials, at a limited rate
//!   every second           ──▶ whoever is still missing
//! ```
//!
//! The first packets to a node would wait for a handshake of one round trip, and longer on a broken path.
//! A call that begins with such a wait is worse than plain UDP. So each pair of nodes shakes hands as soon
//! as both know each other, and keeps the session fresh while it is not used.

use super::Node;
use crate::settings::Sealing;
use base::{Duration, NodeAddr, Outbox, Time};

/// A record that has just come is not in the routes yet, and others come with it.
const LOOK_AFTER: Duration = Duration::from_millis(20);

impl Node {
    /// A node that seals has become known, or has started anew.
    pub(super) fn prepare_soon(&mut self, now: Time) {
        self.ends.look_at(now + LOOK_AFTER);
    }

    /// Shakes hands with nodes that seal and with which there is no session yet.
    pub(super) fn prepare_ends(&mut self, now: Time, out: &mut impl Outbox<Node>) {
        if self.settings.sealing == Sealing::Off {
            return;
        }
        let mut missing: Vec<NodeAddr> = self.router.database().sealers().collect();
        // The other side of each pair does the same: one of them is enough.
        missing.retain(|node| *node > self.addr && self.ends.is_unknown(now, *node));
        missing.retain(|node| self.router.has_way(*node));
        missing.sort_unstable();
        for node in missing {
            let Some(init) = self.ends.prepare(now, node) else {
                break;
            };
            self.send_handshake(now, node, &init, out);
        }
    }
}
