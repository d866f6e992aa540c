use super::*;
use proptest::prelude::*;

const NODES: [NodeAddr; 2] = [NodeAddr(0x0a07_0001), NodeAddr(0x0a07_0002)];
const GROUPS: [NodeAddr; 2] = [NodeAddr(0xef01_0203), NodeAddr(0xef01_0204)];
const DIGEST: Digest = Digest {
    first: NodeAddr(0xe000_0000),
    last: NodeAddr(0xffff_ffff),
    count: 258,
    digest: 0x0102_0304_0506_0708,
};

/// Returns each kind once, with the number of its bytes that are fields; the rest is addresses.
fn vectors() -> Vec<(Message<'static>, usize, &'static [u8])> {
    let (nodes, groups) = (Addresses::new(&NODES), Addresses::new(&GROUPS));
    let enter = Enter {
        joiner: NODES[0],
        nonce: 7,
        hops: Hops {
            count: 2,
            another_way: true,
        },
    };
    let flags = BeatFlags {
        answer_me: true,
        an_answer: false,
        entering: true,
    };
    vec![
        (
            Message::Enter(enter),
            11,
            b"\x01\x01\x0a\x07\0\x01\0\0\0\x07\x82",
        ),
        (
            Message::State {
                nonce: 7,
                last: true,
                nodes,
            },
            7,
            b"\x01\x02\0\0\0\x07\x01\x0a\x07\0\x01\x0a\x07\0\x02",
        ),
        (
            Message::Beat { flags, nodes },
            3,
            b"\x01\x03\x05\x0a\x07\0\x01\x0a\x07\0\x02",
        ),
        (Message::AskRow { row: 31 }, 3, b"\x01\x04\x1f"),
        (
            Message::Join(groups),
            6,
            b"\x01\x05\xef\x01\x02\x03\xef\x01\x02\x04",
        ),
        (
            Message::Accept(groups),
            6,
            b"\x01\x06\xef\x01\x02\x03\xef\x01\x02\x04",
        ),
        (
            Message::Refuse {
                reason: Refusal::Full,
                instead: Some(NODES[1]),
                groups,
            },
            11,
            b"\x01\x07\x01\x0a\x07\0\x02\xef\x01\x02\x03\xef\x01\x02\x04",
        ),
        (
            Message::Leave(groups),
            6,
            b"\x01\x08\xef\x01\x02\x03\xef\x01\x02\x04",
        ),
        (
            Message::Keep(DIGEST),
            22,
            b"\x01\x09\xe0\0\0\0\xff\xff\xff\xff\0\0\x01\x02\x01\x02\x03\x04\x05\x06\x07\x08",
        ),
        (
            Message::Kept(DIGEST),
            22,
            b"\x01\x0a\xe0\0\0\0\xff\xff\xff\xff\0\0\x01\x02\x01\x02\x03\x04\x05\x06\x07\x08",
        ),
        (
            Message::Differs {
                first: GROUPS[0],
                last: GROUPS[1],
            },
            10,
            b"\x01\x0b\xef\x01\x02\x03\xef\x01\x02\x04",
        ),
        (
            Message::Groups {
                first: GROUPS[0],
                last: GROUPS[1],
                groups,
            },
            10,
            b"\x01\x0c\xef\x01\x02\x03\xef\x01\x02\x04\xef\x01\x02\x03\xef\x01\x02\x04",
        ),
        (
            Message::Locate {
                asker: NODES[0],
                hops: Hops {
                    count: 3,
                    another_way: false,
                },
                groups,
            },
            11,
            b"\x01\x0d\x0a\x07\0\x01\x03\xef\x01\x02\x03\xef\x01\x02\x04",
        ),
        (
            Message::Root(groups),
            6,
            b"\x01\x0e\xef\x01\x02\x03\xef\x01\x02\x04",
        ),
    ]
}

#[test]
fn messages_are_these_bytes_at_every_length() {
    let vectors = vectors();
    let kinds: Vec<u8> = vectors.iter().map(|(m, ..)| m.kind()).collect();
    assert_eq!(kinds, (1..=14).collect::<Vec<u8>>());
    for (message, least, bytes) in vectors {
        let mut buffer = [0xa5; MESSAGE_BYTES_MAX];
        assert_eq!(message.emit(&mut buffer), Ok(bytes.len()));
        assert_eq!(&buffer[..bytes.len()], bytes, "{message:?}");
        assert_eq!(Message::parse(bytes), Ok(message));
        for cut in 0..bytes.len() {
            assert_eq!(message.emit(&mut buffer[..cut]), Err(Full));
            let read = Message::parse(&bytes[..cut]);
            if cut < least {
                assert!(
                    matches!(read, Err(Malformed::Short | Malformed::Length)),
                    "{message:?} cut at {cut}: {read:?}"
                );
            } else if (cut - least) % 4 == 0 {
                assert!(read.is_ok(), "{message:?} cut at {cut}: {read:?}");
            } else {
                assert_eq!(read, Err(Malformed::Length), "{message:?} cut at {cut}");
            }
        }
        let longer = [bytes, &[0]].concat();
        assert_eq!(Message::parse(&longer), Err(Malformed::Length));
    }
}

#[test]
fn nonsense_is_refused() {
    let refused: [(&[u8], Malformed); 11] = [
        (&[2, 1], Malformed::Version),
        (&[1, 0], Malformed::Kind),
        (&[1, 15], Malformed::Kind),
        (&[1, 1, 10, 7, 0, 1, 0, 0, 0, 0, 0], Malformed::Value),
        (&[1, 2, 0, 0, 0, 1, 2], Malformed::Value),
        (&[1, 3, 8], Malformed::Value),
        (&[1, 4, 32], Malformed::Value),
        (&[1, 11, 0, 0, 0, 2, 0, 0, 0, 1], Malformed::Value),
        (
            &[1, 12, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2],
            Malformed::Value,
        ),
        (
            &[1, 12, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 2, 0, 0, 0, 2],
            Malformed::Value,
        ),
        (&[1; MESSAGE_BYTES_MAX + 1], Malformed::Length),
    ];
    for (bytes, why) in refused {
        assert_eq!(Message::parse(bytes), Err(why), "{bytes:?}");
    }
}

#[test]
fn as_many_addresses_as_promised_fit_any_kind() {
    let groups = [GROUPS[0]; ADDRESSES_MAX];
    let rising: Vec<NodeAddr> = (0..ADDRESSES_MAX as u32).map(NodeAddr).collect();
    let mut buffer = [0; 2 * MESSAGE_BYTES_MAX];
    let groups = Addresses::new(&groups);
    for message in [
        Message::Join(groups),
        Message::Refuse {
            reason: Refusal::Full,
            instead: None,
            groups,
        },
        Message::Groups {
            first: NodeAddr(0),
            last: NodeAddr(u32::MAX),
            groups: Addresses::new(&rising),
        },
        Message::Locate {
            asker: NODES[0],
            hops: Hops::default(),
            groups,
        },
    ] {
        let len = message.emit(&mut buffer).expect("it fits");
        assert!(len <= MESSAGE_BYTES_MAX);
        assert_eq!(Message::parse(&buffer[..len]), Ok(message));
    }
    let many = [GROUPS[0]; 300];
    assert_eq!(
        Message::Join(Addresses::new(&many)).emit(&mut buffer),
        Err(Full)
    );
}

#[test]
fn hops_are_counted_up_to_their_limit() {
    let mut hops = Hops {
        count: 0,
        another_way: true,
    };
    for n in 0..300 {
        assert_eq!(hops.count, n.min(127) as u8);
        assert_eq!(Hops::from_byte(hops.to_byte()), hops);
        hops = hops.next();
    }
}

#[test]
fn reasons_keep_their_number() {
    for byte in 0..=255 {
        assert_eq!(Refusal::from_byte(byte).to_byte(), byte);
        assert!(!Refusal::from_byte(byte).to_string().is_empty());
    }
}

proptest! {
    #[test]
    fn whatever_is_understood_is_written_alike(kind in 0u8..16, body in prop::collection::vec(any::<u8>(), 0..40)) {
        let bytes = [&[VERSION, kind][..], &body].concat();
        if let Ok(message) = Message::parse(&bytes) {
            let mut buffer = [0; MESSAGE_BYTES_MAX];
            let len = message.emit(&mut buffer).expect("it came from less");
            prop_assert_eq!(&buffer[..len], &bytes[..]);
        }
    }
}
