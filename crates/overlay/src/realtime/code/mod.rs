//! Coded repair: a sliding-window random linear code over GF(256), in the manner of RFC 8681.
//!
//! ```text
//!   originals   1  2  3  4  5  6  7  8  9 10      leave at once, unchanged
//!   repair               └──────────┴─── a·5 + b·6 + c·7 + d·8      follows, over the window
//! ```
//!
//! A repair packet is a linear combination of the packets of a window. The coefficients follow from its
//! seed and the packets' numbers, so it carries none. If a receiver lacks one packet of the window, one repair packet
//! restores it. If several packets are missing, the receiver needs as many repair packets as there are missing ones.
//!
//! The sender combines packets as they were sent, except that a check and the length replace the lane number (which
//! the receiver knows). It pads each packet with zeros to the longest of the window, so packets may differ in length.
//!
//! The receiver must reduce the remaining time of a restored packet by the time since the packet should have arrived.
//! Therefore a repair packet contains the ages of its packets: of all if they are few, otherwise of some that are close
//! to the others.
//!
//! ```text
//!   | header, 20 bytes | check | length | payload | zeros |
//! ```
//!
//! A decoder holds at most [`KEPT`] originals and [`SPAN`] unknowns, whatever input it gets.

mod decoder;
mod encoder;
mod field;
#[cfg(test)]
mod tests;

pub use decoder::{Decoder, DecoderStats};
pub use encoder::{Encoder, Share};

use wire::HEADER_BYTES;

/// How many numbers one repair packet reaches over, and the maximum number of unknown packets at a time. Choice: 20
/// calls send this many packets in 64 ms, the usual time left on a link across a continent. The value bounds the work
/// per repair packet.
pub const SPAN: usize = wire::control::REPAIR_SPAN;
/// Number of originals that a decoder keeps. A window reaches over a span, and may itself be a span behind the newest
/// packet.
pub const KEPT: usize = 2 * SPAN;

/// Position of the lane number in a packet: at the end of its header.
const TAG_AT: usize = HEADER_BYTES - TAG;
/// Bytes of the lane number. A check and the length of the packet replace it when packets are combined.
const TAG: usize = 3;

/// Returns the check and the length that replace a packet's lane number when it is combined.
fn tag(packet: &[u8]) -> [u8; TAG] {
    let (front, rest) = (&packet[..TAG_AT], &packet[HEADER_BYTES..]);
    let sum = |bytes: &[u8]| bytes.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    let [high, low] = (packet.len() as u16).to_be_bytes();
    [sum(front).wrapping_add(sum(rest)), high, low]
}

/// Returns true if two packets differ at most in their lane numbers.
pub(super) fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len()
        && one.len() >= HEADER_BYTES
        && one[..TAG_AT] == other[..TAG_AT]
        && one[HEADER_BYTES..] == other[HEADER_BYTES..]
}

/// Returns the coefficient of packet `seq` in the repair packet of this seed. It is never zero. Seeds repeat after 256
/// repair packets. No packet is in that many, because there are at most two repair packets per packet, and a window has
/// at most [`SPAN`] packets.
fn coefficient(seed: u8, seq: u64) -> u8 {
    // The wire carries these 24 bits of a number, so both ends know them.
    let seq = seq as u32 & 0x00ff_ffff;
    let mut x = seq.wrapping_mul(0x9e37_79b1) ^ u32::from(seed).wrapping_mul(0x85eb_ca6b);
    x = (x ^ x >> 15).wrapping_mul(0x2c1b_3c6d);
    x = (x ^ x >> 12).wrapping_mul(0x297a_2d39);
    x ^= x >> 15;
    (x % 255) as u8 + 1
}
