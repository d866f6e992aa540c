//! What an emulated link carried: the documented JSON, and the table.

use super::Options;
use super::bridge::{Carried, Way};
use crate::table::{COLUMNS, fold};
use serde::Serialize;
use std::fmt;

/// What both directions carried.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The scheduling that the emulator got.
    pub scheduling: String,
    /// Forward, then back.
    pub directions: Vec<Direction>,
}

/// One direction.
#[derive(Clone, Debug, Serialize)]
pub struct Direction {
    /// The end where packets came from.
    pub from: String,
    /// The end where packets went.
    pub to: String,
    /// The model of the link, in the words of the command line.
    pub link: String,
    /// IP packets that were handed in.
    pub packets: u64,
    /// Bytes of these packets.
    pub bytes: u64,
    /// Packets that arrived, or were under way at the end.
    pub delivered: u64,
    /// Packets lost on the wire.
    pub lost: u64,
    /// Packets that are longer than the link carries.
    pub too_long: u64,
    /// Packets dropped because the queue before the transmitter was full.
    pub queue: u64,
    /// Packets dropped while the link was down.
    pub outage: u64,
    /// Packets dropped because too many were in the line.
    pub full: u64,
    /// Further copies that arrived.
    pub duplicated: u64,
    /// Packets that the kernel did not deliver.
    pub refused: u64,
    /// Packets that the emulator did not take in time; the model never saw them.
    pub overrun: u64,
    /// Packets that were still in the line at the end.
    pub under_way: u64,
    /// Median of how long after its time a packet was delivered; null if no packet was.
    pub late_p50_us: Option<f64>,
    /// The 99th percentile of this delay.
    pub late_p99_us: Option<f64>,
    /// The maximum of this delay.
    pub late_max_us: Option<f64>,
}

impl Report {
    pub(super) fn new(options: &Options, carried: &Carried, overrun: [u64; 2]) -> Report {
        let direction = |side: usize| {
            let way: &Way = &carried.ways[side];
            let us = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1e3);
            Direction {
                from: options.between[side].to_string(),
                to: options.between[1 - side].to_string(),
                link: options.models[side].to_string(),
                packets: way.packets_in,
                bytes: way.bytes_in,
                delivered: way.counts.delivered,
                lost: way.counts.lost,
                too_long: way.counts.too_long,
                queue: way.counts.queue,
                outage: way.counts.outage,
                full: way.counts.full,
                duplicated: way.counts.duplicated,
                refused: way.refused,
                overrun: overrun[side],
                under_way: way.under_way,
                late_p50_us: us(way.late_ns.quantile(0.5)),
                late_p99_us: us(way.late_ns.quantile(0.99)),
                late_max_us: us(way.late_ns.max()),
            }
        };
        Report {
            scheduling: carried.scheduling.clone(),
            directions: vec![direction(0), direction(1)],
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = [
            "from",
            "to",
            "packets",
            "delivered",
            "lost",
            "queue",
            "outage",
            "overrun",
            "late p50 µs",
            "late p99 µs",
            "late max µs",
        ];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        let us = |us: Option<f64>| us.map_or_else(|| "-".to_owned(), |us| format!("{us:.0}"));
        for way in &self.directions {
            let mut row = vec![way.from.clone(), way.to.clone()];
            let counts = [
                way.packets,
                way.delivered,
                way.lost + way.too_long,
                way.queue,
                way.outage,
            ];
            row.extend(counts.map(|n| n.to_string()));
            row.push((way.overrun + way.full + way.refused).to_string());
            row.extend([way.late_p50_us, way.late_p99_us, way.late_max_us].map(us));
            rows.push(row);
        }
        f.write_str(&fold(&rows, COLUMNS))?;
        for way in &self.directions {
            writeln!(f, "{} to {}: {}", way.from, way.to, way.link)?;
        }
        writeln!(f, "scheduling: {}", self.scheduling)
    }
}
