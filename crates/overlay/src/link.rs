//! One link: everything that this node keeps about one neighbour, and the links by index, by
//! neighbour and by session.
//!
//! ```text
//!   no session --Established--> session, hello probing --hellos in a row--> up <--a hello-- tried
//!        ^                                                                   |                ^
//!        '---- dial again <---- down (closing, or tried for long) <----------'--- silence ----'
//! ```
//! A session outlives an outage: after silence the hellos go on, and the link comes up again with
//! the same keys unless the neighbour has restarted and brings a new session.

mod alarmed;
mod dialling;
mod fallback;
mod impairment;
mod lateness;
mod protection;
mod table;
mod verifications;

pub(crate) use dialling::{Dialling, Obstacle};
pub(crate) use fallback::Fallback;
pub use impairment::Impairment;
use lateness::Lateness;
pub use table::{LinkIndex, Links, MAX_LINKS};
pub(crate) use verifications::Verifications;

use crate::alarm::Alarm;
use crate::announce::Announce;
use crate::carried::Carried;
use crate::estimate::{Inbound, Loss, Split};
use crate::event::{Drop, Event};
use crate::flow::FlowKey;
use crate::hello::{self, Hello};
use crate::mtu::Mtu;
use crate::node::Node;
use crate::realtime::{Ahead, History, Pilot, Protect, Receiver, Rest, RoundTrip};
use crate::reliable::Lane;
use crate::settings::{MetricOf, Settings};
use base::{Burst, Duration, NodeAddr, Outbox, Time, UnderlayAddr};
use congestion::brake::{Brake, Echo, Packet, Verdict};
use core::num::NonZeroU8;
use core::ops::Range;
use graph::metric::LinkCost;
use secure::{OpenError, Opened, Sessions};
use std::collections::VecDeque;
use wire::control::ClockOffset;
use wire::data::{Class, Header, LinkProtocol};
use wire::link::Kind;
use wire::{CLEAR_BYTES, TAG_BYTES};

/// Silence after which a neighbour whose link is down is dialled again: at once when the silence of
/// an active link has taken it down.
const SILENT: Duration = Duration::from_millis(300);
/// What a neighbour has told of the network's clock counts for so long. Choice: of ten messages one arrives, and clocks
/// that drift apart by 500 ppm are 5 ms off.
const CLOCK_LASTS: Duration = Duration::from_secs(10);
/// The shortest rest between two dials.
const DIAL_REST: Duration = Duration::from_secs(1);
/// So many dials without an answer double the rest between two, up to [`DIAL_REST_MAX`]: an Init
/// has 1152 bytes, and a neighbour may be gone for days.
const DIALS_PER_STEP: u32 = 8;
const DIAL_REST_MAX: Duration = Duration::from_secs(8);

/// Hellos whose answers are waited for. Choice: five seconds of them at the pace of a link that is asked often; queues
/// in front of narrow links are as long.
const ASKED: usize = 128;
/// A link that has held packets back for so long has less room than it is given. Choice: a step of the load is
/// over by then.
const FULL_AFTER: Duration = Duration::from_secs(1);

/// What a link over a byte stream (TCP) costs more than one of the same round trip by datagrams, in microseconds of
/// latency. Choice: a lost segment holds up what follows for a round trip and more, which no measurement of a quiet
/// moment tells; a way by datagrams over a third node may be longer by so much. A power of two milliseconds, as
/// records tell prices ([`wire::Availability`]).
pub(crate) const STREAM_PRICE_US: u32 = 16_000;

/// What a link may lose and have no trouble. Choice: what recovery leaves of twice as much is not heard.
const LOSS_NOTABLE: f64 = 0.005;

/// The mark of control datagrams, above that of every priority.
pub const MARK_CONTROL: u8 = 9;

/// The mark of packets of a class: one more than the priority, because 0 is none.
pub const fn mark(class: Class) -> u8 {
    class.priority + 1
}

/// Everything about one neighbour.
#[derive(Debug)]
pub struct Link {
    /// The neighbour.
    pub peer: NodeAddr,
    /// Its name, as its certificate says.
    pub name: String,
    /// Where it is reached now, once it is known.
    pub at: Option<UnderlayAddr>,
    /// Where the configuration says that it is; dialled when there is no session.
    pub dial: Option<UnderlayAddr>,
    /// The configuration had it and has it no more: there is no link unless the neighbour dials and may.
    pub(crate) is_left: bool,
    /// What the link can carry, in kbit/s, as configured; 0 if that is not known.
    pub capacity_kbps: u32,
    /// What transfers have carried to the neighbour.
    pub carried: Option<Carried>,
    /// The physical links that it crosses to the neighbour, once that is known.
    pub hops: Option<NonZeroU8>,
    /// Keys.
    pub sessions: Sessions,
    /// Liveness and round trip.
    pub hello: Hello,
    /// How long a datagram it carries.
    pub mtu: Mtu,
    /// Loss of the direction from the neighbour to here.
    pub loss: Loss,
    /// Whether that direction is in trouble.
    pub(crate) alarm: Alarm,
    /// Others know of an alarm, and have been told of it then.
    pub(crate) alarm_told: Option<Time>,
    /// Runs of losses that the alarm has been told.
    runs_seen: u64,
    /// The last of them of which the alarm was not told.
    runs_untold: u64,
    /// When the link's cost is told to others.
    pub announce: Announce,
    /// The real-time lane to the neighbour.
    pub history: History,
    /// Chooses how its packets are protected.
    pub(crate) pilot: Pilot,
    /// The neighbour takes repair packets.
    pub(crate) peer_takes_repair: bool,
    /// When the neighbour was told last what has become of its packets, and how many had come.
    reported: (Time, u64),
    strikes: u8,
    takes_repair: bool,
    /// The mark of the last packet of the real-time lane.
    lane_mark: u8,
    /// Which of its packets are sent twice at once.
    pub(crate) ahead: Option<Ahead>,
    /// The real-time lane from the neighbour.
    pub receiver: Receiver,
    /// Holds the real-time lane to the neighbour back when it meets congestion.
    pub brake: Option<Brake>,
    /// How late the neighbour's hellos are.
    pub(crate) inbound: Inbound,
    pub(crate) split: Split,
    lateness: Lateness,
    /// What the neighbour has told last of the network's clock, and when.
    pub(crate) clock_told: Option<(ClockOffset, Time)>,
    /// What the own clock is ahead of the neighbour's by the network's, as stamps wrap.
    clocks_us: Option<u32>,
    way_here: Duration,
    way_there: Duration,
    /// What the neighbour has told last of what arrived there and what was lost.
    told: Option<(u32, u32)>,
    /// The last hellos that were sent, by their stamps, for what the link carries until the answer.
    asked: VecDeque<(u32, Echo)>,
    /// The reliable lane, both ways.
    pub reliable: Lane,
    /// What the signatures of its records may cost.
    pub(crate) verifications: Verifications,
    /// The emulated network on the way to the neighbour.
    pub impairment: Option<Impairment>,
    /// What the link has carried.
    pub counts: Counts,
    /// The number of this node's start, which its hellos carry.
    boot: u32,
    metric: MetricOf,
    /// The number of the neighbour's start; another one means that it has restarted.
    pub peer_boot: Option<u32>,
    /// When something authentic came last, and when a dial was begun last.
    pub(crate) heard: Time,
    pub(crate) dialled: Option<Time>,
    /// Dials begun since the neighbour was heard last.
    pub(crate) dials: u32,
    /// What becomes of dialling it.
    pub(crate) dialling: Dialling,
    /// The byte stream beside its datagrams.
    pub(crate) fallback: Fallback,
    /// Why the link went down last.
    pub(crate) down_why: Option<&'static str>,
    /// The link is on the list of those to look at in this flush.
    pub(crate) touched: bool,
    /// Packets may be sent twice at once.
    copies_ahead: bool,
    copies_rest: Rest,
    /// Since when the brake of the real-time lane holds packets back.
    full_since: Option<Time>,
    /// The link that has carried last what this one had no room for, and when.
    pub(crate) passed: Option<(LinkIndex, Time)>,
    /// Its price tells of it.
    is_priced_full: bool,
    /// The session whose counters the loss estimate follows.
    counted: Option<wire::link::SessionIndex>,
    /// The highest counter seen: only newer datagrams move the neighbour's address.
    newest: u64,
}

/// What a link has carried since the node started. Bytes are those of sealed datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// Data datagrams sent.
    pub data_out: u64,
    /// Their bytes.
    pub data_out_bytes: u64,
    /// Data datagrams received.
    pub data_in: u64,
    /// Their bytes.
    pub data_in_bytes: u64,
    /// Control datagrams sent.
    pub control_out: u64,
    /// Their bytes.
    pub control_out_bytes: u64,
    /// Repair packets sent.
    pub repair_out: u64,
    /// Their bytes.
    pub repair_out_bytes: u64,
    /// Times that the link came up.
    pub ups: u64,
    /// Times that it went down.
    pub downs: u64,
}

/// A datagram that was opened, and whether its session or address asks for attention.
#[derive(Clone, Debug)]
pub struct Received {
    /// Where the plaintext stands.
    pub plaintext: Range<usize>,
    /// Data or control.
    pub kind: Kind,
    /// It is the first of a session that this node dialled.
    pub confirms: bool,
    /// The neighbour has moved to another address below.
    pub moved: bool,
    /// It has shown that packets are being lost.
    pub alarmed: bool,
}

impl Link {
    /// A link without a session.
    pub fn new(peer: NodeAddr, name: &str, settings: &Settings, boot: u32, now: Time) -> Link {
        let mut realtime = settings.realtime.clone();
        if realtime.aims.protect == Protect::Off {
            (realtime.strikes, realtime.copies_ahead) = (0, false);
        }
        Link {
            peer,
            name: name.to_owned(),
            at: None,
            dial: None,
            is_left: false,
            capacity_kbps: 0,
            carried: None,
            hops: None,
            sessions: Sessions::new(),
            hello: Hello::new(now, settings.hello),
            mtu: Mtu::new(now),
            loss: Loss::default(),
            alarm: Alarm::default(),
            alarm_told: None,
            runs_seen: 0,
            runs_untold: 0,
            announce: Announce::new(settings.announce),
            history: History::new(realtime.clone()),
            pilot: Pilot::new(realtime.aims),
            peer_takes_repair: false,
            reported: (now, 0),
            strikes: realtime.strikes,
            lane_mark: 0,
            // The paper's nodes have requests alone, so theirs are not told that repair is of use.
            takes_repair: realtime.aims.protect.repairs(),
            ahead: None,
            copies_ahead: realtime.copies_ahead,
            copies_rest: Rest::default(),
            full_since: None,
            passed: None,
            is_priced_full: false,
            receiver: Receiver::new(realtime),
            brake: settings.brake.map(Brake::new),
            inbound: Inbound::default(),
            split: Split::default(),
            lateness: Lateness::default(),
            clock_told: None,
            clocks_us: None,
            way_here: Duration::ZERO,
            way_there: Duration::ZERO,
            told: None,
            asked: VecDeque::new(),
            reliable: Lane::new(settings.reliable),
            verifications: Verifications::new(now),
            impairment: None,
            counts: Counts::default(),
            boot,
            metric: settings.metric,
            peer_boot: None,
            heard: now,
            dialled: None,
            dials: 0,
            dialling: Dialling::default(),
            fallback: Fallback::default(),
            down_why: None,
            touched: false,
            counted: None,
            newest: 0,
        }
    }

    /// The other end is heard, and hears this one.
    pub fn is_up(&self) -> bool {
        self.hello.is_usable() && self.at.is_some()
    }

    /// The link carries data and has fallen silent: it may have failed, and nobody knows yet. Or it has become much
    /// longer, and routes do not know.
    #[inline]
    pub fn is_in_doubt(&self, now: Time) -> bool {
        self.hello.is_in_doubt(now) || self.lateness.is_on(now)
    }

    /// The link's datagrams travel inside a byte stream.
    #[inline]
    pub fn is_over_stream(&self) -> bool {
        self.at.is_some_and(UnderlayAddr::is_stream)
    }

    /// The neighbour is reached there from now on.
    pub(crate) fn move_to(&mut self, now: Time, at: UnderlayAddr) {
        self.fallback.on_moved(now, self.at, at);
        self.at = Some(at);
    }

    /// Packets are sent over the link and taken from it: it is up, or was a moment ago and is tried
    /// by what has no other way.
    #[inline]
    pub fn carries(&self) -> bool {
        (self.hello.is_usable() || self.hello.is_tried()) && self.at.is_some()
    }

    /// What an answer of the neighbour takes at present; zero before the first is measured.
    pub fn rtt(&self) -> Duration {
        self.hello.rtt().present().unwrap_or_default()
    }

    /// What an answer to a request takes.
    pub fn round_trip(&self) -> RoundTrip {
        let rtt = self.hello.rtt();
        RoundTrip {
            least: rtt.least().unwrap_or_default(),
            usual: rtt.usual_most().unwrap_or_default(),
        }
    }

    /// What the link has taken from the time of a packet that comes; zero before it is measured.
    #[inline]
    pub fn way_here(&self) -> Duration {
        self.way_here
    }

    /// What it takes from one that is sent.
    #[inline]
    pub fn way_there(&self) -> Duration {
        self.way_there
    }

    /// What the neighbour has told of that node's clock, if it is recent.
    pub(crate) fn clock_told(&self, now: Time, reference: NodeAddr) -> Option<ClockOffset> {
        let (clock, told) = self.clock_told?;
        (clock.reference == reference && now.since(told) < CLOCK_LASTS).then_some(clock)
    }

    /// Splits round trips by the network's clock, where both ends know what it says.
    pub(crate) fn split_by(&mut self, now: Time, own: Option<ClockOffset>) {
        let told = own.and_then(|own| Some((own, self.clock_told(now, own.reference)?)));
        self.clocks_us = told.map(|(own, told)| told.offset_us.wrapping_sub(own.offset_us));
        self.split_ways();
    }

    /// The neighbour has another clock than before.
    pub(crate) fn forget_clock(&mut self) {
        (self.split, self.clock_told, self.clocks_us) = (Split::default(), None, None);
        self.split_ways();
    }

    /// Measures both ways anew.
    fn split_ways(&mut self) {
        let rtt = self.hello.rtt();
        let least = rtt.least().unwrap_or_default();
        (self.way_here, self.way_there) = match self.metric {
            // Half of the round trip. [Amir06 §III-A]
            MetricOf::Paper => (least.div(2), least - least.div(2)),
            MetricOf::Measured => self.split.ways(least, rtt.deviation(), self.clocks_us),
        };
    }

    /// What the link suffers at present, in a word: nothing comes, packets wait, or some are lost.
    pub(crate) fn trouble(&self) -> Option<&'static str> {
        let is_queued = self.brake.as_ref().is_some_and(Brake::is_queued);
        let lost = self.loss.rate().max(self.hello.loss_out().share());
        match self.hello.state() {
            _ if self.sessions.is_empty() => Some("outage"),
            hello::State::Down => Some("outage"),
            _ if is_queued => Some("queue"),
            _ if lost >= LOSS_NOTABLE => Some("loss"),
            _ => None,
        }
    }

    /// For how long nothing has come from the neighbour; none if nothing ever has.
    pub(crate) fn silence(&self, now: Time) -> Option<Duration> {
        self.counted.map(|_| now.since(self.heard))
    }

    /// The neighbour is to be dialled now: there is no session, the session is old, or nothing has
    /// come for so long that the neighbour may have restarted and lost its keys, or a stream was opened because
    /// datagrams get through in one direction at most.
    pub(crate) fn wants_dial(&self, now: Time) -> bool {
        let is_silent = now.since(self.heard) >= SILENT || self.fallback.stream().is_some();
        let lost = self.sessions.is_empty() || (!self.is_up() && is_silent);
        let rest = (DIAL_REST * (1 << (self.dials / DIALS_PER_STEP).min(3))).min(DIAL_REST_MAX);
        let rested = self.dialled.is_none_or(|at| now.since(at) >= rest);
        rested && (lost || self.sessions.wants_rekey(now))
    }

    /// Looks whether the link has room for what it is given. To be called about once per second.
    pub(crate) fn note_room(&mut self, now: Time) {
        let is_full = self
            .brake
            .as_ref()
            .is_some_and(|brake| brake.rate_bps().is_some());
        self.full_since = is_full.then(|| self.full_since.unwrap_or(now));
        let lasts = self
            .full_since
            .is_some_and(|since| now.since(since) >= FULL_AFTER);
        if !lasts {
            self.is_priced_full = false;
            return;
        }
        let is_new = !core::mem::replace(&mut self.is_priced_full, true);
        self.hello.on_too_full(now, is_new);
    }

    /// What the direction to the neighbour costs at the moment: what leaves here is lost as the
    /// neighbour measures it.
    pub fn measured_cost(&self, now: Time) -> LinkCost {
        let latency = match self.metric {
            // Half of the average round trip. [Amir06 §III-A]
            MetricOf::Paper => self.hello.rtt().smoothed().unwrap_or_default().div(2),
            // And half of what round trips are usually longer by: a path of jitter is late though its
            // fastest packets are not.
            MetricOf::Measured => self.way_there() + self.hello.rtt().usually_longer().div(2),
        };
        let latency_us = u32::try_from(latency.as_micros()).unwrap_or(u32::MAX);
        let of_stream = match self.is_over_stream() {
            true => STREAM_PRICE_US,
            false => 0,
        };
        LinkCost {
            price_us: self.hello.price_us(now).saturating_add(of_stream),
            ..LinkCost::new(latency_us, self.hello.loss_out().share())
        }
    }

    /// Opens a datagram of the neighbour in place, and learns from its number and its origin.
    #[inline]
    pub fn open(
        &mut self,
        now: Time,
        from: UnderlayAddr,
        datagram: &mut [u8],
    ) -> Result<Received, Drop> {
        let Opened {
            kind,
            session,
            counter,
            plaintext,
            confirms,
        } = self.sessions.open(now, datagram).map_err(|why| match why {
            OpenError::Replay => Drop::Replay,
            OpenError::NoSession => Drop::UnknownSession,
            OpenError::Short => Drop::Malformed,
            OpenError::Tag => Drop::BadTag,
        })?;
        if self.counted != Some(session) {
            // The newest session counts; stragglers of an older one say nothing of loss.
            if self
                .sessions
                .current()
                .is_some_and(|s| s.local_index() == session)
            {
                self.counted = Some(session);
                self.newest = counter;
                self.loss.on_new_session();
                self.loss.on_packet(counter);
            }
        } else {
            self.loss.on_packet(counter);
        }
        let alarmed = self.loss.begun() != self.runs_seen && self.note_runs(now);
        self.hello.on_traffic(now);
        self.heard = now;
        self.dials = 0;
        self.dialling.on_heard();
        // Only the newest datagram tells where the neighbour is, so that a straggler from its old
        // address does not move it back.
        let newest = self.counted == Some(session) && counter >= self.newest;
        let mut moved = false;
        if newest {
            self.newest = counter;
            // A stream belongs to one neighbour: what another one sends on in it moves nobody.
            let is_own = !from.is_stream() || self.fallback.stream() == Some(from);
            if self.at != Some(from) && is_own {
                moved = self.at.map(UnderlayAddr::remote) != Some(from.remote());
                self.move_to(now, from);
            }
        }
        Ok(Received {
            plaintext,
            kind,
            confirms,
            moved,
            alarmed,
        })
    }

    /// The datagram before the newest was a probe of the path's length, come or not: its absence says
    /// nothing of loss.
    pub(crate) fn forgive(&mut self) {
        if let Some(before) = self.newest.checked_sub(1) {
            self.loss.forgive(before);
        }
    }

    /// Notes a data packet that came.
    #[inline]
    pub fn on_data_received(&mut self, now: Time, plaintext_bytes: usize) {
        self.hello.on_data_received(now);
        self.counts.data_in += 1;
        self.counts.data_in_bytes += (plaintext_bytes + CLEAR_BYTES + TAG_BYTES) as u64;
    }

    /// Enters the packets of a run in their lane and seals them in place, up to the first that repair is to follow at
    /// once, and tells how many. None when there is no session to seal with. `rest_of_path` is the delay from the
    /// neighbour on to a packet's destination.
    #[inline]
    pub fn seal_packets(
        &mut self,
        now: Time,
        run: &mut Burst,
        rest_of_path: impl Fn(NodeAddr) -> Duration,
    ) -> Option<usize> {
        if !self.carries() {
            return None;
        }
        self.hello.on_data_sent(now);
        self.mtu.on_sent(run.stride());
        if !run.is_empty() {
            let first = Header::trusted(&run.segment(0)[CLEAR_BYTES..]);
            let mark = mark(first.class());
            if first.class().link == LinkProtocol::RealTime {
                self.lane_mark = mark;
            }
            run.set_mark(mark);
        }
        let (mut sealed, mut bytes) = (0, 0);
        while sealed < run.segments() && !(sealed > 0 && self.owes_repair()) {
            let datagram = run.segment_mut(sealed);
            let end = datagram.len() - TAG_BYTES;
            let packet = &mut datagram[CLEAR_BYTES..end];
            if Header::trusted(&*packet).class().link == LinkProtocol::RealTime {
                self.history.record(now, packet);
                self.protect(now, packet, &rest_of_path);
            }
            self.sessions.seal(Kind::Data, datagram).ok()?;
            sealed += 1;
            bytes += datagram.len();
        }
        self.counts.data_out += sealed as u64;
        self.counts.data_out_bytes += bytes as u64;
        Some(sealed)
    }

    /// How many packets at the front of a run may go, as far as the brake is concerned, and what it
    /// says of the next one, if there is one.
    #[inline]
    pub(crate) fn admitted(&mut self, now: Time, run: &Burst) -> (usize, Option<Verdict>) {
        let way_there = self.way_there();
        let Some(brake) = &mut self.brake else {
            return (run.segments(), None);
        };
        let mut judge = |i: usize| {
            let packet = &run.segment(i)[CLEAR_BYTES..];
            let header = Header::trusted(packet);
            let class = header.class();
            if class.link != LinkProtocol::RealTime {
                return Verdict::Sent;
            }
            let left = header.remaining().duration().unwrap_or(Duration::MAX);
            let packet = Packet {
                bytes: CLEAR_BYTES + packet.len(),
                priority: class.priority,
                flow: FlowKey::of(&header).hash(),
                is_elastic: is_elastic(&header),
                slack: left.saturating_sub(way_there),
            };
            brake.admit(now, &packet)
        };
        let mut stop = None;
        let goes = |i: &usize| {
            let verdict = judge(*i);
            stop = (verdict != Verdict::Sent).then_some(verdict);
            stop.is_none()
        };
        let sent = (0..run.segments()).take_while(goes).count();
        if let Some(until) = brake.watches(now) {
            self.hello.watch(now, until);
        }
        (sent, stop)
    }

    /// Notes a hello that is sent now: its answer tells what the link has carried.
    pub(crate) fn on_asked(&mut self, now: Time, stamp_us: u32) {
        let Some(brake) = &self.brake else {
            return;
        };
        if self.asked.len() >= ASKED {
            self.asked.pop_front();
        }
        let echo = Echo {
            sent: now,
            rtt: Duration::ZERO,
            there: Duration::ZERO,
            link_bytes: self.counts.data_out_bytes
                + self.counts.control_out_bytes
                + self.counts.repair_out_bytes,
            lane_bytes: brake.lane_bytes(),
        };
        self.asked.push_back((stamp_us, echo));
    }

    /// A hello with this stamp came; it brought a round trip if there are more than `measured` now.
    pub(crate) fn on_stamp(&mut self, came: Time, stamp_us: u32, measured: u64) {
        let rtt = self.hello.rtt();
        let round_trip = (rtt.samples() > measured).then(|| rtt.latest());
        self.inbound.on_stamp(came, stamp_us);
        self.split.on_hello(came, stamp_us, round_trip);
        if matches!(self.metric, MetricOf::Measured) && self.hello.is_active() {
            let excess = self.inbound.excess();
            self.lateness.on_hello(came, excess, round_trip, rtt);
        }
        self.split_ways();
    }

    /// A hello has brought a round trip: the answer to the one with this stamp. What its own way back took
    /// beyond the usual is no queue of this direction.
    pub(crate) fn on_answered(&mut self, now: Time, stamp_us: Option<u32>) {
        let rtt = self.hello.rtt().latest();
        let there = rtt - self.inbound.excess();
        let Some(brake) = &mut self.brake else {
            return;
        };
        let asked = self
            .asked
            .iter()
            .find(|(stamp, _)| Some(*stamp) == stamp_us);
        match asked {
            Some(&(_, echo)) => brake.on_echo(now, Echo { rtt, there, ..echo }),
            None => brake.on_round_trip(now, rtt),
        }
        if let Some(until) = brake.watches(now) {
            self.hello.watch(now, until);
        }
    }

    /// Hands sealed datagrams to the network below, or to the emulated one in front of it.
    #[inline]
    pub fn transmit(&mut self, now: Time, burst: Burst, out: &mut impl Outbox<Node>) {
        transmit_through(&mut self.impairment, self.at, now, burst, out);
    }

    /// Seals and sends a control datagram: `burst` holds its plaintext with room around it.
    pub fn transmit_control(
        &mut self,
        now: Time,
        mut plaintext: Burst,
        out: &mut impl Outbox<Node>,
    ) {
        plaintext.set_mark(MARK_CONTROL);
        if let Some(bytes) = self.seal_control(&mut plaintext) {
            self.counts.control_out += 1;
            self.counts.control_out_bytes += u64::from(bytes);
            let peer = self.peer;
            out.report(Event::Control { peer, bytes });
            self.transmit(now, plaintext, out);
        }
    }

    /// The same for a datagram with a repair packet, which goes as the packets do that it repairs.
    pub(crate) fn transmit_repair(
        &mut self,
        now: Time,
        mut plaintext: Burst,
        out: &mut impl Outbox<Node>,
    ) {
        plaintext.set_mark(self.lane_mark);
        if let Some(bytes) = self.seal_control(&mut plaintext) {
            self.counts.repair_out += 1;
            self.counts.repair_out_bytes += u64::from(bytes);
            let peer = self.peer;
            out.report(Event::Repair { peer, bytes });
            self.transmit(now, plaintext, out);
        }
    }

    /// Seals a plaintext that has room around it; the bytes of the datagram, if there is a session.
    fn seal_control(&mut self, plaintext: &mut Burst) -> Option<u32> {
        plaintext.push_front(CLEAR_BYTES);
        let len = plaintext.len() + TAG_BYTES;
        plaintext.fill(len, len);
        let sealed = self.sessions.seal(Kind::Control, plaintext.bytes_mut());
        sealed.is_ok().then_some(len as u32)
    }

    /// The hello that is due, if one is, with the change that routing must know.
    pub(crate) fn poll_hello(&mut self, now: Time) -> hello::Output {
        let output = self.hello.on_timeout(now, self.loss.share());
        hello::Output {
            hello: output.hello.map(|hello| self.complete(hello)),
            ..output
        }
    }

    /// A hello with what the hello protocol does not know.
    fn complete(&self, hello: wire::control::Hello) -> wire::control::Hello {
        let (arrived, lost) = self.loss.told();
        wire::control::Hello {
            boot: self.boot,
            arrived: arrived as u32,
            lost: lost as u32,
            takes_repair: self.takes_repair,
            ..hello
        }
    }

    /// The neighbour tells how many datagrams of this link have arrived there in all, and how many are lost.
    pub(crate) fn on_told(&mut self, arrived: u32, lost: u32) {
        let before = self.told.replace((arrived, lost));
        let (Some((arrived_before, lost_before)), Some(brake)) = (before, &mut self.brake) else {
            return;
        };
        // Less than before is one that was overtaken, or a loss that was none.
        let since = |before: u32, now: u32| now.wrapping_sub(before).cast_signed().max(0);
        brake.on_told(
            u64::from(since(arrived_before, arrived).unsigned_abs()),
            u64::from(since(lost_before, lost).unsigned_abs()),
        );
    }

    /// The hello of a node that is about to stop.
    pub(crate) fn farewell(&mut self, now: Time) -> wire::control::Hello {
        let hello = self.hello.close(now, self.loss.share());
        self.complete(hello)
    }

    /// When the link wants attention next.
    pub fn next_timeout(&self) -> Option<Time> {
        // A neighbour that is nowhere is told nothing: what is due for it waits until it is back.
        let reached = [
            self.history.next_timeout(),
            self.receiver.next_timeout(),
            self.impairment.as_ref().and_then(Impairment::next_timeout),
        ];
        let lasting = [self.reliable.next_timeout(), self.mtu.next_timeout()];
        let lasting = lasting.into_iter().flatten().filter(|_| self.is_up());
        let reached = reached.into_iter().flatten().chain(lasting).min();
        [
            (!self.sessions.is_empty()).then(|| self.hello.next_timeout()),
            reached.filter(|_| self.at.is_some()),
            self.sessions.next_timeout(),
            self.announce.next_timeout(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Begins the lanes anew: the neighbour has restarted, or this is the first session with it.
    pub fn reset_lanes(&mut self, now: Time) {
        if let Some(brake) = &mut self.brake {
            brake.reset(now);
        }
        self.told = None;
        // The brake counts from zero again.
        self.asked.clear();
        self.history.reset();
        self.pilot.reset();
        self.receiver.reset();
        self.reliable.restart();
    }
}

/// Sends a burst through the emulated network, if there is one.
#[inline]
pub(crate) fn transmit_through(
    impairment: &mut Option<Impairment>,
    at: Option<UnderlayAddr>,
    now: Time,
    burst: Burst,
    out: &mut impl Outbox<Node>,
) {
    let Some(at) = at else { return };
    let Some(impairment) = impairment else {
        return out.send(at, burst);
    };
    let mut drops = [0u32; Drop::ALL.len()];
    let pool = out.pool().clone();
    impairment.push(now, burst, &pool, |reason| drops[reason as usize] += 1);
    for reason in Drop::ALL {
        let packets = drops[reason as usize];
        if packets > 0 {
            out.report(Event::Dropped { reason, packets });
        }
    }
    impairment.release(now, at, out);
}

/// A packet belongs to something that sends more slowly when it is told to: a stream, a long datagram. Of
/// one that is sealed from end to end its kind tells.
fn is_elastic(header: &Header<&[u8]>) -> bool {
    header.has_transport() && header.payload().first() != Some(&Kind::Data.byte())
}
