//! Scenarios: a network, its traffic and its faults as a TOML file, to be simulated or run.
//!
//! ```text
//!   file.toml ──load──▶ Scenario ──simulate(seed)──▶ Report ──▶ table, JSON
//!                          │             └──▶ a trace of every packet, if wanted
//!                          └──▶ the same with real nodes and emulated links
//! ```
//!
//! A [`Scenario`] is valid: names are resolved to places, models are checked, all sizes are limited. `docs/scenario.md`
//! has the schema, `examples/` some files.
//!
//! Time in a scenario begins when the network has settled: nodes start [`Scenario::settle`] before
//! its zero, so that links are up and routes known when the first packet is sent.

mod custom;
mod error;
mod files;
mod known;
mod measured;
pub(crate) mod meter;
pub(crate) mod overridden;
mod parse;
mod record;
mod recording;
mod report;
mod run;
mod simulate;
pub(crate) mod stamp;
pub(crate) mod table;
mod trace;

#[cfg(test)]
mod tests;

pub use custom::{BadCustom, Custom, FlowSoFar, Look, LossRule, Moment, PacketSource, Sending};
pub use error::{Mistake, ScenarioError};
pub use files::{Files, Texts};
pub use known::snapshot_of;
pub use meter::Judgement;
pub(crate) use record::blank;
pub use record::{EventRecord, LinkRecord, PacketRecord, Record, record};
pub use recording::{OwnLink, Recording};
pub use report::{FlowReport, OverlayReport, Report};
pub use run::{RunError, RunOptions, run};
pub(crate) use simulate::{Call, NODE_DATAGRAMS, SOCKET_DATAGRAMS};
pub use simulate::{Simulation, simulate};
pub use trace::TraceFile;

use base::impair::Model;
use base::{Duration, NodeAddr};
use congestion::Family;
use overlay::Settings;
use overlay::request::Options;
use sim::traffic::Pattern;
use std::path::Path;
use wire::groups::Ways;

/// Most nodes of a scenario: the size for which the simulator is measured.
pub const NODES_MAX: usize = 1_000;
/// Most links: four per node.
pub const LINKS_MAX: usize = 4_000;
/// Most flows, where a flow counts `count` times: the number of sockets of one node.
pub const FLOWS_MAX: usize = overlay::sockets::MAX_SOCKETS;
/// Most faults, where each repetition counts: one per second for most of three hours.
pub const FAULTS_MAX: usize = 10_000;
/// Longest duration: a day.
pub const DURATION_MAX: Duration = Duration::from_secs(86_400);
/// Most packets of all flows together: 100 calls for an hour are 18 million. Each costs 4 bytes of memory for its delay
/// and a bit for its fate, 83 MB in total.
pub const PACKETS_MAX: u64 = 20_000_000;
/// Largest number of nodes and link ends, times seconds, which determines the cost of hellos: 1000 nodes with 4000
/// links for an hour and more.
pub const NODE_SECONDS_MAX: u64 = 36_000_000;
/// Longest scenario file: 1000 nodes, 4000 links and 4096 flows of 200 bytes each.
pub const FILE_BYTES_MAX: usize = 2 << 20;
/// Least payload, for a packet's number, flow and time.
pub const PACKET_BYTES_MIN: usize = 16;

/// A network, its traffic and its faults.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The scenario's name.
    pub name: String,
    /// A description for the reader.
    pub about: String,
    /// The seed, unless a caller gives another one.
    pub seed: u64,
    /// How long it lasts after the network has settled.
    pub duration: Duration,
    /// How long nodes run before the scenario's time begins.
    pub settle: Duration,
    /// The nodes' timers and thresholds.
    pub profile: Profile,
    /// Settings that differ from the profile's, by key. [`Settings::set`] accepts each.
    pub settings: Vec<(String, String)>,
    /// Settings of the nodes' reliable links that differ from the profile's.
    pub reliable: ReliableLinks,
    /// Whether nodes seal and sign their messages, as real nodes do.
    pub sealing: bool,
    /// The nodes.
    pub nodes: Vec<Node>,
    /// The links between them.
    pub links: Vec<Link>,
    /// The traffic.
    pub flows: Vec<Flow>,
    /// The faults, in order of time.
    pub faults: Vec<Fault>,
    /// The contents of the report.
    pub measure: Measure,
    /// The contents of the files that the text names.
    pub files: Texts,
}

/// Settings of reliable links that differ from the profile's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReliableLinks {
    /// Their congestion control.
    pub congestion: Option<Family>,
    /// The largest number of flows that one link behaves like.
    pub flows: Option<usize>,
    /// Whether a loss that is not congestion leaves the window unchanged.
    pub spares_random_losses: Option<bool>,
}

/// Timers and thresholds of all nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// The defaults.
    #[default]
    Modern,
    /// The papers' numbers.
    Paper,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its overlay address.
    pub address: NodeAddr,
    /// How far its clock is ahead at its start.
    pub clock_ahead: Duration,
    /// How many parts in a million its clock is fast.
    pub clock_drift_ppm: i32,
}

/// A link between two nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// The node that dials, by its index.
    pub a: usize,
    /// The other node.
    pub b: usize,
    /// The path in both directions.
    pub path: BothWays,
    /// A second path of the link, by a second uplink of either node.
    pub second: Option<BothWays>,
}

/// A path in both directions.
#[derive(Clone, Debug, PartialEq)]
pub struct BothWays {
    /// The direction from the first end to the second.
    pub there: Model,
    /// The direction from the second end to the first.
    pub back: Model,
}

/// One or more streams of packets from one node to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// Its name.
    pub name: String,
    /// The sending node, by its index.
    pub from: usize,
    /// The receiving node.
    pub to: usize,
    /// Further receiving nodes. If there are any, they and `to` are the members of a group to which the flow sends.
    pub also: Vec<usize>,
    /// The number of paths to each member of the group, if the source's node decides it.
    pub ways: Option<Ways>,
    /// Whether its packets are messages of a reliable stream.
    pub is_stream: bool,
    /// Whether messages are given up after the deadline.
    pub expires: bool,
    /// The carrier of the flow.
    pub carrier: Carrier,
    /// Whether its sender writes as much as the stream accepts; then the pattern has no effect.
    pub is_bulk: bool,
    /// Whether each message is sent back. Its delay then is the time until it has returned.
    pub is_answered: bool,
    /// When packets are sent.
    pub pattern: Pattern,
    /// Bytes of payload in each packet.
    pub packet: usize,
    /// How many such streams there are, with phases spread evenly over an interval.
    pub count: usize,
    /// When it begins.
    pub start: Duration,
    /// When it ends.
    pub stop: Duration,
    /// The time after which a packet is too late.
    pub deadline: Option<Duration>,
}

impl Flow {
    /// Returns the options of a reliable stream: the deadline limits its packets only if they expire.
    pub(crate) fn stream_options(&self, options: Options) -> Options {
        Options {
            deadline: self.deadline.filter(|_| self.expires),
            ..options
        }
    }

    /// Returns the span in which packets are judged, if those before `from` are not.
    pub(crate) fn judged(&self, from: Duration) -> (Duration, Duration) {
        (self.start.max(from), self.stop)
    }

    /// Returns the receiving nodes: one, or the members of its group.
    pub(crate) fn receivers(&self) -> impl Iterator<Item = usize> + '_ {
        [self.to].into_iter().chain(self.also.iter().copied())
    }
}

/// The carrier of a flow.
#[derive(Clone, Debug, PartialEq)]
pub enum Carrier {
    /// The overlay, in this service class.
    Overlay(Options),
    /// UDP over a separate path, outside the overlay.
    Direct(Box<BothWays>),
    /// The simulator's TCP, outside the overlay.
    Tcp(Family, Way),
}

/// The path of a TCP flow.
#[derive(Clone, Debug, PartialEq)]
pub enum Way {
    /// A separate path.
    Own(Box<BothWays>),
    /// The path of a link, by its index: TCP shares its rate, queue and losses.
    Link(usize),
}

/// An event at a moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// When it happens.
    pub at: Duration,
    /// What happens.
    pub kind: FaultKind,
}

/// The kinds of events.
#[derive(Clone, Debug, PartialEq)]
pub enum FaultKind {
    /// A path goes down, in both directions.
    Down(Place),
    /// A path comes up again.
    Up(Place),
    /// A path gets another model.
    Set(Place, Box<BothWays>),
    /// A link, by its index, follows the course of a measured one.
    Follow(usize, Box<BothWays>),
    /// A node ends without a notice, and loses its state.
    Crash(usize),
    /// A node starts, and is restarted if it runs.
    Restart(usize),
    /// A node's machine is busy with other work for this long: nothing there is scheduled.
    Stall(usize, Duration),
    /// Sets of nodes are cut off from each other, and from all other nodes.
    Partition(Vec<Vec<usize>>),
    /// All partitions end.
    Heal,
}

/// The path that an event affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A link, by its index.
    Link(usize),
    /// The second path of a link, by the link's index.
    Second(usize),
    /// The path of a direct flow, by the flow's index.
    Flow(usize),
}

/// The contents of the report.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    /// Packets sent before this moment are not judged.
    pub from: Duration,
    /// The least length of a run of missed packets that counts as a gap.
    pub gap: Duration,
    /// The columns of the table.
    pub columns: Vec<Column>,
}

/// A column of the report's table. The JSON always has all numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// Packets sent.
    Sent,
    /// Share of packets that never arrived.
    Lost,
    /// Share of packets that arrived after the deadline.
    Late,
    /// One-way delay: mean and percentiles.
    Delay,
    /// Interarrival jitter.
    Jitter,
    /// Packets that arrived again.
    Duplicates,
    /// Packets that arrived after later ones.
    Reordered,
    /// Runs of missed packets.
    Gaps,
    /// Payload that arrived, per second.
    Rate,
}

impl Column {
    /// All columns, with their names.
    pub const ALL: [(&'static str, Column); 9] = [
        ("sent", Column::Sent),
        ("lost", Column::Lost),
        ("late", Column::Late),
        ("delay", Column::Delay),
        ("jitter", Column::Jitter),
        ("duplicates", Column::Duplicates),
        ("reordered", Column::Reordered),
        ("gaps", Column::Gaps),
        ("rate", Column::Rate),
    ];
}

impl Scenario {
    /// Returns the nodes' timers and thresholds: the profile's, with the changes of the file.
    #[must_use]
    pub fn node_settings(&self) -> Settings {
        let mut settings = match self.profile {
            Profile::Modern => Settings::modern(),
            Profile::Paper => Settings::paper(),
        };
        let reliable = &mut settings.reliable;
        reliable.family = self.reliable.congestion.unwrap_or(reliable.family);
        reliable.flows_max = self.reliable.flows.unwrap_or(reliable.flows_max);
        let spares = self.reliable.spares_random_losses;
        reliable.spares_random_losses = spares.unwrap_or(reliable.spares_random_losses);
        for (key, value) in &self.settings {
            settings
                .set(key, value)
                .expect("a setting was tried when the file was read");
        }
        settings
    }

    /// Reads and checks a file.
    ///
    /// # Errors
    /// [`ScenarioError`] with file, line, key and the expected value.
    pub fn load(path: &Path) -> Result<Scenario, ScenarioError> {
        let text = std::fs::read_to_string(path).map_err(|error| ScenarioError::Read {
            path: path.to_owned(),
            error,
        })?;
        Ok(Scenario::parse(&path.display().to_string(), &text)?)
    }

    /// Reads and checks a text; errors refer to it as `file`.
    ///
    /// # Errors
    /// [`Mistake`] for the first error.
    pub fn parse(file: &str, text: &str) -> Result<Scenario, Mistake> {
        let folder = Path::new(file).parent().unwrap_or(Path::new(""));
        Scenario::parse_with(file, text, &Files::Beside(folder.to_owned()))
    }

    /// Reads and checks a text, with the files that it names.
    ///
    /// # Errors
    /// [`Mistake`] for the first error.
    pub fn parse_with(file: &str, text: &str, files: &Files) -> Result<Scenario, Mistake> {
        parse::scenario(table::Text { file, text }, files)
    }

    /// Returns the scenario, shortened to `duration` if it is longer.
    #[must_use]
    pub fn shortened(mut self, duration: Duration) -> Scenario {
        self.duration = self.duration.min(duration);
        for flow in &mut self.flows {
            flow.stop = flow.stop.min(self.duration);
        }
        self.faults.retain(|fault| fault.at <= duration);
        if self.measure.from >= self.duration {
            self.measure.from = Duration::ZERO;
        }
        self
    }
}
