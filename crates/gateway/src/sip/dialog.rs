//! Requests and responses within a call: to which call they belong, where they go, and how their descriptions change.

use super::call::{Call, is_in_dialog};
use super::hop::{Face, Hop, is_private, overlay_node};
use super::message;
use super::proxy::{Known, Proxy, Rejection, locked};
use super::routes;
use super::steering::{Refused, Source, Steering};
use base::NodeAddr;
use core::net::{IpAddr, SocketAddr};
use rsipstack::sip::prelude::HeadersExt;
use rsipstack::sip::{Headers, Host, Method, Request, Response, Uri};
use std::sync::Mutex;
use voice::sdp::{Announce, ExchangeError, OPTION_TAG, Side};

impl Proxy {
    /// Returns the call of a request within a dialog, and the side that sent it.
    pub(crate) fn call_of(
        &self,
        request: &Request,
        number: Option<u64>,
        from: &Hop,
    ) -> Result<Option<Known>, Rejection> {
        // Choice: if an end forgets its Routes, its dialog still identifies the call.
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
            // A sender that knows both tags has seen the dialog, but only the call's neighbors may change it.
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
        self.may_stay(from);
        Ok(Some((call, side)))
    }

    /// Returns the next hop for a request of a call that `by` sent.
    pub(crate) async fn hop_within(
        &self,
        request: &Request,
        call: &Mutex<Call>,
        by: Side,
    ) -> Result<Hop, Rejection> {
        let routes = request
            .typed_route_headers()
            .map_err(|error| Rejection::new(400, error))?;
        let known = locked(call).hops[by.other().index()].clone();
        if let Some(first) = routes.first() {
            self.may_lead(&first.uri, call, by)?;
            let hop = self.routes.within(&first.uri).await?;
            return Ok(same_stream(hop, known));
        }
        // Without Routes of its own the request must still go to the other gateway.
        if known.face == Face::Overlay {
            return Ok(known);
        }
        // Choice: if a target is in a private network and its signalling does not come from there, the target is behind
        // an address translator. It is reached only through the hop from which its signalling came.
        if let Host::IpAddr(ip) = request.uri.host()
            && (known.stream.is_some() || (is_private(*ip) && !is_private(known.at.ip())))
        {
            return Ok(known);
        }
        self.may_lead(&request.uri, call, by)?;
        let hop = self.routes.within(&request.uri).await?;
        Ok(same_stream(hop, known))
    }

    /// Checks whether a request of `by` may lead to this URI. Requests from the overlay may lead only to where the
    /// call's end at this site is, or has said that it is.
    fn may_lead(&self, uri: &Uri, call: &Mutex<Call>, by: Side) -> Result<(), Rejection> {
        let call = locked(call);
        if call.hops[by.index()].face == Face::Access {
            return Ok(());
        }
        let end = by.other().index();
        let is_known = match uri.host() {
            Host::IpAddr(ip) => call.hops[end].at == routes::at(*ip, uri),
            Host::Domain(_) => {
                overlay_node(uri.host()).is_some_and(|node| call.hops[end].node() == Some(node))
            }
        };
        if is_known || call.legs[end].has_given(uri) || self.routes.is_of_site(uri) {
            return Ok(());
        }
        self.counters.forged.add();
        Err(Rejection::new(
            403,
            "not where this call's end is: --reach lists what else other sites may lead to",
        ))
    }

    /// Steers the description of a request within a call.
    pub(crate) fn steer_request(
        &self,
        call: &Mutex<Call>,
        side: Side,
        request: &mut Request,
    ) -> Result<(), Rejection> {
        let shadow = message::take_shadow(&mut request.headers);
        let Some(text) = message::description(request, &request.body) else {
            return Ok(());
        };
        let mut call = locked(call);
        let faces = [side, side.other()].map(|side| call.hops[side.index()].face);
        let via = self.via_of(&call.hops[side.index()]);
        let peer = call.hops.iter().find_map(Hop::node);
        let Some(steering) = &mut call.steering else {
            return Ok(());
        };
        let is_trusted = |announce: &Announce| self.is_trusted(announce, peer);
        let source = Source {
            side,
            via,
            is_trusted: &is_trusted,
        };
        let passed = match steering.open_offer() {
            // This is the answer to a late offer: in the ACK, or in a PRACK.
            Some(offerer) if offerer == side.other() => steering.answer(&source, &text, true),
            _ => steering.offer(&source, &text),
        };
        let passed = passed.map_err(|refused| Rejection::new(refused.status(), refused))?;
        if passed.is_announced && request.method == Method::Invite {
            message::add_supported(request, OPTION_TAG);
        }
        self.shadow(faces, shadow, steering, &mut request.headers);
        message::set_body(&mut request.headers, &mut request.body, passed.body);
        Ok(())
    }

    /// Steers the description of a response to a request of `side`.
    pub(crate) fn steer_response(&self, call: &Mutex<Call>, side: Side, response: &mut Response) {
        let status = response.status_code.code();
        let by = side.other();
        let shadow = message::take_shadow(&mut response.headers);
        let mut call = locked(call);
        let faces = [by, side].map(|side| call.hops[side.index()].face);
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
        let is_trusted = |announce: &Announce| self.is_trusted(announce, peer);
        let source = Source {
            side: by,
            via,
            is_trusted: &is_trusted,
        };
        let is_final = (200..300).contains(&status);
        // A repeated answer is an answer to the same offer. Without any offer, the description is a late offer.
        let passed = match steering.answer(&source, &text, is_final) {
            Err(Refused::Exchange(ExchangeError::NoOffer { .. })) => steering.offer(&source, &text),
            passed => passed,
        };
        match passed {
            Ok(passed) => {
                self.shadow(faces, shadow, steering, &mut response.headers);
                message::set_body(&mut response.headers, &mut response.body, passed.body);
            }
            // The description passes unchanged: the ends may understand it better than the gateway.
            Err(_) => self.counters.bad_answers.add(),
        }
    }

    /// Records where the other gateway receives mirrored media, and tells that gateway where this one does.
    fn shadow(
        &self,
        [from, to]: [Face; 2],
        at: Option<SocketAddr>,
        steering: &Steering,
        headers: &mut Headers,
    ) {
        if let (Face::Overlay, Some(at)) = (from, at) {
            steering.mirror(at);
        }
        if let (Face::Overlay, Some(own)) = (to, self.shadow_at) {
            message::push_shadow(headers, own);
        }
    }

    fn via_of(&self, hop: &Hop) -> Option<IpAddr> {
        (hop.face == Face::Access).then(|| hop.at.ip())
    }

    /// Returns whether a node may announce itself for this domain: its certificate names the domain, or the signalling
    /// came from this node. [Amir06 §VI]
    fn is_trusted(&self, announce: &Announce, peer: Option<NodeAddr>) -> bool {
        let node = announce.node();
        Some(node) == peer || self.routes.domains.serves(node, announce.domain())
    }
}

fn same_stream(mut hop: Hop, known: Hop) -> Hop {
    if known.is_host_of(&hop) && known.transport == hop.transport {
        hop.stream = known.stream;
    }
    hop
}
