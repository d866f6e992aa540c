//! Where a client is, as its gate knows it.
//!
//! ```text
//!   datagram from B ──▶ candidate B, challenge n ── Answer(n) to B ──▶ Probe(n) from B ──▶ proven B
//! ```
//!
//! A datagram that is in order says that the client has sent it, not that it is where it came from:
//! whoever has seen it can send it on from elsewhere. So what is sent to a client goes to an address
//! from which the client has repeated a challenge that was sealed and sent there. Until then that
//! address gets no more bytes than have come from it, and the one before goes on.

use base::{Duration, Time};

/// Silence after which an address is not used any more: four times what an idle client lets pass.
const FORGET_AFTER: Duration = Duration::from_secs(50);

/// A client's addresses; of no type that this needs to know.
#[derive(Clone, Copy, Debug)]
pub struct Peer<A> {
    proven: Option<(A, u32)>,
    candidate: Option<(A, u32)>,
    challenges: u32,
    heard: Time,
}

impl<A: Copy + PartialEq> Peer<A> {
    /// Nothing is known.
    pub fn new(now: Time) -> Peer<A> {
        Peer {
            proven: None,
            candidate: None,
            challenges: 0,
            heard: now,
        }
    }

    /// Something that the client sealed has come from there; `challenge` is what it repeats in a
    /// probe. Gives what an answer to there says; 0 where nothing is to be repeated.
    pub fn on_heard(&mut self, now: Time, from: A, is_newest: bool, challenge: Option<u32>) -> u32 {
        self.heard = now;
        if let Some((proven, said)) = self.proven
            && proven == from
        {
            return said;
        }
        if !self.candidate.is_some_and(|(addr, _)| addr == from) {
            // What is late may be from where the client was before.
            if !is_newest {
                return 0;
            }
            self.challenges = self.challenges.wrapping_add(1).max(1);
            self.candidate = Some((from, self.challenges));
        }
        let Some((_, said)) = self.candidate else {
            return 0;
        };
        if challenge == Some(said) {
            self.proven = self.candidate.take();
        }
        said
    }

    /// Where what is for the client goes, if the way works.
    pub fn to(&self, now: Time) -> Option<A> {
        let (addr, _) = self.proven?;
        (now.since(self.heard) < FORGET_AFTER).then_some(addr)
    }

    /// It is the address that is proven.
    pub fn is_proven(&self, addr: A) -> bool {
        self.proven.is_some_and(|(proven, _)| proven == addr)
    }

    /// The client says that the way does not work.
    pub fn leave(&mut self) {
        self.proven = None;
        self.candidate = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Time = Time::ZERO;

    fn proven(addr: char) -> Peer<char> {
        let mut peer = Peer::new(T);
        let said = peer.on_heard(T, addr, true, Some(0));
        assert_eq!(peer.to(T), None);
        assert_eq!(peer.on_heard(T, addr, true, Some(said)), said);
        assert_eq!(peer.to(T), Some(addr));
        peer
    }

    #[test]
    fn an_address_is_used_when_the_client_hears_there() {
        let mut peer = proven('a');
        // Somebody sends on what he has seen: nothing goes to him.
        let said = peer.on_heard(T, 'v', true, None);
        assert_eq!(peer.to(T), Some('a'));
        // What he cannot know he cannot repeat, and repeated elsewhere it proves nothing of him.
        peer.on_heard(T, 'v', true, Some(said.wrapping_add(1)));
        peer.on_heard(T, 'a', true, Some(said));
        assert_eq!(peer.to(T), Some('a'));
        // A rebinding: the next datagram comes from elsewhere, and so does the probe.
        let said = peer.on_heard(T, 'b', true, None);
        assert_ne!(said, 0);
        assert_eq!(peer.on_heard(T, 'b', true, Some(said)), said);
        assert!(peer.is_proven('b') && !peer.is_proven('a'));
        // What was late on the old path does not bring it back.
        assert_eq!(peer.on_heard(T, 'a', false, None), 0);
        assert_eq!(peer.to(T), Some('b'));
    }

    #[test]
    fn silence_and_the_clients_word_end_it() {
        let mut peer = proven('a');
        assert_eq!(peer.to(T + FORGET_AFTER), None);
        peer.on_heard(T + FORGET_AFTER, 'a', true, None);
        assert_eq!(peer.to(T + FORGET_AFTER), Some('a'));
        peer.leave();
        assert_eq!(peer.to(T + FORGET_AFTER), None);
        let said = peer.on_heard(T, 'a', true, Some(1));
        assert_eq!(
            (said, peer.to(T)),
            (2, None),
            "what was proven once is not proven now"
        );
    }
}
