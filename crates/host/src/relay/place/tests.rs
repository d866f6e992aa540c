//! Copies reach their target completely or not at all, and continue where they ended.

mod compared;
mod real;

use super::*;
use crate::files::test_directory;
use relay::{Decoder, Encoder, resume};
use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use wire::relay::Have;
use wire::relay::entry::{Entry, EntryKind, Owner, SPARSE, Total};

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

const ENTRIES: [(EntryKind, &str, u64); 6] = [
    (EntryKind::Directory, "", 0),
    (EntryKind::Directory, "a", 0),
    (EntryKind::File, "a/x", 2_000_000),
    (EntryKind::File, "b", 3),
    (EntryKind::Link, "l", 0),
    (EntryKind::File, "z", 1_500_000),
];

/// Writes a directory with three files and a link, and content that depends on their names, without what exists.
fn stream_without(there: &There) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = Encoder::begin(&mut out);
    let keys: HashSet<u64> = there.keys.iter().copied().collect();
    for (kind, path, size) in ENTRIES {
        let entry = entry(kind, path, size);
        let key = resume::key(&MANNER.transfer, &entry);
        if kind != EntryKind::Directory && keys.contains(&key) {
            encoder.kept(&entry, &mut out).unwrap();
            continue;
        }
        let content = content(path, size as usize);
        let mut from = 0;
        if there.have.partial > 0 && there.have.partial_key == key {
            from = there.have.partial as usize;
            let mut hasher = blake3::Hasher::new();
            hasher.update(&content[..from]);
            assert_eq!(hasher.finalize(), there.have.partial_digest, "{path}");
            encoder.from(from as u64, hasher, &mut out);
        }
        encoder.entry(&entry, &mut out).unwrap();
        if kind == EntryKind::File {
            for piece in content[from..].chunks(100_000) {
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

fn stream() -> Vec<u8> {
    stream_without(&There::default())
}

const MANNER: Manner = Manner {
    transfer: [3; TRANSFER_BYTES],
    fresh: false,
    delete: false,
    dry: false,
    attributes: false,
    checksum: false,
};

fn content(path: &str, len: usize) -> Vec<u8> {
    let salt = path.len();
    (0..len).map(|i| (i / 3 + salt) as u8).collect()
}

/// Gives a sink this part of a stream.
fn write(dir: &Path, name: &str, stream: &[u8]) {
    write_as(dir, name, &MANNER, |_| stream.to_vec()).unwrap();
}

/// Gives a sink the stream that matches its report of what it has. Returns that report.
fn write_as(
    dir: &Path,
    name: &str,
    manner: &Manner,
    stream: impl FnOnce(&There) -> Vec<u8>,
) -> Result<(usize, Have), Failure> {
    let place = Place::Named(named(dir, name));
    let (mut writing, there) = Writing::begin(HERE, place, manner)?;
    let stream = stream(&there);
    let mut decoder = Decoder::default();
    let mut input = &stream[..];
    loop {
        let Some(event) = decoder.next(&mut input).unwrap() else {
            return Ok((there.keys.len(), there.have));
        };
        let begun = match event {
            Event::Entry(entry, from) if entry.kind == EntryKind::File => Some(from),
            _ => None,
        };
        writing.on_event(&event)?;
        if let Event::Same(len) = event {
            writing.same(len, &mut |bytes| decoder.same(bytes))?;
        }
        match begun.map(|from| writing.content(from)).transpose()? {
            Some(Kept::Beginning(content)) => decoder.resume(*content),
            Some(Kept::Whole) => decoder.drop_content(),
            None => {}
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
    write(&dir, "out", &stream());
    assert_whole(&dir);
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn an_attempt_that_ended_anywhere_says_what_is_there_and_another_one_ends_whole() {
    let stream = stream();
    for cut in [
        1,
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
        // A stranger's file in the part does not get into the copy.
        let part = dir.join(".out.sinew-part");
        if part.is_dir() {
            fs::write(part.join("stranger"), "x").unwrap();
        }
        let done = write_as(&dir, "out", &MANNER, stream_without).unwrap();
        // Complete files are kept, and so is the part of a large one. A stranger's key matches nothing.
        let at = (done.0.saturating_sub(1), done.1.partial > 0);
        match cut {
            1_500_000 => assert_eq!(at, (1, true), "what lies beside is a stranger, too"),
            3_000_000 => assert_eq!(at, (4, true)),
            _ => {}
        }
        assert_whole(&dir);
        fs::remove_dir_all(dir).unwrap();
    }
}

#[test]
fn what_only_another_sink_lacks_is_left_as_it_is_and_more_of_a_file_goes_back_to_less() {
    let whole = stream();
    for (path, size) in [("a/x", 2_000_000), ("z", 1_500_000)] {
        let dir = test_directory("place-shared");
        write(&dir, "out", &whole[..3_000_000]);
        let x = dir.join(".out.sinew-part/a/x");
        let before = fs::metadata(&x).unwrap().ino();
        // Another sink has only the beginning of this file.
        let shorter = |there: &There| {
            assert!(there.keys.len() == 4 && there.have.partial > 500_000);
            let have = Have {
                kept: 0,
                partial_key: resume::key(&MANNER.transfer, &entry(EntryKind::File, path, size)),
                partial: 500_000,
                partial_digest: *blake3::hash(&content(path, 500_000)).as_bytes(),
            };
            let keys = Default::default();
            let stream = stream_without(&There { keys, have });
            assert!(
                stream.len() < whole.len() - 400_000,
                "it begins behind that"
            );
            stream
        };
        write_as(&dir, "out", &MANNER, shorter).unwrap();
        assert_eq!(fs::metadata(dir.join("out/a/x")).unwrap().ino(), before);
        assert_whole(&dir);
        fs::remove_dir_all(dir).unwrap();
    }
}

#[test]
fn a_part_that_was_changed_is_not_believed() {
    let dir = test_directory("place-changed");
    let whole = stream();
    write(&dir, "out", &whole[..3_000_000]);
    let x = dir.join(".out.sinew-part/a/x");
    let mut bytes = fs::read(&x).unwrap();
    bytes[77] ^= 1;
    fs::write(&x, bytes).unwrap();
    write_as(&dir, "out", &MANNER, stream_without).unwrap();
    assert_whole(&dir);
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_directory_that_is_there_gets_what_changed_and_keeps_what_is_its_own() {
    let dir = test_directory("place-update");
    write(&dir, "out", &stream());
    let top = dir.join("out");
    fs::write(top.join("own"), "mine").unwrap();
    fs::write(top.join("b"), "other").unwrap();
    fs::remove_file(top.join("z")).unwrap();
    fs::create_dir_all(top.join("l2/deep")).unwrap();
    let same = fs::metadata(top.join("a/x")).unwrap().ino();
    let kept = |there: &There| {
        let keys: HashSet<u64> = there.keys.iter().copied().collect();
        let keys = ENTRIES.map(|(kind, path, size)| {
            keys.contains(&resume::key(&MANNER.transfer, &entry(kind, path, size)))
        });
        assert_eq!(keys, [false, false, true, false, true, false]);
        stream_without(there)
    };
    write_as(&dir, "out", &MANNER, kept).unwrap();
    assert_eq!(fs::read(top.join("own")).unwrap(), b"mine");
    assert_eq!(fs::metadata(top.join("a/x")).unwrap().ino(), same);
    let delete = Manner {
        delete: true,
        ..MANNER
    };
    write_as(&dir, "out", &delete, stream_without).unwrap();
    assert!(!top.join("own").exists() && !top.join("l2").exists());
    assert_whole(&dir);
    // A dry run writes nothing.
    fs::write(top.join("b"), "other").unwrap();
    let dry = Manner {
        dry: true,
        delete: true,
        ..MANNER
    };
    write_as(&dir, "out", &dry, stream_without).unwrap();
    assert_eq!(fs::read(top.join("b")).unwrap(), b"other");
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_file_has_other_names_holes_and_may_not_come_after_all() {
    let dir = test_directory("place-odd");
    let mut out = Vec::new();
    let mut encoder = Encoder::begin(&mut out);
    encoder
        .entry(&entry(EntryKind::Directory, "", 0), &mut out)
        .unwrap();
    encoder
        .entry(&entry(EntryKind::File, "a", 50_000_003), &mut out)
        .unwrap();
    encoder.hole(20_000_000, &mut out);
    out.extend(relay::stream::piece_head(3));
    encoder.content(b"abc");
    out.extend(b"abc");
    encoder.hole(30_000_000, &mut out);
    encoder.file_end(&mut out);
    let hard = Entry {
        target: b"a",
        ..entry(EntryKind::HardLink, "b", 0)
    };
    encoder.entry(&hard, &mut out).unwrap();
    encoder
        .entry(&entry(EntryKind::File, "c", 9), &mut out)
        .unwrap();
    encoder.give_up(&mut out);
    encoder.end(&mut out);
    write(&dir, "out", &out);
    let top = dir.join("out");
    let [a, b] = ["a", "b"].map(|name| fs::metadata(top.join(name)).unwrap());
    assert_eq!((a.ino(), a.len()), (b.ino(), 50_000_003));
    assert!(a.blocks() * 512 < 1_000_000, "{} blocks", a.blocks());
    assert_eq!(
        &fs::read(top.join("b")).unwrap()[20_000_000..20_000_003],
        b"abc"
    );
    assert_eq!(fs::read_dir(&top).unwrap().count(), 2, "c never came");
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn what_cannot_fit_is_refused_before_it_comes() {
    let dir = test_directory("place-full");
    let mut out = Vec::new();
    let mut encoder = Encoder::begin(&mut out);
    encoder
        .entry(&entry(EntryKind::File, "", 1 << 60), &mut out)
        .unwrap();
    let failure = write_as(&dir, "out", &MANNER, |_| out).unwrap_err();
    assert!(failure.text.contains("are free; make room"), "{failure}");
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
    fs::remove_dir_all(dir).unwrap();
}

/// Writes a directory with these files, of which only heads follow, after their totals.
fn heads(files: &[&str], size: u64, room: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = Encoder::begin(&mut out);
    let total = Total {
        files: files.len() as u64,
        bytes: files.len() as u64 * size,
        room,
    };
    encoder.total(total, &mut out);
    let top = entry(EntryKind::Directory, "", 0);
    encoder.entry(&top, &mut out).unwrap();
    for path in files {
        let file = entry(EntryKind::File, path, size);
        encoder.entry(&file, &mut out).unwrap();
        encoder.give_up(&mut out);
    }
    encoder.end(&mut out);
    out
}

#[test]
fn files_that_fit_one_by_one_and_not_together_are_refused_before_the_first() {
    let dir = test_directory("place-full-sum");
    let free = Directory::open(&dir).unwrap().free().unwrap();
    let half = free / 2 + (1 << 30);
    let refused = |sum| write_as(&dir, "out", &MANNER, |_| heads(&["a", "b"], half, sum));
    let failure = refused(2 * half).unwrap_err();
    assert!(failure.text.contains("are free; make room"), "{failure}");
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
    // With holes they need less space.
    refused(half).unwrap();
    // A file with holes that is copied alone.
    let sparse = |_: &There| {
        let mut out = Vec::new();
        let mut encoder = Encoder::begin(&mut out);
        let total = Total {
            files: 1,
            bytes: 1 << 61,
            room: 1 << 60,
        };
        encoder.total(total, &mut out);
        let mut file = entry(EntryKind::File, "", 1 << 61);
        file.mode |= SPARSE;
        encoder.entry(&file, &mut out).unwrap();
        out
    };
    let failure = write_as(&dir, "sparse", &MANNER, sparse).unwrap_err();
    assert!(failure.text.contains("are free; make room"), "{failure}");
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn what_was_not_stored_when_the_host_was_switched_off_is_not_believed() {
    let dir = test_directory("place-boot");
    let whole = stream();
    write(&dir, "out", &whole[..3_000_000]);
    let journal = dir.join(".out.sinew-journal");
    let mut bytes = fs::read(&journal).unwrap();
    bytes[4] ^= 1;
    fs::write(&journal, bytes).unwrap();
    let (keys, _) = write_as(&dir, "out", &MANNER, stream_without).unwrap();
    assert_eq!(keys, 0);
    assert_whole(&dir);
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_target_has_one_writer_and_no_other_kind_in_its_place() {
    let dir = test_directory("place-target");
    let first = Writing::begin(HERE, Place::Named(named(&dir, "out")), &MANNER).unwrap();
    let second = Writing::begin(HERE, Place::Named(named(&dir, "out")), &MANNER);
    let failure = second.err().unwrap();
    assert_eq!(failure.kind, FailureKind::InUse);
    drop(first);
    fs::create_dir(dir.join("full")).unwrap();
    fs::write(dir.join("file"), "x").unwrap();
    for (name, kind) in [("full", EntryKind::File), ("file", EntryKind::Directory)] {
        let place = Place::Named(named(&dir, name));
        let (mut writing, _) = Writing::begin(HERE, place, &MANNER).unwrap();
        let refused = writing.on_event(&Event::Entry(entry(kind, "", 0), 0));
        assert!(refused.unwrap_err().text.contains("another name"));
    }
    // In a target that is a directory, the copy gets its own name.
    let inside = Named::at(&dir.join("full"), Some(OsStr::new("n"))).unwrap();
    assert_eq!(inside.name, "n");
    // A path that ends in dots means the directory that it leads to.
    fs::create_dir(dir.join("full/deep")).unwrap();
    let up = Named::at(&dir.join("full/deep/.."), None).unwrap();
    assert_eq!(up.name, "full");
    // The part of a long name has another name, which is always the same.
    let [long, same, other] = [("n", 255), ("n", 255), ("m", 255)].map(|(letter, len)| {
        let named = Named::at(&dir.join(letter.repeat(len)), None).unwrap();
        named.with(PART)
    });
    assert!(long == same && long != other && long.len() <= NAME_BYTES_MAX);
    fs::remove_dir_all(dir).unwrap();
}

/// Writes a new file, an existing one, a directory and a link with attributes.
fn with_attributes(kept: bool, owner: Owner<'_>, extended: &[(&[u8], &[u8])]) -> Vec<u8> {
    let entry = |kind, path, mode| Entry {
        kind,
        mode,
        mtime_s: 1_000_000_000,
        mtime_ns: 5,
        size: u64::from(kind == EntryKind::File),
        path,
        target: match kind {
            EntryKind::Link => b"f",
            _ => b"",
        },
    };
    let mut out = Vec::new();
    let mut encoder = Encoder::begin(&mut out);
    let entries = [
        entry(EntryKind::Directory, &b""[..], 0o750),
        entry(EntryKind::File, b"f", 0o4750),
        entry(EntryKind::Link, b"l", 0o777),
    ];
    for entry in entries {
        encoder.owner(owner, &mut out);
        if entry.kind != EntryKind::Link {
            for (name, value) in extended {
                encoder.attribute(name, value, &mut out);
            }
        }
        match kept && entry.kind != EntryKind::Directory {
            true => encoder.kept(&entry, &mut out).unwrap(),
            false => encoder.entry(&entry, &mut out).unwrap(),
        }
        if entry.kind == EntryKind::File && !kept {
            out.extend(relay::stream::piece_head(1));
            encoder.content(b"x");
            out.push(b'x');
            encoder.file_end(&mut out);
        }
    }
    encoder.end(&mut out);
    out
}

#[test]
fn attributes_are_those_of_the_source_for_what_is_new_and_for_what_is_there() {
    let dir = test_directory("place-attributes");
    let own = fs::metadata(&dir).unwrap();
    let manner = Manner {
        attributes: true,
        ..MANNER
    };
    // No host has this name, so the number is used.
    let owner = |uid, gid| Owner {
        uid,
        gid,
        user: "nobody-of-that-name",
        group: "",
    };
    let is_root = own.uid() == 0;
    let (uid, gid) = match is_root {
        true => (12_345, 23_456),
        false => (own.uid(), own.gid()),
    };
    let check = |expected: &[(&str, &[u8])]| {
        for (path, mode) in [("out", 0o750), ("out/f", 0o4750)] {
            let at = dir.join(path);
            let found = fs::metadata(&at).unwrap();
            assert_eq!((found.uid(), found.gid()), (uid, gid), "{path}");
            assert_eq!(found.mode() & 0o7777, mode, "{path}");
            assert_eq!(found.mtime(), 1_000_000_000, "{path}");
            let names = xattr::list(&at).unwrap().filter(|name| {
                let name = name.as_encoded_bytes();
                name.starts_with(b"user.")
            });
            assert_eq!(names.count(), expected.len(), "{path}");
            for (name, value) in expected {
                assert_eq!(xattr::get(&at, name).unwrap().as_deref(), Some(*value));
            }
        }
        let link = fs::symlink_metadata(dir.join("out/l")).unwrap();
        assert_eq!((link.uid(), link.gid()), (uid, gid));
    };
    let begun = with_attributes(
        false,
        owner(uid, gid),
        &[(b"user.a", b"1"), (b"user.b", b"")],
    );
    if let Err(failure) = write_as(&dir, "out", &manner, |_| begun) {
        // The file system has no extended attributes, so the test cannot run.
        assert!(failure.text.contains("not supported"), "{failure}");
        eprintln!("SKIPPED: the file system has no extended attributes");
        fs::remove_dir_all(dir).unwrap();
        return;
    }
    check(&[("user.a", b"1"), ("user.b", b"")]);
    // Attributes that were changed at the target are restored, although content and time are the same.
    let file = dir.join("out/f");
    xattr::set(&file, "user.c", b"3").unwrap();
    xattr::remove(&file, "user.a").unwrap();
    if is_root {
        std::os::unix::fs::lchown(dir.join("out/l"), Some(1), Some(1)).unwrap();
    }
    let again = with_attributes(true, owner(uid, gid), &[(b"user.a", b"2")]);
    write_as(&dir, "out", &manner, |there| {
        assert_eq!(there.keys.len(), 2, "content is there");
        again
    })
    .unwrap();
    check(&[("user.a", b"2")]);
    // A link where the source says that a file is kept must not lead to another file.
    let other = dir.join("other");
    fs::write(&other, "x").unwrap();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o600)).unwrap();
    fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink(&other, &file).unwrap();
    let astray = with_attributes(true, owner(uid, gid), &[]);
    let failure = write_as(&dir, "out", &manner, |_| astray).unwrap_err();
    assert!(failure.text.contains("something else"), "{failure}");
    let found = fs::metadata(&other).unwrap();
    assert_eq!((found.uid(), found.mode() & 0o7777), (own.uid(), 0o600));
    assert_eq!(fs::symlink_metadata(&file).unwrap().uid(), own.uid());
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn attributes_that_were_not_asked_for_are_refused() {
    let dir = test_directory("place-unasked");
    let owner = Owner {
        uid: 0,
        gid: 0,
        user: "",
        group: "",
    };
    let stream = with_attributes(false, owner, &[]);
    let failure = write_as(&dir, "out", &MANNER, |_| stream).unwrap_err();
    assert!(failure.text.contains("not asked for"), "{failure}");
    fs::remove_dir_all(dir).unwrap();
}

/// Waits until the clock of the file system advances, so that later files are younger than existing ones.
fn tick(dir: &Path) {
    let made = || {
        let file = dir.join("tick");
        fs::write(&file, "x").unwrap();
        let made = fs::metadata(&file).unwrap().ctime_nsec();
        fs::remove_file(&file).unwrap();
        made
    };
    let first = made();
    while made() == first {}
}

/// Changes the content of a file, but nothing that a walk can see.
fn change_unseen(path: &Path) {
    let modified = fs::metadata(path).unwrap().modified().unwrap();
    let mut bytes = fs::read(path).unwrap();
    bytes[0] ^= 1;
    fs::write(path, bytes).unwrap();
    let file = File::options().write(true).open(path).unwrap();
    file.set_times(fs::FileTimes::new().set_modified(modified))
        .unwrap();
}

const FRESH: Manner = Manner {
    fresh: true,
    ..MANNER
};

#[test]
fn a_directory_whose_copy_began_anew_gets_all_that_did_not_come_since() {
    let dir = test_directory("place-anew");
    write(&dir, "out", &stream());
    let top = dir.join("out");
    for path in ["a/x", "b", "z"] {
        change_unseen(&top.join(path));
    }
    tick(&dir);
    let cut = |there: &There| {
        assert!(there.keys.is_empty());
        tick(&dir);
        stream()[..2_000_500].to_vec()
    };
    write_as(&dir, "out", &FRESH, cut).unwrap();
    let came = fs::metadata(top.join("a/x")).unwrap().ino();
    // The attempt breaks off once more, before anything arrives.
    let breaks = |there: &There| {
        let keys: HashSet<u64> = there.keys.iter().copied().collect();
        let keys = ENTRIES.map(|(kind, path, size)| {
            keys.contains(&resume::key(&MANNER.transfer, &entry(kind, path, size)))
        });
        assert_eq!(keys, [false, false, true, true, true, false], "z is old");
        stream()[..1].to_vec()
    };
    write_as(&dir, "out", &MANNER, breaks).unwrap();
    write_as(&dir, "out", &MANNER, stream_without).unwrap();
    assert_eq!(fs::metadata(top.join("a/x")).unwrap().ino(), came);
    assert_whole(&dir);
    // After a complete copy, the journal is empty.
    let (keys, _) = write_as(&dir, "out", &MANNER, stream_without).unwrap();
    assert_eq!(keys, 4);
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_file_whose_copy_began_anew_is_not_taken_for_what_was_there() {
    let dir = test_directory("place-anew-file");
    let file = |there: &There| {
        let mut out = Vec::new();
        let mut encoder = Encoder::begin(&mut out);
        let entry = entry(EntryKind::File, "", 3);
        if there.keys.contains(&resume::key(&MANNER.transfer, &entry)) {
            encoder.kept(&entry, &mut out).unwrap();
        } else {
            encoder.entry(&entry, &mut out).unwrap();
            out.extend(relay::stream::piece_head(3));
            encoder.content(b"new");
            out.extend(b"new");
            encoder.file_end(&mut out);
        }
        encoder.end(&mut out);
        out
    };
    write_as(&dir, "out", &MANNER, file).unwrap();
    change_unseen(&dir.join("out"));
    assert_ne!(fs::read(dir.join("out")).unwrap(), b"new");
    tick(&dir);
    // An attempt that ends when the totals are known, because the segments have to be measured first.
    write_as(&dir, "out", &FRESH, |_| stream()[..1].to_vec()).unwrap();
    write_as(&dir, "out", &MANNER, file).unwrap();
    assert_eq!(fs::read(dir.join("out")).unwrap(), b"new");
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
    fs::remove_dir_all(dir).unwrap();
}
