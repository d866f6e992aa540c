//! `[[flow]]`: from where to where, carried by what, and when packets are sent.

use super::super::table::{Table, Value};
use super::super::{Carrier, FLOWS_MAX, Flow, PACKET_BYTES_MIN};
use super::{Draft, Mistake, TIME, both_ways, time, too_many};
use base::{Duration, impair};
use overlay::node::MAX_PAYLOAD;
use overlay::request::{Delivery, Options};
use overlay::sockets::default_options;
use sim::traffic::{Pattern, Spread, VOICE_BYTES};
use wire::data::{Class, LinkProtocol, Routing, TTL_MAX};
use wire::ipc::RouteBy;

const KEYS: [&str; 24] = [
    "name", "from", "to", "also", "stream", "start", "stop", "count", "pattern", "rate", "packet",
    "on", "off", "shape", "class", "link", "routing", "priority", "deadline", "delivery", "ttl",
    "direct", "path", "back",
];
/// Keys that say how the overlay carries a flow, and to whom.
const OVERLAY_KEYS: [&str; 7] = [
    "also", "class", "link", "routing", "priority", "delivery", "ttl",
];
/// Keys that say what the path of a direct flow is like.
const DIRECT_KEYS: [&str; 2] = ["path", "back"];

/// [Papadimitriou06 §4.2] The rate of a Pareto source during its spurts.
const PARETO_BPS: u64 = 64_000;
/// What a voice flow may take from end to end if nothing else is said. [Amir06 §IV-A]
const VOICE_DEADLINE: Duration = Duration::from_millis(100);
const RATE: &str = "a rate such as \"64kbit\" (bit, kbit, mbit, gbit)";

pub(super) fn flows(top: &Table<'_>, draft: &Draft) -> Result<Vec<Flow>, Mistake> {
    let Some(value) = top.optional("flow") else {
        return Ok(Vec::new());
    };
    let tables = value.tables(|n| format!("flow {}", n + 1), &KEYS)?;
    let islands = Islands::of(draft);
    let mut flows: Vec<Flow> = Vec::new();
    let mut total = 0;
    for mut table in tables {
        let flow = flow(&mut table, draft, &islands)?;
        total += flow.count;
        if total > FLOWS_MAX {
            return Err(too_many(&value, total, "flows", FLOWS_MAX));
        }
        if flows.iter().any(|other| other.name == flow.name) {
            let what = format!("there are two flows `{}`: give them names", flow.name);
            return Err(table.mistake(what));
        }
        flows.push(flow);
    }
    Ok(flows)
}

fn flow(table: &mut Table<'_>, draft: &Draft, islands: &Islands) -> Result<Flow, Mistake> {
    let (from, to) = draft.ends(table, "from", "to")?;
    let also = also(table, draft, [from, to])?;
    let is_direct = match table.optional("direct") {
        Some(value) => value.bool()?,
        None => false,
    };
    let ends = format!("{}-{}", draft.nodes[from].name, draft.nodes[to].name);
    let name = match table.optional("name") {
        Some(value) => value.text("a text")?.to_owned(),
        None if is_direct => format!("{ends} direct"),
        None => ends,
    };
    table.what = format!("flow {name}");
    let carrier = if is_direct {
        if let Some(key) = table.present(&OVERLAY_KEYS).next() {
            let what = format!("`{key}` is for flows over the overlay: this one is direct");
            return Err(table.mistake(what));
        }
        Carrier::Direct(Box::new(both_ways(table, "the direct path")?))
    } else {
        if let Some(key) = table.present(&DIRECT_KEYS).next() {
            let what = format!("`{key}` is for direct flows: add `direct = true`");
            return Err(table.mistake(what));
        }
        let unreachable = |to: &&usize| !islands.connected(from, **to);
        if let Some(to) = [to].iter().chain(&also).find(unreachable) {
            return Err(table.mistake(format!(
                "no links lead from `{}` to `{}`: add a [[link]], or `direct = true`",
                draft.nodes[from].name, draft.nodes[*to].name
            )));
        }
        Carrier::Overlay(options(table)?)
    };
    let deadline = match (table.optional("deadline"), &carrier) {
        (Some(value), _) => Some(time(&value)?),
        (None, Carrier::Overlay(options)) => options.deadline,
        (None, Carrier::Direct(_)) => None,
    };
    let is_stream = match table.optional("stream") {
        Some(value) if !also.is_empty() && value.bool()? => {
            return Err(value.mistake("a group has no reliable streams: leave out one of the two"));
        }
        Some(value) => value.bool()?,
        None => false,
    };
    let expires = match table.optional("expires") {
        Some(value) if value.bool()? && (!is_stream || deadline.is_none()) => {
            return Err(
                value.mistake("messages of a stream expire: add `stream = true` and a deadline")
            );
        }
        Some(value) => value.bool()?,
        None => false,
    };
    let (pattern, packet) = pattern(table)?;
    let (start, stop) = when(table, draft.duration)?;
    Ok(Flow {
        name,
        from,
        to,
        also,
        is_stream,
        expires,
        carrier,
        pattern,
        packet,
        count: match table.optional("count") {
            Some(value) => value.integer(1, FLOWS_MAX as i64)? as usize,
            None => 1,
        },
        start,
        stop,
        deadline,
    })
}

/// The further members of a group.
fn also(table: &Table<'_>, draft: &Draft, ends: [usize; 2]) -> Result<Vec<usize>, Mistake> {
    const ALSO: &str = "a list of further receiving nodes such as [\"C\", \"D\"]";
    let Some(value) = table.optional("also") else {
        return Ok(Vec::new());
    };
    let mut also = Vec::new();
    for name in value.list(ALSO)? {
        let node = draft.node(&name)?;
        if ends.contains(&node) || also.contains(&node) {
            let what = format!("`{}` is named twice", draft.nodes[node].name);
            return Err(name.mistake(what));
        }
        also.push(node);
    }
    if also.is_empty() {
        return Err(value.mistake(format!("expected {ALSO}")));
    }
    Ok(also)
}

fn when(table: &Table<'_>, duration: Duration) -> Result<(Duration, Duration), Mistake> {
    let start = match table.optional("start") {
        Some(value) => {
            let start = time(&value)?;
            if start >= duration {
                return Err(value.mistake(format!("the scenario is over after {duration}")));
            }
            start
        }
        None => Duration::ZERO,
    };
    let stop = match table.optional("stop") {
        Some(value) => {
            let stop = time(&value)?;
            if stop <= start || stop > duration {
                return Err(value.mistake(format!(
                    "{stop}: expected a time after the start at {start} and no later than the \
                     end at {duration}"
                )));
            }
            stop
        }
        None => duration,
    };
    Ok((start, stop))
}

/// The class, as the client's API has it: a ready one, and what is chosen otherwise.
fn options(table: &Table<'_>) -> Result<Options, Mistake> {
    let best_effort = Options {
        class: Class {
            link: LinkProtocol::BestEffort,
            routing: Routing::Latency,
            priority: 0,
        },
        deadline: None,
        ..default_options()
    };
    let reliable = Options {
        class: Class {
            link: LinkProtocol::Reliable,
            routing: Routing::ExpectedLatency,
            priority: 2,
        },
        ..best_effort
    };
    let voice = Options {
        deadline: Some(VOICE_DEADLINE),
        ..default_options()
    };
    let mut options = match table.optional("class") {
        Some(value) => value.word(&[
            ("voice", voice),
            ("best-effort", best_effort),
            ("reliable", reliable),
        ])?,
        None => voice,
    };
    if let Some(value) = table.optional("link") {
        options.class.link = value.word(&LinkProtocol::ALL.map(|p| (p.label(), p)))?;
    }
    if let Some(value) = table.optional("routing") {
        options = options.routed_by(value.word(&RouteBy::ALL.map(|by| (by.label(), by)))?);
    }
    if let Some(value) = table.optional("priority") {
        options.class.priority = value.integer(0, i64::from(Class::PRIORITY_MAX))? as u8;
    }
    if let Some(value) = table.optional("deadline") {
        options.deadline = Some(time(&value)?);
    }
    if let Some(value) = table.optional("delivery") {
        options.delivery = value.word(&[
            ("as-it-comes", Delivery::AsItComes),
            ("in-order", Delivery::InOrder),
            ("as-sent", Delivery::AsSent(None)),
        ])?;
    }
    if let Some(value) = table.optional("ttl") {
        options.ttl = value.integer(1, i64::from(TTL_MAX))? as u8;
    }
    Ok(options)
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Cbr,
    Pareto,
    Talkspurts,
    Voice,
}

/// When packets are sent, and how long each is.
fn pattern(table: &Table<'_>) -> Result<(Pattern, usize), Mistake> {
    let kind = match table.optional("pattern") {
        Some(value) => value.word(&[
            ("cbr", Kind::Cbr),
            ("pareto", Kind::Pareto),
            ("talkspurts", Kind::Talkspurts),
            ("voice", Kind::Voice),
        ])?,
        None => Kind::Voice,
    };
    let allowed: &[&str] = match kind {
        Kind::Cbr => &["rate"],
        Kind::Pareto => &["rate", "on", "off", "shape"],
        Kind::Talkspurts => &["on", "off"],
        Kind::Voice => &[],
    };
    let given = table.present(&["rate", "on", "off", "shape"]);
    if let Some(key) = given.into_iter().find(|key| !allowed.contains(key)) {
        let value = table.required(key, "")?;
        return Err(value.mistake("says nothing for this `pattern`: leave it out"));
    }
    let packet = match table.optional("packet") {
        Some(value) => value.integer(PACKET_BYTES_MIN as i64, MAX_PAYLOAD as i64)? as usize,
        None => VOICE_BYTES,
    };
    let rate = |value: Value<'_>| {
        let positive = |text: &str| impair::rate(text).filter(|rate| *rate > 0);
        value.read(RATE, positive)
    };
    let mut pattern = match kind {
        Kind::Voice => Pattern::voice(),
        Kind::Talkspurts => Pattern::talkspurts(),
        Kind::Cbr => Pattern::cbr(rate(table.required("rate", RATE)?)?, packet),
        Kind::Pareto => {
            let given = table.optional("rate").map(rate).transpose()?;
            Pattern::pareto(given.unwrap_or(PARETO_BPS), packet)
        }
    };
    if let Pattern::OnOff {
        on, off, spread, ..
    } = &mut pattern
    {
        for (key, span) in [("on", on), ("off", off)] {
            if let Some(value) = table.optional(key) {
                *span = value.read(TIME, |text| {
                    impair::span(text).filter(|span| *span > Duration::ZERO)
                })?;
            }
        }
        if let Some(value) = table.optional("shape") {
            const SHAPE: &str = "a number above 1 and up to 10, such as 1.5";
            let shape = value.number(SHAPE)?;
            if !(shape > 1.0 && shape <= 10.0) {
                return Err(value.mistake(format!("{shape}: expected {SHAPE}")));
            }
            *spread = Spread::Pareto { shape };
        }
    }
    Ok((pattern, packet))
}

/// Which nodes links connect, whatever becomes of them later.
struct Islands(Vec<usize>);

impl Islands {
    fn of(draft: &Draft) -> Islands {
        let mut islands = Islands((0..draft.nodes.len()).collect());
        for link in &draft.links {
            let (a, b) = (islands.root(link.a), islands.root(link.b));
            islands.0[a.max(b)] = a.min(b);
        }
        islands
    }

    fn root(&self, mut node: usize) -> usize {
        while self.0[node] != node {
            node = self.0[node];
        }
        node
    }

    fn connected(&self, a: usize, b: usize) -> bool {
        self.root(a) == self.root(b)
    }
}
