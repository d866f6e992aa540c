//! The table of calls: how calls are entered, and how they end.

use super::Event;
use super::call::{Call, End, Record};
use super::hop::Hop;
use super::message;
use super::places::{self, Asker};
use super::proxy::{Proxy, Rejection, locked};
use crate::media::Report;
use crate::slots::Slots;
use base::NodeAddr;
use rsipstack::sip::Request;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use voice::media::CallId;
use voice::sdp::Side;

/// Number of calls that are not answered yet. So callers that only ring, from however many addresses, take no places of
/// answered calls. One host may have half of these places: a PBX that begins 50 calls a second, each of which rings for
/// 20 s, has 1000.
const RINGING_MAX: usize = voice::media::CALLS_MAX / 2;

/// The present calls.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) calls: HashMap<u64, Arc<Mutex<Call>>>,
    pub(crate) by_media: HashMap<CallId, u64>,
    /// The numbers of the calls with one Call-ID. A call that was forked, or that passes this gateway twice, has
    /// several.
    pub(crate) by_call_id: HashMap<String, Vec<u64>>,
    /// The places of the calls that are not answered yet.
    ringing: Slots<Asker>,
    next: u64,
}

impl Table {
    /// Creates an empty table. The first number is arbitrary, so that numbers from before a restart of the gateway mean
    /// nothing.
    pub(crate) fn new(first: u64) -> Table {
        Table {
            calls: HashMap::new(),
            by_media: HashMap::new(),
            by_call_id: HashMap::new(),
            ringing: Slots::new(RINGING_MAX),
            next: first,
        }
    }
}

impl Proxy {
    /// Notes that a call does not ring any more: it was answered, or has ended.
    pub(crate) fn rings_no_longer(call: &Mutex<Call>) {
        let ringing = locked(call).ringing.take();
        drop(ringing);
    }

    /// Ends a call and reports it. Does nothing if the call has already ended.
    pub(crate) fn end(&self, call: &Mutex<Call>, end: End, report: Option<Report>) {
        let record = locked(call).close(end, report);
        let Some(record) = record else { return };
        Proxy::rings_no_longer(call);
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

    /// Ends a call that its ends have not ended, and sends them a BYE.
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
            let hop = self.hop_within(&bye, &call, side.other()).await;
            let hop = hop.unwrap_or(known);
            if let Ok((_, mut responses)) = self.send(bye, &hop).await {
                tokio::spawn(async move { while responses.recv().await.is_some() {} });
            }
        }
    }

    /// Enters a new call.
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
        let number = table.next;
        let Some(ringing) = table.ringing.take_for(places::asker(&from)) else {
            self.counters.overload.add();
            return Err(Rejection::new(
                503,
                "too many unanswered calls of this host",
            ));
        };
        table.next = table.next.wrapping_add(1);
        let call = Call::new(number, invite, from, to, ringing);
        let call = Arc::new(Mutex::new(call));
        table.calls.insert(number, call.clone());
        let call_id = message::call_id(invite);
        table.by_call_id.entry(call_id).or_default().push(number);
        Ok(call)
    }

    /// Returns what is known of all calls.
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

    /// Returns the numbers of the calls with each node.
    pub(crate) fn peers(&self) -> BTreeMap<NodeAddr, Vec<u64>> {
        let mut peers = BTreeMap::<_, Vec<u64>>::new();
        for (number, call) in &locked(&self.calls).calls {
            if let Some(node) = locked(call).hops.iter().find_map(Hop::node) {
                peers.entry(node).or_default().push(*number);
            }
        }
        peers
    }

    /// Ends the call whose media has expired.
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
            // Many calls may have one connection, which sends nothing meanwhile.
            tokio::task::yield_now().await;
        }
        self.streams.finish().await;
        self.plane.stop();
    }
}
