//! `sinew reload`: lets a running node read its files again, and prints the result.

use crate::control::Control;
use crate::failure::{Failure, Outcome};
use crate::show::{list, text};
use crate::terminal;
use clap::Args;
use serde_json::Value;
use std::path::PathBuf;

/// Arguments of `sinew reload`.
#[derive(Debug, Args)]
pub struct ReloadArgs {
    /// The node: its directory or control socket; the one that runs here unless given
    #[arg(long, value_name = "NODE")]
    pub node: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Requests the reload. Files with mistakes change nothing, and the command fails. It also fails if the node refuses a
/// change.
pub fn run(args: &ReloadArgs) -> Outcome {
    let mut control = Control::find(args.node.as_deref())?;
    let answer = control.ask(&serde_json::json!({"cmd": "reload"}))?;
    match args.json {
        true => terminal::json(&answer)?,
        false => terminal::line(&told(&answer))?,
    }
    match list(&answer["refused"]) {
        [] => Ok(()),
        refused => Err(Failure::failed(format_args!(
            "not taken: {}",
            words(refused)
        ))),
    }
}

/// Describes the changes that are applied, and those that wait for the next start.
fn told(answer: &Value) -> String {
    let parts = [
        ("taken", &answer["taken"]),
        ("takes effect at the next start", &answer["later"]),
    ];
    let parts = parts.map(|(what, of)| (what, list(of)));
    let parts = parts.into_iter().filter(|(_, of)| !of.is_empty());
    let lines: Vec<String> = parts
        .map(|(what, of)| format!("{what}: {}", words(of)))
        .collect();
    match lines.is_empty() {
        true => "nothing has changed".to_owned(),
        false => lines.join("\n"),
    }
}

fn words(of: &[Value]) -> String {
    of.iter().map(text).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_taken_and_what_waits_are_told_apart() {
        let answer =
            json!({"taken": ["log_level", "exit 2022 leads to 127.0.0.1:22"], "later": ["dscp"]});
        assert_eq!(
            told(&answer),
            "taken: log_level, exit 2022 leads to 127.0.0.1:22\ntakes effect at the next start: dscp"
        );
        let nothing = json!({"taken": [], "later": [], "refused": []});
        assert_eq!(told(&nothing), "nothing has changed");
    }
}
