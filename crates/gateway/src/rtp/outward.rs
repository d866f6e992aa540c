//! From the overlay to UDP: by one way or the same by two.

use super::{Core, Event, Leg, Shared};
use crate::video::{Inlet, Watch};
use base::{Duration, Time};
use client::Error;
use net::epoll::{Interest, Poller};
use std::io;
use std::net::UdpSocket;
use std::sync::Arc;
use voice::rtp::{HEADER_BYTES, Header};
use voice::ts::{RTP_PAYLOAD_TYPE, SYNC};

/// Messages of the node in a turn: each brings up to 64 packets.
const MESSAGES_PER_TURN: usize = 8;
/// How often the end is looked for, and a node that is away.
const LOOK_EVERY: Duration = Duration::from_millis(200);

pub(super) struct Outward {
    shared: Arc<Shared>,
    poller: Poller,
    inlet: Inlet,
    ways: Vec<(UdpSocket, Leg)>,
    wrap: Option<Wrap>,
    watch: Watch,
    failed: u64,
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

impl Outward {
    pub(super) fn new(
        shared: Arc<Shared>,
        inlet: Inlet,
        ways: Vec<(UdpSocket, Leg)>,
        wrap: Option<Wrap>,
    ) -> io::Result<Outward> {
        let this = Outward {
            shared,
            poller: Poller::new()?,
            inlet,
            ways,
            wrap,
            watch: Watch::default(),
            failed: 0,
        };
        this.wait_for_node()?;
        Ok(this)
    }

    fn wait_for_node(&self) -> io::Result<()> {
        match self.inlet.fd() {
            Some(fd) => self.poller.add(fd, 0, Interest::READ),
            None => Ok(()),
        }
    }

    /// Passes on what came together; false when there is nothing.
    fn pass(&mut self, now: Time) -> Result<bool, Error> {
        let Outward {
            inlet,
            ways,
            wrap,
            watch,
            failed,
            ..
        } = self;
        let mut wrapped = Vec::new();
        inlet.receive(now, |packet| {
            watch.on_packet(now, packet.payload, packet.recovered);
            let bytes = match wrap {
                Some(wrap) => {
                    wrap.write(now, packet.payload, &mut wrapped);
                    &wrapped
                }
                None => packet.payload,
            };
            for (socket, leg) in &*ways {
                *failed += u64::from(socket.send_to(bytes, leg.address).is_err());
            }
        })
    }
}

impl Core for Outward {
    fn turn(&mut self) -> io::Result<()> {
        let mut ready = Vec::new();
        self.poller.wait(Some(LOOK_EVERY), &mut ready)?;
        let now = self.shared.clock.now();
        for _ in 0..MESSAGES_PER_TURN {
            match self.pass(now) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    (self.shared.tell)(Event::NodeAway(error));
                    break;
                }
            }
        }
        if self.inlet.look(now) {
            (self.shared.tell)(Event::NodeBack);
            self.wait_for_node()?;
        }
        let mut report = self.shared.report();
        report.seen = self.watch.seen();
        report.dropped = self.failed;
        Ok(())
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
