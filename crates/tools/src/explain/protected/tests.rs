use super::super::{Asked, why};
use super::*;
use graph::protection::RUN_USUAL_256THS;
use serde_json::{Value, json};
use wire::Aim;

/// Makes `ams` and `nyc`, `latency_ms` apart, with 5 % of loss in each direction. `with` is merged into the snapshot.
fn network(latency_ms: u32, with: &Value) -> View {
    let link = |from: &str, to: &str| json!({"from": from, "to": to, "latency_us": latency_ms * 1_000, "loss": 3_277, "strikes": 5});
    let (ams, nyc) = ("10.7.0.1", "10.7.0.2");
    let mut network = json!({
        "teller": ams, "profile": "modern", "detect_us": 2_000, "late_us": 100_000,
        "protect": "auto", "holds": [],
        "nodes": [{"address": ams, "name": "ams"}, {"address": nyc, "name": "nyc"}],
        "links": [link(ams, nyc), link(nyc, ams)],
        "rule": {"spacing_s": 1.0, "worse_s": 1.0, "worse_unclear_s": 1.0,
                 "better_s": 1.0, "better_unclear_s": 1.0, "better_max_s": 1.0},
    });
    for (key, value) in with.as_object().into_iter().flatten() {
        network[key] = value.clone();
    }
    View::new(serde_json::from_value(network).unwrap()).unwrap()
}

fn told(view: &View, deadline_ms: u64) -> Why {
    let asked = Asked {
        deadline: Duration::from_millis(deadline_ms),
        ..Asked::default()
    };
    why(view, "ams", "nyc", &asked).unwrap()
}

fn help<'a>(why: &'a Why, kind: &str) -> Option<&'a Help> {
    why.help.iter().find(|help| help.kind == kind)
}

#[test]
fn what_the_sender_of_a_link_announces_of_its_lane_counts_and_nothing_is_assumed_of_its_runs() {
    let with_runs = |run_256ths: u16, repair_16ths: u8| {
        let link = |from: &str, to: &str| {
            json!({"from": from, "to": to, "latency_us": 60_000, "loss": 3_277, "strikes": 5,
                   "run_256ths": run_256ths, "repair_16ths": repair_16ths})
        };
        let (ams, nyc) = ("10.7.0.1", "10.7.0.2");
        told(
            &network(60, &json!({"links": [link(ams, nyc), link(nyc, ams)]})),
            150,
        )
    };
    let with = |run: f64, repair_16ths| with_runs((run * 256.0) as u16, repair_16ths);
    let (alone, runs, bare) = (with(1.0, 16), with(4.0, 16), with(1.0, 0));
    let left = |why: &Why| why.protection[0].plan.left_pct;
    assert!(left(&alone) < left(&runs), "{alone}\n{runs}");
    assert!(left(&bare) > 4.0, "its sender has no repair: {bare}");
    // The setting would help it, and no other neighbour.
    assert!(help(&bare, "protect").unwrap().missed_pct < 0.1, "{bare}");
    assert_eq!(help(&bare, "neighbor"), None);
    assert_eq!(alone.protection[0].known, Known::Told);
    // A sender that has not measured runs yet announces none.
    let usual = with_runs(RUN_USUAL_256THS, 16);
    assert_eq!(usual.protection[0].known, Known::Announced);
    assert!(
        usual.to_string().contains("after a lost packet 25 %"),
        "{usual}"
    );
    let text = alone.to_string();
    assert!(
        text.contains("of ams-nyc the target of the asked node"),
        "{text}"
    );
    assert!(!text.contains("after a lost packet"), "{text}");
}

/// Links of both directions, whose senders allow this repair.
fn allowed(repair_16ths: u8) -> Value {
    let link = |from: &str, to: &str| {
        json!({"from": from, "to": to, "latency_us": 60_000, "loss": 3_277, "strikes": 5,
               "run_256ths": 269, "repair_16ths": repair_16ths})
    };
    json!([link("10.7.0.1", "10.7.0.2"), link("10.7.0.2", "10.7.0.1")])
}

#[test]
fn the_repair_that_a_neighbour_allows_counts_on_the_link_from_it() {
    let from_nyc = |repair_16ths| {
        let lane = json!({"from": "10.7.0.2", "to": "10.7.0.1", "loss": 0.05, "run": 1.05, "rtt_us": 120_000,
            "rtt_least_us": 120_000, "is_random": true, "takes_repair": true});
        let links = allowed(repair_16ths);
        let view = network(60, &json!({"lanes": [lane], "links": links}));
        let asked = Asked {
            deadline: Duration::from_millis(150),
            ..Asked::default()
        };
        let why = why(&view, "nyc", "ams", &asked).unwrap();
        assert_eq!(why.protection[0].known, Known::Measured);
        let given = "of nyc-ams the target of the asked node";
        assert!(why.to_string().contains(given), "{why}");
        why.protection[0].plan
    };
    let (all, little, none) = (from_nyc(16), from_nyc(2), from_nyc(0));
    assert!(all.left_pct < 0.1 && all.repair_pct > 12.5, "{all}");
    assert!(little.repair_pct <= 12.5 && little.left_pct > all.left_pct);
    assert_eq!((none.repair_pct, none.protection), (0.0, "requests"));
}

/// A node that repairs nothing itself still knows which other nodes do.
#[test]
fn the_setting_of_the_asked_node_does_not_count_on_links_of_others() {
    for protect in ["off", "requests", "auto"] {
        let with = json!({"teller": "10.7.0.3", "protect": protect, "links": allowed(16)});
        let why = told(&network(60, &with), 150);
        let plan = why.protection[0].plan;
        assert!(plan.left_pct < 0.1 && plan.repair_pct > 0.0, "{why}");
    }
}

/// The model of losses ends at 98 %.
#[test]
fn calls_over_a_link_that_loses_everything_miss_everything() {
    for (loss, least) in [(65_535, 99.99), (64_881, 98.99)] {
        let links = ["10.7.0.1", "10.7.0.2"].map(|from| {
            let to = if from == "10.7.0.1" {
                "10.7.0.2"
            } else {
                "10.7.0.1"
            };
            json!({"from": from, "to": to, "latency_us": 10_000, "loss": loss, "strikes": 5})
        });
        let why = told(&network(10, &json!({"links": links})), 150);
        let missed_pct = why.choice.chosen[0].missed_pct;
        assert!(missed_pct > least, "{loss}: {missed_pct}");
    }
}

#[test]
fn the_next_cheaper_and_the_next_better_plan_are_told() {
    let why = told(&network(60, &json!({})), 150);
    let [link] = &why.protection[..] else {
        panic!("{why}")
    };
    assert!(link.is_reached && link.plan.left_pct < 0.1, "{why}");
    assert_eq!((link.known, &link.in_force), (Known::Announced, &None));
    let (cheaper, better) = (link.cheaper.unwrap(), link.better.unwrap());
    assert!(cheaper.added_pct < link.plan.added_pct && cheaper.left_pct > link.plan.left_pct);
    assert!(better.left_pct < link.plan.left_pct * 0.9, "{why}");
    // The link has the same number wherever it is shown.
    let path = &why.choice.chosen[0];
    assert_eq!(path.links[0].plan, link.plan);
    assert_eq!(path.missed_pct, link.plan.left_pct);
    assert!((path.in_time_pct + path.missed_pct - 100.0).abs() < 1e-5);
    let text = why.to_string();
    for part in [
        "\nlink  ams-nyc: 5.00 % lost, ",
        "; cheaper: requests",
        "; better: requests",
        "\ngiven one call of 50 packets/s; of ams-nyc the settings of the asked node, and that after a lost packet 25 %",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(why.help.is_empty() && why.warning().is_none(), "{text}");
}

#[test]
fn of_the_own_link_what_is_in_force_and_measured_is_told() {
    let lane = json!({"from": "10.7.0.1", "to": "10.7.0.2", "loss": 0.05, "run": 1.05, "rtt_us": 120_000,
        "rtt_least_us": 120_000, "is_random": true, "takes_repair": true,
        "in_force": {"plan": "repair", "reason": "repair leaves no more than the target", "repair_pct": 20.0,
            "predicted_pct": 0.04, "measured_pct": 0.052, "measured_packets": 19_000, "cost_pct": 21.7}});
    let why = told(&network(60, &json!({"lanes": [lane]})), 150);
    assert_eq!(why.protection[0].known, Known::Own);
    let text = why.to_string();
    let now = "in force now: requests, 20 % repair packets, +21.7 % bytes, 0.052 % stayed lost of 19000 packets";
    assert!(text.contains(now), "{text}");
    assert!(
        !text.contains("after a lost packet"),
        "nothing of it is assumed: {text}"
    );
}

/// If the sender itself allows less repair than a node does, no setting of a node would help.
#[test]
fn what_a_sender_limits_itself_is_neither_warned_of_nor_blamed_on_a_node() {
    let of = |view: &View, target, most| {
        let asked = Asked {
            deadline: Duration::from_millis(150),
            aim: Aim::new(target, most).unwrap(),
            ..Asked::default()
        };
        why(view, "ams", "nyc", &asked).unwrap()
    };
    let view = network(60, &json!({}));
    let bare = of(&view, None, Some(0.0));
    assert!(bare.protection[0].plan.left_pct > 4.0, "{bare}");
    assert!(bare.help.is_empty() && bare.warning().is_none(), "{bare}");
    let strict = of(&view, Some(0.000_1), Some(0.05));
    assert!(!strict.protection[0].is_reached, "{strict}");
    assert!(strict.warning().is_some(), "{strict}");
    for kind in ["cap", "protect"] {
        assert_eq!(help(&strict, kind), None, "{strict}");
    }
    // The node at the link repairs with a quarter at most, whatever the sender asks for.
    let link = |from: &str, to: &str| {
        json!({"from": from, "to": to, "latency_us": 60_000, "loss": 1_311, "strikes": 5,
               "run_256ths": 262, "repair_16ths": 4})
    };
    let (ams, nyc) = ("10.7.0.1", "10.7.0.2");
    let far = network(60, &json!({"links": [link(ams, nyc), link(nyc, ams)]}));
    let most = |why: &Why| why.protection[0].plan.added_pct;
    let dear = of(&far, Some(0.000_001), Some(2.0));
    assert!(most(&dear) > 10.0 && most(&dear) < 32.0, "{dear}");
    assert!(help(&dear, "cap").is_some(), "{dear}");
}

#[test]
fn what_would_help_is_told_where_the_target_is_not_reached() {
    let view = network(60, &json!({}));
    let why = told(&view, 80);
    let text = why.to_string();
    assert!(!why.protection[0].is_reached, "{text}");
    let longer = help(&why, "deadline").unwrap();
    let at = longer.deadline_ms as u64;
    assert!(told(&view, at).protection[0].is_reached, "{text}");
    assert!(!told(&view, at - 10).protection[0].is_reached, "{text}");
    assert_eq!(
        told(&view, at).choice.chosen[0].missed_pct,
        longer.missed_pct
    );
    let words = format!("a deadline of {at} ms instead of 80 would leave");
    assert!(text.contains("\nhelp  ") && text.contains(&words), "{text}");
    let missed = why.help.iter().map(|help| help.missed_pct);
    assert!(missed.is_sorted(), "{text}");
    let warning = why.warning().unwrap();
    assert!(
        warning.contains("calls to nyc") && !warning.contains('\n'),
        "{warning}"
    );
    // With a node half way, requests have enough time.
    let requests = network(40, &json!({"protect": "requests"}));
    let why = told(&requests, 110);
    let node = help(&why, "node").unwrap();
    assert!(
        node.missed_pct < 2.0 && why.choice.chosen[0].missed_pct > 4.0,
        "{why}"
    );
    assert!(
        why.to_string()
            .contains("a node half way on ams-nyc would leave")
    );
}

#[test]
fn a_setting_that_is_in_the_way_is_named() {
    let requests = told(&network(60, &json!({"protect": "requests"})), 150);
    assert!(
        help(&requests, "protect").unwrap().missed_pct < 0.1,
        "{requests}"
    );
    let aims = json!({"target": 0.0005, "most": 0.5, "most_single": 0.2});
    let capped = told(&network(60, &json!({"aims": aims})), 150);
    assert!(help(&capped, "cap").unwrap().missed_pct < 0.1, "{capped}");
    assert!(
        capped
            .warning()
            .unwrap()
            .contains("more would exceed the cap")
    );
    let lane = json!({"from": "10.7.0.1", "to": "10.7.0.2", "loss": 0.05, "run": 1.3, "rtt_us": 120_000,
        "rtt_least_us": 120_000, "is_random": true, "takes_repair": false});
    // The setting applies to both ends, whatever the other end accepts now.
    let both = json!({"protect": "requests", "lanes": [lane]});
    let both = told(&network(60, &both), 150);
    assert!(help(&both, "protect").unwrap().missed_pct < 0.1, "{both}");
    let words = both.to_string();
    assert!(
        words.contains("`protect = \"auto\"` at ams and nyc"),
        "{words}"
    );
    let old = told(&network(60, &json!({"lanes": [lane]})), 150);
    assert!(help(&old, "neighbor").unwrap().missed_pct < 0.1, "{old}");
}

#[test]
fn of_what_is_late_only_a_longer_deadline_helps() {
    let why = told(&network(60, &json!({})), 50);
    let kinds: Vec<&str> = why.help.iter().map(|help| help.kind).collect();
    assert_eq!(kinds, ["deadline"]);
    assert!(
        why.warning().unwrap().contains("the path takes 60.0 ms"),
        "{why}"
    );
}
