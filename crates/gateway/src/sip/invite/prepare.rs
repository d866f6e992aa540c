//! The checks of an INVITE before it is passed on.

use super::super::call::{Call, is_in_dialog};
use super::super::hop::{Face, Hop};
use super::super::message;
use super::super::proxy::{Proxy, Rejection};
use base::NodeAddr;
use rsipstack::sip::Request;
use rsipstack::sip::prelude::HeadersExt;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use voice::sdp::{Sdp, Side};

/// What is known before an INVITE is sent to its first hop.
pub(super) struct Prepared {
    pub(super) call: Option<Arc<Mutex<Call>>>,
    pub(super) side: Side,
    pub(super) is_first: bool,
    /// The request without our Routes, Via and Record-Routes, and with the caller's description.
    pub(super) request: Request,
    pub(super) hops: VecDeque<Hop>,
}

/// Checks an INVITE, and finds its call and its hops.
pub(super) async fn prepare(
    proxy: &Proxy,
    invite: &Request,
    from: &Hop,
) -> Result<Prepared, Rejection> {
    let mut request = invite.clone();
    if !message::has_to(&request) {
        return Err(Rejection::new(400, "its To cannot be read"));
    }
    proxy.admit(&request, from)?;
    let number = proxy.unwrap(&mut request).await?;
    if is_in_dialog(&request) {
        let call = proxy.call_of(&request, number, from)?;
        let Some((call, side)) = call else {
            return Err(Rejection::new(481, "no such call here"));
        };
        let hop = proxy.hop_within(&request, &call, side).await?;
        return Ok(Prepared {
            call: Some(call),
            side,
            is_first: false,
            request,
            hops: VecDeque::from([hop]),
        });
    }
    let routes = request
        .typed_route_headers()
        .map_err(|error| Rejection::new(400, error))?;
    let target = routes.first().map_or(&request.uri, |route| &route.uri);
    if routes.is_empty() && proxy.names().is_own(target) {
        return Err(Rejection::new(404, "nobody is at the gateway itself"));
    }
    let hops = proxy.routes.initial(from.face, target).await?;
    let first = hops.first().cloned();
    let first = first.ok_or_else(|| Rejection::new(404, "no way there"))?;
    let from = Hop {
        is_abroad: from.face == Face::Access
            && first.face == Face::Access
            && !first.is_abroad
            && is_announced_elsewhere(&request, proxy.own.node),
        ..from.clone()
    };
    let call = proxy.insert(&request, from, first)?;
    Ok(Prepared {
        call: Some(call),
        side: Side::Caller,
        is_first: true,
        request,
        hops: hops.into(),
    })
}

/// Returns whether the caller receives media at another node than this one.
fn is_announced_elsewhere(invite: &Request, own: NodeAddr) -> bool {
    let Some(text) = message::description(invite, &invite.body) else {
        return false;
    };
    let Ok(sdp) = Sdp::parse(&text) else {
        return false;
    };
    sdp.media().iter().any(|section| match &section.announce {
        Ok(Some(announce)) => announce.node() != own,
        _ => false,
    })
}
