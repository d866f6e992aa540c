//! Bulk data: the beginning of connections, control messages, frames, and the stream of a copy.

use super::{A, B, C, open, written};
use wire::bytes::{Reader, Writer};
use wire::handshake::VersionRange;
use wire::relay::entry::{Entry, EntryKind, Item, NO_TIME, Owner, SPARSE, Total};
use wire::relay::join::{Endpoints, Issuers, Join, Joined, Neighbors};
use wire::relay::{
    Carried, Done, Ended, FailureKind, Frame, FrameKind, Have, Hop, HopRepr, Keys, Message, Open,
    Ordered, Preamble, Said, Segment, Wrapped, WrappedKeys, end_part, head,
};

/// The range of versions when the format was frozen.
const FIRST: VersionRange = VersionRange { min: 1, max: 1 };

#[test]
fn beginnings_and_frames() {
    let mut fixtures = open!("relay-6");
    let data = Preamble::Data {
        transfer: [7; 16],
        stripe: 3,
        proof: [9; 32],
    };
    let preambles = [
        ("preamble-control", Preamble::Control),
        ("preamble-data", data),
        ("preamble-link", Preamble::Link),
    ];
    for (name, preamble) in preambles {
        let bytes = written(|bytes| preamble.emit(6, bytes));
        fixtures.hold(name, &bytes, |frozen| {
            assert_eq!(Preamble::parse(frozen), Ok((6, preamble)));
        });
    }
    let kinds = [
        ("data", FrameKind::Data, 0x1_0203),
        ("end", FrameKind::End, 0),
    ];
    for (name, kind, len) in kinds {
        let frame = Frame {
            kind,
            len,
            offset: 0x0405_0607_0809_0a0b,
        };
        fixtures.hold(&format!("frame-{name}"), &frame.to_bytes(), |frozen| {
            assert_eq!(Frame::parse(frozen.try_into().unwrap()), Ok(frame));
        });
    }
    fixtures.end();
}

fn route() -> Vec<u8> {
    let leaf = |node, path: &'static [u8], discard| HopRepr {
        node,
        stripes: 2,
        adapts: false,
        endpoint: "",
        path: Some(path),
        discard,
        below: &[],
    };
    let put = |hop: &HopRepr<'_>| {
        written(|bytes| {
            let mut w = Writer::new(bytes);
            hop.emit(&mut w)?;
            Ok(w.len())
        })
    };
    let ends = [put(&leaf(B, b"/d", false)), put(&leaf(C, b"", true))];
    put(&HopRepr {
        node: A,
        stripes: 1,
        adapts: true,
        endpoint: "h:1",
        path: None,
        discard: false,
        below: &ends.concat(),
    })
}

fn check(fixtures: &mut super::Fixtures, name: &str, message: Message<'_>) {
    let bytes = written(|bytes| message.emit(bytes));
    fixtures.hold(name, &bytes, |frozen| {
        let (first, body) = frozen.split_first_chunk().unwrap();
        let (kind, len) = head(*first).unwrap();
        assert_eq!(len, body.len());
        assert_eq!(Message::parse(kind, body), Ok(message));
    });
}

#[test]
fn control_of_a_transfer() {
    let mut fixtures = open!("relay-6-control");
    let route = route();
    let hop = Hop::parse(&route).unwrap();
    assert_eq!((hop.endpoint, hop.below().count()), ("h:1", 2));
    let open = Open {
        transfer: [1; 16],
        pull: true,
        plain: false,
        scavenge: true,
        fresh: false,
        keep: true,
        delete: false,
        spare: true,
        dry: false,
        attributes: true,
        checksum: false,
        congestion: "bbr",
        certificate: &[8, 9],
        ordered: &[6, 7, 5],
        route: hop,
    };
    let other_flags = Open {
        pull: false,
        plain: true,
        scavenge: false,
        fresh: true,
        keep: false,
        delete: true,
        spare: false,
        dry: true,
        attributes: false,
        checksum: false,
        ..open
    };
    let carried = Carried {
        one_bps: 1 << 40,
        together_bps: 2,
        is_full: true,
        spread_pct: 3,
        rtt_us: 4,
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
    let have = Have {
        kept: 1,
        partial_key: 2,
        partial: 3,
        partial_digest: [4; 32],
    };
    let done = Done {
        bytes: 5,
        entries: 6,
        digest: [7; 32],
    };
    let keys = [1u64, 2].map(u64::to_be_bytes).concat();
    let wrapped = WrappedKeys::to_bytes(&[B, C].map(|node| Wrapped { node, key: [4; 48] }));
    let messages = [
        ("open", Message::Open(open)),
        ("open-other-flags", Message::Open(other_flags)),
        (
            // This flag exists from version 7 on.
            "open-checksum",
            Message::Open(Open {
                checksum: true,
                ..open
            }),
        ),
        (
            "attach",
            Message::Attach {
                ticket: [2; 32],
                certificate: &[8],
            },
        ),
        ("have", Message::Have(A, have)),
        ("ack", Message::Ack(A, 258)),
        ("segment", Message::Segment(A, B, segment)),
        ("done", Message::Done(A, done)),
        ("renew", Message::Renew(&[1, 2, 3])),
        ("kept", Message::Kept(A, Keys::parse(&keys).unwrap())),
        ("probe", Message::Probe(258, open)),
        ("carried", Message::Carried(A, B, carried, &[8])),
        (
            "ended",
            Message::Ended(Ended {
                node: A,
                key: [2; 32],
                signature: [3; 64],
                certificate: &[8],
            }),
        ),
        (
            "wrapped",
            Message::Wrapped(WrappedKeys::parse(&wrapped).unwrap()),
        ),
        (
            "said",
            Message::Said(Said {
                node: A,
                is_done: true,
                sealed: &[5; 17],
            }),
        ),
    ];
    for (name, message) in messages {
        check(&mut fixtures, name, message);
    }
    for kind in FailureKind::ALL {
        let failed = Message::Failed {
            node: A,
            kind,
            about: (kind == FailureKind::Broken).then_some(B),
            text: "né",
        };
        check(&mut fixtures, &format!("failed-{}", kind.label()), failed);
    }
    check(&mut fixtures, "speaks", Message::Speaks(B, FIRST));
    check(&mut fixtures, "gone", Message::Gone(B, b"a/e"));
    let part = end_part(&[1; 16], (A, &[2; 32]), &[3; 32]);
    // Signed bytes are never parsed: the verifier writes them, too.
    fixtures.hold("signed-by-an-end", &part, |frozen| {
        let fields = [&[1; 16][..], &A.0.to_be_bytes(), &[2; 32], &[3; 32]];
        assert_eq!(frozen, fields.concat());
    });
    let ordered = Ordered {
        unix_s: 1_790_000_000,
        key: [1; 32],
        ends: &[[2; 32], [3; 32]],
        signature: [4; 64],
        certificate: &[5, 6],
    };
    let bytes = written(|bytes| ordered.emit(bytes));
    fixtures.hold("order", &bytes, |frozen| {
        assert_eq!(Ordered::parse(frozen), Ok(ordered));
    });
    let part = written(|bytes| ordered.signed_part((&[1; 16], open.flags()), bytes));
    fixtures.hold("signed-by-who-began", &part, |frozen| {
        let flags = open.flags().to_be_bytes();
        let time = 1_790_000_000u64.to_be_bytes();
        let fields = [&[1; 16][..], &flags, &time, &[1; 32], &[2; 32], &[3; 32]];
        assert_eq!(frozen, fields.concat());
    });
    fixtures.end();
}

#[test]
fn joining() {
    let mut fixtures = open!("relay-6-join");
    let part = |write: &dyn Fn(&mut Writer<'_>) -> Result<(), wire::Full>| {
        written(|bytes| {
            let mut w = Writer::new(bytes);
            write(&mut w)?;
            Ok(w.len())
        })
    };
    let endpoints = part(&|w| Endpoints::emit(&["h:1"], w));
    let join = Join {
        secret: [7; 16],
        static_key: [8; 32],
        name: "home",
        endpoints: Endpoints::parse(&mut Reader::new(&endpoints)).unwrap(),
    };
    check(&mut fixtures, "join", Message::Join(join));
    let nodes = [(A, "ams", &["a:1", "b:2"][..]), (B, "fra", &[])];
    let neighbors = part(&|w| Neighbors::emit(&nodes, w));
    let chain = [6; wire::certificate::SUCCESSION_BYTES];
    for (name, chain) in [("joined", &chain[..0]), ("joined-later-root", &chain)] {
        let joined = Joined {
            certificate: &[5, 5],
            revocations: &[4],
            neighbors: Neighbors::parse(&mut Reader::new(&neighbors)).unwrap(),
            chain,
        };
        check(&mut fixtures, name, Message::Joined(joined));
    }
    let issuers = [([9; 32], &["b:2"][..]), ([10; 32], &[])];
    let issuers = part(&|w| Issuers::emit(&issuers, w));
    let issuers = Issuers::parse(Reader::new(&issuers)).unwrap();
    check(&mut fixtures, "issuers", Message::Issuers(issuers));
    fixtures.end();
}

#[test]
fn the_stream_of_a_copy() {
    let mut fixtures = open!("relay-6-stream");
    let file = Entry {
        kind: EntryKind::File,
        mode: 0o644 | SPARSE,
        mtime_s: -1,
        mtime_ns: 999_999_999,
        size: 1 << 33,
        path: b"a/b",
        target: b"",
    };
    let directory = Entry {
        kind: EntryKind::Directory,
        mode: 0o755,
        mtime_ns: NO_TIME,
        size: 0,
        path: b"",
        ..file
    };
    let link = Entry {
        kind: EntryKind::Link,
        path: b"a/c",
        target: b"../x",
        ..directory
    };
    let hard = Entry {
        kind: EntryKind::HardLink,
        path: b"a/d",
        target: b"a/b",
        ..directory
    };
    let owner = Owner {
        uid: 1000,
        gid: 100,
        user: "ann",
        group: "",
    };
    let total = Total {
        files: 1,
        bytes: 2,
        room: 3,
    };
    let attribute = |goes_on| Item::Attribute {
        name: b"user.x",
        goes_on,
        value: b"v",
    };
    let items = [
        ("begin", Item::Begin),
        ("directory", Item::Entry(directory)),
        ("file", Item::Entry(file)),
        ("link", Item::Entry(link)),
        ("hard-link", Item::Entry(hard)),
        ("kept", Item::Kept),
        ("total", Item::Total(total)),
        ("from", Item::From(258)),
        ("owner", Item::Owner(owner)),
        ("attribute", attribute(false)),
        ("attribute-goes-on", attribute(true)),
        ("compare", Item::Compare),
        ("speaks", Item::Speaks(FIRST)),
        (
            "spared",
            Item::Spared {
                path: b"a/e",
                why: "no permission",
            },
        ),
        (
            "end",
            Item::End {
                entries: 4,
                digest: [9; 32],
            },
        ),
    ];
    for (name, item) in items {
        let bytes = written(|bytes| item.emit(bytes));
        fixtures.hold(name, &bytes, |frozen| {
            assert_eq!(Item::read(frozen), Ok((item, frozen.len())));
        });
    }
    fixtures.end();
}
