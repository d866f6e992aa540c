//! Transactions and connections of the SIP stack, as the proxy uses them.

use super::hop::{Face, Hop};
use super::inspect::Direction;
use super::message;
use super::proxy::{Proxy, Rejection};
use core::hash::BuildHasher;
use core::time::Duration;
use rsipstack::sip::prelude::HeadersExt;
use rsipstack::sip::uri::Tag;
use rsipstack::sip::{Header, Request, Response, SipMessage, StatusCode, Transport};
use rsipstack::transaction::key::{TransactionKey, TransactionRole};
use rsipstack::transaction::transaction::{Transaction, TransactionEvent, TransactionEventSender};
use rsipstack::transport::{SipAddr, SipConnection};
use std::sync::Arc;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The time within which a refusal for lack of room must be sent.
const REFUSE_WITHIN: Duration = Duration::from_secs(2);
/// Number of seconds after which a request that was refused for lack of room may be repeated.
const RETRY_AFTER_S: u32 = 5;

impl Proxy {
    /// Returns the connection to a neighbor.
    pub(crate) async fn connection(&self, hop: &Hop) -> Result<SipConnection, Rejection> {
        if hop.face == Face::Overlay {
            return Ok(self.overlay.clone());
        }
        if let Some(stream) = &hop.stream
            && !stream.cancel_token().is_some_and(|t| t.is_cancelled())
        {
            return Ok(stream.clone());
        }
        if hop.transport == Transport::Udp {
            let is_same_family = |udp: &&SipConnection| {
                let own = udp.get_addr().get_socketaddr();
                own.is_ok_and(|own| own.is_ipv4() == hop.at.is_ipv4())
            };
            let found = self.udp.iter().find(is_same_family);
            return found.cloned().ok_or_else(|| {
                Rejection::new(503, "the gateway does not listen for this kind of address")
            });
        }
        if hop.transport != Transport::Tcp {
            return Err(Rejection::new(503, "the gateway has only UDP and TCP"));
        }
        let is_server = self.routes.is_server(hop.at.ip());
        let connected = self.streams.connect(&self.endpoint, hop.at, is_server);
        connected.await.map_err(|error| Rejection::new(503, error))
    }

    /// Sends a request in a transaction of its own. Returns its responses, until the transaction is over.
    pub(crate) async fn send(
        &self,
        mut request: Request,
        hop: &Hop,
    ) -> Result<(Request, UnboundedReceiver<Response>), Rejection> {
        message::push_via(&mut request, hop.transport, &self.names().toward(hop));
        let transaction = self.transaction(request.clone(), hop).await?;
        Ok((request, responses(transaction)))
    }

    /// Sends a request that already has its Via, in a transaction of its own.
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
        self.send_once(ack, hop).await
    }

    /// Sends a request that already has its Via, once.
    pub(crate) async fn send_once(&self, request: Request, hop: &Hop) -> Result<(), Rejection> {
        let connection = self.connection(hop).await?;
        let to = address(hop);
        let sent = self.tell(&connection, request.into(), Some(&to)).await;
        sent.map_err(|error| Rejection::new(503, error))
    }

    /// Answers with a status code of this gateway, and keeps no state. A retransmission of the request gets the same
    /// answer (RFC 3261 §8.2.7).
    pub(crate) async fn reject(&self, transaction: Transaction, rejection: &Rejection) {
        let response = self.refusal(&transaction.original, rejection);
        self.answer(&transaction, response).await;
    }

    /// Refuses a request for which there is no place. Only the answer is kept until it is sent.
    pub(crate) fn turn_away(self: &Arc<Self>, transaction: Transaction, why: &str) {
        self.counters.overload.add();
        let response = self.refusal(&transaction.original, &Rejection::new(503, why));
        let Some(connection) = transaction.connection.clone() else {
            return;
        };
        // A connection by TCP hands over one request at a time, and takes the answer at once.
        let place = match connection.is_reliable() {
            true => None,
            // Without a place, the request counts as lost: it comes again.
            false => match self.refusals.take() {
                Some(place) => Some(place),
                None => return,
            },
        };
        let (proxy, to) = (self.clone(), transaction.destination.clone());
        drop(transaction);
        tokio::spawn(async move {
            let told = proxy.tell(&connection, response.into(), to.as_ref());
            let _ = tokio::time::timeout(REFUSE_WITHIN, told).await;
            drop(place);
        });
    }

    /// Sends an answer without the transaction, so that the transaction neither repeats it nor keeps it.
    pub(crate) async fn answer(&self, transaction: &Transaction, response: Response) {
        if let Some(connection) = &transaction.connection {
            let to = transaction.destination.as_ref();
            // A failure counts as a lost answer: the request comes again.
            let _ = self.tell(connection, response.into(), to).await;
        }
    }

    /// Returns an answer of this gateway; the same request always gets the same answer.
    pub(crate) fn refusal(&self, request: &Request, rejection: &Rejection) -> Response {
        let status = StatusCode::from(rejection.status);
        let mut response = self.endpoint.make_response(request, status, None);
        self.tag(request, &mut response);
        match rejection.status {
            420 => {
                let unknown = rejection.why.as_str().into();
                response.headers.push(Header::Unsupported(unknown));
            }
            503 => {
                let wait_s = RETRY_AFTER_S.to_string();
                response.headers.push(Header::RetryAfter(wait_s.into()));
            }
            _ => {}
        }
        if rejection.status >= 400 {
            let text = rejection.why.replace(['"', '\\', '\r', '\n'], "'");
            let value = format!("SIP;cause={};text=\"{text}\"", rejection.status);
            response.headers.push(Header::Other("Reason".into(), value));
        }
        response
    }

    /// Gives a final answer the tag of To that it lacks: one that is always the same for the same request. Answers that
    /// the stack makes for a silent callee have none, and neither have those of some callees. The stack does not end an
    /// INVITE with such an answer: it would repeat the answer for each ACK, and each repetition would cause an ACK.
    pub(crate) fn tag(&self, request: &Request, response: &mut Response) {
        if message::tags(response).1.is_some() {
            return;
        }
        let Ok(to) = request.to_header() else { return };
        let tagged = match to.tag() {
            Ok(Some(_)) => to.clone(),
            _ => to.clone().with_tag(Tag::new(self.own_tag(request))),
        };
        response.headers.unique_push(tagged.into());
    }

    fn own_tag(&self, request: &Request) -> String {
        let (from, _) = message::tags(request);
        let via = request.via_header().map_or("", |via| via.value());
        let known = (from, message::call_id(request), message::cseq(request), via);
        format!("{:016x}", self.tags.hash_one(known))
    }

    /// Sends a message that belongs to no transaction of the stack.
    async fn tell(
        &self,
        connection: &SipConnection,
        message: SipMessage,
        to: Option<&SipAddr>,
    ) -> rsipstack::Result<()> {
        if let Some(trace) = &self.trace {
            trace.show(Direction::Out, to, &message);
        }
        connection.send(message, to).await
    }
}

/// Returns a hop in the form that the SIP stack uses.
pub(crate) fn address(hop: &Hop) -> SipAddr {
    SipAddr {
        r#type: Some(hop.transport),
        addr: hop.at.into(),
    }
}

/// Receives the responses of a client transaction in a task of its own, until the transaction is over or the receiver
/// is dropped.
pub(crate) fn responses(transaction: Transaction) -> UnboundedReceiver<Response> {
    let (sender, receiver) = unbounded_channel();
    let waits = sender.clone();
    receive(transaction, sender, async move { waits.closed().await });
    receiver
}

/// Receives the responses to an INVITE. The transaction must end in order even if the receiver is dropped, unless its
/// place is wanted, or it has not ended at `over`: the stack does not end one whose callee has sent only 100.
pub(crate) fn responses_to_invite(
    transaction: Transaction,
    left: CancellationToken,
    over: Instant,
) -> UnboundedReceiver<Response> {
    let (sender, receiver) = unbounded_channel();
    receive(transaction, sender, async move {
        tokio::select! {
            () = left.cancelled() => {}
            () = tokio::time::sleep_until(over) => {}
        }
    });
    receiver
}

fn receive(
    mut transaction: Transaction,
    sender: UnboundedSender<Response>,
    ends: impl Future<Output = ()> + Send + 'static,
) {
    tokio::spawn(async move {
        tokio::pin!(ends);
        loop {
            tokio::select! {
                message = transaction.receive() => match message {
                    Some(SipMessage::Response(response)) => drop(sender.send(response)),
                    Some(SipMessage::Request(_)) => {}
                    None => break,
                },
                () = &mut ends => {
                    // No late response may be acknowledged for this transaction any more: the stack would keep an ACK
                    // for this purpose.
                    let (endpoint, key) = (transaction.endpoint_inner.clone(), transaction.key.clone());
                    drop(transaction);
                    endpoint.finished_transactions.remove(&key);
                    break;
                }
            }
        }
    });
}

/// Lets a server transaction send a response.
pub(crate) fn respond(responder: &TransactionEventSender, response: Response) {
    // A transaction that is over has answered already.
    let _ = responder.send(TransactionEvent::Respond(response));
}
