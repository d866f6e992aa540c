//! Computes the loss that protection leaves on a link, for packets with a given time left.
//!
//! [`Case::left`] is the only calculation: `why`, `flows` and `groups` all use it, so that they agree. The plan is the
//! engine's own.

use base::{Duration, Time};
use overlay::realtime::{
    Aims, LaneLink, Losses, Pilot, Protect, Reason, RoundTrip, SLACK_LEAST, TOLERANCE,
    predict_requests,
};

/// Time between two packets of a call.
const INTERVAL: Duration = Duration::from_millis(20);
/// Size of a call's packet: 172 bytes of RTP and the headers of the overlay.
const PACKET_BYTES: usize = 220;
/// How much longer a repair packet is than the packets that it covers: 9 to 24 bytes, more for a wider window.
const REPAIR_MORE_BYTES: usize = 16;
/// Packets of one second. After them the pilot decides its plan.
const PACKETS: u64 = 50;
/// A plan counts as better only if it leaves less than this share of what the present plan leaves.
const BETTER: f64 = 0.9;

/// The share of packets that a link leaves lost, and the protection that it uses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Left {
    /// The share of packets that remains lost.
    pub(super) share: f64,
    /// `none`, `requests`, `repair` (besides requests), or `copies` (besides requests).
    pub(super) by: &'static str,
    /// Repair packets, or copies, per packet.
    pub(super) repair: f64,
    /// Why the link does not do more.
    pub(super) reason: Reason,
}

/// A link, the aims on it, and the time that packets have left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) aims: Aims,
    /// The sender allows less repair than the node does.
    pub(super) is_limited: bool,
    /// The sender has a target of its own.
    pub(super) has_target: bool,
    pub(super) link: LaneLink,
    /// The mean length of a run of losses.
    pub(super) run: f64,
    /// The time that packets have left after their path.
    pub(super) slack: Duration,
}

impl Case {
    /// Computes the share that remains lost, and the protection that is used.
    pub(super) fn left(&self) -> Left {
        let nothing = Left {
            share: self.link.share,
            by: "none",
            repair: 0.0,
            reason: Reason::Configured,
        };
        if self.link.share <= 0.0 {
            return Left {
                reason: Reason::Clean,
                ..nothing
            };
        }
        if self.slack < SLACK_LEAST {
            return Left {
                reason: Reason::NoTime,
                ..nothing
            };
        }
        match self.aims.protect {
            Protect::Off => nothing,
            Protect::Requests => self.requests(Reason::Configured),
            // Further repair by the ends or by other paths is not a property of the link.
            Protect::Auto | Protect::Hop | Protect::EndToEnd | Protect::Paths => self.planned(),
        }
    }

    /// Returns true if more loss remains than the target allows. A sender that limits repair and names no target has no
    /// target to miss.
    pub(super) fn is_short(&self, left: &Left) -> bool {
        let is_aimed_at = self.has_target || !self.is_limited;
        is_aimed_at && left.share > self.aims.target * TOLERANCE
    }

    fn requests(&self, reason: Reason) -> Left {
        let LaneLink {
            share,
            rtt,
            strikes,
            ..
        } = self.link;
        let losses = Losses::of(share, self.run);
        let is_predicted = share <= losses.share;
        Left {
            share: match is_predicted {
                true => predict_requests(losses, rtt, self.slack, INTERVAL, strikes),
                // No prediction exists for a link that loses nearly everything. Requests would not help it.
                false => share,
            },
            by: "requests",
            repair: 0.0,
            reason,
        }
    }

    /// Computes what the engine would do for a call.
    fn planned(&self) -> Left {
        let mut pilot = Pilot::new(self.aims);
        // No packet has arrived and none is lost yet; the neighbour reports the runs.
        pilot.on_report(0, 0, self.run);
        let begin = Time::from_nanos(0);
        for packet in 0..PACKETS {
            pilot.on_sent(
                begin + INTERVAL * packet,
                PACKET_BYTES,
                Some(self.slack),
                0,
                None,
            );
        }
        pilot.look(begin + INTERVAL * PACKETS, &self.link);
        let plan = pilot.plan();
        let Some(added) = plan.share else {
            return self.requests(plan.reason);
        };
        Left {
            share: plan.predicted,
            by: match added.lag {
                0 => "repair",
                _ => "copies",
            },
            repair: added.ratio(),
            reason: plan.reason,
        }
    }

    /// Returns the next cheaper plan: the best one that adds less than this one.
    pub(super) fn cheaper(&self, left: &Left) -> Option<Left> {
        // Requests add hardly any traffic, so there is nothing cheaper.
        let adds = (left.repair > 0.0).then_some(left.repair * 0.99)?;
        Some(self.capped(adds).left())
    }

    /// Returns the next better plan, whatever it adds: the cheapest one that leaves less.
    pub(super) fn better(&self, left: &Left) -> Option<Left> {
        let aims = Aims {
            protect: Protect::Auto,
            target: (left.share * BETTER / TOLERANCE).max(f64::MIN_POSITIVE),
            ..self.aims
        };
        let better = Case { aims, ..*self }.capped(f64::from(u16::MAX)).left();
        (better.share <= left.share * BETTER).then_some(better)
    }

    /// Returns the same case with another cap.
    pub(super) fn capped(&self, most: f64) -> Case {
        let aims = Aims {
            most,
            most_single: most,
            ..self.aims
        };
        Case { aims, ..*self }
    }

    /// Returns each half of the link if a node is put half way: half as long, and with about half of the losses.
    pub(super) fn halved(&self) -> Case {
        let LaneLink { share, rtt, .. } = self.link;
        let link = LaneLink {
            share: 1.0 - (1.0 - share).sqrt(),
            rtt: RoundTrip {
                least: rtt.least.div(2),
                usual: rtt.usual.div(2),
            },
            ..self.link
        };
        Case { link, ..*self }
    }
}

impl Left {
    /// Returns what the protection adds to the bytes of a call, as a share.
    pub(super) fn added(&self) -> f64 {
        self.repair * (PACKET_BYTES + REPAIR_MORE_BYTES) as f64 / PACKET_BYTES as f64
    }
}
