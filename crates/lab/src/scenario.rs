//! Scenarios: a network, its traffic and its mishaps as a TOML file, to be simulated or run.
//!
//! ```text
//!   file.toml ──load──▶ Scenario ──simulate(seed)──▶ Report ──▶ table, JSON
//!                          │             └──▶ a trace of every packet, if wanted
//!                          └──▶ the same with real nodes and emulated links
//! ```
//!
//! A [`Scenario`] is valid: names are resolved to places, models are checked, everything is
//! bounded. `docs/scenario.md` has the schema, `examples/` some files.
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

/// Nodes of a scenario: what the simulator is measured at.
pub const NODES_MAX: usize = 1_000;
/// Links: four per node.
pub const LINKS_MAX: usize = 4_000;
/// Flows, each of `count` counted: as many as one node has sockets.
pub const FLOWS_MAX: usize = overlay::sockets::MAX_SOCKETS;
/// Faults, repeated ones counted as often: one per second for most of three hours.
pub const FAULTS_MAX: usize = 10_000;
/// A day.
pub const DURATION_MAX: Duration = Duration::from_secs(86_400);
/// Packets that all flows send together: 100 calls for an hour are 18 million. Each costs 4 bytes
/// of memory for its delay and a bit for its fate, 83 MB in all.
pub const PACKETS_MAX: u64 = 20_000_000;
/// Nodes and ends of links times seconds, which is what hellos cost: 1000 nodes with 4000 links
/// for an hour and more.
pub const NODE_SECONDS_MAX: u64 = 36_000_000;
/// A scenario file: 1000 nodes, 4000 links and 4096 flows of 200 bytes each.
pub const FILE_BYTES_MAX: usize = 2 << 20;
/// Bytes of payload for a packet's number, flow and time.
pub const PACKET_BYTES_MIN: usize = 16;

/// A network, its traffic and its mishaps.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// What it is called.
    pub name: String,
    /// What a reader should know of it.
    pub about: String,
    /// The seed if no other is asked for.
    pub seed: u64,
    /// How long it lasts, from when the network has settled.
    pub duration: Duration,
    /// How long nodes run before the scenario's time begins.
    pub settle: Duration,
    /// The nodes' timers and thresholds.
    pub profile: Profile,
    /// Numbers that differ from the profile's, by key. [`Settings::set`] takes each.
    pub settings: Vec<(String, String)>,
    /// What the nodes' reliable links do, where that differs from the profile's.
    pub reliable: ReliableLinks,
    /// Whether nodes seal and sign what they say, as they do in earnest.
    pub sealing: bool,
    /// The nodes.
    pub nodes: Vec<Node>,
    /// The links between them.
    pub links: Vec<Link>,
    /// The traffic.
    pub flows: Vec<Flow>,
    /// What happens, in order of time.
    pub faults: Vec<Fault>,
    /// What is reported.
    pub measure: Measure,
    /// The files that the text names, as they were read.
    pub files: Texts,
}

/// What reliable links do, where that differs from the profile's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReliableLinks {
    /// Their congestion control.
    pub congestion: Option<Family>,
    /// As how many flows one behaves at most.
    pub flows: Option<usize>,
    /// Whether a loss that is no congestion leaves the window as it is.
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
    /// How fast its clock is.
    pub clock_drift_ppm: i32,
}

/// A link between two nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// The node that dials, by its place.
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
    /// From the first end to the second.
    pub there: Model,
    /// From the second end to the first.
    pub back: Model,
}

/// One or more streams of packets from one node to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// Its name.
    pub name: String,
    /// The sending node, by its place.
    pub from: usize,
    /// The receiving node.
    pub to: usize,
    /// Further receiving nodes: then they and `to` are the members of a group, to which it is sent.
    pub also: Vec<usize>,
    /// How many ways its packets take to each member of the group, if the source's node is to say that.
    pub ways: Option<Ways>,
    /// Its packets are messages of a reliable stream.
    pub is_stream: bool,
    /// They are given up after the deadline.
    pub expires: bool,
    /// What carries it.
    pub carrier: Carrier,
    /// Its sender writes as much as is taken; then the pattern says nothing.
    pub is_bulk: bool,
    /// Each message is sent back, and its delay is the time until it has come back.
    pub is_answered: bool,
    /// When packets are sent.
    pub pattern: Pattern,
    /// Bytes of payload in each.
    pub packet: usize,
    /// How many streams like this there are, their phases spread evenly over an interval.
    pub count: usize,
    /// When it begins.
    pub start: Duration,
    /// When it ends.
    pub stop: Duration,
    /// When a packet is too late.
    pub deadline: Option<Duration>,
}

impl Flow {
    /// How the packets of a reliable stream are carried: their deadline gives them up only if they expire.
    pub(crate) fn stream_options(&self, options: Options) -> Options {
        Options {
            deadline: self.deadline.filter(|_| self.expires),
            ..options
        }
    }

    /// From when until when its packets are judged, if those before `from` are not.
    pub(crate) fn judged(&self, from: Duration) -> (Duration, Duration) {
        (self.start.max(from), self.stop)
    }

    /// The receiving nodes: one, or the members of its group.
    pub(crate) fn receivers(&self) -> impl Iterator<Item = usize> + '_ {
        [self.to].into_iter().chain(self.also.iter().copied())
    }
}

/// What carries a flow.
#[derive(Clone, Debug, PartialEq)]
pub enum Carrier {
    /// The overlay, in this class.
    Overlay(Options),
    /// UDP over a path of its own, beside the overlay.
    Direct(Box<BothWays>),
    /// The simulator's TCP, beside the overlay.
    Tcp(Family, Way),
}

/// Where TCP goes.
#[derive(Clone, Debug, PartialEq)]
pub enum Way {
    /// Over a path of its own.
    Own(Box<BothWays>),
    /// Over the path of a link, by its place: through the same rate, queue and losses.
    Link(usize),
}

/// Something that happens at a moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// When.
    pub at: Duration,
    /// What.
    pub kind: FaultKind,
}

/// What happens.
#[derive(Clone, Debug, PartialEq)]
pub enum FaultKind {
    /// A path goes down, in both directions.
    Down(Place),
    /// A path is up again.
    Up(Place),
    /// A path becomes another.
    Set(Place, Box<BothWays>),
    /// A link, by its place, goes on as a measured one did.
    Follow(usize, Box<BothWays>),
    /// A node ends without a word, and forgets everything.
    Crash(usize),
    /// A node starts, anew if it runs.
    Restart(usize),
    /// A node's machine is busy with something else for so long: nothing there is scheduled.
    Stall(usize, Duration),
    /// Sets of nodes are cut from each other, and from all others.
    Partition(Vec<Vec<usize>>),
    /// All partitions end.
    Heal,
}

/// A path that something happens to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A link, by its place.
    Link(usize),
    /// The second path of a link, by its place.
    Second(usize),
    /// The path of a direct flow, by its place.
    Flow(usize),
}

/// What is reported.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    /// Packets sent before this moment are not judged.
    pub from: Duration,
    /// A row of missed packets this long is a gap.
    pub gap: Duration,
    /// The columns of the table.
    pub columns: Vec<Column>,
}

/// A column of the report's table. The JSON always has all numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// Packets sent.
    Sent,
    /// Share that never came.
    Lost,
    /// Share that came after the deadline.
    Late,
    /// One-way delay: mean and percentiles.
    Delay,
    /// Interarrival jitter.
    Jitter,
    /// Packets that came again.
    Duplicates,
    /// Packets that came behind later ones.
    Reordered,
    /// Rows of missed packets.
    Gaps,
    /// Payload that came, per second.
    Rate,
}

impl Column {
    /// All of them, with the words for them.
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
    /// The nodes' timers and thresholds: the profile's, but for what the file sets.
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
    /// [`ScenarioError`] with file, line, key and what was expected.
    pub fn load(path: &Path) -> Result<Scenario, ScenarioError> {
        let text = std::fs::read_to_string(path).map_err(|error| ScenarioError::Read {
            path: path.to_owned(),
            error,
        })?;
        Ok(Scenario::parse(&path.display().to_string(), &text)?)
    }

    /// Reads and checks a text; `file` is what errors call it.
    ///
    /// # Errors
    /// [`Mistake`] for the first thing that is wrong.
    pub fn parse(file: &str, text: &str) -> Result<Scenario, Mistake> {
        let folder = Path::new(file).parent().unwrap_or(Path::new(""));
        Scenario::parse_with(file, text, &Files::Beside(folder.to_owned()))
    }

    /// The same, with the files that it names.
    ///
    /// # Errors
    /// [`Mistake`] for the first thing that is wrong.
    pub fn parse_with(file: &str, text: &str, files: &Files) -> Result<Scenario, Mistake> {
        parse::scenario(table::Text { file, text }, files)
    }

    /// The same, but over after `duration` if that is earlier.
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
