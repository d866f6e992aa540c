//! A neighbour that is driven by hand: it has a certificate, performs handshakes, sends hellos and opens what it
//! receives. Everything else it sends as the test demands, true or not.

use super::UNIX_S;
use base::{Duration, NodeAddr, Time, UnderlayAddr};
use secure::{Context, Due, Handshakes, Identity, Network, Outcome, Refusal, Session};
use std::collections::BTreeMap;
use wire::control::{Builder, Echo, Hello, Message, Messages};
use wire::data::{Header, Repr};
use wire::link::{Kind, SEAL_BYTES};
use wire::link_state::{self, Link};
use wire::record::{BODY_BYTES_MAX, Record, RecordKind, RecordSeq};
use wire::{CLEAR_BYTES, HEADROOM, Latency, Loss};

/// The time between two hellos.
const HELLO: Duration = Duration::from_millis(50);

/// One opened datagram.
#[derive(Clone, Debug)]
pub struct Heard {
    pub at: Time,
    pub from: UnderlayAddr,
    pub kind: Kind,
    pub plaintext: Vec<u8>,
}

pub struct Neighbour {
    pub identity: Identity,
    pub handshakes: Handshakes,
    /// The newest session with the node at an address, and the clock that it last reported.
    sessions: BTreeMap<UnderlayAddr, (Session, Option<(u32, Time)>)>,
    pub heard: Vec<Heard>,
    pub refused: Vec<Refusal>,
    /// Sends hellos automatically, and confirms that it hears.
    pub polite: bool,
    /// Keeps what it receives.
    pub listens: bool,
    pub boot: u32,
    /// The time that its hellos appear to have waited in queues.
    pub queued: Duration,
    /// The loss that it reports, if it reports that it accepts repair packets.
    pub claims: Option<Loss>,
    next_hello: Time,
}

impl Neighbour {
    pub fn new(identity: Identity, network: Network, seed: [u8; 32]) -> Neighbour {
        Neighbour {
            handshakes: Handshakes::new(identity.clone(), network, seed, Time::ZERO),
            identity,
            sessions: BTreeMap::new(),
            heard: Vec::new(),
            refused: Vec::new(),
            polite: true,
            listens: true,
            boot: 77,
            queued: Duration::ZERO,
            claims: None,
            next_hello: Time::ZERO,
        }
    }

    pub fn address(&self) -> NodeAddr {
        self.identity.address()
    }

    pub fn has_session(&self, with: UnderlayAddr) -> bool {
        self.sessions.contains_key(&with)
    }

    pub fn dial(&mut self, now: Time, to: UnderlayAddr) -> Vec<u8> {
        self.handshakes.hang_up(to);
        self.handshakes.dial(now, to, None).unwrap()
    }

    /// The same for a further path of the link to `peer`.
    pub fn dial_further(&mut self, now: Time, to: UnderlayAddr, peer: NodeAddr) -> Vec<u8> {
        self.handshakes.hang_up(to);
        self.handshakes.dial_further(now, to, peer).unwrap()
    }

    /// Takes in one datagram and returns the answers.
    pub fn on_datagram(&mut self, now: Time, from: UnderlayAddr, datagram: &[u8]) -> Vec<Vec<u8>> {
        match Kind::of(datagram) {
            Ok(kind) if kind.is_sealed() => {
                self.open(now, from, datagram);
                Vec::new()
            }
            _ => self.on_handshake(now, from, datagram),
        }
    }

    pub fn next_timeout(&self) -> Time {
        let handshakes = self.handshakes.next_timeout().unwrap_or(Time::FAR);
        self.next_hello.min(handshakes)
    }

    pub fn on_timeout(&mut self, now: Time) -> Vec<(UnderlayAddr, Vec<u8>)> {
        let mut out = Vec::new();
        for due in self.handshakes.on_timeout(now) {
            if let Due::Send { to, datagram } = due {
                out.push((to, datagram));
            }
        }
        if now >= self.next_hello {
            self.next_hello = now + HELLO;
            let mut peers: Vec<UnderlayAddr> = self.sessions.keys().copied().collect();
            peers.retain(|_| self.polite);
            for to in peers {
                out.extend(self.hello(now, to).into_iter().map(|hello| (to, hello)));
            }
        }
        out
    }

    /// Seals `plaintext` for the node at `to`; nothing if there is no session.
    pub fn seal(&mut self, to: UnderlayAddr, kind: Kind, plaintext: &[u8]) -> Vec<Vec<u8>> {
        let Some((session, _)) = self.sessions.get_mut(&to) else {
            return Vec::new();
        };
        let mut datagram = vec![0; SEAL_BYTES + plaintext.len()];
        datagram[CLEAR_BYTES..CLEAR_BYTES + plaintext.len()].copy_from_slice(plaintext);
        session.seal(kind, &mut datagram).unwrap();
        vec![datagram]
    }

    /// Returns a hello as a good neighbour sends it.
    fn hello(&mut self, now: Time, to: UnderlayAddr) -> Vec<Vec<u8>> {
        let stamp = self.sessions.get(&to).and_then(|(_, stamp)| *stamp);
        let hello = Hello {
            i_hear_you: true,
            interval_ms: 50,
            // A hello that has waited in a queue was sent before that.
            stamp_us: (now - self.queued).as_micros() as u32,
            echo: stamp.map(|(stamp_us, at)| Echo {
                stamp_us: stamp_us.wrapping_sub(self.queued.as_micros() as u32),
                hold_us: now.since(at).as_micros() as u32,
            }),
            boot: self.boot,
            takes_repair: self.claims.is_some(),
            loss_in: self.claims.unwrap_or_default(),
            arrived: 0,
            lost: 0,
            ..Hello::default()
        };
        let plaintext = control(|b| b.hello(&hello).unwrap());
        self.seal(to, Kind::Control, &plaintext)
    }

    /// Returns the neighbour's own record of its links, as one control message.
    pub fn record(&self, seq: u32, links: &[(NodeAddr, u32)]) -> Vec<u8> {
        let body = self.link_state(self.address(), seq, links);
        records(&[(RecordKind::LINK_STATE, &body)])
    }

    /// The same with the share of packets lost on each link.
    pub fn lossy_record(&self, seq: u32, links: &[(NodeAddr, u32, f64)]) -> Vec<u8> {
        let serial = self.identity.certificate().fields().serial;
        let body = self.signed_links(self.address(), serial, seq, links);
        records(&[(RecordKind::LINK_STATE, &body)])
    }

    /// Returns the body of a link-state record in the name of `origin`, signed by this neighbour.
    pub fn link_state(&self, origin: NodeAddr, seq: u32, links: &[(NodeAddr, u32)]) -> Vec<u8> {
        let serial = self.identity.certificate().fields().serial;
        self.forged(origin, serial, seq, links)
    }

    /// The same, naming any certificate.
    pub fn forged(
        &self,
        origin: NodeAddr,
        serial: u32,
        seq: u32,
        links: &[(NodeAddr, u32)],
    ) -> Vec<u8> {
        let clean: Vec<_> = links.iter().map(|&(to, us)| (to, us, 0.0)).collect();
        self.signed_links(origin, serial, seq, &clean)
    }

    fn signed_links(
        &self,
        origin: NodeAddr,
        serial: u32,
        seq: u32,
        links: &[(NodeAddr, u32, f64)],
    ) -> Vec<u8> {
        let links: Vec<Link> = links
            .iter()
            .map(|&(neighbor, latency_us, loss)| Link {
                neighbor,
                latency: Latency::from_micros(latency_us),
                loss: Loss::from_share(loss),
                availability: wire::Availability::STEADY,
            })
            .collect();
        let repr = link_state::Repr {
            origin,
            seq: RecordSeq(seq),
            lifetime_s: 900,
            certificate_serial: serial,
            strikes: 0,
            links: &links,
            options: &[],
        };
        let mut body = vec![0; BODY_BYTES_MAX];
        let sign = |signed: &[u8]| self.identity.sign(Context::LinkState, signed);
        let len = repr.emit(&mut body, sign).unwrap();
        body.truncate(len);
        body
    }

    /// Returns the body of a record of groups in the name of `origin`, signed by this neighbour.
    pub fn groups(&self, origin: NodeAddr, seq: u32, members: &[NodeAddr]) -> Vec<u8> {
        let repr = wire::groups::Repr {
            origin,
            seq: RecordSeq(seq),
            lifetime_s: 900,
            certificate_serial: self.identity.certificate().fields().serial,
            part: 0,
            members,
            settings: &[],
            permits: &[],
        };
        let mut body = vec![0; BODY_BYTES_MAX];
        let sign = |signed: &[u8]| self.identity.sign(Context::Groups, signed);
        let len = repr.emit(&mut body, sign).unwrap();
        body.truncate(len);
        body
    }

    /// Returns the data packets received, with their payloads.
    pub fn packets(&self) -> Vec<(Repr, Vec<u8>)> {
        let data = self.heard.iter().filter(|h| h.kind == Kind::Data);
        data.map(|heard| {
            let header = Header::parse(&*heard.plaintext).unwrap();
            (header.repr(), header.payload().to_vec())
        })
        .collect()
    }

    fn on_handshake(&mut self, now: Time, from: UnderlayAddr, datagram: &[u8]) -> Vec<Vec<u8>> {
        match self.handshakes.on_datagram(now, UNIX_S, from, datagram) {
            Outcome::Reply(datagrams) => datagrams,
            Outcome::Cookie(bytes) => vec![bytes.to_vec()],
            Outcome::Established(established) => {
                self.sessions.insert(from, (established.session, None));
                self.next_hello = now;
                let mut out = established.reply;
                if self.polite {
                    out.extend(self.hello(now, from));
                }
                out
            }
            Outcome::Refused(why) => {
                self.refused.push(why);
                Vec::new()
            }
            Outcome::Failed { reason, reply, .. } => {
                self.refused.push(reason);
                reply.into_iter().collect()
            }
        }
    }

    fn open(&mut self, now: Time, from: UnderlayAddr, datagram: &[u8]) {
        let Some((session, stamp)) = self.sessions.get_mut(&from) else {
            return;
        };
        let mut datagram = datagram.to_vec();
        let Ok(opened) = session.open(&mut datagram) else {
            return;
        };
        self.handshakes.on_confirmed(session.local_index());
        let plaintext = datagram[opened.plaintext].to_vec();
        if opened.kind == Kind::Control {
            for message in Messages::new(&plaintext).flatten() {
                if let Message::Hello(hello) = message {
                    *stamp = Some((hello.stamp_us, now));
                }
            }
        }
        if self.listens {
            self.heard.push(Heard {
                at: now,
                from,
                kind: opened.kind,
                plaintext,
            });
        }
    }
}

/// Returns the plaintext of a control datagram.
pub fn control(write: impl FnOnce(&mut Builder<'_>)) -> Vec<u8> {
    let mut bytes = vec![0; 1400];
    let mut builder = Builder::new(&mut bytes);
    write(&mut builder);
    let len = builder.len();
    bytes.truncate(len);
    bytes
}

/// Returns a control datagram with these records, all new.
pub fn records(records: &[(RecordKind, &[u8])]) -> Vec<u8> {
    control(|b| {
        for &(kind, body) in records {
            let age_s = 0;
            b.record(&Record { kind, age_s, body }).unwrap();
        }
    })
}

/// Returns the plaintext of a data datagram.
pub fn packet(header: &Repr, payload: &[u8]) -> Vec<u8> {
    let fixed = HEADROOM - CLEAR_BYTES;
    let mut bytes = vec![0; fixed];
    header.emit(&mut bytes).unwrap();
    bytes.extend_from_slice(payload);
    bytes
}
