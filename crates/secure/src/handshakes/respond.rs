//! The dialled side: Init with and without load, half-open handshakes, Finish.

use super::hybrid::Made;
use super::table::{Entry, HalfOpen};
use super::{Between, Established, Handshakes, Outcome, Refusal};
use crate::entropy::Secret;
use crate::limits::{HALF_OPEN_LIFETIME, MAX_HALF_OPEN, Verdict};
use crate::noise;
use crate::suite::Suite;
use base::{Duration, NodeAddr, Time, UnderlayAddr};
use snow::HandshakeState;
use std::sync::Arc;
use wire::handshake::{
    FURTHER_PATH, Finish, HYBRID_VERSION, INIT_BYTES, Init, MAC_BYTES, MAX_FINISH_BYTES,
    NOISE_RESPONSE_BYTES, Response, init, split_mac,
};
use wire::link::SessionIndex;

/// How long the higher of two crossing Inits stays unanswered: one repetition. After that, the lower one has been lost
/// or cannot arrive.
pub(super) const CROSSING: Duration = Duration::from_secs(1);
/// How often a repeated Init is answered again: more often than a dialler repeats it within the lifetime of a half-open
/// handshake, even if the network doubles each.
const MAX_REPEATS: u32 = 8;
/// The maximum number of forged finishes that are examined per half-open handshake; each costs five Diffie-Hellmans.
const MAX_BAD_FINISHES: u32 = 4;

impl Handshakes {
    pub(super) fn on_init(
        &mut self,
        now: Time,
        from: UnderlayAddr,
        datagram: &[u8],
    ) -> Result<Outcome, Refusal> {
        let message = Init::parse(datagram)?;
        if !self.mac.is_of(message.mac1, &datagram[..init::MAC1.start]) {
            return Err(Refusal::Mac);
        }
        let common = message.versions.common(self.versions());
        let version = common.ok_or(Refusal::Version)?;
        if let Some(half_open) = self.table.half_open_of(from, message.mac1) {
            return half_open.answer_again();
        }
        if self.goes_without_answer(now, from, &message) {
            return Err(Refusal::Crossed);
        }
        let proven = *message.mac2 != [0; MAC_BYTES] && self.shows_cookie(now, from, datagram);
        match self.limits.admit(now, from, proven) {
            Verdict::Answer => self.answer(now, from, version, &message, datagram),
            Verdict::AskForCookie => Ok(self.ask_for_cookie(now, from, &message)),
            Verdict::TooMany => Err(Refusal::TooMany),
            Verdict::TooManyOfSource => Err(Refusal::TooManyOfSource),
        }
    }

    /// Returns true if both sides have dialled, this side's Init is the lower one, and it is young.
    fn goes_without_answer(&mut self, now: Time, from: UnderlayAddr, theirs: &Init<'_>) -> bool {
        let Some(index) = self.table.dial_to(from) else {
            return false;
        };
        self.table.dial(index).is_some_and(|dial| {
            now.since(dial.begun) < CROSSING && dial.init[init::NOISE] < theirs.noise[..]
        })
    }

    fn shows_cookie(&mut self, now: Time, from: UnderlayAddr, datagram: &[u8]) -> bool {
        self.turn_cookies(now);
        let (front, _) = datagram.split_at(init::MAC2.end);
        split_mac(front).is_ok_and(|(body, mac2)| self.cookies.is_proof(from, mac2, body))
    }

    fn ask_for_cookie(&mut self, now: Time, from: UnderlayAddr, message: &Init<'_>) -> Outcome {
        self.turn_cookies(now);
        let cookie = self.cookies.cookie(from);
        Outcome::Cookie(self.mac.cookie(message.sender, cookie, message.mac1))
    }

    fn turn_cookies(&mut self, now: Time) {
        if self.cookies.is_stale(now) {
            let secret = self.entropy.draw();
            self.cookies.rotate(&secret, now);
        }
    }

    fn answer(
        &mut self,
        now: Time,
        from: UnderlayAddr,
        version: u8,
        message: &Init<'_>,
        datagram: &[u8],
    ) -> Result<Outcome, Refusal> {
        if self.table.half_open() >= MAX_HALF_OPEN {
            return Err(Refusal::Full);
        }
        let free = self.table.free_index(|| self.entropy.draw_u32());
        let index = free.ok_or(Refusal::Full)?;
        let header = Response {
            sender: index,
            receiver: message.sender,
            version: self.answered_version(version),
            noise: &[],
        };
        let seed = self.entropy.draw();
        let prologue = self.prologue(datagram);
        let payload = [&header.header(), self.identity.certificate().as_bytes()].concat();
        let secret = self.identity.static_secret();
        let suite = self.network.suite();
        let (noise, mut response) =
            respond(suite, secret, &seed, &prologue, message.noise, &payload)?;
        response.splice(..0, header.header());
        let mac1 = self.mac.of(&response);
        response.extend_from_slice(&mac1);
        debug_assert!(response.len() <= INIT_BYTES);
        let half_open = HalfOpen {
            from,
            peer_index: message.sender,
            version,
            identity: Arc::clone(&self.identity),
            noise,
            seed,
            prologue,
            init_noise: *message.noise,
            init_mac1: *message.mac1,
            response: response.clone(),
            repeats: 0,
            bad_finishes: 0,
        };
        let due = now + HALF_OPEN_LIFETIME;
        self.table
            .insert(index, Entry::HalfOpen(Box::new(half_open)), due);
        Ok(Outcome::Reply(vec![response]))
    }

    pub(super) fn on_finish(
        &mut self,
        now: Time,
        unix_now_s: u64,
        from: UnderlayAddr,
        datagram: &[u8],
    ) -> Result<Outcome, Refusal> {
        let message = Finish::parse(datagram)?;
        let (body, mac1) = split_mac(datagram)?;
        let half_open = self.table.half_open_at(message.receiver);
        let half_open = half_open.ok_or(Refusal::Stale)?;
        if half_open.from != from {
            return Err(Refusal::Address);
        }
        if half_open.bad_finishes >= MAX_BAD_FINISHES {
            return Err(Refusal::TooMany);
        }
        if !self.mac.is_of(mac1, body) {
            return Err(Refusal::Mac);
        }
        let mut payload = [0; MAX_FINISH_BYTES];
        let Ok(length) = half_open.noise.read_message(message.noise, &mut payload) else {
            half_open.bad_finishes += 1;
            half_open.restore(self.network.suite())?;
            return Err(Refusal::Noise);
        };
        // Noise has consumed the message, so this handshake ends here.
        let Some(Entry::HalfOpen(half_open)) = self.table.take(message.receiver) else {
            return Err(Refusal::Stale);
        };
        let local_index = message.receiver;
        self.establish(now, unix_now_s, local_index, half_open, &payload[..length])
    }

    fn establish(
        &mut self,
        now: Time,
        unix_now_s: u64,
        local_index: SessionIndex,
        mut half_open: Box<HalfOpen>,
        payload: &[u8],
    ) -> Result<Outcome, Refusal> {
        // Between ends there are no paths of a link: routing decides how their packets travel.
        let further = payload.strip_prefix(&[FURTHER_PATH]);
        let further = further.filter(|_| self.between == Between::Neighbours);
        let certificate = further.unwrap_or(payload);
        let static_key = half_open.noise.get_remote_static();
        let peer = self.verify(unix_now_s, certificate, static_key)?;
        self.check_version(half_open.version, &peer)?;
        let made = Made {
            peer,
            local_index,
            peer_index: half_open.peer_index,
            version: half_open.version,
            dialled: false,
            is_further: further.is_some(),
        };
        if made.version >= HYBRID_VERSION {
            let from = half_open.from;
            return Ok(self.await_offer(now, from, made, &mut half_open.noise));
        }
        self.table.insert(local_index, Entry::Live, Time::FAR);
        Ok(Outcome::Established(Box::new(Established {
            session: self.session(now, &made, half_open.noise.dangerously_get_raw_split()),
            peer: made.peer,
            from: half_open.from,
            expect: None,
            is_further: made.is_further,
            reply: Vec::new(),
        })))
    }

    /// Records that the session that this peer has made from this address is in use. A dial to that address is then
    /// unnecessary, unless it was answered: in that case it may already have made a session there, and continues. A
    /// session that was refused ends no dial: the peer wanted something else than this side's dial.
    pub fn on_taken(&mut self, from: UnderlayAddr, peer: NodeAddr) {
        let Some(index) = self.table.dial_to(from) else {
            return;
        };
        let reached = |expect: Option<_>| expect.is_none_or(|node| node == peer);
        if self
            .table
            .dial(index)
            .is_some_and(|dial| reached(dial.expect))
        {
            self.table.remove(index);
        }
    }
}

impl HalfOpen {
    /// Answers an Init that was repeated, by its dialler or by an attacker who wants to flood the dialler.
    fn answer_again(&mut self) -> Result<Outcome, Refusal> {
        if self.repeats >= MAX_REPEATS {
            return Err(Refusal::TooMany);
        }
        self.repeats += 1;
        Ok(Outcome::Reply(vec![self.response.clone()]))
    }

    /// Restores the Noise state as it was before it read a forged Finish: snow has by then overwritten the key that the
    /// genuine Finish needs.
    fn restore(&mut self, suite: &Suite) -> Result<(), Refusal> {
        let certificate = self.identity.certificate().as_bytes();
        let header = &self.response[..wire::handshake::RESPONSE_HEADER_BYTES];
        let payload = [header, certificate].concat();
        let secret = self.identity.static_secret();
        let (noise, _) = respond(
            suite,
            secret,
            &self.seed,
            &self.prologue,
            &self.init_noise,
            &payload,
        )?;
        self.noise = noise;
        Ok(())
    }
}

/// Reads the first Noise message and writes the second.
fn respond(
    suite: &Suite,
    secret: &[u8; 32],
    seed: &Secret,
    prologue: &[u8],
    init_noise: &[u8],
    payload: &[u8],
) -> Result<(HandshakeState, Vec<u8>), Refusal> {
    let mut noise = noise::responder(suite, secret, seed, prologue);
    noise
        .read_message(init_noise, &mut [])
        .map_err(|_| Refusal::Noise)?;
    let header = wire::handshake::RESPONSE_HEADER_BYTES;
    let mut message = vec![0; NOISE_RESPONSE_BYTES + payload.len() - header];
    noise
        .write_message(payload, &mut message)
        .map_err(|_| Refusal::Noise)?;
    Ok((noise, message))
}
