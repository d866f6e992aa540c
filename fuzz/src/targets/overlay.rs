//! Fuzz targets of `overlay`: a node whose neighbour sends anything in a valid session, and the link-state database
//! with records that need no signature.

#[path = "overlay/reliable.rs"]
mod reliable;
#[path = "overlay/streams.rs"]
mod streams;

use std::sync::OnceLock;

use base::{
    Burst, ClientId, Duration, Engine, Input, NodeAddr, Outbox, Pool, Time, UnderlayAddr,
    VirtualPort,
};
use overlay::link::{LinkIndex, MAX_LINKS};
use overlay::link_state::{Database, Judgement, MAX_ORIGINS, Origination};
use overlay::realtime::{Decoder, KEPT, Protect, SPAN};
use overlay::reliable::{Arrival, Lane};
use overlay::route::Tables;
use overlay::stream::{Framing, STREAMS_MAX, StreamId, StreamReply, StreamRequest};
use overlay::{Config, Event, Node, Reply, Request, Settings};
use secure::{Authority, Context, Handshakes, Identity, Keys, Network, Outcome, Session, Validity};
use wire::control::{Builder, Hello, Hold, Repair};
use wire::data::{Class, FlowSeq, LaneSeq, LinkProtocol, Remaining, Repr, Routing};
use wire::ipc::{Delivery, Options, ResetReason};
use wire::ipc::{Scheme, StreamControl};
use wire::link::{Kind, SEAL_BYTES};
use wire::link_state::{Link, SIGNATURE_BYTES};
use wire::record::{BODY_BYTES_MAX, Record, RecordKind, RecordSeq};
use wire::transport::{Flags, RANGES_MAX, Range, Segment, Ticket};
use wire::{Aim, CLEAR_BYTES, HEADER_BYTES, HEADROOM, Latency, Loss};

use crate::Target;

pub(crate) const TARGETS: &[Target] = &[
    ("overlay_node", node),
    ("overlay_records", records),
    ("overlay_reliable", reliable::lanes),
    ("overlay_repair", repair),
    ("overlay_streams", streams::streams),
];

const NOW_S: u64 = 1_790_000_000;
const PORT: VirtualPort = VirtualPort(5_000);
/// Most operations of one input.
const OPS_MAX: usize = 64;

fn address(n: usize) -> NodeAddr {
    NodeAddr(0x0a07_0001 + n as u32)
}

fn at(n: usize) -> UnderlayAddr {
    UnderlayAddr {
        port: n as u16,
        ..UnderlayAddr::default()
    }
}

/// Gives a decoder of coded repair packets and repair packets of any numbers and contents.
///
/// Each operation is a byte that selects it, a byte that moves the number, and a byte for a length with as many bytes.
fn repair(data: &[u8]) {
    let mut decoder = Decoder::default();
    let (mut data, mut seq, mut now) = (data, 1_000u64, Time::ZERO);
    for _ in 0..4 * OPS_MAX {
        let [what, step, len, rest @ ..] = data else {
            break;
        };
        let (bytes, rest) = rest.split_at(usize::from(*len).min(rest.len()));
        data = rest;
        seq = seq.saturating_add_signed(i64::from(step.cast_signed()));
        now += Duration::from_millis(u64::from(*what >> 4));
        match what & 3 {
            0 => decoder.on_original(now, seq, bytes),
            1 => decoder.on_asked(now, seq),
            2 => decoder.release_idle(now),
            _ => {
                if let Ok(repair) = Repair::parse(bytes) {
                    decoder.on_repair(now, seq, &repair);
                }
            }
        }
        while let Some((found, due)) = decoder.poll() {
            assert!(due <= now);
            let len = decoder.bytes(found).expect("what is found is kept").len();
            assert!((HEADER_BYTES..=255).contains(&len));
        }
        assert!(decoder.held_bytes() <= (KEPT + 2 * SPAN) * 2 * (255 + SPAN));
    }
}

/// A network of two nodes, the same in every run.
fn network() -> &'static (Network, [Identity; 2]) {
    static NETWORK: OnceLock<(Network, [Identity; 2])> = OnceLock::new();
    NETWORK.get_or_init(|| {
        let mut authority = Authority::generate(&[1; 32]);
        let validity = Validity {
            not_before_s: NOW_S,
            not_after_s: NOW_S + 86_400,
        };
        let identities = [0, 1].map(|n| {
            let keys = Keys::generate(&[n as u8 + 1; 64]);
            let id = authority.network().id();
            let request = keys.request(id, address(n), "node", &[]);
            let certificate = authority
                .issue(&request.expect("a good name"), validity)
                .expect("a good request");
            Identity::new(keys, certificate).expect("its own certificate")
        });
        (authority.network(), identities)
    })
}

/// The packets that the node has sent, and its new streams; the rest is dropped.
struct Outside {
    pool: Pool,
    sent: Vec<Vec<u8>>,
    /// Streams that neighbours have opened.
    incoming: Vec<StreamId>,
}

impl Outbox<Node> for Outside {
    fn send(&mut self, _to: UnderlayAddr, burst: Burst) {
        let datagrams = (0..burst.segments()).map(|i| burst.segment(i).to_vec());
        self.sent.extend(datagrams);
    }
    fn deliver(&mut self, _client: ClientId, reply: Reply) {
        if let Reply::Stream(StreamReply::Incoming { stream, .. }) = reply {
            self.incoming.push(stream);
        }
    }
    fn report(&mut self, _event: Event) {}
    fn pool(&self) -> &Pool {
        &self.pool
    }
}

/// A node, and a neighbour with a session and a link to it.
struct Scene {
    node: Node,
    out: Outside,
    session: Session,
    now: Time,
}

impl Scene {
    fn new() -> Scene {
        let (network, identities) = network();
        let mut settings = Settings::modern();
        settings.realtime.aims.protect = Protect::Auto;
        settings.direct_links = true;
        settings.find_links = true;
        // A longer limit, such as a quarter of an hour of hello packets, would take too long for each input.
        settings.streams.give_up = Duration::from_secs(60);
        let mut subject = Node::new(Config {
            identity: identities[0].clone(),
            network: network.clone(),
            neighbors: Vec::new(),
            accept: None,
            settings,
            lab: true,
            seed: [1; 32],
            unix_start_s: NOW_S,
        });
        let mut out = Outside {
            pool: Pool::new(16, 1_024),
            sent: Vec::new(),
            incoming: Vec::new(),
        };
        let now = Time::ZERO;
        let other = identities[1].clone();
        let mut neighbour = Handshakes::new(other, network.clone(), [2; 32], now);
        let init = neighbour.dial(now, at(0), None).expect("the first dial");
        pass(&mut subject, now, &init, &mut out);
        let response = out.sent.pop().expect("an answer to the Init");
        let outcome = neighbour.on_datagram(now, NOW_S, at(0), &response);
        let Outcome::Established(established) = outcome else {
            panic!("the response was refused: {outcome:?}");
        };
        let finish = established.reply.concat();
        pass(&mut subject, now, &finish, &mut out);
        let mut scene = Scene {
            node: subject,
            out,
            session: established.session,
            now,
        };
        for _ in 0..8 {
            scene.wait(Duration::from_millis(50));
        }
        scene.say_links();
        scene.wait(Duration::from_millis(50));
        assert!(
            scene.node.snapshot(scene.now).links[0].state == "up",
            "the link comes up"
        );
        scene
    }

    /// Lets time pass. The neighbour sends a hello packet at the end.
    fn wait(&mut self, span: Duration) {
        let until = self.now + span;
        for _ in 0..1_000 {
            let Some((due, _)) = self.node.next_timeout().filter(|(due, _)| *due <= until) else {
                break;
            };
            self.now = self.now.max(due);
            self.node.handle(self.now, Input::Timeout, &mut self.out);
            self.node.flush(self.now, &mut self.out);
        }
        self.now = until;
        let hello = Hello {
            i_hear_you: true,
            takes_repair: true,
            knows_paths: true,
            doubts: false,
            lets_wait: true,
            interval_ms: 50,
            stamp_us: until.as_micros() as u32,
            boot: 7,
            ..Hello::default()
        };
        self.say_control(|b| b.hello(&hello).expect("a hello fits"));
    }

    fn say_control(&mut self, write: impl FnOnce(&mut Builder<'_>)) {
        let mut bytes = [0; 1_400];
        let mut builder = Builder::new(&mut bytes);
        write(&mut builder);
        let len = builder.len();
        self.say(Kind::Control, &bytes[..len]);
    }

    /// Sends the neighbour's own record, so that there is a route to it.
    fn say_links(&mut self) {
        let identity = &network().1[1];
        let links = [Link {
            neighbor: address(0),
            latency: Latency::from_micros(1_000),
            loss: Loss::NONE,
            availability: wire::Availability::STEADY,
        }];
        let repr = wire::link_state::Repr {
            origin: address(1),
            seq: RecordSeq(1),
            lifetime_s: 900,
            certificate_serial: identity.certificate().fields().serial,
            strikes: 0,
            links: &links,
            options: &[],
        };
        let mut body = [0; BODY_BYTES_MAX];
        let len = repr
            .emit(&mut body, |signed| {
                identity.sign(Context::LinkState, signed)
            })
            .expect("one link fits");
        let record = Record {
            kind: RecordKind::LINK_STATE,
            age_s: 0,
            body: &body[..len],
        };
        self.say_control(|b| b.record(&record).expect("one record fits"));
    }

    /// Sends plaintexts, encrypted by the neighbour. Several plaintexts of the same length arrive as one burst.
    fn say(&mut self, kind: Kind, plaintexts: &[u8]) {
        self.say_in_pieces(kind, plaintexts, plaintexts.len());
    }

    fn say_in_pieces(&mut self, kind: Kind, plaintexts: &[u8], each: usize) {
        let mut burst = self.out.pool.large().expect("few are in use");
        for plaintext in plaintexts.chunks(each.max(1)) {
            let mut datagram = vec![0; SEAL_BYTES + plaintext.len()];
            datagram[CLEAR_BYTES..CLEAR_BYTES + plaintext.len()].copy_from_slice(plaintext);
            self.session
                .seal(kind, &mut datagram)
                .expect("few datagrams");
            burst.append(&datagram);
        }
        self.receive(burst);
    }

    fn receive(&mut self, burst: Burst) {
        let input = Input::Datagrams { from: at(1), burst };
        self.node.handle(self.now, input, &mut self.out);
        self.node.flush(self.now, &mut self.out);
    }

    fn ask(&mut self, client: u8, request: Request) {
        let client = ClientId(client.into());
        let input = Input::Request { client, request };
        self.node.handle(self.now, input, &mut self.out);
        self.node.flush(self.now, &mut self.out);
    }

    /// Sends a packet with fields from `bytes`; the remaining bytes are its payload.
    fn say_packet(&mut self, bytes: &[u8]) {
        let ([flags, left, from, to, flow, lane], payload) = match bytes.split_first_chunk() {
            Some((fields, payload)) => (*fields, payload),
            None => return,
        };
        let header = Repr {
            class: class(flags),
            ttl: if flags & 0x80 == 0 { 32 } else { 1 },
            has_extension: flags & 1 != 0,
            congested: false,
            recovered: false,
            has_transport: flags & 2 != 0,
            remaining: Remaining(u16::from(left) << 4),
            source: address(usize::from(from)),
            destination: address(usize::from(to)),
            source_port: PORT,
            destination_port: if flow & 1 == 0 { PORT } else { VirtualPort(7) },
            flow_seq: FlowSeq(u32::from(flow)),
            lane_seq: LaneSeq::new(lane.into()),
        };
        let mut packet = vec![0; HEADROOM - CLEAR_BYTES];
        header.emit(&mut packet).expect("it has the length");
        packet.extend_from_slice(payload);
        self.say(Kind::Data, &packet);
    }

    /// Acts as a client that binds, chooses options and sends, with values from `bytes`.
    fn be_client(&mut self, bytes: &[u8]) {
        let [who, flags, to, ..] = *bytes else {
            return;
        };
        self.ask(who, Request::Bind { port: PORT });
        let options = Options {
            class: class(flags),
            deadline: (flags & 1 != 0).then(|| Duration::from_millis(to.into())),
            delivery: [Delivery::AsItComes, Delivery::InOrder][usize::from(flags & 1)],
            ttl: 1 + (flags & 0x1f),
            give_up: (flags & 4 != 0).then(|| Duration::from_millis(to.into())),
            scheme: Scheme::ALL.get(usize::from(to % 6)).copied(),
            control: StreamControl::ALL.get(usize::from(to % 3)).copied(),
            early: flags & 8 != 0,
            aim: Aim::new((to > 0).then_some(f64::from(to) / 1e4), None).unwrap_or_default(),
        };
        self.ask(who, Request::Options(options));
        let payload = self.out.pool.copy_of(HEADROOM, &bytes[3..]);
        self.ask(
            who,
            Request::Send {
                to: address(usize::from(to)),
                port: PORT,
                payload: payload.expect("few are in use"),
            },
        );
        if flags & 2 != 0 {
            self.ask(who, Request::Close);
        }
    }
}

/// Bits 2 and 3 select the link protocol, bits 4 to 6 the routing.
fn class(flags: u8) -> Class {
    Class {
        link: LinkProtocol::ALL[usize::from(flags >> 2 & 3) % 3],
        routing: Routing::ALL[usize::from(flags >> 4 & 7) % 6],
        priority: flags & 7,
    }
}

fn pass(node: &mut Node, now: Time, datagram: &[u8], out: &mut Outside) {
    let burst = out.pool.copy_of(0, datagram).expect("few are in use");
    node.handle(now, Input::Datagrams { from: at(1), burst }, out);
    node.flush(now, out);
}

/// Does anything that a neighbour, a stranger or a client may do. Each operation is a byte that selects it, a length,
/// and as many bytes.
fn node(data: &[u8]) {
    let mut scene = Scene::new();
    let mut rest = data;
    for _ in 0..OPS_MAX {
        let [what, length, bytes @ ..] = rest else {
            break;
        };
        let (bytes, after) = bytes.split_at(bytes.len().min(usize::from(*length)));
        rest = after;
        match what % 8 {
            0 => scene.say(Kind::Data, bytes),
            1 => scene.say(Kind::Control, bytes),
            2 => {
                let datagram = scene.out.pool.copy_of(0, bytes);
                scene.receive(datagram.expect("few are in use"));
            }
            3 => {
                let ms = bytes.iter().map(|b| u64::from(*b)).sum::<u64>();
                scene.wait(Duration::from_millis(ms));
            }
            4 => scene.be_client(bytes),
            5 => scene.say_packet(bytes),
            6 => scene.say_in_pieces(Kind::Data, bytes, usize::from(what >> 3)),
            _ => scene.say_in_pieces(Kind::Control, bytes, usize::from(what >> 3)),
        }
        scene.out.sent.clear();
        assert!(scene.node.snapshot(scene.now).links.len() <= MAX_LINKS);
    }
    // Packets that waited for earlier ones or for their deadline are gone after the longest wait.
    scene.wait(Duration::from_secs(7));
    assert_eq!(scene.out.pool.in_use(), (0, 0));
}

/// Adds records as if they were signed: kind, age, length and body, repeatedly.
fn records(data: &[u8]) {
    let own = address(0);
    let mut database = Database::new(own);
    let mut tables = Tables::new(own);
    let mut now = Time::ZERO;
    let links = [1, 2].map(|n| Link {
        neighbor: address(n),
        latency: Latency::from_micros(1_000),
        loss: Loss::NONE,
        availability: wire::Availability::STEADY,
    });
    let what = Origination {
        strikes: 0,
        links: &links,
        certificate_serial: 1,
        options: &[],
    };
    database
        .originate(now, what, |_| [0; SIGNATURE_BYTES])
        .expect("two links fit");
    let mut rest = data;
    for _ in 0..OPS_MAX {
        let [kind, age, length, bytes @ ..] = rest else {
            break;
        };
        let (body, after) = bytes.split_at(bytes.len().min(usize::from(*length)));
        rest = after;
        let record = Record {
            kind: RecordKind(*kind),
            age_s: u16::from(*age) * 5,
            body,
        };
        database.on_record(now, LinkIndex(0), &record, |_| match age % 16 {
            0 => Judgement::Refused,
            1 => Judgement::NoCertificate,
            _ => Judgement::Good,
        });
        now += Duration::from_secs(u64::from(*age));
        database.expire(now);
        database.retry_pending(now, |_| Judgement::Good);
        tables.update(&mut database);
        assert!(database.len() <= MAX_ORIGINS);
        assert!(tables.destinations().all(|to| to != own));
    }
}
