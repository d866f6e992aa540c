//! The reliable lane of a link: every packet arrives, in any order, at a rate that is fair to the other traffic on the
//! path. [Amir03 §IV]
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
//! Life of a packet: it waits in the queue of its flow only while the window or the pace forbids sending. Then it gets
//! the next lane number, and the sender keeps its copy until an acknowledgement names it. The sender takes a packet for
//! lost when transmissions that left later have arrived: three of them, or any that left a quarter of a round trip
//! later. That holds for retransmissions too, so a second loss is found like the first. No later packet follows the
//! last packets before a silence. So after two round trips the sender sends one more packet as a probe, and after a
//! timeout it sends everything again.
//!
//! The sender gives up a packet whose deadline would pass on the way, before the packet has a number. It repeats a
//! packet that has a number until the packet has arrived, because the receiver waits for it.
//!
//! A link of several paths has a window for each of them ([`Sender`]), so that bulk data uses all paths, in proportion
//! to what each carries. A packet that is overtaken by packets of another path does not count as lost.
//!
//! The [`congestion`] family decides how much may be in flight. A packet that had to wait for long carries a mark of
//! congestion from there on, and the session at the exit reports it to the source. [Amir03 §II]
//!
//! Back-pressure goes from hop to hop and is per destination. While too many packets to a destination wait at a node
//! for its own lanes, the node tells its neighbour how many packets to that destination may be on their way to it
//! ([`Told`]). A lane puts the packets of such a destination aside, and continues with the others. If many packets are
//! put aside, the node before has to wait in turn, and so on up to the client. So a relay holds for each lane some 200
//! ms of what the lane carries. In all it holds [`HELD_BYTES`] from neighbours that obey, and [`QUEUE_BYTES`] per lane
//! whoever sends; in addition it holds the copies of the packets in flight, at most [`WINDOW_MAX`] packets per lane.
//!
//! Lane numbers have 64 bits in memory and 24 on the wire; both sides start at zero on [`Lane::restart`]. A packet that
//! is given up (because it takes another way, for example) leaves a hole, which the sender closes with a
//! [`wire::control::ReliableSkip`].

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

/// The most numbers between the oldest packet that is missing and the highest that may come. On the wire, their
/// distance has 16 bits.
pub const SPAN: u64 = u16::MAX as u64;

/// The largest window: 16 384 packets of 1400 bytes are 23 MB, 92 ms at 2 Gbit/s.
pub const WINDOW_MAX: usize = 16_384;

/// No loss cuts the window of a lane below this: a lost packet and the three behind it that show the loss (RFC 3042).
/// With less, a lane of few packets would stand still after each loss. After a timeout the window is one packet all the
/// same.
const WINDOW_KEPT: f64 = 4.0;

/// The most packets that wait for the window of one lane: with 1400 bytes each 5.7 MB, 46 ms at 1 Gbit/s.
pub const QUEUE_PACKETS: usize = 4_096;
/// The most bytes of these packets. Long packets reach this limit, short ones reach [`QUEUE_PACKETS`].
pub const QUEUE_BYTES: usize = 6 << 20;

/// Bytes of its neighbours' packets that a relay lets wait for its lanes. When there are more, it closes the
/// neighbours' windows.
pub const HELD_BYTES: usize = 24 << 20;
/// The most destinations that one neighbour can hold back.
pub const HOLDS_MAX: usize = 128;
/// A hold ends after this time unless the neighbour repeats it.
pub const HOLD_LIFE: Duration = Duration::from_millis(300);

/// The lane marks a packet that waited for this long, or for half a round trip if that is longer. Choice: this is long
/// enough to keep the lane busy after the window of a session was cut, and short compared with delays that people
/// notice.
pub const MARK_SOJOURN: Duration = Duration::from_millis(20);
/// The lane marks no packet while fewer than this wait. A lane that repairs a loss has as many waiting; if the sources
/// slowed down for that, they would leave the lane idle afterwards.
pub const MARK_LEAST: usize = 16;
/// The lane marks every packet while more than this many wait: half of what the queue holds.
pub const MARK_PACKETS: usize = QUEUE_PACKETS / 2;

/// How long the acknowledgement of a single packet in order waits for the next packet.
pub const ACK_DELAY: Duration = Duration::from_millis(2);
/// How long an acknowledgement waits at most if the packet before came no longer ago than this: then the next packet is
/// expected within the same time. Both neighbours must know this value, because the sender asks after a silence.
/// Choice: the value of streams. A lane with one packet in 20 ms needs half the acknowledgements, and a packet that is
/// sent alone is acknowledged after [`ACK_DELAY`]. A lane with fewer than four packets in its window would stand still
/// meanwhile, so its sender does not let acknowledgements wait.
pub const ACK_WAIT: Duration = Duration::from_millis(25);

/// The most flows that one lane may behave like. It bounds the share of a path that one neighbour can take.
pub const FLOWS_MAX: usize = 64;

/// The settings of a lane.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The rule for the window. Choice: CUBIC, which the kernels of other hosts use; on short round trips it is as
    /// gentle as NewReno.
    pub family: Family,
    /// A lane that carries n flows behaves like n flows, up to this number. With 1 it behaves like one flow whatever it
    /// carries. [Amir03 §IV] leaves this open.
    pub flows_max: usize,
    /// The window at the start, in packets.
    pub initial_window: f64,
    /// Whether a loss that is not congestion ([`congestion::Causes`]) leaves the window as it is. If false, each loss
    /// counts as congestion, as in [Amir03 §III].
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

/// Settings of the lane of one link that differ from its node's settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkSettings {
    /// The rule for the window.
    pub family: Option<Family>,
    /// The most flows that the lane behaves like.
    pub flows_max: Option<usize>,
    /// Whether a loss that is not congestion leaves the window as it is.
    pub spares_random_losses: Option<bool>,
}

impl Settings {
    /// These settings with those of one link in their place.
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

    /// The settings of the paper: one flow with the window of the TCPs of its time.
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
