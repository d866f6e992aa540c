//! Copies of several sources to several targets. The targets of a source are copied together as long as they all work,
//! and no target delays the others.
//!
//! ```text
//!   all together ──▶ one is away, full or refuses, and nothing leads around ──▶ the others together
//!        ▲                                                                        │
//!        └────────────────────────────────────────────────────────────────────────┘   then that one, alone
//! ```
//! A copy that an operator has cancelled is not begun again. What a target has received stays there. Targets that are
//! copied together stop at the end of the shortest part.

use super::progress::Meter;
use super::{Broke, Command, Copy, Job, Remote, copy};
use crate::names::Names;
use base::NodeAddr;
use host::relay::Failure;
use host::relay::failure::FailureKind;
use std::ffi::OsStr;
use std::io::{self, Write};

/// Copies the source to all targets. Returns the last failure, and prints earlier ones. Targets that got their copy
/// before another target failed keep it.
pub(super) fn push(command: Command<'_>, source: &OsStr, targets: &[Remote]) -> Result<(), Broke> {
    let mut together = targets.to_vec();
    let (mut alone, mut ended) = (Vec::new(), Vec::new());
    let mut last = loop {
        if together.is_empty() {
            break Ok(());
        }
        match copy(command, Job::Push(source, &together)) {
            Ok(()) => break Ok(()),
            Err(broke) => match &broke.about.target {
                // A stream cannot be read twice.
                Some(target) if together.len() > 1 && source != "-" => {
                    let target = target.clone();
                    together.retain(|each| *each != target && !broke.about.done.contains(each));
                    let (text, shown) = (broke.failure.text(), target.shown());
                    if broke.is_cancelled() {
                        say(&format!("{text}; copies to the others"));
                        ended.push(broke);
                        continue;
                    }
                    if !command.args.quiet {
                        say(&format!(
                            "{text}; copies to the others first, then to {shown}"
                        ));
                    }
                    alone.push(target);
                }
                _ => break Err(broke),
            },
        }
    };
    for target in alone {
        let copied = copy(command, Job::Push(source, &[target]));
        last = and(command.args, last, copied);
    }
    ended
        .into_iter()
        .fold(last, |last, broke| and(command.args, last, Err(broke)))
}

/// Returns the last failure. The function prints an earlier one, because no other code does.
fn and(args: &Copy, before: Result<(), Broke>, next: Result<(), Broke>) -> Result<(), Broke> {
    match (before, next) {
        (Err(mut before), Err(next)) => {
            before.tell(args);
            say(before.failure.text());
            Err(next)
        }
        (before, next) => before.and(next),
    }
}

/// Copies each source. If one fails, the others are still copied.
pub(super) fn each<T>(
    args: &Copy,
    sources: &[T],
    mut one: impl FnMut(&T) -> Result<(), Broke>,
) -> Result<(), Broke> {
    let mut last = Ok(());
    for source in sources {
        let mut copied = one(source);
        if let Err(broke) = &mut copied {
            // Failures are reported in the order of the sources.
            broke.tell(args);
        }
        last = and(args, last, copied);
    }
    last
}

/// Returns the targets that have got their copy.
pub(super) fn done(job: Job<'_>, meter: &Meter) -> Vec<Remote> {
    let Job::Push(_, targets) = job else {
        return Vec::new();
    };
    let targets = targets.iter().filter(|target| meter.has_got(&target.node));
    targets.cloned().collect()
}

/// Returns the targets that have not got their copy.
pub(super) fn rest(job: Job<'_>, meter: &Meter) -> Vec<Remote> {
    let Job::Push(_, targets) = job else {
        return Vec::new();
    };
    let targets = targets.iter().filter(|target| !meter.has_got(&target.node));
    targets.cloned().collect()
}

fn say(text: &str) {
    let _ = writeln!(io::stderr(), "sinew: {text}");
}

/// Returns the one of several targets that a failure is about, or that reported it.
pub(super) fn in_the_way(job: Job<'_>, cause: &Failure, names: &Names) -> Option<Remote> {
    match (cause.kind, cause.about) {
        (FailureKind::Over, _) => None,
        (_, Some(about)) => target_at(job, about, names),
        (_, None) => target_at(job, cause.node, names),
    }
}

/// Returns the one of several targets that is at this node.
pub(super) fn target_at(job: Job<'_>, node: NodeAddr, names: &Names) -> Option<Remote> {
    let Job::Push(_, targets @ [_, _, ..]) = job else {
        return None;
    };
    let is_it = |target: &Remote| names.address(&target.node).is_ok_and(|own| own == node);
    targets.iter().find(|target| is_it(target)).cloned()
}
