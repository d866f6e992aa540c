//! Segments and acknowledgements as datagrams of the simulated network. Nothing else uses this format: it carries the
//! fields of ns-2's headers in fewer bytes than the 40 of IP and TCP that a segment's size on the wire includes.
//!
//! ```text
//!  segment   kind 1 │ to 4 │ flow 4 │ sequence 4 │ stamp 8 │ written 8 │ number 4 │ wave 2 │ 0 …
//!  ack       kind 1 │ to 4 │ flow 4 │ acked 4 │ echo 8 │ window 4 │ rate 4 │ jitter 4 │ n 1 │ n · 8
//! ```

use super::settings::HEADER_BYTES;
use base::{Burst, Pool, Time};

/// Selective acknowledgements in one acknowledgement [RFC 2018: 3 with a timestamp].
pub(crate) const BLOCKS: usize = 3;

const SEGMENT: u8 = 1;
const SEGMENT_LAST: u8 = 2;
const DATAGRAM: u8 = 3;
const ACK: u8 = 4;
/// A packet of a partially reliable flow. The receiver acknowledges each one.
const PARTIAL: u8 = 5;

/// One segment, or a datagram of a flow without a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) to: u32,
    pub(crate) flow: u32,
    pub(crate) seq: i64,
    /// When this transmission was sent.
    pub(crate) stamp: Time,
    /// When the application wrote it.
    pub(crate) written: Time,
    /// Its number as the first sender counted it [Amir03 §III].
    pub(crate) number: u32,
    /// The round trip in which it was sent, for the receiver's measurement of the rate.
    pub(crate) wave: u32,
    /// Whether it ends a message.
    pub(crate) last: bool,
    pub(crate) datagram: bool,
}

impl Segment {
    /// Whether it belongs to a partially reliable flow: a datagram that is acknowledged.
    pub(crate) fn is_partial(&self) -> bool {
        self.datagram && !self.last
    }
}

/// One acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ack {
    pub(crate) to: u32,
    pub(crate) flow: u32,
    /// The last segment in order; -1 if none has arrived.
    pub(crate) acked: i64,
    /// The stamp of the segment that this acknowledges.
    pub(crate) echo: Time,
    /// Number of segments beyond the last in order that the receiver accepts. In a partially reliable flow, which has
    /// no order: the one-way delay of the packet in microseconds.
    pub(crate) window: u32,
    /// The rate at which data arrives, in kbit/s; 0 if it is not known.
    pub(crate) rate_kbps: u32,
    pub(crate) jitter_us: u32,
    /// Ranges that have arrived beyond the last in order, as (from, to), `to` exclusive; the latest first.
    pub(crate) blocks: [(i64, i64); BLOCKS],
    pub(crate) blocks_len: usize,
}

impl Ack {
    pub(crate) fn blocks(&self) -> &[(i64, i64)] {
        &self.blocks[..self.blocks_len]
    }
}

/// The contents of a datagram.
#[derive(Debug, PartialEq)]
pub(crate) enum Packet {
    Segment(Segment),
    Ack(Ack),
}

/// Returns the host to which a datagram is addressed; routers look at nothing else.
pub(crate) fn destination(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(1..5)?.try_into().ok()?))
}

impl Segment {
    /// Returns the segment as a datagram of `bytes`.
    pub(crate) fn emit(&self, bytes: usize, pool: &Pool) -> Option<Burst> {
        let bytes = bytes.max(HEADER_BYTES);
        let mut burst = if bytes <= base::pool::SMALL_BYTES {
            pool.small()
        } else {
            pool.large()
        }?;
        let kind = match (self.datagram, self.last) {
            (true, true) => DATAGRAM,
            (true, false) => PARTIAL,
            (false, true) => SEGMENT_LAST,
            (false, false) => SEGMENT,
        };
        let mut writer = Writer::new(burst.spare_mut().get_mut(..bytes)?);
        writer.put(&[kind]);
        writer.put(&self.to.to_be_bytes());
        writer.put(&self.flow.to_be_bytes());
        writer.put(&(self.seq as u32).to_be_bytes());
        writer.put(&self.stamp.as_nanos().to_be_bytes());
        writer.put(&self.written.as_nanos().to_be_bytes());
        writer.put(&self.number.to_be_bytes());
        // The upper half would not fit into 40 bytes, and no two waves that are 65 536 apart are in flight together.
        writer.put(&(self.wave as u16).to_be_bytes());
        writer.rest().fill(0);
        burst.fill(bytes, bytes);
        Some(burst)
    }
}

impl Ack {
    /// Returns the acknowledgement as a datagram of 40 bytes, and 8 for each block.
    pub(crate) fn emit(&self, pool: &Pool) -> Option<Burst> {
        let bytes = HEADER_BYTES + 8 * self.blocks_len;
        let mut burst = pool.small()?;
        let mut writer = Writer::new(burst.spare_mut().get_mut(..bytes)?);
        writer.put(&[ACK]);
        writer.put(&self.to.to_be_bytes());
        writer.put(&self.flow.to_be_bytes());
        writer.put(&((self.acked + 1) as u32).to_be_bytes());
        writer.put(&self.echo.as_nanos().to_be_bytes());
        writer.put(&self.window.to_be_bytes());
        writer.put(&self.rate_kbps.to_be_bytes());
        writer.put(&self.jitter_us.to_be_bytes());
        writer.put(&[self.blocks_len as u8]);
        for (from, to) in self.blocks() {
            writer.put(&(*from as u32).to_be_bytes());
            writer.put(&(*to as u32).to_be_bytes());
        }
        writer.rest().fill(0);
        burst.fill(bytes, bytes);
        Some(burst)
    }
}

/// Returns the contents of a datagram, or `None` if it does not have this format.
pub(crate) fn parse(bytes: &[u8]) -> Option<Packet> {
    let mut reader = Reader(bytes);
    let [kind] = reader.take()?;
    let (to, flow) = (reader.u32()?, reader.u32()?);
    match kind {
        SEGMENT | SEGMENT_LAST | DATAGRAM | PARTIAL => Some(Packet::Segment(Segment {
            to,
            flow,
            seq: i64::from(reader.u32()?),
            stamp: reader.time()?,
            written: reader.time()?,
            number: reader.u32()?,
            wave: u32::from(u16::from_be_bytes(reader.take()?)),
            last: kind != SEGMENT && kind != PARTIAL,
            datagram: kind == DATAGRAM || kind == PARTIAL,
        })),
        ACK => {
            let mut ack = Ack {
                to,
                flow,
                acked: i64::from(reader.u32()?) - 1,
                echo: reader.time()?,
                window: reader.u32()?,
                rate_kbps: reader.u32()?,
                jitter_us: reader.u32()?,
                ..Ack::default()
            };
            let [blocks] = reader.take()?;
            ack.blocks_len = usize::from(blocks);
            for block in ack.blocks.get_mut(..ack.blocks_len)? {
                *block = (i64::from(reader.u32()?), i64::from(reader.u32()?));
            }
            Some(Packet::Ack(ack))
        }
        _ => None,
    }
}

struct Writer<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl<'a> Writer<'a> {
    fn new(bytes: &'a mut [u8]) -> Writer<'a> {
        Writer { bytes, at: 0 }
    }

    fn put(&mut self, field: &[u8]) {
        self.bytes[self.at..][..field.len()].copy_from_slice(field);
        self.at += field.len();
    }

    fn rest(self) -> &'a mut [u8] {
        &mut self.bytes[self.at..]
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*field)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    fn time(&mut self) -> Option<Time> {
        let ns = u64::from_be_bytes(self.take()?);
        Some(Time::from_nanos(ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment() -> Segment {
        Segment {
            to: 7,
            flow: 0x0102_0304,
            seq: 99,
            stamp: Time::from_nanos(123_456_789),
            written: Time::from_nanos(u64::MAX / 3),
            number: 4_000_000_000,
            wave: 65_535,
            last: true,
            datagram: false,
        }
    }

    fn ack() -> Ack {
        Ack {
            to: 3,
            flow: 9,
            acked: -1,
            echo: Time::from_nanos(5),
            window: u32::MAX,
            rate_kbps: 64,
            jitter_us: 17,
            blocks: [(2, 5), (7, 8), (0, 0)],
            blocks_len: 2,
        }
    }

    #[test]
    fn what_is_sent_is_what_arrives_and_sizes_are_those_of_the_wire() {
        let pool = Pool::new(4, 16);
        for (datagram, last) in [(false, true), (false, false), (true, true), (true, false)] {
            let sent = Segment {
                datagram,
                last,
                ..segment()
            };
            let burst = sent.emit(1000, &pool).unwrap();
            assert_eq!(burst.len(), 1000);
            assert_eq!(parse(burst.bytes()), Some(Packet::Segment(sent)));
            assert_eq!(destination(burst.bytes()), Some(7));
        }
        assert_eq!(segment().emit(9000, &pool).unwrap().len(), 9000);
        assert_eq!(segment().emit(0, &pool).unwrap().len(), HEADER_BYTES);
        let burst = ack().emit(&pool).unwrap();
        assert_eq!(burst.len(), 40 + 16);
        assert_eq!(parse(burst.bytes()), Some(Packet::Ack(ack())));
    }

    #[test]
    fn what_is_cut_short_or_strange_is_nothing() {
        let pool = Pool::new(4, 16);
        let burst = ack().emit(&pool).unwrap();
        for len in 0..34 + 16 {
            assert_eq!(parse(&burst.bytes()[..len]), None, "{len}");
        }
        let mut strange = burst.bytes().to_vec();
        strange[33] = 200;
        assert_eq!(parse(&strange), None, "more blocks than there can be");
        strange[0] = 77;
        assert_eq!(parse(&strange), None);
    }
}
