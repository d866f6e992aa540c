//! Measurements before a copy, and the choice of relays.

use crate::chain::Chain;

/// The rate of a loopback is not measured here: often the processor limits it, and then the measurement has no result.
#[test]
fn the_segments_of_the_way_are_asked_about_and_the_copy_arrives() {
    let chain = Chain::new("cp-probe", 3);
    chain.file("data", 8_000_000);
    let before = chain.cp("data lon:before --no-probe");
    assert_eq!(before["predicted_bps"], serde_json::Value::Null, "{before}");
    let output = chain.try_cp("data lon:copy --probe --json");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("ams to fra ") && said.contains("fra to lon "),
        "{said}"
    );
    // The expectation for the whole copy follows, before anything is copied.
    let (probed, last) = said.trim_end().rsplit_once('\n').unwrap();
    assert!(
        probed
            .lines()
            .all(|line| line.contains(" has ") || line.contains("too little went through")),
        "{said}"
    );
    assert!(is_expected(last), "{said}");
    let copy = std::fs::read(chain.root("lon").join("copy")).unwrap();
    assert_eq!(copy.len(), 8_000_000);
    chain.world.wait("no transfer is left", || {
        let idle = |name| chain.world.status(name)["bulk"]["active"] == 0;
        ["ams", "fra", "lon"].into_iter().all(idle)
    });
    for name in ["ams", "fra", "lon"] {
        let bulk = &chain.world.status(name)["bulk"];
        assert_eq!(bulk["failed"], serde_json::json!({}), "{name}: {bulk}");
    }
}

/// Returns true if the line is the expectation for the whole copy.
fn is_expected(line: &str) -> bool {
    let rate = line.contains("expects ") && line.contains(" Mbit/s (");
    rate || line.contains("is unknown before the copy")
}

#[test]
fn what_comes_from_another_node_is_asked_about_once_its_size_is_known() {
    let chain = Chain::new("cp-probe-pull", 2);
    let large = std::fs::File::create(chain.root("fra").join("large")).unwrap();
    large.set_len(300 << 20).unwrap();
    std::fs::write(chain.root("fra").join("small"), "x").unwrap();
    let pull = |words: &str| {
        let output = chain.try_cp(&format!("{words} --json"));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        let done: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(done["attempts"], 1, "{done}");
        (said, done)
    };
    let (said, done) = pull("fra:large large");
    assert!(said.contains("fra to ams "), "{said}");
    assert!(is_expected(said.lines().last().unwrap()), "{said}");
    assert_eq!(said.lines().filter(|line| is_expected(line)).count(), 1);
    assert_eq!(done["total_bytes"], 300 << 20, "{done}");
    assert_eq!(done["bytes"], 300 << 20, "{done}");
    let copy = std::fs::metadata(chain.world.dir.join("large")).unwrap();
    assert_eq!(copy.len(), 300 << 20);
    let (said, _) = pull("fra:large again --no-probe");
    assert_eq!(
        said.lines().filter(|line| is_expected(line)).count(),
        1,
        "{said}"
    );
    assert_eq!(pull("fra:large quiet --no-probe --quiet").0, "");
    assert_eq!(pull("fra:small small").0, "", "it is over at once");
}

/// The bytes that the target lacks decide, and not the first file.
#[test]
fn a_tree_is_asked_about_if_the_target_has_nothing_of_it_whatever_its_first_file_is() {
    let chain = Chain::new("cp-probe-tree", 2);
    let tree = chain.world.dir.join("tree");
    std::fs::create_dir(&tree).unwrap();
    std::fs::write(tree.join("1-empty"), "").unwrap();
    let large = std::fs::File::create(tree.join("2-large")).unwrap();
    large.set_len(300 << 20).unwrap();
    let probed_s = || chain.cp("tree/ fra:copy")["probed_s"].as_f64().unwrap();
    assert!(probed_s() > 0.0);
    std::fs::write(tree.join("0-new"), "x").unwrap();
    assert!(probed_s() <= 0.0, "the rest is there");
}

#[test]
fn the_ways_to_several_are_measured_too_and_each_segment_once() {
    let chain = Chain::new("cp-probe-several", 3);
    let data = std::fs::read(chain.file("data", 3_000_000)).unwrap();
    let output = chain.try_cp("data fra:copy lon:copy --probe");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    for segment in ["ams to fra ", "fra to lon "] {
        let told = format!("sinew: {segment}");
        let times = said.lines().filter(|line| line.starts_with(&told)).count();
        assert_eq!(times, 1, "{said}");
    }
    for node in ["fra", "lon"] {
        assert!(std::fs::read(chain.root(node).join("copy")).unwrap() == data);
    }
}

#[test]
fn who_relays_for_some_refuses_the_others_and_they_go_around() {
    let mut chain = Chain::ring("cp-some");
    for (name, lines) in [
        ("fra", "passes = [\"ams\"]\n"),
        ("par", "passes = [\"10.7.0.9\"]\n"),
    ] {
        let config = chain.world.dir.join(format!("net/{name}/node.toml"));
        let text = std::fs::read_to_string(&config).unwrap();
        std::fs::write(
            config,
            text.replace("[relay]\n", &format!("[relay]\n{lines}")),
        )
        .unwrap();
    }
    chain.start();
    chain.file("data", 1_000_000);
    let through = |done: &serde_json::Value, node: &str| {
        let segments = done["segments"].as_array().unwrap();
        segments.iter().any(|s| s["to"] == node)
    };
    // fra relays for ams, and par does not.
    let done = chain.cp("data lon:over-fra --via fra --no-probe");
    assert!(through(&done, "10.7.0.2"), "{done}");
    let forced = chain.try_cp("data lon:forced --via par --no-probe --give-up 0s");
    let said = String::from_utf8_lossy(&forced.stderr).into_owned();
    assert!(
        !forced.status.success() && said.contains("relays for some nodes, and ams is none"),
        "{said}"
    );
    // par has announced for which nodes it relays, so no copy tries it, whichever path is planned first.
    chain
        .world
        .wait("par is known to relay for another node", || {
            let par = bulk(&chain, "10.7.0.4");
            par["for_some"] == true && par["refuses_teller"] == true
        });
    assert_eq!(bulk(&chain, "10.7.0.2")["refuses_teller"], false);
    for number in 0..3 {
        let done = chain.cp(&format!("data lon:copy{number} --no-probe"));
        assert!(through(&done, "10.7.0.2"), "{done}");
        assert_eq!(done["attempts"], 1, "{done}");
    }
    // A copy in the other direction is begun at ams, too.
    let done = chain.cp("lon:copy0 back --no-probe");
    assert_eq!(done["attempts"], 1, "{done}");
    let asked = chain.world.status("par")["bulk"]["refused"].clone();
    assert_eq!(asked["forbidden"], 1, "only what had --via: {asked}");
    // par accepts data for itself and sends its own.
    chain.cp("data par:copy --no-probe");
}

/// The rule is too long to be announced: a node that is not named is refused, and its copy then uses another path.
#[test]
fn who_relays_for_more_than_can_be_told_is_asked() {
    let mut chain = Chain::ring("cp-ask");
    let words: Vec<String> = (0..=16).map(|i| format!("10.7.1.{i}")).collect();
    chain.append("fra", &format!("passes = {words:?}"));
    chain.append("par", &format!("passes = {words:?}"));
    chain.start();
    chain.file("data", 1_000);
    chain.world.wait("both are known to relay for some", || {
        let both = ["10.7.0.2", "10.7.0.4"].map(|node| bulk(&chain, node));
        both.iter().all(|bulk| bulk["for_some"] == true)
    });
    assert_eq!(bulk(&chain, "10.7.0.2")["refuses_teller"], false);
    let refused = chain.try_cp("data lon:copy --no-probe --give-up 0");
    assert_eq!(refused.status.code(), Some(1));
    let asked = ["fra", "par"].map(|node| {
        let refused = &chain.world.status(node)["bulk"]["refused"];
        refused["forbidden"].as_u64().unwrap_or(0)
    });
    assert!(asked.iter().sum::<u64>() > 0, "{asked:?}");
}

/// A node's own copies use its places like those of other nodes.
#[test]
fn who_sends_from_its_own_or_keeps_is_busy_for_others() {
    let mut chain = Chain::ring("cp-own-load");
    for relay in ["fra", "par"] {
        chain.append(relay, "transfers = 1");
    }
    chain.start();
    chain.file("data", 1_000);
    // For a copy to its neighbour, a node lends its connection, so no data passes through the node.
    for (busy, address, end) in [
        ("fra", "10.7.0.2", "lon:held"),
        ("par", "10.7.0.4", "lon:held"),
        ("fra", "10.7.0.2", "fra:held"),
        ("par", "10.7.0.4", "par:held"),
    ] {
        let at = match end.starts_with(busy) {
            true => "net/lon".to_owned(),
            false => format!("net/{busy}"),
        };
        let mut holder = std::process::Command::new(env!("CARGO_BIN_EXE_sinew"))
            .current_dir(&chain.world.dir)
            .args(["cp", "-", end, "--direct", "--node", &at])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        chain.world.wait("it is known to be busy", || {
            bulk(&chain, address)["load"] == 4
        });
        let done = chain.cp("data lon:copy --no-probe --fresh");
        assert_eq!(done["attempts"], 1, "{done}");
        let segments = done["segments"].as_array().unwrap();
        assert!(segments.iter().all(|s| s["to"] != address), "{done}");
        drop(holder.stdin.take());
        assert!(holder.wait().unwrap().success());
        chain.world.wait("it is known to be free", || {
            bulk(&chain, address)["load"] == 0
        });
    }
}

/// Returns what the first node knows about another node's service for bulk data.
fn bulk(chain: &Chain, address: &str) -> serde_json::Value {
    let told = chain.world.ask("ams", "{\"cmd\":\"network\"}\n");
    let network: serde_json::Value = serde_json::from_str(&told).unwrap();
    let nodes = network["nodes"].as_array().unwrap();
    let mut these = nodes.iter().filter(|node| node["address"] == address);
    these
        .next()
        .map_or(serde_json::Value::Null, |node| node["bulk"].clone())
}

#[test]
fn who_sends_nothing_to_find_out_or_relays_for_nobody_says_so() {
    let mut chain = Chain::ring("cp-closed");
    for (name, lines) in [("ams", "probe = 0\n"), ("fra", "passes = false\n")] {
        let config = chain.world.dir.join(format!("net/{name}/node.toml"));
        let text = std::fs::read_to_string(&config).unwrap();
        std::fs::write(
            config,
            text.replace("[relay]\n", &format!("[relay]\n{lines}")),
        )
        .unwrap();
    }
    chain.start();
    chain.file("data", 1_000_000);
    chain.world.wait("fra is known to relay for nobody", || {
        let network = chain.world.json("plan ams fra --node net/ams");
        let done = chain.cp("data lon:first --no-probe --fresh");
        let segments = done["segments"].as_array().unwrap();
        network["choice"] == "direct" && segments.iter().all(|s| s["to"] != "10.7.0.2")
    });
    // Both paths are equally good, and the one over fra is never tried.
    for number in 0..3 {
        let done = chain.cp(&format!("data lon:copy{number} --no-probe"));
        let segments = done["segments"].as_array().unwrap();
        assert!(segments.iter().all(|s| s["to"] != "10.7.0.2"), "{done}");
        assert_eq!(done["attempts"], 1, "{done}");
    }
    // fra still stores and sends its own data, and data from fra is relayed.
    chain.cp("data fra:copy --no-probe");
    let forced = chain.try_cp("data lon:forced --via fra --no-probe --give-up 0s");
    let said = String::from_utf8_lossy(&forced.stderr).into_owned();
    assert!(
        !forced.status.success() && said.contains("relays for nobody"),
        "{said}"
    );
    let probed = chain.try_cp("data lon:probed --probe");
    let said = String::from_utf8_lossy(&probed.stderr).into_owned();
    assert!(probed.status.success(), "{said}");
    assert!(
        said.contains("`[relay] probe` of its configuration is 0"),
        "{said}"
    );
}

/// So few bytes are sent that the measurement has no result. Without a record, each attempt would measure again.
#[test]
fn a_probe_that_has_found_nothing_is_not_repeated_by_the_next_attempt() {
    let mut chain = Chain::stopped("cp-probe-vain", 2);
    chain.append("ams", "probe = 1000");
    chain.start();
    let large = std::fs::File::create(chain.world.dir.join("large")).unwrap();
    large.set_len(300 << 20).unwrap();
    // Counts the transfers in which fra takes part: the copy, and the noise of a probe.
    let parts = |words: &str| {
        let count = || {
            let bulk = chain.world.status("fra")["bulk"].clone();
            let failed = bulk["failed"].as_object().unwrap().values();
            let failed: u64 = failed.filter_map(serde_json::Value::as_u64).sum();
            failed + bulk["done"].as_u64().unwrap()
        };
        let before = count();
        let done = chain.cp(words);
        assert_eq!(done["predicted_bps"], serde_json::Value::Null, "{done}");
        chain.world.wait("no transfer is left", || {
            chain.world.status("fra")["bulk"]["active"] == 0
        });
        count() - before
    };
    let first = parts("large fra:first");
    let second = parts("large fra:second");
    assert_eq!(first, second + 1, "the noise");
    // An explicit request is fulfilled.
    assert_eq!(parts("large fra:third --probe"), 2);
    assert_eq!(parts("large fra:fourth --no-probe"), 1);
}
