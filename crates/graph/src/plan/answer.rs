//! What a plan says: ways, their segments, and why they are believed.

use super::Question;
use crate::metric::Cost;
use crate::width::Width;
use base::NodeAddr;

/// Why a rate is believed, from the most certain to the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Confidence {
    /// Transfers over the link have had it.
    Measured,
    /// So many times what one connection has had: nobody has seen so many together.
    Scaled,
    /// The link's capacity, as configured, allows no more.
    Capacity,
    /// By the round trip and the loss of the link, which are measured.
    Model,
    /// By the sums over several links in a row: nobody has measured the way between their ends.
    Added,
    /// No loss is known, so nothing limits the model: at least so much, and how much is not known.
    AtLeast,
}

/// Between two rates. What is not known reaches from nothing to no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Interval {
    /// At least.
    pub low: Width,
    /// At most.
    pub high: Width,
}

impl Interval {
    /// Nothing is known.
    pub const OPEN: Interval = Interval {
        low: Width::NONE,
        high: Width::UNLIMITED,
    };

    /// Of the slower of two.
    #[must_use]
    pub fn slower(self, other: Interval) -> Interval {
        Interval {
            low: self.low.min(other.low),
            high: self.high.min(other.high),
        }
    }

    /// With `rate` inside, and nothing above `most`.
    #[must_use]
    pub(super) fn about(self, rate: Width, most: Width) -> Interval {
        Interval {
            low: self.low.min(rate),
            high: self.high.min(most).max(rate),
        }
    }
}

/// Connections side by side between two nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// Where they begin.
    pub from: NodeAddr,
    /// Where they end.
    pub to: NodeAddr,
    /// Known nodes between them that do not relay.
    pub past: Vec<NodeAddr>,
    /// How many.
    pub stripes: usize,
    /// What one of them would carry alone.
    pub one: Width,
    /// What they carry together.
    pub rate: Width,
    /// Within which it is expected.
    pub interval: Interval,
    /// Why that is believed.
    pub confidence: Confidence,
    /// The round trip, in microseconds.
    pub rtt_us: u64,
    /// The share of packets lost.
    pub loss: f64,
    /// The physical links that it crosses.
    pub physical_hops: u32,
    /// Of its links those whose physical links nobody knows: each counts as
    /// [`crate::Topology::assumed_hops`].
    pub assumed: usize,
}

/// One way to move the data.
#[derive(Clone, Debug, PartialEq)]
pub struct Way {
    /// From the source to the destination.
    pub segments: Vec<Segment>,
    /// The rate of the slowest segment.
    pub rate: Width,
    /// Within which it is expected: that of the slowest, wherever within theirs the segments are.
    pub interval: Interval,
    /// Why that is believed: the least certain of the slowest segments.
    pub confidence: Confidence,
}

/// The path that is the shortest of all that are wide enough. [Liu04 §IV-C]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortest {
    /// The width of the widest path with no more relays than were asked for.
    pub widest: Width,
    /// What was required: less by the margin.
    pub required: Width,
    /// How long it is, by the length of the question.
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

/// How data can be moved.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What was asked.
    pub question: Question,
    /// By one connection.
    pub direct: Way,
    /// By single connections in a row; the direct way where relays gain nothing.
    pub pipelined: Way,
    /// Why over these relays: their path is the shortest of the wide ones. None where relays gain
    /// nothing, where the shortest path has more relays than were asked for, and along one path.
    pub shortest: Option<Shortest>,
    /// By up to the asked number of connections.
    pub striped: Way,
    /// The fastest of them; of equally fast ones the first, and the first of which nothing is known that
    /// limits it.
    pub choice: Choice,
}

impl Plan {
    /// The way that is taken.
    pub fn best(&self) -> &Way {
        match self.choice {
            Choice::Direct => &self.direct,
            Choice::Pipelined => &self.pipelined,
            Choice::Striped => &self.striped,
        }
    }
}

impl Way {
    /// The nodes that relay, in order.
    pub fn relays(&self) -> impl Iterator<Item = NodeAddr> {
        self.segments.iter().skip(1).map(|segment| segment.from)
    }

    /// All connections together.
    pub fn connections(&self) -> usize {
        self.segments.iter().map(|segment| segment.stripes).sum()
    }

    /// The segments that limit it: the slowest ones.
    pub fn slowest(&self) -> impl Iterator<Item = &Segment> {
        let slow = |segment: &&Segment| segment.rate == self.rate;
        self.segments.iter().filter(slow)
    }
}

impl Way {
    /// Made of these; there is at least one.
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

    /// Of each of its segments something is known that limits it.
    pub fn is_known(&self) -> bool {
        let open = |segment: &Segment| segment.confidence == Confidence::AtLeast;
        !self.segments.iter().any(open)
    }

    /// Transfers have had what is said of each of its segments.
    pub(super) fn is_measured(&self) -> bool {
        let measured = |segment: &Segment| segment.confidence == Confidence::Measured;
        self.segments.iter().all(measured)
    }

    /// Its rate rests on what one connection has had times their number.
    pub(super) fn is_scaled(&self) -> bool {
        let scaled = |segment: &Segment| {
            segment.confidence == Confidence::Scaled && segment.interval.low < self.rate
        };
        self.segments.iter().any(scaled)
    }

    /// Over the same nodes.
    pub(super) fn goes_as(&self, other: &Way) -> bool {
        self.relays().eq(other.relays())
    }

    /// It is faster than another, or as fast by less.
    pub(super) fn is_better(&self, other: &Way) -> bool {
        let by = |way: &Way| {
            let cost = (way.connections(), way.segments.len());
            (way.rate, core::cmp::Reverse(cost))
        };
        by(self) > by(other)
    }
}

impl Confidence {
    /// A word for it.
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
    /// A word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Choice::Direct => "direct",
            Choice::Pipelined => "pipelined",
            Choice::Striped => "striped",
        }
    }
}
