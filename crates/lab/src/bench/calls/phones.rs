//! The phones of both sides: one thread sends and receives for all of them.
//!
//! ```text
//!   every 200 µs: send what is due ──> take what has come ──> sleep
//!
//!   RTP header 12 │ when sent 8 │ run 4 │ number 8 │ filler up to 20 ms of G.711
//! ```

use crate::bench::BenchError;
use crate::bench::trial::prepare;
use base::{Duration, Time};
use net::Clock;
use net::udp;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use tools::pace::{FRAME, sleep_until};
use voice::rtp::{HEADER_BYTES, Header};

/// Bytes of a packet: 20 ms of G.711 and its header.
pub(super) const PACKET_BYTES: usize = HEADER_BYTES + 160;
/// How often the thread sends and looks for packets. Some packets leave together, as packets of real phones also
/// coincide by chance; an arrival is noticed at most this much later. A thread that is woken for each packet would
/// distort the measurement: its wake-ups cost the sender more than the sending.
const TICK: Duration = Duration::from_micros(200);
/// Time that is not counted: caches, routes and the gateways' learning.
const WARM_UP: Duration = Duration::from_millis(300);
const LEAD: Duration = Duration::from_millis(5);
/// Packets that are still under way after this time since the last packet was sent count as lost.
const SILENCE: Duration = Duration::from_millis(300);
/// Marks a packet that has not arrived.
const MISSING: u64 = u64::MAX;

/// The two sides.
pub(super) struct Phones {
    sides: [UdpSocket; 2],
    at: [SocketAddr; 2],
}

/// The parameters of a trial.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) calls: u32,
    /// Length without the warm-up.
    pub(super) span: Duration,
    pub(super) run: u32,
}

/// The result of a trial.
#[derive(Clone, Debug, Default)]
pub(super) struct Trial {
    /// Packets that count.
    pub(super) counted: u64,
    /// Packets sent, warm-up included.
    pub(super) sent: u64,
    /// Packets that came twice.
    pub(super) repeated: u64,
    /// The delays of the packets that arrived, in ascending order.
    pub(super) delays_ns: Vec<u64>,
    /// Processor time of the forwarding threads, if known: planes, nodes.
    pub(super) cpu_ns: Option<[u64; 2]>,
}

impl Phones {
    pub(super) fn open() -> Result<Phones, BenchError> {
        let open = || -> io::Result<UdpSocket> {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
            socket.set_nonblocking(true)?;
            // Each socket serves hundreds of phones.
            udp::enlarge(&socket);
            Ok(socket)
        };
        let sides = [open()?, open()?];
        let at = [sides[0].local_addr()?, sides[1].local_addr()?];
        Ok(Phones { sides, at })
    }

    /// Returns the address of the phones of a side.
    pub(super) fn at(&self, side: usize) -> SocketAddr {
        self.at[side]
    }

    /// Lets all phones talk; `to` returns where a side's packets of a call are sent.
    pub(super) fn trial(
        &self,
        plan: &Plan,
        to: impl Fn(usize, u32) -> SocketAddr,
    ) -> Result<Trial, BenchError> {
        let targets = [0, 1].map(|side| (0..plan.calls).map(|call| to(side, call)).collect());
        let mut talk = Talk {
            phones: self,
            plan,
            targets,
            clock: Clock::new(),
            packet: [0xd5; PACKET_BYTES],
            delays: vec![MISSING; plan.total() as usize],
            arrived: 0,
            repeated: 0,
        };
        // The trial runs on a thread of its own, whose priority ends with it.
        let talked = std::thread::scope(|scope| {
            let talking = scope.spawn(|| talk.run());
            talking.join()
        });
        talked.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let counted = &talk.delays[plan.warm_up() as usize..];
        let arrived = counted.iter().copied().filter(|ns| *ns != MISSING);
        let mut delays_ns: Vec<u64> = arrived.collect();
        delays_ns.sort_unstable();
        Ok(Trial {
            counted: counted.len() as u64,
            sent: plan.total(),
            repeated: talk.repeated,
            delays_ns,
            cpu_ns: None,
        })
    }
}

/// A trial in progress.
struct Talk<'a> {
    phones: &'a Phones,
    plan: &'a Plan,
    targets: [Vec<SocketAddr>; 2],
    clock: Clock,
    packet: [u8; PACKET_BYTES],
    /// The delay of every packet, [`MISSING`] for those that have not arrived.
    delays: Vec<u64>,
    arrived: u64,
    repeated: u64,
}

impl Talk<'_> {
    fn run(&mut self) -> io::Result<()> {
        prepare(None)?;
        let start = self.clock.now() + LEAD;
        let (mut next, mut heard) = (0, start);
        let total = self.plan.total();
        loop {
            let due = self.clock.now();
            while next < total && start + self.plan.place(next).due <= due {
                self.send(next);
                next += 1;
            }
            let before = self.arrived;
            self.receive();
            let now = self.clock.now();
            if next < total || self.arrived > before {
                heard = now;
            }
            if self.arrived >= total || now.since(heard) >= SILENCE {
                return Ok(());
            }
            let ticks = now.since(start).as_nanos() / TICK.as_nanos() + 1;
            sleep_until(self.clock, start + TICK * ticks);
        }
    }

    fn send(&mut self, n: u64) {
        let place = self.plan.place(n);
        let header = Header {
            marker: false,
            payload_type: 0,
            seq: place.index as u16,
            timestamp: place.index.wrapping_mul(160),
            ssrc: place.call << 1 | place.side as u32,
        };
        let to = self.targets[place.side][place.call as usize];
        let packet = &mut self.packet;
        packet[..12].copy_from_slice(&header.to_bytes());
        packet[20..24].copy_from_slice(&self.plan.run.to_be_bytes());
        packet[24..32].copy_from_slice(&n.to_be_bytes());
        packet[12..20].copy_from_slice(&self.clock.now().as_nanos().to_be_bytes());
        // A packet that the kernel does not accept is lost, and counted because it does not arrive.
        let _ = self.phones.sides[place.side].send_to(packet, to);
    }

    fn receive(&mut self) {
        let mut buffer = [0; 2 * PACKET_BYTES];
        for socket in &self.phones.sides {
            while let Ok(len) = socket.recv(&mut buffer) {
                let now = self.clock.now();
                let Some((sent, n)) = read(&buffer[..len], self.plan.run) else {
                    continue;
                };
                match self.delays.get_mut(n as usize) {
                    Some(delay) if *delay == MISSING => {
                        *delay = now.since(sent).as_nanos();
                        self.arrived += 1;
                    }
                    _ => self.repeated += 1,
                }
            }
        }
    }
}

/// The side, call and number of a packet, and when it is due after the start.
struct Place {
    side: usize,
    call: u32,
    index: u32,
    due: Duration,
}

impl Plan {
    /// Returns the packets of one side of a call in `span`.
    fn packets(span: Duration) -> u64 {
        span.as_nanos().div_ceil(FRAME.as_nanos())
    }

    /// Returns the packets of the warm-up.
    fn warm_up(&self) -> u64 {
        Plan::packets(WARM_UP) * 2 * u64::from(self.calls)
    }

    fn total(&self) -> u64 {
        self.warm_up() + Plan::packets(self.span) * 2 * u64::from(self.calls)
    }

    /// Returns the `n`-th packet of all, in the order in which they are due.
    fn place(&self, n: u64) -> Place {
        let streams = 2 * u64::from(self.calls);
        let (stream, index) = (n % streams, n / streams);
        Place {
            side: (stream % 2) as usize,
            call: (stream / 2) as u32,
            index: index as u32,
            due: FRAME * index + (FRAME * stream).div(streams),
        }
    }
}

/// Returns when a packet of `run` was sent, and its number.
fn read(packet: &[u8], run: u32) -> Option<(Time, u64)> {
    let (_, rest) = packet.split_first_chunk::<HEADER_BYTES>()?;
    let (stamp, rest) = rest.split_first_chunk()?;
    let (of, rest) = rest.split_first_chunk()?;
    let (number, _) = rest.split_first_chunk()?;
    let sent = Time::from_nanos(u64::from_be_bytes(*stamp));
    (u32::from_be_bytes(*of) == run).then_some((sent, u64::from_be_bytes(*number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_packet_comes_straight_and_has_a_delay() {
        let phones = Phones::open().unwrap();
        let plan = Plan {
            calls: 3,
            span: Duration::from_millis(60),
            run: 7,
        };
        let trial = phones.trial(&plan, |side, _| phones.at(1 - side)).unwrap();
        assert_eq!((trial.sent, trial.counted, trial.repeated), (108, 18, 0));
        assert_eq!(trial.delays_ns.len(), 18);
        assert!(trial.delays_ns[0] > 0 && trial.delays_ns.is_sorted());
    }

    #[test]
    fn each_side_of_each_call_speaks_once_a_frame() {
        let plan = Plan {
            calls: 4,
            span: FRAME,
            run: 1,
        };
        let places: Vec<_> = (0..16).map(|n| plan.place(n)).collect();
        assert!(places.is_sorted_by_key(|place| place.due));
        let of = |n: usize| (places[n].side, places[n].call, places[n].index);
        assert_eq!(
            [of(0), of(1), of(7), of(8)],
            [(0, 0, 0), (1, 0, 0), (1, 3, 0), (0, 0, 1)]
        );
        assert_eq!(places[8].due, FRAME);
    }
}
