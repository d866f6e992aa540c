//! The share of the packets on a path that arrives within a deadline, if every link of the path runs the real-time
//! protocol. [Amir06 §IV-A, §IV-B]
//!
//! A link of latency T and loss p delivers a packet after T, or, if it was recovered, after 3T+Δ, or never. If records
//! report its protection, there are up to twelve moments instead of the one at 3T+Δ: Δ and multiples of it after T.
//!
//! ```text
//!   share            1−p          p − l         l
//!                ├─────────┼────────────────┼──────┤
//!   arrives after   T           3T+Δ          never       l = 2p²−3p³ in the paper,
//!                                                             2p²−p³ for independent losses
//! ```
//!
//! A path's delay is the sum of its links' delays, so its distribution is the convolution of theirs. It is computed
//! exactly here: delays are whole microseconds, equal sums are one atom, and what is later than the deadline is dropped
//! at once. There are at most as many atoms as microseconds in the deadline, and at most 2^k after k links that lose
//! packets, or 13^k if the protection of the links is reported.

use crate::metric::{LinkCost, Parameters, unrepaired};
use crate::protection::{ALL, left};
use crate::topology::{NodeIndex, Topology};

/// The longest deadline that is distinguished from longer ones, just over one second. Beyond it nothing is live, and a
/// distribution holds at most 2^20 atoms of 16 bytes.
pub const LONGEST_DEADLINE_US: u32 = (1 << 20) - 1;

/// How losses are recovered on each link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recovery {
    /// No recovery: best effort.
    None,
    /// One request and one retransmission. The loss that stays is 2p²−3p³, as the paper approximates it. [Amir06 §IV-A]
    #[default]
    Paper,
    /// The same protocol under independent losses. The loss that stays is p·(1−(1−p)²) = 2p²−p³: the packet is lost,
    /// and then the request or the retransmission. The paper subtracts the events in which the packet that reveals the
    /// loss is lost as well; in these events the loss is only detected later.
    Independent,
    /// The protection that records report for each link ([`crate::protection`]): requests, several of them where they
    /// are in time, and coded repair. If a record reports none, as [`Recovery::Paper`].
    InForce,
}

/// The effect of one link on packets. The share that is neither direct nor recovered is lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steps {
    /// T, in microseconds.
    pub direct_us: u64,
    /// The share that arrives after T.
    pub direct: f64,
    /// The recovered packets: after how many microseconds, rising, and which share. If no protection is reported, there
    /// is one step after 3T+Δ.
    later: [(u64, f64); LATER],
    count: usize,
}

/// The times at which repair is evaluated, in distances between packets. Choice: all are multiples of the distance
/// between a call's packets, so that the delays of a path with many links take few values; for longer deadlines they
/// grow by halves of an octave.
const AFTER: [u64; LATER] = [1, 2, 3, 4, 5, 6, 7, 8, 11, 16, 23, 32];
const LATER: usize = 12;
/// The part of a packet's time that hosts and timers take, which does not count as delay here.
const SPARE_US: u64 = 2_000;

/// The arrival of packets: shares by delay, up to a deadline.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// Delay in microseconds and share of packets, in order of delay, each delay once.
    atoms: Vec<(u64, f64)>,
}

impl Steps {
    /// Returns the delivery of a link.
    ///
    /// Choice: the backward direction is assumed to be like the forward direction, as in the expected latency metric;
    /// the paper has the same loss in both directions.
    pub fn of(link: LinkCost, recovery: Recovery, parameters: &Parameters) -> Steps {
        Steps::within(link, recovery, parameters, u64::MAX)
    }

    /// Returns the same without the packets that take longer than `most_us`.
    pub(crate) fn within(
        link: LinkCost,
        recovery: Recovery,
        parameters: &Parameters,
        most_us: u64,
    ) -> Steps {
        let loss = link.loss_share();
        let lost = match recovery {
            Recovery::InForce if link.repair.is_some() => {
                return Steps::in_force(link, parameters, most_us);
            }
            Recovery::None => loss,
            Recovery::Paper | Recovery::InForce => {
                let (low, beyond) = unrepaired(link.loss);
                (low + beyond) as f64 / (1u64 << 48) as f64
            }
            Recovery::Independent => loss * (1.0 - (1.0 - loss) * (1.0 - loss)),
        };
        let direct_us = u64::from(link.latency_us);
        let mut steps = Steps {
            direct_us,
            direct: 1.0 - loss,
            later: [(0, 0.0); LATER],
            count: 0,
        };
        // This is never more than the link has lost: 1−p and this share add up to 1 at most. All pruning depends on
        // that.
        let recovered = (loss - lost).clamp(0.0, loss);
        let recovered_us = 3 * direct_us + u64::from(parameters.detect_us);
        if recovered_us <= most_us {
            steps.push(recovered_us, recovered);
        }
        steps
    }

    /// Returns the steps of a link whose protection is known. Losses that can be recovered within a given time count as
    /// arriving at that time.
    fn in_force(link: LinkCost, parameters: &Parameters, most_us: u64) -> Steps {
        let direct_us = u64::from(link.latency_us);
        let mut steps = Steps {
            direct_us,
            direct: 1.0 - link.loss_share(),
            later: [(0, 0.0); LATER],
            count: 0,
        };
        let apart = u64::from(parameters.detect_us).max(1_000);
        let mut lost = u64::from(link.loss) << 16;
        for after in AFTER {
            if lost == 0 || direct_us + after * apart > most_us {
                break;
            }
            // More time may leave more losses, where one round more leaves no time for copies. Packets that were
            // recovered at an earlier step stay recovered.
            let still = left(link, after * apart + SPARE_US, parameters)
                .all
                .min(lost);
            steps.push(
                direct_us + after * apart,
                (lost - still) as f64 / ALL as f64,
            );
            lost = still;
        }
        steps
    }

    fn push(&mut self, us: u64, share: f64) {
        if share > 0.0 {
            self.later[self.count] = (us, share);
            self.count += 1;
        }
    }

    /// Returns the recovered packets: the delay in microseconds, in rising order, and the share of packets.
    pub fn later(&self) -> &[(u64, f64)] {
        &self.later[..self.count]
    }

    /// Returns the share that arrives at all.
    pub fn delivered(&self) -> f64 {
        self.later()
            .iter()
            .fold(self.direct, |sum, step| sum + step.1)
    }
}

impl Distribution {
    /// Returns the distribution at the start of a path: all packets, without delay.
    pub fn start() -> Distribution {
        Distribution {
            atoms: vec![(0, 1.0)],
        }
    }

    /// Returns the distribution after one more link, of the packets that arrive there by `until_us`.
    pub fn through(&self, steps: &Steps, until_us: u64) -> Distribution {
        let step = |by_us: u64, share: f64| {
            let shifted = self
                .atoms
                .iter()
                .map(move |(at, s)| (at + by_us, s * share));
            shifted.take_while(move |(at, _)| *at <= until_us && share > 0.0)
        };
        let mut atoms = Vec::with_capacity((1 + steps.count) * self.atoms.len());
        atoms.extend(step(steps.direct_us, steps.direct));
        for &(us, share) in steps.later() {
            atoms.extend(step(us, share));
        }
        // These are several sorted lists, one after the other. The sort is stable, so equal delays keep the order of
        // their lists.
        atoms.sort_by_key(|atom| atom.0);
        atoms.dedup_by(|next, first| {
            let is_same = next.0 == first.0;
            first.1 += if is_same { next.1 } else { 0.0 };
            is_same
        });
        Distribution { atoms }
    }

    /// Returns the distribution at the end of a path, up to a deadline; `None` if a link does not exist. A path of
    /// fewer than two nodes has no links and no delay.
    pub fn of_path(
        topology: &Topology,
        path: &[NodeIndex],
        recovery: Recovery,
        deadline_us: u32,
    ) -> Option<Distribution> {
        let until_us = u64::from(deadline_us.min(LONGEST_DEADLINE_US));
        path.windows(2)
            .try_fold(Distribution::start(), |before, hop| {
                let edge = topology.link(hop[0], hop[1])?;
                let steps = Steps::of(edge.link, recovery, topology.parameters());
                Some(before.through(&steps, until_us))
            })
    }

    /// Returns the share of packets that arrives within `us`.
    pub fn within(&self, us: u64) -> f64 {
        let in_time = self.atoms.iter().take_while(|(at, _)| *at <= us);
        // `sum` would return -0 for an empty list.
        in_time.fold(0.0, |sum, (_, share)| sum + share)
    }

    /// Returns the share of packets that arrives at all, before the deadline for which the distribution was computed.
    pub fn delivered(&self) -> f64 {
        self.atoms.iter().fold(0.0, |sum, (_, share)| sum + share)
    }

    /// Returns delays in microseconds with their shares, in order.
    pub fn atoms(&self) -> &[(u64, f64)] {
        &self.atoms
    }

    /// Joins neighboring atoms at the earlier one's delay until there are at most `most`. The
    /// result is an upper bound of the distribution at every moment.
    pub(crate) fn coarsen_early(&mut self, most: usize) {
        while self.atoms.len() > most.max(1) {
            let pairs = self.atoms.chunks(2);
            self.atoms = pairs
                .map(|pair| (pair[0].0, pair.iter().map(|(_, share)| share).sum()))
                .collect();
        }
    }

    /// Returns true if at every moment at least the share `other` has arrived.
    pub(crate) fn is_ahead_of(&self, other: &Distribution) -> bool {
        let (mut here, mut there) = (0.0, 0.0);
        let mut mine = self.atoms.iter().peekable();
        for &(at, share) in &other.atoms {
            there += share;
            while let Some((_, share)) = mine.next_if(|(mine_at, _)| *mine_at <= at) {
                here += share;
            }
            // Shares are products and sums of up to 2^20 terms in any order, so rounding must be tolerated.
            if here + SLACK < there {
                return false;
            }
        }
        true
    }
}

/// By how much two shares may differ that are equal except for rounding.
const SLACK: f64 = 1e-12;

#[cfg(test)]
mod tests {
    use super::*;
    use base::NodeAddr;

    fn path_of(links: &[(u32, f64)], recovery: Recovery, deadline_us: u32) -> Distribution {
        let node = |i: usize| NodeAddr(i as u32 + 1);
        let topology = Topology::from_links(
            Parameters::default(),
            links
                .iter()
                .enumerate()
                .map(|(i, &(us, loss))| (node(i), node(i + 1), LinkCost::new(us, loss))),
        );
        let path: Vec<NodeIndex> = topology.nodes().collect();
        Distribution::of_path(&topology, &path, recovery, deadline_us).unwrap()
    }

    #[track_caller]
    fn near(a: f64, b: f64) {
        assert!((a - b).abs() < 2e-5, "{a} {b}");
    }

    /// [Amir06 Fig. 6]: one link of 10 ms and 5 %: 95 % after 10 ms, all but about 0.5 % after
    /// three times that and the time to detect.
    #[test]
    fn one_link_is_a_step_curve() {
        let d = path_of(&[(10_000, 0.05)], Recovery::Paper, 100_000);
        assert_eq!(d.atoms().len(), 2);
        assert_eq!((d.atoms()[0].0, d.atoms()[1].0), (10_000, 32_000));
        near(d.within(10_000), 0.95);
        near(d.within(31_999), 0.95);
        near(d.within(32_000), 1.0 - (2.0 * 0.0025 - 3.0 * 0.000_125));
        let exact = path_of(&[(10_000, 0.05)], Recovery::Independent, 100_000);
        near(exact.delivered(), 1.0 - (2.0 * 0.0025 - 0.000_125));
        let none = path_of(&[(10_000, 0.05)], Recovery::None, 100_000);
        assert_eq!((none.atoms().len(), d.within(9_999)), (1, 0.0));
    }

    /// [Amir06 Fig. 7]: two links: about 1 % lost, just under 0.25 % recovered twice, at 64 ms.
    #[test]
    fn two_links_are_the_convolution() {
        let d = path_of(&[(10_000, 0.05); 2], Recovery::Paper, 100_000);
        let delays: Vec<u64> = d.atoms().iter().map(|atom| atom.0).collect();
        assert_eq!(delays, [20_000, 42_000, 64_000]);
        let r = 0.05 - (2.0 * 0.0025 - 3.0 * 0.000_125);
        near(d.atoms()[0].1, 0.95 * 0.95);
        near(d.atoms()[1].1, 2.0 * 0.95 * r);
        near(d.atoms()[2].1, r * r);
        assert!((0.009..0.01).contains(&(1.0 - d.delivered())));
    }

    #[test]
    fn what_is_late_does_not_count() {
        let d = path_of(&[(20_000, 0.05), (30_000, 0.02)], Recovery::Paper, 91_999);
        let delays: Vec<u64> = d.atoms().iter().map(|atom| atom.0).collect();
        assert_eq!(delays, [50_000], "recovered they take 92 and 112 ms");
        near(d.delivered(), 0.95 * 0.98);
    }

    #[test]
    fn a_link_never_delivers_more_than_came() {
        for recovery in [Recovery::None, Recovery::Paper, Recovery::Independent] {
            let mut last = 1.0;
            for loss in 0..=u16::MAX {
                let link = LinkCost::of_share(1, loss);
                let s = Steps::of(link, recovery, &Parameters::default());
                assert!(s.later().iter().all(|step| step.1 > 0.0) && s.delivered() <= 1.0);
                assert!(s.delivered() <= last + 1e-12, "{recovery:?} {loss}");
                last = s.delivered();
            }
            assert!(last < 0.001, "a dead link delivers nothing");
        }
    }

    #[test]
    fn a_distribution_is_bounded_by_the_microseconds_of_the_deadline() {
        let links: Vec<(u32, f64)> = (0..40).map(|i| (i % 3, 0.3)).collect();
        let topology_delta = path_of(&links, Recovery::Paper, 60_000);
        assert!(topology_delta.atoms().len() <= 60_001);
        assert!(
            topology_delta
                .atoms()
                .windows(2)
                .all(|pair| pair[0].0 < pair[1].0)
        );
    }

    #[test]
    fn ahead_means_at_every_moment() {
        let of = |atoms: &[(u64, f64)]| Distribution {
            atoms: atoms.to_vec(),
        };
        let a = of(&[(10, 0.5), (20, 0.4)]);
        assert!(a.is_ahead_of(&a));
        assert!(a.is_ahead_of(&of(&[(11, 0.5), (20, 0.3)])));
        assert!(!a.is_ahead_of(&of(&[(9, 0.1)])));
        assert!(!a.is_ahead_of(&of(&[(30, 0.95)])));
        let mut coarse = of(&[(1, 0.1), (2, 0.1), (3, 0.1), (4, 0.1), (5, 0.1)]);
        let fine = coarse.clone();
        coarse.coarsen_early(2);
        assert_eq!(coarse.atoms().len(), 2);
        assert!(coarse.is_ahead_of(&fine));
    }
}
