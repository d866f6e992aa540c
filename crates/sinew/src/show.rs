//! `sinew status | links | routes | flows`: shows the status of a running node.

mod flows;
mod links;
mod status;
mod wrong;

pub(crate) use flows::worst_in_words;

use crate::control::{Control, Watched};
use crate::failure::{Failure, Outcome};
use crate::names::Names;
use crate::table::{Cell, Column, Look, Page, Table, Wish};
use crate::watch::{self, Rates};
use clap::Args;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Arguments of the commands that show something.
#[derive(Debug, Args)]
pub struct Show {
    /// The node's control socket; default: SINEW_NODE, else the only one below this directory or in
    /// /run/sinew
    #[arg(long, value_name = "SOCKET")]
    pub node: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Refresh every second, with rates instead of totals, until you press `q`
    #[arg(long)]
    pub watch: bool,
    /// Which columns
    #[command(flatten)]
    pub wish: Wish,
}

/// The part of the status that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The node as a whole.
    Status,
    /// The node's links.
    Links,
    /// The node's routes.
    Routes,
    /// The flows through the node.
    Flows,
}

impl What {
    fn word(self) -> &'static str {
        match self {
            What::Status => "status",
            What::Links => "links",
            What::Routes => "routes",
            What::Flows => "flows",
        }
    }
}

/// The settings for drawing a page.
struct Drawing<'a> {
    look: &'a Look,
    /// Counters of the previous page, if the page is redrawn. The columns then show rates instead of totals.
    rates: Option<&'a mut Rates>,
}

impl Drawing<'_> {
    /// Returns the heading of the column for a counter, or for its rate.
    fn head(&self, total: &'static str, rate: &'static str) -> &'static str {
        match self.rates {
            Some(_) => rate,
            None => total,
        }
    }

    /// Returns the cell of a counter, or of its rate.
    fn counter(&mut self, key: &str, total: &Value, at_s: f64) -> Cell {
        let total = self::total(total);
        match &mut self.rates {
            Some(rates) => Cell::number(rates.of(key.to_owned(), total, at_s), 0),
            None => total.to_string().into(),
        }
    }
}

/// Shows a part of the status.
pub fn run(what: What, args: &Show) -> Outcome {
    let mut node = Watched::find_soon(args.node.as_deref())?;
    let mut rates = Rates::default();
    watch::show(args, what.word(), |look| {
        let status = node.with(|control| {
            let mut status = match what {
                What::Links if !args.watch => control.status_when(are_up)?,
                _ => control.status()?,
            };
            if what == What::Flows {
                flows::add_reasons(control, &mut status);
            }
            Ok(status)
        })?;
        if args.json {
            return Ok(Page::text(&json(what, &status)));
        }
        let mut drawing = Drawing {
            look,
            rates: args.watch.then_some(&mut rates),
        };
        let page = page(what, &status, &mut drawing)?;
        Ok(page.of(text(&status["snapshot"]["name"])))
    })
}

/// Returns the table of links of a node that was just started, once all links that it dials are up, or after
/// `patience`. If the node dials no other node, the function does not wait.
pub fn links_once_up(node: &Path, patience: Duration, look: &Look) -> Result<String, Failure> {
    let is_done = |status: &Value| list(&status["snapshot"]["links"]).is_empty() || are_up(status);
    let status = Control::status_within(node, patience, is_done)?;
    let mut drawing = Drawing { look, rates: None };
    Ok(links::page(&status, &mut drawing)?.to_string())
}

/// Returns true if the node has links, and all of them are up.
fn are_up(status: &Value) -> bool {
    let links = list(&status["snapshot"]["links"]);
    !links.is_empty() && links.iter().all(|link| link["state"] == "up")
}

/// Returns the part of the status that a command shows, with its keys unchanged.
fn json(what: What, status: &Value) -> String {
    let snapshot = &status["snapshot"];
    let part = match what {
        What::Status => status,
        What::Links => &snapshot["links"],
        What::Routes => &snapshot["routes"],
        What::Flows => &snapshot["flows"],
    };
    part.to_string()
}

fn page(what: What, status: &Value, drawing: &mut Drawing<'_>) -> Result<Page, Failure> {
    match what {
        What::Status => Ok(status::page(status, drawing.look)),
        What::Links => links::page(status, drawing),
        What::Routes => routes(status, drawing.look),
        What::Flows => flows::page(status, drawing),
    }
}

fn routes(status: &Value, look: &Look) -> Result<Page, Failure> {
    let names = Names::of(status);
    let mut table = Table::new(&[
        Column::words("TO", 0),
        Column::words("ADDRESS", 2),
        Column::words("METRIC", 0),
        Column::words("NEXT", 0),
        Column::numbers("COST", 1),
        Column::numbers("LATENCY ms", 0),
    ]);
    for route in list(&status["snapshot"]["routes"]) {
        table.row([
            names.name(text(&route["to"])).to_owned(),
            text(&route["to"]).to_owned(),
            text(&route["metric"]).to_owned(),
            names.name(text(&route["next_hop"])).to_owned(),
            number(&route["cost"], 2),
            number(&route["latency_ms"], 2),
        ]);
    }
    table.sort(3);
    table.page(look, "no routes: is a link up? see `sinew links`")
}

/// Returns the elements of a list; an empty slice for anything else.
pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Returns a text; empty for anything else.
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Formats a number with `digits` digits after the point; `-` for anything else.
fn number(value: &Value, digits: usize) -> String {
    value
        .as_f64()
        .map_or("-".into(), |number| format!("{number:.digits$}"))
}

fn count(value: &Value) -> String {
    value.as_u64().unwrap_or(0).to_string()
}

/// Reads a number, for sums.
fn total(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn status() -> Value {
        json!({
            "snapshot": {
                "name": "ams", "address": "10.7.0.1", "uptime_s": 75.0, "profile": "modern",
                "lab": true, "certificate_not_after_s": 1_795_219_199_u64,
                "certificate_expires_soon": false, "revocations_version": 2, "sockets": 1,
                "database_nodes": 3,
                "links": [
                    {"name": "fra", "peer": "10.7.0.2", "at": "192.0.2.2:7700", "state": "up",
                     "since_s": 60.0, "rtt_ms": 20.25, "loss_in_pct": 0.0, "loss_out_pct": 5.1,
                     "data_in": 10, "data_out": 7, "impairment": "loss=5%",
                     "loss_in_packets": 40, "heard_s": 0.2, "reason": null,
                     "realtime": {"missing": 4, "recovered": 3}},
                    {"name": "lon", "peer": "10.7.0.3", "at": null, "state": "no-session",
                     "since_s": 75.0, "rtt_ms": null, "loss_in_pct": 0.0, "loss_out_pct": 0.0,
                     "data_in": 0, "data_out": 0, "impairment": null, "loss_in_packets": 0,
                     "reason": "no answer from 192.0.2.3:7700 for 12 s: is UDP open there?",
                     "realtime": {"missing": 0, "recovered": 0}},
                ],
                "routes": [{"to": "10.7.0.3", "metric": "latency", "next_hop": "10.7.0.2",
                            "cost": 20.5, "latency_ms": 20.5}],
                "flows": [],
                "ends": [{"node": "10.7.0.2", "seals": true, "session_age_s": 12.5, "post_quantum": true, "reason": null, "sealed": 70, "opened": 60, "refused": 2},
                         {"node": "10.7.0.3", "seals": false, "session_age_s": null, "post_quantum": false, "reason": null, "sealed": 0, "opened": 0, "refused": 0}],
                "suspects": [{"node": "10.7.0.3", "link_to": null, "path_to": "10.7.0.2", "lost": 0.5,
                              "among": 2, "strikes": 1, "for_s": 12.0, "retry_in_s": 48.0}],
                "held": {"packets": 812, "bytes": 1_200_000, "bytes_limit": 50_331_648, "given_up": 3,
                         "holders": [{"from": "10.7.0.3:4000", "to": "239.1.1.1:1112",
                                      "packets": 800, "bytes": 1_190_000, "given_up": 3}]},
            },
            "counters": {"forwarded_packets": 12, "drops": {"no_route": 3, "replay": 0},
                         "refused": {"mac": 2}},
            "host": {"listen": ["0.0.0.0:7700"], "clients": 1, "scheduling": "real time"},
            "nodes": [{"name": "ams", "domains": []},
                      {"name": "fra", "address": "10.7.0.2", "domains": [], "tags": ["backup", "site"]},
                      {"name": "lon", "domains": ["example.org", "*.example.net"]}],
        })
    }

    fn drawn(what: What, status: &Value, look: &Look) -> String {
        let mut drawing = Drawing { look, rates: None };
        page(what, status, &mut drawing).unwrap().to_string()
    }

    fn page_of(what: What, status: &Value) -> String {
        drawn(what, status, &Look::default())
    }

    fn at(width: usize) -> Look {
        Look {
            width: Some(width),
            ..Look::default()
        }
    }

    #[test]
    fn pages_hold_what_people_look_for() {
        let links = page_of(What::Links, &status());
        let lines: Vec<&str> = links.lines().collect();
        assert_eq!(lines.len(), 5, "{links}");
        assert_eq!(
            lines[3..],
            [
                "fra: ≈ is measured over 40 packets",
                "lon: no answer from 192.0.2.3:7700 for 12 s: is UDP open there?"
            ]
        );
        for expected in [
            "fra",
            "10.7.0.2",
            "up",
            "1m 00s",
            "20.2",
            "5.1",
            "3/4",
            "loss=5%",
            "backup site",
        ] {
            assert!(lines[1].contains(expected), "{expected}: {links}");
        }
        assert!(lines[0].contains("RTT ms") && lines[0].contains("LOSS OUT %"));
        let routes = page_of(What::Routes, &status());
        assert!(
            routes.contains("lon") && routes.contains("10.7.0.3") && routes.contains("fra"),
            "{routes}"
        );
        assert_eq!(page_of(What::Flows, &status()), "no flows now\n");
        let whole = page_of(What::Status, &status());
        for expected in [
            "ams 10.7.0.1",
            "1m 15s",
            "1 of 2 up",
            "WRONG        link to lon is no-session: no answer from",
            "no_route 3",
            "mac 2",
            "2026-11-20",
            "812 packets wait for earlier ones",
            "3 gaps given up for want of room",
            "most from 10.7.0.3:4000 to 239.1.1.1:1112: 800 packets",
            "example.org *.example.net by lon",
        ] {
            assert!(whole.contains(expected), "{expected}: {whole}");
        }
        assert!(
            !whole.contains("replay"),
            "what did not happen is not told: {whole}"
        );
    }

    #[test]
    fn what_is_wrong_is_one_entry_and_red() {
        let mut status = status();
        let links = status["snapshot"]["links"].as_array_mut().unwrap();
        links[1]["state"] = "silent".into();
        links[1]["reason"] = "silence".into();
        let refused = "no room on the link to fra, which carries 136 kbit/s, for 7 s";
        status["snapshot"]["flows"] = json!([{"refused": refused}, {"refused": null},
                                             {"refused": refused}]);
        status["snapshot"]["certificate_expires_soon"] = true.into();
        status["bridges"] = json!([{"interface": "eth1", "is_here": false, "refused": 3, "refused_sends": 2,
                                     "drops": {"host_too_many": 9}}]);
        status["host"]["udp"] = json!({"dropped_by_kernel": 200, "received": 1000});
        status["snapshot"]["links"][0]["realtime"]["overrun_lately"] = 7.into();
        status["snapshot"]["held"]["given_up_lately"] = 2.into();
        status["snapshot"]["doubles"] = json!([
            {"node": "10.7.0.1", "is_own": true, "at": [], "ago_s": 0.5},
            {"node": "10.7.0.2", "is_own": false, "at": ["192.0.2.2:7700", "192.0.2.9:7700"], "ago_s": 0.5},
        ]);
        let look = Look {
            colour: true,
            ..Look::default()
        };
        let whole = drawn(What::Status, &status, &look);
        let line = whole.lines().nth(1).unwrap();
        assert!(line.starts_with("\u{1b}[31mWRONG "), "{line:?}");
        for expected in [
            "WRONG        another host runs with this node's key: stop one of the two",
            "fra runs on two hosts with one key, at 192.0.2.2:7700 and 192.0.2.9:7700: stop one",
            "; certificate ",
            "; link to lon is silent; ",
            "2 flows refused: no room on the link to fra",
            "bridge eth1: the interface is missing",
            "bridge eth1: this node refuses 3 groups that its network wants",
            "bridge eth1: this node may not send to 2 groups to which its network sends",
            "bridge eth1: a host joins more groups than one may",
            "200 packets were lost in this host",
            "link to fra: 7 packets of the last one to two minutes could not be kept for repair",
            "2 gaps of the last one to two minutes were given up for want of room",
        ] {
            assert!(line.contains(expected), "{expected}: {line}");
        }
    }

    #[test]
    fn links_fit_eighty_columns_in_the_order_of_their_names() {
        let mut status = status();
        let fra = status["snapshot"]["links"][0].clone();
        let links = (0..12).map(|i| {
            let mut link = fra.clone();
            link["name"] = format!("v{}", 12 - i).into();
            link
        });
        status["snapshot"]["links"] = links.collect();
        let page = drawn(What::Links, &status, &at(80));
        let lines: Vec<&str> = page.lines().collect();
        assert!(
            lines.iter().all(|line| line.chars().count() <= 80),
            "{page}"
        );
        for head in ["NAME", "STATE", "RTT ms", "LOSS IN %", "LOSS OUT %"] {
            assert!(lines[0].contains(head), "{head}: {page}");
        }
        assert!(
            lines[1].starts_with("v1 ") && lines[12].starts_with("v12 "),
            "{page}"
        );
    }

    #[test]
    fn links_with_several_paths_show_them() {
        let mut status = status();
        let path = |at: &str, in_use: bool, active: bool| {
            json!({"at": at, "from": "10.1.0.1:7700", "state": "up", "in_use": in_use, "active": active,
                   "rtt_ms": 20.25, "loss_in_pct": 0.0, "loss_out_pct": 2.5, "cost_ms": 12.4, "mtu_bytes": 1439,
                   "chosen": if in_use { json!(["silent for 420 ms", 61.0]) } else { Value::Null }})
        };
        let paths = [
            path("10.2.0.2:7700", true, true),
            path("10.1.0.2:7700", false, true),
            path("10.3.0.2:7700", false, false),
        ];
        status["snapshot"]["links"][0]["paths"] = paths.into();
        let page = page_of(What::Links, &status);
        let lines: Vec<&str> = page.lines().collect();
        assert!(
            lines[3].starts_with("LINK") && lines[3].contains("PATH TO"),
            "{page}"
        );
        for (line, usage) in [(4, "in use"), (5, "carries"), (6, "spare")] {
            let line = lines[line];
            assert!(
                line.starts_with("fra") && line.contains(usage) && line.contains("2.5"),
                "{page}"
            );
        }
        let why = "fra: path 10.2.0.2:7700 in use for 1m 01s, because the one before was left: silent for 420 ms";
        assert!(lines.contains(&why), "{page}");
        assert!(!page_of(What::Links, &self::status()).contains("PATH TO"));
    }

    #[test]
    fn a_link_that_loses_says_what_protects_it_and_what_that_costs() {
        let plan = json!({
            "plan": "repair", "reason": "repair leaves no more than the target", "repair_pct": 25.0,
            "window": 12, "lag": 0, "predicted_pct": 0.0412, "requests_pct": 4.9,
            "requests_lack_ms": 91, "measured_pct": 0.0525, "measured_packets": 19_000,
            "cost_pct": 27.3, "changes": 1,
        });
        let told = |key: &str, value: Value| {
            let (mut status, mut plan) = (status(), plan.clone());
            plan[key] = value;
            status["snapshot"]["links"][0]["realtime"]["protection"] = plan;
            status["snapshot"]["links"][0]["realtime"]["decoded"] = 1.into();
            page_of(What::Links, &status).replace("\n  ", " ")
        };
        let page = told("changes", 1.into());
        for part in [
            "fra: real-time packets are protected by requests, and 25 repair packets per 100 packets, each over the \
             last 12 packets (+27.3 % bytes): 0.041 % will stay lost, 0.052 % did of the last 19000",
            "; repair leaves no more than the target; requests alone leave 4.90 % lost: they reach the target if the \
             deadline is 91 ms longer (a node half way halves the time that a request takes)",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        let fra = page.lines().nth(1).unwrap();
        assert!(
            fra.contains("4/4"),
            "what repair told was recovered, too: {page}"
        );
        let page = told("window", 1.into());
        assert!(
            page.contains("100 packets, each over the last packet (+27.3"),
            "{page}"
        );
        let page = told("target_pct", 0.05.into());
        assert!(
            page.contains("lost (target: 0.05 %), 0.052 % did"),
            "{page}"
        );
        let page = told("measured_pct", Value::Null);
        assert!(page.contains("0.041 % will stay lost; repair"), "{page}");
        let mut copies = plan.clone();
        (copies["plan"], copies["lag"]) = ("copies".into(), 3.into());
        let mut status = status();
        status["snapshot"]["links"][0]["realtime"]["protection"] = copies;
        let page = page_of(What::Links, &status).replace("\n  ", " ");
        assert!(
            page.contains("copies that come 3 packets later (+27.3 % bytes)"),
            "{page}"
        );
        status["snapshot"]["links"][0]["realtime"]["protection"]["lag"] = 1.into();
        let page = page_of(What::Links, &status).replace("\n  ", " ");
        assert!(page.contains("that come 1 packet later (+"), "{page}");
        // If no packet is lost, or no packet passes, there is no sentence.
        status["snapshot"]["links"][0]["loss_out_pct"] = 0.0.into();
        assert!(!page_of(What::Links, &status).contains("are protected by"));
        status["snapshot"]["links"][0]["loss_out_pct"] = 5.0.into();
        let lane = &mut status["snapshot"]["links"][0]["realtime"]["protection"];
        (lane["reason"], lane["measured_packets"]) = ("nothing passes".into(), 0.into());
        assert!(!page_of(What::Links, &status).contains("are protected by"));
    }

    #[test]
    fn counters_are_rates_where_pages_follow_each_other() {
        let (look, mut rates) = (at(200), Rates::default());
        let mut status = status();
        let mut drawn = |status: &Value| {
            let mut drawing = Drawing {
                look: &look,
                rates: Some(&mut rates),
            };
            page(What::Links, status, &mut drawing).unwrap().to_string()
        };
        drawn(&status);
        status["snapshot"]["uptime_s"] = 77.0.into();
        status["snapshot"]["links"][0]["data_in"] = 410.into();
        let page = drawn(&status);
        assert!(page.contains("IN pkt/s"), "{page}");
        let fra: Vec<&str> = page.lines().nth(1).unwrap().split_whitespace().collect();
        assert!(fra.contains(&"200"), "400 packets in two seconds: {page}");
    }

    #[test]
    fn a_status_of_another_version_is_shown_as_far_as_it_goes() {
        for status in [
            json!({}),
            json!({"snapshot": {"links": [{}], "routes": [{}], "flows": [{}]}}),
        ] {
            for what in [What::Status, What::Links, What::Routes, What::Flows] {
                assert!(!page_of(what, &status).is_empty());
            }
        }
    }

    #[test]
    fn json_is_the_part_that_was_asked_for() {
        let links: Value = serde_json::from_str(&json(What::Links, &status())).unwrap();
        assert_eq!(links[0]["name"], "fra");
        let whole: Value = serde_json::from_str(&json(What::Status, &status())).unwrap();
        assert_eq!(whole, status());
    }
}
