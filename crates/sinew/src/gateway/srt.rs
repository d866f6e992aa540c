//! `sinew gateway srt`: connects encoders and decoders that use SRT.

use super::Known;
use super::video::{self, VideoArgs};
use super::wait::Wait;
use crate::failure::{Failure, Outcome};
use crate::terminal;
use clap::Args;
use client::Delivery;
use gateway::srt::report::{Connection, Drops, Event, Report};
use gateway::srt::routes::{Input, Output, ROUTES_MAX, Routes};
use gateway::srt::{CONNECTIONS, Direction, Service, Settings};
use net::srt::{Options, PASSPHRASE_BYTES, STREAM_ID_BYTES_MAX};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Arguments of `sinew gateway srt`.
#[derive(Debug, Args)]
pub struct SrtArgs {
    /// Accept calls at this address; may be repeated
    #[arg(long, value_name = "ADDRESS:PORT", required_unless_present = "call")]
    pub listen: Vec<SocketAddr>,
    /// Call this listener until it answers; may be repeated
    #[arg(long, value_name = "HOST:PORT")]
    pub call: Vec<String>,
    /// Send received data to this group or node; with a name, only for that stream id
    #[arg(
        long,
        value_name = "[ID=]GROUP:PORT|NODE:PORT",
        required_unless_present = "from"
    )]
    pub to: Vec<String>,
    /// Deliver data that arrives from this group, or at this port of the node; with a name, to callers
    /// that request that id
    #[arg(long, value_name = "[ID=]GROUP:PORT|:PORT")]
    pub from: Vec<String>,
    /// How long each end buffers packets, so that SRT can repair losses; the other end may require more
    #[arg(long, value_name = "TIME", default_value = "120ms", value_parser = video::latency)]
    pub latency: base::Duration,
    /// File with a passphrase of 10 to 79 characters; encrypts, and rejects callers without it
    #[arg(long, value_name = "FILE")]
    pub passphrase_file: Option<PathBuf>,
    /// Bytes of the key: 16, 24 or 32
    #[arg(long, value_name = "BYTES", requires = "passphrase_file", value_parser = key_bytes)]
    pub pbkeylen: Option<u8>,
    /// Stream id to request from the listener
    #[arg(long, value_name = "ID", requires = "call", value_parser = stream_id)]
    pub stream_id: Option<String>,
    /// Bytes of a packet, at most
    #[arg(long, value_name = "BYTES", default_value = "1456", value_parser = clap::value_parser!(u16).range(188..=1_456))]
    pub payload_size: u16,
    /// Connections at once
    #[arg(long, value_name = "NUMBER", default_value_t = CONNECTIONS as u16, value_parser = clap::value_parser!(u16).range(1..=1_024))]
    pub connections: u16,
    /// How streams cross, and what is told
    #[command(flatten)]
    pub video: VideoArgs,
}

fn key_bytes(text: &str) -> Result<u8, String> {
    match text {
        "16" | "24" | "32" => Ok(text.parse().unwrap_or(16)),
        _ => Err("a key has 16, 24 or 32 bytes".to_owned()),
    }
}

fn stream_id(text: &str) -> Result<String, String> {
    match text.len() <= STREAM_ID_BYTES_MAX {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "a stream id has {STREAM_ID_BYTES_MAX} bytes at most"
        )),
    }
}

/// Returns the options of the overlay socket. SRT's receivers restore the pace from SRT's timestamps, so packets need
/// not wait here.
pub(super) fn overlay(args: &SrtArgs) -> Result<client::Options, Failure> {
    args.video.options(Delivery::InOrder)
}

/// Runs the gateway until Ctrl-C.
pub(super) fn run(args: &SrtArgs) -> Outcome {
    let passphrase = args.passphrase_file.as_deref();
    let passphrase = passphrase.map(|path| self::passphrase(path, PASSPHRASE_BYTES));
    let (node, known) = super::find(args.video.node.as_deref())?;
    let settings = Settings {
        listen: args.listen.clone(),
        call: args.call.clone(),
        routes: routes(args, &known)?,
        srt: Options {
            latency: Duration::from_nanos(args.latency.as_nanos()),
            passphrase: passphrase.transpose()?,
            key_bytes: args.pbkeylen,
            stream_id: args.stream_id.clone(),
            payload_bytes: usize::from(args.payload_size),
            ..Options::default()
        },
        overlay: overlay(args)?,
        connections: usize::from(args.connections),
    };
    let is_open = settings.srt.passphrase.is_none()
        && settings.listen.iter().any(|at| !at.ip().is_loopback());
    let as_json = args.video.json;
    let wait = Wait::new()?;
    let tell = Box::new(move |event: Event| tell(&event, as_json));
    let mut service = Service::start(&node, settings, tell).map_err(Failure::failed)?;
    for at in service.listening() {
        if as_json {
            terminal::json(&json!({"event": "listening", "at": at.to_string()}))?;
        } else {
            let _ = writeln!(io::stderr(), "listening at srt://{at}");
        }
    }
    if is_open {
        let _ = writeln!(
            io::stderr(),
            "whoever reaches this listener may send and receive: see --passphrase-file"
        );
    }
    let ended = wait.run(args.video.status, service.over(), || {
        show("status", &service.report(), as_json)
    });
    show("stopped", &service.stop(), as_json)?;
    ended
}

/// Reads the passphrase from a file, without the end of its line.
pub(super) fn passphrase(path: &Path, bytes: RangeInclusive<usize>) -> Result<String, Failure> {
    let read = |text: &str| {
        let word = text.trim_end_matches(['\r', '\n']);
        match bytes.contains(&word.len()) {
            true => Ok(word.to_owned()),
            false => Err(format!(
                "a passphrase has {} to {} characters here",
                bytes.start(),
                bytes.end()
            )),
        }
    };
    Ok(crate::identity::read_secret_as(path, read)?)
}

/// Reads the streams. If the gateway calls, there can be only one stream, because the other end does not choose one.
fn routes(args: &SrtArgs, known: &Known) -> Result<Routes, Failure> {
    let inputs = args.to.iter().map(|word| {
        let (name, rest) = video::named(word);
        let target = video::target(rest, known)?;
        Ok(Input { name, target })
    });
    let outputs = args.from.iter().map(|word| {
        let (name, rest) = video::named(word);
        let place = video::place(rest)?;
        Ok(Output { name, place })
    });
    let routes = Routes {
        inputs: inputs.collect::<Result<_, Failure>>()?,
        outputs: outputs.collect::<Result<_, Failure>>()?,
    };
    if routes.inputs.len() > ROUTES_MAX || routes.outputs.len() > ROUTES_MAX {
        return Err(Failure::misused(format_args!(
            "a gateway has {ROUTES_MAX} streams each way at most: run another one"
        )));
    }
    let kept = routes.inputs.len();
    if !routes.outputs.is_empty() && usize::from(args.connections) <= kept {
        return Err(Failure::misused(format_args!(
            "one connection is kept for each --to, so none is left to receive: give --connections {} or more",
            kept + 1
        )));
    }
    if !args.call.is_empty() && routes.only().is_none() {
        return Err(Failure::misused(
            "with --call there is one stream, one --to or one --from: run a gateway for each",
        ));
    }
    if args.call.len() + args.listen.len() > 1 && !args.call.is_empty() && !args.to.is_empty() {
        return Err(Failure::misused(
            "one sends a stream: with --call and --to there is one --call, and no --listen",
        ));
    }
    Ok(routes)
}

fn tell(event: &Event, as_json: bool) {
    // If the output pipe is closed, the command ends at its next wait.
    let _ = match as_json {
        true => {
            let mut line = match event {
                Event::Disconnected(connection) => value(connection),
                Event::Connected { peer, .. } => json!({"peer": peer.to_string()}),
                Event::Refused { peer, again, .. } => {
                    json!({"peer": peer.to_string(), "again": again})
                }
                _ => json!({}),
            };
            line["event"] = json!(event.label());
            line["text"] = json!(event.to_string());
            writeln!(io::stdout(), "{line}")
        }
        false => writeln!(io::stderr(), "{event}"),
    };
}

fn show(event: &str, report: &Report, as_json: bool) -> Outcome {
    if as_json {
        let drops = &report.drops;
        let connections = report.connections.iter().map(value);
        let streams = report.streams.iter().map(|stream| {
            let mut value = video::seen(&stream.seen);
            value["stream"] = json!(stream.place);
            value["receivers"] = json!(stream.receivers);
            value
        });
        return terminal::json(&json!({
            "event": event,
            "connected": report.connected,
            "connections": connections.collect::<Vec<_>>(),
            "streams": streams.collect::<Vec<_>>(),
            "drops": {
                "node": drops.node,
                "unwanted": drops.unwanted,
                "refused": drops.refused,
                "handshake": drops.handshake,
            },
        }));
    }
    let mut err = io::stderr();
    for stream in &report.streams {
        let words = video::seen_in_words(&stream.seen);
        let _ = writeln!(
            err,
            "{} to {} receivers: {words}",
            stream.place, stream.receivers
        );
    }
    for connection in &report.connections {
        let _ = writeln!(err, "{}", in_words(connection));
    }
    if let Some(words) = drops_in_words(&report.drops) {
        let _ = writeln!(err, "{words}");
    }
    Ok(())
}

/// Returns the drops and refusals in words, if there are any.
fn drops_in_words(drops: &Drops) -> Option<String> {
    (*drops != Drops::default()).then(|| {
        format!(
            "dropped: {} packets by the node, {} of receivers; {} callers refused, {} failed the handshake",
            drops.node, drops.unwanted, drops.refused, drops.handshake,
        )
    })
}

fn in_words(connection: &Connection) -> String {
    let stats = &connection.stats;
    match connection.direction {
        Direction::In => format!(
            "{} to {}: {:.1} Mbit/s, round trip {:.1} ms, lost {}, not repaired {}; {}",
            connection.peer,
            connection.stream,
            stats.receive_rate_bps as f64 / 1e6,
            stats.rtt_ms,
            stats.receive_lost,
            stats.receive_dropped,
            video::seen_in_words(&connection.seen),
        ),
        Direction::Out => format!(
            "{} from {}: {:.1} Mbit/s, round trip {:.1} ms, lost {}, sent again {}, dropped {}",
            connection.peer,
            connection.stream,
            stats.send_rate_bps as f64 / 1e6,
            stats.rtt_ms,
            stats.send_lost,
            stats.retransmitted,
            stats.send_dropped + connection.dropped,
        ),
    }
}

fn value(connection: &Connection) -> Value {
    let stats = &connection.stats;
    let mut value = match connection.direction {
        Direction::In => video::seen(&connection.seen),
        Direction::Out => {
            json!({"packets": connection.seen.packets, "bytes": connection.seen.bytes})
        }
    };
    value["peer"] = json!(connection.peer.to_string());
    value["stream_id"] = json!(connection.stream_id);
    value["direction"] = json!(match connection.direction {
        Direction::In => "in",
        Direction::Out => "out",
    });
    value["stream"] = json!(connection.stream);
    value["age_s"] = json!(connection.age.as_secs_f64());
    value["dropped"] = json!(connection.dropped);
    value["srt"] = json!({
        "rtt_ms": stats.rtt_ms,
        "sent": stats.sent_packets,
        "sent_bytes": stats.sent_bytes,
        "received": stats.received_packets,
        "received_bytes": stats.received_bytes,
        "send_lost": stats.send_lost,
        "receive_lost": stats.receive_lost,
        "retransmitted": stats.retransmitted,
        "send_dropped": stats.send_dropped,
        "receive_dropped": stats.receive_dropped,
        "undecrypted": stats.undecrypted,
        "send_rate_bps": stats.send_rate_bps,
        "receive_rate_bps": stats.receive_rate_bps,
        "bandwidth_bps": stats.bandwidth_bps,
        "send_buffer_ms": stats.send_buffer_ms,
        "send_buffer_packets": stats.send_buffer_packets,
        "receive_buffer_ms": stats.receive_buffer_ms,
        "receive_buffer_packets": stats.receive_buffer_packets,
        "send_latency_ms": stats.send_latency_ms,
        "receive_latency_ms": stats.receive_latency_ms,
    });
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: SrtArgs,
    }

    fn read(words: &str) -> Result<Routes, Failure> {
        let words = format!("x --listen 127.0.0.1:5 {words}");
        let line = Line::try_parse_from(words.split_whitespace()).unwrap();
        routes(&line.args, &Known::default())
    }

    #[test]
    fn a_place_is_left_for_those_who_receive() {
        let both = "--to s=239.1.1.1:5 --from s=239.1.1.1:5";
        let refused = read(&format!("{both} --connections 1")).unwrap_err();
        assert!(refused.text().contains("--connections 2"), "{refused:?}");
        assert!(read(&format!("{both} --connections 2")).is_ok());
        assert!(read("--to s=239.1.1.1:5 --connections 1").is_ok());
        assert!(read("--from 239.1.1.1:5 --connections 1").is_ok());
    }

    #[test]
    fn refused_callers_are_in_the_status() {
        assert_eq!(drops_in_words(&Drops::default()), None);
        let drops = Drops {
            handshake: 3,
            ..Drops::default()
        };
        let words = drops_in_words(&drops).unwrap();
        assert!(words.contains("3 failed the handshake"), "{words}");
    }
}
