//! The table of links.

use super::{Drawing, count, list, number, text, total};
use crate::date::span;
use crate::failure::Failure;
use crate::quantity::counted;
use crate::table::{Cell, Column, Page, Table, Tone};
use serde_json::Value;
use std::collections::BTreeMap;

/// From this loss on, the number is a warning; recovery still copes with it.
const LOSS_WARN_PCT: f64 = 1.0;
/// From this loss on, recovery leaves more than one packet in two hundred [Amir06 Fig. 4].
const LOSS_BAD_PCT: f64 = 5.0;

pub(super) fn page(status: &Value, drawing: &mut Drawing<'_>) -> Result<Page, Failure> {
    let mut columns = vec![
        Column::words("NAME", 0),
        Column::words("ADDRESS", 6),
        Column::words("AT", 5),
        Column::words("STATE", 0),
        Column::words("TROUBLE", 1),
        Column::numbers("SINCE", 3),
        Column::numbers("RTT ms", 0),
        Column::numbers("LOSS IN %", 0),
        Column::numbers("LOSS OUT %", 0),
        Column::numbers(drawing.head("RECEIVED", "IN pkt/s"), 2),
        Column::numbers(drawing.head("SENT", "OUT pkt/s"), 2),
        Column::numbers("RECOVERED", 1),
        Column::numbers("MTU bytes", 7),
        Column::numbers("WINDOW packets", 9),
        Column::numbers("QUEUED", 8),
        Column::numbers("RETRANSMITTED", 8),
        Column::words("KEYS", 10),
        Column::words("IMPAIRMENT", 4),
        Column::words("WHY", 11),
    ];
    let tags = tags(list(&status["nodes"]));
    if !tags.is_empty() {
        columns.push(Column::words("TAGS", 6));
    }
    let mut table = Table::new(&columns);
    let now_s = status["snapshot"]["uptime_s"].as_f64().unwrap_or(0.0);
    for link in list(&status["snapshot"]["links"]) {
        let (lane, reliable) = (&link["realtime"], &link["reliable"]);
        let peer = text(&link["peer"]);
        let mut row: Vec<Cell> = vec![
            text(&link["name"]).into(),
            peer.into(),
            link["at"].as_str().unwrap_or("-").into(),
            state(text(&link["state"])),
            link["trouble"].as_str().unwrap_or("-").into(),
            span(link["since_s"].as_f64().unwrap_or(0.0)).into(),
            number(&link["rtt_ms"], 1).into(),
            loss_in(link),
            loss(link, &link["loss_out_pct"], ""),
            drawing.counter(&format!("{peer} in"), &link["data_in"], now_s),
            drawing.counter(&format!("{peer} out"), &link["data_out"], now_s),
            share(
                total(&lane["recovered"]) + total(&lane["decoded"]),
                total(&lane["missing"]),
            ),
            count(&link["mtu_bytes"]).into(),
            match total(&reliable["originals"]) {
                0 => Cell::nothing(),
                _ => number(&reliable["window"], 0).into(),
            },
            match total(&reliable["queued"]) {
                0 => Cell::nothing(),
                queued => queued.to_string().into(),
            },
            share(
                total(&reliable["retransmissions"]),
                total(&reliable["originals"]),
            ),
            keys(link).into(),
            link["impairment"].as_str().unwrap_or("-").into(),
            link["why"].as_str().unwrap_or("-").into(),
        ];
        if !tags.is_empty() {
            row.push(
                tags.get(peer)
                    .map_or(Cell::nothing(), |it| it.as_str().into()),
            );
        }
        table.row(row);
    }
    table.sort(2);
    let mut page = table.page(
        drawing.look,
        "no links: list neighbours in the configuration, or let others dial this node",
    )?;
    if let Some(paths) = paths(list(&status["snapshot"]["links"])) {
        page.push(paths.page(drawing.look, "")?);
    }
    for note in notes(list(&status["snapshot"]["links"])) {
        page.push(Page::wrapped(&note, drawing.look, 2));
    }
    Ok(page)
}

/// Returns the tags of the nodes that have any, by address.
fn tags(nodes: &[Value]) -> BTreeMap<&str, String> {
    let nodes = nodes.iter().map(|node| {
        let tags: Vec<&str> = list(&node["tags"]).iter().map(text).collect();
        (text(&node["address"]), tags.join(" "))
    });
    nodes.filter(|(_, tags)| !tags.is_empty()).collect()
}

/// Returns the kind of the session's keys.
fn keys(link: &Value) -> &'static str {
    match (&link["post_quantum"], text(&link["state"])) {
        (_, "no-session") => "-",
        (Value::Bool(true), _) => "post-quantum",
        _ => "classic",
    }
}

/// Lists the paths of links that have more than one.
fn paths(links: &[Value]) -> Option<Table> {
    let mut table = Table::new(&[
        Column::words("LINK", 0),
        Column::words("FROM", 5),
        Column::words("PATH TO", 0),
        Column::words("STATE", 0),
        Column::words("USE", 0),
        Column::numbers("RTT ms", 0),
        Column::numbers("LOSS IN %", 1),
        Column::numbers("LOSS OUT %", 1),
        Column::numbers("COST ms", 2),
        Column::numbers("MTU bytes", 7),
    ]);
    let several = |link: &&Value| list(&link["paths"]).len() > 1;
    let mut links: Vec<&Value> = links.iter().filter(several).collect();
    links.sort_by_key(|link| text(&link["name"]));
    for link in &links {
        for path in list(&link["paths"]) {
            table.row([
                text(&link["name"]).into(),
                path["from"].as_str().unwrap_or("-").into(),
                path["at"].as_str().unwrap_or("-").into(),
                state(text(&path["state"])),
                usage(path).into(),
                number(&path["rtt_ms"], 1).into(),
                loss(path, &path["loss_in_pct"], ""),
                loss(path, &path["loss_out_pct"], ""),
                number(&path["cost_ms"], 1).into(),
                count(&path["mtu_bytes"]).into(),
            ]);
        }
    }
    (!links.is_empty()).then_some(table)
}

/// Returns the present use of a path. The neighbour chooses by itself the path for its packets.
fn usage(path: &Value) -> &'static str {
    match (path["in_use"].as_bool(), path["active"].as_bool()) {
        (Some(true), _) => "in use",
        (_, Some(true)) => "carries",
        _ => "spare",
    }
}

/// With fewer packets than this, a loss rate of some percent is only a rough estimate: of 400 packets with 5 %, 20 are
/// lost, give or take 4.
const SURE_PACKETS: u64 = 400;
/// A link that was heard longer ago is noted: even an idle link sends hello packets more often.
const OLD_S: f64 = 10.0;

/// Returns the loss in the direction to this node. A loss that was measured over few packets has a mark.
fn loss_in(link: &Value) -> Cell {
    match link["loss_in_packets"].as_u64() {
        Some(0) => Cell::nothing(),
        Some(1..SURE_PACKETS) => loss(link, &link["loss_in_pct"], "≈"),
        _ => loss(link, &link["loss_in_pct"], ""),
    }
}

/// Returns notes about what the table does not show: why links are not up, and how exact and how old numbers are.
fn notes(links: &[Value]) -> Vec<String> {
    let mut notes = Vec::new();
    let mut links: Vec<&Value> = links.iter().collect();
    // The notes have the order of the table.
    links.sort_by_key(|link| text(&link["name"]));
    for link in links {
        let name = text(&link["name"]);
        if let Some(reason) = reason(link) {
            notes.push(format!("{name}: {reason}"));
        } else if let Some(heard_s) = link["heard_s"].as_f64().filter(|s| *s >= OLD_S) {
            notes.push(format!("{name}: nothing was heard for {}", span(heard_s)));
        }
        if let Some(price_ms) = link["price_ms"].as_f64().filter(|ms| *ms > 0.0) {
            let ends_s = link["price_ends_in_s"].as_f64().unwrap_or(0.0);
            let ends = span(ends_s);
            notes.push(format!(
                "{name}: recent outages cost {price_ms:.0} ms of latency in routing, halved by each minute, for {ends}"
            ));
        }
        if link["over"] == "tcp" && link["state"] == "up" {
            notes.push(format!(
                "{name}: runs over TCP, because UDP has no answer; it costs 16 ms more in routing, and UDP is tried again by itself"
            ));
        }
        notes.extend(changed(link));
        notes.extend(protection(link));
        let packets = total(&link["loss_in_packets"]);
        if (1..SURE_PACKETS).contains(&packets) && link["state"] == "up" {
            notes.push(format!("{name}: ≈ is measured over {packets} packets"));
        }
    }
    notes
}

/// Describes why a link uses another path than at first.
fn changed(link: &Value) -> Option<String> {
    let used = list(&link["paths"])
        .iter()
        .find(|path| path["in_use"] == true)?;
    let [why, ago_s] = used["chosen"].as_array()?.as_slice() else {
        return None;
    };
    Some(format!(
        "{}: path {} in use for {}, because the one before was left: {}",
        text(&link["name"]),
        text(&used["at"]),
        span(ago_s.as_f64()?),
        text(why),
    ))
}

/// Describes how real-time packets to the neighbour are protected, if some are lost.
fn protection(link: &Value) -> Option<String> {
    let plan = &link["realtime"]["protection"];
    let loses = link["loss_out_pct"].as_f64().is_some_and(|pct| pct > 0.0);
    let kind = plan["plan"].as_str()?;
    let packets = total(&plan["measured_packets"]);
    let is_idle = plan["reason"] == "nothing passes" && packets == 0;
    if link["state"] != "up" || !loses || is_idle {
        return None;
    }
    let what = match kind {
        "repair" => format!(
            "requests, and {:.0} repair packets per 100 packets, each over the last {} (+{:.1} % bytes)",
            plan["repair_pct"].as_f64()?,
            match total(&plan["window"]) {
                1 => "packet".to_owned(),
                window => format!("{window} packets"),
            },
            plan["cost_pct"].as_f64()?,
        ),
        "copies" => format!(
            "requests, and copies that come {} later (+{:.1} % bytes)",
            counted(total(&plan["lag"]), "packet"),
            plan["cost_pct"].as_f64()?,
        ),
        kind => kind.to_owned(),
    };
    let measured = plan["measured_pct"].as_f64();
    let measured = measured.map_or(String::new(), |pct| {
        format!(", {pct:.3} % did of the last {packets}")
    });
    let lack = plan["requests_lack_ms"]
        .as_u64()
        .filter(|_| kind != "requests" || is_short(plan));
    let lack = lack.map_or(String::new(), |ms| {
        let left = plan["requests_pct"].as_f64().unwrap_or_default();
        format!(
            "; requests alone leave {left:.2} % lost: they reach the target if the deadline is {ms} ms longer \
             (a node half way halves the time that a request takes)"
        )
    });
    Some(format!(
        "{}: real-time packets are protected by {what}: {:.3} % will stay lost{}{measured}; {}{lack}",
        text(&link["name"]),
        plan["predicted_pct"].as_f64()?,
        target(plan),
        text(&plan["reason"]),
    ))
}

/// Describes the loss that may remain, and the flow that sets this target. A node of an earlier version does not report
/// it.
fn target(plan: &Value) -> String {
    let of = plan["target_of"].as_str();
    let of = of.map_or_else(String::new, |flow| format!(", of the flow {flow}"));
    plan["target_pct"]
        .as_f64()
        .map_or_else(String::new, |pct| format!(" (target: {pct} %{of})"))
}

/// Returns true if more packets remain lost than the target allows.
fn is_short(plan: &Value) -> bool {
    plan["reason"] != "requests leave no more than the target"
        && plan["reason"] != "hardly anything is lost"
        && plan["reason"] != "the senders of its flows want no repair"
}

/// Returns why a link is not up. For a silent link, the state says it already, and the note has the time.
pub(super) fn reason(link: &Value) -> Option<&str> {
    let reason = link["reason"].as_str()?;
    (reason != text(&link["state"]) && reason != "silence").then_some(reason)
}

fn state(word: &str) -> Cell {
    let tone = match word {
        "up" => Tone::Good,
        _ => Tone::Bad,
    };
    Cell::toned(word, tone)
}

/// Returns the cell of a loss. The loss is unknown if no packet has arrived over the link.
fn loss(link: &Value, pct: &Value, mark: &str) -> Cell {
    match (link["rtt_ms"].as_f64(), pct.as_f64()) {
        (Some(_), Some(pct)) => {
            let tone = Tone::above(pct, LOSS_WARN_PCT, LOSS_BAD_PCT);
            Cell::toned(format!("{mark}{pct:.1}"), tone)
        }
        _ => Cell::nothing(),
    }
}

/// Formats a part of a number, if the number is not zero.
fn share(part: u64, all: u64) -> Cell {
    match all {
        0 => Cell::nothing(),
        all => format!("{part}/{all}").into(),
    }
}
