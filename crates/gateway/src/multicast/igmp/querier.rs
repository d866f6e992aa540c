//! The router's side: who wants what on one network, and the queries that keep it true.
//!
//! ```text
//!   reports, leaves ──▶ groups ──▶ member(group, true / false)    join, leave the overlay's group
//!   queries of others ──▶ the lowest address asks, the others listen
//!   time ──▶ query(..): general ones, and of what somebody has left
//! ```
//! The table is bounded: beyond [`GROUPS_MAX`] and [`SOURCES_MAX`] joins are refused and counted,
//! and those that are there stay. A host, by its Ethernet address, answers for the groups and sources that
//! it was the first to name, and may name so many: one that forges reports takes no place of others.

use super::emit::Speaker;
use super::group::{Group, Refused, Terms};
use super::message::{Asked, Message, RecordKind, Sources};
use super::{Address, Timing, message};
use crate::multicast::drops::Drop;
use crate::multicast::packet::Mac;
use crate::multicast::rules::{Rules, is_link_local, is_source_specific};
use base::{Duration, Time};
use core::net::Ipv4Addr;
use std::collections::{BTreeMap, BTreeSet};

/// Groups with members on one network: 65 536 at about 200 bytes are 13 MB.
pub const GROUPS_MAX: usize = 65_536;
/// Sources of all groups together: 32 bytes each, 8 MB.
pub const SOURCES_MAX: usize = 262_144;
/// Groups that one host may be the first to join, where the operator says nothing. Choice: some dozens
/// are what programs of one host join; eight hosts that join all they can fill a node's 1953 places.
pub const HOST_GROUPS: usize = 256;

/// A query to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query<'a, A = Ipv4Addr> {
    /// The group; `None` for all.
    pub group: Option<A>,
    /// Its sources; none for all.
    pub sources: &'a [A],
    /// Other routers need not lower their timers.
    pub suppress: bool,
    /// Within how long hosts answer.
    pub max_response: Duration,
    /// How often this router says what may be lost.
    pub robustness: u8,
    /// From one general query to the next.
    pub interval: Duration,
}

/// Where a querier puts what it wants done.
pub trait Outlet<A = Ipv4Addr> {
    /// Sends a query.
    fn query(&mut self, query: &Query<'_, A>);
    /// A group has its first member on this network, or lost its last one.
    fn member(&mut self, group: A, is_wanted: bool);
    /// A source of a source-specific group is wanted on this network, or is not any more.
    fn channel(&mut self, group: A, source: A, is_wanted: bool);
    /// A join of a host was refused.
    fn refused(&mut self, from: Speaker<A>, group: A, reason: Drop);
    /// A group's only sign of life was the join itself: nobody answered this router's queries.
    fn unanswered(&mut self, group: A);
}

/// The members of one network.
#[derive(Debug)]
pub struct Querier<A = Ipv4Addr> {
    timing: Timing,
    own: A,
    asks: bool,
    groups: BTreeMap<A, Group<A>>,
    /// How many groups each host was the first to join; hosts without any are not here.
    hosts: BTreeMap<Mac, usize>,
    host_groups: usize,
    due: BTreeSet<(Time, A)>,
    /// Of all groups.
    sources: usize,
    other: Option<Other<A>>,
    next_general: Time,
    startup_left: u8,
    /// General queries sent since it is the querier.
    asked: u64,
    named: Vec<A>,
    scratch: Vec<A>,
}

/// Another router that asks, and what it goes by.
#[derive(Clone, Copy, Debug)]
struct Other<A> {
    address: A,
    version: u8,
    until: Time,
    timing: Timing,
}

/// What one report is applied by.
struct Change<'a, A> {
    now: Time,
    from: Speaker<A>,
    rules: &'a Rules,
    /// More than a join: an answer to a query, or a leave.
    is_current: bool,
}

impl<A: Address> Querier<A> {
    /// A table without members, for a router with the address `own`, 0.0.0.0 if it has none. It
    /// asks at once, unless `asks` is false: then it only listens.
    #[must_use]
    pub fn new(timing: Timing, own: A, asks: bool, now: Time) -> Querier<A> {
        Querier {
            timing,
            own,
            asks,
            groups: BTreeMap::new(),
            hosts: BTreeMap::new(),
            host_groups: HOST_GROUPS,
            due: BTreeSet::new(),
            sources: 0,
            other: None,
            next_general: if asks { now } else { Time::FAR },
            startup_left: timing.robustness,
            asked: 0,
            named: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// One host may be the first to join so many groups.
    #[must_use]
    pub fn with_host_groups(self, host_groups: usize) -> Querier<A> {
        Querier {
            host_groups,
            ..self
        }
    }

    /// Whether a packet is for anybody here.
    #[must_use]
    pub fn wants(&self, now: Time, group: A, source: A) -> bool {
        let group = self.groups.get(&group);
        group.is_some_and(|group| group.wants(now, source))
    }

    /// The group, if anybody wants anything of it.
    #[must_use]
    pub fn group(&self, group: A) -> Option<&Group<A>> {
        self.groups.get(&group)
    }

    /// The groups that have members, by address.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = (A, &Group<A>)> {
        self.groups.iter().map(|(&address, group)| (address, group))
    }

    /// Whether this router asks: no other one with a lower address does.
    #[must_use]
    pub fn is_querier(&self) -> bool {
        self.asks && self.other.is_none()
    }

    /// The router that asks in the place of this one, and the version that it speaks.
    #[must_use]
    pub fn other(&self) -> Option<(A, u8)> {
        self.other.map(|other| (other.address, other.version))
    }

    /// The router has got another address, or asks anew because its network came back.
    pub fn restart(&mut self, now: Time, own: A) {
        self.own = own;
        self.other = None;
        self.startup_left = self.timing.robustness;
        self.next_general = if self.asks { now } else { Time::FAR };
    }

    /// Forgets all members: their network is gone.
    pub fn forget(&mut self, out: &mut impl Outlet<A>) {
        self.due.clear();
        self.hosts.clear();
        self.sources = 0;
        for (address, group) in core::mem::take(&mut self.groups) {
            out.member(address, false);
            for source in channels(address, &group) {
                out.channel(address, source, false);
            }
        }
    }

    /// Handles a message that `from` sent. Several records of a report may have different fates.
    pub fn on_message(
        &mut self,
        now: Time,
        from: Speaker<A>,
        message: &Message<'_, A>,
        rules: &Rules,
        out: &mut impl Outlet<A>,
    ) {
        let mut change = Change {
            now,
            from,
            rules,
            is_current: true,
        };
        match message {
            Message::Query(asked) => self.on_query(now, from.address, asked, out),
            &(Message::ReportV1(address) | Message::ReportV2(address)) => {
                let is_v1 = matches!(message, Message::ReportV1(_));
                let until = now + self.terms().membership();
                let kind = RecordKind::IsExclude;
                self.change(&change, address, kind, Sources::default(), out);
                if let Some(group) = self.groups.get_mut(&address) {
                    let timer = if is_v1 {
                        &mut group.v1_until
                    } else {
                        &mut group.v2_until
                    };
                    *timer = until;
                }
            }
            &Message::Leave(group) => {
                let kind = RecordKind::ToInclude;
                self.change(&change, group, kind, Sources::default(), out);
            }
            Message::ReportV3(records) => {
                for record in records.iter() {
                    let message::Record {
                        kind,
                        group,
                        sources,
                    } = record;
                    change.is_current = !matches!(kind, RecordKind::ToExclude | RecordKind::Allow);
                    self.change(&change, group, kind, sources, out);
                }
            }
        }
    }

    /// Does what is due.
    pub fn on_timeout(&mut self, now: Time, out: &mut impl Outlet<A>) {
        if self.other.is_some_and(|other| other.until <= now) {
            self.restart(now, self.own);
        }
        if self.is_querier() && self.next_general <= now {
            self.ask_all(now, out);
        }
        while let Some(&(due, address)) = self.due.first()
            && due <= now
        {
            self.touch(now, address, out, |_, _| ());
        }
    }

    /// When something is due next.
    #[must_use]
    pub fn next_timeout(&self) -> Time {
        let group = self.due.first().map_or(Time::FAR, |&(due, _)| due);
        let own = match self.other {
            Some(other) => other.until,
            None => self.next_general,
        };
        group.min(own)
    }

    /// What is gone by: another querier's, while there is one. [RFC 3376 §4.1.6]
    fn terms(&self) -> &Timing {
        self.other
            .as_ref()
            .map_or(&self.timing, |other| &other.timing)
    }

    fn on_query(&mut self, now: Time, from: A, asked: &Asked<'_, A>, out: &mut impl Outlet<A>) {
        // Switches that ask in nobody's name win no election. [RFC 4541 §2.1.1]
        let has_lower = !from.into().is_unspecified()
            && from != self.own
            && (self.own.into().is_unspecified() || from < self.own);
        if !has_lower || self.other.is_some_and(|other| other.address < from) {
            return;
        }
        let mut timing = self.other.map_or(self.timing, |other| other.timing);
        if asked.robustness > 0 {
            timing.robustness = asked.robustness;
        }
        if asked.interval > Duration::ZERO {
            timing.query_interval = asked.interval;
        }
        match asked.group {
            None => timing.response_interval = asked.max_response,
            // Last members have as long as the one who asks gives them.
            Some(_) => timing.last_member_interval = asked.max_response,
        }
        self.other = Some(Other {
            address: from,
            version: asked.version,
            until: now + timing.other_querier(),
            timing,
        });
        if let Some(address) = asked.group
            && !asked.suppress
            && self.groups.contains_key(&address)
        {
            let named: Vec<_> = asked.sources.iter().collect();
            self.touch(now, address, out, |group, _| {
                group.on_asked(&named, now, &timing);
            });
        }
    }

    /// What a host says of one group, if it may.
    fn change(
        &mut self,
        change: &Change<'_, A>,
        address: A,
        kind: RecordKind,
        sources: Sources<'_, A>,
        out: &mut impl Outlet<A>,
    ) {
        if is_link_local(address) {
            // Hosts report some of them; nothing of them is ever bridged.
            return;
        }
        let adds = !matches!(kind, RecordKind::Block)
            && (matches!(kind, RecordKind::IsExclude | RecordKind::ToExclude)
                || !sources.is_empty());
        if adds && !change.rules.allows(address) {
            return out.refused(change.from, address, Drop::JoinNotAllowed);
        }
        let excludes = matches!(kind, RecordKind::IsExclude | RecordKind::ToExclude);
        if excludes && is_source_specific(address) {
            // [RFC 4604 §2.2.1]
            return out.refused(change.from, address, Drop::JoinWithoutSource);
        }
        if !self.groups.contains_key(&address) {
            if !adds {
                return;
            }
            if self.groups.len() >= GROUPS_MAX {
                return out.refused(change.from, address, Drop::JoinTooMany);
            }
            let owner = change.from.mac;
            let owned = self.hosts.get(&owner).copied().unwrap_or(0);
            if owned >= self.host_groups {
                return out.refused(change.from, address, Drop::HostTooMany);
            }
            self.hosts.insert(owner, owned + 1);
            self.groups.insert(address, Group::of(owner));
        }
        let mut named = core::mem::take(&mut self.named);
        named.clear();
        named.extend(sources.iter());
        named.sort_unstable();
        named.dedup();
        let (timing, is_querier) = (*self.terms(), self.is_querier());
        let mut refused = Refused::default();
        self.touch(change.now, address, out, |group, room| {
            let now = change.now;
            let (is_v1, is_v2) = (group.v1_until > now, group.v2_until > now);
            // Hosts of old versions among the others. [RFC 3376 §7.3.2]
            let named = match kind {
                RecordKind::Block if is_v1 || is_v2 => return,
                RecordKind::ToInclude if is_v1 => return,
                RecordKind::ToExclude if is_v1 || is_v2 => &[],
                _ => &named[..],
            };
            let terms = Terms {
                now,
                timing: &timing,
                is_querier,
                host: change.from.mac,
                room,
            };
            refused = group.apply(kind, named, terms);
            group.is_confirmed |= change.is_current;
        });
        let reasons = [
            (Drop::SourceTooMany, refused.of_all),
            (Drop::HostTooMany, refused.of_host),
        ];
        for (reason, count) in reasons {
            (0..count).for_each(|_| out.refused(change.from, address, reason));
        }
        self.named = named;
    }

    /// Lets `act` change a group, with the number of sources that it may come to, and does all that
    /// follows from it: queries, the table's order, the end of the group.
    fn touch(
        &mut self,
        now: Time,
        address: A,
        out: &mut impl Outlet<A>,
        act: impl FnOnce(&mut Group<A>, usize),
    ) {
        let (timing, is_querier) = (*self.terms(), self.is_querier());
        let Some(group) = self.groups.get_mut(&address) else {
            return;
        };
        let (before, was_due, was_known) = (group.sources(), group.due, group.due < Time::FAR);
        let had: Vec<_> = channels(address, group).collect();
        group.settle(now);
        // A group that ran out of time is none any more before it is something new.
        let lapsed = was_known && !group.is_wanted();
        act(group, SOURCES_MAX - self.sources + before);
        group.take_queries(now, &timing, &mut self.scratch, |due| {
            if !is_querier {
                return;
            }
            out.query(&Query {
                group: Some(address),
                sources: due.sources,
                suppress: due.suppress,
                max_response: timing.last_member_interval,
                robustness: timing.robustness,
                interval: timing.query_interval,
            });
        });
        self.sources = self.sources - before + group.sources();
        let has: Vec<_> = channels(address, group).collect();
        for source in had.iter().filter(|source| !has.contains(source)) {
            out.channel(address, *source, false);
        }
        for source in has.iter().filter(|source| !had.contains(source)) {
            out.channel(address, *source, true);
        }
        group.due = group.next();
        let (due, is_wanted, is_confirmed) = (group.due, group.is_wanted(), group.is_confirmed);
        if was_known {
            self.due.remove(&(was_due, address));
        }
        if is_wanted {
            self.due.insert((due, address));
            if !was_known {
                out.member(address, true);
            }
        } else {
            self.remove(address);
            if was_known {
                out.member(address, false);
            }
            if lapsed && !is_confirmed && is_querier && self.asked > 0 {
                out.unanswered(address);
            }
        }
    }

    fn remove(&mut self, address: A) {
        let Some(group) = self.groups.remove(&address) else {
            return;
        };
        if let Some(owned) = self.hosts.get_mut(&group.owner) {
            *owned -= 1;
            if *owned == 0 {
                self.hosts.remove(&group.owner);
            }
        }
    }

    fn ask_all(&mut self, now: Time, out: &mut impl Outlet<A>) {
        let timing = &self.timing;
        let is_startup = self.startup_left > 0;
        self.startup_left = self.startup_left.saturating_sub(1);
        let (max_response, next) = match is_startup {
            true => (timing.startup_response, timing.query_interval.div(4)),
            false => (timing.response_interval, timing.query_interval),
        };
        self.next_general = now + next;
        self.asked += 1;
        out.query(&Query {
            group: None,
            sources: &[],
            suppress: false,
            max_response,
            robustness: timing.robustness,
            interval: timing.query_interval,
        });
    }
}

/// The sources of a source-specific group that are wanted; none of another group.
fn channels<A: Address>(address: A, group: &Group<A>) -> impl Iterator<Item = A> + '_ {
    let included = is_source_specific(address).then(|| group.included());
    included.flatten().into_iter().flatten()
}
