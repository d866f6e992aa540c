//! The router's side: the table of members on one network, and the queries that keep it up to date.
//!
//! ```text
//!   reports, leaves ──▶ groups ──▶ member(group, true / false)    join, leave the overlay's group
//!   queries of others ──▶ the lowest address asks, the others listen
//!   time ──▶ query(..): general ones, and of what somebody has left
//! ```
//! The table is bounded: beyond [`GROUPS_MAX`] and [`SOURCES_MAX`], joins are refused and counted, and existing entries
//! stay. What a host was the first to name counts for this host, by its Ethernet address, and is limited: a host that
//! forges reports takes no place of other hosts. The unit is what takes a place in a node, which is a group, or each
//! source of a source-specific group ([`carrier`](crate::multicast::channel::carrier)).

use super::emit::Speaker;
use super::group::{Group, Refused, SOURCES_PER_HOST_MAX, Terms};
use super::message::{Asked, Message, RecordKind, Sources};
use super::places::Places;
use super::{Address, Timing, message};
use crate::multicast::drops::Drop;
use crate::multicast::packet::Mac;
use crate::multicast::rules::{Rules, is_link_local, is_source_specific};
use base::{Duration, Time};
use core::net::Ipv4Addr;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of groups with members on one network: 65 536 at about 200 bytes are 13 MB.
pub const GROUPS_MAX: usize = 65_536;
/// Maximum number of sources of all groups together: 32 bytes each, 8 MB.
pub const SOURCES_MAX: usize = 262_144;
/// The default number of groups that one host may be the first to join, where each source of a source-specific group
/// counts as one. Choice: the programs of one host join some dozens of groups. It takes eight hosts that join as many
/// as they can to fill a node's 1953 places, or four that do so in both families of addresses.
pub const HOST_GROUPS: usize = 256;

/// A query to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query<'a, A = Ipv4Addr> {
    /// The group; `None` for all.
    pub group: Option<A>,
    /// The sources of the group; empty for all.
    pub sources: &'a [A],
    /// Whether other routers need not lower their timers.
    pub suppress: bool,
    /// The time within which hosts answer.
    pub max_response: Duration,
    /// How often this router sends messages that may be lost.
    pub robustness: u8,
    /// The time between general queries.
    pub interval: Duration,
}

/// Receives the outputs of a querier.
pub trait Outlet<A = Ipv4Addr> {
    /// Sends a query.
    fn query(&mut self, query: &Query<'_, A>);
    /// Reports that a group has its first member on this network, or has lost its last one.
    fn member(&mut self, group: A, is_wanted: bool);
    /// Reports that a source of a source-specific group is wanted on this network, or no longer wanted.
    fn channel(&mut self, group: A, source: A, is_wanted: bool);
    /// Reports that a join of a host was refused.
    fn refused(&mut self, from: Speaker<A>, group: A, reason: Drop);
    /// Reports that the join was the only message about a group: no host answered this router's queries.
    fn unanswered(&mut self, group: A);
}

/// The members of one network.
#[derive(Debug)]
pub struct Querier<A = Ipv4Addr> {
    timing: Timing,
    own: A,
    asks: bool,
    groups: BTreeMap<A, Group<A>>,
    hosts: Places,
    due: BTreeSet<(Time, A)>,
    /// Number of sources of all groups.
    sources: usize,
    other: Option<Other<A>>,
    next_general: Time,
    startup_left: u8,
    /// Number of general queries that this router sent since it became the querier.
    asked: u64,
    named: Vec<A>,
    scratch: Vec<A>,
}

/// Another router that queries, and the timers that it uses.
#[derive(Clone, Copy, Debug)]
struct Other<A> {
    address: A,
    version: u8,
    until: Time,
    timing: Timing,
}

/// The context of one report.
struct Change<'a, A> {
    now: Time,
    from: Speaker<A>,
    rules: &'a Rules,
    /// True for an answer to a query or a leave; false for a join.
    is_current: bool,
}

impl<A: Address> Querier<A> {
    /// Creates a table without members, for a router with the address `own`, or 0.0.0.0 if it has none. The router
    /// sends a query at once; if `asks` is false, it only listens.
    #[must_use]
    pub fn new(timing: Timing, own: A, asks: bool, now: Time) -> Querier<A> {
        Querier {
            timing,
            own,
            asks,
            groups: BTreeMap::new(),
            hosts: Places::new(HOST_GROUPS),
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

    /// Sets how many groups one host may be the first to join; see [`HOST_GROUPS`].
    #[must_use]
    pub fn with_host_groups(mut self, host_groups: usize) -> Querier<A> {
        self.set_host_groups(host_groups);
        self
    }

    /// Sets this number for the joins from now on. Existing groups stay.
    pub fn set_host_groups(&mut self, host_groups: usize) {
        self.hosts.most = host_groups;
    }

    /// Returns how many of these groups a host has.
    #[must_use]
    pub fn host_groups(&self, host: Mac) -> usize {
        self.hosts.of(host)
    }

    /// Returns whether a member here wants the packet.
    #[must_use]
    pub fn wants(&self, now: Time, group: A, source: A) -> bool {
        let group = self.groups.get(&group);
        group.is_some_and(|group| group.wants(now, source))
    }

    /// Returns the group, if it has members.
    #[must_use]
    pub fn group(&self, group: A) -> Option<&Group<A>> {
        self.groups.get(&group)
    }

    /// Returns the groups that have members, in order of address.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = (A, &Group<A>)> {
        self.groups.iter().map(|(&address, group)| (address, group))
    }

    /// Returns whether this router queries: no other router with a lower address does.
    #[must_use]
    pub fn is_querier(&self) -> bool {
        self.asks && self.other.is_none()
    }

    /// Returns the router that queries instead of this one, and the version that it speaks.
    #[must_use]
    pub fn other(&self) -> Option<(A, u8)> {
        self.other.map(|other| (other.address, other.version))
    }

    /// Sets a new address of the router, or begins to query again because the network came back.
    pub fn restart(&mut self, now: Time, own: A) {
        self.own = own;
        self.other = None;
        self.startup_left = self.timing.robustness;
        self.next_general = if self.asks { now } else { Time::FAR };
    }

    /// Forgets all members, because their network has disappeared.
    pub fn forget(&mut self, out: &mut impl Outlet<A>) {
        self.due.clear();
        self.hosts.clear();
        self.sources = 0;
        for (address, group) in core::mem::take(&mut self.groups) {
            out.member(address, false);
            for (source, _) in channels(address, &group) {
                out.channel(address, source, false);
            }
        }
    }

    /// Handles a message that `from` sent. The records of a report are accepted or refused individually.
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

    /// Does the work that is due.
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

    /// Returns when work is due next.
    #[must_use]
    pub fn next_timeout(&self) -> Time {
        let group = self.due.first().map_or(Time::FAR, |&(due, _)| due);
        let own = match self.other {
            Some(other) => other.until,
            None => self.next_general,
        };
        group.min(own)
    }

    /// Returns the timers in use: those of another querier, while there is one. [RFC 3376 §4.1.6]
    fn terms(&self) -> &Timing {
        self.other
            .as_ref()
            .map_or(&self.timing, |other| &other.timing)
    }

    fn on_query(&mut self, now: Time, from: A, asked: &Asked<'_, A>, out: &mut impl Outlet<A>) {
        // Switches that query without an address take no part in the election. [RFC 4541 §2.1.1]
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
            // Last members have the time that the querier gives them.
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

    /// Applies what a host reports about one group, if this is permitted.
    fn change(
        &mut self,
        change: &Change<'_, A>,
        address: A,
        kind: RecordKind,
        sources: Sources<'_, A>,
        out: &mut impl Outlet<A>,
    ) {
        if is_link_local(address) {
            // Hosts report some of these groups, but none of them is ever bridged.
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
            if !is_source_specific(address) {
                if self.hosts.room(owner) == 0 {
                    return out.refused(change.from, address, Drop::HostTooMany);
                }
                self.hosts.take(owner);
            }
            self.groups.insert(address, Group::of(owner));
        }
        let own = self.groups.get(&address);
        let own = own.map_or(0, |group| group.sources_of(change.from.mac));
        let host_room = match is_source_specific(address) {
            true => SOURCES_PER_HOST_MAX.min(own + self.hosts.room(change.from.mac)),
            false => SOURCES_PER_HOST_MAX,
        };
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
            // The group also has hosts of old versions. [RFC 3376 §7.3.2]
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
                host_room,
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

    /// Lets `act` change a group, and passes it the number of sources that the group may have. Then carries out all
    /// effects: queries, the order of the table, and the end of the group.
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
        // A group whose time has run out counts as ended before any new report.
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
        group.due = group.next();
        let (due, is_wanted, is_confirmed) = (group.due, group.is_wanted(), group.is_confirmed);
        self.follow(address, &had, &has, out);
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

    /// Reports the changes of a group's channels, and counts them for their hosts.
    fn follow(&mut self, address: A, had: &[(A, Mac)], has: &[(A, Mac)], out: &mut impl Outlet<A>) {
        let is_in = |all: &[(A, Mac)], source: A| all.iter().any(|(one, _)| *one == source);
        for channel @ &(source, host) in had {
            if !is_in(has, source) {
                out.channel(address, source, false);
            }
            // The host differs if the source's time has run out, and another host has named it since.
            if !has.contains(channel) {
                self.hosts.give_back(host);
            }
        }
        for channel @ &(source, host) in has {
            if !is_in(had, source) {
                out.channel(address, source, true);
            }
            if !had.contains(channel) {
                self.hosts.take(host);
            }
        }
    }

    fn remove(&mut self, address: A) {
        let group = self.groups.remove(&address);
        if let Some(group) = group.filter(|_| !is_source_specific(address)) {
            self.hosts.give_back(group.owner);
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

/// Returns the wanted sources of a source-specific group, each with the host that was the first to name it; none for
/// another group.
fn channels<A: Address>(address: A, group: &Group<A>) -> impl Iterator<Item = (A, Mac)> + '_ {
    let included = is_source_specific(address).then(|| group.owned());
    included.into_iter().flatten()
}
