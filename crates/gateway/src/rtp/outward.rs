//! From the overlay to UDP: by one leg, or the same packets by two.

use super::{Leg, Ways};
use crate::video::Sink;
use crate::video::line::Event;
use base::{Duration, Time};
use std::io::ErrorKind;
use std::net::UdpSocket;
use voice::rtp::{HEADER_BYTES, Header};
use voice::ts::{RTP_PAYLOAD_TYPE, SYNC};

/// The minimum time between attempts to open a failed leg again.
const OPEN_EVERY: Duration = Duration::from_secs(1);

/// The outgoing legs.
pub(super) struct Senders {
    ways: Vec<(Leg, UdpSocket)>,
    next_open: Time,
    wrap: Option<Wrap>,
    wrapped: Vec<u8>,
}

impl Senders {
    pub(super) fn new(ways: Vec<(Leg, UdpSocket)>, wrap: Option<Wrap>) -> Senders {
        Senders {
            ways,
            next_open: Time::ZERO,
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
        let may_open = now >= self.next_open;
        let mut failed = 0;
        for (leg, socket) in &mut self.ways {
            let Err(error) = socket.send_to(bytes, leg.address) else {
                continue;
            };
            failed += 1;
            // An interface that has disappeared and come back is a new one to the kernel.
            let is_full = error.kind() == ErrorKind::WouldBlock;
            if may_open && !is_full {
                self.next_open = now + OPEN_EVERY;
                if let Ok(other) = leg.sender() {
                    *socket = other;
                }
            }
        }
        failed
    }

    fn look(&mut self, _tell: &dyn Fn(Event)) -> Ways {
        None
    }
}

/// Puts an RTP header before bare transport streams (SMPTE ST 2022-2).
#[derive(Debug)]
pub(super) struct Wrap {
    pub(super) ssrc: u32,
    pub(super) seq: u16,
}

impl Wrap {
    /// Writes the packet for sending. A packet that is RTP already stays as it is.
    fn write(&mut self, now: Time, packet: &[u8], out: &mut Vec<u8>) {
        out.clear();
        if packet.first() == Some(&SYNC) {
            // The clock has 90 000 ticks per second, and wraps.
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
    use net::netns::{Namespace, available};
    use voice::rtp::Packet;

    #[test]
    fn a_way_out_goes_on_when_its_interface_is_back() {
        if let Err(why) = available() {
            eprintln!("SKIPPED: a_way_out_goes_on_when_its_interface_is_back: {why}");
            return;
        }
        let [here, there] = [(); 2].map(|()| Namespace::new().unwrap());
        let wire = || {
            here.veth("out", &there, "in").unwrap();
            here.ip(&["addr", "add", "10.4.0.1/24", "dev", "out"])
                .unwrap();
        };
        wire();
        let leg: Leg = "239.1.1.1:5004@out".parse().unwrap();
        let socket = here.run(|| leg.sender()).unwrap().unwrap();
        let mut senders = Senders::new(vec![(leg, socket)], None);
        let mut failures = |second: u64| {
            let now = Time::from_nanos(second * 1_000_000_000);
            here.run(|| senders.send(now, b"x")).unwrap()
        };
        assert_eq!(failures(1), 0);
        here.ip(&["link", "del", "out"]).unwrap();
        assert_eq!(failures(2), 1);
        wire();
        // The packet that finds the socket broken is lost, and the next one is sent.
        assert_eq!([failures(3), failures(3)], [1, 0]);
    }

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
