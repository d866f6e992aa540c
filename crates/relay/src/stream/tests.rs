//! Streams survive being cut into any pieces, and a changed bit is never accepted.

use super::*;
use proptest::prelude::*;

const DIRECTORY: Entry<'_> = Entry {
    kind: EntryKind::Directory,
    mode: 0o755,
    mtime_s: 7,
    mtime_ns: 8,
    size: 0,
    path: b"",
    target: b"",
};

fn file(path: &str, size: usize) -> Entry<'_> {
    Entry {
        kind: EntryKind::File,
        mode: 0o600,
        size: size as u64,
        path: path.as_bytes(),
        ..DIRECTORY
    }
}

/// Writes a stream of files of these lengths in one directory.
fn stream(lens: &[usize], piece: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = Encoder::begin(&mut out);
    let total = Total {
        files: lens.len() as u64,
        ..Total::default()
    };
    encoder.total(total, &mut out);
    encoder.entry(&DIRECTORY, &mut out).unwrap();
    for (i, len) in lens.iter().enumerate() {
        let name = format!("f{i:03}");
        encoder.entry(&file(&name, *len), &mut out).unwrap();
        for bytes in vec![i as u8; *len].chunks(piece) {
            out.extend(piece_head(bytes.len() as u32));
            encoder.content(bytes);
            out.extend(bytes);
        }
        encoder.file_end(&mut out);
    }
    encoder.end(&mut out);
    out
}

/// Returns what a sink would have: the lengths of the files, and whether the end was seen.
fn read(stream: &[u8], step: usize) -> Result<(Vec<usize>, bool), StreamError> {
    let mut decoder = Decoder::default();
    let mut files = Vec::new();
    for mut bytes in stream.chunks(step.max(1)) {
        while let Some(event) = decoder.next(&mut bytes)? {
            match event {
                Event::Entry(entry, _) if entry.kind == EntryKind::File => files.push(0),
                Event::Content(bytes) => *files.last_mut().unwrap() += bytes.len(),
                _ => {}
            }
        }
    }
    Ok((files, decoder.has_ended()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_stream_comes_back_in_pieces_of_any_size(
        lens in prop::collection::vec(0usize..200, 0..12),
        piece in 1usize..64,
        step in 1usize..300,
    ) {
        let bytes = stream(&lens, piece);
        prop_assert_eq!(read(&bytes, step), Ok((lens, true)));
    }

    #[test]
    fn a_changed_bit_is_never_a_whole_copy(
        lens in prop::collection::vec(0usize..60, 1..5),
        at in any::<prop::sample::Index>(),
        bit in 0u8..8,
    ) {
        let mut bytes = stream(&lens, 32);
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        let seen = read(&bytes, 50);
        prop_assert!(!matches!(seen, Ok((_, true))), "{:?}", seen);
    }
}

#[test]
fn a_truncated_stream_has_no_end() {
    let bytes = stream(&[5, 40], 16);
    for cut in 0..bytes.len() {
        assert!(matches!(read(&bytes[..cut], 7), Ok((_, false))), "{cut}");
    }
    let longer = [&bytes[..], &[0]].concat();
    assert_eq!(read(&longer, 9), Err(StreamError::Excess));
}

#[test]
fn what_is_there_is_named_and_not_sent() {
    let content = [9u8; 100];
    let mut before = blake3::Hasher::new();
    before.update(&content[..60]);
    let mut out = Vec::new();
    let mut encoder = Encoder::begin(&mut out);
    encoder.entry(&DIRECTORY, &mut out).unwrap();
    encoder.kept(&file("a", 7), &mut out).unwrap();
    encoder.spared(b"b", "no permission", &mut out);
    encoder.from(60, before.clone(), &mut out);
    encoder.entry(&file("x", 100), &mut out).unwrap();
    out.extend(piece_head(40));
    encoder.content(&content[60..]);
    out.extend(&content[60..]);
    encoder.file_end(&mut out);
    encoder.entry(&file("y", 100), &mut out).unwrap();
    encoder.give_up(&mut out);
    encoder.entry(&file("z", 100), &mut out).unwrap();
    encoder.hole(100, &mut out);
    let zeros = encoder.file_end(&mut out);
    assert_eq!(zeros, *blake3::hash(&[0; 100]).as_bytes());
    encoder.end(&mut out);
    for knows in [true, false] {
        let mut decoder = Decoder::default();
        let mut input = &out[..];
        let mut seen = Vec::new();
        let failed = loop {
            let go_on = match decoder.next(&mut input) {
                Err(error) => break Some(error),
                Ok(None) => break None,
                Ok(Some(event)) => {
                    seen.push(format!("{event:?}"));
                    matches!(event, Event::Entry(_, 60))
                }
            };
            if go_on && knows {
                decoder.resume(before.clone());
            }
        };
        if !knows {
            assert_eq!(failed, Some(StreamError::Content));
            continue;
        }
        assert!(failed.is_none() && decoder.has_ended(), "{seen:?}");
        let starts = [
            "Begin", "Entry", "Kept", "Spared", "Entry", "Content", "FileEnd",
        ];
        let more = ["Entry", "GivenUp", "Entry", "Hole(100)", "FileEnd", "End"];
        for (seen, start) in seen.iter().zip(starts.iter().chain(&more)) {
            assert!(seen.starts_with(start), "{seen} {start}");
        }
        assert_eq!(seen.len(), starts.len() + more.len());
    }
}

#[test]
fn what_is_the_same_in_another_file_is_named_and_not_sent() {
    let content: Vec<u8> = (0..200).collect();
    let mut out = Vec::new();
    let mut encoder = Encoder::begin(&mut out);
    encoder.entry(&DIRECTORY, &mut out).unwrap();
    encoder.compare(&mut out);
    encoder.entry(&file("x", 200), &mut out).unwrap();
    encoder.content(&content[..90]);
    encoder.same(90, &mut out);
    out.extend(piece_head(10));
    encoder.content(&content[90..100]);
    out.extend(&content[90..100]);
    encoder.content(&content[100..]);
    encoder.same(100, &mut out);
    let digest = encoder.file_end(&mut out);
    assert_eq!(digest, *blake3::hash(&content).as_bytes());
    encoder.entry(&file("y", 0), &mut out).unwrap();
    let behind = out.len();
    encoder.file_end(&mut out);
    encoder.end(&mut out);
    let read = |bytes: &[u8], step: usize, there: &[u8]| {
        let mut decoder = Decoder::default();
        let (mut seen, mut at) = (Vec::new(), 0);
        for mut piece in bytes.chunks(step) {
            while let Some(event) = decoder.next(&mut piece)? {
                match event {
                    Event::Same(len) => {
                        seen.push("same");
                        decoder.same(&there[at..at + len as usize]);
                        at += len as usize;
                    }
                    Event::Content(bytes) => at += bytes.len(),
                    Event::Compare => seen.push("compare"),
                    Event::FileEnd(_) => seen.push("end"),
                    _ => {}
                }
            }
        }
        Ok((seen, decoder.has_ended()))
    };
    let expected = (vec!["compare", "same", "same", "end", "end"], true);
    for step in [1, 7, 1_000] {
        assert_eq!(read(&out, step, &content), Ok(expected.clone()), "{step}");
    }
    let mut other = content.clone();
    other[150] ^= 1;
    assert_eq!(read(&out, 9, &other), Err(StreamError::Content));
    // Only a file that is compared can have such ranges, and never a too long one.
    let same = |len: u64| [&piece_head(SAME)[..], &len.to_be_bytes()].concat();
    let long = Err(StreamError::Malformed(Malformed::Length));
    let stray = [&out[..behind], &same(1)].concat();
    assert_eq!(read(&stray, 9, &content), long);
    let at = out.windows(4).position(|four| four == piece_head(SAME));
    for len in [0, SAME_BYTES_MAX + 1] {
        let much = [&out[..at.unwrap()], &same(len)].concat();
        assert_eq!(read(&much, 9, &content), long, "{len}");
    }
}

/// Programs of other versions write and read these bytes.
#[test]
fn pieces_holes_and_what_is_the_same_are_these_bytes() {
    let mut out = Vec::new();
    let mut encoder = Encoder::begin(&mut out);
    encoder.entry(&DIRECTORY, &mut out).unwrap();
    encoder.compare(&mut out);
    encoder.entry(&file("x", 8), &mut out).unwrap();
    let pieces = out.len();
    encoder.hole(5, &mut out);
    encoder.content(&[7, 8]);
    encoder.same(2, &mut out);
    encoder.content(b"h");
    out.extend(piece_head(1));
    out.push(b'h');
    let digest = encoder.file_end(&mut out);
    assert_eq!(digest, *blake3::hash(b"\0\0\0\0\0\x07\x08h").as_bytes());
    let expected = [
        &[0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5][..],
        &[0x40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2],
        &[0, 0, 0, 1, b'h'],
        &[0, 0, 0, 0],
        &digest,
    ];
    assert_eq!(out[pieces..], expected.concat());
    encoder.entry(&file("y", 1), &mut out).unwrap();
    let pieces = out.len();
    encoder.give_up(&mut out);
    assert_eq!(out[pieces..], [0xff; 4]);
    encoder.end(&mut out);

    let mut decoder = Decoder::default();
    let (mut seen, mut bytes) = (Vec::new(), &out[..]);
    while let Some(event) = decoder.next(&mut bytes).unwrap() {
        match event {
            Event::Hole(len) => seen.push(("hole", len)),
            Event::Same(len) => {
                seen.push(("same", len));
                decoder.same(&[7, 8]);
            }
            Event::Content(bytes) => seen.push(("content", bytes.len() as u64)),
            Event::FileEnd(_) => seen.push(("end", 0)),
            Event::GivenUp => seen.push(("given up", 0)),
            _ => {}
        }
    }
    let all = [
        ("hole", 5),
        ("same", 2),
        ("content", 1),
        ("end", 0),
        ("given up", 0),
    ];
    assert_eq!(seen, all);
    assert!(decoder.has_ended());
}

#[test]
fn what_is_said_of_an_entry_fits_it() {
    let said = |items: &[Item<'_>]| {
        let mut out = Vec::new();
        for item in items {
            put(item, &mut out);
        }
        read(&out, 1_000).map(drop)
    };
    let directory = Item::Entry(DIRECTORY);
    let malformed = Err(StreamError::Malformed(Malformed::Value));
    assert_eq!(said(&[Item::Begin, Item::Kept, directory]), malformed);
    assert_eq!(said(&[Item::Begin, Item::From(1), directory]), malformed);
    let kind = Err(StreamError::Malformed(Malformed::Kind));
    assert_eq!(said(&[Item::Begin, Item::Compare, directory]), malformed);
    assert_eq!(said(&[Item::Begin, Item::Kept, Item::Kept]), kind);
    for twice in [Item::Kept, Item::From(1), Item::Compare] {
        assert_eq!(said(&[Item::Begin, Item::Compare, twice]), kind);
        assert_eq!(said(&[Item::Begin, Item::Kept, twice]), kind);
    }
    assert_eq!(said(&[Item::Begin, Item::Begin]), kind);
    assert_eq!(said(&[directory]), kind);
}

#[test]
fn optional_items_of_later_versions_are_skipped_wherever_an_entry_can_stand() {
    let later = |kind, value| {
        let mut bytes = Vec::new();
        put(&Item::Unknown { kind, value }, &mut bytes);
        bytes
    };
    let mut known = Vec::new();
    let mut encoder = Encoder::begin(&mut known);
    let mut parts = vec![known.len()];
    encoder.total(Total::default(), &mut known);
    parts.push(known.len());
    encoder.entry(&DIRECTORY, &mut known).unwrap();
    parts.push(known.len());
    encoder.kept(&file("a", 7), &mut known).unwrap();
    parts.push(known.len());
    encoder.entry(&file("b", 0), &mut known).unwrap();
    encoder.file_end(&mut known);
    parts.push(known.len());
    encoder.end(&mut known);
    let mut out = Vec::new();
    let mut from = 0;
    for to in parts {
        out.extend(&known[from..to]);
        out.extend([later(64, b""), later(127, &[0xff; 300])].concat());
        from = to;
    }
    out.extend(&known[from..]);
    for step in [1, 7, 1_000] {
        assert_eq!(read(&out, step), read(&known, step), "{step}");
        assert_eq!(read(&out, step), Ok((vec![0], true)), "{step}");
    }
    // The item must not come before the beginning.
    let early = [later(64, b""), known].concat();
    let kind = Err(StreamError::Malformed(Malformed::Kind));
    assert_eq!(read(&early, 9), kind);
}

#[test]
fn entries_are_in_order_and_in_their_directories() {
    let directory = |path: &'static str| Entry {
        path: path.as_bytes(),
        ..DIRECTORY
    };
    let link = |path: &'static str| Entry {
        kind: EntryKind::Link,
        target: b"/etc",
        ..directory(path)
    };
    let enter = |entries: &[Entry<'_>]| {
        let mut walk = Walk::default();
        entries.iter().try_for_each(|entry| walk.enter(entry))
    };
    let root = directory("");
    assert_eq!(
        enter(&[root, directory("a"), file("a/b", 0), file("c", 0)]),
        Ok(())
    );
    assert_eq!(enter(&[file("a", 0)]), Err(StreamError::Orphan));
    assert_eq!(enter(&[root, root]), Err(StreamError::Order));
    assert_eq!(
        enter(&[root, file("b", 0), file("a", 0)]),
        Err(StreamError::Order)
    );
    assert_eq!(
        enter(&[root, file("a", 0), file("a", 0)]),
        Err(StreamError::Order)
    );
    assert_eq!(enter(&[root, file("a/b", 0)]), Err(StreamError::Orphan));
    // A link cannot be a parent directory.
    assert_eq!(
        enter(&[root, link("a"), file("a/passwd", 0)]),
        Err(StreamError::Orphan)
    );
    assert_eq!(
        enter(&[file("", 0), file("a", 0)]),
        Err(StreamError::Orphan)
    );
    let closed = [root, directory("a"), file("b", 0), file("a/z", 0)];
    assert_eq!(enter(&closed), Err(StreamError::Order));
}

const OWNER: Owner<'_> = Owner {
    uid: 7,
    gid: 8,
    user: "ada",
    group: "",
};

#[test]
fn attributes_come_before_their_entry_whole_and_in_any_pieces() {
    let long = vec![5; 2 * VALUE_BYTES_MAX + 1];
    let mut out = Vec::new();
    let mut encoder = Encoder::begin(&mut out);
    encoder.owner(OWNER, &mut out);
    encoder.attribute(b"user.empty", b"", &mut out);
    encoder.attribute(b"user.long", &long, &mut out);
    encoder.entry(&DIRECTORY, &mut out).unwrap();
    encoder.owner(OWNER, &mut out);
    encoder.kept(&file("a", 7), &mut out).unwrap();
    encoder.end(&mut out);
    for step in [1, 100, out.len()] {
        let mut decoder = Decoder::default();
        let (mut owners, mut values) = (0, Vec::new());
        for mut bytes in out.chunks(step) {
            while let Some(event) = decoder.next(&mut bytes).unwrap() {
                match event {
                    Event::Owner(owner) => {
                        assert_eq!(owner, OWNER);
                        owners += 1;
                    }
                    Event::Attribute(name, value, goes_on) => {
                        values.push((name.to_vec(), value.len(), goes_on));
                    }
                    _ => {}
                }
            }
        }
        assert!(decoder.has_ended());
        assert_eq!(owners, 2);
        let name = b"user.long".to_vec();
        let expected = [
            (b"user.empty".to_vec(), 0, false),
            (name.clone(), VALUE_BYTES_MAX, true),
            (name.clone(), VALUE_BYTES_MAX, true),
            (name, 1, false),
        ];
        assert_eq!(values, expected);
    }
    // The owner is part of the digest.
    let at = out.windows(3).position(|three| three == b"ada").unwrap();
    out[at] = b'o';
    assert_eq!(read(&out, 50), Err(StreamError::Entries));
}

#[test]
fn attributes_out_of_place_are_refused() {
    let item = |item: Item<'_>| {
        let mut bytes = Vec::new();
        put(&item, &mut bytes);
        bytes
    };
    let attribute = |name, goes_on| {
        item(Item::Attribute {
            name,
            goes_on,
            value: &[0; VALUE_BYTES_MAX],
        })
    };
    let owner = item(Item::Owner(OWNER));
    let entry = item(Item::Entry(DIRECTORY));
    let refused = |parts: &[&[u8]], why| {
        let bytes = [&item(Item::Begin)[..], &parts.concat()].concat();
        assert_eq!(read(&bytes, 99), Err(StreamError::Malformed(why)));
    };
    refused(&[&attribute(b"user.a", false)], Malformed::Kind);
    refused(&[&owner, &owner], Malformed::Kind);
    let (open, other) = (attribute(b"user.a", true), attribute(b"user.b", false));
    refused(&[&owner, &open, &entry], Malformed::Kind);
    refused(&[&owner, &open, &other], Malformed::Kind);
    let spared = item(Item::Spared {
        path: b"x",
        why: "",
    });
    refused(&[&owner, &spared], Malformed::Kind);
    refused(&[&item(Item::Kept), &owner], Malformed::Kind);
    let many = open.repeat(ATTRIBUTES_BYTES_MAX / VALUE_BYTES_MAX);
    refused(&[&owner, &many], Malformed::Length);
}

#[test]
fn a_source_names_its_versions_in_front_of_its_first_entry_alone() {
    let versions = VersionRange { min: 1, max: 2 };
    let mut bytes = Vec::new();
    let mut encoder = Encoder::begin(&mut bytes);
    encoder.speaks(versions, &mut bytes);
    encoder.total(Total::default(), &mut bytes);
    let before = bytes.len();
    encoder.entry(&DIRECTORY, &mut bytes).unwrap();
    encoder.end(&mut bytes);
    let mut decoder = Decoder::default();
    let mut input = &bytes[..];
    assert_eq!(decoder.next(&mut input), Ok(Some(Event::Begin)));
    assert_eq!(decoder.next(&mut input), Ok(Some(Event::Speaks(versions))));
    // The item is in no digest: a sink that skips it computes the same one.
    let without = [&bytes[..1], &bytes[1 + 5..]].concat();
    assert_eq!(read(&bytes, 7), read(&without, 7));
    let mut late = Vec::new();
    put(&Item::Speaks(versions), &mut late);
    let late = [
        &bytes[..bytes.len() - 41],
        &late,
        &bytes[bytes.len() - 41..],
    ]
    .concat();
    assert!(late.len() > before);
    assert_eq!(read(&late, 7), Err(Malformed::Kind.into()));
    let twice = [&bytes[..6], &bytes[1..]].concat();
    assert_eq!(read(&twice, 7), Err(Malformed::Kind.into()));
}
