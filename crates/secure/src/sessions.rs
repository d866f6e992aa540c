//! The sessions with one neighbor: one that seals, and others that still open.
//!
//! ```text
//!   spoke last: Established -> unconfirmed -> (first datagram opened) confirmed -> sealing
//!   has heard:  Established -------------------------------------> confirmed -> sealing
//!   superseded by a newer confirmed one: opens only; dropped when silent for GRACE,
//!                                        unless the peer was last heard under it
//! ```
//!
//! The dialler of a classic session sends the last message, and the responder of a hybrid one. Its peer has the keys
//! only after that. Until a datagram of the session has been opened, an older session continues to seal. The peer may
//! also continue to seal under the older session, so that session opens until it has been silent for [`GRACE`]:
//! rekeying loses nothing in flight. If two handshakes cross and each side prefers another session, both stay, each
//! used in one direction. Nothing is lost in this case either, even if an outage is longer than [`GRACE`].

use crate::session::{Bound, OpenError, Opened, SealError, Session};
use base::{Duration, Time};
use wire::link::{Clear, Kind, SessionIndex};

/// How long a superseded session may be silent before it is dropped: longer than any packet stays in a network or in a
/// history for recovery.
pub const GRACE: Duration = Duration::from_secs(5);
/// The maximum number of sessions with one neighbor: the sealing one, one unconfirmed, and the superseded ones of two
/// handshakes that crossed.
pub const MAX_HELD: usize = 4;

/// The sessions with one neighbor.
#[derive(Debug, Default)]
pub struct Sessions {
    /// The sessions, oldest first. There are few, so a linear search is enough.
    held: Vec<Held>,
    /// The session in which the peer was last heard: the one with which the peer seals, as far as is known here.
    peers: Option<SessionIndex>,
}

#[derive(Debug)]
struct Held {
    session: Session,
    confirmed: bool,
    /// When the session last opened something, was installed, or was superseded. After an outage that was longer than
    /// [`GRACE`], the peer seals with the superseded session until it knows the new one.
    used: Time,
}

impl Sessions {
    /// Creates an empty set of sessions.
    pub fn new() -> Sessions {
        Sessions::default()
    }

    /// Adds a session that was established with this neighbor. Returns the index of a session that had to make room;
    /// the caller must release it.
    pub fn install(&mut self, now: Time, session: Session) -> Option<SessionIndex> {
        let confirmed = !session.is_unconfirmed();
        let evicted = (self.held.len() >= MAX_HELD)
            .then(|| self.evictable().map(|at| self.held.remove(at)))
            .flatten();
        if confirmed {
            self.supersede(now);
        }
        self.held.push(Held {
            session,
            confirmed,
            used: now,
        });
        evicted.map(|held| held.session.local_index())
    }

    /// Seals in place under the newest session that the peer is known to have.
    pub fn seal(&mut self, kind: Kind, datagram: &mut [u8]) -> Result<u64, SealError> {
        let at = self.sealing().ok_or(SealError::NoSession)?;
        self.held[at].session.seal(kind, datagram)
    }

    /// Does the same for a datagram inside a packet, with the data around it.
    pub fn seal_bound(
        &mut self,
        kind: Kind,
        datagram: &mut [u8],
        bound: &Bound,
    ) -> Result<u64, SealError> {
        let at = self.sealing().ok_or(SealError::NoSession)?;
        self.held[at].session.seal_bound(kind, datagram, bound)
    }

    /// Opens in place under the session whose index the datagram contains.
    pub fn open(&mut self, now: Time, datagram: &mut [u8]) -> Result<Opened, OpenError> {
        self.open_with(now, datagram, Session::open)
    }

    /// Does the same for a datagram inside a packet, with the data around it.
    pub fn open_bound(
        &mut self,
        now: Time,
        datagram: &mut [u8],
        bound: &Bound,
    ) -> Result<Opened, OpenError> {
        self.open_with(now, datagram, |session, datagram| {
            session.open_bound(datagram, bound)
        })
    }

    #[inline]
    fn open_with(
        &mut self,
        now: Time,
        datagram: &mut [u8],
        open: impl FnOnce(&mut Session, &mut [u8]) -> Result<Opened, OpenError>,
    ) -> Result<Opened, OpenError> {
        let clear = Clear::parse(datagram).map_err(|_| OpenError::Short)?;
        let at = self
            .held
            .iter()
            .rposition(|held| held.session.local_index() == clear.session)
            .ok_or(OpenError::NoSession)?;
        let held = &mut self.held[at];
        let mut opened = open(&mut held.session, datagram)?;
        opened.confirms = !held.confirmed;
        held.confirmed = true;
        held.used = now;
        self.peers = Some(clear.session);
        if opened.confirms {
            self.supersede(now);
        }
        Ok(opened)
    }

    /// Records that a new session has superseded the present ones.
    fn supersede(&mut self, now: Time) {
        for held in &mut self.held {
            held.used = now;
        }
    }

    /// Returns true if there is no session, so that nothing can be sealed.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
    /// Returns the session that seals.
    pub fn current(&self) -> Option<&Session> {
        self.sealing().map(|at| &self.held[at].session)
    }
    /// Returns the session of this index.
    pub fn by_index(&self, index: SessionIndex) -> Option<&Session> {
        self.iter().find(|session| session.local_index() == index)
    }
    /// Returns all sessions, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Session> {
        self.held.iter().map(|held| &held.session)
    }
    /// Returns true if the neighbor should be dialled for a new session.
    pub fn wants_rekey(&self, now: Time) -> bool {
        let newer_is_coming = self.held.last().is_some_and(|held| !held.confirmed);
        !newer_is_coming
            && self
                .current()
                .is_some_and(|session| session.wants_rekey(now))
    }

    /// Drops one session. Returns true if it existed.
    pub fn remove(&mut self, index: SessionIndex) -> bool {
        let before = self.held.len();
        self.held.retain(|held| held.session.local_index() != index);
        self.held.len() < before
    }
    /// Drops all sessions, as when the neighbor was revoked, and returns their indices.
    pub fn clear(&mut self) -> impl Iterator<Item = SessionIndex> {
        self.held.drain(..).map(|held| held.session.local_index())
    }

    /// Drops a session that is superseded and silent, or too old, and returns its index, which the caller must release.
    /// The caller repeats this until it returns `None`.
    pub fn expire(&mut self, now: Time) -> Option<SessionIndex> {
        let at = (0..self.held.len()).find(|&at| self.end_of(at) <= now)?;
        Some(self.held.remove(at).session.local_index())
    }
    /// Returns when [`Sessions::expire`] is due next.
    pub fn next_timeout(&self) -> Option<Time> {
        (0..self.held.len()).map(|at| self.end_of(at)).min()
    }

    /// Returns the newest confirmed session; before the first is confirmed, the newest.
    fn sealing(&self) -> Option<usize> {
        let confirmed = self.held.iter().rposition(|held| held.confirmed);
        confirmed.or(self.held.len().checked_sub(1))
    }
    /// Returns the oldest session with which neither end seals.
    fn evictable(&self) -> Option<usize> {
        let sealing = self.sealing();
        (0..self.held.len()).find(|at| Some(*at) != sealing && !self.is_peers(*at))
    }

    fn is_peers(&self, at: usize) -> bool {
        Some(self.held[at].session.local_index()) == self.peers
    }

    fn end_of(&self, at: usize) -> Time {
        let held = &self.held[at];
        let oldest = held.session.established() + crate::session::MAX_AGE;
        let superseded = self.sealing().is_some_and(|sealing| at < sealing);
        if superseded && !self.is_peers(at) {
            oldest.min(held.used + GRACE)
        } else {
            oldest
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{MAX_AGE, Parts, REKEY_AFTER, Shown};
    use wire::link::SEAL_BYTES;

    const T0: Time = Time::ZERO;

    /// Returns both ends of a session; the first end dialled it.
    fn pair(n: u32) -> (Session, Session) {
        let make = |dialled| {
            let (local, peer) = if dialled { (n, n + 100) } else { (n + 100, n) };
            let parts = Parts {
                shown: Shown::default(),
                local_index: SessionIndex::new(local),
                peer_index: SessionIndex::new(peer),
                version: 1,
                dialled,
                keys: ([n as u8; 32], [n as u8 + 100; 32]),
                open: false,
                window: 1 << 16,
            };
            Session::new(parts, T0)
        };
        (make(true), make(false))
    }

    fn sealed(sessions: &mut Sessions) -> [u8; SEAL_BYTES] {
        let mut datagram = [0; SEAL_BYTES];
        sessions.seal(Kind::Control, &mut datagram).unwrap();
        datagram
    }

    fn current(sessions: &Sessions) -> u32 {
        sessions.current().unwrap().local_index().value()
    }

    #[test]
    fn without_a_session_nothing_is_sealed_or_opened() {
        let mut none = Sessions::new();
        let mut datagram = [0; SEAL_BYTES];
        let sealed = none.seal(Kind::Data, &mut datagram);
        assert_eq!(sealed, Err(SealError::NoSession));
        datagram[0] = Kind::Data.byte();
        assert_eq!(none.open(T0, &mut datagram), Err(OpenError::NoSession));
        datagram[0] = Kind::HandshakeInit.byte();
        assert_eq!(none.open(T0, &mut datagram), Err(OpenError::Short));
        assert_eq!(none.open(T0, &mut []), Err(OpenError::Short));
        assert!(none.is_empty() && !none.wants_rekey(T0));
        assert_eq!(none.next_timeout(), None);
    }

    #[test]
    fn the_dialler_changes_over_when_the_peer_has_spoken_and_the_peer_at_once() {
        let (mut a, mut b) = (Sessions::new(), Sessions::new());
        let (first, other) = pair(1);
        a.install(T0, first);
        b.install(T0, other);
        assert_eq!(current(&a), 1, "better than nothing");
        assert!(a.open(T0, &mut sealed(&mut b)).unwrap().confirms);
        assert!(!a.open(T0, &mut sealed(&mut b)).unwrap().confirms);

        let (second, other) = pair(2);
        a.install(T0, second);
        assert_eq!(current(&a), 1, "the peer may not have the new keys");
        let mut in_flight = sealed(&mut a);
        b.install(T0, other);
        assert_eq!(current(&b), 102);
        assert!(b.open(T0, &mut in_flight).is_ok());
        assert!(a.open(T0, &mut sealed(&mut b)).unwrap().confirms);
        assert_eq!(current(&a), 2);
    }

    #[test]
    fn a_superseded_session_opens_until_it_has_been_silent_for_a_while() {
        let (mut a, mut b) = (Sessions::new(), Sessions::new());
        let ((first, old), (second, new)) = (pair(1), pair(2));
        a.install(T0, first);
        b.install(T0, old);
        b.install(T0, new);
        let mut late = [sealed(&mut a), sealed(&mut a), sealed(&mut a)];
        let at = |s| T0 + Duration::from_secs(s);
        assert_eq!(b.next_timeout(), Some(T0 + GRACE));
        assert!(b.open(at(4), &mut late[0]).is_ok());
        assert_eq!(b.expire(at(60)), None, "the peer seals under it yet");
        a.install(at(60), second);
        assert!(a.open(at(60), &mut sealed(&mut b)).unwrap().confirms);
        assert!(b.open(at(60), &mut sealed(&mut a)).is_ok());
        assert!(b.open(at(61), &mut late[1]).is_ok(), "it was under way");
        assert!(b.open(at(61), &mut sealed(&mut a)).is_ok());
        assert_eq!(b.expire(at(65)), None, "used at 61 s");
        assert_eq!(b.expire(at(66)), Some(SessionIndex::new(101)));
        assert_eq!(b.expire(at(66)), None);
        assert_eq!(b.open(at(66), &mut late[2]), Err(OpenError::NoSession));
        assert_eq!(b.next_timeout(), Some(T0 + MAX_AGE));
        assert_eq!(b.expire(T0 + MAX_AGE), Some(SessionIndex::new(102)));
        assert!(b.is_empty());
    }

    #[test]
    fn a_session_that_was_silent_for_long_has_its_grace_from_when_it_is_superseded() {
        let (mut a, mut b) = (Sessions::new(), Sessions::new());
        let ((first, old), (_, new)) = (pair(1), pair(2));
        a.install(T0, first);
        b.install(T0, old);
        // There is an outage of 30 s, then a handshake of which only one end knows.
        let healed = T0 + Duration::from_secs(30);
        b.install(healed, new);
        assert_eq!(b.expire(healed + GRACE.div(2)), None);
        let mut datagram = sealed(&mut a);
        assert!(b.open(healed + GRACE.div(2), &mut datagram).is_ok());
    }

    #[test]
    fn of_two_handshakes_that_crossed_both_sessions_outlast_an_outage() {
        let (mut a, mut b) = (Sessions::new(), Sessions::new());
        let ((by_a, at_b), (by_b, at_a)) = (pair(1), pair(2));
        // Each side first installs its own session, then the one that the other side dialled, and continues with that
        // one.
        a.install(T0, by_a);
        b.install(T0, by_b);
        a.install(T0, at_a);
        b.install(T0, at_b);
        assert!(b.open(T0, &mut sealed(&mut a)).is_ok());
        assert!(a.open(T0, &mut sealed(&mut b)).is_ok());
        let healed = T0 + GRACE * 10;
        assert_eq!((a.expire(healed), b.expire(healed)), (None, None));
        assert!(b.open(healed, &mut sealed(&mut a)).is_ok());
        assert!(a.open(healed, &mut sealed(&mut b)).is_ok());
    }

    #[test]
    fn rekeying_is_wanted_once_and_not_while_a_new_session_is_coming() {
        let mut a = Sessions::new();
        let (first, mut peer) = pair(1);
        a.install(T0, first);
        let mut hello = [0; SEAL_BYTES];
        peer.seal(Kind::Control, &mut hello).unwrap();
        a.open(T0, &mut hello).unwrap();
        assert!(!a.wants_rekey(T0));
        assert!(a.wants_rekey(T0 + REKEY_AFTER));
        a.install(T0 + REKEY_AFTER, pair(2).0);
        assert!(!a.wants_rekey(T0 + REKEY_AFTER));
        assert!(a.remove(SessionIndex::new(2)), "it was never confirmed");
        assert!(a.wants_rekey(T0 + REKEY_AFTER));
        assert!(!a.remove(SessionIndex::new(2)));
    }

    #[test]
    fn few_are_held_and_the_sealing_one_is_not_evicted() {
        let mut b = Sessions::new();
        let (_, good) = pair(1);
        assert_eq!(b.install(T0, good), None);
        for n in 2..10 {
            // The session was dialled and never confirmed.
            let evicted = b.install(T0, pair(n).0).map(SessionIndex::value);
            let expected = (n > MAX_HELD as u32).then(|| n - MAX_HELD as u32 + 1);
            assert_eq!(evicted, expected);
            assert_eq!(current(&b), 101);
        }
        assert_eq!(b.clear().count(), MAX_HELD);
        assert!(b.is_empty());
    }
}
