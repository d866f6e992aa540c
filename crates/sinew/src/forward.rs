//! `sinew forward`: carries a TCP port over the overlay. Both ends use this command.

use crate::failure::{Failure, Outcome};
use crate::stop::Stop;
use crate::terminal;
use crate::transfer::{control, node_at, patience, target};
use clap::Args;
use client::{Options, StreamControl};
use gateway::seldom::{PERIOD, Seldom, Shown};
use gateway::{Event, Exit, Near};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
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

/// Returns the function that reports events: failures as text, or all events as JSON. Failures of a host for the same
/// reason are reported seldom, so that no client fills the log.
pub fn reporter(as_json: bool) -> impl Fn(&Event) + Send + Sync {
    let clock = net::Clock::new();
    let failures = Arc::new(Mutex::new(Failures::default()));
    let seen = Arc::downgrade(&failures);
    // The last number is reported too, when nothing follows. The thread ends with the function. A host that permits no
    // more threads reports that number at the next event.
    let thread = std::thread::Builder::new().name("failures".into());
    let _ = thread.spawn(move || {
        while let Some(failures) = seen.upgrade() {
            let mut failures = failures.lock().unwrap_or_else(PoisonError::into_inner);
            let shown = failures.0.take(clock.now());
            drop(failures);
            show(shown, as_json);
            std::thread::sleep(Duration::from_nanos(PERIOD.as_nanos()));
        }
    });
    move |event| {
        let mut failures = failures.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = failures.on_event(clock.now(), event);
        drop(failures);
        // If the output is closed, connections continue.
        if as_json && let Some(value) = as_value(event) {
            let _ = terminal::json(&value);
        }
        show(shown, as_json);
    }
}

fn show(shown: Vec<Shown<Failed>>, as_json: bool) {
    for shown in shown {
        let _ = match as_json {
            true => terminal::json(&shown_as_value(&shown)),
            false => writeln!(io::stderr(), "{}", in_words(&shown)).map_err(Failure::failed),
        };
    }
}

/// The failures of the last seconds, by host and reason.
#[derive(Default)]
struct Failures(Seldom<(String, String), Failed>);

/// A connection that was not opened, or has ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Failed {
    from: String,
    to: String,
    why: String,
}

impl Failures {
    /// Returns which failures are to be shown now.
    fn on_event(&mut self, now: base::Time, event: &Event) -> Vec<Shown<Failed>> {
        if let Event::Failed { from, to, why } = event {
            let host = from
                .rsplit_once(':')
                .map_or(from.as_str(), |(host, _)| host);
            let failed = Failed {
                from: from.clone(),
                to: to.clone(),
                why: why.clone(),
            };
            self.0.note(now, (host.to_owned(), why.clone()), failed);
        }
        self.0.take(now)
    }
}

/// Returns an event as JSON, unless it is a failure.
fn as_value(event: &Event) -> Option<Value> {
    match event {
        Event::Opened { from, to } => Some(json!({"event": "opened", "from": from, "to": to})),
        Event::Closed { from, to, carried } => Some(json!({
            "event": "closed", "from": from, "to": to,
            "bytes_to_overlay": carried.to_overlay, "bytes_from_overlay": carried.to_tcp,
        })),
        Event::Failed { .. } => None,
    }
}

fn shown_as_value(shown: &Shown<Failed>) -> Value {
    let (failed, again) = match shown {
        Shown::First(failed) => (failed, 0),
        Shown::Again { last, again, .. } => (last, *again),
        Shown::Others(_) => return json!({"event": "warning", "text": in_words(shown)}),
    };
    let Failed { from, to, why } = failed;
    json!({"event": "failed", "from": from, "to": to, "why": why, "again": again})
}

fn in_words(shown: &Shown<Failed>) -> String {
    match shown {
        Shown::First(Failed { from, to, why }) => format!("{from} -> {to}: {why}"),
        Shown::Again {
            last: Failed { from, to, why },
            again,
            within,
        } => {
            let within_s = within.as_secs_f64();
            format!("{from} -> {to}: {why}; for this host, {again} more times in {within_s:.0} s")
        }
        Shown::Others(count) => format!("{count} more connections of other hosts have failed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Duration, Time};

    /// A client that connects 2000 times a second filled the log with 300 kB/s.
    #[test]
    fn a_host_that_fails_again_and_again_gets_one_line_in_ten_seconds() {
        let mut failures = Failures::default();
        let failed = |port: u64| Event::Failed {
            from: format!("127.0.0.1:{port}"),
            to: "10.7.0.1:22".to_owned(),
            why: "nobody takes connections".to_owned(),
        };
        let mut shown = Vec::new();
        for n in 0..30_000 {
            let now = Time::ZERO + Duration::from_micros(n * 500);
            shown.extend(failures.on_event(now, &failed(n)));
        }
        let words: Vec<String> = shown.iter().map(in_words).collect();
        assert_eq!(
            words[0],
            "127.0.0.1:0 -> 10.7.0.1:22: nobody takes connections"
        );
        assert_eq!(words.len(), 2, "{words:?}");
        assert!(
            words[1].ends_with("for this host, 19999 more times in 10 s"),
            "{words:?}"
        );
        let [first, again] = [0, 1].map(|index| shown_as_value(&shown[index]));
        assert_eq!(
            (&first["again"], &again["again"]),
            (&json!(0), &json!(19_999))
        );
        // Other hosts have lines of their own.
        let from = Event::Failed {
            from: "127.0.0.2:1".to_owned(),
            to: "?".to_owned(),
            why: "nobody takes connections".to_owned(),
        };
        let now = Time::ZERO + Duration::from_secs(15);
        assert_eq!(failures.on_event(now, &from).len(), 1);
    }

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
