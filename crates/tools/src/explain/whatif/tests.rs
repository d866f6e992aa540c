use super::super::why;
use super::*;
use base::Duration;
use graph::LinkCost;
use graph::protection::RUN_USUAL_256THS;
use serde_json::{Value, json};

/// Makes the network of a scenario file with `[settings] protect`: `a-b` of 60 ms with 5 % of loss, and clean links
/// `a-c` and `c-b` of 60 ms each. `lacks` is a link that does not exist.
fn network(protect: &str, lacks: &str) -> View {
    network_for(0.0005, protect, lacks)
}

/// Makes the same network with another target. Above 0.1 %, nodes announce no repair.
fn network_for(target: f64, protect: &str, lacks: &str) -> View {
    let repairs = target <= 0.001 && !["off", "requests"].contains(&protect);
    let nodes = [("a", "10.7.0.1"), ("b", "10.7.0.2"), ("c", "10.7.0.3")];
    let address = |name: &str| nodes.iter().find(|(own, _)| *own == name).unwrap().1;
    let links = [("a", "b", 0.05), ("a", "c", 0.0), ("c", "b", 0.0)];
    let there = links
        .into_iter()
        .filter(|(a, b, _)| format!("{a}-{b}") != lacks);
    let both = there.flat_map(|(a, b, loss)| [(a, b, loss), (b, a, loss)]);
    let links = both.map(|(from, to, loss)| {
        json!({"from": address(from), "to": address(to), "latency_us": 60_000,
               "loss": LinkCost::new(0, loss).loss, "strikes": if protect == "off" { 0 } else { 5 },
               "run_256ths": RUN_USUAL_256THS,
               "repair_16ths": if repairs { 16 } else { 0 }})
    });
    let network = json!({
        "teller": null, "profile": "modern", "detect_us": 20_000, "late_us": 150_000,
        "loss_us": 1_000_000, "protect": protect, "holds": [],
        "aims": {"target": target, "most": 0.5, "most_single": 1.0},
        "nodes": nodes.map(|(name, address)| json!({"address": address, "name": name})),
        "links": links.collect::<Vec<Value>>(),
        "rule": {"spacing_s": 1.0, "worse_s": 1.0, "worse_unclear_s": 1.0,
                 "better_s": 1.0, "better_unclear_s": 1.0, "better_max_s": 1.0},
    });
    View::new(serde_json::from_value(network).unwrap()).unwrap()
}

fn asked() -> Asked {
    Asked {
        deadline: Duration::from_millis(150),
        ..Asked::default()
    }
}

/// Returns what `why` says of `a` to `b`.
fn is(view: &View) -> Choice {
    why(view, "a", "b", &asked()).unwrap().choice
}

/// Returns what `whatif` says of `a` to `b` after the edits.
fn would_be(view: &View, edits: &str) -> Choice {
    let told = what_if(view, edits, Some(("a", "b")), &asked()).unwrap();
    told.pair.and_then(|pair| pair.after).unwrap()
}

/// Returns the expected latency of a path that is chosen or next best.
fn expected_ms(choice: &Choice, path: &[&str]) -> f64 {
    let mut paths = choice.chosen.iter().chain(&choice.runners_up);
    paths
        .find(|found| found.path == path)
        .unwrap()
        .expected_latency_ms
}

#[test]
fn an_edited_protection_gives_the_path_of_a_network_that_has_this_setting() {
    let (direct, detour) = (["a", "b"], ["a", "c", "b"]);
    let (auto, requests) = (is(&network("auto", "")), is(&network("requests", "")));
    assert_eq!(auto.chosen[0].path, direct, "{}", auto.reason);
    assert_eq!(requests.chosen[0].path, detour, "{}", requests.reason);
    let all = ["off", "requests", "auto", "hop"];
    for before in all {
        for after in all {
            let got = would_be(
                &network(before, ""),
                &format!("a-b protect={after}, a-c protect={after}, c-b protect={after}"),
            );
            let wanted = is(&network(after, ""));
            assert_eq!(got.reason, wanted.reason, "{before} to {after}");
            assert_eq!(got, wanted, "{before} to {after}");
        }
    }
    let back = would_be(&network("auto", ""), "a-b protect=off, a-b protect=auto");
    assert_eq!(back, auto, "the cap returns");
}

#[test]
fn a_link_that_is_added_costs_what_it_costs_where_it_exists() {
    for protect in ["off", "requests", "auto", "hop"] {
        let exists = is(&network(protect, ""));
        let lacks = network(protect, "a-b");
        for edits in [
            "a-b delay=60ms loss=5%".to_owned(),
            format!("a-b delay=60ms loss=5% protect={protect}"),
            "a>b delay=60ms loss=5%, b>a delay=60ms loss=5%".to_owned(),
            "a-b delay=60ms, a-b loss=5%".to_owned(),
        ] {
            let added = would_be(&lacks, &edits);
            let cost = |choice: &Choice| expected_ms(choice, &["a", "b"]);
            assert_eq!(cost(&added), cost(&exists), "{protect}: {edits}");
            assert_eq!(added, exists, "{protect}: {edits}");
        }
        let again = would_be(&network(protect, ""), "a-b down, a-b delay=60ms loss=5%");
        assert_eq!(again, exists, "{protect}: down and added again");
    }
}

#[test]
fn a_target_that_others_do_not_expect_is_announced_without_repair() {
    let exists = is(&network_for(0.01, "auto", ""));
    for edits in [
        "a-b delay=60ms loss=5%",
        "a-b delay=60ms loss=5% protect=auto",
    ] {
        let added = would_be(&network_for(0.01, "auto", "a-b"), edits);
        assert_eq!(added.chosen, exists.chosen, "{edits}");
        assert_eq!(added.reason, exists.reason, "{edits}");
    }
}

/// A request takes the other direction, so the loss of one direction also counts in the other one.
#[test]
fn a_loss_of_one_direction_also_hits_the_requests_of_the_other() {
    let view = network("auto", "");
    let each = would_be(&view, "a-b delay=20ms, a>b loss=20%, b>a loss=20%");
    assert_eq!(each, would_be(&view, "a-b delay=20ms loss=20%"));
    let back = would_be(&view, "a-b delay=20ms, b>a loss=20%");
    let before = would_be(&view, "a-b delay=20ms");
    let cost = |choice: &Choice| expected_ms(choice, &["a", "b"]);
    assert!(
        cost(&back) > cost(&before),
        "{} {}",
        cost(&back),
        cost(&before)
    );
}
