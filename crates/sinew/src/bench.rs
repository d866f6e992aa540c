//! `sinew bench`: measures the costs and the speed of the node, always next to a baseline in the
//! same run.

mod args;

use crate::failure::{Failure, Outcome};
use crate::terminal;
pub use args::{
    Bulk, Calls, Emulate, Engine, Fairness, Forward, Hops, Idle, Latency, Pinning, Relay, Routing,
    Scale, Sim, Stream, Telling,
};
use clap::Subcommand;
use lab::bench::{
    BenchError, bulk, calls, emulate, engine, fairness, forward, hops, idle, latency, relay,
    routing, scale, sim, stream,
};
use serde::Serialize;
use std::fmt::Display;
use tools::progress::Progress;

/// What to measure.
#[derive(Debug, Subcommand)]
pub enum Bench {
    /// Measure rate and cost of the middle node of a chain, against bare forwarders
    #[command(after_help = "\
Examples:
  sinew bench forward
  sinew bench forward --payload 160 --burst 1,16 --repeats 5 --json")]
    Forward(Forward),
    /// Measure one-way delay over three nodes, against bare forwarders and the kernel
    #[command(after_help = "\
Examples:
  sinew bench latency
  sinew bench latency --streams 10 --busy 10 --json")]
    Latency(Latency),
    /// Measure many calls through two gateways, against bare forwarders and the kernel
    #[command(after_help = "\
Examples:
  sinew bench calls
  sinew bench calls --calls 100 --seconds 30 --json")]
    Calls(Calls),
    /// Measure rate and cost of a relay for bulk data, against bare proxies
    #[command(after_help = "Example:\n  sinew bench bulk --megabytes 10000 --json")]
    Bulk(Bulk),
    /// Measure accuracy and rate of an emulated link, against a cable; needs root
    #[command(after_help = "\
Examples:
  sinew bench emulate
  sinew bench emulate --streams 1,100 --tcp-seconds 60 --json")]
    Emulate(Emulate),
    /// Measure one reliable stream over three nodes, against bare forwarders and TCP
    #[command(after_help = "\
Examples:
  sinew bench stream
  sinew bench stream --seconds 10 --repeats 5 --json")]
    Stream(Stream),
    /// Measure how reliable links and the kernel's TCP share a bottleneck; needs root
    #[command(after_help = "\
Examples:
  sinew bench fairness
  sinew bench fairness --seconds 60 --repeats 5 --crossed --json")]
    Fairness(Fairness),
    /// Measure loss recovery by hops and end to end, over a chain with a lossy link; needs root
    #[command(after_help = "\
Examples:
  sinew bench hops
  sinew bench hops --load 500:1,1000:2,1000:5 --seconds 300 --json")]
    Hops(Hops),
    /// Measure memory, processor time and control traffic of an idle node
    #[command(after_help = "Example:\n  sinew bench idle --seconds 60 --json")]
    Idle(Idle),
    /// Measure the cost of the node's own code per packet, without sockets and kernel
    #[command(after_help = "Example:\n  sinew bench engine --payload 160 --burst 16")]
    Engine(Engine),
    /// Measure how long routes take to compute, in full and after one link has changed
    #[command(after_help = "\
Examples:
  sinew bench routing
  sinew bench routing --nodes 200 --changes 300 --python venv/bin/python --json")]
    Routing(Routing),
    /// Measure how a large network converges after faults, and what that costs
    #[command(after_help = "\
Examples:
  sinew bench scale
  sinew bench scale --full --json")]
    Scale(Scale),
    /// Measure the speed of the simulator, against a bare event loop and ns-3 (if installed)
    #[command(after_help = "\
Examples:
  sinew bench sim
  sinew bench sim --ns3 ~/venv/bin/python --json")]
    Sim(Sim),
    /// Run one of the bare forwarders that nodes are compared with; ends with its input
    #[command(
        hide = true,
        after_help = "Example:\n  sinew bench relay --listen 127.0.0.1:0 --to 127.0.0.1:9000"
    )]
    Relay(Relay),
}

/// Runs a benchmark.
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
                protect: args.protect,
                ends: args.ends,
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
                link: args.link,
                compared: args.compared(),
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
                group: args.group,
                protect: args.protect,
                ends: args.ends,
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
