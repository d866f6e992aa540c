//! For tests: parties with certificates, and a network between them that delays, loses and repeats datagrams, in
//! virtual time.

use crate::{
    Authority, Due, Established, Handshakes, Identity, Keys, OpenError, Opened, Outcome, Peer,
    PostQuantum, Refusal, Sessions, Validity,
};
use base::{Duration, NodeAddr, Rng, Time, UnderlayAddr};
use std::collections::BTreeMap;
use wire::link::{Kind, SEAL_BYTES};

pub(crate) const NOW_S: u64 = 1_790_000_000;
pub(crate) const YEAR: Validity = Validity {
    not_before_s: NOW_S,
    not_after_s: NOW_S + 365 * 86_400,
};

pub(crate) fn authority() -> Authority {
    Authority::generate(&[1; 32])
}
pub(crate) fn address(n: u8) -> NodeAddr {
    NodeAddr(0x0a07_0000 | u32::from(n))
}
/// Returns the address of party `n`.
pub(crate) fn at(n: u8) -> UnderlayAddr {
    let mut ip = [0; 16];
    ip[10..].copy_from_slice(&[0xff, 0xff, 192, 0, 2, n]);
    UnderlayAddr {
        ip,
        port: 7000,
        socket: 0,
        local: 0,
    }
}
pub(crate) fn keys(n: u8) -> Keys {
    Keys::generate(&[n; 64])
}
pub(crate) fn identity_for(authority: &mut Authority, n: u8, validity: Validity) -> Identity {
    let keys = keys(n);
    let name = format!("node-{n}");
    let id = authority.network().id();
    let request = keys.request(id, address(n), &name, &[]).unwrap();
    let certificate = authority.issue(&request, validity).unwrap();
    Identity::new(keys, certificate).unwrap()
}
pub(crate) fn handshakes(authority: &mut Authority, n: u8) -> Handshakes {
    let identity = identity_for(authority, n, YEAR);
    Handshakes::new(identity, authority.network(), [n; 32], Time::ZERO)
}
/// Returns two nodes of one network.
pub(crate) fn two() -> (Handshakes, Handshakes) {
    let mut authority = authority();
    (handshakes(&mut authority, 1), handshakes(&mut authority, 2))
}

impl Outcome {
    pub(crate) fn reply(self) -> Vec<u8> {
        match self {
            Outcome::Reply(datagrams) if datagrams.len() == 1 => datagrams.concat(),
            other => panic!("no reply: {other:?}"),
        }
    }
    pub(crate) fn established(self) -> Established {
        match self {
            Outcome::Established(established) => *established,
            other => panic!("not established: {other:?}"),
        }
    }
    pub(crate) fn refused(self) -> Refusal {
        match self {
            Outcome::Refused(reason) | Outcome::Failed { reason, .. } => reason,
            other => panic!("not refused: {other:?}"),
        }
    }
}

/// A node as in `overlay`: its handshakes, and the sessions with one neighbor.
pub(crate) struct Party {
    pub(crate) handshakes: Handshakes,
    pub(crate) sessions: Sessions,
    pub(crate) peer: Option<Peer>,
    pub(crate) established: usize,
    pub(crate) failed: Vec<Refusal>,
    pub(crate) opened: Vec<(Vec<u8>, Opened)>,
    pub(crate) not_opened: Vec<OpenError>,
    /// The address to dial whenever there is no session and no dial.
    pub(crate) keep: Option<UnderlayAddr>,
    at: UnderlayAddr,
}

/// The effect of the network on a datagram from one party to another: the delays of the copies that arrive: none, one,
/// or several.
pub(crate) type Fate = Box<dyn FnMut(&mut Rng, UnderlayAddr, &[u8]) -> Vec<Duration>>;

pub(crate) struct World {
    pub(crate) now: Time,
    pub(crate) parties: BTreeMap<UnderlayAddr, Party>,
    /// The present treatment of datagrams.
    pub(crate) fate: Fate,
    /// All datagrams that were sent, in order, as a fingerprint of the run.
    pub(crate) sent: Vec<Vec<u8>>,
    flying: BTreeMap<(Time, usize), (UnderlayAddr, UnderlayAddr, Vec<u8>)>,
    rng: Rng,
    serial: usize,
}

impl World {
    /// Creates parties 1 and 2, 10 ms apart, without loss.
    pub(crate) fn new(seed: u64) -> World {
        let (a, b) = two();
        let party = |handshakes, n| Party {
            handshakes,
            sessions: Sessions::new(),
            peer: None,
            established: 0,
            failed: Vec::new(),
            opened: Vec::new(),
            not_opened: Vec::new(),
            keep: None,
            at: at(n),
        };
        World {
            now: Time::ZERO,
            parties: BTreeMap::from([(at(1), party(a, 1)), (at(2), party(b, 2))]),
            fate: Box::new(|_, _, _| vec![Duration::from_millis(10)]),
            sent: Vec::new(),
            flying: BTreeMap::new(),
            rng: Rng::new(seed),
            serial: 0,
        }
    }

    /// Creates the same, and both prefer hybrid sessions.
    pub(crate) fn hybrid(seed: u64) -> World {
        let mut world = World::new(seed);
        for party in world.parties.values_mut() {
            party.handshakes.set_post_quantum(PostQuantum::Prefer);
        }
        world
    }

    pub(crate) fn party(&mut self, n: u8) -> &mut Party {
        self.parties.get_mut(&at(n)).unwrap()
    }
    pub(crate) fn dial(&mut self, from: u8, to: u8) {
        let now = self.now;
        let dialled = self.party(from).handshakes.dial(now, at(to), None);
        self.send(at(from), at(to), dialled.unwrap());
    }
    /// Seals and sends `text` as data, if there is a session.
    pub(crate) fn say(&mut self, from: u8, to: u8, text: &[u8]) -> bool {
        let mut datagram = vec![0; SEAL_BYTES + text.len()];
        datagram[8..8 + text.len()].copy_from_slice(text);
        let sealed = self.party(from).sessions.seal(Kind::Data, &mut datagram);
        if sealed.is_ok() {
            self.send(at(from), at(to), datagram);
        }
        sealed.is_ok()
    }
    pub(crate) fn send(&mut self, from: UnderlayAddr, to: UnderlayAddr, datagram: Vec<u8>) {
        for delay in (self.fate)(&mut self.rng, from, &datagram) {
            let key = (self.now + delay, self.serial);
            self.flying.insert(key, (from, to, datagram.clone()));
            self.serial += 1;
        }
        self.sent.push(datagram);
    }

    /// Lets time pass until `end`, event by event.
    pub(crate) fn run_until(&mut self, end: Time) {
        while let Some(next) = self.next_event().filter(|next| *next <= end) {
            self.now = self.now.max(next);
            let due: Vec<_> = self.parties.keys().copied().collect();
            due.into_iter().for_each(|at| self.tick(at));
            while let Some(entry) = self.flying.first_entry() {
                if entry.key().0 > self.now {
                    break;
                }
                let (from, to, datagram) = entry.remove();
                self.arrive(from, to, datagram);
            }
        }
        self.now = end;
    }

    fn next_event(&self) -> Option<Time> {
        let arrival = self.flying.keys().next().map(|(at, _)| *at);
        let timers = self.parties.values().flat_map(|party| {
            let redial = (party.keep.is_some() && party.is_idle()).then_some(self.now);
            let ours = [
                party.handshakes.next_timeout(),
                party.sessions.next_timeout(),
            ];
            ours.into_iter().chain([redial])
        });
        timers.chain([arrival]).flatten().min()
    }

    fn tick(&mut self, here: UnderlayAddr) {
        let now = self.now;
        let party = self.parties.get_mut(&here).unwrap();
        let mut sends = Vec::new();
        for due in party.handshakes.on_timeout(now) {
            match due {
                Due::Send { to, datagram } => sends.push((to, datagram)),
                Due::GaveUp { .. } | Due::Unfinished { .. } => {}
                Due::Unconfirmed { session, .. } => {
                    party.sessions.remove(session);
                    party.handshakes.release(session);
                }
            }
        }
        while let Some(index) = party.sessions.expire(now) {
            party.handshakes.release(index);
        }
        if let Some(to) = party.keep.filter(|_| party.is_idle()) {
            sends.push((to, party.handshakes.dial(now, to, None).unwrap()));
        }
        for (to, datagram) in sends {
            self.send(here, to, datagram);
        }
    }

    fn arrive(&mut self, from: UnderlayAddr, to: UnderlayAddr, mut datagram: Vec<u8>) {
        let now = self.now;
        let Some(party) = self.parties.get_mut(&to) else {
            return;
        };
        if Kind::of(&datagram).is_ok_and(Kind::is_sealed) {
            party.open(now, &mut datagram);
            return;
        }
        let outcome = party.handshakes.on_datagram(now, NOW_S, from, &datagram);
        for reply in party.take(now, outcome) {
            self.send(to, from, reply);
        }
    }
}

impl Party {
    fn is_idle(&self) -> bool {
        self.sessions.is_empty() && self.handshakes.dials() == 0
    }
    pub(crate) fn at(&self) -> UnderlayAddr {
        self.at
    }

    fn open(&mut self, now: Time, datagram: &mut [u8]) {
        match self.sessions.open(now, datagram) {
            Ok(opened) => {
                if opened.confirms {
                    self.handshakes.on_confirmed(opened.session);
                }
                let text = datagram[opened.plaintext.clone()].to_vec();
                self.opened.push((text, opened));
            }
            Err(error) => self.not_opened.push(error),
        }
    }

    /// Acts on an outcome as a node does. Returns the datagrams to send back.
    fn take(&mut self, now: Time, outcome: Outcome) -> Vec<Vec<u8>> {
        match outcome {
            Outcome::Reply(datagrams) => datagrams,
            Outcome::Cookie(datagram) => vec![datagram.to_vec()],
            Outcome::Established(established) => {
                self.established += 1;
                let peer = established.peer.address();
                self.handshakes.on_taken(established.from, peer);
                self.peer = Some(established.peer);
                if let Some(index) = self.sessions.install(now, established.session) {
                    self.handshakes.release(index);
                }
                let mut hello = vec![0; SEAL_BYTES];
                self.sessions.seal(Kind::Control, &mut hello).unwrap();
                established.reply.into_iter().chain([hello]).collect()
            }
            Outcome::Refused(reason) => {
                self.failed.push(reason);
                Vec::new()
            }
            Outcome::Failed { reason, reply, .. } => {
                self.failed.push(reason);
                reply.into_iter().collect()
            }
        }
    }
}
