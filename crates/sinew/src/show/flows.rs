//! The table of flows. Each flow has its class, its path from here on, the reason for that path, and the protection on
//! its worst link.

use super::{Drawing, count, list, number, text, total};
use crate::control::Control;
use crate::failure::Failure;
use crate::names::Names;
use crate::service::{self, described};
use crate::table::{Cell, Column, Page, Table};
use client::Aim;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tools::explain::{self, Asked, LinkProtection, View};

/// Most reasons that are computed, one per destination and class. Each costs the node nothing and this program some ten
/// shortest-path trees.
const REASONS_MAX: usize = 64;

/// Adds to each flow why it takes its path, as far as this node decides that: for packets that it sends, that it
/// forwards by table, or whose path it chooses as the source. The function also adds the protection of the worst link
/// from here on, if the losses are repaired in time.
pub(super) fn add_reasons(control: &mut Control, status: &mut Value) {
    let own = text(&status["snapshot"]["address"]).to_owned();
    // A node of another version may not report its network: then there are no reasons.
    let view = crate::why::ask(control).ok();
    let Some(flows) = status["snapshot"]["flows"].as_array_mut() else {
        return;
    };
    let mut known = BTreeMap::new();
    for flow in flows {
        let reason = view.as_ref().and_then(|view| {
            let wish = wish(flow)?;
            if known.len() >= REASONS_MAX && !known.contains_key(&wish) {
                return None;
            }
            let reason = known
                .entry(wish)
                .or_insert_with_key(|wish| why(view, &own, wish));
            reason.clone()
        });
        let (reason, protection) = reason.unwrap_or_default();
        flow["reason"] = reason;
        flow["protection"] = match flow["link"] == "real-time" {
            true => protection,
            false => Value::Null,
        };
    }
}

/// Returns the numbers of a link, and in `words` its protection and the loss that remains.
pub(crate) fn worst_in_words(link: &LinkProtection) -> Value {
    let mut told = json!(link);
    let LinkProtection { from, to, plan, .. } = link;
    told["words"] = format!(
        "{from}-{to}: {:.2} % lost, {:.3} % left (target {} %), {plan}",
        link.loss_pct, plan.left_pct, link.target_pct
    )
    .into();
    told
}

/// Destination, class, deadline in microseconds, and the sender's wish for repair.
type Wish = (String, String, u64, Aim);

fn wish(flow: &Value) -> Option<Wish> {
    if flow["role"] == "delivers" {
        return None;
    }
    let (to, _port) = text(&flow["to"]).rsplit_once(':')?;
    let deadline_ms = flow["deadline_ms"].as_f64().unwrap_or(0.0);
    Some((
        to.to_owned(),
        text(&flow["routing"]).to_owned(),
        (deadline_ms * 1e3) as u64,
        service::aim_of(flow),
    ))
}

/// Returns the reason in words, and the protection of the worst link.
fn why(view: &View, own: &str, (to, class, deadline_us, aim): &Wish) -> Option<(Value, Value)> {
    let mut asked = Asked {
        class: class.parse().ok()?,
        runners_up: 1,
        aim: *aim,
        ..Asked::default()
    };
    if *deadline_us > 0 {
        asked.deadline = base::Duration::from_micros(*deadline_us).min(explain::DEADLINE_MAX);
    }
    let why = explain::why(view, own, to, &asked).ok()?;
    let worst = why.worst().map(worst_in_words);
    Some((why.choice.reason.into(), worst.unwrap_or_default()))
}

pub(super) fn page(status: &Value, drawing: &mut Drawing<'_>) -> Result<Page, Failure> {
    let mut table = Table::new(&[
        Column::words("FROM", 0),
        Column::words("TO", 0),
        Column::words("SERVICE", 5),
        Column::numbers(drawing.head("PACKETS", "RATE pkt/s"), 0),
        Column::numbers(drawing.head("BYTES", "RATE kbit/s"), 2),
        Column::numbers("DUPLICATES", 6),
        Column::numbers("EXPIRED", 3),
        Column::numbers("IDLE s", 4),
        Column::words("PATH", 1),
        Column::words("PROTECTION", 8),
        Column::words("WHY", 9),
    ]);
    let now_s = status["snapshot"]["uptime_s"].as_f64().unwrap_or(0.0);
    let names = Names::of(status);
    for flow in list(&status["snapshot"]["flows"]) {
        let (from, to) = (text(&flow["from"]), text(&flow["to"]));
        let key = format!("{from} {to} {}", described(flow));
        let bytes = match &mut drawing.rates {
            Some(rates) => {
                let rate = rates.of(format!("{key} bytes"), total(&flow["bytes"]), now_s);
                Cell::number(rate.map(|bytes| bytes * 8.0 / 1e3), 0)
            }
            None => count(&flow["bytes"]).into(),
        };
        table.row([
            end(&names, from).into(),
            end(&names, to).into(),
            described(flow).into(),
            drawing.counter(&key, &flow["packets"], now_s),
            bytes,
            count(&flow["duplicates"]).into(),
            count(&flow["expired"]).into(),
            number(&flow["idle_s"], 1).into(),
            path(&names, flow).into(),
            flow["protection"]["words"].as_str().unwrap_or("-").into(),
            match flow["refused"].as_str() {
                Some(refused) => format!("refused: {refused}").into(),
                None => flow["reason"].as_str().unwrap_or("-").into(),
            },
        ]);
    }
    table.sort(3);
    let mut page = table.page(drawing.look, "no flows now")?;
    if let streams @ [_, ..] = list(&status["snapshot"]["streams"]) {
        page.push_blank();
        page.push(stream_table(streams, &names).page(&drawing.look.rest(), "")?);
    }
    Ok(page)
}

/// Lists the streams that end at the node.
fn stream_table(streams: &[Value], names: &Names) -> Table {
    let mut table = Table::new(&[
        Column::words("STREAM", 0),
        Column::words("TO", 0),
        Column::words("SERVICE", 6),
        Column::words("STATE", 0),
        Column::numbers("SENT bytes", 1),
        Column::numbers("UNACKED bytes", 4),
        Column::numbers("RECEIVED bytes", 1),
        Column::numbers("UNREAD bytes", 4),
        Column::numbers("WINDOW bytes", 5),
        Column::numbers("RTT ms", 2),
        Column::numbers("RETRANSMITTED", 3),
    ]);
    for stream in streams {
        table.row([
            end(names, text(&stream["from"])),
            end(names, text(&stream["to"])),
            described(stream),
            text(&stream["state"]).to_owned(),
            count(&stream["sent"]),
            count(&stream["unacknowledged"]),
            count(&stream["received"]),
            count(&stream["unread"]),
            count(&stream["window"]),
            number(&stream["srtt_ms"], 1),
            count(&stream["retransmissions"]),
        ]);
    }
    table.sort(2);
    table
}

/// Formats a node by its name, with the port.
fn end(names: &Names, address: &str) -> String {
    match address.rsplit_once(':') {
        Some((node, port)) => format!("{}:{port}", names.name(node)),
        None => address.to_owned(),
    }
}

fn path(names: &Names, flow: &Value) -> String {
    let named = |path: &Value| {
        let nodes: Vec<&str> = list(path)
            .iter()
            .map(|node| names.name(text(node)))
            .collect();
        nodes.join("-")
    };
    let paths: Vec<String> = list(&flow["paths"]).iter().map(named).collect();
    match (text(&flow["role"]), paths.is_empty()) {
        ("delivers", _) => "here".to_owned(),
        (_, false) => paths.join(" + "),
        // The stamp in a source-routed packet gives the path.
        (_, true) => flow["next_hop"]
            .as_str()
            .map_or("-", |next| names.name(next))
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Look;
    use overlay::snapshot::NetworkSnapshot;

    fn flow(role: &str, to: &str, routing: &str) -> Value {
        json!({
            "from": "10.7.0.1:5000", "to": to, "role": role, "link": "real-time",
            "routing": routing, "priority": 4, "deadline_ms": 100.0, "next_hop": "10.7.0.2",
            "paths": [["10.7.0.1", "10.7.0.2", "10.7.0.3"]], "packets": 7, "bytes": 900,
            "duplicates": 0, "expired": 0, "idle_s": 0.25,
        })
    }

    fn page(status: &Value) -> String {
        let mut drawing = Drawing {
            look: &Look::default(),
            rates: None,
        };
        super::page(status, &mut drawing).unwrap().to_string()
    }

    #[test]
    fn a_flow_says_its_class_its_path_and_why() {
        let mut flow = flow("originates", "10.7.0.3:6000", "expected-latency");
        flow["reason"] = json!("least expected latency: 20.00 ms");
        let status = json!({"snapshot": {
            "name": "ams", "address": "10.7.0.1", "flows": [flow],
            "links": [{"name": "fra", "peer": "10.7.0.2"}],
        }});
        let page = page(&status);
        for expected in [
            "voice",
            "ams-fra-10.7.0.3",
            "least expected latency: 20.00 ms",
        ] {
            assert!(page.contains(expected), "{expected}: {page}");
        }
    }

    #[test]
    fn a_flow_says_what_protects_it_on_its_worst_link() {
        let link = |from: &str, to: &str| json!({"from": from, "to": to, "latency_us": 60_000, "loss": 3_277, "strikes": 5});
        let node = |address: &str, name: &str| json!({"address": address, "name": name});
        let snapshot = json!({
            "teller": "10.7.0.1", "profile": "modern", "detect_us": 2_000, "late_us": 100_000,
            "protect": "auto", "holds": [],
            "nodes": [node("10.7.0.1", "ams"), node("10.7.0.2", "nyc")],
            "links": [link("10.7.0.1", "10.7.0.2"), link("10.7.0.2", "10.7.0.1")],
            "rule": {"spacing_s": 2.0, "worse_s": 1.0, "worse_unclear_s": 15.0, "better_s": 20.0,
                     "better_unclear_s": 300.0, "better_max_s": 600.0},
        });
        let view = View::new(serde_json::from_value(snapshot).unwrap()).unwrap();
        let mut flow = flow("originates", "10.7.0.2:6000", "expected-latency");
        flow["deadline_ms"] = json!(150.0);
        let (_, protection) = why(&view, "10.7.0.1", &wish(&flow).unwrap()).unwrap();
        assert!(
            protection["left_pct"].as_f64().unwrap() < 0.2,
            "{protection}"
        );
        assert_eq!(protection["is_reached"], true);
        assert!(protection["cheaper"]["left_pct"].as_f64() > protection["left_pct"].as_f64());
        flow["protection"] = protection;
        let page = page(&json!({"snapshot": {"address": "10.7.0.1", "flows": [flow]}}));
        for part in ["ams-nyc: 5.00 % lost, 0.", " % left (target 0.05 %), "] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }

    #[test]
    fn a_refused_flow_says_so() {
        let mut flow = flow("originates", "10.7.0.3:6000", "expected-latency");
        flow["reason"] = json!("least expected latency: 20.00 ms");
        flow["refused"] = json!("no room on the link to fra, which carries 142 kbit/s, for 7 s");
        let page = page(&json!({"snapshot": {"address": "10.7.0.1", "flows": [flow]}}));
        assert!(
            page.contains("refused: no room on the link to fra"),
            "{page}"
        );
        assert!(!page.contains("least expected latency"), "{page}");
    }

    #[test]
    fn streams_stand_below_the_flows() {
        let stream = json!({
            "from": "10.7.0.1:32768", "to": "10.7.0.3:8080", "state": "open", "framing": "bytes",
            "link": "reliable", "routing": "expected-latency", "priority": 2, "sent": 5_000_000,
            "unacknowledged": 70, "received": 3, "unread": 1, "window": 90_000, "in_flight": 60,
            "srtt_ms": 20.125, "retransmissions": 17,
        });
        let status = json!({"snapshot": {"address": "10.7.0.1", "flows": [], "streams": [stream]}});
        let page = page(&status);
        for expected in [
            "10.7.0.3:8080",
            "bulk",
            "open",
            "20.1",
            "RETRANSMITTED",
            "17",
        ] {
            assert!(page.contains(expected), "{expected}: {page}");
        }
    }

    #[test]
    fn reasons_are_looked_for_where_the_path_is_decided() {
        let link =
            |from: &str, to: &str| json!({"from": from, "to": to, "latency_us": 10_000, "loss": 0});
        let node = |address: &str| json!({"address": address, "name": null});
        let snapshot = json!({
            "teller": "10.7.0.1", "profile": "modern", "detect_us": 2_000, "late_us": 100_000,
            "nodes": [node("10.7.0.1"), node("10.7.0.2"), node("10.7.0.3")],
            "links": [link("10.7.0.1", "10.7.0.2"), link("10.7.0.2", "10.7.0.3")],
            "rule": {"spacing_s": 2.0, "worse_s": 1.0, "worse_unclear_s": 15.0, "better_s": 20.0,
                     "better_unclear_s": 300.0, "better_max_s": 600.0},
            "holds": [],
        });
        let snapshot: NetworkSnapshot = serde_json::from_value(snapshot).unwrap();
        let view = View::new(snapshot).unwrap();
        let why = |role, to, routing| {
            let wish = wish(&flow(role, to, routing))?;
            let (reason, _) = why(&view, "10.7.0.1", &wish)?;
            reason.as_str().map(str::to_owned)
        };
        let least = why("forwards", "10.7.0.3:1", "latency").unwrap();
        assert!(least.starts_with("least latency: 20.00 ms"), "{least}");
        assert!(why("originates", "10.7.0.3:1", "best").is_some());
        assert_eq!(why("delivers", "10.7.0.1:1", "latency"), None);
        assert_eq!(
            why("forwards", "10.7.0.3:1", "stamped"),
            None,
            "the source knows"
        );
        assert_eq!(
            why("forwards", "10.7.0.9:1", "latency"),
            None,
            "not known any more"
        );
        assert_eq!(why("originates", "nowhere", "latency"), None);
    }
}
