//! `sinew gateway rtp`: carries RTP and transport streams over UDP, by one path or two.

use super::video::{self, VideoArgs};
use super::wait::Wait;
use crate::failure::{Failure, Outcome};
use crate::{quantity, terminal};
use clap::Args;
use client::{Delivery, Options};
use gateway::multicast::rules::is_source_specific;
use gateway::rtp::{self, Leg, Report, Work};
use serde_json::{Value, json};
use std::io::{self, Write};
use voice::pair;

/// Arguments of `sinew gateway rtp`.
#[derive(Debug, Args)]
pub struct RtpArgs {
    /// Receive at this address; given twice, merge one stream from two paths (SMPTE ST 2022-7). SOURCE is
    /// the only host from which a group is received; 232.x groups need it
    #[arg(
        long = "in",
        value_name = "[SOURCE@]ADDRESS:PORT[@INTERFACE]",
        value_parser = inward,
        requires = "to",
        conflicts_with = "from"
    )]
    pub inward: Vec<Leg>,
    /// Send received data to this group or node
    #[arg(long, value_name = "GROUP:PORT|NODE:PORT", requires = "inward")]
    pub to: Option<String>,
    /// Deliver data that arrives from this group, or at this port of the node
    #[arg(
        long,
        value_name = "GROUP:PORT|:PORT",
        requires = "outward",
        required_unless_present = "to"
    )]
    pub from: Option<String>,
    /// Send to this address; given twice, send the stream on two paths
    #[arg(
        long = "out",
        value_name = "ADDRESS:PORT[@INTERFACE]",
        requires = "from"
    )]
    pub outward: Vec<Leg>,
    /// How long to wait for a packet that one path lacks; the largest difference in delay of the paths
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = window)]
    pub window: base::Duration,
    /// Add RTP to bare transport streams; always done with two paths, which need it
    #[arg(long, requires = "from")]
    pub rtp: bool,
    /// How the stream crosses, and what is told
    #[command(flatten)]
    pub video: VideoArgs,
}

/// Reads a leg that is received. A source-specific group needs its source: without one, routers and the kernel of the
/// receiver do not deliver the group.
fn inward(text: &str) -> Result<Leg, String> {
    let leg: Leg = text.parse()?;
    match leg.source.is_none() && is_source_specific(leg.address.ip()) {
        true => Err(format!(
            "{} is source-specific: write the host that sends it, like 10.0.0.5@{text}",
            leg.address.ip()
        )),
        false => Ok(leg),
    }
}

fn window(text: &str) -> Result<base::Duration, String> {
    let ms = base::Duration::from_millis;
    quantity::within(quantity::millis(text)?, ms(1), ms(2_000))
}

/// Returns the options of the overlay socket. A receiver of UDP has a small buffer and plays packets as they arrive, so
/// repaired packets must not leave together.
pub(super) fn overlay(args: &RtpArgs) -> Result<Options, Failure> {
    args.video.options(Delivery::AsSent(None))
}

/// Runs the gateway until Ctrl-C.
pub(super) fn run(args: &RtpArgs) -> Outcome {
    let options = overlay(args)?;
    let (node, known) = super::find(args.video.node.as_deref())?;
    let work = match (&args.to, &args.from) {
        (Some(to), _) => Work::In {
            legs: args.inward.clone(),
            window: args.window,
            target: video::target(to, &known)?,
        },
        (None, Some(from)) => Work::Out {
            place: video::place(from)?,
            legs: args.outward.clone(),
            wrap: args.rtp || args.outward.len() > 1,
        },
        (None, None) => return Err(Failure::misused("give --in and --to, or --from and --out")),
    };
    let as_json = args.video.json;
    let wait = Wait::new()?;
    let tell = video::teller(as_json);
    let mut service = rtp::start(&node, work, options, tell).map_err(Failure::failed)?;
    if as_json {
        terminal::json(&json!({"event": "running"}))?;
    }
    let ended = wait.run(args.video.status, service.over(), || {
        show("status", &service.report(), as_json)
    });
    show("stopped", &service.stop(), as_json)?;
    ended
}

fn show(event: &str, report: &Report, as_json: bool) -> Outcome {
    if as_json {
        let mut value = video::seen(&report.seen);
        value["event"] = json!(event);
        value["dropped"] = json!(report.dropped);
        if let Some((legs, merged)) = &report.more {
            value["legs"] = legs.iter().map(leg).collect();
            value["merged"] =
                json!({"sent": merged.sent, "lost": merged.lost, "restarts": merged.restarts});
        }
        return terminal::json(&value);
    }
    let mut err = io::stderr();
    let words = video::seen_in_words(&report.seen);
    let _ = writeln!(err, "{words}, dropped {}", report.dropped);
    if let Some((legs, merged)) = &report.more {
        for (number, leg) in legs.iter().enumerate() {
            let _ = writeln!(
                err,
                "way {}: {} packets, lost {}, first {}, late {}, foreign {}, behind {} (at most {})",
                number + 1,
                leg.received,
                leg.lost,
                leg.first,
                leg.late,
                leg.foreign,
                leg.behind,
                leg.behind_max,
            );
        }
        let _ = writeln!(err, "both: {} packets, lost {}", merged.sent, merged.lost);
    }
    Ok(())
}

fn leg(leg: &pair::Leg) -> Value {
    json!({
        "received": leg.received,
        "lost": leg.lost,
        "first": leg.first,
        "late": leg.late,
        "foreign": leg.foreign,
        "behind_ms": leg.behind.as_secs_f64() * 1e3,
        "behind_max_ms": leg.behind_max.as_secs_f64() * 1e3,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_specific_group_is_received_from_its_source_alone() {
        let said = inward("232.1.1.1:5004@eth1").unwrap_err();
        assert!(said.contains("10.0.0.5@232.1.1.1:5004@eth1"), "{said}");
        for good in ["10.0.0.5@232.1.1.1:5004", "239.1.1.1:5004", "10.1.0.9:5004"] {
            assert!(inward(good).is_ok(), "{good}");
        }
    }
}
