//! The chain of [Amir03 §III]: 50 ms in a few hops, one of which loses packets, and a stream of
//! 1000-byte messages over it.
//!
//! ```text
//!   A ──10 ms── B ──10 ms── C ══10 ms, loss══ D ──10 ms── E ──10 ms── F
//!   end to end:  one connection A → F
//!   hop by hop:  five connections; B to E hand on what arrives as it comes, F restores the order
//!   nodes:       the production node at A to F, the stream in the class of reliable links
//! ```
//!
//! Choice: only the data's direction on the middle hop has losses, and links have 10 Mbit/s and room for 50 packets.
//! These are the parameters with which ns-2 comes closest to Table I.

use crate::experiment::{Cell, CellError};
use crate::scenario::{Scenario, Simulation};
use crate::stats::mean;
use base::{Duration, Time};
use sim::tcp::{Forward, Load, Network, Relay, Settings, Traffic};
use sim::traffic::Pattern;
use std::fmt::Write as _;

/// The latency of the whole path. [Amir03 §III]
pub(super) const PATH_MS: f64 = 50.0;
/// Hops of the path, except in Figure 7.
pub(super) const HOPS: usize = 5;
/// Bytes of a message, and of the segment that carries it on the wire.
pub(super) const MESSAGE_BYTES: usize = 1000;
/// Rate of the links.
pub(super) const LINK_MBPS: u32 = 10;
/// Number of packets that wait for a link, in addition to one in transmission: ns-2's limit of 50.
pub(super) const QUEUE_PACKETS: u32 = 49;

/// Segments of application data that a relay holds for the next hop. The paper's relays have no limit; 10 000 are 160 s
/// of 500 kbit/s.
const RELAY_SEGMENTS: u32 = 10_000;

/// Where retransmission happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Joined {
    EndToEnd,
    HopByHop,
    /// The overlay's own reliable links, in the same simulator.
    Nodes,
}

impl Joined {
    pub(super) const ALL: [Joined; 3] = [Joined::EndToEnd, Joined::HopByHop, Joined::Nodes];

    /// Returns the coordinate of a cell.
    pub(super) const fn number(self) -> f64 {
        match self {
            Joined::EndToEnd => 0.0,
            Joined::HopByHop => 1.0,
            Joined::Nodes => 2.0,
        }
    }

    /// Returns the kind of a cell.
    pub(super) fn of(cell: &Cell) -> Joined {
        let number = cell.parameter("joined");
        let mut all = Joined::ALL.into_iter();
        all.find(|joined| joined.number() == number)
            .expect("the experiment made this cell")
    }

    /// Returns the name of its line.
    pub(super) const fn label(self) -> &'static str {
        match self {
            Joined::EndToEnd => "end to end",
            Joined::HopByHop => "hop by hop",
            Joined::Nodes => "this overlay",
        }
    }
}

/// A path and a stream over it.
#[derive(Clone, Debug)]
pub(super) struct Path {
    /// The latency of each hop.
    pub(super) hops_ms: Vec<f64>,
    /// The index of the hop that loses packets.
    pub(super) lossy: usize,
    pub(super) loss_percent: f64,
    pub(super) rate_bps: u64,
    pub(super) joined: Joined,
    /// Whether the receiver restores the order by the numbers of the first sender, even end to end.
    pub(super) modified: bool,
    pub(super) seconds: u64,
    pub(super) settings: Settings,
}

impl Path {
    /// Creates equal hops; the middle one has losses.
    pub(super) fn equal(
        hops: usize,
        loss_percent: f64,
        joined: Joined,
        settings: Settings,
    ) -> Path {
        Path {
            hops_ms: vec![PATH_MS / hops as f64; hops],
            lossy: hops / 2,
            loss_percent,
            rate_bps: 500_000,
            joined,
            modified: false,
            seconds: 500,
            settings,
        }
    }

    /// Returns the delay of each message from write to delivery, in ms and in order.
    pub(super) fn delays_ms(&self, seed: u64) -> Result<Vec<f64>, CellError> {
        match self.joined {
            Joined::Nodes => self.by_nodes(seed),
            Joined::EndToEnd | Joined::HopByHop => Ok(self.by_tcp(seed)),
        }
    }

    fn by_tcp(&self, seed: u64) -> Vec<f64> {
        let mut network = Network::default();
        let hosts: Vec<_> = (0..=self.hops_ms.len()).map(|_| network.host()).collect();
        for (n, pair) in hosts.windows(2).enumerate() {
            let clean = link(self.hops_ms[n], 0.0);
            let lossy = match n == self.lossy {
                true => link(self.hops_ms[n], self.loss_percent),
                false => clean.clone(),
            };
            network.link_one_way(pair[0], pair[1], lossy);
            network.link_one_way(pair[1], pair[0], clean);
        }
        let last = hosts[hosts.len() - 1];
        let mut settings = self.settings.clone();
        settings.segment_bytes = MESSAGE_BYTES;
        let traffic = Traffic::always(Load::Messages {
            pattern: Pattern::cbr(self.rate_bps, MESSAGE_BYTES),
            bytes: settings.payload_bytes(),
        });
        let flow = match self.joined {
            Joined::EndToEnd | Joined::Nodes => network.connect(hosts[0], last, settings, traffic),
            Joined::HopByHop => {
                let mut flow = network.connect(hosts[0], hosts[1], settings.clone(), traffic);
                settings.send_buffer = RELAY_SEGMENTS;
                let relay = Relay {
                    forward: Forward::AsItComes,
                    pace: None,
                };
                for host in &hosts[2..] {
                    flow = network.relay(flow, relay, *host, settings.clone());
                }
                flow
            }
        };
        if self.modified {
            network.deliver_by_number(flow);
        }
        let mut world = network.build(seed);
        world.run_until(Time::ZERO + Duration::from_secs(self.seconds));
        let delays = flow.deliveries(&world).iter();
        delays.map(|d| d.delay().as_secs_f64() * 1e3).collect()
    }

    /// Production nodes forward packets in the order of arrival; this function restores the order, as a session does at
    /// the end.
    fn by_nodes(&self, seed: u64) -> Result<Vec<f64>, CellError> {
        let failed = |error: &dyn std::fmt::Display| CellError(error.to_string());
        let scenario = Scenario::parse("path", &self.scenario()).map_err(|error| failed(&error))?;
        let mut simulation = Simulation::new(&scenario, seed);
        while simulation.run_for(Duration::from_secs(3_600)) {}
        let (_, calls) = simulation.finish_with_calls();
        let interval_ms = MESSAGE_BYTES as f64 * 8.0 / (self.rate_bps as f64 / 1e3);
        let (mut delays, mut delivered) = (Vec::new(), 0.0_f64);
        for (n, delay_us) in calls.into_iter().flatten().flatten().enumerate() {
            // A packet that never arrived would hold back all others; its retransmission would be the sessions' task.
            let Some(delay_us) = delay_us else { continue };
            let sent = n as f64 * interval_ms;
            delivered = delivered.max(sent + f64::from(delay_us) / 1e3);
            delays.push(delivered - sent);
        }
        Ok(delays)
    }

    fn scenario(&self) -> String {
        let mut text = format!(
            "[scenario]\nname = \"path\"\nduration = \"{}s\"\nsealing = false\n",
            self.seconds
        );
        for n in 0..=self.hops_ms.len() {
            let _ = write!(text, "[[node]]\nname = \"n{n}\"\n");
        }
        for (n, delay_ms) in self.hops_ms.iter().enumerate() {
            let ends = format!("a = \"n{n}\"\nb = \"n{}\"", n + 1);
            let clean = words(*delay_ms, 0.0);
            let _ = write!(text, "[[link]]\n{ends}\npath = \"{clean}\"\n");
            if n == self.lossy {
                let lossy = words(*delay_ms, self.loss_percent);
                let _ = write!(
                    text,
                    "[[fault]]\nat = \"0s\"\nkind = \"link-set\"\n{ends}\npath = \"{lossy}\"\nback = \"{clean}\"\n"
                );
            }
        }
        let _ = write!(
            text,
            "[[flow]]\nfrom = \"n0\"\nto = \"n{}\"\nclass = \"reliable\"\npattern = \"cbr\"\nrate = \"{}kbit\"\n\
             packet = {MESSAGE_BYTES}\n",
            self.hops_ms.len(),
            self.rate_bps / 1000
        );
        text
    }
}

/// Returns a link with this latency and loss.
pub(super) fn link(delay_ms: f64, loss_percent: f64) -> base::impair::Model {
    let words = words(delay_ms, loss_percent);
    words.parse().expect("the numbers are in range")
}

/// Returns the words of such a link.
pub(super) fn words(delay_ms: f64, loss_percent: f64) -> String {
    let delay_us = (delay_ms * 1e3).round();
    format!("rate={LINK_MBPS}mbit queue={QUEUE_PACKETS} delay={delay_us}us loss={loss_percent}%")
}

/// Returns the seed of a run. Runs with equal numbers have the same losses in all variants, so that a difference
/// between two variants is not random.
pub(super) fn run_seed(seed: u64, run: u32) -> u64 {
    base::Rng::new(seed ^ (u64::from(run) << 32)).next_u64()
}

/// The statistics of some packets' delays.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Summary {
    pub(super) packets: f64,
    pub(super) mean_ms: f64,
    pub(super) jitter_ms: f64,
    pub(super) over_60_pct: f64,
    pub(super) over_100_pct: f64,
    pub(super) over_500_pct: f64,
}

impl Summary {
    pub(super) fn of(delays_ms: &[f64]) -> Summary {
        let packets = delays_ms.len() as f64;
        let mean_ms = mean(delays_ms.iter().copied());
        let variance = mean(delays_ms.iter().map(|ms| (ms - mean_ms).powi(2)));
        let over = |limit: f64| {
            let late = delays_ms.iter().filter(|ms| **ms > limit).count();
            100.0 * late as f64 / packets
        };
        Summary {
            packets,
            mean_ms,
            // [Amir03 §III] The jitter is the standard deviation of the packet delay.
            jitter_ms: variance.sqrt(),
            over_60_pct: over(60.0),
            over_100_pct: over(100.0),
            over_500_pct: over(500.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use congestion::Family;

    #[test]
    fn jitter_is_the_standard_deviation() {
        assert_eq!(Summary::of(&[40.0, 60.0]).jitter_ms, 10.0);
    }

    #[test]
    fn without_losses_every_message_takes_the_path() {
        for joined in [Joined::EndToEnd, Joined::HopByHop] {
            let settings = Settings::of_2003(Family::Fack);
            let mut path = Path::equal(HOPS, 0.0, joined, settings);
            path.seconds = 20;
            let delays = path.delays_ms(1).unwrap();
            // The delay is 50 ms, and 0.8 ms for a segment on each link; packets still under way are missing.
            assert_eq!(delays.len(), 1247, "{joined:?}");
            let steady = &delays[200..];
            assert!(
                steady.iter().all(|ms| (ms - 54.0).abs() < 0.01),
                "{joined:?}"
            );
        }
    }

    #[test]
    fn over_this_overlay_every_message_takes_the_path_too() {
        let settings = Settings::of_2003(Family::Fack);
        let mut path = Path::equal(HOPS, 2.0, Joined::Nodes, settings);
        path.seconds = 20;
        let delays = path.delays_ms(1).unwrap();
        assert_eq!(delays.len(), 1250);
        // Headers make the segments a little longer than TCP's.
        let at_once = delays.iter().filter(|ms| **ms < 57.0).count();
        assert!(at_once > 1000, "{at_once}");
        assert!(delays.iter().all(|ms| (54.0..500.0).contains(ms)));
    }
}
