use super::*;
use crate::Aim;
use crate::data::{Class, LinkProtocol, Remaining, Routing};
use crate::{Full, HEADROOM, Malformed};
use base::{Duration, NodeAddr};
use proptest::prelude::*;

const DESTINATION: Destination = Destination {
    node: NodeAddr(0x0a07_0003),
    port: VirtualPort(5000),
};

fn requests() -> [(Request<'static>, &'static [u8]); 17] {
    let class = Class {
        link: LinkProtocol::RealTime,
        routing: Routing::ExpectedLatency,
        priority: 5,
    };
    let options = Options {
        class,
        scheme: None,
        deadline: Some(Duration::from_millis(65)),
        delivery: Delivery::InOrder,
        ttl: 16,
        give_up: Some(Duration::from_secs(60)),
        control: Some(StreamControl::Bbr),
        early: true,
        aim: Aim::NONE,
    };
    let stamped = Options {
        early: false,
        ..options.routed_by(Scheme::Disjoint)
    };
    [
        (Request::Hello { version: 2 }, &[1, 2]),
        (
            Request::Bind {
                port: VirtualPort(5000),
            },
            &[2, 0x13, 0x88],
        ),
        (
            Request::Options(options),
            &[3, 0x5d, 0, 0, 0xfd, 0xe8, 1, 16, 0, 0, 0xea, 0x60, 0x82],
        ),
        (
            Request::SendTo(DESTINATION, b"hi"),
            &[4, 0, 0x13, 0x88, 10, 7, 0, 3, b'h', b'i'],
        ),
        (
            Request::SendTo(DESTINATION, b""),
            &[4, 0, 0x13, 0x88, 10, 7, 0, 3],
        ),
        (
            Request::Connect(DESTINATION),
            &[5, 0, 0x13, 0x88, 10, 7, 0, 3],
        ),
        (Request::Raw, &[6]),
        (
            Request::Options(stamped),
            &[3, 0x7d, 0, 0, 0xfd, 0xe8, 1, 16, 0, 0, 0xea, 0x60, 2, 2],
        ),
        (
            Request::Options(Options {
                delivery: Delivery::AsSent(Some(Duration::from_millis(300))),
                ..stamped
            }),
            &[
                3, 0x7d, 0, 0, 0xfd, 0xe8, 3, 16, 0, 0, 0xea, 0x60, 2, 2, 0, 4, 0x93, 0xe0,
            ],
        ),
        (
            Request::Options(Options {
                delivery: Delivery::AsSent(Some(Duration::from_millis(300))),
                aim: Aim::new(Some(0.000_1), Some(1.0)).unwrap(),
                ..stamped
            }),
            &[
                3, 0x7d, 0, 0, 0xfd, 0xe8, 0x43, 16, 0, 0, 0xea, 0x60, 2, 2, 0, 4, 0x93, 0xe0, 0,
                100, 155,
            ],
        ),
        (Request::Listen { backlog: 258 }, &[7, 0, 1, 2]),
        (
            Request::ConnectStream(DESTINATION, Framing::Messages),
            &[8, 1, 0x13, 0x88, 10, 7, 0, 3],
        ),
        (Request::Reset, &[9]),
        (Request::Finish, &[14]),
        (Request::Watch, &[15]),
        (Request::AskExpired, &[16]),
        (
            Request::BindRange {
                first: VirtualPort(20_000),
                last: VirtualPort(50_000),
            },
            &[10, 0, 0x4e, 0x20, 0xc3, 0x50],
        ),
    ]
}

fn replies() -> [(Reply<'static>, &'static [u8]); 17] {
    let datagram = Datagram {
        source: NodeAddr(0x0a07_0003),
        source_port: VirtualPort(5000),
        recovered: true,
        remaining: Remaining(650),
        group: None,
    };
    let dropped = Reply::Dropped {
        reason: DropReason::ReceiveOverload,
        count: 258,
    };
    let error = Reply::Error {
        code: ErrorCode::PortInUse,
        text: "né",
    };
    [
        (
            Reply::welcome(NodeAddr(0x0a07_0003), 1300),
            &[0x81, 2, 10, 7, 0, 3, 0x05, 0x14],
        ),
        (
            Reply::Bound {
                port: VirtualPort(5000),
            },
            &[0x82, 0x13, 0x88],
        ),
        (error, &[0x83, 3, b'n', 0xc3, 0xa9]),
        (
            Reply::Datagram(datagram, b"hi"),
            &[
                0x84, 1, 0x02, 0x8a, 10, 7, 0, 3, 0x13, 0x88, 0, 0, b'h', b'i',
            ],
        ),
        (dropped, &[0x85, 2, 0, 0, 1, 2]),
        (
            Reply::Done {
                request: kind::OPTIONS,
            },
            &[0x86, 3],
        ),
        (
            Reply::Connected {
                framing: Framing::Bytes,
                port: VirtualPort(40_000),
            },
            &[0x87, 0, 0x9c, 0x40],
        ),
        (
            Reply::Incoming {
                framing: Framing::Messages,
                from: NodeAddr(0x0a07_0003),
                port: VirtualPort(5000),
            },
            &[0x88, 1, 0x13, 0x88, 10, 7, 0, 3],
        ),
        (Reply::Finished, &[0x89]),
        (
            Reply::Expired {
                given_up: 3,
                missed: 258,
            },
            &[0x8f, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 1, 2],
        ),
        (
            Reply::Reset {
                reason: ResetReason::NoRoute,
            },
            &[0x8a, 5],
        ),
        (
            Reply::Room(Room {
                is_there: false,
                from: VirtualPort(40_000),
                to: DESTINATION,
            }),
            &[0x8c, 0, 0x9c, 0x40, 0x13, 0x88, 0, 0, 10, 7, 0, 3],
        ),
        (
            Reply::Room(Room {
                is_there: true,
                from: VirtualPort(40_000),
                to: DESTINATION,
            }),
            &[0x8c, 1, 0x9c, 0x40, 0x13, 0x88, 0, 0, 10, 7, 0, 3],
        ),
        (
            Reply::State {
                reaches: true,
                has_places: false,
            },
            &[0x8d, 1],
        ),
        (
            Reply::State {
                reaches: false,
                has_places: true,
            },
            &[0x8d, 2],
        ),
        (
            Reply::NotJoined {
                of_sending: false,
                code: ErrorCode::TooManySockets,
                group: NodeAddr(0xef01_0203),
                text: "né",
            },
            &[0x8e, 8, 0, 0, 0xef, 1, 2, 3, b'n', 0xc3, 0xa9],
        ),
        (
            Reply::NotJoined {
                of_sending: true,
                code: ErrorCode::TooManySockets,
                group: NodeAddr(0xef01_0203),
                text: "",
            },
            &[0x8e, 8, 1, 0, 0xef, 1, 2, 3],
        ),
    ]
}

/// Returns the minimum length of a message with a tail of any length.
fn shortest(message: &[u8]) -> usize {
    match message[0] {
        kind::SEND_TO => SEND_TO_HEADER_BYTES,
        kind::DATAGRAM => DATAGRAM_HEADER_BYTES,
        kind::ERROR => 2,
        kind::NOT_JOINED => 8,
        _ => message.len(),
    }
}

#[test]
fn bytes_and_requests_agree_both_ways() {
    for (request, bytes) in requests() {
        assert_eq!(Request::parse(bytes), Ok(request));
        let mut message = [0xa5; 24];
        assert_eq!(request.emit(&mut message), Ok(bytes.len()), "{request:?}");
        assert_eq!(&message[..bytes.len()], bytes);
        assert_eq!(message[bytes.len()], 0xa5);
        for room in 0..bytes.len() {
            assert_eq!(request.emit(&mut message[..room]), Err(Full), "{request:?}");
        }
        for cut in 0..shortest(bytes) {
            assert_eq!(
                Request::parse(&bytes[..cut]),
                Err(Malformed::Short),
                "{request:?} {cut}"
            );
        }
        if bytes[0] != kind::SEND_TO {
            let longer = [bytes, &[0]].concat();
            assert_eq!(
                Request::parse(&longer),
                Err(Malformed::Length),
                "{request:?}"
            );
        }
    }
}

#[test]
fn bytes_and_replies_agree_both_ways() {
    for (reply, bytes) in replies() {
        assert_eq!(Reply::parse(bytes), Ok(reply));
        let mut message = [0xa5; 18];
        assert_eq!(reply.emit(&mut message), Ok(bytes.len()), "{reply:?}");
        assert_eq!(&message[..bytes.len()], bytes);
        assert_eq!(message[bytes.len()], 0xa5);
        for room in 0..bytes.len() {
            assert_eq!(reply.emit(&mut message[..room]), Err(Full), "{reply:?}");
        }
        for cut in 0..shortest(bytes) {
            assert_eq!(
                Reply::parse(&bytes[..cut]),
                Err(Malformed::Short),
                "{reply:?} {cut}"
            );
        }
        if !matches!(bytes[0], kind::DATAGRAM | kind::ERROR | kind::NOT_JOINED) {
            let longer = [bytes, &[0]].concat();
            assert_eq!(Reply::parse(&longer), Err(Malformed::Length), "{reply:?}");
        }
    }
}

#[test]
fn neither_side_takes_the_other_sides_messages_or_unknown_ones() {
    for byte in 0..=255 {
        let bytes = [byte; 32];
        if !(1..=16).contains(&byte) {
            assert_eq!(Request::parse(&bytes), Err(Malformed::Kind), "{byte}");
        }
        if !(0x81..=0x8f).contains(&byte) {
            assert_eq!(Reply::parse(&bytes), Err(Malformed::Kind), "{byte}");
        }
    }
}

#[test]
fn what_streams_carry_and_why_they_end_has_its_number_and_no_other_does() {
    for framing in [Framing::Bytes, Framing::Messages] {
        assert_eq!(Framing::from_byte(framing.to_byte()), Ok(framing));
    }
    let numbers: Vec<u8> = ResetReason::ALL.map(ResetReason::to_byte).to_vec();
    assert_eq!(numbers, (1..=7).collect::<Vec<u8>>());
    for byte in 0..=255 {
        let known = numbers.contains(&byte);
        assert_eq!(
            Reply::parse(&[0x8a, byte]).map(drop),
            if known { Ok(()) } else { Err(Malformed::Value) }
        );
        let carried = if byte < 2 {
            Ok(())
        } else {
            Err(Malformed::Value)
        };
        let connect = [8, byte, 0, 9, 10, 7, 0, 3];
        assert_eq!(Request::parse(&connect).map(drop), carried);
        assert_eq!(Reply::parse(&[0x87, byte, 0, 9]).map(drop), carried);
    }
}

#[test]
fn options_out_of_range_are_refused() {
    let good = [3, 0x5d, 0, 0, 0, 0, 0, 32, 0, 0, 0, 0, 0];
    let with = |at: usize, value: u8| {
        let mut bytes = good;
        bytes[at] = value;
        Request::parse(&bytes).map(|_| ())
    };
    assert_eq!(with(1, 0x5d), Ok(()));
    assert_eq!(with(1, 0xc0), Err(Malformed::Value), "link protocol");
    assert_eq!(with(6, 2), Ok(()), "as sent");
    assert_eq!(with(6, 3), Err(Malformed::Short), "a time after sending");
    assert_eq!(with(6, 4), Err(Malformed::Value), "delivery");
    assert_eq!(with(7, 0), Err(Malformed::Value), "ttl");
    assert_eq!(with(7, 64), Err(Malformed::Value), "ttl");
    assert_eq!(with(12, 2), Ok(()));
    assert_eq!(with(12, 3), Err(Malformed::Value), "control");
    for scheme in 0..=255 {
        let stamped = [3, 0x7d, 0, 0, 0, 0, 0, 32, 0, 0, 0, 0, 0, scheme];
        let expected = match (scheme as usize).checked_sub(1) {
            Some(place) if place < Scheme::ALL.len() => Ok(Some(Scheme::ALL[place])),
            _ => Err(Malformed::Value),
        };
        let told = Request::parse(&stamped).map(|request| match request {
            Request::Options(options) => options.scheme,
            other => panic!("not options: {other:?}"),
        });
        assert_eq!(told, expected, "{scheme}");
    }
}

#[test]
fn every_choice_of_routing_has_its_word_and_its_class() {
    for by in RouteBy::ALL {
        assert_eq!(RouteBy::from_label(by.label()), Some(by));
        let options = Options::default().routed_by(by);
        assert_eq!(options.route_by(), Some(by));
        let mut message = [0; 14];
        let len = Request::Options(options).emit(&mut message).unwrap();
        assert_eq!(
            Request::parse(&message[..len]),
            Ok(Request::Options(options))
        );
    }
    assert_eq!(RouteBy::from_label("stamped"), None);
    let nobody_said_how = Options::default().routed_by(Scheme::Best);
    let nobody_said_how = Options {
        scheme: None,
        ..nobody_said_how
    };
    assert_eq!(nobody_said_how.route_by(), None);
}

#[test]
fn a_deadline_never_turns_into_none() {
    let emitted = |deadline| {
        let options = Options {
            deadline,
            ..Options::default()
        };
        let mut message = [0; 13];
        Request::Options(options).emit(&mut message).unwrap();
        match Request::parse(&message) {
            Ok(Request::Options(options)) => options.deadline,
            other => panic!("not options: {other:?}"),
        }
    };
    assert_eq!(emitted(None), None);
    assert_eq!(
        emitted(Some(Duration::from_nanos(3))),
        Some(Duration::from_micros(1))
    );
    assert_eq!(
        emitted(Some(Duration::MAX)),
        Some(Duration::from_micros(u64::from(u32::MAX)))
    );
}

#[test]
fn reserved_bytes_are_not_looked_at() {
    let (request, bytes) = requests()[3];
    let mut changed = bytes.to_vec();
    changed[1] = 0xff;
    assert_eq!(Request::parse(&changed), Ok(request));
    let (reply, bytes) = replies()[3];
    let mut changed = bytes.to_vec();
    changed[1] = 0xfd;
    changed[10..12].fill(0xff);
    assert_eq!(Reply::parse(&changed), Ok(reply));
}

#[test]
fn a_long_text_is_cut_at_a_character() {
    let text = "é".repeat(TEXT_BYTES_MAX);
    let text = &format!("x{text}");
    let code = ErrorCode::Other(99);
    let mut message = [0; 512];
    let len = Reply::Error { code, text }.emit(&mut message).unwrap();
    let cut = &text[..TEXT_BYTES_MAX - 1];
    assert_eq!(
        Reply::parse(&message[..len]),
        Ok(Reply::Error { code, text: cut })
    );
    assert_eq!(Reply::parse(&[0x83, 1, 0xc3]), Err(Malformed::Text));
    assert_eq!(
        Reply::parse(&[[0x83, 1].as_slice(), &[b'x'; 201]].concat()),
        Err(Malformed::Length)
    );
}

#[test]
fn the_longest_payload_fits_and_no_longer_one() {
    let payload = vec![0xa5; PAYLOAD_BYTES_MAX + 1];
    let mut message = vec![0; MESSAGE_BYTES_MAX + 1];
    let send = |payload| Request::SendTo(DESTINATION, payload);
    let len = send(&payload[1..]).emit(&mut message).unwrap();
    assert_eq!(Request::parse(&message[..len]), Ok(send(&payload[1..])));
    assert_eq!(
        Request::parse(&message[..=len]).map(|_| ()),
        Err(Malformed::Length)
    );
    assert_eq!(send(&payload).emit(&mut message), Err(Full));

    let (Reply::Datagram(mut datagram, _), _) = replies()[3] else {
        panic!("the fourth is a datagram");
    };
    datagram.group = Some(NodeAddr(0xef01_0203));
    let reply = |payload| Reply::Datagram(datagram, payload);
    assert_eq!(
        reply(&payload[1..]).emit(&mut message),
        Ok(MESSAGE_BYTES_MAX)
    );
    assert_eq!(
        Reply::parse(&message[..MESSAGE_BYTES_MAX]),
        Ok(reply(&payload[1..]))
    );
    assert_eq!(Reply::parse(&message), Err(Malformed::Length));
    assert_eq!(reply(&payload).emit(&mut message), Err(Full));
}

/// The payload of a request is read directly to the place from which it is sent, and the payload of a packet is sent
/// from the place where it was opened.
#[test]
fn headers_are_shorter_than_the_headroom() {
    const { assert!(SEND_TO_HEADER_BYTES <= HEADROOM && DATAGRAM_HEADER_BYTES <= HEADROOM) };
}

#[test]
fn every_code_and_reason_is_itself_again() {
    for byte in 0..=255 {
        assert_eq!(ErrorCode::from_byte(byte).to_byte(), byte);
        assert_eq!(DropReason::from_byte(byte).to_byte(), byte);
    }
}

const SENT: [u8; 24] = [
    11, 0, //
    0, 2, 0x4e, 0x20, 0x13, 0x88, 10, 7, 0, 3, b'h', b'i', //
    0, 0, 0x4e, 0x22, 0x13, 0x89, 10, 7, 0, 3,
];
const CAME: [u8; 33] = [
    0x8b, 0, //
    0, 2, 1, 0, 0x02, 0x8a, 0x4e, 0x20, 0x13, 0x88, 10, 7, 0, 3, b'h', b'i', //
    0, 1, 0, 0, 0xff, 0xff, 0x4e, 0x22, 0x13, 0x89, 10, 7, 0, 3, b'x',
];

#[test]
fn datagrams_of_a_range_share_a_message() {
    let ports = |from, port| Ports {
        from: VirtualPort(from),
        to: Destination {
            node: DESTINATION.node,
            port: VirtualPort(port),
        },
    };
    let sent = [
        (ports(20_000, 5000), &b"hi"[..]),
        (ports(20_002, 5001), b""),
    ];
    let Ok(Request::SendFrom(batch)) = Request::parse(&SENT) else {
        panic!("datagrams are sent")
    };
    assert_eq!(Vec::from_iter(batch.iter()), sent);
    let mut message = SENT[..2].to_vec();
    for (ports, payload) in sent {
        message.extend(ports.header(payload.len()));
        message.extend(payload);
    }
    assert_eq!(message, SENT);

    let datagram = |port, recovered, remaining| Datagram {
        source: DESTINATION.node,
        source_port: VirtualPort(port),
        recovered,
        remaining,
        group: None,
    };
    let came = [
        (
            VirtualPort(20_000),
            datagram(5000, true, Remaining(650)),
            &b"hi"[..],
        ),
        (
            VirtualPort(20_002),
            datagram(5001, false, Remaining::NONE),
            b"x",
        ),
    ];
    let Ok(Reply::Datagrams(batch)) = Reply::parse(&CAME) else {
        panic!("datagrams came")
    };
    assert_eq!(Vec::from_iter(batch.iter()), came);
    let mut message = CAME[..2].to_vec();
    for (own, datagram, payload) in came {
        message.extend_from_slice(&datagram.header_for(own, payload.len()));
        message.extend(payload);
    }
    assert_eq!(message, CAME);
}

#[test]
fn a_message_of_datagrams_is_whole_or_refused() {
    let whole = |bytes: &[u8], cut: usize| match bytes[0] {
        kind::SEND_FROM => Request::parse(&bytes[..cut]).map(drop),
        _ => Reply::parse(&bytes[..cut]).map(drop),
    };
    for (bytes, first) in [(&SENT[..], 14), (&CAME[..], 18)] {
        for cut in 0..=bytes.len() {
            // A message with one datagram less is also valid.
            let expected = match cut == bytes.len() || cut == first {
                true => Ok(()),
                false => Err(Malformed::Short),
            };
            assert_eq!(whole(bytes, cut), expected, "{cut}");
        }
        let (front, one) = (&bytes[..2], &bytes[2..first]);
        let many = |count| [front, &one.repeat(count)].concat();
        assert_eq!(whole(&many(BATCH_MAX), many(BATCH_MAX).len()), Ok(()));
        let too_many = many(BATCH_MAX + 1);
        assert_eq!(whole(&too_many, too_many.len()), Err(Malformed::Length));
        let mut too_long = vec![0; MESSAGE_BYTES_MAX + 1];
        too_long[0] = bytes[0];
        let group = if bytes[0] == kind::DATAGRAMS {
            GROUP_BYTES
        } else {
            0
        };
        let longest = (BATCH_PAYLOAD_BYTES_MAX + group) as u16;
        let header = first - 4;
        let len = 2 + header + usize::from(longest);
        too_long[2..4].copy_from_slice(&longest.to_be_bytes());
        assert_eq!(whole(&too_long, len), Ok(()));
        too_long[2..4].copy_from_slice(&(longest + 1).to_be_bytes());
        assert_eq!(whole(&too_long, len + 1), Err(Malformed::Length));
    }
    for (first, last) in [(0, 9), (9, 8)] {
        let bytes = [10, 0, 0, first, 0, last];
        assert_eq!(Request::parse(&bytes), Err(Malformed::Value));
    }
}

proptest! {
    #[test]
    fn what_parses_is_written_back(kind in prop_oneof![0u8..17, 0x80u8..0x90], tail in proptest::collection::vec(any::<u8>(), 0..40)) {
        let bytes = [&[kind], tail.as_slice()].concat();
        let mut message = [0xa5; 64];
        if let Ok(request) = Request::parse(&bytes) {
            let len = request.emit(&mut message).unwrap();
            prop_assert_eq!(len, bytes.len());
            prop_assert_eq!(Request::parse(&message[..len]), Ok(request));
        }
        if let Ok(reply) = Reply::parse(&bytes) {
            let len = reply.emit(&mut message).unwrap();
            prop_assert_eq!(len, bytes.len());
            prop_assert_eq!(Reply::parse(&message[..len]), Ok(reply));
        }
    }
}

#[test]
fn what_was_sent_to_a_group_names_it() {
    let group = Destination {
        node: NodeAddr(0xef01_0203),
        port: VirtualPort(5004),
    };
    let bytes = |kind| [kind, 0, 0x13, 0x8c, 0xef, 1, 2, 3];
    for (request, bytes) in [
        (Request::Join(group), bytes(12)),
        (Request::Leave(group), bytes(13)),
    ] {
        assert_eq!(Request::parse(&bytes), Ok(request));
        let mut message = [0; 8];
        assert_eq!(request.emit(&mut message), Ok(8));
        assert_eq!(message, bytes);
    }
    let datagram = Datagram {
        source: NodeAddr(0x0a07_0003),
        source_port: VirtualPort(5000),
        recovered: true,
        remaining: Remaining(650),
        group: Some(group.node),
    };
    let alone = [
        0x84, 3, 0x02, 0x8a, 10, 7, 0, 3, 0x13, 0x88, 0, 0, 0xef, 1, 2, 3, b'h', b'i',
    ];
    assert_eq!(Reply::parse(&alone), Ok(Reply::Datagram(datagram, b"hi")));
    assert_eq!(*datagram.to_bytes(), alone[..16]);
    let together = [
        0x8b, 0, 0, 6, 3, 0, 0x02, 0x8a, 0x13, 0x8c, 0x13, 0x88, 10, 7, 0, 3, 0xef, 1, 2, 3, b'h',
        b'i',
    ];
    let Ok(Reply::Datagrams(batch)) = Reply::parse(&together) else {
        panic!("datagrams came")
    };
    assert_eq!(
        Vec::from_iter(batch.iter()),
        [(group.port, datagram, &b"hi"[..])]
    );
    assert_eq!(*datagram.header_for(group.port, 2), together[2..20]);
    // A datagram that is shorter than its group ends the message.
    let mut short = together;
    short[3] = 3;
    let Ok(Reply::Datagrams(batch)) = Reply::parse(&short[..19]) else {
        panic!("lengths hold")
    };
    assert_eq!(batch.iter().count(), 0);
}
