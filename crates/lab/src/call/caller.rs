//! The end that calls: one thread that sends on the calls' schedule and notes what is answered.

use super::clocks::{self, Offsets, Packet};
use super::probe::{self, Probe};
use super::{ANSWER_PORT, BothWays, CallError, CallOptions, CallResult, CallScenario};
use crate::interrupt::Interrupt;
use crate::pace::{self, DEADLINE, FRAME, Schedule};
use crate::quality::{Call, Quality};
use crate::rtp::{PACKET_BYTES, Place};
use base::{Duration, Time};
use client::{DatagramSocket, Node, Options, Target};
use net::Clock;
use net::epoll::{Interest, Poller};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};

/// From the last packet until nobody waits any more: five times the deadline, so that late packets
/// count as late and not as lost, and the answers that repeat what was heard come too.
const TAIL: Duration = Duration::from_millis(500);
/// If nothing was answered by then, nobody is there. Handshakes and routes are older than the call.
const ANSWER_PATIENCE: Duration = Duration::from_secs(3);
/// How often the bar is drawn.
const TICK: Duration = Duration::from_millis(100);
/// Packets taken from one socket before the others get their turn.
const READS_PER_TURN: usize = 64;

const TOKEN_DIRECT: u64 = 1 << 32;
const TOKEN_INTERRUPT: u64 = 2 << 32;

/// Calls another node and judges what came through.
///
/// When the process is asked to end meanwhile, the calls end early and are judged as far as they
/// came.
///
/// # Errors
/// [`CallError`]; [`CallError::NoAnswer`] when nobody answers over the overlay.
pub fn run(options: &CallOptions) -> Result<CallResult, CallError> {
    options.check()?;
    let mut caller = Caller::open(options)?;
    options.progress.begin(&format!(
        "{} of {} s to {}{}",
        pace::count_calls(options.calls),
        options.seconds,
        options.to,
        options
            .direct
            .as_ref()
            .map(|d| format!(", and directly to {d}"))
            .unwrap_or_default(),
    ));
    let interrupted = caller.talk(options)?;
    options.progress.clear();
    Ok(caller.result(options, interrupted))
}

/// What is known of the packets of one path's calls, call by call.
struct Path {
    calls: Vec<Vec<Packet>>,
    answers: u64,
}

impl Path {
    fn new(calls: u32, packets: u32) -> Path {
        let call = vec![Packet::default(); packets as usize];
        Path {
            calls: vec![call; calls as usize],
            answers: 0,
        }
    }

    fn on_sent(&mut self, call: u32, index: u32, now: Time) {
        if let Some(packet) = self.packet(call, index) {
            packet.sent = Some(now);
        }
    }

    fn on_answer(&mut self, now: Time, call: u32, index: u32, heard: &[probe::Hearing]) {
        let Some(packet) = self.packet(call, index) else {
            return;
        };
        if packet.sent.is_none() {
            // An answer to what was never said is somebody's joke.
            return;
        }
        packet.answered.get_or_insert(now);
        self.answers += 1;
        for hearing in heard {
            let packet = self.packet(call, hearing.index);
            if let Some(packet) = packet.filter(|packet| packet.sent.is_some()) {
                packet.heard_us.get_or_insert(hearing.at_us);
            }
        }
    }

    fn packet(&mut self, call: u32, index: u32) -> Option<&mut Packet> {
        self.calls.get_mut(call as usize)?.get_mut(index as usize)
    }

    fn judge(&self, offsets: &mut Offsets) -> BothWays {
        let (mut there, mut back): (Vec<Call>, Vec<Call>) = (Vec::new(), Vec::new());
        for call in &self.calls {
            let (out, home) = clocks::delays(call, offsets);
            there.push(out);
            back.push(home);
        }
        BothWays {
            there: Quality::of(&there, DEADLINE),
            back: Quality::of(&back, DEADLINE),
        }
    }
}

struct Caller {
    clock: Clock,
    sockets: Vec<DatagramSocket>,
    direct: Option<UdpSocket>,
    to: Target,
    /// The source of the first call; the others follow it. Random, so that the answerer does not
    /// take the calls for those of an earlier run.
    source: u32,
    schedule: Schedule,
    overlay_path: Path,
    direct_path: Option<Path>,
}

impl Caller {
    fn open(options: &CallOptions) -> Result<Caller, CallError> {
        let node = Node::at(&options.node);
        let deadline = std::time::Duration::from_nanos(DEADLINE.as_nanos());
        let mut sockets = Vec::new();
        for _ in 0..options.calls {
            let voice = Options::voice(deadline);
            let routing = options.routing.unwrap_or(voice.routing);
            let socket = node.bind(0, Options { routing, ..voice })?;
            socket.set_nonblocking(true)?;
            sockets.push(socket);
        }
        let direct = options.direct.as_deref().map(connect).transpose()?;
        let packets = options.seconds * (1_000_000_000 / FRAME.as_nanos()) as u32;
        let entropy = net::sched::entropy()?;
        Ok(Caller {
            clock: Clock::new(),
            direct_path: direct.is_some().then(|| Path::new(options.calls, packets)),
            overlay_path: Path::new(options.calls, packets),
            sockets,
            direct,
            to: Target::new(options.to, ANSWER_PORT),
            source: u32::from_ne_bytes([entropy[0], entropy[1], entropy[2], entropy[3]]),
            schedule: Schedule {
                start: Time::ZERO,
                calls: options.calls,
                packets,
            },
        })
    }

    /// Sends and listens until it is over; whether it was asked to end before.
    fn talk(&mut self, options: &CallOptions) -> Result<bool, CallError> {
        let interrupt = Interrupt::install()?;
        let mut poller = Poller::new()?;
        interrupt.watch(&poller, TOKEN_INTERRUPT)?;
        for (i, socket) in self.sockets.iter().enumerate() {
            poller.add(socket, i as u64, Interest::READ)?;
        }
        if let Some(direct) = &self.direct {
            poller.add(direct, TOKEN_DIRECT, Interest::READ)?;
        }
        pace::prepare_thread();
        self.schedule.start = self.clock.now() + FRAME;
        let (mut next, mut total) = (0, self.schedule.total());
        let mut end = self.schedule.due(0, self.schedule.packets) + TAIL;
        let patient_until = self.schedule.start + ANSWER_PATIENCE;
        let (mut ready, mut draw_at) = (Vec::new(), Time::ZERO);
        loop {
            let now = self.clock.now();
            if interrupt.came() && next < total {
                total = next;
                end = now + TAIL;
            }
            while next < total && self.schedule.due_nth(next) <= self.clock.now() {
                self.send(next)?;
                next += 1;
            }
            let silent = self.overlay_path.answers == 0 && !interrupt.came();
            if silent && now >= patient_until.min(end) {
                return Err(CallError::NoAnswer(options.to));
            }
            if now >= end {
                return Ok(interrupt.came());
            }
            if now >= draw_at {
                self.draw(options, next);
                draw_at = now + TICK;
            }
            let wake = if next < total {
                self.schedule.due_nth(next)
            } else {
                end
            };
            poller.wait(Some(wake.since(self.clock.now()).min(TICK)), &mut ready)?;
            for event in &ready {
                match event.token {
                    TOKEN_DIRECT => self.hear_direct()?,
                    TOKEN_INTERRUPT => {}
                    call => self.hear_overlay(call as usize)?,
                }
            }
        }
    }

    /// Sends the `n`-th packet on both paths; which path is first changes with every packet.
    fn send(&mut self, n: u64) -> Result<(), CallError> {
        let (call, index) = self.schedule.place(n);
        let place = Place {
            source: self.source.wrapping_add(call),
            index,
        };
        let packet = probe::emit_call(place);
        for turn in [0, 1] {
            let now = self.clock.now();
            if (call + index) % 2 == turn {
                self.overlay_path.on_sent(call, index, now);
                match self.sockets[call as usize].send_to(&packet, self.to) {
                    // What the node does not take now is lost.
                    Ok(()) | Err(client::Error::WouldBlock) => {}
                    Err(error) => return Err(error.into()),
                }
            } else if let (Some(direct), Some(path)) = (&self.direct, &mut self.direct_path) {
                path.on_sent(call, index, now);
                // What the kernel refuses is lost.
                let _ = direct.send(&packet);
            }
        }
        Ok(())
    }

    fn hear_overlay(&mut self, call: usize) -> Result<(), CallError> {
        let mut buffer = [0; 2 * PACKET_BYTES];
        for _ in 0..READS_PER_TURN {
            match self.sockets[call].recv_from(&mut buffer) {
                Ok((len, from, _)) if from == self.to => {
                    let now = self.clock.now();
                    on_packet(&mut self.overlay_path, self.source, now, &buffer[..len]);
                }
                Ok(_) | Err(client::Error::Refused { .. }) => {}
                Err(client::Error::WouldBlock) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn hear_direct(&mut self) -> Result<(), CallError> {
        let mut buffer = [0; 2 * PACKET_BYTES];
        let (Some(direct), Some(path)) = (&self.direct, &mut self.direct_path) else {
            return Ok(());
        };
        for _ in 0..READS_PER_TURN {
            match direct.recv(&mut buffer) {
                Ok(len) => on_packet(path, self.source, self.clock.now(), &buffer[..len]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // Nobody listens there, or routers say so: the packets are lost.
                Err(_) => {}
            }
        }
        Ok(())
    }

    fn draw(&self, options: &CallOptions, sent: u64) {
        let share = sent as f64 / self.schedule.total() as f64;
        let direct = self
            .direct_path
            .as_ref()
            .map(|path| format!(", direct {}", path.answers));
        let overlay = self.overlay_path.answers;
        options.progress.draw(
            share,
            &format!(
                "{sent} sent, answered: overlay {overlay}{}",
                direct.unwrap_or_default()
            ),
        );
    }

    fn result(&self, options: &CallOptions, interrupted: bool) -> CallResult {
        let mut offsets = Offsets::default();
        let paths = [Some(&self.overlay_path), self.direct_path.as_ref()];
        for path in paths.into_iter().flatten() {
            offsets.learn(path.calls.iter().flatten());
        }
        CallResult {
            scenario: CallScenario {
                to: options.to.to_string(),
                direct: options.direct.clone(),
                calls: options.calls,
                seconds: options.seconds,
                deadline_ms: DEADLINE.as_secs_f64() * 1e3,
                interrupted,
            },
            overlay: self.overlay_path.judge(&mut offsets),
            direct: self
                .direct_path
                .as_ref()
                .map(|path| path.judge(&mut offsets)),
        }
    }
}

/// Takes an answer to one of the calls whose sources begin with `first`.
fn on_packet(path: &mut Path, first: u32, now: Time, packet: &[u8]) {
    if let Some(Probe::Answer(place, heard)) = probe::parse(packet) {
        path.on_answer(now, place.source.wrapping_sub(first), place.index, &heard);
    }
}

/// A UDP socket whose other end is `address`, host and port.
fn connect(address: &str) -> Result<UdpSocket, CallError> {
    let failed = |error| CallError::Direct {
        address: address.to_owned(),
        error,
    };
    let none = || io::Error::other("the name has no address: write HOST:PORT");
    let to = address
        .to_socket_addrs()
        .map_err(failed)?
        .next()
        .ok_or_else(none)
        .map_err(failed)?;
    let any: SocketAddr = match to {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any).map_err(failed)?;
    socket.connect(to).map_err(failed)?;
    socket.set_nonblocking(true).map_err(failed)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::probe::Hearing;
    use base::NodeAddr;

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn a_lost_answer_is_made_up_for_by_the_next() {
        let mut path = Path::new(1, 4);
        for index in 0..3 {
            path.on_sent(0, index, at(20 * u64::from(index)));
        }
        let heard = |index| Hearing {
            index,
            at_us: 1_000_000 + index * 20_000,
        };
        // Packet 1 was heard, its answer was lost; packet 3 was never sent.
        path.on_answer(at(80), 0, 0, &[heard(0)]);
        path.on_answer(at(120), 0, 2, &[heard(2), heard(1), heard(0), heard(3)]);
        path.on_answer(at(999), 0, 2, &[heard(2)]);
        path.on_answer(at(999), 0, 3, &[]);
        path.on_answer(at(999), 5, 0, &[]);
        let call = &path.calls[0];
        let known: Vec<_> = call
            .iter()
            .map(|p| (p.heard_us.is_some(), p.answered.map(|t| t.as_nanos())))
            .collect();
        let ms = |ms: u64| Some(ms * 1_000_000);
        assert_eq!(
            known,
            [(true, ms(80)), (true, None), (true, ms(120)), (false, None)]
        );
        let mut offsets = Offsets::default();
        offsets.learn(call);
        let both = path.judge(&mut offsets);
        assert_eq!((both.there.sent, both.there.lost_pct), (3, 0.0));
        assert_eq!((both.back.sent, both.back.lost_pct), (3, 33.333));
    }

    #[test]
    fn strange_options_and_hosts_say_what_to_do() {
        let options = |calls, seconds, to| CallOptions {
            node: "nowhere".into(),
            to,
            direct: None,
            calls,
            seconds,
            routing: None,
            progress: crate::progress::Progress::Silent,
        };
        let node = NodeAddr(0x0a07_0003);
        let why = |o: CallOptions| run(&o).unwrap_err().to_string();
        assert!(why(options(0, 1, node)).contains("choose 1 to 100"));
        assert!(why(options(1, 601, node)).contains("choose 1 to 600"));
        assert!(why(options(1, 1, NodeAddr(0xef00_0001))).contains("not the address"));
        assert!(why(options(1, 1, node)).contains("no node at nowhere"));
        assert!(
            connect("127.0.0.1")
                .unwrap_err()
                .to_string()
                .contains("127.0.0.1")
        );
        assert!(connect("127.0.0.1:7717").is_ok());
    }
}
