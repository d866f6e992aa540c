//! The reliable lane of a link: every packet arrives, in any order, at a rate that is fair to the
//! others on the path. [Amir03 §IV]
//!
//! ```text
//!   sender                                                      receiver
//!   Queue ── poll ──▶ Sender ── 7 8 9 10 ─────────────────────▶ Receiver ── New ──▶ forwarded at
//!   per flow,         copies until acknowledged   lost: 8        what has come      once, even
//!   round robin       window (congestion), pacing                                   out of order
//!      ▲                 ▲                                         │
//!      │ only under      └──────── ReliableAck {next 8, 9..=10} ◀──┘
//!      │ pressure            └── 8 again: three later transmissions have come
//! ```
//!
//! Life of a packet: it waits in the queue of its flow only while the window or the pace forbids to
//! send, gets the next lane number, and its copy is kept until an acknowledgement names it. It is
//! taken for lost when transmissions that left later have arrived: three of them, or any that left
//! a quarter of a round trip later. That holds for retransmissions too, so a second loss is found
//! like the first. The last packets before a silence have nobody behind them: after two round trips
//! one more packet is sent as a probe, and after a timeout everything is.
//!
//! A packet whose deadline would pass on the way is given up before it has a number. What has one is repeated
//! until it has come, for the receiver waits for it.
//!
//! A link of several paths has a window for each of them ([`Sender`]), so that bulk data takes all, each by what it
//! carries. What one overtakes on another path is not lost.
//!
//! How much may be in flight is the business of the [`congestion`] family. A packet that had to
//! wait for long carries a mark of congestion on, and the session at the exit tells the source.
//! [Amir03 §II]
//!
//! Back-pressure goes from hop to hop and is per destination: a node says how many packets to where may
//! be on their way to it, while too many wait there for its own lanes ([`Told`]). A lane keeps what is
//! held aside, and goes on with the rest; what comes to be held makes the node before it wait in turn,
//! up to the client. So a relay holds of each lane some 200 ms of what the lane carries, [`HELD_BYTES`]
//! in all from neighbours that listen, and [`QUEUE_BYTES`] per lane whoever sends; beside the copies of
//! what is in flight, [`WINDOW_MAX`] packets per lane at most.
//!
//! Lane numbers have 64 bits in memory and 24 on the wire; both sides start at zero on
//! [`Lane::restart`]. What is given up (it takes another way, for example) leaves a hole that the
//! sender closes by a [`wire::control::ReliableSkip`].

mod controls;
mod drain;
mod lane;
mod own_queue;
mod pacer;
mod queue;
mod rate;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;
mod told;

pub use lane::{Lane, LaneStats};
pub use queue::{Full, Packet, Toward};
pub use receiver::{Arrival, Receiver, ReceiverStats};
pub(crate) use sender::Open;
pub use sender::{Outgoing, RestOfPath, Sender, SenderStats};
pub use told::Told;

pub use congestion::Family;

use base::Duration;

/// The most numbers between the oldest packet that is missing and the highest that may come: their
/// distance stands in 16 bits on the wire.
pub const SPAN: u64 = u16::MAX as u64;

/// The largest window: 16 384 packets of 1400 bytes are 23 MB, 92 ms of 2 Gbit/s.
pub const WINDOW_MAX: usize = 16_384;

/// No loss cuts the window of a lane below this: a lost packet and the three behind it that tell, as
/// RFC 3042 has it. With less, a lane of few packets stands still after each loss. After a timeout
/// the window is one packet all the same.
const WINDOW_KEPT: f64 = 4.0;

/// Packets that wait for the window of one lane: with 1400 bytes each 5.7 MB, 46 ms of 1 Gbit/s.
pub const QUEUE_PACKETS: usize = 4_096;
/// And their bytes: long packets fill the one limit, short ones the other.
pub const QUEUE_BYTES: usize = 6 << 20;

/// What a relay takes of its neighbours' packets to wait for its lanes: then it closes their windows.
pub const HELD_BYTES: usize = 24 << 20;
/// Destinations that one neighbour holds.
pub const HOLDS_MAX: usize = 128;
/// A hold that is not told again ends after so long.
pub const HOLD_LIFE: Duration = Duration::from_millis(300);

/// A packet that waited for so long, or for half a round trip if that is longer, is marked. Choice:
/// long enough to keep the lane busy after the window of a session was cut, short beside what makes
/// people wait.
pub const MARK_SOJOURN: Duration = Duration::from_millis(20);
/// Unless fewer wait: a lane that repairs a loss has as many, and sources that made room for it would
/// leave it idle afterwards.
pub const MARK_LEAST: usize = 16;
/// And every packet while so much waits: half of what the queue holds.
pub const MARK_PACKETS: usize = QUEUE_PACKETS / 2;

/// An acknowledgement of a single packet in order waits for the next one for so long.
pub const ACK_DELAY: Duration = Duration::from_millis(2);
/// And at most so long where the packet before came as shortly ago: then a next one is to be expected in as long. Both
/// neighbours must know it, for the sender asks after a silence. Choice: that of streams; a lane with a packet in 20 ms
/// has half the acknowledgements, and what is sent alone is acknowledged at once as before. A lane with less than four packets
/// in its window would stand still meanwhile: its sender does not let them wait.
pub const ACK_WAIT: Duration = Duration::from_millis(25);

/// The most flows that one lane may behave like: what one neighbour may take of a path is bounded.
pub const FLOWS_MAX: usize = 64;

/// How a lane behaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The rule for the window. Choice: CUBIC, as the kernels of the hosts around have it; on short
    /// round trips it is as gentle as NewReno.
    pub family: Family,
    /// A lane that carries n flows behaves like n of them, up to this number; 1 is one flow
    /// whatever it carries. [Amir03 §IV] leaves it open.
    pub flows_max: usize,
    /// The window at the start, in packets.
    pub initial_window: f64,
    /// A loss that is not congestion ([`congestion::Causes`]) leaves the window as it is. Else each is taken for
    /// congestion, as [Amir03 §III] has it.
    pub spares_random_losses: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            family: Family::Cubic,
            flows_max: 1,
            initial_window: 10.0,
            spares_random_losses: true,
        }
    }
}

/// What the lane of one link does otherwise than its node's settings say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkSettings {
    /// The rule for the window.
    pub family: Option<Family>,
    /// The most flows that it behaves like.
    pub flows_max: Option<usize>,
    /// Whether a loss that is not congestion leaves the window as it is.
    pub spares_random_losses: Option<bool>,
}

impl Settings {
    /// The same, as one link has it.
    #[must_use]
    pub fn of_link(self, link: LinkSettings) -> Settings {
        Settings {
            family: link.family.unwrap_or(self.family),
            flows_max: link.flows_max.unwrap_or(self.flows_max),
            spares_random_losses: link
                .spares_random_losses
                .unwrap_or(self.spares_random_losses),
            ..self
        }
    }

    /// The paper's: one flow with the window of the TCPs of its time.
    pub fn paper() -> Settings {
        Settings {
            family: Family::NewReno,
            initial_window: 2.0,
            spares_random_losses: false,
            ..Settings::default()
        }
    }

    fn control(&self) -> congestion::Settings {
        congestion::Settings {
            initial_window: self.initial_window,
            minimum_window: WINDOW_KEPT / self.flows_max.max(1) as f64,
            max_window: WINDOW_MAX as f64,
            ..congestion::Settings::default()
        }
    }
}
