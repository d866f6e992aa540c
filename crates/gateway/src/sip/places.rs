//! Memory for the transactions of hosts and nodes, and media ports, shared so that none of them can take all.
//!
//! ```text
//!   request ── waits for its next hop ──▶ answered, kept for repetitions ── LINGER ──▶ gone
//!                 │ another host has less         │ anybody asks for more
//!                 ▼                               ▼
//!               gone, as if it were lost        gone: a repetition is passed on once more
//!   INVITE ── a call ──▶ over, kept for repetitions ── LINGER ──▶ gone
//! ```
//! [`Slots`] has the rules by which hosts share. A request counts by the bytes that it costs, an INVITE as one: the
//! calls are limited elsewhere. A *stranger* is a host that has not shown that it receives answers, so its address may
//! be invented. An INVITE of a stranger may have to go for one of another stranger, even while it rings. A host that
//! receives answers, and that the operator has not named, has a small fixed share. A request that is refused after it
//! got a place keeps the place until the refusal is done.

use super::hop::{Face, Hop};
use crate::slots::{Slot, Slots};
use core::ops::RangeInclusive;
use core::time::Duration;
use net::places::Origin;
use rsipstack::sip::{Header, Headers};
use rsipstack::transaction::endpoint::EndpointInnerRef;
use rsipstack::transaction::key::TransactionKey;
use rsipstack::transaction::transaction::Transaction;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Bytes that requests other than INVITE may cost: this is enough for some 180 that wait for their next hop at the same
/// time. One host may have half of them.
const REQUESTS_MAX: usize = 8 << 20;
/// Bytes that a request costs besides its text while it waits: two transactions, whose queues have room for 32 events,
/// and their tasks, keys and timers. The test `sip_memory` has measured 43 kB.
const HELD: usize = 44 << 10;
/// Number of INVITEs. A call has its place until it is answered, and for [`LINGER`] after that. One host that the
/// operator has named may have half of the places, which is enough for 64 calls a second.
const INVITES_MAX: usize = 4_096;
/// Number of INVITEs of one host that the operator has not named, such as a phone. Choice: this takes 12 MB, because
/// each has cost 125 kB in the test `sip_memory`. A phone begins fewer calls, and a PBX is named.
const UNNAMED_MAX: usize = 96;
/// Number of INVITEs of strangers. Choice: this takes 8 MB, because each has cost 125 kB in the test `sip_memory`. A
/// host is not a stranger any more once it has acknowledged an answer, also a refusal because of a missing place.
const STRANGERS_MAX: usize = 64;
/// The time that a call of a stranger has to notify both ends when it must go. Only a quarter of [`STRANGERS_MAX`]
/// calls have it at the same time. Further calls end at once.
const LEAVE: Duration = Duration::from_millis(500);
/// INVITEs whose answer was forgotten early. The stack keeps some hundred bytes for each until [`LINGER`] ends.
/// Strangers have as many of their own.
const TRACES_MAX: usize = 4_096;
/// The time during which a request may be repeated: 64 T1 (RFC 3261 §17.2.2).
pub(crate) const LINGER: Duration = Duration::from_secs(32);

/// What the gateway knows about a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The address may be invented.
    Stranger,
    /// The host receives answers.
    Proven,
    /// The operator has named the host, or it is a node.
    Named,
}

/// A party that has a share of the places: a host or a node. A host and the node with the same address are two parties.
pub(crate) type Asker = (Face, Origin);

/// Returns the party behind a hop, for its share of the places.
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
    /// The traces of strangers, and those of all others.
    stranger_traces: Slots,
    traces: Slots,
}

/// A place for a request other than INVITE. It may have to go for another request.
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
    /// The place for the bytes that the stack keeps if the answer is forgotten early. An INVITE of a stranger has it
    /// from the beginning.
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

    /// Takes a place for a request other than INVITE.
    pub(crate) fn take(&self, of: Asker, asked: &Transaction) -> Option<Place> {
        let key = asked.key.to_string().len();
        // The text counts as it came and as it was passed on. The keys are in maps and timers.
        let text = cost(&asked.original.headers, &asked.original.body);
        let size = HELD + 2 * text + 6 * key;
        let slot = self.requests.take_sized(of, size)?;
        let gone = CancellationToken::new();
        let goes = gone.clone();
        slot.may_end(move || goes.cancel());
        Some(Place { slot, gone })
    }

    /// Takes a place for an INVITE.
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

/// The media ports.
#[derive(Clone, Debug)]
pub(crate) struct Ports(Slots<Asker>);

impl Ports {
    /// Shares the streams for which there are ports: two for each, RTP and RTCP. Choice: one host or node may begin the
    /// calls of three quarters of them. With the default range, these are as many calls as a gateway has, so that a
    /// site may have a single PBX.
    pub(crate) fn new(udp: &RangeInclusive<u16>) -> Ports {
        Ports(Slots::with_share(udp.len() / 2, 3))
    }

    /// Takes the ports of one stream for this party, if it may have them.
    pub(crate) fn take(&self, by: Asker) -> Option<Slot<Asker>> {
        self.0.take_for(by)
    }
}

impl Place {
    /// Waits until the place has to go.
    pub(crate) async fn gone(&self) {
        self.gone.cancelled().await;
    }

    /// Notes that the answer is there and is kept only for repetitions: the same host may use the place for another
    /// request.
    pub(crate) fn is_spare(&self) {
        self.slot.is_spare();
    }
}

impl InvitePlace {
    /// Returns two tokens. The first is cancelled when the call has to give way, the second when the time to notify
    /// both ends is over.
    pub(crate) fn ends(&self) -> [CancellationToken; 2] {
        [self.gone.clone(), self.left.clone()]
    }

    /// Waits until the place has to go and the time to notify both ends is over.
    pub(crate) async fn left(&self) {
        self.gone.cancelled().await;
        if let Some(_leaving) = self.leaving.take() {
            tokio::time::sleep(LEAVE).await;
        }
        self.left.cancel();
    }

    /// Keeps the place for as long as the stack keeps the last answer, or until another host needs the place.
    pub(crate) async fn linger(self, endpoint: EndpointInnerRef, key: TransactionKey) {
        let over = Instant::now() + LINGER;
        // Without a trace, the stack keeps the answer until its own timer expires.
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
        // The trace waits in a task of its own, because the present task has the size of the transaction that it has
        // received.
        tokio::spawn(async move {
            tokio::time::sleep_until(over).await;
            drop(trace);
        });
    }
}

/// Returns the bytes that a message takes in memory: its text, and what each header is kept in.
pub(super) fn cost(headers: &Headers, body: &[u8]) -> usize {
    /// Bytes of a header in the list of headers, which has room for half as many more, and of its strings.
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
