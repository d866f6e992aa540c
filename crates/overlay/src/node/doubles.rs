//! Nodes whose key is in use on two hosts at once, because somebody has copied a state directory.
//!
//! ```text
//!   hellos of a neighbour     ─┐                                    A, B: it has restarted
//!   records in the own name   ─┴─▶ the numbers of its starts ─▶ note
//!                                                                   A, B, A, B, A …: two hosts run at once
//! ```
//! Each start of a node has another number. A node that restarts never returns to an earlier number, so numbers that
//! come again and again are of two hosts. Both have the key, so no signature tells them apart.

use crate::snapshot::DoubleStatus;
use base::{Duration, Map, NodeAddr, Time, UnderlayAddr};
use wire::record::RecordSeq;

/// Returns to an earlier start within [`LATELY`] that show two hosts. Choice: old records of a node that has restarted,
/// and a delayed hello, account for two or three at most; two hosts return with almost every hello.
const RETURNS: u32 = 4;
/// Returns count together if there is no longer pause between them, and the double is shown until such a pause.
const LATELY: Duration = Duration::from_secs(60);
/// The time between two reports of one double that lasts.
const AGAIN: Duration = Duration::from_secs(60);
/// Number of starts of a node that are remembered: a third and a fourth copy are found, too.
const STARTS: usize = 4;
/// Number of nodes that are watched: the links of a node. Nodes without a recent return make room.
const NODES: usize = 1_024;

/// The starts of this node and of its neighbours, as far as they have changed.
#[derive(Debug)]
pub(super) struct Doubles {
    nodes: Map<NodeAddr, Starts>,
    /// The highest number of a record that another start of this node has made; at first, the second of this start.
    others: RecordSeq,
}

/// The last starts of one node.
#[derive(Debug, Default)]
struct Starts {
    /// The numbers of the starts, and where each of them was last heard; the present one is the last.
    known: Vec<(u32, Option<UnderlayAddr>)>,
    returns: u32,
    /// The last return.
    last: Time,
    reported: Option<Time>,
}

impl Doubles {
    /// Returns what is known at the start of a node, in this second since 1970.
    pub(super) fn new(unix_start_s: u64) -> Doubles {
        Doubles {
            nodes: Map::default(),
            others: RecordSeq(u32::try_from(unix_start_s).unwrap_or(u32::MAX)),
        }
    }

    /// Returns true if a record of another start of this node is later than all such records before. The records of an
    /// earlier start come again, but there are no further ones.
    pub(super) fn is_later(&self, seq: RecordSeq) -> bool {
        seq > self.others
    }

    /// Takes in the number of such a record, once its signature is checked.
    pub(super) fn on_record(&mut self, seq: RecordSeq) {
        self.others = self.others.max(seq);
    }

    /// Takes in that a start of `node` with this number is heard from. Returns true if the node's key is in use on two
    /// hosts, and this is to be reported now.
    pub(super) fn note(
        &mut self,
        now: Time,
        node: NodeAddr,
        (boot, at): (u32, Option<UnderlayAddr>),
    ) -> bool {
        if self.nodes.len() >= NODES && !self.nodes.contains_key(&node) {
            self.nodes.retain(|_, starts| starts.is_double(now));
        }
        let starts = self.nodes.entry(node).or_default();
        let place = starts.known.iter().position(|(known, _)| *known == boot);
        let is_return = place.is_some_and(|place| place + 1 < starts.known.len());
        if let Some(place) = place {
            starts.known.remove(place);
        } else if starts.known.len() >= STARTS {
            starts.known.remove(0);
        }
        starts.known.push((boot, at));
        is_return && starts.on_return(now)
    }

    /// Lists the nodes whose key is in use on two hosts.
    pub(super) fn statuses(&self, now: Time, own: NodeAddr) -> Vec<DoubleStatus> {
        let doubles = self
            .nodes
            .iter()
            .filter(|(_, starts)| starts.is_double(now));
        let status = |(node, starts): (&NodeAddr, &Starts)| {
            let mut at: Vec<String> = starts.places().map(|at| at.to_string()).collect();
            at.dedup();
            DoubleStatus {
                node: node.to_string(),
                is_own: *node == own,
                at,
                ago_s: now.since(starts.last).as_secs_f64(),
            }
        };
        let mut all: Vec<DoubleStatus> = doubles.map(status).collect();
        all.sort_by(|a, b| (b.is_own, &a.node).cmp(&(a.is_own, &b.node)));
        all
    }
}

impl Starts {
    /// An earlier start is heard again. Returns true if that is to be reported now.
    fn on_return(&mut self, now: Time) -> bool {
        if now.since(self.last) >= LATELY {
            self.returns = 0;
        }
        (self.returns, self.last) = (self.returns.saturating_add(1), now);
        let rests = |at: Time| now.since(at) < AGAIN;
        if self.returns < RETURNS || self.reported.is_some_and(rests) {
            return false;
        }
        self.reported = Some(now);
        true
    }

    fn is_double(&self, now: Time) -> bool {
        self.returns >= RETURNS && now.since(self.last) < LATELY
    }

    /// Returns where the last two starts were heard, in order of address.
    fn places(&self) -> impl Iterator<Item = UnderlayAddr> {
        let known = self.known.iter().rev().take(2);
        let mut places: Vec<UnderlayAddr> = known.filter_map(|(_, at)| *at).collect();
        places.sort_unstable();
        places.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeAddr = NodeAddr(7);
    const OWN: NodeAddr = NodeAddr(1);

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn restarts_are_no_double_however_often_they_come() {
        let mut doubles = Doubles::new(0);
        for boot in 0..100 {
            assert!(!doubles.note(at(u64::from(boot)), NODE, (boot, None)));
        }
        // A late hello of the time before a restart, and an old record of two editions.
        for boot in [98, 99, 97] {
            assert!(!doubles.note(at(100), NODE, (boot, None)));
        }
        assert_eq!(doubles.statuses(at(100), OWN), []);
    }

    #[test]
    fn two_hosts_are_reported_once_a_minute_while_they_last() {
        let mut doubles = Doubles::new(0);
        let mut reports = Vec::new();
        for n in 0..1_210u32 {
            let now = at(u64::from(n) * 100);
            if doubles.note(now, NODE, (n % 2, None)) {
                reports.push(n);
            }
        }
        assert_eq!(reports, [5, 605, 1_205]);
        let last = at(120_900);
        let [double] = &doubles.statuses(last, NODE)[..] else {
            panic!("one double is expected");
        };
        assert!(double.is_own && double.node == NODE.to_string());
        assert_eq!(doubles.statuses(last + LATELY, OWN), []);
        // One of the two was stopped long ago, and one restart is none.
        assert!(!doubles.note(last + LATELY, NODE, (0, None)));
        assert_eq!(doubles.statuses(last + LATELY, OWN), []);
    }
}
