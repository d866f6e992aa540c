//! The address of a client, as its gate knows it.
//!
//! ```text
//!   datagram from B ──▶ candidate B, challenge n ── Answer(n) to B ──▶ Probe(n) from B ──▶ proven B
//! ```
//!
//! A valid datagram shows that the client has sent it, but not that the client is at its source address: anybody who
//! has seen it can send it again from elsewhere. Therefore, datagrams to a client go to an address from which the
//! client has repeated a challenge that was encrypted and sent there. Until then, that address gets no more bytes than
//! have arrived from it, and the previous address stays in use.

use base::{Duration, Time};

/// Silence after which an address is no longer used: four times the longest silence of an idle client.
const FORGET_AFTER: Duration = Duration::from_secs(50);

/// The addresses of a client, of any type.
#[derive(Clone, Copy, Debug)]
pub struct Peer<A> {
    proven: Option<(A, u32)>,
    candidate: Option<(A, u32)>,
    heard: Time,
}

impl<A: Copy + PartialEq> Peer<A> {
    /// Creates a peer of which nothing is known.
    pub fn new(now: Time) -> Peer<A> {
        Peer {
            proven: None,
            candidate: None,
            heard: now,
        }
    }

    /// Handles an encrypted datagram of the client from an address. `challenge` is what the client repeats in a probe.
    /// `draw` returns a new random challenge: a client that could predict it would prove an address at which it does
    /// not receive. Returns the challenge for an answer to that address; 0 if there is none.
    pub fn on_heard(
        &mut self,
        now: Time,
        from: A,
        is_newest: bool,
        challenge: Option<u32>,
        draw: impl FnOnce() -> u32,
    ) -> u32 {
        self.heard = now;
        if let Some((proven, said)) = self.proven
            && proven == from
        {
            return said;
        }
        if !self.candidate.is_some_and(|(addr, _)| addr == from) {
            // A late datagram may be from the client's previous address.
            if !is_newest {
                return 0;
            }
            self.candidate = Some((from, draw()));
        }
        let Some((_, said)) = self.candidate else {
            return 0;
        };
        // Without a challenge nothing is proven.
        if said != 0 && challenge == Some(said) {
            self.proven = self.candidate.take();
        }
        said
    }

    /// Returns where datagrams to the client go, if the way works.
    pub fn to(&self, now: Time) -> Option<A> {
        let (addr, _) = self.proven?;
        (now.since(self.heard) < FORGET_AFTER).then_some(addr)
    }

    /// Returns true if this is the proven address.
    pub fn is_proven(&self, addr: A) -> bool {
        self.proven.is_some_and(|(proven, _)| proven == addr)
    }

    /// Notes that the way does not work, according to the client.
    pub fn leave(&mut self) {
        self.proven = None;
        self.candidate = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    const T: Time = Time::ZERO;

    thread_local! {
        /// The next value to be drawn: nobody can predict it, but the test knows it.
        static DRAWN: Cell<u32> = const { Cell::new(0) };
    }

    fn heard(peer: &mut Peer<char>, now: Time, from: char, newest: bool, says: Option<u32>) -> u32 {
        let draw = || {
            let drawn = DRAWN
                .get()
                .wrapping_mul(0x9e37_79b1)
                .wrapping_add(0x7f4a_7c15)
                | 1;
            DRAWN.set(drawn);
            drawn
        };
        peer.on_heard(now, from, newest, says, draw)
    }

    #[test]
    fn what_comes_next_is_not_foreseen_and_nothing_drawn_proves_nothing() {
        let mut peer = proven('a');
        let said = heard(&mut peer, T, 'a', true, None);
        // The client knows the challenge that it got, and counts on from there for a victim's address.
        for guess in 0..4 {
            heard(&mut peer, T, 'v', true, Some(said.wrapping_add(guess)));
        }
        assert_eq!(peer.to(T), Some('a'));
        let mut peer = Peer::new(T);
        peer.on_heard(T, 'v', true, Some(0), || 0);
        peer.on_heard(T, 'v', true, Some(0), || 0);
        assert_eq!(peer.to(T), None);
    }

    fn proven(addr: char) -> Peer<char> {
        let mut peer = Peer::new(T);
        let said = heard(&mut peer, T, addr, true, Some(0));
        assert_eq!(peer.to(T), None);
        assert_eq!(heard(&mut peer, T, addr, true, Some(said)), said);
        assert_eq!(peer.to(T), Some(addr));
        peer
    }

    #[test]
    fn an_address_is_used_when_the_client_hears_there() {
        let mut peer = proven('a');
        // An attacker sends on what he has seen: nothing is sent to him.
        let said = heard(&mut peer, T, 'v', true, None);
        assert_eq!(peer.to(T), Some('a'));
        // He cannot repeat what he cannot know, and a repetition from another address proves nothing about his.
        heard(&mut peer, T, 'v', true, Some(said.wrapping_add(1)));
        heard(&mut peer, T, 'a', true, Some(said));
        assert_eq!(peer.to(T), Some('a'));
        // After a rebinding, the next datagram comes from another address, and so does the probe.
        let said = heard(&mut peer, T, 'b', true, None);
        assert_ne!(said, 0);
        assert_eq!(heard(&mut peer, T, 'b', true, Some(said)), said);
        assert!(peer.is_proven('b') && !peer.is_proven('a'));
        // A late datagram from the old path does not bring it back.
        assert_eq!(heard(&mut peer, T, 'a', false, None), 0);
        assert_eq!(peer.to(T), Some('b'));
    }

    #[test]
    fn silence_and_the_clients_word_end_it() {
        let mut peer = proven('a');
        assert_eq!(peer.to(T + FORGET_AFTER), None);
        heard(&mut peer, T + FORGET_AFTER, 'a', true, None);
        assert_eq!(peer.to(T + FORGET_AFTER), Some('a'));
        peer.leave();
        assert_eq!(peer.to(T + FORGET_AFTER), None);
        let said = heard(&mut peer, T, 'a', true, Some(1));
        assert_eq!(
            (said == 1, peer.to(T)),
            (false, None),
            "what was proven once is not proven now"
        );
    }
}
