//! The real-time lane of a link: packets are forwarded at once, even out of order. This hop requests lost packets as
//! long as the answer can still be in time. [Amir06 §IV-A]
//!
//! ```text
//!   sender                                            receiver
//!   History ── record ──▶ 7  8  9  10 ──────────────▶ Receiver ── New ──▶ forwarded at once
//!     ring of copies         lost: 8                    gap at 9: 8 is missing
//!     │                                                 │ poll_nack
//!     answer ◀──────────────── Nack {strike 1, 8} ──────┘
//!     └── Send ───────────────▶ 8 ────────────────────▶ Recovered, 3T + Δ after it was sent
//! ```
//!
//! The life of a loss: the first packet after the gap reveals it. The receiver requests the packet at once, and again
//! after a round trip without an answer (earlier, if it would be too late then), as long as an answer would still
//! arrive before the packet's own deadline. The last request that fits is sent several times, and so is its answer, 2 ms
//! apart ([`LastRound`]). The sender answers from its history if the packet can still be in time on the rest of its
//! path, within a budget that is a share of the originals. Nothing waits: a packet that is not recovered is simply
//! missing.
//!
//! If delays vary so much that an answer is in time only occasionally, and the link loses packets, the sender does not
//! wait for requests: it sends each packet a second time, 2 ms later ([`Ahead`]).
//!
//! Repair packets ([`Encoder`], [`Decoder`]) cover what requests cannot save in time. They are linear combinations of
//! the last packets; the [`Pilot`] decides how many the losses need.
//!
//! When the lane falls silent, no later packet can reveal the loss of the last ones. So the sender reports its latest
//! number by a few tail probes.
//!
//! Lane sequence numbers count the packets of one direction of one session of a link. They have
//! 64 bits in memory and 24 on the wire; both sides start at zero on [`History::reset`] and
//! [`Receiver::reset`].

mod ahead;
mod code;
mod cover;
mod end;
mod history;
mod last_round;
mod missing;
mod pilot;
mod receiver;
mod ring;
mod tail;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod window;

pub use ahead::{Ahead, Rest};
pub use code::{Decoder, DecoderStats, Encoder, KEPT, SPAN, Share};
pub(crate) use end::{EndReceiver, EndSender, Of, Sealed as SealedPacket};
pub use history::{Answer, History, HistoryStats};
pub use last_round::LastRound;
pub use missing::{RoundTrip, Strike};
pub use pilot::{Aims, Link as LaneLink, Losses, Pilot, Plan, Protect, Reason};
pub use pilot::{SLACK_LEAST, TOLERANCE};
pub use pilot::{repair as predict_repair, requests as predict_requests};
pub use receiver::{Arrival, NACK_SEQS, Receiver, ReceiverStats};

#[cfg(test)]
use tests::voice as tests_packet;

use base::Duration;

/// The maximum number of strikes in any setting. Five strikes on a link of 2 ms round trip end within 5 × (2 + 1) = 15
/// ms; on longer links the deadline ends them sooner.
pub const MAX_STRIKES: u8 = 5;

/// The time until a repeated request, and until the next copy of an answer, if the deadline permits, so that a short
/// burst of losses does not take all of them.
pub(crate) const REPEAT_AFTER: Duration = Duration::from_millis(2);

/// The default of [`Settings::retransmit_ratio`]. Choice: at 10 % loss both ways two strikes, the last one answered
/// twice, cost about 0.1 + 0.02 × 2 = 0.14 retransmissions per original; one answered twice 0.2. The rest is for bursts,
/// as is the depth.
const RETRANSMIT_RATIO: f64 = 0.5;

/// The longest time for which a history follows deadlines. Choice: a second, which is five strikes on a hop of 200 ms.
/// A lane of 100 Mbit/s fills [`HISTORY_BYTES`] in 1.3 s.
pub const COVER_MOST: Duration = Duration::from_secs(1);

/// The maximum size of a history: 150 ms at 600 000 packets/s of 183 bytes are 16.5 MB, just under 16 MiB.
pub const HISTORY_BYTES: usize = 16 << 20;

/// How a lane recovers losses. The two ends of a link may differ: each value concerns one side only.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// How often the receiver requests one packet, 0 to [`MAX_STRIKES`].
    pub strikes: u8,
    /// The last request that fits the deadline, and its answer, are sent several times: see [`LastRound`].
    pub redundant_last: bool,
    /// How many tail probes the sender sends per silence.
    pub tail_probes: u8,
    /// Retransmissions per original that the sender allows.
    pub retransmit_ratio: f64,
    /// Retransmissions that the sender may save up.
    pub retransmit_burst: f64,
    /// Packets that a request cannot save often enough, because round trips vary, are sent twice if the link loses
    /// packets.
    pub copies_ahead: bool,
    /// The protection against losses that requests cannot repair, and its maximum cost.
    pub aims: Aims,
    /// The minimum age at which a packet leaves the history.
    pub cover: Duration,
    /// The history lasts as long as the longest deadline of the lane's packets, up to this time. Zero for a history
    /// that always lasts [`Settings::cover`].
    pub cover_most: Duration,
    /// The maximum number of bytes of packets in the history.
    pub history_bytes: usize,
    /// The maximum number of packets in the history.
    pub history_packets: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings::modern()
    }
}

impl Settings {
    /// The default: several strikes within the deadline, the last one repeated, and tail probes.
    pub fn modern() -> Settings {
        Settings {
            strikes: MAX_STRIKES,
            redundant_last: true,
            tail_probes: 2,
            retransmit_ratio: RETRANSMIT_RATIO,
            retransmit_burst: 256.0,
            copies_ahead: true,
            aims: Aims::default(),
            cover: Duration::from_millis(150),
            cover_most: COVER_MOST,
            history_bytes: HISTORY_BYTES,
            history_packets: u64::MAX,
        }
    }

    /// The paper's protocol: one request per packet, no timers, 1000 packets of history that expire after the largest
    /// delay that the codec tolerates. [Amir06 §IV-A, §V-C]
    pub fn paper() -> Settings {
        Settings {
            strikes: 1,
            redundant_last: false,
            tail_probes: 0,
            // Choice: the paper gives no number; Spines of its time allowed 20 % and saved up 500 / 5 retransmissions.
            retransmit_ratio: 0.2,
            retransmit_burst: 100.0,
            copies_ahead: false,
            // The paper has only requests and answers.
            aims: Aims {
                protect: Protect::Requests,
                ..Aims::default()
            },
            cover: Duration::from_millis(100),
            cover_most: Duration::ZERO,
            history_bytes: HISTORY_BYTES,
            history_packets: 1000,
        }
    }
}
