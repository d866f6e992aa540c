use super::*;
use graph::protection::RUN_USUAL_256THS;
use serde_json::{Value, json};

const NODES: [(&str, &str); 4] = [
    ("ams", "10.7.0.1"),
    ("nyc", "10.7.0.2"),
    ("dub", "10.7.0.3"),
    ("x", "10.7.0.4"),
];

/// Makes a network with these links, all of which announce requests and repair: their ends, latency in ms, and loss.
fn network(links: &[(&str, &str, u32, f64)]) -> View {
    let address = |name: &str| NODES.iter().find(|(own, _)| *own == name).unwrap().1;
    let both = links
        .iter()
        .flat_map(|(a, b, ms, loss)| [(a, b, ms, loss), (b, a, ms, loss)]);
    let links = both.map(|(from, to, ms, loss)| {
        json!({"from": address(from), "to": address(to), "latency_us": ms * 1_000,
               "loss": LinkCost::new(0, *loss).loss, "strikes": 5,
               "run_256ths": RUN_USUAL_256THS, "repair_16ths": 16})
    });
    let network = json!({
        "teller": null, "profile": "modern", "detect_us": 20_000, "late_us": 100_000,
        "loss_us": 1_000_000, "protect": "auto", "holds": [],
        "nodes": NODES.map(|(name, address)| json!({"address": address, "name": name})),
        "links": links.collect::<Vec<Value>>(),
        "rule": {"spacing_s": 1.0, "worse_s": 1.0, "worse_unclear_s": 1.0,
                 "better_s": 1.0, "better_unclear_s": 1.0, "better_max_s": 1.0},
    });
    View::new(serde_json::from_value(network).unwrap()).unwrap()
}

fn advice(links: &[(&str, &str, u32, f64)], ms: u64) -> Advice {
    advise(&network(links), "ams", "nyc", Duration::from_millis(ms)).unwrap()
}

/// Routing expects as much repair on a new link as on the existing ones. With requests alone, no call would go over the
/// node half way.
#[test]
fn a_new_link_is_announced_as_the_others_are() {
    let told = advice(&[("ams", "dub", 5, 0.0), ("dub", "nyc", 45, 0.05)], 75);
    assert!(!told.is_reached && told.today.missed_pct > 0.2, "{told}");
    assert_eq!(told.candidates[0].kind, "half-way", "{told}");
    assert!(
        told.candidates
            .is_sorted_by(|a, b| a.missed_pct <= b.missed_pct),
        "{told}"
    );
    let direct = "link  ams-nyc would be new: about 38.1 ms";
    assert!(told.to_string().contains(direct), "{told}");
}

/// A new link to `dub` is enough, because calls go on over its link to `x`.
#[test]
fn only_the_new_links_of_the_path_are_listed() {
    let links = [
        ("ams", "x", 60, 0.05),
        ("x", "nyc", 1, 0.0),
        ("dub", "x", 10, 0.0),
    ];
    let told = advice(&links, 75);
    let dub = told.candidates.iter().find(|found| found.name == "dub");
    let dub = dub.unwrap_or_else(|| panic!("{told}"));
    assert_eq!(dub.path, ["ams", "dub", "x", "nyc"], "{told}");
    let [link] = &dub.links[..] else {
        panic!("{told}")
    };
    assert_eq!((link.from.as_str(), link.to.as_str()), ("ams", "dub"));
}

/// Checks that no candidate is slower or needs more repair, and that the least repair comes first.
fn saves_repair(told: &Advice) {
    let today = &told.today;
    let repair_pct = today.links.iter().map(|link| link.plan.repair_pct);
    let repair_pct = repair_pct.fold(0.0, f64::max);
    assert!(told.is_reached && repair_pct > 0.0, "{told}");
    let all = &told.candidates;
    assert!(
        all.iter().all(|found| found.latency_ms <= today.latency_ms),
        "{told}"
    );
    assert!(
        all.iter().all(|found| found.repair_pct <= repair_pct),
        "{told}"
    );
    assert!(
        all.is_sorted_by(|a, b| a.repair_pct <= b.repair_pct),
        "{told}"
    );
}

#[test]
fn if_the_target_is_reached_nothing_slower_is_offered_and_the_least_repair_comes_first() {
    for (loss, ms) in [(0.02, 190), (0.05, 150), (0.01, 150)] {
        saves_repair(&advice(
            &[("ams", "nyc", 60, loss), ("ams", "dub", 9, 0.0)],
            ms,
        ));
        let detour = advice(&[("ams", "dub", 9, 0.0), ("dub", "nyc", 60, loss)], ms);
        saves_repair(&detour);
        assert!(!detour.candidates.is_empty(), "{detour}");
    }
}

#[test]
fn a_path_without_repair_that_reaches_the_target_needs_nothing() {
    let told = advice(&[("ams", "nyc", 60, 0.0), ("ams", "dub", 9, 0.0)], 150);
    assert!(told.is_reached && told.candidates.is_empty(), "{told}");
    assert!(
        told.to_string().contains("this path reaches the target"),
        "{told}"
    );
}
