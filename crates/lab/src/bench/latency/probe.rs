//! One number of streams over three nodes, compared with the kernel alone: the building block of the experiments on
//! real nodes. [Amir06 §V-A]
//!
//! ```text
//!   client ── a ── b ── c ── client        loops of normal priority beside b, on its processor
//! ```
//!
//! The paper loads the computer of the middle node. Here the outer nodes and, if there are two processors, every second
//! link of the chain have another processor than the middle one, and the loops are confined to the middle one's. Sender
//! and receiver of the measurement have real-time priority on all paths, so that the result shows only the nodes'
//! delay.

use super::chain::Chain;
use super::load::Load;
use super::{Arena, MIDDLE, Options, Pinning};
use crate::bench::row::Row;
use crate::bench::trial::{self, RATE_PPS, Trial};
use crate::bench::{BenchError, apart};
use base::Duration;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use tools::interrupt::Interrupt;
use tools::progress::Progress;

/// Number of packets of a stream that are sent in one go: ten seconds. Between two goes the probe checks that the nodes
/// are still there.
const GO_PACKETS: u64 = 500;
/// How long the probe observes idle nodes.
const IDLE: std::time::Duration = std::time::Duration::from_secs(2);
/// The index of the sending client's node.
const FIRST: usize = 0;

/// The parameters of the measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe<'a> {
    /// The program, run as `PROGRAM node --config FILE`.
    pub(crate) program: &'a Path,
    /// Number of simultaneous streams, of 50 packets/s and 160 bytes.
    pub(crate) streams: u32,
    /// Number of packets of each stream over the nodes.
    pub(crate) packets: u64,
    /// Whether nodes request real-time priority.
    pub(crate) realtime: bool,
    /// Number of loops next to the middle node.
    pub(crate) loops: usize,
}

/// The results.
#[derive(Clone, Debug)]
pub(crate) struct Probed {
    /// Delays with the kernel alone.
    pub(crate) kernel: Delays,
    /// Delays over the nodes.
    pub(crate) nodes: Delays,
    /// The scheduling of the middle node.
    pub(crate) scheduling: String,
    /// Processor time of the first and the middle node while packets were sent, as shares of one processor.
    pub(crate) first_cpu: f64,
    pub(crate) middle_cpu: f64,
    /// Processor time of the middle node while no packets were sent.
    pub(crate) idle_cpu: f64,
}

/// One-way delays of all packets of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Delays {
    pub(crate) sent: u64,
    pub(crate) arrived: u64,
    pub(crate) mean_ms: f64,
    pub(crate) deviation_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) max_ms: f64,
}

impl Probe<'_> {
    /// Runs the measurement.
    ///
    /// # Errors
    /// [`BenchError`]; then everything that was started has ended.
    pub(crate) fn run(&self) -> Result<Probed, BenchError> {
        net::sched::raise_descriptors()?;
        apart(|| self.measure())
    }

    fn measure(&self) -> Result<Probed, BenchError> {
        let options = Options {
            pinning: Pinning::Spread,
            program: Some(self.program.to_owned()),
            ..Options::default()
        };
        let arena = Arena {
            options: &options,
            row: Row::new(3, false)?,
            processors: net::sched::processors()?,
            interrupt: Interrupt::elsewhere()?,
            progress: Progress::Silent,
            realtime: self.realtime,
        };
        let (sources, end) = self.sockets()?;
        let mut chain = Chain::start(&arena, self.streams)?;
        let idle = chain.usage(MIDDLE)?;
        std::thread::sleep(IDLE);
        let idle_ns = chain.usage(MIDDLE)?.since(idle).cpu_ns;
        let loops = Load::start(self.loops, arena.cpu(MIDDLE + 1));
        let base = self.goes(&arena, self.packets.min(GO_PACKETS), |plan| {
            trial::run(plan, &sources, &end)
        })?;
        let before = [FIRST, MIDDLE].map(|host| chain.usage(host));
        let over = self.goes(&arena, self.packets, |plan| chain.trial(plan))?;
        let after = [FIRST, MIDDLE].map(|host| chain.usage(host));
        drop(loops);
        let sent_s = over.iter().map(|trial| trial.sent).sum::<u64>() as f64
            / f64::from(self.streams * RATE_PPS);
        let mut cpu = [0.0; 2];
        for (share, (before, after)) in cpu.iter_mut().zip(before.into_iter().zip(after)) {
            *share = after?.since(before?).cpu_ns as f64 / 1e9 / sent_s;
        }
        Ok(Probed {
            kernel: Delays::of(&base),
            nodes: Delays::of(&over),
            scheduling: chain.scheduling()?,
            first_cpu: cpu[0],
            middle_cpu: cpu[1],
            idle_cpu: idle_ns as f64 / IDLE.as_nanos() as f64,
        })
    }

    /// Sends this many packets of each stream, in several goes.
    fn goes(
        &self,
        arena: &Arena<'_>,
        packets: u64,
        mut run: impl FnMut(&trial::Plan) -> Result<Trial, BenchError>,
    ) -> Result<Vec<Trial>, BenchError> {
        let mut trials = Vec::new();
        let mut left = packets;
        while left > 0 {
            let now = left.min(GO_PACKETS);
            left -= now;
            let mut plan = arena.plan(self.streams, 1 + trials.len() as u32);
            plan.span = Duration::from_millis(1_000 / u64::from(RATE_PPS)) * now;
            trials.push(run(&plan)?);
        }
        Ok(trials)
    }

    /// Returns one UDP socket per stream, and the socket that they are connected to.
    fn sockets(&self) -> Result<(Vec<UdpSocket>, UdpSocket), BenchError> {
        let bind = || -> Result<UdpSocket, BenchError> {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        let end = bind()?;
        let mut sources = Vec::new();
        for _ in 0..self.streams {
            let source = bind()?;
            source.connect(end.local_addr()?)?;
            sources.push(source);
        }
        Ok((sources, end))
    }
}

impl Delays {
    fn of(trials: &[Trial]) -> Delays {
        let all = || trials.iter().flat_map(|trial| &trial.delays_ns);
        let mut ns: Vec<u64> = all().copied().collect();
        ns.sort_unstable();
        let count = ns.len().max(1) as f64;
        let mean = ns.iter().map(|ns| *ns as f64).sum::<f64>() / count;
        let squares = ns.iter().map(|ns| (*ns as f64 - mean).powi(2));
        let rank = (ns.len() * 99).div_ceil(100).max(1) - 1;
        Delays {
            sent: trials.iter().map(|trial| trial.counted).sum(),
            arrived: ns.len() as u64,
            mean_ms: mean / 1e6,
            deviation_ms: (squares.sum::<f64>() / count).sqrt() / 1e6,
            p99_ms: ns.get(rank).copied().unwrap_or(0) as f64 / 1e6,
            max_ms: ns.last().copied().unwrap_or(0) as f64 / 1e6,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_of_all_goes_together() {
        let trial = |delays_ns: &[u64]| Trial {
            sent: 5,
            counted: 3,
            delays_ns: delays_ns.to_vec(),
            ..Trial::default()
        };
        let delays = Delays::of(&[trial(&[1_000_000, 3_000_000]), trial(&[2_000_000])]);
        assert_eq!((delays.sent, delays.arrived), (6, 3));
        assert_eq!(
            (delays.mean_ms, delays.max_ms, delays.p99_ms),
            (2.0, 3.0, 3.0)
        );
        assert!((delays.deviation_ms - (2.0f64 / 3.0).sqrt()).abs() < 1e-9);
        assert_eq!(Delays::of(&[]), Delays::default());
    }
}
