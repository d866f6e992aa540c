//! The parts of the command line that the gateways for video share: streams, how the overlay carries them, and the
//! reports.

use super::Known;
use crate::failure::Failure;
use crate::{quantity, service};
use base::NodeAddr;
use clap::Args;
use clap::builder::PossibleValuesParser;
use client::{Delivery, Options, Target};
use gateway::video::line::Tell;
use gateway::video::{Place, Seen};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

/// The first of the 256 groups of one link. [RFC 5771 §4]
const LINK_LOCAL: NodeAddr = NodeAddr(0xe000_0000);

/// How streams cross the overlay, and what is told.
#[derive(Debug, Args)]
pub struct VideoArgs {
    /// Deadline of a packet in the overlay; until then, losses are repaired and order is kept
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = deadline)]
    pub deadline: base::Duration,
    /// The service that packets need across the overlay
    #[arg(long, alias = "class", value_enum, default_value_t = service::Service::Video)]
    pub service: service::Service,
    /// How the node delivers packets to the gateway: as-it-comes, in-order, or as-sent (in order and at
    /// the sender's pace); default: as-sent, with SRT in-order, for the service video
    #[arg(long, value_parser = PossibleValuesParser::new(["as-it-comes", "in-order", "as-sent"]))]
    pub delivery: Option<String>,
    /// With as-sent: deliver packets this long after they were sent, such as 300ms; less than the
    /// --deadline, which must be the same at entry and exit; default: as late as repairs need
    #[arg(long, value_name = "TIME", value_parser = deadline)]
    pub release: Option<base::Duration>,
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

impl VideoArgs {
    /// Returns the options of the overlay socket. `usual` is the default delivery of packets of video.
    pub(super) fn options(&self, usual: Delivery) -> Result<Options, Failure> {
        let deadline = Duration::from_nanos(self.deadline.as_nanos());
        let options = self.service.options(deadline);
        let asked = self.delivery.as_deref();
        let delivery = match (asked, self.release) {
            (None | Some("as-sent"), Some(after)) if after < self.deadline => {
                Delivery::AsSent(Some(after))
            }
            (None | Some("as-sent"), Some(_)) => {
                return Err(Failure::misused(
                    "packets are of no use when they are released: give a --release before the --deadline",
                ));
            }
            (Some(_), Some(_)) => {
                return Err(Failure::misused(
                    "--release is a time of --delivery as-sent, and of no other",
                ));
            }
            (Some("as-sent"), None) => Delivery::AsSent(None),
            (Some("in-order"), None) => Delivery::InOrder,
            (Some(_), None) => Delivery::AsItComes,
            (None, None) if self.service == service::Service::Video => usual,
            (None, None) => options.delivery,
        };
        Ok(Options {
            deadline: Some(deadline),
            delivery,
            aim: self.protection.aim(),
            ..options
        })
    }
}

fn deadline(text: &str) -> Result<base::Duration, String> {
    let ms = base::Duration::from_millis;
    quantity::within(quantity::millis(text)?, ms(10), ms(6_000))
}

fn status(text: &str) -> Result<base::Duration, String> {
    let s = base::Duration::from_secs;
    quantity::within(quantity::seconds(text)?, s(1), s(86_400))
}

/// Reads the time for which a protocol holds packets back.
pub(super) fn latency(text: &str) -> Result<base::Duration, String> {
    let ms = base::Duration::from_millis;
    quantity::within(quantity::millis(text)?, ms(1), ms(8_000))
}

/// Splits a stream's word with an optional name: `NAME=ADDRESS:PORT`.
pub(super) fn named(word: &str) -> (Option<String>, &str) {
    match word.split_once('=') {
        Some((name, rest)) => (Some(name.to_owned()), rest),
        None => (None, word),
    }
}

/// Reads the destination of a stream: a group or a node, by name or address, and a port there.
pub(super) fn target(word: &str, known: &Known) -> Result<Target, Failure> {
    let bad = || {
        Failure::misused(format_args!(
            "`{word}`: write where the stream goes, a group like 239.1.1.1:5004 or a node like fra:5004"
        ))
    };
    let (host, port) = word.rsplit_once(':').ok_or_else(bad)?;
    let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(bad)?;
    let node = match host.parse::<NodeAddr>() {
        Ok(group) if group.is_multicast() => may_cross(group)?,
        _ => known.names().address(host)?,
    };
    Ok(Target::new(node, port))
}

/// Reads the source of a stream: a group and its port, or a port of the own node.
pub(super) fn place(word: &str) -> Result<Place, Failure> {
    let bad = || {
        Failure::misused(format_args!(
            "`{word}`: write where the stream is, a group like 239.1.1.1:5004 or a port of the node like :5004"
        ))
    };
    let (host, port) = word.rsplit_once(':').ok_or_else(bad)?;
    let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(bad)?;
    if host.is_empty() {
        return Ok(Place::Port(port));
    }
    let group = host.parse::<NodeAddr>().ok();
    let group = group.filter(|group| group.is_multicast()).ok_or_else(bad)?;
    Ok(Place::Group(may_cross(group)?, port))
}

/// Refuses groups that are for one link, as bridges do: a stream there would look like a routing protocol.
fn may_cross(group: NodeAddr) -> Result<NodeAddr, Failure> {
    match group.0 >> 8 == LINK_LOCAL.0 >> 8 {
        true => Err(Failure::misused(format_args!(
            "{group} never leaves a network, as all groups of {LINK_LOCAL}/24: choose another, like 239.1.1.1"
        ))),
        false => Ok(group),
    }
}

/// Returns a function that reports the events of a gateway with one stream.
pub(super) fn teller(as_json: bool) -> Tell {
    Box::new(move |event| {
        // If the output pipe is closed, the command ends at its next wait.
        let _ = match as_json {
            true => {
                let mut line = json!({"event": event.label(), "text": event.to_string()});
                if let Some(peer) = event.peer() {
                    line["peer"] = json!(peer.to_string());
                }
                writeln!(io::stdout(), "{line}")
            }
            false => writeln!(io::stderr(), "{event}"),
        };
    })
}

/// Returns the statistics of a stream as JSON.
pub(super) fn seen(seen: &Seen) -> Value {
    let ts = &seen.ts;
    json!({
        "packets": seen.packets,
        "bytes": seen.bytes,
        "recovered": seen.recovered,
        "tr101290": {
            "ts_packets": ts.packets,
            "ts_sync_loss": ts.ts_sync_loss,
            "sync_byte_error": ts.sync_byte_error,
            "pat_error": ts.pat_error,
            "continuity_count_error": ts.continuity_count_error,
            "pmt_error": ts.pmt_error,
            "pid_error": ts.pid_error,
            "transport_error": ts.transport_error,
            "crc_error": ts.crc_error,
            "foreign": ts.foreign,
        },
    })
}

/// Describes the statistics in words: packets, and the errors of the first priority.
pub(super) fn seen_in_words(seen: &Seen) -> String {
    let ts = &seen.ts;
    format!(
        "{} packets, {} repaired, continuity errors {}, other first-priority errors {}",
        seen.packets,
        seen.recovered,
        ts.continuity_count_error,
        ts.first_priority() - ts.continuity_count_error,
    )
}

#[cfg(test)]
mod tests {
    use super::super::{rist, rtp, srt};
    use super::*;
    use clap::Parser;

    /// A command line of a gateway.
    #[derive(Debug, Parser)]
    struct Line<A: Args> {
        #[command(flatten)]
        args: A,
    }

    fn read<A: Args>(words: &str, more: &str) -> A {
        let words = format!("x {words} {more}");
        Line::try_parse_from(words.split_whitespace()).unwrap().args
    }

    /// Returns the overlay options of each gateway: RTP, RIST, SRT.
    fn asked(more: &str) -> [Result<Options, Failure>; 3] {
        let called = "--listen 127.0.0.1:5 --from :5";
        [
            rtp::overlay(&read("--out 127.0.0.1:5 --from :5", more)),
            rist::overlay(&read(called, more)),
            srt::overlay(&read(called, more)),
        ]
    }

    fn delivered(more: &str) -> [Delivery; 3] {
        asked(more).map(|options| options.unwrap().delivery)
    }

    #[test]
    fn repaired_packets_leave_at_the_senders_pace_unless_the_protocol_restores_it() {
        let as_sent = Delivery::AsSent(None);
        assert_eq!(delivered(""), [as_sent, as_sent, Delivery::InOrder]);
        assert_eq!(delivered("--delivery as-sent"), [as_sent; 3]);
        assert_eq!(delivered("--delivery in-order"), [Delivery::InOrder; 3]);
        assert_eq!(
            delivered("--delivery as-it-comes"),
            [Delivery::AsItComes; 3]
        );
        // A service without an order keeps none, unless the option asks for it.
        assert_eq!(delivered("--service voice"), [Delivery::AsItComes; 3]);
        assert_eq!(
            delivered("--service voice --delivery as-sent"),
            [as_sent; 3]
        );
        let timed = Delivery::AsSent(Some(base::Duration::from_millis(300)));
        assert_eq!(delivered("--release 300ms"), [timed; 3]);
        for wrong in [
            "--release 500ms",
            "--release 300ms --deadline 200ms",
            "--release 300ms --delivery in-order",
        ] {
            for refused in asked(wrong) {
                assert!(refused.unwrap_err().text().contains("--release"), "{wrong}");
            }
        }
        for options in asked("--deadline 1s") {
            assert_eq!(options.unwrap().deadline, Some(Duration::from_secs(1)));
        }
    }

    #[test]
    fn streams_are_read_or_refused_with_the_word() {
        let group = NodeAddr(0xef01_0101);
        assert_eq!(place("239.1.1.1:5004").unwrap(), Place::Group(group, 5_004));
        assert_eq!(place(":5004").unwrap(), Place::Port(5_004));
        for word in ["239.1.1.1", "10.7.0.1:5004", ":0", ":", "x:1"] {
            let said = place(word).unwrap_err();
            assert!(said.text().contains(word), "{}", said.text());
        }
        let known = Known::default();
        assert_eq!(
            target("239.1.1.1:5", &known).unwrap(),
            Target::new(group, 5)
        );
        let node = NodeAddr(0x0a07_0001);
        assert_eq!(target("10.7.0.1:5", &known).unwrap(), Target::new(node, 5));
        for word in ["239.1.1.1", "fra", "239.1.1.1:0"] {
            assert!(target(word, &known).unwrap_err().text().contains(word));
        }
        for of_link in ["224.0.0.0:5", "224.0.0.251:5"] {
            for said in [target(of_link, &known).map(drop), place(of_link).map(drop)] {
                let said = said.unwrap_err();
                assert!(said.text().contains("never leaves"), "{}", said.text());
            }
        }
        assert!(target("224.0.1.1:5", &known).is_ok());
        assert_eq!(named("studio=:5"), (Some("studio".to_owned()), ":5"));
        assert_eq!(named(":5"), (None, ":5"));
    }
}
