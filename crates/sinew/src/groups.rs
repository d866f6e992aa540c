//! `sinew groups`, `sinew group show | set | clear`: multicast and anycast groups, their trees, and the packets that
//! each receiver gets.

mod protection;
mod ways;

use crate::control::{Control, Watched};
use crate::date::span;
use crate::failure::{Failure, Outcome};
use crate::names::Names;
use crate::quantity;
use crate::service::{self, Service};
use crate::show::{Show, list, text};
use crate::table::{Cell, Column, Look, Page, Table, Tone};
use crate::terminal;
use crate::watch::{self, Rates};
use base::NodeAddr;
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use client::{RouteBy, Routing};
use gateway::multicast::channel::carrier;
use gateway::multicast::rules::is_source_specific;
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;
pub(crate) use ways::second_ways;
use ways::two_ways;
use wire::groups::Ways;

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
The command refuses, with the reasons, if a link of the tree does not have
enough capacity left, or if a member is too far away. The source drops packets
above the rate.

Examples:
  sinew group set 239.1.1.1 --rate 12mbit --deadline 500ms --node net/ams
  sinew group set 239.1.1.1 --ways 2 --deadline 500ms --node net/ams
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

/// Arguments of `group set`.
#[derive(Debug, Args)]
pub struct SetGroup {
    /// The group, a range of groups like 239.192.0.0/14, or a group with its source
    #[arg(value_parser = groups)]
    pub group: String,
    /// Rate of all its sources together, such as 10mbit; the source drops the excess
    #[arg(long, value_name = "RATE", value_parser = quantity::rate)]
    pub rate: Option<u64>,
    /// Deadline of its packets, such as 500ms
    #[arg(long, value_name = "TIME", value_parser = quantity::span)]
    pub deadline: Option<base::Duration>,
    /// The service that its packets need
    #[arg(long, alias = "link", value_enum)]
    pub service: Option<Service>,
    /// The metric for the paths of its tree
    #[arg(long = "metric", alias = "routing", value_name = "METRIC", value_parser = PossibleValuesParser::new(metrics()))]
    pub routing: Option<String>,
    /// Its priority
    #[arg(long, value_parser = clap::value_parser!(u8).range(0..=7))]
    pub priority: Option<u8>,
    /// How its tree is built: link-state (shortest paths from each source) or scribe (one shared tree,
    /// for very many groups)
    #[arg(long, value_parser = PossibleValuesParser::new(["link-state", "scribe"]))]
    pub tree: Option<String>,
    /// Ways for its packets to each member: 1, 2 (as disjoint as the network allows: a node or link of
    /// one can fail without packet loss), or targeted (a second way only to members that the first one
    /// reaches through links with losses); default: auto (targeted for real-time packets with a deadline)
    #[arg(long, value_parser = PossibleValuesParser::new(Ways::ALL.map(Ways::label)))]
    pub ways: Option<String>,
    /// How packets are delivered to all members: as-it-comes, in-order, or as-sent (in order and at the
    /// sender's pace); default: as each member requests
    #[arg(long, value_parser = PossibleValuesParser::new(["as-it-comes", "in-order", "as-sent"]))]
    pub delivery: Option<String>,
    /// With as-sent: deliver packets this long after they were sent, such as 300ms; default: as late as
    /// repairs need
    #[arg(long, value_name = "TIME", value_parser = quantity::span)]
    pub release: Option<base::Duration>,
    /// Loss target and repair limit
    #[command(flatten)]
    pub protection: service::Protection,
    /// Nodes that may send: names such as ams or *-cam, addresses, and tags and domains of
    /// certificates such as tag:studio or @example.com; '*' for all; default: unchanged
    #[arg(long, value_name = "NODE,..", value_delimiter = ',')]
    pub send: Option<Vec<String>>,
    /// Nodes that may receive
    #[arg(long, value_name = "NODE,..", value_delimiter = ',')]
    pub receive: Option<Vec<String>>,
    /// Set it even if admission control refuses it
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    at: At,
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

fn metrics() -> Vec<&'static str> {
    let by_table = RouteBy::ALL.into_iter().filter(|by| match by {
        RouteBy::Table(routing) => *routing != Routing::Width,
        RouteBy::Stamp(_) => false,
    });
    by_table.map(RouteBy::label).collect()
}

/// Converts a group of IPv6, or a source-specific one with its source, to the overlay's group. Other words stay as they
/// are.
fn groups(text: &str) -> Result<String, String> {
    let Some((group, source)) = text.split_once('@') else {
        return match text.parse() {
            Ok(IpAddr::V6(group)) if group.is_multicast() && !is_source_specific(group) => {
                Ok(carrier(group, Ipv6Addr::UNSPECIFIED).to_string())
            }
            Ok(IpAddr::V6(group)) if group.is_multicast() => Err(format!(
                "{group} has a tree for each source: name one, like {group}@fd00::5"
            )),
            _ => Ok(text.to_owned()),
        };
    };
    let bad = || format!("{text:?} is no group with a source, like 232.1.1.1@10.0.0.5");
    let group: IpAddr = group.parse().map_err(|_| bad())?;
    let source: IpAddr = source.parse().map_err(|_| bad())?;
    if group.is_ipv4() != source.is_ipv4() {
        return Err(bad());
    }
    if !is_source_specific(group) {
        return Err(format!(
            "{group}: only groups of 232.0.0.0/8 and ff3x::/32 have a tree for each source"
        ));
    }
    Ok(carrier(group, source).to_string())
}

pub(crate) fn one_group(text: &str) -> Result<NodeAddr, String> {
    let group = groups(text)?;
    let bad = |_| format!("{text:?} is no group, like 239.1.1.1");
    group.parse().map_err(bad)
}

/// Runs the command.
pub fn run(command: &Group) -> Outcome {
    match command {
        Group::Show(args) => show_group(args),
        Group::Set(args) => set(args),
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

fn show_group(args: &ShowGroup) -> Outcome {
    let mut node = Watched::find(args.show.node.as_deref())?;
    let question = json!({"cmd": "groups", "group": args.group.to_string()});
    let mut rates = Rates::default();
    watch::show(&args.show, &format!("group {}", args.group), |look| {
        let (answer, status) = asked(&mut node, &question)?;
        let node = text(&status["snapshot"]["name"]);
        let Some(group) = list(&answer["groups"]).first() else {
            let why = format!(
                "{}: nobody has joined it, and nobody sends to it, as far as this node knows",
                args.group
            );
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
        page.push(detail(group, &Names::of(&status), &look.rest())?);
        for line in bridged(group, &status) {
            page.push(Page::wrapped(&line, &look.rest(), INDENT));
        }
        Ok(page.of(node))
    })
}

fn set(args: &SetGroup) -> Outcome {
    let mut question = json!({
        "cmd": "group_set", "group": args.group, "force": args.force,
    });
    if let Some(bps) = args.rate {
        let kbps = u32::try_from(bps.div_ceil(1_000)).map_err(Failure::misused)?;
        question["rate_kbps"] = kbps.into();
    }
    for (key, time) in [("deadline_ms", args.deadline), ("release_ms", args.release)] {
        if let Some(time) = time {
            let most = "a deadline or release time is at most 65 s";
            let ms = u16::try_from(time.as_millis()).map_err(|_| Failure::misused(most))?;
            question[key] = ms.max(1).into();
        }
    }
    for (key, words) in [("send", &args.send), ("receive", &args.receive)] {
        if let Some(words) = words {
            question[key] = json!(words);
        }
    }
    let link = args.service.map(|service| service.link().label());
    for (key, word) in [
        ("link", link),
        ("routing", args.routing.as_deref()),
        ("tree", args.tree.as_deref()),
        ("delivery", args.delivery.as_deref()),
        ("ways", args.ways.as_deref()),
    ] {
        if let Some(word) = word {
            question[key] = word.into();
        }
    }
    for (key, share) in args.protection.said() {
        question[key] = share.into();
    }
    if let Some(priority) = args.priority {
        question["priority"] = priority.into();
    }
    let answer = Control::find(args.at.node.as_deref())?.ask(&question)?;
    if args.at.json {
        return terminal::json(&answer);
    }
    let admission = &answer["admission"];
    let mut lines = vec![format!("{}: admitted", args.group)];
    lines.extend(reasons(admission));
    let page = Page::wrapped(&lines.join("\n"), &terminal::look(), INDENT);
    terminal::line(page.to_string().trim_end())
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

/// Shows all data of one group.
fn detail(group: &Value, names: &Names, look: &Look) -> Result<Page, Failure> {
    let mut page = Page::default();
    let mut lines = Vec::new();
    let setting = &group["setting"];
    if !setting.is_null() {
        let rate = setting["rate_kbps"].as_f64();
        let part = |key: &str, unit: &str| match setting[key].as_u64() {
            Some(number) => format!(", {number} {unit}"),
            None => String::new(),
        };
        lines.push(format!(
            "set by {}: {}{}{}{}{}{}",
            names.name(text(&setting["set_by"])),
            service::described(setting),
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
        ));
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
    if let Some(refused) = group["refused"].as_str() {
        lines.push(format!("not in the tree: {refused}"));
    }
    let members: Vec<String> = list(&group["members"])
        .iter()
        .map(|member| names.both(text(member)))
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
    }
    page.push(Page::wrapped(&lines.join("\n"), look, INDENT));
    Ok(page)
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
    fn a_source_specific_group_is_named_with_its_source() {
        let read = |text: &str| text.parse::<IpAddr>().unwrap();
        let [group, source] = ["232.1.1.1", "10.0.0.5"].map(read);
        let named = one_group("232.1.1.1@10.0.0.5");
        assert_eq!(named, Ok(carrier(group, source)));
        assert_eq!(one_group("239.1.1.1"), Ok(NodeAddr(0xef01_0101)));
        assert_eq!(groups("239.192.0.0/14"), Ok("239.192.0.0/14".to_owned()));
        let ours = ["ff1e::101", "fd00::5"].map(read);
        assert_eq!(one_group("ff1e::101"), Ok(carrier(ours[0], ours[1])));
        let channel = carrier(read("ff3e::8000:1"), ours[1]);
        assert_eq!(one_group("ff3e::8000:1@fd00::5"), Ok(channel));
        for text in [
            "232.1.1.1@",
            "x@10.0.0.5",
            "239.1.1.1@10.0.0.5",
            "ff3e::8000:1",
            "ff3e::8000:1@10.0.0.5",
        ] {
            assert!(groups(text).is_err(), "{text}");
        }
    }

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
        let shown = detail(&group, &names, &look).unwrap().to_string();
        for part in [
            "set by ams: voice, latency, 500 ms, 1.5 Mbit/s",
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
}
