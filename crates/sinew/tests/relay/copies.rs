//! Copies that succeed.

use crate::chain::{Chain, names, noise};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

const BYTES: usize = 5_000_001;

fn age(path: &Path, mode: u32) {
    let file = fs::File::open(path).unwrap();
    let then = SystemTime::UNIX_EPOCH + Duration::new(1_234_567_890, 123_456_789);
    file.set_times(fs::FileTimes::new().set_modified(then))
        .unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn assert_aged(path: &Path, mode: u32) {
    let found = fs::symlink_metadata(path).unwrap();
    assert_eq!(found.mode() & 0o7777, mode, "{}", path.display());
    let time = (found.mtime(), found.mtime_nsec());
    assert_eq!(time, (1_234_567_890, 123_456_789), "{}", path.display());
}

#[test]
fn a_file_goes_through_two_relays_and_back() {
    let chain = Chain::new("cp-file", 4);
    age(&chain.file("data", BYTES), 0o640);
    let target = chain.root("par").join("copy");
    for (i, options) in [
        "",
        "--plain",
        "--stripes 3",
        "--stripes 1,4,2 --plain",
        "--stripes 2,1,3",
        "--background",
        "--via fra,lon --congestion reno",
    ]
    .into_iter()
    .enumerate()
    {
        let done = chain.cp(&format!("data par:{} {options}", target.display()));
        assert_eq!(done["entries"], 1, "{options}: {done}");
        assert_eq!(
            done["segments"].as_array().unwrap().len(),
            3,
            "{options}: {done}"
        );
        assert_eq!(fs::read(&target).unwrap(), noise(BYTES), "{options}");
        assert_aged(&target, 0o640);
        assert_eq!(names(&chain.root("par")), ["copy"], "nothing else is left");
        // And back.
        let back = format!("back{i}");
        chain.cp(&format!("par:copy {back} {options}"));
        assert_eq!(
            fs::read(chain.world.dir.join(&back)).unwrap(),
            noise(BYTES),
            "{options}"
        );
        assert_aged(&chain.world.dir.join(&back), 0o640);
        fs::remove_file(&target).unwrap();
    }
}

#[test]
fn a_directory_arrives_with_all_that_is_in_it() {
    let chain = Chain::new("cp-directory", 3);
    let tree = chain.world.dir.join("tree");
    fs::create_dir_all(tree.join("sub/empty")).unwrap();
    for i in 0..300 {
        fs::write(tree.join(format!("sub/f{i}")), noise(i * 7)).unwrap();
    }
    fs::write(tree.join("large"), noise(BYTES)).unwrap();
    symlink("sub/f1", tree.join("link")).unwrap();
    symlink("/etc", tree.join("away")).unwrap();
    age(&tree.join("large"), 0o600);
    age(&tree.join("sub/empty"), 0o755);
    age(&tree.join("sub"), 0o750);
    let done = chain.cp("tree lon:copy --stripes 2,1");
    assert_eq!(done["entries"], 306, "{done}");
    let copy = chain.root("lon").join("copy");
    assert_eq!(names(&copy), names(&tree));
    assert_eq!(names(&copy.join("sub")), names(&tree.join("sub")));
    for i in 0..300 {
        assert_eq!(
            fs::read(copy.join(format!("sub/f{i}"))).unwrap(),
            noise(i * 7)
        );
    }
    assert_eq!(fs::read(copy.join("large")).unwrap(), noise(BYTES));
    assert_eq!(
        fs::read_link(copy.join("link")).unwrap(),
        Path::new("sub/f1")
    );
    assert_eq!(fs::read_link(copy.join("away")).unwrap(), Path::new("/etc"));
    assert_aged(&copy.join("large"), 0o600);
    assert_aged(&copy.join("sub/empty"), 0o755);
    assert_aged(&copy.join("sub"), 0o750);
    // A directory as target gets the source under its own name. The second copy brings it back.
    chain.cp("tree lon:copy");
    assert_eq!(names(&copy.join("tree")), names(&tree));
    chain.cp("lon:copy/tree again");
    assert_eq!(names(&chain.world.dir.join("again")), names(&tree));
    assert_eq!(names(&chain.root("lon")), ["copy"]);
}

#[test]
fn streams_come_from_standard_input_and_go_to_standard_output() {
    let chain = Chain::new("cp-stream", 2);
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_sinew"))
        .current_dir(&chain.world.dir)
        .args(["cp", "-", "fra:stream", "--node", "net/ams"])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(&noise(BYTES))
        .unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(
        fs::read(chain.root("fra").join("stream")).unwrap(),
        noise(BYTES)
    );
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_sinew"))
        .current_dir(&chain.world.dir)
        .args(["cp", "fra:stream", "-", "--node", "net/ams"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut got = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut got).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(got, noise(BYTES));
}

#[test]
fn several_nodes_get_one_copy_over_a_tree() {
    let chain = Chain::new("cp-tree", 4);
    chain.file("data", BYTES);
    for options in ["", "--stripes 2", "--plain"] {
        let done = chain.cp(&format!("data fra:one lon:two par:three {options}"));
        // Each segment carries the data only once.
        let segments = done["segments"].as_array().unwrap();
        assert_eq!(segments.len(), 3, "{done}");
        for (node, name) in [("fra", "one"), ("lon", "two"), ("par", "three")] {
            assert_eq!(names(&chain.root(node)), [name]);
            assert_eq!(fs::read(chain.root(node).join(name)).unwrap(), noise(BYTES));
            fs::remove_file(chain.root(node).join(name)).unwrap();
        }
    }
}

#[test]
fn several_sources_need_a_directory_and_all_of_them_arrive_in_it() {
    let chain = Chain::new("cp-several", 2);
    for name in ["a", "b", "c"] {
        chain.file(name, 1_000);
    }
    let refused = chain.try_cp("a b c fra:collect");
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        refused.status.code() == Some(1) && text.contains("no directory"),
        "{text}"
    );
    assert!(
        names(&chain.root("fra")).is_empty(),
        "nothing was overwritten by the next"
    );
    fs::create_dir(chain.root("fra").join("collect")).unwrap();
    let copied = chain.try_cp("a b c fra:collect");
    assert!(
        copied.status.success(),
        "{}",
        String::from_utf8_lossy(&copied.stderr)
    );
    assert_eq!(names(&chain.root("fra").join("collect")), ["a", "b", "c"]);
    // And back.
    let refused = chain.try_cp("fra:collect/a fra:collect/b back");
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        refused.status.code() == Some(2) && text.contains("no directory"),
        "{text}"
    );
    fs::create_dir(chain.world.dir.join("back")).unwrap();
    assert!(
        chain
            .try_cp("fra:collect/a fra:collect/b back")
            .status
            .success()
    );
    assert_eq!(names(&chain.world.dir.join("back")), ["a", "b"]);
    // A slash at the end also makes the target a directory for a single source.
    assert!(!chain.try_cp("a fra:missing/").status.success());
}

#[test]
fn names_are_any_bytes_and_as_long_as_the_kernel_has_them() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let chain = Chain::new("cp-names", 2);
    let long = "n".repeat(255);
    let odd = OsStr::from_bytes(b"odd-\xff\xfe");
    fs::write(chain.world.dir.join(odd), "odd").unwrap();
    fs::write(chain.world.dir.join("data"), "long").unwrap();
    for len in [242, 243, 255] {
        chain.cp(&format!("data fra:{}", &long[..len]));
        assert_eq!(names(&chain.root("fra")), [&long[..len]]);
        fs::remove_file(chain.root("fra").join(&long[..len])).unwrap();
    }
    let mut target = b"fra:".to_vec();
    target.extend(odd.as_bytes());
    for (from, to) in [
        (odd, OsStr::from_bytes(&target)),
        (OsStr::from_bytes(&target), OsStr::new("back")),
    ] {
        let status = std::process::Command::new(env!("CARGO_BIN_EXE_sinew"))
            .current_dir(&chain.world.dir)
            .arg("cp")
            .args([from, to])
            .args(["--node", "net/ams"])
            .status();
        assert!(status.unwrap().success(), "{}", from.display());
    }
    assert_eq!(fs::read(chain.root("fra").join(odd)).unwrap(), b"odd");
    assert_eq!(fs::read(chain.world.dir.join("back")).unwrap(), b"odd");
}

#[test]
fn what_is_discarded_is_checked_and_leaves_nothing() {
    let chain = Chain::new("cp-discard", 3);
    let sparse = chain.world.dir.join("sparse");
    fs::File::create(&sparse)
        .unwrap()
        .set_len(100_000_000)
        .unwrap();
    let done = chain.cp("sparse lon:anything --discard --plain");
    assert_eq!(done["bytes"], 100_000_000, "{done}");
    assert!(names(&chain.root("lon")).is_empty());
}

#[test]
fn the_end_is_told_where_nobody_watches_too() {
    let chain = Chain::new("cp-told", 2);
    let data = fs::read(chain.file("data", 300_000)).unwrap();
    let said = |words: &str| {
        let output = chain.try_cp(words);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let text = said("data fra:copy");
    let digest = format!("BLAKE3 {}", blake3::hash(&data).to_hex());
    assert!(text.contains(&digest), "{text}");
    assert!(
        text.contains("to fra:copy: 0.3 MB in ")
            && (text.contains(", unknown before") || text.contains(" predicted (")),
        "{text}"
    );
    assert_eq!(said("data fra:again --quiet"), "");
}
