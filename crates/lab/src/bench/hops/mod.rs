//! `sinew bench hops`: messages over a chain of nodes in which one link loses packets, recovered on the hop and from
//! end to end, at the same time over the same links. [Amir03 §V]
//!
//! ```text
//!   host 0 ── 10 ms ── host 1 ── 10 ms ── host 2 ── 10 ms, loses ── host 3 ── ... ── host 5
//!
//!   hop by hop   writer ══ node ── node ── node ── node ── node ── node ══ reader    reliable links
//!   end to end   the same nodes, but links that do not repeat: the session does
//!   tcp          writer ══ kernel ── forwarded by the hosts in between ── kernel ══ reader
//! ```
//!
//! Every host is a network namespace, every link an emulator. A message carries the time at which it was due to be
//! written, so that delays of the writer count; the reader takes messages in order. Links have no rate limit, so the
//! contenders do not meet in a queue.

mod hosts;
mod report;
mod talk;

pub use report::{Case, Delays, Report};

use super::credentials::address;
use super::fleet::{Beside, Fleet, Spec};
use super::{BenchError, go_on, usage};
use crate::control;
use client::{Accepted, LinkProtocol, Node, Options as SocketOptions, Target};
use hosts::Hosts;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;
use talk::{Contender, Plan, Way};
use tools::interrupt::Interrupt;
use tools::progress::Progress;

/// Number of hosts in the row.
const HOSTS: usize = 6;
/// The link that loses, counted from the first host.
const LOSSY: usize = 2;
/// The model of every link.
pub const LINK: &str = "delay=10ms";
/// Bytes of a message.
pub const MESSAGE_BYTES: usize = 1_000;
/// The port at which the last node listens for streams over reliable links. The next port is for streams over links
/// that do not retransmit.
const PORT: u16 = 5_000;
/// The port at which nodes listen for each other.
const UDP_PORT: u16 = 7_700;
/// Time in which nodes measure the delay and quality of their links.
const SETTLE: Duration = Duration::from_secs(3);
/// The kernel's congestion controls that are compared.
const CONTROLS: [&str; 2] = ["reno", "cubic"];

/// Options of the benchmark.
#[derive(Clone, Debug)]
pub struct Options {
    /// The loads, one table each.
    pub loads: Vec<Load>,
    /// How long messages are written.
    pub seconds: f64,
    /// The seed. Equal seeds give links with equal losses.
    pub seed: u64,
    /// The program that is run as `PROGRAM node --config FILE`; `None` for the running one.
    pub program: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            loads: vec![Load::new(500, 1.0), Load::new(1_000, 2.0)],
            seconds: 60.0,
            seed: 1,
            program: None,
        }
    }
}

/// The rate and the loss: `500:1` means 500 kbit/s with 1 % lost each way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Payload of each writer.
    pub rate_kbps: u32,
    /// Loss of the link in the middle, in each direction.
    pub loss_pct: f64,
}

impl Load {
    const fn new(rate_kbps: u32, loss_pct: f64) -> Load {
        Load {
            rate_kbps,
            loss_pct,
        }
    }

    fn interval(self) -> Duration {
        Duration::from_secs_f64(MESSAGE_BYTES as f64 * 8.0 / (f64::from(self.rate_kbps) * 1e3))
    }
}

impl FromStr for Load {
    type Err = BenchError;

    fn from_str(text: &str) -> Result<Load, BenchError> {
        let bad = || {
            BenchError::Option(format!(
                "`{text}` is no load: kbit/s and percent lost, like 500:1"
            ))
        };
        let (rate, loss) = text.split_once(':').ok_or_else(bad)?;
        let load = Load::new(
            rate.parse().map_err(|_| bad())?,
            loss.parse().map_err(|_| bad())?,
        );
        let is_sane =
            (1..=20_000).contains(&load.rate_kbps) && (0.0..=50.0).contains(&load.loss_pct);
        is_sane.then_some(load).ok_or_else(bad)
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.rate_kbps, self.loss_pct)
    }
}

impl Options {
    fn check(&self) -> Result<(), BenchError> {
        let bad = |what: &str| Err(BenchError::Option(what.to_owned()));
        if !(0.1..=3_600.0).contains(&self.seconds) {
            return bad("messages are written for 0.1 to 3600 seconds");
        }
        if self.loads.is_empty() {
            return bad("there is one load at least, like 500:1");
        }
        Ok(())
    }
}

/// Runs the measurement.
///
/// # Errors
/// [`BenchError`]; then nodes and namespaces are removed.
pub fn run(options: &Options, progress: Progress) -> Result<Report, BenchError> {
    options.check()?;
    let interrupt = Interrupt::install()?;
    progress.begin(&format!(
        "sinew bench hops: {} loads of {} s",
        options.loads.len(),
        options.seconds
    ));
    let load_before = usage::load();
    let hosts = Hosts::new(HOSTS, options.seed)?;
    let mut cases = Vec::new();
    for &load in &options.loads {
        go_on(&interrupt)?;
        progress.step(&format!(
            "{} kbit/s, {} % lost: the nodes start",
            load.rate_kbps, load.loss_pct
        ));
        cases.push(case(options, &hosts, load, &interrupt, &progress)?);
    }
    Ok(Report {
        hops: HOSTS - 1,
        link: LINK,
        message_bytes: MESSAGE_BYTES,
        seconds: options.seconds,
        load: [load_before, usage::load()],
        cases,
    })
}

/// Measures one load.
fn case(
    options: &Options,
    hosts: &Hosts,
    load: Load,
    interrupt: &Interrupt,
    progress: &Progress,
) -> Result<Case, BenchError> {
    for link in 0..HOSTS - 1 {
        hosts.set(link, LINK);
    }
    let mut fleet = nodes(options, hosts, interrupt)?;
    hosts.set(LOSSY, &format!("{LINK} loss={}%", load.loss_pct));
    if interrupt.wait(base::Duration::from_secs_f64(SETTLE.as_secs_f64()))? {
        return Err(BenchError::Interrupted);
    }
    progress.step(&format!("messages are written for {} s", options.seconds));
    let contenders = contenders(hosts, &fleet)?;
    let plan = Plan {
        bytes: MESSAGE_BYTES,
        interval: load.interval(),
        span: Duration::from_secs_f64(options.seconds),
    };
    let found = talk::run(&plan, &contenders, interrupt);
    // A node that has ended reports why; its clients only know that it is gone.
    fleet.check()?;
    go_on(interrupt)?;
    Ok(Case::new(load, found?))
}

/// Starts a node on each host, each linked to the next.
fn nodes(options: &Options, hosts: &Hosts, interrupt: &Interrupt) -> Result<Fleet, BenchError> {
    let mut fleet = Fleet::new(options.program.as_deref())?;
    for host in 0..HOSTS {
        let before = host.checked_sub(1).map(|index| (index, None));
        let after = (host + 1 < HOSTS).then(|| (host + 1, Some(hosts.ip(host + 1, host))));
        let beside = |(index, dial): (usize, Option<_>)| Beside {
            index,
            dial: dial.map(|ip| (ip, UDP_PORT).into()),
            impair: None,
        };
        let spec = Spec {
            listen: (std::net::Ipv4Addr::UNSPECIFIED, UDP_PORT).into(),
            neighbors: before.into_iter().chain(after).map(beside).collect(),
            cpu: None,
            inside: Some(hosts.space(host)),
            realtime: true,
            paper: false,
            settings: &[],
            reliable: crate::scenario::ReliableLinks::default(),
            bridge: None,
            transfers: None,
        };
        fleet.start(host, &spec)?;
    }
    let last = HOSTS - 1;
    fleet.wait(interrupt, |host, status| {
        let links = if host == 0 || host == last { 1 } else { 2 };
        let is_end = host == 0 || host == last;
        control::links_up(status, links)
            && (!is_end || control::has_route(status, &address(last - host).to_string()))
    })?;
    Ok(fleet)
}

/// Connects all contenders.
fn contenders(hosts: &Hosts, fleet: &Fleet) -> Result<Vec<Contender>, BenchError> {
    let [first, last] = [0, HOSTS - 1].map(|host| fleet.node(host));
    let mut found = Vec::new();
    let kinds = [
        ("hop by hop", LinkProtocol::Reliable),
        ("end to end", LinkProtocol::BestEffort),
    ];
    for ((name, link), port) in kinds.into_iter().zip(PORT..) {
        let options = SocketOptions {
            link,
            ..SocketOptions::stream()
        };
        let listener = Node::at(last.client_socket())
            .listen(port, options)
            .map_err(|error| last.error(&error.to_string()))?;
        let to = Node::at(first.client_socket())
            .connect_messages(Target::new(address(HOSTS - 1), port), options)
            .map_err(|error| first.error(&error.to_string()))?;
        let Ok(Accepted::Messages(from)) = listener.accept() else {
            return Err(last.error("takes no stream of messages"));
        };
        found.push(Contender::new(name.to_owned(), Way::Overlay { to, from }));
    }
    for control in CONTROLS {
        if let Some((to, from)) = hosts.tcp(control)? {
            let name = format!("kernel TCP, {control}");
            found.push(Contender::new(name, Way::Kernel { to, from }));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_rates_and_losses() {
        let load: Load = "500:1".parse().unwrap();
        assert_eq!((load.rate_kbps, load.loss_pct), (500, 1.0));
        assert_eq!(load.interval(), Duration::from_millis(16));
        assert_eq!(
            "1000:0.25".parse::<Load>().unwrap().to_string(),
            "1000:0.25"
        );
        for text in ["", "500", "500:x", "x:1", "0:1", "1:60", "1:-1", "1:NaN"] {
            let error = text.parse::<Load>().unwrap_err().to_string();
            assert!(error.contains("like 500:1"), "{error}");
        }
    }
}
