//! Groups at the node: joins of clients, what is told of them, and the way of packets.

use super::Node;
use super::ends::is_unsealed;
use super::metric;
use crate::ends::has_seal;
use crate::event::{Drop, Event};
use crate::groups::{Change, Errand, Key, Permit, Permits, Told, View};
use crate::link::LinkIndex;
use crate::link_state::OwnGroups;
use crate::request::{Options, Reply, RequestError};
use base::token_bucket::TokenBucket;
use base::{Burst, ClientId, Duration, Map, NodeAddr, Outbox, Time, VirtualPort};
use graph::Metric;
use secure::Context;
use wire::CLEAR_BYTES;
use wire::certificate::GroupRange;
use wire::data::{Header, LinkProtocol, Routing};
use wire::groups::{Setting, TreeBuilder, Ways};
use wire::ipc::Scheme;

/// The least time between two editions of this node's groups: a client that joins a thousand
/// groups floods some records, not a thousand.
const OWN_GROUPS_SPACING: Duration = Duration::from_millis(20);

/// How often a client that sends to a group to which it may not is told so.
const REFUSED_AGAIN: Duration = Duration::from_secs(1);

/// A source may be ahead of its group's rate by so much: an encoder's burst.
const POLICED_BURST: Duration = Duration::from_millis(250);

/// What this node's sources may still send, in bytes, by group.
pub(super) type Policers = Map<NodeAddr, (u32, TokenBucket)>;

/// Clients that were told within the last second that they may not send to a group, and when again.
pub(super) type Refusing = Map<(ClientId, NodeAddr), Time>;

/// Of so many: beyond, all are forgotten, and are told once more.
const REFUSING_MAX: usize = 1_024;

/// What is told of the node's groups, and when.
#[derive(Debug, Default)]
pub(super) struct Telling {
    /// Not before this moment.
    after: Time,
}

impl Node {
    /// A client joins a group.
    pub(super) fn on_join(
        &mut self,
        client: ClientId,
        (group, port): (NodeAddr, VirtualPort),
    ) -> Result<Reply, RequestError> {
        self.sockets.open(client, &mut self.rng)?;
        if !self.permits().may_receive(self.addr, group) {
            return Err(RequestError::MayNotReceive { group });
        }
        let builder = self.router.builder(group);
        let change = self.groups.join(client, group, port, builder)?;
        self.on_own_change(group, change);
        Ok(Reply::Joined)
    }

    /// A client leaves a group.
    pub(super) fn on_leave(
        &mut self,
        client: ClientId,
        (group, port): (NodeAddr, VirtualPort),
    ) -> Result<Reply, RequestError> {
        let change = self.groups.leave(client, group, port);
        self.resequencer.leave(client, group, port);
        self.on_own_change(group, change);
        Ok(Reply::Left)
    }

    /// A client is gone, and with it its joins.
    pub(super) fn leave_groups(&mut self, client: ClientId) {
        for group in self.groups.close(client) {
            self.on_own_change(group, Change::Left);
        }
    }

    /// How a group is to be carried, or no more in a way of its own.
    pub(super) fn set_group(
        &mut self,
        now: Time,
        (group, prefix): (NodeAddr, u8),
        setting: Option<Setting>,
    ) -> Result<Reply, RequestError> {
        if !wire::groups::is_group(group) {
            return Err(RequestError::NotAGroup);
        }
        match setting {
            None => drop(self.groups.unset(group, prefix)),
            Some(setting) => {
                self.check_may_set(group, prefix)?;
                // Above what anybody has said, and of two operators the later one.
                let known = self.router.database().membership().said_of(group, prefix);
                let above = known.map_or(0, |(_, known)| known.version.saturating_add(1));
                let version = above.max(self.unix_s(now) as u32);
                self.groups.set(Setting { version, ..setting })?;
            }
        }
        Ok(Reply::Done)
    }

    /// Who may send to a group and receive.
    pub(super) fn permit(&mut self, permit: Permit) -> Result<Reply, RequestError> {
        if !wire::groups::is_group(permit.group) {
            return Err(RequestError::NotAGroup);
        }
        if !permit.is_open() {
            self.check_may_set(permit.group, permit.prefix)?;
        }
        self.groups.permit(permit)?;
        Ok(Reply::Done)
    }

    /// What this node's certificate does not cover the others would ignore. That it says something no more is always
    /// possible.
    fn check_may_set(&self, group: NodeAddr, prefix: u8) -> Result<(), RequestError> {
        let own = self.handshakes.identity().certificate().fields();
        match GroupRange::new(group, prefix).is_ok_and(|range| own.may_set(range)) {
            true => Ok(()),
            false => Err(RequestError::MayNotSet { group, prefix }),
        }
    }

    /// Who may, as the network says.
    pub(super) fn permits(&self) -> &Permits {
        self.router.database().membership().permits()
    }

    /// This node has clients in the group, and may receive it.
    #[inline]
    pub(super) fn receives(&self, group: NodeAddr) -> bool {
        self.groups.is_member(group) && self.permits().may_receive(self.addr, group)
    }

    /// A client of this node has sent to a group to which it may not: it is told so, but not for each packet.
    pub(super) fn refuse_sending(
        &mut self,
        now: Time,
        client: ClientId,
        group: NodeAddr,
    ) -> Result<(), RequestError> {
        let again = self.refusing.get(&(client, group));
        if again.is_some_and(|again| now < *again) {
            return Ok(());
        }
        if self.refusing.len() >= REFUSING_MAX {
            self.refusing.clear();
        }
        self.refusing.insert((client, group), now + REFUSED_AGAIN);
        Err(RequestError::MayNotSend { group })
    }

    fn on_own_change(&mut self, group: NodeAddr, change: Change) {
        if change != Change::Nothing && group.is_anycast() {
            self.router.touch();
        }
        if change == Change::Left {
            self.received_keys.leave(group);
        }
        if group.is_multicast() && self.router.builder(group) == TreeBuilder::Scribe {
            match change {
                Change::Entered => self.shared.ask(Errand::Join(group)),
                Change::Left => self.shared.ask(Errand::Leave(group)),
                Change::Nothing => {}
            }
        }
    }

    /// Settings have changed: groups go from one builder of trees to the other.
    fn sort_groups(&mut self) {
        let builder = |group| self.router.builder(group);
        for (group, to) in self.groups.sort(builder) {
            self.shared.ask(match to {
                TreeBuilder::Scribe => Errand::Join(group),
                TreeBuilder::LinkState => Errand::Leave(group),
            });
        }
        self.policers.clear();
    }

    /// Tells what is new of the own groups, and takes in what others tell. Called once per flush,
    /// after the node's certificate is in the database.
    pub(super) fn update_groups(&mut self, now: Time, out: &mut impl Outbox<Node>) {
        let permits = self.router.database_mut().settle_permits();
        if permits {
            self.trees.on_rules_changed();
            self.router.touch();
            self.on_group_keys_changed(now, None);
        }
        let settings = self
            .router
            .database_mut()
            .membership_mut()
            .take_settings_changed();
        if self
            .router
            .database_mut()
            .membership_mut()
            .take_carriage_changed()
        {
            self.trees.on_rules_changed();
        }
        if settings {
            self.sort_groups();
            self.on_group_keys_changed(now, None);
        }
        match self.router.database_mut().take_key_holders_changed() {
            Some(true) => self.on_group_keys_changed(now, None),
            Some(false) => self.sealed_groups.clear(),
            None => {}
        }
        if permits || settings {
            for (by, (group, prefix)) in self.router.database_mut().membership_mut().newly_ignored()
            {
                out.report(Event::GroupsIgnored { by, group, prefix });
            }
        }
        let due: Vec<u8> = self.router.database().groups_to_refresh(now).collect();
        for part in due {
            self.groups.renew(part);
        }
        if self.groups.is_dirty() && now >= self.telling.after {
            self.telling.after = now + OWN_GROUPS_SPACING;
            self.tell_groups(now);
        }
        for group in self.router.database_mut().membership_mut().take_changed() {
            self.trees.on_group_changed(group);
            self.on_group_keys_changed(now, Some(group));
            if group.is_anycast() {
                self.router.touch();
            }
        }
    }

    /// When the own groups are to be told next.
    pub(super) fn telling_at(&self) -> Option<Time> {
        self.groups.is_dirty().then_some(self.telling.after)
    }

    fn tell_groups(&mut self, now: Time) {
        let (identity, network) = (self.handshakes.identity(), self.handshakes.network());
        let certificate_serial = identity.certificate().fields().serial;
        while let Some(Told {
            part,
            members,
            settings,
            permits,
        }) = self.groups.take_dirty()
        {
            let what = OwnGroups {
                part,
                members,
                settings,
                permits,
                certificate_serial,
            };
            let told = self
                .router
                .database_mut()
                .originate_groups(now, what, |signed| {
                    network.sign(identity, Context::Groups, signed)
                });
            let key = told.expect("parts bound themselves to the room of a record");
            self.flood.on_record_accepted(key, None);
        }
    }

    /// The place of the way that packets from `source` to a group take from here.
    pub(super) fn group_slot(
        &mut self,
        now: Time,
        (source, group): (NodeAddr, NodeAddr),
        routing: Routing,
        is_urgent: bool,
    ) -> Result<u32, Drop> {
        // Of stamped packets only those get here that are to take two trees.
        let two_ways = routing == Routing::Stamped;
        let metric = match two_ways {
            true => Metric::ExpectedLatency,
            false => metric(routing).ok_or(Drop::Unsupported)?,
        };
        let key = Key {
            source,
            metric,
            group,
            two_ways,
        };
        let view = View {
            own: self.addr,
            topology: self.router.database().topology(),
            generation: self.router.database().generation(),
            membership: self.router.database().membership(),
            links: &self.links,
            protects: self.settings.realtime.aims.protect.chooses(),
        };
        Ok(self.trees.slot(now, key, is_urgent, view))
    }

    /// Sends a run of opened packets to the branches of their group's tree, and to the group's
    /// clients here; with `takes_second`, also on the links of second ways. `came` is the link that they came by, none for
    /// packets of this node.
    pub(super) fn send_group(
        &mut self,
        now: Time,
        (slot, takes_second): (u32, bool),
        came: Option<LinkIndex>,
        run: Burst,
        out: &mut impl Outbox<Node>,
    ) {
        let upstream = came.map(|link| self.links.at(link).peer);
        let slot = self.trees.at_mut(slot);
        slot.count(now, upstream, run.segments() as u64, run.len() as u64);
        let key = slot.key;
        let group = key.group;
        let mut ways = core::mem::take(&mut self.ways);
        let links = &self.links;
        let is_open = |link: &LinkIndex| Some(*link) != came && links.at(*link).carries();
        ways.extend(slot.links(now).filter(is_open));
        let branches = ways.len();
        if takes_second {
            let longest = run.segment(0).len();
            for link in slot.second_links().iter().filter(|link| is_open(link)) {
                let way = links.at(*link);
                // Copies are no load for a path that has too much already.
                let brake = way.brake.as_ref();
                let is_free = brake.is_none_or(|brake| brake.allows_redundancy());
                let fits = longest <= usize::from(way.path.mtu.usable());
                if is_free && fits && !ways.contains(link) {
                    ways.push(*link);
                }
            }
        }
        let has_ways = slot.has_ways();
        slot.second_packets += ((ways.len() - branches) * run.segments()) as u64;
        let is_member = self.is_delivered_here(group, &run);
        let mut left = ways.len() + usize::from(is_member);
        if left == 0 && !self.receives(group) {
            let packets = run.segments() as u32;
            // The other way has come by here first, or this one ends at the neighbour that it came from.
            let reason = match has_ways {
                true => Drop::DeadEnd,
                false => Drop::NoMember,
            };
            out.report(Event::Dropped { reason, packets });
        }
        // The branches first: for them the packet is not there yet. The last one gets the run.
        let mut run = Some(run);
        for (place, way) in ways.drain(..).enumerate() {
            left -= 1;
            let is_branch = place < branches;
            // Of two ways the other one is the way around.
            if !key.two_ways
                && is_branch
                && self.is_doubtful(now, way)
                && let Some(run) = &run
            {
                self.send_branch_around(now, (key, way), came, run, out);
            }
            if let Some(part) = share(&mut run, left == 0, out) {
                // A copy that finds no room is no packet that the tree has not brought.
                self.send_run(now, way, part, is_branch && came.is_none(), out);
            }
        }
        self.ways = ways;
        if is_member && let Some(part) = share(&mut run, true, out) {
            self.deliver_group(now, part, out);
        }
    }

    /// This node's clients in the group are to get these packets. They have had those that it has sealed itself.
    pub(super) fn is_delivered_here(&self, group: NodeAddr, run: &Burst) -> bool {
        let header = Header::trusted(&run.segment(0)[CLEAR_BYTES..]);
        self.receives(group) && !(header.source() == self.addr && has_seal(&header))
    }

    /// The clients who get what was sent to a group or anycast group and port, into `clients`; who
    /// has sent it from here is not among them.
    pub(super) fn receivers(&self, header: &Header<&[u8]>, clients: &mut Vec<ClientId>) {
        let (group, port) = (header.destination(), header.destination_port());
        let sender = match header.source() == self.addr {
            true => self
                .sockets
                .bound(header.source_port())
                .map(|(client, _)| client),
            false => None,
        };
        let all = self.groups.subscribers(group, port);
        if group.is_anycast() {
            // One is enough, and always the same.
            return clients.extend(all.take(1));
        }
        clients.extend(all.filter(|client| Some(*client) != sender));
    }

    /// The member of an anycast group that is nearest by the metric; none without members in reach.
    /// The lowest address, of several.
    pub(super) fn nearest(&self, group: NodeAddr, metric: Metric) -> Option<NodeAddr> {
        if self.receives(group) {
            return Some(self.addr);
        }
        self.router.nearest(group, metric)
    }

    /// Decides on a packet to a multicast group that is new here and in time.
    pub(super) fn judge_group(
        &mut self,
        now: Time,
        packet: &mut [u8],
        out: &mut impl Outbox<Node>,
    ) -> super::receive::Verdict {
        use super::receive::Verdict;
        let mut header = Header::trusted(&mut *packet);
        let (source, group) = (header.source(), header.destination());
        let routing = header.class().routing;
        // Two trees are a stamp; another extension is that of a copy around a link, or of Scribe's tree.
        let is_around = header.has_extension() && routing != Routing::Stamped;
        if is_around && !self.is_copy_of_tree(group) {
            return Verdict::Shared;
        }
        let ttl = header.ttl();
        if ttl <= 1 {
            if self.receives(group) {
                return Verdict::Members;
            }
            self.drop_one(Drop::TtlExceeded, out);
            return Verdict::Done;
        }
        header.set_ttl(ttl - 1);
        let (lane, is_urgent) = (header.class().link, is_urgent(&header));
        match self.group_slot(now, (source, group), routing, is_urgent) {
            Ok(slot) if is_around => Verdict::Around(slot),
            Ok(slot) => Verdict::Group(slot, self.trees.at(slot).takes_second(lane, is_urgent)),
            Err(reason) => {
                self.drop_one(reason, out);
                Verdict::Done
            }
        }
    }

    /// What the group says of the options of who sends to it.
    pub(super) fn group_options(&self, group: NodeAddr, options: &mut Options) {
        if let Some(setting) = self.router.database().membership().setting(group) {
            let scheme = match setting.ways {
                Ways::Two => Some(Scheme::Disjoint),
                Ways::Auto | Ways::One | Ways::Targeted => options.scheme,
            };
            options.class = setting.class;
            if let Some(scheme) = scheme {
                *options = options.routed_by(scheme);
            }
            options.aim = setting.aim.or(options.aim);
            if setting.deadline_ms > 0 {
                options.deadline = Some(Duration::from_millis(setting.deadline_ms.into()));
            }
        }
    }

    /// A source here may send so many bytes to a group now. What it sends above the group's rate
    /// would take what was promised to others.
    pub(super) fn police(&mut self, now: Time, group: NodeAddr, bytes: usize) -> bool {
        let setting = self.router.database().membership().setting(group);
        let Some(kbps) = setting
            .map(|setting| setting.rate_kbps)
            .filter(|kbps| *kbps > 0)
        else {
            return true;
        };
        let rate = f64::from(kbps) * 125.0;
        let burst = rate * POLICED_BURST.as_secs_f64();
        let new = || (kbps, TokenBucket::new(rate, burst, now));
        let policer = self.policers.entry(group).or_insert_with(new);
        if policer.0 != kbps {
            *policer = new();
        }
        policer.1.try_take(now, bytes as f64)
    }

    /// Sends packets of this node to a group.
    pub(super) fn originate_to_group(
        &mut self,
        now: Time,
        packet: Burst,
        out: &mut impl Outbox<Node>,
    ) {
        if !is_unsealed(&packet) {
            return self.send_to_group(now, packet, out);
        }
        let group = Header::trusted(&packet.bytes()[CLEAR_BYTES..]).destination();
        let mut packet = Some(packet);
        let own = match self.receives(group) {
            true => share(&mut packet, false, out),
            false => None,
        };
        if let Some(packet) = packet
            && let Some(sealed) = self.seal_to_group(now, group, packet, out)
        {
            let is_starved = !self.group_audits.copied(group).is_empty();
            let copy = is_starved.then(|| out.pool().copy_burst(&sealed));
            self.send_to_group(now, sealed, out);
            if let Some(copy) = copy.flatten() {
                self.copy_to_starved(now, group, &copy, out);
            }
        }
        if let Some(own) = own {
            self.deliver_own(now, own, out);
        }
    }

    fn send_to_group(&mut self, now: Time, packet: Burst, out: &mut impl Outbox<Node>) {
        let header = Header::trusted(&packet.bytes()[CLEAR_BYTES..]);
        let (group, routing) = (header.destination(), header.class().routing);
        if header.has_extension() && routing != Routing::Stamped {
            return self.send_shared(now, true, packet, out);
        }
        let (lane, is_urgent) = (header.class().link, is_urgent(&header));
        match self.group_slot(now, (self.addr, group), routing, is_urgent) {
            Ok(slot) => {
                let takes_second = self.trees.at(slot).takes_second(lane, is_urgent);
                self.send_group(now, (slot, takes_second), None, packet, out);
            }
            Err(reason) => self.drop_one(reason, out),
        }
    }
}

/// Packets with a deadline in the real-time lane: those that a node protects by itself.
fn is_urgent<B: AsRef<[u8]>>(header: &Header<B>) -> bool {
    header.class().link == LinkProtocol::RealTime && header.remaining().duration().is_some()
}

/// A copy of the run for one who gets it, the run itself for the last.
pub(super) fn share(
    run: &mut Option<Burst>,
    is_last: bool,
    out: &mut impl Outbox<Node>,
) -> Option<Burst> {
    if is_last {
        return run.take();
    }
    let whole = run.as_ref()?;
    let copy = out.pool().copy_burst(whole);
    if copy.is_none() {
        let packets = whole.segments() as u32;
        let reason = Drop::NoBuffer;
        out.report(Event::Dropped { reason, packets });
    }
    copy
}
