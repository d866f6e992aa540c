//! The quality of both directions of one stream: RTP is counted by a reception per direction; RTCP provides the reports
//! of the ends and the round trips to them.
//!
//! ```text
//!   from the caller ── RTP ──> directions[caller].reception
//!                  └── RTCP ─> its reports: on what it hears, which is the callee's stream
//!                              its SRs: noted, for the round trip to the callee
//! ```

use super::report::{Drops, SideReport};
use base::{Duration, Time};
use core::net::SocketAddr;
use voice::live::{Arrival, Reception, Reported, RoundTrip, Settings, Window};
use voice::media::{Carrier, Drop};
use voice::rtp::rtcp::Compound;
use voice::rtp::{Header, Kind, Packet};
use voice::sdp::Side;

/// One stream, in both directions.
#[derive(Debug)]
pub(super) struct Heard {
    directions: [Direction; 2],
}

/// The traffic from one side.
#[derive(Debug)]
struct Direction {
    carrier: Carrier,
    reception: Reception,
    window: Option<Window>,
    reported: Reported,
    /// The round trip, from the SRs that passed towards the end on this side.
    round_trip: RoundTrip,
    round_trip_last: Option<Duration>,
    packets: u64,
    bytes: u64,
    rtcp_packets: u64,
    drops: Drops,
    remote: Option<SocketAddr>,
    /// The reception of the direct copies, if the stream is mirrored.
    direct: Option<Box<Reception>>,
    settings: Settings,
}

/// The circumstances of a datagram's arrival.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Came {
    pub(super) arrival: Arrival,
    /// The sender's address, over UDP.
    pub(super) from: Option<SocketAddr>,
}

impl Heard {
    pub(super) fn new(carriers: [Carrier; 2], settings: Settings) -> Heard {
        Heard {
            directions: carriers.map(|carrier| Direction {
                carrier,
                reception: Reception::new(settings),
                window: None,
                reported: Reported::new(),
                round_trip: RoundTrip::new(),
                round_trip_last: None,
                packets: 0,
                bytes: 0,
                rtcp_packets: 0,
                drops: Drops::default(),
                remote: None,
                direct: None,
                settings,
            }),
        }
    }

    pub(super) fn set_settings(&mut self, side: Side, settings: Settings) {
        let direction = &mut self.directions[side.index()];
        direction.settings = settings;
        direction.reception.set_settings(settings);
        if let Some(direct) = &mut direction.direct {
            direct.set_settings(settings);
        }
    }

    /// Records that a datagram of the stream passes from `side` to the other side.
    pub(super) fn on_passed(
        &mut self,
        now: Time,
        side: Side,
        kind: Kind,
        datagram: &[u8],
        came: Came,
        learned: bool,
    ) {
        let direction = &mut self.directions[side.index()];
        direction.packets += 1;
        direction.bytes += datagram.len() as u64;
        match kind {
            Kind::Rtp => {
                if learned {
                    direction.remote = came.from;
                }
                if let Ok(packet) = Packet::parse(datagram) {
                    let ended = direction
                        .reception
                        .on_packet(now, &packet.header(), came.arrival);
                    direction.window = ended.or(direction.window.take());
                }
            }
            Kind::Rtcp => {
                direction.rtcp_packets += 1;
                // SRTP encrypts RTCP except its beginning; unreadable packets are ignored.
                if let Ok(rtcp) = Compound::parse(datagram) {
                    self.on_rtcp(now, side, &rtcp);
                }
            }
            _ => {}
        }
    }

    pub(super) fn on_dropped(&mut self, side: Side, reason: Drop) {
        self.directions[side.index()].drops.count(reason);
    }

    /// Records that a packet of `side` has arrived directly, beside the overlay. Its delay is not known, because the
    /// clocks of two gateways have no common zero.
    pub(super) fn on_direct(&mut self, now: Time, side: Side, header: &Header) {
        let direction = &mut self.directions[side.index()];
        let settings = direction.settings;
        let direct = direction
            .direct
            .get_or_insert_with(|| Box::new(Reception::new(settings)));
        direct.on_packet(now, header, Arrival::default());
    }

    pub(super) fn reports(&mut self, now: Time) -> [SideReport; 2] {
        self.directions.each_mut().map(|direction| {
            let ended = direction.reception.on_time(now);
            direction.window = ended.or(direction.window.take());
            let last = direction.reception.last_packet();
            SideReport {
                carrier: direction.carrier,
                quality: direction.reception.whole(),
                window: direction.window.clone(),
                reported: direction.reported,
                round_trip: direction.round_trip_last,
                packets: direction.packets,
                bytes: direction.bytes,
                rtcp_packets: direction.rtcp_packets,
                drops: direction.drops,
                remote: direction.remote,
                silence: last.map(|last| now.since(last)),
                direct: direction.direct.as_ref().map(|direct| direct.whole()),
            }
        })
    }

    /// Records that RTCP passes from `side` to the other side.
    fn on_rtcp(&mut self, now: Time, side: Side, rtcp: &Compound<'_>) {
        let hears = self.directions[side.other().index()].reception.ssrc();
        self.directions[side.other().index()]
            .round_trip
            .on_toward(now, rtcp);
        let direction = &mut self.directions[side.index()];
        if let Some(ssrc) = hears {
            direction.reported.on_rtcp(now, ssrc, rtcp);
        }
        let told = direction.round_trip.on_back(now, rtcp);
        direction.round_trip_last = told.or(direction.round_trip_last);
        // If both round trips are known, their sum is the round trip between the ends. It determines the delay that RTP
        // does not reveal.
        if let [Some(one), Some(other)] = self.directions.each_ref().map(|d| d.round_trip_last) {
            for direction in &mut self.directions {
                direction.reception.set_round_trip(one + other);
            }
        }
    }
}
