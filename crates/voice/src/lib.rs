//! Voice: the packets of a call, the sound that the listener hears, and the quality of that sound.
//!
//! ```text
//!  speech (wav, sample) ─> frames ─> g711 ──> packets ── the network, simulated or real ──┐
//!                             │                                                           │
//!                             │           playout: played / late / lost <── (seq, delay) ─┘
//!                             v                  v
//!                       score (PESQ) <── plc + g711: what was heard      emodel: R, MOS
//!                             └───────────────── call::Evaluation ──────────────┘
//!
//!  a gateway's calls:  sdp (offer, answer, steering) ──> media: ports, addresses, what goes where
//!                      rtp, rtcp, read in place ───────> live: loss, jitter, R and MOS as it goes
//! ```
//!
//! Sans-IO: the input is bytes and numbers, the output is samples and scores. The measure is that of [Amir06 §II]:
//! G.711 in 20 ms packets with packet-loss concealment, cut into 12 s intervals, each scored by PESQ against the
//! original. The crate also computes the E-model rating of [Papadimitriou06 §4.3], which counts delay as well.
#![forbid(unsafe_code)]

pub mod call;
pub mod emodel;
pub mod frames;
pub mod g711;
pub mod live;
pub mod media;
pub mod pair;
pub mod playout;
pub mod plc;
pub mod rtp;
pub mod sample;
pub mod score;
pub mod sdp;
pub mod ts;
pub mod wav;

/// Samples per second of all speech in this crate: telephone speech.
pub const SAMPLE_RATE_HZ: u32 = 8000;
