//! A path of a link: a pair of underlay addresses, and all measurements on it.
//!
//! ```text
//!   10.1.0.1 ───── path in use ───── 10.1.0.2      session, counters, hello, round trip, loss, MTU: each its own
//!   10.2.0.1 ───── spare ─────────── 10.2.0.2      lanes: the link's, whichever path a packet takes
//! ```
//! Each path has a session of its own. The session's counters number the datagrams of this path alone. So neither the
//! losses of another path nor packets that overtake on it appear as a loss here.

use super::Impairment;
use super::lateness::Lateness;
use crate::alarm::Alarm;
use crate::estimate::{Inbound, Loss, Split};
use crate::event::Drop;
use crate::hello::{self, Hello, State};
use crate::mtu::Mtu;
use crate::node::Node;
use crate::realtime::RoundTrip;
use crate::settings::MetricOf;
use base::{Burst, Duration, Outbox, Time, UnderlayAddr};
use graph::metric::LinkCost;
use secure::{OpenError, Opened, Sessions};
use wire::link::{Kind, SessionIndex};
use wire::{CLEAR_BYTES, TAG_BYTES};

/// Maximum number of paths of one link. Choice: two uplinks at each end.
pub const MAX_PATHS: usize = 4;

/// The additional cost of a link over a byte stream (TCP) compared with one of the same round trip by datagrams, in
/// microseconds of latency. Choice: a lost segment delays what follows for a round trip and more, which no measurement
/// at a quiet moment shows. A path by datagrams over a third node may be longer by this much. A power of two
/// milliseconds, because records announce prices in that form ([`wire::Availability`]).
pub(crate) const STREAM_PRICE_US: u32 = 16_000;
/// A hello that is later than usual by this much has waited in a queue. Choice: the brake's limit for a queue
/// (`brake_queue_floor`).
const QUEUED: Duration = Duration::from_millis(10);

/// A path's name: the lowest number that no other path of the link has. It stays the same while paths change places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PathId(pub u8);

impl PathId {
    /// Every name that a path can have.
    pub(crate) fn all() -> impl Iterator<Item = PathId> {
        (0..MAX_PATHS as u8).map(PathId)
    }
}

/// A pair of addresses, and what is known of it.
#[derive(Debug)]
pub struct Path {
    /// Its name.
    pub id: PathId,
    /// The neighbour's address, and the own socket that leads there, once it is known.
    pub at: Option<UnderlayAddr>,
    /// Keys.
    pub sessions: Sessions,
    /// Liveness and round trip.
    pub hello: Hello,
    /// The longest datagram that it carries.
    pub mtu: Mtu,
    /// Packet loss in the direction from the neighbour to here.
    pub loss: Loss,
    /// Whether that direction is in trouble.
    pub(crate) alarm: Alarm,
    /// Number of runs of losses that `alarm` has been notified of.
    runs_seen: u64,
    /// Number of the latest runs of which `alarm` was not notified.
    runs_untold: u64,
    /// How late the neighbour's hellos are.
    pub(crate) inbound: Inbound,
    pub(crate) split: Split,
    pub(super) lateness: Lateness,
    way_here: Duration,
    way_there: Duration,
    /// The emulated network in the direction to the neighbour.
    pub impairment: Option<Impairment>,
    /// When something authentic last arrived, and when a dial was last begun.
    pub(crate) heard: Time,
    pub(crate) dialled: Option<Time>,
    /// Dials begun since the neighbour was last heard.
    pub(crate) dials: u32,
    /// The session whose counters the loss estimate follows.
    counted: Option<SessionIndex>,
    /// The highest counter seen: only newer datagrams move the neighbour's address.
    newest: u64,
    pub(super) metric: MetricOf,
    /// Bytes of all datagrams that were sent by the path, and that were received.
    pub(crate) bytes: (u64, u64),
}

impl Path {
    /// A path without a session.
    pub(super) fn new(id: PathId, hello: hello::Settings, metric: MetricOf, now: Time) -> Path {
        Path {
            id,
            at: None,
            sessions: Sessions::new(),
            hello: Hello::new(now, hello),
            mtu: Mtu::new(now),
            loss: Loss::default(),
            alarm: Alarm::default(),
            runs_seen: 0,
            runs_untold: 0,
            inbound: Inbound::default(),
            split: Split::default(),
            lateness: Lateness::default(),
            way_here: Duration::ZERO,
            way_there: Duration::ZERO,
            impairment: None,
            heard: now,
            dialled: None,
            dials: 0,
            counted: None,
            newest: 0,
            metric,
            bytes: (0, 0),
        }
    }

    /// Returns true if the other end is heard on the path, and hears this one.
    pub fn is_up(&self) -> bool {
        self.hello.is_usable() && self.at.is_some()
    }

    /// Returns the state of the path in a word.
    pub(crate) fn state(&self) -> &'static str {
        match self.hello.state() {
            _ if self.sessions.is_empty() => "no-session",
            State::Up => "up",
            State::Probing => "probing",
            State::Down if self.hello.is_tried() => "silent",
            State::Down => "down",
        }
    }

    /// Returns true if the path is up and nothing speaks against it: neither a long silence nor an unanswered hello.
    pub(super) fn is_sound(&self, now: Time) -> bool {
        self.is_up() && self.hello.state() == State::Up && !self.is_doubtful(now)
    }

    /// Returns true if the path carries data and one of its ends has heard nothing for suspiciously long.
    #[inline]
    pub(crate) fn is_doubtful(&self, now: Time) -> bool {
        self.hello.is_in_doubt(now) || self.hello.is_doubted()
    }

    /// Returns true if the path has become much longer than routes know.
    #[inline]
    pub(super) fn is_late(&self, now: Time) -> bool {
        self.lateness.is_on(now)
    }

    /// Returns true if packets are sent over the path: it is up, or was up a moment ago and packets without another
    /// path try it.
    #[inline]
    pub(super) fn carries(&self) -> bool {
        (self.hello.is_usable() || self.hello.is_tried()) && self.at.is_some()
    }

    /// Returns true if the path's datagrams travel inside a byte stream.
    #[inline]
    pub fn is_over_stream(&self) -> bool {
        self.at.is_some_and(UnderlayAddr::is_stream)
    }

    /// Returns true if the path leads to `at`: from the same own socket to the same far end.
    pub(crate) fn leads_to(&self, at: UnderlayAddr) -> bool {
        self.at.map(UnderlayAddr::remote) == Some(at.remote())
    }

    /// Returns the time until an answer of the neighbour arrives at present; zero before the first is measured.
    pub fn rtt(&self) -> Duration {
        self.hello.rtt().present().unwrap_or_default()
    }

    /// Returns the limit above which a round trip indicates a queue in which packets on the path wait; `None` before
    /// one is measured.
    pub(super) fn queue_from(&self) -> Option<Duration> {
        self.hello.rtt().least().map(|least| least + QUEUED)
    }

    /// Returns the time until the answer to a request arrives.
    pub(super) fn round_trip(&self) -> RoundTrip {
        let rtt = self.hello.rtt();
        RoundTrip {
            least: rtt.least().unwrap_or_default(),
            usual: rtt.usual_most().unwrap_or_default(),
        }
    }

    /// Returns the delay of a packet that arrives by the path; zero before it is measured.
    #[inline]
    pub(crate) fn way_here(&self) -> Duration {
        self.way_here
    }

    /// Returns the delay of a packet that is sent by the path.
    #[inline]
    pub(crate) fn way_there(&self) -> Duration {
        self.way_there
    }

    /// Computes the delays of both directions again. `clocks_us` is the difference by which the own clock is ahead of
    /// the neighbour's, if that is known.
    pub(super) fn split_ways(&mut self, clocks_us: Option<u32>) {
        let rtt = self.hello.rtt();
        let least = rtt.least().unwrap_or_default();
        (self.way_here, self.way_there) = match self.metric {
            // Half of the round trip. [Amir06 §III-A]
            MetricOf::Paper => (least.div(2), least - least.div(2)),
            MetricOf::Measured => self.split.ways(least, rtt.deviation(), clocks_us),
        };
    }

    /// Returns the cost of the direction to the neighbour at the moment. The neighbour measures the loss of that
    /// direction.
    pub(super) fn measured_cost(&self, now: Time) -> LinkCost {
        let latency = match self.metric {
            // Half of the average round trip. [Amir06 §III-A]
            MetricOf::Paper => self.hello.rtt().smoothed().unwrap_or_default().div(2),
            // Plus half of the amount by which round trips usually exceed the shortest: a path with jitter is late even
            // if its fastest packets are not.
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

    /// Returns how long nothing has arrived by the path; `None` if nothing ever has.
    pub(crate) fn silence(&self, now: Time) -> Option<Duration> {
        self.counted.map(|_| now.since(self.heard))
    }

    /// Opens a datagram in place and counts it; true if it is the newest.
    #[inline]
    pub(super) fn open(&mut self, now: Time, datagram: &mut [u8]) -> Result<(Opened, bool), Drop> {
        let opened = self.sessions.open(now, datagram).map_err(|why| match why {
            OpenError::Replay => Drop::Replay,
            OpenError::NoSession => Drop::UnknownSession,
            OpenError::Short => Drop::Malformed,
            OpenError::Tag => Drop::BadTag,
        })?;
        let (session, counter) = (opened.session, opened.counter);
        if self.counted != Some(session) {
            // The newest session counts. Stragglers of an older one say nothing about loss.
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
        self.bytes.1 += datagram.len() as u64;
        self.hello.on_traffic(now);
        self.heard = now;
        self.dials = 0;
        let is_newest = self.counted == Some(session) && counter >= self.newest;
        if is_newest {
            self.newest = counter;
        }
        Ok((opened, is_newest))
    }

    /// Returns true if there are more runs of losses, or fewer than assumed, since `alarm` was last notified.
    #[inline]
    pub(super) fn has_news_of_runs(&self) -> bool {
        self.loss.begun() != self.runs_seen
    }

    /// Notifies `alarm` of runs of losses that have begun or have proved to be none. Returns true if that raises an
    /// alarm.
    #[cold]
    pub(super) fn note_runs(&mut self, now: Time) -> bool {
        let was_on = self.alarm.is_on();
        let begun = self.loss.begun();
        for _ in begun..self.runs_seen {
            match self.runs_untold.checked_sub(1) {
                Some(fewer) => self.runs_untold = fewer,
                None => self.alarm.on_taken_back(),
            }
        }
        let news = begun.saturating_sub(self.runs_seen);
        self.runs_seen = begun;
        // A full queue loses packets too, and more packets do not make it shorter: the brake handles that. And nobody
        // needs to know at once about an idle path.
        if self.is_queued_here() || !self.hello.is_active() {
            self.runs_untold += news;
            return false;
        }
        if news > 0 {
            self.runs_untold = 0;
        }
        let run = self.loss.run();
        for at in self.loss.last_begun(news) {
            self.alarm.on_run(now, at, run);
        }
        self.alarm.is_on() && !was_on
    }

    /// Returns true if the neighbour's packets wait in a queue on their way to here, as far as its hellos show.
    fn is_queued_here(&self) -> bool {
        let jitter = self.hello.rtt().deviation() * 2;
        self.inbound.excess() > QUEUED + jitter
    }

    /// The path has gone out of use, or has come into use.
    pub(crate) fn on_hello_event(&mut self, now: Time, event: hello::Event) {
        match event {
            hello::Event::Up => self.mtu.on_link_up(now),
            hello::Event::Down { .. } => {
                // Packets lost while the path was down say nothing about the path when it is up.
                self.loss.on_outage();
                self.alarm.on_outage(self.loss.position());
                self.mtu.on_link_down();
            }
            hello::Event::GivenUp => {}
        }
    }

    /// The datagram before the newest was a probe of the path's MTU, whether it arrived or not. Its absence says
    /// nothing about loss.
    pub(crate) fn forgive(&mut self) {
        if let Some(before) = self.newest.checked_sub(1) {
            self.loss.forgive(before);
        }
    }

    /// Seals a control plaintext that has spare room around it. Returns the length of the datagram in bytes, if there
    /// is a session.
    pub(super) fn seal_control(&mut self, plaintext: &mut Burst) -> Option<u32> {
        plaintext.push_front(CLEAR_BYTES);
        let len = plaintext.len() + TAG_BYTES;
        plaintext.fill(len, len);
        let sealed = self.sessions.seal(Kind::Control, plaintext.bytes_mut());
        sealed.is_ok().then_some(len as u32)
    }

    /// Hands sealed datagrams to the underlay network, or to the emulated one in front of it.
    #[inline]
    pub(crate) fn transmit(&mut self, now: Time, burst: Burst, out: &mut impl Outbox<Node>) {
        let Some(at) = self.at else { return };
        self.bytes.0 += burst.len() as u64;
        match &mut self.impairment {
            None => out.send(at, burst),
            Some(impairment) => impairment.transmit(now, at, burst, out),
        }
    }

    /// Sends the datagrams that have reached the end of the emulated network.
    pub(crate) fn release_impaired(&mut self, now: Time, out: &mut impl Outbox<Node>) {
        if let (Some(impairment), Some(at)) = (&mut self.impairment, self.at) {
            impairment.release(now, at, out);
        }
    }

    /// Returns when the path needs attention next.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        let impaired = self.impairment.as_ref().and_then(Impairment::next_timeout);
        [
            (!self.sessions.is_empty()).then(|| self.hello.next_timeout()),
            impaired.filter(|_| self.at.is_some()),
            self.sessions.next_timeout(),
            self.mtu.next_timeout().filter(|_| self.is_up()),
        ]
        .into_iter()
        .flatten()
        .min()
    }
}
