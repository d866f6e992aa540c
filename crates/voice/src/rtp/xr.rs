//! RTCP extended reports (RFC 3611): the VoIP metrics block, in which a phone reports what it heard.
//!
//! ```text
//!    0                   1                   2                   3
//!    0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//!   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!   |     BT=7      |   reserved    |       block length = 8        |
//!   |                        SSRC of source                         |
//!   |   loss rate   | discard rate  | burst density |  gap density  |
//!   |       burst duration          |         gap duration          |
//!   |     round trip delay          |       end system delay        |
//!   | signal level  |  noise level  |     RERL      |     Gmin      |
//!   |   R factor    | ext. R factor |    MOS-LQ     |    MOS-CQ     |
//!   |   RX config   |   reserved    |          JB nominal           |
//!   |          JB maximum           |          JB abs max           |
//!   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! The parser skips blocks of other types. 127 means "not available" in the fields that allow it.

use super::{u16_at, u32_at};

/// Block type and length, header included, of the VoIP metrics.
const VOIP: (u8, usize) = (7, 36);

/// A receiver's report about one source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct VoipMetrics {
    /// The source reported on.
    pub ssrc: u32,
    /// Packets lost in the network, in 1/256 of those expected.
    pub loss_rate: u8,
    /// Packets that the jitter buffer discarded, in 1/256 of those expected.
    pub discard_rate: u8,
    /// Packets lost or discarded within bursts, in 1/256.
    pub burst_density: u8,
    /// The same within the gaps between bursts.
    pub gap_density: u8,
    /// Mean length of a burst.
    pub burst_ms: u16,
    /// Mean length of a gap.
    pub gap_ms: u16,
    /// Round trip between the RTP ends; 0 when unknown.
    pub round_trip_ms: u16,
    /// Delay within the end: encoding, packets, playout.
    pub end_system_ms: u16,
    /// Level of the voice, dBm0; `None` when unknown, as in the fields below.
    pub signal_dbm0: Option<i8>,
    /// Level of the noise, dBm0.
    pub noise_dbm0: Option<i8>,
    /// Residual echo return loss, dB.
    pub residual_echo_db: Option<u8>,
    /// Number of packets between losses that ends a burst, usually 16.
    pub gmin: u8,
    /// Rating R of the RTP part of the call, 0 to 100.
    pub r_factor: Option<u8>,
    /// Rating R of the part outside RTP.
    pub external_r_factor: Option<u8>,
    /// Listening quality, ten times MOS.
    pub mos_lq_tenths: Option<u8>,
    /// Conversational quality, ten times MOS.
    pub mos_cq_tenths: Option<u8>,
    /// Concealment, kind of jitter buffer and its rate, as bits.
    pub receiver: u8,
    /// Nominal delay of the jitter buffer.
    pub buffer_ms: u16,
    /// Largest delay of the jitter buffer so far.
    pub buffer_max_ms: u16,
    /// Largest possible delay of the jitter buffer.
    pub buffer_limit_ms: u16,
}

impl VoipMetrics {
    /// Returns the fraction of packets that the listener missed, lost and discarded, 0 to 1.
    #[must_use]
    pub fn missed(&self) -> f64 {
        (f64::from(self.loss_rate) + f64::from(self.discard_rate)).min(256.0) / 256.0
    }

    fn read(block: &[u8]) -> Self {
        let known = |at: usize| Some(block[at]).filter(|&value| value != 127);
        let level = |at: usize| known(at).map(u8::cast_signed);
        Self {
            ssrc: u32_at(block, 4),
            loss_rate: block[8],
            discard_rate: block[9],
            burst_density: block[10],
            gap_density: block[11],
            burst_ms: u16_at(block, 12),
            gap_ms: u16_at(block, 14),
            round_trip_ms: u16_at(block, 16),
            end_system_ms: u16_at(block, 18),
            signal_dbm0: level(20),
            noise_dbm0: level(21),
            residual_echo_db: known(22),
            gmin: block[23],
            r_factor: known(24),
            external_r_factor: known(25),
            mos_lq_tenths: known(26),
            mos_cq_tenths: known(27),
            receiver: block[28],
            buffer_ms: u16_at(block, 30),
            buffer_max_ms: u16_at(block, 32),
            buffer_limit_ms: u16_at(block, 34),
        }
    }
}

/// Iterates over the VoIP metrics among the blocks of one packet; the first block that does not fit ends the iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blocks<'a> {
    bytes: &'a [u8],
}

impl<'a> Blocks<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }
}

impl Iterator for Blocks<'_> {
    type Item = VoipMetrics;

    fn next(&mut self) -> Option<VoipMetrics> {
        loop {
            let header = self.bytes.get(..4)?;
            let length = 4 + 4 * usize::from(u16_at(header, 2));
            let block;
            (block, self.bytes) = self.bytes.split_at_checked(length)?;
            if (block[0], length) == VOIP {
                return Some(VoipMetrics::read(block));
            }
        }
    }
}
