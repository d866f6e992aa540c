//! `[[flow]]`: its ends, its carrier, and the times of its packets.

use super::super::table::{Table, Value};
use super::super::{BothWays, Carrier, FLOWS_MAX, Flow, PACKET_BYTES_MIN, Way};
use super::{Draft, Mistake, TIME, both_ways, time, too_many};
use base::{Duration, impair};
use congestion::Family;
use overlay::node::MAX_PAYLOAD;
use overlay::request::{Delivery, Options};
use overlay::sockets::default_options;
use sim::traffic::{Pattern, Spread, VOICE_BYTES};
use wire::Aim;
use wire::data::{Class, LinkProtocol, Routing, TTL_MAX};
use wire::groups::Ways;
use wire::ipc::{RouteBy, StreamControl};

const KEYS: [&str; 32] = [
    "name", "from", "to", "also", "ways", "stream", "expires", "answered", "control", "start",
    "stop", "count", "pattern", "rate", "packet", "on", "off", "shape", "class", "link", "routing",
    "priority", "deadline", "target", "repair", "delivery", "ttl", "direct", "tcp", "shared",
    "path", "back",
];
/// The keys that define how the overlay carries a flow, and to which receivers.
const OVERLAY_KEYS: [&str; 13] = [
    "also", "ways", "class", "link", "routing", "priority", "delivery", "ttl", "stream", "expires",
    "control", "target", "repair",
];
/// The keys that define the path of a flow outside the overlay.
const DIRECT_KEYS: [&str; 3] = ["path", "back", "shared"];

/// [Papadimitriou06 §4.2] The rate of a Pareto source during its spurts.
const PARETO_BPS: u64 = 64_000;
/// The default deadline of a voice flow from end to end. [Amir06 §IV-A]
const VOICE_DEADLINE: Duration = Duration::from_millis(100);
const SHARE: &str = "a share, such as 0.0001";
const RATE: &str = "a rate such as \"64kbit\" (bit, kbit, mbit, gbit)";

pub(super) fn flows(top: &Table<'_>, draft: &Draft<'_>) -> Result<Vec<Flow>, Mistake> {
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

fn flow(table: &mut Table<'_>, draft: &Draft<'_>, islands: &Islands) -> Result<Flow, Mistake> {
    let (from, to) = draft.ends(table, "from", "to")?;
    let also = also(table, draft, [from, to])?;
    let is_direct = flag(table, "direct")?;
    let tcp = match table.optional("tcp") {
        Some(value) if is_direct => {
            return Err(value.mistake("`direct` is UDP: leave out one of the two"));
        }
        Some(value) => Some(value.word(&Family::ALL.map(|f| (f.label(), f)))?),
        None => None,
    };
    let ends = format!("{}-{}", draft.nodes[from].name, draft.nodes[to].name);
    let name = match (table.optional("name"), tcp) {
        (Some(value), _) => value.text("a text")?.to_owned(),
        (None, Some(family)) => format!("{ends} {family}"),
        (None, None) if is_direct => format!("{ends} direct"),
        (None, None) => ends,
    };
    table.what = format!("flow {name}");
    let carrier = match tcp {
        Some(family) => Carrier::Tcp(family, way(table, draft, (from, to))?),
        None if is_direct => direct(table)?,
        None => overlay(table, draft, islands, (from, &[&[to], &also[..]].concat()))?,
    };
    let deadline = match (table.optional("deadline"), &carrier) {
        (Some(value), _) => Some(time(&value)?),
        (None, Carrier::Overlay(options)) => options.deadline,
        (None, Carrier::Direct(_) | Carrier::Tcp(..)) => None,
    };
    let ways = ways(table, &carrier, !also.is_empty())?;
    let is_stream = flag(table, "stream")?;
    if is_stream && !also.is_empty() {
        let what = "a group has no reliable streams: leave out one of the two";
        return Err(table.required("stream", "")?.mistake(what));
    }
    let expires = flag(table, "expires")?;
    if expires && (!is_stream || deadline.is_none()) {
        let what = "messages of a stream expire: add `stream = true` and a deadline";
        return Err(table.required("expires", "")?.mistake(what));
    }
    let is_answered = flag(table, "answered")?;
    let (load, packet) = pattern(table)?;
    let is_connected = is_stream || tcp.is_some();
    if !is_connected && (is_answered || load.is_none()) {
        let key = if is_answered { "answered" } else { "pattern" };
        let what = "only over a connection: add `stream = true`, or `tcp`";
        return Err(table.required(key, "")?.mistake(what));
    }
    if load.is_none() && (is_answered || expires) {
        let key = if is_answered { "answered" } else { "expires" };
        let what = "bulk has no messages: choose another `pattern`, or leave it out";
        return Err(table.required(key, "")?.mistake(what));
    }
    if load.is_none() {
        bulk_is_bounded(table, draft, &carrier)?;
    }
    let (start, stop) = when(table, draft.duration)?;
    Ok(Flow {
        name,
        from,
        to,
        also,
        ways,
        is_stream,
        expires,
        carrier,
        is_bulk: load.is_none(),
        is_answered,
        pattern: load.unwrap_or(Pattern::voice()),
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

/// Reads a value that is true or false; false if it is missing.
fn flag(table: &Table<'_>, key: &str) -> Result<bool, Mistake> {
    table.optional(key).map_or(Ok(false), |value| value.bool())
}

fn direct(table: &Table<'_>) -> Result<Carrier, Mistake> {
    if let Some(key) = table.present(&OVERLAY_KEYS).next() {
        let what = format!("`{key}` is for flows over the overlay: this one is direct");
        return Err(table.mistake(what));
    }
    if let Some(value) = table.optional("shared") {
        return Err(value.mistake("only TCP shares the path of a link: add `tcp`, or leave it out"));
    }
    Ok(Carrier::Direct(Box::new(both_ways(
        table,
        "the direct path",
    )?)))
}

/// Reads the path of a TCP flow.
fn way(table: &Table<'_>, draft: &Draft<'_>, (from, to): (usize, usize)) -> Result<Way, Mistake> {
    if let Some(key) = table.present(&OVERLAY_KEYS).next() {
        let what = format!("`{key}` is for flows over the overlay: this one goes by TCP");
        return Err(table.mistake(what));
    }
    if !flag(table, "shared")? {
        let purpose = "the path of TCP; or `shared = true`, over that of the link between its ends";
        return Ok(Way::Own(Box::new(both_ways(table, purpose)?)));
    }
    if let Some(key) = table.present(&["path", "back"]).next() {
        let what = format!("`shared` and `{key}` exclude each other: keep one");
        return Err(table.mistake(what));
    }
    draft.link(from, to).map(Way::Link).ok_or_else(|| {
        let name = |n: usize| &draft.nodes[n].name;
        table.mistake(format!(
            "no link joins `{}` and `{}`: add a [[link]], or give it a `path` of its own",
            name(from),
            name(to)
        ))
    })
}

fn overlay(
    table: &Table<'_>,
    draft: &Draft<'_>,
    islands: &Islands,
    (from, to): (usize, &[usize]),
) -> Result<Carrier, Mistake> {
    if let Some(key) = table.present(&DIRECT_KEYS).next() {
        let what =
            format!("`{key}` is for flows beside the overlay: add `direct = true`, or `tcp`");
        return Err(table.mistake(what));
    }
    if let Some(to) = to.iter().find(|to| !islands.connected(from, **to)) {
        return Err(table.mistake(format!(
            "no links lead from `{}` to `{}`: add a [[link]], or `direct = true`",
            draft.nodes[from].name, draft.nodes[*to].name
        )));
    }
    let mut options = options(table)?;
    if let Some(value) = table.optional("control") {
        options.control = Some(value.word(&StreamControl::ALL.map(|c| (c.label(), c)))?);
        if !flag(table, "stream")? {
            return Err(value.mistake("says nothing without `stream = true`: leave it out"));
        }
    }
    Ok(Carrier::Overlay(options))
}

/// Checks that the rate of bulk is limited, because bulk uses all available capacity.
fn bulk_is_bounded(table: &Table<'_>, draft: &Draft<'_>, carrier: &Carrier) -> Result<(), Mistake> {
    let bounded = |path: &BothWays| path.there.rate().is_some() && path.back.rate().is_some();
    let (is_bounded, where_) = match carrier {
        Carrier::Tcp(_, way) => match way {
            Way::Own(path) => (bounded(path), "its path"),
            Way::Link(link) => (bounded(&draft.links[*link].path), "the link"),
        },
        Carrier::Overlay(_) | Carrier::Direct(_) => {
            let all = draft.links.iter().all(|link| bounded(&link.path));
            (all, "every link")
        }
    };
    match is_bounded {
        true => Ok(()),
        false => Err(table.mistake(format!(
            "bulk takes all that there is: give {where_} a `rate`"
        ))),
    }
}

/// Reads the further members of a group.
fn also(table: &Table<'_>, draft: &Draft<'_>, ends: [usize; 2]) -> Result<Vec<usize>, Mistake> {
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

/// Reads the number of paths that packets to a group take to each member.
fn ways(table: &Table<'_>, carrier: &Carrier, is_group: bool) -> Result<Option<Ways>, Mistake> {
    let Some(value) = table.optional("ways") else {
        return Ok(None);
    };
    if !is_group {
        return Err(value.mistake("only a group has ways: add `also`, or leave it out"));
    }
    let ways = match value.integer(1, 2) {
        Ok(1) => Ways::One,
        Ok(_) => Ways::Two,
        Err(_) => value.word(&Ways::ALL.map(|ways| (ways.label(), ways)))?,
    };
    let has_second = matches!(ways, Ways::Two | Ways::Targeted);
    match carrier {
        Carrier::Overlay(options) if has_second && options.class.link == LinkProtocol::Reliable => {
            let what = "second ways are for what has a deadline: choose another `link` or `class`";
            Err(value.mistake(what))
        }
        Carrier::Overlay(_) | Carrier::Direct(_) | Carrier::Tcp(..) => Ok(Some(ways)),
    }
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

/// Reads the service class, as in the client's API: a predefined one, and the changes to it.
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
    if let Some(value) = table.optional("target") {
        let target = Aim::new(Some(value.number(SHARE)?), None);
        options.aim = target.map_err(|error| value.mistake(error.to_string()))?;
    }
    if let Some(value) = table.optional("repair") {
        let aim = Aim::new(options.aim.target(), Some(value.number(SHARE)?));
        options.aim = aim.map_err(|error| value.mistake(error.to_string()))?;
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
    Bulk,
    Cbr,
    Pareto,
    Talkspurts,
    Voice,
}

/// Reads when packets are sent, and how long each is; bulk has no pattern.
fn pattern(table: &Table<'_>) -> Result<(Option<Pattern>, usize), Mistake> {
    let kind = match table.optional("pattern") {
        Some(value) => value.word(&[
            ("bulk", Kind::Bulk),
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
        Kind::Voice | Kind::Bulk => &[],
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
        Kind::Bulk => return Ok((None, packet)),
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
    Ok((Some(pattern), packet))
}

/// The connected components of the network's links, whatever happens to the links later.
struct Islands(Vec<usize>);

impl Islands {
    fn of(draft: &Draft<'_>) -> Islands {
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
