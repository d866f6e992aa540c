//! `sinew sim run`: a scenario file gives a report, equal seeds give equal reports, and mistakes
//! are reported.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot read what it needs has failed"
)]

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};

const SCENARIO: &str = "\
[scenario]
name = \"two\"
duration = \"2s\"
seed = 3

[[node]]
name = \"a\"
[[node]]
name = \"b\"

[[link]]
a = \"a\"
b = \"b\"
path = \"delay=10ms loss=5%\"

[[flow]]
name = \"voice\"
from = \"a\"
to = \"b\"
pattern = \"voice\"
";

/// A folder of this test, removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("sinew-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn simulate(file: &PathBuf, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sinew"))
        .args(["sim", "run"])
        .arg(file)
        .args(more)
        .output()
        .unwrap()
}

#[test]
fn equal_seeds_give_equal_reports_and_traces() {
    let folder = Folder::new("sim-run");
    let file = folder.write("two.toml", SCENARIO);
    let trace = |name: &str| folder.0.join(name);
    let run = |name: &str, seed: &str| {
        let path = trace(name);
        let more = ["--json", "--seed", seed, "--trace", path.to_str().unwrap()];
        let output = simulate(&file, &more);
        assert!(output.status.success(), "{output:?}");
        output.stdout
    };
    let first = run("1.jsonl", "5");
    assert_eq!(first, run("2.jsonl", "5"));
    assert_ne!(first, run("3.jsonl", "6"));
    let bytes = |name: &str| std::fs::read(trace(name)).unwrap();
    assert!(!bytes("1.jsonl").is_empty() && bytes("1.jsonl") == bytes("2.jsonl"));
    let report: Value = serde_json::from_slice(&first).unwrap();
    assert_eq!(report["seed"], 5);
    assert_eq!(report["flows"][0]["name"], "voice");
    assert!(
        report["flows"][0]["sent"].as_u64().unwrap() >= 99,
        "{report}"
    );
}

#[test]
fn a_mistake_names_file_and_line_and_is_misuse() {
    let folder = Folder::new("sim-mistake");
    let file = folder.write("two.toml", &SCENARIO.replace("pattern", "patern"));
    let output = simulate(&file, &[]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(
        text.contains("two.toml:20") && text.contains("pattern"),
        "{text}"
    );
    let output = simulate(&folder.0.join("nowhere.toml"), &[]);
    assert_eq!(output.status.code(), Some(2));
}
