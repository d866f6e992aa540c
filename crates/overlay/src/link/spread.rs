//! Bulk data over several paths: which of them the reliable lane's packets may take beside the one in use.
//!
//! ```text
//!   10.1.0.1 ──────── 10.1.0.2     in use: calls, what there is one packet of, and bulk data up to this path's window
//!   10.2.0.1 ──────── 10.2.0.2     spare: bulk data up to its window; another uplink at either end
//!   10.1.0.1 ──────── 10.2.0.2     nothing: both its ends are those of others
//! ```
//! Nobody is told what a path carries, and nobody is believed: a path gets what it is heard to deliver. What the lane
//! brings out of order the end of each session puts back, as it does with what was repaired.

use super::paths::place_mut;
use super::{Link, MAX_PATHS, Path, PathId};
use crate::reliable::Open;
use base::{Duration, Time};
use wire::{CLEAR_BYTES, TAG_BYTES};

/// A path whose round trip is longer by more than that takes no bulk data of this one. Choice: sessions wait for what
/// comes last, and 200 ms of 100 Mbit/s are 2.5 MB of it.
const LONGER_MAX: Duration = Duration::from_millis(200);

impl Path {
    /// What the lane is told of it.
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
    /// Tells the reliable lane which paths its packets may take, and has what is under way on one that has fallen silent
    /// sent again by others.
    pub(crate) fn spread(&mut self, now: Time) {
        if self.spares.is_empty() {
            return self.reliable.sender.open_ways(now, &[], false);
        }
        let mut open = [self.path.as_way(); MAX_PATHS];
        let mut count = 0;
        for place in self.places_beside(now).into_iter().flatten() {
            open[count] = self.spares[place].as_way();
            count += 1;
        }
        let is_doubtful = self.path.is_doubtful(now);
        let sender = &mut self.reliable.sender;
        sender.open_ways(now, &open[..count], is_doubtful && count > 0);
        if is_doubtful && count > 0 {
            sender.lose_path(now, self.path.id.0);
        }
        for spare in self.spares.iter().filter(|spare| !spare.is_sound(now)) {
            sender.lose_path(now, spare.id.0);
        }
    }

    /// The places of the spares that share the load, the cheapest first. Two that have an end in common share an uplink,
    /// and two windows there would take twice what is the lane's; so where there are paths without a common end, only
    /// those count.
    fn places_beside(&self, now: Time) -> [Option<usize>; MAX_PATHS] {
        let mut chosen = [None; MAX_PATHS];
        if !self.spreads || self.is_over_stream() {
            return chosen;
        }
        let longest = self.path.rtt() + LONGER_MAX;
        let shares = |path: &Path| {
            let is_known = path.hello.rtt().samples() > 0 && path.rtt() <= longest;
            path.is_sound(now) && !path.is_over_stream() && is_known
        };
        let sound = || (0..self.spares.len()).filter(|place| shares(&self.spares[*place]));
        let common = |one: &Path, other: &Path| {
            let ends = one.at.zip(other.at);
            ends.map_or(2, |(one, other)| super::paths::ends_shared(one, other))
        };
        let of_place = |place: &usize| common(&self.path, &self.spares[*place]);
        let Some(least) = sound()
            .map(|place| of_place(&place))
            .min()
            .filter(|n| *n < 2)
        else {
            return chosen;
        };
        for count in 0..MAX_PATHS {
            let others = || {
                chosen
                    .iter()
                    .flatten()
                    .map(|place: &usize| &self.spares[*place])
            };
            let is_apart = |place: &usize| {
                let path = &self.spares[*place];
                let mut all = others().chain([&self.path]);
                all.all(|other| other.id != path.id && common(other, path) <= least)
            };
            let key = |place: &usize| {
                let path = &self.spares[*place];
                (self.cost_of(now, path), path.id)
            };
            let Some(next) = sound().filter(is_apart).min_by_key(key) else {
                break;
            };
            chosen[count] = Some(next);
        }
        chosen
    }

    /// The path of this number and the lane, to send on one what the other gives.
    pub(crate) fn lane_and_path(
        &mut self,
        id: PathId,
    ) -> (&mut crate::reliable::Sender, &mut Path) {
        let place = self.spares.iter().position(|spare| spare.id == id);
        let path = place_mut(&mut self.path, &mut self.spares, place);
        (&mut self.reliable.sender, path)
    }
}
