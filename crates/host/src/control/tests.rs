//! The operator's socket of a running node, and its behaviour under misuse.

use super::*;
use crate::testing::{AMS, FRA, TestNode, identity, validity};
use net::clock::Clock;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

struct World {
    node: TestNode,
    control: Option<Control>,
    path: PathBuf,
    files: Files,
}

impl World {
    fn start(test: &str) -> World {
        let node = TestNode::start(test);
        let files = Files {
            certificate: Some(node.dir.join("node.cert")),
            revocations: Some(node.dir.join("revocations")),
            network: Some(node.dir.join("network.pub")),
        };
        let keys = node.identity.keys().clone();
        let operator = Operator::new(node.commander.clone(), keys, AMS, files.clone());
        let path = node.dir.join("ams.ctl");
        let (_, lines) = Lines::new("ams", Clock::new(), true);
        let control = Some(Control::start(&path, operator, lines).unwrap());
        World {
            node,
            control,
            path,
            files,
        }
    }

    fn connect(&self) -> BufReader<UnixStream> {
        BufReader::new(UnixStream::connect(&self.path).unwrap())
    }
}

fn ask(stream: &mut BufReader<UnixStream>, line: &str) -> Value {
    stream
        .get_mut()
        .write_all(format!("{line}\n").as_bytes())
        .unwrap();
    hear(stream)
}

fn hear(stream: &mut BufReader<UnixStream>) -> Value {
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap_or(Value::Null)
}

fn error(answer: &Value) -> &str {
    answer["error"]
        .as_str()
        .unwrap_or_else(|| panic!("no error: {answer}"))
}

#[test]
fn questions_are_answered_in_order_on_one_connection() {
    let mut world = World::start("control-answers");
    let mut stream = world.connect();
    let answer = ask(&mut stream, r#"{"cmd":"snapshot"}"#);
    assert_eq!(answer["snapshot"]["name"], "ams");
    assert_eq!(answer["snapshot"]["links"][0]["name"], "fra");
    assert_eq!(answer["counters"]["drops"]["no_route"], 0);
    let own = &answer["nodes"][0];
    assert_eq!(own["address"], "10.7.0.1");
    assert_eq!(own["domains"], json!([crate::testing::DOMAIN]));
    assert_eq!(own["expected_latency_ms"], 0.0);
    let socket = world.node.dir.join("ams.sock");
    assert_eq!(answer["host"]["client_socket"], socket.to_str().unwrap());

    for neighbor in ["fra", "10.7.0.2"] {
        let set = json!({"cmd": "link_set", "neighbor": neighbor, "model": "loss=5% delay=10ms"});
        assert_eq!(
            ask(&mut stream, &set.to_string()),
            json!({"done": "link_set"})
        );
        let answer = ask(&mut stream, r#"{"cmd":"snapshot"}"#);
        assert_eq!(
            answer["snapshot"]["links"][0]["impairment"],
            "loss=5% delay=10ms"
        );
        let clear = json!({"cmd": "link_clear", "neighbor": neighbor});
        assert_eq!(
            ask(&mut stream, &clear.to_string()),
            json!({"done": "link_clear"})
        );
    }
    // Several lines arrive at once: one of them is empty, and the last one is incomplete.
    stream
        .get_mut()
        .write_all(b"{\"cmd\":\"snapshot\"}\n\n{\"cmd\":1}\n{\"cmd\":")
        .unwrap();
    assert!(hear(&mut stream)["snapshot"].is_object());
    assert!(error(&hear(&mut stream)).contains("not a request"));

    world.control = None;
    assert!(!world.path.exists(), "the file has gone with the thread");
}

#[test]
fn who_observes_changes_nothing_and_gets_no_right_back() {
    let world = World::start("control-observes");
    let mut stream = world.connect();
    let observe: (Value, Value) = (
        serde_json::from_str(OBSERVE.0).unwrap(),
        serde_json::from_str(OBSERVE.1).unwrap(),
    );
    assert_eq!(ask(&mut stream, &observe.0.to_string()), observe.1);
    for looks in ["snapshot", "network", "groups", "observe"] {
        let answer = ask(&mut stream, &json!({ "cmd": looks }).to_string());
        assert!(answer["error"].is_null(), "{looks}: {answer}");
    }
    for changes in [
        json!({"cmd": "group_set", "group": "239.1.1.1"}),
        json!({"cmd": "group_clear", "group": "239.1.1.1"}),
        json!({"cmd": "link_set", "neighbor": "fra", "model": "loss=5%"}),
        json!({"cmd": "link_clear", "neighbor": "fra"}),
        json!({"cmd": "renew", "certificate": ""}),
        json!({"cmd": "revoke", "list": ""}),
        json!({"cmd": "succeed", "network": ""}),
        json!({"cmd": "cancel", "transfer": "0"}),
        json!({"cmd": "reload"}),
        json!({"cmd": "stop"}),
    ] {
        let answer = ask(&mut stream, &changes.to_string());
        assert!(
            error(&answer).contains("may only look"),
            "{changes}: {answer}"
        );
    }
    // Other connections still work.
    let set = json!({"cmd": "link_set", "neighbor": "fra", "model": "loss=5%"});
    let answer = ask(&mut world.connect(), &set.to_string());
    assert_eq!(answer, json!({"done": "link_set"}));
}

#[test]
fn every_mistake_is_told_with_what_to_do() {
    let world = World::start("control-mistakes");
    let mut stream = world.connect();
    for (line, expected) in [
        ("hello", "write {\"cmd\":\"snapshot\"}"),
        ("{}", "one of snapshot"),
        ("[]", "one of snapshot"),
        (r#"{"cmd":"reboot"}"#, "unknown variant `reboot`"),
        (
            r#"{"cmd":"link_set","neighbor":"fra"}"#,
            "missing field `model`",
        ),
        (
            r#"{"cmd":"link_set","neighbor":"fra","model":"loss=5"}"#,
            "5%",
        ),
        (
            r#"{"cmd":"link_set","neighbor":"lon","model":"loss=5%"}"#,
            "this node has: fra",
        ),
        (
            r#"{"cmd":"link_clear","neighbor":"10.7.0.9"}"#,
            "sinew links",
        ),
        (
            r#"{"cmd":"link_clear","neighbor":"fra","extra":1}"#,
            "unknown field `extra`",
        ),
        (
            r#"{"cmd":"renew","certificate":"nonsense"}"#,
            "SINEW CERTIFICATE",
        ),
        (r#"{"cmd":"revoke","list":"nonsense"}"#, "SINEW REVOCATIONS"),
        (r#"{"cmd":"succeed","network":"nonsense"}"#, "SINEW NETWORK"),
    ] {
        let answer = ask(&mut stream, line);
        assert!(error(&answer).contains(expected), "{line}: {answer}");
    }
}

#[test]
fn oversized_lines_and_garbage_end_only_their_own_connection() {
    let world = World::start("control-garbage");
    let mut patient = world.connect();
    for bytes in [
        vec![b'x'; MAX_LINE_BYTES + 5_000],
        vec![0; MAX_LINE_BYTES + 5_000],
    ] {
        let mut stream = world.connect();
        // The node may close before everything is written.
        let _ = stream.get_mut().write_all(&bytes);
        let answer = hear(&mut stream);
        assert!(error(&answer).contains("8192 bytes"), "{answer}");
    }
    let mut stream = world.connect();
    stream.get_mut().write_all(b"\xff\xfe\x00{\n").unwrap();
    assert!(error(&hear(&mut stream)).contains("not a request"));
    assert!(ask(&mut patient, r#"{"cmd":"snapshot"}"#)["snapshot"].is_object());
}

#[test]
fn connections_are_bounded_and_a_place_is_free_again_after_one_has_gone() {
    let world = World::start("control-many");
    let mut streams: Vec<_> = (0..MAX_CONNECTIONS).map(|_| world.connect()).collect();
    for stream in &mut streams {
        assert!(ask(stream, r#"{"cmd":"snapshot"}"#)["snapshot"].is_object());
    }
    let answer = hear(&mut world.connect());
    assert!(error(&answer).contains("close one of them"), "{answer}");
    streams.pop();
    // The place is free once the node has seen the end. Until then a connection is refused with an error.
    let answer = std::iter::repeat_with(|| {
        let mut stream = world.connect();
        let _ = stream.get_mut().write_all(b"{\"cmd\":\"snapshot\"}\n");
        hear(&mut stream)
    });
    assert!(
        answer
            .take(1_000)
            .any(|answer| answer["snapshot"].is_object())
    );
}

#[test]
fn one_that_asks_much_and_reads_nothing_holds_nobody_up() {
    let world = World::start("control-deaf");
    let deaf = UnixStream::connect(&world.path).unwrap();
    deaf.set_nonblocking(true).unwrap();
    // Write until neither the kernel nor the node accepts more.
    while (&deaf).write(b"{\"cmd\":\"snapshot\"}\n").is_ok() {}
    let mut stream = world.connect();
    assert!(ask(&mut stream, r#"{"cmd":"snapshot"}"#)["snapshot"].is_object());
}

#[test]
fn a_renewed_certificate_counts_at_once_and_after_a_restart() {
    let mut world = World::start("control-renew");
    let mut stream = world.connect();
    let old = world.node.identity.certificate().clone();
    let later = secure::Validity {
        not_after_s: validity().not_after_s + 90 * 86_400,
        ..validity()
    };
    let renewed = world.node.authority.renew(&old, later).unwrap();
    let renew =
        |c: &secure::Certificate| json!({"cmd": "renew", "certificate": c.to_text()}).to_string();
    assert_eq!(ask(&mut stream, &renew(&renewed)), json!({"done": "renew"}));
    let kept = std::fs::read_to_string(world.files.certificate.as_ref().unwrap()).unwrap();
    assert_eq!(kept, renewed.to_text());
    let answer = ask(&mut stream, r#"{"cmd":"snapshot"}"#);
    assert_eq!(
        answer["snapshot"]["certificate_not_after_s"],
        later.not_after_s
    );

    let other = identity(&mut world.node.authority, [2; 64], FRA);
    let answer = ask(&mut stream, &renew(other.certificate()));
    assert!(error(&answer).contains("this node is 10.7.0.1"), "{answer}");
    let stolen = identity(&mut world.node.authority, [3; 64], AMS);
    let answer = ask(&mut stream, &renew(stolen.certificate()));
    assert!(error(&answer).contains("another key"), "{answer}");
}

#[test]
fn a_list_of_revocations_is_taken_and_kept() {
    let mut world = World::start("control-revoke");
    let mut stream = world.connect();
    let fra = identity(&mut world.node.authority, [2; 64], FRA);
    let list = world
        .node
        .authority
        .revoke(fra.certificate(), Clock::new().unix_s())
        .unwrap();
    let revoke = json!({"cmd": "revoke", "list": list.to_text()}).to_string();
    assert_eq!(ask(&mut stream, &revoke), json!({"done": "revoke"}));
    let kept = std::fs::read_to_string(world.files.revocations.as_ref().unwrap()).unwrap();
    assert_eq!(kept, list.to_text());
    let answer = ask(&mut stream, r#"{"cmd":"snapshot"}"#);
    assert_eq!(answer["snapshot"]["revocations_version"], 1);

    let foreign = secure::Authority::generate(&[9; 32]).revocations(1);
    let revoke = json!({"cmd": "revoke", "list": foreign.to_text()}).to_string();
    assert!(error(&ask(&mut stream, &revoke)).contains("not of this network"));
}

#[test]
fn another_root_is_taken_and_kept_and_a_rival_is_named() {
    let mut world = World::start("control-succeed");
    let mut stream = world.connect();
    let mut thief = world.node.authority.clone();
    let now_s = Clock::new().unix_s();
    let succeed = |authority: &secure::Authority| {
        let network = authority.network().to_text();
        json!({"cmd": "succeed", "network": network}).to_string()
    };
    for (root, seed) in [(1, 17), (2, 18)] {
        let rotated = world.node.authority.rotate(&[seed; 32], now_s + 900, now_s);
        rotated.unwrap();
        for _ in 0..2 {
            let answer = ask(&mut stream, &succeed(&world.node.authority));
            assert_eq!(answer, json!({"done": "succeed"}));
        }
        let answer = ask(&mut stream, r#"{"cmd":"snapshot"}"#);
        assert_eq!(answer["snapshot"]["root"], root);
        assert_eq!(answer["snapshot"]["certificate_root"], 0);
        assert_eq!(answer["snapshot"]["certificate_expires_soon"], true);
    }
    let kept = std::fs::read_to_string(world.files.network.as_ref().unwrap()).unwrap();
    assert_eq!(kept, world.node.authority.network().to_text());
    let other = secure::Authority::generate(&[9; 32]);
    let answer = ask(&mut stream, &succeed(&other));
    assert!(error(&answer).contains("another network"), "{answer}");
    thief.rotate(&[16; 32], now_s, now_s).unwrap();
    let answer = ask(&mut stream, &succeed(&thief));
    assert!(error(&answer).contains("took this place"), "{answer}");
}

#[test]
fn stop_stops_and_later_questions_fail_with_a_reason() {
    let world = World::start("control-stop");
    let mut stream = world.connect();
    assert_eq!(
        ask(&mut stream, r#"{"cmd":"stop"}"#),
        json!({"done": "stop"})
    );
    // The loop ends some time after the answer.
    let answers = std::iter::repeat_with(|| ask(&mut stream, r#"{"cmd":"snapshot"}"#));
    let last = answers
        .take(100_000)
        .find(|answer| answer["error"].is_string())
        .unwrap();
    assert!(error(&last).contains("stopping"), "{last}");
}

/// If a deadline is longer than the header can represent, the exit uses the value that the header carried.
#[test]
fn a_release_time_needs_a_deadline_that_is_not_shorter() {
    let said = |deadline_ms: u16| {
        let question = json!({"group": "239.1.1.1", "deadline_ms": deadline_ms, "release_ms": 300, "force": false});
        let wanted: GroupSet = serde_json::from_value(question).unwrap();
        wanted.setting(None).map(|setting| setting.deadline_ms)
    };
    assert_eq!([said(300), said(10_000)], [Ok(300), Ok(10_000)]);
    assert!(said(299).unwrap_err().contains("not shorter"));
}

fn set(more: Value) -> String {
    let mut question = json!({"cmd": "group_set", "group": "239.1.1.52"});
    for (key, value) in more.as_object().unwrap() {
        question[key] = value.clone();
    }
    question.to_string()
}

#[test]
fn a_setting_keeps_what_the_request_does_not_name() {
    let world = World::start("control-group-merge");
    let mut stream = world.connect();
    let asked = [
        json!({"rate_kbps": 12_000, "deadline_ms": 500}),
        json!({"ways": 2}),
        json!({"target": 0.0001, "repair": 1.0}),
        json!({"link": "best-effort", "priority": 6}),
    ];
    for more in asked {
        let answer = ask(&mut stream, &set(more));
        assert_eq!(answer["done"], "group_set", "{answer}");
    }
    let answer = ask(
        &mut stream,
        &set(json!({"delivery": "as-sent", "release_ms": 300})),
    );
    let setting = &answer["setting"];
    let keys = [
        "rate_kbps",
        "deadline_ms",
        "asked_ways",
        "target_pct",
        "most_pct",
        "link",
        "priority",
        "delivery",
        "release_ms",
    ];
    let got: Vec<&Value> = keys.iter().map(|key| &setting[key]).collect();
    let expected = json!([
        12_000,
        500,
        "2",
        0.01,
        100.0,
        "best-effort",
        6,
        "as-sent",
        300
    ]);
    assert_eq!(json!(got), expected);
    // The word `default` takes one value back.
    for key in keys {
        let named = match key {
            "asked_ways" => "ways",
            "target_pct" => "target",
            "most_pct" => "repair",
            // A release time needs a deadline.
            "deadline_ms" => continue,
            other => other,
        };
        let answer = ask(&mut stream, &set(json!({ named: "default" })));
        assert_ne!(answer["setting"][key], setting[key], "{named}: {answer}");
    }
    let answer = ask(&mut stream, &set(json!({"deadline_ms": "default"})));
    let got: Vec<&Value> = keys.iter().map(|key| &answer["setting"][key]).collect();
    let expected = json!([null, null, "auto", null, null, "real-time", 4, null, null]);
    assert_eq!(json!(got), expected);
    let answer = ask(&mut stream, &set(json!({"deadline_ms": 70_000})));
    let why = answer["error"].as_str().unwrap();
    assert!(why.contains("70000"), "{why}");
}

#[test]
fn a_permission_keeps_the_list_that_the_request_does_not_name() {
    let world = World::start("control-group-permit");
    let mut stream = world.connect();
    ask(
        &mut stream,
        &set(json!({"send": ["ams"], "rate_kbps": 100})),
    );
    let answer = ask(&mut stream, &set(json!({"receive": ["tag:cam"]})));
    let permit = &answer["permit"];
    assert_eq!(
        (&permit["send"], &permit["receive"]),
        (&json!(["ams"]), &json!(["tag:cam"]))
    );
    assert_eq!(answer["setting"]["rate_kbps"], 100, "{answer}");
    let answer = ask(&mut stream, &set(json!({"send": ["*"]})));
    assert_eq!(answer["permit"]["send"], Value::Null, "{answer}");
    assert_eq!(answer["permit"]["receive"], json!(["tag:cam"]));
}

#[test]
fn a_request_that_sets_nothing_is_refused() {
    let world = World::start("control-group-nothing");
    let mut stream = world.connect();
    for more in [json!({}), json!({"force": true})] {
        let answer = ask(&mut stream, &set(more));
        assert!(error(&answer).contains("nothing to set"), "{answer}");
    }
}

#[test]
fn a_name_that_no_node_has_is_noted() {
    let world = World::start("control-group-names");
    let mut stream = world.connect();
    let answer = ask(
        &mut stream,
        &set(json!({"send": ["nosuch", "ams", "tag:cam", "*-cam"], "receive": ["10.7.9.9"]})),
    );
    assert_eq!(answer["done"], "group_set", "{answer}");
    let notes = json!([
        "no node is called nosuch now",
        "no node is called 10.7.9.9 now"
    ]);
    assert_eq!(answer["admission"]["notes"], notes);
}
