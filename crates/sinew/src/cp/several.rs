//! Several sources and targets: the targets of a source together as far as their ways are the same, and none in the way
//! of the others.
//!
//! ```text
//!   all together ──▶ one is away, full or refuses, and nothing leads around ──▶ the others together
//!        ▲                                                                        │
//!        └────────────────────────────────────────────────────────────────────────┘   then that one, alone
//! ```
//! What a target has got stays there. Those that are copied to together go on where the shortest part ends.

use super::{Broke, Command, Job, Remote, copy};
use crate::names::Names;
use base::NodeAddr;
use host::relay::Failure;
use host::relay::failure::FailureKind;
use std::ffi::OsStr;
use std::io::{self, Write};

/// Copies to all of them. The last failure is returned, those before it are told.
pub(super) fn push(command: Command<'_>, source: &OsStr, targets: &[Remote]) -> Result<(), Broke> {
    let mut together = targets.to_vec();
    let mut alone = Vec::new();
    let mut failed = loop {
        match copy(command, Job::Push(source, &together)) {
            Ok(()) => break Vec::new(),
            Err(broke) => match broke.target {
                // A stream cannot be read twice.
                Some(at) if together.len() > 1 && source != "-" => {
                    let target = together.remove(at);
                    if !command.args.quiet {
                        let (text, shown) = (broke.failure.text(), target.shown());
                        say(&format!(
                            "{text}; copies to the others first, then to {shown}"
                        ));
                    }
                    alone.push(target);
                }
                _ => break vec![broke],
            },
        }
    };
    for target in alone {
        failed.extend(copy(command, Job::Push(source, &[target])).err());
    }
    let last = failed.pop();
    failed.iter().for_each(|broke| say(broke.failure.text()));
    last.map_or(Ok(()), Err)
}

/// Copies each source: what fails for one is no reason to leave out the others.
pub(super) fn each<T>(
    sources: &[T],
    mut one: impl FnMut(&T) -> Result<(), Broke>,
) -> Result<(), Broke> {
    let mut last = Ok(());
    for source in sources {
        if let Err(broke) = one(source)
            && let Err(before) = std::mem::replace(&mut last, Err(broke))
        {
            say(before.failure.text());
        }
    }
    last
}

fn say(text: &str) {
    let _ = writeln!(io::stderr(), "sinew: {text}");
}

/// The one of several targets that a failure is about, or that it comes from.
pub(super) fn in_the_way(job: Job<'_>, cause: &Failure, names: &Names) -> Option<usize> {
    match (cause.kind, cause.about) {
        (FailureKind::Over, _) => None,
        (_, Some(about)) => target_at(job, about, names),
        (_, None) => target_at(job, cause.node, names),
    }
}

/// The one of several targets that is at this node.
pub(super) fn target_at(job: Job<'_>, node: NodeAddr, names: &Names) -> Option<usize> {
    let Job::Push(_, targets @ [_, _, ..]) = job else {
        return None;
    };
    let is_it = |target: &Remote| names.address(&target.node).is_ok_and(|own| own == node);
    targets.iter().position(is_it)
}
