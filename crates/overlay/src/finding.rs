//! The links that a node makes automatically, among the nodes that offer themselves as neighbours.
//!
//! ```text
//!   records: who offers itself ──▶ ring and chord: the network stays whole
//!                              ──▶ trials, one at a time ──▶ measured ──▶ the nearest
//! ```
//!
//! All offering nodes form a *ring*, in the order of a hash of their addresses. Each node keeps the links to the next
//! one and the one before, one *chord*, and the links to the [`NEAREST`] of the nodes that it has measured. A chord
//! leads forward along the ring over 2 to n/2 places.
//!
//! Choice: a ring with such chords stays connected without any two of its nodes. If two nodes fail, two arcs are left.
//! Let B be the longer one, with at least (n - 2)/2 nodes. The chord of the last node of the other arc passes the
//! failed node beside it, and ends at most n/2 places on: in B. So any chord within the range keeps the network
//! connected, and nodes that come and go move few chords. Chords at exact places (1, √n) would serve as well, but would
//! move with each arrival. Two rings of different hashes are shorter, but at 60 nodes 3 % of them have a node with only
//! two neighbours in total.
//! The chord is chosen at random, so that the network is also short. Ring and chord make 2 links per node, and the
//! nearest nodes at most 2 more: on average a node has at most 8 neighbours. During the first trials, a node keeps one
//! link fewer to near nodes. The trial takes its place, so a network whose nodes all enter at once has no more links at
//! first than later.
//!
//! This module does not trust an offer: a node that does not answer is skipped for a while, each time twice as long. A
//! node that already has many links is not chosen any more, except by its neighbours in the ring, and it loses some
//! chosen links when too many nodes have chosen it at once. Its number of links is taken from its own record and from
//! the records of others: no node can hide what its neighbours report.

mod first;
mod unkept;
mod view;

pub(crate) use first::{Entrance, First};
pub(crate) use unkept::Unkept;
pub(crate) use view::{Role, Seen};

use base::{Duration, NodeAddr, Rng, Time};
use std::collections::BTreeMap;

/// Number of nearest nodes to which links are kept.
const NEAREST: usize = 2;
/// A node with fewer links of its own choice is in need. Choice: two may fail.
pub(crate) const LEAST: usize = 3;
/// How long a node that is no longer reached keeps its place in the ring. Choice: a restart.
const AWAY: Duration = Duration::from_secs(20);
/// How long a trial lasts once its link is up: three hellos of an idle link.
const MEASURED_FOR: Duration = Duration::from_secs(3);
/// Time after which a trial ends whose link does not come up.
const TRIAL_MOST: Duration = Duration::from_secs(15);
/// Number of trials that follow each other at once; each later one follows after a rest. Choice: the nearest of ten is
/// in the nearest fifth of the network with a probability of 89 %, and four trials an hour cause no noticeable load.
const FIRST_TRIALS: u64 = 8;
const TRIAL_REST: Duration = Duration::from_secs(900);
/// In each second, a node begins one of its first trials with a probability of one in this number, so that nodes which
/// enter at once do not all measure at once.
const BEGIN_ONE_OF: u64 = 4;
/// How long a measurement is valid after the link has ended.
const MEASURED_COUNTS: Duration = Duration::from_secs(24 * 3_600);
/// Maximum number of measured nodes that are remembered: 24 bytes each.
const MEASURED_MAX: usize = 256;
/// After the first trials, the shortest time between two replacements of a near node by a nearer one.
const CHANGE_REST: Duration = Duration::from_secs(60);
/// A nearer node must be nearer by a fifth, and by at least this.
const NEARER_BY: Duration = Duration::from_millis(1);
/// Nodes with this many links are not chosen, unless they are neighbours in the ring. Choice: twice the average.
const LINKS_ENOUGH: usize = 16;
/// A node with more links than this loses those above [`LINKS_ENOUGH`]: all nodes choose by records from a moment ago,
/// and many may choose the same node. Between the two numbers nothing changes.
const LINKS_MANY: usize = 24;
/// How long a node is skipped that did not answer, at first and at most.
const REST: Duration = Duration::from_secs(60);
const REST_MAX: Duration = Duration::from_secs(3_600);

/// A choice waits until the number of offers has stayed the same for [`QUIET`] looks, but for at most [`WAIT_MOST`]
/// looks.
const QUIET: u32 = 2;
const WAIT_MOST: u32 = 4;

/// The state of a node when it chooses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// The node has too few links of its own choice.
    pub(crate) in_need: bool,
    /// No links are about to end.
    pub(crate) calm: bool,
    /// The node has no link at all.
    pub(crate) alone: bool,
}

/// The node's choices, and the data that they depend on.
#[derive(Debug)]
pub(crate) struct Finder {
    own: NodeAddr,
    ring: Vec<NodeAddr>,
    chord: Option<NodeAddr>,
    /// Nodes with too many links for which this node has drawn whether it leaves them, and when it drew.
    drawn: BTreeMap<NodeAddr, Time>,
    nearest: Vec<NodeAddr>,
    trial: Option<Trial>,
    measured: BTreeMap<NodeAddr, Measured>,
    /// Nodes that did not answer: until when they are skipped, and for how long the next time.
    silent: BTreeMap<NodeAddr, (Time, Duration)>,
    /// When each offering node was last reached.
    reached: BTreeMap<NodeAddr, Time>,
    next_change: Time,
    next_trial: Time,
    trials: u64,
    offers: usize,
    /// Number of looks, one per second, for which the number of offers has been the same.
    quiet: u32,
    /// Number of looks that have passed without a choice.
    waited: u32,
}

#[derive(Clone, Copy, Debug)]
struct Trial {
    of: NodeAddr,
    began: Time,
    up: Option<Time>,
}

#[derive(Clone, Copy, Debug)]
struct Measured {
    rtt: Duration,
    at: Time,
}

impl Finder {
    /// Returns a finder that knows nothing yet.
    pub(crate) fn new(own: NodeAddr) -> Finder {
        Finder {
            own,
            ring: Vec::new(),
            chord: None,
            drawn: BTreeMap::new(),
            nearest: Vec::new(),
            trial: None,
            measured: BTreeMap::new(),
            silent: BTreeMap::new(),
            reached: BTreeMap::new(),
            next_change: Time::ZERO,
            next_trial: Time::ZERO,
            trials: 0,
            offers: 0,
            quiet: 0,
            waited: 0,
        }
    }

    /// Returns why the link to a node is kept, if it is.
    pub(crate) fn role(&self, of: NodeAddr) -> Option<Role> {
        if self.ring.contains(&of) {
            Some(Role::Ring)
        } else if self.chord == Some(of) {
            Some(Role::Chord)
        } else if self.nearest.contains(&of) {
            Some(Role::Near {
                rtt: self.measured.get(&of)?.rtt,
                among: self.measured.len(),
            })
        } else {
            let is_tried = self.trial.is_some_and(|trial| trial.of == of);
            is_tried.then_some(Role::Tried)
        }
    }

    /// Returns all nodes to which there is to be a link.
    pub(crate) fn kept(&self) -> Vec<NodeAddr> {
        let tried = self.trial.map(|trial| trial.of);
        let lasting = self.lasting();
        let new = tried.filter(|of| !lasting.contains(of));
        lasting.iter().copied().chain(new).collect()
    }

    /// Returns the kept nodes without the one that is only tried.
    pub(crate) fn lasting(&self) -> Vec<NodeAddr> {
        let ring = self.ring.iter().copied();
        let mut all: Vec<NodeAddr> = ring.chain(self.chord).collect();
        all.extend(&self.nearest);
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Returns the number of nodes that offer themselves, of measured nodes, and of trials.
    pub(crate) fn totals(&self) -> (usize, usize, u64) {
        (self.offers, self.measured.len(), self.trials)
    }

    /// A node has not answered at any of its addresses.
    pub(crate) fn on_silent(&mut self, now: Time, of: NodeAddr) {
        let rest = self.silent.get(&of).map_or(REST, |(_, rest)| *rest);
        self.silent
            .insert(of, (now + rest, (rest * 2).min(REST_MAX)));
    }

    /// Chooses again, by what is known of the nodes that offer themselves. A node `in_need` does not wait for nodes
    /// that are away. A node that is not `calm`, because links that nobody keeps are still ending, begins no trial. A
    /// node that is `alone` learns nothing about others from silence: its own uplink may be down.
    pub(crate) fn review(
        &mut self,
        now: Time,
        seen: &[Seen],
        Moment {
            in_need,
            calm,
            alone,
        }: Moment,
        rng: &mut Rng,
    ) {
        self.quiet = if seen.len() == self.offers {
            self.quiet + 1
        } else {
            0
        };
        self.note(now, seen);
        if alone {
            self.silent.clear();
        }
        // Records arrive one after another when one or many nodes enter: a ring of only some of them would hold for a
        // second.
        if self.quiet < QUIET && self.waited < WAIT_MOST {
            self.waited += 1;
            return;
        }
        self.waited = 0;
        let away = if in_need { Duration::ZERO } else { AWAY };
        let usable: Vec<Seen> = seen
            .iter()
            .filter(|seen| seen.is_up || self.may_link(now, seen, away))
            .copied()
            .collect();
        self.shed(now, &usable, rng);
        self.close_ring(&usable, rng);
        self.choose_nearest(now, &usable);
        self.end_trial(now, &usable);
        let is_up = |of: &NodeAddr| usable.iter().any(|seen| seen.addr == *of && seen.is_up);
        if calm
            && self.trial.is_none()
            && now >= self.next_trial
            && self.lasting().iter().all(is_up)
            && rng.below(BEGIN_ONE_OF) == 0
        {
            self.begin_trial(now, &usable, rng);
        }
    }

    fn note(&mut self, now: Time, seen: &[Seen]) {
        self.offers = seen.len();
        let known = |of: &NodeAddr| seen.binary_search_by_key(of, |seen| seen.addr).is_ok();
        self.reached.retain(|of, _| known(of));
        self.silent
            .retain(|of, (until, rest)| known(of) && now < *until + *rest);
        self.measured
            .retain(|of, it| known(of) && now.since(it.at) < MEASURED_COUNTS);
        for seen in seen {
            if seen.one_way.is_some() || seen.is_up {
                self.reached.insert(seen.addr, now);
            }
            if seen.is_up {
                self.silent.remove(&seen.addr);
            }
            let rtt = seen.rtt.filter(|_| seen.is_up);
            let is_room = self.measured.len() < MEASURED_MAX;
            if let Some(rtt) = rtt
                && (is_room || self.measured.contains_key(&seen.addr))
            {
                self.measured.insert(seen.addr, Measured { rtt, at: now });
            }
        }
    }

    fn may_link(&self, now: Time, seen: &Seen, away: Duration) -> bool {
        let reached = self.reached.get(&seen.addr);
        let is_there = reached.is_some_and(|at| now.since(*at) <= away);
        let is_silent = self.silent.get(&seen.addr);
        seen.can_dial && is_there && is_silent.is_none_or(|(until, _)| now >= *until)
    }

    /// Leaves chosen nodes that too many have chosen. Each node leaves with the probability that reduces their links to
    /// [`LINKS_ENOUGH`]. The records of the chosen nodes report the departures some seconds later, so this node decides
    /// once whether to leave or keep a node, and does not choose it meanwhile.
    fn shed(&mut self, now: Time, usable: &[Seen], rng: &mut Rng) {
        let drawn = &mut self.drawn;
        drawn.retain(|_, at| now.since(*at) < CHANGE_REST);
        let mut leaves = |of: &NodeAddr| {
            let seen = usable.iter().find(|seen| seen.addr == *of);
            let links = seen.map_or(0, |seen| seen.links);
            links > LINKS_MANY
                && drawn.insert(*of, now).is_none()
                && rng.below(links as u64) as usize >= LINKS_ENOUGH
        };
        self.nearest.retain(|of| !leaves(of));
        self.chord = self.chord.filter(|of| !leaves(of));
    }

    fn close_ring(&mut self, usable: &[Seen], rng: &mut Rng) {
        let ring = view::ring(self.own, usable);
        let ends = [ring.first(), ring.last()].into_iter().flatten();
        self.ring = ends.map(|seen| seen.addr).collect();
        self.ring.dedup();
        // The place of a node is one less than the number of places that lead to it.
        let most = ring.len().div_ceil(2);
        let range = ring.get(1..most).unwrap_or_default();
        if self
            .chord
            .is_none_or(|it| range.iter().all(|seen| seen.addr != it))
        {
            let is_free = |it: &&Seen| it.has_room() && !self.drawn.contains_key(&it.addr);
            let free: Vec<&Seen> = range.iter().filter(is_free).collect();
            let all: Vec<&Seen> = range.iter().collect();
            let among = if free.is_empty() { all } else { free };
            self.chord = match among.len() {
                0 => None,
                len => Some(among[rng.below(len as u64) as usize].addr),
            };
        }
    }

    /// Returns true if the first trials are not over.
    fn is_learning(&self, usable: &[Seen]) -> bool {
        match self.trial {
            Some(_) => self.trials <= FIRST_TRIALS,
            None => self.trials < FIRST_TRIALS && self.untried(usable).next().is_some(),
        }
    }

    fn choose_nearest(&mut self, now: Time, usable: &[Seen]) {
        let most = NEAREST - usize::from(self.is_learning(usable));
        let usable = |of: &NodeAddr| usable.iter().find(|seen| seen.addr == *of);
        self.nearest.retain(|of| usable(of).is_some());
        let measured = &self.measured;
        self.nearest.retain(|of| measured.contains_key(of));
        let near = |of: &NodeAddr| measured.get(of).map_or(Duration::ZERO, |it| it.rtt);
        let mut others: Vec<(Duration, NodeAddr)> = measured
            .iter()
            .filter(|(of, _)| !self.nearest.contains(of) && !self.drawn.contains_key(of))
            .filter(|(of, _)| usable(of).is_some_and(Seen::has_room))
            .map(|(of, it)| (it.rtt, *of))
            .collect();
        others.sort_unstable();
        let mut others = others.into_iter();
        while self.nearest.len() < most {
            let Some((_, next)) = others.next() else {
                return;
            };
            self.nearest.push(next);
        }
        let may_change = now >= self.next_change || self.trials < FIRST_TRIALS;
        let farthest = (0..self.nearest.len()).max_by_key(|place| near(&self.nearest[*place]));
        if let Some((rtt, next)) = others.next().filter(|_| may_change)
            && let Some(place) = farthest
        {
            let before = near(&self.nearest[place]);
            if rtt + NEARER_BY <= before && rtt * 5 <= before * 4 {
                self.nearest[place] = next;
                self.next_change = now + CHANGE_REST;
            }
        }
    }

    fn end_trial(&mut self, now: Time, usable: &[Seen]) {
        let Some(trial) = &mut self.trial else {
            return;
        };
        let seen = usable.iter().find(|seen| seen.addr == trial.of);
        if seen.is_some_and(|seen| seen.is_up && seen.rtt.is_some()) {
            trial.up.get_or_insert(now);
        }
        let is_measured = trial.up.is_some_and(|up| now.since(up) >= MEASURED_FOR);
        if is_measured || seen.is_none() || now.since(trial.began) >= TRIAL_MOST {
            self.trial = None;
        }
    }

    /// Returns the nodes that may be measured and have not been measured yet.
    fn untried<'a>(&self, usable: &'a [Seen]) -> impl Iterator<Item = &'a Seen> {
        let free = usable.iter().filter(|seen| !seen.is_up && seen.has_room());
        free.filter(|seen| !self.measured.contains_key(&seen.addr))
    }

    /// Tries alternately the node with the shortest path over other nodes, and a random one: paths over other nodes say
    /// little about how near a node is if no node near it is known.
    fn begin_trial(&mut self, now: Time, usable: &[Seen], rng: &mut Rng) {
        let new: Vec<&Seen> = self.untried(usable).collect();
        let nearest = new
            .iter()
            .min_by_key(|seen| (seen.one_way.unwrap_or(Duration::from_secs(60)), seen.addr));
        let of = match (self.trials % 2, nearest) {
            (_, None) => return,
            (0, Some(nearest)) => nearest.addr,
            _ => new[rng.below(new.len() as u64) as usize].addr,
        };
        self.trial = Some(Trial {
            of,
            began: now,
            up: None,
        });
        self.trials += 1;
        self.next_trial = match self.trials < FIRST_TRIALS {
            true => now,
            false => now + TRIAL_REST,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Thirty links, and a record that reports this number for ten seconds after the first have left.
    #[test]
    fn a_node_of_too_many_links_is_left_by_about_as_many_as_are_too_many() {
        let crowded = NodeAddr(9);
        let seen = Seen {
            addr: crowded,
            one_way: None,
            links: 30,
            can_dial: true,
            is_up: true,
            rtt: None,
        };
        let stays = |seed: u64| {
            let mut finder = Finder::new(NodeAddr(1));
            finder.nearest = vec![crowded];
            let mut rng = Rng::new(seed);
            for second in 0..10 {
                let now = Time::ZERO + Duration::from_secs(second);
                finder.shed(now, std::slice::from_ref(&seen), &mut rng);
            }
            !finder.nearest.is_empty()
        };
        let stay = (0..300).filter(|seed| stays(*seed)).count();
        let wanted = 300 * LINKS_ENOUGH / 30;
        assert!(stay.abs_diff(wanted) <= 30, "{stay} of 300, not {wanted}");
    }
}
