//! Bulk relay: what a transfer's source, relays and sinks do, without the bytes' way in and out.
//! [Liu04 §III]
//!
//! ```text
//!   source                        relay                         sink
//!   Encoder ─▶ Window ─▶ stripes ─▶ Fan ─▶ stripes ─▶ Reassembly ─▶ Decoder ─▶ files
//!                ▲                                        │
//!                └──────────────── Ack ◀──────────────────┘
//! ```
//!
//! What is copied is one stream of entries ([`stream`]), cut into frames that know their offset. A
//! segment has one connection or several; any frame may take any of them. A relay holds what its
//! next segments do not take yet, up to [`QUEUE_BYTES`] for each, and then reads nothing more: the
//! slowest segment governs. A sink puts frames in order ([`reassembly`]). The source sends at most
//! [`WINDOW_BYTES`] and [`FRAMES_MAX`] frames beyond what every sink has written, so whatever a sink has to
//! hold for a missing frame has room, and no relay can be stuck for it.
//!
//! A sink that already has some of it says what ([`resume`]); the source compares with what it has
//! itself, and sends the rest.
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

/// What the source sends at most beyond what the slowest sink has written: 1 Gbit/s over a path of
/// 250 ms is 31 MB. It bounds what a sink holds for a missing frame, too, beside the frames' own cost.
pub const WINDOW_BYTES: u64 = 32 << 20;
/// Frames that a source sends at most beyond what the slowest sink has written. Choice: their cost is twice
/// the window then; of the longest kind it has 128.
pub const FRAMES_MAX: usize = 2 * WINDOW_BYTES as usize / FRAME_COST_BYTES;
/// What a relay holds for one of its next segments: 16 frames of the longest kind (4 MiB), 32 ms at
/// 1 Gbit/s, so that a segment does not run dry while a thread has to wait for its turn.
pub const QUEUE_BYTES: usize = 16 * (FRAME_BYTES_MAX + FRAME_COST_BYTES);
/// What a frame costs beside its bytes where it waits, for its buffers and its place in a queue: so many
/// are counted with each, so that a stream of tiny frames takes no more memory than another.
pub const FRAME_COST_BYTES: usize = 128;
/// Bytes that are sent at most to find out what a segment carries, unless configured: two seconds of
/// 1 Gbit/s, and of slower ones as much as the time permits.
pub const PROBE_BYTES: u64 = 256 << 20;
/// So long it may take at most: four levels of 1, 2, 4 and 8 connections with round trips of 100 ms.
pub const PROBE_US: u64 = 10_500_000;
/// Connections side by side at most, while it is found out: as many as a plan gives a segment, since it
/// claims no more than what was seen.
pub const PROBE_STRIPES: u8 = 8;
/// Transfers that a node has a part in at the same time, unless configured: with a segment of one
/// connection on each side these are 64 × (4 MiB + 2 frames) = 288 MiB at the very most.
pub const TRANSFERS: usize = 64;
