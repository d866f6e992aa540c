//! Every datagram of a world, told to a sink as it is sent, lost, or arrives.
//!
//! ```text
//!   outbox ──▶ sent(arrives at ..) ──────────▶ arrived │ host-down │ buffer-full
//!         └──▶ dropped(loss, queue, outage, full, no-path, cut)
//! ```
//!
//! The simulator opens no files: it hands each [`Packet`] to a [`Trace`], and whoever has files
//! writes what [`json_line`] or [`pcap`] make of it. Equal seeds give equal traces, byte for byte.

pub mod pcap;

use base::impair::Reason;
use base::{Time, UnderlayAddr};
use core::fmt::Write;

/// Takes note of packets. Any closure that takes a [`Packet`] does.
pub trait Trace {
    /// Something has become of a packet.
    fn packet(&mut self, packet: &Packet<'_>);
}

impl<F: FnMut(&Packet<'_>)> Trace for F {
    fn packet(&mut self, packet: &Packet<'_>) {
        self(packet);
    }
}

/// A datagram, and what has just become of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The world's time.
    pub at: Time,
    /// Who sent it.
    pub from: UnderlayAddr,
    /// Whom it is for.
    pub to: UnderlayAddr,
    /// The datagram without what UDP and IP add.
    pub bytes: &'a [u8],
    /// What has become of it.
    pub fate: Fate,
}

/// What becomes of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is under way.
    Sent {
        /// When it arrives.
        arrives: Time,
        /// When a copy of it arrives, if the wire makes one.
        again: Option<Time>,
    },
    /// The wire has dropped it.
    Dropped(Reason),
    /// No wire leads to that address.
    NoPath,
    /// A partition lies between.
    Cut,
    /// It has arrived.
    Arrived,
    /// It has arrived at a host that is down.
    HostDown,
    /// It has arrived at a host that is not scheduled, and whose socket buffer is full.
    BufferFull,
}

impl Fate {
    /// Whether this is the packet's beginning: true once for each datagram that was sent.
    pub fn is_first(self) -> bool {
        !matches!(self, Fate::Arrived | Fate::HostDown | Fate::BufferFull)
    }

    /// Why the packet was dropped, if it was.
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
