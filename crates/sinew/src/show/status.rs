//! The page about the whole node.

use super::wrong::wrong;
use super::{list, text, total};
use crate::date::{day, span};
use crate::names::Names;
use crate::quantity::{bytes_in_words, counted};
use crate::table::{Look, Page, Tone};
use serde_json::{Map, Value};
use std::fmt::Write;

/// The column at which text begins after the keys.
const INDENT: usize = 13;

/// Returns the page, with the warnings after its first line.
pub(super) fn page(status: &Value, look: &Look) -> Page {
    let text = entries(status);
    let (head, rest) = text.split_once('\n').unwrap_or((&text, ""));
    let mut page = Page::wrapped(head, look, INDENT);
    if let wrong @ [_, ..] = wrong(status).as_slice() {
        let line = format!("{:<INDENT$}{}", "WRONG", wrong.join("; "));
        page.push(Page::wrapped(&line, look, INDENT).toned(Tone::Bad, look));
    }
    page.push(Page::wrapped(rest, look, INDENT));
    page
}

fn entries(status: &Value) -> String {
    let (snapshot, counters, host) = (&status["snapshot"], &status["counters"], &status["host"]);
    let lab = if snapshot["lab"] == true { ", lab" } else { "" };
    let uptime = span(snapshot["uptime_s"].as_f64().unwrap_or(0.0));
    let mut page = format!(
        "{} {}, up {uptime}, profile {}{lab}\n",
        text(&snapshot["name"]),
        text(&snapshot["address"]),
        text(&snapshot["profile"])
    );
    let mut entry = |key: &str, value: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(page, "{key:<width$}{value}", width = INDENT);
    };
    let listen: Vec<&str> = list(&host["listen"]).iter().map(text).collect();
    entry("listen", listen.join(", "));
    entry("scheduling", text(&host["scheduling"]).to_owned());
    entry("certificate", certificate(snapshot));
    if status["issuer"].is_object() {
        entry("delegation", delegation(&status["issuer"]));
    }
    if let root @ 1.. = total(&snapshot["root"]) {
        entry("root key", format!("number {root}"));
    }
    if let version @ 1.. = total(&snapshot["revocations_version"]) {
        entry("revocations", format!("version {version}"));
    }
    let links = list(&snapshot["links"]);
    let up = links.iter().filter(|link| link["state"] == "up").count();
    let tunnels = links
        .iter()
        .filter(|link| link["over"] == "tcp" && link["state"] == "up");
    let tunnels = match tunnels.count() {
        0 => String::new(),
        count => format!(", {count} over TCP"),
    };
    entry("links", format!("{up} of {} up{tunnels}", links.len()));
    entry(
        "network",
        format!(
            "{} known",
            counted(total(&snapshot["database_nodes"]), "node")
        ),
    );
    let finding = &snapshot["finding"];
    if finding.is_object() {
        entry(
            "finding",
            format!(
                "{} by own choice; {} offered, {} measured, {} dropped",
                counted(total(&finding["kept"]), "link"),
                total(&finding["offers"]),
                total(&finding["measured"]),
                total(&finding["dropped"]),
            ),
        );
    }
    if let serving @ [_, ..] = bearers(status, "domains").as_slice() {
        entry("domains", serving.join(", "));
    }
    if let tagged @ [_, ..] = bearers(status, "tags").as_slice() {
        entry("tags", tagged.join(", "));
    }
    if let Some(setters) = setters(status) {
        entry("set groups", setters);
    }
    let (clients, sockets) = (total(&host["clients"]), total(&snapshot["sockets"]));
    let sockets = counted(sockets, "socket");
    entry("clients", format!("{clients}, with {sockets}"));
    if status["gate"].is_object() {
        entry("gate", gate(&status["gate"]));
    }
    if let Some(mapping) = mapping(&status["mapping"]) {
        entry("port mapping", mapping);
    }
    if let groups @ [_, ..] = groups(&status["groups"]).as_slice() {
        entry("groups", groups.join(", "));
    }
    for bridge in list(&status["bridges"]) {
        entry("bridge", self::bridge(bridge));
    }
    let bulk = &status["bulk"];
    if bulk.is_object() {
        entry("bulk", self::bulk(bulk));
    }
    let names = Names::of(status);
    for transfer in list(&bulk["transfers"]) {
        entry("transfer", self::transfer(transfer, &names));
    }
    let sums = ["forwarded", "originated", "delivered"].map(|what| {
        let packets = total(&counters[format!("{what}_packets").as_str()]);
        let bytes = total(&counters[format!("{what}_bytes").as_str()]);
        format!("{what} {packets} ({})", bytes_in_words(bytes))
    });
    entry("packets", sums.join(", "));
    entry("recovery", recovery(counters));
    if let Some(ends) = ends(list(&snapshot["ends"]), &names) {
        entry("sealed", ends);
    }
    for flooder in list(&snapshot["flooders"]) {
        let (node, dropped) = (text(&flooder["node"]), total(&flooder["dropped"]));
        let words = format!(
            "{} renews its records too often: {dropped} dropped",
            names.name(node)
        );
        entry("floods", words);
    }
    for suspect in list(&snapshot["suspects"]) {
        entry("suspect", self::suspect(suspect, &names));
    }
    if let Some(held) = held(&snapshot["held"]) {
        entry("held", held);
    }
    for (key, table) in [
        ("drops", &counters["drops"]),
        ("refused", &counters["refused"]),
    ] {
        let happened = table.as_object().map(happened).unwrap_or_default();
        if !happened.is_empty() {
            entry(key, happened.join(", "));
        }
    }
    page
}

/// Describes the port that the router forwards to the node, if a mapping is wanted.
fn mapping(mapping: &Value) -> Option<String> {
    let router = mapping["gateway"].as_str()?;
    let text = match (mapping["state"].as_str()?, mapping["at"].as_str()) {
        ("mapped", Some(at)) => format!("{at} by {}, router {router}", text(&mapping["by"])),
        (state, _) => {
            let why = mapping["why"].as_str().map(|why| format!(": {why}"));
            format!("{state}{}, router {router}", why.unwrap_or_default())
        }
    };
    Some(text)
}

/// Describes the clients on other hosts.
fn gate(gate: &Value) -> String {
    let connections = counted(total(&gate["connections"]), "connection");
    let told = list(&gate["ways_told"]);
    let ways = total(&gate["ways"]);
    if gate["udp_port"].is_null() {
        return format!("{connections} by TLS, datagrams inside it");
    }
    let by_udp: Vec<&Value> = told.iter().filter(|way| way["way"] == "udp").collect();
    let worst = |key: &str| {
        let of = by_udp.iter().filter_map(|way| way[key].as_f64());
        of.fold(0.0, f64::max)
    };
    let mut words = format!(
        "{connections} by TLS; datagrams of {} of {} by UDP",
        by_udp.len(),
        counted(told.len() as u64, "socket")
    );
    if !by_udp.is_empty() {
        let (rtt, loss) = (worst("rtt_ms"), worst("loss_pct"));
        words += &format!(", round trip up to {rtt:.1} ms, loss up to {loss:.1} %");
    }
    if ways > told.len() as u64 {
        words += &format!("; {} more not listed", ways - told.len() as u64);
    }
    words
}

/// The range of all groups.
const ALL_GROUPS: &str = "224.0.0.0/3";
/// Most nodes that are named as those that may set groups.
const SETTERS_TOLD: usize = 8;

/// Describes a node or link that swallows packets although its links seem good.
fn suspect(suspect: &Value, names: &Names) -> String {
    let name = |key: &str| suspect[key].as_str().map(|node| names.name(node));
    let whose = match (name("node"), name("link_to")) {
        (Some(from), Some(to)) => format!("the link from {from} to {to}"),
        (node, _) => node.unwrap_or_default().to_owned(),
    };
    let among = match total(&suspect["among"]) {
        0 | 1 => String::new(),
        many => format!(" (one of {many})"),
    };
    let lost = suspect["lost"].as_f64().unwrap_or_default() * 100.0;
    let to = name("path_to").unwrap_or_default();
    let retry = suspect["retry_in_s"].as_f64().unwrap_or_default();
    format!(
        "{whose}{among} swallows {lost:.0} % of what goes to {to}: packets go around it, next try in {retry:.0} s"
    )
}

/// Describes with which nodes packets are encrypted end to end, and with which they cannot be.
fn ends(ends: &[Value], names: &Names) -> Option<String> {
    if ends.is_empty() {
        return None;
    }
    let sessions = ends.iter().filter(|end| !end["session_age_s"].is_null());
    let open = ends.iter().filter(|end| end["seals"] == false);
    let open: Vec<&str> = open.map(|end| names.name(text(&end["node"]))).collect();
    let mut words = format!(
        "from end to end with {} of {} nodes, {} in use",
        ends.len() - open.len(),
        ends.len(),
        sessions.count()
    );
    let hybrid = ends.iter().filter(|end| end["post_quantum"] == true);
    match hybrid.count() {
        0 => {}
        many => words += &format!(", {many} of them with post-quantum keys"),
    }
    if !open.is_empty() {
        let _ = write!(
            words,
            "; nodes on the way can read what goes to {}",
            open.join(", ")
        );
    }
    let refused: u64 = ends.iter().map(|end| total(&end["refused"])).sum();
    if refused > 0 {
        let _ = write!(words, "; {refused} packets did not open");
    }
    // One reason is enough here; the log has all.
    if let Some(reason) = ends.iter().find_map(|end| end["reason"].as_str()) {
        let _ = write!(words, "; {reason}");
    }
    Some(words)
}

/// Describes the packets that wait for earlier ones, and their flows.
fn held(held: &Value) -> Option<String> {
    let (packets, given_up) = (total(&held["packets"]), total(&held["given_up"]));
    if packets == 0 && given_up == 0 {
        return None;
    }
    let mut words = format!(
        "{packets} packets wait for earlier ones, {} of {} bytes",
        total(&held["bytes"]),
        total(&held["bytes_limit"])
    );
    if given_up > 0 {
        let _ = write!(words, "; {given_up} gaps given up for want of room");
    }
    if let Some(most) = list(&held["holders"]).first() {
        let _ = write!(
            words,
            "; most from {} to {}: {} packets, {} bytes, {} given up",
            text(&most["from"]),
            text(&most["to"]),
            total(&most["packets"]),
            total(&most["bytes"]),
            total(&most["given_up"])
        );
    }
    Some(words)
}

pub(super) fn certificate(snapshot: &Value) -> String {
    let Some(not_after_s) = snapshot["certificate_not_after_s"].as_u64() else {
        return "unknown".into();
    };
    let until = day(not_after_s);
    let left_s = not_after_s.saturating_sub(net::Clock::new().unix_s());
    let is_soon = snapshot["certificate_expires_soon"] == true;
    match old_root(snapshot) {
        _ if is_soon && left_s == 0 => format!("EXPIRED on {until}: run `sinew net renew`"),
        Some(root) => {
            format!("until {until}, of root key {root}, which was REPLACED: run `sinew net renew`")
        }
        None if is_soon => format!(
            "until {until}, SOON: run `sinew net renew`, or see in the log why it is not renewed"
        ),
        None => format!("until {until}"),
    }
}

/// Describes until when the node may certify others.
pub(super) fn delegation(issuer: &Value) -> String {
    let not_after_s = total(&issuer["delegation_not_after_s"]);
    let until = day(not_after_s);
    let is_soon = issuer["delegation_ends_soon"] == true;
    match (is_soon, not_after_s > net::Clock::new().unix_s()) {
        (_, false) => format!("ENDED on {until}: run `sinew net delegate`"),
        (true, true) => format!("until {until}, SOON: run `sinew net delegate`"),
        (false, true) => format!("until {until}"),
    }
}

/// Returns the number of the root key of the node's certificate, if a newer root key has replaced
/// it.
pub(super) fn old_root(snapshot: &Value) -> Option<u64> {
    let root = snapshot["certificate_root"].as_u64()?;
    (root < total(&snapshot["root"])).then_some(root)
}

/// Lists the domains that nodes may serve, or the tags of nodes, with the nodes.
fn bearers(status: &Value, what: &str) -> Vec<String> {
    let nodes = list(&status["nodes"]).iter();
    let borne = nodes.filter_map(|node| {
        let words: Vec<&str> = list(&node[what]).iter().map(text).collect();
        (!words.is_empty()).then(|| format!("{} by {}", words.join(" "), text(&node["name"])))
    });
    borne.collect()
}

/// Lists the nodes that may set groups, if not all nodes may.
fn setters(status: &Value) -> Option<String> {
    let nodes = list(&status["nodes"]);
    let may = |node: &Value| {
        let ranges: Vec<&str> = list(&node["may_set_groups"]).iter().map(text).collect();
        match ranges.as_slice() {
            [] => None,
            [ALL_GROUPS] => Some(text(&node["name"]).to_owned()),
            ranges => Some(format!("{} ({})", text(&node["name"]), ranges.join(" "))),
        }
    };
    let is_free = |node: &Value| {
        list(&node["may_set_groups"])
            .iter()
            .any(|one| one == ALL_GROUPS)
    };
    if nodes.iter().all(is_free) {
        return None;
    }
    let mut setters: Vec<String> = nodes.iter().filter_map(may).collect();
    let more = setters.len().saturating_sub(SETTERS_TOLD);
    setters.truncate(SETTERS_TOLD);
    match (setters.is_empty(), more) {
        (true, _) => Some("nobody that is known here".to_owned()),
        (false, 0) => Some(setters.join(", ")),
        (false, more) => Some(format!("{} and {more} more", setters.join(", "))),
    }
}

/// Summarizes the groups, if there are any.
fn groups(groups: &Value) -> Vec<String> {
    let mut parts = Vec::new();
    for (key, what) in [
        ("joined", "joined"),
        ("link_state_trees", "by link state"),
        ("scribe_trees", "by Scribe"),
    ] {
        match (key, total(&groups[key])) {
            (_, 0) => {}
            ("joined", count) => parts.push(format!("{count} {what}")),
            (_, count) => parts.push(format!("{} {what}", counted(count, "tree"))),
        }
    }
    if let pending @ 1.. = total(&groups["scribe"]["pending"]) {
        parts.push(format!("{pending} without a parent yet"));
    }
    let sources = list(&groups["sources"]).iter();
    let open = sources.filter(|source| source["sealed"] == false);
    let open: Vec<&str> = open.map(|source| text(&source["group"])).collect();
    if !open.is_empty() {
        let who = "nodes on the way can read what is sent to";
        parts.push(format!("{who} {}", open.join(" ")));
    }
    parts
}

fn bridge(bridge: &Value) -> String {
    let away = if bridge["is_here"] == true {
        ""
    } else {
        ", interface missing"
    };
    let cut_off = if bridge["is_cut_off"] == true {
        ", cut off"
    } else {
        ""
    };
    let refused = match total(&bridge["refused"]) {
        0 => String::new(),
        refused => format!(" ({refused} of them refused by the node)"),
    };
    let drops = bridge["drops"]
        .as_object()
        .map(happened)
        .unwrap_or_default();
    let drops = if drops.is_empty() {
        vec!["none".to_owned()]
    } else {
        drops
    };
    format!(
        "{}{away}, {}{cut_off}, {} groups with members{refused}, {} packets to the overlay, {} from it; dropped: {}",
        text(&bridge["interface"]),
        text(&bridge["role"]),
        total(&bridge["groups"]),
        total(&bridge["captured"]),
        total(&bridge["injected"]),
        drops.join(", ")
    )
}

/// Describes the relay service as a whole.
fn bulk(bulk: &Value) -> String {
    let mut parts = vec![
        format!(
            "{} of {} transfers",
            total(&bulk["active"]),
            total(&bulk["limit"])
        ),
        format!("{} done", total(&bulk["done"])),
    ];
    for (key, what) in [
        ("failed", "failed"),
        ("refused", "refused"),
        ("turned_away", "connections turned away"),
    ] {
        let reasons = bulk[key].as_object().map(happened).unwrap_or_default();
        if !reasons.is_empty() {
            parts.push(format!("{what}: {}", reasons.join(" ")));
        }
    }
    let bytes = [
        ("passed_bytes", "passed on"),
        ("taken_bytes", "taken in"),
        ("given_bytes", "given"),
    ];
    parts.extend(bytes.map(|(key, what)| format!("{} {what}", bytes_in_words(total(&bulk[key])))));
    parts.join(", ")
}

/// Describes a running transfer.
fn transfer(transfer: &Value, names: &Names) -> String {
    let mbit = |value: &Value| total(value) as f64 / 1e6;
    let name = |node: &Value| names.name(text(node)).to_owned();
    let to: Vec<String> = list(&transfer["to"]).iter().map(name).collect();
    let from = match &transfer["from"] {
        Value::Null => String::new(),
        from => format!(" from {}", name(from)),
    };
    let to = match to.is_empty() {
        true => String::new(),
        false => format!(" to {}", to.join(", ")),
    };
    let scavenge = match transfer["scavenge"] == true {
        true => ", background",
        false => "",
    };
    let mut line = format!(
        "{} {}{from}{to}, {} bytes, {:.1} Mbit/s{scavenge}",
        text(&transfer["id"]).get(..8).unwrap_or_default(),
        text(&transfer["role"]),
        total(&transfer["bytes"]),
        mbit(&transfer["rate_bps"]),
    );
    let slowest = &transfer["slowest"];
    if slowest.is_object() {
        let (from, to) = (name(&slowest["from"]), name(&slowest["to"]));
        let rate = mbit(&slowest["rate_bps"]);
        // Writing to a string cannot fail.
        let _ = write!(line, ", slowest: {from}>{to} {rate:.1} Mbit/s");
    }
    line
}

fn recovery(counters: &Value) -> String {
    format!(
        "{} packets recovered, {} requested, {} retransmitted for others",
        total(&counters["recovered_packets"]),
        total(&counters["requested_packets"]),
        total(&counters["retransmitted_packets"])
    )
}

/// Lists the events that occurred, with their counts.
fn happened(table: &Map<String, Value>) -> Vec<String> {
    let counts = table.iter().map(|(reason, count)| (reason, total(count)));
    let counts = counts.filter(|(_, count)| *count > 0);
    counts
        .map(|(reason, count)| format!("{reason} {count}"))
        .collect()
}
