//! The uplinks that the connections of one segment take: which takes which, and when one of them is lost.
//!
//! ```text
//!   stripe    0   1   2   3   4        two pairs of hosts' addresses: 0 and 2 fell back to the first uplink
//!   uplink    0   1   0   1   0        the first two connections take both
//! ```
//! The kernel gives a connection over a dead uplink up after a quarter of an hour. The overlay knows within half a second
//! which path is dead, by its hellos, so it is asked as soon as nothing moves. The next attempt goes where paths are up.
//!
//! ```text
//!   nothing moves for 0.5 s ─▶ the overlay hears the node by another path alone ─▶ lost: both ends end the attempt
//!            │                                                               └no▶ asked again after 0.5, 1 .. 8 s
//!            └─ 10 s, and something is under way ─▶ lost, whatever the overlay says
//! ```

use super::socket::Socket;
use base::{Duration, NodeAddr, Time};
use overlay::snapshot::{LinkStatus, PathStatus};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// When nothing has moved for so long, the overlay is asked. Choice: a path that loses a whole flight waits for 0.2 s and
/// then 0.4 s; the overlay needs as long to be sure.
const QUIET: Duration = Duration::from_millis(500);
/// So long after the last answer at most. Choice: one question costs a look at all links of the node, and a transfer may
/// have nothing to move for hours.
const PAUSE_MAX: Duration = Duration::from_secs(8);
/// A connection on which nothing of what was sent is acknowledged for so long, and nothing else is heard, is lost.
/// Choice: as control is.
const SILENT: Duration = Duration::from_secs(10);

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
}

/// The node at the other end of a connection, and the addresses of both hosts: the own one, the other one.
type Ends = (NodeAddr, [IpAddr; 2]);

/// What to do about the connections of a transfer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing.
    Fine,
    /// On these nothing moves: the overlay may know why.
    Quiet(Vec<Ends>),
    /// One to this node is lost, whatever the overlay says.
    Lost(NodeAddr),
}

impl Wires {
    /// Watches this one, too. One within the host has no uplink.
    pub(super) fn add(&mut self, now: Time, to: NodeAddr, socket: &Arc<Socket>) {
        let tcp = socket.tcp();
        let ends = tcp.and_then(|tcp| Some([tcp.local_addr().ok()?, tcp.peer_addr().ok()?]));
        let Some(ends) = ends else { return };
        self.all.push(Wire {
            ends: (to, ends.map(|at| at.ip().to_canonical())),
            socket: Arc::clone(socket),
            silence: Silence::new(now),
            ask: now,
            pause: QUIET,
        });
    }

    /// Looks at all.
    pub(super) fn look(&mut self, now: Time) -> Found {
        let mut quiet = Vec::new();
        for at in 0..self.all.len() {
            let wire = &mut self.all[at];
            // What is gone tells nothing.
            let info = wire.socket.tcp().and_then(|tcp| net::tcp::info(tcp).ok());
            let (span, is_lost) = wire.silence.look(now, &info.unwrap_or_default());
            let ends = wire.ends;
            let is_same_node = |other: &&Wire| other.ends.0 == ends.0;
            let mut others = self.all.iter().filter(is_same_node);
            if is_lost && others.any(|other| other.ends != ends) {
                return Found::Lost(ends.0);
            }
            if self.all[at].is_to_ask(now, span) && !quiet.contains(&ends) {
                quiet.push(ends);
            }
        }
        match quiet.is_empty() {
            true => Found::Fine,
            false => Found::Quiet(quiet),
        }
    }
}

/// The overlay hears the neighbour by another path, and not by the one between these addresses.
pub(super) fn is_lost(link: &LinkStatus, [from, at]: [IpAddr; 2]) -> bool {
    let ip = |text: &Option<String>| {
        let at: SocketAddr = text.as_ref()?.parse().ok()?;
        Some(at.ip().to_canonical())
    };
    let is_this = |path: &&PathStatus| {
        // A socket for all addresses of a host does not tell by which one a path leaves.
        let leaves = ip(&path.from).filter(|from| !from.is_unspecified());
        ip(&path.at) == Some(at) && leaves.is_none_or(|leaves| leaves == from)
    };
    let is_up = |path: &PathStatus| path.state == "up";
    let this = link.paths.iter().find(is_this);
    this.is_some_and(|path| !is_up(path)) && link.paths.iter().any(is_up)
}

#[derive(Debug)]
struct Wire {
    ends: Ends,
    socket: Arc<Socket>,
    silence: Silence,
    /// When the overlay is asked again while nothing moves, and so long after that.
    ask: Time,
    pause: Duration,
}

impl Wire {
    /// Nothing has moved for `span`, and it is time to ask why.
    fn is_to_ask(&mut self, now: Time, span: Duration) -> bool {
        if span < QUIET {
            (self.ask, self.pause) = (now, QUIET);
            return false;
        }
        let is_due = now >= self.ask;
        if is_due {
            self.ask = now + self.pause;
            self.pause = (self.pause * 2).min(PAUSE_MAX);
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
    fn look(&mut self, now: Time, info: &net::tcp::Info) -> (Duration, bool) {
        if info.unacked == 0 || info.acked != self.moved.0 {
            self.unacked = None;
        }
        let moved = (info.acked, info.received);
        if moved != self.moved {
            (self.moved, self.quiet) = (moved, now);
        }
        let quiet = now.since(self.quiet);
        if info.unacked == 0 {
            return (quiet, false);
        }
        let since = *self.unacked.get_or_insert(now);
        let heard = Duration::from_millis(info.silent_ms.into());
        (quiet, now.since(since) >= SILENT && heard >= SILENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use net::tcp::Info;

    fn info(unacked: u32, acked: u64, silent_ms: u32) -> Info {
        Info {
            unacked,
            acked,
            silent_ms,
            ..Info::default()
        }
    }

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn what_was_idle_for_long_is_not_lost_in_its_first_round_trip() {
        let mut silence = Silence::new(at(0));
        let mut is_lost = |now, info| silence.look(now, &info).1;
        assert!(!is_lost(at(0), info(0, 5_000, 0)));
        assert!(!is_lost(at(30_000), info(0, 5_000, 30_000)));
        // It sends again, and no answer can have come yet.
        assert!(!is_lost(at(30_500), info(10, 5_000, 30_500)));
        assert!(!is_lost(at(31_000), info(10, 9_000, 20)));
        // A node whose program reads nothing answers questions.
        assert!(!is_lost(at(42_000), info(10, 9_000, 900)));
    }

    #[test]
    fn what_is_acknowledged_no_more_is_lost() {
        let mut silence = Silence::new(at(0));
        let mut is_lost = |now, info| silence.look(now, &info).1;
        assert!(!is_lost(at(0), info(10, 5_000, 0)));
        for ms in (500..10_500).step_by(500) {
            let lost = is_lost(at(ms), info(10, 6_000, ms as u32));
            assert!(!lost, "{ms}");
        }
        assert!(is_lost(at(10_500), info(12, 6_000, 10_500)));
    }

    #[test]
    fn quiet_is_on_which_nothing_moves_either_way() {
        let mut silence = Silence::new(at(0));
        let mut quiet = |ms, acked, received| {
            let told = Info {
                received,
                ..info(0, acked, 0)
            };
            silence.look(at(ms), &told).0
        };
        assert_eq!(quiet(500, 9, 0), Duration::ZERO);
        assert_eq!(quiet(1_000, 9, 4), Duration::ZERO);
        assert_eq!(quiet(1_500, 9, 4), QUIET);
        assert_eq!(quiet(2_000, 10, 4), Duration::ZERO);
    }

    #[test]
    fn as_many_connections_are_used_as_it_takes_to_have_all_uplinks() {
        let least = |ends: &[u8]| Uplinks::of(ends.iter().copied()).least();
        assert_eq!(least(&[1, 1, 1]), 1);
        assert_eq!(least(&[1, 2, 3, 1]), 3);
        // The second and third fell back to the first.
        assert_eq!(least(&[1, 1, 1, 4, 1]), 4);
        assert_eq!(least(&[1, 1, 3, 1]), 3);
        assert_eq!(least(&[]), 1);
        assert_eq!(Uplinks::of([7, 7, 9, 7]).each(), [0, 0, 1, 0]);
    }
}
