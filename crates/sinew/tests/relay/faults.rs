//! Faults on the path: a file that looks complete must be complete.

use crate::chain::{Chain, names, noise, part};
use crate::world::failure;
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;

/// Forwards TCP to `to`, and flips one bit of each plain data connection, at this position.
fn flipping(to: SocketAddr, at: usize) -> SocketAddr {
    let listener = TcpListener::bind((to.ip(), 0)).unwrap();
    let own = listener.local_addr().unwrap();
    thread::spawn(move || {
        for near in listener.incoming() {
            let (Ok(near), Ok(far)) = (near, TcpStream::connect(to)) else {
                return;
            };
            let (near2, far2) = (near.try_clone().unwrap(), far.try_clone().unwrap());
            thread::spawn(move || carry(near, far, Some(at)));
            thread::spawn(move || carry(far2, near2, None));
        }
    });
    own
}

fn carry(mut from: TcpStream, mut to: TcpStream, flip: Option<usize>) {
    let mut bytes = vec![0; 65_536];
    let (mut passed, mut is_plain) = (0, false);
    while let Ok(len @ 1..) = from.read(&mut bytes) {
        is_plain |= passed == 0 && bytes[0] == b'S';
        if let Some(at) = flip.filter(|at| is_plain && (passed..passed + len).contains(at)) {
            bytes[at - passed] ^= 0x10;
        }
        passed += len;
        if to.write_all(&bytes[..len]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

#[test]
fn a_corrupted_stripe_is_caught_by_the_seal_or_the_digest() {
    let chain = Chain::new("cp-corrupt", 2);
    chain.file("data", 3_000_000);
    for (at, plain) in [200, 5_000, 1_000_000, 2_999_000]
        .into_iter()
        .flat_map(|at| [(at, ""), (at, "--plain")])
    {
        let proxy = flipping(chain.world.endpoint(2), at);
        let (status, text) =
            failure(&chain.try_cp(&format!("data fra:copy --fresh {plain} --via fra@{proxy}")));
        assert!(status == 1 && !text.is_empty(), "{at}: {text}");
        let is_sealed = plain.is_empty();
        assert!(!is_sealed || text.contains("changed on the way"), "{text}");
        assert!(!chain.root("fra").join("copy").exists(), "{at}");
    }
    // Other copies are not affected.
    chain.cp("data fra:copy");
    assert_eq!(names(&chain.root("fra")), ["copy"]);
}

#[test]
fn a_file_that_changes_while_it_is_copied_is_no_copy() {
    let chain = Chain::new("cp-changed", 2);
    let data = chain.world.dir.join("data");
    // More data than can be in flight at any time.
    fs::write(&data, vec![0; 200_000_000]).unwrap();
    chain.signal("fra", "-STOP");
    let child = chain.begin_cp("data fra:copy --plain");
    // The other side does not answer: it has read nothing, or as much as the buffers hold.
    thread::sleep(std::time::Duration::from_millis(200));
    chain.signal("fra", "-CONT");
    let target = chain.root("fra").join("copy");
    chain.world.wait("it has begun", || part(&target).exists());
    chain.signal("fra", "-STOP");
    fs::File::options()
        .append(true)
        .open(&data)
        .unwrap()
        .write_all(b"more")
        .unwrap();
    chain.signal("fra", "-CONT");
    let output = child.wait_with_output().unwrap();
    let (status, text) = failure(&output);
    assert!(status == 1 && text.contains("has changed"), "{text}");
    assert!(!target.exists());
    let done = chain.cp("data fra:copy --plain");
    assert_eq!(fs::metadata(&target).unwrap().len(), 200_000_004, "{done}");
}

#[test]
fn with_skip_errors_a_file_that_changes_costs_only_itself() {
    let chain = Chain::new("cp-changed-spared", 2);
    let tree = chain.world.dir.join("tree");
    fs::create_dir(&tree).unwrap();
    for name in ["a", "z"] {
        fs::write(tree.join(name), name).unwrap();
    }
    // More data than can be in flight at any time.
    fs::write(tree.join("big"), vec![0; 200_000_000]).unwrap();
    chain.signal("fra", "-STOP");
    let child = chain.begin_cp("tree/ fra:copy --plain --skip-errors --no-probe");
    let target = chain.root("fra").join("copy");
    chain.signal("fra", "-CONT");
    let there = part(&target).join(".big.sinew-part");
    chain.world.wait("it has begun", || there.exists());
    chain.signal("fra", "-STOP");
    let mut big = fs::File::options().append(true).open(tree.join("big"));
    big.as_mut().unwrap().write_all(b"more").unwrap();
    chain.signal("fra", "-CONT");
    let output = child.wait_with_output().unwrap();
    let (status, text) = failure(&output);
    assert!(
        status == 1 && text.contains("1 could not be read") && text.contains("  big: "),
        "{text}"
    );
    let done: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(done["spared_count"], 1, "{done}");
    assert_eq!(done["spared"][0]["path"], "big", "{done}");
    assert_eq!(names(&target), ["a", "z"], "nothing of it is left");
    // The next run copies it.
    let done = chain.cp("tree/ fra:copy --plain --skip-errors --no-probe");
    assert_eq!(done["files"], 1, "{done}");
    assert_eq!(fs::metadata(target.join("big")).unwrap().len(), 200_000_004);
}

/// Mounts a file system of 2 MiB on a directory, if that is permitted.
fn mount(small: &Path) -> bool {
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=2m", "none"])
        .arg(small)
        .output();
    let is_mounted = mounted.is_ok_and(|output| output.status.success());
    if !is_mounted {
        eprintln!("SKIPPED: no file system may be mounted here: run it as root");
    }
    is_mounted
}

#[test]
fn a_full_disk_is_said_and_leaves_no_file_under_the_name() {
    let chain = Chain::new("cp-full", 2);
    let small = chain.root("fra").join("small");
    fs::create_dir(&small).unwrap();
    if !mount(&small) {
        return;
    }
    chain.file("data", 5_000_000);
    let output = chain.try_cp("data fra:small/copy");
    let left = names(&small);
    let unmounted = Command::new("umount").arg(&small).status().unwrap();
    let (status, text) = failure(&output);
    assert!(unmounted.success());
    assert!(
        status == 1 && text.contains("fra: ") && text.contains("make room"),
        "{text}"
    );
    assert!(!left.contains(&"copy".to_owned()), "{left:?}");
}

#[test]
fn a_tree_without_room_is_refused_before_its_first_file() {
    let chain = Chain::new("cp-full-tree", 2);
    let small = chain.root("fra").join("small");
    fs::create_dir(&small).unwrap();
    if !mount(&small) {
        return;
    }
    let tree = chain.world.dir.join("tree");
    fs::create_dir(&tree).unwrap();
    for name in ["a", "b", "c", "d"] {
        fs::write(tree.join(name), noise(700_000)).unwrap();
    }
    let output = chain.try_cp("tree fra:small");
    // A sink removes its journal after it has answered the source.
    chain
        .world
        .wait("nothing is left there", || names(&small).is_empty());
    let elsewhere = chain.cp("tree fra:tree");
    let unmounted = Command::new("umount").arg(&small).status().unwrap();
    let (status, text) = failure(&output);
    assert!(unmounted.success());
    assert!(
        status == 1 && text.contains("2.8 MB are to come") && text.contains("make room"),
        "{text}"
    );
    assert_eq!(elsewhere["files"], 4, "{elsewhere}");
}

#[test]
fn who_is_no_node_of_the_network_gets_nowhere() {
    let chain = Chain::new("cp-stranger", 2);
    let at = chain.world.endpoint(2);
    // A control connection without TLS, a stripe without a transfer, and noise: the node closes
    // each without an answer.
    let preamble = |role| [&b"SNRL"[..], &[*wire::relay::VERSIONS.end(), role, 0, 0]].concat();
    let mut stripe = preamble(1);
    stripe.extend([7; 48]);
    for bytes in [preamble(0), stripe, noise(100)] {
        let mut stream = TcpStream::connect(at).unwrap();
        stream.write_all(&bytes).unwrap();
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.len() < 64, "{answer:?}");
    }
    chain.file("data", 1_000);
    chain.cp("data fra:copy");
}
