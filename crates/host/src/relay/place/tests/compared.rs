//! Of a file that is there otherwise only what differs comes, and what is the same stays.

use super::*;

/// Sends one file, of which what is there in the same place is not sent.
fn compared(there: &There, size: u64, content: &[u8], old: &[u8]) -> Vec<u8> {
    let path_key = resume::path_key(&MANNER.transfer, b"");
    assert!(there.keys.contains(&path_key), "it can be compared");
    let mut out = Vec::new();
    let mut encoder = Encoder::begin(&mut out);
    encoder.compare(&mut out);
    let entry = entry(EntryKind::File, "", size);
    encoder.entry(&entry, &mut out).unwrap();
    for (i, piece) in content.chunks(resume::PIECE_BYTES as usize).enumerate() {
        encoder.content(piece);
        let at = i * resume::PIECE_BYTES as usize;
        if old.get(at..at + piece.len()) == Some(piece) {
            encoder.same(piece.len() as u64, &mut out);
        } else {
            out.extend(relay::stream::piece_head(piece.len() as u32));
            out.extend(piece);
        }
    }
    encoder.file_end(&mut out);
    encoder.end(&mut out);
    out
}

#[test]
fn what_is_the_same_comes_from_what_is_there() {
    const MIB: usize = 1 << 20;
    let old: Vec<u8> = (0..5 * MIB + 3).map(|i| (i / 777) as u8).collect();
    let mut middle = old.clone();
    middle[2 * MIB + 5] ^= 1;
    let longer = [&old[..], &[9; 100]].concat();
    let shorter = old[..4 * MIB + 7].to_vec();
    let first = [&[1], &old[1..]].concat();
    for (name, new, stays) in [
        ("same", &old, true),
        ("middle", &middle, false),
        ("longer", &longer, false),
        ("shorter", &shorter, false),
        ("first", &first, false),
    ] {
        let dir = test_directory("place-basis");
        fs::write(dir.join("out"), &old).unwrap();
        let before = fs::metadata(dir.join("out")).unwrap();
        let mut sent = 0;
        write_as(&dir, "out", &MANNER, |there| {
            let stream = compared(there, new.len() as u64, new, &old);
            sent = stream.len();
            stream
        })
        .unwrap();
        assert!(sent < 2 * MIB + 1_000, "{name}: {sent}");
        assert!(fs::read(dir.join("out")).unwrap() == **new, "{name}");
        let found = fs::metadata(dir.join("out")).unwrap();
        assert_eq!(found.ino() == before.ino(), stays, "{name}");
        let of = (found.mtime(), found.permissions().mode() & 0o7777);
        assert_eq!(of, (1_000_000_000, 0o640), "{name}");
        assert_eq!(
            fs::read_dir(&dir).unwrap().count(),
            1,
            "{name}: nothing is left"
        );
        fs::remove_dir_all(dir).unwrap();
    }
}

#[test]
fn another_name_of_what_is_the_same_keeps_its_time() {
    let dir = test_directory("place-basis-names");
    let old = vec![7; 5 << 20];
    fs::write(dir.join("out"), &old).unwrap();
    fs::hard_link(dir.join("out"), dir.join("other")).unwrap();
    let before = fs::metadata(dir.join("other")).unwrap();
    write_as(&dir, "out", &MANNER, |there| {
        compared(there, old.len() as u64, &old, &old)
    })
    .unwrap();
    let found = |name: &str| fs::metadata(dir.join(name)).unwrap();
    assert_eq!(found("other").mtime(), before.mtime());
    assert_eq!(found("out").mtime(), 1_000_000_000);
    assert!(fs::read(dir.join("out")).unwrap() == old);
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn what_changes_while_it_is_compared_does_not_become_the_copy() {
    let dir = test_directory("place-basis-changed");
    let old = vec![7; 5 << 20];
    fs::write(dir.join("out"), &old).unwrap();
    let place = Place::Named(named(&dir, "out"));
    let (mut writing, there) = Writing::begin(HERE, place, &MANNER).unwrap();
    let stream = compared(&there, old.len() as u64, &old, &old);
    let mut decoder = Decoder::default();
    let mut input = &stream[..];
    let mut failed = None;
    while let Some(event) = decoder.next(&mut input).unwrap() {
        if let Event::FileEnd(_) = event {
            fs::write(dir.join("out"), "of somebody else").unwrap();
        }
        if let Err(failure) = writing.on_event(&event) {
            failed = Some(failure.text);
            break;
        }
        if let Event::Same(len) = event {
            writing.same(len, &mut |bytes| decoder.same(bytes)).unwrap();
        }
    }
    let text = failed.unwrap();
    assert!(text.contains("has changed while it was compared"), "{text}");
    assert_eq!(fs::read(dir.join("out")).unwrap(), b"of somebody else");
    fs::remove_dir_all(dir).unwrap();
}

/// All keys that a source is told which asks for them.
fn keys(writing: &mut Writing, asked: (u64, u64)) -> Vec<u64> {
    writing.compare(asked);
    let mut told = Vec::new();
    while writing.is_asked() {
        told.extend(writing.keys());
    }
    told
}

#[test]
fn keys_of_pieces_are_told_of_what_may_be_read() {
    let dir = test_directory("place-keys");
    fs::write(dir.join("out"), vec![7; (5 << 20) + 1]).unwrap();
    let begin = |place: Named, manner: &Manner| Writing::begin(HERE, Place::Named(place), manner);
    let is_offered = |there: &There| {
        let key = resume::path_key(&MANNER.transfer, b"");
        there.keys.contains(&key)
    };
    let (mut writing, there) = begin(named(&dir, "out"), &MANNER).unwrap();
    assert!(is_offered(&there));
    writing.on_event(&Event::Compare).unwrap();
    let entry = entry(EntryKind::File, "", 6 << 20);
    writing.on_event(&Event::Entry(entry, 0)).unwrap();
    let mut ask = |from: u64, size: u64| keys(&mut writing, (from, size));
    let whole = resume::piece_key(&MANNER.transfer, &vec![7; 1 << 20]);
    let one = resume::piece_key(&MANNER.transfer, &[7]);
    assert_eq!(ask(0, 6 << 20), [[whole; 5].to_vec(), vec![one]].concat());
    assert_eq!(ask(0, (5 << 20) + 1).last(), Some(&one));
    // Of a piece of any length the key would tell the bytes.
    assert_eq!(ask(0, (1 << 20) + 1), [whole]);
    assert_eq!(ask(0, 3), Vec::<u64>::new());
    // What was sent before is not read again.
    let behind = ask((3 << 20) + 1, 6 << 20);
    assert_eq!((behind.len(), behind[3], behind[4]), (6, 0, whole));
    // Nobody offered these.
    for (path, size) in [("small", 3), ("elsewhere", 6 << 20)] {
        let entry = super::entry(EntryKind::File, path, size);
        writing.on_event(&Event::Compare).unwrap();
        writing.on_event(&Event::Entry(entry, 0)).unwrap();
        assert_eq!(keys(&mut writing, (0, size)), Vec::<u64>::new(), "{path}");
        assert!(writing.same(1, &mut |_| ()).is_err(), "{path}");
    }
    drop(writing);
    let (mut writing, there) = begin(named(&dir, "out").hidden(true), &MANNER).unwrap();
    assert!(!is_offered(&there), "who may only write learns nothing");
    writing.on_event(&Event::Compare).unwrap();
    writing.on_event(&Event::Entry(entry, 0)).unwrap();
    assert_eq!(keys(&mut writing, (0, 6 << 20)), Vec::<u64>::new());
    assert!(writing.same(1, &mut |_| ()).is_err());
    drop(writing);
    let fresh = Manner {
        fresh: true,
        ..MANNER
    };
    let (mut writing, there) = begin(named(&dir, "out"), &fresh).unwrap();
    assert!(!is_offered(&there));
    writing.on_event(&Event::Compare).unwrap();
    writing.on_event(&Event::Entry(entry, 0)).unwrap();
    assert_eq!(keys(&mut writing, (0, 6 << 20)), Vec::<u64>::new());
    fs::remove_dir_all(dir).unwrap();
}
