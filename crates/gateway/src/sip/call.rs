//! One call as the gateway knows it: its ends, and what is needed to end it on their behalf.

use super::hop::{Face, Hop, SIP_PORT};
use super::message;
use super::places::Asker;
use super::steering::Steering;
use crate::media::Report;
use crate::slots::Slot;
use base::NodeAddr;
use core::time::Duration;
use rsipstack::sip::prelude::HeadersExt;
use rsipstack::sip::{Header, Host, Request, Response, Uri};
use std::time::{Instant, SystemTime};
use tokio_util::sync::CancellationToken;
use voice::media::Expired;
use voice::sdp::Side;

/// Why a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The caller hung up.
    Caller,
    /// The callee hung up.
    Callee,
    /// The caller gave up before the answer.
    Cancelled,
    /// The call was refused with this status.
    Refused(u16),
    /// The call expired: it was not answered, media stopped, or the dialog fell silent.
    Expired(Expired),
    /// The node at the other side was lost.
    NodeLost,
    /// The gateway was stopped.
    Stopped,
}

impl End {
    /// Returns the reason as a label.
    pub fn label(self) -> &'static str {
        match self {
            End::Caller => "caller",
            End::Callee => "callee",
            End::Cancelled => "cancelled",
            End::Refused(_) => "refused",
            End::Expired(Expired::NoAnswer) => "no answer",
            End::Expired(Expired::NoMedia) => "no media",
            End::Expired(Expired::NoDialog) => "no dialog",
            End::NodeLost => "node lost",
            End::Stopped => "stopped",
        }
    }
}

/// What is known of a call, while it exists and after it has ended (its detail record).
#[derive(Clone, Debug)]
pub struct Record {
    /// The gateway's number of the call.
    pub number: u64,
    /// SIP's Call-ID.
    pub call_id: String,
    /// The caller, as in the From header.
    pub from: String,
    /// The callee, as in the To header.
    pub to: String,
    /// When the INVITE came.
    pub started: SystemTime,
    /// How long it rang, if it was answered.
    pub answered_after: Option<Duration>,
    /// The time from the INVITE to now, or to the end of the call.
    pub lasted: Duration,
    /// Why the call ended, if it has ended.
    pub end: Option<End>,
    /// The node at the other side, if signalling crosses the overlay.
    pub peer: Option<NodeAddr>,
    /// Whether the overlay carries the media. Otherwise it goes directly.
    pub is_carried: bool,
    /// The report about the media, final or so far.
    pub report: Option<Report>,
}

/// What is known of one end of a call, for requests to it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leg {
    /// The From or To header of the end, with the tag.
    pub(crate) party: String,
    pub(crate) tag: Option<String>,
    pub(crate) contact: Option<Uri>,
    /// The hops between this gateway and the end, the nearest first.
    pub(crate) routes: Vec<Uri>,
    /// The targets that the end has given for requests to it, the latest last.
    given: Vec<(Host, u16)>,
    /// The highest CSeq number of the requests that the end sent.
    pub(crate) cseq: u32,
}

/// Number of targets of an end that are remembered: forks of the call, and devices between which it moved.
const GIVEN_MAX: usize = 16;

impl Leg {
    /// Notes targets that the end gives for requests to it.
    fn give(&mut self, targets: impl IntoIterator<Item = Uri>) {
        for at in targets.into_iter().map(|uri| target(&uri)) {
            self.given.retain(|given| *given != at);
            self.given.push(at);
        }
        let over = self.given.len().saturating_sub(GIVEN_MAX);
        self.given.drain(..over);
    }

    /// Returns whether the end has given this target.
    pub(crate) fn has_given(&self, uri: &Uri) -> bool {
        self.given.contains(&target(uri))
    }
}

fn target(uri: &Uri) -> (Host, u16) {
    let port = uri.host_with_port.port.map_or(SIP_PORT, u16::from);
    (uri.host().clone(), port)
}

/// A call.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) number: u64,
    pub(crate) call_id: String,
    pub(crate) hops: [Hop; 2],
    pub(crate) legs: [Leg; 2],
    pub(crate) steering: Option<Steering>,
    /// The place among the calls that are not answered yet.
    pub(crate) ringing: Option<Slot<Asker>>,
    /// Cancelled if the call still rings and must make room for another one.
    pub(crate) gives_way: CancellationToken,
    from: String,
    to: String,
    started: (SystemTime, Instant),
    answered: Option<Instant>,
    end: Option<(End, Instant)>,
}

impl Call {
    /// Creates a call from an INVITE outside a dialog, as the INVITE came.
    pub(crate) fn new(
        number: u64,
        invite: &Request,
        from: Hop,
        to: Hop,
        ringing: Slot<Asker>,
    ) -> Call {
        let gives_way = CancellationToken::new();
        let way = gives_way.clone();
        ringing.may_end(move || way.cancel());
        let header = invite.from_header();
        let mut caller = Leg {
            party: header.map_or_else(|_| String::new(), |h| h.value().to_owned()),
            tag: message::tags(invite).0,
            contact: message::contact(invite),
            routes: message::record_routes(invite)
                .into_iter()
                .map(|route| route.uri)
                .collect(),
            cseq: message::cseq(invite),
            given: Vec::new(),
        };
        let named = caller.routes.iter().chain(&caller.contact);
        caller.give(named.cloned().collect::<Vec<_>>());
        let header = invite.to_header();
        let callee = Leg {
            party: header.map_or_else(|_| String::new(), |h| h.value().to_owned()),
            ..Leg::default()
        };
        Call {
            number,
            call_id: message::call_id(invite),
            hops: [from, to],
            legs: [caller, callee],
            steering: None,
            ringing: Some(ringing),
            gives_way,
            from: message::party(invite.from_header().and_then(|h| h.uri())),
            to: message::party(invite.to_header().and_then(|h| h.uri())),
            started: (SystemTime::now(), Instant::now()),
            answered: None,
            end: None,
        }
    }

    /// Returns the side that sent a request, if the request belongs to this dialog.
    pub(crate) fn side_of(&self, request: &Request) -> Option<Side> {
        if message::call_id(request) != self.call_id {
            return None;
        }
        let (from, to) = message::tags(request);
        let [caller, callee] = &self.legs;
        if from == caller.tag {
            // Until the answer, forks of the call have tags of their own.
            return (self.answered.is_none() || to == callee.tag).then_some(Side::Caller);
        }
        let is_callee = callee.tag.is_some() && from == callee.tag && to == caller.tag;
        is_callee.then_some(Side::Callee)
    }

    /// Returns whether requests of `side` may come from this hop: from the host of the last ones, from a hop that asked
    /// to be on the path, or from the end itself.
    pub(crate) fn is_neighbour(&self, side: Side, from: &Hop) -> bool {
        let leg = &self.legs[side.index()];
        let named = leg.routes.iter().chain(&leg.contact);
        let is_at = |uri: &Uri| *uri.host() == Host::IpAddr(from.at.ip());
        let known = &self.hops[side.index()];
        known.is_host_of(from)
            || (from.face == Face::Access
                && known.face == Face::Access
                && named.into_iter().any(is_at))
    }

    /// Notes what a request says about its sender.
    pub(crate) fn on_request(&mut self, side: Side, request: &Request) {
        let leg = &mut self.legs[side.index()];
        leg.cseq = leg.cseq.max(message::cseq(request));
        if let Some(contact) = message::contact(request) {
            leg.give([contact.clone()]);
            leg.contact = Some(contact);
        }
        if let Some(steering) = &self.steering {
            steering.on_dialog();
        }
    }

    /// Notes what a response to the first INVITE says about the callee.
    pub(crate) fn on_response(&mut self, response: &Response, is_own: impl Fn(&Uri) -> bool) {
        let leg = &mut self.legs[Side::Callee.index()];
        let (_, tag) = message::tags(response);
        if tag.is_none() || self.answered.is_some() {
            return;
        }
        leg.tag = tag;
        leg.contact = message::contact(response);
        if let Ok(to) = response.to_header() {
            leg.party = to.value().to_owned();
        }
        let beyond = message::record_routes(response)
            .into_iter()
            .map(|route| route.uri)
            .take_while(|uri| !is_own(uri));
        leg.routes = beyond.collect();
        leg.routes.reverse();
        let named = leg.routes.iter().chain(&leg.contact);
        leg.give(named.cloned().collect::<Vec<_>>());
        if response.status_code.code() >= 200 {
            self.answered = Some(Instant::now());
        }
    }

    /// Notes a new target of an end from its response to a later INVITE.
    pub(crate) fn on_later_response(&mut self, by: Side, response: &Response) {
        if let Some(contact) = message::contact(response) {
            let leg = &mut self.legs[by.index()];
            leg.give([contact.clone()]);
            leg.contact = Some(contact);
        }
    }

    pub(crate) fn is_answered(&self) -> bool {
        self.answered.is_some()
    }

    /// Ends the call, and returns its record. Returns `None` if the call had already ended.
    pub(crate) fn close(&mut self, end: End, report: Option<Report>) -> Option<Record> {
        if self.end.is_some() {
            return None;
        }
        self.end = Some((end, Instant::now()));
        let is_carried = self.is_carried();
        let own = self.steering.as_mut().and_then(Steering::close);
        let mut record = self.record(report.or(own));
        record.is_carried = is_carried;
        Some(record)
    }

    /// Returns what is known of the call.
    pub(crate) fn record(&self, report: Option<Report>) -> Record {
        let (started, began) = self.started;
        let until = self.end.map_or_else(Instant::now, |(_, at)| at);
        Record {
            number: self.number,
            call_id: self.call_id.clone(),
            from: self.from.clone(),
            to: self.to.clone(),
            started,
            answered_after: self.answered.map(|at| at.duration_since(began)),
            lasted: until.duration_since(began),
            end: self.end.map(|(end, _)| end),
            peer: self.hops.iter().find_map(Hop::node),
            is_carried: self.is_carried(),
            report,
        }
    }

    /// Returns a BYE to one end, as if it came from the other one. Returns `None` before there is a dialog.
    pub(crate) fn bye(&mut self, to: Side, reason: &str) -> Option<Request> {
        let [sender, receiver] = match to {
            Side::Caller => [Side::Callee, Side::Caller],
            Side::Callee => [Side::Caller, Side::Callee],
        };
        self.answered?;
        let uri = self.legs[receiver.index()].contact.clone()?;
        let routes = self.legs[receiver.index()].routes.clone();
        let to = self.legs[receiver.index()].party.clone();
        let leg = &mut self.legs[sender.index()];
        leg.cseq += 1;
        let mut headers = vec![
            Header::From(leg.party.as_str().into()),
            Header::To(to.as_str().into()),
            Header::CallId(self.call_id.as_str().into()),
            Header::CSeq(format!("{} BYE", leg.cseq).into()),
            Header::MaxForwards("70".into()),
            Header::Other("Reason".into(), reason.to_owned()),
        ];
        headers.extend(routes.iter().map(message::route_header));
        Some(Request {
            method: rsipstack::sip::Method::Bye,
            uri,
            version: rsipstack::sip::Version::V2,
            headers: headers.into(),
            body: Vec::new(),
        })
    }

    fn is_carried(&self) -> bool {
        self.steering.as_ref().is_some_and(Steering::is_carried)
    }
}

/// Returns whether a request is within a dialog: its To header has a tag.
pub(crate) fn is_in_dialog(request: &Request) -> bool {
    message::tags(request).1.is_some()
}
