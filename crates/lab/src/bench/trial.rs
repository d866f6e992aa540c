//! One trial: streams of stamped packets enter at one end; their delays are measured at the other.
//!
//! ```text
//!   both threads get ready ─> barrier ─> warm-up ─> what counts ─> the last has come, or silence
//! ```

use super::BenchError;
use base::{Duration, Time};
use net::Clock;
use net::epoll::{Interest, Poller, Waker};
use net::sched::{self, Scheduling};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::ScopedJoinHandle;
use tools::pace::{FRAME, Schedule, sleep_until};

/// Packets per second of each stream: one per frame.
pub(super) const RATE_PPS: u32 = 50;
/// Bytes of a packet's stamp: time, run, number.
pub(super) const STAMP_BYTES: usize = 20;
/// The priority of a node: all parts of a chain have the same.
const PRIORITY: u8 = 10;
/// Time that is not counted: caches, routes and timers of programs that had no packets for a while.
const WARM_UP: Duration = Duration::from_millis(200);
/// Time from the barrier to the first packet.
const LEAD: Duration = Duration::from_millis(5);
/// Packets that are still under way after this time since the last packet was sent count as lost.
const SILENCE: std::time::Duration = std::time::Duration::from_millis(300);
/// How often the trial checks whether all have arrived.
const LOOK_EVERY: std::time::Duration = std::time::Duration::from_millis(5);

const TOKEN_STOP: u64 = 1;
const TOKEN_PACKETS: u64 = 2;

/// The packets of a trial.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) streams: u32,
    pub(super) payload: usize,
    /// Length without the warm-up.
    pub(super) span: Duration,
    pub(super) run: u32,
    pub(super) sender_cpu: Option<usize>,
    pub(super) receiver_cpu: Option<usize>,
}

/// The result of a trial.
#[derive(Clone, Debug, Default)]
pub(super) struct Trial {
    /// Packets sent, warm-up included.
    pub(super) sent: u64,
    /// Packets that count.
    pub(super) counted: u64,
    /// The delays of the packets that arrived, in ascending order.
    pub(super) delays_ns: Vec<u64>,
    /// Wake-ups of the program in the middle of the chain, if there is one.
    pub(super) wakeups: Option<u64>,
    /// Processor time of that program.
    pub(super) cpu_ns: Option<u64>,
}

/// The entry for packets of a stream.
pub(super) trait Source: Sync {
    fn send(&self, packet: &[u8]) -> io::Result<()>;
}

/// The exit of all packets.
pub(super) trait Drain: Sync {
    fn fd(&self) -> BorrowedFd<'_>;
    /// Receives the next packet and returns its length, if there is one.
    fn receive(&self, packet: &mut [u8]) -> io::Result<Option<usize>>;
}

/// The state that both threads of a trial share.
struct Stage {
    barrier: Barrier,
    /// Ends the wait for packets.
    stop: Waker,
    arrived: AtomicU64,
}

impl Stage {
    /// Each thread calls this when it can begin, whatever happened before.
    fn ready(&self) {
        self.barrier.wait();
    }
}

/// Runs a trial from `sources`, at least one per stream, to `drain`.
pub(super) fn run(
    plan: &Plan,
    sources: &[impl Source],
    drain: &impl Drain,
) -> Result<Trial, BenchError> {
    let clock = Clock::new();
    let stage = Stage {
        barrier: Barrier::new(2),
        stop: Waker::new()?,
        arrived: AtomicU64::new(0),
    };
    let warm = plan.packets(WARM_UP) * u64::from(plan.streams);
    let total = warm + plan.packets(plan.span) * u64::from(plan.streams);
    let poller = Poller::new()?;
    poller.add(&stage.stop, TOKEN_STOP, Interest::READ)?;
    poller.add(drain.fd(), TOKEN_PACKETS, Interest::READ)?;
    std::thread::scope(|scope| {
        let stage = &stage;
        let receiving = scope.spawn(move || receive(plan, total, drain, poller, clock, stage));
        let sending = scope.spawn(move || send(plan, total, sources, clock, stage));
        let sent = join(sending);
        let mut waited = std::time::Duration::ZERO;
        while sent.is_ok() && stage.arrived.load(Ordering::Relaxed) < total && waited < SILENCE {
            std::thread::sleep(LOOK_EVERY);
            waited += LOOK_EVERY;
        }
        stage.stop.wake();
        let delays = join(receiving);
        sent?;
        let counts = delays?.split_off(warm as usize);
        let mut delays_ns: Vec<u64> = counts.into_iter().filter(|&ns| ns != MISSING).collect();
        delays_ns.sort_unstable();
        Ok(Trial {
            sent: total,
            counted: total - warm,
            delays_ns,
            ..Trial::default()
        })
    })
}

/// Marks a packet that has not arrived.
const MISSING: u64 = u64::MAX;

impl Plan {
    /// Returns the number of packets of one stream in `span`.
    fn packets(&self, span: Duration) -> u64 {
        span.as_nanos().div_ceil(FRAME.as_nanos())
    }
}

/// Gives the calling thread its processor, and the priority of a node, if permitted.
pub(super) fn prepare(cpu: Option<usize>) -> io::Result<Scheduling> {
    if let Some(cpu) = cpu {
        sched::pin(cpu)?;
    }
    sched::timer_slack(Duration::from_nanos(1))?;
    Ok(sched::real_time(PRIORITY))
}

/// Returns the scheduling that threads get here.
pub(super) fn scheduling() -> io::Result<String> {
    let asked = std::thread::spawn(|| prepare(None)).join();
    let got = asked.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    Ok(got.to_string())
}

fn join<T>(thread: ScopedJoinHandle<'_, io::Result<T>>) -> io::Result<T> {
    let joined = thread.join();
    joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn send(
    plan: &Plan,
    total: u64,
    sources: &[impl Source],
    clock: Clock,
    stage: &Stage,
) -> io::Result<()> {
    let prepared = prepare(plan.sender_cpu);
    stage.ready();
    prepared?;
    let schedule = Schedule {
        start: clock.now() + LEAD,
        calls: plan.streams,
        packets: u32::MAX,
    };
    let mut packet = vec![0x5a; plan.payload];
    packet[8..12].copy_from_slice(&plan.run.to_be_bytes());
    for n in 0..total {
        let (stream, _) = schedule.place(n);
        let source = sources.get(stream as usize);
        let source = source.ok_or_else(|| io::Error::other("a stream without a source"))?;
        packet[12..20].copy_from_slice(&n.to_be_bytes());
        sleep_until(clock, schedule.due_nth(n));
        packet[..8].copy_from_slice(&clock.now().as_nanos().to_be_bytes());
        source.send(&packet)?;
    }
    Ok(())
}

/// Returns the delay of every packet, [`MISSING`] for those that did not arrive.
fn receive(
    plan: &Plan,
    total: u64,
    drain: &impl Drain,
    mut poller: Poller,
    clock: Clock,
    stage: &Stage,
) -> io::Result<Vec<u64>> {
    let mut delays = vec![MISSING; total as usize];
    let mut buffer = vec![0; plan.payload];
    let mut ready = Vec::new();
    let prepared = prepare(plan.receiver_cpu);
    stage.ready();
    prepared?;
    loop {
        poller.wait(None, &mut ready)?;
        for event in &ready {
            if event.token == TOKEN_STOP {
                return Ok(delays);
            }
            let Some(len) = drain.receive(&mut buffer)? else {
                continue;
            };
            let now = clock.now();
            let Some((sent, n)) = read(&buffer[..len], plan.run) else {
                continue;
            };
            if let Some(delay) = delays
                .get_mut(n as usize)
                .filter(|delay| **delay == MISSING)
            {
                *delay = now.since(sent).as_nanos();
                stage.arrived.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Returns when a packet of `run` was sent, and its number.
fn read(packet: &[u8], run: u32) -> Option<(Time, u64)> {
    let (stamp, rest) = packet.split_first_chunk()?;
    let (of, rest) = rest.split_first_chunk()?;
    let (number, _) = rest.split_first_chunk()?;
    let sent = Time::from_nanos(u64::from_be_bytes(*stamp));
    (u32::from_be_bytes(*of) == run).then_some((sent, u64::from_be_bytes(*number)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::latency::udp_pair;

    fn plan(streams: u32) -> Plan {
        Plan {
            streams,
            payload: 100,
            span: Duration::from_millis(60),
            run: 7,
            sender_cpu: None,
            receiver_cpu: None,
        }
    }

    #[test]
    fn every_packet_after_the_warm_up_has_a_delay() {
        let (sources, drain) = udp_pair(3);
        let trial = run(&plan(3), &sources, &drain).unwrap();
        assert_eq!((trial.sent, trial.counted), (39, 9));
        assert_eq!(trial.delays_ns.len(), 9);
        assert!(trial.delays_ns[0] > 0 && trial.delays_ns.is_sorted());
    }

    #[test]
    fn packets_of_other_runs_and_short_ones_are_ignored() {
        let mut packet = [0; STAMP_BYTES];
        packet[11] = 7;
        packet[19] = 3;
        assert_eq!(read(&packet, 7), Some((Time::ZERO, 3)));
        assert_eq!(read(&packet, 6), None);
        for len in 0..STAMP_BYTES {
            assert_eq!(read(&packet[..len], 7), None);
        }
    }
}
