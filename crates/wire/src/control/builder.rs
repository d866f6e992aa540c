//! Appends messages to a control datagram.

use super::nack::{RANGE_BYTES, range};
use super::reliable::{ACK_RANGE_BYTES, AckHead, ReliableRate, ReliableSkip};
use super::{
    ClockOffset, FlowAim, GroupReport, Hello, Hold, LaneReport, LinkDoubt, MESSAGE_HEADER_BYTES,
    MtuAnswer, MtuProbe, Reception, StreamSeenAt, TailProbe, kind,
};
use crate::bytes::Writer;
use crate::record::{Key, Record};
use crate::{Endpoint, Full};
use base::NodeAddr;

/// A builder of the plaintext of one control datagram. A message that does not fit is refused with [`Full`], and what
/// is written stays unchanged.
#[derive(Debug)]
pub struct Builder<'a> {
    writer: Writer<'a>,
    /// The position and the kind of the last message, to which records and keys can be added.
    last: Option<(usize, u8)>,
}

impl<'a> Builder<'a> {
    /// Creates a builder from the start of `plaintext`.
    pub const fn new(plaintext: &'a mut [u8]) -> Builder<'a> {
        Builder {
            writer: Writer::new(plaintext),
            last: None,
        }
    }

    /// Returns the number of bytes written so far: the length of the plaintext.
    pub const fn len(&self) -> usize {
        self.writer.len()
    }

    /// Returns true if nothing is written.
    pub const fn is_empty(&self) -> bool {
        self.writer.is_empty()
    }

    /// Returns how many bytes still fit.
    pub const fn room(&self) -> usize {
        self.writer.room()
    }

    /// Appends a [`Hello`].
    pub fn hello(&mut self, hello: &Hello) -> Result<(), Full> {
        self.message(kind::HELLO, &hello.to_bytes())
    }

    /// Appends a [`TailProbe`].
    pub fn tail_probe(&mut self, probe: TailProbe) -> Result<(), Full> {
        self.message(kind::TAIL_PROBE, &probe.to_bytes())
    }

    /// Appends a [`super::Nack`] of the lane numbers `missing`, in rising order. Returns how many of them it contains:
    /// all, or as many from the front as fit. [`Full`] if not even the first fits.
    pub fn nack(&mut self, strike: u8, missing: &[u64]) -> Result<usize, Full> {
        if missing.is_empty() {
            return Ok(0);
        }
        let room = self.room().min(usize::from(u16::MAX));
        let ranges_max = room.saturating_sub(MESSAGE_HEADER_BYTES + 1) / RANGE_BYTES;
        if ranges_max == 0 {
            return Err(Full);
        }
        self.message(kind::NACK, &[strike])?;
        let mut named = 0;
        for _ in 0..ranges_max {
            if named == missing.len() {
                break;
            }
            let (bytes, covered) = range(&missing[named..]);
            self.append(kind::NACK, &[&bytes])?;
            named += covered;
        }
        Ok(named)
    }

    /// Appends a [`super::ReliableAck`] with as many ranges as fit. Returns their number. `ranges` are (received,
    /// missing) counts from `head.end` down. [`Full`] if not even the fixed part fits.
    pub fn reliable_ack(
        &mut self,
        head: &AckHead,
        ranges: impl Iterator<Item = (u16, u16)>,
    ) -> Result<usize, Full> {
        self.message(kind::RELIABLE_ACK, &head.to_bytes())?;
        let mut told = 0;
        for (received, missing) in ranges {
            let mut bytes = [0; ACK_RANGE_BYTES];
            bytes[..2].copy_from_slice(&received.to_be_bytes());
            bytes[2..].copy_from_slice(&missing.to_be_bytes());
            if self.room() < ACK_RANGE_BYTES || self.append(kind::RELIABLE_ACK, &[&bytes]).is_err()
            {
                break;
            }
            told += 1;
        }
        Ok(told)
    }

    /// Appends a [`ReliableSkip`].
    pub fn reliable_skip(&mut self, skip: ReliableSkip) -> Result<(), Full> {
        self.message(kind::RELIABLE_SKIP, &skip.to_bytes())
    }

    /// Appends a [`ReliableRate`].
    pub fn reliable_rate(&mut self, rate: ReliableRate) -> Result<(), Full> {
        self.message(kind::RELIABLE_RATE, &rate.to_bytes())
    }

    /// Appends a hold to the last message if that is a [`LaneHolds`](super::LaneHolds), otherwise to a new one.
    pub fn lane_hold(&mut self, hold: Hold) -> Result<(), Full> {
        self.append(kind::LANE_HOLDS, &[&hold.to_bytes()])
    }

    /// Appends a [`LinkDoubt`].
    pub fn link_doubt(&mut self, doubt: LinkDoubt) -> Result<(), Full> {
        self.message(kind::LINK_DOUBT, &doubt.to_bytes())
    }

    /// Appends a [`LaneReport`].
    pub fn lane_report(&mut self, report: LaneReport) -> Result<(), Full> {
        self.message(kind::LANE_REPORT, &report.to_bytes())
    }

    /// Appends the address at which the neighbor is seen.
    pub fn seen_at(&mut self, endpoint: Endpoint) -> Result<(), Full> {
        self.message(kind::SEEN_AT, &endpoint.to_bytes())
    }

    /// Appends the address at which the neighbor is seen through a byte stream.
    pub fn stream_seen_at(&mut self, seen: StreamSeenAt) -> Result<(), Full> {
        self.message(kind::STREAM_SEEN_AT, &seen.to_bytes())
    }

    /// Appends the offset between the sender's clock and the network's.
    pub fn clock_offset(&mut self, clock: ClockOffset) -> Result<(), Full> {
        self.message(kind::CLOCK_OFFSET, &clock.to_bytes())
    }

    /// Appends the target of a flow to the last message if that is a [`FlowAims`](super::FlowAims), otherwise
    /// to a new one.
    pub fn flow_aim(&mut self, aim: FlowAim) -> Result<(), Full> {
        self.append(kind::FLOW_AIMS, &[&aim.to_bytes()])
    }

    /// Appends an [`MtuProbe`] with its padding. The probe must be alone in its datagram, which is sealed without
    /// further bytes. Returns [`Full`] also if the probe's length is less than it needs itself.
    pub fn mtu_probe(&mut self, probe: MtuProbe) -> Result<(), Full> {
        let body = probe.body_bytes()?;
        if self.room() < MESSAGE_HEADER_BYTES + body {
            return Err(Full);
        }
        self.message(kind::MTU_PROBE, &[])?;
        let at = self.len();
        self.writer.u32(0)?;
        for _ in MtuProbe::FIXED_BYTES - 2..body {
            self.writer.u8(0)?;
        }
        let written = self.writer.written_mut();
        written[at - 2..at].copy_from_slice(&(body as u16).to_be_bytes());
        probe.emit(&mut written[at..])
    }

    /// Appends an [`MtuAnswer`].
    pub fn mtu_answer(&mut self, answer: MtuAnswer) -> Result<(), Full> {
        self.message(kind::MTU_ANSWER, &answer.to_bytes())
    }

    /// Appends a [`super::GroupReport`] of at most [`super::RECEPTIONS_MAX`] receptions.
    pub fn group_report(
        &mut self,
        (source, group): (NodeAddr, NodeAddr),
        receivers: u32,
        receptions: &[Reception],
    ) -> Result<(), Full> {
        let bytes = GroupReport::FIXED_BYTES + receptions.len() * Reception::BYTES;
        if receptions.len() > super::RECEPTIONS_MAX || self.room() < MESSAGE_HEADER_BYTES + bytes {
            return Err(Full);
        }
        self.last = Some((self.len(), kind::GROUP_REPORT));
        self.writer.u8(kind::GROUP_REPORT)?;
        self.writer.u16(bytes as u16)?;
        for field in [source.0, group.0, receivers] {
            self.writer.u32(field)?;
        }
        receptions
            .iter()
            .try_for_each(|reception| self.writer.put(&reception.to_bytes()))
    }

    /// Appends a record to the last message if that is a [`Records`](crate::record::Records), otherwise to a
    /// new one. Returns [`Full`] also if its body is longer than [`crate::record::BODY_BYTES_MAX`].
    pub fn record(&mut self, record: &Record<'_>) -> Result<(), Full> {
        self.append(kind::RECORDS, &[&record.header()?, record.body])
    }

    /// Appends the confirmation of a record to the last message if that is an [`Acks`](crate::record::Acks), otherwise
    /// to a new one.
    pub fn record_ack(&mut self, key: Key) -> Result<(), Full> {
        self.append(kind::RECORD_ACK, &[&key.to_bytes()])
    }

    /// Appends a message of any kind.
    pub fn message(&mut self, kind: u8, body: &[u8]) -> Result<(), Full> {
        let length = u16::try_from(body.len()).map_err(|_| Full)?;
        if self.room() < MESSAGE_HEADER_BYTES + body.len() {
            return Err(Full);
        }
        self.last = Some((self.len(), kind));
        self.writer.u8(kind)?;
        self.writer.u16(length)?;
        self.writer.put(body)
    }

    /// Appends `parts` to the body of the last message if it is of this kind and has room, otherwise to a new message.
    /// Appends all or nothing.
    fn append(&mut self, kind: u8, parts: &[&[u8]]) -> Result<(), Full> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        let body_max = usize::from(u16::MAX);
        let at = match self.last {
            Some((at, last))
                if last == kind && self.len() - at - MESSAGE_HEADER_BYTES + bytes <= body_max =>
            {
                if self.room() < bytes {
                    return Err(Full);
                }
                at
            }
            _ => {
                if self.room() < MESSAGE_HEADER_BYTES + bytes || bytes > body_max {
                    return Err(Full);
                }
                let at = self.len();
                self.message(kind, &[])?;
                at
            }
        };
        for part in parts {
            self.writer.put(part)?;
        }
        let written = self.writer.written_mut();
        let length = written.len() - at - MESSAGE_HEADER_BYTES;
        written[at + 1..at + 3].copy_from_slice(&(length as u16).to_be_bytes());
        Ok(())
    }
}
