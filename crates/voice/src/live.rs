//! Live quality: how a listener hears one direction of one call, computed from its RTP in transit.
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
//! RTP alone is enough; RTCP adds the round trip ([`RoundTrip`]) and the report of the receiving end ([`Reported`]). If
//! the one-way delay of a packet is known, as it is at the overlay's egress, the packet is *late* when this delay
//! exceeds the deadline. Otherwise it is late when it arrives later than the playout delay after the quickest packet of
//! the last half minute. Late packets count as missed, as lost packets do: the codec conceals both.
//!
//! Memory is constant, about 1 kB per direction, whatever arrives. A sequence number that is 128 behind the newest is
//! settled: a packet that still arrives with it is a stray.

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

/// Length of a window: 250 packets of 20 ms, so that one lost packet counts as 0.4 %.
pub const WINDOW: Duration = Duration::from_secs(5);

/// The known properties of a direction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// The codec. With `None` there is no rating (video, or a codec without values).
    pub codec: Option<Codec>,
    /// Ticks of the timestamps per second; 0 means 8000.
    pub clock_hz: u32,
    /// Duration of the speech in a packet.
    pub frame: Duration,
    /// The call's deadline from entry to exit: later packets are not played.
    pub deadline: Duration,
    /// How long the receiver's buffer waits beyond the quickest packet, if one-way delays are not known.
    pub playout: Duration,
}

impl Default for Settings {
    /// Returns G.711 in packets of 20 ms, with the 100 ms from entry to exit of [Amir06 §II-C], and a playout buffer of
    /// three packets.
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
    /// Replaces the codec and the clock with those of a format in a description.
    #[must_use]
    pub fn with_format(self, format: &PayloadFormat<'_>) -> Self {
        Self {
            codec: Codec::from_name(format.name),
            clock_hz: format.clock_hz,
            ..self
        }
    }
}

/// How a packet arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Arrival {
    /// The time from entry to exit, if it is known.
    pub one_way: Option<Duration>,
    /// Whether it was lost on a hop and retransmitted there.
    pub recovered: bool,
}

/// The quality of one window.
#[derive(Debug, Clone, PartialEq)]
pub struct Window {
    /// When the window began.
    pub start: Time,
    /// The quality of the packets that arrived within the window. A packet that fills a gap of an earlier window counts
    /// here as received, so the sums of expected and received packets over all windows are those of the whole.
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
    /// When the window began, and the counts at that time.
    window_start: Option<Time>,
    before: Counts,
    last: Option<Time>,
    /// The first packet of a possible new stream.
    held: Option<Held>,
}

#[derive(Debug, Clone, Copy)]
struct Held {
    now: Time,
    header: Header,
    arrival: Arrival,
}

impl Reception {
    /// Creates a direction in which nothing has arrived yet.
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

    /// Takes a packet. Returns the window that ended before it, if one did.
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

    /// Handles the passage of time. Returns the window that ended, if one did. Windows without any packet are not
    /// reported.
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

    /// Returns the quality since the beginning.
    #[must_use]
    pub fn whole(&self) -> Quality {
        self.quality(self.counts(), &self.whole)
    }

    /// Sets the round trip between the ends, which RTCP reported. It gives the delay if nothing else does.
    pub fn set_round_trip(&mut self, round_trip: Duration) {
        self.round_trip = Some(round_trip);
    }

    /// Switches to the format in which the sender continues. The rating, also of the whole call, uses its codec from
    /// now on.
    pub fn set_format(&mut self, format: &PayloadFormat<'_>) {
        self.set_settings(self.settings.with_format(format));
    }

    /// Replaces the known properties of the direction. The rating, also of the whole call, uses them from now on.
    pub fn set_settings(&mut self, settings: Settings) {
        if settings.clock_hz != self.settings.clock_hz {
            self.clock.restart();
        }
        self.settings = settings;
    }

    /// Returns when the last packet arrived: silence since then is no loss yet, and may be a pause in speech.
    #[must_use]
    pub fn last_packet(&self) -> Option<Time> {
        self.last
    }

    /// Returns the source of the stream.
    #[must_use]
    pub fn ssrc(&self) -> Option<u32> {
        self.track.ssrc()
    }

    /// Returns the highest sequence number, with the number of wraps in the bits above 16.
    #[must_use]
    pub fn highest_seq(&self) -> Option<u64> {
        self.track.highest()
    }

    /// Handles a packet that does not continue the stream. Two such packets that continue each other are a new stream
    /// (RFC 3550 A.1): the sender restarted, or another source took over.
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
        // The playout buffer waits for the deadline. If delays are not known, the sum is half a round trip and the
        // buffer.
        let network_and_buffer = known.unwrap_or_else(|| {
            let half = self.round_trip.unwrap_or(Duration::ZERO).div(2);
            half + self.settings.playout
        });
        Quality::of(counts, spread, &self.settings, network_and_buffer)
    }
}

#[cfg(test)]
mod tests;
