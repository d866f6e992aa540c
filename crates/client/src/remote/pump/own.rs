//! A client's end of a way: its own socket, and the decisions on its use.

use super::Turn;
use super::carry::FRAMES_PER_TURN;
use crate::remote::report::ReportCell;
use crate::remote::way::{
    Act, Attempt, Choice, Keys, Length, Losses, Seals, as_message, as_sealed, fits, padding,
};
use base::Time;
use core::time::Duration;
use net::clock::Clock;
use net::udp::{is_too_long, whole};
use net::unix::SeqStream;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use wire::ipc::Reply;
use wire::link::SessionIndex;
use wire::remote::Frame;
use wire::remote::way::{DATAGRAM_BYTES_MAX, Echo, Sealed, Trial};

/// Longer than any datagram of a way: what is truncated to it is too long to be one.
const ROOM_BYTES: usize = DATAGRAM_BYTES_MAX + 1;
/// Number of probes whose position among the datagrams is remembered: as many as may be answered.
const MARKS_MAX: usize = 32;

/// A client's end of a way.
pub(super) struct ClientWay {
    socket: UdpSocket,
    gate: SocketAddr,
    clock: Clock,
    seals: Seals,
    choice: Choice,
    length: Length,
    /// The gate was asked for new keys.
    is_asked: bool,
    /// For each probe, by its number: the index of the keys, and how many datagrams had been encrypted with them.
    marks: VecDeque<(u32, SessionIndex, u64)>,
    /// The losses towards the gate, and from the gate.
    losses: [Losses; 2],
    /// The last report: whether the way is up, and its longest datagram.
    told: (bool, usize),
    report: Arc<ReportCell>,
}

impl ClientWay {
    pub(super) fn new(
        gate: SocketAddr,
        index: SessionIndex,
        keys: &Keys,
        report: Arc<ReportCell>,
    ) -> io::Result<ClientWay> {
        let any: SocketAddr = match gate {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(any)?;
        socket.set_nonblocking(true)?;
        whole(&socket, gate.is_ipv6())?;
        let clock = Clock::new();
        let now = clock.now();
        Ok(ClientWay {
            socket,
            gate,
            clock,
            seals: Seals::new(index, true, keys, now),
            choice: Choice::new(now),
            length: Length::default(),
            is_asked: false,
            marks: VecDeque::with_capacity(MARKS_MAX),
            losses: Default::default(),
            told: (false, 0),
            report,
        })
    }

    pub(super) fn send(&mut self, message: &[u8], count: u64, is_raw: bool) -> bool {
        let Some(sealed) = as_sealed(message, is_raw, true) else {
            return false;
        };
        let now = self.clock.now();
        let goes = self.choice.is_up()
            && fits(message.len(), self.length.longest(now))
            && self.put(&sealed, now);
        let mut report = self.report.report();
        match goes {
            true => {
                report.sent += count;
                self.choice.on_carried();
            }
            false => report.sent_by_tls += count,
        }
        goes
    }

    /// Returns the length of the longest datagram that may be sent now; `None` while all go by TLS.
    pub(super) fn longest(&self) -> Option<usize> {
        let is_up = self.choice.is_up();
        is_up.then(|| self.length.longest(self.clock.now()))
    }

    /// Notes a message that has arrived by TLS, or is about to be sent. `len` is its length before it is split.
    pub(super) fn on_whole(&mut self, len: usize) {
        self.length.on_carried(self.clock.now(), len);
    }

    /// Notes that the socket now carries bare payloads only.
    pub(super) fn set_raw(&mut self) {
        self.length.set_raw();
    }

    /// Notes whether the socket's options permit it.
    pub(super) fn want(&mut self, is_wanted: bool) {
        self.choice.want(self.clock.now(), is_wanted);
    }

    /// Notes that the gate has new keys.
    pub(super) fn renew(&mut self, index: SessionIndex, keys: &Keys) {
        self.is_asked = false;
        self.seals.renew(index, keys, self.clock.now());
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Returns how long nothing is due.
    pub(super) fn wait(&self) -> Duration {
        let now = self.clock.now();
        Duration::from_nanos(self.next_timeout(now).since(now).as_nanos())
    }

    /// Sends a datagram. Returns false if it was not sent.
    fn put(&mut self, sealed: &Sealed<'_>, now: Time) -> bool {
        let mut room = [0; ROOM_BYTES];
        let Ok(len) = self.seals.seal(sealed, now, &mut room) else {
            return false;
        };
        match self.socket.send_to(&room[..len], self.gate) {
            Ok(_) => true,
            Err(error) => {
                if is_too_long(&error) {
                    self.length.refuse(now, len);
                }
                false
            }
        }
    }

    fn next_timeout(&self, now: Time) -> Time {
        let choice = self.choice.next_timeout();
        let length = match self.tries(now) {
            true => self.length.next_timeout(now, self.choice.wait()),
            false => None,
        };
        length.map_or(choice, |length| length.min(choice))
    }

    /// Returns true if lengths are tried: a trial without an answer says something about its length only while probes
    /// have answers.
    fn tries(&self, now: Time) -> bool {
        self.choice.is_up() && !self.choice.is_doubtful(now)
    }

    /// Takes what has arrived for `control`.
    pub(super) fn take(&mut self, control: &SeqStream, is_raw: bool) -> Turn {
        let mut room = [0; ROOM_BYTES];
        for _ in 0..FRAMES_PER_TURN {
            // Any other error of the socket concerns one datagram; the next probe will show its consequences.
            let Ok((len, _)) = self.socket.recv_from(&mut room) else {
                return Turn::Idle;
            };
            let now = self.clock.now();
            let opened = self.seals.open(&mut room[..len], now);
            let Ok(Ok(sealed)) = opened.map(|opened| Sealed::parse(&room[opened.plaintext])) else {
                self.report.report().strange += 1;
                continue;
            };
            match sealed {
                Sealed::Answer(echo) => self.hear(&echo, now),
                Sealed::Tried(trial) => {
                    self.choice.on_heard(now);
                    self.length.on_tried(now, trial.number, len);
                }
                sealed => self.hand_over(&sealed, now, (control, is_raw)),
            }
        }
        Turn::More
    }

    fn hand_over(&mut self, sealed: &Sealed<'_>, now: Time, (control, is_raw): (&SeqStream, bool)) {
        let Some(message) = as_message(*sealed, is_raw, false) else {
            self.report.report().late += 1;
            return;
        };
        self.choice.on_heard(now);
        self.length.on_carried(now, message.len());
        let count = datagrams(message, is_raw);
        // If the program reads too slowly, datagrams for which there is no room are lost.
        let given = control.send_parts(&[IoSlice::new(message)]);
        let mut report = self.report.report();
        match given {
            Ok(()) => report.came += count,
            Err(_) => report.full += count,
        }
    }

    fn hear(&mut self, echo: &Echo, now: Time) {
        let was_up = self.choice.is_up();
        self.choice.on_answer(now, echo.number, echo.challenge);
        if self.choice.is_up() && !was_up {
            self.length.begin();
        }
        let current = self.seals.indices().next();
        let mark = self.marks.iter().find(|mark| mark.0 == echo.number);
        if let Some(&(_, index, sealed)) = mark
            && Some(index) == current
        {
            let came = self.seals.came();
            let [outward, inward] = &mut self.losses;
            outward.tell(u64::from(echo.came), sealed);
            inward.tell(came.count, came.of);
            let rtt = self.choice.rtt();
            let mut report = self.report.report();
            report.rtt = rtt.map(|rtt| Duration::from_nanos(rtt.as_nanos()));
            report.loss = (outward.share(), inward.share());
        }
    }

    /// Returns a frame that is due by the clock and has to be sent by TLS.
    pub(super) fn due(&mut self) -> Option<Frame<'static>> {
        let now = self.clock.now();
        if now >= self.next_timeout(now) {
            while let Some(act) = self.choice.poll(now) {
                match act {
                    Act::Leave => {
                        self.report.report().is_udp = false;
                        return Some(Frame::NoWay);
                    }
                    Act::Probe { number, challenge } => self.probe(number, challenge, now),
                }
            }
            if self.tries(now) {
                let (wait, too_many) = (self.choice.wait(), self.choice.too_many());
                while let Some(attempt) = self.length.poll(now, wait, too_many) {
                    self.attempt(&attempt, now);
                }
            }
            self.report.report().probes = self.choice.probes();
        }
        self.tell(now);
        if !self.is_asked && self.seals.wants_renewal(now) {
            self.is_asked = true;
            return Some(Frame::AskWay);
        }
        None
    }

    /// Updates the report if something has changed.
    fn tell(&mut self, now: Time) {
        let present = (self.choice.is_up(), self.length.longest(now));
        if present != self.told {
            self.told = present;
            let mut report = self.report.report();
            (report.is_udp, report.longest) = present;
        }
    }

    fn probe(&mut self, number: u32, challenge: u32, now: Time) {
        let rtt_us = self.choice.rtt().map_or(0, |rtt| rtt.as_micros());
        let probe = Sealed::Probe(Echo {
            number,
            challenge,
            came: self.seals.came().count as u32,
            rtt_us: u32::try_from(rtt_us).unwrap_or(u32::MAX),
        });
        // A probe that was not sent counts as one without an answer.
        self.put(&probe, now);
        if self.marks.len() >= MARKS_MAX {
            self.marks.pop_front();
        }
        let index = self.seals.indices().next();
        let sealed = self.seals.sealed();
        self.marks
            .extend(index.map(|index| (number, index, sealed)));
    }

    fn attempt(&mut self, attempt: &Attempt, now: Time) {
        let nothing = [0; DATAGRAM_BYTES_MAX];
        let len = padding(attempt.len).min(nothing.len());
        let trial = Trial {
            number: attempt.number,
            longest: attempt.says.longest as u16,
            flags: if attempt.says.is_raw { Trial::RAW } else { 0 },
            padding: &nothing[..len],
        };
        self.put(&Sealed::Trial(trial), now);
    }
}

/// Returns how many datagrams a message contains.
fn datagrams(message: &[u8], is_raw: bool) -> u64 {
    match (is_raw, Reply::parse(message)) {
        (false, Ok(Reply::Datagrams(datagrams))) => datagrams.iter().count() as u64,
        _ => 1,
    }
}
