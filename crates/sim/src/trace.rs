//! Reports every datagram of a world to a sink when it is sent, is lost, or arrives.
//!
//! ```text
//!   outbox ──▶ sent(arrives at ..) ──────────▶ arrived │ host-down │ buffer-full
//!         └──▶ dropped(loss, queue, outage, full, no-path, cut)
//! ```
//!
//! The simulator opens no files: it hands each [`Packet`] to a [`Trace`]. A caller that writes files writes the output
//! of [`json_line`] or [`pcap`]. Equal seeds give equal traces, byte for byte.

pub mod pcap;

use base::impair::Reason;
use base::{Time, UnderlayAddr};
use core::fmt::Write;

/// Receives the reports about packets. Any closure that takes a [`Packet`] is a `Trace`.
pub trait Trace {
    /// Takes a report: something happened to a packet.
    fn packet(&mut self, packet: &Packet<'_>);
}

impl<F: FnMut(&Packet<'_>)> Trace for F {
    fn packet(&mut self, packet: &Packet<'_>) {
        self(packet);
    }
}

/// A datagram, and what has just happened to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The world's time.
    pub at: Time,
    /// The sender's address.
    pub from: UnderlayAddr,
    /// The destination address.
    pub to: UnderlayAddr,
    /// The datagram without UDP and IP headers.
    pub bytes: &'a [u8],
    /// What happened to it.
    pub fate: Fate,
}

/// What happens to a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was sent and is under way.
    Sent {
        /// When it arrives.
        arrives: Time,
        /// When a copy of it arrives, if the wire makes one.
        again: Option<Time>,
    },
    /// The wire has dropped it.
    Dropped(Reason),
    /// No wire leads to the destination address.
    NoPath,
    /// A partition separates the two hosts.
    Cut,
    /// It has arrived.
    Arrived,
    /// It has arrived at a host that is down.
    HostDown,
    /// It has arrived at a host that is not scheduled, and whose socket buffer is full.
    BufferFull,
}

impl Fate {
    /// Returns whether this is the first report about the packet: true once for each datagram that was sent.
    pub fn is_first(self) -> bool {
        !matches!(self, Fate::Arrived | Fate::HostDown | Fate::BufferFull)
    }

    /// Returns why the packet was dropped, if it was.
    pub fn dropped(self) -> Option<&'static str> {
        match self {
            Fate::Sent { .. } | Fate::Arrived => None,
            Fate::Dropped(reason) => Some(reason.as_str()),
            Fate::NoPath => Some("no-path"),
            Fate::Cut => Some("cut"),
            Fate::HostDown => Some("host-down"),
            Fate::BufferFull => Some("buffer-full"),
        }
    }
}

/// Appends the packet as one JSON object and a line feed:
///
/// ```json
/// {"at_ns":3000000000,"event":"sent","from":"10.0.0.1:7000","to":"10.0.0.2:7000","bytes":219,"arrives_ns":3010000000}
/// {"at_ns":3000000000,"event":"dropped","why":"loss","from":"10.0.0.1:7000","to":"10.0.0.2:7000","bytes":219}
/// {"at_ns":3010000000,"event":"arrived","from":"10.0.0.1:7000","to":"10.0.0.2:7000","bytes":219}
/// ```
pub fn json_line(packet: &Packet<'_>, out: &mut String) {
    let event = match packet.fate {
        Fate::Sent { .. } => "sent",
        Fate::Arrived => "arrived",
        _ => "dropped",
    };
    put(
        out,
        format_args!("{{\"at_ns\":{},\"event\":\"{event}\"", packet.at.as_nanos()),
    );
    if let Some(why) = packet.fate.dropped() {
        put(out, format_args!(",\"why\":\"{why}\""));
    }
    put(
        out,
        format_args!(
            ",\"from\":\"{}\",\"to\":\"{}\",\"bytes\":{}",
            packet.from,
            packet.to,
            packet.bytes.len()
        ),
    );
    if let Fate::Sent { arrives, again } = packet.fate {
        put(out, format_args!(",\"arrives_ns\":{}", arrives.as_nanos()));
        if let Some(again) = again {
            put(out, format_args!(",\"again_ns\":{}", again.as_nanos()));
        }
    }
    out.push_str("}\n");
}

fn put(out: &mut String, text: core::fmt::Arguments<'_>) {
    out.write_fmt(text)
        .expect("writing to a string does not fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_one_line() {
        let line = |fate| {
            let mut out = String::new();
            let packet = Packet {
                at: Time::from_nanos(7),
                from: crate::underlay(0),
                to: crate::underlay(1),
                bytes: &[0; 20],
                fate,
            };
            json_line(&packet, &mut out);
            out
        };
        let ends = "\"from\":\"10.0.0.1:7000\",\"to\":\"10.0.0.2:7000\",\"bytes\":20";
        let sent = Fate::Sent {
            arrives: Time::from_nanos(9),
            again: Some(Time::from_nanos(11)),
        };
        for (fate, before, behind) in [
            (sent, "\"sent\",", ",\"arrives_ns\":9,\"again_ns\":11"),
            (Fate::Arrived, "\"arrived\",", ""),
            (
                Fate::Dropped(Reason::Loss),
                "\"dropped\",\"why\":\"loss\",",
                "",
            ),
            (Fate::NoPath, "\"dropped\",\"why\":\"no-path\",", ""),
            (Fate::Cut, "\"dropped\",\"why\":\"cut\",", ""),
            (Fate::HostDown, "\"dropped\",\"why\":\"host-down\",", ""),
        ] {
            let expected = format!("{{\"at_ns\":7,\"event\":{before}{ends}{behind}}}\n");
            assert_eq!(line(fate), expected);
        }
    }
}
