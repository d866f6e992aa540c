//! Copies reach their place whole or not at all, and go on where they ended.

use super::*;
use crate::files::test_directory;
use relay::{Decoder, Encoder};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use wire::relay::entry::Entry;

const HERE: NodeAddr = NodeAddr(0x0a07_0001);

fn named(dir: &Path, name: &str) -> Named {
    Named::at(&dir.join(name), None).unwrap()
}

fn entry<'a>(kind: EntryKind, path: &'a str, size: u64) -> Entry<'a> {
    Entry {
        kind,
        mode: if kind == EntryKind::Directory {
            0o755
        } else {
            0o4640
        },
        mtime_s: 1_000_000_000,
        mtime_ns: 5,
        size,
        path: path.as_bytes(),
        target: if kind == EntryKind::Link { b"a/x" } else { b"" },
    }
}

/// A directory with three files and a link, and content that fits their names.
fn stream() -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = Encoder::begin(Walk::default(), 0, blake3::Hasher::new(), &mut out);
    let file = EntryKind::File;
    for (kind, path, size) in [
        (EntryKind::Directory, "", 0),
        (EntryKind::Directory, "a", 0),
        (file, "a/x", 2_000_000),
        (file, "b", 3),
        (EntryKind::Link, "l", 0),
        (file, "z", 1_500_000),
    ] {
        encoder.entry(&entry(kind, path, size), &mut out).unwrap();
        if kind == file {
            for piece in content(path, size as usize).chunks(100_000) {
                out.extend(relay::stream::piece_head(piece.len() as u32));
                encoder.content(piece);
                out.extend(piece);
            }
            encoder.file_end(&mut out);
        }
    }
    encoder.end(&mut out);
    out
}

fn content(path: &str, len: usize) -> Vec<u8> {
    let salt = path.len();
    (0..len).map(|i| (i / 3 + salt) as u8).collect()
}

/// Gives a sink so much of a stream; what it said that it has.
fn write(dir: &Path, name: &str, stream: &[u8]) -> Have {
    let place = Place::Named(named(dir, name));
    let (mut writing, have) = Writing::begin(HERE, place, false).unwrap();
    let mut decoder = Decoder::default();
    let mut input = stream;
    loop {
        let Some(event) = decoder.next(&mut input).unwrap() else {
            return have;
        };
        if let Event::Begin { skip, partial } = event {
            let (walk, content) = writing.on_begin(skip, partial).unwrap();
            decoder.resume(walk, content);
        } else {
            writing.on_event(&event).unwrap();
        }
    }
}

fn assert_whole(dir: &Path) {
    let top = dir.join("out");
    assert_eq!(
        fs::read(top.join("a/x")).unwrap(),
        content("a/x", 2_000_000)
    );
    assert_eq!(fs::read(top.join("b")).unwrap(), content("b", 3));
    assert_eq!(fs::read(top.join("z")).unwrap(), content("z", 1_500_000));
    assert_eq!(fs::read_link(top.join("l")).unwrap(), Path::new("a/x"));
    for (path, mode) in [("", 0o755), ("a", 0o755), ("a/x", 0o640), ("b", 0o640)] {
        let found = fs::metadata(top.join(path)).unwrap();
        assert_eq!(found.permissions().mode() & 0o7777, mode, "{path}");
        assert_eq!(
            (found.mtime(), found.mtime_nsec()),
            (1_000_000_000, 5),
            "{path}"
        );
    }
    let left: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert_eq!(left, ["out"], "nothing beside it is left");
}

#[test]
fn a_directory_reaches_its_place_with_modes_and_times() {
    let dir = test_directory("place-whole");
    assert_eq!(write(&dir, "out", &stream()).entries, 0);
    assert_whole(&dir);
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn an_attempt_that_ended_anywhere_says_what_is_there_and_another_one_ends_whole() {
    let stream = stream();
    for cut in [
        10,
        60,
        500,
        1_500_000,
        2_000_300,
        2_000_500,
        3_000_000,
        stream.len() - 20,
    ] {
        let dir = test_directory("place-cut");
        write(&dir, "out", &stream[..cut]);
        assert!(!dir.join("out").exists(), "{cut}");
        // A stranger's file in the part does not end up in the copy.
        let part = dir.join(".out.sinew-part");
        if part.is_dir() {
            fs::write(part.join("stranger"), "x").unwrap();
        }
        let place = Place::Named(named(&dir, "out"));
        let (writing, have) = Writing::begin(HERE, place, false).unwrap();
        drop(writing);
        assert!(!part.join("stranger").exists());
        // What was large and complete is kept, and so is the part of a large one.
        let at = (have.entries, have.partial > 0);
        match cut {
            1_500_000 => assert_eq!(at, (2, true)),
            3_000_000 => assert_eq!(at, (5, true)),
            _ => {}
        }
        assert_eq!(write(&dir, "out", &stream), have);
        assert_whole(&dir);
        fs::remove_dir_all(dir).unwrap();
    }
}

#[test]
fn a_part_that_was_changed_is_not_believed() {
    let dir = test_directory("place-changed");
    let stream = stream();
    write(&dir, "out", &stream[..3_000_000]);
    let x = dir.join(".out.sinew-part/a/x");
    let mut bytes = fs::read(&x).unwrap();
    bytes[77] ^= 1;
    fs::write(&x, bytes).unwrap();
    assert_eq!(write(&dir, "out", &stream).entries, 2);
    assert_whole(&dir);
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_sink_goes_back_to_where_others_are() {
    let dir = test_directory("place-back");
    let whole = stream();
    write(&dir, "out", &whole[..3_000_000]);
    let place = Place::Named(named(&dir, "out"));
    let (mut writing, have) = Writing::begin(HERE, place, false).unwrap();
    assert!(have.entries == 5 && have.partial > 0);
    let (walk, hashed) = writing.on_begin(2, 1_000).unwrap();
    assert_eq!(walk.entries(), 2);
    let expected = blake3::hash(&content("a/x", 1_000));
    assert_eq!(hashed.finalize(), expected);
    drop(writing);
    let part = dir.join(".out.sinew-part");
    assert!(part.join("a/x").exists() && !part.join("b").exists());
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_target_has_one_writer_and_no_other_kind_in_its_place() {
    let dir = test_directory("place-target");
    let first = Writing::begin(HERE, Place::Named(named(&dir, "out")), false).unwrap();
    let second = Writing::begin(HERE, Place::Named(named(&dir, "out")), false);
    let failure = second.err().unwrap();
    assert_eq!(failure.kind, FailureKind::InUse);
    drop(first);
    fs::create_dir(dir.join("full")).unwrap();
    let place = Place::Named(named(&dir, "full"));
    let (mut writing, _) = Writing::begin(HERE, place, false).unwrap();
    for kind in [EntryKind::Directory, EntryKind::File] {
        let refused = writing.on_event(&Event::Entry(entry(kind, "", 0)));
        assert!(refused.unwrap_err().text.contains("another name"));
    }
    drop(writing);
    // A path that is a directory gets what is copied under its own name.
    let inside = Named::at(&dir.join("full"), Some(OsStr::new("n"))).unwrap();
    assert_eq!(inside.name, "n");
    // What lies beside a long name has another one, and the same each time.
    let [long, same, other] = [("n", 255), ("n", 255), ("m", 255)].map(|(letter, len)| {
        let named = Named::at(&dir.join(letter.repeat(len)), None).unwrap();
        named.with(PART)
    });
    assert!(long == same && long != other && long.len() <= NAME_BYTES_MAX);
    fs::remove_dir_all(dir).unwrap();
}
