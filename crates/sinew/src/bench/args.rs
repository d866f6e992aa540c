//! The options of each benchmark, with the defaults that `lab` has for them.

use clap::{Args, ValueEnum};
use lab::bench::{
    bulk, calls, emulate, engine, fairness, forward, hops, idle, latency, routing, scale, sim,
    stream,
};
use std::net::SocketAddr;
use std::path::PathBuf;

/// How results and progress are told.
#[derive(Debug, Args)]
pub struct Telling {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Print every step, even if the output is not a terminal
    #[arg(long)]
    pub verbose: bool,
}

/// Options of `sinew bench forward`.
#[derive(Debug, Args)]
pub struct Forward {
    /// Bytes of payload; a list such as 160,1200 gives one table each
    #[arg(long, value_delimiter = ',', default_value = "160,1200")]
    pub payload: Vec<usize>,
    /// Packets per burst that the neighbours send
    #[arg(long, value_delimiter = ',', default_value = "1,8,16,32")]
    pub burst: Vec<usize>,
    /// Flows that the packets belong to
    #[arg(long, default_value_t = forward::Options::default().flows)]
    pub flows: u32,
    /// Length of a trial
    #[arg(long, default_value_t = forward::Options::default().seconds)]
    pub seconds: f64,
    /// Trials per number; the result is their median
    #[arg(long, default_value_t = forward::Options::default().repeats)]
    pub repeats: usize,
    /// Packets per second for the comparison with single packets
    #[arg(long, default_value_t = forward::Options::default().single_pps)]
    pub single_pps: u64,
    /// Packets per second for the comparison with bursts
    #[arg(long, default_value_t = forward::Options::default().burst_pps)]
    pub burst_pps: u64,
    /// Network namespaces and veth instead of loopback; needs root
    #[arg(long)]
    pub netns: bool,
    /// Also measure the node with a coded lane behind it: 30 repair packets follow 100 packets
    #[arg(long)]
    pub protect: bool,
    /// Also measure the node between ends that seal by hops only: what the seal from end to end costs it
    #[arg(long)]
    pub ends: bool,
    /// How it is told
    #[command(flatten)]
    pub telling: Telling,
}

/// Options of `sinew bench latency`.
#[derive(Debug, Args)]
pub struct Latency {
    /// Streams of 50 packets/s at once; a list such as 1,200 is measured one by one
    #[arg(long, value_delimiter = ',', default_value = "1,10,50,200")]
    pub streams: Vec<u32>,
    /// Bytes of payload
    #[arg(long, default_value_t = latency::Options::default().payload)]
    pub payload: usize,
    /// Length of a trial
    #[arg(long, default_value_t = latency::Options::default().seconds)]
    pub seconds: f64,
    /// Trials per number; the result is their median
    #[arg(long, default_value_t = latency::Options::default().repeats)]
    pub repeats: usize,
    /// Number of busy loops of normal priority that load the processors meanwhile
    #[arg(long, value_name = "LOOPS", default_value_t = 0)]
    pub busy: usize,
    /// Processors on which clients, nodes and forwarders run
    #[arg(long, value_enum, default_value_t = Pinning::Spread)]
    pub pinning: Pinning,
    /// Network namespaces and veth instead of loopback; needs root
    #[arg(long)]
    pub netns: bool,
    /// How it is told
    #[command(flatten)]
    pub telling: Telling,
}

/// Where the links of a chain run.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Pinning {
    /// Neighbours on different processors
    Spread,
    /// All on one processor
    One,
    /// Decided by the kernel
    Free,
}

impl From<Pinning> for latency::Pinning {
    fn from(pinning: Pinning) -> latency::Pinning {
        match pinning {
            Pinning::Spread => latency::Pinning::Spread,
            Pinning::One => latency::Pinning::One,
            Pinning::Free => latency::Pinning::Free,
        }
    }
}

/// Options of `sinew bench calls`.
#[derive(Debug, Args)]
pub struct Calls {
    /// G.711 calls at once, each in both directions
    #[arg(long, default_value_t = calls::Options::default().calls)]
    pub calls: u32,
    /// Length of a trial
    #[arg(long, default_value_t = calls::Options::default().seconds)]
    pub seconds: f64,
    /// Trials per path; the result is their median
    #[arg(long, default_value_t = calls::Options::default().repeats)]
    pub repeats: usize,
    /// How it is told
    #[command(flatten)]
    pub telling: Telling,
}

/// Options of `sinew bench emulate`.
#[derive(Debug, Args)]
pub struct Emulate {
    /// Streams of 50 packets/s at once; a list such as 10,200 is measured one by one
    #[arg(long, value_delimiter = ',', default_value = "10,200")]
    pub streams: Vec<u32>,
    /// Length of a trial
    #[arg(long, default_value_t = emulate::Options::default().seconds)]
    pub seconds: f64,
    /// Trials per number; the result is their median
    #[arg(long, default_value_t = emulate::Options::default().repeats)]
    pub repeats: usize,
    /// Length of each TCP connection; 0 for none
    #[arg(long, default_value_t = emulate::Options::default().tcp_seconds)]
    pub tcp_seconds: f64,
    /// How it is told
    #[command(flatten)]
    pub telling: Telling,
}

/// Options of `sinew bench stream`.
#[derive(Debug, Args)]
pub struct Stream {
    /// Length of a trial
    #[arg(long, default_value_t = stream::Options::default().seconds)]
    pub seconds: f64,
    /// Trials per number; the result is their median
    #[arg(long, default_value_t = stream::Options::default().repeats)]
    pub repeats: usize,
    /// Bytes of a forwarders' datagram on the wire
    #[arg(long, default_value_t = stream::Options::default().datagram)]
    pub datagram: usize,
    /// Network namespaces and veth instead of loopback; needs root
    #[arg(long)]
    pub netns: bool,
    /// How it is told
    #[command(flatten)]
    pub telling: Telling,
}

/// Options of `sinew bench fairness`.
#[derive(Debug, Args)]
pub struct Fairness {
    /// Length of a run, after a warm-up of 4 s
    #[arg(long, default_value_t = fairness::Options::default().seconds)]
    pub seconds: f64,
    /// Runs per pairing
    #[arg(long, default_value_t = fairness::Options::default().repeats)]
    pub repeats: usize,
    /// Number of streams, and of TCP connections beside them
    #[arg(long, value_delimiter = ',', default_values_t = fairness::Options::default().counts)]
    pub counts: Vec<usize>,
    /// Also compare NewReno with the kernel's CUBIC, and CUBIC with its Reno and BBR
    #[arg(long)]
    pub crossed: bool,
    /// Only compare links with this congestion control with the kernel's Reno, CUBIC and BBR (if it has
    /// them)
    #[arg(long, value_name = "CONTROL")]
    pub link: Option<overlay::reliable::Family>,
    /// Send messages that expire after this many milliseconds, instead of bytes
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=60_000), conflicts_with = "kernel")]
    pub expiring: Option<u64>,
    /// Compare the kernel's own connections with each other, instead of streams with them
    #[arg(long)]
    pub kernel: bool,
    /// How it is told
    #[command(flatten)]
    pub telling: Telling,
}

impl Fairness {
    /// Returns what is compared with the kernel's TCP.
    pub fn compared(&self) -> fairness::Compared {
        match (self.expiring, self.kernel) {
            (Some(ms), _) => fairness::Compared::Messages(std::time::Duration::from_millis(ms)),
            (None, true) => fairness::Compared::Kernel,
            (None, false) => fairness::Compared::Bytes,
        }
    }
}

/// Options of `sinew bench hops`.
#[derive(Debug, Args)]
pub struct Hops {
    /// Payload of each writer in kbit/s, and loss of the middle link in percent, each way
    #[arg(long, value_name = "KBIT:PERCENT", value_delimiter = ',',
        default_values_t = hops::Options::default().loads)]
    pub load: Vec<hops::Load>,
    /// How long the writers send messages
    #[arg(long, default_value_t = hops::Options::default().seconds)]
    pub seconds: f64,
    /// Seed of the losses
    #[arg(long, default_value_t = hops::Options::default().seed)]
    pub seed: u64,
    /// How it is told
    #[command(flatten)]
    pub telling: Telling,
}

/// Options of `sinew bench bulk`.
#[derive(Debug, Args)]
pub struct Bulk {
    /// Length of a bare trial
    #[arg(long, default_value_t = bulk::Options::default().seconds)]
    pub seconds: f64,
    /// Size of the copy in a trial
    #[arg(long, default_value_t = bulk::Options::default().megabytes)]
    pub megabytes: u64,
    /// Trials of each contender
    #[arg(long, default_value_t = bulk::Options::default().repeats)]
    pub repeats: usize,
    /// How it is told
    #[command(flatten)]
    pub telling: Telling,
}

/// Options of `sinew bench idle`.
#[derive(Debug, Args)]
pub struct Idle {
    /// Length of the idle and of the active part
    #[arg(long, default_value_t = idle::Options::default().seconds)]
    pub seconds: f64,
    /// Links of the node
    #[arg(long, default_value_t = idle::Options::default().links)]
    pub links: usize,
    /// Clients that are bound at the end
    #[arg(long, default_value_t = idle::Options::default().clients)]
    pub clients: usize,
    /// How it is told
    #[command(flatten)]
    pub telling: Telling,
}

/// Options of `sinew bench engine`.
#[derive(Debug, Args)]
pub struct Engine {
    /// Bytes of payload; a list such as 160,1200 gives rows for each
    #[arg(long, value_delimiter = ',', default_value = "160,1200")]
    pub payload: Vec<usize>,
    /// Packets per burst
    #[arg(long, value_delimiter = ',', default_value = "1,8,16,32")]
    pub burst: Vec<usize>,
    /// Flows that the packets belong to
    #[arg(long, default_value_t = engine::Options::default().flows)]
    pub flows: u32,
    /// Packets per measurement
    #[arg(long, default_value_t = engine::Options::default().packets)]
    pub packets: u64,
    /// Packets per second of virtual time
    #[arg(long, default_value_t = engine::Options::default().rate_pps)]
    pub rate_pps: u64,
    /// Send to a group, of which the measured engine is a member too: it passes packets on, and opens them
    #[arg(long)]
    pub group: bool,
    /// Also measure with a coded lane: 30 repair packets follow 100 packets
    #[arg(long)]
    pub protect: bool,
    /// Also measure what the seal from end to end costs at each engine: a chain without it takes turns with one that has it
    #[arg(long)]
    pub ends: bool,
    /// How it is told
    #[command(flatten)]
    pub telling: Telling,
}

/// Options of `sinew bench routing`.
#[derive(Debug, Args)]
pub struct Routing {
    /// Nodes of the network
    #[arg(long, default_value_t = routing::Options::default().nodes)]
    pub nodes: usize,
    /// Links per node; the network has this many times its number of nodes
    #[arg(long, default_value_t = routing::Options::default().links_per_node)]
    pub links_per_node: usize,
    /// Number of changes, each of one link
    #[arg(long, default_value_t = routing::Options::default().changes)]
    pub changes: usize,
    /// Seed of the network and the changes
    #[arg(long, default_value_t = routing::Options::default().seed)]
    pub seed: u64,
    /// A Python with networkx, to compare with
    #[arg(long)]
    pub python: Option<PathBuf>,
    /// How it is told
    #[command(flatten)]
    pub telling: Telling,
}

/// Options of `sinew bench scale`.
#[derive(Debug, Args)]
pub struct Scale {
    /// Nodes
    #[arg(long, default_value_t = scale::Options::default().nodes)]
    pub nodes: usize,
    /// Links that each node adds
    #[arg(long, default_value_t = scale::Options::default().links_per_node)]
    pub links_per_node: usize,
    /// Seed of the network
    #[arg(long, default_value_t = scale::Options::default().seed)]
    pub seed: u64,
    /// Measure 1000 nodes with 4000 links; takes minutes
    #[arg(long, conflicts_with = "nodes")]
    pub full: bool,
    /// How it is told
    #[command(flatten)]
    pub telling: Telling,
}

/// Options of `sinew bench sim`.
#[derive(Debug, Args)]
pub struct Sim {
    /// Bytes of payload
    #[arg(long, default_value_t = sim::Options::default().payload)]
    pub payload: usize,
    /// Packets that clients send at the same moment; a list gives rows for each
    #[arg(long, value_delimiter = ',', default_value = "1,16,32")]
    pub burst: Vec<usize>,
    /// Packets per measurement
    #[arg(long, default_value_t = sim::Options::default().packets)]
    pub packets: u64,
    /// Measurements per number; the result is their median
    #[arg(long, default_value_t = sim::Options::default().repeats)]
    pub repeats: usize,
    /// A Python with the package ns3, or a compiled crates/lab/peers/ns3_chain.cc
    #[arg(long, value_name = "PROGRAM")]
    pub ns3: Option<PathBuf>,
    /// How it is told
    #[command(flatten)]
    pub telling: Telling,
}

/// Options of `sinew bench relay`.
#[derive(Debug, Args)]
pub struct Relay {
    /// Address to receive at; port 0 takes a free one, and the address is printed
    #[arg(long)]
    pub listen: SocketAddr,
    /// Address to forward to
    #[arg(long)]
    pub to: SocketAddr,
    /// The only processor to run on
    #[arg(long)]
    pub cpu: Option<usize>,
}
