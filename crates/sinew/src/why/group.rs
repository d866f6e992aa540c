//! `sinew why SOURCE GROUP`: the tree over which a source's packets reach a group's members, the reason for each path,
//! and the permissions.
//!
//! A tree of link state is the union of the shortest paths from the source to each member, by the metric of the group's
//! packets. So the reasons are those of `sinew why` for each member, with the numbers that the asked node knows. If
//! there are two trees, they are shown without reasons.

use super::{About, ask, failure};
use crate::control::Control;
use crate::failure::{Failure, Outcome};
use crate::groups::{SILENT_MS, flow, lacks_source, may_not_send, unknown};
use crate::names::Names;
use crate::service;
use crate::show::{list, text};
use base::{Duration, NodeAddr};
use serde::Serialize;
use serde_json::{Value, json};
use std::fmt::{self, Display};
use tools::explain::{self, Asked, ExplainError};

/// Most members whose paths are shown; each path is a search of the whole network.
const MEMBERS_MAX: usize = 64;

/// The whole answer.
#[derive(Serialize)]
struct Told {
    group: String,
    source: String,
    /// The protocol that builds the tree: `link-state` or `scribe`.
    tree: String,
    /// The group's setting, as the node reports it.
    setting: Value,
    permits: Value,
    /// Members that may not receive, by name.
    kept_out: Vec<String>,
    /// For two trees: both paths to each member, as the node reports them.
    ways: Value,
    /// Second paths to members in trouble, as the node reports them.
    second: Value,
    members: Vec<explain::Why>,
    /// Members without a path from the source.
    no_path: Vec<NoPath>,
    /// The deadline by which the paths are judged, and where it comes from.
    deadline_ms: f64,
    deadline_of: &'static str,
    #[serde(skip)]
    lines: Vec<String>,
}

/// A member without a path, and why there is none.
#[derive(Debug, PartialEq, Serialize)]
struct NoPath {
    to: String,
    why: String,
}

pub(super) fn why(source: &str, group: NodeAddr, about: &About) -> Outcome {
    if about.network.scenario.is_some() {
        let why = "groups of a scenario file have no members: ask a node";
        return Err(Failure::misused(why));
    }
    let mut control = Control::find(about.network.node.as_deref())?;
    let answer = control.ask(&json!({"cmd": "groups", "group": group.to_string()}))?;
    let status = control.status()?;
    let known = list(&answer["groups"]).first();
    let lacks = lacks_source(group, known.unwrap_or(&Value::Null));
    let Some(known) = known.filter(|_| lacks.is_none()) else {
        return Err(Failure::failed(unknown(group, lacks)));
    };
    let view = ask(&mut control)?;
    let names = Names::of(&status);
    let from = names
        .address(source)
        .map_or_else(|_| source.to_owned(), |node| node.to_string());
    let own_flow = flow(&status, &from, &group.to_string());
    let (asked, deadline_of) = asked_of(known, own_flow, about);
    let members = list(&known["members"]).iter().map(text);
    let kept_out: Vec<&str> = list(&known["kept_out"]).iter().map(text).collect();
    let reached = members.filter(|member| !kept_out.contains(member));
    // Members at the source's own node need no path.
    let is_source = |member: &&str| *member == source || names.name(member) == source;
    let ways = reached
        .filter(|member| !is_source(member))
        .take(MEMBERS_MAX);
    let ways = ways.map(|member| (member, explain::why(&view, source, member, &asked)));
    let (members, no_path) = sorted(ways, &names).map_err(failure)?;
    let of_source = |told: &&Value| {
        let from = text(&told["source"]);
        from == source || names.name(from) == source
    };
    let sending = list(&known["sources"]).iter().find(of_source);
    let mut told = Told {
        group: group.to_string(),
        source: source.to_owned(),
        tree: text(&known["tree"]).to_owned(),
        setting: known["setting"].clone(),
        permits: known["permits"].clone(),
        kept_out: kept_out
            .iter()
            .map(|node| names.name(node).to_owned())
            .collect(),
        ways: sending.map_or(Value::Null, |sending| sending["ways"].clone()),
        second: sending.map_or(Value::Null, |sending| sending["second"].clone()),
        members,
        no_path,
        deadline_ms: asked.deadline.as_secs_f64() * 1e3,
        deadline_of,
        lines: Vec::new(),
    };
    let is_asked = from == text(&status["snapshot"]["address"]);
    let refused = may_not_send(known, &status).filter(|_| is_asked);
    told.lines = lines(&told, known, (sending, refused), &names);
    about.network.tell(&told)
}

/// Sorts the answers about members into paths, and members without one. A wrong question, such as an unknown source, is
/// an error.
fn sorted<'a>(
    answers: impl Iterator<Item = (&'a str, Result<explain::Why, ExplainError>)>,
    names: &Names,
) -> Result<(Vec<explain::Why>, Vec<NoPath>), ExplainError> {
    let (mut members, mut no_path) = (Vec::new(), Vec::new());
    for (member, answer) in answers {
        match answer {
            Ok(why) => members.push(why),
            Err(ExplainError::NoPath(why)) => no_path.push(NoPath {
                to: names.name(member).to_owned(),
                why,
            }),
            Err(error) => return Err(error),
        }
    }
    Ok((members, no_path))
}

/// Returns how the group's packets choose their path: by the command line, or by the group's setting; and what the
/// deadline is from: the group's setting, or the packets of the source as the asked node knows them, or the command
/// line.
fn asked_of(known: &Value, flow: Option<&Value>, about: &About) -> (Asked, &'static str) {
    let setting = &known["setting"];
    let set = setting["routing"]
        .as_str()
        .and_then(|word| word.parse().ok());
    let chosen = about.question.chosen().or(set);
    let of = |told: &Value| {
        let ms = told["deadline_ms"].as_f64().filter(|ms| *ms > 0.0)?;
        Some(Duration::from_micros((ms * 1e3) as u64).min(explain::DEADLINE_MAX))
    };
    let (deadline, deadline_of) = match (of(setting), flow.and_then(of)) {
        (Some(deadline), _) => (deadline, "the group's setting"),
        (None, Some(deadline)) => (deadline, "the source's socket"),
        (None, None) => (
            about.deadline,
            "--deadline: the asked node knows none of the packets",
        ),
    };
    let asked = Asked {
        class: chosen.unwrap_or(Asked::default().class),
        deadline,
        runners_up: about.runners_up,
        aim: match about.protection.aim() {
            aim if aim.is_said() => aim,
            _ => service::aim_of(setting),
        },
    };
    (asked, deadline_of)
}

fn lines(
    told: &Told,
    known: &Value,
    (sending, refused): (Option<&Value>, Option<String>),
    names: &Names,
) -> Vec<String> {
    let mut lines = vec![format!(
        "{} to {}, along {}",
        told.source,
        told.group,
        match (told.tree.as_str(), list(&told.ways)) {
            ("scribe", _) =>
                "a tree of Scribe: its edges are paths, and each node knows its own; \
                              below are the shortest ways, not the tree",
            (_, []) if !told.second.is_null() =>
                "one tree: to each member the shortest way from the source, and a second way while links to it lose packets",
            (_, []) => "one tree: to each member the shortest way from the source",
            _ => "two trees, as far apart as the network lets them be",
        }
    )];
    if let Some(by) = told.setting["set_by"].as_str() {
        lines.push(format!(
            "set by {}: {}",
            names.name(by),
            crate::groups::carried(&told.setting)
        ));
    }
    let (ms, of) = (told.deadline_ms, told.deadline_of);
    lines.push(format!("judged by a deadline of {ms} ms, from {of}"));
    match list(&told.permits) {
        [] => lines.push("who may: all may send and receive".to_owned()),
        permits => lines.extend(
            permits
                .iter()
                .map(|permit| crate::groups::permitted(permit, names)),
        ),
    }
    if !told.kept_out.is_empty() {
        let who = told.kept_out.join(", ");
        lines.push(format!("members that may not receive: {who}"));
    }
    match (sending, refused) {
        (_, Some(refused)) => lines.push(refused),
        (None, None) => lines.push(format!(
            "{} sends nothing through the asked node",
            told.source
        )),
        (Some(sending), None) => lines.push(format!(
            "passes here: {} packets; {} waited for in vain, {} too late for order",
            sending["packets"], sending["given_up"], sending["late"]
        )),
    }
    for ways in list(&told.ways) {
        let [one, two] = [0, 1].map(|n| {
            let nodes = list(&ways["ways"][n])
                .iter()
                .map(|node| names.name(text(node)));
            nodes.collect::<Vec<_>>().join(" - ")
        });
        lines.push(format!(
            "to {}: {one}, and {two}",
            names.name(text(&ways["member"]))
        ));
    }
    lines.extend(crate::groups::second_ways(&told.second, names));
    if list(&known["members"]).is_empty() {
        lines.push("no node has members".to_owned());
    }
    lines
}

impl Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lines.join("\n"))?;
        for why in &self.members {
            let Some(way) = why.choice.chosen.first() else {
                continue;
            };
            let to = &why.to.name;
            if way.expected_latency_ms >= SILENT_MS {
                write!(
                    f,
                    "\nto {to}: {}: no path but over a silent link, which packets try",
                    way.path.join(" - ")
                )?;
                continue;
            }
            write!(
                f,
                "\nto {to}: {}: {:.1} ms, {:.2} % lost without repair; in time {:.3} % with it, {:.3} % without",
                way.path.join(" - "),
                way.latency_ms,
                way.loss_pct,
                way.in_time_pct,
                way.in_time_unrecovered_pct
            )?;
            write!(f, "\nwhy: {}", why.choice.reason)?;
            if let Some(worst) = why.worst() {
                write!(f, "\nprotection, worst link: {worst}")?;
            }
            for help in &why.help {
                write!(f, "\nhelp: {}", help.words(why.deadline_ms))?;
            }
        }
        for NoPath { to, why } in &self.no_path {
            write!(f, "\nto {to}: no path: {why}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
