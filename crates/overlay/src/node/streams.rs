//! Streams of this node's clients: what they ask, and what wakes them.

use super::Node;
use crate::link::LinkIndex;
use crate::request::{Reply, RequestError};
use crate::stream::StreamRequest;
use base::{ClientId, Outbox, Time};

impl Node {
    /// Does what a client asks about streams.
    pub(super) fn on_stream_request(
        &mut self,
        _now: Time,
        client: ClientId,
        _request: StreamRequest,
        out: &mut impl Outbox<Node>,
    ) {
        out.deliver(client, Reply::Refused(RequestError::Unsupported));
    }

    /// A reliable lane that was full has room again: streams that waited for it go on.
    #[expect(dead_code, reason = "the reliable lane calls it")]
    pub(super) fn on_room(&mut self, _now: Time, _index: LinkIndex, _out: &mut impl Outbox<Node>) {}
}
