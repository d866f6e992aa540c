//! The proxy: every request that comes, and what becomes of it.
//!
//! A stateful proxy (RFC 3261 §16) that stays on the path of the calls it steers (Record-Route, one
//! entry for each face), and is out of the way of everything else. Transactions are the SIP stack's;
//! each has a task of its own, for they cannot be waited for in two places.

use super::call::{Call, End, Record, is_in_dialog};
use super::hop::{Face, Hop, Names, SIP_PORT, is_private};
use super::message;
use super::routes::{Nowhere, Routes};
use super::steering::{Own, Source};
use super::{Counters, Event, invite};
use crate::allow::Allowed;
use crate::media::{Plane, Report};
use base::NodeAddr;
use core::net::IpAddr;
use core::time::Duration;
use rsipstack::sip::prelude::HeadersExt;
use rsipstack::sip::{Header, Host, Method, Request, Response, SipMessage, StatusCode};
use rsipstack::transaction::endpoint::EndpointInnerRef;
use rsipstack::transaction::key::{TransactionKey, TransactionRole};
use rsipstack::transaction::transaction::{Transaction, TransactionEvent, TransactionEventSender};
use rsipstack::transport::{SipAddr, SipConnection};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use voice::media::CallId;
use voice::sdp::{OPTION_TAG, Side};

/// Server transactions at once; more are refused with 503. A call has one for 32 s after its
/// answer: 100 calls a second and as much again of everything else.
const TRANSACTIONS_MAX: usize = 6_400;
/// How long a TCP connection to a neighbour may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(4);
/// Seconds after which to try again what was refused for want of room.
const RETRY_AFTER_S: u32 = 5;

/// A status of ours, and why.
#[derive(Debug)]
pub(crate) struct Rejection {
    pub(crate) status: u16,
    pub(crate) why: String,
}

impl Rejection {
    pub(crate) fn new(status: u16, why: impl ToString) -> Rejection {
        let why = why.to_string();
        Rejection { status, why }
    }
}

impl From<Nowhere> for Rejection {
    fn from(nowhere: Nowhere) -> Rejection {
        Rejection::new(nowhere.status(), nowhere)
    }
}

/// What all requests share.
pub(crate) struct Proxy {
    pub(crate) endpoint: EndpointInnerRef,
    pub(crate) routes: Routes,
    pub(crate) plane: Plane,
    pub(crate) own: Own,
    /// Who may use the access face; `None` is private networks.
    pub(crate) allowed: Option<Allowed>,
    /// The listener of UDP for each family, and the overlay's.
    pub(crate) udp: Vec<SipConnection>,
    pub(crate) overlay: SipConnection,
    pub(crate) calls: Mutex<Table>,
    pub(crate) report: Arc<dyn Fn(Event) + Send + Sync>,
    pub(crate) counters: Arc<Counters>,
}

/// The calls that are.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) calls: HashMap<u64, Arc<Mutex<Call>>>,
    pub(crate) by_media: HashMap<CallId, u64>,
    /// A call that was forked, or that comes by here twice, has several.
    by_call_id: HashMap<String, Vec<u64>>,
    next: u64,
}

/// A call, to be looked at for a moment.
pub(crate) fn locked<T>(call: &Mutex<T>) -> MutexGuard<'_, T> {
    call.lock().unwrap_or_else(PoisonError::into_inner)
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

impl Proxy {
    pub(crate) fn names(&self) -> &Names {
        &self.routes.names
    }

    /// Takes what came, in a task of its own.
    pub(crate) fn take(self: &Arc<Self>, transaction: Transaction) {
        let proxy = self.clone();
        tokio::spawn(async move {
            let Some(from) = proxy.hop_of(&transaction) else {
                return;
            };
            match transaction.original.method {
                Method::Invite => invite::take(proxy, transaction, from).await,
                _ => proxy.forward(transaction, from).await,
            }
        });
    }

    /// The neighbour that a request came from.
    fn hop_of(&self, transaction: &Transaction) -> Option<Hop> {
        let connection = transaction.connection.as_ref()?;
        let at = connection.get_remote_addr()?.get_socketaddr().ok()?;
        if connection.get_addr() == self.overlay.get_addr() {
            return Some(Hop {
                at,
                ..Hop::overlay(NodeAddr(0))
            });
        }
        let mut hop = Hop::access(at, connection.transport());
        hop.stream = connection.is_reliable().then(|| connection.clone());
        Some(hop)
    }

    /// What is asked of every request, before anything is done for it.
    pub(crate) fn admit(&self, request: &Request, from: &Hop) -> Result<(), Rejection> {
        if self.endpoint.transactions.len() > TRANSACTIONS_MAX {
            self.counters.overload.add();
            return Err(Rejection::new(503, "too many requests at once"));
        }
        let may = from.face == Face::Overlay || self.is_allowed(from.at.ip());
        // A call that we let in may also be spoken of from elsewhere: its peer has its own checks.
        if !may && !is_in_dialog(request) {
            self.counters.not_allowed.add();
            return Err(Rejection::new(403, "this address may not use the gateway"));
        }
        let unknown = message::unknown_requirements(request, &[OPTION_TAG]);
        match unknown.is_empty() {
            true => Ok(()),
            false => Err(Rejection::new(420, unknown.join(", "))),
        }
    }

    fn is_allowed(&self, ip: IpAddr) -> bool {
        match &self.allowed {
            None => is_private(ip),
            Some(allowed) => allowed.lists(&wire::exit::Host::Ip(ip), SIP_PORT),
        }
    }

    /// Takes our Routes off and counts the hop. Tells the call that the Routes name.
    pub(crate) fn unwrap(&self, request: &mut Request) -> Result<Option<u64>, Rejection> {
        if !message::count_hop(request) {
            self.counters.too_many_hops.add();
            return Err(Rejection::new(483, "Too Many Hops"));
        }
        let names = self.names();
        message::pop_own_routes(request, |uri| names.is_own(uri))
            .map_err(|error| Rejection::new(400, error))
    }

    /// The call of a request within a dialog, and whose request it is.
    pub(crate) fn call_of(
        &self,
        request: &Request,
        number: Option<u64>,
        from: &Hop,
    ) -> Result<Option<(Arc<Mutex<Call>>, Side)>, Rejection> {
        // Choice: an end that forgets its Routes is still known by its dialog.
        let number = number.or_else(|| {
            let table = locked(&self.calls);
            let numbers = table.by_call_id.get(&message::call_id(request))?;
            let of_dialog = |number: &&u64| {
                let call = table.calls.get(*number);
                call.is_some_and(|call| locked(call).side_of(request).is_some())
            };
            numbers.iter().find(of_dialog).copied()
        });
        let Some(number) = number.filter(|_| is_in_dialog(request)) else {
            return Ok(None);
        };
        let unknown = || Rejection::new(481, "no such call here");
        let call = locked(&self.calls).calls.get(&number).cloned();
        let call = call.ok_or_else(unknown)?;
        let side = {
            let mut known = locked(&call);
            let side = known.side_of(request).ok_or_else(unknown)?;
            // Whoever knows both tags has seen the dialog; only its neighbours may change it.
            if !known.is_neighbour(side, from) {
                self.counters.forged.add();
                return Err(Rejection::new(
                    403,
                    "not from where this call's requests come",
                ));
            }
            known.on_request(side, request);
            side
        };
        Ok(Some((call, side)))
    }

    /// Where a request goes that is within a dialog.
    pub(crate) async fn hop_within(
        &self,
        request: &Request,
        call: Option<(&Arc<Mutex<Call>>, Side)>,
    ) -> Result<Hop, Rejection> {
        let routes = request
            .typed_route_headers()
            .map_err(|error| Rejection::new(400, error))?;
        let known = call.map(|(call, by)| locked(call).hops[by.other().index()].clone());
        if let Some(first) = routes.first() {
            let hop = self.routes.within(&first.uri).await?;
            return Ok(same_stream(hop, known));
        }
        if let Some(known) = known {
            // Without Routes of its own it must go on to the other gateway all the same.
            if known.face == Face::Overlay {
                return Ok(known);
            }
            // Choice: a target in a private network that its signalling does not come from is
            // behind a translator, and reached only by the way it came.
            if let Host::IpAddr(ip) = request.uri.host()
                && (known.stream.is_some() || (is_private(*ip) && !is_private(known.at.ip())))
            {
                return Ok(known);
            }
            let hop = self.routes.within(&request.uri).await?;
            return Ok(same_stream(hop, Some(known)));
        }
        Ok(self.routes.within(&request.uri).await?)
    }

    /// The connection to a neighbour.
    pub(crate) async fn connection(&self, hop: &Hop) -> Result<SipConnection, Rejection> {
        if hop.face == Face::Overlay {
            return Ok(self.overlay.clone());
        }
        if let Some(stream) = &hop.stream
            && !stream.cancel_token().is_some_and(|t| t.is_cancelled())
        {
            return Ok(stream.clone());
        }
        if hop.transport == rsipstack::sip::Transport::Udp {
            let is_same_family = |udp: &&SipConnection| {
                let own = udp.get_addr().get_socketaddr();
                own.is_ok_and(|own| own.is_ipv4() == hop.at.is_ipv4())
            };
            let found = self.udp.iter().find(is_same_family);
            return found.cloned().ok_or_else(|| {
                Rejection::new(503, "the gateway does not listen for this kind of address")
            });
        }
        let target = address(hop);
        let lookup = self.endpoint.transport_layer.lookup(&target, None);
        match tokio::time::timeout(CONNECT_TIMEOUT, lookup).await {
            Ok(Ok((connection, _))) => Ok(connection),
            Ok(Err(error)) => Err(Rejection::new(503, error)),
            Err(_) => Err(Rejection::new(503, "the next hop does not answer")),
        }
    }

    /// Sends a request in a transaction of its own; its responses, until it is over.
    pub(crate) async fn send(
        &self,
        mut request: Request,
        hop: &Hop,
    ) -> Result<(Request, UnboundedReceiver<Response>), Rejection> {
        message::push_via(&mut request, hop.transport, &self.names().toward(hop));
        let transaction = self.transaction(request.clone(), hop).await?;
        Ok((request, responses(transaction)))
    }

    /// The same, for a request that has its Via.
    pub(crate) async fn transaction(
        &self,
        request: Request,
        hop: &Hop,
    ) -> Result<Transaction, Rejection> {
        let connection = self.connection(hop).await?;
        let key = TransactionKey::from_request(&request, TransactionRole::Client)
            .map_err(|error| Rejection::new(400, error))?;
        let endpoint = self.endpoint.clone();
        let mut transaction = Transaction::new_client(key, request, endpoint, Some(connection));
        transaction.destination = Some(address(hop));
        match transaction.send().await {
            Ok(()) => Ok(transaction),
            Err(error) => Err(Rejection::new(503, error)),
        }
    }

    /// Sends a request that has no transaction: an ACK of a 2xx.
    pub(crate) async fn send_ack(&self, mut ack: Request, hop: &Hop) -> Result<(), Rejection> {
        message::push_via(&mut ack, hop.transport, &self.names().toward(hop));
        let connection = self.connection(hop).await?;
        let sent = connection.send(ack.into(), Some(&address(hop))).await;
        sent.map_err(|error| Rejection::new(503, error))
    }

    /// A request that is no INVITE: to its next hop, and the responses back.
    async fn forward(self: &Arc<Self>, mut transaction: Transaction, from: Hop) {
        let request = transaction.original.clone();
        let sent = self.pass_on(request, &from).await;
        let (mut responses, call) = match sent {
            Ok(sent) => sent,
            Err(rejection) => {
                let _ = reject(&mut transaction, &rejection).await;
                return;
            }
        };
        let responder = transaction.tu_sender.clone();
        tokio::spawn(async move { while transaction.receive().await.is_some() {} });
        while let Some(mut response) = responses.recv().await {
            message::pop_via(&mut response);
            if let Some((call, side)) = &call {
                self.steer_response(call, *side, &mut response);
            }
            respond(&responder, response);
        }
    }

    async fn pass_on(
        self: &Arc<Self>,
        mut request: Request,
        from: &Hop,
    ) -> Result<
        (
            UnboundedReceiver<Response>,
            Option<(Arc<Mutex<Call>>, Side)>,
        ),
        Rejection,
    > {
        self.admit(&request, from)?;
        let number = self.unwrap(&mut request)?;
        let call = self.call_of(&request, number, from)?;
        if let Some((call, side)) = &call {
            self.steer_request(call, *side, &mut request)?;
            let hop = self.hop_within(&request, Some((call, *side))).await;
            if request.method == Method::Bye {
                let end = match side {
                    Side::Caller => End::Caller,
                    Side::Callee => End::Callee,
                };
                self.end(call, end, None);
            }
            let (_, responses) = self.send(request, &hop?).await?;
            return Ok((responses, Some((call.clone(), *side))));
        }
        let routes = request.typed_route_headers().unwrap_or_default();
        let target = routes.first().map_or(&request.uri, |route| &route.uri);
        if routes.is_empty() && self.names().is_own(target) {
            return Err(self.for_us(&request));
        }
        let hops = self.routes.initial(from.face, target).await?;
        let mut last = Rejection::from(Nowhere::Unknown);
        for hop in hops {
            match self.send(request.clone(), &hop).await {
                Ok((_, responses)) => return Ok((responses, None)),
                Err(rejection) => last = rejection,
            }
        }
        Err(last)
    }

    /// A request to the gateway itself: only whether it is there can be asked.
    fn for_us(&self, request: &Request) -> Rejection {
        match request.method {
            Method::Options => Rejection::new(200, "OK"),
            _ => Rejection::new(404, "nobody is at the gateway itself"),
        }
    }

    /// Leads the description of a request within a call.
    pub(crate) fn steer_request(
        &self,
        call: &Mutex<Call>,
        side: Side,
        request: &mut Request,
    ) -> Result<(), Rejection> {
        let Some(text) = message::description(request, &request.body) else {
            return Ok(());
        };
        let mut call = locked(call);
        let via = self.via_of(&call.hops[side.index()]);
        let peer = call.hops.iter().find_map(Hop::node);
        let Some(steering) = &mut call.steering else {
            return Ok(());
        };
        let is_trusted = |announce: &voice::sdp::Announce| self.is_trusted(announce, peer);
        let source = Source {
            side,
            via,
            is_trusted: &is_trusted,
        };
        let passed = match steering.open_offer() {
            // The answer to a late offer: in the ACK, or in a PRACK.
            Some(offerer) if offerer == side.other() => steering.answer(&source, &text, true),
            _ => steering.offer(&source, &text),
        };
        let passed = passed.map_err(|refused| Rejection::new(refused.status(), refused))?;
        if passed.is_announced && request.method == Method::Invite {
            message::add_supported(request, OPTION_TAG);
        }
        message::set_body(&mut request.headers, &mut request.body, passed.body);
        Ok(())
    }

    /// Leads the description of a response to a request of `side`.
    pub(crate) fn steer_response(&self, call: &Mutex<Call>, side: Side, response: &mut Response) {
        let status = response.status_code.code();
        let by = side.other();
        let mut call = locked(call);
        let via = self.via_of(&call.hops[by.index()]);
        let peer = call.hops.iter().find_map(Hop::node);
        if status < 300 && call.is_answered() {
            call.on_later_response(by, response);
        }
        let Some(steering) = &mut call.steering else {
            return;
        };
        let text = message::description(response, &response.body);
        let is_offerers = steering.open_offer() == Some(side);
        let Some(text) = text else {
            if status >= 300 && is_offerers {
                steering.withdraw();
            }
            return;
        };
        let is_trusted = |announce: &voice::sdp::Announce| self.is_trusted(announce, peer);
        let source = Source {
            side: by,
            via,
            is_trusted: &is_trusted,
        };
        let is_final = (200..300).contains(&status);
        // A repeated answer is one to the same offer; without any offer it is a late one.
        let passed = match steering.answer(&source, &text, is_final) {
            Err(super::steering::Refused::Exchange(voice::sdp::ExchangeError::NoOffer {
                ..
            })) => steering.offer(&source, &text),
            passed => passed,
        };
        match passed {
            Ok(passed) => message::set_body(&mut response.headers, &mut response.body, passed.body),
            // It passes as it came: the ends may make more of it than we.
            Err(_) => self.counters.bad_answers.add(),
        }
    }

    fn via_of(&self, hop: &Hop) -> Option<IpAddr> {
        (hop.face == Face::Access).then(|| hop.at.ip())
    }

    /// Whether a node may announce itself for what it says it serves: its certificate names it, or
    /// signalling came from there. [Amir06 §VI]
    fn is_trusted(&self, announce: &voice::sdp::Announce, peer: Option<NodeAddr>) -> bool {
        let node = announce.node();
        Some(node) == peer || self.routes.domains.serves(node, announce.domain())
    }

    /// Ends a call, once, and tells of it.
    pub(crate) fn end(&self, call: &Mutex<Call>, end: End, report: Option<Report>) {
        let record = locked(call).close(end, report);
        let Some(record) = record else { return };
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
        let number = table.next;
        table.next = table.next.wrapping_add(1);
        let call = Arc::new(Mutex::new(Call::new(number, invite, from, to)));
        table.calls.insert(number, call.clone());
        let call_id = message::call_id(invite);
        table.by_call_id.entry(call_id).or_default().push(number);
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
}

impl Proxy {
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

fn same_stream(mut hop: Hop, known: Option<Hop>) -> Hop {
    if let Some(known) = known
        && known.is_host_of(&hop)
        && known.transport == hop.transport
    {
        hop.stream = known.stream;
    }
    hop
}

/// A hop as the SIP stack writes it.
pub(crate) fn address(hop: &Hop) -> SipAddr {
    SipAddr {
        r#type: Some(hop.transport),
        addr: hop.at.into(),
    }
}

/// The responses of a client transaction, received in a task of its own until it is over.
pub(crate) fn responses(mut transaction: Transaction) -> UnboundedReceiver<Response> {
    let (sender, receiver) = unbounded_channel();
    tokio::spawn(async move {
        while let Some(message) = transaction.receive().await {
            if let SipMessage::Response(response) = message
                && sender.send(response).is_err()
            {
                // Nobody waits any more; the transaction still has to end as it should.
            }
        }
    });
    receiver
}

/// Has a server transaction answer.
pub(crate) fn respond(responder: &TransactionEventSender, response: Response) {
    // A transaction that is over has answered already.
    let _ = responder.send(TransactionEvent::Respond(response));
}

/// Answers with a status of ours.
pub(crate) async fn reject(
    transaction: &mut Transaction,
    rejection: &Rejection,
) -> rsipstack::Result<()> {
    let mut headers = Vec::new();
    match rejection.status {
        420 => headers.push(Header::Unsupported(rejection.why.as_str().into())),
        503 => headers.push(Header::RetryAfter(RETRY_AFTER_S.to_string().into())),
        _ => {}
    }
    if rejection.status >= 400 {
        let text = rejection.why.replace(['"', '\\', '\r', '\n'], "'");
        let value = format!("SIP;cause={};text=\"{text}\"", rejection.status);
        headers.push(Header::Other("Reason".into(), value));
    }
    let status = StatusCode::from(rejection.status);
    transaction.reply_with(status, headers, None).await
}

/// A counter.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Its value.
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
