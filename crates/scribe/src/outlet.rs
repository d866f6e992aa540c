//! The interface through which a node acts, and through which it measures distances to other nodes.

use crate::event::Event;
use base::NodeAddr;

/// The receiver of a node's actions: the overlay, a simulator, or a test's recorder.
pub trait Outlet {
    /// Sends one message of at most 1200 bytes; it may be lost.
    fn send(&mut self, to: NodeAddr, bytes: &[u8]);
    /// Reports that the group's tree has changed here. If all values are empty, the node is no longer in the tree. A
    /// node that is in the tree and has no parent is the root. The parent is the node that was asked: it may not have
    /// accepted yet, but takes this node as its child as soon as the question arrives.
    fn branches(
        &mut self,
        group: NodeAddr,
        parent: Option<NodeAddr>,
        children: &[NodeAddr],
        is_member: bool,
    );
    /// Reports the root of a group for which it was requested, now or when it has moved.
    fn root(&mut self, group: NodeAddr, root: NodeAddr);
    /// Returns the measured one-way latency from here; `None` for unknown or unreachable nodes.
    fn proximity_us(&self, to: NodeAddr) -> Option<u32>;
    /// Returns whether the links to a node can carry what a group requires. Otherwise the node is not accepted as a
    /// child. The answer must consider the children that were admitted before in the same call.
    fn admits(&mut self, _group: NodeAddr, _child: NodeAddr) -> bool {
        true
    }
    /// Reports an event.
    fn report(&mut self, event: Event);
}
