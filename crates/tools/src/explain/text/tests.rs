use super::super::{Asked, why};
use super::*;
use serde_json::{Value, json};

/// Makes a network without recovery, with these links: their ends, and the loss in shares of 65 536.
fn network(links: &[(&str, &str, u16)]) -> View {
    let address = |name: &str| format!("10.7.0.{}", name.as_bytes()[0]);
    let both = links
        .iter()
        .flat_map(|(a, b, loss)| [(a, b, loss), (b, a, loss)]);
    let links = both.map(|(from, to, loss)| {
        json!({"from": address(from), "to": address(to), "latency_us": 10_000, "loss": loss, "strikes": 0,
               "run_256ths": 269, "repair_16ths": 0})
    });
    let nodes = ["s", "x", "y", "z", "t"];
    let nodes = nodes.map(|name| json!({"address": address(name), "name": name}));
    let network = json!({
        "teller": null, "profile": "modern", "detect_us": 20_000, "late_us": 150_000,
        "loss_us": 1_000_000, "protect": "off", "holds": [],
        "nodes": nodes,
        "links": links.collect::<Vec<Value>>(),
        "rule": {"spacing_s": 1.0, "worse_s": 1.0, "worse_unclear_s": 1.0,
                 "better_s": 1.0, "better_unclear_s": 1.0, "better_max_s": 1.0},
    });
    View::new(serde_json::from_value(network).unwrap()).unwrap()
}

fn told(view: &View, class: Class) -> (Why, String) {
    let asked = Asked {
        class,
        ..Asked::default()
    };
    let why = why(view, "s", "t", &asked).unwrap();
    let call = why.to_string();
    let call = call
        .lines()
        .find(|line| line.starts_with("call "))
        .unwrap()
        .to_owned();
    (why, call)
}

#[test]
fn paths_without_a_common_link_lose_what_all_of_them_lose() {
    let tenth = 6_554;
    let view = network(&[
        ("s", "x", tenth),
        ("x", "t", 0),
        ("s", "y", tenth),
        ("y", "t", 0),
    ]);
    for class in [Class::Disjoint(2), Class::Targeted] {
        let (why, call) = told(&view, class);
        assert_eq!(why.choice.chosen.len(), 2, "{why}");
        assert!((why.choice.missed_pct - 1.0).abs() < 0.001, "{why}");
        assert!(
            call.starts_with("call  1.000 % of a call's packets"),
            "{call}"
        );
        assert!(call.ends_with(" on all 2 paths"), "{call}");
    }
}

#[test]
fn paths_with_a_common_link_lose_at_most_what_the_best_one_loses() {
    let (tenth, hundredth) = (6_554, 655);
    let view = network(&[
        ("s", "x", tenth),
        ("s", "y", tenth),
        ("s", "z", tenth),
        ("z", "x", 0),
        ("z", "y", 0),
        ("x", "t", hundredth),
        ("y", "t", hundredth),
    ]);
    let (why, call) = told(&view, Class::Targeted);
    let missed = why.choice.chosen.iter().map(|path| path.missed_pct);
    assert_eq!(why.choice.chosen.len(), 3, "{why}");
    assert_eq!(why.choice.missed_pct, missed.fold(100.0, f64::min), "{why}");
    assert!(call.starts_with("call  at most 10."), "{call}");
}
