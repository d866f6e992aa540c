//! `sinew peers`: lists every node of the network, as a running node knows it.

use crate::control::Watched;
use crate::date::{day, span};
use crate::failure::{Failure, Outcome};
use crate::show::{Show, list, text};
use crate::table::{Cell, Column, Look, Page, Table};
use crate::{watch, why};
use serde_json::{Value, json};
use tools::explain::{self, Asked, View};

/// The widest path that fits next to the other columns on a terminal of 80 columns. For a longer path, the table shows
/// the number of its links.
const PATH_COLUMNS: usize = 10;

/// Shows the nodes.
pub fn run(args: &Show) -> Outcome {
    let mut node = Watched::find_soon(args.node.as_deref())?;
    watch::show(args, "peers", |look| {
        let (status, view) = node.with(|control| {
            let status = match args.watch {
                true => control.status()?,
                false => control.status_when(is_reached)?,
            };
            Ok((status, why::ask(control)?))
        })?;
        let peers = peers(&status, &view);
        if args.json {
            return Ok(Page::text(&json!(peers).to_string()));
        }
        let page = page(&peers, look)?;
        Ok(page.of(text(&status["snapshot"]["name"])))
    })
}

/// Returns true if the node knows other nodes, and a path to each.
fn is_reached(status: &Value) -> bool {
    let nodes = list(&status["nodes"]);
    nodes.len() > 1 && nodes.iter().all(|node| node["reachable_s"].is_number())
}

/// Returns all nodes by name, with stable keys.
fn peers(status: &Value, view: &View) -> Vec<Value> {
    let own = &status["snapshot"]["address"];
    let mut peers: Vec<Value> = list(&status["nodes"])
        .iter()
        .map(|node| {
            let is_here = node["address"] == *own;
            let asked = Asked {
                runners_up: 0,
                ..Asked::default()
            };
            // An unreachable node has no path.
            let to = text(&node["address"]);
            let path = (!is_here && node["reachable_s"].is_number())
                .then(|| explain::why(view, text(own), to, &asked).ok())
                .flatten()
                .and_then(|why| why.choice.chosen.into_iter().next());
            json!({
                "name": node["name"], "address": node["address"], "here": is_here,
                "path": path.as_ref().map(|path| path.path.clone()),
                "latency_ms": path.as_ref().map(|path| path.latency_ms),
                "loss_pct": path.as_ref().map(|path| path.loss_pct),
                "version": node["version"],
                "certificate_not_after_s": node["certificate_not_after_s"],
                "reachable_s": node["reachable_s"],
            })
        })
        .collect();
    peers.sort_by_key(|peer| (name(peer), text(&peer["address"]).to_owned()));
    peers
}

fn name(peer: &Value) -> String {
    let name = peer["name"].as_str().or(peer["address"].as_str());
    name.unwrap_or_default().to_owned()
}

fn page(peers: &[Value], look: &Look) -> Result<Page, Failure> {
    let mut table = Table::new(&[
        Column::words("NAME", 0),
        Column::words("ADDRESS", 1),
        Column::words("PATH", 0),
        Column::numbers("LATENCY ms", 0),
        Column::numbers("LOSS %", 0),
        Column::words("CERTIFICATE", 0),
        Column::numbers("SINCE", 0),
        Column::words("VERSION", 2),
    ]);
    for peer in peers {
        let until = peer["certificate_not_after_s"].as_u64().map(day);
        let since = peer["reachable_s"].as_f64().map(span);
        let or_nothing = |text: Option<String>| text.map_or_else(Cell::nothing, Cell::from);
        table.row([
            name(peer).into(),
            text(&peer["address"]).into(),
            path(peer).into(),
            Cell::number(peer["latency_ms"].as_f64(), 1),
            Cell::number(peer["loss_pct"].as_f64(), 1),
            or_nothing(until),
            or_nothing(since),
            or_nothing(peer["version"].as_str().map(str::to_owned)),
        ]);
    }
    table.sort(1);
    let nothing = "no other node is known: is a link up? see `sinew links`";
    table.page(look, nothing)
}

/// Formats the nodes of a path, in the available width.
fn path(peer: &Value) -> String {
    if peer["here"] == true {
        return "here".to_owned();
    }
    let nodes: Vec<&str> = list(&peer["path"]).iter().map(text).collect();
    match nodes.as_slice() {
        [] => "no way".to_owned(),
        [_, _] => "direct".to_owned(),
        [_, between @ .., _] => {
            let named = format!("by {}", between.join(">"));
            match named.chars().count() > PATH_COLUMNS {
                true => format!("{} hops", between.len() + 1),
                false => named,
            }
        }
        [_] => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_fits_a_terminal_of_80_columns_whatever_it_is_about() {
        let peer = |name: &str, path: Value| {
            json!({
                "name": name, "address": "10.107.200.113", "here": false, "path": path,
                "latency_ms": 1234.56, "loss_pct": 12.345, "version": null,
                "certificate_not_after_s": 1_795_219_199_u64, "reachable_s": 86_400.0 * 12.5,
            })
        };
        let look = Look {
            width: Some(80),
            ..Look::default()
        };
        let peers = [
            peer("a-long-name", json!(["ams", "a-very-long-name", "b"])),
            peer("fra", json!(["ams", "fra"])),
            peer("lon", json!(["ams", "fra", "lon"])),
            peer("par", Value::Null),
        ];
        let page = page(&peers, &look).unwrap().to_string();
        for line in page.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        for expected in [
            "a-long-name",
            "2 hops",
            "direct",
            "by fra",
            "no way",
            "2026-11-20",
            "12d 12h",
            "12.3",
        ] {
            assert!(page.contains(expected), "{expected}:\n{page}");
        }
    }
}
