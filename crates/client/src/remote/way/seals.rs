//! The keys of a way, and their replacement.
//!
//! A client asks for new keys over TLS when a link would repeat its handshake. The gate has them before it answers, so
//! the client uses them at once. The gate uses the former keys until something has arrived with the new ones, and both
//! ends accept either. Therefore, no packet in transit is lost.

use base::Time;
use core::ops::Range;
use secure::{OpenError, SealError, Session};
use wire::link::{CLEAR_BYTES, Kind, SessionIndex, TAG_BYTES};
use wire::remote::way::{KEYS_BYTES, Sealed};
use zeroize::Zeroizing;

/// The keys of both directions, as TLS exports them; they are wiped when they are dropped.
pub type Keys = Zeroizing<[u8; KEYS_BYTES]>;

/// Encrypts and decrypts the datagrams of one way.
#[derive(Debug)]
pub struct Seals {
    is_client: bool,
    current: Session,
    former: Option<Session>,
    /// The other side has the current keys: something arrived with them, or it created them.
    is_confirmed: bool,
    came: Came,
}

/// Counts of the datagrams that have arrived with the current keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Came {
    /// Number of datagrams.
    pub count: u64,
    /// The counter after the highest of them: at least this many were sent.
    pub of: u64,
}

/// A decrypted datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The range of the plaintext.
    pub plaintext: Range<usize>,
    /// True if none that was sent later has arrived before it.
    pub is_newest: bool,
}

impl Seals {
    /// Creates the seals with the first keys.
    pub fn new(index: SessionIndex, is_client: bool, keys: &Keys, now: Time) -> Seals {
        Seals {
            is_client,
            current: session(index, is_client, keys, now),
            former: None,
            is_confirmed: true,
            came: Came::default(),
        }
    }

    /// Sets new keys. Returns the index whose datagrams are no longer accepted.
    pub fn renew(&mut self, index: SessionIndex, keys: &Keys, now: Time) -> Option<SessionIndex> {
        let fresh = session(index, self.is_client, keys, now);
        // If the current keys were never used, the former ones stay in use.
        let replaced = core::mem::replace(&mut self.current, fresh);
        let dropped = match self.is_confirmed {
            true => self.former.replace(replaced),
            false => Some(replaced),
        };
        self.is_confirmed = self.is_client;
        self.came = Came::default();
        dropped.map(|session| session.local_index())
    }

    /// Returns the indices whose datagrams are accepted.
    pub fn indices(&self) -> impl Iterator<Item = SessionIndex> {
        [Some(&self.current), self.former.as_ref()]
            .into_iter()
            .flatten()
            .map(Session::local_index)
    }

    /// Encrypts at the front of `room`, and returns the length.
    pub fn seal(
        &mut self,
        sealed: &Sealed<'_>,
        now: Time,
        room: &mut [u8],
    ) -> Result<usize, SealError> {
        let behind = room.get_mut(CLEAR_BYTES..).ok_or(SealError::Short)?;
        let len = sealed.emit(behind).map_err(|_| SealError::Short)?;
        let len = CLEAR_BYTES + len + TAG_BYTES;
        let datagram = room.get_mut(..len).ok_or(SealError::Short)?;
        let session = match &mut self.former {
            Some(former) if !self.is_confirmed => former,
            _ => &mut self.current,
        };
        if session.is_expired(now) {
            return Err(SealError::NoSession);
        }
        session.seal(Kind::Data, datagram)?;
        Ok(len)
    }

    /// Decrypts in place.
    pub fn open(&mut self, datagram: &mut [u8], now: Time) -> Result<Opened, OpenError> {
        let clear = wire::link::Clear::parse(datagram).map_err(|_| OpenError::Short)?;
        if clear.session == self.current.local_index() {
            let opened = self.current.open(datagram)?;
            self.is_confirmed = true;
            self.came.count += 1;
            let is_newest = opened.counter >= self.came.of;
            self.came.of = self.came.of.max(opened.counter + 1);
            return Ok(Opened {
                plaintext: opened.plaintext,
                is_newest,
            });
        }
        match &mut self.former {
            Some(former) if former.local_index() == clear.session && !former.is_expired(now) => {
                let opened = former.open(datagram)?;
                Ok(Opened {
                    plaintext: opened.plaintext,
                    // Until something has arrived with the current keys, these are in use.
                    is_newest: !self.is_confirmed,
                })
            }
            _ => Err(OpenError::NoSession),
        }
    }

    /// Returns true if new keys are wanted.
    pub fn wants_renewal(&self, now: Time) -> bool {
        self.current.wants_rekey(now)
    }

    /// Returns how many datagrams were encrypted with the current keys.
    pub fn sealed(&self) -> u64 {
        self.current.sealed()
    }

    /// Returns what has arrived with them.
    pub fn came(&self) -> Came {
        self.came
    }
}

fn session(index: SessionIndex, is_client: bool, keys: &Keys, now: Time) -> Session {
    let (mut of_client, mut of_gate) = (Zeroizing::new([0; 32]), Zeroizing::new([0; 32]));
    of_client.copy_from_slice(&keys[..32]);
    of_gate.copy_from_slice(&keys[32..]);
    Session::agreed(index, is_client, (*of_client, *of_gate), now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Duration;
    use secure::session::{MAX_AGE, REKEY_AFTER};

    fn keys(byte: u8) -> Keys {
        Keys::new([byte; KEYS_BYTES])
    }

    fn ends() -> (Seals, Seals) {
        let make = |is_client| Seals::new(SessionIndex::new(1), is_client, &keys(7), Time::ZERO);
        (make(true), make(false))
    }

    fn sealed(by: &mut Seals, now: Time) -> Vec<u8> {
        let mut room = [0; 100];
        let len = by.seal(&Sealed::Message(b"hello"), now, &mut room).unwrap();
        room[..len].to_vec()
    }

    fn open(by: &mut Seals, datagram: &[u8], now: Time) -> Result<bool, OpenError> {
        let mut datagram = datagram.to_vec();
        let opened = by.open(&mut datagram, now)?;
        let plaintext = Sealed::parse(&datagram[opened.plaintext]);
        assert_eq!(plaintext, Ok(Sealed::Message(b"hello")));
        Ok(opened.is_newest)
    }

    #[test]
    fn each_is_taken_once_and_the_newest_is_known() {
        let (mut client, mut gate) = ends();
        let now = Time::ZERO;
        let [first, second] = [(); 2].map(|()| sealed(&mut client, now));
        assert_eq!(open(&mut gate, &second, now), Ok(true));
        assert_eq!(open(&mut gate, &first, now), Ok(false));
        assert_eq!(open(&mut gate, &first, now), Err(OpenError::Replay));
        assert_eq!(gate.came(), Came { count: 2, of: 2 });
        let mut forged = sealed(&mut client, now);
        *forged.last_mut().unwrap() ^= 1;
        assert_eq!(open(&mut gate, &forged, now), Err(OpenError::Tag));
        forged[3] = 9;
        assert_eq!(open(&mut gate, &forged, now), Err(OpenError::NoSession));
        let back = sealed(&mut gate, now);
        assert_eq!(open(&mut client, &back, now), Ok(true));
    }

    #[test]
    fn a_change_of_keys_loses_nothing_that_is_on_its_way() {
        let (mut client, mut gate) = ends();
        let later = Time::ZERO + REKEY_AFTER;
        assert!(!client.wants_renewal(Time::ZERO) && client.wants_renewal(later));
        let before = sealed(&mut client, later);
        let two = SessionIndex::new(2);
        assert_eq!(gate.renew(two, &keys(8), later), None);
        // The gate does not know yet whether the client has the keys.
        let early = sealed(&mut gate, later);
        assert_eq!(open(&mut client, &early, later), Ok(true));
        assert_eq!(client.renew(two, &keys(8), later), None);
        let after = sealed(&mut client, later);
        assert_eq!(open(&mut gate, &after, later), Ok(true));
        assert_eq!(open(&mut gate, &before, later), Ok(false));
        let back = sealed(&mut gate, later);
        assert_eq!(&back[1..4], [0, 0, 2]);
        assert_eq!(open(&mut client, &back, later), Ok(true));
        assert!(!client.wants_renewal(later));
        assert_eq!(
            gate.indices().map(SessionIndex::value).collect::<Vec<_>>(),
            [2, 1]
        );
        // The next replacement drops the oldest keys; keys that nobody used are themselves replaced.
        assert_eq!(
            gate.renew(SessionIndex::new(3), &keys(9), later),
            Some(SessionIndex::new(1))
        );
        assert_eq!(
            gate.renew(SessionIndex::new(4), &keys(10), later),
            Some(SessionIndex::new(3))
        );
        assert_eq!(open(&mut gate, &before, later), Err(OpenError::NoSession));
        let still = sealed(&mut client, later);
        assert_eq!(open(&mut gate, &still, later), Ok(true));
    }

    #[test]
    fn keys_that_nobody_renews_end() {
        let (mut client, mut gate) = ends();
        let late = Time::ZERO + MAX_AGE;
        let mut room = [0; 100];
        let message = Sealed::Message(b"x");
        assert_eq!(
            client.seal(&message, late, &mut room),
            Err(SealError::NoSession)
        );
        assert_eq!(
            gate.seal(&message, late, &mut room),
            Err(SealError::NoSession)
        );
        let just = Time::ZERO + MAX_AGE.saturating_sub(Duration::from_millis(1));
        assert!(client.seal(&message, just, &mut room).is_ok());
        assert_eq!(
            client.seal(&message, just, &mut room[..20]),
            Err(SealError::Short)
        );
    }
}
