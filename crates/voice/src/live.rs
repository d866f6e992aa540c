//! Live quality: how one direction of one call is heard, from its RTP as it passes.
//!
//! ```text
//!   packet: header, arrival ──> Track: which sequence numbers came, in what order, in time or not
//!                          ├──> Clock: transit, jitter, and what is late against the playout
//!                          └──> share of the delay budget that was used, recovered on the way
//!
//!   whole()        Quality since the beginning        ── counts, loss, jitter, budget, R and MOS
//!   Window         Quality of each 5 s                 (E-model with the burst ratio)
//! ```
//!
//! Nothing but RTP is needed; RTCP adds the round trip ([`RoundTrip`]) and what the end itself says
//! ([`Reported`]). A packet is *late* when it
//! took longer than the deadline, if its one-way delay is known, as it is at the overlay's egress;
//! else when it came later than the playout delay after the quickest packet of the last half
//! minute. Late packets are missed, as those that never came: the codec conceals both.
//!
//! Memory is constant, about 1 kB a direction, whatever comes. A sequence number that is 128 behind
//! the newest is settled: if it comes yet, it is a stray.

mod clock;
mod counts;
mod reported;
mod round_trip;
mod track;

pub use counts::{Budget, Counts, Quality};
pub use reported::Reported;
pub use round_trip::RoundTrip;
pub use track::{DROPOUT_MAX, REORDER_MAX};

use base::{Duration, Time};

use crate::emodel::Codec;
use crate::rtp::Header;
use crate::sdp::PayloadFormat;
use clock::Clock;
use counts::Spread;
use track::{Place, Track};

/// Length of a window: 250 packets of 20 ms, so that one lost packet shows as 0.4 %.
pub const WINDOW: Duration = Duration::from_secs(5);

/// What is known of a direction beforehand.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// The codec; `None` has no rating (video, or a codec without values).
    pub codec: Option<Codec>,
    /// Ticks of the timestamps per second; 0 is taken as 8000.
    pub clock_hz: u32,
    /// Length of a packet's speech.
    pub frame: Duration,
    /// The call's deadline from entry to exit: later packets are not played.
    pub deadline: Duration,
    /// What the receiver's buffer waits beyond the quickest packet, where one-way delays are not
    /// known.
    pub playout: Duration,
}

impl Default for Settings {
    /// G.711 in packets of 20 ms, with the 100 ms from entry to exit of [Amir06 §II-C], and a
    /// playout buffer of three packets.
    fn default() -> Self {
        Self {
            codec: Some(Codec::Pcmu),
            clock_hz: 8000,
            frame: Duration::from_millis(20),
            deadline: Duration::from_millis(100),
            playout: Duration::from_millis(60),
        }
    }
}

impl Settings {
    /// The codec and the clock of a format, as a description names it.
    #[must_use]
    pub fn with_format(self, format: &PayloadFormat<'_>) -> Self {
        Self {
            codec: Codec::from_name(format.name),
            clock_hz: format.clock_hz,
            ..self
        }
    }
}

/// How a packet came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Arrival {
    /// The time it took from entry to exit, if that is known.
    pub one_way: Option<Duration>,
    /// It was lost on a hop and sent again there.
    pub recovered: bool,
}

/// The quality of one window.
#[derive(Debug, Clone, PartialEq)]
pub struct Window {
    /// When it began.
    pub start: Time,
    /// Of what came within it. A packet that fills a gap of the window before counts here as
    /// received, so what all windows expected and received is what the whole did.
    pub quality: Quality,
}

/// One direction of one call.
#[derive(Debug, Clone)]
pub struct Reception {
    settings: Settings,
    track: Track,
    clock: Clock,
    recovered: u64,
    round_trip: Option<Duration>,
    whole: Spread,
    window: Spread,
    /// Where the window began, and what was counted until then.
    window_start: Option<Time>,
    before: Counts,
    last: Option<Time>,
    /// The first packet of what may be another stream.
    held: Option<Held>,
}

#[derive(Debug, Clone, Copy)]
struct Held {
    now: Time,
    header: Header,
    arrival: Arrival,
}

impl Reception {
    /// A direction in which nothing came yet.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            track: Track::default(),
            clock: Clock::default(),
            recovered: 0,
            round_trip: None,
            whole: Spread::default(),
            window: Spread::default(),
            window_start: None,
            before: Counts::default(),
            last: None,
            held: None,
        }
    }

    /// A packet came. Answers the window that ended before it, if one did.
    pub fn on_packet(&mut self, now: Time, header: &Header, arrival: Arrival) -> Option<Window> {
        let ended = self.on_time(now);
        self.window_start.get_or_insert(now);
        self.last = Some(now);
        match self.track.place(header.ssrc, header.seq) {
            Place::Jump => self.on_jump(now, header, arrival),
            place => {
                self.held = None;
                self.take(now, header, arrival, place);
            }
        }
        ended
    }

    /// Time passed: answers the window that ended, if one did. Windows in which nothing came are
    /// not reported.
    pub fn on_time(&mut self, now: Time) -> Option<Window> {
        let start = self.window_start?;
        let passed = now.since(start).as_nanos() / WINDOW.as_nanos();
        if passed == 0 {
            return None;
        }
        let counts = self.counts();
        let quality = self.quality(counts.since(&self.before), &self.window);
        let is_empty = counts == self.before;
        self.before = counts;
        self.window = Spread::default();
        self.window_start = Some(start + WINDOW * passed);
        self.clock.end_windows(passed);
        (!is_empty).then_some(Window { start, quality })
    }

    /// The quality since the beginning.
    #[must_use]
    pub fn whole(&self) -> Quality {
        self.quality(self.counts(), &self.whole)
    }

    /// RTCP told the round trip between the ends; it places the delay where nothing else does.
    pub fn set_round_trip(&mut self, round_trip: Duration) {
        self.round_trip = Some(round_trip);
    }

    /// The sender goes on in another format: the rating, of the whole too, is by its codec.
    pub fn set_format(&mut self, format: &PayloadFormat<'_>) {
        self.set_settings(self.settings.with_format(format));
    }

    /// Something else is known of the direction now: the rating, of the whole too, is by it.
    pub fn set_settings(&mut self, settings: Settings) {
        if settings.clock_hz != self.settings.clock_hz {
            self.clock.restart();
        }
        self.settings = settings;
    }

    /// When the last packet came: silence since then is no loss yet, and may be a pause in speech.
    #[must_use]
    pub fn last_packet(&self) -> Option<Time> {
        self.last
    }

    /// The source of the stream.
    #[must_use]
    pub fn ssrc(&self) -> Option<u32> {
        self.track.ssrc()
    }

    /// The highest sequence number, with the times that it wrapped in the bits above 16.
    #[must_use]
    pub fn highest_seq(&self) -> Option<u64> {
        self.track.highest()
    }

    /// A packet that does not continue the stream. Two in a row that continue each other are a new
    /// stream (RFC 3550 A.1): the sender began again, or another took over.
    fn on_jump(&mut self, now: Time, header: &Header, arrival: Arrival) {
        let continued = self.held.take().filter(|held| {
            held.header.ssrc == header.ssrc && held.header.seq.wrapping_add(1) == header.seq
        });
        let Some(first) = continued else {
            self.track.count_stray();
            self.held = Some(Held {
                now,
                header: *header,
                arrival,
            });
            return;
        };
        self.track.restart(first.header.ssrc, first.header.seq);
        self.clock.restart();
        self.take(first.now, &first.header, first.arrival, Place::First);
        self.take(now, header, arrival, Place::Ahead(1));
    }

    fn take(&mut self, now: Time, header: &Header, arrival: Arrival, place: Place) {
        if !place.is_new() {
            self.track.count_old(place);
            return;
        }
        let clock_hz = match self.settings.clock_hz {
            0 => 8000,
            hz => hz,
        };
        let step = self.clock.step(now, header.timestamp, clock_hz);
        if let Some(jitter_ns) = step.jitter_ns {
            self.whole.add_jitter(jitter_ns);
            self.window.add_jitter(jitter_ns);
        }
        let late = match arrival.one_way {
            Some(used) => {
                self.whole.add_delay(used, self.settings.deadline);
                self.window.add_delay(used, self.settings.deadline);
                used > self.settings.deadline
            }
            None => step.behind > self.settings.playout,
        };
        self.recovered += u64::from(arrival.recovered);
        self.track.insert(header.ssrc, header.seq, place, !late);
    }

    fn counts(&self) -> Counts {
        Counts {
            recovered: self.recovered,
            ..self.track.counts()
        }
    }

    fn quality(&self, counts: Counts, spread: &Spread) -> Quality {
        let known = spread.budget().map(|_| self.settings.deadline);
        // The playout buffer waits for the deadline. Where delays are not known: half a round
        // trip, and the buffer.
        let network_and_buffer = known.unwrap_or_else(|| {
            let half = self.round_trip.unwrap_or(Duration::ZERO).div(2);
            half + self.settings.playout
        });
        Quality::of(counts, spread, &self.settings, network_and_buffer)
    }
}

#[cfg(test)]
mod tests;
