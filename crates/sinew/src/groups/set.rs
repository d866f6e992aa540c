//! `sinew group set`: what the user gives is set, and the rest stays as the asked node has set it before.

use super::named::set_groups;
use super::{At, INDENT, carried, permitted, reasons};
use crate::control::Control;
use crate::failure::Outcome;
use crate::names::Names;
use crate::quantity;
use crate::service::{self, Service};
use crate::show::list;
use crate::table::Page;
use crate::terminal;
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, ValueEnum};
use client::{RouteBy, Routing};
use serde_json::{Value, json};
use wire::groups::Ways;

/// The word that takes an earlier value back.
const DEFAULT: &str = "default";

/// Arguments of `group set`.
#[derive(Debug, Args)]
pub struct SetGroup {
    /// The group, a range of groups like 239.192.0.0/14, or a group with its source, such as
    /// 232.1.1.1@10.0.0.5; 232.0.0.0/8 for all source-specific groups
    #[arg(value_parser = set_groups)]
    pub group: String,
    /// Rate of all its sources together, such as 10mbit; the source drops the excess
    #[arg(long, value_name = "RATE", value_parser = kbps)]
    pub rate: Option<Value>,
    /// Deadline of its packets, such as 500ms
    #[arg(long, value_name = "TIME", value_parser = millis)]
    pub deadline: Option<Value>,
    /// The service that its packets need
    #[arg(long, alias = "link", value_parser = services())]
    pub service: Option<String>,
    /// The metric for the paths of its tree
    #[arg(long = "metric", alias = "routing", value_name = "METRIC", value_parser = words(metrics()))]
    pub routing: Option<String>,
    /// Its priority, 0 to 7
    #[arg(long, value_parser = priority)]
    pub priority: Option<Value>,
    /// How its tree is built: link-state (shortest paths from each source) or scribe (one shared tree,
    /// for very many groups)
    #[arg(long, value_parser = words(["link-state", "scribe"]))]
    pub tree: Option<String>,
    /// Ways for its packets to each member: 1, 2 (as disjoint as the network allows: a node or link of
    /// one can fail without packet loss), or targeted (a second way only to members that the first one
    /// reaches through links with losses); auto, the default: targeted for real-time packets with a
    /// deadline
    #[arg(long, value_parser = words(Ways::ALL.map(Ways::label)))]
    pub ways: Option<String>,
    /// How packets are delivered to all members: as-it-comes, in-order, or as-sent (in order and at the
    /// sender's pace); default: as each member requests
    #[arg(long, value_parser = words(["as-it-comes", "in-order", "as-sent"]))]
    pub delivery: Option<String>,
    /// With as-sent: deliver packets this long after they were sent, such as 300ms; default: as late as
    /// repairs need
    #[arg(long, value_name = "TIME", value_parser = millis)]
    pub release: Option<Value>,
    /// Share of the packets that may stay lost on a link, such as 0.01%; default: as each node is set
    #[arg(long, value_name = "SHARE", value_parser = target)]
    pub target: Option<Value>,
    /// Repair packets at most, as a share of the packets: 50%, or 0 for none; default: as each node is set
    #[arg(long, value_name = "SHARE", value_parser = repair)]
    pub repair: Option<Value>,
    /// Nodes that may send: names such as ams or *-cam, addresses, and tags and domains of
    /// certificates such as tag:studio or @example.com; '*' for all
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

/// Reads a value, or the word that takes an earlier value back.
fn given<T: Into<Value>>(
    text: &str,
    read: impl FnOnce(&str) -> Result<T, String>,
) -> Result<Value, String> {
    match text {
        DEFAULT => Ok(DEFAULT.into()),
        _ => read(text).map(Into::into),
    }
}

fn kbps(text: &str) -> Result<Value, String> {
    given(text, |text| {
        let kbps = quantity::rate(text)?.div_ceil(1_000);
        u32::try_from(kbps).map_err(|error| error.to_string())
    })
}

fn millis(text: &str) -> Result<Value, String> {
    given(text, |text| {
        let ms = u16::try_from(quantity::span(text)?.as_millis());
        let ms = ms.map_err(|_| "a deadline or release time is at most 65 s".to_owned())?;
        Ok(ms.max(1))
    })
}

fn priority(text: &str) -> Result<Value, String> {
    given(text, |text| {
        let priority = text.parse::<u8>().ok().filter(|number| *number <= 7);
        priority.ok_or_else(|| "write 0 to 7, or default".to_owned())
    })
}

fn target(text: &str) -> Result<Value, String> {
    given(text, service::target)
}

fn repair(text: &str) -> Result<Value, String> {
    given(text, service::repair)
}

fn metrics() -> Vec<&'static str> {
    let by_table = RouteBy::ALL.into_iter().filter(|by| match by {
        RouteBy::Table(routing) => *routing != Routing::Width,
        RouteBy::Stamp(_) => false,
    });
    by_table.map(RouteBy::label).collect()
}

fn words(known: impl IntoIterator<Item = &'static str>) -> PossibleValuesParser {
    known
        .into_iter()
        .chain([DEFAULT])
        .collect::<Vec<_>>()
        .into()
}

fn services() -> PossibleValuesParser {
    let services = Service::value_variants().iter();
    let services = services.filter_map(Service::to_possible_value);
    let default = PossibleValue::new(DEFAULT).help("What is set without this option: voice");
    services.chain([default]).collect::<Vec<_>>().into()
}

/// Returns the request to the node.
fn question(args: &SetGroup) -> Value {
    let mut question = json!({
        "cmd": "group_set", "group": args.group, "force": args.force,
    });
    let link = args
        .service
        .as_deref()
        .map(|word| match Service::from_str(word, false) {
            Ok(service) => service.link().label(),
            Err(_) => DEFAULT,
        });
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
    for (key, value) in [
        ("rate_kbps", &args.rate),
        ("deadline_ms", &args.deadline),
        ("release_ms", &args.release),
        ("priority", &args.priority),
        ("target", &args.target),
        ("repair", &args.repair),
    ] {
        if let Some(value) = value {
            question[key] = value.clone();
        }
    }
    for (key, nodes) in [("send", &args.send), ("receive", &args.receive)] {
        if let Some(nodes) = nodes {
            question[key] = json!(nodes);
        }
    }
    question
}

pub(super) fn set(args: &SetGroup) -> Outcome {
    let mut control = Control::find(args.at.node.as_deref())?;
    let answer = control.ask(&question(args))?;
    if args.at.json {
        return terminal::json(&answer);
    }
    let names = Names::of(&control.status()?);
    let lines = told(&args.group, &answer, &names);
    let page = Page::wrapped(&lines.join("\n"), &terminal::look(), INDENT);
    terminal::line(page.to_string().trim_end())
}

/// Describes the node's answer: what it has noted, and what it has set.
fn told(group: &str, answer: &Value, names: &Names) -> Vec<String> {
    let mut lines = vec![format!("{group}: admitted")];
    lines.extend(reasons(&answer["admission"]));
    if !answer["setting"].is_null() {
        lines.push(format!("set here: {}", carried(&answer["setting"])));
    }
    let permit = &answer["permit"];
    if !permit.is_null() {
        lines.push(permitted(permit, names));
    } else if list(&answer["permits"]).is_empty() && answer.get("permit").is_some() {
        lines.push("this node limits neither senders nor receivers".to_owned());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cli;
    use clap::Parser;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        set: SetGroup,
    }

    fn asked(words: &str) -> Value {
        let all = ["set", "239.1.1.1"]
            .into_iter()
            .chain(words.split_whitespace());
        question(&Alone::try_parse_from(all).unwrap().set)
    }

    #[test]
    fn only_what_is_given_is_asked_for() {
        let plain = json!({"cmd": "group_set", "group": "239.1.1.1", "force": false});
        assert_eq!(asked(""), plain);
        let mut one = plain.clone();
        one["ways"] = "2".into();
        assert_eq!(asked("--ways 2"), one);
        let all = asked(
            "--rate 12mbit --deadline 500ms --service bulk --metric hops --priority 6 --tree scribe \
             --delivery as-sent --release 300ms --target 0.01% --repair 100% --send ams,tag:cam",
        );
        for (key, value) in [
            ("rate_kbps", json!(12_000)),
            ("deadline_ms", json!(500)),
            ("link", json!("reliable")),
            ("routing", json!("hops")),
            ("priority", json!(6)),
            ("tree", json!("scribe")),
            ("delivery", json!("as-sent")),
            ("release_ms", json!(300)),
            ("target", json!(0.0001)),
            ("repair", json!(1.0)),
            ("send", json!(["ams", "tag:cam"])),
        ] {
            assert_eq!(all[key], value, "{key}");
        }
    }

    #[test]
    fn each_value_can_be_taken_back() {
        for (option, key) in [
            ("rate", "rate_kbps"),
            ("deadline", "deadline_ms"),
            ("service", "link"),
            ("metric", "routing"),
            ("priority", "priority"),
            ("tree", "tree"),
            ("ways", "ways"),
            ("delivery", "delivery"),
            ("release", "release_ms"),
            ("target", "target"),
            ("repair", "repair"),
        ] {
            assert_eq!(
                asked(&format!("--{option} default"))[key],
                "default",
                "{option}"
            );
        }
        for wrong in [
            "--rate x",
            "--priority 8",
            "--ways 3",
            "--deadline 66s",
            "--target 9%",
        ] {
            let words = format!("sinew group set 239.1.1.1 {wrong}");
            assert!(Cli::try_parse_from(words.split(' ')).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_answer_says_what_is_in_force_now() {
        let answer = json!({
            "admission": {"admitted": true, "refusals": [], "notes": ["no node is called nosuch now"]},
            "setting": {"link": "real-time", "routing": "expected-latency", "priority": 4, "deadline_ms": 500,
                        "rate_kbps": 12_000, "ways": 2, "asked_ways": "2", "target_pct": 0.01},
            "permit": {"said_by": "10.7.0.1", "group": "239.1.1.1", "send": ["nosuch"], "receive": null},
        });
        assert_eq!(
            told("239.1.1.1", &answer, &Names::default()),
            [
                "239.1.1.1: admitted",
                "  note: no node is called nosuch now",
                "set here: real-time, 500 ms, 12 Mbit/s, two ways, at most 0.01 % lost",
                "as 10.7.0.1 says of 239.1.1.1: nosuch may send, all may receive",
            ]
        );
    }
}
