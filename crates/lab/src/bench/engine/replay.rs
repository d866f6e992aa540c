//! Three engines in virtual time; the middle one is measured.

use crate::bench::BenchError;
use crate::bench::credentials::{Issuer, address, name};
use crate::bench::losing::Losing;
use base::pool::SMALL_BYTES;
use base::{Burst, ClientId, Duration, Engine, Input, NodeAddr, Outbox, Pool, Time};
use base::{UnderlayAddr, VirtualPort};
use net::Clock;
use overlay::realtime::Protect;
use overlay::request::Options;
use overlay::settings::Sealing;
use overlay::{Config, Event, Neighbor, Node, Reply, Request, Settings};
use std::fmt;
use wire::HEADROOM;
use wire::data::{Class, LinkProtocol};
use wire::link::Kind;

/// Number of messages that a node's loop takes in one turn.
pub(super) const MESSAGES_PER_TURN: usize = 32;
/// Repair packets per packet of a coded lane.
const CODED: f64 = 0.3;
/// On a coded lane, one of this many packets is lost on the way to the last engine: without losses nothing is repaired.
const LOST_OF: u64 = 20;
/// The deadline of these packets.
const DEADLINE: Duration = Duration::from_millis(150);
/// Virtual time for handshakes, hellos and routes.
const SETTLE: Duration = Duration::from_secs(3);
const RECEIVER: ClientId = ClientId(1);
const PORT: VirtualPort = VirtualPort(5_000);
const GROUP: NodeAddr = NodeAddr(0xef01_0203);

/// Three engines in a row, and the packets from the first to the last.
pub struct Replay {
    payload: Vec<u8>,
    burst: usize,
    flows: u32,
    rate_pps: u64,
    to: NodeAddr,
    now: Time,
    clock: Clock,
    nodes: Vec<(Node, Desk)>,
    /// The input of the middle engine in the next turn.
    loaded: Vec<(UnderlayAddr, Burst)>,
    packets: u64,
    /// Loses packets after the middle engine, with a coded lane.
    losing: Option<Losing>,
    /// Packets that the last engine had delivered before the first of `packets`.
    delivered_before: u64,
    /// Time that the last engine has taken in the present turn.
    exit: Duration,
}

/// The time that one turn's packets took.
#[derive(Clone, Copy, Debug)]
pub struct Spent {
    /// Time in the first engine, which seals them; the copy of each payload into a buffer counts.
    pub entry: Duration,
    /// Time in the middle engine.
    pub middle: Duration,
    /// Time in the last engine, which opens them.
    pub exit: Duration,
}

/// The outbox of one engine.
struct Desk {
    pool: Pool,
    sent: Vec<(UnderlayAddr, Burst)>,
    delivered: u64,
    repairs: u64,
}

impl Outbox<Node> for Desk {
    fn send(&mut self, to: UnderlayAddr, burst: Burst) {
        self.sent.push((to, burst));
    }

    fn deliver(&mut self, _: ClientId, reply: Reply) {
        self.delivered += u64::from(matches!(reply, Reply::Datagram { .. }));
    }

    fn report(&mut self, event: Event) {
        self.repairs += u64::from(matches!(event, Event::Repair { .. }));
        std::hint::black_box(event);
    }

    fn pool(&self) -> &Pool {
        &self.pool
    }
}

/// The destination of packets, and how the middle engine treats them.
#[derive(Clone, Copy, Debug, Default)]
pub struct How {
    /// Whether packets go to a group, of which the middle engine and the last are members, instead of to the last
    /// alone.
    pub group: bool,
    /// Whether repair packets are sent from the middle engine to the last: about 30 per hundred packets, whatever is
    /// lost.
    pub coded: bool,
    /// Whether payloads are sealed only by hops, not from end to end.
    pub plain_ends: bool,
}

impl Replay {
    /// Creates three engines with sessions, links and routes. Packets of `payload` bytes will arrive in messages of
    /// `burst`.
    ///
    /// # Errors
    /// [`BenchError`], if they do not connect.
    pub fn new(
        how: How,
        payload: usize,
        burst: usize,
        flows: u32,
        rate_pps: u64,
    ) -> Result<Replay, BenchError> {
        let to = if how.group { GROUP } else { address(2) };
        if payload > overlay::node::MAX_PAYLOAD
            || burst == 0
            || burst > 48
            || flows == 0
            || rate_pps == 0
        {
            return Err(BenchError::Option(format!(
                "{payload} bytes in bursts of {burst} at {rate_pps}/s: choose at most {} bytes, \
                 1 to 48 packets, a flow and a rate above 0",
                overlay::node::MAX_PAYLOAD
            )));
        }
        let clock = Clock::new();
        let mut issuer = Issuer::new(clock.unix_s())?;
        let mut nodes = Vec::new();
        for i in 0..3 {
            let node = engine(&mut issuer, (i, settings(i, how)), clock.unix_s())?;
            let desk = Desk {
                pool: Pool::new(256, 8_192),
                sent: Vec::new(),
                delivered: 0,
                repairs: 0,
            };
            nodes.push((node, desk));
        }
        let mut replay = Replay {
            payload: vec![0x5a; payload],
            burst,
            flows,
            rate_pps,
            to,
            now: Time::ZERO,
            clock,
            nodes,
            loaded: Vec::new(),
            packets: 0,
            losing: how.coded.then(|| Losing::one_of(LOST_OF)),
            delivered_before: 0,
            exit: Duration::ZERO,
        };
        replay.request(2, RECEIVER, Request::Bind { port: PORT });
        if how.coded {
            let options = Options {
                class: Class {
                    link: LinkProtocol::RealTime,
                    ..Options::default().class
                },
                deadline: Some(DEADLINE),
                ..Options::default()
            };
            for client in 1..=flows {
                replay.request(0, ClientId(client), Request::Options(options));
            }
        }
        if to.is_multicast() {
            let (group, port) = (to, PORT);
            for member in [1, 2] {
                replay.request(member, RECEIVER, Request::Join { group, port });
            }
        }
        replay.settle()?;
        Ok(replay)
    }

    /// Sends one turn's packets through the middle engine. Returns the time that each engine took. `edge` is called
    /// just before the middle engine begins and just after it has ended.
    ///
    /// # Errors
    /// [`BenchError`], if packets do not take that path any more.
    pub fn turn(&mut self, mut edge: impl FnMut()) -> Result<Spent, BenchError> {
        let packets = MESSAGES_PER_TURN * self.burst;
        self.now += Duration::from_nanos(packets as u64 * 1_000_000_000 / self.rate_pps);
        for i in [0, 2] {
            self.timeout(i);
            self.flush(i);
            self.carry(i)?;
        }
        let entry = self.load(packets)?;
        edge();
        let middle = self.middle();
        edge();
        self.packets += packets as u64;
        self.exit = Duration::ZERO;
        self.carry(1)?;
        Ok(Spent {
            entry,
            middle,
            exit: self.exit,
        })
    }

    /// Returns the number of packets that the middle engine was given and the last one has not delivered. (The packets
    /// that the middle engine sends are no measure of this: it also sends requests and answers of its own.)
    pub fn lost(&self) -> u64 {
        self.packets - (self.delivered() - self.delivered_before)
    }

    /// Returns the number of packets that the last engine has delivered.
    pub fn delivered(&self) -> u64 {
        self.nodes[2].1.delivered
    }

    /// Returns the number of repair packets that the middle engine has sent.
    pub fn repairs(&self) -> u64 {
        self.nodes[1].1.repairs
    }

    /// Returns the number of packets that the middle engine was given.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// The measured part: what a node's loop does between receiving and sending. It is never inlined, so that a
    /// profiler can be restricted to this function.
    #[inline(never)]
    fn middle(&mut self) -> Duration {
        let (node, desk) = &mut self.nodes[1];
        let (now, start) = (self.now, self.clock.now());
        if node.next_timeout().is_some_and(|(at, _)| at <= now) {
            node.handle(now, Input::Timeout, desk);
        }
        for (from, burst) in self.loaded.drain(..) {
            node.handle(now, Input::Datagrams { from, burst }, desk);
        }
        node.flush(now, desk);
        self.clock.now().since(start)
    }

    /// Lets the first engine send `packets`, and arranges them as a socket would deliver them. Returns the time that
    /// the first engine took.
    fn load(&mut self, packets: usize) -> Result<Duration, BenchError> {
        let start = self.clock.now();
        for n in 0..packets {
            let payload = self.nodes[0].1.pool.copy_of(HEADROOM, &self.payload);
            let payload = payload.ok_or_else(|| BenchError::Start("buffers are used up".into()))?;
            let client = ClientId(1 + n as u32 % self.flows);
            let (to, port) = (self.to, PORT);
            self.request(0, client, Request::Send { to, port, payload });
        }
        self.flush(0);
        let spent = self.clock.now().since(start);
        self.carry(0)?;
        Ok(spent)
    }

    /// Delivers the packets of engine `i` to their destinations.
    fn carry(&mut self, i: usize) -> Result<(), BenchError> {
        let mut sent = std::mem::take(&mut self.nodes[i].1.sent);
        for (to, burst) in sent.drain(..) {
            let to = node_at(to).ok_or_else(|| BenchError::Start(format!("{to} is nobody")))?;
            match (i, to, Kind::of(burst.segment(0))) {
                (_, 1, Ok(Kind::Data)) => self.gather(underlay(i), &burst)?,
                (_, 1, _) => self.load_alone(underlay(i), &burst)?,
                (1, 2, _) => {
                    let left = match &mut self.losing {
                        Some(losing) => losing.pass(burst),
                        None => Some(burst),
                    };
                    if let Some(left) = left {
                        self.handle(2, left);
                    }
                }
                (1, _, _) => self.handle(to, burst),
                _ => {}
            }
        }
        // Keep the allocation of the list.
        self.nodes[i].1.sent = sent;
        Ok(())
    }

    /// Appends one sealed packet to the middle engine's last message, or begins the next one.
    fn gather(&mut self, from: UnderlayAddr, packet: &Burst) -> Result<(), BenchError> {
        if let Some((last_from, last)) = self.loaded.last_mut()
            && *last_from == from
            && last.segments() < self.burst
            && last.stride() == packet.stride()
            && last.append(packet.bytes())
        {
            return Ok(());
        }
        self.load_alone(from, packet)
    }

    fn load_alone(&mut self, from: UnderlayAddr, packet: &Burst) -> Result<(), BenchError> {
        let pool = &self.nodes[1].1.pool;
        // Sockets copy single short datagrams into small buffers.
        let taken = if self.burst == 1 && packet.len() < SMALL_BYTES {
            pool.copy_of(0, packet.bytes())
        } else {
            pool.large().map(|mut large| {
                large.append(packet.bytes());
                large
            })
        };
        let taken = taken.ok_or_else(|| BenchError::Start("buffers are used up".into()))?;
        self.loaded.push((from, taken));
        Ok(())
    }

    fn handle(&mut self, i: usize, burst: Burst) {
        let (node, desk) = &mut self.nodes[i];
        let from = underlay(1);
        let start = self.clock.now();
        node.handle(self.now, Input::Datagrams { from, burst }, desk);
        if i == 2 {
            self.exit += self.clock.now().since(start);
        }
    }

    fn request(&mut self, i: usize, client: ClientId, request: Request) {
        let (node, desk) = &mut self.nodes[i];
        node.handle(self.now, Input::Request { client, request }, desk);
    }

    fn timeout(&mut self, i: usize) {
        let (node, desk) = &mut self.nodes[i];
        if node.next_timeout().is_some_and(|(at, _)| at <= self.now) {
            node.handle(self.now, Input::Timeout, desk);
        }
    }

    fn flush(&mut self, i: usize) {
        let (node, desk) = &mut self.nodes[i];
        node.flush(self.now, desk);
    }

    /// Runs handshakes, hellos and flooding until the first engine's packets reach the last.
    fn settle(&mut self) -> Result<(), BenchError> {
        while self.now < Time::ZERO + SETTLE {
            self.now += Duration::from_millis(1);
            for i in [0, 2] {
                self.timeout(i);
                self.flush(i);
                self.carry(i)?;
            }
            self.middle();
            self.carry(1)?;
        }
        self.load(1)?;
        self.middle();
        self.carry(1)?;
        if self.delivered() == 0 {
            let why = "the three engines did not find each other";
            return Err(BenchError::Start(why.into()));
        }
        self.delivered_before = self.delivered();
        Ok(())
    }
}

impl fmt::Debug for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Replay {
            payload,
            burst,
            packets,
            ..
        } = self;
        write!(
            f,
            "Replay {{ {} bytes in bursts of {burst}, {packets} so far }}",
            payload.len()
        )
    }
}

/// Returns the settings of the `i`-th engine. With a coded lane the middle one repairs up to its cap, and the last one
/// sends no requests: on a link without delay, requests would recover everything.
fn settings(i: usize, how: How) -> Settings {
    let mut settings = Settings::modern();
    if how.plain_ends {
        settings.sealing = Sealing::Off;
    }
    if how.coded && i == 1 {
        let aims = &mut settings.realtime.aims;
        aims.protect = Protect::Hop;
        (aims.most, aims.most_single) = (CODED, CODED);
    }
    if how.coded && i == 2 {
        settings.realtime.strikes = 0;
    }
    settings
}

/// Creates the `i`-th of three engines in a row; the earlier of two neighbours dials.
fn engine(
    issuer: &mut Issuer,
    (i, settings): (usize, Settings),
    unix_s: u64,
) -> Result<Node, BenchError> {
    let neighbors = [i.checked_sub(1), Some(i + 1)]
        .into_iter()
        .flatten()
        .filter(|&n| n < 3);
    let neighbors = neighbors.map(|n| Neighbor {
        more: Vec::new(),
        capacity_kbps: 0,
        reliable: Default::default(),
        addr: address(n),
        name: name(n),
        at: (n > i).then(|| underlay(n)),
    });
    Ok(Node::new(Config {
        identity: issuer.identity(i)?,
        network: issuer.network(),
        neighbors: neighbors.collect(),
        accept: None,
        settings,
        lab: false,
        seed: net::sched::entropy()?,
        unix_start_s: unix_s,
    }))
}

/// Returns the underlay address of the `i`-th engine.
fn underlay(i: usize) -> UnderlayAddr {
    let mut ip = [0; 16];
    ip[10..12].fill(0xff);
    ip[12..].copy_from_slice(&(0x0a00_0001 + i as u32).to_be_bytes());
    UnderlayAddr {
        ip,
        port: 7_000,
        socket: 0,
        local: 0,
    }
}

fn node_at(at: UnderlayAddr) -> Option<usize> {
    (0..3).find(|&i| underlay(i) == at)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TO_GROUP: How = How {
        group: true,
        coded: false,
        plain_ends: false,
    };
    const CODED_LANE: How = How {
        group: false,
        coded: true,
        plain_ends: false,
    };

    #[test]
    fn every_packet_goes_through_the_middle_to_the_end() {
        for burst in [1, 8] {
            let mut replay = Replay::new(How::default(), 160, burst, 3, 100_000).unwrap();
            let before = replay.delivered();
            for _ in 0..20 {
                replay.turn(|| {}).unwrap();
            }
            assert_eq!(replay.packets(), 20 * 32 * burst as u64);
            assert_eq!(
                (replay.lost(), replay.delivered() - before),
                (0, replay.packets())
            );
        }
    }

    #[test]
    fn three_repair_packets_follow_ten_packets_of_a_coded_lane() {
        let mut replay = Replay::new(CODED_LANE, 160, 8, 3, 20_000).unwrap();
        // The plan is checked once a second, when there is an estimate of losses.
        while replay.packets() < 3 * 20_000 {
            replay.turn(|| {}).unwrap();
        }
        let (packets, repairs, lost) = (replay.packets(), replay.repairs(), replay.lost());
        for _ in 0..20 {
            replay.turn(|| {}).unwrap();
        }
        let packets = replay.packets() - packets;
        let share = (replay.repairs() - repairs) as f64 / packets as f64;
        assert!((share - CODED).abs() < 0.01, "{share}");
        // Packets that are lost last may be found in the next turn.
        let lost = replay.lost() - lost;
        assert!(lost < packets / LOST_OF / 4, "{lost} of {packets}");
    }

    #[test]
    fn every_packet_to_a_group_is_delivered_in_the_middle_and_at_the_end() {
        let mut replay = Replay::new(TO_GROUP, 160, 8, 3, 100_000).unwrap();
        let before = [1, 2].map(|i| replay.nodes[i].1.delivered);
        for _ in 0..20 {
            replay.turn(|| {}).unwrap();
        }
        let after = [1, 2].map(|i| replay.nodes[i].1.delivered);
        let delivered = [after[0] - before[0], after[1] - before[1]];
        assert_eq!(delivered, [replay.packets(); 2]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for (payload, burst, rate) in [(1_393, 1, 1), (160, 0, 1), (160, 49, 1), (160, 1, 0)] {
            assert!(matches!(
                Replay::new(How::default(), payload, burst, 1, rate),
                Err(BenchError::Option(_))
            ));
        }
    }
}
