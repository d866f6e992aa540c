//! The hellos of a link's paths: the fields beyond the hello protocol, and what the answers say about round trips,
//! clocks and queues.
//!
//! ```text
//!   hello ──▶ stamp, boot, arrived and lost ──▶ neighbour ──▶ echo ──▶ round trip ──▶ ways here and there, brake
//! ```

use super::{Link, PathId};
use crate::estimate::Split;
use crate::hello;
use crate::settings::{MetricOf, Uplinks};
use base::{Duration, NodeAddr, Time};
use congestion::brake::Echo;
use wire::control::ClockOffset;

/// How long the neighbour's report of the network's clock is valid. Choice: if only one of ten messages arrives, clocks
/// that drift apart by 500 ppm are 5 ms off.
const CLOCK_LASTS: Duration = Duration::from_secs(10);
/// Number of hellos whose answers are awaited. Choice: five seconds of hellos on a link that sends them often; queues
/// in front of narrow links are that long.
const ASKED: usize = 128;

impl Link {
    /// Returns the neighbour's report of the clock of `reference`, if it is recent.
    pub(crate) fn clock_told(&self, now: Time, reference: NodeAddr) -> Option<ClockOffset> {
        let (clock, told) = self.clock_told?;
        (clock.reference == reference && now.since(told) < CLOCK_LASTS).then_some(clock)
    }

    /// Splits round trips into directions by the network's clock, if both ends know it.
    pub(crate) fn split_by(&mut self, now: Time, own: Option<ClockOffset>) {
        let told = own.and_then(|own| Some((own, self.clock_told(now, own.reference)?)));
        self.clocks_us = told.map(|(own, told)| told.offset_us.wrapping_sub(own.offset_us));
        self.split_ways();
    }

    /// The neighbour's clock is another one than before.
    pub(crate) fn forget_clock(&mut self) {
        (self.clock_told, self.clocks_us) = (None, None);
        self.paths_mut()
            .for_each(|path| path.split = Split::default());
        self.split_ways();
    }

    /// Computes both directions of each path again.
    fn split_ways(&mut self) {
        let clocks_us = self.clocks_us;
        self.paths_mut().for_each(|path| path.split_ways(clocks_us));
    }

    /// Notes a hello that is sent now: its answer shows what the link has carried.
    pub(crate) fn on_asked(&mut self, now: Time, stamp_us: u32) {
        let Some(brake) = &self.brake else {
            return;
        };
        if self.asked.len() >= ASKED {
            self.asked.pop_front();
        }
        let echo = Echo {
            sent: now,
            rtt: Duration::ZERO,
            there: Duration::ZERO,
            link_bytes: self.counts.data_out_bytes - self.counts.spread_out_bytes
                + self.counts.control_out_bytes
                + self.counts.repair_out_bytes,
            lane_bytes: brake.lane_bytes(),
            modelled: brake.modelled(now),
        };
        self.asked.push_back((stamp_us, echo));
    }

    /// A hello with this stamp arrived by a path. It brought a round trip if there are now more than `measured`.
    pub(crate) fn on_stamp(&mut self, came: Time, id: PathId, stamp_us: u32, measured: u64) {
        let clocks_us = self.clocks_us;
        let Some(path) = self.path_of_mut(id) else {
            return;
        };
        let rtt = path.hello.rtt();
        let round_trip = (rtt.samples() > measured).then(|| rtt.latest());
        path.inbound.on_stamp(came, stamp_us);
        path.split.on_hello(came, stamp_us, round_trip);
        if path.metric == MetricOf::Measured && path.hello.is_active() {
            path.lateness
                .on_hello(came, path.inbound.excess(), round_trip, rtt);
        }
        path.split_ways(clocks_us);
    }

    /// A hello has brought a round trip: it answers the hello with this stamp. If its own way back took longer than
    /// usual, that is not a queue in this direction.
    pub(crate) fn on_answered(&mut self, now: Time, stamp_us: Option<u32>) {
        let rtt = self.path.hello.rtt().latest();
        let there = rtt - self.path.inbound.excess();
        let Some(brake) = &mut self.brake else {
            return;
        };
        let asked = self
            .asked
            .iter()
            .find(|(stamp, _)| Some(*stamp) == stamp_us);
        match asked {
            Some(&(_, echo)) => brake.on_echo(now, Echo { rtt, there, ..echo }),
            None => brake.on_round_trip(now, rtt),
        }
        if let Some(until) = brake.watches(now) {
            self.path.hello.watch(now, until);
        }
    }

    /// Returns the hello of a path that is due, if one is, and the change that routing must know.
    pub(crate) fn poll_hello(&mut self, now: Time, id: PathId) -> hello::Output {
        let Some(path) = self.path_of_mut(id) else {
            return hello::Output::default();
        };
        let output = path.hello.on_timeout(now, path.loss.share());
        let told = path.loss.told();
        hello::Output {
            hello: output.hello.map(|hello| self.complete(hello, told)),
            ..output
        }
    }

    /// Adds to a hello what the hello protocol does not know.
    fn complete(
        &self,
        hello: wire::control::Hello,
        (arrived, lost): (u64, u64),
    ) -> wire::control::Hello {
        wire::control::Hello {
            boot: self.boot,
            arrived: arrived as u32,
            lost: lost as u32,
            takes_repair: self.takes_repair,
            knows_paths: self.uplinks != Uplinks::Off,
            lets_wait: self.reliable.sender.lets_wait(),
            ..hello
        }
    }

    /// The neighbour reports how many datagrams of this link have arrived there in total, and how many are lost.
    pub(crate) fn on_told(&mut self, arrived: u32, lost: u32) {
        let before = self.told.replace((arrived, lost));
        let Some((arrived_before, lost_before)) = before else {
            return;
        };
        // A smaller number than before is either from a hello that was overtaken, or a loss that proved to be none.
        let since = |before: u32, now: u32| now.wrapping_sub(before).cast_signed().max(0);
        let arrived = u64::from(since(arrived_before, arrived).unsigned_abs());
        let lost = u64::from(since(lost_before, lost).unsigned_abs());
        self.pilot.on_told(arrived, lost);
        if let Some(brake) = &mut self.brake {
            brake.on_told(arrived, lost);
        }
    }

    /// The link is down. The first report after the outage includes its losses, so that report only begins the count.
    pub(crate) fn on_down(&mut self, now: Time) {
        self.counts.downs += 1;
        self.told = None;
        if let Some(brake) = &mut self.brake {
            brake.on_outage(now);
        }
    }

    /// Returns the hello of a node that is about to stop, and the path by which the hello surely arrives.
    pub(crate) fn farewell(&mut self, now: Time) -> (PathId, wire::control::Hello) {
        let path = self.sure_path(now);
        let (id, told) = (path.id, path.loss.told());
        let hello = path.hello.close(now, path.loss.share());
        (id, self.complete(hello, told))
    }
}
