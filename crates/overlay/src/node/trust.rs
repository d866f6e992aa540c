//! The credentials that the node trusts: the roots of its network, the list of revocations, and its own certificate.
//!
//! ```text
//!   certificate in a handshake ─┐
//!   record, operator            ├──▶ roots ──▶ both kinds of handshakes, database, flooding
//!   files at the start         ─┘      │
//!                                      └──▶ until a second: then the nodes are out whose certificates are of an older root
//! ```
//! A succession proves itself, so the node accepts it from any source. Node and ends each keep a copy of the network
//! with their handshakes; [`Node::follow_roots`] makes them agree whenever one of them may have learned something.

mod proof;

use self::proof::{Proof, Signer, Signers};
use super::Node;
use crate::event::Event;
use crate::link::LinkIndex;
use crate::link_state::{Database, MAX_ORIGINS, Name};
use crate::request::{Reply, RequestError};
use base::{Duration, NodeAddr, Outbox, Time};
use secure::{Certificate, Handshakes, Identity, Network, Peer, Revocations, Session, Shown};
use wire::certificate::Succession;
use wire::link::SessionIndex;
use wire::record::{Key, RecordKind, join_root};

/// After the node learns another root, it expels nobody for this time, even if the validity of the former root is over
/// already: certificates that were renewed by then arrive behind the succession. Choice: the time that they take to the
/// far end of a network of poor links. New handshakes are judged by the new root at once.
const GRACE: Duration = Duration::from_secs(5);

/// The reason for ending a link.
const OF_OLD_ROOT: &str = "the neighbour's certificate is of an old root key";

/// The node's state regarding the roots, and the certificates that they have signed.
#[derive(Debug)]
pub(super) struct Trust {
    unix_start_s: u64,
    signers: Signers,
    /// The number of the newest root that database and neighbours know of.
    told: u8,
    /// The root under which the node's own certificate was signed.
    own_root: Option<u8>,
    /// The roots that were valid when the node last looked: one bit each.
    counting: u32,
    /// The node expels nobody before this time.
    not_before: Time,
}

impl Trust {
    pub(super) fn new(unix_start_s: u64) -> Trust {
        Trust {
            unix_start_s,
            signers: Signers::default(),
            told: 0,
            own_root: None,
            counting: 0,
            not_before: Time::ZERO,
        }
    }

    fn set_clock(&mut self, unix_start_s: u64) {
        self.unix_start_s = unix_start_s;
    }

    /// Returns the wall-clock time, in seconds since 1970.
    pub(super) fn unix_s(&self, now: Time) -> u64 {
        self.unix_start_s + now.as_nanos() / 1_000_000_000
    }

    /// Returns the root under which the node's own certificate was signed.
    pub(super) fn own_root(&self) -> Option<u8> {
        self.own_root
    }

    /// Returns what proves records now.
    pub(super) fn proof<'a>(&'a self, now: Time, handshakes: &'a Handshakes) -> Proof<'a> {
        Proof {
            own: handshakes.identity(),
            network: handshakes.network(),
            signers: &self.signers,
            unix_s: self.unix_s(now),
        }
    }

    /// A certificate has entered the database: the records of its node can be proved.
    pub(super) fn enter(&mut self, peer: &Peer, database: &mut Database) {
        let before = self.signers.insert(peer.address(), Signer::of(peer));
        // Records that were made in the node's name under an older root are void.
        if before.is_some_and(|it| it.root < peer.root() && it.key != *peer.signing_key()) {
            database.forget_words_of(peer.address());
        }
        if self.signers.len() > MAX_ORIGINS {
            self.signers
                .retain(|origin, _| database.certificate(*origin).is_some());
        }
    }

    /// Returns true if a peer shows a certificate of an older root than the node of this address has shown by now. A
    /// thief of that root key can write a certificate for every address.
    pub(super) fn is_outdated(&self, peer: &Peer) -> bool {
        let signer = self.signers.get(&peer.address());
        signer.is_some_and(|signer| peer.root() < signer.root)
    }

    fn counting_roots(&self, now: Time, network: &Network) -> u32 {
        let unix_s = self.unix_s(now);
        let roots = 0..=network.root_number();
        let counting = roots.filter(|root| network.counts(*root, unix_s));
        counting.fold(0, |bits, root| bits | 1 << root)
    }
}

/// Smaller differences of the clock are ignored: a report may be some seconds old when the node reads it.
const CLOCK_DIFFERS_S: u64 = 10;
/// A clock that shows a later second is wrong. Choice: half a year before the numbers of records, which are seconds,
/// end. A node that had used the last number could never make another record.
const CLOCK_MOST_S: u64 = u32::MAX as u64 - (1 << 24);

impl Node {
    /// Follows the host's clock if somebody has set it. Certificates then count by the new time.
    pub(super) fn set_clock(&mut self, now: Time, unix_s: u64) {
        let differs_s = self.trust.unix_s(now).abs_diff(unix_s);
        if differs_s < CLOCK_DIFFERS_S || unix_s > CLOCK_MOST_S {
            return;
        }
        let unix_start_s = unix_s.saturating_sub(now.as_nanos() / 1_000_000_000);
        self.trust.set_clock(unix_start_s);
        self.router.database_mut().set_clock(unix_start_s);
    }

    /// Enters what was stored before the start, because it is also for other nodes: roots, and the list of revocations.
    pub(super) fn enter_stored(&mut self) {
        let network = self.handshakes.network();
        for succession in network.successions() {
            let bytes = succession.to_bytes();
            self.router
                .database_mut()
                .insert_verified(Time::ZERO, RecordKind::SUCCESSION, &bytes)
                .expect("a succession that was read once can be read again");
        }
        self.trust.told = network.root_number();
        self.trust.own_root = network.root_of(self.handshakes.identity().certificate());
        self.trust.counting = self
            .trust
            .counting_roots(Time::ZERO, self.handshakes.network());
        self.enter_list(Time::ZERO);
    }

    /// Puts the list in force into the database. Returns the key to flood, if the list was not there.
    fn enter_list(&mut self, now: Time) -> Option<Key> {
        let network = self.handshakes.network();
        let (root, _) = network.revocations_edition();
        let list = network.revocations()?.as_bytes();
        let database = self.router.database_mut();
        let entered = match root {
            0 => database.insert_verified(now, RecordKind::REVOCATIONS, list),
            _ => {
                let body = join_root(root, list);
                database.insert_verified(now, RecordKind::LATER_REVOCATIONS, &body)
            }
        };
        database.forget_lists_before(root);
        entered.expect("a list that was read once can be read again")
    }

    /// Spreads what a handshake, a record or the operator has revealed about the roots.
    pub(super) fn follow_roots(&mut self, now: Time, out: &mut impl Outbox<Node>) {
        let ends = self.ends.handshakes_mut().take_rival();
        for number in self.handshakes.take_rival().into_iter().chain(ends) {
            out.report(Event::RootRefused { number });
        }
        let (own, ends) = (
            self.handshakes.network().root_number(),
            self.ends.handshakes_mut().network().root_number(),
        );
        if own == self.trust.told && ends == own {
            return;
        }
        // Each holds a chain that was verified; if they differ, the longer chain is adopted by the other.
        let longer = match own >= ends {
            true => self.handshakes.network().clone(),
            false => self.ends.handshakes_mut().network().clone(),
        };
        let _ = self.handshakes.network_mut().adopt(&longer);
        let _ = self.ends.handshakes_mut().network_mut().adopt(&longer);
        let told = core::mem::replace(&mut self.trust.told, longer.root_number());
        let news = longer.successions().iter();
        let news: Vec<Succession> = news.filter(|it| it.number > told).copied().collect();
        for succession in news {
            let (number, until_s) = (succession.number, succession.until_s);
            out.report(Event::RootSucceeded { number, until_s });
            let body = succession.to_bytes();
            if let Ok(Some(key)) =
                self.router
                    .database_mut()
                    .insert_verified(now, RecordKind::SUCCESSION, &body)
            {
                self.flood.on_record_accepted(key, None);
            }
        }
        let certificate = self.handshakes.identity().certificate();
        self.trust.own_root = self.handshakes.network().root_of(certificate);
        self.trust.not_before = now + GRACE;
        // Certificates and records that arrived before the root that signed them.
        self.retry_pending(now, out);
    }

    /// A succession or a list of revocations has entered the database.
    pub(super) fn on_word_of_root(&mut self, now: Time, key: Key, out: &mut impl Outbox<Node>) {
        let record = self.router.database_mut().record(now, Name::of(key));
        let Some(body) = record.map(|(_, record)| record.body.to_vec()) else {
            return;
        };
        match key.kind {
            RecordKind::SUCCESSION => {
                if let Ok(succession) = Succession::parse(&body) {
                    let _ = self.handshakes.network_mut().succeed(&succession);
                    self.follow_roots(now, out);
                }
            }
            kind => {
                let list = match kind {
                    RecordKind::REVOCATIONS => &body[..],
                    _ => body.get(1..).unwrap_or_default(),
                };
                if let Ok(list) = Revocations::from_bytes(list) {
                    self.enforce(now, &list, out);
                }
            }
        }
    }

    /// A certificate was accepted that may contain the proof of its root.
    pub(super) fn learn_root(
        &mut self,
        now: Time,
        certificate: Option<&[u8]>,
        out: &mut impl Outbox<Node>,
    ) {
        if let Some(Ok(certificate)) = certificate.map(Certificate::from_bytes) {
            self.handshakes.network_mut().learn(&certificate);
            self.follow_roots(now, out);
        }
    }

    /// Takes roots from the operator.
    pub(super) fn on_chain(
        &mut self,
        now: Time,
        bytes: &[u8],
        out: &mut impl Outbox<Node>,
    ) -> Result<Reply, RequestError> {
        // Either all of them or none.
        let mut network = self.handshakes.network().clone();
        if let Some(number) = network.rival_among(bytes) {
            out.report(Event::RootRefused { number });
        }
        network
            .extend(bytes)
            .map_err(|_| RequestError::BadCredential)?;
        let adopted = self.handshakes.network_mut().adopt(&network);
        adopted.map_err(|_| RequestError::BadCredential)?;
        self.follow_roots(now, out);
        Ok(Reply::Done)
    }

    /// Puts a renewed certificate into use.
    pub(super) fn renew(
        &mut self,
        now: Time,
        identity: Identity,
        out: &mut impl Outbox<Node>,
    ) -> Result<Reply, RequestError> {
        let rival = self.handshakes.network().rival_of(identity.certificate());
        if let Some(number) = rival {
            out.report(Event::RootRefused { number });
        }
        self.handshakes.network_mut().learn(identity.certificate());
        self.follow_roots(now, out);
        let present = self.handshakes.identity();
        let network = self.handshakes.network();
        let counts = network.verify(identity.certificate(), self.trust.unix_s(now));
        let held = (
            self.trust.own_root.unwrap_or_default(),
            present.certificate().fields().serial,
        );
        let own_root = match counts {
            Ok(peer) if (peer.root(), peer.serial()) > held && identity.address() == self.addr => {
                peer.root()
            }
            _ => return Err(RequestError::BadCredential),
        };
        self.trust.own_root = Some(own_root);
        self.handshakes.set_identity(identity.clone());
        self.ends.handshakes_mut().set_identity(identity);
        self.own_record.note();
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
        if !self.enforce(now, &list, out) {
            return Err(RequestError::BadCredential);
        }
        if let Some(key) = self.enter_list(now) {
            self.flood.on_record_accepted(key, None);
        }
        Ok(Reply::Done)
    }

    /// Applies a list: links to revoked nodes end, and their records are forgotten. Returns false if the list is not
    /// newer, or not of this network.
    fn enforce(&mut self, now: Time, list: &Revocations, out: &mut impl Outbox<Node>) -> bool {
        if !matches!(self.handshakes.network_mut().apply(list), Ok(true)) {
            return false;
        }
        // The list was just accepted for the same network.
        let _ = self.ends.handshakes_mut().network_mut().apply(list);
        let (root, _) = self.handshakes.network().revocations_edition();
        self.router.database_mut().forget_lists_before(root);
        let has_revoked = |of: &NodeAddr| {
            let body = self.router.database().certificate(*of);
            let certificate = body.and_then(|body| Certificate::from_bytes(body).ok());
            certificate.is_some_and(|it| self.handshakes.network().has_revoked(&it))
        };
        let keys = self.router.database().keys();
        let certificates = keys.filter(|key| key.kind == RecordKind::CERTIFICATE);
        let origins = certificates.map(|key| key.origin);
        let revoked = origins.filter(|origin| *origin != self.addr && has_revoked(origin));
        let revoked: Vec<NodeAddr> = revoked.collect();
        self.expel(now, revoked, "the neighbour's certificate is revoked", out);
        true
    }

    /// When the validity of an old root is over, nodes that still have a certificate of it are expelled like revoked
    /// ones: otherwise sessions would continue for ten minutes, and the old key may have been stolen.
    pub(super) fn end_old_roots(&mut self, now: Time, out: &mut impl Outbox<Node>) {
        if now < self.trust.not_before {
            return;
        }
        let counting = self.trust.counting_roots(now, self.handshakes.network());
        if core::mem::replace(&mut self.trust.counting, counting) == counting {
            return;
        }
        let (network, unix_s) = (self.handshakes.network(), self.trust.unix_s(now));
        let is_out = |root: u8| !network.counts(root, unix_s);
        let signers = self.trust.signers.iter();
        let mut out_of_time: Vec<NodeAddr> = signers
            .filter(|(origin, signer)| **origin != self.addr && is_out(signer.root))
            .map(|(origin, _)| *origin)
            .collect();
        out_of_time.sort_unstable();
        self.expel(now, out_of_time, OF_OLD_ROOT, out);
        self.end_sessions_of_old_roots(now, out);
    }

    /// Ends the sessions that were made with an old root's certificate in the name of a node that has a newer one. A
    /// session that the node itself made earlier continues: it has the same key.
    fn end_sessions_of_old_roots(&mut self, now: Time, out: &mut impl Outbox<Node>) {
        let (network, unix_s) = (self.handshakes.network(), self.trust.unix_s(now));
        let signers = &self.trust.signers;
        let is_gone = |node: NodeAddr, session: &Session| {
            let Shown { root, signing_key } = session.shown();
            let is_of =
                |signer: &Signer| network.counts(signer.root, unix_s) && signer.key == *signing_key;
            !network.counts(*root, unix_s) && !signers.get(&node).is_some_and(is_of)
        };
        let of_ends = self.ends.with_session(is_gone);
        let of_links: Vec<(LinkIndex, Vec<SessionIndex>)> = self
            .links
            .iter()
            .map(|(index, link)| {
                let sessions = link.paths().flat_map(|path| path.sessions.iter());
                let gone = sessions.filter(|session| is_gone(link.peer, session));
                (index, gone.map(Session::local_index).collect())
            })
            .filter(|(_, gone): &(_, Vec<_>)| !gone.is_empty())
            .collect();
        for node in of_ends {
            self.ends.remove(node);
        }
        for (index, gone) in of_links {
            for session in gone {
                if let Some(path) = self.links.at_mut(index).path_with(session) {
                    path.sessions.remove(session);
                }
                self.drop_session(session);
            }
            if self.links.at(index).path.sessions.is_empty() {
                self.cut(now, index, OF_OLD_ROOT, out);
            }
        }
    }

    /// Expels nodes that no longer belong to the network: their records are forgotten, and links and sessions end.
    fn expel(
        &mut self,
        now: Time,
        nodes: Vec<NodeAddr>,
        why: &'static str,
        out: &mut impl Outbox<Node>,
    ) {
        for node in nodes {
            self.router.database_mut().remove_origin(node);
            self.trust.signers.remove(&node);
            self.ends.remove(node);
            self.groups.on_revoked(node);
            if let Some(index) = self.links.by_peer(node) {
                self.cut(now, index, why, out);
            }
        }
    }
}
