//! RTCP (RFC 3550 §6): the reports of senders and receivers, read in place and never changed.
//!
//! ```text
//!    0                   1                   2                   3
//!    0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//!   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!   |V=2|P|   RC    |      PT       |    length in words, less 1    |
//!   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!   |                       SSRC of the sender                      |
//!   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!   PT 200 (SR): NTP time, RTP time, packets, bytes; then RC report blocks
//!   PT 201 (RR): RC report blocks of 24 bytes:
//!   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!   |                SSRC of the source reported on                 |
//!   |  lost / 256   |      packets lost in all, signed              |
//!   |             highest sequence number, extended                 |
//!   |                            jitter                             |
//!   |           LSR: middle of the last SR's NTP time               |
//!   |           DLSR: delay since then, 1/65536 s                   |
//!   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! A datagram holds several packets, one after the other. SRTCP encrypts everything after the first eight bytes: on it,
//! [`Compound::parse`] fails or reads noise. The caller must know from the description not to call it.

use super::{RtpError, need, u16_at, u32_at, xr};

/// Bytes of a report block.
const BLOCK_BYTES: usize = 24;

/// The packets of one datagram; all lengths are valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compound<'a> {
    bytes: &'a [u8],
}

/// One RTCP packet.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Rtcp<'a> {
    /// SR: from an end that sends.
    SenderReport(SenderInfo, Blocks<'a>),
    /// RR: from an end that only receives; the SSRC is its own.
    ReceiverReport(u32, Blocks<'a>),
    /// BYE: sources that end.
    Bye(Sources<'a>),
    /// XR: extended reports (RFC 3611); the SSRC is the reporter's.
    Extended(u32, xr::Blocks<'a>),
    /// SDES, APP, feedback, and unknown types: packet type and everything after the first word.
    Other(u8, &'a [u8]),
}

/// A sender's report about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SenderInfo {
    /// The sender.
    pub ssrc: u32,
    /// Its wall clock, NTP format: seconds since 1900 and 1/2³² s.
    pub ntp: u64,
    /// The same moment on the media's clock.
    pub rtp_timestamp: u32,
    /// Packets sent since it began; wraps.
    pub packets: u32,
    /// Payload bytes sent since it began; wraps.
    pub bytes: u32,
}

impl SenderInfo {
    /// Returns the middle 32 bits of the NTP time, which receivers send back as LSR.
    #[must_use]
    pub fn ntp_middle(&self) -> u32 {
        (self.ntp >> 16) as u32
    }
}

/// A receiver's report about one source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ReportBlock {
    /// The source reported on.
    pub ssrc: u32,
    /// Fraction lost since the report before, in 1/256.
    pub fraction_lost: u8,
    /// Packets lost since it began; negative with duplicates.
    pub cumulative_lost: i32,
    /// Highest sequence number that arrived; the upper half counts the wraps.
    pub highest_seq: u32,
    /// Interarrival jitter in ticks of the media's clock.
    pub jitter: u32,
    /// LSR; 0 before the first SR arrived.
    pub last_sr: u32,
    /// DLSR, in 1/65536 s.
    pub delay_since_last_sr: u32,
}

impl ReportBlock {
    /// Returns the fraction lost since the previous report, 0 to 1.
    #[must_use]
    pub fn loss(&self) -> f64 {
        f64::from(self.fraction_lost) / 256.0
    }

    /// Returns the round trip from the sender of the SR to the receiver and back, if the report arrived at `arrival`
    /// (middle 32 bits of NTP time on the clock that stamped the SR).
    ///
    /// Returns `None` before the first SR, and if the times contradict each other because clocks were set in the
    /// meantime.
    #[must_use]
    pub fn round_trip_us(&self, arrival: u32) -> Option<u64> {
        if self.last_sr == 0 {
            return None;
        }
        let elapsed = arrival
            .wrapping_sub(self.last_sr)
            .wrapping_sub(self.delay_since_last_sr);
        // Half the range is 9 hours: values beyond are negative.
        (elapsed < 1 << 31).then(|| (u64::from(elapsed) * 1_000_000) >> 16)
    }

    fn read(bytes: &[u8]) -> Self {
        Self {
            ssrc: u32_at(bytes, 0),
            fraction_lost: bytes[4],
            // The upper byte is shifted out, and the sign is restored.
            cumulative_lost: (u32_at(bytes, 4) << 8).cast_signed() >> 8,
            highest_seq: u32_at(bytes, 8),
            jitter: u32_at(bytes, 12),
            last_sr: u32_at(bytes, 16),
            delay_since_last_sr: u32_at(bytes, 20),
        }
    }
}

impl<'a> Compound<'a> {
    /// Checks the length, version and counts of every packet.
    ///
    /// Choice: a datagram that begins with another packet than SR or RR is accepted (RFC 5506 allows it for feedback):
    /// the ends are responsible for agreeing on it.
    ///
    /// # Errors
    /// Returns the error of the first invalid packet.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, RtpError> {
        need("the RTCP header", 4, bytes)?;
        let mut rest = bytes;
        while !rest.is_empty() {
            let length = check_packet(rest)?;
            rest = &rest[length..];
        }
        Ok(Self { bytes })
    }

    /// Returns the packets in their order.
    pub fn packets(&self) -> impl Iterator<Item = Rtcp<'a>> + 'a {
        let mut rest = self.bytes;
        core::iter::from_fn(move || {
            // The remaining bytes start with a whole packet: `parse` checked each.
            let length = packet_bytes(rest.get(..4)?);
            let packet;
            (packet, rest) = rest.split_at_checked(length)?;
            Some(read_packet(packet))
        })
    }

    /// Returns every report block of the datagram, with the SSRC of the reporter.
    pub fn reports(&self) -> impl Iterator<Item = (u32, ReportBlock)> + 'a {
        self.packets().flat_map(|packet| {
            let (by, blocks) = match packet {
                Rtcp::SenderReport(info, blocks) => (info.ssrc, blocks),
                Rtcp::ReceiverReport(ssrc, blocks) => (ssrc, blocks),
                _ => (0, Blocks { bytes: &[] }),
            };
            blocks.map(move |block| (by, block))
        })
    }
}

/// Returns the length of the packet that begins here.
fn packet_bytes(header: &[u8]) -> usize {
    4 + 4 * usize::from(u16_at(header, 2))
}

/// Returns the minimum length of a packet of this type and count.
fn packet_bytes_min(packet_type: u8, count: usize) -> usize {
    match packet_type {
        200 => 28 + BLOCK_BYTES * count,
        201 => 8 + BLOCK_BYTES * count,
        203 => 4 + 4 * count,
        207 => 8,
        _ => 4,
    }
}

/// Checks a packet and returns its length.
fn check_packet(rest: &[u8]) -> Result<usize, RtpError> {
    need("the RTCP header", 4, rest)?;
    let (first, packet_type) = (rest[0], rest[1]);
    if first >> 6 != 2 {
        return Err(RtpError::Version(first >> 6));
    }
    if !(192..=223).contains(&packet_type) {
        return Err(RtpError::NotRtcp(packet_type));
    }
    let length = packet_bytes(rest);
    need("the RTCP packet", length, rest)?;
    if first & 0x20 != 0 && length < rest.len() {
        return Err(RtpError::PaddingWithin);
    }
    let padding = padding(&rest[..length])?;
    let present = length - padding;
    let count = first & 0x1f;
    let needed = packet_bytes_min(packet_type, usize::from(count));
    if present < needed {
        return Err(RtpError::Count {
            count,
            needed,
            present,
        });
    }
    Ok(length)
}

fn padding(packet: &[u8]) -> Result<usize, RtpError> {
    if packet[0] & 0x20 == 0 {
        return Ok(0);
    }
    let padding = packet[packet.len() - 1];
    let fits = usize::from(padding) <= packet.len() - 4;
    if padding == 0 || !padding.is_multiple_of(4) || !fits {
        return Err(RtpError::Padding(padding));
    }
    Ok(usize::from(padding))
}

fn read_packet(packet: &[u8]) -> Rtcp<'_> {
    let end = packet.len() - padding(packet).unwrap_or(0);
    let packet = &packet[..end];
    let count = usize::from(packet[0] & 0x1f);
    let blocks = |start| Blocks {
        bytes: &packet[start..start + BLOCK_BYTES * count],
    };
    match packet[1] {
        200 => {
            let info = SenderInfo {
                ssrc: u32_at(packet, 4),
                ntp: u64::from(u32_at(packet, 8)) << 32 | u64::from(u32_at(packet, 12)),
                rtp_timestamp: u32_at(packet, 16),
                packets: u32_at(packet, 20),
                bytes: u32_at(packet, 24),
            };
            Rtcp::SenderReport(info, blocks(28))
        }
        201 => Rtcp::ReceiverReport(u32_at(packet, 4), blocks(8)),
        203 => Rtcp::Bye(Sources {
            bytes: &packet[4..4 + 4 * count],
        }),
        207 => Rtcp::Extended(u32_at(packet, 4), xr::Blocks::new(&packet[8..])),
        other => Rtcp::Other(other, &packet[4..]),
    }
}

/// The report blocks of one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blocks<'a> {
    bytes: &'a [u8],
}

impl Iterator for Blocks<'_> {
    type Item = ReportBlock;

    fn next(&mut self) -> Option<ReportBlock> {
        let block;
        (block, self.bytes) = self.bytes.split_at_checked(BLOCK_BYTES)?;
        Some(ReportBlock::read(block))
    }
}

/// The sources that a BYE names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sources<'a> {
    bytes: &'a [u8],
}

impl Iterator for Sources<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let source;
        (source, self.bytes) = self.bytes.split_first_chunk::<4>()?;
        Some(u32::from_be_bytes(*source))
    }
}
