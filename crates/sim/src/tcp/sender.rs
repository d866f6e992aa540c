//! The sending half of a connection: the data that is buffered and in flight, the timer, and the window.
//!
//! ```text
//!   segments   0 … acked │ acked+1 … next-1 │ next … end-1 │
//!              forgotten │   in flight      │  written     │
//!                                     ▲ a timeout sets next back to acked+1: go back n
//! ```
//!
//! This module has what all TCPs have in common. [`super::recovery`] defines how each of them reacts to a duplicate or
//! partial acknowledgement. Segment numbers are signed, as ns-2's are: -1 is "none yet".

use super::packet::{Ack, Segment};
use super::recovery::Recovery;
use super::rto::Rto;
use super::settings::Settings;
use base::{Duration, Time};
use congestion::delivery::Stamp;
use congestion::{Acked, Congestion, Control};
use std::collections::VecDeque;

/// The end of the data that an unlimited application has written.
const ENDLESS: i64 = i64::MAX / 4;
/// Number of duplicate acknowledgements that indicate a loss.
pub(crate) const DUPACKS: i64 = 3;
/// The weight of a new sample in the fine smoothed round trip.
const SRTT_WEIGHT: f64 = 0.125;

/// The counters of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Segments, or datagrams, including retransmissions.
    pub segments: u64,
    /// Segments that were retransmitted.
    pub again: u64,
    /// Losses found by acknowledgements.
    pub recoveries: u64,
    /// Losses found by the timer.
    pub timeouts: u64,
    /// Losses of both kinds that left the window unchanged: the control took them for errors of the medium.
    pub forgiven: u64,
    /// Messages that the application wrote.
    pub written: u64,
    /// Messages dropped because the send buffer was full.
    pub refused: u64,
}

/// The data of one segment as it moves from socket to socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Data {
    pub(crate) number: u32,
    pub(crate) written: Time,
    pub(crate) last: bool,
}

/// The cause of the last cut of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    None,
    Duplicates,
    Timeout,
    /// Recovery after duplicates is over.
    Exited,
}

/// A segment that is not yet acknowledged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    data: Data,
    pub(crate) sent: Time,
    pub(crate) times: u32,
    /// For RACK: where its last transmission is, the number of that transmission, and what was known when it was sent.
    pub(crate) place: Place,
    pub(crate) order: u64,
    pub(crate) stamp: Stamp,
}

/// Where the last transmission of a segment is believed to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The segment was not transmitted yet.
    Waiting,
    InFlight,
    Lost,
    Arrived,
}

#[derive(Debug)]
pub(crate) struct Sender {
    pub(crate) to: u32,
    pub(crate) flow: u32,
    pub(crate) settings: Settings,
    pub(crate) control: Box<dyn Control + Send>,
    pub(crate) recovery: Recovery,
    /// The buffered segments; the first one is `acked + 1`.
    slots: VecDeque<Slot>,
    /// Whether the application writes an endless file, which is cut into segments as they are sent.
    is_file: bool,
    numbered: u32,

    pub(crate) acked: i64,
    /// `acked`, except with SACK, which does not advance it during recovery.
    pub(crate) last_ack: i64,
    pub(crate) next: i64,
    /// The highest segment that was ever sent.
    pub(crate) sent: i64,
    pub(crate) end: i64,
    /// Recovery lasts until this segment is acknowledged.
    pub(crate) recover: i64,
    pub(crate) dupacks: i64,
    /// Number of segments that have left the path according to duplicates: they inflate the window.
    pub(crate) inflation: i64,
    pub(crate) action: Action,
    advertised: i64,

    pub(crate) rto: Rto,
    pub(crate) timer: Option<Time>,
    /// When the pace lets the next segment leave.
    pub(crate) paced: Option<Time>,
    /// The segment whose round trip is measured, and when it was sent.
    pub(crate) timed: Option<(i64, Time)>,
    srtt: Option<Duration>,
    wave: u32,
    wave_end: i64,
    /// Segments to put on the wire.
    pub(crate) out: Vec<Segment>,
    pub(crate) counts: Sent,
}

impl Sender {
    /// Creates a sender. `phase`, between 0 and 1, is the phase of the host's clock.
    pub(crate) fn new(to: u32, flow: u32, settings: Settings, phase: f64) -> Sender {
        Sender {
            to,
            flow,
            control: settings.family.control(settings.control_settings()),
            recovery: Recovery::of(&settings),
            rto: Rto::new(settings.timer, phase),
            settings,
            slots: VecDeque::new(),
            is_file: false,
            numbered: 0,
            acked: -1,
            last_ack: -1,
            next: 0,
            sent: -1,
            end: 0,
            recover: 0,
            dupacks: 0,
            inflation: 0,
            action: Action::None,
            advertised: i64::MAX,
            timer: None,
            paced: None,
            timed: None,
            srtt: None,
            wave: 0,
            wave_end: 0,
            out: Vec::new(),
            counts: Sent::default(),
        }
    }

    /// Takes a message of `segments` segments that the application writes.
    pub(crate) fn write_message(&mut self, now: Time, segments: u32) {
        self.counts.written += 1;
        if self.room() < i64::from(segments) {
            self.counts.refused += 1;
            return;
        }
        for left in (0..segments).rev() {
            self.push(Data {
                number: self.numbered,
                written: now,
                last: left == 0,
            });
            self.numbered = self.numbered.wrapping_add(1);
        }
        self.send_more(now, i64::MAX);
    }

    /// Takes a segment's data from a relay. There must be room.
    pub(crate) fn hand_on(&mut self, now: Time, data: Data) {
        self.push(data);
        self.send_more(now, i64::MAX);
    }

    /// Opens a file without an end for the application.
    pub(crate) fn open_file(&mut self, now: Time) {
        self.is_file = true;
        self.end = ENDLESS;
        self.send_more(now, i64::MAX);
    }

    /// Ends the file after the data that has been sent.
    pub(crate) fn end_file(&mut self) {
        self.is_file = false;
        self.end = self.sent + 1;
    }

    /// Returns how many segments fit into the send buffer.
    pub(crate) fn room(&self) -> i64 {
        i64::from(self.settings.send_buffer) - (self.end - self.acked - 1)
    }

    /// Handles an acknowledgement.
    pub(crate) fn on_ack(&mut self, now: Time, ack: &Ack) {
        if ack.acked > self.sent {
            // The acknowledgement names a segment that was never sent.
            return;
        }
        let window = i64::from(ack.window);
        let is_update = window > self.advertised && ack.acked == self.last_ack;
        if ack.acked >= self.last_ack {
            self.advertised = window;
        }
        if is_update && ack.blocks_len == 0 {
            // The receiver's application has read data: this is no information about losses.
            return self.send_more(now, i64::MAX);
        }
        if ack.acked >= self.wave_end {
            self.wave = self.wave.wrapping_add(1);
            self.wave_end = self.next;
        }
        self.recover_by(now, ack);
    }

    /// Handles the expiry of the retransmission timer.
    pub(crate) fn on_timer(&mut self, now: Time) {
        self.timer = None;
        if self.acked == self.sent {
            return self.on_idle(now);
        }
        self.counts.timeouts += 1;
        self.action = Action::Timeout;
        self.before_timeout(now);
        let window = self.effective_window();
        let aborted = self.control.aborts_timeout();
        self.counts.forgiven += u64::from(aborted);
        self.control.on_timeout(now, window);
        if !aborted {
            self.rto.back_off();
        }
        self.set_timer(now);
        if !matches!(self.recovery, Recovery::Rack(_)) {
            self.next = self.acked + 1;
        }
        self.timed = None;
        self.send_more(now, i64::MAX);
    }

    /// Handles a timer that expires while nothing is in flight: either there was nothing to send, or the receiver
    /// accepts nothing and the sender probes it again.
    fn on_idle(&mut self, now: Time) {
        if self.next < self.end && self.window_max() == 0 {
            self.output(now, self.next);
            self.next += 1;
            self.rto.back_off();
            return;
        }
        let rto = self.rto.timeout();
        self.control.on_idle(rto, rto);
        self.recover = self.sent;
        self.action = Action::Timeout;
        self.dupacks = 0;
    }

    /// Returns the smaller of the control's and the receiver's window, in segments with their fraction.
    pub(crate) fn effective_window(&self) -> f64 {
        let inflated = self.control.window() + self.inflation as f64;
        inflated.min(self.window_max() as f64)
    }

    /// Returns the same window in whole segments.
    pub(crate) fn window(&self) -> i64 {
        (self.control.window() as i64 + self.inflation).min(self.window_max())
    }

    /// Returns the largest window that the settings and the receiver allow.
    pub(crate) fn window_max(&self) -> i64 {
        i64::from(self.settings.window).min(self.advertised)
    }

    /// Cuts the window and begins recovery.
    pub(crate) fn cut(&mut self, now: Time) {
        self.counts.recoveries += 1;
        self.action = Action::Duplicates;
        let (window, before) = (self.effective_window(), self.control.window());
        self.control.on_congestion(now, window, Congestion::Loss);
        self.counts.forgiven += u64::from(self.control.window() >= before);
    }

    /// Sends what the window allows, in order; at most `burst` segments.
    pub(crate) fn send_in_order(&mut self, now: Time, burst: i64) {
        let limit = self.end.min(self.acked + 1 + self.window());
        let limit = limit.min(self.next.saturating_add(burst));
        while self.next < limit {
            self.output(now, self.next);
            self.next += 1;
        }
    }

    /// Sends a new segment on a first or second duplicate [RFC 3042].
    pub(crate) fn send_one(&mut self, now: Time) {
        let ahead = self.next - self.acked;
        let within = ahead as f64 <= self.control.window() + self.dupacks as f64;
        if self.settings.limited_transmit
            && within
            && ahead <= self.window_max()
            && self.next < self.end
        {
            self.output(now, self.next);
            self.next += 1;
        }
    }

    /// Puts a segment on the wire.
    pub(crate) fn output(&mut self, now: Time, seq: i64) {
        let nothing_in_flight = self.acked == self.sent;
        let place = (seq - self.acked - 1) as usize;
        while self.is_file && self.slots.len() <= place {
            let data = Data {
                number: self.numbered,
                written: now,
                last: true,
            };
            self.numbered = self.numbered.wrapping_add(1);
            self.slots.push_back(Slot::of(data));
        }
        if matches!(self.recovery, Recovery::Rack(_)) {
            self.rack_sent(now, seq);
        }
        let Some(slot) = self.slots.get_mut(place) else {
            return;
        };
        slot.times += 1;
        slot.sent = now;
        self.out.push(Segment {
            to: self.to,
            flow: self.flow,
            seq,
            stamp: now,
            written: slot.data.written,
            number: slot.data.number,
            wave: self.wave,
            last: slot.data.last,
            datagram: false,
        });
        self.counts.segments += 1;
        if let Recovery::Vegas(vegas) = &mut self.recovery {
            vegas.on_output(now, seq, self.settings.window);
        }
        if seq > self.sent {
            self.sent = seq;
            self.timed.get_or_insert((seq, now));
        } else {
            self.counts.again += 1;
        }
        if self.timer.is_none() || nothing_in_flight {
            self.set_timer(now);
        }
    }

    /// Does what every TCP does when everything up to `ack` has arrived. Returns the report for the control, which the
    /// caller may pass on.
    pub(crate) fn on_new(&mut self, now: Time, ack: &Ack) -> Acked {
        let in_flight = (self.next - 1 - self.last_ack) as f64;
        let segments = (ack.acked - self.last_ack) as f64;
        let rtt = self.rtt_of(now, ack.acked);
        self.dupacks = 0;
        self.advance(ack.acked);
        self.last_ack = ack.acked;
        self.measure(now, ack.acked);
        self.set_timer(now);
        self.acknowledged(now, ack, segments, in_flight, rtt)
    }

    /// Returns the report for the control.
    pub(crate) fn acknowledged(
        &mut self,
        now: Time,
        ack: &Ack,
        segments: f64,
        in_flight: f64,
        rtt: Option<Duration>,
    ) -> Acked {
        if let Some(rtt) = rtt {
            let old = self.srtt.unwrap_or(rtt);
            let srtt = old.mul_f64(1.0 - SRTT_WEIGHT) + rtt.mul_f64(SRTT_WEIGHT);
            self.srtt = Some(srtt);
        }
        let known = ack.rate_kbps > 0;
        Acked {
            now,
            segments,
            bytes: (segments as u64) * self.settings.payload_bytes() as u64,
            rtt,
            in_flight,
            limited: self.settings.grows_unused
                || in_flight + 1.0 > self.effective_window().floor(),
            receive_rate_bps: known.then(|| u64::from(ack.rate_kbps) * 1000),
            receive_jitter: known.then(|| Duration::from_micros(u64::from(ack.jitter_us))),
            srtt: self.srtt.unwrap_or(Duration::ZERO),
        }
    }

    /// Forgets all segments up to `acked`.
    pub(crate) fn advance(&mut self, acked: i64) {
        let gone = (acked - self.acked).max(0) as usize;
        self.slots.drain(..gone.min(self.slots.len()));
        self.acked = self.acked.max(acked);
        self.next = self.next.max(acked + 1);
    }

    /// Ends the measurement of a round trip if `acked` covers it.
    pub(crate) fn measure(&mut self, now: Time, acked: i64) {
        if let Some((seq, sent)) = self.timed
            && acked >= seq
        {
            self.timed = None;
            self.rto.relax();
            self.rto.sample(now, now.since(sent));
        }
    }

    /// Returns the round trip of a segment that was sent only once.
    pub(crate) fn rtt_of(&self, now: Time, seq: i64) -> Option<Duration> {
        let slot = self.slot(seq)?;
        (slot.times == 1).then(|| now.since(slot.sent))
    }

    pub(crate) fn slot(&self, seq: i64) -> Option<&Slot> {
        self.slots.get(usize::try_from(seq - self.acked - 1).ok()?)
    }

    pub(crate) fn slot_mut(&mut self, seq: i64) -> Option<&mut Slot> {
        let place = usize::try_from(seq - self.acked - 1).ok()?;
        self.slots.get_mut(place)
    }

    /// Returns the smoothed round trip, in fine time.
    pub(crate) fn srtt(&self) -> Duration {
        self.srtt.unwrap_or_default()
    }

    /// Sends again when the pace allows it.
    pub(crate) fn on_pace(&mut self, now: Time) {
        self.paced = None;
        self.send_more(now, i64::MAX);
    }

    pub(crate) fn set_timer(&mut self, now: Time) {
        self.timer = Some(now + self.rto.timeout());
    }

    fn push(&mut self, data: Data) {
        self.slots.push_back(Slot::of(data));
        self.end += 1;
    }
}

impl Slot {
    fn of(data: Data) -> Slot {
        Slot {
            data,
            sent: Time::ZERO,
            times: 0,
            place: Place::Waiting,
            order: 0,
            stamp: Stamp::default(),
        }
    }
}
