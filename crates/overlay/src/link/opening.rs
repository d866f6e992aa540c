//! Further paths of a link: which pairs of addresses are dialled, and when.
//!
//! ```text
//!   own sockets     known of the neighbour
//!   0 ──────┬────── 10.1.0.2     each with each, of one family; first what has least in common with the paths
//!   1 ──────┴────── 10.2.0.2     that there are; what nobody answers, ever more seldom
//! ```

use super::paths::ends_shared;
use super::{Link, MAX_PATHS, PathId};
use base::{Duration, Time, UnderlayAddr};

/// The rest between two dials of a pair of addresses of which nothing comes, at first and at most. Choice: a dial is
/// six Inits of 1152 bytes, so 7 kbit/s at first, and mostly nothing.
const OPEN_REST: Duration = Duration::from_secs(8);
const OPEN_REST_MAX: Duration = Duration::from_secs(512);
/// Pairs of addresses that are remembered: four sockets towards four addresses.
const PAIRS: usize = 16;
/// Which pairs of addresses are dialled, and when next.
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
    /// The pair to be dialled now: of those that are due, the one that has least in common with the paths that there
    /// are.
    pub(crate) fn next(
        &mut self,
        now: Time,
        wanted: impl Iterator<Item = UnderlayAddr>,
        paths: &[UnderlayAddr],
    ) -> Option<UnderlayAddr> {
        let shared =
            |at: &UnderlayAddr| -> usize { paths.iter().map(|path| ends_shared(*path, *at)).sum() };
        let is_open = |at: &UnderlayAddr| paths.iter().any(|path| path.remote() == at.remote());
        let is_due = |at: &UnderlayAddr| {
            let pair = self.pairs.iter().find(|pair| pair.at == *at);
            pair.is_none_or(|pair| pair.next <= now)
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
                    self.pairs.remove(0);
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

    /// A path has come into use there: it is dialled soon should it be lost.
    fn on_up(&mut self, at: UnderlayAddr) {
        self.pairs.retain(|pair| pair.at != at.remote());
    }
}

impl Link {
    /// A pair of addresses to be dialled for a further path: each own socket towards each address that is known of the
    /// neighbour.
    pub(crate) fn path_to_open(&mut self, now: Time, own: &[UnderlayAddr]) -> Option<UnderlayAddr> {
        let is_room = 1 + self.spares.len() < MAX_PATHS;
        if own.len() < 2 || !self.has_paths() || !self.is_up() || !is_room {
            return None;
        }
        if self.is_over_stream() {
            return None;
        }
        let paths: Vec<UnderlayAddr> = self.paths().filter_map(|path| path.at).collect();
        let known = self.dial.iter().chain(&self.dial_more).chain(&paths);
        let towards = |to: &UnderlayAddr| {
            let to = *to;
            let kind = |at: UnderlayAddr| (at.is_ipv4(), at.is_loopback());
            let fits = move |(_, own): &(u8, &UnderlayAddr)| kind(**own) == kind(to);
            let sockets = (0u8..).zip(own).filter(fits);
            sockets.map(move |(socket, _)| UnderlayAddr { socket, ..to })
        };
        self.opening.next(now, known.flat_map(towards), &paths)
    }

    /// A path is up from now on.
    pub(crate) fn on_path_up(&mut self, id: PathId) {
        if let Some(at) = self.path_of(id).and_then(|path| path.at) {
            self.opening.on_up(at);
        }
    }
}
