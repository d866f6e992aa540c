//! What calls would miss under which protection, and what would help them.

use super::*;
use base::Duration;

/// A link that is too long for requests, and neighbouring nodes.
const ATLANTIC: &str = r#"
[scenario]
name = "atlantic"
duration = "10s"
[[node]]
name = "ams"
[[node]]
name = "nyc"
[[node]]
name = "dub"
[[node]]
name = "west"
[[link]]
a = "ams"
b = "nyc"
path = "delay=60ms loss=5% burst=25%"
[[link]]
a = "ams"
b = "dub"
path = "delay=9ms"
[[link]]
a = "ams"
b = "west"
path = "delay=20ms"
"#;

const REQUESTS: &str = "[settings]\nprotect = \"requests\"\n";

fn asked(ms: u64) -> Asked {
    Asked {
        deadline: Duration::from_millis(ms),
        ..Asked::default()
    }
}

fn missed_pct(choice: &Option<Choice>) -> f64 {
    choice.as_ref().unwrap().chosen[0].missed_pct
}

#[test]
fn an_edit_changes_the_protection_and_what_calls_miss() {
    let view = view_at(ATLANTIC, 0);
    let pair = |edit: &str| {
        let told = what_if(&view, edit, Some(("ams", "nyc")), &asked(130)).unwrap();
        (told.to_string(), told.pair.unwrap())
    };
    let (text, off) = pair("ams-nyc protect=off");
    assert!(missed_pct(&off.before) < 0.1, "{text}");
    assert!((4.9..5.1).contains(&missed_pct(&off.after)), "{text}");
    assert!(
        text.contains("ams-nyc leaves 5.000 % (no protection)"),
        "{text}"
    );
    let link = |choice: &Option<Choice>| choice.as_ref().unwrap().chosen[0].links[0].clone();
    assert_ne!(link(&off.before).plan.protection, "none");
    assert!(link(&off.before).plan.repair_pct > 0.0 && link(&off.after).plan.repair_pct == 0.0);
    let (text, requests) = pair("ams-nyc protect=requests");
    assert!((4.9..5.1).contains(&missed_pct(&requests.after)), "{text}");
    let (_, auto) = pair("ams-nyc protect=auto");
    assert_eq!(auto.before, auto.after);
    // Only one direction changes: the other one stays the same.
    let (_, back) = pair("nyc>ams protect=off");
    assert_eq!(missed_pct(&back.before), missed_pct(&back.after));
    // On a short link requests are enough, and routing assigns a higher cost to a link without them.
    let (text, short) = pair("ams-nyc delay=10ms, ams-nyc protect=off delay=10ms");
    let cost = |choice: &Option<Choice>| choice.as_ref().unwrap().chosen[0].expected_latency_ms;
    let (_, asks) = pair("ams-nyc delay=10ms protect=requests");
    assert!(cost(&short.after) > cost(&asks.after), "{text}");
    assert!(missed_pct(&asks.after) < 0.2 && missed_pct(&short.after) > 4.9);
}

#[test]
fn a_network_without_repair_says_so() {
    let view = view_at(&format!("{ATLANTIC}{REQUESTS}"), 0);
    let told = why(&view, "ams", "nyc", &asked(130)).unwrap();
    assert!((4.9..5.1).contains(&told.choice.chosen[0].missed_pct));
    assert_eq!(told.choice.chosen[0].links[0].plan.protection, "requests");
    assert!(told.to_string().contains("\ncall  5.0"), "{told}");
}

#[test]
fn a_further_node_helps_where_requests_are_all_there_is() {
    let view = view_at(&format!("{ATLANTIC}{REQUESTS}"), 0);
    let advice = advise(&view, "ams", "nyc", Duration::from_millis(170)).unwrap();
    let text = advice.to_string();
    assert!((4.9..5.1).contains(&advice.today.missed_pct), "{text}");
    let best = &advice.candidates[0];
    assert!(best.missed_pct < 1.0, "{text}");
    assert!(advice.candidates.len() <= CANDIDATES_MAX);
    let missed = advice.candidates.iter().map(|c| c.missed_pct);
    assert!(missed.is_sorted(), "{text}");
    let half = advice.candidates.iter().find(|c| c.kind == "half-way");
    let half = half.unwrap();
    assert_eq!(half.path, ["ams", "?", "nyc"]);
    assert_eq!((half.latency_ms, half.links.len()), (60.0, 2));
    // A link over half of the distance loses about half.
    assert!((2.4..2.7).contains(&half.links[0].loss_pct), "{text}");
    assert!(text.contains("a node half way on ams-nyc"), "{text}");
    // Tables fit a terminal; the text after them is wrapped.
    let words = ["today", "link", "note"];
    let mut table = text
        .lines()
        .filter(|line| !words.iter().any(|word| line.starts_with(word)));
    assert!(table.all(|line| line.chars().count() <= 80), "{text}");
    // A city in which a node stands is not listed as a city: the node is listed.
    assert!(advice.candidates.iter().all(|c| c.name != "dublin"));
}

#[test]
fn links_that_do_not_exist_are_estimated_from_what_is_known() {
    let view = view_at(&format!("{ATLANTIC}{REQUESTS}"), 0);
    let advice = advise(&view, "dub", "west", Duration::from_millis(150)).unwrap();
    assert_eq!(advice.today.path, ["dub", "ams", "west"]);
    assert_eq!(advice.today.missed_pct, 0.0);
    assert!(advice.candidates.is_empty(), "nothing is missed: {advice}");
    assert!(advice.to_string().contains("no further node helps"));
    // Over ams nothing arrives in time; a direct link has the length on the map.
    let advice = advise(&view, "dub", "nyc", Duration::from_millis(60)).unwrap();
    assert_eq!(advice.today.missed_pct, 100.0);
    let best = &advice.candidates[0];
    assert_eq!(best.links[0].estimated_by, "map", "{advice}");
    assert!(best.latency_ms < 60.0 && best.missed_pct < 100.0);
}

#[test]
fn bad_questions_of_calls_say_what_to_do() {
    let view = view_at(ATLANTIC, 0);
    let refused = |src, dst, ms| {
        let told = advise(&view, src, dst, Duration::from_millis(ms));
        told.unwrap_err().to_string()
    };
    assert!(refused("ams", "mars", 150).contains("no node `mars`"));
    assert!(refused("ams", "ams", 150).contains("name two nodes"));
    assert!(refused("ams", "nyc", 0).contains("use a time above zero"));
}
