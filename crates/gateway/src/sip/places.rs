//! Memory for the transactions of those who ask, so that none of them has all of it.
//!
//! ```text
//!   request ── waits for its next hop ──▶ answered, kept for repetitions ── LINGER ──▶ gone
//!                 │ another host has less         │ anybody asks for more
//!                 ▼                               ▼
//!               gone, as if it were lost        gone: a repetition is passed on once more
//!   INVITE ── a call ──▶ over, kept for repetitions ── LINGER ──▶ gone
//! ```
//! Hosts share as [`Slots`] has it. Requests count by the bytes that they cost, INVITEs by themselves: the
//! calls are bounded elsewhere. A stranger, a host that has not shown that it hears answers, may be invented, and one INVITE
//! of it goes for that of another one even while it rings. Whoever hears answers and is not named by the operator has a small
//! fixed share. What is refused here is answered and forgotten, and has a place for as
//! long as that takes.

use super::hop::{Face, Hop};
use crate::slots::{Slot, Slots};
use core::time::Duration;
use net::places::Origin;
use rsipstack::sip::{Header, Headers};
use rsipstack::transaction::endpoint::EndpointInnerRef;
use rsipstack::transaction::key::TransactionKey;
use rsipstack::transaction::transaction::Transaction;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// What requests that are no INVITE may cost: some 180 that wait for their next hop at the same time, of
/// which one host may have a half.
const REQUESTS_MAX: usize = 8 << 20;
/// What a request costs beside its text while it waits: two transactions, whose queues have room for 32 events,
/// and their tasks, keys and timers. The test `sip_memory` has measured 43 kB.
const HELD: usize = 44 << 10;
/// INVITEs: a call has its place until it is answered, and for [`LINGER`] after that. 64 calls a second
/// of one host that the operator has named, which may have a half.
const INVITES_MAX: usize = 4_096;
/// INVITEs of one host that the operator has not named: a phone, or whoever else is in its network. Choice: 12 MB, as
/// each has cost 125 kB in the test `sip_memory`. That is more calls than a phone begins, and a PBX is named.
const UNNAMED_MAX: usize = 96;
/// INVITEs of strangers. Choice: 8 MB, for each has cost 125 kB in the test `sip_memory`. A host is none once it has
/// acknowledged an answer, also a refusal for want of a place.
const STRANGERS_MAX: usize = 64;
/// A call of a stranger that has to go has so long to tell both ends; so many at a time, and the others none.
const LEAVE: Duration = Duration::from_millis(500);
/// Of INVITEs whose answer was forgotten early the stack keeps some hundred bytes until then; as many of strangers'.
const TRACES_MAX: usize = 4_096;
/// For as long as a request may be repeated: 64 T1 (RFC 3261 §17.2.2).
pub(crate) const LINGER: Duration = Duration::from_secs(32);

/// What is known of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It may be invented.
    Stranger,
    /// It hears what it is told.
    Proven,
    /// The operator has named it, or it is a node.
    Named,
}

/// Who shares: a host, and the node with the same address is another one.
pub(crate) type Asker = (Face, Origin);

/// Who a neighbour is.
pub(crate) fn asker(hop: &Hop) -> Asker {
    (hop.face, Origin::of(hop.at.ip()))
}

/// The places.
#[derive(Debug)]
pub(crate) struct Places {
    requests: Slots<Asker>,
    invites: Slots<Asker>,
    strangers: Slots<Asker>,
    leaving: Slots,
    /// Of strangers, and of the others.
    stranger_traces: Slots,
    traces: Slots,
}

/// A place for a request that is no INVITE. It may have to go for another one.
#[derive(Debug)]
pub(crate) struct Place {
    slot: Slot<Asker>,
    gone: CancellationToken,
}

/// A place for one INVITE.
#[derive(Debug)]
pub(crate) struct InvitePlace {
    slot: Slot<Asker>,
    leaving: Slots,
    /// A stranger's, from the beginning.
    trace: Option<Slot>,
    traces: Slots,
    gone: CancellationToken,
    left: CancellationToken,
}

impl Places {
    pub(crate) fn new() -> Places {
        Places {
            requests: Slots::new(REQUESTS_MAX),
            invites: Slots::new(INVITES_MAX),
            strangers: Slots::new(STRANGERS_MAX),
            leaving: Slots::new(STRANGERS_MAX / 4),
            stranger_traces: Slots::new(TRACES_MAX),
            traces: Slots::new(TRACES_MAX),
        }
    }

    /// For a request that is no INVITE.
    pub(crate) fn take(&self, of: Asker, asked: &Transaction) -> Option<Place> {
        let key = asked.key.to_string().len();
        // As it came and as it was passed on; keys are in maps and timers.
        let text = cost(&asked.original.headers, &asked.original.body);
        let size = HELD + 2 * text + 6 * key;
        let slot = self.requests.take_sized(of, size)?;
        let gone = CancellationToken::new();
        let goes = gone.clone();
        slot.may_end(move || goes.cancel());
        Some(Place { slot, gone })
    }

    /// For an INVITE.
    pub(crate) fn take_invite(&self, of: Asker, standing: Standing) -> Option<InvitePlace> {
        let gone = CancellationToken::new();
        let (slot, trace) = match standing {
            Standing::Named => (self.invites.take_for(of)?, None),
            Standing::Proven => (self.invites.take_of_at_most(of, UNNAMED_MAX)?, None),
            Standing::Stranger => {
                let trace = self.stranger_traces.take()?;
                let slot = self.strangers.take_for(of)?;
                let goes = gone.clone();
                slot.may_end(move || goes.cancel());
                (slot, Some(trace))
            }
        };
        Some(InvitePlace {
            slot,
            leaving: self.leaving.clone(),
            trace,
            traces: self.traces.clone(),
            gone,
            left: CancellationToken::new(),
        })
    }
}

impl Place {
    /// It has to go.
    pub(crate) async fn gone(&self) {
        self.gone.cancelled().await;
    }

    /// The answer is there, and kept for repetitions: its own host may have the place for more.
    pub(crate) fn is_spare(&self) {
        self.slot.is_spare();
    }
}

impl InvitePlace {
    /// Cancelled when its call has to give way, and when it has told both ends.
    pub(crate) fn ends(&self) -> [CancellationToken; 2] {
        [self.gone.clone(), self.left.clone()]
    }

    /// It has to go, and has told both ends.
    pub(crate) async fn left(&self) {
        self.gone.cancelled().await;
        if let Some(_leaving) = self.leaving.take() {
            tokio::time::sleep(LEAVE).await;
        }
        self.left.cancel();
    }

    /// For as long as the stack keeps the last answer, or until another host needs the place.
    pub(crate) async fn linger(self, endpoint: EndpointInnerRef, key: TransactionKey) {
        let over = Instant::now() + LINGER;
        // The stack's timer stays where it is.
        let Some(trace) = self.trace.or_else(|| self.traces.take()) else {
            return tokio::time::sleep_until(over).await;
        };
        let goes = self.gone.clone();
        self.slot.may_end(move || goes.cancel());
        self.slot.is_spare();
        tokio::select! {
            () = tokio::time::sleep_until(over) => return,
            () = self.gone.cancelled() => {}
        }
        endpoint.finished_transactions.remove(&key);
        endpoint.waiting_ack.retain(|_, of| *of != key);
        // A task of its own, since this one has the size of the transaction that it has received.
        tokio::spawn(async move {
            tokio::time::sleep_until(over).await;
            drop(trace);
        });
    }
}

/// What a message takes in memory: its text, and for each header what it is kept in.
pub(super) fn cost(headers: &Headers, body: &[u8]) -> usize {
    /// A header in the list of them, which has room for half as many more, and its strings.
    const HEADER: usize = 3 * size_of::<Header>() / 2 + 64;
    let headers = headers.iter();
    let text: usize = headers.map(|header| HEADER + header.value().len()).sum();
    text + body.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_and_the_node_with_its_address_have_a_share_each() {
        let places = Places::new();
        let at = core::net::SocketAddr::from(([10, 7, 0, 1], 5060));
        let host = Hop::access(at, rsipstack::sip::Transport::Udp);
        let node = Hop::overlay(base::NodeAddr(0x0a07_0001));
        assert_eq!(host.at.ip(), node.at.ip());
        let all = |of: &Hop, standing| -> Vec<InvitePlace> {
            core::iter::from_fn(|| places.take_invite(asker(of), standing)).collect()
        };
        let held = all(&host, Standing::Named);
        assert_eq!(held.len(), INVITES_MAX / 2);
        assert_eq!(all(&node, Standing::Named).len(), INVITES_MAX / 4);
        let phone = Hop::access(([10, 7, 0, 2], 5060).into(), host.transport);
        assert_eq!(all(&phone, Standing::Proven).len(), UNNAMED_MAX);
    }
}
