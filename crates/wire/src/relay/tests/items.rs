//! Items of a stream of entries, and their paths.

use super::super::entry::{Entry, EntryKind, Item, NO_TIME, Owner, Total, is_after, is_path};
use super::super::*;

#[test]
fn items_come_back_and_are_short_until_they_are_whole() {
    let file = Entry {
        kind: EntryKind::File,
        mode: 0o644,
        mtime_s: -1,
        mtime_ns: 5,
        size: 258,
        path: b"a/b",
        target: b"",
    };
    let link = Entry {
        kind: EntryKind::Link,
        size: 0,
        mtime_ns: NO_TIME,
        target: b"../x",
        ..file
    };
    let hard = Entry {
        kind: EntryKind::HardLink,
        size: 0,
        target: b"a",
        ..file
    };
    let vectors = [
        (Item::Begin, vec![0]),
        (Item::Kept, vec![5]),
        (Item::Compare, vec![12]),
        (
            Item::Owner(Owner {
                uid: 1,
                gid: 2,
                user: "ada",
                group: "",
            }),
            [&[9, 0, 0, 0, 1, 0, 0, 0, 2, 3][..], b"ada", &[0]].concat(),
        ),
        (
            Item::Attribute {
                name: b"user.x",
                goes_on: true,
                value: &[7],
            },
            [&[10, 1, 0, 6][..], b"user.x", &[0, 1, 7]].concat(),
        ),
        (
            Item::Total(Total {
                files: 3,
                bytes: 1 << 40,
                room: 5,
            }),
            [
                &[11][..],
                &3u64.to_be_bytes(),
                &(1u64 << 40).to_be_bytes(),
                &5u64.to_be_bytes(),
            ]
            .concat(),
        ),
        (Item::From(2), [&[6][..], &2u64.to_be_bytes()].concat()),
        (
            Item::Spared {
                path: b"a",
                why: "no",
            },
            vec![7, 0, 1, b'a', 2, b'n', b'o'],
        ),
        (
            Item::Entry(hard),
            [
                &[8, 0, 0, 1, 0xa4][..],
                &[0xff; 8],
                &[0, 0, 0, 5],
                &[0; 8],
                &[0, 3],
                b"a/b",
                &[0, 1],
                b"a",
            ]
            .concat(),
        ),
        (
            Item::Entry(file),
            [
                &[2, 0, 0, 1, 0xa4][..],
                &[0xff; 8],
                &[0, 0, 0, 5],
                &[0, 0, 0, 0, 0, 0, 1, 2],
                &[0, 3],
                b"a/b",
                &[0, 0],
            ]
            .concat(),
        ),
        (
            Item::Entry(link),
            [
                &[3, 0, 0, 1, 0xa4][..],
                &[0xff; 8],
                &[0xff; 4],
                &[0; 8],
                &[0, 3],
                b"a/b",
                &[0, 4],
                b"../x",
            ]
            .concat(),
        ),
        (
            Item::End {
                entries: 3,
                digest: [9; 32],
            },
            [&[4][..], &3u64.to_be_bytes(), &[9; 32]].concat(),
        ),
    ];
    for (item, bytes) in vectors {
        let mut written = vec![0xa5; bytes.len()];
        assert_eq!(item.emit(&mut written), Ok(bytes.len()));
        assert_eq!(written, bytes);
        let longer = [&bytes[..], &[1]].concat();
        assert_eq!(Item::read(&longer), Ok((item, bytes.len())));
        for cut in 0..bytes.len() {
            assert_eq!(Item::read(&bytes[..cut]), Err(Malformed::Short));
        }
    }
    let mut bytes = vec![0; 128];
    for wrong in [
        Entry {
            mode: 0o20000,
            ..file
        },
        Entry {
            mtime_ns: 1_000_000_000,
            ..file
        },
        Entry {
            kind: EntryKind::Directory,
            ..file
        },
        Entry {
            target: b"x",
            ..file
        },
        Entry {
            target: b"",
            ..link
        },
        Entry {
            path: b"../b",
            ..file
        },
        Entry {
            target: b"../x",
            ..hard
        },
        Entry {
            mode: entry::SPARSE,
            ..hard
        },
        Entry {
            target: b"z",
            ..hard
        },
    ] {
        let len = Item::Entry(wrong).emit(&mut bytes).unwrap();
        assert_eq!(
            Item::read(&bytes[..len]),
            Err(Malformed::Value),
            "{wrong:?}"
        );
    }
}

#[test]
fn paths_stay_below_and_follow_each_other() {
    for good in ["", "a", "a/b", "...", "a/..b", ".x"] {
        assert!(is_path(good.as_bytes()), "{good}");
    }
    for bad in ["/", "/a", "a/", "a//b", ".", "..", "a/../b", "a/.", "a\0"] {
        assert!(!is_path(bad.as_bytes()), "{bad:?}");
    }
    assert!(!is_path(&[b'a'; 256]) && is_path(&[b'a'; 255]));
    // A walk goes into `a` before `a.b`, although '.' is less than '/'.
    let walk = ["", "a", "a/b", "a/b/c", "a/d", "a.b", "b"];
    for (i, before) in walk.iter().enumerate() {
        for (j, later) in walk.iter().enumerate() {
            let expected = i < j;
            assert_eq!(
                is_after(before.as_bytes(), later.as_bytes()),
                expected,
                "{before} {later}"
            );
        }
    }
}
