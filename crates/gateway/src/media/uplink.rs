//! The overlay's side: one socket with a range of virtual ports, for all calls.
//!
//! ```text
//!   packets of a turn ──> gathered ──> few messages to the node
//!   the node goes away ──> looked for, once a second ──> bound anew
//! ```

use base::{NodeAddr, VirtualPort};
use client::{Error, Node, Options, Target};
use core::ops::RangeInclusive;

pub(super) struct Uplink {
    node: NodeAddr,
    connected: bool,
    failed: u64,
}

impl Uplink {
    pub(super) fn open(
        by: &Node,
        _ports: RangeInclusive<u16>,
        options: Options,
    ) -> Result<Uplink, Error> {
        let socket = by.open(options)?;
        Ok(Uplink {
            node: socket.local().node,
            connected: true,
            failed: 0,
        })
    }

    pub(super) fn node(&self) -> NodeAddr {
        self.node
    }

    pub(super) fn is_connected(&self) -> bool {
        self.connected
    }

    /// Datagrams that the node did not take.
    pub(super) fn failed(&self) -> u64 {
        self.failed
    }

    pub(super) fn send(&mut self, _from: VirtualPort, _to: Target, _datagram: &[u8]) {
        self.failed += 1;
    }

    pub(super) fn flush(&mut self) {}
}
