//! The messages after the Finish, if both sides want keys that a quantum computer cannot break: a key, and a
//! ciphertext.
//!
//! ```text
//!  dialler                                              responder
//!  Offering --Finish, key--> .......................... Offered (its certificate has been verified)
//!  (repeats both)                                       | the whole key is there: encapsulate
//!  | <-------------------------------------ciphertext-- Confirming (repeats the ciphertext)
//!  v Established --> Live                               | Established
//!  '---------------------------first sealed datagram--> v Live
//! ```
//!
//! No session is made before, so nothing is ever sent under an X25519 key alone if both sides support better keys, and
//! a re-key changes from one hybrid session to the next. The price is one more round trip until the dialler has its
//! session. The responder has its session when the key arrives, as it would with the Finish.
//!
//! Here the responder sends the last message. So its session must be confirmed, and it repeats its datagrams until
//! then, as the dialler does in a classic handshake.
//!
//! The cost is bounded: only a peer that has shown a certificate can cause it. One handshake has one key and one
//! encapsulation, so the [`crate::limits`] of handshakes bound both, and a handshake that waits for a key counts as
//! half-open.

use super::dial::Repeats;
use super::table::{Confirming, Dial, Entry, Offered, Offering};
use super::{Due, Established, Handshakes, Outcome, Refusal};
use crate::kem::{self, Agreed, KeyPair, Offer, Pieces, Taken};
use crate::limits::HALF_OPEN_LIFETIME;
use crate::network::Peer;
use crate::session::{Parts, Session};
use base::{Time, UnderlayAddr};
use snow::HandshakeState;
use wire::handshake::kem::{Piece, Whole};
use wire::link::SessionIndex;

/// Whether session keys also come from ML-KEM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostQuantum {
    /// From X25519 alone.
    Off,
    /// From both, with peers that support it.
    Prefer,
    /// From both, or there is no session.
    Require,
}

/// The properties of a session, besides its keys.
pub(super) struct Made {
    pub(super) peer: Peer,
    pub(super) local_index: SessionIndex,
    pub(super) peer_index: SessionIndex,
    pub(super) version: u8,
    pub(super) dialled: bool,
    /// See [`Established`].
    pub(super) is_further: bool,
}

impl Handshakes {
    pub(super) fn session(&self, now: Time, made: &Made, keys: KeyPair) -> Session {
        let parts = Parts {
            shown: made.peer.shown(),
            local_index: made.local_index,
            peer_index: made.peer_index,
            version: made.version,
            dialled: made.dialled,
            open: self.network.suite().is_open(),
            window: self.window(),
            keys,
        };
        Session::new(parts, now)
    }

    /// Continues after the dialler has written its Finish: sends it and the key.
    pub(super) fn offer(
        &mut self,
        now: Time,
        mut dial: Box<Dial>,
        made: Made,
        finish: Vec<u8>,
    ) -> Outcome {
        let agreed = Agreed::new(&mut dial.noise);
        let offer = Offer::new(self.network.suite(), &mut self.entropy);
        let key = offer.key();
        let mut datagrams = vec![finish];
        datagrams.extend(agreed.seal(Whole::Key, made.peer_index, &key));
        let (due, index) = (now + self.finish_wait(0), made.local_index);
        let offering = Offering {
            to: dial.to,
            expect: dial.expect,
            made,
            offer,
            agreed,
            key,
            ciphertext: Pieces::new(Whole::Ciphertext),
            datagrams: datagrams.clone(),
            tries: 1,
        };
        self.table
            .insert(index, Entry::Offering(Box::new(offering)), due);
        Outcome::Reply(datagrams)
    }

    /// Waits for the dialler's key, after the responder has verified the dialler's identity.
    pub(super) fn await_offer(
        &mut self,
        now: Time,
        from: UnderlayAddr,
        made: Made,
        noise: &mut HandshakeState,
    ) -> Outcome {
        let index = made.local_index;
        let offered = Offered {
            from,
            made,
            agreed: Agreed::new(noise),
            key: Pieces::new(Whole::Key),
        };
        let due = now + HALF_OPEN_LIFETIME;
        self.table
            .insert(index, Entry::Offered(Box::new(offered)), due);
        Outcome::Reply(Vec::new())
    }

    pub(super) fn on_piece(
        &mut self,
        now: Time,
        from: UnderlayAddr,
        datagram: &[u8],
    ) -> Result<Outcome, Refusal> {
        let piece = Piece::parse(datagram)?;
        match piece.of {
            Whole::Key => self.on_key(now, from, &piece),
            Whole::Ciphertext => self.on_ciphertext(now, from, &piece),
        }
    }

    fn on_key(
        &mut self,
        now: Time,
        from: UnderlayAddr,
        piece: &Piece<'_>,
    ) -> Result<Outcome, Refusal> {
        let offered = self.table.offered(piece.receiver).ok_or(Refusal::Stale)?;
        if offered.from != from {
            return Err(Refusal::Address);
        }
        if !is_whole(offered.key.take(&offered.agreed, piece))? {
            return Ok(Outcome::Reply(Vec::new()));
        }
        let Some(Entry::Offered(offered)) = self.table.take(piece.receiver) else {
            return Err(Refusal::Stale);
        };
        let Offered {
            from,
            made,
            agreed,
            key,
        } = *offered;
        let secret = self.entropy.draw();
        let answered = kem::answer(self.network.suite(), key.bytes(), &secret);
        let (ciphertext, shared) = answered.ok_or(Refusal::Kem)?;
        let datagrams = agreed.seal(Whole::Ciphertext, made.peer_index, &ciphertext);
        let keys = agreed.hybrid(&shared, key.bytes(), &ciphertext);
        let confirming = Confirming {
            to: from,
            datagrams: datagrams.clone(),
            tries: 1,
        };
        let due = now + self.finish_wait(0);
        self.table
            .insert(made.local_index, Entry::Confirming(confirming), due);
        Ok(Outcome::Established(Box::new(Established {
            session: self.session(now, &made, keys),
            peer: made.peer,
            from,
            expect: None,
            is_further: made.is_further,
            reply: datagrams,
        })))
    }

    fn on_ciphertext(
        &mut self,
        now: Time,
        from: UnderlayAddr,
        piece: &Piece<'_>,
    ) -> Result<Outcome, Refusal> {
        let offering = self.table.offering(piece.receiver).ok_or(Refusal::Stale)?;
        if offering.to.remote() != from.remote() {
            return Err(Refusal::Address);
        }
        if !is_whole(offering.ciphertext.take(&offering.agreed, piece))? {
            return Ok(Outcome::Reply(Vec::new()));
        }
        let Some(Entry::Offering(offering)) = self.table.take(piece.receiver) else {
            return Err(Refusal::Stale);
        };
        let Offering {
            to,
            expect,
            made,
            offer,
            agreed,
            key,
            ciphertext,
            ..
        } = *offering;
        let shared = offer.open(ciphertext.bytes()).ok_or(Refusal::Kem)?;
        let keys = agreed.hybrid(&shared, &key, ciphertext.bytes());
        self.table.insert(made.local_index, Entry::Live, Time::FAR);
        Ok(Outcome::Established(Box::new(Established {
            session: self.session(now, &made, keys),
            peer: made.peer,
            from: to,
            expect,
            is_further: made.is_further,
            reply: Vec::new(),
        })))
    }

    pub(super) fn repeat_offer(
        &mut self,
        now: Time,
        index: SessionIndex,
        mut offering: Box<Offering>,
    ) -> Vec<Due> {
        let (to, expect) = (offering.to, offering.expect);
        let Repeats { finishes, .. } = self.repeats();
        if offering.tries >= finishes {
            return vec![Due::Unfinished { to, expect }];
        }
        let datagrams = offering.datagrams.iter();
        let due = datagrams.map(|it| Due::send(to, it)).collect();
        let next = now + self.finish_wait(offering.tries);
        offering.tries += 1;
        self.table.insert(index, Entry::Offering(offering), next);
        due
    }
}

fn is_whole(taken: Taken) -> Result<bool, Refusal> {
    match taken {
        Taken::Part => Ok(false),
        Taken::Whole => Ok(true),
        Taken::Forged => Err(Refusal::Kem),
        Taken::TooMany => Err(Refusal::TooMany),
    }
}
