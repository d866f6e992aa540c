//! Copies that continue after the shell has ended.

use crate::chain::{Chain, part};
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Output};

/// Runs `sinew` with its own directory for detached copies.
fn sinew(chain: &Chain, words: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sinew"));
    command.current_dir(&chain.world.dir);
    command.env("XDG_STATE_HOME", chain.world.dir.join("state"));
    command.args(words.split_whitespace()).output().unwrap()
}

fn told(chain: &Chain, words: &str) -> Value {
    let output = sinew(chain, &format!("{words} --json"));
    assert!(output.status.success(), "{words}: {output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns the states of all copies, in their order.
fn states(chain: &Chain) -> Vec<String> {
    let all = told(chain, "transfers");
    let all = all.as_array().unwrap().iter();
    all.map(|one| one["state"].as_str().unwrap().to_owned())
        .collect()
}

/// Returns the words by which the user unit resumes copies after a reboot.
fn resuming() -> String {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let unit = fs::read_to_string(root.join("packaging/sinew-transfers.service")).unwrap();
    let has = |line: &str| unit.lines().any(|own| own == line);
    // Copies outlive the process that started them, and a copy that cannot start ends no others.
    assert!(has("Type=oneshot") && has("RemainAfterExit=yes") && has("WantedBy=default.target"));
    let words = unit
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart=-/usr/local/bin/sinew "));
    words.unwrap().to_owned()
}

#[test]
fn a_copy_goes_on_by_itself_and_is_begun_again_when_it_was_interrupted() {
    let mut chain = Chain::new("cp-detached", 2);
    let data = fs::read(chain.file("data", 20_000_000)).unwrap();
    assert!(states(&chain).is_empty());
    let begun = told(&chain, "cp data fra:first --detach --node net/ams");
    assert_eq!(begun["transfer"], 1);
    chain
        .world
        .wait("it is done", || states(&chain) == ["done"]);
    assert_eq!(fs::read(chain.root("fra").join("first")).unwrap(), data);
    // The other node is away: the copy waits, and reports that.
    chain.world.kill("fra");
    let notified = chain.world.dir.join("env");
    // The option has no space, because the words are split at spaces.
    let notify = "--notify=env>env";
    let words = "cp data fra:second --give-up 600s --detach --node net/ams";
    told(&chain, &format!("{words} {notify}"));
    chain.world.wait("it waits", || {
        let all = told(&chain, "transfers");
        all[1]["text"]
            .as_str()
            .is_some_and(|text| text.starts_with("waits: "))
    });
    // The copy's process is killed, as if the host went down.
    let pid = fs::read_to_string(chain.world.dir.join("state/sinew/transfers/2.pid")).unwrap();
    let killed = Command::new("kill").args(["-KILL", &pid]).status().unwrap();
    assert!(killed.success());
    chain.world.wait("it is interrupted", || {
        states(&chain) == ["done", "interrupted"]
    });
    chain.world.start("fra");
    assert!(sinew(&chain, &resuming()).status.success());
    chain
        .world
        .wait("it is done, too", || states(&chain) == ["done", "done"]);
    assert_eq!(fs::read(chain.root("fra").join("second")).unwrap(), data);
    chain.world.wait("that is told", || {
        fs::read_to_string(&notified).is_ok_and(|text| {
            let has = |line: &str| text.lines().any(|own| own == line);
            has("SINEW_TRANSFER=2") && has("SINEW_TRANSFER_STATE=done")
        })
    });
    // One copy is cancelled, and one fails.
    chain.world.kill("fra");
    told(
        &chain,
        "cp data fra:third --give-up 600s --detach --node net/ams",
    );
    chain.world.wait("it waits", || {
        told(&chain, "transfers")[2]["text"]
            .as_str()
            .is_some_and(|text| text.starts_with("waits: "))
    });
    let cancelled = sinew(&chain, "transfers cancel 3");
    assert!(cancelled.status.success());
    let said = String::from_utf8_lossy(&cancelled.stdout).into_owned();
    assert!(
        said.contains("stays at fra:third") && said.contains("transfers clean"),
        "{said}"
    );
    chain
        .world
        .wait("it has ended", || states(&chain)[2] == "cancelled");
    assert!(!part(&chain.root("fra").join("third")).exists());
    told(&chain, "cp nothing fra:fourth --detach --node net/ams");
    chain
        .world
        .wait("it fails", || states(&chain)[3] == "failed");
    let all = told(&chain, "transfers");
    assert!(
        all[3]["text"].as_str().unwrap().contains("nothing"),
        "{all}"
    );
    assert_eq!(sinew(&chain, "transfers cancel 3").status.code(), Some(1));
    assert_eq!(sinew(&chain, "transfers cancel 9").status.code(), Some(2));
    assert_eq!(
        sinew(&chain, "cp - fra:x --detach --node net/ams")
            .status
            .code(),
        Some(2)
    );
    // Data that another copy has left there is found.
    let left = part(&chain.root("fra").join("left"));
    fs::write(&left, "x").unwrap();
    let root = chain.root("fra");
    let clean = |more: &str| {
        told(
            &chain,
            &format!("transfers clean {} {more}", root.display()),
        )
    };
    assert_eq!(clean("")["removed"], serde_json::json!([]));
    assert_eq!(
        clean("--older 0s -n")["would_remove"][0],
        left.to_str().unwrap()
    );
    assert_eq!(clean("--older 0s")["removed"][0], left.to_str().unwrap());
    assert!(!left.exists());
    assert!(sinew(&chain, "transfers clear").status.success());
    assert!(states(&chain).is_empty());
}

#[test]
fn of_several_targets_the_one_that_is_waited_for_is_named() {
    let chain = Chain::new("cp-waits-for", 3);
    let data = fs::read(chain.file("data", 120_000_000)).unwrap();
    let words = "cp data fra:copy lon:copy --stripes 1 --no-probe --detach --node net/ams";
    told(&chain, words);
    let there = part(&chain.root("lon").join("copy"));
    chain.world.wait("it has begun", || there.exists());
    chain.signal("lon", "-STOP");
    chain.world.wait("lon is waited for", || {
        let all = told(&chain, "transfers");
        let text = all[0]["text"].as_str().unwrap();
        text.contains("waits for lon")
    });
    chain.signal("lon", "-CONT");
    chain
        .world
        .wait("it is done", || states(&chain) == ["done"]);
    for node in ["fra", "lon"] {
        assert!(fs::read(chain.root(node).join("copy")).unwrap() == data);
    }
}

#[test]
fn names_of_any_bytes_are_copied_by_themselves_too() {
    let chain = Chain::new("cp-detached-bytes", 2);
    let odd = OsStr::from_bytes(b"odd\xff\xfe");
    let place = chain.world.dir.join(odd);
    fs::create_dir(&place).unwrap();
    fs::write(place.join(odd), "odd").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sinew"));
    // The directory in which the copy begins has such a name, too.
    command.current_dir(&place);
    command.env("XDG_STATE_HOME", chain.world.dir.join("state"));
    command.args(["cp", "--detach", "--node"]);
    command.arg(chain.world.dir.join("net/ams"));
    command.arg(odd).arg("fra:./");
    let begun = command.output().unwrap();
    assert!(begun.status.success(), "{begun:?}");
    chain.world.wait("it is done", || {
        let states = states(&chain);
        assert_ne!(states, ["failed"], "{}", told(&chain, "transfers"));
        states == ["done"]
    });
    let copy = chain.root("fra").join(odd);
    assert_eq!(fs::read(copy).unwrap(), b"odd");
}
