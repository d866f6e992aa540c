//! Everything observable that happens in a node, as one typed stream.
//!
//! Logs, counters, traces and figures derive from it, so they agree by construction. A drop
//! carries its reason, and the reason's label is the metric's label.

use crate::audit::Suspect;
use base::{Duration, NodeAddr, UnderlayAddr};
use secure::Refusal;
use serde::Serialize;

/// Why a packet was dropped. Each reason is a label of `sinew_drops_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Drop {
    /// Not a datagram of this protocol, or a field that cannot be.
    Malformed,
    /// A session index that nobody here has given out.
    UnknownSession,
    /// The authentication tag does not fit.
    BadTag,
    /// A sealed datagram that was here before.
    Replay,
    /// A packet that this node forwarded or delivered before.
    Duplicate,
    /// The time to live has run out.
    TtlExceeded,
    /// The deadline has passed.
    Expired,
    /// No route to the destination.
    NoRoute,
    /// Nobody is bound to the destination's port.
    NoSocket,
    /// A feature or class that this version does not carry.
    Unsupported,
    /// The source address is not one that a node can have, or claims to be this node; or a stream is opened in the open from
    /// an address of no node that is known.
    BadSource,
    /// All packet buffers are in use.
    NoBuffer,
    /// The link that should carry it is down.
    LinkDown,
    /// The emulated link lost it (lab mode).
    ImpairedLoss,
    /// The emulated link's queue was full (lab mode).
    ImpairedQueue,
    /// The emulated link is out (lab mode).
    ImpairedOutage,
    /// A client does not read fast enough.
    ClientSlow,
    /// A reordering buffer was full.
    ResequencerFull,
    /// Arrived after its successors were delivered in order.
    TooLateForOrder,
    /// A record of a neighbour that has had too many checked lately.
    TooManyRecords,
    /// A stamp that is none: its kind, lengths, places or addresses.
    StampMalformed,
    /// A stamp of more bytes, nodes or links than one may have.
    StampTooLong,
    /// A stamp in which a node stands twice, or a link leads back.
    StampLoops,
    /// A copy for a link that this node does not have, as the stamp says.
    StampNoLink,
    /// A packet that came where its stamp does not lead.
    StampStray,
    /// No link of the stamp leads on from here: where a flood ends, too.
    DeadEnd,
    /// The way on leads back over the link that it came by: routes are changing.
    Loop,
    /// The real-time lane has met congestion and sends less, or the packet would be late.
    Braked,
    /// The real-time lane has no room for the packet's flow beside those that it serves.
    NoRoom,
    /// A segment of a stream that this node does not know, or knows no more.
    StreamUnknown,
    /// Bytes of a stream beyond what was allowed, or with too many holes before them.
    StreamWindow,
    /// A segment that acknowledges what was never sent.
    StreamAck,
    /// Long datagrams that were given up, not whole, for others.
    FragmentFull,
    /// Fragments of which the others have not come in time.
    FragmentLate,
    /// The queue of a reliable lane was full.
    LaneFull,
    /// A packet of a reliable lane with a number that is not taken yet.
    BeyondWindow,
    /// A packet of a reliable lane that is longer than the path to the next node carries.
    TooLong,
    /// Longer than the emulated link carries (lab mode).
    ImpairedMtu,
    /// No member of the group is to be reached from here.
    NoMember,
    /// A source sends more to a group than its rate.
    OverRate,
    /// The source may not send to the group.
    NotPermitted,
    /// Packets between two nodes for which there is no session: they have waited for one in vain, or
    /// come under one that is not known here.
    EndNoSession,
    /// A packet that the node which it names as its source has not sealed, or that was changed on the
    /// way.
    EndForged,
    /// A packet in the open in the name of a node that seals.
    EndUnsealed,
    /// A handshake between two nodes of which nothing comes.
    EndHandshake,
    /// A packet to a node with which there can be no session: one of both requires post-quantum keys, and the other makes none.
    EndClassic,
    /// The byte stream (TCP) that carries a link takes less than is sent.
    TunnelFull,
    /// A datagram has waited for room in a byte stream until it was of no use.
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

/// Why a link has another path in use than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathWhy {
    /// Nothing came by the one before for this long.
    Silent(Duration),
    /// The neighbour did not hear this node on it, or its session had ended.
    NotHeard,
    /// It was a byte stream, and the other one takes datagrams.
    Datagrams,
    /// It cost more: latency, loss and outages of late, in microseconds of expected latency.
    Dearer {
        /// What it cost.
        was_us: u32,
        /// What the other one does.
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

/// Something observable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A handshake with `peer` has succeeded: a session exists.
    Established {
        /// The neighbour.
        peer: NodeAddr,
        /// Where it is reached.
        at: UnderlayAddr,
    },
    /// A handshake was refused.
    Refused {
        /// Who tried, or was tried.
        from: UnderlayAddr,
        /// Why.
        why: Refusal,
    },
    /// There can be no session from end to end with a node. Told when it shows first.
    EndRefused {
        /// The node.
        node: NodeAddr,
        /// Why.
        why: Refusal,
    },
    /// A neighbour that is dialled has not answered for long. It is told of rarely: see `link`.
    Unanswered {
        /// The neighbour.
        peer: NodeAddr,
        /// Where it is dialled.
        at: UnderlayAddr,
        /// Since the first dial, or since it was heard last.
        silence: Duration,
    },
    /// A neighbour that is dialled by datagrams does not answer: a byte stream to it, if the host can have one, is of
    /// use now. Told once a second until there is one.
    NoDatagrams {
        /// The neighbour.
        peer: NodeAddr,
    },
    /// A path to `to` delivers less than its links promise. Packets take two paths while others are tried.
    PathBad {
        /// The destination.
        to: NodeAddr,
        /// What was lost, of 1000.
        lost: u16,
    },
    /// The tree of a group brings a member less than its links promise. The member gets each packet a second time.
    GroupStarved {
        /// The group.
        group: NodeAddr,
        /// The member.
        to: NodeAddr,
        /// What was lost, of 1000.
        lost: u16,
    },
    /// It brings the member what they promise again.
    GroupWhole {
        /// The group.
        group: NodeAddr,
        /// The member.
        to: NodeAddr,
    },
    /// Paths to `to` with this relay or link deliver less than their links promise, and others do not.
    Suspected {
        /// What is to blame, or one of those that are told with it.
        suspect: Suspect,
        /// The destination.
        to: NodeAddr,
        /// What was lost, of 1000.
        lost: u16,
        /// So many are told together.
        among: u16,
    },
    /// A path to `to` with what was suspect delivers what its links promise.
    Unsuspected {
        /// What was suspect.
        suspect: Suspect,
        /// The destination.
        to: NodeAddr,
    },
    /// The link to `peer` runs over a byte stream (TCP) from now on, or no longer.
    Way {
        /// The neighbour.
        peer: NodeAddr,
        /// It does.
        is_stream: bool,
    },
    /// The link to `peer` carries packets from now on.
    LinkUp {
        /// The neighbour.
        peer: NodeAddr,
    },
    /// The link to `peer` carries packets no more.
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
        /// Where it is reached now.
        at: UnderlayAddr,
    },
    /// What this node sends to `peer` takes another path of their link from now on.
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
        /// How many.
        packets: u32,
        /// With all headers of the overlay.
        bytes: u32,
    },
    /// Packets of this node's clients were sent to `peer`.
    Originated {
        /// The neighbour.
        peer: NodeAddr,
        /// How many.
        packets: u32,
        /// With all headers of the overlay.
        bytes: u32,
    },
    /// A packet of this node was to be stamped and goes by table, by expected latency: there is no
    /// such path, no deadline for a best one, or the node rests from computing stamps.
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
        /// How many.
        packets: u32,
    },
    /// Packets of the real-time lane were requested again from `peer`.
    Requested {
        /// The neighbour.
        peer: NodeAddr,
        /// How many.
        packets: u32,
    },
    /// Packets of the real-time lane were sent again to `peer`.
    Retransmitted {
        /// The neighbour.
        peer: NodeAddr,
        /// How many.
        packets: u32,
        /// With all headers of the overlay.
        bytes: u32,
    },
    /// A lost packet of the real-time lane has come after all.
    Recovered {
        /// The neighbour that sent it.
        peer: NodeAddr,
        /// From the detection of the gap to the arrival, in microseconds.
        after_us: u32,
    },
    /// Control datagrams (hello, requests, link state) were sent to `peer`.
    Control {
        /// The neighbour.
        peer: NodeAddr,
        /// With all headers of the overlay.
        bytes: u32,
    },
    /// A repair packet of the real-time lane was sent to `peer`.
    Repair {
        /// The neighbour.
        peer: NodeAddr,
        /// With all headers of the overlay.
        bytes: u32,
    },
    /// A record of the link-state database was replaced by a newer one.
    RecordAccepted {
        /// Whose record.
        origin: NodeAddr,
    },
    /// A record was refused: its signature or its form is wrong.
    RecordRefused {
        /// Whose record it claims to be.
        origin: NodeAddr,
    },
    /// The network has another root key: what older ones signed counts until a certain second.
    RootSucceeded {
        /// The number of the new root.
        number: u8,
        /// The last second in which counts what older ones signed.
        until_s: u64,
    },
    /// A succession was refused that contradicts the one that is known. If it was the old root key that signed it, somebody
    /// else has that key.
    RootRefused {
        /// The number of the root that it would make.
        number: u8,
    },
    /// A node sets groups that its certificate does not cover: nobody heeds it. Told once, until it stops.
    GroupsIgnored {
        /// The node.
        by: NodeAddr,
        /// A group, or the first of a range.
        group: NodeAddr,
        /// How many bits the groups of the range have in common.
        prefix: u8,
    },
    /// The routes have been computed anew.
    RoutesChanged {
        /// Nodes that can be reached over links whose other ends are heard.
        reachable: u32,
        /// Packets to some node have another next hop. If not, it is the ends of links on the way
        /// that are heard no longer, or again.
        rerouted: bool,
    },
}
