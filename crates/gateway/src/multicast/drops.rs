//! Reasons why a frame or a packet does not cross. Each reason is a counter.

use core::fmt;

/// The reason why something was not carried. The order is that of the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Drop {
    /// Shorter than its headers say.
    #[error("cut short")]
    Truncated,
    /// A header with an impossible version or length.
    #[error("malformed")]
    Malformed,
    /// The checksum of the IP header is wrong.
    #[error("wrong checksum in the IP header")]
    Checksum,
    /// A frame of a VLAN: the bridge must be put on the VLAN's own interface.
    #[error("of a VLAN: put the bridge on the VLAN's own interface")]
    Vlan,
    /// A source address that no host has.
    #[error("a source address that no host has")]
    Source,
    /// The destination is not a group. This is a host's own traffic, which is visible because the interface is
    /// promiscuous.
    #[error("not to a group")]
    NotMulticast,
    /// The group is of 224.0.0.0/24, or of an IPv6 scope up to the link. No router forwards such a group.
    #[error("to a group that never leaves a network")]
    LinkLocal,
    /// The group is not among those that may cross.
    #[error("to a group that is not allowed")]
    NotAllowed,
    /// TTL 0.
    #[error("TTL 0")]
    TtlZero,
    /// TTL 1, and the bridge is set to behave as a router.
    #[error("TTL 1")]
    TtlOne,
    /// A bridge put the frame onto this network.
    #[error("came from a bridge")]
    Injected,
    /// The packet equals one that was put onto this network a moment ago.
    #[error("came back")]
    Looped,
    /// The source sends more than it may.
    #[error("its source sends too much")]
    Flood,
    /// Another bridge of this network carries.
    #[error("another bridge of this network carries")]
    Standby,
    /// The node takes no more now, or is unreachable.
    #[error("the node does not take it")]
    Node,
    /// The packet is longer than the overlay carries.
    #[error("longer than the overlay carries")]
    TooLong,
    /// IGMP with a TTL other than 1: it came from beyond this network.
    #[error("IGMP or MLD with another TTL than 1")]
    IgmpTtl,
    /// IGMP in fragments.
    #[error("IGMP in fragments")]
    IgmpFragment,
    /// IGMP cut short, or with inconsistent lengths.
    #[error("malformed IGMP or MLD")]
    IgmpMalformed,
    /// The checksum of IGMP is wrong.
    #[error("wrong checksum in IGMP or MLD")]
    IgmpChecksum,
    /// IGMP of a kind that is not about members.
    #[error("IGMP or MLD of another kind")]
    IgmpUnknown,
    /// A report from an address outside this network.
    #[error("IGMP or MLD from an address that is not of this network")]
    IgmpForeign,
    /// A report for a group that may not cross.
    #[error("a join of a group that is not allowed")]
    JoinNotAllowed,
    /// A join of a group of 232.0.0.0/8 or ff3x::/32 that names no source (RFC 4604 §2.2).
    #[error("a join of a source-specific group without a source")]
    JoinWithoutSource,
    /// A join when the maximum number of groups is reached.
    #[error("a join beyond the limit of groups")]
    JoinTooMany,
    /// A source of a join when the maximum number of sources is reached.
    #[error("a join beyond the limit of sources")]
    SourceTooMany,
    /// One host joins more groups or sources than a host may.
    #[error("joins or sources beyond what one host may have")]
    HostTooMany,
    /// A malformed hello of a bridge.
    #[error("malformed hello")]
    Hello,
    /// From the overlay: the packet does not belong to the group by which it came.
    #[error("from the overlay, and not what its group says")]
    Forged,
    /// From the overlay: the same packet was sent on this network a moment ago.
    #[error("from the overlay, and already on this network")]
    Echo,
    /// From the overlay: the group has no member on this network.
    #[error("no member here")]
    NoMember,
    /// From the overlay: no member on this network wants the source.
    #[error("no member here wants this source")]
    Filtered,
    /// From the overlay: the packet is longer than the interface takes, and may not be fragmented.
    #[error("longer than the interface takes")]
    Mtu,
    /// The interface did not take the packet.
    #[error("the interface does not take it")]
    Port,
    /// The frame needs an offload of a network card that is not supported here, such as a train of TCP.
    #[error("left to the network card in an unknown way")]
    Offload,
}

impl Drop {
    /// All reasons, in the order of their numbers.
    pub const ALL: [Drop; 35] = [
        Drop::Truncated,
        Drop::Malformed,
        Drop::Checksum,
        Drop::Vlan,
        Drop::Source,
        Drop::NotMulticast,
        Drop::LinkLocal,
        Drop::NotAllowed,
        Drop::TtlZero,
        Drop::TtlOne,
        Drop::Injected,
        Drop::Looped,
        Drop::Flood,
        Drop::Standby,
        Drop::Node,
        Drop::TooLong,
        Drop::IgmpTtl,
        Drop::IgmpFragment,
        Drop::IgmpMalformed,
        Drop::IgmpChecksum,
        Drop::IgmpUnknown,
        Drop::IgmpForeign,
        Drop::JoinNotAllowed,
        Drop::JoinWithoutSource,
        Drop::JoinTooMany,
        Drop::SourceTooMany,
        Drop::HostTooMany,
        Drop::Hello,
        Drop::Forged,
        Drop::Echo,
        Drop::NoMember,
        Drop::Filtered,
        Drop::Mtu,
        Drop::Port,
        Drop::Offload,
    ];

    /// Returns the name of the counter.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Drop::Truncated => "truncated",
            Drop::Malformed => "malformed",
            Drop::Checksum => "checksum",
            Drop::Vlan => "vlan",
            Drop::Source => "source",
            Drop::NotMulticast => "not_multicast",
            Drop::LinkLocal => "link_local",
            Drop::NotAllowed => "not_allowed",
            Drop::TtlZero => "ttl_zero",
            Drop::TtlOne => "ttl_one",
            Drop::Injected => "injected",
            Drop::Looped => "looped",
            Drop::Flood => "flood",
            Drop::Standby => "standby",
            Drop::Node => "node",
            Drop::TooLong => "too_long",
            Drop::IgmpTtl => "igmp_ttl",
            Drop::IgmpFragment => "igmp_fragment",
            Drop::IgmpMalformed => "igmp_malformed",
            Drop::IgmpChecksum => "igmp_checksum",
            Drop::IgmpUnknown => "igmp_unknown",
            Drop::IgmpForeign => "igmp_foreign",
            Drop::JoinNotAllowed => "join_not_allowed",
            Drop::JoinWithoutSource => "join_without_source",
            Drop::JoinTooMany => "join_too_many",
            Drop::SourceTooMany => "source_too_many",
            Drop::HostTooMany => "host_too_many",
            Drop::Hello => "hello",
            Drop::Forged => "forged",
            Drop::Echo => "echo",
            Drop::NoMember => "no_member",
            Drop::Filtered => "filtered",
            Drop::Mtu => "mtu",
            Drop::Port => "port",
            Drop::Offload => "offload",
        }
    }
}

/// Numbers of packets that did not cross, by reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drops([u64; Drop::ALL.len()]);

impl Default for Drops {
    fn default() -> Drops {
        Drops([0; Drop::ALL.len()])
    }
}

impl Drops {
    pub(super) fn count(&mut self, reason: Drop) {
        self.add(reason, 1);
    }

    pub(super) fn add(&mut self, reason: Drop, count: u64) {
        self.0[reason as usize] += count;
    }

    /// Returns the count for one reason.
    #[must_use]
    pub fn of(&self, reason: Drop) -> u64 {
        self.0[reason as usize]
    }

    /// Returns every reason with its count.
    pub fn iter(&self) -> impl Iterator<Item = (Drop, u64)> + '_ {
        Drop::ALL
            .into_iter()
            .map(|reason| (reason, self.of(reason)))
    }
}

impl fmt::Display for Drops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for (reason, count) in self.iter().filter(|&(_, count)| count > 0) {
            let comma = if first { "" } else { ", " };
            write!(f, "{comma}{count} {reason}")?;
            first = false;
        }
        if first { f.write_str("none") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_counter_of_its_own() {
        let mut drops = Drops::default();
        for (n, reason) in Drop::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, n, "{reason:?}");
            drops.add(reason, n as u64 + 1);
        }
        for (n, (reason, count)) in drops.iter().enumerate() {
            assert_eq!(count, n as u64 + 1, "{reason:?}");
        }
        let labels: std::collections::BTreeSet<_> = Drop::ALL.map(Drop::label).into();
        assert_eq!(labels.len(), Drop::ALL.len());
        assert_eq!(Drops::default().to_string(), "none");
    }
}
