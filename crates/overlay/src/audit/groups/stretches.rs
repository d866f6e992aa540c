//! What was sealed for a group, and when: stretches of counters, oldest first.

use base::{Duration, NodeAddr, Time};
use std::collections::VecDeque;
use wire::data::{LinkProtocol, Routing};
use wire::link::SessionIndex;
use wire::transport::COUNTS_MAX;

/// The longest time that one stretch covers.
const LASTS: Duration = Duration::from_millis(50);
/// Number of stretches that are kept: six seconds of a stream of packets.
const MOST: usize = COUNTS_MAX;
/// Packets that were sent longer ago than this plus twice the latency are not asked about, however few stretches there
/// are. Choice: the receivers keep a key for ten seconds after they have opened a packet under the next one. A member
/// that cannot be asked for longer is not judged by what was sent meanwhile.
const OLDEST: Duration = Duration::from_secs(6);
/// Packets have this time plus twice the latency to arrive, the same as packets to one node.
const PATIENCE: Duration = Duration::from_millis(250);
/// The same for packets on reliable links, which retransmit for longer.
const PATIENCE_RELIABLE: Duration = Duration::from_secs(4);

/// How packets to a group are carried. What the links promise depends on this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Carried {
    pub(crate) link: LinkProtocol,
    pub(crate) routing: Routing,
}

/// Packets that were sealed in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) key: SessionIndex,
    /// The first counter.
    pub(crate) first: u64,
    pub(crate) count: u16,
    pub(crate) carried: Carried,
    /// When the first packet was sealed.
    pub(crate) at: Time,
    /// The least budget that one of the packets had, if they have a deadline.
    pub(crate) left: Option<Duration>,
    /// Packets that this node dropped before the link to a neighbour, for each such neighbour.
    pub(crate) excused: Vec<(NodeAddr, u16)>,
}

#[derive(Debug, Default)]
pub(super) struct Stretches(VecDeque<Stretch>);

impl Stretches {
    /// Notes packets that have just been sealed.
    #[inline]
    pub(super) fn note(&mut self, now: Time, sent: Stretch) {
        if let Some(last) = self.0.back_mut()
            && last.continues(now, &sent)
            && let Some(count) = last.count.checked_add(sent.count)
        {
            last.count = count;
            last.left = match (last.left, sent.left) {
                (Some(before), Some(left)) => Some(before.min(left)),
                (before, left) => before.or(left),
            };
            return;
        }
        if self.0.len() >= MOST {
            self.0.pop_front();
        }
        self.0.push_back(sent);
    }

    /// Notes that `packets` of the packets that were noted at `at` were not sent to the neighbour `next`. They belong
    /// to the newest stretch that had begun by then.
    pub(super) fn excuse(&mut self, at: Time, next: NodeAddr, packets: u16) {
        let mut newest_first = self.0.iter_mut().rev();
        let Some(stretch) = newest_first.find(|stretch| stretch.at <= at) else {
            return;
        };
        match stretch.excused.iter_mut().find(|(node, _)| *node == next) {
            Some((_, excused)) => *excused = excused.saturating_add(packets).min(stretch.count),
            None => stretch.excused.push((next, packets.min(stretch.count))),
        }
    }

    /// Returns how the last packets were carried.
    pub(super) fn carried(&self) -> Option<Carried> {
        self.0.back().map(|last| last.carried)
    }

    /// Returns the contiguous stretches since `from` that have one key and this routing, and whose packets have had
    /// their time to arrive on a path of this latency.
    pub(super) fn ripe(
        &self,
        now: Time,
        from: Time,
        (routing, latency): (Routing, Duration),
    ) -> Vec<Stretch> {
        let mut ripe: Vec<Stretch> = Vec::new();
        let had_time = |stretch: &Stretch| {
            let patience = match stretch.carried.link {
                LinkProtocol::Reliable => PATIENCE_RELIABLE,
                _ => PATIENCE,
            };
            now.since(stretch.at) >= patience + LASTS + latency * 2
        };
        let is_old = |stretch: &Stretch| {
            let age = now.since(stretch.at);
            stretch.at < from || age >= OLDEST + latency * 2 || stretch.carried.routing != routing
        };
        for stretch in self.0.iter().skip_while(|stretch| is_old(stretch)) {
            let is_next = ripe.last().is_none_or(|last| stretch.follows(last))
                && stretch.carried.routing == routing;
            if !is_next || !had_time(stretch) {
                break;
            }
            ripe.push(stretch.clone());
        }
        ripe
    }
}

impl Stretch {
    /// Returns the number of packets of this stretch that did not leave for the neighbour `next`.
    pub(super) fn excused_for(&self, next: NodeAddr) -> u16 {
        let excused = self.excused.iter().find(|(node, _)| *node == next);
        excused.map_or(0, |(_, packets)| *packets)
    }

    fn follows(&self, before: &Stretch) -> bool {
        (self.key, self.first) == (before.key, before.first + u64::from(before.count))
    }

    fn continues(&self, now: Time, sent: &Stretch) -> bool {
        sent.follows(self) && self.carried == sent.carried && now.since(self.at) < LASTS
    }
}
