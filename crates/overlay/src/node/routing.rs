//! Link state at the node: what it says of its own links, what it takes from others, and the
//! routes that follow.

use super::Node;
use crate::event::Event;
use crate::hello;
use crate::link::LinkIndex;
use crate::link_state::{LIFETIME_S, Offer, REFRESH_S, Verifier};
use crate::request::{Reply, RequestError};
use base::{Duration, NodeAddr, Outbox, Time};
use graph::metric::LinkCost;
use secure::{Certificate, Context, Identity, Network, Peer, Revocations, signature};
use wire::link_state::{Link as Reported, LinkState, Repr};
use wire::record::{Acks, BODY_BYTES_MAX, Key, RecordKind, RecordSeq, Records};
use wire::{Latency, Loss};

/// 2020-01-01 in seconds since 1970: sequence numbers of records start with the seconds since
/// then, so that a restarted node starts above where it was. They reach 2^32 in the year 2156.
const SEQ_EPOCH_S: u64 = 1_577_836_800;

/// Proves records by the network's root key.
struct Proof<'a> {
    network: &'a Network,
    unix_s: u64,
}

impl Verifier for Proof<'_> {
    fn certificate(&self, body: &[u8]) -> Option<(NodeAddr, RecordSeq)> {
        let peer = self.peer(body)?;
        Some((peer.address(), RecordSeq(peer.serial())))
    }

    fn link_state(&self, certificate: &[u8], record: &LinkState<'_>) -> bool {
        // The certificate may have expired or been revoked since it was stored.
        self.peer(certificate).is_some_and(|peer| {
            let signed = record.signed_bytes();
            peer.address() == record.origin
                && signature::verify(
                    peer.signing_key(),
                    Context::LinkState,
                    signed,
                    record.signature(),
                )
        })
    }

    fn revocations(&self, body: &[u8]) -> Option<RecordSeq> {
        let list = Revocations::from_bytes(body).ok()?;
        // A copy, because only the node itself takes the list to heart.
        let mut network = self.network.clone();
        match network.apply(&list) {
            Ok(_) => Some(RecordSeq(list.fields().version)),
            Err(_) => None,
        }
    }
}

impl Proof<'_> {
    fn peer(&self, certificate: &[u8]) -> Option<Peer> {
        let certificate = Certificate::from_bytes(certificate).ok()?;
        self.network.verify(&certificate, self.unix_s).ok()
    }
}

impl Node {
    /// A link has come up or gone down: others are told at once.
    pub(super) fn on_link_changed(
        &mut self,
        now: Time,
        index: LinkIndex,
        event: Option<hello::Event>,
    ) {
        match event {
            Some(hello::Event::Up) => {
                self.flood.on_link_up(now, index, &self.database);
                self.consider_cost(now, index);
            }
            Some(hello::Event::Down { .. }) => {
                self.flood.on_link_down(index);
                self.links.at_mut(index).announce.withdraw();
            }
            None => {}
        }
        self.own_record_due = true;
        self.links.touch(index);
    }

    /// Weighs the present estimate of a link; marks the own record as due when it is to be told.
    fn consider_cost(&mut self, now: Time, index: LinkIndex) {
        let link = self.links.at_mut(index);
        // What leaves here is lost as the neighbour measures it.
        let latency_us = u32::try_from(link.one_way().as_micros()).unwrap_or(u32::MAX);
        let cost = LinkCost::new(latency_us, link.hello.loss_out().share());
        self.own_record_due |= link.announce.consider(now, cost);
    }

    /// Slow housekeeping: costs, refresh, ageing.
    pub(super) fn keep_records(&mut self, now: Time, _out: &mut impl Outbox<Node>) {
        for index in self.links.indices() {
            if self.links.at(index).is_up() {
                self.consider_cost(now, index);
            }
        }
        let refresh = Duration::from_secs(REFRESH_S);
        self.own_record_due |= now.since(self.own_record_at) >= refresh;
        for origin in self.database.expire(now) {
            self.tables.report(origin, Vec::new());
        }
    }

    /// Says what is new of the own links, and repairs the routes. Called once per flush.
    pub(super) fn update_routing(&mut self, now: Time, out: &mut impl Outbox<Node>) {
        if core::mem::take(&mut self.own_record_due) {
            self.originate_record(now);
        }
        if self.tables.update() {
            let reachable = self.tables.reachable() as u32;
            out.report(Event::RoutesChanged { reachable });
        }
        // Records that became due on any link go out in this flush.
        let due: Vec<LinkIndex> = if self.flood_touched {
            self.flood_touched = false;
            self.flood.links().collect()
        } else {
            Vec::new()
        };
        for index in due {
            self.links.touch(index);
        }
    }

    fn originate_record(&mut self, now: Time) {
        let identity = self.handshakes.identity();
        let serial = identity.certificate().fields().serial;
        let floor = self.unix_s(now).saturating_sub(SEQ_EPOCH_S) as u32;
        self.own_seq = (self.own_seq + 1).max(floor);
        let mut reported: Vec<Reported> = Vec::new();
        for (_, link) in self.links.iter().filter(|(_, link)| link.is_up()) {
            if let Some(cost) = link.announce.announced() {
                reported.push(Reported {
                    neighbor: link.peer,
                    latency: Latency::from_micros(cost.latency_us),
                    loss: Loss(cost.loss),
                    flags: 0,
                });
            }
        }
        reported.sort_by_key(|link| link.neighbor);
        reported.truncate(wire::link_state::LINKS_MAX);
        let repr = Repr {
            origin: self.addr,
            seq: RecordSeq(self.own_seq),
            lifetime_s: LIFETIME_S,
            certificate_serial: serial,
            flags: 0,
            links: &reported,
            options: &[],
        };
        let mut body = [0; BODY_BYTES_MAX];
        let len = repr
            .emit(&mut body, |signed| {
                identity.sign(Context::LinkState, signed)
            })
            .expect("the longest record fits its buffer");
        let certificate = Key {
            kind: RecordKind::CERTIFICATE,
            origin: self.addr,
            seq: RecordSeq(serial),
        };
        let certificate_bytes = identity.certificate().as_bytes().to_vec();
        if self.database.body(&certificate).is_none() {
            self.database.put_own(now, certificate, &certificate_bytes);
            self.spread(now, certificate, None);
        }
        let key = Key {
            kind: RecordKind::LINK_STATE,
            origin: self.addr,
            seq: RecordSeq(self.own_seq),
        };
        self.database.put_own(now, key, &body[..len]);
        self.own_record_at = now;
        self.take_links(self.addr);
        self.spread(now, key, None);
    }

    fn spread(&mut self, now: Time, key: Key, from: Option<LinkIndex>) {
        self.flood.on_record(now, key, from);
        self.flood_touched = true;
    }

    /// What a node's record says of its links goes to the routes.
    fn take_links(&mut self, origin: NodeAddr) {
        let Some(state) = self.database.links_of(origin) else {
            return;
        };
        let links = state
            .links()
            .map(|link| {
                let cost = LinkCost {
                    latency_us: link.latency.micros(),
                    loss: link.loss.0,
                };
                (link.neighbor, cost)
            })
            .collect();
        self.tables.report(origin, links);
    }

    pub(super) fn on_records(
        &mut self,
        now: Time,
        index: LinkIndex,
        records: &Records<'_>,
        out: &mut impl Outbox<Node>,
    ) {
        for record in records.iter() {
            let proof = Proof {
                network: self.handshakes.network(),
                unix_s: self.unix_s(now),
            };
            match self.database.offer(now, &record, &proof) {
                Offer::Accepted(key) => {
                    self.flood.confirm(now, index, key);
                    self.on_accepted(now, index, key, out);
                }
                Offer::Known(key) => self.flood.confirm(now, index, key),
                Offer::Older(key) => {
                    self.flood.confirm(now, index, key);
                    self.flood.send_to(now, index, key);
                }
                Offer::Own(key) => {
                    // An earlier start of this node: outdone by a newer edition.
                    self.flood.confirm(now, index, key);
                    self.own_seq = self.own_seq.max(key.seq.0);
                    self.own_record_due = true;
                }
                Offer::NoCertificate => {}
                Offer::Refused(origin) => out.report(Event::RecordRefused { origin }),
            }
        }
    }

    fn on_accepted(&mut self, now: Time, from: LinkIndex, key: Key, out: &mut impl Outbox<Node>) {
        out.report(Event::RecordAccepted { origin: key.origin });
        self.spread(now, key, Some(from));
        match key.kind {
            RecordKind::LINK_STATE => self.take_links(key.origin),
            RecordKind::REVOCATIONS => {
                let list = self.database.body(&key).map(Revocations::from_bytes);
                if let Some(Ok(list)) = list {
                    self.enforce(now, &list, out);
                }
            }
            _ => {}
        }
    }

    pub(super) fn on_record_acks(&mut self, _now: Time, index: LinkIndex, acks: &Acks<'_>) {
        for key in acks.iter() {
            self.flood.on_ack(index, key);
        }
    }

    /// The certificate that a neighbour has shown serves for its records too.
    pub(super) fn on_peer_certificate(
        &mut self,
        now: Time,
        peer: &Peer,
        _out: &mut impl Outbox<Node>,
    ) {
        let key = Key {
            kind: RecordKind::CERTIFICATE,
            origin: peer.address(),
            seq: RecordSeq(peer.serial()),
        };
        let newer = self
            .database
            .record(now, key.kind, key.origin)
            .is_none_or(|(known, _)| known.seq < key.seq);
        if newer {
            self.database
                .put_own(now, key, peer.certificate().as_bytes());
            self.spread(now, key, None);
        }
    }

    /// Puts a renewed certificate in place.
    pub(super) fn renew(&mut self, now: Time, identity: Identity) -> Result<Reply, RequestError> {
        let present = self.handshakes.identity();
        let counts = self
            .handshakes
            .network()
            .verify(identity.certificate(), self.unix_s(now));
        let newer = identity.certificate().fields().serial > present.certificate().fields().serial;
        if counts.is_err() || !newer || identity.address() != self.addr {
            return Err(RequestError::BadCredential);
        }
        self.handshakes.set_identity(identity);
        self.own_record_due = true;
        Ok(Reply::Done)
    }

    /// Takes a list of revocations from the operator.
    pub(super) fn on_revocations(
        &mut self,
        now: Time,
        bytes: &[u8],
        out: &mut impl Outbox<Node>,
    ) -> Result<Reply, RequestError> {
        let list = Revocations::from_bytes(bytes).map_err(|_| RequestError::BadCredential)?;
        let key = Key {
            kind: RecordKind::REVOCATIONS,
            origin: NodeAddr::default(),
            seq: RecordSeq(list.fields().version),
        };
        if !self.enforce(now, &list, out) {
            return Err(RequestError::BadCredential);
        }
        self.database.put_own(now, key, bytes);
        self.spread(now, key, None);
        Ok(Reply::Done)
    }

    /// Applies a list: links to revoked nodes end, and their records are forgotten. False if the
    /// list is not newer, or not of this network.
    fn enforce(&mut self, now: Time, list: &Revocations, out: &mut impl Outbox<Node>) -> bool {
        if !matches!(self.handshakes.network_mut().apply(list), Ok(true)) {
            return false;
        }
        let revoked: Vec<NodeAddr> = self
            .database
            .keys()
            .filter(|key| {
                key.kind == RecordKind::CERTIFICATE
                    && self.handshakes.network().is_revoked(key.seq.0)
            })
            .map(|key| key.origin)
            .filter(|origin| *origin != self.addr)
            .collect();
        for origin in revoked {
            self.database.forget(origin);
            self.tables.report(origin, Vec::new());
            if let Some(index) = self.links.by_peer(origin) {
                self.cut(now, index, "the neighbour's certificate is revoked", out);
            }
        }
        true
    }
}
