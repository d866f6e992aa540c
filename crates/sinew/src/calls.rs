//! `sinew calls` and `sinew why call:ID`: the calls of the SIP gateway beside a node, and where in
//! the overlay one of them loses what.

use crate::control::{self, Control};
use crate::failure::{Failure, Outcome};
use crate::gateway::station::SUFFIX;
use crate::names::Names;
use crate::show::{Show, list, text};
use crate::terminal::{self, Align, Table};
use lab::explain::{self, Asked};
use overlay::snapshot::{KnownLink, NetworkSnapshot};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;

/// The directions of a call: their key, and for people.
const DIRECTIONS: [(&str, &str); 2] = [
    ("from_caller", "caller to callee"),
    ("from_callee", "callee to caller"),
];

/// Shows the calls.
pub fn run(args: &Show) -> Outcome {
    terminal::show(args.watch, || {
        let answer = ask(args.node.as_deref())?;
        Ok(match args.json {
            true => answer.to_string(),
            false => page(&answer),
        })
    })
}

/// What the gateway beside the node tells.
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

fn page(answer: &Value) -> String {
    let mut table = Table::new(&[
        ("CALL", Align::Left),
        ("FROM", Align::Left),
        ("TO", Align::Left),
        ("LASTS", Align::Right),
        ("MEDIA", Align::Left),
        ("MEASURED", Align::Left),
        ("LOSS BEFORE", Align::Right),
        ("LOSS AFTER", Align::Right),
        ("LATE", Align::Right),
        ("JITTER", Align::Right),
        ("BUDGET", Align::Right),
        ("R", Align::Right),
        ("MOS", Align::Right),
    ]);
    for call in list(&answer["calls"]) {
        let mut head = [
            text(&call["call"]).to_owned(),
            text(&call["from"]).to_owned(),
            text(&call["to"]).to_owned(),
            format!("{:.0} s", number(&call["lasted_s"]).unwrap_or_default()),
            text(&call["media"]).to_owned(),
        ];
        let streams = list(&call["streams"]);
        let sides = streams
            .iter()
            .flat_map(|stream| DIRECTIONS.map(|(key, _)| (key, &stream[key])));
        let mut rows: Vec<Vec<String>> = sides
            .filter(|(_, side)| number(&side["packets"]).is_some_and(|count| count > 0.0))
            .map(|(key, side)| heard(key, side))
            .collect();
        if rows.is_empty() {
            rows.push(vec!["-".to_owned(); 8]);
        }
        for row in rows {
            table.row(head.iter().cloned().chain(row));
            head.iter_mut().for_each(String::clear);
        }
    }
    match table.is_empty() {
        true => "no calls now".to_owned(),
        false => table.to_string(),
    }
}

fn heard(key: &str, side: &Value) -> Vec<String> {
    let quality = &side["quality"];
    let measured = match (key, text(&side["over"])) {
        ("from_caller", "overlay") => "from caller, after the overlay",
        (_, "overlay") => "from callee, after the overlay",
        ("from_caller", _) => "from caller, as it came",
        _ => "from callee, as it came",
    };
    let percent =
        |key: &str| or_dash(number(&quality[key]).map(|share| format!("{:.2} %", 1e2 * share)));
    let late = number(&quality["late"])
        .zip(number(&quality["expected"]))
        .map(|(late, expected)| format!("{:.2} %", 1e2 * late / expected.max(1.0)));
    vec![
        measured.to_owned(),
        percent("loss_before_recovery"),
        percent("loss"),
        or_dash(late),
        or_dash(number(&quality["jitter_ms"]).map(|ms| format!("{ms:.1} ms"))),
        or_dash(number(&quality["budget_used_mean"]).map(|share| format!("{:.0} %", 1e2 * share))),
        or_dash(number(&quality["r_factor"]).map(|r| format!("{r:.1}"))),
        or_dash(number(&quality["mos"]).map(|mos| format!("{mos:.2}"))),
    ]
}

/// Tells of one call: each direction, and each hop of its way.
pub fn why(id: &str, node: Option<&Path>, as_json: bool) -> Outcome {
    let answer = ask(node)?;
    let is_it = |call: &&Value| call["call"] == id || call["call_id"] == id;
    let call = list(&answer["calls"]).iter().find(is_it).ok_or_else(|| {
        Failure::failed(format_args!("no call {id} now: `sinew calls` lists them; the record of one that has ended is in the gateway's --records"))
    })?;
    let mut control = Control::find(node)?;
    let names = Names::of(&control.status()?);
    let own = text(&answer["node"]);
    let ways = match call["peer"].as_str() {
        Some(peer) => ways(&mut control, own, peer)?,
        None => Vec::new(),
    };
    if as_json {
        let ways: Vec<Value> = ways.iter().map(Way::json).collect();
        return terminal::json(&json!({"call": call, "node": own, "ways": ways}));
    }
    terminal::line(told(call, &ways, &names).trim_end())
}

/// The way of one direction across the overlay.
struct Way {
    hops: Vec<KnownLink>,
    reason: String,
}

impl Way {
    fn json(&self) -> Value {
        let hops = self.hops.iter().map(|hop| {
            let loss = loss(hop);
            json!({
                "from": hop.from, "to": hop.to, "latency_ms": f64::from(hop.latency_us) / 1e3,
                "loss_before_recovery": loss, "loss_expected_after": residual(loss),
            })
        });
        json!({"hops": hops.collect::<Vec<_>>(), "reason": self.reason})
    }
}

fn loss(link: &KnownLink) -> f64 {
    f64::from(link.loss) / 65_536.0
}

/// What one round of requests leaves of independent losses [Amir06 §IV-A]: the packet and its
/// retransmission are lost, or the packet and the request.
fn residual(loss: f64) -> f64 {
    loss * (1.0 - (1.0 - loss) * (1.0 - loss))
}

/// From here to the peer, and back.
fn ways(control: &mut Control, own: &str, peer: &str) -> Result<Vec<Way>, Failure> {
    let network = control.ask(&json!({"cmd": "network"}))?;
    let network: NetworkSnapshot = serde_json::from_value(network).map_err(Failure::failed)?;
    let view = crate::why::ask(control)?;
    let asked = Asked::default();
    let mut ways = Vec::new();
    for (from, to) in [(own, peer), (peer, own)] {
        // Without a way just now there is nothing to tell of it.
        let Ok(why) = explain::why(&view, from, to, &asked) else {
            continue;
        };
        let path = why.choice.chosen.first().map(|path| path.addresses.clone());
        let path = path.unwrap_or_default();
        let hops = path.windows(2).filter_map(|pair| {
            let is_it = |link: &&KnownLink| link.from == pair[0] && link.to == pair[1];
            network.links.iter().find(is_it).cloned()
        });
        ways.push(Way {
            hops: hops.collect(),
            reason: why.choice.reason,
        });
    }
    Ok(ways)
}

fn told(call: &Value, ways: &[Way], names: &Names) -> String {
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
    for stream in list(&call["streams"]) {
        for (key, direction) in DIRECTIONS {
            let side = &stream[key];
            let by = match text(&side["over"]) {
                "overlay" => "measured where it left the overlay",
                _ => "measured where it came in; the other gateway knows the rest",
            };
            let cells = heard(key, side);
            let _ = writeln!(
                out,
                "{direction} ({by}): loss {} before recovery, {} after, late {}, jitter {}, budget \
                 used {}, R {}, MOS {}",
                cells[1], cells[2], cells[3], cells[4], cells[5], cells[6], cells[7]
            );
        }
    }
    for way in ways {
        let _ = writeln!(out, "the way now: {}", way.reason);
        for hop in &way.hops {
            let loss = loss(hop);
            let _ = writeln!(
                out,
                "  {} -> {}: {:.1} ms, loss {:.2} %, after one recovery {:.3} % is to be expected",
                names.name(&hop.from),
                names.name(&hop.to),
                f64::from(hop.latency_us) / 1e3,
                1e2 * loss,
                1e2 * residual(loss)
            );
        }
        let worst = way
            .hops
            .iter()
            .max_by_key(|hop| hop.loss)
            .filter(|hop| hop.loss > 0);
        if let Some(worst) = worst.filter(|_| way.hops.len() > 1) {
            let _ = writeln!(
                out,
                "  most is lost between {} and {}",
                names.name(&worst.from),
                names.name(&worst.to)
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
