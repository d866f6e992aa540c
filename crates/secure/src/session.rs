//! One session: a key and a counter per direction, sealing and opening in place.
//!
//! ```text
//!   | clear header 8 | plaintext ...      | room 16 |    seal: writes the header, encrypts, tags
//!   | clear header 8 | ciphertext ...     | tag 16  |    open: checks, decrypts
//!     '-- authenticated, not encrypted: kind, session, counter
//! ```
//!
//! The nonce is four zero bytes and the 64-bit counter, which is never used twice: each direction
//! has its own key, and a session ends before its counter could wrap. The counters also number the
//! datagrams of a link, so the link estimates its loss from them; they begin at 0 in each session.

use crate::replay::{MAX_WINDOW, Replay};
use base::seq::widen;
use base::{Duration, Time};
use core::ops::Range;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use wire::certificate::KEY_BYTES;
use wire::handshake::HYBRID_VERSION;
use wire::link::{CLEAR_BYTES, COUNTER_BITS, Clear, Kind, SEAL_BYTES, SessionIndex, TAG_BYTES};
use zeroize::Zeroize;

/// The maximum number of datagrams under one key. The advantage of an attacker against AES-GCM stays below 2^-57 while
/// datagrams times their 16-byte blocks stay below 2^35 (RFC 9001, B.1.1): 2^28 datagrams of up to 2^11 bytes. At 600
/// 000 datagrams per second that is 7 minutes.
pub const MAX_MESSAGES: u64 = 1 << 28;
/// Number of datagrams after which a new session is wanted: an eighth of the maximum. So even jumbo datagrams of 2^14
/// bytes stay within the bound, and at full rate 6 minutes remain to establish it.
pub const REKEY_AFTER_MESSAGES: u64 = MAX_MESSAGES / 8;
/// Age at which a new session is wanted, so that a stolen key opens at most ten minutes of traffic. With 1000 neighbors
/// at half a millisecond per handshake this costs a thousandth of one core.
pub const REKEY_AFTER: Duration = Duration::from_secs(600);
/// How much later the side that was dialled requests a new session, so that usually only one side does.
pub const REKEY_SPREAD: Duration = Duration::from_secs(60);
/// Age at which a session must not be used any more, five minutes after rekeying should have happened. A certificate
/// that has expired meanwhile also ends here.
pub const MAX_AGE: Duration = Duration::from_secs(900);

/// Number of bytes around a sealed datagram that its seal covers besides its own header: source, destination, ports and
/// flow sequence number of a packet's header.
pub const BOUND_BYTES: usize = 16;
/// The bytes around a datagram that are authenticated with it.
pub type Bound = [u8; BOUND_BYTES];

/// A session with one neighbor. Its keys are wiped when it is dropped.
pub struct Session {
    local_index: SessionIndex,
    peer_index: SessionIndex,
    shown: Shown,
    version: u8,
    dialled: bool,
    established: Time,
    sealing: Cipher,
    opening: Cipher,
    next_counter: u64,
    replay: Replay,
}

/// Why a datagram was not sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The key has sealed [`MAX_MESSAGES`] datagrams. A new handshake is overdue.
    #[error("the key has sealed as much as it may: a new handshake must succeed first")]
    Exhausted,
    /// There is no session with this neighbor.
    #[error("no session with this neighbour: a handshake must succeed first")]
    NoSession,
    /// The datagram has no room for header and tag.
    #[error("the datagram has no room for header and tag")]
    Short,
}

/// Why a datagram was not opened. The bytes may have been changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum OpenError {
    /// No session has the index in the datagram.
    #[error("no such session: the peer speaks under one that has ended")]
    NoSession,
    /// The datagram was opened before, or is too old to decide.
    #[error("replayed, or too old to tell")]
    Replay,
    /// The datagram is too short, or not of a sealed kind.
    #[error("too short, or of no sealed kind")]
    Short,
    /// The tag is wrong.
    #[error("the tag does not fit: damaged, or not from the neighbour")]
    Tag,
}

/// A datagram that was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The kind: data or control.
    pub kind: Kind,
    /// The index of its session.
    pub session: SessionIndex,
    /// The datagram's number in the sender's direction of the session.
    pub counter: u64,
    /// The position of the plaintext in the datagram.
    pub plaintext: Range<usize>,
    /// True if this is the first datagram of a session in whose handshake this side sent the last message: it proves
    /// that the peer has the session, too. Only [`crate::Sessions::open`] sets it; the caller reports it to
    /// `Handshakes::on_confirmed`.
    pub confirms: bool,
}

/// The peer's proof in the handshake. It is judged again when a root ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// The number of the root under which the peer's certificate was signed.
    pub root: u8,
    /// The key with which the peer signs.
    pub signing_key: [u8; KEY_BYTES],
}

/// The result of a handshake.
pub(crate) struct Parts {
    pub(crate) shown: Shown,
    pub(crate) local_index: SessionIndex,
    pub(crate) peer_index: SessionIndex,
    pub(crate) version: u8,
    pub(crate) dialled: bool,
    /// The keys of the two directions, the dialler's first.
    pub(crate) keys: ([u8; 32], [u8; 32]),
    /// True if nothing is sealed.
    pub(crate) open: bool,
    /// The maximum number of counters by which a datagram may be behind the newest one.
    pub(crate) window: usize,
}

impl Session {
    pub(crate) fn new(mut parts: Parts, now: Time) -> Session {
        let cipher = |key| Cipher::new(key, parts.open);
        let (of_dialler, of_responder) = (cipher(&parts.keys.0), cipher(&parts.keys.1));
        parts.keys.zeroize();
        let (sealing, opening) = if parts.dialled {
            (of_dialler, of_responder)
        } else {
            (of_responder, of_dialler)
        };
        Session {
            local_index: parts.local_index,
            peer_index: parts.peer_index,
            shown: parts.shown,
            version: parts.version,
            dialled: parts.dialled,
            established: now,
            sealing,
            opening,
            next_counter: 0,
            replay: Replay::up_to(parts.window),
        }
    }

    /// Creates a session without a handshake of its own, between two parties that have already agreed on everything: a
    /// client on another host and its node, inside TLS. Datagrams of both directions use `index`; `dialled` says
    /// whether this side uses the first of the `keys`. The keys must not be used for anything else, before or after.
    pub fn agreed(
        index: SessionIndex,
        dialled: bool,
        keys: ([u8; 32], [u8; 32]),
        now: Time,
    ) -> Session {
        let parts = Parts {
            shown: Shown::default(),
            local_index: index,
            peer_index: index,
            version: 1,
            dialled,
            keys,
            open: false,
            window: MAX_WINDOW,
        };
        Session::new(parts, now)
    }

    /// Returns the index in datagrams to this node.
    pub fn local_index(&self) -> SessionIndex {
        self.local_index
    }
    /// Returns the index in datagrams to the peer.
    pub fn peer_index(&self) -> SessionIndex {
        self.peer_index
    }
    /// Returns the peer's proof in the handshake.
    pub fn shown(&self) -> &Shown {
        &self.shown
    }
    /// Returns the version of the data plane that both sides support.
    pub fn version(&self) -> u8 {
        self.version
    }
    /// Returns true if this side sent the Init.
    pub fn dialled(&self) -> bool {
        self.dialled
    }
    /// Returns true if the keys also come from ML-KEM.
    pub fn is_hybrid(&self) -> bool {
        self.version >= HYBRID_VERSION
    }
    /// Returns true if this side sent the last message of the handshake. Whether the peer has the session is only known
    /// when a datagram of it is opened; until then an older session is better.
    pub fn is_unconfirmed(&self) -> bool {
        self.dialled != self.is_hybrid()
    }
    /// Returns when the handshake ended on this side.
    pub fn established(&self) -> Time {
        self.established
    }
    /// Returns how many datagrams the session has sealed, which is the counter of the next one.
    pub fn sealed(&self) -> u64 {
        self.next_counter
    }
    /// Returns how many of the peer's datagrams from counter `first` (its low 32 bits) to `len` later have been opened;
    /// `None` if that is forgotten.
    pub fn opened(&self, first: u32, len: u32) -> Option<u32> {
        let from = widen(u64::from(first), COUNTER_BITS, self.replay.next());
        let opened = self.replay.count(from, from + u64::from(len))?;
        u32::try_from(opened).ok()
    }
    /// Returns true if a new session should replace this one soon.
    pub fn wants_rekey(&self, now: Time) -> bool {
        let spread = if self.dialled {
            Duration::ZERO
        } else {
            REKEY_SPREAD
        };
        self.next_counter >= REKEY_AFTER_MESSAGES
            || self.replay.next() >= REKEY_AFTER_MESSAGES + REKEY_AFTER_MESSAGES / 8
            || now.since(self.established) >= REKEY_AFTER + spread
    }
    /// Returns true if the session must not be used any more.
    pub fn is_expired(&self, now: Time) -> bool {
        now.since(self.established) >= MAX_AGE
    }

    /// Seals a datagram of `kind` in place: 8 bytes for the header, the plaintext, 16 bytes for the tag. Returns its
    /// counter.
    pub fn seal(&mut self, kind: Kind, datagram: &mut [u8]) -> Result<u64, SealError> {
        self.seal_beside(kind, datagram, None)
    }

    /// Does the same for a datagram inside a packet: `bound` is the data around it that must arrive unchanged.
    pub fn seal_bound(
        &mut self,
        kind: Kind,
        datagram: &mut [u8],
        bound: &Bound,
    ) -> Result<u64, SealError> {
        self.seal_beside(kind, datagram, Some(bound))
    }

    #[inline]
    fn seal_beside(
        &mut self,
        kind: Kind,
        datagram: &mut [u8],
        bound: Option<&Bound>,
    ) -> Result<u64, SealError> {
        let counter = self.next_counter;
        let clear = (kind, self.peer_index);
        self.sealing
            .seal_datagram(clear, counter, datagram, bound)?;
        self.next_counter = counter + 1;
        Ok(counter)
    }

    /// Opens a datagram in place. Its index must belong to this session.
    pub fn open(&mut self, datagram: &mut [u8]) -> Result<Opened, OpenError> {
        self.open_beside(datagram, None)
    }

    /// Does the same for a datagram that [`Session::seal_bound`] has sealed.
    pub fn open_bound(&mut self, datagram: &mut [u8], bound: &Bound) -> Result<Opened, OpenError> {
        self.open_beside(datagram, Some(bound))
    }

    #[inline]
    fn open_beside(
        &mut self,
        datagram: &mut [u8],
        bound: Option<&Bound>,
    ) -> Result<Opened, OpenError> {
        let clear = Clear::parse(datagram).map_err(|_| OpenError::Short)?;
        if datagram.len() < SEAL_BYTES {
            return Err(OpenError::Short);
        }
        let counter = widen(
            u64::from(clear.counter_low),
            COUNTER_BITS,
            self.replay.next(),
        );
        if !self.replay.is_fresh(counter) {
            return Err(OpenError::Replay);
        }
        let (header, sealed) = datagram.split_at_mut(CLEAR_BYTES);
        match bound {
            None => self.opening.open(counter, header, sealed)?,
            Some(bound) => self.opening.open(counter, &beside(header, bound), sealed)?,
        }
        self.replay.mark(counter);
        Ok(Opened {
            kind: clear.kind,
            session: self.local_index,
            counter,
            plaintext: CLEAR_BYTES..datagram.len() - TAG_BYTES,
            confirms: false,
        })
    }
}

/// Shows no keys.
impl core::fmt::Debug for Session {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Session")
            .field("local_index", &self.local_index)
            .field("peer_index", &self.peer_index)
            .field("dialled", &self.dialled)
            .field("established", &self.established)
            .field("sealed", &self.next_counter)
            .finish_non_exhaustive()
    }
}

impl OpenError {
    /// Returns a short stable word for metrics.
    pub const fn label(self) -> &'static str {
        match self {
            OpenError::NoSession => "no-session",
            OpenError::Replay => "replay",
            OpenError::Short => "short",
            OpenError::Tag => "tag",
        }
    }
}

impl SealError {
    /// Returns a short stable word for metrics.
    pub const fn label(self) -> &'static str {
        match self {
            SealError::Exhausted => "key-exhausted",
            SealError::NoSession => "no-session",
            SealError::Short => "short",
        }
    }
}

/// The cipher of one direction.
#[expect(
    clippy::large_enum_variant,
    reason = "real nodes have the large one only, and it must not cost them an indirection"
)]
pub(crate) enum Cipher {
    Sealed(LessSafeKey),
    /// The plaintext stays readable. The tag is made of key and counter: it detects datagrams of another session, but
    /// neither damage nor forgery.
    Open([u8; TAG_BYTES]),
}

impl Cipher {
    pub(crate) fn new(key: &[u8; 32], open: bool) -> Cipher {
        if open {
            let mut mark = [0; TAG_BYTES];
            mark.copy_from_slice(&key[..TAG_BYTES]);
            return Cipher::Open(mark);
        }
        let key = UnboundKey::new(&AES_256_GCM, key).expect("AES-256 keys have 32 bytes");
        Cipher::Sealed(LessSafeKey::new(key))
    }

    /// Seals a datagram in place: writes its header, and encrypts everything after it, up to the room for the tag.
    #[inline]
    pub(crate) fn seal_datagram(
        &self,
        (kind, session): (Kind, SessionIndex),
        counter: u64,
        datagram: &mut [u8],
        bound: Option<&Bound>,
    ) -> Result<(), SealError> {
        debug_assert!(kind.is_sealed());
        if datagram.len() < SEAL_BYTES {
            return Err(SealError::Short);
        }
        if counter >= MAX_MESSAGES {
            return Err(SealError::Exhausted);
        }
        let clear = Clear {
            kind,
            session,
            counter_low: counter as u32,
        };
        let header = clear.to_bytes();
        let (front, rest) = datagram.split_at_mut(CLEAR_BYTES);
        front.copy_from_slice(&header);
        let (plaintext, room) = rest.split_at_mut(rest.len() - TAG_BYTES);
        let tag = match bound {
            None => self.seal(counter, &header, plaintext)?,
            Some(bound) => self.seal(counter, &beside(&header, bound), plaintext)?,
        };
        room.copy_from_slice(&tag);
        Ok(())
    }

    #[inline]
    fn seal(
        &self,
        counter: u64,
        header: &[u8],
        plaintext: &mut [u8],
    ) -> Result<[u8; TAG_BYTES], SealError> {
        let key = match self {
            Cipher::Sealed(key) => key,
            Cipher::Open(mark) => return Ok(open_tag(mark, counter)),
        };
        let tag = key
            .seal_in_place_separate_tag(nonce(counter), Aad::from(header), plaintext)
            .map_err(|_| SealError::Short)?;
        let mut bytes = [0; TAG_BYTES];
        bytes.copy_from_slice(tag.as_ref());
        Ok(bytes)
    }

    /// Opens sealed bytes in place, with the tag behind them.
    #[inline]
    pub(crate) fn open(
        &self,
        counter: u64,
        header: &[u8],
        sealed: &mut [u8],
    ) -> Result<(), OpenError> {
        match self {
            Cipher::Sealed(key) => {
                key.open_in_place(nonce(counter), Aad::from(header), sealed)
                    .map_err(|_| OpenError::Tag)?;
                Ok(())
            }
            Cipher::Open(mark) if sealed.ends_with(&open_tag(mark, counter)) => Ok(()),
            Cipher::Open(_) => Err(OpenError::Tag),
        }
    }
}

/// Returns the authenticated bytes of a datagram inside a packet.
#[inline]
pub(crate) fn beside(header: &[u8], bound: &Bound) -> [u8; CLEAR_BYTES + BOUND_BYTES] {
    let mut bytes = [0; CLEAR_BYTES + BOUND_BYTES];
    let (front, back) = bytes.split_at_mut(CLEAR_BYTES);
    front.copy_from_slice(header);
    back.copy_from_slice(bound);
    bytes
}

fn open_tag(mark: &[u8; TAG_BYTES], counter: u64) -> [u8; TAG_BYTES] {
    (u128::from_be_bytes(*mark) ^ u128::from(counter)).to_be_bytes()
}

fn nonce(counter: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&counter.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}

#[cfg(test)]
mod tests;
