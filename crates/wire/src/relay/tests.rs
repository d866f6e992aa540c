//! Byte vectors of every format, in both directions; truncation; and input that must be refused.

mod items;

use super::entry::Item;
use super::join::Issuers;
use super::*;
use crate::handshake::VersionRange;
use base::NodeAddr;

fn hop(bytes: &mut [u8], repr: &HopRepr<'_>) -> usize {
    let mut w = Writer::new(bytes);
    repr.emit(&mut w).unwrap();
    w.len()
}

const LEAF: HopRepr<'_> = HopRepr {
    node: NodeAddr(0x0a07_0003),
    stripes: 2,
    adapts: false,
    endpoint: "",
    path: Some(b"/d"),
    discard: false,
    below: &[],
};
const LEAF_BYTES: [u8; 13] = [1, 10, 7, 0, 3, 2, 0, 0, 2, b'/', b'd', 0, 0];

fn route() -> Vec<u8> {
    let relay = HopRepr {
        node: NodeAddr(0x0a07_0002),
        stripes: 1,
        adapts: false,
        endpoint: "h:1",
        path: None,
        discard: false,
        below: &LEAF_BYTES,
    };
    let mut bytes = [0xa5; 64];
    let len = hop(&mut bytes, &relay);
    bytes[..len].to_vec()
}

#[test]
fn a_preamble_comes_back_and_nothing_else_is_one() {
    let data = Preamble::Data {
        transfer: [7; 16],
        stripe: 3,
        proof: [9; 32],
    };
    let mut bytes = [0xa5; DATA_PREAMBLE_BYTES];
    assert_eq!(data.emit(6, &mut bytes), Ok(DATA_PREAMBLE_BYTES));
    assert_eq!(bytes[..8], [b'S', b'N', b'R', b'L', 6, 1, 3, 0]);
    assert_eq!(bytes[8..24], [7; 16]);
    assert_eq!(bytes[24..], [9; 32]);
    assert_eq!(Preamble::parse(&bytes), Ok((6, data)));
    for cut in 0..bytes.len() {
        assert_eq!(Preamble::parse(&bytes[..cut]), Err(Malformed::Short));
    }
    let mut control = [0xa5; 8];
    assert_eq!(Preamble::Control.emit(6, &mut control), Ok(8));
    assert_eq!(Preamble::parse(&control), Ok((6, Preamble::Control)));
    let mut link = [0; CONTROL_PREAMBLE_BYTES];
    assert_eq!(Preamble::Link.emit(6, &mut link), Ok(8));
    assert_eq!(link, *b"SNRL\x06\x02\0\0");
    assert_eq!(Preamble::parse(&link), Ok((6, Preamble::Link)));
    for (at, value, expected) in [
        (0, 0x16, Malformed::Kind),
        (4, 1, Malformed::Version),
        (5, 2, Malformed::Value),
        (6, STRIPES_MAX, Malformed::Value),
        (7, 1, Malformed::Value),
    ] {
        let mut wrong = bytes;
        wrong[at] = value;
        assert_eq!(Preamble::parse(&wrong), Err(expected), "byte {at}");
    }
}

#[test]
fn a_frame_is_bounded() {
    let frame = Frame {
        kind: FrameKind::Data,
        len: 0x0001_0203,
        offset: 0x0405_0607_0809_0a0b,
    };
    let bytes = [0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];
    assert_eq!(frame.to_bytes(), bytes);
    assert_eq!(Frame::parse(&bytes), Ok(frame));
    let with = |len: u32, kind: u8, offset: u64| {
        let mut bytes = Frame {
            len,
            offset,
            ..frame
        }
        .to_bytes();
        bytes[0] = kind;
        Frame::parse(&bytes)
    };
    let most = FRAME_BYTES_MAX as u32;
    assert!(with(most, 0, 0).is_ok() && with(0, 1, 9).is_ok());
    assert_eq!(with(most + 1, 0, 0), Err(Malformed::Length));
    assert_eq!(with(0, 0, 0), Err(Malformed::Length));
    assert_eq!(with(1, 1, 0), Err(Malformed::Length));
    assert_eq!(with(1, 2, 0), Err(Malformed::Kind));
    assert_eq!(with(2, 0, u64::MAX), Err(Malformed::Value));
    let mut reserved = bytes;
    reserved[2] = 1;
    assert_eq!(Frame::parse(&reserved), Err(Malformed::Value));
}

#[test]
fn a_route_comes_back_and_what_is_below_a_hop_is_passed_on_as_it_stands() {
    let mut leaf = [0xa5; LEAF_BYTES.len()];
    assert_eq!(hop(&mut leaf, &LEAF), LEAF_BYTES.len());
    assert_eq!(leaf, LEAF_BYTES);
    let bytes = route();
    let relay = Hop::parse(&bytes).unwrap();
    assert_eq!((relay.node, relay.stripes), (NodeAddr(0x0a07_0002), 1));
    assert_eq!((relay.endpoint, relay.path), ("h:1", None));
    assert_eq!((relay.ends(), relay.as_bytes()), (1, &bytes[..]));
    let below: Vec<_> = relay.below().collect();
    assert_eq!(below.len(), 1);
    assert_eq!(below[0].as_bytes(), LEAF_BYTES);
    assert_eq!((below[0].path, below[0].stripes), (Some(&b"/d"[..]), 2));
    for cut in 0..bytes.len() {
        assert!(Hop::parse(&bytes[..cut]).is_err(), "cut at {cut}");
    }
    for (at, value) in [(0, 4), (0, 2), (0, 0), (1, 224), (5, 0), (5, 33)] {
        let mut wrong = LEAF_BYTES;
        wrong[at] = value;
        assert_eq!(Hop::parse(&wrong), Err(Malformed::Value), "byte {at}");
    }
}

#[test]
fn routes_are_bounded_in_depth_and_size() {
    let mut below = LEAF_BYTES.to_vec();
    for depth in 2..=DEPTH_MAX + 1 {
        let mut bytes = vec![0; 1_024];
        let repr = HopRepr {
            path: None,
            below: &below,
            ..LEAF
        };
        let len = hop(&mut bytes, &repr);
        bytes.truncate(len);
        assert_eq!(Hop::parse(&bytes).is_ok(), depth <= DEPTH_MAX, "{depth}");
        below = bytes;
    }
    for leaves in [HOPS_MAX - 1, HOPS_MAX] {
        let below = LEAF_BYTES.repeat(leaves);
        let mut bytes = vec![0; 2_048];
        let len = hop(
            &mut bytes,
            &HopRepr {
                below: &below,
                ..LEAF
            },
        );
        let parsed = Hop::parse(&bytes[..len]);
        assert_eq!(parsed.is_ok(), leaves < HOPS_MAX, "{leaves}");
    }
}

#[test]
fn an_order_comes_back_and_is_bounded() {
    let ends = [[1; DIGEST_BYTES], [2; DIGEST_BYTES]];
    let ordered = Ordered {
        unix_s: 258,
        key: [6; 32],
        ends: &ends,
        signature: [3; 64],
        certificate: &[4, 5],
    };
    let mut bytes = [0; ORDER_BYTES_MAX];
    let len = ordered.emit(&mut bytes).unwrap();
    let expected = [
        &[0, 0, 0, 0, 0, 0, 1, 2][..],
        &[6; 32],
        &[2],
        &[1; 32],
        &[2; 32],
        &[3; 64],
        &[4, 5],
    ];
    assert_eq!(bytes[..len], expected.concat());
    assert_eq!(Ordered::parse(&bytes[..len]), Ok(ordered));
    let without_certificate = len - 2;
    for cut in 0..without_certificate {
        assert_eq!(Ordered::parse(&bytes[..cut]), Err(Malformed::Short));
    }
    let mut body = [0; ORDERED_BYTES_MAX];
    let of = (&[9; 16], 0x103);
    let len = ordered.signed_part(of, &mut body).unwrap();
    let expected = [
        &[9; 16][..],
        &[1, 3, 0, 0, 0, 0, 0, 0, 1, 2],
        &[6; 32],
        &[1; 32],
        &[2; 32],
    ];
    assert_eq!(body[..len], expected.concat());
    for count in [0, HOPS_MAX as u8 + 1] {
        bytes[40] = count;
        assert_eq!(Ordered::parse(&bytes), Err(Malformed::Count), "{count}");
    }
}

fn messages(route: &[u8]) -> Vec<(Message<'_>, Vec<u8>)> {
    let node = NodeAddr(0x0a07_0001);
    let other = NodeAddr(0x0a07_0002);
    let open = Open {
        transfer: [1; 16],
        pull: true,
        plain: false,
        scavenge: true,
        fresh: false,
        keep: true,
        delete: false,
        spare: false,
        dry: true,
        attributes: true,
        checksum: false,
        congestion: "bbr",
        certificate: &[8, 9],
        ordered: &[6, 7, 5],
        route: Hop::parse(route).unwrap(),
    };
    let have = Have {
        kept: 1,
        partial_key: 2,
        partial: 3,
        partial_digest: [4; 32],
    };
    let segment = Segment {
        bytes: 1,
        rate_bps: 2,
        rtt_us: 3,
        resent: 4,
        waited: 5,
        starved: 6,
        stripes: 7,
    };
    let carried = Carried {
        one_bps: 1,
        together_bps: 2,
        is_full: true,
        spread_pct: 3,
        rtt_us: 4,
    };
    let done = Done {
        bytes: 5,
        entries: 6,
        digest: [7; 32],
    };
    let words = |parts: &[&[u8]]| parts.concat();
    let n = [10, 7, 0, 1];
    let m = [10, 7, 0, 2];
    vec![
        (
            Message::Open(open),
            words(&[
                &[1; 16],
                &[1, 149, 3],
                b"bbr",
                &[0, 2, 8, 9],
                &[0, 3, 6, 7, 5],
                route,
            ]),
        ),
        (
            Message::Attach {
                ticket: [2; 32],
                certificate: &[8],
            },
            words(&[&[2; 32], &[8]]),
        ),
        (
            Message::Failed {
                node,
                kind: FailureKind::InUse,
                about: Some(other),
                text: "no",
            },
            words(&[&n, &[3], &m, b"no"]),
        ),
        (
            Message::Have(node, have),
            words(&[
                &n,
                &1u64.to_be_bytes(),
                &2u64.to_be_bytes(),
                &3u64.to_be_bytes(),
                &[4; 32],
            ]),
        ),
        (
            Message::Ack(node, 258),
            words(&[&n, &[0, 0, 0, 0, 0, 0, 1, 2]]),
        ),
        (
            Message::Segment(node, other, segment),
            words(&[
                &n,
                &m,
                &1u64.to_be_bytes(),
                &2u64.to_be_bytes(),
                &[0, 0, 0, 3, 0, 0, 0, 4, 0, 5, 0, 6, 0, 7],
            ]),
        ),
        (
            Message::Done(node, done),
            words(&[&n, &5u64.to_be_bytes(), &6u64.to_be_bytes(), &[7; 32]]),
        ),
        (
            Message::Probe(258, open),
            words(&[
                &258u64.to_be_bytes(),
                &[1; 16],
                &[1, 149, 3],
                b"bbr",
                &[0, 2, 8, 9],
                &[0, 3, 6, 7, 5],
                route,
            ]),
        ),
        (
            Message::Carried(node, other, carried, &[8]),
            words(&[
                &n,
                &m,
                &1u64.to_be_bytes(),
                &2u64.to_be_bytes(),
                &[1, 3, 0, 0, 0, 4, 8],
            ]),
        ),
        (
            Message::Ended(Ended {
                node,
                key: [2; 32],
                signature: [3; 64],
                certificate: &[8],
            }),
            words(&[&n, &[2; 32], &[3; 64], &[8]]),
        ),
        (
            Message::Wrapped(WrappedKeys::parse(WRAPPED).unwrap()),
            WRAPPED.to_vec(),
        ),
        (
            Message::Said(Said {
                node,
                is_done: false,
                sealed: &[5; 17],
            }),
            words(&[&n, &[0], &[5; 17]]),
        ),
    ]
}

/// A key for one sink.
const WRAPPED: &[u8] = &{
    let mut bytes = [4; 4 + WRAPPED_BYTES];
    (bytes[0], bytes[1], bytes[2], bytes[3]) = (10, 7, 0, 1);
    bytes
};

#[test]
fn keys_are_wrapped_for_as_many_sinks_as_a_route_has() {
    let all = WrappedKeys::parse(WRAPPED).unwrap();
    let one = Wrapped {
        node: NodeAddr(0x0a07_0001),
        key: [4; WRAPPED_BYTES],
    };
    assert_eq!(all.iter().collect::<Vec<_>>(), [one]);
    for (count, fits) in [
        (0, false),
        (1, true),
        (HOPS_MAX, true),
        (HOPS_MAX + 1, false),
    ] {
        let bytes = WrappedKeys::to_bytes(&vec![one; count]);
        assert_eq!(WrappedKeys::parse(&bytes).is_ok(), fits, "{count}");
    }
}

#[test]
fn what_an_end_signs_and_what_a_sink_says() {
    let part = end_part(&[1; 16], (NodeAddr(0x0a07_0001), &[2; 32]), &[3; 32]);
    let expected = [&[1; 16][..], &[10, 7, 0, 1], &[2; 32], &[3; 32]];
    assert_eq!(part[..], expected.concat());
    let said = Said {
        node: NodeAddr(0x0a07_0001),
        is_done: true,
        sealed: &[5; 17],
    };
    assert_eq!(said.bound(), [10, 7, 0, 1, 1]);
    for bytes in [&[10, 7, 0, 1, 2][..], &[10, 7, 0, 1, 0]] {
        let body = [bytes, &[5; 17]].concat();
        assert_eq!(Message::parse(16, &body).is_ok(), bytes[4] == 0);
        assert!(Message::parse(16, &body[..21]).is_err());
    }
}

#[test]
fn messages_come_back_and_are_truncated_nowhere() {
    let route = route();
    for (i, (message, body)) in messages(&route).into_iter().enumerate() {
        let mut bytes = vec![0xa5; 512];
        let len = message.emit(&mut bytes).unwrap();
        let kind = [1, 2, 3, 4, 5, 6, 7, 12, 13, 14, 15, 16][i];
        assert_eq!(bytes[..4], [kind, 0, 0, body.len() as u8], "{message:?}");
        assert_eq!(bytes[4..len], body, "{message:?}");
        let first = bytes[..4].try_into().unwrap();
        assert_eq!(head(first), Ok((kind, body.len())));
        assert_eq!(Message::parse(kind, &body), Ok(message));
        // The rest of such a message is text or a certificate.
        let least = match kind {
            2 => 32,
            3 => 5,
            13 => 30,
            14 => 100,
            _ => body.len(),
        };
        for cut in 0..least {
            assert!(Message::parse(kind, &body[..cut]).is_err(), "{cut}");
        }
        for room in 0..len {
            assert_eq!(message.emit(&mut vec![0; room]), Err(Full));
        }
    }
    for refused in [0, 17, 63, 128, 192, 255] {
        assert_eq!(head([refused, 0, 0, 0]), Err(Malformed::Kind), "{refused}");
        assert_eq!(Message::parse(refused, &[]), Err(Malformed::Kind));
        let item = Item::read(core::slice::from_ref(&refused));
        assert!(refused == 0 || item == Err(Malformed::Kind), "{refused}");
    }
    assert_eq!(head([3, 1, 0, 0]), Err(Malformed::Length));
}

#[test]
fn what_is_optional_and_not_known_has_a_length_and_comes_back() {
    for kind in [64, 127] {
        let message = Message::Unknown {
            kind,
            body: &[1, 2],
        };
        let mut bytes = [0xa5; 6];
        assert_eq!(message.emit(&mut bytes), Ok(6));
        assert_eq!(bytes, [kind, 0, 0, 2, 1, 2]);
        assert_eq!(head([kind, 0, 0, 2]), Ok((kind, 2)));
        assert_eq!(Message::parse(kind, &[1, 2]), Ok(message));

        let item = Item::Unknown { kind, value: &[1] };
        let mut bytes = [0xa5; 5];
        assert_eq!(item.emit(&mut bytes), Ok(4));
        assert_eq!(bytes, [kind, 0, 1, 1, 0xa5]);
        assert_eq!(Item::read(&bytes), Ok((item, 4)));
        for cut in 0..4 {
            assert_eq!(Item::read(&bytes[..cut]), Err(Malformed::Short), "{cut}");
        }
        assert_eq!(Item::read(&[kind, 0x10, 0]), Err(Malformed::Length));
    }
}

#[test]
fn ends_name_the_versions_that_they_speak() {
    let versions = VersionRange { min: 1, max: 3 };
    let message = Message::Speaks(NodeAddr(0x0a07_0001), versions);
    let mut bytes = [0xa5; 11];
    assert_eq!(message.emit(&mut bytes), Ok(10));
    assert_eq!(bytes, [96, 0, 0, 6, 10, 7, 0, 1, 1, 3, 0xa5]);
    assert_eq!(Message::parse(96, &bytes[4..10]), Ok(message));
    // Additions of later versions at the end are ignored.
    assert_eq!(Message::parse(96, &bytes[4..11]), Ok(message));
    for cut in 4..10 {
        let short = Message::parse(96, &bytes[4..cut]);
        assert_eq!(short, Err(Malformed::Short), "{cut}");
    }
    let item = Item::Speaks(versions);
    let mut bytes = [0xa5; 6];
    assert_eq!(item.emit(&mut bytes), Ok(5));
    assert_eq!(bytes, [96, 0, 2, 1, 3, 0xa5]);
    assert_eq!(Item::read(&bytes), Ok((item, 5)));
    assert_eq!(Item::read(&[96, 0, 3, 1, 3, 9]), Ok((item, 6)));
    for cut in 0..5 {
        assert_eq!(Item::read(&bytes[..cut]), Err(Malformed::Short), "{cut}");
    }
    // Version 0 is not valid, and the lowest must not exceed the highest.
    for [min, max] in [[0, 0], [0, 3], [3, 2]] {
        let bytes = [96, 0, 2, min, max];
        assert_eq!(Item::read(&bytes), Err(Malformed::Value));
        let body = [10, 7, 0, 1, min, max];
        assert_eq!(Message::parse(96, &body), Err(Malformed::Value));
    }
}

#[test]
fn a_sink_names_what_it_would_remove_by_paths_that_stay_inside() {
    let message = Message::Gone(NodeAddr(0x0a07_0001), b"a/\xff");
    let mut bytes = [0xa5; 12];
    assert_eq!(message.emit(&mut bytes), Ok(11));
    assert_eq!(bytes[..11], [97, 0, 0, 7, 10, 7, 0, 1, b'a', b'/', 0xff]);
    assert_eq!(Message::parse(97, &bytes[4..11]), Ok(message));
    for path in [&b""[..], b"../a", b"/a", b"a//b"] {
        let body = [&[10, 7, 0, 1][..], path].concat();
        let parsed = Message::parse(97, &body);
        assert_eq!(parsed, Err(Malformed::Value), "{path:?}");
    }
    assert_eq!(Message::parse(97, &[10, 7, 0]), Err(Malformed::Short));
}

#[test]
fn a_long_text_is_cut_between_characters() {
    let text = "ü".repeat(TEXT_BYTES_MAX);
    let message = Message::Failed {
        node: NodeAddr(1),
        kind: FailureKind::Other(77),
        about: None,
        text: &text,
    };
    let mut bytes = vec![0; 4_096];
    let len = message.emit(&mut bytes).unwrap();
    let Ok(Message::Failed { kind, text, .. }) = Message::parse(3, &bytes[4..len]) else {
        panic!("not understood");
    };
    assert_eq!((kind, text.len()), (FailureKind::Other(77), TEXT_BYTES_MAX));
}

#[test]
fn failures_have_numbers_and_labels_of_their_own() {
    for (i, kind) in FailureKind::ALL.into_iter().enumerate() {
        assert_eq!(usize::from(kind.to_byte()), i);
        assert_eq!(FailureKind::from_byte(kind.to_byte()), kind);
        let same = FailureKind::ALL
            .iter()
            .filter(|k| k.label() == kind.label());
        assert_eq!(same.count(), 1);
    }
}

#[test]
fn keys_come_back_and_are_bounded() {
    let bytes = [&1u64.to_be_bytes()[..], &2u64.to_be_bytes()].concat();
    let keys = Keys::parse(&bytes).unwrap();
    assert_eq!(keys.iter().collect::<Vec<_>>(), [1, 2]);
    let message = Message::Kept(NodeAddr(0x0a07_0001), keys);
    check_message(
        &message,
        &[&[11, 0, 0, 20, 10, 7, 0, 1], &bytes[..]].concat(),
    );
    assert_eq!(Keys::parse(&[0; 9]), Err(Malformed::Length));
    let most = vec![0; 8 * KEYS_MAX];
    assert!(Keys::parse(&most).is_ok());
    assert!(Keys::parse(&vec![0; 8 * KEYS_MAX + 8]).is_err());
}

#[test]
fn what_a_host_that_joins_says_and_hears_comes_back() {
    let mut room = [0xa5; 64];
    let mut w = Writer::new(&mut room);
    join::Endpoints::emit(&["h:1"], &mut w).unwrap();
    let join = Message::Join(join::Join {
        secret: [7; 16],
        static_key: [8; 32],
        name: "home",
        endpoints: join::Endpoints::parse(&mut Reader::new(w.written())).unwrap(),
    });
    let expected = [
        &[8, 0, 0, 58][..],
        &[7; 16],
        &[8; 32],
        &[4, b'h', b'o', b'm', b'e'],
        &[1, 3, b'h', b':', b'1'],
    ];
    check_message(&join, &expected.concat());
    check_message(&Message::Renew(&[1, 2, 3]), &[9, 0, 0, 3, 1, 2, 3]);
    let mut room = [0xa5; 64];
    let mut w = Writer::new(&mut room);
    let nodes = [
        (NodeAddr(0x0a07_0001), "ams", &["a:1", "b:2"][..]),
        (NodeAddr(0x0a07_0002), "fra", &[]),
    ];
    join::Neighbors::emit(&nodes, &mut w).unwrap();
    let neighbors = join::Neighbors::parse(&mut Reader::new(w.written())).unwrap();
    let back: Vec<_> = neighbors.iter().collect();
    assert_eq!(
        (back.len(), back[0].name, back[1].address),
        (2, "ams", nodes[1].0)
    );
    assert_eq!(back[0].endpoints.iter().collect::<Vec<_>>(), ["a:1", "b:2"]);
    assert_eq!(back[1].endpoints.iter().count(), 0);
    let joined = Message::Joined(join::Joined {
        certificate: &[5, 5],
        revocations: &[],
        neighbors,
        chain: &[],
    });
    let expected = [
        &[10, 0, 0, 32][..],
        &[0, 2, 5, 5, 0, 0, 2],
        &[
            10, 7, 0, 1, 3, b'a', b'm', b's', 2, 3, b'a', b':', b'1', 3, b'b', b':', b'2',
        ],
        &[10, 7, 0, 2, 3, b'f', b'r', b'a', 0],
    ];
    let expected = expected.concat();
    let len = (expected.len() - 4) as u8;
    check_message(&joined, &[&[10, 0, 0, len], &expected[4..]].concat());
    let chain = [6; 2 * crate::certificate::SUCCESSION_BYTES];
    let rotated = Message::Joined(join::Joined {
        certificate: &[5, 5],
        revocations: &[],
        neighbors,
        chain: &chain,
    });
    let mut bytes = vec![0; Message::BYTES_MAX];
    let len = rotated.emit(&mut bytes).unwrap();
    assert_eq!(
        &bytes[MESSAGE_HEAD_BYTES..len - chain.len()],
        &expected[4..]
    );
    assert_eq!(
        Message::parse(10, &bytes[MESSAGE_HEAD_BYTES..len]),
        Ok(rotated)
    );
    let cut = Message::parse(10, &bytes[MESSAGE_HEAD_BYTES..len - 1]);
    assert_eq!(cut, Err(Malformed::Length));
    let too_many = [""; join::ENDPOINTS_MAX + 1];
    assert_eq!(
        join::Endpoints::emit(&too_many, &mut Writer::new(&mut [0; 64])),
        Err(Full)
    );
    let nobody = [0_u8; 4 + 64].map(|_| 0);
    assert!(Message::parse(8, &nobody).is_err(), "a node without a name");
}

/// Checks that a message and its bytes agree in both directions, and that each shorter body is refused or another
/// message.
fn check_message(message: &Message<'_>, expected: &[u8]) {
    let mut bytes = vec![0xa5; Message::BYTES_MAX];
    let len = message.emit(&mut bytes).unwrap();
    assert_eq!(&bytes[..len], expected);
    let (kind, body) = (bytes[0], &bytes[MESSAGE_HEAD_BYTES..len]);
    assert_eq!(head(*bytes.first_chunk().unwrap()), Ok((kind, body.len())));
    assert_eq!(&Message::parse(kind, body).unwrap(), message);
    for cut in 0..body.len() {
        assert_ne!(
            Message::parse(kind, &body[..cut]).ok().as_ref(),
            Some(message)
        );
    }
}

#[test]
fn an_issuer_tells_of_others() {
    let mut room = [0; 128];
    let mut w = Writer::new(&mut room);
    Issuers::emit(&[([7; 32], &["b:2"][..])], &mut w).unwrap();
    let body = w.written().to_vec();
    let message = Message::parse(98, &body).unwrap();
    let mut bytes = [0xa5; 64];
    let len = message.emit(&mut bytes).unwrap();
    assert_eq!(bytes[..4], [98, 0, 0, body.len() as u8]);
    assert_eq!(bytes[4..len], body);
    let Message::Issuers(issuers) = message else {
        panic!("{message:?}");
    };
    let other = issuers.iter().next().unwrap();
    assert_eq!(
        (other.key, other.endpoints.iter().next()),
        ([7; 32], Some("b:2"))
    );
    let longer = [&body[..], &[1, 2]].concat();
    // Additions of later versions at the end are ignored.
    assert_eq!(Message::parse(98, &longer), Ok(message));
    for short in 0..body.len() {
        let parsed = Message::parse(98, &body[..short]);
        assert_eq!(parsed, Err(Malformed::Short), "{short}");
    }
    assert_eq!(Message::parse(98, &[9]), Err(Malformed::Count));
    assert_eq!(Message::parse(98, &[0]).unwrap().emit(&mut bytes), Ok(5));
}
