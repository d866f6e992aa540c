//! How a node that was just made starts: as a service, in this process, or not at all.

use crate::failure::{Failure, Outcome};
use crate::node::{self, NodeArgs};
use crate::{show, terminal};
use clap::{Args, ValueEnum};
use host::log::Format;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The places where a package or an administrator puts the unit.
const UNITS: [&str; 3] = [
    "/etc/systemd/system/sinew@.service",
    "/lib/systemd/system/sinew@.service",
    "/usr/lib/systemd/system/sinew@.service",
];
/// The directory that exists if systemd runs this host.
const SYSTEMD: &str = "/run/systemd/system";
/// The directory for the files of nodes that are services.
pub const SERVICES: &str = "/etc/sinew";

/// How long to wait for a new service's links. Choice: they need 0.2 to 0.7 s by UDP, and 5 s if UDP is blocked.
const LINKS_PATIENCE: Duration = Duration::from_secs(10);

/// What starts a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Start {
    /// systemd, now and at every boot: needs root and the installed unit
    Service,
    /// This command, which then becomes the node
    Here,
    /// Nothing: you start it yourself
    No,
}

/// Options of commands that make nodes.
#[derive(Debug, Args)]
pub struct Launch {
    /// How the node starts; default: as a service if you are root and the unit is installed, otherwise
    /// here
    #[arg(long, value_enum, value_name = "HOW")]
    pub start: Option<Start>,
}

impl Launch {
    /// Returns how the node starts.
    pub fn how(&self) -> Result<Start, Failure> {
        let is_root = node::is_root();
        let has_unit = UNITS.iter().any(|unit| Path::new(unit).exists());
        let can_serve = is_root && has_unit && Path::new(SYSTEMD).is_dir();
        match self.start {
            Some(Start::Service) if !can_serve => Err(Failure::misused(
                "--start service needs root, systemd, and its unit sinew@.service: install the package, \
                 or copy packaging/sinew@.service",
            )),
            Some(start) => Ok(start),
            None if can_serve => Ok(Start::Service),
            None => Ok(Start::Here),
        }
    }

    /// Returns the directory of a node with this name.
    pub fn dir(&self, name: &str) -> Result<PathBuf, Failure> {
        Ok(match self.how()? {
            Start::Service => Path::new(SERVICES).join(name),
            Start::Here | Start::No => PathBuf::from(name),
        })
    }

    /// Returns the directory of the node's sockets; `None` for that of its configuration.
    pub fn sockets(&self, name: &str) -> Result<Option<String>, Failure> {
        Ok(match self.how()? {
            Start::Service => Some(format!("{}/{name}", client::SYSTEM)),
            Start::Here | Start::No => None,
        })
    }

    /// Starts the node: as a service, or in this process. For a service, it then prints the links, unless JSON was printed
    /// already.
    pub fn start(&self, name: &str, config: &Path, is_json: bool) -> Outcome {
        match self.how()? {
            Start::No => Ok(()),
            Start::Here => node::run(&NodeArgs {
                config: config.to_owned(),
                quiet: false,
                log_format: Format::default(),
                check: false,
            }),
            Start::Service if config != Path::new(SERVICES).join(name).join("node.toml") => {
                Err(Failure::misused(format_args!(
                    "the service of {name} reads {SERVICES}/{name}/node.toml, and this is {}: leave the \
                     directory out, or say --start here",
                    config.display()
                )))
            }
            Start::Service => serve(name, config, is_json),
        }
    }
}

/// Lets systemd run the node, as the user of the unit.
fn serve(name: &str, config: &Path, is_json: bool) -> Outcome {
    let dir = config.parent().unwrap_or(Path::new("."));
    run("chown", &["-R", "sinew:", &dir.to_string_lossy()])?;
    let unit = format!("sinew@{name}");
    run("systemctl", &["enable", "--now", &unit])?;
    if is_json {
        return Ok(());
    }
    terminal::line(&format!("{unit} runs, and starts with this host"))?;
    let node = Path::new(client::SYSTEM).join(name);
    // If the node does not answer, it still runs as far as systemd knows.
    if let Ok(links) = show::links_once_up(&node, LINKS_PATIENCE, &terminal::look()) {
        terminal::line(links.trim_end())?;
    }
    terminal::line(&format!(
        "watch it with: sinew links --node {0}; if a link is missing: sinew doctor --node {0}",
        node.display()
    ))
}

fn run(program: &str, words: &[&str]) -> Outcome {
    let ended = Command::new(program).args(words).status();
    let told = format!("{program} {}", words.join(" "));
    match ended {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failure::failed(format_args!(
            "`{told}` has failed: {status}"
        ))),
        Err(error) => Err(Failure::failed(format_args!(
            "cannot run `{told}`: {error}"
        ))),
    }
}
