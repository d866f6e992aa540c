//! The paths of links: dialling further ones, and changing the path in use.
//!
//! ```text
//!   once a second: a pair of addresses that has no path ──▶ handshake "of a further path" ──▶ spare
//!   a path is down, or another one costs less ──▶ the link goes over to it: told in an event, and to no other node
//! ```
//! [`Link`] decides which path is used and why.

use super::Node;
use crate::event::Event;
use crate::hello::{self, Why};
use crate::link::{Link, LinkIndex, Path, PathId};
use crate::request::{Reply, RequestError};
use crate::snapshot::{PathHealth, PathStatus};
use base::{NodeAddr, Outbox, Time, UnderlayAddr};
use graph::metric::{Cost, Metric};
use wire::link::SessionIndex;

impl Node {
    /// Once a second: dials for further paths, and for new sessions of existing paths.
    pub(super) fn tend_paths(&mut self, now: Time, out: &mut impl Outbox<Node>) {
        for index in self.links.indices() {
            let ended = self.links.at_mut(index).end_gone_spares(now);
            self.release(ended);
            self.rekey_spares(now, index, out);
            let link = self.links.at_mut(index);
            let peer = link.peer;
            let is_direct = self.own_links.is_attempted(peer);
            if let Some(to) = link.path_to_open(now, self.own_links.sockets(), is_direct)
                && let Ok(init) = self.handshakes.dial_further(now, to, peer)
            {
                self.send_plain(to, &init, out);
            }
            self.choose_path(now, index, out);
            self.links.at_mut(index).choose_shares(now);
        }
    }

    fn rekey_spares(&mut self, now: Time, index: LinkIndex, out: &mut impl Outbox<Node>) {
        let link = self.links.at_mut(index);
        let peer = link.peer;
        let Some(spare) = link.spare_to_rekey(now) else {
            return;
        };
        spare.dialled = Some(now);
        if let Some(to) = spare.at
            && let Ok(init) = self.handshakes.dial_further(now, to, peer)
        {
            self.send_plain(to, &init, out);
        }
    }

    /// Changes a link to another path if that is due.
    pub(super) fn choose_path(
        &mut self,
        now: Time,
        index: LinkIndex,
        out: &mut impl Outbox<Node>,
    ) -> bool {
        let link = self.links.at_mut(index);
        let before = link.path.mtu.usable();
        let Some(changed) = link.choose_path(now) else {
            return false;
        };
        let peer = link.peer;
        out.report(Event::PathChanged {
            peer,
            from: changed.from,
            to: changed.to,
            why: changed.why,
        });
        self.on_mtu(index, before, out);
        self.note_way(now, index, out);
        self.consider_cost(now, index);
        self.links.touch(index);
        true
    }

    /// Returns what a change of a path means for its link: nothing, as long as another path takes its place.
    pub(super) fn settle_path(
        &mut self,
        now: Time,
        (index, id): (LinkIndex, PathId),
        event: Option<hello::Event>,
        out: &mut impl Outbox<Node>,
    ) -> Option<hello::Event> {
        let event = event?;
        let link = self.links.at_mut(index);
        if let Some(path) = link.path_of_mut(id) {
            path.on_hello_event(now, event);
        }
        if event == hello::Event::Up {
            link.on_path_up(id);
        }
        link.choose_shares(now);
        let is_spare = link.path.id != id;
        let was_up = link.is_up();
        let is_closing = |event| {
            let why = Why::Closing;
            matches!(event, hello::Event::Down { why: w, .. } if w == why)
        };
        if is_closing(event) {
            // The neighbour is leaving, not the path: it may use another path than this end.
            let event = match is_spare {
                true => link.path.hello.on_closing(now),
                false => Some(event),
            };
            if let Some(event) = event.filter(|_| is_spare) {
                link.path.on_hello_event(now, event);
            }
            let ended = link.end_spares(now, |_| true);
            self.release(ended);
            return event;
        }
        let changes = self.choose_path(now, index, out);
        match (is_spare, event) {
            // The link was down, and is now up by this path.
            (true, hello::Event::Up) if changes && !was_up => Some(event),
            (true, _) => None,
            (false, hello::Event::Down { .. }) if changes => None,
            (false, _) => Some(event),
        }
    }

    pub(super) fn watch_paths(
        &mut self,
        now: Time,
        neighbor: NodeAddr,
    ) -> Result<Reply, RequestError> {
        let index = self.links.by_peer(neighbor);
        let index = index.ok_or(RequestError::NoSuchNeighbor)?;
        let paths = self.links.at_mut(index).paths_mut();
        // A stream reports its own end, and an unused stream is about to be ended.
        let paths = paths.filter(|path| path.is_up() && !path.is_over_stream());
        paths.for_each(|path| path.hello.watch_closely(now));
        self.links.touch(index);
        Ok(Reply::Done)
    }

    /// Returns the condition of the paths to a neighbour; none for another node.
    pub fn path_healths(&self, now: Time, neighbor: NodeAddr) -> Vec<PathHealth> {
        let Some(index) = self.links.by_peer(neighbor) else {
            return Vec::new();
        };
        let link = self.links.at(index);
        let health = |path: &Path| {
            let at = path.at?;
            Some(PathHealth {
                from: self
                    .own_links
                    .sockets()
                    .get(usize::from(at.socket))
                    .copied(),
                at,
                state: path.hello.state(),
                silence: path.silence(now),
                in_use: path.id == link.path.id,
            })
        };
        link.paths().filter_map(health).collect()
    }

    pub(super) fn release(&mut self, sessions: Vec<SessionIndex>) {
        for session in sessions {
            self.drop_session(session);
        }
    }
}

impl Link {
    pub(super) fn path_statuses(&self, now: Time, own: &[UnderlayAddr]) -> Vec<PathStatus> {
        let used = self.path.id;
        let status = |path: &Path| {
            let own = path.at.and_then(|at| own.get(usize::from(at.socket)));
            let chosen = self.choice.why(now).filter(|_| path.id == used);
            PathStatus {
                number: path.id.0,
                from: own.map(UnderlayAddr::to_string),
                at: path.at.map(|at| at.to_string()),
                state: path.state(),
                in_use: path.id == used,
                shares: path.id != used && self.takes_bulk(now, path),
                active: path.hello.is_active(),
                rtt_ms: path
                    .hello
                    .rtt()
                    .smoothed()
                    .map(|rtt| rtt.as_secs_f64() * 1e3),
                loss_in_pct: path.loss.rate() * 100.0,
                loss_out_pct: path.hello.loss_out().share() * 100.0,
                out_bytes: path.bytes.0,
                in_bytes: path.bytes.1,
                mtu_bytes: path.mtu.usable(),
                cost_ms: Metric::ExpectedLatency.in_natural_unit(Cost(self.cost_of(now, path))),
                heard_s: path.silence(now).map(|silence| silence.as_secs_f64()),
                chosen: chosen.map(|(why, ago)| (why.to_string(), ago.as_secs_f64())),
            }
        };
        self.paths().map(status).collect()
    }
}
