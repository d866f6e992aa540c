//! Everything observable that happens in a node, as one typed stream.
//!
//! Logs, counters, traces and figures derive from this stream, so they agree by construction. A drop carries its
//! reason, and the reason's label is the metric's label.

use crate::audit::Suspect;
use base::{Duration, NodeAddr, UnderlayAddr};
use secure::Refusal;
use serde::Serialize;

/// Why a packet was dropped. Each reason is a label of `sinew_drops_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Drop {
    /// The datagram does not belong to this protocol, or a field has an impossible value.
    Malformed,
    /// A session index that this node has not given out.
    UnknownSession,
    /// The authentication tag does not fit.
    BadTag,
    /// A sealed datagram that has arrived before.
    Replay,
    /// A packet that this node forwarded or delivered before.
    Duplicate,
    /// The time to live has run out.
    TtlExceeded,
    /// The deadline has passed.
    Expired,
    /// No route to the destination.
    NoRoute,
    /// No socket is bound to the destination's port.
    NoSocket,
    /// A feature or class that this version does not carry.
    Unsupported,
    /// The source address is not one that a node can have, or is the address of this node. Or an unsealed packet opens
    /// a stream from the address of an unknown node.
    BadSource,
    /// All packet buffers are in use.
    NoBuffer,
    /// The link that should carry the packet is down.
    LinkDown,
    /// The emulated link lost the packet (lab mode).
    ImpairedLoss,
    /// The emulated link's queue was full (lab mode).
    ImpairedQueue,
    /// The emulated link is in an outage (lab mode).
    ImpairedOutage,
    /// A client does not read fast enough.
    ClientSlow,
    /// A reordering buffer was full.
    ResequencerFull,
    /// Arrived after its successors were delivered in order.
    TooLateForOrder,
    /// A record of a neighbour from which the node has checked too many records lately.
    TooManyRecords,
    /// An invalid stamp: its kind, lengths, places or addresses are wrong.
    StampMalformed,
    /// A stamp with more bytes, nodes or links than allowed.
    StampTooLong,
    /// A stamp that contains a node twice, or a link that leads back.
    StampLoops,
    /// A copy that the stamp directs to a link that this node does not have.
    StampNoLink,
    /// A packet that arrived at a node to which its stamp does not lead.
    StampStray,
    /// No link of the stamp leads on from here. A flood ends in this way, too.
    DeadEnd,
    /// The next hop leads back over the link by which the packet arrived: routes are changing.
    Loop,
    /// The real-time lane has met congestion and sends less, or the packet would be late.
    Braked,
    /// The real-time lane has no room for the packet's flow beside the flows that it serves.
    NoRoom,
    /// A segment of a stream that this node does not know, or no longer knows.
    StreamUnknown,
    /// Bytes of a stream beyond the allowed window, or with too many holes before them.
    StreamWindow,
    /// A segment that acknowledges bytes that were never sent.
    StreamAck,
    /// An incomplete long datagram that was given up to make room for others.
    FragmentFull,
    /// Fragments of a datagram whose other fragments did not arrive in time.
    FragmentLate,
    /// The queue of a reliable lane was full.
    LaneFull,
    /// A packet of a reliable lane with a number that the receiver does not accept yet.
    BeyondWindow,
    /// A packet of a reliable lane that is longer than the path to the next node carries.
    TooLong,
    /// Longer than the emulated link carries (lab mode).
    ImpairedMtu,
    /// No member of the group can be reached from here.
    NoMember,
    /// A source sends more to a group than its rate allows.
    OverRate,
    /// The source may not send to the group.
    NotPermitted,
    /// Packets between two nodes without a session: they have waited for one in vain, or arrived under a session that
    /// this node does not know.
    EndNoSession,
    /// A packet that was not sealed by the node that it names as its source, or that was changed on its path.
    EndForged,
    /// An unsealed packet in the name of a node that seals.
    EndUnsealed,
    /// A handshake between two nodes that leads to nothing.
    EndHandshake,
    /// A packet to a node with which there can be no session: one of the two nodes requires post-quantum keys, and the
    /// other does not offer them.
    EndClassic,
    /// The byte stream (TCP) that carries a link accepts less than the node sends.
    TunnelFull,
    /// A datagram waited for room in a byte stream until it was no longer useful.
    TunnelLate,
    /// A datagram for a byte stream that has ended.
    TunnelEnded,
}

impl Drop {
    /// Every reason, in the order of their counters.
    pub const ALL: [Drop; 49] = [
        Drop::Malformed,
        Drop::UnknownSession,
        Drop::BadTag,
        Drop::Replay,
        Drop::Duplicate,
        Drop::TtlExceeded,
        Drop::Expired,
        Drop::NoRoute,
        Drop::NoSocket,
        Drop::Unsupported,
        Drop::BadSource,
        Drop::NoBuffer,
        Drop::LinkDown,
        Drop::ImpairedLoss,
        Drop::ImpairedQueue,
        Drop::ImpairedOutage,
        Drop::ClientSlow,
        Drop::ResequencerFull,
        Drop::TooLateForOrder,
        Drop::TooManyRecords,
        Drop::StampMalformed,
        Drop::StampTooLong,
        Drop::StampLoops,
        Drop::StampNoLink,
        Drop::StampStray,
        Drop::DeadEnd,
        Drop::Loop,
        Drop::Braked,
        Drop::NoRoom,
        Drop::StreamUnknown,
        Drop::StreamWindow,
        Drop::StreamAck,
        Drop::FragmentFull,
        Drop::FragmentLate,
        Drop::LaneFull,
        Drop::BeyondWindow,
        Drop::TooLong,
        Drop::ImpairedMtu,
        Drop::NoMember,
        Drop::OverRate,
        Drop::NotPermitted,
        Drop::EndNoSession,
        Drop::EndForged,
        Drop::EndUnsealed,
        Drop::EndHandshake,
        Drop::EndClassic,
        Drop::TunnelFull,
        Drop::TunnelLate,
        Drop::TunnelEnded,
    ];

    /// The metric's label.
    pub fn label(self) -> &'static str {
        match self {
            Drop::Malformed => "malformed",
            Drop::UnknownSession => "unknown_session",
            Drop::BadTag => "bad_tag",
            Drop::Replay => "replay",
            Drop::Duplicate => "duplicate",
            Drop::TtlExceeded => "ttl_exceeded",
            Drop::Expired => "expired",
            Drop::NoRoute => "no_route",
            Drop::NoSocket => "no_socket",
            Drop::Unsupported => "unsupported",
            Drop::BadSource => "bad_source",
            Drop::NoBuffer => "no_buffer",
            Drop::LinkDown => "link_down",
            Drop::ImpairedLoss => "impaired_loss",
            Drop::ImpairedQueue => "impaired_queue",
            Drop::ImpairedOutage => "impaired_outage",
            Drop::ClientSlow => "client_slow",
            Drop::ResequencerFull => "resequencer_full",
            Drop::TooLateForOrder => "too_late_for_order",
            Drop::TooManyRecords => "too_many_records",
            Drop::StampMalformed => "stamp_malformed",
            Drop::StampTooLong => "stamp_too_long",
            Drop::StampLoops => "stamp_loops",
            Drop::StampNoLink => "stamp_no_link",
            Drop::StampStray => "stamp_stray",
            Drop::DeadEnd => "dead_end",
            Drop::Loop => "loop",
            Drop::Braked => "braked",
            Drop::NoRoom => "no_room",
            Drop::StreamUnknown => "stream_unknown",
            Drop::StreamWindow => "stream_window",
            Drop::StreamAck => "stream_ack",
            Drop::FragmentFull => "fragment_full",
            Drop::FragmentLate => "fragment_late",
            Drop::LaneFull => "lane_full",
            Drop::BeyondWindow => "beyond_window",
            Drop::TooLong => "too_long",
            Drop::ImpairedMtu => "impaired_mtu",
            Drop::NoMember => "no_member",
            Drop::OverRate => "over_rate",
            Drop::NotPermitted => "not_permitted",
            Drop::EndNoSession => "end_no_session",
            Drop::EndForged => "end_forged",
            Drop::EndUnsealed => "end_unsealed",
            Drop::EndHandshake => "end_handshake",
            Drop::EndClassic => "end_classic",
            Drop::TunnelFull => "tunnel_full",
            Drop::TunnelLate => "tunnel_late",
            Drop::TunnelEnded => "tunnel_ended",
        }
    }
}

/// Why a link now uses another path than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathWhy {
    /// Nothing arrived by the former path for this long.
    Silent(Duration),
    /// The neighbour did not hear this node on the former path, or the path's session had ended.
    NotHeard,
    /// The former path was a byte stream, and the new one carries datagrams.
    Datagrams,
    /// The former path cost more: recent latency, loss and outages, in microseconds of expected latency.
    Dearer {
        /// The cost of the former path.
        was_us: u32,
        /// The cost of the new path.
        is_us: u32,
    },
}

impl core::fmt::Display for PathWhy {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let ms = |us: u32| f64::from(us) / 1e3;
        match *self {
            PathWhy::Silent(silence) => write!(f, "silent for {} ms", silence.as_millis()),
            PathWhy::Datagrams => f.write_str("datagrams get through by the other"),
            PathWhy::NotHeard => f.write_str("the neighbour did not hear this node"),
            PathWhy::Dearer { was_us, is_us } => {
                write!(
                    f,
                    "cost {:.1} ms where the other costs {:.1} ms",
                    ms(was_us),
                    ms(is_us)
                )
            }
        }
    }
}

/// An observable occurrence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A handshake with `peer` has succeeded: a session exists.
    Established {
        /// The neighbour.
        peer: NodeAddr,
        /// The address at which the neighbour is reached.
        at: UnderlayAddr,
    },
    /// A handshake was refused.
    Refused {
        /// The address that tried to connect, or that this node tried.
        from: UnderlayAddr,
        /// Why.
        why: Refusal,
    },
    /// There can be no session from end to end with a node. Reported when this is first found.
    EndRefused {
        /// The node.
        node: NodeAddr,
        /// Why.
        why: Refusal,
    },
    /// A neighbour that this node dials has not answered for long. The event is rare: see `link`.
    Unanswered {
        /// The neighbour.
        peer: NodeAddr,
        /// The address that this node dials.
        at: UnderlayAddr,
        /// Time since the first dial, or since the neighbour was last heard.
        silence: Duration,
    },
    /// A neighbour that this node dials by datagrams does not answer. A byte stream to the neighbour would help now, if
    /// the host can open one. Repeated once a second until there is one.
    NoDatagrams {
        /// The neighbour.
        peer: NodeAddr,
        /// The address that this node dials by datagrams. A path that carries datagrams there mostly carries streams to
        /// the same port.
        at: UnderlayAddr,
    },
    /// A path to `to` delivers less than its links promise. Packets take two paths while the node tries others.
    PathBad {
        /// The destination.
        to: NodeAddr,
        /// Lost packets, per 1000.
        lost: u16,
    },
    /// The tree of a group delivers less to a member than its links promise. The member gets each packet a second time.
    GroupStarved {
        /// The group.
        group: NodeAddr,
        /// The member.
        to: NodeAddr,
        /// Lost packets, per 1000.
        lost: u16,
    },
    /// The tree delivers to the member what its links promise again.
    GroupWhole {
        /// The group.
        group: NodeAddr,
        /// The member.
        to: NodeAddr,
    },
    /// Paths to `to` with this relay or link deliver less than their links promise, and other paths do not.
    Suspected {
        /// The relay or link to blame, or one of the candidates that are reported together.
        suspect: Suspect,
        /// The destination.
        to: NodeAddr,
        /// Lost packets, per 1000.
        lost: u16,
        /// Number of candidates that are reported together.
        among: u16,
    },
    /// A path to `to` over a suspected relay or link now delivers what its links promise.
    Unsuspected {
        /// The relay or link that was suspected.
        suspect: Suspect,
        /// The destination.
        to: NodeAddr,
    },
    /// The link to `peer` runs over a byte stream (TCP) from now on, or no longer.
    Way {
        /// The neighbour.
        peer: NodeAddr,
        /// The link runs over a byte stream from now on.
        is_stream: bool,
    },
    /// The link to `peer` carries packets from now on.
    LinkUp {
        /// The neighbour.
        peer: NodeAddr,
    },
    /// The link to `peer` no longer carries packets.
    LinkDown {
        /// The neighbour.
        peer: NodeAddr,
        /// Why, in words.
        why: &'static str,
    },
    /// The neighbour's address below has changed (NAT, roaming).
    Moved {
        /// The neighbour.
        peer: NodeAddr,
        /// The address at which the neighbour is reached now.
        at: UnderlayAddr,
    },
    /// Packets from this node to `peer` take another path of the link from now on.
    PathChanged {
        /// The neighbour.
        peer: NodeAddr,
        /// The path before.
        from: UnderlayAddr,
        /// The path now.
        to: UnderlayAddr,
        /// Why.
        why: PathWhy,
    },
    /// Packets were sent on to `peer`.
    Forwarded {
        /// The neighbour.
        peer: NodeAddr,
        /// Number of packets.
        packets: u32,
        /// Bytes, with all headers of the overlay.
        bytes: u32,
    },
    /// Packets of this node's clients were sent to `peer`.
    Originated {
        /// The neighbour.
        peer: NodeAddr,
        /// Number of packets.
        packets: u32,
        /// Bytes, with all headers of the overlay.
        bytes: u32,
    },
    /// A packet of this node was to be stamped, but goes by table, by expected latency. Either there is no such path,
    /// or the packet has no deadline for choosing the best one, or the node pauses computing stamps.
    Unstamped,
    /// A packet was handed to a client.
    Delivered {
        /// Payload bytes.
        bytes: u32,
    },
    /// Packets were dropped.
    Dropped {
        /// Why.
        reason: Drop,
        /// Number of packets.
        packets: u32,
    },
    /// Packets of the real-time lane were requested again from `peer`.
    Requested {
        /// The neighbour.
        peer: NodeAddr,
        /// Number of packets.
        packets: u32,
    },
    /// Packets of the real-time lane were sent again to `peer`.
    Retransmitted {
        /// The neighbour.
        peer: NodeAddr,
        /// Number of packets.
        packets: u32,
        /// Bytes, with all headers of the overlay.
        bytes: u32,
    },
    /// A lost packet of the real-time lane has arrived after all.
    Recovered {
        /// The neighbour that sent it.
        peer: NodeAddr,
        /// The time from the detection of the gap to the arrival, in microseconds.
        after_us: u32,
    },
    /// Control datagrams (hello, requests, link state) were sent to `peer`.
    Control {
        /// The neighbour.
        peer: NodeAddr,
        /// Bytes, with all headers of the overlay.
        bytes: u32,
    },
    /// A repair packet of the real-time lane was sent to `peer`.
    Repair {
        /// The neighbour.
        peer: NodeAddr,
        /// Bytes, with all headers of the overlay.
        bytes: u32,
    },
    /// A record of the link-state database was replaced by a newer one.
    RecordAccepted {
        /// The node that the record describes.
        origin: NodeAddr,
    },
    /// A record was refused: its signature or its form is wrong.
    RecordRefused {
        /// The node that the record claims to describe.
        origin: NodeAddr,
    },
    /// The key of a node is in use on two hosts at once. Reported once a minute while it lasts.
    Double {
        /// The node: this one, or a neighbour.
        node: NodeAddr,
        /// The node is this one.
        is_own: bool,
    },
    /// The network has another root key. Signatures of older roots are valid until a certain second.
    RootSucceeded {
        /// The number of the new root.
        number: u8,
        /// The last second in which signatures of older roots are valid.
        until_s: u64,
    },
    /// The node refused a succession that contradicts the one that it knows. If the old root key signed the refused
    /// succession, somebody else has that key.
    RootRefused {
        /// The number of the root that the refused succession would make.
        number: u8,
    },
    /// A node sets groups that its certificate does not cover: other nodes ignore the setting. Reported once, until the
    /// node stops.
    GroupsIgnored {
        /// The node.
        by: NodeAddr,
        /// A group, or the first of a range.
        group: NodeAddr,
        /// How many bits the groups of the range have in common.
        prefix: u8,
    },
    /// The node has computed the routes again.
    RoutesChanged {
        /// Nodes that can be reached over links whose other ends are heard.
        reachable: u32,
        /// Packets to some node have another next hop. If false, only the state of links on the paths has changed: the
        /// other ends of some links are no longer heard, or are heard again.
        rerouted: bool,
    },
}
