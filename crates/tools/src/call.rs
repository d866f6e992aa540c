//! `sinew test-call`: synthetic voice calls to another node, over the overlay and directly, at the same
//! time.
//!
//! ```text
//!   caller ── client socket ── node ~~~ overlay ~~~ node ── client socket, port 17 ── answerer
//!     └─────────────────────── UDP, HOST:7717 ──────────────────────────────────────────┘
//! ```
//!
//! The caller sends voice packets on a call's schedule. The answerer returns each packet at once, with the same size
//! and with the times at which it received this packet and the 23 before it. So the caller knows which packets arrived
//! there even if the answer was lost. Both directions are evaluated, each like the calls of the demonstration, but
//! without speech. The caller chooses the deadline, and sends it with each packet: the answer has the same.
//!
//! The packets are as large as those of a codec ([`Codec`]). Packets over the overlay carry the mark whether they were
//! lost on some hop and recovered there, so the loss before recovery is known too. Packets that are ten seconds old are
//! counted and forgotten, so calls may last for a day.
//!
//! The two clocks are not synchronized. Every ten seconds, the caller estimates their difference anew from the packet
//! with the shortest round trip. It assumes that this packet took as long in one direction as in the other: a path that
//! is slower in one direction shows half of that difference in each.
//!
//! - [`run`] makes the calls and returns a [`CallResult`]: a table by `Display`, and [`CallResult::json`].
//! - [`answer`] answers until the process is asked to end.

mod answerer;
mod caller;
mod clocks;
mod codec;
mod path;
mod probe;
mod result;
mod tally;

pub use answerer::{AnswerOptions, Answered, answer};
pub use caller::run;
pub use codec::{CODECS, Codec};
pub use result::{Better, BothWays, CallResult, CallScenario, Gain, Interval};
pub use tally::Direction;

use crate::progress::Progress;
use base::{Duration, NodeAddr};
use client::{Aim, Node, RouteBy};
use std::io;

/// Virtual port at which calls are answered: the first port that is not reserved for the nodes' own services.
pub const ANSWER_PORT: u16 = 17;
/// UDP port at which direct calls are answered, by default.
pub const DIRECT_PORT: u16 = 7717;
/// The deadline of calls, by default: that of the SIP gateway.
pub const DEADLINE: Duration = Duration::from_millis(150);
/// The shortest and the longest deadline that calls can have: those of the SIP gateway.
pub const DEADLINE_LEAST: Duration = Duration::from_millis(10);
/// See [`DEADLINE_LEAST`].
pub const DEADLINE_MOST: Duration = Duration::from_secs(5);
/// Most calls at once: 100 send 5 000 packets/s on each path, and receive as many.
const CALLS_MAX: u32 = 100;
/// Longest call: a day. Timestamps of Opus count 48 000 per second in 32 bits, which is 24.8 hours.
const SECONDS_MAX: u32 = 86_400;
/// Packets of a call that are evaluated together: ten seconds. Clocks drift apart by 50 µs per second at worst (50
/// ppm), which is half a millisecond in this time.
pub(crate) const WINDOW_PACKETS: u32 = 500;

/// The options of [`run`].
#[derive(Clone, Debug)]
pub struct CallOptions {
    /// The node to call from.
    pub node: Node,
    /// The node to call; `sinew test-call --answer` runs there.
    pub to: NodeAddr,
    /// Host and port of the answerer, for calls that do not use the overlay.
    pub direct: Option<String>,
    /// Calls in parallel, on each path.
    pub calls: u32,
    /// Length of the calls in seconds.
    pub seconds: u32,
    /// How long after its sending a packet is played, in both directions.
    pub deadline: Duration,
    /// The metric that routes the calls over the overlay; by default, expected latency.
    pub routing: Option<RouteBy>,
    /// The packet loss that may remain in the calls; by default, the settings of each node decide.
    pub aim: Aim,
    /// The codec whose packets the calls imitate.
    pub codec: Codec,
    /// Interval of the reports in seconds, rounded up to tens. Each report covers the time since the last one.
    pub every_s: Option<u32>,
    /// What is written to standard error during the calls.
    pub progress: Progress,
}

/// Why a call failed, or could not be answered.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// An option has an invalid value; the command was misused.
    #[error("{0}")]
    Option(String),
    /// The host of the direct path cannot be used.
    #[error("cannot use {address} for direct calls: {error}")]
    Direct {
        /// Host and port of the direct path.
        address: String,
        /// The error of the system.
        error: io::Error,
    },
    /// Nobody answers over the overlay.
    #[error(
        "nobody answers at {0}: run `sinew test-call --answer` there, and look whether there is a route \
         (`sinew ping {0}`)"
    )]
    NoAnswer(NodeAddr),
    /// The node's client interface failed.
    #[error(transparent)]
    Client(#[from] client::Error),
    /// The kernel refused something.
    #[error("the call failed: {0}")]
    Io(#[from] io::Error),
}

impl CallOptions {
    fn check(&self) -> Result<(), CallError> {
        let bad = |what: String| Err(CallError::Option(what));
        if !(1..=CALLS_MAX).contains(&self.calls) {
            return bad(format!("{} calls: choose 1 to {CALLS_MAX}", self.calls));
        }
        if !(1..=SECONDS_MAX).contains(&self.seconds) {
            return bad(format!("{} s: choose 1 to {SECONDS_MAX}", self.seconds));
        }
        if !(DEADLINE_LEAST..=DEADLINE_MOST).contains(&self.deadline) {
            let deadline = self.deadline;
            return bad(format!(
                "a deadline of {deadline}: choose {DEADLINE_LEAST} to {DEADLINE_MOST}"
            ));
        }
        if !self.to.is_node() {
            return bad(format!("{} is not the address of a node", self.to));
        }
        Ok(())
    }
}
