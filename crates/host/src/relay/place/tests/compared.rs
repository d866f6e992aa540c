//! If another version of a file exists, only the differences are sent, and a file that is equal stays.

use super::*;
use std::time::{Duration, UNIX_EPOCH};

#[test]
fn what_changes_before_it_is_copied_does_not_become_the_copy() {
    let old = vec![7; 5 << 20];
    for (name, new) in [
        ("shorter", &b"of somebody else"[..]),
        ("other", &[8; 5 << 20]),
    ] {
        let dir = test_directory("place-basis-changed");
        fs::write(dir.join("out"), &old).unwrap();
        let place = Place::Named(named(&dir, "out"));
        let (mut writing, there) = Writing::begin(HERE, place, &MANNER).unwrap();
        let path_key = resume::path_key(&MANNER.transfer, b"");
        assert!(there.keys.contains(&path_key), "{name}: it can be compared");
        let entry = entry(EntryKind::File, "", 5 << 20);
        for event in [Event::Compare, Event::Entry(entry, 0)] {
            writing.on_event(&event).unwrap();
        }
        writing.same(3 << 20, &mut |_| ()).unwrap();
        fs::write(dir.join("out"), new).unwrap();
        let failed = writing.on_event(&Event::Content(&[1])).unwrap_err();
        assert_eq!(failed.kind, FailureKind::InUse, "{name}: {failed}");
        let text = "has changed while it was compared";
        assert!(failed.text.contains(text), "{name}: {failed}");
        assert!(fs::read(dir.join("out")).unwrap() == new, "{name}");
        drop(writing);
        let place = Place::Named(named(&dir, "out"));
        let (_, there) = Writing::begin(HERE, place, &MANNER).unwrap();
        assert!(!there.keys.contains(&path_key), "{name}: it comes whole");
        fs::remove_dir_all(dir).unwrap();
    }
}

#[test]
fn what_reached_the_part_is_what_was_read_before() {
    let dir = test_directory("place-basis-part");
    let path = dir.join("old");
    fs::write(&path, [&[7; 5_000][..], &[0; 5_000]].concat()).unwrap();
    let directory = Directory::open(&dir).unwrap();
    let basis = basis::Basis::open(&directory, OsStr::new("old")).unwrap();
    let digest = blake3::hash(&[7; 4_000]);
    let copy = |name: &str, bytes: u64| {
        let part = directory.create(OsStr::new(name), 0o600).unwrap();
        basis.copy(&part, bytes, digest)
    };
    copy("part", 4_000).unwrap();
    assert_eq!(fs::read(dir.join("part")).unwrap(), [7; 4_000]);
    // After a write through a memory map, neither size nor time show the change.
    for bytes in [3_999, 4_001, 9_000] {
        let why = copy(&format!("part{bytes}"), bytes).unwrap_err();
        assert!(Changed::is(&why), "{bytes}: {why}");
    }
    let why = copy("beyond", 10_001).unwrap_err();
    assert!(Changed::is(&why), "{why}");
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn who_writes_to_what_stays_after_the_last_look_is_noticed() {
    let dir = test_directory("place-basis-set");
    fs::write(dir.join("old"), "abc").unwrap();
    let directory = Directory::open(&dir).unwrap();
    let open = || basis::Basis::open(&directory, OsStr::new("old")).unwrap();
    let file = File::options().write(true).open(dir.join("old")).unwrap();
    let (basis, set) = (open(), UNIX_EPOCH + Duration::new(1_000_000_000, 5));
    assert!(basis.is_as_set(None).unwrap(), "it has its own time");
    for (kept, is_set) in [
        (set, true),
        // The file system stores whole seconds, or every second one.
        (UNIX_EPOCH + Duration::from_secs(1_000_000_000), true),
        (set - Duration::from_secs(2), false),
        (set + Duration::from_nanos(1), false),
    ] {
        file.set_modified(kept).unwrap();
        assert_eq!(basis.is_as_set(Some(set)).unwrap(), is_set, "{kept:?}");
    }
    assert!(!basis.is_as_set(None).unwrap());
    file.set_len(4).unwrap();
    file.set_modified(set).unwrap();
    assert!(!basis.is_as_set(Some(set)).unwrap(), "it is longer");
    fs::remove_dir_all(dir).unwrap();
}

/// Returns all keys that a source gets which asks for them.
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
    // For a piece of arbitrary length the key would reveal the bytes.
    assert_eq!(ask(0, (1 << 20) + 1), [whole]);
    assert_eq!(ask(0, 3), Vec::<u64>::new());
    // Pieces that begin before the requested place are not read again.
    let behind = ask((3 << 20) + 1, 6 << 20);
    assert_eq!((behind.len(), behind[3], behind[4]), (6, 0, whole));
    // These were not offered.
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
