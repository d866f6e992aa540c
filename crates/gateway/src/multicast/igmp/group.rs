//! The state of one group that a router keeps: what the hosts of a network want from the group. [RFC 3376 §6.2, §6.4]
//!
//! ```text
//!   INCLUDE (A)      only the sources of A, each while its timer runs
//!   EXCLUDE (X, Y)   all but those of Y; X is asked for too, and will be all that is left when the
//!                    group's timer ends, because nobody excludes any more
//! ```
//! One sorted list contains A, or X and Y together: the timers of Y are zero.

use super::message::RecordKind;
use super::{Address, Timing};
use crate::multicast::packet::Mac;
use base::Time;
use core::net::Ipv4Addr;

/// Maximum number of sources of one group: enough for a dozen hosts that want different sources. A host can join fewer
/// by default (`igmp_max_msf` of Linux is 10).
pub const SOURCES_PER_GROUP_MAX: usize = 128;
/// Maximum number of sources of one group that one host may be the first to name: three times what a host joins by
/// default.
pub const SOURCES_PER_HOST_MAX: usize = 32;

/// The members of one group.
#[derive(Clone, Debug)]
pub struct Group<A = Ipv4Addr> {
    is_exclude: bool,
    /// In EXCLUDE mode: when the last excluding member expires.
    expires: Time,
    /// The sources, sorted by address.
    sources: Vec<Source<A>>,
    /// Hosts of version 1 or 2 are assumed to be present until these times. [RFC 3376 §7.3.2]
    pub(super) v1_until: Time,
    pub(super) v2_until: Time,
    /// Number of queries of the whole group that are still to be sent.
    queries_left: u8,
    next_query: Time,
    /// Whether members sent anything other than joins: answers to queries, or leaves.
    pub(super) is_confirmed: bool,
    /// When the table handles this group next.
    pub(super) due: Time,
    /// The host that was the first to join the group.
    pub(super) owner: Mac,
}

#[derive(Clone, Copy, Debug)]
struct Source<A> {
    address: A,
    /// When the timer ends; [`Time::ZERO`] for a source of Y.
    expires: Time,
    /// Number of queries of the source that are still to be sent.
    queries_left: u8,
    /// The host that was the first to name the source.
    owner: Mac,
}

/// Numbers of sources that had no room.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Refused {
    /// The group or the table has its maximum number of sources.
    pub(super) of_all: u64,
    /// The host has its maximum number of sources.
    pub(super) of_host: u64,
}

/// The context of a change.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms<'a> {
    pub(super) now: Time,
    pub(super) timing: &'a Timing,
    /// Whether this router queries. Other routers leave the timers to the querier.
    pub(super) is_querier: bool,
    /// The host that makes the change.
    pub(super) host: Mac,
    /// Number of sources that the group may have, as far as the table has room.
    pub(super) room: usize,
    /// Number of sources of the group that this host may be the first to name.
    pub(super) host_room: usize,
}

/// A query that is due.
#[derive(Debug)]
pub(super) struct Due<'a, A> {
    pub(super) sources: &'a [A],
    pub(super) suppress: bool,
}

impl<A: Address> Group<A> {
    /// Creates a group that no host wants: INCLUDE of nothing. `owner` is about to join.
    pub(super) fn of(owner: Mac) -> Group<A> {
        Group {
            owner,
            is_exclude: false,
            expires: Time::ZERO,
            sources: Vec::new(),
            v1_until: Time::ZERO,
            v2_until: Time::ZERO,
            queries_left: 0,
            next_query: Time::FAR,
            is_confirmed: false,
            due: Time::FAR,
        }
    }

    /// Returns whether any member wants anything of the group.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.is_exclude || !self.sources.is_empty()
    }

    /// Returns whether any member wants packets of `source`.
    #[must_use]
    pub fn wants(&self, now: Time, source: A) -> bool {
        let found = self.find(source).ok().map(|at| self.sources[at].expires);
        match found {
            Some(expires) => expires > now,
            None => self.is_exclude && self.expires > now,
        }
    }

    /// Returns the wanted sources; `None` if members want all sources except for some.
    #[must_use]
    pub fn included(&self) -> Option<impl Iterator<Item = A> + '_> {
        let addresses = self.sources.iter().map(|source| source.address);
        (!self.is_exclude).then_some(addresses)
    }

    /// Returns all sources, each with the host that was the first to name it.
    pub(super) fn owned(&self) -> impl Iterator<Item = (A, Mac)> + '_ {
        self.sources
            .iter()
            .map(|source| (source.address, source.owner))
    }

    /// Returns how many sources this host was the first to name.
    pub(super) fn sources_of(&self, host: Mac) -> usize {
        self.owned().filter(|(_, owner)| *owner == host).count()
    }

    /// Returns how many sources the group has.
    #[must_use]
    pub fn sources(&self) -> usize {
        self.sources.len()
    }

    /// Applies the timers that have ended. At any moment, this must be called first.
    pub(super) fn settle(&mut self, now: Time) {
        if self.is_exclude && self.expires <= now {
            self.is_exclude = false;
            self.queries_left = 0;
        }
        if self.is_exclude {
            for source in &mut self.sources {
                if source.expires <= now {
                    (source.expires, source.queries_left) = (Time::ZERO, 0);
                }
            }
        } else {
            self.sources.retain(|source| source.expires > now);
        }
    }

    /// Returns when the next timer ends.
    pub(super) fn next(&self) -> Time {
        let timers = self.sources.iter().map(|source| source.expires);
        let running = timers.filter(|&expires| expires > Time::ZERO).min();
        let own = if self.is_exclude {
            self.expires
        } else {
            Time::FAR
        };
        own.min(running.unwrap_or(Time::FAR)).min(self.next_query)
    }

    /// Applies what a host reports about the group. The sources are sorted and unique. Returns how many of them had no
    /// room. The code follows the tables of RFC 3376 §6.4.1 and §6.4.2, row by row.
    pub(super) fn apply(&mut self, kind: RecordKind, named: &[A], terms: Terms<'_>) -> Refused {
        use RecordKind::{Allow, Block, IsExclude, IsInclude, ToExclude, ToInclude};
        let fresh = terms.now + terms.timing.membership();
        let is_named = |source: &Source<A>| named.binary_search(&source.address).is_ok();
        let mut refused = Refused::default();
        match kind {
            IsInclude | Allow | ToInclude => {
                if kind == ToInclude {
                    // These are Q(G,A-B), or Q(G,X-A) and Q(G).
                    self.ask(terms, |source| !is_named(source));
                    if self.is_exclude {
                        self.ask_all(terms);
                    }
                }
                for &address in named {
                    self.put(address, (fresh, true), terms, &mut refused);
                }
            }
            Block if self.is_exclude => {
                let expires = self.expires;
                for &address in named {
                    self.put(address, (expires, false), terms, &mut refused);
                }
                self.ask(terms, is_named);
            }
            Block => self.ask(terms, is_named),
            IsExclude | ToExclude => {
                self.sources.retain(is_named);
                let added = match (self.is_exclude, kind) {
                    // The sources B-A go to Y at once.
                    (false, _) => Time::ZERO,
                    (true, IsExclude) => fresh,
                    (true, _) => self.expires,
                };
                for &address in named {
                    self.put(address, (added, false), terms, &mut refused);
                }
                if kind == ToExclude {
                    self.ask(terms, |_| true);
                }
                (self.is_exclude, self.expires) = (true, fresh);
            }
        }
        refused
    }

    /// Reduces timers, because another router sent a query and this router will hear the answers: the remaining time is
    /// at most the time for last members. [RFC 3376 §6.6.1]
    pub(super) fn on_asked(&mut self, named: &[A], now: Time, timing: &Timing) {
        let soon = now + timing.last_member();
        if named.is_empty() {
            self.expires = self.expires.min(soon);
        }
        for &address in named {
            if let Ok(at) = self.find(address) {
                let expires = &mut self.sources[at].expires;
                *expires = (*expires).min(soon);
            }
        }
    }

    /// Passes the queries that are due now to `send` one by one: first for the group, then for its sources. [RFC 3376
    /// §6.6.3]
    pub(super) fn take_queries(
        &mut self,
        now: Time,
        timing: &Timing,
        scratch: &mut Vec<A>,
        mut send: impl FnMut(Due<'_, A>),
    ) {
        if self.next_query > now {
            return;
        }
        let soon = now + timing.last_member();
        if self.queries_left > 0 {
            self.queries_left -= 1;
            let suppress = self.expires > soon;
            let sources = &[];
            send(Due { sources, suppress });
        }
        for suppress in [false, true] {
            scratch.clear();
            let asked = self.sources.iter_mut().filter(|source| {
                let is_late = source.expires > soon;
                source.queries_left > 0 && is_late == suppress
            });
            for source in asked {
                source.queries_left -= 1;
                scratch.push(source.address);
            }
            if !scratch.is_empty() {
                let sources = &scratch[..];
                send(Due { sources, suppress });
            }
        }
        let more = self.queries_left > 0 || self.sources.iter().any(|s| s.queries_left > 0);
        self.next_query = match more {
            true => now + timing.last_member_interval,
            false => Time::FAR,
        };
    }

    fn find(&self, address: A) -> Result<usize, usize> {
        self.sources.binary_search_by_key(&address, |s| s.address)
    }

    /// Adds a source if there is room. If the source exists, sets its timer if `renew` is true.
    fn put(
        &mut self,
        address: A,
        (expires, renew): (Time, bool),
        terms: Terms<'_>,
        refused: &mut Refused,
    ) {
        match self.find(address) {
            Ok(at) => {
                if renew {
                    self.sources[at].expires = expires;
                }
            }
            Err(_) if self.sources.len() >= SOURCES_PER_GROUP_MAX.min(terms.room) => {
                refused.of_all += 1;
            }
            Err(_) if self.sources_of(terms.host) >= terms.host_room => {
                refused.of_host += 1;
            }
            Err(at) => {
                let source = Source {
                    address,
                    expires,
                    queries_left: 0,
                    owner: terms.host,
                };
                self.sources.insert(at, source);
            }
        }
    }

    /// Starts queries for those sources that have a running timer and match `is_meant`.
    fn ask(&mut self, terms: Terms<'_>, is_meant: impl Fn(&Source<A>) -> bool) {
        if !terms.is_querier {
            return;
        }
        let soon = terms.now + terms.timing.last_member();
        for source in &mut self.sources {
            if source.expires > terms.now && is_meant(source) {
                source.expires = source.expires.min(soon);
                source.queries_left = terms.timing.robustness;
                self.next_query = terms.now;
            }
        }
    }

    /// Starts queries for the group.
    fn ask_all(&mut self, terms: Terms<'_>) {
        if terms.is_querier {
            let soon = terms.now + terms.timing.last_member();
            self.expires = self.expires.min(soon);
            self.queries_left = terms.timing.robustness;
            self.next_query = terms.now;
        }
    }
}
