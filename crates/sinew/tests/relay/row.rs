//! Hosts with cables between them: each host is a network namespace with a node and a directory that it serves. The
//! tests need root. Tests that are not goals print a line and skip without root.
//!
//! ```text
//!   ams 10.99.1.1 ──── 10.99.1.2 fra 10.99.2.1 ──── 10.99.2.2 lon      the cables of `Row::of_three`
//! ```

use crate::world::World;
use net::netns::Namespace;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The longest queue of a cable: 40 ms at 50 Mbit/s.
const QUEUE_BYTES: u64 = 250_000;
/// The time between two checks.
const PACE: Duration = Duration::from_millis(2);

/// Two hosts, and the rate of their cable in each direction; `None` for as fast as the machine is.
pub(crate) type Cable = (&'static str, &'static str, Option<u64>);

/// Hosts, in the order of the cables.
pub(crate) struct Row {
    pub(crate) world: World,
    hosts: Vec<(&'static str, Namespace)>,
    cables: Vec<Cable>,
}

impl Row {
    /// Makes ams, fra and lon.
    pub(crate) fn of_three(test: &str, kbit: Option<u64>) -> Row {
        Row::new(test, &[("ams", "fra", kbit), ("fra", "lon", kbit)])
    }

    /// Makes hosts with running nodes, and waits until all links are up.
    pub(crate) fn new(test: &str, cables: &[Cable]) -> Row {
        let mut names: Vec<&str> = Vec::new();
        for name in cables.iter().flat_map(|(a, b, _)| [*a, *b]) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let host = |name: &&'static str| (*name, Namespace::new().unwrap());
        let mut row = Row {
            world: World::new(test),
            hosts: names.iter().map(host).collect(),
            cables: cables.to_vec(),
        };
        for (number, (a, b, kbit)) in cables.iter().enumerate() {
            row.host(a).veth(b, row.host(b), a).unwrap();
            for (end, (name, other)) in [(a, b), (b, a)].into_iter().enumerate() {
                let host = row.host(name);
                let address = format!("10.99.{}.{}/24", number + 1, end + 1);
                host.ip(&["address", "add", &address, "dev", other])
                    .unwrap();
                if let Some(kbit) = kbit {
                    host.shape(other, *kbit, QUEUE_BYTES).unwrap();
                }
            }
        }
        for name in &names {
            row.add(name);
        }
        for name in &names {
            row.launch(name);
        }
        row.wait_until_ready();
        row
    }

    /// Adds a node that dials those of its neighbours that were added before, each at its end of their cable.
    fn add(&self, name: &str) {
        let number = self.number(name);
        let port = |number: usize| 7701 + number;
        let own = format!("{}:{}", self.addresses(name)[0].1, port(number));
        let dialled = self.addresses(name).into_iter();
        let dialled: Vec<&str> = dialled
            .map(|(other, _)| other)
            .filter(|other| self.number(other) < number)
            .collect();
        let link = match dialled.is_empty() {
            true => String::new(),
            false => format!("--link {}", dialled.join(",")),
        };
        self.world
            .sinew(&format!("net add net {name} --address {own} {link}"));
        let config = self.world.node(name).join("node.toml");
        let mut text = fs::read_to_string(&config).unwrap();
        for other in dialled {
            let all = self.addresses(other);
            let at = all.iter().find(|(neighbor, _)| *neighbor == name).unwrap();
            text = text.replace(&format!("{}:", all[0].1), &format!("{}:", at.1));
        }
        let root = self.root(name);
        fs::create_dir(&root).unwrap();
        fs::write(&config, format!("{text}\n[relay]\nroots = [{root:?}]\n")).unwrap();
    }

    /// Returns the neighbours of a host, and its address on the cable to each.
    fn addresses(&self, name: &str) -> Vec<(&'static str, String)> {
        let cables = self.cables.iter().enumerate();
        let own = cables.filter_map(|(number, (a, b, _))| match name {
            _ if *a == name => Some((*b, format!("10.99.{}.1", number + 1))),
            _ if *b == name => Some((*a, format!("10.99.{}.2", number + 1))),
            _ => None,
        });
        own.collect()
    }

    fn number(&self, name: &str) -> usize {
        let mut hosts = self.hosts.iter();
        hosts.position(|(host, _)| *host == name).unwrap()
    }

    pub(crate) fn host(&self, name: &str) -> &Namespace {
        &self.hosts[self.number(name)].1
    }

    /// Starts a node, also one that was killed.
    pub(crate) fn launch(&mut self, name: &str) {
        let at = self.number(name);
        self.world.launch_in(name, &self.hosts[at].1);
    }

    pub(crate) fn wait_until_ready(&self) {
        for (name, _) in &self.hosts {
            let asked = format!("status --node net/{name}");
            self.world.wait("the node answers", || {
                self.world.try_sinew(&asked).status.success()
            });
        }
        for (a, b, _) in &self.cables {
            self.world.wait_for_link(a, b);
        }
        let first = self.hosts[0].0;
        for (name, _) in &self.hosts[1..] {
            let address = self.world.overlay_address(name);
            self.world.wait("the first one knows a way to each", || {
                self.world.has_route(first, &address)
            });
        }
    }

    /// Returns the directory that a node serves.
    pub(crate) fn root(&self, name: &str) -> PathBuf {
        self.world.dir.join(format!("{name}-data"))
    }

    /// Makes the command of a copy at the first node.
    pub(crate) fn cp(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sinew"));
        command.current_dir(&self.world.dir).arg("cp");
        command.args(words.split_whitespace());
        command.args(["--json", "--node", &format!("net/{}", self.hosts[0].0)]);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(Stdio::piped());
        command
    }

    pub(crate) fn end_of(&self, mut child: Child) -> Output {
        self.world
            .wait("the command ends", || child.try_wait().unwrap().is_some());
        child.wait_with_output().unwrap()
    }

    /// Disconnects the cables of a host, or connects them again.
    pub(crate) fn set(&self, name: &str, state: &str) {
        for (interface, _) in self.addresses(name) {
            let words = ["link", "set", interface, state];
            self.host(name).ip(&words).unwrap();
        }
    }

    /// Returns the bytes that a host has sent over all its cables.
    pub(crate) fn sent(&self, name: &str) -> u64 {
        self.counted(name, 8)
    }

    /// Returns the bytes that a host has received.
    pub(crate) fn received(&self, name: &str) -> u64 {
        self.counted(name, 0)
    }

    fn counted(&self, name: &str, column: usize) -> u64 {
        let read = || fs::read_to_string("/proc/thread-self/net/dev").unwrap();
        let text = self.host(name).run(read).unwrap();
        let lines = text.lines().filter_map(|line| line.split_once(':'));
        let cables = lines.filter(|(interface, _)| interface.trim() != "lo");
        let values = cables.map(|(_, counts)| counts.split_whitespace().nth(column).unwrap());
        values.map(|value| value.parse::<u64>().unwrap()).sum()
    }
}

/// Waits until `holds` returns true, also for longer than the usual patience.
pub(crate) fn within(most: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let latest = Instant::now() + most;
    while !holds() {
        assert!(Instant::now() < latest, "waited in vain until {what}");
        thread::sleep(PACE);
    }
}
