//! RTP (RFC 3550), read in place and never changed: the fields of the header, and the kind of a packet.
//!
//! ```text
//!    0                   1                   2                   3
//!    0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//!   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!   |V=2|P|X|  CC   |M|     PT      |       sequence number         |
//!   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!   |                           timestamp                           |
//!   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!   |                             SSRC                              |
//!   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!   |  CC contributing sources, X: profile, length and extension    |
//!   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! In SRTP too, all of this is in clear, except for the payload with its padding. So [`Packet::parse`] assumes nothing
//! about the payload, and only [`Packet::payload`] checks the padding. RTCP is in [`rtcp`], with the extended reports
//! in [`xr`]; packets of emulated calls are in [`place`].

pub mod place;
pub mod rtcp;
pub mod xr;

/// Bytes of the fixed header.
pub const HEADER_BYTES: usize = 12;

/// The kind of a datagram on a media port, by its first two bytes (RFC 7983, RFC 5761).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// RTP or SRTP.
    Rtp,
    /// RTCP or SRTCP.
    Rtcp,
    /// A STUN message: connectivity checks of ICE.
    Stun,
    /// A DTLS record: the keys of SRTP.
    Dtls,
    /// Anything that does not belong on a media port.
    Other,
}

impl Kind {
    /// Returns the kind by the first two bytes alone; the parsers check the rest.
    #[must_use]
    pub fn of(datagram: &[u8]) -> Self {
        match datagram {
            [128..=191, 192..=223, ..] => Kind::Rtcp,
            [128..=191, _, ..] => Kind::Rtp,
            [0..=3, ..] => Kind::Stun,
            [20..=63, ..] => Kind::Dtls,
            _ => Kind::Other,
        }
    }
}

/// Why bytes are not RTP or RTCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum RtpError {
    /// The packet ends early.
    #[error("{part} needs {needed} bytes, {present} are there")]
    Truncated {
        /// The part that was being read.
        part: &'static str,
        /// Number of bytes that it needs.
        needed: usize,
        /// Number of bytes present.
        present: usize,
    },
    /// The version is not 2.
    #[error("version {0} is not that of RTP, 2")]
    Version(u8),
    /// The last byte gives more padding than payload, or none.
    #[error("padding of {0} bytes is none, or more than there are")]
    Padding(u8),
    /// An RTCP packet that is not the last of its datagram has padding.
    #[error("padding within a compound RTCP packet: only its last packet may have it")]
    PaddingWithin,
    /// The type does not belong to RTCP.
    #[error("packet type {0} is not of RTCP, 192 to 223")]
    NotRtcp(u8),
    /// The packet's length does not fit the count of blocks.
    #[error("{count} blocks need {needed} bytes, the packet has {present}")]
    Count {
        /// Number of blocks that the header announces.
        count: u8,
        /// Number of bytes that they need.
        needed: usize,
        /// Number of bytes present.
        present: usize,
    },
}

/// The fixed header, by value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Header {
    /// The marker: first packet of a talkspurt, last of a picture.
    pub marker: bool,
    /// The payload type, 0 to 127.
    pub payload_type: u8,
    /// The sequence number; wraps.
    pub seq: u16,
    /// The media's time in ticks of its clock; wraps.
    pub timestamp: u32,
    /// The source.
    pub ssrc: u32,
}

impl Header {
    /// Returns the bytes of a header without padding, extension or contributing sources.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0] = 0x80;
        bytes[1] = u8::from(self.marker) << 7 | self.payload_type & 0x7f;
        bytes[2..4].copy_from_slice(&self.seq.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.timestamp.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.ssrc.to_be_bytes());
        bytes
    }
}

/// An RTP packet, in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    bytes: &'a [u8],
    /// Where the payload begins.
    payload: usize,
}

impl<'a> Packet<'a> {
    /// Checks that the header is complete.
    ///
    /// # Errors
    /// Fails if it is not, or the version is not 2.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, RtpError> {
        need("the RTP header", HEADER_BYTES, bytes)?;
        if bytes[0] >> 6 != 2 {
            return Err(RtpError::Version(bytes[0] >> 6));
        }
        let mut payload = HEADER_BYTES + 4 * usize::from(bytes[0] & 0x0f);
        need("the list of contributing sources", payload, bytes)?;
        if bytes[0] & 0x10 != 0 {
            need("the extension's header", payload + 4, bytes)?;
            payload += 4 + 4 * usize::from(u16_at(bytes, payload + 2));
            need("the extension", payload, bytes)?;
        }
        Ok(Self { bytes, payload })
    }

    /// Returns the fixed header.
    #[must_use]
    pub fn header(&self) -> Header {
        Header {
            marker: self.bytes[1] & 0x80 != 0,
            payload_type: self.bytes[1] & 0x7f,
            seq: u16_at(self.bytes, 2),
            timestamp: u32_at(self.bytes, 4),
            ssrc: u32_at(self.bytes, 8),
        }
    }

    /// Returns the contributing sources.
    pub fn contributing(&self) -> impl ExactSizeIterator<Item = u32> + 'a {
        let count = usize::from(self.bytes[0] & 0x0f);
        let list = &self.bytes[HEADER_BYTES..HEADER_BYTES + 4 * count];
        let (sources, _) = list.as_chunks::<4>();
        sources.iter().map(|source| u32::from_be_bytes(*source))
    }

    /// Returns the extension: its profile's number, and its bytes.
    #[must_use]
    pub fn extension(&self) -> Option<(u16, &'a [u8])> {
        let start = HEADER_BYTES + 4 * usize::from(self.bytes[0] & 0x0f);
        let present = self.bytes[0] & 0x10 != 0;
        present.then(|| {
            (
                u16_at(self.bytes, start),
                &self.bytes[start + 4..self.payload],
            )
        })
    }

    /// Returns whether the sender marked the payload as padded.
    #[must_use]
    pub fn is_padded(&self) -> bool {
        self.bytes[0] & 0x20 != 0
    }

    /// Returns all bytes after the header: in SRTP they are encrypted, with a tag at the end.
    #[must_use]
    pub fn body(&self) -> &'a [u8] {
        &self.bytes[self.payload..]
    }

    /// Returns the payload without padding. The result has no meaning for SRTP.
    ///
    /// # Errors
    /// Fails if the padding cannot have the length in its last byte.
    pub fn payload(&self) -> Result<&'a [u8], RtpError> {
        let body = self.body();
        if !self.is_padded() {
            return Ok(body);
        }
        let padding = body.last().copied().unwrap_or(0);
        match body.len().checked_sub(usize::from(padding)) {
            Some(length) if padding != 0 => Ok(&body[..length]),
            _ => Err(RtpError::Padding(padding)),
        }
    }
}

fn need(part: &'static str, needed: usize, bytes: &[u8]) -> Result<(), RtpError> {
    let present = bytes.len();
    if present < needed {
        return Err(RtpError::Truncated {
            part,
            needed,
            present,
        });
    }
    Ok(())
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests;
