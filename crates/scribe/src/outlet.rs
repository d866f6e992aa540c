//! Where a node puts what it wants done, and whom it asks how far others are.

use crate::event::Event;
use base::NodeAddr;

/// The overlay, a simulator, or a test's recorder.
pub trait Outlet {
    /// Sends one message of at most 1200 bytes; it may be lost.
    fn send(&mut self, to: NodeAddr, bytes: &[u8]);
    /// The group's tree has changed here. All empty: the node is no longer in it. A node that is in
    /// the tree and has no parent is the root. The parent is whom the node has asked: it may not have
    /// accepted yet, and takes the node for its child as soon as the question arrives.
    fn branches(
        &mut self,
        group: NodeAddr,
        parent: Option<NodeAddr>,
        children: &[NodeAddr],
        is_member: bool,
    );
    /// The root of a group that was asked for, now or when it has moved.
    fn root(&mut self, group: NodeAddr, root: NodeAddr);
    /// The latency from here, one way, as measured; `None` for what is unknown or unreachable.
    fn proximity_us(&self, to: NodeAddr) -> Option<u32>;
    /// Whether the links to a node carry what a group asks for: without that it is not taken for a
    /// child. Those are told that were allowed before in the same call.
    fn admits(&mut self, _group: NodeAddr, _child: NodeAddr) -> bool {
        true
    }
    /// Something happened.
    fn report(&mut self, event: Event);
}
