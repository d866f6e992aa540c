//! The last step of datagrams to this node's clients.
//!
//! ```text
//!   a datagram ───────────────┐
//!   a part ─▶ reassembly ─────┴─▶ as it comes ─────────────────────────▶ the client
//!                                 in order, or at its sender's pace ─▶ resequencer ─▶ the client
//! ```
//! The room knows neither sockets nor groups: its caller passes the [`order`] in which a client gets packets.

use super::Node;
use super::receive::{drop_one, drop_some};
use crate::event::{Drop, Event};
use crate::fragment::{Key, Outcome, Reassembly};
use crate::groups::Membership;
use crate::lately::Lately;
use crate::request::{Delivery, Reply};
use crate::resequence::{
    FLOW_BYTES_MAX, FlowKey, HeldTotals, Hold, Losses, NODE_BYTES_MAX, Order, Refused, Resequencer,
};
use crate::snapshot::{HeldStatus, HolderStatus};
use crate::sockets::Sockets;
use base::pool::KEPT_OVERHEAD;
use base::{Burst, ClientId, Duration, NodeAddr, Outbox, Pool, Time, VirtualPort};
use wire::data::{FlowSeq, Remaining};
use wire::transport::Fragment;

/// Number of waiting flows that the status names: a flow that has taken all memory comes first.
const HOLDERS_SHOWN: usize = 8;

/// A datagram for a client, with the content of its reply.
#[derive(Debug)]
pub(super) struct Arrived {
    pub(super) from: NodeAddr,
    pub(super) port: VirtualPort,
    pub(super) to: VirtualPort,
    pub(super) group: Option<NodeAddr>,
    pub(super) recovered: bool,
    /// The remaining time at `at`.
    pub(super) remaining: Remaining,
    pub(super) at: Time,
    /// `None` stands for a fragment whose datagram has arrived, or arrives, with another fragment.
    pub(super) payload: Option<Burst>,
}

impl Hold for Arrived {
    fn bytes(&self) -> usize {
        KEPT_OVERHEAD + self.payload.as_ref().map_or(0, Burst::len)
    }

    fn keep(&mut self, pool: &Pool) -> bool {
        self.payload.as_mut().is_none_or(|burst| pool.keep(burst))
    }
}

/// Datagrams on their last step: fragments that wait for others, and packets that wait for their place in their flow.
#[derive(Debug, Default)]
pub(super) struct Handover {
    reassembly: Reassembly,
    resequencer: Resequencer<Arrived>,
    /// Gaps that were given up for lack of room.
    given_up: Lately,
}

impl Handover {
    /// Delivers a datagram, or a fragment of a long one, to some clients.
    pub(super) fn deliver_to(
        &mut self,
        now: Time,
        clients: &[ClientId],
        (to, seq, is_long): (NodeAddr, FlowSeq, bool),
        mut arrived: Arrived,
        mut order: impl FnMut(ClientId) -> Option<Order>,
        out: &mut impl Outbox<Node>,
    ) {
        if is_long {
            let key = Key {
                from: (arrived.from, arrived.port),
                to,
                port: arrived.to,
                id: 0,
            };
            let part = arrived.payload.take();
            match self.on_fragment(now, key, arrived.remaining, part, out) {
                // The values of a long datagram are those of the fragment that completes it.
                Ok((whole, left)) => (arrived.payload, arrived.remaining) = (whole, left),
                Err(why) => return drop_one(why, out),
            }
        }
        let (Some(last), others) = (clients.last(), &clients[..clients.len().saturating_sub(1)])
        else {
            return;
        };
        for client in others {
            let payload = arrived.payload.as_ref();
            let copy = payload.and_then(|payload| out.pool().copy_burst(payload));
            if payload.is_some() && copy.is_none() {
                drop_one(Drop::NoBuffer, out);
                continue;
            }
            let copy = Arrived {
                payload: copy,
                ..arrived
            };
            let order = order(*client);
            self.deliver_in_order(now, (*client, order), (to, seq), copy, out);
        }
        let order = order(*last);
        self.deliver_in_order(now, (*last, order), (to, seq), arrived, out);
    }

    /// Delivers a datagram to a client, as it arrives or in order, as the client wants.
    fn deliver_in_order(
        &mut self,
        now: Time,
        (client, order): (ClientId, Option<Order>),
        (to, seq): (NodeAddr, FlowSeq),
        arrived: Arrived,
        out: &mut impl Outbox<Node>,
    ) {
        match order {
            None => hand_over(now, client, arrived, out),
            Some(order) => {
                let key = (client, (to, arrived.to), arrived.from, arrived.port);
                let left = arrived.remaining.duration();
                let pushed =
                    self.resequencer
                        .push(now, key, (seq.0, order), left, arrived, out.pool());
                match pushed {
                    Ok(()) => {
                        let mut ready = Some(key);
                        while let Some(key) = ready {
                            while let Some(next) = self.resequencer.pop(now, key) {
                                hand_over(now, key.0, next, out);
                            }
                            ready = self.resequencer.relieve();
                        }
                    }
                    Err((Refused::TooLate, _)) => drop_one(Drop::TooLateForOrder, out),
                    Err((Refused::NoFlow, arrived)) => hand_over(now, client, arrived, out),
                    Err((Refused::Full, _)) => drop_one(Drop::ResequencerFull, out),
                }
            }
        }
    }

    /// Hands over packets that waited for their predecessors, or for their sender's pace.
    fn release(&mut self, now: Time, out: &mut impl Outbox<Node>) {
        while let Some(((client, ..), arrived)) = self.resequencer.pop_due(now) {
            hand_over(now, client, arrived, out);
        }
    }

    /// Returns the totals of packets that wait for their predecessors, and their flows.
    pub(super) fn status(&self) -> HeldStatus {
        let totals = self.resequencer.totals();
        let holders = self.resequencer.holders().into_iter();
        let holder =
            |((_, (to, port), from, from_port), held): (FlowKey, HeldTotals)| HolderStatus {
                from: format!("{from}:{}", from_port.0),
                to: format!("{to}:{}", port.0),
                packets: held.packets,
                bytes: held.bytes,
                given_up: held.given_up,
            };
        HeldStatus {
            packets: totals.packets,
            bytes: totals.bytes,
            bytes_limit: NODE_BYTES_MAX,
            flow_bytes_limit: FLOW_BYTES_MAX,
            given_up: totals.given_up,
            given_up_lately: self.given_up.grown(totals.given_up),
            holders: holders.take(HOLDERS_SHOWN).map(holder).collect(),
        }
    }

    /// Takes a fragment, and returns the datagram if the fragment was the last missing one.
    pub(super) fn on_fragment(
        &mut self,
        now: Time,
        key: Key,
        remaining: Remaining,
        one: Option<Burst>,
        out: &mut impl Outbox<Node>,
    ) -> Result<(Option<Burst>, Remaining), Drop> {
        let payload = one.as_ref().map(Burst::bytes).unwrap_or_default();
        let (fragment, bytes) = Fragment::parse(payload).map_err(|_| Drop::Malformed)?;
        let key = Key {
            id: fragment.id,
            ..key
        };
        let part = (fragment, bytes);
        let outcome = self
            .reassembly
            .on_fragment(now, key, part, remaining, out.pool());
        self.count_given_up(out);
        match outcome {
            Outcome::Whole(payload, left) => Ok((Some(payload), left)),
            Outcome::Kept => Ok((None, remaining)),
            Outcome::Contradicts => Err(Drop::Malformed),
            Outcome::NoBuffer => Err(Drop::NoBuffer),
        }
    }

    /// Hands over packets that have waited long enough, and gives up datagrams whose fragments have not all arrived in
    /// time.
    pub(super) fn on_timeout(&mut self, now: Time, out: &mut impl Outbox<Node>) {
        self.release(now, out);
        self.reassembly.expire(now);
        self.count_given_up(out);
    }

    fn count_given_up(&mut self, out: &mut impl Outbox<Node>) {
        let given_up = self.reassembly.take_given_up();
        let counts = [
            (Drop::FragmentLate, given_up.late),
            (Drop::FragmentFull, given_up.crowded_out),
        ];
        for (reason, packets) in counts.into_iter().filter(|(_, packets)| *packets > 0) {
            drop_some(reason, packets, out);
        }
    }

    /// A client has joined a group at a port.
    pub(super) fn join(&mut self, now: Time, client: ClientId, to: (NodeAddr, VirtualPort)) {
        self.resequencer.join(now, client, to);
    }

    /// A client gets nothing more: of a group at a port, or at all.
    pub(super) fn leave(&mut self, client: ClientId, of: Option<(NodeAddr, VirtualPort)>) {
        match of {
            Some((group, port)) => self.resequencer.leave(client, group, port),
            None => self.resequencer.close(client),
        }
    }

    /// Returns the packets of a source to a group that came too late or were missed.
    pub(super) fn of_group(&self, source: NodeAddr, group: NodeAddr) -> Losses {
        self.resequencer.of_group(source, group)
    }

    /// Slow housekeeping.
    pub(super) fn look(&mut self, now: Time) {
        self.given_up.look(now, self.resequencer.totals().given_up);
        self.resequencer.expire(now);
    }

    /// Returns when something is due, with a name for it.
    pub(super) fn timeouts(&self) -> [(Option<Time>, &'static str); 2] {
        [
            (self.resequencer.next_timeout(), "resequencer"),
            (self.reassembly.next_timeout(), "fragment"),
        ]
    }
}

/// Returns the order in which a client gets packets to an address, `None` for as they arrive. The group sets it, or the
/// socket.
pub(super) fn order(
    (sockets, membership): (&mut Sockets, &Membership),
    client: ClientId,
    to: NodeAddr,
) -> Option<Order> {
    let setting = match to.is_multicast() {
        true => membership.setting(to),
        false => None,
    };
    let socket = sockets.client(client);
    let (own, own_deadline) = socket.map_or_else(Default::default, |socket| {
        (socket.options.delivery, socket.options.deadline)
    });
    let said = setting.and_then(|setting| setting.delivery);
    match said.unwrap_or(own) {
        Delivery::AsItComes => None,
        Delivery::InOrder => Some(Order::AtOnce),
        Delivery::AsSent(after) => {
            let ms = setting.map_or(0, |setting| setting.deadline_ms);
            let deadline = match ms {
                0 => own_deadline,
                ms => Some(Duration::from_millis(ms.into())),
            };
            // For a longer deadline, the header had this value at first, whatever was set.
            let deadline = Remaining::from_deadline(deadline).duration();
            // A packet shows how much time it has left; the deadline minus that is its age.
            let left = after.map(|after| deadline.unwrap_or_default() - after);
            Some(Order::AsSent(left))
        }
    }
}

fn hand_over(now: Time, client: ClientId, arrived: Arrived, out: &mut impl Outbox<Node>) {
    let Arrived {
        from,
        port,
        to,
        group,
        recovered,
        remaining,
        at,
        payload,
    } = arrived;
    let Some(payload) = payload else {
        return;
    };
    // A packet that waited for its predecessors has less time left.
    let remaining = remaining.minus(now.since(at));
    out.report(Event::Delivered {
        bytes: payload.len() as u32,
    });
    out.deliver(
        client,
        Reply::Datagram {
            from,
            port,
            to,
            group,
            recovered,
            remaining,
            payload,
        },
    );
}
