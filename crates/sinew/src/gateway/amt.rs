//! `sinew gateway amt`: sends groups of the overlay by UDP to receivers without a node.

use super::wait::Wait;
use crate::failure::{Failure, Outcome};
use crate::quantity;
use crate::service;
use crate::terminal;
use clap::Args;
use gateway::amt::{Refused, Report, Service, Settings, message::PORT};
use gateway::multicast::{self, ByNode, Rules};
use serde_json::{Map, Value, json};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `sinew gateway amt`.
#[derive(Debug, Args)]
pub struct AmtArgs {
    /// Address at which to accept gateways
    #[arg(long, value_name = "ADDRESS:PORT", default_value_t = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), PORT))]
    pub listen: SocketAddr,
    /// The address by which gateways reach this host [default: that of --listen]
    #[arg(long, value_name = "ADDRESS")]
    pub advertise: Option<IpAddr>,
    /// Groups to relay; `!` marks exceptions [default: organisation and global scope: 239.0.0.0/8
    /// except 239.255.0.0/16, 232.0.0.0/8, and scopes 8 and e of IPv6]
    #[arg(long, value_name = "LIST", default_value_t, hide_default_value = true)]
    pub groups: Rules,
    /// Deadline of a packet on its way over the overlay
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = super::multicast::deadline)]
    pub deadline: base::Duration,
    /// Loss target and repair limit
    #[command(flatten)]
    pub protection: service::Protection,
    /// Print the status at this interval; a bare number is in seconds
    #[arg(long, value_name = "TIME", value_parser = status)]
    pub status: Option<base::Duration>,
    /// The control socket of the node, or its client socket (`*.sock`)
    #[arg(long, value_name = "SOCKET")]
    pub node: Option<PathBuf>,
    /// Print what happens as JSON, one object in a line
    #[arg(long)]
    pub json: bool,
}

fn status(text: &str) -> Result<base::Duration, String> {
    let s = base::Duration::from_secs;
    quantity::within(quantity::seconds(text)?, s(1), s(86_400))
}

/// Runs the relay until Ctrl-C.
pub(super) fn run(args: &AmtArgs) -> Outcome {
    let address = args.advertise.unwrap_or(args.listen.ip());
    if address.is_unspecified() {
        return Err(Failure::misused(
            "say by which address gateways reach this host: --advertise 192.0.2.1",
        ));
    }
    let (node, _) = super::find(args.node.as_deref())?;
    let deadline = Duration::from_nanos(args.deadline.as_nanos());
    let mut options = service::Service::Video.options(deadline);
    options.aim = args.protection.aim();
    options.delivery = multicast::options(deadline).delivery;
    let overlay = ByNode { node, options };
    let listen = args.listen;
    let refused = |error| Failure::failed(format_args!("cannot listen at {listen}: {error}"));
    let socket = UdpSocket::bind(listen).map_err(refused)?;
    let local = socket.local_addr().map_err(Failure::failed)?;
    let settings = Settings {
        address,
        rules: args.groups.clone(),
        secret: net::sched::entropy().map_err(Failure::failed)?,
    };
    let wait = Wait::new()?;
    let service = Service::start(overlay, socket, settings)?;
    match args.json {
        true => terminal::json(&json!({
            "event": "relaying", "listen": local.to_string(), "groups": args.groups.to_string(),
        }))?,
        false => {
            let _ = writeln!(io::stderr(), "relaying {} by AMT at {local}", args.groups);
        }
    }
    let ended = wait.run(args.status, service.over(), || {
        show("status", &service.report(), args.json)
    });
    show("stopped", &service.report(), args.json)?;
    ended
}

fn show(event: &str, report: &Report, as_json: bool) -> Outcome {
    if as_json {
        let mut value = value(report);
        value["event"] = json!(event);
        return terminal::json(&value);
    }
    let _ = writeln!(
        io::stderr(),
        "{} receivers of {} groups{}; {} packets from the overlay, {} copies sent",
        report.tunnels,
        report.groups,
        if report.connected {
            ""
        } else {
            ", the node is away"
        },
        report.counters.packets,
        report.counters.sent,
    );
    Ok(())
}

/// Returns the relay's state as JSON. It lists only the reasons for refusals that occurred.
fn value(report: &Report) -> Value {
    let refused = Refused::ALL.iter().zip(report.counters.refused);
    let refused = refused.filter(|(_, count)| *count > 0);
    let refused: Map<_, _> = refused
        .map(|(why, count)| (why.label().to_owned(), json!(count)))
        .collect();
    json!({
        "receivers": report.tunnels,
        "groups": report.groups,
        "refused_groups": report.refused,
        "connected": report.connected,
        "packets": report.counters.packets,
        "sent": report.counters.sent,
        "sent_bytes": report.counters.sent_bytes,
        "refused": refused,
    })
}
