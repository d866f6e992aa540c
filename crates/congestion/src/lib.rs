//! The congestion control family behind one trait. It decides how much may be in flight. How the sender finds lost
//! segments and sends them again is not part of it.
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
//! Windows are counted in segments, as fractions, as in ns-2; a user that counts bytes multiplies by its own segment
//! size. Time is an argument, and there is no randomness: the same calls give the same windows.
//!
//! - [`Control`]: the trait. [`Family`] names the members and creates them; [`Settings`] are their parameters.
//! - [`mod@aimd`] is the window of Tahoe, Reno, NewReno, SACK and FACK. They differ in how they recover, and share this
//!   window, with the parameters α and β of the TCP-friendly family.
//! - [`mod@cubic`], [`mod@vegas`], [`mod@westwood`] (both kinds) and [`mod@real`] (TCP-Real) are the other windows.
//! - [`mod@bbr`] follows a model of the path, and it judges losses by what the path usually loses. [`mod@delivery`]
//!   makes its samples.
//! - [`Causes`] is no window: it distinguishes the path's own losses from congestion, for all members that take each
//!   loss for congestion.
//! - [`mod@queue`] is no window either: it distinguishes congestion from random losses by the delay.
//! - [`model`] computes the throughput of a window of this kind at a loss rate and a round trip.
//! - [`mod@brake`] is no window: it slows down a lane that never waits.
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
    /// When the acknowledgement arrived.
    pub now: Time,
    /// Number of segments that it newly acknowledges, cumulatively or selectively.
    pub segments: f64,
    /// The same amount in bytes of payload.
    pub bytes: u64,
    /// The round trip of a segment that was sent only once, if this acknowledgement measures one.
    pub rtt: Option<Duration>,
    /// Segments in flight before this acknowledgement.
    pub in_flight: f64,
    /// True if the window limited the sender, and not the application. A window that is not used proves nothing, so it
    /// does not grow [RFC 9438 §5.8].
    pub limited: bool,
    /// The rate at which data arrived, as the receiver measured it [Papadimitriou06 §3.1].
    pub receive_rate_bps: Option<u64>,
    /// How much longer packets took than the quickest packet ever, as the receiver measured it. This is the least value
    /// of a wave, so it reflects queues and not bursts.
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
/// `in_flight`, where a method takes it, is the value *from* which the window is cut: the segments outstanding [RFC
/// 5681 §3.1, equation 4]. If the application limits a sender and its window does not grow meanwhile, or if a sender
/// follows ns-2, it passes its effective window instead.
pub trait Control: core::fmt::Debug {
    /// New data was acknowledged while nothing is being recovered, or after a timeout.
    fn on_ack(&mut self, ack: &Acked);
    /// The path is congested: recovery begins, and the control changes window and threshold.
    fn on_congestion(&mut self, now: Time, in_flight: f64, why: Congestion);
    /// Everything that was in flight when recovery began has arrived.
    fn on_recovered(&mut self, _now: Time) {}
    /// An acknowledgement of something new arrived, in recovery or not. The losses that it reveals are already counted.
    /// This is for controls that use a model of the path.
    fn on_delivered(&mut self, _told: &Delivered) {}
    /// During recovery, this number of segments was acknowledged. A duplicate acknowledgement counts as 0: it shows
    /// that a segment has arrived, but not which. Windows do not grow by it; estimates count it.
    fn on_arrived(&mut self, _now: Time, _segments: f64) {}
    /// A sender without selective acknowledgements takes back `deflate` segments of its window,
    /// because a partial acknowledgement shows that they left the path [RFC 6582 §3.2, step 3].
    fn on_partial(&mut self, _deflate: f64) {}
    /// The retransmission timer expired.
    fn on_timeout(&mut self, now: Time, in_flight: f64);
    /// The last timeout was wrong: what was in flight has arrived after all, only late. `window` and `threshold` are
    /// the values before the timeout [RFC 4015; the whole window is restored at once, as in Linux].
    fn undo_timeout(&mut self, window: f64, threshold: f64);
    /// Returns whether what arrives shows that the path has room. In that case the window will stay, and the sender
    /// must not back off its timer [Papadimitriou06 §2]. The sender asks before [`Control::on_timeout`].
    fn aborts_timeout(&self) -> bool {
        false
    }
    /// The sender was silent for `idle` and is about to send again.
    fn on_idle(&mut self, _idle: Duration, _rto: Duration) {}
    /// Returns how many segments may be in flight, at least 1.
    fn window(&self) -> f64;
    /// Returns the rate at which to send, in segments per second, if the control sets it. Otherwise the sender sends
    /// one window per round trip.
    fn pace(&self) -> Option<f64> {
        None
    }
    /// Returns the window at which slow start ends.
    fn threshold(&self) -> f64;
    /// Returns true while the window still doubles each round trip.
    fn in_slow_start(&self) -> bool {
        self.window() < self.threshold()
    }
}

#[cfg(test)]
mod tests;
