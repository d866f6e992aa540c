//! The handshakes of one node: dialling, answering, and which session indices are in use.
//!
//! ```text
//!  dialler                                              responder
//!  dial() --Init--> ........................ mac1, limits, (cookie) --> half-open
//!  Dial   <------------------------------------------------Response
//!  | verify certificate                                        |
//!  v ------Finish-----------------------------------> verify certificate
//!  Confirming  (repeats Finish)                            Established --> Live
//!  | Established                                               |
//!  v <-----------------------------first sealed datagram-------'
//!  Live    on_confirmed()
//! ```
//!
//! Noise XX proves who holds which static key and hides both certificates from listeners; the
//! certificate in the payload must speak of exactly that key. The prologue binds the network's
//! root key, the dialler's index and the range of versions; the sealed copy of the response's
//! header binds the rest. Init and Finish are repeated by the dialler alone, so a responder keeps
//! no timer but the age of half-open handshakes, and answers a repeated Init with the same bytes.
//!
//! If both speak version 2, the session has keys of ML-KEM too. `hybrid` has what follows the Finish then. The range
//! of versions and the choice are authenticated, so nobody between the two can talk them out of it.
//!
//! If two nodes dial each other at once, each sees the other's Init while its own is out. The Init
//! whose ephemeral key is lower goes on, and both sides know which; the other is not answered while
//! it is young, so that one session results. (Not for longer: the lower one may never arrive.)
//! Should both succeed all the same, [`crate::Sessions`] lives with both.

mod dial;
mod hybrid;
mod respond;
mod table;

use crate::entropy::Entropy;
use crate::identity::Identity;
use crate::limits::Limits;
use crate::mac::{Cookies, NetworkMac};
use crate::network::{CertificateError, Network, Peer};
use crate::session::Session;
use base::{NodeAddr, Time, UnderlayAddr};
use std::sync::Arc;
use table::Table;
use wire::Malformed;
use wire::handshake::{CLASSIC_VERSION, COOKIE_BYTES, HYBRID_VERSION, VersionRange};
use wire::link::{Kind, SessionIndex};

pub use hybrid::PostQuantum;

/// Between whom sessions are made. What is said under one kind of handshake counts for nothing under
/// the other, because its name is hashed into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Between {
    /// Neighbours, by datagrams of the network below.
    Neighbours,
    /// The two ends of a path, by packets of the overlay. What stands for the address below is made
    /// of the node's address.
    Ends,
}

/// All handshakes of one node.
pub struct Handshakes {
    between: Between,
    identity: Arc<Identity>,
    network: Network,
    mac: NetworkMac,
    cookies: Cookies,
    limits: Limits,
    table: Table,
    entropy: Entropy,
    post_quantum: PostQuantum,
    /// The number of a root that a peer has proved, whose place another one has here.
    rival: Option<u8>,
}

/// What a handshake datagram came to.
#[derive(Debug)]
pub enum Outcome {
    /// To be sent to where the datagram came from, one after the other. None, if it was a part of something.
    Reply(Vec<Vec<u8>>),
    /// "Come again with this cookie", to be sent to where the datagram came from.
    Cookie([u8; COOKIE_BYTES]),
    /// A neighbour has proved who it is.
    Established(Box<Established>),
    /// Nothing comes of the datagram. To be counted by [`Refusal::label`].
    Refused(Refusal),
    /// Nothing comes of a dial, for a reason that repetition does not mend. To be counted, told to
    /// the operator, and dialled again after a while.
    Failed {
        /// The address that was dialled.
        to: UnderlayAddr,
        /// The node that was expected there.
        expect: Option<NodeAddr>,
        /// Why.
        reason: Refusal,
        /// To be sent to `to` all the same, so that the peer learns why too.
        reply: Option<Vec<u8>>,
    },
}

/// A session and the neighbour that it was made with.
#[derive(Debug)]
pub struct Established {
    /// To be installed in the neighbour's [`crate::Sessions`].
    pub session: Session,
    /// Who the neighbour is.
    pub peer: Peer,
    /// Where its datagrams come from.
    pub from: UnderlayAddr,
    /// The node that was expected when this side dialled.
    pub expect: Option<NodeAddr>,
    /// The side that dialled means it for a further path of the link, and not for a move.
    pub is_further: bool,
    /// To be sent to `from` before anything that is sealed, one after the other.
    pub reply: Vec<Vec<u8>>,
}

/// Something that time has brought about.
#[derive(Debug, PartialEq, Eq)]
pub enum Due {
    /// A repetition.
    Send {
        /// To whom.
        to: UnderlayAddr,
        /// The datagram.
        datagram: Vec<u8>,
    },
    /// Nobody answered.
    GaveUp {
        /// The address that was dialled.
        to: UnderlayAddr,
        /// The node that was expected there.
        expect: Option<NodeAddr>,
    },
    /// The peer has answered, and said nothing more.
    Unfinished {
        /// The address that was dialled.
        to: UnderlayAddr,
        /// The node that was expected there.
        expect: Option<NodeAddr>,
    },
    /// The peer never said anything under a session of which this side has spoken last. To be removed from its
    /// `Sessions` and released.
    Unconfirmed {
        /// Which session.
        session: SessionIndex,
        /// Whom it was made with.
        to: UnderlayAddr,
    },
}

/// Why a dial was not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DialError {
    /// That address is being dialled.
    #[error("that address is being dialled already: wait for the outcome")]
    InProgress,
    /// [`crate::limits::MAX_DIALS`] or [`crate::limits::MAX_INDICES`] is reached.
    #[error("too many dials or sessions at once: dial fewer neighbours")]
    TooMany,
}

/// Why nothing came of a handshake datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Refusal {
    /// It cannot be read.
    #[error("malformed handshake: {0}")]
    Malformed(#[from] Malformed),
    /// mac1 does not fit.
    #[error("mac1 does not fit: the sender is of another network, or none")]
    Mac,
    /// No version in common.
    #[error("no version in common: upgrade the older of the two nodes")]
    Version,
    /// It belongs to no handshake that is under way.
    #[error("belongs to no handshake that is under way: late or repeated")]
    Stale,
    /// It comes from another address than the handshake began with.
    #[error("comes from another address than the handshake began with")]
    Address,
    /// Both sides dialled, and the other handshake goes on.
    #[error("both sides dialled at once, and the other handshake goes on")]
    Crossed,
    /// Too many handshakes.
    #[error("too many handshakes per second: the limit is in secure::limits")]
    TooMany,
    /// Too many handshakes from one source.
    #[error("too many handshakes per second from one source: the limit is in secure::limits")]
    TooManyOfSource,
    /// A table is full.
    #[error("too many handshakes or sessions at once: the limit is in secure::limits")]
    Full,
    /// The Noise message is not authentic.
    #[error("the Noise message is not authentic: damaged or forged")]
    Noise,
    /// The peer's certificate does not count.
    #[error("the peer's certificate does not count: {0}")]
    Certificate(#[from] CertificateError),
    /// A piece of a key or of a ciphertext is not authentic, or the key is none.
    #[error("what it has sent for ML-KEM is damaged or forged")]
    Kem,
    /// The peer makes no hybrid session.
    #[error(
        "{0} makes no post-quantum session, which `post_quantum = \"require\"` demands here: upgrade it and set its \
         `post_quantum`, or set \"prefer\" here"
    )]
    NotHybrid(NodeAddr),
    /// The peer makes no other session than a hybrid one.
    #[error(
        "{0} makes post-quantum sessions alone, by its `post_quantum = \"require\"`: set `post_quantum = \"prefer\"` here"
    )]
    HybridAlone(NodeAddr),
    /// The peer does not hold the key that its certificate speaks of.
    #[error("the peer showed a certificate of another key than it holds")]
    OtherKey,
    /// Another node answered than the one that was dialled.
    #[error("{0} answered instead of the node dialled: correct its underlay address")]
    UnexpectedPeer(NodeAddr),
    /// The peer is of the network, and this node is configured not to be its neighbour.
    #[error("{0} is not in this node's `accept` list: add it there, or let it dial another node")]
    NotAccepted(NodeAddr),
    /// The peer wants more paths to this node than a link has.
    #[error(
        "{0} wants another path to this node: there are as many as a link has, or none are taken here"
    )]
    TooManyPaths(NodeAddr),
    /// The peer has this node's own address.
    #[error("the peer has this node's own address: it dialled itself, or two nodes share one")]
    Myself,
}

impl Handshakes {
    /// The handshakes of a node, with entropy that nobody else must know. Equal seeds and inputs
    /// give equal outputs.
    pub fn new(identity: Identity, network: Network, seed: [u8; 32], now: Time) -> Handshakes {
        Handshakes::between(Between::Neighbours, identity, network, seed, now)
    }

    /// The handshakes of a node with the other ends of paths, which are no neighbours. The seed may
    /// be that of [`Handshakes::new`]: what is drawn from it here has nothing to do with what is
    /// drawn there.
    pub fn of_ends(identity: Identity, network: Network, seed: [u8; 32], now: Time) -> Handshakes {
        let seed = crate::entropy::apart(&seed, b"sinew end to end seed 1");
        Handshakes::between(Between::Ends, identity, network, *seed, now)
    }

    fn between(
        between: Between,
        identity: Identity,
        network: Network,
        seed: [u8; 32],
        now: Time,
    ) -> Handshakes {
        let mut entropy = Entropy::new(seed);
        Handshakes {
            between,
            mac: NetworkMac::new(network.root_key()),
            cookies: Cookies::new(&entropy.draw(), now),
            limits: Limits::new(entropy.draw_u32(), now),
            table: Table::default(),
            identity: Arc::new(identity),
            network,
            entropy,
            post_quantum: PostQuantum::Off,
            rival: None,
        }
    }

    /// Who this node is.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }
    /// Puts a renewed certificate in place; handshakes under way end with the one they began with.
    pub fn set_identity(&mut self, identity: Identity) {
        self.identity = Arc::new(identity);
    }
    /// From the next handshake on, keys come from ML-KEM too, or not. At first they do not.
    pub fn set_post_quantum(&mut self, post_quantum: PostQuantum) {
        self.post_quantum = post_quantum;
    }
    /// The network, with its revocations, and with the roots that peers have proved.
    pub fn network(&self) -> &Network {
        &self.network
    }
    /// The network, to apply revocations and successions to.
    pub fn network_mut(&mut self) -> &mut Network {
        &mut self.network
    }

    /// The number of a root that a peer's certificate has proved since this was asked last, and whose place another one
    /// has here: two who have the root key before have made a successor.
    pub fn take_rival(&mut self) -> Option<u8> {
        self.rival.take()
    }

    /// Begins a handshake with whoever is at `to`, or with `expect` alone. Gives the Init to send.
    pub fn dial(
        &mut self,
        now: Time,
        to: UnderlayAddr,
        expect: Option<NodeAddr>,
    ) -> Result<Vec<u8>, DialError> {
        self.begin_dial(now, to, expect, false)
    }

    /// The same for a further path of a link to `peer`, which has told that it knows of such: its session stands beside
    /// those that there are.
    pub fn dial_further(
        &mut self,
        now: Time,
        to: UnderlayAddr,
        peer: NodeAddr,
    ) -> Result<Vec<u8>, DialError> {
        self.begin_dial(now, to, Some(peer), true)
    }

    /// Gives up dialling `to`. True if it was being dialled.
    pub fn hang_up(&mut self, to: UnderlayAddr) -> bool {
        let index = self.table.dial_to(to);
        index.is_some_and(|index| self.table.remove(index))
    }

    /// Handles a datagram of one of the four handshake kinds.
    pub fn on_datagram(
        &mut self,
        now: Time,
        unix_now_s: u64,
        from: UnderlayAddr,
        datagram: &[u8],
    ) -> Outcome {
        let outcome = match Kind::of(datagram) {
            Ok(Kind::HandshakeInit) => self.on_init(now, from, datagram),
            Ok(Kind::HandshakeResponse) => self.on_response(now, unix_now_s, from, datagram),
            Ok(Kind::HandshakeFinish) => self.on_finish(now, unix_now_s, from, datagram),
            Ok(Kind::Cookie) => self.on_cookie(from, datagram),
            Ok(Kind::KemKey | Kind::KemCiphertext) => self.on_piece(now, from, datagram),
            Ok(Kind::Data | Kind::Control) => Err(Refusal::Malformed(Malformed::Kind)),
            Err(malformed) => Err(Refusal::Malformed(malformed)),
        };
        outcome.unwrap_or_else(Outcome::Refused)
    }

    /// Does what has become due: repetitions, and handshakes that have grown too old.
    pub fn on_timeout(&mut self, now: Time) -> Vec<Due> {
        let mut due = Vec::new();
        while let Some(index) = self.table.take_due(now) {
            due.extend(self.on_due(now, index));
        }
        due
    }

    /// When [`Handshakes::on_timeout`] is wanted next.
    pub fn next_timeout(&self) -> Option<Time> {
        self.table.next_timeout()
    }

    /// The peer has spoken under a session that this side dialled.
    pub fn on_confirmed(&mut self, session: SessionIndex) {
        self.table.confirm(session);
    }

    /// Gives back the index of a session that was dropped.
    pub fn release(&mut self, session: SessionIndex) {
        self.table.release(session);
    }

    /// Indices in use: dials, half-open handshakes and sessions.
    pub fn indices_in_use(&self) -> usize {
        self.table.len()
    }
    /// The handshake of this index was answered and is not finished: what its peer seals may come before.
    pub fn is_half_open(&self, index: SessionIndex) -> bool {
        self.table.is_half_open(index)
    }
    /// This side has begun a handshake with `to`, and it is not finished yet.
    pub fn is_dialling(&self, to: UnderlayAddr) -> bool {
        self.table.dial_to(to).is_some()
    }
    /// The Init of the handshake with `to` that is under way, to be sent once more.
    pub fn init_to(&mut self, to: UnderlayAddr) -> Option<Vec<u8>> {
        let index = self.table.dial_to(to)?;
        self.table.dial(index).map(|dial| dial.init.to_vec())
    }
    /// Handshakes that were answered and not finished.
    pub fn half_open(&self) -> usize {
        self.table.half_open()
    }
    /// Handshakes that this side began and that are not finished.
    pub fn dials(&self) -> usize {
        self.table.dials()
    }

    /// What this node says that it speaks. One that requires hybrid sessions says no less: so its peer gets to show who
    /// it is, and both refuse the other by a name and a reason that are authentic.
    fn versions(&self) -> VersionRange {
        VersionRange {
            min: CLASSIC_VERSION,
            max: match self.post_quantum {
                PostQuantum::Off => CLASSIC_VERSION,
                PostQuantum::Prefer | PostQuantum::Require => HYBRID_VERSION,
            },
        }
    }

    /// What a Response says to an Init of which `common` is the highest version that both speak. Where that is too low, it
    /// says what is required: the dialler knows so that nothing comes of it, and an older one refuses it as it refuses any
    /// version that it did not offer.
    fn answered_version(&self, common: u8) -> u8 {
        match self.post_quantum {
            PostQuantum::Require => HYBRID_VERSION,
            PostQuantum::Off | PostQuantum::Prefer => common,
        }
    }

    /// Whether a session of this version may be made with `peer`.
    fn check_version(&self, version: u8, peer: &Peer) -> Result<(), Refusal> {
        match self.post_quantum {
            PostQuantum::Require if version < HYBRID_VERSION => {
                Err(Refusal::NotHybrid(peer.address()))
            }
            _ => Ok(()),
        }
    }

    /// Who holds `static_key`, if his certificate says so and counts. One that a newer root signed brings the proof of
    /// that root along, so a node that has slept through a rotation learns of it by the first handshake, whoever dials.
    fn verify(
        &mut self,
        unix_now_s: u64,
        certificate: &[u8],
        static_key: Option<&[u8]>,
    ) -> Result<Peer, Refusal> {
        let certificate = crate::Certificate::from_bytes(certificate)
            .map_err(|malformed| Refusal::Certificate(malformed.into()))?;
        self.network.learn(&certificate);
        let verified = self.network.verify(&certificate, unix_now_s);
        if verified == Err(CertificateError::BadSignature) {
            self.rival = self.network.rival_of(&certificate).or(self.rival);
        }
        let peer = verified?;
        // Without secrets there is no key to hold.
        let holds = static_key == Some(&certificate.fields().subject.static_key);
        if !holds && !self.network.suite().is_open() {
            return Err(Refusal::OtherKey);
        }
        if peer.address() == self.identity.address() {
            return Err(Refusal::Myself);
        }
        Ok(peer)
    }

    fn repeats(&self) -> dial::Repeats {
        match self.between {
            Between::Neighbours => dial::OF_NEIGHBOURS,
            Between::Ends => dial::OF_ENDS,
        }
    }

    /// How far behind the newest a datagram of a session may be.
    fn window(&self) -> usize {
        match self.between {
            Between::Neighbours => crate::replay::MAX_WINDOW,
            Between::Ends => crate::replay::MAX_WINDOW_OF_ENDS,
        }
    }

    /// What both sides hash into the handshake before its first message.
    fn prologue(&self, init: &[u8]) -> Vec<u8> {
        let header = &init[..wire::handshake::init::NOISE.start];
        let label: &[u8] = match self.between {
            Between::Neighbours => b"sinew handshake 1",
            Between::Ends => b"sinew end to end 1",
        };
        [label, self.network.root_key().as_slice(), header].concat()
    }
}

/// Shows no keys.
impl core::fmt::Debug for Handshakes {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Handshakes")
            .field("between", &self.between)
            .field("indices", &self.indices_in_use())
            .finish_non_exhaustive()
    }
}

impl Due {
    fn send(to: UnderlayAddr, datagram: &[u8]) -> Due {
        let datagram = datagram.to_vec();
        Due::Send { to, datagram }
    }
}

impl Refusal {
    /// A short stable word for metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Refusal::Malformed(_) => "malformed",
            Refusal::Mac => "mac",
            Refusal::Version => "version",
            Refusal::Stale => "stale",
            Refusal::Address => "address",
            Refusal::Crossed => "crossed",
            Refusal::TooMany => "too-many",
            Refusal::TooManyOfSource => "too-many-of-source",
            Refusal::Full => "full",
            Refusal::Noise => "noise",
            Refusal::Certificate(error) => error.label(),
            Refusal::Kem => "kem",
            Refusal::NotHybrid(_) => "not-hybrid",
            Refusal::HybridAlone(_) => "hybrid-alone",
            Refusal::OtherKey => "other-key",
            Refusal::UnexpectedPeer(_) => "unexpected-peer",
            Refusal::NotAccepted(_) => "not-accepted",
            Refusal::TooManyPaths(_) => "too-many-paths",
            Refusal::Myself => "myself",
        }
    }
}

#[cfg(test)]
mod tests;
