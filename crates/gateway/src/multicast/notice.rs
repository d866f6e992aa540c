//! Frequent problems, each reported once when the bridge sees it.

use super::packet::Mac;
use core::fmt;
use core::net::IpAddr;
use std::collections::BTreeSet;

/// Maximum number of notices: the bridge remembers which ones it reported, and reports no more when it has reached this
/// number.
pub const SAID_MAX: usize = 64;

/// A condition that the operator should know, with advice about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Notice {
    /// A source sends with TTL 1.
    TtlOne {
        /// The source.
        source: IpAddr,
        /// The group.
        group: IpAddr,
        /// Whether the bridge carries the packets nevertheless.
        carried: bool,
    },
    /// A source sends to a group that may not cross.
    NotAllowed {
        /// The group.
        group: IpAddr,
    },
    /// A host wants a group that may not cross.
    JoinNotAllowed {
        /// The group.
        group: IpAddr,
    },
    /// A host wants a source-specific group without naming a source.
    WithoutSource {
        /// The group.
        group: IpAddr,
    },
    /// The maximum number of groups or sources is reached.
    TooManyJoins,
    /// A host joins more groups or sources than a host may.
    HostLimit {
        /// The Ethernet address of the host.
        mac: Mac,
    },
    /// A host joined a group, and no host answers the queries of this bridge.
    Unanswered {
        /// The group.
        group: IpAddr,
    },
    /// The bridge sends queries without an address.
    NoAddress,
    /// Another router queries, and decides how long members are valid.
    OtherQuerier {
        /// The address of the router.
        address: IpAddr,
        /// The version of IGMP that the router speaks, or the version of IGMP that corresponds to its MLD.
        version: u8,
    },
    /// A report from an address outside this network.
    Foreign {
        /// The address.
        host: IpAddr,
    },
    /// The kernel drops packets of a source that it would not reach through this interface.
    PathFilter {
        /// The source.
        source: IpAddr,
    },
    /// A source sends more than it may.
    Flood {
        /// The source.
        source: IpAddr,
    },
    /// A packet from the overlay is longer than the interface takes.
    TooLong {
        /// The source of the packet.
        source: IpAddr,
        /// The length of the packet in bytes.
        bytes: usize,
        /// The MTU of the interface.
        mtu: usize,
    },
    /// Frames of a VLAN are ignored.
    Vlan,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Notice::TtlOne {
                source,
                group,
                carried: true,
            } => write!(
                f,
                "{source} sends to {group} with TTL 1: it crosses the bridge with TTL 1, and no \
                 router behind the other bridges passes it on; raise the program's TTL if one should"
            ),
            Notice::TtlOne { source, group, .. } => write!(
                f,
                "{source} sends to {group} with TTL 1, which a router drops: raise the program's \
                 TTL (ffmpeg: ?ttl=8), or leave out --router-ttl"
            ),
            Notice::NotAllowed { group } => write!(
                f,
                "a program sends to {group}, which may not cross: name it in --groups if it should"
            ),
            Notice::JoinNotAllowed { group } => write!(
                f,
                "a program joined {group}, which may not cross: name it in --groups if it should"
            ),
            Notice::WithoutSource { group } => write!(
                f,
                "a program joined {group} without naming a source, which source-specific groups \
                 (232.0.0.0/8, ff3x::/32) need: join with a source, or use a group of 239.0.0.0/8 or \
                 ff1e::/16"
            ),
            Notice::TooManyJoins => f.write_str(
                "there are as many joined groups or sources as the bridge keeps: further ones are \
                 refused and counted",
            ),
            Notice::HostLimit { mac: [a, b, c, d, e, g] } => write!(
                f,
                "the host {a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x} joins more groups or sources \
                 than one may: further ones are refused and counted, those of other hosts are not; see \
                 --host-groups if it stands for many"
            ),
            Notice::Unanswered { group } => write!(
                f,
                "a host joined {group} and answers no queries: a firewall may drop IGMP (protocol \
                 2) or MLD (ICMPv6), and the group ends when its time is over"
            ),
            Notice::NoAddress => f.write_str(
                "the interface has no IPv4 address: queries go out from 0.0.0.0, which some switches \
                 and hosts do not heed; give it one (--address)",
            ),
            Notice::OtherQuerier { address, version } => write!(
                f,
                "{address} asks for members by {}v{} and has the lower address: it decides \
                 how fast a leave takes effect{}",
                if address.is_ipv6() { "MLD" } else { "IGMP" },
                // The corresponding version of MLD is lower by one. [RFC 3810 §1]
                version - u8::from(address.is_ipv6()),
                if version < 3 {
                    ", and source filters do not work"
                } else {
                    ""
                }
            ),
            Notice::Foreign { host } => write!(
                f,
                "{host} reports members, and is not of this network: the report does not count; \
                 give the interface an address of that network if it should"
            ),
            Notice::PathFilter { source } => write!(
                f,
                "packets from {source} come in here, and this host drops them (rp_filter) unless \
                 a route to it leads here too: sysctl -w net.ipv4.conf.all.rp_filter=0"
            ),
            Notice::Flood { source } => write!(
                f,
                "{source} sends more than one source may: the rest is dropped and counted; see \
                 --source-rate"
            ),
            Notice::TooLong { source, bytes, mtu } => write!(
                f,
                "{source} sends packets of {bytes} bytes that may not be fragmented, and the \
                 interface takes {mtu}: raise its MTU, or lower the program's packet size"
            ),
            Notice::Vlan => f.write_str(
                "frames of a VLAN are not looked at: put the bridge on the VLAN's own interface",
            ),
        }
    }
}

/// The notices that were reported.
#[derive(Debug, Default)]
pub(super) struct Said(BTreeSet<Notice>);

impl Said {
    /// Returns true only for the first call with a given notice: it is to be reported then.
    pub(super) fn first(&mut self, notice: Notice) -> bool {
        self.0.len() < SAID_MAX && self.0.insert(notice)
    }
}
