//! Gateways: programs that know nothing of overlays, carried over one.
//!
//! ```text
//!   ssh ──TCP──▶ forward::Near ──stream──▶ node ══ overlay ══ node ──stream──▶ forward::Exit ──TCP──▶ sshd
//!   curl ──SOCKS──▶ socks::Socks ──stream──▶ node ══ overlay ══ node ──stream──▶ beyond::Beyond ──TCP──▶ web server
//!   phone ──SIP──▶ sip::Gateway ──▶ node ══ overlay ══ node ──▶ sip::Gateway ──SIP──▶ phone
//!   phone ──RTP/UDP──▶ media::Plane ──▶ node ══ overlay ══ node ──▶ media::Plane ──RTP/UDP──▶ phone
//!   program ──IP multicast──▶ multicast::Service ──▶ node ══ overlay ══ nodes ──▶ Services ──IP multicast──▶ programs
//!   encoder ──SRT──▶ srt::Service ──▶ node ══ overlay ══ nodes ──▶ Services ──SRT──▶ decoders
//!   encoder ──RIST──▶ rist::Service ──▶ node ══ overlay ══ nodes ──▶ Services ──RIST──▶ decoders
//!   source ══RTP by two ways══▶ rtp::Service ──▶ node ══ overlay ══ nodes ──▶ Services ══RTP by two ways══▶ receivers
//!   receiver ──AMT/UDP──▶ amt::Service ──▶ node ══ overlay ══ node ──▶ multicast::Service ──IP multicast──▶ program
//!   client on another host ══TLS══ remote::Gate ──Unix socket──▶ node
//! ```
//! A gateway is an ordinary client of its node. Its connections have threads of their own, two for
//! each, so nothing here runs on the engine's thread, and one that stalls stalls itself only. An
//! exit serves the targets that its operator lists, and none by default.
#![forbid(unsafe_code)]

mod accept;
pub mod allow;
pub mod amt;
pub mod beyond;
pub mod domains;
pub mod forward;
pub mod media;
pub mod multicast;
pub mod pump;
pub mod remote;
pub mod rist;
pub mod rtp;
pub mod sip;
pub mod slots;
pub mod socks;
pub mod special;
pub mod srt;
pub mod video;

pub use forward::{Event, Exit, ExitHandle, Near};
