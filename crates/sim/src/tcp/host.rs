//! The engine of a TCP host: connections, datagram flows, a relay between connections, a router.
//!
//! ```text
//!   a datagram ─ for another host? ─▶ routed on, as it is
//!              ─ a segment?        ─▶ Receiver ─▶ acknowledgement; data to the application or a relay
//!              ─ an acknowledgement? ▶ Sender ─▶ segments; room for the relay behind it
//!   a timeout  ─▶ whoever's time has come: applications, retransmission timers, waiting
//!                 acknowledgements, slow readers
//! ```

use super::packet::{self, Ack, Packet, Segment};
use super::partial::Partial;
use super::receiver::{Delivery, Received, Receiver};
use super::sender::{Sender, Sent};
use super::traffic::{Application, Write};
use base::{Burst, Duration, Engine, Input, Map, Outbox, Time, UnderlayAddr};
use core::cmp::Reverse;
use core::convert::Infallible;
use std::collections::BinaryHeap;

/// A host with any number of flows. [`super::Network`] creates such hosts.
#[derive(Default)]
pub struct TcpHost {
    me: u32,
    /// The next hop to each host, by its number.
    routes: Vec<Option<UnderlayAddr>>,
    outgoing: Vec<Outgoing>,
    incoming: Vec<Incoming>,
    /// The positions of each flow's sender and receiver in the two lists.
    senders: Map<u32, u32>,
    receivers: Map<u32, u32>,
    timers: BinaryHeap<Reverse<(Time, Place)>>,
    no_route: u64,
    no_buffer: u64,
}

/// An item that has a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Outgoing(u32),
    Incoming(u32),
}

/// A flow that starts at this host.
pub(super) struct Outgoing {
    pub(super) kind: Kind,
    /// `None` on a relay.
    pub(super) application: Option<Application>,
    /// The receiver that a relay reads from.
    pub(super) upstream: Option<u32>,
    pub(super) queued: Time,
}

pub(super) enum Kind {
    Connection(Box<Sender>),
    Partial(Box<Partial>),
    Datagrams(Datagrams),
}

/// A flow without a connection.
pub(super) struct Datagrams {
    pub(super) to: u32,
    pub(super) flow: u32,
    /// Header bytes on the wire for each message.
    pub(super) header_bytes: usize,
    pub(super) counts: Sent,
}

/// A flow that ends at this host.
pub(super) struct Incoming {
    pub(super) receiver: Receiver,
    /// The flow to which a relay forwards the data.
    pub(super) downstream: Option<u32>,
    /// The time that a slow reader takes for one segment.
    pub(super) pace: Option<Duration>,
    /// When a slow reader takes the next segment.
    pub(super) reads_at: Option<Time>,
    pub(super) queued: Time,
}

impl TcpHost {
    pub(super) fn new(me: u32, routes: Vec<Option<UnderlayAddr>>) -> TcpHost {
        TcpHost {
            me,
            routes,
            ..TcpHost::default()
        }
    }

    pub(super) fn add_outgoing(&mut self, flow: u32, outgoing: Outgoing) {
        self.senders.insert(flow, self.outgoing.len() as u32);
        self.outgoing.push(outgoing);
    }

    pub(super) fn add_incoming(&mut self, flow: u32, incoming: Incoming) {
        self.receivers.insert(flow, self.incoming.len() as u32);
        self.incoming.push(incoming);
    }

    /// Makes this host a relay: data that arrives on `upstream` is sent on with `onward`.
    pub(super) fn join(&mut self, upstream: u32, onward: u32) {
        if let (Some(&from), Some(&to)) = (self.receivers.get(&upstream), self.senders.get(&onward))
        {
            self.outgoing[to as usize].upstream = Some(from);
        }
    }

    /// Returns the counters of the flow's sender, if the flow starts here.
    pub fn sent(&self, flow: u32) -> Option<Sent> {
        let place = *self.senders.get(&flow)?;
        Some(match &self.outgoing[place as usize].kind {
            Kind::Connection(sender) => sender.counts,
            Kind::Partial(sender) => sender.counts,
            Kind::Datagrams(datagrams) => datagrams.counts,
        })
    }

    /// Returns the congestion window of the flow's sender, in segments, if a connection starts here.
    pub fn window(&self, flow: u32) -> Option<f64> {
        let place = *self.senders.get(&flow)?;
        match &self.outgoing[place as usize].kind {
            Kind::Connection(sender) => Some(sender.control.window()),
            Kind::Partial(sender) => Some(sender.control.window()),
            Kind::Datagrams(_) => None,
        }
    }

    /// Returns the counters of the flow's receiver, if the flow ends here.
    pub fn received(&self, flow: u32) -> Option<Received> {
        Some(self.receiver(flow)?.counts)
    }

    /// Returns the messages that the flow delivered here, in order.
    pub fn deliveries(&self, flow: u32) -> &[Delivery] {
        self.receiver(flow).map_or(&[], Receiver::deliveries)
    }

    /// Returns the number of packets dropped because no route leads to their host, and of those dropped because all
    /// buffers were in use.
    pub fn drops(&self) -> (u64, u64) {
        (self.no_route, self.no_buffer)
    }

    fn receiver(&self, flow: u32) -> Option<&Receiver> {
        let place = *self.receivers.get(&flow)?;
        Some(&self.incoming[place as usize].receiver)
    }

    fn on_packet(&mut self, now: Time, burst: Burst, out: &mut impl Outbox<TcpHost>) {
        let bytes = burst.bytes();
        match packet::destination(bytes) {
            Some(to) if to != self.me => return self.route(to, burst, out),
            _ => {}
        }
        match packet::parse(bytes) {
            Some(Packet::Segment(segment)) => self.on_segment(now, &segment, bytes.len(), out),
            Some(Packet::Ack(ack)) => self.on_ack(now, &ack, out),
            None => {}
        }
    }

    fn route(&mut self, to: u32, burst: Burst, out: &mut impl Outbox<TcpHost>) {
        match self.routes.get(to as usize).copied().flatten() {
            Some(next) => out.send(next, burst),
            None => self.no_route += 1,
        }
    }

    fn on_segment(
        &mut self,
        now: Time,
        segment: &Segment,
        bytes: usize,
        out: &mut impl Outbox<TcpHost>,
    ) {
        let Some(&place) = self.receivers.get(&segment.flow) else {
            return;
        };
        let incoming = &mut self.incoming[place as usize];
        if segment.is_partial() {
            let ack = incoming.receiver.on_partial(now, segment, bytes);
            return self.acknowledge(Some(ack), out);
        }
        if segment.datagram {
            return incoming.receiver.on_datagram(now, segment);
        }
        let ack = incoming.receiver.on_segment(now, segment, bytes);
        // A relay takes the new data before the acknowledgement is sent, so that its window is that of a socket from
        // which the program reads. If the window were that before the read, the acknowledgement of a copy, which nobody
        // reads, would have more room than the one before. The sender would take it for an update of the window.
        self.read(now, place, out);
        let ack = ack.map(|ack| self.incoming[place as usize].receiver.with_room(ack));
        self.acknowledge(ack, out);
        self.arm(Place::Incoming(place));
    }

    fn on_ack(&mut self, now: Time, ack: &Ack, out: &mut impl Outbox<TcpHost>) {
        let Some(&place) = self.senders.get(&ack.flow) else {
            return;
        };
        match &mut self.outgoing[place as usize].kind {
            Kind::Connection(sender) => sender.on_ack(now, ack),
            Kind::Partial(sender) => sender.on_ack(now, ack),
            Kind::Datagrams(_) => {}
        }
        self.sent_something(now, place, out);
    }

    /// Follows up after a sender has acted: sends its segments, and lets the relay before it continue.
    fn sent_something(&mut self, now: Time, place: u32, out: &mut impl Outbox<TcpHost>) {
        self.flush_sender(place, out);
        if let Some(upstream) = self.outgoing[place as usize].upstream
            && self.incoming[upstream as usize].pace.is_none()
        {
            self.read(now, upstream, out);
            self.update(upstream, out);
        }
        self.arm(Place::Outgoing(place));
    }

    /// Lets a relay, or a reader with a pace of its own, take the data that it can take.
    fn read(&mut self, now: Time, place: u32, out: &mut impl Outbox<TcpHost>) {
        let incoming = &mut self.incoming[place as usize];
        let mut quota = match (incoming.pace, incoming.reads_at) {
            (None, _) => u32::MAX,
            (Some(pace), at) => {
                let due = at.is_some_and(|at| at <= now);
                if due || at.is_none() {
                    incoming.reads_at = incoming.receiver.is_ready().then(|| now + pace);
                }
                u32::from(due)
            }
        };
        let downstream = incoming
            .downstream
            .and_then(|flow| self.senders.get(&flow).copied());
        while quota > 0 && self.incoming[place as usize].receiver.is_ready() {
            let target = downstream.map(|at| &mut self.outgoing[at as usize].kind);
            let receiver = &mut self.incoming[place as usize].receiver;
            match target {
                Some(Kind::Connection(sender)) => {
                    if sender.room() < 1 {
                        break;
                    }
                    if let Some(data) = receiver.read() {
                        receiver.counts.delivered += 1;
                        sender.hand_on(now, data);
                    }
                }
                _ => {
                    if let Some(data) = receiver.read() {
                        receiver.deliver(now, data);
                    }
                }
            }
            quota -= 1;
        }
        let incoming = &mut self.incoming[place as usize];
        if let Some(pace) = incoming.pace {
            let ready = incoming.receiver.is_ready();
            let next = incoming
                .reads_at
                .filter(|at| *at > now)
                .unwrap_or(now + pace);
            incoming.reads_at = ready.then_some(next);
        }
        if let Some(at) = downstream {
            self.flush_sender(at, out);
            self.arm(Place::Outgoing(at));
        }
    }

    /// Tells the sender that sends to a relay or slow reader that there is room again.
    fn update(&mut self, place: u32, out: &mut impl Outbox<TcpHost>) {
        let ack = self.incoming[place as usize].receiver.update();
        self.acknowledge(ack, out);
    }

    fn on_timeout(&mut self, now: Time, out: &mut impl Outbox<TcpHost>) {
        while let Some(&Reverse((at, place))) = self.timers.peek() {
            if at > now {
                break;
            }
            self.timers.pop();
            if *self.queued(place) != at {
                // An earlier timer replaced this one.
                continue;
            }
            *self.queued(place) = Time::FAR;
            match place {
                Place::Outgoing(at) => self.outgoing_due(now, at, out),
                Place::Incoming(at) => self.incoming_due(now, at, out),
            }
            self.arm(place);
        }
    }

    fn outgoing_due(&mut self, now: Time, place: u32, out: &mut impl Outbox<TcpHost>) {
        let outgoing = &mut self.outgoing[place as usize];
        match &mut outgoing.kind {
            Kind::Connection(sender) if sender.timer.is_some_and(|at| at <= now) => {
                sender.on_timer(now);
            }
            Kind::Partial(sender) if sender.timer.is_some_and(|at| at <= now) => {
                sender.on_timer(now);
            }
            _ => {}
        }
        if let Kind::Connection(sender) = &mut outgoing.kind
            && sender.paced.is_some_and(|at| at <= now)
        {
            sender.on_pace(now);
        }
        while let Some(application) = &mut outgoing.application
            && application.next().is_some_and(|at| at <= now)
        {
            let write = application.write();
            match (&mut outgoing.kind, write) {
                (Kind::Connection(sender), Write::File) => sender.open_file(now),
                (Kind::Connection(sender), Write::EndOfFile) => sender.end_file(),
                (Kind::Connection(sender), Write::Message(bytes)) => {
                    let segments = bytes.div_ceil(sender.settings.payload_bytes()).max(1);
                    sender.write_message(now, segments as u32);
                }
                (Kind::Datagrams(datagrams), Write::Message(bytes)) => {
                    let segment = datagrams.next(now);
                    let size = bytes + datagrams.header_bytes;
                    let (routes, missed) = (&self.routes, &mut self.no_buffer);
                    match (
                        segment.emit(size, out.pool()),
                        routes.get(segment.to as usize),
                    ) {
                        (Some(burst), Some(Some(next))) => out.send(*next, burst),
                        (None, _) => *missed += 1,
                        _ => self.no_route += 1,
                    }
                }
                (Kind::Partial(sender), Write::Message(bytes)) => sender.write(now, bytes),
                (Kind::Datagrams(_) | Kind::Partial(_), _) => {}
            }
        }
        self.sent_something(now, place, out);
    }

    fn incoming_due(&mut self, now: Time, place: u32, out: &mut impl Outbox<TcpHost>) {
        let incoming = &mut self.incoming[place as usize];
        if incoming.receiver.timer.is_some_and(|at| at <= now) {
            let ack = incoming.receiver.on_timer();
            self.acknowledge(Some(ack), out);
        }
        if self.incoming[place as usize]
            .reads_at
            .is_some_and(|at| at <= now)
        {
            self.read(now, place, out);
            self.update(place, out);
        }
    }

    fn flush_sender(&mut self, place: u32, out: &mut impl Outbox<TcpHost>) {
        let sender = match &mut self.outgoing[place as usize].kind {
            Kind::Connection(sender) => sender,
            Kind::Partial(_) => return self.flush_partial(place, out),
            Kind::Datagrams(_) => return,
        };
        let Some(next) = self.routes.get(sender.to as usize).copied().flatten() else {
            self.no_route += sender.out.len() as u64;
            return sender.out.clear();
        };
        for segment in sender.out.drain(..) {
            match segment.emit(sender.settings.segment_bytes, out.pool()) {
                Some(burst) => out.send(next, burst),
                None => self.no_buffer += 1,
            }
        }
    }

    fn flush_partial(&mut self, place: u32, out: &mut impl Outbox<TcpHost>) {
        let Kind::Partial(sender) = &mut self.outgoing[place as usize].kind else {
            return;
        };
        let next = self.routes.get(sender.to() as usize).copied().flatten();
        for (bytes, segment) in sender.out.drain(..) {
            match (next, segment.emit(bytes, out.pool())) {
                (Some(next), Some(burst)) => out.send(next, burst),
                (None, _) => self.no_route += 1,
                (_, None) => self.no_buffer += 1,
            }
        }
    }

    fn acknowledge(&mut self, ack: Option<Ack>, out: &mut impl Outbox<TcpHost>) {
        let Some(ack) = ack else { return };
        match ack.emit(out.pool()) {
            Some(burst) => self.route(ack.to, burst, out),
            None => self.no_buffer += 1,
        }
    }

    fn queued(&mut self, place: Place) -> &mut Time {
        match place {
            Place::Outgoing(at) => &mut self.outgoing[at as usize].queued,
            Place::Incoming(at) => &mut self.incoming[at as usize].queued,
        }
    }

    /// Queues the next timeout of an item, unless an earlier or equal one is queued. A retransmission timer moves with
    /// each acknowledgement; the host looks at it again at the time for which it was first queued.
    fn arm(&mut self, place: Place) {
        let due = match place {
            Place::Outgoing(at) => self.outgoing[at as usize].due(),
            Place::Incoming(at) => self.incoming[at as usize].due(),
        };
        let queued = self.queued(place);
        if let Some(due) = due
            && due < *queued
        {
            *queued = due;
            self.timers.push(Reverse((due, place)));
        }
    }
}

impl Outgoing {
    fn due(&self) -> Option<Time> {
        let timer = match &self.kind {
            Kind::Connection(sender) => sender.timer.into_iter().chain(sender.paced).min(),
            Kind::Partial(sender) => sender.timer,
            Kind::Datagrams(_) => None,
        };
        let write = self.application.as_ref().and_then(Application::next);
        timer.into_iter().chain(write).min()
    }
}

impl Incoming {
    fn due(&self) -> Option<Time> {
        self.receiver.timer.into_iter().chain(self.reads_at).min()
    }
}

impl Datagrams {
    fn next(&mut self, now: Time) -> Segment {
        let number = self.counts.segments as u32;
        self.counts.segments += 1;
        self.counts.written += 1;
        Segment {
            to: self.to,
            flow: self.flow,
            seq: i64::from(number),
            stamp: now,
            written: now,
            number,
            wave: 0,
            last: true,
            datagram: true,
        }
    }
}

impl Engine for TcpHost {
    type Request = Infallible;
    type Reply = Infallible;
    type Event = Infallible;

    fn handle(&mut self, now: Time, input: Input<Infallible>, out: &mut impl Outbox<TcpHost>) {
        match input {
            Input::Datagrams { mut burst, .. } => {
                while burst.segments() > 1 {
                    let first = burst.split_front(1);
                    self.on_packet(now, first, out);
                }
                self.on_packet(now, burst, out);
            }
            Input::Request { request, .. } => match request {},
            Input::TooLong { .. } => {}
            Input::Timeout => {
                if self.timers.is_empty() {
                    for place in 0..self.outgoing.len() {
                        self.arm(Place::Outgoing(place as u32));
                    }
                }
                self.on_timeout(now, out);
            }
        }
    }

    fn flush(&mut self, _now: Time, _out: &mut impl Outbox<TcpHost>) {}

    fn next_timeout(&self) -> Option<(Time, &'static str)> {
        let Reverse((at, place)) = self.timers.peek()?;
        let whose = match place {
            Place::Outgoing(_) => "sender",
            Place::Incoming(_) => "receiver",
        };
        Some((*at, whose))
    }
}
