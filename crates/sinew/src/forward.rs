//! `sinew forward`: carries a TCP port over the overlay. Both ends use this command.

use crate::failure::{Failure, Outcome};
use crate::stop::Stop;
use crate::terminal;
use crate::transfer::{control, node_at, patience, target};
use clap::Args;
use client::{Options, StreamControl};
use gateway::{Event, Exit, Near};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Options of `sinew forward`.
#[derive(Debug, Args)]
pub struct Forward {
    /// Where to listen on this host: a port, on 127.0.0.1, or an address and a port
    #[arg(value_parser = local, required_unless_present = "serve")]
    pub local: Option<SocketAddr>,
    /// The exit: a node, by name or overlay address, and the virtual port that it serves
    #[arg(value_name = "NODE:PORT", required_unless_present = "serve")]
    pub to: Option<String>,
    /// Be the exit: accept streams at this virtual port of the node
    #[arg(long, value_name = "PORT", requires = "target",
          conflicts_with_all = ["local", "to"])]
    pub serve: Option<u16>,
    /// The only target to which the exit connects them
    #[arg(
        id = "target",
        long = "to",
        value_name = "HOST:PORT",
        requires = "serve"
    )]
    pub target: Option<String>,
    /// The control socket of the node, or its client socket (`*.sock`)
    #[arg(long, value_name = "SOCKET")]
    pub node: Option<PathBuf>,
    /// How long a connection survives silence of the other end, such as 5m; default: the node's setting
    /// (15m)
    #[arg(long, value_name = "TIME", value_parser = patience)]
    pub give_up: Option<Duration>,
    /// Congestion control of this end: cubic, as in kernels, or bbr, which tolerates random losses;
    /// default: the node's setting (cubic)
    #[arg(long, value_name = "CONTROL", value_parser = control)]
    pub control: Option<StreamControl>,
    /// Print what happens to each connection as JSON, one object in a line
    #[arg(long)]
    pub json: bool,
}

/// Reads a port on the loopback address, or an address and a port.
fn local(word: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = word.parse::<u16>() {
        return Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    }
    word.parse()
        .map_err(|_| "not a port or an address and a port, like 2222 or 127.0.0.1:2222".to_owned())
}

/// Reads a host and a port, and checks them as far as the text allows.
pub fn exit_target(word: &str) -> Result<String, String> {
    let parts = word.rsplit_once(':');
    let ports = parts.and_then(|(host, port)| port.parse::<u16>().ok().map(|port| (host, port)));
    match ports {
        Some((host, port)) if !host.is_empty() && port != 0 => Ok(word.to_owned()),
        _ => Err(format!(
            "`{word}` is not HOST:PORT, like 127.0.0.1:22 or web.example.net:80"
        )),
    }
}

/// Carries connections until Ctrl-C.
pub fn run(args: &Forward) -> Outcome {
    // Each connection takes four descriptors. If the limit stays lower, some connections wait longer.
    let _ = net::sched::raise_descriptors();
    let (node, names) = node_at(args.node.as_deref())?;
    let mut stop = Stop::new()?;
    let report = Arc::new(reporter(args.json));
    let options = Options {
        give_up: args.give_up,
        control: args.control,
        // The TCP client is connected already, so a refusal reaches it in the middle of the connection in any case.
        early: true,
        ..Options::stream()
    };
    if let (Some(port), Some(word)) = (args.serve, &args.target) {
        let word = exit_target(word).map_err(Failure::misused)?;
        let exit = Exit::bind(&node, port, &word, options, report)?;
        say(args, &exit.local().to_string(), &word)?;
        while stop.wait_for(&exit)? {
            exit.serve_next()?;
        }
        return Ok(());
    }
    let (Some(local), Some(to)) = (args.local, &args.to) else {
        return Err(Failure::misused(
            "say where to listen and where to: `sinew forward 2222 fra:22`",
        ));
    };
    let to = target(to, &names)?;
    let near = Near::bind(local, node, to, options, report).map_err(|error| {
        Failure::failed(format_args!(
            "cannot listen on {local}: {error}; choose another port"
        ))
    })?;
    let bound = near.local().map_err(Failure::failed)?;
    say(args, &bound.to_string(), &to.to_string())?;
    while stop.wait_for(&near)? {
        near.serve_next().map_err(Failure::failed)?;
    }
    Ok(())
}

/// Prints the first line: the address where the command listens. So a script can wait for it and read the port.
fn say(args: &Forward, from: &str, to: &str) -> Outcome {
    if args.json {
        return terminal::json(&json!({"event": "listening", "at": from, "to": to}));
    }
    let _ = writeln!(io::stderr(), "listening at {from} for {to}");
    Ok(())
}

/// Returns the function that reports events: failures as text, all events as JSON.
pub fn reporter(as_json: bool) -> impl Fn(&Event) + Send + Sync {
    move |event| {
        if as_json {
            // If the output is closed, connections continue.
            let _ = terminal::json(&as_value(event));
        } else if let Event::Failed { .. } = event {
            let _ = writeln!(io::stderr(), "{event}");
        }
    }
}

fn as_value(event: &Event) -> Value {
    match event {
        Event::Opened { from, to } => json!({"event": "opened", "from": from, "to": to}),
        Event::Closed { from, to, carried } => json!({
            "event": "closed", "from": from, "to": to,
            "bytes_to_overlay": carried.to_overlay, "bytes_from_overlay": carried.to_tcp,
        }),
        Event::Failed { from, to, why } => {
            json!({"event": "failed", "from": from, "to": to, "why": why})
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_on_loopback() {
        assert_eq!(local("2222").unwrap().to_string(), "127.0.0.1:2222");
        assert_eq!(local("[::1]:80").unwrap().to_string(), "[::1]:80");
        for bad in ["", "host:80", "70000", "1.2.3.4"] {
            assert!(local(bad).is_err(), "{bad}");
        }
        assert!(exit_target("web.example.net:80").is_ok() && exit_target("[::1]:80").is_ok());
        for bad in ["22", ":22", "host:", "host:0", "host:70000"] {
            assert!(exit_target(bad).is_err(), "{bad}");
        }
    }
}
