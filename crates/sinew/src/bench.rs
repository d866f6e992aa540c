//! `sinew bench`: what the node costs and how fast it is, always beside a baseline in the same run.

use crate::failure::{Failure, Outcome};
use crate::terminal;
use clap::{Args, Subcommand, ValueEnum};
use lab::bench::{
    BenchError, bulk, calls, emulate, engine, fairness, forward, hops, idle, latency, relay,
    routing, scale, sim, stream,
};
use lab::progress::Progress;
use serde::Serialize;
use std::fmt::Display;
use std::net::SocketAddr;
use std::path::PathBuf;

/// What to measure.
#[derive(Debug, Subcommand)]
pub enum Bench {
    /// What the middle node of a chain carries and costs, beside bare forwarders
    #[command(after_help = "\
Examples:
  sinew bench forward
  sinew bench forward --payload 160 --burst 1,16 --repeats 5 --json")]
    Forward(Forward),
    /// One-way delay from client to client over three nodes, beside bare forwarders and the kernel
    #[command(after_help = "\
Examples:
  sinew bench latency
  sinew bench latency --streams 10 --busy 10 --json")]
    Latency(Latency),
    /// Many calls at once through a pair of gateways, beside bare forwarders and the kernel
    #[command(after_help = "\
Examples:
  sinew bench calls
  sinew bench calls --calls 100 --seconds 30 --json")]
    Calls(Calls),
    /// What a relay of bulk data carries and costs, beside bare proxies
    #[command(after_help = "Example:\n  sinew bench bulk --megabytes 10000 --json")]
    Bulk(Bulk),
    /// How exact an emulated link is and what it carries, beside a cable; needs root
    #[command(after_help = "\
Examples:
  sinew bench emulate
  sinew bench emulate --streams 1,100 --tcp-seconds 60 --json")]
    Emulate(Emulate),
    /// What one reliable stream carries over three nodes, beside bare forwarders and TCP
    #[command(after_help = "\
Examples:
  sinew bench stream
  sinew bench stream --seconds 10 --repeats 5 --json")]
    Stream(Stream),
    /// Reliable links beside the kernel's TCP through one bottleneck; needs root
    #[command(after_help = "\
Examples:
  sinew bench fairness
  sinew bench fairness --seconds 60 --repeats 5 --crossed --json")]
    Fairness(Fairness),
    /// Messages over a chain of which one link loses, recovered by hops and end to end; needs root
    #[command(after_help = "\
Examples:
  sinew bench hops
  sinew bench hops --load 500:1,1000:2,1000:5 --seconds 300 --json")]
    Hops(Hops),
    /// Memory, processor time and control traffic of a node that has little to do
    #[command(after_help = "Example:\n  sinew bench idle --seconds 60 --json")]
    Idle(Idle),
    /// What the node's own code costs per packet, without sockets and kernel
    #[command(after_help = "Example:\n  sinew bench engine --payload 160 --burst 16")]
    Engine(Engine),
    /// How long routes take to compute, from scratch and after one link has changed
    #[command(after_help = "\
Examples:
  sinew bench routing
  sinew bench routing --nodes 200 --changes 300 --python venv/bin/python --json")]
    Routing(Routing),
    /// How a large network finds itself after each trouble, and what that costs it
    #[command(after_help = "\
Examples:
  sinew bench scale
  sinew bench scale --full --json")]
    Scale(Scale),
    /// How fast the simulator is, beside a bare event loop and ns-3 if that is here
    #[command(after_help = "\
Examples:
  sinew bench sim
  sinew bench sim --ns3 ~/venv/bin/python --json")]
    Sim(Sim),
    /// A bare forwarder, one of those beside which nodes are measured; it ends with its input
    #[command(
        hide = true,
        after_help = "Example:\n  sinew bench relay --listen 127.0.0.1:0 --to 127.0.0.1:9000"
    )]
    Relay(Relay),
}

/// How results and progress are told.
#[derive(Debug, Args)]
pub struct Telling {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Tell every step, also into a pipe
    #[arg(long)]
    pub verbose: bool,
}

/// Options of `sinew bench forward`.
#[derive(Debug, Args)]
pub struct Forward {
    /// Bytes of payload; several, like 160,1200, give a table each
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
    /// Trials per number; the median counts
    #[arg(long, default_value_t = forward::Options::default().repeats)]
    pub repeats: usize,
    /// Packets per second at which all are compared one by one
    #[arg(long, default_value_t = forward::Options::default().single_pps)]
    pub single_pps: u64,
    /// Packets per second at which all are compared in bursts
    #[arg(long, default_value_t = forward::Options::default().burst_pps)]
    pub burst_pps: u64,
    /// Network namespaces and veth instead of loopback; needs root
    #[arg(long)]
    pub netns: bool,
    /// How it is told
    #[command(flatten)]
    pub telling: Telling,
}

/// Options of `sinew bench latency`.
#[derive(Debug, Args)]
pub struct Latency {
    /// Streams of 50 packets/s at once; several, like 1,200, are measured one after the other
    #[arg(long, value_delimiter = ',', default_value = "1,10,50,200")]
    pub streams: Vec<u32>,
    /// Bytes of payload
    #[arg(long, default_value_t = latency::Options::default().payload)]
    pub payload: usize,
    /// Length of a trial
    #[arg(long, default_value_t = latency::Options::default().seconds)]
    pub seconds: f64,
    /// Trials per number; the median counts
    #[arg(long, default_value_t = latency::Options::default().repeats)]
    pub repeats: usize,
    /// Loops of normal priority that keep the processors busy meanwhile
    #[arg(long, value_name = "LOOPS", default_value_t = 0)]
    pub busy: usize,
    /// On which processors clients, nodes and forwarders run
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
    /// All on one
    One,
    /// As the kernel likes
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
    /// Trials per way; the median counts
    #[arg(long, default_value_t = calls::Options::default().repeats)]
    pub repeats: usize,
    /// How it is told
    #[command(flatten)]
    pub telling: Telling,
}

/// Options of `sinew bench emulate`.
#[derive(Debug, Args)]
pub struct Emulate {
    /// Streams of 50 packets/s at once; several, like 10,200, are measured one after the other
    #[arg(long, value_delimiter = ',', default_value = "10,200")]
    pub streams: Vec<u32>,
    /// Length of a trial
    #[arg(long, default_value_t = emulate::Options::default().seconds)]
    pub seconds: f64,
    /// Trials per number; the median counts
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
    /// Trials per number; the median counts
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
    /// Streams, and as many connections beside them
    #[arg(long, value_delimiter = ',', default_values_t = fairness::Options::default().counts)]
    pub counts: Vec<usize>,
    /// Also NewReno beside the kernel's CUBIC, and CUBIC beside Reno
    #[arg(long)]
    pub crossed: bool,
    /// How it is told
    #[command(flatten)]
    pub telling: Telling,
}

/// Options of `sinew bench hops`.
#[derive(Debug, Args)]
pub struct Hops {
    /// Payload of each writer in kbit/s, and percent that the link in the middle loses each way
    #[arg(long, value_name = "KBIT:PERCENT", value_delimiter = ',',
        default_values_t = hops::Options::default().loads)]
    pub load: Vec<hops::Load>,
    /// How long messages are written
    #[arg(long, default_value_t = hops::Options::default().seconds)]
    pub seconds: f64,
    /// Other losses
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
    /// What a copy carries in a trial
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
    /// Bytes of payload; several, like 160,1200, give rows each
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
    /// Links per node; the network has nodes times so many
    #[arg(long, default_value_t = routing::Options::default().links_per_node)]
    pub links_per_node: usize,
    /// Changes, each of one link
    #[arg(long, default_value_t = routing::Options::default().changes)]
    pub changes: usize,
    /// Another network and other changes
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
    /// Links that each node brings
    #[arg(long, default_value_t = scale::Options::default().links_per_node)]
    pub links_per_node: usize,
    /// Another network
    #[arg(long, default_value_t = scale::Options::default().seed)]
    pub seed: u64,
    /// 1000 nodes with 4000 links: it takes minutes
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
    /// Packets that clients send at one moment; several give rows each
    #[arg(long, value_delimiter = ',', default_value = "1,16,32")]
    pub burst: Vec<usize>,
    /// Packets per measurement
    #[arg(long, default_value_t = sim::Options::default().packets)]
    pub packets: u64,
    /// Measurements per number; the median counts
    #[arg(long, default_value_t = sim::Options::default().repeats)]
    pub repeats: usize,
    /// A Python that has the package ns3, or crates/lab/peers/ns3_chain.cc compiled
    #[arg(long, value_name = "PROGRAM")]
    pub ns3: Option<PathBuf>,
    /// How it is told
    #[command(flatten)]
    pub telling: Telling,
}

/// Options of `sinew bench relay`.
#[derive(Debug, Args)]
pub struct Relay {
    /// Where packets come in; it is printed, with the port that was free if that is 0
    #[arg(long)]
    pub listen: SocketAddr,
    /// Where they go
    #[arg(long)]
    pub to: SocketAddr,
    /// The only processor to run on
    #[arg(long)]
    pub cpu: Option<usize>,
}

/// Measures.
pub fn run(bench: &Bench) -> Outcome {
    match bench {
        Bench::Relay(args) => args.run(),
        Bench::Forward(args) => args.telling.tell(forward::run(
            &forward::Options {
                payloads: args.payload.clone(),
                bursts: args.burst.clone(),
                flows: args.flows,
                seconds: args.seconds,
                repeats: args.repeats,
                single_pps: args.single_pps,
                burst_pps: args.burst_pps,
                netns: args.netns,
                program: None,
            },
            args.telling.progress(),
        )),
        Bench::Latency(args) => args.telling.tell(latency::run(
            &latency::Options {
                streams: args.streams.clone(),
                payload: args.payload,
                seconds: args.seconds,
                repeats: args.repeats,
                busy: args.busy,
                pinning: args.pinning.into(),
                netns: args.netns,
                program: None,
            },
            args.telling.progress(),
        )),
        Bench::Calls(args) => args.telling.tell(calls::run(
            &calls::Options {
                calls: args.calls,
                seconds: args.seconds,
                repeats: args.repeats,
                program: None,
            },
            args.telling.progress(),
        )),
        Bench::Emulate(args) => args.telling.tell(emulate::run(
            &emulate::Options {
                streams: args.streams.clone(),
                seconds: args.seconds,
                repeats: args.repeats,
                tcp_seconds: args.tcp_seconds,
            },
            args.telling.progress(),
        )),
        Bench::Stream(args) => args.telling.tell(stream::run(
            &stream::Options {
                seconds: args.seconds,
                repeats: args.repeats,
                datagram: args.datagram,
                netns: args.netns,
                program: None,
            },
            args.telling.progress(),
        )),
        Bench::Fairness(args) => args.telling.tell(fairness::run(
            &fairness::Options {
                seconds: args.seconds,
                repeats: args.repeats,
                counts: args.counts.clone(),
                crossed: args.crossed,
                program: None,
            },
            args.telling.progress(),
        )),
        Bench::Hops(args) => args.telling.tell(hops::run(
            &hops::Options {
                loads: args.load.clone(),
                seconds: args.seconds,
                seed: args.seed,
                program: None,
            },
            args.telling.progress(),
        )),
        Bench::Bulk(args) => args.telling.tell(bulk::run(
            &bulk::Options {
                seconds: args.seconds,
                repeats: args.repeats,
                megabytes: args.megabytes,
                program: None,
            },
            args.telling.progress(),
        )),
        Bench::Idle(args) => args.telling.tell(idle::run(
            &idle::Options {
                seconds: args.seconds,
                links: args.links,
                clients: args.clients,
                program: None,
            },
            args.telling.progress(),
        )),
        Bench::Scale(args) => args.telling.tell(scale::run(
            &scale::Options {
                nodes: if args.full { 1_000 } else { args.nodes },
                links_per_node: args.links_per_node,
                seed: args.seed,
            },
            args.telling.progress(),
        )),
        Bench::Sim(args) => args.telling.tell(sim::run(
            &sim::Options {
                payload: args.payload,
                bursts: args.burst.clone(),
                packets: args.packets,
                repeats: args.repeats,
                ns3: args.ns3.clone(),
            },
            args.telling.progress(),
        )),
        Bench::Engine(args) => args.telling.tell(engine::run(
            &engine::Options {
                payloads: args.payload.clone(),
                bursts: args.burst.clone(),
                flows: args.flows,
                packets: args.packets,
                rate_pps: args.rate_pps,
            },
            args.telling.progress(),
        )),
        Bench::Routing(args) => args.telling.tell(routing::run(
            &routing::Options {
                nodes: args.nodes,
                links_per_node: args.links_per_node,
                changes: args.changes,
                seed: args.seed,
                python: args.python.clone(),
            },
            args.telling.progress(),
        )),
    }
}

impl Relay {
    fn run(&self) -> Outcome {
        let options = relay::Options {
            listen: self.listen,
            to: self.to,
            cpu: self.cpu,
        };
        let relay = relay::Relay::open(&options).map_err(Failure::failed)?;
        terminal::line(&relay.at().map_err(Failure::failed)?.to_string())?;
        relay.run(std::io::stdin()).map_err(Failure::failed)
    }
}

impl Telling {
    fn progress(&self) -> Progress {
        Progress::choose(self.verbose)
    }

    fn tell(&self, report: Result<impl Serialize + Display, BenchError>) -> Outcome {
        let report = report.map_err(|error| match error {
            BenchError::Option(_) => Failure::misused(error),
            _ => Failure::failed(error),
        })?;
        if self.json {
            let value = serde_json::to_value(&report).map_err(Failure::failed)?;
            return terminal::json(&value);
        }
        terminal::line(report.to_string().trim_end())
    }
}
