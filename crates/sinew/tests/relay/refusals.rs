//! Refused copies, and their messages.

use crate::chain::{Chain, names};
use crate::world::failure;
use std::fs;
use std::os::unix::fs::symlink;

#[test]
fn nothing_outside_the_roots_is_written_or_read() {
    let chain = Chain::new("cp-refused", 3);
    chain.file("data", 1_000);
    let root = chain.root("fra");
    symlink("..", root.join("up")).unwrap();
    symlink("../data", root.join("out")).unwrap();
    let outside = chain.world.dir.join("victim");
    for path in [
        "../victim",
        "a/../../victim",
        "up/victim",
        "/tmp/victim",
        outside.to_str().unwrap(),
    ] {
        let (status, text) = failure(&chain.try_cp(&format!("data fra:{path}")));
        assert!(status == 1 && text.contains("fra: "), "{path}: {text}");
        assert!(!outside.exists(), "{path}");
    }
    for path in ["../data", "up/data", "/etc/hostname", "nothing"] {
        let (status, text) = failure(&chain.try_cp(&format!("fra:{path} got")));
        assert!(status == 1 && text.contains("fra: "), "{path}: {text}");
        assert!(!chain.world.dir.join("got").exists());
    }
    // The copy does not write through a link: it replaces the link.
    chain.cp("data fra:out");
    assert!(fs::symlink_metadata(root.join("out")).unwrap().is_file());
    assert_eq!(names(&root), ["out", "up"]);
}

#[test]
fn a_relay_dials_for_others_only_nodes_that_it_knows_and_what_is_listed() {
    let mut chain = Chain::stopped("cp-dials", 3);
    let lon = chain.world.endpoint(3);
    chain.start();
    chain.file("data", 1_000);
    for at in ["127.0.0.1:9", "localhost:22", "169.254.169.254:80"] {
        let words = format!("data lon:x --via fra,lon@{at}");
        let (status, text) = failure(&chain.try_cp(&words));
        assert!(
            status == 1 && text.contains("`[relay] allow`"),
            "{at}: {text}"
        );
    }
    // A known address of the node, and an address that the operator of the first node names
    // himself.
    chain.cp(&format!("data lon:x --via fra,lon@{lon}"));
    chain.cp(&format!("data lon:y --via lon@{lon}"));
    let (status, text) = failure(&chain.try_cp("data lon:x --via lon@127.0.0.1:9"));
    assert!(status == 1 && text.contains("cannot reach"), "{text}");
    // A listed address.
    chain.world.stop("fra");
    chain.append("fra", "allow = [\"127.0.0.1:9\"]");
    chain.world.start("fra");
    chain.wait_for_links();
    let (status, text) = failure(&chain.try_cp("data lon:x --via fra,lon@127.0.0.1:9"));
    assert!(status == 1 && text.contains("cannot reach"), "{text}");
}

#[test]
fn a_directory_that_only_gives_keeps_nothing() {
    let mut chain = Chain::stopped("cp-rights", 2);
    let path = chain.world.node("fra").join("node.toml");
    let text = fs::read_to_string(&path).unwrap();
    let root = chain.root("fra");
    let open = format!("roots = [{root:?}]");
    assert!(text.contains(&open), "{text}");
    let given = format!("roots = [{{ path = {root:?}, write = false }}]");
    fs::write(&path, text.replace(&open, &given)).unwrap();
    chain.start();
    fs::write(root.join("data"), "given").unwrap();
    chain.cp("fra:data got");
    let (status, text) = failure(&chain.try_cp("got fra:data"));
    assert!(status == 1 && text.contains("write = false"), "{text}");
    assert_eq!(fs::read(root.join("data")).unwrap(), b"given");
}

#[test]
fn a_directory_is_for_the_nodes_that_it_names() {
    let mut chain = Chain::stopped("cp-from", 3);
    let path = chain.world.node("lon").join("node.toml");
    let text = fs::read_to_string(&path).unwrap();
    let root = chain.root("lon");
    let open = format!("roots = [{root:?}]");
    assert!(text.contains(&open), "{text}");
    chain.world.sinew("net set net ams --tag backup");
    let of_ams = format!("roots = [{{ path = {root:?}, from = [\"tag:backup\"] }}]");
    fs::write(&path, text.replace(&open, &of_ams)).unwrap();
    chain.start();
    chain.file("data", 1_000);
    // A copy over fra is permitted, but fra's own copy is not.
    chain.cp("data lon:data --via fra,lon");
    chain.cp("lon:data got --via fra,lon");
    let (status, text) = failure(&chain.world.try_sinew("cp data lon:other --node net/fra"));
    assert!(
        status == 1 && text.contains("not for fra: add it to `from`"),
        "{text}"
    );
    let (status, text) = failure(&chain.world.try_sinew("cp lon:data again --node net/fra"));
    assert!(status == 1 && text.contains("not for fra"), "{text}");
    // The operator of the node itself has access.
    chain.world.json("cp data lon:own --node net/lon");
    assert_eq!(names(&root), ["data", "own"]);
    // A root inside it that is for all would bypass the rule.
    chain.world.stop("lon");
    let nested = format!(
        "roots = [{root:?}, {{ path = {:?}, from = [\"ams\"] }}]",
        root.join("in")
    );
    fs::write(&path, text_with(&path, &of_ams, &nested)).unwrap();
    let (status, text) = failure(&chain.world.try_sinew("node --config net/lon/node.toml"));
    assert!(
        status != 0 && text.contains("a link in there could lead around"),
        "{text}"
    );
    // An invited host chooses the beginning of its name.
    let begins = of_ams.replace("tag:backup", "am*");
    fs::write(&path, text_with(&path, &nested, &begins)).unwrap();
    let (status, text) = failure(&chain.world.try_sinew("node --config net/lon/node.toml"));
    assert!(
        status != 0 && text.contains("`am*`: `*` may only"),
        "{text}"
    );
}

fn text_with(path: &std::path::Path, from: &str, to: &str) -> String {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "{text}");
    text.replace(from, to)
}

#[test]
fn what_is_there_stays_where_that_is_asked() {
    let chain = Chain::new("cp-no-clobber", 2);
    chain.file("data", 1_000);
    let there = chain.root("fra").join("there");
    fs::write(&there, "old").unwrap();
    let output = chain.try_cp("data fra:there --no-clobber --json");
    let (status, text) = failure(&output);
    assert!(status == 1 && text.contains("stays as it is"), "{text}");
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&said["kind"], &said["node"]),
        (&"exists".into(), &"10.7.0.2".into())
    );
    fs::write(chain.world.dir.join("got"), "old").unwrap();
    let (status, text) = failure(&chain.try_cp("fra:there got --no-clobber"));
    assert!(status == 1 && text.contains("stays as it is"), "{text}");
    chain.cp("data fra:new --no-clobber");
    assert_eq!(fs::read(there).unwrap(), b"old");
    assert_eq!(names(&chain.root("fra")), ["new", "there"]);
}

#[test]
fn what_cannot_be_is_said_with_the_node_and_the_remedy() {
    let mut chain = Chain::stopped("cp-words", 3);
    let path = chain.world.node("lon").join("node.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.split("[relay]").next().unwrap()).unwrap();
    chain.start();
    chain.file("data", 1_000);
    fs::create_dir(chain.root("fra").join("dir")).unwrap();
    fs::create_dir(chain.world.dir.join("tree")).unwrap();
    for (words, status, expected) in [
        ("data lon:x", 1, "lon: this node keeps and gives no files"),
        ("data lon:x --direct", 1, "no neighbour"),
        ("data fra:x --congestion nonsense", 1, "this host has"),
        ("data fra:x --stripes 0", 2, "write 1 to 32"),
        ("data fra:x --stripes 1,2", 2, "1 segments"),
        ("data nowhere:x", 2, "nowhere"),
        ("missing fra:x", 1, "missing"),
        ("data fra:missing/x", 1, "fra: "),
        ("tree fra:dir/.. ", 1, "without `..`"),
        ("data other", 2, "NODE:PATH"),
        ("data fra:x --via lon", 1, "no neighbour"),
    ] {
        let (got, text) = failure(&chain.try_cp(words));
        assert!(
            got == status && text.contains(expected),
            "{words}: {got} {text}"
        );
    }
    // A directory does not replace a file.
    fs::write(chain.root("fra").join("dir/tree"), "x").unwrap();
    let (_, text) = failure(&chain.try_cp("tree fra:dir"));
    assert!(text.contains("remove it, or choose another name"), "{text}");
    // A sink removes its journal after it has answered the source.
    let root = chain.root("fra");
    chain.world.wait("nothing is left of what was refused", || {
        names(&root) == ["dir"]
    });
}

#[test]
fn a_node_takes_part_in_so_many_transfers_and_a_target_has_one_writer() {
    let mut chain = Chain::stopped("cp-busy", 2);
    chain.append("fra", "transfers = 1");
    chain.start();
    chain.file("data", 1_000);
    let mut holder = std::process::Command::new(env!("CARGO_BIN_EXE_sinew"))
        .current_dir(&chain.world.dir)
        .args(["cp", "-", "fra:held", "--node", "net/ams"])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let part = crate::chain::part(&chain.root("fra").join("held"));
    chain
        .world
        .wait("the first transfer has begun", || part.exists());
    let (status, text) = failure(&chain.try_cp("data fra:other --give-up 0"));
    assert!(
        status == 1 && text.contains("fra: ") && text.contains("relay] transfers"),
        "{text}"
    );
    drop(holder.stdin.take());
    assert!(holder.wait().unwrap().success());
    chain.world.wait("the place is free again", || {
        chain.try_cp("data fra:other").status.success()
    });
}

#[test]
fn the_second_writer_of_a_target_is_told_and_the_first_can_be_ended_there() {
    let chain = Chain::new("cp-locked", 2);
    chain.file("data", 1_000);
    let mut holder = std::process::Command::new(env!("CARGO_BIN_EXE_sinew"))
        .current_dir(&chain.world.dir)
        .args(["cp", "-", "fra:held", "--node", "net/ams"])
        .stdin(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let part = crate::chain::part(&chain.root("fra").join("held"));
    chain
        .world
        .wait("the first transfer has begun", || part.exists());
    let (status, text) = failure(&chain.try_cp("data fra:held"));
    assert!(
        status == 1 && text.contains("another transfer writes `held`"),
        "{text}"
    );
    // The operator of the target's node can end a transfer that another user has begun.
    let id = chain.world.status("fra")["bulk"]["transfers"][0]["id"].clone();
    let id = &id.as_str().unwrap()[..8];
    let cancel = |which: &str| {
        let words = format!("transfers cancel {which} --node net/fra");
        chain.world.try_sinew(&words)
    };
    for (which, why) in [
        ("00000000", "no such transfer"),
        (&id[..7], "8 hexadecimal"),
    ] {
        let (status, text) = failure(&cancel(which));
        assert!(status == 1 && text.contains(why), "{text}");
    }
    let cancelled = cancel(id);
    assert!(cancelled.status.success(), "{cancelled:?}");
    chain.world.wait("the place is free", || {
        chain.world.status("fra")["bulk"]["active"] == 0
    });
    drop(holder.stdin.take());
    let ended = holder.wait_with_output().unwrap();
    let (status, text) = failure(&ended);
    assert!(
        status == 1 && text.contains("cancelled by the operator"),
        "{text}"
    );
    chain.cp("data fra:held");
    assert_eq!(names(&chain.root("fra")), ["held"]);
}
