//! Every timer and threshold of a node, by profile.
//!
//! `modern` is the default; `paper` sets what the papers used, for comparison.

mod keys;

pub use keys::{Field, SetError};

use crate::{announce, hello, realtime, reliable, stream};
use base::Duration;
use congestion::brake;
use graph::metric::Parameters;
use secure::PostQuantum;

/// What the metrics of a link are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricOf {
    /// Half of the average round trip, and what a single request leaves of independent losses.
    /// [Amir06 §III-A, §IV-B]
    Paper,
    /// Half of the least round trip of late, so that neither a queue nor a host that was busy prices a
    /// path for a minute; and what the protection in force leaves of the losses both ways.
    Measured,
}

/// Whether what goes from one node to another is sealed from end to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sealing {
    /// Never, and others are told that this node does not open.
    Off,
    /// With all nodes that seal.
    On,
    /// The same, and clients may not send where it cannot be.
    Always,
}

/// How many paths a link may have, and what goes by two of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uplinks {
    /// One path: further ones are neither opened nor taken.
    Off,
    /// As many as there are; packets take one of them, and a second one while it is in doubt.
    One,
    /// Real-time packets with the priority of calls, or more, take two of them always.
    Copies,
}

/// The numbers of a node.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The profile's name.
    pub name: &'static str,
    /// Hello protocol and failure detection.
    pub hello: hello::Settings,
    /// Real-time recovery.
    pub realtime: realtime::Settings,
    /// How the real-time lane gives way to congestion; none for never.
    pub brake: Option<brake::Settings>,
    /// Reliable links.
    pub reliable: reliable::Settings,
    /// When a link's cost is announced again.
    pub announce: announce::Settings,
    /// For how long a node that a neighbour does not hear may say nothing until it counts as silent.
    pub node_doubt_after: Duration,
    /// Streams.
    pub streams: stream::Settings,
    /// Whether what goes to other nodes is sealed from end to end.
    pub sealing: Sealing,
    /// Whether keys, of neighbours and of ends, come from ML-KEM too.
    pub post_quantum: PostQuantum,
    /// Whether nodes that seal find out if what they send arrives, and avoid paths that swallow it.
    pub audit: bool,
    /// With how many nodes there is a session from end to end before anything is sent.
    pub prepared_ends: u32,
    /// Whether the node tells at once over which links packets to it are being lost.
    pub alarms: bool,
    /// Whether nodes that have traffic for each other make a link of their own.
    pub direct_links: bool,
    /// Whether nodes tell where they listen by their own interfaces, and dial others there.
    pub host_addresses: bool,
    /// Whether the node offers itself as a neighbour to all nodes, and finds those to which a link is worth having.
    pub find_links: bool,
    /// Whether links have several paths, and packets take two.
    pub uplinks: Uplinks,
    /// Whether bulk data of the reliable lane takes all of them.
    pub spread_bulk: bool,
    /// What the metrics of its links are made of.
    pub metric: MetricOf,
    /// Tmax of the expected-latency metric: what a lost packet costs. [Amir06 §IV-B]: 100 ms.
    pub codec_threshold: Duration,
    /// Δ of the expected-latency metric: time until a loss is noticed. [Amir06 §IV-B]: 2 ms.
    pub detection: Duration,
    /// What the loss of every packet adds to the expected latency beside the time of repair.
    pub loss_burden: Duration,
}

impl Settings {
    /// The default numbers.
    pub fn modern() -> Settings {
        Settings {
            name: "modern",
            hello: hello::Settings::modern(),
            realtime: realtime::Settings::default(),
            brake: Some(brake::Settings::default()),
            reliable: reliable::Settings::default(),
            announce: announce::Settings::modern(),
            // Choice: its answer crosses a continent and back in half of that, and a neighbour of it that is
            // tried meanwhile needs longer to notice.
            node_doubt_after: Duration::from_millis(300),
            streams: stream::Settings::default(),
            sealing: Sealing::On,
            // Choice: off. Before the first packet to a new node it costs a round trip, which is heard where a path is
            // long; who fears that traffic is recorded for years says so.
            post_quantum: PostQuantum::Off,
            audit: true,
            // Choice: a network of that size shakes hands once in ten minutes with each of them, 0.4 times a
            // second, about 6 kbit/s. In a larger network, packets to the others wait for their handshake.
            prepared_ends: 256,
            // Choice: networks that were configured by hand have the links that they name. `sinew up` and `sinew join`
            // switch this on.
            direct_links: false,
            // Choice: two nodes behind one router mostly reach each other in no other way.
            host_addresses: true,
            // Choice: as for direct links.
            find_links: false,
            alarms: true,
            // Choice: copies cost as much as what they copy, and only an outage needs them.
            uplinks: Uplinks::One,
            // Choice: who has two uplinks wants their rates; who pays for one by the byte says no.
            spread_bulk: true,
            metric: MetricOf::Measured,
            // Choice: the deadline of calls through the gateway.
            codec_threshold: Duration::from_millis(150),
            // Choice: the time between two packets of one call, what a lane sees at the least.
            detection: Duration::from_millis(20),
            // Choice: 1 % of loss weighs as much as 10 ms. In 2000 messy worlds calls took lossy detours that
            // were shorter by some ms, and streams starved on them.
            loss_burden: Duration::from_secs(1),
        }
    }

    /// What the expected latency of links depends on.
    pub(crate) fn parameters(&self) -> Parameters {
        Parameters {
            detect_us: self.detection.as_micros() as u32,
            late_us: self.codec_threshold.as_micros() as u32,
            loss_us: self.loss_burden.as_micros() as u32,
        }
    }

    /// The papers' numbers. [Amir06 §III-A, §IV-A]
    pub fn paper() -> Settings {
        Settings {
            name: "paper",
            hello: hello::Settings::paper(),
            realtime: realtime::Settings::paper(),
            brake: None,
            reliable: reliable::Settings::paper(),
            announce: announce::Settings::paper(),
            // The papers' systems do not seal, and their packets are as much shorter.
            sealing: Sealing::Off,
            post_quantum: PostQuantum::Off,
            audit: false,
            prepared_ends: 0,
            // Losses are averaged, and told every 30 s.
            alarms: false,
            uplinks: Uplinks::Off,
            spread_bulk: false,
            metric: MetricOf::Paper,
            codec_threshold: Duration::from_millis(100),
            detection: Duration::from_millis(2),
            loss_burden: Duration::ZERO,
            ..Settings::modern()
        }
    }
}
