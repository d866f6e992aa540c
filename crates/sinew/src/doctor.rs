//! `sinew doctor`: finds what is wrong with this host or its node, and says what to do next.
//!
//! ```text
//!   clock   against whatever else tells of the time                    first: all else goes by it
//!   host    UDP, offload, buffers, priority, descriptors, DNS, MTU     needs no node
//!   node    is it running, links, NAT, port mapping, MTU of paths,     its control socket
//!           kernel drops
//!   files   node.toml, certificate, disk, neighbours' names            a node's directory
//! ```
//! Each finding has what was checked and what was seen. A finding that is not good also has the next step. The command
//! changes nothing. The exit status is 1 if something is bad.

mod clock;
mod disk;
mod files;
mod host;
mod mapping;
mod names;
mod reach;
mod running;
mod tcp;

pub use clock::HostClock;

use crate::config::Config;
use crate::control;
use crate::failure::{Failure, Outcome};
use crate::launch::SERVICES;
use crate::table::{Look, Page};
use crate::terminal;
use clap::Args;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Arguments of `sinew doctor`.
#[derive(Debug, Args)]
pub struct Doctor {
    /// The node's directory, with its node.toml; without it, this host and the node that runs here
    #[arg(conflicts_with = "node")]
    pub dir: Option<PathBuf>,
    /// The control socket of the node, or a directory with it; its files too where they are beside it
    #[arg(long, value_name = "SOCKET")]
    pub node: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The rating of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Everything is all right.
    Good,
    /// It works, but worse than it could.
    Weak,
    /// It does not work.
    Bad,
}

impl State {
    fn label(self) -> &'static str {
        match self {
            State::Good => "good",
            State::Weak => "weak",
            State::Bad => "BAD",
        }
    }
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The subject in a word.
    pub what: &'static str,
    /// The rating.
    pub state: State,
    /// What the check saw.
    pub seen: String,
    /// What to do; empty if it is good.
    pub next: String,
}

impl Finding {
    fn good(what: &'static str, seen: impl Into<String>) -> Finding {
        Finding {
            what,
            state: State::Good,
            seen: seen.into(),
            next: String::new(),
        }
    }

    fn weak(what: &'static str, seen: impl Into<String>, next: impl Into<String>) -> Finding {
        Finding {
            what,
            state: State::Weak,
            seen: seen.into(),
            next: next.into(),
        }
    }

    fn bad(what: &'static str, seen: impl Into<String>, next: impl Into<String>) -> Finding {
        Finding {
            state: State::Bad,
            ..Finding::weak(what, seen, next)
        }
    }
}

/// Runs all checks, and prints the findings.
pub fn run(args: &Doctor) -> Outcome {
    let findings = examine(args, HostClock::read());
    tell(args, &findings)?;
    match findings.iter().filter(|it| it.state == State::Bad).count() {
        0 => Ok(()),
        1 => Err(Failure::failed("one thing is bad: see its next step above")),
        bad => Err(Failure::failed(format_args!(
            "{bad} things are bad: see their next steps above"
        ))),
    }
}

/// Runs all checks, with `at` as the time of the host's clock.
pub fn examine(args: &Doctor, at: HostClock) -> Vec<Finding> {
    if control::is_elsewhere(args.dir.as_deref().or(args.node.as_deref())) {
        let next = "run `sinew doctor` on the node's own host: it looks at that host, too";
        return vec![Finding::bad("node", "it is on another host", next)];
    }
    let asked = names::ask();
    let path = args.configuration();
    let config = path.as_ref().map(|path| Config::load(path));
    let (loaded, wrong) = match config {
        Some(Ok(config)) => (Some(config), None),
        Some(Err(error)) => (None, Some(error)),
        None => (None, None),
    };
    let config = loaded.as_ref();
    let told = running::ask(args.dir.as_deref().or(args.node.as_deref()), config);
    let mut findings = vec![clock::look(at, config, told.as_ref().ok())];
    findings.extend(host::look());
    findings.push(asked.look());
    findings.extend(reach::interfaces());
    running::look(&told, config, &mut findings);
    if let Some(error) = wrong {
        let next = "write what it expects; `sinew node --check` says so again";
        findings.push(Finding::bad("configuration", error.to_string(), next));
    }
    if let (Some(path), Some(config)) = (&path, config) {
        let is_running = matches!(told, Ok(_) | Err(Failure::Misused(_)));
        files::look((path, config), at, is_running, &mut findings);
    }
    findings
}

impl Doctor {
    /// Returns the configuration to check: that of the directory, or the one that belongs to a socket, if there is one.
    fn configuration(&self) -> Option<PathBuf> {
        if let Some(dir) = &self.dir {
            return Some(configuration(dir));
        }
        let node = self.node.as_deref()?;
        let dir = match node.is_dir() {
            true => node,
            false => node.parent()?,
        };
        let service = dir.strip_prefix(client::SYSTEM).ok();
        let service = service.map(|name| Path::new(SERVICES).join(name));
        let dirs = [Some(dir.to_owned()), service].into_iter().flatten();
        dirs.map(|dir| configuration(&dir)).find(|it| it.exists())
    }
}

fn tell(args: &Doctor, findings: &[Finding]) -> Outcome {
    if args.json {
        let findings: Vec<_> = findings
            .iter()
            .map(|it| {
                json!({"what": it.what, "state": it.state.label().to_lowercase(),
                       "seen": it.seen, "next": it.next})
            })
            .collect();
        return terminal::json(&json!({ "findings": findings }));
    }
    let look = terminal::look();
    // In a pipe, each finding stays a line, so that programs can search it.
    let width = look.width.filter(|_| look.notes);
    let page = page(findings, &Look { width, ..look });
    terminal::line(page.to_string().trim_end())
}

/// The column at which what was seen begins.
const SEEN: usize = 20;

fn page(findings: &[Finding], look: &Look) -> Page {
    let mut page = Page::default();
    for it in findings {
        let seen = format!("{:<4}  {:<13} {}", it.state.label(), it.what, it.seen);
        page.push(Page::wrapped(&seen, look, SEEN));
        if !it.next.is_empty() {
            let next = format!("{:SEEN$}→ {}", "", it.next);
            page.push(Page::wrapped(&next, look, SEEN + 2));
        }
    }
    page
}

/// Returns the configuration of a node's directory.
fn configuration(dir: &Path) -> PathBuf {
    match dir.extension().is_some_and(|end| end == "toml") {
        true => dir.to_owned(),
        false => dir.join("node.toml"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_stay_beside_their_names_in_a_narrow_window() {
        let seen = "no real time: Operation not permitted (os error 1)";
        let next = "run the node as a service or as root, or give CAP_SYS_NICE: packets wait when the host is busy";
        let findings = [Finding::weak("priority", seen, next)];
        let look = Look {
            width: Some(60),
            ..Look::default()
        };
        let narrow = page(&findings, &look).to_string();
        let lines: Vec<&str> = narrow.lines().collect();
        assert!(
            lines.iter().all(|line| line.chars().count() <= 60),
            "{narrow}"
        );
        assert!(
            lines[0].starts_with("weak  priority      no real time"),
            "{narrow}"
        );
        assert!(lines[1].starts_with(&" ".repeat(SEEN)), "{narrow}");
        assert!(
            lines[2].starts_with(&format!("{:SEEN$}→ run", "")),
            "{narrow}"
        );
        assert!(
            lines[3..]
                .iter()
                .all(|line| line.starts_with(&" ".repeat(SEEN + 2))),
            "{narrow}"
        );
        assert_eq!(
            page(&findings, &Look::default())
                .to_string()
                .lines()
                .count(),
            2
        );
    }
}
