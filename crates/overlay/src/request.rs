//! The requests of clients and operators to a node, and the replies of the node.
//!
//! One client is one overlay socket: it binds a virtual port, sets the class of what it sends, and
//! exchanges datagrams. [Amir06 §III-A]

use crate::groups::Permit;
use crate::stream::{StreamReply, StreamRequest};
use base::{Burst, NodeAddr, UnderlayAddr, VirtualPort, impair};
use core::num::NonZeroU8;
use wire::data::Remaining;
use wire::groups::Setting;
pub use wire::ipc::{Delivery, Options};

/// A request of a client, or of the operator.
#[derive(Debug)]
pub enum Request {
    /// Binds the socket to a port; 0 asks for any free one.
    Bind {
        /// The port wanted.
        port: VirtualPort,
    },
    /// Binds the socket to a whole range of ports, for a client that represents many users.
    BindRange {
        /// The first port.
        first: VirtualPort,
        /// The last port.
        last: VirtualPort,
    },
    /// Sets the options that the node writes into packets from now on.
    Options(Options),
    /// Sends one datagram. The burst holds the payload alone, with [`wire::HEADROOM`] spare bytes before it and
    /// [`wire::TAG_BYTES`] behind. A payload longer than [`MAX_PAYLOAD`](crate::node::MAX_PAYLOAD) needs no spare
    /// bytes: the node sends it in fragments. An unbound socket is bound to any port first.
    Send {
        /// The destination.
        to: NodeAddr,
        /// Its port.
        port: VirtualPort,
        /// The payload.
        payload: Burst,
    },
    /// Sends one datagram from a port of the socket's range.
    SendFrom {
        /// The port of the range.
        from: VirtualPort,
        /// The destination.
        to: NodeAddr,
        /// Its port.
        port: VirtualPort,
        /// The payload.
        payload: Burst,
    },
    /// Asks for what is sent to a multicast group and port, or for a share of what is sent to an anycast group and
    /// port.
    Join {
        /// The group.
        group: NodeAddr,
        /// The port that packets name.
        port: VirtualPort,
    },
    /// Ends a `Join`.
    Leave {
        /// The group.
        group: NodeAddr,
        /// The port.
        port: VirtualPort,
    },
    /// Something about streams.
    Stream(StreamRequest),
    /// The client is gone: its port is free again.
    Close,
    /// Something that only the operator may ask.
    Operate(Operation),
}

/// The operations that an operator requests.
#[derive(Debug)]
pub enum Operation {
    /// Emulates a bad network on what this node sends to a neighbour; `None` ends it. Lab mode only.
    Impair {
        /// The neighbour.
        neighbor: NodeAddr,
        /// The model, or none.
        model: Option<impair::Model>,
    },
    /// A neighbour as the configuration now has it: a new one, or one with another underlay address or capacity.
    Meet(crate::node::Neighbor),
    /// The configured neighbours by which the node enters the network: see [`Node::set_first`](crate::Node::set_first).
    First(Vec<NodeAddr>),
    /// The configuration no longer has this neighbour: the link ends, and the node no longer dials it. Until the next
    /// start, the neighbour may dial only if the nodes that may dial are listed and the neighbour is among them.
    Part(NodeAddr),
    /// A neighbour's host name has been resolved (again).
    Locate {
        /// The neighbour.
        neighbor: NodeAddr,
        /// The neighbour's address.
        at: UnderlayAddr,
        /// Further addresses to which the neighbour's name resolves.
        more: Vec<UnderlayAddr>,
    },
    /// The host has a byte stream to a neighbour, which carries datagrams to this address and from it. The host also
    /// reports streams that the neighbour has opened.
    Tunnel {
        /// The neighbour.
        neighbor: NodeAddr,
        /// The address; see [`UnderlayAddr::is_stream`].
        at: UnderlayAddr,
        /// The host has dialled the neighbour there; false if the neighbour has dialled.
        is_dialled: bool,
    },
    /// The byte stream to a neighbour has ended.
    TunnelEnded {
        /// The neighbour.
        neighbor: NodeAddr,
        /// The address that the stream had.
        at: UnderlayAddr,
    },
    /// A transfer has carried data over the link to a neighbour at these rates.
    Carried {
        /// The neighbour.
        neighbor: NodeAddr,
        /// The rates.
        rates: wire::link_state::Rates,
    },
    /// This node's part in bulk data.
    Bulk(wire::link_state::Bulk),
    /// The router in front of this node forwards what arrives at this endpoint to the node's socket; `None` if no
    /// endpoint is forwarded.
    Mapped(Option<wire::Endpoint>),
    /// The addresses at which the node listens on the host's own interfaces, the best first.
    Hosts(Vec<wire::Endpoint>),
    /// The number of physical links that the link to a neighbour crosses, as probed or configured.
    Hops {
        /// The neighbour.
        neighbor: NodeAddr,
        /// The number of routers on the path plus one; `None` if that is not known.
        hops: Option<NonZeroU8>,
    },
    /// The second since 1970 that the host's clock shows. The host reports it now and then, because somebody may have set
    /// the clock since the node started.
    Clock {
        /// The second.
        unix_s: u64,
    },
    /// Replaces this node's certificate (renewed, same keys) without interruption.
    Renew(Box<secure::Identity>),
    /// Sets how a group is to be carried, for the whole network. `None` withdraws what this node has set. The node
    /// chooses the version.
    SetGroup {
        /// The group.
        group: NodeAddr,
        /// How the group is carried.
        setting: Option<Setting>,
        /// How many bits the groups of a range have in common; 32 for one group.
        prefix: u8,
    },
    /// Sets who may send to a group and who may receive, for the whole network. An open permit withdraws what this node
    /// has said.
    Permit(Permit),
    /// Scribe: this is now the tree of a group as seen from here.
    Edges {
        /// The group.
        group: NodeAddr,
        /// The neighbours in its tree, its parent first if it has one.
        ends: Vec<NodeAddr>,
        /// The first of `ends` is the parent.
        has_parent: bool,
        /// This node is in the tree.
        is_in_tree: bool,
    },
    /// Scribe: the root of a group that the node asked for.
    Root {
        /// The group.
        group: NodeAddr,
        /// Its root.
        at: NodeAddr,
    },
    /// Scribe has ended and builds no more trees.
    NoScribe,
    /// Root keys that have succeeded the first one: all of them, as in [`secure::Network::chain_bytes`]. The node
    /// checks and floods them. Keys that the node knows already do no harm.
    Succeed(Vec<u8>),
    /// A new signed list of revoked certificates. The node checks and floods it.
    Revoke(Vec<u8>),
    /// The host must learn soon when the node reaches nobody any more. From now on, a link in doubt makes the node
    /// watch its other links more closely.
    WatchReach,
    /// Nothing moves between the addresses of the paths to this neighbour. The node watches these paths for a while as
    /// closely as if they carried data.
    WatchPaths(NodeAddr),
    /// The node is about to stop. It notifies its neighbours, so that they need not wait for silence.
    Farewell,
}

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// Another client of this node has the port.
    PortInUse,
    /// The port belongs to the node itself.
    PortReserved,
    /// The socket has no such port, or it has a range of ports and the request named none.
    PortNotBound,
    /// The socket is bound, and its binding cannot be changed in that way.
    AlreadyBound,
    /// All ports or sockets are taken.
    Exhausted,
    /// The payload is longer than a packet on this network carries.
    TooLong {
        /// The longest payload in bytes.
        max: usize,
    },
    /// The destination is not the address of a node.
    BadDestination,
    /// The address does not belong to a group.
    NotAGroup,
    /// The node is in as many groups as possible.
    TooManyGroups {
        /// The maximum number of groups.
        max: usize,
    },
    /// The settings of groups do not fit into the node's record.
    TooManySettings {
        /// The number of settings that fit.
        max: usize,
    },
    /// The remaining places for groups are reserved for clients with fewer groups.
    TooManyOfOne {
        /// The number of reserved places.
        kept: usize,
    },
    /// Permits with more words than a record of this node holds.
    TooManyPermits,
    /// This node's certificate does not allow it to set how these groups are carried, or who may use them.
    MayNotSet {
        /// The group, or the first of a range.
        group: NodeAddr,
        /// How many bits the groups of a range have in common.
        prefix: u8,
    },
    /// This node may not send to the group.
    MayNotSend {
        /// The group.
        group: NodeAddr,
    },
    /// This node may not receive what is sent to the group.
    MayNotReceive {
        /// The group.
        group: NodeAddr,
    },
    /// Nodes on the path could read the packet, and this node's configuration forbids that.
    Unsealed,
    /// This version does not carry the class or option.
    Unsupported,
    /// The reliable lane of the first link has no room now: the same request may succeed soon.
    Congested,
    /// Impairment needs `lab = true` in the configuration.
    NotALab,
    /// There is no such neighbour.
    NoSuchNeighbor,
    /// The node has as many neighbours as possible.
    TooManyNeighbors,
    /// The certificate, list or root key does not belong to this network, or is not newer than the present one.
    BadCredential,
}

impl core::fmt::Display for RequestError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            RequestError::PortInUse => f.write_str("the virtual port is in use by another client"),
            RequestError::PortReserved => {
                f.write_str("virtual ports below 16 belong to the node: choose a higher one")
            }
            RequestError::PortNotBound => f.write_str(
                "the socket does not have that port: send from a port of its range, by SendFrom",
            ),
            RequestError::AlreadyBound => {
                f.write_str("the socket is bound otherwise: open another one")
            }
            RequestError::Exhausted => f.write_str("no free virtual port or socket on this node"),
            RequestError::TooLong { max } => {
                write!(
                    f,
                    "the datagram is too long: at most {max} bytes of payload fit"
                )
            }
            RequestError::BadDestination => {
                f.write_str("the destination is not the address of a node")
            }
            RequestError::NotAGroup => f.write_str(
                "not a group: multicast groups are 224.0.0.0/4, anycast groups 240.0.0.0/4",
            ),
            RequestError::TooManyGroups { max } => write!(
                f,
                "this node is in {max} groups already: leave some, or let Scribe build their trees"
            ),
            RequestError::TooManySettings { max } => write!(
                f,
                "a node sets {max} groups at most, or fewer beside permits: set a range of them, or some at another node"
            ),
            RequestError::TooManyOfOne { kept } => write!(
                f,
                "this client is in many groups, and the last {kept} places of this node are kept for \
                 others: leave some, or let Scribe build their trees"
            ),
            RequestError::TooManyPermits => f.write_str(
                "what this node says of who may send and receive fits no record: name nodes by `tag:TAG` or \
                 `@domain`, or say it of a range of groups",
            ),
            RequestError::MayNotSet { group, prefix } => write!(
                f,
                "the certificate of this node does not let it set {group}/{prefix}: do it at a node that may \
                 (`sinew status` says which), or let the administrator of the network run `sinew net set DIR \
                 NODE --may-set-groups {group}/{prefix}`; of a node that an issuer has certified, that issuer \
                 invites it with `sinew invite --may-set-groups`"
            ),
            RequestError::MayNotSend { group } => write!(
                f,
                "this node may not send to {group}: `sinew group show {group}` says who may"
            ),
            RequestError::MayNotReceive { group } => write!(
                f,
                "this node may not receive {group}: `sinew group show {group}` says who may"
            ),
            RequestError::Unsupported => {
                f.write_str("the class is not carried by this version of the node")
            }
            RequestError::Unsealed => f.write_str(
                "nodes on the way could read it, which `relays_can_read = \"never\"` forbids: the destination is a group, or does not seal from end to end",
            ),
            RequestError::Congested => f.write_str(
                "the reliable link to the next node has no room now: try again in a moment",
            ),
            RequestError::NotALab => {
                f.write_str("links are impaired only on a node with `lab = true`")
            }
            RequestError::TooManyNeighbors => {
                let max = crate::link::MAX_LINKS;
                write!(
                    f,
                    "this node has {max} neighbours, the most that there can be"
                )
            }
            RequestError::NoSuchNeighbor => f.write_str("this node has no link to that neighbour"),
            RequestError::BadCredential => f.write_str(
                "the certificate, list or root key is not of this network, or not newer than the present one",
            ),
        }
    }
}
impl core::error::Error for RequestError {}

/// A reply to a client.
#[derive(Debug)]
pub enum Reply {
    /// The socket is bound.
    Bound {
        /// The port.
        port: VirtualPort,
    },
    /// The client is in the group.
    Joined,
    /// The client is not in the group.
    Left,
    /// The client is not in the group, because the join was refused.
    NotJoined {
        /// The group.
        group: NodeAddr,
        /// Why.
        why: RequestError,
    },
    /// An operator's request is done.
    Done,
    /// The request failed.
    Refused(RequestError),
    /// A datagram has come.
    Datagram {
        /// The sender's node.
        from: NodeAddr,
        /// The sender's port.
        port: VirtualPort,
        /// The destination port.
        to: VirtualPort,
        /// The group that it was sent to, if it was one.
        group: Option<NodeAddr>,
        /// The packet was lost on a hop and recovered there.
        recovered: bool,
        /// The time left to its deadline.
        remaining: Remaining,
        /// The payload alone.
        payload: Burst,
    },
    /// Something about streams.
    Stream(StreamReply),
    /// The link on the path has no room for a flow of the client, or has room again.
    Room {
        /// The flow's port here.
        from: VirtualPort,
        /// The destination node.
        to: NodeAddr,
        /// The port at the destination.
        port: VirtualPort,
        /// The flow's packets pass.
        is_there: bool,
    },
}
