//! The handshakes of one node: dialling, answering, and the session indices in use.
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
//! Noise XX proves who holds which static key and hides both certificates from listeners; the certificate in the
//! payload must name exactly that key. The prologue binds the network's root key, the dialler's index and the range of
//! versions; the sealed copy of the response's header binds the rest. Only the dialler repeats Init and Finish. So a
//! responder has no timer except the age of half-open handshakes, and answers a repeated Init with the same bytes.
//!
//! If both sides support version 2, the session also has keys of ML-KEM; `hybrid` handles what then follows the Finish.
//! The range of versions and the choice are authenticated, so nobody between the two can force a downgrade.
//!
//! If two nodes dial each other at once, each sees the other's Init while its own is out. The Init whose ephemeral key
//! is lower continues, and both sides know which. The other one is not answered while it is young, so that one session
//! results. (It is answered later, since the lower one may never arrive.) If both succeed all the same,
//! [`crate::Sessions`] handles both.

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

/// The parties of a session. Messages of one kind of handshake are invalid in the other kind, because its name is
/// hashed into the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Between {
    /// Neighbors, which exchange datagrams of the underlay.
    Neighbours,
    /// The two ends of a path, which exchange packets of the overlay. The node's address takes the place of the
    /// underlay address.
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
    /// The number of a root that a peer has proved, while another root has this number here.
    rival: Option<u8>,
}

/// The result of a handshake datagram.
#[derive(Debug)]
pub enum Outcome {
    /// Datagrams to send to the address that the datagram came from, one after the other. Empty if it was part of a
    /// larger message.
    Reply(Vec<Vec<u8>>),
    /// A request to come again with this cookie. Send it to the address that the datagram came from.
    Cookie([u8; COOKIE_BYTES]),
    /// A neighbor has proved its identity.
    Established(Box<Established>),
    /// The datagram was refused. Count it by [`Refusal::label`].
    Refused(Refusal),
    /// A dial has failed for a reason that repetition does not remove. Count it, report it to the operator, and dial
    /// again after a while.
    Failed {
        /// The address that was dialled.
        to: UnderlayAddr,
        /// The node that was expected there.
        expect: Option<NodeAddr>,
        /// The reason.
        reason: Refusal,
        /// A datagram to send to `to` all the same, so that the peer also learns the reason.
        reply: Option<Vec<u8>>,
    },
}

/// A session and the neighbor of the session.
#[derive(Debug)]
pub struct Established {
    /// The session, for the neighbor's [`crate::Sessions`].
    pub session: Session,
    /// The neighbor's verified identity.
    pub peer: Peer,
    /// The address from which its datagrams come.
    pub from: UnderlayAddr,
    /// The node that was expected when this side dialled.
    pub expect: Option<NodeAddr>,
    /// The dialling side intends the session for a further path of the link, and not for a move.
    pub is_further: bool,
    /// Datagrams to send to `from` before any sealed datagram, one after the other.
    pub reply: Vec<Vec<u8>>,
}

/// An event caused by the passage of time.
#[derive(Debug, PartialEq, Eq)]
pub enum Due {
    /// A datagram must be repeated.
    Send {
        /// The address to send it to.
        to: UnderlayAddr,
        /// The datagram.
        datagram: Vec<u8>,
    },
    /// Nobody answered a dial.
    GaveUp {
        /// The address that was dialled.
        to: UnderlayAddr,
        /// The node that was expected there.
        expect: Option<NodeAddr>,
    },
    /// The peer has answered, and sent nothing more.
    Unfinished {
        /// The address that was dialled.
        to: UnderlayAddr,
        /// The node that was expected there.
        expect: Option<NodeAddr>,
    },
    /// The peer never sent anything in a session in which this side sent the last handshake message. Remove the session
    /// from its `Sessions` and release it.
    Unconfirmed {
        /// The index of the session.
        session: SessionIndex,
        /// The address of the peer.
        to: UnderlayAddr,
    },
}

/// Why a dial was not started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DialError {
    /// That address is already being dialled.
    #[error("that address is being dialled already: wait for the outcome")]
    InProgress,
    /// [`crate::limits::MAX_DIALS`] or [`crate::limits::MAX_INDICES`] has been reached.
    #[error("too many dials or sessions at once: dial fewer neighbours")]
    TooMany,
}

/// Why a handshake datagram was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Refusal {
    /// The datagram cannot be decoded.
    #[error("malformed handshake: {0}")]
    Malformed(#[from] Malformed),
    /// Its mac1 is wrong.
    #[error("mac1 does not fit: the sender is of another network, or none")]
    Mac,
    /// The two sides have no version in common.
    #[error("no version in common: upgrade the older of the two nodes")]
    Version,
    /// The datagram belongs to no present handshake.
    #[error("belongs to no handshake that is under way: late or repeated")]
    Stale,
    /// The datagram comes from another address than the start of its handshake.
    #[error("comes from another address than the handshake began with")]
    Address,
    /// Both sides dialled, and the other handshake continues.
    #[error("both sides dialled at once, and the other handshake goes on")]
    Crossed,
    /// There are too many handshakes.
    #[error("too many handshakes per second: the limit is in secure::limits")]
    TooMany,
    /// There are too many handshakes from one source.
    #[error("too many handshakes per second from one source: the limit is in secure::limits")]
    TooManyOfSource,
    /// A table is full.
    #[error("too many handshakes or sessions at once: the limit is in secure::limits")]
    Full,
    /// The Noise message is not authentic.
    #[error("the Noise message is not authentic: damaged or forged")]
    Noise,
    /// The peer's certificate is not valid.
    #[error("the peer's certificate does not count: {0}")]
    Certificate(#[from] CertificateError),
    /// A piece of a key or of a ciphertext is not authentic, or the key is invalid.
    #[error("what it has sent for ML-KEM is damaged or forged")]
    Kem,
    /// The peer does not make hybrid sessions.
    #[error(
        "{0} makes no post-quantum session, which `post_quantum = \"require\"` demands here: upgrade it and set its \
         `post_quantum`, or set \"prefer\" here"
    )]
    NotHybrid(NodeAddr),
    /// The peer only makes hybrid sessions.
    #[error(
        "{0} makes post-quantum sessions alone, by its `post_quantum = \"require\"`: set `post_quantum = \"prefer\"` here"
    )]
    HybridAlone(NodeAddr),
    /// The peer does not hold the key that its certificate names.
    #[error("the peer showed a certificate of another key than it holds")]
    OtherKey,
    /// A different node answered than the one that was dialled.
    #[error("{0} answered instead of the node dialled: correct its underlay address")]
    UnexpectedPeer(NodeAddr),
    /// The peer is of the network, and this node is configured not to be its neighbor.
    #[error("{0} is not in this node's `accept` list: add it there, or let it dial another node")]
    NotAccepted(NodeAddr),
    /// The peer wants more paths to this node than a link can have.
    #[error(
        "{0} wants another path to this node: there are as many as a link has, or none are taken here"
    )]
    TooManyPaths(NodeAddr),
    /// The peer has this node's own address.
    #[error("the peer has this node's own address: it dialled itself, or two nodes share one")]
    Myself,
}

impl Handshakes {
    /// Creates the handshakes of a node, with entropy that must be known to nobody else. Equal seeds and inputs give
    /// equal outputs.
    pub fn new(identity: Identity, network: Network, seed: [u8; 32], now: Time) -> Handshakes {
        Handshakes::between(Between::Neighbours, identity, network, seed, now)
    }

    /// Creates the handshakes of a node with the other ends of paths, which are not neighbors. The seed may be the same
    /// as for [`Handshakes::new`]: the numbers that are drawn here are independent of those.
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

    /// Returns the identity of this node.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }
    /// Installs a renewed certificate. Handshakes under way end with the certificate they began with.
    pub fn set_identity(&mut self, identity: Identity) {
        self.identity = Arc::new(identity);
    }
    /// Sets whether sessions also use ML-KEM keys, from the next handshake on. The default is off.
    pub fn set_post_quantum(&mut self, post_quantum: PostQuantum) {
        self.post_quantum = post_quantum;
    }
    /// Returns the network, with its revocations, and with the roots that peers have proved.
    pub fn network(&self) -> &Network {
        &self.network
    }
    /// Returns the network, for applying revocations and successions.
    pub fn network_mut(&mut self) -> &mut Network {
        &mut self.network
    }

    /// Returns the number of a root that a peer's certificate has proved since the last call, while another root has
    /// this number here: two parties that hold the previous root key have each made a successor.
    pub fn take_rival(&mut self) -> Option<u8> {
        self.rival.take()
    }

    /// Starts a handshake with any node at `to`, or only with `expect`. Returns the Init to send.
    pub fn dial(
        &mut self,
        now: Time,
        to: UnderlayAddr,
        expect: Option<NodeAddr>,
    ) -> Result<Vec<u8>, DialError> {
        self.begin_dial(now, to, expect, false)
    }

    /// Does the same for a further path of a link to `peer`, which has reported that it supports such paths. The
    /// session is used beside the existing ones.
    pub fn dial_further(
        &mut self,
        now: Time,
        to: UnderlayAddr,
        peer: NodeAddr,
    ) -> Result<Vec<u8>, DialError> {
        self.begin_dial(now, to, Some(peer), true)
    }

    /// Stops dialling `to`. Returns true if it was being dialled.
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

    /// Does what is due: repetitions, and removal of handshakes that have grown too old.
    pub fn on_timeout(&mut self, now: Time) -> Vec<Due> {
        let mut due = Vec::new();
        while let Some(index) = self.table.take_due(now) {
            due.extend(self.on_due(now, index));
        }
        due
    }

    /// Returns when [`Handshakes::on_timeout`] must be called next.
    pub fn next_timeout(&self) -> Option<Time> {
        self.table.next_timeout()
    }

    /// Records that the peer has used a session that this side dialled.
    pub fn on_confirmed(&mut self, session: SessionIndex) {
        self.table.confirm(session);
    }

    /// Returns the index of a dropped session to the pool.
    pub fn release(&mut self, session: SessionIndex) {
        self.table.release(session);
    }

    /// Returns the number of indices in use: dials, half-open handshakes and sessions.
    pub fn indices_in_use(&self) -> usize {
        self.table.len()
    }
    /// Returns true if the handshake of this index was answered and is not finished. Sealed datagrams of its peer may
    /// arrive before it is.
    pub fn is_half_open(&self, index: SessionIndex) -> bool {
        self.table.is_half_open(index)
    }
    /// Returns true if this side has started a handshake with `to` that is not finished yet.
    pub fn is_dialling(&self, to: UnderlayAddr) -> bool {
        self.table.dial_to(to).is_some()
    }
    /// Returns the Init of the present handshake with `to`, to send it once more.
    pub fn init_to(&mut self, to: UnderlayAddr) -> Option<Vec<u8>> {
        let index = self.table.dial_to(to)?;
        self.table.dial(index).map(|dial| dial.init.to_vec())
    }
    /// Returns the number of handshakes that were answered and are not finished.
    pub fn half_open(&self) -> usize {
        self.table.half_open()
    }
    /// Returns the number of handshakes that this side started and that are not finished.
    pub fn dials(&self) -> usize {
        self.table.dials()
    }

    /// Returns the versions that this node announces. A node that requires hybrid sessions still announces the classic
    /// version. So its peer can show its identity, and both can refuse the other with a name and a reason that are
    /// authentic.
    fn versions(&self) -> VersionRange {
        VersionRange {
            min: CLASSIC_VERSION,
            max: match self.post_quantum {
                PostQuantum::Off => CLASSIC_VERSION,
                PostQuantum::Prefer | PostQuantum::Require => HYBRID_VERSION,
            },
        }
    }

    /// Returns the version in a Response to an Init, where `common` is the highest version that both support. If that
    /// is too low, the Response contains the required version. The dialler then knows why the handshake fails, and an
    /// older dialler refuses it as it refuses any version that it did not offer.
    fn answered_version(&self, common: u8) -> u8 {
        match self.post_quantum {
            PostQuantum::Require => HYBRID_VERSION,
            PostQuantum::Off | PostQuantum::Prefer => common,
        }
    }

    /// Checks whether a session of this version may be made with `peer`.
    fn check_version(&self, version: u8, peer: &Peer) -> Result<(), Refusal> {
        match self.post_quantum {
            PostQuantum::Require if version < HYBRID_VERSION => {
                Err(Refusal::NotHybrid(peer.address()))
            }
            _ => Ok(()),
        }
    }

    /// Returns the holder of `static_key`, if the certificate names that key and is valid. A certificate that a newer
    /// root signed carries the proof of that root. So a node that has missed a rotation learns of it in the first
    /// handshake, whichever side dials.
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
        // In a network without secrets there is no key to hold.
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

    /// Returns how far a datagram of a session may be behind the newest one.
    fn window(&self) -> usize {
        match self.between {
            Between::Neighbours => crate::replay::MAX_WINDOW,
            Between::Ends => crate::replay::MAX_WINDOW_OF_ENDS,
        }
    }

    /// Returns what both sides hash into the handshake before its first message.
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
    /// Returns a short stable word for metrics.
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
