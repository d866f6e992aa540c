//! The transport header at the front of the payload of packets with flag T: the messages between the two ends of a
//! path. Relays carry it as payload.
//!
//! A fragment of a datagram that is longer than a packet:
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+-------------------------------+
//! |    kind 1     |   reserved 0  |          offset               |   0
//! +---------------+---------------+-------------------------------+
//! |                          datagram id                          |   4
//! +-------------------------------+-------------------------------+
//! |     total bytes of it         |  its bytes from offset on ... |   8
//! +-------------------------------+-------------------------------+
//! ```
//!
//! A segment of a stream ([`Segment`]):
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+-+-+-+-+-+-+-+-+---------------+---------------+
//! |    kind 2     |S|A|F|R|C|M|P|X|   ranges, n   | reason, early |   0
//! +---------------+-+-+-+-+-+-+-+-+---------------+---------------+
//! |                         connection id                         |   4
//! +---------------------------------------------------------------+
//! |                 offset, low 32 bits of 64                     |   8
//! +---------------------------------------------------------------+
//! |              acknowledged, low 32 bits of 64                  |  12
//! +---------------------------------------------------------------+
//! |                        window in bytes                        |  16
//! +---------------------------------------------------------------+
//! |                         time stamp, us                        |  20
//! +---------------------------------------------------------------+
//! |                         echoed stamp, us                      |  24
//! +---------------------------------------------------------------+
//! |  n times: first offset (32 bits), offset after the last (32)  |  28
//! +---------------------------------------------------------------+
//! |  with T: ticket (64 bits), number of the opening (32)          |  28 + 8 n
//! +---------------------------------------------------------------+
//! |  bytes of the stream from offset on ...
//! +---------------------------------------------------------------+
//! ```
//!
//! S: the segment begins the connection. A: acknowledged, window and ranges are valid. F: the stream of this direction
//! ends at offset, and the end takes one number. R: the connection does not exist any more, and reason says why. C:
//! segments of the peer arrived with the mark of congestion. M with S: the bytes are messages, each after its length in
//! 32 bits. M without S: the acknowledgement of this segment may wait a moment for the next one. P: the sender requests
//! an answer (keep-alive, closed window). The offset of a direction's first byte is 0. Ranges contain what has arrived
//! beyond acknowledged. A stamp of 0 means none.
//!
//! With S, the fourth byte says whether bytes may be sent with the opening: 1, T, a [`Ticket`] comes after the ranges;
//! 2, E, with A, the bytes that came with the opening have been accepted. An initiator whose S has no A sets
//! acknowledged to 1 if it supports tickets.
//!
//! Further kinds are: how much of the sealed data has been opened ([`Tally`]), which is sent inside the seal; the keys
//! of groups ([`GroupKey`]); packets to a group for a single receiver ([`group_copy()`]); and coded repair
//! ([`EndRepair`]).
//!
//! What one end has sealed for the other begins with the clear header of [a sealed datagram](crate::link), with the
//! session that the opening end has chosen, and ends with its tag. With kind 0x18 (data), the payload of a packet
//! without flag T is sealed; with kind 0x19 (control), the payload of a packet with the flag: a transport header of the
//! kinds above, or nothing. Kinds 0x10 to 0x13 are the handshake by which the two ends agree on keys. So transport
//! kinds from 0x10 to 0x1f belong to [`crate::link`].
//!
//! ```text
//! +---------------+-----------------------------------------------+
//! | kind 0x18, 19 |       session, chosen by the exit             |   0
//! +---------------+-----------------------------------------------+
//! |                    counter, the low 32 bits                   |   4
//! +---------------------------------------------------------------+
//! |  sealed: what the payload would be ...         | tag, 16 bytes|
//! +---------------------------------------------------------------+
//! ```
//!
//! A packet to a multicast group is sealed in the same way for all its receivers. There the session is the number of a
//! key that its source has chosen for this group only, and that the source has given to them.
//!
//! The seal covers these eight bytes and, of the packet's header, source, destination, ports and
//! flow sequence number ([`crate::data::Header::bound`]).
//!
//! X with S and M: messages expire. Each message comes after its number in 32 bits, from 0 on, and its length in 16
//! bits, so that the receiver knows which messages it has missed. A length of 0 is no message, but shows how many there
//! were. X without S: the ranges, at least one, are what the sender of this segment has given up of its own messages;
//! they are whole messages, and will not be sent again. Such a segment has no bytes.

mod end_repair;
mod group_copy;
mod group_key;
mod tally;

pub use end_repair::{
    END_ASK_FRONT, END_ASKED_MAX, END_REPAIR_FRONT, END_REPORT_BYTES, EndRepair, EndReport,
};
pub use group_copy::{GROUP_COPY_BYTES, begin_group_copy, group_copy};
pub use group_key::{
    GROUP_KEY_BYTES_MAX, GroupKey, KEY_BYTES, Name as KeyName, Reason as KeyRefusal,
};
pub use tally::{COUNTS_MAX, Counts, TALLY_BYTES_MAX, Tally};

use crate::bytes::{Reader, Writer};
use crate::ipc::ResetReason;
use crate::{Full, Malformed, link};

/// Number of bytes of the header of a fragment.
pub const FRAGMENT_BYTES: usize = 10;
/// Number of bytes of the header of a segment without ranges.
pub const SEGMENT_BYTES: usize = 28;
/// Number of bytes of one range.
pub const RANGE_BYTES: usize = 8;
/// The maximum number of ranges in one segment. Choice: with as many holes as this in every window, each is reported in
/// several acknowledgements.
pub const RANGES_MAX: usize = 16;

/// Number of bytes of a ticket and the number of an opening.
pub const TICKET_BYTES: usize = 12;

const FRAGMENT: u8 = 1;
const SEGMENT: u8 = 2;
const TALLY: u8 = 3;
const GROUP_KEY: u8 = 4;
const GROUP_COPY: u8 = 5;
const END_REPAIR: u8 = 6;
/// The acknowledged value in the opening of an initiator that supports tickets.
const ASKS: u32 = 1;
const HAS_TICKET: u8 = 1;
const TAKES_EARLY: u8 = 2;

/// The kind of a transport header, in its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A part of a long datagram.
    Fragment,
    /// A part of a stream, or a message about it.
    Segment,
    /// A report of how much sealed data has been opened.
    Tally,
    /// The key for a source's packets to a group.
    GroupKey,
    /// A packet to a group, for one receiver.
    GroupCopy,
    /// Coded repair from end to end, or a message about it.
    EndRepair,
    /// A datagram of one end for the other: sealed, or part of their handshake.
    End(link::Kind),
}

impl Kind {
    /// Returns the kind of a payload with a transport header.
    pub fn of(payload: &[u8]) -> Result<Kind, Malformed> {
        match payload.first() {
            None => Err(Malformed::Short),
            Some(&FRAGMENT) => Ok(Kind::Fragment),
            Some(&SEGMENT) => Ok(Kind::Segment),
            Some(&TALLY) => Ok(Kind::Tally),
            Some(&GROUP_KEY) => Ok(Kind::GroupKey),
            Some(&GROUP_COPY) => Ok(Kind::GroupCopy),
            Some(&END_REPAIR) => Ok(Kind::EndRepair),
            Some(&byte) => match link::Kind::from_byte(byte) {
                Ok(kind) => Ok(Kind::End(kind)),
                Err(_) => Err(Malformed::Kind),
            },
        }
    }
}

/// A part of a datagram that is longer than a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// The position of its bytes in the datagram.
    pub offset: u16,
    /// The id of the datagram within the flow.
    pub id: u32,
    /// The total length of the datagram.
    pub total: u16,
}

impl Fragment {
    /// Reads a fragment. Returns it and its bytes, which are not empty and lie within the datagram.
    pub fn parse(payload: &[u8]) -> Result<(Fragment, &[u8]), Malformed> {
        let mut r = Reader::new(payload);
        if r.u8()? != FRAGMENT {
            return Err(Malformed::Kind);
        }
        if r.u8()? != 0 {
            return Err(Malformed::Value);
        }
        let fragment = Fragment {
            offset: r.u16()?,
            id: r.u32()?,
            total: r.u16()?,
        };
        let bytes = r.rest();
        if bytes.is_empty() {
            return Err(Malformed::Short);
        }
        if usize::from(fragment.offset) + bytes.len() > usize::from(fragment.total) {
            return Err(Malformed::Length);
        }
        Ok((fragment, bytes))
    }

    /// Writes the header; the bytes come after it.
    pub fn emit(&self, payload: &mut [u8]) -> Result<(), Full> {
        if payload.len() < FRAGMENT_BYTES {
            return Err(Full);
        }
        let mut w = Writer::new(payload);
        w.u8(FRAGMENT)?;
        w.u8(0)?;
        w.u16(self.offset)?;
        w.u32(self.id)?;
        w.u16(self.total)
    }
}

/// The flags of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u8);

impl Flags {
    /// No flag.
    pub const NONE: Flags = Flags(0);
    /// The segment begins the connection.
    pub const SYN: Flags = Flags(0x80);
    /// Acknowledged, window and ranges are valid.
    pub const ACK: Flags = Flags(0x40);
    /// The sender's direction ends at the offset.
    pub const FIN: Flags = Flags(0x20);
    /// The connection does not exist any more.
    pub const RST: Flags = Flags(0x10);
    /// Segments of the peer arrived with the mark of congestion.
    pub const CONGESTED: Flags = Flags(0x08);
    /// The bytes are messages; without [`Flags::SYN`], see [`Flags::MAY_WAIT`].
    pub const MESSAGES: Flags = Flags(0x04);
    /// Without [`Flags::SYN`]: the acknowledgement of the segment may wait for the next one.
    pub const MAY_WAIT: Flags = Flags(0x04);
    /// The sender requests an answer.
    pub const PROBE: Flags = Flags(0x02);
    /// Messages expire; without [`Flags::SYN`], the ranges are the expired ones.
    pub const EXPIRES: Flags = Flags(0x01);

    /// Returns the union of both flags.
    #[must_use]
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
    /// Returns the union of both flags if `condition` holds, otherwise these flags.
    #[must_use]
    pub const fn with_if(self, other: Flags, condition: bool) -> Flags {
        match condition {
            true => self.with(other),
            false => self,
        }
    }
    /// Returns true if all of `other` are set.
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

/// A ticket, which permits bytes to be sent with the opening of a connection. The peer's node has given it, and knows
/// it until it restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// A number that the peer's node has chosen at random.
    pub secret: u64,
    /// The number of the opening under this ticket: from 1 on, each once. 0 from the node that gives the ticket.
    pub number: u32,
}

/// The header of a segment, without ranges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// The flags.
    pub flags: Flags,
    /// Why the connection does not exist any more; only set with R.
    pub reason: Option<ResetReason>,
    /// The connection, by the number that its initiator chose.
    pub connection: u32,
    /// The low bits of the position of the first byte.
    pub offset: u32,
    /// The low bits of the position up to which everything has arrived.
    pub acknowledged: u32,
    /// Bytes beyond `acknowledged` that may be sent.
    pub window: u32,
    /// The sender's clock; 0 for none.
    pub stamp_us: u32,
    /// The stamp of the last segment that arrived; 0 for none.
    pub echo_us: u32,
    /// With S: the ticket under which the connection is opened, or a ticket for future connections.
    pub ticket: Option<Ticket>,
    /// With S and A: the bytes that came with the opening have been accepted.
    pub takes_early: bool,
}

/// A range that has arrived beyond what is acknowledged: from the first position to before the second, low bits.
pub type Range = (u32, u32);

/// A segment that has been parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parsed<'a> {
    /// The segment's header.
    pub segment: Segment,
    ranges: &'a [u8],
    /// The segment's bytes of the stream.
    pub bytes: &'a [u8],
}

impl Parsed<'_> {
    /// Returns the ranges, in wire order.
    pub fn ranges(&self) -> impl ExactSizeIterator<Item = Range> {
        self.ranges.chunks_exact(RANGE_BYTES).map(|range| {
            let word = |at: usize| {
                let bytes = range[at..at + 4].try_into();
                u32::from_be_bytes(bytes.expect("four bytes"))
            };
            (word(0), word(4))
        })
    }

    /// Returns true if the ranges are what the peer has given up, and not what has arrived.
    pub fn tells_expired(&self) -> bool {
        let flags = self.segment.flags;
        flags.has(Flags::EXPIRES) && !flags.has(Flags::SYN)
    }

    /// Returns the number of bytes of header, ranges and ticket.
    pub fn header_bytes(&self) -> usize {
        SEGMENT_BYTES + self.ranges.len() + self.segment.ticket.map_or(0, |_| TICKET_BYTES)
    }
}

impl Segment {
    /// Returns true if the segment opens a connection.
    pub fn calls(&self) -> bool {
        self.flags.has(Flags::SYN) && !self.flags.has(Flags::ACK)
    }

    /// Returns true if the segment opens a connection, and requests a ticket.
    pub fn asks_for_ticket(&self) -> bool {
        self.calls() && self.acknowledged == ASKS
    }

    /// Returns the same segment, which opens a connection, with a request for a ticket.
    #[must_use]
    pub fn asking(mut self) -> Segment {
        self.acknowledged = ASKS;
        self
    }

    /// Reads a segment.
    pub fn parse(payload: &[u8]) -> Result<Parsed<'_>, Malformed> {
        let mut r = Reader::new(payload);
        if r.u8()? != SEGMENT {
            return Err(Malformed::Kind);
        }
        let flags = Flags(r.u8()?);
        let ranges = usize::from(r.u8()?);
        let reason = r.u8()?;
        if ranges > RANGES_MAX {
            return Err(Malformed::Count);
        }
        let is_reset = flags.has(Flags::RST);
        let early = if is_reset { 0 } else { reason };
        if is_reset && reason == 0 || early > HAS_TICKET | TAKES_EARLY {
            return Err(Malformed::Value);
        }
        let takes_early = early & TAKES_EARLY != 0;
        let opens = flags.has(Flags::SYN) && (!takes_early || flags.has(Flags::ACK));
        if early != 0 && !opens {
            return Err(Malformed::Value);
        }
        if flags.has(Flags::EXPIRES) {
            let begins = flags.has(Flags::SYN.with(Flags::MESSAGES));
            if flags.has(Flags::RST) || !begins && (flags.has(Flags::SYN) || ranges == 0) {
                return Err(Malformed::Value);
            }
        }
        let reason = match is_reset {
            false => None,
            true => Some(ResetReason::from_byte(reason)?),
        };
        let mut segment = Segment {
            flags,
            reason,
            connection: r.u32()?,
            offset: r.u32()?,
            acknowledged: r.u32()?,
            window: r.u32()?,
            stamp_us: r.u32()?,
            echo_us: r.u32()?,
            ticket: None,
            takes_early,
        };
        let ranges = r.take(ranges * RANGE_BYTES)?;
        if early & HAS_TICKET != 0 {
            segment.ticket = Some(Ticket {
                secret: r.u64()?,
                number: r.u32()?,
            });
        }
        let parsed = Parsed {
            segment,
            ranges,
            bytes: r.rest(),
        };
        match parsed.tells_expired() && !parsed.bytes.is_empty() {
            true => Err(Malformed::Length),
            false => Ok(parsed),
        }
    }

    /// Writes the header, at most [`RANGES_MAX`] ranges, and the ticket. Returns their length; the bytes of the stream
    /// come after them.
    pub fn emit(&self, ranges: &[Range], payload: &mut [u8]) -> Result<usize, Full> {
        let ticket = self.ticket.map_or(0, |_| TICKET_BYTES);
        let len = SEGMENT_BYTES + ranges.len() * RANGE_BYTES + ticket;
        if ranges.len() > RANGES_MAX || payload.len() < len {
            return Err(Full);
        }
        let mut w = Writer::new(payload);
        w.u8(SEGMENT)?;
        w.u8(self.flags.0)?;
        w.u8(ranges.len() as u8)?;
        let ticket = self.ticket.map_or(0, |_| HAS_TICKET);
        let early = ticket | if self.takes_early { TAKES_EARLY } else { 0 };
        w.u8(self.reason.map_or(early, ResetReason::to_byte))?;
        for word in [
            self.connection,
            self.offset,
            self.acknowledged,
            self.window,
            self.stamp_us,
            self.echo_us,
        ] {
            w.u32(word)?;
        }
        for (first, end) in ranges {
            w.u32(*first)?;
            w.u32(*end)?;
        }
        if let Some(ticket) = self.ticket {
            w.u64(ticket.secret)?;
            w.u32(ticket.number)?;
        }
        Ok(len)
    }
}

#[cfg(test)]
mod tests;
