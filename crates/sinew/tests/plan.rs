//! `sinew plan` for scenario files. For running nodes it asks the same questions as `sinew why`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use serde_json::Value;
use std::io::Write as _;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

/// Four links in a row, with the third as the worst.
const CHAIN: &str = r#"
[scenario]
name = "chain"
duration = "10s"
[[node]]
name = "a"
[[node]]
name = "b"
[[node]]
name = "c"
[[node]]
name = "d"
[[node]]
name = "e"
[[link]]
a = "a"
b = "b"
path = "delay=10ms loss=0.1% rate=50mbit"
[[link]]
a = "b"
b = "c"
path = "delay=10ms loss=0.1%"
[[link]]
a = "c"
b = "d"
path = "delay=10ms loss=2%"
[[link]]
a = "d"
b = "e"
path = "delay=10ms loss=0.1%"
"#;

fn sinew(args: &[&str]) -> Output {
    static FILES: AtomicU32 = AtomicU32::new(0);
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    let name = format!("sinew-plan-{}-{number}.toml", std::process::id());
    let file = std::env::temp_dir().join(name);
    let mut scenario = std::fs::File::create(&file).unwrap();
    scenario.write_all(CHAIN.as_bytes()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sinew"));
    let output = command.arg("plan").args(args).arg("--scenario").arg(&file);
    let output = output.output().unwrap();
    std::fs::remove_file(&file).unwrap();
    output
}

fn told(args: &[&str]) -> String {
    let output = sinew(args);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {complaint}");
    String::from_utf8(output.stdout).unwrap()
}

fn words(value: &Value) -> Vec<&str> {
    let words = value.as_array().unwrap().iter();
    words.map(|word| word.as_str().unwrap()).collect()
}

#[test]
fn relays_and_stripes_are_told_with_numbers_and_reasons() {
    let plan: Value =
        serde_json::from_str(&told(&["a", "e", "--along", "path", "--json"])).unwrap();
    assert_eq!(words(&plan["pipelined"]["nodes"]), ["a", "c", "d", "e"]);
    assert_eq!(plan["direct"]["confidence"], "added");
    assert_eq!(
        words(&plan["direct"]["segments"][0]["past"]),
        ["b", "c", "d"]
    );
    assert_eq!(plan["choice"], "striped");
    let keys: Vec<&str> = plan
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let expected = "choice connections_per_segment direct from pipelined reason striped to";
    assert_eq!(keys.join(" "), expected);
    let way = plan["striped"].as_object().unwrap();
    let keys: Vec<&str> = way.keys().map(String::as_str).collect();
    assert_eq!(
        keys.join(" "),
        "addresses confidence gain high_bps known low_bps nodes rate_bps segments stripes"
    );
    let segment = way["segments"][0].as_object().unwrap();
    let keys: Vec<&str> = segment.keys().map(String::as_str).collect();
    assert_eq!(
        keys.join(" "),
        "confidence connection_bps from high_bps hops_assumed limits loss_pct low_bps past \
         physical_hops rate_bps rtt_ms stripes to"
    );
    let rate = |way: &str| plan[way]["rate_bps"].as_u64().unwrap();
    assert!(rate("direct") < rate("pipelined") && rate("pipelined") < rate("striped"));

    let text = told(&["a", "e"]);
    for expected in [
        "a to e, up to 8 connections on each segment",
        "* striped",
        "a-b-c-d-e",
        "why   ",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let text = told(&["a", "b", "--connections", "64"]);
    assert!(text.contains("a to b, up to 64 connections\n"), "{text}");
    assert!(text.contains("its capacity, as configured"), "{text}");
}

#[test]
fn what_cannot_be_is_misuse() {
    for (args, status) in [
        (&["a", "a"][..], 2),
        (&["a", "nobody"], 2),
        (&["a", "b", "--connections", "0"], 2),
        (&["a", "b", "--connections", "100000"], 2),
        (&["a", "b", "--relays", "17"], 2),
        (&["a", "b", "--margin", "150%"], 2),
        (&["a", "b", "--along", "sky"], 2),
    ] {
        let output = sinew(args);
        assert_eq!(output.status.code(), Some(status), "{args:?}");
        assert!(
            output.stdout.is_empty() && !output.stderr.is_empty(),
            "{args:?}"
        );
    }
}
