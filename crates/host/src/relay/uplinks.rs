//! The uplinks that the connections of one segment take: which takes which, and when one of them is lost.
//!
//! ```text
//!   stripe    0   1   2   3   4        two pairs of hosts' addresses: 0 and 2 fell back to the first uplink
//!   uplink    0   1   0   1   0        the first two connections take both
//! ```
//! The kernel gives a connection over a dead uplink up after a quarter of an hour. The overlay knows within half a second
//! which path is dead, by its hellos, if it watches it closely. So it is asked to as soon as nothing moves between a pair of
//! addresses, and asked again for what it has seen. The next attempt goes where paths are up.
//!
//! ```text
//!   nothing moves between two addresses for 0.5 s ─▶ their paths are watched ─▶ each is down, and the path in use is
//!            │                                                                  another one: both ends end the attempt
//!            ├─ and no path is down ─▶ asked again each 0.5 s, and after 5 s ever more seldom if nothing is under way
//!            └─ 10 s, and something is under way ─▶ lost, whatever the overlay says
//!   nothing is heard of a node for 10 s, on no connection, though its kernel is asked each second ─▶ gone
//! ```
//! A firewall may drop UDP and let TCP pass: connections between which bytes moved when their path was silent already are
//! not judged by it.

use super::socket::Socket;
use base::{Duration, NodeAddr, Time, UnderlayAddr};
use net::addr::socket_addr;
use overlay::hello::State;
use overlay::snapshot::PathHealth;
use std::net::IpAddr;
use std::sync::Arc;

/// When nothing has moved for so long, the overlay is asked. Choice: a path that loses a whole flight waits for 0.2 s and
/// then 0.4 s; the overlay needs as long to be sure.
const QUIET: Duration = Duration::from_millis(500);
/// For so long it is asked each [`QUIET`]. Choice: a path that dies while connections over it are busy is down by then on
/// every round trip.
const SOON: Duration = Duration::from_secs(5);
/// So long after the last answer at most. Choice: a transfer may have nothing to move for hours.
const PAUSE_MAX: Duration = Duration::from_secs(8);
/// A path that is down is dead after so long a silence. Choice: the attempt of a stream cannot be repeated, and what is
/// back within a second costs TCP less than an attempt.
const DEAD: Duration = Duration::from_secs(1);
/// A connection on which bytes moved for so long after its path was heard last lives without that path. Choice: an idle
/// path is heard each second, or two if a hello is lost.
const OUTLIVES: Duration = Duration::from_millis(2_500);
/// A connection on which nothing of what was sent is acknowledged for so long, and nothing else is heard, is lost.
/// So is a node of which nothing is heard on any connection. Choice: on a path that loses every fifth packet each way one
/// connection alone is silent for so long once in a thousand losses in a row, so one does not decide while others are heard.
const SILENT: Duration = Duration::from_secs(10);
/// A process that has not looked for so long was asleep, and knows nothing of what it could have heard.
const ASLEEP: Duration = Duration::from_secs(2);

/// Numbers for what connections have in common, in the order in which it is seen first.
#[derive(Debug)]
pub(super) struct Uplinks<K> {
    known: Vec<K>,
    each: Vec<u8>,
    least: u8,
}

impl<K: PartialEq> Uplinks<K> {
    /// Those of these connections.
    pub(super) fn of(ends: impl IntoIterator<Item = K>) -> Uplinks<K> {
        let mut uplinks = Uplinks {
            known: Vec::new(),
            each: Vec::new(),
            least: 1,
        };
        for ends in ends {
            let known = uplinks.known.iter().position(|known| *known == ends);
            let number = known.unwrap_or_else(|| {
                uplinks.least = number(uplinks.each.len() + 1);
                uplinks.known.push(ends);
                uplinks.known.len() - 1
            });
            uplinks.each.push(self::number(number));
        }
        uplinks
    }

    /// Of each connection.
    pub(super) fn each(&self) -> &[u8] {
        &self.each
    }

    /// How many of the first connections take all uplinks.
    pub(super) fn least(&self) -> u8 {
        self.least
    }
}

fn number(count: usize) -> u8 {
    u8::try_from(count).unwrap_or(u8::MAX)
}

/// The connections of a transfer at one node, watched for an uplink that is lost.
#[derive(Debug, Default)]
pub(super) struct Wires {
    all: Vec<Wire>,
    looked: Option<Time>,
    /// Since when it has looked without a break.
    awake: Time,
}

/// The node at the other end of a connection, and the addresses of both hosts: the own one, the other one.
pub(super) type Ends = (NodeAddr, [IpAddr; 2]);

/// What to do about the connections of a transfer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Between these, nothing has moved for so long: the overlay may know why. Often there are none.
    Quiet(Vec<(Ends, Duration)>),
    /// One to this node is lost, whatever the overlay says.
    Lost(NodeAddr),
    /// Nothing is heard of this node any more.
    Gone(NodeAddr),
}

impl Wires {
    /// Watches this one, too. One within the host has no uplink.
    pub(super) fn add(&mut self, now: Time, to: NodeAddr, socket: &Arc<Socket>) {
        let tcp = socket.tcp();
        let ends = tcp.and_then(|tcp| Some([tcp.local_addr().ok()?, tcp.peer_addr().ok()?]));
        let Some(ends) = ends else { return };
        let ends = (to, ends.map(|at| at.ip().to_canonical()));
        let place = self.all.iter().position(|wire| wire.ends == ends);
        let place = place.unwrap_or_else(|| {
            self.all.push(Wire::new(now, ends));
            self.all.len() - 1
        });
        let connection = (Arc::clone(socket), Silence::new(now));
        self.all[place].connections.push(connection);
    }

    /// Looks at all. What paces connections calls more often than is of use here.
    pub(super) fn look(&mut self, now: Time) -> Found {
        if self.looked.is_some_and(|at| now.since(at) < QUIET.div(2)) {
            return Found::Quiet(Vec::new());
        }
        if self.looked.is_none_or(|at| now.since(at) >= ASLEEP) {
            self.awake = now;
        }
        self.looked = Some(now);
        let looks: Vec<(Ends, WireLook)> = self
            .all
            .iter_mut()
            .map(|wire| (wire.ends, wire.look(now)))
            .collect();
        let of = |node: NodeAddr| looks.iter().filter(move |(ends, _)| ends.0 == node);
        for ((node, ends), look) in &looks {
            let awake = now.since(self.awake);
            if Wires::is_gone(awake, of(*node).map(|(_, look)| *look)) {
                return Found::Gone(*node);
            }
            if look.is_lost && of(*node).any(|((_, others), _)| others != ends) {
                return Found::Lost(*node);
            }
        }
        let mut quiet = Vec::new();
        for (wire, (ends, look)) in self.all.iter_mut().zip(looks) {
            if wire.schedule.is_due(now, &look) {
                quiet.push((ends, look.quiet));
            }
        }
        Found::Quiet(quiet)
    }

    /// Nothing is heard on any connection to a node by one that has been awake for so long.
    fn is_gone(awake: Duration, each: impl Iterator<Item = WireLook>) -> bool {
        let heard = each.map(|look| look.heard).min();
        awake >= SILENT && heard.is_some_and(|heard| heard >= SILENT)
    }

    /// There are no two paths between these nodes, one of which could take the place of the other.
    pub(super) fn on_no_choice(&mut self, now: Time, ends: Ends) {
        let those = self.all.iter_mut().filter(|wire| wire.ends == ends);
        those.for_each(|wire| wire.schedule.rests_until = now + PAUSE_MAX);
    }
}

/// There are paths by datagrams of which one could take the place of another.
pub(super) fn have_choice(paths: &[PathHealth]) -> bool {
    paths.iter().filter(|path| !path.at.is_stream()).count() > 1
}

/// Nothing has moved between these addresses for `quiet` because all paths between them are dead: the neighbour is heard by
/// another one.
pub(super) fn is_lost(paths: &[PathHealth], [from, at]: [IpAddr; 2], quiet: Duration) -> bool {
    let ip = |at: UnderlayAddr| socket_addr(at).ip();
    let is_this = |path: &&PathHealth| {
        // A socket for all addresses of a host does not tell by which one a path leaves.
        let leaves = path.from.map(ip).filter(|from| !from.is_unspecified());
        ip(path.at) == at && leaves.is_none_or(|leaves| leaves == from)
    };
    let is_dead = |path: &PathHealth| {
        let silence = path.silence.filter(|silence| *silence >= DEAD);
        // What has just been opened is down too, and has been heard. What has been silent for much longer than the
        // connection tells nothing of it.
        path.state == State::Down && silence.is_some_and(|silence| silence <= quiet + OUTLIVES)
    };
    let is_taken = |path: &PathHealth| path.in_use && path.state == State::Up;
    let of_datagrams = || paths.iter().filter(|path| !path.at.is_stream());
    let mut these = of_datagrams().filter(is_this).peekable();
    these.peek().is_some() && these.all(is_dead) && of_datagrams().any(is_taken)
}

/// The connections to one node between the same addresses: they live and die together.
#[derive(Debug)]
struct Wire {
    ends: Ends,
    connections: Vec<(Arc<Socket>, Silence)>,
    schedule: Schedule,
}

/// What the kernel tells of the connections between two addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WireLook {
    /// So long nothing has moved on any of them.
    quiet: Duration,
    /// Something is under way on one of them.
    is_pending: bool,
    /// One of them is silent for too long.
    is_lost: bool,
    /// So long nothing was heard on any of them, not even that something has arrived.
    heard: Duration,
}

impl Wire {
    fn new(now: Time, ends: Ends) -> Wire {
        Wire {
            ends,
            connections: Vec::new(),
            schedule: Schedule {
                ask: now,
                rests_until: now,
            },
        }
    }

    fn look(&mut self, now: Time) -> WireLook {
        let each = self.connections.iter_mut().map(|(socket, silence)| {
            // What is gone tells nothing.
            let info = socket.tcp().and_then(|tcp| net::tcp::info(tcp).ok());
            silence.look(now, &info.unwrap_or_default())
        });
        let all = each.reduce(|one, other| WireLook {
            quiet: one.quiet.min(other.quiet),
            is_pending: one.is_pending || other.is_pending,
            is_lost: one.is_lost || other.is_lost,
            heard: one.heard.min(other.heard),
        });
        all.unwrap_or(WireLook {
            quiet: Duration::ZERO,
            is_pending: false,
            is_lost: false,
            heard: Duration::ZERO,
        })
    }
}

/// When the overlay is asked.
#[derive(Clone, Copy, Debug)]
struct Schedule {
    ask: Time,
    /// Not before, however quiet it is.
    rests_until: Time,
}

impl Schedule {
    fn is_due(&mut self, now: Time, look: &WireLook) -> bool {
        if look.quiet < QUIET {
            self.ask = now;
            return false;
        }
        let is_due = now >= self.ask && now >= self.rests_until;
        if is_due {
            let is_soon = look.is_pending || look.quiet < SOON;
            let pause = match is_soon {
                true => QUIET,
                false => look.quiet.min(PAUSE_MAX),
            };
            self.ask = now + pause;
        }
        is_due
    }
}

/// What one connection waits for.
#[derive(Clone, Copy, Debug)]
struct Silence {
    /// Bytes that were acknowledged, and that came.
    moved: (u64, u64),
    /// Since when neither has changed.
    quiet: Time,
    /// Since when something is under way of which nothing is acknowledged.
    unacked: Option<Time>,
}

impl Silence {
    fn new(now: Time) -> Silence {
        Silence {
            moved: (0, 0),
            quiet: now,
            unacked: None,
        }
    }

    /// By what the kernel says now: so long nothing has moved, and whether the connection is lost. How long nothing was
    /// heard says nothing by itself: a connection that had nothing to send has heard nothing either.
    fn look(&mut self, now: Time, info: &net::tcp::Info) -> WireLook {
        if info.unacked == 0 || info.acked != self.moved.0 {
            self.unacked = None;
        }
        let moved = (info.acked, info.received);
        if moved != self.moved {
            (self.moved, self.quiet) = (moved, now);
        }
        let is_pending = info.unacked > 0;
        let heard = Duration::from_millis(info.silent_ms.into());
        let since = match is_pending {
            true => *self.unacked.get_or_insert(now),
            false => now,
        };
        WireLook {
            quiet: now.since(self.quiet),
            is_pending,
            is_lost: now.since(since) >= SILENT && heard >= SILENT,
            heard,
        }
    }
}

#[cfg(test)]
mod tests;
