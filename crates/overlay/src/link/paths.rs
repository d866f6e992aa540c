//! The paths of a link: which of them is in use, and which packets take two of them.
//!
//! ```text
//!                    silent for 150 ms                  silent for 420 ms and more
//!   path in use ──▶  in doubt: real-time packets  ──▶   down: the best spare takes its place at once,
//!                    by the best spare as well          the link stays up, no route changes
//!
//!   a spare that costs less by a margin, for some seconds  ──▶  takes its place, and stays for some seconds
//! ```
//! Each end chooses the path for what it sends. A spare takes packets once its own handshake with that address is
//! complete and the neighbour has answered a hello under its session. While the path in use is in doubt, a spare that
//! has answered since then comes first. The address from which the answer came is not checked. A spare never follows a
//! datagram to another address; the path in use does.

use super::path::{MAX_PATHS, Path, PathId};
use super::{Dialling, Impairment, Link};
use crate::event::PathWhy;
use crate::settings::Uplinks;
use base::{Burst, Duration, Outbox, Time, UnderlayAddr};
use graph::metric::{Metric, cost};
use wire::data::{Class, Header, LinkProtocol};
use wire::link::{Kind, SessionIndex};

/// The node changes to a cheaper path if that costs less by this share of the present path's cost, and by at least
/// [`DEARER`]. Choice: the amount by which round trips of two quiet paths differ from one minute to the next.
const DEARER_SHARE: u64 = 8;
const DEARER: Duration = Duration::from_millis(2);
/// The cost of a path that loses every packet, in addition to the time of repair. Choice: 1 % weighs as much as 1 ms
/// of latency. A path without loss needs no repair and delivers no packet late. Across the network, where a detour
/// takes the room of other traffic, repair is cheaper ([`Metric::ExpectedLatency`] alone).
const LOST: Duration = Duration::from_millis(100);
/// How long a path must be cheaper, and the rest after the last change. Choice: a change costs some packets out of
/// order, so the node does not make it for a queue that is gone in a second.
const DEARER_FOR: Duration = Duration::from_secs(3);
const CHANGE_REST: Duration = Duration::from_secs(5);
/// The traffic of a link makes its path dearer, and would make any other path so. If a change for the cost is to be
/// reversed within this many rests, it was useless and doubles the rest, up to [`CHANGE_REST_MAX`].
const CHANGE_RESTS: u64 = 4;
const CHANGE_REST_MAX: Duration = Duration::from_secs(600);
/// A spare on which nothing has been heard for this long is given up, and dialled again. Choice: a router that restarts
/// is back by then.
const GONE: Duration = Duration::from_secs(60);
/// The lowest priority of packets that always take two paths, if that is set: the priority of calls.
const COPIED_PRIORITY: u8 = 4;

/// A link has changed its path in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Changed {
    pub(crate) from: UnderlayAddr,
    pub(crate) to: UnderlayAddr,
    pub(crate) why: PathWhy,
}

/// When and why a link's path was last changed, and what may replace it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Choice {
    changed: Option<(Time, PathWhy)>,
    /// When the path was last changed for its cost, and the rest after that.
    dearer: Option<(Time, Duration)>,
    /// The spare that costs less than the path in use, and since when it does.
    cheaper: Option<(PathId, Time)>,
    /// When the doubt about the path in use began.
    doubted: Option<Time>,
}

/// Returns how many ends two pairs of addresses share. What has failed on one of them has probably failed at a shared
/// end.
pub(super) fn ends_shared(one: UnderlayAddr, other: UnderlayAddr) -> usize {
    let is_near = one.socket == other.socket;
    let is_far = (one.ip, one.port) == (other.ip, other.port);
    usize::from(is_near) + usize::from(is_far)
}

/// Returns true if the far end is the same, whichever own socket leads there. The port of a stream differs from that of
/// datagrams.
pub(crate) fn is_same_far_end(one: UnderlayAddr, other: UnderlayAddr) -> bool {
    let far = |at: UnderlayAddr| (at.ip, at.port, at.is_stream());
    far(one) == far(other)
}

/// The same as [`ends_shared`], for bulk data. If two paths are really one, bulk data takes twice its share. A host
/// nearly always has both address families by one uplink, so paths of different families count as sharing both ends.
pub(super) fn ends_shared_by_bulk(one: UnderlayAddr, other: UnderlayAddr) -> usize {
    match one.is_ipv4() == other.is_ipv4() {
        true => ends_shared(one, other),
        false => 2,
    }
}

impl Choice {
    /// Returns true if a change for the cost would be too soon after the last one.
    fn rests(&self, now: Time) -> bool {
        let after = |(at, rest)| now.since(at) < rest;
        let changed = self.changed.map(|(at, _)| (at, CHANGE_REST));
        changed.into_iter().chain(self.dearer).any(after)
    }

    fn on_changed(&mut self, now: Time, why: PathWhy) {
        if matches!(why, PathWhy::Dearer { .. }) {
            let rest = match self.dearer {
                Some((at, rest)) if now.since(at) < rest * CHANGE_RESTS => rest * 2,
                _ => CHANGE_REST,
            };
            self.dearer = Some((now, rest.min(CHANGE_REST_MAX)));
        }
        (self.changed, self.cheaper, self.doubted) = (Some((now, why)), None, None);
    }

    /// Returns why the path in use was chosen, and how long ago.
    pub(crate) fn why(&self, now: Time) -> Option<(PathWhy, Duration)> {
        self.changed.map(|(at, why)| (why, now.since(at)))
    }
}

impl Link {
    /// All paths, the one in use first.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        core::iter::once(&self.path).chain(&self.spares)
    }

    pub(crate) fn paths_mut(&mut self) -> impl Iterator<Item = &mut Path> {
        core::iter::once(&mut self.path).chain(&mut self.spares)
    }

    /// The names of all paths, the one in use first.
    pub(crate) fn path_ids(&self) -> impl Iterator<Item = PathId> + use<> {
        let mut ids = [None; MAX_PATHS];
        for (id, path) in ids.iter_mut().zip(self.paths()) {
            *id = Some(path.id);
        }
        ids.into_iter().flatten()
    }

    /// The path of this name.
    #[inline]
    pub(crate) fn path_of(&self, id: PathId) -> Option<&Path> {
        self.paths().find(|path| path.id == id)
    }

    #[inline]
    pub(crate) fn path_of_mut(&mut self, id: PathId) -> Option<&mut Path> {
        self.paths_mut().find(|path| path.id == id)
    }

    /// Returns the path that holds a session.
    pub(crate) fn path_with(&mut self, session: SessionIndex) -> Option<&mut Path> {
        self.paths_mut()
            .find(|path| path.sessions.by_index(session).is_some())
    }

    /// Returns true if this end accepts further paths and the neighbour has reported that it does.
    pub(crate) fn has_paths(&self) -> bool {
        self.uplinks != Uplinks::Off && self.peer_knows_paths
    }

    /// Returns the path of a session that was made with the neighbour at `at`, if there may be one. A session of a
    /// further path belongs to the path that leads there. Any other session begins the link, or moves it.
    pub(crate) fn path_for(
        &mut self,
        now: Time,
        at: UnderlayAddr,
        is_further: bool,
    ) -> Option<(PathId, Vec<SessionIndex>)> {
        if !is_further {
            let ended = self.end_spares(now, |spare| spare.leads_to(at));
            return Some((self.path.id, ended));
        }
        if let Some(path) = self.paths().find(|path| path.leads_to(at)) {
            return Some((path.id, Vec::new()));
        }
        let is_room = 1 + self.spares.len() < MAX_PATHS;
        if self.uplinks == Uplinks::Off || !self.is_up() || at.is_stream() || !is_room {
            return None;
        }
        let is_free = |id: &PathId| self.path_of(*id).is_none();
        let id = PathId::all().find(is_free)?;
        let mut path = Path::new(id, self.hello_settings, self.path.metric, now);
        path.at = Some(at);
        path.impairment = self.path.impairment.as_mut().map(Impairment::of_other_path);
        self.spares.push(path);
        Some((id, Vec::new()))
    }

    /// Ends spares. The caller releases the returned sessions.
    pub(crate) fn end_spares(
        &mut self,
        now: Time,
        ends: impl Fn(&Path) -> bool,
    ) -> Vec<SessionIndex> {
        let mut ended = Vec::new();
        let sender = &mut self.reliable.sender;
        self.spares.retain_mut(|spare| {
            let is_over = ends(spare);
            if is_over {
                ended.extend(spare.sessions.clear());
                sender.end_path(now, spare.id.0);
            }
            !is_over
        });
        ended
    }

    /// Ends spares that have no session, or on which nothing was heard for long. While the link is down, each spare may
    /// be the one by which it comes back; while the link runs over a stream, each may be the one by which it returns to
    /// datagrams. A stream that neither end uses any more is no spare.
    pub(crate) fn end_gone_spares(&mut self, now: Time) -> Vec<SessionIndex> {
        let keeps = !self.is_up() || self.is_over_stream();
        self.end_spares(now, |spare| {
            let is_gone = !spare.is_up() && now.since(spare.heard) >= GONE;
            let is_left = spare.is_over_stream() && !spare.hello.is_active();
            spare.sessions.is_empty() || is_gone && !keeps || is_left
        })
    }

    /// Returns a spare whose session is to be renewed now.
    pub(crate) fn spare_to_rekey(&mut self, now: Time) -> Option<&mut Path> {
        let rests = |path: &Path| {
            path.dialled
                .is_some_and(|at| now.since(at) < super::DIAL_REST_MAX)
        };
        self.spares
            .iter_mut()
            .find(|path| path.is_up() && path.sessions.wants_rekey(now) && !rests(path))
    }

    /// Returns the place of the best spare beside a path that is in doubt, or for copies. A spare that has worked in
    /// both directions since the doubt began comes first: hearing the neighbour proves one direction only. A spare that
    /// shares an end with the path in use probably fails with it, so it comes later.
    pub(super) fn best_spare(&self, now: Time) -> Option<usize> {
        self.least_spare(now, |path| {
            let shared = self.ends_shared(path);
            (self.is_unproved(path), shared, self.cost_of(now, path))
        })
    }

    /// Returns true if no answer has arrived by this spare since the doubt about the path in use began.
    fn is_unproved(&self, spare: &Path) -> bool {
        let doubted = self.choice.doubted;
        doubted.is_some_and(|at| spare.hello.answered() < at)
    }

    /// Checks whether the path in use is in doubt. If so, the node sends hellos on the spares at once, because it must
    /// soon know which of them is better. If the path is down, the start of the doubt is kept until another path takes
    /// its place.
    pub(crate) fn watch_spares(&mut self, now: Time) {
        let is_doubtful = self.path.is_doubtful(now);
        if self.path.is_up() {
            self.choice.doubted = is_doubtful.then(|| self.choice.doubted.unwrap_or(now));
        }
        if is_doubtful {
            self.ask_spares(now);
        }
    }

    fn ask_spares(&mut self, now: Time) {
        let up = self.spares.iter_mut().filter(|spare| spare.is_up());
        up.for_each(|spare| spare.hello.watch_closely(now));
    }

    /// Returns the place of the spare with the smallest `key` among the sound spares.
    fn least_spare<K: Ord>(&self, now: Time, key: impl Fn(&Path) -> K) -> Option<usize> {
        let sound = self.spares.iter().enumerate();
        let sound = sound.filter(|(_, path)| path.is_sound(now));
        let least = sound.min_by_key(|(_, path)| (key(path), path.id));
        least.map(|(place, _)| place)
    }

    /// Returns how many ends a spare shares with the path in use.
    fn ends_shared(&self, spare: &Path) -> usize {
        let ends = self.path.at.zip(spare.at);
        ends.map_or(0, |(used, spare)| ends_shared(used, spare))
    }

    /// Returns the spare for packets that must arrive, if the path in use is in doubt.
    pub(crate) fn sure_place(&self, now: Time) -> Option<usize> {
        let is_well = self.spares.is_empty() || !self.path.is_doubtful(now);
        (!is_well).then(|| self.best_spare(now)).flatten()
    }

    /// Returns the path for packets that must arrive.
    pub(crate) fn sure_path(&mut self, now: Time) -> &mut Path {
        let place = self.sure_place(now);
        place_mut(&mut self.path, &mut self.spares, place)
    }

    /// Returns the spare that also carries packets at present, and whether it carries all of the real-time lane.
    #[inline]
    pub(super) fn beside(&self, now: Time) -> Option<(usize, bool)> {
        if self.spares.is_empty() {
            return None;
        }
        let in_doubt = self.is_in_trouble(now);
        let copies = in_doubt || self.uplinks == Uplinks::Copies;
        copies
            .then(|| self.best_spare(now))
            .flatten()
            .map(|place| (place, in_doubt))
    }

    /// Returns true if it is uncertain whether the path in use delivers calls in time.
    #[inline]
    pub(super) fn is_in_trouble(&self, now: Time) -> bool {
        self.path.is_doubtful(now) || self.path.is_late(now)
    }

    /// Returns the cost of a path for the choice among the paths of one link, in nanoseconds: its expected latency, and
    /// its loss.
    pub(crate) fn cost_of(&self, now: Time, path: &Path) -> u64 {
        let link = path.measured_cost(now);
        let lost = LOST.mul_f64(path.hello.loss_out().share()).as_nanos();
        cost(Metric::ExpectedLatency, link, &self.parameters).0 + lost
    }

    /// Changes to a spare if that is due.
    pub(crate) fn choose_path(&mut self, now: Time) -> Option<Changed> {
        if self.spares.is_empty() {
            return None;
        }
        if !self.path.is_up() || self.path.sessions.is_empty() {
            let up = (0..self.spares.len()).filter(|place| self.spares[*place].is_up());
            let key = |place: &usize| {
                let path = &self.spares[*place];
                let shared = self.ends_shared(path);
                (
                    self.is_unproved(path),
                    !path.is_sound(now),
                    shared,
                    self.cost_of(now, path),
                    path.id,
                )
            };
            let place = up.min_by_key(key)?;
            let why = match self.path.silence(now) {
                Some(silence) if silence >= self.hello_settings.doubt_after => {
                    PathWhy::Silent(silence)
                }
                _ => PathWhy::NotHeard,
            };
            return self.change_path(now, place, why);
        }
        if self.is_over_stream() {
            // A lost segment of a stream delays all following segments, whatever the cost at present. `Fallback`
            // decides how a link without such a spare returns to datagrams.
            let of_datagrams = |path: &Path| (path.is_over_stream(), self.cost_of(now, path));
            let place = self.least_spare(now, of_datagrams);
            let place = place.filter(|place| !self.spares[*place].is_over_stream())?;
            return self.change_path(now, place, PathWhy::Datagrams);
        }
        let present = self.cost_of(now, &self.path);
        let cheapest = self.least_spare(now, |path| self.cost_of(now, path));
        let place = cheapest.filter(|place| {
            let spare = &self.spares[*place];
            let margin = (present / DEARER_SHARE).max(DEARER.as_nanos());
            spare.hello.rtt().samples() > 0 && self.cost_of(now, spare) + margin <= present
        });
        let Some(place) = place.filter(|_| !self.path.is_doubtful(now)) else {
            self.choice.cheaper = None;
            return None;
        };
        let id = self.spares[place].id;
        let since = match self.choice.cheaper {
            Some((cheaper, since)) if cheaper == id => since,
            _ => now,
        };
        self.choice.cheaper = Some((id, since));
        if self.choice.rests(now) || now.since(since) < DEARER_FOR {
            return None;
        }
        let to_us = |ns: u64| u32::try_from(ns / 1_000).unwrap_or(u32::MAX);
        let is_us = to_us(self.cost_of(now, &self.spares[place]));
        let was_us = to_us(present);
        self.change_path(now, place, PathWhy::Dearer { was_us, is_us })
    }

    /// Puts a spare in the place of the path in use.
    fn change_path(&mut self, now: Time, place: usize, why: PathWhy) -> Option<Changed> {
        core::mem::swap(&mut self.path, &mut self.spares[place]);
        let (before, path) = (&self.spares[place], &mut self.path);
        if before.hello.is_active() {
            path.hello.watch_closely(now);
        }
        let changed = Changed {
            from: before.at.unwrap_or_default(),
            to: path.at.unwrap_or_default(),
            why,
        };
        self.fallback.on_moved(now, Some(changed.from), changed.to);
        self.choice.on_changed(now, why);
        self.counts.path_changes += 1;
        // The brake's knowledge of queues belongs to the former path.
        if let Some(brake) = &mut self.brake {
            brake.reset(now);
        }
        (self.full_since, self.is_priced_full) = (None, false);
        (self.told, self.dialling) = (None, Dialling::default());
        self.pilot.on_new_path();
        self.asked.clear();
        let is_gone = !matches!(why, PathWhy::Dearer { .. });
        if is_gone {
            // Other paths may have failed with it, perhaps in one direction only, which only their own hellos can show.
            self.ask_spares(now);
        }
        let to = self.path.as_way();
        self.reliable.sender.on_new_path(now, to, is_gone);
        self.choose_shares(now);
        Some(changed)
    }

    /// Sends copies of packets of the path in use by a spare.
    pub(crate) fn transmit_beside(
        &mut self,
        now: Time,
        copies: &mut Vec<Burst>,
        out: &mut impl Outbox<crate::Node>,
    ) {
        let Some((place, _)) = self.beside(now) else {
            return copies.clear();
        };
        let spare = &mut self.spares[place];
        for mut copy in copies.drain(..) {
            let bytes = copy.len();
            let fits = bytes <= usize::from(spare.mtu.usable());
            if !fits || spare.sessions.seal(Kind::Data, copy.bytes_mut()).is_err() {
                self.counts.copies_unsent += 1;
                continue;
            }
            copy.set_mark(self.lane_mark);
            spare.hello.on_data_sent(now);
            self.counts.copies_out += 1;
            self.counts.copies_out_bytes += bytes as u64;
            spare.transmit(now, copy, out);
        }
    }
}

/// Returns the spare in a place, or the path in use.
pub(crate) fn place_mut<'a>(
    path: &'a mut Path,
    spares: &'a mut [Path],
    place: Option<usize>,
) -> &'a mut Path {
    match place.and_then(|place| spares.get_mut(place)) {
        Some(spare) => spare,
        None => path,
    }
}

/// Returns true if a packet takes two paths: every packet of the real-time lane while the path in use is in doubt,
/// otherwise the packets that must never be lost.
pub(super) fn goes_beside(packet: &[u8], in_doubt: bool) -> bool {
    let Class { link, priority, .. } = Header::trusted(packet).class();
    link == LinkProtocol::RealTime && (in_doubt || priority >= COPIED_PRIORITY)
}

#[cfg(test)]
mod tests;
