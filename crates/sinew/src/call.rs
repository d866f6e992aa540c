//! `sinew test-call`: synthetic voice calls to another node, over the overlay and directly.

use crate::control::Control;
use crate::echo::Path;
use crate::failure::{Failure, Outcome};
use crate::names::{as_client, client_socket};
use crate::quantity;
use crate::service::{Paths, Protection};
use crate::terminal;
use clap::Args;
use client::Node;
use serde_json::json;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use tools::call::{
    ANSWER_PORT, AnswerOptions, CallError, CallOptions, Codec, DIRECT_PORT, Interval,
};
use tools::explain::{self, Asked};
use tools::progress::Progress;

/// Calls of this length, in seconds, have reports while they last.
const LONG_S: u32 = 120;
/// Interval of these reports in seconds.
const EVERY_S: u32 = 60;
/// How long the called node may take to answer, before the calls begin.
const ANSWER: base::Duration = base::Duration::from_secs(1);

/// Arguments of `sinew test-call`.
#[derive(Debug, Args)]
pub struct Call {
    /// The node to call: name or overlay address; `sinew test-call --answer` runs there
    #[arg(required_unless_present = "answer")]
    pub to: Option<String>,
    /// Also call directly, at the same time: the address of `--answer`, such as fra.example.net:7717
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "answer")]
    pub direct: Option<String>,
    /// Calls in parallel, on each path
    #[arg(long, default_value_t = 1, conflicts_with = "answer")]
    pub calls: u32,
    /// Length of the calls, up to a day: 36, 10m, 24h
    #[arg(long, value_name = "TIME", default_value = "36", value_parser = quantity::whole_seconds,
          conflicts_with = "answer")]
    pub seconds: u32,
    /// Codec of the packets: pcmu, pcma or opus
    #[arg(long, default_value_t, conflicts_with = "answer")]
    pub codec: Codec,
    /// Interval of reports, rounded up to tens of seconds; 0: none. Default: every minute for calls of
    /// two minutes or more
    #[arg(long, value_name = "TIME", value_parser = quantity::whole_seconds,
          conflicts_with = "answer")]
    pub every: Option<u32>,
    /// Deadline of a packet, in both directions: packets that arrive later count as late
    #[arg(long, value_name = "TIME", default_value = "150ms",
          value_parser = quantity::call_deadline, conflicts_with = "answer")]
    pub deadline: base::Duration,
    #[command(flatten)]
    pub(crate) paths: Paths,
    #[command(flatten)]
    pub(crate) protection: Protection,
    /// Answer calls at this node until you press Ctrl-C
    #[arg(long, conflicts_with = "to")]
    pub answer: bool,
    /// Where to answer direct calls
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "to",
          default_value_t = SocketAddr::from((Ipv4Addr::UNSPECIFIED, DIRECT_PORT)))]
    pub listen: SocketAddr,
    /// The control socket of the node to call from, or to answer at
    #[arg(long, value_name = "SOCKET")]
    pub node: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Print every step, even if the output is not a terminal
    #[arg(long)]
    pub verbose: bool,
}

/// Makes calls, or answers them.
pub fn run(args: &Call) -> Outcome {
    if let Some(to) = &args.to {
        let path = Path::soon(args.node.as_deref(), to)?;
        path.come(ANSWER)?;
        if let Some(warning) = warning(args, path.to) {
            let _ = writeln!(io::stderr(), "WARNING: {warning}");
        }
        return call(args, path.node, path.to);
    }
    if let Some(node) = as_client(args.node.as_deref())? {
        return answer(args, node);
    }
    let status = Control::find_soon(args.node.as_deref())?.status()?;
    answer(args, Node::at(client_socket(&status)?))
}

/// Returns a warning if the calls cannot be protected over the present path. There is no warning if the node does not
/// report its network, or if an option names a client socket.
fn warning(args: &Call, to: base::NodeAddr) -> Option<String> {
    let mut control = Control::find(args.node.as_deref()).ok()?;
    let status = control.status().ok()?;
    let view = crate::why::ask(&mut control).ok()?;
    let from = status["snapshot"]["address"].as_str()?;
    let usual = Asked::default();
    let asked = Asked {
        class: match args.paths.chosen() {
            Some(by) => by.label().parse().ok()?,
            None => usual.class,
        },
        deadline: args.deadline.min(explain::DEADLINE_MAX),
        runners_up: 0,
        aim: args.protection.aim(),
    };
    let why = explain::why(&view, from, &to.to_string(), &asked).ok()?;
    why.warning()
}

fn call(args: &Call, node: Node, to: base::NodeAddr) -> Outcome {
    let every = args.every.unwrap_or(match args.seconds {
        LONG_S.. => EVERY_S,
        _ => 0,
    });
    let mut told = Ok(());
    let mut report = |interval: &Interval| {
        let line = match args.json {
            true => interval.json(),
            false => interval.to_string(),
        };
        // If the output is closed, the calls continue, and the command reports the error at its end.
        if told.is_ok() {
            told = terminal::line(&line);
        }
    };
    let options = CallOptions {
        node,
        to,
        direct: args.direct.clone(),
        calls: args.calls,
        seconds: args.seconds,
        deadline: args.deadline,
        routing: args.paths.chosen(),
        aim: args.protection.aim(),
        codec: args.codec,
        every_s: (every > 0).then_some(every),
        progress: Progress::choose(args.verbose),
    };
    let result = tools::call::run(&options, &mut report).map_err(failure)?;
    told?;
    match args.json {
        // After reports, the result is one line of JSON, too.
        true if every > 0 => {
            terminal::json(&serde_json::to_value(&result).map_err(Failure::failed)?)?;
        }
        true => terminal::line(&result.json())?,
        false => terminal::line(&result.to_string())?,
    }
    match (result.error, result.direct_error) {
        (None, None) => Ok(()),
        (Some(error), _) => Err(Failure::failed(format_args!(
            "the calls ended before their time: {error}"
        ))),
        (None, Some(error)) => Err(Failure::failed(error)),
    }
}

fn answer(args: &Call, node: Node) -> Outcome {
    // The operator watches the answering side, also in a log: each call is a line.
    let answered = tools::call::answer(&AnswerOptions {
        node,
        direct: Some(args.listen),
        progress: Progress::choose(true),
    });
    let answered = answered.map_err(failure)?;
    if args.json {
        return terminal::json(&json!({
            "overlay_calls": answered.overlay_calls,
            "direct_calls": answered.direct_calls,
            "packets": answered.packets,
            "ignored": answered.ignored,
        }));
    }
    terminal::line(&format!(
        "answered {} calls at port {ANSWER_PORT} and {} direct ones, {} packets",
        answered.overlay_calls, answered.direct_calls, answered.packets
    ))
}

fn failure(error: CallError) -> Failure {
    match error {
        CallError::Option(_) => Failure::misused(error),
        _ => Failure::failed(error),
    }
}
