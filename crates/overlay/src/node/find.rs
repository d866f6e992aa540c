//! Finding links: what the node does to have the links that [`Finder`] chooses, and to be rid of the others.
//!
//! A link that was chosen is opened as a direct link is, see [`super::direct`]. Each node tells in its record which of its
//! links it keeps, so both ends know when neither does: then either ends it, once no traffic has used it for
//! [`UNUSED`]. Links that are configured are kept always. So are those to a neighbour that tells nothing of what it keeps:
//! it is in no ring, and the link may be all that joins it, or what is behind it, to the others.

use super::Node;
use crate::finding::{Entrance, Finder, First, LEAST, Seen};
use crate::link::{Link, LinkIndex, Made};
use crate::snapshot::FindingStatus;
use base::{Duration, NodeAddr, Outbox, Time};
use std::collections::BTreeMap;

/// A link that neither end keeps ends when it was hardly used for so long. Choice: records of both ends have crossed a
/// network by then, several times, and a talkspurt's pause is shorter.
const UNUSED: Duration = Duration::from_secs(10);
/// The same for a node with many links, as after many have entered at once.
const UNUSED_OF_MANY: Duration = Duration::from_secs(3);
const MANY: usize = 8;
/// As many packets within that are no traffic: what nodes say to each other end to end.
const HARDLY: u64 = 10;
/// A link that is down and that nobody keeps is forgotten after so long.
const DOWN_FOR: Duration = Duration::from_secs(30);

/// What is chosen, and what is done about it.
#[derive(Debug)]
pub(super) struct Finding {
    finder: Finder,
    first: First,
    /// Links that neither end keeps: since when they are hardly used, and what they had carried then.
    unkept: BTreeMap<NodeAddr, (Time, u64)>,
    /// The neighbours that the record tells as kept.
    told: Vec<NodeAddr>,
    /// Links that were ended.
    dropped: u64,
}

impl Finding {
    pub(super) fn new(own: NodeAddr) -> Finding {
        Finding {
            finder: Finder::new(own),
            first: First::default(),
            unkept: BTreeMap::new(),
            told: Vec::new(),
            dropped: 0,
        }
    }

    /// A link to this node is to be.
    pub(super) fn wants(&self, of: NodeAddr) -> bool {
        self.finder.role(of).is_some()
    }

    /// A node has not answered where it says that it is.
    pub(super) fn on_silent(&mut self, now: Time, of: NodeAddr) {
        self.finder.on_silent(now, of);
    }
}

impl Node {
    /// Tells that these neighbours, which were configured, are those by which the node enters the network. Where it finds
    /// links by itself, they are dialled as long as it has too few.
    pub fn set_first(&mut self, first: &[NodeAddr]) {
        if !self.settings.find_links {
            return;
        }
        for index in self.links.indices() {
            let link = self.links.at_mut(index);
            if first.contains(&link.peer) {
                link.made = Made::First;
                link.is_resting = true;
            }
        }
    }

    /// This end keeps the link.
    pub(super) fn keeps(&self, link: &Link) -> bool {
        let of = link.peer;
        let is_first =
            link.made == Made::First && (self.finding.first.wants(of) || self.is_apart(of));
        link.made == Made::Hand
            || is_first
            || self.finding.wants(of)
            || self.direct.is_attempted(of)
    }

    /// A node whose record is here does not offer itself.
    fn is_apart(&self, of: NodeAddr) -> bool {
        self.database.links_of(of).is_some() && self.database.keeps(of, self.addr).is_none()
    }

    /// Once a second: chooses, and ends what nobody keeps. Links are opened with the direct ones.
    pub(super) fn tend_finding(&mut self, now: Time, out: &mut impl Outbox<Node>) {
        if !self.settings.find_links {
            return;
        }
        let seen = self.seen_offers();
        let up = |of: &NodeAddr| {
            self.links
                .by_peer(*of)
                .is_some_and(|it| self.links.at(it).is_up())
        };
        let chosen = self.finding.finder.lasting();
        let chosen = chosen.iter().filter(|of| up(of)).count();
        let mut rng = self.rng.fork();
        let flags = (chosen < LEAST, self.finding.unkept.is_empty());
        self.finding.finder.review(now, &seen, flags, &mut rng);
        self.choose_first(now, chosen);
        self.end_unkept(now, out);
        let links = self.links.iter().map(|(_, link)| link);
        let kept = links.filter(|link| link.is_up() && self.keeps(link));
        let kept: Vec<NodeAddr> = kept.map(|link| link.peer).collect();
        if kept != self.finding.told {
            self.finding.told = kept;
            self.own_record_due = true;
        }
    }

    fn seen_offers(&self) -> Vec<Seen> {
        let others = self.database.offers().filter(|of| *of != self.addr);
        let accepted = others.filter(|of| self.accept.as_ref().is_none_or(|it| it.contains(of)));
        let see = |addr: NodeAddr| {
            let link = self.links.by_peer(addr).map(|index| self.links.at(index));
            let has_address = link.is_some_and(|link| link.made == Made::First && !link.is_left);
            let up = link.filter(|link| link.is_up());
            Seen {
                addr,
                one_way: self.tables.latency(addr),
                links: self.database.links_of(addr).map_or(0, <[_]>::len),
                can_dial: has_address || !self.dialable_endpoints(addr).is_empty(),
                is_up: up.is_some(),
                rtt: up.and_then(|link| link.path.hello.rtt().least()),
            }
        };
        accepted.map(see).collect()
    }

    fn choose_first(&mut self, now: Time, chosen: usize) {
        let links = || self.links.iter().map(|(_, link)| link);
        let first = links().filter(|link| link.made == Made::First);
        let all: Vec<Entrance> = first
            .map(|link| Entrance {
                addr: link.peer,
                is_up: link.is_up(),
                is_reached: self.tables.latency(link.peer).is_some(),
            })
            .collect();
        let up = links().filter(|link| link.is_up()).count();
        self.finding
            .first
            .review(now, self.addr, &all, (up, chosen));
        for Entrance { addr, .. } in all {
            let is_wanted = self.finding.first.wants(addr)
                || self.direct.is_attempted(addr)
                || self.is_apart(addr);
            if let Some(index) = self.links.by_peer(addr) {
                self.links.at_mut(index).is_resting = !is_wanted;
            }
        }
    }

    fn end_unkept(&mut self, now: Time, out: &mut impl Outbox<Node>) {
        let before = core::mem::take(&mut self.finding.unkept);
        // One that is missing may be what keeps the network whole.
        let chosen = self.finding.finder.lasting();
        let up = |of: &NodeAddr| {
            self.links
                .by_peer(*of)
                .is_some_and(|it| self.links.at(it).is_up())
        };
        let is_whole = chosen.iter().all(up);
        let count = self.links.iter().filter(|(_, link)| link.is_up()).count();
        let unused = if count > MANY { UNUSED_OF_MANY } else { UNUSED };
        for index in self.links.indices() {
            let link = self.links.at(index);
            let (peer, is_up) = (link.peer, link.is_up());
            if link.is_left || self.keeps(link) {
                continue;
            }
            if !is_up {
                let is_over = link.made != Made::First && now.since(link.since) >= DOWN_FOR;
                if is_over {
                    self.let_go(now, index, out);
                }
                continue;
            }
            if self.database.keeps(peer, self.addr).unwrap_or(true) {
                continue;
            }
            let carried = link.counts.data_in + link.counts.data_out;
            let (since, at) = before.get(&peer).copied().unwrap_or((now, carried));
            let is_used = carried.saturating_sub(at) > HARDLY;
            let (since, at) = if is_used { (now, carried) } else { (since, at) };
            if is_whole && now.since(since) >= unused {
                self.finding.dropped += 1;
                self.let_go(now, index, out);
            } else {
                self.finding.unkept.insert(peer, (since, at));
            }
        }
    }

    /// The neighbour has ended the link, and this end does not keep it: nobody dials again.
    pub(super) fn follow_end(&mut self, now: Time, index: LinkIndex, out: &mut impl Outbox<Node>) {
        if self.settings.find_links && !self.keeps(self.links.at(index)) {
            self.let_go(now, index, out);
        }
    }

    /// Ends a link. Where a neighbour is by which the node enters the network, it is remembered.
    pub(super) fn let_go(&mut self, now: Time, index: LinkIndex, out: &mut impl Outbox<Node>) {
        let why = "it is not needed now";
        let link = self.links.at_mut(index);
        if link.made == Made::First {
            link.is_resting = true;
            self.say_farewell_to(now, index, out);
            self.cut(now, index, why, out);
        } else {
            let peer = link.peer;
            let _ = self.part(now, peer, why, out);
        }
    }

    /// Why there is this link, in words.
    pub(super) fn why(&self, link: &Link) -> String {
        if link.made == Made::Hand {
            return "by hand".into();
        }
        if let Some(role) = self.finding.finder.role(link.peer) {
            return role.to_string();
        }
        if self.direct.is_attempted(link.peer) {
            return format!("traffic to {}", self.name_of(link.peer));
        }
        if link.made == Made::First && self.finding.first.wants(link.peer) {
            return "first neighbor: own choices are still too few".into();
        }
        match self.database.keeps(link.peer, self.addr) {
            Some(true) => "the neighbor keeps it".into(),
            None => "the neighbor finds no links by itself".into(),
            _ => "neither end keeps it: ends when no traffic uses it".into(),
        }
    }

    /// How finding links stands, if the node does.
    pub(super) fn finding_status(&self) -> Option<FindingStatus> {
        let (offers, measured, trials) = self.finding.finder.totals();
        self.settings.find_links.then(|| FindingStatus {
            offers,
            measured,
            trials,
            kept: self.finding.finder.lasting().len(),
            unkept: self.finding.unkept.len(),
            dropped: self.finding.dropped,
        })
    }

    /// The nodes to which there is to be a link.
    pub(super) fn wanted_links(&self) -> Vec<NodeAddr> {
        match self.settings.find_links {
            true => self.finding.finder.kept(),
            false => Vec::new(),
        }
    }
}
