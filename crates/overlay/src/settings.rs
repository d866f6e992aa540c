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

/// The measurements from which the metrics of a link are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricOf {
    /// Half of the average round trip, and the losses that remain after a single request if losses are independent.
    /// [Amir06 §III-A, §IV-B]
    Paper,
    /// Half of the shortest recent round trip, so that neither a queue nor a busy host makes a path dearer for a
    /// minute; and the losses in both directions that remain under the protection in force.
    Measured,
}

/// Whether packets from one node to another are sealed from end to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sealing {
    /// Packets are never sealed, and other nodes learn that this node does not open sealed packets.
    Off,
    /// Packets are sealed towards all nodes that seal.
    On,
    /// The same as `On`, and clients may not send where sealing is impossible.
    Always,
}

/// How many paths a link may have, and which packets take two of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uplinks {
    /// One path: the node neither opens nor accepts further ones.
    Off,
    /// The link has as many paths as there are. Packets take one of them, and also a second one while the first is in
    /// doubt.
    One,
    /// Real-time packets with at least the priority of calls always take two paths.
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
    /// How the real-time lane gives way to congestion; `None` if it never does.
    pub brake: Option<brake::Settings>,
    /// Reliable links.
    pub reliable: reliable::Settings,
    /// When a link's cost is announced again.
    pub announce: announce::Settings,
    /// How long a node that a neighbour does not hear may stay silent until it counts as silent.
    pub node_doubt_after: Duration,
    /// Streams.
    pub streams: stream::Settings,
    /// Whether packets to other nodes are sealed from end to end.
    pub sealing: Sealing,
    /// Whether keys of neighbours and of ends also come from ML-KEM.
    pub post_quantum: PostQuantum,
    /// Whether nodes that seal check that their packets arrive, and avoid paths that drop them.
    pub audit: bool,
    /// The number of nodes with which there is a session from end to end before anything is sent.
    pub prepared_ends: u32,
    /// Whether the node reports at once over which links packets to it are being lost.
    pub alarms: bool,
    /// Whether nodes that have traffic for each other make a direct link.
    pub direct_links: bool,
    /// Whether nodes announce the addresses at which they listen on their own interfaces, and dial others there.
    pub host_addresses: bool,
    /// Whether the node offers itself as a neighbour to all nodes, and finds nodes to which a link is worthwhile.
    pub find_links: bool,
    /// Whether links have several paths, and packets take two.
    pub uplinks: Uplinks,
    /// Whether bulk data of the reliable lane takes all paths of a link.
    pub spread_bulk: bool,
    /// The measurements from which the metrics of its links are computed.
    pub metric: MetricOf,
    /// Tmax of the expected-latency metric: what a lost packet costs. [Amir06 §IV-B]: 100 ms.
    pub codec_threshold: Duration,
    /// Δ of the expected-latency metric: time until a loss is noticed. [Amir06 §IV-B]: 2 ms.
    pub detection: Duration,
    /// The latency that the loss of every packet adds to the expected latency, in addition to the time of repair.
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
            // Choice: the node's answer crosses a continent and back in half of that time, and a neighbour of the node
            // that is tried meanwhile needs longer to notice.
            node_doubt_after: Duration::from_millis(300),
            streams: stream::Settings::default(),
            sealing: Sealing::On,
            // Choice: off. A post-quantum handshake costs a round trip before the first packet to a new node, which is
            // audible on a long path. A user who fears that traffic is recorded for years switches it on.
            post_quantum: PostQuantum::Off,
            audit: true,
            // Choice: in a network of that size, a node performs a handshake with each other node once in ten minutes.
            // That is 0.4 handshakes a second, about 6 kbit/s. In a larger network, packets to the other nodes wait for
            // their handshake.
            prepared_ends: 256,
            // Choice: off. Networks that were configured by hand have the links that their configuration names. `sinew
            // up` and `sinew join` switch this on.
            direct_links: false,
            // Choice: two nodes behind one router mostly can reach each other in no other way.
            host_addresses: true,
            // Choice: as for direct links.
            find_links: false,
            alarms: true,
            // Choice: copies cost as much as what they copy, and only an outage needs them.
            uplinks: Uplinks::One,
            // Choice: a user with two uplinks wants the rates of both; a user who pays for one by the byte switches
            // this off.
            spread_bulk: true,
            metric: MetricOf::Measured,
            // Choice: the deadline of calls through the gateway.
            codec_threshold: Duration::from_millis(150),
            // Choice: the time between two packets of one call, which is the soonest at which a lane notices a loss.
            detection: Duration::from_millis(20),
            // Choice: 1 % of loss weighs as much as 10 ms. In 2000 simulated worlds with many faults, calls took lossy
            // detours that were some ms shorter, and streams starved on these detours.
            loss_burden: Duration::from_secs(1),
        }
    }

    /// Returns the parameters of the links' expected latency.
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
            // The papers' systems do not seal, and their packets are shorter by that much.
            sealing: Sealing::Off,
            post_quantum: PostQuantum::Off,
            audit: false,
            prepared_ends: 0,
            // Losses are averaged, and announced every 30 s.
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
