//! Ctrl-C in commands that run long: one line says what was reached and how to go on, and the exit status is 130.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

/// Starts `sinew` with these words, waits for a line with `sign` on standard error, and presses Ctrl-C. Returns the
/// exit status, standard output, and the rest of standard error.
fn interrupted(words: &str, sign: &str) -> (Option<i32>, String, String) {
    let mut child: Child = Command::new(env!("CARGO_BIN_EXE_sinew"))
        .args(words.split(' '))
        .env_remove("SINEW_NODE")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains(sign)), "{sign}");
    let pid = child.id().to_string();
    let kill = Command::new("kill").args(["-INT", &pid]).status();
    assert!(kill.unwrap().success());
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    let mut output = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut output)
        .unwrap();
    (child.wait().unwrap().code(), output, rest.join("\n"))
}

#[test]
fn worlds_say_how_many_ran_and_how_the_others_run() {
    let words = "sim world --first 7 --seeds 1000000 --jobs 1";
    let (status, output, error) = interrupted(words, "1000000 worlds from seed 7");
    assert_eq!((status, output.as_str()), (Some(130), ""), "{error}");
    let ran = error.split_once("stopped after ").unwrap().1;
    let ran: u64 = ran.split(' ').next().unwrap().parse().unwrap();
    let rest = format!(
        "sinew sim world --first {} --seeds {}",
        7 + ran,
        1_000_000 - ran
    );
    assert!(error.ends_with(&rest), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
}

#[test]
fn a_copy_says_how_it_continues() {
    // The copy waits for a node that never comes.
    let source = env!("CARGO_MANIFEST_PATH");
    let words = |more: &str, source: &str| {
        format!("cp {source} lon:/tmp --node /nowhere/ams.ctl --give-up 1h{more}")
    };
    let (status, output, error) = interrupted(&words("", source), "waits: ");
    assert_eq!((status, output.as_str()), (Some(130), ""), "{error}");
    assert!(
        error.contains("0 bytes of ") && error.lines().count() == 1,
        "{error}"
    );
    assert!(
        error.ends_with("run the same command again to continue"),
        "{error}"
    );

    let (status, output, error) = interrupted(&words(" --json", source), "waits: ");
    assert_eq!(status, Some(130), "{error}");
    let told: Value = serde_json::from_str(&output).unwrap();
    assert_eq!(
        (&told["kind"], &told["to"]),
        (&"interrupted".into(), &serde_json::json!(["lon:/tmp"]))
    );
    assert!(error.ends_with(told["error"].as_str().unwrap()), "{error}");
}
