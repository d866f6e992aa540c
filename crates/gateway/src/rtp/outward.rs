//! From the overlay to UDP: by one way or the same by two.

use super::{Leg, Ways};
use crate::video::Sink;
use crate::video::line::Event;
use base::Time;
use std::net::UdpSocket;
use voice::rtp::{HEADER_BYTES, Header};
use voice::ts::{RTP_PAYLOAD_TYPE, SYNC};

/// The ways out.
pub(super) struct Senders {
    ways: Vec<(UdpSocket, Leg)>,
    wrap: Option<Wrap>,
    wrapped: Vec<u8>,
}

impl Senders {
    pub(super) fn new(ways: Vec<(UdpSocket, Leg)>, wrap: Option<Wrap>) -> Senders {
        Senders {
            ways,
            wrap,
            wrapped: Vec::new(),
        }
    }
}

impl Sink for Senders {
    type Counts = Ways;

    fn send(&mut self, now: Time, payload: &[u8]) -> u64 {
        let bytes = match &mut self.wrap {
            Some(wrap) => {
                wrap.write(now, payload, &mut self.wrapped);
                &self.wrapped
            }
            None => payload,
        };
        let ways = self.ways.iter();
        let failed = ways.filter(|(socket, leg)| socket.send_to(bytes, leg.address).is_err());
        failed.count() as u64
    }

    fn look(&mut self, _tell: &dyn Fn(Event)) -> Ways {
        None
    }
}

/// Puts an RTP header in front of bare transport streams (SMPTE ST 2022-2).
#[derive(Debug)]
pub(super) struct Wrap {
    pub(super) ssrc: u32,
    pub(super) seq: u16,
}

impl Wrap {
    /// Writes the packet as it goes; what is RTP already stays as it is.
    fn write(&mut self, now: Time, packet: &[u8], out: &mut Vec<u8>) {
        out.clear();
        if packet.first() == Some(&SYNC) {
            // 90 000 ticks a second; wraps.
            let ticks = u128::from(now.as_nanos()) * 9 / 100_000;
            let header = Header {
                marker: false,
                payload_type: RTP_PAYLOAD_TYPE,
                seq: self.seq,
                timestamp: ticks as u32,
                ssrc: self.ssrc,
            };
            self.seq = self.seq.wrapping_add(1);
            out.reserve(HEADER_BYTES + packet.len());
            out.extend(header.to_bytes());
        }
        out.extend_from_slice(packet);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use voice::rtp::Packet;

    #[test]
    fn bare_transport_streams_get_a_header_and_rtp_stays() {
        let mut wrap = Wrap {
            ssrc: 7,
            seq: u16::MAX,
        };
        let mut out = Vec::new();
        let stream = [SYNC; 188];
        for (second, seq) in [(1, u16::MAX), (2, 0)] {
            wrap.write(Time::from_nanos(second * 1_000_000_000), &stream, &mut out);
            let packet = Packet::parse(&out).unwrap();
            let header = packet.header();
            assert_eq!((header.seq, header.ssrc, header.payload_type), (seq, 7, 33));
            assert_eq!(header.timestamp, 90_000 * second as u32);
            assert_eq!(packet.body(), stream);
        }
        let rtp = out.clone();
        wrap.write(Time::ZERO, &rtp, &mut out);
        assert_eq!(out, rtp);
    }
}
