//! The uplinks of one segment's connections: which connection takes which uplink, and when one of them is lost.
//!
//! ```text
//!   stripe    0   1   2   3   4        two pairs of hosts' addresses: 0 and 2 fell back to the first uplink
//!   uplink    0   1   0   1   0        the first two connections take both
//! ```
//! The kernel gives up a connection over a dead uplink after a quarter of an hour. The overlay's hellos show within
//! half a second which path is dead, if the overlay watches it closely. Therefore, as soon as nothing moves between a
//! pair of addresses, the overlay is asked to watch, and then asked again for the result. The next attempt uses paths
//! that are up.
//!
//! ```text
//!   nothing moves between two addresses for 0.5 s ─▶ their paths are watched ─▶ each is down, and the path in use is
//!            │                                                                  another one: both ends end the attempt
//!            ├─ and no path is down ─▶ asked again each 0.5 s, and after 5 s ever more seldom if nothing is under way
//!            └─ 10 s, and something is under way ─▶ lost, whatever the overlay says
//!   nothing is heard of a node for 10 s, on no connection, though its kernel is asked each second ─▶ gone
//! ```
//! A firewall may drop UDP and let TCP pass. Therefore, if bytes moved on connections while their path was already
//! silent, that path does not decide about them.

use super::socket::Socket;
use base::{Duration, NodeAddr, Time, UnderlayAddr};
use net::addr::socket_addr;
use overlay::hello::State;
use overlay::snapshot::PathHealth;
use std::net::IpAddr;
use std::sync::Arc;

/// If nothing has moved for this time, the overlay is asked. Choice: a path that loses a whole flight waits for 0.2 s
/// and then 0.4 s; the overlay needs as long to be sure.
const QUIET: Duration = Duration::from_millis(500);
/// For this long it is asked at intervals of [`QUIET`]. Choice: if a path dies while connections over it are busy, it
/// is down by then, whatever its round trip.
const SOON: Duration = Duration::from_secs(5);
/// The longest pause after the last answer. Choice: a transfer may have nothing to move for hours.
const PAUSE_MAX: Duration = Duration::from_secs(8);
/// A path that is down counts as dead after this silence. Choice: the attempt of a stream cannot be repeated, and if a
/// path recovers within a second, that costs TCP less than another attempt.
const DEAD: Duration = Duration::from_secs(1);
/// If bytes moved on a connection this long after its path was last heard, the connection works without that path.
/// Choice: an idle path is heard each second, or each two if a hello is lost.
const OUTLIVES: Duration = Duration::from_millis(2_500);
/// A connection is lost if nothing that it sent is acknowledged for this time, and nothing else is heard. A node is
/// lost if nothing is heard on any connection. Choice: on a path that loses every fifth packet each way, a single
/// connection is silent for this long once in a thousand runs of losses, so one connection does not decide while others
/// are heard.
const SILENT: Duration = Duration::from_secs(10);
/// If a process has not looked for this long, it was asleep, and does not know what it could have heard.
const ASLEEP: Duration = Duration::from_secs(2);

/// Numbers for what connections have in common, in the order of first appearance.
#[derive(Debug)]
pub(super) struct Uplinks<K> {
    known: Vec<K>,
    each: Vec<u8>,
    least: u8,
}

impl<K: PartialEq> Uplinks<K> {
    /// Numbers the uplinks of these connections.
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

    /// Returns the number of each connection.
    pub(super) fn each(&self) -> &[u8] {
        &self.each
    }

    /// Returns how many of the first connections use all uplinks.
    pub(super) fn least(&self) -> u8 {
        self.least
    }
}

fn number(count: usize) -> u8 {
    u8::try_from(count).unwrap_or(u8::MAX)
}

/// The connections of a transfer at one node, which are watched for the loss of an uplink.
#[derive(Debug, Default)]
pub(super) struct Wires {
    all: Vec<Wire>,
    looked: Option<Time>,
    /// Since when it has looked without a break.
    awake: Time,
}

/// The node at the other end of a connection, and the addresses of both hosts: the own one first.
pub(super) type Ends = (NodeAddr, [IpAddr; 2]);

/// The result of a check of a transfer's connections.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Between these addresses, nothing has moved for this long: the overlay may know why. Often the list is empty.
    Quiet(Vec<(Ends, Duration)>),
    /// A connection to this node is lost, whatever the overlay says.
    Lost(NodeAddr),
    /// This node is silent.
    Gone(NodeAddr),
}

impl Wires {
    /// Watches this connection, too. A connection within the host has no uplink.
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

    /// Checks all connections. The pacing code calls this more often than is useful here.
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

    /// Returns true if nothing was heard on any connection to a node, by a process that has been awake for long enough.
    fn is_gone(awake: Duration, each: impl Iterator<Item = WireLook>) -> bool {
        let heard = each.map(|look| look.heard).min();
        awake >= SILENT && heard.is_some_and(|heard| heard >= SILENT)
    }

    /// Notes that there are no two paths between these nodes, one of which could replace the other.
    pub(super) fn on_no_choice(&mut self, now: Time, ends: Ends) {
        let those = self.all.iter_mut().filter(|wire| wire.ends == ends);
        those.for_each(|wire| wire.schedule.rests_until = now + PAUSE_MAX);
    }
}

/// Returns true if there are datagram paths of which one could replace another.
pub(super) fn have_choice(paths: &[PathHealth]) -> bool {
    paths.iter().filter(|path| !path.at.is_stream()).count() > 1
}

/// Returns true if nothing has moved between these addresses for `quiet` because all paths between them are dead, while
/// the neighbour is heard on another path.
pub(super) fn is_lost(paths: &[PathHealth], [from, at]: [IpAddr; 2], quiet: Duration) -> bool {
    let ip = |at: UnderlayAddr| socket_addr(at).ip();
    let is_this = |path: &&PathHealth| {
        // A socket for all addresses of a host does not show from which of them a path leaves.
        let leaves = path.from.map(ip).filter(|from| !from.is_unspecified());
        ip(path.at) == at && leaves.is_none_or(|leaves| leaves == from)
    };
    let is_dead = |path: &PathHealth| {
        let silence = path.silence.filter(|silence| *silence >= DEAD);
        // A path that was just opened is down, too, and has been heard. A path that has been silent for much longer
        // than the connection shows nothing about the connection.
        path.state == State::Down && silence.is_some_and(|silence| silence <= quiet + OUTLIVES)
    };
    let is_taken = |path: &PathHealth| path.in_use && path.state == State::Up;
    let of_datagrams = || paths.iter().filter(|path| !path.at.is_stream());
    let mut these = of_datagrams().filter(is_this).peekable();
    these.peek().is_some() && these.all(is_dead) && of_datagrams().any(is_taken)
}

/// The connections to one node between the same addresses: they fail together.
#[derive(Debug)]
struct Wire {
    ends: Ends,
    connections: Vec<(Arc<Socket>, Silence)>,
    schedule: Schedule,
}

/// The kernel's report about the connections between two addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WireLook {
    /// For how long nothing has moved on any of them.
    quiet: Duration,
    /// Something is under way on one of them.
    is_pending: bool,
    /// One of them has been silent for too long.
    is_lost: bool,
    /// For how long nothing was heard on any of them, not even an acknowledgement.
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
            // A connection that is gone has no information.
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
    /// It is not asked before this time, however quiet the connections are.
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

/// The silence of one connection.
#[derive(Clone, Copy, Debug)]
struct Silence {
    /// Number of bytes that were acknowledged, and that were received.
    moved: (u64, u64),
    /// Since when neither number has changed.
    quiet: Time,
    /// Since when something has been under way of which nothing is acknowledged.
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

    /// Takes the kernel's information. Returns for how long nothing has moved, and whether the connection is lost. The
    /// time since it heard something shows nothing by itself: a connection that had nothing to send has heard nothing
    /// either.
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
