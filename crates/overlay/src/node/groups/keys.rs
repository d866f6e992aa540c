//! Sealed groups at the node: which packets are sealed, which are opened and believed, and the messages that carry
//! keys. [`crate::group_keys`] has the keys.
//!
//! ```text
//!   on_send ─▶ laid out for the seal ─▶ originate_to_group ─▶ sealed ─▶ tree
//!                                            └ a copy for this node's own clients
//!   judge_flow ─▶ receives the group: a copy of what was here? ─▶ branches of the tree
//!                                                                    └▶ deliver_group: opened, its flow judged
//! ```
//! A node that receives a group and also forwards it recognizes copies only by their marks, as relays do. Numbers count
//! where they can be believed: behind the seal. So packets that others write in a source's name do not harm its
//! receivers.

use crate::ends::{PORT, is_own};
use crate::ends::{has_seal, uncover};
use crate::event::Drop;
use crate::flow::{self, FlowKey, Mark};
use crate::group_keys::{OwnKeys, ReceivedKeys, Waiting, WaitingPackets};
use crate::node::Node;
use crate::node::ends::{Around, CLASS, tag_of, whole_of};
use crate::node::receive::{Verdict, drop_one, drop_some, ends_here};
use crate::node::router::Router;
use crate::node::send::message;
use crate::settings::Sealing;
use base::{Burst, Map, NodeAddr, Outbox, Pool, Time};
use secure::{Network, Route};
use wire::data::{FlowSeq, Header, LinkProtocol};
use wire::groups::TreeBuilder;
use wire::link::{Clear, Kind};
use wire::transport::{GROUP_KEY_BYTES_MAX, GroupKey, KeyName, KeyRefusal};
use wire::{CLEAR_BYTES, TAG_BYTES};

/// Number of groups for which it is remembered whether all members can open sealed packets.
const REMEMBERED_MAX: usize = 4_096;

/// The keys of groups at a node.
#[derive(Debug)]
pub(super) struct Keys {
    sealing: Sealing,
    /// The keys with which this node seals.
    pub(super) own: OwnKeys,
    /// The keys with which this node opens.
    pub(super) received: ReceivedKeys,
    /// The packets whose keys this node does not have yet.
    pub(super) waiting: WaitingPackets,
    /// Whether all members of a group can open packets sealed for it.
    pub(super) openable: Map<NodeAddr, bool>,
}

impl Keys {
    pub(super) fn new(network: &Network, seed: &[u8; 32], sealing: Sealing) -> Keys {
        Keys {
            sealing,
            own: OwnKeys::new(network, seed),
            received: ReceivedKeys::new(),
            waiting: WaitingPackets::default(),
            openable: Map::default(),
        }
    }

    /// Returns true if packets to a group are to be sealed.
    #[inline]
    pub(super) fn seals(&mut self, group: NodeAddr, router: &Router) -> bool {
        self.sealing != Sealing::Off && group.is_multicast() && self.can_open(group, router)
    }

    /// The same, for callers that ask only occasionally.
    pub(super) fn is_sealed(&self, group: NodeAddr, router: &Router) -> bool {
        self.sealing != Sealing::Off && lacks_keys(group, router).next().is_none()
    }

    /// Returns true if all members of a group, as far as this node knows them, open packets sealed for it. The members
    /// of a group of Scribe can be any nodes.
    fn can_open(&mut self, group: NodeAddr, router: &Router) -> bool {
        if let Some(known) = self.openable.get(&group) {
            return *known;
        }
        if self.openable.len() >= REMEMBERED_MAX {
            self.openable.clear();
        }
        let can = lacks_keys(group, router).next().is_none();
        self.openable.insert(group, can);
        can
    }

    /// Returns true if an unsealed packet to a group may be from the source that it names: the source has no keys of
    /// groups, or not all members could open a sealed packet.
    fn believes_open(&mut self, (source, group): (NodeAddr, NodeAddr), router: &Router) -> bool {
        let database = router.database();
        let has_keys = database.has_group_keys(source)
            || database.links_of(source).is_none() && self.received.has((source, group));
        self.sealing != Sealing::Always && (!has_keys || !self.can_open(group, router))
    }

    /// Keeps a packet until its key arrives, and asks for the key. Returns false if the packet is not kept.
    fn wait(
        &mut self,
        now: Time,
        (packet, route): (&[u8], Route),
        pool: &Pool,
        router: &Router,
    ) -> bool {
        let header = Header::trusted(packet);
        let of = (header.source(), header.destination());
        if !router.database().has_group_keys(of.0) {
            return false;
        }
        let is_kept = self.waiting.wait(now, (packet, route), pool);
        if let Ok(clear) = Clear::parse(header.payload()) {
            self.received.ask(now, of, clear.session);
        }
        is_kept
    }

    /// Members of a group have changed.
    pub(super) fn on_changed(&mut self, now: Time, group: NodeAddr) {
        self.openable.remove(&group);
        self.own.on_changed(now, group);
    }

    /// Permits or nodes have changed, and so may the members of any group.
    pub(super) fn on_all_changed(&mut self, now: Time) {
        self.openable.clear();
        self.own.on_all_changed(now);
    }

    /// Slow housekeeping.
    pub(super) fn expire(&mut self, now: Time) {
        self.own.tend(now);
        self.received.expire(now);
        self.waiting.expire(now);
    }

    /// Returns when members are to get keys, or sources are to be asked for them.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        let own = self.own.next_timeout();
        let all = [
            own,
            self.received.next_timeout(),
            self.waiting.next_timeout(),
        ];
        all.into_iter().flatten().min()
    }
}

/// Returns the members of a group that do not open packets sealed for it. A member without a known record at present is
/// assumed to open them: otherwise somebody could make a group unsealed by withholding a record.
pub(super) fn lacks_keys(group: NodeAddr, router: &Router) -> impl Iterator<Item = NodeAddr> + '_ {
    let database = router.database();
    let (records, all) = match router.builder(group) {
        TreeBuilder::LinkState => (Some(database.membership().receivers(group)), None),
        TreeBuilder::Scribe => (None, Some(database.nodes())),
    };
    let nodes = records
        .into_iter()
        .flatten()
        .chain(all.into_iter().flatten());
    let lacks =
        move |node: NodeAddr| database.links_of(node).is_some() && !database.has_group_keys(node);
    nodes.filter(move |node| *node != router.own() && lacks(*node))
}

impl Node {
    /// Seals packets of this node to a group. `None` if they are dropped.
    pub(super) fn seal_to_group(
        &mut self,
        now: Time,
        group: NodeAddr,
        mut packets: Burst,
        out: &mut impl Outbox<Node>,
    ) -> Option<Burst> {
        let sealed = self.groups.keys.own.prepare(now, group).and_then(|is_new| {
            if is_new {
                // The key goes first.
                self.tell_key(now, group, out);
            }
            self.groups.keys.own.seal(group, &mut packets)
        });
        match sealed {
            Ok(counters) => {
                self.note_to_group(now, counters, &packets);
                Some(packets)
            }
            Err(reason) => {
                drop_some(reason, packets.segments() as u32, out);
                None
            }
        }
    }

    /// Delivers packets of this node to its own clients in the group, as they were before they were sealed.
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

    /// Decides on a packet to a group that this node receives; nothing in the packet is believed yet.
    pub(in crate::node) fn judge_received(
        &mut self,
        now: Time,
        packet: &mut [u8],
    ) -> Result<Verdict, Drop> {
        let header = Header::trusted(&*packet);
        let (key, seq) = (FlowKey::of(&header), header.flow_seq());
        // The node before this one wrote the time left: a late copy must not make a duplicate of one in time.
        if header.remaining().is_expired() {
            self.flows.on_expired(now, key);
            return Err(Drop::Expired);
        }
        let tag = tag_of(packet);
        let mark = Mark {
            tag: tag.unwrap_or_else(|| number_mark(seq)),
            is_final: tag.is_none(),
            whole: || whole_of(&self.marks, packet),
        };
        // Nor must a copy that ends here: the nodes behind this one are still to get the packet.
        if !ends_here(&header) && self.flows.is_repeated(now, key, (seq, mark)) {
            return Err(Drop::Duplicate);
        }
        self.groups.judge(now, packet, (&self.router, &self.links))
    }

    /// Delivers packets to a group whose whole opened datagrams are in the burst.
    pub(in crate::node) fn deliver_group(
        &mut self,
        now: Time,
        mut run: Burst,
        out: &mut impl Outbox<Node>,
    ) {
        while let Some(one) = next_of(&mut run) {
            let header = Header::trusted(&one.bytes()[CLEAR_BYTES..]);
            if header.source() == self.addr || self.settings.sealing == Sealing::Off {
                self.deliver_one(now, Around::HOP, one, out);
            } else {
                self.deliver_believed(now, (one, Route::Tree), true, out);
            }
        }
    }

    /// Delivers a packet of another node to a group if it is as its source sent it and has arrived for the first time.
    /// A packet without a known key waits for the key, if it `may_wait`.
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
            let keys = &mut self.groups.keys;
            if may_wait
                && keys.waiting.is_behind(&Header::trusted(&*packet))
                && keys.waiting.wait(now, (packet, route), out.pool())
            {
                return;
            }
            match keys.received.open(now, route, packet) {
                Ok(()) => Around::END,
                Err(reason) => {
                    if reason == Drop::EndNoSession
                        && may_wait
                        && keys.wait(now, (packet, route), out.pool(), &self.router)
                    {
                        return;
                    }
                    if reason == Drop::Duplicate {
                        self.flows.on_duplicate(key);
                    }
                    return drop_one(reason, out);
                }
            }
        } else if self.groups.keys.believes_open(of, &self.router) {
            Around::HOP
        } else {
            return drop_one(Drop::EndUnsealed, out);
        };
        let packet = &one.bytes()[around.front..one.len() - around.back];
        let header = Header::trusted(packet);
        let (key, seq) = (FlowKey::of(&header), header.flow_seq());
        let is_late = header.class().link == LinkProtocol::Reliable;
        let (verdict, flow) =
            self.flows
                .on_delivered(now, key, (seq, is_late, around.is_end()), packet.len());
        if verdict != flow::Verdict::New {
            return drop_one(Drop::Duplicate, out);
        }
        flow.class = header.class();
        flow.expect_repairs(header.remaining().duration());
        flow.recovered += u64::from(header.is_recovered());
        self.deliver_one(now, around, one, out);
    }

    /// Handles a message about keys, after it was opened.
    pub(in crate::node) fn on_group_key(
        &mut self,
        now: Time,
        packet: &[u8],
        out: &mut impl Outbox<Node>,
    ) {
        let header = Header::trusted(packet);
        let source = header.source();
        if !is_own(&header) || header.destination() != self.addr {
            return drop_one(Drop::Malformed, out);
        }
        match GroupKey::parse(header.payload()) {
            Err(_) => drop_one(Drop::Malformed, out),
            Ok(_) if self.settings.sealing == Sealing::Off => {
                drop_one(Drop::Unsupported, out);
            }
            Ok(GroupKey::Asked(name)) => self.answer_key(now, source, name, out),
            // The record that makes this node a member is on its way: the node asks again while packets arrive.
            Ok(GroupKey::Refused(_, KeyRefusal::NotMember)) => {}
            Ok(GroupKey::Refused(name, _)) => {
                self.groups
                    .keys
                    .received
                    .on_refused(now, (source, name.group), name.number);
            }
            Ok(GroupKey::Told { name, first, key }) => {
                if !self.groups.receives(name.group, &self.router) {
                    return drop_one(Drop::NoMember, out);
                }
                let key = self.groups.keys.own.opening(name.number, key, first);
                let of = (source, name.group);
                let is_new = !self.groups.keys.received.has_number(of, name.number);
                let is_asked_for = self.groups.keys.received.insert(now, of, key);
                if is_new && !is_asked_for && self.router.builder(name.group) == TreeBuilder::Scribe
                {
                    // The source sees no members: it sends the next key to nodes that have asked for this one.
                    self.send_key(now, source, &GroupKey::Asked(name), out);
                }
                self.groups.keys.waiting.release(now, (of, name.number));
            }
        }
    }

    /// A node asks for the key of a group. It gets the key if it may receive the group and, if records name the
    /// members, is a member.
    fn answer_key(
        &mut self,
        now: Time,
        from: NodeAddr,
        name: KeyName,
        out: &mut impl Outbox<Node>,
    ) {
        let KeyName { group, number } = name;
        let is_named = self.router.builder(group) == TreeBuilder::LinkState;
        let refusal = if !self.router.permits().may_receive(from, group) {
            KeyRefusal::NotPermitted
        } else if !self.groups.keys.own.has(group) {
            KeyRefusal::NoKey
        } else if is_named && !self.router.membership().is_member(from, group) {
            KeyRefusal::NotMember
        } else {
            let telling = self.groups.keys.own.answer(now, (group, number), from);
            if let Some(telling) = telling {
                self.send_key_bytes(now, from, telling.bytes(), out);
            }
            return;
        };
        drop_one(Drop::NotPermitted, out);
        if self.groups.keys.own.take_refusal(now) {
            self.send_key(now, from, &GroupKey::Refused(name, refusal), out);
        }
    }

    /// Delivers a packet that has waited for its key.
    fn deliver_waited(&mut self, now: Time, waited: Waiting, out: &mut impl Outbox<Node>) {
        let (mut packet, route) = (waited.packet, waited.route);
        let mut header = Header::trusted(&mut packet.bytes_mut()[CLEAR_BYTES..]);
        let left = header.remaining().minus(now.since(waited.at));
        header.set_remaining(left);
        match left.is_expired() {
            true => drop_one(Drop::Expired, out),
            false => self.deliver_believed(now, (packet, route), false, out),
        }
    }

    /// Delivers what has waited for keys, asks for keys, and sends members the keys that they lack. Called once per
    /// flush.
    pub(in crate::node) fn drive_group_keys(&mut self, now: Time, out: &mut impl Outbox<Node>) {
        for waited in self.groups.keys.waiting.take_ready(now) {
            self.deliver_waited(now, waited, out);
        }
        for ((source, group), number) in self.groups.keys.received.take_to_ask(now) {
            // The key has arrived meanwhile, or the node has left the group.
            if self
                .groups
                .keys
                .received
                .has_number((source, group), number)
                || !self.groups.receives(group, &self.router)
            {
                continue;
            }
            let name = KeyName { group, number };
            self.send_key(now, source, &GroupKey::Asked(name), out);
        }
        for group in self.groups.keys.own.due(now) {
            self.tell_key(now, group, out);
        }
    }

    /// Sends the key of one group to the members that lack it.
    fn tell_key(&mut self, now: Time, group: NodeAddr, out: &mut impl Outbox<Node>) {
        let is_named = self.router.builder(group) == TreeBuilder::LinkState;
        let membership = self.router.membership();
        let (own, database) = (self.addr, self.router.database());
        let named = is_named.then(|| {
            let named = membership.receivers(group);
            named.filter(|node| *node != own && database.has_group_keys(*node))
        });
        let may = |node: NodeAddr| {
            let is_member = !is_named || membership.is_member(node, group);
            is_member && membership.permits().may_receive(node, group)
        };
        for to in self.groups.keys.own.lacking(now, group, named, may) {
            for telling in self.groups.keys.own.tell(now, group, to) {
                self.send_key_bytes(now, to, telling.bytes(), out);
            }
        }
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
            return drop_one(Drop::EndNoSession, out);
        }
        let header = self.message_header(CLASS, to);
        let packet = message(&header, (&[], true), bytes, out);
        self.originate_made(now, &header, packet, out);
    }
}

/// Returns the next packet of a run.
fn next_of(run: &mut Burst) -> Option<Burst> {
    (!run.is_empty()).then(|| run.split_front(1))
}

/// Returns the mark of an unsealed packet, in place of a tag: its number.
fn number_mark(seq: FlowSeq) -> u32 {
    seq.0.rotate_left(16) | 1
}
