//! Nodes as processes, run as an operator would run them, with certificates of a network that exists for this run only.
//! Dropping the fleet ends the nodes, unless they were left running, and removes their files, unless the caller
//! provided the folder.
//!
//! ```text
//!   keys, certificate, configuration ─> spawn, pinned, in its network ─> wait ─> ... ─> kill
//! ```

use super::credentials::{Issuer, address, name};
use super::usage::{self, Usage};
use super::{BenchError, go_on};
use crate::control;
use crate::files::{Scratch, write, write_secret};
use crate::scenario::ReliableLinks;
use base::impair::Model;
use base::{Duration, NodeAddr};
use net::netns::Namespace;
use net::{Clock, signals};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tools::interrupt::Interrupt;

/// How long to wait: sessions, links and routes take a second; a loaded machine takes longer to start processes.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often nodes are asked whether they are ready.
const ASK_EVERY: std::time::Duration = std::time::Duration::from_millis(50);
/// Number of nodes with default names and addresses.
const MEMBERS: usize = 26;
/// Number of lines of a node's log that an error shows.
const LOG_LINES: usize = 8;

/// How to run a node.
pub(crate) struct Spec<'a> {
    /// The address at which it listens.
    pub(crate) listen: SocketAddr,
    /// Its neighbours.
    pub(crate) neighbors: Vec<Beside>,
    /// The processor that it is confined to.
    pub(crate) cpu: Option<usize>,
    /// The network namespace in which it runs; `None` for this process's own.
    pub(crate) inside: Option<&'a Namespace>,
    /// Whether it requests real-time priority.
    pub(crate) realtime: bool,
    /// Whether it has the papers' timers and thresholds.
    pub(crate) paper: bool,
    /// Settings that differ from the profile's.
    pub(crate) settings: &'a [(String, String)],
    /// The settings of its reliable links.
    pub(crate) reliable: ReliableLinks,
    /// The multicast bridge in it: the TAP interface that it makes, and that interface's address.
    pub(crate) bridge: Option<(&'a str, Ipv4Addr)>,
    /// Most transfers of bulk data at the same time; `None` for the node's default.
    pub(crate) transfers: Option<usize>,
}

/// A neighbour of a node.
pub(crate) struct Beside {
    /// The neighbour's index.
    pub(crate) index: usize,
    /// The address to dial.
    pub(crate) dial: Option<SocketAddr>,
    /// The impairments of the path to it.
    pub(crate) impair: Option<Model>,
}

/// Node processes and their network.
pub(crate) struct Fleet {
    program: PathBuf,
    processes: Vec<Process>,
    pub(crate) issuer: Issuer,
    members: Vec<Member>,
    folder: PathBuf,
    // This field is dropped last: it holds the nodes' files.
    scratch: Option<Scratch>,
}

/// A member of the network.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) address: NodeAddr,
    /// The first part of its files' names.
    pub(crate) stem: String,
}

/// One node.
pub(crate) struct Process {
    index: usize,
    /// `None` after it was ended.
    child: Option<Child>,
    member: Member,
    dir: PathBuf,
}

impl Member {
    /// Creates a member whose files have its name, or its number if the name is not a good file name.
    pub(crate) fn new(index: usize, name: &str, address: NodeAddr) -> Member {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let is_plain = !name.starts_with('.') && name.chars().all(plain);
        Member {
            name: name.to_owned(),
            address,
            stem: match is_plain {
                true => name.to_owned(),
                false => format!("node-{index}"),
            },
        }
    }
}

impl Fleet {
    /// Creates a fleet without running nodes, with names and addresses for some. `program` is run as `PROGRAM node
    /// --config FILE`; `None` for the running one.
    pub(crate) fn new(program: Option<&Path>) -> Result<Fleet, BenchError> {
        let program = match program {
            Some(program) => program.to_owned(),
            None => tools::program::path()?,
        };
        let members = (0..MEMBERS).map(|i| Member::new(i, &name(i), address(i)));
        Fleet::of(program, members.collect(), None)
    }

    /// Creates a fleet without running nodes. Their files are in `folder`, or in one that is removed with the fleet.
    pub(crate) fn of(
        program: PathBuf,
        members: Vec<Member>,
        folder: Option<&Path>,
    ) -> Result<Fleet, BenchError> {
        let (folder, scratch) = match folder {
            Some(folder) => (folder.to_owned(), None),
            None => {
                let scratch = Scratch::new("bench")?;
                (scratch.path().to_owned(), Some(scratch))
            }
        };
        let issuer = Issuer::new(Clock::new().unix_s())?;
        let network = issuer.network().to_text();
        write(&folder.join("network.pub"), network.as_bytes())?;
        Ok(Fleet {
            program,
            processes: Vec::new(),
            issuer,
            members,
            folder,
            scratch,
        })
    }

    /// Starts node `index`.
    pub(crate) fn start(&mut self, index: usize, spec: &Spec<'_>) -> Result<(), BenchError> {
        let member = self.members[index].clone();
        let identity = self.issuer.identity_of(&member.name, member.address)?;
        let put = |suffix: &str, text: &str| self.put(&member, suffix, text);
        let key = self.folder.join(format!("{}.key", member.stem));
        write_secret(&key, &identity.keys().to_text())?;
        put("cert", &identity.certificate().to_text())?;
        put("toml", &self.config(index, spec))?;
        let child = self.spawn(&member, spec)?;
        self.processes.push(Process {
            index,
            child: Some(child),
            member,
            dir: self.folder.clone(),
        });
        Ok(())
    }

    /// Kills node `index` without notice.
    pub(crate) fn kill(&mut self, index: usize) -> Result<(), BenchError> {
        let process = self.processes.iter_mut().find(|one| one.index == index);
        if let Some(mut child) = process.and_then(|process| process.child.take()) {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// Restarts a node that was started before with the same keys; it may still run.
    pub(crate) fn restart(&mut self, index: usize, spec: &Spec<'_>) -> Result<(), BenchError> {
        self.kill(index)?;
        let member = self.members[index].clone();
        self.put(&member, "toml", &self.config(index, spec))?;
        let child = self.spawn(&member, spec)?;
        let process = self.processes.iter_mut().find(|one| one.index == index);
        process.expect("only nodes that were started").child = Some(child);
        Ok(())
    }

    /// Stops node `index` until [`Fleet::resume`], as if its machine did other work. Does nothing if the node does not
    /// run.
    pub(crate) fn stop(&self, index: usize) -> Result<(), BenchError> {
        match self.node(index).id() {
            Ok(pid) => Ok(signals::stop(pid)?),
            Err(_) => Ok(()),
        }
    }

    /// Lets a node continue.
    pub(crate) fn resume(&self, index: usize) -> Result<(), BenchError> {
        match self.node(index).id() {
            Ok(pid) => Ok(signals::resume(pid)?),
            Err(_) => Ok(()),
        }
    }

    /// Returns all nodes that were started.
    pub(crate) fn nodes(&self) -> &[Process] {
        &self.processes
    }

    /// Leaves the nodes running, and their files in place.
    pub(crate) fn leave(mut self) {
        self.processes.clear();
        if let Some(scratch) = self.scratch.take() {
            scratch.keep();
        }
    }

    fn put(&self, member: &Member, suffix: &str, text: &str) -> Result<(), BenchError> {
        let path = self.folder.join(format!("{}.{suffix}", member.stem));
        Ok(write(&path, text.as_bytes())?)
    }

    /// Returns node `index`, which must have been started.
    pub(crate) fn node(&self, index: usize) -> &Process {
        let found = self.processes.iter().find(|process| process.index == index);
        found.expect("only nodes that were started are asked for")
    }

    /// Waits until `ready` holds for every node's state.
    pub(crate) fn wait(
        &mut self,
        interrupt: &Interrupt,
        ready: impl Fn(usize, &Value) -> bool,
    ) -> Result<(), BenchError> {
        let clock = Clock::new();
        let until = clock.now() + PATIENCE;
        loop {
            go_on(interrupt)?;
            let waiting = self.processes.iter().find(|process| {
                process.child.is_some()
                    && process
                        .snapshot()
                        .map_or(true, |status| !ready(process.index, &status))
            });
            let Some(waiting) = waiting.map(|process| process.index) else {
                return Ok(());
            };
            self.check()?;
            if clock.now() >= until {
                return Err(self
                    .node(waiting)
                    .error("has no links or no route after 20 s"));
            }
            std::thread::sleep(ASK_EVERY);
        }
    }

    /// Fails if a node has ended.
    pub(crate) fn check(&mut self) -> Result<(), BenchError> {
        for process in &mut self.processes {
            let status = process.child.as_mut().map(Child::try_wait).transpose()?;
            if let Some(status) = status.flatten() {
                return Err(process.error(&format!("has ended: {status}")));
            }
        }
        Ok(())
    }

    fn spawn(&self, member: &Member, spec: &Spec<'_>) -> Result<Child, BenchError> {
        let file = |suffix: &str| self.folder.join(format!("{}.{suffix}", member.stem));
        let mut command = match spec.inside {
            Some(namespace) => namespace.command(&self.program.to_string_lossy())?,
            None => Command::new(&self.program),
        };
        let log = File::options()
            .create(true)
            .append(true)
            .open(file("log"))?;
        command
            .arg("node")
            .arg("--config")
            .arg(file("toml"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            // Only the program that started the nodes must handle Ctrl-C.
            .process_group(0);
        // A process inherits the processors and the network of the thread that starts it.
        let cpu = spec.cpu;
        let started = std::thread::scope(|scope| {
            let starter = scope.spawn(move || {
                if let Some(cpu) = cpu {
                    net::sched::pin(cpu)?;
                }
                command.spawn()
            });
            starter
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("the thread panicked")))
        });
        started.map_err(|error| BenchError::Start(format!("{}: {error}", self.program.display())))
    }
}

impl Process {
    /// Returns what it has used.
    pub(crate) fn usage(&self) -> io::Result<Usage> {
        Usage::of(self.id()?)
    }

    /// Returns the bytes of memory that it has in use.
    pub(crate) fn resident_bytes(&self) -> io::Result<u64> {
        usage::resident_bytes(self.id()?)
    }

    /// Returns its process id, if it runs.
    pub(crate) fn id(&self) -> io::Result<u32> {
        let child = self.child.as_ref();
        child
            .map(Child::id)
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Returns the member that it is.
    pub(crate) fn member(&self) -> &Member {
        &self.member
    }

    /// Returns its operator's socket file.
    pub(crate) fn control_socket(&self) -> PathBuf {
        self.file("control")
    }

    fn file(&self, suffix: &str) -> PathBuf {
        self.dir.join(format!("{}.{suffix}", self.member.stem))
    }

    /// Returns its state.
    pub(crate) fn snapshot(&self) -> io::Result<Value> {
        control::snapshot(&self.control_socket())
    }

    /// Returns its clients' socket file.
    pub(crate) fn client_socket(&self) -> PathBuf {
        self.file("sock")
    }

    /// Makes an error from what is wrong with it, with the end of its log.
    pub(crate) fn error(&self, what: &str) -> BenchError {
        let log = fs::read_to_string(self.file("log"));
        let log = log.unwrap_or_default();
        let mut text = format!("node {} {what}", self.member.name);
        let lines: Vec<&str> = log.lines().collect();
        for line in &lines[lines.len().saturating_sub(LOG_LINES)..] {
            let _ = write!(text, "\n  {line}");
        }
        BenchError::Start(text)
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for process in &mut self.processes {
            // This fails for a process that has already ended.
            let _ = process.child.as_mut().map(Child::kill);
        }
        for process in &mut self.processes {
            let _ = process.child.as_mut().map(Child::wait);
        }
    }
}

impl Fleet {
    /// Returns the configuration of node `index`.
    fn config(&self, index: usize, spec: &Spec<'_>) -> String {
        let stem = &self.members[index].stem;
        let profile = if spec.paper { "paper" } else { "modern" };
        let mut text = format!(
            "certificate = \"{stem}.cert\"\nkey = \"{stem}.key\"\nnetwork = \"network.pub\"\n\
             listen = [\"{}\"]\nclient_socket = \"{stem}.sock\"\n\
             control_socket = \"{stem}.control\"\nlab = true\nrealtime_priority = {}\n\
             profile = \"{profile}\"\n",
            spec.listen, spec.realtime,
        );
        if !spec.settings.is_empty() {
            text.push_str("\n[settings]\n");
        }
        for (key, value) in spec.settings {
            let _ = writeln!(text, "{key} = \"{value}\"");
        }
        text.push_str(&reliable(spec.reliable));
        if let Some((tap, address)) = spec.bridge {
            let _ = write!(
                text,
                "\n[multicast]\ntap = \"{tap}\"\naddress = \"{address}/24\"\n"
            );
        }
        if let Some(most) = spec.transfers {
            let _ = write!(text, "\n[relay]\ntransfers = {most}\n");
        }
        for beside in &spec.neighbors {
            let Member { name, address, .. } = &self.members[beside.index];
            let name = toml::Value::String(name.clone());
            let _ = write!(
                text,
                "\n[[neighbor]]\nname = {name}\naddress = \"{address}\"\n"
            );
            if let Some(at) = beside.dial {
                let _ = writeln!(text, "endpoint = \"{at}\"");
            }
            if let Some(model) = &beside.impair {
                let _ = writeln!(text, "impair = \"{model}\"");
            }
        }
        text
    }
}

/// Returns the table of a node's file with the settings of its reliable links.
fn reliable(links: ReliableLinks) -> String {
    let congestion = links
        .congestion
        .map(|family| format!("congestion = \"{family}\"\n"));
    let flows = links.flows.map(|flows| format!("flows = {flows}\n"));
    let losses = links.spares_random_losses.map(|spares| {
        let word = if spares { "spared" } else { "cut" };
        format!("random_losses = \"{word}\"\n")
    });
    let lines: String = [congestion, flows, losses].into_iter().flatten().collect();
    match lines.is_empty() {
        true => lines,
        false => format!("\n[reliable]\n{lines}"),
    }
}
