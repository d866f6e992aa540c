//! A hostile member of the network: a complete node, and an adversary between it and its links.
//!
//! ```text
//!                     Member
//!             .----------------------------------------------------.
//!             |  Station        inner session    Mind    outer session
//!  clients ---|-> (unchanged) <== sealed, as with ==> ? <== sealed with the ==|==> neighbour
//!             |                   the neighbour          keys of the member
//!             '----------------------------------------------------'
//! ```
//! Towards a neighbour the member has what its certificate gives it: handshakes and sessions in its own name, and
//! nothing else. Towards its own engine it poses as that neighbour. It has the neighbour's keys for this only because
//! the laboratory made them, and they open nothing that passes over a wire. Everything opened in one session is sealed
//! under the other, unchanged or as [`Mind`] changes it; so hellos, lanes, records and routes are those of a correct
//! node wherever `Mind` does not change them.
//!
//! Losses on the wire count in both sessions: a number that was skipped in one is skipped in the other.

use super::mind::Mind;
use super::treason::Treason;
use crate::members::UNIX_START_S;
use crate::worlds::party::Party;
use base::{Burst, ClientId, Duration, Engine, Input, Outbox, Pool, Rng, Time, UnderlayAddr};
use host::station::Station;
use overlay::{Event, Reply, Request};
use secure::{Due, Handshakes, Identity, Network, Outcome, Session, Sessions};
use std::collections::{BTreeMap, VecDeque};
use wire::CLEAR_BYTES;
use wire::link::{Kind, SEAL_BYTES};

/// Most numbers that are skipped at once: a longer gap belongs to a new session.
const GAP_MAX: u64 = 64;

/// A neighbour that was silent for this long is dialled again when the engine wants it.
const SILENCE: Duration = Duration::from_secs(1);

/// A message that a member sends on its own initiative.
#[derive(Debug)]
pub(super) enum Say {
    /// A plaintext to be sealed.
    Sealed(UnderlayAddr, Kind, Vec<u8>),
    /// Raw bytes.
    Raw(UnderlayAddr, Vec<u8>),
}

/// The two sessions of one link.
struct Line {
    outer: Sessions,
    /// The next number that the neighbour will use.
    next: u64,
    inner: Sessions,
    /// The neighbour as the member's own engine sees it.
    posing: Handshakes,
    heard: Time,
}

/// The member.
pub(in crate::worlds) struct Member {
    station: Station,
    own: UnderlayAddr,
    handshakes: Handshakes,
    lines: BTreeMap<UnderlayAddr, Line>,
    /// The datagrams that the engine will get next.
    feed: VecDeque<(UnderlayAddr, Burst)>,
    mind: Mind,
}

impl Member {
    pub(in crate::worlds) fn new(
        treason: Treason,
        station: Station,
        (own, identity): (UnderlayAddr, Identity),
        network: Network,
        peers: Vec<(UnderlayAddr, Identity)>,
    ) -> Member {
        let mut rng = Rng::new(treason.seed);
        let mut seed = || {
            let mut seed = [0; 32];
            rng.fill(&mut seed);
            seed
        };
        let mind = Mind::new(treason, identity.clone(), network.clone(), &peers);
        let handshakes = Handshakes::new(identity, network.clone(), seed(), Time::ZERO);
        let lines = peers.into_iter().map(|(at, peer)| {
            let line = Line {
                outer: Sessions::new(),
                next: 0,
                inner: Sessions::new(),
                posing: Handshakes::new(peer, network.clone(), seed(), Time::ZERO),
                heard: Time::ZERO,
            };
            (at, line)
        });
        Member {
            station,
            own,
            handshakes,
            lines: lines.collect(),
            feed: VecDeque::new(),
            mind,
        }
    }

    pub(in crate::worlds) fn station(&self) -> &Station {
        &self.station
    }

    /// Returns the number of packets that it has discarded, changed, or invented.
    pub(in crate::worlds) fn misdeeds(&self) -> u64 {
        self.mind.misdeeds
    }

    /// Returns when it first lied about its links.
    pub(in crate::worlds) fn lied_at(&self) -> Option<Time> {
        self.mind.lied_at
    }

    pub(in crate::worlds) fn handle(
        &mut self,
        now: Time,
        input: Input<Request>,
        out: &mut impl Outbox<Party>,
    ) {
        match input {
            Input::Datagrams { from, burst } => self.on_outside(now, from, burst, out),
            Input::Timeout => {
                self.on_timeout(now, out);
                self.drive(now, out, |station, out| {
                    station.handle(now, Input::Timeout, out);
                });
            }
            input => self.drive(now, out, |station, out| station.handle(now, input, out)),
        }
        self.settle(now, out);
    }

    pub(in crate::worlds) fn flush(&mut self, now: Time, out: &mut impl Outbox<Party>) {
        self.drive(now, out, |station, out| station.flush(now, out));
        self.settle(now, out);
    }

    pub(in crate::worlds) fn next_timeout(&self) -> Option<(Time, &'static str)> {
        let own = self.lines.values().filter_map(|l| l.posing.next_timeout());
        let own = own.chain(self.handshakes.next_timeout());
        let own = own.chain(self.mind.next_deed()).min();
        let own = own.map(|at| (at, "hostile"));
        [own, self.station.next_timeout()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Gives the engine everything that waits for it.
    fn settle(&mut self, now: Time, out: &mut impl Outbox<Party>) {
        while let Some((from, burst)) = self.feed.pop_front() {
            self.drive(now, out, |station, out| {
                station.handle(now, Input::Datagrams { from, burst }, out);
            });
        }
    }

    /// Lets the engine act, and processes what it sends.
    fn drive<O: Outbox<Party>>(
        &mut self,
        now: Time,
        out: &mut O,
        act: impl FnOnce(&mut Station, &mut Inside<'_, O>),
    ) {
        let mut inside = Inside {
            sent: Vec::new(),
            out,
        };
        act(&mut self.station, &mut inside);
        for (to, burst) in inside.sent {
            self.on_inside(now, to, burst, out);
        }
    }

    fn on_timeout(&mut self, now: Time, out: &mut impl Outbox<Party>) {
        for due in self.handshakes.on_timeout(now) {
            if let Due::Send { to, datagram } = due {
                send(to, &datagram, out);
            }
        }
        for (at, line) in &mut self.lines {
            for due in line.posing.on_timeout(now) {
                if let Due::Send { datagram, .. } = due {
                    self.feed
                        .extend(copy(&datagram, out).map(|copy| (*at, copy)));
                }
            }
        }
        for say in self.mind.act(now) {
            match say {
                Say::Raw(to, bytes) => send(to, &bytes, out),
                Say::Sealed(to, kind, plaintext) => {
                    let Some(line) = self.lines.get_mut(&to) else {
                        continue;
                    };
                    let mut datagram = vec![0; SEAL_BYTES + plaintext.len()];
                    datagram[CLEAR_BYTES..][..plaintext.len()].copy_from_slice(&plaintext);
                    if line.outer.seal(kind, &mut datagram).is_ok() {
                        send(to, &datagram, out);
                    }
                }
            }
        }
    }

    /// Handles datagrams from a neighbour, or from anybody who forges its address.
    fn on_outside(
        &mut self,
        now: Time,
        from: UnderlayAddr,
        mut burst: Burst,
        out: &mut impl Outbox<Party>,
    ) {
        let Some(line) = self.lines.get_mut(&from) else {
            return;
        };
        let mut is_whole = true;
        let mut kept = Vec::new();
        for i in 0..burst.segments() {
            let datagram = burst.segment_mut(i);
            if !matches!(Kind::of(datagram), Ok(kind) if kind.is_sealed()) {
                is_whole = false;
                let outcome = self
                    .handshakes
                    .on_datagram(now, UNIX_START_S, from, datagram);
                if let Some(session) = shaken(outcome, |bytes| send(from, bytes, out)) {
                    line.heard = now;
                    if !session.dialled() {
                        line.next = 0;
                    }
                    line.outer.install(now, session);
                }
                if !line.outer.is_empty() && line.inner.is_empty() {
                    let init = line.posing.dial(now, self.own, None).ok();
                    let init = init.and_then(|init| copy(&init, out));
                    self.feed.extend(init.map(|init| (from, init)));
                }
                continue;
            }
            let Ok(opened) = line.outer.open(now, datagram) else {
                is_whole = false;
                continue;
            };
            if opened.confirms {
                self.handshakes.on_confirmed(opened.session);
                line.next = 0;
            }
            line.heard = now;
            let gap = opened.counter.saturating_sub(line.next);
            if gap <= GAP_MAX {
                for _ in 0..gap {
                    let _ = line.inner.seal(Kind::Control, &mut [0; SEAL_BYTES]);
                }
            }
            line.next = line.next.max(opened.counter + 1);
            self.mind
                .on_way_in(now, from, opened.kind, &mut datagram[opened.plaintext]);
            match line.inner.seal(opened.kind, datagram) {
                Ok(_) => kept.push(i),
                Err(_) => is_whole = false,
            }
        }
        if is_whole {
            self.feed.push_back((from, burst));
            return;
        }
        for i in kept {
            let copy = copy(burst.segment(i), out);
            self.feed.extend(copy.map(|copy| (from, copy)));
        }
    }

    /// Handles datagrams from its own engine.
    fn on_inside(
        &mut self,
        now: Time,
        to: UnderlayAddr,
        mut burst: Burst,
        out: &mut impl Outbox<Party>,
    ) {
        let Some(line) = self.lines.get_mut(&to) else {
            return;
        };
        let mut is_whole = true;
        let mut kept = Vec::new();
        for i in 0..burst.segments() {
            let datagram = burst.segment_mut(i);
            if !matches!(Kind::of(datagram), Ok(kind) if kind.is_sealed()) {
                is_whole = false;
                let is_init = matches!(Kind::of(datagram), Ok(Kind::HandshakeInit));
                let outcome = line
                    .posing
                    .on_datagram(now, UNIX_START_S, self.own, datagram);
                let feed = &mut self.feed;
                let session = shaken(outcome, |bytes| {
                    feed.extend(copy(bytes, out).map(|copy| (to, copy)));
                });
                if let Some(session) = session {
                    line.inner.install(now, session);
                }
                let is_cut = line.outer.is_empty() || is_init && now.since(line.heard) > SILENCE;
                if is_cut && let Ok(init) = self.handshakes.dial(now, to, None) {
                    send(to, &init, out);
                }
                continue;
            }
            let Ok(opened) = line.inner.open(now, datagram) else {
                is_whole = false;
                continue;
            };
            if opened.confirms {
                line.posing.on_confirmed(opened.session);
            }
            self.mind
                .on_way_out(now, to, opened.kind, &mut datagram[opened.plaintext]);
            match line.outer.seal(opened.kind, datagram) {
                Ok(_) => kept.push(i),
                Err(_) => is_whole = false,
            }
        }
        if is_whole {
            out.send(to, burst);
            return;
        }
        for i in kept {
            send(to, burst.segment(i), out);
        }
    }
}

/// Returns the session of a completed handshake; answers go to `reply`.
fn shaken(outcome: Outcome, mut reply: impl FnMut(&[u8])) -> Option<Session> {
    match outcome {
        Outcome::Reply(datagrams) => datagrams.iter().for_each(|bytes| reply(bytes)),
        Outcome::Cookie(bytes) => reply(&bytes),
        Outcome::Established(made) => {
            made.reply.iter().for_each(|bytes| reply(bytes));
            return Some(made.session);
        }
        Outcome::Refused(_) | Outcome::Failed { .. } => {}
    }
    None
}

fn copy<O: Outbox<Party>>(bytes: &[u8], out: &O) -> Option<Burst> {
    out.pool().copy_of(0, bytes).filter(|copy| !copy.is_empty())
}

fn send(to: UnderlayAddr, bytes: &[u8], out: &mut impl Outbox<Party>) {
    if let Some(burst) = copy(bytes, out) {
        out.send(to, burst);
    }
}

/// The outbox of the member's engine: everything that it sends stays here.
struct Inside<'a, O> {
    sent: Vec<(UnderlayAddr, Burst)>,
    out: &'a mut O,
}

impl<O: Outbox<Party>> Outbox<Station> for Inside<'_, O> {
    fn send(&mut self, to: UnderlayAddr, burst: Burst) {
        self.sent.push((to, burst));
    }
    fn deliver(&mut self, client: ClientId, reply: Reply) {
        self.out.deliver(client, reply);
    }
    fn report(&mut self, _: Event) {
        // Events of a liar are not counted.
    }
    fn pool(&self) -> &Pool {
        self.out.pool()
    }
}
