//! Synthetic calls between two nodes, over the overlay and directly, as operators run them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod world;

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use world::World;

/// `sinew test-call --answer`, from the moment when it answers.
struct Answerer(Child);

impl Answerer {
    fn start(world: &World, direct: &str) -> Answerer {
        let mut child = Command::new(env!("CARGO_BIN_EXE_sinew"))
            .current_dir(&world.dir)
            .args([
                "test-call",
                "--answer",
                "--json",
                "--node",
                "net/fra",
                "--listen",
                direct,
            ])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = String::new();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        lines.read_line(&mut first).unwrap();
        assert_eq!(first, "answering calls to 10.7.0.2:17\n");
        // Each call is a line, and the process must never wait for a reader.
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        Answerer(child)
    }

    /// Ends the process as an operator would, and returns what it prints then.
    fn end(mut self) -> Value {
        let pid = self.0.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-INT", &pid])
                .status()
                .unwrap()
                .success()
        );
        let output = self.0.stdout.take().unwrap();
        let printed = serde_json::from_reader(output).unwrap();
        assert!(self.0.wait().unwrap().success());
        printed
    }
}

impl Drop for Answerer {
    fn drop(&mut self) {
        // The process has ended already, unless the test fails.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn calls_are_judged_in_both_directions_on_both_paths() {
    let mut world = World::new("call");
    world.add("ams", 1, "--lab");
    world.add("fra", 2, "");
    world.start("ams");
    world.start("fra");
    world.wait_for_link("ams", "fra");

    let nobody = world.try_sinew("test-call fra --seconds 1 --node net/ams");
    assert_eq!(nobody.status.code(), Some(1));
    let complaint = String::from_utf8_lossy(&nobody.stderr);
    assert!(
        complaint.contains("run `sinew test-call --answer` there"),
        "{complaint}"
    );

    // Without a direct path, half of the delay counts for each direction: 30 ms.
    world.sinew("lab impair ams fra delay=60ms --node net/ams");
    let direct = world.endpoint(9).to_string();
    let answerer = Answerer::start(&world, &direct);
    let json = world.json(&format!(
        "test-call fra --seconds 1 --direct {direct} --node net/ams"
    ));
    assert_eq!(
        (json["scenario"]["to"].as_str(), &json["scenario"]["direct"]),
        (Some("10.7.0.2"), &direct.clone().into())
    );
    assert_eq!(json["scenario"]["deadline_ms"], 150.0);
    for path in ["overlay", "direct"] {
        assert_eq!(json[path]["there"]["sent"], 50, "{json}");
        assert!(json[path]["back"]["delay_ms"]["p50"].is_number(), "{json}");
    }
    // The clocks are set by the faster path, so the delay appears in the right direction: on the way there. The bound
    // leaves room for a machine on which even the fastest packet took some milliseconds.
    let there = &json["overlay"]["there"]["delay_ms"]["p50"];
    assert!(there.as_f64().unwrap() > 20.0, "{json}");

    // Another codec, reports meanwhile, and losses that the overlay recovers. The delay stays: after a link has
    // suddenly become faster, recovered packets count as reordered for a while.
    world.sinew("lab impair ams fra loss=20% delay=30ms --node net/ams");
    let lines = world.sinew(&format!(
        "test-call fra --seconds 11 --every 5 --codec opus --direct {direct} --node net/ams --json"
    ));
    let lines: Vec<Value> = lines
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let [first, last, whole] = &lines[..] else {
        panic!("{lines:?}");
    };
    let of = |line: &Value| {
        [
            line["from_s"].as_u64().unwrap(),
            line["until_s"].as_u64().unwrap(),
        ]
    };
    assert_eq!([of(first), of(last)], [[0, 10], [10, 11]]);
    assert_eq!(first["overlay"]["there"]["sent"], 500);
    assert_eq!(last["direct"]["there"]["sent"], 50);
    let there = &whole["overlay"]["there"];
    assert_eq!(
        (&whole["scenario"]["codec"], &there["sent"]),
        (&"opus".into(), &550.into())
    );
    // Of 550 packets 110 are lost on average, with a deviation of 9; 4 of 100 of these are lost for good.
    let (before, after) = (&there["lost_before_recovery_pct"], &there["lost_pct"]);
    let (before, after) = (before.as_f64().unwrap(), after.as_f64().unwrap());
    assert!(before > 10.0 && after < before, "{whole}");
    assert!(whole["gain"]["there"]["r_factor"].is_number() && whole["error"].is_null());

    // The wish for repair reaches the node at the other end.
    world.sinew("test-call fra --seconds 1 --target 0.01% --repair 50% --node net/ams");
    let flows = world.json("flows --node net/fra");
    let flows = flows.as_array().unwrap();
    let wanted = |flow: &&Value| {
        let pct = |key: &str| flow[key].as_f64();
        flow["role"] == "delivers"
            && (pct("target_pct"), pct("most_pct")) == (Some(0.01), Some(50.0))
    };
    assert_eq!(flows.iter().filter(wanted).count(), 1, "{flows:?}");

    // The answers to each caller have its deadline, and the answers to earlier callers keep theirs.
    for (deadline, earlier) in [(700.0, vec![150.0]), (300.0, vec![150.0, 700.0])] {
        let call = format!("test-call fra --seconds 1 --deadline {deadline}ms --node net/ams");
        assert_eq!(world.json(&call)["scenario"]["deadline_ms"], deadline);
        let flows = world.json("flows --node net/fra");
        let flows = flows.as_array().unwrap().iter();
        let answers = flows.filter(|flow| {
            (&flow["role"], &flow["from"]) == (&"originates".into(), &"10.7.0.2:17".into())
        });
        let found = answers.map(|flow| flow["deadline_ms"].as_f64().unwrap());
        let (own, others): (Vec<f64>, Vec<f64>) = found.partition(|ms| *ms == deadline);
        assert_eq!(own.len(), 1, "{own:?} {others:?}");
        assert!(others.iter().all(|ms| earlier.contains(ms)), "{others:?}");
    }

    // If no direct answer comes, there is no score and no gain, and the result has the reason.
    let silent = world.endpoint(10);
    let output = world.try_sinew(&format!(
        "test-call fra --seconds 1 --direct {silent} --node net/ams --json"
    ));
    assert_eq!(output.status.code(), Some(1));
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(
        complaint.contains("nobody answers directly at"),
        "{complaint}"
    );
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(json["gain"].is_null(), "{json}");
    for way in ["there", "back"] {
        assert!(json["direct"][way]["mos"].is_null(), "{json}");
        assert!(json["overlay"][way]["mos"].is_number(), "{json}");
    }

    let answered = answerer.end();
    assert_eq!(
        (&answered["overlay_calls"], &answered["direct_calls"]),
        (&6.into(), &2.into())
    );
    assert_eq!(answered["ignored"], 0);
}

#[test]
fn what_cannot_be_is_misuse() {
    let world = World::new("call-misused");
    for words in [
        "call",
        "test-call fra --answer",
        "call --listen 127.0.0.1:1 fra",
        "test-call fra --calls x",
        "test-call fra --codec g729",
        "test-call fra --deadline 5ms",
        "test-call --answer --deadline 150ms",
    ] {
        assert_eq!(world.try_sinew(words).status.code(), Some(2), "{words}");
    }
}
