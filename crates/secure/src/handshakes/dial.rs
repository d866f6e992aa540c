//! The dialling side: Init and its repetition, the answer to a cookie, Finish and its repetition.

use super::hybrid::Made;
use super::table::{Confirming, Dial, Entry};
use super::{DialError, Due, Established, Handshakes, Outcome, Refusal};
use crate::limits::MAX_DIALS;
use crate::mac;
use crate::noise;
use base::{Duration, NodeAddr, Time, UnderlayAddr};
use std::sync::Arc;
use wire::handshake::{
    self as format, FURTHER_PATH, Finish, HYBRID_VERSION, INIT_BYTES, Init, MAC_BYTES,
    NOISE_FINISH_BYTES, NOISE_INIT_BYTES, RESPONSE_HEADER_BYTES, init, split_mac,
};
use wire::link::SessionIndex;

/// When the dialling side repeats its datagrams.
#[derive(Clone, Copy, Debug)]
pub(super) struct Repeats {
    /// The wait after the first Init. The wait doubles each time.
    pub(super) init: Duration,
    /// The longest wait between two Inits.
    pub(super) init_longest: Duration,
    /// How often an Init is sent.
    pub(super) inits: u32,
    /// The wait after the first Finish. The wait doubles each time.
    pub(super) finish: Duration,
    /// The longest wait between two Finishes.
    pub(super) finish_longest: Duration,
    /// How often a Finish is sent.
    pub(super) finishes: u32,
}

/// The repetition between neighbors. An Init is sent at 0, 0.4, 0.9, 1.4, 1.9 and 2.4 s. The first wait is longer than
/// most round trips. A neighbor that was restarted waits for the longest wait, and once more if an Init was lost,
/// before its calls continue; two seconds are the goal. The dial is given up at 2.9 s, or up to a quarter later. A
/// Finish is sent at 0, 0.3, 0.9 and 2.1 s, while the responder still waits for it, and given up at 4.5 s.
pub(super) const OF_NEIGHBOURS: Repeats = Repeats {
    init: Duration::from_millis(400),
    init_longest: Duration::from_millis(500),
    inits: 6,
    finish: Duration::from_millis(300),
    finish_longest: Duration::from_millis(2_400),
    finishes: 4,
};

/// The repetition between ends: packets of programs wait for them, and a broken path may come back at any moment.
/// Choice: an Init each 200 ms for 3 s and a Finish each 150 ms for 3 s, which is 3 kB/s for each node to which
/// something is sent. An unnecessary repetition over a longer path costs the other end a look-up.
pub(super) const OF_ENDS: Repeats = Repeats {
    init: Duration::from_millis(200),
    init_longest: Duration::from_millis(200),
    inits: 15,
    finish: Duration::from_millis(150),
    finish_longest: Duration::from_millis(150),
    finishes: 20,
};

/// The maximum number of forged responses that are examined between two Inits, each at the cost of a Diffie-Hellman.
const MAX_BAD_RESPONSES: u32 = 8;

impl Handshakes {
    pub(super) fn begin_dial(
        &mut self,
        now: Time,
        to: UnderlayAddr,
        expect: Option<NodeAddr>,
        is_further: bool,
    ) -> Result<Vec<u8>, DialError> {
        if self.table.dial_to(to).is_some() {
            return Err(DialError::InProgress);
        }
        if self.table.dials() >= MAX_DIALS {
            return Err(DialError::TooMany);
        }
        let free = self.table.free_index(|| self.entropy.draw_u32());
        let index = free.ok_or(DialError::TooMany)?;
        let dial = self.make_dial(now, index, (to, expect, is_further));
        let datagram = dial.init.to_vec();
        let due = now + self.init_wait(0);
        self.table.insert(index, Entry::Dial(Box::new(dial)), due);
        Ok(datagram)
    }

    fn make_dial(
        &mut self,
        now: Time,
        index: SessionIndex,
        (to, expect, is_further): (UnderlayAddr, Option<NodeAddr>, bool),
    ) -> Dial {
        let header = Init {
            sender: index,
            versions: self.versions(),
            noise: &[0; NOISE_INIT_BYTES],
            mac1: &[0; MAC_BYTES],
            mac2: &[0; MAC_BYTES],
        };
        let mut bytes = Box::new(header.to_bytes());
        let seed = self.entropy.draw();
        let prologue = self.prologue(bytes.as_slice());
        let secret = self.identity.static_secret();
        let mut noise = noise::dialler(self.network.suite(), secret, &seed, &prologue);
        // snow requires room for a tag even where nothing is encrypted yet.
        let mut message = [0; NOISE_INIT_BYTES + 16];
        let length = noise
            .write_message(&[], &mut message)
            .expect("a new dialler writes first");
        bytes[init::NOISE].copy_from_slice(&message[..length]);
        let mac1 = self.mac.of(&bytes[..init::MAC1.start]);
        bytes[init::MAC1].copy_from_slice(&mac1);
        Dial {
            to,
            expect,
            is_further,
            identity: Arc::clone(&self.identity),
            noise,
            init: bytes,
            begun: now,
            tries: 1,
            cookie_answered: false,
            bad_responses: 0,
        }
    }

    pub(super) fn on_cookie(
        &mut self,
        from: UnderlayAddr,
        datagram: &[u8],
    ) -> Result<Outcome, Refusal> {
        let message = format::Cookie::parse(datagram)?;
        let (body, mac1) = split_mac(datagram)?;
        let dial = self.table.dial(message.receiver).ok_or(Refusal::Stale)?;
        if dial.to.remote() != from.remote() {
            return Err(Refusal::Address);
        }
        let own_mac1 = own_mac1(&dial.init);
        if *mac1 != self.mac.of_both(body, &own_mac1) {
            return Err(Refusal::Mac);
        }
        let mac2 = mac::keyed_by(&message.cookie, &dial.init[..init::MAC2.start]);
        dial.init[init::MAC2].copy_from_slice(&mac2);
        if core::mem::replace(&mut dial.cookie_answered, true) {
            return Err(Refusal::Stale);
        }
        Ok(Outcome::Reply(vec![dial.init.to_vec()]))
    }

    pub(super) fn on_response(
        &mut self,
        now: Time,
        unix_now_s: u64,
        from: UnderlayAddr,
        datagram: &[u8],
    ) -> Result<Outcome, Refusal> {
        let response = format::Response::parse(datagram)?;
        let (body, mac1) = split_mac(datagram)?;
        let dial = self.table.dial(response.receiver).ok_or(Refusal::Stale)?;
        if dial.to.remote() != from.remote() {
            return Err(Refusal::Address);
        }
        if dial.bad_responses >= MAX_BAD_RESPONSES {
            return Err(Refusal::TooMany);
        }
        if !self.mac.is_of(mac1, body) {
            return Err(Refusal::Mac);
        }
        let mut payload = [0; format::MAX_RESPONSE_BYTES];
        let Ok(length) = dial.noise.read_message(response.noise, &mut payload) else {
            dial.bad_responses += 1;
            return Err(Refusal::Noise);
        };
        // Noise has consumed the message, so this dial ends here, with success or failure.
        let Some(Entry::Dial(mut dial)) = self.table.take(response.receiver) else {
            return Err(Refusal::Stale);
        };
        // From here on, the dial uses the peer's address from which the answer came.
        dial.to = from;
        let (to, expect) = (dial.to, dial.expect);
        let finished = self.finish(now, unix_now_s, response.receiver, dial, &payload[..length]);
        Ok(finished.unwrap_or_else(|reason| Outcome::Failed {
            to,
            expect,
            reason,
            reply: None,
        }))
    }

    /// Verifies the node that has answered, and sends the reply.
    fn finish(
        &mut self,
        now: Time,
        unix_now_s: u64,
        local_index: SessionIndex,
        mut dial: Box<Dial>,
        payload: &[u8],
    ) -> Result<Outcome, Refusal> {
        // Only the sealed copy of the header is authentic; anybody could have written the one in the clear.
        let (header, certificate) = payload
            .split_at_checked(RESPONSE_HEADER_BYTES)
            .ok_or(Refusal::Malformed(wire::Malformed::Short))?;
        let (peer_index, version) = format::Response::of_header(header)?;
        let is_offered = dial.versions().contains(version);
        if !is_offered && version != HYBRID_VERSION {
            return Err(Refusal::Version);
        }
        let peer = self.verify(unix_now_s, certificate, dial.noise.get_remote_static())?;
        if dial
            .expect
            .is_some_and(|expected| expected != peer.address())
        {
            return Err(Refusal::UnexpectedPeer(peer.address()));
        }
        self.check_version(version, &peer)?;
        let finish = self.write_finish(peer_index, &mut dial);
        if !is_offered {
            return Ok(Outcome::Failed {
                to: dial.to,
                expect: dial.expect,
                reason: Refusal::HybridAlone(peer.address()),
                reply: Some(finish),
            });
        }
        let made = Made {
            peer,
            local_index,
            peer_index,
            version,
            dialled: true,
            is_further: dial.is_further,
        };
        if version >= HYBRID_VERSION {
            return Ok(self.offer(now, dial, made, finish));
        }
        let confirming = Confirming {
            to: dial.to,
            datagrams: vec![finish.clone()],
            tries: 1,
        };
        let due = now + self.finish_wait(0);
        self.table
            .insert(local_index, Entry::Confirming(confirming), due);
        Ok(Outcome::Established(Box::new(Established {
            session: self.session(now, &made, dial.noise.dangerously_get_raw_split()),
            peer: made.peer,
            from: dial.to,
            expect: dial.expect,
            is_further: made.is_further,
            reply: vec![finish],
        })))
    }

    fn write_finish(&self, peer_index: SessionIndex, dial: &mut Dial) -> Vec<u8> {
        let header = Finish {
            receiver: peer_index,
            noise: &[],
        };
        let mut datagram = header.header().to_vec();
        let front = datagram.len();
        let mark: &[u8] = if dial.is_further {
            &[FURTHER_PATH]
        } else {
            &[]
        };
        let payload = [mark, dial.identity.certificate().as_bytes()].concat();
        datagram.resize(front + NOISE_FINISH_BYTES + payload.len(), 0);
        dial.noise
            .write_message(&payload, &mut datagram[front..])
            .expect("the response was read and the room is exact");
        let mac1 = self.mac.of(&datagram);
        datagram.extend_from_slice(&mac1);
        datagram
    }

    /// Does what is due for an index whose timer has expired.
    pub(super) fn on_due(&mut self, now: Time, index: SessionIndex) -> Vec<Due> {
        match self.table.take(index) {
            Some(Entry::Dial(dial)) => vec![self.repeat_init(now, index, dial)],
            Some(Entry::Offering(offering)) => self.repeat_offer(now, index, offering),
            Some(Entry::Confirming(confirming)) => self.repeat_last(now, index, confirming),
            Some(Entry::HalfOpen(_) | Entry::Offered(_) | Entry::Live) | None => Vec::new(),
        }
    }

    fn repeat_init(&mut self, now: Time, index: SessionIndex, mut dial: Box<Dial>) -> Due {
        let (to, expect) = (dial.to, dial.expect);
        if dial.tries >= self.repeats().inits {
            return Due::GaveUp { to, expect };
        }
        let datagram = dial.init.to_vec();
        let due = now + self.init_wait(dial.tries);
        dial.tries += 1;
        dial.cookie_answered = false;
        dial.bad_responses = 0;
        self.table.insert(index, Entry::Dial(dial), due);
        Due::Send { to, datagram }
    }

    /// Repeats the last message of a handshake, until the peer has used its session.
    fn repeat_last(
        &mut self,
        now: Time,
        session: SessionIndex,
        mut confirming: Confirming,
    ) -> Vec<Due> {
        let to = confirming.to;
        if confirming.tries >= self.repeats().finishes {
            self.table.insert(session, Entry::Live, Time::FAR);
            return vec![Due::Unconfirmed { session, to }];
        }
        let datagrams = confirming.datagrams.iter();
        let again = datagrams.map(|it| Due::send(to, it)).collect();
        let due = now + self.finish_wait(confirming.tries);
        confirming.tries += 1;
        self.table
            .insert(session, Entry::Confirming(confirming), due);
        again
    }

    /// Returns the wait after the Init of that number. It is longer by a random share of up to a quarter, so that nodes
    /// that started together do not stay in step.
    fn init_wait(&mut self, number: u32) -> Duration {
        let repeats = self.repeats();
        let wait = doubled(repeats.init, number, repeats.init_longest);
        let chance = u64::from(self.entropy.draw_u32());
        wait + Duration::from_micros((chance * wait.as_micros() / 4) >> 32)
    }

    pub(super) fn finish_wait(&self, number: u32) -> Duration {
        let repeats = self.repeats();
        doubled(repeats.finish, number, repeats.finish_longest)
    }
}

fn doubled(first: Duration, times: u32, longest: Duration) -> Duration {
    (first * (1 << times.min(8))).min(longest)
}

/// Returns the mac1 of an Init.
pub(super) fn own_mac1(bytes: &[u8; INIT_BYTES]) -> mac::Mac {
    let mut mac1 = [0; MAC_BYTES];
    mac1.copy_from_slice(&bytes[init::MAC1]);
    mac1
}
