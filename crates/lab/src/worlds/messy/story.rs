//! The story of a messy world: faults, the reactions of nodes, and the missed packets of flows, in the order of time.
//!
//! ```text
//!   # 41.539 s  trouble: link-down a = "n2" b = "n0"
//!   # 41.560 s  call 1: 21 packets missed, the last at 41.960 s
//!   # 41.940 s  n0: its link to n2 is down (silence)
//!   # 41.940 s  n0: another route
//! ```
//! Its lines are comments of a scenario file, so that they may follow the scene.

use super::twins::{INTERVAL_MS, is_missed};
use crate::scenario::{Call, Scenario};
use base::{Duration, NodeAddr};
use overlay::{Drop, Event};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Drops of one node for one reason are combined for this time.
const TOGETHER_US: u64 = 500_000;
/// Misses with at most this many packets between them form one run.
const APART: usize = 5;

/// The events so far; clones share the same story.
#[derive(Clone, Default)]
pub(super) struct Story(Rc<RefCell<Told>>);

#[derive(Default)]
struct Told {
    /// The events: the time, in microseconds of the scenario's time, and the text.
    lines: Vec<(u64, String)>,
    /// Drops of a node for a reason, by half seconds.
    drops: BTreeMap<(u64, usize, &'static str), u64>,
}

impl Story {
    /// Returns a function that notes the reports of all nodes of a scenario.
    pub(super) fn watcher(
        &self,
        scenario: &Scenario,
    ) -> impl FnMut(Duration, usize, &Event) + 'static {
        let names = scenario.nodes.iter().map(|n| (n.address, n.name.clone()));
        let names: BTreeMap<NodeAddr, String> = names.collect();
        let story = self.clone();
        move |at, node, event| story.note(at, node, event, &names)
    }

    fn note(&self, at: Duration, node: usize, event: &Event, names: &BTreeMap<NodeAddr, String>) {
        let name = |peer| names.get(peer).map_or("?", String::as_str);
        let what = match event {
            Event::LinkUp { peer } => format!("its link to {} is up", name(peer)),
            Event::LinkDown { peer, why } => format!("its link to {} is down ({why})", name(peer)),
            Event::RoutesChanged { rerouted: true, .. } => "another route".to_owned(),
            // Superfluous copies and answers are not noted.
            Event::Dropped {
                reason: Drop::Duplicate,
                ..
            } => return,
            Event::Dropped { reason, packets } => {
                let key = (at.as_micros() / TOGETHER_US, node, reason.label());
                *self.0.borrow_mut().drops.entry(key).or_default() += u64::from(*packets);
                return;
            }
            _ => return,
        };
        self.tell(at.as_micros(), format!("n{node}: {what}"));
    }

    /// Notes the missed packets of all flows.
    pub(super) fn tell_missed(&self, scenario: &Scenario, calls: &[Vec<Call>]) {
        for (flow, calls) in scenario.flows.iter().zip(calls) {
            let deadline = flow.deadline.unwrap_or(Duration::MAX);
            for call in calls {
                self.tell_missed_of(&flow.name, call, deadline.as_millis());
            }
        }
    }

    fn tell_missed_of(&self, flow: &str, call: &Call, deadline_ms: u64) {
        let missed = (0..call.len()).filter(|n| is_missed(&call[*n], deadline_ms));
        let missed: Vec<usize> = missed.collect();
        for run in missed.chunk_by(|a, b| b - a <= APART) {
            let (first, last, count) = (run[0], run[run.len() - 1], run.len());
            let late = run.iter().filter(|n| call[**n].is_some()).count();
            let at_ms = |n: usize| n as f64 * INTERVAL_MS;
            let until_s = at_ms(last) / 1e3;
            let what = format!(
                "{flow}: {count} packets missed, {late} of them late, until {until_s:.3} s"
            );
            self.tell((at_ms(first) * 1e3) as u64, what);
        }
    }

    /// Notes any other event.
    pub(super) fn tell(&self, at_us: u64, what: String) {
        self.0.borrow_mut().lines.push((at_us, what));
    }

    /// Returns all events in the order of time, each line a comment.
    pub(super) fn text(&self) -> String {
        let mut told = self.0.borrow_mut();
        let drops = std::mem::take(&mut told.drops);
        for ((part, node, reason), packets) in drops {
            let what =
                format!("n{node}: {packets} packets dropped within half a second ({reason})");
            told.lines.push((part * TOGETHER_US, what));
        }
        told.lines.sort_by_key(|(at, _)| *at);
        let line = |(at, what): &(u64, String)| format!("# {:9.3} s  {what}\n", *at as f64 / 1e6);
        told.lines.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_that_are_near_each_other_are_one_run() {
        let mut call: Call = vec![Some(20_000); 100];
        for n in [10, 11, 15, 40] {
            call[n] = None;
        }
        call[41] = Some(151_000);
        let story = Story::default();
        story.tell_missed_of("call 0", &call, 150);
        story.tell(500_000, "between".to_owned());
        assert_eq!(
            story.text(),
            "#     0.200 s  call 0: 3 packets missed, 0 of them late, until 0.300 s\n\
             #     0.500 s  between\n\
             #     0.800 s  call 0: 2 packets missed, 1 of them late, until 0.820 s\n"
        );
    }
}
