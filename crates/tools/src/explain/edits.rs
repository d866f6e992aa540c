//! Edits as users write them: `C-D loss=8%`, `C-D delay=40ms`, `C-D protect=off`, `C-D down`, `fra
//! down`. Commas separate several edits.

use super::announced::Announced;
use super::protection::Protections;
use super::view::link;
use super::{ExplainError, View};
use crate::share;
use base::{NodeAddr, impair};
use graph::explain::edit::{BadEdit, Direction, Edit, apply};
use graph::{LinkCost, Topology};
use overlay::realtime::Protect;
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
        let after = apply(&topology, &[written.edit]).map_err(|why| {
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
        let before = std::mem::replace(&mut topology, after);
        written.protect(view, &before, &mut topology, &mut protections);
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

    /// Gives the edited link the protection of the edit, and a new link that of the other links.
    fn protect(
        &self,
        view: &View,
        before: &Topology,
        topology: &mut Topology,
        protections: &mut Protections,
    ) {
        let Edit::Link {
            a, b, direction, ..
        } = self.edit
        else {
            return;
        };
        for ends in direction.of(a, b) {
            let announced = Announced::of(view, ends);
            let announced = match self.protect {
                Some(protect) => {
                    protections.set(ends.0, ends.1, protect);
                    announced.map(|announced| announced.with(view, protect))
                }
                None => announced.filter(|_| link(before, ends.0, ends.1).is_none()),
            };
            if let Some(announced) = announced {
                announced.set(topology, ends);
            }
        }
    }
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
mod tests;
