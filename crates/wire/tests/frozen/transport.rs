//! The messages between the two ends of a flow.

use super::packets::HEADER;
use super::{GROUP, open, written};
use wire::data::{Header, Repr};
use wire::ipc::ResetReason;
use wire::link::{self, SessionIndex};
use wire::transport::{
    END_REPAIR_FRONT, EndRepair, EndReport, Flags, Fragment, GROUP_COPY_BYTES, GroupKey, KeyName,
    KeyRefusal, Kind, Segment, Tally, Ticket, begin_group_copy, group_copy,
};

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
            "may-wait",
            Segment {
                flags: Flags::ACK.with(Flags::MAY_WAIT),
                ..SEGMENT
            },
            &[],
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
        // A report of expired messages carries no bytes.
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
    let session = SessionIndex::new(0x00ab_cdef);
    let (first, named) = (0x0001_0002, &[0b1010_0000][..]);
    let bytes = written(|bytes| EndRepair::ask(session, (first, named), bytes));
    fixtures.hold("repair-asked", &bytes, |frozen| {
        let asked = EndRepair::Ask {
            session,
            first,
            named,
        };
        assert_eq!(EndRepair::parse(frozen), Ok(asked));
    });
    let report = EndReport {
        session,
        loss: 0x0ccc,
        run_256ths: 0x0200,
        received: 0x0001_0000,
        lost: 9,
    };
    let bytes = written(|bytes| report.emit(bytes));
    fixtures.hold("repair-report", &bytes, |frozen| {
        assert_eq!(EndRepair::parse(frozen), Ok(EndRepair::Report(report)));
    });
    let mut bytes = vec![0; END_REPAIR_FRONT];
    EndRepair::begin_repair(session, &mut bytes).unwrap();
    // Packets 10 and 8, their ages, and a sum.
    bytes.extend([0, 0, 10, 0x82, 7, 0b101, 3, 43]);
    bytes.extend([0x77; wire::HEADER_BYTES]);
    fixtures.hold("repair", &bytes, |frozen| {
        let message = EndRepair::parse(frozen).unwrap();
        let EndRepair::Repair { repair, .. } = message else {
            panic!("{message:?}");
        };
        assert_eq!((repair.members, repair.ages), (0b101, &[3, 43][..]));
    });
    fixtures.end();
}
