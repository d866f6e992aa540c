//! What the hosts of a network want of one group, as a router keeps it. [RFC 3376 §6.2, §6.4]
//!
//! ```text
//!   INCLUDE (A)      only the sources of A, each while its timer runs
//!   EXCLUDE (X, Y)   all but those of Y; X is asked for too, and will be all that is left when the
//!                    group's timer ends, because nobody excludes any more
//! ```
//! One sorted list holds A, or X and Y together: the timers of Y stand at zero.

use super::message::RecordKind;
use super::{Address, Timing};
use crate::multicast::packet::Mac;
use base::Time;
use core::net::Ipv4Addr;

/// Sources of one group: more than a host can join by default (`igmp_max_msf` of Linux is 10), for
/// a dozen hosts that want different ones.
pub const SOURCES_PER_GROUP_MAX: usize = 128;
/// Sources of one group that one host may be the first to name: three times what a host joins by default.
pub const SOURCES_PER_HOST_MAX: usize = 32;

/// One group's members.
#[derive(Clone, Debug)]
pub struct Group<A = Ipv4Addr> {
    is_exclude: bool,
    /// When nobody excludes any more, in EXCLUDE.
    expires: Time,
    /// By address.
    sources: Vec<Source<A>>,
    /// Hosts of these versions are there until then. [RFC 3376 §7.3.2]
    pub(super) v1_until: Time,
    pub(super) v2_until: Time,
    /// Queries of the whole group that are still to be sent.
    queries_left: u8,
    next_query: Time,
    /// Something was heard of it beside joins: answers to queries, leaves.
    pub(super) is_confirmed: bool,
    /// When the table looks here again.
    pub(super) due: Time,
    /// The host that was the first to join it.
    pub(super) owner: Mac,
}

#[derive(Clone, Copy, Debug)]
struct Source<A> {
    address: A,
    /// [`Time::ZERO`] for one of Y.
    expires: Time,
    /// Queries of it that are still to be sent.
    queries_left: u8,
    /// The host that was the first to name it.
    owner: Mac,
}

/// How many sources had no room.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Refused {
    /// The group, or the table, has as many as it may.
    pub(super) of_all: u64,
    /// The host has.
    pub(super) of_host: u64,
}

/// What a change of a group needs to know.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms<'a> {
    pub(super) now: Time,
    pub(super) timing: &'a Timing,
    /// This router asks; others leave the timers to who does.
    pub(super) is_querier: bool,
    /// Who makes it.
    pub(super) host: Mac,
    /// How many more sources the table takes.
    pub(super) room: usize,
}

/// A query that is due.
#[derive(Debug)]
pub(super) struct Due<'a, A> {
    pub(super) sources: &'a [A],
    pub(super) suppress: bool,
}

impl<A: Address> Group<A> {
    /// Nobody wants it: INCLUDE of nothing. `owner` is about to join.
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

    /// Whether anybody wants anything of it.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.is_exclude || !self.sources.is_empty()
    }

    /// Whether a packet of `source` is for anybody.
    #[must_use]
    pub fn wants(&self, now: Time, source: A) -> bool {
        let found = self.find(source).ok().map(|at| self.sources[at].expires);
        match found {
            Some(expires) => expires > now,
            None => self.is_exclude && self.expires > now,
        }
    }

    /// Whether only some sources are wanted, and which.
    #[must_use]
    pub fn included(&self) -> Option<impl Iterator<Item = A> + '_> {
        let addresses = self.sources.iter().map(|source| source.address);
        (!self.is_exclude).then_some(addresses)
    }

    /// How many sources are kept.
    #[must_use]
    pub fn sources(&self) -> usize {
        self.sources.len()
    }

    /// What happens when time passes. To be called before anything else at a moment.
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

    /// The next moment at which something happens.
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

    /// What a host says of the group, with its sources sorted and each once. Tells how many of them
    /// had no room. The tables of RFC 3376 §6.4.1 and §6.4.2, row by row.
    pub(super) fn apply(&mut self, kind: RecordKind, named: &[A], terms: Terms<'_>) -> Refused {
        use RecordKind::{Allow, Block, IsExclude, IsInclude, ToExclude, ToInclude};
        let fresh = terms.now + terms.timing.membership();
        let is_named = |source: &Source<A>| named.binary_search(&source.address).is_ok();
        let mut refused = Refused::default();
        match kind {
            IsInclude | Allow | ToInclude => {
                if kind == ToInclude {
                    // Q(G,A-B), or Q(G,X-A) and Q(G).
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
                    // B-A goes to Y at once.
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

    /// Another router asked, and who answers will be heard: as long as last members may take.
    /// [RFC 3376 §6.6.1]
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

    /// The queries that are due now, given to `send` one by one: of the group, then of its sources.
    /// [RFC 3376 §6.6.3]
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

    /// Adds a source, or sets the timer of one that is there if `renew` says so, where there is room.
    fn put(
        &mut self,
        address: A,
        (expires, renew): (Time, bool),
        terms: Terms<'_>,
        refused: &mut Refused,
    ) {
        let of_host = |source: &&Source<A>| source.owner == terms.host;
        match self.find(address) {
            Ok(at) => {
                if renew {
                    self.sources[at].expires = expires;
                }
            }
            Err(_) if self.sources.len() >= SOURCES_PER_GROUP_MAX.min(terms.room) => {
                refused.of_all += 1;
            }
            Err(_) if self.sources.iter().filter(of_host).count() >= SOURCES_PER_HOST_MAX => {
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

    /// Asks whether anybody still wants the sources that `is_meant` picks of those with a timer.
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

    /// Asks whether anybody still wants the group.
    fn ask_all(&mut self, terms: Terms<'_>) {
        if terms.is_querier {
            let soon = terms.now + terms.timing.last_member();
            self.expires = self.expires.min(soon);
            self.queries_left = terms.timing.robustness;
            self.next_query = terms.now;
        }
    }
}
