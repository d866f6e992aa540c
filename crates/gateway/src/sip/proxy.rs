//! The proxy: it handles every request.
//!
//! A stateful proxy (RFC 3261 §16). For the calls that it steers, it stays on the path (Record-Route, one entry for
//! each face); for everything else it does not. Transactions are those of the SIP stack. Each transaction has a task of
//! its own, because it cannot be awaited in two places.

use super::call::{Call, End, is_in_dialog};
use super::calls::Table;
use super::hop::{Face, Hop, Names, SIP_PORT, is_of_site};
use super::inspect::{Gate, Tracer};
use super::message;
use super::places::{self, LINGER, Place, Places, Ports, Standing};
use super::routes::{Nowhere, Routes};
use super::steering::Own;
use super::tcp::Streams;
use super::{Counters, Event, invite};
use crate::allow::Allowed;
use crate::media::Plane;
use crate::slots::Slots;
use base::NodeAddr;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use rsipstack::sip::prelude::HeadersExt;
use rsipstack::sip::{Method, Request, Response, Transport, Uri};
use rsipstack::transaction::endpoint::EndpointInnerRef;
use rsipstack::transaction::transaction::{Transaction, TransactionEvent};
use rsipstack::transport::SipConnection;
use std::hash::RandomState;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;
use voice::sdp::{OPTION_TAG, Side};

/// A call, and the end from which a message came.
pub(crate) type Known = (Arc<Mutex<Call>>, Side);

/// A status code of this gateway, and the reason.
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

/// The state that all requests share.
pub(crate) struct Proxy {
    pub(crate) endpoint: EndpointInnerRef,
    pub(crate) routes: Routes,
    pub(crate) plane: Plane,
    pub(crate) own: Own,
    pub(crate) ports: Ports,
    /// The address at which mirrored media is received, if enabled.
    pub(crate) shadow_at: Option<SocketAddr>,
    /// The hosts that may use the access face; `None` means hosts of the site.
    pub(crate) allowed: Option<Allowed>,
    /// The UDP listener of each address family, and the listener of the overlay.
    pub(crate) udp: Vec<SipConnection>,
    pub(crate) overlay: SipConnection,
    pub(crate) calls: Mutex<Table>,
    pub(crate) report: Arc<dyn Fn(Event) + Send + Sync>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) places: Places,
    /// The connections by TCP.
    pub(crate) streams: Arc<Streams>,
    /// The places of refusals that are not sent yet.
    pub(crate) refusals: Slots,
    /// The state of the senders of datagrams.
    pub(crate) gate: Arc<Gate>,
    /// Makes the tags of this gateway's own answers.
    pub(crate) tags: RandomState,
    pub(crate) trace: Option<Tracer>,
    /// How long a callee may take to answer.
    pub(crate) answer_within: Duration,
}

/// Number of refusals for lack of room that wait until they are sent. Each keeps some kB.
pub(crate) const REFUSALS_MAX: usize = 512;

/// Locks a call for a short time.
pub(crate) fn locked<T>(call: &Mutex<T>) -> MutexGuard<'_, T> {
    call.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Proxy {
    pub(crate) fn names(&self) -> &Names {
        &self.routes.names
    }

    /// Handles a new transaction in a task of its own.
    pub(crate) fn take(self: &Arc<Self>, transaction: Transaction) {
        let Some(from) = self.hop_of(&transaction) else {
            return;
        };
        let (proxy, of) = (self.clone(), places::asker(&from));
        if transaction.original.method == Method::Invite {
            let standing = self.standing(&from, &transaction.original);
            match self.places.take_invite(of, standing) {
                Some(place) => {
                    tokio::spawn(invite::take(proxy, transaction, from, place));
                }
                None => self.turn_away(transaction, "too many calls of this host at once"),
            }
            return;
        }
        match self.places.take(of, &transaction) {
            Some(place) => {
                tokio::spawn(async move { proxy.forward(transaction, from, place).await });
            }
            None => self.turn_away(transaction, "too many requests at once"),
        }
    }

    /// Returns what the gateway knows about a host that begins a call. A host with a TCP connection receives answers.
    fn standing(&self, from: &Hop, invite: &Request) -> Standing {
        if self.is_stranger(from, invite) {
            return Standing::Stranger;
        }
        match from.face == Face::Overlay || self.is_named(from.at.ip()) {
            true => Standing::Named,
            false => Standing::Proven,
        }
    }

    /// Returns whether the operator has named a host: as a server, or by a network of this address alone.
    fn is_named(&self, ip: IpAddr) -> bool {
        let mut lists = self.allowed.iter().chain([&self.routes.reach]);
        self.routes.is_server(ip) || lists.any(|list| list.names(ip))
    }

    /// Returns whether a host may be invented: it has not proven its source address, and it is not a neighbor of the
    /// call to which the INVITE refers.
    fn is_stranger(&self, from: &Hop, invite: &Request) -> bool {
        let is_written = from.face == Face::Access && from.stream.is_none();
        is_written && !self.gate.is_proven(from.at.ip()) && !self.is_of_call(from, invite)
    }

    /// Returns whether an INVITE changes an answered call, and comes from where this call's requests come.
    fn is_of_call(&self, from: &Hop, invite: &Request) -> bool {
        let call_id = message::call_id(invite);
        let table = locked(&self.calls);
        let numbers = table.by_call_id.get(&call_id).into_iter().flatten();
        let mut calls = numbers.filter_map(|number| table.calls.get(number));
        calls.any(|call| {
            let call = locked(call);
            let side = call.side_of(invite).filter(|_| call.is_answered());
            side.is_some_and(|side| call.is_neighbour(side, from))
        })
    }

    /// Returns the neighbor from which a request came.
    fn hop_of(&self, transaction: &Transaction) -> Option<Hop> {
        let connection = transaction.connection.as_ref()?;
        let at = connection.get_remote_addr()?.get_socketaddr().ok()?;
        if connection.get_addr() == self.overlay.get_addr() {
            return Some(Hop {
                at,
                ..Hop::overlay(NodeAddr(0))
            });
        }
        // The stack does not know that its channels are TCP.
        let transport = match connection.is_reliable() {
            true => Transport::Tcp,
            false => Transport::Udp,
        };
        let mut hop = Hop::access(at, transport);
        hop.stream = connection.is_reliable().then(|| connection.clone());
        Some(hop)
    }

    /// Checks every request before anything is done for it.
    pub(crate) fn admit(&self, request: &Request, from: &Hop) -> Result<(), Rejection> {
        // Requests of a call that this gateway let in may also come from other hosts: `call_of` has its own checks.
        if !is_in_dialog(request) {
            self.admit_host(from)?;
        }
        let unknown = message::unknown_requirements(request, &[OPTION_TAG]);
        match unknown.is_empty() {
            true => Ok(()),
            false => Err(Rejection::new(420, unknown.join(", "))),
        }
    }

    /// Checks whether the host may make requests.
    fn admit_host(&self, from: &Hop) -> Result<(), Rejection> {
        let ip = from.at.ip();
        let may = match (from.face, &self.allowed) {
            (Face::Overlay, _) => true,
            (_, None) => is_of_site(ip),
            (_, Some(allowed)) => allowed.admits(ip, SIP_PORT),
        };
        if may {
            self.may_stay(from);
            return Ok(());
        }
        self.counters.not_allowed.add();
        Err(Rejection::new(403, "this address may not use the gateway"))
    }

    /// Notes that a request of this neighbor was admitted. If it came by TCP, the connection stays.
    pub(crate) fn may_stay(&self, from: &Hop) {
        if from.stream.is_some() {
            self.streams.stays(from.at);
        }
    }

    /// Removes our Routes and counts the hop. Returns the call that the Routes identify.
    pub(crate) async fn unwrap(&self, request: &mut Request) -> Result<Option<u64>, Rejection> {
        if !message::count_hop(request) {
            self.counters.too_many_hops.add();
            return Err(Rejection::new(483, "Too Many Hops"));
        }
        let bad = |error| Rejection::new(400, error);
        let routes = request.typed_route_headers().map_err(bad)?;
        // Phones write their outbound proxy as it was configured: by name.
        let named = match routes.first() {
            Some(route) if self.routes.is_own_name(&route.uri).await => Some(route.uri.clone()),
            _ => None,
        };
        let names = self.names();
        let is_own = |uri: &Uri| names.is_own(uri) || named.as_ref() == Some(uri);
        message::pop_own_routes(request, is_own).map_err(bad)
    }

    /// Forwards a request other than INVITE to its next hop, and the responses back. The task ends when its place is
    /// taken away.
    async fn forward(self: &Arc<Self>, mut transaction: Transaction, from: Hop, place: Place) {
        let sent = {
            let sending = self.pass_on(transaction.original.clone(), &from);
            tokio::pin!(sending);
            loop {
                tokio::select! {
                    sent = &mut sending => break sent,
                    // This is a retransmission of the request, and the answer is not known yet.
                    Some(_) = transaction.tu_receiver.recv() => {}
                    () = place.gone() => return,
                }
            }
        };
        match sent {
            Ok((responses, call)) => self.answers(transaction, responses, call, &place).await,
            Err(rejection) => self.reject(transaction, &rejection).await,
        }
    }

    /// Passes the responses back, and repeats the last one for each retransmission of the request.
    async fn answers(
        &self,
        mut transaction: Transaction,
        mut responses: UnboundedReceiver<Response>,
        call: Option<Known>,
        place: &Place,
    ) {
        let connection = transaction.connection.as_ref();
        let is_repeated = !connection.is_some_and(SipConnection::is_reliable);
        let mut last = None::<Response>;
        let is_over = tokio::time::sleep(LINGER);
        tokio::pin!(is_over);
        let mut is_final = false;
        loop {
            tokio::select! {
                response = responses.recv(), if !is_final => {
                    let Some(mut response) = response else { return };
                    message::pop_via(&mut response);
                    if let Some((call, side)) = &call {
                        self.steer_response(call, *side, &mut response);
                    }
                    is_final = response.status_code.code() >= 200;
                    if is_final {
                        self.tag(&transaction.original, &mut response);
                    }
                    self.answer(&transaction, response.clone()).await;
                    last = Some(response);
                    if is_final && !is_repeated {
                        return;
                    }
                    if is_final {
                        place.is_spare();
                        is_over.as_mut().reset(Instant::now() + LINGER);
                    }
                }
                event = transaction.tu_receiver.recv() => match (event, &last) {
                    (None, _) => return,
                    (Some(TransactionEvent::Received(..)), Some(last)) => {
                        self.answer(&transaction, last.clone()).await;
                    }
                    _ => {}
                },
                () = place.gone() => return,
                () = &mut is_over, if is_final => return,
            }
        }
    }

    async fn pass_on(
        self: &Arc<Self>,
        mut request: Request,
        from: &Hop,
    ) -> Result<(UnboundedReceiver<Response>, Option<Known>), Rejection> {
        self.admit(&request, from)?;
        let number = self.unwrap(&mut request).await?;
        let call = self.call_of(&request, number, from)?;
        if let Some((call, side)) = &call {
            self.steer_request(call, *side, &mut request)?;
            let hop = self.hop_within(&request, call, *side).await;
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
        self.admit_host(from)?;
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

    /// Answers a request to the gateway itself: only OPTIONS is supported.
    fn for_us(&self, request: &Request) -> Rejection {
        match request.method {
            Method::Options => Rejection::new(200, "OK"),
            _ => Rejection::new(404, "nobody is at the gateway itself"),
        }
    }
}

/// A counter.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the value.
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
