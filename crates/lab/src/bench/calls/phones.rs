//! The phones of both sides: one thread that sends and receives for all.
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

/// 20 ms of G.711 and its header.
pub(super) const PACKET_BYTES: usize = HEADER_BYTES + 160;
/// How often packets leave and are looked for. Some leave together, as phones' packets meet by
/// chance too; what has come is seen so much later at most. A thread that is woken for each packet would
/// be what is measured: its wake-ups cost who sends to it more than the sending.
const TICK: Duration = Duration::from_micros(200);
/// Not counted: caches, routes and what the gateways have to learn.
const WARM_UP: Duration = Duration::from_millis(300);
const LEAD: Duration = Duration::from_millis(5);
/// What is under way for longer after the last packet was sent is lost.
const SILENCE: Duration = Duration::from_millis(300);
/// A packet that has not come.
const MISSING: u64 = u64::MAX;

/// Two sides.
pub(super) struct Phones {
    sides: [UdpSocket; 2],
    at: [SocketAddr; 2],
}

/// What is said.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) calls: u32,
    /// Without the warm-up.
    pub(super) span: Duration,
    pub(super) run: u32,
}

/// What was heard of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Trial {
    /// Packets that count.
    pub(super) counted: u64,
    /// Packets sent, warm-up included.
    pub(super) sent: u64,
    /// Packets that came twice.
    pub(super) repeated: u64,
    /// The delays of those that arrived, in ascending order.
    pub(super) delays_ns: Vec<u64>,
    /// Processor time of all who forward, if it is told: planes, nodes.
    pub(super) cpu_ns: Option<[u64; 2]>,
}

impl Phones {
    pub(super) fn open() -> Result<Phones, BenchError> {
        let open = || -> io::Result<UdpSocket> {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
            socket.set_nonblocking(true)?;
            // They stand for hundreds of sockets.
            udp::enlarge(&socket);
            Ok(socket)
        };
        let sides = [open()?, open()?];
        let at = [sides[0].local_addr()?, sides[1].local_addr()?];
        Ok(Phones { sides, at })
    }

    /// Where the phones of a side are.
    pub(super) fn at(&self, side: usize) -> SocketAddr {
        self.at[side]
    }

    /// Everybody talks; `to` tells where a side's packets of a call go.
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
        // On a thread of its own, whose priority ends with it.
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

/// A trial on its way.
struct Talk<'a> {
    phones: &'a Phones,
    plan: &'a Plan,
    targets: [Vec<SocketAddr>; 2],
    clock: Clock,
    packet: [u8; PACKET_BYTES],
    /// Of every packet, [`MISSING`] for those that have not come.
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
        // What the kernel does not take is lost, and counted by its absence.
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

/// Which packet of which side of which call, and when it is due after the start.
struct Place {
    side: usize,
    call: u32,
    index: u32,
    due: Duration,
}

impl Plan {
    /// Packets of a side of a call in `span`.
    fn packets(span: Duration) -> u64 {
        span.as_nanos().div_ceil(FRAME.as_nanos())
    }

    /// The warm-up's.
    fn warm_up(&self) -> u64 {
        Plan::packets(WARM_UP) * 2 * u64::from(self.calls)
    }

    fn total(&self) -> u64 {
        self.warm_up() + Plan::packets(self.span) * 2 * u64::from(self.calls)
    }

    /// The `n`-th packet of all, in the order in which they are due.
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

/// When a packet of `run` was sent, and its number.
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
