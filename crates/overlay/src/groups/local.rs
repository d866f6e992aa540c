//! The groups of this node's own clients, and what the node's records report about them.
//!
//! A node is in a group as long as any of its clients is: joins are counted. A group has a place in one part of the
//! node's record and keeps it, so that a join or a leave renews one part only.

use super::Permit;
use crate::request::RequestError;
use base::{ClientId, Map, NodeAddr, VirtualPort};
use std::collections::BTreeMap;
use wire::groups::{GROUPS_MAX, PARTS, Repr, Setting, TreeBuilder, is_group};

/// Maximum number of joins of all clients of a node: 100 000 groups by Scribe, and as many again. At about 100 bytes
/// each 26 MB.
pub const JOINS_MAX: usize = 262_144;
/// The part that holds settings; the others hold members.
const SETTINGS_PART: u8 = PARTS as u8 - 1;
/// Maximum number of groups that records can name: 7 · 279 = 1953.
const TOLD_MAX: usize = SETTINGS_PART as usize * GROUPS_MAX;
/// Number of these places that are reserved for clients with fewer groups than that: an eighth, 244. A client that
/// takes all that it can get leaves this number to the others.
const KEPT_PLACES: usize = TOLD_MAX / 8;

/// A client that gets what is sent to a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subscriber {
    /// The port that it has joined.
    pub port: VirtualPort,
    /// The client.
    pub client: ClientId,
}

#[derive(Clone, Debug, Default)]
struct Joined {
    /// The part that names the group; `None` for groups that records do not report.
    part: Option<u8>,
    /// The subscribers, in order.
    subscribers: Vec<Subscriber>,
}

#[derive(Clone, Debug, Default)]
struct Part {
    members: Vec<NodeAddr>,
    is_dirty: bool,
}

/// The change that a join or a leave has made for the node as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Other clients had joined the group before, or are still in it.
    Nothing,
    /// The node is in the group from now on.
    Entered,
    /// The node is no longer in the group.
    Left,
}

/// The groups of this node's clients.
#[derive(Clone, Debug, Default)]
pub struct Local {
    groups: BTreeMap<NodeAddr, Joined>,
    by_client: Map<ClientId, Vec<(NodeAddr, VirtualPort)>>,
    joins: usize,
    /// A join was refused for lack of a place, and no place has become free since then.
    lacks_places: bool,
    /// Places have become free after a refusal.
    has_places: bool,
    parts: [Part; PARTS],
    settings: Vec<Setting>,
    permits: Vec<Permit>,
    /// The permits in the format of the record.
    written_permits: Vec<u8>,
}

/// The content of one part.
#[derive(Clone, Copy, Debug)]
pub struct Told<'a> {
    /// The number of the part.
    pub part: u8,
    /// The groups that it names.
    pub members: &'a [NodeAddr],
    /// How groups are to be carried.
    pub settings: &'a [Setting],
    /// The permits to send and receive, in the format of records.
    pub permits: &'a [u8],
}

impl Local {
    /// A client asks for what is sent to a group and port. Joining twice is the same as joining once.
    pub fn join(
        &mut self,
        client: ClientId,
        group: NodeAddr,
        port: VirtualPort,
        builder: TreeBuilder,
    ) -> Result<Change, RequestError> {
        if !is_group(group) {
            return Err(RequestError::NotAGroup);
        }
        let subscriber = Subscriber { port, client };
        let known = self.groups.get(&group);
        let place = known.map_or(Err(0), |joined| {
            joined.subscribers.binary_search(&subscriber)
        });
        let Err(place) = place else {
            return Ok(Change::Nothing);
        };
        let is_new = known.is_none();
        if is_new && builder == TreeBuilder::LinkState && !self.has_place_for(client) {
            self.lacks_places = true;
            return Err(match self.free_places() {
                0 => RequestError::TooManyGroups { max: TOLD_MAX },
                kept => RequestError::TooManyOfOne { kept },
            });
        }
        if self.joins >= JOINS_MAX {
            return Err(RequestError::TooManyGroups { max: JOINS_MAX });
        }
        if is_new {
            let part = match builder {
                TreeBuilder::LinkState => Some(self.enter(group)?),
                TreeBuilder::Scribe => None,
            };
            let subscribers = Vec::new();
            self.groups.insert(group, Joined { part, subscribers });
        }
        if let Some(joined) = self.groups.get_mut(&group) {
            joined.subscribers.insert(place, subscriber);
        }
        self.by_client
            .entry(client)
            .or_default()
            .push((group, port));
        self.joins += 1;
        Ok(if is_new {
            Change::Entered
        } else {
            Change::Nothing
        })
    }

    /// Returns true if places for groups that records name have become free since a join was refused for lack of one.
    pub fn take_has_places(&mut self) -> bool {
        core::mem::take(&mut self.has_places)
    }

    /// Returns true if a client may take one more of the places in records.
    fn has_place_for(&self, client: ClientId) -> bool {
        let free = self.free_places();
        let own = self.by_client.get(&client).map_or(0, Vec::len);
        free > KEPT_PLACES || (free > 0 && own < KEPT_PLACES)
    }

    fn free_places(&self) -> usize {
        let parts = &self.parts[..usize::from(SETTINGS_PART)];
        let taken: usize = parts.iter().map(|part| part.members.len()).sum();
        TOLD_MAX - taken
    }

    /// A client no longer wants what is sent to a group and port.
    pub fn leave(&mut self, client: ClientId, group: NodeAddr, port: VirtualPort) -> Change {
        if let Some(joins) = self.by_client.get_mut(&client) {
            joins.retain(|join| *join != (group, port));
            if joins.is_empty() {
                self.by_client.remove(&client);
            }
        }
        self.remove(group, Subscriber { port, client })
    }

    /// A client has gone. Returns the groups that the node leaves with it.
    pub fn close(&mut self, client: ClientId) -> Vec<NodeAddr> {
        let joins = self.by_client.remove(&client).unwrap_or_default();
        // A client can join one group at all ports, so each group is searched once.
        let mut groups: Vec<NodeAddr> = joins.into_iter().map(|(group, _)| group).collect();
        groups.sort_unstable();
        groups.dedup();
        groups.retain(|group| {
            let Some(joined) = self.groups.get_mut(group) else {
                return false;
            };
            let before = joined.subscribers.len();
            joined.subscribers.retain(|one| one.client != client);
            self.joins -= before - joined.subscribers.len();
            self.leave_if_empty(*group) == Change::Left
        });
        groups
    }

    /// Returns true if the node has clients in the group.
    #[inline]
    pub fn is_member(&self, group: NodeAddr) -> bool {
        self.groups.contains_key(&group)
    }

    /// Returns the clients that get what is sent to a group and port, each once.
    pub fn subscribers(
        &self,
        group: NodeAddr,
        port: VirtualPort,
    ) -> impl Iterator<Item = ClientId> + '_ {
        let all = self.groups.get(&group).map(|joined| &*joined.subscribers);
        let all = all.unwrap_or_default();
        let first = all.partition_point(|one| one.port < port);
        let of_port = all[first..].iter().take_while(move |one| one.port == port);
        of_port.map(|one| one.client)
    }

    /// Returns the groups that the node is in, with the number of its clients in each, in order of address.
    pub fn groups(&self) -> impl Iterator<Item = (NodeAddr, usize)> + '_ {
        let groups = self.groups.iter();
        groups.map(|(group, joined)| (*group, joined.subscribers.len()))
    }

    /// Announces to the network how a group is to be carried.
    pub fn set(&mut self, setting: Setting) -> Result<(), RequestError> {
        let of = |s: &Setting| (s.group, s.prefix);
        let mut settings = self.settings.clone();
        match settings.iter_mut().find(|s| of(s) == of(&setting)) {
            Some(known) => *known = setting,
            None => settings.push(setting),
        }
        let (max, room) = Repr::room_beside(&settings);
        if room.is_none_or(|room| room < self.written_permits.len()) {
            return Err(RequestError::TooManySettings { max });
        }
        self.settings = settings;
        self.parts[usize::from(SETTINGS_PART)].is_dirty = true;
        Ok(())
    }

    /// Returns what this node has announced about a group or range of groups: how it is carried, and who may send and
    /// receive.
    pub fn rules(&self, group: NodeAddr, prefix: u8) -> (Option<Setting>, Option<Permit>) {
        let range = (group, prefix);
        let mut settings = self.settings.iter();
        let mut permits = self.permits.iter();
        (
            settings.find(|s| (s.group, s.prefix) == range).copied(),
            permits.find(|p| (p.group, p.prefix) == range).cloned(),
        )
    }

    /// Announces to the network who may send to a group and who may receive. An open permit withdraws a former one.
    pub fn permit(&mut self, permit: Permit) -> Result<(), RequestError> {
        let of = |one: &Permit| (one.group, one.prefix);
        let others = self.permits.iter().filter(|one| of(one) != of(&permit));
        let mut permits: Vec<Permit> = others.cloned().collect();
        if !permit.is_open() {
            permits.push(permit);
        }
        let (_, room) = Repr::room_beside(&self.settings);
        let written = super::written(&permits, room.unwrap_or_default());
        let written = written.ok_or(RequestError::TooManyPermits)?;
        if permits != self.permits {
            (self.permits, self.written_permits) = (permits, written);
            self.parts[usize::from(SETTINGS_PART)].is_dirty = true;
        }
        Ok(())
    }

    /// Settings have changed: assigns each group to the protocol that is to build its tree. Returns the groups for
    /// which the protocol has changed, and the new one.
    pub fn sort(
        &mut self,
        builder: impl Fn(NodeAddr) -> TreeBuilder,
    ) -> Vec<(NodeAddr, TreeBuilder)> {
        let of = |joined: &Joined| match joined.part {
            Some(_) => TreeBuilder::LinkState,
            None => TreeBuilder::Scribe,
        };
        let groups = self.groups.iter();
        let moved = groups.filter(|(group, joined)| of(joined) != builder(**group));
        let moved: Vec<NodeAddr> = moved.map(|(group, _)| *group).collect();
        let mut told = Vec::new();
        for group in moved {
            let to = builder(group);
            let part = match to {
                // Without room the group stays where it is.
                TreeBuilder::LinkState => match self.enter(group) {
                    Ok(part) => Some(part),
                    Err(_) => continue,
                },
                TreeBuilder::Scribe => None,
            };
            if let Some(joined) = self.groups.get_mut(&group) {
                let before = core::mem::replace(&mut joined.part, part);
                self.leave_part(group, before);
            }
            told.push((group, to));
        }
        told
    }

    /// Withdraws what this node has announced about a group. Returns true if it had announced anything.
    pub fn unset(&mut self, group: NodeAddr, prefix: u8) -> bool {
        let before = self.settings.len();
        self.settings
            .retain(|s| (s.group, s.prefix) != (group, prefix));
        let is_changed = self.settings.len() != before;
        self.parts[usize::from(SETTINGS_PART)].is_dirty |= is_changed;
        is_changed
    }

    /// Marks a part to be announced again.
    pub fn renew(&mut self, part: u8) {
        if let Some(part) = self.parts.get_mut(usize::from(part)) {
            part.is_dirty = true;
        }
    }

    /// Returns true if a part is to be announced.
    pub fn is_dirty(&self) -> bool {
        self.parts.iter().any(|part| part.is_dirty)
    }

    /// Returns the next part to be announced.
    pub fn take_dirty(&mut self) -> Option<Told<'_>> {
        let place = self.parts.iter().position(|part| part.is_dirty)?;
        let part = &mut self.parts[place];
        part.is_dirty = false;
        let (settings, permits) = match place == usize::from(SETTINGS_PART) {
            true => (&*self.settings, &*self.written_permits),
            false => (&[][..], &[][..]),
        };
        Some(Told {
            part: place as u8,
            members: &part.members,
            settings,
            permits,
        })
    }

    /// Puts the group into the first part with room, and returns that part.
    fn enter(&mut self, group: NodeAddr) -> Result<u8, RequestError> {
        let parts = &mut self.parts[..usize::from(SETTINGS_PART)];
        let place = parts
            .iter()
            .position(|part| part.members.len() < GROUPS_MAX);
        let place = place.ok_or(RequestError::TooManyGroups { max: TOLD_MAX })?;
        parts[place].members.push(group);
        parts[place].is_dirty = true;
        Ok(place as u8)
    }

    fn remove(&mut self, group: NodeAddr, subscriber: Subscriber) -> Change {
        let Some(joined) = self.groups.get_mut(&group) else {
            return Change::Nothing;
        };
        let Ok(place) = joined.subscribers.binary_search(&subscriber) else {
            return Change::Nothing;
        };
        joined.subscribers.remove(place);
        self.joins -= 1;
        self.leave_if_empty(group)
    }

    fn leave_if_empty(&mut self, group: NodeAddr) -> Change {
        match self.groups.get(&group) {
            Some(joined) if joined.subscribers.is_empty() => {
                let part = joined.part;
                self.leave_part(group, part);
                self.groups.remove(&group);
                Change::Left
            }
            _ => Change::Nothing,
        }
    }

    fn leave_part(&mut self, group: NodeAddr, part: Option<u8>) {
        if let Some(part) = part {
            let part = &mut self.parts[usize::from(part)];
            part.members.retain(|member| *member != group);
            part.is_dirty = true;
            self.has_places |= core::mem::take(&mut self.lacks_places);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Aim;
    use wire::groups::{SETTINGS_MAX, SETTINGS_WITH_AIMS_MAX, Ways};
    use wire::ipc::Delivery;

    /// The longest possible setting.
    fn setting(n: usize, aim: Aim) -> Setting {
        Setting {
            ways: Ways::Targeted,
            delivery: Some(Delivery::InOrder),
            aim,
            ..Setting::of(NodeAddr(0xef01_0000 + n as u32))
        }
    }

    /// A permit that says who may send to the last group, in words of this many bytes.
    fn permit(bytes: usize) -> Permit {
        Permit {
            group: NodeAddr(0xef02_0000),
            prefix: 32,
            send: Some(vec!["a".repeat(bytes)]),
            receive: None,
        }
    }

    fn fits(local: &mut Local) -> bool {
        let told = local.take_dirty().unwrap();
        let repr = Repr {
            origin: NodeAddr(1),
            seq: wire::record::RecordSeq(1),
            lifetime_s: 1,
            certificate_serial: 1,
            part: told.part,
            members: told.members,
            settings: told.settings,
            permits: told.permits,
        };
        repr.emit(&mut [0; 2_000], |_| [0; 64]).is_ok()
    }

    #[test]
    fn a_client_that_goes_leaves_its_groups_at_all_ports_and_others_stay() {
        let mut local = Local::default();
        let groups = [1, 2, 3].map(|n| NodeAddr(0xef01_0000 + n));
        let [goes, stays] = [ClientId(1), ClientId(2)];
        for group in groups {
            for port in (100..2_000).rev() {
                local
                    .join(goes, group, VirtualPort(port), TreeBuilder::LinkState)
                    .unwrap();
            }
        }
        local
            .join(stays, groups[1], VirtualPort(500), TreeBuilder::LinkState)
            .unwrap();
        assert_eq!(local.close(goes), [groups[0], groups[2]]);
        assert_eq!(
            groups.map(|group| local.is_member(group)),
            [false, true, false]
        );
        assert_eq!(local.joins, 1);
        assert_eq!(
            local.leave(stays, groups[1], VirtualPort(500)),
            Change::Left
        );
        assert_eq!(local.joins, 0);
    }

    /// A node without aims can keep as many settings as a node of a version that did not know aims.
    #[test]
    fn aims_make_room_for_fewer_settings_and_only_where_there_are_some() {
        let aim = Aim::new(Some(0.001), Some(0.5)).unwrap();
        for (aim, most, word) in [
            (Aim::NONE, SETTINGS_MAX, 8),
            (aim, SETTINGS_WITH_AIMS_MAX - 1, 17),
        ] {
            let mut local = Local::default();
            (0..most).for_each(|n| local.set(setting(n, aim)).unwrap());
            // The head of a permit is 7 bytes, and that of a word one.
            assert!(local.permit(permit(word + 1)).is_err());
            local.permit(permit(word)).unwrap();
            assert!(local.set(setting(most, aim)).is_err());
            assert!(fits(&mut local));
        }
        let mut local = Local::default();
        (0..SETTINGS_MAX).for_each(|n| local.set(setting(n, Aim::NONE)).unwrap());
        let refused = RequestError::TooManySettings {
            max: SETTINGS_WITH_AIMS_MAX,
        };
        assert_eq!(local.set(setting(0, aim)), Err(refused));
        assert_eq!(local.settings[0].aim, Aim::NONE, "it is as it was");
        assert!(fits(&mut local));
    }
}
