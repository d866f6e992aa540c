//! The performance goals of copies. These tests take minutes, need root and a quiet machine, and print their
//! measurements. A goal that cannot be measured here fails.
//!
//! ```sh
//! cargo test --release -p sinew --test relay -- --ignored goals --test-threads 1 --nocapture
//! ```
//! Only the copies of a goal may load the machine, because they are compared with each other.

use crate::chain::{Chain, names, noise, part};
use crate::row::{Row, within};
use crate::trees::{same, sent};
use crate::world::failure;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);
/// Only an outage takes this long.
const PATIENCE: Duration = Duration::from_secs(300);

/// The longest delay that a fault may cause beyond its outage.
const LOST_S: f64 = 5.0;
/// How many bytes may be sent again after a fault: how far a source is ahead of its target, and what a relay holds.
const WINDOW_BYTES: u64 = (32 + 4) << 20;
const KBIT: u64 = 50_000;
const BYTES: usize = 100_000_000;
/// How long a relay is away.
const AWAY: Duration = Duration::from_secs(10);

/// Length of the outage in seconds, unless this variable has another value.
const OUTAGE_S: u64 = 600;
const OUTAGE_VARIABLE: &str = "SINEW_GOAL_OUTAGE_S";

/// A copy that has ended, and its costs.
struct Ended {
    said: Value,
    took: Duration,
    /// Bytes that the first host has sent on its cables.
    sent: u64,
}

/// An event that happens when this many bytes have arrived.
type Middle<'a> = (u64, &'a mut dyn FnMut(&mut Row));

/// Runs a copy, with an event in the middle when enough of the content is at the target. The copy must succeed.
fn copy(row: &mut Row, words: &str, middle: Option<Middle<'_>>) -> Ended {
    let (before, begun) = (row.sent("ams"), Instant::now());
    let mut child = row.cp(words).spawn().unwrap();
    if let Some((bytes, happens)) = middle {
        let part = part(&row.root("lon").join("copy"));
        let has_half = || fs::metadata(&part).is_ok_and(|part| part.len() >= bytes);
        within(PATIENCE, "half of it is there", has_half);
        happens(row);
    }
    within(PATIENCE, "the copy ends", || {
        child.try_wait().unwrap().is_some()
    });
    let took = begun.elapsed();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", failure(&output).1);
    Ended {
        said: serde_json::from_slice(&output.stdout).unwrap(),
        took,
        sent: row.sent("ams") - before,
    }
}

/// Returns the better of two copies to lon without any event, and removes the copy.
fn undisturbed(row: &mut Row, words: &str) -> (Duration, u64) {
    let both = [(); 2].map(|()| {
        let ended = copy(row, words, None);
        fs::remove_file(row.root("lon").join("copy")).unwrap();
        (ended.took, ended.sent)
    });
    let [one, other] = both;
    (one.0.min(other.0), one.1.min(other.1))
}

/// Compares a copy with an event to one without, and removes it.
fn judge(row: &Row, what: &str, ended: &Ended, calm: (Duration, u64), outage: Duration) {
    let lost_s = ended.took.as_secs_f64() - calm.0.as_secs_f64() - outage.as_secs_f64();
    let again = ended.sent as i64 - calm.1 as i64;
    println!(
        "{what}: {:.1} s, {:.1} s without, away for {:.1} s: {lost_s:.1} s lost beyond that; {again} of {BYTES} \
         bytes sent again; {} attempts",
        ended.took.as_secs_f64(),
        calm.0.as_secs_f64(),
        outage.as_secs_f64(),
        ended.said["attempts"]
    );
    let root = row.root("lon");
    assert!(fs::read(root.join("copy")).unwrap() == noise(BYTES));
    assert_eq!(names(&root), ["copy"]);
    assert!(ended.said["attempts"].as_u64() > Some(1), "{}", ended.said);
    assert!(lost_s <= LOST_S, "{lost_s} s are lost");
    assert!(again <= WINDOW_BYTES as i64, "{again} bytes are sent again");
    fs::remove_file(root.join("copy")).unwrap();
}

#[test]
#[ignore = "a goal: minutes, root, a quiet machine"]
fn goals_an_outage_in_the_middle_costs_no_more_than_itself() {
    let mut row = Row::of_three("goal-outage", Some(KBIT));
    fs::write(row.world.dir.join("data"), noise(BYTES)).unwrap();
    let calm = undisturbed(&mut row, "data lon:copy");
    let span = std::env::var(OUTAGE_VARIABLE).map_or(OUTAGE_S, |text| text.parse().unwrap());
    let mut outage = Duration::ZERO;
    let mut happens = |row: &mut Row| {
        row.set("fra", "down");
        let begun = Instant::now();
        thread::sleep(span as u32 * SECOND);
        row.set("fra", "up");
        outage = begun.elapsed();
    };
    let middle = (BYTES as u64 / 2, &mut happens as &mut dyn FnMut(&mut Row));
    let ended = copy(&mut row, "data lon:copy", Some(middle));
    judge(&row, "outage", &ended, calm, outage);
}

#[test]
#[ignore = "a goal: minutes, root, a quiet machine"]
fn goals_a_relay_that_is_killed_is_gone_around() {
    let cable = |a, b| (a, b, Some(KBIT));
    let ring = [
        cable("ams", "fra"),
        cable("fra", "lon"),
        cable("lon", "par"),
        cable("par", "ams"),
    ];
    let mut row = Row::new("goal-around", &ring);
    fs::write(row.world.dir.join("data"), noise(BYTES)).unwrap();
    let calm = undisturbed(&mut row, "data lon:copy");
    for _ in 0..3 {
        let mut killed = None;
        let mut happens = |row: &mut Row| {
            let has_it = |name: &&&str| row.world.status(name)["bulk"]["active"] == 1;
            let relay = *["fra", "par"].iter().find(has_it).unwrap();
            row.world.kill(relay);
            killed = Some(relay);
        };
        let middle = (BYTES as u64 / 2, &mut happens as &mut dyn FnMut(&mut Row));
        let ended = copy(&mut row, "data lon:copy", Some(middle));
        let what = "a relay killed, and another path";
        judge(&row, what, &ended, calm, Duration::ZERO);
        row.launch(killed.unwrap());
        row.wait_until_ready();
    }
}

#[test]
#[ignore = "a goal: minutes, root, a quiet machine"]
fn goals_the_only_relay_that_is_killed_is_waited_for() {
    let mut row = Row::of_three("goal-waits", Some(KBIT));
    fs::write(row.world.dir.join("data"), noise(BYTES)).unwrap();
    let calm = undisturbed(&mut row, "data lon:copy");
    for _ in 0..3 {
        let mut outage = Duration::ZERO;
        let mut happens = |row: &mut Row| {
            row.world.kill("fra");
            let begun = Instant::now();
            thread::sleep(AWAY);
            outage = begun.elapsed();
            row.launch("fra");
        };
        let middle = (BYTES as u64 / 2, &mut happens as &mut dyn FnMut(&mut Row));
        let ended = copy(&mut row, "data lon:copy", Some(middle));
        let what = "the only relay killed";
        judge(&row, what, &ended, calm, outage);
    }
}

/// The limit for three targets, as a factor of the time that a copy to one target takes.
const THREE_TARGETS: f64 = 1.2;
/// The limit for the bytes on the shared segment: each byte should cross it once.
const ONCE: f64 = 1.05;

#[test]
#[ignore = "a goal: a minute, root, a quiet machine"]
fn goals_three_targets_behind_one_segment_take_as_long_as_one() {
    let star = [
        ("ams", "fra", Some(KBIT)),
        ("fra", "lon", None),
        ("fra", "par", None),
        ("fra", "rom", None),
    ];
    let mut row = Row::new("goal-three", &star);
    fs::write(row.world.dir.join("data"), noise(BYTES)).unwrap();
    let one = undisturbed(&mut row, "data lon:copy");
    let three = copy(&mut row, "data lon:copy par:copy rom:copy", None);
    let time = three.took.as_secs_f64() / one.0.as_secs_f64();
    let bytes = three.sent as f64 / one.1 as f64;
    println!(
        "three targets: {:.1} s, one {:.1} s: {time:.3} of the time, {bytes:.3} of the bytes",
        three.took.as_secs_f64(),
        one.0.as_secs_f64()
    );
    for name in ["lon", "par", "rom"] {
        assert!(fs::read(row.root(name).join("copy")).unwrap() == noise(BYTES));
    }
    assert!(time <= THREE_TARGETS, "{time}");
    assert!(bytes <= ONCE, "{bytes}");
}

/// How long after one target has stopped the others must have their copies. No copy of this size takes a second.
const STALLED: Duration = Duration::from_secs(60);

#[test]
#[ignore = "a goal: a minute"]
fn goals_a_target_that_takes_nothing_costs_only_itself() {
    let chain = Chain::new("goal-stalled", 3);
    let data = fs::read(chain.file("data", BYTES)).unwrap();
    let copies = ["fra", "lon"].map(|node| chain.root(node).join("copy"));
    let mut child = chain.begin_cp("data fra:copy lon:copy");
    within(PATIENCE, "it has begun", || part(&copies[1]).exists());
    chain.signal("lon", "-STOP");
    let begun = Instant::now();
    assert!(!copies[0].exists(), "it was over too soon");
    within(STALLED, "fra has its copy", || copies[0].exists());
    println!(
        "a target that takes nothing: the other one has its copy after {:.1} s",
        begun.elapsed().as_secs_f64()
    );
    assert!(child.try_wait().unwrap().is_none(), "it waits for lon");
    chain.signal("lon", "-CONT");
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(copies.iter().all(|copy| fs::read(copy).unwrap() == data));
}

const FILES: usize = 100_000;
const TOUCHED: usize = FILES / 100;
const UNREADABLE: usize = FILES / 1000;
const KILLS: usize = 50;
/// The limit for repeated bytes at each kill, as a share of all that the target receives.
const AGAIN: f64 = 0.02;

/// Makes directories with [`FILES`] files of 1 to 20 kB.
fn tree(at: &Path) {
    let content = noise(20_000 + FILES);
    for i in 0..FILES {
        let dir = at.join(format!("d{:02}", i % 100));
        if i < 100 {
            fs::create_dir_all(&dir).unwrap();
        }
        let len = 1_000 + i * 7_919 % 19_000;
        fs::write(dir.join(format!("f{i:06}")), &content[i..i + len]).unwrap();
    }
}

/// Writes other content of the same length to every hundredth file.
fn touch(at: &Path) {
    for i in (0..FILES).step_by(FILES / TOUCHED) {
        let path = at.join(format!("d{:02}/f{i:06}", i % 100));
        let len = fs::metadata(&path).unwrap().len();
        fs::write(&path, vec![i as u8; len as usize]).unwrap();
    }
}

/// Asserts that times and permissions of everything below are the same, too.
fn same_times(a: &Path, b: &Path) {
    for name in names(a) {
        let (a, b) = (a.join(&name), b.join(&name));
        let [one, other] = [&a, &b].map(|path| fs::symlink_metadata(path).unwrap());
        let of = |found: &fs::Metadata| (found.mtime(), found.mtime_nsec(), found.mode());
        assert_eq!(of(&one), of(&other), "{}", b.display());
        if one.is_dir() {
            same_times(&a, &b);
        }
    }
}

/// The unreadable files are sockets, because root can read a file of any mode.
#[test]
#[ignore = "a goal: ten minutes, root, a quiet machine, 4 GB of disk"]
fn goals_a_hundred_thousand_files_survive_fifty_kills() {
    let mut row = Row::of_three("goal-kills", None);
    let from = row.world.dir.join("tree");
    tree(&from);
    let before = row.received("lon");
    let first = row.cp("tree/ lon:first --no-probe").output().unwrap();
    assert!(first.status.success(), "{}", failure(&first).1);
    let all = row.received("lon") - before;
    fs::remove_dir_all(row.root("lon").join("first")).unwrap();
    let socket = |i: usize| from.join(format!("d{:02}/socket{i:03}", i % 100));
    for i in 0..UNREADABLE {
        UnixListener::bind(socket(i)).unwrap();
    }
    // If no cable limits the rate, a segment stays unknown. The bytes of probes count here, too.
    let words = "tree/ lon:copy --skip-errors";
    let before = row.received("lon");
    let (mut seed, mut killed, mut most) = (1u64, 0, 0);
    for turn in 0..KILLS {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // All kills together come before the end of the data, so the copy is not over before the last one.
        let after = (seed >> 33) % (2 * all / (KILLS as u64 + 1));
        let who = ["cp", "ams", "fra", "lon"][turn % 4];
        let (had, begun) = (row.received("lon"), Instant::now());
        let mut child = row.cp(&format!("{words} --give-up 0")).spawn().unwrap();
        let mut is_over = false;
        within(PATIENCE, "so much has come", || {
            is_over = child.try_wait().unwrap().is_some();
            is_over || row.received("lon") - had >= after
        });
        killed += usize::from(!is_over);
        match who {
            "cp" => child.kill().unwrap(),
            _ => row.world.kill(who),
        }
        let output = child.wait_with_output().unwrap();
        assert!(!output.status.success() || who == "cp", "turn {turn}");
        if who != "cp" {
            row.launch(who);
            row.wait_until_ready();
        }
        most = most.max(row.received("lon") - had);
        println!(
            "kill {turn} of {who} after {after} bytes, {:.1} s",
            begun.elapsed().as_secs_f64()
        );
        if turn == KILLS / 2 {
            touch(&from);
        }
    }
    let output = row.cp(words).output().unwrap();
    let came = row.received("lon") - before;
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let again = came.saturating_sub(all) as f64 / KILLS as f64 / all as f64;
    println!(
        "{killed} kills of {FILES} files: {came} bytes came, {all} of one undisturbed copy: {:.2} % of it again per kill, \
         with heads and what was touched",
        again * 100.0
    );
    assert_eq!(killed, KILLS, "it was over before the last kill");
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said["spared_count"], UNREADABLE, "{said}");
    for i in 0..UNREADABLE {
        fs::remove_file(socket(i)).unwrap();
    }
    assert_eq!(names(&row.root("lon")), ["copy"]);
    let copy = row.root("lon").join("copy");
    same(&from, &copy);
    // This includes directories that contained a socket: the copy does not treat that as a change of the source.
    for dir in names(&from) {
        same_times(&from.join(&dir), &copy.join(&dir));
    }
    assert!(again <= AGAIN, "{again}");
}

/// The limit for a second run with as many unchanged files.
const FILES_S: f64 = 5.0;
const SPARSE_BYTES: u64 = 100_000_000_000;
const SPARSE_S: f64 = 1.0;

#[test]
#[ignore = "a goal: two minutes, a quiet machine, 2 GB of disk"]
fn goals_a_second_run_of_a_hundred_thousand_files_takes_seconds() {
    let chain = Chain::new("goal-again", 2);
    let from = chain.world.dir.join("tree");
    tree(&from);
    assert_eq!(sent(&chain.cp("tree/ fra:copy")).0, FILES as u64);
    let begun = Instant::now();
    let done = chain.cp("tree/ fra:copy");
    let took_s = begun.elapsed().as_secs_f64();
    println!("second run of {FILES} files: {took_s:.2} s");
    assert_eq!(sent(&done), (0, 0), "{done}");
    touch(&from);
    let begun = Instant::now();
    let done = chain.cp("tree/ fra:copy");
    println!(
        "{TOUCHED} of them touched: {:.2} s",
        begun.elapsed().as_secs_f64()
    );
    assert_eq!(sent(&done).0, TOUCHED as u64, "{done}");
    let copy = chain.root("fra").join("copy");
    same(&from, &copy);
    same_times(&from, &copy);
    assert!(took_s <= FILES_S, "{took_s} s");
}

#[test]
#[ignore = "a goal: minutes, a quiet machine"]
fn goals_a_second_run_of_a_large_sparse_file_takes_a_second() {
    let chain = Chain::new("goal-sparse", 2);
    let file = fs::File::create(chain.world.dir.join("sparse")).unwrap();
    file.set_len(SPARSE_BYTES).unwrap();
    for at in [0, SPARSE_BYTES / 2, SPARSE_BYTES - 13] {
        file.write_all_at(b"thirteen here", at).unwrap();
    }
    let begun = Instant::now();
    chain.cp("sparse fra:copy");
    let first_s = begun.elapsed().as_secs_f64();
    let begun = Instant::now();
    let done = chain.cp("sparse fra:copy");
    let took_s = begun.elapsed().as_secs_f64();
    println!("{SPARSE_BYTES} bytes with holes: {first_s:.1} s, and again {took_s:.2} s");
    assert_eq!(sent(&done), (0, 0), "{done}");
    let found = fs::File::open(chain.root("fra").join("copy")).unwrap();
    let about = found.metadata().unwrap();
    assert_eq!(about.len(), SPARSE_BYTES);
    assert!(about.blocks() * 512 < 1_000_000, "{}", about.blocks());
    for at in [0, SPARSE_BYTES / 2, SPARSE_BYTES - 13] {
        let mut bytes = [0; 13];
        found.read_exact_at(&mut bytes, at).unwrap();
        assert_eq!(&bytes, b"thirteen here");
    }
    assert!(took_s <= SPARSE_S, "{took_s} s");
}
