//! The Planetlab of the paper as a scenario: a full mesh of sites, background loss on every path, nodes that
//! occasionally are not scheduled, and calls between pairs of nodes, each over the overlay and by direct UDP. [Amir06
//! §V-B]
//!
//! ```text
//!   sites ─▶ delays ─┐
//!   loads ─▶ stalls ─┼─▶ Scenario ─▶ production nodes in the simulator ─▶ per stream: lost, missed
//!   pairs ─▶ flows  ─┘
//! ```

use crate::experiment::CellError;
use crate::scenario::{
    BothWays, Call, Carrier, Fault, FaultKind, Flow, FlowReport, Link, Profile, Scenario,
    Simulation,
};
use base::impair::{LossModel, Model};
use base::{Duration, Rng};
use graph::generate::cities::{Site, great_circle_km};
use overlay::request::Options;
use overlay::sockets::default_options;
use sim::traffic::{Pattern, VOICE_BYTES, VOICE_INTERVAL};
use std::fmt::Write as _;

/// Background loss of every path, in bursts: the loss of Internet paths in 2003, which the paper quotes. [Amir06 §II-C]
const BACKGROUND_LOSS: f64 = 0.0042;
const BACKGROUND_BURSTINESS: f64 = 0.72;
/// Streams of each kind between a pair. [Amir06 §V-B]
pub(super) const STREAMS: u64 = 4;
/// The carriers: the overlay; UDP; and UDP over a path without losses, which shows the effect of the stalls of the two
/// ends, whatever lies between them.
pub(super) const CARRIERS: [&str; 3] = ["overlay", "udp", "ends"];
/// Shortest and longest time in which a node is not scheduled: "tens to hundreds of packets lost in a row" [Amir06
/// §V-B], so from 10 packets of a stream to 8 s, 400 packets, the longest time that the text mentions [Amir06 §V].
const STALL_MIN: Duration = Duration::from_millis(200);
const STALL_MAX: Duration = Duration::from_secs(8);
/// The largest share of its time in which a node is not scheduled.
///
/// Choice: the text says that losses are due to busy machines and that they differ, and gives no number. Each node's
/// share is drawn evenly from zero to a tenth. This is the model's only free number.
pub(super) const STALLED_SHARE_MAX: f64 = 0.1;
/// Delay between two nodes at one site.
const WITHIN_SITE_US: u32 = 200;
/// Time for packets under way after the last packet was sent.
const TAIL: Duration = Duration::from_secs(1);

/// The nodes, and the delay between each two.
#[derive(Clone, Debug)]
pub(super) struct Mesh {
    /// Their names.
    pub(super) names: Vec<String>,
    /// One-way delays in microseconds, by the indices of both ends.
    pub(super) delay_us: Vec<Vec<u32>>,
}

/// A pair of nodes and when their calls begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) start: Duration,
}

/// One simulation with its parameters.
pub(super) struct Trial<'a> {
    /// The nodes' timers and thresholds.
    pub(super) profile: Profile,
    pub(super) mesh: &'a Mesh,
    pub(super) pairs: &'a [Pair],
    /// Packets of each stream.
    pub(super) packets: u64,
    /// Additional loss on each overlay link and each UDP stream.
    pub(super) injected: f64,
    /// For each node, the share of its time in which it is not scheduled.
    pub(super) loads: &'a [f64],
    /// The time after which a packet is late.
    pub(super) threshold: Option<Duration>,
    /// How long nodes measure their links before the first call.
    pub(super) settle: Duration,
}

/// The results of a trial.
pub(super) struct Measured {
    /// For each pair and each of [`CARRIERS`]: the reports of all streams.
    pub(super) streams: Vec<[Vec<FlowReport>; CARRIERS.len()]>,
    /// For each pair and each of [`CARRIERS`]: the delays of all packets that arrived.
    pub(super) delays_us: Vec<[Vec<u32>; CARRIERS.len()]>,
    /// The length of each stall.
    pub(super) stalls: Vec<Duration>,
}

impl Mesh {
    /// Creates one node per site, and a second one at the first `doubled` sites; delays follow great circles.
    pub(super) fn of(sites: &[Site], doubled: usize, km_per_ms: f64) -> Mesh {
        let second = sites.iter().take(doubled);
        let second = second.map(|site| (format!("{}-2", site.name), site));
        let first = sites.iter().map(|site| (site.name.to_owned(), site));
        let nodes: Vec<(String, &Site)> = first.chain(second).collect();
        let delay = |a: &Site, b: &Site| match a == b {
            true => WITHIN_SITE_US,
            false => (great_circle_km(a, b) * 1e3 / km_per_ms).round() as u32,
        };
        let row = |(_, a): &(String, &Site)| nodes.iter().map(|(_, b)| delay(a, b)).collect();
        Mesh {
            delay_us: nodes.iter().map(row).collect(),
            names: nodes.into_iter().map(|(name, _)| name).collect(),
        }
    }

    /// Returns the index of a node.
    pub(super) fn place(&self, name: &str) -> usize {
        let found = self.names.iter().position(|other| other == name);
        found.expect("a site of the paper's tables")
    }

    /// Sets the delay between two nodes, in both directions.
    pub(super) fn set_delay_us(&mut self, a: usize, b: usize, us: u32) {
        self.delay_us[a][b] = us;
        self.delay_us[b][a] = us;
    }

    /// Returns the largest delay.
    pub(super) fn longest_us(&self) -> u32 {
        self.delay_us.iter().flatten().copied().max().unwrap_or(0)
    }
}

/// Returns every node's share of time in which it is not scheduled, which is the same in the whole run.
pub(super) fn loads(nodes: usize, seed: u64) -> Vec<f64> {
    let mut rng = Rng::new(seed);
    (0..nodes).map(|_| rng.unit() * STALLED_SHARE_MAX).collect()
}

impl Trial<'_> {
    /// Simulates the trial.
    pub(super) fn run(&self, seed: u64) -> Result<Measured, CellError> {
        let scenario = self.scenario(seed)?;
        let mut simulation = Simulation::new(&scenario, seed);
        while simulation.run_for(Duration::from_secs(60)) {}
        let (report, calls) = simulation.finish_with_calls();
        let came = |calls: Vec<Call>| calls.into_iter().flatten().flatten();
        let mut delays = calls.into_iter().map(came);
        let mut flows = report.flows.into_iter();
        // A pair's streams are in the order in which they were made.
        let mut measured = Measured {
            streams: Vec::new(),
            delays_us: Vec::new(),
            stalls: Vec::new(),
        };
        for _ in self.pairs {
            measured
                .streams
                .push(CARRIERS.map(|_| flows.by_ref().take(STREAMS as usize).collect()));
            measured
                .delays_us
                .push(CARRIERS.map(|_| delays.by_ref().take(STREAMS as usize).flatten().collect()));
        }
        for fault in &scenario.faults {
            if let FaultKind::Stall(_, span) = fault.kind {
                measured.stalls.push(span);
            }
        }
        Ok(measured)
    }

    fn scenario(&self, seed: u64) -> Result<Scenario, CellError> {
        let calls = VOICE_INTERVAL * self.packets;
        let last = self.pairs.iter().map(|pair| pair.start).max();
        let duration = last.unwrap_or_default() + calls + TAIL;
        let mut text = format!(
            "[scenario]\nname = \"planetlab\"\nprofile = \"{}\"\nsealing = false\nduration = \"{}ms\"\nsettle = \"{}ms\"\n",
            match self.profile {
                Profile::Modern => "modern",
                Profile::Paper => "paper",
            },
            duration.as_millis(),
            self.settle.as_millis()
        );
        for name in &self.mesh.names {
            let _ = write!(text, "[[node]]\nname = \"{name}\"\n");
        }
        let scenario = Scenario::parse("planetlab", &text);
        let mut scenario = scenario.map_err(|error| CellError(error.to_string()))?;
        let nodes = self.mesh.names.len();
        for a in 0..nodes {
            for b in a + 1..nodes {
                let path = self.path(a, b)?;
                let second = None;
                scenario.links.push(Link { a, b, path, second });
            }
        }
        for pair in self.pairs {
            self.add_flows(&mut scenario, pair)?;
        }
        scenario.faults = self.stalls(duration, seed);
        Ok(scenario)
    }

    /// Returns the path between two nodes. "Dropping packets at each node, just before processing them" [Amir06 §V-B]
    /// is equivalent to independent loss in addition to the path's own.
    fn path(&self, a: usize, b: usize) -> Result<BothWays, CellError> {
        // P(lost) = p and P(lost | previous lost) = b: a bad state that ends with probability 1−b.
        let (p, burst) = (BACKGROUND_LOSS, BACKGROUND_BURSTINESS);
        let loss = LossModel::GilbertElliott {
            enter: p * (1.0 - burst) / (1.0 - p),
            leave: 1.0 - burst,
            loss_good: self.injected,
            loss_bad: 1.0,
        };
        self.path_with(a, b, loss)
    }

    fn path_with(&self, a: usize, b: usize, loss: LossModel) -> Result<BothWays, CellError> {
        let delay = Duration::from_micros(u64::from(self.mesh.delay_us[a][b]));
        let model = Model::default().with_loss(loss);
        let model = model.and_then(|model| model.with_delay(delay));
        let there = model.map_err(|error| CellError(error.to_string()))?;
        Ok(BothWays {
            back: there.clone(),
            there,
        })
    }

    /// Returns the options of a stream: real-time links and expected latency. A packet that is delivered late counts as
    /// late. With the defaults, a stream has the deadline by which it is judged, as calls have, and nodes may drop what
    /// is later. The paper's protocol has no deadline in its packets.
    fn options(&self) -> Options {
        let deadline = match self.profile {
            Profile::Modern => self.threshold,
            Profile::Paper => None,
        };
        Options {
            deadline,
            ..default_options()
        }
    }

    /// Adds four streams over each carrier, with phases spread over an interval.
    fn add_flows(&self, scenario: &mut Scenario, pair: &Pair) -> Result<(), CellError> {
        let (from, to) = (pair.from, pair.to);
        for name in CARRIERS {
            for stream in 0..STREAMS {
                let carrier = match name {
                    "overlay" => Carrier::Overlay(self.options()),
                    "udp" => Carrier::Direct(Box::new(self.path(from, to)?)),
                    _ => Carrier::Direct(Box::new(self.path_with(from, to, LossModel::None)?)),
                };
                let phase = VOICE_INTERVAL.div(STREAMS) * stream;
                let start = pair.start + phase;
                scenario.flows.push(Flow {
                    name: format!("{from}-{to} {name} {stream}"),
                    from,
                    to,
                    also: Vec::new(),
                    ways: None,
                    is_stream: false,
                    expires: false,
                    carrier,
                    is_bulk: false,
                    is_answered: false,
                    pattern: Pattern::voice(),
                    packet: VOICE_BYTES,
                    count: 1,
                    start,
                    stop: start + VOICE_INTERVAL * self.packets,
                    deadline: self.threshold,
                });
            }
        }
        Ok(())
    }

    /// Returns when nodes are not scheduled: lengths are uniform by their logarithm, times between them are memoryless,
    /// so that a node is away for its share of the time.
    fn stalls(&self, duration: Duration, seed: u64) -> Vec<Fault> {
        let mut rng = Rng::new(seed);
        let (min, max) = (STALL_MIN.as_secs_f64(), STALL_MAX.as_secs_f64());
        let mean_s = (max - min) / (max / min).ln();
        let mut faults = Vec::new();
        for (node, load) in self
            .loads
            .iter()
            .enumerate()
            .filter(|(_, load)| **load > 0.0)
        {
            let gap_s = mean_s * (1.0 - load) / load;
            let mut at_s = 0.0;
            loop {
                at_s -= gap_s * (1.0 - rng.unit()).ln();
                let at = Duration::from_secs_f64(at_s);
                if at >= duration {
                    break;
                }
                let span_s = min * (max / min).powf(rng.unit());
                let span = Duration::from_secs_f64(span_s);
                let kind = FaultKind::Stall(node, span);
                faults.push(Fault { at, kind });
                at_s += span_s;
            }
        }
        faults.sort_by_key(|fault| fault.at);
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use graph::generate::cities::AMIR06_TABLE_I;

    #[test]
    fn nodes_are_away_for_their_share_of_the_time() {
        let mesh = Mesh::of(&AMIR06_TABLE_I[..2], 0, 100.0);
        let trial = Trial {
            profile: Profile::Paper,
            mesh: &mesh,
            pairs: &[],
            packets: 0,
            injected: 0.05,
            loads: &[0.08, 0.0],
            threshold: None,
            settle: Duration::ZERO,
        };
        let stalls = trial.stalls(Duration::from_secs(200_000), 1);
        let mut away_s = 0.0;
        for fault in &stalls {
            let FaultKind::Stall(0, span) = fault.kind else {
                panic!("only the first node is busy")
            };
            assert!((STALL_MIN..=STALL_MAX).contains(&span));
            away_s += span.as_secs_f64();
        }
        assert!((away_s / 200_000.0 - 0.08).abs() < 0.004, "{away_s}");
        let model = trial.path(0, 1).unwrap().there;
        let lost = 0.0042 + 0.9958 * 0.05;
        assert!((model.loss().marginal() - lost).abs() < 1e-4);
    }

    #[test]
    fn calls_without_stalls_lose_what_was_injected_or_less() {
        let mesh = Mesh::of(&AMIR06_TABLE_I[..4], 1, 100.0);
        assert_eq!((mesh.names.len(), mesh.delay_us[0][4]), (5, WITHIN_SITE_US));
        let pair = Pair {
            from: 0,
            to: 3,
            start: Duration::ZERO,
        };
        let trial = Trial {
            profile: Profile::Paper,
            mesh: &mesh,
            pairs: &[pair],
            packets: 300,
            injected: 0.05,
            loads: &[0.0; 5],
            threshold: Some(Duration::from_millis(120)),
            settle: Duration::from_secs(15),
        };
        let measured = trial.run(1).unwrap();
        let [overlay, direct, ends] = &measured.streams[0];
        let lost = |streams: &[FlowReport]| streams.iter().map(|s| s.packets.lost).sum::<u64>();
        assert_eq!((overlay.len(), direct.len()), (4, 4));
        assert!((20..130).contains(&lost(direct)), "{}", lost(direct));
        assert!(lost(overlay) * 3 < lost(direct), "{}", lost(overlay));
        assert_eq!(lost(ends), 0);
        assert!(measured.stalls.is_empty());
        let [over, by_udp, _] = &measured.delays_us[0];
        assert_eq!(over.len() as u64, 1_200 - lost(overlay));
        assert!(by_udp.iter().all(|us| *us == mesh.delay_us[0][3]));
    }
}
