//! The overlay: a node process in every host, with a bridge at the source and at the leaves that captures and injects
//! IP multicast through a TAP interface. Sender and receivers are plain multicast programs on those interfaces.
//!
//! ```text
//!   sender ─ TAP ─ node P1 ══ node P2 ══ node P3 ══ node P4 ─ TAP ─ sink        the bridge in the node
//!   sender ─ TAP ─ bridge ─ node P1 ══ … ══ node P4 ─ bridge ─ TAP ─ sink       or a process beside it
//! ```

use super::site::{GROUP, PORT, Shape, Site, failed};
use super::talk::{Ends, Sink, group_sender, group_sink};
use crate::bench::credentials::address;
use crate::bench::fleet::{Beside, Fleet, Spec};
use crate::bench::usage::Usage;
use crate::control;
use crate::experiment::CellError;
use net::quota::Quota;
use serde_json::json;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tools::interrupt::Interrupt;

const UDP_PORT: u16 = 8_100;
/// The text about trees that this build's nodes do not support.
pub(super) const REFUSED: &str = "are refused by the node";
/// The interface of a node's bridge.
const TAP: &str = "mc0";

/// The builder of the group's tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trees {
    LinkState,
    Scribe,
}

/// The place of the bridges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bridges {
    /// The node's own loop.
    Inside,
    /// Separate processes, which are clients of their nodes.
    Beside,
}

/// A kind of overlay in the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    /// The prefix of its numbers.
    pub(super) name: &'static str,
    pub(super) trees: Trees,
    pub(super) bridges: Bridges,
}

/// The configuration of an operator who wants speed, which the claims concern.
pub(super) const INSIDE: Kind = Kind {
    name: "overlay",
    trees: Trees::LinkState,
    bridges: Bridges::Inside,
};
/// The same with bridges as separate processes.
pub(super) const BESIDE: Kind = Kind {
    name: "beside",
    trees: Trees::LinkState,
    bridges: Bridges::Beside,
};
/// Trees by Scribe.
pub(super) const SCRIBE: Kind = Kind {
    name: "scribe",
    trees: Trees::Scribe,
    bridges: Bridges::Inside,
};
/// All kinds.
pub(super) const KINDS: [Kind; 3] = [INSIDE, BESIDE, SCRIBE];

/// Running nodes; they end when this is dropped.
pub(super) struct Overlay {
    // Bridges end before their nodes.
    bridges: Vec<Child>,
    fleet: Fleet,
    shape: Shape,
    /// The quota of each host, if hosts have one: removed after its processes.
    quotas: Vec<Quota>,
}

/// Checks whether this program supports what the overlay needs.
pub(super) fn available(program: &Path) -> Result<(), CellError> {
    let help = Command::new(program)
        .args(["gateway", "multicast", "--help"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match help {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(CellError(format!(
            "{} has no `gateway multicast`",
            program.display()
        ))),
        Err(error) => Err(CellError(format!("{}: {error}", program.display()))),
    }
}

impl Overlay {
    /// Starts nodes and bridges, and waits until the nodes have routes to each other.
    pub(super) fn start(program: &Path, site: &Site, kind: Kind) -> Result<Overlay, CellError> {
        Overlay::on_hosts(program, site, kind, None)
    }

    /// Starts them on hosts whose processes have this share of one of this machine's processors, in percent, if given.
    pub(super) fn on_hosts(
        program: &Path,
        site: &Site,
        kind: Kind,
        percent: Option<u32>,
    ) -> Result<Overlay, CellError> {
        available(program)?;
        let mut overlay = Overlay {
            bridges: Vec::new(),
            fleet: Fleet::new(Some(program)).map_err(told)?,
            shape: site.shape,
            quotas: Vec::new(),
        };
        overlay.nodes(site, kind.bridges, percent)?;
        if kind.bridges == Bridges::Beside {
            overlay.start_bridges(program, site)?;
        }
        overlay.choose(kind.trees)?;
        Ok(overlay)
    }

    fn nodes(
        &mut self,
        site: &Site,
        bridges: Bridges,
        percent: Option<u32>,
    ) -> Result<(), CellError> {
        let hosts = site.shape.hosts();
        let ends = ends(site.shape);
        for (host, parent) in hosts.iter().map(|host| host.parent).enumerate() {
            let above = parent.map(|index| (index, None));
            let dial = |child: usize| (IpAddr::V4(site.up(child)), UDP_PORT).into();
            let below = site.shape.children(host);
            let below = below.map(|child| (child, Some(dial(child))));
            let beside = |(index, dial)| Beside {
                index,
                dial,
                impair: None,
            };
            let spec = Spec {
                listen: (Ipv4Addr::UNSPECIFIED, UDP_PORT).into(),
                neighbors: above.into_iter().chain(below).map(beside).collect(),
                cpu: None,
                inside: Some(site.node(host)),
                // The kernel does not limit threads with real-time priority.
                realtime: percent.is_none(),
                paper: false,
                settings: &[],
                reliable: crate::scenario::ReliableLinks::default(),
                transfers: None,
                bridge: (bridges == Bridges::Inside && ends.contains(&host))
                    .then(|| (TAP, tap_address(host))),
            };
            self.fleet.start(host, &spec).map_err(told)?;
            if let Some(percent) = percent {
                let quota = Quota::new(percent).map_err(told)?;
                let pid = self.fleet.node(host).id().map_err(told)?;
                quota.add(pid).map_err(told)?;
                self.quotas.push(quota);
            }
        }
        let interrupt = Interrupt::elsewhere().map_err(told)?;
        let ready = self.fleet.wait(&interrupt, |host, status| {
            let others = (0..hosts.len()).filter(|other| *other != host);
            let mut addresses = others.map(|other| address(other).to_string());
            addresses.all(|address| control::has_route(status, &address))
        });
        ready.map_err(told)
    }

    fn start_bridges(&mut self, program: &Path, site: &Site) -> Result<(), CellError> {
        for host in ends(site.shape) {
            let mut command = site
                .node(host)
                .command(&program.to_string_lossy())
                .map_err(told)?;
            command
                .args(["gateway", "multicast", "--tap", TAP, "--address"])
                .arg(format!("{}/24", tap_address(host)))
                .arg("--node")
                .arg(self.fleet.node(host).client_socket())
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            std::os::unix::process::CommandExt::process_group(&mut command, 0);
            let bridge = command.spawn().map_err(told)?;
            if let Some(quota) = self.quotas.get(host) {
                quota.add(bridge.id()).map_err(told)?;
            }
            self.bridges.push(bridge);
        }
        Ok(())
    }

    /// Sets how long nodes wait for packets of the group.
    pub(super) fn set_deadline(&self, deadline_ms: u64) -> Result<(), CellError> {
        let set =
            json!({"cmd": "group_set", "group": GROUP.to_string(), "deadline_ms": deadline_ms});
        let answer = control::ask(&self.fleet.node(0).control_socket(), &set);
        answer.map(drop).map_err(told)
    }

    /// Sets the builder of the group's tree at one node: the others learn it before any member joins.
    fn choose(&self, trees: Trees) -> Result<(), CellError> {
        let tree = match trees {
            Trees::LinkState => return Ok(()),
            Trees::Scribe => "scribe",
        };
        let set = json!({"cmd": "group_set", "group": GROUP.to_string(), "tree": tree});
        let answer = control::ask(&self.fleet.node(0).control_socket(), &set);
        let refused = |error| CellError(format!("trees by {tree} {REFUSED}: {error}"));
        answer.map(drop).map_err(refused)
    }

    /// Returns the sender on the first host's TAP interface, and a member of the group on each leaf's.
    pub(super) fn ends(&self, site: &Site) -> Result<Ends, CellError> {
        let first = site.node(0);
        wait_for_interface(site, 0)?;
        first
            .ip(&["route", "replace", "239.0.0.0/8", "dev", TAP])
            .map_err(failed)?;
        let sender = Site::within(first, || group_sender((GROUP, PORT)))?;
        let mut sinks = Vec::new();
        for leaf in site.shape.leaves() {
            wait_for_interface(site, leaf)?;
            let space = site.node(leaf);
            let socket = Site::within(space, || group_sink(PORT, tap_address(leaf)))?;
            let name = site.shape.hosts()[leaf].name;
            sinks.push(Sink { name, socket });
        }
        Ends::new(sender, sinks)
    }

    /// Returns what the middle node's process has used so far.
    pub(super) fn middle_usage(&self) -> Result<Usage, CellError> {
        let node = self.fleet.node(self.shape.middle());
        node.usage().map_err(told)
    }

    /// Fails, with the process's log, if a process has ended.
    pub(super) fn check(&mut self) -> Result<(), CellError> {
        self.fleet.check().map_err(told)?;
        for bridge in &mut self.bridges {
            if let Some(status) = bridge.try_wait().map_err(told)? {
                return Err(CellError(format!("a bridge has ended: {status}")));
            }
        }
        Ok(())
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        for bridge in &mut self.bridges {
            // This fails for a process that has already ended.
            let _ = bridge.kill();
        }
        for bridge in &mut self.bridges {
            let _ = bridge.wait();
        }
    }
}

/// Returns the hosts at the source and the leaves.
fn ends(shape: Shape) -> Vec<usize> {
    [0].into_iter().chain(shape.leaves()).collect()
}

fn told(error: impl std::fmt::Display) -> CellError {
    CellError(error.to_string())
}

/// Waits until a bridge has made its interface and given it an address.
fn wait_for_interface(site: &Site, host: usize) -> Result<(), CellError> {
    let begun = std::time::Instant::now();
    loop {
        let bind = || Ok(std::net::UdpSocket::bind((tap_address(host), 0)).is_ok());
        if Site::within(site.node(host), bind)? {
            return Ok(());
        }
        if begun.elapsed().as_secs() >= 10 {
            let name = site.shape.hosts()[host].name;
            return Err(CellError(format!(
                "the bridge at {name} has made no interface after 10 s"
            )));
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// Returns the address of a host's TAP interface.
fn tap_address(host: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 94, host as u8, 1)
}
