//! `[[fault]]`: events, their times, and their repetitions.

use super::super::table::Table;
use super::super::{Carrier, FAULTS_MAX, Fault, FaultKind, Flow, Place, Way};
use super::{Draft, Mistake, TIME, both_ways, time};
use base::Duration;

const KEYS: [&str; 13] = [
    "at", "kind", "every", "times", "a", "b", "second", "flow", "node", "groups", "path", "back",
    "for",
];

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Down,
    Up,
    Set,
    Crash,
    Restart,
    Stall,
    Partition,
    Heal,
}

const KINDS: [(&str, Kind); 8] = [
    ("link-down", Kind::Down),
    ("link-up", Kind::Up),
    ("link-set", Kind::Set),
    ("crash", Kind::Crash),
    ("restart", Kind::Restart),
    ("stall", Kind::Stall),
    ("partition", Kind::Partition),
    ("heal", Kind::Heal),
];

impl Kind {
    /// Returns the keys of this kind, in addition to `at`, `kind`, `every` and `times`.
    fn keys(self) -> &'static [&'static str] {
        match self {
            Kind::Down | Kind::Up => &["a", "b", "second", "flow"],
            Kind::Set => &["a", "b", "second", "flow", "path", "back"],
            Kind::Crash | Kind::Restart => &["node"],
            Kind::Stall => &["node", "for"],
            Kind::Partition => &["groups"],
            Kind::Heal => &[],
        }
    }
}

/// Reads all faults in order of time; faults at one moment stay in the order of the file.
pub(super) fn faults(
    top: &Table<'_>,
    draft: &Draft<'_>,
    flows: &[Flow],
) -> Result<Vec<Fault>, Mistake> {
    let Some(value) = top.optional("fault") else {
        return Ok(Vec::new());
    };
    let mut faults = Vec::new();
    for table in value.tables(|n| format!("fault {}", n + 1), &KEYS)? {
        let kind = kind(&table, draft, flows)?;
        for at in moments(&table, draft.duration)? {
            let kind = kind.clone();
            faults.push(Fault { at, kind });
        }
        if faults.len() > FAULTS_MAX {
            return Err(table.mistake(format!("more than {FAULTS_MAX} faults in all")));
        }
    }
    faults.sort_by_key(|fault| fault.at);
    Ok(faults)
}

fn kind(table: &Table<'_>, draft: &Draft<'_>, flows: &[Flow]) -> Result<FaultKind, Mistake> {
    let word = table.required("kind", "what happens, such as \"link-down\"")?;
    let kind = word.word(&KINDS)?;
    let others: Vec<&str> = KEYS[4..]
        .iter()
        .copied()
        .filter(|key| !kind.keys().contains(key))
        .collect();
    if let Some(key) = table.present(&others).next() {
        let value = table.required(key, "")?;
        return Err(value.mistake("says nothing for this `kind`: leave it out"));
    }
    Ok(match kind {
        Kind::Down => FaultKind::Down(place(table, draft, flows)?),
        Kind::Up => FaultKind::Up(place(table, draft, flows)?),
        Kind::Set => FaultKind::Set(
            place(table, draft, flows)?,
            Box::new(both_ways(table, "what the path becomes")?),
        ),
        Kind::Crash => FaultKind::Crash(node(table, draft)?),
        Kind::Restart => FaultKind::Restart(node(table, draft)?),
        Kind::Stall => FaultKind::Stall(node(table, draft)?, stall(table)?),
        Kind::Partition => FaultKind::Partition(groups(table, draft)?),
        Kind::Heal => FaultKind::Heal,
    })
}

fn node(table: &Table<'_>, draft: &Draft<'_>) -> Result<usize, Mistake> {
    draft.node(&table.required("node", "the name of a node")?)
}

/// Reads how long a node is not scheduled.
fn stall(table: &Table<'_>) -> Result<Duration, Mistake> {
    let value = table.required("for", TIME)?;
    match time(&value)? {
        Duration::ZERO => Err(value.mistake("expected a time above zero")),
        span => Ok(span),
    }
}

/// Returns whether a flow has a path of its own.
fn has_path(carrier: &Carrier) -> bool {
    match carrier {
        Carrier::Overlay(_) => false,
        Carrier::Direct(_) => true,
        Carrier::Tcp(_, way) => matches!(way, Way::Own(_)),
    }
}

fn place(table: &Table<'_>, draft: &Draft<'_>, flows: &[Flow]) -> Result<Place, Mistake> {
    if let Some(value) = table.optional("flow") {
        if let Some(key) = table.present(&["a", "b", "second"]).next() {
            let what = format!("`flow` and `{key}` exclude each other: keep one");
            return Err(table.mistake(what));
        }
        let name = value.text("the name of a direct flow")?;
        let found = flows
            .iter()
            .position(|flow| flow.name == name && has_path(&flow.carrier));
        return found
            .map(Place::Flow)
            .ok_or_else(|| value.mistake(format!("there is no direct flow `{name}`")));
    }
    let (a, b) = draft.ends(table, "a", "b")?;
    let name = |n: usize| &draft.nodes[n].name;
    let (a_name, b_name) = (name(a), name(b));
    let link = draft.link(a, b).ok_or_else(|| {
        table.mistake(format!(
            "there is no link between `{a_name}` and `{b_name}`"
        ))
    })?;
    match table.optional("second") {
        Some(value) if value.bool()? => match draft.links[link].second {
            Some(_) => Ok(Place::Second(link)),
            None => Err(value.mistake(format!(
                "the link between `{a_name}` and `{b_name}` has no `second` path"
            ))),
        },
        _ => Ok(Place::Link(link)),
    }
}

fn groups(table: &Table<'_>, draft: &Draft<'_>) -> Result<Vec<Vec<usize>>, Mistake> {
    const GROUPS: &str = "lists of nodes such as [[\"A\", \"B\"], [\"C\"]]; nodes that are in none \
                          stay together";
    let value = table.required("groups", GROUPS)?;
    let mut seen = vec![false; draft.nodes.len()];
    let mut groups = Vec::new();
    for group in value.list(GROUPS)? {
        let mut members = Vec::new();
        for name in group.list(GROUPS)? {
            let node = draft.node(&name)?;
            if core::mem::replace(&mut seen[node], true) {
                let what = format!("`{}` is in two groups", draft.nodes[node].name);
                return Err(name.mistake(what));
            }
            members.push(node);
        }
        groups.push(members);
    }
    if groups.is_empty() {
        return Err(value.mistake(format!("expected {GROUPS}")));
    }
    Ok(groups)
}

/// Returns the moments of a fault: once, or `times` times at intervals of `every`, up to the end of the scenario.
fn moments(table: &Table<'_>, duration: Duration) -> Result<Vec<Duration>, Mistake> {
    let value = table.required("at", TIME)?;
    let at = time(&value)?;
    if at > duration {
        return Err(value.mistake(format!("the scenario is over after {duration}")));
    }
    let times = match table.optional("times") {
        Some(value) if table.optional("every").is_none() => {
            return Err(value.mistake("says nothing without `every`: give both"));
        }
        Some(value) => value.integer(1, FAULTS_MAX as i64)? as usize,
        None => FAULTS_MAX,
    };
    let Some(value) = table.optional("every") else {
        return Ok(vec![at]);
    };
    let every = time(&value)?;
    if every == Duration::ZERO {
        return Err(value.mistake("expected a time above zero"));
    }
    let moments = (0..times as u64).map(|n| at + every * n);
    Ok(moments.take_while(|at| *at <= duration).collect())
}
