//! Audits of groups at the node: notes about packets, questions and answers, and packets for members that the tree
//! starves. [`crate::audit`] draws the conclusions.
//!
//! ```text
//!   seal_to_group ─▶ noted ─▶ tree                                    ─▶ members
//!        '─▶ starved members: the packet as it is, in a packet of their own ══▶ on_group_copy: opened, for its own
//!   drive_group_audits ══ how many by the tree? ══▶ answer_of_key                 programs alone
//!   on_told_of_key ◀══════════════════════════════════'
//! ```

use super::{Groups, is_urgent};
use crate::aims::asks_less;
use crate::audit::{
    By, Carried, CopiedMember, GroupFinding, GroupQuestion, Known, Stretch, Turn, Way,
};
use crate::ends::PORT;
use crate::event::{Drop, Event};
use crate::fragment::Key;
use crate::node::Node;
use crate::node::audit::{has_relays, has_room, in_time, may_be_given_up, promise};
use crate::node::metric;
use crate::node::receive::drop_one;
use crate::node::send::{around_bytes, assemble, own_header};
use crate::snapshot::StarvedStatus;
use base::{Burst, Duration, NodeAddr, Outbox, Time};
use graph::Metric;
use secure::Route;
use std::collections::BTreeSet;
use wire::data::{Class, Header, LinkProtocol, Remaining, Repr, Routing};
use wire::groups::TreeBuilder;
use wire::link::SessionIndex;
use wire::transport::{
    COUNTS_MAX, GROUP_COPY_BYTES, KeyName, TALLY_BYTES_MAX, Tally, begin_group_copy, group_copy,
};
use wire::{CLEAR_BYTES, SEALED_HEADROOM, TAG_BYTES};

/// The room that the path to a member must have at least for copies to be sent: more than three fragments per packet
/// are too many.
const COPY_ROOM_MIN: usize = 512;

impl Node {
    /// Notes packets to a group that have just been sealed under a key, from this counter on.
    pub(super) fn note_to_group(
        &mut self,
        now: Time,
        (key, first): (SessionIndex, u64),
        packets: &Burst,
    ) {
        if !self.settings.audit {
            return;
        }
        let header = Header::trusted(&packets.segment(0)[CLEAR_BYTES..]);
        let aim = self.aims.of_packet(&header);
        if aim.is_some_and(|(_, aim)| asks_less(aim)) || may_be_given_up(&header) {
            return;
        }
        let (group, class) = (header.destination(), header.class());
        let carried = Carried {
            link: class.link,
            routing: class.routing,
        };
        let sent = Stretch {
            key,
            first,
            count: packets.segments() as u16,
            carried,
            at: now,
            left: header.remaining().duration(),
            excused: Vec::new(),
        };
        self.groups.audits.note(now, group, sent);
        let slot = self.slot_of_own(now, &header);
        let known = Known {
            tables: self.router.tables().followed(),
            looks: slot.map_or(0, |slot| self.groups.trees.at(slot).looks()),
        };
        if self.groups.audits.have_turned(now, group, known) {
            let carries_second = |slot: &u32| {
                let slot = self.groups.trees.at(*slot);
                slot.takes_second(class.link, is_urgent(&header))
            };
            let second = slot.filter(carries_second);
            self.turn_members(now, group, second, (carried, header.remaining().duration()));
        }
    }

    /// Returns the slot that a packet of this node to a group will use, unless it takes the tree of a root.
    fn slot_of_own(&mut self, now: Time, header: &Header<&[u8]>) -> Option<u32> {
        let (group, routing) = (header.destination(), header.class().routing);
        if header.has_extension() && routing != Routing::Stamped {
            return None;
        }
        let view = (&self.router, &self.links);
        let slot = self
            .groups
            .slot(now, (self.addr, group), routing, is_urgent(header), view);
        slot.ok()
    }

    /// The tables or the second ways of a group have changed: packets may take other ways to its members. `second` is
    /// the slot whose second ways the packets take.
    #[cold]
    fn turn_members(
        &mut self,
        now: Time,
        group: NodeAddr,
        second: Option<u32>,
        (carried, left): (Carried, Option<Duration>),
    ) {
        let second = second.and_then(|slot| self.groups.trees.at(slot).second());
        let second = second.map_or(&[][..], |second| &second.trouble);
        let with_second: BTreeSet<NodeAddr> = second.iter().map(|(member, _)| *member).collect();
        for (to, before) in self.groups.audits.paths(group) {
            let Some(path) = self.path_of_tree(to, carried) else {
                continue;
            };
            let turn = Turn {
                path,
                has_second: with_second.contains(&to),
            };
            if turn == before {
                continue;
            }
            let latency = self.router.tables().latency(to).unwrap_or_default();
            let is_judged = left.is_none_or(|left| left >= in_time(latency));
            let here = (self.router.database().topology(), self.addr);
            let is_elsewhere = turn.path != before.path;
            let is_alone = before.has_second && !turn.has_second;
            let paths = (turn.path.clone(), is_elsewhere.then_some(before.path));
            let is_doubtful = is_judged
                && (is_elsewhere || is_alone)
                && self.ends.has_session(to)
                && self.audits.turn_group(now, to, paths, here);
            self.groups.audits.turn(now, (group, to), turn, is_doubtful);
        }
    }

    /// Asks members the questions that are due.
    pub(in crate::node) fn drive_group_audits(&mut self, now: Time, out: &mut impl Outbox<Node>) {
        for group in self.groups.audits.due_members(now) {
            let is_named = self.router.builder(group) == TreeBuilder::LinkState;
            let (own, database) = (self.addr, self.router.database());
            let members = database.membership().receivers(group);
            let members =
                members.filter(|node| is_named && *node != own && database.tallies_groups(*node));
            self.groups.audits.set_members(now, group, members);
        }
        let mut audits = core::mem::take(&mut self.groups.audits);
        let due = audits.due(now, |to, carried| self.way_of_tree(to, carried));
        self.groups.audits = audits;
        for question in due {
            self.ask_of_key(now, &question, out);
        }
    }

    fn ask_of_key(&mut self, now: Time, question: &GroupQuestion, out: &mut impl Outbox<Node>) {
        let GroupQuestion {
            to,
            group,
            key,
            number,
            first,
            ref lengths,
            is_doubled,
        } = *question;
        let name = KeyName { group, number: key };
        let mut bytes = [0; TALLY_BYTES_MAX];
        let len = Tally::ask_of_key((number, name, first), lengths, &mut bytes);
        let len = len.expect("a question fits the longest message");
        let by = match is_doubled {
            true => By::Two,
            false => By::Table,
        };
        self.send_tally(now, (to, by), &bytes[..len], out);
    }

    /// Returns the tree's path to a member. `None` if no relay is on it, or if there is no session.
    fn way_of_tree(&self, to: NodeAddr, carried: Carried) -> Option<Way> {
        if !self.ends.has_session(to) {
            return None;
        }
        let path = self.path_of_tree(to, carried)?;
        let link = self.links.by_peer(*path.get(1)?);
        let latency = self.router.tables().latency(to)?;
        Some(Way {
            latency,
            has_room: has_room(&self.links, link),
            path,
        })
    }

    /// Returns the nodes of the tree's path to a member. Choice: with two trees the cheaper path, which promises no
    /// more than both together.
    fn path_of_tree(&self, to: NodeAddr, carried: Carried) -> Option<Vec<NodeAddr>> {
        let metric = metric(carried.routing).unwrap_or(Metric::ExpectedLatency);
        self.router.tables().followed()?;
        self.router.path(metric, to).filter(|path| has_relays(path))
    }

    /// Answers a question about a key of `source`. Under an unknown key, no packet has been opened.
    pub(in crate::node) fn answer_of_key(
        &mut self,
        now: Time,
        (source, is_stamped): (NodeAddr, bool),
        (number, name, first): (u16, KeyName, u32),
        lengths: impl Iterator<Item = u16>,
        out: &mut impl Outbox<Node>,
    ) {
        let (of, mut at) = ((source, name.group), first);
        let mut came = [0; COUNTS_MAX];
        let mut told = 0;
        if self.groups.receives(name.group, &self.router) {
            for (length, place) in lengths.zip(&mut came) {
                let count = self
                    .groups
                    .keys
                    .received
                    .came_by_tree(of, name.number, (at, length));
                let Some(count) = count else {
                    told = 0;
                    break;
                };
                *place = count;
                at = at.wrapping_add(length.into());
                told += 1;
            }
        }
        let mut bytes = [0; TALLY_BYTES_MAX];
        let len = Tally::tell_of_key(number, &came[..told], &mut bytes);
        let len = len.expect("an answer fits the longest message");
        let by = match is_stamped {
            true => By::Two,
            false => By::Table,
        };
        self.send_tally(now, (source, by), &bytes[..len], out);
    }

    /// Handles a member's answer.
    pub(in crate::node) fn on_told_of_key(
        &mut self,
        now: Time,
        from: NodeAddr,
        number: u16,
        came: impl ExactSizeIterator<Item = u16>,
        out: &mut impl Outbox<Node>,
    ) {
        let mut audits = core::mem::take(&mut self.groups.audits);
        let path = |carried| self.path_of_tree(from, carried);
        let found = audits.on_told(now, (from, number), came, path, |path, stretch| {
            let latency = self.router.tables().latency(from)?;
            let slack = match stretch.left {
                None => None,
                Some(left) if left < in_time(latency) => return None,
                Some(left) => Some(left - latency),
            };
            let topology = self.router.database().topology();
            promise(topology, path, (stretch.carried.link, slack))
        });
        self.groups.audits = audits;
        let Some((group, finding)) = found else {
            return;
        };
        let evidence = match finding {
            GroupFinding::Starved { evidence } => evidence,
            GroupFinding::Whole => return out.report(Event::GroupWhole { group, to: from }),
        };
        let (to, lost) = (from, (evidence.loss() * 1000.0).round() as u16);
        out.report(Event::GroupStarved { group, to, lost });
        let carried = self.groups.audits.carried(group);
        let path = carried.and_then(|carried| {
            let path = self.path_of_tree(to, carried)?;
            Some((path, carried.link))
        });
        if let Some((path, link)) = path {
            self.audits.accuse(now, to, path, (link, evidence));
            self.decide_audit(now, to, out);
        }
    }

    /// Sends sealed packets of this node to a group a second time, to the members that the tree starves.
    #[cold]
    pub(super) fn copy_to_starved(
        &mut self,
        now: Time,
        group: NodeAddr,
        packets: &Burst,
        out: &mut impl Outbox<Node>,
    ) {
        let starved = self.groups.audits.copied(group).to_vec();
        for to in starved {
            let is_introduced = self.groups.audits.is_introduced(group, to);
            let count = packets.segments();
            if is_introduced && !self.audits.budgets.take_copies(now, count) {
                continue;
            }
            let mut sent = 0;
            for place in 0..packets.segments() {
                let datagram = packets.segment(place);
                let packet = &datagram[CLEAR_BYTES..datagram.len() - TAG_BYTES];
                sent += u64::from(self.copy_to(now, to, packet, out));
            }
            self.groups.audits.count_copies(group, to, sent);
        }
    }

    /// Sends a copy to a member. Returns false if there is no room for it on the path. A copy that is too long is sent
    /// in fragments, so that a starved member does not reduce the payload of packets to the others.
    fn copy_to(
        &mut self,
        now: Time,
        to: NodeAddr,
        packet: &[u8],
        out: &mut impl Outbox<Node>,
    ) -> bool {
        let of_group = Header::trusted(packet).repr();
        let from = (self.addr, of_group.source_port);
        let class = Class {
            routing: alone(of_group.class.routing),
            ..of_group.class
        };
        let hop =
            metric(class.routing).and_then(|metric| self.router.tables().next_hop(metric, to));
        let link = hop.and_then(|hop| self.links.by_peer(hop));
        let max = self.room_for_copy(class.routing, to);
        let goes = self.ends.has_session(to) && self.seals_to(to, (from.1, PORT));
        if !goes || max < COPY_ROOM_MIN || !has_room(&self.links, link) {
            return false;
        }
        if class.link == LinkProtocol::Reliable {
            let flow = crate::flow::FlowKey {
                source: self.addr,
                source_port: from.1,
                destination: to,
                destination_port: PORT,
            };
            if !self.has_room(now, class.routing, &flow) {
                return false;
            }
        }
        let seq = self.next_echo_seq();
        let header = Repr {
            remaining: of_group.remaining,
            has_transport: true,
            ..own_header(class, from, (to, PORT), seq)
        };
        let payload = out
            .pool()
            .copy_of(SEALED_HEADROOM + GROUP_COPY_BYTES, packet);
        let Some(mut payload) = payload else {
            drop_one(Drop::NoBuffer, out);
            return true;
        };
        payload.push_front(GROUP_COPY_BYTES);
        let front = payload.bytes_mut().first_chunk_mut();
        begin_group_copy(front.expect("it was just made room for"));
        if payload.len() > max {
            let number = |node: &mut Node| node.next_echo_seq();
            self.send_in_fragments(now, &header, (&[], true), (payload, max), number, out);
            return true;
        }
        let packet = assemble(&header, &[], payload, true, out);
        self.originate_made(now, &header, packet, out);
        true
    }

    /// Returns how many bytes of payload a packet for a single member may have.
    fn room_for_copy(&self, routing: Routing, to: NodeAddr) -> usize {
        let diversion = self.diversion(to);
        let usable = usize::from(self.router.usable_to(routing, to).min(diversion.usable));
        usable.saturating_sub(around_bytes(&[], true) + diversion.stamp_bytes)
    }

    /// Handles a fragment of a packet to a group that was too long for a single packet to this member, after it was
    /// opened.
    pub(in crate::node) fn on_part_of_copy(
        &mut self,
        now: Time,
        mut part: Burst,
        out: &mut impl Outbox<Node>,
    ) {
        let header = Header::trusted(part.bytes());
        let (from, left, offset) = (header.source(), header.remaining(), header.payload_offset());
        let key = Key {
            from: (from, header.source_port()),
            to: self.addr,
            port: PORT,
            id: 0,
        };
        part.trim(offset, 0);
        match self.handover.on_fragment(now, key, left, Some(part), out) {
            Ok((Some(whole), left)) => self.on_group_copy(now, (from, left), whole.bytes(), out),
            Ok((None, _)) => {}
            Err(why) => drop_one(why, out),
        }
    }

    /// Handles a packet to a group that its source has sent to this member alone, after it was opened.
    pub(in crate::node) fn on_group_copy(
        &mut self,
        now: Time,
        (from, left): (NodeAddr, Remaining),
        payload: &[u8],
        out: &mut impl Outbox<Node>,
    ) {
        let Ok(inside) = group_copy(payload) else {
            return drop_one(Drop::Malformed, out);
        };
        let header = Header::trusted(inside);
        let (source, group) = (header.source(), header.destination());
        if source != from {
            return drop_one(Drop::Malformed, out);
        }
        if !self.groups.receives(group, &self.router) {
            return drop_one(Drop::NoMember, out);
        }
        if !self.router.permits().may_send(source, group) {
            return drop_one(Drop::NotPermitted, out);
        }
        let Some(mut one) = out.pool().copy_of(CLEAR_BYTES, inside) else {
            return drop_one(Drop::NoBuffer, out);
        };
        Header::trusted(one.bytes_mut()).set_remaining(left);
        one.push_front(CLEAR_BYTES);
        let len = one.len() + TAG_BYTES;
        one.fill(len, len);
        self.deliver_believed(now, (one, Route::Alone), true, out);
    }
}

impl Groups {
    /// Returns the members of a group that get copies, for status.
    pub(super) fn starved_members(&self, now: Time, group: NodeAddr) -> Vec<StarvedStatus> {
        let status = |member: CopiedMember| StarvedStatus {
            node: member.node.to_string(),
            lost: member.loss,
            lost_since: member.loss_now,
            for_s: now.since(member.since).as_secs_f64(),
            packets: member.packets,
        };
        let members = self.audits.copied_members(group);
        members.map(status).collect()
    }
}

/// Returns the routing to one member for packets that take two trees.
fn alone(routing: Routing) -> Routing {
    match routing {
        Routing::Stamped => Routing::ExpectedLatency,
        by_table => by_table,
    }
}
