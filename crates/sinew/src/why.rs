//! `sinew why` and `sinew whatif`: the path that packets take, the runners-up, the numbers that decided, and the effect
//! of changed links.
//!
//! The network comes from a running node, over its control socket, or from a scenario file. Everything else is in
//! `tools::explain`, for both in the same way.

mod group;

use crate::control::Control;
use crate::failure::{Failure, Outcome};
use crate::groups::one_group;
use crate::quantity::span;
use crate::service::{Protection, Question};
use crate::sim;
use crate::table::Page;
use crate::terminal;
use base::Duration;
use clap::Args;
use overlay::snapshot::NetworkSnapshot;
use serde::Serialize;
use serde_json::{Value, json};
use std::fmt::{self, Display};
use std::path::PathBuf;
use tools::explain::{self, Asked, ExplainError, RUNNERS_UP_MAX, View};

/// The column at which text begins after `why` and `held`.
const INDENT: usize = 6;

/// Arguments of `sinew why`.
#[derive(Debug, Args)]
pub struct Why {
    /// The source: a name or overlay address, or call:ID for a call of the gateway beside the node
    pub src: String,
    /// The destination: a node or a multicast group
    pub dst: Option<String>,
    /// What is asked, and of whom
    #[command(flatten)]
    pub about: About,
}

/// Arguments of `sinew whatif`.
#[derive(Debug, Args)]
pub struct WhatIf {
    /// The change: `C-D loss=8%`, `C-D delay=40ms`, `C-D down`, `fra down`; separate several with
    /// commas. `C>D loss=8%` changes one direction. A delay adds a link that does not exist.
    /// `C-D protect=off` or `protect=requests`, `auto` or `hop` changes the repair of losses
    pub edits: String,
    /// The source; default: show every pair of nodes whose path changes
    #[arg(requires = "dst")]
    pub src: Option<String>,
    /// The destination: a node or a multicast group
    pub dst: Option<String>,
    /// What is asked, and of whom
    #[command(flatten)]
    pub about: About,
}

/// What both ask, and of whom.
#[derive(Debug, Args)]
pub struct About {
    /// How the path is chosen
    #[command(flatten)]
    pub question: Question,
    /// Deadline: packets that arrive later are lost
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = span)]
    pub deadline: Duration,
    /// The sender's loss target and repair limit
    #[command(flatten)]
    pub protection: Protection,
    /// Number of other paths to show
    #[arg(long, value_name = "N", default_value_t = Asked::default().runners_up,
          value_parser = runners_up)]
    pub runners_up: usize,
    /// The network
    #[command(flatten)]
    pub network: Network,
}

/// The network that a question is about, and how the answer is printed.
#[derive(Debug, Args)]
pub struct Network {
    /// Control socket of the node to ask; default: SINEW_NODE, else the only one below this directory
    /// or in /run/sinew
    #[arg(long, value_name = "SOCKET", conflicts_with = "scenario")]
    pub node: Option<PathBuf>,
    /// Ask a scenario file instead of a node
    #[arg(long, value_name = "FILE")]
    pub scenario: Option<PathBuf>,
    /// The time in the scenario; all faults up to then have happened
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = span)]
    pub at: Duration,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Explains why packets take their path.
pub fn why(args: &Why) -> Outcome {
    let Why { src, dst, about } = args;
    if let Some(call) = src.strip_prefix("call:") {
        let Network { node, json, .. } = &about.network;
        return crate::calls::why(call, node.as_deref(), *json);
    }
    let Some(dst) = dst else {
        return Err(Failure::misused("name two nodes, or a call by call:ID"));
    };
    if let Ok(group) = one_group(dst)
        && group.is_multicast()
    {
        return group::why(src, group, about);
    }
    let view = about.network.view()?;
    let why = explain::why(&view, src, dst, &about.asked()).map_err(failure)?;
    let (refused, uplinks) = match about.network.scenario {
        Some(_) => (Vec::new(), Vec::new()),
        None => {
            let status = Control::find(about.network.node.as_deref())?.status()?;
            let refused = refused(&status, &why.from.address, &why.to.address);
            (refused, uplinks(&status, &why))
        }
    };
    about.network.tell(&Told {
        why,
        refused,
        uplinks,
    })
}

/// The explanation of a path, and the flows that a link of the asked node refuses because it has no room.
#[derive(Serialize)]
struct Told {
    #[serde(flatten)]
    why: explain::Why,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    refused: Vec<Refused>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    uplinks: Vec<Uplink>,
}

/// The path that the asked node uses to the next node, if it has several.
#[derive(Debug, PartialEq, Serialize)]
struct Uplink {
    to: String,
    from: String,
    at: String,
    spares: usize,
    why: String,
}

/// A refused flow: its ends with the ports, since when it is refused, and why.
#[derive(Debug, PartialEq, Serialize)]
struct Refused {
    from: String,
    to: String,
    why: String,
}

impl Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.why)?;
        for Refused { from, to, why } in &self.refused {
            write!(f, "\nrefused: {from} -> {to}: {why}")?;
        }
        for uplink in &self.uplinks {
            let Uplink {
                to,
                from,
                at,
                spares,
                why,
            } = uplink;
            write!(
                f,
                "\nlink to {to}: by {from} -> {at}, with {spares} spare: {why}"
            )?;
        }
        Ok(())
    }
}

/// Returns the paths in use of the asked node's own links on the route, if a link has several paths.
fn uplinks(status: &Value, why: &explain::Why) -> Vec<Uplink> {
    let own = status["snapshot"]["name"].as_str().unwrap_or_default();
    let paths: Vec<Vec<String>> = match &why.diverted {
        Some(diverted) => vec![diverted.path.clone()],
        None => why
            .choice
            .chosen
            .iter()
            .map(|path| path.path.clone())
            .collect(),
    };
    uplinks_of(status, own, &paths)
}

fn uplinks_of(status: &Value, own: &str, chosen: &[Vec<String>]) -> Vec<Uplink> {
    let snapshot = &status["snapshot"];
    let next = |path: &Vec<String>| {
        let mut hops = path.windows(2);
        let hop = hops.find(|hop| hop[0] == own);
        hop.map(|hop| hop[1].clone())
    };
    let next: Vec<String> = chosen.iter().filter_map(next).collect();
    let links = snapshot["links"].as_array().into_iter().flatten();
    let taken = links.filter(|link| next.iter().any(|name| link["name"] == **name));
    taken.filter_map(uplink).collect()
}

fn uplink(link: &Value) -> Option<Uplink> {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let paths = link["paths"].as_array().filter(|paths| paths.len() > 1)?;
    let used = paths.iter().find(|path| path["in_use"] == true)?;
    let cost = |path: &Value| path["cost_ms"].as_f64().unwrap_or_default();
    let others = paths.iter().filter(|path| path["in_use"] != true);
    let best = others.filter(|path| path["state"] == "up").map(cost);
    let best = best.min_by(f64::total_cmp);
    let why = match (used["chosen"][0].as_str(), best) {
        (Some(why), _) => format!("the path before was left: {why}"),
        (None, Some(best)) => format!("it costs {:.1} ms, the best spare {best:.1} ms", cost(used)),
        (None, None) => format!("it costs {:.1} ms, and no spare is up", cost(used)),
    };
    Some(Uplink {
        to: text(&link["name"]),
        from: text(&used["from"]),
        at: text(&used["at"]),
        spares: paths.len() - 1,
        why,
    })
}

/// Returns the refused flows between two nodes, as far as the asked node knows.
fn refused(status: &Value, from: &str, to: &str) -> Vec<Refused> {
    let flows = status["snapshot"]["flows"].as_array();
    let is_of = |end: &Value, node: &str| {
        let end = end.as_str().and_then(|end| end.rsplit_once(':'));
        end.is_some_and(|(address, _)| address == node)
    };
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let refused = flows.into_iter().flatten().filter_map(|flow| {
        let why = text(&flow["refused"])?;
        let is_theirs = is_of(&flow["from"], from) && is_of(&flow["to"], to);
        let (from, to) = (text(&flow["from"])?, text(&flow["to"])?);
        is_theirs.then_some(Refused { from, to, why })
    });
    refused.collect()
}

/// Shows the effect of edits.
pub fn what_if(args: &WhatIf) -> Outcome {
    let WhatIf {
        edits,
        src,
        dst,
        about,
    } = args;
    let pair = src.as_deref().zip(dst.as_deref());
    let told = explain::what_if(&about.network.view()?, edits, pair, &about.asked());
    about.network.tell(&told.map_err(failure)?)
}

/// Returns the network as a node knows it.
pub fn ask(control: &mut Control) -> Result<View, Failure> {
    let answer = control.ask(&json!({"cmd": "network"}))?;
    let snapshot: NetworkSnapshot = serde_json::from_value(answer)
        .map_err(|error| failure(ExplainError::Snapshot(error.to_string())))?;
    View::new(snapshot).map_err(failure)
}

impl About {
    fn asked(&self) -> Asked {
        Asked {
            class: self.question.chosen().unwrap_or(Asked::default().class),
            deadline: self.deadline,
            runners_up: self.runners_up,
            aim: self.protection.aim(),
        }
    }
}

impl Network {
    /// Returns the network as the node knows it, or from the scenario file.
    pub fn view(&self) -> Result<View, Failure> {
        let Some(file) = &self.scenario else {
            if self.at > Duration::ZERO {
                return Err(Failure::misused(
                    "--at is a moment of a scenario: name its file by --scenario",
                ));
            }
            return ask(&mut Control::find(self.node.as_deref())?);
        };
        View::new(sim::network_at(file, self.at)?).map_err(failure)
    }

    /// Prints an answer.
    pub fn tell(&self, told: &(impl Serialize + Display)) -> Outcome {
        if self.json {
            return terminal::json(&serde_json::to_value(told).map_err(Failure::failed)?);
        }
        // Sentences are longer than a line; tables fit into one.
        let page = Page::wrapped(&told.to_string(), &terminal::look(), INDENT);
        terminal::line(page.to_string().trim_end())
    }
}

/// Converts the failure of a question.
pub fn failure(error: ExplainError) -> Failure {
    match error {
        ExplainError::Misused(_) => Failure::misused(error),
        ExplainError::NoPath(_) | ExplainError::Snapshot(_) => Failure::failed(error),
    }
}

fn runners_up(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|n| *n <= RUNNERS_UP_MAX);
    number.ok_or_else(|| format!("expected a number up to {RUNNERS_UP_MAX}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_in_use_of_the_own_link_is_told_where_there_are_several() {
        let path = |at: &str, in_use: bool, chosen: Value| json!({"at": at, "from": "10.1.0.1:7700", "state": "up", "in_use": in_use, "cost_ms": 12.0, "chosen": chosen});
        let status = |chosen: Value| {
            json!({"snapshot": {"name": "a", "links": [
                {"name": "b", "paths": [path("10.1.0.2:7700", true, chosen), path("10.2.0.2:7700", false, Value::Null)]},
                {"name": "c", "paths": [path("10.1.0.3:7700", true, Value::Null)]},
            ]}})
        };
        let told = |status: &Value, path: &[&str]| {
            let own = status["snapshot"]["name"].as_str().unwrap_or_default();
            let nodes: Vec<String> = path.iter().map(|node| (*node).to_owned()).collect();
            uplinks_of(status, own, &[nodes])
        };
        let never = status(Value::Null);
        let [uplink] = &told(&never, &["a", "b", "d"])[..] else {
            panic!("one link of the path is the asked node's")
        };
        assert_eq!((uplink.at.as_str(), uplink.spares), ("10.1.0.2:7700", 1));
        assert_eq!(uplink.why, "it costs 12.0 ms, the best spare 12.0 ms");
        let silent = status(json!(["silent for 180 ms", 3.0]));
        let told_of = |path: &[&str]| told(&silent, path).pop().map(|uplink| uplink.why);
        let why = "the path before was left: silent for 180 ms";
        assert_eq!(told_of(&["a", "b"]).as_deref(), Some(why));
        assert_eq!(told_of(&["a", "c"]), None, "it has one path");
        assert_eq!(
            told_of(&["c", "b"]),
            None,
            "that is not the asked node's link"
        );
    }

    #[test]
    fn refused_flows_of_the_pair_are_told_and_no_others() {
        let flow = |from: &str, to: &str, refused: Value| json!({"from": format!("{from}:4000"), "to": format!("{to}:5000"), "refused": refused});
        let why = "no room on the link to fra, which carries 142 kbit/s, for 7 s";
        let status = json!({"snapshot": {"flows": [
            flow("10.7.0.1", "10.7.0.3", json!(why)),
            flow("10.7.0.1", "10.7.0.3", Value::Null),
            flow("10.7.0.1", "10.7.0.30", json!(why)),
            flow("10.7.0.3", "10.7.0.1", json!(why)),
        ]}});
        let told = refused(&status, "10.7.0.1", "10.7.0.3");
        let expected = Refused {
            from: "10.7.0.1:4000".into(),
            to: "10.7.0.3:5000".into(),
            why: why.into(),
        };
        assert_eq!(told, [expected]);
    }
}
