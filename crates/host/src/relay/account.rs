//! The account of one running transfer: the node's role in it, its progress and its rate.
//!
//! ```text
//!   threads that move bytes ──▶ Traffic ─┐
//!   Monitor, once per second: segments ──┴─▶ Account ──▶ a transfer of the status
//! ```

use super::failure::{Failure, FailureKind};
use super::socket::Socket;
use super::transfer::Transfer;
use crate::status::{BulkSegmentStatus, BulkTransferStatus};
use base::NodeAddr;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wire::relay::{HOPS_MAX, Open, Segment};

/// The role of a node in a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Relay,
    Sink,
    Source,
}

/// One running transfer.
#[derive(Debug)]
pub(super) struct Account {
    id: String,
    role: Role,
    from: Option<NodeAddr>,
    to: Vec<NodeAddr>,
    scavenge: bool,
    /// The state that its threads share. It exists from the time at which the account is created, so the transfer can
    /// be ended at any time.
    transfer: Transfer,
    of_late: Mutex<OfLate>,
}

/// The measurements of the last second.
#[derive(Debug, Default)]
struct OfLate {
    bytes: u64,
    rate_bps: u64,
    segments: BTreeMap<(NodeAddr, NodeAddr), Segment>,
}

impl Account {
    /// Creates the account of the transfer that `open` requests. Data comes from `before`, or goes to it if the
    /// transfer is a pull.
    pub(super) fn new(open: &Open<'_>, before: NodeAddr) -> Account {
        let behind: Vec<NodeAddr> = open.route.below().map(|hop| hop.node).collect();
        let (role, from, to) = match (open.route.path, open.pull) {
            (None, false) => (Role::Relay, Some(before), behind),
            (None, true) => (Role::Relay, behind.first().copied(), vec![before]),
            (Some(_), false) => (Role::Sink, Some(before), behind),
            (Some(_), true) => (Role::Source, None, vec![before]),
        };
        let sinks = match open.pull {
            true => 1,
            false => open.route.ends(),
        };
        let id = open.transfer.iter().map(|byte| format!("{byte:02x}"));
        Account {
            id: id.collect(),
            role,
            from,
            to,
            scavenge: open.scavenge,
            transfer: Transfer::new(sinks),
            of_late: Mutex::default(),
        }
    }

    /// Returns true if its name begins with `beginning`.
    pub(super) fn is_called(&self, beginning: &str) -> bool {
        self.id.starts_with(beginning)
    }

    /// Cancels the transfer on behalf of the operator of this node, which is `here`.
    pub(super) fn cancel(&self, here: NodeAddr) {
        let text = "it was cancelled by the operator of this node";
        let failure = Failure::new(here, FailureKind::Cancelled, text);
        self.transfer.fail_at_once(failure);
    }

    /// Returns the state that its threads share.
    pub(super) fn transfer(&self) -> &Transfer {
        &self.transfer
    }

    pub(super) fn role(&self) -> Role {
        self.role
    }

    /// Returns the counters of its threads.
    pub(super) fn traffic(&self) -> &Traffic {
        self.transfer.traffic()
    }

    /// Notes the state of a segment that begins at this node or behind it.
    pub(super) fn on_segment(&self, from: NodeAddr, to: NodeAddr, segment: Segment) {
        let mut late = self.of_late();
        let ends = (from, to);
        // A route has no more segments. If a peer invents more, they are not kept.
        if late.segments.len() < HOPS_MAX || late.segments.contains_key(&ends) {
            late.segments.insert(ends, segment);
        }
    }

    /// Updates the rate at the end of a second, or of the part of it that has passed.
    pub(super) fn on_second(&self, span_us: u64) {
        let bytes = self.bytes();
        let mut late = self.of_late();
        let more = bytes.saturating_sub(std::mem::replace(&mut late.bytes, bytes));
        late.rate_bps = more.saturating_mul(8_000_000) / span_us.max(1);
    }

    /// Returns how many bytes it has moved: at a sink those received, otherwise those sent.
    fn bytes(&self) -> u64 {
        let (came, went) = self.traffic().bytes();
        match self.role {
            Role::Sink => came,
            Role::Relay | Role::Source => went,
        }
    }

    /// Returns the present state for the status.
    pub(super) fn status(&self) -> BulkTransferStatus {
        let late = self.of_late();
        // The other segments wait for the one that is least idle.
        let idle = |segment: &Segment| u32::from(segment.waited) + u32::from(segment.starved);
        let slowest = late.segments.iter().min_by_key(|(_, s)| idle(s));
        BulkTransferStatus {
            id: self.id.clone(),
            role: match self.role {
                Role::Relay => "relay",
                Role::Sink => "sink",
                Role::Source => "source",
            },
            from: self.from.map(|node| node.to_string()),
            to: self.to.iter().map(NodeAddr::to_string).collect(),
            bytes: self.bytes(),
            rate_bps: late.rate_bps,
            scavenge: self.scavenge,
            slowest: slowest.map(|((from, to), segment)| BulkSegmentStatus {
                from: from.to_string(),
                to: to.to_string(),
                rate_bps: segment.rate_bps,
                rtt_ms: f64::from(segment.rtt_us) / 1e3,
                resent: segment.resent,
                waited_permille: segment.waited,
                starved_permille: segment.starved,
            }),
        }
    }

    fn of_late(&self) -> MutexGuard<'_, OfLate> {
        self.of_late.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Number of bytes on a transfer's data connections at one node, including the heads of frames.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    came: AtomicU64,
    went: AtomicU64,
    lent: Mutex<Vec<Lent>>,
}

/// A connection on which another process sends. Only the kernel knows how much.
#[derive(Debug)]
struct Lent {
    socket: Arc<Socket>,
    /// Number of bytes sent before it was lent.
    before: u64,
    /// The last known number. After the connection has ended, the kernel reports nothing more.
    last: u64,
}

impl Traffic {
    pub(super) fn on_came(&self, bytes: usize) {
        self.came.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn on_went(&self, bytes: usize) {
        self.went.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Notes that a connection was lent after this many bytes.
    pub(super) fn on_lent(&self, socket: &Arc<Socket>, before: u64) {
        let socket = Arc::clone(socket);
        let last = before;
        self.lent().push(Lent {
            socket,
            before,
            last,
        });
    }

    /// Returns the numbers of bytes received and sent.
    pub(super) fn bytes(&self) -> (u64, u64) {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let lent: u64 = self.lent().iter_mut().map(Lent::bytes).sum();
        (load(&self.came), load(&self.went) + lent)
    }

    fn lent(&self) -> MutexGuard<'_, Vec<Lent>> {
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lent {
    fn bytes(&mut self) -> u64 {
        let info = self.socket.tcp().and_then(|tcp| net::tcp::info(tcp).ok());
        self.last = info.map_or(self.last, |info| self.last.max(info.acked));
        self.last - self.before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: NodeAddr = NodeAddr(0x0a07_0002);
    const BEHIND: NodeAddr = NodeAddr(0x0a07_0003);

    #[test]
    fn the_least_idle_segment_is_the_slowest_and_no_more_are_kept_than_a_route_has() {
        let account = Account {
            id: "a5".into(),
            role: Role::Relay,
            from: Some(NodeAddr(1)),
            to: vec![HERE],
            scavenge: false,
            transfer: Transfer::new(1),
            of_late: Mutex::default(),
        };
        let told = |waited, starved| Segment {
            waited,
            starved,
            ..Segment::default()
        };
        account.on_segment(HERE, BEHIND, told(10, 900));
        account.on_segment(BEHIND, NodeAddr(9), told(40, 0));
        for made_up in 0..2 * HOPS_MAX as u32 {
            account.on_segment(NodeAddr(made_up), HERE, told(500, 500));
        }
        account.traffic().on_went(125_000);
        account.on_second(500_000);
        let status = account.status();
        assert_eq!(status.rate_bps, 2_000_000);
        let slowest = status.slowest.as_ref().unwrap();
        assert_eq!((&*slowest.from, slowest.waited_permille), ("10.7.0.3", 40));
        assert_eq!(account.of_late().segments.len(), HOPS_MAX);
        account.on_second(1_000_000);
        assert_eq!(account.status().rate_bps, 0);
    }
}
