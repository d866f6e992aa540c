//! The decisions of a hostile member about each passing packet, and the messages that it invents.
//!
//! A packet that it discards goes into its own engine without remaining hops: the lanes and links have accepted it like
//! any other, and no node downstream misses a number.

use super::craft::{Craft, Seen};
use super::member::Say;
use super::treason::{Deed, Treason};
use base::{Duration, NodeAddr, Rng, Time, UnderlayAddr};
use secure::{Context, Identity, Network};
use std::collections::VecDeque;
use wire::control::{Echo, Hello, MESSAGE_HEADER_BYTES, kind};
use wire::data::Header;
use wire::link::Kind;
use wire::link_state;
use wire::record::{RECORD_HEADER_BYTES, RecordKind};
use wire::transport;

/// Time between two moments at which it may send messages.
const TICK: Duration = Duration::from_millis(10);
/// Lies about how long an echo was held: a part of the round trip, about all of it, and more than that.
const LIES_US: [u32; 4] = [600, 10_000, 40_000, 1 << 31];
/// Number of other nodes' packets that it remembers.
const REMEMBERED: usize = 256;

/// The hostile part of a member.
pub(super) struct Mind {
    treason: Treason,
    rng: Rng,
    identity: Identity,
    craft: Craft,
    seen: VecDeque<Seen>,
    neighbors: Vec<UnderlayAddr>,
    next: Time,
    /// How much longer than in reality it claims to have held echoes.
    lie_us: u32,
    /// For each deed, the fraction of a message left over by its rate.
    owed: Vec<f64>,
    /// Number of packets and messages discarded, changed or invented.
    pub(super) misdeeds: u64,
    /// When it first sent a false record of its links.
    pub(super) lied_at: Option<Time>,
}

impl Mind {
    pub(super) fn new(
        treason: Treason,
        identity: Identity,
        network: Network,
        peers: &[(UnderlayAddr, Identity)],
    ) -> Mind {
        let neighbors = peers.iter().map(|(at, _)| *at).collect();
        let mut rng = Rng::new(treason.seed ^ 0x6d69_6e64);
        Mind {
            craft: Craft::new(&mut rng, identity.clone(), network, &treason),
            lie_us: LIES_US[rng.below(LIES_US.len() as u64) as usize],
            rng,
            identity,
            seen: VecDeque::new(),
            neighbors,
            next: treason.at,
            owed: vec![0.0; treason.deeds.len()],
            treason,
            misdeeds: 0,
            lied_at: None,
        }
    }

    fn is_awake(&self, now: Time) -> bool {
        now >= self.treason.at
    }

    /// Returns when it next sends something.
    pub(super) fn next_deed(&self) -> Option<Time> {
        Some(self.next)
    }

    /// Handles a neighbour's packet before the member's engine gets it.
    pub(super) fn on_way_in(&mut self, now: Time, _: UnderlayAddr, kind: Kind, bytes: &mut [u8]) {
        if kind != Kind::Data {
            return;
        }
        let own = self.identity.address();
        let Ok(header) = Header::parse(&mut *bytes) else {
            return;
        };
        if header.destination() == own || header.source() == own {
            return;
        }
        if self.seen.len() >= REMEMBERED {
            self.seen.pop_front();
        }
        self.seen.push_back(Seen {
            header: header.repr(),
            bytes: header.into_inner().to_vec(),
        });
        if !self.is_awake(now) {
            return;
        }
        for i in 0..self.treason.deeds.len() {
            match self.treason.deeds[i] {
                Deed::Swallow {
                    pct,
                    spares_handshakes,
                } if self.rng.below(100) < pct => {
                    let mut header = Header::trusted(&mut *bytes);
                    if !(spares_handshakes && is_handshake(&header)) {
                        header.set_ttl(0);
                        self.misdeeds += 1;
                    }
                }
                Deed::Corrupt { pct } if self.rng.below(100) < pct => {
                    let mut header = Header::trusted(&mut *bytes);
                    let payload = header.payload_mut();
                    if !payload.is_empty() {
                        let at = self.rng.below(payload.len() as u64) as usize;
                        payload[at] ^= 1 << self.rng.below(8);
                        self.misdeeds += 1;
                    }
                }
                _ => {}
            }
        }
    }

    /// Handles what the member's engine sends.
    pub(super) fn on_way_out(&mut self, now: Time, _: UnderlayAddr, kind: Kind, bytes: &mut [u8]) {
        if kind != Kind::Control {
            return;
        }
        let awake = self.is_awake(now);
        let mut at = 0;
        while let Some(head) = bytes.get(at..at + MESSAGE_HEADER_BYTES) {
            let (kind, len) = (head[0], usize::from(u16::from_be_bytes([head[1], head[2]])));
            at += MESSAGE_HEADER_BYTES;
            let Some(body) = bytes.get_mut(at..at + len) else {
                return;
            };
            at += len;
            match kind {
                kind::HELLO if awake && self.treason.has(|d| *d == Deed::LieInHellos) => {
                    self.on_hello(body);
                }
                kind::RECORDS => self.on_records(now, body),
                _ => {}
            }
        }
    }

    /// Changes a hello: it claims that the echo was held for nearly all of the time, and that everything was received.
    fn on_hello(&mut self, body: &mut [u8]) {
        let Ok(mut hello) = Hello::parse(body) else {
            return;
        };
        hello.echo = hello.echo.map(|echo| Echo {
            hold_us: echo.hold_us.saturating_add(self.lie_us),
            ..echo
        });
        hello.loss_in = wire::Loss::default();
        hello.arrived = hello.arrived.wrapping_add(hello.lost);
        hello.lost = 0;
        body.copy_from_slice(&hello.to_bytes());
        self.misdeeds += 1;
    }

    fn on_records(&mut self, now: Time, body: &mut [u8]) {
        let mut at = 0;
        while let Some(head) = body.get(at..at + RECORD_HEADER_BYTES) {
            let (kind, len) = (head[0], usize::from(u16::from_be_bytes([head[1], head[2]])));
            at += RECORD_HEADER_BYTES;
            let Some(record) = body.get_mut(at..at + len) else {
                return;
            };
            at += len;
            if RecordKind(kind) == RecordKind::LINK_STATE {
                self.on_record(now, record);
            }
        }
    }

    /// Falsifies and signs a record of its own before it is sent.
    fn on_record(&mut self, now: Time, record: &mut [u8]) {
        let Ok(links) = link_state::LinkState::parse(record) else {
            return;
        };
        let count = links.links().len();
        if links.origin != self.identity.address() {
            return;
        }
        self.craft.on_own_record(record);
        let lies = self.treason.has(|d| *d == Deed::LieAboutLinks);
        let invents = self.treason.has(|d| *d == Deed::InventLinks);
        if !self.is_awake(now) || !(lies || invents) {
            return;
        }
        for i in 0..count {
            let from = link_state::FIXED_BYTES + i * link_state::LINK_BYTES;
            let link = &mut record[from..from + link_state::LINK_BYTES];
            if invents {
                // The stranger is the same each time, so that this is one link and not many.
                let stranger = self.treason.nodes[i % self.treason.nodes.len()];
                link[..4].copy_from_slice(&stranger.0.to_be_bytes());
            }
            link[4..].fill(0);
        }
        let signed = record.len() - link_state::SIGNATURE_BYTES;
        let (signed, signature) = record.split_at_mut(signed);
        signature.copy_from_slice(&self.identity.sign(Context::LinkState, signed));
        self.lied_at.get_or_insert(now);
        self.misdeeds += 1;
    }

    /// Returns the messages to send now.
    pub(super) fn act(&mut self, now: Time) -> Vec<Say> {
        let mut says = Vec::new();
        if now < self.next {
            return says;
        }
        self.next = now + TICK;
        for i in 0..self.treason.deeds.len() {
            let deed = self.treason.deeds[i];
            let per_s = match deed {
                Deed::Forge { per_s }
                | Deed::FloodRecords { per_s }
                | Deed::FloodJoins { per_s }
                | Deed::FloodOpenings { per_s }
                | Deed::FloodHandshakes { per_s }
                | Deed::FloodData { per_s } => per_s,
                Deed::RuleGroups => 2,
                _ => continue,
            };
            self.owed[i] += per_s as f64 * TICK.as_secs_f64();
            while self.owed[i] >= 1.0 {
                self.owed[i] -= 1.0;
                let to = self.neighbors[self.rng.below(self.neighbors.len() as u64) as usize];
                let seen = match self.seen.len() as u64 {
                    0 => None,
                    len => self.seen.get(self.rng.below(len) as usize),
                };
                let say = self.craft.say(&mut self.rng, now, deed, to, seen);
                self.misdeeds += u64::from(say.is_some());
                says.extend(say);
            }
        }
        says
    }
}

/// Returns whether it is a packet of the end-to-end handshake.
fn is_handshake(header: &Header<&mut [u8]>) -> bool {
    let end = header
        .has_transport()
        .then(|| transport::Kind::of(header.payload()));
    matches!(end, Some(Ok(transport::Kind::End(kind))) if !kind.is_sealed())
}

/// Returns an address that no node of the network has.
pub(super) fn nobody(rng: &mut Rng) -> NodeAddr {
    NodeAddr(0x0a07_4000 + rng.below(0x4000) as u32)
}
