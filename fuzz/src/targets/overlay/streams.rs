//! Operations on streams: segments of a neighbour, requests of clients, and time.

use super::*;

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
pub(super) fn streams(data: &[u8]) {
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
