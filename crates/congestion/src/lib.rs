//! The congestion control family behind one trait: how much may be in flight, never how what was
//! lost is found and sent again.
//!
//! ```text
//!   sender (reliable link, session, simulated TCP)         a member of the Family
//!     an acknowledgement of something new  ── on_ack ────────▶  window, threshold
//!     first loss of a window               ── on_congestion ─▶  cut, once per window
//!     everything of that window arrived    ── on_recovered ──▶
//!     nothing heard for an RTO             ── on_timeout ────▶  back to one segment
//!     in flight < window()  ⇒ send; pace at window() / srtt
//! ```
//!
//! Windows are counted in segments, as fractions, as ns-2 does; a user of bytes multiplies by its
//! own segment size. Time is an argument, and there is no randomness: the same calls give the same
//! windows.
//!
//! - [`Control`]: the trait; [`Family`] names the members and makes them; [`Settings`] are theirs.
//! - [`mod@aimd`] is the window of Tahoe, Reno, NewReno, SACK and FACK, which differ in how they
//!   recover and share this window, with the parameters α and β of the TCP-friendly family.
//! - [`mod@cubic`], [`mod@vegas`], [`mod@westwood`] (both kinds) and [`mod@real`] (TCP-Real) are the
//!   others.
//! - [`mod@bbr`] goes by a model of the path, and losses are to it what they are to the path. Its
//!   samples are made by [`mod@delivery`].
//! - [`Causes`] is no window: it tells losses of the path's own from congestion, for all members that take
//!   each for congestion.
//! - [`mod@queue`] is none either: it tells congestion from random losses by the delay.
//! - [`model`] says what a window of this kind comes to at a loss rate and a round trip.
//! - [`mod@brake`] is no window: it slows a lane down that never waits.
#![forbid(unsafe_code)]

use base::{Duration, Time};
use delivery::Delivered;

pub mod aimd;
mod baseline;
pub mod bbr;
pub mod brake;
mod cause;
pub mod cubic;
pub mod delivery;
mod family;
pub mod model;
pub mod queue;
pub mod real;
mod roughness;
pub mod vegas;
pub mod westwood;
mod window;

pub use cause::Causes;
pub use family::{Family, Settings, UnknownFamily};

/// One acknowledgement of new data, as the sender sees it.
#[derive(Clone, Copy, Debug)]
pub struct Acked {
    /// When it came.
    pub now: Time,
    /// Segments that it newly acknowledges, cumulatively or selectively.
    pub segments: f64,
    /// The same in bytes of payload.
    pub bytes: u64,
    /// Round trip of a segment that was sent only once, if this acknowledgement measures one.
    pub rtt: Option<Duration>,
    /// Segments in flight before this acknowledgement.
    pub in_flight: f64,
    /// The window limited the sender, not the application. A window that nobody uses proves
    /// nothing, so it does not grow [RFC 9438 §5.8].
    pub limited: bool,
    /// The rate at which data arrived, as the receiver measured it [Papadimitriou06 §3.1].
    pub receive_rate_bps: Option<u64>,
    /// How much longer packets took than the quickest ever, as the receiver measured it: the least
    /// of a wave, so that it tells of queues and not of bursts.
    pub receive_jitter: Option<Duration>,
    /// The smoothed round trip of the connection.
    pub srtt: Duration,
}

/// Why the sender believes that the path is congested. Reported once per window of data, the
/// recovery epoch, and not once per packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// A segment is missing.
    Loss,
    /// A mark of congestion came back [RFC 3168].
    Explicit,
}

/// A rule for the congestion window.
///
/// `in_flight`, where a method takes it, is what the window is cut *from*: the segments outstanding
/// [RFC 5681 §3.1, equation 4]. A sender whose window does not grow while the application limits
/// it, or one that follows ns-2, passes its effective window instead.
pub trait Control: core::fmt::Debug {
    /// New data was acknowledged while nothing is being recovered, or after a timeout.
    fn on_ack(&mut self, ack: &Acked);
    /// The path is congested: recovery begins, and window and threshold change.
    fn on_congestion(&mut self, now: Time, in_flight: f64, why: Congestion);
    /// Everything that was in flight when recovery began has arrived.
    fn on_recovered(&mut self, _now: Time) {}
    /// An acknowledgement of something new, recovery or not, after what it shows to be lost was
    /// counted. For controls that work by a model of the path.
    fn on_delivered(&mut self, _told: &Delivered) {}
    /// While something is being recovered: so many segments are acknowledged, 0 by a duplicate, which
    /// says that one has arrived and not which. Windows do not grow by it; estimates count it.
    fn on_arrived(&mut self, _now: Time, _segments: f64) {}
    /// A sender without selective acknowledgements takes back `deflate` segments of its window,
    /// because a partial acknowledgement shows that they left the path [RFC 6582 §3.2, step 3].
    fn on_partial(&mut self, _deflate: f64) {}
    /// The retransmission timer expired.
    fn on_timeout(&mut self, now: Time, in_flight: f64);
    /// There was no reason for the last timeout: what was in flight has come after all, only late. `window` and
    /// `threshold` are those of before [RFC 4015; all of the window at once, as Linux has it].
    fn undo_timeout(&mut self, window: f64, threshold: f64);
    /// Asked before [`Control::on_timeout`]: what arrives says that the path has room, so the window
    /// will stay, and the timer is not to be backed off [Papadimitriou06 §2].
    fn aborts_timeout(&self) -> bool {
        false
    }
    /// The sender was silent for `idle` and is about to send again.
    fn on_idle(&mut self, _idle: Duration, _rto: Duration) {}
    /// How many segments may be in flight, at least 1.
    fn window(&self) -> f64;
    /// Segments per second at which to send, if the control says so: else the window in a round trip.
    fn pace(&self) -> Option<f64> {
        None
    }
    /// The window at which slow start ends.
    fn threshold(&self) -> f64;
    /// The window still doubles each round trip.
    fn in_slow_start(&self) -> bool {
        self.window() < self.threshold()
    }
}

#[cfg(test)]
mod tests;
