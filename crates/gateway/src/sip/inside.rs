//! What the gateway does in the loop of the SIP stack. While the loop waits, no message is handled. So it must wait
//! neither for a peer nor for a name server.

use super::inspect::Gate;
use super::tcp::Streams;
use rsipstack::sip::prelude::HeadersExt;
use rsipstack::sip::{Method, Request, Response, SipMessage};
use rsipstack::transaction::endpoint::{EndpointInner, TransportEventInspector};
use rsipstack::transaction::key::{TransactionKey, TransactionRole};
use rsipstack::transport::transport_layer::DomainResolver;
use rsipstack::transport::{SipAddr, TransportEvent};
use std::sync::{Arc, OnceLock, Weak};

tokio::task_local! {
    /// This exists only in the loop.
    static LOOP: ();
}

/// Runs the loop.
pub(super) async fn serve<T>(stack: impl Future<Output = T>) -> T {
    LOOP.scope((), stack).await
}

/// Returns whether the caller is the loop, which must not wait.
pub(super) fn is_loop() -> bool {
    LOOP.try_with(|()| ()).is_ok()
}

/// Resolves no name for the stack: `routes` finds the hosts of all names.
pub(super) struct NoNames;

#[async_trait::async_trait]
impl DomainResolver for NoNames {
    async fn resolve(&self, target: &SipAddr) -> rsipstack::Result<SipAddr> {
        Err(rsipstack::Error::DnsResolutionError(
            target.addr.to_string(),
        ))
    }
}

/// The gate at the point where the stack takes up messages.
pub(super) struct Inside {
    pub(super) gate: Arc<Gate>,
    pub(super) streams: Arc<Streams>,
    /// The stack, as soon as it exists.
    pub(super) stack: Arc<OnceLock<Weak<EndpointInner>>>,
}

impl Inside {
    /// Returns the ACK of an INVITE that was refused before, if this is the same refusal.
    fn ack(&self, refusal: &Response) -> Option<Request> {
        let is_refusal = refusal.status_code.code() >= 300;
        if !is_refusal || refusal.cseq_header().ok()?.method().ok()? != Method::Invite {
            return None;
        }
        let key = TransactionKey::from_response(refusal, TransactionRole::Client).ok()?;
        let stack = self.stack.get()?.upgrade()?;
        let SipMessage::Request(mut ack) = stack.finished_transactions.get(&key)?? else {
            return None;
        };
        if ack.method != Method::Ack {
            return None;
        }
        if let Ok(Some(tag)) = refusal.to_header().and_then(|to| to.tag()) {
            ack.to_header_mut().and_then(|to| to.mut_tag(tag)).ok()?;
        }
        Some(ack)
    }
}

#[async_trait::async_trait]
impl TransportEventInspector for Inside {
    async fn handle(&self, event: TransportEvent) -> Option<TransportEvent> {
        let TransportEvent::Incoming(message, connection, at) = &event else {
            return Some(event);
        };
        let Ok(from) = at.get_socketaddr() else {
            return Some(event);
        };
        self.gate.taken_up(from.ip());
        if connection.is_reliable() {
            self.streams.taken_up(from);
        }
        // The stack would send the ACK to the host in its URI, for which it would ask a name server.
        if let SipMessage::Response(refusal) = message
            && let Some(ack) = self.ack(refusal)
        {
            // If the ACK is lost, the refusal comes once more.
            let _ = connection.send(ack.into(), Some(at)).await;
            return None;
        }
        Some(event)
    }
}
