//! The sessions with one neighbour: one to seal with, and the others that still open.
//!
//! ```text
//!   dialled:   Established -> unconfirmed -> (first datagram opened) confirmed -> sealing
//!   was dialled: Established ------------------------------------> confirmed -> sealing
//!   superseded by a newer confirmed one: opens only; dropped when silent for GRACE
//! ```
//!
//! The peer of a dialled session has the keys only after the Finish; until something of it has
//! been opened, an older session goes on sealing. The peer may go on sealing under the older one
//! too, so it opens until it has been silent for [`GRACE`]: rekeying loses nothing in flight. If
//! two handshakes cross and each side prefers another session, both stay, each used in one
//! direction, and nothing is lost either.

use crate::session::{OpenError, Opened, SealError, Session};
use base::{Duration, Time};
use wire::link::{Clear, Kind, SessionIndex};

/// How long a superseded session may be silent before it is dropped: longer than any packet stays
/// in a network or in a history for recovery.
pub const GRACE: Duration = Duration::from_secs(5);
/// The most sessions with one neighbour: the sealing one, one unconfirmed, and the superseded ones
/// of two handshakes that crossed.
pub const MAX_HELD: usize = 4;

/// The sessions with one neighbour.
#[derive(Debug, Default)]
pub struct Sessions {
    /// Oldest first; few, so they are searched.
    held: Vec<Held>,
}

#[derive(Debug)]
struct Held {
    session: Session,
    confirmed: bool,
    /// When it last opened something, or was installed.
    used: Time,
}

impl Sessions {
    /// No session yet.
    pub fn new() -> Sessions {
        Sessions::default()
    }

    /// Takes a session that was established with this neighbour. Gives the index of one that had
    /// to make room, to be released.
    pub fn install(&mut self, now: Time, session: Session) -> Option<SessionIndex> {
        let confirmed = !session.dialled();
        let evicted = (self.held.len() >= MAX_HELD)
            .then(|| self.evictable().map(|at| self.held.remove(at)))
            .flatten();
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

    /// Opens in place under the session that the datagram names.
    pub fn open(&mut self, now: Time, datagram: &mut [u8]) -> Result<Opened, OpenError> {
        let clear = Clear::parse(datagram).map_err(|_| OpenError::Short)?;
        let held = self
            .held
            .iter_mut()
            .rev()
            .find(|held| held.session.local_index() == clear.session)
            .ok_or(OpenError::NoSession)?;
        let mut opened = held.session.open(datagram)?;
        opened.confirms = !held.confirmed;
        held.confirmed = true;
        held.used = now;
        Ok(opened)
    }

    /// True if nothing can be sealed.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
    /// The session that seals.
    pub fn current(&self) -> Option<&Session> {
        self.sealing().map(|at| &self.held[at].session)
    }
    /// All sessions, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Session> {
        self.held.iter().map(|held| &held.session)
    }
    /// The neighbour should be dialled for a new session.
    pub fn wants_rekey(&self, now: Time) -> bool {
        let newer_is_coming = self.held.last().is_some_and(|held| !held.confirmed);
        !newer_is_coming
            && self
                .current()
                .is_some_and(|session| session.wants_rekey(now))
    }

    /// Drops one session. True if it was
    /// held.
    pub fn remove(&mut self, index: SessionIndex) -> bool {
        let before = self.held.len();
        self.held.retain(|held| held.session.local_index() != index);
        self.held.len() < before
    }
    /// Drops all sessions, as when the neighbour was revoked, and gives their indices.
    pub fn clear(&mut self) -> impl Iterator<Item = SessionIndex> {
        self.held.drain(..).map(|held| held.session.local_index())
    }

    /// Drops sessions that are superseded and silent, or too old; each index is to be released.
    /// To be repeated until `None`.
    pub fn expire(&mut self, now: Time) -> Option<SessionIndex> {
        let at = (0..self.held.len()).find(|&at| self.end_of(at) <= now)?;
        Some(self.held.remove(at).session.local_index())
    }
    /// When [`Sessions::expire`] or a rekey is due next.
    pub fn next_timeout(&self) -> Option<Time> {
        (0..self.held.len()).map(|at| self.end_of(at)).min()
    }

    /// The newest confirmed one; before the first is confirmed, the newest.
    fn sealing(&self) -> Option<usize> {
        let confirmed = self.held.iter().rposition(|held| held.confirmed);
        confirmed.or(self.held.len().checked_sub(1))
    }
    /// The oldest that does not seal.
    fn evictable(&self) -> Option<usize> {
        let sealing = self.sealing();
        (0..self.held.len()).find(|at| Some(*at) != sealing)
    }
    fn end_of(&self, at: usize) -> Time {
        let held = &self.held[at];
        let oldest = held.session.established() + crate::session::MAX_AGE;
        let superseded = self.sealing().is_some_and(|sealing| at < sealing);
        if superseded {
            oldest.min(held.used + GRACE)
        } else {
            oldest
        }
    }
}
