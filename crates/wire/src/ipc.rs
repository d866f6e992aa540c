//! The messages between a client and its node: one Unix SOCK_SEQPACKET connection is one overlay socket, and each of
//! its packets is one message.
//!
//! ```text
//!   client                                  node
//!     | -- Hello(version) ------------------> |
//!     | <------------------------- Welcome -- |
//!     | -- Bind(port, 0 = any) -------------> |      each of these is answered once, in order:
//!     | <---------------------- Bound(port) --|      by its answer or by Error
//!     | -- Options(class, deadline, ..) ----> |
//!     | <------------------- Done(Options) -- |
//!     | -- Connect(node, port) -------------> |      binds too, if that is not done
//!     | <---------------------- Bound(port) --|
//!     | -- SendTo(node, port, payload) -----> |      not answered; refused with Error
//!     | <-- Datagram(node, port, payload) --- |
//!     | -- Raw -----------------------------> |      needs a Connect before
//!     | <----------------------- Done(Raw) -- |      the last message: from here on, in both
//!     | <=========== payload ===============> |      directions, a packet is a payload
//! ```
//!
//! A message is a type byte and a body; types of the node have the high bit. Closing the socket ends it.
//! [`SendTo`](Request::SendTo) and [`Datagram`](Reply::Datagram) have headers of a fixed size, shorter than
//! [`crate::HEADROOM`]. So the payload is read directly to the place from which it is sent, and nothing is moved. In
//! raw mode the descriptor works with plain read and write; the C library passes it in this mode to programs that know
//! nothing of overlays. [Amir06 §III-A]
//!
//! # Ranges
//!
//! A client that acts for many (a gateway with thousands of calls) binds a range of ports at once:
//!
//! ```text
//!   client                                  node
//!     | -- BindRange(first, last) ---------> |      instead of Bind
//!     | <-------------------- Bound(first) --|
//!     | -- SendFrom(datagrams) ------------> |      each with the port of the range it is from
//!     | <------------ Datagrams(datagrams) --|      each with the port of the range it is for
//! ```
//! Such a socket only sends by [`SendFrom`](Request::SendFrom) and only gets [`Datagrams`](Reply::Datagrams); it is
//! never raw and has no streams. Datagrams that arrive in one turn of the node's loop are delivered in one message;
//! nothing waits for more.
//!
//! # Groups
//!
//! ```text
//!   client                                  node
//!     | -- Join(group, port) --------------> |      any number of them
//!     | <---------------------- Done(Join) --|
//!     | <-- Datagram(group, from, payload) --|      what was sent to that group and port
//!     | -- Leave(group, port) -------------> |
//!     | <--------------------- Done(Leave) --|
//! ```
//! The port is that of the datagrams' destination, and may be any port. Several clients of a node may join the same
//! group and port. A client can send to a group without joining it. A socket does not receive its own datagrams.
//!
//! # Streams
//!
//! A stream is a separate descriptor: one end of a socket pair that the node makes and passes (SCM_RIGHTS) beside a
//! message. It is SOCK_STREAM for bytes and SOCK_SEQPACKET for messages. It works with poll, read, write, shutdown and
//! close.
//!
//! ```text
//!   client                                  node
//!     | -- ConnectStream(to, framing) ------> |      the answer comes when the peer has answered
//!     | <-- Connected(port) + the stream ---- |
//!     | <============ bytes ================> |      over the stream
//!     | <-- Finished, or Reset(why) --------- |      before the stream ends, over this connection
//!     | -- Finish, or Reset ----------------> |      the same the other way
//!
//!     | -- Bind(port), Listen(backlog) -----> |
//!     | <---------------- Done(Listen) ------ |
//!     | <-- Incoming(from) + two descriptors  |      the stream, and a connection that tells of
//!     | <-- Incoming(from) + two descriptors  |      its end as the one above does
//! ```
//! Messages of a stream whose options have a deadline expire: messages that are older are given up. AskExpired returns
//! their number, over the connection beside the stream.
//!
//! A descriptor of the kernel cannot carry a reason for its end, so the connection beside it does. If a stream ends
//! without an earlier Finished or Reset, the node has failed. The same holds in the other direction: a stream that is
//! closed without Finish has lost its client, and its peer gets a Reset. A shutdown for writing needs no message, since
//! only a live client does that. A client that wants no further reports sends Finish, closes that connection and keeps
//! the stream.

mod batch;
mod options;
mod reply;
mod request;
mod routing;
mod stream;

pub use batch::{
    BATCH_HEADER_BYTES, BATCH_MAX, BATCH_PAYLOAD_BYTES_MAX, INCOMING_HEADER_BYTES, Incoming,
    OUTGOING_HEADER_BYTES, Outgoing, Ports,
};
pub use options::{Delivery, Options};
pub use reply::{
    DATAGRAM_HEADER_BYTES, Datagram, DropReason, ErrorCode, GROUP_BYTES, HeaderBytes, Reply, Room,
    TEXT_BYTES_MAX,
};
pub use request::{Destination, Request, SEND_TO_HEADER_BYTES};
pub use routing::{RouteBy, Scheme};
pub use stream::{Framing, ResetReason, StreamControl};

use base::VirtualPort;

/// The version of the messages. A client announces its version, and a node of another version refuses it.
pub const VERSION: u8 = 2;
/// The maximum length of a payload: what an IPv4 UDP datagram can carry, so that programs keep working.
pub const PAYLOAD_BYTES_MAX: usize = 65_507;
/// The maximum length of a message: a datagram with its header.
pub const MESSAGE_BYTES_MAX: usize = DATAGRAM_HEADER_BYTES + GROUP_BYTES + PAYLOAD_BYTES_MAX;
/// A value in [`Request::Bind`]: any free port.
pub const ANY_PORT: VirtualPort = VirtualPort(0);

/// The types of messages.
pub mod kind {
    /// [`super::Request::Hello`].
    pub const HELLO: u8 = 1;
    /// [`super::Request::Bind`].
    pub const BIND: u8 = 2;
    /// [`super::Request::Options`].
    pub const OPTIONS: u8 = 3;
    /// [`super::Request::SendTo`].
    pub const SEND_TO: u8 = 4;
    /// [`super::Request::Connect`].
    pub const CONNECT: u8 = 5;
    /// [`super::Request::Raw`].
    pub const RAW: u8 = 6;
    /// [`super::Request::Listen`].
    pub const LISTEN: u8 = 7;
    /// [`super::Request::ConnectStream`].
    pub const CONNECT_STREAM: u8 = 8;
    /// [`super::Request::Reset`].
    pub const RESET_STREAM: u8 = 9;
    /// [`super::Request::BindRange`].
    pub const BIND_RANGE: u8 = 10;
    /// [`super::Request::SendFrom`].
    pub const SEND_FROM: u8 = 11;
    /// [`super::Request::Join`].
    pub const JOIN: u8 = 12;
    /// [`super::Request::Leave`].
    pub const LEAVE: u8 = 13;
    /// [`super::Request::Finish`].
    pub const FINISH: u8 = 14;
    /// [`super::Request::Watch`].
    pub const WATCH: u8 = 15;
    /// [`super::Request::AskExpired`].
    pub const ASK_EXPIRED: u8 = 16;
    /// [`super::Reply::Welcome`].
    pub const WELCOME: u8 = 0x81;
    /// [`super::Reply::Bound`].
    pub const BOUND: u8 = 0x82;
    /// [`super::Reply::Error`].
    pub const ERROR: u8 = 0x83;
    /// [`super::Reply::Datagram`].
    pub const DATAGRAM: u8 = 0x84;
    /// [`super::Reply::Dropped`].
    pub const DROPPED: u8 = 0x85;
    /// [`super::Reply::Done`].
    pub const DONE: u8 = 0x86;
    /// [`super::Reply::Connected`].
    pub const CONNECTED: u8 = 0x87;
    /// [`super::Reply::Incoming`].
    pub const INCOMING: u8 = 0x88;
    /// [`super::Reply::Finished`].
    pub const FINISHED: u8 = 0x89;
    /// [`super::Reply::Reset`].
    pub const RESET: u8 = 0x8a;
    /// [`super::Reply::Datagrams`].
    pub const DATAGRAMS: u8 = 0x8b;
    /// [`super::Reply::Room`].
    pub const ROOM: u8 = 0x8c;
    /// [`super::Reply::State`].
    pub const STATE: u8 = 0x8d;
    /// [`super::Reply::NotJoined`].
    pub const NOT_JOINED: u8 = 0x8e;
    /// [`super::Reply::Expired`].
    pub const EXPIRED: u8 = 0x8f;
}

#[cfg(test)]
mod tests;
