//! Lines about nodes whose key is in use on two hosts: one line names the cause, and the lines about the links that
//! flap because of it are only counted.

use base::{Duration, NodeAddr, Time};
use overlay::event::Event;

/// How long a report explains that links flap: two of the intervals at which the engine repeats it.
const EXPLAINS: Duration = Duration::from_secs(120);

/// The nodes that were reported lately.
#[derive(Debug, Default)]
pub(super) struct Doubles(Vec<Double>);

#[derive(Debug)]
struct Double {
    node: NodeAddr,
    is_own: bool,
    at: Time,
    /// Lines about links that were suppressed since the last line about the double.
    left_out: u64,
}

impl Doubles {
    /// Takes in a report, and returns the text of its line.
    pub(super) fn on_double(&mut self, now: Time, node: NodeAddr, is_own: bool) -> String {
        let left_out = self.0.iter().position(|double| double.node == node);
        let left_out = left_out.map_or(0, |place| self.0.swap_remove(place).left_out);
        self.0.retain(|double| now.since(double.at) < EXPLAINS);
        self.0.push(Double {
            node,
            is_own,
            at: now,
            left_out: 0,
        });
        let what = match is_own {
            true => "another host runs with this node's key".to_owned(),
            false => format!("{node} runs on two hosts with one key"),
        };
        let left_out = match left_out {
            0 => String::new(),
            _ => format!(" ({left_out} lines about flapping links were left out)"),
        };
        format!(
            "{what}: stop one of the two, delete its copy of the node's directory, and give that host a key of its own \
             by `sinew join` or `sinew net add`{left_out}"
        )
    }

    /// Returns true if a double explains the event, which then needs no line.
    pub(super) fn explain(&mut self, now: Time, event: &Event) -> bool {
        let (Event::Established { peer, .. }
        | Event::LinkUp { peer }
        | Event::LinkDown { peer, .. }
        | Event::Moved { peer, .. }
        | Event::PathChanged { peer, .. }
        | Event::Way { peer, .. }
        | Event::Unanswered { peer, .. }) = event
        else {
            return false;
        };
        let explains = |double: &&mut Double| {
            (double.is_own || double.node == *peer) && now.since(double.at) < EXPLAINS
        };
        let double = self.0.iter_mut().find(explains);
        double.is_some_and(|double| {
            double.left_out += 1;
            true
        })
    }
}
