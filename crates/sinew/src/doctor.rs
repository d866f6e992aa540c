//! `sinew doctor`: what is wrong with this host or its node, and what to do next.
//!
//! ```text
//!   host    UDP, offload, buffers, priority, descriptors, names, MTU   needs no node
//!   files   node.toml, certificate, clock, disk, neighbours' names     a node's directory
//!   node    is it running, links, NAT, port mapping, MTU of paths,     its control socket
//!           kernel drops
//! ```
//! Each finding says what was looked at and what was seen; what is not good has the next step. Nothing is
//! changed. Exit status 1 if something is bad.

mod files;
mod host;
mod mapping;
mod reach;
mod running;
mod tcp;

use crate::failure::{Failure, Outcome};
use crate::terminal;
use clap::Args;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Arguments of `sinew doctor`.
#[derive(Debug, Args)]
pub struct Doctor {
    /// The node's directory, with its node.toml; without it, this host and the node that runs here
    pub dir: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// How good something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Good,
    /// It works, worse than it could.
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

/// Something that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    what: &'static str,
    state: State,
    seen: String,
    /// What to do; empty if it is good.
    next: String,
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

/// Looks at everything, and says it.
pub fn run(args: &Doctor) -> Outcome {
    let mut findings = host::look();
    findings.extend(reach::interfaces());
    let is_running = running::look(args.dir.as_deref(), &mut findings);
    if let Some(dir) = &args.dir {
        files::look(dir, is_running, &mut findings);
    }
    tell(args, &findings)?;
    match findings.iter().filter(|it| it.state == State::Bad).count() {
        0 => Ok(()),
        1 => Err(Failure::failed("one thing is bad: see its next step above")),
        bad => Err(Failure::failed(format_args!(
            "{bad} things are bad: see their next steps above"
        ))),
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
    let mut text = String::new();
    for it in findings {
        text += &format!("{:<4}  {:<13} {}\n", it.state.label(), it.what, it.seen);
        if !it.next.is_empty() {
            text += &format!("      {:<13} → {}\n", "", it.next);
        }
    }
    terminal::line(text.trim_end())
}

/// The configuration of a node's directory.
fn configuration(dir: &Path) -> PathBuf {
    match dir.extension().is_some_and(|end| end == "toml") {
        true => dir.to_owned(),
        false => dir.join("node.toml"),
    }
}
