//! Data packets: header, stamps, edges of trees, echoes, and what the two ends say to each other.

use super::{A, B, C, GROUP, open, written};
use base::VirtualPort;
use wire::data::{Class, FlowSeq, Header, LaneSeq, LinkProtocol, Remaining, Repr, Routing};
use wire::echo::{self, Echo};
use wire::ipc::ResetReason;
use wire::link::{self, SessionIndex};
use wire::stamp::{Stamp, TreeEdge, emit_subgraph};
use wire::transport::{
    Flags, Fragment, GROUP_COPY_BYTES, GroupKey, KeyName, KeyRefusal, Kind, Segment, Tally, Ticket,
    begin_group_copy, group_copy,
};

const HEADER: Repr = Repr {
    class: Class {
        link: LinkProtocol::RealTime,
        routing: Routing::ExpectedLatency,
        priority: 5,
    },
    ttl: 32,
    has_extension: false,
    congested: false,
    recovered: false,
    has_transport: false,
    remaining: Remaining(650),
    source: C,
    destination: A,
    source_port: VirtualPort(5000),
    destination_port: VirtualPort(7),
    flow_seq: FlowSeq(0x0102_0304),
    lane_seq: LaneSeq::new(0xab_cdef),
};

#[test]
fn headers_of_every_class() {
    let mut fixtures = open!("data");
    let mut hold = |name: &str, header: Repr, rest: &[u8]| {
        let mut bytes = [&[0xa5; wire::HEADER_BYTES][..], rest].concat();
        header.emit(&mut bytes).unwrap();
        fixtures.hold(name, &bytes, |frozen| {
            let read = Header::parse(frozen).unwrap();
            assert_eq!(read.repr(), header);
            let (extension, payload) = match header.has_extension {
                true => (Some(&rest[2..rest.len() - 2]), &rest[rest.len() - 2..]),
                false => (None, rest),
            };
            assert_eq!((read.extension(), read.payload()), (extension, payload));
        });
    };
    let links = [
        ("best-effort", LinkProtocol::BestEffort),
        ("real-time", LinkProtocol::RealTime),
        ("reliable", LinkProtocol::Reliable),
    ];
    let routings = [
        ("hops", Routing::Hops),
        ("latency", Routing::Latency),
        ("loss", Routing::Loss),
        ("expected-latency", Routing::ExpectedLatency),
        ("width", Routing::Width),
        ("stamped", Routing::Stamped),
    ];
    let flood = [0, 1, 1, 0x68, 0x69];
    for (link_name, link) in links {
        for (routing_name, routing) in routings {
            let header = Repr {
                class: Class {
                    link,
                    routing,
                    priority: 3,
                },
                has_extension: routing == Routing::Stamped,
                ..HEADER
            };
            let rest = match header.has_extension {
                true => &flood[..],
                false => b"hi",
            };
            hold(&format!("{link_name}-{routing_name}"), header, rest);
            if link == LinkProtocol::RealTime {
                let recovered = Repr {
                    recovered: true,
                    ..header
                };
                hold(&format!("recovered-{routing_name}"), recovered, rest);
            }
            if link == LinkProtocol::Reliable {
                let congested = Repr {
                    congested: true,
                    ..header
                };
                hold(&format!("congested-{routing_name}"), congested, rest);
            }
        }
    }
    let transport = Repr {
        has_transport: true,
        remaining: Remaining::NONE,
        destination: GROUP,
        ..HEADER
    };
    hold("transport-no-deadline-group", transport, b"hi");
    let edge = TreeEdge { from: A, to: B };
    let on_edge = Repr {
        has_extension: true,
        ..transport
    };
    let rest = [&[0, 9], &edge.to_bytes()[..], b"hi"].concat();
    hold("on-a-tree-edge", on_edge, &rest);
    fixtures.end();
}

#[test]
fn stamps_and_edges_of_trees() {
    let mut fixtures = open!("stamp");
    let nodes = [A, B, C];
    let links = [(0, 1), (0, 2), (1, 2)];
    let bytes = written(|bytes| emit_subgraph(&nodes, &links, bytes).map_err(|_| wire::Full));
    fixtures.hold("subgraph", &bytes, |frozen| {
        let Ok(Stamp::Subgraph(subgraph)) = Stamp::parse(frozen) else {
            panic!("no subgraph");
        };
        assert_eq!(subgraph.nodes().collect::<Vec<_>>(), nodes);
        let between = [(A, B), (A, C), (B, C)];
        assert_eq!(subgraph.links().collect::<Vec<_>>(), between);
    });
    for (name, stamp) in [
        ("flooding", Stamp::Flooding),
        ("two-trees", Stamp::TwoTrees),
    ] {
        let bytes = written(|bytes| stamp.emit(bytes).ok_or(wire::Full));
        fixtures.hold(name, &bytes, |frozen| {
            assert_eq!(Stamp::parse(frozen), Ok(stamp));
        });
    }
    let edge = TreeEdge { from: A, to: B };
    fixtures.hold("tree-edge", &edge.to_bytes(), |frozen| {
        assert_eq!(TreeEdge::parse(frozen), Ok(edge));
    });
    fixtures.end();
}

#[test]
fn echoes() {
    let mut fixtures = open!("echo");
    let kinds = [
        ("request", echo::Kind::Request),
        ("reply", echo::Kind::Reply),
        ("ttl-exceeded", echo::Kind::TtlExceeded),
    ];
    for (name, kind) in kinds {
        let echo = Echo {
            kind,
            id: 0x1234,
            seq: 9,
            stamp_us: 0x0102_0304,
            node: C,
            hop: 2,
        };
        let mut bytes = [0xee; 20];
        echo.emit(&mut bytes).unwrap();
        fixtures.hold(name, &bytes, |frozen| {
            assert_eq!(Echo::parse(frozen), Ok(echo));
        });
    }
    fixtures.end();
}

const SEGMENT: Segment = Segment {
    flags: Flags::ACK,
    reason: None,
    connection: 0xcafe_0001,
    offset: 0x510,
    acknowledged: 0xffff_fff0,
    window: 0x4_0000,
    stamp_us: 0x0102_0304,
    echo_us: 0x0506_0708,
    ticket: None,
    takes_early: false,
};

#[test]
fn fragments_and_streams() {
    let mut fixtures = open!("transport");
    let fragment = Fragment {
        offset: 1380,
        id: 77,
        total: 1382,
    };
    let mut bytes = [&[0xa5; 10][..], b"hi"].concat();
    fragment.emit(&mut bytes).unwrap();
    fixtures.hold("fragment", &bytes, |frozen| {
        assert_eq!(Fragment::parse(frozen), Ok((fragment, &b"hi"[..])));
    });
    let ranges = [(0x10, 0x20), (0x30, 0x40)];
    let opening = Segment {
        flags: Flags::SYN,
        acknowledged: 0,
        echo_us: 0,
        offset: 0,
        ..SEGMENT
    };
    let ticket = Some(Ticket {
        secret: 0x1122_3344_5566_7788,
        number: 7,
    });
    let segments = [
        ("opening", opening, &[][..]),
        ("opening-asks-for-a-ticket", opening.asking(), &[]),
        (
            "opening-of-messages-that-expire",
            Segment {
                flags: Flags::SYN.with(Flags::MESSAGES).with(Flags::EXPIRES),
                ..opening
            },
            &[],
        ),
        (
            "opening-with-a-ticket",
            Segment {
                ticket,
                ..opening.asking()
            },
            &[],
        ),
        (
            "answer-with-a-ticket",
            Segment {
                flags: Flags::SYN.with(Flags::ACK),
                ticket,
                takes_early: true,
                ..SEGMENT
            },
            &[],
        ),
        (
            "messages-congested",
            Segment {
                flags: Flags::ACK.with(Flags::MESSAGES).with(Flags::CONGESTED),
                ..SEGMENT
            },
            &ranges,
        ),
        (
            "expired",
            Segment {
                flags: Flags::ACK.with(Flags::EXPIRES),
                ..SEGMENT
            },
            &ranges,
        ),
        (
            "end-and-question",
            Segment {
                flags: Flags::ACK.with(Flags::FIN).with(Flags::PROBE),
                ..SEGMENT
            },
            &[],
        ),
    ];
    for (name, segment, ranges) in segments {
        // What tells of expired messages carries none.
        let rest = match name {
            "expired" => &b""[..],
            _ => b"hi",
        };
        let bytes = [written(|bytes| segment.emit(ranges, bytes)), rest.to_vec()].concat();
        fixtures.hold(name, &bytes, |frozen| {
            let read = Segment::parse(frozen).unwrap();
            assert_eq!(read.segment, segment);
            assert_eq!(read.ranges().collect::<Vec<_>>(), ranges);
            assert_eq!(read.bytes, rest);
        });
    }
    let reasons = [
        ("peer", ResetReason::Peer),
        ("refused", ResetReason::Refused),
        ("unknown", ResetReason::Unknown),
        ("timeout", ResetReason::Timeout),
        ("no-route", ResetReason::NoRoute),
        ("protocol", ResetReason::Protocol),
        ("exhausted", ResetReason::Exhausted),
    ];
    for (name, reason) in reasons {
        let segment = Segment {
            flags: Flags::RST,
            reason: Some(reason),
            acknowledged: 0,
            ..SEGMENT
        };
        let bytes = written(|bytes| segment.emit(&[], bytes));
        fixtures.hold(&format!("reset-{name}"), &bytes, |frozen| {
            assert_eq!(Segment::parse(frozen).unwrap().segment, segment);
        });
    }
    fixtures.end();
}

#[test]
fn questions_keys_and_copies() {
    let mut fixtures = open!("transport-ends");
    let session = SessionIndex::new(0xab_cdef);
    let name = KeyName {
        group: GROUP,
        number: SessionIndex::new(9),
    };
    let lengths = [3, 1, 128];
    let bytes = written(|bytes| Tally::ask((7, session, 1000), &lengths, bytes));
    fixtures.hold("question", &bytes, |frozen| {
        let Ok(Tally::Asked {
            number,
            session: of,
            first,
            counts,
        }) = Tally::parse(frozen)
        else {
            panic!("no question");
        };
        assert_eq!((number, of, first), (7, session, 1000));
        assert_eq!(counts.iter().collect::<Vec<_>>(), lengths);
    });
    let bytes = written(|bytes| Tally::ask_of_key((7, name, 1000), &lengths, bytes));
    fixtures.hold("question-about-a-group", &bytes, |frozen| {
        let Ok(Tally::AskedOfKey {
            number,
            name: of,
            first,
            counts,
        }) = Tally::parse(frozen)
        else {
            panic!("no question");
        };
        assert_eq!((number, of, first), (7, name, 1000));
        assert_eq!(counts.iter().collect::<Vec<_>>(), lengths);
    });
    let opened = [2, 1, 0];
    let bytes = written(|bytes| Tally::tell(7, &opened, bytes));
    fixtures.hold("answer", &bytes, |frozen| {
        let Ok(Tally::Told { number, counts }) = Tally::parse(frozen) else {
            panic!("no answer");
        };
        assert_eq!(
            (number, counts.iter().collect::<Vec<_>>()),
            (7, opened.to_vec())
        );
    });
    let bytes = written(|bytes| Tally::tell_of_key(7, &opened, bytes));
    fixtures.hold("answer-about-a-group", &bytes, |frozen| {
        let Ok(Tally::ToldOfKey { number, counts }) = Tally::parse(frozen) else {
            panic!("no answer");
        };
        assert_eq!(
            (number, counts.iter().collect::<Vec<_>>()),
            (7, opened.to_vec())
        );
    });
    let keys = [
        ("key-asked", GroupKey::Asked(name)),
        (
            "key-told",
            GroupKey::Told {
                name,
                first: 1000,
                key: &[0x77; 32],
            },
        ),
        ("key-refused-1", GroupKey::Refused(name, KeyRefusal::NoKey)),
        (
            "key-refused-2",
            GroupKey::Refused(name, KeyRefusal::NotPermitted),
        ),
        (
            "key-refused-3",
            GroupKey::Refused(name, KeyRefusal::NotMember),
        ),
    ];
    for (name, key) in keys {
        let bytes = written(|bytes| key.emit(bytes));
        fixtures.hold(name, &bytes, |frozen| {
            assert_eq!(GroupKey::parse(frozen), Ok(key));
        });
    }
    let inner = Repr {
        has_transport: true,
        destination: GROUP,
        ..HEADER
    };
    let mut bytes = [0; GROUP_COPY_BYTES + wire::HEADER_BYTES + 40];
    begin_group_copy((&mut bytes[..GROUP_COPY_BYTES]).try_into().unwrap());
    inner.emit(&mut bytes[GROUP_COPY_BYTES..]).unwrap();
    bytes[GROUP_COPY_BYTES + wire::HEADER_BYTES] = link::Kind::Data.byte();
    fixtures.hold("group-copy", &bytes, |frozen| {
        let packet = group_copy(frozen).unwrap();
        assert_eq!(Header::parse(packet).unwrap().repr(), inner);
    });
    let kinds = [
        ("sealed", link::Kind::Data),
        ("sealed-transport", link::Kind::Control),
        ("handshake-init", link::Kind::HandshakeInit),
        ("handshake-response", link::Kind::HandshakeResponse),
        ("handshake-finish", link::Kind::HandshakeFinish),
        ("handshake-cookie", link::Kind::Cookie),
        ("handshake-kem-key", link::Kind::KemKey),
        ("handshake-kem-ciphertext", link::Kind::KemCiphertext),
    ];
    for (name, kind) in kinds {
        fixtures.hold(&format!("end-{name}"), &[kind.byte()], |frozen| {
            assert_eq!(Kind::of(frozen), Ok(Kind::End(kind)));
        });
    }
    fixtures.end();
}
