//! `sinew gateway rist`: connects encoders and decoders that use RIST.

use super::srt::passphrase;
use super::video::{self, VideoArgs};
use super::wait::Wait;
use crate::failure::{Failure, Outcome};
use crate::terminal;
use clap::{Args, ValueEnum};
use client::Delivery;
use gateway::rist::{self, Report, Work};
use net::rist::{End, Options, Profile, SECRET_BYTES_MAX};
use serde_json::json;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `sinew gateway rist`.
#[derive(Debug, Args)]
pub struct RistArgs {
    /// Accept calls at this address; may be repeated
    #[arg(long, value_name = "ADDRESS:PORT", required_unless_present = "call")]
    pub listen: Vec<SocketAddr>,
    /// Call this address until it answers; may be repeated
    #[arg(long, value_name = "HOST:PORT", value_parser = host_and_port)]
    pub call: Vec<String>,
    /// Send received data to this group or node
    #[arg(long, value_name = "GROUP:PORT|NODE:PORT", conflicts_with = "from")]
    pub to: Option<String>,
    /// Deliver data that arrives from this group, or at this port of the node
    #[arg(long, value_name = "GROUP:PORT|:PORT", required_unless_present = "to")]
    pub from: Option<String>,
    /// How long packets are buffered, so that RIST can repair losses
    #[arg(long, value_name = "TIME", default_value = "120ms", value_parser = video::latency)]
    pub latency: base::Duration,
    /// RIST profile that both ends use
    #[arg(long, value_enum, default_value_t = Words::Main)]
    pub profile: Words,
    /// File with a secret of 1 to 127 characters, for encryption (main profile)
    #[arg(long, value_name = "FILE")]
    pub secret_file: Option<PathBuf>,
    /// Bits of the key: 128 or 256
    #[arg(long, value_name = "BITS", default_value = "128", requires = "secret_file", value_parser = key_bits)]
    pub key_bits: u16,
    /// How the stream crosses, and what is told
    #[command(flatten)]
    pub video: VideoArgs,
}

/// The profiles.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Words {
    /// RTP and RTCP, an even port and the next; the sender calls
    Simple,
    /// One port, optionally encrypted
    Main,
}

fn key_bits(text: &str) -> Result<u16, String> {
    match text {
        "128" | "256" => Ok(text.parse().unwrap_or(128)),
        _ => Err("a key has 128 or 256 bits".to_owned()),
    }
}

/// Checks a host and port. Characters that the library would read as its own settings are refused.
fn host_and_port(text: &str) -> Result<String, String> {
    let is_good = |text: &str| {
        let (host, port) = text.rsplit_once(':')?;
        let has_signs = host.contains(['?', '&', '@', '/', ' ']);
        (!host.is_empty() && !has_signs).then(|| port.parse::<u16>().ok())?
    };
    match is_good(text) {
        Some(1..) => Ok(text.to_owned()),
        _ => Err("write a host and port, like 192.0.2.7:1968".to_owned()),
    }
}

/// Returns the options of the overlay socket. RIST uses the time at which a packet leaves the gateway as its timestamp,
/// so a burst would stay a burst.
pub(super) fn overlay(args: &RistArgs) -> Result<client::Options, Failure> {
    args.video.options(Delivery::AsSent(None))
}

/// Runs the gateway until Ctrl-C.
pub(super) fn run(args: &RistArgs) -> Outcome {
    let secret = args.secret_file.as_deref();
    let secret = secret.map(|path| passphrase(path, 1..=SECRET_BYTES_MAX));
    let overlay = overlay(args)?;
    let (node, known) = super::find(args.video.node.as_deref())?;
    let work = match (&args.to, &args.from) {
        (Some(to), _) => Work::In(video::target(to, &known)?),
        (None, Some(from)) => Work::Out(video::place(from)?),
        (None, None) => return Err(Failure::misused("give --to or --from")),
    };
    let listen = args.listen.iter().copied().map(End::Listen);
    let call = args.call.iter().cloned().map(End::Call);
    let ends: Vec<End> = listen.chain(call).collect();
    let of_rist = Options {
        profile: match args.profile {
            Words::Simple => Profile::Simple,
            Words::Main => Profile::Main,
        },
        latency: Duration::from_nanos(args.latency.as_nanos()),
        secret: secret.transpose()?.map(|secret| (secret, args.key_bits)),
    };
    let is_open = of_rist.secret.is_none() && args.listen.iter().any(|at| !at.ip().is_loopback());
    let as_json = args.video.json;
    let wait = Wait::new()?;
    let tell = video::teller(as_json);
    let mut service =
        rist::start(&node, work, (&ends, &of_rist), overlay, tell).map_err(Failure::failed)?;
    if as_json {
        terminal::json(&json!({"event": "running"}))?;
    }
    if is_open {
        let _ = writeln!(
            io::stderr(),
            "whoever reaches this port may send or receive: see --secret-file"
        );
    }
    let ended = wait.run(args.video.status, service.over(), || {
        show("status", &service.report(), as_json)
    });
    show("stopped", &service.stop(), as_json)?;
    ended
}

fn show(event: &str, report: &Report, as_json: bool) -> Outcome {
    let stats = &report.more.stats;
    if as_json {
        let mut value = video::seen(&report.seen);
        value["event"] = json!(event);
        value["dropped"] = json!(report.dropped);
        value["drops"] =
            json!({"node": report.dropped, "second_sender": report.more.second_sender});
        value["connected"] = json!(report.more.connected);
        value["rist"] = json!({
            "rtt_ms": stats.rtt_ms,
            "rate_bps": stats.rate_bps,
            "retry_rate_bps": stats.retry_rate_bps,
            "packets": stats.packets,
            "retransmitted": stats.retransmitted,
            "missing": stats.missing,
            "recovered": stats.recovered,
            "lost": stats.lost,
        });
        return terminal::json(&value);
    }
    let words = video::seen_in_words(&report.seen);
    let _ = writeln!(
        io::stderr(),
        "{words}, dropped {}, of a second encoder {}; connected {}, round trip {} ms, {:.1} Mbit/s, \
         sent again {}, missing {}, not repaired {}",
        report.dropped,
        report.more.second_sender,
        report.more.connected,
        stats.rtt_ms,
        stats.rate_bps as f64 / 1e6,
        stats.retransmitted,
        stats.missing,
        stats.lost,
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whom_to_call_is_read_or_refused() {
        for good in ["192.0.2.7:1968", "[::1]:1968", "a.example:2"] {
            assert_eq!(host_and_port(good).as_deref(), Ok(good));
        }
        for bad in [
            "a",
            "a:",
            ":7",
            "a:0",
            "a:70000",
            "a?buffer=1:7",
            "@a:7",
            "a b:7",
        ] {
            assert!(host_and_port(bad).is_err(), "{bad}");
        }
    }
}
