//! Finding links: the node's actions to have the links that [`Finder`] chooses, and to end the others.
//!
//! A chosen link is opened like a direct link, see [`super::direct`]. Each node announces in its record which of its
//! links it keeps, so both ends know when neither keeps a link. Then either end ends it, once no client's packet has
//! used it for a while, see [`Unkept`]. Configured links are always kept. So are links to a neighbour that does not
//! announce what it keeps: it is in no ring, and the link may be the only one that joins it, or the nodes behind it, to
//! the others.
//!
//! A node by which many enter at once has no room for all. If it is full, a new neighbour takes the place of one whose
//! link neither end keeps and no client has used: that neighbour has found other links, or it would keep this one.

use super::{Known, OwnLinks};
use crate::finding::{Entrance, Finder, First, LEAST, Moment, Seen, Unkept};
use crate::link::{Dialling, Link, LinkIndex, Links, Made};
use crate::node::Node;
use crate::node::router::Router;
use crate::snapshot::FindingStatus;
use base::{Duration, NodeAddr, Outbox, Time};
use std::collections::BTreeMap;
use wire::Endpoint;

/// Time after which a link that is down and that nobody keeps is forgotten.
const DOWN_FOR: Duration = Duration::from_secs(30);
/// Number of neighbours whose addresses are remembered for as long as the node runs: records end 15 minutes after the
/// last link. Choice: most of a network must have gone before all of these have.
const REMEMBERED: usize = 16;

/// The choices, and the state of putting them into effect.
#[derive(Debug)]
pub(super) struct Finding {
    finder: Finder,
    first: First,
    unkept: Unkept,
    /// Neighbours: when they were last connected, and the addresses that they announced.
    remembered: BTreeMap<NodeAddr, (Time, Vec<Endpoint>)>,
    /// The neighbours that the record announces as kept.
    told: Vec<NodeAddr>,
    /// Number of links that were ended.
    dropped: u64,
}

impl Finding {
    pub(super) fn new(own: NodeAddr) -> Finding {
        Finding {
            finder: Finder::new(own),
            first: First::default(),
            unkept: Unkept::default(),
            remembered: BTreeMap::new(),
            told: Vec::new(),
            dropped: 0,
        }
    }

    /// Returns true if there is to be a link to this node.
    pub(super) fn wants(&self, of: NodeAddr) -> bool {
        self.finder.role(of).is_some() || self.looks_for(of)
    }

    /// Returns true if no path leads to this node, and it is dialled.
    pub(super) fn looks_for(&self, of: NodeAddr) -> bool {
        self.first.looked_for().any(|it| it == of)
    }

    /// A node has not answered at the addresses that it announces.
    pub(super) fn on_silent(&mut self, now: Time, of: NodeAddr) {
        if self.finder.role(of).is_some() {
            self.finder.on_silent(now, of);
        }
    }

    /// Returns the addresses that a node announced when it was a neighbour.
    pub(super) fn remembered(&self, of: NodeAddr) -> &[Endpoint] {
        self.remembered.get(&of).map_or(&[], |(_, at)| at)
    }
}

impl OwnLinks {
    /// Returns true if this end keeps the link.
    pub(in crate::node) fn keeps(&self, link: &Link, router: &Router) -> bool {
        let of = link.peer;
        let is_first =
            link.made == Made::First && (self.finding.first.wants(of) || self.is_apart(of, router));
        link.made == Made::Hand || is_first || self.finding.wants(of) || self.is_attempted(of)
    }

    /// Returns true if this node has a record of the other node and that node does not offer itself.
    fn is_apart(&self, of: NodeAddr, router: &Router) -> bool {
        router.database().links_of(of).is_some() && router.database().keeps(of, self.own).is_none()
    }

    fn seen_offers(&self, known: Known<'_>) -> Vec<Seen> {
        let (router, links) = known;
        let others = router.database().offers().filter(|of| *of != self.own);
        let accepted = others.filter(|of| self.is_accepted(*of));
        // The records of nodes that have gone no longer count.
        let is_there = |of: NodeAddr| router.tables().latency(of).is_some();
        let told_by_others = router.database().times_named(is_there);
        let see = |addr: NodeAddr| {
            let link = links.by_peer(addr).map(|index| links.at(index));
            let has_address = link.is_some_and(|link| link.made == Made::First && !link.is_left);
            let up = link.filter(|link| link.is_up());
            let told = router.database().links_of(addr).map_or(0, <[_]>::len);
            Seen {
                addr,
                one_way: router.tables().latency(addr),
                links: told.max(told_by_others.get(&addr).copied().unwrap_or_default()),
                can_dial: has_address || !self.places_of(addr, known).is_empty(),
                is_up: up.is_some(),
                rtt: up.and_then(|link| link.path.hello.rtt().least()),
            }
        };
        accepted.map(see).collect()
    }

    /// Remembers the addresses of neighbours; if there are too many, those of the most recent ones. A node without
    /// neighbours forgets nothing.
    fn remember(&mut self, now: Time, seen: &[Seen], router: &Router) {
        let remembered = &mut self.finding.remembered;
        for Seen { addr, .. } in seen.iter().filter(|it| it.is_up) {
            let at = router.database().endpoints_of(*addr);
            if !at.is_empty() {
                remembered.insert(*addr, (now, at.to_vec()));
            }
        }
        while remembered.len() > REMEMBERED {
            // The database has the records of nodes that are reached. Only this memory has the addresses of lost ones.
            let is_reached = |of: NodeAddr| router.tables().latency(of).is_some();
            let each = remembered.iter();
            let oldest = each.min_by_key(|(of, (last, _))| (!is_reached(**of), *last));
            let Some(oldest) = oldest.map(|(of, _)| *of) else {
                return;
            };
            remembered.remove(&oldest);
        }
    }

    /// Returns the nodes that have offered themselves, to which no path leads, and that can be dialled.
    fn lost_offers(&self, known: Known<'_>) -> Vec<NodeAddr> {
        let (router, _) = known;
        let offers = router.database().offers();
        let all = offers.chain(self.finding.remembered.keys().copied());
        let accepted = all.filter(|of| self.is_accepted(*of));
        let lost = accepted.filter(|of| *of != self.own && router.tables().latency(*of).is_none());
        let mut lost: Vec<NodeAddr> = lost
            .filter(|of| !self.places_of(*of, known).is_empty())
            .collect();
        lost.sort_unstable();
        lost.dedup();
        lost
    }

    fn choose_first(&mut self, now: Time, chosen: usize, (router, links): (&Router, &mut Links)) {
        let each = || links.iter().map(|(_, link)| link);
        let first = each().filter(|link| link.made == Made::First);
        let all: Vec<Entrance> = first
            .map(|link| Entrance {
                addr: link.peer,
                is_up: link.is_up(),
                is_reached: router.tables().latency(link.peer).is_some(),
            })
            .collect();
        let up = each().filter(|link| link.is_up()).count();
        let lost = self.lost_offers((router, links));
        self.finding
            .first
            .review(now, self.own, (&all, &lost), (up, chosen));
        for Entrance { addr, .. } in all {
            let is_wanted = self.finding.first.wants(addr)
                || self.is_attempted(addr)
                || self.is_apart(addr, router);
            if let Some(index) = links.by_peer(addr) {
                let link = links.at_mut(index);
                if !is_wanted && !link.is_resting {
                    // The next dial is independent of this one: nobody waits for an answer meanwhile.
                    link.dialling = Dialling::default();
                }
                link.is_resting = !is_wanted;
            }
        }
    }

    /// Returns true if neither end keeps the link. A neighbour that does not announce what it keeps counts as keeping
    /// it.
    fn is_unkept(&self, link: &Link, router: &Router) -> bool {
        let is_left = !router.database().keeps(link.peer, self.own).unwrap_or(true);
        link.is_up() && !self.keeps(link, router) && is_left
    }

    /// Returns the state of finding links, if the node does that.
    pub(in crate::node) fn finding_status(&self) -> Option<FindingStatus> {
        let (offers, measured, trials) = self.finding.finder.totals();
        self.find_links.then(|| FindingStatus {
            offers,
            measured,
            trials,
            kept: self.finding.finder.lasting().len(),
            unkept: self.finding.unkept.len(),
            dropped: self.finding.dropped,
        })
    }

    /// Returns the nodes to which there is to be a link.
    pub(super) fn wanted_links(&self) -> Vec<NodeAddr> {
        let mut wanted = match self.find_links {
            true => self.finding.finder.kept(),
            false => Vec::new(),
        };
        let is_new = |of: &NodeAddr| self.finding.finder.role(*of).is_none();
        wanted.extend(self.finding.first.looked_for().filter(is_new));
        wanted
    }
}

impl Node {
    /// Sets which of the configured neighbours are those by which the node enters the network. If the node finds links
    /// automatically, it dials them while it has too few links.
    pub fn set_first(&mut self, first: &[NodeAddr]) {
        if !self.settings.find_links {
            return;
        }
        for index in self.links.indices() {
            let link = self.links.at_mut(index);
            match (link.made, first.contains(&link.peer)) {
                (Made::Hand, true) => (link.made, link.is_resting) = (Made::First, true),
                (Made::First, false) => (link.made, link.is_resting) = (Made::Hand, false),
                (Made::Hand | Made::First | Made::Found | Made::Came, _) => {}
            }
        }
        self.own_record.note();
    }

    /// Once a second: chooses links, and ends those that nobody keeps. Chosen links are opened together with the direct
    /// ones.
    pub(in crate::node) fn tend_finding(&mut self, now: Time, out: &mut impl Outbox<Node>) {
        if !self.settings.find_links {
            return;
        }
        let seen = self.own_links.seen_offers((&self.router, &self.links));
        let chosen = self.own_links.finding.finder.lasting();
        let chosen = chosen.iter().filter(|of| self.links.is_up(**of)).count();
        let moment = Moment {
            in_need: chosen < LEAST,
            calm: self.own_links.finding.unkept.are_settled(now)
                && !self.own_links.finding.first.is_entering(),
            alone: self.links.are_down(),
        };
        let mut rng = self.rng.fork();
        self.own_links
            .finding
            .finder
            .review(now, &seen, moment, &mut rng);
        self.own_links.remember(now, &seen, &self.router);
        self.own_links
            .choose_first(now, chosen, (&self.router, &mut self.links));
        self.end_unkept(now, out);
        let links = self.links.iter().map(|(_, link)| link);
        let kept = links.filter(|link| link.is_up() && self.own_links.keeps(link, &self.router));
        let kept: Vec<NodeAddr> = kept.map(|link| link.peer).collect();
        if kept != self.own_links.finding.told {
            self.own_links.finding.told = kept;
            self.own_record.note();
        }
    }

    fn end_unkept(&mut self, now: Time, out: &mut impl Outbox<Node>) {
        let mut unkept = Vec::new();
        for index in self.links.indices() {
            let link = self.links.at(index);
            if self.own_links.is_unkept(link, &self.router) {
                unkept.push((link.peer, link.client_packets()));
            }
            // While a link is still tried, routes may lead over it, and no node seems to be lost.
            let is_there = match link.made {
                Made::First => link.carries(),
                Made::Hand | Made::Found | Made::Came => !link.is_left,
            };
            let is_over = is_there && !link.is_up() && !self.own_links.keeps(link, &self.router);
            if is_over && now.since(link.since) >= DOWN_FOR {
                self.let_go(now, index, out);
            }
        }
        let over = self.own_links.finding.unkept.look(now, &unkept);
        // A chosen link that is missing may be the one that keeps the network whole.
        let chosen = self.own_links.finding.finder.lasting();
        if chosen.iter().all(|of| self.links.is_up(*of)) {
            for of in over {
                if let Some(index) = self.links.by_peer(of) {
                    self.own_links.finding.dropped += 1;
                    self.let_go(now, index, out);
                }
            }
        }
    }

    /// Makes room for a neighbour if there is none, by ending a link that neither end keeps and no client has used.
    pub(in crate::node) fn make_room(&mut self, now: Time, out: &mut impl Outbox<Node>) {
        if !self.settings.find_links || self.links.has_room() {
            return;
        }
        let is_free = |link: &Link| {
            let is_unused =
                link.client_packets() == 0 || self.own_links.finding.unkept.is_unused(link.peer);
            is_unused && self.own_links.is_unkept(link, &self.router)
        };
        let free = self.links.iter().find(|(_, link)| is_free(link));
        if let Some(index) = free.map(|(index, _)| index) {
            self.own_links.finding.dropped += 1;
            self.let_go(now, index, out);
        }
    }

    /// The neighbour has ended the link, and this end does not keep it: this node does not dial again.
    pub(in crate::node) fn follow_end(
        &mut self,
        now: Time,
        index: LinkIndex,
        out: &mut impl Outbox<Node>,
    ) {
        if self.settings.find_links && !self.own_links.keeps(self.links.at(index), &self.router) {
            self.let_go(now, index, out);
        }
    }

    /// Ends a link. The address of a neighbour by which the node enters the network is remembered.
    pub(super) fn let_go(&mut self, now: Time, index: LinkIndex, out: &mut impl Outbox<Node>) {
        let why = "it is not needed now";
        let link = self.links.at_mut(index);
        link.announced.clear();
        if link.made == Made::First {
            link.is_resting = true;
            self.say_farewell_to(now, index, out);
            self.cut(now, index, why, out);
        } else {
            let peer = link.peer;
            let _ = self.part(now, peer, why, out);
        }
    }

    /// Returns why this link exists, in words.
    pub(in crate::node) fn why(&self, link: &Link) -> String {
        if link.made == Made::Hand {
            return "by hand".into();
        }
        if let Some(role) = self.own_links.finding.finder.role(link.peer) {
            return role.to_string();
        }
        if self.own_links.finding.looks_for(link.peer) {
            return "no other path led to it".into();
        }
        if self.own_links.is_attempted(link.peer) {
            return format!("traffic to {}", self.name_of(link.peer));
        }
        if link.made == Made::First && self.own_links.finding.first.wants(link.peer) {
            return "first neighbour: own choices are still too few".into();
        }
        match self.router.database().keeps(link.peer, self.addr) {
            Some(true) => "the neighbour keeps it".into(),
            None => "the neighbour finds no links by itself".into(),
            _ => "neither end keeps it: ends when no traffic uses it".into(),
        }
    }
}
