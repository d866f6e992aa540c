//! Edits as people write them: `C-D loss=8%`, `C-D delay=40ms`, `C-D down`, `fra down`; several
//! with commas between them.

use super::{ExplainError, View};
use crate::share;
use base::{NodeAddr, impair};
use graph::LinkCost;
use graph::Topology;
use graph::explain::edit::{BadEdit, Direction, Edit, apply};
use wire::Latency;

/// Edits in one text, at most: more are a scenario of their own.
pub const EDITS_MAX: usize = 100;
/// The longest text: 100 edits with two names of 32 bytes and two words each.
pub const EDIT_BYTES_MAX: usize = 16 << 10;

const WORDS: &str = "write `A-B loss=5% delay=20ms`, `A>B loss=5%` for one direction, `A-B down`, or \
                     `A down`; several with commas between them";

/// The network after the edits, and the edits in one way of writing.
pub(super) fn edited(view: &View, text: &str) -> Result<(Topology, Vec<String>), ExplainError> {
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
    let mut said = Vec::new();
    for text in texts {
        let edit = parse(view, text)?;
        topology = apply(&topology, &[edit]).map_err(|why| {
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
        said.push(say(view, &edit));
    }
    Ok((topology, said))
}

fn parse(view: &View, text: &str) -> Result<Edit, ExplainError> {
    let bad = |why: String| misused(format!("`{text}`: {why}"));
    let mut words = text.split_whitespace();
    let Some(subject) = words.next() else {
        return Err(misused(format!("an edit is empty: {WORDS}")));
    };
    let words: Vec<&str> = words.collect();
    let subject = Subject::of(view, subject).map_err(bad)?;
    match (subject, words.as_slice()) {
        (_, []) => Err(bad(format!("nothing is said of it: {WORDS}"))),
        (Subject::Node(node), ["down"]) => Ok(Edit::NodeDown(node)),
        (Subject::Node(_), _) => Err(bad(format!("a node can be `down`; {WORDS}"))),
        (Subject::Link(a, b, Direction::Both), ["down"]) => Ok(Edit::LinkDown { a, b }),
        (Subject::Link(..), words) if words.contains(&"down") => Err(bad(
            "a link is down in both directions and has no loss or delay then: write `A-B down`"
                .into(),
        )),
        (Subject::Link(a, b, direction), words) => {
            let (mut latency_us, mut loss) = (None, None);
            for word in words {
                match word.split_once('=') {
                    Some(("delay", value)) if latency_us.is_none() => {
                        latency_us = Some(delay(value).map_err(bad)?);
                    }
                    Some(("loss", value)) if loss.is_none() => {
                        let share = share::parse(value).map_err(|why| bad(why.to_string()))?;
                        loss = Some(LinkCost::new(0, share).loss);
                    }
                    Some(("delay" | "loss", _)) => {
                        return Err(bad(format!("`{word}` is said twice")));
                    }
                    _ => return Err(bad(format!("`{word}` is not understood: {WORDS}"))),
                }
            }
            Ok(Edit::Link {
                a,
                b,
                direction,
                latency_us,
                loss,
            })
        }
    }
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

/// What an edit is about.
enum Subject {
    Node(NodeAddr),
    Link(NodeAddr, NodeAddr, Direction),
}

impl Subject {
    /// Names may have dashes in them, so every dash is tried.
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

    /// Which of the names is not known.
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

fn say(view: &View, edit: &Edit) -> String {
    match *edit {
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
            said
        }
    }
}

fn misused(text: String) -> ExplainError {
    ExplainError::Misused(text)
}
