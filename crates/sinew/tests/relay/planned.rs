//! What is found out before a copy, and who is planned as a relay.

use crate::chain::Chain;

/// What a loopback carries is not asked here: often the processor limits it, and then nothing is found out.
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
    // And then what is expected of the whole, before anything is copied.
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

/// What is said of the whole copy before it runs.
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

/// What the target has of it decides, and not what comes first.
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
    // What ams begins fra passes on, and par does not.
    let done = chain.cp("data lon:over-fra --via fra --no-probe");
    assert!(through(&done, "10.7.0.2"), "{done}");
    let forced = chain.try_cp("data lon:forced --via par --no-probe --give-up 0s");
    let said = String::from_utf8_lossy(&forced.stderr).into_owned();
    assert!(
        !forced.status.success() && said.contains("relays for some nodes, and ams is none"),
        "{said}"
    );
    // Nobody says which way: whichever is planned, it comes by the one that is open.
    for number in 0..3 {
        let done = chain.cp(&format!("data lon:copy{number} --no-probe"));
        assert!(through(&done, "10.7.0.2"), "{done}");
    }
    // What is for it or from it par takes all the same.
    chain.cp("data par:copy --no-probe");
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
    // Both ways are as good, and the one over fra is never tried.
    for number in 0..3 {
        let done = chain.cp(&format!("data lon:copy{number} --no-probe"));
        let segments = done["segments"].as_array().unwrap();
        assert!(segments.iter().all(|s| s["to"] != "10.7.0.2"), "{done}");
        assert_eq!(done["attempts"], 1, "{done}");
    }
    // It keeps and gives what is its own all the same, and what comes from it goes on.
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
