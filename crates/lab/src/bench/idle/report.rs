//! The results of `sinew bench idle`: the documented JSON, and the table.

use crate::bench::heading;
use serde::Serialize;
use std::fmt;
use tools::table::align;

/// All results.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The scheduling of the node.
    pub scheduling: String,
    /// The machine's load before and after.
    pub load: [f64; 2],
    /// Links of the node.
    pub links: usize,
    /// Length of the idle and of the active part.
    pub seconds: f64,
    /// The idle part; all links.
    pub idle: Idle,
    /// The active part; the links of the calling nodes.
    pub active: Active,
    /// The part with bound clients.
    pub clients: Clients,
}

/// What the node used, and the traffic on links in addition to data.
#[derive(Clone, Debug, Serialize)]
pub struct Idle {
    /// Memory in use at the end; the goal of an idle node is at most 10 MB.
    pub resident_bytes: u64,
    /// Share of one processor; the goal of an idle node with four links is at most 0.5.
    pub cpu_pct: f64,
    /// How often one of its threads was woken.
    pub wakeups_per_s: f64,
    /// The maximum of [`Idle::control`]; the goal is at most 1500 when idle, 12000 when active.
    pub control_max_bps: f64,
    /// The directions of all links.
    pub control: Vec<Control>,
}

/// One direction of a link.
#[derive(Clone, Debug, Serialize)]
pub struct Control {
    /// The sending node.
    pub from: String,
    /// The receiving node.
    pub to: String,
    /// All traffic except data, in bit/s, with 28 bytes of IPv4 and UDP per datagram.
    pub bps: f64,
}

/// The same with calls through the node; its control traffic is that of the two links in use.
#[derive(Clone, Debug, Serialize)]
pub struct Active {
    /// Calls of 50 packets/s.
    pub streams: u32,
    /// Their packets, without the first 200 ms.
    pub sent: u64,
    /// Packets of the calls that arrived.
    pub arrived: u64,
    /// What the node used.
    #[serde(flatten)]
    pub usage: Idle,
}

/// A node with clients.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Clients {
    /// Clients that are bound, and have sent a packet.
    pub bound: usize,
    /// Memory of the node in use; the goal with 1000 clients is at most 100 MB.
    pub resident_bytes: u64,
    /// Memory that each client added.
    pub bytes_per_client: f64,
}

/// A value, and its upper limit.
struct Goal {
    value: f64,
    most: f64,
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Goal { value, most } = *self;
        let judged = if value <= most { "ok" } else { "MISSED" };
        write!(f, "{value:.2} (<= {most}) {judged}")
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [before, after] = self.load;
        let Active {
            streams,
            sent,
            arrived,
            usage: active,
        } = &self.active;
        writeln!(
            f,
            "a node with {} links, on loopback; {} s idle, {} s with {streams} calls through it \
             ({arrived} of {sent} packets arrived)\n\
             scheduling: {}; load {before:.1} to {after:.1}\n",
            self.links, self.seconds, self.seconds, self.scheduling,
        )?;
        let goal = |value: f64, most: f64| Goal { value, most }.to_string();
        let mb = |bytes: u64| bytes as f64 / 1e6;
        let idle = &self.idle;
        let mut table = vec![heading(["", "idle", "active"])];
        let mut row = |what: &str, idle: String, active: String| {
            table.push(vec![what.to_owned(), idle, active]);
        };
        row(
            "memory, MB",
            goal(mb(idle.resident_bytes), 10.0),
            format!("{:.2}", mb(active.resident_bytes)),
        );
        row(
            "% of a processor",
            goal(idle.cpu_pct, 0.5),
            format!("{:.2}", active.cpu_pct),
        );
        row(
            "wake-ups per second",
            format!("{:.1}", idle.wakeups_per_s),
            format!("{:.1}", active.wakeups_per_s),
        );
        row(
            "control traffic of the busiest direction of a link, kbit/s",
            goal(idle.control_max_bps / 1e3, 1.5),
            goal(active.control_max_bps / 1e3, 12.0),
        );
        f.write_str(&align(&table))?;
        let Clients {
            bound,
            resident_bytes,
            bytes_per_client,
        } = self.clients;
        // The goal is defined for a thousand clients.
        let memory = match bound {
            1_000.. => goal(mb(resident_bytes), 100.0),
            _ => format!("{:.2}", mb(resident_bytes)),
        };
        writeln!(
            f,
            "\nwith {bound} clients: {memory} MB, {:.1} kB each",
            bytes_per_client / 1e3
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(bps: f64) -> Idle {
        Idle {
            resident_bytes: 8_000_000,
            cpu_pct: 0.6,
            wakeups_per_s: 40.0,
            control_max_bps: bps,
            control: vec![Control {
                from: "a".into(),
                to: "b".into(),
                bps,
            }],
        }
    }

    #[test]
    fn goals_are_judged_and_keys_are_stable() {
        let report = Report {
            scheduling: "real time".into(),
            load: [0.0, 1.0],
            links: 4,
            seconds: 10.0,
            idle: usage(1_400.0),
            active: Active {
                streams: 10,
                sent: 5_000,
                arrived: 4_999,
                usage: usage(13_000.0),
            },
            clients: Clients {
                bound: 1_000,
                resident_bytes: 30_000_000,
                bytes_per_client: 22_000.0,
            },
        };
        let text = report.to_string();
        for expected in [
            "8.00 (<= 10) ok",
            "0.60 (<= 0.5) MISSED",
            "1.40 (<= 1.5) ok",
            "13.00 (<= 12) MISSED",
            "with 1000 clients: 30.00 (<= 100) ok MB, 22.0 kB each",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["active"]["control"][0]["bps"], 13_000.0);
        assert_eq!(json["idle"]["control_max_bps"], 1_400.0);
    }
}
