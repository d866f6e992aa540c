//! Sessions from end to end that are made before they are needed.
//!
//! ```text
//!   a record tells of a node that seals, or of a new start of one
//!        ──▶ LOOK_AFTER ──▶ the lower address of the two dials, at a limited rate
//!   every second           ──▶ whoever is still missing
//! ```
//!
//! Otherwise, the first packets to a node would wait for a handshake of one round trip, and longer on a broken path. A
//! call that begins with such a wait is worse than one over plain UDP. So each pair of nodes performs a handshake as
//! soon as both know each other, and renews the session while it is not used.

use super::Node;
use crate::settings::Sealing;
use base::{Duration, NodeAddr, Outbox, Time};

/// A record that has just arrived is not in the routes yet, and others arrive with it.
const LOOK_AFTER: Duration = Duration::from_millis(20);

impl Node {
    /// A node that seals has become known, or has restarted.
    pub(super) fn prepare_soon(&mut self, now: Time) {
        self.ends.look_at(now + LOOK_AFTER);
    }

    /// Begins handshakes with nodes that seal and with which there is no session yet.
    pub(super) fn prepare_ends(&mut self, now: Time, out: &mut impl Outbox<Node>) {
        if self.settings.sealing == Sealing::Off {
            return;
        }
        let mut missing: Vec<NodeAddr> = self.router.database().sealers().collect();
        // The node at the other end of each pair does the same: one of the two is enough.
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
