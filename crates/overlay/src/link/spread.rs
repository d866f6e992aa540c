//! Bulk data over several paths: which paths the reliable lane's packets may take in addition to the one in use.
//!
//! ```text
//!   10.1.0.1 ──────── 10.1.0.2     in use: calls, what there is one packet of, and bulk data up to this path's window
//!   10.2.0.1 ──────── 10.2.0.2     spare: bulk data up to its window; another uplink at either end
//!   10.1.0.1 ──────── 10.2.0.2     nothing: both its ends are those of others
//! ```
//! No node announces what a path carries, and no node relies on such an announcement: a path gets what it demonstrably
//! delivers. The lane delivers packets out of order; the end of each session restores the order, as it does after
//! repairs.
//!
//! The node chooses these spares when hellos or paths change. A flush only checks whether one of them is in doubt.

use super::paths::{ends_shared_by_bulk, place_mut};
use super::{Link, MAX_PATHS, Path, PathId};
use crate::reliable::Open;
use crate::settings::Uplinks;
use base::{Duration, Time};
use congestion::brake::Brake;
use wire::{CLEAR_BYTES, TAG_BYTES};

/// A path whose round trip is longer than this link's by more than this takes no bulk data. Choice: sessions wait for
/// the last packet, and 200 ms of 100 Mbit/s are 2.5 MB of waiting data.
const LONGER_MAX: Duration = Duration::from_millis(200);

/// The spares that share the load.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    /// Bulk data takes all paths.
    spreads: bool,
    chosen: [Option<PathId>; MAX_PATHS],
    /// The spare that always takes copies of calls: bulk data would create the queue in which they wait.
    of_copies: Option<PathId>,
}

impl Shares {
    /// No shares yet; never any, unless bulk data may be spread.
    pub(super) fn new(spreads: bool) -> Shares {
        Shares {
            spreads,
            ..Shares::default()
        }
    }
}

impl Path {
    /// Returns what the lane needs to know about the path.
    pub(super) fn as_way(&self) -> Open {
        let usable = usize::from(self.mtu.usable());
        Open {
            way: self.id.0,
            rtt: self.rtt(),
            packet_bytes: usable.saturating_sub(CLEAR_BYTES + TAG_BYTES),
        }
    }
}

impl Link {
    /// Tells the reliable lane which paths its packets may take, and which of these paths also carry calls. Packets
    /// under way on a path that has fallen silent are sent again by other paths.
    pub(crate) fn spread(&mut self, now: Time) {
        let mut queues = [None; MAX_PATHS];
        let of_used = self.brake.as_ref().and_then(Brake::queue_from);
        let catches_up = |brake: &Brake| brake.catches_up(now);
        let yields = self.brake.as_ref().is_some_and(catches_up);
        self.reliable.sender.set_yields(now, yields);
        queues[usize::from(self.path.id.0)] = of_used;
        if self.spares.is_empty() {
            self.reliable.sender.open_ways(now, &[], false);
            return self.reliable.sender.spare_calls(queues);
        }
        let mut open = [self.path.as_way(); MAX_PATHS];
        let mut count = 0;
        for spare in &self.spares {
            if self.takes_bulk(now, spare) {
                open[count] = spare.as_way();
                count += 1;
            }
        }
        if let (Some(place), Some(_)) = (self.spare_of_calls(now), of_used) {
            let spare = &self.spares[place];
            queues[usize::from(spare.id.0)] = spare.queue_from();
        }
        let is_doubtful = self.path.is_doubtful(now);
        let sender = &mut self.reliable.sender;
        sender.open_ways(now, &open[..count], is_doubtful && count > 0);
        sender.spare_calls(queues);
        if is_doubtful && count > 0 {
            sender.lose_path(now, self.path.id.0);
        }
        for spare in self.spares.iter().filter(|spare| !spare.is_sound(now)) {
            sender.lose_path(now, spare.id.0);
        }
    }

    /// Returns the place of the spare that calls take as well, because the path in use is in trouble.
    fn spare_of_calls(&self, now: Time) -> Option<usize> {
        self.is_in_trouble(now)
            .then(|| self.best_spare(now))
            .flatten()
    }

    /// Returns true if bulk data may take this spare now. The spare with the copies of calls is reserved for them,
    /// unless the path in use is in doubt.
    pub(crate) fn takes_bulk(&self, now: Time, spare: &Path) -> bool {
        let is_chosen = self.shares.chosen.contains(&Some(spare.id));
        let is_of_calls = self.shares.of_copies == Some(spare.id) && !self.path.is_doubtful(now);
        let of_datagrams = !self.is_over_stream() && !spare.is_over_stream();
        is_chosen && !is_of_calls && of_datagrams && spare.is_sound(now)
    }

    /// Chooses the spares that share the load, the cheapest first. Two paths with a common end share an uplink, and two
    /// windows on it would take twice the lane's share. So if there are paths without a common end, only those count.
    /// Choice: two paths of different address families count as one uplink.
    pub(crate) fn choose_shares(&mut self, now: Time) {
        (self.shares.chosen, self.shares.of_copies) = Default::default();
        if !self.shares.spreads || self.spares.is_empty() || self.is_over_stream() {
            return;
        }
        let copies = self.uplinks == Uplinks::Copies;
        let of_copies = copies.then(|| self.best_spare(now)).flatten();
        self.shares.of_copies = of_copies.map(|place| self.spares[place].id);
        let longest = self.path.rtt() + LONGER_MAX;
        let common = |one: &Path, other: &Path| {
            let ends = one.at.zip(other.at);
            ends.map_or(2, |(one, other)| ends_shared_by_bulk(one, other))
        };
        let mut fit: Vec<(u64, &Path)> = self
            .spares
            .iter()
            .filter(|path| path.is_sound(now) && !path.is_over_stream())
            .filter(|path| path.hello.rtt().samples() > 0 && path.rtt() <= longest)
            .map(|path| (self.cost_of(now, path), path))
            .collect();
        fit.sort_by_key(|(cost, path)| (*cost, path.id));
        let of_used = fit.iter().map(|(_, path)| common(&self.path, path));
        let Some(least) = of_used.min().filter(|ends| *ends < 2) else {
            return;
        };
        let mut chosen = vec![&self.path];
        for (_, path) in fit {
            if chosen.iter().all(|other| common(other, path) <= least) {
                chosen.push(path);
            }
        }
        let mut ids = [None; MAX_PATHS];
        for (id, path) in ids.iter_mut().zip(chosen.into_iter().skip(1)) {
            *id = Some(path.id);
        }
        self.shares.chosen = ids;
    }

    /// Returns the lane and the path with this number, so that the path can send what the lane hands out.
    pub(crate) fn lane_and_path(
        &mut self,
        id: PathId,
    ) -> (&mut crate::reliable::Sender, &mut Path) {
        let place = self.spares.iter().position(|spare| spare.id == id);
        let path = place_mut(&mut self.path, &mut self.spares, place);
        (&mut self.reliable.sender, path)
    }
}

#[cfg(test)]
mod tests {
    use super::ends_shared_by_bulk;
    use base::UnderlayAddr;

    #[test]
    fn both_families_of_a_host_are_one_uplink_for_bulk_data() {
        let at = |ip: [u8; 16], socket| UnderlayAddr {
            ip,
            port: 7700,
            socket,
            local: 0,
        };
        let v4 = |net, socket| {
            let ip = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, net, 0, 2];
            at(ip, socket)
        };
        let v6 = |net, socket| {
            let ip = [0x20, 1, 0xd, 0xb8, 0, net, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
            at(ip, socket)
        };
        for (one, other, shared) in [
            (v4(1, 0), v4(2, 1), 0),
            (v4(1, 0), v4(2, 0), 1),
            (v4(1, 0), v4(1, 1), 1),
            (v4(1, 0), v6(1, 1), 2),
            (v6(1, 0), v6(2, 1), 0),
        ] {
            assert_eq!(ends_shared_by_bulk(one, other), shared, "{one:?} {other:?}");
        }
    }
}
