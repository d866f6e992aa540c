//! Further paths of a link: which pairs of addresses the node dials, and when.
//!
//! ```text
//!   own sockets     known of the neighbour
//!   0 ──────┬────── 10.1.0.2     each with each, of one family; first what has least in common with the paths
//!   1 ──────┴────── 10.2.0.2     that there are; what nobody answers, ever more seldom
//! ```

use super::paths::ends_shared;
use super::{Link, MAX_PATHS, PathId};
use crate::settings::Uplinks;
use base::{Duration, Time, UnderlayAddr};

/// The rest between two dials of a pair of addresses from which no answer comes, at first and at most. Choice: a dial
/// is six Inits of 1152 bytes, so 7 kbit/s at first, and mostly nothing.
const OPEN_REST: Duration = Duration::from_secs(8);
const OPEN_REST_MAX: Duration = Duration::from_secs(512);
/// Maximum number of announced addresses at which the node dials a neighbour. Configured addresses are dialled with all
/// their pairs.
const ANNOUNCED_PLACES: usize = 8;
/// Number of pairs of addresses that are remembered: four sockets towards four addresses.
const PAIRS: usize = 16;

/// The pairs of addresses that the node dials, and the time of the next dial.
#[derive(Clone, Debug, Default)]
pub(crate) struct Opening {
    pairs: Vec<Pair>,
}

#[derive(Clone, Copy, Debug)]
struct Pair {
    at: UnderlayAddr,
    next: Time,
    rest: Duration,
}

impl Opening {
    /// Returns the pair to be dialled now: among the pairs that are due, the one that shares least with the existing
    /// paths.
    pub(crate) fn next(
        &mut self,
        now: Time,
        wanted: impl Iterator<Item = UnderlayAddr>,
        paths: &[UnderlayAddr],
    ) -> Option<UnderlayAddr> {
        let shared =
            |at: &UnderlayAddr| -> usize { paths.iter().map(|path| ends_shared(*path, *at)).sum() };
        let is_open = |at: &UnderlayAddr| paths.iter().any(|path| path.remote() == at.remote());
        // A pair that has been due for this long is no longer wanted. While all places are taken by wanted pairs, a new
        // pair waits. Otherwise many addresses, or one that changes each second, would make the rest of every pair the
        // shortest.
        let unwanted = |pair: &Pair| now.since(pair.next) >= OPEN_REST_MAX;
        let is_room = self.pairs.len() < PAIRS || self.pairs.iter().any(unwanted);
        let is_due = |at: &UnderlayAddr| {
            let pair = self.pairs.iter().find(|pair| pair.at == *at);
            pair.map_or(is_room, |pair| pair.next <= now)
        };
        let wanted = wanted.map(UnderlayAddr::remote);
        let wanted = wanted.filter(|at| !is_open(at) && is_due(at));
        let at = wanted.min_by_key(|at| (shared(at), *at))?;
        match self.pairs.iter_mut().find(|pair| pair.at == at) {
            Some(pair) => {
                pair.rest = (pair.rest * 2).min(OPEN_REST_MAX);
                pair.next = now + pair.rest;
            }
            None => {
                if self.pairs.len() >= PAIRS {
                    self.pairs.retain(|pair| !unwanted(pair));
                }
                self.pairs.push(Pair {
                    at,
                    next: now + OPEN_REST,
                    rest: OPEN_REST,
                });
            }
        }
        Some(at)
    }

    /// A path has come into use at this pair: the node dials it again soon if the path is lost.
    fn on_up(&mut self, at: UnderlayAddr) {
        self.pairs.retain(|pair| pair.at != at.remote());
    }
}

impl Link {
    /// Returns a pair of addresses to be dialled for a further path: each own socket towards each known address of the
    /// neighbour.
    ///
    /// Choice: a direct link exists for a while, and its far end may be behind a NAT. So this node opens one path of
    /// each address family for it: if one family fails at the provider, the other mostly continues. The link may still
    /// use the paths that the neighbour has opened.
    pub(crate) fn path_to_open(
        &mut self,
        now: Time,
        own: &[UnderlayAddr],
        is_direct: bool,
    ) -> Option<UnderlayAddr> {
        let is_room = 1 + self.spares.len() < MAX_PATHS;
        if own.len() < 2 || !self.has_paths() || !self.is_up() || !is_room {
            return None;
        }
        if self.is_over_stream() {
            return None;
        }
        let paths: Vec<UnderlayAddr> = self.paths().filter_map(|path| path.at).collect();
        let mut pairs = self.pairs(own);
        if is_direct {
            pairs.extend(&self.announced);
            let is_new = |at: &UnderlayAddr| paths.iter().all(|it| it.is_ipv4() != at.is_ipv4());
            pairs.retain(is_new);
        }
        self.opening.next(now, pairs.into_iter(), &paths)
    }

    /// Returns each own socket towards each known address of the neighbour. If there is one socket, each address.
    fn pairs(&self, own: &[UnderlayAddr]) -> Vec<UnderlayAddr> {
        let paths = self.paths().filter_map(|path| path.at);
        let known = self.dial.into_iter().chain(self.dial_more.iter().copied());
        let known = known.chain(paths).filter(|at| !at.is_stream());
        if own.len() < 2 {
            return known.collect();
        }
        let towards = |to: UnderlayAddr| {
            let kind = |at: UnderlayAddr| (at.is_ipv4(), at.is_loopback());
            let fits = move |(_, own): &(u8, &UnderlayAddr)| kind(**own) == kind(to);
            let sockets = (0u8..).zip(own).filter(fits);
            sockets.map(move |(socket, _)| UnderlayAddr { socket, ..to })
        };
        known.flat_map(towards).collect()
    }

    /// Returns the addresses at which the neighbour is dialled, in this order: [`Link::dialled_at`], the addresses that
    /// it announces, and then each pair of addresses, because a link that is down may come up by any path. Pairs that
    /// share least with the ones before come first, because the first that answers is used. A pair of both uplinks
    /// fails with either of them.
    pub(crate) fn places(&self, own: &[UnderlayAddr]) -> Vec<UnderlayAddr> {
        let Some(first) = self.dialled_at() else {
            return Vec::new();
        };
        let mut places = vec![first];
        if self.is_up() || first.is_stream() {
            return places;
        }
        let pairs = match self.uplinks {
            Uplinks::Off => Vec::new(),
            Uplinks::One | Uplinks::Copies => self.pairs(own),
        };
        for at in self.announced.iter().copied().take(ANNOUNCED_PLACES) {
            if places.iter().all(|place| place.remote() != at.remote()) {
                places.push(at);
            }
        }
        apart(&mut places, pairs);
        places
    }

    /// A path has come up.
    pub(crate) fn on_path_up(&mut self, id: PathId) {
        if let Some(at) = self.path_of(id).and_then(|path| path.at) {
            self.opening.on_up(at);
        }
    }
}

/// Adds the pairs that are not among the places yet, each time the one that shares least with them.
fn apart(places: &mut Vec<UnderlayAddr>, pairs: Vec<UnderlayAddr>) {
    let shared = |at: UnderlayAddr, place: &UnderlayAddr| ends_shared(*place, at);
    let pairs = pairs.into_iter().map(UnderlayAddr::remote);
    let mut rest: Vec<(usize, UnderlayAddr)> = pairs
        .filter(|at| places.iter().all(|place| place.remote() != *at))
        .map(|at| (places.iter().map(|place| shared(at, place)).sum(), at))
        .collect();
    while let Some(next) = rest.iter().copied().min() {
        rest.retain(|(_, at)| *at != next.1);
        for (count, at) in &mut rest {
            *count += shared(*at, &next.1);
        }
        places.push(next.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_uplinks_are_dialled_straight_before_they_are_dialled_across() {
        let at = |end: u8, socket: u8| UnderlayAddr {
            ip: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 91, end, 2],
            port: 7700,
            socket,
            local: 0,
        };
        let all = vec![at(1, 0), at(1, 1), at(2, 0), at(2, 1), at(1, 0)];
        let mut places = vec![at(1, 0)];
        apart(&mut places, all.clone());
        assert_eq!(places, [at(1, 0), at(2, 1), at(1, 1), at(2, 0)]);
        let mut places = vec![at(1, 1)];
        apart(&mut places, all);
        assert_eq!(places, [at(1, 1), at(2, 0), at(1, 0), at(2, 1)]);
    }

    #[test]
    fn all_pairs_of_what_is_configured_are_dialled_whatever_is_announced() {
        let at = |network: u8, host: u8| UnderlayAddr {
            ip: [
                0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, network, 0, host,
            ],
            port: 7700,
            ..UnderlayAddr::default()
        };
        let settings = crate::Settings {
            uplinks: Uplinks::One,
            ..crate::Settings::modern()
        };
        let mut link = Link::new(base::NodeAddr(2), "b", &settings, 1, Time::ZERO);
        link.dial = Some(at(0, 2));
        link.dial_more = (1..4).map(|network| at(network, 2)).collect();
        link.announced = (10..40).map(|network| at(network, 2)).collect();
        let own: Vec<UnderlayAddr> = (0..4).map(|network| at(network, 1)).collect();
        let places = link.places(&own);
        for network in 0..4 {
            for socket in 0..4 {
                let pair = UnderlayAddr {
                    socket,
                    ..at(network, 2)
                };
                assert!(places.contains(&pair), "{pair:?}");
            }
        }
        assert_eq!(places.len(), 16 + ANNOUNCED_PLACES);
    }

    #[test]
    fn many_pairs_do_not_make_the_rest_of_each_the_shortest() {
        let at = |port: u16| UnderlayAddr {
            port,
            ..UnderlayAddr::default()
        };
        let mut opening = Opening::default();
        let mut dials = 0;
        for second in 0..600 {
            let now = Time::ZERO + Duration::from_secs(second);
            // Forty addresses that stay, and one that is another each second.
            let wanted = (1..41).chain([1_000 + second as u16]).map(at);
            dials += usize::from(opening.next(now, wanted, &[]).is_some());
        }
        // Each of sixteen after 0, 8, 24, 56, 120, 248, 504 s.
        assert!((16..=16 * 7).contains(&dials), "{dials}");
        // A pair that is no longer wanted leaves its place to others.
        let later = Time::ZERO + Duration::from_secs(600) + OPEN_REST_MAX * 2;
        assert_eq!(opening.next(later, [at(50)].into_iter(), &[]), Some(at(50)));
        assert!(opening.pairs.len() <= PAIRS);
    }
}
