//! The messages of a reliable lane. The receiver reports to the sender what has arrived, how much more it accepts, and
//! at which rate data arrives. The sender reports numbers that will never come. [Amir03 §IV] [Papadimitriou06 §3.1]
//!
//! ```text
//!  ReliableAck
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-----------------------------------------------+---------------+
//! |     next: all numbers before it have come     |     end ..    |
//! +-------------------------------+---------------+---------------+
//! |  .. end: one above the highest|            window             |
//! +-------------------------------+---------------+---------------+
//! |      newest: the number that came last        | its hold, us..|
//! +-----------------------------------------------+---------------+
//! |                .. its hold, us                |  repeated ..  |
//! +---------------+-------------------------------+---------------+
//! |  .. repeated  |           received            |  missing ..   |
//! +---------------+-------------------------------+---------------+
//! |  .. missing   |                          ..
//! +---------------+
//!
//!      next                                            end
//!  ......|  missing | received | missing | received     |--- window ---|
//!  come     range 1               range 0, told first      may be sent
//!
//!  ReliableSkip
//! +-----------------------------------------------+
//! |    first: nothing before it will be sent      |
//! +-----------------------------------------------+
//!
//!  ReliableRate
//! +---------------------------------------------------------------+
//! |   rate at which data of the lane arrived lately, in kbit/s    |
//! +---------------------------------------------------------------+
//! ```
//!
//! Ranges go down from `end`: a count of numbers that have arrived, then a count of missing numbers below them. The
//! highest ranges come first, so what does not fit was already in earlier acknowledgements. The sender may send numbers
//! below `end` + `window`. The hold is the time since the newest packet came: now - its sending time - hold is the
//! round trip, however long the receiver waited. Packets that came twice show the sender that it took late packets for
//! lost.

use crate::bytes::{Reader, Writer};
use crate::data::LaneSeq;
use crate::{Full, Malformed};

/// Number of bytes of one range.
pub(super) const ACK_RANGE_BYTES: usize = 4;

/// The fixed part of a [`ReliableAck`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckHead {
    /// All numbers before this one have arrived.
    pub next: LaneSeq,
    /// The number after the highest one that has arrived.
    pub end: LaneSeq,
    /// How many numbers from `end` on the receiver accepts.
    pub window: u16,
    /// The number of the packet that arrived last.
    pub newest: LaneSeq,
    /// The time from its arrival to the writing of this message, in microseconds.
    pub hold_us: u32,
    /// Number of packets that arrived more than once; wraps.
    pub repeated: u16,
}

/// The packets that have arrived over a reliable lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReliableAck<'a> {
    /// The fixed part.
    pub head: AckHead,
    ranges: &'a [u8],
}

/// The sender of a reliable lane has given up everything before `first`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReliableSkip {
    /// The first number that is still valid.
    pub first: LaneSeq,
}

/// The rate at which data of a reliable lane arrives, as its receiver measured it over the last wave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReliableRate {
    /// The rate in kbit/s.
    pub kbps: u32,
}

/// Returns the distance from one lane number up to another.
const fn distance(from: LaneSeq, to: LaneSeq) -> u32 {
    to.value().wrapping_sub(from.value()) & 0x00ff_ffff
}

impl AckHead {
    /// Number of bytes of the fixed part.
    pub const BYTES: usize = 17;

    /// Returns the wire format of the fixed part.
    pub fn to_bytes(self) -> [u8; AckHead::BYTES] {
        let mut bytes = [0; AckHead::BYTES];
        let mut w = Writer::new(&mut bytes);
        self.emit(&mut w).expect("the array has its length");
        bytes
    }

    fn emit(&self, w: &mut Writer<'_>) -> Result<(), Full> {
        w.u24(self.next.value())?;
        w.u24(self.end.value())?;
        w.u16(self.window)?;
        w.u24(self.newest.value())?;
        w.u32(self.hold_us)?;
        w.u16(self.repeated)
    }
}

impl<'a> ReliableAck<'a> {
    /// Reads a body. Ranges that are empty, or reach below `next`, give [`Malformed::Value`].
    pub fn parse(body: &'a [u8]) -> Result<ReliableAck<'a>, Malformed> {
        let mut r = Reader::new(body);
        let head = AckHead {
            next: LaneSeq::new(r.u24()?),
            end: LaneSeq::new(r.u24()?),
            window: r.u16()?,
            newest: LaneSeq::new(r.u24()?),
            hold_us: r.u32()?,
            repeated: r.u16()?,
        };
        let ranges = r.rest();
        if !ranges.len().is_multiple_of(ACK_RANGE_BYTES) {
            return Err(Malformed::Length);
        }
        let ack = ReliableAck { head, ranges };
        let mut covered = 0u64;
        for (received, missing) in ack.ranges() {
            if received == 0 || missing == 0 {
                return Err(Malformed::Value);
            }
            covered += u64::from(received) + u64::from(missing);
        }
        match covered <= u64::from(distance(head.next, head.end)) {
            true => Ok(ack),
            false => Err(Malformed::Value),
        }
    }

    /// Returns pairs of counts from `end` down: numbers that have arrived, and missing numbers below them.
    pub fn ranges(&self) -> impl Iterator<Item = (u16, u16)> + 'a {
        let (ranges, _) = self.ranges.as_chunks::<ACK_RANGE_BYTES>();
        let pair = |&[a, b, c, d]: &[u8; ACK_RANGE_BYTES]| {
            (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))
        };
        ranges.iter().map(pair)
    }

    /// Returns what has arrived above `next`, as first number and count, from the highest down.
    pub fn received(&self) -> impl Iterator<Item = (LaneSeq, u16)> + 'a {
        let mut top = self.head.end.value();
        self.ranges().map(move |(received, missing)| {
            let first = top.wrapping_sub(u32::from(received));
            top = first.wrapping_sub(u32::from(missing));
            (LaneSeq::new(first), received)
        })
    }
}

impl ReliableSkip {
    /// Number of bytes of the body.
    pub const BYTES: usize = 3;

    /// Reads a body.
    pub fn parse(body: &[u8]) -> Result<ReliableSkip, Malformed> {
        let mut r = Reader::new(body);
        let first = LaneSeq::new(r.u24()?);
        r.finish()?;
        Ok(ReliableSkip { first })
    }

    /// Returns the wire format of the body.
    pub const fn to_bytes(self) -> [u8; ReliableSkip::BYTES] {
        let [_, a, b, c] = self.first.value().to_be_bytes();
        [a, b, c]
    }
}

impl ReliableRate {
    /// Number of bytes of the body.
    pub const BYTES: usize = 4;

    /// Reads a body.
    pub fn parse(body: &[u8]) -> Result<ReliableRate, Malformed> {
        let mut r = Reader::new(body);
        let kbps = r.u32()?;
        r.finish()?;
        Ok(ReliableRate { kbps })
    }

    /// Returns the wire format of the body.
    pub const fn to_bytes(self) -> [u8; ReliableRate::BYTES] {
        self.kbps.to_be_bytes()
    }
}
