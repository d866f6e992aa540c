//! What protects the real-time lane of a link: copies sent at once, repair packets, and what the two ends tell
//! each other of its losses.

use super::Link;
use crate::flow::FlowKey;
use crate::realtime::{Ahead, LaneLink, RoundTrip};
use base::{Duration, NodeAddr, Time};
use congestion::brake::Brake;
use wire::control::{LaneReport, MESSAGE_HEADER_BYTES, REPAIR_FRONT_BYTES};
use wire::data::Header;
use wire::{CLEAR_BYTES, TAG_BYTES};

/// What a datagram with a repair packet has around the longest packet in it.
const REPAIR_AROUND: usize = CLEAR_BYTES + MESSAGE_HEADER_BYTES + REPAIR_FRONT_BYTES + TAG_BYTES;

/// A neighbour is told so often what has become of its packets.
const REPORT_EVERY: Duration = Duration::from_secs(1);

impl Link {
    /// Decides which packets are sent twice at once, by what is known of the link now.
    pub(crate) fn weigh_copies(&mut self, now: Time) {
        // Round trips vary in a queue as well, and copies would keep it full.
        let brake = self.brake.as_ref();
        let is_queued = brake.is_some_and(Brake::is_queued) || self.path.hello.rtt().is_longer();
        let is_random = brake.is_none_or(Brake::allows_redundancy);
        let sends = self.ahead.is_some_and(|ahead| ahead.concerns(false));
        let has_rested = self.copies_rest.allows(now, sends, is_queued);
        let loss = self.path.hello.loss_out().share();
        self.ahead = match self.copies_ahead && is_random && !is_queued && has_rested {
            true => Ahead::of(self.round_trip(), loss, self.history.interval()),
            false => None,
        };
    }

    /// Looks whether the protection of the lane to the neighbour is still what its losses take.
    pub(crate) fn weigh_protection(&mut self, now: Time) {
        if !self.pilot.watches() {
            return;
        }
        let longer = self.path.hello.rtt().longer_by();
        let known = self.round_trip();
        let least = known.least + longer;
        let link = LaneLink {
            share: self.path.hello.loss_out().share(),
            rtt: RoundTrip {
                least,
                usual: known.usual.max(least),
            },
            longer: longer.div(2),
            is_random: self.brake.as_ref().is_none_or(Brake::allows_redundancy),
            takes_repair: self.peer_takes_repair,
            strikes: self.strikes,
        };
        if self.pilot.look(now, &link) {
            self.history.set_share(self.pilot.plan().share);
        }
        self.receiver.release_repair(now);
    }

    /// Repair, or the choice of it, is due before the next packet.
    #[inline]
    pub(super) fn owes_repair(&self) -> bool {
        self.history.owes_repair() || self.pilot.begins()
    }

    /// Packets that are missing are asked for.
    pub(crate) fn asks(&self) -> bool {
        self.strikes > 0
    }

    /// What has become of the neighbour's packets, if it is time to tell it and there is news.
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

    /// Decides what protects a packet of the real-time lane that was recorded just now.
    #[inline]
    pub(super) fn protect(
        &mut self,
        now: Time,
        packet: &[u8],
        rest_of_path: &impl Fn(NodeAddr) -> Duration,
    ) {
        let header = Header::trusted(packet);
        let recovered = header.is_recovered();
        let ahead = self.ahead.filter(|ahead| ahead.concerns(recovered));
        let watches = self.pilot.watches() && !recovered;
        let left = header.remaining().duration();
        if !watches && (ahead.is_none() || left.is_none()) {
            return;
        }
        let left = left.map(|left| left.saturating_sub(rest_of_path(header.destination())));
        if let Some((ahead, left)) = ahead.zip(left)
            && ahead.suits(left, recovered)
        {
            // What was repaired before is one packet of few, and nothing else saves it here.
            return self.history.copy_ahead(now, if recovered { 2 } else { 1 });
        }
        if !watches {
            return;
        }
        let slack = left.map(|left| left.saturating_sub(self.way_there()));
        let flow = FlowKey::of(&header).hash();
        // A repair packet must carry it.
        let fits = packet.len() + REPAIR_AROUND <= usize::from(self.path.mtu.usable());
        if self.pilot.on_sent(now, packet.len(), slack, flow) && fits {
            self.history.cover();
        }
    }
}
