//! One source, several targets: a failing target affects only itself, and data that all targets
//! have is not sent again.

use crate::chain::{Chain, names, noise, part};
use crate::world::failure;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Copies to fra and lon, and kills the copy once both have what `has_begun` looks for in their
/// partial files.
fn begin_and_kill(chain: &Chain, source: &str, has_begun: impl Fn(&Path) -> bool) -> [PathBuf; 2] {
    let parts = ["fra", "lon"].map(|node| part(&chain.root(node).join("copy")));
    let mut child = chain.begin_cp(&format!("{source} fra:copy lon:copy"));
    chain.world.wait("it has begun at both", || {
        parts.iter().all(|part| has_begun(part))
    });
    // More data is left than can be in flight, so the copy cannot be over before it is killed.
    chain.signal("lon", "-STOP");
    child.kill().unwrap();
    child.wait().unwrap();
    chain.signal("lon", "-CONT");
    for node in ["fra", "lon"] {
        chain.world.wait("it has missed the copy", || {
            chain.world.status(node)["bulk"]["active"] == 0
        });
    }
    parts
}

/// Returns the JSON objects that a command has printed.
fn objects(output: &std::process::Output) -> Vec<Value> {
    let all = serde_json::Deserializer::from_slice(&output.stdout).into_iter();
    all.map(Result::unwrap).collect()
}

/// As many bytes as a relay holds for a target that accepts nothing, so the other target can get
/// everything.
const HELD_BYTES: usize = 5_000_000;

/// Starts a copy of `data` to fra, which gets all of it, and to lon, which is stopped in the
/// middle.
fn begin_and_stop_lon(chain: &Chain, copies: &[PathBuf; 2], more: &str) -> std::process::Child {
    let lon = chain.world.pid("lon");
    for _ in 0..20 {
        let mut begun = chain.begin_cp(&format!("data fra:copy lon:copy {more}"));
        while !part(&copies[1]).exists() && begun.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        net::signals::stop(lon).unwrap();
        let written = fs::metadata(part(&copies[1])).map(|part| part.len());
        if written.is_ok_and(|written| written < HELD_BYTES as u64) {
            chain.world.wait("fra has it", || copies[0].exists());
            return begun;
        }
        // The copy was over before the node could be stopped.
        net::signals::resume(lon).unwrap();
        assert!(begun.wait().unwrap().success());
        for copy in copies {
            fs::remove_file(copy).unwrap();
        }
    }
    panic!("it cannot be stopped in the middle");
}

#[test]
fn what_one_target_has_is_in_the_manifest_though_another_one_fails() {
    let mut chain = Chain::new("cp-several-manifest", 3);
    let data = fs::read(chain.file("data", HELD_BYTES)).unwrap();
    let copies = ["fra", "lon"].map(|node| chain.root(node).join("copy"));
    let child = begin_and_stop_lon(&chain, &copies, "--manifest list --give-up 1s");
    chain.world.kill("lon");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let list = fs::read_to_string(chain.world.dir.join("list")).unwrap();
    assert_eq!(list, format!("{}  data\n", blake3::hash(&data).to_hex()));
}

#[test]
fn a_target_that_has_its_copy_is_not_asked_again_when_another_one_breaks() {
    let mut chain = Chain::new("cp-several-done", 3);
    let data = fs::read(chain.file("data", HELD_BYTES)).unwrap();
    let copies = ["fra", "lon"].map(|node| chain.root(node).join("copy"));
    let child = begin_and_stop_lon(&chain, &copies, "--no-clobber");
    let before = fs::metadata(&copies[0]).unwrap().ino();
    chain.world.kill("lon");
    chain.world.start("lon");
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(copies.iter().all(|copy| fs::read(copy).unwrap() == data));
    assert_eq!(fs::metadata(&copies[0]).unwrap().ino(), before);
}

#[test]
fn a_target_at_which_it_was_cancelled_is_not_copied_to_again() {
    let mut chain = Chain::ring("cp-several-cancel");
    chain.start();
    let data = fs::read(chain.file("data", 120_000_000)).unwrap();
    let parts = ["fra", "lon"].map(|node| part(&chain.root(node).join("copy")));
    let child = chain.begin_cp("data fra:copy lon:copy");
    chain.world.wait("it has begun at both", || {
        parts.iter().all(|part| part.exists())
    });
    chain.signal("lon", "-STOP");
    let id = chain.world.status("fra")["bulk"]["transfers"][0]["id"].clone();
    let id = id.as_str().expect("it was over too soon");
    chain
        .world
        .sinew(&format!("transfers cancel {id} --node net/fra"));
    chain.signal("lon", "-CONT");
    let output = child.wait_with_output().unwrap();
    let (status, text) = failure(&output);
    assert!(
        status == 1 && text.contains("cancelled by the operator"),
        "{text}"
    );
    assert!(
        text.contains("copies to the others") && !text.contains("then to"),
        "{text}"
    );
    assert!(fs::read(chain.root("lon").join("copy")).unwrap() == data);
    // Its traffic does not pass through that node either.
    let bulk = chain.world.status("fra")["bulk"].clone();
    let counts = (
        &bulk["active"],
        &bulk["done"],
        &bulk["failed"],
        &bulk["refused"],
    );
    let none = serde_json::json!({});
    let one = serde_json::json!({"cancelled": 1});
    assert_eq!(counts, (&0.into(), &0.into(), &one, &none), "{bulk}");
}

#[test]
fn a_large_file_goes_on_behind_what_all_targets_have() {
    let chain = Chain::new("cp-several-file", 3);
    let data = fs::read(chain.file("data", 120_000_000)).unwrap();
    let len = |part: &Path| fs::metadata(part).map_or(0, |part| part.len());
    let [_, lon] = begin_and_kill(&chain, "data", |part| len(part) > 5_000_000);
    let file = fs::File::options().write(true).open(&lon).unwrap();
    file.set_len(4_000_001).unwrap();
    let done = chain.cp("data fra:copy lon:copy");
    assert_eq!(done["resumed_bytes"], 4_000_001, "{done}");
    for node in ["fra", "lon"] {
        assert!(fs::read(chain.root(node).join("copy")).unwrap() == data);
        assert_eq!(names(&chain.root(node)), ["copy"]);
    }
}

#[test]
fn of_a_tree_the_files_that_a_target_has_stay_there() {
    let chain = Chain::new("cp-several-tree", 3);
    let tree = chain.world.dir.join("tree");
    fs::create_dir(&tree).unwrap();
    for i in 0..40 {
        fs::write(tree.join(format!("f{i:02}")), noise(3_000_000 + i)).unwrap();
    }
    let [fra, lon] = begin_and_kill(&chain, "tree/", |part| part.join("f05").exists());
    fs::remove_file(lon.join("f02")).unwrap();
    let inode = |path: &Path| fs::metadata(path.join("f02")).unwrap().ino();
    let before = inode(&fra);
    let done = chain.cp("tree/ fra:copy lon:copy");
    assert!(done["resumed_entries"].as_u64() >= Some(5), "{done}");
    assert_eq!(inode(&chain.root("fra").join("copy")), before);
    for node in ["fra", "lon"] {
        let target = chain.root(node).join("copy");
        assert_eq!(names(&target), names(&tree));
        for name in names(&tree) {
            assert!(fs::read(target.join(&name)).unwrap() == fs::read(tree.join(&name)).unwrap());
        }
        assert_eq!(names(&chain.root(node)), ["copy"]);
    }
}

#[test]
fn a_target_that_refuses_or_is_away_costs_only_itself() {
    let mut chain = Chain::new("cp-bad-target", 3);
    let data = fs::read(chain.file("data", 3_000_000)).unwrap();
    let has = |chain: &Chain, name: &str, file: &str| {
        fs::read(chain.root(name).join(file)).is_ok_and(|found| found == data)
    };
    // fra is on the path to lon, and refuses the data for itself.
    let (status, text) = failure(&chain.try_cp("data fra:none/ lon:copy"));
    assert!(status == 1 && text.contains("fra: "), "{text}");
    assert!(text.contains("then to fra:none/"), "{text}");
    assert!(has(&chain, "lon", "copy"));
    assert!(names(&chain.root("fra")).is_empty());
    let (status, text) = failure(&chain.try_cp("data fra:first lon:none/"));
    assert!(status == 1 && text.contains("lon: "), "{text}");
    assert!(has(&chain, "fra", "first"));
    // All targets refuse: each refusal is reported.
    let (status, text) = failure(&chain.try_cp("data fra:none/ lon:none/"));
    let told = text.matches("is no directory").count();
    assert!(status == 1 && told >= 2, "{text}");
    // Each target has its own object in JSON, in the order in which they ended.
    let output = chain.try_cp("data fra:none/ lon:none/ --json");
    assert_eq!(objects(&output).len(), 2, "{output:?}");
    let output = chain.try_cp("data missing data2 fra:./ --json");
    let said = objects(&output);
    let kinds: Vec<&Value> = said.iter().map(|one| &one["kind"]).collect();
    assert_eq!(kinds, [&Value::Null, &"file".into(), &"file".into()]);
    assert_eq!(said[1]["to"], serde_json::json!(["fra:./"]), "{said:?}");
    let said = objects(&chain.try_cp("data nowhere:x --json"));
    assert_eq!(said[0]["kind"], "misused", "{said:?}");
    fs::remove_file(chain.root("fra").join("data")).unwrap();
    // lon is away, and comes back after fra has the data.
    chain.world.kill("lon");
    let copy = chain.begin_cp("data fra:second lon:second --give-up 120s");
    chain
        .world
        .wait("fra has it", || has(&chain, "fra", "second"));
    chain.world.start("lon");
    let output = copy.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(has(&chain, "lon", "second"));
}
