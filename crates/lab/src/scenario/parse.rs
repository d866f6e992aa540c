//! Converts the text of a scenario to a scenario: it resolves names to indices and words to models, and checks
//! everything. docs/scenario.md has the schema; the tables here have its order.

mod fault;
mod flow;
mod follow;
mod topology;

use super::error::Mistake;
use super::files::{Files, Texts};
use super::table::{Table, Text, Value};
use super::{
    BothWays, Carrier, Column, DURATION_MAX, FAULTS_MAX, FILE_BYTES_MAX, Fault, FaultKind,
    LINKS_MAX, Link, Measure, NODE_SECONDS_MAX, NODES_MAX, Node, PACKETS_MAX, Profile,
    ReliableLinks, Scenario, Way,
};
use base::impair::{self, Model};
use base::{Duration, Map, NodeAddr};
use congestion::Family;
use overlay::Settings;
use overlay::node::MAX_PAYLOAD;
use overlay::reliable::FLOWS_MAX;
use std::collections::BTreeMap;
use toml::de::DeTable;

/// Base of the default overlay addresses: 10.7.0.0 plus the node's number, from 1.
const ADDRESS_BASE: u32 = 0x0a07_0000;
/// Longest name: certificates contain it.
pub(super) const NAME_BYTES_MAX: usize = 32;
/// How long a network of the modern profile takes to settle: handshakes, three round trips of hellos, and the flooding
/// of records, each repeated under loss.
const SETTLE_MODERN: Duration = Duration::from_secs(3);
/// The same for the paper's profile, whose hellos are a second apart.
const SETTLE_PAPER: Duration = Duration::from_secs(15);
/// Default length of a gap: a run of missed packets that people notice, and that recovery does not hide.
const GAP_DEFAULT: Duration = Duration::from_millis(200);

const TIME: &str = "a time such as \"10s\" (ns, us, ms, s)";
const PATH: &str = "a path such as \"delay=10ms loss=5% burst=25%\", or \"clean\"";
const NODE: &str = "the name of a node";

const TOP: [&str; 9] = [
    "scenario", "settings", "reliable", "topology", "node", "link", "flow", "fault", "measure",
];

/// The parts that have been read so far, for later parts that refer to them.
pub(super) struct Draft<'f> {
    duration: Duration,
    nodes: Vec<Node>,
    places: Map<String, usize>,
    links: Vec<Link>,
    files: &'f Files,
    /// The texts of the files that were read.
    texts: Texts,
    /// The changes of links that follow measured ones.
    followed: Vec<Fault>,
    /// The link between two nodes, the smaller index first.
    links_between: BTreeMap<(usize, usize), usize>,
    /// Number of links that a generator has made: they are the first ones. Links that the file lists replace them.
    generated: usize,
}

pub(super) fn scenario(text: Text<'_>, files: &Files) -> Result<Scenario, Mistake> {
    if text.text.len() > FILE_BYTES_MAX {
        let what = format!("the file is larger than the {FILE_BYTES_MAX} bytes that are read");
        return Err(text.mistake(&(0..0), String::new(), what));
    }
    let document = DeTable::parse(text.text).map_err(|error| text.malformed(&error))?;
    if let Some((key, _)) = document.get_ref().get_key_value("experiment") {
        let what = format!("this is an experiment: sinew lab run {}", text.file);
        return Err(text.mistake(&key.span(), "experiment".to_owned(), what));
    }
    let top = Table::new(text, "", document.span(), document.get_ref(), &TOP)?;

    let mut scenario = head(&top)?;
    let mut draft = Draft {
        duration: scenario.duration,
        nodes: Vec::new(),
        places: Map::default(),
        links: Vec::new(),
        files,
        texts: Texts::new(),
        followed: Vec::new(),
        links_between: BTreeMap::new(),
        generated: 0,
    };
    draft.read_topology(&top, scenario.seed)?;
    draft.read_nodes(&top)?;
    draft.read_links(&top)?;
    let span = scenario.settle + scenario.duration;
    let load = (draft.nodes.len() + 2 * draft.links.len()) as u64 * span.as_millis() / 1_000;
    if load > NODE_SECONDS_MAX {
        return Err(top.mistake(format!(
            "{} nodes with {} links for {span} are too much: nodes and ends of links times \
             seconds may be {NODE_SECONDS_MAX}; choose a shorter duration",
            draft.nodes.len(),
            draft.links.len()
        )));
    }
    scenario.flows = flow::flows(&top, &draft)?;
    let fastest_bps = draft.fastest_bps();
    let packets = |flow: &super::Flow| {
        let span = flow.stop - flow.start;
        let copies = flow.count * (1 + flow.also.len());
        // All bulk of a flow together can at most fill the fastest path.
        let per_s = match (flow.is_bulk, &flow.carrier) {
            (false, _) => flow.pattern.packets_per_s() * copies as f64,
            (true, Carrier::Tcp(_, way)) => bulk_per_s(way.fastest_bps().unwrap_or(fastest_bps)),
            (true, _) => bulk_per_s(fastest_bps),
        };
        per_s * span.as_secs_f64()
    };
    let packets: f64 = scenario.flows.iter().map(packets).sum();
    if packets > PACKETS_MAX as f64 {
        return Err(top.mistake(format!(
            "the flows would send {packets:.0} packets, more than the limit of {PACKETS_MAX}: \
             lower a rate or a count, or shorten"
        )));
    }
    scenario.faults = fault::faults(&top, &draft, &scenario.flows)?;
    scenario.faults.append(&mut draft.followed);
    if scenario.faults.len() > FAULTS_MAX {
        let what = format!("more than {FAULTS_MAX} faults and changes of links in all");
        return Err(top.mistake(what));
    }
    scenario.faults.sort_by_key(|fault| fault.at);
    scenario.measure = measure(&top, scenario.duration)?;
    (scenario.nodes, scenario.links) = (draft.nodes, draft.links);
    scenario.files = draft.texts;
    Ok(scenario)
}

/// Reads the settings that differ from the profile's.
fn settings(top: &Table<'_>) -> Result<Vec<(String, String)>, Mistake> {
    let (mut profile, keys) = (Settings::modern(), Settings::keys());
    let Some(value) = top.optional("settings") else {
        return Ok(Vec::new());
    };
    let table = value.table("settings", &keys)?;
    let mut set = Vec::new();
    for key in table.present(&keys) {
        let expected = "a number, or a time such as \"250ms\"";
        let value = table.required(key, expected)?;
        let text = match (value.number(expected), value.bool()) {
            (Ok(number), _) => number.to_string(),
            (_, Ok(flag)) => flag.to_string(),
            _ => value.text(expected)?.to_owned(),
        };
        let taken = profile.set(key, &text);
        taken.map_err(|why| value.mistake(why.to_string()))?;
        set.push((key.to_owned(), text));
    }
    Ok(set)
}

/// Reads the settings of reliable links.
fn reliable(top: &Table<'_>) -> Result<ReliableLinks, Mistake> {
    let Some(value) = top.optional("reliable") else {
        return Ok(ReliableLinks::default());
    };
    let table = value.table("reliable", &["congestion", "flows", "random_losses"])?;
    let family = |value: Value<'_>| value.word(&Family::ALL.map(|f| (f.label(), f)));
    let flows = |value: Value<'_>| value.integer(1, FLOWS_MAX as i64);
    let spares = |value: Value<'_>| value.word(&[("spared", true), ("cut", false)]);
    Ok(ReliableLinks {
        congestion: table.optional("congestion").map(family).transpose()?,
        flows: table
            .optional("flows")
            .map(flows)
            .transpose()?
            .map(|n| n as usize),
        spares_random_losses: table.optional("random_losses").map(spares).transpose()?,
    })
}

fn head(top: &Table<'_>) -> Result<Scenario, Mistake> {
    const KEYS: [&str; 7] = [
        "name", "about", "seed", "duration", "settle", "profile", "sealing",
    ];
    let table = top
        .required("scenario", "a table [scenario] with a name and a duration")?
        .table("scenario", &KEYS)?;
    let profile = match table.optional("profile") {
        Some(value) => value.word(&[("modern", Profile::Modern), ("paper", Profile::Paper)])?,
        None => Profile::Modern,
    };
    let duration = table.required("duration", TIME)?;
    let span = time(&duration)?;
    if span == Duration::ZERO {
        return Err(duration.mistake("expected a time above zero"));
    }
    let settle = match (table.optional("settle"), profile) {
        (Some(value), _) => time(&value)?,
        (None, Profile::Modern) => SETTLE_MODERN,
        (None, Profile::Paper) => SETTLE_PAPER,
    };
    Ok(Scenario {
        name: table
            .required("name", "a text such as \"chain\"")?
            .text("a text such as \"chain\"")?
            .to_owned(),
        about: match table.optional("about") {
            Some(value) => value.text("a text")?.to_owned(),
            None => String::new(),
        },
        seed: match table.optional("seed") {
            Some(value) => value.integer(0, i64::MAX)?.unsigned_abs(),
            None => 1,
        },
        duration: span,
        settle,
        profile,
        settings: settings(top)?,
        reliable: reliable(top)?,
        sealing: match table.optional("sealing") {
            Some(value) => value.bool()?,
            None => true,
        },
        nodes: Vec::new(),
        links: Vec::new(),
        flows: Vec::new(),
        faults: Vec::new(),
        files: Texts::new(),
        measure: Measure {
            from: Duration::ZERO,
            gap: GAP_DEFAULT,
            columns: Vec::new(),
        },
    })
}

/// Returns the number of full packets per second at a bit rate.
fn bulk_per_s(rate_bps: u64) -> f64 {
    rate_bps as f64 / 8.0 / MAX_PAYLOAD as f64
}

impl Way {
    /// Returns the rate of a separate path.
    fn fastest_bps(&self) -> Option<u64> {
        match self {
            Way::Own(path) => path.there.rate().map(|(rate_bps, _)| rate_bps),
            Way::Link(_) => None,
        }
    }
}

impl Draft<'_> {
    /// Returns the highest rate of a link.
    fn fastest_bps(&self) -> u64 {
        let changes = self.followed.iter().filter_map(|fault| match &fault.kind {
            FaultKind::Follow(_, both) => Some(&**both),
            _ => None,
        });
        let all = self.links.iter().map(|link| &link.path).chain(changes);
        let rates = all.flat_map(|both| [&both.there, &both.back]);
        let rates = rates.filter_map(|path| Some(path.rate()?.0));
        rates.max().unwrap_or_default()
    }

    fn read_nodes(&mut self, top: &Table<'_>) -> Result<(), Mistake> {
        const KEYS: [&str; 4] = ["name", "address", "clock_ahead", "clock_drift_ppm"];
        const EXPECTED: &str = "tables: write [[node]] with a name for each node, or [topology]";
        let generated = self.nodes.len();
        let tables = match top.optional("node") {
            None if generated > 0 => Vec::new(),
            None => return Err(top.required("node", EXPECTED).err().expect("there is none")),
            Some(value) => {
                let tables = value.tables(|n| format!("node {}", n + 1), &KEYS)?;
                let total = generated + tables.len();
                if total > NODES_MAX {
                    return Err(too_many(&value, total, "nodes", NODES_MAX));
                }
                tables
            }
        };
        let mut taken: BTreeMap<NodeAddr, usize> = BTreeMap::new();
        let mut wanted = vec![None; generated];
        for (n, table) in tables.iter().enumerate() {
            let n = generated + n;
            let name = table.required("name", "a word such as \"ams\"")?;
            let word = name.text("a word such as \"ams\"")?;
            if word.is_empty() || word.len() > NAME_BYTES_MAX || word.contains(char::is_whitespace)
            {
                return Err(name.mistake(format!(
                    "`{word}`: expected a word of 1 to {NAME_BYTES_MAX} bytes"
                )));
            }
            if self.places.insert(word.to_owned(), n).is_some() {
                return Err(name.mistake(format!("there are two nodes `{word}`")));
            }
            if let Some(value) = table.optional("address") {
                let address: NodeAddr = value.parse("an overlay address such as \"10.7.0.3\"")?;
                if !address.is_node() {
                    return Err(value.mistake(format!(
                        "{address} is not the address of a node: choose one below 224.0.0.0"
                    )));
                }
                if taken.insert(address, n).is_some() {
                    return Err(value.mistake(format!("two nodes have the address {address}")));
                }
                wanted.push(Some(address));
            } else {
                wanted.push(None);
            }
            self.nodes.push(Node {
                name: word.to_owned(),
                address: NodeAddr::default(),
                clock_ahead: match table.optional("clock_ahead") {
                    Some(value) => time(&value)?,
                    None => Duration::ZERO,
                },
                clock_drift_ppm: match table.optional("clock_drift_ppm") {
                    Some(value) => {
                        let most = i64::from(sim::DRIFT_PPM_MAX);
                        value.integer(-most, most)? as i32
                    }
                    None => 0,
                },
            });
        }
        // Nodes without an address of their own get the unused addresses, in their order.
        let mut free = (1..).map(|n| NodeAddr(ADDRESS_BASE + n));
        for (node, wanted) in self.nodes.iter_mut().zip(wanted) {
            let mut unused = || free.find(|address| !taken.contains_key(address));
            node.address = wanted
                .or_else(&mut unused)
                .expect("there are more addresses than nodes");
        }
        Ok(())
    }

    fn read_links(&mut self, top: &Table<'_>) -> Result<(), Mistake> {
        const KEYS: [&str; 7] = [
            "a",
            "b",
            "path",
            "back",
            "follows",
            "follows_back",
            "second",
        ];
        let Some(value) = top.optional("link") else {
            return Ok(());
        };
        let tables = value.tables(|n| format!("link {}", n + 1), &KEYS)?;
        let total = self.generated + tables.len();
        if total > LINKS_MAX {
            return Err(too_many(&value, total, "links", LINKS_MAX));
        }
        for mut table in tables {
            let (a, b) = self.ends(&table, "a", "b")?;
            table.what = format!("link {}-{}", self.nodes[a].name, self.nodes[b].name);
            let at = match self.link(a, b) {
                Some(place) => place,
                None => self.links.len(),
            };
            let files = (self.files, &mut self.texts);
            let (path, changes) = follow::path(&table, files, self.duration, at)?;
            self.followed.extend(changes);
            let second = table.optional("second").map(|value| {
                let there: Model = value.parse(PATH)?;
                let back = there.clone();
                Ok(BothWays { there, back })
            });
            let second = second.transpose()?;
            let link = Link { a, b, path, second };
            match self.link(a, b) {
                Some(place) if place < self.generated => self.links[place] = link,
                Some(_) => {
                    return Err(table.mistake("there is such a link already".to_owned()));
                }
                None => {
                    let between = (a.min(b), a.max(b));
                    self.links_between.insert(between, self.links.len());
                    self.links.push(link);
                }
            }
        }
        Ok(())
    }

    /// Reads two different nodes.
    fn ends(&self, table: &Table<'_>, a: &str, b: &str) -> Result<(usize, usize), Mistake> {
        let from = self.node(&table.required(a, NODE)?)?;
        let second = table.required(b, NODE)?;
        let to = self.node(&second)?;
        if from == to {
            let what = format!("`{}` is both ends: name two nodes", self.nodes[to].name);
            return Err(second.mistake(what));
        }
        Ok((from, to))
    }

    fn node(&self, value: &Value<'_>) -> Result<usize, Mistake> {
        let name = value.text(NODE)?;
        self.places.get(name).copied().ok_or_else(|| {
            let names: Vec<&str> = self.nodes.iter().map(|node| node.name.as_str()).collect();
            value.mistake(match tools::spelling::nearest(name, &names) {
                Some(meant) => format!("there is no node `{name}`; did you mean `{meant}`?"),
                None => format!("there is no node `{name}`: add a [[node]]"),
            })
        })
    }

    fn link(&self, a: usize, b: usize) -> Option<usize> {
        self.links_between.get(&(a.min(b), a.max(b))).copied()
    }
}

fn measure(top: &Table<'_>, duration: Duration) -> Result<Measure, Mistake> {
    const KEYS: [&str; 3] = ["from", "gap", "report"];
    let mut measure = Measure {
        from: Duration::ZERO,
        gap: GAP_DEFAULT,
        columns: Column::ALL.iter().map(|(_, column)| *column).collect(),
    };
    let Some(value) = top.optional("measure") else {
        return Ok(measure);
    };
    let table = value.table("measure", &KEYS)?;
    if let Some(value) = table.optional("from") {
        measure.from = time(&value)?;
        if measure.from >= duration {
            return Err(value.mistake(format!("the scenario is over after {duration}")));
        }
    }
    if let Some(value) = table.optional("gap") {
        measure.gap = time(&value)?;
    }
    if let Some(value) = table.optional("report") {
        let list = value.list("a list of words such as [\"lost\", \"delay\"]")?;
        let words = list.iter().map(|word| word.word(&Column::ALL));
        measure.columns = words.collect::<Result<_, _>>()?;
    }
    Ok(measure)
}

/// Reads the path of both directions: `path`, and `back` if it differs.
fn both_ways(table: &Table<'_>, purpose: &str) -> Result<BothWays, Mistake> {
    let expected = format!("{purpose}: {PATH}");
    let there: Model = table.required("path", &expected)?.parse(PATH)?;
    let back = match table.optional("back") {
        Some(value) => value.parse(PATH)?,
        None => there.clone(),
    };
    Ok(BothWays { there, back })
}

fn time(value: &Value<'_>) -> Result<Duration, Mistake> {
    let span = value.read(TIME, impair::span)?;
    if span > DURATION_MAX {
        return Err(value.mistake(format!("{span} is above the limit of {DURATION_MAX}")));
    }
    Ok(span)
}

fn too_many(value: &Value<'_>, count: usize, what: &str, most: usize) -> Mistake {
    value.mistake(format!("{count} {what} are above the limit of {most}"))
}
