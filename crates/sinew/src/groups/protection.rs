//! Adds the protection of a source's packets to a group, on the worst link of the paths to its members.
//!
//! The deadline is that of the group's setting or, without one, that of the flow, if it passes the asked node. Without
//! a deadline, and for packets without repair in time, there is no protection to show. The same is true for more
//! members than are examined: the worst link of some would be mistaken for that of all.

use crate::control::Control;
use crate::show::{list, text, worst_in_words};
use base::Duration;
use serde_json::{Value, json};
use tools::explain::{self, Asked, LinkProtection, View};

/// Most members whose paths are examined, of all groups together; each path is a search of the whole network.
const MEMBERS_MAX: usize = 64;

/// Adds to each source of the answer's groups the protection of its worst link.
pub(super) fn add(control: &mut Control, answer: &mut Value, status: &Value) {
    // A node of another version may not report its network.
    if let Ok(view) = crate::why::ask(control) {
        tell(&view, answer, status);
    }
}

fn tell(view: &View, answer: &mut Value, status: &Value) {
    let mut members_left = MEMBERS_MAX;
    for group in answer["groups"].as_array_mut().into_iter().flatten() {
        if text(&group["tree"]) == "scribe" {
            continue;
        }
        let sources = list(&group["sources"]).iter();
        let told: Vec<Value> = sources
            .map(|source| {
                let worst = worst(view, (group, source), status, &mut members_left);
                worst.map_or(Value::Null, |link| worst_in_words(&link))
            })
            .collect();
        for (source, told) in group["sources"]
            .as_array_mut()
            .into_iter()
            .flatten()
            .zip(told)
        {
            source["protection"] = told;
        }
    }
}

fn worst(
    view: &View,
    (group, source): (&Value, &Value),
    status: &Value,
    members_left: &mut usize,
) -> Option<LinkProtection> {
    let from = text(&source["source"]);
    let setting = &group["setting"];
    let flow = flow(status, from, text(&group["group"]));
    let said = |key: &str| match setting[key].is_null() {
        true => flow.map_or(Value::Null, |flow| flow[key].clone()),
        false => setting[key].clone(),
    };
    if said("link") != "real-time" {
        return None;
    }
    let deadline_ms = said("deadline_ms").as_f64().filter(|ms| *ms > 0.0)?;
    let asked = Asked {
        class: text(&source["metric"]).parse().ok()?,
        deadline: Duration::from_micros((deadline_ms * 1e3) as u64).min(explain::DEADLINE_MAX),
        runners_up: 0,
        aim: crate::service::aim_of(&json!({
            "target_pct": said("target_pct"), "most_pct": said("most_pct"),
        })),
    };
    let members = list(&group["members"]).iter().map(text);
    let members: Vec<&str> = members.filter(|member| *member != from).collect();
    *members_left = members_left.checked_sub(members.len())?;
    let mut worst: Option<LinkProtection> = None;
    for member in members {
        let why = explain::why(view, from, member, &asked).ok();
        let Some(link) = why.as_ref().and_then(|why| why.worst()) else {
            continue;
        };
        let is_worse = worst
            .as_ref()
            .is_none_or(|worst| worst.plan.left_pct < link.plan.left_pct);
        if is_worse {
            worst = Some(link.clone());
        }
    }
    worst
}

/// Returns the flow of a source's packets to a group, if it passes the node.
pub(crate) fn flow<'a>(status: &'a Value, from: &str, group: &str) -> Option<&'a Value> {
    let is_of = |end: &Value, node: &str| {
        let end = text(end).rsplit_once(':');
        end.is_some_and(|(address, _)| address == node)
    };
    let mut flows = list(&status["snapshot"]["flows"]).iter();
    flows.find(|flow| is_of(&flow["from"], from) && is_of(&flow["to"], group))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_worst_link_of_all_members_is_told_with_its_numbers() {
        let link = |from: &str, to: &str, latency_us: u32| json!({"from": from, "to": to, "latency_us": latency_us, "loss": 3_277, "strikes": 5});
        let (ams, fra, nyc) = ("10.7.0.1", "10.7.0.2", "10.7.0.3");
        let network = json!({
            "teller": ams, "profile": "modern", "detect_us": 2_000, "late_us": 100_000,
            "protect": "auto", "holds": [],
            "nodes": [{"address": ams, "name": "ams"}, {"address": fra, "name": "fra"},
                      {"address": nyc, "name": "nyc"}],
            "links": [link(ams, fra, 5_000), link(fra, ams, 5_000), link(ams, nyc, 60_000),
                      link(nyc, ams, 60_000)],
            "rule": {"spacing_s": 1.0, "worse_s": 1.0, "worse_unclear_s": 1.0,
                     "better_s": 1.0, "better_unclear_s": 1.0, "better_max_s": 1.0},
        });
        let view = View::new(serde_json::from_value(network).unwrap()).unwrap();
        let answer = |setting: Value| {
            json!({"groups": [{"group": "239.1.1.1", "tree": "link-state", "setting": setting,
                "members": [ams, fra, nyc],
                "sources": [{"source": ams, "metric": "expected-latency"}]}]})
        };
        let told = |setting: Value, flows: Value| {
            let mut answer = answer(setting);
            tell(&view, &mut answer, &json!({"snapshot": {"flows": flows}}));
            answer["groups"][0]["sources"][0]["protection"].take()
        };
        let set = json!({"link": "real-time", "deadline_ms": 150});
        let worst = told(set, json!([]));
        assert_eq!(
            (&worst["from"], &worst["to"]),
            (&json!("ams"), &json!("nyc"))
        );
        assert!(worst["left_pct"].as_f64().unwrap() < 0.2, "{worst}");
        assert!(
            text(&worst["words"]).starts_with("ams-nyc: 5.00 % lost, 0."),
            "{worst}"
        );
        // A group with too many members gets no protection, but the next group does.
        let mut two = answer(json!({"link": "real-time", "deadline_ms": 150}));
        let small = two["groups"][0].clone();
        two["groups"].as_array_mut().unwrap().push(small);
        let many = (0..=MEMBERS_MAX).map(|n| format!("10.7.1.{n}"));
        let many = many.chain([fra.to_owned(), nyc.to_owned()]);
        two["groups"][0]["members"] = many.collect();
        tell(&view, &mut two, &json!({}));
        let protection = |group: usize| &two["groups"][group]["sources"][0]["protection"];
        assert_eq!((protection(0), protection(1)), (&Value::Null, &worst));
        // Without a setting, the flow has the deadline.
        let flow = json!([{"from": "10.7.0.1:5000", "to": "239.1.1.1:5004", "link": "real-time",
                           "deadline_ms": 150.0}]);
        assert_eq!(told(Value::Null, flow), worst);
        assert_eq!(told(Value::Null, json!([])), Value::Null);
        let bulk = json!({"link": "reliable", "deadline_ms": 150});
        assert_eq!(told(bulk, json!([])), Value::Null);
    }
}
