//! Fuzz targets of `overlay`: a node whose neighbour sends anything in a valid session, and the link-state database
//! with records that need no signature.

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
    ("overlay_reliable", reliable),
    ("overlay_repair", repair),
    ("overlay_streams", streams),
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

/// Number of clients with streams; the first one listens.
const STREAM_CLIENTS: u32 = 6;

/// Sends a segment of a stream as the neighbour. Its position is near the beginning, or near the neighbour's last
/// segment.
fn say_segment(scene: &mut Scene, bytes: &[u8], number: u32) {
    let ([flags, who, offset, acknowledged, window, ranges], payload) =
        match bytes.split_first_chunk() {
            Some((fields, payload)) => (*fields, payload),
            None => return,
        };
    let mut known = Flags::NONE;
    for (bit, flag) in [
        Flags::SYN,
        Flags::ACK,
        Flags::FIN,
        Flags::RST,
        Flags::CONGESTED,
        Flags::MESSAGES,
        Flags::PROBE,
    ]
    .into_iter()
    .enumerate()
    {
        known = known.with_if(flag, flags >> bit & 1 != 0);
    }
    // An answer to a connecting client has the numbers of the client's last segment.
    let called = scene.out.sent.last().and_then(|datagram| {
        let mut datagram = datagram.clone();
        let opened = scene.session.open(&mut datagram).ok()?;
        let header = wire::data::Header::parse(&datagram[opened.plaintext]).ok()?;
        let segment = Segment::parse(header.payload()).ok()?.segment;
        let given = segment.ticket.map(|ticket| ticket.secret);
        Some((segment.connection, header.source_port(), given))
    });
    let given = called.and_then(|(.., given)| given);
    let (connection, port) = match (who >> 7, called) {
        (1, Some((connection, port, _))) => (connection, port),
        _ => (u32::from(who & 7), PORT),
    };
    let far = |place: u8| match place {
        0..=200 => u32::from(place) * 16,
        _ => u32::from(place) << 24,
    };
    let segment = Segment {
        flags: known,
        reason: known
            .has(Flags::RST)
            .then_some(ResetReason::ALL[usize::from(offset % 7)]),
        connection,
        offset: far(offset),
        acknowledged: far(acknowledged),
        window: u32::from(window) << 10,
        stamp_us: scene.now.as_micros() as u32,
        echo_us: u32::from(window) << (window % 24),
        ticket: None,
        takes_early: known.has(Flags::SYN.with(Flags::ACK)) && offset & 1 != 0,
    };
    // A ticket that the node has given, or an invalid one.
    let ticket = Ticket {
        secret: given.unwrap_or(u64::from(window)),
        number: u32::from(offset & 3),
    };
    let segment = Segment {
        ticket: known
            .has(Flags::SYN)
            .then_some(ticket)
            .filter(|_| acknowledged & 1 != 0 && !known.has(Flags::RST)),
        ..segment
    };
    let ranges: Vec<Range> = (0..usize::from(ranges) % (RANGES_MAX + 1))
        .map(|i| (far(offset ^ i as u8), far(ranges.rotate_left(i as u32))))
        .collect();
    let header = Repr {
        class: class(who >> 3 & 1),
        ttl: 9,
        has_extension: false,
        congested: false,
        recovered: false,
        has_transport: true,
        remaining: Remaining::NONE,
        source: address(1),
        destination: address(0),
        source_port: PORT,
        destination_port: port,
        flow_seq: FlowSeq(number),
        lane_seq: LaneSeq::new(0),
    };
    let mut packet = vec![0; HEADROOM - CLEAR_BYTES];
    header.emit(&mut packet).expect("it has the length");
    let mut head = [0; 200];
    let len = segment.emit(&ranges, &mut head).expect("200 bytes hold it");
    packet.extend_from_slice(&head[..len]);
    packet.extend_from_slice(payload);
    scene.say(Kind::Data, &packet);
}

/// Sends requests of clients for streams, also invalid ones.
fn ask_of_stream(scene: &mut Scene, bytes: &[u8]) {
    let [who, what, value, ..] = *bytes else {
        return;
    };
    let client = who % STREAM_CLIENTS as u8;
    let framing = [Framing::Bytes, Framing::Messages][usize::from(value & 1)];
    let latest = StreamId(u32::from(value));
    let stream = scene.out.incoming.pop().unwrap_or(latest);
    let request = match what % 9 {
        0 => StreamRequest::Listen {
            backlog: value.into(),
        },
        1 => StreamRequest::Connect {
            to: address(usize::from(value >> 1 & 1)),
            port: PORT,
            framing,
        },
        2 => StreamRequest::Accept { stream },
        3 => StreamRequest::Decline { stream },
        4 => {
            let written = vec![7; usize::from(value) * 40];
            let Some(payload) = scene.out.pool.copy_of(0, &written) else {
                return;
            };
            StreamRequest::Write { payload }
        }
        5 => StreamRequest::Finish,
        6 => StreamRequest::Consumed {
            bytes: u32::from(value) << (value % 24),
        },
        7 => StreamRequest::Reset,
        _ => return scene.ask(client, Request::Close),
    };
    scene.ask(client, Request::Stream(request));
}

/// Operations on streams: segments of a neighbour, requests of this node's clients, and time. Each is a byte that
/// selects it, a length, and as many bytes. At the end nothing is left.
fn streams(data: &[u8]) {
    let mut scene = Scene::new();
    scene.ask(0, Request::Bind { port: PORT });
    scene.ask(0, Request::Stream(StreamRequest::Listen { backlog: 4 }));
    let mut rest = data;
    for number in 0..OPS_MAX as u32 {
        let [what, length, bytes @ ..] = rest else {
            break;
        };
        let (bytes, after) = bytes.split_at(bytes.len().min(usize::from(*length)));
        rest = after;
        match what % 4 {
            0 | 1 => say_segment(&mut scene, bytes, number),
            2 => ask_of_stream(&mut scene, bytes),
            _ => {
                let ms = bytes.iter().map(|b| u64::from(*b)).sum::<u64>();
                scene.wait(Duration::from_millis(ms));
            }
        }
        if scene.out.sent.len() > 64 {
            scene.out.sent.clear();
        }
        assert!(scene.node.snapshot(scene.now).streams.len() <= STREAMS_MAX);
    }
    for client in 0..STREAM_CLIENTS as u8 {
        scene.ask(client, Request::Close);
    }
    // Streams that wait to be accepted, and closed ones, need time to end.
    for _ in 0..9 {
        if scene.node.snapshot(scene.now).streams.is_empty() {
            break;
        }
        scene.wait(Duration::from_secs(15));
    }
    scene.wait(Duration::from_secs(1));
    let left = scene.node.snapshot(scene.now).streams;
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(scene.out.pool.in_use(), (0, 0));
}

/// Operations on links: two ends of a reliable lane, a network that loses, repeats and reorders packets, an outage, a
/// restart, destinations that are held, and false acknowledgements. Every packet arrives, and none twice, unless an
/// acknowledgement was false or an end restarted.
fn reliable(data: &[u8]) {
    let (mut from, mut to) = (
        Lane::new(overlay::reliable::Settings::default()),
        Lane::new(overlay::reliable::Settings::default()),
    );
    let mut now = Time::ZERO + Duration::from_millis(1);
    let (mut under_way, mut told) = (Vec::<Vec<u8>>::new(), Vec::<Vec<u8>>::new());
    let (mut pushed, mut arrived, mut is_honest) = (0u32, Vec::new(), true);
    // A packet that took another path may have arrived before: its acknowledgement was lost.
    let mut took_another_path = Vec::new();
    let mut ops = data.iter().copied().take(4 * OPS_MAX);
    while let Some(op) = ops.next() {
        let with = ops.next().unwrap_or_default();
        match op % 12 {
            0 | 1 => {
                for _ in 0..=with % 16 {
                    let packet = lane_packet(u16::from(op), pushed, 30 + usize::from(with));
                    pushed += u32::from(from.sender.push(now, &packet, Some(1)).is_ok());
                }
            }
            2 | 3 => leave(&mut from, now, usize::from(with), &mut under_way),
            4 | 5 if !under_way.is_empty() => {
                let at = usize::from(with) % under_way.len();
                // Some packets arrive twice.
                let packet = match op % 2 {
                    0 => under_way.remove(at),
                    _ => under_way[at].clone(),
                };
                come(&mut to, now, &packet, &mut arrived);
            }
            6 if !under_way.is_empty() => {
                under_way.remove(usize::from(with) % under_way.len());
            }
            7 => told.push(lane_ack(&mut to, now, u16::from(with) << 4)),
            8 if !told.is_empty() => {
                let bytes = told.swap_remove(usize::from(with) % told.len());
                lane_hear(&mut from, &mut to, now, &bytes);
            }
            9 => now += Duration::from_millis(1 << (with % 12)),
            10 => {
                is_honest = false;
                let mut body = [with; 15];
                for byte in &mut body {
                    *byte = ops.next().unwrap_or(*byte);
                }
                if let Ok(ack) = wire::control::ReliableAck::parse(&body) {
                    from.sender.on_ack(now, Duration::ZERO, &ack);
                }
            }
            11 if with >= 0xe0 => from.sender.on_hold(
                now,
                Hold {
                    destination: address(1 + usize::from(with & 1)),
                    routing: Routing::Hops,
                    room: u16::from(with >> 1 & 0xf),
                },
            ),
            11 => match with % 4 {
                // All packets have got another path.
                0 => from
                    .sender
                    .give_up(|packet| took_another_path.push(lane_number(&packet.bytes))),
                1 => from.sender.resume(now),
                2 => {
                    to.receiver.reset();
                    from.restart();
                    under_way.clear();
                    told.clear();
                    // A neighbour that has restarted does not know which packets it has received.
                    is_honest = false;
                }
                _ => from.sender.on_timeout(now),
            },
            _ => {}
        }
        if let Some(skip) = from.sender.poll_skip() {
            to.receiver.on_skip(skip);
        }
        assert!(from.sender.in_flight() <= pushed as usize);
        assert!(to.receiver.ranges().count() <= 1_024);
    }
    // From now on no packet is lost.
    for _ in 0..20_000 {
        if from.sender.is_empty() {
            break;
        }
        now += Duration::from_millis(1);
        leave(&mut from, now, usize::MAX, &mut under_way);
        for packet in core::mem::take(&mut under_way) {
            come(&mut to, now, &packet, &mut arrived);
        }
        let bytes = lane_ack(&mut to, now, 1_000);
        lane_hear(&mut from, &mut to, now, &bytes);
    }
    if is_honest {
        assert!(from.sender.is_empty(), "it comes to rest");
        arrived.sort_unstable();
        let over_the_lane = arrived.len();
        arrived.dedup();
        assert_eq!(arrived.len(), over_the_lane, "no packet arrives twice");
        arrived.extend(took_another_path);
        arrived.sort_unstable();
        arrived.dedup();
        assert_eq!(arrived.len() as u32, pushed, "everything arrives");
    }
}

fn lane_packet(flow: u16, number: u32, bytes: usize) -> Vec<u8> {
    let mut packet = vec![0; bytes];
    let header = Repr {
        class: Class {
            link: LinkProtocol::Reliable,
            routing: Routing::Hops,
            priority: 2,
        },
        ttl: 32,
        has_extension: false,
        congested: false,
        recovered: false,
        has_transport: false,
        remaining: Remaining::NONE,
        source: address(0),
        destination: address(1 + usize::from(flow & 1)),
        source_port: VirtualPort(flow),
        destination_port: PORT,
        flow_seq: FlowSeq(number),
        lane_seq: LaneSeq::new(0),
    };
    header.emit(&mut packet).expect("room for the header");
    packet
}

fn lane_number(packet: &[u8]) -> u32 {
    wire::data::Header::trusted(packet).flow_seq().0
}

fn leave(lane: &mut Lane, now: Time, most: usize, under_way: &mut Vec<Vec<u8>>) {
    lane.sender.on_timeout(now);
    for _ in 0..most {
        let Some(length) = lane.sender.peek(now, 0, &|_| None) else {
            return;
        };
        let packet = lane.sender.take(now, 0).expect("it was looked at");
        assert_eq!(packet.bytes.len(), length);
        under_way.push(packet.bytes.to_vec());
    }
}

fn come(lane: &mut Lane, now: Time, packet: &[u8], arrived: &mut Vec<u32>) {
    let seq = wire::data::Header::trusted(packet).lane_seq();
    match lane.receiver.on_packet(now, Duration::ZERO, seq) {
        Arrival::New | Arrival::Recovered => arrived.push(lane_number(packet)),
        Arrival::Duplicate | Arrival::Beyond => {}
    }
}

fn lane_ack(lane: &mut Lane, now: Time, window: u16) -> Vec<u8> {
    let mut bytes = vec![0; 1_400];
    let mut builder = Builder::new(&mut bytes);
    let head = lane.receiver.acknowledge(now, window);
    let told = builder.reliable_ack(&head, lane.receiver.ranges());
    told.expect("room for the fixed part");
    let len = builder.len();
    bytes.truncate(len);
    bytes
}

fn lane_hear(from: &mut Lane, to: &mut Lane, now: Time, bytes: &[u8]) {
    for message in wire::control::Messages::new(bytes) {
        match message.expect("as it was written") {
            wire::control::Message::ReliableAck(ack) => {
                from.sender.on_ack(now, Duration::ZERO, &ack)
            }
            wire::control::Message::ReliableSkip(skip) => to.receiver.on_skip(skip),
            other => panic!("{other:?}"),
        }
    }
}
