//! `sinew trace`: lists the nodes on the path to a node, with round trip and loss to each.

use crate::echo::{Heard, Path, Rtts, Way, loss_pct};
use crate::failure::{Failure, Outcome};
use crate::table::{Column, Table};
use crate::terminal;
use base::{Duration, NodeAddr};
use clap::Args;
use serde_json::{Value, json};

/// Number of consecutive hops without any answer after which the trace is given up.
const SILENT_HOPS: usize = 3;
/// The time between two requests.
const PACE: Duration = Duration::from_millis(20);

/// Arguments of `sinew trace`.
#[derive(Debug, Args)]
pub struct Trace {
    #[command(flatten)]
    pub(crate) way: Way,
    /// Requests per hop
    #[arg(long, short = 'c', default_value_t = 5,
          value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub count: u16,
    /// Highest number of hops
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u8).range(1..=63))]
    pub hops: u8,
}

/// The answers of the nodes at a distance of `hop` hops.
#[derive(Debug)]
struct Hop {
    hop: u8,
    /// The nodes that answered, usually one.
    nodes: Vec<NodeAddr>,
    /// Number of requests whose answer was awaited.
    sent: usize,
    rtts: Rtts,
    arrived: bool,
    interrupted: bool,
}

/// Runs the command.
pub fn run(args: &Trace) -> Outcome {
    let path = Path::find(&args.way)?;
    let mut hops: Vec<Hop> = Vec::new();
    for ttl in 1..=args.hops {
        let hop = ask(&path, args, ttl)?;
        let end = hop.arrived || hop.interrupted;
        hops.push(hop);
        let silent = hops
            .iter()
            .rev()
            .take_while(|hop| hop.nodes.is_empty())
            .count();
        if end || silent >= SILENT_HOPS {
            break;
        }
    }
    let reached = hops.last().is_some_and(|hop| hop.arrived);
    hops.retain(|hop| hop.sent > 0);
    print(&path, args, &hops, reached)?;
    if reached {
        return Ok(());
    }
    Err(Failure::failed(format_args!(
        "the trace does not reach {}: see `sinew routes`",
        path.to
    )))
}

fn ask(path: &Path, args: &Trace, ttl: u8) -> Result<Hop, Failure> {
    let mut prober = path.prober(ttl, args.way.timeout)?;
    let mut hop = Hop {
        hop: ttl,
        nodes: Vec::new(),
        sent: 0,
        rtts: Rtts::default(),
        arrived: false,
        interrupted: false,
    };
    let mut seen = Vec::new();
    let start = prober.now();
    for seq in 0..args.count {
        prober.ask(seq, wire::echo::ECHO_BYTES)?;
        hop.sent += 1;
        let last = seq + 1 == args.count;
        let next = start + PACE * (u64::from(seq) + 1);
        let end = if last {
            prober.now() + args.way.timeout
        } else {
            next
        };
        while !(last && seen.len() >= usize::from(args.count)) {
            match prober.wait(end)? {
                Heard::Answer(answer) if seen.contains(&answer.seq) => {}
                Heard::Answer(answer) => {
                    seen.push(answer.seq);
                    hop.rtts.add(answer.rtt_ms);
                    hop.arrived |= answer.arrived;
                    if !hop.nodes.contains(&answer.node) {
                        hop.nodes.push(answer.node);
                    }
                }
                Heard::Nothing => break,
                Heard::Interrupted => {
                    // The answer to the last request may still be on its way.
                    hop.sent = seen.len().max(hop.sent - 1);
                    hop.interrupted = true;
                    return Ok(hop);
                }
            }
        }
    }
    Ok(hop)
}

fn print(path: &Path, args: &Trace, hops: &[Hop], reached: bool) -> Outcome {
    if args.way.json {
        let hops: Vec<Value> = hops
            .iter()
            .map(|hop| {
                let node = hop.nodes.first().map(NodeAddr::to_string);
                json!({
                    "hop": hop.hop, "node": node,
                    "name": node.as_ref().map(|node| path.names.name(node)),
                    "nodes": hop.nodes.iter().map(NodeAddr::to_string).collect::<Vec<_>>(),
                    "sent": hop.sent, "received": hop.rtts.len(),
                    "loss_pct": loss_pct(hop.sent, hop.rtts.len()), "rtt_ms": hop.rtts.json(),
                })
            })
            .collect();
        return terminal::json(
            &json!({"to": path.to.to_string(), "reached": reached, "hops": hops}),
        );
    }
    let mut table = Table::new(&[
        Column::numbers("HOP", 0),
        Column::words("NODE", 0),
        Column::numbers("LOSS TO HERE %", 0),
        Column::numbers("BEST ms", 1),
        Column::numbers("MEDIAN ms", 0),
        Column::numbers("WORST ms", 1),
    ]);
    for hop in hops {
        let nodes: Vec<String> = hop
            .nodes
            .iter()
            .map(|node| path.names.both(&node.to_string()))
            .collect();
        let rtt = |share| {
            hop.rtts
                .quantile(share)
                .map_or("-".into(), |ms| format!("{ms:.2}"))
        };
        table.row([
            hop.hop.to_string(),
            if nodes.is_empty() {
                "no answer".into()
            } else {
                nodes.join(", ")
            },
            format!("{:.1}", loss_pct(hop.sent, hop.rtts.len())),
            rtt(0.0),
            rtt(0.5),
            rtt(1.0),
        ]);
    }
    let page = table.page(&terminal::look(), "")?;
    terminal::line(page.to_string().trim_end())
}
