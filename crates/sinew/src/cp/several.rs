//! Several sources and targets: the targets of a source together as far as their ways are the same, and none in the way
//! of the others.
//!
//! ```text
//!   all together ──▶ one is away, full or refuses, and nothing leads around ──▶ the others together
//!        ▲                                                                        │
//!        └────────────────────────────────────────────────────────────────────────┘   then that one, alone
//! ```
//! Where an operator has ended it, it is not begun again. What a target has got stays there. Those that are copied to together go on where the shortest part ends.

use super::progress::Meter;
use super::{Broke, Command, Copy, Job, Remote, copy};
use crate::names::Names;
use base::NodeAddr;
use host::relay::Failure;
use host::relay::failure::FailureKind;
use std::ffi::OsStr;
use std::io::{self, Write};

/// Copies to all of them. The last failure is returned, those before it are told. Targets that got their copy
/// before another one broke it off have it.
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

/// The last failure. One before it is told here, since nobody else tells of it.
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

/// Copies each source: what fails for one is no reason to leave out the others.
pub(super) fn each<T>(
    args: &Copy,
    sources: &[T],
    mut one: impl FnMut(&T) -> Result<(), Broke>,
) -> Result<(), Broke> {
    let mut last = Ok(());
    for source in sources {
        let mut copied = one(source);
        if let Err(broke) = &mut copied {
            // In the order of the sources.
            broke.tell(args);
        }
        last = and(args, last, copied);
    }
    last
}

/// The targets that have got their copy.
pub(super) fn done(job: Job<'_>, meter: &Meter) -> Vec<Remote> {
    let Job::Push(_, targets) = job else {
        return Vec::new();
    };
    let targets = targets.iter().filter(|target| meter.has_got(&target.node));
    targets.cloned().collect()
}

/// The others.
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

/// The one of several targets that a failure is about, or that it comes from.
pub(super) fn in_the_way(job: Job<'_>, cause: &Failure, names: &Names) -> Option<Remote> {
    match (cause.kind, cause.about) {
        (FailureKind::Over, _) => None,
        (_, Some(about)) => target_at(job, about, names),
        (_, None) => target_at(job, cause.node, names),
    }
}

/// The one of several targets that is at this node.
pub(super) fn target_at(job: Job<'_>, node: NodeAddr, names: &Names) -> Option<Remote> {
    let Job::Push(_, targets @ [_, _, ..]) = job else {
        return None;
    };
    let is_it = |target: &Remote| names.address(&target.node).is_ok_and(|own| own == node);
    targets.iter().find(|target| is_it(target)).cloned()
}
