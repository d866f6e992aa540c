//! `sinew status | links | routes | flows`: what a running node tells of itself.

mod flows;
mod links;
mod status;

use crate::control::Control;
use crate::failure::Outcome;
use crate::names::Names;
use crate::terminal::{self, Align, Table};
use clap::Args;
use serde_json::Value;
use std::path::PathBuf;

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
    /// Draw again every second
    #[arg(long)]
    pub watch: bool,
}

/// What is to be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The node as a whole.
    Status,
    /// Its links.
    Links,
    /// Its routes.
    Routes,
    /// The flows through it.
    Flows,
}

/// Shows it.
pub fn run(what: What, args: &Show) -> Outcome {
    let mut control = Control::find(args.node.as_deref())?;
    terminal::show(args.watch, || {
        let mut status = match control.status() {
            Ok(status) => status,
            // A node that was restarted is found again by those who watch.
            Err(_) if args.watch => {
                control = Control::connect(control.path())?;
                control.status()?
            }
            Err(error) => return Err(error),
        };
        if what == What::Flows {
            flows::add_reasons(&mut control, &mut status);
        }
        Ok(if args.json {
            json(what, &status)
        } else {
            page(what, &status)
        })
    })
}

/// The part of the status that a command is about, with its keys as they are.
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

fn page(what: What, status: &Value) -> String {
    match what {
        What::Status => status::page(status),
        What::Links => links::page(status),
        What::Routes => routes(status),
        What::Flows => flows::page(status),
    }
}

fn routes(status: &Value) -> String {
    let names = Names::of(status);
    let mut table = Table::new(&[
        ("TO", Align::Left),
        ("METRIC", Align::Left),
        ("NEXT", Align::Left),
        ("COST", Align::Right),
        ("LATENCY", Align::Right),
    ]);
    for route in list(&status["snapshot"]["routes"]) {
        table.row([
            names.both(text(&route["to"])),
            text(&route["metric"]).to_owned(),
            names.name(text(&route["next_hop"])).to_owned(),
            number(&route["cost"], 2),
            format!("{} ms", number(&route["latency_ms"], 2)),
        ]);
    }
    or_else(&table, "no routes: is a link up? see `sinew links`")
}

fn or_else(table: &Table, nothing: &str) -> String {
    if table.is_empty() {
        nothing.to_owned()
    } else {
        table.to_string()
    }
}

/// The elements of a list; none of anything else.
pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A text; empty for anything else.
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A number with so many digits behind the point; `-` for anything else.
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
                     "realtime": {"missing": 4, "recovered": 3}},
                    {"name": "lon", "peer": "10.7.0.3", "at": null, "state": "no-session",
                     "since_s": 75.0, "rtt_ms": null, "loss_in_pct": 0.0, "loss_out_pct": 0.0,
                     "data_in": 0, "data_out": 0, "impairment": null,
                     "realtime": {"missing": 0, "recovered": 0}},
                ],
                "routes": [{"to": "10.7.0.3", "metric": "latency", "next_hop": "10.7.0.2",
                            "cost": 20.5, "latency_ms": 20.5}],
                "flows": [],
            },
            "counters": {"forwarded_packets": 12, "drops": {"no_route": 3, "replay": 0},
                         "refused": {"mac": 2}},
            "host": {"listen": ["0.0.0.0:7700"], "clients": 1, "scheduling": "real time"},
            "nodes": [{"name": "ams", "domains": []},
                      {"name": "lon", "domains": ["example.org", "*.example.net"]}],
        })
    }

    #[test]
    fn pages_hold_what_people_look_for() {
        let links = page(What::Links, &status());
        let lines: Vec<&str> = links.lines().collect();
        assert_eq!(lines.len(), 3, "{links}");
        for expected in [
            "fra", "10.7.0.2", "up", "1m 00s", "20.2 ms", "5.1 %", "3/4", "loss=5%",
        ] {
            assert!(lines[1].contains(expected), "{expected}: {links}");
        }
        let routes = page(What::Routes, &status());
        assert!(
            routes.contains("lon 10.7.0.3") && routes.contains("fra"),
            "{routes}"
        );
        assert_eq!(page(What::Flows, &status()), "no flows now");
        let whole = page(What::Status, &status());
        for expected in [
            "ams 10.7.0.1",
            "1m 15s",
            "1 of 2 up",
            "no_route 3",
            "mac 2",
            "2026-11-20",
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
    fn a_status_of_another_version_is_shown_as_far_as_it_goes() {
        for status in [
            json!({}),
            json!({"snapshot": {"links": [{}], "routes": [{}], "flows": [{}]}}),
        ] {
            for what in [What::Status, What::Links, What::Routes, What::Flows] {
                assert!(!page(what, &status).is_empty());
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
