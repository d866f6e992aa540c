//! Coded repair: a sliding-window random linear code over GF(256), in the manner of RFC 8681.
//!
//! ```text
//!   originals   1  2  3  4  5  6  7  8  9 10      leave at once, unchanged
//!   repair               └──────────┴─── a·5 + b·6 + c·7 + d·8      follows, over the window
//! ```
//!
//! A repair packet is a linear combination of the packets of a window. The coefficients follow from its
//! seed and the packets' numbers, so it carries none. A receiver that has all packets of the window but one
//! has that one; of several that are missing it needs as many repair packets as there are missing ones.
//!
//! What is combined is a packet as it was sent, with the length and a check in the place of its lane number
//! (which the receiver knows), padded with zeros to the longest of the window. So packets may differ in length.
//!
//! What is found must have the time taken off that has passed since it should have come. That a repair packet tells: it names the ages
//! of its packets, of all if they are few, else of some, with others close to them.
//!
//! ```text
//!   | header, 20 bytes | check | length | payload | zeros |
//! ```
//!
//! A decoder holds [`KEPT`] originals and [`SPAN`] unknowns, whatever it is given.

mod decoder;
mod encoder;
mod field;
#[cfg(test)]
mod tests;

pub use decoder::{Decoder, DecoderStats};
pub use encoder::{Encoder, Share};

use wire::HEADER_BYTES;

/// The numbers that one repair packet reaches over, and the most packets that are unknown at a time. Choice: what
/// 20 calls send in 64 ms, the usual time that a continent's link leaves; the work per repair packet is bounded by it.
pub const SPAN: usize = wire::control::REPAIR_SPAN;
/// Originals that a decoder keeps: what is in a window may be a span behind the newest one.
pub const KEPT: usize = 2 * SPAN;

/// Where the lane number stands in a packet: last in its header.
const TAG_AT: usize = HEADER_BYTES - TAG;
/// Bytes of it: a check, and the length of the packet.
const TAG: usize = 3;

/// What stands in the place of a packet's lane number when it is combined.
fn tag(packet: &[u8]) -> [u8; TAG] {
    let (front, rest) = (&packet[..TAG_AT], &packet[HEADER_BYTES..]);
    let sum = |bytes: &[u8]| bytes.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    let [high, low] = (packet.len() as u16).to_be_bytes();
    [sum(front).wrapping_add(sum(rest)), high, low]
}

/// Two packets are the same but for their lane numbers.
pub(super) fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len()
        && one.len() >= HEADER_BYTES
        && one[..TAG_AT] == other[..TAG_AT]
        && one[HEADER_BYTES..] == other[HEADER_BYTES..]
}

/// The coefficient of packet `seq` in the repair packet of this seed, never zero. Seeds begin again after 256 repair packets:
/// no packet is in so many, since there are at most two per packet and a window of [`SPAN`].
fn coefficient(seed: u8, seq: u64) -> u8 {
    // What the wire has of a number: both ends know as much.
    let seq = seq as u32 & 0x00ff_ffff;
    let mut x = seq.wrapping_mul(0x9e37_79b1) ^ u32::from(seed).wrapping_mul(0x85eb_ca6b);
    x = (x ^ x >> 15).wrapping_mul(0x2c1b_3c6d);
    x = (x ^ x >> 12).wrapping_mul(0x297a_2d39);
    x ^= x >> 15;
    (x % 255) as u8 + 1
}
