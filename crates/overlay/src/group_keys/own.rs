//! The keys of this node's own sources, and the nodes that have received them.

use crate::ends::each_sealed;
use crate::event::Drop;
use base::token_bucket::TokenBucket;
use base::{Burst, Duration, Map, NodeAddr, Time};
use secure::{GroupKeys, Network, OpeningKey, SealingKey};
use std::collections::BTreeMap;
use wire::link::SessionIndex;
use wire::transport::{GROUP_KEY_BYTES_MAX, GroupKey, KEY_BYTES, KeyName};

/// Maximum number of groups to which clients of a node send. Choice: one takes 1 KiB, and 30 bytes per member.
const GROUPS_MAX: usize = 4_096;
/// Time without a packet after which the next packet to a group is sealed with another key.
const IDLE: Duration = Duration::from_secs(120);
/// Time without a packet after which a group makes room for another.
const AT_REST: Duration = Duration::from_secs(5);
/// How long before its first use a new key is sent to members: time for a message to the farthest member, and for a
/// request and its answer if the message is lost.
const TOLD_BEFORE: Duration = Duration::from_secs(1);
/// After a member has left, the key changes, but not sooner than this after the last change. Choice: in a group whose
/// members come and go, each member gets at most one message of 150 bytes in this time.
const CHANGES_AFTER: Duration = Duration::from_secs(10);
/// A node that asks again this soon has asked before the answer arrived.
pub(super) const ANSWERED_LATELY: Duration = Duration::from_millis(50);
/// Number of keys that are sent at once, and the time until the next are: 3200 members per second.
const TOLD_AT_ONCE: usize = 32;
const TELL_AGAIN: Duration = Duration::from_millis(10);
/// The delay before new members get the key. Choice: not together with the packets that arrived with the members'
/// records, so that it does not matter whether those arrived together or one by one.
const TELL_AFTER: Duration = Duration::from_millis(1);
/// Maximum number of nodes that are remembered to have a group's key: as many as a network has.
const TOLD_MAX: usize = crate::link_state::MAX_ORIGINS;
/// Answers per second to nodes that get no key.
const REFUSALS_PER_S: f64 = 100.0;

/// The keys of the groups to which this node sends.
#[derive(Debug)]
pub(crate) struct OwnKeys {
    keys: GroupKeys,
    groups: Map<NodeAddr, Own>,
    /// When a node may have to get a key.
    tell_at: Option<Time>,
    refusals: TokenBucket,
}

#[derive(Debug)]
struct Own {
    current: SealingKey,
    /// The next key, and the time from which it is used.
    next: Option<(SealingKey, Time)>,
    told: BTreeMap<NodeAddr, Told>,
    /// A node that may no longer have the newest key knows it.
    is_leaked: bool,
    /// Members may have come or gone.
    is_due: bool,
    used: Time,
}

/// A node that has received a key.
#[derive(Clone, Copy, Debug)]
struct Told {
    at: Time,
    /// It was the newest key.
    is_newest: bool,
    /// It was the key in use, or was sent together with that one.
    is_current: bool,
    /// The node has asked since it received a key without asking.
    has_asked: bool,
}

/// A message that carries a key to a node.
#[derive(Debug)]
pub(crate) struct Telling {
    bytes: [u8; GROUP_KEY_BYTES_MAX],
    len: usize,
}

impl Telling {
    fn new(group: NodeAddr, key: &SealingKey) -> Telling {
        let number = key.number();
        let message = GroupKey::Told {
            name: KeyName { group, number },
            first: key.first(),
            key: key.secret(),
        };
        let mut bytes = [0; GROUP_KEY_BYTES_MAX];
        let len = message.emit(&mut bytes);
        let len = len.expect("it is as long as the longest message");
        Telling { bytes, len }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Own {
    /// Puts the next key into use if its time has come.
    fn turn(&mut self, now: Time) {
        if let Some((next, _)) = self.next.take_if(|(_, from)| now >= *from) {
            self.current = next;
        }
    }

    /// Notes that a node has a key from now on.
    fn note_told(&mut self, to: NodeAddr, told: Told) {
        if self.told.len() >= TOLD_MAX && !self.told.contains_key(&to) {
            let oldest = self
                .told
                .iter()
                .min_by_key(|(node, told)| (told.at, **node));
            if let Some((&oldest, _)) = oldest {
                // Otherwise nobody would know when this node may no longer have the key.
                self.told.remove(&oldest);
                self.is_leaked = true;
            }
        }
        self.told.insert(to, told);
    }
}

impl OwnKeys {
    pub(crate) fn new(network: &Network, seed: &[u8; 32]) -> OwnKeys {
        OwnKeys {
            keys: GroupKeys::new(network, seed),
            groups: Map::default(),
            tell_at: None,
            refusals: TokenBucket::new(REFUSALS_PER_S, REFUSALS_PER_S, Time::ZERO),
        }
    }

    /// Prepares for sealing a packet to a group. Returns true if there was no key yet: members are to get the new one
    /// first.
    pub(crate) fn prepare(&mut self, now: Time, group: NodeAddr) -> Result<bool, Drop> {
        if let Some(own) = self.groups.get_mut(&group) {
            own.used = now;
            own.turn(now);
            return Ok(false);
        }
        self.make_room(now)?;
        let own = Own {
            current: self.keys.make(now),
            next: None,
            told: BTreeMap::new(),
            is_leaked: false,
            is_due: false,
            used: now,
        };
        self.groups.insert(group, own);
        Ok(true)
    }

    /// Seals packets to a group that were laid out with room for it. Returns the key and the first counter.
    pub(crate) fn seal(
        &mut self,
        group: NodeAddr,
        burst: &mut Burst,
    ) -> Result<(SessionIndex, u64), Drop> {
        let own = self.groups.get_mut(&group).ok_or(Drop::EndNoSession)?;
        let counters = (own.current.number(), own.current.next_counter());
        each_sealed(burst, |kind, datagram, bound| {
            own.current.seal(kind, datagram, bound).is_ok()
        })?;
        Ok(counters)
    }

    #[cold]
    fn make_room(&mut self, now: Time) -> Result<(), Drop> {
        if self.groups.len() < GROUPS_MAX {
            return Ok(());
        }
        let oldest = self
            .groups
            .iter()
            .min_by_key(|(group, own)| (own.used, **group));
        match oldest.map(|(group, own)| (*group, now.since(own.used))) {
            Some((group, idle)) if idle >= AT_REST => {
                self.groups.remove(&group);
                Ok(())
            }
            _ => Err(Drop::EndNoSession),
        }
    }

    /// Members of a group have come or gone.
    pub(crate) fn on_changed(&mut self, now: Time, group: NodeAddr) {
        if let Some(own) = self.groups.get_mut(&group) {
            own.is_due = true;
            advance(&mut self.tell_at, now + TELL_AFTER);
        }
    }

    /// The certificate of a node is no longer valid: the keys that it may have received are to change.
    pub(crate) fn on_revoked(&mut self, node: NodeAddr) {
        for own in self.groups.values_mut() {
            own.is_leaked |= own.told.remove(&node).is_some();
        }
    }

    /// Members of any group may have come or gone.
    pub(crate) fn on_all_changed(&mut self, now: Time) {
        self.groups.values_mut().for_each(|own| own.is_due = true);
        if !self.groups.is_empty() {
            advance(&mut self.tell_at, now + TELL_AFTER);
        }
    }

    /// Returns the groups whose members are to be checked now.
    pub(crate) fn due(&mut self, now: Time) -> Vec<NodeAddr> {
        if self.tell_at.take_if(|at| *at <= now).is_none() {
            return Vec::new();
        }
        let due = self.groups.iter().filter(|(_, own)| own.is_due);
        let mut due: Vec<NodeAddr> = due.map(|(group, _)| *group).collect();
        due.sort_unstable();
        due
    }

    /// Returns the nodes that `may` have a group's key and are to get it now. `members` are those that records name. If
    /// records name none (`None`), the next key goes to the nodes that have asked since they last received a key
    /// without asking. So a node that has gone gets one more key, and no further one.
    pub(crate) fn lacking(
        &mut self,
        now: Time,
        group: NodeAddr,
        members: Option<impl Iterator<Item = NodeAddr>>,
        may: impl Fn(NodeAddr) -> bool,
    ) -> Vec<NodeAddr> {
        let Some(own) = self.groups.get_mut(&group) else {
            return Vec::new();
        };
        if members.is_none() {
            own.told.retain(|_, told| told.is_newest || told.has_asked);
        }
        let before = own.told.len();
        own.told.retain(|node, _| may(*node));
        own.is_leaked |= own.told.len() < before;
        own.is_due = false;
        let again = own.told.iter().filter(|(_, told)| !told.is_newest);
        let again = again.map(|(node, _)| *node);
        let mut to: Vec<NodeAddr> = again.collect();
        let members = members.into_iter().flatten();
        to.extend(members.filter(|node| !own.told.contains_key(node)));
        if to.len() > TOLD_AT_ONCE {
            to.truncate(TOLD_AT_ONCE);
            own.is_due = true;
            advance(&mut self.tell_at, now + TELL_AGAIN);
        }
        to
    }

    /// Returns the newest key of a group, for a node that gets it now. A node without any key also gets the key in use:
    /// all packets of the next second are sealed with that one.
    pub(crate) fn tell(&mut self, now: Time, group: NodeAddr, to: NodeAddr) -> Vec<Telling> {
        let Some(own) = self.groups.get_mut(&group) else {
            return Vec::new();
        };
        own.turn(now);
        let is_current = own.next.is_none() || !own.told.contains_key(&to);
        let told = Told {
            at: now,
            is_newest: true,
            is_current,
            has_asked: false,
        };
        own.note_told(to, told);
        let current = is_current.then_some(&own.current);
        let next = own.next.as_ref().map(|(next, _)| next);
        let keys = current.into_iter().chain(next);
        keys.map(|key| Telling::new(group, key)).collect()
    }

    /// Returns the opening key of another source, from a key that it has sent.
    pub(crate) fn opening(
        &self,
        number: SessionIndex,
        key: &[u8; KEY_BYTES],
        first: u32,
    ) -> OpeningKey {
        self.keys.opening(number, key, first)
    }

    /// Returns true if there is a key for packets to this group.
    pub(crate) fn has(&self, group: NodeAddr) -> bool {
        self.groups.contains_key(&group)
    }

    /// Returns the key that a node has asked for, or the one that is used instead. `None` if the node received it just
    /// before, or only confirms that it has received a key.
    pub(crate) fn answer(
        &mut self,
        now: Time,
        (group, number): (NodeAddr, SessionIndex),
        to: NodeAddr,
    ) -> Option<Telling> {
        let own = self.groups.get_mut(&group)?;
        own.turn(now);
        let next = own.next.as_ref().map(|(next, _)| next.number());
        let is_next = next == Some(number);
        if let Some(told) = own.told.get_mut(&to) {
            told.has_asked = true;
            // No packet is sealed with the next key yet: a node that names it has received it.
            let has_it = is_next && told.is_newest;
            let was_told = is_next || told.is_current;
            if has_it || was_told && now.since(told.at) < ANSWERED_LATELY {
                return None;
            }
        }
        let is_newest = next.is_none() || is_next;
        let told = Told {
            at: now,
            is_newest,
            is_current: !is_next,
            has_asked: true,
        };
        own.note_told(to, told);
        if !is_newest {
            own.is_due = true;
            advance(&mut self.tell_at, now + TELL_AFTER);
        }
        let next = own.next.as_ref().filter(|_| is_next);
        Some(Telling::new(
            group,
            next.map_or(&own.current, |(next, _)| next),
        ))
    }

    /// Returns true if a node that gets no key may be answered.
    pub(crate) fn take_refusal(&mut self, now: Time) -> bool {
        self.refusals.try_take(now, 1.0)
    }

    /// Slow housekeeping: makes new keys if they are due, and forgets unused groups.
    pub(crate) fn tend(&mut self, now: Time) {
        self.groups.retain(|_, own| now.since(own.used) < IDLE);
        let mut is_due = false;
        for own in self.groups.values_mut() {
            own.turn(now);
            let is_leaked = own.is_leaked && own.current.age(now) >= CHANGES_AFTER;
            if own.next.is_some() || !(is_leaked || own.current.wants_rekey(now)) {
                continue;
            }
            own.next = Some((self.keys.make(now), now + TOLD_BEFORE));
            own.told
                .values_mut()
                .for_each(|told| told.is_newest = false);
            own.is_leaked = false;
            own.is_due = true;
            is_due = true;
        }
        if is_due {
            advance(&mut self.tell_at, now + TELL_AFTER);
        }
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.tell_at
    }

    /// Returns how many nodes have a group's key.
    pub(crate) fn told(&self, group: NodeAddr) -> usize {
        self.groups.get(&group).map_or(0, |own| own.told.len())
    }
}

/// Moves a time forward to an earlier one.
fn advance(moment: &mut Option<Time>, at: Time) {
    *moment = Some(moment.map_or(at, |before| before.min(at)));
}
