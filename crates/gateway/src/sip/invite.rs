//! An INVITE on its path: the hops that are tried, the answers of the callee, and the ACK.
//!
//! ```text
//!   caller ── server transaction ──> CANCEL, ACK ──┐
//!                                                  Driver ── client transaction ──> callee
//!   caller <── responses, Via taken off ───────────┘   │
//!                                                      └─> the next hop, when this one is silent,
//!                                                          fails, or takes no announcements
//! ```
//! A gateway that is reached through the overlay answers at once with 100. If one is silent for [`SILENCE`], the next
//! hop is tried: another node that serves the domain, and finally a direct session, as it would have been without the
//! overlay. [Amir06 §VI]
//!
//! If nobody has answered after [`ANSWER_WITHIN`], the call is cancelled, and the transactions of both sides end
//! [`LINGER`] later. If the INVITE was for a call that exists already, the call goes on as before.

mod prepare;

use super::Event;
use super::call::{Call, End};
use super::hop::{Face, Hop};
use super::message;
use super::places::{self, InvitePlace, LINGER};
use super::proxy::{Proxy, Rejection, locked};
use super::steering::{Reach, Steering};
use super::transactions::{respond, responses, responses_to_invite};
use core::time::Duration;
use prepare::prepare;
use rsipstack::sip::{Header, Method, Request, Response, SipMessage};
use rsipstack::transaction::endpoint::EndpointInnerRef;
use rsipstack::transaction::transaction::{Transaction, TransactionEventSender};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use voice::media::{ANSWER_TIMEOUT, Expired};
use voice::sdp::{OPTION_TAG, Side};

/// How long a hop may be completely silent if there is another one: three transmissions of the INVITE, at 0, 0.5 and
/// 1.5 s.
const SILENCE: Duration = Duration::from_secs(2);

/// The time within which a callee has to answer. Choice: provisional answers do not prolong this, so that a callee that
/// only rings takes a place for a limited time.
pub const ANSWER_WITHIN: Duration = Duration::from_nanos(ANSWER_TIMEOUT.as_nanos());

/// Handles an INVITE.
pub(crate) async fn take(
    proxy: Arc<Proxy>,
    mut transaction: Transaction,
    from: Hop,
    place: InvitePlace,
) {
    let prepared = prepare(&proxy, &transaction.original, &from).await;
    let prepared = match prepared {
        Ok(prepared) => prepared,
        Err(rejection) => {
            proxy.counters.rejected.add();
            proxy.reject(transaction, &rejection).await;
            return;
        }
    };
    let _ = transaction.send_trying().await;
    let invite = transaction.original.clone();
    let responder = transaction.tu_sender.clone();
    let [gone, left] = place.ends();
    let until = Instant::now() + proxy.answer_within;
    let over = until + LINGER;
    let caller = requests(transaction, place, proxy.endpoint.clone(), over);
    let driver = Driver {
        proxy,
        invite,
        responder,
        call: prepared.call,
        side: prepared.side,
        is_first: prepared.is_first,
        request: prepared.request,
        hops: prepared.hops,
        hop: None,
        sent: None,
        heard: false,
        is_cancelled: false,
        cancel_sent: false,
        gave_up: None,
        is_final: false,
        ack: None,
        is_plain: false,
        gone,
        left,
        until,
        over,
    };
    driver.run(caller).await;
}

/// Receives the requests of the caller after the INVITE, in a task of its own, at the latest until `over`.
fn requests(
    mut transaction: Transaction,
    place: InvitePlace,
    endpoint: EndpointInnerRef,
    over: Instant,
) -> UnboundedReceiver<Request> {
    let (sender, receiver) = unbounded_channel();
    tokio::spawn(async move {
        {
            let left = place.left();
            tokio::pin!(left);
            loop {
                let message = tokio::select! {
                    message = transaction.receive() => message,
                    () = &mut left => None,
                    () = tokio::time::sleep_until(over) => None,
                };
                match message {
                    Some(SipMessage::Request(request)) => drop(sender.send(request)),
                    Some(SipMessage::Response(_)) => {}
                    None => break,
                }
            }
        }
        drop(sender);
        let key = transaction.key.clone();
        drop(transaction);
        place.linger(endpoint, key).await;
    });
    receiver
}

struct Driver {
    proxy: Arc<Proxy>,
    /// The INVITE as it was received.
    invite: Request,
    responder: TransactionEventSender,
    call: Option<Arc<Mutex<Call>>>,
    side: Side,
    /// Whether the INVITE begins the call.
    is_first: bool,
    request: Request,
    hops: VecDeque<Hop>,
    /// The hop to which it was sent.
    hop: Option<Hop>,
    /// The request as it was sent.
    sent: Option<Request>,
    /// Whether the hop has sent any response.
    heard: bool,
    is_cancelled: bool,
    cancel_sent: bool,
    /// Why the gateway has ended the call before the callee has answered.
    gave_up: Option<Rejection>,
    is_final: bool,
    /// The caller's ACK of the 2xx, for retransmissions of the 2xx.
    ack: Option<(Request, Hop)>,
    /// Whether the INVITE is sent without announcements, because a hop does not accept them.
    is_plain: bool,
    /// Other calls have more right to the memory of this one: `gone` means that it must give way, and `left` that the
    /// time for this is over.
    gone: CancellationToken,
    left: CancellationToken,
    /// When the callee must have answered, and when the transactions end.
    until: Instant,
    over: Instant,
}

impl Driver {
    async fn run(mut self, mut caller: UnboundedReceiver<Request>) {
        let mut callee = match self.try_next_while_wanted().await {
            Some(Ok(callee)) => callee,
            Some(Err(rejection)) => return self.fail(&rejection),
            None => return self.give_way().await,
        };
        let gives_way = self
            .call
            .as_ref()
            .map(|call| locked(call).gives_way.clone());
        let gives_way = gives_way.unwrap_or_default();
        let mut silence = Instant::now() + SILENCE;
        let (mut caller_is_there, mut callee_is_there) = (true, true);
        while caller_is_there || callee_is_there {
            tokio::select! {
                // This is first, because both ends are gone soon afterwards, and then nothing would end the call.
                biased;
                () = self.gone.cancelled(), if !self.is_final => self.give_way().await,
                () = self.left.cancelled() => return,
                request = caller.recv(), if caller_is_there => match request {
                    Some(request) => self.on_request(request).await,
                    None => caller_is_there = false,
                },
                response = callee.recv(), if callee_is_there => match response {
                    Some(response) => {
                        if let Some(next) = self.on_response(response).await {
                            callee = next;
                            silence = Instant::now() + SILENCE;
                        }
                    }
                    None => callee_is_there = false,
                },
                () = gives_way.cancelled(), if !self.is_final => self.give_way().await,
                () = tokio::time::sleep_until(self.until), if !self.is_final => {
                    // A caller that gets 408 within a call ends the call. [RFC 3261 §14.1]
                    let status = if self.is_first { 408 } else { 504 };
                    let why = Rejection::new(status, "nobody has answered");
                    self.give_up(why, End::Expired(Expired::NoAnswer)).await;
                }
                () = tokio::time::sleep_until(silence), if self.may_leave() => {
                    if let Some(Ok(next)) = self.try_next_while_wanted().await {
                        callee = next;
                    }
                    silence = Instant::now() + SILENCE;
                }
            }
        }
    }

    /// Ends the ringing call, because other calls have more right to its place.
    async fn give_way(&mut self) {
        self.proxy.counters.overload.add();
        let why = Rejection::new(503, "too many unanswered calls of this host");
        let end = End::Refused(why.status);
        self.give_up(why, end).await;
    }

    /// Ends the ringing call at both ends.
    async fn give_up(&mut self, why: Rejection, end: End) {
        self.is_cancelled = true;
        self.hops.clear();
        self.cancel().await;
        self.is_final = true;
        if self.is_first
            && let Some(call) = &self.call
        {
            self.proxy.end(call, end, None);
        }
        let answer = self.proxy.refusal(&self.invite, &why);
        respond(&self.responder, answer);
        self.gave_up = Some(why);
    }

    /// Acknowledges the answer of a callee to an INVITE that the gateway has given up. If the call began with it, the
    /// callee gets a BYE with the reason.
    async fn take_back(&mut self, response: &Response, why: &str) {
        let (Some(call), Some(hop)) = (self.call.clone(), self.hop.clone()) else {
            return;
        };
        let names = self.proxy.names();
        let bye = {
            let mut call = locked(&call);
            call.on_response(response, |uri| names.is_own(uri));
            call.bye(Side::Callee, why)
        };
        let (Some(bye), Some(sent)) = (bye, &self.sent) else {
            return;
        };
        let mut ack = bye.clone();
        ack.method = Method::Ack;
        let number = format!("{} ACK", message::cseq(sent));
        ack.headers.unique_push(Header::CSeq(number.into()));
        let known = self.proxy.hop_within(&bye, &call, Side::Caller).await;
        let hop = known.unwrap_or(hop);
        if self.proxy.send_ack(ack.clone(), &hop).await.is_ok() {
            self.ack = Some((ack, hop.clone()));
        }
        if self.is_first
            && let Ok((_, mut answers)) = self.proxy.send(bye, &hop).await
        {
            tokio::spawn(async move { while answers.recv().await.is_some() {} });
        }
    }

    /// Returns whether another hop may be tried instead of a silent one.
    fn may_leave(&self) -> bool {
        !self.heard && !self.is_cancelled && !self.hops.is_empty()
    }

    /// Calls [`Driver::try_next`], but stops when the place is wanted: connecting to a hop may take seconds.
    async fn try_next_while_wanted(
        &mut self,
    ) -> Option<Result<UnboundedReceiver<Response>, Rejection>> {
        let left = self.left.clone();
        tokio::select! {
            next = self.try_next() => Some(next),
            () = left.cancelled() => None,
        }
    }

    /// Sends the INVITE to the next hop that can be reached.
    async fn try_next(&mut self) -> Result<UnboundedReceiver<Response>, Rejection> {
        let mut last = Rejection::new(480, "no next hop can be reached");
        while let Some(hop) = self.hops.pop_front() {
            match self.send_to(hop).await {
                Ok(callee) => return Ok(callee),
                // No other hop would accept this either.
                Err(rejection) if rejection.status != 503 => return Err(rejection),
                Err(rejection) => last = rejection,
            }
        }
        Err(last)
    }

    async fn send_to(&mut self, hop: Hop) -> Result<UnboundedReceiver<Response>, Rejection> {
        let mut request = self.request.clone();
        if let Some(call) = &self.call {
            if self.is_first {
                self.open_media(call, &hop)?;
            }
            if !self.is_plain {
                self.proxy.steer_request(call, self.side, &mut request)?;
            }
            self.record_route(call, &hop, &mut request);
        }
        let proxy = self.proxy.clone();
        message::push_via(&mut request, hop.transport, &proxy.names().toward(&hop));
        let transaction = proxy.transaction(request.clone(), &hop).await;
        self.sent = Some(request);
        self.hop = Some(hop);
        self.heard = false;
        let left = self.left.clone();
        Ok(responses_to_invite(transaction?, left, self.over))
    }

    /// Opens the call's media for this hop, and opens it again if another hop was tried before.
    fn open_media(&self, call: &Mutex<Call>, hop: &Hop) -> Result<(), Rejection> {
        let proxy = &self.proxy;
        let reach = |own: &Hop, other: &Hop| match (own.face, other.face) {
            (Face::Overlay, _) => Reach::Beyond,
            // A proxy of the Internet may be aware of the overlay: the announcement shows whether it is.
            (Face::Access, Face::Access) if own.is_abroad => Reach::Beyond,
            (Face::Access, _) => Reach::Local(proxy.names().own_ip(own.at.ip())),
        };
        let mut known = locked(call);
        let (number, old) = (known.number, known.steering.take());
        known.hops[Side::Callee.index()] = hop.clone();
        let from = known.hops[Side::Caller.index()].clone();
        let ends = [from.node(), hop.node()];
        if ends
            .into_iter()
            .flatten()
            .any(|node| proxy.plane.is_refused(node))
        {
            proxy.counters.overload.add();
            return Err(Rejection::new(
                503,
                "the way there has no room for one more call",
            ));
        }
        let mut new = None;
        if !self.is_plain {
            let reach = [reach(&from, hop), reach(hop, &from)];
            let ports = (proxy.ports.clone(), places::asker(&from));
            new = Steering::open(&proxy.plane, proxy.own.clone(), reach, ports)
                .map_err(|refused| Rejection::new(refused.status(), refused))?;
        }
        let id = new.as_ref().map(Steering::id);
        known.steering = new;
        drop(known);
        let mut table = locked(&proxy.calls);
        if let Some(mut old) = old {
            table.by_media.remove(&old.id());
            old.close();
        }
        table.by_media.extend(id.map(|id| (id, number)));
        Ok(())
    }

    /// Adds Record-Routes, to stay on the path: for the face toward the caller, and above it for the face toward the
    /// callee.
    fn record_route(&self, call: &Mutex<Call>, hop: &Hop, request: &mut Request) {
        let call = locked(call);
        let names = self.proxy.names();
        let back = &call.hops[self.side.index()];
        let own = names.toward(back);
        message::push_record_route(request, &own, back.transport, call.number);
        let forth = names.toward(hop);
        if forth != own || hop.transport != back.transport {
            message::push_record_route(request, &forth, hop.transport, call.number);
        }
    }

    async fn on_request(&mut self, request: Request) {
        match request.method {
            Method::Cancel if !self.is_final => {
                self.is_cancelled = true;
                self.hops.clear();
                self.cancel().await;
            }
            // The ACK of a refusal ends here. The ACK of an answer goes to the callee that answered.
            Method::Ack if self.is_final => self.on_ack(request).await,
            _ => {}
        }
    }

    async fn on_ack(&mut self, mut ack: Request) {
        let Some(call) = self.call.clone() else {
            return;
        };
        if self.proxy.unwrap(&mut ack).await.is_err() {
            return;
        }
        // A late answer that cannot be steered passes unchanged.
        let _ = self.proxy.steer_request(&call, self.side, &mut ack);
        let Ok(hop) = self.proxy.hop_within(&ack, &call, self.side).await else {
            return;
        };
        if self.proxy.send_ack(ack.clone(), &hop).await.is_ok() {
            self.ack = Some((ack, hop));
        }
    }

    /// Cancels the INVITE at the callee, as soon as the callee has sent any response (RFC 3261 §9.1).
    async fn cancel(&mut self) {
        if !self.heard || self.cancel_sent {
            return;
        }
        let (Some(sent), Some(hop)) = (&self.sent, &self.hop) else {
            return;
        };
        self.cancel_sent = true;
        let mut via = true;
        let mut cancel = sent.clone();
        cancel.method = Method::Cancel;
        cancel.body = Vec::new();
        cancel.headers.retain(|header| match header {
            Header::Via(_) => core::mem::take(&mut via),
            header => matches!(
                header,
                Header::From(_)
                    | Header::To(_)
                    | Header::CallId(_)
                    | Header::MaxForwards(_)
                    | Header::Route(_)
            ),
        });
        let cseq = format!("{} CANCEL", message::cseq(sent));
        cancel.headers.push(Header::CSeq(cseq.into()));
        if self.gone.is_cancelled() {
            // For CANCELs without an answer, the stack would keep each transaction for half a minute.
            let _ = self.proxy.send_once(cancel, hop).await;
        } else if let Ok(transaction) = self.proxy.transaction(cancel, hop).await {
            let mut answers = responses(transaction);
            tokio::spawn(async move { while answers.recv().await.is_some() {} });
        }
    }

    /// Passes a response on, or tries another hop instead.
    async fn on_response(&mut self, mut response: Response) -> Option<UnboundedReceiver<Response>> {
        self.heard = true;
        let status = response.status_code.code();
        if self.is_cancelled {
            self.cancel().await;
        }
        if status == 100 {
            return None;
        }
        if self.is_final {
            // The answer is a retransmission, because the ACK was lost.
            if let Some((ack, hop)) = &self.ack {
                let _ = self.proxy.send_ack(ack.clone(), hop).await;
            } else if let Some(why) = &self.gave_up
                && (200..300).contains(&status)
            {
                let why = format!("SIP;cause={};text=\"{}\"", why.status, why.why);
                self.take_back(&response, &why).await;
            }
            return None;
        }
        if status >= 300
            && let Some(next) = self.instead(&response).await
        {
            return Some(next);
        }
        message::pop_via(&mut response);
        self.is_final = status >= 200;
        if self.is_final {
            self.tag(&mut response);
        }
        if let Some(call) = self.call.clone() {
            self.note(&call, &mut response);
        }
        respond(&self.responder, response);
        None
    }

    /// Gives a final answer the tag that it lacks. A 2xx without one begins no dialog in which the call could go on, so
    /// the caller gets a refusal instead. The callee gets no ACK, and ends the call.
    fn tag(&self, response: &mut Response) {
        let is_answer = (200..300).contains(&response.status_code.code());
        if is_answer && message::tags(response).1.is_none() {
            let why = Rejection::new(502, "the callee has answered without a tag");
            *response = self.proxy.refusal(&self.invite, &why);
        }
        self.proxy.tag(&self.invite, response);
    }

    /// Makes another attempt after a refusal that comes from the hop and not from the callee.
    async fn instead(&mut self, response: &Response) -> Option<UnboundedReceiver<Response>> {
        let status = response.status_code.code();
        if self.is_cancelled || !self.is_first {
            return None;
        }
        let asks_for_less = status == 420
            && response.headers.iter().any(|header| match header {
                Header::Unsupported(tags) => tags.value().contains(OPTION_TAG),
                _ => false,
            });
        if asks_for_less && !self.is_plain {
            // The hop refuses announcements: the session becomes a legacy session. [Amir06 §VI]
            self.is_plain = true;
            let hop = self.hop.clone()?;
            return self.send_to(hop).await.ok();
        }
        let failed = matches!(status, 408 | 500 | 502 | 503 | 504);
        match failed && !self.hops.is_empty() {
            true => self.try_next().await.ok(),
            false => None,
        }
    }

    /// Records the effects of a response on the call.
    fn note(&self, call: &Arc<Mutex<Call>>, response: &mut Response) {
        let status = response.status_code.code();
        if self.is_first {
            let names = self.proxy.names();
            locked(call).on_response(response, |uri| names.is_own(uri));
        }
        if self.is_plain {
            // The media of this call goes directly.
        } else {
            self.proxy.steer_response(call, self.side, response);
        }
        if status >= 300 && self.is_first {
            let end = match self.is_cancelled {
                true => End::Cancelled,
                false => End::Refused(status),
            };
            self.proxy.end(call, end, None);
        } else if (200..300).contains(&status) && self.is_first {
            self.proxy.counters.answered.add();
            Proxy::rings_no_longer(call);
            let record = locked(call).record(None);
            (self.proxy.report)(Event::Answered(Box::new(record)));
        }
    }

    /// Ends the call, because no hop could be reached.
    fn fail(self, rejection: &Rejection) {
        if self.is_first
            && let Some(call) = &self.call
        {
            self.proxy.end(call, End::Refused(rejection.status), None);
        }
        self.proxy.counters.rejected.add();
        let answer = self.proxy.refusal(&self.invite, rejection);
        respond(&self.responder, answer);
    }
}
