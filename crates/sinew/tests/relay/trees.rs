//! Directories that are copied again: only changes are sent, and a file that cannot be read affects only itself.

use crate::chain::{Chain, names, noise, part};
use crate::world::failure;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

fn tree(chain: &Chain, files: usize) -> std::path::PathBuf {
    let tree = chain.world.dir.join("tree");
    fs::create_dir_all(tree.join("sub")).unwrap();
    for i in 0..files {
        fs::write(tree.join(format!("sub/f{i:03}")), noise(1_000 + i)).unwrap();
    }
    fs::write(tree.join("large"), noise(3_000_000)).unwrap();
    symlink("large", tree.join("link")).unwrap();
    tree
}

pub(crate) fn same(a: &Path, b: &Path) {
    assert_eq!(names(a), names(b), "{}", b.display());
    for name in names(a) {
        let (a, b) = (a.join(&name), b.join(&name));
        match fs::symlink_metadata(&a).unwrap() {
            found if found.is_dir() => same(&a, &b),
            found if found.is_symlink() => {
                assert_eq!(fs::read_link(&a).unwrap(), fs::read_link(&b).unwrap());
            }
            _ => assert!(
                fs::read(&a).unwrap() == fs::read(&b).unwrap(),
                "{}",
                b.display()
            ),
        }
    }
}

pub(crate) fn sent(done: &Value) -> (u64, u64) {
    let count = |name: &str| done[name].as_u64().unwrap();
    (count("files"), count("bytes"))
}

#[test]
fn a_second_run_sends_what_changed_and_nothing_else() {
    let chain = Chain::new("cp-again", 3);
    let tree = tree(&chain, 100);
    let there = chain.root("lon").join("tree");
    let first = chain.cp("tree/ lon:tree");
    assert_eq!(sent(&first).0, 101, "{first}");
    let second = chain.cp("tree/ lon:tree");
    assert_eq!(sent(&second), (0, 0), "{second}");
    assert_eq!(second["resumed_entries"], 102, "{second}");
    // Only a touched file and a new one are sent, and files that only the target has stay.
    fs::write(tree.join("sub/f007"), "changed").unwrap();
    fs::write(tree.join("sub/f0071"), "new").unwrap();
    fs::remove_file(tree.join("sub/f010")).unwrap();
    fs::write(there.join("sub/own"), "own").unwrap();
    let planned = chain.try_cp("tree/ lon:tree -n");
    assert_eq!(
        String::from_utf8_lossy(&planned.stdout),
        "sub/f007\nsub/f0071\n"
    );
    assert_ne!(fs::read(there.join("sub/f007")).unwrap(), b"changed");
    // The node that has the target reports what would be removed. This works behind a relay, and excluded files are not
    // mentioned.
    let lines = |words: &str| {
        let output = chain.try_cp(words);
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(
        lines("tree/ lon:tree -n --delete --exclude f007* --exclude large"),
        ["deleting sub/f010", "deleting sub/own"]
    );
    assert!(there.join("sub/own").exists() && there.join("sub/f010").exists());
    let told = chain.cp("tree/ lon:tree -n --delete");
    assert_eq!(
        (&told["would_send"], &told["would_delete"]),
        (&2.into(), &2.into())
    );
    fs::create_dir_all(chain.world.dir.join("old/tree/sub/deep")).unwrap();
    fs::write(chain.world.dir.join("old/tree/sub/deep/x"), "x").unwrap();
    let pulled = lines("lon:tree old -n --delete");
    assert_eq!(
        pulled
            .iter()
            .filter(|line| line.starts_with("deleting "))
            .count(),
        1,
        "{pulled:?}"
    );
    assert!(
        pulled.contains(&"deleting sub/deep".to_owned()),
        "{pulled:?}"
    );
    let third = chain.cp("tree/ lon:tree");
    assert_eq!(sent(&third), (2, 10), "{third}");
    assert!(there.join("sub/own").exists() && there.join("sub/f010").exists());
    chain.cp("tree/ lon:tree --delete");
    same(&tree, &there);
    // And back.
    assert_eq!(sent(&chain.cp("lon:tree back")).0, 101);
    same(&tree, &chain.world.dir.join("back"));
    fs::create_dir(chain.world.dir.join("into")).unwrap();
    chain.cp("lon:tree into");
    assert_eq!(sent(&chain.cp("lon:tree into")), (0, 0));
    same(&tree, &chain.world.dir.join("into/tree"));
    // With a slash at its end, the source's content is copied, whether the target exists or not.
    assert_eq!(sent(&chain.cp("lon:tree/ back")), (0, 0));
    fs::create_dir(chain.world.dir.join("content")).unwrap();
    for times in 0..2 {
        let counts = sent(&chain.cp("lon:tree/ content"));
        assert_eq!(counts.0, [101, 0][times]);
        same(&tree, &chain.world.dir.join("content"));
    }
    // A file that is already there is not sent, unless an option asks for it.
    chain.cp("tree/large lon:large");
    assert_eq!(sent(&chain.cp("tree/large lon:large")), (0, 0));
    assert_eq!(
        sent(&chain.cp("tree/large lon:large --fresh")),
        (1, 3_000_000)
    );
}

/// Returns the bytes on the first segment.
fn carried(done: &Value) -> u64 {
    done["segments"][0]["bytes"].as_u64().unwrap()
}

/// Sets a file's time, like `touch`.
fn touch(path: &Path, at_s: u64) {
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(at_s);
    let file = fs::File::options().append(true).open(path).unwrap();
    file.set_times(fs::FileTimes::new().set_modified(time))
        .unwrap();
}

#[test]
fn of_a_large_file_only_what_changed_is_sent() {
    const MIB: u64 = 1 << 20;
    let chain = Chain::new("cp-pieces", 3);
    let tree = chain.world.dir.join("tree");
    fs::create_dir(&tree).unwrap();
    let big = tree.join("big");
    let mut content = noise(20 * MIB as usize + 12_345);
    fs::write(&big, &content).unwrap();
    chain.cp("tree/ lon:tree");
    let there = chain.root("lon").join("tree/big");
    let inode = fs::metadata(&there).unwrap().ino();
    // The file is touched and has other permissions: both ends read it, and nothing is sent.
    touch(&big, 1_000_000_000);
    let done = chain.cp("tree/ lon:tree");
    assert_eq!(sent(&done), (1, 0), "{done}");
    assert_eq!(done["resumed_bytes"], content.len() as u64, "{done}");
    assert!(carried(&done) < 100_000, "{done}");
    fs::set_permissions(&big, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(sent(&chain.cp("tree/ lon:tree")).1, 0);
    let found = fs::metadata(&there).unwrap();
    let of = (found.mtime(), found.mode() & 0o7777, found.ino());
    assert_eq!(
        of,
        (1_000_000_000, 0o600, inode),
        "it is the same file still"
    );
    assert_eq!(sent(&chain.cp("tree/ lon:tree")), (0, 0));
    // One byte in the middle is changed, and more is appended.
    content[7 * MIB as usize] ^= 1;
    content.extend(noise(2 * MIB as usize));
    fs::write(&big, &content).unwrap();
    let done = chain.cp("tree/ lon:tree");
    let expected = MIB + 12_345 + 2 * MIB;
    assert_eq!(sent(&done), (1, expected), "{done}");
    assert!(fs::read(&there).unwrap() == content);
    // The file is cut: the sink reports nothing about the piece in which it now ends.
    content.truncate(9 * MIB as usize + 1);
    fs::write(&big, &content).unwrap();
    let done = chain.cp("tree/ lon:tree");
    assert_eq!(sent(&done), (1, 1), "{done}");
    assert!(fs::read(&there).unwrap() == content);
    // A copy back, and a single file to two nodes that have different parts of it.
    chain.cp("lon:tree/big back");
    let back = chain.world.dir.join("back");
    touch(&there, 1_000_000_001);
    assert_eq!(sent(&chain.cp("lon:tree/big back")).1, 0);
    assert_eq!(fs::metadata(&back).unwrap().mtime(), 1_000_000_001);
    chain.cp("back fra:one lon:one");
    let at_fra = chain.root("fra").join("one");
    let mut changed = content.clone();
    changed[4 * MIB as usize] ^= 1;
    fs::write(&at_fra, &changed).unwrap();
    touch(&back, 1_000_000_002);
    let done = chain.cp("back fra:one lon:one");
    assert_eq!(sent(&done), (1, MIB), "{done}");
    for node in ["fra", "lon"] {
        let one = chain.root(node).join("one");
        assert!(fs::read(&one).unwrap() == content, "{node}");
        assert_eq!(fs::metadata(&one).unwrap().mtime(), 1_000_000_002);
    }
    // The whole file is sent, if an option asks for it.
    touch(&back, 1_000_000_003);
    let done = chain.cp("back fra:one --fresh");
    assert_eq!(sent(&done), (1, content.len() as u64), "{done}");
}

#[test]
fn what_was_interrupted_goes_on_though_a_file_was_touched() {
    let chain = Chain::new("cp-touched", 2);
    let tree = chain.world.dir.join("tree");
    fs::create_dir(&tree).unwrap();
    for i in 0..60 {
        fs::write(tree.join(format!("f{i:02}")), noise(2_000_000 + i)).unwrap();
    }
    let target = chain.root("fra").join("copy");
    let child = chain.begin_cp("tree fra:copy --stripes 1");
    chain.world.wait("a part of it is there", || {
        part(&target).join("f20").exists()
    });
    chain.signal("fra", "-STOP");
    let mut child = child;
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!target.exists(), "it was over too soon");
    chain.signal("fra", "-CONT");
    fs::write(tree.join("f00"), "touched").unwrap();
    fs::write(tree.join("a-new-one"), "new").unwrap();
    let done = chain.cp("tree fra:copy");
    assert!(done["resumed_entries"].as_u64() >= Some(19), "{done}");
    assert!(sent(&done).1 < 42 * 2_000_100, "{done}");
    same(&tree, &target);
}

#[test]
fn what_cannot_be_read_costs_only_itself() {
    let chain = Chain::new("cp-spared", 2);
    let tree = tree(&chain, 5);
    let _socket = UnixListener::bind(tree.join("sub/a-socket")).unwrap();
    let (status, text) = failure(&chain.try_cp("tree fra:copy"));
    assert!(status == 1 && text.contains("a-socket"), "{text}");
    let output = chain.try_cp("tree fra:copy --skip-errors --json");
    let (status, text) = failure(&output);
    assert!(
        status == 1 && text.contains("1 could not be read") && text.contains("sub/a-socket"),
        "{text}"
    );
    let done: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&done["spared_count"], &done["spared"][0]["path"]),
        (&1.into(), &"sub/a-socket".into())
    );
    let copy = chain.root("fra").join("copy");
    assert_eq!(names(&copy.join("sub")).len(), 5);
    // Excluded files are not removed.
    fs::write(copy.join("sub/a-socket"), "kept").unwrap();
    let again =
        chain.try_cp("tree/ fra:copy --skip-errors --delete --exclude f00* --exclude /large");
    assert_eq!(again.status.code(), Some(1));
    assert_eq!(fs::read(copy.join("sub/a-socket")).unwrap(), b"kept");
    assert!(copy.join("large").exists() && copy.join("sub/f000").exists());
    chain.cp("tree/ fra:without --exclude a-socket --exclude sub/f00?");
    assert_eq!(
        names(&chain.root("fra").join("without")),
        ["large", "link", "sub"]
    );
    assert!(names(&chain.root("fra").join("without/sub")).is_empty());
    // The target of a pull may be a relative path.
    let output = chain.try_cp("fra:copy got --skip-errors --json");
    assert!(output.status.success());
}

#[test]
fn what_is_pulled_leaves_out_what_is_excluded_and_so_does_its_manifest() {
    let chain = Chain::new("cp-excluded", 2);
    let top = chain.root("fra").join("top");
    fs::create_dir_all(top.join("cache")).unwrap();
    fs::create_dir_all(top.join("sub")).unwrap();
    for path in ["a", "b.tmp", "cache/c", "sub/d", "sub/e.tmp"] {
        fs::write(top.join(path), path).unwrap();
    }
    let got = chain.world.dir.join("got");
    let patterns = "--exclude *.tmp --exclude /cache";
    let done = chain.cp(&format!("fra:top got {patterns} --manifest list"));
    assert_eq!(done["files"], 2, "{done}");
    assert_eq!(names(&got), ["a", "sub"]);
    assert_eq!(names(&got.join("sub")), ["d"]);
    let list = || fs::read_to_string(chain.world.dir.join("list")).unwrap();
    let line = |text: &str, path: &str| format!("{}  {path}\n", blake3::hash(text.as_bytes()));
    let expected = format!("{}{}", line("a", "a"), line("sub/d", "sub/d"));
    assert_eq!(list(), expected);
    // Files that are excluded there are not removed here.
    fs::write(got.join("b.tmp"), "own").unwrap();
    fs::write(got.join("strange"), "own").unwrap();
    fs::create_dir(chain.world.dir.join("into")).unwrap();
    fs::rename(&got, chain.world.dir.join("into/top")).unwrap();
    chain.cp(&format!("fra:top into {patterns} --delete --manifest list"));
    assert_eq!(
        names(&chain.world.dir.join("into/top")),
        ["a", "b.tmp", "sub"]
    );
    assert_eq!(list(), expected);
    // Several sources, in the other direction.
    let into = chain.world.dir.join("into/top");
    fs::write(chain.world.dir.join("one.tmp"), "one").unwrap();
    let words = format!("{} one.tmp fra:./ --exclude *.tmp", into.display());
    let output = chain.try_cp(&format!("{words} --manifest list"));
    assert!(output.status.success(), "{output:?}");
    let expected = format!(
        "{}{}{}",
        line("one", "one.tmp"),
        line("a", "top/a"),
        line("sub/d", "top/sub/d")
    );
    assert_eq!(list(), expected, "what is named itself is meant");
    let many = "--exclude x ".repeat(257);
    let (status, text) = failure(&chain.try_cp(&format!("fra:top more {many}")));
    assert!(status == 1 && text.contains("256 patterns"), "{text}");
}

#[test]
fn holes_other_names_and_digests_arrive() {
    let chain = Chain::new("cp-holes", 2);
    let tree = tree(&chain, 3);
    let sparse = fs::File::create(tree.join("sparse")).unwrap();
    sparse.set_len(300_000_000).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"in the middle", 150_000_000).unwrap();
    fs::hard_link(tree.join("large"), tree.join("sub/same")).unwrap();
    let done = chain.cp("tree fra:copy --manifest list");
    let copy = chain.root("fra").join("copy");
    same(&tree, &copy);
    let found = |path: &str| fs::metadata(copy.join(path)).unwrap();
    assert_eq!(found("large").ino(), found("sub/same").ino());
    assert!(found("sparse").blocks() * 512 < 2_000_000, "{done}");
    let carried = done["segments"][0]["bytes"].as_u64().unwrap();
    assert!(carried < 10_000_000, "{done}");
    let digest = |path: &str| blake3::hash(&fs::read(tree.join(path)).unwrap()).to_hex();
    let list = fs::read_to_string(chain.world.dir.join("list")).unwrap();
    for path in ["large", "sparse", "sub/f000", "sub/same"] {
        let line = format!("{}  {path}\n", digest(path));
        assert!(list.contains(&line), "{list}");
    }
    // A second manifest is complete, although nothing is sent.
    chain.cp("tree/ fra:copy --manifest again");
    assert_eq!(
        fs::read_to_string(chain.world.dir.join("again")).unwrap(),
        list
    );
    assert_eq!(sent(&chain.cp("tree/ fra:copy")), (0, 0));
    let one = chain.cp("tree/large fra:one");
    assert_eq!(one["digest"], digest("large").as_str(), "{one}");
    let back = chain.cp("fra:one one");
    assert_eq!(back["digest"], one["digest"], "{back}");
}

#[test]
fn attributes_are_kept_where_the_root_permits_it() {
    let mut chain = Chain::stopped("cp-attributes", 2);
    let tree = chain.world.dir.join("tree");
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("f"), "x").unwrap();
    fs::set_permissions(tree.join("f"), fs::Permissions::from_mode(0o4755)).unwrap();
    if let Err(error) = xattr::set(tree.join("f"), "user.colour", b"blue") {
        eprintln!(
            "SKIPPED: no extended attributes in {}: {error}",
            tree.display()
        );
        return;
    }
    chain.start();
    let refused = chain.try_cp("tree fra:copy -a");
    assert!(failure(&refused).1.contains("owners = true"), "{refused:?}");
    // For a copy to this host, the user who runs it decides.
    fs::rename(&tree, chain.root("fra").join("tree")).unwrap();
    chain.cp("fra:tree got -a");
    let check = |file: &Path| {
        assert_eq!(fs::metadata(file).unwrap().mode() & 0o7777, 0o4755);
        let value = xattr::get(file, "user.colour").unwrap();
        assert_eq!(value.as_deref(), Some(&b"blue"[..]), "{}", file.display());
    };
    check(&chain.world.dir.join("got/f"));
    chain.world.stop("fra");
    let root = chain.root("fra");
    let config = chain.world.node("fra").join("node.toml");
    let text = fs::read_to_string(&config).unwrap();
    let open = format!("roots = [{root:?}]");
    assert!(text.contains(&open));
    let told = format!("roots = [{{ path = {root:?}, owners = true }}]");
    fs::write(&config, text.replace(&open, &told)).unwrap();
    chain.world.start("fra");
    chain.wait_for_links();
    chain.cp("got fra:copy -a");
    let copy = root.join("copy/f");
    check(&copy);
    // Attributes that differ are set, even if the content has not changed.
    xattr::remove(&copy, "user.colour").unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
    let again = chain.cp("got/ fra:copy -a");
    assert_eq!(sent(&again), (0, 0), "{again}");
    check(&copy);
}
