//! The bridge's thread: it takes what is ready from the interface and from the node, and passes it to the other side.
//!
//! ```text
//!   interface ──frames──▶ Bridge ──packets, up to 64 in a message──▶ node
//!   interface ◀──frames, back to back── Bridge ◀──packets of a message── node
//!   every second: a look at the interface, and the counters for who asks
//! ```
//! While packets come fast, the thread lets them gather for a moment, as the media plane does: waking a thread and a
//! node for each packet costs more than carrying it.

mod rate;
mod watch;

use super::Shared;
use super::bridge::{self, Bridge};
use super::device::Device;
use super::drops::Drop;
use super::hello::{Rank, Role};
use super::members::{Change, Members};
use super::notice::Notice;
use super::overlay::{Link, Overlay};
use super::report::{Event, Report};
use base::{Duration, NodeAddr, Time};
use client::{Error, Told};
use net::epoll::{Interest, Poller, Ready};
use net::packet::Frame;
use net::sched::{self, Scheduling};
use rate::{GATHER, Rate};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use wire::ipc::ErrorCode;

/// Priority of the thread: the same as that of a node's loop, so that neither waits longer than a turn of the other.
const PRIORITY: u8 = 10;
/// Maximum number of frames from the interface per turn: they take about a millisecond.
const FRAMES_PER_TURN: usize = 256;
/// Maximum number of messages from the node per turn: each contains up to 64 packets.
const MESSAGES_PER_TURN: usize = 8;
/// Number of frames that are put onto the network together.
const TOGETHER: usize = net::packet::BATCH;
/// The time after which a join or leave that the node had no room for is sent again.
const JOIN_AGAIN: Duration = Duration::from_millis(10);
/// The node reports once a second that it takes no packets for a group. If it has not done so for this time, no host
/// sends to the group any more, or the sends are permitted again.
const NOT_SENT_HOLD: Duration = Duration::from_secs(5);
/// Maximum number of groups for which such reports are remembered.
const NOT_SENT_MAX: usize = 1_024;
/// The minimum time between events for the same refusal of the node.
const REFUSED_EVERY: Duration = Duration::from_secs(10);

const TOKEN_WAKE: u64 = 0;
const TOKEN_PORT: u64 = 1;
const TOKEN_NODE: u64 = 2;
/// The event that frames may wait at the interface.
const PORT_READY: Ready = Ready {
    token: TOKEN_PORT,
    readable: true,
    writable: false,
    closed: false,
    hung_up: false,
};

/// The thread with its state.
pub(super) struct Loop<O: Overlay> {
    shared: Arc<Shared<O>>,
    poller: Poller,
    device: Device,
    link: Option<O::Link>,
    bridge: Bridge,
    effects: Effects,
    next_look: Time,
    /// The time for the next joins and leaves, because the node had no room for one.
    next_join: Time,
    /// Whether the node reaches other nodes, as it last reported.
    reaches: Option<bool>,
    /// Groups whose packets the node does not take, each with the time of the node's last report.
    not_sent: BTreeMap<NodeAddr, Time>,
    /// The last refusal of the node, and its time.
    refused: Option<(String, Time)>,
    rate: Rate,
    /// Whether a turn has left work.
    has_more: bool,
    /// Number of frames with an unsupported offload that are already in the counters.
    unknown: u64,
}

/// Results of frames and packets that are not yet carried out.
struct Effects {
    frames: Vec<Vec<u8>>,
    members: Members,
    events: Vec<Event>,
}

impl bridge::Outlet for Effects {
    fn transmit(&mut self, frame: &[u8]) {
        self.frames.push(frame.to_vec());
    }

    fn member(&mut self, group: NodeAddr, is_wanted: bool) {
        self.members.want(group, is_wanted);
    }

    fn notice(&mut self, notice: Notice) {
        self.events.push(Event::Notice(notice));
    }

    fn role(&mut self, role: Role, forwarder: Option<Rank>) {
        self.events.push(Event::Role { role, forwarder });
    }
}

impl<O: Overlay> Loop<O> {
    pub(super) fn new(
        shared: Arc<Shared<O>>,
        device: Device,
        link: O::Link,
        settings: bridge::Settings,
    ) -> io::Result<Loop<O>> {
        let poller = Poller::new()?;
        poller.add(&shared.waker, TOKEN_WAKE, Interest::READ)?;
        poller.add(&link, TOKEN_NODE, Interest::READ)?;
        let now = shared.clock.now();
        let mut this = Loop {
            bridge: Bridge::new(settings, now),
            shared,
            poller,
            device,
            link: Some(link),
            effects: Effects {
                frames: Vec::new(),
                members: Members::new(now),
                events: Vec::new(),
            },
            next_look: now,
            next_join: now,
            reaches: None,
            not_sent: BTreeMap::new(),
            refused: None,
            rate: Rate::new(),
            has_more: false,
            unknown: 0,
        };
        // The first check is here, so that a problem is an error of the start.
        this.look(now)?;
        this.tell();
        Ok(this)
    }

    pub(super) fn run(mut self, realtime: bool) {
        if realtime && let refused @ Scheduling::Normal { .. } = sched::real_time(PRIORITY) {
            self.warn(refused.to_string());
        }
        let mut ready = Vec::new();
        while !self.shared.stop.load(Ordering::Acquire) {
            let now = self.shared.clock.now();
            let timeout = self.next_timeout(now).since(now);
            if let Err(error) = self.poller.wait(Some(timeout), &mut ready) {
                self.warn(format!("the bridge stops: {error}"));
                break;
            }
            self.turn(&ready);
            if let Some(span) = self.gather().filter(|span| !span.is_zero()) {
                thread::sleep(span);
            }
        }
        self.leave();
    }

    /// Announces to the network that the bridge ends.
    pub(super) fn leave(&mut self) {
        self.bridge.leave(&mut self.effects);
        self.follow();
        self.publish();
    }

    /// Returns the last published report.
    pub(super) fn report(&self) -> Report {
        self.shared.report().clone()
    }

    /// Does the pending work without waiting, for a caller that has no thread for the bridge. In this case only the
    /// interface can be ready, so no call to the kernel is needed to find what is ready.
    pub(super) fn step(&mut self, is_ready: bool) {
        self.inject(self.shared.clock.now());
        self.turn(if is_ready { &[PORT_READY] } else { &[] });
    }

    /// Returns how long the bridge can wait.
    pub(super) fn wait(&self) -> core::time::Duration {
        let now = self.shared.clock.now();
        core::time::Duration::from_nanos(self.next_timeout(now).since(now).as_nanos())
    }

    /// Returns how long packets gather at the moment; zero if more packets are already waiting, and `None` unless
    /// packets come fast.
    pub(super) fn gather(&self) -> Option<core::time::Duration> {
        let span = if self.has_more {
            core::time::Duration::ZERO
        } else {
            GATHER
        };
        self.rate.is_fast.then_some(span)
    }

    /// Returns a descriptor that is ready when one of the sources is.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.poller.as_fd()
    }

    fn next_timeout(&self, now: Time) -> Time {
        let members = match self.link {
            Some(_) => self.effects.members.next_timeout(now).max(self.next_join),
            None => Time::FAR,
        };
        self.bridge.next_timeout().min(self.next_look).min(members)
    }

    /// Handles what is ready.
    fn turn(&mut self, ready: &[Ready]) {
        let now = self.shared.clock.now();
        let (mut packets, mut more) = (0, false);
        for event in ready {
            match event.token {
                TOKEN_WAKE => self.on_wake(),
                TOKEN_PORT => {
                    let taken = self.capture(now);
                    packets += taken;
                    more |= taken >= FRAMES_PER_TURN;
                }
                _ => {
                    let (taken, all) = self.inject(now);
                    packets += taken;
                    more |= !all;
                }
            }
        }
        if now >= self.next_look {
            if let Err(error) = self.look(now) {
                self.warn(format!("{}: {error}", self.device.name()));
            }
            self.publish();
        }
        if now >= self.bridge.next_timeout() {
            self.bridge.on_timeout(now, &mut self.effects);
        }
        self.follow();
        self.rate.note(now, packets);
        self.has_more = more;
    }

    /// Carries frames from the network to the overlay. Returns the number of frames.
    fn capture(&mut self, now: Time) -> usize {
        let Loop {
            device,
            link,
            bridge,
            effects,
            ..
        } = self;
        let taken = device.receive(FRAMES_PER_TURN, |frame| {
            let Some((group, packet)) = bridge.on_frame(now, frame, effects) else {
                return;
            };
            let Some(link) = link else {
                return bridge.on_refused(Drop::Node, 1);
            };
            let fits = packet.len() <= link.max_packet();
            if fits && link.push(group, packet) {
                return;
            }
            flush(link, bridge);
            if !fits || !link.push(group, packet) {
                bridge.on_refused(Drop::TooLong, 1);
            }
        });
        if let Some(link) = link {
            flush(link, bridge);
        }
        taken.unwrap_or_else(|error| {
            self.lose_port(now, &error);
            0
        })
    }

    /// Carries packets from the overlay to the network. Returns the number of packets, and whether these were all.
    fn inject(&mut self, now: Time) -> (usize, bool) {
        let mut packets = 0;
        for _ in 0..MESSAGES_PER_TURN {
            let Some(link) = &mut self.link else {
                return (packets, true);
            };
            match link.receive() {
                Ok(true) => packets += self.inject_message(now),
                Ok(false) => {
                    self.hear(now);
                    return (packets, true);
                }
                // The node had no path for one packet; the other packets go on.
                Err(Error::Refused { text, .. }) => self.on_refused(now, text),
                Err(error) => {
                    self.lose_node(now, error);
                    return (packets, true);
                }
            }
        }
        self.hear(now);
        (packets, false)
    }

    /// Handles the reports of the node.
    fn hear(&mut self, now: Time) {
        while let Some(told) = self.link.as_mut().and_then(Link::take_told) {
            match told {
                Told::Reaches(reaches) => {
                    self.bridge.set_reach(now, reaches, &mut self.effects);
                    let event = Event::Reach(reaches);
                    if self.reaches.replace(reaches) != Some(reaches) {
                        self.effects.events.push(event);
                    }
                }
                Told::HasPlaces => self.effects.members.on_places(now),
                Told::NotSent { group, text } => self.on_not_sent(now, group, text),
                Told::NotJoined { group, code, text } => {
                    let is_full = code == ErrorCode::TooManySockets;
                    self.effects.members.on_refused(now, group, is_full);
                    self.on_refused(now, text);
                }
            }
        }
    }

    /// Records that the node takes no packets for a group. An event is reported when this begins.
    fn on_not_sent(&mut self, now: Time, group: NodeAddr, text: String) {
        self.not_sent.retain(|_, said| *said + NOT_SENT_HOLD > now);
        let is_new = !self.not_sent.contains_key(&group);
        if is_new && self.not_sent.len() >= NOT_SENT_MAX {
            return;
        }
        self.not_sent.insert(group, now);
        if is_new {
            self.effects.events.push(Event::NotSent(text));
        }
    }

    fn on_refused(&mut self, now: Time, text: String) {
        let said = self.refused.as_ref();
        if said.is_none_or(|(last, at)| *last != text || *at + REFUSED_EVERY <= now) {
            self.effects.events.push(Event::Refused(text.clone()));
            self.refused = Some((text, now));
        }
    }

    fn inject_message(&mut self, now: Time) -> usize {
        let Loop {
            device,
            link: Some(link),
            bridge,
            effects,
            ..
        } = self
        else {
            return 0;
        };
        let mut frames = [Frame::new(&[], &[]); TOGETHER];
        let (mut waiting, mut packets, mut failed) = (0, 0, 0);
        for (group, packet) in link.received() {
            packets += 1;
            bridge.on_overlay(now, group, packet, effects, &mut |head, body| {
                frames[waiting] = Frame::new(head, body);
                waiting += 1;
                if waiting == TOGETHER {
                    failed += device.send(&frames);
                    waiting = 0;
                }
            });
        }
        failed += device.send(&frames[..waiting]);
        bridge.on_refused(Drop::Port, failed as u64);
        packets
    }

    /// Carries out the results of what was handled.
    fn follow(&mut self) {
        for frame in self.effects.frames.drain(..) {
            self.device.send(&[Frame::new(&frame[..14], &frame[14..])]);
        }
        let now = self.shared.clock.now();
        while let Some(link) = &self.link
            && now >= self.next_join
            && let Some(change) = self.effects.members.next(now)
        {
            let said = match change {
                Change::Join(group) => link.join(group),
                Change::Leave(group) => link.leave(group),
            };
            if let Err(error) = said {
                self.effects.members.unsaid(change);
                self.next_join = now + JOIN_AGAIN;
                if !matches!(error, Error::WouldBlock) {
                    self.lose_node(now, error);
                }
                break;
            }
        }
        self.tell();
    }

    fn tell(&mut self) {
        for event in self.effects.events.drain(..) {
            (self.shared.tell)(event);
        }
    }

    fn warn(&mut self, text: String) {
        (self.shared.tell)(Event::Warning(text));
    }
}

/// Sends the gathered packets. Packets that the node does not take at once are lost, because they would be useless
/// later.
fn flush(link: &mut impl Link, bridge: &mut Bridge) {
    let count = link.gathered();
    if count > 0 && link.flush().is_err() {
        // A lost connection is noticed at the next receive.
        bridge.on_refused(Drop::Node, count as u64);
    }
}
