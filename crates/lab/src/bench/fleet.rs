//! Nodes as processes: each is what an operator would run, with a certificate of a network that
//! exists for this run only. Dropping the fleet ends them and removes their files.
//!
//! ```text
//!   keys, certificate, configuration ─> spawn, pinned, in its network ─> wait ─> ... ─> kill
//! ```

use super::credentials::{Issuer, address, name};
use super::usage::{self, Usage};
use super::{BenchError, go_on};
use crate::control;
use crate::files::{Scratch, write};
use crate::interrupt::Interrupt;
use base::Duration;
use base::impair::Model;
use net::Clock;
use net::netns::Namespace;
use serde_json::Value;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Sessions, links and routes take a second; a loaded machine takes longer to start processes.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often nodes are asked whether they are ready.
const ASK_EVERY: std::time::Duration = std::time::Duration::from_millis(50);
/// Lines of a node's log that an error shows.
const LOG_LINES: usize = 8;

/// How a node is to be run.
pub(crate) struct Spec<'a> {
    /// Where it listens.
    pub(crate) listen: SocketAddr,
    /// Its neighbours.
    pub(crate) neighbors: Vec<Beside>,
    /// The processor that it is confined to.
    pub(crate) cpu: Option<usize>,
    /// The network that it lives in; `None` for this process's own.
    pub(crate) inside: Option<&'a Namespace>,
    /// It asks for real-time priority.
    pub(crate) realtime: bool,
}

/// A neighbour of a node.
pub(crate) struct Beside {
    /// Which node.
    pub(crate) index: usize,
    /// Where to dial it.
    pub(crate) dial: Option<SocketAddr>,
    /// What the way to it is like.
    pub(crate) impair: Option<Model>,
}

/// Node processes and their network.
pub(crate) struct Fleet {
    program: PathBuf,
    processes: Vec<Process>,
    pub(crate) issuer: Issuer,
    // The last to be dropped: the nodes' files are in it.
    dir: Scratch,
}

/// One node.
pub(crate) struct Process {
    index: usize,
    child: Child,
    dir: PathBuf,
}

impl Fleet {
    /// No nodes yet. `program` is run as `PROGRAM node --config FILE`; `None` for the running one.
    pub(crate) fn new(program: Option<&Path>) -> Result<Fleet, BenchError> {
        let program = match program {
            Some(program) => program.to_owned(),
            None => std::env::current_exe()?,
        };
        let dir = Scratch::new("bench")?;
        let issuer = Issuer::new(Clock::new().unix_s())?;
        write(
            &dir.path().join("network.pub"),
            issuer.network().to_text().as_bytes(),
        )?;
        Ok(Fleet {
            program,
            processes: Vec::new(),
            issuer,
            dir,
        })
    }

    /// Starts node `index`.
    pub(crate) fn start(&mut self, index: usize, spec: &Spec<'_>) -> Result<(), BenchError> {
        let dir = self.dir.path().to_owned();
        let identity = self.issuer.identity(index)?;
        let put = |suffix: &str, text: &str| {
            write(
                &dir.join(format!("{}.{suffix}", name(index))),
                text.as_bytes(),
            )
        };
        put("key", &identity.keys().to_text())?;
        put("cert", &identity.certificate().to_text())?;
        put("toml", &config(index, spec))?;
        let child = self.spawn(index, spec)?;
        self.processes.push(Process { index, child, dir });
        Ok(())
    }

    /// Node `index`, which was started.
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
                process
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
            if let Some(status) = process.child.try_wait()? {
                return Err(process.error(&format!("has ended: {status}")));
            }
        }
        Ok(())
    }

    fn spawn(&self, index: usize, spec: &Spec<'_>) -> Result<Child, BenchError> {
        let dir = self.dir.path();
        let mut command = match spec.inside {
            Some(namespace) => namespace.command(&self.program.to_string_lossy())?,
            None => Command::new(&self.program),
        };
        let log = File::create(dir.join(format!("{}.log", name(index))))?;
        command
            .arg("node")
            .arg("--config")
            .arg(dir.join(format!("{}.toml", name(index))))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        // A process runs where the thread that starts it may run.
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
    /// What it has used.
    pub(crate) fn usage(&self) -> io::Result<Usage> {
        Usage::of(self.child.id())
    }

    /// Bytes of memory that it has in use.
    pub(crate) fn resident_bytes(&self) -> io::Result<u64> {
        usage::resident_bytes(self.child.id())
    }

    /// Its state.
    pub(crate) fn snapshot(&self) -> io::Result<Value> {
        control::snapshot(&self.dir.join(format!("{}.control", name(self.index))))
    }

    /// Its clients' socket file.
    pub(crate) fn client_socket(&self) -> PathBuf {
        self.dir.join(format!("{}.sock", name(self.index)))
    }

    /// Something is wrong with it: what, and the end of its log.
    pub(crate) fn error(&self, what: &str) -> BenchError {
        let log = fs::read_to_string(self.dir.join(format!("{}.log", name(self.index))));
        let log = log.unwrap_or_default();
        let mut text = format!("node {} {what}", name(self.index));
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
            // Fails for one that has ended already.
            let _ = process.child.kill();
        }
        for process in &mut self.processes {
            let _ = process.child.wait();
        }
    }
}

/// The configuration of node `index`.
fn config(index: usize, spec: &Spec<'_>) -> String {
    let name_of = name(index);
    let mut text = format!(
        "certificate = \"{name_of}.cert\"\nkey = \"{name_of}.key\"\nnetwork = \"network.pub\"\n\
         listen = [\"{}\"]\nclient_socket = \"{name_of}.sock\"\n\
         control_socket = \"{name_of}.control\"\nlab = true\nrealtime_priority = {}\n",
        spec.listen, spec.realtime,
    );
    for beside in &spec.neighbors {
        let (name, address) = (name(beside.index), address(beside.index));
        let _ = write!(
            text,
            "\n[[neighbor]]\nname = \"{name}\"\naddress = \"{address}\"\n"
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

/// A port that is free on `at`'s address now.
pub(crate) fn free(at: SocketAddr) -> io::Result<SocketAddr> {
    UdpSocket::bind((at.ip(), 0))?.local_addr()
}
