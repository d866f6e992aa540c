use super::*;
use crate::scenario::Simulation;
use serde_json::{Value, json};
use tools::explain::*;

mod calls;

const DIAMOND: &str = include_str!("../../../../../examples/diamond.toml");

/// Five nodes with names that contain dashes; lossy, slow and asymmetric links; and faults.
const MESH: &str = r#"
[scenario]
name = "mesh"
duration = "60s"
[[node]]
name = "new-york"
[[node]]
name = "lon"
[[node]]
name = "fra"
[[node]]
name = "par-1"
[[node]]
name = "alone"
[[link]]
a = "new-york"
b = "lon"
path = "delay=35ms"
[[link]]
a = "lon"
b = "fra"
path = "delay=7ms loss=4%"
back = "delay=8ms"
[[link]]
a = "lon"
b = "par-1"
path = "delay=5ms jitter=2ms"
[[link]]
a = "par-1"
b = "fra"
path = "delay=6001us loss=1% burst=25%"
[[link]]
a = "new-york"
b = "par-1"
path = "delay=45ms outage=20s..30s"
[[link]]
a = "par-1"
b = "alone"
path = "delay=1ms outage"
[[fault]]
at = "10s"
kind = "link-set"
a = "lon"
b = "fra"
path = "delay=90ms"
[[fault]]
at = "40s"
kind = "partition"
groups = [["lon"]]
[[fault]]
at = "50s"
kind = "heal"
[[fault]]
at = "55s"
kind = "link-up"
a = "par-1"
b = "alone"
"#;

fn scenario(text: &str) -> Scenario {
    Scenario::parse("test.toml", text).unwrap()
}

fn view_at(text: &str, s: u64) -> View {
    View::new(snapshot_of(&scenario(text), Duration::from_secs(s))).unwrap()
}

fn by(class: &str) -> Asked {
    Asked {
        class: class.parse().unwrap(),
        ..Asked::default()
    }
}

fn chosen(view: &View, src: &str, dst: &str, class: &str) -> Vec<String> {
    let why = why(view, src, dst, &by(class)).unwrap();
    why.choice
        .chosen
        .iter()
        .map(|path| path.path.join(" "))
        .collect()
}

#[test]
fn a_scenario_answers_with_the_numbers_of_its_links() {
    let view = view_at(DIAMOND, 0);
    let why = why(&view, "west", "east", &Asked::default()).unwrap();
    let [path] = why.choice.chosen.as_slice() else {
        panic!("{why:?}")
    };
    assert_eq!(path.path, ["west", "upper", "east"]);
    assert_eq!(path.addresses, ["10.7.0.1", "10.7.0.2", "10.7.0.4"]);
    assert_eq!(
        (path.latency_ms, path.expected_latency_ms, path.loss_pct),
        (20.0, 20.0, 0.0)
    );
    assert_eq!((path.in_time_pct, path.hops), (100.0, 2));
    assert_eq!(why.choice.lead, Some(10.0));
    let text = why.to_string();
    for expected in [
        "west to east by expected-latency (by table, hop by hop), deadline 100 ms",
        "* west-upper-east",
        "  west-lower-east",
        "least expected latency: 20.00 ms; next is west-lower-east with 30.00 ms, 10.00 ms more",
        "a better one after 20 s, up to 600 s after relapses",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn a_scenario_is_as_its_nodes_would_measure_it() {
    let link = |s, from: &str, to: &str| {
        let view = view_at(MESH, s);
        let ends = [from, to].map(|word| view.address(word).unwrap().to_string());
        let links = view.snapshot().links.iter();
        let found = links
            .clone()
            .find(|link| [&link.from, &link.to] == [&ends[0], &ends[1]]);
        found.map(|link| (link.latency_us, link.loss))
    };
    // The latency is half the round trip in both directions, with each direction's own loss.
    assert_eq!(link(0, "lon", "fra"), Some((7_500, 2_621)));
    assert_eq!(link(0, "fra", "lon"), Some((7_500, 0)));
    assert_eq!(
        link(0, "lon", "par-1"),
        Some((6_000, 0)),
        "jitter counts by its mean"
    );
    assert_eq!(link(0, "fra", "par-1"), Some((6_001, 655)));
    assert_eq!(link(9, "lon", "fra").map(|link| link.0), Some(7_500));
    assert_eq!(link(10, "lon", "fra"), Some((90_000, 0)));
    // Outages happen by schedule, from the start, and by faults.
    assert_eq!(link(25, "new-york", "par-1"), None);
    assert!(link(30, "new-york", "par-1").is_some());
    assert_eq!(link(54, "par-1", "alone"), None);
    assert!(link(55, "alone", "par-1").is_some());
    assert_eq!(
        (link(45, "lon", "fra"), link(45, "new-york", "lon")),
        (None, None)
    );
    assert!(link(45, "par-1", "fra").is_some() && link(50, "lon", "fra").is_some());
    // A crashed node has no links until it restarts.
    assert_eq!(
        chosen(&view_at(DIAMOND, 12), "west", "east", "latency"),
        ["west lower east"]
    );
    assert_eq!(
        chosen(&view_at(DIAMOND, 25), "west", "east", "latency"),
        ["west upper east"]
    );
}

#[test]
fn every_class_has_its_words() {
    let view = view_at(MESH, 0);
    for (class, forwarding, decided_by, reason) in [
        ("hops", "table", "hops", "fewest hops: 2"),
        ("latency", "table", "latency_ms", "least latency: 42.50 ms"),
        ("loss", "table", "loss_pct", "least loss: 1.00 %"),
        (
            "expected-latency",
            "table",
            "expected_latency_ms",
            "least expected latency: ",
        ),
        (
            "width",
            "stamped",
            "width_bps",
            "widest, and of the widest the least expected latency: ",
        ),
        (
            "best",
            "stamped",
            "in_time_reckoned_pct",
            "by the deadline, and no path delivers more than",
        ),
        (
            "disjoint",
            "stamped",
            "expected_latency_ms",
            "2 paths without a common node; of the least",
        ),
        (
            "targeted",
            "stamped",
            "expected_latency_ms",
            "; links taken with trouble in the middle: ",
        ),
        (
            "disjoint-3",
            "stamped",
            "expected_latency_ms",
            "2 paths without a common node, all that there are",
        ),
    ] {
        let why = why(&view, "new-york", "fra", &by(class)).unwrap();
        assert_eq!((why.forwarding, why.decided_by), (forwarding, decided_by));
        assert!(
            why.choice.reason.contains(reason),
            "{class}: {}",
            why.choice.reason
        );
        assert!(!why.choice.reason.contains("NaN"), "{}", why.choice.reason);
    }
    let all = |nodes| why(&view, nodes, "lon", &by("latency")).unwrap();
    let ask = Asked {
        runners_up: 0,
        ..Asked::default()
    };
    assert_eq!(
        why(&view, "lon", "fra", &ask).unwrap().choice.runners_up,
        []
    );
    assert_eq!(all("par-1").choice.chosen[0].hops, 1);
}

#[test]
fn the_json_has_stable_keys() {
    let view = view_at(MESH, 0);
    let keys = |value: &Value| {
        let keys: Vec<&str> = value
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        keys.join(" ")
    };
    let told = serde_json::to_value(why(&view, "lon", "fra", &by("best")).unwrap()).unwrap();
    assert_eq!(
        keys(&told),
        "assumed chosen class deadline_ms decided_by forwarding from held_by help lead \
         missed_pct most_in_time_pct protection reason runners_up to"
    );
    let path = "addresses expected_latency_ms hops in_time_pct in_time_reckoned_pct \
                in_time_unrecovered_pct latency_ms links loss_pct missed_pct path width_bps";
    assert_eq!(keys(&told["chosen"][0]), path);
    assert_eq!(keys(&told["runners_up"][0]), path);
    let link = "added_pct expected_latency_ms from latency_ms left_pct loss_pct protection \
                repair_pct to width_bps";
    assert_eq!(keys(&told["chosen"][0]["links"][0]), link);
    assert_eq!(keys(&told["held_by"]), "links prices profile rule timer");
    assert_eq!(keys(&told["from"]), "address name");
    let asked = Asked::default();
    let told = what_if(&view, "lon-fra down", Some(("lon", "fra")), &asked).unwrap();
    let told = serde_json::to_value(told).unwrap();
    assert_eq!(keys(&told), "class deadline_ms decided_by edits pair pairs");
    assert_eq!(keys(&told["pair"]), "after before changes from to");
    assert_eq!(told["pairs"], Value::Null);
    let told = serde_json::to_value(what_if(&view, "lon down", None, &asked).unwrap()).unwrap();
    assert_eq!(keys(&told["pairs"]), "changed compared gained listed lost");
    assert_eq!(keys(&told["pairs"]["listed"][0]), "after before from to");
}

#[test]
fn what_would_be_is_told_for_a_pair_and_for_all() {
    let view = view_at(DIAMOND, 0);
    let asked = Asked::default();
    let pair = Some(("west", "east"));
    let told = what_if(
        &view,
        "west-upper loss=20% , upper-east  delay=12ms",
        pair,
        &asked,
    )
    .unwrap();
    assert_eq!(told.edits, ["west-upper loss=20%", "upper-east delay=12ms"]);
    let text = told.to_string();
    assert!(text.contains("west to east by expected-latency, deadline 100 ms: the path changes"));
    assert!(
        text.contains("before  least expected latency: 20.00 ms") && text.contains("\nafter  ")
    );
    let stays = what_if(&view, "lower>east delay=70ms", pair, &asked).unwrap();
    assert_eq!(stays.edits, ["lower>east delay=70ms"]);
    assert!(!stays.pair.as_ref().unwrap().changes && stays.to_string().contains("the path stays"));
    let lost = what_if(&view, "upper down, lower down", pair, &asked).unwrap();
    assert!(lost.pair.as_ref().unwrap().after.is_none());
    assert!(lost.to_string().contains("the path is lost") && lost.to_string().contains("no path"));

    let all = what_if(&view, "upper down", None, &asked).unwrap();
    let pairs = all.pairs.as_ref().unwrap();
    // Six pairs with `upper` at an end lose their path; two find another one.
    assert_eq!(
        (pairs.compared, pairs.changed, pairs.lost, pairs.gained),
        (12, 8, 6, 0)
    );
    assert!(pairs.listed[..6].iter().all(|pair| pair.after.is_empty()));
    let text = all.to_string();
    assert!(
        text.contains("8 of 12 paths by expected-latency, deadline 100 ms change"),
        "{text}"
    );
    assert!(
        text.contains("west-east") && text.contains("west-lower-east"),
        "{text}"
    );
    let added = what_if(&view, "west-east delay=5ms", None, &asked).unwrap();
    assert!(added.pairs.unwrap().changed > 0, "a delay adds a link");
    let nothing = what_if(&view, "west-upper delay=10ms", None, &by("best")).unwrap();
    assert_eq!(nothing.pairs.as_ref().unwrap().changed, 0);
    assert!(nothing.to_string().contains("0 of 12 paths"));
}

#[test]
fn names_may_have_dashes_and_addresses_do_as_well() {
    let view = view_at(MESH, 0);
    for (edit, said) in [
        ("new-york-par-1 down", "new-york-par-1 down"),
        ("par-1-new-york delay=3ms", "par-1-new-york delay=3ms"),
        ("new-york->lon loss=0.5", "new-york>lon loss=50%"),
        ("new-york down", "new-york down"),
        ("10.7.0.1-10.7.0.2 loss=1%", "new-york-lon loss=1%"),
        ("10.7.0.1 down", "new-york down"),
        ("lon-fra delay=0ms loss=0%", "lon-fra delay=0ms loss=0%"),
        ("lon-fra protect=off", "lon-fra protect=off"),
        (
            "lon>fra protect=requests loss=2%",
            "lon>fra loss=2% protect=requests",
        ),
    ] {
        let told = what_if(&view, edit, None, &Asked::default());
        assert_eq!(told.unwrap().edits, [said], "{edit}");
    }
    assert_eq!(
        view.address("10.7.0.3").unwrap(),
        view.address("fra").unwrap()
    );
}

#[test]
fn bad_questions_say_what_to_do() {
    let view = view_at(MESH, 0);
    let asked = Asked::default();
    let misused = |told: Result<String, ExplainError>, expected: &str| match told {
        Err(ExplainError::Misused(text)) => assert!(text.contains(expected), "{expected}: {text}"),
        other => panic!("{expected}: {other:?}"),
    };
    for (edit, expected) in [
        ("", "an edit is empty"),
        ("lon-fra down,", "an edit is empty"),
        ("lon-fra", "nothing is said of it"),
        ("lon", "nothing is said of it"),
        ("lon loss=5%", "a node can be `down`"),
        ("lon-mars down", "no node `mars` is known; known are"),
        ("mars-lon down", "no node `mars`"),
        ("mars down", "no node `mars`"),
        ("10.7.0.9 down", "nothing is known of a node 10.7.0.9"),
        ("lon-fra loss=500%", "is not a share"),
        ("lon-fra loss=-1", "is not a share"),
        ("lon-fra loss=", "is not a share"),
        ("lon-fra delay=5", "is not a delay such as 40ms"),
        ("lon-fra delay=-5ms", "is not a delay"),
        ("lon-fra delay=20s", "is not a delay such as 40ms, up to"),
        ("lon-fra delay=1ms delay=2ms", "is said twice"),
        ("lon-fra protect=off protect=auto", "is said twice"),
        ("lon-fra protect=much", "use auto, requests, hop or off"),
        ("lon-fra rate=5mbit", "is not understood"),
        ("lon-fra loss", "is not understood"),
        ("lon-fra down loss=5%", "a link is down in both directions"),
        ("lon>fra down", "a link is down in both directions"),
        ("lon-lon down", "from 10.7.0.2 to itself"),
        (
            "new-york-fra loss=5%",
            "there is no link between new-york and fra",
        ),
        ("new-york-fra down", "there is no link"),
        (
            "lon-fra down, lon-fra loss=5%",
            "there is no link between lon and fra",
        ),
        (">>--,", "no node"),
    ] {
        misused(
            what_if(&view, edit, None, &asked).map(|told| told.to_string()),
            expected,
        );
    }
    let many = vec!["lon down"; EDITS_MAX + 1].join(",");
    misused(
        what_if(&view, &many, None, &asked).map(|t| t.to_string()),
        "101 edits are more",
    );
    let long = "x".repeat(EDIT_BYTES_MAX + 1);
    misused(
        what_if(&view, &long, None, &asked).map(|t| t.to_string()),
        "bytes",
    );

    let told = |src, dst, asked: &Asked| why(&view, src, dst, asked).map(|why| why.to_string());
    misused(
        told("mars", "lon", &asked),
        "no node `mars` is known; known are alone, fra, lon",
    );
    misused(
        told("lon", "10.7.0.77", &asked),
        "nothing is known of a node 10.7.0.77",
    );
    misused(
        told("lon", "239.1.1.1", &asked),
        "nothing is known of a node",
    );
    misused(
        told("lon", "lon", &asked),
        "lon (10.7.0.2) is both source and destination",
    );
    misused(
        told("lon", "10.7.0.2", &asked),
        "is both source and destination",
    );
    let hasty = Asked {
        deadline: Duration::ZERO,
        ..asked
    };
    misused(told("lon", "fra", &hasty), "use a time above zero");
    let patient = Asked {
        deadline: Duration::from_secs(60),
        ..asked
    };
    misused(told("lon", "fra", &patient), "up to");
    let curious = Asked {
        runners_up: RUNNERS_UP_MAX + 1,
        ..asked
    };
    misused(told("lon", "fra", &curious), "use up to 8");
    let lost = why(&view, "alone", "fra", &asked).unwrap_err();
    let text = "no chain of links that are up leads from alone (10.7.0.5) to fra (10.7.0.3)";
    assert_eq!(lost, ExplainError::NoPath(text.into()));
    let lost = what_if(&view, "lon down", Some(("alone", "fra")), &asked).unwrap();
    assert!(
        lost.to_string()
            .contains("there is no path, before and after")
    );
    misused(
        what_if(&view, "lon down", Some(("fra", "fra")), &asked).map(|t| t.to_string()),
        "is both source and destination",
    );
}

#[test]
fn snapshots_of_others_are_read_with_care() {
    let good = serde_json::to_value(view_at(MESH, 0).snapshot()).unwrap();
    let read = |value: Value| {
        let snapshot = serde_json::from_value(value).map_err(|error| error.to_string())?;
        View::new(snapshot).map_err(|error| error.to_string())
    };
    assert!(read(good.clone()).is_ok());
    let mut more = good.clone();
    more["new_key"] = json!(1);
    assert!(read(more).is_ok(), "a newer node tells more");
    for (pointer, bad) in [
        ("/nodes/0/address", json!("nowhere")),
        ("/links/0/to", json!("10.7")),
        ("/links/0/loss", json!(70_000)),
        ("/rule", json!(null)),
    ] {
        let mut snapshot = good.clone();
        *snapshot.pointer_mut(pointer).unwrap() = bad;
        assert!(read(snapshot).is_err(), "{pointer}");
    }
    // Two nodes of one name are distinguished by their addresses.
    let mut twins = good;
    twins["nodes"][1]["name"] = json!("new-york");
    let view = read(twins).unwrap();
    let twice = view.address("new-york").unwrap_err().to_string();
    assert!(twice.contains("two nodes are called"), "{twice}");
    assert_eq!(view.name(view.address("10.7.0.1").unwrap()), "10.7.0.1");
}

/// Returns what a node in the simulator knows, after the scenario has run for `s` seconds.
fn simulated(scenario: &Scenario, node: usize, s: u64) -> View {
    let mut simulation = Simulation::new(scenario, 1);
    simulation.run_for(scenario.settle + Duration::from_secs(s));
    View::new(simulation.network_snapshot(node).unwrap()).unwrap()
}

/// Returns everything except the timers, of which a node knows more.
fn without_timers(told: &impl serde::Serialize) -> Value {
    let mut value = serde_json::to_value(told).unwrap();
    value.as_object_mut().unwrap().remove("held_by");
    value
}

#[test]
fn a_simulated_node_and_its_scenario_file_give_exactly_the_same_answer() {
    // Without losses, the measured values equal the configured ones, to the microsecond.
    let clean = MESH
        .replace("loss=4%", "")
        .replace("loss=1% burst=25%", "")
        .replace("jitter=2ms", "");
    let scenario = scenario(&clean);
    let file = View::new(snapshot_of(&scenario, Duration::from_secs(2))).unwrap();
    let node = simulated(&scenario, 1, 2);
    let names = ["new-york", "lon", "fra", "par-1"];
    let mut answers = 0;
    for class in Class::NAMES {
        for src in names {
            for dst in names.into_iter().filter(|dst| *dst != src) {
                let [of_node, of_file] =
                    [&node, &file].map(|view| why(view, src, dst, &by(class)).unwrap());
                assert_eq!(without_timers(&of_node), without_timers(&of_file));
                assert_eq!(of_node.held_by.rule, of_file.held_by.rule);
                let own = of_node
                    .choice
                    .chosen
                    .iter()
                    .chain(of_node.choice.runners_up.first());
                let begins_here = own.flat_map(|p| &p.links).any(|link| link.from == "lon");
                assert_eq!(!of_node.held_by.links.is_empty(), begins_here, "{of_node}");
                answers += 1;
            }
        }
        let edits = "lon-fra delay=40ms, new-york>par-1 loss=3%";
        let [of_node, of_file] =
            [&node, &file].map(|view| what_if(view, edits, None, &by(class)).unwrap());
        // A node that cannot be reached is not in a node's database.
        assert_eq!(of_node.pairs.unwrap().listed, of_file.pairs.unwrap().listed);
    }
    assert_eq!(answers, 8 * 12);
}

#[test]
fn where_links_lose_packets_the_answers_differ_by_what_is_measured() {
    let lossy = DIAMOND.replacen("path = \"delay=10ms\"", "path = \"delay=10ms loss=20%\"", 1);
    let lossy = lossy.replacen(
        "to = \"east\"",
        "to = \"east\"\nclass = \"best-effort\"\ncount = 10",
        1,
    );
    let lossy = lossy.replace("delay=15ms", "delay=12ms");
    let scenario = scenario(&lossy);
    let file = View::new(snapshot_of(&scenario, Duration::from_secs(9))).unwrap();
    let node = simulated(&scenario, 0, 9);
    let [of_node, of_file] =
        [&node, &file].map(|view| why(view, "west", "east", &Asked::default()).unwrap());
    let path = |why: &Why| why.choice.chosen[0].path.clone();
    assert_eq!(path(&of_node), ["west", "lower", "east"]);
    assert_eq!(path(&of_node), path(&of_file));
    let lossy = |why: &Why| why.choice.runners_up[0].loss_pct;
    assert!((lossy(&of_file) - 20.0).abs() < 0.1);
    // An estimate over 50 loss events is within three standard errors of 14 %, and then some.
    assert!(
        (12.0..30.0).contains(&lossy(&of_node)),
        "{}",
        lossy(&of_node)
    );
    let held = &of_node.held_by.links;
    assert!(
        held.iter()
            .any(|link| link.to == "upper" && link.announced_loss_pct > 10.0),
        "{held:?}"
    );
    assert!(
        of_node
            .held_by
            .timer
            .contains("a link is reported at most every 2 s")
    );
}

/// Two ways around a bad link, with equal width; one has fewer links, the other fewer routers.
const AROUND: &str = r#"
[scenario]
name = "around"
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
path = "delay=80ms loss=2%"
[[link]]
a = "a"
b = "c"
path = "delay=40ms loss=0.1%"
[[link]]
a = "c"
b = "b"
path = "delay=40ms loss=0.1%"
[[link]]
a = "a"
b = "d"
path = "delay=20ms loss=0.4%"
[[link]]
a = "d"
b = "e"
path = "delay=20ms loss=0.4%"
[[link]]
a = "e"
b = "b"
path = "delay=20ms loss=0.4%"
"#;

#[test]
fn plans_say_by_what_length_a_path_is_the_shortest() {
    let mut snapshot = snapshot_of(&scenario(AROUND), Duration::ZERO);
    let address = |name: &str| {
        let mut nodes = snapshot.nodes.iter();
        let node = nodes.find(|node| node.name.as_deref() == Some(name));
        node.unwrap().address.clone()
    };
    let ends = [("a", "c", 9), ("c", "b", 9), ("a", "d", 3), ("d", "e", 2)]
        .map(|(from, to, hops)| (address(from), address(to), hops));
    let by = |snapshot: &NetworkSnapshot, length: Length| {
        let asked = PlanAsked {
            length,
            ..PlanAsked::default()
        };
        plan(&View::new(snapshot.clone()).unwrap(), "a", "b", &asked).unwrap()
    };
    let unknown = by(&snapshot, Length::PhysicalHops);
    assert_eq!(unknown.pipelined.nodes, ["a", "c", "b"]);
    let shortest = unknown.shortest.as_ref().unwrap();
    assert!(shortest.reason.ends_with(
        "by physical hops: 2; 1 is assumed for each of 2 links that nobody has probed (the median of \
         the known ones, 1 without any)"
    ));
    assert!(!unknown.to_string().contains("  hops"), "{unknown}");

    for (from, to, hops) in ends {
        let mut links = snapshot.links.iter_mut();
        let link = links.find(|link| link.from == from && link.to == to);
        link.unwrap().hops = core::num::NonZeroU8::new(hops);
    }
    for (length, nodes, expected) in [
        (
            Length::Hops,
            &["a", "c", "b"][..],
            "is the shortest by hops: 2",
        ),
        (
            Length::Latency,
            &["a", "d", "e", "b"],
            "is the shortest by latency: 60 ms",
        ),
        (
            Length::PhysicalHops,
            &["a", "d", "e", "b"],
            "a-d-e-b is the shortest by physical hops: 14; 9 is assumed for one link that nobody",
        ),
    ] {
        let plan = by(&snapshot, length);
        assert_eq!(plan.pipelined.nodes, nodes);
        let shortest = plan.shortest.as_ref().unwrap();
        assert!(shortest.reason.contains(expected), "{}", shortest.reason);
        assert!(shortest.required_bps < shortest.widest_bps);
        let text = plan.to_string();
        assert!(
            text.contains("(the widest less 10 %)") && text.contains("  hops"),
            "{text}"
        );
    }
    let physical = by(&snapshot, Length::PhysicalHops);
    let hops = physical
        .pipelined
        .segments
        .iter()
        .map(|s| (s.physical_hops, s.hops_assumed));
    assert_eq!(hops.collect::<Vec<_>>(), [(3, 0), (2, 0), (9, 1)]);
    // Where relays gain nothing, no path was chosen.
    assert!(by(&snapshot, Length::Hops).direct.nodes.len() == 2);
    let asked = PlanAsked::default();
    let near = plan(&View::new(snapshot).unwrap(), "a", "c", &asked).unwrap();
    assert_eq!((near.pipelined.nodes.len(), near.shortest), (2, None));
}

#[test]
fn a_rate_that_nothing_tells_of_is_unknown_and_no_number() {
    let mut snapshot = snapshot_of(&scenario(AROUND), Duration::ZERO);
    for link in &mut snapshot.links {
        (link.loss, link.capacity_kbps) = (0, None);
    }
    let asked = PlanAsked {
        advises_probe: true,
        ..PlanAsked::default()
    };
    let plan = plan(&View::new(snapshot).unwrap(), "a", "b", &asked).unwrap();
    let text = plan.to_string();
    assert!(
        text.contains("unknown") && !text.contains("bit/s"),
        "{text}"
    );
    assert!(text.contains("`--probe` measures it"), "{text}");
}
