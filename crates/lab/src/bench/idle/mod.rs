//! `sinew bench idle`: the cost of a node with little load: memory, processor time, and the control traffic of its
//! links, idle and with calls; then memory with many clients.
//!
//! ```text
//!   1 ─┐          ┌─ 2        hub and neighbours are processes, on loopback
//!      ├── hub ───┤           idle: nothing but hellos
//!   3 ─┘          └─ 4        active: ten calls from 1 to 2; then clients bound at the hub
//! ```
//!
//! The benchmark measures the hub. Control traffic is what the two ends of each link report as sent in addition to
//! data, with the headers of IPv4 and UDP.

mod report;

pub use report::{Active, Clients, Control, Idle, Report};

use super::credentials::{address, name};
use super::fleet::{Beside, Fleet, Process, Spec};
use super::phone::{receiver, sender};
use super::trial::{self, Plan, Source, Trial};
use super::usage::{self, Usage};
use super::{BenchError, go_on};
use crate::control;
use crate::ports;
use base::{Duration, Time};
use client::Target;
use net::Clock;
use serde_json::Value;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use tools::interrupt::Interrupt;
use tools::progress::Progress;

const HUB: usize = 0;
/// The nodes at both ends of the calls in the active part.
const CALLER: usize = 1;
const CALLEE: usize = 2;
const PORT: u16 = 5_000;
/// Number of calls: streams of 50 packets/s.
const CALLS: u32 = 10;
const PAYLOAD_BYTES: usize = 160;
/// Time after which records have been flooded and the estimators have their first windows.
const SETTLE: Duration = Duration::from_secs(3);
/// Time after which the node has handled the clients' packets.
const HANDLED: Duration = Duration::from_millis(300);
/// Header bytes of IPv4 and UDP.
const HEADER_BYTES: u64 = 28;

/// Options of the benchmark.
#[derive(Clone, Debug)]
pub struct Options {
    /// Length of the idle and of the active part.
    pub seconds: f64,
    /// Links of the node.
    pub links: usize,
    /// Number of clients bound at the end.
    pub clients: usize,
    /// The program that is run as `PROGRAM node --config FILE`; `None` for the running one.
    pub program: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            seconds: 10.0,
            links: 4,
            clients: 1_000,
            program: None,
        }
    }
}

impl Options {
    fn check(&self) -> Result<(), BenchError> {
        let bad = |what: &str| Err(BenchError::Option(what.to_owned()));
        if !(0.1..=3_600.0).contains(&self.seconds) {
            return bad("each part lasts 0.1 to 3600 seconds");
        }
        if !(2..=20).contains(&self.links) {
            return bad("the node has 2 to 20 links");
        }
        if self.clients > 4_000 {
            return bad("there are at most 4000 clients");
        }
        Ok(())
    }
}

/// Runs the measurement.
///
/// # Errors
/// [`BenchError`]; then everything that was started has ended.
pub fn run(options: &Options, progress: Progress) -> Result<Report, BenchError> {
    options.check()?;
    let interrupt = Interrupt::install()?;
    let seconds = 2.0 * options.seconds + SETTLE.as_secs_f64() + 3.0;
    progress.begin(&format!("sinew bench idle: about {seconds:.0} s"));
    let load_before = usage::load();
    let star = Star::start(options, &interrupt)?;
    star.pause(&interrupt, SETTLE)?;
    progress.step("idle");
    let span = Duration::from_secs_f64(options.seconds);
    let (idle, _) = star.part(star.links(), || star.pause(&interrupt, span))?;
    progress.step("active");
    let beside_calls = [CALLER, CALLEE].map(|leaf| [(HUB, leaf), (leaf, HUB)]);
    let (usage, calls) = star.part(beside_calls.concat(), || star.call(span))?;
    go_on(&interrupt)?;
    progress.step(&format!("{} clients", options.clients));
    let clients = star.clients(&interrupt, options.clients)?;
    Ok(Report {
        scheduling: star.scheduling()?,
        load: [load_before, usage::load()],
        links: options.links,
        seconds: options.seconds,
        idle,
        active: Active {
            streams: CALLS,
            sent: calls.counted,
            arrived: calls.delays_ns.len() as u64,
            usage,
        },
        clients,
    })
}

/// A hub and its neighbours.
struct Star {
    fleet: Fleet,
    leaves: usize,
}

/// The state of all nodes at one moment.
struct Sample {
    at: Time,
    nodes: Vec<Value>,
}

impl Star {
    fn start(options: &Options, interrupt: &Interrupt) -> Result<Star, BenchError> {
        // Each client has a descriptor on both sides.
        net::sched::raise_descriptors()?;
        let mut fleet = Fleet::new(options.program.as_deref())?;
        let own = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let hub = ports::free(own)?;
        for index in 0..=options.links {
            let beside = |index: usize| Beside {
                index,
                // The neighbours dial.
                dial: (index == HUB).then_some(hub),
                impair: None,
            };
            let neighbors = match index {
                HUB => (1..=options.links).map(beside).collect(),
                _ => vec![beside(HUB)],
            };
            let spec = Spec {
                listen: if index == HUB { hub } else { ports::free(own)? },
                neighbors,
                cpu: None,
                inside: None,
                realtime: true,
                paper: false,
                settings: &[],
                reliable: crate::scenario::ReliableLinks::default(),
                bridge: None,
                transfers: None,
            };
            fleet.start(index, &spec)?;
        }
        let leaves = options.links;
        fleet.wait(interrupt, |index, status| match index {
            HUB => control::links_up(status, leaves),
            leaf => {
                // For any other neighbour, the path leads over the hub.
                let other = if leaf == CALLER { CALLEE } else { CALLER };
                control::links_up(status, 1)
                    && control::has_route(status, &address(other).to_string())
            }
        })?;
        Ok(Star { fleet, leaves })
    }

    fn hub(&self) -> &Process {
        self.fleet.node(HUB)
    }

    /// Returns both directions of every link.
    fn links(&self) -> Vec<(usize, usize)> {
        let both = (1..=self.leaves).map(|leaf| [(HUB, leaf), (leaf, HUB)]);
        both.flatten().collect()
    }

    fn pause(&self, interrupt: &Interrupt, span: Duration) -> Result<(), BenchError> {
        interrupt.wait(span)?;
        go_on(interrupt)
    }

    /// Runs calls from one neighbour to another.
    fn call(&self, span: Duration) -> Result<Trial, BenchError> {
        let source = |_| sender(self.fleet.node(CALLER), Target::new(address(CALLEE), PORT));
        let sources: Result<Vec<_>, _> = (0..CALLS).map(source).collect();
        let end = receiver(self.fleet.node(CALLEE), PORT)?;
        let plan = Plan {
            streams: CALLS,
            payload: PAYLOAD_BYTES,
            span,
            run: 1,
            sender_cpu: None,
            receiver_cpu: None,
        };
        trial::run(&plan, &sources?, &end)
    }

    /// Measures what the hub uses, and what passes over `links`, during `work`.
    fn part<T>(
        &self,
        links: Vec<(usize, usize)>,
        work: impl FnOnce() -> Result<T, BenchError>,
    ) -> Result<(Idle, T), BenchError> {
        let clock = Clock::new();
        // The query costs the hub something, so it is outside of the measured span.
        let before = self.sample(clock)?;
        let (used_before, from) = (self.hub().usage()?, clock.now());
        let done = work()?;
        let used = self.hub().usage()?.since(used_before);
        let span = clock.now().since(from);
        let resident_bytes = self.hub().resident_bytes()?;
        let after = self.sample(clock)?;
        let control = links.into_iter().map(|(from, to)| Control {
            from: name(from),
            to: name(to),
            bps: after
                .control_bytes(from, to)
                .saturating_sub(before.control_bytes(from, to)) as f64
                * 8.0
                / after.at.since(before.at).as_secs_f64(),
        });
        let control = control.collect();
        Ok((Idle::new(used, span, resident_bytes, control), done))
    }

    fn sample(&self, clock: Clock) -> Result<Sample, BenchError> {
        let asked = (0..=self.leaves).map(|index| {
            let node = self.fleet.node(index);
            node.snapshot()
                .map_err(|error| node.error(&error.to_string()))
        });
        let nodes = asked.collect::<Result<Vec<_>, _>>()?;
        Ok(Sample {
            at: clock.now(),
            nodes,
        })
    }

    /// Measures memory before and after `count` clients are bound and have sent a packet each.
    fn clients(&self, interrupt: &Interrupt, count: usize) -> Result<Clients, BenchError> {
        let before = self.hub().resident_bytes()?;
        let to = Target::new(address(CALLEE), PORT);
        let mut bound = Vec::new();
        for _ in 0..count {
            let client = sender(self.hub(), to)?;
            client.send(&[0; PAYLOAD_BYTES])?;
            bound.push(client);
        }
        self.pause(interrupt, HANDLED)?;
        let resident_bytes = self.hub().resident_bytes()?;
        Ok(Clients {
            bound: bound.len(),
            resident_bytes,
            bytes_per_client: resident_bytes.saturating_sub(before) as f64
                / bound.len().max(1) as f64,
        })
    }

    fn scheduling(&self) -> Result<String, BenchError> {
        let status = self.hub().snapshot()?;
        Ok(status["host"]["scheduling"]
            .as_str()
            .unwrap_or("unknown")
            .to_owned())
    }
}

impl Sample {
    /// Returns what node `from` has sent to node `to` in addition to data.
    fn control_bytes(&self, from: usize, to: usize) -> u64 {
        let links = self
            .nodes
            .get(from)
            .and_then(|node| node["snapshot"]["links"].as_array());
        let to = name(to);
        let link = links.and_then(|links| links.iter().find(|link| link["name"] == to.as_str()));
        link.map_or(0, |link| {
            let of = |key: &str| link[key].as_u64().unwrap_or(0);
            of("control_out_bytes") + HEADER_BYTES * of("control_out")
        })
    }
}

impl Idle {
    fn new(used: Usage, span: Duration, resident_bytes: u64, control: Vec<Control>) -> Idle {
        let seconds = span.as_secs_f64().max(1e-9);
        Idle {
            resident_bytes,
            cpu_pct: used.cpu_ns as f64 / 1e7 / seconds,
            wakeups_per_s: used.wakeups as f64 / seconds,
            control_max_bps: control.iter().map(|c| c.bps).fold(0.0, f64::max),
            control,
        }
    }
}
