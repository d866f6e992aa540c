//! Copies files from a real source to real sinks in one process, with comparison.

use super::*;
use crate::relay::duplex::Duplex;
use crate::relay::ends::{Secrets, Sinks};
use crate::relay::origin::Progress;
use crate::relay::pump::Ends;
use crate::relay::sink::{self, Sink};
use crate::relay::socket::{Data, Socket};
use crate::relay::source::{Feedback, Reading, Source};
use crate::relay::transfer::{Shared, Transfer};
use crate::relay::tree::Tree;
use relay::{Fan, Reassembly};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, UNIX_EPOCH};
use wire::relay::Message;

const MIB: u64 = 1 << 20;

/// The result of a copy.
#[derive(Debug, Default)]
struct Copied {
    /// Bytes of content that were sent.
    sent: u64,
    /// Number of keys of pieces that the sinks have reported.
    keys: usize,
}

/// Copies `from` to each of these targets, and calls `meddle` before the source receives keys of pieces.
fn copy(from: &Path, places: Vec<Named>, meddle: impl Fn() + Sync) -> Result<Copied, Failure> {
    let sinks = places.len();
    let transfer = Transfer::new(sinks);
    let feedback = Shared::new(Feedback::new(sinks, Sinks::Nobody));
    let frames = Shared::new(Fan::new(1, sinks, relay::QUEUE_BYTES));
    let copied = Mutex::new(Copied::default());
    let mut tree = Tree::open(from).unwrap();
    thread::scope(|scope| {
        let (transfer, feedback, frames) = (&transfer, &feedback, &frames);
        let (copied, meddle) = (&copied, &meddle);
        for (branch, place) in places.into_iter().enumerate() {
            let here = NodeAddr(HERE.0 + branch as u32);
            let at = Ends { here, peer: here };
            let (near, far) = UnixStream::pair().unwrap();
            let [near, far] = [near, far].map(|end| {
                let data = Data::plain(Socket::Unix(end));
                Arc::new(Duplex::new(data).unwrap())
            });
            scope.spawn(move || {
                let mut have = false;
                while let Ok(Some(received)) = far.receive(None) {
                    let message = received.message().unwrap();
                    if let (Message::Kept(_, keys), true) = (&message, have) {
                        copied.lock().unwrap().keys += keys.iter().count();
                        meddle();
                    }
                    have |= matches!(message, Message::Have(..));
                    assert!(feedback.with(|f| f.hear(&message)).is_ok());
                }
            });
            scope.spawn(move || {
                let inflow = Shared::new(Reassembly::new(1));
                let secrets = Shared::new(Secrets::of(here, None, true));
                let sink = Sink {
                    here,
                    peer: here,
                    control: &near,
                    inflow: &inflow,
                    secrets: &secrets,
                    transfer,
                };
                thread::scope(|scope| {
                    let (inflow, secrets) = (&inflow, &secrets);
                    scope.spawn(move || {
                        let ended = sink::branch(at, branch, frames, (inflow, secrets), transfer);
                        transfer.note(ended);
                    });
                    let done = sink.run(Place::Named(place), &MANNER, |_| {});
                    transfer.note(done.map(drop));
                });
                near.close();
            });
        }
        let source = Source {
            here: HERE,
            feedback,
            frames,
            transfer,
            manner: Reading {
                transfer: MANNER.transfer,
                spare: false,
                dry: false,
                attributes: false,
                checksum: false,
            },
            key: None,
            controls: &[],
        };
        let done = source.run(&mut tree, |told| {
            if let Progress::Done(_, done) = told {
                copied.lock().unwrap().sent = done.bytes;
            }
        });
        transfer.note(done.map(drop));
    });
    match transfer.failure() {
        Some(failure) => Err(failure),
        None => Ok(copied.into_inner().unwrap()),
    }
}

/// Creates a directory with a file to copy, and another one under the name of the copy.
fn pair(test: &str, new: &[u8], old: &[u8]) -> PathBuf {
    let dir = test_directory(test);
    fs::write(dir.join("new"), new).unwrap();
    fs::write(dir.join("out"), old).unwrap();
    age(&dir.join("new"));
    dir
}

/// Makes the other file newer.
fn age(path: &Path) {
    let file = File::options().write(true).open(path).unwrap();
    let time = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    file.set_modified(time).unwrap();
}

fn pattern(bytes: u64) -> Vec<u8> {
    (0..bytes).map(|i| (i / 777) as u8).collect()
}

#[test]
fn what_is_the_same_comes_from_what_is_there() {
    let old = pattern(70 * MIB + 3);
    let mut middle = old.clone();
    middle[(2 * MIB + 5) as usize] ^= 1;
    let longer = [&old[..], &[9; 100]].concat();
    let shorter = old[..(66 * MIB + 7) as usize].to_vec();
    let first = [&[1], &old[1..]].concat();
    // There are more keys than are sent at once. The key of the last piece is used only if both files end there.
    for (name, new, stays, sent, keys) in [
        ("same", &old, true, 0, 71),
        ("middle", &middle, false, MIB, 71),
        ("longer", &longer, false, 103, 71),
        ("shorter", &shorter, false, 7, 66),
        ("first", &first, false, MIB, 71),
    ] {
        let dir = pair("place-real", new, &old);
        let before = fs::metadata(dir.join("out")).unwrap();
        let copied = copy(&dir.join("new"), vec![named(&dir, "out")], || ()).unwrap();
        assert_eq!((copied.sent, copied.keys), (sent, keys), "{name}");
        assert!(fs::read(dir.join("out")).unwrap() == **new, "{name}");
        let found = fs::metadata(dir.join("out")).unwrap();
        assert_eq!(found.ino() == before.ino(), stays, "{name}");
        assert_eq!(found.mtime(), 1_000_000_000, "{name}");
        let left = fs::read_dir(&dir).unwrap().count();
        assert_eq!(left, 2, "{name}: nothing is left");
        fs::remove_dir_all(dir).unwrap();
    }
}

#[test]
fn another_name_of_what_is_the_same_keeps_its_time() {
    let old = pattern(5 * MIB);
    let dir = pair("place-real-names", &old, &old);
    fs::hard_link(dir.join("out"), dir.join("other")).unwrap();
    let found = |name: &str| fs::metadata(dir.join(name)).unwrap();
    let before = found("other");
    let copied = copy(&dir.join("new"), vec![named(&dir, "out")], || ()).unwrap();
    assert_eq!(copied.sent, 0);
    assert_eq!(found("other").mtime(), before.mtime());
    assert_eq!(found("out").mtime(), 1_000_000_000);
    assert!(fs::read(dir.join("out")).unwrap() == old);
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_file_that_changes_between_two_readings_comes_whole_the_next_time() {
    let new = pattern(5 * MIB);
    let dir = pair("place-real-changed", &new, &new);
    let out = dir.join("out");
    let file = File::options().write(true).open(&out).unwrap();
    let change = || file.write_all_at(&[0xff], 3).unwrap();
    let why = copy(&dir.join("new"), vec![named(&dir, "out")], change).unwrap_err();
    assert_eq!(why.kind, FailureKind::InUse, "{why}");
    assert!(
        why.text.contains("`out`: what was there has changed"),
        "{why}"
    );
    // The file changes all the time.
    let copied = copy(&dir.join("new"), vec![named(&dir, "out")], change).unwrap();
    assert_eq!((copied.sent, copied.keys), (5 * MIB, 0));
    assert!(fs::read(&out).unwrap() == new);
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 2, "nothing is left");
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_log_that_grows_while_it_is_compared_is_replaced() {
    let old = pattern(5 * MIB);
    for (name, at) in [("from the first byte", 0), ("further on", 3 * MIB)] {
        let mut new = old.clone();
        new[at as usize] ^= 1;
        let dir = pair("place-real-log", &new, &old);
        let out = File::options().write(true).open(dir.join("out")).unwrap();
        let grow = || out.write_all_at(&[7; 10], 5 * MIB).unwrap();
        let copied = copy(&dir.join("new"), vec![named(&dir, "out")], grow).unwrap();
        assert_eq!(copied.sent, MIB, "{name}");
        assert!(fs::read(dir.join("out")).unwrap() == new, "{name}");
        fs::remove_dir_all(dir).unwrap();
    }
}

#[test]
fn holes_are_compared_and_stay() {
    // The file has data, a hole, and data again.
    let write = |path: &Path, data: &[(u64, u64)], bytes: u64| {
        let file = File::create(path).unwrap();
        for (at, len) in data {
            file.write_all_at(&vec![5; *len as usize], *at).unwrap();
        }
        file.set_len(bytes).unwrap();
    };
    let dense: &[(u64, u64)] = &[(0, MIB), (7 * MIB, MIB)];
    let other: &[(u64, u64)] = &[(0, MIB), (3 * MIB, 9), (7 * MIB, MIB)];
    for (name, new, old, sent) in [
        ("both", dense, dense, 0),
        ("more at the source", other, dense, MIB),
        ("more at the sink", dense, other, MIB),
        ("none at the end", &other[..2], dense, 2 * MIB),
    ] {
        let dir = test_directory("place-real-holes");
        write(&dir.join("new"), new, 8 * MIB);
        write(&dir.join("out"), old, 8 * MIB);
        age(&dir.join("new"));
        let copied = copy(&dir.join("new"), vec![named(&dir, "out")], || ()).unwrap();
        assert_eq!(copied.sent, sent, "{name}");
        let [from, to] = ["new", "out"].map(|file| fs::read(dir.join(file)).unwrap());
        assert!(from == to, "{name}");
        let taken = fs::metadata(dir.join("out")).unwrap().blocks() * 512;
        assert!(taken < 5 * MIB, "{name}: {taken}");
        fs::remove_dir_all(dir).unwrap();
    }
}

#[test]
fn one_sink_has_all_and_the_other_compares() {
    let new = pattern(6 * MIB);
    let mut old = new.clone();
    old[(4 * MIB) as usize] ^= 1;
    let dir = pair("place-real-two", &new, &old);
    copy(&dir.join("new"), vec![named(&dir, "whole")], || ()).unwrap();
    let before = fs::metadata(dir.join("whole")).unwrap();
    let places = ["whole", "out"].map(|name| named(&dir, name));
    let copied = copy(&dir.join("new"), places.into(), || ()).unwrap();
    assert_eq!((copied.sent, copied.keys), (MIB, 12));
    assert!(fs::read(dir.join("out")).unwrap() == new);
    let after = fs::metadata(dir.join("whole")).unwrap();
    assert_eq!(after.ino(), before.ino(), "it is left as it is");
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn what_was_begun_goes_on_and_the_rest_of_it_is_compared() {
    let new = pattern(20 * MIB);
    let mut old = new.clone();
    // One piece had already arrived, and one is still to come.
    old[5] ^= 1;
    old[(15 * MIB) as usize] ^= 1;
    let dir = pair("place-real-begun", &new, &old);
    let metadata = fs::metadata(dir.join("new")).unwrap();
    let head = Entry {
        mode: metadata.mode() & 0o7777,
        mtime_ns: 0,
        ..entry(EntryKind::File, "", 20 * MIB)
    };
    let begun = 8 * MIB as usize + 5;
    let mut out = Vec::new();
    let mut encoder = Encoder::begin(&mut out);
    encoder.entry(&head, &mut out).unwrap();
    for piece in new[..begun].chunks(100_000) {
        out.extend(relay::stream::piece_head(piece.len() as u32));
        out.extend(piece);
    }
    write(&dir, "out", &out);
    let copied = copy(&dir.join("new"), vec![named(&dir, "out")], || ()).unwrap();
    // The rest of the piece in which the copy continues, and the piece that differs.
    assert_eq!((copied.sent, copied.keys), (2 * MIB - 5, 20));
    assert!(fs::read(dir.join("out")).unwrap() == new);
    fs::remove_dir_all(dir).unwrap();
}
