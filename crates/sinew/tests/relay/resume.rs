//! A copy that is killed at any moment continues where it was, and its result is verified.

use crate::chain::{Chain, names, noise, part};
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

const BYTES: usize = 60_000_000;

/// Kills `who` once `after` bytes are written, or the copy is over. Then the copy continues.
fn kill_and_go_on(chain: &mut Chain, who: &str, after: usize, options: &str) -> u64 {
    let target = chain.root("lon").join("copy");
    let _ = fs::remove_file(&target);
    let mut child = chain.begin_cp(&format!("data lon:copy --give-up 0 {options}"));
    let begun = Instant::now();
    loop {
        let written = fs::metadata(part(&target)).map_or(0, |part| part.len() as usize);
        if written >= after || target.exists() || begun.elapsed() > Duration::from_secs(30) {
            break;
        }
        thread::sleep(Duration::from_micros(200));
    }
    if who == "cp" {
        let _ = child.kill();
    } else {
        chain.world.kill(who);
    }
    let output = child.wait_with_output().unwrap();
    if target.exists() {
        assert_eq!(fs::read(&target).unwrap(), noise(BYTES), "{who}");
    } else if who != "cp" {
        assert_eq!(output.status.code(), Some(1), "{who}");
    }
    if who != "cp" {
        chain.world.start(who);
        chain.wait_for_links();
    }
    let done = chain.cp(&format!("data lon:copy {options}"));
    assert_eq!(
        fs::read(&target).unwrap(),
        noise(BYTES),
        "{who} {after} {options}"
    );
    assert_eq!(names(&chain.root("lon")), ["copy"], "{who}");
    done["resumed_bytes"].as_u64().unwrap()
}

#[test]
fn a_copy_goes_on_after_each_party_was_killed() {
    let mut chain = Chain::new("cp-killed", 3);
    chain.file("data", BYTES);
    for (who, after, options) in [
        ("cp", 5_000_000, ""),
        ("ams", 1_000_000, ""),
        ("fra", 9_000_000, "--stripes 2,1"),
        ("lon", 12_000_000, "--plain"),
    ] {
        let resumed = kill_and_go_on(&mut chain, who, after, options);
        // On a fast machine the copy may have been over before.
        assert!(resumed == 0 || resumed >= after as u64, "{who}: {resumed}");
    }
}

#[test]
fn a_directory_goes_on_and_what_changed_meanwhile_is_copied_anew() {
    let chain = Chain::new("cp-directory-killed", 2);
    let tree = chain.world.dir.join("tree");
    fs::create_dir(&tree).unwrap();
    for i in 0..40 {
        fs::write(tree.join(format!("f{i:02}")), noise(1_500_000 + i)).unwrap();
    }
    let target = chain.root("fra").join("copy");
    let begin = || {
        let mut child = chain.begin_cp("tree/ fra:copy");
        chain.world.wait("half of it is there", || {
            target.exists() || part(&target).join("f20").exists()
        });
        let _ = child.kill();
        child.wait().unwrap();
    };
    begin();
    let done = chain.cp("tree/ fra:copy");
    let resumed = done["resumed_entries"].as_u64().unwrap();
    assert!(
        target.join("f39").exists() && (resumed == 0 || resumed >= 10),
        "{done}"
    );
    fs::remove_dir_all(&target).unwrap();
    begin();
    fs::write(tree.join("f03"), "changed").unwrap();
    fs::remove_file(tree.join("f07")).unwrap();
    // The killed copy may have been complete, and moved into place meanwhile: then this copy corrects what is there.
    chain.cp("tree/ fra:copy --delete");
    assert_eq!(fs::read(target.join("f03")).unwrap(), b"changed");
    assert_eq!(names(&target), names(&tree));
}

#[test]
#[ignore = "minutes: 100 moments"]
fn a_hundred_random_moments() {
    let mut chain = Chain::new("cp-hundred", 3);
    chain.file("data", BYTES);
    let mut seed = 1u64;
    let mut resumed = 0;
    for turn in 0..100 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let after = (seed >> 33) as usize % BYTES;
        let who = ["cp", "ams", "fra", "lon"][turn % 4];
        let options = ["", "--plain", "--stripes 2,3"][turn % 3];
        resumed += u32::from(kill_and_go_on(&mut chain, who, after, options) > 0);
    }
    println!("{resumed} of 100 went on from somewhere");
}
