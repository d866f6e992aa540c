//! A repair packet of the real-time lane, and the report of its receiver to the sender.
//!
//! ```text
//!  Repair
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-----------------------------------------------+-+-+-----------+
//! |      lane sequence number of the newest       |M|0|  span - 1 |
//! +---------------+-------------------------------+-+-+-----------+
//! |     seed      |  members, if M ...            |  ages ...     |
//! +---------------+-------------------------------+---------------+
//! |  sum of the packets, each times its coefficient ...           |
//! +---------------------------------------------------------------+
//!
//!  LaneReport
//! +---------------------------------------------------------------+
//! |                           received                            |
//! +---------------------------------------------------------------+
//! |                             lost                              |
//! +-------------------------------+-------------------------------+
//! |          run, 1/256           |
//! +-------------------------------+
//! ```
//!
//! The packets are those from the newest down, as many as the span says. With M, only the packets whose bits are set:
//! as many bits as the span, from the newest down, in whole bytes, each from its lowest bit up. The first and the last
//! bit are set, not all bits are set, and bits beyond the span are zero.
//!
//! An age is the time in milliseconds, rounded up, from the sending of a packet to this message; 255 means more than
//! can be expressed. Each packet has an age if there are up to eight packets. If there are more, every second one from
//! the newest down has an age, or every third one, and so on, so that there are at most eight ages.
//!
//! The combination uses the overlay header and the payload of each packet as they were sent, with three bytes in place
//! of the lane sequence number: the sum of all other bytes modulo 256, and the length as a u16. Shorter packets are
//! padded with zeros to the longest packet. The coefficient of a number in GF(256) (modulo x^8 + x^4 + x^3 + x^2 + 1)
//! follows from the seed:
//!
//! ```text
//! x = number * 0x9e3779b1 xor seed * 0x85ebca6b            modulo 2^32
//! x = (x xor x >> 15) * 0x2c1b3c6d
//! x = (x xor x >> 12) * 0x297a2d39
//! coefficient = (x xor x >> 15) modulo 255 + 1
//! ```
//!
//! A neighbor gets repair packets only if its hellos say that it accepts them.

use crate::bytes::{Reader, Writer};
use crate::data::{HEADER_BYTES, LaneSeq};
use crate::{Full, Malformed};

/// The maximum number of sequence numbers that one repair packet covers.
pub const REPAIR_SPAN: usize = 64;
/// The maximum number of bytes in front of the sum.
pub const REPAIR_FRONT_BYTES: usize = FIXED_BYTES + REPAIR_SPAN / 8 + REPAIR_AGES;
/// The maximum number of ages in one repair packet. Choice: all packets of a single call that can still be of use have
/// one, up to 160 ms; if more packets fit into that time, they are close to each other.
pub const REPAIR_AGES: usize = 8;
/// The age of a packet that is older than can be expressed.
pub const REPAIR_AGE_UNKNOWN: u8 = 255;
const FIXED_BYTES: usize = 5;
const HAS_MEMBERS: u8 = 0x80;
const SPAN_BITS: u8 = 0x3f;

/// A combination of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repair<'a> {
    /// The number of the newest packet in the combination.
    pub newest: LaneSeq,
    /// The seed of its coefficients.
    pub seed: u8,
    /// The packets in the combination: bit k for the packet k numbers before the newest.
    pub members: u64,
    /// The ages in milliseconds of the packets that [`Repair::aged`] returns.
    pub ages: &'a [u8],
    /// The sum of the packets' multiples.
    pub sum: &'a [u8],
}

impl<'a> Repair<'a> {
    /// Reads a body.
    pub fn parse(body: &'a [u8]) -> Result<Repair<'a>, Malformed> {
        let mut r = Reader::new(body);
        let newest = LaneSeq::new(r.u24()?);
        let shape = r.u8()?;
        let seed = r.u8()?;
        if shape & !(HAS_MEMBERS | SPAN_BITS) != 0 {
            return Err(Malformed::Value);
        }
        let span = u32::from(shape & SPAN_BITS) + 1;
        let all = u64::MAX >> (u64::BITS - span);
        let mut members = all;
        if shape & HAS_MEMBERS != 0 {
            let mut bits = [0; 8];
            let given = r.take(span.div_ceil(8) as usize)?;
            bits[..given.len()].copy_from_slice(given);
            members = u64::from_le_bytes(bits);
            let ends = 1 | 1 << (span - 1);
            if members & ends != ends || members & !all != 0 || members == all {
                return Err(Malformed::Value);
            }
        }
        let ages = r.take(Repair::aged(members).count())?;
        let sum = r.rest();
        if sum.len() < HEADER_BYTES {
            return Err(Malformed::Short);
        }
        Ok(Repair {
            newest,
            seed,
            members,
            ages,
            sum,
        })
    }

    /// Returns the members that have ages, from the newest down, each as its distance in numbers from the newest.
    pub fn aged(members: u64) -> impl Iterator<Item = u32> {
        let step = (members.count_ones() as usize).div_ceil(REPAIR_AGES).max(1);
        let all = (0..u64::BITS).filter(move |behind| members >> behind & 1 == 1);
        all.step_by(step)
    }

    /// Writes the bytes in front of the sum. Returns their length: at most [`REPAIR_FRONT_BYTES`].
    ///
    /// # Errors
    /// [`Full`] if `out` is too short, if the newest packet is not a member, or if the number of ages differs from that
    /// of [`Repair::aged`].
    pub fn emit_front(
        newest: LaneSeq,
        seed: u8,
        members: u64,
        ages: &[u8],
        out: &mut [u8],
    ) -> Result<usize, Full> {
        if members & 1 == 0 || ages.len() != Repair::aged(members).count() {
            return Err(Full);
        }
        let span = u64::BITS - members.leading_zeros();
        let is_whole = members.count_ones() == span;
        let shape = (span - 1) as u8 | if is_whole { 0 } else { HAS_MEMBERS };
        let mut w = Writer::new(out);
        w.u24(newest.value())?;
        w.u8(shape)?;
        w.u8(seed)?;
        if !is_whole {
            w.put(&members.to_le_bytes()[..span.div_ceil(8) as usize])?;
        }
        w.put(ages)?;
        Ok(w.len())
    }
}

/// The reception of the packets that the receiver of this message has sent. Totals wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneReport {
    /// Number of packets that arrived, including repaired ones.
    pub received: u32,
    /// Number of packets that did not arrive, or too late, in spite of all protection. It covers packets up to the last
    /// report: younger packets are still undecided.
    pub lost: u32,
    /// The mean length of a run of losses on the link, in 256ths of a datagram.
    pub run_256ths: u16,
}

impl LaneReport {
    /// Number of bytes of the body.
    pub const BYTES: usize = 10;

    /// Reads a body.
    pub fn parse(body: &[u8]) -> Result<LaneReport, Malformed> {
        let mut r = Reader::new(body);
        let report = LaneReport {
            received: r.u32()?,
            lost: r.u32()?,
            run_256ths: r.u16()?,
        };
        r.finish()?;
        Ok(report)
    }

    /// Returns the wire format of the body.
    pub fn to_bytes(self) -> [u8; LaneReport::BYTES] {
        let mut body = [0; LaneReport::BYTES];
        body[..4].copy_from_slice(&self.received.to_be_bytes());
        body[4..8].copy_from_slice(&self.lost.to_be_bytes());
        body[8..].copy_from_slice(&self.run_256ths.to_be_bytes());
        body
    }
}
