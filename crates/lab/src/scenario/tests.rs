mod groups;
mod settings;
mod streams;
mod uplinks;

use super::*;
use proptest::prelude::{ProptestConfig, any, prop_assert, proptest};
use sim::trace::{Packet, json_line};
use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;

const PAIR: &str = "[scenario]\nname = 'pair'\nduration = '2s'\n\
    [[node]]\nname = 'a'\n[[node]]\nname = 'b'\n\
    [[link]]\na = 'a'\nb = 'b'\npath = 'delay=10ms'\n";
/// Number of lines of [`PAIR`].
const LINES: usize = 11;

fn parsed(text: &str) -> Scenario {
    Scenario::parse("test.toml", text).unwrap()
}

/// Runs [`PAIR`] and more, with its own seed.
fn run(more: &str) -> Report {
    let scenario = parsed(&format!("{PAIR}{more}"));
    simulate(&scenario, scenario.seed)
}

fn examples() -> Vec<PathBuf> {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let files = std::fs::read_dir(dir).unwrap();
    let mut paths: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "toml"));
    paths.sort();
    paths
}

fn example(name: &str) -> Report {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let scenario = Scenario::load(&Path::new(dir).join(name)).unwrap();
    simulate(&scenario, scenario.seed)
}

#[test]
fn every_example_runs() {
    let paths = examples();
    assert!(paths.len() >= 5, "{paths:?}");
    for path in paths {
        let scenario = Scenario::load(&path).unwrap();
        let file = path.file_stem().unwrap().to_str().unwrap();
        assert_eq!(scenario.name, file, "the file is called as its scenario");
        assert!(!scenario.about.is_empty());
        let report = simulate(&scenario.clone().shortened(Duration::from_secs(2)), 1);
        for flow in &report.flows {
            let (name, packets) = (&flow.name, &flow.packets);
            assert_eq!(packets.refused, 0, "{file}: {name}");
            let idle = packets.sent == 0;
            // Messages that a stream has not delivered at the end still wait, and an overloaded stream has many.
            let waits = packets.received > 0
                && scenario
                    .flows
                    .iter()
                    .any(|f| f.is_stream && f.name == *name);
            assert!(
                idle || waits || packets.lost_pct < 20.0,
                "{file}: {name}: {packets:?}"
            );
        }
        assert!(report.to_string().contains(file));
    }
}

#[test]
fn the_chain_recovers_what_the_direct_path_loses() {
    let report = example("chain.toml");
    let [overlay, direct] = [0, 1].map(|n| &report.flows[n].packets);
    assert_eq!((overlay.sent, direct.sent), (30_000, 30_000));
    // The path loses 5 % half of the time, and 10 % the other half.
    assert!((6.5..8.5).contains(&direct.lost_pct), "{direct:?}");
    assert!(overlay.lost_pct + overlay.late_pct < 0.5, "{overlay:?}");
    assert_eq!(overlay.delay_ms.p50, Some(50.0));
    let ratio = report.overlay.wire_bytes_per_payload_byte.unwrap();
    assert!((1.25..1.5).contains(&ratio), "{ratio}");
}

#[test]
fn calls_go_around_a_crashed_relay_and_back() {
    let report = example("diamond.toml");
    for flow in &report.flows {
        let packets = &flow.packets;
        // Packets that are sent before the link is in doubt are lost; then copies take the other path.
        assert!(
            (100.0..250.0).contains(&packets.longest_gap_ms),
            "{packets:?}"
        );
        assert_eq!(
            (packets.delay_ms.p50, packets.delay_ms.p99),
            (Some(20.0), Some(30.0))
        );
    }
    assert_eq!(report.overlay.links_down, 2);
}

#[test]
fn a_partition_silences_only_what_crosses_it() {
    let report = example("partition.toml");
    let [within, between] = [0, 1].map(|n| &report.flows[n].packets);
    assert!(within.lost_pct < 1.0 && within.gaps == 0, "{within:?}");
    assert_eq!(between.gaps, 1, "{between:?}");
    // The gap lasts from the last packet before the cut until those that are recovered after it.
    assert!((9_800.0..10_400.0).contains(&between.longest_gap_ms));
    assert_eq!((within.duplicates, between.duplicates), (0, 0));
    assert_eq!(between.reordered, 0, "handed over in order");
}

#[test]
fn two_disjoint_paths_lose_nothing_when_a_node_on_one_of_them_dies() {
    let report = example("disjoint.toml");
    let [one, two] = [0, 1].map(|n| &report.flows[n].packets);
    assert!(one.lost > 0 && one.longest_gap_ms >= 80.0, "{one:?}");
    assert_eq!((two.lost, two.late, two.duplicates), (0, 0, 0), "{two:?}");
    assert_eq!(two.received, two.sent);
    assert_eq!(two.delay_ms.max, Some(30.0));
    assert_eq!(report.overlay.unstamped, 0);
}

#[test]
fn stamped_flows_get_through_and_only_best_asks_for_a_deadline() {
    let of = |routing: &str| {
        let report = run(&format!(
            "[[flow]]\nfrom = 'a'\nto = 'b'\n{routing}\nstop = '1s'"
        ));
        let packets = &report.flows[0].packets;
        assert_eq!(packets.received, packets.sent, "{routing}");
        report.overlay.unstamped > 0
    };
    for routing in ["best", "disjoint", "disjoint-3", "flooding", "targeted"] {
        assert!(!of(&format!("routing = '{routing}'")), "{routing}");
    }
    assert!(of("class = 'best-effort'\nrouting = 'best'"));
    // A packet without room for its stamp is sent in fragments.
    let long =
        run("[[flow]]\nfrom = 'a'\nto = 'b'\nrouting = 'disjoint'\npacket = 1392\nstop = '1s'");
    let packets = &long.flows[0].packets;
    assert_eq!((packets.refused, packets.lost), (0, 0), "{packets:?}");
}

/// A scenario with every kind of randomness.
const RANDOM: &str = "[[flow]]\nfrom = 'a'\nto = 'b'\npattern = 'pareto'\ncount = 3\n\
    [[flow]]\nfrom = 'b'\nto = 'a'\ndirect = true\npattern = 'talkspurts'\ncount = 3\n\
    path = 'delay=5ms jitter=3ms reorder duplicate=5% loss=10% burst=30%'\n\
    [[fault]]\nat = '500ms'\nkind = 'link-set'\na = 'a'\nb = 'b'\n\
    path = 'delay=10ms jitter=5ms reorder loss=20% duplicate=2% rate=1mbit'\n\
    [[fault]]\nat = '1s'\nkind = 'restart'\nnode = 'b'\n";

fn traced(seed: u64) -> (Report, String) {
    let scenario = parsed(&format!("{PAIR}{RANDOM}"));
    let mut simulation = Simulation::new(&scenario, seed);
    let lines = Rc::new(RefCell::new(String::new()));
    let out = lines.clone();
    simulation.trace(move |packet: &Packet<'_>| json_line(packet, &mut out.borrow_mut()));
    while simulation.run_for(Duration::from_millis(333)) {}
    (simulation.finish(), lines.take())
}

#[test]
fn one_seed_gives_one_report_and_one_trace_byte_for_byte() {
    let (first, second, other) = (traced(1), traced(1), traced(2));
    assert_eq!(first.0, second.0);
    assert!(first.1 == second.1, "the traces differ");
    assert!(first.1.lines().count() > 300);
    assert_ne!(first.0.trace_hash, other.0.trace_hash);
    assert_ne!(first.1, other.1);
    // Neither the trace nor the steps in which the simulation runs change the course of events.
    let scenario = parsed(&format!("{PAIR}{RANDOM}"));
    assert_eq!(simulate(&scenario, 1).flows, first.0.flows);
}

#[test]
fn outages_count_from_the_scenarios_zero() {
    let report = run("[[flow]]\nfrom = 'a'\nto = 'b'\ndirect = true\n\
                      path = 'delay=1ms outage=500ms..1s'\n");
    let packets = &report.flows[0].packets;
    assert_eq!((packets.sent, packets.lost), (100, 25));
    assert_eq!((packets.gaps, packets.longest_gap_ms), (1, 500.0));
    assert_eq!(report.flows[0].name, "a-b direct");
}

#[test]
fn faults_reach_both_directions_and_direct_paths() {
    let report = run(
        "[[flow]]\nname = 'x'\nfrom = 'a'\nto = 'b'\ndirect = true\n\
                      path = 'delay=1ms'\n\
                      [[fault]]\nat = '0s'\nevery = '500ms'\nkind = 'link-down'\nflow = 'x'\n\
                      [[fault]]\nat = '250ms'\nevery = '500ms'\ntimes = 2\nkind = 'link-up'\n\
                      flow = 'x'\n",
    );
    // The path is down for the first 250 ms of two half seconds, then for the whole second second.
    let packets = &report.flows[0].packets;
    assert_eq!(packets.lost, 13 + 13 + 50, "{packets:?}");
}

/// For 300 ms nobody reads at the receiver: packets that arrived in this time are late, and none is lost, over the
/// overlay and outside it. A stalled sender sends its packets later, and they are in time.
#[test]
fn packets_wait_for_a_node_that_is_stalled() {
    let flows = "[[flow]]\nfrom = 'a'\nto = 'b'\n\
                 [[flow]]\nfrom = 'a'\nto = 'b'\ndirect = true\npath = 'delay=10ms'\ndeadline = '100ms'\n";
    let stalled = |node: &str| {
        run(&format!(
            "{flows}[[fault]]\nat = '500ms'\nkind = 'stall'\nnode = '{node}'\nfor = '300ms'\n"
        ))
    };
    let report = stalled("b");
    for flow in &report.flows {
        let packets = &flow.packets;
        // Of 15 packets in 300 ms, the last five have waited no longer than the deadline.
        assert!(
            (8..=12).contains(&(packets.late + packets.lost)),
            "{packets:?}"
        );
    }
    assert_eq!(
        report.flows[1].packets.lost, 0,
        "the buffer is large enough"
    );
    for flow in &stalled("a").flows {
        assert_eq!((flow.packets.lost, flow.packets.late), (0, 0), "{flow:?}");
    }
}

#[test]
fn what_is_sent_before_the_measurement_is_not_judged() {
    let report = run("[[flow]]\nfrom = 'a'\nto = 'b'\nstart = '500ms'\n\
                      [[fault]]\nat = '600ms'\nkind = 'crash'\nnode = 'b'\n\
                      [[fault]]\nat = '900ms'\nkind = 'restart'\nnode = 'b'\n\
                      [measure]\nfrom = '1500ms'\nreport = ['sent', 'lost']\n");
    let packets = &report.flows[0].packets;
    assert_eq!((packets.sent, packets.lost), (25, 0), "{packets:?}");
    let table = report.to_string();
    assert!(table.contains("lost") && !table.contains("p95"), "{table}");
}

#[test]
fn the_json_has_the_documented_keys() {
    let report = run("[[flow]]\nfrom = 'a'\nto = 'b'\n");
    let json: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
    let keys = |value: &serde_json::Value| -> Vec<String> {
        value.as_object().unwrap().keys().cloned().collect()
    };
    let documented = include_str!("../../../../docs/scenario.md");
    for part in [
        &json,
        &json["flows"][0],
        &json["flows"][0]["delay_ms"],
        &json["overlay"],
    ] {
        for key in keys(part) {
            assert!(
                documented.contains(&format!("`{key}`")),
                "{key} is undocumented"
            );
        }
    }
    assert_eq!(json["flows"][0]["sent"], 100);
    assert_eq!(json["flows"][0]["deadline_ms"], 100.0);
}

#[test]
fn a_trace_goes_into_a_file_by_its_name() {
    let dir = crate::files::Scratch::new("trace").unwrap();
    let scenario = parsed(&format!("{PAIR}{RANDOM}"));
    for name in ["trace.pcap", "trace.jsonl"] {
        let path = dir.path().join(name);
        let file = TraceFile::create(&path).unwrap();
        let mut simulation = Simulation::new(&scenario, 1);
        simulation.trace(file.sink());
        while simulation.run_for(Duration::from_secs(1)) {}
        drop(simulation);
        let packets = file.finish().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        if name.ends_with(".pcap") {
            assert_eq!(bytes[..4], 0xa1b2_3c4d_u32.to_le_bytes());
        } else {
            assert_eq!(String::from_utf8(bytes).unwrap(), traced(1).1);
        }
        assert!(packets > 200);
    }
    assert!(
        TraceFile::create(dir.path()).is_err(),
        "a folder is no file"
    );
}

#[test]
fn every_mistake_names_file_line_and_key() {
    let line = |n: usize| format!("test.toml:{}: ", LINES + n);
    for (more, n, expected) in [
        (
            "[[flow]]\nfrom = 'a'\nto = 'b'\nrat = '1mbit'",
            4,
            "flow 1: rat: no such key; did you mean `rate`?",
        ),
        ("[[flwo]]", 1, "flwo: no such key; did you mean `flow`?"),
        (
            "[weather]",
            1,
            "weather: no such key; there are `scenario`, `settings`, `reliable`, `topology`",
        ),
        (
            "[[flow]]\nfrom = 'a'",
            1,
            "flow 1: `to` is missing: expected the name of a node",
        ),
        (
            "[[flow]]\nfrom = 'a'\nto = 'c'",
            3,
            "flow 1: to: there is no node `c`",
        ),
        (
            "[[flow]]\nfrom = 'a'\nto = 'a'",
            3,
            "flow 1: to: `a` is both ends",
        ),
        (
            "[[node]]\nname = 'c'\n[[flow]]\nfrom = 'a'\nto = 'c'",
            3,
            "flow a-c: no links lead from `a` to `c`",
        ),
        (
            "[[flow]]\nfrom = 'a'\nto = 'b'\nclass = 'vioce'",
            4,
            "flow a-b: class: `vioce`: did you mean `voice`?",
        ),
        (
            "[[flow]]\nfrom = 'a'\nto = 'b'\nrouting = 'stamped'",
            4,
            "routing: `stamped`",
        ),
        (
            "[[flow]]\nfrom = 'a'\nto = 'b'\npattern = 'cbr'",
            1,
            "`rate` is missing: expected a rate such as",
        ),
        (
            "[[flow]]\nfrom = 'a'\nto = 'b'\nrate = '1mbit'",
            4,
            "rate: says nothing for this `pattern`",
        ),
        (
            "[[flow]]\nfrom = 'a'\nto = 'b'\npattern = 'cbr'\nrate = '0mbit'",
            5,
            "rate: `0mbit`: expected a rate",
        ),
        (
            "[[flow]]\nfrom = 'a'\nto = 'b'\npattern = 'pareto'\nshape = 1",
            5,
            "shape: 1: expected a number above 1",
        ),
        (
            "[[flow]]\nfrom = 'a'\nto = 'b'\npacket = 15",
            4,
            "packet: 15: expected a whole number from 16 to 1392",
        ),
        (
            "[[flow]]\nfrom = 'a'\nto = 'b'\npacket = '160'",
            4,
            "packet: expected a whole number from 16 to 1392, without quotes",
        ),
        (
            "[[flow]]\nfrom = 'a'\nto = 'b'\ndeadline = 100",
            4,
            "deadline: expected a time such as",
        ),
        (
            "[[flow]]\nfrom = 'a'\nto = 'b'\nstart = '2s'",
            4,
            "start: the scenario is over after 2.00s",
        ),
        (
            "[[flow]]\nfrom = 'a'\nto = 'b'\nstart = '1s'\nstop = '1s'",
            5,
            "stop: 1.00s: expected a time after the start",
        ),
        (
            "[[flow]]\nfrom = 'a'\nto = 'b'\ndirect = true",
            1,
            "`path` is missing: expected the direct path",
        ),
        (
            "[[flow]]\nfrom = 'a'\nto = 'b'\npath = 'clean'",
            1,
            "`path` is for flows beside the overlay: add `direct = true`",
        ),
        (
            "[[flow]]\nfrom = 'a'\nto = 'b'\ndirect = true\npath = 'clean'\nrouting = 'hops'",
            1,
            "`routing` is for flows over the overlay",
        ),
        (
            "[[flow]]\nfrom = 'a'\nto = 'b'\n[[flow]]\nfrom = 'a'\nto = 'b'",
            4,
            "two flows `a-b`",
        ),
        (
            "[[link]]\na = 'b'\nb = 'a'\npath = 'clean'",
            1,
            "link b-a: there is such a link already",
        ),
        (
            "[[node]]\nname = 'c'\n[[link]]\na = 'c'\nb = 'a'\npath = 'delay=-1ms'",
            6,
            "link c-a: path: `delay=-1ms`: expected a time such as 10ms",
        ),
        (
            "[[node]]\nname = 'a'",
            2,
            "node 3: name: there are two nodes `a`",
        ),
        ("[[node]]\nname = ''", 2, "expected a word of 1 to 32 bytes"),
        (
            "[[node]]\nname = 'c'\naddress = '239.1.1.1'",
            3,
            "not the address of a node",
        ),
        (
            "[[node]]\nname = 'c'\naddress = '10.7.0'",
            3,
            "write it like 10.7.0.3",
        ),
        (
            "[[node]]\nname = 'c'\nclock_drift_ppm = 5000",
            3,
            "from -1000 to 1000",
        ),
        (
            "[[fault]]\nat = '1s'\nkind = 'crush'\nnode = 'a'",
            3,
            "kind: `crush`: did you mean `crash`?",
        ),
        (
            "[[fault]]\nat = '3s'\nkind = 'heal'",
            2,
            "at: the scenario is over",
        ),
        (
            "[[fault]]\nat = '1s'\nkind = 'heal'\nnode = 'a'",
            4,
            "node: says nothing for this `kind`",
        ),
        (
            "[[fault]]\nat = '1s'\nkind = 'crash'",
            1,
            "`node` is missing",
        ),
        (
            "[[fault]]\nat = '1s'\nkind = 'stall'\nnode = 'a'",
            1,
            "`for` is missing",
        ),
        (
            "[[fault]]\nat = '1s'\nkind = 'stall'\nnode = 'a'\nfor = '0s'",
            5,
            "expected a time above zero",
        ),
        (
            "[[fault]]\nat = '1s'\nkind = 'link-down'\nflow = 'x'",
            4,
            "there is no direct flow `x`",
        ),
        (
            "[[node]]\nname = 'c'\n[[fault]]\nat = '1s'\nkind = 'link-up'\na = 'a'\nb = 'c'",
            3,
            "no link between `a` and `c`",
        ),
        (
            "[[fault]]\nat = '1s'\nkind = 'heal'\ntimes = 3",
            4,
            "says nothing without `every`",
        ),
        (
            "[[fault]]\nat = '1s'\nkind = 'heal'\nevery = '0s'",
            4,
            "above zero",
        ),
        (
            "[[fault]]\nat = '1s'\nkind = 'partition'\ngroups = [['a'], ['b', 'a']]",
            4,
            "`a` is in two groups",
        ),
        (
            "[[fault]]\nat = '1s'\nkind = 'partition'\ngroups = 'a'",
            4,
            "expected lists of nodes",
        ),
        (
            "[measure]\nreport = ['delay', 'jiter']",
            2,
            "`jiter`: did you mean `jitter`?",
        ),
        (
            "[measure]\nfrom = '1w'",
            2,
            "from: `1w`: expected a time such as",
        ),
        ("[measure]\nfrom = = 3", 2, ""),
        ("[measure]\n[measure]", 2, "duplicate"),
        ("[[measure]]", 1, "expected a table: write [measure]"),
        (
            "[[flow]]\nfrom = 'a'\nto = 'b'\npattern = 'cbr'\nrate = '900gbit'\npacket = 16",
            0,
            "more than the limit of 20000000",
        ),
    ] {
        let error = Scenario::parse("test.toml", &format!("{PAIR}{more}\n")).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(expected), "{more}: {text}");
        assert!(n == 0 || text.starts_with(&line(n)), "{more}: {text}");
    }
}

#[test]
fn a_head_is_needed_and_everything_is_bounded() {
    let nodes: String = (0..1_001)
        .map(|n| format!("[[node]]\nname='{n}'\n"))
        .collect();
    let few: String = (0..1_000)
        .map(|n| format!("[[node]]\nname='{n}'\n"))
        .collect();
    let faults = "[[fault]]\nat='0s'\nkind='heal'\nevery='1ms'\n".repeat(2);
    let long = |seconds: u64| format!("[scenario]\nname='x'\nduration='{seconds}s'\n");
    for (text, expected) in [
        (String::new(), "test.toml:1: `scenario` is missing"),
        ("[scenario]\nname = 'x'".to_owned(), "`duration` is missing"),
        (
            "[scenario]\nname = 'x'\nduration = '0s'".to_owned(),
            "above zero",
        ),
        (long(86_401), "duration: 86401.00s is above the limit"),
        (long(1), "`node` is missing"),
        (
            format!("{}{nodes}", long(1)),
            "1001 nodes are above the limit of 1000",
        ),
        (format!("{}{}", long(86_400), few), "are too much"),
        (
            format!("{}[[node]]\nname='a'\n{faults}", long(6)),
            "more than 10000 faults",
        ),
        (
            "#".repeat(FILE_BYTES_MAX + 1),
            "larger than the 2097152 bytes",
        ),
        (
            "scenario = 3".to_owned(),
            "scenario: expected a table: write [scenario]",
        ),
        (
            "node = 3\n[scenario]\nname='x'\nduration='1s'".to_owned(),
            "write [[node]]",
        ),
        (format!("node = [3]\n{}", long(1)), "write [[node]]"),
    ] {
        let error = Scenario::parse("test.toml", &text).unwrap_err().to_string();
        assert!(error.contains(expected), "{expected}: {error}");
    }
    let missing = Scenario::load(Path::new("no/such/file.toml")).unwrap_err();
    assert!(
        missing
            .to_string()
            .contains("cannot read no/such/file.toml")
    );
}

#[test]
fn addresses_are_given_where_none_is_asked_for() {
    let scenario = parsed(
        "[scenario]\nname='x'\nduration='1s'\n[[node]]\nname='a'\n\
         [[node]]\nname='b'\naddress='10.7.0.1'\n[[node]]\nname='c'\n",
    );
    let addresses: Vec<String> = scenario
        .nodes
        .iter()
        .map(|n| n.address.to_string())
        .collect();
    assert_eq!(addresses, ["10.7.0.2", "10.7.0.1", "10.7.0.3"]);
}

/// Parses a scenario on a generated network.
fn generated(topology: &str) -> Result<Scenario, Mistake> {
    let text = format!("[scenario]\nname='x'\nduration='2s'\n[topology]\n{topology}\n");
    Scenario::parse("test.toml", &text)
}

#[test]
fn networks_are_generated() {
    for (topology, nodes, links) in [
        ("kind='chain'\nnodes=6\ndelay='10ms'", 6, 5),
        ("kind='ring'\nnodes=6\ndelay='10ms'", 6, 6),
        ("kind='diamond'\nnodes=4\ndelay='10ms'", 4, 4),
        (
            "kind='full-mesh'\nnodes=6\ndelay='10ms'\npath='loss=1% jitter=1ms'",
            6,
            15,
        ),
        ("kind='waxman'\nnodes=15\nloss_most='5%'", 15, 30),
        ("kind='transit-stub'\nstub_nodes=4", 52, 0),
        (
            "kind='cities'\nsites=['frankfurt','london','new-york','kaist']",
            4,
            6,
        ),
    ] {
        let scenario = generated(topology).unwrap();
        assert_eq!(scenario.nodes.len(), nodes, "{topology}");
        assert!(links == 0 || scenario.links.len() == links, "{topology}");
        assert_eq!(
            generated(topology).unwrap(),
            scenario,
            "equal seeds, equal networks"
        );
        let delays = scenario.links.iter().map(|link| link.path.there.delay());
        assert!(delays.min() > Some(Duration::ZERO), "{topology}");
    }
    let lossy = generated("kind='waxman'\nnodes=15\nloss_most='5%'").unwrap();
    let losses = lossy
        .links
        .iter()
        .map(|link| link.path.there.loss().marginal());
    assert_eq!(
        losses.clone().filter(|p| *p > 0.0).count(),
        15,
        "half of the links lose"
    );
    assert!(losses.into_iter().all(|p| p <= 0.05));
    let again = generated("kind='waxman'\nnodes=15\nseed=2").unwrap();
    assert_ne!(again.links, lossy.links);
}

#[test]
fn the_file_adds_to_a_generated_network_and_replaces_its_links() {
    let scenario = generated(
        "kind='cities'\nsites=['frankfurt','london','new-york']\n\
         [[node]]\nname='office'\n\
         [[link]]\na='office'\nb='frankfurt'\npath='delay=3ms'\n\
         [[link]]\na='new-york'\nb='london'\npath='delay=40ms loss=3%'\n\
         [[flow]]\nfrom='office'\nto='new-york'",
    );
    let scenario = scenario.unwrap();
    assert_eq!((scenario.nodes.len(), scenario.links.len()), (4, 4));
    let slow = Duration::from_millis(40);
    assert_eq!(
        scenario
            .links
            .iter()
            .filter(|l| l.path.there.delay() == slow)
            .count(),
        1
    );
    let report = simulate(&scenario, 1);
    let packets = &report.flows[0].packets;
    assert_eq!((packets.sent, packets.lost), (100, 0), "{packets:?}");
}

#[test]
fn mistakes_in_a_topology_are_told() {
    for (topology, line, expected) in [
        (
            "kind='star'",
            5,
            "kind: `star`: expected one of `chain`, `cities`",
        ),
        ("nodes=5", 4, "`kind` is missing"),
        ("kind='ring'\nnodes=6", 4, "`delay` is missing"),
        (
            "kind='ring'\nnodes=2\ndelay='1ms'",
            4,
            "too few for this shape",
        ),
        (
            "kind='ring'\nnodes=2000000\ndelay='1ms'",
            6,
            "from 2 to 1000",
        ),
        ("kind='ring'\nnodes=6\ndelay='1w'", 7, "expected a time"),
        ("kind='ring'\nnodes=6\ndelay='1000s'", 7, "at most 900.00s"),
        (
            "kind='ring'\nnodes=6\ndelay='1ms'\nbeta=3",
            8,
            "beta: says nothing for this `kind`",
        ),
        (
            "kind='full-mesh'\nnodes=100\ndelay='1ms'",
            4,
            "100 nodes with 4950 links are above",
        ),
        ("kind='waxman'\nnodes=9\nbeta=-1", 4, "out of range"),
        (
            "kind='waxman'\nnodes=9\npath='delay=1ms'",
            7,
            "the generator gives the delay",
        ),
        (
            "kind='waxman'\nnodes=9\nlossy='5%'",
            4,
            "`lossy` needs `loss_most`",
        ),
        (
            "kind='waxman'\nnodes=9\nloss_most='5%'\npath='loss=1%'",
            4,
            "keep one",
        ),
        ("kind='waxman'\nnodes=9\nloss_most='5'", 7, "not a share"),
        (
            "kind='cities'\nsites=['atlantis']",
            6,
            "no site is called 'atlantis'",
        ),
        (
            "kind='cities'\nsites=['london','london']",
            6,
            "listed twice",
        ),
        (
            "kind='ring'\nnodes=3\ndelay='1ms'\n[[node]]\nname='n0'",
            9,
            "two nodes `n0`",
        ),
    ] {
        let error = generated(topology).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(expected), "{topology}: {text}");
        assert_eq!(error.line, line, "{topology}: {text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// An example with a piece cut out or doubled is a scenario, or gives an error with a line that the file has.
    #[test]
    fn no_text_panics(which in 0usize..6, at in any::<u16>(), len in 1usize..60, doubled: bool) {
        let text = std::fs::read_to_string(&examples()[which]).unwrap();
        let place = |at: usize| text.floor_char_boundary(at.min(text.len()));
        let from = place(at as usize % text.len());
        let until = place(from + len);
        let rest = if doubled { from } else { until };
        let broken = format!("{}{}", &text[..until.min(from + (until - from) * usize::from(doubled))], &text[rest..]);
        if let Err(mistake) = Scenario::parse("x", &broken) {
            prop_assert!((1..=broken.lines().count() + 1).contains(&mistake.line));
            prop_assert!(!mistake.what.is_empty());
        }
    }
}

/// The number is the same on every machine, in debug and in release. If you change what nodes send, or when, or the
/// simulator, put the new number here: `sinew sim run examples/diamond.toml --json`.
#[test]
fn the_trace_of_an_example_is_pinned() {
    assert_eq!(example("diamond.toml").trace_hash, "400b6d324ca2975b");
}

#[test]
fn without_sealing_the_same_happens_in_other_bytes() {
    const FLOW: &str = "[[flow]]\nfrom = 'a'\nto = 'b'\n";
    let sealed = run(FLOW);
    let text = format!("{PAIR}{FLOW}").replace("'2s'", "'2s'\nsealing = false");
    let open = simulate(&parsed(&text), 1);
    assert_eq!(open.flows[0].packets.lost, 0);
    assert_eq!(sealed.flows[0].packets.sent, open.flows[0].packets.sent);
    assert_eq!(sealed.overlay.payload_bytes, open.overlay.payload_bytes);
    assert_ne!(sealed.trace_hash, open.trace_hash);
    let wrong = text.replace("= false", "= 'no'");
    let mistake = Scenario::parse("test.toml", &wrong).unwrap_err();
    assert!(mistake.to_string().contains("sealing"), "{mistake}");
}
