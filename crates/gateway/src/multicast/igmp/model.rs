//! A naive model of a router's table, with the sets of RFC 3376 §6.4 in the RFC's notation, and a comparison of
//! [`Querier`] with the model.

use super::emit::Speaker;
use super::message::{Message, RecordKind};
use super::querier::{GROUPS_MAX, HOST_GROUPS, Outlet, Querier, Query};
use super::{Address, Timing, emit};
use crate::multicast::drops::Drop;
use crate::multicast::packet::{ETHERNET_BYTES, Ip};
use crate::multicast::rules::Rules;
use base::{Duration, Time};
use core::net::Ipv4Addr;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const OWN: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 9);
const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

fn group(n: u8) -> Ipv4Addr {
    Ipv4Addr::new(239, 1, 1, n)
}

fn source(n: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, n)
}

/// The outputs of a querier.
#[derive(Debug)]
pub(super) struct Out<A = Ipv4Addr> {
    pub(super) queries: Vec<(Option<A>, Vec<A>, bool)>,
    pub(super) members: Vec<(A, bool)>,
    pub(super) channels: Vec<(A, A, bool)>,
    pub(super) refused: Vec<Drop>,
    unanswered: Vec<A>,
}

impl<A> Default for Out<A> {
    fn default() -> Self {
        Out {
            queries: Vec::new(),
            members: Vec::new(),
            channels: Vec::new(),
            refused: Vec::new(),
            unanswered: Vec::new(),
        }
    }
}

impl<A: Address> Outlet<A> for Out<A> {
    fn query(&mut self, query: &Query<'_, A>) {
        let sources = query.sources.to_vec();
        self.queries.push((query.group, sources, query.suppress));
    }
    fn member(&mut self, group: A, is_wanted: bool) {
        self.members.push((group, is_wanted));
    }
    fn channel(&mut self, group: A, source: A, is_wanted: bool) {
        self.channels.push((group, source, is_wanted));
    }
    fn refused(&mut self, _: Speaker<A>, _: A, reason: Drop) {
        self.refused.push(reason);
    }
    fn unanswered(&mut self, group: A) {
        self.unanswered.push(group);
    }
}

/// A querier, and the means to send it messages of hosts.
struct Router {
    querier: Querier,
    /// The Ethernet address of the sender.
    mac: [u8; 6],
    now: Time,
    out: Out,
    frame: Vec<u8>,
}

impl Router {
    fn new() -> Router {
        let mut router = Router {
            querier: Querier::new(Timing::default(), OWN, true, Time::ZERO),
            mac: MAC,
            now: Time::ZERO,
            out: Out::default(),
            frame: Vec::new(),
        };
        router.until(Time::from_nanos(1));
        router
    }

    /// Advances the time, and runs every timer at its moment.
    fn until(&mut self, then: Time) {
        while self.querier.next_timeout() <= then {
            self.now = self.now.max(self.querier.next_timeout());
            self.querier.on_timeout(self.now, &mut self.out);
        }
        self.now = then;
    }

    fn hear(&mut self, from: Ipv4Addr) {
        let packet = &self.frame[ETHERNET_BYTES..];
        let ip = Ip::parse(packet).unwrap();
        let message = Message::parse(&packet[ip.header_bytes..ip.total_bytes]).unwrap();
        let rules = Rules::default();
        let from = Speaker {
            mac: self.mac,
            address: from,
        };
        self.querier
            .on_message(self.now, from, &message, &rules, &mut self.out);
    }

    fn report(&mut self, kind: RecordKind, group: Ipv4Addr, sources: &[Ipv4Addr]) {
        emit::report(
            &mut self.frame,
            speaker(HOST),
            [(kind, group, sources)].into_iter(),
        );
        self.hear(HOST);
    }

    fn old(&mut self, version: u8, group: Ipv4Addr) {
        emit::report_old(&mut self.frame, speaker(HOST), version, group);
        self.hear(HOST);
    }

    fn leave(&mut self, group: Ipv4Addr) {
        emit::leave(&mut self.frame, speaker(HOST), group);
        self.hear(HOST);
    }

    fn foreign_query(&mut self, from: Ipv4Addr, group: Option<Ipv4Addr>) {
        let timing = Timing::default();
        let query = Query {
            group,
            sources: &[],
            suppress: false,
            max_response: timing.last_member_interval,
            robustness: timing.robustness,
            interval: timing.query_interval,
        };
        emit::query(&mut self.frame, speaker(from), &query);
        self.hear(from);
    }
}

fn speaker(address: Ipv4Addr) -> Speaker {
    Speaker { mac: MAC, address }
}

/// One group, in the RFC's notation.
#[derive(Clone, Debug)]
enum Model {
    Include(BTreeMap<Ipv4Addr, Time>),
    Exclude {
        timer: Time,
        x: BTreeMap<Ipv4Addr, Time>,
        y: BTreeSet<Ipv4Addr>,
    },
}

impl Model {
    fn pass(&mut self, now: Time) {
        match self {
            Model::Include(a) => a.retain(|_, timer| *timer > now),
            Model::Exclude { timer, x, y } => {
                y.extend(x.iter().filter(|(_, t)| **t <= now).map(|(s, _)| *s));
                x.retain(|_, timer| *timer > now);
                if *timer <= now {
                    *self = Model::Include(x.clone());
                }
            }
        }
    }

    fn hear(&mut self, now: Time, kind: RecordKind, b: &BTreeSet<Ipv4Addr>, timing: &Timing) {
        use RecordKind::{Allow, Block, IsExclude, IsInclude, ToExclude, ToInclude};
        let gmi = now + timing.membership();
        let lmqt = now + timing.last_member();
        let lower = |timer: &mut Time| *timer = (*timer).min(lmqt);
        match self {
            Model::Include(a) => match kind {
                IsInclude | Allow => a.extend(b.iter().map(|s| (*s, gmi))),
                ToInclude => {
                    a.iter_mut()
                        .filter(|(s, _)| !b.contains(s))
                        .for_each(|(_, t)| lower(t));
                    a.extend(b.iter().map(|s| (*s, gmi)));
                }
                Block => a
                    .iter_mut()
                    .filter(|(s, _)| b.contains(s))
                    .for_each(|(_, t)| lower(t)),
                IsExclude | ToExclude => {
                    let y = b.iter().filter(|s| !a.contains_key(s)).copied().collect();
                    let mut x = a.clone();
                    x.retain(|s, _| b.contains(s));
                    if kind == ToExclude {
                        x.values_mut().for_each(lower);
                    }
                    *self = Model::Exclude { timer: gmi, x, y };
                }
            },
            Model::Exclude { timer, x, y } => match kind {
                IsInclude | Allow | ToInclude => {
                    if kind == ToInclude {
                        x.iter_mut()
                            .filter(|(s, _)| !b.contains(s))
                            .for_each(|(_, t)| lower(t));
                        lower(timer);
                    }
                    x.extend(b.iter().map(|s| (*s, gmi)));
                    y.retain(|s| !b.contains(s));
                }
                Block => {
                    for s in b.iter().filter(|s| !y.contains(s)) {
                        lower(x.entry(*s).or_insert(*timer));
                    }
                }
                IsExclude | ToExclude => {
                    x.retain(|s, _| b.contains(s));
                    let added = if kind == ToExclude { *timer } else { gmi };
                    for s in b.iter().filter(|s| !y.contains(s)) {
                        x.entry(*s).or_insert(added);
                    }
                    y.retain(|s| b.contains(s));
                    if kind == ToExclude {
                        x.values_mut().for_each(lower);
                    }
                    *timer = gmi;
                }
            },
        }
    }

    fn wants(&self, source: Ipv4Addr) -> bool {
        match self {
            Model::Include(a) => a.contains_key(&source),
            Model::Exclude { y, .. } => !y.contains(&source),
        }
    }

    fn is_wanted(&self) -> bool {
        !matches!(self, Model::Include(a) if a.is_empty())
    }
}

#[derive(Clone, Debug)]
enum Step {
    Hear(RecordKind, u8, BTreeSet<u8>),
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let kind = proptest::sample::select(&RecordKind::ALL[..]);
    let sources = proptest::collection::btree_set(0u8..5, 0..4);
    let hear =
        (kind, 0u8..2, sources).prop_map(|(kind, group, sources)| Step::Hear(kind, group, sources));
    let wait = prop_oneof![0u64..500, 0u64..70_000].prop_map(Step::Wait);
    proptest::collection::vec(prop_oneof![3 => hear, 1 => wait], 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn the_table_is_that_of_the_rfc(steps in steps()) {
        let timing = Timing::default();
        let mut router = Router::new();
        let mut models = vec![Model::Include(BTreeMap::new()); 2];
        for step in steps {
            match &step {
                Step::Hear(kind, n, sources) => {
                    let named: BTreeSet<_> = sources.iter().map(|&s| source(s)).collect();
                    let listed: Vec<_> = named.iter().copied().collect();
                    router.report(*kind, group(*n), &listed);
                    models[usize::from(*n)].hear(router.now, *kind, &named, &timing);
                }
                Step::Wait(ms) => {
                    let then = router.now + Duration::from_millis(*ms);
                    router.until(then);
                }
            }
            for (n, model) in models.iter_mut().enumerate() {
                model.pass(router.now);
                let group = group(n as u8);
                prop_assert_eq!(router.querier.group(group).is_some(), model.is_wanted(), "{:?}", &step);
                for s in 0..6 {
                    let wants = router.querier.wants(router.now, group, source(s));
                    prop_assert_eq!(wants, model.wants(source(s)), "{:?} {:?}", &step, &model);
                }
            }
        }
        // Joins and leaves of each group alternate.
        for n in 0..2 {
            let told = router.out.members.iter().filter(|(g, _)| *g == group(n));
            for (count, (_, is_wanted)) in told.enumerate() {
                prop_assert_eq!(*is_wanted, count % 2 == 0);
            }
        }
        // All groups end when no host reports anything any more.
        router.until(router.now + timing.membership());
        prop_assert_eq!(router.querier.groups().len(), 0);
    }
}

#[test]
fn it_asks_at_once_and_then_regularly() {
    let mut router = Router::new();
    assert_eq!(router.out.queries, [(None, vec![], false)]);
    let timing = Timing::default();
    router.until(Time::from_nanos(0) + timing.query_interval.div(4));
    assert_eq!(router.out.queries.len(), 2, "once more after a quarter");
    router.until(router.now + timing.query_interval * 10);
    assert_eq!(router.out.queries.len(), 12);
}

#[test]
fn a_leave_is_asked_about_twice_and_takes_effect_within_a_second() {
    for version in [2, 3] {
        let mut router = Router::new();
        match version {
            2 => router.old(2, group(1)),
            _ => router.report(RecordKind::ToExclude, group(1), &[]),
        }
        assert_eq!(router.out.members, [(group(1), true)]);
        router.out = Out::default();
        let left = router.now + Duration::from_secs(3);
        router.until(left);
        match version {
            2 => router.leave(group(1)),
            _ => router.report(RecordKind::ToInclude, group(1), &[]),
        }
        assert_eq!(router.out.queries, [(Some(group(1)), vec![], false)]);
        router.until(left + Duration::from_millis(399));
        assert_eq!(router.out.queries.len(), 2);
        assert!(router.querier.wants(router.now, group(1), HOST));
        router.until(left + Duration::from_millis(400));
        assert_eq!(router.out.members, [(group(1), false)], "version {version}");
        assert!(router.out.unanswered.is_empty(), "it was left in words");
    }
}

#[test]
fn a_leave_does_not_take_the_group_from_others() {
    let mut router = Router::new();
    router.report(RecordKind::ToExclude, group(1), &[]);
    router.report(RecordKind::ToInclude, group(1), &[]);
    // The other member answers the query, and the second query tells routers not to lower their timers.
    router.until(router.now + Duration::from_millis(100));
    router.report(RecordKind::IsExclude, group(1), &[]);
    router.until(router.now + Duration::from_secs(10));
    assert!(router.querier.wants(router.now, group(1), HOST));
    let specific: Vec<_> = router
        .out
        .queries
        .iter()
        .filter(|q| q.0.is_some())
        .collect();
    assert_eq!(
        specific,
        [
            &(Some(group(1)), vec![], false),
            &(Some(group(1)), vec![], true)
        ]
    );
}

#[test]
fn hosts_of_version_1_cannot_leave_and_keep_the_group_from_leaving() {
    let mut router = Router::new();
    router.old(1, group(1));
    router.leave(group(1));
    router.report(RecordKind::ToInclude, group(1), &[]);
    router.until(router.now + Duration::from_secs(60));
    assert!(router.querier.wants(router.now, group(1), HOST));
    router.until(router.now + Duration::from_secs(6));
    assert_eq!(router.querier.groups().len(), 0);
}

#[test]
fn a_host_of_version_2_hides_the_source_filters_of_others() {
    let mut router = Router::new();
    router.report(RecordKind::ToExclude, group(1), &[source(1)]);
    assert!(!router.querier.wants(router.now, group(1), source(1)));
    router.old(2, group(1));
    assert!(router.querier.wants(router.now, group(1), source(1)));
    router.report(RecordKind::ToExclude, group(1), &[source(1)]);
    router.report(RecordKind::Block, group(1), &[source(1)]);
    router.until(router.now + Duration::from_secs(2));
    assert!(router.querier.wants(router.now, group(1), source(1)));
}

#[test]
fn the_lowest_address_asks() {
    let mut router = Router::new();
    router.foreign_query(Ipv4Addr::new(10, 0, 0, 2), None);
    router.foreign_query(Ipv4Addr::UNSPECIFIED, None);
    assert!(router.querier.is_querier());
    let lower = Ipv4Addr::new(10, 0, 0, 0);
    router.foreign_query(lower, None);
    assert_eq!(router.querier.other(), Some((lower, 3)));
    router.report(RecordKind::ToExclude, group(1), &[]);
    router.out = Out::default();
    // The router does not query when a host leaves: the other router does, and the querier's timers apply.
    router.report(RecordKind::ToInclude, group(1), &[]);
    router.until(router.now + Duration::from_secs(2));
    assert!(router.out.queries.is_empty());
    assert!(router.querier.wants(router.now, group(1), HOST));
    router.foreign_query(lower, Some(group(1)));
    router.until(router.now + Duration::from_millis(400));
    assert_eq!(router.out.members, [(group(1), false)]);
    assert!(!router.querier.is_querier());
    router.until(router.now + Timing::default().other_querier());
    assert!(router.querier.is_querier(), "the other is gone");
    assert_eq!(router.out.queries, [(None, vec![], false)]);
}

#[test]
fn who_joined_and_answers_nothing_is_told() {
    let mut router = Router::new();
    router.report(RecordKind::ToExclude, group(1), &[]);
    router.until(router.now + Duration::from_secs(66));
    assert_eq!(router.out.unanswered, [group(1)]);
}

#[test]
fn what_may_not_be_joined_is_refused_by_name() {
    let mut router = Router::new();
    router.old(2, Ipv4Addr::new(224, 0, 0, 251));
    assert!(router.out.refused.is_empty(), "every host does so");
    router.old(2, Ipv4Addr::new(224, 1, 1, 1));
    router.old(2, Ipv4Addr::new(232, 1, 1, 1));
    router.report(RecordKind::ToExclude, Ipv4Addr::new(232, 1, 1, 1), &[]);
    let none = Drop::JoinWithoutSource;
    assert_eq!(router.out.refused, [Drop::JoinNotAllowed, none, none]);
    router.report(RecordKind::Allow, Ipv4Addr::new(232, 1, 1, 1), &[source(1)]);
    assert_eq!(router.out.members.len(), 1);
    assert!(
        router
            .querier
            .wants(router.now, Ipv4Addr::new(232, 1, 1, 1), source(1))
    );
    assert!(
        !router
            .querier
            .wants(router.now, Ipv4Addr::new(232, 1, 1, 1), source(2))
    );
}

#[test]
fn each_source_of_a_source_specific_group_comes_and_goes_by_itself() {
    let mut router = Router::new();
    let ssm = Ipv4Addr::new(232, 1, 1, 1);
    router.report(RecordKind::Allow, ssm, &[source(1), source(2)]);
    let (one, two) = ((ssm, source(1)), (ssm, source(2)));
    let told = |(group, source): (Ipv4Addr, Ipv4Addr), wanted| (group, source, wanted);
    assert_eq!(router.out.channels, [told(one, true), told(two, true)]);
    router.out.channels.clear();
    router.report(RecordKind::Block, ssm, &[source(1)]);
    router.until(router.now + Duration::from_secs(1));
    assert_eq!(router.out.channels, [told(one, false)]);
    router.report(RecordKind::Allow, ssm, &[source(2), source(3)]);
    router.querier.forget(&mut router.out);
    let three = (ssm, source(3));
    assert_eq!(
        router.out.channels[1..],
        [told(three, true), told(two, false), told(three, false)]
    );
    // Another group is wanted as a whole, independently of its sources.
    router.out.channels.clear();
    router.report(RecordKind::Allow, group(1), &[source(1)]);
    assert!(router.out.channels.is_empty());
}

#[test]
fn a_million_joins_end_in_counted_refusals_and_those_that_are_there_stay() {
    let mut router = Router::new();
    router.querier =
        Querier::new(Timing::default(), OWN, true, Time::ZERO).with_host_groups(usize::MAX);
    let mut joined = 0u32;
    while joined < 1_000_000 {
        let records = (joined..1_000_000).map(|n| {
            let group = Ipv4Addr::from_bits(0xef00_0000 + n);
            (RecordKind::ToExclude, group, &[][..])
        });
        joined += emit::report(&mut router.frame, speaker(HOST), records) as u32;
        router.hear(HOST);
    }
    assert_eq!(router.querier.groups().len(), GROUPS_MAX);
    assert_eq!(router.out.members.len(), GROUPS_MAX);
    assert_eq!(router.out.refused.len(), 1_000_000 - GROUPS_MAX);
    assert!(
        router
            .out
            .refused
            .iter()
            .all(|&why| why == Drop::JoinTooMany)
    );
    router.until(router.now + Timing::default().membership());
    assert_eq!(router.querier.groups().len(), 0);
}

#[test]
fn sources_are_bounded_too() {
    let mut router = Router::new();
    let many: Vec<_> = (0..300)
        .map(|n| Ipv4Addr::from_bits(0x0a01_0000 + n))
        .collect();
    router.report(RecordKind::Allow, group(1), &many);
    let kept = super::group::SOURCES_PER_HOST_MAX;
    let sources = |router: &Router| router.querier.group(group(1)).unwrap().sources();
    assert_eq!(sources(&router), kept);
    assert_eq!(router.out.refused, vec![Drop::HostTooMany; 300 - kept]);
    // Another host still gets what it wants.
    router.mac[5] = 2;
    router.report(RecordKind::Allow, group(1), &[source(7)]);
    assert!(router.querier.wants(router.now, group(1), source(7)));
    for host in 3..9 {
        router.mac[5] = host;
        let those = &many[usize::from(host) * 32..][..32];
        router.report(RecordKind::Allow, group(1), those);
    }
    assert_eq!(sources(&router), super::group::SOURCES_PER_GROUP_MAX);
    assert!(router.out.refused.contains(&Drop::SourceTooMany));
}

#[test]
fn one_host_that_forges_joins_takes_no_place_of_others() {
    let mut router = Router::new();
    for n in 0..2_000u32 {
        let group = Ipv4Addr::from_bits(0xef02_0000 + n);
        // The host forges its IP address as well.
        let record = (RecordKind::ToExclude, group, &[][..]);
        emit::report(&mut router.frame, speaker(HOST), [record].into_iter());
        router.hear(Ipv4Addr::from_bits(OWN.to_bits() + 2 + n % 200));
    }
    assert_eq!(router.querier.groups().len(), HOST_GROUPS);
    assert_eq!(
        router.out.refused,
        vec![Drop::HostTooMany; 2_000 - HOST_GROUPS]
    );
    router.mac[5] = 2;
    (1..6).for_each(|n| router.report(RecordKind::ToExclude, group(n), &[]));
    assert_eq!(router.querier.groups().len(), HOST_GROUPS + 5);
    // Other hosts may also join the group that it joined first. The group stays for them when the host has left.
    let first = Ipv4Addr::from_bits(0xef02_0000);
    router.report(RecordKind::ToExclude, first, &[]);
    router.mac[5] = 1;
    // When its groups have ended, the host may join other groups.
    router.until(router.now + Timing::default().membership());
    let new = Ipv4Addr::from_bits(0xef02_0000 + 1_999);
    router.report(RecordKind::ToExclude, new, &[]);
    assert!(router.querier.group(new).is_some());
}

#[test]
fn each_source_of_a_source_specific_group_takes_a_place_of_its_host() {
    let mut router = Router::new();
    let ssm = |n: u32| Ipv4Addr::from_bits(0xe801_0000 + n);
    let channels = |router: &Router, n: u32| {
        let group = router.querier.group(ssm(n));
        group.map_or(0, |group| group.sources())
    };
    let of_all = |router: &Router| (0..64).map(|n| channels(router, n)).sum::<usize>();
    let many: Vec<_> = (0..20).map(source).collect();
    (0..64).for_each(|n| router.report(RecordKind::Allow, ssm(n), &many));
    assert_eq!(of_all(&router), HOST_GROUPS);
    // A group without sources counts as one, and has no place either.
    router.report(RecordKind::ToExclude, group(1), &[]);
    assert!(router.querier.group(group(1)).is_none());
    assert_eq!(
        router.out.refused,
        vec![Drop::HostTooMany; 64 * 20 - HOST_GROUPS + 1]
    );
    // Another host has its own places, also in a group that the first one named.
    router.mac[5] = 2;
    router.report(RecordKind::Allow, ssm(0), &[source(100)]);
    router.report(RecordKind::ToExclude, group(1), &[]);
    assert_eq!(
        (channels(&router, 0), router.querier.host_groups(router.mac)),
        (21, 2)
    );
    // What the first host no longer names makes room.
    router.mac[5] = 1;
    router.report(RecordKind::Block, ssm(0), &many[..5]);
    router.until(router.now + Duration::from_secs(3));
    router.report(RecordKind::Allow, ssm(70), &many);
    assert_eq!((channels(&router, 0), channels(&router, 70)), (16, 5));
    router.until(router.now + Timing::default().membership());
    assert_eq!(
        (
            router.querier.groups().len(),
            router.querier.host_groups(router.mac)
        ),
        (0, 0)
    );
    router.mac[5] = 2;
    assert_eq!(router.querier.host_groups(router.mac), 0);
}
