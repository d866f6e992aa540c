//! One SOCKS client: its requests and how they are served.

use super::message::{self, Command, Method, SAID_BYTES_MAX};
use super::{EXIT_TIMEOUT, NEGOTIATION_TIMEOUT, Refusal, SUFFIX, Shared, Turned, count, udp};
use crate::forward::Event;
use crate::pump::carry;
use crate::slots::Slot;
use base::NodeAddr;
use client::{Stream, Target};
use core::time::Duration;
use net::places::Origin;
use net::tcp;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Instant;
use wire::exit::{ANSWER_BYTES, ASK_BYTES_MAX, Address, Code, Host, STREAM_PORT, parse_answer};

/// How long a client that was refused may take to read the answer.
const LAST_WORDS: Duration = Duration::from_secs(2);

pub(super) struct Session<'a> {
    shared: &'a Shared,
    /// The connection; none after it is passed to the pump.
    tcp: Option<TcpStream>,
    from: SocketAddr,
    until: Instant,
    /// Bytes that were received and are not parsed yet.
    said: Vec<u8>,
    asked: Option<String>,
}

/// The path to a target.
pub(super) enum Way {
    /// The target is at a node of the overlay.
    Node(Target),
    /// The target is outside the overlay, and reached through this exit.
    Exit(NodeAddr),
}

impl Shared {
    /// Returns the path to a host and port.
    pub(super) fn way(&self, to: &Address<'_>) -> Result<Way, Refusal> {
        let settings = &self.settings;
        match settings.nodes.node(&to.host) {
            Some(node) => Ok(Way::Node(Target::new(node, to.port))),
            None if is_overlay_name(&to.host) => Err(Refusal::NoNode),
            None => settings.exit.map(Way::Exit).ok_or(Refusal::NoExit),
        }
    }
}

/// Returns whether a name can only be that of a node.
fn is_overlay_name(host: &Host<'_>) -> bool {
    let Host::Name(name) = host else {
        return false;
    };
    let name = name.strip_suffix('.').unwrap_or(name);
    let split = name.len().checked_sub(SUFFIX.len());
    split
        .and_then(|at| name.get(at..))
        .is_some_and(|end| end.eq_ignore_ascii_case(SUFFIX))
}

impl<'a> Session<'a> {
    pub(super) fn new(shared: &'a Shared, tcp: TcpStream, from: SocketAddr) -> Session<'a> {
        Session {
            shared,
            tcp: Some(tcp),
            from,
            until: Instant::now() + shared.settings.patience,
            said: Vec::new(),
            asked: None,
        }
    }

    /// Returns what the client has requested, for people.
    pub(super) fn asked(&self) -> String {
        self.asked.clone().unwrap_or_else(|| "?".to_owned())
    }

    /// Serves the client to its end. Until it has sent its request, another connection may get its place.
    pub(super) fn run(&mut self, place: &Slot<Origin>) -> Result<(), Turned> {
        self.greet()?;
        let (command, text, bytes) = self.hear(|said| {
            Ok(message::request(said)?.map(|((command, to), used)| {
                // The address in the form for an exit.
                let mut ask = [0; ASK_BYTES_MAX];
                let len = to.emit_ask(&mut ask).unwrap_or(0);
                ((command, to.to_string(), ask[..len].to_vec()), used)
            }))
        })?;
        self.asked = Some(text);
        if !place.stays() {
            return Err(Turned::Late);
        }
        let Ok((to, _)) = Address::parse_ask(&bytes) else {
            return Err(Turned::Refused(Refusal::Code(Code::AddressType)));
        };
        let done = match command {
            Command::Connect => self.connect(&to, &bytes),
            Command::UdpAssociate => self.associate(),
            Command::Bind => Err(Refusal::Code(Code::NotSupported)),
        };
        done.map_err(|refusal| {
            self.answer(refusal.code(), None);
            self.say_goodbye();
            Turned::Refused(refusal)
        })
    }

    fn greet(&mut self) -> Result<(), Turned> {
        let wanted = match &self.shared.settings.user {
            Some(_) => Method::User,
            None => Method::None,
        };
        let offered = self.hear(|said| {
            let read = message::greeting(said)?;
            Ok(read.map(|(methods, used)| (methods.contains(&wanted.to_byte()), used)))
        })?;
        self.say(&message::chosen(offered.then_some(wanted)))?;
        if !offered {
            self.say_goodbye();
            return Err(Turned::User);
        }
        let Some((name, word)) = &self.shared.settings.user else {
            return Ok(());
        };
        let good = self.hear(|said| {
            let read = message::user(said)?;
            Ok(read.map(|((n, w), used)| (same(n, name) & same(w, word), used)))
        })?;
        self.say(&message::verdict(good))?;
        if !good {
            self.say_goodbye();
            return Err(Turned::User);
        }
        Ok(())
    }

    fn connect(&mut self, to: &Address<'_>, ask: &[u8]) -> Result<(), Refusal> {
        let settings = &self.shared.settings;
        let stream = match self.shared.way(to)? {
            Way::Node(target) => settings.node.connect(target, settings.streams)?,
            Way::Exit(exit) => {
                let exit = Target::new(exit, STREAM_PORT);
                // The exit answers by itself, so the request goes together with the opening of the stream.
                let options = client::Options {
                    early: true,
                    ..settings.streams
                };
                let stream = settings.node.connect(exit, options)?;
                match ask_exit(&stream, ask).map_err(Refusal::Exit)? {
                    Code::Granted => stream,
                    code => return Err(Refusal::Code(code)),
                }
            }
        };
        // From now on, an end of the stream comes from the target.
        let guarded = self.tcp.as_ref().map(|tcp| tcp::abort_on_close(tcp, true));
        guarded.transpose().map_err(Refusal::Exit)?;
        self.answer(Code::Granted, None);
        let Some(tcp) = self.tcp.take() else {
            return Ok(());
        };
        // Bytes that the client has sent without waiting for the answer.
        let early = (&stream).write_all(&self.said);
        // A connection may be silent for any time.
        let unlimited = tcp.set_read_timeout(None).and(tcp.set_write_timeout(None));
        if let Err(error) = early.and(unlimited) {
            tcp::abort(&tcp);
            stream.reset();
            return Err(Refusal::Exit(error));
        }
        count(&self.shared.counters.streams);
        let (from, to) = (self.from.to_string(), self.asked());
        (self.shared.report)(&Event::Opened {
            from: from.clone(),
            to: to.clone(),
        });
        let (carried, ended) = carry(tcp, stream);
        (self.shared.report)(&match ended {
            Ok(()) => Event::Closed { from, to, carried },
            Err(error) => Event::Failed {
                from,
                to,
                why: error.to_string(),
            },
        });
        Ok(())
    }

    fn associate(&mut self) -> Result<(), Refusal> {
        let Some(tcp) = self.tcp.take() else {
            return Ok(());
        };
        let association = match udp::Association::open(self.shared, &tcp, self.from) {
            Ok(association) => association,
            Err(refusal) => {
                self.tcp = Some(tcp);
                return Err(refusal);
            }
        };
        let local = association.local();
        self.tcp = Some(tcp);
        self.answer(Code::Granted, Some(local));
        if let Some(tcp) = self.tcp.take() {
            count(&self.shared.counters.associations);
            association.carry(&tcp);
        }
        Ok(())
    }

    /// Reads until `parse` returns a value.
    fn hear<T>(
        &mut self,
        parse: impl Fn(&[u8]) -> Result<Option<(T, usize)>, Turned>,
    ) -> Result<T, Turned> {
        loop {
            if let Some((heard, used)) = parse(&self.said)? {
                self.said.drain(..used);
                return Ok(heard);
            }
            let Some(mut tcp) = self.tcp.as_ref() else {
                return Err(Turned::Late);
            };
            let left = self.until.saturating_duration_since(Instant::now());
            if left.is_zero() || tcp.set_read_timeout(Some(left)).is_err() {
                return Err(Turned::Late);
            }
            let mut buffer = [0; SAID_BYTES_MAX];
            match tcp.read(&mut buffer) {
                Ok(0) => return Err(Turned::Late),
                // No valid message is longer than this buffer.
                Ok(len) => self.said.extend_from_slice(&buffer[..len]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(Turned::Late),
            }
        }
    }

    fn say(&self, bytes: &[u8]) -> Result<(), Turned> {
        let Some(mut tcp) = self.tcp.as_ref() else {
            return Ok(());
        };
        let told = tcp
            .set_write_timeout(Some(NEGOTIATION_TIMEOUT))
            .and_then(|()| tcp.write_all(bytes));
        told.map_err(|_| Turned::Late)
    }

    /// Answers a request. If the client has gone, this is noticed later.
    fn answer(&self, code: Code, bound: Option<SocketAddr>) {
        let bound = bound.unwrap_or(SocketAddr::from(([0, 0, 0, 0], 0)));
        let (bytes, len) = message::reply(code, &Address::from(bound));
        let _ = self.say(&bytes[..len]);
    }

    /// Lets the client read the answer: closing with unread bytes would discard it.
    fn say_goodbye(&self) {
        let Some(mut tcp) = self.tcp.as_ref() else {
            return;
        };
        let quiet = tcp
            .shutdown(Shutdown::Write)
            .and_then(|()| tcp.set_read_timeout(Some(LAST_WORDS)));
        let until = Instant::now() + LAST_WORDS;
        let mut rest = [0; 1_024];
        while quiet.is_ok() && Instant::now() < until {
            match tcp.read(&mut rest) {
                Ok(len) if len > 0 => {}
                _ => return,
            }
        }
    }
}

/// Requests a connection from an exit, and waits for its answer.
fn ask_exit(mut stream: &Stream, ask: &[u8]) -> io::Result<Code> {
    stream.write_all(ask)?;
    stream.set_read_timeout(Some(EXIT_TIMEOUT))?;
    let mut answer = [0; ANSWER_BYTES];
    stream
        .read_exact(&mut answer)
        .map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => io::Error::other("it has closed without an answer"),
            ErrorKind::WouldBlock => ErrorKind::TimedOut.into(),
            _ => error,
        })?;
    stream.set_read_timeout(None)?;
    parse_answer(answer).map_err(io::Error::other)
}

/// Compares in a time that does not reveal where the two differ.
fn same(given: &[u8], wanted: &str) -> bool {
    let wanted = wanted.as_bytes();
    let differ = given
        .iter()
        .zip(wanted)
        .fold(0, |differ, (a, b)| differ | (a ^ b));
    differ == 0 && given.len() == wanted.len()
}
