//! Gateways: programs that know nothing of overlays, carried over one.
//!
//! ```text
//!   ssh ──TCP──▶ forward::Near ──stream──▶ node ══ overlay ══ node ──stream──▶ forward::Exit ──TCP──▶ sshd
//! ```
//! A gateway is an ordinary client of its node. Its connections have threads of their own, two for
//! each, so nothing here runs on the engine's thread, and one that stalls stalls itself only. An
//! exit serves the targets that its operator lists, and none by default.
#![forbid(unsafe_code)]

pub mod forward;
pub mod pump;

pub use forward::{Event, Exit, Near};
