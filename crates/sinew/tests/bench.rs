//! Every benchmark in its smallest form, as the command line runs it. The tests check that packets
//! are carried, and that the JSON has the keys that docs/bench.md lists. The measured values do not
//! matter here.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::process::{Command, Output, Stdio};

fn sinew(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sinew"));
    command.arg("bench").args(args).output().unwrap()
}

fn json(args: &[&str]) -> Value {
    let output = sinew(&[args, &["--json"]].concat());
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {complaint}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Fails unless `value` has exactly these keys, which are separated by spaces, and the document
/// names them all.
fn assert_keys(value: &Value, keys: &str) {
    let mut wanted: Vec<&str> = keys.split(' ').collect();
    wanted.sort_unstable();
    let found: Vec<&String> = value.as_object().unwrap().keys().collect();
    assert_eq!(found, wanted, "{value}");
    // Every second piece is code, like `.ratios`.
    let code = include_str!("../../../docs/bench.md")
        .split('`')
        .skip(1)
        .step_by(2);
    let is_key = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let documented: Vec<&str> = code.flat_map(|code| code.split(|c| !is_key(c))).collect();
    for key in wanted {
        assert!(documented.contains(&key), "{key}: undocumented");
    }
}

fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn forward_carries_packets_and_compares() {
    let small = "forward --payload 160 --burst 16 --seconds 0.05 --repeats 1 --protect --ends";
    let found = json(&small.split(' ').collect::<Vec<_>>());
    let keys = "medium scheduling processors load trial_seconds repeats flows cells";
    assert_keys(&found, keys);
    let cell = &found["cells"][0];
    let keys = "payload_bytes burst common_pps forwarders ratios impaired coded ends";
    assert_keys(cell, keys);
    assert_eq!(cell["forwarders"].as_array().unwrap().len(), 4);
    for forwarder in cell["forwarders"].as_array().unwrap() {
        assert_keys(
            forwarder,
            "name max_pps ns_per_packet_common wakeups_per_packet_common ns_per_packet_max \
             busy_pct_max lost_pct_max",
        );
    }
    let keys = "pps_over_sealed cpu_over_sealed cpu_over_sealed_max cpu_over_batched";
    assert_keys(&cell["ratios"], keys);
    let impaired = &cell["impaired"];
    let keys =
        "rate_pps share_of_max_pct recovers sent lost_on_link_pct residual_pct ns_per_packet";
    assert_keys(impaired, keys);
    let coded = &cell["coded"];
    assert_keys(
        coded,
        "repair plain_ns_per_packet ns_per_packet ratio residual_pct",
    );
    assert_keys(&cell["ends"], "plain_ns_per_packet ns_per_packet ratio");
    assert!((number(&coded["repair"]) - 0.3).abs() < 0.03, "{coded}");
    assert!(number(&impaired["sent"]) > 0.0 && number(&impaired["residual_pct"]) < 100.0);
}

#[test]
fn latency_carries_packets_on_every_path() {
    let small = "latency --streams 2 --seconds 0.2 --repeats 1 --busy 1";
    let found = json(&small.split(' ').collect::<Vec<_>>());
    assert_keys(
        &found,
        "medium scheduling node_scheduling pinning processors busy_loops load payload_bytes \
         packets_per_stream_s trial_seconds repeats cells",
    );
    let cell = &found["cells"][0];
    assert_keys(cell, "streams paths ratios");
    let names: Vec<&Value> = cell["paths"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| &p["name"])
        .collect();
    assert_eq!(names, ["kernel", "forwarders", "nodes"]);
    for path in cell["paths"].as_array().unwrap() {
        assert_keys(
            path,
            "name sent lost_pct p50_us p50_range_us p99_us max_us wakeups_per_packet \
             cpu_us_per_packet",
        );
        assert_eq!(path["sent"], 20);
        assert!(
            number(&path["lost_pct"]) < 100.0 && number(&path["p50_us"]) > 0.0,
            "{path}"
        );
    }
    for path in [1, 2] {
        assert!(number(&cell["paths"][path]["wakeups_per_packet"]) > 0.0);
    }
    let keys = "p50_over_forwarders p99_over_forwarders added_p50_over_forwarders";
    assert_keys(&cell["ratios"], keys);
}

#[test]
fn a_relay_ends_with_its_input_and_is_hidden() {
    let end = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = end.local_addr().unwrap().to_string();
    let mut relay = Command::new(env!("CARGO_BIN_EXE_sinew"))
        .args(["bench", "relay", "--listen", "127.0.0.1:0", "--to", &to])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = String::new();
    let stdout = relay.stdout.take().unwrap();
    BufReader::new(stdout).read_line(&mut ready).unwrap();
    let source = UdpSocket::bind("127.0.0.1:0").unwrap();
    source.send_to(b"packet", ready.trim()).unwrap();
    let mut buffer = [0; 16];
    let len = end.recv(&mut buffer).unwrap();
    assert_eq!(&buffer[..len], b"packet");
    drop(relay.stdin.take());
    assert!(relay.wait().unwrap().success());
    let help = sinew(&["--help"]).stdout;
    let help = String::from_utf8_lossy(&help);
    let mut listed = help
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    assert!(!listed.any(|name| name == "relay"));
}

#[test]
fn bulk_carries_a_copy_and_compares() {
    let small = "bulk --seconds 0.1 --repeats 1 --megabytes 1";
    let found = json(&small.split(' ').collect::<Vec<_>>());
    assert_keys(&found, "load seconds repeats plain same_ends sealed cores");
    for cover in ["plain", "same_ends", "sealed"] {
        assert_keys(&found[cover], "bare relay rate_ratio cpu_ratio");
        for who in ["bare", "relay"] {
            assert_keys(&found[cover][who], "gbps cpu_s_per_gb");
            assert!(number(&found[cover][who]["gbps"]) > 0.0, "{cover} {who}");
        }
    }
    let cores = &found["cores"];
    assert_keys(cores, "on apart");
    for on in cores["on"].as_array().unwrap() {
        assert_keys(on, "processors gbps gbps_per_processor cpu_s_per_gb");
        assert!(number(&on["gbps"]) > 0.0, "{on}");
    }
    assert_keys(&cores["apart"], "processors gbps processes");
}

#[test]
fn idle_tells_what_a_node_takes() {
    let found = json(&[
        "idle",
        "--seconds",
        "0.5",
        "--links",
        "2",
        "--clients",
        "20",
    ]);
    let keys = "scheduling load links seconds idle active clients";
    assert_keys(&found, keys);
    let usage = "resident_bytes cpu_pct wakeups_per_s control_max_bps control";
    assert_keys(&found["idle"], usage);
    assert_keys(&found["active"], &format!("streams sent arrived {usage}"));
    assert_keys(&found["clients"], "bound resident_bytes bytes_per_client");
    for direction in found["idle"]["control"].as_array().unwrap() {
        assert_keys(direction, "from to bps");
    }
    assert_eq!(found["active"]["control"].as_array().unwrap().len(), 4);
    assert!(number(&found["active"]["control_max_bps"]) > 0.0);
    assert!(number(&found["active"]["arrived"]) > 0.0);
    assert!(number(&found["idle"]["resident_bytes"]) > 1e6);
    assert_eq!(found["clients"]["bound"], 20);
}

#[test]
fn engine_counts_every_packet() {
    let found = json(&[
        "engine",
        "--payload",
        "160",
        "--burst",
        "4",
        "--packets",
        "512",
    ]);
    assert_keys(&found, "rate_pps rows");
    let row = &found["rows"][0];
    assert_keys(
        row,
        "payload_bytes burst packets ns_per_packet lost coded ends",
    );
    assert!(number(&row["packets"]) >= 512.0 && row["lost"] == 0);
}

#[test]
fn routing_compares_repairs_with_computations_from_scratch() {
    let small = "routing --nodes 30 --links-per-node 2 --changes 20";
    let found = json(&small.split(' ').collect::<Vec<_>>());
    assert_keys(
        &found,
        "nodes links changes seed metrics table hop_limited networkx",
    );
    let names: Vec<&str> = found["metrics"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["name"].as_str().unwrap())
        .collect();
    let metrics = ["hops", "latency", "loss", "expected-latency", "width"];
    assert_eq!(names, metrics);
    let row = &found["metrics"][1];
    let keys = "name full incremental effective baseline incremental_over_full effective_over_full";
    assert_keys(row, keys);
    assert_keys(&row["full"], "samples median_us mean_us p99_us");
    assert_eq!(found["table"]["incremental"]["samples"], 20);
}

#[test]
fn calls_are_carried_by_gateways_and_by_what_they_are_compared_with() {
    let small = "calls --calls 5 --seconds 0.2 --repeats 1";
    let found = json(&small.split(' ').collect::<Vec<_>>());
    assert_keys(
        &found,
        "calls trial_seconds repeats packet_bytes packets_per_s scheduling node_scheduling load \
         paths heard added_p50_us added_p99_us lost_pct holds",
    );
    assert_keys(
        &found["heard"],
        "expected lost recovered late dropped failed mos_min",
    );
    for (path, name) in
        found["paths"]
            .as_array()
            .unwrap()
            .iter()
            .zip(["kernel", "forwarders", "gateways"])
    {
        assert_keys(
            path,
            "name sent lost_pct repeated p50_us p99_us p999_us max_us planes_us_per_packet \
             nodes_us_per_packet",
        );
        assert_eq!((&path["name"], &path["sent"]), (&name.into(), &100.into()));
        assert!(
            number(&path["lost_pct"]) < 100.0 && number(&path["p50_us"]) > 0.0,
            "{path}"
        );
    }
    assert!(number(&found["heard"]["mos_min"]) > 1.0);
}

#[test]
fn what_cannot_be_is_told_at_once() {
    for (args, expected) in [
        (["forward", "--burst", "100"], "1 to 48"),
        (["latency", "--streams", "0"], "1 to 1000"),
        (["latency", "--payload", "5"], "a payload has"),
        (["calls", "--calls", "0"], "1 to 2000 calls"),
        (["idle", "--links", "1"], "2 to 20"),
        (["routing", "--nodes", "1"], "use 2 to 1024 nodes"),
        (["routing", "--changes", "0"], "at least one change"),
        (["hops", "--load", "500"], "like 500:1"),
        (["hops", "--seconds", "0"], "0.1 to 3600"),
    ] {
        let output = sinew(&args);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{complaint}");
        assert!(complaint.contains(expected), "{complaint}");
    }
}
