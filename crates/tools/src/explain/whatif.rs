//! The answer to a question before and after some edits.

mod text;

use super::edits::{Edited, edited};
use super::missed::Calls;
use super::{Asked, Choice, ExplainError, Named, PathNumbers, View};
use base::NodeAddr;
use graph::explain::Route;
use graph::explain::pairs::{self, Changed, TooManyPairs};
use serde::Serialize;

/// Most pairs that are listed; all pairs are counted.
pub const LISTED_PAIRS: usize = 50;

/// The effect of edits on the paths.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WhatIf {
    /// The edits in their standard spelling.
    pub edits: Vec<String>,
    /// How paths are chosen.
    pub class: String,
    /// The key of the deciding number in [`PathNumbers`].
    pub decided_by: &'static str,
    /// The deadline: packets that arrive later do not count.
    pub deadline_ms: f64,
    /// The pair of the question; `None` if the question was about all pairs.
    pub pair: Option<Pair>,
    /// All pairs; `None` if the question was about one pair.
    pub pairs: Option<Pairs>,
}

/// One pair, before and after.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pair {
    /// The source of the packets.
    pub from: Named,
    /// The destination of the packets.
    pub to: Named,
    /// The edits change the pair's path.
    pub changes: bool,
    /// The choice without the edits; `None` if there is no path.
    pub before: Option<Choice>,
    /// The choice with the edits.
    pub after: Option<Choice>,
}

/// All pairs whose path changes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pairs {
    /// Pairs that were compared.
    pub compared: usize,
    /// Pairs whose path changes.
    pub changed: usize,
    /// Changed pairs that lose their path.
    pub lost: usize,
    /// Changed pairs that had no path before.
    pub gained: usize,
    /// Up to [`LISTED_PAIRS`] of the changed pairs, with those that lose their path first.
    pub listed: Vec<PairChange>,
}

/// A pair whose path changes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PairChange {
    /// The source of the packets.
    pub from: Named,
    /// The destination of the packets.
    pub to: Named,
    /// The path or paths before the edits; empty if there is none.
    pub before: Vec<PathNumbers>,
    /// The path or paths after the edits.
    pub after: Vec<PathNumbers>,
}

/// Compares the network before and after the edits: for one pair of nodes, or for all.
///
/// # Errors
/// [`ExplainError`] when an edit or a node is not understood, when there is no path before or
/// after, or when there are more pairs than the class can compare.
pub fn what_if(
    view: &View,
    edits: &str,
    pair: Option<(&str, &str)>,
    asked: &Asked,
) -> Result<WhatIf, ExplainError> {
    asked.check()?;
    let edited = edited(view, edits)?;
    let (one, all) = match pair {
        Some((src, dst)) => (
            Some(compare(view, &edited, view.ends(src, dst)?, asked)?),
            None,
        ),
        None => (None, Some(compare_all(view, &edited, asked)?)),
    };
    Ok(WhatIf {
        edits: edited.said,
        class: asked.class.to_string(),
        decided_by: asked.decided_by(),
        deadline_ms: super::millis(asked.deadline),
        pair: one,
        pairs: all,
    })
}

fn compare(
    view: &View,
    after: &Edited,
    ends: (NodeAddr, NodeAddr),
    asked: &Asked,
) -> Result<Pair, ExplainError> {
    let choice = |calls: &Calls<'_>| match asked.answer(view, calls.topology, ends) {
        Ok(answer) => Ok(Some(Choice::of(view, calls, &answer))),
        Err(ExplainError::NoPath(_)) => Ok(None),
        Err(other) => Err(other),
    };
    let (before, after) = (asked.calls(view), after.calls(asked));
    let (before, after) = (choice(&before)?, choice(&after)?);
    let paths = |choice: &Option<Choice>| -> Option<Vec<Vec<String>>> {
        let choice = choice.as_ref()?;
        Some(
            choice
                .chosen
                .iter()
                .map(|path| path.addresses.clone())
                .collect(),
        )
    };
    Ok(Pair {
        from: view.named(ends.0),
        to: view.named(ends.1),
        changes: paths(&before) != paths(&after),
        before,
        after,
    })
}

impl Edited {
    fn calls(&self, asked: &Asked) -> Calls<'_> {
        Calls {
            topology: &self.topology,
            protections: &self.protections,
            deadline_us: asked.deadline_us(),
            aim: asked.aim,
        }
    }
}

fn compare_all(view: &View, after: &Edited, asked: &Asked) -> Result<Pairs, ExplainError> {
    let deadline_us = asked.deadline_us();
    let changed = pairs::changed(
        view.topology(),
        &after.topology,
        asked.class,
        deadline_us,
        LISTED_PAIRS,
    );
    let changed: Changed = changed.map_err(|TooManyPairs { pairs, most }| {
        ExplainError::Misused(format!(
            "{pairs} pairs are more than the {most} that are compared for class {}: name a source \
             and a destination",
            asked.class
        ))
    })?;
    let numbers = |calls: &Calls<'_>, routes: &[Route]| -> Vec<PathNumbers> {
        routes
            .iter()
            .map(|route| PathNumbers::of(view, calls, route))
            .collect()
    };
    let calls = (asked.calls(view), after.calls(asked));
    let listed = changed.listed.iter().map(|pair| PairChange {
        from: view.named(pair.src),
        to: view.named(pair.dst),
        before: numbers(&calls.0, &pair.before),
        after: numbers(&calls.1, &pair.after),
    });
    Ok(Pairs {
        compared: changed.compared,
        changed: changed.changed,
        lost: changed.lost,
        gained: changed.gained,
        listed: listed.collect(),
    })
}

#[cfg(test)]
mod tests;
