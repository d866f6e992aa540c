//! `sinew reload` and SIGHUP: a running node reads its files again, applies the changes that are possible while it
//! runs, and reports the changes that take effect at its next start. A file with a mistake changes nothing.
//!
//! ```text
//!   taken                                       at the next start
//!   log_file (opened again), log_level          everything else in the configuration
//!   network: root keys that are not known
//!   certificate, revocations: newer ones
//!   [[neighbor]]: new ones, endpoint,
//!     tcp, capacity, hops, impair,
//!     congestion, flows, random_losses, first;
//!     those that are listed no more
//!   [[group]], [[exit]], map_port
//!   [relay] transfers, probe, allow
//! ```
//! The same signal comes when the terminal closes from which the node was started. Then the node stops.

use super::ready::count;
use super::{as_neighbor, first_of, limits, names, targets};
use crate::config::{Config, Neighbor};
use crate::exits::Serving;
use crate::failure::Failure;
use base::NodeAddr;
use host::Commander;
use host::control::{Reload, Reloaded};
use host::log::Lines;
use host::mapping::Wishes;
use host::notify::Notify;
use host::resolve::Resolver;
use host::tunnel::Dialler;
use net::epoll::{Interest, Poller, Ready, Waker};
use net::signals::Hangup;
use overlay::request::{Operation, RequestError};
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

const TOKEN_HANGUP: u64 = 0;
const TOKEN_WAKER: u64 = 1;

/// Keys that the node applies while it runs. All other keys take effect at its next start.
const TAKEN: [&str; 6] = [
    "log_level",
    "log_file",
    "neighbor",
    "group",
    "exit",
    "map_port",
];
/// Keys of `[relay]` that the node applies while it runs.
const TAKEN_OF_RELAY: [&str; 3] = ["transfers", "probe", "allow"];

/// The thread that waits for the signal. Dropping this value ends it.
#[derive(Debug)]
pub(super) struct Reloader {
    thread: Option<JoinHandle<()>>,
    stopping: Arc<AtomicBool>,
    waker: Waker,
}

/// The state of the running node that a reload uses.
pub(super) struct Running {
    /// The configuration file.
    pub(super) path: PathBuf,
    /// The configuration in force.
    pub(super) config: Config,
    /// The node's address.
    pub(super) address: NodeAddr,
    /// The event loop.
    pub(super) commander: Commander,
    /// The log.
    pub(super) lines: Lines,
    /// The service manager.
    pub(super) notify: Notify,
    /// The thread that looks up the names of neighbours.
    pub(super) resolver: Option<Resolver>,
    /// The thread that dials neighbours by TCP if UDP is blocked.
    pub(super) dialler: Option<Dialler>,
    /// The node's exits, if it has a socket for clients.
    pub(super) exits: Option<Serving>,
    /// The wishes for a port mapping.
    pub(super) mapping: Wishes,
}

/// The state behind a lock, so that only one thread at a time reloads.
pub(super) type Shared = Arc<Mutex<Running>>;

/// Returns the reload that the operator can request.
pub(super) fn asked(running: &Shared) -> Reload {
    let running = Arc::clone(running);
    Reload(Arc::new(move || lock(&running).reload()))
}

fn lock(running: &Shared) -> MutexGuard<'_, Running> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Reloader {
    /// Waits for the signal.
    pub(super) fn start(hangup: Hangup, running: Shared) -> io::Result<Reloader> {
        let (mut poller, waker) = (Poller::new()?, Waker::new()?);
        poller.add(&hangup, TOKEN_HANGUP, Interest::READ)?;
        poller.add(&waker, TOKEN_WAKER, Interest::READ)?;
        let stopping = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&stopping);
        // Standard error is a terminal until the terminal closes.
        let had_terminal = io::stderr().is_terminal();
        let wait = move || {
            let mut ready: Vec<Ready> = Vec::new();
            while !stop.load(Ordering::Acquire) && poller.wait(None, &mut ready).is_ok() {
                if hangup.take() == 0 {
                    continue;
                }
                if had_terminal && !io::stderr().is_terminal() {
                    // If the loop has ended already, there is nothing to stop.
                    let _ = lock(&running).commander.stop();
                    continue;
                }
                // The log reports the result.
                let _ = lock(&running).reload();
            }
        };
        let thread = std::thread::Builder::new().name("reload".into());
        Ok(Reloader {
            thread: Some(thread.spawn(wait)?),
            stopping,
            waker,
        })
    }
}

impl Drop for Reloader {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // The thread has reported its own panic.
            let _ = thread.join();
        }
    }
}

impl Running {
    fn reload(&mut self) -> Result<Reloaded, String> {
        self.notify.reloading();
        // This comes first, so that later lines are in the new file.
        let reopened = self.open_log();
        let path = self.path.display().to_string();
        let taken = self.take().map_err(|why| why.text().to_owned());
        match &taken {
            Ok(changes) => {
                let list = |what: &str, list: &[String]| match list {
                    [] => String::new(),
                    list => format!("; {what}: {}", list.join(", ")),
                };
                let text = format!(
                    "read {path} again{}{}{}",
                    list("taken", &changes.taken),
                    list("takes effect at the next start", &changes.later),
                    list("NOT TAKEN", &changes.refused),
                );
                match changes.refused.is_empty() {
                    true => self.lines.say(&text),
                    false => self.lines.error(&text),
                }
            }
            Err(why) => self.lines.error(&format!(
                "{path} is not taken, and the node goes on as before: {why}"
            )),
        }
        if let Err(why) = &reopened {
            self.lines.error(why);
        }
        let links = self.commander.status().map(|status| status.snapshot.links);
        self.notify.ready(&count(&links.unwrap_or_default()));
        taken.map(|mut changes| {
            changes.refused.extend(reopened.err());
            changes
        })
    }

    /// Opens the file that has the log's name now.
    fn open_log(&self) -> Result<(), String> {
        let Some(path) = &self.config.log_file else {
            return Ok(());
        };
        let appended = self.lines.append_to(path);
        appended.map_err(|error| format!("cannot write {}: {error}", path.display()))
    }

    /// Reads all files, and then applies what can be applied.
    fn take(&mut self) -> Result<Reloaded, Failure> {
        let mut config = Config::load(&self.path).map_err(Failure::misused)?;
        let (identity, network) = super::start::credentials(&config)?;
        super::start::check_neighbors(&self.path, &config, &identity)?;
        if identity.address() != self.address {
            return Err(Failure::misused(format_args!(
                "the certificate is for {}, and this node is {}",
                identity.address(),
                self.address
            )));
        }
        let mut changes = Reloaded::default();
        self.take_log(&config, &mut changes);
        let status = self.commander.status().map_err(Failure::failed)?;
        // This comes first, because the new root key may have signed the files below.
        if network.root_number() > status.snapshot.root {
            let succeed = Operation::Succeed(network.chain_bytes());
            let what = format!("root key {}", network.root_number());
            self.operate(succeed, what, &mut changes);
        }
        let serial = identity.certificate().fields().serial;
        if serial != status.snapshot.certificate_serial {
            let renew = Operation::Renew(Box::new(identity));
            self.operate(renew, format!("certificate {serial}"), &mut changes);
        }
        let snapshot = &status.snapshot;
        let known = (snapshot.revocations_root, snapshot.revocations_version);
        let list = network.revocations();
        if let Some(list) = list.filter(|_| network.revocations_edition() > known) {
            let revoke = Operation::Revoke(list.as_bytes().to_vec());
            let what = format!("revocations, version {}", list.fields().version);
            self.operate(revoke, what, &mut changes);
        }
        self.take_neighbors(&config, &mut changes);
        self.take_groups(&config, &mut changes)?;
        self.take_exits(&mut config, &mut changes);
        self.take_limits(&mut config, &mut changes);
        if config.map_port != self.config.map_port {
            self.mapping.set(config.map_port);
            changes.taken.push("map_port".to_owned());
        }
        changes.later.extend(later(&self.config, &config));
        for key in later(&self.config, &config) {
            // The old value stays, so that the next reload reports the key again.
            let before = self.config.written.get(&key).cloned();
            match before {
                Some(before) => config.written.insert(key, before),
                None => config.written.remove(&key),
            };
        }
        config.listen = self.config.listen.clone();
        self.config = config;
        Ok(changes)
    }

    fn take_log(&mut self, config: &Config, changes: &mut Reloaded) {
        if config.log_level != self.config.log_level {
            self.lines.set_level(config.log_level.unwrap_or_default());
            changes.taken.push("log_level".to_owned());
        }
        if config.log_file == self.config.log_file {
            if config.log_file.is_some() {
                changes.taken.push("log_file, opened again".to_owned());
            }
            return;
        }
        let before = core::mem::replace(&mut self.config.log_file, config.log_file.clone());
        match (self.open_log(), &config.log_file) {
            (Err(why), _) => {
                self.config.log_file = before;
                changes.refused.push(why);
            }
            (Ok(()), Some(_)) => changes.taken.push("log_file".to_owned()),
            (Ok(()), None) => {
                self.lines.to_standard_error();
                changes.taken.push("log_file: standard error".to_owned());
            }
        }
    }

    fn take_neighbors(&mut self, config: &Config, changes: &mut Reloaded) {
        let listen = self.config.listen.clone();
        let old = core::mem::take(&mut self.config.neighbors);
        let before = |address: NodeAddr| old.iter().find(|n| n.address == address);
        for neighbor in &config.neighbors {
            let address = neighbor.address;
            let known = before(address);
            if known.is_some_and(|known| is_same(known, neighbor)) {
                continue;
            }
            let meet = Operation::Meet(as_neighbor(neighbor, &listen));
            self.operate(meet, format!("neighbor {}", neighbor.name), changes);
            let what = |key: &str| format!("{key} of {}", neighbor.name);
            if known.and_then(|known| known.hops) != neighbor.hops {
                let hops = Operation::Hops {
                    neighbor: address,
                    hops: neighbor.hops,
                };
                self.operate(hops, what("hops"), changes);
            }
            if known.and_then(|known| known.impair.clone()) != neighbor.impair {
                let impair = Operation::Impair {
                    neighbor: address,
                    model: neighbor.impair.clone(),
                };
                self.operate(impair, what("impair"), changes);
            }
        }
        let kept = |n: &Neighbor| config.neighbors.iter().any(|k| k.address == n.address);
        for gone in old.iter().filter(|n| !kept(n)) {
            let what = format!("neighbour {} is listed no more", gone.name);
            self.operate(Operation::Part(gone.address), what, changes);
        }
        if let Some(first) = first_now(&old, &config.neighbors) {
            self.operate(Operation::First(first), "first neighbours".into(), changes);
        }
        for neighbor in &config.neighbors {
            let known = before(neighbor.address);
            if known.is_some_and(|known| known.tcp != neighbor.tcp) {
                changes.taken.push(format!("tcp of {}", neighbor.name));
            }
        }
        if let Some(dialler) = &self.dialler {
            dialler.set(targets(config));
        }
        let names = names(config, &listen);
        self.resolver = None;
        if !names.is_empty() {
            let (commander, lines) = (self.commander.clone(), self.lines.clone());
            match Resolver::start(names, listen, commander, lines) {
                Ok(resolver) => self.resolver = Some(resolver),
                Err(error) => changes
                    .refused
                    .push(format!("names of neighbours: {error}")),
            }
        }
    }

    fn take_groups(&mut self, config: &Config, changes: &mut Reloaded) -> Result<(), Failure> {
        for group in &config.groups {
            if !self.config.groups.contains(group) {
                let wanted = group.wanted();
                let mut operations = wanted.operations().map_err(Failure::misused)?;
                let says_how = |one: &Operation| matches!(one, Operation::SetGroup { .. });
                if !operations.iter().any(says_how) {
                    // An earlier configuration may have set how the group is carried.
                    let back = wanted.taken_back().map_err(Failure::misused)?;
                    operations.extend(back.into_iter().filter(says_how));
                }
                for operation in operations {
                    self.operate(operation, format!("group {}", group.address), changes);
                }
            }
        }
        for gone in &self.config.groups {
            if !config.groups.iter().any(|g| g.address == gone.address) {
                for operation in gone.wanted().taken_back().map_err(Failure::misused)? {
                    let what = format!("group {} is no more set", gone.address);
                    self.operate(operation, what, changes);
                }
            }
        }
        Ok(())
    }

    fn take_exits(&self, config: &mut Config, changes: &mut Reloaded) {
        let before = &self.config.exits;
        if *before == config.exits {
            return;
        }
        let Some(serving) = &self.exits else {
            let why = "`[[exit]]` needs `client_socket`, and a restart";
            config.exits.clone_from(before);
            return changes.refused.push(why.to_owned());
        };
        for change in serving.change(before, &mut config.exits) {
            match change {
                Ok(what) => changes.taken.push(what),
                Err(why) => changes.refused.push(why),
            }
        }
    }

    /// Applies the limits for new transfers.
    fn take_limits(&self, config: &mut Config, changes: &mut Reloaded) {
        let (before, now) = (&self.config.relay, &mut config.relay);
        if (before.transfers == 0) != (now.transfers == 0) {
            // The service cannot be started or stopped while the node runs.
            changes.later.push("relay".to_owned());
            now.transfers = before.transfers;
        }
        let changed = [
            ("transfers", before.transfers != now.transfers),
            ("probe", before.probe != now.probe),
            ("allow", before.allow != now.allow),
        ];
        let changed = changed.iter().filter(|(_, is_other)| *is_other);
        let changed: Vec<String> = changed.map(|(key, _)| format!("{key} of relay")).collect();
        if changed.is_empty() {
            return;
        }
        match self.commander.limit_bulk(limits(now)) {
            true => changes.taken.extend(changed),
            false => changes
                .refused
                .push("limits of relay: there is no bulk data".to_owned()),
        }
    }

    fn operate(&self, operation: Operation, what: String, changes: &mut Reloaded) {
        let done: Result<Result<(), RequestError>, _> = self.commander.operate(operation);
        match done {
            Ok(Ok(())) => changes.taken.push(what),
            Ok(Err(why)) => changes.refused.push(format!("{what}: {why}")),
            Err(why) => changes.refused.push(format!("{what}: {why}")),
        }
    }
}

/// Returns the changed keys that take effect at the next start.
fn later(before: &Config, now: &Config) -> Vec<String> {
    let (before, now) = (&before.written, &now.written);
    let mut keys: Vec<&String> = before.keys().chain(now.keys()).collect();
    keys.sort_unstable();
    keys.dedup();
    keys.retain(|key| !TAKEN.contains(&key.as_str()) && waits(before, key) != waits(now, key));
    keys.into_iter().cloned().collect()
}

/// Returns the part of a key's value that takes effect at the next start.
fn waits(written: &toml::Table, key: &str) -> Option<toml::Value> {
    if key != "relay" {
        return written.get(key).cloned();
    }
    let relay = written.get(key).and_then(toml::Value::as_table);
    let mut relay = relay.cloned().unwrap_or_default();
    relay.retain(|key, _| !TAKEN_OF_RELAY.contains(&key));
    Some(relay.into())
}

/// Returns the neighbours by which the node enters the network, if they have changed. The engine treats a new neighbour
/// as configured by hand until it gets this list.
fn first_now(before: &[Neighbor], now: &[Neighbor]) -> Option<Vec<NodeAddr>> {
    let first = first_of(now);
    (first != first_of(before)).then_some(first)
}

/// Returns true if no value of the neighbour has changed that can be applied.
fn is_same(a: &Neighbor, b: &Neighbor) -> bool {
    let shown = |n: &Neighbor| {
        (
            n.endpoints.clone(),
            n.capacity,
            n.hops,
            n.reliable(),
            n.impair.as_ref().map(ToString::to_string),
        )
    };
    shown(a) == shown(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(more: &str) -> Config {
        let dir = crate::testing::directory("reload");
        let path = dir.join("node.toml");
        let text = format!(
            "certificate = 'a'\nkey = 'b'\nnetwork = 'c'\nlisten = ['127.0.0.1:7700']\n{more}"
        );
        std::fs::write(&path, text).unwrap();
        let config = Config::load(&path).unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        config
    }

    #[test]
    fn what_cannot_change_while_a_node_runs_is_named() {
        let before = config("dscp = true\nlog_level = 'info'\n");
        let now = config("metrics = '127.0.0.1:9700'\nlog_level = 'error'\n");
        assert_eq!(later(&before, &now), ["dscp", "metrics"]);
        assert_eq!(later(&now, &now), [] as [&str; 0]);
    }

    #[test]
    fn limits_of_bulk_data_do_not_wait_and_its_directories_do() {
        let before = config("[relay]\ntransfers = 4\n");
        let now = config("[relay]\ntransfers = 8\nprobe = 0\nallow = ['10.1.0.0/16:7700']\n");
        assert_eq!(later(&before, &now), [] as [&str; 0]);
        assert_eq!(later(&config(""), &now), [] as [&str; 0]);
        let now = config("[relay]\nroots = ['data']\n");
        assert_eq!(later(&before, &now), ["relay"]);
    }

    #[test]
    fn by_whom_a_node_enters_is_told_when_it_changes() {
        let of = |first: [bool; 2]| {
            let [b, c] = first;
            let neighbors = format!(
                "[[neighbor]]\nname = 'b'\naddress = '10.7.0.2'\nfirst = {b}\n\
                 [[neighbor]]\nname = 'c'\naddress = '10.7.0.3'\nfirst = {c}\n"
            );
            config(&neighbors).neighbors
        };
        let (b, c) = ("10.7.0.2".parse().unwrap(), "10.7.0.3".parse().unwrap());
        let told = |before, now| first_now(&of(before), &of(now));
        assert_eq!(told([true, false], [true, false]), None);
        assert_eq!(told([true, false], [true, true]), Some(vec![b, c]));
        assert_eq!(told([true, true], [false, true]), Some(vec![c]));
        assert_eq!(told([false, true], [false, false]), Some(vec![]));
        assert_eq!(first_now(&[], &of([true, false])), Some(vec![b]));
    }

    #[test]
    fn how_a_reliable_lane_behaves_is_a_change_of_its_neighbor_alone() {
        let of = |more: &str| {
            let neighbors = format!(
                "[[neighbor]]\nname = 'b'\naddress = '10.7.0.2'\n{more}\n\
                 [[neighbor]]\nname = 'c'\naddress = '10.7.0.3'\n"
            );
            config(&neighbors).neighbors
        };
        let before = of("");
        for more in ["congestion = 'bbr'", "flows = 4", "random_losses = 'cut'"] {
            let now = of(more);
            assert!(!is_same(&before[0], &now[0]), "{more}");
            assert!(is_same(&before[1], &now[1]), "{more}");
        }
        let now = of("congestion = 'bbr'\nflows = 4\nrandom_losses = 'cut'");
        let told = as_neighbor(&now[0], &[]).reliable;
        assert_eq!(told.family, Some(overlay::reliable::Family::Bbr));
        assert_eq!(
            (told.flows_max, told.spares_random_losses),
            (Some(4), Some(false))
        );
        assert_eq!(as_neighbor(&now[1], &[]).reliable, Default::default());
    }
}
