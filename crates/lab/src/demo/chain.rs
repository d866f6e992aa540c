//! The nodes of one overlay, each a process, in a separate folder: a chain A-B-….
//!
//! ```text
//!   keys, certificates, configurations ─> spawn ─> wait until all links are up ─> calls ─> kill
//!                                           ^                                       │
//!                                           └──────── a node that was killed ───────┘
//! ```
//!
//! Each node runs as an operator would run it: `sinew node --config FILE`, with a certificate of a network that exists
//! for this run only. Dropping the chain ends the processes and removes the folder.

use super::DemoError;
use super::layout::{Layout, Way};
use crate::control;
use crate::files::{Scratch, write, write_secret};
use crate::ports;
use base::impair::Model;
use base::{Duration, NodeAddr, Time};
use net::Clock;
use secure::{Authority, Keys, Validity};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// How long to wait: a handshake lost at the highest loss is repeated within a second or so; a loaded machine takes
/// longer to start six processes.
const START_PATIENCE: Duration = Duration::from_secs(20);
/// How often the nodes are asked whether they are ready.
const ASK_EVERY: Duration = Duration::from_millis(50);
/// Number of attempts to start. Ports are free at the search but may be taken when a node opens them; then the start is
/// repeated with other ports.
const START_ATTEMPTS: u32 = 3;
/// A node that ends more often than this does not end by accident.
const RESTARTS_MAX: u32 = 20;
/// The network exists for minutes. Nodes warn 30 days before a certificate expires.
const CERTIFICATE_S: u64 = 60 * 86_400;
/// Number of lines of a node's log that an error shows.
const LOG_LINES: usize = 8;

/// The running chain.
#[derive(Debug)]
pub(crate) struct Chain {
    program: PathBuf,
    layout: &'static Layout,
    nodes: Vec<Process>,
    /// Number of restarts of nodes.
    restarts: u32,
    // This field is dropped last: it holds the nodes' files.
    dir: Scratch,
}

#[derive(Debug)]
struct Process {
    name: &'static str,
    child: Child,
}

/// The models of the chain's links, in both directions.
#[derive(Debug)]
pub(crate) struct Links {
    pub(crate) clean: Model,
    pub(crate) lossy: Model,
}

/// The parameters of a chain.
#[derive(Debug)]
pub(crate) struct Blueprint<'a> {
    pub(crate) layout: &'static Layout,
    pub(crate) way: &'static Way,
    pub(crate) links: &'a Links,
}

impl Chain {
    /// Starts the nodes and waits until the first has a route to the last.
    pub(crate) fn start(
        program: &Path,
        blueprint: &Blueprint<'_>,
        mut interrupted: impl FnMut() -> bool,
    ) -> Result<Chain, DemoError> {
        let mut attempt = 1;
        loop {
            let dir = Scratch::new("demo").map_err(|e| start_error("a temporary folder", &e))?;
            prepare(dir.path(), blueprint)?;
            let mut chain = Chain {
                program: program.to_owned(),
                layout: blueprint.layout,
                nodes: Vec::new(),
                restarts: 0,
                dir,
            };
            match chain
                .spawn_all()
                .and_then(|()| chain.wait_ready(&mut interrupted))
            {
                Ok(()) => return Ok(chain),
                Err(DemoError::Node { log, .. })
                    if log.contains("cannot listen") && attempt < START_ATTEMPTS =>
                {
                    attempt += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the clients' socket file of the first node, from which the calls start.
    pub(crate) fn first_socket(&self) -> PathBuf {
        self.dir.path().join(client_socket(self.layout.ends().0))
    }

    /// Returns the overlay address of the first node.
    pub(crate) fn first_address(&self) -> NodeAddr {
        address(0)
    }

    /// Returns the overlay address of the last node.
    pub(crate) fn last_address(&self) -> NodeAddr {
        address(self.layout.names.len() - 1)
    }

    /// Returns the clients' socket file of the last node, at which the calls end.
    pub(crate) fn last_socket(&self) -> PathBuf {
        self.dir.path().join(client_socket(self.layout.ends().1))
    }

    /// Returns the bytes that all nodes together have sent to each other since each was started.
    pub(crate) fn bytes_out(&self) -> Result<u64, DemoError> {
        let mut sum = 0;
        for node in &self.nodes {
            let status = control::snapshot(&self.dir.path().join(control_socket(node.name)));
            let status = status.map_err(|error| {
                self.node_error(
                    node.name,
                    format!("node {} does not answer: {error}", node.name),
                )
            })?;
            sum += control::bytes_out(&status);
        }
        Ok(sum)
    }

    /// Restarts nodes that have been killed, and returns which ones.
    ///
    /// # Errors
    /// Fails if a node ended by itself, or is killed repeatedly.
    pub(crate) fn revive(&mut self) -> Result<Vec<&'static str>, DemoError> {
        let mut revived = Vec::new();
        for i in 0..self.nodes.len() {
            let Some(status) = self.nodes[i].child.try_wait()? else {
                continue;
            };
            let name = self.nodes[i].name;
            self.restarts += 1;
            // A node that was killed has no exit code.
            if status.code().is_some() || self.restarts > RESTARTS_MAX {
                return Err(self.node_error(name, format!("node {name} has ended: {status}")));
            }
            self.nodes[i].child = self.spawn(name)?;
            revived.push(name);
        }
        Ok(revived)
    }

    /// Returns the number of restarts so far.
    pub(crate) fn restarts(&self) -> u32 {
        self.restarts
    }

    fn spawn_all(&mut self) -> Result<(), DemoError> {
        for name in self.layout.names {
            let child = self.spawn(name)?;
            self.nodes.push(Process { name, child });
        }
        Ok(())
    }

    fn spawn(&self, name: &'static str) -> Result<Child, DemoError> {
        let dir = self.dir.path();
        let log = File::options()
            .create(true)
            .append(true)
            .open(dir.join(log_file(name)))?;
        Command::new(&self.program)
            .arg("node")
            .arg("--config")
            .arg(dir.join(config_file(name)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(|e| start_error(&self.program.display().to_string(), &e))
    }

    fn wait_ready(&mut self, interrupted: &mut impl FnMut() -> bool) -> Result<(), DemoError> {
        let clock = Clock::new();
        let until = clock.now() + START_PATIENCE;
        loop {
            if interrupted() {
                return Err(DemoError::Interrupted);
            }
            let Some(waiting) = self.not_ready() else {
                return Ok(());
            };
            for i in 0..self.nodes.len() {
                let name = self.nodes[i].name;
                if let Some(status) = self.nodes[i].child.try_wait()? {
                    let what = format!("node {name} ended while it was started: {status}");
                    return Err(self.node_error(name, what));
                }
            }
            let now: Time = clock.now();
            if now >= until {
                let name = waiting;
                let what = format!(
                    "node {name} has no links or no route after {START_PATIENCE}: the machine may \
                     be overloaded, or a firewall stands in the way of UDP on 127.0.0.1"
                );
                return Err(self.node_error(name, what));
            }
            std::thread::sleep(std::time::Duration::from_nanos(ASK_EVERY.as_nanos()));
        }
    }

    /// Returns a node that is not ready yet; `None` if the calls can begin.
    fn not_ready(&self) -> Option<&'static str> {
        let names = self.layout.names;
        let ready = |i: usize, name: &str| {
            let Ok(status) = control::snapshot(&self.dir.path().join(control_socket(name))) else {
                return false;
            };
            let links = neighbors(i, names.len()).count();
            // Calls go in one direction, and their keep-alive packets in the other.
            let route = match i {
                0 => control::has_route(&status, &self.last_address().to_string()),
                _ if i == names.len() - 1 => {
                    control::has_route(&status, &self.first_address().to_string())
                }
                _ => true,
            };
            control::links_up(&status, links) && route
        };
        names
            .iter()
            .enumerate()
            .find(|&(i, name)| !ready(i, name))
            .map(|(_, name)| *name)
    }

    fn node_error(&self, name: &str, what: String) -> DemoError {
        let log = fs::read_to_string(self.dir.path().join(log_file(name))).unwrap_or_default();
        DemoError::Node {
            what,
            log: last_lines(&log),
        }
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            // This fails for a process that has already ended.
            let _ = node.child.kill();
        }
        for node in &mut self.nodes {
            let _ = node.child.wait();
        }
    }
}

/// Returns the overlay address of the `i`-th node.
fn address(i: usize) -> NodeAddr {
    NodeAddr(u32::from(Ipv4Addr::new(10, 7, 0, i as u8 + 1)))
}

fn neighbors(i: usize, nodes: usize) -> impl Iterator<Item = usize> {
    let before = i.checked_sub(1);
    before
        .into_iter()
        .chain(Some(i + 1).filter(move |&next| next < nodes))
}

/// Writes the nodes' files: the network, and for each node its keys, certificate and configuration.
fn prepare(dir: &Path, blueprint: &Blueprint<'_>) -> Result<(), DemoError> {
    let failed = |what: &str| DemoError::Start(what.to_owned());
    let mut authority = Authority::generate(&net::sched::entropy()?);
    let network = authority.network();
    put(dir, "network.pub", &network.to_text())?;
    let now_s = Clock::new().unix_s();
    let validity = Validity {
        not_before_s: now_s,
        not_after_s: now_s + CERTIFICATE_S,
    };
    let names = blueprint.layout.names;
    let own = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let free = |_| Ok(ports::free(own)?.port());
    let ports: Vec<u16> = names.iter().map(free).collect::<io::Result<_>>()?;
    for (i, name) in names.iter().enumerate() {
        let keys = Keys::generate(&entropy_64()?);
        let request = keys
            .request(network.id(), address(i), name, &[])
            .map_err(|error| failed(&error.to_string()))?;
        let certificate = authority
            .issue(&request, validity)
            .map_err(|error| failed(&error.to_string()))?;
        put_secret(dir, &format!("{name}.key"), &keys.to_text())?;
        put(dir, &format!("{name}.cert"), &certificate.to_text())?;
        put(dir, &config_file(name), &config(i, &ports, blueprint))?;
    }
    Ok(())
}

/// Returns the configuration of the `i`-th node. The earlier of two neighbours dials.
fn config(i: usize, ports: &[u16], blueprint: &Blueprint<'_>) -> String {
    let Blueprint { layout, way, links } = blueprint;
    let name = layout.names[i];
    let mut text = format!(
        "certificate = \"{name}.cert\"\nkey = \"{name}.key\"\nnetwork = \"network.pub\"\n\
         listen = [\"127.0.0.1:{}\"]\nclient_socket = \"{}\"\ncontrol_socket = \"{}\"\n\
         lab = true\n",
        ports[i],
        client_socket(name),
        control_socket(name),
    );
    if !way.settings.is_empty() {
        let _ = writeln!(text, "\n[settings]\n{}", way.settings);
    }
    for n in neighbors(i, layout.names.len()) {
        let hop = n.min(i);
        let model = if hop == layout.lossy_hop {
            &links.lossy
        } else {
            &links.clean
        };
        let _ = write!(
            text,
            "\n[[neighbor]]\nname = \"{}\"\naddress = \"{}\"\nimpair = \"{model}\"\n",
            layout.names[n],
            address(n),
        );
        if n > i {
            let _ = writeln!(text, "endpoint = \"127.0.0.1:{}\"", ports[n]);
        }
    }
    text
}

fn entropy_64() -> io::Result<[u8; 64]> {
    let mut bytes = [0; 64];
    for half in bytes.chunks_mut(32) {
        half.copy_from_slice(&net::sched::entropy()?);
    }
    Ok(bytes)
}

fn put(dir: &Path, name: &str, text: &str) -> Result<(), DemoError> {
    write(&dir.join(name), text.as_bytes()).map_err(|e| start_error(name, &e))
}

/// Writes a file that only its owner may read: a node refuses any other key file.
fn put_secret(dir: &Path, name: &str, text: &str) -> Result<(), DemoError> {
    write_secret(&dir.join(name), text).map_err(|e| start_error(name, &e))
}

fn start_error(what: &str, error: &io::Error) -> DemoError {
    DemoError::Start(format!("{what}: {error}"))
}

fn config_file(name: &str) -> String {
    format!("{name}.toml")
}

fn client_socket(name: &str) -> String {
    format!("{name}.sock")
}

fn control_socket(name: &str) -> String {
    format!("{name}.control")
}

fn log_file(name: &str) -> String {
    format!("{name}.log")
}

fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    let from = lines.len().saturating_sub(LOG_LINES);
    lines[from..]
        .iter()
        .map(|line| format!("\n  | {line}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::layout::{CHAIN, LONG};

    fn blueprint<'a>(layout: &'static Layout, links: &'a Links) -> Blueprint<'a> {
        let way = &layout.overlays()[0];
        Blueprint { layout, way, links }
    }

    fn clean() -> Links {
        let clean: Model = "clean".parse().unwrap();
        Links {
            clean: clean.clone(),
            lossy: clean,
        }
    }

    #[test]
    fn each_link_stands_in_both_configurations_and_is_dialled_once() {
        let links = Links {
            clean: "delay=10ms".parse().unwrap(),
            lossy: "delay=10ms loss=5% burst=25%".parse().unwrap(),
        };
        let ports = [1, 2, 3, 4, 5, 6];
        let texts: Vec<String> = (0..6)
            .map(|i| config(i, &ports, &blueprint(&CHAIN, &links)))
            .collect();
        let count = |text: &str, word: &str| text.matches(word).count();
        let all = texts.concat();
        assert_eq!(count(&all, "[[neighbor]]"), 10);
        assert_eq!(count(&all, "endpoint"), 5);
        assert_eq!(count(&all, "loss=5% burst=25%"), 2);
        assert!(texts[2].contains("address = \"10.7.0.4\"\nimpair = \"loss=5% burst=25% delay=10ms\"\nendpoint = \"127.0.0.1:4\""));
        assert!(
            texts[3]
                .contains("address = \"10.7.0.3\"\nimpair = \"loss=5% burst=25% delay=10ms\"\n\n")
        );
        assert_eq!(count(&texts[0], "[[neighbor]]"), 1);
        assert_eq!(count(&texts[5], "endpoint"), 0);
        assert_eq!(count(&all, "[settings]"), 0);
    }

    #[test]
    fn the_settings_of_a_way_stand_in_the_configuration_of_each_of_its_nodes() {
        let links = clean();
        for i in 0..2 {
            let text = config(i, &[1, 2], &blueprint(&LONG, &links));
            let settings = "\n[settings]\nprotect = \"requests\"\n\n[[neighbor]]";
            assert_eq!(text.matches(settings).count(), 1, "{text}");
        }
    }

    #[test]
    fn certificates_are_of_the_one_network() {
        let dir = Scratch::new("chain").unwrap();
        prepare(dir.path(), &blueprint(&CHAIN, &clean())).unwrap();
        let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
        let network = secure::Network::from_text(&read("network.pub")).unwrap();
        for (i, name) in CHAIN.names.iter().enumerate() {
            let certificate =
                secure::Certificate::from_text(&read(&format!("{name}.cert"))).unwrap();
            let peer = network.verify(&certificate, Clock::new().unix_s()).unwrap();
            assert_eq!((peer.address(), peer.name()), (address(i), *name));
            let keys = Keys::from_text(&read(&format!("{name}.key"))).unwrap();
            secure::Identity::new(keys, certificate).unwrap();
        }
    }

    #[test]
    fn a_program_that_is_no_node_is_told_with_its_last_words() {
        let links = clean();
        let blueprint = blueprint(&CHAIN, &links);
        let started = |program: &str| Chain::start(Path::new(program), &blueprint, || false);
        let error = started("/nonexistent/sinew").unwrap_err().to_string();
        assert!(error.contains("/nonexistent/sinew"), "{error}");
        // The program reports the word `node` as a missing file.
        let error = started("/bin/ls").unwrap_err().to_string();
        assert!(
            error.contains("ended while it was started") && error.contains("\n  | "),
            "{error}"
        );
        assert!(matches!(
            Chain::start(Path::new("/bin/cat"), &blueprint, || true),
            Err(DemoError::Interrupted)
        ));
    }
}
