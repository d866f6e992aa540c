//! `sinew groups`, `sinew group show | set | clear`: multicast and anycast groups, their trees, and
//! what each receiver gets.

use crate::control::Control;
use crate::date::span;
use crate::failure::{Failure, Outcome};
use crate::names::Names;
use crate::show::{Show, list, text};
use crate::terminal::{self, Align, Table};
use base::NodeAddr;
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use client::{LinkProtocol, RouteBy, Routing};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

/// The subcommands of `sinew group`.
#[derive(Debug, Subcommand)]
pub enum Group {
    /// Show a group: its tree, its members, and what each receiver has got
    #[command(after_help = "\
What the receivers got is known at the source's node, which they report to every two seconds.

Example:
  sinew group show 239.1.1.1 --node net/ams --watch")]
    Show(ShowGroup),
    /// Say how a group is to be carried, for the whole network: asked of the source's node
    #[command(after_help = "\
The answer is no, with the reasons, when a link of the tree has not enough capacity left or a member
is too far away. What is sent above the rate is dropped at the source.

Examples:
  sinew group set 239.1.1.1 --rate 12mbit --deadline 500ms --node net/ams
  sinew group set 239.192.0.0/14 --tree scribe")]
    Set(SetGroup),
    /// Take back what this node has said of a group
    #[command(after_help = "Example:\n  sinew group clear 239.1.1.1 --node net/ams")]
    Clear(ClearGroup),
}

/// Arguments of `group show`.
#[derive(Debug, Args)]
pub struct ShowGroup {
    /// The group
    pub group: NodeAddr,
    #[command(flatten)]
    show: Show,
}

/// Arguments of `group set`.
#[derive(Debug, Args)]
pub struct SetGroup {
    /// The group, or a range of groups like 239.192.0.0/14
    pub group: String,
    /// What its sources send together, like 10mbit; more is dropped at the source
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub rate: Option<u64>,
    /// How soon its packets have to be there, like 500ms
    #[arg(long, value_name = "TIME", value_parser = span_word)]
    pub deadline: Option<base::Duration>,
    /// What is done about losses on each hop
    #[arg(long, value_parser = PossibleValuesParser::new(LinkProtocol::ALL.map(LinkProtocol::label)))]
    pub link: Option<String>,
    /// The metric that makes its tree short
    #[arg(long, value_parser = PossibleValuesParser::new(metrics()))]
    pub routing: Option<String>,
    /// Its priority
    #[arg(long, value_parser = clap::value_parser!(u8).range(0..=7))]
    pub priority: Option<u8>,
    /// Who builds its tree: link-state (shortest paths from each source) or scribe (one shared tree,
    /// for very many groups)
    #[arg(long, value_parser = PossibleValuesParser::new(["link-state", "scribe"]))]
    pub tree: Option<String>,
    /// Set it though it does not fit
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    at: At,
}

/// Arguments of `group clear`.
#[derive(Debug, Args)]
pub struct ClearGroup {
    /// The group, or a range of groups
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

fn span_word(word: &str) -> Result<base::Duration, String> {
    base::impair::span(word).ok_or_else(|| "write a time like 500ms".to_owned())
}

fn rate(word: &str) -> Result<u64, String> {
    base::impair::rate(word).ok_or_else(|| "write a rate like 10mbit".to_owned())
}

/// Does what the command line asks.
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

/// `sinew groups`.
pub fn show(args: &Show) -> Outcome {
    let mut control = Control::find(args.node.as_deref())?;
    let mut before = Before::default();
    terminal::show(args.watch, || {
        let answer = control.ask(&json!({"cmd": "groups"}))?;
        if args.json {
            return Ok(answer["groups"].to_string());
        }
        let names = Names::of(&control.status()?);
        Ok(page(&answer["groups"], &names, &mut before))
    })
}

fn show_group(args: &ShowGroup) -> Outcome {
    let mut control = Control::find(args.show.node.as_deref())?;
    let question = json!({"cmd": "groups", "group": args.group.to_string()});
    let mut before = Before::default();
    terminal::show(args.show.watch, || {
        let answer = control.ask(&question)?;
        let Some(group) = list(&answer["groups"]).first() else {
            return Err(Failure::failed(format_args!(
                "{}: nobody has joined it, and nobody sends to it, as far as this node knows",
                args.group
            )));
        };
        if args.show.json {
            return Ok(group.to_string());
        }
        let names = Names::of(&control.status()?);
        let table = page(&answer["groups"], &names, &mut before);
        Ok(format!("{table}\n{}", detail(group, &names)))
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
    if let Some(deadline) = args.deadline {
        let most = "a deadline is at most 65 s";
        let ms = u16::try_from(deadline.as_millis()).map_err(|_| Failure::misused(most))?;
        question["deadline_ms"] = ms.max(1).into();
    }
    for (key, word) in [
        ("link", &args.link),
        ("routing", &args.routing),
        ("tree", &args.tree),
    ] {
        if let Some(word) = word {
            question[key] = word.clone().into();
        }
    }
    if let Some(priority) = args.priority {
        question["priority"] = priority.into();
    }
    let answer = Control::find(args.at.node.as_deref())?.ask(&question)?;
    if args.at.json {
        return terminal::json(&answer);
    }
    let admission = &answer["admission"];
    let mut lines = vec![format!("{}: yes", args.group)];
    lines.extend(reasons(admission));
    terminal::line(&lines.join("\n"))
}

/// What an admission says, line by line.
fn reasons(admission: &Value) -> Vec<String> {
    let refusals = list(&admission["refusals"]).iter();
    let refusals = refusals.map(|why| format!("  does not fit: {}", text(why)));
    let notes = list(&admission["notes"]).iter();
    let notes = notes.map(|note| format!("  note: {}", text(note)));
    refusals.chain(notes).collect()
}

/// Bytes of each source at the time of the last page.
struct Before {
    started: Instant,
    bytes: BTreeMap<String, (u64, f64)>,
}

impl Default for Before {
    fn default() -> Before {
        Before {
            started: Instant::now(),
            bytes: BTreeMap::new(),
        }
    }
}

/// One row per group and source; the rate is since the last time.
fn page(groups: &Value, names: &Names, before: &mut Before) -> String {
    let (started, before) = (before.started, &mut before.bytes);
    let mut table = Table::new(&[
        ("GROUP", Align::Left),
        ("TREE", Align::Left),
        ("MEMBERS", Align::Right),
        ("HERE", Align::Right),
        ("SOURCE", Align::Left),
        ("FROM", Align::Left),
        ("TO", Align::Left),
        ("PACKETS", Align::Right),
        ("RATE", Align::Right),
        ("RECEIVERS", Align::Right),
        ("LOST", Align::Right),
        ("WORST", Align::Left),
    ]);
    let now = started.elapsed().as_secs_f64();
    for group in list(groups) {
        let members = list(&group["members"]);
        let members = match text(&group["tree"]) {
            "scribe" => "-".to_owned(),
            _ => members.len().to_string(),
        };
        let head = [
            text(&group["group"]).to_owned(),
            text(&group["tree"]).to_owned(),
            members,
            group["clients"].to_string(),
        ];
        let sources = list(&group["sources"]);
        if sources.is_empty() {
            let head = head.clone();
            let rest = ["-", "-", "-", "0", "-", "-", "-", "-"].map(str::to_owned);
            table.row(head.into_iter().chain(rest));
        }
        for source in sources {
            let head = head.clone();
            let key = format!("{} {} {}", head[0], source["source"], source["metric"]);
            let bytes = source["bytes"].as_u64().unwrap_or(0);
            let rate = before.insert(key, (bytes, now)).map(|(then, at)| {
                let bps = bytes.saturating_sub(then) as f64 * 8.0 / (now - at).max(1e-3);
                format!("{:.2} Mbit/s", bps / 1e6)
            });
            let to: Vec<&str> = list(&source["branches"])
                .iter()
                .map(|peer| names.name(text(peer)))
                .collect();
            let worst = list(&source["receptions"]).first();
            let rest = [
                names.name(text(&source["source"])).to_owned(),
                source["upstream"]
                    .as_str()
                    .map_or("-", |peer| names.name(peer))
                    .to_owned(),
                if to.is_empty() {
                    "-".to_owned()
                } else {
                    to.join(",")
                },
                source["packets"].to_string(),
                rate.unwrap_or_else(|| "-".to_owned()),
                source["receivers"].to_string(),
                worst.map_or("-".into(), |one| percent(&one["lost_after_pct"])),
                worst.map_or("-".into(), |one| names.name(text(&one["node"])).to_owned()),
            ];
            table.row(head.into_iter().chain(rest));
        }
    }
    match table.is_empty() {
        true => "no groups: nobody has joined one, and nobody sends to one".to_owned(),
        false => table.to_string(),
    }
}

fn percent(value: &Value) -> String {
    format!("{:.3} %", value.as_f64().unwrap_or(0.0))
}

/// All about one group.
fn detail(group: &Value, names: &Names) -> String {
    let mut lines = Vec::new();
    let setting = &group["setting"];
    if !setting.is_null() {
        let part = |key: &str, unit: &str| match setting[key].as_u64() {
            Some(number) => format!(", {number} {unit}"),
            None => String::new(),
        };
        lines.push(format!(
            "set by {}: {}, {}, priority {}{}{}",
            names.name(text(&setting["set_by"])),
            text(&setting["link"]),
            text(&setting["routing"]),
            setting["priority"],
            part("deadline_ms", "ms"),
            part("rate_kbps", "kbit/s"),
        ));
        lines.extend(reasons(&group["admission"]));
    }
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
        draw(from, &source["links"], names, 1, &mut lines);
        let receptions = list(&source["receptions"]);
        if receptions.is_empty() {
            continue;
        }
        let mut table = Table::new(&[
            ("RECEIVER", Align::Left),
            ("RECEIVED", Align::Right),
            ("RECOVERED", Align::Right),
            ("LOST", Align::Right),
            ("LOSS BEFORE", Align::Right),
            ("LOSS AFTER", Align::Right),
        ]);
        for one in receptions {
            table.row([
                names.both(text(&one["node"])),
                one["received"].to_string(),
                one["recovered"].to_string(),
                one["lost"].to_string(),
                percent(&one["lost_before_pct"]),
                percent(&one["lost_after_pct"]),
            ]);
        }
        lines.push(table.to_string());
        let all = source["receivers"].as_u64().unwrap_or(0) as usize;
        if all > receptions.len() {
            lines.push(format!("the worst {} of {all} receivers", receptions.len()));
        }
    }
    lines.join("\n")
}

/// Draws the tree below a node, as deep as it is; bounded, whatever a node tells.
fn draw(node: &str, links: &Value, names: &Names, depth: usize, lines: &mut Vec<String>) {
    if depth > 64 || lines.len() > 4_096 {
        return;
    }
    for link in list(links) {
        if text(&link[0]) == node {
            let to = text(&link[1]);
            lines.push(format!("{}└ {}", "  ".repeat(depth), names.both(to)));
            draw(to, links, names, depth + 1, lines);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_shown_with_its_tree_and_what_each_receiver_got() {
        let names = Names::of(&json!({
            "snapshot": {"name": "ams", "address": "10.7.0.1", "links": []},
            "nodes": [{"name": "fra", "address": "10.7.0.2"}, {"name": "par", "address": "10.7.0.3"}],
        }));
        let group = json!({
            "group": "239.1.1.1", "kind": "multicast", "tree": "link-state",
            "members": ["10.7.0.3"], "clients": 0, "admission": {"notes": ["a note"], "refusals": []},
            "setting": {"set_by": "10.7.0.1", "link": "real-time", "routing": "latency",
                        "priority": 4, "deadline_ms": 500, "rate_kbps": null},
            "sources": [{
                "source": "10.7.0.1", "metric": "latency", "upstream": null,
                "branches": ["10.7.0.2"], "packets": 1000, "bytes": 200_000, "idle_s": 0.1,
                "receivers": 1,
                "receptions": [{"node": "10.7.0.3", "received": 999, "recovered": 9, "lost": 1,
                                "lost_before_pct": 1.0, "lost_after_pct": 0.1}],
                "links": [["10.7.0.1", "10.7.0.2"], ["10.7.0.2", "10.7.0.3"]],
            }],
        });
        let mut before = Before::default();
        let table = page(&json!([group]), &names, &mut before);
        assert!(
            table.contains("239.1.1.1  link-state        1     0  ams"),
            "{table}"
        );
        let shown = detail(&group, &names);
        for part in [
            "set by ams: real-time, latency, priority 4, 500 ms",
            "note: a note",
            "  └ fra 10.7.0.2\n    └ par 10.7.0.3",
            "par 10.7.0.3       999          9     1      1.000 %     0.100 %",
        ] {
            assert!(shown.contains(part), "{part:?} in {shown}");
        }
    }
}
