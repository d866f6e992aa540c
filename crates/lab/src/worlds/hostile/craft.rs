//! The messages that a hostile member invents: well formed, and signed if it can sign them.

use super::member::Say;
use super::mind::nobody;
use super::treason::{Deed, Treason};
use base::{NodeAddr, Rng, Time, UnderlayAddr, VirtualPort};
use secure::{Context, Handshakes, Identity, Network};
use wire::control::Builder;
use wire::data::{Class, FlowSeq, LaneSeq, LinkProtocol, Remaining, Repr, Routing};
use wire::groups::{self, Setting, TreeBuilder};
use wire::link::Kind;
use wire::link_state;
use wire::record::{BODY_BYTES_MAX, Record, RecordKind, RecordSeq};
use wire::transport::{Flags, SEGMENT_BYTES, Segment};
use wire::{CLEAR_BYTES, HEADROOM};

/// The longest control datagram.
const CONTROL_BYTES: usize = 1_400;
/// All addresses of class D.
const CLASS_D: NodeAddr = NodeAddr(0xe000_0000);
/// The stamp "over every link".
const FLOODING_STAMP: [u8; 3] = [0, 1, 1];

/// A packet of another node that passed.
pub(super) struct Seen {
    pub(super) header: Repr,
    pub(super) bytes: Vec<u8>,
}

/// The generator of invented messages.
pub(super) struct Craft {
    identity: Identity,
    network: Network,
    nodes: Vec<NodeAddr>,
    ports: [u16; 2],
    groups: Vec<NodeAddr>,
    /// The newest record of its own links, as its engine has made it.
    record: Vec<u8>,
    editions: u32,
}

impl Craft {
    pub(super) fn new(
        rng: &mut Rng,
        identity: Identity,
        network: Network,
        treason: &Treason,
    ) -> Craft {
        Craft {
            identity,
            network,
            nodes: treason.nodes.clone(),
            ports: treason.ports,
            groups: treason.groups.clone(),
            record: Vec::new(),
            editions: rng.below(1_000) as u32,
        }
    }

    /// Notes a record of the member's links that its engine sends.
    pub(super) fn on_own_record(&mut self, body: &[u8]) {
        body.clone_into(&mut self.record);
    }

    /// Makes one message of a deed.
    pub(super) fn say(
        &mut self,
        rng: &mut Rng,
        now: Time,
        deed: Deed,
        to: UnderlayAddr,
        seen: Option<&Seen>,
    ) -> Option<Say> {
        let (kind, plaintext) = match deed {
            Deed::Forge { .. } => (Kind::Data, self.forged(rng, seen)),
            Deed::FloodRecords { .. } => (Kind::Control, self.edition()?),
            Deed::FloodJoins { .. } => (Kind::Control, self.joins(rng)),
            Deed::RuleGroups => (Kind::Control, self.rule(rng)),
            Deed::FloodOpenings { .. } => (Kind::Data, self.opening(rng)),
            Deed::FloodData { .. } => (Kind::Data, self.data(rng)),
            Deed::FloodHandshakes { .. } => match rng.chance(0.3) {
                true => return self.init(rng, now, to).map(|init| Say::Raw(to, init)),
                false => (Kind::Data, self.end(rng, now, to)?),
            },
            _ => return None,
        };
        Some(Say::Sealed(to, kind, plaintext))
    }

    fn pick(rng: &mut Rng, nodes: &[NodeAddr]) -> NodeAddr {
        nodes[rng.below(nodes.len() as u64) as usize]
    }

    /// Makes a header in which everything that a forger cannot know is guessed.
    fn header(&self, rng: &mut Rng, source: NodeAddr) -> Repr {
        Repr {
            class: Class {
                link: LinkProtocol::BestEffort,
                routing: Routing::ExpectedLatency,
                priority: rng.below(8) as u8,
            },
            ttl: 60,
            has_extension: false,
            congested: false,
            recovered: false,
            has_transport: false,
            remaining: Remaining(rng.below(5_000) as u16 + 1_000),
            source,
            destination: Craft::pick(rng, &self.nodes),
            source_port: VirtualPort(rng.next_u64() as u16),
            destination_port: VirtualPort(self.ports[rng.below(2) as usize] + rng.below(4) as u16),
            flow_seq: FlowSeq(rng.next_u64() as u32),
            lane_seq: LaneSeq::new(0),
        }
    }

    fn forged(&self, rng: &mut Rng, seen: Option<&Seen>) -> Vec<u8> {
        let noise = |rng: &mut Rng, len: usize| {
            let mut noise = vec![0; len];
            rng.fill(&mut noise);
            noise
        };
        let Some(seen) = seen.filter(|_| rng.chance(0.8)) else {
            let source = Craft::pick(rng, &self.nodes);
            let mut header = self.header(rng, source);
            if let Some(group) = self.groups.first().filter(|_| rng.chance(0.2)) {
                (header.destination, header.destination_port) = (*group, VirtualPort(5_000));
            }
            header.has_transport = rng.chance(0.3);
            let payload = noise(rng, 160);
            return packet(&header, &[], &payload);
        };
        let mut header = seen.header;
        header.class.link = LinkProtocol::BestEffort;
        header.ttl = 60;
        let fixed = HEADROOM - CLEAR_BYTES;
        let mut bytes = seen.bytes.clone();
        // A third of the packets has the next number, or one of the following. The others keep their number, and most of
        // them get another payload.
        if rng.below(3) == 1 {
            header.flow_seq = FlowSeq(header.flow_seq.0.wrapping_add(1 + rng.below(60) as u32));
        }
        if rng.chance(0.6) {
            let from = bytes.len().saturating_sub(60).max(fixed);
            rng.fill(&mut bytes[from..]);
        }
        let room = header.emit(&mut bytes);
        debug_assert!(room.is_ok());
        bytes
    }

    /// Makes another record of its links, in a newer edition.
    fn edition(&mut self) -> Option<Vec<u8>> {
        self.editions += 1;
        let links = link_state::LinkState::parse(&self.record).ok()?;
        let seq = links.seq.0.wrapping_add(self.editions);
        let mut body = self.record.clone();
        body[4..8].copy_from_slice(&seq.to_be_bytes());
        let signed = body.len() - link_state::SIGNATURE_BYTES;
        let signature = self.identity.sign(Context::LinkState, &body[..signed]);
        body[signed..].copy_from_slice(&signature);
        Some(record(RecordKind::LINK_STATE, &body))
    }

    fn joins(&mut self, rng: &mut Rng) -> Vec<u8> {
        let part = rng.below(groups::PARTS as u64) as u8;
        let members: Vec<NodeAddr> = (0..groups::GROUPS_MAX)
            .map(|_| NodeAddr(0xe800_0000 | rng.next_u64() as u32 & 0x00ff_ffff))
            .collect();
        self.groups_record(part, &members, &[])
    }

    /// Makes a setting that claims all groups with the highest version.
    fn rule(&mut self, rng: &mut Rng) -> Vec<u8> {
        let setting = |group: NodeAddr, prefix: u8| Setting {
            prefix,
            version: u32::MAX,
            tree: TreeBuilder::Scribe,
            class: Class {
                link: LinkProtocol::BestEffort,
                routing: Routing::Hops,
                priority: 0,
            },
            deadline_ms: 1,
            rate_kbps: 1,
            ..Setting::of(group)
        };
        let mut settings = vec![setting(CLASS_D, 4)];
        if rng.chance(0.5) {
            settings.extend(self.groups.first().map(|group| setting(*group, 32)));
        }
        self.groups_record(groups::PARTS as u8 - 1, &[], &settings)
    }

    fn groups_record(&mut self, part: u8, members: &[NodeAddr], settings: &[Setting]) -> Vec<u8> {
        self.editions += 1;
        let from = link_state::LinkState::parse(&self.record).map_or(0, |links| links.seq.0);
        let repr = groups::Repr {
            origin: self.identity.address(),
            seq: RecordSeq(from.wrapping_add(self.editions)),
            lifetime_s: 900,
            certificate_serial: self.identity.certificate().fields().serial,
            part,
            members,
            settings,
            permits: &[],
        };
        let mut body = vec![0; BODY_BYTES_MAX];
        let sign = |signed: &[u8]| self.identity.sign(Context::Groups, signed);
        let len = repr.emit(&mut body, sign).unwrap_or(0);
        let kind = RecordKind::groups(part).unwrap_or(RecordKind::GROUPS);
        record(kind, &body[..len])
    }

    fn opening(&self, rng: &mut Rng) -> Vec<u8> {
        let source = match rng.below(3) {
            0 => self.identity.address(),
            1 => nobody(rng),
            _ => Craft::pick(rng, &self.nodes),
        };
        let mut header = self.header(rng, source);
        header.has_transport = true;
        let segment = Segment {
            flags: Flags::SYN,
            reason: None,
            connection: rng.next_u64() as u32,
            offset: 0,
            acknowledged: 1,
            window: 1 << 16,
            stamp_us: rng.next_u64() as u32,
            echo_us: 0,
            ticket: None,
            takes_early: false,
        };
        let mut payload = [0; SEGMENT_BYTES];
        let room = segment.emit(&[], &mut payload);
        debug_assert!(room.is_ok());
        packet(&header, &[], &payload)
    }

    fn data(&self, rng: &mut Rng) -> Vec<u8> {
        let mut header = self.header(rng, self.identity.address());
        let payload = vec![0x5a; 40 + rng.below(900) as usize];
        if rng.chance(0.3) {
            header.class.routing = Routing::Stamped;
            header.has_extension = true;
            return packet(&header, &FLOODING_STAMP, &payload);
        }
        packet(&header, &[], &payload)
    }

    /// Makes the first message of a handshake with a neighbour, which is not continued.
    fn init(&self, rng: &mut Rng, now: Time, to: UnderlayAddr) -> Option<Vec<u8>> {
        let mut shaking = Handshakes::new(
            self.identity.clone(),
            self.network.clone(),
            entropy(rng),
            now,
        );
        shaking.dial(now, to, None).ok()
    }

    /// Makes the same for the other end of a path, in its own name or another's.
    fn end(&self, rng: &mut Rng, now: Time, to: UnderlayAddr) -> Option<Vec<u8>> {
        let mut shaking = Handshakes::of_ends(
            self.identity.clone(),
            self.network.clone(),
            entropy(rng),
            now,
        );
        let init = shaking.dial(now, to, None).ok()?;
        let source = match rng.below(3) {
            0 => self.identity.address(),
            1 => nobody(rng),
            _ => Craft::pick(rng, &self.nodes),
        };
        let mut header = self.header(rng, source);
        (header.source_port, header.destination_port) = (VirtualPort(0), VirtualPort(0));
        header.has_transport = true;
        Some(packet(&header, &[], &init))
    }
}

fn entropy(rng: &mut Rng) -> [u8; 32] {
    let mut seed = [0; 32];
    rng.fill(&mut seed);
    seed
}

/// Returns the plaintext of a packet; an extension includes its length.
fn packet(header: &Repr, extension: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; HEADROOM - CLEAR_BYTES];
    let room = header.emit(&mut bytes);
    debug_assert!(room.is_ok());
    bytes.extend_from_slice(extension);
    bytes.extend_from_slice(payload);
    bytes
}

/// Returns the plaintext of a control datagram with one record, made just now.
fn record(kind: RecordKind, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; CONTROL_BYTES];
    let mut builder = Builder::new(&mut bytes);
    let age_s = 0;
    let room = builder.record(&Record { kind, age_s, body });
    debug_assert!(room.is_ok());
    let len = builder.len();
    bytes.truncate(len);
    bytes
}
