//! Gateways: they carry programs that know nothing of overlays over an overlay.
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
//! A gateway is an ordinary client of its node. Each of its connections has two threads of its own. So nothing here
//! runs on the engine's thread, and a connection that stalls only stalls itself. An exit serves only the targets that
//! its operator lists, and none by default.
#![forbid(unsafe_code)]

mod accept;
pub mod alive;
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
pub mod seldom;
pub mod sip;
pub mod slots;
pub mod socks;
pub mod special;
pub mod srt;
pub mod video;

pub use forward::{Event, Exit, ExitHandle, Near};
