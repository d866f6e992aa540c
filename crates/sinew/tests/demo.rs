//! The demonstration as users run it, but short: six node processes, one call of two seconds.

// A test fails by panicking, also in its helper functions.
#![allow(clippy::unwrap_used)]

use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A folder for the files of one run, including the temporary ones.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("sinew-{}-{test}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("tmp")).unwrap();
        Folder(path)
    }

    /// Returns the command of the demonstration, with its temporary files in this folder.
    fn demo(&self, more: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sinew"));
        command.env("TMPDIR", self.0.join("tmp"));
        command
            .args(["demo", "--calls", "1", "--out"])
            .arg(self.0.join("out"))
            .args(more);
        command
    }

    /// Returns the processes that were started with files of this folder.
    fn processes(&self) -> Vec<String> {
        let here = format!("{}/", self.0.display());
        let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let lines = processes.filter_map(|p| fs::read_to_string(p.path().join("cmdline")).ok());
        lines.filter(|line| line.contains(&here)).collect()
    }

    fn assert_nothing_is_left(&self) {
        assert_eq!(self.processes(), Vec::<String>::new());
        assert_eq!(fs::read_dir(self.0.join("tmp")).unwrap().count(), 0);
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn two_seconds_of_it_give_every_number_and_every_file() {
    let folder = Folder::new("demo");
    // The path loses nothing, so that the assertions do not depend on chance.
    let output = folder
        .demo(&["--seconds", "2", "--loss", "0", "--json"])
        .output()
        .unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    assert!(
        complaint.starts_with("sinew demo: 1 call of 2 s"),
        "{complaint}"
    );
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    for path in ["direct", "overlay"] {
        assert_eq!(json[path]["sent"], 100);
        // The machine may be busy, but some packets arrive, and none too early.
        assert!(
            json[path]["delay_ms"]["p50"].as_f64().unwrap() >= 50.0,
            "{json}"
        );
        assert!(json[path]["pesq"]["p5"].is_number() && json[path]["mos_lqo"]["p5"].is_number());
    }
    assert_eq!(json["direct"]["wire_bytes_ratio"], 1.0);
    assert!(
        json["overlay"]["wire_bytes_ratio"].as_f64().unwrap() > 1.2,
        "headers and tags"
    );
    assert!(json["ceiling"]["pesq"]["mean"].as_f64().unwrap() > 4.0);
    let file = |name: &str| fs::read(folder.0.join("out").join(name)).unwrap();
    for name in ["direct.wav", "overlay.wav", "reference.wav"] {
        assert_eq!(file(name).len(), 44 + 2 * 16_000, "{name}");
    }
    let stored: Value = serde_json::from_slice(&file("result.json")).unwrap();
    assert_eq!(stored, json);
    assert!(file("report.html").ends_with(b"</html>\n"));
    folder.assert_nothing_is_left();
}

#[test]
fn on_a_long_link_two_overlays_carry_the_same_calls() {
    let folder = Folder::new("demo-long");
    let output = folder
        .demo(&["--long", "--seconds", "2", "--loss", "0", "--json"])
        .output()
        .unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["scenario"]["chain"], "A-B");
    assert_eq!(json["scenario"]["deadline_ms"], 130.0);
    for way in ["direct", "requests", "overlay"] {
        assert_eq!(json[way]["sent"], 100);
        assert!(
            json[way]["delay_ms"]["p50"].as_f64().unwrap() >= 60.0,
            "{json}"
        );
        let recording = fs::read(folder.0.join("out").join(format!("{way}.wav"))).unwrap();
        assert_eq!(recording.len(), 44 + 2 * 16_000, "{way}");
    }
    folder.assert_nothing_is_left();
}

#[test]
fn an_interrupt_ends_everything_that_was_started() {
    let folder = Folder::new("demo-interrupt");
    let mut demo = folder
        .demo(&["--seconds", "600", "--verbose"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(demo.stderr.take().unwrap()).lines();
    let mut line_with = |words: &str| lines.any(|line| line.unwrap().contains(words));
    assert!(line_with("6 nodes are up"));
    assert_eq!(folder.processes().len(), 7, "the demo and its nodes");
    let pid = demo.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &pid])
            .status()
            .unwrap()
            .success()
    );
    assert!(line_with(
        "interrupted: everything that was started has ended"
    ));
    assert_eq!(demo.wait().unwrap().code(), Some(1));
    folder.assert_nothing_is_left();
}

#[test]
fn what_cannot_be_is_told_before_anything_is_started() {
    let folder = Folder::new("demo-misused");
    let refused = |more: &[&str]| {
        let output = folder.demo(more).output().unwrap();
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    for (more, expected) in [
        (["--loss", "60%"], "choose 0 to 50 %"),
        (["--loss", "much"], "write it like 5%"),
        (["--burst", "100%"], "never ends"),
        (["--seconds", "1"], "choose 2 to 600"),
    ] {
        let (status, complaint) = refused(&more);
        assert_eq!(status, Some(2), "{complaint}");
        assert!(complaint.contains(expected), "{complaint}");
    }
    let nobody = folder.0.join("nobody.wav");
    let (status, complaint) = refused(&["--speech", nobody.to_str().unwrap()]);
    assert_eq!(status, Some(1));
    assert!(complaint.contains("nobody.wav") && !complaint.contains("6 nodes are up"));
    assert!(
        !Path::new("sinew-demo").exists(),
        "the default folder is not touched"
    );
    folder.assert_nothing_is_left();
}
