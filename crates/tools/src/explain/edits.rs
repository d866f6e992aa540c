//! Edits as users write them: `C-D loss=8%`, `C-D delay=40ms`, `C-D protect=off`, `C-D down`, `fra
//! down`. Commas separate several edits.

use super::protection::Protections;
use super::view::link;
use super::{ExplainError, View};
use crate::share;
use base::{NodeAddr, impair};
use graph::explain::edit::{BadEdit, Direction, Edit, apply};
use graph::metric::Repair;
use graph::{LinkCost, Topology};
use overlay::realtime::{MAX_STRIKES, Protect};
use wire::Latency;

/// Most edits in one text: more edits call for a scenario of their own.
pub const EDITS_MAX: usize = 100;
/// The longest text: 100 edits with two names of 32 bytes and three words each.
pub const EDIT_BYTES_MAX: usize = 16 << 10;

const WORDS: &str = "write `A-B loss=5% delay=20ms`, `A>B loss=5%` for one direction, `A-B \
                     protect=off`, `A-B down`, or `A down`; several with commas between them";

/// The network after some edits.
#[derive(Debug)]
pub(super) struct Edited {
    pub(super) topology: Topology,
    pub(super) protections: Protections,
    /// The edits in their standard spelling.
    pub(super) said: Vec<String>,
}

/// The edit that a user writes for one link or node.
struct Written {
    edit: Edit,
    /// The protection of the link, if the edit has one.
    protect: Option<Protect>,
}

/// Returns the network after the edits.
pub(super) fn edited(view: &View, text: &str) -> Result<Edited, ExplainError> {
    if text.len() > EDIT_BYTES_MAX {
        return Err(misused(format!(
            "the edits have more than {EDIT_BYTES_MAX} bytes"
        )));
    }
    let texts: Vec<&str> = text.split(',').map(str::trim).collect();
    if texts.len() > EDITS_MAX {
        return Err(misused(format!(
            "{} edits are more than {EDITS_MAX}",
            texts.len()
        )));
    }
    let mut topology = view.topology().clone();
    let mut protections = view.protections().clone();
    let mut said = Vec::new();
    for text in texts {
        let written = parse(view, text)?;
        topology = apply(&topology, &[written.edit]).map_err(|why| {
            let why = match why {
                BadEdit::NoLink(a, b) => format!(
                    "there is no link between {} and {}: give it a delay to see what it would \
                     change",
                    view.name(a),
                    view.name(b)
                ),
                other => other.to_string(),
            };
            misused(format!("`{text}`: {why}"))
        })?;
        written.protect(view, &mut topology, &mut protections);
        said.push(say(view, &written));
    }
    Ok(Edited {
        topology,
        protections,
        said,
    })
}

impl Written {
    fn of(edit: Edit) -> Written {
        Written {
            edit,
            protect: None,
        }
    }

    fn protect(&self, view: &View, topology: &mut Topology, protections: &mut Protections) {
        let Edit::Link {
            a, b, direction, ..
        } = self.edit
        else {
            return;
        };
        let Some(protect) = self.protect else {
            return;
        };
        for (from, to) in direction.of(a, b) {
            protections.set(from, to, protect);
            if protect != Protect::Off {
                ask(view, topology, from, to);
            }
        }
    }
}

/// Sets how often a link requests lost packets: as often as its own end does, also if the link was
/// `off` before.
fn ask(view: &View, topology: &mut Topology, from: NodeAddr, to: NodeAddr) {
    let Some(now) = link(topology, from, to) else {
        return;
    };
    let repair = own_strikes(view, from, to).map(|strikes| {
        let back = link(topology, to, from).unwrap_or(now);
        let unknown = Repair::new(strikes, now.loss, back.loss);
        Repair {
            strikes,
            ..now.repair.unwrap_or(unknown)
        }
    });
    topology.set_link(from, to, Some(LinkCost { repair, ..now }));
}

/// Returns how often a link requests a lost packet when it is not `off`. `None` if nothing in the
/// snapshot says so: then the paper's single request counts. A new link requests as often as the
/// other links.
fn own_strikes(view: &View, from: NodeAddr, to: NodeAddr) -> Option<u8> {
    let before = view.topology();
    let told = match link(before, from, to) {
        Some(link) => link.repair.map(|repair| repair.strikes),
        None => {
            let links = before.nodes().flat_map(|node| before.links_from(node));
            let repairs = links.filter_map(|edge| edge.link.repair);
            repairs.map(|repair| repair.strikes).max()
        }
    };
    // The snapshot of a network that is `off` has no requests. Then the default of the nodes
    // counts.
    told.or_else(|| view.protections().is_off().then_some(MAX_STRIKES))
}

fn parse(view: &View, text: &str) -> Result<Written, ExplainError> {
    let bad = |why: String| misused(format!("`{text}`: {why}"));
    let mut words = text.split_whitespace();
    let Some(subject) = words.next() else {
        return Err(misused(format!("an edit is empty: {WORDS}")));
    };
    let words: Vec<&str> = words.collect();
    let subject = Subject::of(view, subject).map_err(bad)?;
    match (subject, words.as_slice()) {
        (_, []) => Err(bad(format!("nothing is said of it: {WORDS}"))),
        (Subject::Node(node), ["down"]) => Ok(Written::of(Edit::NodeDown(node))),
        (Subject::Node(_), _) => Err(bad(format!("a node can be `down`; {WORDS}"))),
        (Subject::Link(a, b, Direction::Both), ["down"]) => {
            Ok(Written::of(Edit::LinkDown { a, b }))
        }
        (Subject::Link(..), words) if words.contains(&"down") => Err(bad(
            "a link is down in both directions and has no loss or delay then: write `A-B down`"
                .into(),
        )),
        (Subject::Link(a, b, direction), words) => {
            let said = Words::of(words).map_err(bad)?;
            Ok(Written {
                edit: Edit::Link {
                    a,
                    b,
                    direction,
                    latency_us: said.latency_us,
                    loss: said.loss,
                    // A link that is not `off` requests as often as its own end does: see `ask`.
                    strikes: (said.protect == Some(Protect::Off)).then_some(0),
                },
                protect: said.protect,
            })
        }
    }
}

/// The values of an edit of a link.
#[derive(Default)]
struct Words {
    latency_us: Option<u32>,
    loss: Option<u16>,
    protect: Option<Protect>,
}

impl Words {
    fn of(words: &[&str]) -> Result<Words, String> {
        let mut said = Words::default();
        for word in words {
            match word.split_once('=') {
                Some(("delay", value)) if said.latency_us.is_none() => {
                    said.latency_us = Some(delay(value)?);
                }
                Some(("loss", value)) if said.loss.is_none() => {
                    let share = share::parse(value).map_err(|why| why.to_string())?;
                    said.loss = Some(LinkCost::new(0, share).loss);
                }
                Some(("protect", value)) if said.protect.is_none() => {
                    said.protect = Some(protect(value)?);
                }
                Some(("delay" | "loss" | "protect", _)) => {
                    return Err(format!("`{word}` is said twice"));
                }
                _ => return Err(format!("`{word}` is not understood: {WORDS}")),
            }
        }
        Ok(said)
    }
}

/// Reads a protection that a link can have. Other protections are settings of nodes.
fn protect(text: &str) -> Result<Protect, String> {
    let is_of_links = |protect: &Protect| !matches!(protect, Protect::EndToEnd | Protect::Paths);
    Protect::of_label(text)
        .filter(is_of_links)
        .ok_or_else(|| format!("`{text}` is no protection: use auto, requests, hop or off"))
}

fn delay(text: &str) -> Result<u32, String> {
    let most = Latency::MAX;
    let delay = impair::span(text).and_then(|span| u32::try_from(span.as_micros()).ok());
    delay.filter(|us| *us <= most.micros()).ok_or_else(|| {
        format!(
            "`{text}` is not a delay such as 40ms, up to {}",
            most.duration()
        )
    })
}

/// The node or link that an edit changes.
enum Subject {
    Node(NodeAddr),
    Link(NodeAddr, NodeAddr, Direction),
}

impl Subject {
    /// Reads a subject. Names may contain dashes, so every dash is tried.
    fn of(view: &View, text: &str) -> Result<Subject, String> {
        if let Ok(node) = view.address(text) {
            return Ok(Subject::Node(node));
        }
        let splits = text.match_indices(['-', '>']).map(|(at, sign)| {
            let direction = if sign == ">" {
                Direction::There
            } else {
                Direction::Both
            };
            (text[..at].trim_end_matches('-'), &text[at + 1..], direction)
        });
        let known = splits.filter_map(|(a, b, direction)| {
            Some((view.address(a).ok()?, view.address(b).ok()?, direction))
        });
        let mut found: Vec<_> = known.collect();
        found.dedup_by_key(|(a, b, _)| (*a, *b));
        match found.as_slice() {
            [(a, b, direction)] => Ok(Subject::Link(*a, *b, *direction)),
            [] => Err(Subject::unknown(view, text)),
            _ => Err("several links could be meant: use overlay addresses".to_owned()),
        }
    }

    /// Says which of the names is not known.
    fn unknown(view: &View, text: &str) -> String {
        let word = match text.split_once(['-', '>']) {
            Some((a, b)) if view.address(a).is_ok() => b,
            Some((a, _)) => a,
            None => text,
        };
        match view.address(word.trim_start_matches('>')) {
            Err(ExplainError::Misused(why)) => why,
            _ => WORDS.to_owned(),
        }
    }
}

fn say(view: &View, written: &Written) -> String {
    match written.edit {
        Edit::NodeDown(node) => format!("{} down", view.name(node)),
        Edit::LinkDown { a, b } => format!("{}-{} down", view.name(a), view.name(b)),
        Edit::Link {
            a,
            b,
            direction,
            latency_us,
            loss,
            ..
        } => {
            let sign = if direction == Direction::Both {
                "-"
            } else {
                ">"
            };
            let mut said = format!("{}{sign}{}", view.name(a), view.name(b));
            if let Some(us) = latency_us {
                said += &format!(" delay={}ms", f64::from(us) / 1e3);
            }
            if let Some(loss) = loss {
                said += &format!(" loss={}", share::percent(f64::from(loss) / 65_536.0));
            }
            if let Some(protect) = written.protect {
                said += &format!(" protect={}", protect.label());
            }
            said
        }
    }
}

fn misused(text: String) -> ExplainError {
    ExplainError::Misused(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use overlay::settings::Settings;
    use overlay::snapshot::{DampingRule, KnownLink, NamedNode, NetworkSnapshot};

    const A: NodeAddr = NodeAddr(1);
    const B: NodeAddr = NodeAddr(2);
    const C: NodeAddr = NodeAddr(3);

    /// Makes a view with `a`, `b` and a link of 5 % loss between them, which requests `strikes`
    /// times; `c` has no link.
    fn view(protect: &str, strikes: u8) -> View {
        let settings = Settings::modern();
        let node = |(name, addr): (&str, NodeAddr)| NamedNode {
            address: addr.to_string(),
            name: Some(name.to_owned()),
            bulk: None,
            refused: None,
        };
        let link = |(from, to): (NodeAddr, NodeAddr)| KnownLink {
            from: from.to_string(),
            to: to.to_string(),
            latency_us: 10_000,
            loss: LinkCost::new(0, 0.05).loss,
            price_us: 0,
            strikes,
            run_256ths: None,
            repair_16ths: 0,
            capacity_kbps: None,
            measured_kbps: None,
            together_kbps: None,
            together_is_all: false,
            spread_pct: 0,
            hops: None,
            over_tcp: false,
        };
        let snapshot = NetworkSnapshot {
            teller: None,
            profile: settings.name.to_owned(),
            detect_us: 2_000,
            late_us: 100_000,
            loss_us: 0,
            protect: Some(protect.to_owned()),
            aims: None,
            lanes: Vec::new(),
            nodes: [("a", A), ("b", B), ("c", C)].map(node).into(),
            links: [(A, B), (B, A)].map(link).into(),
            diverted: Vec::new(),
            rule: DampingRule::of(&settings.announce),
            holds: Vec::new(),
        };
        View::new(snapshot).unwrap()
    }

    fn after(view: &View, edits: &str, (from, to): (NodeAddr, NodeAddr)) -> LinkCost {
        link(&edited(view, edits).unwrap().topology, from, to).unwrap()
    }

    #[test]
    fn a_protected_link_asks_as_often_as_its_own_end_does() {
        for strikes in [0, 1, 3] {
            let view = view("requests", strikes);
            for way in [(A, B), (B, A)] {
                let before = link(view.topology(), way.0, way.1).unwrap();
                for edits in [
                    "a-b protect=requests",
                    "a-b protect=auto",
                    "a-b protect=off, a-b protect=hop",
                ] {
                    assert_eq!(after(&view, edits, way), before, "{strikes}: {edits}");
                }
                let off = after(&view, "a-b protect=off", way);
                assert_eq!(off.repair.map(|repair| repair.strikes), Some(0));
            }
            let added = after(&view, "a-c delay=5ms protect=auto", (C, A));
            let asks = added.repair.map(|repair| repair.strikes);
            assert_eq!(asks, (strikes > 0).then_some(strikes));
        }
    }

    #[test]
    fn both_directions_of_a_network_that_is_off_are_asked_over_the_new_loss() {
        let view = view("off", 0);
        let loss = LinkCost::new(0, 0.08).loss;
        for way in [(A, B), (B, A)] {
            let link = after(&view, "a-b loss=8% protect=auto", way);
            assert_eq!(link.loss, loss);
            let expected = Repair::new(MAX_STRIKES, loss, loss);
            assert_eq!(link.repair, Some(expected));
        }
    }
}
