//! Bulk relay: the logic of a transfer's source, relays and sinks. Reading and writing of the bytes is not part of it.
//! [Liu04 §III]
//!
//! ```text
//!   source                        relay                         sink
//!   Encoder ─▶ Window ─▶ stripes ─▶ Fan ─▶ stripes ─▶ Reassembly ─▶ Decoder ─▶ files
//!                ▲                                        │
//!                └──────────────── Ack ◀──────────────────┘
//! ```
//!
//! A transfer copies one stream of entries ([`stream`]), cut into frames that carry their offset. A segment has one
//! connection or several, and a frame may take any of them. For each of its next segments, a relay holds up to
//! [`QUEUE_BYTES`] that the segment has not taken yet. When a queue is full, the relay stops reading: the slowest
//! segment sets the pace. A sink puts the frames in order ([`reassembly`]). The source sends at most [`WINDOW_BYTES`]
//! and [`FRAMES_MAX`] frames beyond what every sink has written. Therefore, a sink always has room for the frames that
//! wait for a missing one, and no relay can get stuck because of a missing frame.
//!
//! A sink that already has a part of the data reports it ([`resume`]). The source compares the report with its own
//! data, and sends the rest.
//!
//! Nothing here touches a socket, a file or a clock: `host::relay` moves the bytes.
#![forbid(unsafe_code)]

pub mod pace;
mod proof;
pub mod reassembly;
pub mod resume;
pub mod stage;
pub mod stream;
pub mod striping;
pub mod window;

pub use pace::Pacer;
pub use proof::proof;
pub use reassembly::Reassembly;
pub use stage::Fan;
pub use stream::{Decoder, Encoder, Event, StreamError, Walk};
pub use striping::{Carried, Look, Striping};
pub use window::Window;
use wire::relay::FRAME_BYTES_MAX;

/// How many bytes the source sends at most beyond what the slowest sink has written. 1 Gbit/s over a path of 250 ms is
/// 31 MB. It also bounds what a sink holds while a frame is missing, in addition to the frames' own cost.
pub const WINDOW_BYTES: u64 = 32 << 20;
/// How many frames a source sends at most beyond what the slowest sink has written. Choice: the cost of so many frames
/// is twice the window. A window of frames of the longest kind has 128.
pub const FRAMES_MAX: usize = 2 * WINDOW_BYTES as usize / FRAME_COST_BYTES;
/// How many bytes a relay holds for each of its next segments: 16 frames of the longest kind (4 MiB). That is 32 ms at
/// 1 Gbit/s, so that a segment does not run dry while a thread waits for its turn.
pub const QUEUE_BYTES: usize = 16 * (FRAME_BYTES_MAX + FRAME_COST_BYTES);
/// The memory that a waiting frame takes in addition to its bytes, for its buffers and its place in a queue. It is
/// counted with each frame, so that a stream of tiny frames takes no more memory than any other stream.
pub const FRAME_COST_BYTES: usize = 128;
/// How many bytes a probe sends at most to measure what a segment carries, unless configured: two seconds at 1 Gbit/s.
/// On slower segments the time limit ([`PROBE_US`]) comes first.
pub const PROBE_BYTES: u64 = 256 << 20;
/// How long such a probe may take at most: four levels of 1, 2, 4 and 8 connections with round trips of 100 ms.
pub const PROBE_US: u64 = 10_500_000;
/// How many parallel connections a probe uses at most: as many as a plan gives a segment, because a plan claims no more
/// than what was measured.
pub const PROBE_STRIPES: u8 = 8;
/// How many transfers a node takes part in at the same time, unless configured. With a segment of one connection on
/// each side these take at most 64 × (4 MiB + 2 frames) = 288 MiB.
pub const TRANSFERS: usize = 64;
