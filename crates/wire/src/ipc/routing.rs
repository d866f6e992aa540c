//! The routing choices of a client for its packets.

use crate::data::Routing;

/// The scheme by which a node stamps its clients' packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    /// One path: the one that delivers the most packets in time. [Amir06 §IV-B]
    Best,
    /// Two paths without a common node, or as many as there are.
    Disjoint,
    /// Three paths without a common node, or as many as there are.
    Disjoint3,
    /// Every link of the network.
    Flooding,
    /// One path while the network is calm, and more links where there is trouble: around the source, around the
    /// destination, or two paths. [Babay et al. 2017]
    Targeted,
}

/// The choice of a client: a metric by table, or a scheme by which its node stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RouteBy {
    /// Hop by hop, by table.
    Table(Routing),
    /// By the stamp of the source.
    Stamp(Scheme),
}

impl Scheme {
    /// All schemes, in wire order, which begins at 1.
    pub const ALL: [Scheme; 5] = [
        Scheme::Best,
        Scheme::Disjoint,
        Scheme::Disjoint3,
        Scheme::Flooding,
        Scheme::Targeted,
    ];

    /// Returns a short stable word for people and metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Scheme::Best => "best",
            Scheme::Disjoint => "disjoint",
            Scheme::Disjoint3 => "disjoint-3",
            Scheme::Flooding => "flooding",
            Scheme::Targeted => "targeted",
        }
    }

    /// Returns the number on the wire.
    pub(super) const fn to_byte(self) -> u8 {
        match self {
            Scheme::Best => 1,
            Scheme::Disjoint => 2,
            Scheme::Disjoint3 => 3,
            Scheme::Flooding => 4,
            Scheme::Targeted => 5,
        }
    }

    /// Returns the meaning of a number on the wire.
    pub(super) fn from_byte(byte: u8) -> Option<Scheme> {
        let place = usize::from(byte).checked_sub(1)?;
        Scheme::ALL.get(place).copied()
    }
}

impl RouteBy {
    /// All choices that this version of the node supports.
    pub const ALL: [RouteBy; 9] = [
        RouteBy::Table(Routing::Hops),
        RouteBy::Table(Routing::Latency),
        RouteBy::Table(Routing::Loss),
        RouteBy::Table(Routing::ExpectedLatency),
        RouteBy::Stamp(Scheme::Best),
        RouteBy::Stamp(Scheme::Disjoint),
        RouteBy::Stamp(Scheme::Disjoint3),
        RouteBy::Stamp(Scheme::Flooding),
        RouteBy::Stamp(Scheme::Targeted),
    ];

    /// Returns a short stable word for people and metrics.
    pub const fn label(self) -> &'static str {
        match self {
            RouteBy::Table(routing) => routing.label(),
            RouteBy::Stamp(scheme) => scheme.label(),
        }
    }

    /// Returns the choice with this label.
    pub fn from_label(label: &str) -> Option<RouteBy> {
        RouteBy::ALL.into_iter().find(|by| by.label() == label)
    }

    /// Returns the routing in the class of the packets.
    pub const fn routing(self) -> Routing {
        match self {
            RouteBy::Table(routing) => routing,
            RouteBy::Stamp(_) => Routing::Stamped,
        }
    }

    /// Returns the scheme by which the packets are stamped, if they are.
    pub const fn scheme(self) -> Option<Scheme> {
        match self {
            RouteBy::Table(_) => None,
            RouteBy::Stamp(scheme) => Some(scheme),
        }
    }
}

impl From<Routing> for RouteBy {
    fn from(routing: Routing) -> RouteBy {
        RouteBy::Table(routing)
    }
}

impl From<Scheme> for RouteBy {
    fn from(scheme: Scheme) -> RouteBy {
        RouteBy::Stamp(scheme)
    }
}
