//! The called end of a test call. It returns every packet at once, with the times at which it
//! received this packet and those before it.
//!
//! It answers anybody who can reach it, but with no more bytes than it received. So nobody gains
//! anything by making it answer a third party. Its memory is bounded: a few hundred callers with a
//! few hundred bytes each.

use super::probe::{self, HEARINGS, Hearing, PACKET_BYTES, Probe};
use super::{ANSWER_PORT, CallError, DEADLINE};
use crate::interrupt::Interrupt;
use crate::pace;
use crate::progress::Progress;
use base::{Burst, Duration, Pool, Time, UnderlayAddr};
use client::{DatagramSocket, Node, Options, Target};
use net::Clock;
use net::epoll::{Interest, Poller};
use net::udp::{self, RECV_MESSAGES, SendQueue};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use voice::rtp::place::Place;

/// Calls remembered at once; 512 send 25 600 packets/s, more than one thread answers.
const CALLERS_MAX: usize = 512;
/// A call is over when it has been silent for this long.
const CALL_IDLE: Duration = Duration::from_secs(10);
/// How often silent calls are forgotten.
const SWEEP: Duration = Duration::from_secs(2);
/// Packets taken from one socket before the other gets its turn.
const READS_PER_TURN: usize = 64;

const TOKEN_OVERLAY: u64 = 0;
const TOKEN_DIRECT: u64 = 1;
const TOKEN_INTERRUPT: u64 = 2;

/// The options of [`answer`].
#[derive(Clone, Debug)]
pub struct AnswerOptions {
    /// The node at which calls are answered.
    pub node: Node,
    /// The address at which direct calls are answered; `None` answers no direct calls.
    pub direct: Option<SocketAddr>,
    /// What is written to standard error meanwhile.
    pub progress: Progress,
}

/// What [`answer`] answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answered {
    /// Calls over the overlay.
    pub overlay_calls: u64,
    /// Direct calls.
    pub direct_calls: u64,
    /// Packets answered.
    pub packets: u64,
    /// Packets that did not belong to a call, or came when too many calls were in progress.
    pub ignored: u64,
}

/// Answers calls until the process is asked to end.
///
/// # Errors
/// When the node or the UDP port cannot be used, or the node goes away.
pub fn answer(options: &AnswerOptions) -> Result<Answered, CallError> {
    let overlay = options.node.bind(ANSWER_PORT, voice(DEADLINE))?;
    overlay.set_nonblocking(true)?;
    let mut direct = options.direct.map(Direct::open).transpose()?;
    let interrupt = Interrupt::install()?;
    let mut poller = Poller::new()?;
    poller.add(&overlay, TOKEN_OVERLAY, Interest::READ)?;
    if let Some(direct) = &direct {
        poller.add(&direct.socket, TOKEN_DIRECT, Interest::READ)?;
    }
    interrupt.watch(&poller, TOKEN_INTERRUPT)?;
    options
        .progress
        .begin(&format!("answering calls to {}", overlay.local()));
    pace::prepare_thread();
    let mut answerer = Answerer::new(options.progress);
    let mut ready = Vec::new();
    while !interrupt.came() {
        poller.wait(Some(SWEEP), &mut ready)?;
        for event in &ready {
            match (event.token, &mut direct) {
                (TOKEN_OVERLAY, _) => answerer.on_overlay(&overlay)?,
                (TOKEN_DIRECT, Some(direct)) => answerer.on_direct(direct),
                _ => {}
            }
        }
        answerer.ears.forget(answerer.clock.now());
    }
    Ok(answerer.answered)
}

/// How long the socket keeps a deadline at least.
const DEADLINE_KEPT: Duration = Duration::from_secs(1);

/// Returns the options of a socket whose packets have this deadline.
fn voice(deadline: Duration) -> Options {
    Options::voice(std::time::Duration::from_nanos(deadline.as_nanos()))
}

/// The socket for direct calls. An answer leaves from the address that was called, also on a host
/// with several addresses: otherwise its caller would take it for a packet of a stranger.
struct Direct {
    socket: udp::Socket,
    pool: Pool,
    came: Vec<(UnderlayAddr, Burst)>,
    answers: SendQueue,
}

impl Direct {
    fn open(address: SocketAddr) -> Result<Direct, CallError> {
        let options = udp::Options {
            gro: false,
            gso: false,
            ..udp::Options::default()
        };
        let socket = udp::Socket::bind(address, options).map_err(|error| CallError::Direct {
            address: address.to_string(),
            error,
        })?;
        Ok(Direct {
            socket,
            // Room for what the socket keeps, and for a turn's packets and answers.
            pool: Pool::new(2 * RECV_MESSAGES, 2 * READS_PER_TURN),
            came: Vec::new(),
            answers: SendQueue::new(),
        })
    }
}

/// The address of a caller, and its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Caller {
    Direct(SocketAddr),
    Overlay(Target),
}

struct Answerer {
    clock: Clock,
    ears: Ears,
    /// The deadline that the socket on the overlay has now.
    deadline: Duration,
    keeps_deadline_until: Time,
    answered: Answered,
    progress: Progress,
}

impl Answerer {
    fn new(progress: Progress) -> Answerer {
        Answerer {
            clock: Clock::new(),
            ears: Ears::default(),
            deadline: DEADLINE,
            keeps_deadline_until: Time::ZERO,
            answered: Answered::default(),
            progress,
        }
    }

    fn on_overlay(&mut self, socket: &DatagramSocket) -> Result<(), CallError> {
        let mut buffer = [0; 2 * PACKET_BYTES];
        for _ in 0..READS_PER_TURN {
            match socket.recv_from(&mut buffer) {
                Ok((len, from, info)) => {
                    let (caller, recovered) = (Caller::Overlay(from), info.recovered);
                    if let Some((answer, deadline)) =
                        self.on_packet(caller, recovered, &buffer[..len])
                    {
                        self.set_deadline(socket, deadline)?;
                        match socket.send_to(&answer, from) {
                            // A packet that the node does not take now is lost.
                            Ok(()) | Err(client::Error::WouldBlock) => {}
                            Err(error) => return Err(error.into()),
                        }
                    }
                }
                Err(client::Error::WouldBlock) => return Ok(()),
                // The node could not send an earlier answer. The next answer may succeed.
                Err(client::Error::Refused { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Gives the next packets of the socket this deadline, at most once a second: the node is asked, and packets wait
    /// meanwhile. Callers with several deadlines share them.
    fn set_deadline(
        &mut self,
        socket: &DatagramSocket,
        deadline: Duration,
    ) -> Result<(), CallError> {
        let now = self.clock.now();
        if deadline == self.deadline || now < self.keeps_deadline_until {
            return Ok(());
        }
        self.keeps_deadline_until = now + DEADLINE_KEPT;
        match socket.set_options(voice(deadline)) {
            // The node's complaint about an earlier answer comes first. The options are set all the same.
            Ok(()) | Err(client::Error::Refused { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        self.deadline = deadline;
        Ok(())
    }

    fn on_direct(&mut self, direct: &mut Direct) {
        let (pool, came) = (&direct.pool, &mut direct.came);
        // The kernel reports here that callers have gone away.
        let _ = direct.socket.recv_batch(pool, came, READS_PER_TURN);
        for (from, burst) in came.drain(..) {
            let caller = Caller::Direct(net::addr::socket_addr(from));
            for packet in (0..burst.segments()).map(|i| burst.segment(i)) {
                let answer = self.on_packet(caller, false, packet);
                let answer = answer.and_then(|(answer, _)| pool.copy_of(0, &answer));
                if let Some(answer) = answer {
                    direct.answers.push(from, answer);
                }
            }
        }
        direct.socket.send_batch(&mut direct.answers);
        // A packet that the kernel does not take now is lost.
        direct.answers.clear();
    }

    /// Returns the answer to a packet, and the answer's deadline.
    fn on_packet(
        &mut self,
        caller: Caller,
        recovered: bool,
        packet: &[u8],
    ) -> Option<(Vec<u8>, Duration)> {
        let now = self.clock.now();
        let Some(Probe::Call(codec, place, deadline)) = probe::parse(packet) else {
            self.answered.ignored += 1;
            return None;
        };
        let Some(heard) = self.ears.hear(now, caller, recovered, place) else {
            self.answered.ignored += 1;
            return None;
        };
        self.answered.packets += 1;
        if heard.is_new {
            match caller {
                Caller::Direct(from) => {
                    self.answered.direct_calls += 1;
                    self.progress.step(&format!("a direct call from {from}"));
                }
                Caller::Overlay(from) => {
                    self.answered.overlay_calls += 1;
                    self.progress.step(&format!("a call from {from}"));
                }
            }
        }
        Some((probe::emit_answer(codec, place, heard.latest), deadline))
    }
}

/// The packets that were heard, call by call.
#[derive(Debug, Default)]
struct Ears {
    calls: BTreeMap<(Caller, u32), Heard>,
}

#[derive(Debug)]
struct Heard {
    last: Time,
    /// The latest packet first.
    latest: Vec<Hearing>,
}

struct Recall<'a> {
    is_new: bool,
    latest: &'a [Hearing],
}

impl Ears {
    /// Records a packet. Returns `None` when too many calls are in progress.
    fn hear(
        &mut self,
        now: Time,
        caller: Caller,
        recovered: bool,
        place: Place,
    ) -> Option<Recall<'_>> {
        let key = (caller, place.source);
        let is_new = !self.calls.contains_key(&key);
        if is_new && self.calls.len() >= CALLERS_MAX {
            return None;
        }
        let heard = self.calls.entry(key).or_insert(Heard {
            last: now,
            latest: Vec::new(),
        });
        heard.last = now;
        heard.latest.truncate(HEARINGS - 1);
        let hearing = Hearing {
            index: place.index,
            at_us: now.as_micros() as u32 & !1,
            recovered,
        };
        heard.latest.insert(0, hearing);
        Some(Recall {
            is_new,
            latest: &heard.latest,
        })
    }

    fn forget(&mut self, now: Time) {
        self.calls
            .retain(|_, heard| now.since(heard.last) < CALL_IDLE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Codec;

    fn caller(port: u16) -> Caller {
        Caller::Direct(SocketAddr::from(([127, 0, 0, 1], port)))
    }

    #[test]
    fn the_latest_hearings_come_first_and_the_oldest_are_forgotten() {
        let mut ears = Ears::default();
        let packets = HEARINGS as u32 + 5;
        for index in 0..packets {
            let now = Time::from_nanos(u64::from(index) * 20_000_000);
            let recall = ears
                .hear(now, caller(1), false, Place { source: 7, index })
                .unwrap();
            assert_eq!(recall.is_new, index == 0);
            assert_eq!(
                recall.latest[0],
                Hearing {
                    index,
                    at_us: index * 20_000,
                    recovered: false,
                }
            );
            assert_eq!(recall.latest.len(), HEARINGS.min(index as usize + 1));
        }
        let place = Place {
            source: 8,
            index: 0,
        };
        assert!(
            ears.hear(Time::ZERO, caller(1), false, place)
                .unwrap()
                .is_new,
            "another call"
        );
        assert!(
            ears.hear(Time::ZERO, caller(2), false, place)
                .unwrap()
                .is_new,
            "another caller"
        );
    }

    #[test]
    fn a_direct_call_is_answered_from_the_address_that_was_called() {
        let mut direct = Direct::open(SocketAddr::from(([0, 0, 0, 0], 0))).unwrap();
        let port = direct.socket.local_addr().unwrap().port();
        let phone = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        // The kernel would not choose this address by itself for an answer.
        phone.connect(("127.0.0.18", port)).unwrap();
        let place = Place {
            source: 3,
            index: 9,
        };
        let packet = probe::emit_call(Codec::Opus, place, DEADLINE);
        phone.send(&packet).unwrap();
        Answerer::new(Progress::Silent).on_direct(&mut direct);
        let mut answer = [0; 2 * PACKET_BYTES];
        phone.set_nonblocking(true).unwrap();
        let len = phone.recv(&mut answer).unwrap();
        assert!(matches!(
            probe::parse(&answer[..len]),
            Some(Probe::Answer(Codec::Opus, answered, _)) if answered == place
        ));
    }

    #[test]
    fn calls_are_bounded_and_silent_ones_make_room() {
        let mut ears = Ears::default();
        let hear = |ears: &mut Ears, now, source| {
            ears.hear(now, caller(1), false, Place { source, index: 0 })
                .is_some()
        };
        for source in 0..CALLERS_MAX as u32 {
            assert!(hear(&mut ears, Time::ZERO, source));
        }
        assert!(!hear(&mut ears, Time::ZERO, u32::MAX));
        let later = Time::ZERO + CALL_IDLE;
        assert!(hear(&mut ears, later, 0), "one goes on");
        ears.forget(later);
        assert_eq!(ears.calls.len(), 1);
        assert!(hear(&mut ears, later, u32::MAX));
    }

    #[test]
    fn only_calls_are_answered_and_not_answers() {
        let mut answerer = Answerer::new(Progress::Silent);
        let place = Place {
            source: 3,
            index: 9,
        };
        let told = Duration::from_millis(80);
        let packet = probe::emit_call(Codec::Opus, place, told);
        let (answer, deadline) = answerer.on_packet(caller(1), true, &packet).unwrap();
        assert_eq!(deadline, told);
        let Some(Probe::Answer(Codec::Opus, answered, heard)) = probe::parse(&answer) else {
            panic!()
        };
        assert_eq!((answered, heard.len(), heard[0].index), (place, 1, 9));
        assert!(heard[0].recovered);
        assert!(
            answerer.on_packet(caller(1), false, &answer).is_none(),
            "two would talk for ever"
        );
        assert!(answerer.on_packet(caller(1), false, b"hello").is_none());
        let counts = Answered {
            direct_calls: 1,
            packets: 1,
            ignored: 2,
            ..Answered::default()
        };
        assert_eq!(answerer.answered, counts);
    }
}
