//! The traffic of a live run: real clients of the nodes, and UDP sockets through emulated paths.
//!
//! ```text
//!   sending thread ─▶ client ─▶ node ══▶ node ─▶ client ─▶ receiving thread ─▶ meters
//!              └────▶ UDP ─▶ Emulator ─▶ UDP ─────────────┘
//! ```
//!
//! A client whose node is gone reopens its socket when the node is back; packets that it would have sent in the
//! meantime count as sent and lost, as in the simulator.

use super::LiveError;
use super::end::{DATAGRAM_BYTES_MAX, End, options_of};
use super::network::Network;
use super::session::Load;
use crate::scenario::meter::{Judgement, Meter};
use crate::scenario::{BothWays, Carrier, Flow, Scenario, stamp};
use base::{Duration, Rng, Time};
use client::Target;
use net::Clock;
use net::epoll::Poller;
use sim::traffic::{Pattern, Source};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use tools::emulator::Emulator;
use tools::pace::{prepare_thread, sleep_until};

/// The port of stream 0's receiver; the ports of the other streams follow.
const PORTS: u16 = 1_024;
/// How often the threads check whether to stop, and whether a node is back.
const LOOK: Duration = Duration::from_millis(50);
/// How often a receiver checks whether its stall is over while something waits for it: packets that arrived in the
/// meantime are late by no more than this in addition.
const STALL_STEP: Duration = Duration::from_millis(1);
/// How often waiting data of a reliable stream is sent: 1.6 ms of 1 Gbit/s fit the socket.
const FLUSH_STEP: Duration = Duration::from_millis(1);
/// How long answers are taken after the last request: the scenario drains for at least as long.
const ANSWERS_DRAIN: Duration = Duration::from_millis(500);
/// The purpose of the random numbers.
const TRAFFIC_RNG: u64 = 3;

/// The running traffic. Dropping it ends the threads.
pub(super) struct Traffic {
    /// For each stream: its flow, and the results of its packets.
    shared: Arc<Shared>,
    flows: usize,
    gap: Duration,
    /// For each direct flow, its present path.
    paths: Vec<Option<Path>>,
    sending: Option<JoinHandle<io::Result<()>>>,
    receiving: Option<JoinHandle<io::Result<()>>>,
}

/// The path of a direct flow.
struct Path {
    emulator: Emulator,
    there: Mutex<base::impair::Model>,
}

struct Shared {
    /// For each stream: the span in which it is judged, if it is bulk.
    bulk: Vec<Option<(Time, Time)>>,
    /// For each node: until when nothing there is scheduled, in nanoseconds of the clock.
    stalled_until: Vec<AtomicU64>,
    meters: Mutex<Vec<(usize, Meter)>>,
    stop_sending: AtomicBool,
    stop_receiving: AtomicBool,
}

impl Shared {
    /// Returns until when nothing at a node is scheduled; a past moment if the node is not stalled.
    fn stalled_until(&self, node: usize) -> Time {
        Time::from_nanos(self.stalled_until[node].load(Ordering::Acquire))
    }

    fn meters(&self) -> MutexGuard<'_, Vec<(usize, Meter)>> {
        self.meters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The sending end of a stream.
struct Sender {
    /// The node at which it is.
    node: usize,
    end: End,
    to: Target,
    source: Source,
    start: Time,
    stop: Time,
    bytes: usize,
    load: Load,
    retry_at: Time,
}

impl Traffic {
    /// Opens all sockets and starts to send at `zero`, according to the flows.
    pub(super) fn start(
        scenario: &Scenario,
        network: &Network<'_>,
        clock: Clock,
        zero: Time,
    ) -> Result<Traffic, LiveError> {
        let mut rng = Rng::new(scenario.seed ^ TRAFFIC_RNG);
        let (mut meters, mut senders, mut receivers) = (Vec::new(), Vec::new(), Vec::new());
        let (mut paths, mut bulk) = (Vec::new(), Vec::new());
        for (n, flow) in scenario.flows.iter().enumerate() {
            let (Pattern::Cbr { interval } | Pattern::OnOff { interval, .. }) = flow.pattern;
            let path = match &flow.carrier {
                Carrier::Direct(both) => Some(direct(both, rng.next_u64())?),
                Carrier::Overlay(_) => None,
                Carrier::Tcp(..) => unreachable!("real nodes were refused it"),
            };
            let load = load_of(flow);
            let (judged, over) = flow.judged(scenario.measure.from);
            for i in 0..flow.count as u64 {
                let port = PORTS + meters.len() as u16;
                let phase = (interval * i).div(flow.count as u64);
                let target = Target::new(scenario.nodes[flow.to].address, port);
                let at = |node| network.client_socket(node);
                let (from, to) = match (&flow.carrier, &path) {
                    (Carrier::Overlay(options), _) if flow.is_stream => {
                        let options = options_of(&flow.stream_options(*options));
                        (
                            End::calling(at(flow.from), target, options, load),
                            End::taking(at(flow.to), port, options, load),
                        )
                    }
                    (Carrier::Overlay(options), _) => {
                        let options = options_of(options);
                        (
                            End::overlay(at(flow.from), 0, options),
                            End::overlay(at(flow.to), port, options),
                        )
                    }
                    (Carrier::Direct(_), Some((path, receiver))) => {
                        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
                        socket.connect(path.emulator.address())?;
                        socket.set_nonblocking(true)?;
                        (End::Direct(socket), End::Direct(receiver.try_clone()?))
                    }
                    (Carrier::Direct(_), None) | (Carrier::Tcp(..), _) => continue,
                };
                meters.push((n, Meter::new(interval, flow.deadline)));
                bulk.push(flow.is_bulk.then_some((zero + judged, zero + over)));
                senders.push(Sender {
                    node: flow.from,
                    end: from,
                    to: target,
                    source: Source::new(flow.pattern, rng.fork()),
                    start: zero + flow.start + phase,
                    stop: zero + flow.stop,
                    bytes: flow.packet,
                    load,
                    retry_at: Time::ZERO,
                });
                receivers.push((flow.to, to));
            }
            paths.push(path.map(|(path, _)| path));
        }
        let nowhere = (0..scenario.nodes.len()).map(|_| AtomicU64::new(0));
        let shared = Arc::new(Shared {
            stalled_until: nowhere.collect(),
            bulk,
            meters: Mutex::new(meters),
            stop_sending: AtomicBool::new(false),
            stop_receiving: AtomicBool::new(false),
        });
        // All sockets exist before the first packet; one whose node is already gone is opened later. Receivers of
        // reliable streams listen before the streams are opened.
        for (_, end) in &mut receivers {
            end.open();
        }
        let (mine, from) = (Arc::clone(&shared), zero + scenario.measure.from);
        let receiving = spawn("receiver", move || receive(receivers, &mine, clock))?;
        for sender in &mut senders {
            sender.end.open();
        }
        for sender in &mut senders {
            sender.end.settle();
        }
        let mine = Arc::clone(&shared);
        let sending = spawn("sender", move || send(senders, &mine, clock, from))?;
        Ok(Traffic {
            shared,
            flows: scenario.flows.len(),
            gap: scenario.measure.gap,
            paths,
            sending: Some(sending),
            receiving: Some(receiving),
        })
    }

    /// Fails if a thread has failed.
    pub(super) fn check(&mut self) -> Result<(), LiveError> {
        for thread in [&mut self.sending, &mut self.receiving] {
            // The sending thread ends by itself when all flows have stopped.
            if thread.as_ref().is_some_and(JoinHandle::is_finished) {
                join(thread.take())?;
            }
        }
        Ok(())
    }

    pub(super) fn set_outage(&self, flow: usize, out: bool) {
        self.change(flow, |model| model.clone().with_outage(out));
    }

    pub(super) fn set_path(&self, flow: usize, path: &BothWays) {
        self.change(flow, |_| path.there.clone());
    }

    fn change(&self, flow: usize, to: impl FnOnce(&base::impair::Model) -> base::impair::Model) {
        if let Some(path) = &self.paths[flow] {
            let mut model = path.there.lock().unwrap_or_else(PoisonError::into_inner);
            *model = to(&model);
            path.emulator.set_model(model.clone());
        }
    }

    /// Stalls a node until then: packets there are sent later, and arriving packets wait.
    pub(super) fn stall(&self, node: usize, until: Time) {
        self.shared.stalled_until[node].fetch_max(until.as_nanos(), Ordering::AcqRel);
    }

    /// Ends all stalls.
    pub(super) fn resume(&self) {
        for until in &self.shared.stalled_until {
            until.store(0, Ordering::Release);
        }
    }

    /// Stops sending.
    pub(super) fn stop_sending(&mut self) -> Result<(), LiveError> {
        self.shared.stop_sending.store(true, Ordering::Release);
        Ok(join(self.sending.take())?)
    }

    /// Returns the results of each flow's packets.
    pub(super) fn judge(mut self) -> Result<Vec<Judgement>, LiveError> {
        self.shared.stop_receiving.store(true, Ordering::Release);
        join(self.receiving.take())?;
        let mut meters: Vec<Vec<Meter>> = Vec::new();
        meters.resize_with(self.flows, Vec::new);
        for (flow, meter) in self.shared.meters().drain(..) {
            meters[flow].push(meter);
        }
        let judged = meters.iter().map(|meters| Judgement::of(meters, self.gap));
        Ok(judged.collect())
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.shared.stop_sending.store(true, Ordering::Release);
        self.shared.stop_receiving.store(true, Ordering::Release);
        for thread in [&mut self.sending, &mut self.receiving] {
            let _ = join(thread.take());
        }
    }
}

/// Returns the path of a direct flow, and the socket at its end.
fn direct(both: &BothWays, seed: u64) -> io::Result<(Path, UdpSocket)> {
    let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    receiver.set_nonblocking(true)?;
    let emulator = Emulator::start(both.there.clone(), seed, receiver.local_addr()?)?;
    let there = Mutex::new(both.there.clone());
    Ok((Path { emulator, there }, receiver))
}

fn spawn(
    name: &str,
    work: impl FnOnce() -> io::Result<()> + Send + 'static,
) -> io::Result<JoinHandle<io::Result<()>>> {
    std::thread::Builder::new().name(name.into()).spawn(work)
}

fn join(thread: Option<JoinHandle<io::Result<()>>>) -> io::Result<()> {
    let Some(thread) = thread else { return Ok(()) };
    let joined = thread.join();
    joined.unwrap_or_else(|_| Err(io::Error::other("a thread of the traffic panicked")))
}

fn send(
    mut senders: Vec<Sender>,
    shared: &Shared,
    clock: Clock,
    judged_from: Time,
) -> io::Result<()> {
    prepare_thread();
    let due = |sender: &Sender| sender.start + sender.source.peek();
    let first = senders.iter().enumerate();
    let first = first.filter(|(_, sender)| sender.load != Load::Bulk);
    let mut next: BinaryHeap<Reverse<(Time, usize)>> =
        first.map(|(n, sender)| Reverse((due(sender), n))).collect();
    let (mut waits, mut flush_at) = (false, clock.now());
    while !shared.stop_sending.load(Ordering::Acquire) {
        let now = clock.now();
        if now >= flush_at {
            flush_at = now + FLUSH_STEP;
            waits = flush(&mut senders, shared, clock);
        }
        let Some(&Reverse((at, n))) = next.peek() else {
            if !waits {
                break;
            }
            sleep_until(clock, flush_at);
            continue;
        };
        if at > now {
            let look = if waits { flush_at } else { now + LOOK };
            sleep_until(clock, at.min(look));
            continue;
        }
        next.pop();
        let sender = &mut senders[n];
        let due_at = due(sender);
        if due_at >= sender.stop {
            continue;
        }
        let stalled = shared.stalled_until(sender.node);
        if stalled > now {
            next.push(Reverse((stalled.min(now + LOOK), n)));
            continue;
        }
        sender.source.next();
        next.push(Reverse((due(sender), n)));
        let number = shared.meters()[n].1.on_sent(due_at >= judged_from);
        let refused = sender.send((n as u32, number), clock);
        shared.meters()[n].1.refused += u64::from(refused);
    }
    let until = clock.now() + ANSWERS_DRAIN;
    while clock.now() < until && senders.iter().any(|sender| sender.load == Load::Answered) {
        flush(&mut senders, shared, clock);
        sleep_until(clock, clock.now() + FLUSH_STEP);
    }
    Ok(())
}

/// Sends waiting data on reliable streams of nodes that are not stalled, writes bulk and takes answers. Returns whether
/// more is to be expected.
fn flush(senders: &mut [Sender], shared: &Shared, clock: Clock) -> bool {
    let (mut waits, now) = (false, clock.now());
    for sender in senders {
        match sender.load {
            Load::Bulk if now >= sender.stop => continue,
            Load::Bulk | Load::Answered => waits = true,
            Load::Messages => {}
        }
        if shared.stalled_until(sender.node) > now {
            waits = true;
            continue;
        }
        if sender.load == Load::Bulk && now >= sender.start {
            sender.end.write_bulk();
            sender.reopen(now);
        }
        if sender.load == Load::Answered {
            sender
                .end
                .take_answers(|packet| take(packet, shared, clock.now()));
        }
        if sender.end.flush() {
            sender.reopen(now);
            waits = true;
        }
    }
    waits
}

/// Returns what the streams of a flow carry.
fn load_of(flow: &Flow) -> Load {
    match (flow.is_bulk, flow.is_answered) {
        (true, _) => Load::Bulk,
        (false, true) => Load::Answered,
        (false, false) => Load::Messages,
    }
}

impl Sender {
    /// Reopens its socket from time to time, if it has none.
    fn reopen(&mut self, now: Time) {
        if now >= self.retry_at {
            self.retry_at = now + LOOK;
            self.end.open();
        }
    }

    /// Sends a packet. Returns whether the node refused it. A packet that cannot be sent is lost.
    fn send(&mut self, (stream, number): (u32, u32), clock: Clock) -> bool {
        self.reopen(clock.now());
        let mut packet = [0; DATAGRAM_BYTES_MAX];
        stamp::put(&mut packet, stream, number, clock.now());
        let packet = &packet[..self.bytes];
        self.end.send(packet, self.to)
    }
}

/// Handles a packet that arrived.
fn take(packet: &[u8], shared: &Shared, now: Time) {
    if let Some((stream, number, sent)) = stamp::read(packet)
        && let Some((_, meter)) = shared.meters().get_mut(stream as usize)
    {
        meter.on_arrival(number, sent, now, packet.len());
    }
}

/// Handles bytes of bulk that arrived.
fn take_bulk(
    stream: usize,
    bytes: &[u8],
    (from, until): (Time, Time),
    (shared, now): (&Shared, Time),
) {
    if (from..until).contains(&now)
        && let Some((_, meter)) = shared.meters().get_mut(stream)
    {
        meter.bulk_bytes += bytes.len() as u64;
    }
}

fn receive(mut ends: Vec<(usize, End)>, shared: &Shared, clock: Clock) -> io::Result<()> {
    prepare_thread();
    let mut poller = Poller::new()?;
    for (n, (_, end)) in ends.iter_mut().enumerate() {
        end.watch(&poller, n as u64)?;
    }
    let mut ready = Vec::new();
    let mut look_at = clock.now();
    while !shared.stop_receiving.load(Ordering::Acquire) {
        poller.wait(Some(LOOK), &mut ready)?;
        let mut waits = false;
        for event in &ready {
            if let Some((node, end)) = ends.get_mut(event.token as usize) {
                if shared.stalled_until(*node) > clock.now() {
                    waits = true;
                    continue;
                }
                let stream = event.token as usize;
                end.take_all(|bytes| match shared.bulk[stream] {
                    Some(judged) => take_bulk(stream, bytes, judged, (shared, clock.now())),
                    None => take(bytes, shared, clock.now()),
                });
            }
        }
        if waits {
            // The poller then reports it again at once.
            sleep_until(clock, clock.now() + STALL_STEP);
        }
        if clock.now() >= look_at {
            look_at = clock.now() + LOOK;
            for (n, (_, end)) in ends.iter_mut().enumerate() {
                if end.open() {
                    end.watch(&poller, n as u64)?;
                }
            }
        }
    }
    Ok(())
}
