//! The proxy: every request that comes, and what becomes of it.
//!
//! A stateful proxy (RFC 3261 §16) that stays on the path of the calls it steers (Record-Route, one
//! entry for each face), and is out of the way of everything else. Transactions are the SIP stack's;
//! each has a task of its own, for they cannot be waited for in two places.

use super::call::{Call, End, is_in_dialog};
use super::calls::Table;
use super::hop::{Face, Hop, Names, SIP_PORT, is_of_site};
use super::message;
use super::places::{Full, Place, Places};
use super::routes::{Nowhere, Routes};
use super::steering::Own;
use super::transactions::{reject, respond};
use super::{Counters, Event, invite};
use crate::allow::Allowed;
use crate::media::Plane;
use base::NodeAddr;
use core::net::SocketAddr;
use net::places::Origin;
use rsipstack::sip::prelude::HeadersExt;
use rsipstack::sip::{Method, Request, Response, Uri};
use rsipstack::transaction::endpoint::EndpointInnerRef;
use rsipstack::transaction::transaction::Transaction;
use rsipstack::transport::SipConnection;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc::UnboundedReceiver;
use voice::sdp::{OPTION_TAG, Side};

/// A call, and which of its ends something came from.
pub(crate) type Known = (Arc<Mutex<Call>>, Side);

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
    /// Where mirrored media is taken, if it is.
    pub(crate) shadow_at: Option<SocketAddr>,
    /// Who may use the access face; `None` is hosts of the site.
    pub(crate) allowed: Option<Allowed>,
    /// The listener of UDP for each family, and the overlay's.
    pub(crate) udp: Vec<SipConnection>,
    pub(crate) overlay: SipConnection,
    pub(crate) calls: Mutex<Table>,
    pub(crate) report: Arc<dyn Fn(Event) + Send + Sync>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) places: Places,
}

/// A call, to be looked at for a moment.
pub(crate) fn locked<T>(call: &Mutex<T>) -> MutexGuard<'_, T> {
    call.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Proxy {
    pub(crate) fn names(&self) -> &Names {
        &self.routes.names
    }

    /// Takes what came, in a task of its own.
    pub(crate) fn take(self: &Arc<Self>, transaction: Transaction) {
        let Some(from) = self.hop_of(&transaction) else {
            return;
        };
        let (endpoint, key) = (self.endpoint.clone(), transaction.key.clone());
        let forget = move || drop(endpoint.finished_transactions.remove(&key));
        let place = self.places.take(Origin::of(from.at.ip()), Box::new(forget));
        let proxy = self.clone();
        tokio::spawn(async move {
            match place {
                Ok(place) if transaction.original.method == Method::Invite => {
                    invite::take(proxy, transaction, from, place).await;
                }
                Ok(place) => proxy.forward(transaction, from, place).await,
                Err(full) => proxy.turn_away(transaction, full).await,
            }
        });
    }

    /// A request for which there is no place. It is answered, if that may cost something, and forgotten.
    async fn turn_away(&self, mut transaction: Transaction, full: Full) {
        self.counters.overload.add();
        if full == Full::Told {
            let rejection = Rejection::new(503, "too many requests at once");
            let _ = reject(&mut transaction, &rejection).await;
        }
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
        // A call that we let in may also be spoken of from elsewhere: `call_of` has its own checks.
        if !is_in_dialog(request) {
            self.admit_host(from)?;
        }
        let unknown = message::unknown_requirements(request, &[OPTION_TAG]);
        match unknown.is_empty() {
            true => Ok(()),
            false => Err(Rejection::new(420, unknown.join(", "))),
        }
    }

    /// Whether the host may ask for anything.
    fn admit_host(&self, from: &Hop) -> Result<(), Rejection> {
        let ip = from.at.ip();
        let may = match (from.face, &self.allowed) {
            (Face::Overlay, _) => true,
            (_, None) => is_of_site(ip),
            (_, Some(allowed)) => allowed.admits(ip, SIP_PORT),
        };
        if may {
            return Ok(());
        }
        self.counters.not_allowed.add();
        Err(Rejection::new(403, "this address may not use the gateway"))
    }

    /// Takes our Routes off and counts the hop. Tells the call that the Routes name.
    pub(crate) async fn unwrap(&self, request: &mut Request) -> Result<Option<u64>, Rejection> {
        if !message::count_hop(request) {
            self.counters.too_many_hops.add();
            return Err(Rejection::new(483, "Too Many Hops"));
        }
        let bad = |error| Rejection::new(400, error);
        let routes = request.typed_route_headers().map_err(bad)?;
        // Phones write their outbound proxy as they were told it: by name.
        let named = match routes.first() {
            Some(route) if self.routes.is_own_name(&route.uri).await => Some(route.uri.clone()),
            _ => None,
        };
        let names = self.names();
        let is_own = |uri: &Uri| names.is_own(uri) || named.as_ref() == Some(uri);
        message::pop_own_routes(request, is_own).map_err(bad)
    }

    /// A request that is no INVITE: to its next hop, and the responses back.
    async fn forward(self: &Arc<Self>, mut transaction: Transaction, from: Hop, place: Place) {
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
        tokio::spawn(async move {
            let _place = place;
            while transaction.receive().await.is_some() {}
        });
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
        let number = self.unwrap(&mut request).await?;
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

    /// A request to the gateway itself: only whether it is there can be asked.
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

    /// Its value.
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
