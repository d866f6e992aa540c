//! `sinew groups`, `sinew group show | set | clear`: multicast and anycast groups, their trees, and the packets that
//! each receiver gets.

mod named;
mod protection;
mod set;
mod ways;

use crate::control::{Control, Watched};
use crate::date::span;
use crate::failure::{Failure, Outcome};
use crate::names::Names;
use crate::service;
use crate::show::{Show, list, text};
use crate::table::{Cell, Column, Look, Page, Table, Tone};
use crate::terminal;
use crate::watch::{self, Rates};
use base::NodeAddr;
use clap::{Args, Subcommand};
use named::groups;
pub(crate) use named::{lacks_source, one_group, set_groups};
pub(crate) use protection::flow;
use serde_json::{Value, json};
pub use set::SetGroup;
use std::path::PathBuf;
pub(crate) use ways::second_ways;
use ways::two_ways;

/// The subcommands of `sinew group`.
#[derive(Debug, Subcommand)]
pub enum Group {
    /// Show a group: its tree, its members, and what each receiver has received
    #[command(after_help = "\
Receivers report their numbers to the source's node every two seconds, so use
its socket.

Example:
  sinew group show 239.1.1.1 --node net/ams --watch")]
    Show(ShowGroup),
    /// Set how the network carries a group; use the source's node
    #[command(after_help = "\
Values that you do not give stay as this node has set them before; the word
default takes one back. The answer says what this node has set. A setting always
fixes service, metric and priority for all senders: voice (real-time),
expected-latency and 4, unless you give others. A command that only gives
--send or --receive makes no setting.

The command refuses, with the reasons, if a link of the tree does not have
enough capacity left, or if a member is too far away. The source drops packets
above the rate.

Examples:
  sinew group set 239.1.1.1 --rate 12mbit --deadline 500ms --node net/ams
  sinew group set 239.1.1.1 --ways 2 --node net/ams
  sinew group set 239.1.1.1 --rate default --node net/ams
  sinew group set 239.1.1.1 --ways targeted --deadline 150ms --node net/ams
  sinew group set 239.1.1.1 --send ams --receive fra,tag:cam,@example.com
  sinew group set 239.192.0.0/14 --tree scribe")]
    Set(Box<SetGroup>),
    /// Remove the settings that this node has made for a group
    #[command(after_help = "Example:\n  sinew group clear 239.1.1.1 --node net/ams")]
    Clear(ClearGroup),
}

/// Arguments of `group show`.
#[derive(Debug, Args)]
pub struct ShowGroup {
    /// The group, IPv4 or IPv6; a source-specific group has its source, such as 232.1.1.1@10.0.0.5
    #[arg(value_parser = one_group)]
    pub group: NodeAddr,
    #[command(flatten)]
    show: Show,
}

/// Arguments of `group clear`.
#[derive(Debug, Args)]
pub struct ClearGroup {
    /// The group, a range of groups, or a group with its source
    #[arg(value_parser = groups)]
    pub group: String,
    #[command(flatten)]
    at: At,
}

#[derive(Debug, Args)]
struct At {
    /// The node's control socket
    #[arg(long, value_name = "SOCKET")]
    node: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(command: &Group) -> Outcome {
    match command {
        Group::Show(args) => show_group(args),
        Group::Set(args) => set::set(args),
        Group::Clear(args) => {
            let question = json!({"cmd": "group_clear", "group": args.group});
            let answer = Control::find(args.at.node.as_deref())?.ask(&question)?;
            match args.at.json {
                true => terminal::json(&answer),
                false => Ok(()),
            }
        }
    }
}

/// Runs `sinew groups`.
pub fn show(args: &Show) -> Outcome {
    let mut node = Watched::find(args.node.as_deref())?;
    let mut rates = Rates::default();
    watch::show(args, "groups", |look| {
        let (answer, status) = asked(&mut node, &json!({"cmd": "groups"}))?;
        if args.json {
            return Ok(Page::text(&answer["groups"].to_string()));
        }
        let page = page(&answer["groups"], &status, look, &mut rates)?;
        Ok(page.of(text(&status["snapshot"]["name"])))
    })
}

/// Returns the node's answer, and its status for the names and the time.
fn asked(node: &mut Watched, question: &Value) -> Result<(Value, Value), Failure> {
    node.with(|control| {
        let (mut answer, status) = (control.ask(question)?, control.status()?);
        protection::add(control, &mut answer, &status);
        Ok((answer, status))
    })
}

/// Says that the asked node does not know a group. The words may come from [`lacks_source`].
pub(crate) fn unknown(group: NodeAddr, lacks: Option<String>) -> String {
    lacks.unwrap_or_else(|| {
        format!("{group}: nobody has joined it, and nobody sends to it, as far as this node knows")
    })
}

fn show_group(args: &ShowGroup) -> Outcome {
    let mut node = Watched::find(args.show.node.as_deref())?;
    let question = json!({"cmd": "groups", "group": args.group.to_string()});
    let mut rates = Rates::default();
    watch::show(&args.show, &format!("group {}", args.group), |look| {
        let (answer, status) = asked(&mut node, &question)?;
        let node = text(&status["snapshot"]["name"]);
        let known = list(&answer["groups"]).first();
        let lacks = lacks_source(args.group, known.unwrap_or(&Value::Null));
        let Some(group) = known.filter(|_| lacks.is_none()) else {
            let why = unknown(args.group, lacks);
            return match args.show.watch {
                // With `--watch`, the command waits for the group to appear.
                true if args.show.json => Ok(Page::text("null")),
                true => Ok(Page::text(&why).of(node)),
                false => Err(Failure::failed(why)),
            };
        };
        if args.show.json {
            return Ok(Page::text(&group.to_string()));
        }
        let mut page = page(&answer["groups"], &status, look, &mut rates)?;
        page.push_blank();
        page.push(detail(group, (&Names::of(&status), &status), &look.rest())?);
        for line in bridged(group, &status) {
            page.push(Page::wrapped(&line, &look.rest(), INDENT));
        }
        Ok(page.of(node))
    })
}

/// The indent of the further lines of a text that does not fit in a line.
const INDENT: usize = 4;

/// Returns the reasons in the node's answer, one line each.
fn reasons(admission: &Value) -> Vec<String> {
    let refusals = list(&admission["refusals"]).iter();
    let refusals = refusals.map(|why| format!("  does not fit: {}", text(why)));
    let notes = list(&admission["notes"]).iter();
    let notes = notes.map(|note| format!("  note: {}", text(note)));
    refusals.chain(notes).collect()
}

/// Lists the groups, one row per group and source. The rate covers the time since the last call.
fn page(groups: &Value, status: &Value, look: &Look, rates: &mut Rates) -> Result<Page, Failure> {
    let names = Names::of(status);
    let now_s = status["snapshot"]["uptime_s"].as_f64().unwrap_or(0.0);
    let mut table = Table::new(&[
        Column::words("GROUP", 0),
        Column::words("TREE", 5),
        Column::numbers("MEMBERS", 1),
        Column::numbers("HERE", 6),
        Column::words("SOURCE", 0),
        Column::words("FROM", 4),
        Column::words("TO", 3),
        Column::numbers("PACKETS", 4),
        Column::numbers("RATE Mbit/s", 1),
        Column::numbers("RECEIVERS", 0),
        Column::numbers("LOST %", 0),
        Column::words("WORST", 2),
        Column::words("PROTECTION", 7),
    ]);
    for group in list(groups) {
        let members = match text(&group["tree"]) {
            "scribe" => Cell::nothing(),
            _ => list(&group["members"]).len().to_string().into(),
        };
        let head = [
            text(&group["group"]).into(),
            text(&group["tree"]).into(),
            members,
            group["clients"].to_string().into(),
        ];
        let sources = list(&group["sources"]);
        if sources.is_empty() {
            let rest = ["-", "-", "-", "0", "-", "-", "-", "-", "-"].map(Cell::from);
            table.row(head.iter().cloned().chain(rest));
        }
        for source in sources {
            let key = format!(
                "{} {} {}",
                group["group"], source["source"], source["metric"]
            );
            let bytes = source["bytes"].as_u64().unwrap_or(0);
            let rate = rates.of(key, bytes, now_s);
            let to: Vec<&str> = list(&source["branches"])
                .iter()
                .map(|peer| names.name(text(peer)))
                .collect();
            let worst = list(&source["receptions"]).first();
            let upstream = source["upstream"].as_str();
            let rest = [
                names.name(text(&source["source"])).into(),
                upstream.map_or("-", |peer| names.name(peer)).into(),
                match to.is_empty() {
                    true => Cell::nothing(),
                    false => to.join(",").into(),
                },
                source["packets"].to_string().into(),
                Cell::number(rate.map(|bytes| bytes * 8.0 / 1e6), 2),
                source["receivers"].to_string().into(),
                worst.map_or_else(Cell::nothing, |one| lost(&one["lost_after_pct"])),
                worst
                    .map_or("-", |one| names.name(text(&one["node"])))
                    .into(),
                source["protection"]["words"].as_str().unwrap_or("-").into(),
            ];
            table.row(head.iter().cloned().chain(rest));
        }
    }
    table.sort(5);
    table.page(
        look,
        "no groups: nobody has joined one, and nobody sends to one",
    )
}

/// Describes what the bridges in the node have done with the packets of a group.
fn bridged(group: &Value, status: &Value) -> Vec<String> {
    let of_group = |told: &&Value| told["group"] == group["group"];
    let lines = list(&status["bridges"]).iter().filter_map(|bridge| {
        let told = list(&bridge["groups_told"]).iter().find(of_group)?;
        let drops = told["drops"].as_object();
        let drops: Vec<String> = drops
            .into_iter()
            .flatten()
            .map(|(reason, count)| format!("{count} {reason}"))
            .collect();
        let dropped = match drops.is_empty() {
            true => "none".to_owned(),
            false => drops.join(", "),
        };
        Some(format!(
            "bridge {}, for {}: {} packets to the overlay, {} from it; dropped: {dropped}",
            text(&bridge["interface"]),
            text(&told["ip"]),
            told["captured"],
            told["injected"],
        ))
    });
    lines.collect()
}

/// From this loss at receivers on, the number is a warning.
const LOST_WARN_PCT: f64 = 0.1;
/// From this loss on, pictures have visible faults.
const LOST_BAD_PCT: f64 = 1.0;

fn lost(value: &Value) -> Cell {
    let pct = value.as_f64().unwrap_or(0.0);
    Cell::toned(
        format!("{pct:.3}"),
        Tone::above(pct, LOST_WARN_PCT, LOST_BAD_PCT),
    )
}

/// Describes whether nodes on the path can read what this node sends to a group. `None` if the group is not multicast.
fn sealed(group: &Value, names: &Names) -> Option<String> {
    let cannot = list(&group["cannot_open"]).iter();
    let cannot: Vec<&str> = cannot.map(|node| names.name(text(node))).collect();
    match (group["sealed"].as_bool()?, cannot.is_empty()) {
        (true, _) => Some(match group["keys_told"].as_u64() {
            None | Some(0) => "sealed: nodes on the way cannot read what is sent here".to_owned(),
            Some(1) => "sealed: one node has the key of what is sent here".to_owned(),
            Some(many) => format!("sealed: {many} nodes have the key of what is sent here"),
        }),
        (false, true) => Some("nodes on the way can read what is sent here".to_owned()),
        (false, false) => Some(format!(
            "nodes on the way can read what is sent here, because these cannot open what is sealed: {}",
            cannot.join(", ")
        )),
    }
}

/// Lists the members to which this node sends packets a second time.
fn starved(group: &Value, names: &Names) -> impl Iterator<Item = String> {
    let line = |member: &Value| {
        let pct = |key: &str| member[key].as_f64().unwrap_or(0.0) * 100.0;
        format!(
            "{} gets each packet of this node a second time, by itself: the tree lost {:.1} % of them, though its \
             links look well (for {:.0} s, {} packets; the tree has lost {:.1} % meanwhile)",
            names.name(text(&member["node"])),
            pct("lost"),
            member["for_s"].as_f64().unwrap_or(0.0),
            member["packets"].as_u64().unwrap_or(0),
            pct("lost_since"),
        )
    };
    let lines: Vec<String> = list(&group["starved"]).iter().map(line).collect();
    lines.into_iter()
}

/// Describes the permissions of a group, as one node reports them.
pub(crate) fn permitted(permit: &Value, names: &Names) -> String {
    let who = |key: &str| match permit[key].as_array() {
        None => "all".to_owned(),
        Some(words) if words.is_empty() => "nobody".to_owned(),
        Some(words) => words.iter().map(text).collect::<Vec<_>>().join(", "),
    };
    format!(
        "as {} says of {}: {} may send, {} may receive",
        names.name(text(&permit["said_by"])),
        text(&permit["group"]),
        who("send"),
        who("receive")
    )
}

/// Describes how a setting carries a group.
pub(crate) fn carried(setting: &Value) -> String {
    let rate = setting["rate_kbps"].as_f64();
    let part = |key: &str, unit: &str| match setting[key].as_u64() {
        Some(number) => format!(", {number} {unit}"),
        None => String::new(),
    };
    format!(
        "{}{}{}{}{}{}",
        service::described_group(setting),
        part("deadline_ms", "ms"),
        rate.map_or_else(String::new, |kbps| format!(", {} Mbit/s", kbps / 1e3)),
        match (setting["ways"].as_u64(), setting["asked_ways"].as_str()) {
            (Some(2), _) => ", two ways",
            (_, Some("1")) => ", one way",
            (_, Some("targeted")) => ", targeted ways",
            _ => "",
        },
        delivered(setting),
        service::aimed(setting),
    )
}

/// Shows all data of one group.
fn detail(group: &Value, (names, status): (&Names, &Value), look: &Look) -> Result<Page, Failure> {
    let mut page = Page::default();
    let mut lines = Vec::new();
    let setting = &group["setting"];
    if !setting.is_null() {
        let by = names.name(text(&setting["set_by"]));
        lines.push(format!("set by {by}: {}", carried(setting)));
        lines.extend(reasons(&group["admission"]));
    }
    for permit in list(&group["permits"]) {
        lines.push(permitted(permit, names));
    }
    for said in list(&group["ignored"]) {
        let (by, of) = (names.name(text(&said["said_by"])), text(&said["group"]));
        lines.push(format!(
            "what {by} says of {of} is ignored: its certificate does not let it set these groups"
        ));
    }
    let kept_out = list(&group["kept_out"]).iter();
    let kept_out: Vec<&str> = kept_out.map(|node| names.name(text(node))).collect();
    if !kept_out.is_empty() {
        lines.push(format!(
            "members that may not receive: {}",
            kept_out.join(", ")
        ));
    }
    lines.extend(sealed(group, names));
    lines.extend(starved(group, names));
    lines.extend(may_not_send(group, status));
    if let Some(refused) = group["refused"].as_str() {
        lines.push(format!("not in the tree: {refused}"));
    }
    let members: Vec<String> = list(&group["members"])
        .iter()
        .map(|member| match cut_off(status, text(member)) {
            Some(why) => format!("{} ({why})", names.both(text(member))),
            None => names.both(text(member)),
        })
        .collect();
    if !members.is_empty() {
        lines.push(format!("members: {}", members.join(", ")));
    }
    for source in list(&group["sources"]) {
        let from = text(&source["source"]);
        let idle = span(source["idle_s"].as_f64().unwrap_or(0.0));
        lines.push(String::new());
        lines.push(format!(
            "from {} by {}, last packet {idle} ago",
            names.both(from),
            text(&source["metric"]),
        ));
        if let Some(worst) = source["protection"]["words"].as_str() {
            lines.push(format!("protection, worst link: {worst}"));
        }
        match list(&source["ways"]) {
            [] => draw(from, &source["links"], names, 1, &mut lines),
            ways => lines.extend(ways.iter().flat_map(|ways| two_ways(ways, names))),
        }
        lines.extend(second_ways(&source["second"], names));
        let missed = ["late", "given_up"].map(|key| source[key].as_u64().unwrap_or(0));
        if missed != [0, 0] {
            let [late, given_up] = missed;
            lines.push(format!(
                "members here: {given_up} packets waited for in vain, {late} of them came too late for order"
            ));
        }
        let receptions = list(&source["receptions"]);
        if receptions.is_empty() {
            lines.extend(unreported(group, source, names));
            continue;
        }
        let mut table = Table::new(&[
            Column::words("RECEIVER", 0),
            Column::words("ADDRESS", 2),
            Column::numbers("RECEIVED", 1),
            Column::numbers("RECOVERED", 1),
            Column::numbers("LOST", 1),
            Column::numbers("LOSS BEFORE %", 0),
            Column::numbers("LOSS AFTER %", 0),
        ]);
        for one in receptions {
            let node = text(&one["node"]);
            table.row([
                names.name(node).into(),
                node.into(),
                one["received"].to_string().into(),
                one["recovered"].to_string().into(),
                one["lost"].to_string().into(),
                Cell::number(one["lost_before_pct"].as_f64(), 3),
                lost(&one["lost_after_pct"]),
            ]);
        }
        page.push(Page::wrapped(&lines.join("\n"), look, INDENT));
        lines.clear();
        page.push(table.page(look, "")?);
        let all = source["receivers"].as_u64().unwrap_or(0) as usize;
        if all > receptions.len() {
            lines.push(format!("the worst {} of {all} receivers", receptions.len()));
        }
        lines.extend(old(source, names));
        lines.extend(unreported(group, source, names));
    }
    page.push(Page::wrapped(&lines.join("\n"), look, INDENT));
    Ok(page)
}

/// An expected latency in milliseconds from which on it stands for a silent link: no path is that long.
pub(crate) const SILENT_MS: f64 = 1e9;

/// Returns why packets of the asked node do not reach a node, if its routes say so.
fn cut_off(status: &Value, node: &str) -> Option<&'static str> {
    let mut nodes = list(&status["nodes"]).iter();
    let latency = nodes
        .find(|known| text(&known["address"]) == node)?
        .get("expected_latency_ms")?;
    match latency.as_f64() {
        None => Some("unreachable"),
        Some(ms) if ms >= SILENT_MS => Some("unreachable: a link is silent"),
        Some(_) => None,
    }
}

/// Says that the asked node may not send to a group and has dropped packets.
pub(crate) fn may_not_send(group: &Value, status: &Value) -> Option<String> {
    let dropped = group["refused_packets"].as_u64().filter(|n| *n > 0)?;
    let own = text(&status["snapshot"]["name"]);
    Some(format!("{own} may not send: {dropped} dropped"))
}

/// From this age on, the numbers of a receiver are old: two reports have not changed them.
const OLD_S: f64 = 4.5;

/// Names the receivers whose numbers have not changed for some time, although the source has sent.
fn old(source: &Value, names: &Names) -> Vec<String> {
    let idle_s = source["idle_s"].as_f64().unwrap_or(0.0);
    let receptions = list(&source["receptions"]).iter();
    let line = |one: &Value| {
        let age_s = one["age_s"].as_f64()?;
        (age_s >= OLD_S + idle_s).then(|| {
            let name = names.name(text(&one["node"]));
            format!("the numbers of {name} are {age_s:.0} s old")
        })
    };
    receptions.filter_map(line).collect()
}

/// Names the members from which the source's node has no report.
fn unreported(group: &Value, source: &Value, names: &Names) -> Option<String> {
    let receptions = list(&source["receptions"]);
    let all = source["receivers"].as_u64().unwrap_or(0) as usize;
    let is_at_source = source["upstream"].is_null();
    if !is_at_source || all > receptions.len() || source["packets"].as_u64().unwrap_or(0) == 0 {
        return None;
    }
    let has_report = |member: &str| receptions.iter().any(|one| text(&one["node"]) == member);
    let kept_out = list(&group["kept_out"]);
    let lacks = |member: &&Value| {
        let is_source = text(member) == text(&source["source"]);
        !is_source && !kept_out.contains(member) && !has_report(text(member))
    };
    let members: Vec<&str> = list(&group["members"])
        .iter()
        .filter(lacks)
        .map(|member| names.name(text(member)))
        .collect();
    (!members.is_empty())
        .then(|| format!("no report of the last seconds from: {}", members.join(", ")))
}

/// Describes how members get a group's packets, if the setting has it.
fn delivered(setting: &Value) -> String {
    let after = setting["release_ms"].as_u64();
    match (setting["delivery"].as_str(), after) {
        (None, _) => String::new(),
        (Some(word), None) => format!(", {word}"),
        (Some(word), Some(ms)) => format!(", {word} after {ms} ms"),
    }
}

/// Draws the tree below a node. The depth and the number of lines are bounded, whatever a node reports.
fn draw(node: &str, links: &Value, names: &Names, depth: usize, lines: &mut Vec<String>) {
    if depth > 64 || lines.len() > 4_096 {
        return;
    }
    let mut below = list(links).iter().filter(|link| text(&link[0]) == node);
    let mut next = below.next();
    while let Some(link) = next {
        let to = text(&link[1]);
        next = below.next();
        let mark = if next.is_some() { '├' } else { '└' };
        lines.push(format!("{}{mark} {}", "  ".repeat(depth), names.both(to)));
        draw(to, links, names, depth + 1, lines);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_shown_with_its_tree_and_what_each_receiver_got() {
        let status = json!({
            "snapshot": {"name": "ams", "address": "10.7.0.1", "links": [], "uptime_s": 9.0},
            "nodes": [{"name": "fra", "address": "10.7.0.2"}, {"name": "par", "address": "10.7.0.3"}],
        });
        let names = Names::of(&status);
        let group = json!({
            "group": "239.1.1.1", "kind": "multicast", "tree": "link-state",
            "permits": [{"said_by": "10.7.0.1", "group": "239.1.0.0/16", "send": ["ams", "@a.b"], "receive": null}],
            "kept_out": ["10.7.0.2"],
            "members": ["10.7.0.3"], "clients": 0, "admission": {"notes": ["a note"], "refusals": []},
            "setting": {"set_by": "10.7.0.1", "link": "real-time", "routing": "latency",
                        "priority": 4, "deadline_ms": 500, "rate_kbps": 1500},
            "sources": [{
                "source": "10.7.0.1", "metric": "latency", "upstream": null,
                "branches": ["10.7.0.2"], "packets": 1000, "bytes": 200_000, "idle_s": 0.1,
                "receivers": 1,
                "receptions": [{"node": "10.7.0.3", "received": 999, "recovered": 9, "lost": 1,
                                "lost_before_pct": 1.0, "lost_after_pct": 0.1}],
                "links": [["10.7.0.1", "10.7.0.2"], ["10.7.0.2", "10.7.0.3"]],
                "late": 2, "given_up": 5,
            }],
        });
        let look = Look {
            width: Some(80),
            ..Look::default()
        };
        let drawn = page(&json!([group]), &status, &look, &mut Rates::default());
        let table = drawn.unwrap().to_string();
        let row: Vec<&str> = table.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(row[0], "239.1.1.1", "{table}");
        assert!(row.contains(&"0.100") && row.contains(&"par"), "{table}");
        assert!(
            table.lines().all(|line| line.chars().count() <= 80),
            "{table}"
        );
        let shown = detail(&group, (&names, &status), &look)
            .unwrap()
            .to_string();
        for part in [
            "set by ams: real-time, latency, 500 ms, 1.5 Mbit/s",
            "note: a note",
            "as ams says of 239.1.0.0/16: ams, @a.b may send, all may receive",
            "members that may not receive: fra",
            "  └ fra 10.7.0.2\n    └ par 10.7.0.3",
            "par       10.7.0.3       999          9     1          1.000         0.100",
            "5 packets waited for in vain, 2 of them came too late",
        ] {
            assert!(shown.contains(part), "{part:?} in {shown}");
        }
    }

    #[test]
    fn what_is_wrong_with_members_and_senders_is_said() {
        let status = json!({
            "snapshot": {"name": "ams", "address": "10.7.0.1", "links": []},
            "nodes": [{"name": "ams", "address": "10.7.0.1", "expected_latency_ms": 0.0},
                      {"name": "fra", "address": "10.7.0.2", "expected_latency_ms": 9.0},
                      {"name": "par", "address": "10.7.0.3", "expected_latency_ms": null},
                      {"name": "nyc", "address": "10.7.0.4", "expected_latency_ms": 1_152_921_504_789.52}],
        });
        let reception = json!({"node": "10.7.0.2", "received": 9, "recovered": 0, "lost": 0,
                               "lost_before_pct": 0.0, "lost_after_pct": 0.0, "age_s": 6.2});
        let group = json!({
            "group": "239.1.1.1", "members": ["10.7.0.2", "10.7.0.3", "10.7.0.4"], "refused_packets": 304,
            "sources": [{"source": "10.7.0.1", "metric": "latency", "upstream": null, "packets": 9, "idle_s": 0.1,
                         "receivers": 1, "receptions": [reception]}],
        });
        let names = Names::of(&status);
        let shown = detail(&group, (&names, &status), &Look::default())
            .unwrap()
            .to_string();
        for part in [
            "ams may not send: 304 dropped",
            "members: fra 10.7.0.2, par 10.7.0.3 (unreachable), nyc 10.7.0.4 (unreachable: a link is silent)",
            "the numbers of fra are 6 s old",
            "no report of the last seconds from: par, nyc",
        ] {
            assert!(shown.contains(part), "{part:?} in {shown}");
        }
        let mut calm = group.clone();
        calm["refused_packets"] = 0.into();
        calm["sources"][0]["idle_s"] = 6.0.into();
        let shown = detail(&calm, (&names, &status), &Look::default())
            .unwrap()
            .to_string();
        assert!(
            !shown.contains("may not send") && !shown.contains("s old"),
            "{shown}"
        );
    }
}
