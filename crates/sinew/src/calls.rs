//! `sinew calls` and `sinew why call:ID`: the calls of the SIP gateway beside a node, and where in the overlay one of
//! these calls loses packets.

use crate::control::{self, Control};
use crate::date::span;
use crate::failure::{Failure, Outcome};
use crate::gateway::station::SUFFIX;
use crate::show::{Show, list, text};
use crate::table::{Cell, Column, Look, Page, Table, Tone, natural};
use crate::terminal;
use crate::watch;
use base::Duration;
use client::Aim;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;
use tools::explain::{self, Asked, Diverted, Help, LinkNumbers, LinkProtection, View};

/// The directions of a call: their key, and their name for users.
const DIRECTIONS: [(&str, &str); 2] = [
    ("from_caller", "caller to callee"),
    ("from_callee", "callee to caller"),
];

/// Shows the calls.
pub fn run(args: &Show) -> Outcome {
    // With `--watch`, the command keeps asking the same node, even if the node is away for a while.
    let node = control::socket(args.node.as_deref())?;
    watch::show(args, "calls", |look| {
        let answer = ask(Some(&node))?;
        match args.json {
            true => Ok(Page::text(&answer.to_string())),
            false => page(&answer, look),
        }
    })
}

/// Asks the gateway beside the node for its calls.
fn ask(node: Option<&Path>) -> Result<Value, Failure> {
    let path = control::socket(node)?.with_extension(SUFFIX);
    let mut gateway = Control::connect(&path).map_err(|_| {
        Failure::failed(format_args!(
            "no gateway at {}: start one with `sinew gateway sip --node {}`",
            path.display(),
            path.with_extension(control::SUFFIX).display()
        ))
    })?;
    gateway.ask(&json!({"cmd": "calls"}))
}

/// The indent of the further lines of a sentence that is longer than a line.
const INDENT: usize = 4;

/// A direction of a call: its key, where it was measured, and the result.
struct Heard<'a> {
    /// The key: from the caller, or from the callee.
    key: &'static str,
    at: &'static str,
    quality: &'a Value,
}

/// Returns the quality that the phone at the end of each direction gets. The gateway at that end measures it: this
/// gateway, or the one at the other site.
fn heard(stream: &Value) -> [Heard<'_>; 2] {
    DIRECTIONS.map(|(key, _)| {
        let (here, far) = (&stream[key], &stream["far"][key]);
        let (at, quality) = match (text(&here["over"]), far["quality"].is_object()) {
            ("overlay", _) => ("here", &here["quality"]),
            (_, true) => ("there", &far["quality"]),
            _ => ("unknown", &Value::Null),
        };
        Heard { key, at, quality }
    })
}

/// Above this loss, speech suffers [Amir06 Fig. 1].
const LOSS_WARN: f64 = 0.005;
/// Above this loss, speech breaks up.
const LOSS_BAD: f64 = 0.02;
/// Below this R many users are dissatisfied [G.107 table B.1].
const R_WARN: f64 = 70.0;
/// Below this R nearly all users are dissatisfied.
const R_BAD: f64 = 60.0;

fn page(answer: &Value, look: &Look) -> Result<Page, Failure> {
    let mut table = Table::new(&[
        Column::words("CALL", 0),
        Column::words("FROM", 3),
        Column::words("TO", 2),
        Column::numbers("LASTS", 5),
        Column::words("MEDIA", 4),
        Column::words("DIRECTION", 0),
        Column::words("MEASURED", 6),
        Column::numbers("LOSS BEFORE %", 0),
        Column::numbers("AFTER %", 0),
        Column::numbers("LATE %", 1),
        Column::numbers("JITTER ms", 3),
        Column::numbers("BUDGET USED %", 6),
        Column::numbers("R", 5),
        Column::numbers("MOS", 0),
    ]);
    let mut calls: Vec<&Value> = list(&answer["calls"]).iter().collect();
    calls.sort_by(|a, b| natural(text(&a["call"]), text(&b["call"])));
    for call in calls {
        let head = [
            text(&call["call"]).into(),
            text(&call["from"]).into(),
            text(&call["to"]).into(),
            span(number(&call["lasted_s"]).unwrap_or_default()).into(),
            text(&call["media"]).into(),
        ];
        let sides = list(&call["streams"]).iter().flat_map(heard);
        let mut rows: Vec<Vec<Cell>> = sides.map(|side| cells(&side)).collect();
        if rows.is_empty() {
            rows.push(vec![Cell::nothing(); 9]);
        }
        for row in rows {
            table.row(head.iter().cloned().chain(row));
        }
    }
    table.page(look, "no calls now")
}

fn cells(side: &Heard<'_>) -> Vec<Cell> {
    let quality = side.quality;
    let share = |key: &str| number(&quality[key]);
    let percent = |share: Option<f64>| Cell::number(share.map(|share| 1e2 * share), 2);
    let after = share("loss");
    let mos = number(&quality["mos"]);
    // The rating is bad when it is low, so its sign changes.
    let r_tone = number(&quality["r_factor"]).map(|r| Tone::above(-r, -R_WARN, -R_BAD));
    vec![
        side_word(side.key).into(),
        side.at.into(),
        percent(share("loss_before_recovery")),
        match after {
            Some(loss) => Cell::toned(
                format!("{:.2}", 1e2 * loss),
                Tone::above(loss, LOSS_WARN, LOSS_BAD),
            ),
            None => Cell::nothing(),
        },
        percent(late(quality)),
        Cell::number(number(&quality["jitter_ms"]), 1),
        Cell::number(share("budget_used_mean").map(|share| 1e2 * share), 0),
        Cell::number(number(&quality["r_factor"]), 1),
        match mos {
            Some(mos) => Cell::toned(format!("{mos:.2}"), r_tone.unwrap_or_default()),
            None => Cell::nothing(),
        },
    ]
}

fn side_word(key: &str) -> &'static str {
    match key {
        "from_caller" => "to callee",
        _ => "to caller",
    }
}

/// Returns the share of the packets that came after their deadline.
fn late(quality: &Value) -> Option<f64> {
    let (late, expected) = number(&quality["late"]).zip(number(&quality["expected"]))?;
    Some(late / expected.max(1.0))
}

/// Explains one call: each direction, and each hop of its path.
pub fn why(id: &str, node: Option<&Path>, as_json: bool) -> Outcome {
    let answer = ask(node)?;
    let is_it = |call: &&Value| call["call"] == id || call["call_id"] == id;
    let call = list(&answer["calls"]).iter().find(is_it).ok_or_else(|| {
        Failure::failed(format_args!("no call {id} now: `sinew calls` lists them; the record of one that has ended is in the gateway's --records"))
    })?;
    let mut control = Control::find(node)?;
    let own = text(&answer["node"]);
    let ways = match call["peer"].as_str() {
        Some(peer) => ways(
            &crate::why::ask(&mut control)?,
            (own, peer),
            &asked(&answer),
        ),
        None => Vec::new(),
    };
    if as_json {
        let ways: Vec<Value> = ways.iter().map(Way::json).collect();
        return terminal::json(&json!({"call": call, "node": own, "ways": ways}));
    }
    // Sentences are longer than a line.
    let page = Page::wrapped(&told(call, &ways), &terminal::look(), INDENT);
    terminal::line(page.to_string().trim_end())
}

/// Returns what the gateway asks of its calls' packets: the deadline, the paths, and the loss target and repair limit.
/// Values that the gateway's version does not report are the defaults.
fn asked(answer: &Value) -> Asked {
    let usual = Asked::default();
    let told = answer["deadline_ms"].as_u64().map(Duration::from_millis);
    let class = answer["routing"].as_str().and_then(|by| by.parse().ok());
    let aim = Aim::new(answer["target"].as_f64(), answer["repair"].as_f64());
    Asked {
        class: class.unwrap_or(usual.class),
        deadline: told.unwrap_or(usual.deadline).min(explain::DEADLINE_MAX),
        aim: aim.unwrap_or(usual.aim),
        ..usual
    }
}

/// The path of one direction through the overlay, and the protection of a call on it.
struct Way {
    hops: Vec<Hop>,
    reason: String,
    /// The path that packets take instead, because something on this path swallows them.
    diverted: Option<Diverted>,
    deadline_ms: f64,
    missed_pct: f64,
    protection: Vec<LinkProtection>,
    assumed: String,
    help: Vec<Help>,
}

/// A link of the path: the addresses of its ends, and the numbers that routing uses.
struct Hop {
    ends: [String; 2],
    link: LinkNumbers,
}

impl Way {
    fn json(&self) -> Value {
        let hops = self.hops.iter().map(|Hop { ends, link }| {
            json!({
                "from": ends[0], "to": ends[1], "latency_ms": link.latency_ms,
                "loss_before_recovery": link.loss_pct / 1e2,
                "loss_expected_after": link.plan.left_pct / 1e2,
            })
        });
        json!({
            "hops": hops.collect::<Vec<_>>(), "reason": self.reason, "diverted": self.diverted,
            "deadline_ms": self.deadline_ms, "missed_pct": self.missed_pct,
            "protection": self.protection, "assumed": self.assumed, "help": self.help,
        })
    }
}

/// Returns the paths from here to the peer and back, the first one if packets take several. A direction without a path
/// at the moment is left out.
fn ways(view: &View, (own, peer): (&str, &str), asked: &Asked) -> Vec<Way> {
    let way = |(from, to)| {
        let why = explain::why(view, from, to, asked).ok()?;
        let path = why.choice.chosen.into_iter().next()?;
        let ends = path.addresses.windows(2);
        let ends = ends.map(|pair| [pair[0].clone(), pair[1].clone()]);
        let hops = ends.zip(path.links).map(|(ends, link)| Hop { ends, link });
        Some(Way {
            hops: hops.collect(),
            reason: why.choice.reason,
            diverted: why.diverted,
            deadline_ms: why.deadline_ms,
            missed_pct: path.missed_pct,
            protection: why.protection,
            assumed: why.assumed,
            help: why.help,
        })
    };
    [(own, peer), (peer, own)]
        .into_iter()
        .filter_map(way)
        .collect()
}

fn told(call: &Value, ways: &[Way]) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "call {} from {} to {}, {:.0} s, media {}",
        text(&call["call"]),
        text(&call["from"]),
        text(&call["to"]),
        number(&call["lasted_s"]).unwrap_or_default(),
        text(&call["media"])
    );
    for side in list(&call["streams"]).iter().flat_map(heard) {
        let direction = DIRECTIONS.iter().find(|(key, _)| *key == side.key);
        let direction = direction.map_or("", |(_, words)| words);
        let quality = side.quality;
        if quality.is_null() {
            let _ = writeln!(
                out,
                "{direction}: not known: the gateway at the other end has not told what it hears"
            );
            continue;
        }
        let percent =
            |share: Option<f64>| or_dash(share.map(|share| format!("{:.2} %", 1e2 * share)));
        let digits = |key: &str, digits: usize| {
            or_dash(number(&quality[key]).map(|value| format!("{value:.digits$}")))
        };
        let _ = writeln!(
            out,
            "{direction}: loss {} before recovery, {} after; late {}, jitter {} ms, {} of the \
             deadline used; R {}, MOS {}",
            percent(number(&quality["loss_before_recovery"])),
            percent(number(&quality["loss"])),
            percent(late(quality)),
            digits("jitter_ms", 1),
            or_dash(number(&quality["budget_used_mean"]).map(|s| format!("{:.0} %", 1e2 * s))),
            digits("r_factor", 1),
            digits("mos", 2),
        );
    }
    for way in ways {
        let by = match &way.diverted {
            Some(diverted) => {
                let _ = writeln!(out, "path now: {diverted}");
                "path by table"
            }
            None => "path now",
        };
        let _ = writeln!(out, "{by}: {}", way.reason);
        for Hop { link, .. } in &way.hops {
            let _ = writeln!(
                out,
                "  {} -> {}: {:.1} ms, loss {:.2} %, expected after recovery {:.3} %",
                link.from, link.to, link.latency_ms, link.loss_pct, link.plan.left_pct
            );
        }
        let links = way.hops.iter().map(|hop| &hop.link);
        let worst = links.max_by(|a, b| a.loss_pct.total_cmp(&b.loss_pct));
        if let Some(worst) = worst.filter(|link| link.loss_pct > 0.0 && way.hops.len() > 1) {
            let _ = writeln!(
                out,
                "  most is lost between {} and {}",
                worst.from, worst.to
            );
        }
        for link in &way.protection {
            let _ = writeln!(out, "  {link}");
        }
        let words = way.help.iter().map(|help| help.words(way.deadline_ms));
        let words: Vec<String> = words.collect();
        if !words.is_empty() {
            let _ = writeln!(
                out,
                "  {:.3} % will miss the deadline of {} ms: {}",
                way.missed_pct,
                way.deadline_ms,
                words.join("; ")
            );
        }
    }
    out
}

fn number(value: &Value) -> Option<f64> {
    value.as_f64()
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quality(before: f64, after: f64, mos: f64) -> Value {
        json!({"loss_before_recovery": before, "loss": after, "late": 2, "expected": 1000,
               "jitter_ms": 1.25, "budget_used_mean": 0.24, "r_factor": 91.0, "mos": mos})
    }

    fn call(far: Value) -> Value {
        json!({"call": "4c34ba71c312", "call_id": "x@y", "from": "sip:alice@a.example",
               "to": "sip:bob@b.example", "lasted_s": 65.0, "media": "overlay", "streams": [{
            "from_caller": {"over": "udp", "packets": 1000, "quality": quality(0.0, 0.0, 4.35)},
            "from_callee": {"over": "overlay", "packets": 1000,
                            "quality": quality(0.0555, 0.0139, 4.1)},
            "far": far,
        }]})
    }

    fn drawn(call: &Value) -> String {
        let look = Look {
            width: Some(80),
            ..Look::default()
        };
        page(&json!({"calls": [call]}), &look).unwrap().to_string()
    }

    #[test]
    fn a_leg_that_has_not_crossed_the_overlay_is_no_result() {
        let page = drawn(&call(Value::Null));
        assert!(!page.contains("4.35"), "{page}");
        let lines: Vec<&str> = page.lines().collect();
        assert!(
            lines[1].contains("to callee") && lines[1].ends_with('-'),
            "{page}"
        );
        assert!(
            lines[2].contains("to caller") && lines[2].contains("5.55"),
            "{page}"
        );
        assert!(
            lines[2].contains("1.39") && lines[2].ends_with("4.10"),
            "{page}"
        );
        let told = told(&call(Value::Null), &[]);
        assert!(told.contains("caller to callee: not known"), "{told}");
        assert!(
            told.contains("5.55 % before recovery, 1.39 % after"),
            "{told}"
        );
    }

    fn network(latency_us: u32) -> View {
        network_around(latency_us, json!([]))
    }

    fn network_around(latency_us: u32, diverted: Value) -> View {
        let (ams, nyc) = ("10.7.0.1", "10.7.0.2");
        let link = |from: &str, to: &str| json!({"from": from, "to": to, "latency_us": latency_us, "loss": 3_277, "strikes": 5});
        let network = json!({
            "teller": ams, "profile": "modern", "detect_us": 2_000, "late_us": 100_000,
            "protect": "auto",
            "nodes": [{"address": ams, "name": "ams"}, {"address": nyc, "name": "nyc"}],
            "links": [link(ams, nyc), link(nyc, ams)], "holds": [], "diverted": diverted,
            "rule": {"spacing_s": 1.0, "worse_s": 1.0, "worse_unclear_s": 1.0,
                     "better_s": 1.0, "better_unclear_s": 1.0, "better_max_s": 1.0},
        });
        View::new(serde_json::from_value(network).unwrap()).unwrap()
    }

    /// On a long link, requests come too late, and repair leaves hardly any loss. The number is the same as in `why`
    /// and `links`.
    #[test]
    fn the_path_of_a_call_tells_what_repair_leaves_of_its_deadline() {
        let view = network(80_000);
        let asked = asked(&json!({"deadline_ms": 150}));
        let ways = ways(&view, ("10.7.0.1", "10.7.0.2"), &asked);
        let why = explain::why(&view, "ams", "nyc", &asked).unwrap();
        let left = why.choice.chosen[0].links[0].plan.left_pct;
        assert!(left < 0.3, "{left}");
        let told = told(&call(Value::Null), &ways);
        for ends in ["ams -> nyc", "nyc -> ams"] {
            let hop = format!("{ends}: 80.0 ms, loss 5.00 %, expected after recovery {left:.3} %");
            assert!(told.contains(&hop), "{hop}: {told}");
        }
        assert_eq!(ways[0].json()["hops"][0]["loss_expected_after"], left / 1e2);
    }

    #[test]
    fn a_call_that_avoids_a_suspect_is_told_with_its_way() {
        let diverted = json!([{
            "to": "10.7.0.2", "way": ["10.7.0.1", "10.7.0.3", "10.7.0.2"],
            "suspects": [{"node": "10.7.0.1", "link_to": "10.7.0.2", "lost": 0.5, "retry_in_s": 9.0}],
        }]);
        let view = network_around(20_000, diverted);
        let asked = asked(&json!({"deadline_ms": 150}));
        let ways = ways(&view, ("10.7.0.1", "10.7.0.2"), &asked);
        let told = told(&call(Value::Null), &ways);
        let now: Vec<&str> = told
            .lines()
            .filter(|line| line.starts_with("path"))
            .collect();
        let words = "path now: packets take ams-10.7.0.3-nyc instead: the link from ams to nyc swallows 50 % (next try in 9 s)";
        assert_eq!(now[0], words);
        assert!(now[1].starts_with("path by table: "), "{told}");
        assert!(
            now[2].starts_with("path now: least"),
            "the way back: {told}"
        );
        assert_eq!(ways[0].json()["diverted"]["path"][1], "10.7.0.3");
    }

    #[test]
    fn a_deadline_that_cannot_be_met_is_told_with_what_helps() {
        let view = network(80_000);
        let ways = ways(
            &view,
            ("10.7.0.1", "10.7.0.2"),
            &asked(&json!({"deadline_ms": 85})),
        );
        let told = told(&call(Value::Null), &ways);
        assert!(told.contains("will miss the deadline of 85 ms"), "{told}");
        assert!(told.contains("a deadline of "), "{told}");
        let (usual, best) = (asked(&json!({})), asked(&json!({"routing": "best"})));
        assert_eq!(usual.deadline, Asked::default().deadline);
        assert_eq!(usual.class, Asked::default().class);
        assert_eq!(best.class, explain::Class::Best);
    }

    #[test]
    fn the_loss_target_and_the_repair_limit_of_the_gateway_count() {
        let view = network(80_000);
        let with = |answer: Value| {
            let ways = ways(&view, ("10.7.0.1", "10.7.0.2"), &asked(&answer));
            ways.into_iter().next().unwrap().protection.remove(0)
        };
        let usual = with(json!({"deadline_ms": 150, "target": null, "repair": null}));
        let modest = with(json!({"deadline_ms": 150, "target": 0.02}));
        assert_eq!((usual.target_pct, modest.target_pct), (0.05, 2.0));
        assert!(modest.plan.repair_pct < usual.plan.repair_pct, "{modest}");
        let none = with(json!({"deadline_ms": 150, "repair": 0.0}));
        assert_eq!(none.plan.repair_pct, 0.0, "{none}");
    }

    #[test]
    fn what_the_other_gateway_hears_is_the_other_direction() {
        let far = json!({"from_caller": {"over": "overlay", "quality": quality(0.04, 0.001, 4.3)}});
        let page = drawn(&call(far));
        let lines: Vec<&str> = page.lines().collect();
        for part in ["to callee", "4.00", "0.10", "4.30"] {
            assert!(lines[1].contains(part), "{part}: {page}");
        }
        assert!(
            lines.iter().all(|line| line.chars().count() <= 80),
            "{page}"
        );
    }
}
