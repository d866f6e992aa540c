//! The calling end of a test call: one thread that sends on the calls' schedule and records the answers.

use super::clocks::Offset;
use super::path::Path;
use super::probe::{self, PACKET_BYTES, Probe};
use super::{
    ANSWER_PORT, CallError, CallOptions, CallResult, CallScenario, DEADLINE_MOST, Gain, Interval,
    WINDOW_PACKETS,
};
use crate::interrupt::Interrupt;
use crate::pace::{self, FRAME, Schedule};
use base::{Duration, Time};
use client::{DatagramSocket, Options, Target};
use net::Clock;
use net::epoll::{Interest, Poller};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use voice::rtp::place::Place;

/// How long the caller waits for answers, besides the deadline. So late packets count as late and not as lost, and the
/// answers that repeat earlier hearings arrive too.
const TAIL: Duration = Duration::from_millis(500);
// Not more than two windows are kept.
const _: () =
    assert!(DEADLINE_MOST.as_nanos() + TAIL.as_nanos() < WINDOW_PACKETS as u64 * FRAME.as_nanos());
/// If no answer has come by then, nobody answers. Handshakes and routes are older than the call.
const ANSWER_PATIENCE: Duration = Duration::from_secs(3);
/// How often the bar is drawn.
const TICK: Duration = Duration::from_millis(100);
/// Packets of a call in a second.
const PACKETS_PER_SECOND: u32 = (1_000_000_000 / FRAME.as_nanos()) as u32;
/// Packets taken from one socket before the others get their turn.
const READS_PER_TURN: usize = 64;

const TOKEN_DIRECT: u64 = 1 << 32;
const TOKEN_INTERRUPT: u64 = 2 << 32;

/// Calls another node and evaluates the packets that came through.
///
/// If the process is asked to end meanwhile, the calls end early, and the result covers the packets until then. The
/// same happens if the node goes away after the first answer; [`CallResult::error`] then has the reason. Every
/// [`CallOptions::every_s`] seconds, `report` gets the results since its last call.
///
/// # Errors
/// [`CallError`]; [`CallError::NoAnswer`] when nobody answers over the overlay.
pub fn run(
    options: &CallOptions,
    report: &mut dyn FnMut(&Interval),
) -> Result<CallResult, CallError> {
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
    let ended = caller.talk(options, report);
    options.progress.clear();
    let (interrupted, error) = match ended {
        Ok(interrupted) => (interrupted, None),
        Err(error) if caller.overlay_path.answers > 0 => (false, Some(error.to_string())),
        Err(error) => return Err(error),
    };
    while !caller.is_judged() {
        caller.close_window(options, report);
    }
    Ok(caller.result(options, interrupted, error))
}

struct Caller {
    clock: Clock,
    sockets: Vec<DatagramSocket>,
    direct: Option<UdpSocket>,
    to: Target,
    /// The source of the first call. The sources of the other calls follow it. It is random, so that the answerer does
    /// not take the calls for those of an earlier run.
    source: u32,
    schedule: Schedule,
    overlay_path: Path,
    direct_path: Option<Path>,
    offset: Offset,
    /// The number of the window that is evaluated next.
    window: u32,
    /// The second up to which reports were made.
    reported_s: u64,
}

impl Caller {
    fn open(options: &CallOptions) -> Result<Caller, CallError> {
        let node = &options.node;
        let deadline = std::time::Duration::from_nanos(options.deadline.as_nanos());
        let mut sockets = Vec::new();
        for _ in 0..options.calls {
            let voice = Options::voice(deadline);
            let routing = options.routing.unwrap_or(voice.routing);
            let wanted = Options {
                routing,
                aim: options.aim,
                ..voice
            };
            let socket = node.bind(0, wanted)?;
            socket.set_nonblocking(true)?;
            sockets.push(socket);
        }
        let direct = options.direct.as_deref().map(connect).transpose()?;
        let packets = options.seconds * PACKETS_PER_SECOND;
        let path = || Path::new(options.calls, options.codec, options.deadline);
        let entropy = net::sched::entropy()?;
        Ok(Caller {
            clock: Clock::new(),
            direct_path: direct.is_some().then(path),
            overlay_path: path(),
            offset: Offset::default(),
            window: 0,
            reported_s: 0,
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

    /// Sends and listens until the calls are over. Returns whether the process was asked to end before.
    fn talk(
        &mut self,
        options: &CallOptions,
        report: &mut dyn FnMut(&Interval),
    ) -> Result<bool, CallError> {
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
        let tail = options.deadline + TAIL;
        let mut end = self.schedule.due(0, self.schedule.packets) + tail;
        let patient_until = self.schedule.start + ANSWER_PATIENCE;
        let (mut ready, mut draw_at) = (Vec::new(), Time::ZERO);
        loop {
            let now = self.clock.now();
            if interrupt.came() && next < total {
                total = next;
                end = now + tail;
            }
            while next < total && self.schedule.due_nth(next) <= self.clock.now() {
                self.send(options, next)?;
                next += 1;
            }
            let silent = self.overlay_path.answers == 0 && !interrupt.came();
            if silent && now >= patient_until.min(end) {
                return Err(CallError::NoAnswer(options.to));
            }
            if now >= end {
                return Ok(interrupt.came());
            }
            if now >= self.window_ends() + tail {
                self.close_window(options, report);
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

    /// Sends the `n`-th packet on both paths. The paths take turns in being first.
    fn send(&mut self, options: &CallOptions, n: u64) -> Result<(), CallError> {
        let (call, index) = self.schedule.place(n);
        let place = Place {
            source: self.source.wrapping_add(call),
            index,
        };
        let packet = probe::emit_call(options.codec, place, options.deadline);
        for turn in [0, 1] {
            let now = self.clock.now();
            if (call + index) % 2 == turn {
                self.overlay_path.on_sent(call, index, now);
                match self.sockets[call as usize].send_to(&packet, self.to) {
                    // A packet that the node does not take now is lost.
                    Ok(()) | Err(client::Error::WouldBlock) => {}
                    Err(error) => return Err(error.into()),
                }
            } else if let (Some(direct), Some(path)) = (&self.direct, &mut self.direct_path) {
                path.on_sent(call, index, now);
                // A packet that the kernel refuses is lost.
                let _ = direct.send(&packet);
            }
        }
        Ok(())
    }

    fn hear_overlay(&mut self, call: usize) -> Result<(), CallError> {
        let mut buffer = [0; 2 * PACKET_BYTES];
        for _ in 0..READS_PER_TURN {
            match self.sockets[call].recv_from(&mut buffer) {
                Ok((len, from, info)) if from == self.to => {
                    let (now, path) = (self.clock.now(), &mut self.overlay_path);
                    on_packet(path, self.source, now, info.recovered, &buffer[..len]);
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
                Ok(len) => on_packet(path, self.source, self.clock.now(), false, &buffer[..len]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // No program listens at the port, or a router reports an error: the packets are lost.
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

    /// Returns when the last packets of the next window are sent.
    fn window_ends(&self) -> Time {
        let first = (self.window + 1).saturating_mul(WINDOW_PACKETS);
        self.schedule.due(0, first) + FRAME
    }

    fn is_judged(&self) -> bool {
        let direct = self.direct_path.as_ref();
        self.overlay_path.is_judged() && direct.is_none_or(Path::is_judged)
    }

    /// Evaluates a window. Reports if a report is due, or if this is the last window.
    fn close_window(&mut self, options: &CallOptions, report: &mut dyn FnMut(&Interval)) {
        // Both paths lead to the same clock, so both contribute to the estimate.
        let direct = self.direct_path.iter().flat_map(Path::oldest);
        self.offset.learn(self.overlay_path.oldest().chain(direct));
        self.overlay_path.close(&self.offset);
        if let Some(direct) = &mut self.direct_path {
            direct.close(&self.offset);
        }
        self.window += 1;
        let whole = u64::from(self.window * (WINDOW_PACKETS / PACKETS_PER_SECOND));
        let until_s = whole.min(options.seconds.into());
        let due = |every: u32| until_s - self.reported_s >= u64::from(every) || self.is_judged();
        if options.every_s.is_some_and(due) {
            let overlay = self.overlay_path.take_recent();
            let direct = self.direct_path.as_mut().map(Path::take_recent);
            options.progress.clear();
            report(&Interval {
                from_s: self.reported_s,
                until_s,
                gain: Gain::of(&overlay, direct.as_ref()),
                overlay,
                direct,
            });
            self.reported_s = until_s;
        }
    }

    fn result(
        &self,
        options: &CallOptions,
        interrupted: bool,
        error: Option<String>,
    ) -> CallResult {
        let overlay = self.overlay_path.whole();
        let direct = self.direct_path.as_ref().map(Path::whole);
        CallResult {
            scenario: CallScenario {
                to: options.to.to_string(),
                direct: options.direct.clone(),
                codec: options.codec.name(),
                calls: options.calls,
                seconds: options.seconds,
                deadline_ms: options.deadline.as_secs_f64() * 1e3,
                interrupted,
            },
            gain: Gain::of(&overlay, direct.as_ref()),
            overlay,
            direct,
            error,
            direct_error: self.direct_error(options),
        }
    }

    /// Returns the message if nobody has answered on the direct path.
    fn direct_error(&self, options: &CallOptions) -> Option<String> {
        let path = self.direct_path.as_ref()?;
        let direct = options.direct.as_ref().filter(|_| path.answers == 0)?;
        Some(format!(
            "nobody answers directly at {direct}: there is nothing to compare with. Does \
             `sinew test-call --answer` run there, and is that UDP port open?"
        ))
    }
}

/// Processes an answer to one of the calls whose sources begin with `first`.
fn on_packet(path: &mut Path, first: u32, now: Time, recovered: bool, packet: &[u8]) {
    if let Some(Probe::Answer(_, place, heard)) = probe::parse(packet) {
        let call = place.source.wrapping_sub(first);
        path.on_answer(now, call, place.index, recovered, &heard);
    }
}

/// Opens a UDP socket whose other end is `address`, host and port.
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
    use crate::call::Codec;
    use base::NodeAddr;

    #[test]
    fn strange_options_and_hosts_say_what_to_do() {
        let options = |calls, seconds, to| CallOptions {
            node: client::Node::at("nowhere"),
            to,
            direct: None,
            calls,
            seconds,
            deadline: crate::call::DEADLINE,
            routing: None,
            aim: client::Aim::default(),
            codec: Codec::Pcmu,
            every_s: None,
            progress: crate::progress::Progress::Silent,
        };
        let node = NodeAddr(0x0a07_0003);
        let why = |o: CallOptions| run(&o, &mut |_| {}).unwrap_err().to_string();
        assert!(why(options(0, 1, node)).contains("choose 1 to 100"));
        assert!(why(options(1, 86_401, node)).contains("choose 1 to 86400"));
        for deadline in [Duration::from_millis(9), Duration::from_millis(5_001)] {
            let strange = CallOptions {
                deadline,
                ..options(1, 1, node)
            };
            assert!(why(strange).contains("choose 10.0ms to 5.00s"));
        }
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
