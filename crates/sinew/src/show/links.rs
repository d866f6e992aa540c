//! The table of links.

use super::{count, list, number, or_else, text, total};
use crate::date::span;
use crate::terminal::{Align, Table};
use serde_json::Value;

pub(super) fn page(status: &Value) -> String {
    let mut table = Table::new(&[
        ("NEIGHBOR", Align::Left),
        ("ADDRESS", Align::Left),
        ("AT", Align::Left),
        ("STATE", Align::Left),
        ("TROUBLE", Align::Left),
        ("SINCE", Align::Right),
        ("RTT", Align::Right),
        ("LOSS IN", Align::Right),
        ("LOSS OUT", Align::Right),
        ("RECEIVED", Align::Right),
        ("SENT", Align::Right),
        ("MTU", Align::Right),
        ("RECOVERED", Align::Right),
        ("WINDOW", Align::Right),
        ("QUEUED", Align::Right),
        ("AGAIN", Align::Right),
        ("IMPAIRMENT", Align::Left),
    ]);
    for link in list(&status["snapshot"]["links"]) {
        let (lane, reliable) = (&link["realtime"], &link["reliable"]);
        let rtt = match link["rtt_ms"].as_f64() {
            Some(_) => format!("{} ms", number(&link["rtt_ms"], 1)),
            None => "-".into(),
        };
        table.row([
            text(&link["name"]).to_owned(),
            text(&link["peer"]).to_owned(),
            link["at"].as_str().unwrap_or("-").to_owned(),
            text(&link["state"]).to_owned(),
            link["trouble"].as_str().unwrap_or("-").to_owned(),
            span(link["since_s"].as_f64().unwrap_or(0.0)),
            rtt,
            format!("{} %", number(&link["loss_in_pct"], 1)),
            format!("{} %", number(&link["loss_out_pct"], 1)),
            count(&link["data_in"]),
            count(&link["data_out"]),
            count(&link["mtu_bytes"]),
            match total(&lane["missing"]) {
                0 => "-".into(),
                missing => format!("{}/{missing}", total(&lane["recovered"])),
            },
            match total(&reliable["originals"]) {
                0 => "-".into(),
                _ => number(&reliable["window"], 0),
            },
            count(&reliable["queued"]),
            match (
                total(&reliable["retransmissions"]),
                total(&reliable["originals"]),
            ) {
                (_, 0) => "-".into(),
                (again, originals) => format!("{again}/{originals}"),
            },
            link["impairment"].as_str().unwrap_or("-").to_owned(),
        ]);
    }
    or_else(
        &table,
        "no links: list neighbors in the configuration, or let others dial this node",
    )
}
