//! `sinew test-call`: synthetic voice calls to another node, over the overlay and directly, at the same
//! time.
//!
//! ```text
//!   caller ── client socket ── node ~~~ overlay ~~~ node ── client socket, port 17 ── answerer
//!     └─────────────────────── UDP, HOST:7717 ──────────────────────────────────────────┘
//! ```
//!
//! The caller sends voice packets on a call's schedule; the answerer returns each at once, as large
//! as it came, with the times at which it heard this packet and the 23 before it. So the caller
//! knows what arrived there even if the answer got lost, and both directions are judged, each as
//! the calls of the demonstration are but without speech.
//!
//! The packets are as large as those of a codec ([`Codec`]). Those of the overlay tell whether they were
//! lost on some hop and recovered there, so the loss before recovery is known too. What is ten
//! seconds old is counted and forgotten, so calls may last for a day.
//!
//! The two clocks have nothing to do with each other. Their difference is taken, every ten seconds
//! anew, from the packet with the shortest round trip, which is assumed to have spent as long on
//! the way there as on the way back: a path that is slower in one direction shows half of that
//! difference in each.
//!
//! - [`run`] calls, and gives a [`CallResult`]: a table by `Display`, and [`CallResult::json`].
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
use base::NodeAddr;
use client::{Aim, Node, RouteBy};
use std::io;

/// Virtual port at which calls are answered: the first that is not kept for nodes' own services.
pub const ANSWER_PORT: u16 = 17;
/// UDP port at which calls are answered directly, if no other is chosen.
pub const DIRECT_PORT: u16 = 7717;
/// Most calls at once: 100 send 5 000 packets/s on each path, and as many come back.
const CALLS_MAX: u32 = 100;
/// Longest call: a day. Timestamps of Opus, 48 000 in a second, have 32 bits: 24.8 hours.
const SECONDS_MAX: u32 = 86_400;
/// Packets of a call that are judged together: ten seconds. Clocks drift apart by 50 µs per second
/// at worst (50 ppm), so by half a millisecond in this time.
pub(crate) const WINDOW_PACKETS: u32 = 500;

/// What [`run`] is asked to do.
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
    /// Their length.
    pub seconds: u32,
    /// What routes them over the overlay, if not expected latency.
    pub routing: Option<RouteBy>,
    /// What may stay lost of them, if not what each node's settings say.
    pub aim: Aim,
    /// What the packets are like.
    pub codec: Codec,
    /// After so many seconds, rounded up to tens, it is reported what came through since the last
    /// time.
    pub every_s: Option<u32>,
    /// What is told meanwhile, on standard error.
    pub progress: Progress,
}

/// Why a call failed, or could not be answered.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// An option that cannot be; the command was misused.
    #[error("{0}")]
    Option(String),
    /// The host of the direct path cannot be used.
    #[error("cannot use {address} for direct calls: {error}")]
    Direct {
        /// Host and port.
        address: String,
        /// What the system said.
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
        if !self.to.is_node() {
            return bad(format!("{} is not the address of a node", self.to));
        }
        Ok(())
    }
}
