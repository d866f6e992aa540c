//! The bare forwarders of `net::bare`, in a thread on the forwarder's core.

use super::chain::Chain;
use super::{Arena, BenchError, Contender, OVERHEAD_BYTES, PRIORITY, Shape, Trial};
use crate::bench::endpoint::socket;
use crate::bench::volley::{Counting, Sink, copies, send, volley};
use base::pool::LARGE_BYTES;
use base::{Duration, Pool, Time};
use net::Clock;
use net::bare::{Blast, Forwarder, Key, blast, forward};
use net::udp::SendQueue;
use std::io;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};

/// The key of arriving packets, and the key of leaving ones.
const KEYS: [[u8; 32]; 2] = [[1; 32], [2; 32]];
/// How often the chain's ends are run: hellos are sent every 100 ms, and request answers within 40 ms after silence.
const ATTEND_EVERY: Duration = Duration::from_millis(20);
/// Upper limit of the time that the forwarder takes from its start to its loop.
const START: std::time::Duration = std::time::Duration::from_millis(2);

/// One contender.
pub(super) struct Bare<'a> {
    pub(super) arena: &'a Arena<'a>,
    pub(super) contender: Contender,
}

impl Bare<'_> {
    /// Sends one volley through a forwarder that exists for this trial. The links of `chain` stay up in the meantime.
    pub(super) fn trial(&self, shape: Shape, chain: &mut Chain) -> Result<Trial, BenchError> {
        let row = &self.arena.row;
        let datagram_bytes = shape.payload + OVERHEAD_BYTES;
        let source_at = (row.ip(0, 1), 0).into();
        let sink_at = (row.ip(2, 1), 0).into();
        let mut source = row.within(0, || socket(source_at))??;
        let sink = Counting::new(row.within(2, || socket(sink_at))??);
        let sink_at = sink.socket().local_addr()?;
        let clock = Clock::new();
        let mut sink = Attending {
            sink,
            chain,
            clock,
            due: Time::ZERO,
        };
        let (entry, onward) = row.within(1, || -> io::Result<_> {
            let (entry, onward) = (UdpSocket::bind(row.any())?, UdpSocket::bind(row.any())?);
            onward.connect(sink_at)?;
            Ok((entry, onward))
        })??;
        let entry_at = (row.ip(1, 0), entry.local_addr()?.port()).into();
        let entry_at = net::addr::underlay(entry_at, 0);

        let bytes = shape.packets as usize * datagram_bytes;
        let pool = Pool::new(bytes / (LARGE_BYTES / 2) + 4, 0);
        let template = sealed_burst(shape.burst, datagram_bytes)?;
        let bursts = copies(&pool, &template, datagram_bytes, shape.packets);
        let mut queue = SendQueue::new();
        let (ready, stop) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let (contender, cpus) = (self.contender, self.arena.cpus);
            let (sockets, ready, stop) = ([&entry, &onward], &ready, &stop);
            let forwarding = scope.spawn(move || run(contender, cpus, sockets, ready, stop));
            while !ready.load(Ordering::Relaxed) && !forwarding.is_finished() {
                std::thread::sleep(START);
            }
            std::thread::sleep(START);
            let fire = |burst| send(&mut source, &mut queue, entry_at, burst);
            let outcome = volley(bursts, shape.rate_pps, Duration::ZERO, fire, &mut sink);
            stop.store(true, Ordering::Relaxed);
            let report = forwarding
                .join()
                .unwrap_or_else(|p| std::panic::resume_unwind(p))?;
            Ok(Trial {
                outcome,
                cpu_ns: report.cpu_ns,
                wakeups: report.wakeups,
            })
        })
    }
}

/// Forwards from the first socket to the address to which the second is connected, until `stop`.
fn run(
    contender: Contender,
    cpus: Option<[usize; 2]>,
    [entry, onward]: [&UdpSocket; 2],
    ready: &AtomicBool,
    stop: &AtomicBool,
) -> io::Result<net::bare::Report> {
    if let Some([cpu, _]) = cpus {
        net::sched::pin(cpu)?;
    }
    let _ = net::sched::real_time(PRIORITY);
    ready.store(true, Ordering::Relaxed);
    let [from, to] = KEYS.map(|key| Key::new(&key));
    let forwarder = match contender {
        Contender::Batched => Forwarder::Batched,
        Contender::Sealed => Forwarder::Sealed { from, to },
        Contender::Offloaded | Contender::Node => Forwarder::Offloaded,
    };
    forward(&forwarder, entry, onward, stop)
}

/// A sink that also lets the chain's ends send hellos.
struct Attending<'a> {
    sink: Counting,
    chain: &'a mut Chain,
    clock: Clock,
    due: Time,
}

impl Sink for Attending<'_> {
    fn step(&mut self) -> usize {
        let now = self.clock.now();
        if now >= self.due {
            self.due = now + ATTEND_EVERY;
            self.chain.attend();
        }
        self.sink.step()
    }

    fn arrived(&self) -> u64 {
        self.sink.arrived()
    }
}

/// Captures one burst of datagrams at a socket, as the bare sender seals them. Bare forwarders have no replay check, so
/// it can be sent repeatedly.
fn sealed_burst(packets: usize, datagram_bytes: usize) -> Result<Vec<u8>, BenchError> {
    let catcher = UdpSocket::bind("127.0.0.1:0")?;
    let source = UdpSocket::bind("127.0.0.1:0")?;
    source.connect(catcher.local_addr()?)?;
    let plan = Blast {
        rate_pps: 0,
        burst: 1,
        datagram_bytes,
        packets: packets as u64,
        key: Some(Key::new(&KEYS[0])),
    };
    blast(&plan, &source, &AtomicBool::new(false))?;
    catcher.set_read_timeout(Some(std::time::Duration::from_secs(1)))?;
    let mut template = vec![0; packets * datagram_bytes];
    for datagram in template.chunks_mut(datagram_bytes) {
        catcher.recv(datagram)?;
    }
    Ok(template)
}
