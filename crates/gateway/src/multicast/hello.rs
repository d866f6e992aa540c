//! The bridges of one network find each other, and one of them carries.
//!
//! ```text
//!   start ─▶ Listening ──nobody better──▶ Forwarding ──a better one forwards──▶ Standby
//!                 └──somebody forwards──▶ Standby ──it is silent, leaves, or is cut off──▶ Forwarding
//! ```
//! Two bridges that both carried would bring every packet to the overlay twice, and each would put the other's packets
//! back onto the network. So the bridges send hellos, five times a second, in a frame of their own that hosts ignore. A
//! bridge that forwards stays the forwarder: a bridge that comes later waits, unless its operator gave it a better
//! priority. A forwarder that falls silent is replaced within [`HOLD`]; one that ends announces this.
//!
//! A bridge whose node is unreachable, or reaches no other node, carries nothing: it is *cut off*, announces this at
//! once, and ranks behind all bridges that are not. When its node reaches other nodes again, the bridge ranks as
//! before, but it does not take back what another bridge carries meanwhile. Only a bridge of a better priority takes
//! over, and only after its node has reached other nodes for a [`PROBATION`]. The probation doubles each time the
//! bridge is soon cut off again, so that a link that comes and goes does not move the network's traffic each time.
//!
//! ```text
//!    0       4        5      6          7                 8        12
//!   | "SNBR" | 1 (1)  | role | priority | 1 if cut off    | node   | nonce (8) |
//! ```
//! A hello is not authenticated, because nothing on an Ethernet is: an attacker who can forge a hello can also answer
//! IGMP queries for all hosts, and flood the network.

use super::drops::Drop;
use super::packet::{ETHERNET_BYTES, Ethernet, Mac};
use base::{Duration, NodeAddr, Time};

/// The time between hellos.
pub const INTERVAL: Duration = Duration::from_millis(200);
/// The time without a hello after which a bridge counts as gone: three hellos are lost.
pub const HOLD: Duration = Duration::from_millis(700);
/// How long a bridge's node must have reached other nodes again before the bridge takes over from a bridge of a worse
/// priority. Choice: longer than links need to show whether they stay up.
pub const PROBATION: Duration = Duration::from_secs(5);
/// The maximum of the probation.
pub const PROBATION_MAX: Duration = Duration::from_secs(160);
/// The time without being cut off after which the probation has its first value again.
const CALM: Duration = Duration::from_secs(600);
/// Maximum number of bridges of one network that are remembered; further bridges are ignored.
pub const PEERS_MAX: usize = 16;
/// The default priority; lower is better.
pub const PRIORITY: u8 = 100;
/// Type of the frames: the one for local experiments. [IEEE 802 §9.2.3.4]
pub const KIND: u16 = 0x88b5;
/// Destination of hellos: a group address of our own, which switches forward to all ports.
pub const TO: Mac = [0x03, 0x53, 0x4e, 0, 0, 1];
/// The first bytes of the Ethernet addresses from which bridges put packets onto a network.
pub const MAC_PREFIX: [u8; 3] = [0x02, 0x53, 0x4e];

const MAGIC: [u8; 4] = *b"SNBR";
const VERSION: u8 = 1;
const HELLO_BYTES: usize = 20;
/// The minimum length of an Ethernet frame.
const FRAME_BYTES: usize = 60;

/// The role of a bridge on its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It checks whether other bridges exist.
    Listening,
    /// It carries.
    Forwarding,
    /// Another bridge carries.
    Standby,
    /// It is ending.
    Leaving,
}

/// The rank of a bridge among those of its network: the lowest carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// The priority that the operator set.
    pub priority: u8,
    /// The node of the bridge.
    pub node: NodeAddr,
    /// A random number that distinguishes bridges of one node.
    pub nonce: u64,
}

/// The message by which a bridge announces itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The rank of the bridge.
    pub rank: Rank,
    /// The role of the bridge.
    pub role: Role,
    /// Whether the bridge's node is unreachable, or reaches no other node.
    pub is_cut_off: bool,
}

impl Hello {
    /// Returns the sort key of the bridge: cut-off bridges rank behind all that are not cut off.
    fn place(&self) -> (bool, Rank) {
        (self.is_cut_off, self.rank)
    }

    /// Parses the bytes after the Ethernet header.
    ///
    /// # Errors
    /// The bytes are not a hello of this version.
    pub fn parse(bytes: &[u8]) -> Result<Hello, Drop> {
        let bytes: &[u8; HELLO_BYTES] = bytes.first_chunk().ok_or(Drop::Hello)?;
        let [
            m0,
            m1,
            m2,
            m3,
            version,
            role,
            priority,
            cut_off,
            n0,
            n1,
            n2,
            n3,
            nonce @ ..,
        ] = *bytes;
        if [m0, m1, m2, m3] != MAGIC || version != VERSION {
            return Err(Drop::Hello);
        }
        let role = match role {
            0 => Role::Listening,
            1 => Role::Forwarding,
            2 => Role::Standby,
            3 => Role::Leaving,
            _ => return Err(Drop::Hello),
        };
        let rank = Rank {
            priority,
            node: NodeAddr(u32::from_be_bytes([n0, n1, n2, n3])),
            nonce: u64::from_be_bytes(nonce),
        };
        Ok(Hello {
            rank,
            role,
            is_cut_off: cut_off & 1 != 0,
        })
    }

    /// Returns the frame in which `from` sends this hello.
    #[must_use]
    pub fn frame(&self, from: Mac) -> [u8; FRAME_BYTES] {
        let mut frame = [0; FRAME_BYTES];
        let ethernet = Ethernet {
            to: TO,
            from,
            kind: KIND,
        };
        let (head, body) = frame.split_at_mut(ETHERNET_BYTES);
        head.copy_from_slice(&ethernet.emit());
        body[..4].copy_from_slice(&MAGIC);
        let role = match self.role {
            Role::Listening => 0,
            Role::Forwarding => 1,
            Role::Standby => 2,
            Role::Leaving => 3,
        };
        let cut_off = u8::from(self.is_cut_off);
        body[4..8].copy_from_slice(&[VERSION, role, self.rank.priority, cut_off]);
        body[8..12].copy_from_slice(&self.rank.node.0.to_be_bytes());
        body[12..20].copy_from_slice(&self.rank.nonce.to_be_bytes());
        frame
    }
}

/// Returns whether a bridge put the frame onto the network.
#[must_use]
pub fn is_injected(ethernet: &Ethernet) -> bool {
    ethernet.from[..3] == MAC_PREFIX
}

/// Returns the Ethernet address from which a bridge puts packets onto a network.
#[must_use]
pub fn mac(nonce: u64) -> Mac {
    let [a, b, c] = MAC_PREFIX;
    let [.., x, y, z] = nonce.to_be_bytes();
    [a, b, c, x, y, z]
}

/// The election of the bridge that carries.
#[derive(Debug)]
pub struct Election {
    own: Rank,
    role: Role,
    reach: Reach,
    peers: Vec<Peer>,
    listened: Time,
    next_hello: Time,
}

/// Whether this bridge's node reaches other nodes, and how stable this has been.
#[derive(Clone, Copy, Debug)]
struct Reach {
    /// Whether the node reaches other nodes; assumed until the node reports.
    is_there: bool,
    /// Whether the node ever reached other nodes. Without this, it cannot lose them.
    was_there: bool,
    /// When the node last lost the other nodes.
    lost: Time,
    probation: Duration,
    /// Until this time the bridge takes nothing over from another bridge.
    probation_until: Time,
}

#[derive(Clone, Copy, Debug)]
struct Peer {
    hello: Hello,
    heard: Time,
}

impl Election {
    /// Creates a bridge that begins to listen.
    #[must_use]
    pub fn new(own: Rank, now: Time) -> Election {
        Election {
            own,
            role: Role::Listening,
            reach: Reach {
                is_there: true,
                was_there: false,
                lost: Time::ZERO,
                probation: PROBATION,
                probation_until: now,
            },
            peers: Vec::new(),
            listened: now + HOLD,
            next_hello: now,
        }
    }

    /// Starts again, for example on another network.
    pub fn restart(&mut self, now: Time) {
        let reach = self.reach;
        *self = Election {
            reach,
            ..Election::new(self.own, now)
        };
    }

    /// Records whether the bridge's node reaches other nodes; false also if the node is unreachable.
    pub fn set_reach(&mut self, now: Time, is_there: bool) {
        let reach = &mut self.reach;
        if is_there && !reach.is_there && reach.was_there {
            reach.probation_until = now + reach.probation;
        }
        if !is_there && reach.is_there && reach.was_there {
            let is_first = reach.lost == Time::ZERO || now.since(reach.lost) >= CALM;
            reach.probation = match is_first {
                true => PROBATION,
                false => (reach.probation * 2).min(PROBATION_MAX),
            };
            reach.lost = now;
        }
        if is_there != reach.is_there {
            // The other bridges learn of the change at once.
            self.next_hello = now;
        }
        reach.is_there = is_there;
        reach.was_there |= is_there;
        self.decide(now);
    }

    /// Returns whether the node is unreachable, or reaches no other node.
    #[must_use]
    pub fn is_cut_off(&self) -> bool {
        !self.reach.is_there
    }

    /// Returns the role of this bridge.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    /// Returns the bridge that carries, if it is another one.
    #[must_use]
    pub fn forwarder(&self) -> Option<Rank> {
        self.forwarding().map(|hello| hello.rank)
    }

    fn forwarding(&self) -> Option<Hello> {
        let forwarding = self.peers.iter().map(|peer| peer.hello);
        let forwarding = forwarding.filter(|hello| hello.role == Role::Forwarding);
        forwarding.min_by_key(Hello::place)
    }

    /// Returns the hello of this bridge.
    fn own(&self) -> Hello {
        Hello {
            rank: self.own,
            role: self.role,
            is_cut_off: self.is_cut_off(),
        }
    }

    /// Handles a hello of another bridge.
    pub fn on_hello(&mut self, now: Time, hello: Hello) {
        if hello.rank == self.own {
            // The hello is this bridge's own, which has come back.
            return;
        }
        let known = self.peers.iter().position(|p| p.hello.rank == hello.rank);
        match (known, hello.role) {
            (Some(at), Role::Leaving) => drop(self.peers.swap_remove(at)),
            (None, Role::Leaving) => {}
            (Some(at), _) => self.peers[at] = Peer { hello, heard: now },
            (None, _) if self.peers.len() < PEERS_MAX => {
                self.peers.push(Peer { hello, heard: now })
            }
            (None, _) => {}
        }
        self.decide(now);
    }

    /// Does the work that is due. Returns the hello to be sent, if one is due.
    pub fn on_timeout(&mut self, now: Time) -> Option<Hello> {
        self.decide(now);
        if now < self.next_hello {
            return None;
        }
        self.next_hello = now + INTERVAL;
        Some(self.own())
    }

    /// Returns the last hello, which announces the end of this bridge.
    #[must_use]
    pub fn leave(&mut self) -> Hello {
        self.role = Role::Leaving;
        self.own()
    }

    /// Returns when work is due next.
    #[must_use]
    pub fn next_timeout(&self) -> Time {
        let silent = self.peers.iter().map(|peer| peer.heard + HOLD).min();
        let listened = match self.role {
            Role::Listening => self.listened,
            _ => Time::FAR,
        };
        let silent = silent.unwrap_or(Time::FAR);
        self.next_hello.min(silent).min(listened)
    }

    fn decide(&mut self, now: Time) {
        self.peers.retain(|peer| peer.heard + HOLD > now);
        let own = self.own().place();
        let is_best = self.peers.iter().all(|peer| own < peer.hello.place());
        let role = match (self.role, self.forwarding()) {
            (Role::Leaving, _) => Role::Leaving,
            (Role::Forwarding, Some(other)) if other.place() < own => Role::Standby,
            (Role::Forwarding, _) => Role::Forwarding,
            (_, Some(other)) if !self.may_replace(now, &other) => Role::Standby,
            // The other bridge carries nothing, so this one does not spend time on listening.
            (Role::Listening, Some(other)) if other.is_cut_off && is_best => Role::Forwarding,
            (Role::Listening, _) if now < self.listened => Role::Listening,
            _ if is_best => Role::Forwarding,
            // The better bridge will announce itself, or is gone soon.
            _ => Role::Standby,
        };
        if role != self.role {
            self.role = role;
            // The other bridges learn of the change at once.
            self.next_hello = now;
        }
    }
}

impl Election {
    /// Returns whether this bridge may take over from `other`, which forwards. It may if `other` is cut off and this
    /// bridge is not. It may also, after its probation, if its priority is better.
    fn may_replace(&self, now: Time, other: &Hello) -> bool {
        match (self.is_cut_off(), other.is_cut_off) {
            (true, _) => false,
            (false, true) => true,
            (false, false) => {
                self.own.priority < other.rank.priority && now >= self.reach.probation_until
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(priority: u8, node: u32) -> Rank {
        Rank {
            priority,
            node: NodeAddr(node),
            nonce: u64::from(node) << 8,
        }
    }

    /// Bridges on one network: while its flag is set, a bridge hears all others at once.
    struct Network {
        now: Time,
        bridges: Vec<(Election, bool)>,
    }

    impl Network {
        fn run(&mut self, span: Duration) {
            let end = self.now + span;
            loop {
                let up = self.bridges.iter().filter(|(_, up)| *up);
                let next = up.map(|(bridge, _)| bridge.next_timeout()).min();
                let Some(next) = next.filter(|&next| next <= end) else {
                    break;
                };
                self.now = self.now.max(next);
                for n in 0..self.bridges.len() {
                    if self.bridges[n].1
                        && let Some(hello) = self.bridges[n].0.on_timeout(self.now)
                    {
                        self.say(n, hello);
                    }
                }
            }
            self.now = end;
        }

        fn say(&mut self, by: usize, hello: Hello) {
            let frame = hello.frame(mac(hello.rank.nonce));
            let read = Hello::parse(&frame[ETHERNET_BYTES..]).unwrap();
            for (n, (bridge, up)) in self.bridges.iter_mut().enumerate() {
                if *up && n != by {
                    bridge.on_hello(self.now, read);
                }
            }
        }

        fn roles(&self) -> Vec<Role> {
            self.bridges
                .iter()
                .map(|(bridge, _)| bridge.role())
                .collect()
        }

        fn add(&mut self, rank: Rank) {
            self.bridges.push((Election::new(rank, self.now), true));
        }
    }

    use Role::{Forwarding, Listening, Standby};

    fn network(ranks: &[Rank]) -> Network {
        let mut network = Network {
            now: Time::ZERO,
            bridges: Vec::new(),
        };
        for &rank in ranks {
            network.add(rank);
        }
        network
    }

    #[test]
    fn of_those_that_start_together_the_lowest_carries_after_it_has_listened() {
        let mut network = network(&[rank(100, 3), rank(100, 1), rank(100, 2)]);
        network.run(HOLD.saturating_sub(Duration::from_millis(1)));
        assert_eq!(network.roles(), [Listening; 3]);
        network.run(Duration::from_millis(2));
        assert_eq!(network.roles(), [Standby, Forwarding, Standby]);
    }

    #[test]
    fn who_carries_stays_unless_one_of_better_priority_comes() {
        let mut network = network(&[rank(100, 9)]);
        network.run(Duration::from_secs(1));
        assert_eq!(network.roles(), [Forwarding]);
        network.add(rank(100, 1));
        network.run(Duration::from_secs(2));
        assert_eq!(network.roles(), [Forwarding, Standby]);
        network.add(rank(50, 5));
        network.run(Duration::from_secs(2));
        assert_eq!(network.roles(), [Standby, Standby, Forwarding]);
    }

    #[test]
    fn one_that_falls_silent_is_followed_within_the_hold_and_one_that_leaves_at_once() {
        let mut network = network(&[rank(100, 1), rank(100, 2), rank(100, 3)]);
        network.run(Duration::from_secs(1));
        network.bridges[0].1 = false;
        network.run(HOLD);
        assert_eq!(network.roles()[1..], [Forwarding, Standby]);
        let last = network.bridges[1].0.leave();
        network.bridges[1].1 = false;
        network.say(1, last);
        assert_eq!(network.roles()[2], Forwarding);
        // Only the connection of the first bridge was interrupted: two bridges carry, until they hear each other.
        network.bridges[0].1 = true;
        network.run(Duration::from_millis(1));
        assert_eq!(
            (network.roles()[0], network.roles()[2]),
            (Forwarding, Standby)
        );
    }

    impl Network {
        /// Sets whether the bridge's node reaches other nodes; all bridges hear of it at once.
        fn reach(&mut self, n: usize, is_there: bool) {
            self.bridges[n].0.set_reach(self.now, is_there);
            self.run(Duration::ZERO);
        }
    }

    #[test]
    fn one_that_is_cut_off_is_followed_at_once_and_does_not_take_it_back() {
        let mut network = network(&[rank(100, 1), rank(100, 2), rank(100, 3)]);
        (0..3).for_each(|n| network.reach(n, true));
        network.run(Duration::from_secs(1));
        assert_eq!(network.roles(), [Forwarding, Standby, Standby]);
        network.reach(0, false);
        assert_eq!(network.roles(), [Standby, Forwarding, Standby]);
        network.reach(0, true);
        network.run(PROBATION * 4);
        assert_eq!(network.roles(), [Standby, Forwarding, Standby]);
        // If all are cut off, the forwarder stays, and the first one that is no longer cut off takes over at once.
        (0..3).for_each(|n| network.reach(n, false));
        let all_away = network.roles();
        assert_eq!(all_away.iter().filter(|r| **r == Forwarding).count(), 1);
        network.run(Duration::from_secs(3));
        assert_eq!(network.roles(), all_away);
        network.reach(1, true);
        assert_eq!(network.roles(), [Standby, Forwarding, Standby]);
    }

    #[test]
    fn one_that_starts_without_reach_waits_and_one_alone_carries_nevertheless() {
        let mut network = network(&[rank(50, 1)]);
        network.reach(0, false);
        network.run(Duration::from_secs(1));
        assert_eq!(network.roles(), [Forwarding]);
        network.add(rank(100, 2));
        network.reach(1, true);
        network.run(INTERVAL);
        assert_eq!(network.roles(), [Standby, Forwarding], "it need not listen");
        // The first links of its node are no recovery: its priority counts at once.
        network.reach(0, true);
        assert_eq!(network.roles(), [Forwarding, Standby]);
    }

    #[test]
    fn a_link_that_comes_and_goes_moves_the_traffic_ever_less() {
        let mut network = network(&[rank(50, 1), rank(100, 2)]);
        (0..2).for_each(|n| network.reach(n, true));
        network.run(Duration::from_secs(1));
        let (mut moves, mut last) = (0, network.roles());
        let mut note = |network: &Network| {
            let roles = network.roles();
            moves += usize::from(roles != last);
            last = roles;
        };
        // The node is connected for 8 s and cut off for 2 s, for ten minutes.
        for _ in 0..60 {
            network.reach(0, false);
            note(&network);
            network.run(Duration::from_secs(2));
            network.reach(0, true);
            note(&network);
            network.run(Duration::from_secs(8));
            note(&network);
        }
        // The roles move when it is cut off, when it is back after 5 s, and when it is cut off again. The probation is
        // 10 s then, which is longer than it stays connected.
        assert_eq!(moves, 3);
        network.run(PROBATION_MAX);
        assert_eq!(network.roles(), [Forwarding, Standby]);
    }

    #[test]
    fn at_most_one_carries_once_all_hear_each_other() {
        let mut rng = base::Rng::new(5);
        for _ in 0..50 {
            let ranks: Vec<_> = (0..4).map(|n| rank(rng.below(3) as u8, n)).collect();
            let mut network = network(&ranks);
            for _ in 0..10 {
                for (bridge, up) in &mut network.bridges {
                    *up = rng.chance(0.7);
                    bridge.set_reach(network.now, rng.chance(0.7));
                }
                network.run(Duration::from_millis(rng.below(1_500)));
            }
            network.bridges.iter_mut().for_each(|(_, up)| *up = true);
            network.run(HOLD * 3);
            let carry = network.roles().iter().filter(|&&r| r == Forwarding).count();
            assert_eq!(carry, 1, "{:?}", network.roles());
        }
    }

    #[test]
    fn what_is_no_hello_is_refused_and_forged_ones_are_bounded() {
        let good = Hello {
            rank: rank(7, 0x0a07_0001),
            role: Forwarding,
            is_cut_off: true,
        };
        let frame = good.frame([2, 0, 0, 0, 0, 1]);
        let body = &frame[ETHERNET_BYTES..];
        assert_eq!(Hello::parse(body), Ok(good));
        for len in 0..HELLO_BYTES {
            assert_eq!(Hello::parse(&body[..len]), Err(Drop::Hello));
        }
        for at in 0..6 {
            let mut changed = body.to_vec();
            changed[at] ^= 0x10;
            assert_eq!(Hello::parse(&changed), Err(Drop::Hello), "{at}");
        }
        let mut election = Election::new(rank(100, 1), Time::ZERO);
        for n in 0..1_000 {
            let role = Standby;
            let rank = rank(200, n + 2);
            let hello = Hello {
                rank,
                role,
                is_cut_off: false,
            };
            election.on_hello(Time::ZERO, hello);
        }
        assert_eq!(election.peers.len(), PEERS_MAX);
    }
}
