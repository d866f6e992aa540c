//! The content of a plan: ways to move the data, their segments, and why their rates are believed.

use super::Question;
use crate::metric::Cost;
use crate::width::Width;
use base::NodeAddr;

/// Why a rate is believed, from the most certain to the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Confidence {
    /// Transfers over the link have reached the rate.
    Measured,
    /// The rate is a multiple of what one connection has reached. Nobody has measured this number of connections
    /// together.
    Scaled,
    /// The rate is the configured capacity of the link, which allows no more.
    Capacity,
    /// The model computes the rate from the measured round trip and loss of the link.
    Model,
    /// The model adds up several links in a row. Nobody has measured the path between their ends.
    Added,
    /// No loss is known, so nothing limits the model. The rate is a lower bound; the actual rate is not known.
    AtLeast,
}

/// A range of rates. An unknown range reaches from nothing to no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Interval {
    /// The lower bound.
    pub low: Width,
    /// The upper bound.
    pub high: Width,
}

impl Interval {
    /// The range of which nothing is known.
    pub const OPEN: Interval = Interval {
        low: Width::NONE,
        high: Width::UNLIMITED,
    };

    /// Returns the range of the slower of two connections.
    #[must_use]
    pub fn slower(self, other: Interval) -> Interval {
        Interval {
            low: self.low.min(other.low),
            high: self.high.min(other.high),
        }
    }

    /// Returns the range, extended to contain `rate` and limited to `most`.
    #[must_use]
    pub(super) fn about(self, rate: Width, most: Width) -> Interval {
        Interval {
            low: self.low.min(rate),
            high: self.high.min(most).max(rate),
        }
    }
}

/// Parallel connections between two nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// The node where the connections begin.
    pub from: NodeAddr,
    /// The node where the connections end.
    pub to: NodeAddr,
    /// Known nodes between the two ends that do not relay.
    pub past: Vec<NodeAddr>,
    /// Number of connections.
    pub stripes: usize,
    /// The rate that one of the connections would have alone.
    pub one: Width,
    /// The rate of all the connections together.
    pub rate: Width,
    /// The range in which `rate` is expected.
    pub interval: Interval,
    /// Why the rate is believed.
    pub confidence: Confidence,
    /// The round-trip time, in microseconds.
    pub rtt_us: u64,
    /// The share of packets that are lost.
    pub loss: f64,
    /// The number of physical links that the segment crosses.
    pub physical_hops: u32,
    /// The number of the segment's links whose physical links are not known. Each of them counts as
    /// [`crate::Topology::assumed_hops`].
    pub assumed: usize,
}

/// One way to move the data.
#[derive(Clone, Debug, PartialEq)]
pub struct Way {
    /// The segments from the source to the destination.
    pub segments: Vec<Segment>,
    /// The rate of the slowest segment.
    pub rate: Width,
    /// The range in which `rate` is expected: the range of the slowest segment, wherever in their own ranges the
    /// segments are.
    pub interval: Interval,
    /// Why the rate is believed: the least certain reason of the slowest segments.
    pub confidence: Confidence,
}

/// The shortest of all paths that are wide enough. [Liu04 §IV-C]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortest {
    /// The width of the widest path with no more relays than the question allows.
    pub widest: Width,
    /// The required width: `widest` reduced by the margin.
    pub required: Width,
    /// The length of the path, in the question's unit of length.
    pub length: Cost,
}

/// Which way is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// One connection.
    Direct,
    /// Relays, one connection each.
    Pipelined,
    /// Relays and stripes.
    Striped,
}

/// The ways in which data can be moved.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The question that this plan answers.
    pub question: Question,
    /// The way with one connection.
    pub direct: Way,
    /// The way with single connections in a row. It equals the direct way where relays gain nothing.
    pub pipelined: Way,
    /// Why these relays were chosen: their path is the shortest of the wide paths. `None` where relays gain nothing,
    /// where the shortest path has more relays than the question allows, and for a plan along one given path.
    pub shortest: Option<Shortest>,
    /// The way with up to the number of connections that the question allows.
    pub striped: Way,
    /// The fastest of the three ways. Of equally fast ways, the first one; likewise the first way for which no limit is
    /// known.
    pub choice: Choice,
}

impl Plan {
    /// Returns the way that is taken.
    pub fn best(&self) -> &Way {
        match self.choice {
            Choice::Direct => &self.direct,
            Choice::Pipelined => &self.pipelined,
            Choice::Striped => &self.striped,
        }
    }
}

impl Way {
    /// Returns the nodes that relay, in order.
    pub fn relays(&self) -> impl Iterator<Item = NodeAddr> {
        self.segments.iter().skip(1).map(|segment| segment.from)
    }

    /// Returns the number of all connections together.
    pub fn connections(&self) -> usize {
        self.segments.iter().map(|segment| segment.stripes).sum()
    }

    /// Returns the segments that limit the way: the slowest ones.
    pub fn slowest(&self) -> impl Iterator<Item = &Segment> {
        let slow = |segment: &&Segment| segment.rate == self.rate;
        self.segments.iter().filter(slow)
    }
}

impl Way {
    /// Builds a way from these segments; there is at least one.
    pub(super) fn of(segments: Vec<Segment>) -> Way {
        let rate = segments.iter().map(|segment| segment.rate).min();
        let rate = rate.unwrap_or(Width::NONE);
        let slow = segments.iter().filter(|segment| segment.rate == rate);
        let confidence = slow.map(|segment| segment.confidence).max();
        let intervals = segments.iter().map(|segment| segment.interval);
        Way {
            rate,
            interval: intervals.reduce(Interval::slower).unwrap_or(Interval::OPEN),
            confidence: confidence.unwrap_or(Confidence::AtLeast),
            segments,
        }
    }

    /// Returns true if a limit is known for each segment.
    pub fn is_known(&self) -> bool {
        let open = |segment: &Segment| segment.confidence == Confidence::AtLeast;
        !self.segments.iter().any(open)
    }

    /// Returns true if transfers have reached the stated rate of each segment.
    pub(super) fn is_measured(&self) -> bool {
        let measured = |segment: &Segment| segment.confidence == Confidence::Measured;
        self.segments.iter().all(measured)
    }

    /// Returns true if the way's rate depends on a multiple of what one connection has reached.
    pub(super) fn is_scaled(&self) -> bool {
        let scaled = |segment: &Segment| {
            segment.confidence == Confidence::Scaled && segment.interval.low < self.rate
        };
        self.segments.iter().any(scaled)
    }

    /// Returns true if both ways use the same nodes.
    pub(super) fn goes_as(&self, other: &Way) -> bool {
        self.relays().eq(other.relays())
    }

    /// Returns true if this way is faster than `other`, or as fast with fewer connections or segments.
    pub(super) fn is_better(&self, other: &Way) -> bool {
        let by = |way: &Way| {
            let cost = (way.connections(), way.segments.len());
            (way.rate, core::cmp::Reverse(cost))
        };
        by(self) > by(other)
    }
}

impl Confidence {
    /// Returns the name of the confidence.
    pub const fn as_str(self) -> &'static str {
        match self {
            Confidence::Measured => "measured",
            Confidence::Scaled => "scaled",
            Confidence::Capacity => "capacity",
            Confidence::Model => "model",
            Confidence::Added => "added",
            Confidence::AtLeast => "at-least",
        }
    }
}

impl Choice {
    /// Returns the name of the choice.
    pub const fn as_str(self) -> &'static str {
        match self {
            Choice::Direct => "direct",
            Choice::Pipelined => "pipelined",
            Choice::Striped => "striped",
        }
    }
}
