//! Sealed groups at the node: who seals, what is opened and believed, and the messages that carry keys.
//! [`crate::group_keys`] has the keys.
//!
//! ```text
//!   on_send ─▶ laid out for the seal ─▶ originate_to_group ─▶ sealed ─▶ tree
//!                                            └ a copy for this node's own clients
//!   judge_flow ─▶ receives the group: a copy of what was here? ─▶ branches of the tree
//!                                                                    └▶ deliver_group: opened, its flow judged
//! ```
//! A node that receives a group and passes it on knows copies by their marks alone, as relays do. Numbers count where
//! they can be believed: behind the seal. So what others write in a source's name costs its receivers nothing.

use super::Node;
use super::ends::{Around, PORT, is_own, tag_of, whole_of};
use super::receive::{Verdict, ends_here};
use super::send::{assemble, own_header};
use crate::ends::{has_seal, uncover};
use crate::event::{Drop, Event};
use crate::flow::{self, FlowKey, Mark};
use crate::settings::Sealing;
use base::{Burst, NodeAddr, Outbox, Time};
use secure::Route;
use wire::data::{FlowSeq, Header, LinkProtocol};
use wire::groups::TreeBuilder;
use wire::link::{Clear, Kind};
use wire::transport::{GROUP_KEY_BYTES_MAX, GroupKey, KeyName, KeyRefusal};
use wire::{CLEAR_BYTES, SEALED_HEADROOM, TAG_BYTES};

/// Groups of which it is remembered whether all members can open what is sealed.
const REMEMBERED_MAX: usize = 4_096;

impl Node {
    /// What goes to a group is to be sealed.
    #[inline]
    pub(super) fn seals_group(&mut self, group: NodeAddr) -> bool {
        self.settings.sealing != Sealing::Off && group.is_multicast() && self.can_open(group)
    }

    /// The same, for whoever looks once in a while.
    pub(super) fn is_sealed(&self, group: NodeAddr) -> bool {
        self.settings.sealing != Sealing::Off && self.lacks_keys(group).next().is_none()
    }

    /// All members of a group, as far as this node knows them, open what is sealed for it. Those of a group of
    /// Scribe can be any nodes.
    fn can_open(&mut self, group: NodeAddr) -> bool {
        if let Some(known) = self.sealed_groups.get(&group) {
            return *known;
        }
        if self.sealed_groups.len() >= REMEMBERED_MAX {
            self.sealed_groups.clear();
        }
        let can = self.lacks_keys(group).next().is_none();
        self.sealed_groups.insert(group, can);
        can
    }

    /// The members of a group that do not open what is sealed for it. Of whom nothing is known at present opens it as
    /// far as this node knows: nobody can have a group carried in the open by holding a record back.
    pub(super) fn lacks_keys(&self, group: NodeAddr) -> impl Iterator<Item = NodeAddr> + '_ {
        let (records, all) = match self.router.builder(group) {
            TreeBuilder::LinkState => (
                Some(self.router.database().membership().receivers(group)),
                None,
            ),
            TreeBuilder::Scribe => (None, Some(self.router.database().nodes())),
        };
        let nodes = records
            .into_iter()
            .flatten()
            .chain(all.into_iter().flatten());
        let database = self.router.database();
        let lacks = move |node: NodeAddr| {
            database.links_of(node).is_some() && !database.has_group_keys(node)
        };
        nodes.filter(move |node| *node != self.addr && lacks(*node))
    }

    /// Members, permits or nodes have changed: of a group, or of any.
    pub(super) fn on_group_keys_changed(&mut self, now: Time, group: Option<NodeAddr>) {
        match group {
            Some(group) => {
                self.group_audits.on_changed(Some(group));
                self.sealed_groups.remove(&group);
                self.own_keys.on_changed(now, group);
            }
            None => {
                self.group_audits.on_changed(None);
                self.sealed_groups.clear();
                self.own_keys.on_all_changed(now);
            }
        }
    }

    /// Seals packets of this node to a group. `None` if they are dropped.
    pub(super) fn seal_to_group(
        &mut self,
        now: Time,
        group: NodeAddr,
        mut packets: Burst,
        out: &mut impl Outbox<Node>,
    ) -> Option<Burst> {
        let sealed = self.own_keys.prepare(now, group).and_then(|is_new| {
            if is_new {
                // The key goes first.
                self.tell_key(now, group, out);
            }
            self.own_keys.seal(group, &mut packets)
        });
        match sealed {
            Ok(counters) => {
                self.note_to_group(now, counters, &packets);
                Some(packets)
            }
            Err(reason) => {
                let packets = packets.segments() as u32;
                out.report(Event::Dropped { reason, packets });
                None
            }
        }
    }

    /// Delivers packets of this node to its own clients in the group: as they were before they were sealed.
    pub(super) fn deliver_own(&mut self, now: Time, mut run: Burst, out: &mut impl Outbox<Node>) {
        while let Some(mut one) = next_of(&mut run) {
            let end = one.len() - TAG_BYTES;
            let packet = &mut one.bytes_mut()[CLEAR_BYTES..end];
            let header = Header::trusted(&*packet);
            let (from, kind) = (header.payload_offset(), Kind::of(header.payload()));
            uncover(packet, from, kind.unwrap_or(Kind::Data));
            self.deliver_one(now, Around::END, one, out);
        }
    }

    /// Decides on a packet to a group that this node receives, of which nothing is believed yet.
    pub(super) fn judge_received(
        &mut self,
        now: Time,
        packet: &mut [u8],
        out: &mut impl Outbox<Node>,
    ) -> Verdict {
        let header = Header::trusted(&*packet);
        let (key, seq) = (FlowKey::of(&header), header.flow_seq());
        // The time left is what whoever has passed it on says: a late copy must not make a duplicate of one in time.
        if header.remaining().is_expired() {
            self.flows.on_expired(now, key);
            self.drop_one(Drop::Expired, out);
            return Verdict::Done;
        }
        let tag = tag_of(packet);
        let mark = Mark {
            tag: tag.unwrap_or_else(|| number_mark(seq)),
            is_final: tag.is_none(),
            whole: || whole_of(&self.marks, packet),
        };
        // Nor must one that ends here: those behind this node are still to get the packet.
        if !ends_here(&header) && self.flows.is_repeated(now, key, (seq, mark)) {
            self.drop_one(Drop::Duplicate, out);
            return Verdict::Done;
        }
        self.judge_group(now, packet, out)
    }

    /// Delivers packets to a group, of which the burst holds the whole opened datagrams.
    pub(super) fn deliver_group(&mut self, now: Time, mut run: Burst, out: &mut impl Outbox<Node>) {
        while let Some(one) = next_of(&mut run) {
            let header = Header::trusted(&one.bytes()[CLEAR_BYTES..]);
            if header.source() == self.addr || self.settings.sealing == Sealing::Off {
                self.deliver_one(now, Around::HOP, one, out);
            } else {
                self.deliver_believed(now, (one, Route::Tree), true, out);
            }
        }
    }

    /// Delivers a packet of another node to a group if it is as its source has sent it, and is here for the first
    /// time. One whose key is not there waits for it, if it `may_wait`.
    pub(super) fn deliver_believed(
        &mut self,
        now: Time,
        (mut one, route): (Burst, Route),
        may_wait: bool,
        out: &mut impl Outbox<Node>,
    ) {
        let end = one.len() - TAG_BYTES;
        let packet = &mut one.bytes_mut()[CLEAR_BYTES..end];
        let header = Header::trusted(&*packet);
        let of = (header.source(), header.destination());
        let around = if has_seal(&header) {
            let key = FlowKey::of(&header);
            match self.received_keys.open(now, route, packet) {
                Ok(()) => Around::END,
                Err(Drop::EndNoSession) if may_wait => {
                    return self.wait_for_key(now, (packet, route), out);
                }
                Err(reason) => {
                    if reason == Drop::Duplicate {
                        self.flows.on_duplicate(key);
                    }
                    return self.drop_one(reason, out);
                }
            }
        } else if self.believes_open(of) {
            Around::HOP
        } else {
            return self.drop_one(Drop::EndUnsealed, out);
        };
        let packet = &one.bytes()[around.front..one.len() - around.back];
        let header = Header::trusted(packet);
        let (key, seq) = (FlowKey::of(&header), header.flow_seq());
        let is_late = header.class().link == LinkProtocol::Reliable;
        let (verdict, flow) =
            self.flows
                .on_delivered(now, key, (seq, is_late, around.is_end()), packet.len());
        if verdict != flow::Verdict::New {
            return self.drop_one(Drop::Duplicate, out);
        }
        flow.class = header.class();
        flow.recovered += u64::from(header.is_recovered());
        self.deliver_one(now, around, one, out);
    }

    /// A packet to a group in the open may be from whom it names: its source has no keys of groups, or not all
    /// members could open it.
    fn believes_open(&mut self, (source, group): (NodeAddr, NodeAddr)) -> bool {
        let has_keys = self.router.database().has_group_keys(source)
            || self.router.database().links_of(source).is_none()
                && self.received_keys.has((source, group));
        self.settings.sealing != Sealing::Always && (!has_keys || !self.can_open(group))
    }

    fn wait_for_key(
        &mut self,
        now: Time,
        (packet, route): (&[u8], Route),
        out: &mut impl Outbox<Node>,
    ) {
        let header = Header::trusted(packet);
        let of = (header.source(), header.destination());
        let number = Clear::parse(header.payload()).map(|clear| clear.session);
        let is_kept = self.router.database().has_group_keys(of.0)
            && self.received_keys.wait(now, (packet, route), out.pool());
        if !is_kept {
            self.drop_one(Drop::EndNoSession, out);
        }
        if let Ok(number) = number
            && self.router.database().has_group_keys(of.0)
        {
            self.received_keys.ask(now, of, number);
        }
    }

    /// A message about keys has come, out of its seal.
    pub(super) fn on_group_key(&mut self, now: Time, packet: &[u8], out: &mut impl Outbox<Node>) {
        let header = Header::trusted(packet);
        let source = header.source();
        if !is_own(&header) || header.destination() != self.addr {
            return self.drop_one(Drop::Malformed, out);
        }
        match GroupKey::parse(header.payload()) {
            Err(_) => self.drop_one(Drop::Malformed, out),
            Ok(_) if self.settings.sealing == Sealing::Off => {
                self.drop_one(Drop::Unsupported, out);
            }
            Ok(GroupKey::Asked(name)) => self.answer_key(now, source, name, out),
            // The record that makes it a member is under way: it is asked again while packets come.
            Ok(GroupKey::Refused(_, KeyRefusal::NotMember)) => {}
            Ok(GroupKey::Refused(name, _)) => {
                self.received_keys
                    .on_refused(now, (source, name.group), name.number);
            }
            Ok(GroupKey::Told { name, first, key }) => {
                if !self.receives(name.group) {
                    return self.drop_one(Drop::NoMember, out);
                }
                let key = self.own_keys.opening(name.number, key, first);
                let of = (source, name.group);
                let is_new = !self.received_keys.has_number(of, name.number);
                let is_asked_for = self.received_keys.insert(now, of, key);
                if is_new && !is_asked_for && self.router.builder(name.group) == TreeBuilder::Scribe
                {
                    // The source sees no members: it tells the next key who has asked for this one.
                    self.send_key(now, source, &GroupKey::Asked(name), out);
                }
                for waiting in self.received_keys.take_waiting(of, name.number) {
                    let (mut packet, route) = (waiting.packet, waiting.route);
                    let mut header = Header::trusted(&mut packet.bytes_mut()[CLEAR_BYTES..]);
                    let left = header.remaining().minus(now.since(waiting.at));
                    header.set_remaining(left);
                    match left.is_expired() {
                        true => self.drop_one(Drop::Expired, out),
                        false => self.deliver_believed(now, (packet, route), false, out),
                    }
                }
            }
        }
    }

    /// A node asks for the key of a group. It gets it if it may receive the group and, where records name the
    /// members, is one.
    fn answer_key(
        &mut self,
        now: Time,
        from: NodeAddr,
        name: KeyName,
        out: &mut impl Outbox<Node>,
    ) {
        let KeyName { group, number } = name;
        let is_named = self.router.builder(group) == TreeBuilder::LinkState;
        let refusal = if !self.permits().may_receive(from, group) {
            KeyRefusal::NotPermitted
        } else if !self.own_keys.has(group) {
            KeyRefusal::NoKey
        } else if is_named && !self.router.database().membership().is_member(from, group) {
            KeyRefusal::NotMember
        } else {
            let mut bytes = [0; GROUP_KEY_BYTES_MAX];
            let Some(telling) = self.own_keys.answer(now, (group, number), from) else {
                return;
            };
            let len = telling.message().emit(&mut bytes);
            let len = len.expect("it is as long as the longest message");
            return self.send_key_bytes(now, from, &bytes[..len], out);
        };
        self.drop_one(Drop::NotPermitted, out);
        if self.own_keys.take_refusal(now) {
            self.send_key(now, from, &GroupKey::Refused(name, refusal), out);
        }
    }

    /// Asks for keys, and tells members those that they lack. Called once per flush.
    pub(super) fn drive_group_keys(&mut self, now: Time, out: &mut impl Outbox<Node>) {
        for ((source, group), number) in self.received_keys.take_to_ask(now) {
            // It has come meanwhile, or the group was left.
            if self.received_keys.has_number((source, group), number) || !self.receives(group) {
                continue;
            }
            let name = KeyName { group, number };
            self.send_key(now, source, &GroupKey::Asked(name), out);
        }
        for group in self.own_keys.due(now) {
            self.tell_key(now, group, out);
        }
    }

    /// The same of one group.
    fn tell_key(&mut self, now: Time, group: NodeAddr, out: &mut impl Outbox<Node>) {
        let is_named = self.router.builder(group) == TreeBuilder::LinkState;
        let membership = self.router.database().membership();
        let (own, database) = (self.addr, self.router.database());
        let named = membership.receivers(group).filter(|_| is_named);
        let named = named.filter(|node| *node != own && database.has_group_keys(*node));
        let may = |node: NodeAddr| {
            let is_member = !is_named || membership.is_member(node, group);
            is_member && membership.permits().may_receive(node, group)
        };
        for to in self.own_keys.lacking(now, group, named, may) {
            let mut bytes = [0; GROUP_KEY_BYTES_MAX];
            let Some(telling) = self.own_keys.tell(now, group, to) else {
                continue;
            };
            let len = telling.message().emit(&mut bytes);
            let len = len.expect("it is as long as the longest message");
            self.send_key_bytes(now, to, &bytes[..len], out);
        }
    }

    /// Slow housekeeping of keys of groups.
    pub(super) fn tend_group_keys(&mut self, now: Time) {
        self.own_keys.tend(now);
        self.received_keys.expire(now);
    }

    fn send_key(
        &mut self,
        now: Time,
        to: NodeAddr,
        message: &GroupKey<'_>,
        out: &mut impl Outbox<Node>,
    ) {
        let mut bytes = [0; GROUP_KEY_BYTES_MAX];
        let len = message.emit(&mut bytes);
        let len = len.expect("it is as long as the longest message");
        self.send_key_bytes(now, to, &bytes[..len], out);
    }

    /// Sends a message about keys: sealed from end to end, or not at all.
    fn send_key_bytes(
        &mut self,
        now: Time,
        to: NodeAddr,
        bytes: &[u8],
        out: &mut impl Outbox<Node>,
    ) {
        if !self.seals_to(to, (PORT, PORT)) {
            return self.drop_one(Drop::EndNoSession, out);
        }
        let seq = self.next_echo_seq();
        let mut header = own_header(super::ends::CLASS, (self.addr, PORT), (to, PORT), seq);
        header.has_transport = true;
        let payload = out.pool().copy_of(SEALED_HEADROOM, bytes);
        match payload.and_then(|payload| assemble(&header, &[], payload, true, out)) {
            Some(packet) => self.originate(now, &header, packet, out),
            None => self.drop_one(Drop::NoBuffer, out),
        }
    }
}

/// The next packet of a run.
fn next_of(run: &mut Burst) -> Option<Burst> {
    (!run.is_empty()).then(|| run.split_front(1))
}

/// What a packet in the open is known by, in place of a tag: its number.
fn number_mark(seq: FlowSeq) -> u32 {
    seq.0.rotate_left(16) | 1
}
