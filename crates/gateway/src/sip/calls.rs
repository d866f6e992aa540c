//! The table of calls: how they come into it, and how they end.

use super::Event;
use super::call::{Call, End, Record};
use super::hop::Hop;
use super::message;
use super::proxy::{Proxy, Rejection, locked};
use crate::media::Report;
use base::NodeAddr;
use net::places::Origin;
use rsipstack::sip::Request;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use voice::media::CallId;
use voice::sdp::Side;

/// Calls of one host that nobody has answered yet. A PBX that begins 50 calls a second, which ring for
/// 20 s, has 1000; who has more leaves three quarters of the table to others.
const RINGING_MAX: usize = voice::media::CALLS_MAX / 4;
/// And of all: who only rings, under however many addresses, takes no place of calls that are
/// answered. When there are more, the host with the most of them loses the oldest.
const RINGING_OF_ALL_MAX: usize = voice::media::CALLS_MAX / 2;

/// The calls that are.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) calls: HashMap<u64, Arc<Mutex<Call>>>,
    pub(crate) by_media: HashMap<CallId, u64>,
    /// A call that was forked, or that comes by here twice, has several.
    pub(crate) by_call_id: HashMap<String, Vec<u64>>,
    /// Those of each host that nobody has answered yet.
    ringing: Ringing,
    next: u64,
}

impl Table {
    /// Numbers begin anywhere, so that those of a gateway that was restarted mean nothing.
    pub(crate) fn new(first: u64) -> Table {
        Table {
            next: first,
            ..Table::default()
        }
    }
}

/// Calls that ring, by the host that calls.
#[derive(Debug, Default)]
struct Ringing {
    of: BTreeMap<Origin, BTreeSet<u64>>,
    count: usize,
}

impl Ringing {
    /// One more call of a host; the one that has to go for it, if one has. `None` when the host has its
    /// share.
    fn begin(&mut self, host: Origin, number: u64) -> Option<Option<u64>> {
        let own = self.of.get(&host).map_or(0, BTreeSet::len);
        if own >= RINGING_MAX {
            return None;
        }
        let mut displaced = None;
        if self.count >= RINGING_OF_ALL_MAX {
            let (_, most) = self.of.iter().max_by_key(|(_, calls)| calls.len())?;
            if most.len() <= own {
                return None;
            }
            displaced = most.first().copied();
        }
        self.of.entry(host).or_default().insert(number);
        self.count += 1;
        Some(displaced)
    }

    fn end(&mut self, host: Origin, number: u64) {
        let Some(calls) = self.of.get_mut(&host) else {
            return;
        };
        if calls.remove(&number) {
            self.count -= 1;
        }
        if calls.is_empty() {
            self.of.remove(&host);
        }
    }
}

impl Proxy {
    /// Notes that a call rings no longer: it was answered, or has ended.
    pub(crate) fn rings_no_longer(&self, call: &Mutex<Call>) {
        let mut known = locked(call);
        if core::mem::take(&mut known.is_ringing) {
            let host = Origin::of(known.hops[Side::Caller.index()].at.ip());
            let number = known.number;
            drop(known);
            locked(&self.calls).ringing.end(host, number);
        }
    }

    /// Ends a call, once, and tells of it.
    pub(crate) fn end(&self, call: &Mutex<Call>, end: End, report: Option<Report>) {
        let record = locked(call).close(end, report);
        let Some(record) = record else { return };
        self.rings_no_longer(call);
        let mut table = locked(&self.calls);
        table.calls.remove(&record.number);
        if let Some(numbers) = table.by_call_id.get_mut(&record.call_id) {
            numbers.retain(|number| *number != record.number);
            if numbers.is_empty() {
                table.by_call_id.remove(&record.call_id);
            }
        }
        table.by_media.retain(|_, number| *number != record.number);
        drop(table);
        self.counters.ended.add();
        (self.report)(Event::Ended(Box::new(record)));
    }

    /// Ends a call that its ends have not ended, and tells them.
    pub(crate) async fn hang_up(&self, number: u64, end: End, report: Option<Report>) {
        let Some(call) = locked(&self.calls).calls.get(&number).cloned() else {
            return;
        };
        let reason = format!("SIP;cause=503;text=\"{}\"", end.label());
        let byes = Side::BOTH.map(|side| {
            let mut call = locked(&call);
            let hop = call.hops[side.index()].clone();
            call.bye(side, &reason).map(|bye| (bye, hop, side))
        });
        self.end(&call, end, report);
        for (bye, known, side) in byes.into_iter().flatten() {
            let hop = self.hop_within(&bye, Some((&call, side.other()))).await;
            let hop = hop.unwrap_or(known);
            if let Ok((_, mut responses)) = self.send(bye, &hop).await {
                tokio::spawn(async move { while responses.recv().await.is_some() {} });
            }
        }
    }

    /// Notes a new call.
    pub(crate) fn insert(
        &self,
        invite: &Request,
        from: Hop,
        to: Hop,
    ) -> Result<Arc<Mutex<Call>>, Rejection> {
        let mut table = locked(&self.calls);
        if table.calls.len() >= voice::media::CALLS_MAX {
            self.counters.overload.add();
            return Err(Rejection::new(
                503,
                "the gateway has all the calls it can take",
            ));
        }
        let host = Origin::of(from.at.ip());
        let number = table.next;
        let Some(displaced) = table.ringing.begin(host, number) else {
            self.counters.overload.add();
            return Err(Rejection::new(
                503,
                "too many unanswered calls of this host",
            ));
        };
        table.next = table.next.wrapping_add(1);
        let call = Arc::new(Mutex::new(Call::new(number, invite, from, to)));
        table.calls.insert(number, call.clone());
        let call_id = message::call_id(invite);
        table.by_call_id.entry(call_id).or_default().push(number);
        let displaced = displaced.and_then(|number| table.calls.get(&number).cloned());
        drop(table);
        if let Some(displaced) = displaced {
            self.counters.overload.add();
            // Its driver tells both ends.
            locked(&displaced).gives_way.cancel();
            self.end(&displaced, End::Refused(503), None);
        }
        Ok(call)
    }

    /// What is known of all calls.
    pub(crate) fn records(&self) -> Vec<Record> {
        let calls: Vec<_> = locked(&self.calls).calls.values().cloned().collect();
        let mut records: Vec<Record> = calls
            .iter()
            .map(|call| {
                let call = locked(call);
                let id = call.steering.as_ref().map(|steering| steering.id());
                let report = id.and_then(|id| self.plane.report(id));
                call.record(report)
            })
            .collect();
        records.sort_by_key(|record| record.number);
        records
    }

    /// The numbers of the calls with each node.
    pub(crate) fn peers(&self) -> BTreeMap<NodeAddr, Vec<u64>> {
        let mut peers = BTreeMap::<_, Vec<u64>>::new();
        for (number, call) in &locked(&self.calls).calls {
            if let Some(node) = locked(call).hops.iter().find_map(Hop::node) {
                peers.entry(node).or_default().push(*number);
            }
        }
        peers
    }

    /// The media of a call ended by itself.
    pub(crate) async fn on_media_ended(&self, media: CallId, end: End, report: Report) {
        let number = locked(&self.calls).by_media.get(&media).copied();
        if let Some(number) = number {
            self.hang_up(number, end, Some(report)).await;
        }
    }

    /// Ends all calls.
    pub(crate) async fn stop(&self) {
        let numbers: Vec<u64> = locked(&self.calls).calls.keys().copied().collect();
        for number in numbers {
            self.hang_up(number, End::Stopped, None).await;
        }
        self.plane.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_only_ring_leave_half_of_the_table_and_give_way_to_others() {
        let mut ringing = Ringing::default();
        let host = |n: u8| Origin::of([192, 0, 2, n].into());
        let mut number = 0;
        let mut held = BTreeMap::<u64, Origin>::new();
        let mut begin = |ringing: &mut Ringing, of: Origin| {
            number += 1;
            let begun = ringing.begin(of, number);
            if let Some(displaced) = begun {
                held.insert(number, of);
                if let Some(displaced) = displaced {
                    ringing.end(held[&displaced], displaced);
                }
            }
            begun.is_some()
        };
        // Four hosts with all that they can have.
        for n in 0..4 {
            let begun = (0..4 * RINGING_MAX).filter(|_| begin(&mut ringing, host(n)));
            assert!(begun.count() >= RINGING_OF_ALL_MAX / 4, "host {n}");
            assert!(ringing.count <= RINGING_OF_ALL_MAX);
        }
        // Another one begins calls, and loses none while it has fewer than they.
        let fair = RINGING_OF_ALL_MAX / 5;
        for _ in 0..fair {
            assert!(begin(&mut ringing, host(9)));
        }
        assert_eq!(ringing.of[&host(9)].len(), fair);
        assert_eq!(ringing.count, RINGING_OF_ALL_MAX);
    }
}
