//! `sinew lab impair`: emulates a bad network for the packets that a node sends to a neighbour. `sinew link set` and
//! `sinew link clear` are the names of the previous release.

use crate::control::Control;
use crate::failure::{Failure, Outcome};
use crate::names;
use crate::terminal;
use base::impair::Model;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Arguments of `lab impair`.
#[derive(Debug, Args)]
pub struct Impair {
    #[command(flatten)]
    ends: Ends,
    /// The impairment, such as `loss=5% delay=10ms`
    #[arg(required_unless_present = "clear", value_name = "WORD")]
    model: Vec<String>,
    /// End the impairment
    #[arg(long, conflicts_with = "model")]
    clear: bool,
}

/// The subcommands of `sinew link`.
#[derive(Debug, Subcommand)]
pub enum Link {
    /// Impair the packets from node A to its neighbour B (both nodes with `lab = true`)
    #[command(after_help = "\
Words: loss=5% burst=25% delay=10ms jitter=2ms reorder rate=10mbit queue=50
  outage gilbert=..

Examples:
  sinew lab impair ams fra loss=5% burst=25% delay=10ms
  sinew lab impair ams fra delay=10ms rate=10mbit --both")]
    Set(Set),
    /// End the impairment
    #[command(after_help = "Example:\n  sinew lab impair ams fra --clear --both")]
    Clear(Clear),
}

/// Arguments of `link set`.
#[derive(Debug, Args)]
pub struct Set {
    #[command(flatten)]
    ends: Ends,
    /// The impairment, such as `loss=5% delay=10ms`
    #[arg(required = true, value_name = "WORD")]
    model: Vec<String>,
}

/// Arguments of `link clear`.
#[derive(Debug, Args)]
pub struct Clear {
    #[command(flatten)]
    ends: Ends,
}

#[derive(Debug, Args)]
struct Ends {
    /// The node that sends: name or overlay address
    a: String,
    /// Its neighbour
    b: String,
    /// Also impair the packets from B to A; both nodes must run here
    #[arg(long)]
    both: bool,
    /// The control socket of A; default: found by its name
    #[arg(long, value_name = "SOCKET")]
    node: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(command: &Link) -> Outcome {
    match command {
        Link::Set(Set { ends, model }) => set(ends, model),
        Link::Clear(Clear { ends }) => clear(ends),
    }
}

/// Runs `sinew lab impair`.
pub fn impair(args: &Impair) -> Outcome {
    match args.clear {
        true => clear(&args.ends),
        false => set(&args.ends, &args.model),
    }
}

fn set(ends: &Ends, model: &[String]) -> Outcome {
    let text = model.join(" ");
    // The model is checked here, so that a mistake does not change the first end and then fail at the second.
    let model: Model = text.parse().map_err(Failure::misused)?;
    let model = model.to_string();
    act(
        ends,
        &model,
        |neighbor| json!({"cmd": "link_set", "neighbor": neighbor, "model": model}),
    )
}

fn clear(ends: &Ends) -> Outcome {
    act(
        ends,
        "clear",
        |neighbor| json!({"cmd": "link_clear", "neighbor": neighbor}),
    )
}

fn act(ends: &Ends, what: &str, question: impl Fn(&str) -> Value) -> Outcome {
    let a = match &ends.node {
        None => names::running(&ends.a)?,
        Some(path) => {
            let mut control = Control::find(Some(path))?;
            let status = control.status()?;
            if !names::is(&status, &ends.a) {
                return Err(Failure::misused(format_args!(
                    "the node at {} is {}, not `{}`",
                    control.at(),
                    status["snapshot"]["name"],
                    ends.a
                )));
            }
            (control, status)
        }
    };
    let mut directions = vec![(a, ends.b.as_str())];
    if ends.both {
        directions.push((names::running(&ends.b)?, ends.a.as_str()));
    }
    let mut done = Vec::new();
    for ((control, status), neighbor) in &mut directions {
        control.ask(&question(neighbor))?;
        let from = status["snapshot"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        done.push((from, *neighbor));
    }
    if ends.json {
        let directions: Vec<Value> = done
            .iter()
            .map(|(from, to)| json!({"from": from, "to": to}))
            .collect();
        return terminal::json(&json!({"model": what, "directions": directions}));
    }
    let lines: Vec<String> = done
        .iter()
        .map(|(from, to)| format!("{from} -> {to}: {what}"))
        .collect();
    terminal::line(&lines.join("\n"))
}
