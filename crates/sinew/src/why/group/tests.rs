//! The answers about a group whose members are reached, not reached, or reached over a silent link only.

use super::*;
use clap::Parser;
use tools::explain::View;

const AMS: &str = "10.7.0.1";
const FRA: &str = "10.7.0.2";
const NYC: &str = "10.7.0.3";

#[derive(Parser)]
struct Alone {
    #[command(flatten)]
    about: About,
}

fn about(words: &str) -> About {
    let words = ["why"].into_iter().chain(words.split_whitespace());
    Alone::try_parse_from(words).unwrap().about
}

/// Returns a network in which `nyc` has this link to `fra`, or none.
fn view(to_nyc: Option<Value>) -> View {
    let link = |from: &str, to: &str| json!({"from": from, "to": to, "latency_us": 5_000, "loss": 0, "strikes": 0});
    let mut links = vec![link(AMS, FRA), link(FRA, AMS)];
    links.extend(to_nyc);
    let network = json!({
        "teller": AMS, "profile": "modern", "detect_us": 2_000, "late_us": 100_000, "protect": "auto", "holds": [],
        "nodes": [{"address": AMS, "name": "ams"}, {"address": FRA, "name": "fra"}, {"address": NYC, "name": "nyc"}],
        "links": links,
        "rule": {"spacing_s": 1.0, "worse_s": 1.0, "worse_unclear_s": 1.0,
                 "better_s": 1.0, "better_unclear_s": 1.0, "better_max_s": 1.0},
    });
    View::new(serde_json::from_value(network).unwrap()).unwrap()
}

fn names() -> Names {
    Names::of(
        &json!({"nodes": [{"address": AMS, "name": "ams"}, {"address": FRA, "name": "fra"},
                                {"address": NYC, "name": "nyc"}]}),
    )
}

fn told(view: &View) -> Told {
    let asked = Asked::default();
    let answers = [FRA, NYC].map(|member| (member, explain::why(view, "ams", member, &asked)));
    let (members, no_path) = sorted(answers.into_iter(), &names()).unwrap();
    Told {
        group: "239.1.1.1".to_owned(),
        source: "ams".to_owned(),
        tree: "link-state".to_owned(),
        setting: Value::Null,
        permits: Value::Null,
        kept_out: Vec::new(),
        ways: Value::Null,
        second: Value::Null,
        members,
        no_path,
        deadline_ms: 100.0,
        deadline_of: "a test",
        lines: Vec::new(),
    }
}

#[test]
fn a_member_without_a_path_leaves_the_others_their_answer() {
    let told = told(&view(None)).to_string();
    assert!(told.contains("to fra: ams - fra: 5.0 ms"), "{told}");
    assert!(
        told.contains("to nyc: no path: no chain of links"),
        "{told}"
    );
    // A source that nobody knows is an error for the whole group.
    let view = view(None);
    let answers =
        [FRA, NYC].map(|member| (member, explain::why(&view, "x", member, &Asked::default())));
    assert!(matches!(
        sorted(answers.into_iter(), &names()),
        Err(ExplainError::Misused(_))
    ));
}

#[test]
fn no_latency_is_printed_that_stands_for_a_silent_link() {
    let silent = json!({"from": FRA, "to": NYC, "latency_us": 5_000, "loss": 0, "strikes": 0,
                        "price_us": u32::MAX});
    let told = told(&view(Some(silent))).to_string();
    assert!(
        told.contains("to nyc: ams - fra - nyc: no path but over a silent link"),
        "{told}"
    );
    assert!(!told.contains("1152921504"), "{told}");
}

#[test]
fn the_deadline_is_the_group_s_or_the_flow_s_or_the_command_s() {
    let deadline = |setting: Value, flow: Option<Value>| {
        let known = json!({ "setting": setting });
        let (asked, of) = asked_of(&known, flow.as_ref(), &about("--deadline 70ms"));
        (asked.deadline.as_millis(), of)
    };
    let (set, flow) = (json!({"deadline_ms": 500}), json!({"deadline_ms": 250.0}));
    assert_eq!(
        deadline(set.clone(), Some(flow.clone())),
        (500, "the group's setting")
    );
    assert_eq!(
        deadline(Value::Null, Some(flow.clone())),
        (250, "the source's socket")
    );
    assert_eq!(
        deadline(json!({"deadline_ms": null}), Some(flow)),
        (250, "the source's socket")
    );
    let (ms, of) = deadline(Value::Null, None);
    assert!(ms == 70 && of.starts_with("--deadline"), "{ms} {of}");
}

#[test]
fn a_source_that_is_refused_is_not_called_silent() {
    let group = json!({"members": [FRA], "refused_packets": 304});
    let status = json!({"snapshot": {"name": "ams", "address": AMS}});
    let told = told(&view(None));
    let said = |refused| lines(&told, &group, (None, refused), &names()).join("\n");
    let refused = said(may_not_send(&group, &status));
    assert!(
        refused.contains("ams may not send: 304 dropped"),
        "{refused}"
    );
    assert!(!refused.contains("sends nothing"), "{refused}");
    assert!(
        refused.contains("judged by a deadline of 100 ms, from a test"),
        "{refused}"
    );
    assert!(said(None).contains("ams sends nothing"));
}
