//! The changes that a proxy makes to a message (RFC 3261 §16.6), and what it reads from it.

use super::call::Call;
use super::hop::Hop;
use super::places;
use crate::slots::Slots;
use core::fmt::Display;
use core::net::SocketAddr;
use rsipstack::sip::headers::{ContentLength, MaxForwards, RecordRoute, Route, Supported, Via};
use rsipstack::sip::prelude::HeadersExt;
use rsipstack::sip::typed;
use rsipstack::sip::{
    Header, Headers, HostWithPort, Param, Request, Response, SipMessage, Transport, Uri,
};
use rsipstack::transaction::key::{TransactionKey, TransactionRole};
use rsipstack::transaction::make_via_branch;
use rsipstack::transport::SipConnection;

/// The default hop limit for a request without the header (RFC 3261 §16.6).
const MAX_FORWARDS: u32 = 70;
/// The parameter of our Record-Route that identifies the call.
const CALL: &str = "call";

/// The media type of descriptions.
const SDP: &str = "application/sdp";

/// Returns a message as a gateway at `own` would forward it, without sending it. Tests call this with arbitrary bytes.
/// Returns `None` if the bytes are not a message, or may not be forwarded.
pub fn passed_on(bytes: &[u8], own: &str) -> Option<Vec<u8>> {
    let own = HostWithPort::try_from(own).ok()?;
    let from = SocketAddr::from(([192, 0, 2, 200], 40_000));
    let message = SipMessage::try_from(bytes).ok()?;
    match SipConnection::update_msg_received(message, from, Transport::Udp).ok()? {
        SipMessage::Request(mut request) => {
            TransactionKey::from_request(&request, TransactionRole::Server).ok()?;
            let hop = Hop::access(from, Transport::Udp);
            let ringing = Slots::new(2).take_for(places::asker(&hop))?;
            let call = Call::new(0, &request, hop.clone(), hop, ringing);
            call.side_of(&request)?;
            let is_own = |uri: &Uri| uri.host_with_port == own;
            if !count_hop(&mut request) {
                return None;
            }
            pop_own_routes(&mut request, is_own).ok()?;
            if let Some(text) = description(&request, &request.body) {
                set_body(&mut request.headers, &mut request.body, text);
            }
            push_record_route(&mut request, &own, Transport::Udp, 1);
            push_via(&mut request, Transport::Udp, &own);
            Some(request.to_bytes())
        }
        SipMessage::Response(mut response) => {
            TransactionKey::from_response(&response, TransactionRole::Client).ok()?;
            // A call also reads these parts of its answer.
            let _ = (
                tags(&response),
                contact(&response),
                record_routes(&response),
            );
            pop_via(&mut response);
            Some(response.to_bytes())
        }
    }
}

/// Decreases Max-Forwards by one. Returns false if it was zero.
pub(crate) fn count_hop(request: &mut Request) -> bool {
    let left = match request.max_forwards_header() {
        Ok(header) => header.value().trim().parse().unwrap_or(MAX_FORWARDS),
        Err(_) => MAX_FORWARDS + 1,
    };
    let Some(left) = left.checked_sub(1) else {
        return false;
    };
    let left = left.min(MAX_FORWARDS).to_string();
    let header = Header::MaxForwards(MaxForwards::new(left));
    request.headers.unique_push(header);
    true
}

/// Removes the topmost Routes for which `is_own` is true, and returns the call that one of them identifies.
pub(crate) fn pop_own_routes(
    request: &mut Request,
    is_own: impl Fn(&Uri) -> bool,
) -> Result<Option<u64>, rsipstack::sip::Error> {
    let routes = request.typed_route_headers()?;
    let own = routes.iter().take_while(|route| is_own(&route.uri)).count();
    if own == 0 {
        return Ok(None);
    }
    let call = routes[..own].iter().find_map(|route| call_of(&route.uri));
    let place = request
        .headers
        .iter()
        .position(|header| matches!(header, Header::Route(_)));
    request
        .headers
        .remove_all(|header| matches!(header, Header::Route(_)));
    let left = routes[own..].iter().map(|route| {
        let value = route_value(&route.uri, &route.params);
        Header::Route(Route::new(value))
    });
    let place = place.unwrap_or_default();
    request.headers.0.splice(place..place, left);
    Ok(call)
}

fn route_value(uri: &Uri, params: &[Param]) -> String {
    let params: String = params.iter().map(ToString::to_string).collect();
    format!("<{uri}>{params}")
}

/// Returns the call that a Record-Route of this gateway identifies.
pub(crate) fn call_of(uri: &Uri) -> Option<u64> {
    uri.params.iter().find_map(|param| match param {
        Param::Other(name, Some(value)) if name.value().eq_ignore_ascii_case(CALL) => {
            u64::from_str_radix(value.value(), 16).ok()
        }
        _ => None,
    })
}

/// Adds our Via on top.
pub(crate) fn push_via(request: &mut Request, transport: Transport, own: &HostWithPort) {
    let value = format!("SIP/2.0/{transport} {own}{};rport", make_via_branch());
    request.headers.push_front(Header::Via(Via::new(value)));
}

/// Removes our Via from a response.
pub(crate) fn pop_via(response: &mut Response) {
    let place = response
        .headers
        .iter()
        .position(|header| matches!(header, Header::Via(_)));
    let Some(place) = place else { return };
    // Several values may share a line; the first is ours.
    if let Header::Via(via) = &mut response.headers.0[place] {
        let first = via.first_value().map(|first| first.value().len());
        let rest = first.ok().and_then(|len| via.value().trim().get(len..));
        let rest = rest.and_then(|rest| rest.trim_start().strip_prefix(','));
        if let Some(rest) = rest.map(|rest| rest.trim().to_owned())
            && !rest.is_empty()
        {
            via.replace(rest);
            return;
        }
    }
    response.headers.0.remove(place);
}

/// Adds a Record-Route on top: `own` with the call's number.
pub(crate) fn push_record_route(
    request: &mut Request,
    own: &HostWithPort,
    transport: Transport,
    call: u64,
) {
    let tcp = match transport {
        Transport::Tcp => ";transport=tcp",
        _ => "",
    };
    let value = format!("<sip:{own}{tcp};lr;{CALL}={call:x}>");
    let header = Header::RecordRoute(RecordRoute::new(value));
    let place = request
        .headers
        .iter()
        .position(|header| matches!(header, Header::RecordRoute(_)))
        .unwrap_or(1)
        .min(request.headers.len());
    request.headers.0.insert(place, header);
}

/// Returns the session description of a message, if its body is nothing else.
pub(crate) fn description<M: HeadersExt>(message: &M, body: &[u8]) -> Option<Vec<u8>> {
    let kind = message.headers().iter().find_map(|header| match header {
        Header::ContentType(kind) => Some(kind.value()),
        Header::Other(name, value) if name.eq_ignore_ascii_case("c") => Some(value.as_str()),
        _ => None,
    })?;
    let kind = kind.split(';').next().unwrap_or_default().trim();
    let is_encoded = message
        .headers()
        .iter()
        .any(|header| matches!(header, Header::ContentEncoding(_)));
    (kind.eq_ignore_ascii_case(SDP) && !is_encoded && !body.is_empty()).then(|| body.to_vec())
}

/// The address at which a gateway receives mirrored media: a header between gateways, which no phone sees.
const SHADOW: &str = "Sinew-Shadow";

/// Adds the address at which this gateway receives mirrored media.
pub(crate) fn push_shadow(headers: &mut Headers, at: SocketAddr) {
    headers.push(Header::Other(SHADOW.into(), at.to_string()));
}

/// Removes the header, and returns the address.
pub(crate) fn take_shadow(headers: &mut Headers) -> Option<SocketAddr> {
    let is_it = |header: &Header| header.name().eq_ignore_ascii_case(SHADOW);
    let at = headers.iter().find(|header| is_it(header))?.value().parse();
    headers.remove_all(is_it);
    at.ok()
}

/// Replaces the body.
pub(crate) fn set_body(headers: &mut Headers, body: &mut Vec<u8>, new: Vec<u8>) {
    let length = u32::try_from(new.len()).unwrap_or(u32::MAX);
    headers.unique_push(Header::ContentLength(ContentLength::from(length)));
    *body = new;
}

/// Adds an option tag to Supported, if it is not there yet.
pub(crate) fn add_supported(request: &mut Request, tag: &str) {
    if !request.header_contains_token("Supported", tag) {
        let header = Header::Supported(Supported::new(tag));
        request.headers.push(header);
    }
}

/// Returns the option tags that a proxy must understand and that are not among `known`.
pub(crate) fn unknown_requirements(request: &Request, known: &[&str]) -> Vec<String> {
    let tags = request.headers.iter().filter_map(|header| match header {
        Header::ProxyRequire(tags) => Some(tags.value()),
        _ => None,
    });
    tags.flat_map(|tags| tags.split(','))
        .map(str::trim)
        .filter(|tag| !tag.is_empty() && !known.iter().any(|known| known.eq_ignore_ascii_case(tag)))
        .map(str::to_owned)
        .collect()
}

/// Returns both tags of a dialog: the tag of From, and that of To if there is one.
pub(crate) fn tags<M: HeadersExt>(message: &M) -> (Option<String>, Option<String>) {
    let text = |tag: Option<rsipstack::sip::uri::Tag>| tag.map(|tag| tag.value().to_owned());
    let from = message.from_header().ok().and_then(|h| h.tag().ok());
    let to = message.to_header().ok().and_then(|h| h.tag().ok());
    (text(from.flatten()), text(to.flatten()))
}

/// Returns whether the header To can be read, so that a tag can be added to it.
pub(crate) fn has_to<M: HeadersExt>(message: &M) -> bool {
    message.to_header().is_ok_and(|to| to.tag().is_ok())
}

/// Returns the Call-ID, or an empty string.
pub(crate) fn call_id<M: HeadersExt>(message: &M) -> String {
    let header = message.call_id_header();
    header.map_or_else(|_| String::new(), |h| h.value().to_owned())
}

/// Returns the number of CSeq.
pub(crate) fn cseq<M: HeadersExt>(message: &M) -> u32 {
    message
        .cseq_header()
        .and_then(|h| h.seq())
        .unwrap_or_default()
}

/// Returns the URI of the first Contact.
pub(crate) fn contact<M: HeadersExt>(message: &M) -> Option<Uri> {
    let contacts = message.typed_contact_headers().ok()?;
    contacts.into_iter().next().map(|contact| contact.uri)
}

/// Returns the Record-Routes, topmost first.
pub(crate) fn record_routes<M: HeadersExt>(message: &M) -> Vec<typed::RecordRoute> {
    message.typed_record_route_headers().unwrap_or_default()
}

/// Returns the URI in From or To, for people.
pub(crate) fn party(uri: Result<Uri, rsipstack::sip::Error>) -> String {
    uri.map_or_else(
        |_| String::new(),
        |mut uri| {
            uri.params.clear();
            uri.headers.clear();
            uri.to_string()
        },
    )
}

/// Returns a Route header for a URI.
pub(crate) fn route_header(uri: impl Display) -> Header {
    Header::Route(Route::new(format!("<{uri}>")))
}

/// Returns the transport that a URI requests.
pub(crate) fn transport_of(uri: &Uri) -> Transport {
    let asked = uri.params.iter().find_map(|param| match param {
        Param::Transport(transport) => Some(*transport),
        _ => None,
    });
    asked.unwrap_or(Transport::Udp)
}

#[cfg(test)]
mod tests;
