//! `sinew why` and `sinew whatif` of running nodes and of scenario files.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod world;

use serde_json::{Value, json};
use std::process::{Command, Output};
use world::World;

fn sinew(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sinew"));
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    command.args(args).current_dir(examples).output().unwrap()
}

fn told(args: &[&str]) -> String {
    let output = sinew(args);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {complaint}");
    String::from_utf8(output.stdout).unwrap()
}

fn refused(args: &[&str], status: i32) -> String {
    let output = sinew(args);
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{args:?}: {complaint}");
    assert!(output.stdout.is_empty(), "nothing on standard output");
    complaint
}

fn paths(choice: &Value) -> Vec<String> {
    let chosen = choice["chosen"].as_array().unwrap();
    chosen.iter().map(|path| path["path"].to_string()).collect()
}

/// The same three nodes as in the running network below.
const TRIANGLE: &str = r#"
[scenario]
name = "triangle"
duration = "10s"
[[node]]
name = "ams"
[[node]]
name = "fra"
[[node]]
name = "lon"
[[link]]
a = "fra"
b = "ams"
path = "delay=60ms"
[[link]]
a = "lon"
b = "ams"
path = "delay=10ms"
[[link]]
a = "lon"
b = "fra"
path = "delay=10ms"
"#;

#[test]
fn running_nodes_and_a_scenario_file_of_the_same_links_give_the_same_answer() {
    let mut world = World::new("explain");
    for (number, name) in (1..).zip(["ams", "fra", "lon"]) {
        world.add(name, number, "--lab");
    }
    world.impair("ams", "fra", "delay=60ms");
    world.impair("ams", "lon", "delay=10ms");
    world.impair("fra", "lon", "delay=10ms");
    let names = ["ams", "fra", "lon"];
    names.iter().for_each(|name| world.start(name));
    let file = world.dir.join("triangle.toml");
    std::fs::write(&file, TRIANGLE).unwrap();
    let of_file = |words: &str| {
        let file = file.to_str().unwrap();
        let args: Vec<&str> = words
            .split(' ')
            .chain(["--scenario", file, "--json"])
            .collect();
        serde_json::from_str::<Value>(&told(&args)).unwrap()
    };
    // Each of the three nodes must know all links.
    for name in names {
        world.wait(&format!("{name} knows all links"), || {
            let network = world.ask(name, "{\"cmd\":\"network\"}\n");
            let network: Value = serde_json::from_str(&network).unwrap();
            network["links"]
                .as_array()
                .is_some_and(|links| links.len() == 6)
        });
    }
    for words in [
        "why ams fra",
        "why fra ams --class latency",
        "why ams fra --class hops",
        "why ams fra --class disjoint",
        "why lon ams --class best --deadline 50ms",
    ] {
        let (node, file) = (
            world.json(&format!("{words} --node net/ams")),
            of_file(words),
        );
        assert_eq!(paths(&node), paths(&file), "{words}");
        for key in [
            "from",
            "to",
            "class",
            "forwarding",
            "decided_by",
            "deadline_ms",
        ] {
            assert_eq!(node[key], file[key], "{words}: {key}");
        }
        let latency = |why: &Value| why["chosen"][0]["latency_ms"].as_f64().unwrap();
        let (measured, configured) = (latency(&node), latency(&file));
        assert!(
            measured >= configured - 1.0 && measured < configured + 40.0,
            "{words}: {measured} ms, configured {configured} ms"
        );
        assert_eq!(node["held_by"]["rule"], file["held_by"]["rule"]);
    }
    // Only the node that delays a link's announcements knows for how long.
    let why = world.json("why ams lon --class latency --node net/ams");
    let held = why["held_by"]["links"].as_array().unwrap();
    assert!(held.iter().all(|link| link["from"] == "ams"), "{why}");
    let held = held.iter().find(|link| link["to"] == "lon").unwrap();
    assert!(held["may_announce_in_s"].as_f64().unwrap() <= 2.0, "{held}");
    assert_eq!(of_file("why ams lon")["held_by"]["links"], json!([]));

    for words in [
        "whatif lon|down ams fra",
        "whatif ams-lon|delay=200ms,lon-fra|loss=20%",
    ] {
        let words: Vec<String> = words
            .split(' ')
            .map(|word| word.replace('|', " "))
            .collect();
        let ask = |more: &[&str]| {
            let words = words.iter().map(String::as_str);
            let args: Vec<&str> = words
                .chain(more.iter().copied())
                .chain(["--json"])
                .collect();
            serde_json::from_str::<Value>(&told(&args)).unwrap()
        };
        let socket = world.control("ams");
        let node = ask(&["--node", socket.to_str().unwrap()]);
        let file = ask(&["--scenario", file.to_str().unwrap()]);
        assert_eq!(node["edits"], file["edits"]);
        if file["pair"].is_null() {
            assert_eq!(
                node["pairs"]["changed"], file["pairs"]["changed"],
                "{node} {file}"
            );
        } else {
            assert_eq!(paths(&node["pair"]["after"]), paths(&file["pair"]["after"]));
            assert_eq!(paths(&node["pair"]["after"]), [r#"["ams","fra"]"#]);
        }
    }
    let output = world.try_sinew("why ams mars --node net/ams");
    assert_eq!(output.status.code(), Some(2));
    // No other node is heard any more: the only path is tried, and is reported as silent.
    world.stop("lon");
    world.stop("fra");
    world.wait("ams is alone", || {
        let told = world.sinew("why ams fra --node net/ams");
        told.contains("the other end is silent")
    });
}

/// A recording of running nodes is a scenario of the same nodes and links.
#[test]
fn running_nodes_are_recorded_as_a_scenario() {
    let mut world = World::new("record");
    for (i, name) in ["ams", "fra", "lon"].into_iter().enumerate() {
        let link = ["", "--link ams", "--link fra"][i];
        world.add(name, i as u16 + 1, link);
        world.start(name);
    }
    world.wait_for_link("ams", "fra");
    world.wait("ams knows of the link behind fra", || {
        world.has_route("ams", "10.7.0.3")
    });
    let counts = world.json("record day.toml --for 300ms --every 100ms --node net/ams");
    assert_eq!(
        (&counts["nodes"], &counts["links"]),
        (&json!(3), &json!(2)),
        "{counts}"
    );
    let file = world.dir.join("day.toml");
    let file = file.to_str().unwrap();
    let of = |words: &[&str]| -> Value {
        let more = ["--scenario", file, "--json"];
        serde_json::from_str(&told(&[words, &more].concat())).unwrap()
    };
    let recorded = of(&["why", "ams", "lon"]);
    assert_eq!(paths(&recorded), [r#"["ams","fra","lon"]"#], "{recorded}");
    let report: Value = serde_json::from_str(&told(&["sim", "run", file, "--json"])).unwrap();
    assert_eq!(report["flows"].as_array().unwrap().len(), 2);
    for wrong in ["--every 0s", "--every 10ms", "--for soon"] {
        let words = format!("record {file} {wrong}");
        refused(&words.split(' ').collect::<Vec<_>>(), 2);
    }
}

#[test]
fn flows_say_their_class_their_path_and_why() {
    let mut world = World::new("flows");
    for (number, name) in (1..).zip(["ams", "fra", "lon"]) {
        world.add(name, number, "--lab");
    }
    world.impair("ams", "fra", "delay=60ms");
    world.impair("ams", "lon", "delay=10ms");
    world.impair("fra", "lon", "delay=10ms");
    ["ams", "fra", "lon"]
        .iter()
        .for_each(|name| world.start(name));
    world.wait("the way over lon is known", || {
        let output = world.try_sinew("why ams fra --json --node net/ams");
        let why: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        why["chosen"][0]["path"] == json!(["ams", "lon", "fra"])
            && why["runners_up"][0]["path"] == json!(["ams", "fra"])
    });
    for (flag, routing, path) in [
        ("metric", "expected-latency", 1),
        ("paths", "best", 1),
        ("paths", "disjoint", 2),
        ("paths", "targeted", 1),
    ] {
        let ping = format!(
            "ping fra --service voice --{flag} {routing} --count 3000 --interval 20ms --node net/ams"
        );
        let mut pinging = Command::new(env!("CARGO_BIN_EXE_sinew"))
            .args(ping.split(' '))
            .current_dir(&world.dir)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let mut flow = json!(null);
        world.wait("the flow is there with its path", || {
            let flows = world.json("flows --node net/ams");
            let mut flows = flows.as_array().unwrap().iter();
            let found = flows.find(|f| f["role"] == "originates" && f["routing"] == routing);
            flow = found.cloned().unwrap_or_default();
            flow["paths"]
                .as_array()
                .is_some_and(|paths| paths.len() == path)
        });
        assert_eq!(flow["link"], "real-time", "{flow}");
        assert_eq!(flow["to"], "10.7.0.2:7", "{flow}");
        assert!(flow["packets"].as_u64().unwrap() > 0, "{flow}");
        // The flow takes the path that `why` shows.
        let why = format!("why ams fra --{flag} {routing} --deadline 1s --node net/ams");
        let why = world.json(&why);
        let told = why["chosen"].as_array().unwrap().iter();
        let told: Vec<&Value> = told.map(|path| &path["addresses"]).collect();
        assert_eq!(
            flow["paths"].as_array().unwrap().iter().collect::<Vec<_>>(),
            told
        );
        let reason = flow["reason"].as_str().unwrap_or_else(|| panic!("{flow}"));
        let expected = match routing {
            "best" => "delivers the most",
            "disjoint" => "2 paths without a common node",
            "targeted" => "links taken with trouble in the middle",
            _ => "least expected latency: ",
        };
        assert!(reason.contains(expected), "{reason}");
        let names: Vec<&str> = why["chosen"][0]["path"]
            .as_array()
            .unwrap()
            .iter()
            .map(|name| name.as_str().unwrap())
            .collect();
        // The socket with which `ping` has waited for the route closes before its next socket opens.
        world.wait("the table says both", || {
            let page = world.sinew("flows --wide --node net/ams");
            page.contains(&names.join("-")) && page.contains(reason)
        });
        if names.len() == 3 && path == 1 {
            world.wait("the relay forwards it", || {
                let flows = world.json("flows --node net/lon");
                let mut flows = flows.as_array().unwrap().iter();
                flows.any(|f| f["role"] == "forwards" && f["to"] == "10.7.0.2:7")
            });
        }
        pinging.kill().unwrap();
        pinging.wait().unwrap();
    }
}

#[test]
fn scenarios_are_explained_in_words() {
    let text = told(&["why", "west", "east", "--scenario", "diamond.toml"]);
    for expected in [
        "west to east by expected-latency",
        "* west-upper-east",
        "why ",
        "held ",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let targeted = ["--scenario", "diamond.toml", "--paths", "targeted"];
    let text = told(&[&["why", "west", "east"][..], &targeted].concat());
    let calm = "why   one path, as all is well; links taken with trouble in the middle: 4";
    assert!(text.contains(calm), "{text}");
    let at = [
        "why",
        "west",
        "east",
        "--scenario",
        "diamond.toml",
        "--at",
        "12s",
    ];
    assert!(told(&at).contains("* west-lower-east"));
    let text = told(&["whatif", "upper down", "--scenario", "diamond.toml"]);
    assert!(
        text.contains("8 of 12 paths") && text.contains("west-lower-east"),
        "{text}"
    );
    let edit = "upper>east loss=8%";
    let text = told(&["whatif", edit, "west", "east", "--scenario", "diamond.toml"]);
    assert!(
        text.starts_with("if upper>east loss=8%\nwest to east by"),
        "{text}"
    );
    // The README's example shows the better choice, and the share that is in time without recovery says so.
    let edit = "west-upper delay=40ms";
    let text = told(&["whatif", edit, "west", "east", "--scenario", "diamond.toml"]);
    let (_, after) = text.split_once("\nafter").unwrap();
    let chosen = after.lines().find(|line| line.starts_with("* ")).unwrap();
    assert!(chosen.starts_with("* west-lower-east "), "{text}");
    let heads: Vec<&str> = after.lines().filter(|line| line.contains(" %")).collect();
    assert!(
        heads[0].ends_with("in time %    in time %"),
        "in time, with recovery and without: {text}"
    );
    assert!(text.contains("recovered  unrecovered"), "{text}");
    // The loss of calls, and the advice for them.
    let text = told(&["plan", "--voice", "lon", "chi", "--scenario", "cities.toml"]);
    assert!(text.starts_with("a call from lon to chi, deadline 150 ms\n"));
    assert!(text.contains("none: today"), "{text}");
    let edit = "lon-nyc protect=off";
    let text = told(&["whatif", edit, "lon", "nyc", "--scenario", "cities.toml"]);
    assert!(text.contains("call  "), "{text}");
    // Every example works as the source of the network.
    for file in ["chain", "cities", "flapping", "partition"] {
        let file = format!("{file}.toml");
        let output = sinew(&["whatif", "10.7.0.2 down", "--scenario", &file, "--json"]);
        assert!(output.status.success(), "{file}");
    }
}

/// All other links of the file are clean, so this link alone decides which path a network with the setting has.
#[test]
fn an_edited_protection_gives_the_path_of_the_file_with_this_setting() {
    let cities = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/cities.toml");
    let cities = std::fs::read_to_string(cities).unwrap();
    // With requests alone, the clean cable is just good enough.
    let cities = cities.replace("delay=41ms", "delay=50ms");
    let world = World::new("explain-protect");
    let of = |name: &str, settings: &str, words: &[&str]| -> Value {
        let file = world.dir.join(name);
        std::fs::write(&file, format!("{cities}\n{settings}")).unwrap();
        let more = ["lon", "nyc", "--json", "--scenario", file.to_str().unwrap()];
        serde_json::from_str(&told(&[words, &more].concat())).unwrap()
    };
    let mut found = Vec::new();
    for protect in ["off", "requests", "auto", "hop"] {
        let settings = format!("[settings]\nprotect = \"{protect}\"\n");
        let set = paths(&of("set.toml", &settings, &["why"]));
        let edit = format!("lon-nyc protect={protect}");
        let edited = of("edited.toml", "", &["whatif", &edit]);
        assert_eq!(paths(&edited["pair"]["after"]), set, "{protect}: {edited}");
        found.extend(set);
    }
    let [direct, detour] = [r#"["lon","nyc"]"#, r#"["lon","par","was","nyc"]"#];
    assert_eq!(found, [detour, detour, direct, direct]);
}

#[test]
fn what_cannot_be_asked_is_told_with_what_to_do() {
    let diamond = |words: &[&'static str]| {
        let file = ["--scenario", "diamond.toml"];
        words.iter().copied().chain(file).collect::<Vec<&str>>()
    };
    for (words, expected) in [
        (
            &["why", "west", "mars"][..],
            "no node `mars` is known; known are east, lower",
        ),
        (&["why", "west", "west"], "name two nodes"),
        (&["why", "west"], "name two nodes, or a call"),
        (
            &["why", "west", "east", "--metric", "fast"],
            "use expected-latency, latency",
        ),
        (
            &["why", "west", "east", "--deadline", "soon"],
            "write a time",
        ),
        (&["why", "west", "east", "--deadline", "1h"], "up to"),
        (&["why", "west", "east", "--deadline", "60s"], "up to"),
        (&["why", "west", "east", "--runners-up", "99"], "up to 8"),
        (&["why", "west", "east", "--at", "31s"], "over after"),
        (
            &["why", "west", "east", "--node", "net"],
            "cannot be used with",
        ),
        (&["whatif", "west"], "nothing is said of it"),
        (
            &["whatif", "west-east loss=5%"],
            "there is no link between west and east",
        ),
        (&["whatif", "west-upper loss=5"], "is not a share"),
        (&["whatif", "upper down", "west"], "<DST>"),
        (&["whatif"], "<EDITS>"),
        (&["whatif", "west-upper protect=much"], "use auto, requests"),
        (&["plan", "west", "east", "--deadline", "1s"], "--voice"),
        (
            &["plan", "--voice", "west", "east", "--relays", "2"],
            "cannot be used with",
        ),
    ] {
        let complaint = refused(&diamond(words), 2);
        assert!(complaint.contains(expected), "{words:?}: {complaint}");
    }
    let file = ["why", "a", "b", "--scenario", "no.toml"];
    assert!(refused(&file, 2).contains("cannot read no.toml"));
    let no_scenario = ["why", "a", "b", "--at", "3s", "--node", "nowhere.ctl"];
    assert!(refused(&no_scenario, 2).contains("--scenario"));
    let nobody = ["why", "a", "b", "--node", "nowhere.ctl"];
    assert!(refused(&nobody, 1).contains("no node at nowhere.ctl"));
    let down = refused(&diamond(&["why", "west", "upper", "--at", "12s"]), 1);
    assert!(
        down.contains("no chain of links that are up leads from west"),
        "{down}"
    );
}
