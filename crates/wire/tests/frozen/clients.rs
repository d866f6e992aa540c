//! Clients and their node, from this host and from others, and the requests of a gateway to an exit.

use super::{C, GROUP, open, written};
use base::{Duration, VirtualPort};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::Aim;
use wire::data::{Class, LinkProtocol, Remaining, Routing};
use wire::exit::{Address, Code, Host, emit_answer, parse_answer};
use wire::ipc::{
    Datagram, Delivery, Destination, DropReason, ErrorCode, Framing, Options, Ports, Reply,
    Request, ResetReason, Room, Scheme, StreamControl, kind,
};
use wire::link::SessionIndex;
use wire::remote::way::{Echo, Sealed, Trial};
use wire::remote::{self, Frame, Purpose};

const PORT: VirtualPort = VirtualPort(5000);
const TO: Destination = Destination {
    node: C,
    port: PORT,
};
const OPTIONS: Options = Options {
    class: Class {
        link: LinkProtocol::RealTime,
        routing: Routing::ExpectedLatency,
        priority: 5,
    },
    scheme: None,
    deadline: Some(Duration::from_millis(65)),
    delivery: Delivery::InOrder,
    ttl: 16,
    give_up: Some(Duration::from_secs(60)),
    control: Some(StreamControl::Bbr),
    early: true,
    aim: Aim::NONE,
};

#[test]
fn requests() {
    let mut fixtures = open!("ipc-request");
    let stamped = Options {
        class: Class {
            routing: Routing::Stamped,
            ..OPTIONS.class
        },
        deadline: None,
        give_up: None,
        control: None,
        early: false,
        delivery: Delivery::AsSent(Some(Duration::from_millis(300))),
        scheme: Some(Scheme::Disjoint),
        ..OPTIONS
    };
    let of_scheme = |scheme| {
        Request::Options(Options {
            scheme: Some(scheme),
            ..stamped
        })
    };
    let requests = [
        ("hello", Request::Hello { version: 2 }),
        ("bind", Request::Bind { port: PORT }),
        ("options", Request::Options(OPTIONS)),
        (
            "options-aim",
            Request::Options(Options {
                aim: Aim::new(Some(0.000_1), Some(0.5)).unwrap(),
                ..OPTIONS
            }),
        ),
        ("options-best", of_scheme(Scheme::Best)),
        ("options-disjoint", of_scheme(Scheme::Disjoint)),
        ("options-disjoint-3", of_scheme(Scheme::Disjoint3)),
        ("options-flooding", of_scheme(Scheme::Flooding)),
        ("options-targeted", of_scheme(Scheme::Targeted)),
        ("send-to", Request::SendTo(TO, b"hi")),
        ("connect", Request::Connect(TO)),
        ("raw", Request::Raw),
        ("listen", Request::Listen { backlog: 258 }),
        ("stream", Request::ConnectStream(TO, Framing::Bytes)),
        (
            "stream-messages",
            Request::ConnectStream(TO, Framing::Messages),
        ),
        ("reset", Request::Reset),
        (
            "bind-range",
            Request::BindRange {
                first: VirtualPort(20_000),
                last: VirtualPort(50_000),
            },
        ),
        ("join", Request::Join(Destination { node: GROUP, ..TO })),
        ("leave", Request::Leave(Destination { node: GROUP, ..TO })),
        ("finish", Request::Finish),
        ("watch", Request::Watch),
        ("ask-expired", Request::AskExpired),
    ];
    for (name, request) in requests {
        let bytes = written(|bytes| request.emit(bytes));
        fixtures.hold(name, &bytes, |frozen| {
            assert_eq!(Request::parse(frozen), Ok(request));
        });
    }
    let ports = Ports {
        from: VirtualPort(20_000),
        to: TO,
    };
    let batch = [
        &[kind::SEND_FROM, 0][..],
        &ports.header(2),
        b"hi",
        &ports.header(0),
    ];
    fixtures.hold("send-from", &batch.concat(), |frozen| {
        let Ok(Request::SendFrom(sent)) = Request::parse(frozen) else {
            panic!("nothing sent");
        };
        let sent: Vec<_> = sent.iter().collect();
        assert_eq!(sent, [(ports, &b"hi"[..]), (ports, b"")]);
    });
    fixtures.end();
}

#[test]
fn replies() {
    let mut fixtures = open!("ipc-reply");
    let datagram = Datagram {
        source: C,
        source_port: PORT,
        recovered: true,
        remaining: Remaining(650),
        group: None,
    };
    let of_group = Datagram {
        group: Some(GROUP),
        recovered: false,
        ..datagram
    };
    let room = Room {
        is_there: true,
        from: VirtualPort(40_000),
        to: TO,
    };
    let replies = [
        (
            "welcome",
            Reply::Welcome {
                version: 2,
                node: C,
                payload_bytes_max: 65_507,
            },
        ),
        ("bound", Reply::Bound { port: PORT }),
        (
            "error",
            Reply::Error {
                code: ErrorCode::PortInUse,
                text: "né",
            },
        ),
        ("datagram", Reply::Datagram(datagram, b"hi")),
        ("datagram-of-a-group", Reply::Datagram(of_group, b"hi")),
        (
            "dropped",
            Reply::Dropped {
                reason: DropReason::ReceiveOverload,
                count: 258,
            },
        ),
        ("done", Reply::Done { request: 3 }),
        (
            "connected",
            Reply::Connected {
                framing: Framing::Bytes,
                port: PORT,
            },
        ),
        (
            "incoming",
            Reply::Incoming {
                framing: Framing::Messages,
                from: C,
                port: PORT,
            },
        ),
        ("finished", Reply::Finished),
        (
            "reset",
            Reply::Reset {
                reason: ResetReason::NoRoute,
            },
        ),
        ("room", Reply::Room(room)),
        (
            "no-room",
            Reply::Room(Room {
                is_there: false,
                ..room
            }),
        ),
        (
            "state",
            Reply::State {
                reaches: true,
                has_places: true,
            },
        ),
        (
            "not-joined",
            Reply::NotJoined {
                of_sending: true,
                code: ErrorCode::Forbidden,
                group: GROUP,
                text: "no",
            },
        ),
        (
            "expired",
            Reply::Expired {
                given_up: 3,
                missed: 258,
            },
        ),
    ];
    for (name, reply) in replies {
        let bytes = written(|bytes| reply.emit(bytes));
        fixtures.hold(name, &bytes, |frozen| {
            assert_eq!(Reply::parse(frozen), Ok(reply));
        });
    }
    let own = VirtualPort(20_000);
    let batch = [
        &[kind::DATAGRAMS, 0][..],
        &datagram.header_for(own, 2),
        b"hi",
        &of_group.header_for(own, 2),
        b"ho",
    ];
    fixtures.hold("datagrams", &batch.concat(), |frozen| {
        let Ok(Reply::Datagrams(came)) = Reply::parse(frozen) else {
            panic!("nothing came");
        };
        let came: Vec<_> = came.iter().collect();
        let expected = [(own, datagram, &b"hi"[..]), (own, of_group, b"ho")];
        assert_eq!(came, expected);
    });
    let codes = [
        ErrorCode::Version,
        ErrorCode::Malformed,
        ErrorCode::PortInUse,
        ErrorCode::AlreadyBound,
        ErrorCode::NotBound,
        ErrorCode::TooLong,
        ErrorCode::Unsupported,
        ErrorCode::TooManySockets,
        ErrorCode::Forbidden,
        ErrorCode::Stopping,
        ErrorCode::Congested,
        ErrorCode::NoRoom,
    ];
    fixtures.hold("error-codes", &codes.map(ErrorCode::to_byte), |frozen| {
        let read = frozen.iter().map(|byte| ErrorCode::from_byte(*byte));
        assert!(read.eq(codes));
    });
    let reasons = [
        DropReason::SendOverload,
        DropReason::ReceiveOverload,
        DropReason::NoRoute,
        DropReason::Expired,
        DropReason::TooLong,
    ];
    fixtures.hold(
        "drop-reasons",
        &reasons.map(DropReason::to_byte),
        |frozen| {
            let read = frozen.iter().map(|byte| DropReason::from_byte(*byte));
            assert!(read.eq(reasons));
        },
    );
    fixtures.end();
}

#[test]
fn frames_from_another_host() {
    let mut fixtures = open!("remote");
    let ticket = [7; 16];
    let hello = |purpose| Frame::Hello {
        version: 1,
        purpose,
        token: b"token",
    };
    let frames = [
        ("hello", hello(Purpose::Socket)),
        ("hello-of-a-stream", hello(Purpose::Stream(ticket))),
        ("hello-of-an-operator", hello(Purpose::Operator)),
        ("welcome", Frame::Welcome),
        ("refused", Frame::Refused("no")),
        ("message", Frame::Message(&[6])),
        ("attached", Frame::Attached(&[0x87, 0, 0x9c, 0x40])),
        (
            "offered",
            Frame::Offered(ticket, &[0x88, 1, 0, 7, 10, 7, 0, 3]),
        ),
        ("data", Frame::Data(b"hi")),
        ("end", Frame::End),
        ("gone", Frame::Gone),
        ("closed", Frame::Closed),
        ("ping", Frame::Ping),
        ("ask-way", Frame::AskWay),
        (
            "way",
            Frame::Way {
                index: SessionIndex::new(0x01_02_03),
                port: 7443,
            },
        ),
        ("no-way", Frame::NoWay),
    ];
    for (name, frame) in frames {
        let bytes = written(|bytes| frame.emit(bytes));
        fixtures.hold(name, &bytes, |frozen| {
            let (head, body) = frozen.split_first_chunk().unwrap();
            let (kind, len) = remote::head(*head).unwrap();
            assert_eq!(len, body.len());
            assert_eq!(Frame::parse(kind, body), Ok(frame));
        });
    }
    fixtures.end();
}

#[test]
fn datagrams_of_clients_on_other_hosts() {
    let mut fixtures = open!("remote_way");
    let echo = |rtt_us| Echo {
        number: 1,
        challenge: 2,
        came: 3,
        rtt_us,
    };
    let trial = Trial {
        number: 1,
        longest: 1_452,
        flags: Trial::RAW,
        padding: &[0, 0],
    };
    for (name, sealed) in [
        ("message", Sealed::Message(&[4, 0x68, 0x69])),
        ("payload", Sealed::Payload(b"hi")),
        ("probe", Sealed::Probe(echo(29_999))),
        ("answer", Sealed::Answer(echo(0))),
        ("trial", Sealed::Trial(trial)),
        (
            "tried",
            Sealed::Tried(Trial {
                longest: 0,
                flags: 0,
                ..trial
            }),
        ),
    ] {
        let bytes = written(|bytes| sealed.emit(bytes));
        fixtures.hold(name, &bytes, |frozen| {
            assert_eq!(Sealed::parse(frozen), Ok(sealed));
        });
    }
    fixtures.end();
}

#[test]
fn gateways_and_exits() {
    let mut fixtures = open!("exit");
    let hosts = [
        ("ipv4", Host::Ip(IpAddr::V4(Ipv4Addr::new(198, 51, 100, 2)))),
        ("name", Host::Name("example.org")),
        ("ipv6", Host::Ip(IpAddr::V6(Ipv6Addr::LOCALHOST))),
    ];
    for (name, host) in hosts {
        let address = Address { host, port: 443 };
        let bytes = written(|bytes| address.emit_ask(bytes));
        fixtures.hold(name, &bytes, |frozen| {
            assert_eq!(Address::parse_ask(frozen), Ok((address, frozen.len())));
        });
    }
    let codes = [
        Code::Granted,
        Code::Failed,
        Code::NotAllowed,
        Code::NetworkUnreachable,
        Code::HostUnreachable,
        Code::Refused,
        Code::TimedOut,
        Code::NotSupported,
        Code::AddressType,
    ];
    let bytes = codes.map(emit_answer).concat();
    fixtures.hold("answers", &bytes, |frozen| {
        let answers = frozen.as_chunks().0;
        let read = answers.iter().map(|it| parse_answer(*it).unwrap());
        assert!(read.eq(codes));
    });
    fixtures.end();
}
