//! What a client may choose to have its packets routed by.

use crate::data::Routing;

/// How a node stamps its clients' packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    /// One path: the one that delivers the most in time. [Amir06 §IV-B]
    Best,
    /// Two paths without a common node, or as many as there are.
    Disjoint,
    /// Three of them.
    Disjoint3,
    /// Every link of the network.
    Flooding,
    /// One path while the network is calm, and more links where there is trouble: around the source, around the
    /// destination, or two paths. [Babay et al. 2017]
    Targeted,
}

/// What a client chooses: a metric by table, or a scheme by which its node stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RouteBy {
    /// Hop by hop.
    Table(Routing),
    /// As the source decides.
    Stamp(Scheme),
}

impl Scheme {
    /// All of them, in wire order, which begins at 1.
    pub const ALL: [Scheme; 5] = [
        Scheme::Best,
        Scheme::Disjoint,
        Scheme::Disjoint3,
        Scheme::Flooding,
        Scheme::Targeted,
    ];

    /// A short stable word for people and metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Scheme::Best => "best",
            Scheme::Disjoint => "disjoint",
            Scheme::Disjoint3 => "disjoint-3",
            Scheme::Flooding => "flooding",
            Scheme::Targeted => "targeted",
        }
    }

    /// The number on the wire.
    pub(super) const fn to_byte(self) -> u8 {
        match self {
            Scheme::Best => 1,
            Scheme::Disjoint => 2,
            Scheme::Disjoint3 => 3,
            Scheme::Flooding => 4,
            Scheme::Targeted => 5,
        }
    }

    /// What a number on the wire means.
    pub(super) fn from_byte(byte: u8) -> Option<Scheme> {
        let place = usize::from(byte).checked_sub(1)?;
        Scheme::ALL.get(place).copied()
    }
}

impl RouteBy {
    /// All that this version of the node carries.
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

    /// A short stable word for people and metrics.
    pub const fn label(self) -> &'static str {
        match self {
            RouteBy::Table(routing) => routing.label(),
            RouteBy::Stamp(scheme) => scheme.label(),
        }
    }

    /// The choice with this label.
    pub fn from_label(label: &str) -> Option<RouteBy> {
        RouteBy::ALL.into_iter().find(|by| by.label() == label)
    }

    /// What stands in the class of the packets.
    pub const fn routing(self) -> Routing {
        match self {
            RouteBy::Table(routing) => routing,
            RouteBy::Stamp(_) => Routing::Stamped,
        }
    }

    /// How the packets are stamped, if they are.
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
