//! The host's side: the groups that this bridge itself wants from its network, reported as any host does it.
//!
//! A router that queries need not be a member to hear everything, because snooping switches forward every group to the
//! port from which queries come. If another router queries, and the switches ignore that a router announces itself, a
//! bridge receives only what it has joined. This module is for that case.
//!
//! ```text
//!   want(group) ──▶ reports, twice      query ──▶ a moment ──▶ report      forget ──▶ leave
//! ```

use super::emit::Speaker;
use super::message::{Asked, RecordKind};
use super::{Address, Timing};
use base::{Duration, Rng, Time};
use core::net::Ipv4Addr;
use std::collections::BTreeMap;

/// Maximum number of groups that a bridge may join by name: one report has room for all of them.
pub const WANTED_MAX: usize = 128;
/// Maximum time between unsolicited reports. [RFC 3376 §8.11]
const UNSOLICITED: Duration = Duration::from_secs(1);

/// The groups that the bridge wants from a network.
#[derive(Debug)]
pub struct Host<A = Ipv4Addr> {
    wanted: BTreeMap<A, Wanted<A>>,
    rng: Rng,
    /// Routers of version 1 or 2 are assumed to query until these times. [RFC 3376 §7.2]
    v1_until: Time,
    v2_until: Time,
    robustness: u8,
}

#[derive(Clone, Debug)]
struct Wanted<A> {
    /// The only sources that are wanted; all sources if empty.
    sources: Vec<A>,
    /// When the next report is due.
    due: Time,
    /// Number of unsolicited reports that are still to be sent.
    unsolicited: u8,
}

impl<A: Address> Host<A> {
    /// Creates a host that wants nothing yet.
    #[must_use]
    pub fn new(timing: &Timing, seed: u64) -> Host<A> {
        Host {
            wanted: BTreeMap::new(),
            rng: Rng::new(seed),
            v1_until: Time::ZERO,
            v2_until: Time::ZERO,
            robustness: timing.robustness,
        }
    }

    /// Joins a group; only for these sources, if there are any. Returns false if there are too many groups.
    pub fn want(&mut self, now: Time, group: A, sources: Vec<A>) -> bool {
        if self.wanted.len() >= WANTED_MAX && !self.wanted.contains_key(&group) {
            return false;
        }
        let wanted = Wanted {
            sources,
            due: now,
            unsolicited: self.robustness,
        };
        self.wanted.insert(group, wanted);
        true
    }

    /// Handles a query of a router.
    pub fn on_query(&mut self, now: Time, asked: &Asked<'_, A>, timing: &Timing) {
        let until = now + timing.membership();
        match asked.version {
            1 => self.v1_until = until,
            2 => self.v2_until = until,
            _ => {}
        }
        for (&group, wanted) in &mut self.wanted {
            let is_meant = asked.group.is_none_or(|asked| asked == group);
            let has = |source| wanted.sources.is_empty() || wanted.sources.contains(&source);
            let of_interest = asked.sources.is_empty() || asked.sources.iter().any(has);
            if is_meant && of_interest {
                let moment = self.rng.below(asked.max_response.as_nanos().max(1));
                wanted.due = wanted.due.min(now + Duration::from_nanos(moment));
            }
        }
    }

    /// Sends the reports that are due: each message is written to `frame` and passed to `send`.
    pub fn on_timeout(
        &mut self,
        now: Time,
        from: Speaker<A>,
        frame: &mut Vec<u8>,
        mut send: impl FnMut(&[u8]),
    ) {
        let old = match () {
            () if self.v1_until > now => Some(1),
            () if self.v2_until > now => Some(2),
            () => None,
        };
        let due = self.wanted.iter().filter(|(_, wanted)| wanted.due <= now);
        match old {
            Some(version) => {
                for (&group, _) in due {
                    A::report_old(frame, from, version, group);
                    send(frame);
                }
            }
            None => {
                let mut said = 0;
                loop {
                    let records = due.clone().map(record).skip(said);
                    let count = A::report(frame, from, records);
                    if count == 0 {
                        break;
                    }
                    send(frame);
                    said += count;
                }
            }
        }
        for wanted in self.wanted.values_mut().filter(|wanted| wanted.due <= now) {
            wanted.unsolicited = wanted.unsolicited.saturating_sub(1);
            wanted.due = match wanted.unsolicited {
                0 => Time::FAR,
                _ => now + Duration::from_nanos(self.rng.below(UNSOLICITED.as_nanos())),
            };
        }
    }

    /// Returns when the next report is due.
    #[must_use]
    pub fn next_timeout(&self) -> Time {
        let due = self.wanted.values().map(|wanted| wanted.due).min();
        due.unwrap_or(Time::FAR)
    }

    /// Leaves all groups, at the end.
    pub fn leave_all(
        &mut self,
        from: Speaker<A>,
        frame: &mut Vec<u8>,
        mut send: impl FnMut(&[u8]),
    ) {
        for (group, wanted) in core::mem::take(&mut self.wanted) {
            let kind = match wanted.sources.is_empty() {
                true => RecordKind::ToInclude,
                false => RecordKind::Block,
            };
            A::report(
                frame,
                from,
                [(kind, group, &wanted.sources[..])].into_iter(),
            );
            send(frame);
        }
    }
}

fn record<'a, A: Address>((&group, wanted): (&A, &'a Wanted<A>)) -> (RecordKind, A, &'a [A]) {
    // The same records serve as joins and as answers: a router treats them equally, and an answer repairs a lost join.
    let kind = match wanted.sources.is_empty() {
        true => RecordKind::IsExclude,
        false => RecordKind::IsInclude,
    };
    (kind, group, &wanted.sources)
}

#[cfg(test)]
mod tests {
    use super::super::message::{Message, Sources};
    use super::*;
    use crate::multicast::packet::{ETHERNET_BYTES, Ip};

    const FROM: Speaker = Speaker {
        mac: [2, 0, 0, 0, 0, 1],
        address: Ipv4Addr::new(10, 0, 0, 5),
    };
    const ASM: Ipv4Addr = Ipv4Addr::new(239, 1, 1, 1);
    const SSM: Ipv4Addr = Ipv4Addr::new(232, 1, 1, 1);

    fn said(host: &mut Host, now: Time) -> Vec<String> {
        let (mut frame, mut said) = (Vec::new(), Vec::new());
        host.on_timeout(now, FROM, &mut frame, |frame| {
            let packet = &frame[ETHERNET_BYTES..];
            let ip = Ip::parse(packet).unwrap();
            match Message::parse(&packet[ip.header_bytes..ip.total_bytes]).unwrap() {
                Message::ReportV3(records) => said.extend(records.iter().map(|r| {
                    let sources: Vec<_> = r.sources.iter().collect();
                    format!("{:?} {} {sources:?}", r.kind, r.group)
                })),
                other => said.push(format!("{other:?}")),
            }
        });
        said
    }

    fn asked(version: u8, group: Option<Ipv4Addr>) -> Asked<'static> {
        Asked {
            version,
            group,
            max_response: Duration::from_secs(1),
            suppress: false,
            robustness: 2,
            interval: Duration::from_secs(30),
            sources: Sources::default(),
        }
    }

    #[test]
    fn joins_are_said_twice_and_queries_answered_in_time() {
        let timing = Timing::default();
        let mut host = Host::new(&timing, 7);
        let now = Time::from_nanos(1);
        assert!(host.want(now, ASM, vec![]));
        assert!(host.want(now, SSM, vec![Ipv4Addr::new(10, 9, 9, 9)]));
        let both = ["IsInclude 232.1.1.1 [10.9.9.9]", "IsExclude 239.1.1.1 []"];
        assert_eq!(said(&mut host, now), both);
        let then = now + UNSOLICITED;
        assert!(host.next_timeout() <= then);
        assert_eq!(said(&mut host, then), both);
        assert_eq!(host.next_timeout(), Time::FAR);

        host.on_query(then, &asked(3, Some(SSM)), &timing);
        let due = host.next_timeout();
        assert!(due < then + Duration::from_secs(1));
        assert_eq!(said(&mut host, due), both[..1]);
        host.on_query(then, &asked(3, Some(Ipv4Addr::new(239, 2, 2, 2))), &timing);
        assert_eq!(host.next_timeout(), Time::FAR);
        // A router of version 2 gets answers of version 2, as long as it may be present.
        host.on_query(then, &asked(2, None), &timing);
        let late = then + Duration::from_secs(2);
        assert_eq!(
            said(&mut host, late),
            ["ReportV2(232.1.1.1)", "ReportV2(239.1.1.1)"]
        );
        let later = then + timing.membership();
        host.on_query(later, &asked(3, None), &timing);
        assert_eq!(said(&mut host, later + Duration::from_secs(2)), both);
    }

    #[test]
    fn wants_are_bounded_and_end_with_a_leave() {
        let timing = Timing::default();
        let mut host = Host::new(&timing, 7);
        for n in 0..WANTED_MAX as u32 {
            assert!(host.want(Time::ZERO, Ipv4Addr::from_bits(0xef00_0000 + n), vec![]));
        }
        assert!(!host.want(Time::ZERO, SSM, vec![]));
        assert_eq!(said(&mut host, Time::ZERO).len(), WANTED_MAX);
        let (mut frame, mut frames) = (Vec::new(), 0);
        host.leave_all(FROM, &mut frame, |_| frames += 1);
        assert_eq!(frames, WANTED_MAX);
        assert_eq!(host.next_timeout(), Time::FAR);
    }
}
