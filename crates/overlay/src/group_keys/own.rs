//! The keys of this node's own sources, and who has been told them.

use crate::ends::each_sealed;
use crate::event::Drop;
use base::token_bucket::TokenBucket;
use base::{Burst, Duration, Map, NodeAddr, Time};
use secure::{GroupKeys, Network, OpeningKey, SealingKey};
use std::collections::BTreeMap;
use wire::link::SessionIndex;
use wire::transport::{GROUP_KEY_BYTES_MAX, GroupKey, KEY_BYTES, KeyName};

/// Groups that clients of a node send to. Choice: one takes 1 KiB, and 30 bytes per member.
const GROUPS_MAX: usize = 4_096;
/// A group to which nothing was sent for so long has its next packet under another key.
const IDLE: Duration = Duration::from_secs(120);
/// A group that is not in use any more makes room for another.
const AT_REST: Duration = Duration::from_secs(5);
/// A new key is told so long before it is used: time for a message to the farthest member, and for a question and its
/// answer if that is lost.
const TOLD_BEFORE: Duration = Duration::from_secs(1);
/// After a member has left, the key changes; but not sooner after the last time. Choice: a group whose members
/// come and go costs each member a message of 150 bytes in this time.
const CHANGES_AFTER: Duration = Duration::from_secs(10);
/// A node that asks again so soon has asked before the answer came.
const ANSWERED_LATELY: Duration = Duration::from_millis(50);
/// Keys told at once, and when the rest are: 3200 members per second.
const TOLD_AT_ONCE: usize = 32;
const TELL_AGAIN: Duration = Duration::from_millis(10);
/// Members that have come are told so much later. Choice: not with the packets that came with their records, so
/// that it does not matter whether those came together or one by one.
const TELL_AFTER: Duration = Duration::from_millis(1);
/// Nodes that are remembered to have a group's key: as many as a network has.
const TOLD_MAX: usize = crate::link_state::MAX_ORIGINS;
/// Answers to nodes that get no key, per second.
const REFUSALS_PER_S: f64 = 100.0;

/// The keys of the groups that this node sends to.
#[derive(Debug)]
pub(crate) struct OwnKeys {
    keys: GroupKeys,
    groups: Map<NodeAddr, Own>,
    /// When somebody may have to be told a key.
    tell_at: Option<Time>,
    refusals: TokenBucket,
}

#[derive(Debug)]
struct Own {
    current: SealingKey,
    /// The one after it, and from when on it is used.
    next: Option<(SealingKey, Time)>,
    told: BTreeMap<NodeAddr, Told>,
    /// A node knows the newest key that may not know it any more.
    is_leaked: bool,
    /// Members may have come or gone.
    is_due: bool,
    used: Time,
}

/// A node that was told a key.
#[derive(Clone, Copy, Debug)]
struct Told {
    at: Time,
    /// It was the newest one.
    is_newest: bool,
    /// It was the one in use, or that was told with it.
    is_current: bool,
    /// It has asked since it was told a key unasked.
    has_asked: bool,
}

/// A message that tells a node a key.
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
    /// The next key is in use from its time on.
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
                // Nobody would know when it may have the key no more.
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

    /// A packet to a group is about to be sealed. True if there was no key for that yet: members are to be told
    /// the new one first.
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

    /// Seals packets to a group that were laid out with room for it. Gives the key, and the first counter.
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

    /// The certificate of a node counts no longer: what it may have been told changes.
    pub(crate) fn on_revoked(&mut self, node: NodeAddr) {
        for own in self.groups.values_mut() {
            own.is_leaked |= own.told.remove(&node).is_some();
        }
    }

    /// So may those of all groups.
    pub(crate) fn on_all_changed(&mut self, now: Time) {
        self.groups.values_mut().for_each(|own| own.is_due = true);
        if !self.groups.is_empty() {
            advance(&mut self.tell_at, now + TELL_AFTER);
        }
    }

    /// The groups whose members are to be looked at now.
    pub(crate) fn due(&mut self, now: Time) -> Vec<NodeAddr> {
        if self.tell_at.take_if(|at| *at <= now).is_none() {
            return Vec::new();
        }
        let due = self.groups.iter().filter(|(_, own)| own.is_due);
        let mut due: Vec<NodeAddr> = due.map(|(group, _)| *group).collect();
        due.sort_unstable();
        due
    }

    /// Who of those that `may` have a group's key is to be told it now. `members` are those that records name. Where they
    /// name none (`None`), nodes are told the next key that have asked since they were told the last one unasked: so those
    /// that are gone are told once more and no more.
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

    /// The newest key of a group, for a node that gets it now. A node that has none gets the one in use before it: all
    /// that comes within the next second is sealed with that.
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

    /// The key of another source, as it was told.
    pub(crate) fn opening(
        &self,
        number: SessionIndex,
        key: &[u8; KEY_BYTES],
        first: u32,
    ) -> OpeningKey {
        self.keys.opening(number, key, first)
    }

    /// There are packets under a key of this group.
    pub(crate) fn has(&self, group: NodeAddr) -> bool {
        self.groups.contains_key(&group)
    }

    /// The key that a node has asked for, or what is used instead. `None` if it was told that just before, or only
    /// confirms what it was told.
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
            // No packet is under the next key yet: who names it has been told it.
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

    /// A node that gets no key may be told so.
    pub(crate) fn take_refusal(&mut self, now: Time) -> bool {
        self.refusals.try_take(now, 1.0)
    }

    /// Slow housekeeping: makes new keys where they are due, and forgets groups that are not used.
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

    /// How many nodes have a group's key.
    pub(crate) fn told(&self, group: NodeAddr) -> usize {
        self.groups.get(&group).map_or(0, |own| own.told.len())
    }
}

/// Makes a moment sooner.
fn advance(moment: &mut Option<Time>, at: Time) {
    *moment = Some(moment.map_or(at, |before| before.min(at)));
}
