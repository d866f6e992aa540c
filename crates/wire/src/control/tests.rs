use super::*;
use crate::data::Routing;
use crate::{Aim, Full, Loss, Malformed};
use base::{NodeAddr, VirtualPort};
use proptest::prelude::*;

/// A hello, a NACK of 5, 6, 37 and 38, a tail probe, and a message of the future.
const VECTOR: [u8; 32 + 18 + 7 + 5] = [
    1, 0, 29, // Hello
    0x09, 0x03, 0xe8, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x00, 0x00, 0x27, 0x10, 0x0c,
    0xcd, 0xb0, 0x07, 0x00, 0x01, 0, 0, 0xa0, 0x01, 0, 0, 0x01, 0x02, //
    2, 0, 15, // Nack
    1, 0, 0, 5, 0x80, 0, 0, 0x01, 0, 0, 38, 0, 0, 0, 0, //
    3, 0, 4, // TailProbe
    0, 0, 39, 2, //
    0x7f, 0, 2, 0xaa, 0xbb, //
];

const HELLO: Hello = Hello {
    i_hear_you: true,
    answer_now: false,
    closing: false,
    active: true,
    takes_repair: false,
    knows_paths: false,
    doubts: false,
    lets_wait: false,
    interval_ms: 1000,
    stamp_us: 0x0102_0304,
    echo: Some(Echo {
        stamp_us: 0x0506_0708,
        hold_us: 10_000,
    }),
    loss_in: Loss(0x0ccd),
    boot: 0xb007_0001,
    arrived: 0x0000_a001,
    lost: 0x0000_0102,
};

const PROBE: TailProbe = TailProbe {
    next: LaneSeq::new(39),
    count: 2,
};

fn build(buffer: &mut [u8]) -> Result<usize, Full> {
    let mut builder = Builder::new(buffer);
    builder.hello(&HELLO)?;
    if builder.nack(1, &[5, 6, 37, 38])? < 4 {
        return Err(Full);
    }
    builder.tail_probe(PROBE)?;
    builder.message(0x7f, &[0xaa, 0xbb])?;
    Ok(builder.len())
}

fn read(bytes: &[u8]) -> Result<Vec<Message<'_>>, Malformed> {
    Messages::new(bytes).collect()
}

fn missing(message: &Message<'_>) -> Vec<u32> {
    match message {
        Message::Nack(nack) => nack.missing().map(LaneSeq::value).collect(),
        _ => panic!("not a NACK: {message:?}"),
    }
}

#[test]
fn bytes_and_messages_agree_both_ways() {
    let mut buffer = [0xa5; VECTOR.len() + 1];
    assert_eq!(build(&mut buffer), Ok(VECTOR.len()));
    assert_eq!(buffer[..VECTOR.len()], VECTOR);
    assert_eq!(buffer[VECTOR.len()], 0xa5);

    let messages = read(&VECTOR).unwrap();
    assert_eq!(messages[0], Message::Hello(HELLO));
    assert_eq!(missing(&messages[1]), [5, 6, 37, 38]);
    assert_eq!(messages[2], Message::TailProbe(PROBE));
    let unknown = Message::Unknown {
        kind: 0x7f,
        body: &[0xaa, 0xbb],
    };
    assert_eq!(messages[3], unknown);
    assert_eq!(messages.len(), 4);
}

#[test]
fn truncation_is_short_but_for_the_ends_of_messages() {
    let ends = [0, 32, 50, 57, 62];
    for cut in 0..VECTOR.len() {
        let outcome = read(&VECTOR[..cut]).map(|messages| messages.len());
        match ends.iter().position(|&end| end == cut) {
            Some(whole) => assert_eq!(outcome, Ok(whole), "{cut}"),
            None => assert_eq!(outcome, Err(Malformed::Short), "{cut}"),
        }
    }
}

#[test]
fn a_message_that_does_not_fit_leaves_what_is_written() {
    for room in 0..VECTOR.len() {
        let mut buffer = [0xa5; VECTOR.len()];
        assert_eq!(build(&mut buffer[..room]), Err(Full), "{room}");
    }
    let mut buffer = [0xa5; 37];
    let mut builder = Builder::new(&mut buffer);
    builder.hello(&HELLO).unwrap();
    assert_eq!(builder.tail_probe(PROBE), Err(Full));
    assert_eq!(builder.nack(1, &[1]), Err(Full));
    assert_eq!((builder.len(), builder.room()), (32, 5));
    assert_eq!(buffer[32..], [0xa5; 5]);
    assert_eq!(
        Builder::new(&mut [0; 70_000]).message(1, &[0; 65_536]),
        Err(Full)
    );
}

#[test]
fn a_hello_that_doubts_has_these_bytes() {
    let hello = Hello {
        i_hear_you: false,
        active: false,
        knows_paths: true,
        doubts: true,
        echo: None,
        loss_in: Loss(0),
        arrived: 0,
        lost: 0,
        ..HELLO
    };
    let bytes = [
        0x60, 0x03, 0xe8, 0x01, 0x02, 0x03, 0x04, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0xb0,
        0x07, 0x00, 0x01, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    assert_eq!(hello.to_bytes(), bytes);
    assert_eq!(Hello::parse(&bytes), Ok(hello));
}

#[test]
fn an_unknown_critical_message_ends_the_datagram() {
    let bytes = [[0x80, 0, 0].as_slice(), &VECTOR].concat();
    let mut messages = Messages::new(&bytes);
    assert_eq!(messages.next(), Some(Err(Malformed::Critical)));
    assert_eq!(messages.next(), None);
}

#[test]
fn known_messages_have_exactly_their_length() {
    for (kind, length) in [(kind::HELLO, Hello::BYTES), (kind::TAIL_PROBE, 4)] {
        for (wrong, error) in [
            (length - 1, Malformed::Short),
            (length + 1, Malformed::Length),
        ] {
            let mut buffer = [0; 40];
            let mut builder = Builder::new(&mut buffer);
            builder.message(kind, &[0; 32][..wrong]).unwrap();
            let len = builder.len();
            assert_eq!(read(&buffer[..len]), Err(error), "type {kind} of {wrong}");
        }
    }
    for (length, error) in [
        (0, Malformed::Short),
        (1, Malformed::Short),
        (2, Malformed::Length),
        (9, Malformed::Length),
    ] {
        assert_eq!(Nack::parse(&[0; 9][..length]), Err(error), "{length}");
    }
}

#[test]
fn a_doubt_names_both_ends_of_a_link() {
    const BYTES: [u8; 11] = [13, 0, 8, 10, 7, 0, 1, 10, 7, 0, 2];
    let doubt = LinkDoubt {
        from: NodeAddr(0x0a07_0001),
        to: NodeAddr(0x0a07_0002),
    };
    let mut buffer = [0; BYTES.len()];
    let mut builder = Builder::new(&mut buffer);
    assert_eq!(builder.link_doubt(doubt), Ok(()));
    assert_eq!(builder.link_doubt(doubt), Err(Full));
    assert_eq!(buffer, BYTES);
    assert_eq!(read(&BYTES), Ok(vec![Message::LinkDoubt(doubt)]));
    for cut in 0..LinkDoubt::BYTES {
        let short = LinkDoubt::parse(&BYTES[3..][..cut]);
        assert_eq!(short, Err(Malformed::Short), "{cut}");
    }
    assert_eq!(LinkDoubt::parse(&[0; 9]), Err(Malformed::Length));
}

#[test]
fn a_repair_packet_names_its_packets_and_no_more_ways_than_one() {
    /// Two of the three numbers up to 2565, sent 0 and 40 ms ago, and then all three.
    const SOME: [u8; 8] = [0, 0x0a, 5, 0x82, 1, 0b101, 0, 40];
    const ALL: [u8; 8] = [0, 0x0a, 5, 0x02, 1, 0, 20, 40];
    for (front, members, ages) in [(SOME, 0b101, &[0, 40][..]), (ALL, 0b111, &[0, 20, 40])] {
        let mut buffer = [0; REPAIR_FRONT_BYTES];
        let emit = |out: &mut [u8]| Repair::emit_front(LaneSeq::new(2565), 1, members, ages, out);
        assert_eq!(emit(&mut buffer), Ok(front.len()));
        assert_eq!(buffer[..front.len()], front);
        assert_eq!(emit(&mut buffer[..front.len() - 1]), Err(Full));
        let mut body = front.to_vec();
        for cut in 0..front.len() {
            assert_eq!(Repair::parse(&body[..cut]), Err(Malformed::Short));
        }
        body.extend([0x5a; 23]);
        let repair = Repair::parse(&body).unwrap();
        assert_eq!((repair.newest.value(), repair.seed), (2565, 1));
        assert_eq!((repair.members, repair.ages), (members, ages));
        assert_eq!(repair.sum, [0x5a; 23]);
        assert_eq!(
            Repair::parse(&body[..body.len() - 1]),
            Err(Malformed::Short)
        );
    }
    // The reserved bit is set; neither end of the span is set; the first is not set; all are set; one beyond the span
    // is set.
    for (shape, members) in [(0x42, 5), (0x82, 1), (0x82, 4), (0x82, 7), (0x82, 13)] {
        let body = [&[0, 0x0a, 5, shape, 1, members][..], &[0; 26]].concat();
        assert_eq!(
            Repair::parse(&body),
            Err(Malformed::Value),
            "{shape} {members}"
        );
    }
    for (members, ages) in [(2, &[0][..]), (1, &[]), (1, &[0, 1])] {
        let emitted = Repair::emit_front(LaneSeq::new(1), 1, members, ages, &mut [0; 20]);
        assert_eq!(emitted, Err(Full), "{members} {ages:?}");
    }
}

#[test]
fn the_packets_of_a_repair_packet_that_have_an_age_are_at_most_eight() {
    let aged = |members: u64| Repair::aged(members).collect::<Vec<_>>();
    assert_eq!(aged(1), [0]);
    assert_eq!(aged(0xff), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(aged(0x1ff), [0, 2, 4, 6, 8]);
    assert_eq!(aged(0b1001_0001), [0, 4, 7]);
    assert_eq!(aged(u64::MAX), [0, 8, 16, 24, 32, 40, 48, 56]);
    let longest = 1 | 1 << 63 | 0x00ff_ffff_ffff_fff0;
    let ages = [0; REPAIR_AGES];
    let front = Repair::emit_front(LaneSeq::new(1), 1, longest, &ages, &mut [0; 64]);
    assert_eq!(front, Ok(REPAIR_FRONT_BYTES));
}

#[test]
fn a_lane_report_is_ten_bytes() {
    const BYTES: [u8; 13] = [15, 0, 10, 0, 0, 0x0b, 0xb8, 0, 0, 0, 3, 2, 0];
    let report = LaneReport {
        received: 3000,
        lost: 3,
        run_256ths: 512,
    };
    let mut buffer = [0; BYTES.len()];
    let mut builder = Builder::new(&mut buffer);
    assert_eq!(builder.lane_report(report), Ok(()));
    assert_eq!(builder.lane_report(report), Err(Full));
    assert_eq!(buffer, BYTES);
    assert_eq!(read(&BYTES), Ok(vec![Message::LaneReport(report)]));
    for cut in 0..LaneReport::BYTES {
        assert_eq!(LaneReport::parse(&BYTES[3..][..cut]), Err(Malformed::Short));
    }
    assert_eq!(LaneReport::parse(&[0; 11]), Err(Malformed::Length));
}

#[test]
fn a_hello_without_an_echo_says_so() {
    let hello = Hello {
        echo: None,
        ..HELLO
    };
    let body = hello.to_bytes();
    assert_eq!(body[7..15], [0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]);
    assert_eq!(Hello::parse(&body), Ok(hello));
    let long = Echo {
        stamp_us: 1,
        hold_us: u32::MAX,
    };
    let held = Hello {
        echo: Some(long),
        ..HELLO
    };
    let read = Hello::parse(&held.to_bytes()).unwrap();
    assert_eq!(read.echo.map(|e| e.hold_us), Some(u32::MAX - 1));
}

#[test]
fn a_version_that_knows_no_repair_takes_none() {
    // All its four flags are set, the rest is as it sends it.
    let mut body = HELLO.to_bytes();
    body[0] = 0x0f;
    let hello = Hello::parse(&body).unwrap();
    assert!(hello.i_hear_you && hello.answer_now && hello.closing && hello.active);
    assert!(!hello.takes_repair);
    // All nodes that do not know these kinds skip them beside a hello.
    let kinds = [kind::REPAIR, kind::LANE_REPORT];
    assert!(kinds.iter().all(|kind| kind & CRITICAL == 0));
}

/// Before 7 everything has arrived, then 8, 9 and 12; and a skip to 40.
const RELIABLE: [u8; 28 + 6] = [
    6, 0, 25, // ReliableAck
    0, 0, 7, 0, 0, 13, 0x01, 0x00, 0, 0, 9, 0, 0, 0x03, 0xe8, 0, 3, //
    0, 1, 0, 2, 0, 2, 0, 1, //
    7, 0, 3, // ReliableSkip
    0, 0, 40,
];

const ACK: AckHead = AckHead {
    next: LaneSeq::new(7),
    end: LaneSeq::new(13),
    window: 256,
    newest: LaneSeq::new(9),
    hold_us: 1000,
    repeated: 3,
};

const SKIP: ReliableSkip = ReliableSkip {
    first: LaneSeq::new(40),
};

#[test]
fn acknowledgements_of_reliable_lanes_agree_both_ways() {
    let mut buffer = [0xa5; RELIABLE.len() + 1];
    let mut builder = Builder::new(&mut buffer);
    assert_eq!(
        builder.reliable_ack(&ACK, [(1, 2), (2, 1)].into_iter()),
        Ok(2)
    );
    assert_eq!(builder.reliable_skip(SKIP), Ok(()));
    assert_eq!(buffer[..RELIABLE.len()], RELIABLE);
    assert_eq!(buffer[RELIABLE.len()], 0xa5);
    let messages = read(&RELIABLE).unwrap();
    let [Message::ReliableAck(ack), Message::ReliableSkip(skip)] = &messages[..] else {
        panic!("{messages:?}");
    };
    assert_eq!((ack.head, *skip), (ACK, SKIP));
    let received: Vec<_> = ack.received().map(|(s, n)| (s.value(), n)).collect();
    assert_eq!(received, [(12, 1), (8, 2)]);
    for cut in 0..RELIABLE.len() {
        let whole = [0, 28].iter().position(|&end| end == cut);
        let outcome = read(&RELIABLE[..cut]).map(|messages| messages.len());
        assert_eq!(outcome, whole.ok_or(Malformed::Short), "{cut}");
    }
}

#[test]
fn acknowledgements_tell_what_fits_and_nothing_absurd() {
    let ranges = || (1..100).map(|_| (1, 1));
    for room in 0..64 {
        let mut buffer = [0xa5; 64];
        let mut builder = Builder::new(&mut buffer[..room]);
        let head = AckHead {
            end: LaneSeq::new(1_000),
            ..ACK
        };
        let told = builder.reliable_ack(&head, ranges());
        match room.checked_sub(20) {
            None => assert_eq!((told, builder.is_empty()), (Err(Full), true)),
            Some(rest) => {
                assert_eq!(told, Ok(rest / 4));
                let len = builder.len();
                assert_eq!(read(&buffer[..len]).map(|m| m.len()), Ok(1));
            }
        }
    }
    let body = |ranges: &[u8]| [&ACK.to_bytes()[..], ranges].concat();
    let parse = |ranges: &[u8]| ReliableAck::parse(&body(ranges)).map(|_| ());
    assert_eq!(parse(&[]), Ok(()));
    assert_eq!(parse(&[0, 5, 0, 1]), Ok(()));
    assert_eq!(parse(&[0, 6, 0, 1]), Err(Malformed::Value), "below next");
    assert_eq!(parse(&[0, 0, 0, 1]), Err(Malformed::Value));
    assert_eq!(parse(&[0, 1, 0, 0]), Err(Malformed::Value));
    for extra in 1..4 {
        assert_eq!(parse(&[0; 4][..extra]), Err(Malformed::Length));
    }
    for cut in 0..AckHead::BYTES {
        assert_eq!(
            ReliableAck::parse(&ACK.to_bytes()[..cut]),
            Err(Malformed::Short)
        );
    }
    assert_eq!(ReliableSkip::parse(&[0; 2]), Err(Malformed::Short));
    assert_eq!(ReliableSkip::parse(&[0; 4]), Err(Malformed::Length));
}

#[test]
fn rates_of_reliable_lanes_agree_both_ways() {
    // 25 Mbit/s.
    const RATE: [u8; 7] = [11, 0, 4, 0x00, 0x00, 0x61, 0xa8];
    let rate = ReliableRate { kbps: 25_000 };
    let mut buffer = [0xa5; RATE.len() + 1];
    assert_eq!(Builder::new(&mut buffer).reliable_rate(rate), Ok(()));
    assert_eq!((&buffer[..7], buffer[7]), (&RATE[..], 0xa5));
    assert_eq!(read(&RATE), Ok(vec![Message::ReliableRate(rate)]));
    for cut in 1..RATE.len() {
        assert_eq!(read(&RATE[..cut]), Err(Malformed::Short), "{cut}");
    }
    assert_eq!(ReliableRate::parse(&[0; 3]), Err(Malformed::Short));
    assert_eq!(ReliableRate::parse(&[0; 5]), Err(Malformed::Length));
    let mut short = [0; 6];
    assert_eq!(Builder::new(&mut short).reliable_rate(rate), Err(Full));
}

/// 18 packets to 10.7.0.3 by expected latency; no bound any more to 239.1.2.3 along a stamp.
const HOLDS: [u8; 3 + 14] = [
    12, 0, 14, // LaneHolds
    10, 7, 0, 3, 3, 0, 18, //
    239, 1, 2, 3, 7, 0xff, 0xff,
];

#[test]
fn holds_agree_both_ways() {
    let holds = [
        (0x0a07_0003, Routing::ExpectedLatency, 18),
        (0xef01_0203, Routing::Stamped, Hold::NONE),
    ];
    let holds = holds.map(|(destination, routing, room)| Hold {
        destination: NodeAddr(destination),
        routing,
        room,
    });
    let mut buffer = [0xa5; HOLDS.len() + 1];
    let mut builder = Builder::new(&mut buffer);
    for hold in holds {
        assert_eq!(builder.lane_hold(hold), Ok(()));
    }
    assert_eq!(builder.lane_hold(holds[0]), Err(Full));
    assert_eq!(buffer[..HOLDS.len()], HOLDS);
    assert_eq!(buffer[HOLDS.len()], 0xa5);
    let messages = read(&HOLDS).unwrap();
    let [Message::LaneHolds(told)] = &messages[..] else {
        panic!("{messages:?}");
    };
    assert_eq!(told.holds().collect::<Vec<_>>(), holds);
    for cut in 0..HOLDS.len() {
        let whole = (cut == 0).then_some(0);
        let outcome = read(&HOLDS[..cut]).map(|messages| messages.len());
        assert_eq!(outcome, whole.ok_or(Malformed::Short), "{cut}");
    }
    assert_eq!(LaneHolds::parse(&[]), Err(Malformed::Short));
    for cut in (1..14).filter(|cut| *cut != 7) {
        let body = &HOLDS[3..3 + cut];
        assert_eq!(LaneHolds::parse(body), Err(Malformed::Length), "{cut}");
    }
    for routing in [5, 6, 8, 0xff] {
        let body = [10, 7, 0, 3, routing, 0, 1];
        assert_eq!(LaneHolds::parse(&body), Err(Malformed::Value), "{routing}");
    }
}

/// A probe of 36 bytes: 24 of seal, 3 of header, 6, and 3 of padding; and the answer to a probe of 1439 bytes.
const MTU: [u8; 12 + 9] = [
    8, 0, 9, // MtuProbe
    0x01, 0x02, 0x03, 0x04, 0, 36, 0, 0, 0, //
    9, 0, 6, // MtuAnswer
    0x01, 0x02, 0x03, 0x05, 0x05, 0x9f,
];

#[test]
fn probes_of_the_path_agree_both_ways() {
    let probe = MtuProbe {
        number: 0x0102_0304,
        bytes: 36,
    };
    let answer = MtuAnswer {
        number: 0x0102_0305,
        bytes: 1_439,
    };
    let mut buffer = [0xa5; MTU.len() + 1];
    let mut builder = Builder::new(&mut buffer);
    assert_eq!(builder.mtu_probe(probe), Ok(()));
    assert_eq!(builder.mtu_answer(answer), Ok(()));
    assert_eq!(builder.len(), MTU.len());
    assert_eq!(buffer[..MTU.len()], MTU);
    assert_eq!(buffer[MTU.len()], 0xa5);
    let messages = [Message::MtuProbe(probe), Message::MtuAnswer(answer)];
    assert_eq!(read(&MTU), Ok(messages.to_vec()));
    for cut in 0..MTU.len() {
        let whole = [0, 12].iter().position(|&end| end == cut);
        let outcome = read(&MTU[..cut]).map(|messages| messages.len());
        assert_eq!(outcome, whole.ok_or(Malformed::Short), "{cut}");
    }
}

#[test]
fn a_probe_is_as_long_as_it_says() {
    for bytes in [0, 32, 33, 34, 1_439, u16::MAX] {
        let probe = MtuProbe { number: 7, bytes };
        let plaintext = usize::from(bytes).saturating_sub(crate::link::SEAL_BYTES);
        let mut buffer = vec![0xa5; plaintext];
        let mut builder = Builder::new(&mut buffer);
        if usize::from(bytes) < MtuProbe::DATAGRAM_BYTES_MIN {
            assert_eq!(builder.mtu_probe(probe), Err(Full));
            continue;
        }
        assert_eq!(builder.mtu_probe(probe), Ok(()));
        assert_eq!(builder.len(), plaintext);
        assert_eq!(read(&buffer), Ok(vec![Message::MtuProbe(probe)]));
        assert_eq!(
            MtuProbe::parse(&[&buffer[3..], &[0]].concat()),
            Err(Malformed::Length)
        );
        let mut short = vec![0xa5; plaintext - 1];
        let mut builder = Builder::new(&mut short);
        assert_eq!(builder.mtu_probe(probe), Err(Full));
        assert!(builder.is_empty() && short.iter().all(|b| *b == 0xa5));
    }
    for length in 0..8 {
        let parsed = MtuAnswer::parse(&[0; 8][..length]);
        match length.cmp(&MtuAnswer::BYTES) {
            core::cmp::Ordering::Less => assert_eq!(parsed, Err(Malformed::Short)),
            core::cmp::Ordering::Equal => assert!(parsed.is_ok()),
            core::cmp::Ordering::Greater => assert_eq!(parsed, Err(Malformed::Length)),
        }
    }
}

#[test]
fn an_acknowledgement_reaches_across_the_end_of_the_numbers() {
    let head = AckHead {
        next: LaneSeq::new(0x00ff_fffe),
        end: LaneSeq::new(3),
        ..ACK
    };
    let mut buffer = [0; 64];
    let mut builder = Builder::new(&mut buffer);
    assert_eq!(builder.reliable_ack(&head, [(4, 1)].into_iter()), Ok(1));
    let len = builder.len();
    let messages = read(&buffer[..len]).unwrap();
    let Message::ReliableAck(ack) = &messages[0] else {
        panic!("{messages:?}");
    };
    let received: Vec<_> = ack.received().map(|(s, n)| (s.value(), n)).collect();
    assert_eq!(received, [(0x00ff_ffff, 4)]);
}

#[test]
fn a_nack_reaches_across_the_end_of_the_numbers() {
    let mut buffer = [0; 64];
    let mut builder = Builder::new(&mut buffer);
    let seqs = [0x00ff_ffff, 0x0100_0000, 0x0100_001f];
    assert_eq!(builder.nack(2, &seqs), Ok(3));
    let len = builder.len();
    assert_eq!(len, 3 + 1 + 7, "one range");
    let messages = read(&buffer[..len]).unwrap();
    assert_eq!(missing(&messages[0]), [0x00ff_ffff, 0, 0x1f]);
}

#[test]
fn no_gap_is_no_message() {
    let mut builder = Builder::new(&mut []);
    assert_eq!(builder.nack(1, &[]), Ok(0));
    assert!(builder.is_empty());
}

prop_compose! {
    fn hello()(
        flags: u8, interval_ms: u16, stamp_us: u32, loss: u16, boot: u32, arrived: u32, lost: u32,
        echo in proptest::option::of((any::<u32>(), 0..u32::MAX)),
    ) -> Hello {
        Hello {
            i_hear_you: flags & 1 != 0,
            answer_now: flags & 2 != 0,
            closing: flags & 4 != 0,
            active: flags & 8 != 0,
            takes_repair: flags & 16 != 0,
            knows_paths: flags & 32 != 0,
            doubts: flags & 64 != 0,
            lets_wait: flags & 128 != 0,
            interval_ms,
            stamp_us,
            echo: echo.map(|(stamp_us, hold_us)| Echo { stamp_us, hold_us }),
            loss_in: Loss(loss),
            boot,
            arrived,
            lost,
        }
    }
}

proptest! {
    #[test]
    fn hellos_round_trip(hello in hello()) {
        prop_assert_eq!(Hello::parse(&hello.to_bytes()), Ok(hello));
    }

    #[test]
    fn nacks_name_the_front_of_what_is_missing(
        start in 0u64..1 << 30,
        steps in proptest::collection::vec(1u64..60, 1..80),
        room in 0usize..200,
    ) {
        let seqs: Vec<u64> = steps.iter().scan(start, |s, step| { *s += step; Some(*s) }).collect();
        let mut buffer = [0xa5; 200];
        let mut builder = Builder::new(&mut buffer[..room]);
        match builder.nack(3, &seqs) {
            Err(Full) => prop_assert!(room < 11 && builder.is_empty()),
            Ok(named) => {
                let len = builder.len();
                prop_assert!(named == seqs.len() || room - len < 7);
                let messages = read(&buffer[..len]).unwrap();
                let got = missing(&messages[0]);
                let want: Vec<u32> = seqs[..named].iter().map(|&s| LaneSeq::of(s).value()).collect();
                prop_assert_eq!(&got, &want);
                let Message::Nack(nack) = &messages[0] else { unreachable!() };
                prop_assert_eq!((nack.strike, nack.count()), (3, named));
            }
        }
    }

    #[test]
    fn no_bytes_break_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let results: Vec<_> = Messages::new(&bytes).collect();
        for (i, result) in results.iter().enumerate() {
            if i + 1 < results.len() {
                prop_assert!(result.is_ok(), "after an error there is no next message");
            }
            if let Ok(Message::Nack(nack)) = result {
                prop_assert_eq!(nack.missing().count(), nack.count());
            }
        }
    }
}

#[test]
fn a_report_of_a_group_has_these_bytes() {
    let reception = Reception {
        node: NodeAddr(0x0a07_0003),
        received: 1_000,
        recovered: 9,
        lost: 1,
    };
    let bytes = [
        10, 0, 28, 10, 7, 0, 1, 0xef, 1, 2, 3, 0, 0, 0, 40, // head
        10, 7, 0, 3, 0, 0, 3, 0xe8, 0, 0, 0, 9, 0, 0, 0, 1,
    ];
    let of = (NodeAddr(0x0a07_0001), NodeAddr(0xef01_0203));
    let mut buffer = [0; 31];
    let mut builder = Builder::new(&mut buffer);
    assert_eq!(builder.group_report(of, 40, &[reception]), Ok(()));
    assert_eq!(builder.group_report(of, 0, &[]), Err(Full));
    assert_eq!(buffer, bytes);
    let messages = read(&bytes).unwrap();
    let [Message::GroupReport(report)] = messages.as_slice() else {
        panic!("a report")
    };
    assert_eq!(
        (report.source, report.group, report.receivers),
        (of.0, of.1, 40)
    );
    assert_eq!(report.receptions().collect::<Vec<_>>(), [reception]);
    for cut in 0..28 {
        let read = GroupReport::parse(&bytes[3..3 + cut]);
        assert_eq!(read.is_ok(), cut == 12, "{cut}");
    }
    let many = [reception.to_bytes(); RECEPTIONS_MAX + 1].concat();
    let long = [&bytes[3..15], &many].concat();
    assert_eq!(GroupReport::parse(&long), Err(Malformed::Count));
    assert!(GroupReport::parse(&long[..long.len() - Reception::BYTES]).is_ok());
}

#[test]
fn a_clock_offset_names_the_node_whose_clock_counts() {
    const BYTES: [u8; 11] = [17, 0, 8, 0x0a, 0x07, 0x00, 0x01, 0xff, 0xff, 0xfc, 0x18];
    let clock = ClockOffset {
        reference: NodeAddr(0x0a07_0001),
        offset_us: 1_000u32.wrapping_neg(),
    };
    let mut bytes = [0; BYTES.len()];
    let mut builder = Builder::new(&mut bytes);
    assert_eq!(builder.clock_offset(clock), Ok(()));
    assert_eq!(builder.clock_offset(clock), Err(Full));
    assert_eq!(bytes, BYTES);
    assert_eq!(read(&BYTES), Ok(vec![Message::ClockOffset(clock)]));
    for cut in 0..8 {
        assert!(ClockOffset::parse(&BYTES[3..3 + cut]).is_err(), "{cut}");
    }
}

#[test]
fn aims_of_flows_stand_one_after_the_other() {
    const BYTES: [u8; 33] = [
        18, 0, 30, 0x0a, 7, 0, 3, 0x0a, 7, 0, 9, 0x13, 0x88, 0, 7, 0, 100, 155, 0x0a, 7, 0, 3,
        0xef, 1, 2, 3, 0x13, 0x88, 0x13, 0x8c, 0, 0, 255,
    ];
    let from = (NodeAddr(0x0a07_0003), VirtualPort(5000));
    let strict = FlowAim {
        source: from,
        destination: (NodeAddr(0x0a07_0009), VirtualPort(7)),
        aim: Aim::new(Some(0.000_1), Some(1.0)).unwrap(),
    };
    let bare = FlowAim {
        source: from,
        destination: (NodeAddr(0xef01_0203), VirtualPort(5004)),
        aim: Aim::new(None, Some(0.0)).unwrap(),
    };
    let mut bytes = [0; BYTES.len()];
    let mut builder = Builder::new(&mut bytes);
    assert_eq!(builder.flow_aim(strict), Ok(()));
    assert_eq!(builder.flow_aim(bare), Ok(()));
    assert_eq!(builder.flow_aim(bare), Err(Full));
    assert_eq!(bytes, BYTES);
    let messages = read(&BYTES).unwrap();
    let [Message::FlowAims(aims)] = messages[..] else {
        panic!("{messages:?}");
    };
    assert_eq!(aims.iter().collect::<Vec<_>>(), [strict, bare]);
    for cut in 0..30 {
        let parsed = FlowAims::parse(&BYTES[3..3 + cut]);
        assert_eq!(parsed.is_ok(), cut == 15, "{cut}");
    }
}

#[test]
fn a_neighbour_is_told_where_it_is_seen() {
    let mut ip = [0; 16];
    ip[..4].copy_from_slice(&[0x20, 0x01, 0x0d, 0xb8]);
    let endpoint = Endpoint { ip, port: 7700 };
    let mut bytes = [0; MESSAGE_HEADER_BYTES + Endpoint::BYTES];
    let mut builder = Builder::new(&mut bytes);
    assert_eq!(builder.seen_at(endpoint), Ok(()));
    assert_eq!(builder.seen_at(endpoint), Err(Full));
    assert_eq!(bytes[..7], [16, 0, 18, 0x20, 0x01, 0x0d, 0xb8]);
    assert_eq!(bytes[19..], [0x1e, 0x14]);
    assert_eq!(read(&bytes), Ok(vec![Message::SeenAt(endpoint)]));
    for is_dialled in [false, true] {
        let seen = StreamSeenAt {
            endpoint,
            is_dialled,
        };
        let mut bytes = [0; MESSAGE_HEADER_BYTES + StreamSeenAt::BYTES];
        assert_eq!(Builder::new(&mut bytes).stream_seen_at(seen), Ok(()));
        assert_eq!(bytes[..5], [19, 0, 19, u8::from(is_dialled), 0x20]);
        assert_eq!(bytes[20..], [0x1e, 0x14]);
        assert_eq!(read(&bytes), Ok(vec![Message::StreamSeenAt(seen)]));
        // A later version may give another bit a meaning.
        bytes[3] |= 0x80;
        assert_eq!(read(&bytes), Ok(vec![Message::StreamSeenAt(seen)]));
        for cut in 0..StreamSeenAt::BYTES {
            assert!(StreamSeenAt::parse(&bytes[3..3 + cut]).is_err(), "{cut}");
        }
    }
}
