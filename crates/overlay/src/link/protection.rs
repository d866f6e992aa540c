//! The protection of a link's real-time lane: copies sent at once, repair packets, and the reports of the two ends to
//! each other about its losses.

use super::Link;
use crate::aims::FlowAims;
use crate::ends::is_own;
use crate::flow::FlowKey;
use crate::realtime::{
    Ahead, Aims, LaneLink, LastRound, Losses, REPEAT_AFTER, Reason, RoundTrip, SPAN,
};
use base::{Duration, NodeAddr, Time};
use congestion::brake::Brake;
use graph::protection::Lane;
use wire::control::{LaneReport, MESSAGE_HEADER_BYTES, REPAIR_FRONT_BYTES};
use wire::data::Header;
use wire::link_state::Protection;
use wire::{CLEAR_BYTES, TAG_BYTES};

/// The bytes around the longest covered packet in a datagram with a repair packet.
const REPAIR_AROUND: usize = CLEAR_BYTES + MESSAGE_HEADER_BYTES + REPAIR_FRONT_BYTES + TAG_BYTES;

/// The interval at which a neighbour is told what has become of its packets.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// The runs of a link's losses, as the neighbour reports them.
#[derive(Debug, Default)]
pub(super) struct RunsTold {
    mean_256ths: u16,
    received: Option<u32>,
    /// Approximate number of runs over which the mean is taken.
    count: f64,
}

/// The mean of fewer runs says little. Choice: over 40 runs of random length, the error of the mean is a ninth.
const RUNS_LEAST: f64 = 40.0;

impl RunsTold {
    fn on_report(&mut self, report: &LaneReport, loss: f64) {
        let before = self.received.replace(report.received);
        let came = report
            .received
            .wrapping_sub(before.unwrap_or(report.received));
        self.mean_256ths = report.run_256ths.max(256);
        let mean = f64::from(self.mean_256ths) / 256.0;
        // A counter that has restarted appears as a very large number.
        if came < 1 << 30 {
            self.count = (self.count + f64::from(came) * loss / mean).min(RUNS_LEAST);
        }
    }

    /// Returns the mean length of runs in 256ths of a packet; 0 while there were few runs.
    fn mean_256ths(&self) -> u16 {
        match self.count >= RUNS_LEAST {
            true => self.mean_256ths,
            false => 0,
        }
    }
}

impl Link {
    /// Decides which packets are sent twice at once, by what is known of the link now.
    pub(crate) fn weigh_copies(&mut self, now: Time) {
        // Round trips vary in a queue as well, and copies would keep the queue full.
        let brake = self.brake.as_ref();
        let is_queued = brake.is_some_and(Brake::is_queued) || self.path.hello.rtt().is_longer();
        let is_random = self.takes_redundancy();
        let sends = self.ahead.is_some_and(|ahead| ahead.concerns(false));
        let has_rested = self.copies_rest.allows(now, sends, is_queued);
        let loss = self.path.hello.loss_out().share();
        self.ahead = match self.copies_ahead && is_random && !is_queued && has_rested {
            true => Ahead::of(self.round_trip(), loss, self.history.interval()),
            false => None,
        };
    }

    /// Returns what is known of the lane to the neighbour.
    pub(crate) fn lane_link(&self) -> LaneLink {
        let longer = self.path.hello.rtt().longer_by();
        let known = self.round_trip();
        let least = known.least + longer;
        LaneLink {
            share: self.path.hello.loss_out().share(),
            rtt: RoundTrip {
                least,
                usual: known.usual.max(least),
            },
            longer: longer.div(2),
            span: SPAN as u32,
            is_random: self.takes_redundancy(),
            takes_repair: self.peer_takes_repair,
            strikes: self.requests_there(),
        }
    }

    /// Returns true if the neighbour's repair packets are useful to this node.
    pub(crate) fn takes_repair(&self) -> bool {
        self.takes_repair
    }

    /// Checks whether the protection of the lane to the neighbour still suits its losses, and releases the memory of a
    /// silent lane.
    pub(crate) fn weigh_protection(&mut self, now: Time) {
        self.history.release_idle(now);
        self.receiver.release_idle(now);
        self.weigh_last_round();
        if self.pilot.look(now, &self.lane_link()) {
            self.history.set_share(self.pilot.plan().share);
            self.plan_begins();
        }
    }

    /// Sets how many copies the last requests and answers to the neighbour have. Copies would keep a queue full.
    fn weigh_last_round(&mut self) {
        let last = match self.takes_redundancy() {
            false => LastRound::LEAST,
            true => {
                let share = self.path.hello.loss_out().share();
                let apart = REPEAT_AFTER.as_secs_f64() / self.history.interval().as_secs_f64();
                LastRound::of(Losses::of(share, self.pilot.run()), apart)
            }
        };
        self.history.set_last_round(last);
        self.receiver.set_last_round(last);
    }

    pub(super) fn plan_begins(&mut self) {
        self.plan_began = (self.counts.realtime_out_bytes, self.counts.repair_out_bytes);
    }

    /// Returns the bytes of repair packets under the plan in force, as a share of the bytes of the packets that they
    /// repair.
    pub(crate) fn repair_cost(&self) -> f64 {
        let (data, repair) = self.plan_began;
        let data = self.counts.realtime_out_bytes - data;
        (self.counts.repair_out_bytes - repair) as f64 / data.max(1) as f64
    }

    /// Returns true if a run of packets ends here: the choice of repair is due before the next packet, or there is no
    /// room for more repair packets. Otherwise the repair packets that a turn earns follow together, so that the runs
    /// stay bursts for the sockets.
    #[inline]
    pub(crate) fn ends_run(&self) -> bool {
        self.history.is_crowded_by_repair() || self.pilot.begins()
    }

    /// Returns how often the neighbour requests a packet of this node that it misses.
    pub(crate) fn requests_there(&self) -> u8 {
        self.peer_strikes.unwrap_or(self.strikes)
    }

    /// Returns true if this node requests missing packets.
    pub(crate) fn asks(&self) -> bool {
        self.strikes > 0
    }

    /// Returns what others are to know of the lane to the neighbour: the length of its runs of losses, 0 while that is
    /// not known, and how much repair may be sent for a single call.
    ///
    /// Choice: a lane that has met a queue and adds nothing is announced as one without repair.
    pub(crate) fn lane(&self, aims: &Aims) -> Lane {
        let repairs = self.peer_takes_repair && self.pilot.plan().reason != Reason::Queue;
        Lane {
            run_256ths: self.runs_told.mean_256ths(),
            repair_16ths: match repairs {
                true => aims.announced_16ths(),
                false => 0,
            },
        }
    }

    /// Returns true if, as far as is known, a queue in front of the link drops packets or has recently done so.
    pub(crate) fn loses_in_a_queue(&self) -> bool {
        !self.takes_redundancy() || self.pilot.plan().reason == Reason::Queue
    }

    /// Returns what others are told of the link's lanes, once something is known.
    pub(crate) fn protection(&self) -> Option<Protection> {
        self.announce.protection(self.asks())
    }

    /// Returns the loss that others are told.
    pub(crate) fn announced_loss(&self) -> u16 {
        self.announce.announced().map_or(0, |cost| cost.loss)
    }

    /// The neighbour reports what has become of the packets of the lane to it.
    pub(crate) fn on_lane_report(&mut self, report: &LaneReport) {
        let loss = self.path.hello.loss_out().share();
        self.runs_told.on_report(report, loss);
        let run = f64::from(report.run_256ths) / 256.0;
        self.pilot.on_report(report.received, report.lost, run);
    }

    /// Returns the report on the neighbour's packets, if it is due and there is news.
    pub(crate) fn lane_report(&mut self, now: Time) -> Option<LaneReport> {
        let received = self.receiver.stats().received;
        let (told_at, told) = self.reported;
        let since = now.since(told_at);
        let is_news = received != told || since >= REPORT_EVERY * 10;
        if !self.peer_takes_repair || !is_news || since < REPORT_EVERY {
            return None;
        }
        self.reported = (now, received);
        Some(LaneReport {
            received: received as u32,
            lost: self.receiver.settle_lost() as u32,
            run_256ths: (self.path.loss.run() * 256.0).min(f64::from(u16::MAX)) as u16,
        })
    }

    /// Decides how a packet of the real-time lane that was just recorded is protected.
    #[inline]
    pub(super) fn protect(
        &mut self,
        now: Time,
        packet: &[u8],
        rest_of_path: &impl Fn(NodeAddr) -> Duration,
        aims: &FlowAims,
    ) {
        let header = Header::trusted(packet);
        let wish = aims.of_packet(&header);
        if let Some((flow, aim)) = wish {
            // The neighbour may repair the flow, whatever this node does about it.
            self.told_aims.on_sent(now, flow, aim);
        }
        let flow = || FlowKey::of(&header).hash();
        let bytes = CLEAR_BYTES + packet.len();
        let catches_up = |brake: &mut Brake| brake.catches_up_with(now, flow, bytes);
        if self.brake.as_mut().is_some_and(catches_up) {
            return;
        }
        let recovered = header.is_recovered();
        let ahead = self.ahead.filter(|ahead| ahead.concerns(recovered));
        // What the two ends add to protect a call is not a second flow that needs protection.
        let watches = !recovered && !is_own(&header);
        let left = header.remaining().duration();
        if !watches && (ahead.is_none() || left.is_none()) {
            return;
        }
        let left = left.map(|left| left.saturating_sub(rest_of_path(header.destination())));
        if let Some((ahead, left)) = ahead.zip(left)
            && ahead.suits(left, recovered)
        {
            // A packet that was repaired before is one of few, and nothing else saves it here.
            return self.history.copy_ahead(now, if recovered { 2 } else { 1 });
        }
        if !watches {
            return;
        }
        let slack = left.map(|left| left.saturating_sub(self.way_there()));
        let flow = flow();
        // The packet must fit into a repair packet.
        let fits = packet.len() + REPAIR_AROUND <= usize::from(self.path.mtu.usable());
        if self.pilot.on_sent(now, packet.len(), slack, flow, wish) && fits {
            self.history.cover();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::realtime::tests::voice;
    use crate::settings::Settings;
    use wire::data::Remaining;

    #[test]
    fn a_lane_that_has_fallen_silent_holds_no_packets() {
        for settings in [Settings::modern(), Settings::paper()] {
            let at = |s| Time::ZERO + Duration::from_secs(s);
            let mut link = Link::new(NodeAddr(2), "b", &settings, 1, at(0));
            for id in 0..100 {
                let mut packet = voice(id, Remaining::NONE);
                link.history.record(at(0), &mut packet);
            }
            link.weigh_protection(at(1));
            assert!(link.history.held_bytes() > 0);
            link.weigh_protection(at(60));
            assert_eq!(link.history.held_bytes(), 0);
        }
    }
}
